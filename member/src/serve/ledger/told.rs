//! What a ledger hands on to the members of the next epoch.

use super::{
    ABOUT, BANDITS, DECISIONS, EVALUATIONS, Error, FLOORS, HEADS, Ledger, MODELS, MOST_OWN_SETS, NO_TASK,
    OVER, Record, TASKS, UPLOADS, failed,
};
use protocol::budget::Budget;
use redb::{ReadableDatabase, ReadableTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

impl Ledger {
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
}
