// What the worker does for each message of the page: the device computes, `Connection` sends. It runs in a worker or, for tests, in any
// other place that has `fetch`.

import { bearer, checkedId, Connection, named, randomId, refusal } from "./http.js";
import { number, table } from "./values.js";

/** The first bytes of a stored decision of a clear policy; JSON follows. */
const CLEAR = "HELBACLR\x01\0";

/** Whether the engine runs vector instructions of 128 bits: a module with one, which does nothing. */
export function hasVectors() {
  // i32.const 0, i8x16.splat, drop
  const module = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 65, 0, 253, 15, 26, 11];
  return WebAssembly.validate(new Uint8Array(module));
}

const CLEAR_BANDIT = "the bandit has a clear policy, which the server computes: this is for encrypted bandits";

/** Seconds for which a request waits for a task. */
const WAIT = 20;
/** The most bandits of a list. */
const MOST_LISTED = 100_000;
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
  /** By a random name: `{ connection, id, device }`, where `device` has joined the bandit; of a clear policy `{ connection, id }`. */
  #bandits = new Map();
  /** By a random name: transformations of named values. */
  #transforms = new Map();
  #exchange;

  /** `exchange` is called with the name of a client that observes, and each of its exchanges. */
  constructor(device, exchange) {
    this.#device = device;
    this.#exchange = exchange;
  }

  /** Opens a secret bundle, or with `user`, the bundle of a user with a key of its own, the secret of this user. */
  open({ bytes, passphrase, user, toy, repeats }) {
    const secret = passphrase === undefined ? undefined : new TextEncoder().encode(passphrase);
    const { Keys } = this.#device;
    try {
      if (user && secret) throw named("ValueError", "a passphrase is for a sealed secret bundle: give none with user");
      this.#keys = user ? Keys.openUser(bytes, user, toy, repeats) : Keys.open(bytes, secret, toy, repeats);
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

  /** Opens a connection to a server, and checks that it has the public half of the keys, if there are keys. */
  async connect({ client, server, token, timeout, observe }, signal) {
    const given = token === undefined ? undefined : bearer(token);
    const credentials = () =>
      given === undefined
        ? { authorization: this.#keys?.authorization(), "helba-enrolment": this.#keys?.enrolment() }
        : { authorization: given };
    const told = observe ? (exchange) => this.#exchange(client, exchange) : undefined;
    const connection = new Connection(server, credentials, timeout, told);
    if (this.#keys) this.#keys.checkServer(await connection.json("GET", "keys", { signal }));
    this.#connections.set(client, connection);
  }

  /** Creates a bandit: an encrypted one, or one with the clear policy `policy`. */
  async create({ client, features, arms, changes, policy, name, tags }, signal) {
    const connection = this.#connections.get(client);
    // The server creates one bandit, also if a request comes twice.
    const headers = { "idempotency-key": randomId() };
    const post = async (asked) => {
      const body = JSON.stringify({ ...asked, name, tags });
      return JSON.parse(await connection.json("POST", "bandits", { body, headers, signal }));
    };
    if (policy !== undefined) {
      return this.#addedClear(connection, await post({ ...changes, features, arms, policy }));
    }
    this.#needKeys();
    const asked = this.#device.configuration(features, arms, JSON.stringify(changes));
    const { name: given, tags: tagged, ...created } = await post(JSON.parse(asked));
    return this.#added(connection, { created, name: given, tags: tagged }, { asked });
  }

  /** Finds a bandit. */
  async bandit({ client, id }, signal) {
    const connection = this.#connections.get(client);
    const text = await connection.json("GET", `bandits/${checkedId(id)}`, { signal });
    const view = JSON.parse(text);
    if (view.created?.plan) return this.#added(connection, view, { id });
    if (view.created?.id !== id) throw named("AnswerError", `the server answers with another bandit than ${id}`);
    return this.#addedClear(connection, { ...view.created, name: view.name, tags: view.tags });
  }

  /** The bandits that the token gives access to; with this name and tag, if given. */
  async bandits({ client, name, tag }, signal) {
    const connection = this.#connections.get(client);
    const listed = [];
    for (;;) {
      const given = Object.entries({ name, tag, after: listed.at(-1)?.id }).filter(([, value]) => value !== undefined);
      const query = given.length > 0 ? `?${new URLSearchParams(given)}` : "";
      const page = JSON.parse(await connection.json("GET", `bandits${query}`, { signal }));
      if (page.length === 0) break;
      listed.push(...page);
      if (listed.length > MOST_LISTED) throw named("AnswerError", `the server lists more than ${MOST_LISTED} bandits: give a name or a tag`);
    }
    return listed.map(({ id, config, policy, parameters, name = null, tags = [] }) => {
      const [features = null, arms = null] = config ? [config.linear.d, config.linear.k] : [parameters?.features, parameters?.arms];
      return { id, encrypted: config !== undefined, policy: policy ?? null, features, arms, name, tags };
    });
  }

  /** The clear policies of the server. */
  async policies({ client }, signal) {
    return JSON.parse(await this.#connections.get(client).json("GET", "policies", { signal }));
  }

  /** The state of a bandit. */
  async status({ bandit }, signal) {
    const { created, name, tags, ...view } = JSON.parse(await this.#ofBandit(bandit, "GET", "", {}, signal));
    return view.status ?? view;
  }

  /** Changes name and tags, by a merge patch, and returns them. */
  async relabel({ bandit, patch }, signal) {
    const view = JSON.parse(await this.#ofBandit(bandit, "PATCH", "", { body: JSON.stringify(patch) }, signal));
    return { name: view.name ?? null, tags: view.tags ?? [] };
  }

  /** Creates a copy of an encrypted bandit. */
  async copy({ bandit: original, changes, name, tags }, signal) {
    const { connection } = this.#encrypted(original);
    const options = { body: JSON.stringify({ ...changes, name, tags }), headers: { "idempotency-key": randomId() } };
    const { name: given, tags: tagged, ...created } = JSON.parse(await this.#ofBandit(original, "POST", "/copy", options, signal));
    return this.#added(connection, { created, name: given, tags: tagged }, {});
  }

  /** The model of an encrypted bandit, in the clear. */
  async model({ bandit }, signal) {
    const { connection, device } = this.#encrypted(bandit);
    const { response, bytes } = await connection.send("GET", `bandits/${device.id()}/model`, { signal, most: device.longestModel() });
    if (!response.ok) throw refusal(response, bytes);
    return JSON.parse(device.export(bytes));
  }

  /** Freezes or thaws an encrypted bandit, and returns its counters. */
  async freeze({ bandit, frozen }, signal) {
    return JSON.parse(await this.#ofBandit(bandit, "PUT", "/frozen", { body: JSON.stringify({ frozen }) }, signal));
  }

  /** Deletes a bandit. */
  async delete({ bandit }, signal) {
    await this.#ofBandit(bandit, "DELETE", "", {}, signal);
  }

  /** Erases the feedback on a decision of an encrypted bandit, and returns the receipt. */
  async erase({ bandit, decision }, signal) {
    return JSON.parse(await this.#ofBandit(bandit, "DELETE", `/decisions/${checkedId(decision)}/feedback`, {}, signal));
  }

  /** The counters of all devices of an encrypted bandit, opened. */
  async counters({ bandit }, signal) {
    const { connection, device } = this.#encrypted(bandit);
    const { response, bytes } = await connection.send("GET", `bandits/${device.id()}/counters`, { signal, most: device.longestCounters() });
    if (!response.ok) throw refusal(response, bytes);
    return JSON.parse(device.openCounters(bytes));
  }

  /** The JSON text of the answer to a request about a bandit of either kind. */
  async #ofBandit(bandit, method, path, options, signal) {
    const { connection, id } = this.#bandits.get(bandit);
    return connection.json(method, `bandits/${id}${path}`, { ...options, signal });
  }

  /** Reads a transformation of named values, and learns one from example rounds. */
  readTransform({ text }) {
    return this.#addedTransform(this.#device.Transform.read(text));
  }

  learnTransform({ schema, examples }) {
    return this.#addedTransform(this.#device.Transform.learn(JSON.stringify(schema), JSON.stringify(examples)));
  }

  #addedTransform(made) {
    const transform = randomId();
    this.#transforms.set(transform, made);
    return { transform, ...JSON.parse(made.describe()) };
  }

  /** One row of features for each candidate of a round. */
  rows({ transform, round }) {
    return JSON.parse(this.#transforms.get(transform).rows(JSON.stringify(round)));
  }

  /** The reward, from 0 to 1, of one in the units of the schema's `reward_range`. Nothing is a number but a number. */
  reward({ transform, value }) {
    return this.#transforms.get(transform).reward(typeof value === "number" ? value : NaN);
  }

  transformText({ transform }) {
    return this.#transforms.get(transform).text();
  }

  freeTransform({ transform }) {
    this.#transforms.get(transform)?.free();
    this.#transforms.delete(transform);
  }

  /** Asks for decisions, raises if the server asks for it, and answers the tasks that wait. */
  async decide({ bandit, contexts, epsilon = 0 }, signal) {
    const { connection, id, device } = this.#bandits.get(bandit);
    if (typeof epsilon !== "number" || !(epsilon >= 0 && epsilon <= 1)) throw named("ValueError", "epsilon must be a number from 0 to 1");
    if (device) return this.#decide(connection, device, { contexts, epsilon }, signal);
    if (epsilon > 0) {
      throw named("ValueError", "a clear policy takes the reward of the arm that it chose, so that no other may be drawn: leave epsilon out");
    }
    const decided = [];
    for (const rows of contexts) decided.push(await this.#decideClear(connection, id, rows, signal));
    return decided;
  }

  /** A decision of a clear policy. The server reads the contexts. */
  async #decideClear(connection, id, contexts, signal) {
    const rows = contexts === undefined ? undefined : table(contexts, true);
    // A decision whose request comes twice is made once.
    const headers = { "idempotency-key": randomId() };
    const body = JSON.stringify({ contexts: rows });
    const text = await connection.json("POST", `bandits/${id}/decisions`, { body, headers, signal });
    const { decision, arm, round, probability = null, ...details } = JSON.parse(text);
    const sealed = new TextEncoder().encode(CLEAR + JSON.stringify({ bandit: id, decision }));
    return { id: decision, arm, chosen: arm, probability, reliable: true, round, details, sealed };
  }

  async #decide(connection, device, { contexts, epsilon }, signal) {
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
        const { response, bytes } = await post(path, asking.body(), asking.decisions());
        compute(() =>
          response.ok ? device.answered(asking, bytes) : device.refused(asking, response.status, response.statusText, bytes),
        );
      }
      round = compute(() => device.finish(asking, connection.server, epsilon));
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
    const { connection, device } = this.#encrypted(bandit);
    const [path, most] = [`bandits/${device.id()}/raises`, device.longestReply()];
    for (let wait = FIRST_PAUSE; ; ) {
      try {
        const { response, bytes } = await connection.tasks(path, WAIT, { signal, most });
        if (!response.ok) throw refusal(response, bytes);
        if (response.status === 200) {
          const { response, bytes: body } = await connection.binary(path, device.raiseTasks(bytes), { signal, most });
          // The task is over if another holder of the key was faster.
          if (!response.ok && response.status !== 409) throw refusal(response, body);
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
    const { connection, id, device } = this.#bandits.get(bandit);
    if (!device) return this.#feedbackClear(connection, id, { sealed, reward }, signal);
    const feedback = device.feedback(sealed, reward);
    const path = `bandits/${id}/decisions/${feedback.decision()}/feedback`;
    const body = feedback.body();
    feedback.free();
    const { response, bytes } = await connection.binary(path, body, { signal, most: 1 << 16 });
    if (!response.ok) throw refusal(response, bytes);
    return JSON.parse(new TextDecoder().decode(bytes));
  }

  /** Returns the feedback on a decision of a clear policy: a reward, or what else the policy learns from. */
  async #feedbackClear(connection, id, { sealed, reward }, signal) {
    const text = new TextDecoder().decode(sealed);
    let stored;
    try {
      stored = JSON.parse(text.startsWith(CLEAR) ? text.slice(CLEAR.length) : "");
    } catch {
      throw named("ValueError", "the bytes are no decision of a clear policy: give them unchanged");
    }
    if (stored.bandit !== id) throw named("ValueError", "the decision is one of another bandit");
    const feedback = typeof reward === "object" && reward !== null ? reward : { reward: number(reward, "the reward") };
    const path = `bandits/${id}/decisions/${checkedId(stored.decision)}/feedback`;
    const body = JSON.stringify(feedback);
    const receipt = JSON.parse(await connection.json("POST", path, { body, signal }));
    return { decision: receipt.of, feedbacks: receipt.feedbacks };
  }

  /** Zeroes the keys and all that was made of them. */
  free() {
    for (const { device } of this.#bandits.values()) device?.free();
    for (const made of this.#transforms.values()) made.free();
    this.#keys?.free();
    this.#bandits.clear();
    this.#transforms.clear();
    this.#keys = undefined;
  }

  /** The connection and the device of an encrypted bandit. */
  #encrypted(bandit) {
    const found = this.#bandits.get(bandit);
    if (!found.device) throw named("ValueError", CLEAR_BANDIT);
    return found;
  }

  #needKeys() {
    if (!this.#keys) {
      throw named("KeysError", "an encrypted bandit needs keys, as new Client(url, await Keys.open(bundle)); without them, name a clear policy");
    }
  }

  /**
   * Joins the bandit with the id and the configuration that were asked for, if any, and gives it a random name by which the page calls it.
   */
  #added(connection, { created, name = null, tags = [] }, { id, asked }) {
    this.#needKeys();
    const device = this.#keys.join(JSON.stringify(created), asked);
    if (id !== undefined && device.id() !== id) {
      device.free();
      throw named("AnswerError", `the server answers with another bandit than ${id}`);
    }
    const bandit = randomId();
    this.#bandits.set(bandit, { connection, id: checkedId(device.id()), device });
    const { config, label } = created;
    return { bandit, encrypted: true, id: device.id(), mostDecisions: device.mostDecisions(), config, label, name, tags };
  }

  /** A bandit with a clear policy, by a random name. */
  #addedClear(connection, { name = null, tags = [], ...created }) {
    const bandit = randomId();
    this.#bandits.set(bandit, { connection, id: checkedId(created.id) });
    const { id, policy, parameters, privacy } = created;
    return { bandit, encrypted: false, id, mostDecisions: 1, policy, parameters, privacy, label: null, name, tags };
  }
}
