// Check: a search that holds, one that is stopped, a mutant that is refuted, the rest of a run.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, conclave, encode, screenshot, startLab, until } from "./harness.mjs";

let lab;
before(async () => { lab = await startLab(); });
after(async () => { await lab?.stop(); });

test("a search of everything says what holds and what was not judged", async () => {
  const page = await lab.page({ route: `/check/${encode({ algorithm: "ricart-agrawala", options: { n: "2" } })}` });
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.locator(".outcome.good").waitFor();
  assert.match(await page.locator(".outcome.good").textContent(), /^✓/);
  const { states } = JSON.parse((await conclave(["check", "ricart-agrawala", "-n", "2", "--json"])).out);
  assert.equal(await page.locator('.numbers [data-number="states"]').textContent(), String(states));
  const row = (name) => page.locator(".verdicts tr", { has: page.getByRole("rowheader", { name, exact: true }) });
  assert.match(await row("ME1").textContent(), /✓ holds/);
  assert.match(await row("ME6").textContent(), /· not judged/);
  await accessible(page, "a search that held");
  await page.done();
});

test("a search is watched and stopped, and then nothing is claimed", async () => {
  const page = await lab.page({ route: `/check/${encode({ algorithm: "lamport", options: { n: "4", entries: "2" } })}` });
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await until(async () => Number((await page.locator('[data-number="states"]').allTextContents())[0]?.replaceAll(",", "") ?? 0) > 0, "progress is shown");
  await page.getByRole("button", { name: "Stop" }).click();
  await until(async () => /^Stopped/.test(await page.locator(".search .outcome").textContent()), "it is stopped");
  assert.equal(await page.locator(".verdicts").count(), 0);
  await page.done();
});

test("a search that is left gives its place to the next", async () => {
  const page = await lab.page({ route: `/check/${encode({ algorithm: "lamport", options: { n: "4", entries: "2" } })}` });
  for (let round = 0; round < 7; round++) {
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.locator('.search [data-number="states"]').waitFor();
  }
  assert.equal(await page.locator(".notice").isVisible(), false, await page.locator(".notice").textContent());
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".search .outcome", { hasText: "Stopped" }).waitFor();
  await page.done();
});

test("a search that runs out of its budget is not a proof", async () => {
  const page = await lab.page({ route: `/check/${encode({ algorithm: "ricart-agrawala", options: { n: "3", depth: "5" } })}` });
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.locator(".search .outcome.waiting").waitFor();
  assert.match(await page.locator(".search .outcome").textContent(), /^– Not decided/);
  const text = await page.locator(".verdicts").textContent();
  assert.ok(!text.includes("✓"), text);
  await page.done();
});

test("a mutant of the gallery is refuted at a click, and its point of no return is marked", async () => {
  const page = await lab.page({ route: "/check" });
  await page.getByLabel("Find a mutant").fill("ricart no-tie");
  const card = page.locator('[data-mutant="ricart-agrawala/no-tie-break"]');
  await until(async () => (await page.locator(".gallery .card:visible").count()) === 1, "the others are hidden");
  assert.match(await card.textContent(), /Ties are rare and certain to happen/);
  await card.getByRole("button", { name: /^Refute/ }).focus();
  await page.keyboard.press("Enter");
  await card.locator(".outcome.bad").waitFor();
  await card.locator(".stage").waitFor();
  assert.match(await card.locator(".result").textContent(), /ME1 is broken: p1 and p2 are both inside/);
  await card.locator("[data-no-return]").waitFor();
  await until(async () => (await card.locator(".note:visible").count()) === 1, "the point of no return is said");
  await accessible(page, "a refuted mutant");
  await screenshot(page, "check-mutant-1280-light");
  await card.getByRole("button", { name: "Open in Run" }).click();
  await page.waitForFunction(() => location.hash.startsWith("#/run/"));
  await page.locator(".stage").waitFor();
  await page.done();
});

test("a mutant that only time shows is refuted by a run", async () => {
  const page = await lab.page({ route: "/check" });
  const card = page.locator('[data-mutant="cristian/one-way"]');
  await card.getByRole("button", { name: /^Refute/ }).click();
  await page.waitForFunction(() => location.hash.startsWith("#/run/"));
  await page.locator(".stage").waitFor();
  await until(async () => (await page.getByText("✗ C1").count()) > 0, "C1 is broken there");
  await page.done();
});

test("a refusal is seen wherever the reader is", async () => {
  const page = await lab.page({ route: "/check" });
  await page.route("**/api/v1/checks", (route) => route.fulfill({ status: 422, json: { error: { code: "refused", sentence: "that cannot be", hint: "try it otherwise" } } }));
  const last = page.locator(".gallery .card").last();
  await last.getByRole("button", { name: /^Refute/ }).click();
  const notice = page.locator(".notice", { hasText: "that cannot be" });
  await notice.waitFor();
  assert.ok(await page.evaluate(() => scrollY > 1000), "the reader is far below");
  assert.ok(await notice.evaluate((element) => { const { top, bottom } = element.getBoundingClientRect(); return top >= 0 && bottom <= innerHeight; }), "and sees it");
  page.expectFault(/422/);
  await page.done();
});

test("the checker goes on from a moment of a run", async () => {
  const recipe = { script: "run ricart-agrawala -n 2 --mutant no-tie-break\nrequest 1\nrequest 2\n---\n" };
  const page = await lab.page({ route: `/check/${encode({ recipe, at: 2 })}` });
  await page.getByText("The search begins at step 2").waitFor();
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.locator(".outcome.bad").waitFor();
  await page.locator(".result .stage").waitFor();
  await page.done();
});

for (const [width, theme] of [[1280, "dark"], [390, "light"], [390, "dark"]]) {
  test(`pictures of Check at ${width} pixels, ${theme}`, async () => {
    const page = await lab.page({ route: `/check/${encode({ algorithm: "ricart-agrawala", mutant: "no-tie-break" })}`, width, height: width < 500 ? 844 : 900, theme });
    await page.locator(".result .stage").waitFor();
    await screenshot(page, `check-${width}-${theme}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is no wider than the screen");
    await page.done();
  });
}
