//! The messages of encrypted bandits.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST …/decisions` | frame of the contexts in the ring of scores | [`DecideReply`] |
//! | `POST …/decisions/{decision}/again` | [`AskAgain`] | [`DecideReply`] |
//! | `GET …/raises` | | [`DecideReply`] with tasks, or 204 |
//! | `POST …/raises` | [`Raises`] | [`DecideReply`] |
//! | `POST …/learn` | [`LearnRequest`] | receipt, JSON |
//! | `POST …/decisions/{decision}/feedback` | frame of the statistics, a partial ciphertext; under the trace condition [`TracedFeedback`] | receipt, JSON |
//!
//! Requests to `decisions` and `again` carry the header [`SENDER_HEADER`]. A request to `decisions` for
//! several decisions says in [`DECISIONS_HEADER`] how many: their contexts share one frame, and their answers
//! too.

use crate::Error;
use crate::enrolment::{Enrolment, Nonce};
use crate::frame::{self, Kind, Reader};
use ckks::{KeyId, Params};
use protocol::levels::PRODUCTS_LEVEL;
use protocol::{
    Answers, BanditConfig, DecisionId, LearnId, MOST_DECISIONS, MOST_LOGGED, Plan, QuestionId, Rings,
    ScoreLayout, Status, TaskKind, Updates, UserKeys,
};
use rand::CryptoRng;
use serde::{Deserialize, Serialize};

/// The most tasks of a message.
const MOST_TASKS: usize = 2;

/// An encrypted bandit as it was created. This is the answer to its creation request, and every device of the
/// bandit uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Created {
    /// The id of the bandit in paths.
    pub id: String,
    /// The configuration, with defaults filled in.
    pub config: BanditConfig,
    /// Levels and sizes. They follow from configuration and keys, which every device checks.
    pub plan: Plan,
    /// The id of the key pair of the deep ring, in hexadecimal.
    pub key_id: String,
    /// The fingerprint of its parameters, in hexadecimal.
    pub fingerprint: String,
    /// The id of the key pair of the ring of scores, in hexadecimal.
    pub scores_key_id: String,
    /// The fingerprint of its parameters, in hexadecimal.
    pub scores_fingerprint: String,
    /// What holders of the key learn beyond their arms, in a sentence; `None` if that is nothing.
    pub label: Option<String>,
    /// The id of the bandit that it is a copy of.
    #[serde(default)]
    pub origin: Option<String>,
}

/// The label of a bandit with answers: scores.
const SHOWS_MODEL: &str = "everyone who holds the key can compute the model from the answer to a decision";

impl Created {
    /// The bandit with this configuration and plan under the keys of both rings.
    pub fn new(
        id: String,
        config: BanditConfig,
        plan: Plan,
        deep: (&Params, KeyId),
        scores: (&Params, KeyId),
    ) -> Self {
        let shown =
            [config.shows_model().then(|| SHOWS_MODEL.to_string()), config.counters.map(|c| c.privacy())];
        let label = shown.into_iter().flatten().reduce(|all, next| format!("{all}; {next}"));
        Created {
            id,
            label,
            config,
            plan,
            key_id: deep.1.to_string(),
            fingerprint: deep.0.fingerprint().to_string(),
            scores_key_id: scores.1.to_string(),
            scores_fingerprint: scores.0.fingerprint().to_string(),
            origin: None,
        }
    }
}

/// An encrypted bandit and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BanditView {
    /// The bandit as it was created.
    pub created: Created,
    /// The counters and the phase.
    pub status: Status,
}

/// The most bytes of each part of the messages of an encrypted bandit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The contexts, which are the whole body of a decision request.
    pub contexts: usize,
    /// The statistics, which are the whole body of a feedback under a public schedule.
    pub statistics: usize,
    /// The trace statistics; 0 under a public schedule.
    pub trace: usize,
    /// A trace question; 0 under a public schedule.
    pub question: usize,
    /// An answer.
    pub answer: usize,
    /// A masked ciphertext of a task.
    pub task: usize,
    /// A raised ciphertext, a model in the deep ring, or entries in the ring of answers.
    pub raised: usize,
    /// A ciphertext of the ring of scores.
    pub scores: usize,
    /// The ciphertexts of a model.
    pub model_parts: usize,
    /// The most masked ciphertexts of a task.
    pub task_frames: usize,
    /// The most ciphertexts of an answer to an exchange; 0 for a bandit without exchanges.
    pub raised_frames: usize,
    /// The ciphertexts of an answer to an exchange, all together.
    pub exchanged: usize,
    /// The sum of counters; 0 without them.
    pub counters: usize,
    /// The most [`UserPads`] of a task; 0 if users share the keys.
    pub pads: usize,
}

impl Limits {
    /// The limits of a bandit with this configuration, plan and layout.
    ///
    /// # Errors
    /// [`Error::Level`] if the plan names a level that a ring of `rings`, or for answers `answers`, does not
    /// have.
    pub fn new(
        rings: impl Into<Rings>,
        small: &Params,
        answers: &Params,
        config: &BanditConfig,
        plan: &Plan,
        layout: &ScoreLayout,
    ) -> Result<Self, Error> {
        let bytes_of = |params: &Params, what, level| match params.max_level() {
            max if level > max => Err(Error::Level { what, level, max }),
            _ => Ok(ckks::ciphertext_bytes(params, level, false)),
        };
        let Rings { updates, decisions, by, .. } = &rings.into();
        let scores = ckks::ciphertext_bytes(small, small.max_level(), false);
        let raised = bytes_of(decisions, "raised scores", plan.scores_level)?
            .max(bytes_of(updates, "statistics", plan.statistics_level)?)
            .max(bytes_of(updates, "model", plan.model_level)?);
        let entries = layout.most_decisions() * layout.arms();
        let action = bytes_of(answers, "answer", plan.answer_level)?.max(ckks::partial_ciphertext_bytes(
            answers,
            plan.answer_level,
            entries,
        ));
        let counters = ckks::truncated_ciphertext_bytes(small, small.max_level(), layout.feedback_numbers());
        let traced = |bytes: usize| if config.tests_trace() { bytes } else { 0 };
        let of_products = match (by, layout.matrices()) {
            (Updates::Products, Ok(matrices)) => matrices.most_parts(layout.model_parts()),
            _ => 0,
        };
        let [task_frames, raised_frames] =
            layout.staged().map_or([0; 2], |staged| staged.most_frames(decisions));
        let partial = |count| ckks::partial_ciphertext_bytes(small, small.max_level(), count);
        let parts = layout.context_parts(layout.most_decisions());
        // The frames of a task for pads: contexts, and feedbacks.
        let uploads = match plan.keys {
            UserKeys::Shared => [0; 2],
            UserKeys::Own => [parts, MOST_UPLOADS],
        };
        let of_uploads = uploads[0] * ckks::ciphertext_bytes(small, small.max_level(), true)
            + uploads[1] * partial(layout.feedback_numbers());
        let contexts = match plan.keys {
            UserKeys::Shared => scores * parts,
            UserKeys::Own => {
                let most = layout.most_decisions();
                let places = layout.context_places(most, 0..most).unwrap_or_default();
                places.iter().map(|(_, places)| partial(places.len())).sum()
            }
        };
        Ok(Limits {
            contexts,
            statistics: partial(layout.feedback_numbers()),
            trace: traced(scores),
            question: traced(bytes_of(decisions, "trace question", plan.answer_level)?),
            answer: match config.answers {
                Answers::Scores => scores,
                Answers::Arm => action,
            },
            task: scores.max(bytes_of(updates, "masked model", plan.refresh_level)?).max(bytes_of(
                decisions,
                "masked products",
                PRODUCTS_LEVEL,
            )?),
            raised: raised.max(action),
            scores,
            model_parts: layout.model_parts(),
            task_frames: task_frames.max(1),
            raised_frames: raised_frames.max(of_products).max(uploads[0] + uploads[1]),
            exchanged: layout
                .staged()
                .map_or(0, |staged| staged.most_reply(decisions))
                .max(of_products * scores)
                .max(of_uploads),
            counters: if config.counters.is_some() { counters } else { 0 },
            pads: match plan.keys {
                UserKeys::Shared => 0,
                UserKeys::Own => layout.users().len().max(MOST_DECISIONS + MOST_UPLOADS),
            },
        })
    }

    /// The longest body of a feedback.
    pub fn feedback(&self) -> usize {
        match self.trace {
            0 => self.statistics,
            trace => frame::overhead(2) + self.statistics + trace,
        }
    }

    /// The longest [`LearnRequest`].
    pub fn learn(&self) -> usize {
        frame::overhead(1) + self.statistics
    }

    /// The longest [`ShownCounters`].
    pub fn shown_counters(&self) -> usize {
        frame::overhead(1) + self.counters
    }

    /// The longest [`ShownModel`].
    pub fn shown_model(&self) -> usize {
        frame::overhead(self.model_parts) + self.model_parts * self.scores
    }

    /// The longest [`DecideReply`].
    pub fn reply(&self) -> usize {
        let (tasks, pads) = (MOST_TASKS * self.task_frames, MOST_TASKS * self.pads);
        let of_tasks = tasks * self.task + pads * UserPads::MOST_BYTES;
        frame::overhead(2 + tasks + pads) + self.answer + self.question + of_tasks
    }

    /// The longest [`Raises`].
    pub fn raises(&self) -> usize {
        let frames = self.raised_frames.max(2);
        let nonces = MOST_TASKS * self.pads;
        frame::overhead(MOST_TASKS * frames + nonces)
            + MOST_TASKS * self.exchanged.max(self.raised + self.scores)
            + nonces * size_of::<Nonce>()
    }
}

/// The header of a [`SenderTag`].
pub const SENDER_HEADER: &str = "helba-sender";

/// The header of a request to `decisions` that says for how many decisions its contexts are, 1 without it.
pub const DECISIONS_HEADER: &str = "helba-decisions";

/// A random number by which a server tells senders of contexts apart that use one token. It is written as 32
/// lower-case hexadecimal digits. Whoever makes a new one is a new sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderTag(pub [u8; 16]);

impl SenderTag {
    /// A new tag.
    pub fn generate<R: CryptoRng>(rng: &mut R) -> Self {
        let mut tag = [0; 16];
        rng.fill_bytes(&mut tag);
        SenderTag(tag)
    }
}

impl std::fmt::Display for SenderTag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", ckks::Hex(&self.0))
    }
}

impl std::str::FromStr for SenderTag {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        let tag: DecisionId =
            s.parse().map_err(|_| Error::Malformed("a sender tag has 32 hexadecimal digits"))?;
        Ok(SenderTag(tag.0))
    }
}

/// A request for another answer to a decision, from a user whose answer cannot be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskAgain {
    /// The number of answers to this decision so far, at least 1. The request is about the last of them.
    pub answers: u32,
}

impl AskAgain {
    /// The most bytes of the message.
    pub const MOST_BYTES: usize = frame::overhead(0);

    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::write(Kind::AskAgain, self, &[])
    }

    /// Reads the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// As [`DecideReply::read`].
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, Self::MOST_BYTES)?;
        let message = reader.header(Kind::AskAgain)?;
        reader.end()?;
        Ok(message)
    }
}

/// A place in an evaluation, which only its user knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub [u8; 16]);

/// What a holder of the key is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct RaiseTask {
    /// The number that the answer names.
    pub id: u64,
    /// The kind.
    pub kind: TaskKind,
    /// The frames of the masked ciphertexts, at the canonical scale of their level: one, or as many as an
    /// exchange takes.
    pub masked: Vec<Vec<u8>>,
    /// Whose pads a holder of the key needs, if users have keys of their own: those whom the answers of the
    /// task are for, or whose uploads it is about.
    pub pads: Vec<UserPads>,
}

/// The most feedbacks of a task for pads.
pub const MOST_UPLOADS: usize = 128;

/// A user with a key of its own, and a message of its under pads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPads {
    /// The bytes of its [`Enrolment`], which the holder of the key checks.
    pub enrolment: Vec<u8>,
    /// What the message is.
    pub of: PadsOf,
}

/// A message under pads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PadsOf {
    /// The answer to the decisions with these numbers in an evaluation. The holder of the key puts it under
    /// pads.
    Answer(Vec<u32>),
    /// The contexts of a request.
    Contexts {
        /// For so many decisions.
        decisions: u32,
        /// The nonce of the pads, the same for all ciphertexts.
        nonce: Nonce,
    },
    /// The statistics of a feedback.
    Feedback {
        /// The nonce of the pads.
        nonce: Nonce,
    },
}

impl UserPads {
    /// The most bytes in a message: an enrolment, and a number in at most five bytes for each decision of a
    /// request, which is more than a nonce.
    const MOST_BYTES: usize = Enrolment::MOST_BYTES + 5 * MOST_DECISIONS + 16;

    fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(&(&self.enrolment, &self.of)).unwrap_or_default()
    }

    fn read(bytes: &[u8]) -> Result<Self, Error> {
        let (enrolment, of) = match postcard::take_from_bytes::<(Vec<u8>, PadsOf)>(bytes) {
            Ok((read, [])) => read,
            _ => return Err(Error::Malformed("pads of a user that cannot be read")),
        };
        let decisions = match &of {
            PadsOf::Answer(users) => users.len(),
            PadsOf::Contexts { decisions, .. } => *decisions as usize,
            PadsOf::Feedback { .. } => 1,
        };
        if !(1..=MOST_DECISIONS).contains(&decisions) {
            return Err(Error::Malformed("pads for more decisions than a request has"));
        }
        Ok(UserPads { enrolment, of })
    }
}

/// A decision, or several of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The id, which the feedback names.
    pub id: DecisionId,
    /// The ids of the further decisions of the request, in their order and of the rounds that follow.
    pub others: Vec<DecisionId>,
    /// Round t, from 1.
    pub round: u64,
    /// t_j, the number of feedbacks in the model of the decision.
    pub model_feedbacks: u64,
    /// The number of the user in the evaluation, by which its slots are found. Those of further decisions
    /// follow from it ([`ScoreLayout::user_of`]).
    pub user: u32,
    /// How many decisions the evaluation made.
    pub users: u32,
    /// The frame of the answer: of a request alone a ciphertext, of one of several some coefficients of one
    /// ([`ScoreLayout::answer_coefficients`]), of the scores in the open tier.
    pub answer: Vec<u8>,
    /// The nonce of the pads of the answer, if users have keys of their own.
    pub nonce: Option<Nonce>,
    /// The trace question, at the answer level of the plan, if the device is asked.
    pub question: Option<TraceQuestion>,
}

/// A trace question: whether the trace of the batch has reached C.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceQuestion {
    /// The id, which the answer names.
    pub id: QuestionId,
    /// The frame of the flooded comparison, whose constant coefficient is near 0 or 1.
    pub frame: Vec<u8>,
}

/// The answer to a decision request, or to raises.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DecideReply {
    /// The decision. If there is none, the tasks must be answered under `ticket` first.
    pub decision: Option<Decision>,
    /// The place of the user who is asked to raise.
    pub ticket: Option<Ticket>,
    /// Tasks for a holder of the key.
    pub tasks: Vec<RaiseTask>,
}

#[derive(Serialize, Deserialize)]
struct ReplyHeader {
    decision: Option<(DecisionId, u64, u64, u32, u32)>,
    others: Vec<DecisionId>,
    question: Option<QuestionId>,
    ticket: Option<Ticket>,
    /// The nonce of the pads of the answer.
    nonce: Option<Nonce>,
    /// Each with the number of its frames and of its pads of users.
    tasks: Vec<(u64, TaskKind, [u32; 2])>,
}

impl DecideReply {
    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let decision = self.decision.as_ref();
        let question = decision.and_then(|d| d.question.as_ref());
        let header = ReplyHeader {
            decision: decision.map(|d| (d.id, d.round, d.model_feedbacks, d.user, d.users)),
            others: decision.map(|d| d.others.clone()).unwrap_or_default(),
            question: question.map(|question| question.id),
            ticket: self.ticket,
            nonce: decision.and_then(|d| d.nonce),
            tasks: self
                .tasks
                .iter()
                .map(|task| (task.id, task.kind, [task.masked.len() as u32, task.pads.len() as u32]))
                .collect(),
        };
        let own = [decision.map(|d| &d.answer), question.map(|question| &question.frame)];
        let pads: Vec<Vec<Vec<u8>>> =
            self.tasks.iter().map(|task| task.pads.iter().map(UserPads::to_bytes).collect()).collect();
        let of_tasks = self.tasks.iter().zip(&pads).flat_map(|(task, of)| task.masked.iter().chain(of));
        let blobs: Vec<&[u8]> = own.into_iter().flatten().chain(of_tasks).map(Vec::as_slice).collect();
        frame::write(Kind::DecideReply, &header, &blobs)
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frames are not read.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Truncated`], [`Error::Trailing`], [`Error::Malformed`],
    /// [`Error::Version`].
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, limits.reply())?;
        let header: ReplyHeader = reader.header(Kind::DecideReply)?;
        few(header.tasks.len())?;
        if header.others.len() >= MOST_DECISIONS || header.decision.is_none() && !header.others.is_empty() {
            return Err(Error::Malformed("more decisions than a request has"));
        }
        let others = header.others;
        let decision = match header.decision {
            Some((id, round, model_feedbacks, user, users)) => {
                let answer = reader.blob("the answer", limits.answer)?.to_vec();
                if header.nonce.is_some() != (limits.pads > 0) {
                    let why = "an answer under pads where users share the keys, or not where they do not";
                    return Err(Error::Malformed(why));
                }
                let nonce = header.nonce;
                let question = match header.question {
                    Some(_) if limits.question == 0 => {
                        return Err(Error::Malformed("a trace question of a bandit with a public schedule"));
                    }
                    Some(id) => {
                        let frame = reader.blob("the trace question", limits.question)?.to_vec();
                        Some(TraceQuestion { id, frame })
                    }
                    None => None,
                };
                Some(Decision { id, others, round, model_feedbacks, user, users, answer, nonce, question })
            }
            None if header.question.is_some() => {
                return Err(Error::Malformed("a trace question without a decision"));
            }
            None => None,
        };
        let mut tasks = Vec::new();
        for (id, kind, [frames, pads]) in header.tasks {
            let least = usize::from(kind != TaskKind::Pads);
            if !(least..=limits.task_frames * least).contains(&(frames as usize)) {
                return Err(Error::Malformed("a task with more ciphertexts than its bandit asks for"));
            }
            if pads as usize > limits.pads {
                return Err(Error::Malformed("a task with the pads of more users than an evaluation has"));
            }
            let masked = (0..frames).map(|_| Ok(reader.blob("a task", limits.task)?.to_vec()));
            let masked = masked.collect::<Result<_, Error>>()?;
            let of_user = |_| UserPads::read(reader.blob("the pads of a user", UserPads::MOST_BYTES)?);
            let pads = (0..pads).map(of_user).collect::<Result<_, Error>>()?;
            tasks.push(RaiseTask { id, kind, masked, pads });
        }
        reader.end()?;
        Ok(DecideReply { decision, ticket: header.ticket, tasks })
    }
}

/// The feedback on a decision of a bandit with the trace condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedFeedback {
    /// The frame of the statistics, a partial ciphertext.
    pub statistics: Vec<u8>,
    /// The frame of the trace statistics.
    pub trace: Vec<u8>,
    /// The answer to the trace question: whether the trace has reached its threshold, which is one bit of a
    /// decryption. `None` if the device was not asked, or has given as many answers as it may.
    pub answer: Option<(QuestionId, bool)>,
}

impl TracedFeedback {
    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::write(Kind::TracedFeedback, &self.answer, &[&self.statistics, &self.trace])
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frames are not read.
    ///
    /// # Errors
    /// As [`DecideReply::read`].
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, limits.feedback())?;
        let answer = reader.header(Kind::TracedFeedback)?;
        let statistics = reader.blob("the statistics", limits.statistics)?.to_vec();
        let trace = reader.blob("the trace statistics", limits.trace)?.to_vec();
        reader.end()?;
        Ok(TracedFeedback { statistics, trace, answer })
    }
}

/// Logged rounds, which are learnt in bulk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnRequest {
    /// The id, which the sender chooses: the rounds of an id are learnt once.
    pub id: LearnId,
    /// How many rounds they are, from 1.
    pub rounds: u32,
    /// The frame of the sum of their statistics, a partial ciphertext as long as that of one feedback.
    pub statistics: Vec<u8>,
}

impl LearnRequest {
    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::write(Kind::LearnRequest, &(self.id, self.rounds), &[&self.statistics])
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frame is not read.
    ///
    /// # Errors
    /// As [`DecideReply::read`]; [`Error::Malformed`] for a number of rounds that is not from 1 to
    /// [`MOST_LOGGED`].
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, limits.learn())?;
        let (id, rounds): (LearnId, u32) = reader.header(Kind::LearnRequest)?;
        if !(1..=MOST_LOGGED as u32).contains(&rounds) {
            return Err(Error::Malformed("a request has 1 to 1000 logged rounds"));
        }
        let statistics = reader.blob("the statistics", limits.statistics)?.to_vec();
        reader.end()?;
        Ok(LearnRequest { id, rounds, statistics })
    }
}

/// The encrypted counters of a bandit ([`protocol::Counters`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCounters {
    /// The feedbacks in them: the last multiple of the size of a group.
    pub feedbacks: u64,
    /// The first coefficients of their sum, up to the last counter ([`ckks::write_truncated_ciphertext`]).
    /// Those that are no counters are 0.
    pub sum: Vec<u8>,
}

impl ShownCounters {
    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::write(Kind::ShownCounters, &self.feedbacks, &[&self.sum])
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frame is not read.
    ///
    /// # Errors
    /// As [`DecideReply::read`].
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, limits.shown_counters())?;
        let feedbacks = reader.header(Kind::ShownCounters)?;
        let sum = reader.blob("the counters", limits.counters)?.to_vec();
        reader.end()?;
        Ok(ShownCounters { feedbacks, sum })
    }
}

/// The encrypted model that a bandit decides with ([`protocol::ScoreLayout::model`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownModel {
    /// The feedbacks in it.
    pub feedbacks: u64,
    /// Its ciphertexts, of the ring of scores.
    pub parts: Vec<Vec<u8>>,
}

impl ShownModel {
    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts: Vec<&[u8]> = self.parts.iter().map(Vec::as_slice).collect();
        frame::write(Kind::ShownModel, &self.feedbacks, &parts)
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frames are not read.
    ///
    /// # Errors
    /// As [`DecideReply::read`].
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, limits.shown_model())?;
        let feedbacks = reader.header(Kind::ShownModel)?;
        let part = |_| Ok(reader.blob("a part of a model", limits.scores)?.to_vec());
        let parts = (0..limits.model_parts).map(part).collect::<Result<_, Error>>()?;
        reader.end()?;
        Ok(ShownModel { feedbacks, parts })
    }
}

/// The answer to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Raised {
    /// Scores or a sum, raised: the frame of a ciphertext of the deep ring.
    Scores(Vec<u8>),
    /// As for scores.
    Sum(Vec<u8>),
    /// A model.
    Model {
        /// Its frame in the deep ring.
        deep: Vec<u8>,
        /// Its frame in the ring of scores.
        scores: Vec<u8>,
    },
    /// Entries of an evaluation: the frame of a ciphertext of the ring of answers, with a seed.
    Answers(Vec<u8>),
    /// What an exchange makes of its ciphertexts: their frames.
    Exchanged(Vec<Vec<u8>>),
    /// Encryptions of minus the pads of uploads.
    Pads {
        /// The frames: those of the contexts of all users of the task together, as if they were the decisions
        /// of one request in their order, and then one for each feedback.
        frames: Vec<Vec<u8>>,
        /// Which users of the task the holder of the key refuses, by their places in it. Theirs is an
        /// encryption of nought.
        refused: Vec<u32>,
    },
    /// The answers of users with keys of their own.
    Padded {
        /// The frame of the coefficients of all, each under the pads of its user.
        padded: Vec<u8>,
        /// The nonce of the pads of each user of the task; `None` for one that the holder of the key refuses.
        nonces: Vec<Option<Nonce>>,
    },
}

/// The answers of a holder of the key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Raises {
    /// The place of the user, who waits for its decision. `None` from a raiser that waits for none.
    pub ticket: Option<Ticket>,
    /// Number and answer of each task.
    pub raised: Vec<(u64, Raised)>,
}

#[derive(Serialize, Deserialize)]
enum RaisedKind {
    Scores,
    Sum,
    Model,
    Answers,
    /// With the number of frames.
    Exchanged(u32),
    /// With the number of users.
    Padded(u32),
    /// With the number of frames, and the users that are refused.
    Pads(u32, Vec<u32>),
}

#[derive(Serialize, Deserialize)]
struct RaisesHeader {
    ticket: Option<Ticket>,
    raised: Vec<(u64, RaisedKind)>,
}

impl Raises {
    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut blobs: Vec<&[u8]> = Vec::new();
        let mut kinds = Vec::new();
        for (id, raised) in &self.raised {
            let kind = match raised {
                Raised::Scores(frame) => (RaisedKind::Scores, vec![frame.as_slice()]),
                Raised::Sum(frame) => (RaisedKind::Sum, vec![frame.as_slice()]),
                Raised::Model { deep, scores } => (RaisedKind::Model, vec![deep.as_slice(), scores]),
                Raised::Answers(frame) => (RaisedKind::Answers, vec![frame.as_slice()]),
                Raised::Exchanged(frames) => {
                    (RaisedKind::Exchanged(frames.len() as u32), frames.iter().map(Vec::as_slice).collect())
                }
                Raised::Pads { frames, refused } => {
                    let kind = RaisedKind::Pads(frames.len() as u32, refused.clone());
                    (kind, frames.iter().map(Vec::as_slice).collect())
                }
                Raised::Padded { padded, nonces } => {
                    let nonces = nonces.iter().map(|nonce| nonce.as_ref().map_or(&[][..], |n| &n[..]));
                    let blobs: Vec<&[u8]> = [&padded[..]].into_iter().chain(nonces).collect();
                    (RaisedKind::Padded(blobs.len() as u32 - 1), blobs)
                }
            };
            kinds.push((*id, kind.0));
            blobs.extend(kind.1);
        }
        frame::write(Kind::Raises, &RaisesHeader { ticket: self.ticket, raised: kinds }, &blobs)
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frames are not read.
    ///
    /// # Errors
    /// As [`DecideReply::read`].
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, limits.raises())?;
        let header: RaisesHeader = reader.header(Kind::Raises)?;
        few(header.raised.len())?;
        let mut raised = Vec::new();
        for (id, kind) in header.raised {
            let mut deep = || Ok::<_, Error>(reader.blob("a raised ciphertext", limits.raised)?.to_vec());
            let answer = match kind {
                RaisedKind::Scores => Raised::Scores(deep()?),
                RaisedKind::Sum => Raised::Sum(deep()?),
                RaisedKind::Model => {
                    let deep = deep()?;
                    let scores = reader.blob("a model in the ring of scores", limits.scores)?.to_vec();
                    Raised::Model { deep, scores }
                }
                RaisedKind::Answers => Raised::Answers(deep()?),
                RaisedKind::Padded(users) if users as usize > limits.pads => {
                    return Err(Error::Malformed("the nonces of more users than an evaluation has"));
                }
                RaisedKind::Padded(users) => {
                    let padded = deep()?;
                    let nonce = |_| match reader.blob("a nonce", size_of::<Nonce>())? {
                        [] => Ok(None),
                        nonce => {
                            let nonce = nonce.try_into();
                            nonce.map(Some).map_err(|_| Error::Malformed("a nonce has 32 bytes"))
                        }
                    };
                    Raised::Padded { padded, nonces: (0..users).map(nonce).collect::<Result<_, Error>>()? }
                }
                RaisedKind::Exchanged(frames) | RaisedKind::Pads(frames, _)
                    if frames as usize > limits.raised_frames =>
                {
                    return Err(Error::Malformed("more ciphertexts than an exchange of this bandit makes"));
                }
                RaisedKind::Pads(frames, refused) => {
                    let frame = |_| Ok(reader.blob("the pads of uploads", limits.scores)?.to_vec());
                    Raised::Pads { frames: (0..frames).map(frame).collect::<Result<_, Error>>()?, refused }
                }
                RaisedKind::Exchanged(frames) => {
                    let most = limits.raised.max(limits.scores);
                    let frame = |_| Ok(reader.blob("an exchanged ciphertext", most)?.to_vec());
                    Raised::Exchanged((0..frames).map(frame).collect::<Result<_, Error>>()?)
                }
            };
            raised.push((id, answer));
        }
        reader.end()?;
        Ok(Raises { ticket: header.ticket, raised })
    }
}

fn few(tasks: usize) -> Result<(), Error> {
    if tasks > MOST_TASKS {
        return Err(Error::Malformed("a message has at most two tasks"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        counters: 0,
        contexts: 9,
        statistics: 9,
        trace: 8,
        question: 8,
        answer: 8,
        task: 8,
        raised: 8,
        scores: 8,
        model_parts: 1,
        task_frames: 2,
        raised_frames: 3,
        exchanged: 24,
        pads: 0,
    };
    const QUESTION: QuestionId = QuestionId { feedbacks: 300, model_feedbacks: 200, code: [6; 16] };

    fn reply() -> DecideReply {
        let id = DecisionId([7; 16]);
        let question = Some(TraceQuestion { id: QUESTION, frame: vec![3, 4, 5] });
        let answer = vec![1, 2];
        let decision = Decision {
            id,
            others: vec![],
            round: 3,
            model_feedbacks: 2,
            user: 5,
            users: 9,
            answer,
            nonce: None,
            question,
        };
        DecideReply { decision: Some(decision), ..DecideReply::default() }
    }

    /// Under a public schedule no message has a question.
    #[test]
    fn attack_questions_of_public_schedules_are_refused() {
        let public = Limits { trace: 0, question: 0, ..LIMITS };
        assert!(DecideReply::read(&reply().to_bytes(), &LIMITS).is_ok());
        assert!(matches!(DecideReply::read(&reply().to_bytes(), &public), Err(Error::Malformed(_))));
        let alone = ReplyHeader {
            decision: None,
            others: vec![],
            question: Some(QUESTION),
            ticket: None,
            nonce: None,
            tasks: vec![],
        };
        let alone = frame::write(Kind::DecideReply, &alone, &[&[1]]);
        assert!(matches!(DecideReply::read(&alone, &LIMITS), Err(Error::Malformed(_))));
        let without = ReplyHeader {
            decision: None,
            others: vec![DecisionId([8; 16])],
            question: None,
            ticket: None,
            nonce: None,
            tasks: vec![],
        };
        let without = frame::write(Kind::DecideReply, &without, &[]);
        assert!(matches!(DecideReply::read(&without, &LIMITS), Err(Error::Malformed(_))));
        let feedback =
            TracedFeedback { statistics: vec![1; 9], trace: vec![2; 8], answer: Some((QUESTION, true)) };
        assert!(TracedFeedback::read(&feedback.to_bytes(), &LIMITS).is_ok());
        assert!(TracedFeedback::read(&feedback.to_bytes(), &public).is_err());
        assert_eq!((public.feedback(), LIMITS.feedback()), (9, frame::overhead(2) + 17));
    }

    /// Bytes of the messages of encrypted bandits under the sets in use, which the pages state.
    #[test]
    fn sizes_are_those_that_the_pages_state() {
        for (d, k, contexts, answer, of_several, exchanged, raised) in [
            (2, 2, 100_472, 84_056, 131, 42_104, 673_912),
            (7, 4, 100_472, 86_104, 141, 43_128, 761_976),
            (8, 8, 100_472, 75_864, 157, 38_008, 768_120),
            (16, 16, 100_472, 86_104, 204, 43_128, 1_876_088),
            (16, 32, 200_824, 172_120, 288, 86_136, 2_007_160),
            (16, 64, 401_528, 344_152, 456, 172_152, 2_269_304),
        ] {
            let shape = protocol::Shape::for_problem(d, k);
            let keys = protocol::KeyPlan::new(shape, false, protocol::WidthShape::default()).unwrap();
            let rings = keys.rings().unwrap();
            let (ring, plan) = (keys.scores, keys.answers);
            let small = ring.params.validate().unwrap();
            let answers = plan.params.validate().unwrap();
            let config = BanditConfig::new(d, k);
            let plan = config.plan(&rings, shape, ring).unwrap();
            let layout = ScoreLayout::new(&config, &plan, ring);
            let limits = Limits::new(&rings, &small, &answers, &config, &plan, &layout).unwrap();
            assert_eq!(limits.answer, answer);
            let level = plan.answer_level;
            assert_eq!(ckks::partial_ciphertext_bytes(&answers, level, k), of_several, "{d}, {k}");
            assert_eq!(ckks::ciphertext_bytes(&answers, level, true), exchanged, "{d}, {k}");
            assert_eq!(ckks::ciphertext_bytes(&rings.decisions, plan.scores_level, true), raised, "{d}, {k}");
            assert_eq!(ckks::ciphertext_bytes(&small, small.max_level(), true), contexts);
        }
    }

    /// Answers are under pads where users have keys of their own, and nowhere else; users and nonces are
    /// bounded in number and length.
    #[test]
    fn attack_messages_under_pads_are_bounded() {
        let own = Limits { pads: 2, trace: 0, question: 0, ..LIMITS };
        let decision = |nonce: Option<Nonce>| {
            let decision = reply().decision.map(|d| Decision { nonce, question: None, ..d });
            DecideReply { decision, ..DecideReply::default() }
        };
        let padded = decision(Some([4; 32]));
        assert_eq!(DecideReply::read(&padded.to_bytes(), &own).unwrap(), padded);
        let public = Limits { pads: 0, ..own };
        for (reply, limits) in [(&padded, &public), (&decision(None), &own)] {
            assert!(matches!(DecideReply::read(&reply.to_bytes(), limits), Err(Error::Malformed(_))));
        }

        let task = |kind, masked: usize, pads: Vec<UserPads>| {
            let task = RaiseTask { id: 1, kind, masked: vec![vec![1]; masked], pads };
            DecideReply { tasks: vec![task], ..DecideReply::default() }
        };
        let asks = |users: &[(usize, usize)]| {
            let of = |(users, bytes): &(usize, usize)| UserPads {
                enrolment: vec![6; *bytes],
                of: PadsOf::Answer((0..*users as u32).collect()),
            };
            task(TaskKind::Answers, 1, users.iter().map(of).collect())
        };
        let two = asks(&[(1, 9), (MOST_DECISIONS, Enrolment::MOST_BYTES)]);
        assert_eq!(DecideReply::read(&two.to_bytes(), &own).unwrap(), two);
        for bad in [&[(1, 9); 3][..], &[(0, 9)], &[(MOST_DECISIONS + 1, 9)], &[(1, 1 << 20)]] {
            assert!(DecideReply::read(&asks(bad).to_bytes(), &own).is_err(), "{bad:?}");
        }
        let upload = |of: PadsOf| UserPads { enrolment: vec![6; 9], of };
        let contexts =
            |decisions: usize| upload(PadsOf::Contexts { decisions: decisions as u32, nonce: [7; 32] });
        let feedback = upload(PadsOf::Feedback { nonce: [8; 32] });
        let uploads = |masked, uploads: &[&UserPads]| {
            task(TaskKind::Pads, masked, uploads.iter().copied().cloned().collect())
        };
        let both = uploads(0, &[&contexts(MOST_DECISIONS), &feedback]);
        assert_eq!(DecideReply::read(&both.to_bytes(), &own).unwrap(), both);
        for bad in [uploads(1, &[&feedback]), uploads(0, &[&contexts(0)]), uploads(0, &[&contexts(999)])] {
            assert!(DecideReply::read(&bad.to_bytes(), &own).is_err(), "{bad:?}");
        }

        let raises = |padded: Raised| Raises { ticket: None, raised: vec![(1, padded)] };
        let answers =
            |nonces: &[Option<Nonce>]| raises(Raised::Padded { padded: vec![7; 8], nonces: nonces.to_vec() });
        let two = answers(&[Some([5; 32]), None]);
        assert_eq!(Raises::read(&two.to_bytes(), &own).unwrap(), two);
        for (bad, limits) in [(&[None; 3][..], &own), (&[Some([1; 32])], &public)] {
            assert!(Raises::read(&answers(bad).to_bytes(), limits).is_err(), "{bad:?}");
        }
        let pads =
            |frames: usize| raises(Raised::Pads { frames: vec![vec![3; 5]; frames], refused: vec![1] });
        let own = Limits { raised_frames: 2, ..own };
        assert_eq!(Raises::read(&pads(2).to_bytes(), &own).unwrap(), pads(2));
        assert!(Raises::read(&pads(3).to_bytes(), &own).is_err());
        let header = RaisesHeader { ticket: None, raised: vec![(1, RaisedKind::Padded(1))] };
        for length in [1, 31, 33] {
            let bytes = frame::write(Kind::Raises, &header, &[&[7; 8], &vec![5; length]]);
            assert!(Raises::read(&bytes, &own).is_err(), "a nonce of {length} bytes");
        }
    }

    #[test]
    fn tags_have_one_form() {
        let tag = SenderTag([0x5a; 16]);
        assert_eq!(tag.to_string().parse::<SenderTag>().unwrap(), tag);
        let tag = tag.to_string();
        for bad in ["", &tag[1..], &format!("{tag}0"), &tag.to_uppercase(), "é".repeat(16).as_str()] {
            assert!(bad.parse::<SenderTag>().is_err(), "{bad}");
        }
    }
}
