//! What members of a committee follow: the records of the log, and the heads that they sign.

use super::{EncryptedServed, state};
use crate::bandits::Reply;
use crate::error::Error;
use host::lock;
use std::sync::Arc;
use wire::{Journal, SignedHead};

/// The most bytes of the records of an answer, but for one record that is longer: every user may ask for it.
const PAGE_BYTES: usize = 1 << 20;

impl EncryptedServed {
    /// The first records of the log after `after`, for members of a committee: a page, and none at the end.
    ///
    /// # Errors
    /// [`Error::NoCommittee`]; [`Error::Log`]; [`Error::UnknownBandit`] after it was deleted.
    pub(crate) fn journal(&self, after: u64) -> Result<Reply, Error> {
        if self.shared.committee.is_none() {
            return Err(Error::NoCommittee);
        }
        let (recent, folder) = {
            let live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            (live.recent(after), live.folder().to_path_buf())
        };
        let mut bytes = 0;
        let fits = |record: &Arc<Vec<u8>>| {
            let first = bytes == 0;
            bytes += record.len();
            first || bytes <= PAGE_BYTES
        };
        let records = match recent {
            Some(recent) => recent.into_iter().take_while(fits).map(Arc::unwrap_or_clone).collect(),
            None => state::records(&folder, &self.created.id, &self.shared.engine, after, PAGE_BYTES)?,
        };
        Ok(Reply::Binary(Journal { records, heads: self.heads() }.to_bytes()))
    }

    /// Keeps a head that a member has signed, for the other members and for devices.
    ///
    /// # Errors
    /// [`Error::NoCommittee`]; [`Error::Wire`] unless a member signed it, for this bandit.
    pub(crate) fn note_head(&self, head: SignedHead) -> Result<(), Error> {
        let committee = self.shared.committee.as_ref().ok_or(Error::NoCommittee)?;
        head.check(committee.manifest())?;
        if head.bandit != self.created.id {
            return Err(wire::Error::Malformed("a head of the journal of another bandit").into());
        }
        let mut heads = lock(&self.heads);
        if let Some(other) = heads.values().find(|other| other.contradicts(&head)) {
            let (bandit, batch) = (&self.created.id, head.batch);
            tracing::error!(
                bandit,
                batch,
                one = other.member,
                other = head.member,
                "two members have signed different heads"
            );
        }
        match heads.get(&head.member) {
            Some(known) if known.batch > head.batch => {}
            _ => drop(heads.insert(head.member, head)),
        }
        Ok(())
    }

    /// The last head of the journal that each member has signed since this server runs.
    pub(super) fn heads(&self) -> Vec<SignedHead> {
        lock(&self.heads).values().cloned().collect()
    }
}
