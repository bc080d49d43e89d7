// @ts-check
// Elements without a framework and without innerHTML: text is always text.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, any>} Attributes */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {Element} E
 * @param {E} element @param {string} classes @param {Attributes | null | undefined} attributes @param {(Child | Child[])[]} children
 * @returns {E}
 */
function fill(element, classes, attributes, children) {
  if (classes) element.setAttribute("class", classes);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "selected") /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

/**
 * An HTML element: `h("button.primary", { type: "button", onclick }, "Run")`. An attribute that is null or false is left out.
 * @param {string} name @param {Attributes | null} [attributes] @param {...(Child | Child[])} children
 * @returns {any}
 */
export function h(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  return fill(document.createElement(tag), classes.join(" "), attributes, children);
}

/**
 * An SVG element, in the same way.
 * @param {string} name @param {Attributes | null} [attributes] @param {...(Child | Child[])} children
 * @returns {any}
 */
export function svg(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  return fill(document.createElementNS(SVG, tag), classes.join(" "), attributes, children);
}

/** @param {Child | Child[]} label @param {(event: Event) => void} onclick @param {Attributes} [attributes] */
export function button(label, onclick, attributes = {}) {
  const { class: classes, ...rest } = attributes;
  return h(`button${classes ? `.${String(classes).split(" ").join(".")}` : ""}`, { type: "button", onclick, ...rest }, label);
}

/** @param {Element} element @param {...(Child | Child[])} children */
export function replace(element, ...children) {
  element.replaceChildren();
  fill(element, "", null, children);
}

/**
 * Calls `what` at most once per frame, however often it is asked for.
 * @param {() => void} what
 */
export function oncePerFrame(what) {
  let asked = 0;
  const ask = () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      what();
    });
  };
  ask.cancel = () => {
    cancelAnimationFrame(asked);
    asked = 0;
  };
  return ask;
}

/**
 * Saves a file on the reader's machine.
 * @param {string} name @param {Blob} blob
 */
export function save(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
