// @ts-check
// What can be done to a run at a moment: each choice is a fork.

import { texts } from "../texts.js";
import { ask } from "./palette.js";

const say = texts.interfere;

/**
 * @param {(fork: import("../types.js").Fork) => void} fork @param {{ checkHere(): void, share(): void, undo(): void, canUndo(): boolean, at(): number }} more
 * @returns {import("./moment.js").Actions}
 */
export function createActions(fork, more) {
  /** @param {string} command @param {"follow" | "settle" | "stop"} [then] */
  const run = (command, then = "follow") => fork({ at: more.at(), do: [command], then });
  /** @param {string} label @param {string} command */
  const item = (label, command) => ({ label: label === command ? command : `${label}  (${command})`, run: () => run(command) });

  return {
    command: (command) => run(command),
    message(flying) {
      const items = [];
      if (flying.deliverable && flying.deliver) items.push(item(say.deliver, flying.deliver));
      if (flying.drop) items.push(item(say.drop, flying.drop));
      if (flying.duplicate) items.push(item(say.duplicate, flying.duplicate));
      items.push(
        { label: `${say.delay}…`, run: () => ask(say.delaySteps, "10", (text) => fork({ at: more.at(), do: [], then: "follow", delay: [{ message: flying.name, steps: Math.max(1, Number.parseInt(text, 10) || 1) }] })) },
        { label: say.hold, run: () => fork({ at: more.at(), do: [], then: "follow", delay: [{ message: flying.name }] }) });
      return items;
    },
    process(process, moment) {
      const items = process.requests.map((request) => item(say.ask, request));
      for (const { process: id, command } of moment.timers) if (id === process.id) items.push(item(say.fire, command));
      const known = new Set([...process.requests, ...moment.timers.map(({ command }) => command)]);
      const labels = /** @type {Record<string, string>} */ ({ crash: say.crash, restart: say.restartDurable, suspect: say.suspect, trust: say.trust });
      for (const command of moment.commands) {
        const [verb, id] = command.split(" ");
        if (id !== String(process.id) || known.has(command)) continue;
        items.push(item(command.endsWith("amnesia") ? say.restart : labels[verb] ?? command, command));
      }
      if (process.presence === "up") items.push({ label: say.crashAfter, run: () => ask(say.crashSends, "1", (text) => run(`crash ${process.id} after ${Math.max(0, Number.parseInt(text, 10) || 0)}`)) });
      return items;
    },
    moment(moment) {
      return [
        { label: say.settle, run: () => fork({ at: more.at(), do: [], then: "settle" }) },
        { label: say.check, run: more.checkHere },
        { label: texts.run.share, run: more.share },
        { label: `${say.command}…`, run: () => ask(say.command, moment.commands[0] ?? "", (text, then) => run(text, /** @type {"follow" | "settle" | "stop"} */ (then)), { label: say.then, values: [["follow", say.thenFollow], ["settle", say.thenSettle], ["stop", say.thenStop]] }) },
        ...(more.canUndo() ? [{ label: say.undo, run: more.undo }] : []),
        ...moment.commands.slice(0, 40).map((command) => ({ label: command, run: () => run(command) })),
      ];
    },
  };
}
