//! Figure 1 of the paper, with its encrypted curve on real 128-bit keys: regret of OFUL, RSOFUL, RSOFUL-Tr
//! and HELBA in the clear, and of HELBA on ciphertexts, played against a server in a process of its own over
//! HTTP.
//!
//! ```text
//! cargo run --release --example paper_figure1 -- [--rounds 130] [--seeds 5] [--encrypted-seeds 1] \
//!   [--csv FILE] [--plot FILE.svg] [--json]
//! cargo run --release --example paper_figure1 -- --method paper --rounds 6 [--json]
//! ```
//! The second command plays the same rounds by the circuits of the paper, end to end on ciphertexts, and by
//! the default method, and prints the seconds of a round of both.

mod support;

use anyhow::{Context, Result, anyhow};
use bandit::toy::{FIGURE_1_CONTEXTS, FIGURE_1_ROUNDS, Toy};
use bandit::{
    Arithmetic, Environment, Features, HelbaClear, LinearConfig, Oful, Policy, Ridge, Schedule, Summary,
    Width,
};
use clap::Parser;
use protocol::{BanditConfig, Exchanging, Updates, UserKeys, WidthShape};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;
use support::{Deployment, Log, PaperDeployment, Raises, median, percentile};
use testkit::ClearTwin;

/// 20 h 39 min for 130 rounds, section 6 of the paper.
const PAPER_SECONDS: f64 = 74_340.0;

#[derive(Parser)]
#[command(about = "Figure 1 of the paper: regret in the clear and on ciphertexts")]
struct Args {
    /// `default` runs all policies. `paper` plays the same rounds by the circuits of the paper and by the
    /// default method, on ciphertexts.
    #[arg(long, default_value = "default", value_parser = ["default", "paper"])]
    method: String,
    /// Number of rounds of each run.
    #[arg(long, default_value_t = FIGURE_1_ROUNDS as u64, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Number of runs of each policy in the clear. Runs with equal seeds have equal rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Number of encrypted runs, on the first seeds. 0 omits them.
    #[arg(long, default_value_t = 1)]
    encrypted_seeds: u64,
    /// The width of the encrypted runs: `theory` is that of the paper, with a square root, and `tangent` the
    /// default of the service, whose circuit has none.
    #[arg(long, default_value = "theory", value_parser = ["theory", "tangent"])]
    width: String,
    /// Writes round, policy, seed and cumulative regret as CSV to this file.
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Writes the mean curves as SVG to this file.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Small keys without security for the encrypted runs, for tests.
    #[arg(long)]
    toy: bool,
    /// Prints one JSON object instead of the table.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn width(&self) -> WidthShape {
        if self.width == "tangent" { WidthShape::Tangent } else { WidthShape::Root }
    }
}

/// One run of one policy.
struct Run {
    seed: u64,
    /// Cumulative regret, round by round.
    regret: Vec<f64>,
    updates: u64,
}

impl Run {
    fn last(&self) -> f64 {
        self.regret.last().copied().unwrap_or(0.0)
    }
}

/// All runs of one policy.
struct Curve {
    policy: &'static str,
    runs: Vec<Run>,
}

impl Curve {
    /// Final regrets on the seeds below `seeds`.
    fn finals(&self, seeds: u64) -> Vec<f64> {
        self.runs.iter().filter(|r| r.seed < seeds).map(Run::last).collect()
    }

    fn mean(&self, value: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(value).sum::<f64>() / self.runs.len().max(1) as f64
    }
}

/// The cost of the encrypted runs, and their distance from exact arithmetic.
struct Encrypted {
    curve: Curve,
    log: Log,
    total_seconds: f64,
    /// How far the clear indices left the middle of the comparison's range, relative to half of it: below 1
    /// is inside.
    farthest_index: f64,
    refreshes: u64,
    server_peak_bytes: u64,
    /// The bytes that the raiser sent, in all rounds together.
    raised_bytes: u64,
    deployment: Deployment,
}

fn main() -> Result<()> {
    support::serve_if_asked()?;
    let args = Args::parse();
    let helba = LinearConfig::figure_1();
    let baseline = LinearConfig { width: Width::SelfNormalized, ..helba };
    // Encrypted rewards must be within ±1. These rewards reach L·S plus their noise. R is public and exceeded
    // by one reward in 16,000 (four standard deviations), which is clipped. Rewards divided by R have the
    // parameter θ/R and the noise σ/R, so that S and σ are divided too, and the index is R times smaller. The
    // exception is the term t_j^(-1/2) of the width, which the paper states for rewards within ±1: relative
    // to the others it is R times as wide as on the original rewards.
    let bound = helba.l * helba.s + 4.0 * helba.sigma;
    // Under the schedule of the paper, a device tells the server one bit of a decryption per round.
    let schedule = Schedule::TraceOrGrowth;
    let scaled = LinearConfig { s: helba.s / bound, sigma: helba.sigma / bound, schedule, ..helba };

    let config = BanditConfig {
        linear: scaled,
        horizon: args.rounds,
        unanswered: 1,
        ..BanditConfig::new(helba.d, helba.k)
    };
    let config = match args.width() {
        WidthShape::Root => config,
        // Rewards are in [−1, 1].
        WidthShape::Tangent => config.exploring(None, None, Some([-1.0, 1.0]))?,
    };
    if args.method == "paper" {
        return both_methods(&args, &config, bound);
    }
    let exact = |config| HelbaClear::new(config, Arithmetic::Exact);
    let mut curves = vec![
        curve("OFUL", &args, 1.0, || Oful::every_round(baseline), Oful::ridge)?,
        curve("RSOFUL", &args, 1.0, || Oful::rsoful(baseline), Oful::ridge)?,
        curve("RSOFUL-Tr", &args, 1.0, || Oful::rsoful_tr(baseline), Oful::ridge)?,
        curve("HELBA", &args, 1.0, || exact(helba), HelbaClear::ridge)?,
        curve("HELBA (rewards / R)", &args, bound, || exact(scaled), HelbaClear::ridge)?,
    ];
    let mut encrypted = if args.encrypted_seeds > 0 { Some(encrypted(&args, &config, bound)?) } else { None };
    if let Some(e) = &mut encrypted {
        curves.push(Curve { policy: e.curve.policy, runs: std::mem::take(&mut e.curve.runs) });
    }

    if let Some(path) = &args.csv {
        host::write_whole(path, csv(&curves).as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &args.plot {
        host::write_whole(path, svg(&curves, args.rounds as usize)?.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        println!("{}", json(&args, &curves, encrypted.as_ref(), bound));
    } else {
        print_table(&args, &curves, encrypted.as_ref(), bound);
    }
    Ok(())
}

fn toy(seed: u64) -> Result<(Toy, ChaCha20Rng)> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    Ok((Toy::new(&LinearConfig::figure_1(), FIGURE_1_CONTEXTS, &mut rng)?, rng))
}

/// The reward as the policy learns it.
fn learnt(reward: f64, bound: f64) -> f64 {
    if bound == 1.0 { reward } else { (reward / bound).clamp(-1.0, 1.0) }
}

/// A policy in the clear, on all seeds, with its rewards divided by `bound`.
fn curve<P: Policy<Context = Features, Feedback = f64>>(
    policy: &'static str,
    args: &Args,
    bound: f64,
    make: impl Fn() -> Result<P, bandit::Error>,
    ridge: impl Fn(&P) -> &Ridge,
) -> Result<Curve> {
    let run = |seed| -> Result<Run> {
        let (mut toy, mut rng) = toy(seed)?;
        let mut policy = make()?;
        // These policies use no randomness.
        let mut unused = ChaCha20Rng::seed_from_u64(seed);
        let (mut regret, mut sum) = (Vec::new(), 0.0);
        for _ in 0..args.rounds {
            toy.begin(&mut rng);
            let arm = policy.decide(toy.context()?, &mut unused)?;
            let outcome = toy.play(arm, &mut rng)?;
            policy.learn(toy.context()?, arm, &learnt(outcome.reward, bound), &mut unused)?;
            sum += outcome.regret;
            regret.push(sum);
        }
        Ok(Run { seed, regret, updates: ridge(&policy).updates() })
    };
    Ok(Curve { policy, runs: (0..args.seeds).map(run).collect::<Result<_>>()? })
}

/// HELBA on ciphertexts, on the first seeds; one set of keys, a bandit a seed.
fn encrypted(args: &Args, config: &BanditConfig, bound: f64) -> Result<Encrypted> {
    let start = Instant::now();
    let deployment = Deployment::start_with(
        (config.linear.d, config.linear.k),
        args.toy,
        args.json,
        user_client::MOST_ANSWERS,
        None,
        (args.width(), Updates::Slots, Exchanging::One, UserKeys::Shared),
    )?;
    let progress =
        support::progress(args.rounds * args.encrypted_seeds, "learning on ciphertexts", args.json);
    let (mut log, mut runs) = (Log::default(), Vec::new());
    let (mut farthest_index, mut refreshes) = (0f64, 0);
    let mut rounds_rng = user_client::os_rng()?;
    let raised = Raises::default();
    for seed in 0..args.encrypted_seeds {
        let (mut toy, mut rng) = toy(seed)?;
        let bandit = deployment.device().join(&deployment.client().create_encrypted(config)?)?;
        let mut twin = ClearTwin::new(config.clone());
        let (mut regret, mut sum) = (Vec::new(), 0.0);
        let mut play_round = || -> Result<()> {
            toy.begin(&mut rng);
            let rows: Vec<Vec<f64>> = toy.context()?.rows().map(<[f64]>::to_vec).collect();
            // An error of `play` is returned after the round, because the arm is played within it.
            let mut outcome = None;
            let play = |arm| {
                let played = toy.play(arm, &mut rng);
                let reward = played.as_ref().map_or(0.0, |o| learnt(o.reward, bound));
                outcome = Some(played);
                reward
            };
            let round =
                deployment.round((&bandit, deployment.client()), &rows, play, true, &mut rounds_rng)?;
            let outcome = outcome.context("the round ended without an arm played")??;
            sum += outcome.regret;
            regret.push(sum);

            let indices = twin.indices(&rows, round.round, round.model_feedbacks);
            let scalars = helba::Scalars::new(config, round.round, round.model_feedbacks);
            let off_middle = |v: &f64| (2.0 * (v - scalars.least_index) / scalars.range - 1.0).abs();
            farthest_index = indices.iter().map(off_middle).fold(farthest_index, f64::max);
            twin.learn(&rows[round.arm], round.reward);
            log.push(round, &indices, scalars.range, config.resolution());
            progress.inc(1);
            Ok(())
        };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| -> Result<()> {
            let raiser = scope.spawn(|| deployment.raise(&bandit, &stop, &raised));
            let played = (0..args.rounds).try_for_each(|_| play_round());
            stop.store(true, Relaxed);
            raiser.join().map_err(|_| anyhow!("the raiser panicked"))?.and(played)
        })?;
        let status = deployment.client().encrypted(&bandit.created().id)?.status;
        refreshes += status.refreshes;
        runs.push(Run { seed, regret, updates: status.batches });
    }
    progress.finish_and_clear();
    Ok(Encrypted {
        curve: Curve { policy: "HELBA encrypted", runs },
        log,
        total_seconds: start.elapsed().as_secs_f64(),
        farthest_index,
        refreshes,
        server_peak_bytes: deployment.server_peak_bytes(),
        raised_bytes: raised.bytes(),
        deployment,
    })
}

/// Plays the same rounds by the paper's circuits and by the default method, each against a server in a
/// process of its own. Both learn the reward of the arm that the paper's method plays.
fn both_methods(args: &Args, config: &BanditConfig, bound: f64) -> Result<()> {
    let shape = (config.linear.d, config.linear.k);
    let default = Deployment::start_with(
        shape,
        args.toy,
        args.json,
        user_client::MOST_ANSWERS,
        None,
        (args.width(), Updates::Slots, Exchanging::One, UserKeys::Shared),
    )?;
    let paper = PaperDeployment::start(args.toy, args.json)?;
    let bandit = default.device().join(&default.client().create_encrypted(config)?)?;
    let created = paper.client.create_paper(&config.linear)?;
    let (mut toy, mut rng) = toy(0)?;
    let mut rounds_rng = user_client::os_rng()?;
    let (stop, raised) = (AtomicBool::new(false), Raises::default());
    let progress = support::progress(args.rounds, "playing by both methods", args.json);
    let (mut of_paper, mut log, mut differences) = (Vec::new(), Log::default(), Vec::new());
    // The rounds in which the paper's arm is that of the default method, and that of exact arithmetic.
    let (mut same, mut exact) = (0u64, 0u64);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    // Exact arithmetic on the feedbacks in the model of each method.
    let [mut twin, mut exact_paper] = [(); 2].map(|()| ClearTwin::new(config.clone()));
    let mut play_round = || -> Result<()> {
        toy.begin(&mut rng);
        let rows: Vec<Vec<f64>> = toy.context()?.rows().map(<[f64]>::to_vec).collect();
        let began = Instant::now();
        let round = paper.client.decide_paper(&paper.device, &created, &rows, &mut rounds_rng)?;
        let decided = began.elapsed();
        let reward = learnt(toy.play(round.arm, &mut rng)?.reward, bound);
        let began = Instant::now();
        let feedback = paper.device.feedback(&created, &rows[round.arm], reward, &mut rounds_rng)?;
        paper.client.feedback_encrypted(&created.id, round.decision.id, &feedback)?;
        of_paper.push((decided + began.elapsed()).as_secs_f64());
        up.push((round.sent + feedback.len()) as f64);
        down.push(round.received as f64);
        let play = |_| (round.arm, reward);
        let by_default =
            default.round_learning((&bandit, default.client()), &rows, play, true, &mut rounds_rng)?;
        let indices = twin.indices(&rows, by_default.round, by_default.model_feedbacks);
        let range = helba::Scalars::new(config, by_default.round, by_default.model_feedbacks).range;
        // Of two equal indices either arm is the best.
        let own = exact_paper.indices(&rows, by_default.round, round.decision.model_feedbacks);
        exact += u64::from(own[round.arm] >= own[1 - round.arm]);
        if by_default.arm == round.arm {
            same += 1;
        } else {
            let gap = (indices[0] - indices[1]).abs() / range;
            differences.push(serde_json::json!({
                "round": by_default.round, "gap": gap, "resolution": config.resolution(),
                "model_feedbacks": { "paper": round.decision.model_feedbacks, "default": by_default.model_feedbacks },
            }));
        }
        twin.learn(&rows[round.arm], reward);
        exact_paper.learn(&rows[round.arm], reward);
        log.push(by_default, &indices, range, config.resolution());
        progress.inc(1);
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let raiser = scope.spawn(|| default.raise(&bandit, &stop, &raised));
        let played = (0..args.rounds).try_for_each(|_| play_round());
        stop.store(true, Relaxed);
        raiser.join().map_err(|_| anyhow!("the raiser panicked"))?.and(played)
    })?;
    progress.finish_and_clear();
    let status = paper.client.paper(&created.id)?.status;
    let (paper_median, default_median) = (median(&of_paper), median(&log.seconds()));
    let raises = status.raises as f64 / args.rounds as f64;
    let (ratio, agreement) = (paper_median / default_median, same as f64 / args.rounds as f64);
    let params = paper.device.params();
    if args.json {
        let json = serde_json::json!({
            "method": "paper", "rounds": args.rounds,
            "seconds_per_round_median": { "paper": paper_median, "default": default_median },
            "seconds_by_round": { "paper": of_paper, "default": log.seconds() },
            "ratio": ratio, "agreement": agreement, "differences": differences,
            "agreement_with_exact": { "paper": exact as f64 / args.rounds as f64, "default": log.agreement() }, "raises_per_round": raises, "batches": status.batches,
            "bytes_up_median": median(&up), "bytes_down_median": median(&down),
            "public_bundle_bytes": paper.public_bundle_bytes,
            "parameters": params.spec().name, "ring_degree": params.n(), "log2_qp": params.log_qp(),
            "security_bits": params.spec().security.bits(),
            "paper_seconds_per_round": PAPER_SECONDS / FIGURE_1_ROUNDS as f64,
        });
        println!("{json}");
        return Ok(());
    }
    println!(
        "\nThe paper's toy problem by the circuits of the paper and by the default method: {} rounds, {} bits\n",
        args.rounds,
        params.spec().security.bits()
    );
    println!("  seconds a round (median)   {paper_median:.2} and {default_median:.2}: {ratio:.0} times");
    println!("  both play the same arm in  {:.1} % of the rounds", 100.0 * agreement);
    println!(
        "  that of exact arithmetic   {:.1} and {:.1} %",
        100.0 * exact as f64 / args.rounds as f64,
        100.0 * log.agreement()
    );
    println!(
        "  raises a round             {raises:.1} by the paper's circuits, which end {} batches",
        status.batches
    );
    println!(
        "  the paper states {:.0} s a round, on a computer of its time",
        PAPER_SECONDS / FIGURE_1_ROUNDS as f64
    );
    Ok(())
}

fn csv(curves: &[Curve]) -> String {
    let mut out = String::from("round,policy,seed,cumulative_regret\n");
    for curve in curves {
        for run in &curve.runs {
            for (t, regret) in run.regret.iter().enumerate() {
                // Writing to a string does not fail.
                let _ = writeln!(out, "{},{},{},{regret}", t + 1, curve.policy, run.seed);
            }
        }
    }
    out
}

fn svg(curves: &[Curve], rounds: usize) -> Result<String> {
    let means: Vec<(&str, Vec<f64>)> =
        curves.iter().map(|c| (c.policy, (0..rounds).map(|t| c.mean(|r| r.regret[t])).collect())).collect();
    let series: Vec<_> = means.iter().map(|(name, values)| plot::Series { name, values }).collect();
    Ok(plot::svg("Figure 1: mean regret", "cumulative regret", &series)?)
}

fn json(args: &Args, curves: &[Curve], encrypted: Option<&Encrypted>, bound: f64) -> serde_json::Value {
    let policies: Vec<_> = curves
        .iter()
        .map(|c| {
            let finals = c.finals(u64::MAX);
            serde_json::json!({
                "policy": c.policy, "runs": c.runs.len(), "regret_mean": c.mean(Run::last),
                // One run tells of no error.
                "regret_standard_error": Summary::of(&finals).map(|s| s.standard_error), "regret_by_seed": finals,
                "updates_mean": c.mean(|r| r.updates as f64),
            })
        })
        .collect();
    let encrypted = encrypted.map(|e| {
        let (params, seconds) = (e.deployment.params(), e.log.seconds());
        let phases: serde_json::Map<_, _> =
            e.log.phases().into_iter().map(|(name, v)| (name.trim().into(), median(&v).into())).collect();
        serde_json::json!({
            "seconds_total": e.total_seconds, "seconds_keygen": e.deployment.keygen_seconds,
            "seconds_per_round_mean": seconds.iter().sum::<f64>() / seconds.len() as f64,
            "seconds_per_round_median": median(&seconds), "seconds_per_round_p95": percentile(&seconds, 0.95),
            "seconds_by_phase_median": phases, "agreement": e.log.agreement(), "verdict": e.log.verdict(),
            "farthest_index": e.farthest_index, "widest_miss": e.log.widest_miss(), "refreshes": e.refreshes,
            "bytes_up_median": median(&e.log.bytes_up()), "bytes_down_median": median(&e.log.bytes_down()),
            "public_bundle_bytes": e.deployment.public_bundle_bytes, "server_peak_bytes": e.server_peak_bytes,
            "raised_bytes_mean": e.raised_bytes as f64 / seconds.len() as f64,
            "parameters": params.spec().name, "ring_degree": params.n(), "log2_qp": params.log_qp(),
            "security_bits": params.spec().security.bits(),
        })
    });
    serde_json::json!({
        "rounds": args.rounds, "seeds": args.seeds, "reward_bound": bound, "policies": policies,
        "encrypted": encrypted, "paper_seconds_total": PAPER_SECONDS, "paper_rounds": FIGURE_1_ROUNDS,
    })
}

fn print_table(args: &Args, curves: &[Curve], encrypted: Option<&Encrypted>, bound: f64) {
    println!("\nThe paper's toy problem: 2 features, 2 arms, {} rounds; R = {bound}\n", args.rounds);
    println!(
        "                          runs   final regret          updates   regret on the encrypted seeds"
    );
    for c in curves {
        let cell = |finals: Vec<f64>| match (Summary::of(&finals), finals.first()) {
            (Some(s), _) => format!("{:8.2} ± {:<8.2}", s.mean, s.standard_error),
            (None, Some(one)) => format!("{one:8.2}           "),
            (None, None) => String::new(),
        };
        println!(
            "  {:22} {:5}   {}   {:6.1}   {}",
            c.policy,
            c.runs.len(),
            cell(c.finals(u64::MAX)),
            c.mean(|r| r.updates as f64),
            cell(c.finals(args.encrypted_seeds)).trim_end()
        );
    }
    println!("\n  ± is one standard error over the seeds");
    let Some(e) = encrypted else { return };
    let (params, seconds) = (e.deployment.params(), e.log.seconds());
    let mib = |bytes: f64| format!("{:.2} MiB", bytes / (1 << 20) as f64);
    let clock =
        |s: f64| format!("{} h {:02} min {:02} s", s as u64 / 3600, s as u64 / 60 % 60, s as u64 % 60);
    println!(
        "\n  encrypted, keys of {}-bit security, {} run(s)",
        params.spec().security.bits(),
        args.encrypted_seeds
    );
    println!("    {}", e.log.verdict());
    println!("    indices reach {:.2} of the comparison's range (1 is its end)", e.farthest_index);
    println!("    total, keys included    {}", clock(e.total_seconds));
    println!("    keys                    {:.1} s", e.deployment.keygen_seconds);
    println!(
        "    a round, updates included: mean {:.2} s   median {:.2}   p95 {:.2}",
        seconds.iter().sum::<f64>() / seconds.len() as f64,
        median(&seconds),
        percentile(&seconds, 0.95)
    );
    for (name, values) in e.log.phases() {
        println!("      {name:<30} {:.3}   {:>8.3}", median(&values), percentile(&values, 0.95));
    }
    println!(
        "    up {} (and {} from the raiser, in the mean) and down {} a round (median), public bundle {}, server's peak memory {}",
        mib(median(&e.log.bytes_up())),
        mib(e.raised_bytes as f64 / seconds.len() as f64),
        mib(median(&e.log.bytes_down())),
        mib(e.deployment.public_bundle_bytes as f64),
        mib(e.server_peak_bytes as f64)
    );
    println!("    {}: N = {}, log2(QP) = {:.1}", params.spec().name, params.n(), params.log_qp());
    println!(
        "\n  the paper, for {FIGURE_1_ROUNDS} rounds: {}, {:.0} s a round, at N = 65536 with log2(q) = 4982 (not 128 bits)",
        clock(PAPER_SECONDS),
        PAPER_SECONDS / FIGURE_1_ROUNDS as f64
    );
}
