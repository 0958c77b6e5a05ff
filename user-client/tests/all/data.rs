//! `helba-client data` on a file whose rewards are all known.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const ROUNDS: usize = 120;
const CANDIDATES: [&str; 2] = ["ann", "bob"];
const SCHEMA: &str =
    "layout = \"wide\"\nreward = \"reward.{candidate}\"\nidentity = true\n[candidate]\nprice = \"max\"\n";

/// What both candidates earn in a round.
fn rewards(t: usize) -> [f64; 2] {
    [f64::from(u8::from(t.is_multiple_of(3))), f64::from(u8::from(t % 5 < 2))]
}

/// What the rule of the column `mine` picks.
fn mine(t: usize) -> usize {
    usize::from(!t.is_multiple_of(4))
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let row = |t: usize| {
        let [ann, bob] = rewards(t);
        format!("{},{},{ann},{bob},{}\n", t % 7 + 1, t % 2 + 3, CANDIDATES[mine(t)])
    };
    let rows: String = (0..ROUNDS).map(row).collect();
    let table = format!("price.ann,price.bob,reward.ann,reward.bob,mine\n{rows}");
    std::fs::write(folder.path().join("visits.csv"), table).unwrap();
    std::fs::write(folder.path().join("visits.toml"), SCHEMA).unwrap();
    folder
}

fn data(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helba-client"));
    command.arg("data").args(arguments).current_dir(folder).output().unwrap()
}

/// The report as JSON. A program has no progress on its stderr.
fn evaluated(folder: &Path, more: &[&str]) -> Value {
    let fixed = ["evaluate", "visits.csv", "--schema", "visits.toml", "--seeds", "3", "--json"];
    let output = data(folder, &[&fixed, more].concat());
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn entry<'a>(report: &'a Value, name: &str) -> &'a Value {
    let entries = report["entries"].as_array().unwrap();
    entries.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

/// A policy with parameters of the grid is evaluated with every combination, and a text that is no grid is
/// refused with what one looks like.
#[test]
fn a_grid_is_evaluated_in_all_combinations() {
    let folder = folder();
    let grid = ["--policies", "helba,ucb1", "--grid", "alpha=0.25, 1", "--grid", "lambda=0.5,2"];
    let report = evaluated(folder.path(), &grid);
    let entries = report["entries"].as_array().unwrap().iter();
    let names: Vec<&str> =
        entries.filter(|e| e["baseline"] == false).map(|e| e["name"].as_str().unwrap()).collect();
    let combinations = ["0.25", "1"].map(|a| ["0.5", "2"].map(|l| format!("helba alpha={a} lambda={l}")));
    let expected: Vec<&str> =
        combinations.as_flattened().iter().map(String::as_str).chain(["ucb1"]).collect();
    assert_eq!(names, expected);
    // The name says what was played.
    let parameters = &entry(&report, "helba alpha=0.25 lambda=2")["parameters"];
    assert_eq!(
        (&parameters["width"]["tangent"]["alpha"], &parameters["lambda"]),
        (&0.25.into(), &2.0.into()),
        "{parameters}"
    );
    for (grid, says) in [
        ("alpha", "write it as alpha=0.25,0.5,1"),
        ("alpha=", "write it as alpha=0.25,0.5,1"),
        ("alpha=1,inf", "write it as alpha=0.25,0.5,1"),
        ("colour=1", "colour"),
    ] {
        let refused =
            data(folder.path(), &["evaluate", "visits.csv", "--schema", "visits.toml", "--grid", grid]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains(says) && refused.stdout.is_empty(),
            "{grid}: {said}"
        );
    }
}

/// The rule of a column earns what the file says of its picks, beside the other baselines.
#[test]
fn a_column_is_a_baseline() {
    let folder = folder();
    let report = evaluated(folder.path(), &["--policies", "ucb1", "--policy-column", "mine"]);
    let earned = |first: usize| (0..first).map(|t| rewards(t)[mine(t)]).sum::<f64>() / first as f64;
    let rule = entry(&report, "column mine");
    assert_eq!(rule["baseline"], true);
    assert!((rule["measured"]["value"].as_f64().unwrap() - earned(ROUNDS)).abs() < 1e-12, "{rule}");
    let few = evaluated(folder.path(), &["--policies", "ucb1", "--policy-column", "mine", "--rounds", "50"]);
    let rule = entry(&few, "column mine");
    assert!((rule["measured"]["value"].as_f64().unwrap() - earned(50)).abs() < 1e-12, "{rule}");

    let table = std::fs::read_to_string(folder.path().join("visits.csv")).unwrap();
    std::fs::write(folder.path().join("gap.csv"), table.replacen("ann\n", "\n", 1)).unwrap();
    for (arguments, says) in [
        (vec!["visits.csv", "--schema", "visits.toml", "--policy-column", "yours"], "yours"),
        (vec!["gap.csv", "--schema", "visits.toml", "--policy-column", "mine"], "line 2, column mine"),
        (vec!["visits.csv", "--policy-column", "mine"], "--schema"),
    ] {
        let refused = data(folder.path(), &[&["evaluate"], &arguments[..]].concat());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(says), "{arguments:?}: {said}");
    }
}

/// The file of decisions has a line for each policy, run and round, and its picks earn what the report says.
/// One that cannot be written is named, and nothing is left of it.
#[test]
fn decisions_are_those_of_the_report() {
    let folder = folder();
    let more = ["--policies", "ucb1,oful", "--decisions", "picked.csv"];
    let report = evaluated(folder.path(), &more);
    let picked = std::fs::read_to_string(folder.path().join("picked.csv")).unwrap();
    let mut lines = picked.lines();
    assert_eq!(lines.next(), Some("policy,run,round,candidate"));
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 2 * 3 * ROUNDS);
    for policy in ["ucb1", "oful"] {
        let own: Vec<&Vec<&str>> = lines.iter().filter(|line| line[0] == policy).collect();
        assert_eq!(own.len(), 3 * ROUNDS);
        let reward = |line: &&Vec<&str>| {
            let arm = CANDIDATES.iter().position(|name| *name == line[3]).unwrap();
            rewards(line[2].parse::<usize>().unwrap() - 1)[arm]
        };
        let mean = own.iter().map(reward).sum::<f64>() / own.len() as f64;
        let measured = entry(&report, policy)["measured"]["value"].as_f64().unwrap();
        assert!((mean - measured).abs() < 1e-12, "{policy}: {mean} {measured}");
    }
    let fixed = ["evaluate", "visits.csv", "--schema", "visits.toml", "--policies", "ucb1", "--seeds", "2"];
    let refused = data(folder.path(), &[&fixed[..], &["--decisions", "none/picked.csv"]].concat());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("cannot write none/picked.csv"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "two files, and the picks");
}

/// `convert` says on stderr what `check` prints, and shows no progress to a program.
#[test]
fn a_program_sees_no_progress() {
    let folder = folder();
    let convert = ["convert", "visits.csv", "--schema", "visits.toml", "--output", "rounds.csv"];
    let converted = data(folder.path(), &convert);
    assert!(converted.status.success() && converted.stdout.is_empty(), "{converted:?}");
    let checked = data(folder.path(), &["check", "visits.csv", "--schema", "visits.toml"]);
    assert_eq!(converted.stderr, checked.stdout);
    let rounds = std::fs::read_to_string(folder.path().join("rounds.csv")).unwrap();
    assert_eq!(rounds.lines().count(), 1 + ROUNDS);
}

/// A log of a shop in which the column `margin` is 0 wherever nothing was clicked.
fn shop(folder: &Path) {
    let row = |t: usize| {
        let clicked = t * 7919 % 10 < 3;
        let margin = if clicked { (1 + t * 31 % 17).to_string() } else { "0".into() };
        format!("{},{},{},0.5,{margin}\n", 20 + t * 13 % 40, ["ash", "fir"][t % 2], u8::from(clicked))
    };
    let rows: String = (0..400).map(row).collect();
    std::fs::write(folder.join("shop.csv"), format!("age,offer,clicked,probability,margin\n{rows}")).unwrap();
}

/// Such a column is no feature of the schema that `check` writes, and every command that gets it as one
/// warns.
#[test]
fn a_column_that_follows_the_outcome_is_named() {
    let folder = tempfile::tempdir().unwrap();
    shop(folder.path());
    let output = data(folder.path(), &["check", "shop.csv"]);
    let proposed = String::from_utf8(output.stdout).unwrap();
    let said =
        "known only after the outcome? it is 0 in all 280 rows of reward 0, and varies in the 120 others";
    assert!(proposed.contains(&format!("# margin is left out: {said}")), "{proposed}");
    assert!(!proposed.contains("margin ="), "{proposed}");
    std::fs::write(folder.path().join("good.toml"), &proposed).unwrap();
    let interactions = "interactions = [[\"age\", \"candidate\"]";
    assert!(proposed.contains(interactions), "{proposed}");
    let bad = proposed
        .replace(interactions, &format!("{interactions}, [\"margin\", \"candidate\"]"))
        .replace("[context]", "[context]\nmargin = \"min-max\"");
    std::fs::write(folder.path().join("bad.toml"), bad).unwrap();
    for command in [
        &["check", "shop.csv", "--schema"][..],
        &["transform", "shop.csv", "--schema"],
        &["evaluate", "shop.csv", "--seeds", "2", "--policies", "ucb1", "--schema"],
    ] {
        for (schema, warned) in [("good.toml", false), ("bad.toml", true)] {
            let Output { status, stdout, stderr } = data(folder.path(), &[command, &[schema]].concat());
            let text = String::from_utf8([stdout, stderr].concat()).unwrap();
            assert!(status.success(), "{text}");
            assert_eq!(text.contains(&format!("warning: margin: {said}")), warned, "{command:?} {text}");
        }
    }
}
