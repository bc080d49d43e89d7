// @ts-check
// What is true at a moment: processes, messages in flight, properties, and why somebody waits.

import { button, h } from "../dom.js";
import { icon } from "../icons.js";
import { texts } from "../texts.js";
import { formatTime } from "./model.js";
import { waitGraph } from "./waits.js";
import { explained } from "./words.js";

/** So many processes are listed; in a larger group those that changed or wait. */
const LISTED = 40;
const LISTED_MESSAGES = 60;
const LISTED_LINES = 12;
const FEW_VALUES = 8;

/**
 * @typedef {object} Actions
 * @property {(item: import("../types.js").InFlight, moment: import("../types.js").Moment) => import("./menu.js").MenuItem[]} message
 * @property {(process: import("../types.js").ProcessState, moment: import("../types.js").Moment) => import("./menu.js").MenuItem[]} process
 * @property {(moment: import("../types.js").Moment) => import("./menu.js").MenuItem[]} moment
 * @property {(command: string) => void} command
 */

/**
 * @param {import("../types.js").Moment} moment @param {import("../types.js").Summary} summary
 * @param {{ actions?: Actions | undefined, menu: (anchor: Element, items: import("./menu.js").MenuItem[], title: string) => void, colourOf: (message: string) => string, words: import("./words.js").Words | null, reveal: (event: number) => void, opened: Set<number> }} context
 * @returns {HTMLElement[]}
 */
export function momentSections(moment, summary, { actions, menu, colourOf, reveal, words, opened }) {
  const say = texts.moment;
  const names = new Map(summary.processes.map(({ id, name }) => [id, name]));
  const nameOf = (/** @type {number} */ id) => names.get(id) ?? `p${id}`;
  return [
    h("section", null,
      h("p.when", null, texts.transport.at(moment.at, moment.steps, formatTime(moment.time, texts.units))),
      h("p.judged", { "aria-hidden": "true" }, moment.properties.filter(({ promised }) => promised).map(({ property, state, statement }) =>
        h(`span.chip${state === "held" ? ".good" : state === "broken" ? ".bad" : ".soft"}`, { title: `${statement}: ${say.states[state]}` }, `${say.signs[state] ?? "?"} ${property}`))),
      moment.happened.length ? h("p.happened.mono", { "aria-label": say.happened }, [...moment.happened.slice(0, LISTED_LINES), ...(moment.happened.length > LISTED_LINES ? [`+ ${moment.happened.length - LISTED_LINES}`] : [])].join("\n")) : null,
      actions ? h("div.row", null, button([texts.run.actions, icon("down")], (event) => menu(/** @type {Element} */ (event.currentTarget), actions.moment(moment), texts.interfere.moment), { "data-key": "moment", "aria-haspopup": "menu" })) : null),
    waitSection(moment, nameOf, words),
    processSection(moment, nameOf, actions, menu, opened),
    flightSection(moment, nameOf, actions, menu, colourOf, reveal),
    moment.timers.length ? h("section", null, h("h3", null, say.timers),
      h("ul.plain.timers", null, moment.timers.map((timer) => h("li", null, h("span.grow", null, `${nameOf(timer.process)} ${timer.timer}`),
        actions ? button(texts.interfere.fire, () => actions.command(timer.command), { "data-key": `timer ${timer.process} ${timer.timer}`, "aria-label": `${texts.interfere.fire}: ${nameOf(timer.process)} ${timer.timer}` }) : null)))) : null,
    h("section", null, h("h3", null, say.properties), propertyList(moment.properties, words)),
  ].filter((section) => section !== null);
}

/** @param {import("../types.js").Property[]} properties @param {import("./words.js").Words | null} [words] */
export function propertyList(properties, words = null) {
  const say = texts.moment;
  return h("ul.plain.properties", null, properties.map(({ property, state, detail, statement, promised }) =>
    h("li", null, h(`span.sign${!promised ? ".soft" : state === "held" ? ".good" : state === "broken" ? ".bad" : ".soft"}`, { "aria-hidden": "true" }, say.signs[state] ?? "?"),
      h("span", null, h("strong", null, property), " ", explained(statement, words), state === "held" ? h("span.visually-hidden", null, `: ${say.states.held}`) : h(state === "broken" && promised ? "span.bad" : "span.soft", null, `: ${state === "broken" && !promised ? say.didNotHold : say.states[state]}${detail ? `, ${detail}` : ""}`),
        promised ? null : h("span.soft", null, ` (${say.notPromised})`)))));
}

/** @param {import("../types.js").Moment} moment @param {(id: number) => string} nameOf @param {import("./words.js").Words | null} words */
function waitSection({ waits }, nameOf, words) {
  if (!waits || waits.waiters.length === 0) return null;
  return h("section", null, h("h3", null, texts.moment.waits),
    h("ul.plain", null, waits.waiters.slice(0, LISTED).map(({ sentence }) => h("li", null, explained(sentence, words)))),
    waits.circle?.length ? h("p.bad", null, h("strong", null, `${texts.moment.deadlock}: ${waits.circle.map(nameOf).join(" → ")}`)) : null,
    waitGraph(waits, nameOf));
}

/**
 * The state of a process in its own words: all of a small one; of a large one what has changed, and the rest behind a fold.
 * @param {import("../types.js").ProcessState} process @param {Set<number>} opened whose fold is open
 */
function stateOf({ id, state }, opened) {
  /** @param {import("../types.js").ProcessState["state"]} rows @param {string} [size] */
  const list = (rows, size = "") => h(`dl${size}`, null, rows.flatMap(({ name, value, before, changed }) => [
    h("dt", null, name), h(`dd${changed ? ".changed" : ""}`, null, value, changed && before !== null && before !== undefined ? h("small", null, ` ${texts.moment.was(before)}`) : null)]));
  if (state.length <= FEW_VALUES) return list(state);
  const fold = h("details", { open: opened.has(id), ontoggle: () => { if (fold.open) opened.add(id); else opened.delete(id); } },
    h("summary", { "data-key": `state ${id}` }, texts.moment.values(state.length)), list(state));
  const changed = state.filter((row) => row.changed);
  return [changed.length ? list(changed, ".short") : null, fold];
}

/** @param {import("../types.js").Moment} moment @param {(id: number) => string} nameOf @param {Actions | undefined} actions @param {(anchor: Element, items: import("./menu.js").MenuItem[], title: string) => void} menu @param {Set<number>} opened */
function processSection(moment, nameOf, actions, menu, opened) {
  const say = texts.moment;
  const all = moment.processes;
  const listed = all.length <= LISTED ? all : all.filter(({ changed, band, presence }) => changed || band !== "quiet" || presence === "down").slice(0, LISTED);
  const left = all.length - listed.length;
  return h("section", null, h("h3", null, say.processes), listed.map((process) =>
    h(`div.process${process.changed ? ".changed" : ""}`, { "data-process": process.id },
      h("header", null, h("span.grow", null, h("strong", null, nameOf(process.id)),
        process.presence === "up" ? h(`span.chip.${process.band}`, null, process.phase) : h("span.chip.bad", null, say.presence[process.presence]),
        process.life > 1 ? h("small", null, `⟲ ${process.life}`) : null),
      actions ? button(icon("more"), (event) => menu(/** @type {Element} */ (event.currentTarget), actions.process(process, moment), nameOf(process.id)), { "data-key": `process ${process.id}`, "aria-label": `${texts.interfere.process} ${nameOf(process.id)}: ${texts.run.actions}`, "aria-haspopup": "menu", class: "quiet" }) : null),
      process.presence === "up" && process.state.length ? stateOf(process, opened) : null)),
  left > 0 ? h("p.soft", null, `+ ${left}`) : null);
}

/** @param {import("../types.js").Moment} moment @param {(id: number) => string} nameOf @param {Actions | undefined} actions @param {(anchor: Element, items: import("./menu.js").MenuItem[], title: string) => void} menu @param {(message: string) => string} colourOf @param {(event: number) => void} reveal */
function flightSection(moment, nameOf, actions, menu, colourOf, reveal) {
  const say = texts.moment;
  const flying = moment.in_flight;
  const total = moment.in_flight_total ?? flying.length;
  return h("section", null, h("h3", null, `${say.inFlight} (${total})`),
    flying.length === 0 ? h("p.soft", null, say.nothingInFlight) : h("ul.plain.flight", null, flying.slice(0, LISTED_MESSAGES).map((item) => {
      const swatch = h("span.swatch", { "aria-hidden": "true" });
      swatch.style.borderColor = colourOf(item.message);
      const title = `${item.text} ${nameOf(item.from)} → ${nameOf(item.to)}`;
      return h("li", null, swatch,
        button(title, () => reveal(item.send), { class: "quiet grow mono", "data-key": `send ${item.name}` }),
        item.copy ? h("small", null, say.copy) : null, item.deliverable ? null : h("small", null, say.cannotDeliver),
        actions ? button(icon("more"), (event) => menu(/** @type {Element} */ (event.currentTarget), actions.message(item, moment), title), { "data-key": `message ${item.name}`, "aria-label": `${texts.interfere.message} ${title}: ${texts.run.actions}`, "aria-haspopup": "menu", class: "quiet" }) : null);
    })),
    total > LISTED_MESSAGES ? h("p.soft", null, `+ ${total - LISTED_MESSAGES}`) : null);
}
