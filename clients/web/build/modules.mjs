// Ends with an error unless the modules for WebAssembly were built: a package without them would open no keys.

import { readFileSync } from "node:fs";

const pkg = new URL("../pkg/", import.meta.url);
for (const name of ["simd128", "portable", "committee"]) {
  try {
    if (!readFileSync(new URL(`${name}.js`, pkg), "utf8").includes("export")) throw new Error(`${name}.js is no module`);
    if (!WebAssembly.validate(readFileSync(new URL(`${name}_bg.wasm`, pkg)))) throw new Error(`${name}_bg.wasm is no module`);
  } catch (error) {
    console.error(`helba: pkg has no usable module ${name} (${error.message}): run \`npm run build\` first`);
    process.exit(1);
  }
}
