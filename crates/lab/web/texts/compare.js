// @ts-check
// What the view Compare says.

export const compareTexts = {
  heading: "Compare",
  intro: "The same load for several algorithms, over the size of the group. Points are measured in runs, lines are the formulas of the literature.",
  family: "Family", algorithms: "Algorithms", all: "all", noneOf: "none",
  options: "Options", compare: "Compare", stop: "Stop", running: "Running…", stopped: "Stopped.", lost: "The connection is lost.",
  progress: (/** @type {number} */ done, /** @type {number} */ all) => `${done} of ${all} points`,
  runs: (/** @type {number} */ done) => `${done} runs`,
  agrees: "✓ Every number agrees with its formula, and no promise was broken.",
  disagrees: "✗ A number does not agree with its formula, or a promise failed; see the table.",
  choose: "Choose at least one algorithm.",
  plotLabel: (/** @type {string} */ title) => `${title}: a plot. Arrow keys go from point to point: left and right along a line, up and down to another algorithm.`,
  point: (/** @type {string} */ name, /** @type {string} */ x, /** @type {number} */ at, /** @type {string} */ y, /** @type {string} */ value, /** @type {string} */ formula) => `${name}, ${x} = ${at}: ${value} ${y}${formula}`,
  formula: (/** @type {string} */ text, /** @type {string} */ value) => `; formula ${text}: ${value}`,
  show: "Shown algorithms",
  table: "The numbers as a table", measured: "measured", byFormula: "by formula", agreement: "agrees",
  svg: "SVG", png: "PNG", csv: "CSV", save: "Save",
};
