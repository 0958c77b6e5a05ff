//! Carries what a member and its server say to each other, with lies.

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path};
use axum::http::StatusCode;
use axum::routing::post;
use committee::MemberKeys;
use helba_member::Identity;
use shares::talk::{FromMember, POLL, Poll, SignedPoll, from_bytes, polled, to_bytes};
use shares::{Field, Message};
use std::sync::Arc;
use user_client::Client;

/// The most bytes that a member is told at a time.
const MOST_TOLD: usize = 96 << 20;
/// The seconds for which the server lets a member wait, and some more.
const WAIT: u64 = 40;

/// The secrets of a member that lies.
pub(crate) struct Liar {
    pub(crate) identity: Identity,
    pub(crate) keys: MemberKeys,
    pub(crate) committee: [u8; 32],
}

impl Liar {
    /// A request of the member in which each number that it shows online is one more than it is, under right
    /// MACs. What it shows while slots are prepared stays: it comes before any number was opened.
    fn lie(&self, body: &[u8]) -> Result<Vec<u8>> {
        let SignedPoll { poll, .. } = from_bytes(body)?;
        let mut poll: Poll = from_bytes(&poll)?;
        for said in &mut poll.said {
            if let FromMember::Say { run, step, body } = said
                && let Ok(Message { seen, numbers, .. }) = Message::from_bytes(body)
                && seen != [0; 32]
            {
                let numbers = numbers.into_iter().map(|number| number + Field::ONE).collect();
                *body = self.keys.message(*run, *step, seen, numbers).to_bytes();
            }
        }
        let poll = to_bytes(&poll)?;
        let signed = polled(&self.committee, self.keys.member(), &poll);
        let signature = self.identity.signing.sign(POLL, &signed).to_vec();
        Ok(to_bytes(&SignedPoll { poll, signature })?)
    }
}

/// Relays to a server in a thread of its own, with the lies of `liar`. Returns the address for the member.
pub(crate) fn relay(server: Client, liar: Liar) -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    listener.set_nonblocking(true)?;
    let liar = Arc::new(liar);
    let carry = move |Path(member): Path<u8>, body: Bytes| async move {
        let exchange = move || -> Result<Vec<u8>> {
            let body = liar.lie(&body)?;
            Ok(server.exchange(&format!("committee/members/{member}/rounds"), &body, MOST_TOLD, WAIT)?)
        };
        let told = tokio::task::spawn_blocking(exchange).await;
        told.ok().and_then(Result::ok).ok_or(StatusCode::BAD_GATEWAY)
    };
    let routes = Router::new()
        .route("/v1/committee/members/{member}/rounds", post(carry))
        .layer(DefaultBodyLimit::disable());
    let runtime = tokio::runtime::Runtime::new()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            service::serve(listener, routes, service::Connections::default(), std::future::pending()).await;
            Ok::<_, std::io::Error>(())
        })
    });
    Ok(address)
}
