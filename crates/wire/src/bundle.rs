//! The file format of key bundles.
//!
//! ```text
//! offset  bytes  what
//!      0      8  magic "HELBAPUB", "HELBASEC" or "HELBAUSR"
//!      8      2  version, little endian like all numbers
//!     10      4  length of the manifest
//!     14      …  manifest, JSON
//!             8  length of the first frame
//!             …  first frame, and so on: as many frames as the manifest states, and no byte after them
//! ```
//! A public bundle has the public key, the relinearisation key and the Galois keys, first those of the large
//! ring, then those of the ring of scores, and then those of answers: the keys of the ring switch by their
//! numbers, and those of the rotations of the fold. Bootstrapping keys come last, if its manifest states
//! them.
//!
//! A secret bundle has the secret key, that of the ring of scores, that of bootstrapping keys if there are
//! any, and the access token.
//!
//! A users' bundle has the wide public key of the ring of scores, and the access token: all that a device of
//! a user needs where a committee holds the key.

use crate::Followed;
use crate::frame::check_length;
use crate::{
    CommitteeManifest, Custody, Error, Handover, KeysDigest, MemberManifest, PastEpoch, PublicBytes,
    TokenDigest,
};
use ckks::{KeyId, Params, ParamsSpec, Security};
use protocol::{ScoreRing, Shape};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{Read, Write};

/// The version of bundles that are written and read.
pub const BUNDLE_VERSION: u16 = 6;
/// The source of the bound on log₂(QP).
pub const SECURITY_TABLE: &str = "Bossuat et al. 2024 (ePrint 2024/463), table 5.2, classical, ternary";
/// The domain of signatures of keys.
const KEYS_SIGNATURE: &str = "helba committee v1: keys";
/// The domain of signatures of members of the epoch after their own.
const HANDOVER_SIGNATURE: &str = "helba committee v1: next epoch";
/// The domain of signatures of keys under which bandits go on.
const ROTATION_SIGNATURE: &str = "helba committee v1: rotation";
/// The most bytes of a manifest.
pub const MAX_MANIFEST_BYTES: usize = 64 << 10;
/// The most frames. The largest shape has fewer than a hundred.
const MAX_FRAMES: u32 = 1024;
/// The largest side of a shape. No ring fits a larger shape, and products of sides do not overflow.
const MAX_SIDE: usize = 256;

/// Whom a bundle is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleKind {
    /// The bundle for servers.
    Public,
    /// The bundle for the devices of users only.
    Secret,
    /// The bundle for the devices of users where a committee holds the key. Its access token is a secret.
    Users,
}

impl BundleKind {
    fn magic(self) -> [u8; 8] {
        match self {
            BundleKind::Public => *b"HELBAPUB",
            BundleKind::Secret => *b"HELBASEC",
            BundleKind::Users => *b"HELBAUSR",
        }
    }
}

/// The description at the start of a bundle. It contains no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The name of the parameter set.
    pub params: String,
    /// The fingerprint of the parameters, in hexadecimal.
    pub fingerprint: String,
    /// The id of the key pair, in hexadecimal.
    pub key_id: String,
    /// The shape of the problems that the keys serve.
    pub shape: Shape,
    /// The security of the parameters, in bits; 0 for toy keys.
    pub security_bits: u32,
    /// log₂ of the largest modulus under which anything is encrypted.
    pub log2_qp: f64,
    /// The time of key generation, in seconds since 1970; in JSON as RFC 3339.
    #[serde(with = "moment")]
    pub created: u64,
    /// The number of frames in this bundle.
    pub frames: u32,
    /// The digest of the token in the secret bundle, which gives access to encrypted bandits.
    pub token_digest: TokenDigest,
    /// The keys of the ring of scores.
    pub scores: ScoresManifest,
    /// Who can decrypt.
    pub custody: Custody,
    /// The bootstrapping keys of the ring of scores, if the bundle has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstraps: Option<BootstrapsManifest>,
}

/// The description of the bootstrapping keys in a bundle: one frame, of keys in a public bundle and of their
/// secret in a secret one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootstrapsManifest {
    /// The fingerprint of the bootstrapping keys, in hexadecimal.
    pub key_id: String,
    /// The id of the CKKS key pair that they switch from, in hexadecimal.
    pub switched_key_id: String,
}

impl BootstrapsManifest {
    /// The description of the keys `id`, which switch from the key pair `switched`.
    pub fn new(id: KeyId, switched: KeyId) -> Self {
        BootstrapsManifest { key_id: id.to_string(), switched_key_id: switched.to_string() }
    }

    /// The fingerprint of the keys, which must switch from the key pair `loaded`.
    ///
    /// # Errors
    /// [`Error::Generation`] if they switch from another one; [`Error::Manifest`] for text that is no id.
    pub fn check_generation(&self, loaded: KeyId) -> Result<KeyId, Error> {
        let id = |field, text: &str| -> Result<KeyId, Error> {
            text.parse().map_err(|_| differs(field, text, "32 lower-case hexadecimal digits"))
        };
        let keys = id("bootstraps.key_id", &self.key_id)?;
        let switched = id("bootstraps.switched_key_id", &self.switched_key_id)?;
        match switched == loaded {
            true => Ok(keys),
            false => Err(Error::Generation { keys, switched, loaded }),
        }
    }
}

/// The description of the keys of the ring of scores in a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoresManifest {
    /// The name of the parameter set.
    pub params: String,
    /// The fingerprint of the parameters, in hexadecimal.
    pub fingerprint: String,
    /// The id of the key pair of this ring, in hexadecimal.
    pub key_id: String,
    /// The security of the parameters, in bits; 0 for toy keys.
    pub security_bits: u32,
    /// log₂ of the largest modulus of this ring under which anything is encrypted.
    pub log2_qp: f64,
    /// The number of frames of this ring, which are among those of the bundle.
    pub frames: u32,
    /// The keys of answers, which are encrypted under the secret of this ring.
    pub answers: AnswersManifest,
}

/// The description of the keys of answers in a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswersManifest {
    /// The fingerprint of the parameters ([`ScoreRing::answers`]), in hexadecimal.
    pub fingerprint: String,
    /// log₂ of the largest modulus of answers under which anything is encrypted.
    pub log2_qp: f64,
    /// The number of frames of these keys, which are among those of the bundle.
    pub frames: u32,
}

impl AnswersManifest {
    /// The description of `frames` frames of keys of answers.
    pub fn new(params: &Params, frames: u32) -> Self {
        let fingerprint = params.fingerprint().to_string();
        AnswersManifest { fingerprint, log2_qp: params.log_qp(), frames }
    }
}

impl ScoresManifest {
    /// The parameters of answers beside the ring `large`, which must have the stated values.
    ///
    /// # Errors
    /// [`Error::Manifest`] if a value differs.
    pub fn answers(&self, ring: ScoreRing, large: &Params) -> Result<Params, Error> {
        let params = ring.answers(large.spec()).validate()?;
        let AnswersManifest { fingerprint, log2_qp, .. } = &self.answers;
        let want = params.fingerprint().to_string();
        if *fingerprint != want {
            return Err(differs("scores.answers.fingerprint", fingerprint, &want));
        }
        same_log_qp("scores.answers.log2_qp", *log2_qp, params.log_qp())?;
        Ok(params)
    }

    /// The description of `frames` frames of the ring of scores.
    pub fn new(params: &Params, key: KeyId, frames: u32, answers: AnswersManifest) -> Self {
        ScoresManifest {
            params: params.spec().name.into(),
            fingerprint: params.fingerprint().to_string(),
            key_id: key.to_string(),
            security_bits: params.spec().security.bits(),
            log2_qp: params.log_qp(),
            frames,
            answers,
        }
    }

    /// The frames of this ring and of answers.
    fn all_frames(&self) -> Option<u32> {
        self.frames.checked_add(self.answers.frames)
    }

    /// As [`Manifest::params`], for the ring of scores.
    ///
    /// # Errors
    /// As [`Manifest::params`].
    pub fn params(&self) -> Result<Params, Error> {
        self.stated().params(ParamsSpec::scores())
    }

    /// Checks that `key` is the id of this ring's key pair.
    ///
    /// # Errors
    /// [`Error::Manifest`] if it differs.
    pub fn check_key(&self, key: KeyId) -> Result<(), Error> {
        self.stated().check_key(key)
    }

    fn stated(&self) -> StatedRing<'_> {
        StatedRing {
            params: &self.params,
            fingerprint: &self.fingerprint,
            key_id: &self.key_id,
            security_bits: self.security_bits,
            log2_qp: self.log2_qp,
            fields: &SCORES_FIELDS,
        }
    }
}

impl Manifest {
    /// The manifest of a bundle of `frames` frames of the large ring and those of `scores`.
    #[allow(clippy::too_many_arguments, reason = "each is a field")]
    pub fn new(
        params: &Params,
        key: KeyId,
        shape: Shape,
        created: u64,
        frames: u32,
        token_digest: TokenDigest,
        scores: ScoresManifest,
        custody: Custody,
    ) -> Self {
        Manifest {
            params: params.spec().name.into(),
            fingerprint: params.fingerprint().to_string(),
            key_id: key.to_string(),
            shape,
            security_bits: params.spec().security.bits(),
            log2_qp: params.log_qp(),
            created,
            // A bundle has at most MAX_FRAMES.
            frames: frames + scores.frames + scores.answers.frames,
            token_digest,
            scores,
            custody,
            bootstraps: None,
        }
    }

    /// The manifest of a bundle that has a frame of bootstrapping keys too.
    pub fn with_bootstraps(self, bootstraps: BootstrapsManifest) -> Self {
        Manifest { frames: self.frames + 1, bootstraps: Some(bootstraps), ..self }
    }

    /// The time of key generation, as RFC 3339.
    pub fn created_at(&self) -> String {
        moment::written(self.created)
    }

    /// The named parameters, which must have the stated fingerprint, security and modulus.
    ///
    /// # Errors
    /// [`Error::UnknownParams`] if this version has no parameters of this name, [`Error::Manifest`] if a
    /// value differs.
    pub fn params(&self) -> Result<Params, Error> {
        self.stated().params(ParamsSpec::named())
    }

    /// The security level that is stated.
    ///
    /// # Errors
    /// [`Error::Manifest`] for a number of bits that no set claims.
    pub fn security(&self) -> Result<Security, Error> {
        let wrong = || differs("security_bits", &self.security_bits.to_string(), "0, 128, 192 or 256");
        Security::of_bits(self.security_bits).ok_or_else(wrong)
    }

    /// The id of the key pair.
    ///
    /// # Errors
    /// [`Error::Manifest`] for text that is no id.
    pub fn key(&self) -> Result<KeyId, Error> {
        let wrong = |_| differs("key_id", &self.key_id, "32 lower-case hexadecimal digits");
        self.key_id.parse().map_err(wrong)
    }

    /// Checks that `key` is the id in the manifest.
    ///
    /// # Errors
    /// [`Error::Manifest`] if it differs.
    pub fn check_key(&self, key: KeyId) -> Result<(), Error> {
        self.stated().check_key(key)
    }

    /// The ring of scores with its parameters, which must be those of [`ScoreRing::beside`] the large ring.
    ///
    /// # Errors
    /// [`Error::Manifest`] if the manifest states another ring; [`Error::Protocol`] if the shape has none; as
    /// [`Self::params`].
    pub fn scores(&self, large: &Params) -> Result<(ScoreRing, Params), Error> {
        let ring = ScoreRing::beside(large.spec(), self.shape)?;
        match self.scores.params == ring.params.name {
            true => Ok((ring, self.scores.params()?)),
            false => Err(differs("scores", &self.scores.params, ring.params.name)),
        }
    }

    /// What the members of a committee sign: all but the signatures, and the numbers of frames, in which the
    /// public and the users' bundle differ.
    fn signed(&self) -> Vec<u8> {
        let mut signed = self.clone();
        (signed.frames, signed.scores.frames, signed.scores.answers.frames) = (0, 0, 0);
        if let Custody::Committee(committee) = &mut signed.custody {
            committee.signatures.clear();
            committee.before.iter_mut().for_each(|past| past.handover.clear());
            committee.follows.iter_mut().for_each(|followed| followed.epoch.handover.clear());
        }
        // Serialising plain data into memory does not fail.
        serde_json::to_vec(&signed).unwrap_or_default()
    }

    /// The hash of what the members of a committee sign.
    pub fn signed_digest(&self) -> [u8; 32] {
        *blake3::hash(&self.signed()).as_bytes()
    }

    /// The signature of a member of the committee.
    pub fn sign(&self, signing: &envelope::SigningSecret) -> Vec<u8> {
        signing.sign(KEYS_SIGNATURE, &self.signed()).to_vec()
    }

    /// The manifest with the signatures of the members of its committee.
    pub fn with_signatures(mut self, of_members: Vec<PublicBytes>) -> Self {
        if let Custody::Committee(committee) = &mut self.custody {
            committee.signatures = of_members;
        }
        self
    }

    /// Checks the signature of the member with this verifying key.
    ///
    /// # Errors
    /// [`Error::Envelope`].
    pub fn check_signature(&self, verifying: &[u8], signature: &[u8]) -> Result<(), Error> {
        Ok(envelope::verify(verifying, KEYS_SIGNATURE, &self.signed(), signature)?)
    }

    /// Checks that every member of the committee signed these keys, if one holds them, and that t members of
    /// each epoch before signed the one after it.
    ///
    /// # Errors
    /// [`Error::Manifest`] for another number of signatures than members, or fewer than t; as
    /// [`Self::check_signature`].
    pub fn check_signatures(&self) -> Result<(), Error> {
        let Custody::Committee(committee) = &self.custody else {
            return Ok(());
        };
        let CommitteeManifest { members, signatures, before, .. } = committee;
        if members.len() != signatures.len() {
            let (got, want) = (signatures.len().to_string(), format!("those of {} members", members.len()));
            return Err(differs("custody.signatures", &got, &want));
        }
        let check = |(member, signature): (&MemberManifest, &PublicBytes)| {
            self.check_signature(&member.verifying.0, &signature.0)
        };
        members.iter().zip(signatures).try_for_each(check)?;
        (0..).zip(before).try_for_each(|(epoch, past)| self.check_handover(committee, epoch, past))
    }

    /// Checks that t members of the epoch `past` signed the one after it.
    fn check_handover(
        &self,
        committee: &CommitteeManifest,
        epoch: usize,
        past: &PastEpoch,
    ) -> Result<(), Error> {
        let (want, mut signed) = (past.quorum()?.threshold(), BTreeSet::new());
        for Handover { member, signature } in &past.handover {
            let verifying = usize::from(*member).checked_sub(1).and_then(|at| past.verifying.get(at));
            let verifying = verifying.map_or(&[][..], |key| &key.0);
            let statement = self.next_epoch(committee, epoch + 1);
            envelope::verify(verifying, HANDOVER_SIGNATURE, &statement, &signature.0)?;
            signed.insert(member);
        }
        if signed.len() >= want.into() {
            return Ok(());
        }
        let want = format!("those of {want} members of epoch {epoch}");
        Err(differs("custody.before.handover", &signed.len().to_string(), &want))
    }

    /// What members of the epoch before sign of the epoch with this number: the keys, and who answers.
    fn next_epoch(&self, committee: &CommitteeManifest, number: usize) -> Vec<u8> {
        let CommitteeManifest { keys, wide_key, .. } = committee;
        let rings = [&self.fingerprint, &self.key_id, &self.scores.fingerprint, &self.scores.key_id];
        let epoch = committee.epoch_at(number);
        // Serialising plain data into memory does not fail.
        serde_json::to_vec(&(rings, &self.token_digest, keys, wide_key, number, epoch)).unwrap_or_default()
    }

    /// The signature of a member of the epoch before, by which it hands its share on to the committee of this
    /// manifest.
    pub fn sign_next_epoch(&self, signing: &envelope::SigningSecret) -> Vec<u8> {
        let statement = self.statement_of_epoch();
        signing.sign(HANDOVER_SIGNATURE, &statement).to_vec()
    }

    /// Checks the signature of [`Self::sign_next_epoch`].
    ///
    /// # Errors
    /// [`Error::Envelope`].
    pub fn check_next_epoch(&self, verifying: &[u8], signature: &[u8]) -> Result<(), Error> {
        Ok(envelope::verify(verifying, HANDOVER_SIGNATURE, &self.statement_of_epoch(), signature)?)
    }

    fn statement_of_epoch(&self) -> Vec<u8> {
        match &self.custody {
            Custody::Committee(committee) => self.next_epoch(committee, committee.epoch()),
            Custody::Holder => Vec::new(),
        }
    }

    /// The manifest with the signatures of members of the epoch before.
    pub fn with_handover(mut self, of_members: Vec<Handover>) -> Self {
        if let Custody::Committee(committee) = &mut self.custody
            && let Some(past) = committee.before.last_mut()
        {
            past.handover = of_members;
        }
        self
    }

    /// Checks that the committee of this manifest is `known`, or one of a later epoch that t members of
    /// `known`, and of each epoch between, have signed. The keys must be those of `known`.
    ///
    /// # Errors
    /// [`Error::OldEpoch`], [`Error::Epoch`].
    pub fn follows(&self, known: &CommitteeManifest) -> Result<&CommitteeManifest, Error> {
        let refused = |got, why: String| Error::Epoch { got, known: known.epoch(), why };
        let Custody::Committee(committee) = &self.custody else {
            return Err(refused(0, "no committee holds these keys".into()));
        };
        let (got, old) = (committee.epoch(), known.epoch());
        if got < old {
            return Err(Error::OldEpoch { got, known: old });
        }
        if committee.epoch_at(old) != Some(known.as_past()) {
            return Err(refused(got, format!("it names other members, or another run, as epoch {old}")));
        }
        if committee.keys != known.keys || committee.wide_key != known.wide_key {
            return Err(refused(got, "its keys are others".into()));
        }
        self.check_signatures().map_err(|error| refused(got, error.to_string()))?;
        Ok(committee)
    }

    /// What the committee of these keys is to one whose bandits go on under it.
    ///
    /// # Errors
    /// [`Error::Manifest`] if no committee holds these keys.
    pub fn as_followed(&self) -> Result<Followed, Error> {
        let Custody::Committee(committee) = &self.custody else {
            return Err(differs("custody", "a holder", "a committee"));
        };
        Ok(Followed {
            key_id: self.key_id.clone(),
            scores_key_id: self.scores.key_id.clone(),
            digest: PublicBytes(self.signed_digest().to_vec()),
            epoch: committee.as_past(),
        })
    }

    /// What members of the committee before sign of the keys that a bandit goes on under: the same in every
    /// epoch of the committee of these keys.
    pub fn rotation_digest(&self) -> [u8; 32] {
        let Custody::Committee(committee) = &self.custody else { return [0; 32] };
        let CommitteeManifest { keys, wide_key, follows, .. } = committee;
        let followed = follows.as_deref().map(|f| (&f.key_id, &f.scores_key_id, &f.digest));
        let rings = [&self.fingerprint, &self.key_id, &self.scores.fingerprint, &self.scores.key_id];
        // Serialising plain data into memory does not fail.
        let signed = serde_json::to_vec(&(rings, keys, wide_key, followed)).unwrap_or_default();
        blake3::derive_key("helba committee v1: keys that bandits go on under", &signed)
    }

    /// The signature of a member of the committee that the one of these keys follows.
    pub fn sign_rotation(&self, signing: &envelope::SigningSecret) -> Vec<u8> {
        signing.sign(ROTATION_SIGNATURE, &self.signed()).to_vec()
    }

    /// Checks the signature of [`Self::sign_rotation`].
    ///
    /// # Errors
    /// [`Error::Envelope`].
    pub fn check_rotation_signature(&self, verifying: &[u8], signature: &[u8]) -> Result<(), Error> {
        Ok(envelope::verify(verifying, ROTATION_SIGNATURE, &self.signed(), signature)?)
    }

    /// The manifest with the signatures of members of the committee that it follows.
    pub fn with_rotation(mut self, of_members: Vec<Handover>) -> Self {
        if let Custody::Committee(committee) = &mut self.custody
            && let Some(followed) = &mut committee.follows
        {
            followed.epoch.handover = of_members;
        }
        self
    }

    /// What this manifest says of the committee that it follows, which must be that of `known`: keys, members
    /// and epoch. Its own keys must have the parameters of `known`, under which ciphertexts move.
    ///
    /// # Errors
    /// [`Error::Manifest`] if it follows none, says something else, or has other parameters.
    pub fn followed(&self, known: &Manifest) -> Result<&Followed, Error> {
        for (name, own, want) in [
            ("fingerprint", &self.fingerprint, &known.fingerprint),
            ("scores.fingerprint", &self.scores.fingerprint, &known.scores.fingerprint),
        ] {
            if own != want {
                return Err(differs(name, own, want));
            }
        }
        if self.shape != known.shape {
            return Err(differs("shape", "another problem", "that of the keys before"));
        }
        let followed = match &self.custody {
            Custody::Committee(committee) => committee.follows.as_deref(),
            Custody::Holder => None,
        };
        let want = "the one that is known";
        let followed = followed.ok_or_else(|| differs("custody.follows", "no committee", want))?;
        let bare = PastEpoch { handover: Vec::new(), ..followed.epoch.clone() };
        match (Followed { epoch: bare, ..followed.clone() }) == known.as_followed()? {
            true => Ok(followed),
            false => Err(differs("custody.follows", "another committee", want)),
        }
    }

    /// Checks that all members of this committee signed its keys, and t members of the committee of `known`
    /// that bandits go on under them.
    ///
    /// # Errors
    /// [`Error::Manifest`] if it follows another committee, or fewer signed; [`Error::Envelope`] for a
    /// signature of somebody else.
    pub fn check_rotation(&self, known: &Manifest) -> Result<(), Error> {
        self.check_signatures()?;
        let followed = self.followed(known)?;
        let (want, mut signed) = (followed.epoch.quorum()?.threshold(), BTreeSet::new());
        for Handover { member, signature } in &followed.epoch.handover {
            let at = usize::from(*member).checked_sub(1);
            let verifying = at.and_then(|at| followed.epoch.verifying.get(at)).map_or(&[][..], |key| &key.0);
            self.check_rotation_signature(verifying, &signature.0)?;
            signed.insert(member);
        }
        match signed.len() >= want.into() {
            true => Ok(()),
            false => {
                let want = format!("those of {want} members of the committee before");
                Err(differs("custody.follows.handover", &signed.len().to_string(), &want))
            }
        }
    }

    /// The number of frames of the large ring.
    ///
    /// # Errors
    /// [`Error::Manifest`] if more frames of the ring of scores and of bootstraps are stated than frames in
    /// all.
    pub(crate) fn large_frames(&self) -> Result<u32, Error> {
        let of_scores = self.scores.all_frames();
        let of_scores = of_scores.and_then(|frames| frames.checked_add(self.bootstraps.is_some().into()));
        let got = || of_scores.map_or("above 2³²".into(), |frames| frames.to_string());
        let most = || differs("scores.frames", &got(), &format!("at most {}", self.frames));
        of_scores.and_then(|frames| self.frames.checked_sub(frames)).ok_or_else(most)
    }

    fn stated(&self) -> StatedRing<'_> {
        StatedRing {
            params: &self.params,
            fingerprint: &self.fingerprint,
            key_id: &self.key_id,
            security_bits: self.security_bits,
            log2_qp: self.log2_qp,
            fields: &LARGE_FIELDS,
        }
    }
}

/// What a manifest states of a ring.
struct StatedRing<'a> {
    params: &'a str,
    fingerprint: &'a str,
    key_id: &'a str,
    security_bits: u32,
    log2_qp: f64,
    fields: &'static FieldNames,
}

/// The names of fields in errors.
struct FieldNames {
    fingerprint: &'static str,
    key_id: &'static str,
    security_bits: &'static str,
    log2_qp: &'static str,
}

const LARGE_FIELDS: FieldNames = FieldNames {
    fingerprint: "fingerprint",
    key_id: "key_id",
    security_bits: "security_bits",
    log2_qp: "log2_qp",
};
const SCORES_FIELDS: FieldNames = FieldNames {
    fingerprint: "scores.fingerprint",
    key_id: "scores.key_id",
    security_bits: "scores.security_bits",
    log2_qp: "scores.log2_qp",
};

impl StatedRing<'_> {
    /// The parameters of this name among `known`, which must have the stated values.
    fn params(&self, known: &[ParamsSpec]) -> Result<Params, Error> {
        let Some(spec) = known.iter().find(|spec| spec.name == self.params) else {
            let names: Vec<&str> = known.iter().map(|spec| spec.name).collect();
            let got = shortened(self.params);
            return Err(Error::UnknownParams { got, known: names.join(" or ") });
        };
        let params = spec.validate()?;
        let same = |field, got: &str, want: String| match got == want {
            true => Ok(()),
            false => Err(differs(field, got, &want)),
        };
        same(self.fields.fingerprint, self.fingerprint, params.fingerprint().to_string())?;
        let bits = spec.security.bits().to_string();
        same(self.fields.security_bits, &self.security_bits.to_string(), bits)?;
        same_log_qp(self.fields.log2_qp, self.log2_qp, params.log_qp())?;
        Ok(params)
    }

    fn check_key(&self, key: KeyId) -> Result<(), Error> {
        match self.key_id == key.to_string() {
            true => Ok(()),
            false => Err(differs(self.fields.key_id, self.key_id, &key.to_string())),
        }
    }
}

fn same_log_qp(field: &'static str, got: f64, want: f64) -> Result<(), Error> {
    // JSON may lose the last bit.
    if (got - want).abs() > 1e-6 || !got.is_finite() {
        return Err(differs(field, &got.to_string(), &want.to_string()));
    }
    Ok(())
}

pub(crate) fn differs(field: &'static str, got: &str, want: &str) -> Error {
    Error::Manifest { field, got: shortened(got), want: want.into() }
}

/// The first 64 characters of `text`, for an error message.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

fn io(what: &str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::Io { what: what.into(), error }
}

/// Writes a bundle frame by frame, so that only one frame is in memory.
pub struct BundleWriter<W: Write> {
    out: W,
    want: u32,
    written: u32,
    bytes: u64,
}

impl<W: Write> BundleWriter<W> {
    /// Writes the start of a bundle with its manifest.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(kind: BundleKind, manifest: &Manifest, mut out: W) -> Result<Self, Error> {
        let json = serde_json::to_vec(manifest).map_err(|e| Error::BadManifest(e.to_string()))?;
        let mut head = Vec::with_capacity(14 + json.len());
        head.extend(kind.magic());
        head.extend(BUNDLE_VERSION.to_le_bytes());
        head.extend((json.len() as u32).to_le_bytes());
        head.extend(json);
        out.write_all(&head).map_err(io("writing a bundle"))?;
        Ok(BundleWriter { out, want: manifest.frames, written: 0, bytes: head.len() as u64 })
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn frame(&mut self, frame: &[u8]) -> Result<(), Error> {
        self.out
            .write_all(&(frame.len() as u64).to_le_bytes())
            .and_then(|()| self.out.write_all(frame))
            .map_err(io("writing a bundle"))?;
        self.written += 1;
        self.bytes += 8 + frame.len() as u64;
        Ok(())
    }

    /// Flushes, and returns the output and the number of bytes written.
    ///
    /// # Errors
    /// [`Error::FrameCount`] if the manifest states another number of frames, [`Error::Io`].
    pub fn finish(mut self) -> Result<(W, u64), Error> {
        if self.written != self.want {
            return Err(Error::FrameCount { got: self.written, want: self.want });
        }
        self.out.flush().map_err(io("writing a bundle"))?;
        Ok((self.out, self.bytes))
    }
}

/// Reads a bundle frame by frame.
pub struct BundleReader<R: Read> {
    input: R,
    kind: BundleKind,
    manifest: Manifest,
    read: u32,
    digest: KeysDigest,
}

impl<R: Read> BundleReader<R> {
    /// Reads the start of a bundle of either kind, with its manifest.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::BundleVersion`], [`Error::TooLong`], [`Error::Truncated`],
    /// [`Error::BadManifest`], [`Error::Io`].
    pub fn new(mut input: R) -> Result<Self, Error> {
        let magic: [u8; 8] = number(&mut input, "the magic number")?;
        let kind = [BundleKind::Public, BundleKind::Secret, BundleKind::Users]
            .into_iter()
            .find(|k| k.magic() == magic);
        let kind = kind.ok_or(Error::Malformed("not a key bundle, which `helba-keygen create` writes"))?;
        let version = u16::from_le_bytes(number(&mut input, "the version")?);
        if version != BUNDLE_VERSION {
            return Err(Error::BundleVersion { got: version, want: BUNDLE_VERSION });
        }
        let length = u32::from_le_bytes(number(&mut input, "the manifest's length")?) as usize;
        check_length("the manifest", length, MAX_MANIFEST_BYTES)?;
        let mut json = vec![0; length];
        exactly(&mut input, &mut json, "the manifest")?;
        let manifest: Manifest =
            serde_json::from_slice(&json).map_err(|e| Error::BadManifest(e.to_string()))?;
        let Shape { dim, arm_slots } = manifest.shape;
        if ![dim, arm_slots].iter().all(|&s| s.is_power_of_two() && (2..=MAX_SIDE).contains(&s)) {
            let why =
                format!("its shape is {dim} and {arm_slots}, and must be powers of two from 2 to {MAX_SIDE}");
            return Err(Error::BadManifest(why));
        }
        if manifest.frames > MAX_FRAMES {
            return Err(Error::BadManifest(format!(
                "it states {} frames, and at most {MAX_FRAMES} are possible",
                manifest.frames
            )));
        }
        Ok(BundleReader { input, kind, manifest, read: 0, digest: KeysDigest::default() })
    }

    /// As [`Self::new`], for one kind.
    ///
    /// # Errors
    /// As [`Self::new`]; [`Error::WrongBundle`].
    pub fn of_kind(want: BundleKind, input: R) -> Result<Self, Error> {
        Self::new(input)?.checked(want)
    }

    /// The reader, if the bundle is of this kind.
    pub(crate) fn checked(self, want: BundleKind) -> Result<Self, Error> {
        if self.kind == want { Ok(self) } else { Err(Error::WrongBundle { want }) }
    }

    /// The kind of the bundle.
    pub fn kind(&self) -> BundleKind {
        self.kind
    }

    /// The manifest. Its values are not checked; see [`Manifest::params`].
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The digest of the frames that were read.
    pub(crate) fn digest(&self) -> PublicBytes {
        self.digest.digest()
    }

    /// Reads the next frame into `frame`, which is cleared first and grows at most once. Returns false after
    /// the last frame, where the input must end.
    ///
    /// # Errors
    /// [`Error::TooLong`] if the frame is longer than `limit`, [`Error::Truncated`], [`Error::Trailing`],
    /// [`Error::Io`].
    pub fn next_frame(&mut self, limit: usize, frame: &mut Vec<u8>) -> Result<bool, Error> {
        frame.clear();
        if self.read == self.manifest.frames {
            let mut rest = self.input.by_ref().take(MOST_TRAILING);
            let bytes = std::io::copy(&mut rest, &mut std::io::sink()).map_err(io("reading a bundle"))?;
            return if bytes == 0 { Ok(false) } else { Err(Error::Trailing { bytes: bytes as usize }) };
        }
        let length = u64::from_le_bytes(number(&mut self.input, "a frame's length")?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        check_length("a frame", length, limit)?;
        frame.resize(length, 0);
        exactly(&mut self.input, frame, "a frame")?;
        self.digest.add(frame);
        self.read += 1;
        Ok(true)
    }
}

/// The most bytes that are counted after the end of a bundle, since a stream may be endless.
const MOST_TRAILING: u64 = 1 << 20;

fn exactly(input: &mut impl Read, out: &mut [u8], what: &'static str) -> Result<(), Error> {
    input.read_exact(out).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::Truncated { what },
        _ => io("reading a bundle")(e),
    })
}

fn number<const K: usize>(input: &mut impl Read, what: &'static str) -> Result<[u8; K], Error> {
    let mut out = [0; K];
    exactly(input, &mut out, what)?;
    Ok(out)
}

/// A time in JSON, as RFC 3339 with a resolution of one second.
mod moment {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
    use std::time::{Duration, UNIX_EPOCH};

    /// The last second of the year 9999, which is the last one in RFC 3339.
    const LAST: u64 = 253_402_300_799;

    pub(super) fn written(seconds: u64) -> String {
        humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST))).to_string()
    }

    pub(super) fn serialize<S: Serializer>(seconds: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&written(*seconds))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let time = humantime::parse_rfc3339(&String::deserialize(from)?).map_err(D::Error::custom)?;
        Ok(time.duration_since(UNIX_EPOCH).map_err(D::Error::custom)?.as_secs())
    }

    #[cfg(test)]
    mod tests {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct At(#[serde(with = "super")] u64);

        #[test]
        fn times_are_text() {
            for (seconds, text) in [
                (0, "\"1970-01-01T00:00:00Z\""),
                (951_782_400, "\"2000-02-29T00:00:00Z\""),
                (1_700_000_000, "\"2023-11-14T22:13:20Z\""),
                (super::LAST, "\"9999-12-31T23:59:59Z\""),
            ] {
                assert_eq!(serde_json::to_string(&At(seconds)).unwrap(), text);
                assert_eq!(serde_json::from_str::<At>(text).unwrap(), At(seconds));
                assert!(serde_json::from_str::<At>(&seconds.to_string()).is_err());
            }
            for bad in [
                "253402300800",
                "18446744073709551615",
                "-1",
                "null",
                "\"\"",
                "\"1969-12-31T23:59:59Z\"",
                "\"today\"",
            ] {
                assert!(serde_json::from_str::<At>(bad).is_err(), "{bad}");
            }
        }
    }
}
