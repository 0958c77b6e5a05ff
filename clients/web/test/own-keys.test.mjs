// A user with a key of its own, in Node, against a real server and the raiser of the owner.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Operations } from "../js/device.js";
import { program, start, startServer } from "./programs.mjs";

const [FEATURES, ARMS] = [4, 2];
const CONTEXTS = [[0.5, 0.1, 0, 0.2], [0.1, 0.3, 0.1, 0]];
const folder = mkdtempSync(join(tmpdir(), "helba-web-"));
const path = (name) => join(folder, name);
const bytes = (name) => new Uint8Array(readFileSync(path(name)));
const keygen = (...options) => execFileSync(program("helba-keygen"), options.map(String));
const named = (name, message) => (error) => error.name === name && message.test(error.message);
let server, raiser, device;

before(async () => {
  const files = ["--public", path("public.bundle"), "--secret", path("secret.bundle")];
  keygen("create", "--toy", "--features", FEATURES, "--arms", ARMS, "--keys", "own", "--updates", "products", ...files);
  for (const name of ["alice", "bob"]) {
    const [secret, request, user] = ["secret", "request", "user"].map((what) => path(`${name}.${what}`));
    execFileSync(program("helba-client"), ["user", "--secret", secret, "--request", request]);
    keygen("enrol", ...files, "--request", request, "--name", name, "--user", user);
  }
  server = await startServer(["--toy", "--keys", path("public.bundle"), "--state", path("state")]);
  device = await import("../pkg/portable.js");
  await device.default({ module_or_path: readFileSync(new URL("../pkg/portable_bg.wasm", import.meta.url)) });
});

after(() => {
  raiser?.kill("SIGKILL");
  server?.stop();
  rmSync(folder, { recursive: true });
});

/** Operations with these keys, of a client `c`. */
async function opened(keys, options = {}) {
  const operations = new Operations(device, () => {});
  operations.open({ toy: true, repeats: 0, ...keys });
  await operations.connect({ client: "c", server: server.url, timeout: 20_000, ...options });
  return operations;
}

const alice = () => ({ bytes: bytes("alice.secret"), user: bytes("alice.user") });
const ofOwner = () => ({ bytes: bytes("secret.bundle") });

test("an enrolled user decides and returns feedback beside the owner's raiser", async () => {
  const owner = await opened(ofOwner());
  const { bandit: owned, id } = await owner.create({ client: "c", features: FEATURES, arms: ARMS, changes: {} });
  keygen("remove", "--list", path("removed.json"));
  const options = ["--server", server.url, "--keys", path("secret.bundle"), "--toy", "--removed", path("removed.json")];
  raiser = start("helba-raiser", options, (text) => text.includes(id)).child;

  const user = await opened(alice());
  const { bandit } = await user.bandit({ client: "c", id });
  const decide = async () => {
    for (const end = performance.now() + 60_000; ; ) {
      try {
        return (await user.decide({ bandit, contexts: [CONTEXTS] }))[0];
      } catch (error) {
        // The raiser has not found the bandit yet.
        if (error.status !== 503 || performance.now() > end) throw error;
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    }
  };
  for (let round = 0; round < 8; round++) {
    const { arm, reliable, sealed } = await decide();
    assert.ok(reliable && (arm === 0 || arm === 1), `${arm}`);
    assert.equal((await user.feedback({ bandit, sealed, reward: 0.5 })).feedbacks, round + 1);
  }
  // A user does nothing else; nor does a page of the owner answer tasks.
  await assert.rejects(user.create({ client: "c", features: FEATURES, arms: ARMS, changes: {} }), (error) => error.status === 403);
  await assert.rejects(user.raise({ bandit }), (error) => error.status === 403);
  // With a token in place of the user's, the enrolment is not sent.
  const other = await opened(alice(), { token: "0".repeat(64) });
  const { bandit: ofOther } = await other.bandit({ client: "c", id });
  await assert.rejects(other.decide({ bandit: ofOther, contexts: [CONTEXTS] }), (error) => error.status === 401);
  assert.equal((await owner.status({ bandit: owned })).feedbacks, 8);
  for (const operations of [owner, user, other]) operations.free();
});

test("a user's secret opens with the bundle of this user alone, and is overwritten", () => {
  const open = (keys) => new Operations(device).open({ toy: true, repeats: 0, ...keys });
  const secret = bytes("alice.secret");
  const { features, arms } = open({ bytes: secret, user: bytes("alice.user") });
  assert.deepEqual([features, arms], [[3, 4], [1, 2]]);
  assert.ok(secret.every((byte) => byte === 0));
  assert.throws(() => open({ ...alice(), user: bytes("bob.user") }), named("KeysError", /enrolled another user/));
  assert.throws(() => open({ bytes: bytes("alice.secret") }), named("KeysError", /./));
  assert.throws(() => open({ ...ofOwner(), user: bytes("alice.user") }), named("KeysError", /./));
  assert.throws(() => open({ ...alice(), user: bytes("alice.secret") }), named("KeysError", /./));
  assert.throws(() => open({ ...alice(), user: new Uint8Array(40) }), named("KeysError", /./));
  assert.throws(() => open({ ...alice(), toy: false }), named("KeysError", /toy key/));
  assert.throws(() => open({ ...alice(), passphrase: "secret" }), named("ValueError", /passphrase/));
});
