use crate::Error;
use crate::answers::{Answers, AnswersSpent};
use ckks::{KeyId, Params, Plaintext, Security};
use ckks_secret::{MAX_SEALED_BYTES, Passphrase, SecretKey};
use num_complex::Complex64;
use protocol::{Layout, Shape};
use rand::CryptoRng;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use wire::{AccessToken, BundleKind, BundleReader, Created, Limits, SecretBundle};
use zeroize::Zeroizing;

/// A device with the secret key. No Debug, no Clone.
pub struct Device {
    secret: SecretKey,
    key_id: KeyId,
    shape: Shape,
    token: AccessToken,
    answers: Answers,
}

/// Options for opening a secret bundle.
#[derive(Default)]
pub struct Opening {
    /// Accepts keys without security, for tests.
    pub toy: bool,
    /// The passphrase of a sealed bundle.
    pub passphrase: Option<Passphrase>,
}

/// The layout and limits of a bandit whose keys and plan a device has checked.
pub(crate) struct Agreement {
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
}

impl Device {
    /// With keys made in this process. Trace answers are counted in memory, as long as the device lives.
    pub fn new(secret: SecretKey, key_id: KeyId, shape: Shape, token: AccessToken) -> Self {
        let answers = Answers::new(key_id, secret.params());
        Device { secret, key_id, shape, token, answers }
    }

    /// Loads a secret bundle. On Unix the file must be its owner's alone. Trace answers are counted in a file
    /// beside it, `KEY-ID.answers`.
    ///
    /// # Errors
    /// As [`Self::open_with`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, &Opening::default())
    }

    /// As [`Self::open`], with options.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permissions`], [`Error::Toy`]; [`Error::Sealed`] for a sealed bundle without a
    /// passphrase, and one that is not sealed with one; [`Error::Secret`] for a passphrase that does not open
    /// it; as [`Self::read`].
    pub fn open_with(path: &Path, opening: &Opening) -> Result<Self, Error> {
        let io = |error| Error::Io { path: path.into(), error };
        let mut file = File::open(path).map_err(io)?;
        let mut start = Vec::new();
        (&file).take(ckks_secret::SEALED_MAGIC.len() as u64).read_to_end(&mut start).map_err(io)?;
        let sealed = start == ckks_secret::SEALED_MAGIC;
        file.rewind().map_err(io)?;
        if !sealed {
            // The kind of bundle is checked before its permissions: everybody may read a public bundle.
            BundleReader::of_kind(BundleKind::Secret, &file)?;
        }
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
        let mut device = match (&opening.passphrase, sealed) {
            (None, false) => Self::read(file)?,
            (Some(passphrase), true) => {
                let mut bytes = Vec::new();
                file.take(MAX_SEALED_BYTES).read_to_end(&mut bytes).map_err(io)?;
                Self::read(&ckks_secret::unseal(&bytes, passphrase)?[..])?
            }
            (_, sealed) => return Err(Error::Sealed { path: path.into(), sealed }),
        };
        if device.params().spec().security == Security::None && !opening.toy {
            return Err(Error::Toy { path: path.into() });
        }
        device.answers = device.answers.beside(path);
        Ok(device)
    }

    /// Reads a secret bundle, of a toy too. Trace answers are counted in memory, as long as the device lives.
    ///
    /// # Errors
    /// [`Error::Wire`] for what is not one (a public bundle among it), [`Error::Secret`] for its content.
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let bundle = SecretBundle::read(input)?;
        let (secret, key_id) = SecretKey::from_bytes(&bundle.params, &bundle.frame)?;
        bundle.manifest.check_key(key_id)?;
        Ok(Self::new(secret, key_id, bundle.manifest.shape, bundle.token))
    }

    /// Allows `most` trace answers under this key, or [`crate::most_answers`] if that is fewer. A device
    /// gives none unless this is said: a bandit's schedule is the server's word. Where devices share a key,
    /// each takes its part.
    pub fn with_most_answers(mut self, most: u64) -> Self {
        self.answers = self.answers.at_most(most);
        self
    }

    /// The notice for the user, the first time that a trace question went unanswered because the key has
    /// reached its limit.
    pub fn answers_spent(&self) -> Option<AnswersSpent> {
        self.answers.notice()
    }

    /// The parameters of its key.
    pub fn params(&self) -> &Params {
        self.secret.params()
    }

    /// The name of its key pair.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The shape that its key was made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Admits this device to the server, through [`Client::with_token`](crate::Client::with_token).
    pub fn token(&self) -> &AccessToken {
        &self.token
    }

    /// The largest sizes of a bandit's messages.
    ///
    /// # Errors
    /// [`Error::WrongKeys`], [`Error::PlanMismatch`], [`Error::Protocol`] if it is not a bandit of this key.
    pub fn limits(&self, created: &Created) -> Result<Limits, Error> {
        Ok(self.agree(created)?.limits)
    }

    #[cfg(test)]
    pub(crate) fn replace_answers(&mut self, answers: Answers) {
        self.answers = answers;
    }

    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    pub(crate) fn secret(&self) -> &SecretKey {
        &self.secret
    }

    /// Checks that `created` is a bandit of this key and that its plan follows from its configuration. Levels
    /// are never the server's choice.
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
        let message = Zeroizing::new(Plaintext::encode(self.params(), slots, level)?);
        Ok(ckks_secret::encrypt(&self.secret, &message, rng).to_bytes(&self.secret, self.key_id))
    }
}
