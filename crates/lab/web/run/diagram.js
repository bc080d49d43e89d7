// @ts-check
// The space-time diagram on a canvas. Only what is visible is drawn; where too much is visible, how much there is.

import { h, oncePerFrame } from "../dom.js";
import { texts } from "../texts.js";
import { coloursOf } from "./colours.js";
import { BAND, FATE, formatTime, lowerBound } from "./model.js";

/** With more messages in view than this, densities are drawn instead of arrows. */
const ARROWS = 1500;
/** With fewer than this, the messages are named. */
const NAMED = 36;
const RULER = 24;

/**
 * @typedef {object} DiagramOptions
 * @property {() => "light" | "dark"} theme
 * @property {(event: number) => void} [onSelect]
 * @property {() => void} [onClear]
 * @property {(moment: number) => void} [onMoment]
 * @property {(target: { message?: number, lane?: number, event?: number }, x: number, y: number) => void} [onMenu]
 * @property {(cut: Int32Array) => void} [onCut]
 * @property {(event: number) => import("../types.js").EventRecord | null} [describe] what is known of an event; asks for more if it is not
 * @property {HTMLElement} [minimap]
 */
/** @typedef {ReturnType<typeof createDiagram>} Diagram */

/** @param {HTMLElement} holder @param {import("./model.js").Model} firstModel @param {DiagramOptions} options */
export function createDiagram(holder, firstModel, options) {
  let model = firstModel;
  const canvas = h("canvas", { "aria-hidden": "true" });
  const tip = h("div.tip", { hidden: true });
  holder.append(canvas, tip);
  const map = options.minimap ? h("canvas", { "aria-hidden": "true" }) : null;
  if (map) options.minimap?.append(map);
  const ink = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));

  let scale = model.scale(model.usualScale);
  let colours = coloursOf(options.theme());
  let width = 0;
  let height = 0;
  let down = false;
  let moment = model.index.steps;
  /** @type {import("../types.js").Order | null} */
  let order = null;
  let selected = -1;
  /** @type {Int32Array | null} */
  let cut = null;
  /** @type {"none" | "lamport" | "vector"} */
  let stamps = "none";
  /** @type {number | null} */
  let noReturn = model.summary.point_of_no_return;
  let drawn = { messages: 0, arrows: true, milliseconds: 0, frames: 0 };
  // What is in view: the position at the beginning of the axis, pixels per unit, and pixels that the lanes are scrolled.
  const view = { start: 0, zoom: 1, scroll: 0 };
  /** @type {CanvasPattern | null} */
  let hatch = null;
  /** @type {HTMLCanvasElement | null} */
  let overview = null;
  const redraw = oncePerFrame(draw);

  // Geometry. `a` runs along the axis, `b` across it.
  let gutterSize = 40;
  const gutter = () => gutterSize;
  function measureGutter() {
    gutterSize = down ? 34 : Math.min(86, 18 + 8.5 * Math.max(2, ...model.summary.processes.slice(0, 50).map(({ name }) => name.length)));
  }
  const length = () => Math.max(40, (down ? height : width) - gutter() - 18);
  const breadth = () => (down ? width - RULER : height - RULER);
  const laneSize = () => Math.max(down ? 44 : 22, Math.min(down ? 130 : 180, breadth() / Math.max(1, model.lanes)));
  const laneAt = (/** @type {number} */ lane) => RULER + (lane + 0.5) * laneSize() - view.scroll;
  const along = (/** @type {number} */ position) => gutter() + (position - view.start) * view.zoom;
  const position = (/** @type {number} */ a) => (a - gutter()) / view.zoom + view.start;
  const X = (/** @type {number} */ a, /** @type {number} */ b) => (down ? b : a);
  const Y = (/** @type {number} */ a, /** @type {number} */ b) => (down ? a : b);
  const fillBox = (/** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ la, /** @type {number} */ lb) => (down ? ink.fillRect(b, a, lb, la) : ink.fillRect(a, b, la, lb));
  const least = () => length() / (scale.max * 1.02);
  function clamp() {
    view.zoom = Math.min(Math.max(view.zoom, least()), Math.max(least(), scale.name === "depth" ? 200 : 400 / Math.max(1, scale.flight) * 4));
    const shown = length() / view.zoom;
    view.start = Math.min(Math.max(view.start, -8 / view.zoom), Math.max(0, scale.max * 1.015 - shown));
    view.scroll = Math.min(Math.max(view.scroll, 0), Math.max(0, laneSize() * model.lanes - breadth()));
  }

  function resize() {
    const box = holder.getBoundingClientRect();
    const shown = length() / view.zoom;
    const wasFitted = width === 0 || view.zoom <= least() * 1.001;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    width = Math.max(1, box.width);
    height = Math.max(1, box.height);
    down = width < 560;
    measureGutter();
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (wasFitted) fit();
    else view.zoom = length() / shown;
    clamp();
    if (map && options.minimap) {
      const small = options.minimap.getBoundingClientRect();
      map.width = Math.max(1, Math.round(small.width * ratio));
      map.height = Math.max(1, Math.round(small.height * ratio));
    }
    overview = null;
    redraw();
  }

  /** The first view of a short run is all of it; of a long one, its beginning at a size that can be read. */
  function fit() {
    view.zoom = least();
    view.start = 0;
  }
  function open() {
    fit();
    const readable = down ? 60 : 110;
    if (model.messages.count > 150) view.zoom = Math.max(least(), readable / Math.max(1e-9, scale.flight));
    clamp();
    redraw();
  }

  function makeHatch() {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
    pen.fillStyle = colours.waitingSoft;
    pen.fillRect(0, 0, 6, 6);
    pen.strokeStyle = colours.waiting;
    pen.lineWidth = 1.4;
    pen.beginPath();
    pen.moveTo(-1, 7); pen.lineTo(7, -1); pen.moveTo(-1, 1); pen.lineTo(1, -1); pen.moveTo(5, 7); pen.lineTo(7, 5);
    pen.stroke();
    return ink.createPattern(tile, "repeat");
  }

  /** The position up to which a lane has come at the moment. @param {number} lane */
  function reached(lane) {
    if (moment >= model.index.steps) return Infinity;
    if (scale.name === "time") return scale.moments[moment];
    const events = model.onLane[lane];
    const happened = model.happened(lane, moment);
    if (happened === 0) return 0;
    return happened < events.length ? (scale.at[events[happened - 1]] + scale.at[events[happened]]) / 2 : scale.at[events[happened - 1]] + 0.5;
  }
  const happened = (/** @type {number} */ event) => model.step[event] <= moment;

  /** The position of a cut on a lane, between the last event in it and the first behind it. @param {number} lane @param {number} inside */
  function cutAt(lane, inside) {
    const events = model.onLane[lane];
    const before = inside > 0 ? scale.at[events[inside - 1]] : -scale.max * 0.005;
    const after = inside < events.length ? scale.at[events[inside]] : Math.max(scale.max, before) + scale.flight * 0.3;
    return (before + after) / 2;
  }

  function visible() {
    const from = position(gutter() - 10);
    const to = position((down ? height : width) + 10);
    const first = lowerBound(scale.reach, from);
    let last = lowerBound(scale.starts, to);
    if (last < scale.starts.length && scale.starts[last] === to) last++;
    return { from, to, first, last };
  }
  const shownLanes = () => {
    const size = laneSize();
    const first = Math.max(0, Math.floor(view.scroll / size));
    return { first, last: Math.min(model.lanes - 1, Math.floor((view.scroll + breadth()) / size)) };
  };

  function draw() {
    const began = performance.now();
    if (width <= 1 || height <= 1) return;
    hatch ??= makeHatch();
    ink.fillStyle = colours.bg;
    ink.fillRect(0, 0, width + 1, height + 1);
    ink.font = "12px system-ui, sans-serif";
    ink.textBaseline = "middle";
    const inView = visible();
    drawRuler(inView.from, inView.to);
    ink.save();
    ink.beginPath();
    if (down) ink.rect(RULER, gutter() - 6, width, height);
    else ink.rect(gutter() - 6, RULER, width, height);
    ink.clip();
    drawShade();
    drawBands(inView.from, inView.to);
    const many = inView.last - inView.first;
    drawn.arrows = many <= ARROWS;
    if (drawn.arrows) {
      drawn.messages = drawMessages(inView);
      drawEvents(inView);
    } else {
      drawn.messages = 0;
      drawDensity(inView);
    }
    drawWalls();
    ink.restore();
    drawMoment();
    if (cut) drawCut();
    drawNames();
    drawMap();
    drawn.frames++;
    drawn.milliseconds = performance.now() - began;
  }

  /** @param {number} from @param {number} to */
  function drawRuler(from, to) {
    const wanted = (to - from) / Math.max(2, length() / (down ? 60 : 110));
    const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1e-9)));
    const tick = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= wanted) ?? power);
    ink.fillStyle = colours.soft;
    ink.strokeStyle = colours.line;
    ink.lineWidth = 1;
    ink.textAlign = down ? "left" : "center";
    ink.beginPath();
    for (let value = Math.max(0, Math.ceil(from / tick) * tick); value <= Math.min(to, scale.max * 1.02); value += tick) {
      const a = Math.round(along(value)) + 0.5;
      if (a < gutter()) continue;
      ink.moveTo(X(a, RULER - 4), Y(a, RULER - 4));
      ink.lineTo(X(a, down ? width : height), Y(a, down ? width : height));
      ink.font = "11px system-ui, sans-serif";
      if (down) {
        ink.save();
        ink.translate(10, Math.max(a, gutter() + 12));
        ink.rotate(-Math.PI / 2);
        ink.textAlign = "center";
        ink.fillText(scale.name === "time" ? formatTime(Math.round(value), texts.units) : String(value), 0, 0);
        ink.restore();
      } else ink.fillText(scale.name === "time" ? formatTime(Math.round(value), texts.units) : String(value), a, 10);
    }
    ink.globalAlpha = 0.55;
    ink.stroke();
    ink.globalAlpha = 1;
  }

  /** Past and future of the selected event. */
  function drawShade() {
    if (!order) return;
    const size = laneSize();
    const { first, last } = shownLanes();
    for (let lane = first; lane <= last; lane++) {
      const id = String(model.summary.processes[lane].id);
      const b = laneAt(lane) - size * 0.45;
      const before = order.past[id];
      const after = order.future[id];
      ink.globalAlpha = 0.16;
      if (before !== undefined) {
        ink.fillStyle = colours.past;
        fillBox(along(0), b, Math.max(0, along(scale.at[before]) - along(0)), size * 0.9);
      }
      if (after !== undefined) {
        ink.fillStyle = colours.future;
        fillBox(along(scale.at[after]), b, Math.max(0, along(scale.max * 1.02) - along(scale.at[after])), size * 0.9);
      }
    }
    ink.globalAlpha = 1;
  }

  /** @param {number} from @param {number} to */
  function drawBands(from, to) {
    const thick = Math.min(20, laneSize() * 0.42);
    const { first, last } = shownLanes();
    const end = along(scale.max);
    // With many lanes, what is shorter than this is not drawn one by one.
    const fine = Math.max(0.5, (length() * (last - first + 1)) / 12_000);
    for (let lane = first; lane <= last; lane++) {
      const b = laneAt(lane);
      const { from: starts, band } = model.bands[lane];
      const veil = along(reached(lane));
      // The last band that begins before the view.
      let low = 0;
      let high = starts.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((starts[middle] < 0 ? -1 : scale.at[starts[middle]]) < from) low = middle + 1;
        else high = middle;
      }
      let busyUntil = -Infinity;
      let insideUntil = -Infinity;
      for (let place = Math.max(0, low - 1); place < starts.length; place++) {
        const begins = starts[place] < 0 ? 0 : scale.at[starts[place]];
        if (begins > to) break;
        const a = Math.max(along(begins), gutter() - 8);
        const next = place + 1 < starts.length ? along(scale.at[starts[place + 1]]) : end;
        const ends = Math.min(next, down ? height + 8 : width + 8);
        // What is too short to be seen is left out, but never that somebody is inside.
        const inside = band[place] === BAND.holding;
        if (ends - a < fine && a < (inside ? insideUntil : busyUntil) + fine) continue;
        if (inside) insideUntil = Math.max(ends, a + Math.max(1, fine));
        busyUntil = Math.max(ends, insideUntil);
        // One band lies over the next by as much as it is drawn too wide.
        drawBand(band[place], inside ? a : Math.max(a, insideUntil), Math.max(ends - (inside ? a : Math.max(a, insideUntil)), inside ? Math.max(1, fine) : 0.5), b, thick);
      }
      if (veil < (down ? height : width)) {
        ink.fillStyle = colours.bg;
        ink.globalAlpha = 0.6;
        fillBox(Math.max(veil, gutter()), b - thick / 2 - 1, (down ? height : width), thick + 2);
        ink.globalAlpha = 1;
      }
    }
  }

  /** @param {number} band @param {number} a @param {number} size @param {number} b @param {number} thick */
  function drawBand(band, a, size, b, thick) {
    switch (band) {
      case BAND.waiting:
        ink.fillStyle = size > 3 && hatch ? hatch : colours.waiting;
        fillBox(a, b - thick / 2, size, thick);
        if (size > 3) {
          ink.fillStyle = colours.waiting;
          fillBox(a, b - thick / 2, size, 1);
          fillBox(a, b + thick / 2 - 1, size, 1);
        }
        break;
      case BAND.holding:
        ink.fillStyle = colours.holding;
        fillBox(a, b - thick / 2, size, thick);
        break;
      case BAND.down: case BAND.paused:
        ink.fillStyle = band === BAND.down ? colours.bad : colours.lane;
        for (let dash = a; dash < a + size; dash += 7) fillBox(dash, b - 0.6, Math.min(2, a + size - dash), 1.2);
        break;
      case BAND.absent: break;
      default:
        ink.fillStyle = colours.lane;
        fillBox(a, b - 0.9, size, 1.8);
    }
  }

  /** Both ends of a message in view. @param {number} message */
  function ends(message) {
    const { send, end, fate, from, to } = model.messages;
    const a1 = along(scale.at[send[message]]);
    const b1 = laneAt(from[message]);
    let a2 = end[message] < 0 ? a1 + scale.flight * view.zoom : along(scale.at[end[message]]);
    let b2 = laneAt(to[message]);
    if (fate[message] !== FATE.delivered) {
      const part = fate[message] === FATE.lost ? 0.72 : 0.6;
      if (fate[message] === FATE.lost && a2 - a1 < 14) a2 = a1 + 24;
      a2 = a1 + (a2 - a1) * part;
      b2 = b1 + (b2 - b1) * part;
    }
    return { a1, b1, a2, b2 };
  }

  /** @param {{ first: number, last: number }} inView */
  function drawMessages({ first, last }) {
    const { send, end, fate, copy, kind } = model.messages;
    const lanesShown = shownLanes();
    // By colour and style, so that each is one stroke: done, under way, not yet.
    /** @type {Map<number, number[]>} */
    const groups = new Map();
    let count = 0;
    for (let place = first; place < last; place++) {
      const message = scale.order[place];
      const { from, to } = model.messages;
      if (Math.max(from[message], to[message]) < lanesShown.first || Math.min(from[message], to[message]) > lanesShown.last) continue;
      const style = !happened(send[message]) ? 2 : end[message] < 0 || !happened(end[message]) ? 1 : 0;
      const key = (Math.max(0, kind[message]) % 8) * 3 + style;
      const group = groups.get(key);
      if (group) group.push(message);
      else groups.set(key, [message]);
      count++;
    }
    const heads = count < 900;
    for (const [key, group] of [...groups].sort(([a], [b]) => (b % 3) - (a % 3))) {
      const style = key % 3;
      const colour = colours.kinds[Math.floor(key / 3)];
      ink.strokeStyle = ink.fillStyle = colour;
      ink.globalAlpha = style === 2 ? 0.22 : 1;
      ink.lineWidth = style === 1 ? 1.8 : 1.4;
      ink.setLineDash(style === 1 ? [6, 4] : []);
      ink.beginPath();
      for (const message of group) {
        const { a1, b1, a2, b2 } = ends(message);
        if (copy[message]) {
          const shift = 2;
          ink.moveTo(X(a1, b1) + shift, Y(a1, b1) - shift); ink.lineTo(X(a2, b2) + shift, Y(a2, b2) - shift);
          ink.moveTo(X(a1, b1) - shift, Y(a1, b1) + shift); ink.lineTo(X(a2, b2) - shift, Y(a2, b2) + shift);
        } else {
          ink.moveTo(X(a1, b1), Y(a1, b1));
          ink.lineTo(X(a2, b2), Y(a2, b2));
        }
      }
      ink.stroke();
      ink.setLineDash([]);
      if (!heads) continue;
      ink.beginPath();
      for (const message of group) {
        const { a1, b1, a2, b2 } = ends(message);
        if (style === 1 || fate[message] === FATE.open) continue;
        if (fate[message] === FATE.delivered) arrowHead(X(a1, b1), Y(a1, b1), X(a2, b2), Y(a2, b2));
      }
      ink.fill();
      for (const message of group) {
        const { a1, b1, a2, b2 } = ends(message);
        if (style === 1 || fate[message] === FATE.open) {
          const part = end[message] >= 0 && scale.name === "time" ? Math.min(1, Math.max(0, (scale.moments[moment] - scale.at[send[message]]) / Math.max(1, scale.at[end[message]] - scale.at[send[message]]))) : 1;
          ring(X(a1 + (a2 - a1) * part, b1 + (b2 - b1) * part), Y(a1 + (a2 - a1) * part, b1 + (b2 - b1) * part), 4.5, colour);
        } else if (fate[message] === FATE.lost) cross(X(a2, b2), Y(a2, b2), 5, style === 2 ? colour : colours.bad);
      }
    }
    ink.globalAlpha = 1;
    if (count <= NAMED && laneSize() >= 34) {
      ink.font = "11px system-ui, sans-serif";
      ink.textAlign = "center";
      /** @type {{ x: number, y: number, w: number }[]} */
      const taken = [];
      for (const [key, group] of groups) {
        for (const message of group) {
          if (kind[message] < 0) continue;
          const { a1, b1, a2, b2 } = ends(message);
          const name = model.index.messages[kind[message]];
          const w = ink.measureText(name).width + 6;
          for (const part of [0.5, 0.38, 0.62, 0.27, 0.73]) {
            const b = b1 + (b2 - b1) * part;
            const x = X(a1 + (a2 - a1) * part, b);
            const y = Y(a1 + (a2 - a1) * part, b);
            // No name on a lane, and none on another.
            const inLane = (((b - RULER + view.scroll) / laneSize()) % 1) - 0.5;
            if (Math.abs(inLane) * laneSize() < (down ? w / 2 + 8 : 16)) continue;
            if (taken.some((other) => Math.abs(other.x - x) < (other.w + w) / 2 && Math.abs(other.y - y) < 13)) continue;
            taken.push({ x, y, w });
            ink.globalAlpha = key % 3 === 2 ? 0.35 : 0.92;
            ink.fillStyle = colours.bg;
            ink.fillRect(x - w / 2, y - 6.5, w, 13);
            ink.fillStyle = colours.kinds[Math.floor(key / 3)];
            ink.globalAlpha = key % 3 === 2 ? 0.4 : 1;
            ink.fillText(name, x, y);
            break;
          }
        }
      }
      ink.globalAlpha = 1;
    }
    return count;
  }

  /** @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 */
  function arrowHead(x1, y1, x2, y2) {
    const angle = Math.atan2(y2 - y1, x2 - x1);
    const tipX = x2 - Math.cos(angle) * 3;
    const tipY = y2 - Math.sin(angle) * 3;
    ink.moveTo(tipX, tipY);
    ink.lineTo(tipX - 9 * Math.cos(angle - 0.38), tipY - 9 * Math.sin(angle - 0.38));
    ink.lineTo(tipX - 9 * Math.cos(angle + 0.38), tipY - 9 * Math.sin(angle + 0.38));
    ink.closePath();
  }
  /** @param {number} x @param {number} y @param {number} size @param {string} colour */
  function cross(x, y, size, colour) {
    ink.strokeStyle = colour;
    ink.lineWidth = 2.4;
    ink.beginPath();
    ink.moveTo(x - size, y - size); ink.lineTo(x + size, y + size);
    ink.moveTo(x + size, y - size); ink.lineTo(x - size, y + size);
    ink.stroke();
  }
  /** @param {number} x @param {number} y @param {number} size @param {string} colour */
  function ring(x, y, size, colour) {
    ink.fillStyle = colours.bg;
    ink.strokeStyle = colour;
    ink.lineWidth = 2;
    ink.beginPath();
    ink.arc(x, y, size, 0, Math.PI * 2);
    ink.fill();
    ink.stroke();
  }

  /** @param {{ from: number, to: number }} inView */
  function drawEvents({ from, to }) {
    const { first, last } = shownLanes();
    const labelled = stamps === "none" ? 0 : 160;
    let labels = 0;
    for (let lane = first; lane <= last; lane++) {
      const events = model.onLane[lane];
      const b = laneAt(lane);
      let lastDot = -Infinity;
      for (let place = firstAt(events, from); place < events.length; place++) {
        const event = events[place];
        const at = scale.at[event];
        if (at > to) break;
        const a = along(at);
        const x = X(a, b);
        const y = Y(a, b);
        ink.globalAlpha = happened(event) ? 1 : 0.28;
        switch (model.kind[event]) {
          case "crash": {
            cross(x, y, 7, colours.bad);
            const after = options.describe?.(event)?.after;
            if (after !== undefined && after !== null) label(texts.diagram.after(after), x + 10, y - 12, colours.bad);
            break;
          }
          case "restart": case "join": turn(x, y); break;
          case "suspect": triangle(x, y, colours.bad, true); break;
          case "trust": triangle(x, y, colours.good, false); break;
          case "timer": hourglass(x, y); break;
          default:
            if (a - lastDot < 2.5) break;
            lastDot = a;
            ink.fillStyle = colours.ink;
            ink.beginPath();
            ink.arc(x, y, 2.6, 0, Math.PI * 2);
            ink.fill();
        }
        if (event === selected) {
          ink.globalAlpha = 1;
          ring(x, y, 7, colours.accent);
          ink.fillStyle = colours.accent;
          ink.beginPath();
          ink.arc(x, y, 3.2, 0, Math.PI * 2);
          ink.fill();
        }
        if (labels < labelled) {
          const record = options.describe?.(event);
          const stamp = record && (stamps === "lamport" ? String(record.lamport) : record.vector ? record.vector.join(",") : "");
          if (stamp) {
            labels++;
            ink.font = "10px system-ui, sans-serif";
            ink.textAlign = "center";
            ink.fillStyle = colours.ink;
            ink.fillText(stamp, x + (down ? 16 : 0), y - (down ? 0 : Math.min(20, laneSize() * 0.42) / 2 + 8));
          }
        }
      }
    }
    ink.globalAlpha = 1;
  }

  /** The first event of a lane at or behind a position. @param {Int32Array} events @param {number} from */
  function firstAt(events, from) {
    let low = 0;
    let high = events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (scale.at[events[middle]] < from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {string} words @param {number} x @param {number} y @param {string} colour */
  function label(words, x, y, colour) {
    ink.font = "11px system-ui, sans-serif";
    ink.textAlign = "left";
    ink.fillStyle = colour;
    ink.fillText(words, x, y);
  }

  /** @param {number} x @param {number} y */
  function turn(x, y) {
    ink.strokeStyle = colours.good;
    ink.lineWidth = 2.2;
    ink.beginPath();
    ink.arc(x, y, 6, -Math.PI * 0.1, Math.PI * 1.4);
    ink.stroke();
    ink.fillStyle = colours.good;
    ink.beginPath();
    ink.moveTo(x + 2, y - 10); ink.lineTo(x + 2, y - 1.5); ink.lineTo(x - 4.5, y - 6);
    ink.fill();
  }
  /** @param {number} x @param {number} y @param {string} colour @param {boolean} filled */
  function triangle(x, y, colour, filled) {
    ink.beginPath();
    ink.moveTo(x, y - 8); ink.lineTo(x + 7, y + 5); ink.lineTo(x - 7, y + 5);
    ink.closePath();
    ink.fillStyle = filled ? colour : colours.bg;
    ink.fill();
    ink.strokeStyle = colour;
    ink.lineWidth = 1.6;
    ink.stroke();
  }
  /** @param {number} x @param {number} y */
  function hourglass(x, y) {
    ink.strokeStyle = ink.fillStyle = colours.ink;
    ink.lineWidth = 1.4;
    ink.beginPath();
    ink.moveTo(x - 5, y - 6); ink.lineTo(x + 5, y - 6); ink.lineTo(x - 5, y + 6); ink.lineTo(x + 5, y + 6);
    ink.closePath();
    ink.fillStyle = colours.bg;
    ink.fill();
    ink.stroke();
  }

  /** How many events there are, per lane and stretch of the axis. @param {{ from: number, to: number }} inView */
  function drawDensity({ from, to }) {
    const { first, last } = shownLanes();
    const pixels = Math.max(3, Math.ceil((length() * (last - first + 1)) / 3000));
    const columns = Math.ceil(length() / pixels) + 2;
    const room = laneSize() * 0.25;
    const counts = new Uint32Array(columns);
    for (let lane = first; lane <= last; lane++) {
      const events = model.onLane[lane];
      counts.fill(0);
      let most = 1;
      for (let place = firstAt(events, from); place < events.length; place++) {
        const at = scale.at[events[place]];
        if (at > to) break;
        const column = Math.floor((along(at) - gutter()) / pixels);
        if (column < 0 || column >= columns) continue;
        most = Math.max(most, ++counts[column]);
      }
      const b = laneAt(lane) - Math.min(20, laneSize() * 0.42) / 2 - 1;
      const veil = along(reached(lane));
      ink.fillStyle = colours.accent;
      for (let column = 0; column < columns; column++) {
        if (!counts[column]) continue;
        const a = gutter() + column * pixels;
        const size = Math.max(1, (counts[column] / most) * room);
        ink.globalAlpha = a > veil ? 0.4 : 0.8;
        fillBox(a, b - size, pixels - 0.5, size);
      }
    }
    ink.globalAlpha = 1;
  }

  /** The network is cut, and whole again. */
  function drawWalls() {
    for (const event of model.walls) {
      const a = Math.round(along(scale.at[event])) + 0.5;
      ink.strokeStyle = model.kind[event] === "partition" ? colours.bad : colours.good;
      ink.globalAlpha = happened(event) ? 1 : 0.3;
      ink.lineWidth = 2;
      ink.setLineDash([2, 3]);
      ink.beginPath();
      ink.moveTo(X(a, RULER), Y(a, RULER));
      ink.lineTo(X(a, down ? width : height), Y(a, down ? width : height));
      ink.stroke();
      ink.setLineDash([]);
      ink.globalAlpha = 1;
    }
    if (noReturn !== null && noReturn !== undefined) {
      const a = Math.round(along(scale.moments[Math.min(noReturn, scale.moments.length - 1)])) + 0.5;
      ink.strokeStyle = ink.fillStyle = colours.bad;
      ink.lineWidth = 1.5;
      ink.setLineDash([8, 4]);
      ink.beginPath();
      ink.moveTo(X(a, RULER), Y(a, RULER));
      ink.lineTo(X(a, down ? width : height), Y(a, down ? width : height));
      ink.stroke();
      ink.setLineDash([]);
      ink.font = "11px system-ui, sans-serif";
      const wide = ink.measureText(texts.diagram.noReturn).width;
      const before = !down && a + 8 + wide > width;
      ink.textAlign = before ? "right" : "left";
      ink.fillText(texts.diagram.noReturn, X(before ? a - 5 : a + 5, RULER + 4), Y(a - 8, RULER + 9));
    }
  }

  /** Where the moment is: a line across the lanes. */
  function drawMoment() {
    const { first, last } = shownLanes();
    const edge = down ? height : width;
    const here = moment >= model.index.steps ? along(scale.moments[scale.moments.length - 1]) : along(scale.moments[moment]);
    ink.strokeStyle = ink.fillStyle = colours.accent;
    ink.lineWidth = 1.6;
    ink.beginPath();
    if (scale.name === "time" || moment >= model.index.steps) {
      if (here >= gutter() - 1 && here <= edge) {
        ink.moveTo(X(here, RULER), Y(here, RULER));
        ink.lineTo(X(here, down ? width : height), Y(here, down ? width : height));
      }
    } else {
      for (let lane = first; lane <= last; lane++) {
        const a = Math.max(gutter(), Math.min(edge, along(reached(lane))));
        const half = laneSize() / 2;
        const b = laneAt(lane);
        if (lane === first) ink.moveTo(X(a, b - half), Y(a, b - half));
        ink.lineTo(X(a, b - half), Y(a, b - half));
        ink.lineTo(X(a, b + half), Y(a, b + half));
      }
    }
    ink.stroke();
    if (here >= gutter() - 1 && here <= edge) {
      ink.beginPath();
      if (down) { ink.moveTo(RULER + 1, here); ink.lineTo(RULER - 10, here - 7); ink.lineTo(RULER - 10, here + 7); }
      else { ink.moveTo(here, RULER + 1); ink.lineTo(here - 7, RULER - 10); ink.lineTo(here + 7, RULER - 10); }
      ink.fill();
    }
  }

  function drawCut() {
    if (!cut) return;
    const { first, last } = shownLanes();
    ink.strokeStyle = cutGood === false ? colours.bad : colours.good;
    ink.lineWidth = 2.4;
    ink.beginPath();
    for (let lane = first; lane <= last; lane++) {
      const a = along(cutAt(lane, cut[lane]));
      const b = laneAt(lane);
      if (lane === first) ink.moveTo(X(a, b - laneSize() / 2), Y(a, b - laneSize() / 2));
      ink.lineTo(X(a, b), Y(a, b));
      if (lane === last) ink.lineTo(X(a, b + laneSize() / 2), Y(a, b + laneSize() / 2));
    }
    ink.stroke();
    for (let lane = first; lane <= last; lane++) {
      const a = along(cutAt(lane, cut[lane]));
      ring(X(a, laneAt(lane)), Y(a, laneAt(lane)), 6.5, cutGood === false ? colours.bad : colours.good);
    }
  }

  function drawNames() {
    const { first, last } = shownLanes();
    const wide = gutter() - 6;
    ink.fillStyle = colours.bg;
    if (down) ink.fillRect(0, 0, width, wide);
    else ink.fillRect(0, RULER, wide, height);
    ink.font = "600 13px system-ui, sans-serif";
    ink.textAlign = "center";
    for (let lane = first; lane <= last; lane++) {
      const process = model.summary.processes[lane];
      const b = laneAt(lane);
      if (b < RULER + 4) continue;
      ink.fillStyle = colours.ink;
      ink.fillText(process.name, X(wide / 2, b), Y(wide / 2, b));
    }
  }

  function drawMap() {
    if (!map) return;
    const pen = /** @type {CanvasRenderingContext2D} */ (map.getContext("2d"));
    overview ??= makeOverview(map.width, map.height);
    pen.clearRect(0, 0, map.width, map.height);
    pen.drawImage(overview, 0, 0);
    const x = (place = 0) => (place / (scale.max * 1.02)) * map.width;
    const from = x(view.start);
    const to = x(Math.min(scale.max * 1.02, view.start + length() / view.zoom));
    pen.fillStyle = colours.accent;
    pen.globalAlpha = 0.14;
    pen.fillRect(from, 0, to - from, map.height);
    pen.globalAlpha = 1;
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 2;
    pen.strokeRect(from + 1, 1, Math.max(2, to - from - 2), map.height - 2);
    pen.fillRect(x(scale.moments[Math.min(moment, scale.moments.length - 1)]) - 1, 0, 2.5, map.height);
  }

  /** @param {number} w @param {number} t */
  function makeOverview(w, t) {
    const picture = document.createElement("canvas");
    picture.width = w;
    picture.height = t;
    const pen = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
    pen.fillStyle = colours.bg;
    pen.fillRect(0, 0, w, t);
    const x = (place = 0) => (place / (scale.max * 1.02)) * w;
    const columns = Math.max(1, Math.floor(w / 3));
    const counts = new Uint32Array(columns + 1);
    for (let event = 0; event < model.count; event++) counts[Math.min(columns, Math.floor((x(scale.at[event]) / w) * columns))]++;
    const most = counts.reduce((a, b) => Math.max(a, b), 1);
    pen.fillStyle = colours.lane;
    pen.globalAlpha = 0.55;
    for (let column = 0; column <= columns; column++) {
      const size = (counts[column] / most) * t * 0.9;
      if (size > 0) pen.fillRect((column / columns) * w, t - Math.max(1.5, size), Math.max(1, w / columns - 1), Math.max(1.5, size));
    }
    pen.globalAlpha = 1;
    pen.fillStyle = colours.holding;
    const size = Math.max(1.5, Math.min(6, (t * 0.8) / model.lanes));
    for (let lane = 0; lane < model.lanes; lane++) {
      const { from, band } = model.bands[lane];
      let until = -1;
      for (let place = 0; place < from.length; place++) {
        if (band[place] !== BAND.holding) continue;
        const a = x(scale.at[from[place]]);
        const end = place + 1 < from.length ? x(scale.at[from[place + 1]]) : x(scale.max);
        if (end <= until) continue;
        until = Math.max(end, a + 1);
        pen.fillRect(a, ((lane + 0.5) / model.lanes) * t - size / 2, Math.max(1, end - a), size);
      }
    }
    return picture;
  }

  // The pointer.

  /** @param {number} x @param {number} y @returns {{ event?: number, message?: number, lane?: number, cut?: number, ruler?: boolean }} */
  function hit(x, y) {
    const a = down ? y : x;
    const b = down ? x : y;
    if (b < RULER) return { ruler: true };
    const lane = Math.floor((b - RULER + view.scroll) / laneSize());
    if (a < gutter() - 6) return lane >= 0 && lane < model.lanes ? { lane } : {};
    if (cut) {
      for (let place = 0; place < model.lanes; place++) {
        if (Math.hypot(along(cutAt(place, cut[place])) - a, laneAt(place) - b) < 13) return { cut: place };
      }
    }
    const inView = visible();
    if (inView.last - inView.first > ARROWS) return lane >= 0 && lane < model.lanes ? { lane } : {};
    let best = 9;
    /** @type {number | undefined} */
    let event;
    for (let place = Math.max(0, lane - 1); place <= Math.min(model.lanes - 1, lane + 1); place++) {
      const events = model.onLane[place];
      for (let at = firstAt(events, position(a - 10)); at < events.length; at++) {
        const place2 = along(scale.at[events[at]]);
        if (place2 > a + 10) break;
        const distance = Math.hypot(place2 - a, laneAt(place) - b);
        if (distance < best) {
          best = distance;
          event = events[at];
        }
      }
    }
    if (event !== undefined) return { event, lane: model.lane[event] };
    best = 6;
    /** @type {number | undefined} */
    let message;
    for (let place = inView.first; place < inView.last; place++) {
      const { a1, b1, a2, b2 } = ends(scale.order[place]);
      const size = (a2 - a1) ** 2 + (b2 - b1) ** 2;
      const part = size ? Math.min(1, Math.max(0, ((a - a1) * (a2 - a1) + (b - b1) * (b2 - b1)) / size)) : 0;
      const distance = Math.hypot(a1 + (a2 - a1) * part - a, b1 + (b2 - b1) * part - b);
      if (distance < best) {
        best = distance;
        message = scale.order[place];
      }
    }
    if (message !== undefined) return { message };
    return lane >= 0 && lane < model.lanes && Math.abs(laneAt(lane) - b) < 14 ? { lane } : {};
  }

  /** The last moment at or before a position. @param {number} place */
  function momentAt(place) {
    const moments = scale.moments;
    let low = 0;
    let high = moments.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (moments[middle] <= place) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }
  /** @param {number} lane @param {number} place */
  function gapAt(lane, place) {
    const events = model.onLane[lane];
    let best = 0;
    let distance = Infinity;
    const near = firstAt(events, place);
    for (let inside = Math.max(0, near - 2); inside <= Math.min(events.length, near + 2); inside++) {
      const away = Math.abs(cutAt(lane, inside) - place);
      if (away < distance) {
        distance = away;
        best = inside;
      }
    }
    return best;
  }

  /** @type {Map<number, { x: number, y: number }>} */
  const pointers = new Map();
  /** @type {{ what: "pan" | "ruler" | "cut" | "pinch", lane: number, x: number, y: number, moved: boolean, start: number, scroll: number, spread: number, zoom: number } | null} */
  let drag = null;
  const place = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  /** @type {boolean | null} */
  let cutGood = null;

  /** @param {PointerEvent} event */
  function onDown(event) {
    if (event.button !== 0) return;
    const at = place(event);
    pointers.set(event.pointerId, at);
    canvas.setPointerCapture(event.pointerId);
    const found = hit(at.x, at.y);
    const spread = [...pointers.values()].length === 2 ? spreadOf() : 0;
    drag = { what: spread ? "pinch" : found.ruler ? "ruler" : found.cut !== undefined ? "cut" : "pan", lane: found.cut ?? -1, x: at.x, y: at.y, moved: false, start: view.start, scroll: view.scroll, spread, zoom: view.zoom };
    if (drag.what === "ruler") options.onMoment?.(momentAt(position(down ? at.y : at.x)));
    tip.hidden = true;
  }
  function spreadOf() {
    const [one, two] = [...pointers.values()];
    return Math.hypot(one.x - two.x, one.y - two.y);
  }
  /** @param {PointerEvent} event */
  function onMove(event) {
    const at = place(event);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, at);
    if (!drag) {
      hover(at.x, at.y);
      return;
    }
    if (Math.hypot(at.x - drag.x, at.y - drag.y) > 4) drag.moved = true;
    const a = down ? at.y : at.x;
    if (drag.what === "pinch" && pointers.size === 2) {
      zoomTo(drag.zoom * (spreadOf() / drag.spread), a);
    } else if (drag.what === "ruler") options.onMoment?.(momentAt(position(a)));
    else if (drag.what === "cut" && cut) {
      const inside = gapAt(drag.lane, position(a));
      if (inside !== cut[drag.lane]) {
        cut = Int32Array.from(cut);
        cut[drag.lane] = inside;
        options.onCut?.(cut);
        redraw();
      }
    } else if (drag.what === "pan" && drag.moved) {
      view.start = drag.start - (down ? at.y - drag.y : at.x - drag.x) / view.zoom;
      view.scroll = drag.scroll - (down ? at.x - drag.x : at.y - drag.y);
      clamp();
      redraw();
    }
  }
  /** @param {PointerEvent} event */
  function onUp(event) {
    pointers.delete(event.pointerId);
    const was = drag;
    drag = null;
    if (!was || was.moved || was.what !== "pan" || event.type === "pointercancel") return;
    const at = place(event);
    const found = hit(at.x, at.y);
    if (found.event !== undefined) options.onSelect?.(found.event);
    else if (found.message !== undefined) {
      const { send, end } = model.messages;
      const event2 = end[found.message] >= 0 && happened(end[found.message]) ? end[found.message] : send[found.message];
      if (end[found.message] >= 0 && happened(end[found.message])) options.onSelect?.(event2);
      else options.onMenu?.({ message: found.message }, event.clientX, event.clientY);
    } else if (found.lane !== undefined && (down ? at.y : at.x) < gutter()) options.onMenu?.({ lane: found.lane }, event.clientX, event.clientY);
    else options.onClear?.();
  }
  /** @param {MouseEvent} event */
  function onContext(event) {
    event.preventDefault();
    const at = place(event);
    const { event: found, message, lane } = hit(at.x, at.y);
    options.onMenu?.({ ...(found === undefined ? {} : { event: found }), ...(message === undefined ? {} : { message }), ...(lane === undefined ? {} : { lane }) }, event.clientX, event.clientY);
  }
  /** @param {number} x @param {number} y */
  function hover(x, y) {
    const found = hit(x, y);
    canvas.style.cursor = found.ruler ? "col-resize" : found.cut !== undefined ? "grab" : found.event !== undefined || found.message !== undefined || (found.lane !== undefined && (down ? y : x) < gutter()) ? "pointer" : "default";
    const event = found.event ?? (found.message === undefined ? undefined : model.messages.end[found.message] >= 0 ? model.messages.end[found.message] : model.messages.send[found.message]);
    if (event === undefined) {
      tip.hidden = true;
      return;
    }
    const record = options.describe?.(event);
    tip.textContent = record ? `${formatTime(record.time, texts.units)}  ${record.what}` : `${texts.events.kinds[/** @type {keyof typeof texts.events.kinds} */ (model.kind[event])] ?? model.kind[event]} ${model.index.messages[model.index.message[event]] ?? ""}`;
    tip.hidden = false;
    tip.style.left = `${Math.max(4, Math.min(x + 14, width - tip.offsetWidth - 6))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > height ? y - tip.offsetHeight - 12 : y + 18}px`;
  }
  /** @param {WheelEvent} event */
  function onWheel(event) {
    event.preventDefault();
    const at = place(event);
    const tall = laneSize() * model.lanes > breadth() + 1;
    const unit = event.deltaMode === 1 ? 30 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      view.start += ((event.deltaX || event.deltaY) * unit) / view.zoom;
    } else if (tall && !event.ctrlKey && !event.metaKey && !down) {
      view.scroll += event.deltaY * unit;
    } else {
      zoomTo(view.zoom * Math.exp(-event.deltaY * unit * 0.0022), down ? at.y : at.x);
    }
    clamp();
    redraw();
  }
  /** @param {number} zoom @param {number} a the place that stays */
  function zoomTo(zoom, a) {
    const kept = position(a);
    view.zoom = zoom;
    clamp();
    view.start = kept - (a - gutter()) / view.zoom;
    clamp();
    redraw();
  }

  let mapping = false;
  /** @param {PointerEvent} event */
  function onMap(event) {
    if (!map) return;
    if (event.type === "pointerdown") {
      mapping = true;
      map.setPointerCapture(event.pointerId);
    }
    if (event.type === "pointerup" || event.type === "pointercancel") mapping = false;
    if (!mapping) return;
    const box = map.getBoundingClientRect();
    view.start = ((event.clientX - box.left) / box.width) * scale.max * 1.02 - length() / view.zoom / 2;
    clamp();
    redraw();
  }

  canvas.addEventListener("pointerdown", onDown);
  canvas.addEventListener("pointermove", onMove);
  canvas.addEventListener("pointerup", onUp);
  canvas.addEventListener("pointercancel", onUp);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("contextmenu", onContext);
  canvas.addEventListener("wheel", onWheel, { passive: false });
  canvas.addEventListener("dblclick", (/** @type {MouseEvent} */ event) => zoomTo(view.zoom * 1.8, down ? place(event).y : place(event).x));
  for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel"]) map?.addEventListener(name, onMap);
  const watch = new ResizeObserver(resize);
  watch.observe(holder);
  if (options.minimap) watch.observe(options.minimap);
  resize();
  open();

  /** Brings a moment into view. @param {number} wanted */
  function reveal(wanted) {
    const at = scale.moments[Math.max(0, Math.min(wanted, scale.moments.length - 1))];
    const a = along(at);
    const margin = Math.min(80, length() / 8);
    if (a < gutter() + margin / 3) view.start = at - margin / view.zoom;
    else if (a > gutter() + length() - margin / 3) view.start = at - (length() * 0.45) / view.zoom;
    else return;
    clamp();
  }

  return {
    get drawn() { return drawn; },
    get scaleName() { return scale.name; },
    get view() { return { ...view, down, laneSize: laneSize(), gutter: gutter() }; },
    redraw,
    /** @param {import("./model.js").Model} next @param {number} at @param {boolean} keepView whether it is a branch of the run before */
    setModel(next, at, keepView) {
      model = next;
      measureGutter();
      scale = model.scale(scale.name === "time" && model.index.time_max === 0 ? "depth" : scale.name);
      noReturn = model.summary.point_of_no_return;
      moment = at;
      order = null;
      selected = -1;
      cut = null;
      overview = null;
      if (!keepView) {
        scale = model.scale(model.usualScale);
        view.scroll = 0;
        open();
      }
      clamp();
      reveal(at);
      redraw();
    },
    /** @param {number} next */
    setMoment(next) {
      moment = next;
      reveal(next);
      redraw();
    },
    /** @param {number} event -1 for none @param {import("../types.js").Order | null} next */
    setSelection(event, next) {
      selected = event;
      order = next;
      redraw();
    },
    /** @param {Int32Array | null} next how many events of each lane are in it @param {boolean | null} good */
    setCut(next, good) {
      cut = next;
      cutGood = good;
      redraw();
    },
    /** @param {"time" | "depth"} name */
    setScale(name) {
      scale = model.scale(name);
      overview = null;
      open();
      reveal(moment);
      redraw();
    },
    /** @param {"none" | "lamport" | "vector"} next */
    setStamps(next) {
      stamps = next;
      redraw();
    },
    /** @param {number} factor */
    zoom(factor) {
      const at = along(scale.moments[Math.min(moment, scale.moments.length - 1)]);
      const middle = gutter() + length() / 2;
      zoomTo(view.zoom * factor, at > gutter() && at < gutter() + length() ? at : middle);
    },
    /** @param {number} pixels */
    pan(pixels) {
      view.start += pixels / view.zoom;
      clamp();
      redraw();
    },
    /** Moves the lanes, where there are more than fit. @param {number} pixels */
    scroll(pixels) {
      view.scroll += pixels;
      clamp();
      redraw();
    },
    fit() {
      fit();
      view.scroll = 0;
      clamp();
      redraw();
    },
    restyle() {
      colours = coloursOf(options.theme());
      hatch = null;
      overview = null;
      redraw();
    },
    /** Where something is on the page, for tests and for menus opened by keyboard. @param {number} event */
    placeOf(event) {
      const box = canvas.getBoundingClientRect();
      const a = along(scale.at[event]);
      const b = laneAt(model.lane[event]);
      return { x: box.left + X(a, b), y: box.top + Y(a, b) };
    },
    /** @param {number} lane */
    handleOf(lane) {
      const box = canvas.getBoundingClientRect();
      const a = cut ? along(cutAt(lane, cut[lane])) : 0;
      return { x: box.left + X(a, laneAt(lane)), y: box.top + Y(a, laneAt(lane)) };
    },
    destroy() {
      redraw.cancel();
      watch.disconnect();
      canvas.remove();
      tip.remove();
      map?.remove();
    },
  };
}
