//! `data/foreign/reference.json` holds what an independent program computes from the same files, in numpy.

use datasets::{Dataset, Observed};
use evaluation::{Entry, Estimate, EvaluationReport, EvaluationSettings, Measure, evaluate};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn foreign(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/foreign").join(name)
}

fn reference(name: &str) -> Value {
    let text = std::fs::read_to_string(foreign("reference.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[name].take()
}

fn dataset(name: &str, extension: &str) -> Dataset {
    let schema = foreign(&format!("{name}.toml"));
    Dataset::any(&foreign(&format!("{name}.{extension}")), Some(&schema)).unwrap()
}

fn run(data: &Dataset, policies: &[&str]) -> EvaluationReport {
    let policies = policies.iter().map(|name| name.to_string()).collect();
    evaluate(data, &EvaluationSettings { policies, seeds: 4, ..EvaluationSettings::default() }).unwrap()
}

/// What double precision leaves of a difference that is zero, where all rounds have one value.
const ROUNDING: f64 = 1e-9;

#[track_caller]
fn close(got: f64, want: &Value, what: &str) {
    let want = want.as_f64().unwrap_or_else(|| panic!("{what} is missing in the reference"));
    assert!((got - want).abs() < ROUNDING, "{what}: {got} here, {want} in the reference");
}

#[track_caller]
fn same(got: Estimate, want: &Value, what: &str) {
    close(got.value, &want["value"], what);
    close(got.high - got.value, &want["half"], &format!("upper half of the interval of {what}"));
    close(got.value - got.low, &want["half"], &format!("lower half of the interval of {what}"));
}

/// Features, and the values of the measure with their intervals.
fn compare(data: &Dataset, report: &EvaluationReport, want: &Value, names: &[&str]) {
    assert_eq!(report.rounds as u64, want["rounds"]);
    for (i, x) in data.rounds()[0].features.rows().flatten().enumerate() {
        close(*x, &want["first"][i], &format!("feature {i} of the first round"));
    }
    let squares: f64 =
        data.rounds().iter().flat_map(|round| round.features.rows().flatten()).map(|x| x * x).sum();
    close(squares.sqrt(), &want["norm"], "norm of all features");
    for name in names {
        let entry: &Entry = report.entry(name).unwrap_or_else(|| panic!("{name} is missing"));
        same(entry.measured, &want[name], name);
        close(entry.deviation_of_runs, &want[name]["deviation"], name);
    }
}

/// A wide table, one-hot and min-max features, principal components, replay.
#[test]
fn replays_of_cars_are_those_of_numpy() {
    let (data, want) = (dataset("cars", "csv"), reference("cars"));
    let report = run(&data, &["oful", "ucb1"]);
    compare(&data, &report, &want, &["oful", "ucb1", "uniform", "always 5"]);
}

/// A long table with missing values and odd rounds, hashed features, products, a random projection, replay.
#[test]
fn replays_of_ratings_are_those_of_numpy() {
    let (data, want) = (dataset("ratings", "csv"), reference("ratings"));
    let report = run(&data, &["oful", "ucb1"]);
    compare(&data, &report, &want, &["oful", "uniform"]);
    // Films differ from evening to evening: no policy about fixed arms, and no best one.
    assert_eq!(report.unfit.iter().map(|unfit| unfit.policy.as_str()).collect::<Vec<_>>(), ["ucb1"]);
    assert!(!report.entries.iter().any(|entry| entry.name.starts_with("always")));
}

/// Logged decisions: IPS, SNIPS and doubly robust estimates, weights, effective rounds.
#[test]
fn estimates_of_logged_decisions_are_those_of_numpy() {
    let (data, want) = (dataset("logged", "json"), reference("logged"));
    let report = run(&data, &["oful", "ucb1"]);
    let best = want.as_object().unwrap().keys().find(|name| name.starts_with("always")).unwrap().clone();
    let names = ["oful", "ucb1", "uniform", &best];
    compare(&data, &report, &want, &names);
    for name in names {
        let (entry, want) = (report.entry(name).unwrap(), &want[name]);
        same(entry.ips.unwrap(), &want["ips"], &format!("IPS of {name}"));
        same(entry.snips.unwrap(), &want["snips"], &format!("SNIPS of {name}"));
        close(entry.effective_rounds.unwrap(), &want["effective"], &format!("effective rounds of {name}"));
        close(entry.weights.as_ref().unwrap().mean, &want["weight"], &format!("mean weight of {name}"));
    }
    same(report.entry("logged policy").unwrap().measured, &want["logged policy"], "logged policy");
}

/// The same without their probabilities: the direct method.
#[test]
fn values_without_probabilities_are_those_of_numpy() {
    let (data, want) = (dataset("logged", "json"), reference("logged"));
    let mut rounds = data.rounds().to_vec();
    for round in &mut rounds {
        if let Observed::Played { propensity, .. } = &mut round.observed {
            *propensity = None;
        }
    }
    let bare = Dataset::from_rounds(data.arms().to_vec(), data.fixed(), data.d(), rounds);
    let report = run(&bare, &["oful", "ucb1"]);
    assert_eq!(report.measure, Measure::Direct);
    let best = want.as_object().unwrap().keys().find(|name| name.starts_with("direct always")).unwrap();
    for name in ["oful", "ucb1", "uniform", best.strip_prefix("direct ").unwrap()] {
        same(report.entry(name).unwrap().measured, &want[format!("direct {name}")], name);
    }
    let text = &report.recommendation.paragraph;
    assert!(text.starts_with("Nothing is recommended") && text.contains("no probabilities"), "{text}");
}
