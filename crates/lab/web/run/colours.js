// @ts-check
// The colours of the style sheet, for the canvas.

const COLOURS = {
  bg: ["#ffffff", "#0d1117"], ink: ["#1f2328", "#e6edf3"], soft: ["#57606a", "#9aa4af"], line: ["#d0d7de", "#30363d"], lane: ["#6e7781", "#8b949e"],
  waiting: ["#b7791f", "#d9a83a"], waitingSoft: ["#fff6dd", "#2a2410"], holding: ["#e8b33a", "#d9a83a"], accent: ["#0b62a4", "#6cb6ff"],
  bad: ["#cf222e", "#ff7b72"], good: ["#1a7f37", "#56d364"], past: ["#0b62a4", "#6cb6ff"], future: ["#b84a00", "#ff9d5c"],
};
const KINDS = [["#0b62a4", "#6cb6ff"], ["#b84a00", "#ff9d5c"], ["#00745a", "#4fd1ae"], ["#9c3d7c", "#f3a0d3"], ["#7d6300", "#e5c453"], ["#0e7490", "#67d4e8"], ["#6b4b9a", "#c3a6f5"], ["#5c6670", "#b0bac5"]];

/** @typedef {Record<keyof typeof COLOURS, string> & { kinds: string[] }} Colours */

/** @param {"light" | "dark"} theme @returns {Colours} */
export function coloursOf(theme) {
  const place = theme === "dark" ? 1 : 0;
  const plain = /** @type {Record<keyof typeof COLOURS, string>} */ (Object.fromEntries(Object.entries(COLOURS).map(([name, pair]) => [name, pair[place]])));
  return { ...plain, kinds: KINDS.map((pair) => pair[place]) };
}
