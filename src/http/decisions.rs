//! `POST /v1/bandits/{id}/decisions`: makes a decision.

use super::AppState;
use super::bandits::idempotency_key;
use crate::access::Caller;
use crate::bandits::{Asker, Bandit, Reply, Sender};
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
    let find = || {
        let Path(id) = id?;
        let (bandit, headers) = (state.find_for(&id, &caller)?, request.headers());
        let sender = Sender { tag: sender_tag(headers, &caller)?, site: site(&request) };
        let decisions = decisions(headers)?;
        if decisions != 1 && !matches!(bandit, Bandit::Encrypted(_)) {
            let most = protocol::Error::DecisionCount { got: decisions, most: 1 };
            return Err(helba::Error::from(most).into());
        }
        let key = idempotency_key(headers)?;
        if key.is_some() && !matches!(bandit, Bandit::Clear(_)) {
            let why = "Idempotency-Key: decisions of encrypted bandits take none; ask again without it";
            return Err(Error::BadParameter { why: why.into() });
        }
        let asker = match &bandit {
            Bandit::Encrypted(bandit) => bandit.asker(&caller)?,
            _ => Asker::default(),
        };
        Ok((bandit, (sender, asker), decisions, key))
    };
    let found = find();
    let ((bandit, (sender, asker), decisions, key), request) = super::found(request, found).await?;
    let body = state.body(request, bandit.decision_body()).await?;
    match bandit {
        // It waits for others, and holds no place of those who compute.
        Bandit::Encrypted(bandit) => bandit.decide(body, decisions, sender, asker).await,
        Bandit::Paper(bandit) => bandit.decide(body).await,
        Bandit::Committee(bandit) => bandit.decide(body.to_vec()).await,
        Bandit::Clear(bandit) => {
            let (place, began) = (state.0.admission.admit(Work::Short)?, Instant::now());
            let decide = move || bandit.decide(body, (&caller.identity(), sender.site), key.as_deref());
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

/// The tag of the sender of a request, if it has one. A user with a key of its own has one tag, whatever it
/// says.
pub(super) fn sender_tag(headers: &HeaderMap, caller: &Caller) -> Result<Option<SenderTag>, Error> {
    if let Some(tag) = caller.user_tag() {
        return Ok(Some(tag));
    }
    let Some(value) = headers.get(SENDER_HEADER) else { return Ok(None) };
    Ok(Some(value.to_str().unwrap_or_default().parse::<SenderTag>()?))
}
