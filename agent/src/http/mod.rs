//! The HTTP interface: the messages of clear bandits, for encrypted ones.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /` | | a page that shows the summaries, without a token |
//! | `GET /v1/health` | | `{"status": "ok"}`, without a token |
//! | `GET /v1/bandits?limit=&after=` | | those of the agent's key or committee, as they were created |
//! | `POST /v1/bandits` | [`protocol::BanditConfig`], or its parts with a schema | [`wire::Created`] or [`wire::CommitteeBandit`] |
//! | `GET /v1/bandits/{id}` | | [`wire::BanditView`] or [`wire::CommitteeBanditView`] with the settings here |
//! | `PATCH /v1/bandits/{id}` | settings | the same |
//! | `DELETE /v1/bandits/{id}` | | 204 |
//! | `GET /v1/bandits/{id}/summary` | | [`crate::tally::Summary`] |
//! | `GET /v1/bandits/{id}/counters` | | [`user_client::OpenedCounters`] of all devices of the bandit |
//! | `POST /v1/bandits/{id}/copy` | what the copy has instead | [`wire::Created`] |
//! | `GET /v1/bandits/{id}/model` | | [`user_client::ExportedModel`] |
//! | `PUT /v1/bandits/{id}/frozen` | [`wire::Freeze`] | [`protocol::Status`] of the bandit at the server |
//! | `POST /v1/bandits/{id}/learn` | logged rounds: decision requests with `arm` and `reward` or `reward_value` | how many are learnt |
//! | `POST /v1/bandits/{id}/decisions` | rows of features, or values by name | [`wire::Decided`] |
//! | `POST /v1/bandits/{id}/decisions/{decision}/feedback` | `reward`, or `reward_value` in the units of `reward_range` | [`wire::Counted`] |
//! | `DELETE /v1/bandits/{id}/decisions/{decision}/feedback` | | that it is erased |

mod bandits;
mod page;
mod rounds;

use crate::Error;
use crate::agent::Agent;
use axum::extract::rejection::PathRejection;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use serde_json::json;
use service::Content;
use std::sync::Arc;
use wire::{PROBLEM_JSON, Problem, ProblemType, TokenDigest};

/// The body of a request without the token is read and discarded if it is at most this long.
const DISCARDED_BYTES: u64 = 1 << 20;

/// The routes.
pub(crate) fn app(agent: Agent) -> Router {
    let guarded = Router::new()
        .route("/bandits", get(bandits::list).post(bandits::create))
        .route("/bandits/{id}", get(bandits::show).patch(bandits::change).delete(bandits::delete))
        .route("/bandits/{id}/summary", get(bandits::summary))
        .route("/bandits/{id}/counters", get(bandits::counters))
        .route("/bandits/{id}/copy", post(bandits::copy))
        .route("/bandits/{id}/model", get(bandits::model))
        .route("/bandits/{id}/frozen", put(bandits::freeze))
        .route("/bandits/{id}/learn", post(rounds::learn))
        .route("/bandits/{id}/decisions", post(rounds::decide))
        .route("/bandits/{id}/decisions/{decision}/feedback", post(rounds::feedback).delete(rounds::erase))
        .route_layer(middleware::from_fn_with_state(agent.clone(), check_token));
    Router::new()
        .route("/", get(page::root))
        .nest("/v1", guarded.route("/health", get(async || Json(json!({"status": "ok"})))))
        .fallback(async |request: Request| {
            Refusal::from(Error::UnknownPath { path: request.uri().path().chars().take(200).collect() })
        })
        .method_not_allowed_fallback(async || Refusal::from(Error::WrongMethod))
        .layer(middleware::from_fn_with_state(agent.clone(), check_origin))
        .with_state(agent)
}

/// Reads a JSON body of at most `limit` bytes.
async fn read<T: DeserializeOwned>(
    agent: &Agent,
    request: Request,
    limit: usize,
    what: &'static str,
) -> Result<T, Error> {
    let body = agent.0.bodies.read(request, limit, Some(Content::Json)).await?;
    // A clear bandit reads an empty body as an empty message.
    let bytes: &[u8] = if body.is_empty() { b"{}" } else { &body };
    // Named values may be ids of more digits than a number of JSON keeps.
    serde_json::from_slice(&schema::exact_json(bytes))
        .map_err(|e| Error::BadJson { what, why: e.to_string() })
}

async fn check_token(State(agent): State<Agent>, request: Request, next: Next) -> Response {
    let value = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if value.and_then(TokenDigest::of_authorization) == Some(agent.0.options.token) {
        return next.run(request).await;
    }
    service::discard(request, DISCARDED_BYTES).await;
    Refusal::from(Error::Unauthorized).into_response()
}

async fn check_origin(State(agent): State<Agent>, request: Request, next: Next) -> Response {
    match agent.0.hosts.check(&request) {
        Ok(()) => next.run(request).await,
        Err(rejection) => {
            service::discard(request, DISCARDED_BYTES).await;
            Refusal::from(Error::from(rejection)).into_response()
        }
    }
}

/// An error as an answer. Those whose decisions shared a request share it.
struct Refusal(Arc<Error>);

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Refusal(Arc::new(error.into()))
    }
}

impl From<PathRejection> for Error {
    fn from(rejection: PathRejection) -> Self {
        Error::UnknownPath { path: rejection.body_text() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = problem(&self.0);
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_GATEWAY);
        let mut response = (status, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if [StatusCode::SERVICE_UNAVAILABLE, StatusCode::BAD_GATEWAY].contains(&status) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(1));
        }
        response
    }
}

/// The document of an error. A refusal of the server is passed on as it is, but for one of the agent's own
/// token, which is no fault of the application.
fn problem(error: &Error) -> Problem {
    let of_token = [ProblemType::Unauthorized, ProblemType::ForbiddenScope].map(ProblemType::reason);
    let is_of_token = |problem: &Problem| problem.reason.as_deref().is_some_and(|r| of_token.contains(&r));
    match error {
        Error::Client(user_client::Error::Refused(problem)) if !is_of_token(problem) => problem.clone(),
        error => Problem { detail: error.to_string(), ..error.problem().into() },
    }
}
