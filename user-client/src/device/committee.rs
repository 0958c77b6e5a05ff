//! A device without a secret key: a committee holds it.
//!
//! ```text
//! KEY-ID.device   the random key of this device, which stays over rotations
//! KEY-ID.epoch    the manifest of the last epoch of the committee of these keys
//! KEY-ID.next     the keys that follow these (wire::Successor), which has a token
//! ```
//!
//! Where there are no files, [`super::Device::memory`] has all three in bytes.

use super::{check_private, same};
use crate::Error;
use ckks::{KeyId, PublicKey};
use ckks_shares::Quorum;
use host::Draft;
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use wire::{CommitteeManifest, Custody, MAX_MANIFEST_BYTES, Manifest};
use zeroize::Zeroizing;

const LOCAL_KEY_BYTES: usize = 32;
/// The first bytes of a memory: a name and the version 1.
const MEMORY: [u8; 10] = *b"HELBAMEM\x01\0";

/// What a device without files keeps beside its random key.
#[derive(Serialize, Deserialize)]
pub(super) struct Seen<'a> {
    /// The bytes of each [`wire::Successor`] that was followed, one after the other.
    #[serde(borrow)]
    pub(super) followed: Vec<&'a [u8]>,
    /// The manifest of the last epoch of the keys in use, in JSON.
    manifest: &'a [u8],
}

impl Seen<'_> {
    pub(super) fn manifest(&self) -> Result<Manifest, Error> {
        serde_json::from_slice(self.manifest).map_err(|_| Error::BadMemory)
    }
}

/// The public key of the ring of scores, and the members who answer.
pub(crate) struct CommitteeKeys {
    pub(crate) public_key: PublicKey,
    /// The last epoch of the committee that this device has seen.
    known: Mutex<Arc<Known>>,
    local: Arc<Local>,
    /// The path of the files of these keys, but for the extension.
    path: Option<PathBuf>,
}

/// What stays over rotations: the random key, its file, and without files the successors that were followed.
#[derive(Default)]
struct Local {
    key: OnceLock<Zeroizing<[u8; LOCAL_KEY_BYTES]>>,
    path: Option<PathBuf>,
    followed: Mutex<Vec<Zeroizing<Vec<u8>>>>,
}

/// The members of an epoch, and the manifest that names them.
pub(crate) struct Known {
    manifest: Manifest,
    committee: CommitteeManifest,
    pub(crate) quorum: Quorum,
}

impl Known {
    fn new(manifest: Manifest, committee: CommitteeManifest) -> Result<Self, Error> {
        Ok(Known { quorum: committee.quorum()?, manifest, committee })
    }

    /// The key that the signatures of `member` are checked with, one of the quorum.
    pub(crate) fn verifying(&self, member: u8) -> &[u8] {
        self.committee.members.get(usize::from(member).wrapping_sub(1)).map_or(&[], |m| &m.verifying.0)
    }
}

impl CommitteeKeys {
    pub(super) fn new(
        public_key: PublicKey,
        manifest: Manifest,
        committee: CommitteeManifest,
    ) -> Result<Self, Error> {
        let known = Mutex::new(Arc::new(Known::new(manifest, committee)?));
        Ok(CommitteeKeys { public_key, known, local: Arc::default(), path: None })
    }

    /// Links to the bundle and copies of it in the same folder share the random key.
    pub(super) fn beside(self, bundle: &Path, key: KeyId) -> Self {
        let bundle = std::fs::canonicalize(bundle).unwrap_or_else(|_| bundle.into());
        let path = bundle.with_file_name(format!("{key}.device"));
        let local = Local { path: Some(path.clone()), ..Local::default() };
        CommitteeKeys { local: Arc::new(local), path: Some(path), ..self }
    }

    /// These keys in the place of `before`, with its random key, and their files beside its own.
    pub(super) fn after(self, before: &CommitteeKeys, key: KeyId) -> Self {
        let path = before.path.as_ref().map(|path| path.with_file_name(format!("{key}.device")));
        CommitteeKeys { local: before.local.clone(), path, ..self }
    }

    /// Checks that t members of the committee, in the last epoch that this device has seen, have signed the
    /// keys of `next` as those that follow.
    pub(super) fn check_rotation(&self, next: &Manifest) -> Result<(), Error> {
        Ok(next.check_rotation(&self.known().manifest)?)
    }

    /// Keeps the bytes of the keys that follow these.
    pub(super) fn keep_next(&self, bytes: &[u8]) -> Result<(), Error> {
        let Some(path) = self.file("next") else {
            let mut followed = host::lock(&self.local.followed);
            if !followed.iter().any(|known| **known == bytes) {
                followed.push(Zeroizing::new(bytes.into()));
            }
            return Ok(());
        };
        let written = Draft::create_private(&path).and_then(|draft| {
            draft.file().write_all(bytes)?;
            draft.finish()
        });
        written.map_err(|error| Error::Io { path, error })
    }

    /// The bytes of the keys that follow these, at most `limit`, if this device knows any.
    pub(super) fn next(&self, limit: usize) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let Some((path, file)) = self.opened("next")? else { return Ok(None) };
        check_private(&path, &file)?;
        read(path, file, limit).map(Some)
    }

    fn file(&self, extension: &str) -> Option<PathBuf> {
        self.path.as_ref().map(|path| path.with_extension(extension))
    }

    /// The file with this extension, if there is one.
    fn opened(&self, extension: &str) -> Result<Option<(PathBuf, File)>, Error> {
        let Some(path) = self.file(extension) else { return Ok(None) };
        match File::open(&path) {
            Ok(file) => Ok(Some((path, file))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::Io { path, error }),
        }
    }

    /// The members of the last epoch that this device has seen.
    pub(crate) fn known(&self) -> Arc<Known> {
        host::lock(&self.known).clone()
    }

    /// Refuses keys that anybody but this committee holds. A later epoch, which t members of the known one
    /// and of each between have signed, is known from then on, also by the file beside the bundle.
    pub(super) fn check_custody(&self, manifest: &Manifest) -> Result<(), Error> {
        let known = self.known();
        let stated = match &manifest.custody {
            Custody::Committee(stated) if stated.epoch() != known.committee.epoch() => None,
            Custody::Committee(stated) => Some(name(stated)),
            Custody::Holder => Some("none".into()),
        };
        if let Some(stated) = stated {
            return same("committee", &stated, name(&known.committee));
        }
        let next = Known::new(manifest.clone(), manifest.follows(&known.committee)?.clone())?;
        if let Some(path) = self.file("epoch") {
            // Serialising plain data into memory does not fail.
            let json = serde_json::to_vec(manifest).unwrap_or_default();
            host::write_whole(&path, &json).map_err(|error| Error::Io { path, error })?;
        }
        *host::lock(&self.known) = Arc::new(next);
        Ok(())
    }

    /// The manifest of the last epoch that this device has seen, if it is not that of its bundle.
    pub(super) fn seen(&self) -> Result<Option<Manifest>, Error> {
        let Some((path, file)) = self.opened("epoch")? else { return Ok(None) };
        let json = read(path.clone(), file, MAX_MANIFEST_BYTES)?;
        let bad = |error: serde_json::Error| Error::Io { path, error: error.into() };
        serde_json::from_slice(&json).map(Some).map_err(bad)
    }

    /// As [`super::Device::memory`].
    pub(super) fn memory(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        let kept = host::lock(&self.local.followed);
        let followed = kept.iter().map(|bytes| &bytes[..]).collect();
        // Serialising plain data into memory does not fail.
        let manifest = serde_json::to_vec(&self.known().manifest).unwrap_or_default();
        let seen = postcard::to_allocvec(&Seen { followed, manifest: &manifest }).unwrap_or_default();
        Ok(Zeroizing::new([&MEMORY[..], self.local_key()?, &Zeroizing::new(seen)].concat()))
    }

    /// These keys with the random key and the successors of `memory`, and beside them what the device had
    /// seen, which is not checked yet.
    pub(super) fn remembering(self, memory: &[u8]) -> Result<(Self, Seen<'_>), Error> {
        let rest = memory.strip_prefix(&MEMORY).ok_or(Error::BadMemory)?;
        let (key, seen) = rest.split_first_chunk().ok_or(Error::BadMemory)?;
        let (seen, []) = postcard::take_from_bytes::<Seen>(seen).map_err(|_| Error::BadMemory)? else {
            return Err(Error::BadMemory);
        };
        let followed = seen.followed.iter().map(|&bytes| Zeroizing::new(bytes.into())).collect();
        let (key, followed) = (OnceLock::from(Zeroizing::new(*key)), Mutex::new(followed));
        let local = Local { key, path: None, followed };
        Ok((CommitteeKeys { local: Arc::new(local), ..self }, seen))
    }

    /// The id of the key that these keys follow.
    pub(super) fn follows(&self) -> Option<String> {
        self.known().committee.follows.as_ref().map(|followed| followed.key_id.clone())
    }

    /// The random key, which is made now if there is none.
    pub(super) fn local_key(&self) -> Result<&[u8; LOCAL_KEY_BYTES], Error> {
        if let Some(key) = self.local.key.get() {
            return Ok(key);
        }
        let key = match &self.local.path {
            Some(path) => load_or_create(path)?,
            None => random_key()?,
        };
        Ok(self.local.key.get_or_init(|| key))
    }
}

/// The bytes of a file, at most `limit`.
fn read(path: PathBuf, file: File, limit: usize) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut bytes = Zeroizing::new(Vec::new());
    match file.take(limit as u64).read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Error::Io { path, error }),
    }
}

/// A hash of all that a manifest says of a committee, but for the signatures of those before.
fn name(committee: &CommitteeManifest) -> String {
    let mut committee = committee.clone();
    committee.before.iter_mut().for_each(|past| past.handover.clear());
    committee.follows.iter_mut().for_each(|followed| followed.epoch.handover.clear());
    // Serialising plain data into memory does not fail.
    let json = serde_json::to_vec(&committee).unwrap_or_default();
    ckks::Hex(&blake3::hash(&json).as_bytes()[..16]).to_string()
}

fn random_key() -> Result<Zeroizing<[u8; LOCAL_KEY_BYTES]>, Error> {
    let mut key = Zeroizing::new([0; LOCAL_KEY_BYTES]);
    crate::os_rng()?.fill_bytes(&mut *key);
    Ok(key)
}

/// The key in the file at `path`, which gets its name when it is whole. Of two processes that make one, the
/// second takes that of the first.
fn load_or_create(path: &Path) -> Result<Zeroizing<[u8; LOCAL_KEY_BYTES]>, Error> {
    let io = |error| Error::Io { path: path.into(), error };
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create(path).map_err(io)?;
            File::open(path)
        }
        opened => opened,
    };
    let file = file.map_err(io)?;
    check_private(path, &file)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(LOCAL_KEY_BYTES + 1));
    file.take(LOCAL_KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    let key = bytes[..].try_into().map_err(|_| Error::LocalKey { path: path.into() })?;
    Ok(Zeroizing::new(key))
}

fn create(path: &Path) -> std::io::Result<()> {
    let mut random = [0; 8];
    let mut rng = crate::os_rng().map_err(std::io::Error::other)?;
    rng.fill_bytes(&mut random);
    let draft = path.with_extension(format!("{}.part", ckks::Hex(&random)));
    let mut key = Zeroizing::new([0; LOCAL_KEY_BYTES]);
    rng.fill_bytes(&mut *key);
    let written = host::private_file().write(true).create_new(true).open(&draft).and_then(|mut file| {
        file.write_all(&*key)?;
        file.sync_all()?;
        match std::fs::hard_link(&draft, path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => host::sync_folder_of(path),
        }
    });
    // What is left of a draft is a key that nothing was sealed under.
    let _ = std::fs::remove_file(&draft);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key is the same whoever makes it first, private, and refused when it is not whole.
    #[test]
    fn the_random_key_of_a_device_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.device");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let made = [(); 4].map(|()| scope.spawn(|| load_or_create(&path).unwrap()));
            made.into_iter().map(|key| key.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        assert_ne!(*keys[0], *random_key().unwrap());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            mode(0o644);
            assert!(matches!(load_or_create(&path), Err(Error::Permissions { .. })));
            mode(0o600);
        }
        for bad in [&keys[0][..31], &[0; 33]] {
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(load_or_create(&path), Err(Error::LocalKey { .. })));
        }
        let nowhere = folder.path().join("none").join("key.device");
        assert!(matches!(load_or_create(&nowhere), Err(Error::Io { .. })));
    }
}
