//! What a member was asked and has answered, on disk before an answer leaves it.
//!
//! A task has one ciphertext and one meaning, whatever a server says later, and few sets of members are
//! answered for it: each set learns one more copy of the same sum, under other masks.

mod heads;
mod told;

pub use told::{Told, ToldBandit};

use self::heads::{FORKS, OTHERS, SIGNED, forked, read_fork};
use super::Error;
use super::answering::NO_BANDIT;
use ckks_shares::SessionId;
use protocol::TaskKind;
use protocol::budget::Budget;
use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use wire::{Created, Question, Wanted};

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
            // The database panics on some damaged pages.
            _ => host::without_panic(|| Self::of_file(file, path, None)).unwrap_or_else(|panic| {
                Err(Error::Ledger(format!("{} is damaged: {panic}", path.display())))
            }),
        }
    }

    /// `new` is the format of a file that has none yet.
    fn of_file(file: File, path: &Path, new: Option<u64>) -> Result<Self, Error> {
        let database = Database::builder().create_file(file).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => Error::Ledger(format!(
                "{} is in use: stop `helba-member serve` with these keys, and wait until it has ended",
                path.display()
            )),
            error => failed(error),
        })?;
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
mod tests;
