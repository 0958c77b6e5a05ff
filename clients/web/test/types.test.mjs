// The types of the package name what the package exports.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as exported from "../js/index.js";

test("every exported class is declared", () => {
  const declared = readFileSync(new URL("../js/index.d.ts", import.meta.url), "utf8");
  const classes = [...declared.matchAll(/^export class (\w+)/gm)].map(([, name]) => name);
  const public_ = Object.keys(exported).filter((name) => /^[A-Z]/.test(name));
  assert.deepEqual(classes.sort(), public_.sort());
});
