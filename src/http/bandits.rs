//! `/v1/bandits`: bandits of either kind are created, listed, shown and deleted.

use super::{AppState, etag, unless_same};
use crate::access::Caller;
use crate::bandits::{Bandit, BodyLimit, Listed, Reply};
use crate::error::{Error, Kind};
use crate::jobs::{self, Work};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::{Extension, Json};
use protocol::BanditConfig;
use serde::Deserialize;
use serde_json::{Map, Value};
use service::Content;

/// The limit of a configuration, which has about a dozen numbers.
const CONFIG: BodyLimit = BodyLimit { bytes: 16 << 10, content: Content::Json };

/// The most bandits of a page.
const MOST_LISTED: usize = 1000;

/// A part of the list of bandits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// The most bandits, from 1; all if there is none.
    limit: Option<usize>,
    /// Only bandits whose ids are above this one.
    #[serde(default)]
    after: String,
}

/// Lists the bandits that the token gives access to, by their ids. A token that the server does not know is
/// refused, so that its bearer does not take it for one without bandits.
pub(super) async fn list(
    State(state): State<AppState>,
    query: Result<Query<Page>, QueryRejection>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Error> {
    caller.check_given(&state.0.access)?;
    let Query(Page { limit, after }) = query
        .map_err(|e| Error::BadJson { what: "the query of a request for a list", why: e.body_text() })?;
    if let Some(got) = limit.filter(|limit| !(1..=MOST_LISTED).contains(limit)) {
        return Err(Error::BadParameter {
            why: format!("limit is {got}, it must be from 1 to {MOST_LISTED}"),
        });
    }
    jobs::run(None, move || {
        let bandits = state.0.bandits.loaded().into_iter().filter(|(id, _)| *id > after);
        let may = |id: &str, bandit: &Bandit| caller.check_id(id).and(caller.check(bandit.kind())).is_ok();
        let bandits = bandits.filter(|(id, bandit)| may(id, bandit));
        let mut listed = bandits.filter_map(|(id, bandit)| Some((id, bandit.created()?)));
        let mut page: Vec<(String, Listed)> = listed.by_ref().take(limit.unwrap_or(usize::MAX)).collect();
        let next = match (limit, page.last(), listed.next()) {
            (Some(limit), Some((last, _)), Some(_)) => {
                Some(format!("</v1/bandits?limit={limit}&after={last}>; rel=\"next\""))
            }
            _ => None,
        };
        let page: Vec<Listed> = page.drain(..).map(|(_, bandit)| bandit).collect();
        Ok((next.map(|next| AppendHeaders([(header::LINK, next)])), Json(page)).into_response())
    })
    .await
}

pub(super) async fn show(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let bandit = state.find_for(&id?.0, &caller)?;
    // A commit may hold the lock while it waits for the disk.
    let view = jobs::run(None, move || bandit.view()).await?;
    let (Reply::Json(body) | Reply::Binary(body)) = &view;
    let etag = etag(body);
    Ok(unless_same(&headers, &etag, || view.into_response()))
}

/// Answers 204, and 404 to a repeated request.
pub(super) async fn delete(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
) -> Result<StatusCode, Error> {
    let Path(id) = id?;
    state.find_for(&id, &caller)?;
    jobs::run(None, move || state.0.bandits.delete(&id).map(|()| StatusCode::NO_CONTENT)).await
}

pub(super) async fn create(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Error> {
    let body = state.body(request, CONFIG).await?;
    let (id, created) = match asked_for(&body)? {
        Asked::Policy(request) => {
            caller.check(Kind::Clear)?;
            create_clear(state, request, caller.is_open()).await?
        }
        Asked::Encrypted(config) => {
            state.0.bandits.keys()?;
            caller.check(Kind::Encrypted)?;
            let place = state.0.admission.admit(Work::Short)?;
            jobs::run(Some(place), move || state.0.bandits.create_encrypted(config)).await?
        }
    };
    let location = [(header::LOCATION, format!("/v1/bandits/{id}"))];
    Ok((StatusCode::CREATED, location, Json(created)).into_response())
}

/// Creates a bandit with a clear policy, for everybody if `open`.
async fn create_clear(
    state: AppState,
    request: Map<String, Value>,
    open: bool,
) -> Result<(String, Listed), Error> {
    let (config, asked) = state.0.bandits.policy(request, open)?;
    let work = if config.profile().calibrates { Work::Sizing } else { Work::Short };
    let place = state.0.admission.admit(work)?;
    jobs::run(Some(place), move || state.0.bandits.create_clear(config, asked, open)).await
}

enum Asked {
    Encrypted(BanditConfig),
    Policy(Map<String, Value>),
}

/// Reads a creation request. Without `policy` it asks for HELBA.
fn asked_for(body: &[u8]) -> Result<Asked, Error> {
    let mut names_no_policy = false;
    let config = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(mut object)) if object.contains_key("policy") => {
            if object["policy"] != "helba" {
                return Ok(Asked::Policy(object));
            }
            object.remove("policy");
            serde_json::from_value(Value::Object(object))
        }
        Ok(_) => {
            names_no_policy = true;
            serde_json::from_slice(body)
        }
        Err(error) => Err(error),
    };
    config.map(Asked::Encrypted).map_err(|e| {
        let hint = if names_no_policy { "; for a policy in the clear give `policy`" } else { "" };
        Error::BadConfig { why: format!("{e}{hint}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Settings;
    use serde_json::json;

    fn request(value: Value) -> Map<String, Value> {
        let Value::Object(request) = value else { unreachable!() };
        request
    }

    /// While the noise of one bandit is sized, a second creation that needs sizing is refused for now. All
    /// other creations succeed, and no permit of other requests is taken. Parameters whose noise would take
    /// longer than the limits allow are refused before any sizing.
    #[tokio::test]
    async fn attack_costly_creations_hold_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { max_in_flight: 1, ..Settings::default() };
        let state = AppState::open(None, folder.path(), settings).unwrap();
        let costly = json!({"policy": "shuffle-glm", "arms": 2, "features": 1, "batches": [9], "epsilon": 4,
            "delta": 0.01, "gamma": 1, "steps": 2});
        let make = |value: &Value| create_clear(state.clone(), request(value.clone()), true);
        let sizing = state.0.admission.admit(Work::Sizing).unwrap();
        assert!(matches!(make(&costly).await, Err(Error::SizingNoise)));
        assert!(make(&json!({"policy": "ucb1", "arms": 2})).await.is_ok());
        drop(sizing);
        let place = state.0.admission.admit(Work::Short).unwrap();
        assert!(make(&costly).await.is_ok(), "needs no place");
        assert!(matches!(make(&json!({"policy": "ucb1", "arms": 2})).await, Err(Error::Overloaded)));
        drop(place);
        let mut most = costly.clone();
        (most["batches"], most["steps"]) = (vec![125_000; 8].into(), 1000.into());
        let refused = make(&most).await.unwrap_err().to_string();
        assert!(refused.contains("steps times batches is 8000"), "{refused}");
        assert_eq!(state.bandits(), 2);
    }
}
