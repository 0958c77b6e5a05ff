//! The messages between users and servers, and the files of keys.
//!
//! For servers, devices and key authorities. Ciphertexts are frames of bytes here, which `ckks` writes and
//! checks. No type of this crate is a secret key: a [`SecretBundle`] contains the frame of one, which
//! `ckks-secret` reads.
//!
//! Readers check every length against [`Limits`] before they allocate memory, and refuse bytes after
//! the last part.

mod address;
mod bundle;
mod clear;
mod committee;
mod encrypted;
mod enrolment;
mod error;
mod frame;
mod json;
mod labels;
mod manifest;
mod paper;
mod problem;
mod public;
mod secret;
mod token;

pub use address::{BadAddress, ServerAddress};
pub use bundle::{BUNDLE_VERSION, BundleKind, BundleReader, BundleWriter, MAX_MANIFEST_BYTES};
pub use clear::{
    ClearFeedback, Counted, DecideRequest, Decided, FeedbackKind, LateFeedback, LateRule, Learnt,
    MAX_CLEAR_BYTES, ParameterCard, PolicyCard, PolicyCreated, PolicyView, Privacy, ShuffledBatch, Spent,
    SummedBatch, open_rows,
};
pub use committee::{
    CommitteeBandit, CommitteeBanditView, CommitteeCounters, CommitteeErasure, ERASURE_HEADER, MembersHere,
    steps,
};
pub use encrypted::{
    AskAgain, BanditView, Created, DECISIONS_HEADER, DecideReply, Decision, LearnRequest, Limits,
    MOST_UPLOADS, PadsOf, RaiseTask, Raised, Raises, SENDER_HEADER, SenderTag, ShownCounters, ShownModel,
    Ticket, TraceQuestion, TracedFeedback, UserPads,
};
pub use enrolment::{
    CLOCKS, ENROLMENT_HEADER, Enroller, EnrollerSecret, Enrolment, EnrolmentRequest, MOST_REMOVED,
    MOST_USER_NAME, Nonce, PadKey, Padded, RemovedUsers, RemovedUsersFile, UserBundle, UserSecret,
    check_name,
};
pub use error::Error;
pub use frame::{MAGIC, MAX_HEADER_BYTES};
pub use json::{MAX_JSON_BYTES, OCTET_STREAM};
pub use labels::{
    Freeze, IDEMPOTENCY_HEADER, Labelled, Labels, LabelsPatch, MOST_NAME, MOST_TAG, MOST_TAGS, is_id,
};
pub use manifest::{
    AnswersManifest, DecisionsManifest, Manifest, RingManifest, SECURITY_TABLE, ScoresManifest,
};
pub use paper::{
    PaperAnswer, PaperCreated, PaperDecision, PaperKeys, PaperManifest, PaperName, PaperReply, PaperSecret,
    PaperStatus, PaperTask, PaperVectors, PaperView, is_paper, read_paper_manifest,
};
pub use problem::{PROBLEM_JSON, Problem, ProblemType};
pub use public::{PublicBundle, ScoreKeys};
pub use secret::{RingSecret, SecretBundle};
pub use token::{AccessToken, TOKEN_BYTES, TokenDigest, all_from_hex, from_hex};
