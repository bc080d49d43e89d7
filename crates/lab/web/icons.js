// @ts-check
// Signs of buttons, drawn, so that they look the same with every font.

import { svg } from "./dom.js";

const PATHS = {
  first: "M4 3V13M13 3L6 8L13 13Z", back: "M11 3L4 8L11 13Z", play: "M5 3L12 8L5 13Z", pause: "M5 3V13M11 3V13", forward: "M12 3V13M4 3L9 8L4 13Z", last: "M3 3L8 8L3 13ZM8 3L13 8L8 13Z",
  close: "M4 4L12 12M12 4L4 12", more: "M3 8h.01M8 8h.01M13 8h.01", down: "M4 6L8 10L12 6",
};

/** @param {keyof typeof PATHS} name */
export function icon(name) {
  return svg(PATHS[name].endsWith("Z") ? "svg.icon" : "svg.icon.line", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}
