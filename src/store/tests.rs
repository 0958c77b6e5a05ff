//! Bytes that commits write, counted below the database, and the time they take.

use super::{Edit, Edits, Named, NamedEdit, Store};
use crate::error::Error;
use redb::StorageBackend;
use redb::backends::FileBackend;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::time::Instant;

thread_local! {
    /// Bytes that databases wrote in this thread.
    static WRITTEN: Cell<u64> = const { Cell::new(0) };
    /// Whether synchronising fails in this thread, after it has been done.
    static FAILING: Cell<bool> = const { Cell::new(false) };
}

/// Bytes that databases write in this thread while `work` runs.
pub(crate) fn written(work: impl FnOnce()) -> u64 {
    let before = WRITTEN.get();
    work();
    WRITTEN.get() - before
}

/// Counts what is written to a file.
#[derive(Debug)]
pub(super) struct CountingBackend(FileBackend);

impl CountingBackend {
    pub(super) fn new(file: File) -> Self {
        CountingBackend(FileBackend::new(file).unwrap())
    }
}

impl StorageBackend for CountingBackend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()?;
        if FAILING.get() { Err(io::Error::other("the disk does not answer")) } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        WRITTEN.set(WRITTEN.get() + data.len() as u64);
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

fn key(number: u64) -> Vec<u8> {
    blake3::hash(&number.to_le_bytes()).as_bytes()[..16].to_vec()
}

/// A folder with one bandit, `pending` of whose decisions wait for feedback.
fn with_pending(pending: u64) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(folder.path(), None).unwrap();
    let decisions = (0..pending).map(|i| Edit { key: key(i), value: Some(vec![1; 40]) }).collect();
    let edits = Edits { state: vec![0; 300], decisions, ..Edits::default() };
    store.commit(&[("b", edits)]).unwrap();
    (folder, store)
}

fn feedback(store: &Store, number: u64) {
    let decisions = vec![Edit { key: key(number), value: None }];
    let receipts = vec![Edit { key: key(number), value: Some(vec![2; 30]) }];
    let edits = Edits { state: vec![number as u8; 300], decisions, receipts, ..Edits::default() };
    store.commit(&[("b", edits)]).unwrap();
}

/// A feedback writes as much with 10,000 decisions that wait as with 10, up to one page for each level by
/// which the tree of the table is higher.
#[test]
fn a_commit_does_not_grow_with_pending_decisions() {
    let bytes = |pending: u64| {
        let (_folder, store) = with_pending(pending);
        (0..8).map(|number| written(|| feedback(&store, number))).max().unwrap()
    };
    let (few, many) = (bytes(10), bytes(10_000));
    println!("{few} bytes at 10, {many} bytes at 10,000");
    assert!(few > 0 && many <= few + (16 << 10), "{few} bytes at 10, {many} bytes at 10,000");
}

/// A deleted bandit leaves no row, and takes none of another bandit.
#[test]
fn rows_go_with_their_bandit() {
    let (_folder, store) = with_pending(10);
    feedback(&store, 3);
    let other =
        Edits { exchanges: vec![Edit { key: vec![255; 10], value: Some(vec![]) }], ..Edits::default() };
    store.commit(&[("a", other)]).unwrap();
    let rows = |row: &super::Stored| (row.decisions.len(), row.receipts.len(), row.exchanges.len());
    let stored = store.tables.read().unwrap();
    assert_eq!(stored.iter().map(rows).collect::<Vec<_>>(), [(0, 0, 1), (9, 1, 0)]);
    store.delete("a", &[]).unwrap();
    assert_eq!(store.tables.read().unwrap().iter().map(rows).collect::<Vec<_>>(), [(9, 1, 0)]);
    store.delete("b", &[]).unwrap();
    assert!(store.tables.read().unwrap().is_empty());
    let (_folder, store) = (store.folder.clone(), store);
    store.commit(&[("b", Edits::default())]).unwrap();
    assert_eq!(store.tables.read().unwrap().iter().map(rows).collect::<Vec<_>>(), [(0, 0, 0)]);
}

/// A transaction that failed, although it reached the disk, is taken back by the next one: memory has the
/// state before it.
#[test]
fn a_failed_commit_is_taken_back() {
    let (_folder, store) = with_pending(10);
    feedback(&store, 3);
    let named =
        |key: &str, value: Option<Vec<u8>>| NamedEdit { table: Named::Labels, key: key.into(), value };
    store.commit_with(&[], &["b", "c"].map(|key| named(key, Some(vec![1])))).unwrap();
    let read = |tables: &super::Tables| (tables.read().unwrap(), tables.read_named(Named::Labels).unwrap());
    let before = read(&store.tables);
    let on_disk = || read(&super::Tables::open(&store.folder).unwrap());
    let failing = |commit: &dyn Fn() -> Result<(), crate::error::Error>| {
        FAILING.set(true);
        assert!(commit().is_err());
        FAILING.set(false);
        // The control: without what follows, a restart finds the commit that was refused.
        assert_ne!(on_disk(), before);
        store.commit(&[]).unwrap();
        assert_eq!(read(&store.tables), before);
    };
    let edits = || {
        let decisions = vec![Edit { key: key(4), value: None }, Edit { key: key(11), value: Some(vec![7]) }];
        let receipts = vec![Edit { key: key(3), value: Some(vec![9]) }];
        Edits { state: vec![8; 10], decisions, receipts, ..Edits::default() }
    };
    failing(&|| store.commit(&[("b", edits()), ("new", edits())]));
    failing(&|| store.delete("b", &[named("b", None)]));
    failing(&|| {
        store.commit_with(&[], &[named("b", Some(vec![2])), named("c", None), named("d", Some(vec![]))])
    });
    feedback(&store, 4);
    assert_ne!(read(&store.tables), before);
}

/// After a transaction that failed the database is closed until the next one, and its own lock is free, as
/// the control shows. The lock of the folder keeps another server out of it meanwhile.
#[test]
fn attack_no_other_server_opens_a_folder_after_a_failed_commit() {
    let (folder, store) = with_pending(10);
    let in_use = || {
        let refused = Store::open(folder.path(), None).err();
        assert!(matches!(refused, Some(Error::StateInUse { .. })), "{refused:?}");
    };
    in_use();
    FAILING.set(true);
    assert!(store.commit(&[("b", Edits::default())]).is_err());
    FAILING.set(false);
    drop(super::Tables::open(folder.path()).unwrap());
    in_use();
    feedback(&store, 3);
    in_use();
    drop(store);
    Store::open(folder.path(), None).unwrap();
}

/// A folder of another format is refused by its number, and stays as it is.
#[test]
fn another_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tables = super::Tables::open(folder.path()).unwrap();
    tables.check_meta(4, None).unwrap();
    drop(tables);
    for _ in 0..2 {
        let refused = Store::open(folder.path(), None).err().unwrap().to_string();
        let expected = format!("has format 4, this program reads {}", super::FORMAT);
        assert!(refused.contains(&expected), "{refused}");
    }
}

/// Prints bytes and time of a feedback for some numbers of decisions that wait.
#[test]
#[ignore = "prints times"]
fn times_of_a_commit() {
    for pending in [10, 100, 1000, 10_000] {
        let (_folder, store) = with_pending(pending);
        let begun = Instant::now();
        let bytes = written(|| (0..10).for_each(|number| feedback(&store, number)));
        println!("{pending:>6} wait: {} bytes, {:.2} ms", bytes / 10, begun.elapsed().as_secs_f64() * 100.0);
    }
}

/// A page of zeros, wherever it is: the folder is opened, or the error says what to do. Some of these pages
/// make the database panic.
#[test]
fn a_damaged_page_ends_the_start_with_a_sentence() {
    let (folder, store) = with_pending(40);
    drop(store);
    let path = folder.path().join("state.redb");
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in
        (0..whole.len()).step_by(4096).filter(|at| whole[*at..].iter().take(4096).any(|byte| *byte != 0))
    {
        let mut damaged = whole.clone();
        damaged[at..].iter_mut().take(4096).for_each(|byte| *byte = 0);
        std::fs::write(&path, damaged).unwrap();
        if let Err(error) = Store::open(folder.path(), None) {
            let said = error.to_string();
            assert!(
                said.contains("restore the folder from a backup") && said.contains("--restored"),
                "{said}"
            );
            refused += 1;
        }
    }
    assert!(refused > 2, "{refused}");
    std::fs::write(&path, whole).unwrap();
    let (_, stored) = Store::open(folder.path(), None).unwrap();
    assert_eq!(stored[0].decisions.len(), 40);
}
