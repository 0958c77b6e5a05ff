//! Turns errors into problem documents (RFC 9457). `wire::ProblemType` is the table of their types.

use crate::error::Error;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use wire::{PROBLEM_JSON, Problem, ProblemType};

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let kind = self.problem();
        let status = StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut problem = Problem::from(kind);
        let said = self.to_string();
        if status.is_server_error() {
            tracing::error!(error = %printable(&said), "{status}");
        } else {
            tracing::info!(error = %printable(&said), "{status}");
        }
        // The causes of internal errors stay in the log, because they name paths.
        if !matches!(kind, ProblemType::Internal | ProblemType::DiskFull) {
            problem.detail = said;
        }
        let wait = match self {
            Error::TooManyOpen { wait, .. } => Some(wait),
            _ => (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
        };
        let challenge = match &self {
            Error::Unauthorized { fault } => HeaderValue::try_from(fault.challenge()).ok(),
            Error::ForbiddenScope { needs, .. } => {
                let scope = needs.challenge();
                HeaderValue::try_from(format!("Bearer error=\"insufficient_scope\"{scope}")).ok()
            }
            _ => None,
        };
        let mut response = (status, Json(problem)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(challenge) = challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// `text` as one line for the log. Text from outside may contain line ends, control characters and marks that
/// change the direction of writing. All of these, and backslashes, are written as escapes.
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
