//! Problem documents (RFC 9457), and the closed table of their types.

use fault::Fault;
use serde::{Deserialize, Serialize};

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A problem document (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A URI that names the kind of problem; `about:blank` if the status names it.
    #[serde(rename = "type", default = "blank")]
    pub kind: String,
    /// The kind in words, which is the same for all problems of the kind.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The fault of this request, and the remedy.
    #[serde(default)]
    pub detail: String,
    /// A stable code for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn blank() -> String {
    "about:blank".into()
}

impl Problem {
    /// A problem of the kind `about:blank`, without a code.
    pub fn new(status: u16, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Problem { kind: blank(), title: title.into(), status, detail: detail.into(), reason: None }
    }

    /// The same problem with a stable code.
    pub fn with_reason(self, reason: impl Into<String>) -> Self {
        Problem { reason: Some(reason.into()), ..self }
    }
}

impl From<ProblemType> for Problem {
    /// A document of this type, with the sentence of the type as its detail.
    fn from(kind: ProblemType) -> Self {
        Problem::new(kind.status(), kind.title(), kind.sentence()).with_reason(kind.reason())
    }
}

/// Declares the types with status, reason and sentence.
macro_rules! problem_types {
    ($($variant:ident $status:literal $reason:literal $sentence:literal)+) => {
        /// The types of problems. Every error of a service has one of these types.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProblemType {
            $(#[doc = $sentence] $variant,)+
        }

        impl ProblemType {
            /// All types in the order of their status.
            pub const ALL: &[ProblemType] = &[$(ProblemType::$variant,)+];

            /// The HTTP status.
            pub const fn status(self) -> u16 {
                match self {
                    $(ProblemType::$variant => $status,)+
                }
            }

            /// The code for programs, stable across versions.
            pub const fn reason(self) -> &'static str {
                match self {
                    $(ProblemType::$variant => $reason,)+
                }
            }

            /// The fault, in a sentence.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(ProblemType::$variant => $sentence,)+
                }
            }
        }
    };
}

problem_types! {
    Malformed 400 "malformed" "The body is not such a message."
    WrongVersion 400 "wrong_version" "The message has a format version that the server does not read."
    WrongParameters 400 "wrong_parameters" "The ciphertext was made under other parameters."
    WrongKey 400 "wrong_key" "The ciphertext was made under another key."
    ResidueTooLarge 400 "residue_too_large" "A residue of the ciphertext is not below its prime."
    WrongLevel 400 "wrong_level" "The ciphertext is at another level than the plan says."
    BadConfiguration 400 "bad_configuration" "The configuration cannot be read, or the keys do not carry it."
    BodyLost 400 "body_lost" "The body did not arrive whole and in time."
    BadHead 400 "bad_head" "A header of the request comes twice, or is not what it must be."
    BadCiphertext 400 "bad_ciphertext" "The body is not a ciphertext of this sum."
    UnknownReport 400 "unknown_report" "A report of the set has not arrived."
    OutOfRange 400 "out_of_range" "The sum is outside the range that can be opened."
    Unauthorized 401 "unauthorized" "The request has no token that the server knows."
    NoToken 401 "no_token" "The request needs the collector's token."
    ForbiddenScope 403 "forbidden_scope" "The token does not permit this request."
    ForeignOrigin 403 "foreign_origin" "A page of another origin started the request."
    UnknownPath 404 "unknown_path" "Nothing is served at this path."
    UnknownBandit 404 "unknown_bandit" "No bandit has this id."
    UnknownSession 404 "unknown_session" "The committee does not know the session, or too few of its members have read it."
    UnknownDecision 404 "unknown_decision" "No decision that waits for feedback has this id."
    WrongMethod 405 "wrong_method" "The path is not served with this method."
    BodyTimeout 408 "body_lost" "The body did not arrive in time."
    NoKeys 409 "no_keys" "The server has no key bundle, or not the one that this bandit needs."
    Settled 409 "settled" "The decision asks for no feedback."
    Answered 409 "answered" "Another answer was counted before."
    BatchOver 409 "batch_over" "The exchange is not the one under way."
    TakesBatches 409 "takes_batches" "Users of this bandit answer an intermediary."
    TakesFeedback 409 "takes_feedback" "This bandit takes feedback on its decisions, no batches."
    Over 409 "over" "The run is over, or its budget is spent."
    NotAnnounced 409 "not_announced" "The batch is not announced."
    Announced 409 "announced" "The batch is announced for another number of users."
    Used 409 "used" "The batch number is not above every one that was used."
    Duplicate 409 "duplicate" "The report came before with another content."
    Closed 409 "closed" "The batch is closed."
    NotClosed 409 "not_closed" "The batch is not closed yet."
    Opened 409 "opened" "The batch was opened for another set of users."
    Destroyed 409 "destroyed" "The key of the batch is destroyed."
    TooFew 409 "too_few" "The batch has fewer users than its noise is sized for."
    NotBegun 409 "not_begun" "The exchange has not begun."
    OtherTask 409 "told_otherwise" "The user answers another task than the shuffler collects."
    NotEncrypted 409 "not_encrypted" "The bandit has a clear policy, and nothing of it is raised."
    TaskOver 409 "task_over" "The task was answered before, or its evaluation has ended."
    NotKept 409 "not_kept" "The evaluation or the feedback of the decision is not kept, or no longer."
    StillLearning 409 "still_learning" "As many rounds as one model takes wait for it; answer the tasks of the bandit."
    Frozen 409 "frozen" "The bandit is frozen: it decides, and counts no feedback until it is thawed."
    AskedAgain 409 "asked_again" "The user has asked again for this answer before."
    OtherSender 409 "other_sender" "The contexts of the decision came from another sender."
    TooFewAsked 409 "too_few_asked" "Too few users of the evaluation asked again in time."
    Alone 409 "alone" "The evaluation decided for no other sender, so that a repeat gives the same."
    NotAwaited 409 "not_awaited" "The bandit does not wait for this exchange."
    NoCounters 409 "no_counters" "The bandit has no counters: `counters` in its configuration asks for them."
    CommitteeMoved 410 "committee_moved" "The committee has moved to another one, which `GET /v1/committee` has."
    Expired 410 "expired" "The wait time of the decision was over before its feedback came."
    Changed 412 "changed" "Another request changed the name or the tags meanwhile."
    TooLarge 413 "too_large" "The body is longer than such a message can be."
    MediaType 415 "media_type" "The body is declared as another media type than the request takes."
    WrongHost 421 "wrong_host" "The request names a host that this server is not."
    BadValue 422 "bad_value" "A parameter or value is missing or outside its range."
    KeyReused 422 "key_reused" "The `Idempotency-Key` came before with another body."
    TooManyOpen 429 "too_many_open" "As many decisions wait for feedback as are remembered."
    Internal 500 "internal" "The server failed; nothing was changed, its log says why."
    ForwardingFailed 502 "forwarding_failed" "Another party could not be reached, or refused."
    BadAnswer 502 "bad_answer" "Another party's answer is not what it must be."
    Overloaded 503 "overloaded" "As much is under way as the server takes at a time."
    NotEvaluated 503 "not_evaluated" "The evaluation that the decision was part of ended without an answer; ask again."
    NotStored 503 "not_stored" "The disk does not take the change; nothing was changed, ask again."
    TooManyBandits 507 "too_many_bandits" "The server keeps as many bandits as it may."
    DiskFull 507 "disk_full" "No room is left on the server's disk; nothing was changed, try again when there is."
    Full 507 "full" "As many batches are kept as there is room for."
}

impl ProblemType {
    /// The phrase of the status in RFC 9110.
    pub const fn title(self) -> &'static str {
        match self.status() {
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            409 => "Conflict",
            410 => "Gone",
            412 => "Precondition Failed",
            413 => "Payload Too Large",
            415 => "Unsupported Media Type",
            421 => "Misdirected Request",
            422 => "Unprocessable Entity",
            429 => "Too Many Requests",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            507 => "Insufficient Storage",
            _ => "Internal Server Error",
        }
    }
}

impl From<Fault> for ProblemType {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Value => ProblemType::BadValue,
            Fault::Configuration => ProblemType::BadConfiguration,
            Fault::Over => ProblemType::Over,
            Fault::Unknown => ProblemType::UnknownDecision,
            Fault::Malformed => ProblemType::Malformed,
            Fault::TooLong => ProblemType::TooLarge,
            Fault::Version => ProblemType::WrongVersion,
            Fault::Parameters => ProblemType::WrongParameters,
            Fault::Key => ProblemType::WrongKey,
            Fault::Residue => ProblemType::ResidueTooLarge,
            Fault::Level => ProblemType::WrongLevel,
            Fault::Internal => ProblemType::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasons are unique but for the two statuses of a lost body, and every status has its own title.
    #[test]
    fn the_table_is_in_order() {
        for (i, kind) in ProblemType::ALL.iter().enumerate() {
            assert!(kind.sentence().ends_with('.'), "{kind:?}");
            assert_eq!(kind.title() == "Internal Server Error", kind.status() == 500, "{kind:?}");
            let before = &ProblemType::ALL[..i];
            assert!(before.iter().all(|b| b.status() <= kind.status()), "{kind:?}");
            let same = before.iter().filter(|b| b.reason() == kind.reason()).count();
            assert_eq!(same, usize::from(*kind == ProblemType::BodyTimeout), "{kind:?}");
        }
    }
}
