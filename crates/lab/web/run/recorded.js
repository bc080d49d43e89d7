// @ts-check
// A run that is in the file itself.

import { texts } from "../texts.js";
import { isLived } from "./model.js";

/** @typedef {{ summary: import("../types.js").Summary, index: import("../types.js").Index, events: import("../types.js").EventRecord[], moments: import("../types.js").Moment[] | null }} Recorded */

/** Whether `one` may have influenced `other`: the vector stamp of `other` knows it. @param {import("../types.js").EventRecord} one @param {import("../types.js").EventRecord} other @param {Map<number, number>} places */
function knows(one, other, places) {
  const place = places.get(one.process ?? -1) ?? -1;
  return place >= 0 && (one.vector?.[place] ?? 0) <= (other.vector?.[place] ?? 0);
}

/** @param {Recorded} run @returns {import("../types.js").Source} */
export function recordedSource(run) {
  const { summary, index, events, moments } = run;
  const places = new Map(summary.processes.map(({ id }, place) => [id, place]));
  /** @param {import("../types.js").EventRecord} event */
  const lived = (event) => places.has(event.process ?? -1) && event.vector !== undefined && isLived(event.kind);
  return {
    summary,
    index: async () => index,
    events: async (from, limit) => events.slice(from, from + limit),
    at: async (moment) => moments?.[moment] ?? null,
    async order(event) {
      const chosen = events[event];
      if (!lived(chosen)) throw new Error(texts.selection.noOrder);
      /** @type {Record<string, number>} */ const past = {};
      /** @type {Record<string, number>} */ const future = {};
      let concurrent = 0;
      for (const other of events) {
        if (!lived(other)) continue;
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
        // What was lost is in flight nowhere.
        if (event.kind === "drop") arrived.add(send);
        if (event.kind === "drop" || send < 0 || !inside(event.id)) continue;
        if (!inside(send)) return { consistent: false, arrival: event.id, send, sentence: texts.player.inconsistent(event.to ?? 0, event.from ?? 0) };
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
