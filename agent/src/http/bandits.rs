//! Bandits: they are created, listed, shown, changed and deleted.

use super::{Refusal, read};
use crate::Error;
use crate::agent::{Agent, Of, blocking};
use crate::error::Holder;
use crate::settings::{Settings, settings_of};
use crate::tally::Tally;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use protocol::{BanditConfig, WidthShape};
use schema::Transform;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use user_client::{AnyBandit, Creation, OF_KEYS_ALONE};
use wire::{
    BanditView, CommitteeBandit, CommitteeBanditView, Created, Freeze, Labelled, Labels, LabelsPatch,
    MAX_CLEAR_BYTES,
};

/// The most bandits of a page of the list.
const MOST_LISTED: usize = 1000;

/// A bandit with its settings at this agent.
#[derive(Serialize)]
pub(super) struct View {
    #[serde(flatten)]
    pub(super) view: Seen,
    agent: Shown,
}

/// The configuration and the state of a bandit.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Seen {
    Keys(Box<BanditView>),
    Committee(Box<CommitteeBanditView>),
}

impl Seen {
    /// The numbers of features and of arms.
    fn sizes(&self) -> (usize, usize) {
        match self {
            Seen::Keys(view) => (view.created.config.linear.d, view.created.config.linear.k),
            Seen::Committee(view) => (view.created.features.into(), view.created.arms.into()),
        }
    }

    /// A bandit under keys, which alone has this.
    pub(super) fn of_keys(&self, what: &'static str, why: &'static str) -> Result<&Created, Error> {
        match self {
            Seen::Keys(view) => Ok(&view.created),
            Seen::Committee(_) => Err(Error::NotOfCommittee { what, why }),
        }
    }
}

/// What is shown of settings.
#[derive(Serialize)]
struct Shown {
    /// The names of the features, if the bandit has a schema.
    features: Option<Vec<String>>,
    #[serde(flatten)]
    settings: Settings,
}

/// A part of the list of bandits, as of a server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// The most bandits, from 1; all if there is none.
    limit: Option<usize>,
    /// Only bandits whose ids are above this one.
    #[serde(default)]
    after: String,
}

/// Lists the bandits of the agent's key or committee, by their ids.
pub(super) async fn list(
    State(agent): State<Agent>,
    query: Result<Query<Page>, QueryRejection>,
) -> Result<Response, Refusal> {
    let what = "the query of a request for a list";
    let query = query.map_err(|e| Error::BadJson { what, why: e.body_text() })?;
    let Query(Page { limit, after }) = query;
    if !after.is_empty() && !wire::is_id(&after) {
        return Err(Error::BadJson { what, why: "after must be the id of a bandit".into() }.into());
    }
    if limit.is_some_and(|limit| !(1..=MOST_LISTED).contains(&limit)) {
        return Err(Error::BadField("limit: it must be from 1 to 1000").into());
    }
    let listed = blocking(move || {
        let listed = agent.0.client.bandits()?;
        let own = match &agent.0.of {
            Of::Keys(device) => ("key_id", device.key_id().to_string()),
            Of::Committee(committee) => {
                // A server has one committee.
                let its = listed.iter().find_map(|bandit| bandit["committee"].as_str()).unwrap_or_default();
                let own = !its.is_empty() && committee.session.is_with(its)?;
                ("committee", if own { its.into() } else { String::new() })
            }
        };
        Ok((listed, own))
    });
    let (listed, (field, own)) = listed.await?;
    let id = |bandit: &Value| bandit["id"].as_str().unwrap_or_default().to_string();
    let mut listed: Vec<Value> =
        listed.into_iter().filter(|bandit| bandit[field] == own && id(bandit) > after).collect();
    listed.sort_unstable_by_key(id);
    let most = limit.unwrap_or(usize::MAX);
    let more = listed.len() > most;
    listed.truncate(most);
    let last = listed.last().filter(|_| more).map(id);
    let next = last.map(|last| format!("</v1/bandits?limit={most}&after={last}>; rel=\"next\""));
    Ok((next.map(|next| AppendHeaders([(header::LINK, next)])), Json(listed)).into_response())
}

pub(super) async fn create(State(agent): State<Agent>, request: Request) -> Result<Response, Refusal> {
    let mut asked: Map<String, Value> =
        read(&agent, request, MAX_CLEAR_BYTES, "the configuration of a bandit").await?;
    let created = blocking(move || {
        let labels = labels_of(&mut asked)?;
        let settings = settings_of(&mut asked)?.applied_to(&Settings::default())?;
        let exploration = exploration_of(&mut asked)?;
        let rules = match &agent.0.of {
            Of::Keys(_) => None,
            Of::Committee(_) => Some(rules_of(&mut asked)?),
        };
        let config = configuration(asked, settings.transform.as_ref())?;
        let rewards = exploration.rewards;
        let (config, warning) = exploration.applied_to(config)?;
        settings.check((config.linear.d, config.linear.k), rules.is_some())?;
        // The client sends it once more if the answer is lost; the server creates one bandit.
        let created = match (&agent.0.of, rules) {
            (Of::Committee(committee), Some(Rules { sessions, decisions_a_session })) => {
                let creation = Creation::new(Labels::default(), &mut agent.0.fork_rng());
                let rules = (sessions, decisions_a_session);
                let created =
                    committee.session.create(&config.linear, rules, rewards, config.counters, &creation)?;
                Made::Committee(created.of)
            }
            _ => Made::Keys(agent.0.client.create_encrypted(&config)?.into()),
        };
        let id = created.id();
        let completed = agent.0.set(id, settings).and_then(|()| match labels {
            None => Ok(Labels::default()),
            Some(labels) => Ok(agent.0.client.relabel(id, &labels, None)?),
        });
        match completed {
            Ok(labels) => Ok(Warned { warning, of: Labelled { labels, of: created } }),
            Err(error) => {
                // A bandit without its settings is of no use, and what is left of it costs little.
                let _ = agent.0.client.delete(id);
                Err(error)
            }
        }
    });
    let created = created.await?;
    let location = [(header::LOCATION, format!("/v1/bandits/{}", created.of.of.id()))];
    Ok((StatusCode::CREATED, location, Json(created)).into_response())
}

/// A bandit that was created, and what its creator should know of it.
#[derive(Serialize)]
struct Warned {
    /// That it can lock in on one arm.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    #[serde(flatten)]
    of: Labelled<Made>,
}

/// A bandit as it was created.
#[derive(Serialize)]
#[serde(untagged)]
enum Made {
    Keys(Box<Created>),
    Committee(CommitteeBandit),
}

impl Made {
    fn id(&self) -> &str {
        match self {
            Made::Keys(created) => &created.id,
            Made::Committee(created) => &created.id,
        }
    }
}

/// What a bandit of a committee asks of sessions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    /// The least number of sessions whose feedback a batch has.
    #[serde(default = "default_sessions")]
    sessions: u16,
    /// The most decisions of a session between two batches.
    #[serde(default = "default_decisions")]
    decisions_a_session: u16,
}

fn default_sessions() -> u16 {
    8
}

fn default_decisions() -> u16 {
    32
}

/// The rules of a creation, which are taken out of it.
fn rules_of(asked: &mut Map<String, Value>) -> Result<Rules, Error> {
    if let Some((what, why)) = OF_KEYS_ALONE.into_iter().find(|(name, _)| asked.contains_key(*name)) {
        return Err(Error::NotOfCommittee { what, why });
    }
    let given =
        ["sessions", "decisions_a_session"].map(|field| asked.remove(field).map(|v| (field.to_string(), v)));
    let given: Map<String, Value> = given.into_iter().flatten().collect();
    serde_json::from_value(Value::Object(given)).map_err(|e| Error::BadConfig { why: e.to_string() })
}

/// How a bandit explores, in the terms of [`BanditConfig::exploring`].
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exploration {
    width: Option<WidthShape>,
    alpha: Option<f64>,
    rewards: Option<[f64; 2]>,
}

impl Exploration {
    /// The configuration with what is given, and a warning if the bandit can lock in.
    fn applied_to(self, config: BanditConfig) -> Result<(BanditConfig, Option<String>), Error> {
        let Exploration { width, alpha, rewards } = self;
        let config = match (width, alpha, rewards) {
            (None, None, None) => config,
            _ => config
                .exploring(width, alpha, rewards)
                .map_err(|e| Error::BadConfig { why: e.to_string() })?,
        };
        let range = rewards.map_or(1.0, |[low, high]| high - low);
        let warning = config.linear.lock_in_warning(config.effective(config.horizon), range);
        Ok((config, warning))
    }
}

/// The exploration of a creation, which is taken out of it.
fn exploration_of(asked: &mut Map<String, Value>) -> Result<Exploration, Error> {
    let given =
        ["width", "alpha", "rewards"].map(|field| asked.remove(field).map(|v| (field.to_string(), v)));
    let given: Map<String, Value> = given.into_iter().flatten().collect();
    serde_json::from_value(Value::Object(given)).map_err(|e| Error::BadConfig { why: e.to_string() })
}

/// The labels of a creation, which are taken out of it.
fn labels_of(asked: &mut Map<String, Value>) -> Result<Option<LabelsPatch>, Error> {
    let given = ["name", "tags"].map(|field| asked.remove(field).map(|value| (field.to_string(), value)));
    let given: Map<String, Value> = given.into_iter().flatten().collect();
    if given.is_empty() {
        return Ok(None);
    }
    let bad = |error: serde_json::Error| Error::BadConfig { why: error.to_string() };
    serde_json::from_value(Value::Object(given)).map(Some).map_err(bad)
}

/// The configuration of an encrypted bandit, which may name its policy. Without `linear`, numbers of features
/// and arms are enough, which a transformation has; what is left out has the defaults.
fn configuration(
    mut asked: Map<String, Value>,
    transform: Option<&Transform>,
) -> Result<BanditConfig, Error> {
    if asked.remove("policy").is_some_and(|policy| policy != "helba") {
        return Err(Error::NotEncrypted { what: "the bandit of this configuration".into() });
    }
    let bad = |why: String| Error::BadConfig { why };
    let mut size = |name: &str, known: Option<usize>| match (asked.remove(name), known) {
        (None, known) => Ok(known),
        (Some(given), None) => serde_json::from_value(given).map_err(|e| bad(format!("{name}: {e}"))),
        (Some(given), Some(known)) if given == known => Ok(Some(known)),
        (Some(given), Some(known)) => Err(bad(format!("{name}: {given}, and the schema has {known}"))),
    };
    let sizes = (
        size("features", transform.map(Transform::features))?,
        size("arms", transform.map(Transform::arms))?,
    );
    let mut whole = match (sizes, asked.contains_key("linear")) {
        ((Some(features), Some(arms)), _) => {
            serde_json::to_value(BanditConfig::new(features, arms)).map_err(|e| bad(e.to_string()))?
        }
        ((None, None), true) => Value::Object(Map::new()),
        _ => return Err(bad("features and arms: give both numbers, or `linear`, or a schema".into())),
    };
    for (name, value) in asked {
        match (whole.get_mut(&name), value) {
            (Some(Value::Object(defaults)), Value::Object(given)) if name == "linear" => {
                defaults.extend(given)
            }
            (_, value) => whole[name] = value,
        }
    }
    serde_json::from_value(whole).map_err(|e| bad(e.to_string()))
}

pub(super) async fn show(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path(id) = id?;
    Ok(Json(blocking(move || view(&agent, &id)).await?).into_response())
}

/// Changes the settings of a bandit at this agent. Fields that are left out stay as they are.
pub(super) async fn change(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let Path(id) = id?;
    let mut asked: Map<String, Value> = read(&agent, request, MAX_CLEAR_BYTES, "settings").await?;
    let changed = blocking(move || {
        let change = settings_of(&mut asked)?;
        if let Some(name) = asked.keys().next() {
            let why = format!("{name}: there is no such setting");
            return Err(Error::BadJson { what: "settings", why });
        }
        let View { view, .. } = self::view(&agent, &id)?;
        let settings = change.applied_to(&agent.0.pending.settings(&id))?;
        settings.check(view.sizes(), matches!(view, Seen::Committee(_)))?;
        agent.0.set(&id, settings)?;
        Ok(View { view, agent: shown(&agent, &id) })
    });
    Ok(Json(changed.await?).into_response())
}

/// A bandit of the agent's key or committee, and its settings here.
pub(super) fn view(agent: &Agent, id: &str) -> Result<View, Error> {
    let others = |by| Err(Error::OfOthers { id: id.into(), by });
    let view = match (agent.0.client.any_bandit(id)?, &agent.0.of) {
        (AnyBandit::Encrypted(view), Of::Keys(_)) => Seen::Keys(view),
        (AnyBandit::Encrypted(_), Of::Committee(_)) => return others(Holder::Keys),
        (AnyBandit::Committee(view), Of::Committee(committee))
            if committee.session.is_with(&view.created.committee)? =>
        {
            Seen::Committee(view)
        }
        (AnyBandit::Committee(_), _) => return others(Holder::Committee),
        (AnyBandit::Clear(_), _) => return Err(Error::NotEncrypted { what: format!("bandit {id}") }),
    };
    Ok(View { view, agent: shown(agent, id) })
}

fn shown(agent: &Agent, id: &str) -> Shown {
    let settings = agent.0.pending.settings(id);
    Shown {
        features: settings.transform.as_ref().map(Transform::names),
        settings: Settings::clone(&settings),
    }
}

/// Numbers about the decisions of a bandit at this agent, which needs no server for it if it knows the
/// bandit.
pub(super) async fn summary(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path(id) = id?;
    let summary = blocking(move || match agent.0.pending.summary(&id)? {
        Some(summary) => Ok(summary),
        None => {
            let (_, arms) = self::view(&agent, &id)?.view.sizes();
            Ok(Tally::default().summary(arms))
        }
    });
    Ok(Json(summary.await?).into_response())
}

/// The counters of all devices of a bandit, opened with the agent's key or by a committee.
pub(super) async fn counters(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path(id) = id?;
    let opened = blocking(move || {
        let View { view, .. } = self::view(&agent, &id)?;
        let client = &agent.0.client;
        let Seen::Keys(view) = &view else { return Ok(client.counters_of_committee(&id)?) };
        let device = agent.0.device(&id)?;
        let bandit = device.join(&view.created)?;
        Ok(bandit.open_counters(&client.counters(&id, bandit.limits())?)?)
    });
    Ok(Json(opened.await?).into_response())
}

/// Copies a bandit at the server. The agent has no settings for the copy.
pub(super) async fn copy(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let Path(id) = id?;
    let mut changes: Map<String, Value> =
        read(&agent, request, MAX_CLEAR_BYTES, "what the copy of a bandit has instead").await?;
    let copied = blocking(move || {
        let labels = Labels::default().patched(labels_of(&mut changes)?.unwrap_or_default());
        self::view(&agent, &id)?.view.of_keys("copy", "what its members have cannot be copied")?;
        let creation = Creation::new(labels, &mut agent.0.fork_rng());
        Ok(agent.0.client.copy(&id, &changes, &creation)?)
    });
    Ok((StatusCode::CREATED, Json(copied.await?)).into_response())
}

/// The model of a bandit in the clear, opened with the agent's key.
pub(super) async fn model(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path(id) = id?;
    let opened = blocking(move || {
        let View { view, .. } = self::view(&agent, &id)?;
        let created = view.of_keys("model", "its members open none")?;
        let device = agent.0.device(&id)?;
        let bandit = device.join(created)?;
        Ok(bandit.export(&agent.0.client.model(&id, bandit.limits())?)?)
    });
    Ok(Json(opened.await?).into_response())
}

/// Freezes or thaws a bandit at the server, for all of its devices, and answers with its counters there.
pub(super) async fn freeze(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let Path(id) = id?;
    let what = "whether a bandit is frozen";
    let Freeze { frozen } = read(&agent, request, MAX_CLEAR_BYTES, what).await?;
    let status = blocking(move || {
        let View { view, .. } = self::view(&agent, &id)?;
        view.of_keys("frozen", "its members share what it learns")?;
        Ok(agent.0.client.freeze(&id, frozen)?)
    });
    Ok(Json(status.await?).into_response())
}

/// Deletes a bandit on the server, and what the agent keeps of it. Answers 204, and 404 to a repeated
/// request.
pub(super) async fn delete(
    State(agent): State<Agent>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Refusal> {
    let Path(id) = id?;
    let deleted = blocking(move || {
        // Those of others are none of the agent's.
        view(&agent, &id)?;
        agent.0.client.delete(&id)?;
        agent.0.forget(&id);
        // What is left is forgotten by its age.
        if let Err(error) = agent.0.pending.forget(&id) {
            agent.0.log(&format!("decisions of bandit {id} are still kept: {error}"));
        }
        Ok(StatusCode::NO_CONTENT)
    });
    Ok(deleted.await?)
}
