// How the run view looks, at both widths and in both themes: pictures for a person, rules for axe.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, runRoute, screenshot, startLab } from "./harness.mjs";

let lab;
before(async () => { lab = await startLab(); });
after(() => lab?.stop());

const FAULTS = { algorithm: "token-ring", options: { n: "5", entries: "1", crash: ["2@40..90"], seed: "3", loss: "0.05" } };
const CONFLICT = { algorithm: "ricart-agrawala", options: { n: 3, entries: "1", hold: "12", delay: "4..9", seed: "1" } };

for (const theme of ["light", "dark"]) {
  for (const [name, width, height] of [["wide", 1280, 800], ["narrow", 390, 844]]) {
    test(`the run view, ${name} and ${theme}`, async () => {
      const page = await lab.page({ route: runRoute(CONFLICT, 11), width, height, theme });
      await page.locator('.stage [data-at="11"]').waitFor({ state: "attached" });
      await page.locator(".run-bar select option").first().waitFor({ state: "attached" });
      await accessible(page, `the run view, ${name} and ${theme}`);
      await screenshot(page, `run-${name}-${theme}`);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 0, `the page is ${wider} pixels wider than the window`);
      if (name === "narrow") {
        await page.getByRole("button", { name: "State", exact: true }).click();
        await page.locator(".stage.side-open .process").first().waitFor();
        await accessible(page, `the drawer, ${theme}`);
        await page.evaluate(() => Promise.all(document.getAnimations().map((animation) => animation.finished)));
        await screenshot(page, `run-drawer-${theme}`);
      } else {
        await page.keyboard.press("c");
        await page.locator(".verdict").waitFor();
        await page.keyboard.press("Enter");
        await page.locator(".selection").waitFor();
        await accessible(page, `a cut and a selection, ${theme}`);
        await screenshot(page, `run-cut-${theme}`);
        await page.getByRole("button", { name: "Options" }).click();
        await page.locator(".drawer .field").first().waitFor();
        await screenshot(page, `run-options-${theme}`);
        await page.keyboard.press("/");
        await page.getByRole("combobox", { name: "Commands" }).waitFor();
        await accessible(page, `the palette, ${theme}`);
        await screenshot(page, `run-palette-${theme}`);
      }
      await page.done();
    });
  }

  test(`faults and branches, ${theme}`, async () => {
    const page = await lab.page({ route: runRoute(FAULTS, 30), theme });
    await page.locator('.stage [data-at="30"]').waitFor({ state: "attached" });
    await screenshot(page, `run-faults-${theme}`);
    await page.getByRole("tab", { name: "Events" }).click();
    await page.locator(".events-list button").first().waitFor();
    await accessible(page, `the list of events, ${theme}`);
    await page.goto(`${lab.address}#${runRoute({ ...CONFLICT, forks: [{ at: 7, do: ["crash 2"], then: "follow" }] }, 8)}`);
    await page.getByRole("tab", { name: "Branches" }).click();
    await page.getByRole("button", { name: "Compare with its parent" }).click();
    await page.locator(".compare-runs table").waitFor();
    await accessible(page, `a branch beside its parent, ${theme}`);
    await screenshot(page, `run-branches-${theme}`);
    // On a small screen the panel makes room for the two runs, and the slider stays where it can be reached.
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole("button", { name: "Hide the comparison" }).click();
    await page.getByRole("button", { name: "State", exact: true }).click();
    await page.getByRole("tab", { name: "Branches" }).click();
    await page.getByRole("button", { name: "Compare with its parent" }).click();
    await page.locator(".compare-runs table").waitFor();
    await page.locator(".stage.side-open").waitFor({ state: "detached" });
    await page.evaluate(() => Promise.all(document.getAnimations().map((animation) => animation.finished)));
    assert.ok(await page.getByLabel("Moment", { exact: true }).evaluate((slider) => {
      const box = slider.getBoundingClientRect();
      return document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2) === slider;
    }), "nothing lies over the slider");
    await screenshot(page, `run-branches-narrow-${theme}`);
    await page.done();
  });
}
