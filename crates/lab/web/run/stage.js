// @ts-check
// A run on stage: the diagram, the transport bar, and what is true at the moment. The run view, lessons and the file that plays alone use it.

import { button, h, replace, svg } from "../dom.js";
import { icon } from "../icons.js";
import { texts } from "../texts.js";
import { createDiagram } from "./diagram.js";
import { createEventList } from "./events.js";
import { openMenu } from "./menu.js";
import { createModel, formatTime } from "./model.js";
import { momentSections } from "./moment.js";

/**
 * @typedef {object} StageOptions
 * @property {number} [at] the moment to begin with; the end if not given
 * @property {boolean} [compact] for a place inside a page
 * @property {boolean} [wholePage] keys work wherever the focus is
 * @property {{ at: number, text: string }[]} [notes] the last of them that has been reached is shown; what the script says if not given
 * @property {(moment: number) => void} [onAt]
 * @property {(event: number | null) => void} [onSelect]
 * @property {(summary: import("../types.js").Summary) => import("./moment.js").Actions} [actions] what can be done to the run
 * @property {{ name: string, label: string, element: HTMLElement }[]} [tabs] further tabs beside the state
 */
/** @typedef {{ theme(): "light" | "dark", onTheme(listener: () => void): () => void, announce(text: string): void, fail(error: unknown): void }} StageApp */

let nextStage = 0;

const SPEEDS = [1, 2, 5, 10, 50, 250];

/** @param {HTMLElement} root @param {StageApp} app @param {import("../types.js").Source} firstSource @param {StageOptions} [options] */
export async function mountStage(root, app, firstSource, options = {}) {
  let source = firstSource;
  let model = createModel(source.summary, await source.index());
  let at = Math.max(0, Math.min(options.at ?? model.index.steps, model.index.steps));
  let shown = -1;
  /** @type {import("../types.js").Moment | null} */
  let moment = null;
  let generation = 0;
  let selected = -1;
  /** @type {import("../types.js").Order | null} */
  let order = null;
  /** @type {Int32Array | null} */
  let cut = null;
  /** @type {import("../types.js").Cut | null} */
  let verdict = null;
  let playing = 0;
  let speed = 2;
  /** Whose state is shown in full. @type {Set<number>} */
  const opened = new Set();
  let actions = options.actions?.(source.summary);
  let notes = options.notes ?? notesOf(source.summary);
  /** @type {import("./words.js").Words | null} */
  let words = null;

  // Records come in pages, as they are asked for.
  const PAGE = 200;
  /** @type {Map<number, import("../types.js").EventRecord[] | "asked">} */
  const pages = new Map();
  /** @param {number} event */
  function describe(event) {
    const page = Math.floor(event / PAGE);
    const held = pages.get(page);
    if (held === undefined) {
      pages.set(page, "asked");
      const mine = generation;
      source.events(page * PAGE, PAGE).then((records) => {
        if (mine !== generation) return;
        pages.set(page, records);
        diagram.redraw();
      }, () => pages.delete(page));
      return null;
    }
    return held === "asked" ? null : held[event - page * PAGE] ?? null;
  }

  const help = h("span.visually-hidden", { id: `stage-help-${nextStage++}` }, texts.diagram.help);
  const holder = h("div.canvas-holder", { tabindex: "0", role: "group", "aria-label": texts.diagram.label, "aria-describedby": help.id });
  const minimap = h("div.minimap", { role: "img", "aria-label": texts.diagram.minimap });
  const scaleChoice = h("select", { "aria-label": texts.diagram.axis, onchange: () => diagram.setScale(scaleChoice.value) },
    h("option", { value: "time" }, texts.diagram.time), h("option", { value: "depth" }, texts.diagram.depth));
  const stampChoice = h("select", { "aria-label": texts.diagram.stamps, onchange: () => diagram.setStamps(stampChoice.value) },
    h("option", { value: "none" }, texts.diagram.noStamps), h("option", { value: "lamport" }, texts.diagram.lamport), h("option", { value: "vector" }, texts.diagram.vector));
  const cutButton = button(texts.cut.show, () => toggleCut(), { "aria-pressed": "false" });
  const legend = h("div.legend", { "aria-label": texts.diagram.legend, role: "group", tabindex: "0" });
  const note = h("p.note", { hidden: true });
  const slider = h("input", { type: "range", min: 0, max: model.index.steps, step: 1, value: at, "aria-label": texts.transport.slider, oninput: () => goTo(Number(slider.value)) });
  const output = h("output", { "aria-live": "off" });
  const playButton = button(icon("play"), () => toggle(), { "aria-label": texts.transport.play, class: "primary" });
  const speedChoice = h("select", { "aria-label": texts.transport.speed, onchange: () => { speed = Number(speedChoice.value); } }, SPEEDS.map((value) => h("option", { value, selected: value === speed }, `${value}×`)));
  const sideButton = button(texts.panel.open, () => openSide(!element.classList.contains("side-open")), { class: "side-toggle", "aria-expanded": "false" });
  const transport = h("div.transport", { role: "group", "aria-label": texts.transport.label },
    button(icon("first"), () => goTo(0), { "aria-label": texts.transport.first, class: "ends" }), button(icon("back"), () => goTo(at - 1), { "aria-label": texts.transport.back }), playButton,
    button(icon("forward"), () => goTo(at + 1), { "aria-label": texts.transport.forward }), button(icon("last"), () => goTo(model.index.steps), { "aria-label": texts.transport.last, class: "ends" }),
    slider, output, speedChoice, sideButton);
  const picture = h("div.picture", null, note,
    h("div.picture-bar", null, scaleChoice, stampChoice, cutButton, h("div.zoom", null,
      button("−", () => diagram.zoom(1 / 1.5), { "aria-label": texts.diagram.zoomOut }), button("+", () => diagram.zoom(1.5), { "aria-label": texts.diagram.zoomIn }), button(texts.diagram.fit, () => diagram.fit()))),
    help, holder, minimap, legend);
  const statePanel = h("div");
  const selection = h("div.selection", { hidden: true });
  const cutPanel = h("section", { hidden: true });
  const stateTab = h("div.tab", { role: "tabpanel", tabindex: "0", "aria-label": texts.panel.state }, selection, cutPanel, statePanel);
  const events = createEventList({
    source: () => source, model: () => model,
    onSelect: (event) => { select(event); goTo(Math.max(0, model.step[event])); },
    fail: app.fail,
  });
  const eventsTab = h("div.tab", { role: "tabpanel", hidden: true, tabindex: "0", "aria-label": texts.panel.events }, events.element);
  const extra = (options.tabs ?? []).map(({ name, label, element: body }) => ({ name, label, panel: h("div.tab", { role: "tabpanel", hidden: true, tabindex: "0", "aria-label": label }, body) }));
  const tabs = [{ name: "state", label: texts.panel.state, panel: stateTab }, { name: "events", label: texts.panel.events, panel: eventsTab }, ...extra];
  const tabButtons = tabs.map(({ name, label }, place) => h("button", { type: "button", role: "tab", "aria-selected": String(place === 0), tabindex: place === 0 ? 0 : -1, "data-tab": name, onclick: () => showTab(name) }, label));
  const closeSide = button(icon("close"), () => openSide(false), { "aria-label": texts.panel.close, class: "quiet side-toggle" });
  const tabBar = h("div.row.grow", { role: "tablist", "aria-label": texts.panel.tabs }, tabButtons);
  tabBar.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    event.stopPropagation();
    event.preventDefault();
    const next = (tabButtons.indexOf(/** @type {any} */ (document.activeElement)) + move + tabButtons.length) % tabButtons.length;
    tabButtons[next].focus();
    showTab(tabs[next].name);
  });
  const side = h("div.side", null, h("div.tabs", null, tabBar, closeSide), tabs.map(({ panel }) => panel));
  const element = h(`div.stage${options.compact ? ".compact" : ""}`, null, picture, side, transport);
  replace(root, element);

  const diagram = createDiagram(holder, model, {
    theme: app.theme, minimap, describe,
    onSelect: (event) => select(event),
    onClear: () => select(null),
    onMoment: (wanted) => goTo(wanted),
    onMenu: (target, x, y) => menuAt(target, x, y),
    onCut: (next) => setCut(next),
  });
  const stopTheme = app.onTheme(() => { diagram.restyle(); drawLegend(); });

  /** @param {string} name */
  function showTab(name) {
    tabs.forEach(({ name: other, panel }, place) => {
      panel.hidden = other !== name;
      tabButtons[place].setAttribute("aria-selected", String(other === name));
      tabButtons[place].tabIndex = other === name ? 0 : -1;
    });
    if (name === "events") events.show(at);
  }

  /** @param {boolean} open */
  function openSide(open) {
    element.classList.toggle("side-open", open);
    sideButton.setAttribute("aria-expanded", String(open));
    if (open) (tabButtons.find(({ tabIndex }) => tabIndex === 0) ?? tabButtons[0]).focus();
    else sideButton.focus();
  }

  /** @param {string} message */
  const colourOf = (message) => `var(--k${Math.max(0, model.index.messages.indexOf(message)) % 8})`;

  function drawLegend() {
    /** @param {string} colour @param {string} path @param {Record<string, any>} [more] */
    const sign = (colour, path, more = {}) => {
      const line = svg("path", { d: path, fill: "none", "stroke-width": 2, ...more });
      line.style.stroke = colour;
      if (more.filled) line.style.fill = colour;
      return svg("svg", { viewBox: "0 0 22 10", "aria-hidden": "true" }, line);
    };
    const say = texts.diagram;
    /** @param {string} band */
    const phasesOf = (band) => model.index.phases.filter((phase) => model.index.bands[phase] === band).join(", ");
    replace(legend,
      model.index.messages.slice(0, 12).map((message) => h("span", null, sign(colourOf(message), "M1 5H19M15 2L20 5L15 8"), message)),
      h("span", null, sign("var(--waiting)", "M1 9L9 1M7 9L15 1M13 9L21 1"), phasesOf("waiting") || say.waiting),
      h("span", null, sign("var(--holding)", "M1 1H21V9H1Z", { filled: true }), phasesOf("holding") || say.holding),
      h("span", null, sign("var(--soft)", "M1 5H21", { "stroke-dasharray": "4 3" }), say.inFlight),
      model.messages.fate.includes(1) ? h("span", null, sign("var(--bad)", "M7 1L15 9M15 1L7 9"), say.lost) : null,
      model.messages.copy.includes(1) ? h("span", null, sign("var(--soft)", "M1 3H21M1 7H21"), say.copied) : null,
      model.kind.includes("crash") ? h("span", null, sign("var(--bad)", "M7 1L15 9M15 1L7 9"), say.crash) : null,
      model.kind.includes("restart") ? h("span", null, sign("var(--good)", "M15 3A4.5 4.5 0 1 0 15 7M15 0V4H11"), say.restart) : null,
      model.kind.includes("suspect") ? h("span", null, sign("var(--bad)", "M11 1L16 9H6Z", { filled: true }), say.suspicion) : null,
      model.kind.includes("timer") ? h("span", null, sign("var(--ink)", "M7 1H15L7 9H15Z"), say.timer) : null);
  }

  function drawTransport() {
    slider.max = String(model.index.steps);
    slider.value = String(at);
    const words = texts.transport.at(at, model.index.steps, formatTime(model.index.step_time[at] ?? 0, texts.units));
    slider.setAttribute("aria-valuetext", words);
    output.textContent = words;
    note.hidden = notes.length === 0;
    const said = notes.filter((one) => one.at <= at).at(-1)?.text ?? "";
    if (note.textContent !== said) {
      note.textContent = said;
      app.announce(said);
    }
  }

  /** @param {number} wanted */
  function goTo(wanted) {
    const next = Math.max(0, Math.min(model.index.steps, Math.round(wanted)));
    if (next === at) return;
    at = next;
    diagram.setMoment(at);
    drawTransport();
    options.onAt?.(at);
    void load();
  }

  let loading = false;
  async function load() {
    if (loading) return;
    loading = true;
    const mine = generation;
    try {
      while (mine === generation && shown !== at) {
        const asked = at;
        const answer = await source.at(asked);
        if (mine !== generation) break;
        shown = asked;
        moment = answer;
        drawMoment();
        if (!eventsTab.hidden) events.show(asked);
        if (!playing && notes.length === 0 && answer?.happened.length) app.announce(answer.happened.slice(0, 3).join(". "));
      }
    } catch (error) {
      if (mine === generation) shown = at;
      app.fail(error);
    }
    if (mine === generation) loading = false;
  }

  function drawMoment() {
    const key = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.key;
    const inside = statePanel.contains(document.activeElement);
    if (!moment) {
      replace(statePanel, h("p.soft", null, texts.moment.unavailable));
    } else {
      replace(statePanel, ...momentSections(moment, source.summary, {
        actions, colourOf, words, opened,
        menu: (anchor, items, title) => (items.length ? openMenu(anchor, items, title) : app.announce(texts.interfere.none)),
        reveal: (event) => select(event),
      }));
    }
    statePanel.dataset.at = String(shown);
    if (inside && key) {
      const again = [...statePanel.querySelectorAll("[data-key]")].find((one) => /** @type {HTMLElement} */ (one).dataset.key === key);
      /** @type {HTMLElement} */ (again ?? stateTab).focus({ preventScroll: true });
    }
  }

  // Selecting an event.

  let selectTurn = 0;
  /** @param {number | null} event */
  async function select(event) {
    selected = event ?? -1;
    order = null;
    const mine = ++selectTurn;
    diagram.setSelection(selected, null);
    options.onSelect?.(event);
    if (event === null) {
      selection.hidden = true;
      events.select(-1, null);
      return;
    }
    const [record] = await source.events(event, 1).catch(() => []);
    let refused = "";
    try {
      order = await source.order(event);
    } catch (error) {
      refused = error instanceof Error ? error.message : texts.selection.noOrder;
    }
    if (mine !== selectTurn) return;
    diagram.setSelection(selected, order);
    events.select(selected, order);
    if (!record) return;
    replace(selection, h("h3", null, texts.selection.heading), h("p.mono", null, record.what),
      h("p", null, `${formatTime(record.time, texts.units)} · ${texts.selection.lamport} ${record.lamport}${record.vector ? ` · ${texts.selection.vector} [${record.vector.join(",")}]` : ""}`),
      order ? h("p", null, h("span.chip.past", null, texts.events.past), " ", h("span.chip.future", null, texts.events.future), ` ${texts.selection.concurrentWith(order.concurrent)}`) : h("p.soft", null, refused),
      h("div.row", null, button(texts.selection.goTo, () => goTo(Math.max(0, model.step[selected]))), button(texts.selection.clear, () => select(null), { class: "quiet" })));
    selection.hidden = false;
    app.announce(`${texts.events.selected}: ${record.what}`);
  }

  // A cut.

  function toggleCut() {
    if (cut) {
      cut = null;
      verdict = null;
      diagram.setCut(null, null);
      cutPanel.hidden = true;
    } else {
      cut = Int32Array.from({ length: model.lanes }, (_, lane) => model.happened(lane, at));
      showTab("state");
      drawCutPanel();
      void judgeCut();
    }
    cutButton.setAttribute("aria-pressed", String(cut !== null));
    cutButton.textContent = cut ? texts.cut.hide : texts.cut.show;
  }

  /** @type {HTMLElement} */
  const cutVerdict = h("div", { "aria-live": "polite" });
  function drawCutPanel() {
    if (!cut) return;
    const now = cut;
    replace(cutPanel, h("h3", null, texts.cut.heading), cutVerdict,
      model.lanes <= 16 ? h("div.cut-lines", null, model.summary.processes.flatMap(({ name }, lane) => {
        const count = h("span.mono", null, `${now[lane]}`);
        const line = h("input", { type: "range", min: 0, max: model.onLane[lane].length, step: 1, value: now[lane], "aria-label": texts.cut.handle(name), "data-lane": lane, oninput: () => {
          const next = Int32Array.from(cut ?? now);
          next[lane] = Number(line.value);
          count.textContent = line.value;
          setCut(next);
        } });
        return [h("span", null, name), line, count];
      })) : null);
    cutPanel.hidden = false;
  }

  /** @param {Int32Array} next */
  function setCut(next) {
    cut = next;
    for (const line of cutPanel.querySelectorAll("input")) {
      const lane = Number(line.dataset.lane);
      if (Number(line.value) === next[lane]) continue;
      line.value = String(next[lane]);
      if (line.nextElementSibling) line.nextElementSibling.textContent = line.value;
    }
    void judgeCut();
  }

  let judging = false;
  async function judgeCut() {
    if (judging) return;
    judging = true;
    try {
      /** @type {Int32Array | null} */
      let judged = null;
      while (cut && judged !== cut) {
        judged = cut;
        /** @type {Record<string, number>} */
        const frontier = {};
        model.summary.processes.forEach(({ id }, lane) => {
          const inside = /** @type {Int32Array} */ (judged)[lane];
          if (inside > 0) frontier[id] = model.onLane[lane][inside - 1];
        });
        verdict = await source.cut(frontier);
      }
      if (cut && verdict) {
        diagram.setCut(cut, verdict.consistent);
        const say = texts.cut;
        replace(cutVerdict, h(`p.verdict${verdict.consistent ? ".good" : ".bad"}`, null, `${verdict.consistent ? "✓" : "✗"} ${verdict.sentence}`),
          verdict.consistent ? h("p", null, verdict.channels?.length ? [`${say.channels}: `, h("span.mono", null, verdict.channels.map(({ from, to, messages }) => `p${from} → p${to}: ${messages.join(", ")}`).join("; "))] : say.empty) : null);
      }
    } catch (error) {
      app.fail(error);
    }
    judging = false;
  }

  // Menus of the diagram.

  /** @param {{ message?: number, lane?: number, event?: number }} target @param {number} x @param {number} y */
  function menuAt(target, x, y) {
    /** @type {import("./menu.js").MenuItem[]} */
    const items = [];
    let title = "";
    if (target.message !== undefined) {
      const send = model.messages.send[target.message];
      const end = model.messages.end[target.message];
      const flying = moment?.in_flight.find((item) => item.send === send);
      title = `${model.index.messages[model.messages.kind[target.message]] ?? ""} ${model.summary.processes[model.messages.from[target.message]]?.name} → ${model.summary.processes[model.messages.to[target.message]]?.name}`;
      if (flying && moment && actions) items.push(...actions.message(flying, moment));
      else if (end >= 0 && actions) items.push({ label: texts.interfere.before, run: () => { goTo(model.step[end] - 1); void load(); } });
      items.push({ label: texts.interfere.showSend, run: () => select(send) });
      if (end >= 0) items.push({ label: texts.interfere.showEnd, run: () => select(end) });
    } else if (target.event !== undefined) {
      const event = target.event;
      title = describe(event)?.what ?? "";
      items.push({ label: texts.selection.select, run: () => select(event) }, { label: texts.selection.goTo, run: () => goTo(Math.max(0, model.step[event])) });
    }
    if (target.message === undefined && target.lane !== undefined && moment && actions) {
      const process = moment.processes.find(({ id }) => id === model.summary.processes[/** @type {number} */ (target.lane)].id);
      if (process) {
        title ||= model.summary.processes[target.lane].name;
        items.push(...actions.process(process, moment));
      }
    }
    if (items.length === 0 && moment && actions) items.push(...actions.moment(moment));
    openMenu({ x, y }, items, title);
  }

  // Playing.

  let lastTick = 0;
  function tick(/** @type {number} */ now) {
    if (!playing) return;
    if (now - lastTick >= 1000 / speed) {
      const steps = Math.max(1, Math.floor((now - lastTick) / (1000 / speed)));
      lastTick = now;
      goTo(at + steps);
    }
    if (at >= model.index.steps) toggle(false);
    else playing = requestAnimationFrame(tick);
  }
  /** @param {boolean} [on] */
  function toggle(on = !playing) {
    cancelAnimationFrame(playing);
    playing = 0;
    replace(playButton, icon(on ? "pause" : "play"));
    playButton.setAttribute("aria-label", on ? texts.transport.pause : texts.transport.play);
    if (!on) return;
    if (at >= model.index.steps) goTo(0);
    lastTick = performance.now();
    playing = requestAnimationFrame(tick);
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest("input, select, textarea, dialog, [role=menu]") && !(target === slider && event.key === " ")) return;
    const onButton = target.closest("button, a, summary") !== null;
    const pace = event.shiftKey ? 10 : 1;
    switch (event.key) {
      case "ArrowLeft": goTo(at - pace); break;
      case "ArrowRight": goTo(at + pace); break;
      case "Home": goTo(0); break;
      case "End": goTo(model.index.steps); break;
      case " ": if (onButton) return; toggle(); break;
      case "+": case "=": diagram.zoom(1.5); break;
      case "-": diagram.zoom(1 / 1.5); break;
      case "0": diagram.fit(); break;
      case "[": diagram.pan(-120); break;
      case "]": diagram.pan(120); break;
      case "PageDown": case "PageUp":
        if (target.closest(".side")) return;
        diagram.scroll(event.key === "PageDown" ? 150 : -150);
        break;
      case "c": toggleCut(); break;
      case "a": if (moment && actions) openMenu(holder, actions.moment(moment), texts.interfere.moment); break;
      case "Enter": if (onButton || !moment || moment.events[1] <= moment.events[0]) return; void select(moment.events[0]); break;
      case "Escape": if (element.classList.contains("side-open")) openSide(false); else if (selected >= 0) void select(null); else return; break;
      default: return;
    }
    event.preventDefault();
  }
  const keys = options.wholePage ? document : element;
  keys.addEventListener("keydown", /** @type {EventListener} */ (onKey));

  drawLegend();
  scaleChoice.value = diagram.scaleName;
  diagram.setMoment(at);
  drawTransport();
  void load();

  return {
    element, diagram,
    moment: () => at,
    /** What the state panel shows, once it is there. */
    state: () => moment,
    model: () => model,
    goTo, select, toggleCut, showTab,
    /** Where the panel lies over the picture, it is put away. */
    closeSide() {
      if (element.classList.contains("side-open")) openSide(false);
    },
    /** @param {"time" | "depth"} name */
    setScale(name) {
      scaleChoice.value = name;
      diagram.setScale(name);
    },
    /** Words that are explained where they stand. @param {import("./words.js").Words | null} next */
    setWords(next) {
      words = next;
      if (moment) drawMoment();
    },
    play: toggle,
    /** @param {import("../types.js").Source} next @param {number} [moment2] @param {boolean} [keepView] */
    async setSource(next, moment2, keepView = false) {
      const index = await next.index();
      generation++;
      toggle(false);
      source = next;
      model = createModel(next.summary, index);
      actions = options.actions?.(next.summary);
      notes = options.notes ?? notesOf(next.summary);
      at = Math.max(0, Math.min(moment2 ?? model.index.steps, model.index.steps));
      shown = -1;
      loading = false;
      pages.clear();
      cut = null;
      verdict = null;
      cutPanel.hidden = true;
      cutButton.setAttribute("aria-pressed", "false");
      cutButton.textContent = texts.cut.show;
      selected = -1;
      selection.hidden = true;
      events.reset();
      diagram.setModel(model, at, keepView);
      scaleChoice.value = diagram.scaleName;
      drawLegend();
      drawTransport();
      await load();
    },
    unmount() {
      generation++;
      cancelAnimationFrame(playing);
      playing = 0;
      keys.removeEventListener("keydown", /** @type {EventListener} */ (onKey));
      stopTheme();
      diagram.destroy();
      element.remove();
    },
  };
}

/** What a script says, at its moments. @param {import("../types.js").Summary} summary */
function notesOf({ blocks }) {
  return (blocks ?? []).filter(({ comments }) => comments.length).map(({ from, comments }) => ({ at: from, text: comments.join(" ") }));
}
