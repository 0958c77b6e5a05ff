// A page whose keys a committee holds: it has the bundle for users and no secret, decides through the members, and goes on after a rotation
// of their keys. All programs are real.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Operations } from "../js/device.js";
import { program, start, startServer } from "./programs.mjs";

const CONTEXTS = [[0.3, 0.1], [0.1, 0.3]];
const folder = mkdtempSync(join(tmpdir(), "helba-web-"));
const path = (...names) => join(folder, ...names);
const running = new Set();
let device;

before(async () => {
  device = await import("../pkg/portable.js");
  await device.default({ module_or_path: readFileSync(new URL("../pkg/portable_bg.wasm", import.meta.url)) });
});

after(() => {
  for (const child of running) child.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});

const named = (name, message) => (error) => error.name === name && message.test(error.message);

/** Starts a member, which is killed at the end at the latest. */
function member(...options) {
  const child = spawn(program("helba-member"), options.map(String), { stdio: "ignore" });
  running.add(child);
  return child;
}

/** Ends processes. */
async function kill(children) {
  for (const child of children) {
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    running.delete(child);
  }
}

/** Three members make keys together. Returns their folders. */
async function makeKeys(name, ...proposed) {
  mkdirSync(path(name));
  const cards = [0, 1, 2].map((j) => path(name, `${j}.card`));
  cards.forEach((card, j) =>
    writeFileSync(card, execFileSync(program("helba-member"), ["identity", "--out", path(name, `${j}.identity`)])),
  );
  const proposal = path(name, "proposal.json");
  execFileSync(program("helba-member"), ["propose", ...proposed, "--threshold", "2", "--out", proposal, ...cards]);
  const options = ["board", "--proposal", proposal, "--folder", path(name, "board"), "--listen", "127.0.0.1:0"];
  const board = start("helba-member", options, (text) => /(\S+:\d+)\s/.exec(text));
  running.add(board.child);
  const url = `http://${(await board.started)[1].replace(/^http:\/\//, "")}`;
  const folders = [0, 1, 2].map((j) => path(name, String(j)));
  const makers = folders.map((out, j) =>
    member("keygen", "--proposal", proposal, "--board", url, "--identity", path(name, `${j}.identity`), "--out", out),
  );
  const ends = await Promise.all(makers.map((child) => once(child, "exit")));
  assert.deepEqual(ends.map(([code]) => code), [0, 0, 0]);
  await kill([board.child]);
  return folders;
}

/** Members of these folders answer the server at `url`. */
function serving(url, folders, ...more) {
  const common = ["--server", url, "--users", join(folders[0], "users.bundle"), "--public", join(folders[0], "public.bundle")];
  return folders.map((own) => member("serve", ...common, "--keys", join(own, "member.keys"), ...more));
}

/** A page with the users' bundle of `folders`, and what it stored. */
function page(folders, memory) {
  const operations = new Operations(device, () => {});
  const bytes = new Uint8Array(readFileSync(join(folders[0], "users.bundle")));
  const { keyId } = operations.open({ bytes, toy: true, repeats: 0, memory: memory?.slice() });
  return { operations, keyId };
}

/** As `page`, with a client `c` of the server at `url`. */
async function opened(url, folders, memory) {
  const { operations } = page(folders, memory);
  await operations.connect({ client: "c", server: url, timeout: 60_000 });
  return operations;
}

test("a page without a secret decides through a committee, and goes on after a rotation", { timeout: 600_000 }, async () => {
  const old = await makeKeys("before", "--features", "2", "--arms", "2", "--toy");
  const oldKeys = join(old[0], "public.bundle");
  const next = await makeKeys("after", "--rotate", oldKeys);
  const nextKeys = join(next[0], "public.bundle");

  let server = await startServer(["--toy", "--keys", oldKeys, "--state", path("state")]);
  const listen = new URL(server.url).host;
  let members = serving(server.url, old);
  const shop = await opened(server.url, old);
  const { bandit, id } = await shop.create({ client: "c", features: 2, arms: 2, changes: {} });
  const [first] = await shop.decide({ bandit, contexts: [CONTEXTS] });
  assert.deepEqual([first.reliable, first.round], [true, 1]);
  assert.equal((await shop.feedback({ bandit, sealed: first.sealed, reward: 0.5 })).feedbacks, 1);
  // A sealed decision is of the page that made it, also when it is loaded again: no other one has its memory.
  const [second] = await shop.decide({ bandit, contexts: [CONTEXTS] });
  const returned = async (memory) => {
    const other = await opened(server.url, old, memory);
    const found = await other.bandit({ client: "c", id });
    return other.feedback({ bandit: found.bandit, sealed: second.sealed, reward: 1 }).finally(() => other.free());
  };
  await assert.rejects(returned(), named("ValueError", /decision/));
  assert.equal((await returned(shop.memory())).feedbacks, 2);
  assert.throws(() => page(old, new Uint8Array(40)), named("KeysError", /not the memory/));
  const [waits] = await shop.decide({ bandit, contexts: [CONTEXTS] });
  server.stop();
  await kill(members);

  const rotates = ["--listen", listen, "--toy", "--keys", oldKeys, "--state", path("state"), "--rotate", nextKeys, "--rotated", path("moved")];
  const rotating = spawn(program("helba-server"), rotates, { stdio: "ignore" });
  running.add(rotating);
  members = serving(server.url, old, "--next", nextKeys);
  assert.deepEqual(await once(rotating, "exit"), [0, null]);
  await kill(members);

  const taken = ["--toy", "--keys", nextKeys, "--state", path("next"), "--rotated", path("moved"), "--users", join(next[0], "users.bundle")];
  server = await startServer(taken, listen);
  members = serving(server.url, next);
  try {
    // Two calls at once follow the rotation once.
    const [[decision], status] = await Promise.all([shop.decide({ bandit, contexts: [CONTEXTS] }), shop.status({ bandit })]);
    assert.ok(decision.reliable && status.round >= 2);
    assert.ok((await shop.feedback({ bandit, sealed: decision.sealed, reward: 0.25 })).feedbacks >= 3);
    await assert.rejects(shop.feedback({ bandit, sealed: waits.sealed, reward: 1 }), named("ValueError", /takes no feedback any more/));
    // A page that is loaded again has the bundle of before. It has followed already, or does now if it stored nothing.
    const keyId = page(next).keyId;
    assert.deepEqual([page(old).keyId === keyId, page(old, shop.memory()).keyId === keyId], [false, true]);
    const loaded = await opened(server.url, old);
    const again = await loaded.bandit({ client: "c", id });
    assert.ok((await loaded.decide({ bandit: again.bandit, contexts: [CONTEXTS] }))[0].reliable);
    // The control: keys that follow no others of this server are refused, and nothing is followed.
    const other = await makeKeys("other", "--features", "2", "--arms", "2", "--toy");
    await assert.rejects(opened(server.url, other), (error) => ["KeysError", "RefusedError"].includes(error.name));
    for (const each of [shop, loaded]) each.free();
  } finally {
    server.stop();
    await kill(members);
  }
});
