// @ts-check
// A run that grows step by step by the choices of the reader, and is judged after each.

import { button, h, replace } from "../../dom.js";
import { serverSource } from "../../run/source.js";
import { learnTexts } from "../../texts/learn.js";

/** @typedef {import("../../types.js").Summary} Summary */
/** @typedef {{ solved: boolean, sentence: string }} Verdict */

/** @param {string} text a command @param {number} process */
function ofProcess(text, process) {
  return new RegExp(`^(timer|crash|restart|join|suspect|trust) ${process}\\b`).test(text);
}

/**
 * @param {HTMLElement} root @param {import("../../types.js").App} app
 * @param {{ recipe: import("../../types.js").Recipe, judge(run: Summary): Promise<Verdict> | Verdict, onSolved(): void }} task
 * @returns {Promise<{ unmount(): void }>}
 */
export async function mountWorkbench(root, app, task) {
  const words = learnTexts.workbench;
  const verdict = h("p.verdict", { role: "status" });
  const choices = h("div.choices");
  const stageRoot = h("div.scene-stage");
  const undo = button(words.undo, () => { void inTurn(back); });
  const again = button(words.restart, () => { void inTurn(() => show(first, 0, [])); });
  const settle = button(words.settle, () => { void fork([], "settle"); });
  const command = h("input.mono", { type: "text", name: "command", placeholder: words.commandHint, "aria-label": words.command, spellcheck: "false", autocomplete: "off" });
  const form = h("form.row", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); const text = command.value.trim(); if (text) void fork([text], "stop").then((done) => { if (done) command.value = ""; }); } },
    command, h("button", { type: "submit" }, words.send));
  const script = h("textarea", { rows: 8, spellcheck: "false", "aria-label": words.script });
  const asScript = h("details.as-script", { ontoggle: () => { if (asScript.open) void readScript(); } }, h("summary", null, words.script), h("p.hint", null, words.scriptHint), script,
    button(words.playScript, () => { void inTurn(playScript); }));
  root.append(h("div.workbench", null, verdict, stageRoot,
    h("section.panel", { "aria-label": words.what }, h("div.row", null, settle, undo, again), choices, form, asScript)));

  /** @type {Summary} */
  const first = await app.api.post("runs", task.recipe);
  let run = first;
  /** @type {Summary[]} */
  let past = [];
  let gone = false;
  let turn = 0;
  const stage = await app.stage(stageRoot, run, {
    at: run.steps, compact: true, onAt: () => { void refresh(); },
    actions: () => ({
      message: (message) => [item(words.deliver, message.deliverable ? message.deliver : null), item(words.drop, message.drop), item(words.copy, message.duplicate)].flat(),
      process: (process, moment) => [...process.requests, ...moment.commands.filter((text) => ofProcess(text, process.id))].flatMap((text) => item(text, text)),
      moment: (moment) => moment.commands.flatMap((text) => item(text, text)),
      command: (text) => { void fork([text], "stop"); },
    }),
  });
  await judged();
  await refresh();

  /** @param {string} label @param {string | null} text */
  function item(label, text) {
    return text === null ? [] : [{ label, run: () => { void fork([text], "stop"); } }];
  }

  /** @param {Summary} next @param {number} at @param {Summary[]} before */
  async function show(next, at, before) {
    run = next;
    past = before;
    await stage.setSource(serverSource(app.api, run), at);
    await judged();
    await refresh();
    if (asScript.open) await readScript();
  }

  async function back() {
    const last = past.at(-1);
    if (last) await show(last, last.steps, past.slice(0, -1));
  }

  /** @type {Promise<unknown>} */
  let doing = Promise.resolve();
  /**
   * One after the other: who clicks faster than the run grows means the run as it will be.
   * @template T
   * @param {() => Promise<T>} what
   */
  function inTurn(what) {
    const done = doing.then(what);
    doing = done.catch(app.fail);
    return done;
  }

  /** @param {string[]} commands @param {"stop" | "settle"} then */
  const fork = (commands, then) => inTurn(() => forkNow(commands, then));

  /** @param {string[]} commands @param {"stop" | "settle"} then */
  async function forkNow(commands, then) {
    try {
      const next = await app.api.post(`runs/${run.id}/fork`, { at: stage.moment(), do: commands, then });
      await show(next, next.steps, [...past, run]);
      return true;
    } catch (error) {
      app.fail(error);
      return false;
    }
  }

  async function readScript() {
    try {
      script.value = await app.api.get(`runs/${run.id}/export/script`);
    } catch (error) {
      app.fail(error);
    }
  }

  async function playScript() {
    try {
      const next = await app.api.post("runs", { script: script.value });
      await show(next, next.steps, [...past, run]);
    } catch (error) {
      app.fail(error);
    }
  }

  async function judged() {
    try {
      const said = await task.judge(run);
      if (gone) return;
      verdict.className = `verdict ${said.solved ? "good" : ""}`;
      verdict.textContent = `${said.solved ? "✓" : "–"} ${said.sentence}`;
      if (said.solved) task.onSolved();
    } catch (error) {
      app.fail(error);
    }
  }

  async function refresh() {
    const mine = ++turn;
    const at = stage.moment();
    undo.disabled = past.length === 0;
    again.disabled = run.id === first.id;
    const violation = run.violation;
    if (violation && at >= violation.step) {
      settle.disabled = true;
      replace(choices, h("p.bad", null, words.broken(violation.property, violation.detail)));
      return;
    }
    settle.disabled = false;
    /** @type {import("../../types.js").Moment} */
    let moment;
    try {
      moment = await app.api.get(`runs/${run.id}/at/${at}`);
    } catch (error) {
      app.fail(error);
      return;
    }
    if (gone || mine !== turn) return;
    const act = (/** @type {string} */ label, /** @type {string | null} */ text, /** @type {string} */ spoken) =>
      text === null ? null : button(label, () => { void fork([text], "stop"); }, { "aria-label": spoken, title: text });
    const flying = moment.in_flight.map((message) => h("li.row", null, h("span.grow.mono", null, `p${message.from} → p${message.to} ${message.text}`),
      message.deliverable ? act(words.deliver, message.deliver, `${words.deliver} ${message.name}`) : null,
      act(words.drop, message.drop, `${words.drop} ${message.name}`), act(words.copy, message.duplicate, `${words.copy} ${message.name}`)));
    const timers = moment.timers.map(({ command: text }) => act(text, text, text));
    const carried = /^(deliver|drop|duplicate|timer) /;
    const others = [...new Set([...moment.processes.flatMap((process) => process.requests), ...moment.commands.filter((text) => !carried.test(text))])];
    replace(choices,
      h("h4", null, `${words.what}, ${words.step(at, run.steps)}`),
      flying.length ? h("div", null, h("h5", null, words.arrive), h("ul.plain.flying", null, flying)) : null,
      timers.length ? h("div", null, h("h5", null, words.timers), h("div.row", null, timers)) : null,
      others.length ? h("div", null, h("h5", null, words.processes), h("div.row.commands", null, others.map((text) => act(text, text, text)))) : null,
      flying.length + timers.length + others.length ? null : h("p.empty", null, words.nothing));
  }

  return {
    unmount() {
      gone = true;
      stage.unmount();
    },
  };
}
