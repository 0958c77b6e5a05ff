//! What a member was asked and has answered, on disk before an answer leaves it.
//!
//! A task has one ciphertext and one meaning, whatever a server says later, and few sets of members are
//! answered for it: each set learns one more copy of the same sum, under other masks.

use super::Error;
use protocol::TaskKind;
use redb::{Database, Durability, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};
use std::path::Path;
use wire::{Created, Question, Wanted};

/// The most sets for one evaluation.
const MOST_SETS: usize = 3;
/// The most sets for a sum or a model, which waits until it is done.
const MOST_OWN_SETS: usize = 8;
/// The version of the tables.
const FORMAT: u64 = 1;

const ABOUT: TableDefinition<&str, u64> = TableDefinition::new("about");
const BANDITS: TableDefinition<&str, [u8; 32]> = TableDefinition::new("bandits");
const TASKS: TableDefinition<(&str, u8, u64), &[u8]> = TableDefinition::new("tasks");

/// A ledger, which one process at a time opens.
pub struct Ledger {
    database: Database,
}

#[derive(Serialize, Deserialize)]
struct Record {
    /// The hash of meaning and ciphertext.
    about: [u8; 32],
    /// The hashes of the questions that were answered, each to one set.
    sets: Vec<[u8; 32]>,
}

impl Ledger {
    /// Opens the ledger of a member at `path`, or makes an empty one.
    ///
    /// # Errors
    /// [`Error::Ledger`] for a file of another format, one that another process has open, and those of the
    /// disk.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |error: std::io::Error| Error::Ledger(format!("{}: {error}", path.display()));
        // Made with the permissions of private files before redb writes to it.
        let file = host::private_file().read(true).write(true).create(true).truncate(false).open(path);
        let database = Database::builder().create_file(file.map_err(io)?).map_err(failed)?;
        host::sync_folder_of(path).map_err(io)?;
        let ledger = Ledger { database };
        let write = ledger.database.begin_write().map_err(failed)?;
        {
            let mut about = write.open_table(ABOUT).map_err(failed)?;
            let found = about.get("format").map_err(failed)?.map(|found| found.value());
            match found {
                None => drop(about.insert("format", FORMAT).map_err(failed)?),
                Some(FORMAT) => {}
                Some(other) => {
                    return Err(Error::Ledger(format!(
                        "{} has format {other}, and this program reads {FORMAT}",
                        path.display()
                    )));
                }
            }
            write.open_table(BANDITS).map_err(failed)?;
            write.open_table(TASKS).map_err(failed)?;
        }
        write.commit().map_err(failed)?;
        Ok(ledger)
    }

    /// Notes that `set` is answered about the polynomial whose frame is `c1`. When this returns, the note is
    /// on disk. The same question may be answered again, since it gets the same answer.
    ///
    /// # Errors
    /// [`Error::Refused`] for another meaning or another ciphertext of the same task, and for more than three
    /// sets, or eight of a sum or a model; [`Error::Ledger`].
    pub fn note(&self, question: &Question, set: u16, bytes: &[u8], c1: &[u8]) -> Result<(), Error> {
        let (kind, most) = match question.wanted {
            Wanted::Transfer(TaskKind::Sum | TaskKind::Model) => (0, MOST_OWN_SETS),
            Wanted::Transfer(TaskKind::Scores { .. }) => (0, MOST_SETS),
            Wanted::Answers { .. } => (1, MOST_SETS),
        };
        let key = (question.bandit.as_str(), kind, question.task);
        let about = meaning(question, c1);
        let mut asked = blake3::Hasher::new();
        asked.update(&set.to_le_bytes()).update(bytes);
        let asked = *asked.finalize().as_bytes();
        let mut write = self.database.begin_write().map_err(failed)?;
        write.set_durability(Durability::Immediate).map_err(failed)?;
        {
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
            if record.sets.len() == most {
                return Err(Error::Refused("as many sets of members as may be were answered for this task"));
            }
            record.sets.push(asked);
            let record = postcard::to_stdvec(&record).map_err(failed)?;
            tasks.insert(key, record.as_slice()).map_err(failed)?;
        }
        write.commit().map_err(failed)
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

/// The hash of what a task is about: all but the attempt.
fn meaning(question: &Question, c1: &[u8]) -> [u8; 32] {
    let first = Question { attempt: 0, ..question.clone() }.to_bytes();
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
        Question { bandit: "b".into(), task, attempt, wanted }
    }

    fn note(ledger: &Ledger, question: &Question, set: u16, c1: &[u8]) -> Result<(), Error> {
        ledger.note(question, set, &question.to_bytes(), c1)
    }

    /// A task keeps its ciphertext and its meaning over restarts, and three sets are answered for it.
    #[test]
    fn attack_a_task_is_answered_for_one_ciphertext_and_three_sets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let ledger = Ledger::open(&path).unwrap();
        note(&ledger, &question(1, 0), 0b011, b"c1").unwrap();
        note(&ledger, &question(1, 0), 0b011, b"c1").unwrap();
        assert!(matches!(Ledger::open(&path), Err(Error::Ledger(_))), "one process at a time");
        drop(ledger);
        let ledger = Ledger::open(&path).unwrap();
        let refused = |done: Result<(), Error>| assert!(matches!(done, Err(Error::Refused(_))));
        refused(note(&ledger, &question(1, 0), 0b011, b"c2"));
        let other = Wanted::Transfer(TaskKind::Sum);
        refused(note(&ledger, &Question { wanted: other, ..question(1, 0) }, 0b011, b"c1"));
        note(&ledger, &question(1, 1), 0b101, b"c1").unwrap();
        note(&ledger, &question(1, 2), 0b110, b"c1").unwrap();
        refused(note(&ledger, &question(1, 3), 0b011, b"c1"));
        // What was answered is answered again, and another task is another.
        note(&ledger, &question(1, 1), 0b101, b"c1").unwrap();
        note(&ledger, &question(2, 0), 0b011, b"c2").unwrap();
        std::fs::write(folder.path().join("other"), b"no ledger").unwrap();
        assert!(Ledger::open(&folder.path().join("other")).is_err());
    }
}
