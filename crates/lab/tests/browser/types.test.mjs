// The types of the page are checked.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

test("the modules of the page agree in their types", () => {
  const here = dirname(fileURLToPath(import.meta.url));
  const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc");
  const { status, stdout } = spawnSync(process.execPath, [tsc, "--project", "tsconfig.json"], { cwd: here, encoding: "utf8" });
  assert.equal(status, 0, stdout);
});
