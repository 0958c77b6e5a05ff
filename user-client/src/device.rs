//! The keys of a device, and the bundle that they come from.

use crate::Error;
use crate::answers::{Answers, AnswersSpent, REPEAT_ANSWERS, RepeatsSpent};
use ckks::{KeyId, Params, Security};
use ckks_secret::{MAX_SEALED_BYTES, SecretKey};
use protocol::{Exchanging, Rings, Shape, Updates, UserKeys};
use rand::CryptoRng;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::SystemTime;
use wire::{
    AccessToken, BundleKind, BundleReader, Enroller, EnrollerSecret, Enrolment, Manifest, PadKey,
    RemovedUsersFile, SecretBundle, UserBundle, UserSecret,
};
use zeroize::Zeroizing;

/// A device with the secret keys of a bandit, or one of a user with a key of its own. It has no Debug and no
/// Clone.
pub struct Device {
    key_id: KeyId,
    /// Of the ring of evaluations.
    decisions_id: KeyId,
    scores_key_id: KeyId,
    shape: Shape,
    rings: Rings,
    /// The parameters of the ring of scores.
    small: Params,
    /// Who enrols users with keys of their own.
    enroller: Option<Enroller>,
    repeats: Answers,
    /// The users who get no answers, on the device of the owner of the keys.
    removed: Option<RemovedUsersFile>,
    custody: Custody,
}

/// What a device holds.
enum Custody {
    /// The secret keys of the bandit.
    Holder(Box<SecretKeys>),
    /// A key of its own.
    User(Box<OwnKey>),
}

/// The secret keys of all rings, and the count of what was told about decryptions under them.
pub(crate) struct SecretKeys {
    token: AccessToken,
    /// The key of the large ring.
    pub(crate) deep: SecretKey,
    /// The key of the ring of evaluations, if it is not the large one.
    decisions: Option<SecretKey>,
    /// The key of the ring of scores.
    pub(crate) small: SecretKey,
    pub(crate) answers: Answers,
    /// What the pad keys of users follow from, if they have keys of their own.
    enroller: Option<EnrollerSecret>,
}

/// What a user holds that was enrolled.
pub(crate) struct OwnKey {
    secret: UserSecret,
    pub(crate) pads: PadKey,
    enrolment: Enrolment,
}

impl OwnKey {
    fn new(secret: UserSecret, enrolment: Enrolment, sealed: &[u8]) -> Result<Self, Error> {
        if !enrolment.is_of(&secret.request()) {
            return Err(Error::OtherUser);
        }
        let pads = secret.open_pad_key(&enrolment, sealed)?;
        Ok(OwnKey { secret, pads, enrolment })
    }
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
        device.repeats = device.repeats.beside(path);
        if let Custody::Holder(keys) = device.custody {
            let answers = keys.answers.beside(path);
            device.custody = Custody::Holder(Box::new(SecretKeys { answers, ..*keys }));
        }
        Ok(device)
    }

    /// Loads the secret of a user and the bundle that it got from the owner of the keys ([`create_user`]). On
    /// Unix, only the owner may be able to read the secret. Beside it are kept repeats in `KEY-ID.repeats`.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Permissions`], [`Error::Toy`]; as [`Self::of_user`].
    pub fn open_user(secret: &Path, bundle: &Path, toy: bool) -> Result<Self, Error> {
        let read = |path: &Path, most: usize, private: bool| {
            let io = |error| Error::Io { path: path.into(), error };
            let file = File::open(path).map_err(io)?;
            if private {
                check_private(path, &file)?;
            }
            let mut bytes = Zeroizing::new(Vec::with_capacity(if private { most + 1 } else { 0 }));
            file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
            Ok::<_, Error>(bytes)
        };
        let own = UserSecret::read(&read(secret, UserSecret::MOST_BYTES, true)?)?;
        let user = UserBundle::read(&read(bundle, UserBundle::MOST_BYTES, false)?)?;
        let mut device = Self::of_user(own, user)?;
        if device.params().spec().security == Security::None && !toy {
            return Err(Error::Toy { path: bundle.into() });
        }
        device.repeats = device.repeats.beside(secret);
        Ok(device)
    }

    /// The device of a user with a key of its own, from what the owner of the bandit's keys made of its
    /// request. Repeats are counted in memory.
    ///
    /// # Errors
    /// [`Error::Wire`] for a bundle whose parts do not belong together; [`Error::OtherUser`] if another
    /// user was enrolled by it.
    pub fn of_user(secret: UserSecret, bundle: UserBundle) -> Result<Self, Error> {
        let UserBundle { manifest, enrolment, sealed } = bundle;
        let own = OwnKey::new(secret, enrolment, &sealed)?;
        let (rings, key_id) = (manifest.rings()?, manifest.key()?);
        let (_, small) = manifest.scores(&rings.updates)?;
        let id = |id: &str| id.parse().map_err(|_| wire::Error::Malformed("a key id that is none"));
        let decisions_id = manifest.decisions.as_ref().map_or(Ok(key_id), |ring| id(&ring.ring.key_id))?;
        let device = Device {
            key_id,
            decisions_id,
            scores_key_id: id(&manifest.scores.ring.key_id)?,
            shape: manifest.shape,
            repeats: Answers::of_repeats(key_id, &rings.decisions),
            rings,
            small,
            enroller: manifest.enroller,
            removed: None,
            custody: Custody::User(Box::new(own)),
        };
        Ok(device.with_most_repeats(0))
    }

    /// The device of another user of the same keys.
    pub(crate) fn of_another_user(
        &self,
        secret: UserSecret,
        enrolment: Enrolment,
        sealed: &[u8],
    ) -> Result<Self, Error> {
        let device = Device {
            rings: self.rings.clone(),
            small: self.small.clone(),
            repeats: Answers::of_repeats(self.key_id, &self.rings.decisions),
            removed: None,
            custody: Custody::User(Box::new(OwnKey::new(secret, enrolment, sealed)?)),
            ..*self
        };
        Ok(device.with_most_repeats(0))
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
        let (repeats, rings) = (Answers::of_repeats(key_id, secret.params()), Rings::from(secret.params()));
        let (small, scores_key_id) = (scores.0.params().clone(), scores.1);
        let keys =
            SecretKeys { token, deep: secret, decisions: None, small: scores.0, answers, enroller: None };
        let custody = Custody::Holder(Box::new(keys));
        let (decisions_id, enroller, removed) = (key_id, None, None);
        Device {
            key_id,
            decisions_id,
            scores_key_id,
            shape,
            rings,
            small,
            enroller,
            repeats,
            removed,
            custody,
        }
    }

    /// The device of keys that were made for such updates and evaluations, beside which users have keys of
    /// their own if somebody enrols them; without it, those of one raise and updates in slots that users
    /// share.
    pub fn made_for(mut self, updates: Updates, exchanges: Exchanging, enroller: Option<Enroller>) -> Self {
        let keys = if enroller.is_some() { UserKeys::Own } else { UserKeys::Shared };
        self.rings = Rings { by: updates, exchanges, keys, ..self.rings };
        if let (Custody::Holder(secret), UserKeys::Own) = (&mut self.custody, keys) {
            secret.enroller = Some(EnrollerSecret::of_secret_key(&secret.deep.to_bytes(self.key_id)));
        }
        Device { enroller, ..self }
    }

    /// The device with these keys of a ring for evaluations alone, and their id. Trace answers and repeats
    /// are then about decryptions in this ring.
    pub fn with_decisions(mut self, decisions: (SecretKey, KeyId)) -> Self {
        let params = decisions.0.params().clone();
        self.repeats = Answers::of_repeats(self.key_id, &params);
        self.decisions_id = decisions.1;
        if let Custody::Holder(keys) = &mut self.custody {
            keys.answers = Answers::new(self.key_id, &params);
            keys.decisions = Some(decisions.0);
        }
        self.rings.decisions = params;
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
        let mut device = Self::new(secret, key_id, scores, bundle.manifest.shape, bundle.token).made_for(
            bundle.manifest.updates,
            bundle.manifest.exchanges,
            bundle.manifest.enroller,
        );
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
        if let Custody::Holder(keys) = &mut self.custody {
            keys.answers.allow(most);
        }
        self
    }

    /// Allows to ask again for `most` decisions under this key, or [`crate::most_repeats`] if that is less;
    /// by default [`crate::DEFAULT_REPEATS`], and none on the device of a user with a key of its own: what
    /// all users of a bandit tell adds up, and there may be many. A repeat tells the server that an answer
    /// could not be relied on, which is a bit of a decryption. If devices share a key, each must take its
    /// part of the bound. A device that allows trace answers asks again only for what these leave of their
    /// bound.
    pub fn with_most_repeats(mut self, most: u64) -> Self {
        self.repeats.allow(most);
        self
    }

    /// The notice for the user that the key has reached its limit of repeats. It is returned once.
    pub fn repeats_spent(&self) -> Option<RepeatsSpent> {
        self.repeats.notice().map(|given| RepeatsSpent { given })
    }

    /// The notice for the user that the key has reached its limit of trace answers. It is returned once.
    pub fn answers_spent(&self) -> Option<AnswersSpent> {
        self.secret_keys().ok()?.answers.notice().map(|given| AnswersSpent { given })
    }

    /// Whether the device may ask again for another decision, at most 12 times for this one. If so, it is
    /// counted on disk before this returns. [`crate::BanditDevice::decide`] asks by itself; this is for
    /// programs that speak HTTP themselves.
    ///
    /// # Errors
    /// [`Error::RepeatCount`].
    pub fn may_repeat(&self) -> Result<bool, Error> {
        // What trace answers and repeats tell adds up.
        let bound = crate::most_answers(&self.rings.decisions);
        let answers = self.secret_keys().map_or(0, |keys| keys.answers.most());
        self.repeats.count_within(bound.saturating_sub(answers) / REPEAT_ANSWERS)
    }

    /// The parameters of the large ring.
    pub fn params(&self) -> &Params {
        &self.rings.updates
    }

    /// The id of the key pair.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The id of the key pair of the ring of evaluations.
    pub(crate) fn decisions_id(&self) -> KeyId {
        self.decisions_id
    }

    /// The parameters of the rings of circuits.
    pub fn rings(&self) -> &Rings {
        &self.rings
    }

    /// The parameters of the ring of scores.
    pub(crate) fn small(&self) -> &Params {
        &self.small
    }

    /// Who enrols users with keys of their own.
    pub(crate) fn enroller(&self) -> Option<&Enroller> {
        self.enroller.as_ref()
    }

    /// The pad key of the user with this enrolment, on the device of the owner.
    pub(crate) fn pad_key(&self, enrolment: &Enrolment) -> Result<PadKey, Error> {
        let enroller = self.secret_keys()?.enroller.as_ref().ok_or(Error::NoSecretKeys)?;
        Ok(enroller.pad_key(enrolment))
    }

    /// The device of an owner that makes no answers for these users, whatever the server asks for.
    pub fn without_users(self, removed: RemovedUsersFile) -> Self {
        Device { removed: Some(removed), ..self }
    }

    /// Whether the user with this enrolment gets answers now.
    pub(crate) fn serves(&self, enrolment: &Enrolment) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        enrolment.holds(now) && !self.removed.as_ref().is_some_and(|removed| removed.has(enrolment))
    }

    /// The enrolment that each request of a user with a key of its own carries
    /// ([`wire::ENROLMENT_HEADER`]).
    pub fn enrolment(&self) -> Option<&Enrolment> {
        self.own_key().map(|own| &own.enrolment)
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
        match &self.custody {
            Custody::Holder(keys) => &keys.token,
            Custody::User(own) => own.secret.token(),
        }
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
        same("key id of evaluations", got, self.decisions_id.to_string())?;
        let stated = &manifest.scores.ring;
        same("fingerprint of scores", &stated.fingerprint, self.small().fingerprint().to_string())?;
        same("key id of scores", &stated.key_id, self.scores_key_id.to_string())
    }

    /// A key of 32 bytes for data that this device keeps. `context` is a constant of the program, such as
    /// `"NAME YEAR PURPOSE"`. The server cannot compute it: it is the BLAKE3 derivation of `context` from the
    /// secret key.
    pub fn derive_key(&self, context: &'static str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(match &self.custody {
            Custody::Holder(keys) => blake3::derive_key(context, &keys.deep.to_bytes(self.key_id)),
            Custody::User(own) => blake3::derive_key(context, &own.secret.to_bytes()),
        })
    }

    /// The secret keys of the bandit.
    ///
    /// # Errors
    /// [`Error::NoSecretKeys`] on the device of a user with a key of its own.
    pub(crate) fn secret_keys(&self) -> Result<&SecretKeys, Error> {
        match &self.custody {
            Custody::Holder(keys) => Ok(keys),
            Custody::User(_) => Err(Error::NoSecretKeys),
        }
    }

    /// The key of a user, if it has one of its own.
    pub(crate) fn own_key(&self) -> Option<&OwnKey> {
        match &self.custody {
            Custody::Holder(_) => None,
            Custody::User(own) => Some(own),
        }
    }

    #[cfg(test)]
    pub(crate) fn replace_answers(&mut self, answers: Answers) {
        if let Custody::Holder(keys) = &mut self.custody {
            keys.answers = answers;
        }
    }
}

impl SecretKeys {
    /// The key of the ring of evaluations.
    pub(crate) fn decisions(&self) -> &SecretKey {
        self.decisions.as_ref().unwrap_or(&self.deep)
    }
}

/// Makes the secret of a user with a key of its own in the new file `secret`, which only its owner can read,
/// and in the new file `request` what the owner of the bandit's keys enrols the user by, as JSON. Both are on
/// disk when this returns, with the fingerprint of the request.
///
/// # Errors
/// [`Error::Io`], also if one of the files exists.
pub fn create_user<R: CryptoRng>(secret: &Path, request: &Path, rng: &mut R) -> Result<String, Error> {
    let user = UserSecret::generate(rng);
    let json = serde_json::to_vec(&user.request())
        .map_err(|e| Error::Io { path: request.into(), error: e.into() })?;
    let write = |path: &Path, mut options: std::fs::OpenOptions, bytes: &[u8]| {
        let io = |error| Error::Io { path: path.into(), error };
        let mut file = options.write(true).create_new(true).open(path).map_err(io)?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io)?;
        host::sync_folder_of(path).map_err(io)
    };
    write(secret, host::private_file(), &user.to_bytes())?;
    write(request, File::options(), &[&json[..], b"\n"].concat()).inspect_err(|_| {
        // Nothing depends on it.
        let _ = std::fs::remove_file(secret);
    })?;
    Ok(user.request().fingerprint())
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
