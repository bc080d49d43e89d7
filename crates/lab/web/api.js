// @ts-check
// The API of docs/lab-api.md, relative to the page.

/** A refusal of the server, with a sentence for people and a hint. */
export class Refusal extends Error {
  /** @param {number} status @param {{ code?: string, sentence?: string, hint?: string, cost?: Record<string, number> }} body */
  constructor(status, body) {
    super(body.sentence ?? `the lab answered ${status}`);
    this.status = status;
    this.code = body.code ?? "internal";
    this.sentence = this.message;
    this.hint = body.hint ?? "";
    this.cost = body.cost ?? null;
  }
}

/** @param {string} path */
export function address(path) {
  return new URL(`api/v1${path ? "/" : ""}${path.replace(/^\//, "")}`, document.baseURI).href;
}

/** @param {string} unreachable what to say when nobody answers @param {string} unreachableHint */
export function createApi(unreachable, unreachableHint) {
  /** @param {string} method @param {string} path @param {unknown} [body] @param {AbortSignal} [signal] @returns {Promise<any>} */
  async function call(method, path, body, signal) {
    let answer;
    try {
      answer = await fetch(address(path), {
        method, signal: signal ?? null, credentials: "same-origin",
        ...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
      });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new Refusal(0, { code: "unreachable", sentence: unreachable, hint: unreachableHint });
    }
    const text = await answer.text();
    let json = null;
    try {
      json = text ? JSON.parse(text) : null;
    } catch {
      if (answer.ok) return text;
    }
    if (!answer.ok) throw new Refusal(answer.status, json?.error ?? {});
    return json;
  }

  return {
    /** @param {string} path @param {AbortSignal} [signal] */
    get: (path, signal) => call("GET", path, undefined, signal),
    /** @param {string} path @param {unknown} body @param {AbortSignal} [signal] */
    post: (path, body, signal) => call("POST", path, body, signal),
    /** @param {string} path */
    del: (path) => call("DELETE", path),
    /**
     * A stream of server-sent events, by name: `stream("jobs/j1/events", { progress, done, stopped, failed })`. It ends by itself after one of the
     * last three. Closing it ends the job.
     * @param {string} path @param {Record<string, (data: any) => void>} handlers `error` is called when the connection is lost
     */
    stream(path, handlers) {
      const source = new EventSource(address(path));
      const names = new Set([...Object.keys(handlers), "done", "stopped", "failed"]);
      names.delete("error");
      for (const name of names) {
        source.addEventListener(name, (event) => {
          const last = name === "done" || name === "stopped" || name === "failed";
          if (last) source.close();
          handlers[name]?.(JSON.parse(/** @type {MessageEvent} */ (event).data));
        });
      }
      source.onerror = () => {
        source.close();
        handlers.error?.(new Refusal(0, { code: "unreachable", sentence: unreachable, hint: unreachableHint }));
      };
      return { close: () => source.close() };
    },
  };
}
