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
mod checks;
mod clear;
mod committee;
mod custody;
mod encrypted;
mod error;
mod frame;
mod heads;
mod json;
mod labels;
mod manifest;
mod members;
mod problem;
mod public;
mod secret;
mod shares;
mod signatures;
mod successor;
mod token;
mod users;

pub use address::{BadAddress, ServerAddress};
pub use bundle::{BUNDLE_VERSION, BundleKind, BundleReader, BundleWriter, MAX_MANIFEST_BYTES};
pub use checks::{
    CheckEvidence, CheckState, FeedbackCheck, OpenedChecks, RoundInput, check_header, check_request,
    input_hash, read_opening, write_openings,
};
pub use clear::{
    ClearFeedback, Counted, DecideRequest, Decided, FeedbackKind, LateFeedback, LateRule, Learnt,
    MAX_CLEAR_BYTES, ParameterCard, PolicyCard, PolicyCreated, PolicyView, Privacy, ShuffledBatch, Spent,
    SummedBatch,
};
pub use committee::{
    AnswerBinding, CommitteeContexts, OpenedAnswer, SealedShare, answer_key_hash, feedback_about,
};
pub use custody::{
    CommitteeManifest, Custody, Followed, Handover, KeysDigest, MemberManifest, PastEpoch, PublicBytes,
};
pub use encrypted::{
    AskAgain, BanditView, Created, DECISIONS_HEADER, DecideReply, Decision, LearnRequest, Limits, RaiseTask,
    Raised, Raises, SENDER_HEADER, SenderTag, ShownCounters, Ticket, TraceQuestion, TracedFeedback,
};
pub use error::Error;
pub use frame::{MAGIC, MAX_HEADER_BYTES};
pub use heads::{SignedHead, forks};
pub use json::{MAX_JSON_BYTES, OCTET_STREAM};
pub use labels::{IDEMPOTENCY_HEADER, Labelled, Labels, LabelsPatch, MOST_NAME, MOST_TAG, MOST_TAGS, is_id};
pub use manifest::{AnswersManifest, BootstrapsManifest, Manifest, SECURITY_TABLE, ScoresManifest};
pub use members::{
    AnswerUser, Evidence, Journal, MOST_ATTEMPTS, MOST_JOURNAL, MOST_QUESTION, MemberReply, MemberRequest,
    Question, RaiseEvidence, RotationEvidence, RotationShares, Wanted, check_busy, check_hashed_frames,
    check_poll, check_refusal, rotation_requests, rotations, sign_frames, sign_poll, transfer_header,
    transfers,
};
pub use problem::{PROBLEM_JSON, Problem, ProblemType};
pub use public::{BootstrapFrame, PublicBundle, ScoreKeys};
pub use secret::{ScoreSecret, SecretBundle};
pub use shares::{ERASURE_HEADER, SharesCreated, SharesView};
pub use successor::Successor;
pub use token::{AccessToken, TOKEN_BYTES, TokenDigest, all_from_hex, from_hex};
pub use users::UsersBundle;
