// @ts-check
// What the view Live says.

export const liveTexts = {
  heading: "Live",
  intro: "Real processes on this machine, which talk over sockets. Lock something, kill somebody, cut the network, and look at what happened as a run.",
  start: "Start a cluster", algorithm: "Algorithm", processes: "Processes", options: "Options", begin: "Start", starting: "Starting…",
  clusters: "Clusters of this lab", none: "None is running.", show: (/** @type {string} */ name) => `Show ${name}`,
  stop: "Stop the cluster", stopped: "The cluster is stopped.", gone: "This cluster has ended.",
  up: (/** @type {number} */ seconds) => `up for ${seconds} s`,
  table: "Processes", process: "Process", state: "State", phase: "Phase", locks: "Locks", messages: "Messages", suspects: "Suspects", actions: "Actions", address: "Address",
  kill: "kill", restart: "restart", pause: "pause", resume: "resume", doTo: (/** @type {string} */ verb, /** @type {number} */ id) => `${verb} p${id}`,
  holder: "holds", waits: "waits for",
  locking: "Locks", lock: "Lock", lockName: "Name of the lock", via: "via process", unlock: "unlock", noHolds: "Nothing was asked for yet.",
  elect: "Elect", elections: "Election", ask: "Ask", asking: "Ask a process", wordsFor: "Words, as in scripts", word: "Words",
  hold: (/** @type {any} */ hold) => `${hold.lock} via p${hold.via}: ${hold.state}${hold.fence ? `, fence ${hold.fence}` : ""}`,
  network: "Network", groups: "Groups", groupsHint: "1,2/3", cut: "Cut", heal: "Heal", cuts: (/** @type {string[]} */ cuts) => (cuts.length ? `cut: ${cuts.join(" and ")}` : "whole"),
  trace: "Open the trace as a run", said: "What came of it", ring: "The processes and their state",
};
