use crate::Error;
use crate::answers::{Answers, AnswersSpent, REPEAT_ANSWERS, RepeatsSpent};
use ckks::{KeyId, Params, Security};
use ckks_secret::{MAX_SEALED_BYTES, Passphrase, SecretKey};
use protocol::Shape;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use wire::{AccessToken, BundleKind, BundleReader, Manifest, SecretBundle};
use zeroize::Zeroizing;

/// A device with the secret key. It has no Debug and no Clone.
pub struct Device {
    secret: SecretKey,
    key_id: KeyId,
    /// The secret key of the ring of scores with its id.
    scores: (SecretKey, KeyId),
    shape: Shape,
    token: AccessToken,
    answers: Answers,
    repeats: Answers,
}

/// Options for opening a secret bundle.
#[derive(Default)]
pub struct Opening {
    /// Whether keys without security are accepted, for tests.
    pub toy: bool,
    /// The passphrase of a sealed bundle.
    pub passphrase: Option<Passphrase>,
}

impl Device {
    /// A device with keys that were generated in this process, `scores` those of the ring of scores. Trace
    /// answers and repeats are counted in memory.
    pub fn new(
        secret: SecretKey,
        key_id: KeyId,
        scores: (SecretKey, KeyId),
        shape: Shape,
        token: AccessToken,
    ) -> Self {
        let answers = Answers::new(key_id, secret.params());
        let repeats = Answers::of_repeats(key_id, secret.params());
        Device { secret, key_id, scores, shape, token, answers, repeats }
    }

    /// Loads a secret bundle. On Unix, only the owner may be able to read the file. Trace answers are counted
    /// in the file `KEY-ID.answers` beside it, and repeats in `KEY-ID.repeats`.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permissions`], [`Error::Toy`]; [`Error::Sealed`] for a sealed bundle without a
    /// passphrase, or an unsealed one with a passphrase; [`Error::Secret`] for a wrong passphrase; as
    /// [`Self::read`].
    pub fn open(path: &Path, opening: &Opening) -> Result<Self, Error> {
        let io = |error| Error::Io { path: path.into(), error };
        let mut file = File::open(path).map_err(io)?;
        let mut start = Vec::new();
        (&file).take(ckks_secret::SEALED_MAGIC.len() as u64).read_to_end(&mut start).map_err(io)?;
        let sealed = start == ckks_secret::SEALED_MAGIC;
        file.rewind().map_err(io)?;
        if !sealed {
            // The kind is checked before the permissions, because everybody may read a public bundle.
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
        // Without a buffer, which would keep a copy of the key.
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
        device.repeats = device.repeats.beside(path);
        Ok(device)
    }

    /// Reads a secret bundle, also of toy keys. Trace answers and repeats are counted in memory.
    ///
    /// # Errors
    /// [`Error::Wire`] for bytes that are no secret bundle, [`Error::Secret`] for its content.
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let bundle = SecretBundle::read(input)?;
        let (secret, key_id) = SecretKey::from_bytes(&bundle.params, &bundle.frame)?;
        bundle.manifest.check_key(key_id)?;
        let scores = SecretKey::from_bytes(&bundle.scores.params, &bundle.scores.frame)?;
        bundle.manifest.scores.check_key(scores.1)?;
        Ok(Self::new(secret, key_id, scores, bundle.manifest.shape, bundle.token))
    }

    /// Allows `most` trace answers under this key, or [`crate::most_answers`] if that is less. By default a
    /// device gives no answer, because it knows the schedule of a bandit only from the server. If devices
    /// share a key, each must take its part of the bound.
    pub fn with_most_answers(mut self, most: u64) -> Self {
        self.answers = self.answers.at_most(most);
        self
    }

    /// Allows to ask again for `most` decisions under this key, or [`crate::most_repeats`] if that is less;
    /// by default [`crate::DEFAULT_REPEATS`]. A repeat tells the server that an answer could not be relied
    /// on, which is a bit of a decryption. If devices share a key, each must take its part of the bound. A
    /// device that allows trace answers asks again only for what these leave of their bound.
    pub fn with_most_repeats(mut self, most: u64) -> Self {
        self.repeats = self.repeats.at_most(most);
        self
    }

    /// The notice for the user that the key has reached its limit of repeats. It is returned once.
    pub fn repeats_spent(&self) -> Option<RepeatsSpent> {
        self.repeats.notice().map(|given| RepeatsSpent { given })
    }

    /// Whether the device may ask again for another decision, at most 12 times for this one. If so, it is
    /// counted on disk before this returns. [`crate::BanditDevice::decide`] asks by itself; this is for
    /// programs that speak HTTP themselves.
    ///
    /// # Errors
    /// [`Error::RepeatCount`].
    pub fn may_repeat(&self) -> Result<bool, Error> {
        // What trace answers and repeats tell adds up.
        let left = crate::most_answers(self.params()).saturating_sub(self.answers.most());
        self.repeats.count_within(left / REPEAT_ANSWERS)
    }

    /// The notice for the user that the key has reached its limit of trace answers. It is returned once.
    pub fn answers_spent(&self) -> Option<AnswersSpent> {
        self.answers.notice().map(|given| AnswersSpent { given })
    }

    /// The parameters of the key.
    pub fn params(&self) -> &Params {
        self.secret.params()
    }

    /// The id of the key pair.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The id of the key pair of the ring of scores.
    pub fn scores_key_id(&self) -> KeyId {
        self.scores.1
    }

    /// The shape of the keys.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The access token of the secret bundle, for [`Client::with_token`](crate::Client::with_token).
    pub fn token(&self) -> &AccessToken {
        &self.token
    }

    /// Checks that the server with this manifest has the public half of the keys of this device, in both
    /// rings.
    ///
    /// # Errors
    /// [`Error::WrongKeys`].
    pub fn check_manifest(&self, manifest: &Manifest) -> Result<(), Error> {
        same("fingerprint", &manifest.fingerprint, self.params().fingerprint().to_string())?;
        same("key id", &manifest.key_id, self.key_id.to_string())?;
        let ((small, id), stated) = (self.scores(), &manifest.scores);
        same("fingerprint of scores", &stated.fingerprint, small.params().fingerprint().to_string())?;
        same("key id of scores", &stated.key_id, id.to_string())
    }

    /// A key of 32 bytes for data that this device keeps: the BLAKE3 derivation of `context` from the secret
    /// key. `context` is a constant of the program, such as `"NAME YEAR PURPOSE"`. The server cannot compute
    /// it: it knows the access token, and not the secret key.
    pub fn derive_key(&self, context: &'static str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(context, &self.secret.to_bytes(self.key_id)))
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

    /// The secret key of the ring of scores with its id.
    pub(crate) fn scores(&self) -> (&SecretKey, KeyId) {
        (&self.scores.0, self.scores.1)
    }
}

/// Refuses a bandit or a server whose id or fingerprint is `got` instead of `want`.
pub(crate) fn same(what: &'static str, got: &str, want: String) -> Result<(), Error> {
    if got == want {
        Ok(())
    } else {
        Err(Error::WrongKeys { what, got: got.chars().take(64).collect(), want })
    }
}
