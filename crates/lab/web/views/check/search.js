// @ts-check
// A search while it runs, and what came of it.

import { button, h, replace } from "../../dom.js";
import { checkTexts } from "../../texts/check.js";

const SIGNS = { held: "✓", broken: "✗", open: "–", not_judged: "·" };

/** @param {number} value */
export function thousands(value) {
  return Math.round(value).toLocaleString("en");
}

/**
 * What the report says of a property. A search that has not seen every run cannot say that something holds.
 * @param {any} property @param {boolean} complete
 * @returns {{ state: "held" | "broken" | "open" | "not_judged", why: string }}
 */
export function verdictOf(property, complete) {
  if (property.holds === false) return { state: "broken", why: property.detail };
  if (property.holds === true) return complete ? { state: "held", why: property.detail } : { state: "open", why: checkTexts.soFar };
  return property.detail === "not judged" || /^a matter of/.test(property.detail) ? { state: "not_judged", why: property.detail } : { state: "open", why: property.detail };
}

/**
 * Starts a search and shows it in `place`.
 * @param {HTMLElement} place @param {import("../../types.js").App} app @param {any} request @param {() => void} [onEnd]
 */
export function startSearch(place, app, request, onEnd) {
  const words = checkTexts;
  const numbers = h("dl.numbers");
  const said = h("p.outcome", { role: "status" }, words.running);
  const stop = button(words.stop, () => { void halt(); });
  const bar = h("div.progress", { "aria-hidden": "true" }, h("span"));
  const result = h("div.result");
  replace(place, h("section.panel.search", { "aria-label": words.check }, h("div.row", null, said, h("span.grow"), stop), bar, numbers), result);
  /** @type {{ close(): void } | null} */
  let stream = null;
  /** @type {{ unmount(): void } | null} */
  let stage = null;
  let job = "";
  let ended = false;
  let gone = false;

  /** @param {any} progress */
  function count(progress) {
    const shown = [["states", progress.states], ["transitions", progress.transitions], ["depth", progress.depth], ["rate", progress.rate], ["seconds", progress.seconds]];
    replace(numbers, ...shown.filter(([, value]) => value !== undefined && value !== null).flatMap(([name, value]) => [
      h("div", null, h("dt", null, words[/** @type {"states"} */ (name)]), h("dd", { "data-number": name }, name === "seconds" ? String(Number(Number(value).toPrecision(2))) : thousands(value)))]));
  }

  /** @param {string} sentence @param {string} tone */
  function end(sentence, tone) {
    ended = true;
    stop.hidden = true;
    bar.hidden = true;
    said.className = `outcome ${tone}`;
    said.textContent = sentence;
    onEnd?.();
  }

  async function halt() {
    if (ended) return;
    try {
      if (job) await app.api.del(`jobs/${job}`);
    } catch (error) {
      app.fail(error);
    }
    stream?.close();
    if (!ended) end(words.outcomes.stopped, "waiting");
  }

  /** @param {any} data */
  async function done(data) {
    const { outcome, report, run } = data;
    if (report) count({ states: report.states, transitions: report.transitions, depth: report.depth, rate: report.states_per_second, seconds: report.wall_seconds });
    end(`${{ held: "✓", broken: "✗", incomplete: "–" }[/** @type {"held"} */ (outcome)] ?? "–"} ${words.outcomes[/** @type {"held"} */ (outcome)] ?? outcome}`, outcome === "held" ? "good" : outcome === "broken" ? "bad" : "waiting");
    const row = (/** @type {any} */ property) => {
      const { state, why } = verdictOf(property, report.complete);
      return h("tr", null, h("th", { scope: "row" }, property.name, property.promised ? null : h("small", null, ` ${words.notPromised}`)),
        h("td", null, h(`span.${state === "held" ? "good" : state === "broken" ? "bad" : "soft"}`, null, `${SIGNS[state]} ${words.stateOf[state]}`)), h("td", null, property.claim), h("td", null, why));
    };
    const rows = report ? [...report.properties, ...(report.not_promised ?? [])] : [];
    const head = [words.property, words.verdict, words.statement, words.reason];
    const table = rows.length ? h("div.scroll", { tabindex: "0", role: "region", "aria-label": words.verdict },
      h("table.verdicts", null, h("thead", null, h("tr", null, head.map((one) => h("th", { scope: "col" }, one)))), h("tbody", null, rows.map(row)))) : null;
    if (!run) {
      replace(result, table);
      return;
    }
    const at = run.point_of_no_return;
    const holder = h("div.scene-stage");
    replace(result, h("section", { "aria-label": words.counterexample }, h("h3", null, words.counterexample),
      h("div.row", null, h("p.grow", null, run.violation ? h("strong.bad", null, words.counterexampleHint(run.violation.property, run.violation.detail)) : null,
        ` ${words.steps(run.steps)} `, at === null || at === undefined ? null : h("span", { "data-no-return": at }, words.noReturnAt(at, run.steps))),
      button(words.openInRun, () => app.openRun(run, at ?? run.steps))), holder), table);
    const notes = at === null || at === undefined ? [] : [{ at, text: words.noReturn }];
    try {
      const made = await app.stage(holder, run, { at: run.steps, compact: true, notes });
      if (gone) made.unmount();
      else stage = made;
    } catch (error) {
      app.fail(error);
    }
  }

  void (async () => {
    try {
      ({ job } = await app.api.post("checks", request));
      if (gone) {
        await app.api.del(`jobs/${job}`);
        return;
      }
      stream = app.api.stream(`jobs/${job}/events`, {
        progress: count,
        done: (data) => { void done(data); },
        stopped: () => { if (!ended) end(words.outcomes.stopped, "waiting"); },
        failed: (data) => { end(data.error?.sentence ?? words.lost, "bad"); if (data.error?.hint) said.append(h("span.hint", null, ` ${app.texts.hint} ${data.error.hint}`)); },
        error: () => { if (!ended) end(words.lost, "bad"); },
      });
    } catch (error) {
      if (gone) return;
      replace(place);
      app.fail(error);
      onEnd?.();
    }
  })();

  return {
    unmount() {
      gone = true;
      stream?.close();
      // A search that nobody watches must not keep the next one from its place. One that has ended by itself cannot be stopped any more.
      if (job && !ended) app.api.del(`jobs/${job}`).catch(() => {});
      stage?.unmount();
      replace(place);
    },
  };
}
