// Real programs for tests. `PROGRAMS` names the folder in which they were built.

import { spawn } from "node:child_process";
import { join } from "node:path";

/** The path of a program. */
export function program(name) {
  const folder = process.env.PROGRAMS;
  if (!folder) throw new Error("PROGRAMS must name the folder of the programs, such as target/release");
  return join(folder, name);
}

/** Starts a program, and waits until `told` finds something in what it prints. */
export function start(name, options, told, environment = {}) {
  const child = spawn(program(name), options, { stdio: ["pipe", "pipe", "pipe"], env: { ...process.env, ...environment } });
  let output = "";
  const started = new Promise((resolve, reject) => {
    const hear = (text) => {
      output += text;
      const found = told(output);
      if (found) resolve(found);
    };
    child.stdout.setEncoding("utf8").on("data", hear);
    child.stderr.setEncoding("utf8").on("data", hear);
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`${name} ended with ${code}:\n${output}`)));
  });
  started.catch(() => child.kill());
  return { child, started, output: () => output };
}

/** Starts a server, on a free port unless `listen` names one. */
export async function startServer(options, listen = "127.0.0.1:0") {
  const { child, started, output } = start("helba-server", ["--listen", listen, ...options], (text) =>
    /listening on (\S+)/.exec(text),
  );
  const [, address] = await started;
  return { url: `http://${address}`, output, stop: () => child.kill("SIGKILL") };
}
