//! Every policy of the registry on every file of `data/foreign`, and what is refused.

use datasets::{Dataset, Observed};
use evaluation::{Error, EvaluationSettings, Measure, evaluate};
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name)
}

fn foreign(name: &str, schema: &str) -> Dataset {
    Dataset::any(&data(&format!("foreign/{name}")), Some(&data(&format!("foreign/{schema}")))).unwrap()
}

fn quick(rounds: usize) -> EvaluationSettings {
    EvaluationSettings { seeds: 2, rounds, ..EvaluationSettings::default() }
}

/// Every card of the registry is run, or left out with a reason.
#[test]
fn every_policy_is_run_or_left_out_with_a_reason() {
    for (file, schema, most) in [("cars.csv", "cars.toml", 120), ("logged.json", "logged.toml", 120)] {
        let dataset = foreign(file, schema);
        let report = evaluate(&dataset, &quick(most)).unwrap();
        let baselines = report.entries.iter().filter(|entry| entry.baseline).count();
        let cards = policies::cards().unwrap().len();
        assert_eq!(report.entries.len() - baselines + report.unfit.len(), cards + 1, "and helba");
        assert!(report.entries.len() - baselines >= 12, "{:?}", report.unfit);
        for unfit in &report.unfit {
            assert!(
                unfit.reason.contains("devices") || unfit.reason.contains("rewards of all candidates"),
                "{unfit:?}"
            );
        }
        for entry in &report.entries {
            assert!(
                entry.measured.low <= entry.measured.value && entry.measured.value <= entry.measured.high
            );
            assert_eq!(entry.curve.len(), most);
            // A private policy states the epsilon that was asked for, or what follows from it.
            assert!(entry.baseline || entry.privacy.is_some());
        }
        let [text, svg] = [report.lines().join("\n"), report.svg(file).unwrap()];
        for entry in &report.entries {
            assert!(text.contains(&entry.name), "{text}");
        }
        assert!(svg.contains("uniform") && text.contains(&report.recommendation.paragraph));
        assert_eq!(report, evaluate(&dataset, &quick(most)).unwrap(), "the same seeds give the same report");
    }
}

/// On recorded purchases the linear policies predict far better than any fixed brand, and the rule says so.
#[test]
fn recommendations_follow_from_the_numbers() {
    let dataset = Dataset::any(&data("Yogurt.csv"), None).unwrap();
    let settings = EvaluationSettings {
        policies: ["helba", "oful", "ucb1", "anytime-lazy-ucb"].map(String::from).into(),
        ..quick(usize::MAX)
    };
    let report = evaluate(&dataset, &settings).unwrap();
    assert_eq!(report.measure, Measure::Replay);
    // data/README.md has 0.842 in the order of the file, and random orders earn as much within their
    // interval.
    let oful = report.entry("oful").unwrap().measured;
    assert!(oful.low < 0.842 && 0.842 < oful.high, "{oful:?}");
    assert_eq!(format!("{:.3}", report.entry("always dannon").unwrap().measured.value), "0.402");
    let recommended = report.recommendation.policy.as_deref();
    assert!(matches!(recommended, Some("helba" | "oful")), "{recommended:?}");
    assert_eq!(report.recommendation.encrypted.as_deref(), Some("helba"));
    assert_eq!(report.recommendation.private, None);
    let rounds = dataset.rounds().len();
    let horizon =
        format!("scaled for 1000 rounds unless `create` is told another horizon, and here are {rounds}");
    assert!(report.lines().iter().any(|line| line.starts_with("warning: ") && line.contains(&horizon)));
    let few = EvaluationSettings { policies: vec!["helba".into()], ..quick(1000) };
    assert!(evaluate(&dataset, &few).unwrap().warnings.is_empty());
    let text = &report.recommendation.paragraph;
    assert!(text.contains("No policy with a privacy guarantee"), "{text}");
    assert!(text.contains("at 95 % for the 4 policies together"), "{text}");
    // The interval that holds for four policies at once is wider than that of one.
    let helba = report.entry("helba").unwrap();
    let bar = report.entry("always dannon").unwrap().measured.value;
    let least = helba.above_baselines.unwrap();
    assert!(0.3 < least && least < helba.measured.low - bar, "{least}");
    assert!(report.entry("anytime-lazy-ucb").unwrap().above_baselines.unwrap() < 0.0);
}

/// The estimates of a known policy, from actions that another logged, contain what replay finds: here for
/// every fixed brand, whose rewards are known from the purchases behind the log.
#[test]
fn estimates_contain_the_truth() {
    let (logged, truth) =
        (foreign("logged.json", "logged.toml"), Dataset::any(&data("Yogurt.csv"), None).unwrap());
    let settings = EvaluationSettings { policies: vec!["ucb1".into()], ..quick(400) };
    let report = evaluate(&logged, &settings).unwrap();
    let rewards = |arm: usize| {
        let known = truth.rounds()[..400].iter().filter_map(|round| round.observed.reward(arm));
        known.sum::<f64>() / 400.0
    };
    let best = report.entries.iter().find(|entry| entry.name.starts_with("always")).unwrap();
    let arm = logged.arms().iter().position(|arm| best.name.ends_with(arm.as_str())).unwrap();
    for (what, estimate, truth) in [
        ("uniform", report.entry("uniform").unwrap().measured, 0.25),
        ("uniform, IPS", report.entry("uniform").unwrap().ips.unwrap(), 0.25),
        ("always", best.measured, rewards(arm)),
        ("always, IPS", best.ips.unwrap(), rewards(arm)),
        ("always, SNIPS", best.snips.unwrap(), rewards(arm)),
    ] {
        // The interval of 95 % may miss; twice its width misses once in ten thousand.
        let (value, half) = (estimate.value, (estimate.high - estimate.low) / 2.0);
        assert!((value - truth).abs() <= 2.0 * half, "{what}: {value} ± {half}, and the truth is {truth}");
    }
}

#[test]
fn what_cannot_be_evaluated_is_refused() {
    let dataset = foreign("cars.csv", "cars.toml");
    let policies = |name: &str| EvaluationSettings { policies: vec![name.into()], ..quick(20) };
    let unknown = evaluate(&dataset, &policies("ucb2")).unwrap_err().to_string();
    assert!(
        unknown.starts_with(
            "no policy is named ucb2; the nearest is ucb1. The names are helba, anytime-lazy-ucb"
        ),
        "{unknown}"
    );
    let unfit = evaluate(&dataset, &policies("shuffle-glm")).unwrap_err().to_string();
    assert!(unfit.contains("no policy fits") && unfit.contains("devices"), "{unfit}");
    let folder = tempfile::tempdir().unwrap();
    let [file, schema] = ["f.csv", "s.toml"].map(|name| folder.path().join(name));
    std::fs::write(&file, "x.a,x.b,y,r\n1,2,a,1\n2,1,b,0\n").unwrap();
    std::fs::write(&schema, "layout = \"wide\"\nchosen = \"y\"\nreward = \"r\"\n[candidate]\nx = \"none\"\n")
        .unwrap();
    let bare = Dataset::any(&file, Some(&schema)).unwrap();
    let mut rounds = bare.rounds().to_vec();
    if let Observed::Played { propensity, .. } = &mut rounds[1].observed {
        *propensity = Some(0.5);
    }
    let some = Dataset::from_rounds(bare.arms().to_vec(), true, bare.d(), rounds);
    assert_eq!(evaluate(&some, &quick(20)), Err(Error::SomePropensities { round: 1 }));
    let one = EvaluationSettings { seeds: 1, ..quick(20) };
    assert_eq!(evaluate(&dataset, &one), Err(Error::Runs));
    let rule = EvaluationSettings { rule: Some(("mine".into(), vec![0; 19])), ..quick(20) };
    assert_eq!(evaluate(&dataset, &rule), Err(Error::Rule { name: "mine".into(), rounds: 20, arms: 6 }));
    let grid = EvaluationSettings { grid: vec![("width".into(), vec![1.0])], ..policies("helba") };
    let reason = evaluate(&dataset, &grid).unwrap_err().to_string();
    assert!(reason.contains("the parameter width of the grid"), "{reason}");
}

/// Rewards in euros are those of the range, and the report has both. Costs are the other way round.
#[test]
fn rewards_are_shown_in_units_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let [file, schema] = ["f.csv", "s.toml"].map(|name| folder.path().join(name));
    let report = |range: Option<[f64; 2]>| {
        let row = |t: usize| {
            let (chosen, reward) = (t * 7 % 5 % 2, (t * 13 % 11) as f64 / 10.0);
            let reward = range.map_or(reward.min(1.0), |[zero, one]| zero + (one - zero) * reward.min(1.0));
            format!("{},{},{},0.5,{reward}\n", t % 7, t % 3, ["a", "b"][chosen])
        };
        let rows: String = (0..120).map(row).collect();
        std::fs::write(&file, format!("x.a,x.b,y,p,r\n{rows}")).unwrap();
        let entry = range.map_or(String::new(), |range| format!("reward_range = {range:?}\n"));
        let text = "layout = \"wide\"\nchosen = \"y\"\nreward = \"r\"\npropensity = \"p\"\nidentity = true\n";
        std::fs::write(&schema, format!("{text}{entry}[candidate]\nx = \"min-max\"\n")).unwrap();
        let settings = EvaluationSettings { policies: vec!["helba".into()], ..quick(120) };
        evaluate(&Dataset::any(&file, Some(&schema)).unwrap(), &settings).unwrap()
    };
    let without = report(None);
    assert!(without.reward_range.is_none() && without.resolution_in_file.is_none());
    assert!(!without.lines().join("\n").contains("in units of the file"));
    for [zero, one] in [[-5.0, 20.0], [20.0, -5.0]] {
        let report = report(Some([zero, one]));
        assert_eq!(report.reward_range, Some([zero, one]));
        assert!((report.resolution_in_file.unwrap() - 25.0 * without.resolution).abs() < 1e-9);
        let text = report.lines().join("\n");
        for (entry, other) in report.entries.iter().zip(&without.entries) {
            let [measured, of] = [entry.measured, other.measured];
            assert!((measured.value - of.value).abs() < 1e-9 && other.measured_in_file.is_none());
            let euros = entry.measured_in_file.unwrap();
            assert!((euros.value - (zero + (one - zero) * of.value)).abs() < 1e-6);
            let half = 25.0 * (of.high - of.low) / 2.0;
            assert!((euros.half_width - half).abs() < 1e-6 && euros.low <= euros.value);
            assert!((euros.high - euros.low - 2.0 * half).abs() < 1e-6);
            assert!(text.contains(&format!("{:.4} ± {:.4}", euros.value, euros.half_width)), "{text}");
        }
        let said = format!(
            "Rewards 0 and 1 are {zero} and {one} in the file: a difference of 0.01 is one of 0.2500"
        );
        assert!(text.contains(&said), "{text}");
        let [of, euros] = [report.resolution, report.resolution_in_file.unwrap()];
        let said = format!(
            "after 120 rounds a device may play a candidate whose score is up to {of:.4} of reward ({euros:.4} in units of the file)"
        );
        assert!(text.contains(&said), "{text}");
    }
}
