//! The files of `data/foreign`, and those of `data`.

use crate::{foreign, schema};
use bandit::datasets::Purchases;
use datasets::{Dataset, Observed, Prepared, check, convert, guess, read_schema};
use std::path::Path;

/// Without a schema, `guess` proposes one with which all three files can be used at once.
#[test]
fn proposed_schemas_read_the_foreign_files() {
    for (name, rounds, arms, logged) in
        [("cars.csv", 300, 6, false), ("ratings.csv", 271, 4, false), ("logged.json", 400, 4, true)]
    {
        let (file, folder) = (foreign(name), tempfile::tempdir().unwrap());
        let mut guess = guess(&file).unwrap();
        let wide = Prepared::fit(&file, &guess.schema).unwrap().transform().wide();
        guess.project(wide);
        // The printed schema is the one proposed.
        let path = folder.path().join("schema.toml");
        std::fs::write(&path, guess.toml(&file)).unwrap();
        let read = read_schema(&path).unwrap();
        assert_eq!(read, guess.schema, "{name}");
        assert!(guess.toml(&file).lines().filter(|line| !line.starts_with('#')).count() <= 22);
        let checked = check(&Prepared::fit(&file, &read).unwrap()).unwrap();
        assert_eq!(
            (checked.rounds, checked.candidates.len(), checked.logged),
            (rounds, arms, logged),
            "{name}"
        );
        assert!(checked.features <= 16 && checked.lost.shortened == 0.0);
        assert_eq!(Dataset::open(&file, Some(&path)).is_err(), logged);
        assert_eq!(Dataset::any(&file, Some(&path)).unwrap().rounds().len() as u64, rounds);
    }
}

/// The committed schemas have at most ten entries a file, and read what was written.
#[test]
fn committed_schemas_are_short() {
    for (name, d) in [("cars", 8), ("ratings", 12), ("logged", 7)] {
        let path = foreign(&format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).unwrap();
        let entries = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).count();
        assert!(entries <= 10, "{name}: {entries} lines");
        let file = foreign(&format!("{name}.{}", if name == "logged" { "json" } else { "csv" }));
        assert_eq!(Dataset::any(&file, Some(&path)).unwrap().d(), d, "{name}");
    }
}

/// The layout of data/README.md, described by a schema, has the features of `Purchases` in another order.
#[test]
fn purchases_are_a_wide_table() {
    let text = "chosen = \"choice\"\nuser = \"id\"\nidentity = true\nprevious = true\nlayout = \"wide\"\n\
                [candidate]\nfeat = \"none\"\nprice = \"max\"\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/Yogurt.csv");
    let ours = Dataset::load(&Prepared::fit(&file, &schema(text)).unwrap()).unwrap();
    let theirs = Dataset::from(Purchases::yogurt().unwrap());
    assert_eq!(ours.arms(), theirs.arms());
    assert_eq!(Dataset::open(&file, None).unwrap(), theirs);
    for (a, b) in ours.rounds().iter().zip(theirs.rounds()) {
        assert_eq!(a.observed, b.observed);
        // Both orders of columns are alphabetical here: feat, price, identity, previous.
        for (x, y) in a.features.rows().flatten().zip(b.features.rows().flatten()) {
            assert!((x - y).abs() < 1e-14, "{x} {y}");
        }
    }
}

/// What `convert` writes is read back without a schema, to the last bit.
#[test]
fn converted_files_are_read_back() {
    for name in ["cars", "ratings", "logged"] {
        let file = foreign(&format!("{name}.{}", if name == "logged" { "json" } else { "csv" }));
        let prepared =
            Prepared::fit(&file, &read_schema(&foreign(&format!("{name}.toml"))).unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.csv");
        convert(&prepared, &out).unwrap();
        let (want, got) = (Dataset::load(&prepared).unwrap(), Dataset::any(&out, None).unwrap());
        assert_eq!(got.rounds().len(), want.rounds().len());
        assert_eq!((got.arms(), got.d()), (want.arms(), want.d()));
        for (got, want) in got.rounds().iter().zip(want.rounds()) {
            assert_eq!(got.observed, want.observed);
            for (x, y) in got.features.rows().flatten().zip(want.features.rows().flatten()) {
                // A row whose norm is an ulp above 1 is divided by it once more.
                assert!((x - y).abs() <= 4.0 * f64::EPSILON, "{x} {y}");
            }
        }
    }
}

/// The numbers of a check: constant and shared features, and a value that was measured after the choice.
#[test]
fn checks_find_what_was_put_in() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.csv");
    let mut text = String::from("a.x,b.x,a.paid,b.paid,a.k,b.k,age,y\n");
    for i in 0..100u32 {
        let chosen = (i * i + 3 * i) % 7 % 2;
        // Which candidate was paid for is known after the choice only.
        text += &format!(
            "{},{},{},{},3,3,{},{}\n",
            i % 5,
            i % 3,
            1 - chosen,
            chosen,
            i % 50,
            ["a", "b"][chosen as usize]
        );
    }
    text += "1,,0,1,3,3,2,a\n1,2,0,1,3,3,2,\n";
    std::fs::write(&file, text).unwrap();
    let schema = schema(
        "layout = \"wide\"\npattern = \"{candidate}.{feature}\"\nchosen = \"y\"\n[candidate]\nx = \"none\"\npaid = \"none\"\n\
         k = \"none\"\n[context]\nage = \"max\"\n",
    );
    let checked = check(&Prepared::fit(&file, &schema).unwrap()).unwrap();
    assert_eq!(
        (checked.rounds, checked.constant, checked.shared),
        (100, vec!["k".into()], vec!["age".to_string()])
    );
    let dropped: Vec<_> =
        checked.dropped.iter().map(|d| (d.reason.as_str(), d.rounds, d.first_line)).collect();
    assert_eq!(dropped, [("no candidate was chosen", 1, 103), ("x has no value", 1, 102)]);
    assert_eq!(
        checked.leakage_suspects,
        ["paid: the best candidate alone has the largest in 100.0 % of rounds"]
    );
    assert!((checked.lost.rounds - 2.0 / 102.0).abs() < 1e-12);
}

/// Rewards of a logged file are those of the range: a cost of -1 is the reward 1.
#[test]
fn costs_become_rewards() {
    let data = Dataset::any(&foreign("logged.json"), Some(&foreign("logged.toml"))).unwrap();
    let ones = data.rounds().iter().filter(|round| match round.observed {
        Observed::Played { reward, propensity: Some(p), .. } => {
            assert!((0.0..=1.0).contains(&p) && (reward == 0.0 || reward == 1.0));
            reward == 1.0
        }
        _ => panic!("a logged round"),
    });
    let lines = std::fs::read_to_string(foreign("logged.json")).unwrap();
    assert_eq!(ones.count(), lines.matches("\"_label_cost\":-1.0").count());
}
