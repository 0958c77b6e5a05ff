//! Error → problem document (RFC 9457). Nothing else here knows a status code of failure.

use crate::error::Error;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use service::Refusal;
use wire::{PROBLEM_JSON, Problem};

impl Error {
    fn status(&self) -> StatusCode {
        use helba::Error as H;
        use protocol::Error as P;
        use wire::Error as W;
        match self {
            Error::UnknownBandit { .. } | Error::UnknownPath { .. } => StatusCode::NOT_FOUND,
            Error::Helba(H::Protocol(P::UnknownDecision { .. })) => StatusCode::NOT_FOUND,
            Error::Unauthorized { .. } => StatusCode::UNAUTHORIZED,
            Error::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Error::Request(Refusal::MediaType { .. }) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Error::Request(Refusal::WrongHost { .. }) => StatusCode::MISDIRECTED_REQUEST,
            Error::Request(Refusal::ForeignOrigin { .. }) => StatusCode::FORBIDDEN,
            Error::Request(Refusal::BodyTooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Error::Wire(W::TooLong { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Error::Wire(W::Truncated { .. } | W::Trailing { .. } | W::Malformed(_) | W::Version { .. }) => {
                StatusCode::BAD_REQUEST
            }
            Error::Request(Refusal::BodyLost { .. }) | Error::BadConfig { .. } | Error::BadJson { .. } => {
                StatusCode::BAD_REQUEST
            }
            Error::NoKeys
            | Error::Settled { .. }
            | Error::OutOfTurn { .. }
            | Error::TurnTaken { .. }
            | Error::Answered { .. }
            | Error::BatchOver { .. }
            | Error::TakesBatches { .. }
            | Error::TakesFeedback { .. } => StatusCode::CONFLICT,
            Error::TooManyOpen { .. } => StatusCode::TOO_MANY_REQUESTS,
            Error::BadParameter { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Policy(e) => of_policy(e),
            Error::Glm(glm::Error::Bandit(e)) => of_policy(e),
            Error::Glm(glm::Error::Privacy(e)) => of_privacy(e),
            Error::Glm(
                glm::Error::Field { .. } | glm::Error::Dimension { .. } | glm::Error::NotFinite { .. },
            ) => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Privacy(e) => of_privacy(e),
            Error::Helba(
                H::Protocol(
                    P::Config(_) | P::Field { .. } | P::Shape { .. } | P::Depth { .. } | P::Slots { .. },
                )
                | H::WrongLevel { .. },
            ) => StatusCode::BAD_REQUEST,
            Error::Helba(H::Ckks(e)) if is_rejection(e) => StatusCode::BAD_REQUEST,
            Error::Overloaded | Error::Request(Refusal::Overloaded) | Error::SizingNoise => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Error::TooManyBandits { .. } | Error::DiskFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// A code for programs, stable across versions.
    fn reason(&self) -> &'static str {
        use ckks::Error as C;
        use helba::Error as H;
        use protocol::Error as P;
        use wire::Error as W;
        match self {
            Error::UnknownBandit { .. } => "unknown_bandit",
            Error::UnknownPath { .. } => "unknown_path",
            Error::Unauthorized { .. } => "unauthorized",
            Error::NoKeys => "no_keys",
            Error::Settled { .. } => "settled",
            Error::WrongMethod => "wrong_method",
            Error::Request(Refusal::MediaType { .. }) => "media_type",
            Error::Request(Refusal::WrongHost { .. }) => "wrong_host",
            Error::Request(Refusal::ForeignOrigin { .. }) => "foreign_origin",
            Error::Helba(H::Protocol(P::UnknownDecision { .. })) => "unknown_decision",
            Error::Request(Refusal::BodyTooLarge { .. }) | Error::Wire(W::TooLong { .. }) => "too_large",
            Error::Request(Refusal::BodyLost { .. }) => "body_lost",
            Error::Wire(W::Version { .. }) | Error::Helba(H::Ckks(C::Version { .. })) => "wrong_version",
            Error::Wire(W::Truncated { .. } | W::Trailing { .. } | W::Malformed(_)) => "malformed",
            Error::Helba(H::Ckks(C::WrongParams { .. })) => "wrong_parameters",
            Error::Helba(H::Ckks(C::WrongKey { .. })) => "wrong_key",
            Error::Helba(H::Ckks(C::ResidueTooLarge { .. })) => "residue_too_large",
            Error::Helba(H::WrongLevel { .. } | H::Ckks(C::WrongLevel { .. })) => "wrong_level",
            Error::Helba(H::Ckks(C::BadFrame(_))) => "malformed",
            Error::Overloaded | Error::Request(Refusal::Overloaded) | Error::SizingNoise => "overloaded",
            Error::TooManyBandits { .. } => "too_many_bandits",
            Error::DiskFull { .. } => "disk_full",
            Error::BadJson { .. } => "malformed",
            Error::OutOfTurn { .. } => "out_of_turn",
            Error::TurnTaken { .. } => "turn_taken",
            Error::TooManyOpen { .. } => "too_many_open",
            Error::Answered { .. } => "answered",
            Error::BatchOver { .. } => "batch_over",
            Error::TakesBatches { .. } => "takes_batches",
            Error::TakesFeedback { .. } => "takes_feedback",
            _ if self.status() == StatusCode::UNPROCESSABLE_ENTITY => "bad_value",
            _ if self.status() == StatusCode::CONFLICT => "over",
            _ if self.status() == StatusCode::BAD_REQUEST => "bad_configuration",
            _ => "internal",
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = self.status();
        if status.is_server_error() {
            tracing::error!(error = %printable(&self.to_string()), "{status}");
        } else {
            tracing::info!(error = %printable(&self.to_string()), "{status}");
        }
        let wait = match self {
            Error::TurnTaken { wait } | Error::TooManyOpen { wait, .. } => Some(wait),
            _ => (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
        };
        let detail = match status {
            // What is wrong inside stays in the log: it names paths.
            StatusCode::INTERNAL_SERVER_ERROR => {
                "the server failed; nothing was changed, its log says why".into()
            }
            StatusCode::INSUFFICIENT_STORAGE if matches!(self, Error::DiskFull { .. }) => {
                "no room is left on the server's disk; nothing was changed, try again when there is".into()
            }
            _ => self.to_string(),
        };
        let title = status.canonical_reason().unwrap_or("Error");
        let problem = Problem::new(status.as_u16(), title, detail).with_reason(self.reason());
        let mut response = (status, Json(problem)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// `text` as one line for the log, without control characters. Text from outside may hold line ends, escape
/// sequences and marks that change the direction of writing: all of these, and backslashes, are written as
/// escapes.
pub fn printable(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' | '\'' => c.to_string(),
        c => c.escape_debug().to_string(),
    };
    text.chars().map(escaped).collect()
}

impl From<PathRejection> for Error {
    fn from(rejection: PathRejection) -> Self {
        Error::UnknownPath { path: rejection.body_text() }
    }
}

/// What a policy refuses: values, or to go on.
fn of_policy(error: &bandit::Error) -> StatusCode {
    use bandit::Error as B;
    match error {
        B::HorizonOver { .. } | B::OutOfTurn { .. } => StatusCode::CONFLICT,
        B::Field { .. }
        | B::SwitchingRule { .. }
        | B::Shape { .. }
        | B::Rows { .. }
        | B::FeatureNotFinite { .. }
        | B::FeatureTooLong { .. }
        | B::Arm { .. }
        | B::RewardNotFinite
        | B::Reward { .. }
        | B::RewardOfArm { .. }
        | B::Rewards { .. }
        | B::Shares { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        B::Privacy(e) => of_privacy(e),
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What noise and accounting refuse: parameters that no noise can serve, or to spend more.
fn of_privacy(error: &privacy::Error) -> StatusCode {
    use privacy::Error as P;
    match error {
        P::Field { .. } | P::Overflow { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        P::BudgetSpent { .. } => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Bytes from outside that are not a ciphertext under these parameters and this key.
fn is_rejection(error: &ckks::Error) -> bool {
    use ckks::Error as C;
    matches!(
        error,
        C::BadFrame(_)
            | C::Version { .. }
            | C::WrongParams { .. }
            | C::WrongKey { .. }
            | C::ResidueTooLarge { .. }
            | C::WrongLevel { .. }
    )
}
