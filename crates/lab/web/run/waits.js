// @ts-check
// Who waits for whom, as a small graph.

import { svg } from "../dom.js";
import { texts } from "../texts.js";

const LARGEST_GRAPH = 12;

/** @param {import("../types.js").Waits} waits @param {(id: number) => string} nameOf @returns {SVGElement | null} */
export function waitGraph(waits, nameOf) {
  const nodes = [...new Set([...waits.edges.flat(), ...waits.holders])].sort((a, b) => a - b);
  if (waits.edges.length === 0 || nodes.length > LARGEST_GRAPH) return null;
  const size = 200;
  const around = nodes.length === 1 ? 0 : nodes.length === 2 ? 55 : 68;
  /** @type {Map<number, { x: number, y: number }>} */
  const places = new Map(nodes.map((id, place) => {
    const angle = (place / nodes.length) * Math.PI * 2 - (nodes.length === 2 ? Math.PI : Math.PI / 2);
    return [id, { x: size / 2 + Math.cos(angle) * around, y: size / 2 + Math.sin(angle) * around }];
  }));
  const tops = [...places.values()].map(({ y }) => y);
  const top = Math.min(...tops) - 20;
  const tall = Math.max(...tops) + 20 - top;
  const circle = new Set(waits.circle ?? []);
  const graph = svg("svg.waits-graph", { viewBox: `0 ${top} ${size} ${tall}`, role: "img", "aria-label": `${texts.moment.waitGraph}: ${waits.edges.map(([a, b]) => `${nameOf(a)} → ${nameOf(b)}`).join(", ")}` });
  for (const [from, to] of waits.edges) {
    const one = places.get(from);
    const two = places.get(to);
    if (!one || !two || from === to) continue;
    const far = Math.hypot(two.x - one.x, two.y - one.y);
    const ux = (two.x - one.x) / far;
    const uy = (two.y - one.y) / far;
    const bend = waits.edges.some(([a, b]) => a === to && b === from) ? 9 : 0;
    const x1 = one.x + ux * 18;
    const y1 = one.y + uy * 18;
    const x2 = two.x - ux * 24;
    const y2 = two.y - uy * 24;
    const kind = circle.has(from) && circle.has(to) ? ".circle" : "";
    graph.append(
      svg(`path.edge${kind}`, { d: `M${x1} ${y1}Q${(x1 + x2) / 2 - uy * bend} ${(y1 + y2) / 2 + ux * bend} ${x2} ${y2}` }),
      svg(`path.head${kind}`, { d: `M${two.x - ux * 17} ${two.y - uy * 17}L${x2 - uy * 5} ${y2 + ux * 5}L${x2 + uy * 5} ${y2 - ux * 5}Z` }),
    );
  }
  for (const [id, { x, y }] of places) {
    const kind = waits.holders.includes(id) ? ".holding" : waits.down.includes(id) ? ".down" : waits.waiters.some(({ process }) => process === id) ? ".waiting" : "";
    graph.append(svg(`g${kind}`, null, svg("circle", { cx: x, cy: y, r: 16 }), svg("text", { x, y }, nameOf(id))));
  }
  return graph;
}
