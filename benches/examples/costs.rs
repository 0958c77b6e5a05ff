//! From what Criterion measured to a record, and from a record to the prices that `helba-keygen plan` starts
//! from. docs/costs.md has the latest figures of the records, by hand.
//!
//! ```text
//! cargo bench --bench rns --bench ckks --bench helba
//! cargo run --release --example costs -- --record benches/record/DATE-costs.csv \
//!   --from target/criterion --load idle --prices
//! ```
//! `--from` may be repeated, for runs with other kernels and for further runs with the same: the record has
//! the least median of each kernel's runs. Prices need a record with all kernels.

#[path = "../support/mod.rs"]
mod support;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str = "commit,machine,cores,kernel,id,median_ns,bits,bytes";
/// What `helba-keygen plan` starts from.
const PRICED: [&str; 7] =
    ["add", "encode", "encrypt_public", "mul", "mul_plain", "rotate", "sum_of_4_rotations"];
/// What a key's expansion from its seed takes: a rotation with such a key, less one with a whole key.
const SEEDED: &str = "rotate_seeded";
const WHOLE: &str = "rotate";
const EXPANSION: &str = "expand_key";

#[derive(Parser)]
#[command(about = "Writes a record of measurements, and prices from a record")]
struct Args {
    /// The record: read, or written first if there is `--from`.
    #[arg(long)]
    record: PathBuf,
    /// Criterion's folder, one a run: the first writes a record from them.
    #[arg(long)]
    from: Vec<PathBuf>,
    /// How busy the machine was otherwise, in words: "idle" if it was.
    #[arg(long)]
    load: Option<String>,
    /// The commit that was measured; default: the one checked out.
    #[arg(long)]
    commit: Option<String>,
    /// Renews the planner's prices from the record.
    #[arg(long)]
    prices: bool,
}

/// One measurement. Ids are `LAYER/WHAT/…/threads=T`.
struct Row {
    kernel: String,
    id: String,
    ns: f64,
}

impl Row {
    fn layer(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }

    fn what(&self) -> &str {
        self.id.split('/').nth(1).unwrap_or_default()
    }

    /// The value of `key=value` in the id.
    fn part(&self, key: &str) -> &str {
        self.id.split('/').filter_map(|p| p.split_once('=')).find(|(k, _)| *k == key).map_or("", |(_, v)| v)
    }

    fn level(&self) -> usize {
        self.part("l").parse().unwrap_or(0)
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    if !args.from.is_empty() {
        let load = args.load.context("nobody knows how busy the machine was: say so with --load")?;
        fs::write(&args.record, record(&args.from, &load, args.commit)?)?;
        println!("{} is of {} runs", args.record.display(), args.from.len());
    }
    if args.prices {
        fs::write("crates/planner/src/measured.csv", prices(&read(&args.record)?))?;
    }
    Ok(())
}

/// The medians and facts in Criterion's folders, as a record.
fn record(folders: &[PathBuf], load: &str, commit: Option<String>) -> Result<String> {
    // By kernel and id: the least of the runs' medians, since other work on a machine only adds to a time,
    // and what stands beside it.
    let mut measured: BTreeMap<(String, String), (f64, String)> = BTreeMap::new();
    for folder in folders {
        // Benches of what has one version leave no such file.
        let kernel = folder.join(support::KERNEL_FILE);
        let kernel = if kernel.exists() {
            fs::read_to_string(&kernel).with_context(|| kernel.display().to_string())?
        } else {
            String::new()
        };
        for (id, ns, facts) in run(folder)? {
            let least =
                measured.get(&(kernel.trim().into(), id.clone())).map_or(ns, |(least, _)| ns.min(*least));
            measured.insert((kernel.trim().into(), id), (least, facts));
        }
    }
    let commit = match commit {
        Some(commit) => commit,
        None => head()?,
    };
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ")).map_or("", |m| m.1);
    let machine = format!("{model}; {load}").replace(',', " ");
    let cores = std::thread::available_parallelism()?;
    let lines = measured.into_iter().map(|((kernel, id), (ns, facts))| {
        format!("{commit},{machine},{cores},{kernel},{id},{ns:.0},{facts}\n")
    });
    Ok(format!("{HEAD}\n{}", lines.collect::<String>()))
}

/// What one run measured: ids, medians in nanoseconds, `bits,bytes`.
fn run(folder: &Path) -> Result<Vec<(String, f64, String)>> {
    let facts = fs::read_to_string(folder.join("facts.csv")).unwrap_or_default();
    // A later run of the same bench counts. The fields: id, bits of the worst slot, mean bits, bytes.
    let facts: BTreeMap<&str, (&str, &str)> = facts
        .lines()
        .filter_map(|line| {
            let mut fields = line.rsplitn(4, ',');
            let (bytes, _mean, worst) = (fields.next()?, fields.next()?, fields.next()?);
            Some((fields.next()?, (worst, bytes)))
        })
        .collect();
    let mut out = Vec::new();
    // Groups have folders of their own.
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            if entry.file_type()?.is_dir() && entry.file_name() != "new" {
                folders.push(entry.path());
            }
        }
        let new = folder.join("new");
        let json = |file: &str| -> Option<serde_json::Value> {
            serde_json::from_str(&fs::read_to_string(new.join(file)).ok()?).ok()
        };
        let (Some(bench), Some(estimates)) = (json("benchmark.json"), json("estimates.json")) else {
            continue;
        };
        let id = bench["full_id"].as_str().context("a benchmark without id")?;
        let ns = estimates["median"]["point_estimate"].as_f64().context("an estimate without median")?;
        let (fact, _) = id.rsplit_once("/threads=").unwrap_or((id, ""));
        let (bits, bytes) = facts.get(fact).copied().unwrap_or_default();
        // Commas separate d and K in an id.
        out.push((id.replace(',', ";"), ns, format!("{bits},{bytes}")));
    }
    ensure!(!out.is_empty(), "{} holds no measurement", folder.display());
    Ok(out)
}

fn head() -> Result<String> {
    let out = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output()?;
    ensure!(out.status.success(), "not a checkout of git: name the commit with --commit");
    Ok(String::from_utf8(out.stdout)?.trim().to_owned())
}

/// The rows of a record, by operation, level, threads and kernel.
fn read(file: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut lines = text.lines();
    ensure!(lines.next() == Some(HEAD), "a record starts with the line {HEAD}");
    let mut rows = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, _, kernel, id, ns, _, _] = fields[..] else {
            anyhow::bail!("not a line of a record: {line}");
        };
        let ns = ns.parse().with_context(|| line.to_owned())?;
        rows.push(Row { kernel: kernel.into(), id: id.into(), ns });
    }
    let order = |r: &Row| (r.what().to_owned(), r.level(), r.part("threads").to_owned());
    rows.sort_by_key(order);
    Ok(rows)
}

/// The kernels that rows name, the fastest first.
fn kernels_of(rows: &[Row]) -> Vec<String> {
    let all = rns::Kernel::ALL.into_iter().rev().map(|kernel| kernel.to_string());
    all.filter(|kernel| rows.iter().any(|r| r.kernel == *kernel)).collect()
}

/// The planner's table.
fn prices(rows: &[Row]) -> String {
    let mut out = String::from("kernel,operation,level,threads,nanoseconds\n");
    let of_set: Vec<&Row> = rows.iter().filter(|r| r.layer() == "ckks" && r.part("set") == "H").collect();
    for kernel in kernels_of(rows) {
        let of_kernel = || of_set.iter().filter(|r| r.kernel == kernel);
        let mut line = |r: &Row, what: &str, ns: f64| {
            out += &format!("{kernel},{what},{},{},{ns:.0}\n", r.level(), r.part("threads"));
        };
        for r in of_kernel().filter(|r| PRICED.contains(&r.what())) {
            line(r, r.what(), r.ns);
        }
        for r in of_kernel().filter(|r| r.what() == SEEDED) {
            let alike = |whole: &&&Row| {
                whole.what() == WHOLE
                    && (whole.level(), whole.part("threads")) == (r.level(), r.part("threads"))
            };
            if let Some(whole) = of_kernel().find(alike) {
                line(r, EXPANSION, r.ns - whole.ns);
            }
        }
    }
    out
}
