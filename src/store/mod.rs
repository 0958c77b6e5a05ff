//! The state folder. A change is durable before it is acknowledged.
//!
//! ```text
//! DIR/state.redb      tables of clear policies, and of names, tags and creations, see `tables`
//! DIR/encrypted          encrypted bandits, see `bandits::encrypted`
//! DIR/paper           those of the paper's method, see `bandits::paper`
//! DIR/tokens          digests of API tokens, see `access`
//! DIR/lock            locked by the process that uses the folder
//! ```
//! One transaction writes the state of a bandit and the changed rows of decisions and receipts. Its bytes do
//! not grow with the number of decisions that wait for feedback (docs/DATA_MODEL.md).

mod folder;
mod rows;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use folder::{database, lock, prepare};
#[cfg(test)]
pub(crate) use rows::StoredEdit;
pub(crate) use rows::{Edit, Numbered, Recent, encode};
pub(crate) use tables::{Edits, Named, NamedEdit, Stored};

use crate::error::Error;
use ckks::{Fingerprint, KeyId};
use std::fs::File;
use std::path::{Path, PathBuf};
use tables::Tables;

/// The format of the folder. A folder of another format is refused.
const FORMAT: u16 = 15;

/// A state folder, open and locked.
pub(crate) struct Store {
    folder: PathBuf,
    tables: Tables,
    /// The lock of the folder, held while the store lives. The database releases its own lock when it is
    /// reopened.
    _lock: File,
}

impl Store {
    /// Opens or creates the folder, and reads every state and row. `names` are key
    /// and parameters of the encrypted bandits, if there are keys.
    pub(crate) fn open(
        folder: &Path,
        names: Option<(KeyId, Fingerprint)>,
    ) -> Result<(Store, Vec<Stored>), Error> {
        folder::prepare(folder)?;
        let lock = folder::lock(folder)?;
        // The database panics on some damaged pages.
        let opened = host::without_panic(|| {
            let tables = Tables::open(folder)?;
            tables.check_meta(FORMAT, names.as_ref().map(|(key, params)| (&key.0[..], &params.0[..])))?;
            let stored = tables.read()?;
            Ok((tables, stored))
        });
        let damaged = |panic| Err(Error::database(folder, redb::Error::Corrupted(panic)));
        let (tables, stored) = opened.unwrap_or_else(damaged)?;
        folder::sync(folder)?;
        Ok((Store { folder: folder.to_owned(), tables, _lock: lock }, stored))
    }

    /// The error for a state or row of a bandit that cannot be read.
    pub(crate) fn corrupt(&self, bandit: &str, why: String) -> Error {
        Error::CorruptState { bandit: bandit.into(), folder: self.folder.clone(), why }
    }

    /// Stores changes of bandits in one transaction, which is durable when this returns. On an error, the
    /// states before count.
    pub(crate) fn commit(&self, bandits: &[(&str, Edits)]) -> Result<(), Error> {
        self.commit_with(bandits, &[])
    }

    /// As [`Self::commit`], together with values of other tables.
    pub(crate) fn commit_with(&self, bandits: &[(&str, Edits)], named: &[NamedEdit]) -> Result<(), Error> {
        self.tables.write(bandits, named)
    }

    /// The values of a table by their keys.
    pub(crate) fn read(&self, named: Named) -> Result<Vec<(String, Vec<u8>)>, Error> {
        self.tables.read_named(named)
    }

    /// Removes a bandit, together with changes of other tables. On an error, the bandit stays.
    pub(crate) fn delete(&self, id: &str, named: &[NamedEdit]) -> Result<(), Error> {
        self.tables.delete(id, named)
    }
}
