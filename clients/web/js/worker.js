// The worker: holds the keys, computes and sends, so that the page never waits for a computation.

import { hasVectors, Operations } from "./device.js";
import { toFields } from "./errors.js";

/** What the page may ask for. */
const OPERATIONS = ["open", "memory", "connect", "create", "bandit", "bandits", "status", "delete", "decide", "feedback", "raise", "free"];

const aborts = new Map();
let operations;

async function start() {
  const name = hasVectors() ? "simd128" : "portable";
  const device = await import(`../pkg/${name}.js`);
  await device.default({ module_or_path: new URL(`../pkg/${name}_bg.wasm`, import.meta.url) });
  const exchange = (client, { sent, received, ...rest }) => {
    const bytes = (body) => (typeof body === "string" ? new TextEncoder().encode(body) : body ?? new Uint8Array());
    const [up, down] = [bytes(sent), bytes(received)];
    // The first bytes are enough to look at; all of them would be megabytes.
    const part = (body) => ({ bytes: body.length, first: body.slice(0, 256) });
    postMessage({ exchange: { ...rest, sent: part(up), received: part(down) }, client });
  };
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
    // No copy of a memory stays here.
    postMessage({ id, result }, operation === "memory" && result ? [result.buffer] : []);
  } catch (error) {
    // A panic of the module ends in this error; its memory cannot be relied on any more.
    const broken = error instanceof WebAssembly.RuntimeError;
    postMessage({ id, error: toFields(error), broken });
    if (broken) close();
  } finally {
    aborts.delete(id);
  }
});
