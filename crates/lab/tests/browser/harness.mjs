// Starts the lab and a browser for the tests, and watches both: an error in the console, a request to another host, or a refused style or
// script fails the test that caused it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
export const root = resolve(here, "../../../..");
const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
export const binary = process.env.CONCLAVE ?? join(target, "debug", "conclave");
export const screenshots = join(target, "lab-screenshots");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** How long to wait for anything: a loaded machine is slow, and a test that passes never waits so long. */
export const PATIENCE = Number(process.env.LAB_PATIENCE ?? 60_000);
/** Measured times are asserted with this much slack, for machines that do other things meanwhile. */
export const SLACK = Number(process.env.LAB_SLACK ?? 8);

const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"];

/** Runs the command line and gives what it printed. */
export function conclave(args, input = "") {
  return new Promise((done, fail) => {
    const child = spawn(binary, args, { stdio: ["pipe", "pipe", "pipe"] });
    const out = [];
    const err = [];
    child.stdout.on("data", (piece) => out.push(piece));
    child.stderr.on("data", (piece) => err.push(piece));
    child.on("error", fail);
    child.on("close", (code) => done({ code, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() }));
    child.stdin.end(input);
  });
}

/** A lab of its own and a browser of its own. */
export async function startLab() {
  // Who changes the page serves it from the disk, and need not build.
  const web = process.env.LAB_WEB ? ["--web", process.env.LAB_WEB] : [];
  const server = spawn(binary, ["lab", "--no-open", "--listen", "127.0.0.1:0", ...web], { stdio: ["ignore", "pipe", "pipe"] });
  const said = [];
  const address = await new Promise((done, fail) => {
    for (const stream of [server.stdout, server.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        said.push(line);
        const found = /http:\/\/\S+/.exec(line);
        if (found) done(found[0].replace(/\/?$/, "/"));
      });
    }
    server.on("error", fail);
    server.on("exit", (code) => fail(new Error(`the lab ended with ${code}: ${said.join("\n")}`)));
    setTimeout(() => fail(new Error(`the lab said no address: ${said.join("\n")}`)), PATIENCE).unref();
  });
  const browser = await startBrowser();

  return {
    address, browser,
    /** A page that has opened `route`. */
    async page({ route = "", width = 1280, height = 800, theme = "light", motion = "reduce", offline = false } = {}) {
      return openPage(browser, `${address}${route ? `#${route}` : ""}`, { width, height, theme, motion, offline, own: new URL(address).origin });
    },
    async stop() {
      await browser.close();
      server.removeAllListeners("exit");
      if (server.exitCode !== null || server.signalCode !== null) return;
      const ended = new Promise((done) => server.once("exit", done));
      server.kill("SIGTERM");
      await ended;
    },
  };
}

/** Chromium with a profile of its own, that is removed with it. */
export async function startBrowser() {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS, timeout: PATIENCE });
  return browser;
}

/** Opens an address and watches what the page does. */
export async function openPage(browser, address, { width, height, theme, motion = "reduce", offline = false, own }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: motion, offline, acceptDownloads: true });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => {
    // Tests read pixels back; the page does not.
    if (message.text().includes("willReadFrequently")) return;
    if (message.type() === "error" || message.type() === "warning") faults.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`exception: ${error.stack ?? error}`));
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== own && protocol !== "data:" && protocol !== "blob:" && protocol !== "file:") faults.push(`a request to ${request.url()}`);
  });
  await page.goto(address);
  return Object.assign(page, {
    faults,
    /** Answers of refusals are errors in the console as well: a test that provokes one takes them out. */
    expectFault(pattern) {
      const at = faults.findIndex((fault) => pattern.test(fault));
      assert.ok(at >= 0, `no fault like ${pattern}: ${faults.join("\n")}`);
      faults.splice(at, 1);
    },
    async done() {
      assert.deepEqual(faults, [], "the page made errors");
      await context.close();
    },
  });
}

/** Waits until `what` gives something true, asking again and again. */
export async function until(what, sentence) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const value = await what();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`never: ${sentence}`);
    await new Promise((again) => setTimeout(again, 20));
  }
}

/** Fails on what axe calls serious or critical. */
export async function accessible(page, name) {
  // In an isolated world, so that the policy of the page stays as it is.
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
  await session.send("Runtime.evaluate", { expression: axe, contextId: executionContextId });
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
    contextId: executionContextId, awaitPromise: true, returnByValue: true,
    expression: `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations.filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, help, nodes }) => id + ": " + help + " – " + nodes.slice(0, 4).map(({ html, any, all }) => html.slice(0, 160) + " " + [...any, ...all].map(({ message }) => message).join(" ").slice(0, 200)).join(" | ")))`,
  });
  await session.detach();
  assert.equal(exceptionDetails, undefined, `axe failed on ${name}: ${JSON.stringify(exceptionDetails)}`);
  assert.deepEqual(result.value, [], `${name} is not accessible`);
}

/** Keeps a picture for a person to look at. */
export async function screenshot(page, name) {
  mkdirSync(screenshots, { recursive: true });
  await page.screenshot({ path: join(screenshots, `${name}.png`), animations: "disabled" });
}

/** A directory for one test. */
export function scratch() {
  const path = mkdtempSync(join(tmpdir(), "conclave-lab-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** The text of a recipe in an address. */
export function encode(value) {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
export const runRoute = (recipe, at) => `/run/${encode(at === undefined ? { recipe } : { recipe, at })}`;
