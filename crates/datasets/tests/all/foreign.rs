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
    let said =
        "rewards from 0 to 1: with --rewards 0,1, the default, `create` explores with alpha 0.5 and lambda 1";
    assert!(checked.lines().iter().any(|line| line == said), "{:?}", checked.lines());
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

/// A table with one shown candidate a row, and one whose rounds have several purchases or none, get schemas
/// that read them.
#[test]
fn logs_of_shops_get_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shown.csv");
    let mut text = String::from("user,day,age_group,past_visits,tile,clicked\n");
    for i in 0..60 {
        let age = ["18-34", "35-64", "65+"][i % 3];
        let tile = ["sleep", "back", "heart", "food"][i * 7 % 4];
        text += &format!("u{i},{},{age},{},{tile},{}\n", i / 9, i % 11, i % 5 / 4);
    }
    std::fs::write(&file, &text).unwrap();
    let shown = guess(&file).unwrap();
    assert_eq!(shown.schema.candidates, ["back", "food", "heart", "sleep"]);
    assert_eq!(
        (shown.schema.chosen.as_deref(), shown.schema.reward.as_deref()),
        (Some("tile"), Some("clicked"))
    );
    assert!(shown.schema.interactions_only && shown.notes.iter().any(|note| note.contains("propensity")));
    let checked = check(&Prepared::fit(&file, &shown.schema).unwrap()).unwrap();
    // Products of four candidates with three age groups and with the visits; nothing is shared.
    assert_eq!((checked.rounds, checked.logged, checked.wide_features), (60, true, 16));
    assert!(checked.shared.is_empty());

    let file = folder.path().join("bought.csv");
    let mut text = String::from("view_id,user,book,price,bought\n");
    for i in 0..80 {
        text += &format!("{},u{},b{},{},{}\n", i / 4, i / 8, i % 9, i % 13, i % 7 / 5);
    }
    std::fs::write(&file, &text).unwrap();
    let bought = guess(&file).unwrap();
    assert_eq!((bought.schema.chosen.as_deref(), bought.schema.reward.as_deref()), (None, Some("bought")));
    assert_eq!(bought.schema.round, ["view_id"]);
    assert_eq!(check(&Prepared::fit(&file, &bought.schema).unwrap()).unwrap().rounds, 20);
    assert_eq!(schema(&bought.toml(&file).replace("[\"view_id\"]", "\"view_id\"")), bought.schema);
}

/// Principal components of rows of rank r keep all products of rows in r features: a column that all rows
/// share is not lost.
#[test]
fn components_keep_what_rows_share() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.csv");
    let mut text = String::from("group,tile,clicked\n");
    for i in 0..48 {
        text += &format!("{},{},{}\n", ["a", "b", "c"][i % 3], ["x", "y"][i / 3 % 2], i % 2);
    }
    std::fs::write(&file, &text).unwrap();
    // Six products, the bias and the identity have the rank of the products.
    let text = |project: &str| {
        format!(
            "layout = \"wide\"\ncandidates = [\"x\", \"y\"]\nchosen = \"tile\"\nreward = \"clicked\"\nbias = true\nidentity = true\n\
             interactions_only = true\ninteractions = [[\"candidate\", \"group\"]]\nnorm = \"clip\"\n{project}[context]\n\
             group = \"one-hot\"\n"
        )
    };
    let rows = |project: &str| {
        let prepared = Prepared::fit(&file, &schema(&text(project))).unwrap();
        let data = Dataset::load(&prepared).unwrap();
        let rows: Vec<Vec<f64>> =
            data.rounds().iter().flat_map(|r| r.features.rows().map(<[f64]>::to_vec)).collect();
        (rows, check(&prepared).unwrap().lost.mean_square)
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let ((wide, _), (kept, lost)) = (rows(""), rows("project = { features = 6 }\n"));
    assert_eq!((wide[0].len(), kept[0].len()), (9, 6));
    assert!(lost.abs() < 1e-12, "{lost}");
    for (a, x) in wide.iter().zip(&kept) {
        for (b, y) in wide.iter().zip(&kept) {
            assert!((dot(a, b) - dot(x, y)).abs() < 1e-12);
        }
    }
    let (_, lost) = rows("project = { features = 5 }\n");
    assert!(lost > 0.01, "the control: {lost}");
}
