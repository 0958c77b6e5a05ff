//! Enrols users with keys of their own.

use crate::files::NewFile;
use crate::{Error, Passphrase};
use ckks_secret::MAX_SEALED_BYTES;
use rand::CryptoRng;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use wire::{EnrollerSecret, EnrolmentRequest, PublicBundle, SecretBundle, UserBundle};

/// The owner of a key pair, who enrols its users.
pub struct Owner {
    enroller: EnrollerSecret,
    public: PublicBundle,
}

impl Owner {
    /// Loads both bundles of a key pair whose users have keys of their own.
    ///
    /// # Errors
    /// [`Error::Shared`] for keys that users share; [`Error::OtherPair`] for bundles of two pairs;
    /// [`Error::Sealed`] for a sealed bundle without a passphrase, or an unsealed one with a passphrase;
    /// [`Error::Io`], [`Error::Secret`], [`Error::Wire`].
    pub fn open(secret: &Path, public: &Path, passphrase: Option<&Passphrase>) -> Result<Self, Error> {
        let bundle = open_secret(secret, passphrase)?;
        Self::new(&bundle, PublicBundle::open(public)?)
    }

    /// As [`Self::open`], of bundles in memory.
    ///
    /// # Errors
    /// [`Error::Shared`], [`Error::OtherPair`].
    pub fn new(secret: &SecretBundle, public: PublicBundle) -> Result<Self, Error> {
        let stated = public.manifest.enroller.ok_or(Error::Shared)?;
        let enroller = EnrollerSecret::of_secret_key(&secret.frame);
        let of_pair = |manifest: &wire::Manifest| {
            (manifest.ring.key_id.clone(), manifest.scores.ring.key_id.clone(), manifest.enroller)
        };
        if of_pair(&secret.manifest) != of_pair(&public.manifest) || enroller.public() != stated {
            return Err(Error::OtherPair);
        }
        Ok(Owner { enroller, public })
    }

    /// Enrols the user with this request, named `name`, from `enrolled` to `expires`, in seconds since 1970.
    ///
    /// # Errors
    /// [`Error::Wire`] for a name that is none.
    pub fn enrol<R: CryptoRng>(
        &self,
        request: &EnrolmentRequest,
        name: &str,
        times: [u64; 2],
        rng: &mut R,
    ) -> Result<UserBundle, Error> {
        let enrolment = self.enroller.enrol(request, name, self.public.key_id, times)?;
        let sealed = self.enroller.seal_pad_key(&enrolment, request, rng)?;
        Ok(UserBundle { manifest: self.public.manifest.clone(), enrolment, sealed })
    }
}

/// Writes a user's bundle to a new file, which is durable when this returns.
///
/// # Errors
/// [`Error::Exists`], [`Error::Io`], [`Error::Wire`].
pub fn create_user_bundle(path: &Path, bundle: &UserBundle) -> Result<(), Error> {
    let bytes = bundle.to_bytes()?;
    let file = NewFile::create(path, false)?;
    file.write(&bytes)?;
    file.sync()?;
    NewFile::keep([file]);
    Ok(())
}

fn open_secret(path: &Path, passphrase: Option<&Passphrase>) -> Result<SecretBundle, Error> {
    let io = |error| Error::Io { path: path.into(), error };
    let mut file = File::open(path).map_err(io)?;
    let mut start = Vec::new();
    (&file).take(ckks_secret::SEALED_MAGIC.len() as u64).read_to_end(&mut start).map_err(io)?;
    file.rewind().map_err(io)?;
    match (passphrase, start == ckks_secret::SEALED_MAGIC) {
        // Without a buffer, which would keep a copy of the key.
        (None, false) => Ok(SecretBundle::read(&mut file)?),
        (Some(passphrase), true) => {
            let mut bytes = Vec::new();
            file.take(MAX_SEALED_BYTES).read_to_end(&mut bytes).map_err(io)?;
            Ok(SecretBundle::read(&ckks_secret::unseal(&bytes, passphrase)?[..])?)
        }
        (_, sealed) => Err(Error::Sealed { path: path.into(), sealed }),
    }
}
