//! The keys of a device, and the bundle that they come from.

use crate::Error;
use crate::answers::{Answers, AnswersSpent, REPEAT_ANSWERS, RepeatsSpent};
use ckks::{KeyId, Params, Security};
use ckks_secret::{MAX_SEALED_BYTES, SecretKey};
use protocol::{Exchanging, Rings, Shape, Updates};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use wire::{AccessToken, BundleKind, BundleReader, Manifest, SecretBundle};
use zeroize::Zeroizing;

/// A device with the secret keys. It has no Debug and no Clone.
pub struct Device {
    key_id: KeyId,
    scores_key_id: KeyId,
    shape: Shape,
    updates: Updates,
    exchanges: Exchanging,
    token: AccessToken,
    keys: SecretKeys,
}

/// The secret keys of all rings, and the counts of what was told about decryptions under them.
pub(crate) struct SecretKeys {
    /// The key of the large ring.
    pub(crate) deep: SecretKey,
    /// The key of the ring of evaluations and its id, if it is not the large one.
    decisions: Option<(SecretKey, KeyId)>,
    /// The key of the ring of scores.
    pub(crate) small: SecretKey,
    pub(crate) answers: Answers,
    repeats: Answers,
}

/// Options for opening a bundle.
#[derive(Default)]
pub struct Opening {
    /// Whether keys without security are accepted, for tests.
    pub toy: bool,
    /// The passphrase of a sealed bundle.
    pub passphrase: Option<crate::Passphrase>,
}

impl Device {
    /// Loads a secret bundle. On Unix, only the owner may be able to read the file. Beside it are kept trace
    /// answers in `KEY-ID.answers` and repeats in `KEY-ID.repeats`.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permissions`], [`Error::Toy`]; [`Error::Sealed`] for a sealed bundle without a
    /// passphrase, or an unsealed one with a passphrase; [`Error::Secret`] for a wrong passphrase; as
    /// [`Self::read`].
    pub fn open(path: &Path, opening: &Opening) -> Result<Self, Error> {
        let check_kind = |file: &mut dyn Read| {
            BundleReader::of_kind(BundleKind::Secret, file)?;
            Ok(())
        };
        let mut device = open_secret(path, opening, check_kind, |input| Self::read(input))?;
        if device.params().spec().security == Security::None && !opening.toy {
            return Err(Error::Toy { path: path.into() });
        }
        let SecretKeys { answers, repeats, .. } = device.keys;
        device.keys =
            SecretKeys { answers: answers.beside(path), repeats: repeats.beside(path), ..device.keys };
        Ok(device)
    }

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
        let keys = SecretKeys { deep: secret, decisions: None, small: scores.0, answers, repeats };
        let (updates, exchanges) = (Updates::default(), Exchanging::default());
        Device { key_id, scores_key_id: scores.1, shape, updates, exchanges, token, keys }
    }

    /// The device of keys that were made for such updates and evaluations; those of one raise and updates in
    /// slots without it.
    pub fn made_for(self, updates: Updates, exchanges: Exchanging) -> Self {
        Device { updates, exchanges, ..self }
    }

    /// The device with these keys of a ring for evaluations alone, and their id. Trace answers and repeats
    /// are then about decryptions in this ring.
    pub fn with_decisions(mut self, decisions: (SecretKey, KeyId)) -> Self {
        let params = decisions.0.params();
        self.keys.answers = Answers::new(self.key_id, params);
        self.keys.repeats = Answers::of_repeats(self.key_id, params);
        self.keys.decisions = Some(decisions);
        self
    }

    /// Reads a secret bundle, also of toy keys. What [`Self::open`] keeps in files is kept in memory, and
    /// lost with the device.
    ///
    /// # Errors
    /// [`Error::Wire`] for bytes that are no such bundle, [`Error::Secret`] for its content.
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let bundle = SecretBundle::read(input)?;
        let (secret, key_id) = SecretKey::from_bytes(&bundle.params, &bundle.frame)?;
        bundle.manifest.check_key(key_id)?;
        let scores = SecretKey::from_bytes(&bundle.scores.params, &bundle.scores.frame)?;
        bundle.manifest.scores.check_key(scores.1)?;
        let mut device = Self::new(secret, key_id, scores, bundle.manifest.shape, bundle.token)
            .made_for(bundle.manifest.updates, bundle.manifest.exchanges);
        if let (Some(stated), Some(ring)) = (&bundle.manifest.decisions, &bundle.decisions) {
            let decisions = SecretKey::from_bytes(&ring.params, &ring.frame)?;
            stated.check_key(decisions.1)?;
            device = device.with_decisions(decisions);
        }
        Ok(device)
    }

    /// Allows `most` trace answers under this key, or [`crate::most_answers`] if that is less. By default a
    /// device gives no answer, because it knows the schedule of a bandit only from the server. If devices
    /// share a key, each must take its part of the bound.
    pub fn with_most_answers(mut self, most: u64) -> Self {
        self.keys.answers.allow(most);
        self
    }

    /// Allows to ask again for `most` decisions under this key, or [`crate::most_repeats`] if that is less;
    /// by default [`crate::DEFAULT_REPEATS`]. A repeat tells the server that an answer could not be relied
    /// on, which is a bit of a decryption. If devices share a key, each must take its part of the bound. A
    /// device that allows trace answers asks again only for what these leave of their bound.
    pub fn with_most_repeats(mut self, most: u64) -> Self {
        self.keys.repeats.allow(most);
        self
    }

    /// The notice for the user that the key has reached its limit of repeats. It is returned once.
    pub fn repeats_spent(&self) -> Option<RepeatsSpent> {
        self.keys.repeats.notice().map(|given| RepeatsSpent { given })
    }

    /// The notice for the user that the key has reached its limit of trace answers. It is returned once.
    pub fn answers_spent(&self) -> Option<AnswersSpent> {
        self.keys.answers.notice().map(|given| AnswersSpent { given })
    }

    /// Whether the device may ask again for another decision, at most 12 times for this one. If so, it is
    /// counted on disk before this returns. [`crate::BanditDevice::decide`] asks by itself; this is for
    /// programs that speak HTTP themselves.
    ///
    /// # Errors
    /// [`Error::RepeatCount`].
    pub fn may_repeat(&self) -> Result<bool, Error> {
        let keys = &self.keys;
        // What trace answers and repeats tell adds up.
        let bound = crate::most_answers(self.decisions().0.params());
        let left = bound.saturating_sub(keys.answers.most());
        keys.repeats.count_within(left / REPEAT_ANSWERS)
    }

    /// The parameters of the large ring.
    pub fn params(&self) -> &Params {
        self.keys.deep.params()
    }

    /// The id of the key pair.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The secret key of the ring of evaluations, and its id.
    pub(crate) fn decisions(&self) -> (&SecretKey, KeyId) {
        match &self.keys.decisions {
            Some((secret, id)) => (secret, *id),
            None => (&self.keys.deep, self.key_id),
        }
    }

    /// The parameters of the rings of circuits.
    pub fn rings(&self) -> Rings {
        let (updates, decisions) = (self.params().clone(), self.decisions().0.params().clone());
        Rings { updates, decisions, by: self.updates, exchanges: self.exchanges }
    }

    /// The parameters of the ring of scores.
    pub(crate) fn small(&self) -> &Params {
        self.keys.small.params()
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

    /// Checks that the server with this manifest has the public half of the keys of this device, in all
    /// rings.
    ///
    /// # Errors
    /// [`Error::WrongKeys`].
    pub fn check_manifest(&self, manifest: &Manifest) -> Result<(), Error> {
        same("fingerprint", &manifest.ring.fingerprint, self.params().fingerprint().to_string())?;
        same("key id", &manifest.ring.key_id, self.key_id.to_string())?;
        let stated = manifest.decisions.as_ref();
        let got = stated.map_or(&manifest.ring.key_id, |decisions| &decisions.ring.key_id);
        same("key id of evaluations", got, self.decisions().1.to_string())?;
        let stated = &manifest.scores.ring;
        same("fingerprint of scores", &stated.fingerprint, self.small().fingerprint().to_string())?;
        same("key id of scores", &stated.key_id, self.scores_key_id.to_string())
    }

    /// A key of 32 bytes for data that this device keeps. `context` is a constant of the program, such as
    /// `"NAME YEAR PURPOSE"`. The server cannot compute it: it is the BLAKE3 derivation of `context` from the
    /// secret key.
    pub fn derive_key(&self, context: &'static str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(context, &self.keys.deep.to_bytes(self.key_id)))
    }

    /// The secret keys.
    pub(crate) fn keys(&self) -> &SecretKeys {
        &self.keys
    }

    #[cfg(test)]
    pub(crate) fn replace_answers(&mut self, answers: Answers) {
        self.keys.answers = answers;
    }
}

/// Opens the file of a secret bundle, sealed or not, for `read`, unless other users can read it. `check_kind`
/// reads the start of one that is not sealed.
pub(crate) fn open_secret<T>(
    path: &Path,
    opening: &Opening,
    check_kind: impl FnOnce(&mut dyn Read) -> Result<(), Error>,
    read: impl FnOnce(&mut dyn Read) -> Result<T, Error>,
) -> Result<T, Error> {
    let io = |error| Error::Io { path: path.into(), error };
    let mut file = File::open(path).map_err(io)?;
    let sealed = is_sealed(&file).map_err(io)?;
    file.rewind().map_err(io)?;
    if !sealed {
        // The kind is checked before the permissions, because everybody may read a public bundle.
        check_kind(&mut file)?;
    }
    check_private(path, &file)?;
    file.rewind().map_err(io)?;
    // Without a buffer, which would keep a copy of the key.
    match (&opening.passphrase, sealed) {
        (None, false) => read(&mut file),
        (Some(passphrase), true) => {
            let mut bytes = Vec::new();
            file.take(MAX_SEALED_BYTES).read_to_end(&mut bytes).map_err(io)?;
            read(&mut &ckks_secret::unseal(&bytes, passphrase)?[..])
        }
        (_, sealed) => Err(Error::Sealed { path: path.into(), sealed }),
    }
}

fn is_sealed(file: &File) -> std::io::Result<bool> {
    let mut start = Vec::new();
    file.take(ckks_secret::SEALED_MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == ckks_secret::SEALED_MAGIC)
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
