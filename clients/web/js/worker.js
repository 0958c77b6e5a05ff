// The worker: holds the keys, computes and sends, so that the page never waits for a computation.

import * as portable from "../pkg/portable.js";
import * as simd128 from "../pkg/simd128.js";
import { hasVectors, Operations } from "./device.js";
import { toFields } from "./errors.js";
import { observed } from "./http.js";

// Literal addresses, which bundlers find and rewrite. One of the modules is fetched.
const addresses = {
  portable: () => new URL("../pkg/portable_bg.wasm", import.meta.url),
  simd128: () => new URL("../pkg/simd128_bg.wasm", import.meta.url),
};

/** What the page may ask for. */
const OPERATIONS = [
  "open", "connect", "create", "bandit", "bandits", "policies", "status", "relabel", "copy", "model", "freeze", "delete", "decide", "feedback", "erase", "counters",
  "raise", "readTransform", "learnTransform", "rows", "reward", "transformText", "freeTransform", "free",
];

const aborts = new Map();
let operations;

async function start() {
  const [device, address] = hasVectors() ? [simd128, addresses.simd128()] : [portable, addresses.portable()];
  await device.default({ module_or_path: address });
  const exchange = (client, told) => postMessage({ exchange: observed(told), client });
  return new Operations(device, exchange);
}

addEventListener("message", async ({ data: { id, operation, argument, abort } }) => {
  if (abort !== undefined) {
    aborts.get(abort)?.abort();
    return;
  }
  const controller = new AbortController();
  aborts.set(id, controller);
  try {
    if (!OPERATIONS.includes(operation)) throw new Error(`there is no operation ${operation}`);
    operations ??= start();
    const result = await (await operations)[operation](argument, controller.signal);
    postMessage({ id, result });
  } catch (error) {
    // A panic of the module ends in this error; its memory cannot be relied on any more.
    const broken = error instanceof WebAssembly.RuntimeError;
    postMessage({ id, error: toFields(error), broken });
    if (broken) close();
  } finally {
    aborts.delete(id);
  }
});
