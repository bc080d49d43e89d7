// @ts-check
// Addresses: `#/VIEW/REST`. A run is its recipe, in base64url, so that an address holds everything.

/** @param {unknown} value */
export function encode(value) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** @param {string} text @returns {any} null if it is not such a text */
export function decode(text) {
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(binary, (char) => char.charCodeAt(0))));
  } catch {
    return null;
  }
}

/** @param {string} hash @returns {{ view: string, path: string }} */
export function parseRoute(hash) {
  const [, view = "", path = ""] = /^#?\/?([^/]*)\/?(.*)$/.exec(hash) ?? [];
  return { view: view || "run", path };
}

/**
 * The route of a run at a moment.
 * @param {import("./types.js").Recipe | string} run its recipe, or the id of a live run @param {number} [at]
 */
export function runRoute(run, at) {
  const body = typeof run === "string" ? { id: run } : { recipe: run };
  return `/run/${encode(at === undefined ? body : { ...body, at })}`;
}
