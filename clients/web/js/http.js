// Requests to a server, as the worker sends them: one place for headers, limits and errors.

/** The longest JSON answer that is read: as long as messages of clear policies may be. */
const MOST_JSON = 4 << 20;
const BINARY = "application/octet-stream";
const JSON_TYPE = "application/json";

export function named(name, message) {
  return Object.assign(new Error(message), { name });
}

/** An id, which comes from a server and becomes part of a path. */
export function checkedId(id) {
  if (/^[A-Za-z0-9_-]{1,64}$/.test(id)) return id;
  throw named("ValueError", "an id must have 1 to 64 letters, digits, '-' or '_'");
}

/** 128 random bits in hexadecimal. `crypto.randomUUID` is missing in pages that came over HTTP from another machine. */
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The error of a refusal, whose body is a problem document unless it comes from a proxy or another kind of server. */
export function refusal(response, bytes) {
  let problem = {};
  try {
    problem = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    // No JSON.
  }
  // Whatever a server or a proxy sends, these are text.
  const text = (name, otherwise) => (typeof problem?.[name] === "string" ? problem[name] : otherwise);
  const [title, reason] = [text("title", response.statusText), text("reason", null)];
  const detail = text("detail", "the answer has no problem document");
  const message = `the server refused (${response.status}, ${title}): ${detail}`;
  return Object.assign(named("RefusedError", message), { status: response.status, reason, title, detail });
}

/** An exchange as the page's observer sees it: of bodies the lengths, and the first bytes, since all of them may be megabytes. */
export function observed({ sent, received, ...rest }) {
  const part = (body) => {
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body ?? new Uint8Array();
    return { bytes: bytes.length, first: bytes.slice(0, 256) };
  };
  return { ...rest, sent: part(sent), received: part(received) };
}

/** The value of the header `Authorization` with a token. */
export function bearer(token) {
  if (/^[0-9a-f]{64}$/i.test(token)) return `Bearer ${token}`;
  throw named("ValueError", "a token must have 64 hexadecimal digits");
}

/** Sends requests to one server. It knows the token and no key. */
export class Connection {
  /**
   * @param {string} server `https://HOST[:PORT]`, or on the machine itself `http://localhost:PORT`
   * @param {() => Record<string, string | undefined>} credentials the headers that say who asks, now: `authorization`, if there is a
   *   token, and `helba-enrolment` of a user with a key of its own
   * @param {number} timeout milliseconds for one request
   * @param {(exchange: object) => void} [observe] is told of every exchange
   */
  constructor(server, credentials, timeout, observe) {
    let url;
    try {
      url = new URL(server);
    } catch {
      throw named("ValueError", `${server}: give the server as https://HOST:PORT`);
    }
    if (!["http:", "https:"].includes(url.protocol) || url.username || url.password || url.port === "0" || url.search || url.hash) {
      throw named("ValueError", `${server}: give the server as https://HOST:PORT`);
    }
    this.server = url.href.replace(/\/+$/, "");
    this.credentials = credentials;
    this.timeout = timeout;
    this.observe = observe;
    // By this number the server tells senders apart whose contexts spoil an evaluation.
    this.sender = randomId();
  }

  /** The JSON text of the answer to a request. `body` is JSON text or nothing. */
  async json(method, path, { body, headers, signal } = {}) {
    const type = body === undefined ? undefined : JSON_TYPE;
    const { bytes, response } = await this.send(method, path, { body, type, headers, signal, most: MOST_JSON });
    if (!response.ok) throw refusal(response, bytes);
    return new TextDecoder().decode(bytes);
  }

  /** The answer to a binary request of a committee's user, of at most `most` bytes. */
  async exchange(path, body, { signal, most }) {
    const { response, bytes } = await this.send("POST", path, { body, type: BINARY, signal, most });
    if (!response.ok) throw refusal(response, bytes);
    return bytes;
  }

  /** The response to a binary body about an encrypted bandit, of at most `most` bytes. */
  async binary(path, body, { signal, most, decisions } = {}) {
    const headers = {};
    if (/^bandits\/[^/]+\/decisions(\/[^/]+\/again)?$/.test(path)) headers["helba-sender"] = this.sender;
    if (decisions > 1) headers["helba-decisions"] = String(decisions);
    return this.send("POST", path, { body, type: BINARY, headers, signal, most });
  }

  /** The response to a request for tasks, which the server answers after `wait` seconds at the latest. */
  tasks(path, wait, { signal, most }) {
    return this.send("GET", `${path}?wait=${wait}`, { signal, most, timeout: 1000 * wait + this.timeout });
  }

  async send(method, path, { body, type, headers = {}, signal, most, timeout = this.timeout }) {
    const began = performance.now();
    const credentials = this.credentials();
    const limit = AbortSignal.timeout(timeout);
    const either = signal ? AbortSignal.any([signal, limit]) : limit;
    if (type) headers["content-type"] = type;
    for (const [name, value] of Object.entries(credentials)) if (value !== undefined) headers[name] = value;
    const unreachable = (error) => {
      if (signal?.aborted) return named("AbortError", "the request was aborted");
      const why = limit.aborted ? `nothing came within ${timeout / 1000} s` : error.message;
      return named("UnreachableError", `no answer from ${this.server}: ${why}`);
    };
    const options = { method, body, headers, signal: either };
    // Messages must not be redirected to another server, nor carry what a site knows of its visitor.
    Object.assign(options, { redirect: "error", credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" });
    let response, bytes;
    try {
      response = await fetch(`${this.server}/v1/${path}`, options);
      bytes = await read(response, response.ok ? most : MOST_JSON);
    } catch (error) {
      throw error.name === "AnswerError" ? error : unreachable(error);
    }
    this.observe?.({ method, path, status: response.status, sent: body, received: bytes, began, ms: performance.now() - began });
    return { response, bytes };
  }
}

/** The body, of at most `most` bytes. */
async function read(response, most) {
  const parts = [];
  let length = 0;
  for (const reader = response.body?.getReader(); reader; ) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > most) {
      await reader.cancel();
      throw named("AnswerError", `the answer of the server is longer than ${most} bytes`);
    }
    parts.push(value);
  }
  const bytes = new Uint8Array(length);
  parts.reduce((at, part) => (bytes.set(part, at), at + part.length), 0);
  return bytes;
}
