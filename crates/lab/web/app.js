// @ts-check
// The shell: header, views by address, messages. A view exports `mount(root, app, path)` and returns `{ unmount(), navigate?(path) }`.

import { createApi, Refusal } from "./api.js";
import { button, h, replace } from "./dom.js";
import { icon } from "./icons.js";
import { createForm } from "./form.js";
import { parseRoute, runRoute } from "./route.js";
import { serverSource } from "./run/source.js";
import { mountStage } from "./run/stage.js";
import { texts } from "./texts.js";
import { applyTheme, chooseTheme, chosenTheme, currentTheme, onTheme } from "./theme.js";

/** @type {Record<string, () => Promise<{ mount(root: HTMLElement, app: import("./types.js").App, path: string): Promise<import("./types.js").View> }>>} */
const views = {
  learn: () => import("./views/learn.js"),
  run: () => import("./views/run.js"),
  check: () => import("./views/check.js"),
  compare: () => import("./views/compare.js"),
  live: () => import("./views/live.js"),
};

/** @param {string} name */
const viewName = (name) => /** @type {Record<string, string>} */ (texts.views)[name] ?? "";

/** @param {HTMLElement} body */
export function startApp(body) {
  applyTheme();
  const nav = h("nav.views", { "aria-label": texts.navigation });
  for (const name of Object.keys(views)) nav.append(h("a", { href: `#/${name}`, "data-view": name }, viewName(name)));
  const theme = h("select.theme", { "aria-label": texts.theme.label, onchange: () => chooseTheme(theme.value) },
    ["auto", "light", "dark"].map((name) => h("option", { value: name, selected: chosenTheme() === name }, texts.theme[/** @type {"auto" | "light" | "dark"} */ (name)])));
  const root = h("main", { id: "content", tabindex: "-1" });
  const notice = h("div.notice", { role: "alert", hidden: true });
  const spoken = h("div.spoken", { "aria-live": "polite" });
  body.append(
    h("a.skip", { href: "#content", onclick: (/** @type {Event} */ event) => { event.preventDefault(); root.focus(); } }, texts.skip),
    h("header.top", null, h("a.brand", { href: "#/run" }, h("span.mark", { "aria-hidden": "true" }), h("span.brand-name", null, texts.title)), nav, theme),
    notice, root, spoken,
  );

  /** @type {Promise<any> | null} */
  let catalogue = null;
  /** @type {Promise<any> | null} */
  let options = null;
  const api = createApi(texts.unreachable, texts.unreachableHint);
  /** @type {import("./types.js").App} */
  const app = {
    api, texts, theme: currentTheme, onTheme,
    go(route, { replace: inPlace = false } = {}) {
      const hash = `#${route.startsWith("/") ? "" : "/"}${route}`;
      if (location.hash === hash) return;
      if (inPlace) history.replaceState(null, "", hash);
      else location.hash = hash;
    },
    announce(text) {
      spoken.textContent = "";
      spoken.textContent = text;
    },
    fail(error) {
      if (error instanceof DOMException && error.name === "AbortError") return;
      const known = error instanceof Refusal ? error : null;
      if (!known) console.error(error);
      replace(notice, h("p", null, h("strong", null, known?.sentence ?? String(error)), known?.hint ? h("span.hint", null, ` ${texts.hint} ${known.hint}`) : null),
        button(icon("close"), () => { notice.hidden = true; }, { "aria-label": texts.dismiss, class: "quiet" }));
      notice.hidden = false;
    },
    openRun(run, at) {
      const recipe = "id" in run ? run.recipe ?? run.id : run;
      app.go(runRoute(recipe, at));
    },
    form: createForm,
    catalogue: () => (catalogue ??= api.get("catalogue").catch((error) => { catalogue = null; throw error; })),
    optionDefs: () => (options ??= api.get("options").catch((error) => { options = null; throw error; })),
    stage: (element, run, settings) => mountStage(element, app, serverSource(api, run), settings),
  };

  /** @type {{ name: string, view: import("./types.js").View } | null} */
  let current = null;
  let turn = 0;
  async function show() {
    const mine = ++turn;
    const { view: name, path } = parseRoute(location.hash);
    for (const link of nav.children) {
      if (link.dataset.view === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (current?.name === name && current.view.navigate) {
      current.view.navigate(path);
      return;
    }
    current?.view.unmount();
    current = null;
    document.title = `${viewName(name)} – ${texts.title}`;
    document.body.dataset.view = name;
    const holder = h("div.view");
    replace(root, holder);
    const load = Object.hasOwn(views, name) ? views[name] : null;
    if (!load) {
      replace(holder, h("p.empty", null, texts.missingView));
      return;
    }
    try {
      const view = await (await load()).mount(holder, app, path);
      if (mine === turn) current = { name, view };
      else view.unmount();
    } catch (error) {
      if (mine === turn) app.fail(error);
    }
  }
  addEventListener("hashchange", () => { notice.hidden = true; void show(); });
  void show();
}
