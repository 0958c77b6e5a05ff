//! What a member must not forget in a run, on disk before it shows.
//!
//! ```text
//! offset  bytes  field
//!      0      8  magic "HELBARUN"
//!      8      2  version, 1, little-endian
//!     10     32  name of the run
//!     42     32  seed of all that the member draws
//!     74      1  1 if the run has failed; a key generation opens the seed then, and in a resharing it is 0
//!     75   32·r  hash of all messages before each round that was begun
//!   end−32   32  BLAKE3 hash of all bytes before
//! ```

use super::Error;
use crate::keys::read_private;
use ckks_shares::SessionId;
use host::Draft;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const MAGIC: [u8; 8] = *b"HELBARUN";
const VERSION: u16 = 1;
const HEADER: usize = 75;
/// The most rounds of a run.
const MOST_ROUNDS: usize = 7;
const MOST_BYTES: usize = HEADER + 32 * MOST_ROUNDS + 32;

/// Locks the folder of a file against other members and other runs, where the system locks folders.
fn alone(path: &Path) -> Result<Option<File>, Error> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let folder = path.parent().unwrap_or(path);
    let io = |error| Error::Io { path: folder.into(), error };
    let file = File::open(folder).map_err(io)?;
    match host::lock_file(&file) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(Error::FolderInUse { path: folder.into() }),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

/// The memory of a member in one run.
pub(super) struct Memory {
    path: PathBuf,
    /// Keeps others out of the folder, who would draw from the same seed.
    _alone: Option<File>,
    session: SessionId,
    seed: Zeroizing<[u8; 32]>,
    failed: bool,
    seen: Vec<[u8; 32]>,
}

impl Memory {
    /// Opens the memory of this run, or makes one with `seed`.
    pub(super) fn open(path: &Path, session: SessionId, seed: Zeroizing<[u8; 32]>) -> Result<Self, Error> {
        let io = |error| Error::Io { path: path.into(), error };
        let alone = alone(path)?;
        if !path.exists() {
            let (path, seen) = (path.into(), Vec::new());
            let memory = Memory { path, _alone: alone, session, seed, failed: false, seen };
            memory.save()?;
            return Ok(memory);
        }
        let bytes = read_private(path, MOST_BYTES as u64).map_err(io)?;
        let bad = || io(std::io::Error::other("it is no memory of this run, or it was damaged"));
        let (content, digest) = bytes.split_last_chunk::<32>().ok_or_else(bad)?;
        if content.len() < HEADER || blake3::hash(content) != *digest {
            return Err(bad());
        }
        let (seen, rest) = content[HEADER..].as_chunks::<32>();
        if content[..8] != MAGIC || content[8..10] != VERSION.to_le_bytes() || content[10..42] != session.0 {
            return Err(bad());
        }
        let seed = content[42..].first_chunk::<32>().filter(|_| rest.is_empty()).ok_or_else(bad)?;
        let (seed, failed) = (Zeroizing::new(*seed), content[74] != 0);
        Ok(Memory { path: path.into(), _alone: alone, session, seed, failed, seen: seen.to_vec() })
    }

    pub(super) fn seed(&self) -> Zeroizing<[u8; 32]> {
        self.seed.clone()
    }

    /// Whether the run has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether the round at this place was begun.
    pub(super) fn has_begun(&self, place: usize) -> bool {
        self.seen.len() > place
    }

    /// Notes that the round at this place begins after these messages.
    ///
    /// # Errors
    /// [`Error::Forked`] if it began after others; [`Error::Io`].
    pub(super) fn begin(&mut self, place: usize, seen: [u8; 32]) -> Result<(), Error> {
        match self.seen.get(place) {
            Some(before) if *before == seen => Ok(()),
            Some(_) => Err(Error::Forked),
            None => {
                self.seen.push(seen);
                self.save()
            }
        }
    }

    /// Notes that the run has failed, after which nothing is confirmed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn fail(&mut self) -> Result<(), Error> {
        self.failed = true;
        self.save()
    }

    /// As [`Self::fail`], and erases the seed, with which the share of a dealer could be computed from what
    /// it has sent.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn fail_and_forget(&mut self) -> Result<(), Error> {
        let io = |error| Error::Io { path: self.path.clone(), error };
        let before = std::fs::File::options().write(true).open(&self.path).map_err(io)?;
        let length = before.metadata().map_err(io)?.len();
        (self.failed, *self.seed) = (true, [0; 32]);
        // The new file takes the place of the one before, which is overwritten after that.
        self.save()?;
        (&before).write_all(&vec![0; length as usize]).and_then(|()| before.sync_all()).map_err(io)
    }

    /// Overwrites and removes the file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn erase(mut self) -> Result<(), Error> {
        let io = |error| Error::Io { path: self.path.clone(), error };
        *self.seed = [0; 32];
        let length = std::fs::metadata(&self.path).map_err(io)?.len();
        let file = std::fs::File::options().write(true).open(&self.path).map_err(io)?;
        (&file).write_all(&vec![0; length as usize]).and_then(|()| file.sync_all()).map_err(io)?;
        std::fs::remove_file(&self.path).and_then(|()| host::sync_folder_of(&self.path)).map_err(io)
    }

    fn save(&self) -> Result<(), Error> {
        let io = |error| Error::Io { path: self.path.clone(), error };
        let mut bytes = Zeroizing::new(Vec::with_capacity(MOST_BYTES));
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.session.0);
        bytes.extend(*self.seed);
        bytes.push(self.failed.into());
        bytes.extend(self.seen.as_flattened());
        let digest = blake3::hash(&bytes);
        bytes.extend(digest.as_bytes());
        let draft = Draft::create_private(&self.path).map_err(io)?;
        draft.file().write_all(&bytes).map_err(io)?;
        draft.finish().map_err(io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two members in one folder would draw the same secrets: the second one is refused while the first is
    /// there.
    #[cfg(unix)]
    #[test]
    fn attack_two_members_do_not_share_a_seed() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            || Memory::open(&folder.path().join("memory"), SessionId([1; 32]), Zeroizing::new([5; 32]));
        let first = open().unwrap();
        assert!(matches!(open(), Err(Error::FolderInUse { .. })));
        drop(first);
        open().unwrap();
    }

    /// A resharing that has failed leaves no seed on disk, neither in the memory nor in the file that it
    /// replaces. The control is a run that goes on.
    #[test]
    fn a_resharing_that_has_failed_forgets_its_seed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, before) = (folder.path().join("memory"), folder.path().join("before"));
        let (session, seed) = (SessionId([1; 32]), [0xa5; 32]);
        let has_seed = |path: &Path| std::fs::read(path).unwrap().windows(32).any(|part| part == seed);
        let open = |seed| Memory::open(&path, session, Zeroizing::new(seed)).unwrap();
        let mut memory = open(seed);
        memory.begin(0, [2; 32]).unwrap();
        assert!(has_seed(&path), "the control");
        std::fs::hard_link(&path, &before).unwrap();
        memory.fail_and_forget().unwrap();
        assert!(!has_seed(&path) && !has_seed(&before));
        drop(memory);
        let memory = open([3; 32]);
        assert!(memory.has_failed() && memory.has_begun(0) && *memory.seed() == [0; 32]);
    }
}
