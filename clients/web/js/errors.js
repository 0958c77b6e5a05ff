// The errors of this package. What the worker throws arrives here as plain fields, and becomes one of these classes.

/** Any error of this package. `code` is its kind: a text here, since the names of classes do not survive minifying. */
export class HelbaError extends Error {
  constructor(message) {
    super(message);
    this.name = this.code;
  }

  get code() {
    return "HelbaError";
  }
}

/** Misuse: keys that cannot be used, or not with this server. */
export class KeysError extends HelbaError {
  get code() {
    return "KeysError";
  }
}

/** Misuse: contexts, rewards, configurations and decisions of other bandits. Nothing was sent. */
export class ValueError extends HelbaError {
  get code() {
    return "ValueError";
  }
}

/** Untrusted: an answer that does not follow the protocol. */
export class AnswerError extends HelbaError {
  get code() {
    return "AnswerError";
  }
}

/** The server could not be reached, or its answer broke off. */
export class UnreachableError extends HelbaError {
  get code() {
    return "UnreachableError";
  }
}

/** The browser gives no random numbers. */
export class RandomnessError extends HelbaError {
  get code() {
    return "RandomnessError";
  }
}

/** The worker is gone: it was freed, or it failed. The keys must be opened again. */
export class ClosedError extends HelbaError {
  get code() {
    return "ClosedError";
  }
}

/** The server refused the request: `status`, and from its problem document `reason`, `title` and `detail`. */
export class RefusedError extends HelbaError {
  constructor(message, { status, reason, title, detail }) {
    super(message);
    Object.assign(this, { status, reason, title, detail });
  }

  get code() {
    return "RefusedError";
  }
}

const CLASSES = { KeysError, ValueError, AnswerError, UnreachableError, RandomnessError, ClosedError };

/** The fields of an error that a message between threads carries. */
export function toFields(error) {
  const { name, message, status, reason, title, detail } = error;
  return { name, message: String(message), status, reason, title, detail };
}

/** The error with these fields. */
export function fromFields(fields) {
  if (fields.name === "AbortError") return new DOMException(fields.message, "AbortError");
  if (fields.name === "RefusedError") return new RefusedError(fields.message, fields);
  const known = Object.hasOwn(CLASSES, fields.name);
  return known ? new CLASSES[fields.name](fields.message) : new ClosedError(`${fields.name}: ${fields.message}`);
}
