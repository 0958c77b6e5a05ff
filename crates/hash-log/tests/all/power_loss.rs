//! The order of system calls, and disks that refuse them, with strace.

use crate::crash::{CHILD, FOLDER, WORK, acknowledged, check};
use crate::*;
use std::collections::BTreeSet;
use std::process::Command;
use tempfile::TempDir;
use testkit::power_loss::{lost, traced};

/// Whenever an acknowledgement leaves the process, a loss of power takes nothing: neither the record nor the
/// name of its segment.
#[test]
fn attack_power_loss_takes_nothing_acknowledged() {
    let parent = TempDir::new().unwrap();
    let parent = parent.path().canonicalize().unwrap();
    let calls = parent.join("calls");
    let folder = parent.join("log");
    let mut command = traced(std::env::current_exe().unwrap(), &calls);
    let output = command.args(CHILD).env(FOLDER, &folder).env(WORK, "1 70").output();
    let output = output.expect("strace, from the package of that name, is on the path");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(acknowledged(&output.stdout)[&0], 70);
    let calls = std::fs::read_to_string(calls).unwrap();

    // A line of the log at a time: what was written and synchronised before it.
    let before = |position: usize| lost(&calls[..position], &folder);
    let answers: Vec<_> = calls.match_indices("\"acknowledged 0 ").map(|(position, _)| position).collect();
    assert_eq!(answers.len(), 70);
    for position in answers {
        assert_eq!(before(calls[..position].rfind('\n').unwrap() + 1), BTreeSet::new());
    }
    // 64 records are in the first segment: the others were acknowledged from the second.
    assert_eq!(segments(&folder).len(), 2);
    // The name of a segment that survives names a whole header: otherwise the log would open no more.
    let named: Vec<_> = calls.match_indices(".log\") = 0").map(|(position, _)| position).collect();
    assert_eq!(named.len(), 2);
    for position in named {
        let next = position + calls[position..].find(" write(").unwrap();
        assert_eq!(before(calls[..next].rfind('\n').unwrap() + 1), BTreeSet::new());
    }
    // The control: right before each synchronisation of a segment, a loss of power takes a group of it.
    let syncs: Vec<_> = calls.match_indices("fdatasync(").map(|(position, _)| position).collect();
    assert!(syncs.len() >= 70);
    for position in syncs {
        assert_eq!(before(calls[..position].rfind('\n').unwrap() + 1).len(), 1);
    }
}

/// What is read when a log is opened may be in the cache alone. It is written and synchronised before it
/// counts.
#[test]
fn what_is_read_becomes_durable() {
    let parent = TempDir::new().unwrap();
    let parent = parent.path().canonicalize().unwrap();
    let (calls, folder) = (parent.join("calls"), parent.join("log"));
    append_all(&create(&folder), &[[&[0; 9][..], &[1; 300]].concat()]);
    // As if it had been killed before the mark.
    let file = &segments(&folder)[0];
    let length = std::fs::metadata(file).unwrap().len() - 64;
    std::fs::File::options().write(true).open(file).unwrap().set_len(length).unwrap();
    let mut command = traced(std::env::current_exe().unwrap(), &calls);
    let output = command.args(CHILD).env(FOLDER, &folder).env(WORK, "1 0").output().expect("strace");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let calls = std::fs::read_to_string(calls).unwrap();
    let made = calls.lines().filter(|line| line.contains(".log>")).filter_map(|line| {
        let call = line.split_once(' ')?.1.trim_start();
        Some((call.split_once('(')?.0, call.rsplit_once(" = ")?.1))
            .filter(|(call, _)| !call.starts_with("open"))
    });
    let expected =
        [("ftruncate", "0"), ("write", "377"), ("fsync", "0"), ("write", "64"), ("fdatasync", "0")];
    assert_eq!(made.collect::<Vec<_>>(), expected);
    assert_eq!(lost(&calls, &folder), BTreeSet::new());
}

/// The child under strace, which lets the calls on the log's segment fail as `inject` says.
fn failing(folder: &Path, work: &str, inject: &str) -> std::process::Output {
    let mut command = Command::new("strace");
    let trace = format!("trace={}", inject.split(':').next().unwrap());
    command.args(["-f", "-qq", "-o", "/dev/null", "-P"]).arg(&segments(folder)[0]);
    command.args(["-e", &trace, "-e", &format!("inject={inject}")]);
    let command = command.arg("--").arg(std::env::current_exe().unwrap()).args(CHILD);
    command.env(FOLDER, folder).env(WORK, work).output().expect("strace is on the path")
}

/// A disk that fails once, or is full: all later records are refused with the same error, and after opening
/// the log again nothing acknowledged is missing.
#[test]
fn a_failed_write_or_sync_ends_the_log() {
    for (inject, text) in [
        ("fdatasync:error=EIO:when=5", "Input/output error"),
        ("fdatasync:error=ENOSPC:when=5", "no room on the disk"),
        ("write:error=ENOSPC:when=5", "no room on the disk"),
        ("write:error=EIO:when=5", "Input/output error"),
    ] {
        let parent = TempDir::new().unwrap();
        let folder = parent.path().canonicalize().unwrap().join("log");
        drop(create(&folder));
        let output = failing(&folder, "3 20", inject);
        assert!(output.status.success(), "{inject}: {}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8_lossy(&output.stdout);
        let known = acknowledged(&output.stdout);
        let count = known.values().sum::<u64>();
        assert!(count >= 4, "{inject}: {printed}");
        let refused: Vec<_> = printed.lines().filter(|line| line.starts_with("refused")).collect();
        assert_eq!(refused.len() as u64, 60 - count);
        assert!(refused.iter().all(|line| line.contains(text)), "{inject}: {printed}");
        // Each thread was refused something, and waits for nothing.
        assert!(known.values().all(|next| *next < 20), "{inject}: {printed}");

        let stored = check(&folder, &known);
        let (log, replayed, _) = open(&folder, &start()).unwrap();
        assert_eq!(replayed.head.records, stored.values().sum::<u64>());
        log.append(&[9; 9]).unwrap().wait().unwrap();
        drop(log);
        assert_eq!(read(&folder, &replayed.head).unwrap().1, [[9; 9]]);
    }
}

/// The disk fails while the log is opened: the log is refused, and opens when the disk is well.
#[test]
fn a_disk_that_fails_at_the_start() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().canonicalize().unwrap().join("log");
    append_all(&create(&folder), &[vec![0; 9]]);
    for inject in ["fsync:error=EIO", "write:error=ENOSPC", "ftruncate:error=EIO"] {
        let output = failing(&folder, "1 1", inject);
        assert!(!output.status.success());
        assert_eq!(check(&folder, &acknowledged(&output.stdout))[&0], 1);
    }
    let (_, _, records) = open(&folder, &start()).unwrap();
    assert_eq!(records, [vec![0; 9]]);
}
