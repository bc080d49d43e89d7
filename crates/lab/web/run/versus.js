// @ts-check
// A branch beside the run that it left.

import { button, h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { texts } from "../texts.js";
import { createDiagram } from "./diagram.js";
import { createModel, formatTime } from "./model.js";

/** @param {HTMLElement} root @param {import("../types.js").App} app @param {import("../types.js").Summary} parent @param {import("../types.js").Summary} branch @param {() => void} onClose */
export async function mountVersus(root, app, parent, branch, onClose) {
  const say = texts.branches;
  const [index, result] = await Promise.all([app.api.get(`runs/${parent.id}/index`), app.api.get(`runs/${parent.id}/compare/${branch.id}`)]);
  const model = createModel(parent, index);
  const holder = h("div.canvas-holder", { role: "img", "aria-label": `${say.left}: ${texts.diagram.label}` });
  /** @param {string} name @param {string | number} left @param {string | number} right */
  const row = (name, left, right) => h("tr", null, h("th", { scope: "row" }, name), h("td", null, left), h("td", null, right));
  const { left, right } = result;
  const kinds = [...new Set([...Object.keys(left.kinds ?? {}), ...Object.keys(right.kinds ?? {})])];
  const side = h("div.side", { role: "region", "aria-label": say.compare, tabindex: "0" },
    h("div.row", null, h("strong.grow", null, say.common(result.common_steps)), button(icon("close"), onClose, { "aria-label": say.hide, class: "quiet" })),
    result.first ? h("p", null, `${say.first}: `, h("span.mono", null, `${result.first.left ?? "–"} / ${result.first.right ?? "–"}`)) : h("p", null, say.same),
    h("table", null, h("thead", null, h("tr", null, h("td"), h("th", { scope: "col" }, say.left), h("th", { scope: "col" }, say.right))), h("tbody", null,
      row(say.steps, left.steps, right.steps), row(say.time, formatTime(left.time, texts.units), formatTime(right.time, texts.units)), row(say.messages, left.messages, right.messages),
      kinds.map((kind) => row(`· ${kind}`, left.kinds[kind] ?? 0, right.kinds[kind] ?? 0)), left.entries === undefined ? null : row(say.entries, left.entries, right.entries),
      result.properties.map((/** @type {any} */ one) => row(one.property, `${mark(one.left)} ${state(one.left)}`, `${mark(one.right)} ${state(one.right)}`)))));
  replace(root, holder, side);
  root.hidden = false;
  const diagram = createDiagram(holder, model, { theme: app.theme });
  diagram.setScale("depth");
  const stop = app.onTheme(() => diagram.restyle());
  return {
    setMoment: (/** @type {number} */ moment) => diagram.setMoment(Math.min(moment, model.index.steps)),
    unmount() {
      stop();
      diagram.destroy();
      replace(root);
      root.hidden = true;
    },
  };
}

/** @param {keyof typeof texts.moment.signs} name */
const mark = (name) => texts.moment.signs[name] ?? "";
/** @param {keyof typeof texts.moment.states} name */
const state = (name) => texts.moment.states[name] ?? name;
