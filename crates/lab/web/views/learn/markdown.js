// @ts-check
// The Markdown of docs/algorithms as elements. Text stays text: nothing is ever parsed as HTML.

import { h } from "../../dom.js";

/**
 * @typedef {{ link?: (target: string) => string | null, level?: number, codeLabel?: string }} MarkdownOptions
 * `link` gives the address of a link, or null where there is none in the page.
 */

/** @param {string} text @param {MarkdownOptions} options @returns {(Node | string)[]} */
export function inline(text, options) {
  /** @type {(Node | string)[]} */
  const parts = [];
  const pattern = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|<(https?:\/\/[^>\s]+)>|\[((?:`[^`]*`|[^\]`])+)\]\(([^)\s]+)\)/g;
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > from) parts.push(text.slice(from, match.index));
    from = match.index + match[0].length;
    const [, code, strong, emphasis, bare, label, target] = match;
    if (code !== undefined) parts.push(h("code", null, code));
    else if (strong !== undefined) parts.push(h("strong", null, inline(strong, options)));
    else if (emphasis !== undefined) parts.push(h("em", null, inline(emphasis, options)));
    else {
      const address = bare ?? options.link?.(target) ?? null;
      const shown = bare ? [bare] : inline(label, options);
      const outside = address !== null && !address.startsWith("#");
      parts.push(address === null ? h("span", null, shown) : h("a", { href: address, ...(outside ? { rel: "noopener noreferrer", target: "_blank" } : {}) }, shown));
    }
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

/** @param {string} row */
function cells(row) {
  return row.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

const isRow = (/** @type {string | undefined} */ line) => line !== undefined && /^\s*\|/.test(line);
const isItem = (/** @type {string} */ line) => /^(\s*)([-*]|\d+\.)\s+/.exec(line);
const isSpecial = (/** @type {string} */ line) => /^(#{1,6} |```|\s*\||\s*([-*]|\d+\.)\s)/.test(line);

/**
 * @param {string} source @param {MarkdownOptions} [options] `level`: the level of the largest heading
 * @returns {HTMLElement}
 */
export function markdown(source, options = {}) {
  const lines = source.replaceAll("\r", "").split("\n");
  const level = options.level ?? 2;
  const root = h("div.markdown");
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (heading) {
      root.append(h(`h${Math.min(6, level + heading[1].length - 1)}`, null, inline(heading[2], options)));
      at += 1;
    } else if (line.startsWith("```")) {
      const end = lines.findIndex((other, place) => place > at && other.startsWith("```"));
      const until = end < 0 ? lines.length : end;
      root.append(h("pre", { tabindex: "0", role: "region", "aria-label": options.codeLabel ?? "code" }, h("code", null, lines.slice(at + 1, until).join("\n"))));
      at = until + 1;
    } else if (isRow(line)) {
      const rows = [];
      while (isRow(lines[at])) rows.push(cells(lines[at++]));
      const [head, ...body] = rows.filter((row) => !row.every((cell) => /^:?-+:?$/.test(cell)));
      root.append(h("div.scroll", { tabindex: "0", role: "region", "aria-label": head.join(", ") }, h("table", null,
        h("thead", null, h("tr", null, head.map((cell) => h("th", { scope: "col" }, inline(cell, options))))),
        h("tbody", null, body.map((row) => h("tr", null, row.map((cell) => h("td", null, inline(cell, options)))))))));
    } else if (isItem(line)) {
      const ordered = /^\s*\d+\./.test(line);
      const list = h(ordered ? "ol" : "ul");
      while (at < lines.length && lines[at].trim()) {
        const item = isItem(lines[at]);
        if (item && /^\d/.test(item[2]) !== ordered) break;
        let text = lines[at].slice(item ? item[0].length : 0).trim();
        at += 1;
        while (at < lines.length && lines[at].trim() && !isItem(lines[at])) text += ` ${lines[at++].trim()}`;
        list.append(h("li", null, inline(text, options)));
      }
      root.append(list);
    } else if (line.trim()) {
      let text = line.trim();
      at += 1;
      while (at < lines.length && lines[at].trim() && !isSpecial(lines[at])) text += ` ${lines[at++].trim()}`;
      root.append(h("p", null, inline(text, options)));
    } else {
      at += 1;
    }
  }
  return root;
}
