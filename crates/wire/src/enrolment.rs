//! Users with keys of their own: what a user asks the owner of the keys for, and what it gets.
//!
//! ```text
//! user    UserSecret, a token and a sealing key, both made by its device
//! user    → owner   EnrolmentRequest: the digest of the token and the public sealing key
//! owner   → user    UserBundle: the manifest, the Enrolment, and the sealed PadKey
//! user    → server  the enrolment beside the token, in a header of each request
//! server  → raiser  the enrolments of users, beside masked answers and the nonces of uploads
//! ```
//! Server and raiser check the owner's signature, and so need no list of users. Both refuse users who were
//! removed, each by a list of its own. The pad key of a user follows from a secret of the owner's and from
//! whom its enrolment names, so that the raiser keeps nothing by user either.

use crate::frame::{self, Kind, Reader};
use crate::manifest::Manifest;
use crate::token::push_hex;
use crate::{AccessToken, Error, MAX_MANIFEST_BYTES, TOKEN_BYTES, TokenDigest, all_from_hex, from_hex};
use ckks::KeyId;
use envelope::{
    SEALED_OVERHEAD, SEALING_KEY_BYTES, SEALING_SECRET_BYTES, SIGNATURE_BYTES, SealingSecret, SigningSecret,
    VERIFYING_KEY_BYTES,
};
use host::{FileStamp, WatchedFile};
use rand::CryptoRng;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The header of a request that has the hexadecimal digits of an [`Enrolment`].
pub const ENROLMENT_HEADER: &str = "helba-enrolment";
/// The longest name of a user.
pub const MOST_USER_NAME: usize = 64;
/// What an enrolment is signed as.
const SIGNED: &str = "helba 2026 enrolment";
/// The purpose of a sealed pad key, before the id of the keys and the user's name.
const SEALED: &[u8] = b"helba 2026 pad key";
/// The context by which the owner's signing key follows from a secret key.
const ENROLLER: &str = "helba 2026 enroller";
/// The context by which what pad keys follow from follows from a secret key.
const PADS: &str = "helba 2026 pad keys";
/// The seconds by which clocks may differ. An enrolment from further in the future holds for nobody, so that
/// it is older than a removal that follows.
pub const CLOCKS: u64 = 60;
/// The most bytes of the signed part of an enrolment and of the whole.
const MOST_ENROLMENT: usize = 512;

/// The public key of the owner who enrols the users of a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enroller([u8; VERIFYING_KEY_BYTES]);

/// The secrets by which the owner enrols users and knows their pad keys. It has no Debug, and is zeroed when
/// it is dropped.
pub struct EnrollerSecret {
    signing: SigningSecret,
    pads: Zeroizing<[u8; 32]>,
}

impl EnrollerSecret {
    /// The secrets that follow from the frame of the secret key of the large ring.
    pub fn of_secret_key(frame: &[u8]) -> Self {
        let [signing, pads] = [ENROLLER, PADS].map(|of| Zeroizing::new(blake3::derive_key(of, frame)));
        EnrollerSecret { signing: SigningSecret::from_bytes(&signing), pads }
    }

    /// The public key.
    pub fn public(&self) -> Enroller {
        // A verifying key has this length.
        Enroller(self.signing.public().try_into().unwrap_or([0; VERIFYING_KEY_BYTES]))
    }

    /// The pad key of the user with this enrolment: the same for all enrolments of one name and request.
    pub fn pad_key(&self, enrolment: &Enrolment) -> PadKey {
        let Claims { user, request, .. } = &enrolment.claims;
        let mut hasher = blake3::Hasher::new_keyed(&self.pads);
        hasher.update(request).update(user.as_bytes());
        PadKey(Zeroizing::new(*hasher.finalize().as_bytes()))
    }

    /// The pad key of the user with this enrolment, sealed for the user alone, who sent this request.
    ///
    /// # Errors
    /// [`Error::Malformed`] for the request of another user.
    pub fn seal_pad_key<R: CryptoRng>(
        &self,
        enrolment: &Enrolment,
        request: &EnrolmentRequest,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        if !enrolment.is_of(request) {
            return Err(Error::Malformed("a request of another user than the enrolment's"));
        }
        let PadKey(key) = self.pad_key(enrolment);
        let sealed = envelope::seal(&request.sealing_key.0, &purpose(enrolment), &*key, rng);
        sealed.map_err(|_| Error::Malformed("a sealing key that is none"))
    }

    /// Enrols the user with this request, whose name is `name`, with the keys of `key_id`, from `enrolled` to
    /// `expires`, in seconds since 1970.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a name that is none.
    pub fn enrol(
        &self,
        request: &EnrolmentRequest,
        name: &str,
        key_id: KeyId,
        [enrolled, expires]: [u64; 2],
    ) -> Result<Enrolment, Error> {
        check_name(name)?;
        let claims = Claims {
            key_id: key_id.to_string(),
            user: name.into(),
            enrolled,
            expires,
            token: request.token,
            request: request.digest(),
        };
        let signature = self.signing.sign(SIGNED, &claims.to_bytes());
        Ok(Enrolment { claims, signature })
    }
}

impl Serialize for Enroller {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut digits = String::new();
        push_hex(&mut digits, &self.0);
        to.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for Enroller {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let key = from_hex(&String::deserialize(from)?).map(Enroller);
        key.ok_or_else(|| serde::de::Error::custom("the key of an enroller must be 64 hexadecimal digits"))
    }
}

/// The public sealing key of a user, which was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SealingKey(Vec<u8>);

impl SealingKey {
    fn new(bytes: Vec<u8>) -> Result<Self, Error> {
        let checked = bytes.len() == SEALING_KEY_BYTES && envelope::check_sealing_key(&bytes).is_ok();
        if checked { Ok(SealingKey(bytes)) } else { Err(Error::Malformed("a sealing key that is none")) }
    }
}

/// What the owner needs of a user to enrol it: nothing secret. Its JSON is the file that a user sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "RequestJson", try_from = "RequestJson")]
pub struct EnrolmentRequest {
    token: TokenDigest,
    sealing_key: SealingKey,
}

impl EnrolmentRequest {
    /// Sixteen hexadecimal digits that user and owner compare by another way than the request went: who
    /// carried it may have put a key of its own into it.
    pub fn fingerprint(&self) -> String {
        blake3::Hash::from_bytes(self.digest()).to_hex()[..16].into()
    }

    fn digest(&self) -> [u8; 32] {
        // Serialising plain data into memory does not fail.
        let json = serde_json::to_vec(self).unwrap_or_default();
        *blake3::hash(&json).as_bytes()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestJson {
    token_digest: TokenDigest,
    /// In hexadecimal digits.
    sealing_key: String,
}

impl From<EnrolmentRequest> for RequestJson {
    fn from(request: EnrolmentRequest) -> Self {
        let mut sealing_key = String::new();
        push_hex(&mut sealing_key, &request.sealing_key.0);
        RequestJson { token_digest: request.token, sealing_key }
    }
}

impl TryFrom<RequestJson> for EnrolmentRequest {
    type Error = Error;

    fn try_from(json: RequestJson) -> Result<Self, Error> {
        let key = all_from_hex(&json.sealing_key);
        let key = key.ok_or(Error::Malformed("a sealing key must be hexadecimal digits"))?;
        Ok(EnrolmentRequest { token: json.token_digest, sealing_key: SealingKey::new(key)? })
    }
}

/// The secrets of a user: its token, and the secret of its sealing key. It has no Debug, and is zeroed when
/// it is dropped.
pub struct UserSecret {
    token: AccessToken,
    sealing: SealingSecret,
}

impl UserSecret {
    /// The most bytes of [`Self::to_bytes`].
    pub const MOST_BYTES: usize = frame::overhead(2) + TOKEN_BYTES + SEALING_SECRET_BYTES;

    /// Fresh secrets.
    pub fn generate<R: CryptoRng>(rng: &mut R) -> Self {
        UserSecret { token: AccessToken::generate(rng), sealing: SealingSecret::generate(rng) }
    }

    /// What the owner enrols the user by.
    pub fn request(&self) -> EnrolmentRequest {
        EnrolmentRequest { token: self.token.digest(), sealing_key: SealingKey(self.sealing.public()) }
    }

    /// The secrets as bytes, to be stored where only the user reads.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let secret = self.sealing.to_bytes();
        Zeroizing::new(frame::write(Kind::UserSecret, &(), &[self.token.as_bytes(), &*secret]))
    }

    /// Reads the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`].
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, Self::MOST_BYTES)?;
        let () = reader.header(Kind::UserSecret)?;
        let token = AccessToken::from_bytes(reader.blob("a token", TOKEN_BYTES)?)?;
        let wrong = Error::Malformed("a user's secret that is none");
        let secret = reader.blob("a sealing secret", SEALING_SECRET_BYTES)?.try_into();
        let sealing = secret.ok().and_then(|secret| SealingSecret::from_bytes(secret).ok()).ok_or(wrong)?;
        reader.end()?;
        Ok(UserSecret { token, sealing })
    }

    /// The token.
    pub fn token(&self) -> &AccessToken {
        &self.token
    }

    /// Opens the pad key that the owner sealed for this user ([`EnrollerSecret::seal_pad_key`]).
    ///
    /// # Errors
    /// [`Error::Malformed`] for one that was sealed for another user or enrolment, or was changed.
    pub fn open_pad_key(&self, enrolment: &Enrolment, sealed: &[u8]) -> Result<PadKey, Error> {
        let opened = self.sealing.open(&purpose(enrolment), sealed).ok();
        let key = opened.and_then(|opened| <[u8; 32]>::try_from(&opened[..]).ok());
        key.map(|key| PadKey(Zeroizing::new(key)))
            .ok_or(Error::Malformed("a key that was sealed for another user, or was changed"))
    }
}

fn purpose(enrolment: &Enrolment) -> Vec<u8> {
    let Claims { key_id, user, .. } = &enrolment.claims;
    [SEALED, key_id.as_bytes(), b" ", user.as_bytes()].concat()
}

/// A number that is used once, for the seed of the pads of one message.
pub type Nonce = [u8; 32];

/// What the coefficients of a message under pads are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padded {
    /// Of the ciphertext of this number among those of the contexts of a request.
    Contexts(u32),
    /// Of the statistics of a feedback.
    Feedback,
    /// Of an answer.
    Answer,
}

/// The key that a user and the owner share, by which each knows the pads of the user's messages. It has no
/// Debug, and is zeroed when it is dropped.
pub struct PadKey(Zeroizing<[u8; 32]>);

impl PadKey {
    /// The seed of the pads of a message of the bandit `bandit`: a pseudo-random function of what the message
    /// is, the bandit and the nonce.
    pub fn seed(&self, of: Padded, bandit: &str, nonce: &Nonce) -> Zeroizing<[u8; 32]> {
        let (kind, part) = match of {
            Padded::Contexts(part) => (1u8, part),
            Padded::Feedback => (2, 0),
            Padded::Answer => (3, 0),
        };
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&[kind]).update(&part.to_le_bytes()).update(nonce).update(bandit.as_bytes());
        Zeroizing::new(*hasher.finalize().as_bytes())
    }
}

/// What an owner says of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Claims {
    /// The id of the key pair of the large ring.
    key_id: String,
    user: String,
    enrolled: u64,
    expires: u64,
    token: TokenDigest,
    /// The digest of the request that the user was enrolled by.
    request: [u8; 32],
}

impl Claims {
    fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }
}

/// The owner's statement that a user with this token and request may use the bandits of a key pair, signed.
/// It is public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolment {
    claims: Claims,
    signature: [u8; SIGNATURE_BYTES],
}

impl Enrolment {
    /// The most bytes of [`Self::to_bytes`].
    pub const MOST_BYTES: usize = frame::overhead(2) + MOST_ENROLMENT;

    /// The bytes of the statement.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::write(Kind::Enrolment, &(), &[&self.claims.to_bytes(), &self.signature])
    }

    /// Reads the bytes of [`Self::to_bytes`], and checks that the owner `by` signed them for `key_id`.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`]; [`Error::Malformed`] for another signer or another key pair.
    pub fn read(bytes: &[u8], by: &Enroller, key_id: KeyId) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, Self::MOST_BYTES)?;
        let () = reader.header(Kind::Enrolment)?;
        let signed = reader.blob("an enrolment", MOST_ENROLMENT)?;
        let signature = reader.blob("a signature", SIGNATURE_BYTES)?;
        let signature: [u8; SIGNATURE_BYTES] =
            signature.try_into().map_err(|_| Error::Malformed("a signature that is none"))?;
        reader.end()?;
        envelope::verify(&by.0, SIGNED, signed, &signature)
            .map_err(|_| Error::Malformed("an enrolment that the owner of these keys did not sign"))?;
        let (claims, rest) = postcard::take_from_bytes::<Claims>(signed)
            .map_err(|_| Error::Malformed("an enrolment that cannot be read"))?;
        if !rest.is_empty() || claims.to_bytes() != signed {
            return Err(Error::Malformed("an enrolment that cannot be read"));
        }
        if claims.key_id != key_id.to_string() {
            return Err(Error::Malformed("an enrolment for another key pair"));
        }
        check_name(&claims.user)?;
        Ok(Enrolment { claims, signature })
    }

    /// The value of [`ENROLMENT_HEADER`].
    pub fn to_header(&self) -> String {
        let mut digits = String::new();
        push_hex(&mut digits, &self.to_bytes());
        digits
    }

    /// The bytes in a value of [`ENROLMENT_HEADER`]. `None` if it is longer than one, or no digits.
    pub fn of_header(value: &str) -> Option<Vec<u8>> {
        if value.len() <= 2 * Self::MOST_BYTES { all_from_hex(value) } else { None }
    }

    /// The user's name.
    pub fn user(&self) -> &str {
        &self.claims.user
    }

    /// When the user was enrolled, in seconds since 1970.
    pub fn enrolled(&self) -> u64 {
        self.claims.enrolled
    }

    /// When the enrolment ends, in seconds since 1970.
    pub fn expires(&self) -> u64 {
        self.claims.expires
    }

    /// Whether the enrolment holds `now`, but for a removal.
    pub fn holds(&self, now: u64) -> bool {
        self.claims.enrolled <= now.saturating_add(CLOCKS) && now < self.claims.expires
    }

    /// Whether the user was enrolled by this request.
    pub fn is_of(&self, request: &EnrolmentRequest) -> bool {
        (self.claims.token, self.claims.request) == (request.token, request.digest())
    }

    /// The digest of the user's token.
    pub fn token(&self) -> TokenDigest {
        self.claims.token
    }
}

/// Refuses what is no name of a user.
///
/// # Errors
/// [`Error::Malformed`].
pub fn check_name(name: &str) -> Result<(), Error> {
    // No two names differ by case alone.
    let letter = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9') || b"-_.@".contains(&c);
    if (1..=MOST_USER_NAME).contains(&name.len()) && name.bytes().all(letter) {
        return Ok(());
    }
    Err(Error::Malformed("a user's name has 1 to 64 small letters, digits, '-', '_', '.' or '@'"))
}

/// What a user gets from the owner: with its [`UserSecret`] it is a device.
#[derive(Debug, Clone, PartialEq)]
pub struct UserBundle {
    /// The manifest of the public bundle.
    pub manifest: Manifest,
    /// The enrolment.
    pub enrolment: Enrolment,
    /// The user's [`PadKey`], sealed for it.
    pub sealed: Vec<u8>,
}

/// The bytes of a sealed pad key.
const SEALED_KEY_BYTES: usize = 32 + SEALED_OVERHEAD;

impl UserBundle {
    /// The most bytes of a file of this kind.
    pub const MOST_BYTES: usize =
        frame::overhead(3) + MAX_MANIFEST_BYTES + Enrolment::MOST_BYTES + SEALED_KEY_BYTES;

    /// The bytes of the bundle.
    ///
    /// # Errors
    /// [`Error::BadManifest`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let UserBundle { manifest, enrolment, sealed } = self;
        let json = serde_json::to_vec(manifest).map_err(|e| Error::BadManifest(e.to_string()))?;
        Ok(frame::write(Kind::UserBundle, &(), &[&json, &enrolment.to_bytes(), sealed]))
    }

    /// Reads the bytes of [`Self::to_bytes`], and checks that all parts belong together.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`] and [`Enrolment::read`]; [`Error::BadManifest`].
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, Self::MOST_BYTES)?;
        let () = reader.header(Kind::UserBundle)?;
        let json = reader.blob("the manifest", MAX_MANIFEST_BYTES)?;
        let manifest: Manifest =
            serde_json::from_slice(json).map_err(|e| Error::BadManifest(e.to_string()))?;
        let by = manifest.enroller.ok_or(Error::Malformed("keys whose users share them"))?;
        let enrolment = reader.blob("the enrolment", Enrolment::MOST_BYTES)?;
        let enrolment = Enrolment::read(enrolment, &by, manifest.key()?)?;
        let sealed = reader.blob("the sealed pad key", SEALED_KEY_BYTES)?.to_vec();
        reader.end()?;
        Ok(UserBundle { manifest, enrolment, sealed })
    }
}

/// The most users of a list of removed ones.
pub const MOST_REMOVED: usize = 1 << 16;

/// Users who were removed, and when, in seconds since 1970: what they were enrolled by until then is refused.
/// Whoever is enrolled again later is served again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RemovedUsers(BTreeMap<String, u64>);

impl RemovedUsers {
    /// Reads a list in JSON: an object with a time for each name.
    ///
    /// # Errors
    /// [`Error::BadManifest`] for other text; as [`Self::check`].
    pub fn read(json: &[u8]) -> Result<Self, Error> {
        let list: Self = serde_json::from_slice(json).map_err(|e| Error::BadManifest(e.to_string()))?;
        list.check()?;
        Ok(list)
    }

    /// Refuses a list of more than [`MOST_REMOVED`] users, and names that are none.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn check(&self) -> Result<(), Error> {
        self.check_number()?;
        self.0.keys().try_for_each(|name| check_name(name))
    }

    fn check_number(&self) -> Result<(), Error> {
        match self.0.len() {
            ..=MOST_REMOVED => Ok(()),
            _ => Err(Error::Malformed("a list of more than 65536 removed users")),
        }
    }

    /// The list in a file. `None` if there is no file.
    ///
    /// # Errors
    /// [`Error::Io`]; as [`Self::read`].
    pub fn of_file(path: &Path) -> Result<Option<Self>, Error> {
        Ok(read_list(path)?.map(|(_, list)| Arc::unwrap_or_clone(list)))
    }

    /// The JSON that [`Self::read`] reads, with a line for each user.
    pub fn to_json(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        json
    }

    /// Adds the user `name`, removed `now`: what it was enrolled by up to [`CLOCKS`] later is refused.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn remove(&mut self, name: &str, now: u64) -> Result<(), Error> {
        check_name(name)?;
        let removed = self.0.entry(name.into()).or_default();
        *removed = now.saturating_add(CLOCKS).max(*removed);
        self.check_number()
    }

    /// Whether the user with this enrolment was removed since.
    pub fn has(&self, enrolment: &Enrolment) -> bool {
        self.0.get(enrolment.user()).is_some_and(|removed| enrolment.enrolled() <= *removed)
    }

    /// The users and when they were removed.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, when)| (name.as_str(), *when))
    }
}

/// The most bytes of the file of a list.
const MOST_LIST: u64 = 8 << 20;

/// The file of a list of removed users, which is read again when it has changed. While it cannot be read, all
/// users count as removed.
#[derive(Debug)]
pub struct RemovedUsersFile {
    path: PathBuf,
    watched: WatchedFile<Arc<RemovedUsers>>,
}

impl RemovedUsersFile {
    /// The list in a file.
    ///
    /// # Errors
    /// [`Error::Io`], also without a file; as [`RemovedUsers::read`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let missing = || no_list(path, ErrorKind::NotFound.into());
        let (stamp, list) = read_list(path)?.ok_or_else(missing)?;
        Ok(RemovedUsersFile { path: path.into(), watched: WatchedFile::new(path, Some(stamp), list) })
    }

    /// Adds users to the list in a file, as [`RemovedUsers::remove`], and creates the file if there never was
    /// one. The file is replaced as a whole, and waits for another program that does so. The list then.
    ///
    /// # Errors
    /// [`Error::Io`], also for a file that was deleted: users who were removed would be served again; as
    /// [`RemovedUsers::remove`]. The file is as it was.
    pub fn remove<'a>(
        path: &Path,
        names: impl IntoIterator<Item = &'a str>,
        now: u64,
    ) -> Result<RemovedUsers, Error> {
        let io = |error| no_list(path, error);
        if host::was_deleted(path) {
            let lock = path.with_extension("lock");
            let why = format!(
                "it was deleted, and without it users who were removed would be served again: restore it; to begin a \
                 list without them, delete {} too",
                lock.display()
            );
            return Err(io(std::io::Error::new(ErrorKind::NotFound, why)));
        }
        let _alone = host::lock_beside(path).map_err(io)?;
        let mut list = RemovedUsers::of_file(path)?.unwrap_or_default();
        names.into_iter().try_for_each(|name| list.remove(name, now))?;
        host::write_private(path, &list.to_json()).map_err(io)?;
        Ok(list)
    }

    /// Whether the user with this enrolment was removed, or may have been.
    pub fn has(&self, enrolment: &Enrolment) -> bool {
        self.watched.current(|| read_list(&self.path)).is_none_or(|list| list.has(enrolment))
    }
}

fn no_list(path: &Path, error: std::io::Error) -> Error {
    Error::Io { what: format!("the list of removed users in {}", path.display()), error }
}

/// The list in a file, and the stamp of the file. `None` if there is none.
fn read_list(path: &Path) -> Result<Option<(FileStamp, Arc<RemovedUsers>)>, Error> {
    let io = |error| no_list(path, error);
    let file = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(io)?,
    };
    let stamp = FileStamp::of(&file.metadata().map_err(io)?);
    let mut json = Vec::new();
    file.take(MOST_LIST).read_to_end(&mut json).map_err(io)?;
    Ok(Some((stamp, Arc::new(RemovedUsers::read(&json)?))))
}
