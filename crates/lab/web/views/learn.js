// @ts-check
// The path of lessons, a lesson with its scenes, questions and exercises, and the pages of the algorithms.

import { button, h, replace } from "../dom.js";
import { learnTexts } from "../texts/learn.js";
import { algorithmPage } from "./learn/algorithm.js";
import { forgetProgress, isSolved, markSolved } from "./learn/progress.js";
import { mountWorkbench } from "./learn/workbench.js";

/** @typedef {import("../types.js").App} App */

/** @param {string} part of an address that somebody may have typed */
function plain(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {HTMLElement} root @param {App} app @param {string} path */
export async function mount(root, app, path) {
  const words = learnTexts;
  const page = h("div.page.learn");
  root.append(page);
  /** @type {{ unmount(): void, opener: HTMLButtonElement, place: HTMLElement } | null} */
  let open = null;
  let turn = 0;

  function close() {
    if (!open) return;
    open.unmount();
    label(open.opener, false);
    replace(open.place);
    open = null;
  }

  /** @param {HTMLButtonElement} opener @param {boolean} isOpen */
  function label(opener, isOpen) {
    opener.dataset.closed ??= opener.textContent ?? "";
    const about = opener.getAttribute("aria-label")?.replace(/^[^:]*/, "") ?? "";
    opener.textContent = isOpen ? words.close : opener.dataset.closed;
    opener.setAttribute("aria-label", `${opener.textContent}${about}`);
    opener.setAttribute("aria-expanded", String(isOpen));
  }

  /**
   * One picture is open at a time; its opener closes it again.
   * @param {HTMLElement} place @param {HTMLButtonElement} opener @param {(inner: HTMLElement) => Promise<{ unmount(): void }>} make
   */
  async function toggle(place, opener, make) {
    const was = open?.opener;
    close();
    if (was === opener) return;
    const mine = { unmount() {}, opener, place };
    open = mine;
    label(opener, true);
    const inner = h("div");
    replace(place, inner);
    try {
      const made = await make(inner);
      if (open === mine) mine.unmount = () => made.unmount();
      else made.unmount();
    } catch (error) {
      if (open === mine) close();
      app.fail(error);
    }
  }

  const tools = {
    /** @param {HTMLElement} place @param {HTMLButtonElement} opener @param {any} recipe @param {{ at: number, text: string }[]} notes */
    scene: (place, opener, recipe, notes) => toggle(place, opener, async (inner) => {
      const run = await app.api.post("runs", recipe);
      const holder = h("div.scene-stage");
      inner.append(h("div.row.scene-head", null, h("span.hint.grow", null, words.sceneKeys), button(words.openInRun, () => app.openRun(run, 0))), holder);
      const said = notes.length ? notes : (run.blocks ?? []).flatMap((/** @type {any} */ block) => (block.comments.length ? [{ at: block.from, text: block.comments.join(" ") }] : []));
      return app.stage(holder, run, { at: said[0]?.at ?? 0, compact: true, notes: said, onAt() {}, onSelect() {} });
    }),
    /** @param {HTMLElement} place @param {HTMLButtonElement} opener @param {any} task */
    workbench: (place, opener, task) => toggle(place, opener, async (inner) => {
      inner.append(h("p", null, task.task));
      return mountWorkbench(inner, app, task);
    }),
  };

  async function overview() {
    const [{ lessons }, catalogue] = await Promise.all([app.api.get("lessons"), app.catalogue()]);
    const item = (/** @type {any} */ lesson) => {
      const done = lesson.tasks.filter((/** @type {string} */ task) => isSolved(lesson.name, task)).length;
      const all = lesson.tasks.length;
      return h(`li.station${done === all ? ".complete" : ""}`, null,
        h("span.number", { "aria-hidden": "true" }, done === all ? "✓" : lesson.station),
        h("div", null, h("a", { href: `#/learn/lesson/${lesson.name}` }, h("span.visually-hidden", null, `${words.station(lesson.station)}: `), lesson.title),
          h("p", null, lesson.idea), h("small", null, words.solved(done, all))));
    };
    const family = (/** @type {any} */ one) => h("div.family", null, h("h3", null, one.title),
      h("ul.plain", null, one.algorithms.map((/** @type {string} */ name) => {
        const algorithm = catalogue.algorithms.find((/** @type {any} */ other) => other.name === name);
        return algorithm ? h("li", null, h("a", { href: `#/learn/algorithm/${name}` }, algorithm.title), h("small", null, ` ${algorithm.idea}`)) : null;
      })));
    return [h("h1", null, words.heading), h("p", null, words.intro),
      h("section", { "aria-label": words.path }, h("h2", null, words.path), h("ol.plain.stations", null, lessons.map(item)),
        h("p.hint.row", null, words.kept, button(words.forget, () => { forgetProgress(); app.announce(words.forgotten); void navigate(""); }, { class: "quiet" }))),
      h("section", { "aria-label": words.algorithms }, h("h2", null, words.algorithms), h("p.hint", null, words.algorithmsIntro), h("div.families", null, catalogue.families.map(family)))];
  }

  /** @param {string} name */
  async function lessonPage(name) {
    const [{ lessons }, lesson] = await Promise.all([app.api.get("lessons"), app.api.get(`lessons/${encodeURIComponent(name)}`)]);
    const place = lessons.findIndex((/** @type {any} */ one) => one.name === name);
    const [before, after] = [lessons[place - 1], lessons[place + 1]];
    const scene = (/** @type {any} */ one) => {
      const spot = h("div.place");
      /** @type {any} */
      const opener = button(words.play, () => tools.scene(spot, opener, one.recipe, one.notes), { "aria-expanded": "false", "aria-label": `${words.play}: ${one.title}` });
      return h("li.card", null, h("div.row", null, h("strong.grow", null, one.title), opener), spot);
    };
    const question = (/** @type {any} */ one, /** @type {number} */ number) => {
      const said = h("p", { role: "status" });
      const group = h("fieldset.question", null, h("legend", null, one.text), one.answers.map((/** @type {string} */ answer, /** @type {number} */ at) =>
        h("label.answer", null, h("input", { type: "radio", name: `question-${name}-${number}`, onchange: () => {
          const right = at === one.right;
          said.className = right ? "good" : "bad";
          replace(said, h("strong", null, `${right ? `✓ ${words.right}` : `✗ ${words.wrong}`} `), right ? one.why : "");
        } }), answer)), said);
      return h("li.card", null, group);
    };
    const exercise = (/** @type {any} */ one) => {
      const spot = h("div.place");
      const mark = h("span.chip", { hidden: !isSolved(name, one.name) }, `✓ ${words.solvedBefore}`);
      const task = {
        task: `${words.goal}: ${one.goal}.`,
        recipe: one.recipe,
        judge: (/** @type {any} */ run) => app.api.post(`lessons/${encodeURIComponent(name)}/judge`, { exercise: one.name, run: run.id }),
        onSolved() {
          markSolved(name, one.name);
          mark.hidden = false;
        },
      };
      /** @type {any} */
      const opener = button(words.start, () => tools.workbench(spot, opener, task), { "aria-expanded": "false", "aria-label": `${words.start}: ${one.task}` });
      return h("li.card", { "data-exercise": one.name }, h("div.row", null, h("p.grow", null, one.task), mark, opener), h("details", null, h("summary", null, words.hint), h("p", null, one.hint)), spot);
    };
    const catalogue = await app.catalogue();
    const titles = new Map(catalogue.algorithms.map((/** @type {any} */ one) => [one.name, one.title]));
    return [h("article.lesson", null, h("p", null, h("a", { href: "#/learn" }, `← ${words.back}`)),
      h("p.soft", null, words.station(lesson.station)), h("h1", null, lesson.title), h("p.idea", null, lesson.idea),
      lesson.text.map((/** @type {string} */ paragraph) => h("p.reading", null, paragraph)),
      h("section", { "aria-label": words.scenes }, h("h2", null, words.scenes), h("ul.plain", null, lesson.scenes.map(scene))),
      h("section", { "aria-label": words.questions }, h("h2", null, words.questions), h("ul.plain", null, lesson.questions.map(question))),
      h("section", { "aria-label": words.exercises }, h("h2", null, words.exercises), h("ul.plain", null, lesson.exercises.map(exercise))),
      h("p", null, `${words.algorithms}: `, lesson.algorithms.map((/** @type {string} */ one, /** @type {number} */ at) => [at ? ", " : "", h("a", { href: `#/learn/algorithm/${one}` }, titles.get(one) ?? one)]).flat()),
      h("nav.row", { "aria-label": words.path }, before ? h("a", { href: `#/learn/lesson/${before.name}` }, `← ${words.previous(before.title)}`) : null, h("span.grow"),
        after ? h("a", { href: `#/learn/lesson/${after.name}` }, `${words.next(after.title)} →`) : null))];
  }

  /** @param {string} name */
  async function onAlgorithm(name) {
    const catalogue = await app.catalogue();
    const algorithm = catalogue.algorithms.find((/** @type {any} */ one) => one.name === name);
    return [algorithm ? await algorithmPage(app, catalogue, algorithm, tools) : h("p.empty", null, words.noSuch)];
  }

  /** @param {string} to */
  async function navigate(to) {
    const mine = ++turn;
    close();
    try {
      const [kind, name = ""] = to.split("/").map(plain);
      const shown = kind === "lesson" ? await lessonPage(name) : kind === "algorithm" ? await onAlgorithm(name) : await overview();
      if (mine !== turn) return;
      replace(page, shown);
      scrollTo(0, 0);
      if (kind === "lesson") /** @type {HTMLButtonElement | null} */ (page.querySelector("button[aria-expanded]"))?.click();
    } catch (error) {
      if (mine === turn) app.fail(error);
    }
  }

  await navigate(path);
  return {
    navigate: (/** @type {string} */ to) => { void navigate(to); },
    unmount() {
      turn += 1;
      close();
      page.remove();
    },
  };
}
