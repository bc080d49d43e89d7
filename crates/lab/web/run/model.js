// @ts-check
// A run in columns, prepared for drawing: what lies on which lane, the bands of phases, the messages with both ends.

export const BAND = { quiet: 0, waiting: 1, holding: 2, down: 3, absent: 4, paused: 5 };
export const FATE = { delivered: 0, lost: 1, open: 2 };

/** Whether a process lives through it; what the network does to a message is on no lane. @param {string} kind */
export const isLived = (kind) => kind !== "drop" && kind !== "duplicate";

/** @param {number} us @param {typeof import("../texts.js").texts.units} units */
export function formatTime(us, units) {
  if (us < 1000) return `${us} ${units.us}`;
  if (us < 1_000_000) return `${trim(us / 1000)} ${units.ms}`;
  return `${trim(us / 1_000_000)} ${units.s}`;
}

/** @param {number} value */
function trim(value) {
  return value.toFixed(3).replace(/\.?0+$/, "");
}

/**
 * The first place in sorted `values` whose value is not smaller.
 * @param {ArrayLike<number>} values @param {number} value
 */
export function lowerBound(values, value) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * @typedef {object} Scale
 * @property {"time" | "depth"} name
 * @property {Float64Array} at the position of each event
 * @property {number} max the position of the last
 * @property {Float64Array} moments the position of each moment
 * @property {Int32Array} order messages by the position of their send
 * @property {Float64Array} starts positions of their sends, in that order
 * @property {Float64Array} reach how far the messages up to here reach at most
 * @property {number} flight how long a message is under way, usually
 */

/** @typedef {ReturnType<typeof createModel>} Model */

/** @param {import("../types.js").Summary} summary @param {import("../types.js").Index} index */
export function createModel(summary, index) {
  const count = index.events;
  const lanes = summary.processes.length;
  const lane = Int32Array.from(index.process);
  const step = Int32Array.from(index.step);
  const kind = index.kind.map((code) => index.kinds[code]);
  /** @type {number[][]} */
  const collected = Array.from({ length: lanes }, () => []);
  /** @type {number[]} */
  const walls = [];
  for (let event = 0; event < count; event++) {
    if (lane[event] >= 0 && isLived(kind[event])) collected[lane[event]].push(event);
    else if (kind[event] === "partition" || kind[event] === "heal") walls.push(event);
  }
  const onLane = collected.map((events) => Int32Array.from(events));
  const laneOf = new Map(summary.processes.map(({ id }, place) => [id, place]));

  const bands = onLane.map((events, place) => bandsOf(events, summary.processes[place].joins, kind, index));
  const messages = messagesOf(index, kind, lane);
  /** @type {Map<string, Scale>} */
  const scales = new Map();

  return {
    summary, index, count, lanes, lane, step, kind, onLane, laneOf, bands, messages, walls,
    /** Virtual time says nothing where all happens at once. */
    usualScale: /** @type {"time" | "depth"} */ (index.time_max > 0 ? "time" : "depth"),
    /** @param {"time" | "depth"} name @returns {Scale} */
    scale(name) {
      let scale = scales.get(name);
      if (!scale) {
        scale = scaleOf(name, index, messages, count);
        scales.set(name, scale);
      }
      return scale;
    },
    /** How many events of a lane have happened at a moment. @param {number} place @param {number} moment */
    happened(place, moment) {
      const events = onLane[place];
      let low = 0;
      let high = events.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (step[events[middle]] <= moment) low = middle + 1;
        else high = middle;
      }
      return low;
    },
  };
}

/**
 * @param {Int32Array} events @param {boolean} joins @param {string[]} kind @param {import("../types.js").Index} index
 * @returns {{ from: Int32Array, band: Uint8Array, phase: Int32Array }} where each band begins: an event, or -1 for the beginning
 */
function bandsOf(events, joins, kind, index) {
  const from = [-1];
  const band = [joins ? BAND.absent : BAND.quiet];
  const phase = [-1];
  let kept = BAND.quiet;
  for (const event of events) {
    const at = index.phase[event];
    let next = at >= 0 ? BAND[index.bands[index.phases[at]] ?? "quiet"] : band[band.length - 1];
    const last = band[band.length - 1];
    switch (kind[event]) {
      case "crash": next = BAND.down; break;
      case "restart": case "start": case "join": if (at < 0) next = BAND.quiet; break;
      case "pause": kept = last; next = BAND.paused; break;
      case "resume": if (at < 0) next = kept; break;
      // What reaches a process that is down or paused changes nothing in it.
      default: if (last === BAND.down || last === BAND.paused || last === BAND.absent) next = last;
    }
    if (next !== last || (at >= 0 && at !== phase[phase.length - 1])) {
      from.push(event);
      band.push(next);
      phase.push(at);
    }
  }
  return { from: Int32Array.from(from), band: Uint8Array.from(band), phase: Int32Array.from(phase) };
}

/** @param {import("../types.js").Index} index @param {string[]} kind @param {Int32Array} lane */
function messagesOf(index, kind, lane) {
  /** @type {number[]} */ const send = [];
  /** @type {number[]} */ const end = [];
  /** @type {number[]} */ const fate = [];
  /** @type {number[]} */ const copy = [];
  const arrivals = new Uint8Array(index.events);
  const copied = new Uint8Array(index.events);
  /** @param {number} from @param {number} to @param {number} how */
  const add = (from, to, how) => {
    send.push(from);
    end.push(to);
    fate.push(how);
    copy.push(arrivals[from] > 1 ? 1 : 0);
  };
  for (let event = 0; event < index.events; event++) {
    const cause = index.cause[event];
    if (cause < 0 || kind[cause] !== "send") continue;
    if (kind[event] === "duplicate") copied[cause]++;
    if (kind[event] !== "deliver" && kind[event] !== "drop") continue;
    arrivals[cause]++;
    add(cause, event, kind[event] === "drop" ? FATE.lost : FATE.delivered);
  }
  for (let event = 0; event < index.events; event++) {
    if (kind[event] !== "send") continue;
    while (arrivals[event] < copied[event] + 1) {
      arrivals[event]++;
      add(event, -1, FATE.open);
    }
  }
  return {
    count: send.length, send: Int32Array.from(send), end: Int32Array.from(end), fate: Uint8Array.from(fate), copy: Uint8Array.from(copy),
    from: Int32Array.from(send, (event) => lane[event]), to: Int32Array.from(send, (event) => index.peer[event]),
    kind: Int32Array.from(send, (event) => index.message[event]),
  };
}

/** @param {"time" | "depth"} name @param {import("../types.js").Index} index @param {ReturnType<typeof messagesOf>} messages @param {number} count @returns {Scale} */
function scaleOf(name, index, messages, count) {
  const at = Float64Array.from(name === "time" ? index.time : index.depth);
  const moments = new Float64Array(index.steps + 1);
  let deepest = 0;
  let event = 0;
  for (let moment = 0; moment <= index.steps; moment++) {
    for (; event < Math.min(index.step_event[moment], count); event++) deepest = Math.max(deepest, at[event]);
    moments[moment] = name === "time" ? index.step_time[moment] : deepest;
  }
  const order = Int32Array.from({ length: messages.count }, (_, place) => place).sort((a, b) => at[messages.send[a]] - at[messages.send[b]]);
  const starts = Float64Array.from(order, (message) => at[messages.send[message]]);
  const lengths = Float64Array.from(order, (message) => (messages.end[message] < 0 ? 0 : at[messages.end[message]] - at[messages.send[message]])).filter((length) => length > 0).sort();
  const flight = lengths.length ? lengths[lengths.length >> 1] : 1;
  const reach = new Float64Array(order.length);
  let furthest = 0;
  for (let place = 0; place < order.length; place++) {
    const end = messages.end[order[place]];
    furthest = Math.max(furthest, end < 0 ? starts[place] + flight : at[end]);
    reach[place] = furthest;
  }
  const max = Math.max(name === "time" ? index.time_max : index.depth_max, 1);
  return { name, at, max, moments, order, starts, reach, flight };
}
