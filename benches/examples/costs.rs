//! The price list: from what Criterion measured to a record, and from the record to `docs/costs.md` and its
//! charts.
//!
//! ```text
//! cargo bench --bench rns --bench ckks --bench helba
//! cargo run --release --example costs -- --record benches/record/DATE-costs.csv \
//!   --from target/criterion --load idle
//! ```
//! Without `--from` the pages are made from the record alone. `--from` may be repeated, for runs with other
//! kernels and for further runs with the same: the record has the least median of each kernel's runs.
//! `--kernels FILE` adds a record of all kernels, which the predictions are compared with; `--prices` renews
//! from it the table that `helba-keygen plan` predicts from. `--scores FILE` adds a record of
//! `cargo bench --bench scores`, `--committee FILE` one of `cargo bench --bench committee`, `--ways FILE` one
//! of the example `ways`, and `--compared FILE` a table of `benches/openfhe/compare.py`.

#[path = "../support/mod.rs"]
mod support;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use std::collections::BTreeMap;
use std::fmt::Write;
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
#[command(about = "Writes the price list from a record of measurements")]
struct Args {
    /// The record: read, or written first if there is `--from`.
    #[arg(long)]
    record: PathBuf,
    /// Criterion's folder, one a run: the first writes a record from them.
    #[arg(long)]
    from: Vec<PathBuf>,
    /// A record of steps and priced operations with every version of the kernels.
    #[arg(long)]
    kernels: Option<PathBuf>,
    /// A record of the steps in the ring of scores, and of a raise.
    #[arg(long)]
    scores: Option<PathBuf>,
    /// A record of what a member of a committee computes.
    #[arg(long)]
    committee: Option<PathBuf>,
    /// A record of the ways to decide for a lone user, of the example `ways`; one a kernel.
    #[arg(long)]
    ways: Vec<PathBuf>,
    /// Results of `benches/openfhe/compare.py`.
    #[arg(long)]
    compared: Vec<PathBuf>,
    /// Other libraries built natively, measured elsewhere: a table of its own, for what `--yardstick` has.
    #[arg(long)]
    native: Option<PathBuf>,
    /// Our operations in turns with transforms of `tfhe-ntt`, as `benches/openfhe/compare.py` writes it; may
    /// be repeated.
    #[arg(long)]
    yardstick: Vec<PathBuf>,
    /// How busy the machine was otherwise, in words: "idle" if it was.
    #[arg(long)]
    load: Option<String>,
    /// The commit that was measured; default: the one checked out.
    #[arg(long)]
    commit: Option<String>,
    /// Renews the planner's prices.
    #[arg(long)]
    prices: bool,
}

/// The table of the ways to decide, whose records have lines `way,kernel,threads,features,arms,median_s,…`.
fn ways_page(files: &[PathBuf]) -> Result<String> {
    let mut medians = BTreeMap::new();
    let mut kernels = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let [way, kernel, threads, _, arms, median, ..] = fields[..] else { continue };
            let kernel = kernel.to_string();
            if !kernels.contains(&kernel) {
                kernels.push(kernel.clone());
            }
            let median: f64 = median.parse()?;
            medians.insert((arms.parse::<usize>()?, kernel, way.to_string(), threads.to_string()), median);
        }
    }
    let ways =
        [("polynomial", "raised by the user"), ("raise", "raised by a raiser"), ("pbs", "`compare: pbs`")];
    let records: Vec<String> = files.iter().map(|file| format!("`{}`", name(file))).collect();
    let mut out = format!(
        "\n## Ways to decide for a lone user\n\nRecords {}. One decision at d = 8, from the request of the device to its arm, through a \
         server process over HTTP on one machine: medians of 41 decisions. Made by the example `ways`, which says how.\n\n| K | kernel |",
        records.join(", ")
    );
    for (_, text) in ways {
        write!(out, " {text}, 1 thread | 2 threads |")?;
    }
    out += "\n|---:|---|---:|---:|---:|---:|---:|---:|\n";
    for (arms, kernel) in [2, 4, 8, 16].into_iter().flat_map(|arms| kernels.iter().map(move |k| (arms, k))) {
        write!(out, "| {arms} | {kernel} |")?;
        for (way, threads) in ways.iter().flat_map(|(way, _)| ["1", "2"].map(|threads| (way, threads))) {
            match medians.get(&(arms, kernel.clone(), way.to_string(), threads.to_string())) {
                Some(seconds) => write!(out, " {:.0} ms |", 1e3 * seconds)?,
                None => out += "  |",
            }
        }
        out.push('\n');
    }
    Ok(out)
}

/// One measurement. Ids are `LAYER/WHAT/…/threads=T`.
struct Row {
    kernel: String,
    id: String,
    ns: f64,
    bits: String,
    bytes: String,
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

    /// d and K of a bandit.
    fn problem(&self) -> Option<(usize, usize)> {
        let (d, k) = self.part("d").split_once(";K=")?;
        Some((d.parse().ok()?, k.parse().ok()?))
    }

    /// Small problems and rings first.
    fn order(&self) -> impl Ord + use<'_> {
        let size = (self.part("n"), self.part("set"), self.part("bits"));
        (self.layer(), self.what(), self.problem(), size, self.level(), self.part("threads"), &self.kernel)
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    if !args.from.is_empty() {
        let load = args.load.context("nobody knows how busy the machine was: say so with --load")?;
        fs::write(&args.record, record(&args.from, &load, args.commit)?)?;
        println!("{} is of {} runs", args.record.display(), args.from.len());
    }
    let (about, rows) = read(&args.record)?;
    let every_kernel = args.kernels.as_deref().map(read).transpose()?;
    fs::create_dir_all("docs/costs")?;
    let mut document = page(&about, &name(&args.record), &rows)?;
    let steps = match (&args.kernels, &every_kernel) {
        (Some(file), Some((about, rows))) => steps_page(about, &name(file), rows),
        _ => steps_page(&about, &name(&args.record), &rows),
    };
    document += &steps?;
    if let Some(file) = &args.scores {
        let (about, rows) = read(file)?;
        document += &scores_page(&about, &name(file), &rows)?;
    }
    if let Some(file) = &args.committee {
        let (about, rows) = read(file)?;
        document += &committee_page(&about, &name(file), &rows)?;
    }
    if !args.ways.is_empty() {
        document += &ways_page(&args.ways)?;
    }
    if let (Some(file), Some((about, rows))) = (&args.kernels, &every_kernel) {
        document += &kernels_page(about, &name(file), rows)?;
    }
    document += &limbs(&rows)?;
    document += &comparisons(&args.compared)?;
    if let Some(file) = &args.native {
        document += &native(file, &args.yardstick)?;
    }
    fs::write("docs/costs.md", document)?;
    fs::write("docs/costs/operations.svg", operations_chart(&rows))?;
    let steps = every_kernel.map_or(rows, |(_, rows)| rows);
    fs::write("docs/costs/steps.svg", steps_chart(&steps))?;
    if args.prices {
        fs::write("crates/planner/src/measured.csv", prices(&steps))?;
    }
    println!("docs/costs.md and its charts are of {}", args.record.display());
    Ok(())
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
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

/// Machine and commit in words, and the rows, small problems and rings first.
fn read(file: &Path) -> Result<(String, Vec<Row>)> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut lines = text.lines();
    ensure!(lines.next() == Some(HEAD), "a record starts with the line {HEAD}");
    let (mut about, mut rows) = (String::new(), Vec::new());
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let [commit, machine, cores, kernel, id, ns, bits, bytes] = fields[..] else {
            anyhow::bail!("not a line of a record: {line}");
        };
        about = format!("{machine}; {cores} cores; commit {commit}");
        let ns = ns.parse().with_context(|| line.to_owned())?;
        rows.push(Row { kernel: kernel.into(), id: id.into(), ns, bits: bits.into(), bytes: bytes.into() });
    }
    rows.sort_by(|a, b| a.order().cmp(&b.order()));
    Ok((about, rows))
}

/// Three digits, with a unit.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

fn size(bytes: &str) -> String {
    bytes.parse::<f64>().map_or(String::new(), |b| format!("{:.2} MB", b / 1e6))
}

fn page(about: &str, record: &str, rows: &[Row]) -> Result<String> {
    let mut out = String::new();
    writeln!(
        out,
        "# Costs\n\nMade by `cargo run --release --example costs -- --record benches/record/{record} ...` \
         (the whole command is in [benches/record](../benches/record/README.md)); the raw numbers are in that file.\n\nMachine: {about}; avx512 kernels, where no other is named. Times are medians of ten samples. **They are too long on a machine that does other work at \
         the same time, most of all those on two threads;** compare only times of one table. Bits are \
         −log₂ of the largest error of a slot, compared with the clear result.\n\n\
         ![Operations](costs/operations.svg)\n\n![Steps of a bandit](costs/steps.svg)"
    )?;
    out += "\n## Ciphertexts\n\nAll N/2 slots are used. Levels are those before the operation: a high, a middle and a low \
            one. A polynomial of degree 7, 15 or 31 takes 3, 4 or 5 levels, and is measured where there \
            are enough. `mul` relinearises and rescales. `rotate_16` makes sixteen rotations of one \
            ciphertext. `rotate_seeded` makes one rotation with a key of which one half is stored as its \
            seed; servers store the keys of rotations that only batch updates make in this form \
            ([arithmetic.md](arithmetic.md)). `sum_of_4_rotations` adds four rotations with one \
            division. `linear_16_diagonals` has its diagonals encoded in advance. Bytes are those of the \
            result on the wire. Set H is `logn15-logqp858-depth18`, which bandits of nine to sixteen \
            arms use. Other libraries are measured at the sizes C, A and B, and S is a small set. First prime \
            + levels × bits + P are 50 + 8 × 40 + 50 (C), 50 + 18 × 40 + 96 (A), 50 + 30 × 45 + 336 (B) \
            and 40 + 3 × 30 + 83 bits (S).\n";
    for (label, log_n) in
        distinct(rows.iter().filter(|r| r.layer() == "ckks"), |r| (r.part("set"), r.part("n")))
    {
        let of_set: Vec<&Row> =
            rows.iter().filter(|r| r.layer() == "ckks" && r.part("set") == label).collect();
        let mut levels = distinct(of_set.iter().copied(), Row::level);
        levels.sort_unstable_by(|a, b| b.cmp(a));
        let Some(&top) = levels.first() else { continue };
        write!(out, "\n### Set {label}: N = {log_n}, {top} levels\n\n| operation |")?;
        let cells: Vec<(usize, &str)> = levels.iter().flat_map(|&l| [(l, "1"), (l, "2")]).collect();
        cells.iter().try_for_each(|(l, threads)| match *threads {
            "1" => write!(out, " level {l}, 1 thread |"),
            _ => write!(out, " 2 threads |"),
        })?;
        writeln!(out, " bits at {top} | bytes |")?;
        writeln!(out, "|---|{}---:|---:|", "---:|".repeat(cells.len()))?;
        for what in distinct(of_set.iter().copied(), Row::what) {
            let find = |level: usize, threads: &str| {
                of_set.iter().find(|r| r.what() == what && r.level() == level && r.part("threads") == threads)
            };
            let cell = |row: Option<&&Row>| row.map_or(String::new(), |r| time(r.ns));
            write!(out, "| `{what}` |")?;
            cells.iter().try_for_each(|&(l, threads)| write!(out, " {} |", cell(find(l, threads))))?;
            let (bits, bytes) = find(top, "1").map_or(("", String::new()), |r| (&r.bits, size(&r.bytes)));
            writeln!(out, " {bits} | {bytes} |")?;
        }
    }
    Ok(out)
}

/// The steps of a bandit with the fastest kernels of a record.
fn steps_page(about: &str, record: &str, rows: &[Row]) -> Result<String> {
    let mut out = format!(
        "\n## A bandit's steps\n\nMachine: {about}; record [{record}](../benches/record/{record}). Each problem \
            runs on the parameter set that `helba-keygen` chooses for it ([parameters.md](parameters.md)). The level is the one before the step. Bits compare with \
            the same step in the clear, so that the approximation errors of polynomials are not part of \
            them ([precision.md](precision.md), [circuits.md](circuits.md)). `sqrt_15` is the polynomial \
            of degree 15 for the square root. `compare_6_rough` compares all pairs with a resolution of \
            2⁻⁶ by two polynomials of degree 15; `compare_6`, `compare_8` and `compare_10` are the \
            minimax composites for 2⁻⁶, 2⁻⁸ and 2⁻¹⁰. `argmax` takes the differences, the default \
            comparison (`compare_6_rough`, above 32 arms `compare_6`) and the product over a row of \
            pairs. `index` is the optimistic index from raised scores, and `evaluate` everything between \
            the raise and the answers, once for all users of an evaluation. `score` is the product of one \
            user's contexts and the model in the ring of scores, with the bytes of the contexts, and `answer` \
            one user's answer. `refresh_encrypt` is the part of the device.\n\n\
            | step | d, K | level | 1 thread | 2 threads | bits | bytes |\n|---|---|---:|---:|---:|---:|---:|\n"
    );
    let fastest = kernels_of(rows).into_iter().next().unwrap_or_default();
    let helba = || layer(rows, "helba").filter(|r| r.kernel == fastest);
    for r in helba().filter(|r| r.part("threads") == "1") {
        let twin = helba().find(|t| {
            t.what() == r.what()
                && t.problem() == r.problem()
                && t.part("l") == r.part("l")
                && t.part("threads") == "2"
        });
        let two = twin.map_or(String::new(), |t| time(t.ns));
        let (what, (d, k)) = (r.what(), r.problem().unwrap_or_default());
        writeln!(
            out,
            "| `{what}` | {d}, {k} | {} | {} | {two} | {} | {} |",
            r.level(),
            time(r.ns),
            r.bits,
            size(&r.bytes)
        )?;
    }
    Ok(out)
}

/// The steps in the ring of scores, and of a raise.
fn scores_page(about: &str, record: &str, rows: &[Row]) -> Result<String> {
    let mut out = format!(
        "\n## Scores and raises\n\nRecord `{record}`: {about}. Eight arms and the default parameters. `encrypt`, with its frame, is the part of a \
            device and `raise` that of a raiser; the others are the server's. Once a user: `read`, `product`, and `pack_per_user`, the mean of a \
            pack of 256 users. Once an evaluation: `pack_of_one`, what a pack of one user takes, `mask` with the re-randomisation, and `unmask`. \
            Square root, comparison and argmax follow, for all users at once (`evaluate` above). Bytes are those of the message.\n\n\
            | step | ring | 1 thread | 2 threads | bytes |\n|---|---|---:|---:|---:|\n"
    );
    for row in rows.iter().filter(|row| row.part("threads") == "1") {
        let (what, ring) = (row.what(), row.part("n"));
        let two = rows.iter().find(|r| r.what() == what && r.part("n") == ring && r.part("threads") == "2");
        let two = two.map_or(String::new(), |row| time(row.ns));
        writeln!(out, "| `{what}` | {ring} | {} | {two} | {} |", time(row.ns), size(&row.bytes))?;
    }
    Ok(out)
}

/// What a member of a committee computes.
fn committee_page(about: &str, record: &str, rows: &[Row]) -> Result<String> {
    let mut out = format!(
        "\n## A committee\n\nRecord [{record}](../benches/record/{record}): {about}. One thread; all members are in one process, \
            and times are those of one of them. `product` is one of numbers below 2¹²⁷ − 1, `mask` such a number from the stream of a key; \
            `request` is what hides four rows of seven features at the device. `prepare` makes a slot for a decision, its part of the check \
            included, and `decide` one decision on it: both of batches of 32.\n\n\
            | what | committee | d, K | time |\n|---|---|---|---:|\n"
    );
    let mut rows: Vec<&Row> = layer(rows, "committee").collect();
    // Numbers first, then pads, then committees.
    rows.sort_by_key(|row| {
        let parts: Vec<&str> = row.id.split('/').collect();
        let problem = row.part("d").split_once(";k=").and_then(|(d, _)| d.parse::<u32>().ok());
        (
            !row.id.contains("/field/"),
            !row.id.contains("/pads/"),
            parts[1].to_owned(),
            problem,
            row.id.clone(),
        )
    });
    for row in rows {
        let parts: Vec<&str> = row.id.split('/').skip(1).collect();
        let members = |of: &str| -> Result<f64> {
            let (_, members) = of.split_once("-of-").context("a committee is named as 2-of-3")?;
            Ok(members.parse()?)
        };
        match parts[..] {
            ["field", what] => writeln!(out, "| `{what}` |  |  | {:.1} ns |", row.ns)?,
            ["pads", _, of] => {
                let of = of.replace('-', " ");
                writeln!(out, "| `request` | {of} | 7, 4 | {} |", time(row.ns))?;
            }
            [of, problem, what, slots] => {
                let each = row.ns / (members(of)? * slots.parse::<f64>()?);
                let (d, k) = problem.split_once(";k=").context("a problem is named as d=2;k=2")?;
                let (of, d) = (of.replace('-', " "), d.trim_start_matches("d="));
                writeln!(out, "| `{what}` | {of} | {d}, {k} | {} |", time(each))?;
            }
            _ => anyhow::bail!("{} is none of this record", row.id),
        }
    }
    Ok(out)
}

/// Transforms and sums of one limb.
fn limbs(rows: &[Row]) -> Result<String> {
    let mut out = String::from(
        "\n## Kernels\n\nEach row is for one limb, or for one polynomial where a set is named, at level `l`. \
            `ntt_forward` and `ntt_inverse` transform one limb, and `…_tfhe` are the transforms of \
            `tfhe-ntt`. `combine_5` is a sum of five limbs times constants, and `pair_products_5` \
            multiplies five digits by the pairs of a key. `mod_up` computes the digits of a key switch, \
            and `mod_down` divides by P ([arithmetic.md](arithmetic.md)).\n\n| kernel | size | 1 thread | 2 threads |\n|---|---|---:|---:|\n",
    );
    let kernels = || rows.iter().filter(|r| r.layer() == "rns");
    for r in kernels().filter(|r| r.part("threads") == "1") {
        let (stem, _) = r.id.rsplit_once('/').unwrap_or_default();
        let two = kernels().find(|t| t.id == format!("{stem}/threads=2"));
        let parts: Vec<&str> = stem.split('/').skip(2).collect();
        let two = two.map_or(String::new(), |t| time(t.ns));
        writeln!(out, "| `{}` | {} | {} | {two} |", r.what(), parts.join(", "), time(r.ns))?;
    }
    Ok(out)
}

/// Tables of `benches/openfhe/compare.py`.
fn comparisons(compared: &[PathBuf]) -> Result<String> {
    let mut out = String::new();
    if !compared.is_empty() {
        out += "\n## Beside other libraries\n\nThe libraries were measured in turns within one run (`benches/openfhe/compare.py`) of the \
            commits that `benches/record/README.md` names. They are the Python wheels of OpenFHE and SEAL \
            (TenSEAL), which are built without the vector kernels of HEXL. Rings and the bits of each \
            ciphertext prime are the same; each library chooses special primes and digits under the same \
            bound. Each operation is timed after 20 ms or more of the same calls. The ratio is their time over \
            ours, with a 95 % interval: above 1 we are faster. Bits are those of the mean error. Their \
            operands are encrypted under the public key, ours under the secret key, as devices encrypt, \
            which alone gives 6 to 7 bits.\n\n\
                | library | set | threads | operation | our kernels | theirs | ours | ratio | interval | their bits | our bits |\n\
                |---|---|---:|---|---|---:|---:|---:|---|---:|---:|\n";
        for file in compared {
            out += &comparison(file)?;
        }
    }
    Ok(out)
}

/// In the order of their first appearance.
fn distinct<'a, T: PartialEq>(rows: impl Iterator<Item = &'a Row>, f: impl Fn(&'a Row) -> T) -> Vec<T> {
    rows.fold(Vec::new(), |mut all, r| {
        let x = f(r);
        if !all.contains(&x) {
            all.push(x);
        }
        all
    })
}

/// Operations, steps and transforms with each version of the kernels, and the predictions beside them.
fn kernels_page(about: &str, record: &str, rows: &[Row]) -> Result<String> {
    let mut out = format!(
        "\n## With each kernel\n\nMachine: {about}; record [{record}](../benches/record/{record}). The kernels took turns, and each time \
         is the least of the medians of its runs. Rows without a time were not measured with that kernel.\n\n"
    );
    let both = ["1", "2"];
    out += &side_by_side(rows, "ckks", "operation | set | level", &both, |r| {
        format!("`{}` | {} | {}", r.what(), r.part("set"), r.level())
    });
    out += &side_by_side(rows, "helba", "step | d, K | level", &both, |r| {
        let (d, k) = r.problem().unwrap_or_default();
        format!("`{}` | {d}, {k} | {}", r.what(), r.level())
    });
    out += "One limb, on one thread. `…_tfhe` and `…_tfhe32` are the transforms of `tfhe-ntt` with its kernels for AVX2, of words \
            of 64 and of 32 bits, beside each of ours in turn; they do not depend on our kernel.\n\n";
    out += &side_by_side(rows, "rns", "one limb | size | bits", &both[..1], |r| {
        format!("`{}` | {} | {}", r.what(), r.part("n"), r.part("bits"))
    });
    out += &predictions(rows)?;
    Ok(out)
}

/// A table of a layer's rows with columns for kernels and numbers of threads.
fn side_by_side(
    rows: &[Row],
    of_layer: &'static str,
    head: &str,
    threads: &[&str],
    label: impl Fn(&Row) -> String,
) -> String {
    let columns: Vec<(&str, String)> =
        threads.iter().flat_map(|&t| kernels_of(rows).into_iter().map(move |kernel| (t, kernel))).collect();
    let names = columns
        .iter()
        .map(|(t, kernel)| format!(" {kernel}, {t} thread{} |", if *t == "1" { "" } else { "s" }));
    let mut out =
        format!("| {head} |{}\n|---|---|---:|{}\n", names.collect::<String>(), "---:|".repeat(columns.len()));
    for name in distinct(layer(rows, of_layer), &label) {
        out += &format!("| {name} |");
        for (t, kernel) in &columns {
            let of = |r: &&Row| r.kernel == *kernel && r.part("threads") == *t && label(r) == name;
            out += &layer(rows, of_layer).find(of).map_or("  |".into(), |r| format!(" {} |", time(r.ns)));
        }
        out += "\n";
    }
    out + "\n"
}

fn layer<'a>(rows: &'a [Row], layer: &'static str) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |r| r.layer() == layer)
}

/// The kernels that rows name, the fastest first.
fn kernels_of(rows: &[Row]) -> Vec<String> {
    let all = rns::Kernel::ALL.into_iter().rev().map(|kernel| kernel.to_string());
    all.filter(|kernel| rows.iter().any(|r| r.kernel == *kernel)).collect()
}

/// What `helba-keygen plan` says beside what was measured.
fn predictions(rows: &[Row]) -> Result<String> {
    let mut out = String::from(
        "## Predictions\n\n`helba-keygen plan` knows the times of eight operations of set H with each kernel, and how often a \
            circuit makes each operation at each level. The table compares its predictions with the \
            measurements of the same record.\n\n\
         | d, K | step | kernel | threads | predicted | measured | measured/predicted |\n|---|---|---|---:|---:|---:|---:|\n",
    );
    for problem in distinct(layer(rows, "helba"), Row::problem).into_iter().flatten() {
        let (d, k) = problem;
        for of_kernel in planner::plan(d, k, 1000, ckks::Security::Classical128)?.kernels.iter().rev() {
            let kernel = of_kernel.kernel.to_string();
            for s in &of_kernel.seconds {
                for (step, predicted) in
                    [("evaluate", s.evaluation), ("answer", s.answer), ("update", s.update)]
                {
                    let threads = s.threads.to_string();
                    let of = |r: &&Row| {
                        (r.kernel.as_str(), r.problem(), r.what(), r.part("threads"))
                            == (&kernel, Some(problem), step, &threads)
                    };
                    let Some(row) = layer(rows, "helba").find(of) else { continue };
                    let (want, got, ratio) = (time(predicted * 1e9), time(row.ns), row.ns / predicted / 1e9);
                    writeln!(
                        out,
                        "| {d}, {k} | {step} | {kernel} | {threads} | {want} | {got} | {ratio:.2} |"
                    )?;
                }
            }
        }
    }
    Ok(out)
}

/// Lines of a file of `benches/openfhe/compare.py`.
fn comparison(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut out = String::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [peer, set, threads, what, _, theirs, ours, ratio, low, high, bits, our_bits, ..] = fields[..]
        else {
            anyhow::bail!("not a line of a comparison: {line}");
        };
        let kernel = fields.get(12).unwrap_or(&"avx512");
        let number = |s: &str| s.parse::<f64>().with_context(|| line.to_owned());
        let bits = [bits, our_bits].map(|b| b.parse().ok().filter(|b: &f64| b.is_finite()));
        let [bits, our_bits] = bits.map(|b| b.map_or(String::new(), |b| format!("{b:.1}")));
        writeln!(
            out,
            "| {peer} | {set} | {threads} | `{what}` | {kernel} | {} | {} | {:.2} | {:.2} to {:.2} | {bits} | {our_bits} |",
            time(number(theirs)? * 1e9),
            time(number(ours)? * 1e9),
            number(ratio)?,
            number(low)?,
            number(high)?
        )?;
    }
    Ok(out)
}

/// Native builds of other libraries, measured on another day, beside ours: as they are, and in transforms of
/// a third party that ran on both days.
fn native(file: &Path, yardstick: &[PathBuf]) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut theirs = Vec::new();
    for line in text.lines().skip(1) {
        let [what, set, threads, library, ms] = line.split(',').collect::<Vec<_>>()[..] else {
            anyhow::bail!("not a line of native builds: {line}");
        };
        theirs.push((what, set, threads, library, ms.parse::<f64>().with_context(|| line.to_owned())?));
    }
    let mut out = format!(
        "\n### Native builds, of another day\n\nThe fastest of OpenFHE 1.5.1 and SEAL 4.4.3 with HEXL 1.2.5, and of Lattigo 6.2.0; on two \
         threads OpenFHE alone. They ran on a machine like this one that was not idle (record `{}`), \
         which may have slowed them, most of all on two threads. `mul` includes its rescaling. Their sets \
         A and B have a first prime of 60 bits. **They were not measured in one run with ours.** Machines \
         of one kind differ by a third from hour to hour. The last column is therefore (our time / our \
         transform) / (their time / their transform), where a transform is one of `tfhe-ntt` of the same \
         length on one thread: of that day for them, and in turns with each operation for us \
         (`benches/openfhe/compare.py --peers tfhe-ntt`). Below 1 we are faster.\n\n\
         | operation | set | threads | fastest other | its ms | our ms | ours/theirs | in transforms |\n\
         |---|---|---:|---|---:|---:|---:|---:|\n",
        file.file_name().unwrap_or_default().to_string_lossy()
    );
    for file in yardstick {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let ["tfhe-ntt", set, threads, what, _, transform, ours, ..] = fields[..] else { continue };
            let found = theirs.iter().filter(|t| (t.0, t.1, t.2) == (what, set, threads));
            let Some((.., library, ms)) = found.min_by(|a, b| a.4.total_cmp(&b.4)) else { continue };
            let transform_then = theirs.iter().find(|t| (t.0, t.1) == ("ntt_tfhe", set));
            let (.., transform_then) = transform_then.context("no transform of that day")?;
            let transform: f64 = transform.parse().with_context(|| line.to_owned())?;
            let ours: f64 = ours.parse().with_context(|| line.to_owned())?;
            let (ratio, by_transforms) = (ours * 1e3 / ms, ours / transform / (ms / transform_then));
            writeln!(
                out,
                "| `{what}` | {set} | {threads} | {library} | {ms} | {:.2} | {ratio:.2} | {by_transforms:.2} |",
                ours * 1e3
            )?;
        }
    }
    Ok(out)
}

/// The planner's table.
fn prices(rows: &[Row]) -> String {
    let mut out = String::from("kernel,operation,level,threads,nanoseconds\n");
    let of_set: Vec<&Row> = layer(rows, "ckks").filter(|r| r.part("set") == "H").collect();
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

fn operations_chart(rows: &[Row]) -> String {
    let wanted = ["encrypt_public", "mul", "rotate", "rotate_16", "chebyshev_15"];
    let top =
        |set: &str| rows.iter().filter(|r| r.layer() == "ckks" && r.part("set") == set).map(Row::level).max();
    let bars = rows.iter().filter(|r| {
        r.layer() == "ckks"
            && r.part("threads") == "1"
            && wanted.contains(&r.what())
            && Some(r.level()) == top(r.part("set"))
    });
    let bars: Vec<_> =
        bars.map(|r| (format!("{}, set {}, N = {}", r.what(), r.part("set"), r.part("n")), r.ns)).collect();
    chart("Operations at the top level, one thread", &bars)
}

fn steps_chart(rows: &[Row]) -> String {
    let wanted = ["index", "argmax", "evaluate", "update"];
    let bars = rows
        .iter()
        .filter(|r| r.layer() == "helba" && r.part("threads") == "1" && wanted.contains(&r.what()));
    // A record of several kernels has the fastest one's bars.
    let fastest = kernels_of(rows).into_iter().next();
    let bars = bars.filter(|r| Some(&r.kernel) == fastest.as_ref());
    let label = |r: &Row| {
        let (d, k) = r.problem().unwrap_or_default();
        format!("{}, d = {d}, K = {k}", r.what())
    };
    let bars: Vec<_> = bars.map(|r| (label(r), r.ns)).collect();
    chart("Steps of a bandit, one thread", &bars)
}

/// Horizontal bars with their times, as long as the logarithm over the smallest.
fn chart(title: &str, bars: &[(String, f64)]) -> String {
    let low = bars.iter().map(|b| b.1).fold(f64::INFINITY, f64::min) / 2.0;
    let high = bars.iter().map(|b| b.1).fold(0.0, f64::max);
    let height = 70 + 22 * bars.len();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"800\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"24\" font-size=\"17\">{title} (logarithmic)</text>\n"
    );
    let along = |ns: f64| 400.0 * (ns / low).ln() / (high / low).ln();
    for decade in (0..12).map(|e| 10f64.powi(e)).filter(|&ns| low < ns && ns < high) {
        let x = 268.0 + along(decade);
        out += &format!(
            "<line x1=\"{x:.0}\" y1=\"36\" x2=\"{x:.0}\" y2=\"{0}\" stroke=\"#cccccc\"/>\
             <text x=\"{x:.0}\" y=\"{1}\" text-anchor=\"middle\" fill=\"#666666\">{2}</text>\n",
            height - 24,
            height - 8,
            time(decade)
        );
    }
    for (i, (label, ns)) in bars.iter().enumerate() {
        let (y, width) = (40 + 22 * i, along(*ns));
        let (text, end) = (y + 13, 275.0 + width);
        out += &format!(
            "<text x=\"260\" y=\"{text}\" text-anchor=\"end\">{label}</text><rect x=\"268\" y=\"{y}\" \
             width=\"{width:.0}\" height=\"16\" fill=\"#4477aa\"/><text x=\"{end:.0}\" y=\"{text}\">{}</text>\n",
            time(*ns)
        );
    }
    out + "</svg>\n"
}
