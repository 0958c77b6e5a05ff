// A user of a committee. What a decision takes is computed within milliseconds, so that it runs in the page itself: there is no
// worker, and nothing of encrypted bandits is loaded. See README.md.

import * as module from "../pkg/committee.js";
import { ClosedError, fromFields, toFields } from "./errors.js";
import { bearer, checkedId, Connection, named, observed, refusal } from "./http.js";
import { number, table } from "./values.js";

export * from "./errors.js";

/** The most bytes of receipts and of an answer. */
const MOST = 1 << 16;
/** The most bytes of a manifest with the moves that have led to it. */
const MOST_MANIFEST = 2 << 20;
/** The first bytes of a stored decision; JSON follows. */
const MAGIC = "HELBACOM\x01\0";

/** What bandits of other kinds have, and those of a committee do not. */
const NOT_HERE = {
  epsilon: "members learn from the arm that they chose, so that the device draws no other",
  baseline: "members choose the arm, and compare it with no other",
  counters: "members count no arms",
  raise: "numbers of a committee need no raise",
  repeats: "numbers of a committee are exact, and no decision is asked for again",
  policy: "members compute HELBA alone",
  keys: "a user of a committee has no keys but those of its session",
};

// A literal address, which bundlers find and rewrite.
const address = () => new URL("../pkg/committee_bg.wasm", import.meta.url);
let starting, failed;

/** The module, compiled. A failure to load it is not kept. */
async function start() {
  starting ??= module.default({ module_or_path: address() }).catch((error) => {
    starting = undefined;
    throw named("UnreachableError", `the module of the device cannot be loaded: ${error.message}`);
  });
  await starting;
}

/** What `work` returns. What it throws becomes an error of this package. */
async function typed(work) {
  try {
    if (failed) throw failed;
    return await work();
  } catch (error) {
    // After a panic the memory of the module cannot be relied on.
    if (error instanceof WebAssembly.RuntimeError) failed = new ClosedError(`the device failed, so load the page again: ${error.message}`);
    throw failed ?? fromFields(toFields(error));
  }
}

/** Refuses options by their names. */
function refuseOthers(options) {
  const name = Object.keys(options).find((name) => options[name] !== undefined);
  if (name === undefined) return;
  const why = Object.hasOwn(NOT_HERE, name) ? NOT_HERE[name] : "there is no such option";
  throw named("ValueError", `${name}: ${why}; leave it out`);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw named("AnswerError", "the answer of the server is no JSON");
  }
}

const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));

/** A device with a session with the named committee, or with the one to which it has moved. */
async function deviceOf(connection, committee, session, signal) {
  const { response, bytes: manifest } = await connection.send("GET", "committee", { signal, most: MOST_MANIFEST });
  if (!response.ok) throw refusal(response, manifest);
  return session === undefined ? module.Device.begin(manifest, committee) : module.Device.restore(manifest, committee, session);
}

/** Begins the session of a device with the server. */
async function begin(connection, device, signal) {
  try {
    device.checkReceipts(await connection.exchange("committee/sessions", device.begins(), { signal, most: MOST }));
    return device;
  } catch (error) {
    device.free();
    throw error;
  }
}

/** A session of a device with a committee, and the server that carries its messages. */
export class User {
  #connection;
  #device;
  #beginning;

  constructor(connection, device, committee) {
    this.#connection = connection;
    this.#device = device;
    Object.assign(this, { committee });
  }

  static async open(url, { committee, session, token, timeout = 300_000, observe, signal, ...others } = {}) {
    return typed(async () => {
      refuseOthers(others);
      if (typeof committee !== "string" || !/^[0-9a-f]{64}$/i.test(committee)) {
        const why = "64 hexadecimal digits that its members print: without it the server would choose who they are";
        throw named("ValueError", `committee must be the id of the committee, ${why}`);
      }
      const authorization = token === undefined ? undefined : bearer(token);
      const connection = new Connection(String(url), () => ({ authorization }), timeout, observe && ((told) => observe(observed(told))));
      await start();
      const bytes = session === undefined || ArrayBuffer.isView(session) ? session : new Uint8Array(session);
      const device = await deviceOf(connection, committee, bytes, signal);
      return new User(connection, bytes === undefined ? await begin(connection, device, signal) : device, committee);
    });
  }

  session() {
    return User.device(this).session();
  }

  async bandit(id, { signal, ...others } = {}) {
    return typed(async () => {
      refuseOthers(others);
      const text = await this.#connection.json("GET", `bandits/${checkedId(id)}`, { signal });
      const view = parsed(text);
      if (typeof view?.committee !== "string") throw named("ValueError", "the bandit is none of a committee: `Client` opens it");
      if (view.committee !== User.device(this).committee()) await this.#again(User.device(this), signal);
      const joined = User.device(this).join(text);
      if (joined.id() !== id) throw named("AnswerError", `the server answers with another bandit than ${id}`);
      return new Bandit(this, joined, view);
    });
  }

  /** Zeroes the keys of the session here. */
  free() {
    this.#device?.free();
    this.#device = undefined;
  }

  /** Begins the session again where the server does not know it any more: after a move of the committee, with the next one. */
  #again(before, signal) {
    if (this.#device !== before) return undefined;
    this.#beginning ??= deviceOf(this.#connection, this.committee, before.session(), signal)
      .then((device) => begin(this.#connection, device, signal))
      .then((device) => {
        // Who waits for an answer reads it with the device before.
        if (this.#device === before) this.#device = device;
        else device.free();
      })
      .finally(() => (this.#beginning = undefined));
    return this.#beginning;
  }

  /** For this file: what `tell` returns for the device, also if the server does not know the session any more. */
  static async told(user, tell, signal) {
    const device = User.device(user);
    try {
      return await tell(device);
    } catch (error) {
      if (error.reason !== "unknown_session") throw error;
      await user.#again(device, signal);
      return tell(User.device(user));
    }
  }

  /** For this file. */
  static device(user) {
    if (user.#device === undefined) throw new ClosedError("the session was freed");
    return user.#device;
  }

  static connection(user) {
    return user.#connection;
  }
}

/** A bandit of a committee. */
export class Bandit {
  #user;
  #joined;

  constructor(user, joined, { config, sessions, decisions_a_session, rewards = null, name = null, tags = [] }) {
    this.#user = user;
    this.#joined = joined;
    const [id, features, arms] = [joined.id(), joined.features(), joined.arms()];
    Object.assign(this, { id, features, arms, config: parsed(config), sessions, decisions: decisions_a_session, rewards, name, tags });
  }

  async decide(contexts, { signal, ...others } = {}) {
    return typed(async () => {
      refuseOthers(others);
      const rows = table(contexts);
      const other = rows.findIndex((row) => row.length !== this.features);
      if (rows.length !== this.arms) throw named("ValueError", `the bandit has ${this.arms} arms, and the contexts have ${rows.length} rows`);
      if (other >= 0) throw named("ValueError", `row ${other + 1} has ${rows[other].length} numbers, and the bandit has ${this.features} features`);
      let ms, requestMs, request, answer;
      const compute = (work) => {
        const began = performance.now();
        const done = work();
        ms += performance.now() - began;
        return done;
      };
      const opened = await User.told(this.#user, async (device) => {
        ms = 0;
        request = compute(() => device.request(this.#joined, Float64Array.from(rows.flat())));
        requestMs = ms;
        answer = await User.connection(this.#user).exchange(`bandits/${this.id}/decisions`, request, { signal, most: MOST });
        return compute(() => device.open(this.#joined, request, answer));
      }, signal);
      const [id, arm, round] = [opened.label(), opened.arm(), opened.round()];
      opened.free();
      const stored = { bandit: this.id, session: User.device(this.#user).sessionId(), decision: id };
      return new Decision(stored, { id, arm, round, sent: request.length, received: answer.length, requestMs, deviceMs: ms });
    });
  }

  async feedback(decision, reward, { signal, ...others } = {}) {
    return typed(async () => {
      refuseOthers(others);
      const stored = this.#stored(decision);
      number(reward, "the reward");
      const [low, high] = this.rewards ?? [-1, 1];
      if (reward < low || reward > high) throw named("ValueError", `the reward must be from ${low} to ${high}`);
      // Members take a second feedback on a decision for another one, unless it has the bytes of the first.
      stored.feedback ??= toHex(User.device(this.#user).feedback(stored.decision, reward));
      const path = `bandits/${this.id}/decisions/${stored.decision}/feedback`;
      const sent = fromHex(stored.feedback);
      await User.told(this.#user, () => User.connection(this.#user).exchange(path, sent, { signal, most: MOST }), signal);
      return { decision: stored.decision };
    });
  }

  async erase(decision, { signal, ...others } = {}) {
    return typed(async () => {
      refuseOthers(others);
      const label = typeof decision === "string" ? decision : this.#stored(decision).decision;
      await User.told(this.#user, (device) => {
        const path = `bandits/${this.id}/decisions/${label}/feedback?session=${device.sessionId()}`;
        const headers = { "helba-erasure": device.erasure(label) };
        return User.connection(this.#user).json("DELETE", path, { headers, signal });
      }, signal);
      return { decision: label };
    });
  }

  async status({ signal, ...others } = {}) {
    return typed(async () => {
      refuseOthers(others);
      const view = parsed(await User.connection(this.#user).json("GET", `bandits/${this.id}`, { signal }));
      const { updates, feedbacks, decisions, waiting, unlearnt, open, slots, here, needed } = view;
      return { updates, feedbacks, decisions, waiting, unlearnt, open, slots, here, needed };
    });
  }

  /** Not of a committee, and refused by its name. */
  async counters() {
    return typed(() => refuseOthers({ counters: true }));
  }

  async raise() {
    return typed(() => refuseOthers({ raise: true }));
  }

  /** What is stored of a decision of this bandit and session. */
  #stored(decision) {
    const stored = Decision.stored(decision instanceof Decision ? decision : Decision.fromBytes(decision));
    if (stored.bandit !== this.id) throw named("ValueError", "the decision is one of another bandit");
    if (stored.session !== User.device(this.#user).sessionId()) throw named("ValueError", "the decision is one of another session");
    return stored;
  }
}

/** A decision that waits for its reward. */
export class Decision {
  #stored;

  constructor(stored, fields) {
    this.#stored = stored;
    Object.assign(this, fields);
  }

  toBytes() {
    return new TextEncoder().encode(MAGIC + JSON.stringify(this.#stored));
  }

  static fromBytes(bytes) {
    const text = new TextDecoder().decode(bytes);
    let stored;
    try {
      stored = JSON.parse(text.startsWith(MAGIC) ? text.slice(MAGIC.length) : "");
    } catch {
      // As for other JSON.
    }
    const hex = (value) => typeof value === "string" && /^([0-9a-f]{2})+$/.test(value);
    const { bandit, session, decision, feedback } = stored ?? {};
    if (![bandit, session, decision, feedback ?? "00"].every(hex)) {
      throw fromFields({ name: "ValueError", message: "the bytes are no decision of a committee: give them unchanged" });
    }
    return new Decision({ bandit, session, decision, feedback }, { id: decision });
  }

  /** For `Bandit`. */
  static stored(decision) {
    return decision.#stored;
  }
}
