//! The clients of the services: users and the collector.

use crate::encrypted::{SUM_BYTES, SumRing, read_opened};
use crate::share::{BatchId, Report, ReportId, Sum, element, ids, join};
use crate::shuffler::TaskDigest;
use crate::{BanditTask, Error};
use ckks::{KeyId, PublicKey};
use std::path::Path;
use std::time::Duration;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, http};
use wire::{AccessToken, OCTET_STREAM, Problem, ServerAddress};

/// The most bytes of a problem document.
const PROBLEM_BYTES: usize = 1 << 16;

fn agent(url: &ServerAddress, roots: RootCerts) -> Agent {
    let mut config = Agent::config_builder();
    // The environment may name a proxy for all hosts, which would read what is meant for this machine.
    if url.is_loopback() {
        config = config.proxy(None);
    }
    let config = config
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_global(Some(Duration::from_secs(60)));
    config.build().into()
}

/// A service at an address such as `http://127.0.0.1:9001`.
#[derive(Debug, Clone)]
pub struct Party {
    url: ServerAddress,
    agent: Agent,
    /// The token sent with every request.
    token: Option<AccessToken>,
}

impl Party {
    /// The service at `url`. A request fails after one minute. An authority that browsers trust must have
    /// signed the certificate of a service with `https`. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::BadUrl`].
    pub fn new(url: impl AsRef<str>) -> Result<Self, Error> {
        let url = ServerAddress::parse(url.as_ref())?;
        Ok(Self { agent: agent(&url, RootCerts::WebPki), url, token: None })
    }

    /// The same service, if `ca` is given with the authorities in this file, in PEM, as the only ones that
    /// are trusted.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::BadCertificates`].
    pub fn trusting(self, ca: Option<&Path>) -> Result<Self, Error> {
        let Some(ca) = ca else { return Ok(self) };
        let io = |error| Error::Io { what: "reading the certificates of --ca", error };
        let items = parse_pem(&std::fs::read(ca).map_err(io)?).collect::<Result<Vec<_>, _>>();
        let certificate = |item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        };
        let certificates: Option<Vec<_>> =
            items.ok().and_then(|items| items.into_iter().map(certificate).collect());
        let certificates = certificates.filter(|certificates| !certificates.is_empty());
        let certificates = certificates.ok_or_else(|| Error::BadCertificates { path: ca.into() })?;
        Ok(Self { agent: agent(&self.url, RootCerts::from(certificates)), ..self })
    }

    /// The same service, with `token` in every request.
    pub fn with_token(self, token: Option<AccessToken>) -> Self {
        Self { token, ..self }
    }

    pub(crate) fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Posts `body` to `path` below `/v1` and returns the answer, of at most `limit` bytes. If the connection
    /// breaks, the request is sent a second time, because every request of these services may be repeated.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Refused`].
    pub fn post(&self, path: &str, body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
        self.send(path, OCTET_STREAM, body, limit)
    }

    /// As [`post`](Self::post), for a body in JSON, which the server of a bandit takes.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn post_json(&self, path: &str, body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
        self.send(path, "application/json", body, limit)
    }

    fn send(&self, path: &str, content: &str, body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
        let token = self.token.as_ref().map(AccessToken::authorization);
        self.ask(path, limit, |url| {
            let post = self.agent.post(url).content_type(content);
            let post = token.iter().fold(post, |post, token| post.header("Authorization", token.as_str()));
            post.send(body)
        })
    }

    /// The resource at `path` below `/v1`, of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn get(&self, path: &str, limit: usize) -> Result<Vec<u8>, Error> {
        let token = self.token.as_ref().map(AccessToken::authorization);
        self.ask(path, limit, |url| {
            let get = self.agent.get(url);
            token.iter().fold(get, |get, token| get.header("Authorization", token.as_str())).call()
        })
    }

    fn ask(
        &self,
        path: &str,
        limit: usize,
        send: impl Fn(&str) -> Result<http::Response<Body>, ureq::Error>,
    ) -> Result<Vec<u8>, Error> {
        let lost = |e: ureq::Error| Error::Unreachable { party: self.url().into(), reason: e.to_string() };
        let url = format!("{}/v1/{path}", self.url());
        let mut response = send(&url).or_else(|_| send(&url)).map_err(lost)?;
        let status = response.status();
        let limit = if status.is_success() { limit } else { PROBLEM_BYTES };
        // The reader refuses at its limit, so it gets one byte more than there may be.
        let bytes = response.body_mut().with_config().limit(limit as u64 + 1).read_to_vec().map_err(lost)?;
        if status.is_success() {
            return Ok(bytes);
        }
        let problem = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Problem::new(status.as_u16(), "no problem document", status.to_string()));
        Err(Error::Refused { party: self.url().into(), problem: Box::new(problem) })
    }

    /// User side: sends a report to this aggregator.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn report(&self, report: &Report) -> Result<(), Error> {
        self.post("reports", &report.to_bytes(), 0).map(|_| ())
    }

    /// User side: sends this shuffler the user's number of ones for each label of `exchange`, with the
    /// [digest](BanditTask::digest) of the task that the server posed to the user.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn messages(
        &self,
        exchange: u64,
        digest: &TaskDigest,
        id: &ReportId,
        ones: &[u64],
    ) -> Result<(), Error> {
        let ones: Vec<[u8; 8]> = ones.iter().map(|n| n.to_le_bytes()).collect();
        let body = [id.as_slice(), digest, ones.as_flattened()].concat();
        self.post(&format!("messages/{exchange}"), &body, 0).map(|_| ())
    }

    /// Collector side: makes this aggregator or adder accept messages for `batch` from now on.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn announce(&self, batch: BatchId) -> Result<(), Error> {
        self.post(&format!("batches/{}/{}", batch.number, batch.at_least), &[], 0).map(|_| ())
    }

    /// User side: the public key of `batch` at this authority, and its id, in the ring of the batch.
    ///
    /// # Errors
    /// As [`post`](Self::post) and [`SumRing::for_users`]; [`Error::Ckks`] for bytes that are no key.
    pub fn key(&self, batch: BatchId) -> Result<(PublicKey, KeyId), Error> {
        let ring = SumRing::for_users(batch.at_least)?;
        let key = self.get(&key_path(batch), ring.key_bytes())?;
        Ok(ckks::read_public_key(ring.params(), &key)?)
    }

    /// Adder side: makes this authority generate a key for `batch`. Each call returns the same key.
    ///
    /// # Errors
    /// As [`key`](Self::key).
    pub fn make_key(&self, batch: BatchId) -> Result<(PublicKey, KeyId), Error> {
        let ring = SumRing::for_users(batch.at_least)?;
        let key = self.post(&key_path(batch), &[], ring.key_bytes())?;
        Ok(ckks::read_public_key(ring.params(), &key)?)
    }

    /// User side: sends this adder an encrypted value under a fresh id.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn value(&self, batch: BatchId, id: &ReportId, value: &[u8]) -> Result<(), Error> {
        let path = format!("values/{}/{}", batch.number, batch.at_least);
        self.post(&path, &[id.as_slice(), value].concat(), 0).map(|_| ())
    }

    /// Collector side: makes this adder close `batch`, and returns the sum that its authority opened.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn opened(&self, batch: BatchId) -> Result<Sum, Error> {
        let path = format!("values/{}/{}/open", batch.number, batch.at_least);
        read_opened(&self.post(&path, &[], SUM_BYTES)?)
    }

    /// Adder side: asks this authority to open a sum.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn open(&self, batch: BatchId, sum: &[u8]) -> Result<Sum, Error> {
        let path = format!("sums/{}/{}", batch.number, batch.at_least);
        read_opened(&self.post(&path, sum, SUM_BYTES)?)
    }

    /// Asks this shuffler to deliver a complete batch that it kept because the server could not be reached.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn forward(&self, exchange: u64) -> Result<(), Error> {
        self.post(&format!("messages/{exchange}/forward"), &[], 0).map(|_| ())
    }
}

fn key_path(batch: BatchId) -> String {
    format!("keys/{}/{}", batch.number, batch.at_least)
}

/// The collector: it learns the sum of each batch, and nothing else.
#[derive(Debug, Clone)]
pub struct Collector {
    aggregators: [Party; 2],
}

impl Collector {
    /// The most users of one batch.
    const USERS: usize = 1 << 20;

    /// The collector of two aggregators, which must be run by parties that do not collude.
    pub fn new(aggregators: [Party; 2]) -> Self {
        Self { aggregators }
    }

    /// Makes both aggregators accept reports for `batch` from now on.
    ///
    /// # Errors
    /// As [`Party::post`]. Calling again completes the announcement.
    pub fn announce(&self, batch: BatchId) -> Result<(), Error> {
        self.aggregators.iter().try_for_each(|party| party.announce(batch))
    }

    /// Closes `batch` and returns the sum over the users whose reports reached both aggregators, at most
    /// `2^20`.
    ///
    /// If an answer is lost, calling again completes the sum: an aggregator that has opened the batch lists
    /// the set for which it did, and the other aggregator has a report of each of these users.
    ///
    /// # Errors
    /// [`Error::TooFew`] if nothing was opened; new users must then be asked under a new number.
    /// [`Error::Malformed`] for answers that cannot be used; as [`Party::post`].
    pub fn collect(&self, batch: BatchId) -> Result<Sum, Error> {
        self.collect_of(batch, usize::MAX)
    }

    /// Collects the sum that `bandit` waits for from the reports of batch `number`, and delivers it. The sum
    /// has exactly as many users as the bandit asks for; further reports are left out. The noise of the users
    /// must be sized for this number ([`Batch::at_least`](crate::Batch::at_least)). Returns the number of the
    /// exchange.
    ///
    /// The call may be repeated until the bandit waits for another exchange.
    ///
    /// # Errors
    /// As [`collect`](Self::collect) and [`Party::post`]; [`Error::Malformed`] if the bandit waits for no
    /// shares.
    pub fn deliver(&self, server: &Party, bandit: &str, number: u64) -> Result<u64, Error> {
        let task = BanditTask::ask(server, bandit)?;
        let at_least = task.users();
        let sum = self.collect_of(BatchId { number, at_least }, at_least as usize)?;
        task.deliver(server, bandit, &sum)?;
        Ok(task.exchange())
    }

    /// As [`collect`](Self::collect), over at most `most` users.
    fn collect_of(&self, batch: BatchId, most: usize) -> Result<Sum, Error> {
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
        let both = at_first.iter().filter(|id| at_second.binary_search(id).is_ok());
        let set: Vec<ReportId> = both.copied().take(most).collect();
        let users = set.len() as u64;
        if users < u64::from(batch.at_least) {
            return Err(Error::TooFew { got: users, need: batch.at_least.into() });
        }
        let open = |party: &Party| element(&party.post(&path("open"), set.as_flattened(), 8)?);
        Ok(Sum { total: join([open(first)?, open(second)?]), users })
    }
}
