//! What callers may ask, and what they are refused.

use crate::*;
use std::fs;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use tempfile::TempDir;

/// Records come back in the order in which they were asked for, from any position, over segments.
#[test]
fn records_come_back_after_any_position() {
    let folder = TempDir::new().unwrap();
    let log = create(folder.path());
    let mut heads = vec![start()];
    let records: Vec<Vec<u8>> = (0..30u8).map(|n| vec![n; usize::from(n)]).collect();
    for (number, record) in records.iter().enumerate() {
        heads.push(log.append(record).unwrap().wait().unwrap());
        if number % 10 == 9 {
            assert_eq!(log.rotate().unwrap(), heads[number + 1]);
            assert_eq!(log.rotate().unwrap(), heads[number + 1], "a segment without a record is not ended");
        }
    }
    assert_eq!(log.head(), heads[30]);
    assert_eq!(heads[30].records, 30);
    assert_eq!(heads[30].bytes, 435);
    // By the definition alone.
    let chain =
        records.iter().fold(blake3::derive_key("hash-log 1 chain of records", IDENTITY), |hash, record| {
            let bytes = [&hash[..], &(record.len() as u32).to_le_bytes(), record].concat();
            *blake3::hash(&bytes).as_bytes()
        });
    assert_eq!(heads[30].hash, chain);
    assert_eq!(Head::from_bytes(&heads[30].to_bytes()), heads[30]);
    let names: Vec<_> = segments(folder.path()).iter().map(|p| p.file_name().unwrap().to_owned()).collect();
    let expected = [0, 10, 20, 30].map(|n| format!("{n:020}.log"));
    assert!(names.iter().zip(&expected).all(|(name, expected)| name == &expected[..]), "{names:?}");
    #[cfg(unix)]
    for file in segments(folder.path()) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    drop(log);
    for (number, head) in heads.iter().enumerate() {
        let (replayed, found) = read(folder.path(), head).unwrap();
        assert!(found == records[number..]);
        assert_eq!(replayed.head, heads[30]);
    }

    // Earlier segments go when a snapshot contains them, and positions in them with them.
    let (log, _, _) = open(folder.path(), &heads[15]).unwrap();
    assert_eq!(log.remove_before(&heads[19]).unwrap().len(), 1);
    assert_eq!(log.remove_before(&heads[20]).unwrap().len(), 1);
    assert_eq!(log.remove_before(&heads[30]).unwrap().len(), 1);
    assert_eq!(log.remove_before(&heads[30]).unwrap().len(), 0);
    let head = log.append(b"later").unwrap().wait().unwrap();
    assert!(matches!(
        log.remove_before(&Head { records: 32, ..head }),
        Err(Error::Ahead { got: 32, records: 31 })
    ));
    drop(log);
    assert!(matches!(read(folder.path(), &heads[29]), Err(Error::Missing { records: 29, .. })));
    assert_eq!(read(folder.path(), &heads[30]).unwrap().1, [b"later"]);
}

/// A snapshot that the log does not contain, or another log, or a record too long.
#[test]
fn what_does_not_fit_is_refused() {
    let folder = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    let log = create(folder.path());
    let head = log.append(b"one").unwrap().wait().unwrap();
    assert!(
        matches!(log.append(&[0; LIMIT + 1]), Err(Error::TooLong { got, limit: LIMIT }) if got == LIMIT + 1)
    );
    let longest = log.append(&[0; LIMIT]).unwrap().wait().unwrap();
    drop(log);
    assert!(matches!(Log::create(folder.path(), IDENTITY, LIMIT, SALT), Err(Error::Exists { .. })));
    let ahead = Head { records: 3, ..longest };
    assert!(matches!(open(folder.path(), &ahead), Err(Error::Short { records: 2, want: 3, .. })));
    for wrong in
        [Head { hash: longest.hash, ..head }, Head { bytes: 9, ..longest }, Head { bytes: 1, ..start() }]
    {
        assert!(matches!(open(folder.path(), &wrong), Err(Error::Diverged { .. })));
    }
    let visit = |_: &Head, _: &[u8]| Ok::<_, Error>(());
    let identity = |identity: &[u8], limit| {
        Log::open(folder.path(), identity, limit, &start(), visit).map(drop).unwrap_err()
    };
    assert!(matches!(identity(b"another", LIMIT), Error::Identity { .. }));
    assert!(matches!(identity(IDENTITY, LIMIT - 1), Error::Limit { .. }));
    assert!(matches!(identity(&[0; 257], LIMIT), Error::OutOfRange { got: 257, .. }));
    assert!(matches!(identity(IDENTITY, (1 << 30) + 1), Error::OutOfRange { .. }));
    assert!(matches!(open(&other.path().join("none"), &start()), Err(Error::Missing { records: 0, .. })));
    // Another version, whatever follows.
    let file = segments(folder.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    bytes[8] = 2;
    fs::write(&file, bytes).unwrap();
    assert!(matches!(open(folder.path(), &start()), Err(Error::Version { got: 2, want: 1, .. })));
}

/// The caller's error ends the reading, and nothing is changed.
#[test]
fn an_error_of_the_caller_ends_the_reading() {
    #[derive(Debug)]
    enum Refused {
        Log,
        Caller,
    }
    impl From<Error> for Refused {
        fn from(_: Error) -> Self {
            Refused::Log
        }
    }
    let folder = TempDir::new().unwrap();
    drop(create(folder.path()).append(b"one").unwrap());
    let before = fs::read(&segments(folder.path())[0]).unwrap();
    let result = Log::open(folder.path(), IDENTITY, LIMIT, &start(), |_, _| Err(Refused::Caller));
    assert!(matches!(result, Err(Refused::Caller)));
    let result = Log::open(folder.path(), b"other", LIMIT, &start(), |_, _| Err(Refused::Caller));
    assert!(matches!(result, Err(Refused::Log)));
    assert_eq!(fs::read(&segments(folder.path())[0]).unwrap(), before);
}

/// A ticket is a future too, and a record is stored whose ticket was dropped.
#[test]
fn a_ticket_is_a_future() {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let folder = TempDir::new().unwrap();
    let log = create(folder.path());
    drop(log.append(b"one").unwrap());
    let mut ticket = pin!(log.append(b"two").unwrap());
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let head = loop {
        match ticket.as_mut().poll(&mut Context::from_waker(&waker)) {
            std::task::Poll::Ready(result) => break result.unwrap(),
            std::task::Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(head, log.head());
    assert_eq!(read(folder.path(), &start()).unwrap().1, [b"one", b"two"]);
}

/// More than a group holds, from many threads: each thread's records are in its order.
#[test]
fn large_groups_are_divided() {
    let folder = TempDir::new().unwrap();
    let log = create(folder.path());
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let log = &log;
            scope.spawn(move || {
                let record = |n: u16| [&[thread][..], &n.to_le_bytes(), &[0; 2000]].concat();
                append_all(log, &(0..600).map(record).collect::<Vec<_>>());
            });
        }
    });
    drop(log);
    let bytes = fs::read(&segments(folder.path())[0]).unwrap();
    assert!(groups(&bytes).iter().all(|group| group.len() <= 64 + (1 << 20)));
    let (_, found) = read(folder.path(), &start()).unwrap();
    for thread in 0..4u8 {
        let numbers = found.iter().filter(|r| r[0] == thread).map(|r| u16::from_le_bytes([r[1], r[2]]));
        assert!(numbers.eq(0..600));
    }
}

/// An idle log ends with a mark after a second, and stays as it is from then on.
#[test]
fn an_idle_log_is_marked() {
    let folder = TempDir::new().unwrap();
    let log = create(folder.path());
    log.append(b"one").unwrap().wait().unwrap();
    let length = || fs::metadata(&segments(folder.path())[0]).unwrap().len();
    let before = length();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while length() == before && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(length(), before + 64);
    drop(log);
    let (log, _, _) = open(folder.path(), &start()).unwrap();
    drop(log);
    assert_eq!(length(), before + 64);
}

/// A flush is durable when all records before it are, and takes no record itself.
#[test]
fn a_flush_waits_for_what_came_before() {
    let dir = tempfile::tempdir().unwrap();
    let log = create(dir.path());
    assert_eq!(log.flush().unwrap().wait().unwrap(), start(), "nothing waits");
    for i in 1..=200u64 {
        let _unwaited = log.append(&i.to_le_bytes()).unwrap();
        if i % 7 == 0 {
            let head = log.flush().unwrap().wait().unwrap();
            assert_eq!(head.records, i);
            assert_eq!(read(dir.path(), &start()).unwrap().1.len() as u64, i, "they are in the file");
        }
    }
}
