//! A device with the secret keys.

use super::{Device, Keys, Opening, same};
use crate::Error;
use crate::answers::{Answers, AnswersSpent, REPEAT_ANSWERS, RepeatsSpent};
use ckks::KeyId;
use ckks_secret::{LweSecret, MAX_SEALED_BYTES, SecretKey};
use protocol::{LWE_DIMENSION, Shape};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use wire::{AccessToken, SecretBundle};

/// The secret keys of both rings, and the counts of what was told about decryptions under them.
pub(crate) struct SecretKeys {
    /// The key of the large ring.
    pub(crate) deep: SecretKey,
    /// The key of the ring of scores.
    pub(crate) small: SecretKey,
    /// The secret of bootstrapping keys, if the bundle has them.
    pub(crate) lwe: Option<LweSecret>,
    pub(crate) answers: Answers,
    repeats: Answers,
}

impl SecretKeys {
    /// Keeps the counts in files beside the bundle at `path`.
    pub(super) fn beside(self, path: &Path) -> Self {
        let SecretKeys { answers, repeats, .. } = self;
        SecretKeys { answers: answers.beside(path), repeats: repeats.beside(path), ..self }
    }

    pub(super) fn may_repeat(&self) -> Result<bool, Error> {
        // What trace answers and repeats tell adds up.
        let left = crate::most_answers(self.deep.params()).saturating_sub(self.answers.most());
        self.repeats.count_within(left / REPEAT_ANSWERS)
    }
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
        let (params, small) = (secret.params().clone(), scores.0.params().clone());
        let keys = SecretKeys { deep: secret, small: scores.0, lwe: None, answers, repeats };
        let keys = Keys::Secret(Box::new(keys));
        Device { params, key_id, small, scores_key_id: scores.1, shape, token, keys, former: Vec::new() }
    }

    /// Reads the file of a bundle, sealed or not.
    pub(super) fn unsealed(path: &Path, file: File, sealed: bool, opening: &Opening) -> Result<Self, Error> {
        // Without a buffer, which would keep a copy of the key.
        match (&opening.passphrase, sealed) {
            (None, false) => Self::read(file),
            (Some(passphrase), true) => {
                let mut bytes = Vec::new();
                let io = |error| Error::Io { path: path.into(), error };
                file.take(MAX_SEALED_BYTES).read_to_end(&mut bytes).map_err(io)?;
                Self::read(&ckks_secret::unseal(&bytes, passphrase)?[..])
            }
            (_, sealed) => Err(Error::Sealed { path: path.into(), sealed }),
        }
    }

    pub(super) fn with_secrets(bundle: SecretBundle) -> Result<Self, Error> {
        let (secret, key_id) = SecretKey::from_bytes(&bundle.params, &bundle.frame)?;
        bundle.manifest.check_key(key_id)?;
        let scores = SecretKey::from_bytes(&bundle.scores.params, &bundle.scores.frame)?;
        bundle.manifest.scores.check_key(scores.1)?;
        let lwe = match (&bundle.manifest.bootstraps, &bundle.bootstraps) {
            (Some(stated), Some(frame)) => {
                let want = stated.check_generation(scores.1)?;
                let lwe = LweSecret::from_bytes(LWE_DIMENSION, frame, scores.1)?;
                same("id of bootstrapping keys", &lwe.id().to_string(), want.to_string())?;
                Some(lwe)
            }
            _ => None,
        };
        let mut device = Self::new(secret, key_id, scores, bundle.manifest.shape, bundle.token);
        if let Keys::Secret(keys) = &mut device.keys {
            keys.lwe = lwe;
        }
        Ok(device)
    }

    /// Allows `most` trace answers under this key, or [`crate::most_answers`] if that is less. By default a
    /// device gives no answer, because it knows the schedule of a bandit only from the server. If devices
    /// share a key, each must take its part of the bound. A device without a secret key never answers.
    pub fn with_most_answers(mut self, most: u64) -> Self {
        if let Keys::Secret(keys) = &mut self.keys {
            keys.answers.allow(most);
        }
        self
    }

    /// Allows to ask again for `most` decisions under this key, or [`crate::most_repeats`] if that is less;
    /// by default [`crate::DEFAULT_REPEATS`]. A repeat tells the server that an answer could not be relied
    /// on, which is a bit of a decryption. If devices share a key, each must take its part of the bound. A
    /// device that allows trace answers asks again only for what these leave of their bound. A device without
    /// a secret key never asks again.
    pub fn with_most_repeats(mut self, most: u64) -> Self {
        if let Keys::Secret(keys) = &mut self.keys {
            keys.repeats.allow(most);
        }
        self
    }

    /// The notice for the user that the key has reached its limit of repeats. It is returned once.
    pub fn repeats_spent(&self) -> Option<RepeatsSpent> {
        self.secret()?.repeats.notice().map(|given| RepeatsSpent { given })
    }

    /// The notice for the user that the key has reached its limit of trace answers. It is returned once.
    pub fn answers_spent(&self) -> Option<AnswersSpent> {
        self.secret()?.answers.notice().map(|given| AnswersSpent { given })
    }

    /// The secret keys, if this device has them.
    pub(crate) fn secret(&self) -> Option<&SecretKeys> {
        match &self.keys {
            Keys::Secret(keys) => Some(keys),
            Keys::Committee(_) => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn replace_answers(&mut self, answers: Answers) {
        if let Keys::Secret(keys) = &mut self.keys {
            keys.answers = answers;
        }
    }
}
