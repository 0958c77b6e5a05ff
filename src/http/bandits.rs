//! `/v1/bandits`: bandits of either kind are created, listed, shown, labelled and deleted.

use super::{AppState, etag, unless_same};
use crate::access::Caller;
use crate::bandits::{Answered, Bandit, Beside, BodyLimit, Found, Repeatable, Reply};
use crate::committee::Asked;
use crate::error::{Error, Kind};
use crate::jobs::{self, Work};
use axum::Extension;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use protocol::BanditConfig;
use protocol::paper::LinearConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use service::Content;
use std::sync::Arc;
use wire::{IDEMPOTENCY_HEADER, Labelled, Labels, LabelsPatch};

/// The limit of a configuration, which has about a dozen numbers, and of labels.
pub(super) const CONFIG: BodyLimit = BodyLimit { bytes: 16 << 10, content: Content::Json };

/// The longest `Idempotency-Key`.
const MOST_KEY: usize = 255;

/// The most bandits of a page, and the most bytes of them, but for one that is longer.
const MOST_LISTED: usize = 1000;
const PAGE_BYTES: usize = 1 << 20;

/// A part of the list of bandits.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// The most bandits, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    /// Only bandits whose ids are above this one.
    #[serde(default)]
    after: String,
    /// Only bandits with this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Only bandits with this tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

impl Page {
    fn has(&self, labels: &Labels) -> bool {
        (self.name.is_none() || labels.name == self.name)
            && self.tag.as_ref().is_none_or(|tag| labels.tags.contains(tag))
    }

    /// The header of the page behind the bandit `last`.
    fn next(&self, last: String) -> Result<String, Error> {
        let Page { limit, name, tag, .. } = self;
        let next = Page { limit: *limit, after: last, name: name.clone(), tag: tag.clone() };
        let query = serde_urlencoded::to_string(next);
        let query = query.map_err(|_| Error::Broken("a query that cannot be written"))?;
        Ok(format!("</v1/bandits?{query}>; rel=\"next\""))
    }
}

/// Checks the id behind which a page begins. Other text would give a page that looks complete.
pub(super) fn check_after(what: &'static str, after: &str) -> Result<(), Error> {
    let known = after.is_empty() || wire::is_id(after);
    let why = || "after must be the id of a bandit, 1 to 64 letters, digits, '-' or '_'".into();
    known.then_some(()).ok_or_else(|| Error::BadJson { what, why: why() })
}

/// Lists the bandits that the token gives access to, by their ids. A token that the server does not know is
/// refused, so that its bearer does not take it for one without bandits.
pub(super) async fn list(
    State(state): State<AppState>,
    query: Result<Query<Page>, QueryRejection>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Error> {
    caller.check_given(&state.0.access)?;
    let what = "the query of a request for a list";
    let Query(page) = query.map_err(|e| Error::BadJson { what, why: e.body_text() })?;
    check_after(what, &page.after)?;
    if let Some(got) = page.limit.filter(|limit| !(1..=MOST_LISTED).contains(limit)) {
        return Err(Error::BadParameter {
            why: format!("limit is {got}, it must be from 1 to {MOST_LISTED}"),
        });
    }
    jobs::run(None, move || {
        let may = |id: &str, bandit: &Bandit| caller.check_id(id).and(caller.check(bandit.kind())).is_ok();
        let found = state.0.bandits.loaded().into_iter();
        let found = found
            .filter(|Found { id, bandit, labels }| *id > page.after && page.has(labels) && may(id, bandit));
        let labelled = |Found { id, bandit, labels }: Found| {
            Some((id, Labelled { labels: Labels::clone(&labels), of: bandit.created()? }))
        };
        let mut body = b"[".to_vec();
        let (mut listed, mut last, mut next) = (0, String::new(), None);
        for (id, bandit) in found.filter_map(labelled) {
            let bandit =
                serde_json::to_vec(&bandit).map_err(|_| Error::Broken("a bandit that cannot be written"))?;
            let full = listed == page.limit.unwrap_or(MOST_LISTED) || body.len() + bandit.len() > PAGE_BYTES;
            if full && listed > 0 {
                next = Some(page.next(last)?);
                break;
            }
            if listed > 0 {
                body.push(b',');
            }
            body.extend(bandit);
            (listed, last) = (listed + 1, id);
        }
        body.push(b']');
        let json = [(header::CONTENT_TYPE, "application/json")];
        Ok((next.map(|next| AppendHeaders([(header::LINK, next)])), json, body).into_response())
    })
    .await
}

pub(super) async fn show(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let Path(id) = id?;
    let bandit = state.find_for(&id, &caller)?;
    let labels = state.0.bandits.labels(&id);
    let (view, etag) = view(bandit, labels).await?;
    Ok(unless_same(&headers, &etag, || view.into_response()))
}

/// The state of a bandit, and its `ETag`: a digest of the state, and behind a hyphen one of the labels.
async fn view(bandit: Bandit, labels: Arc<Labels>) -> Result<(Reply, String), Error> {
    // A commit may hold the lock while it waits for the disk.
    jobs::run(None, move || {
        let view = bandit.view(&labels)?;
        let (Reply::Json(body) | Reply::Binary(body)) = &view;
        let etag = format!("{}-{}\"", etag(body).trim_end_matches('"'), labels_tag(&labels));
        Ok((view, etag))
    })
    .await
}

/// The part of the `ETag` that labels determine. Decisions change the other part all the time, and would
/// fail every change of the labels of a bandit that is used.
fn labels_tag(labels: &Labels) -> String {
    let written = serde_json::to_vec(labels).unwrap_or_default();
    blake3::hash(&written).to_hex()[..16].to_string()
}

/// Whether `If-Match` permits to change these labels. A request without it changes any.
fn matches(headers: &HeaderMap, labels: &Labels) -> bool {
    let mut named = headers.get_all(header::IF_MATCH).iter().peekable();
    let tag = labels_tag(labels);
    let behind = |etag: &str| etag.trim_end_matches('"').rsplit_once('-').is_some_and(|(_, of)| of == tag);
    named.peek().is_none()
        || named
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(',').map(str::trim))
            .any(|etag| etag == "*" || behind(etag))
}

/// Changes name and tags, and answers with the state.
pub(super) async fn relabel(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Error> {
    let found = id.map_err(Error::from).and_then(|Path(id)| state.find_for(&id, &caller).map(|_| id));
    let (id, request) = super::found(request, found).await?;
    let headers = request.headers().clone();
    let body = state.body(request, CONFIG).await?;
    // By way of an object: an array of the fields would be read too.
    let patch = serde_json::from_slice(&body).map(Value::Object).and_then(serde_json::from_value);
    let patch: LabelsPatch =
        patch.map_err(|e| Error::BadJson { what: "a change of name and tags", why: e.to_string() })?;
    let (bandit, labels) = jobs::run(None, move || {
        state.0.bandits.relabel(&id, |labels| match matches(&headers, labels) {
            true => Ok(labels.patched(patch)),
            false => Err(Error::Changed),
        })
    })
    .await?;
    let (view, etag) = view(bandit, labels).await?;
    Ok(unless_same(&HeaderMap::new(), &etag, || view.into_response()))
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
    let key = idempotency_key(request.headers());
    let (key, request) = super::found(request, key).await?;
    let body = state.body(request, CONFIG).await?;
    let (labels, asked) = asked_for(&body, state.0.bandits.has_committee_alone())?;
    match &asked {
        Creation::Policy(_) => caller.check(Kind::Clear)?,
        Creation::Committee(_) => {
            state.0.bandits.committee()?;
            caller.check(Kind::Committee)?;
        }
        Creation::Encrypted(_) => {
            state.0.bandits.keys()?;
            caller.check(Kind::Encrypted)?;
        }
        Creation::Paper(_) => {
            state.0.bandits.paper_manifest()?;
            caller.check(Kind::Encrypted)?;
        }
    }
    let repeatable = key.map(|key| Repeatable::new(&caller.identity(), &key, &body));
    let repeated = repeatable.and_then(|asked| state.0.bandits.repeated(&asked).transpose()).transpose()?;
    let beside = Beside { labels, repeatable };
    let Answered { id, body } = match (repeated, asked) {
        (Some(answered), _) => answered,
        (None, Creation::Policy(request)) => create_clear(state, request, caller.is_open(), beside).await?,
        (None, Creation::Committee(request)) => {
            let asked = of_committee(request)?;
            let place = state.0.admission.admit(Work::Short)?;
            jobs::run(Some(place), move || state.0.bandits.create_of_committee(asked, &beside)).await?
        }
        (None, Creation::Paper(request)) => {
            let config = of_paper(request)?;
            let place = state.0.admission.admit(Work::Short)?;
            jobs::run(Some(place), move || state.0.bandits.create_paper(config, &beside)).await?
        }
        (None, Creation::Encrypted(request)) => {
            let config = encrypted(request)?;
            let place = state.0.admission.admit(Work::Short)?;
            jobs::run(Some(place), move || state.0.bandits.create_encrypted(config, &beside)).await?
        }
    };
    let location = [(header::LOCATION, format!("/v1/bandits/{id}"))];
    Ok((StatusCode::CREATED, location, Reply::Json(body.into_bytes())).into_response())
}

/// The key under which a creation or a decision may be repeated, if the request has one.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let mut given = headers.get_all(IDEMPOTENCY_HEADER).iter();
    let Some(key) = given.next() else { return Ok(None) };
    let key = key
        .to_str()
        .ok()
        .filter(|key| (1..=MOST_KEY).contains(&key.len()) && key.bytes().all(|c| c.is_ascii_graphic()));
    match (key, given.next()) {
        (Some(key), None) => Ok(Some(key.into())),
        _ => Err(Error::BadParameter {
            why: format!("Idempotency-Key must be one text of 1 to {MOST_KEY} visible ASCII characters"),
        }),
    }
}

/// Creates a bandit with a clear policy, for everybody if `open`.
async fn create_clear(
    state: AppState,
    request: Map<String, Value>,
    open: bool,
    beside: Beside,
) -> Result<Answered, Error> {
    let (config, asked) = state.0.bandits.policy(request, open)?;
    let work = if config.profile().calibrates { Work::Sizing } else { Work::Short };
    let place = state.0.admission.admit(work)?;
    jobs::run(Some(place), move || state.0.bandits.create_clear(config, asked, open, &beside)).await
}

enum Creation {
    /// A request for HELBA, which [`encrypted`] reads: a server without keys says so whatever it holds.
    Encrypted(Map<String, Value>),
    /// A request for HELBA by the paper's method.
    Paper(Map<String, Value>),
    /// A request for HELBA of the committee.
    Committee(Map<String, Value>),
    Policy(Map<String, Value>),
}

/// Splits a creation request into its labels and its configuration. Without `policy` it asks for HELBA: of
/// the committee with `"keys": "committee"`, or if the server has no other keys (`committee_alone`), and by
/// the paper's method with `"method": "paper"`.
fn asked_for(body: &[u8], committee_alone: bool) -> Result<(Labels, Creation), Error> {
    let bad = |e: serde_json::Error| Error::BadConfig { why: e.to_string() };
    let mut object: Map<String, Value> = serde_json::from_slice(body).map_err(bad)?;
    let labels = labels(&mut object)?;
    let of_committee = match object.remove("keys") {
        Some(keys) if keys == "committee" => true,
        Some(keys) if keys == "holder" => false,
        Some(_) => {
            let why = "keys must be `holder`, who has the secret bundle, or `committee`";
            return Err(Error::BadParameter { why: why.into() });
        }
        None => committee_alone,
    };
    let of_paper = match object.remove("method") {
        Some(method) if method == "paper" => true,
        Some(method) if method == "default" => false,
        Some(_) => {
            let why = "method must be `default`, or `paper` for the circuits of the paper";
            return Err(Error::BadParameter { why: why.into() });
        }
        None => false,
    };
    let creation = match object.get("policy") {
        _ if of_paper => Creation::Paper(object),
        None if of_committee => Creation::Committee(object),
        Some(policy) if policy != "helba" => Creation::Policy(object),
        _ => Creation::Encrypted(object),
    };
    Ok((labels, creation))
}

/// Reads the configuration of an encrypted bandit.
pub(super) fn encrypted(mut request: Map<String, Value>) -> Result<BanditConfig, Error> {
    let named = request.remove("policy").is_some();
    let short = ["features", "arms"].iter().all(|name| request.contains_key(*name));
    serde_path_to_error::deserialize(Value::Object(request)).map_err(|e| {
        let hint = match (named, short) {
            (true, _) => "",
            (false, true) => {
                "; the short form with `features` and `arms` is the agent's and the Python package's"
            }
            (false, false) => "; for a policy in the clear give `policy`",
        };
        Error::BadConfig { why: format!("{e}{hint}") }
    })
}

/// Reads the configuration of a bandit of the paper's method.
fn of_paper(request: Map<String, Value>) -> Result<LinearConfig, Error> {
    /// What the request has beside the method.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct AskedPaper {
        linear: LinearConfig,
    }
    let asked: AskedPaper = serde_path_to_error::deserialize(Value::Object(request))
        .map_err(|e| Error::BadConfig { why: format!("{e}; `method: paper` takes `linear` alone") })?;
    Ok(asked.linear)
}

/// Reads the configuration of a bandit of a committee.
fn of_committee(request: Map<String, Value>) -> Result<Asked, Error> {
    let another = "it takes the reward of the arm that it decided for: play that one, and have a round of another one \
                   learnt with `helba-client committee learn`";
    if let Some(what) = ["epsilon", "baseline"].into_iter().find(|name| request.contains_key(*name)) {
        return Err(Error::BadConfig {
            why: format!("{what}: a bandit of a committee has none, since {another}"),
        });
    }
    serde_path_to_error::deserialize(Value::Object(request))
        .map_err(|e| Error::BadConfig { why: e.to_string() })
}

/// Takes name and tags out of a creation request.
pub(super) fn labels(request: &mut Map<String, Value>) -> Result<Labels, Error> {
    let given =
        ["name", "tags"].into_iter().filter_map(|name| Some((name.to_string(), request.remove(name)?)));
    let patch = serde_json::from_value::<LabelsPatch>(Value::Object(given.collect()));
    let patch = patch.map_err(|e| Error::BadParameter { why: format!("name and tags: {e}") })?;
    let labels = Labels::default().patched(patch);
    labels.check().map_err(|why| Error::BadParameter { why })?;
    Ok(labels)
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

    /// What a committee does not do is refused by name, and a creation without it is read.
    #[test]
    fn what_a_committee_does_not_do_is_refused_by_name() {
        let linear = serde_json::to_value(bandit::LinearConfig::figure_1()).unwrap();
        let asked = json!({"linear": linear, "sessions": 1});
        assert!(of_committee(request(asked.clone())).is_ok());
        for name in ["epsilon", "baseline"] {
            let mut with = asked.clone();
            with[name] = json!(0.1);
            let refused = of_committee(request(with)).unwrap_err().to_string();
            assert!(refused.contains(&format!("{name}: a bandit of a committee has none")), "{refused}");
            assert!(refused.contains("committee learn"), "{refused}");
        }
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
        let make =
            |value: &Value| create_clear(state.clone(), request(value.clone()), true, Beside::default());
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
