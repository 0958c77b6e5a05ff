// What the package says to misuse, to servers that do not follow the protocol, and to those who give up: the worker's operations in Node,
// against a real server and against one that is made up.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Operations } from "../js/device.js";
import { fromFields, RefusedError, toFields } from "../js/errors.js";
import { program, startServer } from "./programs.mjs";

// A page that came over HTTP from another machine is no secure context. This is what it lacks, here for every test of this file.
const SECURE_CONTEXTS_ONLY = ["randomUUID", "subtle"];
for (const name of SECURE_CONTEXTS_ONLY) Object.defineProperty(globalThis.crypto, name, { value: undefined });

const [FEATURES, ARMS] = [3, 4];
const CONTEXTS = Array.from({ length: ARMS }, (_, a) => Array.from({ length: FEATURES }, (_, i) => Math.sin(1 + 5 * a + 11 * i) / 2));
const folder = mkdtempSync(join(tmpdir(), "helba-web-"));
const path = (name) => join(folder, name);
const bundle = (name) => new Uint8Array(readFileSync(path(`${name}.bundle`)));
let server, device;

before(async () => {
  writeFileSync(path("passphrase"), "correct horse\n");
  const keygen = (name, ...options) =>
    execFileSync(program("helba-keygen"), [
      "create", "--toy", "--features", FEATURES, "--arms", ARMS, "--public", path(`${name}-public.bundle`), "--secret", path(`${name}.bundle`), ...options,
    ].map(String));
  keygen("ours");
  keygen("sealed", "--passphrase-file", path("passphrase"));
  server = await startServer(["--toy", "--keys", path("ours-public.bundle"), "--state", path("state")]);
  device = await import("../pkg/portable.js");
  await device.default({ module_or_path: readFileSync(new URL("../pkg/portable_bg.wasm", import.meta.url)) });
});

after(() => {
  server?.stop();
  rmSync(folder, { recursive: true });
});

/** Operations with keys open, of a client `c` at `url`. */
async function opened({ url = server.url, name = "ours", passphrase, ...options } = {}) {
  const exchanges = [];
  const operations = new Operations(device, (_, exchange) => exchanges.push(exchange));
  operations.open({ bytes: bundle(name), passphrase, toy: true, repeats: 0 });
  await operations.connect({ client: "c", server: url, timeout: 20_000, observe: true, ...options });
  return { operations, exchanges };
}

const create = ({ operations }, changes = {}) => operations.create({ client: "c", features: FEATURES, arms: ARMS, changes });
const named = (name, message) => (error) => error.name === name && message.test(error.message);

test("keys open with what fits them, and the caller's copy is overwritten", () => {
  const open = (bytes, passphrase, toy = true) => new Operations(device).open({ bytes, passphrase, toy, repeats: 0 });
  const bytes = bundle("ours");
  const { keyId, features, arms } = open(bytes);
  assert.match(keyId, /^[0-9a-f]{32}$/);
  assert.deepEqual([features, arms], [[3, 4], [3, 4]]);
  assert.ok(bytes.every((byte) => byte === 0), "the bytes that the worker got");
  assert.equal(open(bundle("sealed"), "correct horse").kernels, "portable");
  for (const [input, passphrase, toy, message] of [
    [bundle("ours"), undefined, false, /toy key/],
    [bundle("sealed"), undefined, true, /sealed: give its passphrase/],
    [bundle("sealed"), "wrong", true, /passphrase/],
    [bundle("ours"), "correct horse", true, /not sealed/],
    [bundle("ours-public"), undefined, true, /bundle/],
    [bundle("ours").slice(0, -1), undefined, true, /./],
    [new Uint8Array(), undefined, true, /./],
  ]) {
    assert.throws(() => open(input, passphrase, toy), named("KeysError", message), String(message));
  }
});

test("contexts, rewards and configurations are checked before anything is sent", async () => {
  const client = await opened();
  const { operations, exchanges } = client;
  const { bandit } = await create(client);
  const sent = exchanges.length;
  const row = [0.1, 0.2, 0.3];
  for (const [contexts, message] of [
    [[row, row, row], /4|arms/],
    [[row, row, row, [0.1, 0.2]], /row 4|features/],
    [[row, row, row, [0.1, NaN, 0.2]], /row 4/],
    [[row, row, row, [0.1, "0.2", 0.2]], /row 4, column 2/],
    [[row, row, row, [0.9, 0.9, 0.9]], /row 4 is longer than 1/],
    [[row, row, row, 1], /row 4 of the contexts must be an array/],
    [[row, row, row, []], /row 4 of the contexts is empty: null is a closed arm/],
    [[null, null, null, null], /all arms of the decision are closed/],
    [undefined, /must be an array/],
  ]) {
    await assert.rejects(operations.decide({ bandit, contexts: [contexts] }), named("ValueError", message), String(message));
  }
  const [decision] = await operations.decide({ bandit, contexts: [CONTEXTS.map((row) => Float32Array.from(row))] });
  const asked = exchanges.length;
  for (const reward of [1.5, NaN, undefined]) {
    await assert.rejects(operations.feedback({ bandit, sealed: decision.sealed, reward }), named("ValueError", /reward|−1|-1/));
  }
  assert.equal(exchanges.length, asked, "nothing was sent");
  assert.ok(sent > 0 && asked > sent, "the control: what is right is sent");
  await assert.rejects(create(client, { horizons: 3 }), named("ValueError", /horizons/));
  await assert.rejects(create(client, { linear: { lambda: -1 } }), named("RefusedError", /lambda/));
});

test("a sealed decision is for holders of the key alone, and another page may return its reward", async () => {
  const [first, second, other] = [await opened(), await opened(), new Operations(device)];
  other.open({ bytes: bundle("sealed"), passphrase: "correct horse", toy: true, repeats: 0 });
  const { bandit, id } = await create(first);
  const [decision] = await first.operations.decide({ bandit, contexts: [CONTEXTS] });
  const features = CONTEXTS.flatMap((row) => [...new Uint8Array(Float64Array.from(row).buffer)]);
  assert.ok(!Buffer.from(decision.sealed).includes(Buffer.from(features.slice(0, 8))), "a feature in the sealed bytes");
  const later = await second.operations.bandit({ client: "c", id });
  const receipt = await second.operations.feedback({ bandit: later.bandit, sealed: decision.sealed, reward: 1 });
  assert.equal(receipt.feedbacks, 1);
  // The same again counts nothing.
  assert.equal((await first.operations.feedback({ bandit, sealed: decision.sealed, reward: -1 })).feedbacks, 1);
  const changed = decision.sealed.slice();
  changed[40] ^= 1;
  const foreign = await create(first);
  for (const [joined, sealed] of [[bandit, changed], [bandit, new Uint8Array(9)], [foreign.bandit, decision.sealed]]) {
    await assert.rejects(first.operations.feedback({ bandit: joined, sealed, reward: 1 }), named("ValueError", /decision/));
  }
});

test("several decisions share one request", async () => {
  const client = await opened();
  const { bandit, mostDecisions } = await create(client);
  await client.operations.decide({ bandit, contexts: [CONTEXTS] });
  const asked = ({ path }) => path.endsWith("/decisions");
  const decisions = await client.operations.decide({ bandit, contexts: [CONTEXTS, CONTEXTS.toReversed(), CONTEXTS] });
  assert.equal(decisions.length, 3);
  assert.equal(new Set(decisions.map(({ id }) => id)).size, 3);
  const [one, three] = client.exchanges.filter(asked);
  assert.equal(three.sent.length, one.sent.length);
  const many = Array.from({ length: mostDecisions + 1 }, () => CONTEXTS);
  await assert.rejects(client.operations.decide({ bandit, contexts: many }), named("ValueError", /./));
});

test("refusals, other keys and servers that cannot be reached are told apart", async () => {
  const wrong = await opened({ token: "ab".repeat(32) });
  await assert.rejects(create(wrong), (error) => {
    const known = fromFields(toFields(error));
    return known instanceof RefusedError && known.status === 401 && known.reason === "unauthorized" && known.detail.length > 0;
  });
  await assert.rejects(opened({ token: "x" }), named("ValueError", /64/));
  await assert.rejects(opened({ name: "sealed", passphrase: "correct horse" }), named("KeysError", /secret bundle/));
  await assert.rejects(opened({ url: "http://127.0.0.1:1" }), named("UnreachableError", /127\.0\.0\.1:1/));
  await assert.rejects(opened({ url: "ftp://a" }), named("ValueError", /https/));
  const client = await opened();
  await assert.rejects(client.operations.bandit({ client: "c", id: "../keys" }), named("ValueError", /id/));
  await assert.rejects(client.operations.bandit({ client: "c", id: "none" }), named("RefusedError", /404/));
});

/** A server that answers its `n`th request with `answer(n, request)`. */
async function madeUp(answer) {
  let count = 0;
  const listener = createServer((request, response) => {
    request.resume().on("end", () => answer(count++, request, response));
  });
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${listener.address().port}`, count: () => count, stop: () => (listener.closeAllConnections(), listener.close()) };
}

test("answers that are too long, redirects and answers that never come end a call", async () => {
  const made = await madeUp((_, request, response) => {
    if (request.headers["x-case"]) return;
    response.writeHead(200, { "content-type": "application/json" });
    const part = "x".repeat(1 << 20);
    const more = () => response.write(part) ? setImmediate(more) : response.once("drain", more);
    response.on("error", () => {}).on("close", () => response.destroy());
    more();
  });
  await assert.rejects(opened({ url: made.url }), named("AnswerError", /longer than/));
  made.stop();
  const redirect = await madeUp((_, __, response) => response.writeHead(307, { location: `${server.url}/v1/keys` }).end());
  await assert.rejects(opened({ url: redirect.url }), named("UnreachableError", /./));
  redirect.stop();
  const silent = await madeUp(() => {});
  await assert.rejects(opened({ url: silent.url, timeout: 200 }), named("UnreachableError", /0\.2 s/));
  const operations = new Operations(device);
  operations.open({ bytes: bundle("ours"), toy: true, repeats: 0 });
  const controller = new AbortController();
  const waiting = operations.connect({ client: "c", server: silent.url, timeout: 60_000 }, controller.signal);
  while (silent.count() < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  controller.abort();
  await assert.rejects(waiting, named("AbortError", /aborted/));
  silent.stop();
});

test("another bandit than the one that was asked for is refused, and problem documents are text", async () => {
  const client = await opened();
  const [first, second] = [await create(client), await create(client)];
  // A server that says of every bandit what the real one says of the second, and refuses to list them.
  const made = await madeUp(async (_, request, response) => {
    const asked = request.url.replace(first.id, second.id);
    const real = await fetch(server.url + asked, { headers: { authorization: request.headers.authorization } });
    const refuses = asked.endsWith("/bandits");
    const body = refuses ? JSON.stringify({ status: 400, reason: 5, title: {}, detail: null }) : await real.text();
    response.writeHead(refuses ? 400 : 200, { "content-type": "application/json" }).end(body);
  });
  try {
    const { operations } = await opened({ url: made.url });
    await assert.rejects(operations.bandit({ client: "c", id: first.id }), named("AnswerError", /another bandit/));
    assert.equal((await operations.bandit({ client: "c", id: second.id })).id, second.id, "the control");
    const untyped = (error) => error.name === "RefusedError" && error.reason === null && error.detail === "the answer has no problem document";
    await assert.rejects(operations.bandits({ client: "c" }), untyped);
  } finally {
    made.stop();
  }
});

/** Operations without keys, of a client `c`. */
async function keyless({ url = server.url } = {}) {
  const operations = new Operations(device);
  await operations.connect({ client: "c", server: url, timeout: 20_000 });
  return operations;
}

test("clear policies need no keys", async () => {
  const operations = await keyless();
  const policies = await operations.policies({ client: "c" });
  assert.ok(policies.some(({ policy, about }) => policy === "oful" && about.length > 0));
  const made = await operations.create({ client: "c", features: FEATURES, arms: ARMS, changes: { wait: 60 }, policy: "oful", name: "Käse", tags: ["a"] });
  const { bandit, id, encrypted, name, tags, parameters } = made;
  assert.deepEqual([encrypted, name, tags, parameters.features, parameters.arms], [false, "Käse", ["a"], FEATURES, ARMS]);
  const decided = await operations.decide({ bandit, contexts: [CONTEXTS.map((row) => Float64Array.from(row)), CONTEXTS] });
  assert.equal(new Set(decided.map(({ id }) => id)).size, 2);
  for (const { arm, chosen, reliable, probability } of decided) {
    assert.ok(arm >= 0 && arm < ARMS && chosen === arm && reliable && probability === null);
  }
  const found = await operations.bandit({ client: "c", id });
  const { sealed } = decided[0];
  assert.deepEqual(await operations.feedback({ bandit: found.bandit, sealed, reward: 1 }), { decision: decided[0].id, feedbacks: 1 });
  // The same again counts nothing.
  assert.equal((await operations.feedback({ bandit, sealed, reward: 1 })).feedbacks, 1);
  assert.equal((await operations.status({ bandit })).feedbacks, 1);
  const other = await operations.create({ client: "c", arms: 2, changes: {}, policy: "ucb1" });
  assert.ok((await operations.decide({ bandit: other.bandit, contexts: [undefined] }))[0].arm < 2, "a policy without contexts");
  for (const [what, message] of [
    [operations.feedback({ bandit: other.bandit, sealed, reward: 1 }), /another bandit/],
    [operations.feedback({ bandit, sealed: new Uint8Array(9), reward: 1 }), /no decision/],
    [operations.feedback({ bandit, sealed, reward: NaN }), /the reward must be a finite number/],
    [operations.decide({ bandit, contexts: [[[0.1, "x", 0]]] }), /row 1, column 2/],
    [operations.decide({ bandit, contexts: ["text"] }), /must be an array/],
    [operations.decide({ bandit, contexts: [CONTEXTS], epsilon: 0.1 }), /leave epsilon out/],
    [operations.counters({ bandit }), /for encrypted bandits/],
    [operations.raise({ bandit }), /for encrypted bandits/],
  ]) {
    await assert.rejects(what, named("ValueError", message), String(message));
  }
  const encryptedOne = await create(await opened());
  await assert.rejects(operations.create({ client: "c", features: 3, arms: 4, changes: {} }), named("KeysError", /needs keys/));
  await assert.rejects(operations.bandit({ client: "c", id: encryptedOne.id }), (error) => ["RefusedError", "KeysError"].includes(error.name));
  await operations.delete({ bandit });
  await assert.rejects(operations.status({ bandit }), named("RefusedError", /404/));
});

test("names and tags, and what is listed", async () => {
  const client = await opened();
  const { operations } = client;
  const { bandit, id, name } = await operations.create({ client: "c", features: FEATURES, arms: ARMS, changes: {}, name: "Shop & co", tags: ["live"] });
  assert.equal(name, "Shop & co");
  const [listed, ...more] = await operations.bandits({ client: "c", name: "Shop & co", tag: "live" });
  assert.deepEqual([listed, more], [{ id, encrypted: true, policy: null, features: FEATURES, arms: ARMS, name: "Shop & co", tags: ["live"] }, []]);
  assert.deepEqual(await operations.relabel({ bandit, patch: { name: null } }), { name: null, tags: ["live"] });
  assert.deepEqual(await operations.relabel({ bandit, patch: { tags: null } }), { name: null, tags: [] });
  await assert.rejects(operations.relabel({ bandit, patch: { name: "a\nb" } }), (error) => error.status === 422);
  assert.deepEqual(await operations.bandits({ client: "c", tag: "live" }), []);
  // It decides as before.
  assert.equal((await operations.decide({ bandit, contexts: [CONTEXTS] })).length, 1);
});

test("a model is exported", async () => {
  const { operations } = await opened();
  const { bandit, id } = await operations.create({ client: "c", features: FEATURES, arms: ARMS, changes: {} });
  const model = await operations.model({ bandit });
  assert.deepEqual([model.bandit, model.feedbacks, model.omega.length], [id, 0, FEATURES]);
  model.inverse.forEach((row, i) => row.forEach((entry, j) => assert.ok(Math.abs(entry - Number(i === j)) < 1e-4)));
  assert.deepEqual(await operations.model({ bandit }), model, "another export is the same");
});

test("a bandit is copied", async () => {
  const { operations } = await opened();
  const { bandit } = await operations.create({ client: "c", features: FEATURES, arms: ARMS, changes: {} });
  const [{ sealed }] = await operations.decide({ bandit, contexts: [CONTEXTS] });
  await operations.feedback({ bandit, sealed, reward: 0.5 });
  const changes = { linear: { width: { tangent: { alpha: 0.1, floor: 1 / 64 } } } };
  const copy = await operations.copy({ bandit, changes, name: "second" });
  assert.deepEqual([copy.name, copy.config.linear.width], ["second", changes.linear.width]);
  const { round, feedbacks } = await operations.status({ bandit: copy.bandit });
  assert.deepEqual([round, feedbacks], [0, 1]);
  await assert.rejects(operations.copy({ bandit, changes: { linear: { lambda: 2 } } }), (error) => error.status === 400);
});

test("a frozen bandit decides and learns nothing", async () => {
  const { operations } = await opened();
  const { bandit } = await operations.create({ client: "c", features: FEATURES, arms: ARMS, changes: {} });
  assert.equal((await operations.freeze({ bandit, frozen: true })).frozen, true);
  const [{ sealed }] = await operations.decide({ bandit, contexts: [CONTEXTS] });
  await assert.rejects(operations.feedback({ bandit, sealed, reward: 0.5 }), (error) => error.reason === "frozen");
  assert.equal((await operations.freeze({ bandit, frozen: false })).frozen, false);
  assert.equal((await operations.feedback({ bandit, sealed, reward: 0.5 })).feedbacks, 1);
});

test("closed arms are neither played nor drawn", async () => {
  const client = await opened();
  const { operations } = client;
  const { bandit } = await create(client);
  for (const epsilon of [0, 1]) {
    for (let arm = 0; arm < ARMS; arm++) {
      const contexts = CONTEXTS.map((row, at) => (at === arm ? row : null));
      const [decision] = await operations.decide({ bandit, contexts: [contexts], epsilon });
      assert.deepEqual([decision.arm, decision.probability, decision.reliable], [arm, 1, true]);
      await operations.feedback({ bandit, sealed: decision.sealed, reward: 0.5 });
    }
  }
});

test("arms that epsilon draws are the ones that are learnt, and feedback can be erased", async () => {
  const client = await opened();
  const { operations } = client;
  const changes = { answers: "scores", open_model: true, counters: { every: 10 } };
  const { bandit } = await create(client, changes);
  const pulls = Array(ARMS).fill(0);
  let erased;
  for (let turn = 0; turn < 10; turn++) {
    const [decision] = await operations.decide({ bandit, contexts: [CONTEXTS], epsilon: 1 });
    assert.equal(decision.probability, 1 / ARMS);
    pulls[decision.arm] += 1;
    await operations.feedback({ bandit, sealed: decision.sealed, reward: 0.5 });
    erased ??= decision.id;
    if (turn === 8) assert.equal((await operations.counters({ bandit })).feedbacks, 0, "no group is whole");
  }
  // Ten draws of one arm of four have probability 4^-9.
  assert.ok(pulls.filter((count) => count > 0).length > 1, String(pulls));
  const counters = await operations.counters({ bandit });
  assert.deepEqual(counters.arms.map(({ pulls }) => Math.round(pulls)), pulls);
  const [plain] = await operations.decide({ bandit, contexts: [CONTEXTS] });
  assert.deepEqual([plain.arm, plain.probability], [plain.chosen, 1]);
  for (const epsilon of [-0.1, 1.5, NaN, "1"]) {
    await assert.rejects(operations.decide({ bandit, contexts: [CONTEXTS], epsilon }), named("ValueError", /epsilon/));
  }
  const receipt = await operations.erase({ bandit, decision: erased });
  assert.ok(receipt.code.length > 0);
  assert.deepEqual(await operations.erase({ bandit, decision: erased }), receipt, "a second call changes nothing");
});

test("named values make the features that the native transformation makes", async () => {
  const operations = new Operations(device);
  const schema = { layout: "dsjson", candidate: { price: "min-max", kind: "one-hot" }, context: { hot: "none" }, interactions: [["hot", "price"]] };
  const examples = [{ candidates: [{ price: 2, kind: "tea" }, { price: 10, kind: "juice" }], context: { hot: 1 } }];
  const { transform, names, features, arms } = operations.learnTransform({ schema, examples });
  assert.deepEqual([names.length, arms], [features, 2]);
  const round = { candidates: [{ price: 4, kind: "tea" }, { price: 10, kind: "juice" }], context: { hot: 0.5 } };
  const rows = operations.rows({ transform, round });
  assert.equal(rows.length, 2);
  assert.ok(rows.every((row) => row.length === features && row.every(Number.isFinite)));
  const text = operations.transformText({ transform });
  const again = operations.readTransform({ text });
  assert.deepEqual(operations.rows({ transform: again.transform, round }), rows);
  for (const [candidates, message] of [
    [[{ price: 1, kind: "tea" }], /candidates/],
    [[{ price: "dear", kind: "tea" }, { price: 1, kind: "tea" }], /price/],
    [[{ prize: 1, kind: "tea" }, { price: 1, kind: "tea" }], /pri/],
  ]) {
    assert.throws(() => operations.rows({ transform, round: { candidates, context: { hot: 1 } } }), named("ValueError", message));
  }
  assert.throws(() => operations.learnTransform({ schema: { candidate: { price: "dear" } }, examples }), named("ValueError", /schema/));
  assert.equal(operations.reward({ transform, value: 0.3 }), 0.3, "a schema without a range");
  const euros = operations.learnTransform({ schema: { ...schema, reward_range: [0, 50] }, examples });
  assert.equal(operations.reward({ transform: euros.transform, value: 12.5 }), 0.25);
  assert.throws(() => operations.reward({ transform: euros.transform, value: 50.5 }), named("ValueError", /50\.5 is outside reward_range = \[0, 50\]/));
  assert.throws(() => operations.reward({ transform, value: 20 }), named("ValueError", /the reward 20 is outside 0 to 1/));
  for (const value of ["12.5", null, undefined, NaN]) {
    assert.throws(() => operations.reward({ transform: euros.transform, value }), named("ValueError", /outside reward_range/));
  }
  assert.throws(() => operations.readTransform({ text: "{}" }), named("ValueError", /transformation/));
  operations.freeTransform({ transform });
  operations.free();
});

test("kinds of errors have names of their own, whatever their classes are called", async () => {
  const errors = await import("../js/errors.js");
  for (const [name, kind] of Object.entries(errors).filter(([name]) => name.endsWith("Error"))) {
    // As a minifier would call it.
    const renamed = { e: class extends kind {} }.e;
    const made = new renamed("words", {});
    assert.deepEqual([made.code, made.name, made.message], [name, name, "words"]);
  }
});

test("the keys are gone after they were freed", async () => {
  const client = await opened();
  const { bandit } = await create(client);
  client.operations.free();
  await assert.rejects(client.operations.decide({ bandit, contexts: [CONTEXTS] }));
  await assert.rejects(create(client));
});

test("no script needs a secure context", () => {
  assert.equal(globalThis.crypto.randomUUID, undefined);
  const folder = new URL("../js/", import.meta.url);
  const scripts = readdirSync(folder).filter((name) => name.endsWith(".js"));
  assert.ok(scripts.length >= 5);
  for (const name of scripts) {
    const calls = readFileSync(new URL(name, folder), "utf8").match(/crypto\.(\w+)\b(?=\(|\.)/g) ?? [];
    for (const call of calls) assert.ok(!SECURE_CONTEXTS_ONLY.includes(call.slice("crypto.".length)), `${name}: ${call}`);
  }
});
