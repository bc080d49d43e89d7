// The exported file: one page, with the run in it, that plays from the disk with networking off.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { test } from "node:test";
import { recordedSource } from "../../web/run/recorded.js";
import { accessible, conclave, openPage, runRoute, scratch, screenshot, startLab, until } from "./harness.mjs";

const CONFLICT = { algorithm: "ricart-agrawala", options: { n: 3, entries: "1", hold: "12", delay: "4..9", seed: "1" } };
const ARGS = ["sim", "ricart-agrawala", "-n", "3", "--entries", "1", "--hold", "12", "--delay", "4..9", "--seed", "1"];

/** The page without its run, and the run without what differs each time: how long it took, and how the lab calls it. */
function partsOf(html) {
  const [whole, data] = /id="run">(.*?)<\/script>/s.exec(html);
  const run = JSON.parse(data);
  assert.equal(run.moments.length, run.summary.steps + 1, "the state of every moment is in it");
  delete run.summary.id;
  delete run.summary.recipe;
  delete run.summary.report.wall_seconds;
  return { page: html.replace(whole, ""), run };
}

test("the exported page plays without a server, and the command line writes the same", async () => {
  const lab = await startLab();
  const { path, remove } = scratch();
  const page = await lab.page({ route: runRoute(CONFLICT) });
  await page.locator(".process").first().waitFor();
  await page.getByRole("button", { name: "Export" }).click();
  const wanted = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "HTML page that plays alone" }).click();
  const html = await readFile(await (await wanted).path(), "utf8");
  await page.done();
  const written = await conclave([...ARGS, "--html", join(path, "cli.html")]);
  assert.equal(written.code, 0, written.err);
  const [ours, theirs] = [html, await readFile(join(path, "cli.html"), "utf8")].map(partsOf);
  assert.ok(ours.page === theirs.page, "the same page");
  assert.deepEqual(ours.run, theirs.run, "the same run");
  assert.match(html, /Content-Security-Policy/);
  assert.doesNotMatch(html, /unsafe-(inline|eval)/);

  const file = join(path, "run.html");
  await writeFile(file, html);
  for (const [name, width, theme] of [["wide", 1280, "light"], ["narrow", 390, "dark"]]) {
    const player = await openPage(lab.browser, pathToFileURL(file).href, { width, height: 800, theme, motion: "no-preference", offline: true, own: "null" });
    const moment = () => player.getByLabel("Moment", { exact: true }).inputValue().then(Number);
    await until(async () => (await moment()) >= 2, "it plays");
    await player.keyboard.press(" ");
    await player.keyboard.press("End");
    const last = Number(await player.getByLabel("Moment", { exact: true }).getAttribute("max"));
    await player.locator(`[data-at="${last}"]`).waitFor({ state: "attached" });
    await player.keyboard.press("c");
    await player.locator(".verdict", { hasText: "✓" }).waitFor({ state: "attached" });
    await player.keyboard.press("Enter");
    await player.locator(".selection p.mono").waitFor({ state: "attached" });
    assert.match(await player.locator(".process").first().textContent(), /p1/);
    await accessible(player, `the player, ${name}`);
    await screenshot(player, `player-${name}-${theme}`);
    await player.done();
  }
  await lab.stop();
  remove();
});

test("a run in a file has the order and the cuts that the server says", async () => {
  const lab = await startLab();
  const api = async (path, body) => {
    const answer = await fetch(`${lab.address}api/v1/${path}`, body ? { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) } : {});
    return { ok: answer.ok, value: await answer.json() };
  };
  const { value: summary } = await api("runs", { algorithm: "suzuki-kasami", options: { n: 4, entries: "1", crash: ["2@20..60"], loss: "0.2", duplicate: "0.2", seed: "5", "max-events": "120" } });
  const { value: index } = await api(`runs/${summary.id}/index`);
  const { value: { events } } = await api(`runs/${summary.id}/events?from=0&limit=20000&stamps=vector&count=all`);
  for (const kind of ["crash", "restart", "drop", "duplicate"]) assert.ok(events.some((event) => event.kind === kind), `there is a ${kind}`);
  const recorded = recordedSource({ summary, index, events, moments: null });
  let refused = 0;
  for (const { id } of events) {
    const { ok, value } = await api(`runs/${summary.id}/order/${id}`);
    if (!ok) {
      refused++;
      await assert.rejects(recorded.order(id), `event ${id}`);
      continue;
    }
    assert.deepEqual(await recorded.order(id), value, `event ${id}: ${events[id].what}`);
  }
  assert.ok(refused > 0, "a loss has no order");

  /** The cut after so many events, with `late` moved to its end. */
  const frontierOf = (count, late) => {
    const frontier = {};
    for (const event of events) {
      if (!event.process || event.kind === "drop" || event.kind === "duplicate") continue;
      if (event.id < count || event.process === late) frontier[event.process] = event.id;
    }
    return frontier;
  };
  let inconsistent = 0;
  for (let count = 1; count < events.length; count += 3) {
    for (const late of [0, 1 + (count % 4)]) {
      const frontier = frontierOf(count, late);
      const { value } = await api(`runs/${summary.id}/cut`, { frontier });
      const said = await recorded.cut(frontier);
      assert.equal(said.consistent, value.consistent, JSON.stringify(frontier));
      if (said.consistent) assert.deepEqual(said.channels.flatMap(({ sends }) => sends).toSorted((a, b) => a - b), value.channels.flatMap(({ sends }) => sends).toSorted((a, b) => a - b), JSON.stringify(frontier));
      else inconsistent++;
    }
  }
  assert.ok(inconsistent > 3, "some cuts are not consistent");
  await lab.stop();
});
