// Live: real processes, one of which is killed; what they did opens as a run.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, screenshot, startLab, until } from "./harness.mjs";

let lab;
before(async () => { lab = await startLab(); });
after(async () => { await lab?.stop(); });

test("a cluster is started, locked, cut, hurt and read", async () => {
  const page = await lab.page({ route: "/live" });
  await page.locator("#live-algorithm").selectOption("central");
  await page.locator("#live-n").fill("3");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator("[data-cluster]").waitFor();
  const state = (id) => page.locator(`[data-process="${id}"] td`).first();
  for (const id of [1, 2, 3]) await until(async () => (await state(id).textContent()) === "up", `p${id} is up`);

  await page.locator("#live-lock").fill("backup");
  await page.getByRole("button", { name: "Lock", exact: true }).click();
  const hold = page.locator("[data-hold]");
  await until(async () => /backup via p1: held, fence /.test((await hold.allTextContents()).join()), "the lock is held");
  await accessible(page, "a cluster");
  await screenshot(page, "live-1280-light");
  await page.getByRole("button", { name: "unlock backup" }).click();
  await until(async () => !/held/.test((await hold.allTextContents()).join()), "the lock is free again");

  await page.locator("#live-groups").fill("1,2/3");
  await page.getByRole("button", { name: "Cut", exact: true }).click();
  await until(async () => (await page.locator(".ring .link.cut").count()) === 2, "two of three links are cut");
  await page.getByRole("button", { name: "Heal", exact: true }).click();
  await until(async () => (await page.locator(".ring .link.cut").count()) === 0, "the network is whole");

  await page.getByRole("button", { name: "kill p2" }).focus();
  await page.keyboard.press("Enter");
  await until(async () => (await state(2).textContent()) !== "up", "p2 is down");
  await screenshot(page, "live-killed-1280-light");
  await page.getByRole("button", { name: "restart p2" }).click();
  await until(async () => (await state(2).textContent()) === "up", "p2 is up again");

  await page.getByRole("button", { name: "pause p3" }).click();
  await until(async () => (await state(3).textContent()) === "paused", "p3 stands still");
  await page.getByRole("button", { name: "resume p3" }).click();
  await until(async () => (await state(3).textContent()) === "up", "p3 goes on");

  await page.getByRole("button", { name: "Open the trace as a run" }).click();
  await page.waitForFunction(() => location.hash.startsWith("#/run/"));
  await page.locator(".stage").waitFor();
  await page.goBack();
  await page.locator("[data-cluster]").waitFor();
  await page.getByRole("button", { name: "Stop the cluster" }).click();
  await page.getByText("The cluster is stopped.").waitFor();
  assert.equal(await page.locator("[data-cluster]").count(), 0);
  await page.done();
});

for (const [width, theme] of [[1280, "dark"], [390, "light"], [390, "dark"]]) {
  test(`pictures of Live at ${width} pixels, ${theme}`, async () => {
    const page = await lab.page({ route: "/live", width, height: width < 500 ? 844 : 900, theme });
    await page.locator("#live-algorithm").selectOption("ricart-agrawala");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.locator("[data-cluster]").waitFor();
    await until(async () => (await page.locator(".cluster tbody .good").count()) === 3, "three are up");
    await screenshot(page, `live-${width}-${theme}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is no wider than the screen");
    await page.getByRole("button", { name: "Stop the cluster" }).click();
    await page.getByText("The cluster is stopped.").waitFor();
    await page.done();
  });
}
