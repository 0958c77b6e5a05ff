//! The log of records: appends a second from several threads that wait for each, and reading it again.
//!
//! Ids: `hash_log/append/bytes=659/threads=T`, the time a record when T threads append one after the other;
//! `hash_log/replay/bytes=659`, a record of a log in the cache; `hash_log/sync/bytes=727`, the yardstick: one
//! write to a file of its own and `fdatasync`. The log is in the folder for temporary files (`TMPDIR`), whose
//! disk is what is measured.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hash_log::{Error, Head, Log, replay};
use std::io::Write;
use std::time::{Duration, Instant};

/// A feedback of an encrypted bandit whose users send scores.
const BYTES: usize = 659;
const LIMIT: usize = 2048;
const IDENTITY: &[u8] = b"bench";

/// Appends `each` records from each of `threads` threads.
fn append(log: &Log, threads: u64, each: u64) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for _ in 0..each {
                    let ticket = log.append(&[thread as u8; BYTES]).expect("a log that takes records");
                    ticket.wait().expect("room on the disk");
                }
            });
        }
    });
    start.elapsed()
}

fn appends(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut group = c.benchmark_group("hash_log");
    group.sample_size(10).measurement_time(Duration::from_secs(4)).throughput(Throughput::Elements(1));
    for threads in [1, 8, 64] {
        let log = Log::create(&folder.path().join(threads.to_string()), IDENTITY, LIMIT, [1; 32]);
        let log = log.expect("room on the disk");
        group.bench_function(format!("append/bytes={BYTES}/threads={threads}"), |b| {
            b.iter_custom(|records| {
                let each = records.div_ceil(threads);
                append(&log, threads, each).mul_f64(records as f64 / (each * threads) as f64)
            });
        });
    }
    let mut file = tempfile::tempfile().expect("a folder for temporary files");
    // What a group of one record has: the header of the group, the length of the record, the record.
    let bytes = [1; 64 + 4 + BYTES];
    group.bench_function(format!("sync/bytes={}", bytes.len()), |b| {
        b.iter(|| {
            file.write_all(&bytes).expect("room on the disk");
            file.sync_data().expect("a disk");
        });
    });
}

fn replays(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let log = Log::create(folder.path(), IDENTITY, LIMIT, [1; 32]).expect("room on the disk");
    let records = 100_000;
    let tickets: Vec<_> = (0..records).map(|_| log.append(&[1; BYTES]).expect("a log")).collect();
    for ticket in tickets {
        ticket.wait().expect("room on the disk");
    }
    let mut group = c.benchmark_group("hash_log");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).throughput(Throughput::Elements(1));
    group.bench_function(format!("replay/bytes={BYTES}"), |b| {
        // The time of a whole reading, for as many records as it has.
        b.iter_custom(|n| {
            let read = || {
                let (mut seen, start) = (0u64, Instant::now());
                let visit = |_: &Head, record: &[u8]| {
                    seen += record.len() as u64;
                    Ok::<_, Error>(())
                };
                replay(folder.path(), IDENTITY, LIMIT, &Head::start(IDENTITY), visit).expect("a log");
                assert_eq!(seen, records * BYTES as u64);
                start.elapsed()
            };
            let readings = n.div_ceil(records);
            let time: Duration = (0..readings).map(|_| read()).sum();
            time.mul_f64(n as f64 / (readings * records) as f64)
        });
    });
}

criterion_group!(benches, appends, replays);
criterion_main!(benches);
