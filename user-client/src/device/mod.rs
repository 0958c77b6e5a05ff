//! The keys of a device, and the bundle that they come from.

mod committee;
#[cfg(feature = "secret")]
mod secret;

pub(crate) use committee::CommitteeKeys;
#[cfg(feature = "secret")]
pub(crate) use secret::SecretKeys;

use crate::Error;
use ckks::{KeyId, Params, Security};
use protocol::Shape;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use wire::{AccessToken, BundleKind, BundleReader, Manifest, ProblemType, Successor, UsersBundle};
use zeroize::Zeroizing;

/// A device: with the secret key, or without one where a committee holds the key. It has no Debug and no
/// Clone.
pub struct Device {
    params: Params,
    key_id: KeyId,
    /// The parameters of the ring of scores.
    small: Params,
    scores_key_id: KeyId,
    shape: Shape,
    token: AccessToken,
    keys: Keys,
    /// The keys that a rotation of the committee has ended, which this device had.
    former: Vec<KeyId>,
}

/// What a device encrypts and decrypts with.
pub(crate) enum Keys {
    /// The secret keys.
    #[cfg(feature = "secret")]
    Secret(Box<SecretKeys>),
    /// The public key of a committee.
    Committee(Box<CommitteeKeys>),
}

/// Options for opening a bundle.
#[derive(Default)]
pub struct Opening {
    /// Whether keys without security are accepted, for tests.
    pub toy: bool,
    /// The passphrase of a sealed bundle.
    #[cfg(feature = "secret")]
    pub passphrase: Option<crate::Passphrase>,
}

/// The kind of bundle that [`Device::read`] asks for if it is given one for nobody's device.
const WANTED: BundleKind = if cfg!(feature = "secret") { BundleKind::Secret } else { BundleKind::Users };

impl Device {
    /// Loads a secret bundle, or the users' bundle of a key committee. On Unix, only the owner may be able to
    /// read the file, because it holds a token. Beside it are kept: trace answers in `KEY-ID.answers` and
    /// repeats in `KEY-ID.repeats`, where there is a secret key; what [`Self::derive_key`] takes from in
    /// `KEY-ID.device`, the last epoch of the committee in `KEY-ID.epoch`, and the keys after a rotation in
    /// `KEY-ID.next`, with which the device goes on, where there is none.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permissions`], [`Error::Toy`]; [`Error::Sealed`] for a sealed bundle without a
    /// passphrase, or an unsealed one with a passphrase; [`Error::Secret`] for a wrong passphrase; as
    /// [`Self::read`].
    pub fn open(path: &Path, opening: &Opening) -> Result<Self, Error> {
        let io = |error| Error::Io { path: path.into(), error };
        let mut file = File::open(path).map_err(io)?;
        let sealed = is_sealed(&file).map_err(io)?;
        file.rewind().map_err(io)?;
        if !sealed {
            // The kind is checked before the permissions, because everybody may read a public bundle.
            for_devices(BundleReader::new(&file)?.kind())?;
        }
        check_private(path, &file)?;
        file.rewind().map_err(io)?;
        let device = Self::unsealed(path, file, sealed, opening)?;
        if device.params.spec().security == Security::None && !opening.toy {
            return Err(Error::Toy { path: path.into() });
        }
        let mut device = device.beside(path);
        loop {
            let Keys::Committee(keys) = &device.keys else { return Ok(device) };
            if let Some(seen) = keys.seen()? {
                device.check_seen(&seen)?;
            }
            match keys.next(device.longest_successor())? {
                Some(bytes) => device = device.after(keys, &bytes)?,
                None => return Ok(device),
            }
        }
    }

    /// The most bytes of what [`Self::followed_by`] takes.
    pub fn longest_successor(&self) -> usize {
        Successor::most_bytes(&self.small)
    }

    /// The device with the keys that follow its own after a rotation of its committee, from the bytes of a
    /// [`Successor`]. They are kept in `KEY-ID.next` beside the bundle, so that the device is opened with
    /// them from then on, or, by a device without files, in what [`Self::memory`] returns. Bandits that it
    /// has joined are joined again.
    ///
    /// # Errors
    /// [`wire::Error::Manifest`] and [`wire::Error::Envelope`] for keys that fewer than t members of the
    /// committee signed, in the last epoch that this device knows; as [`Self::check_manifest`] for keys that
    /// follow others; [`Error::NotOfCommittee`]; [`Error::Io`].
    pub fn followed_by(&self, successor: &[u8]) -> Result<Device, Error> {
        let Keys::Committee(keys) = &self.keys else { return Err(Error::NotOfCommittee) };
        let next = self.after(keys, successor)?;
        keys.keep_next(successor)?;
        Ok(next)
    }

    /// Whether a server that answers a request for a successor with this status has none: it does not know
    /// the token, or nobody has rotated.
    pub fn has_no_successor(status: u16) -> bool {
        [401, 403, 404].contains(&status)
    }

    /// What a device that was read from bytes ([`Self::read`]) keeps where a committee holds the key, in the
    /// place of the files of [`Self::open`]: what [`Self::derive_key`] takes from, the last epoch of the
    /// committee, and the keys after rotations. It is secret, because the device unseals its decisions with
    /// it.
    ///
    /// # Errors
    /// [`Error::NotOfCommittee`]; as [`Self::derive_key`].
    pub fn memory(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        let Keys::Committee(keys) = &self.keys else { return Err(Error::NotOfCommittee) };
        keys.memory()
    }

    /// This device, which [`Self::read`] made, with what [`Self::memory`] returned: for its bundle, for one
    /// whose keys these follow, or for that of the keys that follow its own or that these follow.
    ///
    /// # Errors
    /// [`Error::NotOfCommittee`]; [`Error::BadMemory`] for bytes that are no memory; [`Error::OtherMemory`]
    /// for the memory of other keys; [`Error::Wire`] for a rotation or an epoch in it that too few members
    /// signed; [`Error::WrongKeys`].
    pub fn remembering(self, memory: &[u8]) -> Result<Device, Error> {
        let (keys, seen) = match self.keys {
            Keys::Committee(keys) => keys.remembering(memory)?,
            #[cfg(feature = "secret")]
            Keys::Secret(_) => return Err(Error::NotOfCommittee),
        };
        let follows = keys.follows();
        let mut device = Device { keys: Keys::Committee(Box::new(keys)), ..self };
        for bytes in &seen.followed {
            let before = Successor::read(bytes, device.longest_successor())?.before.key()?;
            match before == device.key_id {
                true => device = device.followed_by(bytes)?,
                // The bundle is of later keys.
                false => device.former.push(before),
            }
        }
        let manifest = seen.manifest()?;
        let (memory, now) = (manifest.key()?, device.key_id);
        if memory == now {
            device.check_seen(&manifest)?;
        } else if follows.is_some_and(|before| before == memory.to_string()) {
            device.former.push(memory);
        } else {
            return Err(Error::OtherMemory { memory: memory.to_string(), now: now.to_string() });
        }
        Ok(device)
    }

    /// Notes an epoch that the device has seen before, unless it has a later one already.
    fn check_seen(&self, seen: &Manifest) -> Result<(), Error> {
        match self.check_manifest(seen) {
            Ok(()) | Err(Error::Wire(wire::Error::OldEpoch { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn after(&self, keys: &CommitteeKeys, successor: &[u8]) -> Result<Device, Error> {
        let Successor { before, users } = Successor::read(successor, self.longest_successor())?;
        // A later epoch of these keys is known first.
        self.check_manifest(&before)?;
        keys.check_rotation(&users.manifest)?;
        same("fingerprint", &users.manifest.fingerprint, self.params.fingerprint().to_string())?;
        same(
            "fingerprint of scores",
            &users.manifest.scores.fingerprint,
            self.small.fingerprint().to_string(),
        )?;
        let Device { params, key_id, small, scores_key_id, shape, token, keys: next, .. } =
            Self::of_committee(users)?;
        same("shape", &shape.to_string(), self.shape.to_string())?;
        let next = match next {
            Keys::Committee(next) => Keys::Committee(Box::new(next.after(keys, key_id))),
            #[cfg(feature = "secret")]
            Keys::Secret(_) => return Err(Error::NotOfCommittee),
        };
        let former = self.former.iter().copied().chain([self.key_id]).collect();
        Ok(Device { params, key_id, small, scores_key_id, shape, token, keys: next, former })
    }

    /// The error of a feedback on a decision that the server gave out: if it does not know the decision, and
    /// this device has followed a rotation, the decision is one of before.
    pub fn explained(&self, error: Error) -> Error {
        match (&error, self.former.last()) {
            (Error::Refused(problem), Some(before))
                if problem.reason.as_deref() == Some(ProblemType::UnknownDecision.reason()) =>
            {
                Error::Rotated { before: before.to_string(), now: self.key_id.to_string() }
            }
            _ => error,
        }
    }

    /// Refuses what was made under keys that a rotation has ended, which this device had.
    pub(crate) fn check_not_former(&self, key_id: &str) -> Result<(), Error> {
        match self.former.iter().map(KeyId::to_string).any(|former| former == key_id) {
            true => Err(Error::Rotated { before: key_id.into(), now: self.key_id.to_string() }),
            false => Ok(()),
        }
    }

    /// Reads the file of a bundle, which has no passphrase here.
    #[cfg(not(feature = "secret"))]
    fn unsealed(_: &Path, file: File, _: bool, _: &Opening) -> Result<Self, Error> {
        Self::read(file)
    }

    /// Reads a secret bundle or the users' bundle of a committee, also of toy keys. What [`Self::open`] keeps
    /// in files is kept in memory, and lost with the device.
    ///
    /// # Errors
    /// [`Error::Wire`] for bytes that are no such bundle, [`Error::Secret`] for its content.
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let reader = BundleReader::new(input)?;
        match for_devices(reader.kind())? {
            #[cfg(feature = "secret")]
            BundleKind::Secret => Self::with_secrets(wire::SecretBundle::read_from(reader)?),
            _ => Self::of_committee(UsersBundle::read_from(reader)?),
        }
    }

    fn of_committee(bundle: UsersBundle) -> Result<Self, Error> {
        let key_id = bundle.manifest.key()?;
        let UsersBundle { manifest, committee, params, small, public_key, key_id: scores_key_id, token } =
            bundle;
        let shape = manifest.shape;
        let keys = CommitteeKeys::new(public_key, manifest, committee)?;
        let (keys, former) = (Keys::Committee(Box::new(keys)), Vec::new());
        Ok(Device { params, key_id, small, scores_key_id, shape, token, keys, former })
    }

    /// Keeps what must outlive the process beside the bundle at `path`.
    fn beside(self, path: &Path) -> Self {
        let keys = match self.keys {
            #[cfg(feature = "secret")]
            Keys::Secret(keys) => Keys::Secret(Box::new(keys.beside(path))),
            Keys::Committee(keys) => Keys::Committee(Box::new(keys.beside(path, self.key_id))),
        };
        Device { keys, ..self }
    }

    /// Whether the device may ask again for another decision, at most 12 times for this one. If so, it is
    /// counted on disk before this returns. [`crate::BanditDevice::decide`] asks by itself; this is for
    /// programs that speak HTTP themselves. Where a committee holds the key, nobody asks again: what members
    /// open is counted.
    ///
    /// # Errors
    /// [`Error::RepeatCount`].
    pub fn may_repeat(&self) -> Result<bool, Error> {
        match &self.keys {
            #[cfg(feature = "secret")]
            Keys::Secret(keys) => keys.may_repeat(),
            Keys::Committee(_) => Ok(false),
        }
    }

    /// The parameters of the large ring.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The id of the key pair.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The parameters of the ring of scores.
    pub(crate) fn small(&self) -> &Params {
        &self.small
    }

    /// The id of the key pair of the ring of scores.
    pub fn scores_key_id(&self) -> KeyId {
        self.scores_key_id
    }

    /// The shape of the keys.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The access token of the bundle, for [`Client::with_token`](crate::Client::with_token).
    pub fn token(&self) -> &AccessToken {
        &self.token
    }

    /// Whether a committee holds the key, and this device has no secret one.
    pub fn is_of_committee(&self) -> bool {
        matches!(self.keys, Keys::Committee(_))
    }

    /// Checks that the server with this manifest has the public half of the keys of this device, in both
    /// rings, and the same committee if there is one, or a later epoch of it that t of its members have
    /// signed, which the device knows from then on.
    ///
    /// # Errors
    /// [`Error::WrongKeys`]; [`wire::Error::OldEpoch`] and [`wire::Error::Epoch`] for another epoch of the
    /// committee; [`Error::Io`].
    pub fn check_manifest(&self, manifest: &Manifest) -> Result<(), Error> {
        same("fingerprint", &manifest.fingerprint, self.params.fingerprint().to_string())?;
        same("key id", &manifest.key_id, self.key_id.to_string())?;
        let stated = &manifest.scores;
        same("fingerprint of scores", &stated.fingerprint, self.small.fingerprint().to_string())?;
        same("key id of scores", &stated.key_id, self.scores_key_id.to_string())?;
        match &self.keys {
            #[cfg(feature = "secret")]
            Keys::Secret(_) => Ok(()),
            Keys::Committee(keys) => keys.check_custody(manifest),
        }
    }

    /// A key of 32 bytes for data that this device keeps. `context` is a constant of the program, such as
    /// `"NAME YEAR PURPOSE"`. The server cannot compute it: it is the BLAKE3 derivation of `context` from the
    /// secret key, or where a committee holds the key, from a random key of this device, which is made at the
    /// first call.
    ///
    /// # Errors
    /// [`Error::LocalKey`], [`Error::Io`] and [`Error::Permissions`] for the file of the random key;
    /// [`Error::Randomness`].
    pub fn derive_key(&self, context: &'static str) -> Result<Zeroizing<[u8; 32]>, Error> {
        Ok(Zeroizing::new(match &self.keys {
            #[cfg(feature = "secret")]
            Keys::Secret(keys) => blake3::derive_key(context, &keys.deep.to_bytes(self.key_id)),
            Keys::Committee(keys) => blake3::derive_key(context, keys.local_key()?),
        }))
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }
}

/// Refuses the kinds of bundles that no device has.
fn for_devices(kind: BundleKind) -> Result<BundleKind, Error> {
    match kind {
        BundleKind::Users => Ok(kind),
        #[cfg(feature = "secret")]
        BundleKind::Secret => Ok(kind),
        _ => Err(wire::Error::WrongBundle { want: WANTED }.into()),
    }
}

#[cfg(feature = "secret")]
fn is_sealed(file: &File) -> std::io::Result<bool> {
    let mut start = Vec::new();
    file.take(ckks_secret::SEALED_MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == ckks_secret::SEALED_MAGIC)
}

#[cfg(not(feature = "secret"))]
fn is_sealed(_: &File) -> std::io::Result<bool> {
    Ok(false)
}

/// Refuses a file that other users can read.
fn check_private(path: &Path, file: &File) -> Result<(), Error> {
    host::check_private(path, file).map_err(|error| Error::file(path, error))
}

/// Refuses a bandit or a server whose id or fingerprint is `got` instead of `want`.
pub(crate) fn same(what: &'static str, got: &str, want: String) -> Result<(), Error> {
    if got == want {
        Ok(())
    } else {
        Err(Error::WrongKeys { what, got: got.chars().take(64).collect(), want })
    }
}
