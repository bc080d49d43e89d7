// @ts-check
// The processes of a cluster on a circle, with what they do and the links that are cut.

import { svg } from "../../dom.js";
import { liveTexts } from "../../texts/live.js";

const SIZE = 260, RADIUS = 92;

/** @param {string[]} cuts as `1,2/3` @returns {(a: number, b: number) => boolean} */
export function cutBetween(cuts) {
  const sides = cuts.map((cut) => new Map(cut.split("/").flatMap((group, at) => group.split(",").map((id) => [Number(id), at]))));
  return (a, b) => sides.some((side) => side.has(a) && side.has(b) && side.get(a) !== side.get(b));
}

/** @param {any} status @returns {SVGElement} */
export function ring(status) {
  const members = status.processes;
  const place = (/** @type {number} */ at) => {
    const angle = (at / members.length) * 2 * Math.PI - Math.PI / 2;
    return [SIZE / 2 + RADIUS * Math.cos(angle), SIZE / 2 + RADIUS * Math.sin(angle)];
  };
  const isCut = cutBetween(status.cuts ?? []);
  const links = members.flatMap((/** @type {any} */ one, /** @type {number} */ at) => members.slice(at + 1).map((/** @type {any} */ other, /** @type {number} */ step) => {
    const [[x1, y1], [x2, y2]] = [place(at), place(at + 1 + step)];
    return svg(`line.link${isCut(one.id, other.id) ? ".cut" : ""}`, { x1, y1, x2, y2 });
  }));
  const nodes = members.map((/** @type {any} */ one, /** @type {number} */ at) => {
    const [x, y] = place(at);
    const kind = one.state === "up" ? (one.locks?.some((/** @type {any} */ lock) => lock.holder) || one.phase === "holding" || one.phase === "leading" ? "holding" : one.phase === "waiting" || one.phase === "electing" ? "waiting" : "quiet") : one.state === "paused" ? "paused" : "down";
    return svg(`g.node.${kind}`, { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` }, svg("circle", { r: 22 }), svg("text", { "text-anchor": "middle", y: 5 }, `p${one.id}`),
      kind === "down" ? svg("path.cross", { d: "M-16 -16L16 16M16 -16L-16 16" }) : null);
  });
  return svg("svg.ring", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": `${liveTexts.ring}: ${members.map((/** @type {any} */ one) => `p${one.id} ${one.state} ${one.phase ?? ""}`).join(", ")}` }, links, nodes);
}
