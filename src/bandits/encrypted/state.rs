//! The durable state of an encrypted bandit: a snapshot, and a log of the events after it.
//!
//! ```text
//! DIR/encrypted/ID/snapshot    "HELBAPKD", version, position in the log, state, BLAKE3 of all before
//! DIR/encrypted/ID/genesis     the first snapshot, if the whole log is kept
//! DIR/encrypted/ID/*.log       the events (crate `hash-log`)
//! DIR/encrypted/ID/given       the last round that was given out (8 bytes), which is not synchronised
//! DIR/encrypted/ID.new         a bandit whose creation was interrupted, and
//! DIR/encrypted/ID.deleted     one whose deletion was; both are removed at the next start
//! ```
//! An event is applied in memory and appended to the log under one lock, so that both have one order. It is
//! acknowledged when the log has synchronised it. A snapshot is written after each new model, and the
//! segments before it are removed.
//!
//! Rounds are reserved by an event, and given out without one. `given` tells a server that starts again how
//! many of the reserved ones were given out. Nothing but numbers in views depends on it.

use crate::error::Error;
use hash_log::{Head, Log, Ticket};
use helba::{Applied, EncryptedBandit, Engine, Event, Step};
use host::os_rng;
use protocol::Status;
use rand::Rng;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use wire::LearnRequest;

/// The last snapshot, which a start continues from.
pub(super) const SNAPSHOT: &str = "snapshot";
/// The snapshot of the creation, if the whole log is kept.
pub(super) const GENESIS: &str = "genesis";
/// The last round that was given out.
const GIVEN: &str = "given";
const MAGIC: [u8; 8] = *b"HELBAPKD";
const VERSION: u16 = 23;
/// The longest event: a model in both rings, of at most some 10 MB.
const LONGEST_EVENT: usize = 64 << 20;
/// After a snapshot a new segment of the log begins if the last one has more bytes than this.
const SEGMENT_BYTES: u64 = 64 << 20;

/// More rounds than are given out between a backup and its restoration.
const SKIPPED_ROUNDS: u64 = 1 << 32;

/// An encrypted bandit in memory, its log, and the position of memory in the log.
pub(super) struct Live {
    pub(super) bandit: EncryptedBandit,
    /// The last round that was given out, or may have been before the last start.
    round: u64,
    /// After a start, the last round that `given` names, until more rounds are reserved.
    before_start: Option<u64>,
    given: File,
    /// Rounds up to this one are reserved in memory.
    reserved: u64,
    /// They are reserved on disk when the log has this many records there.
    reserved_at: u64,
    pub(super) deleted: bool,
    head: Head,
    log: Log,
    folder: PathBuf,
    /// The position where the last segment begins.
    segment: Head,
    /// Whether segments before a snapshot stay.
    keep_log: bool,
}

/// An event that was applied and waits for the disk.
pub(super) struct Pending {
    pub(super) applied: Applied,
    pub(super) ticket: Ticket,
}

/// Rounds that follow each other.
#[must_use = "they may be given out when they are reserved on disk"]
pub(super) struct Rounds {
    first: u64,
    /// Durable when they are reserved, or `None` if they are.
    pub(super) reserved: Option<Ticket>,
}

impl Rounds {
    /// Waits until the rounds are reserved on disk, and returns the first.
    pub(super) fn wait(self) -> Result<u64, Error> {
        if let Some(ticket) = self.reserved {
            ticket.wait()?;
        }
        Ok(self.first)
    }
}

/// What a snapshot holds.
pub(super) struct Snapshot {
    bandit: EncryptedBandit,
    head: Head,
    folder: PathBuf,
}

impl Live {
    /// Creates the folder of a bandit, durably. With `keep_log` its whole log stays, for an audit.
    pub(super) fn create(
        root: &Path,
        id: &str,
        engine: &Engine,
        bandit: EncryptedBandit,
        keep_log: bool,
    ) -> Result<Self, Error> {
        let new = root.join(format!("{id}.new"));
        let mut private = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
        private.recursive(true).create(root).map_err(|e| Error::disk(root, e))?;
        host::sync_folder_of(root).map_err(|e| Error::disk(root, e))?;
        private.recursive(false).create(&new).map_err(|e| Error::disk(&new, e))?;
        Self::fill(root, id, engine, bandit, keep_log).inspect_err(|_| {
            // What stays is removed at the next start.
            let _ = fs::remove_dir_all(&new);
        })
    }

    /// Writes log and snapshot of a new bandit into its folder, and gives that its name.
    fn fill(
        root: &Path,
        id: &str,
        engine: &Engine,
        bandit: EncryptedBandit,
        keep_log: bool,
    ) -> Result<Self, Error> {
        let (folder, new) = (root.join(id), root.join(format!("{id}.new")));
        let mut salt = [0; 32];
        os_rng()?.fill_bytes(&mut salt);
        let identity = identity(id, engine);
        let head = Head::start(&identity);
        drop(Log::create(&new, &identity, LONGEST_EVENT, salt)?);
        let first = Snapshot { bandit: bandit.clone(), head, folder: new.clone() };
        first.write(engine, SNAPSHOT)?;
        if keep_log {
            first.write(engine, GENESIS)?;
        }
        fs::rename(&new, &folder).map_err(|e| Error::disk(&folder, e))?;
        host::sync_folder(root).map_err(|e| Error::disk(root, e))?;
        let (log, _) = Log::open::<Error>(&folder, &identity, LONGEST_EVENT, &head, |_, _| Ok(()))?;
        let (given, _) = open_given(&folder)?;
        // A copy gives out rounds after those of its original.
        let round = bandit.reserved();
        Ok(Live {
            bandit,
            round,
            before_start: None,
            given,
            reserved: round,
            reserved_at: 0,
            deleted: false,
            head,
            log,
            folder,
            segment: head,
            keep_log,
        })
    }

    /// Reads the snapshot of a bandit and applies the events after it.
    pub(super) fn load(root: &Path, id: &str, engine: &Engine, keep_log: bool) -> Result<Self, Error> {
        let folder = root.join(id);
        let (head, mut bandit) = read_snapshot(&folder, id, engine, SNAPSHOT)?;
        let mut last = head;
        let (log, _) =
            Log::open::<Error>(&folder, &identity(id, engine), LONGEST_EVENT, &head, |at, bytes| {
                last = *at;
                apply(&mut bandit, engine, bytes).map_err(|e| corrupt(id, &folder, e.to_string()))
            })?;
        // Rounds up to the reserved one may have been given out.
        let round = bandit.reserved();
        let (given, noted) = open_given(&folder)?;
        Ok(Live {
            bandit,
            round,
            before_start: Some(noted.min(round)),
            given,
            reserved: round,
            reserved_at: last.records,
            deleted: false,
            head: last,
            log,
            folder,
            segment: head,
            keep_log,
        })
    }

    /// Applies an event and appends it to the log. On an error nothing has changed, or the log takes no more
    /// events.
    pub(super) fn change(&mut self, engine: &Engine, event: &Event) -> Result<Pending, Error> {
        self.append(event.to_bytes()?, |bandit| bandit.apply(engine, event))
    }

    /// As [`Self::change`], for the event of a step of an update that was computed before.
    pub(super) fn take_step(&mut self, engine: &Engine, step: Step) -> Result<Pending, Error> {
        self.append(step.event().to_bytes()?, |bandit| bandit.apply_step(engine, step))
    }

    /// Appends the bytes of an event to the log if `apply` does.
    fn append(
        &mut self,
        bytes: Vec<u8>,
        apply: impl FnOnce(&mut EncryptedBandit) -> Result<Applied, helba::Error>,
    ) -> Result<Pending, Error> {
        let mut bandit = self.bandit.clone();
        let applied = apply(&mut bandit)?;
        let ticket = self.log.append(&bytes)?;
        self.bandit = bandit;
        self.head = self.head.after(&bytes);
        Ok(Pending { applied, ticket })
    }

    /// The folder of the bandit.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Gives out none of the rounds that were given out after the backup which this state comes from.
    pub(super) fn skip_rounds(&mut self, engine: &Engine) -> Result<(), Error> {
        self.leave_out(engine)?;
        let event = Event::Rounds(self.bandit.reserved() + SKIPPED_ROUNDS);
        drop(self.change(engine, &event)?.ticket);
        self.change(engine, &Event::Skipped)?.ticket.wait()?;
        self.round = self.bandit.reserved();
        Ok(())
    }

    /// Notes that reserved rounds which were not given out before the last start will not be.
    fn leave_out(&mut self, engine: &Engine) -> Result<(), Error> {
        let Some(noted) = self.before_start else { return Ok(()) };
        if noted > self.bandit.last_given() {
            drop(self.change(engine, &Event::Given(noted))?.ticket);
        }
        if self.round > self.bandit.last_given() {
            drop(self.change(engine, &Event::Skipped)?.ticket);
        }
        self.before_start = None;
        Ok(())
    }

    /// The last round that is known to be given out.
    pub(super) fn last_given(&self) -> u64 {
        self.before_start.map_or(self.round, |noted| noted.max(self.bandit.last_given()))
    }

    /// The public counters and the phase.
    pub(super) fn status(&self) -> Status {
        self.bandit.status(self.last_given())
    }

    /// Learns logged rounds, or returns the receipt of those that were learnt before with this id.
    pub(super) fn learn(&mut self, engine: &Engine, message: LearnRequest) -> Result<Pending, Error> {
        let LearnRequest { id, rounds, statistics: frame } = message;
        let rounds = u64::from(rounds);
        let learnt = match self.bandit.learnt(id, rounds) {
            // Feedbacks of an open batch would wait for more of their kind: the batch ends, which makes room.
            Err(error) if is_still_learning(&error) && self.bandit.closes_early() => {
                drop(self.change(engine, &Event::Closed)?.ticket);
                return Err(error.into());
            }
            learnt => learnt?,
        };
        if let Some(receipt) = learnt {
            // They may have been learnt a moment ago, and be on their way to the disk.
            return Ok(Pending { applied: Applied::Learnt(receipt), ticket: self.flush()? });
        }
        self.bandit.check_logged(engine, &frame)?;
        let before = self.round;
        let first = self.take_rounds(engine, rounds)?.first;
        let learnt = self.change(engine, &Event::Learnt { id, first, rounds, frame });
        if learnt.is_err() {
            self.set_round(before);
        }
        learnt
    }

    /// Takes the next `count` rounds. The caller waits until they are reserved on disk, without a lock.
    pub(super) fn take_rounds(&mut self, engine: &Engine, count: u64) -> Result<Rounds, Error> {
        while self.round + count > self.reserved {
            self.leave_out(engine)?;
            let event = self.bandit.reserve();
            // A ticket for all events until now follows.
            drop(self.change(engine, &event)?.ticket);
            (self.reserved, self.reserved_at) = (self.bandit.reserved(), self.head.records);
        }
        let durable = self.log.head().records >= self.reserved_at;
        let reserved = if durable { None } else { Some(self.flush()?) };
        let first = self.round + 1;
        self.set_round(self.round + count);
        Ok(Rounds { first, reserved })
    }

    /// Notes the last round that was given out.
    fn set_round(&mut self, round: u64) {
        self.round = round;
        let noted = self.given.rewind().and_then(|()| self.given.write_all(&round.to_le_bytes()));
        if let Err(error) = noted {
            tracing::warn!(folder = %self.folder.display(), %error, "the last round is not noted; views after a start may count less");
        }
    }

    /// A ticket that is durable when all events until now are.
    pub(super) fn flush(&self) -> Result<Ticket, Error> {
        Ok(self.log.flush()?)
    }

    /// What a snapshot of now holds. It may be written once the events until now are durable.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot { bandit: self.bandit.clone(), head: self.head, folder: self.folder.clone() }
    }

    /// Removes the segments before a snapshot that is durable, and begins another one if the last is long.
    pub(super) fn trim(&mut self, snapshot: &Head) -> Result<(), Error> {
        if self.head.bytes - self.segment.bytes > SEGMENT_BYTES {
            self.segment = self.log.rotate()?;
        }
        if !self.keep_log {
            self.log.remove_before(snapshot)?;
        }
        Ok(())
    }

    /// Removes the bandit from the disk. It is gone once the folder has its other name.
    pub(super) fn delete(&mut self) -> Result<(), Error> {
        let gone = self.folder.with_extension("deleted");
        fs::rename(&self.folder, &gone).map_err(|e| Error::disk(&self.folder, e))?;
        host::sync_folder_of(&gone).map_err(|e| Error::disk(&gone, e))?;
        self.deleted = true;
        // What stays is removed at the next start.
        if let Err(error) = fs::remove_dir_all(&gone) {
            tracing::warn!(folder = %gone.display(), %error, "not removed yet");
        }
        Ok(())
    }
}

impl Snapshot {
    /// Writes the snapshot as `name` in place of the last one, durably, and returns its position in the log.
    pub(super) fn write(&self, engine: &Engine, name: &str) -> Result<Head, Error> {
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &self.head.to_bytes()].concat();
        bytes.extend(self.bandit.to_bytes(engine)?);
        let digest = blake3::hash(&bytes);
        bytes.extend(digest.as_bytes());
        let (path, new) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        let disk = |e| Error::disk(&new, e);
        let mut file =
            host::private_file().write(true).create(true).truncate(true).open(&new).map_err(disk)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(disk)?;
        fs::rename(&new, &path).map_err(|e| Error::disk(&path, e))?;
        host::sync_folder(&self.folder).map_err(|e| Error::disk(&self.folder, e))?;
        Ok(self.head)
    }
}

/// What a snapshot and the records after it give. Nothing is changed.
pub(super) struct Replay {
    pub(super) bandit: EncryptedBandit,
    /// The end of the log.
    pub(super) head: Head,
    /// Bytes after it, of records that were never acknowledged.
    pub(super) torn: u64,
}

/// Replays the log of a bandit from the snapshot `name`.
pub(super) fn replay(root: &Path, id: &str, engine: &Engine, name: &str) -> Result<Replay, Error> {
    let folder = root.join(id);
    let (from, mut bandit) = read_snapshot(&folder, id, engine, name)?;
    let visit = |_: &Head, bytes: &[u8]| {
        apply(&mut bandit, engine, bytes).map_err(|e| corrupt(id, &folder, e.to_string()))
    };
    let hash_log::Replayed { head, torn } =
        hash_log::replay(&folder, &identity(id, engine), LONGEST_EVENT, &from, visit)?;
    Ok(Replay { bandit, head, torn })
}

/// The file of the last round that was given out, and what it says: 0 if it says nothing.
fn open_given(folder: &Path) -> Result<(File, u64), Error> {
    let path = folder.join(GIVEN);
    let disk = |e| Error::disk(&path, e);
    let mut options = host::private_file();
    let mut file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(disk)?;
    let mut bytes = [0; 8];
    let noted = match file.read_exact(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => 0,
        Err(e) => return Err(disk(e)),
    };
    Ok((file, noted))
}

/// Applies a record of the log.
fn apply(bandit: &mut EncryptedBandit, engine: &Engine, record: &[u8]) -> Result<(), helba::Error> {
    bandit.apply(engine, &Event::from_bytes(record)?).map(drop)
}

/// Visits the number, from 1, and the bytes of each record in `folder`. The log must be kept since its
/// beginning.
pub(super) fn visit(
    folder: &Path,
    id: &str,
    engine: &Engine,
    mut visit: impl FnMut(u64, &[u8]),
) -> Result<(), Error> {
    let identity = identity(id, engine);
    let visit = |at: &Head, record: &[u8]| {
        visit(at.records, record);
        Ok::<(), Error>(())
    };
    hash_log::replay(folder, &identity, LONGEST_EVENT, &Head::start(&identity), visit)?;
    Ok(())
}

/// As [`visit`], for all records that are kept: since the creation, or since the last snapshot.
pub(super) fn visit_kept(
    folder: &Path,
    id: &str,
    engine: &Engine,
    mut each: impl FnMut(u64, &[u8]),
) -> Result<(), Error> {
    match visit(folder, id, engine, &mut each) {
        Err(Error::Log(hash_log::Error::Missing { .. })) => {}
        visited => return visited,
    }
    let (from, _) = read_snapshot(folder, id, engine, SNAPSHOT)?;
    let visit = |at: &Head, record: &[u8]| {
        each(at.records, record);
        Ok::<(), Error>(())
    };
    hash_log::replay(folder, &identity(id, engine), LONGEST_EVENT, &from, visit)?;
    Ok(())
}

fn corrupt(id: &str, path: &Path, why: String) -> Error {
    Error::CorruptState { bandit: id.to_string(), folder: path.to_owned(), why }
}

/// Position and state of the snapshot `name`.
fn read_snapshot(
    folder: &Path,
    id: &str,
    engine: &Engine,
    name: &str,
) -> Result<(Head, EncryptedBandit), Error> {
    let path = folder.join(name);
    let bytes = fs::read(&path).map_err(|e| Error::disk(&path, e))?;
    parse_snapshot(&bytes, engine).map_err(|why| corrupt(id, &path, why))
}

fn parse_snapshot(bytes: &[u8], engine: &Engine) -> Result<(Head, EncryptedBandit), String> {
    let (body, digest) = bytes.split_last_chunk::<32>().ok_or("it is too short")?;
    if blake3::hash(body).as_bytes() != digest {
        return Err("its digest does not match".into());
    }
    let (magic, rest) = body.split_first_chunk::<8>().ok_or("it is too short")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or("it is too short")?;
    let (head, state) = rest.split_first_chunk::<48>().ok_or("it is too short")?;
    if *magic != MAGIC || u16::from_le_bytes(*version) != VERSION {
        return Err("it is no snapshot of this version".into());
    }
    let bandit = EncryptedBandit::from_bytes(engine, state).map_err(|e| e.to_string())?;
    Ok((Head::from_bytes(head), bandit))
}

/// The ids of the bandits in `root`. What interrupted creations and deletions left is removed.
pub(super) fn stored(root: &Path) -> Result<Vec<String>, Error> {
    for path in entries(root)?.iter().filter(|path| is_left(path)) {
        fs::remove_dir_all(path).map_err(|e| Error::disk(path, e))?;
    }
    listed(root)
}

/// As [`stored`], and nothing is removed.
pub(crate) fn listed(root: &Path) -> Result<Vec<String>, Error> {
    let entries = entries(root)?;
    let whole = entries.iter().filter(|path| !is_left(path));
    Ok(whole.filter_map(|path| path.file_name()?.to_str().map(str::to_string)).collect())
}

/// What is in `root`, in order.
fn entries(root: &Path) -> Result<Vec<PathBuf>, Error> {
    if !root.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(root).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut entries: Vec<PathBuf> = entries.map_err(|e| Error::disk(root, e))?;
    entries.sort();
    Ok(entries)
}

/// Whether an interrupted creation or deletion left this folder.
fn is_left(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "new" || extension == "deleted")
}

/// The identity of the log of a bandit: its id and those of the keys of both rings.
fn identity(id: &str, engine: &Engine) -> Vec<u8> {
    [id.as_bytes(), &engine.deep().key_id().0, &engine.key_id().0].concat()
}

/// Whether logged rounds find no room before the next model.
fn is_still_learning(error: &helba::Error) -> bool {
    matches!(error, helba::Error::Protocol(protocol::Error::StillLearning { .. }))
}
