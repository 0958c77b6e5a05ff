//! The audit of encrypted bandits: whether snapshot and log of each agree, while no server uses them.

use super::state::{self, GENESIS, Replay, SNAPSHOT};
use crate::error::Error;
use helba::Engine;
use std::path::Path;

/// What an audit found of a bandit whose snapshot and log agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// The records of the log since the creation of the bandit.
    pub records: u64,
    /// The feedbacks that were counted.
    pub feedbacks: u64,
    /// BLAKE3 of the state after the last record.
    pub state: [u8; 32],
    /// Whether all records since the creation were replayed. If not, those after the last snapshot were.
    pub since_creation: bool,
    /// Bytes at the end of the log of records that were never acknowledged. The next start cuts them off.
    pub torn: u64,
}

/// The ids of bandits, and what an audit found of each.
pub type Audits = Vec<(String, Result<Audited, Error>)>;

/// Replays the log of the bandit from its creation, if all of it is kept, and from the last snapshot. Both
/// must give the same state, byte for byte.
pub(crate) fn audit(root: &Path, id: &str, engine: &Engine) -> Result<Audited, Error> {
    let last = state::replay(root, id, engine, SNAPSHOT)?;
    let (head, torn, feedbacks) = (last.head, last.torn, last.bandit.status(0).feedbacks);
    let bytes = settled(last, engine)?;
    let since_creation = match whole(root, id, engine)? {
        None => false,
        Some(whole) => {
            if whole.head != head || settled(whole, engine)? != bytes {
                return Err(Error::AuditFailed { bandit: id.to_string(), folder: root.join(id) });
            }
            true
        }
    };
    let state = *blake3::hash(&bytes).as_bytes();
    Ok(Audited { records: head.records, feedbacks, state, since_creation, torn })
}

/// The replay from the creation, or `None` if the first snapshot or the first segment is not kept.
fn whole(root: &Path, id: &str, engine: &Engine) -> Result<Option<Replay>, Error> {
    if !root.join(id).join(GENESIS).exists() {
        return Ok(None);
    }
    match state::replay(root, id, engine, GENESIS) {
        // The server ran without --keep-log meanwhile.
        Err(Error::Log(hash_log::Error::Missing { .. })) => Ok(None),
        replayed => replayed.map(Some),
    }
}

/// The bytes of a state, with the update computed if one is due: it is no event, and a snapshot may have it.
fn settled(replay: Replay, engine: &Engine) -> Result<Vec<u8>, Error> {
    let mut bandit = replay.bandit;
    if let Some(update) = bandit.update()? {
        let masked = update.run(engine)?;
        bandit.updated(&update, masked);
    }
    Ok(bandit.to_bytes(engine)?)
}
