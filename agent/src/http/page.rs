//! `GET /`: a page that shows how the bandits do. It has no number itself: its script asks for them with the
//! token that its reader gives, loads nothing from elsewhere, and sends the token to this agent only.

use super::Refusal;
use crate::agent::Agent;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use protocol::DecisionId;
use rand::Rng;

const PAGE: &str = include_str!("page.html");
/// Where the nonce stands in the page.
const NONCE: &str = "{{nonce}}";

/// The page with a policy under which a browser runs its script and nothing that found a way into it.
pub(super) async fn root(State(agent): State<Agent>) -> Result<Response, Refusal> {
    let mut nonce = [0; 16];
    agent.0.fork_rng().fill_bytes(&mut nonce);
    let nonce = DecisionId(nonce).to_string();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    );
    let mut response = Html(PAGE.replace(NONCE, &nonce)).into_response();
    let broken = |_| crate::Error::Broken("a policy that is no header");
    let policy = HeaderValue::try_from(policy).map_err(broken)?;
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    let fixed = [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    response.headers_mut().extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    Ok(response)
}
