//! The positions in journals that a member has followed, and the heads that members have signed.

use super::{Error, HEADS, Ledger, failed};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use wire::SignedHead;

/// The head of each batch that this member has signed.
pub(super) const SIGNED: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("signed heads");
/// The last head that each other member has signed, and is of the same journal.
pub(super) const OTHERS: TableDefinition<(&str, u8), &[u8]> = TableDefinition::new("heads of others");
/// Of a bandit whose journal was forked, the head of this member and that of another one.
pub(super) const FORKS: TableDefinition<&str, &[u8]> = TableDefinition::new("forks");

impl Ledger {
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
}

fn read_head(bytes: &[u8]) -> Result<SignedHead, Error> {
    SignedHead::from_bytes(bytes).map_err(failed)
}

pub(super) fn read_fork(bytes: &[u8]) -> Result<[SignedHead; 2], Error> {
    serde_json::from_slice(bytes).map_err(failed)
}

pub(super) fn forked([_, other]: &[SignedHead; 2]) -> Error {
    Error::Forked { bandit: other.bandit.clone(), member: other.member, batch: other.batch }
}
