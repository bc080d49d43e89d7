// @ts-check
// The branches that were made of a run, as a tree.

import { button, h, replace } from "../dom.js";
import { texts } from "../texts.js";

/** @typedef {{ key: string, recipe: import("../types.js").Recipe, parent: string | null, at: number, label: string }} Branch */

/** @param {import("../types.js").Fork} fork */
export function forkLabel(fork) {
  const held = (fork.delay ?? []).map(({ message, steps }) => `${texts.interfere.delay}: ${message}${steps ? ` (${steps})` : ""}`);
  return [...(fork.do ?? []), ...held].join("; ") || (fork.then === "settle" ? texts.interfere.settle : texts.interfere.thenStop);
}

/** The same for the same recipe, in whatever order its parts come. @param {import("../types.js").Recipe} recipe */
export const branchKey = (recipe) => JSON.stringify(recipe, (_, value) =>
  (value !== null && typeof value === "object" && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value));

/** @param {import("../types.js").Recipe} recipe @returns {{ recipe: import("../types.js").Recipe, at: number } | null} the run that was left, and where */
export function parentOf(recipe) {
  const fork = recipe.forks?.at(-1);
  if (!fork) return null;
  const { forks = [], ...rest } = recipe;
  return { recipe: forks.length > 1 ? { ...rest, forks: forks.slice(0, -1) } : rest, at: fork.at };
}

/** @param {{ open(recipe: import("../types.js").Recipe, at?: number): void, compare(): void, undo(): void }} context */
export function createBranches({ open, compare, undo }) {
  /** @type {Map<string, Branch>} */
  const known = new Map();
  let current = "";
  const tree = h("div");
  const compareButton = button(texts.branches.compare, compare);
  const undoButton = button(texts.interfere.undo, undo);
  const element = h("div", null, h("div.row", null, undoButton, compareButton), tree);

  /** @param {string} key @returns {HTMLElement} */
  function draw(key) {
    const branch = /** @type {Branch} */ (known.get(key));
    const below = [...known.values()].filter(({ parent }) => parent === key);
    return h("li", null,
      button(branch.parent === null ? texts.branches.main : `${branch.label} · ${texts.branches.at(branch.at)}`, () => open(branch.recipe), { "aria-current": key === current ? "true" : null }),
      below.length ? h("ul", null, below.map((child) => draw(child.key))) : null);
  }

  return {
    element,
    /** @param {import("../types.js").Recipe} recipe */
    show(recipe) {
      let key = branchKey(recipe);
      current = key;
      /** @type {import("../types.js").Recipe | null} */
      let one = recipe;
      while (one && !known.has(key)) {
        const parent = parentOf(one);
        const fork = one.forks?.at(-1);
        known.set(key, { key, recipe: one, parent: parent ? branchKey(parent.recipe) : null, at: fork?.at ?? 0, label: fork ? forkLabel(fork) : texts.branches.main });
        one = parent?.recipe ?? null;
        if (one) key = branchKey(one);
      }
      let root = current;
      for (let up = known.get(root)?.parent; up; up = known.get(root)?.parent) root = up;
      replace(tree, h("ul.branches", null, draw(root)));
      const forked = parentOf(recipe) !== null;
      compareButton.disabled = undoButton.disabled = !forked;
    },
  };
}
