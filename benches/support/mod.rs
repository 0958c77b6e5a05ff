//! What the benches share: parameter sets, ciphertext operations that can be timed, and how results are kept.
//!
//! `BENCH_SETS="C A"` picks sets, `BENCH_THREADS="1"` sizes of the thread pool. No bench uses all of it.
#![allow(dead_code)]

pub(crate) mod operations;

use ckks::{ParamsSpec, Security};
use ckks_secret::Precision;
use criterion::Criterion;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// A label and what it stands for. S is the smallest ring; C, A and B are sizes other libraries are measured
/// at (their first prime has 60 bits, ours at most 50); H is what bandits of five to eight arms run on. All
/// claim 128 bits.
pub(crate) const SETS: [(&str, ParamsSpec); 5] = [
    ("S", set("bench-logn13", 13, 40, 3, 30, &[42, 41])),
    ("C", set("bench-logn14", 14, 50, 8, 40, &[50])),
    ("H", ckks::LOGN15_LOGQP858_DEPTH18),
    ("A", set("bench-logn15", 15, 50, 18, 40, &[48, 48])),
    ("B", set("bench-logn16", 16, 50, 30, 45, &[48; 7])),
];

const fn set(
    name: &'static str,
    log_n: u32,
    log_q0: u32,
    depth: usize,
    log_scale: u32,
    log_p: &'static [u32],
) -> ParamsSpec {
    ParamsSpec {
        name,
        log_n,
        log_q0,
        depth,
        log_scale,
        log_p,
        products: ckks::Products::Rescaled,
        security: Security::Classical128,
    }
}

/// The sets asked for.
pub(crate) fn sets() -> Vec<(&'static str, ParamsSpec)> {
    let wanted = words("BENCH_SETS", "S C H A B");
    SETS.into_iter().filter(|(label, _)| wanted.iter().any(|w| w == label)).collect()
}

/// The words of an environment variable.
pub(crate) fn words(variable: &str, default: &str) -> Vec<String> {
    let text = std::env::var(variable).unwrap_or_else(|_| default.into());
    text.split_whitespace().map(str::to_owned).collect()
}

/// What stands beside a time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fact {
    /// Bits of the worst slot and in the mean.
    pub(crate) bits: Option<(f64, f64)>,
    /// Bytes of the result on the wire.
    pub(crate) bytes: Option<usize>,
}

impl Fact {
    pub(crate) fn bits(p: Precision) -> Self {
        Fact { bits: Some((p.worst_bits, p.mean_bits)), bytes: None }
    }

    pub(crate) fn bytes(bytes: usize) -> Self {
        Fact { bits: None, bytes: Some(bytes) }
    }
}

/// The file beside Criterion's that names the kernels that ran.
pub(crate) const KERNEL_FILE: &str = "kernel";

/// Times what it is given in thread pools of several sizes, and keeps facts where the times are.
pub(crate) struct Bench<'a> {
    criterion: &'a mut Criterion,
    pools: Vec<(usize, ThreadPool)>,
    facts: std::fs::File,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(criterion: &'a mut Criterion) -> Self {
        let pool = |threads: usize| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started");
            (threads, pool)
        };
        let threads = words("BENCH_THREADS", "1 2").into_iter().map(|w| w.parse().expect("a number"));
        let folder = criterion_folder();
        std::fs::create_dir_all(&folder).expect("a folder that can be written");
        std::fs::write(folder.join(KERNEL_FILE), rns::kernels().to_string()).expect("room on the disk");
        let facts = std::fs::File::options().create(true).append(true).open(folder.join("facts.csv"));
        Bench { criterion, pools: threads.map(pool).collect(), facts: facts.expect("a file") }
    }

    /// `run` returns what it measured of itself; `fact` is written once. One thread is always timed, more
    /// threads only if `all_threads`.
    pub(crate) fn time(
        &mut self,
        id: &str,
        all_threads: bool,
        fact: Fact,
        mut run: impl FnMut() -> Duration + Send,
    ) {
        for (threads, pool) in self.pools.iter().filter(|(threads, _)| all_threads || *threads == 1) {
            self.criterion.bench_function(&format!("{id}/threads={threads}"), |b| {
                b.iter_custom(|n| pool.install(|| (0..n).map(|_| run()).sum()))
            });
        }
        if let Some((worst, mean)) = fact.bits {
            println!("{id}: {worst:.1} bits in the worst slot, {mean:.1} in the mean");
        }
        if let Some(bytes) = fact.bytes {
            println!("{id}: {bytes} bytes");
        }
        let number = |x: Option<f64>| x.map_or(String::new(), |x| format!("{x:.2}"));
        let (worst, mean) = (fact.bits.map(|b| b.0), fact.bits.map(|b| b.1));
        let bytes = fact.bytes.map_or(String::new(), |b| b.to_string());
        writeln!(self.facts, "{id},{},{},{bytes}", number(worst), number(mean)).expect("room on the disk");
    }
}

/// Few samples, so that a full run ends while the machine is still the same.
pub(crate) fn config() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(300))
}

/// Where Criterion writes.
pub(crate) fn criterion_folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    variable("CRITERION_HOME").unwrap_or_else(|| {
        // Cargo runs benches in the folder of their package.
        let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");
        variable("CARGO_TARGET_DIR").unwrap_or(target.into()).join("criterion")
    })
}
