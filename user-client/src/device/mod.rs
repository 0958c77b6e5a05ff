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
use wire::{AccessToken, BundleKind, BundleReader, Manifest, UsersBundle};
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
    /// `KEY-ID.device`, and the last epoch of the committee in `KEY-ID.epoch`, where there is none.
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
        let device = device.beside(path);
        if let Keys::Committee(keys) = &device.keys
            && let Some(seen) = keys.seen()?
        {
            match device.check_manifest(&seen) {
                // The bundle is of a later epoch.
                Ok(()) | Err(Error::Wire(wire::Error::OldEpoch { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(device)
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
        let keys = CommitteeKeys::new(public_key, committee)?;
        let keys = Keys::Committee(Box::new(keys));
        Ok(Device { params, key_id, small, scores_key_id, shape: manifest.shape, token, keys })
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
    #[cfg(unix)]
    {
        let metadata = file.metadata().map_err(|error| Error::Io { path: path.into(), error })?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            return Err(Error::Permissions { path: path.into(), mode });
        }
    }
    #[cfg(not(unix))]
    let _ = (path, file);
    Ok(())
}

/// Refuses a bandit or a server whose id or fingerprint is `got` instead of `want`.
pub(crate) fn same(what: &'static str, got: &str, want: String) -> Result<(), Error> {
    if got == want {
        Ok(())
    } else {
        Err(Error::WrongKeys { what, got: got.chars().take(64).collect(), want })
    }
}
