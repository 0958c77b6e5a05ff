//! The state folder. A change is durable before it is acknowledged.
//!
//! ```text
//! DIR/state.redb      tables of states and rows, see `tables`
//! DIR/blobs/ab/abc…   files of one ciphertext frame each, see `blobs`
//! DIR/lock            locked by the process that uses the folder
//! ```
//! A commit first writes each new ciphertext to a file. Then one transaction writes the state of the bandit,
//! which names its ciphertexts by digest, and the changed rows of decisions and receipts. After a crash
//! between the two, the state before counts, and the next start removes the files that no state names.
//!
//! The bytes of a commit do not grow with the number of decisions that wait for feedback
//! (docs/DATA_MODEL.md).

mod blobs;
mod folder;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use blobs::Saved;
pub(crate) use folder::lock;
pub(crate) use tables::{Edits, Stored, Table};

use crate::error::Error;
use blobs::Blobs;
use helba::{Bandit, Change, Engine, SavedState};
use std::fs::File;
use std::path::{Path, PathBuf};
use tables::Tables;

/// The format of the folder. A folder of another format is refused.
const FORMAT: u16 = 6;

/// A state folder, open and locked.
pub(crate) struct Store {
    folder: PathBuf,
    tables: Tables,
    blobs: Blobs,
    /// The lock of the folder, held while the store lives. The database releases its own lock when it is
    /// reopened.
    _lock: File,
}

impl Store {
    /// Opens or creates the folder, and reads every state and row. Without an engine, encrypted bandits are
    /// returned too, but cannot be [loaded](Self::load).
    ///
    /// # Errors
    /// [`Error::StateInUse`], [`Error::StateFormat`], [`Error::OtherKeys`], [`Error::FolderIsShared`], and
    /// those of the disk.
    pub(crate) fn open(folder: &Path, engine: Option<&Engine>) -> Result<(Store, Vec<Stored>), Error> {
        folder::prepare(folder)?;
        let lock = folder::lock(folder)?;
        let tables = Tables::open(folder)?;
        let names = engine.map(|engine| (engine.key_id(), engine.params().fingerprint()));
        tables.check_meta(FORMAT, names.as_ref().map(|(key, params)| (&key.0[..], &params.0[..])))?;
        let blobs = Blobs::open(folder, engine.map(|e| (e.params().clone(), e.key_id())))?;
        let stored = tables.read()?;
        folder::sync(folder)?;
        Ok((Store { folder: folder.to_owned(), tables, blobs, _lock: lock }, stored))
    }

    /// Reads the ciphertexts of an encrypted bandit.
    ///
    /// # Errors
    /// [`Error::CorruptBlob`], [`Error::CorruptState`].
    pub(crate) fn load(&self, engine: &Engine, stored: &Stored) -> Result<(Bandit, Saved), Error> {
        let mut saved = Saved::default();
        let Stored { state, decisions, receipts, .. } = stored;
        let bandit = Bandit::restore(engine, state, decisions, receipts, |part, level, digest| {
            self.blobs.read(digest, level, &mut saved).map_err(|(path, why)| Error::CorruptBlob {
                bandit: stored.id.clone(),
                part,
                path,
                why,
            })
        });
        match bandit {
            Ok(bandit) => Ok((bandit, saved)),
            Err(Error::Helba(why)) => Err(self.corrupt(stored, why.to_string())),
            Err(error) => Err(error),
        }
    }

    /// The error for a state or row that cannot be read.
    pub(crate) fn corrupt(&self, stored: &Stored, why: String) -> Error {
        Error::CorruptState { bandit: stored.id.clone(), folder: self.folder.clone(), why }
    }

    /// Removes the files that no loaded bandit refers to, and those of interrupted writes. All encrypted
    /// bandits must have been loaded.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn remove_unnamed(&self) -> Result<(), Error> {
        self.blobs.remove_unnamed()
    }

    /// Stores a new encrypted bandit, which has no rows.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub(crate) fn create(&self, id: &str, bandit: &Bandit) -> Result<Saved, Error> {
        let mut saved = Saved::default();
        self.write(id, bandit.state(), Edits::default(), &mut saved)?;
        Ok(saved)
    }

    /// Stores a change of the encrypted bandit `id`, which is durable when this returns. On an error, the
    /// state before counts, and `saved` is unchanged.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and others of the disk.
    pub(crate) fn commit<T>(&self, id: &str, change: &Change<'_, T>, saved: &mut Saved) -> Result<(), Error> {
        if change.is_empty() {
            return Ok(());
        }
        let (decisions, receipts) = (change.decisions()?, change.receipts()?);
        self.write(id, change.state(), Edits { decisions, receipts, ..Edits::default() }, saved)
    }

    fn write(&self, id: &str, state: SavedState<'_>, rows: Edits, saved: &mut Saved) -> Result<(), Error> {
        let mut written = self.blobs.write(&state.ciphertexts(), saved)?;
        let state = state.to_bytes(|ciphertext| written.name(ciphertext))?;
        self.tables.write(Table::Encrypted, &[(id, Edits { state, ..rows })])?;
        written.replace(saved);
        Ok(())
    }

    /// Stores changes of bandits with clear policies in one transaction.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub(crate) fn commit_clear(&self, bandits: &[(&str, Edits)]) -> Result<(), Error> {
        self.tables.write(Table::Clear, bandits)
    }

    /// Removes an encrypted bandit, and empties `saved`. On an error, the bandit stays.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub(crate) fn delete(&self, id: &str, saved: &mut Saved) -> Result<(), Error> {
        self.tables.delete(Table::Encrypted, id)?;
        self.blobs.release(saved);
        Ok(())
    }

    /// Removes a bandit with a clear policy. On an error, the bandit stays.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub(crate) fn delete_clear(&self, id: &str) -> Result<(), Error> {
        self.tables.delete(Table::Clear, id)
    }
}
