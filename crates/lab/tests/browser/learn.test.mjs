// Learn: the path, a lesson with its scenes and questions, exercises that are judged, the page of an algorithm.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, screenshot, startLab, until } from "./harness.mjs";

let lab;
before(async () => { lab = await startLab(); });
after(async () => { await lab?.stop(); });

/** Does one command of an exercise and waits until the run has it. */
async function command(page, text) {
  const choices = () => page.evaluate(() => document.querySelector(".workbench .choices .bad, .workbench .choices h4")?.textContent ?? "");
  await until(choices, "what can be done is shown");
  const was = await choices();
  await page.locator('.workbench input[name="command"]').fill(text);
  await page.locator('.workbench input[name="command"]').press("Enter");
  await until(async () => { const now = await choices(); return now !== "" && now !== was; }, `the run has '${text}'`);
}

test("the path leads through all lessons, and each of them opens with a scene", async () => {
  const page = await lab.page({ route: "/learn" });
  const stations = page.locator(".station a");
  await stations.first().waitFor();
  assert.equal(await stations.count(), 13);
  await accessible(page, "the path");
  const names = await stations.evaluateAll((links) => links.map((link) => link.getAttribute("href")));
  for (const name of names) {
    await page.evaluate((hash) => { location.hash = hash; }, name);
    await page.locator(".learn .stage").waitFor();
    await page.waitForFunction((hash) => document.querySelector(".lesson h1") && location.hash === hash, name);
    await page.locator(".learn .note:visible").first().waitFor();
    await page.evaluate(() => { location.hash = "#/learn"; });
    await stations.first().waitFor();
  }
  await page.done();
});

test("a scene is stepped, and the sentence follows", async () => {
  const page = await lab.page({ route: "/learn/lesson/permission" });
  await page.locator(".learn .stage").waitFor();
  const note = page.locator(".learn .note");
  await until(async () => /Both have asked/.test(await note.textContent()), "the first sentence");
  await page.getByRole("button", { name: "To the end" }).click();
  await until(async () => /Now p2 goes in/.test(await note.textContent()), "the last sentence");
  await accessible(page, "a lesson");
  await page.done();
});

test("a question says whether the answer is right, and why", async () => {
  const page = await lab.page({ route: "/learn/lesson/coordinator" });
  const question = page.locator(".question").first();
  await question.getByLabel("99", { exact: true }).check();
  await question.locator(".bad").waitFor();
  await question.getByLabel("3", { exact: true }).check();
  await question.locator(".good").waitFor();
  assert.match(await question.locator(".good").textContent(), /Request, Granted, Release/);
  await page.done();
});

test("an exercise is solved with the keyboard alone, and the reader's progress is kept", async () => {
  const page = await lab.page({ route: "/learn/lesson/permission" });
  const exercise = page.locator('[data-exercise="no-tie-break"]');
  await exercise.getByRole("button", { name: /^Try it/ }).focus();
  await page.keyboard.press("Enter");
  const verdict = exercise.locator(".verdict");
  await until(async () => /Not yet/.test(await verdict.textContent()), "the beginning is no solution");
  await command(page, "request 2");
  await command(page, "deliver p1 => p2");
  await command(page, "deliver p2 => p1 Request");
  await command(page, "deliver p2 => p1 Reply");
  assert.match(await verdict.textContent(), /Not yet/);
  await accessible(page, "an exercise");
  await screenshot(page, "learn-exercise-1280-light");
  await command(page, "deliver p1 => p2 Reply");
  await until(async () => /Solved at step/.test(await verdict.textContent()), "the exercise is solved");
  await exercise.locator(".chip", { hasText: "solved" }).waitFor();

  await exercise.getByRole("button", { name: "Undo" }).click();
  await until(async () => /Not yet/.test(await verdict.textContent()), "undone, it is unsolved again");
  await page.reload();
  await page.locator('[data-exercise="no-tie-break"] .chip', { hasText: "solved" }).waitFor();
  await page.done();
});

test("an exercise is solved with the buttons, and with a script", async () => {
  const page = await lab.page({ route: "/learn/lesson/coordinator" });
  const exercise = page.locator('[data-exercise="overtake"]');
  await exercise.getByRole("button", { name: /^Try it/ }).click();
  const verdict = exercise.locator(".verdict");
  await exercise.getByRole("button", { name: "deliver p2 => p3 #1" }).click();
  await exercise.getByRole("button", { name: "deliver p3 => p2 #1" }).click();
  await exercise.getByRole("button", { name: "deliver p1 => p3 #1" }).click();
  await exercise.getByRole("button", { name: "release 2", exact: true }).click();
  await exercise.getByRole("button", { name: "Deliver everything" }).click();
  await until(async () => /Solved at step/.test(await verdict.textContent()), "p2 has overtaken p1");

  await page.evaluate(() => { location.hash = "#/learn/lesson/queue-of-lamport"; });
  const repair = page.locator('[data-exercise="repair-fifo"]');
  await repair.getByRole("button", { name: /^Try it/ }).click();
  await until(async () => /ME1 is broken/.test(await repair.locator(".verdict").textContent()), "it begins broken");
  await repair.getByText("The run as a script").click();
  await until(async () => /channels any/.test(await repair.locator("textarea").inputValue()), "the script is there");
  await repair.locator("textarea").fill("run lamport -n 2 --channels fifo\nrequest 1\nrequest 2\nsettle\nrelease 1\nsettle\n---\n");
  await repair.getByRole("button", { name: "Play this script" }).click();
  await until(async () => /Solved at step/.test(await repair.locator(".verdict").textContent()), "repaired");
  await page.done();
});

test("choices that are made faster than the run grows are all made", async () => {
  const page = await lab.page({ route: "/learn/lesson/permission" });
  const exercise = page.locator('[data-exercise="no-tie-break"]');
  await exercise.getByRole("button", { name: /^Try it/ }).click();
  await exercise.getByRole("button", { name: "request 2", exact: true }).waitFor();
  await exercise.evaluate((element) => {
    for (const text of ["deliver p1 => p2 #1", "request 2"]) element.querySelector(`button[aria-label="${text}"]`).click();
  });
  await exercise.getByText("What can happen next, at step 3 of 3").waitFor();
  await page.done();
});

test("a run of something else does not solve an exercise", async () => {
  const page = await lab.page({ route: "/learn/lesson/coordinator" });
  const exercise = page.locator('[data-exercise="queue"]');
  await exercise.getByRole("button", { name: /^Try it/ }).click();
  await exercise.getByText("The run as a script").click();
  await until(async () => (await exercise.locator("textarea").inputValue()) !== "", "the script is there");
  await exercise.locator("textarea").fill("run central -n 4 --mutant lifo\nrequest 1\nsettle\nrequest 2\nrequest 3\nsettle\n---\n");
  await exercise.getByRole("button", { name: "Play this script" }).click();
  await until(async () => /this is a run of central --mutant lifo/.test(await exercise.locator(".verdict").textContent()), "it says why not");
  await page.done();
});

test("the page of an algorithm has its text, its examples and its mutants", async () => {
  const page = await lab.page({ route: "/learn/algorithm/ricart-agrawala" });
  await page.locator(".markdown table").first().waitFor();
  assert.equal(await page.locator(".algorithm h1").textContent(), "Ricart–Agrawala");
  const source = page.getByRole("link", { name: "crates/algorithms/src/mutex/ricart_agrawala.rs" }).first();
  const shown = await page.request.get(new URL(await source.getAttribute("href"), page.url()).href);
  assert.match(await shown.text(), /impl Protocol for RicartAgrawala/);
  await page.getByRole("button", { name: /^Show: Equal stamps/ }).click();
  await page.locator(".stage .note:visible").waitFor();
  await accessible(page, "an algorithm");
  await screenshot(page, "learn-algorithm-1280-light");

  const mutant = page.locator('[data-mutant="reply-while-holding"]');
  await mutant.getByRole("button", { name: /^Find a run/ }).click();
  await mutant.locator(".verdict").waitFor();
  for (const text of ["request 1", "deliver p1 => p2", "deliver p2 => p1", "request 2", "deliver p2 => p1", "deliver p1 => p2"]) await command(page, text);
  await until(async () => /ME1 is broken at step/.test(await mutant.locator(".verdict").textContent()), "the mutant is broken");
  await page.done();
});

for (const [width, theme] of [[1280, "light"], [1280, "dark"], [390, "light"], [390, "dark"]]) {
  test(`pictures of Learn at ${width} pixels, ${theme}`, async () => {
    const page = await lab.page({ route: "/learn", width, height: width < 500 ? 844 : 900, theme });
    await page.locator(".station a").first().waitFor();
    await screenshot(page, `learn-path-${width}-${theme}`);
    await page.evaluate(() => { location.hash = "#/learn/lesson/permission"; });
    await page.locator(".learn .note:visible").waitFor();
    await page.locator(".learn .stage").scrollIntoViewIfNeeded();
    await screenshot(page, `learn-lesson-${width}-${theme}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is no wider than the screen");
    await page.done();
  });
}
