// What the worker does for each message of the page: the device computes, `Connection` sends. It runs in a worker or, for tests, in any
// other place that has `fetch`.

import { checkedId, Connection, randomId } from "./http.js";

function named(name, message) {
  return Object.assign(new Error(message), { name });
}

/** Whether the engine runs vector instructions of 128 bits: a module with one, which does nothing. */
export function hasVectors() {
  // i32.const 0, i8x16.splat, drop
  const module = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 65, 0, 253, 15, 26, 11];
  return WebAssembly.validate(new Uint8Array(module));
}

/** Seconds for which a request waits for a task. */
const WAIT = 20;
/** The least and the longest pause in milliseconds after a request for tasks that failed or brought none. */
const [FIRST_PAUSE, LONGEST_PAUSE] = [500, 30_000];

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    const abort = () => (clearTimeout(timer), reject(named("AbortError", "the request was aborted")));
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** The operations of one worker, which holds one set of keys. `device` is a module of `pkg`, already started. */
export class Operations {
  #device;
  /** The keys that were opened, and those that followed them after rotations. The last are in use; calls may be using the others. */
  #keys = [];
  #connections = new Map();
  /** By a random name: `{ connection, id, config, device, keys }`, where `device` has joined the bandit with `keys`. */
  #bandits = new Map();
  /** Devices of earlier keys, which calls may be using. They are freed with the rest. */
  #formerDevices = [];
  #exchange;

  /** `exchange` is told of every exchange of clients that observe. */
  constructor(device, exchange) {
    this.#device = device;
    this.#exchange = exchange;
  }

  get #current() {
    return this.#keys.at(-1);
  }

  /** Opens a secret bundle, or a committee's bundle for users. */
  open({ bytes, passphrase, toy, repeats, memory }) {
    const secret = passphrase === undefined ? undefined : new TextEncoder().encode(passphrase);
    try {
      this.#keys = [this.#device.Keys.open(bytes, secret, toy, repeats, memory)];
    } finally {
      // The module zeroes its copies.
      bytes.fill(0);
      secret?.fill(0);
      memory?.fill(0);
    }
    return { ...JSON.parse(this.#current.describe()), kernels: this.#device.kernels() };
  }

  /** What the page stores of keys that a committee holds. */
  memory() {
    return this.#current.memory();
  }

  /** The value of the header `Authorization` that the bundle gives. It does not leave the worker. */
  authorization() {
    return this.#current.authorization();
  }

  /** Opens a connection to a server, and checks that it has the public half of the keys. */
  async connect({ client, server, token, timeout, observe }, signal) {
    if (token !== undefined && !/^[0-9a-f]{64}$/i.test(token)) {
      throw named("ValueError", "a token must have 64 hexadecimal digits");
    }
    const authorization = () => (token === undefined ? this.#current.authorization() : `Bearer ${token}`);
    const told = observe ? (exchange) => this.#exchange(client, exchange) : undefined;
    const connection = new Connection(server, authorization, timeout, told);
    await this.#goingOn(connection, signal, async () => {
      const manifest = await connection.json("GET", "keys", { signal, accept: this.#refusal });
      // Those in use now: others may have been followed meanwhile.
      this.#current.checkServer(manifest);
    });
    this.#connections.set(client, connection);
  }

  /** Creates a bandit. */
  async create({ client, features, arms, changes }, signal) {
    const connection = this.#connections.get(client);
    const body = this.#device.configuration(features, arms, JSON.stringify(changes));
    const [keys, created] = await this.#goingOn(connection, signal, async () => [
      this.#current,
      await connection.json("POST", "bandits", { body, signal, accept: this.#refusal }),
    ]);
    if (keys === this.#current) return this.#added(connection, created, { asked: body });
    // Other keys were followed meanwhile, to which the bandit has moved.
    const { id } = JSON.parse(created);
    return this.#added(connection, await this.#created(connection, id, signal), { id, asked: body });
  }

  /** Finds a bandit. */
  async bandit({ client, id }, signal) {
    const connection = this.#connections.get(client);
    return this.#goingOn(connection, signal, async () => this.#added(connection, await this.#created(connection, id, signal), { id }));
  }

  /** The encrypted bandits that the token gives access to. */
  async bandits({ client }, signal) {
    const connection = this.#connections.get(client);
    const list = () => connection.json("GET", "bandits", { signal, accept: this.#refusal });
    const listed = JSON.parse(await this.#goingOn(connection, signal, list));
    return listed.filter((bandit) => bandit.plan).map(({ id, config }) => ({ id, features: config.linear.d, arms: config.linear.k }));
  }

  /** The state of a bandit. */
  async status({ bandit }, signal) {
    const { connection, id } = this.#bandits.get(bandit);
    const view = () => connection.json("GET", `bandits/${id}`, { signal, accept: this.#refusal });
    return JSON.parse(await this.#goingOn(connection, signal, view)).status;
  }

  /** Deletes a bandit. */
  async delete({ bandit }, signal) {
    const { connection, id } = this.#bandits.get(bandit);
    const remove = () => connection.json("DELETE", `bandits/${id}`, { signal, accept: this.#refusal });
    await this.#goingOn(connection, signal, remove);
  }

  /** Asks for decisions, raises if the server asks for it, and answers the tasks that wait. */
  async decide({ bandit, contexts }, signal) {
    return this.#withDevice(bandit, signal, (connection, device) => this.#decide(connection, device, contexts, signal));
  }

  async #decide(connection, device, contexts, signal) {
    let computed = 0;
    const compute = (work) => {
      const began = performance.now();
      try {
        return work();
      } finally {
        computed += performance.now() - began;
      }
    };
    const most = device.longestReply();
    const post = (path, body, decisions) => connection.binary(`bandits/${device.id()}/${path}`, body, { signal, most, decisions });
    const asking = compute(() => device.ask(contexts));
    let round;
    try {
      for (let path; (path = asking.path()) !== undefined; ) {
        if (path === "keys") {
          const manifest = await connection.json("GET", path, { signal, accept: this.#refusal });
          compute(() => device.answered(asking, new TextEncoder().encode(manifest)));
          continue;
        }
        const { response, bytes } = await post(path, asking.body(), asking.decisions());
        compute(() =>
          response.ok ? device.answered(asking, bytes) : device.refused(asking, response.status, response.statusText, bytes),
        );
      }
      round = compute(() => device.finish(asking, connection.server));
    } catch (error) {
      // `finish` has taken it otherwise.
      if (asking.__wbg_ptr) asking.free();
      throw error;
    }
    try {
      const raised = compute(() => device.raise(round));
      // The decisions count in any case, and the server gives the tasks to somebody else.
      if (raised) await post("raises", raised).catch(() => {});
      return Array.from({ length: round.count() }, (_, at) => ({
        ...JSON.parse(round.describe(at)),
        sealed: round.sealed(at),
        deviceMs: computed,
      }));
    } finally {
      round.free();
    }
  }

  /** Answers the tasks of a bandit until it is aborted, with growing pauses while the server cannot answer. */
  async raise({ bandit }, signal) {
    // Not by #withDevice: a committee has no raisers, and only its keys are followed by others.
    const { connection, device } = this.#bandits.get(bandit);
    const [path, most] = [`bandits/${device.id()}/raises`, device.longestReply()];
    for (let wait = FIRST_PAUSE; ; ) {
      try {
        const { response, bytes } = await connection.tasks(path, WAIT, { signal, most });
        if (!response.ok) throw await this.#refusal(response, bytes);
        if (response.status === 200) {
          const { response, bytes: body } = await connection.binary(path, device.raiseTasks(bytes), { signal, most });
          // The task is over if another holder of the key was faster.
          if (!response.ok && response.status !== 409) throw await this.#refusal(response, body);
        }
        wait = FIRST_PAUSE;
      } catch (error) {
        const later = error.name === "UnreachableError" || error.status >= 500 || [408, 429].includes(error.status);
        if (!later) throw error;
        // Between a half and the whole, so that many pages do not come back at once.
        await pause(wait * (0.5 + Math.random() / 2), signal);
        wait = Math.min(2 * wait, LONGEST_PAUSE);
      }
    }
  }

  /** Returns the reward of a decision. */
  async feedback({ bandit, sealed, reward }, signal) {
    return this.#withDevice(bandit, signal, async (connection, device) => {
      const feedback = device.feedback(sealed, reward);
      const path = `bandits/${device.id()}/decisions/${feedback.decision()}/feedback`;
      const body = feedback.body();
      feedback.free();
      const { response, bytes } = await connection.binary(path, body, { signal, most: 1 << 16 });
      if (!response.ok) throw await this.#refusal(response, bytes);
      return JSON.parse(new TextDecoder().decode(bytes));
    });
  }

  /** Zeroes the keys and all that was made of them. */
  free() {
    for (const { device } of this.#bandits.values()) device.free();
    for (const made of [...this.#formerDevices, ...this.#keys]) made.free();
    this.#bandits.clear();
    this.#formerDevices = [];
    this.#keys = [];
  }

  /** What `work` returns. If it fails as after a rotation of the committee, it is called again with the keys that follow. */
  async #goingOn(connection, signal, work) {
    const keys = this.#current;
    try {
      return await work();
    } catch (error) {
      if (!keys.mayBeRotation(error.name, error.reason)) throw error;
      if (!(await this.#follow(connection, keys, signal))) throw error;
      return await work();
    }
  }

  /** Whether other keys than `keys` are in use, or come into use now, because the server has those that follow. */
  async #follow(connection, keys, signal) {
    if (keys !== this.#current) return true;
    const authorization = keys.authorization();
    // The token of the bundle is not for a server that was given another one.
    if (connection.authorization() !== authorization) return false;
    const { response, bytes } = await connection.successor(authorization, { signal, most: keys.longestSuccessor() });
    // Another call may have followed them meanwhile.
    if (keys !== this.#current) return true;
    if (this.#device.hasNoSuccessor(response.status)) return false;
    if (!response.ok) throw await this.#refusal(response, bytes);
    try {
      this.#keys.push(keys.followedBy(bytes));
    } finally {
      // It has the next token.
      bytes.fill(0);
    }
    return true;
  }

  /** What `work` returns for the connection and the device of a bandit, with the keys in use. */
  #withDevice(bandit, signal, work) {
    const { connection, id, config } = this.#bandits.get(bandit);
    return this.#goingOn(connection, signal, async () => {
      if (this.#bandits.get(bandit).keys !== this.#current) {
        const created = await this.#created(connection, id, signal);
        const { device: former, keys } = this.#bandits.get(bandit);
        // Another call may have joined meanwhile.
        if (keys !== this.#current) {
          this.#bandits.set(bandit, this.#joined(connection, created, { id, asked: JSON.stringify(config) }));
          this.#formerDevices.push(former);
        }
      }
      return work(connection, this.#bandits.get(bandit).device);
    });
  }

  /** What the server says that was created under an id, as JSON. */
  async #created(connection, id, signal) {
    const view = JSON.parse(await connection.json("GET", `bandits/${checkedId(id)}`, { signal, accept: this.#refusal }));
    if (!view.created?.plan) throw named("ValueError", `bandit ${id} has a clear policy, and needs no keys`);
    return JSON.stringify(view.created);
  }

  /** The entry of a bandit that is joined with the keys in use: the one with the id and the configuration that were asked for, if any. */
  #joined(connection, created, { id, asked }) {
    const keys = this.#current;
    const device = keys.join(created, asked);
    if (id !== undefined && device.id() !== id) {
      device.free();
      throw named("AnswerError", `the server answers with another bandit than ${id}`);
    }
    return { connection, id: checkedId(device.id()), config: JSON.parse(created).config, device, keys };
  }

  /** Joins a bandit, and gives it a random name by which the page calls it. */
  #added(connection, created, asked) {
    const bandit = randomId();
    const joined = this.#joined(connection, created, asked);
    this.#bandits.set(bandit, joined);
    const { label } = JSON.parse(created);
    return { bandit, id: joined.id, mostDecisions: joined.device.mostDecisions(), config: joined.config, label };
  }

  #refusal = async (response, bytes) => {
    let problem = {};
    try {
      problem = JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      // From a proxy, or another kind of server.
    }
    // Whatever a server or a proxy sends, these are text.
    const text = (name, otherwise) => (typeof problem?.[name] === "string" ? problem[name] : otherwise);
    const [title, reason] = [text("title", response.statusText), text("reason", null)];
    const detail = text("detail", "the answer has no problem document");
    const message = `the server refused (${response.status}, ${title}): ${detail}`;
    return Object.assign(named("RefusedError", message), { status: response.status, reason, title, detail });
  };
}
