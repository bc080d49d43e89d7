// @ts-check
// Everything that can be done, found by typing.

import { h, replace } from "../dom.js";
import { texts } from "../texts.js";

const SHOWN = 60;

/** @param {import("./menu.js").MenuItem[]} items @param {(typed: string) => import("./menu.js").MenuItem | null} [other] what may be done with words that are no item */
export function openPalette(items, other) {
  const input = h("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": texts.palette.label, placeholder: texts.palette.placeholder, autocomplete: "off", spellcheck: "false" });
  const list = h("ul", { role: "listbox", id: "palette-list", "aria-label": texts.palette.label });
  const dialog = h("dialog.palette", { "aria-label": texts.palette.label }, input, list);
  /** @type {import("./menu.js").MenuItem[]} */
  let found = [];
  let at = 0;

  function draw() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const typed = input.value.trim();
    const whole = typed.toLowerCase();
    found = items.filter(({ label }) => words.every((/** @type {string} */ word) => label.toLowerCase().includes(word)))
      .sort((a, b) => Number(b.label.toLowerCase().includes(whole)) - Number(a.label.toLowerCase().includes(whole))).slice(0, SHOWN);
    const own = typed && other ? other(typed) : null;
    if (own) found.push(own);
    at = Math.min(at, Math.max(0, found.length - 1));
    replace(list, found.length ? found.map(({ label }, place) => h("li", { role: "option", id: `palette-${place}`, "aria-selected": String(place === at), onclick: () => choose(place) }, label)) : h("li.soft", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, texts.palette.empty));
    if (found.length) input.setAttribute("aria-activedescendant", `palette-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }
  /** @param {number} place */
  function choose(place) {
    const item = found[place];
    if (!item) return;
    dialog.close();
    item.run();
  }
  input.addEventListener("input", () => { at = 0; draw(); });
  input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown") at = Math.min(at + 1, found.length - 1);
    else if (event.key === "ArrowUp") at = Math.max(at - 1, 0);
    else if (event.key === "Enter") {
      event.preventDefault();
      choose(at);
      return;
    } else return;
    event.preventDefault();
    draw();
  });
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (/** @type {Event} */ event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
  draw();
  input.focus();
}

/**
 * Asks for a line of text, and perhaps for a choice that goes with it.
 * @param {string} label @param {string} value @param {(text: string, choice: string) => void} then @param {{ label: string, values: [string, string][] }} [choice]
 */
export function ask(label, value, then, choice) {
  const input = h("input.grow", { type: "text", value, "aria-label": label, spellcheck: "false", autocomplete: "off" });
  const select = choice ? h("select", { "aria-label": choice.label }, choice.values.map(([name, words]) => h("option", { value: name }, words))) : null;
  const form = h("form", { method: "dialog" }, h("p", null, label), h("div.row", null, input, select, h("button.primary", { type: "submit" }, texts.interfere.commandRun)));
  const dialog = h("dialog", { "aria-label": label }, form);
  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    dialog.close();
    if (input.value.trim()) then(input.value.trim(), select?.value ?? "");
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  input.select();
}
