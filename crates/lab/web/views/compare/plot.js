// @ts-check
// A plot: measured points over the curve of a formula. It answers to the pointer and to the keyboard, and can be saved.

import { button, h, replace, save, svg } from "../../dom.js";
import { compareTexts } from "../../texts/compare.js";

/** Of each x what the formula says, or between which two numbers. @typedef {[number, number, number | null][]} Curve */
/** @typedef {{ algorithm: string, formula: string | null, points: [number, number][], curve: Curve | null }} Series */
/** @typedef {{ title: string, x: string, y: string, series: Series[] }} PlotData */

const LEFT = 64, RIGHT = 16, TOP = 18, BOTTOM = 46;
const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "down"];

/** @param {number} value */
export function figure(value) {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

/**
 * What the formula says at `x`; nothing where it says nothing.
 * @param {Curve | null} curve @param {number} x
 */
export function byFormula(curve, x) {
  const found = curve?.find(([at]) => at === x);
  if (!found) return "";
  const [, low, high] = found;
  return high === null || high === undefined || high === low ? figure(low) : `${figure(low)} to ${figure(high)}`;
}

/** Round steps of an axis that ends at or above `most`. @param {number} most @param {number} about */
export function ticks(most, about) {
  if (!(most > 0)) return [0, 1];
  const raw = most / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw) ?? 10);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, at) => Number((at * step).toPrecision(10)));
}

/** @param {string} shape @param {number} x @param {number} y @param {number} r */
function mark(shape, x, y, r) {
  if (shape === "circle") return svg("circle", { cx: x, cy: y, r });
  const paths = {
    square: `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`, triangle: `M${x} ${y - r - 1}L${x + r + 1} ${y + r}H${x - r - 1}z`, diamond: `M${x} ${y - r - 1}L${x + r + 1} ${y}L${x} ${y + r + 1}L${x - r - 1} ${y}z`,
    cross: `M${x - r} ${y - r}L${x + r} ${y + r}M${x + r} ${y - r}L${x - r} ${y + r}`, down: `M${x} ${y + r + 1}L${x + r + 1} ${y - r}H${x - r - 1}z`,
  };
  return svg("path", { d: paths[/** @type {"square"} */ (shape)] });
}

/**
 * @param {PlotData} data @param {{ title(name: string): string, announce(text: string): void, file: string, csv(): string, fail(error: unknown): void }} context
 * @returns {HTMLElement}
 */
export function plot(data, context) {
  const words = compareTexts;
  const xs = [...new Set(data.series.flatMap(({ points }) => points.map(([x]) => x)))].sort((a, b) => a - b);
  /** @type {Set<number>} */
  const hidden = new Set();
  const colour = (/** @type {number} */ at) => `k${at % 8}`;
  const dash = (/** @type {number} */ at) => ["", "6 3", "2 3", "8 3 2 3"][Math.floor(at / 8) % 4];
  /** The picture is as wide as its place, so that its letters have the size of other letters. */
  let W = 720, H = 400;
  const picture = svg("svg.plot", { role: "img", "aria-label": words.plotLabel(data.title), tabindex: 0 });
  const tip = h("div.tip", { hidden: true });
  const spoken = h("p.spoken", { "aria-live": "polite" });
  /** @type {{ series: number, at: number } | null} */
  let chosen = null;
  let scale = (/** @type {number} */ x, /** @type {number} */ y) => [x, y];

  function draw() {
    picture.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const seen = data.series.filter((_, at) => !hidden.has(at));
    const most = Math.max(0, ...seen.flatMap(({ points, curve }) => [...points.map(([, y]) => y), ...(curve ?? []).map(([, low, high]) => high ?? low)]));
    const rows = ticks(most, 5);
    const top = rows[rows.length - 1] || 1;
    const [low, high] = [xs[0] ?? 0, xs[xs.length - 1] ?? 1];
    scale = (x, y) => [high === low ? (LEFT + W - RIGHT) / 2 : LEFT + ((x - low) / (high - low)) * (W - LEFT - RIGHT), H - BOTTOM - (y / top) * (H - TOP - BOTTOM)];
    const every = Math.ceil(xs.length / Math.max(4, Math.floor(W / 45)));
    replace(picture,
      rows.map((value) => { const [, y] = scale(low, value); return svg("g", null, svg("line.grid", { x1: LEFT, x2: W - RIGHT, y1: y, y2: y }), svg("text.label", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, figure(value))); }),
      xs.filter((_, at) => at % every === 0).map((value) => { const [x] = scale(value, 0); return svg("g", null, svg("line.grid", { x1: x, x2: x, y1: H - BOTTOM, y2: H - BOTTOM + 5 }), svg("text.label", { x, y: H - BOTTOM + 19, "text-anchor": "middle" }, figure(value))); }),
      svg("text.label", { x: (LEFT + W - RIGHT) / 2, y: H - 8, "text-anchor": "middle" }, data.x),
      svg("text.label", { x: 14, y: (TOP + H - BOTTOM) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(TOP + H - BOTTOM) / 2})` }, data.y),
      data.series.map((series, at) => {
        if (hidden.has(at)) return null;
        const curve = series.curve ?? [];
        const line = (/** @type {[number, number][]} */ points) => (points.length > 1 ? svg("path.curve", { d: `M${points.map(([x, y]) => scale(x, y).map((value) => value.toFixed(1)).join(" ")).join("L")}`, "stroke-dasharray": dash(at) || null }) : null);
        const isWide = curve.some(([, low, high]) => high !== null && high !== undefined && high !== low);
        return svg(`g.series.${colour(at)}`, null, line(curve.map(([x, low]) => [x, low])), isWide ? line(curve.map(([x, low, high]) => [x, high ?? low])) : null,
          series.points.map(([x, y]) => { const [px, py] = scale(x, y); return mark(SHAPES[at % SHAPES.length], px, py, 3.5); }));
      }),
      chosen ? ring(chosen) : null);
  }

  /** @param {{ series: number, at: number }} point */
  function ring({ series, at }) {
    const [x, y] = scale(...data.series[series].points[at]);
    return svg("circle.chosen", { cx: x, cy: y, r: 9 });
  }

  /** @param {{ series: number, at: number } | null} point @param {boolean} aloud */
  function choose(point, aloud) {
    chosen = point;
    picture.querySelector(".chosen")?.remove();
    if (!point) {
      tip.hidden = true;
      return;
    }
    picture.append(ring(point));
    const series = data.series[point.series];
    const [x, y] = series.points[point.at];
    const formula = byFormula(series.curve, x);
    const text = words.point(context.title(series.algorithm), data.x, x, data.y, figure(y), formula && series.formula ? words.formula(series.formula, formula) : "");
    tip.textContent = text;
    tip.hidden = false;
    const [px, py] = scale(x, y);
    const box = picture.getBoundingClientRect();
    const left = (px / W) * box.width;
    tip.style.left = left > box.width / 2 ? "auto" : `${left + 14}px`;
    tip.style.right = left > box.width / 2 ? `${box.width - left + 14}px` : "auto";
    tip.style.top = `${Math.max(0, (py / H) * box.height - 14)}px`;
    if (aloud) spoken.textContent = text;
  }

  picture.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const box = picture.getBoundingClientRect();
    const [mx, my] = [((event.clientX - box.left) / box.width) * W, ((event.clientY - box.top) / box.height) * H];
    let best = null, least = 40 * 40;
    data.series.forEach(({ points }, series) => {
      if (hidden.has(series)) return;
      points.forEach(([x, y], at) => {
        const [px, py] = scale(x, y);
        const far = (px - mx) ** 2 + (py - my) ** 2;
        if (far < least) [best, least] = [{ series, at }, far];
      });
    });
    choose(best, false);
  });
  picture.addEventListener("pointerleave", () => choose(null, false));
  picture.addEventListener("blur", () => choose(null, false));
  picture.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const shown = data.series.map((_, at) => at).filter((at) => !hidden.has(at) && data.series[at].points.length);
    if (!shown.length) return;
    const now = chosen ?? { series: shown[0], at: -1 };
    const place = shown.indexOf(now.series);
    const points = data.series[now.series].points.length;
    /** @type {Record<string, () => { series: number, at: number } | null>} */
    const moves = {
      ArrowRight: () => ({ series: now.series, at: Math.min(points - 1, now.at + 1) }),
      ArrowLeft: () => ({ series: now.series, at: Math.max(0, now.at - 1) }),
      ArrowDown: () => nearest(shown[(place + 1) % shown.length], now),
      ArrowUp: () => nearest(shown[(place + shown.length - 1) % shown.length], now),
      Home: () => ({ series: now.series, at: 0 }), End: () => ({ series: now.series, at: points - 1 }),
      Escape: () => null,
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    choose(move(), true);
  });

  /** @param {number} series @param {{ series: number, at: number }} from */
  function nearest(series, from) {
    const x = data.series[from.series].points[Math.max(0, from.at)][0];
    const { points } = data.series[series];
    let at = 0;
    points.forEach(([other], place) => { if (Math.abs(other - x) < Math.abs(points[at][0] - x)) at = place; });
    return { series, at };
  }

  const legend = h("div.row.plot-legend", { role: "group", "aria-label": words.show }, data.series.map((series, at) => {
    const box = svg("svg", { viewBox: "0 0 26 12", width: 26, height: 12, "aria-hidden": "true" }, svg(`g.series.${colour(at)}`, null, svg("path.curve", { d: "M1 6H25", "stroke-dasharray": dash(at) || null }), mark(SHAPES[at % SHAPES.length], 13, 6, 3.5)));
    const toggle = h("button.quiet", { type: "button", "aria-pressed": "true", onclick: () => {
      if (hidden.has(at)) hidden.delete(at);
      else hidden.add(at);
      toggle.setAttribute("aria-pressed", String(!hidden.has(at)));
      choose(null, false);
      draw();
    } }, box, ` ${context.title(series.algorithm)}`, series.formula ? h("small", null, ` ${series.formula}`) : null);
    return toggle;
  }));

  /** The picture alone, with its colours written out. */
  function standalone() {
    const copy = /** @type {SVGSVGElement} */ (picture.cloneNode(true));
    copy.querySelector(".chosen")?.remove();
    const originals = [picture, ...picture.querySelectorAll("*:not(.chosen)")];
    [copy, ...copy.querySelectorAll("*")].forEach((element, at) => {
      const style = getComputedStyle(originals[at]);
      for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family"]) element.setAttribute(name, style.getPropertyValue(name));
      element.removeAttribute("class");
      element.removeAttribute("tabindex");
    });
    const names = data.series.map((series, at) => ({ series, at })).filter(({ at }) => !hidden.has(at));
    const columns = Math.max(1, Math.floor((W - LEFT) / 215));
    const high = H + 20 * Math.ceil(names.length / columns) + 8;
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("viewBox", `0 0 ${W} ${high}`);
    copy.setAttribute("width", String(W));
    copy.setAttribute("height", String(high));
    const style = getComputedStyle(document.body);
    copy.prepend(svg("title", null, data.title), svg("rect", { width: W, height: high, fill: style.backgroundColor }));
    names.forEach(({ series, at }, place) => {
      const [x, y] = [LEFT + (place % columns) * 215, H + 20 * Math.floor(place / columns) + 8];
      const ink = getComputedStyle(picture.querySelector(`.series.${colour(at)}`) ?? picture).color;
      const sign = mark(SHAPES[at % SHAPES.length], x, y - 4, 3.5);
      sign.setAttribute("fill", ink);
      sign.setAttribute("stroke", ink);
      copy.append(sign, svg("text", { x: x + 12, y, "font-size": 12, "font-family": "sans-serif", fill: style.color }, `${context.title(series.algorithm)}${series.formula ? ` ${series.formula}` : ""}`));
    });
    return { text: new XMLSerializer().serializeToString(copy), width: W, height: high };
  }

  async function asPng() {
    const { text, width, height } = standalone();
    const image = new Image();
    const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    try {
      image.src = address;
      await image.decode();
      const canvas = h("canvas", { width: width * 2, height: height * 2 });
      canvas.getContext("2d").drawImage(image, 0, 0, width * 2, height * 2);
      /** @type {Blob | null} */
      const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
      if (blob) save(`${context.file}.png`, blob);
    } catch (error) {
      context.fail(error);
    } finally {
      URL.revokeObjectURL(address);
    }
  }

  draw();
  const holder = h("div.plot-holder", null, picture, tip);
  const watch = new ResizeObserver(() => {
    const width = Math.round(holder.clientWidth);
    if (width === 0 || width === W) return;
    [W, H] = [width, width < 560 ? 280 : 400];
    choose(null, false);
    draw();
  });
  watch.observe(holder);
  return h("figure.panel.plot-panel", null,
    h("figcaption.row", null, h("h3.grow", null, data.title),
      button(words.svg, () => save(`${context.file}.svg`, new Blob([standalone().text], { type: "image/svg+xml" })), { "aria-label": `${words.save} ${words.svg}: ${data.title}` }),
      button(words.png, () => { void asPng(); }, { "aria-label": `${words.save} ${words.png}: ${data.title}` }),
      button(words.csv, () => save(`${context.file}.csv`, new Blob([context.csv()], { type: "text/csv" })), { "aria-label": `${words.save} ${words.csv}: ${data.title}` })),
    holder, spoken, legend);
}
