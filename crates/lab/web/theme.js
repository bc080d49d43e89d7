// @ts-check
// Light and dark: what the system says, unless the reader has chosen.

const KEY = "conclave-lab-theme";

/** @returns {"auto" | "light" | "dark"} */
export function chosenTheme() {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "auto";
  } catch {
    return "auto";
  }
}

/** @returns {"light" | "dark"} */
export function currentTheme() {
  const chosen = chosenTheme();
  if (chosen !== "auto") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function applyTheme() {
  const chosen = chosenTheme();
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

/** @param {string} theme */
export function chooseTheme(theme) {
  try {
    if (theme === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // A page without storage keeps the theme of the system.
  }
  applyTheme();
  for (const listener of listeners) listener();
}

/** @type {Set<() => void>} */
const listeners = new Set();

/** @param {() => void} listener @returns {() => void} stops listening */
export function onTheme(listener) {
  const media = matchMedia("(prefers-color-scheme: dark)");
  listeners.add(listener);
  media.addEventListener("change", listener);
  return () => {
    listeners.delete(listener);
    media.removeEventListener("change", listener);
  };
}
