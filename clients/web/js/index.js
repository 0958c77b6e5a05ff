// Encrypted bandits from a web page. The keys and all computations are in a worker; see README.md.

import { ClosedError, fromFields } from "./errors.js";
import { randomId } from "./http.js";

export * from "./errors.js";

/** The calls of a worker that have not returned. */
class Calls {
  #worker;
  #waiting = new Map();
  #observers = new Map();
  #next = 0;
  #closed;

  constructor() {
    this.#worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.#worker.addEventListener("message", ({ data }) => this.#receive(data));
    this.#worker.addEventListener("error", (event) => {
      event.preventDefault();
      this.close(`the worker failed: ${event.message ?? "its script cannot be loaded"}`);
    });
  }

  call(operation, argument, { signal, transfer = [] } = {}) {
    if (this.#closed) return Promise.reject(new ClosedError(this.#closed));
    if (signal?.aborted) return Promise.reject(new DOMException("the request was aborted", "AbortError"));
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const abort = () => this.#worker.postMessage({ abort: id });
      const done = () => {
        signal?.removeEventListener("abort", abort);
        this.#waiting.delete(id);
      };
      signal?.addEventListener("abort", abort);
      this.#waiting.set(id, {
        resolve: (value) => (done(), resolve(value)),
        reject: (error) => (done(), reject(error)),
      });
      this.#worker.postMessage({ id, operation, argument }, transfer);
    });
  }

  get closed() {
    return this.#closed !== undefined;
  }

  observe(client, observer) {
    this.#observers.set(client, observer);
  }

  close(why) {
    if (this.#closed) return;
    this.#closed = why;
    // The memory of the worker is given back with it.
    this.#worker.terminate();
    for (const { reject } of [...this.#waiting.values()]) reject(new ClosedError(why));
  }

  #receive({ id, result, error, broken, exchange, client }) {
    if (exchange) {
      this.#observers.get(client)?.(exchange);
      return;
    }
    const waiting = this.#waiting.get(id);
    if (error) waiting?.reject(fromFields(error));
    else waiting?.resolve(result);
    if (broken) this.close(`the device failed: ${error.message}`);
  }
}

let keyless;

/** The worker of what needs no keys: clear policies and transformations. */
function withoutKeys() {
  if (keyless === undefined || keyless.closed) keyless = new Calls();
  return keyless;
}

/** The secret keys of a bandit, in a worker of their own. */
export class Keys {
  #calls;

  constructor(calls, described) {
    this.#calls = calls;
    Object.assign(this, described);
  }

  static async open(bundle, passphrase, { user, toy = false, repeats = 0, signal } = {}) {
    const calls = new Calls();
    try {
      // The worker zeroes what it gets, so that it gets a copy.
      const bytes = ArrayBuffer.isView(bundle) ? new Uint8Array(bundle) : new Uint8Array(bundle).slice();
      const argument = { bytes, passphrase, user: user && new Uint8Array(user), toy, repeats };
      return new Keys(calls, await calls.call("open", argument, { signal, transfer: [bytes.buffer] }));
    } catch (error) {
      calls.close("the keys were not opened");
      throw error;
    }
  }

  /** Zeroes the keys and ends the worker. Whatever waits is refused with `ClosedError`. */
  async free() {
    await this.#calls.call("free").catch(() => {});
    this.#calls.close("the keys were freed");
  }

  /** For `Client`. */
  static calls(keys) {
    if (!(keys instanceof Keys)) throw new TypeError("keys must come from Keys.open");
    return keys.#calls;
  }
}

/** A server, with the keys of its encrypted bandits if there are any. */
export class Client {
  #calls;
  #client = randomId();
  #options;
  #connected;

  constructor(url, keys, { token, timeout = 300_000, observe } = {}) {
    this.#calls = keys === undefined || keys === null ? withoutKeys() : Keys.calls(keys);
    this.#options = { client: this.#client, server: String(url), token, timeout, observe: observe !== undefined };
    if (observe) this.#calls.observe(this.#client, observe);
  }

  async create({ features, arms, policy, name, tags, signal, ...changes }) {
    return this.#bandit(await this.#call("create", { features, arms, changes, policy, name, tags }, signal));
  }

  async bandit(id, { signal } = {}) {
    return this.#bandit(await this.#call("bandit", { id }, signal));
  }

  async bandits({ name, tag, signal } = {}) {
    return this.#call("bandits", { name, tag }, signal);
  }

  async policies({ signal } = {}) {
    return this.#call("policies", {}, signal);
  }

  async #call(operation, argument, signal) {
    // A failure is not kept: the next request tries again.
    this.#connected ??= this.#calls.call("connect", this.#options, { signal }).catch((error) => {
      this.#connected = undefined;
      throw error;
    });
    await this.#connected;
    return this.#calls.call(operation, { client: this.#client, ...argument }, { signal });
  }

  #bandit(joined) {
    return new Bandit(this.#calls, joined);
  }
}

/** A bandit, encrypted or with a clear policy. */
export class Bandit {
  #calls;
  #bandit;

  constructor(calls, { bandit, ...described }) {
    this.#calls = calls;
    this.#bandit = bandit;
    Object.assign(this, described);
  }

  async decide(contexts, options) {
    return (await this.decideSeveral([contexts], options))[0];
  }

  async decideSeveral(contexts, { epsilon, signal } = {}) {
    const decided = await this.#calls.call("decide", { bandit: this.#bandit, contexts, epsilon }, { signal });
    return decided.map((fields) => new Decision(fields));
  }

  async feedback(decision, reward, { signal } = {}) {
    const { sealed } = decision instanceof Decision ? decision : Decision.fromBytes(decision);
    return this.#calls.call("feedback", { bandit: this.#bandit, sealed, reward }, { signal });
  }

  async raise({ signal } = {}) {
    return this.#calls.call("raise", { bandit: this.#bandit }, { signal });
  }

  async status({ signal } = {}) {
    return this.#calls.call("status", { bandit: this.#bandit }, { signal });
  }

  async relabel({ name, tags, signal } = {}) {
    const labels = await this.#calls.call("relabel", { bandit: this.#bandit, patch: { name, tags } }, { signal });
    Object.assign(this, labels);
    return labels;
  }

  async counters({ signal } = {}) {
    return this.#calls.call("counters", { bandit: this.#bandit }, { signal });
  }

  async erase(decision, { signal } = {}) {
    const id = typeof decision === "string" ? decision : decision.id;
    return this.#calls.call("erase", { bandit: this.#bandit, decision: id }, { signal });
  }

  async copy({ name, tags, signal, ...changes } = {}) {
    const copy = await this.#calls.call("copy", { bandit: this.#bandit, changes, name, tags }, { signal });
    return new Bandit(this.#calls, copy);
  }

  async export({ signal } = {}) {
    return this.#calls.call("model", { bandit: this.#bandit }, { signal });
  }

  async freeze({ signal } = {}) {
    return this.#calls.call("freeze", { bandit: this.#bandit, frozen: true }, { signal });
  }

  async thaw({ signal } = {}) {
    return this.#calls.call("freeze", { bandit: this.#bandit, frozen: false }, { signal });
  }

  async delete({ signal } = {}) {
    return this.#calls.call("delete", { bandit: this.#bandit }, { signal });
  }
}

/** What makes features of named values, by a public schema. */
export class Transform {
  #calls;
  #transform;

  constructor(calls, { transform, ...described }) {
    this.#calls = calls;
    this.#transform = transform;
    Object.assign(this, described);
  }

  static async open(text, { signal } = {}) {
    const calls = withoutKeys();
    const given = typeof text === "string" ? text : JSON.stringify(text);
    return new Transform(calls, await calls.call("readTransform", { text: given }, { signal }));
  }

  static async learn(schema, examples = [], { signal } = {}) {
    const calls = withoutKeys();
    return new Transform(calls, await calls.call("learnTransform", { schema, examples }, { signal }));
  }

  async rows(candidates, { context = {}, previous, signal } = {}) {
    return this.#calls.call("rows", { transform: this.#transform, round: { candidates, context, previous } }, { signal });
  }

  async reward(value, { signal } = {}) {
    return this.#calls.call("reward", { transform: this.#transform, value }, { signal });
  }

  async text({ signal } = {}) {
    return this.#calls.call("transformText", { transform: this.#transform }, { signal });
  }

  async free() {
    await this.#calls.call("freeTransform", { transform: this.#transform }).catch(() => {});
  }
}

/** A decision that waits for its reward. Contexts and arm are sealed in it, for holders of the key. */
export class Decision {
  constructor(fields) {
    Object.assign(this, fields);
  }

  toBytes() {
    return this.sealed.slice();
  }

  static fromBytes(bytes) {
    return new Decision({ sealed: new Uint8Array(bytes).slice() });
  }
}
