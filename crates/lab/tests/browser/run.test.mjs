// What a person does with a run: choose it, look, step, select, cut, interfere, go back, share, export; with the pointer and with keys.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { accessible, conclave, encode, runRoute, scratch, startLab, until } from "./harness.mjs";

/** Three ask at once; a run that every test can know by heart. */
const CONFLICT = { algorithm: "ricart-agrawala", options: { n: 3, entries: "1", hold: "12", delay: "4..9", seed: "1" } };

let lab;
before(async () => { lab = await startLab(); });
after(() => lab?.stop());

/** Waits until the state of a moment is shown. */
const shows = (page, moment) => page.locator(`.stage [data-at="${moment}"]`).first().waitFor({ state: "attached" });
const shownMoment = (page) => page.locator(".stage .transport input[type=range]").inputValue().then(Number);
const addressOf = async (page) => JSON.parse(Buffer.from((await page.evaluate(() => location.hash)).split("/").at(-1), "base64url").toString());
/** How many pixels of the diagram are neither background nor white. */
const inkOf = (page) => page.evaluate(() => {
  const canvas = document.querySelector(".canvas-holder canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let ink = 0;
  for (let at = 0; at < data.length; at += 4) if (data[at] !== data[0] || data[at + 1] !== data[1] || data[at + 2] !== data[2]) ink++;
  return ink;
});
const api = (path) => fetch(`${lab.address}api/v1/${path}`).then((answer) => answer.json());

test("the first visit shows a run that moves, and says what to look at", async () => {
  const page = await lab.page({ motion: "no-preference" });
  await page.locator(".look p").waitFor();
  assert.match(await page.locator(".look p").textContent(), /p1 hold back its replies/);
  await until(async () => (await shownMoment(page)) >= 2, "the run goes on by itself");
  assert.ok((await inkOf(page)) > 1000, "something is drawn");
  // A machine that is so slow that the run is over meanwhile begins it again with this key: then once more.
  const play = page.getByRole("button", { name: "Play", exact: true });
  await until(async () => {
    await page.keyboard.press(" ");
    return play.isVisible();
  }, "the space key stops it");
  await page.done();
});

test("an algorithm of each family runs", async () => {
  const { families } = await api("catalogue");
  assert.ok(families.length >= 8, `${families.length} families`);
  const page = await lab.page({ route: runRoute(CONFLICT) });
  await shows(page, await shownMoment(page));
  for (const { name, algorithms } of families) {
    const choice = page.getByLabel("Algorithm");
    await until(async () => (await choice.locator(`option[value="${algorithms[0]}"]`).count()) === 1, `${algorithms[0]} can be chosen`);
    await choice.selectOption(algorithms[0]);
    const title = await choice.locator(`option[value="${algorithms[0]}"]`).textContent();
    await until(async () => (await page.title()).startsWith(title) || page.locator(".notice").isVisible(), `${name}: ${algorithms[0]} runs`);
    assert.equal(await page.locator(".notice").isVisible(), false, `${name}: ${await page.locator(".notice").textContent()}`);
    assert.ok((await shownMoment(page)) > 0, `${algorithms[0]} has steps`);
    await shows(page, await shownMoment(page));
    assert.ok((await inkOf(page)) > 500, `${algorithms[0]} is drawn`);
  }
  await page.done();
});

test("stepping and scrubbing show what is true at each moment", async () => {
  const page = await lab.page({ route: runRoute(CONFLICT, 0) });
  await shows(page, 0);
  await page.keyboard.press("ArrowRight");
  await shows(page, 1);
  await page.getByRole("button", { name: "One step forward" }).click();
  await shows(page, 2);
  await page.keyboard.press("ArrowLeft");
  await shows(page, 1);
  const { id, steps } = await fetch(`${lab.address}api/v1/runs`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(CONFLICT) }).then((answer) => answer.json());
  await page.getByLabel("Moment", { exact: true }).fill("9");
  await shows(page, 9);
  const at = await api(`runs/${id}/at/9`);
  for (const process of at.processes) {
    const card = page.locator(`.process[data-process="${process.id}"]`);
    await card.getByText(process.phase, { exact: true }).waitFor();
    const words = await card.textContent();
    for (const { name, value } of process.state) assert.ok(words.includes(`${name}${value}`), `p${process.id} ${name} is ${value}`);
  }
  assert.equal(await page.locator(".flight li").count(), at.in_flight.length);
  for (const { sentence } of at.waits.waiters) await page.getByText(sentence).waitFor();
  await page.keyboard.press("End");
  await shows(page, steps);
  await page.keyboard.press("Home");
  await shows(page, 0);
  await page.done();
});

test("properties say what is judged and what is not", async () => {
  const page = await lab.page({ route: runRoute({ algorithm: "ricart-agrawala", options: { n: 3, entries: "1", crash: ["2@40"] } }) });
  const properties = page.locator(".properties");
  await properties.getByText("ME1", { exact: true }).waitFor();
  assert.match(await properties.locator("li", { hasText: "ME1" }).textContent(), /✓/);
  assert.match(await properties.textContent(), /not judged/);
  await page.done();
});

test("selecting an event shades what came before it and what comes of it", async () => {
  const page = await lab.page({ route: runRoute(CONFLICT) });
  await shows(page, await shownMoment(page));
  await page.getByRole("tab", { name: "Events" }).click();
  const row = page.locator(".events-list button", { hasText: "granted" }).first();
  const before = await inkOf(page);
  await row.click();
  await page.locator(".selection").waitFor({ state: "attached" });
  await until(async () => (await page.locator(".events-list small", { hasText: "concurrent" }).count()) > 0, "relations are listed");
  const id = Number(await page.locator(".events-list [aria-pressed=true]").getAttribute("data-event"));
  const run = await fetch(`${lab.address}api/v1/runs`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(CONFLICT) }).then((answer) => answer.json());
  const order = await api(`runs/${run.id}/order/${id}`);
  assert.equal(await page.locator(".events-list small", { hasText: "concurrent" }).count(), order.concurrent);
  await until(async () => (await inkOf(page)) > before + 1000, "the past is shaded");
  await page.keyboard.press("Escape");
  await page.locator(".selection").waitFor({ state: "hidden" });
  await page.done();
});

test("a cut is dragged and moved by keys, and says whether it is consistent", async () => {
  const page = await lab.page({ route: runRoute(CONFLICT, 8) });
  await shows(page, 8);
  await page.getByRole("button", { name: "Show a cut" }).click();
  const verdict = page.locator(".verdict");
  await verdict.waitFor();
  assert.match(await verdict.textContent(), /✓ the cut is consistent/);
  // A moment of a run is always consistent; the end of p3 with the beginning of p1 is not.
  const p1 = page.getByLabel("Cut at p1");
  const p3 = page.getByLabel("Cut at p3");
  await p1.focus();
  await page.keyboard.press("Home");
  await p3.focus();
  await page.keyboard.press("End");
  await verdict.getByText("✗").waitFor();
  await page.keyboard.press("Home");
  await page.getByLabel("Cut at p2").focus();
  await page.keyboard.press("Home");
  await verdict.getByText("✓").waitFor();
  // With the pointer: the handle of p2, which stands at its beginning, is drawn to the right.
  const box = await page.locator(".canvas-holder").boundingBox();
  const y = await page.evaluate(() => {
    const holder = document.querySelector(".canvas-holder");
    return 24 + ((holder.clientHeight - 24) / 3) * 1.5;
  });
  const handle = await until(async () => page.evaluate((row) => {
    const canvas = document.querySelector(".canvas-holder canvas");
    const ratio = canvas.width / canvas.clientWidth;
    const { data } = canvas.getContext("2d").getImageData(0, Math.round(row * ratio) - 8, Math.round(160 * ratio), 1);
    for (let x = 0; x < data.length / 4; x++) if (data[4 * x] < 80 && data[4 * x + 1] > 100 && data[4 * x + 2] < 110) return x / ratio;
    return 0;
  }, y), "the handle is drawn");
  await page.mouse.move(box.x + handle + 3, box.y + y);
  await page.mouse.down();
  await page.mouse.move(box.x + 300, box.y + y, { steps: 8 });
  await page.mouse.move(box.x + box.width * 0.9, box.y + y, { steps: 8 });
  await page.mouse.up();
  await verdict.getByText("✗").waitFor();
  assert.ok(Number(await page.getByLabel("Cut at p2").inputValue()) > 3);
  await page.keyboard.press("c");
  await page.getByRole("button", { name: "Show a cut" }).waitFor();
  await page.done();
});

test("a lost message forks the run; the branches are compared, undone, and shared by their address", async () => {
  const page = await lab.page({ route: runRoute(CONFLICT, 7) });
  await shows(page, 7);
  const whole = Number(await page.getByLabel("Moment", { exact: true }).getAttribute("max"));
  const first = page.locator(".flight li").first();
  await first.getByRole("button", { name: /Message/ }).click();
  await page.getByRole("menuitem", { name: /^Lose it/ }).click();
  await page.getByRole("tab", { name: "Branches" }).click();
  const branch = page.locator(".branches button", { hasText: "drop" });
  await branch.waitFor();
  await until(async () => Number(await page.getByLabel("Moment", { exact: true }).getAttribute("max")) !== whole, "the branch has other steps");
  const forked = Number(await page.getByLabel("Moment", { exact: true }).getAttribute("max"));
  await page.getByRole("button", { name: "Compare with its parent" }).click();
  const table = page.locator(".compare-runs table");
  await table.getByText("messages", { exact: true }).waitFor();
  await page.locator(".compare-runs").getByText("the same up to step 7").waitFor();
  // Its address, opened in another page, is the same branch at the same moment.
  await until(async () => (await addressOf(page)).at !== undefined, "the moment is in the address");
  const moment = await shownMoment(page);
  await page.getByRole("button", { name: "Share", exact: true }).click();
  const shared = await page.getByLabel("Address").inputValue();
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  const other = await lab.page({ route: new URL(shared).hash.slice(1) });
  await shows(other, moment);
  assert.equal(Number(await other.getByLabel("Moment", { exact: true }).getAttribute("max")), forked);
  await other.getByRole("tab", { name: "Branches" }).click();
  await other.locator(".branches button[aria-current]", { hasText: "drop" }).waitFor();
  await other.done();
  // Undo goes back to the run that was left, at the same moment, and its branch stays in the tree.
  await page.locator(".run-bar").getByRole("button", { name: "Undo" }).click();
  await until(async () => Number(await page.getByLabel("Moment", { exact: true }).getAttribute("max")) === whole, "the run that was left");
  assert.equal(await shownMoment(page), 7);
  await branch.click();
  await until(async () => Number(await page.getByLabel("Moment", { exact: true }).getAttribute("max")) === forked, "the branch again");
  await page.done();
});

test("a process crashes at the chosen moment, and a message is held back", async () => {
  const page = await lab.page({ route: runRoute(CONFLICT, 5) });
  await shows(page, 5);
  await page.locator('.process[data-process="2"]').getByRole("button").click();
  await page.getByRole("menuitem", { name: /^Crash \(/ }).click();
  await page.locator('.process[data-process="2"]').getByText("down").waitFor();
  await page.keyboard.press("u");
  await page.locator('.process[data-process="2"]').getByText("waiting").waitFor();
  await page.locator(".flight li").first().getByRole("button", { name: /Message/ }).click();
  await page.getByRole("menuitem", { name: "Hold it back until nothing else can happen" }).click();
  await page.getByRole("tab", { name: "Branches" }).click();
  await page.locator(".branches button[aria-current]", { hasText: "Delay it" }).waitFor();
  await page.done();
});

test("what is done to a branch grows out of it", async () => {
  const page = await lab.page({ route: runRoute(CONFLICT, 5) });
  await shows(page, 5);
  for (const [at, text] of [[6, "crash 3"], [7, "crash 2"]]) {
    await page.keyboard.press("/");
    await page.getByRole("combobox", { name: "Commands" }).fill(text);
    await page.getByRole("option", { name: text, exact: true }).click();
    await until(async () => { const { at: now, recipe } = await addressOf(page); return now === at && recipe.forks.at(-1).do[0] === text; }, `the branch of '${text}'`);
    await page.locator(`.process[data-process="${text.slice(-1)}"]`).getByText("down").waitFor();
  }
  await page.getByRole("tab", { name: "Branches" }).click();
  assert.deepEqual(await page.locator(".branches button").allTextContents(), ["main", "crash 3 · from step 5", "crash 2 · from step 6"]);
  await page.keyboard.press("u");
  await page.locator(".branches button[aria-current]", { hasText: "crash 3" }).waitFor();
  assert.equal(await page.locator(".branches button").count(), 3);
  await page.done();
});

test("what is checked is what is shown", async () => {
  const page = await lab.page({ route: runRoute({ algorithm: "ricart-agrawala", options: { n: 2, mutant: "no-tie-break", entries: "1" } }) });
  await page.locator(".look .bad").waitFor();
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.locator("#check-mutant").waitFor();
  assert.equal(await page.locator("#check-mutant").inputValue(), "no-tie-break");
  assert.equal(await page.locator('.options [name="n"]').inputValue(), "2");
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.locator(".outcome.bad").waitFor();
  await page.done();
});

test("an address that holds no run is no dead end", async () => {
  for (const [path, sentence, fault] of [["/run/nothing", "holds no run", null], [`/run/${encode({ id: "0123456789abcdef" })}`, "not kept any more", /404/]]) {
    const page = await lab.page({ route: path });
    await page.locator(".notice", { hasText: sentence }).waitFor();
    if (fault) page.expectFault(fault);
    await page.getByLabel("Algorithm").selectOption("central");
    await until(async () => (await page.title()).startsWith("Central coordinator"), "another run is shown");
    await page.locator(".process").first().waitFor();
    await page.done();
  }
  const page = await lab.page({ route: runRoute(CONFLICT, -5) });
  await shows(page, 0);
  await page.done();
});

test("everything goes by keyboard: a run from the form, a step, a fork from the palette, an export", async () => {
  const page = await lab.page({ route: runRoute(CONFLICT, 4) });
  await shows(page, 4);
  await page.keyboard.press("/");
  await page.getByRole("combobox", { name: "Commands" }).waitFor();
  await page.keyboard.type("crash 3");
  await until(async () => (await page.locator(".palette [role=option]").first().textContent()).includes("crash 3"), "the palette finds it");
  await page.keyboard.press("Enter");
  await page.locator('.process[data-process="3"]').getByText("down").waitFor();
  await page.keyboard.press("u");
  await page.locator('.process[data-process="3"]').getByText("waiting").waitFor();
  await page.keyboard.press("a");
  await page.getByRole("menu").waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Escape");
  await page.getByRole("menu").waitFor({ state: "detached" });
  // From the algorithm to the button that runs it, with Tab alone.
  await page.getByLabel("Number of processes").focus();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("4");
  await page.keyboard.press("Enter");
  await page.locator('.process[data-process="4"]').waitFor();
  await page.getByRole("button", { name: "Export" }).focus();
  await page.keyboard.press("Enter");
  const file = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "Script", exact: true }).focus();
  await page.keyboard.press("Enter");
  assert.match(await readFile(await (await file).path(), "utf8"), /run ricart-agrawala/);
  await page.done();
});

test("a file that is exported is the one that the command line writes", async () => {
  const { path, remove } = scratch();
  const args = ["sim", "ricart-agrawala", "-n", "3", "--entries", "1", "--hold", "12", "--delay", "4..9", "--seed", "1"];
  const file = (name) => join(path, name);
  const plain = await conclave([...args, "--svg", file("svg"), "--save-script", file("script"), "--trace", file("jsonl"), "--shiviz", file("shiviz"), "--mermaid", file("mermaid")]);
  assert.equal(plain.code, 0, plain.err);
  const page = await lab.page({ route: runRoute(CONFLICT) });
  await shows(page, await shownMoment(page));
  const labels = { svg: "SVG picture", script: "Script", jsonl: "Trace (JSON lines)", shiviz: "ShiViz log", mermaid: "Mermaid" };
  for (const [format, label] of Object.entries(labels)) {
    await page.getByRole("button", { name: "Export" }).click();
    const wanted = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: label, exact: true }).click();
    assert.equal(await readFile(await (await wanted).path(), "utf8"), await readFile(file(format), "utf8"), format);
  }
  // The picture in pixels is drawn from the SVG.
  await page.getByRole("button", { name: "Export" }).click();
  const wanted = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "PNG picture" }).click();
  const png = await readFile(await (await wanted).path());
  assert.equal(png.subarray(1, 4).toString(), "PNG");
  assert.ok(png.readUInt32BE(16) > 300, "it is as wide as a picture");
  await page.done();
  remove();
});

test("what the engine refuses is said in its sentence", async () => {
  const page = await lab.page({ route: runRoute(CONFLICT) });
  await shows(page, await shownMoment(page));
  await page.getByLabel("Number of processes").fill("1000000000");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".notice strong").waitFor();
  assert.match(await page.locator(".notice").textContent(), /1000000000|1,000,000,000/);
  page.expectFault(/422/);
  await page.done();
});

test("the form offers what the command line offers", async () => {
  const page = await lab.page({ route: runRoute(CONFLICT) });
  await shows(page, await shownMoment(page));
  const { sim } = await api("options");
  await page.getByRole("button", { name: "Options" }).click();
  const form = page.locator(".drawer form").first();
  await form.locator('[name="entries"]').waitFor({ state: "attached" });
  const offered = new Set(await form.locator("[name]").evaluateAll((fields) => fields.map(({ name }) => name)));
  for (const { name, families } of sim) {
    if (name === "n" || name === "set" || (families && !families.includes("mutex"))) continue;
    assert.ok(offered.has(name), `${name} is in the form`);
  }
  assert.ok(sim.some(({ families }) => families?.includes("mutex")) && offered.has("load") && !offered.has("retire"), "it has the options of its family, and not those of others");
  await form.locator('[name="entries"]').fill("2");
  await accessible(page, "the options");
  await page.getByRole("button", { name: "Run", exact: true }).first().click();
  await until(async () => (await addressOf(page)).recipe.options.entries === "2", "the value is in the address");
  await page.done();
});

test("a run that breaks a promise opens at it, and shrinks", async () => {
  const page = await lab.page({ route: runRoute({ algorithm: "ricart-agrawala", options: { n: 3, mutant: "no-tie-break" } }) });
  await page.locator(".look .bad").waitFor();
  assert.match(await page.locator(".look").textContent(), /ME1/);
  await page.getByRole("button", { name: "Shrink" }).click();
  await until(async () => (await addressOf(page)).recipe.script, "a script that is shorter");
  await page.locator(".look .bad").waitFor();
  await page.done();
});
