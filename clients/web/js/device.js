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
  #keys;
  #connections = new Map();
  #bandits = new Map();
  #exchange;

  /** `exchange` is told of every exchange of clients that observe. */
  constructor(device, exchange) {
    this.#device = device;
    this.#exchange = exchange;
  }

  /** Opens the secret bundle. */
  open({ bytes, passphrase, toy, repeats }) {
    const secret = passphrase === undefined ? undefined : new TextEncoder().encode(passphrase);
    try {
      this.#keys = this.#device.Keys.open(bytes, secret, toy, repeats);
    } finally {
      // The module zeroes its copies.
      bytes.fill(0);
      secret?.fill(0);
    }
    return { ...JSON.parse(this.#keys.describe()), kernels: this.#device.kernels() };
  }

  /** The value of the header `Authorization` that the bundle gives. It does not leave the worker. */
  authorization() {
    return this.#keys.authorization();
  }

  /** Opens a connection to a server, and checks that it has the public half of the keys. */
  async connect({ client, server, token, timeout, observe }, signal) {
    if (token !== undefined && !/^[0-9a-f]{64}$/i.test(token)) {
      throw named("ValueError", "a token must have 64 hexadecimal digits");
    }
    const authorization = token === undefined ? this.#keys.authorization() : `Bearer ${token}`;
    const told = observe ? (exchange) => this.#exchange(client, exchange) : undefined;
    const connection = new Connection(server, authorization, timeout, told);
    this.#keys.checkServer(await connection.json("GET", "keys", { signal, accept: this.#refusal }));
    this.#connections.set(client, connection);
  }

  /** Creates a bandit. */
  async create({ client, features, arms, changes }, signal) {
    const connection = this.#connections.get(client);
    const body = this.#device.configuration(features, arms, JSON.stringify(changes));
    const created = await connection.json("POST", "bandits", { body, signal, accept: this.#refusal });
    return this.#join(connection, created, body);
  }

  /** Finds a bandit. */
  async bandit({ client, id }, signal) {
    const connection = this.#connections.get(client);
    const view = JSON.parse(await connection.json("GET", `bandits/${checkedId(id)}`, { signal, accept: this.#refusal }));
    if (!view.created?.plan) throw named("ValueError", `bandit ${id} has a clear policy, and needs no keys`);
    return this.#join(connection, JSON.stringify(view.created));
  }

  /** The encrypted bandits that the token gives access to. */
  async bandits({ client }, signal) {
    const connection = this.#connections.get(client);
    const listed = JSON.parse(await connection.json("GET", "bandits", { signal, accept: this.#refusal }));
    return listed.filter((bandit) => bandit.plan).map(({ id, config }) => ({ id, features: config.linear.d, arms: config.linear.k }));
  }

  /** The state of a bandit. */
  async status({ bandit }, signal) {
    const { connection, device } = this.#bandits.get(bandit);
    const view = await connection.json("GET", `bandits/${device.id()}`, { signal, accept: this.#refusal });
    return JSON.parse(view).status;
  }

  /** Deletes a bandit. */
  async delete({ bandit }, signal) {
    const { connection, device } = this.#bandits.get(bandit);
    await connection.json("DELETE", `bandits/${device.id()}`, { signal, accept: this.#refusal });
  }

  /** Asks for decisions, raises if the server asks for it, and answers the tasks that wait. */
  async decide({ bandit, contexts }, signal) {
    const { connection, device } = this.#bandits.get(bandit);
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
    const { connection, device } = this.#bandits.get(bandit);
    const feedback = device.feedback(sealed, reward);
    const path = `bandits/${device.id()}/decisions/${feedback.decision()}/feedback`;
    const body = feedback.body();
    feedback.free();
    const { response, bytes } = await connection.binary(path, body, { signal, most: 1 << 16 });
    if (!response.ok) throw await this.#refusal(response, bytes);
    return JSON.parse(new TextDecoder().decode(bytes));
  }

  /** Zeroes the keys and all that was made of them. */
  free() {
    for (const { device } of this.#bandits.values()) device.free();
    this.#bandits.clear();
    this.#keys?.free();
    this.#keys = undefined;
  }

  #join(connection, created, asked) {
    const device = this.#keys.join(created, asked);
    checkedId(device.id());
    const bandit = randomId();
    this.#bandits.set(bandit, { connection, device });
    const { config, label } = JSON.parse(created);
    return { bandit, id: device.id(), mostDecisions: device.mostDecisions(), config, label };
  }

  #refusal = async (response, bytes) => {
    let problem = {};
    try {
      problem = JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      // From a proxy, or another kind of server.
    }
    const { title = response.statusText, detail = "the answer has no problem document", reason = null } = problem;
    const message = `the server refused (${response.status}, ${title}): ${detail}`;
    return Object.assign(named("RefusedError", message), { status: response.status, reason, title, detail });
  };
}
