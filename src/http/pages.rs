//! `GET /` says what this server is, `GET /v1/docs` is a page to read its description and to send requests,
//! and `GET /dashboard` one to watch it. The pages load nothing from elsewhere, and run no script but their
//! own.

use crate::error::Error;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use axum::{Json, http::response::Parts};
use host::os_rng;
use rand::Rng;
use serde::Serialize;

const DOCS: &str = include_str!("docs.html");
const DASHBOARD: &str = include_str!("dashboard.html");
const ROOT: &str = include_str!("root.html");
/// Where the nonce and the version stand in the pages.
const NONCE: &str = "{{nonce}}";
const VERSION: &str = "{{version}}";

#[derive(Serialize)]
struct Root {
    name: &'static str,
    about: &'static str,
    version: &'static str,
    health: &'static str,
    openapi: &'static str,
    docs: &'static str,
    dashboard: &'static str,
}

/// JSON, or a page for a client whose `Accept` names HTML.
pub(super) async fn root(headers: HeaderMap) -> Result<Response, Error> {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accept.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next());
    let mut response = if types.any(|kind| kind.trim().eq_ignore_ascii_case("text/html")) {
        page(ROOT)?
    } else {
        Json(Root {
            name: "helba-server",
            about: "Contextual bandits on encrypted contexts and rewards, and bandits with policies in the clear",
            version: env!("CARGO_PKG_VERSION"),
            health: "/v1/health",
            openapi: "/v1/openapi.json",
            docs: "/v1/docs",
            dashboard: "/dashboard",
        })
        .into_response()
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

pub(super) async fn dashboard() -> Result<Response, Error> {
    page(DASHBOARD)
}

pub(super) async fn docs() -> Result<Response, Error> {
    page(DOCS)
}

/// The page with a policy under which a browser runs its script and nothing that found a way into it.
fn page(template: &str) -> Result<Response, Error> {
    let mut nonce = [0; 16];
    os_rng()?.fill_bytes(&mut nonce);
    let nonce = ckks::Hex(&nonce).to_string();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    );
    let policy = HeaderValue::try_from(policy).map_err(|_| Error::Broken("a policy that is no header"))?;
    let html = template.replace(NONCE, &nonce).replace(VERSION, env!("CARGO_PKG_VERSION"));
    let (Parts { mut headers, .. }, body) = Html(html).into_response().into_parts();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    let fixed = [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    Ok((headers, body).into_response())
}
