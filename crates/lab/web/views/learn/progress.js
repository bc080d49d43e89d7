// @ts-check
// What the reader has solved. It stays in this browser; where the browser keeps nothing, it lasts as long as the page.

const KEY = "conclave-lab.solved";
/** @type {Set<string> | null} */
let solved = null;

function known() {
  if (solved) return solved;
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    solved = new Set(Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : []);
  } catch {
    solved = new Set();
  }
  return solved;
}

function keep() {
  try {
    localStorage.setItem(KEY, JSON.stringify([...known()]));
  } catch {
    // A browser that keeps nothing is no reason to stop.
  }
}

/** @param {string} lesson @param {string} exercise */
export function isSolved(lesson, exercise) {
  return known().has(`${lesson}/${exercise}`);
}

/** @param {string} lesson @param {string} exercise */
export function markSolved(lesson, exercise) {
  known().add(`${lesson}/${exercise}`);
  keep();
}

export function forgetProgress() {
  known().clear();
  keep();
}
