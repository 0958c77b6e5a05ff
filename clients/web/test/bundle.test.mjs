// The example, built by vite as for production from what `npm pack` packs, in a real browser and from another origin than the server's:
// it decides and learns, in the clear and on ciphertexts. `BUILT` names the folder that vite has written.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { after, before, test } from "node:test";
import { Browser } from "./browser.mjs";
import { program, startServer } from "./programs.mjs";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };
const POLICY = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; connect-src 'self' http://127.0.0.1:*";

const folder = mkdtempSync(join(tmpdir(), "helba-bundle-"));
const built = process.env.BUILT;
const stops = [];
let browser, server, listed, foreign;

/** Serves the built page from an origin of its own. */
async function serve() {
  const listener = createServer((request, response) => {
    const path = normalize(new URL(request.url, "http://x").pathname).replace(/\/$/, "/index.html");
    let body;
    try {
      body = readFileSync(join(built, path));
    } catch {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream", "content-security-policy": POLICY }).end(body);
  });
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  stops.push(() => (listener.closeAllConnections(), listener.close()));
  return `http://127.0.0.1:${listener.address().port}`;
}

before(async () => {
  const [publicBundle, secret] = ["public.bundle", "secret.bundle"].map((name) => join(folder, name));
  execFileSync(program("helba-keygen"), ["create", "--features", "5", "--arms", "3", "--public", publicBundle, "--secret", secret]);
  [listed, foreign] = [await serve(), await serve()];
  server = await startServer(["--keys", publicBundle, "--state", join(folder, "state"), "--cors-origin", listed]);
  browser = await Browser.start();
});

after(async () => {
  await browser?.stop();
  server?.stop();
  for (const stop of stops) stop();
  rmSync(folder, { recursive: true, force: true });
});

const state = (wanted) => `
  const { state, feedbacks, encrypted } = document.querySelector("main")?.dataset ?? {};
  const problem = document.querySelector("[role=alert]")?.textContent;
  return ${JSON.stringify(wanted)}.includes(state) && { state, feedbacks: Number(feedbacks), encrypted, problem };`;

/** Opens the page of an origin, and starts a bandit. */
async function started(origin, { bundle, url = server.url } = {}) {
  await browser.open("about:blank");
  await browser.open(`${origin}/`);
  await browser.until(state(["closed"]));
  if (url !== "http://127.0.0.1:8080") {
    await browser.type("#server", "\uE009a\uE000" + url);
  }
  if (bundle) await browser.type("#bundle", bundle);
  await browser.click("#start");
  return browser.until(state(["ready", "failed"]), 120);
}

/** The visitor takes the offer that was picked, some times. */
async function visits(count) {
  for (let visit = 1; visit <= count; visit++) {
    await browser.click(".picked");
    await browser.until(`return document.querySelector("main").dataset.feedbacks === "${visit}"`, 120);
    const { problem } = await browser.until(state(["ready", "failed"]), 120);
    assert.equal(problem, null);
  }
}

test("the built page decides and learns, in the clear and on ciphertexts", async () => {
  assert.deepEqual(await started(listed), { state: "ready", feedbacks: 0, encrypted: "false", problem: null });
  await visits(3);
  const secret = join(folder, "secret.bundle");
  assert.deepEqual(await started(listed, { bundle: secret }), { state: "ready", feedbacks: 0, encrypted: "true", problem: null });
  await visits(3);
  const words = await browser.run(`return document.querySelector("output").textContent`);
  assert.match(words, /3 visits learnt, picked with probability 0\.(93|03)/);
  const complaints = (await browser.complaints()).filter(({ message }) => !/favicon/.test(message));
  assert.deepEqual(complaints, []);
});

test("kinds of errors are told apart in a page that was minified", async () => {
  const scripts = readdirSync(join(built, "assets")).filter((name) => name.endsWith(".js"));
  const source = scripts.map((name) => readFileSync(join(built, "assets", name), "utf8")).join("\n");
  assert.doesNotMatch(source, /class KeysError/, "the control: names of classes are gone");
  const noBundle = await started(listed, { bundle: join(folder, "public.bundle") });
  assert.match(noBundle.problem, /^KeysError: /);
  const away = await started(listed, { url: "http://127.0.0.1:1" });
  assert.match(away.problem, /^UnreachableError: /);
});

test("attack_a_page_of_another_origin_reaches_nothing", async () => {
  const { problem } = await started(foreign);
  assert.match(problem, /^UnreachableError: /);
  const status = await browser.run(
    `const [url] = arguments; return fetch(url + "/v1/bandits").then(() => "read", (error) => error.name)`, server.url,
  );
  assert.equal(status, "TypeError");
});

test("the page fits a telephone", async () => {
  await started(listed);
  assert.equal(await browser.widthOn(390), 390);
});
