//! The page that compares with other libraries has the results that its script has kept, and what these say
//! of the algorithm of this project is what it earns.

use bandit::{Arithmetic, HelbaClear, Policy};
use datasets::{Dataset, Observed};
use privacy::source::SplitMix64;
use protocol::BanditConfig;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn at(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn kept(file: &str) -> Value {
    let path = at("lab/peers/kept").join(file).with_extension("json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// The cells of the row of a table that begins with `name`.
fn row<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let cells = |line: &'a str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let mut rows = page.lines().filter(|line| line.starts_with('|')).map(cells);
    rows.find(|cells| cells[0] == name).unwrap_or_else(|| panic!("no row {name}"))
}

#[test]
fn the_page_has_what_is_kept() {
    let page = std::fs::read_to_string(at("docs/peers.md")).unwrap();
    let columns = row(&page, "file");
    assert_eq!((columns[1], columns.len()), ("ours", 11));
    for (file, shown) in [
        ("Yogurt", "purchases, Yogurt"),
        ("Cracker", "purchases, Cracker"),
        ("visits", "generated visits"),
        ("visits-scored", "the same with score features"),
        ("trial", "two-armed trial"),
        ("ratings", "ratings log"),
        ("logged", "logged bandit"),
        ("treatments", "60 features, 5 treatments"),
        ("visits-all", "generated visits, 45 features"),
        ("cars", "cars, 52 features, 6 arms"),
        ("ratings-48", "ratings log, 48 features"),
        ("ratings-64", "ratings log, 64 features"),
        ("logged-all", "logged bandit, 47 features"),
    ] {
        let (kept, cells) = (kept(file), row(&page, shown));
        for (column, cell) in columns.iter().zip(cells).skip(1) {
            let values = numbers(&kept[column]);
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
            // 97.5 % of Student's t with one degree of freedom less than there are seeds.
            let quantile = match values.len() {
                1 => 0.0,
                3 => 4.302653,
                20 => 2.093024,
                seeds => panic!("{file}, {column}: {seeds} seeds"),
            };
            let half = quantile * (squares / (n - 1.0).max(1.0) / n).sqrt();
            let (said, error) = cell.split_once(" ± ").unwrap_or((cell, "0"));
            let [said, error] = [said, error].map(|text| text.parse::<f64>().unwrap());
            // Half of the last digit.
            let close = |a: f64, b: f64| (a - b).abs() < 0.0005 + 1e-9;
            assert!(
                close(said, mean) && close(error, half),
                "{file}, {column}: {cell}, kept {mean} ± {half}"
            );
        }
    }
    let encrypted = kept("encrypted");
    let cells = row(&page, &format!("{} keys", encrypted["keys"].as_str().unwrap()));
    for (name, cell) in
        [("earned", 1), ("clear twin", 2), ("possible", 4)].map(|(name, at)| (name, cells[at]))
    {
        assert_eq!(cell, format!("{:.3}", encrypted[name].as_f64().unwrap()), "{name}");
    }
    // What other libraries earn is kept with their versions.
    let pinned = std::fs::read_to_string(at("lab/peers/requirements.txt")).unwrap();
    for library in ["mabwiser", "contextualbandits", "vowpalwabbit", "obp"] {
        let line = pinned.lines().find(|line| line.starts_with(&format!("{library}=="))).unwrap();
        assert!(page.contains(&line.replace("==", " ")), "{line}");
    }
}

/// The ratings: the file that is played fastest. Where this fails, the script must run again.
#[test]
fn the_algorithm_earns_what_is_kept() {
    let file = at("data/foreign/ratings.csv");
    let dataset = Dataset::open(&file, Some(&file.with_extension("toml"))).unwrap();
    let config = BanditConfig::new(dataset.d(), dataset.arms().len());
    let mut policy = HelbaClear::new(config.linear, Arithmetic::Exact).unwrap();
    let (mut rng, mut earned) = (SplitMix64::new(0), 0.0);
    for round in dataset.rounds() {
        let arm = policy.decide(&round.features, &mut rng).unwrap();
        let Observed::Every(rewards) = &round.observed else { panic!("a reward is not known") };
        policy.learn(&round.features, arm, &rewards[arm], &mut rng).unwrap();
        earned += rewards[arm] / dataset.rounds().len() as f64;
    }
    let kept = numbers(&kept("ratings")["ours"]);
    assert!((earned - kept[0]).abs() < 0.00005 + 1e-9, "{earned}, kept {kept:?}");
}
