// @ts-check
// The page of an algorithm: what it says of itself, its description, its examples, and its mutants as exercises.

import { button, h, replace } from "../../dom.js";
import { encode } from "../../route.js";
import { learnTexts } from "../../texts/learn.js";
import { markdown } from "./markdown.js";
import { isSolved, markSolved } from "./progress.js";

/** Where the lab shows a source. @param {string} file */
const sourceOf = (file) => `api/v1/sources/${file}`;

/**
 * @param {import("../../types.js").App} app @param {any} catalogue @param {any} algorithm
 * @param {{ scene(place: HTMLElement, opener: HTMLButtonElement, recipe: any, notes: any[]): void, workbench(place: HTMLElement, opener: HTMLButtonElement, task: any): void }} tools
 * @returns {Promise<HTMLElement>}
 */
export async function algorithmPage(app, catalogue, algorithm, tools) {
  const words = learnTexts;
  const names = new Set(catalogue.algorithms.map((/** @type {any} */ one) => one.name));
  /** @type {Map<string, any>} */
  const properties = new Map(catalogue.properties.map((/** @type {any} */ one) => [one.code, one]));
  const link = (/** @type {string} */ target) => {
    if (/^https?:/.test(target)) return target;
    const source = /^\.\.\/\.\.\/(crates\/algorithms\/src\/[\w/]+\.rs)$/.exec(target)?.[1];
    if (source) return sourceOf(source);
    const name = /^([\w-]+)\.md(#.*)?$/.exec(target)?.[1];
    return name && names.has(name) ? `#/learn/algorithm/${name}` : null;
  };
  const fact = (/** @type {string} */ label, /** @type {any} */ value) => (value ? [h("dt", null, label), h("dd", null, value)] : []);
  const facts = h("dl.facts", null,
    ["idea", "cost", "channels", "synchrony", "topology", "faults"].flatMap((key) => fact(words.facts[/** @type {"idea"} */ (key)], algorithm[key])),
    fact(words.facts.family, catalogue.families.find((/** @type {any} */ one) => one.name === algorithm.family)?.title),
    fact(words.facts.promises, (algorithm.promises ?? []).map((/** @type {string} */ code, /** @type {number} */ place) => [place ? ", " : "", h("abbr", { title: properties.get(code)?.statement ?? code }, code)]).flat()),
    fact(words.facts.source, algorithm.source && h("a", { href: sourceOf(algorithm.source), target: "_blank", rel: "noopener" }, h("code", null, algorithm.source))));

  const { examples } = await app.api.get("examples");
  const mine = examples.filter((/** @type {any} */ one) => one.algorithm === algorithm.name);
  const exampleItem = (/** @type {any} */ example) => {
    const place = h("div.place");
    /** @type {any} */
    const open = button(words.play, () => tools.scene(place, open, { example: example.name }, []), { "aria-expanded": "false", "aria-label": `${words.play}: ${example.title}` });
    return h("li.card", null, h("div.row", null, h("strong.grow", null, example.title), open), example.idea ? h("p.hint", null, example.idea) : null, place);
  };

  const mutantItem = (/** @type {any} */ mutant) => {
    const place = h("div.place");
    const statement = properties.get(mutant.breaks)?.statement ?? "";
    const mark = h("span.chip", { hidden: !isSolved(algorithm.name, mutant.name) }, `✓ ${words.solvedBefore}`);
    const task = {
      task: words.breakTask(mutant.breaks, statement),
      recipe: { script: `run ${algorithm.name} -n ${mutant.n} --mutant ${mutant.name}\n---\n` },
      /** @param {import("../../types.js").Summary} run */
      judge(run) {
        if (!run.violation) return { solved: false, sentence: words.unbroken(mutant.breaks) };
        const { property, step } = run.violation;
        return { solved: true, sentence: property === mutant.breaks ? words.broke(property, step) : words.otherBroken(property, mutant.breaks) };
      },
      onSolved() {
        markSolved(algorithm.name, mutant.name);
        mark.hidden = false;
      },
    };
    /** @type {any} */
    const find = button(words.find, () => tools.workbench(place, find, task), { "aria-expanded": "false", "aria-label": `${words.find}: ${mutant.name}` });
    const checker = h("a.button", { href: `#/check/${encode({ algorithm: algorithm.name, mutant: mutant.name })}`, "aria-label": `${words.checker}: ${mutant.name}` }, words.checker);
    return h("li.card", { "data-mutant": mutant.name }, h("div.row", null, h("strong", null, h("code", null, mutant.name)), h("abbr.chip", { title: statement }, mutant.breaks), mark, h("span.grow"), find, checker),
      h("p", null, mutant.what), place);
  };

  const page = h("article.lesson.algorithm");
  replace(page,
    h("p", null, h("a", { href: "#/learn" }, `← ${words.back}`)),
    h("h1", null, algorithm.title), facts,
    h("section", { "aria-label": words.examples }, h("h2", null, words.examples), mine.length ? h("ul.plain", null, mine.map(exampleItem)) : h("p.empty", null, words.noExamples)),
    h("section", { "aria-label": words.mutants }, h("h2", null, words.mutants), algorithm.mutants.length ? [h("p.hint", null, words.mutantsIntro), h("ul.plain", null, algorithm.mutants.map(mutantItem))] : h("p.empty", null, words.noMutants)),
    h("section", { "aria-label": words.description }, markdown((algorithm.page ?? "").replace(/^# .*\n/, ""), { link, level: 1, codeLabel: words.codeLabel })));
  return page;
}
