//! Users with keys of their own: their enrolments, which the owner of the keys has signed, and those who were
//! removed since. The server has no list of users, and one of removed ones: a file in the state folder, which
//! the program writes while a server runs, and the server reads again when it has changed.

use super::TokenFault;
use crate::error::Error;
use crate::store;
use ckks::KeyId;
use host::lock;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use wire::{Enroller, Enrolment, RemovedUsers, RemovedUsersFile, TokenDigest};

const NAME: &str = "removed-users.json";
/// The most enrolments whose signatures are known to be right, some 2 kB each.
const MOST_KNOWN: usize = 16_384;

/// The list of removed users in a state folder. Its file is replaced as a whole.
#[derive(Debug, Clone)]
pub struct RemovedUsersList {
    folder: PathBuf,
    path: PathBuf,
}

impl RemovedUsersList {
    /// The list in the state `folder`, whether there is one or not.
    pub fn of(folder: &Path) -> Self {
        RemovedUsersList { folder: folder.to_owned(), path: folder.join(NAME) }
    }

    /// The users and when they were removed. Without a file there is none.
    ///
    /// # Errors
    /// [`Error::Wire`] for a file that cannot be read.
    pub fn read(&self) -> Result<RemovedUsers, Error> {
        Ok(RemovedUsers::of_file(&self.path)?.unwrap_or_default())
    }

    /// Removes users. The next request of each is refused when this returns. The folder is created if it does
    /// not exist.
    ///
    /// # Errors
    /// Those of [`RemovedUsersFile::remove`] and of the disk.
    pub fn remove<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        store::prepare(&self.folder)?;
        RemovedUsersFile::remove(&self.path, names, super::unix_now())?;
        Ok(())
    }

    /// The list for a server that runs.
    fn watch(&self) -> Result<RemovedUsersFile, Error> {
        self.remove([])?;
        Ok(RemovedUsersFile::open(&self.path)?)
    }
}

/// The users of a server that runs.
#[derive(Debug)]
pub(super) struct Users {
    enroller: Enroller,
    key_id: KeyId,
    removed: RemovedUsersFile,
    /// Enrolments that were checked, by the digests of their bytes.
    known: Mutex<HashMap<blake3::Hash, Arc<Enrolment>>>,
}

impl Users {
    pub(super) fn open(enroller: Enroller, key_id: KeyId, folder: &Path) -> Result<Self, Error> {
        let removed = RemovedUsersList::of(folder).watch()?;
        Ok(Users { enroller, key_id, removed, known: Mutex::default() })
    }

    /// The enrolment in a header, if the owner signed it and it is that of the bearer of this token.
    pub(super) fn find(
        &self,
        header: &str,
        token: &TokenDigest,
        now: u64,
    ) -> Result<Arc<Enrolment>, TokenFault> {
        let bytes = Enrolment::of_header(header).ok_or(TokenFault::Enrolment)?;
        let digest = blake3::hash(&bytes);
        let known = lock(&self.known).get(&digest).cloned();
        let enrolment = match known {
            Some(known) => known,
            None => {
                let read = Enrolment::read(&bytes, &self.enroller, self.key_id);
                let read = Arc::new(read.map_err(|_| TokenFault::Enrolment)?);
                let mut known = lock(&self.known);
                if known.len() >= MOST_KNOWN {
                    known.clear();
                }
                known.insert(digest, read.clone());
                read
            }
        };
        match enrolment.token() == *token {
            false => Err(TokenFault::Enrolment),
            true if !enrolment.holds(now) => Err(TokenFault::Expired),
            true => Ok(enrolment),
        }
    }

    /// Whether the user with this enrolment was removed, or may have been.
    pub(super) fn is_removed(&self, enrolment: &Enrolment) -> bool {
        self.removed.has(enrolment)
    }
}
