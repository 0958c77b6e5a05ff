// A headless Chromium by the WebDriver protocol, and a relay that writes down what crosses it.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ELEMENT = "element-6066-11e4-a52e-4f735466cecf";

/** One browser window. */
export class Browser {
  #driver;
  #base;
  #profile;

  static async start() {
    const browser = new Browser();
    browser.#profile = mkdtempSync(join(tmpdir(), "helba-chromium-"));
    browser.#driver = spawn("chromedriver", ["--port=0"], { stdio: ["ignore", "pipe", "inherit"] });
    const port = await new Promise((resolve, reject) => {
      let output = "";
      browser.#driver.stdout.setEncoding("utf8").on("data", (text) => {
        output += text;
        const found = /started successfully on port (\d+)/.exec(output);
        if (found) resolve(found[1]);
      });
      browser.#driver.on("error", reject).on("exit", () => reject(new Error(`chromedriver ended:\n${output}`)));
    });
    const root = `http://127.0.0.1:${port}/session`;
    const args = [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", `--user-data-dir=${browser.#profile}`, "--window-size=1280,1400",
    ];
    const capabilities = { alwaysMatch: { "goog:chromeOptions": { args }, "goog:loggingPrefs": { browser: "ALL" } } };
    const { sessionId } = await send("POST", root, { capabilities });
    browser.#base = `${root}/${sessionId}`;
    return browser;
  }

  async stop() {
    await send("DELETE", this.#base).catch(() => {});
    const ended = new Promise((resolve) => this.#driver.once("exit", resolve));
    this.#driver.kill();
    await ended;
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 5 });
  }

  open(url) {
    return send("POST", `${this.#base}/url`, { url });
  }

  /** The result of a function body in the page. */
  run(script, ...args) {
    return send("POST", `${this.#base}/execute/sync`, { script, args });
  }

  async #find(selector) {
    return (await send("POST", `${this.#base}/element`, { using: "css selector", value: selector }))[ELEMENT];
  }

  async click(selector) {
    await send("POST", `${this.#base}/element/${await this.#find(selector)}/click`, {});
  }

  /** Types into the element that a keyboard has brought into focus. */
  async type(selector, text) {
    await send("POST", `${this.#base}/element/${await this.#find(selector)}/value`, { text });
  }

  /** Waits until the page's `script` returns something true, and returns it. */
  async until(script, seconds = 60) {
    for (const end = Date.now() + 1000 * seconds; Date.now() < end; ) {
      const found = await this.run(script);
      if (found) return found;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`nothing within ${seconds} s: ${script}\n${await this.run("return document.body.innerText")}`);
  }

  /** How many pixels wide the page is on a screen of `width` pixels, with everything unfolded. */
  async widthOn(width) {
    await this.command("Emulation.setDeviceMetricsOverride", { width, height: 844, deviceScaleFactor: 1, mobile: true });
    try {
      return await this.run(`
        for (const folded of document.querySelectorAll("details")) folded.open = true;
        return Math.max(document.documentElement.scrollWidth, innerWidth);`);
    } finally {
      await this.command("Emulation.clearDeviceMetricsOverride", {});
    }
  }

  /** A command of the DevTools protocol. */
  command(cmd, params) {
    return send("POST", `${this.#base}/goog/cdp/execute`, { cmd, params });
  }

  async screenshot() {
    return Buffer.from(await send("GET", `${this.#base}/screenshot`), "base64");
  }

  /** What the console has said: errors, and violations of the page's policy. */
  complaints() {
    return send("POST", `${this.#base}/se/log`, { type: "browser" });
  }
}

async function send(method, url, body) {
  const response = await fetch(url, { method, body: body && JSON.stringify(body), headers: { "content-type": "application/json" } });
  const { value } = await response.json();
  if (!response.ok) throw new Error(`${value.error}: ${value.message}`);
  return value;
}

/** Relays connections to a port, and writes down what goes up and what comes down. */
export async function relay(port) {
  const [up, down] = [[], []];
  const sockets = new Set();
  const listener = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    for (const [socket, other, kept] of [[near, far, up], [far, near, down]]) {
      sockets.add(socket);
      socket.on("data", (bytes) => (kept.push(bytes), other.write(bytes)));
      socket.on("end", () => other.end());
      socket.on("error", () => other.destroy());
      socket.on("close", () => (other.destroy(), sockets.delete(socket)));
    }
  });
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const stop = () => (listener.close(), sockets.forEach((socket) => socket.destroy()));
  return { port: listener.address().port, up: () => Buffer.concat(up), down: () => Buffer.concat(down), stop };
}
