//! Random scripts against a vector: appends, losses of power, snapshots, new segments.

use crate::*;
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;

#[derive(Debug, Clone)]
enum Step {
    /// Appends records of these lengths, and waits for them.
    Append(Vec<usize>),
    Rotate,
    /// A snapshot is made of all that was acknowledged, and earlier segments are removed.
    Snapshot,
    Close,
    /// The power is lost while records of these lengths are appended, of which this part is on the disk.
    Lose(Vec<usize>, f64),
}

fn step() -> impl Strategy<Value = Step> {
    let lengths = || prop::collection::vec(0..LIMIT, 1..6);
    prop_oneof![
        4 => lengths().prop_map(Step::Append),
        1 => Just(Step::Rotate),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Close),
        2 => (lengths(), 0.0..=1.0f64).prop_map(|(lengths, part)| Step::Lose(lengths, part)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_log_is_a_vector(steps in prop::collection::vec(step(), 1..12)) {
        let mut folder = TempDir::new().unwrap();
        let mut log = create(folder.path());
        let mut model: Vec<Vec<u8>> = Vec::new();
        let mut snapshot = start();
        let make = |model: &[Vec<u8>], lengths: &[usize]| -> Vec<Vec<u8>> {
            lengths.iter().enumerate().map(|(i, length)| vec![(model.len() + i) as u8; *length]).collect()
        };
        for step in steps {
            match step {
                Step::Append(lengths) => {
                    let records = make(&model, &lengths);
                    append_all(&log, &records);
                    model.extend(records);
                    continue;
                }
                Step::Rotate => {
                    prop_assert_eq!(log.rotate().unwrap().records, model.len() as u64);
                    continue;
                }
                Step::Snapshot => {
                    snapshot = log.head();
                    log.remove_before(&snapshot).unwrap();
                    prop_assert_eq!(snapshot.records, model.len() as u64);
                    continue;
                }
                Step::Close => drop(log),
                Step::Lose(lengths, part) => {
                    // The files as they are, and of what comes then a part of the last group.
                    let last = segments(folder.path()).pop().unwrap();
                    let durable = fs::metadata(&last).unwrap().len();
                    let records = make(&model, &lengths);
                    append_all(&log, &records);
                    let bytes = fs::read(&last).unwrap();
                    let new: Vec<_> = groups(&bytes).into_iter().filter(|g| g.start as u64 >= durable).collect();
                    // Groups are synchronised one after the other: those before the torn one were
                    // acknowledged.
                    let torn = new.iter().rfind(|group| group.len() > 64).unwrap().clone();
                    let end = torn.start + (part * torn.len() as f64) as usize;
                    let complete = new.iter().filter(|group| group.end <= end);
                    let stored: usize = complete.map(|group| count(&bytes[group.clone()])).sum();
                    model.extend(records.into_iter().take(stored));
                    let copy = TempDir::new().unwrap();
                    for file in segments(folder.path()) {
                        fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
                    }
                    fs::write(copy.path().join(last.file_name().unwrap()), &bytes[..end]).unwrap();
                    drop(log);
                    folder = copy;
                }
            }
            let (opened, replayed, records) = open(folder.path(), &snapshot).unwrap();
            prop_assert_eq!(replayed.head.records, model.len() as u64);
            prop_assert!(records == model[snapshot.records as usize..]);
            log = opened;
        }
        drop(log);
        let (_, records) = read(folder.path(), &snapshot).unwrap();
        prop_assert!(records == model[snapshot.records as usize..]);
    }
}
