//! Our side of a comparison with another library: times one operation whenever it is asked to, so that the
//! other side can take turns with it (`benches/openfhe/compare.py`).
//!
//! ```text
//! cargo run --release --example peer -- SET THREADS
//! ```
//! Prints the kernels that run and the names of the operations on one line; then, for each name on standard
//! input, seconds and bits of precision of one call at the top level; `NAME warm` times the call after 20 ms
//! of others, which finds caches warm, and threads awake and spread over the processors, as within a circuit.
//! `ntt_tfhe` is no operation of ours but the mean of some transforms of one limb by `tfhe-ntt`: what was
//! measured with it elsewhere can be carried over.

#[path = "../support/mod.rs"]
mod support;

use anyhow::{Context, Result};
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};
use support::operations::{Fixture, Operation};

const YARDSTICK: &str = "ntt_tfhe";
const TRANSFORMS: u32 = 64;
const WARM: &str = " warm";
/// Some slices of the scheduler.
const WARM_UP: Duration = Duration::from_millis(20);

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (label, threads) = (args.next().context("which set?")?, args.next().context("how many threads?")?);
    let known = support::SETS.into_iter().find(|(l, _)| *l == label);
    let (_, spec) = known.with_context(|| format!("no set {label}"))?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.parse()?).build()?;
    let mut fixture = Fixture::new(spec);
    let (n, top) = (fixture.params.n(), fixture.params.max_level());
    let mut operations = fixture.operations(top);
    let names = operations.iter().map(|op| op.name.as_str()).chain([YARDSTICK]).collect::<Vec<_>>();
    // As wide as its fast kernel takes.
    let q = rns::primes::largest(50, 2 * n as u64, &[])?;
    let plan = tfhe_ntt::prime64::Plan::try_new(n, q).context("a prime for tfhe-ntt")?;
    let mut limb = rns::Buffer::scratch(n);
    limb.iter_mut().zip(0..).for_each(|(x, i)| *x = i);
    let mut out = std::io::stdout();
    writeln!(out, "{} {}", rns::kernels(), names.join(" "))?;
    out.flush()?;
    let bits: Vec<f64> =
        operations.iter_mut().map(|op| op.judge().bits.map_or(f64::NAN, |bits| bits.1)).collect();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line == YARDSTICK {
            // As many before, for a processor that wakes slowly.
            (0..TRANSFORMS).for_each(|_| plan.fwd(black_box(&mut limb)));
            let start = Instant::now();
            (0..TRANSFORMS).for_each(|_| plan.fwd(black_box(&mut limb)));
            writeln!(out, "{:.9} nan", (start.elapsed() / TRANSFORMS).as_secs_f64())?;
            out.flush()?;
            continue;
        }
        let (name, warm_up) = line.strip_suffix(WARM).map_or((&line[..], None), |name| (name, Some(WARM_UP)));
        let index = operations.iter().position(|op: &Operation| op.name == name);
        let index = index.with_context(|| format!("no operation {name}"))?;
        let run = || {
            let start = Instant::now();
            while warm_up.is_some_and(|time| start.elapsed() < time) {
                operations[index].run();
            }
            operations[index].run()
        };
        let seconds = pool.install(run).as_secs_f64();
        writeln!(out, "{seconds:.9} {:.2}", bits[index])?;
        out.flush()?;
    }
    Ok(())
}
