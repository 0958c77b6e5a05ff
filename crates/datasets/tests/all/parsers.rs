//! Parsers on generated and mutated files.

use crate::{foreign, schema};
use datasets::{Dataset, Observed, Prepared, Source, guess, read_schema};
use proptest::prelude::*;
use schema::{Cell, Position, Transform};
use std::fmt::Write;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A wide and a long table of the same rounds are the same rounds.
    #[test]
    fn layouts_agree(
        rounds in proptest::collection::vec((proptest::collection::vec(-1e6f64..1e6, 6), 0usize..3), 2..12),
        delimiter in proptest::sample::select(vec![',', ';', '\t', '|']),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let [wide, long] = ["wide.csv", "long.csv"].map(|name| folder.path().join(name));
        let arms = ["red", "ro se", "ö.3"];
        let mut text = String::from("n");
        for arm in arms {
            write!(text, ",x.{arm},z.{arm}").unwrap();
        }
        text += ",y\n";
        let mut rows = String::from("n,arm,x,z,y\n");
        for (n, (values, chosen)) in rounds.iter().enumerate() {
            write!(text, "{n}").unwrap();
            values.iter().for_each(|x| write!(text, ",{x}").unwrap());
            writeln!(text, ",{}", arms[*chosen]).unwrap();
            for (arm, values) in values.chunks(2).enumerate() {
                writeln!(rows, "{n},{},{},{},{}", arms[arm], values[0], values[1], u8::from(arm == *chosen)).unwrap();
            }
        }
        std::fs::write(&wide, text.replace(',', &delimiter.to_string())).unwrap();
        std::fs::write(&long, rows.replace(',', &delimiter.to_string())).unwrap();
        let features = "[candidate]\nx = \"standard\"\nz = \"min-max\"\n";
        let of_wide = schema(&format!("layout = \"wide\"\nchosen = \"y\"\nuser = \"n\"\n{features}"));
        let names = "candidate_column = \"arm\"\ncandidates = [\"red\", \"ro se\", \"ö.3\"]\n";
        let of_long = schema(&format!("layout = \"long\"\nuser = \"n\"\nchosen = \"y\"\n{names}{features}"));
        let read = |path, schema| Dataset::load(&Prepared::fit(path, schema).unwrap()).unwrap();
        let (a, b) = (read(&wide, &of_wide), read(&long, &of_long));
        prop_assert_eq!(&a, &b);
        prop_assert_eq!(a.rounds().len(), rounds.len());
        for (round, (_, chosen)) in a.rounds().iter().zip(&rounds) {
            prop_assert_eq!(&round.observed, &Observed::Every((0..3).map(|arm| f64::from(arm == *chosen)).collect()));
            prop_assert!(round.features.max_norm() <= 1.0 + 1e-12);
        }
    }

    /// A transformation that was stored and read back computes the same features from values by name.
    #[test]
    fn stored_transformations_go_on_exactly(cells in proptest::collection::vec(("[a-z]{0,3}", -1e3f64..1e3), 4)) {
        let file = foreign("ratings.csv");
        let prepared = Prepared::fit(&file, &read_schema(&foreign("ratings.toml")).unwrap()).unwrap();
        let transform = prepared.transform();
        let stored = serde_json::to_string(transform).unwrap();
        let again: Transform = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(&again, transform);
        let candidates: Vec<_> = cells.iter().map(|(text, number)| {
            let [genre, film] = ["genre", "film"].map(|name| (name.to_string(), Cell::Text(text.clone())));
            [genre, film, ("unknown".into(), Cell::Number(*number))].into()
        }).collect();
        let context = [("age".to_string(), Cell::Number(cells[0].1))].into();
        let (rows, _) = again.named_rows(&context, &candidates, Position::default()).unwrap();
        prop_assert_eq!(rows.len(), 4 * 12);
        for row in rows.chunks(12) {
            prop_assert!(row.iter().map(|x| x * x).sum::<f64>() <= 1.0 + 1e-12);
        }
    }

    /// Bytes that were changed anywhere are read or refused.
    #[test]
    fn mutated_files_are_read_or_refused(
        which in 0usize..3,
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let name = ["cars", "ratings", "logged"][which];
        let extension = if which == 2 { "json" } else { "csv" };
        let mut bytes = std::fs::read(foreign(&format!("{name}.{extension}"))).unwrap();
        bytes.truncate(6000);
        for (at, byte) in &cuts {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        bytes.truncate(1 + end.index(bytes.len()));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(format!("f.{extension}"));
        std::fs::write(&file, bytes).unwrap();
        let schema = read_schema(&foreign(&format!("{name}.toml"))).unwrap();
        let prepared = Prepared::fit(&file, &schema);
        if let Ok(prepared) = &prepared {
            prop_assert!(Dataset::load(prepared).is_ok());
        }
        for error in [prepared.err(), guess(&file).err()].into_iter().flatten() {
            prop_assert!(error.to_string().contains(&format!("f.{extension}")), "{}", error);
        }
    }
}

/// A source counts what it drops, and hands out the rest.
#[test]
fn sources_count_what_they_drop() {
    let mut source =
        Source::open(&foreign("ratings.csv"), &read_schema(&foreign("ratings.toml")).unwrap()).unwrap();
    let mut rounds = 0;
    while let Some(round) = source.next_round().unwrap() {
        rounds += 1;
        assert_eq!(round.candidates.len(), 4);
    }
    let dropped: u64 = source.dropped().iter().map(|d| d.rounds).sum();
    assert_eq!((rounds, source.rounds(), rounds + dropped), (273, 273, 300));
}
