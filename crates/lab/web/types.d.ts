// The shapes of docs/lab-api.md, for the checker of types. Nothing of this is loaded by a browser.

export type Option = {
  name: string; option: string; value: string; help: string; group: string; kind: "flag" | "choice" | "number" | "text"; repeat: boolean;
  default: string | null; values: { name: string; help: string }[]; families: string[] | null; wide?: boolean;
};
export type Values = Record<string, string | number | boolean | string[] | null>;
export type Fork = { at: number; do?: string[]; then?: "follow" | "stop" | "settle"; delay?: { message: string; steps?: number }[] };
export type Recipe = { algorithm?: string; options?: Values; script?: string; example?: string; forks?: Fork[]; delay?: unknown };
export type Property = { property: string; state: "held" | "broken" | "open" | "not_judged"; detail: string; statement: string; promised: boolean };
export type Summary = {
  id: string; recipe: Recipe | null; kind: "sim" | "script" | "live"; algorithm: string; title: string; family: string; setup: string; command: string;
  processes: { id: number; name: string; joins: boolean }[]; events: number; steps: number; time: number; seed: number | null; channels: string;
  settings: Record<string, string>; mutant: string | null; locks: number; violation: { property: string; detail: string; step: number } | null;
  properties: Property[]; report: any; parent: string | null; fork: { at: number; do?: string[]; skipped: number } | null;
  point_of_no_return: number | null; blocks: { from: number; to: number; comments: string[]; recorded: string[] }[] | null;
};
export type Index = {
  events: number; steps: number; depth_max: number; time_max: number; kinds: string[]; messages: string[]; phases: string[];
  bands: Record<string, "quiet" | "waiting" | "holding">; time: number[]; depth: number[]; process: number[]; kind: number[]; message: number[];
  peer: number[]; cause: number[]; step: number[]; phase: number[]; step_event: number[]; step_time: number[];
};
export type EventRecord = {
  id: number; time: number; process?: number; kind: string; from?: number; to?: number; message?: string; fields?: any; text?: string; nth?: number;
  phase?: string; cause?: number; after?: number | null; lamport: number; vector?: number[]; step: number; depth: number; what: string;
};
export type InFlight = {
  from: number; to: number; message: string; text: string; fields: any; nth: number; send: number; deliverable: boolean; copy: boolean;
  deliver: string | null; drop: string | null; duplicate: string | null; name: string;
};
export type ProcessState = {
  id: number; presence: "up" | "down" | "absent" | "gone"; life: number; phase: string; band: string; changed: boolean;
  state: { name: string; value: string; before: string | null; changed: boolean }[]; requests: string[];
};
export type Waits = {
  waiters: { process: number; phase: string; since: number; silent: number[]; answering: number[]; sentence: string }[];
  holders: number[]; down: number[]; edges: [number, number][]; circle: number[] | null;
};
export type Moment = {
  at: number; steps: number; time: number; events: [number, number]; command: string | null; happened: string[]; processes: ProcessState[];
  in_flight: InFlight[]; in_flight_total?: number; timers: { process: number; timer: string; command: string }[]; properties: Property[]; violation: any; waits: Waits | null; commands: string[];
};
export type Order = { event: number; past: Record<string, number>; future: Record<string, number>; concurrent: number };
export type Cut = { consistent: boolean; sentence: string; in_flight?: number[]; arrival?: number; send?: number; channels?: { from: number; to: number; sends: number[]; messages: string[] }[] };

/** Where a stage takes its run from: a server, or the file that holds it. */
export type Source = {
  summary: Summary;
  index(): Promise<Index>;
  events(from: number, limit: number): Promise<EventRecord[]>;
  at(moment: number): Promise<Moment | null>;
  order(event: number): Promise<Order>;
  cut(frontier: Record<string, number>): Promise<Cut>;
};
export type Api = ReturnType<typeof import("./api.js").createApi>;
export type View = { unmount(): void; navigate?(path: string): void };
export type Stage = Awaited<ReturnType<typeof import("./run/stage.js").mountStage>>;
export type App = {
  api: Api; texts: typeof import("./texts.js").texts;
  go(route: string, options?: { replace?: boolean }): void;
  announce(text: string): void;
  fail(error: unknown): void;
  openRun(run: Summary | Recipe, at?: number): void;
  form(defs: Option[], values?: Values, context?: { family?: string; settings?: { name: string; values: string; default: string; idea: string }[]; hide?: string[] }): import("./form.js").Form;
  catalogue(): Promise<any>;
  optionDefs(): Promise<Record<string, Option[]>>;
  stage(root: HTMLElement, run: Summary, options?: import("./run/stage.js").StageOptions): Promise<Stage>;
  theme(): "light" | "dark";
  onTheme(listener: () => void): () => void;
};
