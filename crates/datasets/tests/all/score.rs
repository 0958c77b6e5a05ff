//! Score features that are learnt from logged rewards, on files whose truth is known.

use crate::schema;
use bandit::{Arithmetic, Features, HelbaClear, LinearConfig, Policy, Schedule, Width};
use datasets::{Dataset, Error, Observed, Prepared, RawRound, RewardNoise, check, convert, propose};
use privacy::budget::{Delta, Epsilon};
use privacy::source::{SplitMix64, Words};
use schema::{Cell, NamedRound};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const ARMS: usize = 4;
const FEATURES: usize = NAMES.len();
const NAMES: [&str; 24] = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu",
    "nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
];

/// Contexts on the interval from -1 to 1; the reward of an arm is 1 with the probability 0.4 + w·x, cut to
/// the interval from 0.02 to 0.98, and w has three coefficients of ±0.35 that are the arm's own.
struct World {
    rng: SplitMix64,
}

impl World {
    fn context(&mut self) -> Vec<f64> {
        (0..FEATURES).map(|_| 2.0 * self.rng.uniform() - 1.0).collect()
    }

    fn truth(context: &[f64], arm: usize) -> f64 {
        let own = |i: usize| context[5 * arm + i] * if (arm + i).is_multiple_of(2) { 0.35 } else { -0.35 };
        (0.4 + (0..3).map(own).sum::<f64>()).clamp(0.02, 0.98)
    }

    /// A log of a uniform choice.
    fn log(seed: u64, rounds: usize) -> (tempfile::TempDir, PathBuf) {
        let mut world = World { rng: SplitMix64::new(seed) };
        let mut text = "arm,reward,probability".to_string();
        NAMES.iter().for_each(|name| write!(text, ",{name}").unwrap());
        for _ in 0..rounds {
            let context = world.context();
            let arm = world.rng.below(ARMS as u128) as usize;
            let reward = u8::from(world.rng.uniform() < Self::truth(&context, arm));
            write!(text, "\n{},{reward},0.25", ["a", "b", "c", "d"][arm]).unwrap();
            context.iter().for_each(|x| write!(text, ",{x}").unwrap());
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log.csv");
        std::fs::write(&file, text + "\n").unwrap();
        (folder, file)
    }
}

fn schema_text(entry: &str) -> String {
    let mut text = format!(
        "layout = \"wide\"\ncandidates = [\"a\", \"b\", \"c\", \"d\"]\nchosen = \"arm\"\nreward = \"reward\"\npropensity = \"probability\"\n\
         interactions_only = true\n{entry}\n"
    );
    let pairs: Vec<String> = NAMES.iter().map(|name| format!("[\"{name}\", \"candidate\"]")).collect();
    write!(text, "interactions = [{}]\n[context]\n", pairs.join(", ")).unwrap();
    NAMES.iter().for_each(|name| writeln!(text, "{name} = \"none\"").unwrap());
    text
}

fn fit(file: &Path, entry: &str) -> Prepared {
    Prepared::fit(file, &schema(&schema_text(entry))).unwrap()
}

/// The expected reward of the twin of an encrypted bandit over the second half of 2,000 new rounds, and of
/// the best arm of each round.
fn played(transform: &schema::Transform, seed: u64) -> (f64, f64) {
    let (mut world, mut rng) = (World { rng: SplitMix64::new(seed) }, SplitMix64::new(seed));
    let config = LinearConfig {
        width: Width::Constant { alpha: 0.5 },
        schedule: Schedule::GrowthOrEvery { rounds: 16 },
        d: transform.features(),
        k: ARMS,
        lambda: 1.0,
        l: 1.0,
        ..LinearConfig::figure_1()
    };
    let mut twin = HelbaClear::new(config, Arithmetic::Exact).unwrap();
    let (mut earned, mut possible) = (0.0, 0.0);
    for t in 0..2000 {
        let context = world.context();
        let named = NAMES.iter().zip(&context).map(|(name, x)| (name.to_string(), Cell::Number(*x)));
        let round = NamedRound {
            context: schema::Named(named.collect()),
            candidates: vec![schema::Named::default(); ARMS],
            previous: None,
        };
        let rows = transform.features_of(&round).unwrap();
        let features = Features::new(rows.concat(), transform.features()).unwrap();
        let arm = twin.decide(&features, &mut rng).unwrap();
        let truth = World::truth(&context, arm);
        let reward = f64::from(world.rng.uniform() < truth);
        twin.learn(&features, arm, &reward, &mut rng).unwrap();
        if t >= 1000 {
            earned += truth / 1000.0;
            possible += (0..ARMS).map(|arm| World::truth(&context, arm)).fold(0.0, f64::max) / 1000.0;
        }
    }
    (earned, possible)
}

/// A model of 24 features of each of four arms fits in no 16 principal components of contexts that have no
/// direction of their own; its prediction is one feature. `check` prints both, and the proposal follows it.
#[test]
fn a_score_keeps_what_a_projection_loses() {
    let (folder, file) = World::log(1, 4000);
    let projected = fit(&file, "project = { features = 16 }");
    let checked = check(&projected).unwrap();
    let held_out = checked.held_out.unwrap();
    // The share that the truth explains, over 20,000 contexts. A linear model misses the cut at its ends.
    let mut world = World { rng: SplitMix64::new(3) };
    let truths: Vec<f64> = (0..20_000).map(|t| World::truth(&world.context(), t % ARMS)).collect();
    let mean = truths.iter().sum::<f64>() / truths.len() as f64;
    let spread = truths.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / truths.len() as f64;
    let share = spread / (mean * (1.0 - mean));
    assert!(held_out.scores > share - 0.06 && held_out.scores < share, "{held_out:?} {share}");
    assert!(held_out.features < held_out.scores / 2.0, "{held_out:?}");
    let advice = "score = {} in place of project";
    assert!(checked.lines().iter().any(|line| line.contains(advice)), "{:?}", checked.lines());
    let scored = fit(&file, "score = {}");
    assert!((scored.explained().unwrap() - held_out.scores).abs() < 1e-12);
    let checked = check(&scored).unwrap();
    assert_eq!((checked.wide_features, checked.features, checked.held_out), (FEATURES + 1, ARMS + 1, None));
    assert!(checked.shared.is_empty() && checked.lost.shortened == 0.0);
    // Both learn on 2,000 new rounds; what is possible is the mean of the best arm's truth.
    let [(of_score, possible), (of_projection, _)] = [&scored, &projected].map(|p| played(p.transform(), 7));
    assert!(of_score > possible - 0.02, "{of_score} of {possible}");
    assert!(of_projection < of_score - 0.05, "{of_projection} {of_score}");
    // Rounds of another file are transformed by what this one has taught.
    let (_later, later) = World::log(9, 50);
    let unlearnt = Prepared::with(&later, &schema(&schema_text("")), scored.transform().clone()).unwrap();
    assert_eq!(
        (unlearnt.transform(), unlearnt.rounds(), unlearnt.explained()),
        (scored.transform(), 50, None)
    );
    unlearnt
        .each(|round| {
            let RawRound { context, candidates, .. } = &round.raw;
            let (rows, _) = scored.transform().rows(context, candidates, Default::default()).unwrap();
            assert_eq!(round.rows, rows);
            Ok(())
        })
        .unwrap();
    let other = schema_text("").replacen("\"none\"", "\"max\"", 1);
    let error = Prepared::with(&later, &schema(&other), scored.transform().clone()).unwrap_err();
    assert!(error.to_string().contains("learnt for other columns"), "{error}");
    // The proposal for the file, as it is printed and read again.
    let proposal = propose(&file).unwrap();
    assert!(proposal.schema.score.is_some() && proposal.schema.project.is_none());
    assert_eq!(schema(&proposal.toml), proposal.schema);
    assert_eq!(proposal.checked.unwrap().features, ARMS + 1);
    // Features of rounds of the file are written and read as all others.
    let out = folder.path().join("rounds.csv");
    convert(&scored, &out).unwrap();
    assert_eq!(Dataset::any(&out, None).unwrap().rounds(), Dataset::load(&scored).unwrap().rounds());
}

/// Noise for ε = 8 leaves most of a score, and noise for ε = 0.01 leaves none; the transformation says which
/// noise it has. What noise does not protect is refused.
#[test]
fn rewards_are_protected_by_noise() {
    let (_folder, file) = World::log(1, 4000);
    let fit = |epsilon: f64, text: &str| {
        let (epsilon, delta) = (Epsilon::new(epsilon).unwrap(), Delta::new(1e-6).unwrap());
        let mut rng = SplitMix64::new(3);
        Prepared::fit_with_noise(&file, &schema(text), &mut RewardNoise::new(epsilon, delta, &mut rng))
    };
    let score = schema_text("score = {}");
    let [weak, strong] = [8.0, 0.01].map(|epsilon| fit(epsilon, &score).unwrap());
    assert_eq!(weak.explained(), None);
    let stated = weak.transform().score().unwrap().privacy.unwrap();
    assert_eq!((stated.epsilon, stated.delta), (8.0, 1e-6));
    let [(of_weak, possible), (of_strong, _)] = [&weak, &strong].map(|p| played(p.transform(), 7));
    assert!(of_weak > possible - 0.05, "{of_weak} of {possible}");
    // 0.4 is the mean reward of every arm.
    assert!(of_strong < 0.47, "{of_strong}");
    let choices = "layout = \"wide\"\nchosen = \"arm\"\nuser = \"reward\"\ncandidates = [\"a\", \"b\", \"c\", \"d\"]\n\
                   score = {}\nprevious = true\n[context]\nalpha = \"none\"\n";
    let error = fit(1.0, choices).unwrap_err();
    assert!(error.to_string().contains("previous is a feature that is computed from them"), "{error}");
}

/// A round's score knows nothing of its own reward. What is left of a reward when its expectation is taken
/// away has a correlation with the score of about 0 (a deviation of 1/20 for 400 rounds), while the model
/// that has learnt from it follows it.
#[test]
fn attack_the_score_of_a_round_does_not_show_its_reward() {
    let (_folder, file) = World::log(2, 400);
    let prepared = fit(&file, "score = {}");
    let (mut crossed, mut naive) = (Vec::new(), Vec::new());
    prepared
        .each(|round| {
            let Observed::Played { arm, reward, .. } = round.raw.observed else { panic!() };
            // The schema has the names in alphabetical order.
            let mut sorted = NAMES;
            sorted.sort_unstable();
            let of = |name: &&str| round.raw.context[sorted.binary_search(name).unwrap()].number().unwrap();
            let context: Vec<f64> = NAMES.iter().map(of).collect();
            let left = reward - World::truth(&context, arm);
            let transform = prepared.transform();
            let (rows, _) =
                transform.rows(&round.raw.context, &round.raw.candidates, Default::default()).unwrap();
            let at = arm * transform.features();
            crossed.push((round.rows[at], left));
            naive.push((rows[at], left));
            Ok(())
        })
        .unwrap();
    let correlation = |pairs: &[(f64, f64)]| {
        let n = pairs.len() as f64;
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
        let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
        let spread = mean(&|p| (p.0 - x).powi(2)) * mean(&|p| (p.1 - y).powi(2));
        mean(&|p| (p.0 - x) * (p.1 - y)) / spread.sqrt()
    };
    let (crossed, naive) = (correlation(&crossed), correlation(&naive));
    assert!(crossed.abs() < 0.15 && naive > 0.3, "{crossed} {naive}");
}

/// Rounds that a bandit learns have no score that knows their rewards.
#[test]
fn attack_rounds_to_learn_take_no_score_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let [file, schema, transform] = ["f.csv", "s.toml", "t.json"].map(|name| folder.path().join(name));
    let rows: String = (0..40).map(|i| format!("{},{},{}\n", i % 7, i % 5, ["a", "b"][i % 2])).collect();
    std::fs::write(&file, format!("x.a,x.b,y\n{rows}")).unwrap();
    let text = "layout = \"wide\"\nchosen = \"y\"\nscore = {}\n[candidate]\nx = \"min-max\"\n";
    std::fs::write(&schema, text).unwrap();
    let refused = Dataset::to_learn(&file, Some(&schema), None).unwrap_err();
    assert!(matches!(refused, Error::Scored { .. }) && refused.fault() == fault::Fault::Configuration);
    let said = refused.to_string();
    assert!(said.contains("s.toml has a score") && said.contains("--transform"), "{said}");
    let learnt = Prepared::fit(&file, &crate::schema(text)).unwrap();
    std::fs::write(&transform, serde_json::to_string(learnt.transform()).unwrap()).unwrap();
    let rounds = Dataset::to_learn(&file, Some(&schema), Some(&transform)).unwrap();
    assert_eq!((rounds.rounds().len(), rounds.folds()), (40, 1));
}
