// @ts-check
// The page of one run, in one file: the run is in it, no server is needed. The modules of `player.list` are joined to make its script.

import { h } from "./dom.js";
import { mountStage } from "./run/stage.js";
import { texts } from "./texts.js";
import { applyTheme, chooseTheme, chosenTheme, currentTheme, onTheme } from "./theme.js";

/** @typedef {{ summary: import("./types.js").Summary, index: import("./types.js").Index, events: import("./types.js").EventRecord[], moments: import("./types.js").Moment[] | null }} Recorded */

/** Whether `one` may have influenced `other`: the vector stamp of `other` knows it. @param {import("./types.js").EventRecord} one @param {import("./types.js").EventRecord} other @param {Map<number, number>} places */
function knows(one, other, places) {
  const place = places.get(one.process ?? -1) ?? -1;
  return place >= 0 && (one.vector?.[place] ?? 0) <= (other.vector?.[place] ?? 0);
}

/** @param {Recorded} run @returns {import("./types.js").Source} */
export function recordedSource(run) {
  const { summary, index, events, moments } = run;
  const places = new Map(summary.processes.map(({ id }, place) => [id, place]));
  return {
    summary,
    index: async () => index,
    events: async (from, limit) => events.slice(from, from + limit),
    at: async (moment) => moments?.[moment] ?? null,
    async order(event) {
      const chosen = events[event];
      if (!places.has(chosen.process ?? -1) || !chosen.vector) throw new Error(texts.selection.noOrder);
      /** @type {Record<string, number>} */ const past = {};
      /** @type {Record<string, number>} */ const future = {};
      let concurrent = 0;
      for (const other of events) {
        if (!places.has(other.process ?? -1) || !other.vector) continue;
        const id = /** @type {number} */ (other.process);
        const before = other.id <= event && knows(other, chosen, places);
        const after = other.id >= event && knows(chosen, other, places);
        if (before) past[id] = other.id;
        if (after && future[id] === undefined) future[id] = other.id;
        if (!before && !after) concurrent++;
      }
      return { event, past, future, concurrent };
    },
    async cut(frontier) {
      /** @param {number} event */
      const inside = (event) => events[event].process !== undefined && event <= (frontier[String(events[event].process)] ?? -1);
      /** @type {Map<string, { from: number, to: number, sends: number[], messages: string[] }>} */
      const channels = new Map();
      /** @type {Set<number>} */
      const arrived = new Set();
      for (const event of events) {
        if (event.kind !== "deliver" && event.kind !== "drop") continue;
        const send = event.cause ?? -1;
        if (send < 0 || !inside(event.id)) continue;
        if (event.kind === "deliver" && !inside(send)) return { consistent: false, arrival: event.id, send, sentence: texts.player.inconsistent(event.to ?? 0, event.from ?? 0) };
        arrived.add(send);
      }
      for (const event of events) {
        if (event.kind !== "send" || !inside(event.id) || arrived.has(event.id)) continue;
        const key = `${event.from}>${event.to}`;
        const channel = channels.get(key) ?? { from: event.from ?? 0, to: event.to ?? 0, sends: [], messages: [] };
        channel.sends.push(event.id);
        channel.messages.push(event.text ?? event.message ?? "");
        channels.set(key, channel);
      }
      const count = [...channels.values()].reduce((sum, { sends }) => sum + sends.length, 0);
      return { consistent: true, channels: [...channels.values()], sentence: texts.player.consistent(count) };
    },
  };
}

/** @param {HTMLElement} body @param {Recorded} run */
async function startPlayer(body, run) {
  applyTheme();
  body.dataset.view = "player";
  document.title = `${run.summary.title} – ${texts.title}`;
  const theme = h("select.theme", { "aria-label": texts.theme.label, onchange: () => chooseTheme(theme.value) },
    Object.entries({ auto: texts.theme.auto, light: texts.theme.light, dark: texts.theme.dark }).map(([name, label]) => h("option", { value: name, selected: chosenTheme() === name }, label)));
  const spoken = h("div.spoken", { "aria-live": "polite" });
  const place = h("main.grow");
  const { violation } = run.summary;
  body.append(h("div.player", null,
    h("header.top", null, h("h1.grow", null, run.summary.title), h("code", null, run.summary.command), theme),
    violation ? h("div.look", null, h("p", null, h("strong.bad", null, `✗ ${violation.property} ${texts.run.violation}: `), violation.detail)) : null,
    place, spoken));
  const stage = await mountStage(place, { theme: currentTheme, onTheme, announce: (text) => { spoken.textContent = text; }, fail: (error) => console.error(error) }, recordedSource(run), { wholePage: true, at: 0 });
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) stage.play(true);
}

const recorded = document.getElementById("run");
if (recorded?.textContent) void startPlayer(document.body, JSON.parse(recorded.textContent));
