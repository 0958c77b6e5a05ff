//! Encrypted state at rest: acknowledged means durable.
//!
//! ```text
//! DIR/state.redb      bandit → its small state, and the name, level and hash of each of its ciphertexts;
//!                     bandit in the clear → its whole state
//! DIR/blobs/ab/abc…   one ciphertext frame a file, named by its digest, which ends it
//! ```
//! A commit writes new blobs first (temporary name, fsync, rename, fsync of the folder) and then one transaction that names
//! them. A crash in between leaves the old state and files that nobody names; they are removed at the next start. One
//! process at a time holds `DIR/lock`.

use crate::{Error, clear};
use ckks::{Ciphertext, KeyId, Params};
use helba::{Bandit, Engine};
use rayon::prelude::*;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SendError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
const BANDITS: TableDefinition<&str, &[u8]> = TableDefinition::new("bandits");
const CLEAR: TableDefinition<&str, &[u8]> = TableDefinition::new("clear");
const FORMAT: u16 = 4;
/// The database holds small rows only.
const CACHE_BYTES: usize = 16 << 20;

type Hash = blake3::Hash;

/// A state folder, open and locked.
pub(crate) struct Store {
    folder: PathBuf,
    /// Those of the encrypted bandits; `None` without keys, when these stay as they are.
    keys: Option<(Params, KeyId)>,
    /// `None` after a failed write, until it can be opened again: what was written is then read back, not guessed.
    database: Mutex<Option<Database>>,
    references: Arc<References>,
    /// Sends what commits have replaced to the thread that removes it, so that no commit waits for the
    /// removal.
    replaced: SyncSender<Saved>,
    temporary: AtomicU64,
    /// Held while the store lives. The database has a lock of its own, but gives it up when it is opened anew.
    _lock: File,
}

/// A bandit as it was last committed.
pub(crate) struct Stored {
    pub(crate) id: String,
    pub(crate) bandit: Bandit,
    pub(crate) saved: Saved,
}

/// A store and what is in it.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) encrypted: Vec<Stored>,
    pub(crate) clear: Vec<(String, clear::Bandit)>,
    /// Encrypted bandits that were not read, since there are no keys.
    pub(crate) asleep: Vec<String>,
}

/// What is on disk for one bandit, so that the next commit writes only what changed.
#[derive(Default)]
pub(crate) struct Saved {
    state: Option<Hash>,
    blobs: BTreeMap<String, Blob>,
}

#[derive(Clone)]
struct Blob {
    ciphertext: Arc<Ciphertext>,
    hash: Hash,
}

/// How many names point at a blob, and where blobs lie.
struct References {
    folder: PathBuf,
    counts: Mutex<BTreeMap<[u8; 32], usize>>,
}

#[derive(Serialize, Deserialize)]
struct Row {
    state: Vec<u8>,
    blobs: Vec<Named>,
}

#[derive(Serialize, Deserialize)]
struct Named {
    name: String,
    level: u16,
    hash: [u8; 32],
}

impl Store {
    /// Opens or makes the folder and reads every bandit in it; without an engine only those in the clear.
    /// `restored` says that the folder comes from a backup: see [`clear::Bandit::restored`].
    ///
    /// # Errors
    /// [`Error::StateInUse`], [`Error::OtherKeys`], [`Error::CorruptBlob`], [`Error::CorruptState`],
    /// [`Error::FolderIsShared`], and those of the disk.
    pub(crate) fn open(folder: &Path, engine: Option<&Engine>, restored: bool) -> Result<Opened, Error> {
        let blobs = folder.join("blobs");
        // Only the owner may read it: masks and ciphertexts give the model to whoever has a bandit's secret
        // key, and rewards of policies in the clear are stored as they came.
        let mut private = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
        private.recursive(true).create(folder).map_err(|e| Error::disk(folder, e))?;
        make_private(folder)?;
        for first in 0..=u8::MAX {
            let path = blobs.join(format!("{first:02x}"));
            fs::create_dir_all(&path).map_err(|e| Error::disk(&path, e))?;
        }
        sync_folder(&blobs)?;
        let lock = lock_folder(folder)?;
        let database = open_database(folder)?;
        let references = Arc::new(References { folder: folder.to_owned(), counts: Mutex::default() });
        let replaced = remover(references.clone()).map_err(|e| Error::disk(folder, e))?;
        let store = Store {
            folder: folder.to_owned(),
            keys: engine.map(|engine| (engine.params().clone(), engine.key_id())),
            database: Mutex::new(Some(database)),
            references,
            replaced,
            temporary: AtomicU64::new(0),
            _lock: lock,
        };
        store.check_meta()?;
        let (mut encrypted, mut asleep) = (Vec::new(), Vec::new());
        for (id, row) in store.rows(BANDITS)? {
            match engine {
                Some(engine) => encrypted.push(store.load(engine, id, &row)?),
                None => asleep.push(id),
            }
        }
        let clear = |(id, row): (String, Vec<u8>)| match clear::Bandit::read(&row) {
            Ok(bandit) => Ok((id, bandit)),
            Err(why) => Err(Error::CorruptState { bandit: id, folder: folder.to_owned(), why }),
        };
        let mut clear = store.rows(CLEAR)?.into_iter().map(clear).collect::<Result<Vec<_>, _>>()?;
        if restored {
            store.restore(&mut clear)?;
        }
        sync_folder(folder)?;
        // Nobody has said what bandits that sleep name.
        if asleep.is_empty() {
            store.remove_unnamed()?;
        }
        Ok(Opened { store, encrypted, clear, asleep })
    }

    /// Makes `bandit` the stored state of `id`. When it returns, a crash does not lose it; on an error the state before it
    /// is what counts, and `saved` is unchanged.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and others of the disk.
    pub(crate) fn commit(&self, id: &str, bandit: &Bandit, saved: &mut Saved) -> Result<(), Error> {
        let (state, ciphertexts) = bandit.save();
        let mut next = Saved { state: Some(blake3::hash(&state)), blobs: BTreeMap::new() };
        let mut new: Vec<&Arc<Ciphertext>> = Vec::new();
        for ciphertext in ciphertexts.values() {
            let known = saved.blobs.values().map(|b| &b.ciphertext).chain(new.iter().copied());
            if !known.into_iter().any(|other| Arc::ptr_eq(other, ciphertext)) {
                new.push(ciphertext);
            }
        }
        let mut written = self.write_blobs(&new)?;
        let failed = written.iter().position(Result::is_err).map(|i| written.swap_remove(i));
        let written: Vec<Blob> = written.into_iter().flatten().collect();
        if let Some(Err(error)) = failed {
            written.iter().for_each(|blob| self.references.release_hash(&blob.hash));
            return Err(error);
        }
        for (name, ciphertext) in ciphertexts {
            // Every ciphertext is among what was known and what was new.
            let mut known = saved.blobs.values().chain(&written);
            let Some(blob) = known.find(|b| Arc::ptr_eq(&b.ciphertext, &ciphertext)) else { continue };
            self.references.refer(&blob.hash);
            next.blobs.insert(name, blob.clone());
        }
        // Names hold them now.
        written.iter().for_each(|blob| self.references.release_hash(&blob.hash));
        let unchanged = next.state == saved.state
            && next.blobs.iter().map(|(n, b)| (n, b.hash)).eq(saved.blobs.iter().map(|(n, b)| (n, b.hash)));
        if !unchanged {
            let row = Row {
                state,
                blobs: next
                    .blobs
                    .iter()
                    .map(|(name, b)| Named {
                        name: name.clone(),
                        level: b.ciphertext.level() as u16,
                        hash: *b.hash.as_bytes(),
                    })
                    .collect(),
            };
            // After an error here nobody knows whether the row reached the disk, so its blobs stay until the next start.
            self.write_row(BANDITS, id, &row)?;
        }
        let before = std::mem::replace(saved, next);
        // The thread lives as long as the store. If it has ended, this thread does its work.
        if let Err(SendError(before)) = self.replaced.send(before) {
            self.references.release(&before);
        }
        Ok(())
    }

    /// Makes `bandit` the stored state of `id`, as [`Self::commit`].
    ///
    /// # Errors
    /// [`Error::DiskFull`] and others of the disk.
    pub(crate) fn commit_clear(&self, id: &str, bandit: &clear::Bandit) -> Result<(), Error> {
        self.write_row(CLEAR, id, bandit)
    }

    /// Forgets a bandit of either kind; `saved` is empty then. On an error it is still there.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub(crate) fn delete(&self, id: &str, saved: &mut Saved) -> Result<(), Error> {
        self.transaction(|transaction| {
            for table in [BANDITS, CLEAR] {
                transaction.open_table(table)?.remove(id)?;
            }
            Ok(())
        })?;
        self.references.release(&std::mem::take(saved));
        Ok(())
    }

    /// Stores every bandit as it is to go on after the folder was brought back, all or none.
    fn restore(&self, bandits: &mut [(String, clear::Bandit)]) -> Result<(), Error> {
        let mut rows = Vec::new();
        for (id, bandit) in bandits {
            if let Some(next) = bandit.restored()? {
                let row = postcard::to_stdvec(&next);
                rows.push((id.clone(), row.map_err(|_| Error::Broken("a row that cannot be serialised"))?));
                *bandit = next;
                tracing::warn!(bandit = *id, "restored: begins anew, its open decisions are closed");
            }
        }
        self.transaction(|transaction| {
            let mut table = transaction.open_table(CLEAR)?;
            for (id, row) in &rows {
                table.insert(id.as_str(), row.as_slice())?;
            }
            Ok(())
        })
    }

    fn write_row(
        &self,
        table: TableDefinition<&str, &[u8]>,
        id: &str,
        row: &impl Serialize,
    ) -> Result<(), Error> {
        let bytes = postcard::to_stdvec(row).map_err(|_| Error::Broken("a row that cannot be serialised"))?;
        self.transaction(|transaction| {
            transaction.open_table(table)?.insert(id, bytes.as_slice())?;
            Ok(())
        })
    }

    fn transaction(
        &self,
        write: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), Error> {
        let mut slot = lock(&self.database);
        let database = match slot.take() {
            Some(database) => database,
            None => open_database(&self.folder)?,
        };
        let run = || {
            let transaction = database.begin_write()?;
            write(&transaction)?;
            Ok::<_, redb::Error>(transaction.commit()?)
        };
        match run() {
            Ok(()) => {
                *slot = Some(database);
                Ok(())
            }
            // The database takes no more writes after a failed one; the slot stays empty, so that the next opens it anew.
            Err(error) => Err(Error::database(&self.folder, error)),
        }
    }

    fn check_meta(&self) -> Result<(), Error> {
        let mut wanted = vec![("format", FORMAT.to_le_bytes().to_vec())];
        if let Some((params, key)) = &self.keys {
            wanted.push(("key", key.0.to_vec()));
            wanted.push(("parameters", params.fingerprint().0.to_vec()));
        }
        let mut found = BTreeMap::new();
        self.transaction(|transaction| {
            transaction.open_table(BANDITS)?;
            transaction.open_table(CLEAR)?;
            let mut table = transaction.open_table(META)?;
            for (name, value) in &wanted {
                let old = table.get(*name)?.map(|v| v.value().to_vec());
                match old {
                    Some(old) => found.insert(*name, old),
                    None => {
                        table.insert(*name, value.as_slice())?;
                        None
                    }
                };
            }
            Ok(())
        })?;
        for (name, want) in wanted {
            let Some(got) = found.get(name).filter(|got| **got != want) else { continue };
            let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
            let (folder, got, want) = (self.folder.clone(), hex(got), hex(&want));
            return Err(match name {
                "format" => Error::StateFormat { folder, got, want },
                what => Error::OtherKeys { folder, what, got, want },
            });
        }
        Ok(())
    }

    fn rows(&self, table: TableDefinition<&str, &[u8]>) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let slot = lock(&self.database);
        let database = slot.as_ref().ok_or(Error::Broken("no database after it was opened"))?;
        let read = || -> Result<Vec<_>, redb::Error> {
            let table = database.begin_read()?.open_table(table)?;
            let row = |row: Result<(redb::AccessGuard<&str>, redb::AccessGuard<&[u8]>), _>| {
                row.map(|(id, row)| (id.value().to_string(), row.value().to_vec()))
                    .map_err(redb::StorageError::into)
            };
            table.iter()?.map(row).collect()
        };
        read().map_err(|e| Error::database(&self.folder, e))
    }

    fn load(&self, engine: &Engine, id: String, row: &[u8]) -> Result<Stored, Error> {
        let corrupt =
            |why: String| Error::CorruptState { bandit: id.clone(), folder: self.folder.clone(), why };
        let row: Row = postcard::from_bytes(row).map_err(|e| corrupt(e.to_string()))?;
        let mut saved = Saved { state: Some(blake3::hash(&row.state)), blobs: BTreeMap::new() };
        for named in row.blobs {
            let hash = Hash::from_bytes(named.hash);
            // A blob under two names is one ciphertext.
            let known = saved.blobs.values().find(|b| b.hash == hash).map(|b| b.ciphertext.clone());
            let ciphertext = match known {
                Some(ciphertext) => ciphertext,
                None => {
                    let path = self.path(&hash);
                    self.read_blob(&path, &hash, named.level).map_err(|why| Error::CorruptBlob {
                        bandit: id.clone(),
                        name: named.name.clone(),
                        path,
                        why,
                    })?
                }
            };
            self.references.refer(&hash);
            saved.blobs.insert(named.name, Blob { ciphertext, hash });
        }
        let ciphertexts = saved.blobs.iter().map(|(name, b)| (name.clone(), b.ciphertext.clone())).collect();
        let bandit = Bandit::restore(engine, &row.state, ciphertexts).map_err(|e| corrupt(e.to_string()))?;
        Ok(Stored { id, bandit, saved })
    }

    fn read_blob(&self, path: &Path, hash: &Hash, level: u16) -> Result<Arc<Ciphertext>, String> {
        let (params, key) = self.keys.as_ref().ok_or("there are no keys")?;
        let level = usize::from(level);
        if level > params.max_level() {
            return Err(format!("level {level} is above the top of the chain"));
        }
        let length = fs::metadata(path).map_err(|e| e.to_string())?.len();
        let want = ckks::ciphertext_bytes(params, level, false) as u64;
        if length != want {
            return Err(format!("{length} bytes, expected {want}"));
        }
        let bytes = fs::read(path).map_err(|e| e.to_string())?;
        if digest(&bytes) != Some(*hash) {
            return Err("its content does not match its name".into());
        }
        // Which checks the digest.
        let ciphertext = ckks::read_ciphertext(params, *key, level, &bytes).map_err(|e| e.to_string())?;
        Ok(Arc::new(ciphertext))
    }

    /// Writes each blob and refers to it, all at the same time: most of it is waiting for the disk.
    fn write_blobs(&self, ciphertexts: &[&Arc<Ciphertext>]) -> Result<Vec<Result<Blob, Error>>, Error> {
        let (params, key) = self.keys.as_ref().ok_or(Error::NoKeys)?;
        let frames: Vec<Vec<u8>> =
            ciphertexts.par_iter().map(|c| ckks::write_ciphertext(params, *key, c)).collect();
        let write = |ciphertext: &Arc<Ciphertext>, frame| {
            let hash = self.write_blob(frame)?;
            Ok(Blob { ciphertext: ciphertext.clone(), hash })
        };
        Ok(std::thread::scope(|scope| {
            let threads: Vec<_> = ciphertexts
                .iter()
                .zip(&frames)
                .map(|(ciphertext, frame)| scope.spawn(move || write(ciphertext, frame)))
                .collect();
            let join = |t: std::thread::ScopedJoinHandle<_>| {
                t.join().unwrap_or(Err(Error::Broken("a write that panicked")))
            };
            threads.into_iter().map(join).collect()
        }))
    }

    /// Writes a blob and refers to it.
    fn write_blob(&self, frame: &[u8]) -> Result<Hash, Error> {
        let hash = digest(frame).ok_or(Error::Broken("a frame without a digest"))?;
        // Before the file exists, so that nobody else's release removes it.
        self.references.refer(&hash);
        let path = self.path(&hash);
        let temporary = self.temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join("blobs").join(format!("{temporary}.new"));
        let write = || {
            let folder = path.parent().unwrap_or(&self.folder);
            let mut file = private_file().truncate(true).open(&temporary)?;
            file.write_all(frame)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|error| {
            // What is left is removed now if the disk lets us, at the next start otherwise.
            let _ = fs::remove_file(&temporary);
            self.references.release_hash(&hash);
            Error::disk(&temporary, error)
        })?;
        Ok(hash)
    }

    fn path(&self, hash: &Hash) -> PathBuf {
        self.references.path(hash)
    }

    /// Removes blobs that no bandit names and what interrupted writes left.
    fn remove_unnamed(&self) -> Result<(), Error> {
        let references = lock(&self.references.counts);
        let named = |path: &Path| {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            Hash::from_hex(name).is_ok_and(|hash| references.contains_key(hash.as_bytes()))
        };
        let blobs = self.folder.join("blobs");
        let remove = |path: &Path| fs::remove_file(path).map_err(|e| Error::disk(path, e));
        for entry in list(&blobs)? {
            if !entry.is_dir() {
                remove(&entry)?;
                continue;
            }
            for blob in list(&entry)?.iter().filter(|p| !named(p)) {
                remove(blob)?;
            }
        }
        Ok(())
    }
}

impl References {
    fn path(&self, hash: &Hash) -> PathBuf {
        let hex = hash.to_hex();
        self.folder.join("blobs").join(&hex[..2]).join(hex.as_str())
    }

    fn refer(&self, hash: &Hash) {
        *lock(&self.counts).entry(*hash.as_bytes()).or_default() += 1;
    }

    fn release(&self, saved: &Saved) {
        saved.blobs.values().for_each(|blob| self.release_hash(&blob.hash));
    }

    fn release_hash(&self, hash: &Hash) {
        let mut references = lock(&self.counts);
        let Some(count) = references.get_mut(hash.as_bytes()) else { return };
        *count -= 1;
        if *count == 0 {
            references.remove(hash.as_bytes());
            // Under the lock: whoever writes the same content again does so after this. A file that stays is removed at
            // the next start.
            let _ = fs::remove_file(self.path(hash));
        }
    }
}

/// Starts a thread that releases what it receives, until the channel is closed.
fn remover(references: Arc<References>) -> std::io::Result<SyncSender<Saved>> {
    // A commit waits when this many are queued: each holds a bandit's old ciphertexts.
    let (replaced, received) = sync_channel::<Saved>(4);
    let remove = move || received.iter().for_each(|saved| references.release(&saved));
    std::thread::Builder::new().name("blobs".into()).spawn(remove)?;
    Ok(replaced)
}

/// What ends a frame: the BLAKE3 hash of the rest.
fn digest(frame: &[u8]) -> Option<Hash> {
    frame.last_chunk().copied().map(Hash::from_bytes)
}

fn lock_folder(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let file = private_file().open(&path).map_err(|e| Error::disk(&path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::StateInUse { folder: folder.to_owned() }),
        Err(TryLockError::Error(e)) => Err(Error::disk(&path, e)),
    }
}

fn open_database(folder: &Path) -> Result<Database, Error> {
    let path = folder.join("state.redb");
    let file = private_file().read(true).open(&path).map_err(|e| Error::disk(&path, e))?;
    // An older version may have made the file with another mode.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .map_err(|e| Error::disk(&path, e))?;
    Database::builder()
        .set_cache_size(CACHE_BYTES)
        .create_file(file)
        .map_err(|e| Error::database(folder, e.into()))
}

/// Options that open a file for writing, and create it with mode 0600.
fn private_file() -> fs::OpenOptions {
    let mut options = File::options();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Sets the mode of a folder that is empty or holds a state to 0700. The server does not change the mode of
/// any other folder.
///
/// # Errors
/// [`Error::FolderIsShared`] for any other folder that others may read, and where the mode cannot be set.
#[cfg(unix)]
fn make_private(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    let disk = |e| Error::disk(folder, e);
    let metadata = fs::metadata(folder).map_err(disk)?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let ours = folder.join("state.redb").is_file() || list(folder)?.is_empty();
    let private = fs::Permissions::from_mode(0o700);
    if !ours || fs::set_permissions(folder, private).is_err() {
        return Err(Error::FolderIsShared { folder: folder.to_owned(), mode });
    }
    tracing::info!(folder = %folder.display(), "had mode {mode:o}: others' rights to it were taken");
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> Result<(), Error> {
    Ok(())
}

fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| Error::disk(folder, e))
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.map(|e| Ok(e?.path())).collect());
    entries.map_err(|e| Error::disk(folder, e))
}

/// A panic elsewhere leaves nothing half done behind these locks: what they guard is replaced as a whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
