//! The keys and the messages of bandits of the paper's method.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST …/decisions` | [`PaperVectors`] of the contexts | [`PaperReply`] |
//! | `POST …/raises` | [`PaperAnswer`] to the task of the last reply | [`PaperReply`] |
//! | `POST …/decisions/{decision}/feedback` | [`PaperVectors`] of the feedback | receipt, JSON |
//!
//! The device that decides holds the key. It answers one task after the other, until a reply has its
//! decision.

use crate::bundle::{BundleKind, BundleManifest, BundleReader, BundleWriter, kind_of};
use crate::frame::{self, Kind, Reader};
use crate::manifest::{RingManifest, moment};
use crate::public::{ReadKeys, WantedKeys};
use crate::secret::{last_token, secret_key};
use crate::{AccessToken, Error, TokenDigest};
use ckks::{EvaluationKeys, KeyId, Params, ParamsSpec, PublicKey};
use protocol::DecisionId;
use protocol::paper::LinearConfig;
use protocol::paper::{PAPER_ANSWER_LEVEL, PAPER_RAISE_LEVEL, PaperPlan};
use serde::{Deserialize, Serialize};
use std::io::{BufReader, Read, Write};
use std::path::Path;
use zeroize::Zeroizing;

/// The method that the manifest of a bundle states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaperName {
    /// The paper's own.
    #[default]
    Paper,
}

/// The description at the start of a bundle of the paper's method. It contains no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperManifest {
    /// The method.
    pub method: PaperName,
    /// The ring.
    #[serde(flatten)]
    pub ring: RingManifest,
    /// The time of key generation, in seconds since 1970; in JSON as RFC 3339.
    #[serde(with = "moment")]
    pub created: u64,
    /// The number of frames in this bundle.
    pub frames: u32,
    /// The digest of the token in the secret bundle.
    pub token_digest: TokenDigest,
}

impl BundleManifest for PaperManifest {
    fn magic(kind: BundleKind) -> [u8; 8] {
        match kind {
            BundleKind::Public => *b"HELBPPUB",
            BundleKind::Secret => *b"HELBPSEC",
        }
    }

    fn frames(&self) -> u32 {
        self.frames
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl PaperManifest {
    /// The manifest of a bundle of `frames` frames.
    pub fn new(params: &Params, key: KeyId, created: u64, frames: u32, token_digest: TokenDigest) -> Self {
        PaperManifest {
            method: PaperName::Paper,
            ring: RingManifest::new(params, key),
            created,
            frames,
            token_digest,
        }
    }

    /// The time of key generation, as RFC 3339.
    pub fn created_at(&self) -> String {
        moment::written(self.created)
    }

    /// The parameters and the plan of the method, which must have the stated values.
    ///
    /// # Errors
    /// As [`crate::Manifest::params`].
    pub fn plan(&self) -> Result<(Params, PaperPlan), Error> {
        let plans = [false, true].map(PaperPlan::new);
        let known: Vec<ParamsSpec> = plans.iter().map(|plan| plan.params).collect();
        let params = self.ring.params("", &known)?;
        let plan = plans.into_iter().find(|plan| plan.params == *params.spec());
        Ok((params, plan.ok_or(Error::Malformed("a set of parameters without a plan"))?))
    }

    /// Checks that `key` is the id in the manifest.
    ///
    /// # Errors
    /// [`Error::Manifest`] if it differs.
    pub fn check_key(&self, key: KeyId) -> Result<(), Error> {
        self.ring.check_key("", key)
    }
}

/// Whether the file at `path` begins as a bundle of the paper's method of either kind.
///
/// # Errors
/// [`Error::Io`].
pub fn is_paper(path: &Path) -> Result<bool, Error> {
    let io = |error| Error::Io { what: format!("cannot open {}", path.display()), error };
    let mut start = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(8).read_to_end(&mut start)).map_err(io)?;
    Ok(start.try_into().is_ok_and(|magic: [u8; 8]| kind_of::<PaperManifest>(magic).is_some()))
}

/// The kind and the manifest of a bundle of the paper's method. Nothing behind the manifest is read.
///
/// # Errors
/// As [`BundleReader::new`].
pub fn read_paper_manifest(input: impl Read) -> Result<(BundleKind, PaperManifest), Error> {
    let reader = BundleReader::<_, PaperManifest>::begin(input)?;
    Ok((reader.kind(), reader.manifest().clone()))
}

/// The public half of a key pair of the paper's method. It is checked and complete.
#[derive(Debug, Clone)]
pub struct PaperKeys {
    /// The manifest.
    pub manifest: PaperManifest,
    /// The parameters.
    pub params: Params,
    /// The public key.
    pub public_key: PublicKey,
    /// The id of the key pair.
    pub key_id: KeyId,
    /// The relinearisation key and the keys of the rotations of a [`PaperPlan`].
    pub keys: EvaluationKeys,
}

impl PaperKeys {
    /// Loads a file.
    ///
    /// # Errors
    /// [`Error::Io`] with the path; as [`Self::read`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::Io { what: format!("cannot open {}", path.display()), error };
        Self::read(BufReader::new(std::fs::File::open(path).map_err(io)?))
    }

    /// Reads a bundle, and checks that it has every key of the plan.
    ///
    /// # Errors
    /// As [`crate::PublicBundle::read`].
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let mut reader = BundleReader::<_, PaperManifest>::begin(input)?.checked(BundleKind::Public)?;
        let manifest = reader.manifest().clone();
        let (params, plan) = manifest.plan()?;
        let wanted = WantedKeys::paper(&params, &plan);
        let ReadKeys { public_key, key_id, keys } =
            ReadKeys::read(&mut reader, &params, manifest.frames, &wanted)?;
        manifest.check_key(key_id)?;
        wanted.check_complete(&keys)?;
        reader.next_frame(0, &mut Vec::new())?;
        Ok(PaperKeys { manifest, params, public_key, key_id, keys })
    }

    /// A writer of the frames of a public bundle: the public key, then the relinearisation key and the keys
    /// of the rotations.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn writer<W: Write>(manifest: &PaperManifest, out: W) -> Result<BundleWriter<W>, Error> {
        BundleWriter::of(BundleKind::Public, manifest, out)
    }
}

/// A secret bundle of the paper's method: the frame of the key, which is not read, and the access token. It
/// has no Debug, and is zeroed when it is dropped.
pub struct PaperSecret {
    /// The manifest.
    pub manifest: PaperManifest,
    /// The parameters.
    pub params: Params,
    /// The frame of the secret key, for `ckks-secret`.
    pub frame: Zeroizing<Vec<u8>>,
    /// The access token.
    pub token: AccessToken,
}

impl PaperSecret {
    /// Reads a bundle. The input should have no buffer, which would keep a copy of the key.
    ///
    /// # Errors
    /// As [`crate::SecretBundle::read`].
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let mut reader = BundleReader::<_, PaperManifest>::begin(input)?.checked(BundleKind::Secret)?;
        let manifest = reader.manifest().clone();
        let (params, _) = manifest.plan()?;
        let frame = secret_key(&mut reader, &params)?;
        let token = last_token(&mut reader, manifest.token_digest)?;
        Ok(PaperSecret { manifest, params, frame, token })
    }

    /// Writes a bundle of the frame of the secret key and the token. Returns the output and the number of
    /// bytes written.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::FrameCount`] if the manifest states another number of frames than two.
    pub fn write<W: Write>(
        manifest: &PaperManifest,
        frame: &[u8],
        token: &AccessToken,
        out: W,
    ) -> Result<(W, u64), Error> {
        let mut writer = BundleWriter::of(BundleKind::Secret, manifest, out)?;
        writer.frame(frame)?;
        writer.frame(token.as_bytes())?;
        writer.finish()
    }
}

/// A bandit of the paper's method as it was created: the answer to its creation request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaperCreated {
    /// The id of the bandit in paths.
    pub id: String,
    /// The method.
    pub method: PaperName,
    /// The configuration, with defaults filled in.
    pub linear: LinearConfig,
    /// The id of the key pair, in hexadecimal.
    pub key_id: String,
    /// The fingerprint of the parameters, in hexadecimal.
    pub fingerprint: String,
    /// The level of the vectors that a device encrypts and raises.
    pub top_level: usize,
    /// The level of masked vectors.
    pub raise_level: usize,
    /// The level of answers.
    pub answer_level: usize,
}

impl PaperCreated {
    /// The bandit with this configuration under these keys.
    pub fn new(id: String, linear: LinearConfig, params: &Params, key: KeyId) -> Self {
        PaperCreated {
            id,
            method: PaperName::Paper,
            linear,
            key_id: key.to_string(),
            fingerprint: params.fingerprint().to_string(),
            top_level: params.max_level(),
            raise_level: PAPER_RAISE_LEVEL,
            answer_level: PAPER_ANSWER_LEVEL,
        }
    }
}

/// The public counters of a bandit of the paper's method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaperStatus {
    /// The number of decisions.
    pub round: u64,
    /// The number of feedbacks.
    pub feedbacks: u64,
    /// t_j, the number of feedbacks in the model.
    pub model_feedbacks: u64,
    /// The number of batches closed.
    pub batches: u64,
    /// The number of raises of all decisions.
    pub raises: u64,
    /// The number of decisions without feedback that wait for it, 0 or 1.
    pub pending_decisions: u64,
}

/// A bandit of the paper's method and its counters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaperView {
    /// The bandit as it was created.
    pub created: PaperCreated,
    /// The counters.
    pub status: PaperStatus,
}

/// The two vectors of contexts or of a feedback, as frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaperVectors {
    /// The frame of the left vector.
    pub left: Vec<u8>,
    /// The frame of the right vector.
    pub right: Vec<u8>,
}

/// A masked vector, as a frame, for the holder of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaperTask {
    /// It is encrypted anew at the top level.
    Raise,
    /// Its constant coefficient is returned with noise.
    Open,
}

/// The answer of a server to contexts and to a [`PaperAnswer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaperReply {
    /// The round goes on when this task is answered.
    Task {
        /// The number of the task.
        id: u64,
        /// What the holder of the key does.
        task: PaperTask,
        /// The masked vector.
        frame: Vec<u8>,
    },
    /// The decision.
    Decision(PaperDecision),
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaperDecision {
    /// The id that the feedback names.
    pub id: DecisionId,
    /// t_j, the number of feedbacks in the model.
    pub model_feedbacks: u64,
    /// The number of raises of this round.
    pub raises: u64,
    /// The encrypted entries of the arms.
    pub answer: Vec<u8>,
}

/// The answer of the holder of the key to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaperAnswer {
    /// The number of the task.
    pub id: u64,
    /// The frame of the vector at the top level, or the constant coefficient of an opened one.
    pub answer: Result<Vec<u8>, i128>,
}

#[derive(Serialize, Deserialize)]
enum ReplyHeader {
    Task(u64, PaperTask),
    Decision(DecisionId, u64, u64),
}

/// The most bytes of a frame of a fresh vector.
fn fresh_bytes(params: &Params) -> usize {
    ckks::ciphertext_bytes(params, params.max_level(), false)
}

impl PaperVectors {
    /// The most bytes of the message.
    pub fn most_bytes(params: &Params) -> usize {
        frame::overhead(2) + 2 * fresh_bytes(params)
    }

    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::write(Kind::PaperVectors, &(), &[&self.left, &self.right])
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frames are not read.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`].
    pub fn read(bytes: &[u8], params: &Params) -> Result<Self, Error> {
        let (mut reader, limit) = (Reader::new(bytes, Self::most_bytes(params))?, fresh_bytes(params));
        reader.header::<()>(Kind::PaperVectors)?;
        let left = reader.blob("the left vector", limit)?.to_vec();
        let right = reader.blob("the right vector", limit)?.to_vec();
        reader.end()?;
        Ok(PaperVectors { left, right })
    }
}

impl PaperAnswer {
    /// The most bytes of the message.
    pub fn most_bytes(params: &Params) -> usize {
        frame::overhead(1) + fresh_bytes(params)
    }

    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (opened, frame) = match &self.answer {
            Ok(frame) => (None, frame.as_slice()),
            Err(opened) => (Some(*opened), &[][..]),
        };
        frame::write(Kind::PaperAnswer, &(self.id, opened), &[frame])
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frame is not read.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`].
    pub fn read(bytes: &[u8], params: &Params) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, Self::most_bytes(params))?;
        let (id, opened): (u64, Option<i128>) = reader.header(Kind::PaperAnswer)?;
        let frame = reader.blob("a raised vector", fresh_bytes(params))?.to_vec();
        reader.end()?;
        Ok(PaperAnswer { id, answer: opened.map_or(Ok(frame), Err) })
    }
}

impl PaperReply {
    /// The most bytes of the message.
    pub fn most_bytes(params: &Params) -> usize {
        frame::overhead(1) + ckks::ciphertext_bytes(params, PAPER_RAISE_LEVEL, false)
    }

    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (header, frame) = match self {
            PaperReply::Task { id, task, frame } => (ReplyHeader::Task(*id, *task), frame),
            PaperReply::Decision(PaperDecision { id, model_feedbacks, raises, answer }) => {
                (ReplyHeader::Decision(*id, *model_feedbacks, *raises), answer)
            }
        };
        frame::write(Kind::PaperReply, &header, &[frame])
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frame is not read.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`].
    pub fn read(bytes: &[u8], params: &Params) -> Result<Self, Error> {
        let limit = Self::most_bytes(params);
        let mut reader = Reader::new(bytes, limit)?;
        let header: ReplyHeader = reader.header(Kind::PaperReply)?;
        let frame = reader.blob("a vector for the holder of the key", limit)?.to_vec();
        reader.end()?;
        Ok(match header {
            ReplyHeader::Task(id, task) => PaperReply::Task { id, task, frame },
            ReplyHeader::Decision(id, model_feedbacks, raises) => {
                PaperReply::Decision(PaperDecision { id, model_feedbacks, raises, answer: frame })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages are read as they were written, and cut, longer and other ones are refused.
    #[test]
    fn messages_are_read_as_written() {
        let params = PaperPlan::new(true).params.validate().unwrap();
        let vectors = PaperVectors { left: vec![1, 2], right: vec![3] };
        let decision =
            PaperDecision { id: DecisionId([4; 16]), model_feedbacks: 5, raises: 6, answer: vec![7] };
        let replies = [
            PaperReply::Task { id: 8, task: PaperTask::Raise, frame: vec![9] },
            PaperReply::Task { id: 8, task: PaperTask::Open, frame: vec![] },
            PaperReply::Decision(decision),
        ];
        let answers = [Ok(vec![1, 2, 3]), Err(-(1i128 << 100))].map(|answer| PaperAnswer { id: 7, answer });
        assert_eq!(PaperVectors::read(&vectors.to_bytes(), &params).unwrap(), vectors);
        for reply in &replies {
            assert_eq!(PaperReply::read(&reply.to_bytes(), &params).unwrap(), *reply);
            assert!(PaperAnswer::read(&reply.to_bytes(), &params).is_err());
        }
        for answer in &answers {
            let bytes = answer.to_bytes();
            assert_eq!(PaperAnswer::read(&bytes, &params).unwrap(), *answer);
            assert!((0..bytes.len()).all(|cut| PaperAnswer::read(&bytes[..cut], &params).is_err()));
            assert!(PaperAnswer::read(&[&bytes[..], &[0]].concat(), &params).is_err());
        }
    }
}
