// The shop. Everything that it knows of its visitor stays in this file and in the worker of the device.

import { Client, ClosedError, Keys } from "../js/index.js";
import { ATTRIBUTES, features, numbersFrom, PRODUCTS, tasteFrom, wanted } from "./products.js";

const SHELF = 4;
const VISITS = 20;
const SHOWN_EXCHANGES = 12;
/** Bytes of a body that are shown: of the public header at its start, and of the ciphertext from this place on. */
const [HEADER_BYTES, CIPHERTEXT_AT, CIPHERTEXT_BYTES] = [16, 96, 32];
const find = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// A link with `?seed=N` repeats a visit.
const given = new URLSearchParams(location.search).get("seed");
const seed = given === null ? crypto.getRandomValues(new Uint32Array(1))[0] : Number(given);
const next = numbersFrom(seed);

const state = { interests: ATTRIBUTES.map(() => 0.5), shelf: [], decision: undefined, hits: [], sent: 0, requests: 0, slowest: 0 };
let bandit;

function element(name, attributes = {}, ...children) {
  const made = ["svg", "path", "line", "rect", "text", "polyline", "title"].includes(name)
    ? document.createElementNS(SVG, name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function say(words) {
  find("status").textContent = words;
}

function fail(words) {
  find("problem").hidden = false;
  find("problem").textContent = words;
  find("shelf").dataset.state = "failed";
  say("");
}

/** The key, which the key authority on this machine hands over once for the code in the link. */
async function fetchKeys() {
  const link = new URLSearchParams(location.hash.slice(1));
  // The code stays in no history, and works once.
  history.replaceState(null, "", location.pathname + location.search);
  const [port, code] = [link.get("authority"), link.get("code")];
  if (!/^\d{1,5}$/.test(port ?? "") || !/^[0-9a-f]{64}$/.test(code ?? "")) {
    throw new Error("This link has no code for the key. Open the latest link that the quickstart has printed in its terminal.");
  }
  const answer = await fetch(`http://127.0.0.1:${port}/keys/${code}`, { cache: "no-store", credentials: "omit" });
  if (!answer.ok) {
    throw new Error("This link was used before, and works once. Open the latest link that the quickstart has printed in its terminal.");
  }
  const bundle = new Uint8Array(await answer.arrayBuffer());
  try {
    return await Keys.open(bundle);
  } finally {
    bundle.fill(0);
  }
}

function picture(product) {
  const svg = element("svg", { viewBox: "0 0 64 64", "aria-hidden": "true", focusable: "false" });
  svg.append(...product.picture.map(({ d, tone }) => element("path", { d, class: `tone${tone}` })));
  return svg;
}

function showShelf() {
  const picked = state.decision?.arm;
  const cards = state.shelf.map((product, arm) => {
    const chosen = arm === picked;
    const button = element("button", { type: "button", class: chosen ? "product picked" : "product", "data-product": product.id });
    if (chosen) button.append(element("span", { class: "ribbon" }, "Picked for you"));
    button.append(picture(product), element("b", {}, product.name), element("span", { class: "quiet" }, `€ ${product.price}`));
    button.disabled = picked === undefined;
    button.addEventListener("click", () => answer(arm));
    return element("li", {}, button);
  });
  find("shelf").replaceChildren(...cards);
  find("none").disabled = picked === undefined;
}

function showContexts(rows) {
  const picked = state.decision?.arm;
  const lines = rows.map((row, arm) => {
    const cells = row.map((value) => element("td", {}, value.toFixed(3).replace("-", "−")));
    return element("tr", arm === picked ? { class: "picked" } : {}, element("th", { scope: "row" }, state.shelf[arm].name), ...cells);
  });
  find("contexts").replaceChildren(...lines);
}

function showPrivate(entries) {
  find("private").replaceChildren(...entries.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
const text = new TextDecoder();
const words = (bytes) => `${bytes.toLocaleString("en-US")} bytes`;

/** A line for a request of the device: all that reached the server, and what it answered. */
function showExchange({ method, path, status, sent, received, ms }) {
  state.requests += 1;
  state.sent += sent.bytes;
  find("total").textContent = `${state.requests} requests with ${words(state.sent)}. Bodies of decisions, raises and feedback are ciphertexts. Requests without a body are not listed.`;
  if (sent.bytes === 0) return;
  const kind = path.replace(/[0-9a-f]{32}/g, "…").replace(/^bandits\/[^/]+/, "bandit");
  const line = element("li", { "data-bytes": sent.bytes });
  line.append(element("b", {}, `${method} ${kind}`), ` at ${new Date().toLocaleTimeString("en-GB")}: ${status} after ${Math.round(ms)} ms`);
  line.append(element("div", {}, `received ${words(sent.bytes)}, answered ${words(received.bytes)}`));
  if (path.includes("/")) {
    const cipher = sent.first.slice(CIPHERTEXT_AT, CIPHERTEXT_AT + CIPHERTEXT_BYTES);
    line.append(element("code", {}, `header ${hex(sent.first.slice(0, HEADER_BYTES))} … ciphertext ${hex(cipher)} …`));
  } else {
    // The creation of a bandit: a public configuration.
    line.append(element("code", {}, `${text.decode(sent.first).slice(0, 120)} …`));
  }
  find("exchanges").prepend(line);
  while (find("exchanges").children.length > SHOWN_EXCHANGES) find("exchanges").lastChild.remove();
}

/** Hits so far over turns, beside the share that random picks would have. */
function showChart() {
  const { hits } = state;
  const turns = Math.max(hits.length, VISITS);
  const [left, right, top, bottom] = [68, 590, 14, 140];
  const x = (turn) => left + ((right - left) * turn) / turns;
  const y = (share) => bottom - (bottom - top) * share;
  let taken = 0;
  const shares = hits.map((hit, i) => (taken += hit) / (i + 1));
  const label = (at, text) => element("text", { x: 0, y: at + 5 }, text);
  const parts = [
    ...[0, 0.5, 1].map((share) => element("line", { class: "axis", x1: left, x2: right, y1: y(share), y2: y(share) })),
    label(y(1), "100 %"), label(y(0.5), "50 %"), label(y(0), "0 %"),
    element("line", { class: "chance", x1: left, x2: right, y1: y(1 / SHELF), y2: y(1 / SHELF) }),
    element("text", { x: right, y: y(1 / SHELF) + 19, "text-anchor": "end" }, `chance ${100 / SHELF} %`),
    ...hits.map((hit, i) => element("rect", { class: hit ? "taken" : "missed", x: x(i) + 1, y: bottom + 10, width: Math.max((right - left) / turns - 2, 1), height: 12 })),
    element("text", { x: left, y: bottom + 44 }, "each turn: filled if the pick was taken"),
  ];
  if (shares.length > 0) {
    const points = shares.map((share, i) => `${x(i + 0.5)},${y(share)}`).join(" ");
    parts.push(element("polyline", { class: "hits", points }));
  }
  find("chart").querySelectorAll(":scope > :not(desc)").forEach((part) => part.remove());
  find("chart").append(...parts);
  const summary = hits.length === 0 ? "No turn yet." : `${taken} of ${hits.length} picks were taken; random picks would have been taken ${(hits.length / SHELF).toFixed(1)} times.`;
  find("tally").textContent = summary;
  find("chart-words").textContent = summary;
}

/** Public counters of the bandit, until its model is up to date. */
async function watch() {
  const shelf = find("shelf");
  shelf.dataset.learning = "true";
  for (let learning = true; learning; ) {
    const { feedbacks, model_feedbacks: learnt, updating, refresh_due: due } = await bandit.status();
    learning = updating || due;
    find("counters").textContent = `${feedbacks} encrypted rewards counted; ${learnt} of them are in the encrypted model.`;
    if (learning) await new Promise((resolve) => setTimeout(resolve, 250));
  }
  shelf.dataset.learning = "false";
}

/** Fills the shelf, and asks for a pick. */
async function turn() {
  const pool = [...PRODUCTS];
  state.shelf = Array.from({ length: SHELF }, () => pool.splice(Math.floor(next() * pool.length), 1)[0]);
  state.decision = undefined;
  find("shelf").dataset.state = "deciding";
  find("round").textContent = `Turn ${state.hits.length + 1}`;
  say("Your browser encrypts, and the server picks on ciphertexts …");
  showShelf();
  const rows = state.shelf.map((product) => features(product, state.interests));
  showContexts(rows);
  const began = performance.now();
  const decision = await bandit.decide(rows);
  state.decision = decision;
  state.slowest = Math.max(state.slowest, decision.deviceMs);
  showShelf();
  showContexts(rows);
  const took = performance.now() - began;
  showPrivate([
    ["The pick", state.shelf[decision.arm].name],
    ["Time of your browser", `${Math.round(decision.deviceMs)} ms of ${Math.round(took)} ms`],
    ["Model", `has learnt from ${decision.feedbacks} rewards`],
    ["Answer", decision.reliable ? "in its range" : "outside its range: not relied on"],
  ]);
  say(`Picked for you: ${state.shelf[decision.arm].name}. Take it, or another one.`);
  const shelf = find("shelf");
  Object.assign(shelf.dataset, { deviceMs: decision.deviceMs, feedbacks: decision.feedbacks, turn: state.hits.length + 1, state: "picked" });
}

/** The visitor has taken a product of the shelf, or with −1 none. */
async function answer(arm) {
  const { decision } = state;
  if (!decision) return;
  state.decision = undefined;
  find("shelf").dataset.state = "learning";
  const hit = arm === decision.arm;
  // The pick stays in sight until the next shelf.
  find("shelf").querySelectorAll("button").forEach((button) => (button.disabled = true));
  find("none").disabled = true;
  say("Your answer leaves encrypted …");
  try {
    await bandit.feedback(decision, hit ? 1 : -1);
    state.hits.push(hit ? 1 : 0);
    showChart();
    watch().catch((error) => fail(error.message));
    await turn();
    // Whoever uses the keyboard goes on from the pick.
    if (document.activeElement === document.body) find("shelf").querySelector(".picked")?.focus({ preventScroll: true });
  } catch (error) {
    fail(`${error.message}`);
  }
}

async function visit() {
  const button = find("visitor");
  button.disabled = true;
  const taste = tasteFrom(next);
  for (let left = VISITS; left > 0 && find("shelf").dataset.state === "picked"; left--) {
    button.textContent = `The visitor has ${left} turns left`;
    await answer(wanted(state.shelf, taste));
  }
  button.textContent = `Let another made-up visitor take ${VISITS} turns`;
  button.disabled = false;
}

function showInterests() {
  const inputs = ATTRIBUTES.flatMap((name, i) => {
    const input = element("input", { type: "range", id: `interest-${name}`, min: 0.1, max: 1, step: 0.05, value: state.interests[i] });
    input.addEventListener("change", () => (state.interests[i] = Number(input.value)));
    return [element("label", { for: input.id }, name), input];
  });
  find("interests").replaceChildren(...inputs);
  find("columns").replaceChildren(element("th", { scope: "col" }, "product"), ...ATTRIBUTES.map((name) => element("th", { scope: "col" }, name)));
}

showInterests();
showChart();
try {
  const keys = await fetchKeys();
  // What the device holds is zeroed when the page goes.
  addEventListener("pagehide", () => keys.free());
  const client = new Client(location.origin, keys, { observe: showExchange });
  bandit = await client.create({ features: ATTRIBUTES.length, arms: SHELF });
  // Without a raiser of its own the shop would learn with the next turns only.
  bandit.raise().catch((error) => error instanceof ClosedError || fail(error.message));
  find("visitor").addEventListener("click", visit);
  find("none").addEventListener("click", () => answer(-1));
  await turn();
  find("visitor").disabled = false;
} catch (error) {
  fail(error.message);
}
