//! `POST /v1/bandits/{id}/decisions`: makes a decision.

use super::bandits::idempotency_key;
use super::{AppState, refuse};
use crate::access::Caller;
use crate::bandits::{Bandit, Reply, Sender};
use crate::error::Error;
use crate::jobs::{self, Work};
use crate::metrics::Step;
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use service::Peer;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;
use wire::{DECISIONS_HEADER, SENDER_HEADER, SenderTag};

pub(super) async fn decide(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Reply, Error> {
    let found = id.map_err(Error::from).and_then(|Path(id)| state.find_for(&id, &caller));
    let bandit = match found {
        Ok(bandit) => bandit,
        Err(error) => return Err(refuse(request, error).await),
    };
    let site = site(&request);
    let sender = match sender_tag(request.headers()) {
        Ok(tag) => Sender { tag, site },
        Err(error) => return Err(refuse(request, error).await),
    };
    let decisions = match decisions(request.headers()) {
        Ok(got) if got != 1 && !matches!(bandit, Bandit::Encrypted(_)) => {
            let error = helba::Error::from(protocol::Error::DecisionCount { got, most: 1 });
            return Err(refuse(request, error.into()).await);
        }
        Ok(decisions) => decisions,
        Err(error) => return Err(refuse(request, error).await),
    };
    let key = match idempotency_key(request.headers()) {
        Ok(Some(_)) if !matches!(bandit, Bandit::Clear(_)) => {
            let why = "Idempotency-Key: decisions of encrypted bandits take none; ask again without it";
            return Err(refuse(request, Error::BadParameter { why: why.into() }).await);
        }
        Ok(key) => key,
        Err(error) => return Err(refuse(request, error).await),
    };
    let body = state.body(request, bandit.decision_body()).await?;
    match bandit {
        // It waits for others, and holds no place of those who compute.
        Bandit::Encrypted(bandit) => {
            let raises = caller.check_raises_all().is_ok();
            bandit.decide(body, decisions, sender, raises).await
        }
        Bandit::Paper(bandit) => bandit.decide(body).await,
        Bandit::Committee(bandit) => bandit.decide(body.to_vec()).await,
        Bandit::Clear(bandit) => {
            let (place, began) = (state.0.admission.admit(Work::Short)?, Instant::now());
            let decide = move || bandit.decide(body, (&caller.identity(), site), key.as_deref());
            let reply = jobs::run(Some(place), decide).await?;
            state.0.metrics.took(Step::ClearDecision, began.elapsed());
            Ok(reply)
        }
    }
}

/// The site that a request comes from.
pub(super) fn site(request: &Request) -> IpAddr {
    request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0)
}

/// The number of decisions of a request, 1 unless it says another.
fn decisions(headers: &HeaderMap) -> Result<usize, Error> {
    let Some(value) = headers.get(DECISIONS_HEADER) else { return Ok(1) };
    let number = value.to_str().unwrap_or_default().parse::<usize>();
    Ok(number
        .map_err(|_| wire::Error::Malformed("the header helba-decisions is not a number of decisions"))?)
}

/// The tag of the sender of a request, if it has one.
pub(super) fn sender_tag(headers: &HeaderMap) -> Result<Option<SenderTag>, Error> {
    let Some(value) = headers.get(SENDER_HEADER) else { return Ok(None) };
    Ok(Some(value.to_str().unwrap_or_default().parse::<SenderTag>()?))
}
