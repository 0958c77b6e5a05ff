//! What is acknowledged stays: on files that are cut, changed and torn, and in processes that are killed or
//! refused by the disk.

mod crash;
mod damage;
mod model;
mod power_loss;
mod uses;

use hash_log::{Error, Head, Log, Replayed, replay};
use std::path::{Path, PathBuf};

const IDENTITY: &[u8] = b"a bandit and its keys";
const LIMIT: usize = 2048;
const SALT: [u8; 32] = [7; 32];

fn create(folder: &Path) -> Log {
    Log::create(folder, IDENTITY, LIMIT, SALT).unwrap()
}

fn start() -> Head {
    Head::start(IDENTITY)
}

/// Opens the log, and returns the records after `from` too.
fn open(folder: &Path, from: &Head) -> Result<(Log, Replayed, Vec<Vec<u8>>), Error> {
    let mut records = Vec::new();
    let visit = |_: &Head, record: &[u8]| {
        records.push(record.to_vec());
        Ok::<_, Error>(())
    };
    let (log, replayed) = Log::open(folder, IDENTITY, LIMIT, from, visit)?;
    Ok((log, replayed, records))
}

/// The records after `from`, read without a change.
fn read(folder: &Path, from: &Head) -> Result<(Replayed, Vec<Vec<u8>>), Error> {
    let mut records = Vec::new();
    let replayed = replay(folder, IDENTITY, LIMIT, from, |_, record| {
        records.push(record.to_vec());
        Ok::<_, Error>(())
    })?;
    Ok((replayed, records))
}

/// The files of the segments, in order.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Appends all these records at once, which makes one or two groups, and waits.
fn append_all(log: &Log, records: &[Vec<u8>]) {
    let tickets: Vec<_> = records.iter().map(|record| log.append(record).unwrap()).collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
}

/// The ranges of the groups in the bytes of a segment that is as it was written.
fn groups(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut start = 96 + IDENTITY.len() + 32;
    let mut groups = Vec::new();
    while start < bytes.len() {
        let body = u32::from_le_bytes(bytes[start + 4..start + 8].try_into().unwrap());
        groups.push(start..start + 64 + body as usize);
        start += 64 + body as usize;
    }
    assert_eq!(start, bytes.len());
    groups
}

/// The number of records in a group.
fn count(mut group: &[u8]) -> usize {
    let mut count = 0;
    group = &group[64..];
    while !group.is_empty() {
        group = &group[4 + u32::from_le_bytes(group[..4].try_into().unwrap()) as usize..];
        count += 1;
    }
    count
}
