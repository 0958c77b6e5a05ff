//! Ciphertext files. Each holds one frame, and is named by the BLAKE3 digest that ends the frame.
//!
//! A file is written under a temporary name, synchronised, renamed, and its folder synchronised. It is
//! removed when no bandit refers to it any more.

use super::folder;
use crate::error::Error;
use ckks::{Ciphertext, KeyId, Params};
use host::lock;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SendError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

type Hash = blake3::Hash;

/// The ciphertext files of a state folder.
pub(super) struct Blobs {
    /// Parameters and key of the ciphertexts. Without keys, no file is read or written.
    keys: Option<(Params, KeyId)>,
    references: Arc<References>,
    /// Sends replaced ciphertexts to a thread that removes them, so that no commit waits for the removal.
    replaced: SyncSender<Saved>,
    temporary: AtomicU64,
}

/// The files of the last commit of a bandit. The next commit writes only new ciphertexts.
#[derive(Default)]
pub(crate) struct Saved {
    blobs: Vec<Blob>,
}

/// A ciphertext and the name of its file.
#[derive(Clone)]
struct Blob {
    ciphertext: Arc<Ciphertext>,
    hash: Hash,
}

/// The number of references to each file.
struct References {
    folder: PathBuf,
    counts: Mutex<BTreeMap<[u8; 32], usize>>,
}

/// Ciphertexts of a bandit that are on disk, before its state names them.
pub(super) struct Written<'a> {
    blobs: &'a Blobs,
    /// The ciphertexts of the last commit, and the new ones.
    known: Vec<Blob>,
    next: Saved,
    /// Files that no state names. They are released when this value is dropped.
    unnamed: Vec<Hash>,
}

impl Blobs {
    /// Opens or creates the folders in `folder`/blobs.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn open(folder: &Path, keys: Option<(Params, KeyId)>) -> Result<Self, Error> {
        let blobs = folder.join("blobs");
        for first in 0..=u8::MAX {
            let path = blobs.join(format!("{first:02x}"));
            fs::create_dir_all(&path).map_err(|e| Error::disk(&path, e))?;
        }
        folder::sync(&blobs)?;
        let references = Arc::new(References { folder: blobs, counts: Mutex::default() });
        let replaced = remover(references.clone()).map_err(|e| Error::disk(folder, e))?;
        Ok(Blobs { keys, references, replaced, temporary: AtomicU64::new(0) })
    }

    /// Writes the `ciphertexts` that are not in `saved`, the last commit, all at the same time, because most
    /// of the time is spent waiting for the disk. They are durable when this returns.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and others of the disk. The new files are then removed.
    pub(super) fn write<'a>(
        &'a self,
        ciphertexts: &[&Arc<Ciphertext>],
        saved: &Saved,
    ) -> Result<Written<'a>, Error> {
        let (params, key) = self.keys.as_ref().ok_or(Error::NoKeys)?;
        let mut new: Vec<&Arc<Ciphertext>> = Vec::new();
        for ciphertext in ciphertexts {
            let mut known = saved.blobs.iter().map(|b| &b.ciphertext).chain(new.iter().copied());
            if !known.any(|other| Arc::ptr_eq(other, ciphertext)) {
                new.push(ciphertext);
            }
        }
        let frames: Vec<Vec<u8>> = new.par_iter().map(|c| ckks::write_ciphertext(params, *key, c)).collect();
        let results: Vec<Result<Hash, Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = frames.iter().map(|frame| scope.spawn(|| self.write_file(frame))).collect();
            let join = |t: std::thread::ScopedJoinHandle<_>| {
                t.join().unwrap_or(Err(Error::Broken("a write that panicked")))
            };
            threads.into_iter().map(join).collect()
        });
        let mut written =
            Written { blobs: self, known: saved.blobs.clone(), next: Saved::default(), unnamed: Vec::new() };
        let mut failed = Ok(());
        for (ciphertext, result) in new.into_iter().zip(results) {
            match result {
                Ok(hash) => {
                    written.unnamed.push(hash);
                    written.known.push(Blob { ciphertext: ciphertext.clone(), hash });
                }
                Err(error) => failed = Err(error),
            }
        }
        failed.map(|()| written)
    }

    /// Reads the ciphertext with this digest, which must be at `level`, and adds it to `saved`.
    ///
    /// # Errors
    /// The path of the file, and its fault.
    pub(super) fn read(
        &self,
        hash: [u8; 32],
        level: usize,
        saved: &mut Saved,
    ) -> Result<Arc<Ciphertext>, (PathBuf, String)> {
        let hash = Hash::from_bytes(hash);
        // Two parts of a bandit may be the same ciphertext in one file.
        let known = saved.blobs.iter().find(|b| b.hash == hash && b.ciphertext.level() == level);
        let ciphertext = match known {
            Some(blob) => blob.ciphertext.clone(),
            None => {
                let path = self.references.path(&hash);
                self.read_file(&path, &hash, level).map_err(|why| (path, why))?
            }
        };
        self.references.refer(&hash);
        saved.blobs.push(Blob { ciphertext: ciphertext.clone(), hash });
        Ok(ciphertext)
    }

    /// Drops the references of a bandit that is deleted.
    pub(super) fn release(&self, saved: &mut Saved) {
        self.references.release(&std::mem::take(saved));
    }

    /// Removes the files that no bandit refers to, and those of interrupted writes.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn remove_unnamed(&self) -> Result<(), Error> {
        let references = lock(&self.references.counts);
        let named = |path: &Path| {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            Hash::from_hex(name).is_ok_and(|hash| references.contains_key(hash.as_bytes()))
        };
        let remove = |path: &Path| fs::remove_file(path).map_err(|e| Error::disk(path, e));
        for entry in folder::list(&self.references.folder)? {
            if !entry.is_dir() {
                remove(&entry)?;
                continue;
            }
            for blob in folder::list(&entry)?.iter().filter(|p| !named(p)) {
                remove(blob)?;
            }
        }
        Ok(())
    }

    fn read_file(&self, path: &Path, hash: &Hash, level: usize) -> Result<Arc<Ciphertext>, String> {
        let (params, key) = self.keys.as_ref().ok_or("there are no keys")?;
        let length = fs::metadata(path).map_err(|e| e.to_string())?.len();
        let want = ckks::ciphertext_bytes(params, level, false) as u64;
        if length != want {
            return Err(format!("{length} bytes, expected {want}"));
        }
        let bytes = fs::read(path).map_err(|e| e.to_string())?;
        if digest(&bytes) != Some(*hash) {
            return Err("its content does not match its name".into());
        }
        // This checks the digest.
        let ciphertext = ckks::read_ciphertext(params, *key, level, &bytes).map_err(|e| e.to_string())?;
        Ok(Arc::new(ciphertext))
    }

    /// Writes a file and adds a reference to it.
    fn write_file(&self, frame: &[u8]) -> Result<Hash, Error> {
        let hash = digest(frame).ok_or(Error::Broken("a frame without a digest"))?;
        // The reference is added before the file exists, so that no release of another bandit removes the
        // file.
        self.references.refer(&hash);
        let path = self.references.path(&hash);
        let temporary = self.temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = self.references.folder.join(format!("{temporary}.new"));
        let write = || {
            let parent = path.parent().unwrap_or(&self.references.folder);
            let mut file = host::private_file().write(true).create(true).truncate(true).open(&temporary)?;
            file.write_all(frame)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(parent)?.sync_all()
        };
        write().map_err(|error| {
            // If the temporary file cannot be removed now, the next start removes it.
            let _ = fs::remove_file(&temporary);
            self.references.release_hash(&hash);
            Error::disk(&temporary, error)
        })?;
        Ok(hash)
    }
}

impl Written<'_> {
    /// The digest that names `ciphertext` in the state to be committed.
    ///
    /// # Errors
    /// [`Error::Broken`] for a ciphertext that was not given to [`Blobs::write`].
    pub(super) fn name(&mut self, ciphertext: &Arc<Ciphertext>) -> Result<[u8; 32], Error> {
        let known = self.known.iter().find(|b| Arc::ptr_eq(&b.ciphertext, ciphertext));
        let blob = known.ok_or(Error::Broken("a ciphertext that was not written"))?.clone();
        let name = *blob.hash.as_bytes();
        self.blobs.references.refer(&blob.hash);
        self.next.blobs.push(blob);
        Ok(name)
    }

    /// Releases the files that only the commit before named. The state that names the new files is durable.
    pub(super) fn replace(mut self, saved: &mut Saved) {
        let before = std::mem::replace(saved, std::mem::take(&mut self.next));
        // If the removing thread has ended, this thread does its work.
        if let Err(SendError(before)) = self.blobs.replaced.send(before) {
            self.blobs.references.release(&before);
        }
    }
}

impl Drop for Written<'_> {
    /// References of [`name`](Self::name) stay. If the transaction failed, it is unknown whether its state
    /// reached the disk, so that the files stay until the next start.
    fn drop(&mut self) {
        self.unnamed.iter().for_each(|hash| self.blobs.references.release_hash(hash));
    }
}

impl References {
    fn path(&self, hash: &Hash) -> PathBuf {
        let hex = hash.to_hex();
        self.folder.join(&hex[..2]).join(hex.as_str())
    }

    fn refer(&self, hash: &Hash) {
        *lock(&self.counts).entry(*hash.as_bytes()).or_default() += 1;
    }

    fn release(&self, saved: &Saved) {
        saved.blobs.iter().for_each(|blob| self.release_hash(&blob.hash));
    }

    fn release_hash(&self, hash: &Hash) {
        let mut counts = lock(&self.counts);
        let Some(count) = counts.get_mut(hash.as_bytes()) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(hash.as_bytes());
            // The lock is held, so that the same content is written again only after this. If the file cannot
            // be removed, the next start removes it.
            let _ = fs::remove_file(self.path(hash));
        }
    }
}

/// Starts a thread that releases what it receives, until the channel is closed.
fn remover(references: Arc<References>) -> std::io::Result<SyncSender<Saved>> {
    // A commit waits if this many are queued, because each holds the old ciphertexts of a bandit.
    let (replaced, received) = sync_channel::<Saved>(4);
    let remove = move || received.iter().for_each(|saved| references.release(&saved));
    std::thread::Builder::new().name("blobs".into()).spawn(remove)?;
    Ok(replaced)
}

/// The BLAKE3 digest that ends a frame.
fn digest(frame: &[u8]) -> Option<Hash> {
    frame.last_chunk().copied().map(Hash::from_bytes)
}
