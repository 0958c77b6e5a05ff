// What callers give, checked before anything is computed or sent.

import { named } from "./http.js";

/** The items of an array or a typed array. */
export function listed(values, what) {
  if (Array.isArray(values) || (ArrayBuffer.isView(values) && !(values instanceof DataView))) return Array.from(values);
  throw named("ValueError", `${what} must be an array`);
}

/** A finite number. */
export function number(value, what) {
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw named("ValueError", `${what} must be a finite number`);
}

/** The features of each arm, as arrays; null of a closed arm, where there may be closed ones. */
export function table(contexts, closed = false) {
  return listed(contexts, "the contexts of a decision").map((row, at) => {
    if (closed && row === null) return null;
    const cells = listed(row, `row ${at + 1} of the contexts`);
    return cells.map((value, column) => number(value, `row ${at + 1}, column ${column + 1} of the contexts`));
  });
}
