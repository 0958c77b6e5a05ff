use crate::Error;
use ckks::{KeyId, Params, Plaintext};
use ckks_secret::SecretKey;
use helba::{Layout, Shape};
use num_complex::Complex64;
use rand::CryptoRng;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use wire::{AccessToken, BundleKind, BundleReader, Created, Limits, SecretBundle};

/// A device with the secret key. No Debug, no Clone.
pub struct Device {
    secret: SecretKey,
    key_id: KeyId,
    shape: Shape,
    token: AccessToken,
}

/// What a device has checked about a bandit.
pub(crate) struct Agreement {
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
}

impl Device {
    /// With keys made in this process.
    pub fn new(secret: SecretKey, key_id: KeyId, shape: Shape, token: AccessToken) -> Self {
        Device { secret, key_id, shape, token }
    }

    /// Loads a secret bundle. On Unix the file must be its owner's alone.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permissions`]; as [`Self::read`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::Io { path: path.into(), error };
        let mut file = File::open(path).map_err(io)?;
        // What it is before who may read it: a public bundle may be everybody's.
        BundleReader::of_kind(BundleKind::Secret, &file)?;
        #[cfg(unix)]
        {
            let mode =
                std::os::unix::fs::PermissionsExt::mode(&file.metadata().map_err(io)?.permissions()) & 0o777;
            if mode & 0o077 != 0 {
                return Err(Error::Permissions { path: path.into(), mode });
            }
        }
        file.rewind().map_err(io)?;
        // Unbuffered: a buffer would keep a copy of the key.
        Self::read(file)
    }

    /// Reads a secret bundle.
    ///
    /// # Errors
    /// [`Error::Wire`] for what is not one (a public bundle among it), [`Error::Secret`] for its content.
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let bundle = SecretBundle::read(input)?;
        let (secret, key_id) = SecretKey::from_bytes(&bundle.params, &bundle.frame)?;
        bundle.manifest.check_key(key_id)?;
        Ok(Device { secret, key_id, shape: bundle.manifest.shape, token: bundle.token })
    }

    /// The parameters of its key.
    pub fn params(&self) -> &Params {
        self.secret.params()
    }

    /// Names its key.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// What its key was made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Admits this device to the server, through [`Client::with_token`](crate::Client::with_token).
    pub fn token(&self) -> &AccessToken {
        &self.token
    }

    /// What the messages of a bandit may weigh.
    ///
    /// # Errors
    /// [`Error::WrongKeys`], [`Error::PlanMismatch`], [`Error::Helba`] if it is not a bandit of this key.
    pub fn limits(&self, created: &Created) -> Result<Limits, Error> {
        Ok(self.agree(created)?.limits)
    }

    pub(crate) fn secret(&self) -> &SecretKey {
        &self.secret
    }

    /// That `created` is a bandit of this key, and that its plan follows from its configuration: levels are never the
    /// server's choice.
    pub(crate) fn agree(&self, created: &Created) -> Result<Agreement, Error> {
        let same = |what, got: &str, want: String| {
            if got == want {
                Ok(())
            } else {
                Err(Error::WrongKeys { what, got: got.chars().take(64).collect(), want })
            }
        };
        same("fingerprint", &created.fingerprint, self.params().fingerprint().to_string())?;
        same("key id", &created.key_id, self.key_id.to_string())?;
        if created.config.plan(self.params(), self.shape)? != created.plan {
            return Err(Error::PlanMismatch);
        }
        Ok(Agreement {
            layout: Layout::new(&created.config, &created.plan),
            limits: Limits::new(self.params(), &created.plan)?,
        })
    }

    /// Encodes and encrypts: the frame of a seeded ciphertext at `level`.
    pub(crate) fn encrypt<R: CryptoRng>(
        &self,
        slots: &[Complex64],
        level: usize,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let message = Plaintext::encode(self.params(), slots, level)?;
        Ok(ckks_secret::encrypt(&self.secret, &message, rng).to_bytes(&self.secret, self.key_id))
    }
}
