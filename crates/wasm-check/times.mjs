// node times.mjs MODULE...: microseconds of each operation of examples/times.rs, the least of 41 runs, less
// that of operation 0, which computes nothing. Modules take turns.
import { readFileSync } from 'node:fs';

const TIMES = 50;
const operations = ['none', 'ntt_forward', 'ntt_inverse', 'mul'];
const modules = [];
for (const path of process.argv.slice(2)) {
    const { instance } = await WebAssembly.instantiate(readFileSync(path), {});
    modules.push({ path, main: instance.exports.main, least: operations.map(() => Infinity) });
}
for (let turn = 0; turn < 41; turn++) {
    for (const { main, least } of modules) {
        operations.forEach((_, k) => {
            const start = performance.now();
            main(0, 0);
            least[k] = Math.min(least[k], performance.now() - start);
        });
    }
}
for (const { path, least } of modules) {
    for (let k = 1; k < operations.length; k++) {
        console.log(`${operations[k]},${(((least[k] - least[0]) * 1000) / TIMES).toFixed(1)},${path}`);
    }
}
