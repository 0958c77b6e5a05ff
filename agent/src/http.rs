//! The HTTP interface: the messages of clear bandits, for encrypted ones.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /v1/health` | | `{"status": "ok"}`, without a token |
//! | `POST /v1/bandits` | [`BanditConfig`] | [`wire::Created`] |
//! | `GET /v1/bandits/{id}` | | [`wire::BanditView`] |
//! | `POST /v1/bandits/{id}/decisions` | [`DecideRequest`] | [`wire::Decided`] |
//! | `POST /v1/bandits/{id}/decisions/{decision}/feedback` | [`ClearFeedback`] with `reward` | [`wire::Counted`] |

use crate::Error;
use crate::agent::{Agent, blocking};
use crate::desk::Answer;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use protocol::{BanditConfig, DecisionId};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use service::Content;
use std::sync::Arc;
use user_client::AnyBandit;
use wire::{
    ClearFeedback, Counted, DecideRequest, Decided, MAX_JSON_BYTES, PROBLEM_JSON, Problem, ProblemType,
    TokenDigest,
};

/// The body of a request without the token is read and discarded if it is at most this long.
const DISCARDED_BYTES: u64 = 1 << 20;

/// The routes, under `/v1`.
pub(crate) fn app(agent: Agent) -> Router {
    let guarded = Router::new()
        .route("/bandits", post(create))
        .route("/bandits/{id}", get(show))
        .route("/bandits/{id}/decisions", post(decide))
        .route("/bandits/{id}/decisions/{decision}/feedback", post(feedback))
        .route_layer(middleware::from_fn_with_state(agent.clone(), check_token));
    Router::new()
        .nest("/v1", guarded.route("/health", get(async || Json(json!({"status": "ok"})))))
        .fallback(async |request: Request| {
            Refusal::from(Error::UnknownPath { path: request.uri().path().chars().take(200).collect() })
        })
        .method_not_allowed_fallback(async || Refusal::from(Error::WrongMethod))
        .layer(middleware::from_fn_with_state(agent.clone(), check_origin))
        .with_state(agent)
}

async fn create(State(agent): State<Agent>, request: Request) -> Result<Response, Refusal> {
    let config: Value = read(&agent, request, "the configuration of a bandit").await?;
    let config = configuration(config)?;
    // It is sent once, because a repeated creation may create two bandits.
    let created = blocking(move || Ok(agent.0.client.create_encrypted(&config)?)).await?;
    let location = [(header::LOCATION, format!("/v1/bandits/{}", created.id))];
    Ok((StatusCode::CREATED, location, Json(created)).into_response())
}

/// The configuration of an encrypted bandit, which may name its policy.
fn configuration(mut config: Value) -> Result<BanditConfig, Error> {
    if let Some(policy) = config.as_object_mut().and_then(|object| object.remove("policy"))
        && policy != "helba"
    {
        return Err(Error::NotEncrypted { what: "the bandit of this configuration".into() });
    }
    serde_json::from_value(config).map_err(|e| Error::BadConfig { why: e.to_string() })
}

async fn show(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path(id) = id?;
    let view = blocking(move || match agent.0.client.any_bandit(&id)? {
        AnyBandit::Encrypted(view) => Ok(view),
        AnyBandit::Clear(_) => Err(Error::NotEncrypted { what: format!("bandit {id}") }),
    });
    Ok(Json(view.await?).into_response())
}

async fn decide(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<Decided>, Refusal> {
    let body = read(&agent, request, "a decision request").await?;
    let DecideRequest { contexts } = body;
    let missing = "contexts: missing; an encrypted bandit needs one row of features for each arm";
    let rows = contexts.ok_or(Error::BadField(missing))?;
    let Path(id) = id?;
    let decided = agent.desk(&id).await?.decide(rows).await;
    answer(&agent, &id, decided)
}

async fn feedback(
    State(agent): State<Agent>,
    names: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Result<Json<Counted>, Refusal> {
    let body = read(&agent, request, "a feedback").await?;
    let reward = match body {
        ClearFeedback { reward: Some(reward), rewards: None, sum: None, share: None } => reward,
        _ => return Err(Error::BadField("an encrypted bandit takes the field `reward`, and no other").into()),
    };
    let Path((id, decision)) = names?;
    let decision: DecisionId = decision.parse().map_err(Error::from)?;
    let counted = agent.desk(&id).await?.feedback(decision, reward).await;
    answer(&agent, &id, counted)
}

/// The answer of a desk. A bandit that was deleted loses its desk.
fn answer<T>(agent: &Agent, id: &str, answer: Answer<T>) -> Result<Json<T>, Refusal> {
    if let Err(error) = &answer
        && let Error::Client(user_client::Error::Refused(problem)) = &**error
        && problem.reason.as_deref() == Some(ProblemType::UnknownBandit.reason())
    {
        agent.0.forget(id);
    }
    Ok(Json(answer.map_err(Refusal)?))
}

/// Reads a JSON body.
async fn read<T: DeserializeOwned>(agent: &Agent, request: Request, what: &'static str) -> Result<T, Error> {
    let body = agent.0.bodies.read(request, MAX_JSON_BYTES, Some(Content::Json)).await?;
    // A clear bandit reads an empty body as an empty message.
    let bytes: &[u8] = if body.is_empty() { b"{}" } else { &body };
    serde_json::from_slice(bytes).map_err(|e| Error::BadJson { what, why: e.to_string() })
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
