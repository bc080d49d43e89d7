// @ts-check
// Files of a run. The server makes them, with the code of the command line; only the PNG is drawn here, from the SVG.

import { address } from "../api.js";
import { h, save } from "../dom.js";
import { texts } from "../texts.js";

const FORMATS = /** @type {const} */ (["svg", "png", "script", "jsonl", "json", "shiviz", "mermaid", "html"]);

/** @param {import("../types.js").App} app @param {import("../types.js").Summary} summary @returns {import("./menu.js").MenuItem[]} */
export function exportItems(app, summary) {
  return FORMATS.map((format) => ({ label: texts.run.exports[format], run: () => (format === "png" ? savePng(app, summary).catch(app.fail) : download(summary, format)) }));
}

/** @param {import("../types.js").Summary} summary @param {string} format */
function download(summary, format) {
  h("a", { href: address(`runs/${summary.id}/export/${format}?download=1`), download: "" }).click();
}

/** @param {import("../types.js").App} app @param {import("../types.js").Summary} summary */
async function savePng(app, summary) {
  const answer = await fetch(address(`runs/${summary.id}/export/svg?theme=${app.theme()}`));
  if (!answer.ok) throw new Error((await answer.json())?.error?.sentence ?? String(answer.status));
  const url = URL.createObjectURL(new Blob([await answer.text()], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const factor = Math.min(2, 16_000 / Math.max(image.naturalWidth, image.naturalHeight));
    const canvas = h("canvas", { width: Math.round(image.naturalWidth * factor), height: Math.round(image.naturalHeight * factor) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    save(`${summary.algorithm}.png`, /** @type {Blob} */ (blob));
  } finally {
    URL.revokeObjectURL(url);
  }
}
