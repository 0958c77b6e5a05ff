//! Who calls the services: users, and the collector.

use crate::Error;
use crate::share::{BatchId, Report, ReportId, Sum, element, ids, join};
use std::time::Duration;
use ureq::Agent;
use wire::{OCTET_STREAM, Problem};

/// Bytes of a problem document, at most.
const PROBLEM_BYTES: usize = 1 << 16;

/// A service, by its address such as `http://127.0.0.1:9001`.
#[derive(Debug, Clone)]
pub struct Party {
    url: String,
    agent: Agent,
}

impl Party {
    /// At `url`. Requests end after a minute.
    pub fn new(url: impl Into<String>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_secs(60)));
        Self { url: url.into(), agent: config.build().into() }
    }

    /// Posts `body` to `path` below `/v1`; the answer, of at most `limit` bytes. Tried a second time if the connection
    /// breaks, since every request of these services may be repeated.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Refused`].
    pub fn post(&self, path: &str, body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
        let lost = |e: ureq::Error| Error::Unreachable { party: self.url.clone(), reason: e.to_string() };
        let url = format!("{}/v1/{path}", self.url.trim_end_matches('/'));
        let send = || self.agent.post(&url).content_type(OCTET_STREAM).send(body);
        let mut response = send().or_else(|_| send()).map_err(lost)?;
        let status = response.status();
        let limit = if status.is_success() { limit } else { PROBLEM_BYTES };
        // The reader refuses at its limit, so it gets one byte more than there may be.
        let bytes = response.body_mut().with_config().limit(limit as u64 + 1).read_to_vec().map_err(lost)?;
        if status.is_success() {
            return Ok(bytes);
        }
        let problem = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Problem::new(status.as_u16(), "no problem document", status.to_string()));
        Err(Error::Refused { party: self.url.clone(), problem: Box::new(problem) })
    }

    /// User side: hands this aggregator its report.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn report(&self, report: &Report) -> Result<(), Error> {
        self.post("reports", &report.to_bytes(), 0).map(|_| ())
    }

    /// User side: hands this shuffler all messages of one user.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn messages(&self, batch: u64, id: &ReportId, messages: &[u8]) -> Result<(), Error> {
        self.post(&format!("messages/{batch}"), &[id.as_slice(), messages].concat(), 0).map(|_| ())
    }

    /// Server side: asks this shuffler to hand on a batch.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn forward(&self, batch: u64) -> Result<(), Error> {
        self.post(&format!("messages/{batch}/forward"), &[], 0).map(|_| ())
    }
}

/// Who learns the sum, and nothing else: the bandit's server.
#[derive(Debug, Clone)]
pub struct Collector {
    aggregators: [Party; 2],
}

impl Collector {
    /// Users in one batch, at most.
    const USERS: usize = 1 << 20;

    /// Of these two, run by parties that do not collude.
    pub fn new(aggregators: [Party; 2]) -> Self {
        Self { aggregators }
    }

    /// Closes `batch` and sums the values of the users whose reports reached both aggregators; at most `2^20`.
    ///
    /// If an answer is lost, calling again completes it.
    ///
    /// # Errors
    /// [`Error::TooFew`]: nothing was opened, the batch must be given up and new users asked. [`Error::Malformed`] for
    /// answers that make no sense; as [`Party::post`].
    pub fn collect(&self, batch: BatchId) -> Result<Sum, Error> {
        let path = |verb| format!("batches/{}/{}/{verb}", batch.number, batch.at_least);
        let [first, second] = &self.aggregators;
        let mut listed = Vec::new();
        for party in [first, second] {
            listed.push(party.post(&path("close"), &[], Self::USERS * 16)?);
        }
        let (at_first, at_second) = (ids(&listed[0])?, ids(&listed[1])?);
        if !at_second.is_sorted() {
            return Err(Error::Malformed { what: "ids out of order" });
        }
        let set: Vec<ReportId> =
            at_first.iter().filter(|id| at_second.binary_search(id).is_ok()).copied().collect();
        let users = set.len() as u64;
        if users < u64::from(batch.at_least) {
            return Err(Error::TooFew { got: users, need: batch.at_least.into() });
        }
        let open = |party: &Party| element(&party.post(&path("open"), set.as_flattened(), 8)?);
        Ok(Sum { total: join([open(first)?, open(second)?]), users })
    }
}
