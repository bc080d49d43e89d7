// @ts-check
// The events as a list: what the diagram shows, for readers of a screen and for keyboards.

import { button, h, replace } from "../dom.js";
import { texts } from "../texts.js";
import { formatTime } from "./model.js";

/** So many events are listed at once. */
const WINDOW = 120;
const SEARCHED = 20_000;

/**
 * @param {{ source: () => import("../types.js").Source, model: () => import("./model.js").Model, onSelect: (event: number) => void, fail: (error: unknown) => void }} context
 */
export function createEventList({ source, model, onSelect, fail }) {
  const search = h("input", { type: "search", "aria-label": texts.events.filter, placeholder: texts.events.filter, oninput: () => { words = search.value.trim().toLowerCase(); void load(); } });
  const earlier = button(texts.events.earlier, () => { first = Math.max(0, first - WINDOW); void load(); });
  const later = button(texts.events.later, () => { first = Math.min(Math.max(0, model().count - 1), first + WINDOW); void load(); });
  const list = h("ol.events-list", { "aria-label": texts.events.label });
  const element = h("div", null, h("div.events-head", null, search), earlier, list, later);
  let first = 0;
  let loaded = "";
  let words = "";
  let at = 0;
  let selected = -1;
  /** @type {import("../types.js").Order | null} */
  let order = null;
  let turn = 0;
  /** @type {import("../types.js").EventRecord[]} */
  let records = [];

  /** @param {import("../types.js").EventRecord} record */
  function relation(record) {
    if (!order || record.process === undefined || record.process === null) return "";
    const before = order.past[record.process];
    const after = order.future[record.process];
    if (record.id === order.event) return texts.events.selected;
    if (before !== undefined && record.id <= before) return texts.events.past;
    if (after !== undefined && record.id >= after) return texts.events.future;
    return texts.events.concurrent;
  }

  function draw() {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.event;
    const inside = list.contains(document.activeElement);
    replace(list, records.length === 0 ? h("li.soft", null, texts.events.none) : records.map((record) =>
      h(`li${record.step > at ? ".ahead" : ""}`, null, h(`button${record.step === at ? ".now" : ""}`, { type: "button", "data-event": record.id, "aria-pressed": String(record.id === selected), "aria-current": record.step === at ? "step" : null, onclick: () => onSelect(record.id) },
        h("time", null, formatTime(record.time, texts.units)), h("span.what", null, record.what), h("small", null, relation(record))))));
    earlier.hidden = words !== "" || first === 0;
    later.hidden = words !== "" || first + WINDOW >= model().count;
    if (inside && focused) list.querySelector(`[data-event="${focused}"]`)?.focus({ preventScroll: true });
    list.dataset.at = String(at);
  }

  async function load() {
    const mine = ++turn;
    const wanted = `${source().summary.id} ${first} ${words}`;
    if (wanted !== loaded) {
      try {
        const found = words ? await searchAll(mine) : await source().events(first, WINDOW);
        if (mine !== turn) return;
        records = found;
        loaded = wanted;
      } catch (error) {
        fail(error);
        return;
      }
    }
    draw();
    list.querySelector(".now")?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} mine */
  async function searchAll(mine) {
    /** @type {import("../types.js").EventRecord[]} */
    const found = [];
    for (let from = 0; from < Math.min(model().count, SEARCHED) && found.length < WINDOW && mine === turn; from += 1000) {
      found.push(...(await source().events(from, 1000)).filter((record) => record.what.toLowerCase().includes(words)));
    }
    return found.slice(0, WINDOW);
  }

  return {
    element,
    /** @param {number} moment */
    show(moment) {
      at = moment;
      const last = Math.max(0, (model().index.step_event[moment] ?? 1) - 1);
      if (!words && (last < first || last >= first + WINDOW || loaded === "")) first = Math.max(0, Math.min(last - Math.floor(WINDOW / 2), model().count - WINDOW));
      void load();
    },
    /** @param {number} event @param {import("../types.js").Order | null} next */
    select(event, next) {
      selected = event;
      order = next;
      if (records.length) draw();
    },
    reset() {
      loaded = "";
      first = 0;
      selected = -1;
      order = null;
      records = [];
      words = "";
      search.value = "";
      turn++;
      replace(list);
    },
  };
}
