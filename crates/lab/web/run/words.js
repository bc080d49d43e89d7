// @ts-check
// Technical words, explained where they stand.

import { h } from "../dom.js";

/** @typedef {{ pattern: RegExp, meanings: Map<string, string> }} Words */

/** @param {{ word: string, meaning: string }[]} words @returns {Words | null} */
export function createWords(words) {
  if (words.length === 0) return null;
  const quoted = words.map(({ word }) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).sort((a, b) => b.length - a.length);
  return { pattern: new RegExp(`\\b(${quoted.join("|")})(s?)\\b`, "gi"), meanings: new Map(words.map(({ word, meaning }) => [word.toLowerCase(), meaning])) };
}

/** The text with an explanation at each word that has one. @param {string} text @param {Words | null} words @returns {(Node | string)[]} */
export function explained(text, words) {
  if (!words) return [text];
  /** @type {(Node | string)[]} */
  const pieces = [];
  let from = 0;
  for (const found of text.matchAll(words.pattern)) {
    pieces.push(text.slice(from, found.index), h("abbr", { title: words.meanings.get(found[1].toLowerCase()) }, found[0]));
    from = found.index + found[0].length;
  }
  return [...pieces, text.slice(from)];
}
