//! Every experiment in its quick form; what is kept, continued and written.

use bandit::UniformRandom;
use bandit::distributed::{Elimination, EliminationConfig, IdealSum, Model, NoiseAt, NormalArms};
use datasets::{Dataset, DatasetLog};
use helba_lab::experiment::{Experiment, Results, Scale, Verdict};
use helba_lab::runner::Progress;
use helba_lab::{experiments, play, report, runner};
use privacy::source::SplitMix64;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

fn run(experiment: &dyn Experiment, seeds: u64, folder: &Path) -> Results {
    runner::run(experiment, Scale::Quick, seeds, folder, &Progress::new()).unwrap()
}

#[test]
fn every_experiment_ends_in_a_report() {
    for experiment in experiments::all() {
        let folder = tempfile::tempdir().unwrap();
        let results = run(experiment, experiment.seeds(Scale::Quick), folder.path());
        let json = report::write(experiment, &results, folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let html = read("report.html");
        for panel in &results.panels {
            assert!(!panel.series.is_empty());
            for series in &panel.series {
                let Some(last) = series.runs.first().map(|r| r.last()) else {
                    panic!("{} has not run", series.label)
                };
                assert!(last.is_finite() && last != 0.0, "{}: {last}", series.label);
            }
        }
        assert_eq!(html.matches("<svg").count(), results.panels.len());
        assert!(html.contains("Quick run: ") && !html.contains("0 of 0"));
        // One page, nothing from elsewhere.
        for remote in ["<script", "src=", "<link", "@import", "url("] {
            assert!(!html.contains(remote), "{remote} in the page of {}", experiment.card().name);
        }
        let claims = experiment.claims(&results);
        assert!(
            !claims.is_empty()
                && claims.iter().all(|c| c.verdict == Verdict::NotTested && !c.ours.is_empty())
        );
        assert_eq!(json["claims"].as_array().unwrap().len(), claims.len());
        assert_eq!(json["panels"].as_array().unwrap().len(), results.panels.len());
        assert!(json["origin"]["seconds"].as_f64().unwrap() > 0.0 && html.contains("commit "));
        let lines: usize =
            results.panels.iter().flat_map(|p| &p.series).flat_map(|s| &s.runs).map(|r| r.points.len()).sum();
        assert_eq!(read("curves.csv").lines().count(), lines + 1);
        assert!(!report::text(&results, &claims).is_empty());
    }
}

#[test]
fn names_are_unique_and_lines_are_short() {
    let experiments = experiments::all();
    let names: HashSet<_> = experiments.iter().map(|e| e.card().name).collect();
    assert_eq!(names.len(), experiments.len());
    for experiment in experiments {
        let card = experiment.card();
        assert!(experiments::find(card.name).is_some());
        assert!(card.about.len() <= 100 && !card.about.contains('\n'));
        assert!(!card.source.is_empty() && !card.notes.is_empty());
    }
    assert!(experiments::find("no-such-experiment").is_none());
    let policies = experiments::policies().unwrap();
    assert_eq!(policies.iter().map(|p| &p.name).collect::<HashSet<_>>().len(), policies.len());
}

/// The program says what is wrong in a line, and has a version.
#[test]
fn the_program_says_what_is_wrong() {
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_helba-lab"));
        command.args(arguments).env("RUST_BACKTRACE", "1").output().unwrap()
    };
    let out = run(&["experiment", "no-such"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(said, "error: no experiment no-such; `helba-lab list` names them all\n");
    assert_eq!(out.status.code(), Some(1));
    assert!(run(&["--version"]).status.success());
}

/// A run that is kept is not done again; one that is damaged, of other settings or missing is, with the same
/// outcome.
#[test]
fn an_interrupted_experiment_goes_on() {
    let experiment = experiments::find("anonymous-fig2").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let first = run(experiment, 1, folder.path());
    let mut files: Vec<_> =
        std::fs::read_dir(folder.path().join("runs")).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    // Eight curves of each case, the recommended one and the benchmark in both panels.
    assert_eq!(files.len(), 18);
    std::fs::write(&files[0], "{").unwrap();
    let strange =
        std::fs::read_to_string(&files[1]).unwrap().replace("\"settings\":\"2000", "\"settings\":\"2001");
    std::fs::write(&files[1], strange).unwrap();
    std::fs::remove_file(&files[2]).unwrap();
    let untouched = std::fs::metadata(&files[3]).unwrap().modified().unwrap();
    let again = run(experiment, 1, folder.path());
    assert_eq!(untouched, std::fs::metadata(&files[3]).unwrap().modified().unwrap());
    let points = |r: &Results| -> Vec<_> {
        r.panels.iter().flat_map(|p| &p.series).flat_map(|s| s.runs.clone()).collect()
    };
    assert_eq!(points(&first), points(&again));
    // What is kept is believed: that is why its settings are stored with it.
    let kept = std::fs::read_to_string(&files[3]).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&kept).unwrap();
    value["run"]["points"][0][1] = serde_json::json!(-5.0);
    std::fs::write(&files[3], value.to_string()).unwrap();
    assert!(points(&run(experiment, 1, folder.path())).iter().any(|r| r.points[0].1 == -5.0));
    // More seeds add to it; those that were there count from the start.
    let progress = Progress::new();
    let more = runner::run(experiment, Scale::Quick, 2, folder.path(), &progress).unwrap();
    assert_eq!(progress.runs(), (36, 36));
    assert!(more.panels.iter().flat_map(|p| &p.series).all(|s| s.runs.len() == 2));
    assert!(runner::run(experiment, Scale::Quick, 0, folder.path(), &Progress::new()).is_err());
}

#[test]
fn checkpoints_ascend_to_the_horizon() {
    for slots in [1, 7, 2_000, 1_000_000] {
        let at = play::checkpoints(slots);
        assert!(
            at.is_sorted_by(|a, b| a < b) && at[0] >= 1 && *at.last().unwrap() == slots,
            "{slots}: {at:?}"
        );
    }
    let at = play::checkpoints(1_000_000);
    assert!([100_000, 300_000, 600_000].iter().all(|t| at.contains(t)));
}

/// What is reckoned once an arm is settled is what playing on would have given.
#[test]
fn settled_runs_end_as_played_ones_do() {
    let half = privacy::Ratio::new(1, 2).unwrap();
    let config = EliminationConfig {
        noise: NoiseAt::Simulated,
        confidence: 0.1,
        ..EliminationConfig::new(2, 20_000, Model::Pure, half)
    };
    let run = |stop: bool| {
        let mut policy = Elimination::new(config.clone(), IdealSum).unwrap();
        let arms = NormalArms::new(vec![0.9, 0.1], 0.1).unwrap();
        let settled = |p: &Elimination<IdealSum>| (stop && p.left().len() == 1).then(|| p.left()[0]);
        let at = play::checkpoints(20_000);
        let run = play::regret_until(&mut policy, arms, &at, 3, settled).unwrap();
        (run, policy.left().to_vec())
    };
    let ((played, left), (reckoned, left_too)) = (run(false), run(true));
    assert_eq!((left.len(), &left), (1, &left_too));
    assert_eq!(played.figures, reckoned.figures);
    for (a, b) in played.points.iter().zip(&reckoned.points) {
        assert!(a.0 == b.0 && (a.1 - b.1).abs() < 1e-6, "{a:?} {b:?}");
    }
}

/// The experiment on purchases takes a file of others: the last values are its mean rewards in per cent.
#[test]
fn purchases_may_be_a_file_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/foreign");
    let dataset = Dataset::open(&data.join("cars.csv"), Some(&data.join("cars.toml"))).unwrap();
    let own = experiments::helba::purchases_of("cars.csv", dataset.clone());
    let results = run(&own, 1, folder.path());
    let panel = &results.panels[0];
    assert!(panel.title.starts_with("cars.csv, 300 rounds"), "{}", panel.title);
    // The uniform choice by hand, on the rounds of a quick run.
    let (mut environment, mut policy) = (DatasetLog::new(Arc::new(dataset)), UniformRandom);
    let (mut rounds, mut own) = (SplitMix64::new(0), SplitMix64::noise(0));
    let history = bandit::play(&mut policy, &mut environment, 200, &mut rounds, &mut own).unwrap();
    assert!((panel.last("random") - 100.0 * history.mean_reward()).abs() < 1e-9);
}
