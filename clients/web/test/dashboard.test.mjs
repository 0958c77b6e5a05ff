// The dashboard of a server in a real browser: it shows the numbers that the server answers, in light and dark, by keyboard, and asks
// nobody else. `SCREENSHOTS` names a folder for pictures of it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Browser } from "./browser.mjs";
import { program, start, startServer } from "./programs.mjs";

const ENTER = "\uE007";
const TAB = "\uE004";
const folder = mkdtempSync(join(tmpdir(), "helba-dashboard-"));
const at = (name) => join(folder, name);
let server, browser, token;

/** What a program prints. */
function run(name, ...options) {
  return execFileSync(program(name), options, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
}

/** A command of the client, as the operator. */
function client(command, ...options) {
  return run("helba-client", command, "--server", server.url, "--token-file", at("token"), ...options);
}

/** The numbers as the server answers them. */
async function metrics() {
  const response = await fetch(`${server.url}/v1/metrics`, { headers: { authorization: `Bearer ${token}` } });
  assert.equal(response.status, 200);
  return response.json();
}

before(async () => {
  run("helba-keygen", "create", "--toy", "--features", "2", "--arms", "2", "--public", at("public"), "--secret", at("secret"));
  run("helba-keygen", "token", at("token"));
  token = readFileSync(at("token"), "utf8").trim();
  server = await startServer(["--keys", at("public"), "--toy", "--state", at("state"), "--operator-token-file", at("token")]);
  browser = await Browser.start();
});

after(async () => {
  await browser?.stop();
  server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The cells of a row by their fields. */
const cells = (row) =>
  browser.run(
    `const cells = document.querySelectorAll(arguments[0] + " [data-field]");
     return Object.fromEntries([...cells].map((cell) => [cell.dataset.field, cell.textContent]));`,
    row,
  );

/** The contrast of two colours as a browser computes them (WCAG 2.2). */
function contrast(one, other) {
  const luminance = (colour) => {
    const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

test("the dashboard shows what the server answers, and asks nobody else", async () => {
  writeFileSync(at("c.csv"), "0.5,0.1\n0.1,0.3\n");
  const name = 'Käse <b onclick="x">🧀</b>';
  const keys = ["--secret", at("secret"), "--toy"];
  const sealed = client("create", ...keys, "--features", "2", "--arms", "2", "--name", name, "--tag", "live");
  for (let round = 0; round < 2; round += 1) {
    client("decide", ...keys, "--bandit", sealed, "--contexts", at("c.csv"));
    if (round > 0) break;
    run("helba-client", "feedback", "--pending", at("c.pending"), ...keys, "--reward", "1");
  }
  const open = client("create", "--policy", "hybrid-ucb", "--parameters", '{"arms": 2, "epsilon": 1}');
  for (let round = 0; round < 3; round += 1) {
    const { decision } = JSON.parse(client("decide", "--bandit", open));
    if (round < 2) client("feedback", "--bandit", open, "--decision", decision, "--reward", "1");
  }

  await browser.open(`${server.url}/dashboard`);
  // Without a token the page says so, and shows nothing.
  await browser.until(`return /no token/.test(document.getElementById("problem").textContent)`);
  assert.equal(await browser.run(`return document.getElementById("main").hidden`), true);
  // By keyboard alone: the link to the numbers, the token, and Enter.
  await browser.type("body", TAB);
  assert.equal(await browser.run("return document.activeElement.textContent"), "To the numbers");
  await browser.type(".skip", TAB);
  assert.equal(await browser.run("return document.activeElement.id"), "token");
  await browser.type("#token", token + ENTER);
  await browser.until(`return !document.getElementById("main").hidden`);
  // The numbers stay as they are now; only times go on.
  await browser.run(`document.getElementById("refresh").click()`);

  const seen = await metrics();
  assert.equal(seen.listed.length, 2);
  for (const bandit of seen.listed) {
    const row = await cells(`tr[data-bandit="${bandit.id}"]`);
    for (const field of ["round", "feedbacks", "open"]) assert.equal(row[field], String(bandit[field]), `${bandit.kind} ${field}`);
    assert.equal(row.batches, bandit.batches === null ? "" : String(bandit.batches));
    assert.equal(row.kind, bandit.kind);
    assert.equal(row.policy, bandit.policy);
    assert.equal(row.shape, `${bandit.features ?? "none"} × ${bandit.arms}`);
    assert.ok(row.awaited.includes("feedback"));
  }
  const [encrypted, clear] = [sealed, open].map((id) => seen.listed.find((bandit) => bandit.id === id));
  assert.deepEqual([encrypted.round, encrypted.feedbacks, encrypted.open], [2, 1, 1]);
  assert.deepEqual([clear.round, clear.feedbacks, clear.open], [3, 2, 1]);
  const shown = await cells(`tr[data-bandit="${sealed}"]`);
  assert.equal(shown.name, name, "text is no HTML");
  assert.equal(shown.tags, "live");
  assert.ok(shown.budgets.includes(`of ${encrypted.levels.top}`));
  assert.ok((await cells(`tr[data-bandit="${open}"]`)).budgets.includes(`ε ${clear.privacy.spent.epsilon} of ${clear.privacy.statement.epsilon} spent`));
  for (const { step, count } of seen.steps) assert.equal((await cells(`tr[data-step="${step}"]`)).count, String(count), step);
  const facts = await cells("#server");
  assert.equal(facts.version, seen.version);
  assert.equal(facts.kernel, seen.kernel);
  assert.equal(facts.bandits, "2");
  assert.equal(facts.tokens, "on");
  assert.match(facts.resident, /^[\d.]+ [MG]iB$/);

  // Nothing of the token stays in the page's address or storage.
  assert.deepEqual(await browser.run("return [location.href, localStorage.length, sessionStorage.length, document.cookie]"), [
    `${server.url}/dashboard`, 0, 0, "",
  ]);
  for (const dark of [false, true]) {
    await browser.command("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
    const colours = await browser.run(`
      const of = (selector, what) => getComputedStyle(document.querySelector(selector))[what];
      return { back: of("body", "backgroundColor"), panel: of("dl > div", "backgroundColor"),
        texts: ["body", ".soft", ".bad", "caption", "td > div + div"].map((selector) => of(selector, "color")),
        onPanel: ["dt", "dd"].map((selector) => of(selector, "color")) };`);
    for (const text of colours.texts) assert.ok(contrast(text, colours.back) >= 4.5, `${dark ? "dark" : "light"}: ${text} on ${colours.back}`);
    for (const text of colours.onPanel) assert.ok(contrast(text, colours.panel) >= 4.5, `${dark ? "dark" : "light"}: ${text} on ${colours.panel}`);
    assert.equal(contrast(colours.back, "rgb(255, 255, 255)") > 10, dark);
    await picture(dark ? "dashboard-dark" : "dashboard-light");
  }
  // What a screen reader needs: names of tables, inputs and regions, and a language.
  assert.deepEqual(
    await browser.run(`
      const bare = (selector, named) => [...document.querySelectorAll(selector)].filter((element) => !named(element)).length;
      return [bare("table", (table) => table.caption?.textContent), bare("input", (input) => input.labels.length),
        bare("[role=region], section", (part) => document.getElementById(part.getAttribute("aria-labelledby"))?.textContent),
        bare("th", (head) => head.scope), document.documentElement.lang, document.querySelectorAll("h1").length];`),
    [0, 0, 0, 0, "en", 1],
  );
  const asked = await browser.run(`return performance.getEntriesByType("resource").map((entry) => new URL(entry.name).origin)`);
  assert.ok(asked.length > 0 && asked.every((origin) => origin === server.url), String(asked));
  // The first request had no token; nothing else is wrong.
  const complaints = (await browser.complaints()).filter(({ message }) => !/v1\/metrics.* 401 /.test(message));
  assert.deepEqual(complaints, []);
});

async function picture(name) {
  const to = process.env.SCREENSHOTS;
  if (!to) return;
  mkdirSync(to, { recursive: true });
  writeFileSync(join(to, `${name}.png`), await browser.screenshot());
}

test("pages of the server and of the agent fit a telephone", async () => {
  for (const [path, loaded] of [["/", "main, body"], ["/dashboard", "main"], ["/v1/docs", "#routes details"]]) {
    await browser.open(`${server.url}${path}`);
    await browser.until(`return document.querySelector(${JSON.stringify(loaded)}) !== null`);
    assert.equal(await browser.widthOn(390), 390, path);
  }
  const options = ["--server", server.url, "--server-token-file", at("token"), "--secret", at("secret"), "--toy", "--state", at("agent-state"), "--listen", "127.0.0.1:0"];
  const { child, started } = start("helba-agent", options, (text) => /listening on (\S+); the token is in/.exec(text));
  try {
    const [, address] = await started;
    const own = readFileSync(join(at("agent-state"), "agent.token"), "utf8").trim();
    const headers = { authorization: `Bearer ${own}`, "content-type": "application/json" };
    const body = JSON.stringify({ features: 2, arms: 2 });
    assert.equal((await fetch(`http://${address}/v1/bandits`, { method: "POST", headers, body })).status, 201);
    await browser.open(`http://${address}/`);
    await browser.type("#token", own + ENTER);
    await browser.until(`return document.querySelector("#bandits table") !== null`);
    assert.equal(await browser.widthOn(390), 390, "the page of the agent");
  } finally {
    child.kill("SIGKILL");
  }
});
