// The device in Node against a real server, and against the native device: with the same seed both send the same bytes and read the same
// arms. `PROGRAMS` is the folder of the programs, `SEEDED` that of modules that `pack -- --seeded` wrote.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Operations } from "../js/device.js";
import { program, startServer } from "./programs.mjs";

const [FEATURES, ARMS, ROUNDS] = [3, 4, 8];
const folder = mkdtempSync(join(tmpdir(), "helba-web-"));
const path = (name) => join(folder, name);
let server;

before(async () => {
  writeFileSync(path("passphrase"), "correct horse\n");
  const shape = ["create", "--features", FEATURES, "--arms", ARMS, "--toy"].map(String);
  execFileSync(program("helba-keygen"), [...shape, "--public", path("public.bundle"), "--secret", path("secret.bundle")]);
  execFileSync(program("helba-keygen"), [
    ...shape, "--public", path("other.bundle"), "--secret", path("sealed.bundle"), "--passphrase-file", path("passphrase"),
  ]);
  server = await startServer(["--toy", "--keys", path("public.bundle"), "--state", path("state")]);
});

after(() => {
  server?.stop();
  rmSync(folder, { recursive: true });
});

/** A module of the device, started. */
async function load(name) {
  const modules = process.env.SEEDED;
  const device = await import(join(modules, `${name}.js`));
  await device.default({ module_or_path: readFileSync(join(modules, `${name}_bg.wasm`)) });
  return device;
}

const contextsOf = (round) =>
  Array.from({ length: ARMS }, (_, a) => Array.from({ length: FEATURES }, (_, i) => Math.sin(1 + round + 5 * a + 11 * i) / 2));
const rewardOf = (round) => Math.cos(round);

/** An operator of a worker, with the keys open and a client named `c`. */
async function opened(name, options = {}) {
  const operations = new Operations(await load(name), () => {});
  operations.open({ bytes: new Uint8Array(readFileSync(path("secret.bundle"))), toy: true, repeats: 0 });
  await operations.connect({ client: "c", server: server.url, timeout: 60_000, ...options });
  return operations;
}

const create = (operations, changes = {}) => operations.create({ client: "c", features: FEATURES, arms: ARMS, changes });

for (const kernels of ["simd128", "portable"]) {
  test(`the device with the kernels ${kernels} sends the bytes of the native one`, async () => {
    const operations = await opened(kernels);
    const { bandit, id } = await create(operations);
    const view = await fetch(`${server.url}/v1/bandits/${id}`, { headers: { authorization: operations.authorization() } });
    writeFileSync(path("created.json"), JSON.stringify((await view.json()).created));

    // What crosses is written down on its way.
    const [requests, rounds, arms] = [[], [], []];
    let replies = 0;
    const real = globalThis.fetch;
    globalThis.fetch = async (url, options) => {
      const response = await real(url, options);
      if (!(options?.body instanceof Uint8Array)) return response;
      const bytes = new Uint8Array(await response.arrayBuffer());
      requests.push(options.body.slice());
      if (!url.endsWith("/feedback")) writeFileSync(path(`reply-${replies++}`), bytes);
      return new Response(bytes, response);
    };
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const [contexts, reward, first] = [contextsOf(round), rewardOf(round), replies];
        const [decision] = await operations.decide({ bandit, contexts: [contexts] });
        arms.push(`${decision.arm} ${decision.reliable}`);
        rounds.push({ contexts, replies: replies - first, reward });
        await operations.feedback({ bandit, sealed: decision.sealed, reward });
      }
    } finally {
      globalThis.fetch = real;
    }
    writeFileSync(path("rounds.json"), JSON.stringify(rounds));
    const native = execFileSync(program("examples/from_replies"), [folder], { encoding: "utf8" });
    assert.deepEqual(native.trim().split("\n"), arms);
    requests.forEach((request, at) => {
      assert.deepEqual(readFileSync(path(`native-${at}`)), Buffer.from(request), `request ${at} of ${requests.length}`);
    });
    assert.ok(requests.length >= 3 * ROUNDS, "contexts, raised scores, feedback");
    const { refreshes } = await operations.status({ bandit });
    assert.ok(refreshes > 0, "sums were raised, and models encrypted anew");
    operations.free();
  });
}
