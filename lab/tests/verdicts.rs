//! Every claim on synthetic results: on some it holds, on others it does not, so that a comparison that is
//! turned round fails a test.

use helba_lab::experiment::{Experiment, Panel, Results, Run, Scale, SeriesResult, Verdict};
use helba_lab::experiments;
use helba_lab::made::Origin;
use std::collections::BTreeMap;

/// Slots of all curves, as shares of the end.
const AT: [f64; 8] = [0.001, 0.01, 0.05, 0.1, 0.3, 0.6, 0.9, 1.0];
/// Seeds, of experiments with fewer.
const SEEDS: u64 = 200;

/// One line changes the series of a panel: `panel | label | VALUE...`, where `*` is any panel or label, and
/// later lines win. Values are the last regret, and: `linear` growth up to it, or `bent` growth as the root,
/// instead of almost none, `stuck` a fifth of runs at ten times of it, `loose` a deviation of half of it
/// instead of a thousandth, `same` as `loose` and on the same seeds for all labels, `NAME=VALUE` a further
/// number.
fn synthetic(experiment: &dyn Experiment, changes: &str) -> Results {
    let seeds = experiment.seeds(Scale::Full).max(SEEDS);
    let mut panels: Vec<Panel<SeriesResult>> = Vec::new();
    for Panel { title, x_label, y_label, log_x, log_y, series } in experiment.panels(Scale::Full).unwrap() {
        let result = |s: helba_lab::experiment::Series| {
            let runs = (0..seeds)
                .map(|seed| run(&title, &s.label, s.reference.map(|r| r.mean), (seed, seeds), changes));
            let runs = runs.collect();
            SeriesResult { label: s.label, settings: s.settings, reference: s.reference, runs }
        };
        let series = series.into_iter().map(result).collect();
        panels.push(Panel { title: title.clone(), x_label, y_label, log_x, log_y, series });
    }
    let origin = Origin::default();
    let stand_in = experiment.card().stand_in;
    let mut results = Results { scale: Scale::Full, seeds, stand_in, origin, panels };
    let derived = experiment.derived(&results);
    results.panels.extend(derived);
    results
}

fn run(panel: &str, label: &str, reference: Option<f64>, (seed, seeds): (u64, u64), changes: &str) -> Run {
    let (mut level, mut words) = (reference.unwrap_or(100.0), Vec::new());
    let mut out = Run::curve(Vec::new());
    let lines = changes.lines().map(str::trim).filter(|line| !line.is_empty());
    for line in lines {
        let mut parts = line.split(" | ").map(str::trim);
        let (Some(p), Some(l), Some(values)) = (parts.next(), parts.next(), parts.next()) else {
            panic!("{line:?} has no three parts")
        };
        if (p != "*" && p != panel) || (l != "*" && l != label) {
            continue;
        }
        words.clear();
        for word in values.split_whitespace() {
            if let Some((name, value)) = word.split_once('=') {
                out.figures.insert(name.replace('_', " "), value.parse().unwrap());
            } else if let Ok(value) = word.parse() {
                level = value;
            } else {
                words.push(word.to_owned());
            }
        }
    }
    let is = |word: &str| words.iter().any(|w| w == word);
    // Between -1 and 1, with mean 0 over the seeds.
    let own: u64 = if is("same") { 0 } else { label.bytes().chain(panel.bytes()).map(u64::from).sum() };
    let noise = ((7919 * seed + own) % seeds) as f64 / (seeds - 1) as f64 * 2.0 - 1.0;
    let spread = if is("loose") || is("same") { 0.8 } else { 0.001 };
    let mut last = level * (1.0 + spread * noise);
    if is("stuck") && seed.is_multiple_of(5) {
        last = 10.0 * level;
    }
    let end = if panel.starts_with("K = ") { 131_071.0 } else { 1e7 };
    let grown = |share: f64| match () {
        () if is("linear") => last * share,
        () if is("bent") => last * share.sqrt(),
        () => last * (0.995 + 0.005 * share),
    };
    out.points = AT.map(|share| (share * end, grown(share))).to_vec();
    out
}

/// One letter a claim: holds, does Not hold, or ? for not decided.
fn verdicts(experiment: &dyn Experiment, changes: &str) -> String {
    let letter = |verdict| match verdict {
        Verdict::Holds => 'H',
        Verdict::DoesNotHold => 'N',
        Verdict::NotDecided => '?',
        Verdict::NotTested => '-',
    };
    experiment.claims(&synthetic(experiment, changes)).iter().map(|c| letter(c.verdict)).collect()
}

/// Name, and sets of changes with the verdicts that follow.
type Case = (&'static str, &'static [(&'static str, &'static str)]);

const CASES: &[Case] = &include!("cases.in");

#[test]
fn every_claim_can_hold_and_fail() {
    let mut wrong = Vec::new();
    for experiment in experiments::all() {
        let name = experiment.card().name;
        let Some((_, sets)) = CASES.iter().find(|case| case.0 == name) else {
            wrong.push(format!("{name}: no case; unchanged {}", verdicts(experiment, "")));
            continue;
        };
        let mut seen: Vec<String> = Vec::new();
        for (i, (changes, want)) in sets.iter().enumerate() {
            let got = verdicts(experiment, changes);
            if got != *want {
                wrong.push(format!("{name}, set {i}: {got}, not {want}"));
            }
            seen.push(got);
        }
        let claims = experiment.claims(&synthetic(experiment, ""));
        for (i, claim) in claims.iter().enumerate() {
            let has = |letter| seen.iter().any(|s| s.chars().nth(i) == Some(letter));
            if !has('H') || !has('N') {
                wrong.push(format!("{name}: no set for either verdict on {:?}", claim.text));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn read(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The numbers of each verdict of docs/claims.md are in docs/claims.csv.
#[test]
fn every_verdict_has_its_numbers() {
    let (page, figures) = (read("docs/claims.md"), read("docs/claims.csv"));
    let mut all = 0;
    for section in page.split("\n## ").skip(1) {
        let name = section.lines().next().unwrap();
        let own = format!("{name},");
        let kept = figures.lines().filter(|line| line.starts_with(&own)).count();
        let rows = section.lines().filter(|line| line.starts_with("| ")).count().saturating_sub(1);
        assert_eq!(kept, rows + section.matches("\nAs an independent implementation: ").count(), "{name}");
        all += kept;
    }
    assert!(all > 100 && all == figures.lines().count() - 1, "{all} verdicts");
}

/// The table of the README is that of docs/claims.md, whose rows are the numbers of the verdicts below it.
#[test]
fn the_readme_counts_the_verdicts_of_the_page() {
    let (readme, page) = (read("README.md"), read("docs/claims.md"));
    let (head, sections) = page.split_once("\n## ").unwrap();
    let mut counts: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    for section in sections.split("\n## ") {
        let name = section.lines().next().unwrap();
        // "Not run" and "Without an experiment" have no verdicts.
        let Some(card) = experiments::find(name).map(Experiment::card) else { continue };
        let paper = card.source.split(':').next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            if cells[0].ends_with("(ours)") {
                continue;
            }
            let of = match cells[cells.len() - 1] {
                _ if card.stand_in.is_some() => 4,
                verdict if verdict.starts_with("holds") => 1,
                verdict if verdict.starts_with("does not hold") => 2,
                verdict if verdict.starts_with("not decided") => 3,
                other => panic!("{name}: {other}"),
            };
            let count = counts.entry(paper).or_default();
            count[0] += 1;
            count[of] += 1;
        }
    }
    let table: String = head.lines().filter(|line| line.starts_with('|')).map(|l| format!("{l}\n")).collect();
    let rows: Vec<String> = counts
        .iter()
        .map(|(paper, n)| format!("| {paper} | {} |", n.map(|n| n.to_string()).join(" | ")))
        .collect();
    assert!(rows.len() >= 5 && table.lines().skip(2).eq(rows.iter()), "{table}\n{}", rows.join("\n"));
    assert_eq!(helba_lab::report::with_table(&readme, &table), Some(readme));
    assert_eq!(helba_lab::report::with_table(&table, &table), None);
}
