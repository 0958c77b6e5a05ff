// Users of a committee: the package in Node and in a headless Chromium, against members and a server in processes of their own.
// `COMMITTEE=3/5` makes another committee than 2 of 4; times are printed, and none is a condition.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { after, before, test } from "node:test";
import { AnswerError, Client, Keys, KeysError, RefusedError, UnreachableError, ValueError } from "../js/index.js";
import * as committee from "../js/committee.js";
import { Browser } from "./browser.mjs";
import { program, start, startServer } from "./programs.mjs";

const { ClosedError, Decision, User } = committee;
const [THRESHOLD, MEMBERS] = (process.env.COMMITTEE ?? "2/4").split("/").map(Number);
/** The most bytes of the module. */
const MOST_BYTES = 400_000;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
// No workers, and no origin but the server's.
const POLICY = (server) => `default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self' ${server}`;

const folder = mkdtempSync(join(tmpdir(), "helba-web-"));
const path = (...names) => join(folder, ...names);
const running = new Set();
const pages = { fetched: [] };
let id, server, members, browser;

/** A program of members, which is killed at the end at the latest. */
function member(...options) {
  const child = spawn(program("helba-member"), options.map(String), { stdio: "ignore" });
  running.add(child);
  return child;
}

const numbers = Array.from({ length: MEMBERS }, (_, at) => at + 1);

/** Members draw their keys over a board, each in a process of its own. `name` is before each file's. Returns the committee's id. */
async function makeKeys(name, ...follows) {
  for (const j of numbers) {
    writeFileSync(path(`${name}${j}.card`), execFileSync(program("helba-member"), ["identity", "--out", path(`${name}${j}.identity`)]));
  }
  const cards = numbers.map((j) => path(`${name}${j}.card`));
  const proposal = path(`${name}proposal`);
  execFileSync(program("helba-member"), ["propose", "--threshold", String(THRESHOLD), "--out", proposal, ...follows, ...cards]);
  const options = ["board", "--proposal", proposal, "--listen", "127.0.0.1:0"];
  const board = start("helba-member", options, (text) => /(\S+:\d+)\s/.exec(text));
  running.add(board.child);
  const url = `http://${(await board.started)[1].replace(/^http:\/\//, "")}`;
  const makers = numbers.map((j) => {
    const own = ["--identity", path(`${name}${j}.identity`), "--out", path(`${name}member-${j}`)];
    return start("helba-member", ["keygen", "--proposal", proposal, "--board", url, ...own], (text) => /committee ([0-9a-f]{64})/.exec(text));
  });
  const ends = await Promise.all(makers.map(({ child }) => once(child, "exit")));
  assert.deepEqual(ends.map(([code]) => code), numbers.map(() => 0), makers.map(({ output }) => output()).join("\n"));
  board.child.kill("SIGKILL");
  return (await makers[0].started)[1];
}

/** The manifest of a committee. */
const manifest = (name) => path(`${name}member-1`, "committee.manifest");

/** Members of a committee, each in a process of its own. */
function serving(name, ...more) {
  return numbers.map((j) => {
    const own = ["--keys", path(`${name}member-${j}`), "--identity", path(`${name}${j}.identity`)];
    return member("serve", "--server", server.url, ...own, ...more);
  });
}

/** Serves the package beside an empty page, from an origin of its own, and writes down what is fetched. */
async function serve() {
  const listener = createServer((request, response) => {
    const asked = normalize(new URL(request.url, "http://x").pathname);
    pages.fetched.push(asked);
    let body = asked === "/" ? "<!doctype html><title>a user</title>" : undefined;
    try {
      if (/^\/(js|pkg)\//.test(asked)) body = readFileSync(new URL(`..${asked}`, import.meta.url));
    } catch {
      // There is no such file.
    }
    if (body === undefined) return void response.writeHead(404).end();
    const type = TYPES[extname(asked)] ?? "text/html";
    response.writeHead(200, { "content-type": type, "content-security-policy": POLICY(server.url), "cache-control": "no-store" }).end(body);
  });
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  return Object.assign(pages, { listener, url: `http://127.0.0.1:${listener.address().port}` });
}

/** Creates a bandit that learns after each four rewards. `linear` has the arms and features. */
async function create(linear = { d: 2, k: 2 }, sessions = 1) {
  const config = { lambda: 1, delta: 0.01, l: 1, s: 1, sigma: 0.5, c: 1, eta: 0.1, width: { tangent: { alpha: 0.5, floor: 1 / 64 } } };
  const asked = { keys: "committee", linear: { ...config, schedule: { every: { rounds: 4 } }, ...linear }, sessions, decisions_a_session: 1000, name: "shelf" };
  const response = await fetch(`${server.url}/v1/bandits`, { method: "POST", body: JSON.stringify(asked), headers: { "content-type": "application/json" } });
  const created = await response.json();
  assert.equal(response.status, 201, JSON.stringify(created));
  return created.id;
}

const CONTEXTS = [[0.9, 0.1], [0.1, 0.9]];
const named = (kind, message) => (error) => error instanceof kind && error.code === error.name && message.test(error.message);

/** Waits until a bandit has so many feedbacks in its model. */
async function learnt(bandit, feedbacks) {
  for (const end = Date.now() + 60_000; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const status = await bandit.status();
    if (status.feedbacks === feedbacks) return status;
    assert.ok(Date.now() < end, JSON.stringify(status));
  }
}

before(async () => {
  id = await makeKeys("");
  // Before the server, which lists the origin of the page.
  server = { url: "http://127.0.0.1" };
  const { url } = await serve();
  server = await startServer(["--committee", manifest(""), "--state", path("state"), "--cors-origin", url]);
  members = serving("");
  const module = await import("../pkg/committee.js");
  await module.default({ module_or_path: readFileSync(new URL("../pkg/committee_bg.wasm", import.meta.url)) });
  browser = await Browser.start();
});

after(async () => {
  await browser?.stop();
  server?.stop?.();
  for (const child of running) child.kill("SIGKILL");
  pages.listener?.closeAllConnections();
  pages.listener?.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("the module of a committee's user is small", () => {
  const size = (name) => readFileSync(new URL(`../pkg/${name}_bg.wasm`, import.meta.url)).length;
  const bytes = size("committee");
  console.log(`the module of a committee's user has ${bytes} bytes`);
  assert.ok(bytes < MOST_BYTES, `${bytes} bytes`);
  assert.ok(size("portable") > MOST_BYTES, "the control");
});

test("two users decide and learn, and one has a feedback erased", { timeout: 300_000 }, async () => {
  const users = [await User.open(server.url, { committee: id }), await User.open(server.url, { committee: id.toUpperCase() })];
  assert.deepEqual(users.map((user) => user.session().length), [96, 96]);
  assert.notDeepEqual(users[0].session(), users[1].session());
  const bandits = await Promise.all(Array(2).fill(await create()).map((name, at) => users[at].bandit(name)));
  const { features, arms, sessions, decisions, name, config } = bandits[0];
  assert.deepEqual([features, arms, sessions, decisions, name, config.l], [2, 2, 1, 1000, "shelf", 1]);
  const played = [];
  for (let round = 0; round < 8; round++) {
    const bandit = bandits[round % 2];
    const decision = await bandit.decide(round % 3 ? CONTEXTS : CONTEXTS.map((row) => Float32Array.from(row)));
    assert.equal((await bandit.feedback(decision, decision.arm === 1 ? 1 : -1)).decision, decision.id);
    played.push(decision);
  }
  await learnt(bandits[0], 8);
  assert.ok(played.every(({ arm, round }, at) => arm < 2 && round === at));
  const later = await Promise.all(bandits.map((bandit) => bandit.decide(CONTEXTS)));
  assert.deepEqual(later.map(({ arm }) => arm), [1, 1], "the arm that was worth it");
  // By its own session alone, and a second time it changes nothing.
  const [first] = played;
  await assert.rejects(bandits[1].erase(first), named(ValueError, /another session/));
  assert.deepEqual(await bandits[0].erase(first.toBytes()), { decision: first.id });
  for (const bandit of bandits) {
    const decision = await bandit.decide(CONTEXTS);
    await bandit.feedback(decision, 1);
  }
  await bandits[0].feedback(later[0], 1);
  await bandits[1].feedback(Decision.fromBytes(later[1].toBytes()), 1);
  const status = await learnt(bandits[1], 11);
  assert.deepEqual([status.here.length, status.needed], [MEMBERS, 2 * THRESHOLD - 1]);
});

test("a repeated feedback has the bytes of the first, also from the bytes of its decision", { timeout: 120_000 }, async () => {
  const user = await User.open(server.url, { committee: id });
  const bandit = await user.bandit(await create());
  const decision = await bandit.decide(CONTEXTS);
  const before = Decision.fromBytes(decision.toBytes());
  // A relay that loses the answer to the first feedback.
  const bodies = [];
  const relay = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const [method, headers] = [request.method, { "content-type": "application/octet-stream" }];
    const body = method === "POST" ? Buffer.concat(parts) : undefined;
    const answer = await fetch(server.url + request.url, { method, body, headers });
    if (request.url.endsWith("/feedback")) bodies.push(body.toString("hex"));
    if (bodies.length === 1) return void request.socket.destroy();
    response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
  });
  await new Promise((resolve) => relay.listen(0, "127.0.0.1", resolve));
  try {
    const through = await User.open(`http://127.0.0.1:${relay.address().port}`, { committee: id, session: user.session() });
    const same = await through.bandit(bandit.id);
    await assert.rejects(same.feedback(decision, 1), named(UnreachableError, /no answer/));
    await same.feedback(decision, 1);
    await bandit.feedback(decision.toBytes(), -1);
    assert.equal(new Set(bodies).size, 1);
    assert.equal(bodies.length, 2);
    assert.equal((await bandit.status()).unlearnt, 1);
    // The control: another message about the same decision is refused.
    await assert.rejects(bandit.feedback(before, 1), named(RefusedError, /decision/));
  } finally {
    relay.closeAllConnections();
    relay.close();
  }
});

test("attack_a_server_has_another_committee", async () => {
  const other = "ab".repeat(32);
  await assert.rejects(User.open(server.url, { committee: other }), named(KeysError, /another committee than the one that was named/));
  for (const committee of [undefined, "", id.slice(1), `${id}0`, "x".repeat(64), 5]) {
    await assert.rejects(User.open(server.url, { committee }), named(ValueError, /64 hexadecimal digits/));
  }
  // A manifest whose signatures are of something else, and one that is cut off.
  const right = Buffer.from(await (await fetch(`${server.url}/v1/committee`)).arrayBuffer());
  const answers = [Buffer.from(right), right.subarray(0, -1), Buffer.alloc(1 << 22)];
  // The last byte of the last signature: after it there are no moves.
  answers[0][right.length - 2] ^= 1;
  const liar = createServer((_, response) => response.writeHead(200).end(answers.shift()));
  await new Promise((resolve) => liar.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${liar.address().port}`;
  for (const message of [/has not signed/, /form of its kind/, /longer than 2097152 bytes/]) {
    await assert.rejects(User.open(url, { committee: id }), named(AnswerError, message));
  }
  liar.closeAllConnections();
  liar.close();
  const user = await User.open(server.url, { committee: id });
  const session = user.session();
  for (const [given, message] of [
    [session.slice(1), /no session/],
    [new Uint8Array(), /no session/],
    [session.map((byte, at) => (at < 32 ? byte ^ 1 : byte)), /one with another committee/],
  ]) {
    await assert.rejects(User.open(server.url, { committee: id, session: given }), named(KeysError, message));
  }
  assert.deepEqual((await User.open(server.url, { committee: id, session: session.buffer })).session(), session, "the control");
});

test("what is wrong is refused by its name, and nothing is sent", async () => {
  const seen = [];
  const user = await User.open(server.url, { committee: id, observe: (exchange) => seen.push(exchange) });
  const bandit = await user.bandit(await create({ d: 2, k: 2, l: 2 }));
  const decision = await bandit.decide([[2, 0], [0, -2]]);
  assert.deepEqual(seen.map(({ path, status }) => `${path.replace(bandit.id, "ID")} ${status}`), [
    "committee 200", "committee/sessions 201", "bandits/ID 200", "bandits/ID/decisions 200",
  ]);
  assert.deepEqual([decision.sent, decision.received], [seen[3].sent.bytes, seen[3].received.bytes]);
  assert.equal(decision.sent, 8 * 2 * (2 + 3) + 16 * MEMBERS + 48);
  for (const [contexts, message] of [
    [[[1, 0]], /2 arms, and the contexts have 1 rows/],
    [[[1, 0], [1, 0, 0]], /row 2 has 3 numbers, and the bandit has 2 features/],
    [[[1, 0], [1.5, 1.5]], /row 2 is longer than 2/],
    [[[1, 0], [1, "0"]], /row 2, column 2/],
    [[[1, NaN], [1, 0]], /row 1, column 2/],
    [undefined, /must be an array/],
  ]) {
    await assert.rejects(bandit.decide(contexts), named(ValueError, message), String(message));
  }
  for (const reward of [1.5, NaN, "1", undefined]) await assert.rejects(bandit.feedback(decision, reward), named(ValueError, /the reward must be/));
  const stored = JSON.parse(new TextDecoder().decode(decision.toBytes()).slice(10));
  assert.deepEqual(Object.keys(stored), ["bandit", "session", "decision"], "neither arm nor contexts");
  const bytes = (changed) => new TextEncoder().encode(`HELBACOM\x01\0${JSON.stringify({ ...stored, ...changed })}`);
  for (const [given, message] of [
    [new Uint8Array(9), /no decision of a committee/],
    [bytes({ decision: "../x" }), /no decision of a committee/],
    [bytes({ bandit: "00" }), /another bandit/],
    [bytes({ session: "00" }), /another session/],
    [bytes({ decision: "00" }), /64 hexadecimal digits/],
  ]) {
    await assert.rejects(bandit.feedback(given, 1), named(ValueError, message));
    await assert.rejects(bandit.erase(given), named(ValueError, message));
  }
  await assert.rejects(bandit.erase("x"), named(ValueError, /64 hexadecimal digits/));
  for (const [refused, message] of [
    [bandit.decide(CONTEXTS, { epsilon: 0.1 }), /^epsilon: members learn from the arm that they chose/],
    [bandit.decide(CONTEXTS, { baseline: 0 }), /^baseline: /],
    [bandit.decide(CONTEXTS, { counters: {} }), /^counters: /],
    [bandit.counters(), /^counters: members count no arms/],
    [bandit.raise(), /^raise: /],
    [bandit.feedback(decision, 1, { rewards: [] }), /^rewards: there is no such option/],
    [User.open(server.url, { committee: id, repeats: 3 }), /^repeats: /],
    [User.open(server.url, { committee: id, keys: new Uint8Array() }), /^keys: /],
    [user.bandit("../committee"), /id/],
    [User.open("ftp://a", { committee: id }), /https/],
    [User.open(server.url, { committee: id, token: "x" }), /token/],
  ]) {
    await assert.rejects(refused, named(ValueError, message), String(message));
  }
  assert.equal(seen.length, 4, "nothing was sent");
  await assert.rejects(user.bandit("ab".repeat(16)), (error) => error instanceof RefusedError && error.status === 404 && error.reason.length > 0);
  await assert.rejects(bandit.erase("ab".repeat(32)), (error) => error instanceof RefusedError && error.status === 404);
  await assert.rejects(User.open("http://127.0.0.1:1", { committee: id }), named(UnreachableError, /127\.0\.0\.1:1/));
  await assert.rejects(bandit.decide(CONTEXTS, { signal: AbortSignal.abort() }), (error) => error.name === "AbortError");
  const clear = await fetch(`${server.url}/v1/bandits`, {
    method: "POST", body: JSON.stringify({ policy: "ucb1", arms: 2 }), headers: { "content-type": "application/json" },
  });
  await assert.rejects(user.bandit((await clear.json()).id), named(ValueError, /none of a committee/));
  user.free();
  await assert.rejects(bandit.decide(CONTEXTS), named(ClosedError, /freed/));
  assert.throws(() => user.session(), named(ClosedError, /freed/));
});

test("every exported class is declared, and nothing of encrypted bandits is exported", () => {
  const declared = readFileSync(new URL("../js/committee.d.ts", import.meta.url), "utf8");
  const classes = [...declared.matchAll(/^export class (\w+)/gm)].map(([, name]) => name);
  const errors = /^export \{ ([\w, ]+) \}/m.exec(declared)[1].split(", ");
  assert.deepEqual([...classes, ...errors].sort(), Object.keys(committee).filter((name) => /^[A-Z]/.test(name)).sort());
  assert.ok([Client, Keys].every((other) => !Object.values(committee).includes(other)));
});

// In the page: a folder of IndexedDB with what it keeps.
const KEEPS = `
  const { Decision, User } = await import("/js/committee.js");
  const settled = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const opening = indexedDB.open("user", 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore("kept");
  const database = await settled(opening);
  const kept = (mode) => database.transaction("kept", mode).objectStore("kept");
  const keep = (name, value) => settled(kept("readwrite").put(value, name));
  const found = (name) => settled(kept("readonly").get(name));
  const [server, committee, id] = arguments_;`;
const inPage = (script, ...given) => browser.run(`const arguments_ = arguments; return (async () => {${KEEPS}${script}})();`, ...given);

test("a page decides, is loaded again, and goes on with its session", { timeout: 300_000 }, async () => {
  // As many features and arms as the purchases of the other measurements.
  const bandit = await create({ d: 7, k: 4 });
  pages.fetched.length = 0;
  await browser.open(`${pages.url}/`);
  const first = await inPage(`
    const user = await User.open(server, { committee });
    await keep("session", user.session());
    const bandit = await user.bandit(id);
    const contexts = Array.from({ length: 4 }, (_, a) => Array.from({ length: 7 }, (_, i) => Math.sin(1 + 5 * a + 11 * i) / 3));
    const [requests, all] = [[], []];
    let decision;
    for (let round = 0; round < 40; round++) {
      decision = await bandit.decide(contexts);
      requests.push(decision.requestMs);
      all.push(decision.deviceMs);
    }
    await keep("decision", decision.toBytes());
    const foreign = await User.open(server, { committee: "ab".repeat(32) }).catch((error) => error.code);
    return { requests, all, foreign, sent: decision.sent, id: decision.id };`, server.url, id, bandit);
  assert.equal(first.foreign, "KeysError");
  assert.equal(first.sent, 8 * 4 * (7 + 3) + 16 * MEMBERS + 48);
  const wasm = () => pages.fetched.filter((asked) => /wasm/.test(asked));
  assert.deepEqual(wasm(), ["/pkg/committee_bg.wasm"]);
  const scripts = pages.fetched.filter((asked) => asked.endsWith(".js")).sort();
  assert.deepEqual(scripts, ["/js/committee.js", "/js/errors.js", "/js/http.js", "/js/values.js", "/pkg/committee.js"]);
  for (const [what, values] of [["a request", first.requests], ["a request and its answer", first.all]]) {
    const [began, median, most] = [values[0], values.sort((a, b) => a - b)[20], values[39]].map((ms) => ms.toFixed(1));
    const times = `the first ${began} ms, median ${median} ms, longest ${most} ms`;
    console.log(`${what} of 7 features and 4 arms with ${THRESHOLD} of ${MEMBERS}, computed in Chromium: ${times}`);
  }

  await browser.open("about:blank");
  await browser.open(`${pages.url}/`);
  const second = await inPage(`
    const none = await User.open(server, { committee });
    const user = await User.open(server, { committee, session: await found("session") });
    const bandit = await user.bandit(id);
    const stored = await found("decision");
    const other = await (await none.bandit(id)).feedback(stored, 1).catch((error) => error.code);
    const { decision } = await bandit.feedback(stored, 1);
    const counted = (await bandit.status()).unlearnt;
    await bandit.erase(decision);
    const next = await bandit.decide(Array(4).fill(Array(7).fill(0.1)));
    const status = await bandit.status();
    return { other, decision, counted, erased: status.unlearnt, arm: next.arm, round: next.round };`, server.url, id, bandit);
  assert.ok(second.arm < 4);
  assert.deepEqual({ ...second, arm: 0 }, { other: "ValueError", decision: first.id, counted: 1, erased: 0, arm: 0, round: 40 });
  const complaints = (await browser.complaints()).filter(({ message }) => !/favicon/.test(message));
  assert.deepEqual(complaints, []);
  // The control: the other device's page loads its own module, and would here too.
  const names = readdirSync(new URL("../pkg/", import.meta.url)).filter((name) => name.endsWith(".wasm"));
  assert.deepEqual(names.sort(), ["committee_bg.wasm", "portable_bg.wasm", "simd128_bg.wasm"]);
});

test("a session goes on after a move of the committee", { timeout: 300_000 }, async () => {
  const user = await User.open(server.url, { committee: id });
  const session = user.session();
  const bandit = await user.bandit(await create());
  const before = await bandit.decide(CONTEXTS);
  const next = await makeKeys("next-", "--follows", manifest(""));
  server.stop();
  const host = new URL(server.url).host;
  server = await startServer(["--committee", manifest(""), "--next-committee", manifest("next-"), "--state", path("state")], host);
  serving("next-");
  for (const child of members) child.kill("SIGKILL");
  const leaving = serving("", "--leaves-for", manifest("next-"));
  assert.deepEqual(await Promise.all(leaving.map((child) => once(child, "exit"))), leaving.map(() => [0, null]));
  assert.equal((await bandit.decide(CONTEXTS)).round, 0, "the first of the next committee");
  assert.deepEqual(user.session(), session);
  await assert.rejects(bandit.feedback(before, 1), named(ValueError, /another session/));
  for (const committee of [id, next]) {
    const again = await User.open(server.url, { committee, session });
    const played = await (await again.bandit(bandit.id)).decide(CONTEXTS);
    assert.equal((await bandit.feedback(played, 1)).decision, played.id, "one session");
  }
  const other = await User.open(server.url, { committee: next });
  assert.equal((await other.bandit(bandit.id)).id, bandit.id);
});
