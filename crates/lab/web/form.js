// @ts-check
// A form for the options of a command, built from their definition (`GET api/v1/options`).

import { h } from "./dom.js";
import { texts } from "./texts.js";

/** @typedef {import("./types.js").Option} FormOption */
/** @typedef {import("./types.js").Values} FormValues */
/** @typedef {{ element: HTMLElement, values(): FormValues, set(values: FormValues): void, onChange: (() => void) | null }} Form */

let nextId = 0;

/** @param {FormOption} def @returns {{ row: HTMLElement, get(): FormValues[string], set(value: FormValues[string] | undefined): void }} */
function field(def) {
  const id = `option-${nextId++}`;
  const help = h("small", { id: `${id}-help` }, def.help);
  const common = { id, name: def.name, "aria-describedby": `${id}-help` };
  const label = h("label", { for: id }, h("code", null, def.option));
  if (def.kind === "flag") {
    const box = h("input", { ...common, type: "checkbox" });
    return { row: h("div.field.flag", null, box, label, help), get: () => (box.checked ? true : null), set: (value) => { box.checked = value === true || value === "true"; } };
  }
  if (def.kind === "choice" && !def.repeat) {
    const select = h("select", common, h("option", { value: "" }, def.default ?? texts.form.none),
      def.values.filter((value) => value.name !== def.default).map((value) => h("option", { value: value.name, title: value.help }, value.name)));
    return { row: h("div.field", null, label, select, help), get: () => select.value || null, set: (value) => { select.value = value === def.default ? "" : String(value ?? ""); } };
  }
  if (def.repeat) {
    const area = h("textarea", { ...common, rows: 1, placeholder: def.value || texts.form.several, title: texts.form.several, spellcheck: "false" });
    return {
      row: h("div.field", null, label, area, help),
      get: () => { const lines = area.value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean); return lines.length ? lines : null; },
      set: (value) => { area.value = (Array.isArray(value) ? value : value === null || value === undefined ? [] : [value]).join("\n"); area.rows = Math.max(1, area.value.split("\n").length); },
    };
  }
  const input = h("input", { ...common, type: "text", inputmode: def.kind === "number" ? "numeric" : null, placeholder: def.default ?? def.value, spellcheck: "false", autocomplete: "off" });
  return { row: h("div.field", null, label, input, help), get: () => input.value.trim() || null, set: (value) => { input.value = value === null || value === undefined ? "" : String(value); } };
}

/**
 * @param {FormOption[]} defs @param {FormValues} [values]
 * @param {{ family?: string, settings?: { name: string, values: string, default: string, idea: string }[], hide?: string[] }} [context]
 * @returns {Form}
 */
export function createForm(defs, values = {}, { family, settings = [], hide = [] } = {}) {
  /** @type {Map<string, ReturnType<typeof field>>} */
  const fields = new Map();
  /** @type {Map<string, HTMLElement>} */
  const groups = new Map();
  const element = h("div.options");
  const wide = h("details.wide", null, h("summary", null, texts.form.more));
  for (const def of defs) {
    if (hide.includes(def.name) || (family && def.families && !def.families.includes(family))) continue;
    const made = field(def);
    fields.set(def.name, made);
    const key = `${def.group}${def.wide ? " wide" : ""}`;
    /** @type {HTMLElement} */
    const group = groups.get(key) ?? h("fieldset", null, h("legend", null, def.group));
    if (!groups.has(key)) {
      groups.set(key, group);
      (def.wide ? wide : element).append(group);
    }
    group.append(made.row);
  }
  /** @type {Map<string, { get(): string | null, set(value: string): void }>} */
  const dials = new Map();
  if (settings.length && fields.has("set")) {
    const group = h("fieldset", null, h("legend", null, texts.form.settings));
    for (const setting of settings) {
      const id = `option-${nextId++}`;
      const input = h("input", { id, type: "text", placeholder: setting.default, "aria-describedby": `${id}-help`, spellcheck: "false", autocomplete: "off" });
      group.append(h("div.field", null, h("label", { for: id }, h("code", null, setting.name)), input, h("small", { id: `${id}-help` }, `${setting.idea} (${setting.values})`)));
      dials.set(setting.name, { get: () => input.value.trim() || null, set: (value) => { input.value = value; } });
    }
    element.append(group);
    const plain = fields.get("set")?.row;
    const around = plain?.parentElement;
    plain?.remove();
    if (around?.children.length === 1) around.remove();
  }
  if (wide.children.length > 1) element.append(wide);

  /** @type {Form} */
  const form = {
    element, onChange: null,
    values() {
      /** @type {FormValues} */
      const result = {};
      for (const [name, { get }] of fields) {
        const value = get();
        if (value !== null) result[name] = value;
      }
      if (dials.size) {
        const set = [...dials].flatMap(([name, dial]) => { const value = dial.get(); return value === null ? [] : [`${name}=${value}`]; });
        if (set.length) result.set = set;
        else delete result.set;
      }
      return result;
    },
    set(given) {
      for (const [name, { set }] of fields) set(given[name]);
      for (const [, dial] of dials) dial.set("");
      for (const one of Array.isArray(given.set) ? given.set : given.set ? [String(given.set)] : []) {
        const [name, ...rest] = String(one).split("=");
        dials.get(name)?.set(rest.join("="));
      }
    },
  };
  element.addEventListener("change", () => form.onChange?.());
  form.set(values);
  return form;
}
