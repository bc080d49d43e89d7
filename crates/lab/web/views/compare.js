// @ts-check
// Algorithms of one family beside each other: plots, the same as a table, and files.

import { button, h, replace } from "../dom.js";
import { compareTexts } from "../texts/compare.js";
import { byFormula, figure, plot } from "./compare/plot.js";

/** What has a place of its own here. */
const ELSEWHERE = ["csv", "svg", "theme", "json", "each"];
/** Where a family begins: few enough lines to be told apart. */
const FIRST = ["central", "lamport", "ricart-agrawala", "suzuki-kasami", "raymond"];
const MOST_AT_FIRST = 5;

/** @param {(string | number)[][]} rows */
export function asCsv(rows) {
  const cell = (/** @type {string | number} */ value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  return `${rows.map((row) => row.map(cell).join(",")).join("\n")}\n`;
}

/** @param {HTMLElement} root @param {import("../types.js").App} app */
export async function mount(root, app) {
  const words = compareTexts;
  const [catalogue, defs] = await Promise.all([app.catalogue(), app.optionDefs()]);
  /** @type {Map<string, any>} */
  const algorithms = new Map(catalogue.algorithms.map((/** @type {any} */ one) => [one.name, one]));
  const title = (/** @type {string} */ name) => algorithms.get(name)?.title ?? name;
  const family = h("select", { id: "compare-family", onchange: () => choose() }, catalogue.families.map((/** @type {any} */ one) => h("option", { value: one.name }, one.title)));
  const boxes = h("fieldset.boxes");
  const formPlace = h("div");
  const said = h("p.outcome", { role: "status" });
  const result = h("div.result");
  const start = button(words.compare, () => { void run(); }, { class: "primary" });
  const stop = button(words.stop, () => { void halt(words.stopped); }, { hidden: true });
  /** @type {import("../form.js").Form} */
  let form;
  /** @type {{ close(): void } | null} */
  let stream = null;
  let job = "";
  let gone = false;

  function choose() {
    const names = catalogue.families.find((/** @type {any} */ one) => one.name === family.value).algorithms;
    const usual = names.filter((/** @type {string} */ name) => FIRST.includes(name));
    const first = usual.length ? usual : names.slice(0, MOST_AT_FIRST);
    const check = (/** @type {boolean} */ on) => { for (const box of boxes.querySelectorAll("input")) box.checked = on; };
    replace(boxes, h("legend", null, words.algorithms), names.map((/** @type {string} */ name) => h("label", null, h("input", { type: "checkbox", value: name, checked: first.includes(name) }), ` ${title(name)}`)),
      button(words.all, () => check(true), { class: "quiet" }), button(words.noneOf, () => check(false), { class: "quiet" }));
    form = app.form(defs.compare, {}, { family: family.value, hide: ELSEWHERE });
    replace(formPlace, h("details", null, h("summary", null, words.options), form.element));
  }

  /** @param {boolean} on */
  function busy(on) {
    start.disabled = on;
    stop.hidden = !on;
  }

  /** @param {string} sentence */
  async function halt(sentence) {
    stream?.close();
    stream = null;
    busy(false);
    said.className = "outcome waiting";
    said.textContent = sentence;
    try {
      if (job) await app.api.del(`jobs/${job}`);
    } catch {
      // A job that has ended already cannot be stopped any more.
    }
  }

  async function run() {
    const chosen = [...boxes.querySelectorAll("input:checked")].map((box) => /** @type {HTMLInputElement} */ (box).value);
    if (!chosen.length) {
      said.className = "outcome bad";
      said.textContent = words.choose;
      return;
    }
    busy(true);
    replace(result);
    said.className = "outcome";
    said.textContent = words.running;
    try {
      ({ job } = await app.api.post("compares", { algorithms: chosen, options: form.values() }));
    } catch (error) {
      busy(false);
      said.textContent = "";
      app.fail(error);
      return;
    }
    if (gone) return;
    stream = app.api.stream(`jobs/${job}/events`, {
      progress: ({ done, of, runs }) => { said.textContent = of ? words.progress(done, of) : runs ? words.runs(runs) : words.running; },
      done: ({ report, plots }) => { stream = null; busy(false); show(report, plots); },
      stopped: () => { void halt(words.stopped); },
      failed: (data) => {
        stream = null;
        busy(false);
        said.className = "outcome bad";
        replace(said, data.error?.sentence ?? words.lost, data.error?.hint ? h("span.hint", null, ` ${app.texts.hint} ${data.error.hint}`) : null);
      },
      error: () => { void halt(words.lost); },
    });
  }

  /** @param {any} report @param {import("./compare/plot.js").PlotData[]} plots */
  function show(report, plots) {
    said.className = `outcome ${report.agrees ? "good" : "bad"}`;
    said.textContent = report.agrees ? words.agrees : words.disagrees;
    const figures = plots.map((data, at) => {
      const rows = data.series.flatMap((series) => series.points.map(([x, y]) => ({ name: series.algorithm, x, y, formula: byFormula(series.curve, x), text: series.formula })));
      const csv = () => asCsv([["algorithm", data.x, data.y, "formula", "by formula"], ...rows.map((row) => [row.name, row.x, row.y, row.text ?? "", row.formula])]);
      const picture = plot(data, { title, announce: app.announce, file: `compare-${at + 1}`, csv, fail: app.fail });
      picture.append(h("details", null, h("summary", null, words.table), h("div.scroll", { tabindex: "0", role: "region", "aria-label": data.title },
        h("table", null, h("thead", null, h("tr", null, [words.algorithms, data.x, `${data.y}, ${words.measured}`, words.byFormula].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", null, rows.map((row) => h("tr", null, h("th", { scope: "row" }, title(row.name)), h("td", null, row.x), h("td", null, figure(row.y)), h("td", null, row.formula ? `${row.formula} = ${row.text}` : ""))))))));
      return picture;
    });
    replace(result, figures);
  }

  const page = h("div.page.compare", null, h("h1", null, words.heading), h("p", null, words.intro),
    h("div.row", null, h("label", { for: "compare-family" }, words.family), family), boxes, formPlace, h("p.row", null, start, stop), said, result);
  root.append(page);
  choose();
  return {
    unmount() {
      gone = true;
      stream?.close();
      if (stream && job) app.api.del(`jobs/${job}`).catch(() => {});
      page.remove();
    },
  };
}
