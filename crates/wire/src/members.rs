//! Messages between a server and the members of a key committee.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /v1/committee/members/{member}/questions` | | [`MemberRequest`], or 204 |
//! | `POST /v1/committee/members/{member}/shares` | [`MemberReply`] | 204 |
//! | `GET /v1/bandits/{id}/journal?after=N&head=H` | | [`Journal`] |

use crate::checks::MOST_INPUTS;
use crate::frame::{self, Kind, Reader};
use crate::heads::MOST_HEAD;
use crate::{AnswerBinding, Error, SealedShare, SignedHead, answer_key_hash};
use ckks::Refresh;
use ckks_shares::{ActiveSet, CHECK_BITS, Raised, RequestId, RequestKind, SessionId, Transfer};
use envelope::{SEALED_OVERHEAD, SEALING_KEY_BYTES, SIGNATURE_BYTES};
use protocol::{Exchanges, MOST_DECISIONS, Plan, TaskKind};
use rns::{Ntt, Poly};
use serde::{Deserialize, Serialize};

/// The most bytes of the id of a bandit in a message.
const MOST_ID: usize = 64;
/// The most users of an evaluation.
const MOST_USERS: usize = 4096;
/// The most sets of members that are asked for one task in an epoch of the committee.
pub const MOST_ATTEMPTS: u32 = 8;
/// The most bytes of what members are asked about, besides the ciphertext: each user has a key.
pub const MOST_QUESTION: usize = MOST_USERS * (SEALING_KEY_BYTES + 64);

/// The domain of signatures of requests for questions.
const POLL_SIGNATURE: &str = "helba committee v1: poll";
/// The domain of signatures of [`MemberReply::Refused`].
const REFUSAL_SIGNATURE: &str = "helba committee v1: refusal";
/// The domain of signatures of [`MemberReply::Busy`].
const BUSY_SIGNATURE: &str = "helba committee v1: busy";
/// The domain of signatures of [`MemberReply::Frames`].
const FRAMES_SIGNATURE: &str = "helba committee v1: frames of shares";

/// A user of an evaluation that is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerUser {
    /// The round of its first decision.
    pub round: u64,
    /// The numbers of its decisions in the evaluation.
    pub users: Vec<u32>,
    /// The key that its answer is sealed under.
    pub answer_key: Vec<u8>,
}

/// What members are asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Wanted {
    /// A transfer: what a holder of the key would be asked for.
    Transfer(TaskKind),
    /// The answers of an evaluation.
    Answers {
        /// t_j, the number of feedbacks in its model.
        model_feedbacks: u64,
        /// Its users.
        users: Vec<AnswerUser>,
    },
    /// A round of a check of feedbacks ([`crate::FeedbackCheck`]), whose frames are beside the question.
    Checks {
        /// The round, from 0.
        round: u8,
        /// What the weights of its projections follow from.
        seed: [u8; 32],
        /// The hashes of the feedbacks that have passed so far ([`crate::input_hash`]).
        hashes: Vec<[u8; 32]>,
    },
    /// The state of a bandit, for the keys of another committee ([`rotations`]). c₁ of its statistics is
    /// beside the question.
    Rotation {
        /// The hash of the manifest of these keys.
        next: [u8; 32],
        /// The numbers of the bandit.
        standing: Vec<u8>,
    },
    /// The signature of keys under which bandits go on, for their devices. It is about no bandit, and the
    /// reply has the hash of the manifest as its frame, and [`crate::Manifest::sign_rotation`] as its
    /// signature.
    Handover {
        /// The hash of the manifest of these keys.
        next: [u8; 32],
    },
}

/// The meaning of a request to members. Its bytes are the header of the request ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The id of the bandit.
    pub bandit: String,
    /// The number of the task, which its attempts have in common.
    pub task: u64,
    /// The number of the attempt: from [`MOST_ATTEMPTS`] times the epoch of the committee on, so that no
    /// request of an epoch is one of another. Each asks another set of members.
    pub attempt: u32,
    /// What is wanted.
    pub wanted: Wanted,
}

impl Question {
    /// The bytes, which are the same wherever they are computed.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Malformed`], [`Error::Trailing`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        frame::check_length("a question", bytes.len(), MOST_QUESTION)?;
        let malformed = |_| Error::Malformed("a question to members cannot be read");
        let (question, rest) = postcard::take_from_bytes::<Question>(bytes).map_err(malformed)?;
        if !rest.is_empty() {
            return Err(Error::Trailing { bytes: rest.len() });
        }
        if question.bandit.len() > MOST_ID {
            return Err(Error::Malformed("a question about a bandit with a longer id than any has"));
        }
        if let Wanted::Answers { users, .. } = &question.wanted {
            let fits = |user: &AnswerUser| {
                (1..=MOST_DECISIONS).contains(&user.users.len()) && user.answer_key.len() == SEALING_KEY_BYTES
            };
            if users.is_empty() || users.len() > MOST_USERS || !users.iter().all(fits) {
                return Err(Error::Malformed("a question about users that no evaluation has"));
            }
        }
        if let Wanted::Checks { hashes, .. } = &question.wanted
            && !(1..=MOST_INPUTS).contains(&hashes.len())
        {
            return Err(Error::Malformed("a check of no feedbacks or of more than 64"));
        }
        Ok(question)
    }

    /// The epoch of the committee that is asked.
    pub fn epoch(&self) -> usize {
        (self.attempt / MOST_ATTEMPTS) as usize
    }

    /// What the answer of a user is about.
    pub fn binding(&self, model_feedbacks: u64, user: &AnswerUser) -> AnswerBinding {
        AnswerBinding {
            bandit: self.bandit.clone(),
            round: user.round,
            model_feedbacks,
            users: user.users.clone(),
            answer_key: answer_key_hash(&user.answer_key),
        }
    }
}

/// The header of the request id of the transfer with this number, among those of one question.
pub fn transfer_header(question: &[u8], number: u8) -> Vec<u8> {
    [question, &[number]].concat()
}

/// The transfers that a task takes, in the order of [`transfer_header`].
pub fn transfers(exchanges: &Exchanges, kind: TaskKind) -> Vec<Box<dyn Transfer + '_>> {
    match kind {
        TaskKind::Scores { factor, alone } => {
            vec![Box::new(Raised { raise: exchanges.scores(alone), factor, check_bits: 0 })]
        }
        TaskKind::Sum => {
            let factor = exchanges.layout.statistics_factor();
            vec![Box::new(Raised { raise: &exchanges.statistics, factor, check_bits: CHECK_BITS })]
        }
        TaskKind::Model => {
            vec![Box::new(exchanges.refresh_numbers.clone()), Box::new(exchanges.model_numbers.clone())]
        }
    }
}

/// The transfers of the state of a bandit to other keys: its model in both rings, and its statistics. The
/// first two are of the model, cut to the level of a refresh, and the last of the statistics, cut to it too.
///
/// # Errors
/// [`Error::Ckks`] for a plan of other parameters.
pub fn rotations(exchanges: &Exchanges, plan: &Plan) -> Result<Vec<Box<dyn Transfer>>, Error> {
    let large = exchanges.refresh.params();
    let statistics = Refresh::new(large, plan.refresh_level, plan.statistics_level, large.max_slots())?;
    Ok(vec![
        Box::new(exchanges.refresh_numbers.clone()),
        Box::new(exchanges.model_numbers.clone()),
        Box::new(statistics),
    ])
}

/// The ids of the requests of [`rotations`], about these polynomials of model and statistics.
pub fn rotation_requests(question: &[u8], set: ActiveSet, c1: [&Poly<Ntt>; 2]) -> [[u8; 32]; 3] {
    let id = |number: u8, c1| {
        let header = transfer_header(question, number);
        *RequestId::new(RequestKind::Rotation, set, &header, Some(c1)).bytes()
    };
    [id(0, c1[0]), id(1, c1[0]), id(2, c1[1])]
}

/// What members have signed of a rotation, for those who hold the keys after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RotationEvidence {
    /// The bytes of the [`Question`].
    pub question: Vec<u8>,
    /// The members who answered, as [`ActiveSet::bits`].
    pub set: u16,
    /// The frames of c₁ of model and statistics, under the keys before.
    pub c1: [Vec<u8>; 2],
    /// What each member answered, in the order of their numbers.
    pub shares: Vec<RotationShares>,
}

/// The answer of a member to [`Wanted::Rotation`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RotationShares {
    /// The hashes of all frames.
    pub hashes: Vec<[u8; 32]>,
    /// The frames of c₁ of its encryptions under the other keys.
    pub up: Vec<Vec<u8>>,
    /// The signature of the member.
    pub signature: Vec<u8>,
}

impl RotationEvidence {
    /// The bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::Trailing`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let malformed = |_| Error::Malformed("the evidence of a rotation cannot be read");
        let (evidence, rest) = postcard::take_from_bytes(bytes).map_err(malformed)?;
        if rest.is_empty() { Ok(evidence) } else { Err(Error::Trailing { bytes: rest.len() }) }
    }
}

/// A request to one member of a set.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberRequest {
    /// The number that the reply names. It belongs to this connection and is not part of the meaning.
    pub number: u64,
    /// The members who are asked, as [`ckks_shares::ActiveSet::bits`].
    pub set: u16,
    /// The bytes of a [`Question`].
    pub question: Vec<u8>,
    /// The frame of c₁ of the ciphertext.
    pub c1: Vec<u8>,
    /// The bytes of an [`Evidence`] for the scores and the answers of an evaluation, those of
    /// [`crate::CheckEvidence`] for checks, and none for others.
    pub evidence: Vec<u8>,
}

/// What a member computes an evaluation from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// The last round of its users.
    pub last_round: u64,
    /// t_j, the number of feedbacks in the model of its scores.
    pub model_feedbacks: u64,
    /// The number of decisions of each request, and the bytes of its [`crate::CommitteeContexts`], in the
    /// order of the pack.
    pub uploads: Vec<(u32, Vec<u8>)>,
    /// For answers, the raise of the scores.
    pub raise: Option<RaiseEvidence>,
}

/// A raise of scores that members have answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaiseEvidence {
    /// The bytes of its [`Question`].
    pub question: Vec<u8>,
    /// The members who answered, as [`ActiveSet::bits`](ckks_shares::ActiveSet::bits).
    pub set: u16,
    /// The frame of the raised scores.
    pub frame: Vec<u8>,
}

impl Evidence {
    /// The bytes, or none if there are more than 64 MiB.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        let bytes = postcard::to_stdvec(self).unwrap_or_default();
        if bytes.len() > MOST_EVIDENCE { Vec::new() } else { bytes }
    }

    /// Whether evidence has room for the raised scores, whose frame has `raised` bytes, and for uploads of
    /// these bytes.
    pub fn has_room(raised: usize, uploads: impl IntoIterator<Item = usize>) -> bool {
        let uploads: usize = uploads.into_iter().map(|bytes| bytes + UPLOAD_OVERHEAD).sum();
        uploads + raised + EVIDENCE_OVERHEAD <= MOST_EVIDENCE
    }

    /// Reads the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::Trailing`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let malformed = |_| Error::Malformed("the evidence of an evaluation cannot be read");
        let (evidence, rest) = postcard::take_from_bytes::<Evidence>(bytes).map_err(malformed)?;
        if !rest.is_empty() {
            return Err(Error::Trailing { bytes: rest.len() });
        }
        Ok(evidence)
    }
}

/// The most bytes of an [`Evidence`].
const MOST_EVIDENCE: usize = 64 << 20;
/// Bytes of an upload beside its body.
const UPLOAD_OVERHEAD: usize = 16;
/// Bytes of the question of a raise of scores, and of the numbers of an [`Evidence`].
const EVIDENCE_OVERHEAD: usize = 1 << 10;
/// The most bytes of a [`Journal`].
pub const MOST_JOURNAL: usize = 32 << 20;

/// The most bytes of the heads beside the records of a [`Journal`].
const MOST_HEADS: usize = ckks_shares::MOST_MEMBERS as usize * MOST_HEAD;

/// Records of the log of an encrypted bandit, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Journal {
    /// The records, as events of the bandit.
    pub records: Vec<Vec<u8>>,
    /// The last head that each member has signed.
    pub heads: Vec<SignedHead>,
}

impl Journal {
    /// The most bytes of the message.
    pub const fn most_bytes() -> usize {
        frame::overhead(2) + MOST_JOURNAL + MOST_HEADS
    }

    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        let records = postcard::to_stdvec(&self.records).unwrap_or_default();
        let heads = serde_json::to_vec(&self.heads).unwrap_or_default();
        frame::write(Kind::Journal, &(), &[&records, &heads])
    }

    /// Reads the bytes of [`Self::to_bytes`]. The records are not read, nor are signatures checked.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`].
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, Self::most_bytes())?;
        reader.header::<()>(Kind::Journal)?;
        let (records, rest) =
            postcard::take_from_bytes(reader.blob("the records of a journal", MOST_JOURNAL)?)
                .map_err(|_| Error::Malformed("the records of a journal cannot be read"))?;
        if !rest.is_empty() {
            return Err(Error::Trailing { bytes: rest.len() });
        }
        let heads = serde_json::from_slice(reader.blob("the heads of a journal", MOST_HEADS)?)
            .map_err(|_| Error::Malformed("the heads of a journal cannot be read"))?;
        reader.end()?;
        Ok(Journal { records, heads })
    }
}

impl MemberRequest {
    /// The most bytes of a request about a polynomial of at most `c1` bytes.
    pub const fn most_bytes(c1: usize) -> usize {
        frame::overhead(3) + MOST_QUESTION + c1 + MOST_EVIDENCE
    }

    /// The bytes of the request.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::write(
            Kind::MemberRequest,
            &(self.number, self.set),
            &[&self.question, &self.c1, &self.evidence],
        )
    }

    /// Reads the bytes of [`Self::to_bytes`]. Neither question nor frame is read.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`].
    pub fn read(bytes: &[u8], c1: usize) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, Self::most_bytes(c1))?;
        let (number, set) = reader.header::<(u64, u16)>(Kind::MemberRequest)?;
        let question = reader.blob("the question", MOST_QUESTION)?.to_vec();
        let c1 = reader.blob("the polynomial", c1)?.to_vec();
        let evidence = reader.blob("the evidence", MOST_EVIDENCE)?.to_vec();
        reader.end()?;
        Ok(MemberRequest { number, set, question, c1, evidence })
    }
}

/// The reply of a member.
#[derive(Debug, Clone, PartialEq)]
pub enum MemberReply {
    /// Shares of transfers, the frames of downⱼ and upⱼ of each, or of checks
    /// ([`crate::write_openings`]), and a signature over all.
    Frames {
        /// The number of the request.
        number: u64,
        /// The frames.
        frames: Vec<Vec<u8>>,
        /// The signature of the member.
        signature: Vec<u8>,
    },
    /// A sealed share for each user of the question, in its order.
    Answers {
        /// The number of the request.
        number: u64,
        /// The shares.
        shares: Vec<SealedShare>,
    },
    /// The member refuses the request, for this reason.
    Refused {
        /// The number of the request.
        number: u64,
        /// The reason, in a sentence.
        why: String,
        /// The signature of the member.
        signature: Vec<u8>,
    },
    /// The member computes as much as it can, and has noted nothing of the request: others are asked, or it
    /// again later.
    Busy {
        /// The number of the request.
        number: u64,
        /// The signature of the member.
        signature: Vec<u8>,
    },
}

/// The most bytes of a reason.
const MOST_WHY: usize = 400;
/// The most frames of a reply: three transfers to other keys, of three each.
const MOST_FRAMES: usize = 9;

impl MemberReply {
    /// The most bytes of a reply with frames of at most `frame` bytes, or to `decisions` decisions of `arms`
    /// arms each.
    pub const fn most_bytes(frame: usize, decisions: usize, arms: usize) -> usize {
        let share = 16 + SIGNATURE_BYTES + SEALED_OVERHEAD + 8 * arms;
        let (frames, shares) = (MOST_FRAMES * frame, decisions * share);
        frame::overhead(MOST_FRAMES) + if frames > shares { frames } else { shares }
    }

    /// A signed refusal of the request with this number and question. A reason is cut to 100 characters.
    pub fn refused(signing: &envelope::SigningSecret, number: u64, question: &[u8], why: &str) -> Self {
        let why: String = why.chars().take(MOST_WHY / 4).collect();
        let signature = signing.sign(REFUSAL_SIGNATURE, &signed_refusal(number, question, &why)).to_vec();
        MemberReply::Refused { number, why, signature }
    }

    /// A signed reply of a member that is busy, to the request with this number and question.
    pub fn busy(signing: &envelope::SigningSecret, number: u64, question: &[u8]) -> Self {
        let signature = signing.sign(BUSY_SIGNATURE, &signed_refusal(number, question, "")).to_vec();
        MemberReply::Busy { number, signature }
    }

    /// The number of the request.
    pub fn number(&self) -> u64 {
        match self {
            MemberReply::Frames { number, .. }
            | MemberReply::Answers { number, .. }
            | MemberReply::Refused { number, .. }
            | MemberReply::Busy { number, .. } => *number,
        }
    }

    /// The frames of a reply to a question that takes `count` of them, and the signature, which is not
    /// checked.
    ///
    /// # Errors
    /// [`Error::Malformed`] for another number of frames, and for a reply to another kind of question.
    pub fn into_frames(self, count: usize) -> Result<(Vec<Vec<u8>>, Vec<u8>), Error> {
        match self {
            MemberReply::Frames { frames, signature, .. } if frames.len() == count => Ok((frames, signature)),
            MemberReply::Frames { .. } => {
                Err(Error::Malformed("a reply with another number of frames than its question takes"))
            }
            _ => Err(Error::Malformed("a reply to another kind of question")),
        }
    }

    /// As [`Self::into_frames`], of shares that the member with this verifying key must have signed
    /// ([`sign_frames`]).
    ///
    /// # Errors
    /// As there; [`Error::Envelope`].
    pub fn into_signed_frames(
        self,
        count: usize,
        verifying: &[u8],
        requests: &[[u8; 32]],
    ) -> Result<(Vec<Vec<u8>>, Vec<u8>), Error> {
        let (frames, signature) = self.into_frames(count)?;
        check_frames(verifying, requests, &frames, &signature)?;
        Ok((frames, signature))
    }

    /// The bytes of the reply.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            MemberReply::Frames { number, frames, signature } => {
                let blobs: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
                let header = (0u8, *number, frames.len(), signature.as_slice(), "");
                frame::write(Kind::MemberReply, &header, &blobs)
            }
            MemberReply::Answers { number, shares } => {
                // Serialising plain data into memory does not fail.
                let shares = postcard::to_stdvec(shares).unwrap_or_default();
                frame::write(Kind::MemberReply, &(1u8, *number, 1usize, [0u8; 0].as_slice(), ""), &[&shares])
            }
            MemberReply::Refused { number, why, signature } => {
                let header = (2u8, *number, 0usize, signature.as_slice(), why.as_str());
                frame::write(Kind::MemberReply, &header, &[])
            }
            MemberReply::Busy { number, signature } => {
                frame::write(Kind::MemberReply, &(3u8, *number, 0usize, signature.as_slice(), ""), &[])
            }
        }
    }

    /// Reads the bytes of [`Self::to_bytes`], at most `limit` of them. Frames and signatures are not checked.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`].
    pub fn read(bytes: &[u8], limit: usize) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, limit)?;
        let (kind, number, count, signature, why) =
            reader.header::<(u8, u64, usize, &[u8], &str)>(Kind::MemberReply)?;
        let reply = match (kind, count) {
            (0, 1..=MOST_FRAMES) => {
                let frame = |_| Ok(reader.blob("a share", limit)?.to_vec());
                let frames = (0..count).map(frame).collect::<Result<_, Error>>()?;
                MemberReply::Frames { number, frames, signature: signature.to_vec() }
            }
            (1, 1) => {
                let (shares, rest) = postcard::take_from_bytes(reader.blob("the shares", limit)?)
                    .map_err(|_| Error::Malformed("the shares of a member cannot be read"))?;
                if !rest.is_empty() {
                    return Err(Error::Trailing { bytes: rest.len() });
                }
                MemberReply::Answers { number, shares }
            }
            (2, 0) if why.len() <= MOST_WHY => {
                MemberReply::Refused { number, why: why.into(), signature: signature.to_vec() }
            }
            (3, 0) if why.is_empty() => MemberReply::Busy { number, signature: signature.to_vec() },
            _ => return Err(Error::Malformed("a reply of a member of no known kind")),
        };
        reader.end()?;
        Ok(reply)
    }
}

fn signed_refusal(number: u64, question: &[u8], why: &str) -> Vec<u8> {
    [&number.to_le_bytes(), &blake3::hash(question).as_bytes()[..], why.as_bytes()].concat()
}

fn signed_poll(session: &SessionId, member: u8, time: u64) -> Vec<u8> {
    [&session.0[..], &[member], &time.to_le_bytes()].concat()
}

/// Signs a request of `member` for questions, at `time` in seconds since 1970.
pub fn sign_poll(signing: &envelope::SigningSecret, session: &SessionId, member: u8, time: u64) -> Vec<u8> {
    signing.sign(POLL_SIGNATURE, &signed_poll(session, member, time)).to_vec()
}

/// Checks the signature of [`sign_poll`].
///
/// # Errors
/// [`Error::Envelope`].
pub fn check_poll(
    verifying: &[u8],
    session: &SessionId,
    member: u8,
    time: u64,
    signature: &[u8],
) -> Result<(), Error> {
    Ok(envelope::verify(verifying, POLL_SIGNATURE, &signed_poll(session, member, time), signature)?)
}

/// Checks the signature of a [`MemberReply::Refused`].
///
/// # Errors
/// [`Error::Envelope`].
pub fn check_refusal(
    verifying: &[u8],
    number: u64,
    question: &[u8],
    why: &str,
    signature: &[u8],
) -> Result<(), Error> {
    Ok(envelope::verify(verifying, REFUSAL_SIGNATURE, &signed_refusal(number, question, why), signature)?)
}

/// Checks the signature of a [`MemberReply::Busy`].
///
/// # Errors
/// [`Error::Envelope`].
pub fn check_busy(verifying: &[u8], number: u64, question: &[u8], signature: &[u8]) -> Result<(), Error> {
    Ok(envelope::verify(verifying, BUSY_SIGNATURE, &signed_refusal(number, question, ""), signature)?)
}

/// What a member signs of the shares under these request ids: `frames` in the order of the
/// reply.
fn signed_frames(requests: &[[u8; 32]], frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    requests.iter().for_each(|request| out.extend(request));
    frames.iter().for_each(|frame| out.extend(blake3::hash(frame).as_bytes()));
    out
}

/// As `check_frames`, from the hashes of the frames.
///
/// # Errors
/// [`Error::Envelope`].
pub fn check_hashed_frames(
    verifying: &[u8],
    requests: &[[u8; 32]],
    hashes: &[[u8; 32]],
    signature: &[u8],
) -> Result<(), Error> {
    let mut signed = Vec::new();
    requests.iter().chain(hashes).for_each(|hash| signed.extend(hash));
    Ok(envelope::verify(verifying, FRAMES_SIGNATURE, &signed, signature)?)
}

/// Signs the frames of a [`MemberReply::Frames`].
pub fn sign_frames(signing: &envelope::SigningSecret, requests: &[[u8; 32]], frames: &[Vec<u8>]) -> Vec<u8> {
    signing.sign(FRAMES_SIGNATURE, &signed_frames(requests, frames)).to_vec()
}

/// Checks the signature of a [`MemberReply::Frames`].
///
/// # Errors
/// [`Error::Envelope`].
pub(crate) fn check_frames(
    verifying: &[u8],
    requests: &[[u8; 32]],
    frames: &[Vec<u8>],
    signature: &[u8],
) -> Result<(), Error> {
    Ok(envelope::verify(verifying, FRAMES_SIGNATURE, &signed_frames(requests, frames), signature)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use envelope::{SealingSecret, SigningSecret};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    /// Uploads for which there is room leave the evidence of an opening below its limit, whatever raised
    /// scores and question are. The control has one upload more, and no evidence, which members refuse.
    #[test]
    fn attack_many_uploads_leave_a_pack_its_evidence() {
        let (upload, raised, mut uploads) = (332_920, 8 << 20, Vec::new());
        while Evidence::has_room(raised, std::iter::repeat_n(upload, uploads.len() + 1)) {
            uploads.push((u32::MAX, vec![0; upload]));
        }
        assert!(uploads.len() > 150, "{}", uploads.len());
        let evidence = |uploads: &[(u32, Vec<u8>)]| {
            let raise = RaiseEvidence { question: vec![0; 200], set: u16::MAX, frame: vec![0; raised] };
            let (last_round, model_feedbacks) = (u64::MAX, u64::MAX);
            Evidence { last_round, model_feedbacks, uploads: uploads.to_vec(), raise: Some(raise) }.to_bytes()
        };
        assert!(!evidence(&uploads).is_empty());
        uploads.push((u32::MAX, vec![0; upload]));
        assert!(evidence(&uploads).is_empty(), "the control");
    }

    /// The evidence of a rotation is read as it is written, and no other bytes are, whatever they say of
    /// their lengths.
    #[test]
    fn attack_bad_evidence_of_a_rotation_is_refused() {
        let shares =
            RotationShares { hashes: vec![[1; 32]; 9], up: vec![vec![2; 5]; 3], signature: vec![3; 64] };
        let (question, c1) = (vec![4; 9], [vec![5; 3], vec![6; 3]]);
        let evidence = RotationEvidence { question, set: 5, c1, shares: vec![shares; 2] };
        let bytes = evidence.to_bytes();
        assert_eq!(RotationEvidence::from_bytes(&bytes).unwrap(), evidence);
        for len in 0..bytes.len() {
            assert!(RotationEvidence::from_bytes(&bytes[..len]).is_err(), "{len}");
        }
        assert!(RotationEvidence::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        for at in 0..bytes.len() {
            let mut long = bytes.clone();
            long.splice(at..(at + 1), [0xff, 0xff, 0xff, 0xff, 0x0f]);
            let read = RotationEvidence::from_bytes(&long);
            assert!(read.is_err() || read.is_ok_and(|read| read != evidence), "{at}");
        }
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let key = SealingSecret::generate(&mut rng).public();
        let user = AnswerUser { round: 4, users: vec![0, 5], answer_key: key };
        let wanted = Wanted::Answers { model_feedbacks: 3, users: vec![user.clone(); 2] };
        let question = Question { bandit: "b".into(), task: 7, attempt: 0, wanted };
        assert_eq!(Question::from_bytes(&question.to_bytes()).unwrap(), question);
        let scores = Wanted::Transfer(TaskKind::Scores { factor: 0.5, alone: true });
        let raise = Question { wanted: scores, ..question.clone() };
        assert_eq!(Question::from_bytes(&raise.to_bytes()).unwrap(), raise);
        assert_ne!(raise.to_bytes(), Question { attempt: 1, ..raise.clone() }.to_bytes());
        let users =
            |users| Question { wanted: Wanted::Answers { model_feedbacks: 3, users }, ..question.clone() };
        for bad in [
            users(Vec::new()),
            users(vec![AnswerUser { answer_key: vec![0; 5], ..user.clone() }]),
            users(vec![AnswerUser { users: Vec::new(), ..user.clone() }]),
            users(vec![AnswerUser { users: vec![1; MOST_DECISIONS + 1], ..user }]),
            Question { bandit: "b".repeat(65), ..raise },
        ] {
            assert!(Question::from_bytes(&bad.to_bytes()).is_err());
        }

        let raise = RaiseEvidence { question: vec![1], set: 3, frame: vec![2; 4] };
        let evidence = Evidence {
            last_round: 4,
            model_feedbacks: 3,
            uploads: vec![(1, vec![5; 6])],
            raise: Some(raise),
        };
        assert_eq!(Evidence::from_bytes(&evidence.to_bytes()).unwrap(), evidence);
        let evidence = evidence.to_bytes();
        assert!(Evidence::from_bytes(&evidence[..evidence.len() - 1]).is_err());
        assert!(Evidence::from_bytes(&[&evidence[..], &[0]].concat()).is_err());
        let signing = SigningSecret::generate(&mut ChaCha20Rng::seed_from_u64(4));
        let head = SignedHead::sign((2, &signing), &SessionId([1; 32]), "b", (1, 2), &[3; 32]);
        let journal = Journal { records: vec![vec![1; 5], vec![2]], heads: vec![head] };
        assert_eq!(Journal::read(&journal.to_bytes()).unwrap(), journal);
        let request =
            MemberRequest { number: 1, set: 5, question: question.to_bytes(), c1: vec![2; 9], evidence };
        assert_eq!(MemberRequest::read(&request.to_bytes(), 9).unwrap(), request);
        assert!(MemberRequest::read(&request.to_bytes(), 8).is_err());

        let signing = SigningSecret::generate(&mut rng);
        let (requests, frames) = ([[1; 32], [2; 32]], vec![vec![3; 7], vec![4; 5]]);
        let signature = sign_frames(&signing, &requests, &frames);
        check_frames(&signing.public(), &requests, &frames, &signature).unwrap();
        let reply =
            || MemberReply::Frames { number: 8, frames: frames.clone(), signature: signature.clone() };
        let read = reply().into_signed_frames(2, &signing.public(), &requests).unwrap();
        assert_eq!(read, (frames.clone(), signature.clone()));
        assert!(matches!(reply().into_frames(1), Err(Error::Malformed(_))), "another number of frames");
        let other = reply().into_signed_frames(2, &signing.public(), &requests[..1]);
        assert!(matches!(other, Err(Error::Envelope(_))), "{other:?}");
        let busy = MemberReply::busy(&signing, 8, b"question");
        assert!(matches!(busy.into_frames(2), Err(Error::Malformed(_))), "another kind of reply");
        let swapped: Vec<_> = frames.iter().rev().cloned().collect();
        assert!(check_frames(&signing.public(), &requests, &swapped, &signature).is_err());
        assert!(check_frames(&signing.public(), &requests[..1], &frames, &signature).is_err());
        let refused = MemberReply::refused(&signing, 10, b"question", &"é".repeat(1000));
        let MemberReply::Refused { number, why, signature: signed } = &refused else {
            unreachable!("as made")
        };
        check_refusal(&signing.public(), *number, b"question", why, signed).unwrap();
        assert!(check_refusal(&signing.public(), 11, b"question", why, signed).is_err());
        assert!(check_refusal(&signing.public(), 10, b"another", why, signed).is_err());
        let (public, session) = (signing.public(), SessionId([1; 32]));
        let poll = sign_poll(&signing, &session, 2, 1000);
        check_poll(&public, &session, 2, 1000, &poll).unwrap();
        for (session, member, time) in [(SessionId([2; 32]), 2, 1000), (session, 1, 1000), (session, 2, 1001)]
        {
            assert!(check_poll(&public, &session, member, time, &poll).is_err());
        }
        assert_eq!(MemberReply::read(&refused.to_bytes(), 5000).unwrap(), refused);
        let share = SealedShare { member: 2, sealed: vec![1; 1200], signature: vec![2; 64] };
        for reply in [
            MemberReply::Frames { number: 8, frames, signature },
            MemberReply::Answers { number: 9, shares: vec![share; 3] },
            MemberReply::refused(&signing, 10, b"question", "a reason"),
        ] {
            let bytes = reply.to_bytes();
            assert!(bytes.len() <= MemberReply::most_bytes(7, 3, 8));
            assert_eq!(MemberReply::read(&bytes, MemberReply::most_bytes(7, 3, 8)).unwrap(), reply);
            for len in 0..bytes.len() {
                assert!(MemberReply::read(&bytes[..len], bytes.len()).is_err());
            }
        }
    }
}
