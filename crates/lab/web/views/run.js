// @ts-check
// The run view: choose a run, see it, step through it, interfere.

import { Refusal } from "../api.js";
import { button, h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { createBranches, forkLabel, parentOf } from "../run/branches.js";
import { exportItems } from "../run/export.js";
import { createActions } from "../run/interfere.js";
import { openMenu } from "../run/menu.js";
import { openPalette } from "../run/palette.js";
import { serverSource } from "../run/source.js";
import { mountVersus } from "../run/versus.js";
import { createWords } from "../run/words.js";
import { decode, encode, runRoute } from "../route.js";

/** What somebody sees who has never been here: three ask at once. */
const FIRST = { algorithm: "ricart-agrawala", options: { n: 3, entries: "1", hold: "12", delay: "4..9", seed: "1" } };

/** What a run and a search of all runs have in common. */
const CHECKED = ["n", "ids", "set", "stamp", "mutant"];

/** @param {HTMLElement} root @param {import("../types.js").App} app @param {string} firstPath @returns {Promise<import("../types.js").View>} */
export async function mount(root, app, firstPath) {
  const say = app.texts.run;
  const algorithmChoice = h("select", { "aria-label": say.algorithm, onchange: () => { void changeAlgorithm(); } });
  const size = h("input.n", { type: "text", inputmode: "numeric", "aria-label": say.processes, placeholder: "3", autocomplete: "off" });
  const optionsButton = button([say.options, icon("down")], () => openDrawer(drawer.hidden), { "aria-expanded": "false" });
  const runButton = h("button.primary", { type: "submit" }, say.run);
  const undoButton = button(app.texts.interfere.undo, () => undo(), { disabled: true });
  const shrinkButton = button(app.texts.shrink.label, () => { void shrink(); }, { hidden: true, title: app.texts.shrink.title });
  const bar = h("form.run-bar", { "aria-label": say.heading, onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); start(); } },
    algorithmChoice, h("label", null, h("code", { "aria-hidden": "true" }, "n"), size), optionsButton, runButton,
    button(say.check, () => checkAll()), shrinkButton, undoButton, h("span.spacer"),
    button(app.texts.palette.open, () => palette(), { class: "palette-button" }),
    button(say.share, () => { void share(); }), button([say.export, icon("down")], (event) => { if (summary) openMenu(/** @type {Element} */ (event.currentTarget), exportItems(app, summary), say.export); }, { "aria-haspopup": "menu" }));
  const drawer = h("div.drawer", { hidden: true });
  const look = h("div.look", { hidden: true });
  const body = h("div.run-body");
  const stageRoot = h("div.grow.stage-root");
  const versusRoot = h("div.compare-runs", { hidden: true });
  body.append(stageRoot, versusRoot);
  replace(root, h("div.run-view", null, h("h1.visually-hidden", null, say.heading), bar, drawer, look, body));

  /** @type {import("../types.js").Stage | null} */
  let stage = null;
  /** @type {import("../types.js").Summary | null} */
  let summary = null;
  /** @type {import("../types.js").Recipe | null} */
  let recipe = null;
  /** @type {Awaited<ReturnType<typeof mountVersus>> | null} */
  let versus = null;
  /** @type {import("../form.js").Form | null} */
  let form = null;
  let turn = 0;
  let gone = false;
  let shownPath = "";

  const branches = createBranches({
    open: (next, at) => app.go(runRoute(next, at)),
    compare: () => { void toggleVersus(); },
    undo: () => undo(),
  });

  // Addresses.

  /** @param {string} path */
  function read(path) {
    const value = path ? decode(path) : null;
    if (value && typeof value === "object" && (typeof value.id === "string" || typeof value.recipe === "object")) return value;
    return null;
  }

  let addressTimer = 0;
  /** The moment is in the address too, a little later: browsers limit how often it may change. */
  function keepAddress() {
    clearTimeout(addressTimer);
    addressTimer = setTimeout(() => {
      if (!summary || !stage || gone) return;
      const route = runRoute(recipe ?? summary.id, stage.moment());
      shownPath = route.replace(/^\/run\//, "");
      app.go(route, { replace: true });
    }, 300);
  }

  /** @param {string} path */
  async function show(path) {
    if (path && path === shownPath) return;
    clearTimeout(addressTimer);
    const mine = ++turn;
    const wanted = read(path);
    const first = wanted === null;
    if (path && first) app.fail(new Refusal(0, { sentence: say.badAddress }));
    try {
      const next = wanted?.id ? await app.api.get(`runs/${wanted.id}`) : await app.api.post("runs", wanted?.recipe ?? FIRST);
      if (mine !== turn || gone) return;
      const branch = summary !== null && (next.parent === summary.id || summary.parent === next.id || (next.parent !== null && next.parent === summary.parent));
      const moving = first && !path && !matchMedia("(prefers-reduced-motion: reduce)").matches;
      const at = Number.isInteger(wanted?.at) ? wanted.at : moving ? 0 : undefined;
      closeVersus();
      summary = /** @type {import("../types.js").Summary} */ (next);
      recipe = summary.recipe;
      shownPath = path;
      if (stage) await stage.setSource(serverSource(app.api, summary), at, branch);
      else {
        stage = await app.stage(stageRoot, summary, {
          wholePage: true, at,
          onAt: (moment) => { versus?.setMoment(moment); keepAddress(); },
          actions: () => actions,
          tabs: [{ name: "branches", label: app.texts.panel.branches, element: branches.element }],
        });
      }
      if (mine !== turn || gone) return;
      look.hidden = true;
      if (first && !path) {
        showLook(h("p", null, say.firstLook));
        if (moving) stage.play(true);
      }
      drawHead();
      branches.show(recipe ?? { script: summary.id });
      if (summary.fork?.skipped) app.announce(app.texts.branches.skipped(summary.fork.skipped));
      void fillForm();
    } catch (error) {
      if (mine !== turn) return;
      app.fail(error);
      // An address that holds no run any more is no dead end: another can be chosen.
      if (!summary) void fillForm();
    }
  }

  /** @param {HTMLElement} words */
  function showLook(words) {
    replace(look, words, button(icon("close"), () => { look.hidden = true; }, { "aria-label": app.texts.dismiss, class: "quiet" }));
    look.hidden = false;
    look.classList.toggle("broken", Boolean(summary?.violation));
  }

  function drawHead() {
    if (!summary) return;
    if (!catalogue) replace(algorithmChoice, h("option", { value: summary.algorithm }, summary.title));
    algorithmChoice.value = summary.algorithm;
    size.value = String(recipe?.options?.n ?? summary.processes.filter(({ joins }) => !joins).length);
    undoButton.disabled = !canUndo();
    shrinkButton.hidden = summary.violation === null || summary.violation === undefined;
    document.title = `${summary.title} – ${app.texts.title}`;
    if (summary.violation) {
      const { property, detail, step } = summary.violation;
      showLook(h("p", null, h("strong.bad", null, `✗ ${property} ${say.violation}: `), detail, " ", button(app.texts.selection.goTo, () => stage?.goTo(step))));
    } else if (summary.kind === "live") showLook(h("p", null, say.live));
  }

  // Choosing a run.

  /** @type {any} */
  let catalogue = null;
  /** @type {Record<string, import("../types.js").Option[]> | null} */
  let defs = null;
  let formFor = "";

  async function fillForm() {
    try {
      [catalogue, defs] = await Promise.all([app.catalogue(), app.optionDefs()]);
    } catch (error) {
      app.fail(error);
      return;
    }
    if (gone) return;
    if (algorithmChoice.querySelector("optgroup") === null) {
      const chosen = algorithmChoice.value;
      replace(algorithmChoice);
      for (const family of catalogue.families) {
        const known = catalogue.algorithms.filter((/** @type {any} */ one) => one.family === family.name);
        if (known.length) algorithmChoice.append(h("optgroup", { label: family.name }, known.map((/** @type {any} */ one) => h("option", { value: one.name, title: one.idea }, one.title ?? one.name))));
      }
      if (chosen) algorithmChoice.value = chosen;
    }
    if (!summary) {
      if (algorithmChoice.querySelector(`option[value="${FIRST.algorithm}"]`)) algorithmChoice.value = FIRST.algorithm;
      makeForm(algorithmChoice.value, {});
      return;
    }
    stage?.setWords(createWords(catalogue.words ?? []));
    makeForm(summary.algorithm, recipe?.algorithm ? recipe.options ?? {} : {});
  }

  /** @param {string} name @param {import("../types.js").Values} values */
  function makeForm(name, values) {
    if (!defs || !catalogue) return;
    const algorithm = catalogue.algorithms.find((/** @type {any} */ one) => one.name === name);
    if (form && formFor === name) {
      form.set(values);
      return;
    }
    formFor = name;
    form = app.form(defs.sim ?? [], values, { family: algorithm?.family, settings: algorithm?.settings ?? [], hide: ["n", "algorithm"] });
    const script = h("textarea", { rows: 6, "aria-label": say.scriptLabel, spellcheck: "false" });
    const examples = algorithm?.examples ?? [];
    const made = form;
    replace(drawer,
      h("form", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); start(); } }, made.element, h("div.row", null, h("button.primary", { type: "submit" }, say.run))),
      examples.length ? h("section", null, h("h3", null, say.examples), h("div.row", null, examples.map((/** @type {string} */ example) => button(example, () => { openDrawer(false); app.openRun({ example }, 0); })))) : null,
      h("details", null, h("summary", null, say.scripts), script, h("div.row", null, button(say.scriptRun, () => { openDrawer(false); app.openRun({ script: script.value }, 0); }))));
  }

  /** @param {boolean} open */
  function openDrawer(open) {
    drawer.hidden = !open;
    optionsButton.setAttribute("aria-expanded", String(open));
  }

  async function changeAlgorithm() {
    makeForm(algorithmChoice.value, form?.values() ?? {});
    const algorithm = catalogue?.algorithms.find((/** @type {any} */ one) => one.name === algorithmChoice.value);
    if (algorithm) app.announce(algorithm.idea);
    // Options of one family may say nothing to another.
    formFor = "";
    makeForm(algorithmChoice.value, {});
    start();
  }

  function start() {
    const algorithm = algorithmChoice.value || summary?.algorithm;
    if (!algorithm) return;
    const known = form?.values() ?? (algorithm === summary?.algorithm ? recipe?.options : undefined) ?? {};
    const options = { ...known, ...(size.value.trim() ? { n: size.value.trim() } : {}) };
    openDrawer(false);
    const route = runRoute({ algorithm, options });
    if (location.hash === `#${route}`) void show(route.replace(/^\/run\//, ""));
    else app.go(route);
  }

  // Interfering.

  const canUndo = () => (recipe ? parentOf(recipe) !== null : summary?.parent !== null && summary?.parent !== undefined);
  function undo() {
    const parent = recipe ? parentOf(recipe) : null;
    if (parent) app.go(runRoute(parent.recipe, parent.at));
    else if (!recipe && summary?.parent) app.go(runRoute(summary.parent, summary.fork?.at));
    else {
      app.announce(app.texts.interfere.nothingToUndo);
      return;
    }
    app.announce(app.texts.interfere.undone);
  }

  /** @param {import("../types.js").Fork} made */
  async function fork(made) {
    if (!summary) return;
    try {
      const next = /** @type {import("../types.js").Summary} */ (await app.api.post(`runs/${summary.id}/fork`, made));
      app.announce(app.texts.interfere.forked(forkLabel(made)));
      app.go(runRoute(next.recipe ?? next.id, Math.min(next.steps, made.at + (made.do?.length ?? 0))));
    } catch (error) {
      app.fail(error);
    }
  }

  const actions = createActions((made) => { void fork(made); }, {
    at: () => stage?.moment() ?? 0, undo, canUndo,
    share: () => { void share(); },
    checkHere: () => { if (summary && stage) app.go(`/check/${encode(recipe ? { recipe, at: stage.moment() } : { run: summary.id, at: stage.moment() })}`); },
  });

  function checkAll() {
    const algorithm = algorithmChoice.value || summary?.algorithm;
    // What is checked is what is shown: its size, its settings, and its mutant.
    const same = algorithm === summary?.algorithm ? { ...recipe?.options, mutant: summary?.mutant ?? null } : {};
    app.go(`/check/${encode({ algorithm, options: Object.fromEntries(Object.entries(same).filter(([name, value]) => CHECKED.includes(name) && value !== null)) })}`);
  }

  async function shrink() {
    if (!summary) return;
    shrinkButton.disabled = true;
    try {
      const next = await app.api.post(`runs/${summary.id}/shrink`, {});
      app.announce(app.texts.shrink.done(next.steps));
      app.openRun(next);
    } catch (error) {
      app.fail(error);
    }
    shrinkButton.disabled = false;
  }

  async function toggleVersus() {
    if (versus) {
      closeVersus();
      return;
    }
    if (!summary?.parent || !stage) return;
    const mine = turn;
    try {
      const parent = recipe ? await app.api.post("runs", parentOf(recipe)?.recipe) : await app.api.get(`runs/${summary.parent}`);
      if (mine !== turn || gone) return;
      versus = await mountVersus(versusRoot, app, parent, summary, closeVersus);
      // Times need not agree in the two; what depends on what does, as far as they are the same.
      stage.setScale("depth");
      stage.closeSide();
      versus.setMoment(stage.moment());
    } catch (error) {
      app.fail(error);
    }
  }
  function closeVersus() {
    versus?.unmount();
    versus = null;
  }

  // Sharing.

  async function share() {
    if (!summary || !stage) return;
    const url = new URL(location.href);
    url.hash = runRoute(recipe ?? summary.id, stage.moment());
    let copied = false;
    try {
      await navigator.clipboard.writeText(url.href);
      copied = true;
    } catch {
      // Without permission to write there, the address stands in the dialog.
    }
    /** @param {string} value @param {string} label */
    const line = (value, label) => h("label", null, label, h("input.share-box", { type: "text", readonly: true, value, onfocus: (/** @type {any} */ event) => event.target.select() }));
    const dialog = h("dialog", { "aria-label": say.share }, h("p", { role: "status" }, copied ? say.shareDone : say.shareHint), line(url.href, say.address), line(summary.command, say.command),
      h("div.row", null, button(app.texts.panel.close, () => dialog.close(), { class: "primary" })));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  // The palette.

  function palette() {
    if (!stage || !summary) return;
    const now = stage.state();
    const one = stage;
    openPalette([
      ...(now ? [...now.in_flight.flatMap((item) => actions.message(item, now).map(({ label, run }) => ({ label: `${item.text} ${item.name}: ${label}`, run }))), ...actions.moment(now)] : []),
      ...(now ? now.processes.slice(0, 50).flatMap((process) => actions.process(process, now).map(({ label, run }) => ({ label: `p${process.id}: ${label}`, run }))) : []),
      { label: app.texts.transport.play, run: () => one.play(true) }, { label: app.texts.transport.first, run: () => one.goTo(0) }, { label: app.texts.transport.last, run: () => one.goTo(Infinity) },
      { label: app.texts.diagram.zoomIn, run: () => one.diagram.zoom(1.5) }, { label: app.texts.diagram.zoomOut, run: () => one.diagram.zoom(1 / 1.5) }, { label: app.texts.diagram.fit, run: () => one.diagram.fit() },
      { label: `${app.texts.cut.show} / ${app.texts.cut.hide}`, run: () => one.toggleCut() }, { label: app.texts.branches.compare, run: () => { void toggleVersus(); } },
      { label: `${app.texts.diagram.axis}: ${app.texts.diagram.time}`, run: () => one.setScale("time") }, { label: `${app.texts.diagram.axis}: ${app.texts.diagram.depth}`, run: () => one.setScale("depth") },
      { label: say.options, run: () => openDrawer(true) }, ...exportItems(app, summary).map(({ label, run }) => ({ label: `${say.export}: ${label}`, run })),
    ], (typed) => ({ label: `${app.texts.interfere.command}: ${typed}`, run: () => actions.command(typed) }));
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, dialog, [role=menu]")) return;
    if (event.key === "/") palette();
    else if (event.key === "u") undo();
    else if (event.key === "s") void share();
    else return;
    event.preventDefault();
  }
  document.addEventListener("keydown", onKey);

  await show(firstPath);

  return {
    navigate: (path) => { void show(path); },
    unmount() {
      gone = true;
      turn++;
      clearTimeout(addressTimer);
      document.removeEventListener("keydown", onKey);
      versus?.unmount();
      stage?.unmount();
    },
  };
}
