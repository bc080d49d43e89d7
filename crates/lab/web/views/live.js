// @ts-check
// Real processes: start them, watch them, do something to them, and open what happened as a run.

import { button, h, replace } from "../dom.js";
import { liveTexts } from "../texts/live.js";
import { ring } from "./live/ring.js";

/** @param {HTMLElement} root @param {import("../types.js").App} app @param {string} path */
export async function mount(root, app, path) {
  const words = liveTexts;
  const [catalogue, defs] = await Promise.all([app.catalogue(), app.optionDefs()]);
  /** @type {Map<string, any>} */
  const algorithms = new Map(catalogue.algorithms.map((/** @type {any} */ one) => [one.name, one]));
  /** @type {{ close(): void } | null} */
  let stream = null;
  let gone = false;
  let shown = "";

  const list = h("div");
  const panel = h("div.cluster");
  const algorithm = h("select", { id: "live-algorithm", onchange: () => makeForm() }, catalogue.families.map((/** @type {any} */ family) =>
    h("optgroup", { label: family.title }, family.algorithms.map((/** @type {string} */ name) => h("option", { value: name }, algorithms.get(name)?.title ?? name)))));
  const count = h("input", { id: "live-n", type: "number", min: 1, max: 9, value: 3 });
  const formPlace = h("div");
  const begin = button(words.begin, () => { void start(); }, { class: "primary" });
  /** @type {import("../form.js").Form} */
  let form;

  function makeForm() {
    form = app.form(defs.cluster ?? [], {}, { family: algorithms.get(algorithm.value)?.family, settings: algorithms.get(algorithm.value)?.settings ?? [], hide: ["n", "name", "cluster"] });
    replace(formPlace, h("details", null, h("summary", null, words.options), form.element));
  }

  async function start() {
    begin.disabled = true;
    begin.textContent = words.starting;
    try {
      const status = await app.api.post("clusters", { algorithm: algorithm.value, options: { ...form.values(), n: Number(count.value) } });
      watch(status);
      await refresh();
    } catch (error) {
      app.fail(error);
    }
    begin.disabled = false;
    begin.textContent = words.begin;
  }

  async function refresh() {
    try {
      const { clusters } = await app.api.get("clusters");
      replace(list, clusters.length ? h("div.row", null, clusters.map((/** @type {any} */ one) => button(`${one.name}: ${one.algorithm}`, () => watch(one), { title: words.show(one.name) }))) : h("p.empty", null, words.none));
      return clusters;
    } catch (error) {
      app.fail(error);
      return [];
    }
  }

  /** @param {any} first */
  function watch(first) {
    stream?.close();
    shown = first.id;
    const base = `clusters/${first.id}`;
    const about = algorithms.get(first.algorithm);
    const family = catalogue.families.find((/** @type {any} */ one) => one.name === about?.family);
    const verbs = new Set(family?.requests.map((/** @type {any} */ one) => one.verb));
    const locks = verbs.has("cancel");
    const elects = verbs.has("start");
    const ids = first.processes.map((/** @type {any} */ one) => one.id);
    const head = h("p.row");
    const picture = h("div");
    const body = h("tbody");
    const holds = h("div");
    const said = h("p.mono", { role: "status" });
    const cuts = h("span.hint");
    /** @type {Map<number, { cells: Record<string, HTMLElement>, row: HTMLElement }>} */
    const rows = new Map();

    /** @param {any} order */
    async function order(order) {
      try {
        const status = await app.api.post(`${base}/do`, order);
        said.textContent = status.said ?? "";
        draw(status);
      } catch (error) {
        app.fail(error);
      }
    }

    for (const id of ids) {
      /** @type {Record<string, HTMLElement>} */
      const cells = Object.fromEntries(["state", "phase", "locks", "messages", "suspects"].map((name) => [name, h("td")]));
      const act = (/** @type {"kill" | "restart" | "pause" | "resume"} */ verb) => button(words[verb], () => { void order({ do: verb, process: id }); }, { "aria-label": words.doTo(words[verb], id) });
      const row = h("tr", { "data-process": id }, h("th", { scope: "row" }, `p${id}`), Object.values(cells), h("td.row", null, act("kill"), act("restart"), act("pause"), act("resume")));
      rows.set(id, { cells, row });
      body.append(row);
    }
    const via = (/** @type {string} */ id) => h("select", { id }, ids.map((/** @type {number} */ one) => h("option", { value: one }, `p${one}`)));
    const name = h("input", { id: "live-lock", type: "text", value: "backup", spellcheck: "false", autocomplete: "off" });
    const lockVia = via("live-via");
    const electVia = via("live-elect-via");
    const askOf = via("live-ask-of");
    const asked = h("input", { id: "live-words", type: "text", spellcheck: "false", autocomplete: "off", placeholder: family?.requests?.map((/** @type {any} */ one) => one.verb).join(", ") ?? "" });
    const groups = h("input", { id: "live-groups", type: "text", placeholder: words.groupsHint, spellcheck: "false", autocomplete: "off" });
    const form = (/** @type {() => void} */ onsubmit, /** @type {any[]} */ ...children) => h("form.row", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); onsubmit(); } }, children);
    const submit = (/** @type {string} */ label) => h("button", { type: "submit" }, label);

    /** @param {any} status */
    function draw(status) {
      replace(head, h("strong", null, `${status.name}: ${about?.title ?? status.algorithm}`), h("span.hint", null, words.up(Math.round(status.seconds))), h("span.grow"),
        traceButton, stopButton);
      replace(picture, ring(status));
      for (const one of status.processes) {
        const cells = rows.get(one.id)?.cells;
        if (!cells) continue;
        cells.state.textContent = one.state;
        cells.state.className = one.state === "up" ? "good" : "bad";
        cells.phase.textContent = one.phase ?? "";
        cells.locks.textContent = (one.locks ?? []).map((/** @type {any} */ lock) => `${lock.holder ? words.holder : words.waits} ${lock.name}`).join(", ");
        cells.messages.textContent = String(one.messages ?? "");
        cells.suspects.textContent = (one.suspects ?? []).map((/** @type {number} */ id) => `p${id}`).join(", ");
      }
      const key = status.holds?.map((/** @type {any} */ hold) => `${hold.hold} ${hold.state} ${hold.fence}`).join("|") ?? "";
      if (holds.dataset.key !== key) {
        holds.dataset.key = key;
        replace(holds, status.holds?.length ? h("ul.plain", null, status.holds.map((/** @type {any} */ hold) => h("li.row", { "data-hold": hold.hold }, h("span.mono.grow", null, words.hold(hold)),
          hold.state !== "held" && hold.state !== "waiting" ? null : button(words.unlock, () => { void order({ do: "unlock", hold: hold.hold }); }, { "aria-label": `${words.unlock} ${hold.lock}` })))) : h("p.empty", null, words.noHolds));
      }
      cuts.textContent = words.cuts(status.cuts ?? []);
    }

    const traceButton = button(words.trace, () => { app.api.post(`${base}/trace`, {}).then((run) => app.openRun(run), app.fail); }, { class: "primary" });
    const stopButton = button(words.stop, () => {
      app.api.del(base).then(() => { end(words.stopped); return refresh(); }).catch(app.fail);
    });

    /** @param {string} sentence */
    function end(sentence) {
      stream?.close();
      stream = null;
      shown = "";
      replace(panel, h("p.empty", { role: "status" }, sentence));
    }

    replace(panel, h("section.panel", { "aria-label": first.name, "data-cluster": first.id }, head, h("div.cluster-body", null, picture,
      h("div.scroll", { tabindex: "0", role: "region", "aria-label": words.table }, h("table", null, h("thead", null, h("tr", null, [words.process, words.state, words.phase, words.locks, words.messages, words.suspects, words.actions].map((label) => h("th", { scope: "col" }, label)))), body))),
    locks ? h("section", { "aria-label": words.locking }, h("h3", null, words.locking), form(() => { void order({ do: "lock", lock: name.value.trim(), via: Number(lockVia.value) }); },
      h("label", { for: "live-lock" }, words.lockName), name, h("label", { for: "live-via" }, words.via), lockVia, submit(words.lock)), holds) : null,
    elects ? h("section", { "aria-label": words.elections }, h("h3", null, words.elections), form(() => { void order({ do: "elect", via: Number(electVia.value) }); },
      h("label", { for: "live-elect-via" }, words.via), electVia, submit(words.elect))) : null,
    locks ? null : h("section", { "aria-label": words.asking }, h("h3", null, words.asking), form(() => { void order({ do: "ask", process: Number(askOf.value), words: asked.value.trim() }); },
      h("label", { for: "live-ask-of" }, words.process), askOf, h("label", { for: "live-words" }, words.word), asked, submit(words.ask))),
    h("section", { "aria-label": words.network }, h("h3", null, words.network), form(() => { void order({ do: "cut", groups: groups.value.trim() }); },
      h("label", { for: "live-groups" }, words.groups), groups, submit(words.cut), button(words.heal, () => { void order({ do: "heal" }); }), cuts)),
    said));
    draw(first);
    stream = app.api.stream(`${base}/events`, { status: (status) => { if (shown === first.id) draw(status); }, done: () => end(words.gone), stopped: () => end(words.gone), failed: () => end(words.gone), error: () => { if (!gone && shown === first.id) end(words.gone); } });
  }

  const page = h("div.page.live", null, h("h1", null, words.heading), h("p", null, words.intro),
    h("section.panel", { "aria-label": words.start }, h("h2", null, words.start), h("div.row", null, h("label", { for: "live-algorithm" }, words.algorithm), algorithm, h("label", { for: "live-n" }, words.processes), count, begin), formPlace),
    h("section", { "aria-label": words.clusters }, h("h2", null, words.clusters), list), panel);
  root.append(page);
  if (algorithms.has("ricart-agrawala")) algorithm.value = "ricart-agrawala";
  makeForm();
  const running = await refresh();
  const wanted = running.find((/** @type {any} */ one) => one.id === path) ?? running[0];
  if (wanted && !gone) watch(wanted);
  return {
    unmount() {
      gone = true;
      stream?.close();
      page.remove();
    },
  };
}
