// @ts-check
// A menu at a place of the page, by pointer and by keyboard.

import { h } from "../dom.js";

/** @typedef {{ label: string, run: () => void }} MenuItem */

/** @type {(() => void) | null} */
let closeOpenMenu = null;

/** @param {Element | { x: number, y: number }} anchor @param {MenuItem[]} items @param {string} [title] */
export function openMenu(anchor, items, title = "") {
  closeOpenMenu?.();
  if (items.length === 0) return;
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const buttons = items.map((item) => h("button", { type: "button", role: "menuitem", tabindex: "-1", onclick: () => { close(); item.run(); } }, item.label));
  const menu = h("div.menu", { role: "menu", "aria-label": title || null }, title ? h("div.menu-title", { role: "presentation" }, title) : null, buttons);
  /** @param {Event} event */
  const outside = (event) => {
    if (!menu.contains(event.target)) close();
  };
  function close() {
    if (closeOpenMenu !== close) return;
    closeOpenMenu = null;
    menu.remove();
    document.removeEventListener("pointerdown", outside, true);
    before?.focus({ preventScroll: true });
  }
  closeOpenMenu = close;
  menu.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to !== undefined) buttons[(to + buttons.length) % buttons.length].focus();
    else if (event.key === "Escape" || event.key === "Tab") close();
    else if (event.key !== "Enter" && event.key !== " ") return;
    event.stopPropagation();
    if (event.key !== "Enter" && event.key !== " ") event.preventDefault();
  });
  document.body.append(menu);
  document.addEventListener("pointerdown", outside, true);
  const box = anchor instanceof Element ? anchor.getBoundingClientRect() : null;
  const x = box ? box.left : /** @type {{ x: number }} */ (anchor).x;
  const y = box ? box.bottom + 4 : /** @type {{ y: number }} */ (anchor).y;
  menu.style.left = `${Math.max(4, Math.min(x, innerWidth - menu.offsetWidth - 4))}px`;
  menu.style.top = `${Math.max(4, Math.min(y, innerHeight - menu.offsetHeight - 4))}px`;
  buttons[0].focus({ preventScroll: true });
}
