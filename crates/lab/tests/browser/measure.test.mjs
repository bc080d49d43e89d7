// What the page promises in figures. They are printed; the limits have slack for a machine that is busy with other things.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { root, runRoute, SLACK, startLab } from "./harness.mjs";

let lab;
before(async () => { lab = await startLab(); });
after(() => lab?.stop());

/** @param {string} what @param {number} value @param {string} unit @param {number} limit */
function measured(what, value, unit, limit) {
  console.log(`measured: ${what}: ${Math.round(value * 10) / 10} ${unit} (promised: ${limit} ${unit})`);
  return value;
}
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

test("the first diagram of five processes is there within a second", async () => {
  const times = [];
  for (let round = 0; round < 3; round++) {
    const page = await lab.page({ route: runRoute({ algorithm: "ricart-agrawala", options: { n: 5 } }) });
    await page.locator(".canvas-holder canvas").waitFor();
    times.push(await page.evaluate(() => new Promise((done) => {
      const look = () => {
        const canvas = document.querySelector(".canvas-holder canvas");
        const { data } = canvas.getContext("2d").getImageData(0, canvas.height >> 1, canvas.width, 1);
        // The row in the middle has more than background: a lane is there.
        if (data.some((value, at) => at % 4 !== 3 && value !== data[at % 4])) done(performance.now());
        else requestAnimationFrame(look);
      };
      look();
    })));
    await page.done();
  }
  assert.ok(measured("first diagram after opening the page, n = 5", median(times), "ms", 1000) < 1000 * SLACK);
});

test("a step and the frames of 100,000 events", async () => {
  const page = await lab.page({ route: runRoute({ algorithm: "suzuki-kasami", options: { n: 20, entries: "115" } }, 20_000) });
  await page.locator('.stage [data-at="20000"]').waitFor({ state: "attached" });
  const events = await page.evaluate(async () => Number((await (await fetch(`api/v1/runs/${performance.getEntriesByType("resource").map(({ name }) => /runs\/([0-9a-f]+)\/index/.exec(name)?.[1]).find(Boolean)}`)).json()).events));
  assert.ok(events > 95_000, `${events} events`);

  const steps = await page.evaluate(async () => {
    const times = [];
    for (let round = 0; round < 15; round++) {
      const began = performance.now();
      const shown = document.querySelector(".tab [data-at]");
      const wanted = String(Number(shown.dataset.at) + 1);
      const there = new Promise((done) => {
        const watch = new MutationObserver(() => {
          if (shown.dataset.at !== wanted) return;
          watch.disconnect();
          done();
        });
        watch.observe(shown, { attributes: true });
      });
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
      await there;
      times.push(performance.now() - began);
    }
    return times;
  });
  assert.ok(measured("a step at 100,000 events, until its state is shown", median(steps), "ms", 50) < 50 * SLACK);

  for (const [name, key] of [["in arrows", null], ["as densities", "0"]]) {
    if (key) await page.keyboard.press(key);
    const frames = await page.evaluate(async () => {
      const canvas = document.querySelector(".canvas-holder canvas");
      const box = canvas.getBoundingClientRect();
      const began = performance.now();
      let count = 0;
      while (performance.now() - began < 1500) {
        canvas.dispatchEvent(new WheelEvent("wheel", { deltaX: count % 40 < 20 ? 25 : -24, clientX: box.left + 300, clientY: box.top + 150, bubbles: true, cancelable: true }));
        await new Promise((next) => requestAnimationFrame(next));
        count++;
      }
      return (count * 1000) / (performance.now() - began);
    });
    assert.ok(measured(`scrolling 100,000 events ${name}`, frames, "frames per second", 30) > 30 / SLACK);
  }
  await page.done();
});

test("the page weighs less than 500 kB compressed", () => {
  const web = join(root, "crates/lab/web");
  const files = readdirSync(web, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && !entry.name.endsWith(".d.ts"));
  const bytes = files.reduce((sum, entry) => sum + gzipSync(readFileSync(join(entry.parentPath, entry.name))).length, 0);
  assert.ok(measured("all files of the page, compressed", bytes / 1000, "kB", 500) < 500);
});
