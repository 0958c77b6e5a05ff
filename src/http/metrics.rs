//! `GET /v1/metrics` and `GET /metrics`: what the server measures of itself, as JSON and as text for
//! Prometheus. Neither has more than the server sees: counters, sizes and times.

use super::AppState;
use super::bandits::check_after;
use crate::access::Caller;
use crate::bandits::{Awaited, Bandits, Found, Measured};
use crate::committee::MembersPresent;
use crate::error::Error;
use crate::jobs::{self, Work};
use crate::metrics::{BOUNDS, Memory, Metrics, StepTimes, Traffic, bounds};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use service::CertificateEnd;
use std::fmt::Write;
use wire::{Labelled, Labels};

/// The most bandits of an answer.
const MOST_LISTED: usize = 1000;
/// Those of an answer to a request that names no number.
const LISTED: usize = 100;
/// The format of text for Prometheus.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A part of the bandits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    limit: Option<usize>,
    /// Only bandits whose ids are above this one.
    #[serde(default)]
    after: String,
}

/// The answer as JSON.
#[derive(Serialize)]
struct Seen {
    version: &'static str,
    kernel: String,
    threads: usize,
    uptime_seconds: f64,
    /// Whether tokens are on.
    tokens: bool,
    memory: Option<Memory>,
    keys: Option<KeysSeen>,
    /// When the certificate of the server ends, in seconds since 1970.
    certificate_ends: Option<i64>,
    /// The members of the committee, if there is one.
    committee: Option<MembersPresent>,
    /// Upper ends of the intervals of times, in seconds.
    bounds: [f64; BOUNDS.len()],
    steps: Vec<StepTimes>,
    traffic: Traffic,
    /// Requests about encrypted decisions and feedback that wait.
    requests_waiting: usize,
    /// Encrypted decisions that were asked for again: a device saw an answer outside its range.
    asked_again: u64,
    /// All bandits of the server, and those of them whose keys are not loaded.
    bandits: usize,
    keys_missing: usize,
    /// Bandits that the token gives access to, by their ids.
    listed: Vec<Labelled<Measured>>,
    /// The last id of `listed`, if there are more.
    next: Option<String>,
}

#[derive(Serialize)]
struct KeysSeen {
    key_id: String,
    parameters: String,
    security_bits: u32,
    top_level: usize,
}

pub(super) async fn show(
    State(state): State<AppState>,
    query: Result<Query<Part>, QueryRejection>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Error> {
    let what = "the query of a request for metrics";
    let Query(Part { limit, after }) = query.map_err(|e| Error::BadJson { what, why: e.body_text() })?;
    check_after(what, &after)?;
    let limit = limit.unwrap_or(LISTED);
    if !(1..=MOST_LISTED).contains(&limit) {
        let why = format!("limit is {limit}, it must be from 1 to {MOST_LISTED}");
        return Err(Error::BadParameter { why });
    }
    let seen = seen(state, caller, limit, after).await?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(seen)).into_response())
}

/// The same as text, of the first bandits.
pub(super) async fn prometheus(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Error> {
    let text = text(&seen(state, caller, MOST_LISTED, String::new()).await?);
    Ok(([(header::CONTENT_TYPE, PROMETHEUS), (header::CACHE_CONTROL, "no-store")], text).into_response())
}

async fn seen(state: AppState, caller: Caller, limit: usize, after: String) -> Result<Seen, Error> {
    let place = state.0.admission.admit(Work::Metrics)?;
    jobs::run(Some(place), move || {
        let bandits = &state.0.bandits;
        let (listed, next) = listed(bandits, &caller, limit, &after)?;
        let keys = bandits.keys().ok().map(|keys| KeysSeen {
            key_id: keys.manifest.ring.key_id.clone(),
            parameters: keys.manifest.ring.params.clone(),
            security_bits: keys.manifest.ring.security_bits,
            top_level: keys.engine.params().max_level(),
        });
        let committee = bandits.committee().ok().map(|committees| committees.serving().presence());
        let (all, keys_missing) = bandits.count();
        let metrics: &Metrics = &state.0.metrics;
        Ok(Seen {
            version: env!("CARGO_PKG_VERSION"),
            kernel: state.0.kernel.clone(),
            threads: rayon::current_num_threads(),
            uptime_seconds: metrics.uptime().as_secs_f64(),
            tokens: state.has_tokens(),
            memory: Memory::now(),
            keys,
            certificate_ends: state.0.certificate.get().map(CertificateEnd::seconds),
            committee,
            bounds: bounds(),
            steps: metrics.steps(),
            traffic: metrics.traffic(),
            requests_waiting: state.0.stages.requests_waiting(),
            asked_again: metrics.all_asked_again(),
            bandits: all,
            keys_missing,
            listed,
            next,
        })
    })
    .await
}

/// At most `limit` bandits above the id `after`, and the last id if there are more.
fn listed(
    bandits: &Bandits,
    caller: &Caller,
    limit: usize,
    after: &str,
) -> Result<(Vec<Labelled<Measured>>, Option<String>), Error> {
    let found = bandits.loaded().into_iter();
    let mut found = found.filter(|Found { id, bandit, .. }| {
        id.as_str() > after && caller.check_id(id).and(caller.check(bandit.kind())).is_ok()
    });
    let (mut listed, mut last) = (Vec::new(), None);
    for Found { id, bandit, labels } in found.by_ref().take(limit) {
        last = Some(id);
        let of = bandit.measured()?;
        listed.extend(of.map(|of| Labelled { labels: Labels::clone(&labels), of }));
    }
    let next = last.filter(|_| found.next().is_some());
    Ok((listed, next))
}

/// The text format of Prometheus, version 0.0.4. Ids, steps and versions need no escapes in it; names and
/// tags, which people choose, are left out.
fn text(seen: &Seen) -> String {
    let mut out = Text::default();
    out.one("helba_up_seconds", "gauge", "Seconds since the start.", seen.uptime_seconds);
    if let Some(memory) = seen.memory {
        out.one("helba_memory_resident_bytes", "gauge", "Resident memory.", memory.resident_bytes as f64);
    }
    if let Some(ends) = seen.certificate_ends {
        let about = "When the certificate ends, in seconds since 1970.";
        out.one("helba_certificate_end_seconds", "gauge", about, ends as f64);
    }
    let Traffic { received_bytes, sent_bytes, answers } = &seen.traffic;
    out.one("helba_received_bytes_total", "counter", "Bytes of bodies read.", *received_bytes as f64);
    out.one("helba_sent_bytes_total", "counter", "Bytes of bodies sent.", *sent_bytes as f64);
    out.head("helba_answers_total", "counter", "Answers by the class of their status.");
    for (class, count) in ["2xx", "3xx", "4xx", "5xx"].iter().zip(answers) {
        out.line(&format!("helba_answers_total{{status=\"{class}\"}}"), *count as f64);
    }
    let waiting = "Requests about encrypted decisions and feedback that wait.";
    out.one("helba_requests_waiting", "gauge", waiting, seen.requests_waiting as f64);
    let again = "Encrypted decisions asked for again, since an answer was outside its range.";
    out.one("helba_asked_again_total", "counter", again, seen.asked_again as f64);
    out.one("helba_bandits", "gauge", "Bandits.", seen.bandits as f64);
    if let Some(MembersPresent { here, needed, members, erred, .. }) = &seen.committee {
        out.head("helba_member_here", "gauge", "Whether a member of the committee is here.");
        for member in 1..=*members {
            let value = f64::from(u8::from(here.contains(&member)));
            out.line(&format!("helba_member_here{{member=\"{member}\"}}"), value);
        }
        out.head("helba_member_erred_total", "counter", "Runs in which a member was seen to err.");
        for (member, count) in (1..=*members).zip(erred) {
            out.line(&format!("helba_member_erred_total{{member=\"{member}\"}}"), *count as f64);
        }
        out.one("helba_members_needed", "gauge", "How many members it takes.", *needed as f64);
    }
    out.head("helba_step_seconds", "histogram", "Times of steps.");
    for StepTimes { step, count, seconds, counts } in &seen.steps {
        let mut below = 0;
        for (bound, count) in seen.bounds.iter().zip(counts) {
            below += count;
            out.line(&format!("helba_step_seconds_bucket{{step=\"{step}\",le=\"{bound}\"}}"), below as f64);
        }
        out.line(&format!("helba_step_seconds_bucket{{step=\"{step}\",le=\"+Inf\"}}"), *count as f64);
        out.line(&format!("helba_step_seconds_sum{{step=\"{step}\"}}"), *seconds);
        out.line(&format!("helba_step_seconds_count{{step=\"{step}\"}}"), *count as f64);
    }
    type Of = fn(&Measured) -> Option<f64>;
    let of_bandits: [(&str, &str, &str, Of); 7] = [
        ("helba_bandit_rounds_total", "counter", "Decisions.", |m| Some(m.round as f64)),
        ("helba_bandit_feedbacks_total", "counter", "Feedbacks.", |m| Some(m.feedbacks as f64)),
        ("helba_bandit_batches_total", "counter", "Batches closed.", |m| Some(m.batches? as f64)),
        ("helba_bandit_open", "gauge", "Decisions that wait for feedback.", |m| Some(m.open as f64)),
        ("helba_bandit_frozen", "gauge", "Whether it decides and does not learn.", |m| {
            m.levels.map(|_| f64::from(u8::from(m.awaited.contains(&Awaited::Thaw))))
        }),
        ("helba_bandit_epsilon", "gauge", "The guarantee.", |m| {
            m.privacy.as_ref()?.statement.epsilon.map(|epsilon| epsilon.get())
        }),
        ("helba_bandit_epsilon_spent", "gauge", "The budget spent.", |m| {
            m.privacy.as_ref()?.spent.map(|spent| spent.epsilon)
        }),
    ];
    for (name, kind, about, of) in of_bandits {
        out.head(name, kind, about);
        for Labelled { of: bandit, .. } in &seen.listed {
            let Some(value) = of(bandit) else { continue };
            out.line(&format!("{name}{{bandit=\"{}\",policy=\"{}\"}}", bandit.id, bandit.policy), value);
        }
    }
    out.0
}

/// Lines of the text format.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, about: &str) {
        // Writing to a string succeeds.
        let _ = write!(self.0, "# HELP {name} {about}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, value: f64) {
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, about: &str, value: f64) {
        self.head(name, kind, about);
        self.line(name, value);
    }
}
