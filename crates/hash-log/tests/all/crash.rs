//! A process that appends from several threads is killed at random points.

use crate::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The folder of the log that [`child`] appends to.
pub(crate) const FOLDER: &str = "HASH_LOG_TEST_FOLDER";
/// How many threads it has, and after how many records each of them ends.
pub(crate) const WORK: &str = "HASH_LOG_TEST_WORK";

/// The arguments by which this program runs [`child`] alone.
pub(crate) const CHILD: [&str; 4] = ["--exact", "crash::child", "--include-ignored", "--nocapture"];

/// The next number of each thread, by the records in the log; each thread's are consecutive.
fn numbers(records: &[Vec<u8>]) -> BTreeMap<u8, u64> {
    let mut next = BTreeMap::new();
    for record in records {
        let number = u64::from_le_bytes(record[1..9].try_into().unwrap());
        let expected = next.entry(record[0]).or_insert(0);
        assert_eq!(number, *expected, "thread {}", record[0]);
        *expected += 1;
    }
    next
}

/// The next number of each thread, by what the child has printed.
pub(crate) fn acknowledged(output: &[u8]) -> BTreeMap<u8, u64> {
    let mut next = BTreeMap::new();
    // A line that the kill cut off is none.
    let lines = output.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for line in lines.filter_map(|line| str::from_utf8(line).ok()?.trim().strip_prefix("acknowledged ")) {
        let (thread, number) = line.split_once(' ').unwrap();
        next.insert(thread.parse().unwrap(), number.parse::<u64>().unwrap() + 1);
    }
    next
}

/// All that was acknowledged is in the log once, and of each thread at most one more, in order.
pub(crate) fn check(folder: &Path, acknowledged: &BTreeMap<u8, u64>) -> BTreeMap<u8, u64> {
    let (_, records) = read(folder, &start()).unwrap();
    let stored = numbers(&records);
    for (thread, next) in acknowledged {
        let stored = stored.get(thread).copied().unwrap_or(0);
        assert!(
            (*next..=next + 1).contains(&stored),
            "thread {thread}: {stored} stored, {next} acknowledged"
        );
    }
    stored
}

/// In another process: threads append numbered records, and print each number once it is acknowledged.
#[test]
#[ignore = "run by other tests, in a process of its own"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let work = std::env::var(WORK).unwrap();
    let (threads, each) = work.split_once(' ').unwrap();
    let (log, next) = match open(&folder, &start()) {
        Ok((log, _, records)) => (log, numbers(&records)),
        Err(Error::Missing { .. }) => (create(&folder), BTreeMap::new()),
        Err(error) => panic!("{error}"),
    };
    println!();
    std::thread::scope(|scope| {
        for thread in 0..threads.parse::<u8>().unwrap() {
            let log = &log;
            let first = next.get(&thread).copied().unwrap_or(0);
            scope.spawn(move || {
                for number in first..first + each.parse::<u64>().unwrap() {
                    let length = 200 + (number * 37 % 1700) as usize;
                    let record = [&[thread][..], &number.to_le_bytes(), &vec![thread; length]].concat();
                    match log.append(&record).and_then(|ticket| ticket.wait()) {
                        Ok(_) => println!("acknowledged {thread} {number}"),
                        Err(error) => println!("refused {thread} {number}: {error}"),
                    }
                    if thread == 0 && number % 64 == 63 {
                        let _ = log.rotate();
                    }
                }
            });
        }
    });
}

/// Killed fifty times, the log has every acknowledged record exactly once.
#[test]
fn killed_at_random_points() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("log");
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut known: BTreeMap<u8, u64> = BTreeMap::new();
    for _ in 0..50 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(CHILD).env(FOLDER, &folder).env(WORK, "8 1000000");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(rng.random_range(1_000..120_000)));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), None, "it was killed, and did not end");
        for (thread, next) in acknowledged(&output.stdout) {
            assert!(next > known.get(&thread).copied().unwrap_or(0), "a number was acknowledged twice");
            known.insert(thread, next);
        }
        if folder.join(format!("{:020}.log", 0)).exists() {
            // What is stored is known from here on, whether it was acknowledged or not.
            known = check(&folder, &known);
        }
    }
    assert_eq!(known.len(), 8);
    assert!(known.values().sum::<u64>() > 400, "{known:?}");
}
