//! Decisions and feedback.

use super::{Refusal, read};
use crate::Error;
use crate::agent::Agent;
use crate::desk::Answer;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use protocol::DecisionId;
use schema::{Named, NamedRound};
use serde::Deserialize;
use wire::{ClearFeedback, Counted, Decided, MAX_JSON_BYTES, ProblemType};

/// A decision request: rows of features, or values by name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// One row of features for each arm.
    contexts: Option<Vec<Vec<f64>>>,
    /// Named values of each candidate, if the bandit has a schema.
    candidates: Option<Vec<Named>>,
    /// Named values that all candidates share.
    context: Option<Named>,
    /// The arm that the user chose last.
    previous: Option<usize>,
}

pub(super) async fn decide(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<Decided>, Refusal> {
    let asked: Asked = read(&agent, request, MAX_JSON_BYTES, "a decision request").await?;
    let Path(id) = id?;
    let rows = rows(&agent, &id, asked)?;
    let decided = agent
        .at_desk(&id, |desk| {
            let rows = rows.clone();
            async move { desk.decide(rows).await }
        })
        .await;
    answer(&agent, &id, decided)
}

/// The rows of features that are asked about.
fn rows(agent: &Agent, id: &str, asked: Asked) -> Result<Vec<Vec<f64>>, Error> {
    match asked {
        Asked { contexts: Some(rows), candidates: None, context: None, previous: None } => Ok(rows),
        Asked { contexts: None, candidates: Some(candidates), context, previous } => {
            let settings = agent.0.pending.settings(id);
            let missing = "candidates: the bandit has no schema at this agent; send `contexts`, or give it a schema by PATCH";
            let transform = settings.transform.as_ref().ok_or(Error::BadField(missing))?;
            let context = context.unwrap_or_default();
            Ok(transform.features_of(&NamedRound { context, candidates, previous })?)
        }
        Asked { contexts: None, .. } => Err(Error::BadField(
            "contexts: missing; send one row of features for each arm, or named `candidates`",
        )),
        _ => {
            Err(Error::BadField("contexts: send either rows of features or named `candidates`, and not both"))
        }
    }
}

pub(super) async fn feedback(
    State(agent): State<Agent>,
    names: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Result<Json<Counted>, Refusal> {
    let body = read(&agent, request, MAX_JSON_BYTES, "a feedback").await?;
    let reward = match body {
        ClearFeedback { reward: Some(reward), rewards: None, sum: None, share: None } => reward,
        _ => return Err(Error::BadField("an encrypted bandit takes the field `reward`, and no other").into()),
    };
    let Path((id, decision)) = names?;
    let decision: DecisionId = decision.parse().map_err(Error::from)?;
    let counted = agent.at_desk(&id, |desk| async move { desk.feedback(decision, reward).await }).await;
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
