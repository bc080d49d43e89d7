// @ts-check
// The page of one run, in one file: the run is in it, no server is needed. `crates/lab/src/alone.rs` joins its modules.

import { h } from "./dom.js";
import { recordedSource } from "./run/recorded.js";
import { mountStage } from "./run/stage.js";
import { texts } from "./texts.js";
import { applyTheme, chooseTheme, chosenTheme, currentTheme, onTheme } from "./theme.js";

/** @param {HTMLElement} body @param {import("./run/recorded.js").Recorded} run */
export async function startPlayer(body, run) {
  applyTheme();
  body.dataset.view = "player";
  document.title = `${run.summary.title} – ${texts.title}`;
  const theme = h("select.theme", { "aria-label": texts.theme.label, onchange: () => chooseTheme(theme.value) },
    Object.entries({ auto: texts.theme.auto, light: texts.theme.light, dark: texts.theme.dark }).map(([name, label]) => h("option", { value: name, selected: chosenTheme() === name }, label)));
  const spoken = h("div.spoken", { "aria-live": "polite" });
  const place = h("main.grow");
  const { violation } = run.summary;
  body.append(h("div.player", null,
    h("header.top", null, h("h1.grow", null, run.summary.title), h("code", null, run.summary.command), theme),
    violation ? h("div.look", null, h("p", null, h("strong.bad", null, `✗ ${violation.property} ${texts.run.violation}: `), violation.detail)) : null,
    place, spoken));
  const stage = await mountStage(place, { theme: currentTheme, onTheme, announce: (text) => { spoken.textContent = text; }, fail: (error) => console.error(error) }, recordedSource(run), { wholePage: true, at: 0 });
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) stage.play(true);
}
