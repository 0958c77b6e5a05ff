//! Decisions and feedback.

use super::bandits::{self, View};
use super::{Refusal, read};
use crate::Error;
use crate::agent::{Agent, Inner, Of, blocking};
use crate::committee::Committee;
use crate::desk::Answer;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use protocol::{DecisionId, Erasure};
use schema::{Named, OpenRound, reward_in};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use user_client::LoggedRound;
use wire::{Counted, Decided, MAX_JSON_BYTES, ProblemType};

/// The most bytes of logged rounds.
const MAX_LEARN_BYTES: usize = 4 << 20;

/// A decision request: rows of features, or values by name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// One row of features for each arm, which is null for a closed arm.
    #[serde(default, with = "wire::open_rows")]
    contexts: Option<Vec<Vec<f64>>>,
    /// Named values of each candidate, if the bandit has a schema; null of a closed one.
    candidates: Option<Vec<Option<Named>>>,
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
    let rows = rows(&agent, &id, asked);
    let rows = known(&agent, &id, rows).await?;
    let decided = match &agent.0.of {
        Of::Keys(_) => agent.desk(&id).await?.decide(rows).await,
        Of::Committee(_) => {
            let bandit = id.clone();
            of_committee(&agent, move |committee, inner| committee.decide(inner, &bandit, &rows)).await
        }
    };
    answer(&agent, &id, decided)
}

/// Logged rounds to learn.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Logged {
    rounds: Vec<LoggedOf>,
    /// What was learnt by the same name is not learnt again, as long as the server remembers it: the last
    /// 4096 requests of a bandit.
    name: String,
}

/// A logged round: what a decision request would have, the arm that was played, and its reward, in one of
/// the two ways.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoggedOf {
    #[serde(default, with = "wire::open_rows")]
    contexts: Option<Vec<Vec<f64>>>,
    candidates: Option<Vec<Option<Named>>>,
    context: Option<Named>,
    previous: Option<usize>,
    arm: usize,
    reward: Option<f64>,
    reward_value: Option<f64>,
}

/// A feedback. The fields of clear policies are read so that their refusal can say what is wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Returned {
    /// The reward as it is learnt.
    reward: Option<f64>,
    /// The reward in the units of the schema's `reward_range`, which maps it.
    reward_value: Option<f64>,
    rewards: Option<IgnoredAny>,
    sum: Option<IgnoredAny>,
    share: Option<IgnoredAny>,
}

/// How many logged rounds are learnt.
#[derive(Serialize)]
pub(super) struct LearntRounds {
    rounds: usize,
    name: String,
    /// The number of feedbacks and logged rounds in the model in use.
    model_feedbacks: u64,
    /// Whether single rounds of them can be erased: false.
    erasable: bool,
}

/// Has a bandit learn logged rounds in bulk, and answers when its model has them.
pub(super) async fn learn(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<LearntRounds>, Refusal> {
    let Logged { rounds: logged, name } = read(&agent, request, MAX_LEARN_BYTES, "logged rounds").await?;
    let Path(id) = id?;
    let learnt = blocking(move || {
        // A bandit that there is not has no schema either, and that is what the caller must know.
        let View { view, .. } = bandits::view(&agent, &id)?;
        let created = view.of_keys(
            "learn",
            "each round of before takes a decision of a session (have them learnt with `helba-client committee learn`)",
        )?;
        let mut rounds = Vec::with_capacity(logged.len());
        for (at, one) in logged.into_iter().enumerate() {
            let LoggedOf { contexts, candidates, context, previous, arm, reward, reward_value } = one;
            let rows = rows(&agent, &id, Asked { contexts, candidates, context, previous });
            let of_round = |error| Error::InRound { round: at + 1, error: Box::new(error) };
            let rows = rows.map_err(of_round)?;
            let no_arm = || of_round(protocol::Error::NoArm { got: arm, arms: rows.len() }.into());
            let features = rows.get(arm).ok_or_else(no_arm)?.clone();
            let reward = self::reward(&agent, &id, reward, reward_value).map_err(of_round)?;
            rounds.push(LoggedRound { arm, features, reward });
        }
        let device = agent.0.device(&id)?;
        let bandit = device.join(created)?;
        let learnt = bandit.learn(&agent.0.client, &name, &rounds, &mut agent.0.fork_rng(), |_| ())?;
        let (rounds, model_feedbacks) = (learnt.rounds, learnt.status.model_feedbacks);
        Ok(LearntRounds { rounds, name, model_feedbacks, erasable: false })
    });
    Ok(Json(learnt.await?))
}

const NO_SCHEMA: &str =
    "candidates: the bandit has no schema at this agent; send `contexts`, or give it a schema by PATCH";

const NO_RANGE: &str =
    "reward_value: the bandit has no schema with `reward_range` at this agent; send `reward`, from -1 to 1";

/// What was made by the schema of a bandit, which may have none at this agent. A bandit that there is not has
/// none either, and that is what the caller must know.
async fn known<T>(agent: &Agent, id: &str, made: Result<T, Error>) -> Result<T, Refusal> {
    if let Err(Error::BadField(NO_SCHEMA | NO_RANGE)) = made {
        let (agent, id) = (agent.clone(), id.to_string());
        blocking(move || bandits::view(&agent, &id)).await?;
    }
    Ok(made?)
}

/// The reward that is learnt: the one that is given, or what `reward_range` of the schema makes of the value.
/// From here on there is one alone, so that it is mapped once, and one that is sent again is the same.
fn reward(agent: &Agent, id: &str, reward: Option<f64>, value: Option<f64>) -> Result<f64, Error> {
    match (reward, value) {
        (Some(reward), None) => Ok(reward),
        (None, Some(value)) => {
            let settings = agent.0.pending.settings(id);
            let range = settings.transform.as_ref().and_then(|transform| transform.schema().reward_range);
            let range = range.ok_or(Error::BadField(NO_RANGE))?;
            reward_in(range, value).ok_or(Error::RewardValue { range })
        }
        (None, None) => Err(Error::BadField(
            "reward: missing; send it, from -1 to 1, or `reward_value` in the units of the schema's `reward_range`",
        )),
        (Some(_), Some(_)) => Err(Error::BadField(
            "reward: send either `reward`, from -1 to 1, or `reward_value`, which `reward_range` maps, and not both",
        )),
    }
}

/// The rows of features that are asked about.
fn rows(agent: &Agent, id: &str, asked: Asked) -> Result<Vec<Vec<f64>>, Error> {
    match asked {
        Asked { contexts: Some(rows), candidates: None, context: None, previous: None } => Ok(rows),
        Asked { contexts: None, candidates: Some(candidates), context, previous } => {
            let settings = agent.0.pending.settings(id);
            let transform = settings.transform.as_ref().ok_or(Error::BadField(NO_SCHEMA))?;
            let context = context.unwrap_or_default();
            Ok(transform.features_of_open(OpenRound { context, candidates, previous })?)
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
    let body: Returned = read(&agent, request, MAX_JSON_BYTES, "a feedback").await?;
    let Returned { reward, reward_value, rewards: None, sum: None, share: None } = body else {
        return Err(Error::BadField(
            "an encrypted bandit takes the field `reward` or `reward_value`, and no other",
        )
        .into());
    };
    let Path((id, decision)) = names?;
    let reward = self::reward(&agent, &id, reward, reward_value);
    let reward = known(&agent, &id, reward).await?;
    let counted = match &agent.0.of {
        Of::Keys(_) => {
            let decision: DecisionId = decision.parse().map_err(Error::from)?;
            agent.desk(&id).await?.feedback(decision, reward).await
        }
        Of::Committee(_) => {
            let bandit = id.clone();
            let feedback = move |committee: &Committee, inner: &Inner| {
                committee.feedback(inner, &bandit, &decision, reward)
            };
            of_committee(&agent, feedback).await
        }
    };
    answer(&agent, &id, counted)
}

/// An erasure.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Erased {
    /// Of a bandit under keys, with the code of the server.
    Keys(Erasure),
    /// Of a bandit of a committee.
    Committee { erased: bool },
}

/// Has the feedback on a decision erased: with the end of the next batch the model has nothing of it.
pub(super) async fn erase(
    State(agent): State<Agent>,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<Erased>, Refusal> {
    let Path((id, decision)) = names?;
    let erased = blocking(move || match &agent.0.of {
        Of::Keys(_) => Ok(Erased::Keys(agent.0.client.erase_feedback(&id, decision.parse()?)?)),
        Of::Committee(committee) => {
            committee.erase(&agent.0, &id, &decision)?;
            Ok(Erased::Committee { erased: true })
        }
    });
    Ok(Json(erased.await?))
}

/// What the committee of the agent answers, on a thread that waits for the server.
async fn of_committee<T: Send + 'static>(
    agent: &Agent,
    work: impl FnOnce(&Committee, &Inner) -> Result<T, Error> + Send + 'static,
) -> Answer<T> {
    let inner = agent.0.clone();
    let done = blocking(move || match &inner.of {
        Of::Committee(committee) => work(committee, &inner),
        Of::Keys(_) => Err(Error::Broken("an agent without a committee")),
    });
    Ok(done.await?)
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
