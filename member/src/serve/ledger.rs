//! What a member was asked and has answered, on disk before an answer leaves it.
//!
//! A task has one ciphertext and one meaning, whatever a server says later, and few sets of members are
//! answered for it: each set learns one more copy of the same sum, under other masks.

use super::Error;
use super::answering::NO_BANDIT;
use ckks_shares::SessionId;
use protocol::TaskKind;
use protocol::budget::Budget;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use wire::{Created, Question, SignedHead, Wanted};

/// The most sets for one evaluation.
const MOST_SETS: usize = 3;
/// The most sets for a sum, a model or a round of a check, which wait until they are done.
const MOST_OWN_SETS: usize = wire::MOST_ATTEMPTS as usize;
/// The kind of a rotation.
const ROTATION: u8 = u8::MAX;
/// The version of the tables.
const FORMAT: u64 = 2;

const ABOUT: TableDefinition<&str, u64> = TableDefinition::new("about");
const BANDITS: TableDefinition<&str, [u8; 32]> = TableDefinition::new("bandits");
const HEADS: TableDefinition<&str, (u64, [u8; 32])> = TableDefinition::new("heads");
const UPLOADS: TableDefinition<[u8; 32], u64> = TableDefinition::new("uploads");
const TASKS: TableDefinition<(&str, u8, u64), &[u8]> = TableDefinition::new("tasks");
/// What the evaluations and models of a bandit count as.
const COUNTED: TableDefinition<(&str, u64), u64> = TableDefinition::new("counted");
/// The last task of a bandit's own that was answered in an epoch before: those before it are over.
const FLOORS: TableDefinition<&str, u64> = TableDefinition::new("floors");
/// The head of each batch that this member has signed.
const SIGNED: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("signed heads");
/// The last head that each other member has signed, and is of the same journal.
const OTHERS: TableDefinition<(&str, u8), &[u8]> = TableDefinition::new("heads of others");
/// Of a bandit whose journal was forked, the head of this member and that of another one.
const FORKS: TableDefinition<&str, &[u8]> = TableDefinition::new("forks");
/// Numbers from here on are those of evaluations, which are random; below, those of a bandit's own tasks, one
/// after the other.
const EVALUATIONS: u64 = 1 << 63;
/// In the place of the task in which the request of a user was answered: it is answered in none.
const NO_TASK: u64 = 0;
/// The resharing in which the shares of this ledger are handed on, by the start of its name.
const RESHARING: &str = "resharing";
/// How many decisions were counted, at raises and openings.
const DECISIONS: &str = "opened";
/// How many models were counted.
const MODELS: &str = "models";
/// Whether the server was caught by a member that checks some tasks alone.
const CAUGHT: &str = "caught";
/// Whether the member has signed the next epoch.
const ENDED: &str = "ended";

/// A ledger, which one process at a time opens.
pub struct Ledger {
    database: Database,
    /// The most that is answered with these keys.
    most: Budget,
}

#[derive(Serialize, Deserialize)]
struct Record {
    /// The hash of meaning and ciphertext.
    about: [u8; 32],
    /// The hashes of the questions that were answered, each to one set.
    sets: Vec<[u8; 32]>,
}

/// What a ledger holds that a member of the next epoch must know.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Told {
    /// What was spent of these keys.
    pub spent: Budget,
    /// The hashes of the requests of users that were answered, with their tasks.
    pub uploads: Vec<([u8; 32], u64)>,
    /// The bandits.
    pub bandits: Vec<ToldBandit>,
}

/// What a ledger holds of a bandit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldBandit {
    /// Its id.
    pub id: String,
    /// The hash of its configuration.
    pub pinned: Option<[u8; 32]>,
    /// The position in its journal, and the hash up to there.
    pub head: Option<(u64, [u8; 32])>,
    /// The last task of its own, which may still wait, with its record of each kind.
    pub own: Option<(u64, BTreeMap<u8, Vec<u8>>)>,
    /// Kind and number of each task of an evaluation.
    pub evaluations: Vec<(u8, u64)>,
}

impl Told {
    /// What several ledgers hold: the largest numbers, and all tasks.
    pub fn merged(all: impl IntoIterator<Item = Told>) -> Self {
        let (mut out, mut uploads) = (Told::default(), BTreeMap::new());
        let mut bandits = BTreeMap::<String, ToldBandit>::new();
        for told in all {
            out.spent.decisions = out.spent.decisions.max(told.spent.decisions);
            out.spent.models = out.spent.models.max(told.spent.models);
            for (hash, task) in told.uploads {
                // Of two tasks, none is answered: one of the two who tell does not tell the truth.
                uploads
                    .entry(hash)
                    .and_modify(|known| *known = if *known == task { task } else { NO_TASK })
                    .or_insert(task);
            }
            for bandit in told.bandits {
                match bandits.get_mut(&bandit.id) {
                    None => drop(bandits.insert(bandit.id.clone(), bandit)),
                    Some(known) => known.merge(bandit),
                }
            }
        }
        Told { uploads: uploads.into_iter().collect(), bandits: bandits.into_values().collect(), ..out }
    }
}

impl ToldBandit {
    fn merge(&mut self, other: ToldBandit) {
        // Of two configurations, none is answered: no hash is 0.
        match (&mut self.pinned, other.pinned) {
            (own @ None, other) => *own = other,
            (Some(own), Some(other)) if *own != other => *own = [0; 32],
            _ => {}
        }
        self.head = self.head.max(other.head);
        self.own = match (self.own.take(), other.own) {
            (Some((task, mut own)), Some((same, other))) if task == same => {
                for (kind, record) in other {
                    let merged = own.get(&kind).map(|known| merged_records(known, &record));
                    own.insert(kind, merged.unwrap_or(record));
                }
                Some((task, own))
            }
            (own, other) => own.max(other),
        };
        self.evaluations.extend(other.evaluations);
        self.evaluations.sort_unstable();
        self.evaluations.dedup();
    }
}

/// The record of a task from two ledgers: no answer if they differ on what it was about.
fn merged_records(own: &[u8], other: &[u8]) -> Vec<u8> {
    let read = |bytes: &[u8]| postcard::from_bytes::<Record>(bytes).ok();
    let merged = match (read(own), read(other)) {
        (Some(mut own), Some(other)) if own.about == other.about => {
            own.sets.extend(other.sets);
            own.sets.sort_unstable();
            own.sets.dedup();
            own.sets.truncate(MOST_OWN_SETS);
            own
        }
        _ => OVER,
    };
    // Serialising plain data into memory does not fail.
    postcard::to_stdvec(&merged).unwrap_or_default()
}

/// The record of a task that is not answered again.
const OVER: Record = Record { about: [0; 32], sets: Vec::new() };

impl Ledger {
    /// Makes an empty ledger at `path`, in the place of what is there: for keys with which nobody has
    /// answered yet.
    ///
    /// # Errors
    /// [`Error::Ledger`] for those of the disk.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let io = |error: std::io::Error| Error::Ledger(format!("{}: {error}", path.display()));
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        // Made with the permissions of private files before redb writes to it.
        let file = host::private_file().read(true).write(true).create_new(true).open(path);
        let ledger = Self::of_file(file.map_err(io)?, path, Some(FORMAT))?;
        host::sync_folder_of(path).map_err(io)?;
        Ok(ledger)
    }

    /// Opens the ledger of a member at `path`.
    ///
    /// # Errors
    /// [`Error::NoLedger`] if there is none: an empty one in its place would forget what was answered;
    /// [`Error::Ledger`] for a file of another format, one that another process has open, and those of the
    /// disk.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::NoLedger { path: path.to_path_buf() },
            _ => Error::Ledger(format!("{}: {error}", path.display())),
        })?;
        // A ledger is never empty, and redb would begin a new one in an empty file.
        match file.metadata() {
            Ok(about) if about.len() == 0 => Err(Error::Ledger(format!("{} is empty", path.display()))),
            _ => Self::of_file(file, path, None),
        }
    }

    /// `new` is the format of a file that has none yet.
    fn of_file(file: File, path: &Path, new: Option<u64>) -> Result<Self, Error> {
        let database = Database::builder().create_file(file).map_err(failed)?;
        let ledger = Ledger { database, most: Budget { decisions: u64::MAX, models: u64::MAX } };
        let write = ledger.database.begin_write().map_err(failed)?;
        {
            let mut about = write.open_table(ABOUT).map_err(failed)?;
            let found = about.get("format").map_err(failed)?.map(|found| found.value()).or(new);
            if found != Some(FORMAT) {
                let found = found.map_or("no format".into(), |found| format!("format {found}"));
                let path = path.display();
                return Err(Error::Ledger(format!("{path} has {found}, and this program reads {FORMAT}")));
            }
            about.insert("format", FORMAT).map_err(failed)?;
            write.open_table(BANDITS).map_err(failed)?;
            write.open_table(HEADS).map_err(failed)?;
            write.open_table(UPLOADS).map_err(failed)?;
            write.open_table(TASKS).map_err(failed)?;
            write.open_table(COUNTED).map_err(failed)?;
            write.open_table(FLOORS).map_err(failed)?;
            write.open_table(SIGNED).map_err(failed)?;
            write.open_table(OTHERS).map_err(failed)?;
            write.open_table(FORKS).map_err(failed)?;
        }
        write.commit().map_err(failed)?;
        Ok(ledger)
    }

    /// Notes that the server was caught, after which nothing is answered, over restarts too.
    ///
    /// # Errors
    /// [`Error::Ledger`].
    pub fn note_caught(&self) -> Result<(), Error> {
        let write = self.begin()?;
        write.open_table(ABOUT).map_err(failed)?.insert(CAUGHT, 1).map_err(failed)?;
        write.commit().map_err(failed)
    }

    /// Refuses to answer with shares that are being handed on, or were, and to a server that was caught.
    ///
    /// # Errors
    /// [`Error::HandedOn`]; [`Error::Caught`]; [`Error::Ledger`].
    pub fn check_in_use(&self) -> Result<(), Error> {
        let read = self.database.begin_read().map_err(failed)?;
        check_in_use(&read.open_table(ABOUT).map_err(failed)?)
    }

    /// Answers nothing from now on, because `session` hands the shares of this ledger on.
    ///
    /// # Errors
    /// [`Error::HandedOn`] if another run does; [`Error::Ledger`].
    pub fn freeze(&self, session: &SessionId) -> Result<(), Error> {
        let write = self.begin()?;
        {
            let mut about = write.open_table(ABOUT).map_err(failed)?;
            let found = about.get(RESHARING).map_err(failed)?.map(|found| found.value());
            match found {
                Some(found) if found == name(session) => return Ok(()),
                Some(_) => {
                    let ended = about.get(ENDED).map_err(failed)?.is_some();
                    return Err(Error::HandedOn { ended });
                }
                None => drop(about.insert(RESHARING, name(session)).map_err(failed)?),
            }
        }
        write.commit().map_err(failed)
    }

    /// Answers again after `session` has failed, whose tests count as `decisions`. A run in which the member
    /// signed the next epoch does not end so.
    ///
    /// # Errors
    /// [`Error::HandedOn`]; [`Error::Ledger`].
    pub fn thaw(&self, session: &SessionId, decisions: u64) -> Result<(), Error> {
        let write = self.begin()?;
        {
            let mut about = write.open_table(ABOUT).map_err(failed)?;
            if about.get(ENDED).map_err(failed)?.is_some() {
                return Err(Error::HandedOn { ended: true });
            }
            let found = about.get(RESHARING).map_err(failed)?.map(|found| found.value());
            if found == Some(name(session)) {
                about.remove(RESHARING).map_err(failed)?;
                let spent = read_number(&about, DECISIONS)?;
                about.insert(DECISIONS, spent.saturating_add(decisions)).map_err(failed)?;
            }
        }
        write.commit().map_err(failed)
    }

    /// Notes that the member signs the next epoch. Nothing is answered after that.
    ///
    /// # Errors
    /// [`Error::Ledger`].
    pub fn end(&self) -> Result<(), Error> {
        let write = self.begin()?;
        write.open_table(ABOUT).map_err(failed)?.insert(ENDED, 1).map_err(failed)?;
        write.commit().map_err(failed)
    }

    fn begin(&self) -> Result<WriteTransaction, Error> {
        let mut write = self.database.begin_write().map_err(failed)?;
        write.set_durability(Durability::Immediate).map_err(failed)?;
        Ok(write)
    }

    /// What was spent, and the most that is answered.
    ///
    /// # Errors
    /// [`Error::Ledger`].
    pub fn budget(&self) -> Result<[Budget; 2], Error> {
        let read = self.database.begin_read().map_err(failed)?;
        let about = read.open_table(ABOUT).map_err(failed)?;
        let (decisions, models) = (read_number(&about, DECISIONS)?, read_number(&about, MODELS)?);
        Ok([Budget { decisions, models }, self.most])
    }

    /// What a member of the next epoch must know: the same bytes while the ledger is frozen.
    ///
    /// # Errors
    /// [`Error::Ledger`].
    pub fn tell(&self) -> Result<Told, Error> {
        let [spent, _] = self.budget()?;
        let read = self.database.begin_read().map_err(failed)?;
        let mut uploads = Vec::new();
        for row in read.open_table(UPLOADS).map_err(failed)?.iter().map_err(failed)? {
            let (hash, task) = row.map_err(failed)?;
            uploads.push((hash.value(), task.value()));
        }
        let mut bandits = BTreeMap::<String, ToldBandit>::new();
        let mut of = |id: &str, change: &mut dyn FnMut(&mut ToldBandit)| {
            let (pinned, head, own, evaluations) = (None, None, None, Vec::new());
            let empty = || ToldBandit { id: id.into(), pinned, head, own, evaluations };
            change(bandits.entry(id.into()).or_insert_with(empty));
        };
        for row in read.open_table(BANDITS).map_err(failed)?.iter().map_err(failed)? {
            let (id, hash) = row.map_err(failed)?;
            of(id.value(), &mut |bandit| bandit.pinned = Some(hash.value()));
        }
        for row in read.open_table(HEADS).map_err(failed)?.iter().map_err(failed)? {
            let (id, head) = row.map_err(failed)?;
            of(id.value(), &mut |bandit| bandit.head = Some(head.value()));
        }
        for row in read.open_table(TASKS).map_err(failed)?.iter().map_err(failed)? {
            let (key, record) = row.map_err(failed)?;
            let (id, kind, task) = key.value();
            of(id, &mut |bandit| {
                if task >= EVALUATIONS {
                    return bandit.evaluations.push((kind, task));
                }
                let (last, records) = bandit.own.get_or_insert_default();
                if task > *last {
                    (*last, *records) = (task, BTreeMap::new());
                }
                if task == *last {
                    records.insert(kind, record.value().to_vec());
                }
            });
        }
        Ok(Told { spent, uploads, bandits: bandits.into_values().collect() })
    }

    /// Takes what ledgers of the epoch before held, and counts `decisions` more. A ledger that has answered
    /// nothing takes it.
    ///
    /// # Errors
    /// [`Error::Ledger`], also for one that has answered.
    pub fn take(&self, told: &Told, decisions: u64) -> Result<(), Error> {
        if self.tell()? != Told::default() {
            return Err(Error::Ledger("it has answered before, and a new epoch takes a new ledger".into()));
        }
        let write = self.begin()?;
        {
            let mut about = write.open_table(ABOUT).map_err(failed)?;
            let decisions = told.spent.decisions.saturating_add(decisions);
            about.insert(DECISIONS, decisions).map_err(failed)?;
            about.insert(MODELS, told.spent.models).map_err(failed)?;
            let mut uploads = write.open_table(UPLOADS).map_err(failed)?;
            for (hash, task) in &told.uploads {
                uploads.insert(hash, task).map_err(failed)?;
            }
            let mut pinned = write.open_table(BANDITS).map_err(failed)?;
            let mut heads = write.open_table(HEADS).map_err(failed)?;
            let mut tasks = write.open_table(TASKS).map_err(failed)?;
            let mut floors = write.open_table(FLOORS).map_err(failed)?;
            let over = postcard::to_stdvec(&OVER).map_err(failed)?;
            for bandit in &told.bandits {
                let id = bandit.id.as_str();
                if let Some(hash) = bandit.pinned {
                    pinned.insert(id, hash).map_err(failed)?;
                }
                if let Some(head) = bandit.head {
                    heads.insert(id, head).map_err(failed)?;
                }
                if let Some((task, records)) = &bandit.own {
                    floors.insert(id, task).map_err(failed)?;
                    for (kind, record) in records {
                        tasks.insert((id, *kind, *task), record.as_slice()).map_err(failed)?;
                    }
                }
                for (kind, task) in &bandit.evaluations {
                    tasks.insert((id, *kind, *task), over.as_slice()).map_err(failed)?;
                }
            }
        }
        write.commit().map_err(failed)
    }

    /// The ledger, which takes no more answers after it has counted `most`. A decision counts once for each
    /// set that is answered for the raise of its scores or for its opening, whichever are more; a model
    /// counts once.
    pub fn with_budget(self, most: Budget) -> Self {
        Ledger { most, ..self }
    }

    /// Notes that `set` is answered for `question`, whose bytes are `bytes`, about the polynomial whose frame
    /// is `c1`. `decisions` are what an evaluation counts as for one set: the places that are raised, or the
    /// decisions that are opened; 0 for other tasks. When this returns, the note is on disk. The same
    /// question may be answered again, since it gets the same answer.
    ///
    /// # Errors
    /// [`Error::Refused`] for a number that tasks of this kind do not have, for another meaning or another
    /// ciphertext of the same task, for more than three sets, or eight of a sum, a model or a round of a
    /// check, and beyond the budget; [`Error::Ledger`].
    pub fn note(
        &self,
        question: &Question,
        (set, decisions): (u16, u64),
        bytes: &[u8],
        c1: &[u8],
    ) -> Result<(), Error> {
        let of_evaluation =
            matches!(question.wanted, Wanted::Transfer(TaskKind::Scores { .. }) | Wanted::Answers { .. });
        // Otherwise an evaluation would count for a model of the same number.
        if of_evaluation != (question.task >= EVALUATIONS) {
            return Err(Error::Refused("a task with the number of another kind of task"));
        }
        let (kind, most) = match question.wanted {
            Wanted::Transfer(TaskKind::Sum | TaskKind::Model) => (0, MOST_OWN_SETS),
            Wanted::Transfer(TaskKind::Scores { .. }) => (0, MOST_SETS),
            Wanted::Answers { .. } => (1, MOST_SETS),
            Wanted::Rotation { .. } => (ROTATION, MOST_OWN_SETS),
            Wanted::Handover { .. } => return Err(Error::Refused(NO_BANDIT)),
            Wanted::Checks { round, .. } => (round.saturating_add(2).min(ROTATION - 1), MOST_OWN_SETS),
        };
        let key = (question.bandit.as_str(), kind, question.task);
        let about = meaning(question, c1);
        let mut asked = blake3::Hasher::new();
        asked.update(&set.to_le_bytes()).update(bytes);
        let asked = *asked.finalize().as_bytes();
        let write = self.begin()?;
        {
            check_in_use(&write.open_table(ABOUT).map_err(failed)?)?;
            let forks = write.open_table(FORKS).map_err(failed)?;
            if let Some(fork) = forks.get(question.bandit.as_str()).map_err(failed)? {
                return Err(forked(&read_fork(fork.value())?));
            }
            let floor = write.open_table(FLOORS).map_err(failed)?;
            let floor = floor.get(question.bandit.as_str()).map_err(failed)?.map_or(0, |found| found.value());
            if question.task < floor {
                return Err(Error::Refused("the task was answered in an epoch of the committee before"));
            }
            let mut tasks = write.open_table(TASKS).map_err(failed)?;
            let known = tasks.get(key).map_err(failed)?.map(|found| postcard::from_bytes(found.value()));
            let known: Option<Record> = known.transpose().map_err(failed)?;
            let mut record = known.unwrap_or(Record { about, sets: Vec::new() });
            if record.about != about {
                return Err(Error::Refused("the task was another ciphertext or had another meaning before"));
            }
            if record.sets.contains(&asked) {
                return Ok(());
            }
            // A record of two ledgers of an epoch before may have more.
            if record.sets.len() >= most {
                return Err(Error::Refused("as many sets of members as may be were answered for this task"));
            }
            record.sets.push(asked);
            self.count(&write, question, decisions.saturating_mul(record.sets.len() as u64))?;
            let record = postcard::to_stdvec(&record).map_err(failed)?;
            tasks.insert(key, record.as_slice()).map_err(failed)?;
        }
        write.commit().map_err(failed)
    }

    /// Counts the task of a question: `decisions` of an evaluation, in all, of which those that were counted
    /// before count no more; or a model.
    fn count(&self, write: &WriteTransaction, question: &Question, decisions: u64) -> Result<(), Error> {
        let (name, most, due, over) = match question.wanted {
            Wanted::Transfer(TaskKind::Scores { .. }) | Wanted::Answers { .. } => {
                let over = "this member's part of the decisions of these keys is spent: bandits go on under new keys";
                (DECISIONS, self.most.decisions, decisions, over)
            }
            Wanted::Transfer(TaskKind::Model) => {
                let over =
                    "this member's part of the models of these keys is spent: bandits go on under new keys";
                (MODELS, self.most.models, 1, over)
            }
            _ => return Ok(()),
        };
        let key = (question.bandit.as_str(), question.task);
        let mut counted = write.open_table(COUNTED).map_err(failed)?;
        let known = counted.get(key).map_err(failed)?.map_or(0, |found| found.value());
        if due <= known {
            return Ok(());
        }
        let mut about = write.open_table(ABOUT).map_err(failed)?;
        let spent = read_number(&about, name)?.saturating_add(due - known);
        if spent > most {
            return Err(Error::Refused(over));
        }
        counted.insert(key, due).map_err(failed)?;
        about.insert(name, spent).map_err(failed)?;
        Ok(())
    }

    /// The position in the journal of a bandit up to which it was followed, and the hash over its records.
    ///
    /// # Errors
    /// [`Error::Ledger`].
    pub fn head(&self, bandit: &str) -> Result<Option<(u64, [u8; 32])>, Error> {
        let read = self.database.begin_read().map_err(failed)?;
        let table = read.open_table(HEADS).map_err(failed)?;
        Ok(table.get(bandit).map_err(failed)?.map(|found| found.value()))
    }

    /// Notes the position in the journal of a bandit, and the heads of the batches that have ended before it.
    /// When this returns, the note is on disk, and the heads may be shown.
    ///
    /// # Errors
    /// [`Error::Deviates`] for another head of a batch than the one that was signed before;
    /// [`Error::Ledger`].
    pub fn note_head(
        &self,
        bandit: &str,
        records: u64,
        hash: [u8; 32],
        ended: &[SignedHead],
    ) -> Result<(), Error> {
        let write = self.database.begin_write().map_err(failed)?;
        write.open_table(HEADS).map_err(failed)?.insert(bandit, (records, hash)).map_err(failed)?;
        {
            let mut signed = write.open_table(SIGNED).map_err(failed)?;
            for head in ended {
                let key = (bandit, head.batch);
                let known = signed.get(key).map_err(failed)?.map(|known| read_head(known.value()));
                match known.transpose()? {
                    Some(known) if known.contradicts(head) => {
                        return Err(Error::Deviates("another journal than the one whose head was signed"));
                    }
                    _ => drop(signed.insert(key, head.to_bytes().as_slice()).map_err(failed)?),
                }
            }
        }
        write.commit().map_err(failed)
    }

    /// The last head that this member has signed.
    ///
    /// # Errors
    /// [`Error::Ledger`].
    pub fn last_signed(&self, bandit: &str) -> Result<Option<SignedHead>, Error> {
        let read = self.database.begin_read().map_err(failed)?;
        let table = read.open_table(SIGNED).map_err(failed)?;
        let last = table.range((bandit, 0)..=(bandit, u64::MAX)).map_err(failed)?.next_back();
        last.transpose().map_err(failed)?.map(|(_, head)| read_head(head.value())).transpose()
    }

    /// Compares heads of other members, whose signatures were checked, with those of this member. Of a batch
    /// that it has not followed yet, nothing is known. A head of another journal is kept beside its own, and
    /// no question about the bandit is answered any more.
    ///
    /// # Errors
    /// [`Error::Forked`]; [`Error::Ledger`].
    pub fn compare_heads(&self, bandit: &str, others: &[SignedHead]) -> Result<(), Error> {
        let mut fresh = Vec::new();
        {
            let read = self.database.begin_read().map_err(failed)?;
            if let Some(fork) = read.open_table(FORKS).map_err(failed)?.get(bandit).map_err(failed)? {
                return Err(forked(&read_fork(fork.value())?));
            }
            let (signed, seen) =
                (read.open_table(SIGNED).map_err(failed)?, read.open_table(OTHERS).map_err(failed)?);
            for other in others {
                let Some(own) = signed.get((bandit, other.batch)).map_err(failed)? else { continue };
                let own = read_head(own.value())?;
                if own.contradicts(other) {
                    return self.note_fork(bandit, [own, other.clone()]);
                }
                let bytes = other.to_bytes();
                let known = seen.get((bandit, other.member)).map_err(failed)?;
                if known.is_none_or(|known| known.value() != bytes) {
                    fresh.push((other.member, bytes));
                }
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let write = self.database.begin_write().map_err(failed)?;
        for (member, bytes) in fresh {
            let mut seen = write.open_table(OTHERS).map_err(failed)?;
            seen.insert((bandit, member), bytes.as_slice()).map_err(failed)?;
        }
        write.commit().map_err(failed)
    }

    fn note_fork(&self, bandit: &str, heads: [SignedHead; 2]) -> Result<(), Error> {
        let bytes = serde_json::to_vec(&heads).map_err(failed)?;
        let write = self.begin()?;
        write.open_table(FORKS).map_err(failed)?.insert(bandit, bytes.as_slice()).map_err(failed)?;
        write.commit().map_err(failed)?;
        Err(forked(&heads))
    }

    /// All heads that this member has signed, the last ones of others, and those of other journals.
    ///
    /// # Errors
    /// [`Error::Ledger`].
    pub fn heads(&self) -> Result<Vec<SignedHead>, Error> {
        let read = self.database.begin_read().map_err(failed)?;
        let mut heads = Vec::new();
        for row in read.open_table(SIGNED).map_err(failed)?.iter().map_err(failed)? {
            heads.push(read_head(row.map_err(failed)?.1.value())?);
        }
        for row in read.open_table(OTHERS).map_err(failed)?.iter().map_err(failed)? {
            heads.push(read_head(row.map_err(failed)?.1.value())?);
        }
        for row in read.open_table(FORKS).map_err(failed)?.iter().map_err(failed)? {
            heads.extend(read_fork(row.map_err(failed)?.1.value())?.into_iter().skip(1));
        }
        Ok(heads)
    }

    /// Notes the hashes of the requests of users whose answers are opened in this task. When this returns,
    /// the note is on disk.
    ///
    /// # Errors
    /// [`Error::Refused`] for a request that was answered in another task: each answer is one more smudged
    /// copy of the same entries. A user may have sent it twice, so that it is no proof against the server;
    /// [`Error::Ledger`].
    pub fn note_uploads(&self, task: u64, uploads: &[[u8; 32]]) -> Result<(), Error> {
        let write = self.database.begin_write().map_err(failed)?;
        let mut fresh = false;
        {
            let mut table = write.open_table(UPLOADS).map_err(failed)?;
            for upload in uploads {
                let known = table.get(upload).map_err(failed)?.map(|found| found.value());
                match known {
                    Some(known) if known == task && known != NO_TASK => {}
                    Some(_) => {
                        return Err(Error::Refused("contexts that were answered in another evaluation"));
                    }
                    None => {
                        table.insert(upload, task).map_err(failed)?;
                        fresh = true;
                    }
                }
            }
        }
        if fresh { write.commit().map_err(failed) } else { Ok(()) }
    }

    /// Notes configuration and plan of a bandit at its first question, and refuses others from then on.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Ledger`].
    pub fn pin(&self, created: &Created) -> Result<(), Error> {
        let json = serde_json::to_vec(created).map_err(failed)?;
        let digest = *blake3::hash(&json).as_bytes();
        // One transaction, so that two questions at once see one configuration.
        let write = self.database.begin_write().map_err(failed)?;
        {
            let mut table = write.open_table(BANDITS).map_err(failed)?;
            let pinned = table.get(created.id.as_str()).map_err(failed)?.map(|found| found.value());
            match pinned {
                Some(pinned) if pinned == digest => return Ok(()),
                Some(_) => return Err(Error::Refused("the bandit had another configuration before")),
                None => drop(table.insert(created.id.as_str(), digest).map_err(failed)?),
            }
        }
        write.commit().map_err(failed)
    }
}

fn read_head(bytes: &[u8]) -> Result<SignedHead, Error> {
    SignedHead::from_bytes(bytes).map_err(failed)
}

fn read_fork(bytes: &[u8]) -> Result<[SignedHead; 2], Error> {
    serde_json::from_slice(bytes).map_err(failed)
}

fn forked([_, other]: &[SignedHead; 2]) -> Error {
    Error::Forked { bandit: other.bandit.clone(), member: other.member, batch: other.batch }
}

fn read_number(about: &impl ReadableTable<&'static str, u64>, name: &str) -> Result<u64, Error> {
    Ok(about.get(name).map_err(failed)?.map_or(0, |found| found.value()))
}

fn check_in_use(about: &impl ReadableTable<&'static str, u64>) -> Result<(), Error> {
    if about.get(CAUGHT).map_err(failed)?.is_some() {
        return Err(Error::Caught);
    }
    match about.get(RESHARING).map_err(failed)? {
        None => Ok(()),
        Some(_) => Err(Error::HandedOn { ended: about.get(ENDED).map_err(failed)?.is_some() }),
    }
}

/// The start of the name of a run.
fn name(session: &SessionId) -> u64 {
    session.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The hash of what a task is about: all but the attempt.
fn meaning(question: &Question, c1: &[u8]) -> [u8; 32] {
    let wanted = match question.wanted.clone() {
        // What the rounds before have opened differs from set to set.
        Wanted::Checks { round, .. } => Wanted::Checks { round, seed: [0; 32], hashes: Vec::new() },
        wanted => wanted,
    };
    let first = Question { attempt: 0, wanted, ..question.clone() }.to_bytes();
    let mut hash = blake3::Hasher::new_derive_key("helba member: what a task is about");
    hash.update(&(first.len() as u64).to_le_bytes()).update(&first).update(c1);
    *hash.finalize().as_bytes()
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Ledger(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(task: u64, attempt: u32) -> Question {
        let wanted = Wanted::Transfer(TaskKind::Scores { factor: 0.5, alone: false });
        Question { bandit: "b".into(), task: EVALUATIONS | task, attempt, wanted }
    }

    /// A question about the answers to one user, who waits for `decisions` of them.
    fn answers(task: u64, attempt: u32, decisions: u32) -> Question {
        let users = (0..decisions).collect();
        let users = vec![wire::AnswerUser { round: 1, users, answer_key: Vec::new() }];
        let wanted = Wanted::Answers { model_feedbacks: 0, users };
        Question { bandit: "b".into(), task: EVALUATIONS | task, attempt, wanted }
    }

    /// A question about a task of the bandit's own.
    fn own(kind: TaskKind, task: u64, attempt: u32) -> Question {
        Question { bandit: "b".into(), task, attempt, wanted: Wanted::Transfer(kind) }
    }

    fn note(ledger: &Ledger, question: &Question, set: u16, c1: &[u8]) -> Result<(), Error> {
        let decisions = match &question.wanted {
            Wanted::Answers { users, .. } => users.iter().map(|user| user.users.len() as u64).sum(),
            _ => 0,
        };
        ledger.note(question, (set, decisions), &question.to_bytes(), c1)
    }

    fn decisions(decisions: u64) -> Budget {
        Budget { decisions, models: 0 }
    }

    /// What the ledger grows by is stated in docs/committee.md: a decision that one set raises and opens, in
    /// an evaluation of its own, takes less than 500 bytes. A decision of long ago is still refused.
    #[test]
    fn the_ledger_grows_by_some_hundred_bytes_a_decision() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let of = |question: Question| Question { bandit: "0123456789abcdef".repeat(2), ..question };
        // Evaluations have random numbers.
        let task = |i: u64| EVALUATIONS | i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let size = || std::fs::metadata(&path).unwrap().len();
        drop(Ledger::create(&path).unwrap());
        let empty = size();
        for (from, to) in [(0u64, 200u64), (200, 500)] {
            let mut ledger = Ledger::open(&path).unwrap();
            for i in from..to {
                let c1 = i.to_le_bytes();
                note(&ledger, &of(question(task(i), 0)), 0b011, &c1).unwrap();
                note(&ledger, &of(answers(task(i), 0, 1)), 0b011, &c1).unwrap();
                ledger.note_uploads(task(i), &[*blake3::hash(&c1).as_bytes()]).unwrap();
            }
            println!("{to} decisions: {} bytes, and an empty ledger has {empty}", size());
            ledger.database.compact().unwrap();
            println!("compacted: {} bytes", size());
        }
        assert!(size() < empty + 500 * 500, "{} bytes", size());
        let ledger = Ledger::open(&path).unwrap();
        let first = of(answers(task(0), 0, 1));
        assert!(matches!(note(&ledger, &first, 0b011, b"another"), Err(Error::Refused(_))));
        note(&ledger, &first, 0b011, &0u64.to_le_bytes()).unwrap();
    }

    /// Each set that opens a decision spends of the budget, also one that is asked after another has failed.
    /// What is spent is on disk; what was answered is answered again.
    #[test]
    fn the_budget_refuses_the_next_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let ledger = Ledger::create(&path).unwrap().with_budget(decisions(5));
        note(&ledger, &answers(1, 0, 2), 0b011, b"c1").unwrap();
        note(&ledger, &answers(1, 1, 2), 0b101, b"c1").unwrap();
        drop(ledger);
        let ledger = Ledger::open(&path).unwrap().with_budget(decisions(5));
        assert!(matches!(note(&ledger, &answers(2, 0, 2), 0b011, b"c2"), Err(Error::Refused(_))));
        note(&ledger, &answers(1, 0, 2), 0b011, b"c1").unwrap();
        note(&ledger, &question(3, 0), 0b011, b"c3").unwrap();
        // What was refused has spent nothing, and what was answered is spent, whatever became of it.
        note(&ledger, &answers(4, 0, 1), 0b011, b"c4").unwrap();
        assert!(note(&ledger, &answers(5, 0, 1), 0b011, b"c5").is_err());
        note(&ledger.with_budget(decisions(7)), &answers(2, 0, 2), 0b011, b"c2").unwrap();
    }

    /// A server raises scores and never has them opened: each raise counts as its decisions, once for each
    /// set. The control is one that has them opened, whose openings count no more.
    #[test]
    fn attack_raises_without_answers_spend_the_budget() {
        let folder = tempfile::tempdir().unwrap();
        let ledger =
            |name: &str| Ledger::create(&folder.path().join(name)).unwrap().with_budget(decisions(6));
        let raise = |ledger: &Ledger, task: u64, attempt: u32, set: u16| {
            let question = question(task, attempt);
            ledger.note(&question, (set, 2), &question.to_bytes(), b"c1")
        };
        let open = |ledger: &Ledger, task: u64, attempt: u32, set: u16| {
            note(ledger, &answers(task, attempt, 2), set, b"c2")
        };
        let hostile = ledger("hostile");
        (1..=3).for_each(|task| raise(&hostile, task, 0, 0b011).unwrap());
        assert!(matches!(raise(&hostile, 4, 0, 0b011), Err(Error::Refused(_))));
        raise(&hostile, 3, 0, 0b011).unwrap();
        assert!(raise(&hostile, 3, 1, 0b101).is_err(), "another set sees another sum");
        let honest = ledger("honest");
        for task in 1..=2 {
            raise(&honest, task, 0, 0b011).unwrap();
            open(&honest, task, 0, 0b011).unwrap();
        }
        // A second set for the answers counts, and one more for the raise then does not.
        open(&honest, 2, 1, 0b101).unwrap();
        raise(&honest, 2, 1, 0b101).unwrap();
        assert!(raise(&honest, 3, 0, 0b011).is_err() && open(&honest, 3, 0, 0b011).is_err());
        assert_eq!(honest.tell().unwrap().spent, decisions(6));
    }

    /// An evaluation under the number of a model that is to come, or has come, would count for it: neither is
    /// answered under a number of the other. The controls have their own.
    #[test]
    fn attack_no_evaluation_has_the_number_of_a_model() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::create(&folder.path().join("ledger")).unwrap();
        let refused = |question: &Question| {
            assert!(matches!(note(&ledger, question, 0b011, b"c1"), Err(Error::Refused(_))), "{question:?}");
        };
        for task in [3, EVALUATIONS - 1] {
            refused(&Question { task, ..answers(0, 0, 1) });
            refused(&Question { task, ..question(0, 0) });
        }
        for kind in [TaskKind::Model, TaskKind::Sum] {
            refused(&own(kind, EVALUATIONS | 3, 0));
        }
        note(&ledger, &own(TaskKind::Model, 3, 0), 0b011, b"c1").unwrap();
        note(&ledger, &answers(3, 0, 1), 0b011, b"c2").unwrap();
        assert_eq!(ledger.tell().unwrap().spent, Budget { decisions: 1, models: 1 });
    }

    /// A user has a bandit whose models overflow, and reads their errors: members refresh so many models with
    /// a key. The control is the same model again, asked of other sets, after one of them has failed.
    #[test]
    fn attack_models_beyond_the_budget_are_not_refreshed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let budget = Budget { decisions: 0, models: 2 };
        let ledger = Ledger::create(&path).unwrap().with_budget(budget);
        let model = |bandit: &str, task, attempt| Question {
            bandit: bandit.into(),
            ..own(TaskKind::Model, task, attempt)
        };
        note(&ledger, &model("b", 3, 0), 0b011, b"c1").unwrap();
        note(&ledger, &model("b", 6, 0), 0b011, b"c2").unwrap();
        drop(ledger);
        let ledger = Ledger::open(&path).unwrap().with_budget(budget);
        assert!(matches!(note(&ledger, &model("b", 9, 0), 0b011, b"c3"), Err(Error::Refused(_))));
        assert!(note(&ledger, &model("another", 3, 0), 0b011, b"c1").is_err(), "one key for all bandits");
        for (attempt, set) in [(1, 0b101), (2, 0b110), (3, 0b1001)] {
            note(&ledger, &model("b", 6, attempt), set, b"c2").unwrap();
        }
        note(&ledger, &own(TaskKind::Sum, 7, 0), 0b011, b"sum").unwrap();
        assert_eq!(ledger.tell().unwrap().spent, budget);
    }

    /// The server and members 1 and 2 of five complete a set with each of the three others, and have each
    /// open other decisions. What all of them open together is within the budget of the key. The control
    /// gives each member the decisions of the key, as if it were asked alone.
    #[test]
    fn attack_sets_without_a_common_honest_member_stay_within_the_budget_of_a_key() {
        use protocol::budget::{OPENED_NATS, budget_of_a_member, opened_nats};
        let (shape, folder) = (protocol::Shape::for_problem(16, 32), tempfile::tempdir().unwrap());
        let each = opened_nats(shape, 3, 5);
        let of_key = (OPENED_NATS / each) as u64;
        let opened = |name: &str, most: u64| -> u64 {
            let honest = [(3, 0b00111), (4, 0b01011), (5, 0b10011)].map(|(member, set)| {
                let path = folder.path().join(format!("{name}-{member}"));
                (Ledger::create(&path).unwrap().with_budget(decisions(most)), set)
            });
            let ask = |(at, (ledger, set)): (u64, &(Ledger, u16))| {
                let fresh = (1..=of_key + 1).map(|i| EVALUATIONS + at * (of_key + 1) + i);
                fresh.take_while(|task| note(ledger, &answers(*task, 0, 1), *set, b"c1").is_ok()).count()
            };
            (0..).zip(&honest).map(ask).sum::<usize>() as u64
        };
        let most = budget_of_a_member(OPENED_NATS, shape, (3, 5), 5).decisions;
        let together = opened("divided", most);
        assert_eq!(together, 3 * most);
        assert!(together as f64 * each <= OPENED_NATS, "{together} decisions of {of_key}");
        let together = opened("control", of_key);
        assert!(together as f64 * each > 2.0 * OPENED_NATS, "{together} decisions of {of_key}");
    }

    /// A member that checks a share of the tasks and has caught the server answers nothing any more, over
    /// restarts too. The control answers before.
    #[test]
    fn attack_a_server_that_was_caught_is_not_answered_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let ledger = Ledger::create(&path).unwrap();
        note(&ledger, &question(1, 0), 0b011, b"c1").unwrap();
        ledger.note_caught().unwrap();
        drop(ledger);
        let ledger = Ledger::open(&path).unwrap();
        assert!(matches!(ledger.check_in_use(), Err(Error::Caught)));
        for task in [1, 2] {
            assert!(matches!(note(&ledger, &question(task, 0), 0b011, b"c1"), Err(Error::Caught)));
        }
    }

    /// A task that more sets were answered for, by two ledgers of the epoch before, gets no further set. The
    /// control has one set less than the most.
    #[test]
    fn attack_records_of_two_ledgers_leave_no_further_set() {
        let told = |sets: usize| {
            let about = meaning(&own(TaskKind::Sum, 5, 0), b"c1");
            let record = Record { about, sets: (0..sets).map(|i| [i as u8; 32]).collect() };
            let own = Some((5, [(0, postcard::to_stdvec(&record).unwrap())].into()));
            let bandit =
                ToldBandit { id: "b".into(), pinned: None, head: None, own, evaluations: Vec::new() };
            Told { bandits: vec![bandit], ..Told::default() }
        };
        for (sets, answers) in [(7, true), (8, false), (11, false)] {
            let folder = tempfile::tempdir().unwrap();
            let ledger = Ledger::create(&folder.path().join("ledger")).unwrap();
            ledger.take(&told(sets), 0).unwrap();
            let sum = own(TaskKind::Sum, 5, 0);
            assert_eq!(note(&ledger, &sum, 0b011, b"c1").is_ok(), answers, "{sets} sets");
        }
    }

    /// A dealer tells another task than the other ones for the request of a user, so that it would be opened
    /// once more there. It is opened in neither. The control is what only one has told.
    #[test]
    fn attack_a_dealer_moves_no_request_to_another_task() {
        let told = |uploads: &[([u8; 32], u64)]| Told { uploads: uploads.to_vec(), ..Told::default() };
        let (task, other) = (EVALUATIONS | 1, EVALUATIONS | 2);
        let honest = told(&[([1; 32], task), ([2; 32], task)]);
        for liar in [told(&[([1; 32], other)]), told(&[([1; 32], NO_TASK)])] {
            for all in [[honest.clone(), liar.clone()], [liar.clone(), honest.clone()]] {
                let folder = tempfile::tempdir().unwrap();
                let ledger = Ledger::create(&folder.path().join("ledger")).unwrap();
                ledger.take(&Told::merged(all), 0).unwrap();
                for task in [task, other, NO_TASK] {
                    assert!(matches!(ledger.note_uploads(task, &[[1; 32]]), Err(Error::Refused(_))));
                }
                ledger.note_uploads(task, &[[2; 32]]).unwrap();
                assert!(ledger.note_uploads(other, &[[2; 32]]).is_err());
            }
        }
    }

    /// A task keeps its ciphertext and its meaning over restarts, and three sets are answered for it.
    #[test]
    fn attack_a_task_is_answered_for_one_ciphertext_and_three_sets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let ledger = Ledger::create(&path).unwrap();
        note(&ledger, &question(1, 0), 0b011, b"c1").unwrap();
        note(&ledger, &question(1, 0), 0b011, b"c1").unwrap();
        assert!(matches!(Ledger::open(&path), Err(Error::Ledger(_))), "one process at a time");
        drop(ledger);
        let ledger = Ledger::open(&path).unwrap();
        let refused = |done: Result<(), Error>| assert!(matches!(done, Err(Error::Refused(_))));
        refused(note(&ledger, &question(1, 0), 0b011, b"c2"));
        let other = Wanted::Transfer(TaskKind::Scores { factor: 0.25, alone: false });
        refused(note(&ledger, &Question { wanted: other, ..question(1, 0) }, 0b011, b"c1"));
        note(&ledger, &question(1, 1), 0b101, b"c1").unwrap();
        note(&ledger, &question(1, 2), 0b110, b"c1").unwrap();
        refused(note(&ledger, &question(1, 3), 0b011, b"c1"));
        // What was answered is answered again, and another task is another.
        note(&ledger, &question(1, 1), 0b101, b"c1").unwrap();
        note(&ledger, &question(2, 0), 0b011, b"c2").unwrap();
        // Nor is what users sent opened in a second evaluation.
        ledger.note_uploads(1, &[[1; 32], [2; 32]]).unwrap();
        ledger.note_uploads(1, &[[1; 32]]).unwrap();
        let again = ledger.note_uploads(2, &[[3; 32], [2; 32]]);
        assert!(matches!(again, Err(Error::Refused(_))));
        ledger.note_uploads(2, &[[3; 32]]).unwrap();
        for other in [&b"no ledger"[..], b""] {
            std::fs::write(folder.path().join("other"), other).unwrap();
            assert!(matches!(Ledger::open(&folder.path().join("other")), Err(Error::Ledger(_))));
        }
    }

    /// A member whose ledger is lost does not answer with an empty one, which forgets what was answered. The
    /// control makes one, and answers for another ciphertext.
    #[test]
    fn attack_a_lost_ledger_is_not_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        note(&Ledger::create(&path).unwrap(), &question(1, 0), 0b011, b"c1").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Ledger::open(&path), Err(Error::NoLedger { .. })));
        assert!(!path.exists());
        note(&Ledger::create(&path).unwrap(), &question(1, 0), 0b011, b"c2").unwrap();
    }
}
