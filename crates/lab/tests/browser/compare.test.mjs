// Compare: plots that answer to pointer and keyboard, the same as a table, and files.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { accessible, screenshot, startLab, until } from "./harness.mjs";

let lab;
before(async () => { lab = await startLab(); });
after(async () => { await lab?.stop(); });

/** Compares two algorithms over a few sizes. */
async function compared(settings = {}) {
  const page = await lab.page({ route: "/compare", ...settings });
  await page.locator(".boxes input").first().waitFor();
  await page.getByRole("button", { name: "none", exact: true }).click();
  await page.getByLabel("Lamport", { exact: true }).check();
  await page.getByLabel("Ricart–Agrawala", { exact: true }).check();
  await page.locator("summary", { hasText: "Options" }).first().click();
  await page.locator('.options input[name="n"]').fill("2..6");
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.locator(".plot").first().waitFor();
  return page;
}

test("points lie on the curves of their formulas, and the plot answers", async () => {
  const page = await compared();
  await page.locator(".outcome.good").waitFor();
  await accessible(page, "a comparison");
  const plot = page.locator(".plot").first();
  assert.equal(await plot.locator(".series").count(), 2);
  assert.equal(await plot.locator(".curve").count(), 2);

  await plot.focus();
  await page.keyboard.press("End");
  const tip = page.locator(".plot-holder .tip").first();
  await until(async () => /^Lamport, n = 6: 15 .*formula 3\(n-1\): 15$/.test(await tip.textContent()), "the last point of Lamport");
  await page.keyboard.press("ArrowDown");
  await until(async () => /^Ricart–Agrawala, n = 6: 10 /.test(await tip.textContent()), "the same size for the other");
  await page.keyboard.press("ArrowLeft");
  await until(async () => /^Ricart–Agrawala, n = 5: 8 /.test(await tip.textContent()), "the size before");
  await screenshot(page, "compare-1280-light");

  const point = await plot.locator(".series").first().locator(".curve ~ *").first().boundingBox();
  await page.mouse.move(point.x + point.width / 2, point.y + point.height / 2);
  await until(async () => /^Lamport, n = 2: 3 /.test(await tip.textContent()), "the point under the pointer");

  await page.locator(".plot-legend").first().getByRole("button", { name: /^Lamport/ }).click();
  assert.equal(await plot.locator(".series").count(), 1);
  await page.done();
});

test("the table has every number of the plot", async () => {
  const page = await compared();
  const figure = page.locator(".plot-panel").first();
  await figure.locator("summary").click();
  const rows = await figure.locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
  assert.equal(rows.length, 10);
  assert.deepEqual(rows[0], ["Lamport", "2", "3", "3 = 3(n-1)"]);
  assert.deepEqual(rows[9], ["Ricart–Agrawala", "6", "10", "10 = 2(n-1)"]);
  await page.done();
});

test("a plot is saved as SVG, PNG and CSV", async () => {
  const page = await compared();
  const figure = page.locator(".plot-panel").first();
  const saved = async (name) => {
    const [download] = await Promise.all([page.waitForEvent("download"), figure.getByRole("button", { name: new RegExp(`^Save ${name}`) }).click()]);
    return readFileSync(await download.path());
  };
  const csv = (await saved("CSV")).toString();
  assert.match(csv, /^algorithm,n,.*\n/);
  assert.ok(csv.includes("lamport,6,15,3(n-1),15\n"), csv);
  const drawing = (await saved("SVG")).toString();
  assert.match(drawing, /^<svg [^>]*xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
  assert.ok(drawing.includes("Ricart–Agrawala") && !drawing.includes("class="), "it says its names, and needs no style sheet");
  const image = await saved("PNG");
  assert.equal(image.subarray(1, 4).toString(), "PNG");
  assert.ok(image.readUInt32BE(16) === 2 * Number(/ width="(\d+)"/.exec(drawing)[1]), "twice the size of the drawing");
  await page.done();
});

test("without an algorithm nothing is compared", async () => {
  const page = await lab.page({ route: "/compare" });
  await page.locator(".boxes input").first().waitFor();
  await page.getByRole("button", { name: "none", exact: true }).click();
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.getByText("Choose at least one algorithm").waitFor();
  await page.done();
});

for (const [width, theme] of [[1280, "dark"], [390, "light"], [390, "dark"]]) {
  test(`pictures of Compare at ${width} pixels, ${theme}`, async () => {
    const page = await compared({ width, height: width < 500 ? 844 : 900, theme });
    await page.locator(".plot").first().scrollIntoViewIfNeeded();
    await screenshot(page, `compare-${width}-${theme}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is no wider than the screen");
    await page.done();
  });
}
