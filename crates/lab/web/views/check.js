// @ts-check
// The checker: a search with its options, and a gallery of everything that it refutes.

import { button, h, replace } from "../dom.js";
import { decode } from "../route.js";
import { checkTexts } from "../texts/check.js";
import { startSearch } from "./check/search.js";

/** Budgets are all that can be said where the run says the rest. */
const OF_THE_RUN = ["n", "ids", "set", "stamp", "mutant", "clock", "entries", "start", "channels"];
/** What belongs to the command line or has a place of its own here. */
const ELSEWHERE = ["mutant", "from", "save-script", "trace", "svg", "stamps", "count", "json", "quiet", "shiviz", "mermaid", "html", "threads", "diagram"];

/** How many runs are tried for a mutant that only time shows. */
const SEEDS = 50;

/** @param {HTMLElement} root @param {import("../types.js").App} app @param {string} path */
export async function mount(root, app, path) {
  const words = checkTexts;
  const [catalogue, defs] = await Promise.all([app.catalogue(), app.optionDefs()]);
  /** @type {Map<string, any>} */
  const algorithms = new Map(catalogue.algorithms.map((/** @type {any} */ one) => [one.name, one]));
  /** @type {Map<string, any>} */
  const properties = new Map(catalogue.properties.map((/** @type {any} */ one) => [one.code, one]));
  /** @type {{ unmount(): void } | null} */
  let search = null;
  /** @type {{ summary: any, at: number } | null} */
  let moment = null;

  const from = h("p.row", { hidden: true });
  const mutant = h("select", { id: "check-mutant", onchange: () => makeForm() });
  const algorithm = h("select", { id: "check-algorithm", onchange: () => { listMutants(""); makeForm(); } }, catalogue.families.map((/** @type {any} */ family) =>
    h("optgroup", { label: family.title }, family.algorithms.map((/** @type {string} */ name) => h("option", { value: name }, algorithms.get(name)?.title ?? name)))));
  const subject = h("div.row", null, h("label", { for: "check-algorithm" }, words.algorithm), algorithm, h("label", { for: "check-mutant" }, words.mutant), mutant);
  const formPlace = h("div");
  const place = h("div.search-place");
  const start = button(words.check, () => { void run(); }, { class: "primary" });
  /** @type {import("../form.js").Form} */
  let form;

  /** @param {string} chosen */
  function listMutants(chosen) {
    const known = algorithms.get(algorithm.value)?.mutants ?? [];
    replace(mutant, h("option", { value: "" }, words.none), known.map((/** @type {any} */ one) => h("option", { value: one.name, selected: one.name === chosen }, `${one.name}: ${one.breaks}`)));
  }

  function makeForm() {
    const about = algorithms.get(moment ? moment.summary.algorithm : algorithm.value);
    const broken = about?.mutants.find((/** @type {any} */ one) => one.name === mutant.value);
    form = app.form(defs.check, moment || !broken ? {} : broken.check ?? {}, { family: about?.family, settings: moment ? [] : about?.settings ?? [], hide: moment ? [...ELSEWHERE, ...OF_THE_RUN] : ELSEWHERE });
    replace(formPlace, h("details", null, h("summary", null, words.options), form.element));
  }

  /** @param {any} request @param {HTMLElement} at @param {() => void} [onEnd] */
  function begin(request, at, onEnd) {
    search?.unmount();
    search = startSearch(at, app, request, onEnd);
  }

  async function run() {
    const options = form.values();
    if (moment) begin({ run: moment.summary.id, at: moment.at, options }, place);
    else begin({ algorithm: algorithm.value, options: mutant.value ? { ...options, mutant: mutant.value } : options }, place);
  }

  /**
   * A search knows no time. What only time shows is found by running it with one seed after the other.
   * @param {any} algorithmOf @param {any} one @param {HTMLElement} spot
   */
  async function runUntilBroken(algorithmOf, one, spot) {
    const said = h("p.outcome", { role: "status" });
    replace(spot, said);
    try {
      for (let seed = 1; seed <= SEEDS; seed += 1) {
        said.textContent = words.runsUntilBroken(seed);
        const run = await app.api.post("runs", { algorithm: algorithmOf.name, options: { n: one.n, mutant: one.name, seed } });
        if (!spot.isConnected) return;
        if (run.violation) {
          app.openRun(run, run.steps);
          return;
        }
      }
      said.textContent = words.notBroken(SEEDS);
    } catch (error) {
      said.textContent = "";
      app.fail(error);
    }
  }

  /** @param {any} algorithmOf @param {any} one */
  function card(algorithmOf, one) {
    const spot = h("div.search-place");
    const refute = button(words.refute, () => {
      if (one.check) begin({ algorithm: algorithmOf.name, options: { ...one.check, mutant: one.name } }, spot);
      else void runUntilBroken(algorithmOf, one, spot);
    }, { "aria-label": `${words.refute}: ${algorithmOf.name} ${one.name}` });
    return h("li.card", { "data-mutant": `${algorithmOf.name}/${one.name}` },
      h("div.row", null, h("strong.grow", null, algorithmOf.title, " ", h("code", null, one.name)), h("abbr.chip", { title: properties.get(one.breaks)?.statement ?? one.breaks }, one.breaks), h("span.chip", null, words.processes(one.n)), refute),
      one.lesson?.length ? h("p", null, one.lesson.join(" ")) : h("p", null, one.what), spot);
  }

  const cards = catalogue.algorithms.flatMap((/** @type {any} */ about) => about.mutants.map((/** @type {any} */ one) => ({ element: card(about, one), family: about.family, text: `${about.name} ${about.title} ${about.family} ${one.name} ${one.breaks} ${one.what}`.toLowerCase() })));
  const counted = h("span.hint", { role: "status" }, words.found(cards.length));
  const nothing = h("p.empty", { hidden: true }, words.noneFound);
  const filter = h("input", { type: "search", "aria-label": words.filter, placeholder: words.filter, oninput: () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { element, text } of cards) {
      element.hidden = !wanted.every((/** @type {string} */ word) => text.includes(word));
      if (!element.hidden) shown += 1;
    }
    counted.textContent = words.found(shown);
    nothing.hidden = shown > 0;
  } });

  const page = h("div.page.check", null, h("h1", null, words.heading), h("p", null, words.intro), from, subject, formPlace, h("p.row", null, start), place,
    h("section", { "aria-label": words.gallery }, h("h2", null, words.gallery), h("p.hint", null, words.galleryIntro), h("p.row", null, filter, counted), nothing,
      h("ul.plain.gallery", null, cards.map((/** @type {any} */ one) => one.element))));
  root.append(page);

  /** @param {string} to */
  async function navigate(to) {
    const wanted = to ? decode(to) : null;
    moment = null;
    from.hidden = true;
    subject.hidden = false;
    try {
      if (wanted && Number.isInteger(wanted.at) && (wanted.recipe || wanted.run)) {
        const summary = wanted.recipe ? await app.api.post("runs", wanted.recipe) : await app.api.get(`runs/${encodeURIComponent(wanted.run)}`);
        moment = { summary, at: wanted.at };
        replace(from, h("span", null, words.fromMoment(summary.setup, wanted.at)), button(words.fromStart, () => { app.go("/check", { replace: true }); void navigate(""); }));
        from.hidden = false;
        subject.hidden = true;
      } else if (wanted?.algorithm && algorithms.has(wanted.algorithm)) {
        algorithm.value = wanted.algorithm;
      } else if (!algorithm.value || !to) {
        algorithm.value = algorithms.has("ricart-agrawala") ? "ricart-agrawala" : catalogue.algorithms[0].name;
      }
    } catch (error) {
      app.fail(error);
    }
    const broken = wanted?.mutant ?? wanted?.options?.mutant ?? "";
    listMutants(broken);
    makeForm();
    if (wanted?.options) form.set({ ...form.values(), ...wanted.options });
    if (wanted?.mutant && mutant.value === wanted.mutant) void run();
  }

  await navigate(path);
  return {
    navigate: (/** @type {string} */ to) => { void navigate(to); },
    unmount() {
      search?.unmount();
      page.remove();
    },
  };
}
