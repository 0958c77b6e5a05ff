//! The board on which members leave messages while they draw keys. It takes one message of each member and
//! round, signed by its member, and holds no secret.

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use host::lock;
use serde::Deserialize;
use service::{Bodies, Content, Pace};
use shares::Proposal;
use shares::talk::{POLL, SignedPoll, from_bytes, polled};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// The most bytes of a message: a contribution at 4 of 10 has 30,000.
pub(super) const MOST_BYTES: usize = 1 << 17;
/// The rounds of a key generation.
pub(super) const ROUNDS: u8 = 3;
/// The most seconds for which a request for a message waits.
const MOST_WAIT: u64 = 20;

/// The messages of one key generation.
pub struct Board {
    proposal: Proposal,
    messages: Mutex<BTreeMap<(u8, u8), Vec<u8>>>,
    changed: watch::Sender<()>,
}

impl Board {
    /// The board of a proposal, without messages.
    pub fn new(proposal: Proposal) -> Self {
        Board { proposal, messages: Mutex::default(), changed: watch::Sender::new(()) }
    }

    /// Takes a message. The same one may come again.
    fn post(&self, round: u8, member: u8, body: &[u8]) -> Result<(), (StatusCode, String)> {
        let bad = |why: &str| (StatusCode::BAD_REQUEST, why.to_string());
        let SignedPoll { poll, signature } = from_bytes(body).map_err(|error| bad(&error.to_string()))?;
        let card = usize::from(member).checked_sub(1).and_then(|at| self.proposal.cards.get(at));
        let card = card.filter(|_| (1..=ROUNDS).contains(&round));
        let card = card.ok_or_else(|| bad("the proposal has no such member, or the run no such round"))?;
        let signed = polled(&self.proposal.id(), member, &[&[round], &poll[..]].concat());
        envelope::verify(&card.signing, POLL, &signed, &signature)
            .map_err(|_| bad("the message is not signed by its member"))?;
        let mut messages = lock(&self.messages);
        match messages.get(&(round, member)) {
            Some(known) if *known == poll => Ok(()),
            Some(_) => {
                Err((StatusCode::CONFLICT, "the member has left another message in this round".into()))
            }
            None => {
                messages.insert((round, member), poll);
                self.changed.send_replace(());
                Ok(())
            }
        }
    }

    async fn message(&self, round: u8, member: u8, wait: Duration) -> Option<Vec<u8>> {
        let (mut changed, until) = (self.changed.subscribe(), tokio::time::Instant::now() + wait);
        loop {
            if let Some(message) = lock(&self.messages).get(&(round, member)) {
                return Some(message.clone());
            }
            if tokio::time::timeout_at(until, changed.changed()).await.is_err() {
                return None;
            }
        }
    }
}

#[derive(Deserialize)]
struct Wait {
    wait: Option<u64>,
}

/// The routes of a board.
///
/// | request | body | answer |
/// |---|---|---|
/// | `POST /v1/messages/{round}/{member}` | `SignedPoll` | |
/// | `GET /v1/messages/{round}/{member}?wait=SECONDS` | | the message, or 404 |
pub fn routes(board: Arc<Board>) -> Router {
    type Shared = State<(Arc<Board>, Bodies)>;

    async fn submit(
        State((board, bodies)): Shared,
        Path((round, member)): Path<(u8, u8)>,
        request: Request,
    ) -> Result<(), (StatusCode, String)> {
        let read = bodies.read(request, MOST_BYTES, Some(Content::Binary)).await;
        let body = read.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        board.post(round, member, &body)
    }
    async fn message(
        State((board, _)): Shared,
        Path((round, member)): Path<(u8, u8)>,
        Query(Wait { wait }): Query<Wait>,
    ) -> Result<Vec<u8>, StatusCode> {
        let wait = Duration::from_secs(wait.unwrap_or(0).min(MOST_WAIT));
        board.message(round, member, wait).await.ok_or(StatusCode::NOT_FOUND)
    }
    let bodies = Bodies::within(16 << 20, Pace::default());
    Router::new()
        .route("/v1/messages/{round}/{member}", post(submit))
        .route("/v1/messages/{round}/{member}", get(message))
        .with_state((board, bodies))
}
