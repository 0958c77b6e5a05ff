//! The encrypted bandit on real purchases: generates keys, starts a server in a process of its own, plays
//! rounds against it over HTTP, and compares every decision with that of a twin in exact arithmetic.
//!
//! ```text
//! cargo run --release --example quickstart -- [--rounds 300] [--data FILE [--schema FILE]] [--plot hits.svg]
//! cargo run --release --example quickstart -- --web
//! ```
//!
//! With `--web` a browser plays: a shop whose recommendations are learnt from encrypted clicks.

mod support;

use anyhow::{Context, Result, anyhow};
use bandit::datasets::Purchases;
use bandit::{Arithmetic, HelbaClear, UniformRandom};
use clap::Parser;
use datasets::{Dataset, DatasetLog};
use host::Draft;
use planner::Problem;
use protocol::{Answers, BanditConfig, Exchanging, Updates, UserKeys, WidthShape};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use support::{Deployment, Raises, median, percentile, web};
use testkit::ClearTwin;

#[derive(Parser)]
#[command(
    about = "The encrypted bandit on real purchases, with keys, server, client and a twin in exact arithmetic"
)]
struct Args {
    /// Number of purchases to play.
    #[arg(long, default_value_t = 300)]
    rounds: usize,
    /// Purchase file in the layout of data/README.md, a file that `helba-client data convert` wrote, or with
    /// --schema any other [default: the yogurt purchases].
    #[arg(long)]
    data: Option<PathBuf>,
    /// Schema of the file, as `helba-client data check` proposes one.
    #[arg(long, requires = "data")]
    schema: Option<PathBuf>,
    /// Writes the hit rate over the rounds as SVG to this file.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Prints one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// Waits for the end of a batch update before the next decision, as in the paper.
    #[arg(long)]
    synchronous: bool,
    /// The open tier: the server answers with the scores, and the device computes the arm.
    #[arg(long)]
    scores: bool,
    /// How updates are computed: `products` takes a fifth of the bytes of keys, and the device answers its
    /// exchanges.
    #[arg(long, default_value = "products")]
    updates: Updates,
    /// How often a decision asks a holder of the key: `staged`, for up to 64 features and 256 arms, asks a
    /// raiser beside the device.
    #[arg(long, default_value = "one")]
    exchanges: Exchanging,
    /// Whose keys users have: `own` enrols the user, and asks a raiser of the owner beside its device.
    #[arg(long, default_value = "shared")]
    keys: UserKeys,
    /// Factor by which a feedback counts less with each feedback after it; with --synchronous the twin in the
    /// clear weighs the same batches.
    #[arg(long)]
    discount: Option<f64>,
    /// Number of feedbacks after which a feedback counts no more.
    #[arg(long)]
    window: Option<u64>,
    /// Small keys without security, for tests.
    #[arg(long)]
    toy: bool,
    /// Serves a shop for a browser on this machine, and hands the key to its page by a link that works once.
    #[arg(long, conflicts_with_all = ["rounds", "data", "schema", "plot", "json", "synchronous", "scores", "toy"])]
    web: bool,
    /// With --web: prints the link, and does not open it.
    #[arg(long, requires = "web")]
    no_open: bool,
}

fn main() -> Result<()> {
    support::serve_if_asked()?;
    let args = Args::parse();
    if args.web {
        return serve_shop(args.no_open);
    }
    let dataset = Arc::new(match &args.data {
        Some(path) => Dataset::open(path, args.schema.as_deref())?,
        None => Purchases::yogurt()?.into(),
    });
    let rounds = args.rounds.min(dataset.rounds().len());
    anyhow::ensure!(rounds > 0, "nothing to run: --rounds is 0");
    let (d, k) = (dataset.d(), dataset.arms().len());
    let config = BanditConfig {
        horizon: rounds as u64,
        answers: if args.scores { Answers::Scores } else { Answers::Arm },
        // One device holds the key, and may see its model.
        open_model: args.scores,
        discount: args.discount,
        window: args.window,
        ..BanditConfig::new(d, k)
    };

    // A file that cannot be written is reported now and not after all rounds.
    let writing = |path: &Path| format!("cannot write {}", path.display());
    let draft =
        args.plot.as_deref().map(|path| Draft::create(path).with_context(|| writing(path))).transpose()?;
    let keys_for = (WidthShape::default(), args.updates, args.exchanges, args.keys);
    let deployment = Deployment::start_with((d, k), args.toy, args.json, 0, None, keys_for)?;
    let mut rng = user_client::os_rng()?;
    let bandit = deployment.device().join(&deployment.client().create_encrypted(&config)?)?;
    // With a key of its own the user is enrolled, and the owner of the keys answers tasks beside it.
    let own_keys = args.keys == UserKeys::Own;
    let enrolled = own_keys.then(|| deployment.user()).transpose()?;
    let of_user = enrolled.as_ref().map(|(device, _)| device.join(bandit.created())).transpose()?;
    let user = match (&of_user, &enrolled) {
        (Some(of_user), Some((_, client))) => (of_user, client),
        _ => (&bandit, deployment.client()),
    };
    let mut twin = ClearTwin::new(config.clone());
    let progress = support::progress(rounds as u64, "learning on encrypted purchases", args.json);
    let mut log = support::Log::default();
    // Without a raiser the device raises by itself, and an update waits for its next decision. It answers no
    // stage of its own decisions.
    let staged = args.exchanges == Exchanging::Staged;
    let (stop, raises) = (AtomicBool::new(!args.synchronous && !staged && !own_keys), Raises::default());
    std::thread::scope(|scope| -> Result<()> {
        let raiser = scope.spawn(|| deployment.raise(&bandit, &stop, &raises));
        let mut play_all = || -> Result<()> {
            for played in &dataset.rounds()[..rounds] {
                let rows: Vec<Vec<f64>> = played.features.rows().map(<[f64]>::to_vec).collect();
                // Every reward of the file is known, and the device chooses among its candidates.
                let play = |arm| played.observed.reward(arm).unwrap_or(0.0);
                let round = deployment.round(user, &rows, play, args.synchronous, &mut rng)?;
                let indices = twin.indices(&rows, round.round, round.model_feedbacks);
                let scalars = helba::Scalars::new(&config, round.round, round.model_feedbacks);
                twin.learn(&rows[round.arm], round.reward);
                log.push(round, &indices, scalars.range, config.resolution());
                progress.inc(1);
            }
            Ok(())
        };
        let played = play_all();
        stop.store(true, Relaxed);
        raiser.join().map_err(|_| anyhow!("the raiser panicked"))?.and(played)
    })?;
    progress.finish_and_clear();
    let status = deployment.client().encrypted(&bandit.created().id)?.status;
    let server_peak = deployment.server_peak_bytes();

    let clear = |policy: &mut HelbaClear| -> Result<Vec<f64>> {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut env = DatasetLog::new(dataset.clone());
        Ok(bandit::play(policy, &mut env, rounds, &mut rng.clone(), &mut rng)?.running_mean_reward())
    };
    let clear =
        clear(&mut HelbaClear::new(config.linear, Arithmetic::Exact)?.forgetting(config.forgetting())?)?;
    let random = {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let mut env = DatasetLog::new(dataset.clone());
        bandit::play(&mut UniformRandom, &mut env, rounds, &mut rng.clone(), &mut rng)?.running_mean_reward()
    };
    let (_, best_fixed) = dataset.best_fixed(0..rounds);
    let encrypted = log.running_hit_rate();
    let (hit, hit_clear, hit_random) = (last(&encrypted), last(&clear), last(&random));
    let verdict = log.verdict();

    if let (Some(draft), Some(path)) = (draft, &args.plot) {
        let series = [("encrypted", &encrypted), ("clear", &clear), ("random", &random)]
            .map(|(name, values)| plot::Series { name, values });
        let svg =
            plot::svg("Mean reward so far (purchases: the share that was hit)", "mean reward", &series)?;
        let written = draft.file().write_all(svg.as_bytes()).and_then(|()| draft.finish());
        written.with_context(|| writing(path))?;
    }
    let seconds = log.seconds();
    let params = deployment.params();
    let problem = Problem::new(d, k, rounds as u64, params.spec().security);
    let report = planner::plan(problem.with_keys(args.updates, args.exchanges))?;
    if args.json {
        let json = serde_json::json!({
            "rounds": rounds, "features": d, "arms": k,
            "hit_rate_encrypted": hit, "hit_rate_clear": hit_clear, "hit_rate_random": hit_random,
            "hit_rate_best_fixed": best_fixed, "agreement": log.agreement(), "widest_miss": log.widest_miss(),
            "misses": log.misses(), "ties": log.ties(), "resolved": log.resolved().0, "resolved_alike": log.resolved().1, "verdict": verdict,
            "seconds_per_round_median": median(&seconds), "seconds_per_round_p95": percentile(&seconds, 0.95),
            "seconds_by_phase_median": log.phases().into_iter().map(|(n, v)| (n.trim().replace([' ', ':'], "_").replace("__", "_"), median(&v))).collect::<std::collections::BTreeMap<_, _>>(),
            "keygen_seconds": deployment.keygen_seconds, "parameters": params.spec().name, "ring_degree": params.n(),
            "log2_qp": params.log_qp(), "security_bits": params.spec().security.bits(),
            "server_peak_bytes": server_peak, "public_bundle_bytes": deployment.public_bundle_bytes,
            "bytes_up_median": median(&log.bytes_up()), "bytes_down_median": median(&log.bytes_down()),
            "batch_updates": status.batches, "refreshes": status.refreshes,
            "keys": args.keys, "exchanges": args.exchanges, "bytes_by_exchange": raises.by_exchange(),
            "kernel": planner::kernels().to_string(), "kernels": report.kernels, "predicted_bytes_by_exchange": report.bytes_by_exchange,
        });
        println!("{json}");
        return Ok(());
    }
    let mib = |bytes: f64| format!("{:.2} MiB", bytes / (1 << 20) as f64);
    println!("\n{rounds} rounds, {k} candidates, {d} features; the server saw ciphertexts only\n");
    println!(
        "  mean reward       encrypted {hit:.3}   clear {hit_clear:.3}   random {hit_random:.3}   best fixed candidate {best_fixed:.3}"
    );
    // An upper bound on twice the standard deviation of a mean of this number of rounds.
    let chance = 1.0 / (rounds as f64).sqrt();
    println!("                    (a mean of {rounds} rounds has a random error of up to {chance:.2})");
    println!("\n  {verdict}");
    let (resolved, alike) = log.resolved();
    println!("  beyond the resolution of the comparison: {resolved} rounds, {alike} of them alike");
    println!("  (exact arithmetic on the same history; 'clear' above has its own history)");
    println!("\n  seconds per round median {:.3}   p95 {:.3}", median(&seconds), percentile(&seconds, 0.95));
    for (name, values) in log.phases() {
        println!("    {name:<28} {:.3}   {:>9.3}", median(&values), percentile(&values, 0.95));
    }
    println!("\n  up   {} per round (median)", mib(median(&log.bytes_up())));
    println!("  down {} per round (median)", mib(median(&log.bytes_down())));
    if let Some(line) = raises.line() {
        println!("  {line}");
    }
    println!("  batch updates {}, refreshed models {}", status.batches, status.refreshes);
    println!(
        "  keys generated in {:.1} s, public bundle {}",
        deployment.keygen_seconds,
        mib(deployment.public_bundle_bytes as f64)
    );
    println!("  peak memory of the server {}", mib(server_peak as f64));
    let security = match args.toy {
        true => "NO SECURITY".into(),
        false => format!("{}-bit security", params.spec().security.bits()),
    };
    println!(
        "  parameters {}: N = {}, log2(QP) = {:.1}, {security}",
        params.spec().name,
        params.n(),
        params.log_qp(),
    );
    let threads = std::thread::available_parallelism()?.get();
    println!("  {}; predicted: {}", planner::kernel_choice(), report.kernel_outlook(threads));
    Ok(())
}

/// Serves the shop until a signal ends it. This process is the key authority, and the server is another one,
/// which never gets the key.
fn serve_shop(no_open: bool) -> Result<()> {
    eprintln!("building the browser's device …");
    web::build()?;
    let authority = web::Authority::bind()?;
    let (features, arms) = web::PROBLEM;
    let deployment = Deployment::start_with(
        (features, arms),
        false,
        false,
        0,
        Some(authority.address()),
        (WidthShape::default(), Updates::Slots, Exchanging::One, UserKeys::Shared),
    )?;
    let (folder, opened) = (deployment.folder().to_path_buf(), AtomicBool::new(no_open));
    let tell = move |link: &str| {
        println!("\nThe shop, with its key: this link works once.\n\n    {link}\n");
        if !opened.swap(true, Relaxed) && web::open(link, &folder).is_err() {
            println!("It could not be opened by itself.");
        }
    };
    println!(
        "A page that holds the key can be told to give it away by whoever serves it. Here all is on this machine.\n\
         Ctrl-C ends the server and deletes keys and state."
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let page = deployment.client().server().to_string();
    runtime.block_on(authority.serve(deployment.secret(), page, tell))
}

fn last(values: &[f64]) -> f64 {
    values.last().copied().unwrap_or(0.0)
}
