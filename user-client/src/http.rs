use crate::notice::Notice;
use crate::{Device, Error, OpenedCounters, PaperDevice};
use protocol::{BanditConfig, Counters, DecisionId, Erasure, LearnReceipt, Receipt, Status};
use rand::{CryptoRng, Rng};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, RequestBuilder};
use wire::{
    AccessToken, AskAgain, BanditView, ClearFeedback, Counted, Created, DECISIONS_HEADER, DecideRequest,
    Decided, ENROLMENT_HEADER, Enrolment, Freeze, IDEMPOTENCY_HEADER, Labelled, Labels, LabelsPatch, Limits,
    MAX_CLEAR_BYTES, MAX_JSON_BYTES, Manifest, OCTET_STREAM, PaperCreated, PaperDecision, PaperManifest,
    PaperReply, PaperTask, PaperView, PolicyCard, PolicyCreated, PolicyView, SENDER_HEADER, SenderTag,
    ServerAddress, ShuffledBatch,
};

/// The time that a server gets for an answer that it need not compute.
const TRANSFER: Duration = Duration::from_secs(60);
/// The most bandits of a list, in the memory of a client.
const MOST_LISTED: usize = 100_000;
/// The most messages of a decision by the paper's method, which raises some ten times.
const MOST_PAPER_TASKS: usize = 64;

/// A blocking HTTP client of a server, with or without TLS. It keeps connections open. It needs no key,
/// because it sends and receives ciphertexts of encrypted bandits. The server can read what it sends to
/// bandits with clear policies ([`Self::create_policy`]).
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    server: ServerAddress,
    token: Option<AccessToken>,
    /// The value of the header with the enrolment of a user with a key of its own.
    enrolment: Option<String>,
    /// A random tag, which is sent with requests for encrypted decisions: a server evaluates the contexts of
    /// a sender alone if they have spoilt an evaluation.
    sender: Option<SenderTag>,
    /// To whom is told for which members a request waits.
    notice: Option<Arc<Notice>>,
}

/// What a creation has beside its configuration: labels, and a random key under which the same creation may
/// be sent again. The server creates one bandit for all requests with this key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creation {
    labels: Labels,
    /// `None` without random numbers: each request may create a bandit then.
    key: Option<String>,
}

/// A random key for a request that may be repeated, as [`Client::decide_clear_once`] takes it.
pub fn request_key<R: Rng + ?Sized>(rng: &mut R) -> String {
    let mut key = [0; 16];
    rng.fill_bytes(&mut key);
    ckks::Hex(&key).to_string()
}

impl Creation {
    /// A creation of one bandit with these labels.
    pub fn new<R: Rng + ?Sized>(labels: Labels, rng: &mut R) -> Self {
        Creation { labels, key: Some(request_key(rng)) }
    }

    /// The result of a creation without labels, which is sent once more if its answer is lost.
    fn send<T>(request: impl Fn(&Creation) -> Result<Labelled<T>, Error>) -> Result<T, Error> {
        let creation = host::os_rng().map(|mut rng| Creation::new(Labels::default(), &mut rng));
        let creation = creation.unwrap_or(Creation { labels: Labels::default(), key: None });
        let created = match request(&creation) {
            Err(Error::Unreachable { .. }) if creation.key.is_some() => request(&creation),
            done => done,
        };
        created.map(|created| created.of)
    }
}

/// Which bandits are listed: those with this name and this tag, if they are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The name.
    pub name: Option<String>,
    /// The tag.
    pub tag: Option<String>,
}

/// The configuration and the state of a bandit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum AnyBandit {
    /// Of an encrypted bandit.
    Encrypted(Box<BanditView>),
    /// Of a bandit with a clear policy.
    Clear(Box<PolicyView>),
    /// Of a bandit of a committee.
    Committee(Box<wire::CommitteeBanditView>),
}

/// A decision of a bandit of the paper's method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaperRound {
    /// The decision, which the feedback names.
    pub decision: PaperDecision,
    /// The arm to play.
    pub arm: usize,
    /// The bytes of all requests.
    pub sent: usize,
    /// The bytes of all replies.
    pub received: usize,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.server.as_str()).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at `https://HOST:PORT` or `http://HOST:PORT`. An authority that browsers trust
    /// must have signed the certificate of the server. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::BadUrl`].
    pub fn new(server: &str) -> Result<Self, Error> {
        Self::trusting(server, RootCerts::WebPki)
    }

    /// As [`Self::new`], but only the authorities in `ca`, a file in PEM, are trusted.
    ///
    /// # Errors
    /// [`Error::BadUrl`], [`Error::Io`], [`Error::BadCertificates`].
    pub fn with_ca(server: &str, ca: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(ca).map_err(|error| Error::Io { path: ca.into(), error })?;
        let bad = || Error::BadCertificates { path: ca.into() };
        let certificate = |item| match item {
            Ok(PemItem::Certificate(certificate)) => Ok(certificate),
            _ => Err(bad()),
        };
        let certificates: Vec<_> = parse_pem(&bytes).map(certificate).collect::<Result<_, _>>()?;
        if certificates.is_empty() {
            return Err(bad());
        }
        Self::trusting(server, RootCerts::from(certificates))
    }

    fn trusting(server: &str, roots: RootCerts) -> Result<Self, Error> {
        let server = ServerAddress::parse(server)?;
        let mut config = Agent::config_builder();
        // The environment may name a proxy for all hosts, which would read what is meant for this machine.
        if server.is_loopback() {
            config = config.proxy(None);
        }
        let config = config
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            // Messages must not be redirected to another server.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            // A busy server queues decisions.
            .timeout_global(Some(Duration::from_secs(300)))
            .build();
        // Without random numbers the server knows this client by its address alone.
        let sender = host::os_rng().ok().map(|mut rng| SenderTag::generate(&mut rng));
        Ok(Client { agent: config.new_agent(), server, token: None, enrolment: None, sender, notice: None })
    }

    /// Sends the token of `device` with every request, and its enrolment if its user has a key of its own.
    pub fn with_device(self, device: &Device) -> Self {
        let enrolment = device.enrolment().map(Enrolment::to_header);
        Client { enrolment, ..self.with_token(device.token().clone()) }
    }

    /// Sends `token` with every request: [`Device::token`](crate::Device::token) for encrypted bandits, or
    /// the operator's token, or an API token with the scopes of the requests.
    pub fn with_token(mut self, token: AccessToken) -> Self {
        self.token = Some(token);
        self
    }

    /// Tells `tell` in a sentence when a request waits for members of a committee for three seconds, and
    /// again when others are here, also of the clones of this client.
    #[must_use]
    pub fn telling(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.notice = Some(Notice::new(tell));
        self
    }

    /// Whether requests carry a token over HTTP without TLS to another machine.
    pub fn shows_token(&self) -> bool {
        self.token.is_some() && !self.server.is_https() && !self.server.is_loopback()
    }

    /// The address of the server.
    pub fn server(&self) -> &str {
        self.server.as_str()
    }

    /// The manifest of the public bundle of the server.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Refused`], [`Error::BadAnswer`], as every request.
    pub fn keys(&self) -> Result<Manifest, Error> {
        self.json(self.get("keys").call())
    }

    /// Creates an encrypted bandit without labels. A request whose answer is lost is sent once more.
    ///
    /// # Errors
    /// As [`Self::create_encrypted_as`].
    pub fn create_encrypted(&self, config: &BanditConfig) -> Result<Created, Error> {
        Creation::send(|creation| self.create_encrypted_as(config, creation))
    }

    /// Creates an encrypted bandit. The same call may be made again: it returns the same bandit.
    ///
    /// # Errors
    /// [`Error::Refused`] if the keys do not fit the bandit; [`Error::BadAnswer`] if the server created one
    /// with another configuration; as [`Self::keys`].
    pub fn create_encrypted_as(
        &self,
        config: &BanditConfig,
        creation: &Creation,
    ) -> Result<Labelled<Created>, Error> {
        let created: Labelled<Created> = self.create(config, creation)?;
        if created.of.config != *config {
            return Err(Error::BadAnswer("the bandit has another configuration than was asked for".into()));
        }
        Ok(created)
    }

    /// Creates an encrypted bandit as [`Self::create_encrypted_as`], if the server has the public half of the
    /// keys of `device`. Otherwise nothing is created.
    ///
    /// # Errors
    /// As [`Device::check_manifest`] for other keys, [`Self::create_encrypted_as`].
    pub fn create_encrypted_for(
        &self,
        device: &Device,
        config: &BanditConfig,
        creation: &Creation,
    ) -> Result<Labelled<Created>, Error> {
        device.check_manifest(&self.keys()?)?;
        self.create_encrypted_as(config, creation)
    }

    /// The policies that the server offers, with an example of each.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn policies(&self) -> Result<Vec<PolicyCard>, Error> {
        self.json(self.get("policies").call())
    }

    /// Creates a bandit with a clear policy and its parameters, as [`Self::policies`] lists them, without
    /// labels. A request whose answer is lost is sent once more.
    ///
    /// # Errors
    /// As [`Self::create_policy_as`].
    pub fn create_policy(
        &self,
        policy: &str,
        parameters: Map<String, Value>,
    ) -> Result<PolicyCreated, Error> {
        Creation::send(|creation| self.create_policy_as(policy, parameters.clone(), creation))
    }

    /// Creates a bandit with a clear policy. The same call may be made again: it returns the same bandit.
    ///
    /// # Errors
    /// [`Error::Refused`], which names a faulty parameter; as [`Self::keys`].
    pub fn create_policy_as(
        &self,
        policy: &str,
        mut parameters: Map<String, Value>,
        creation: &Creation,
    ) -> Result<Labelled<PolicyCreated>, Error> {
        parameters.insert("policy".into(), policy.into());
        self.create(&parameters, creation)
    }

    fn create<T: DeserializeOwned>(&self, asked: &impl Serialize, creation: &Creation) -> Result<T, Error> {
        self.create_at("bandits", asked, creation)
    }

    fn create_at<T: DeserializeOwned>(
        &self,
        path: &str,
        asked: &impl Serialize,
        creation: &Creation,
    ) -> Result<T, Error> {
        let body = json_of(&Labelled { labels: creation.labels.clone(), of: asked })?;
        let request = self.authorized(self.agent.post(self.url(path))).content_type("application/json");
        let request = match &creation.key {
            Some(key) => request.header(IDEMPOTENCY_HEADER, key),
            None => request,
        };
        self.json_up_to(MAX_CLEAR_BYTES, request.send(&body[..]))
    }

    /// Changes the labels of a bandit of either kind, and returns them. With `etag`, that of an earlier
    /// answer, the change is refused with status 412 if they have changed since.
    ///
    /// # Errors
    /// [`Error::Refused`]; as [`Self::encrypted`].
    pub fn relabel(&self, id: &str, patch: &LabelsPatch, etag: Option<&str>) -> Result<Labels, Error> {
        let request = self.authorized(self.agent.patch(self.url(&format!("bandits/{}", checked(id)?))));
        let request = request.content_type("application/json");
        let request = match etag {
            Some(etag) => request.header("if-match", etag),
            None => request,
        };
        let view: Labelled<Map<String, Value>> =
            self.json_up_to(MAX_CLEAR_BYTES, request.send(&json_of(patch)?[..]))?;
        Ok(view.labels)
    }

    /// Creates a copy of an encrypted bandit, which begins with the sums and the model of the original and
    /// learns by itself. `changes` are fields of its configuration, of which those of `linear` are given one
    /// by one. The same call may be made again: it returns the same bandit.
    ///
    /// # Errors
    /// [`Error::Refused`], which names a field that a copy has of its original; as [`Self::encrypted`].
    pub fn copy(
        &self,
        id: &str,
        changes: &Map<String, Value>,
        creation: &Creation,
    ) -> Result<Labelled<Created>, Error> {
        let copy: Labelled<Created> =
            self.create_at(&format!("bandits/{}/copy", checked(id)?), changes, creation)?;
        match copy.of.origin.as_deref() == Some(id) {
            true => Ok(copy),
            false => Err(Error::BadAnswer("the copy names another original".into())),
        }
    }

    /// Freezes or thaws an encrypted bandit, and returns its counters. A frozen bandit decides with the model
    /// that it has, and refuses feedback with the reason `frozen`. The same call may be made again.
    ///
    /// # Errors
    /// [`Error::Refused`] for a bandit of another kind; as [`Self::encrypted`].
    pub fn freeze(&self, id: &str, frozen: bool) -> Result<Status, Error> {
        let request = self.authorized(self.agent.put(self.url(&format!("bandits/{}/frozen", checked(id)?))));
        self.json(request.content_type("application/json").send(&json_of(&Freeze { frozen })?[..]))
    }

    /// The state of a bandit with a clear policy.
    ///
    /// # Errors
    /// As [`Self::encrypted`].
    pub fn policy(&self, id: &str) -> Result<PolicyView, Error> {
        let request = self.get(&format!("bandits/{}", checked(id)?));
        self.json_up_to(MAX_CLEAR_BYTES, request.call()).map(|view: Labelled<PolicyView>| view.of)
    }

    /// Asks a bandit with a clear policy for a decision. The server reads `contexts`.
    ///
    /// # Errors
    /// As [`Self::encrypted`].
    pub fn decide_clear(&self, id: &str, contexts: Option<Vec<Vec<f64>>>) -> Result<Decided, Error> {
        self.post(&format!("bandits/{}/decisions", checked(id)?), &DecideRequest { contexts })
    }

    /// As [`Self::decide_clear`], under a [`request_key`] that the caller draws for each decision: the same
    /// call may be made again, and returns the same decision.
    ///
    /// # Errors
    /// As [`Self::decide_clear`].
    pub fn decide_clear_once(
        &self,
        id: &str,
        contexts: Option<Vec<Vec<f64>>>,
        key: &str,
    ) -> Result<Decided, Error> {
        let url = self.url(&format!("bandits/{}/decisions", checked(id)?));
        let request = self.authorized(self.agent.post(url)).content_type("application/json");
        let request = request.header(IDEMPOTENCY_HEADER, key);
        self.json_up_to(MAX_CLEAR_BYTES, request.send(&json_of(&DecideRequest { contexts })?[..]))
    }

    /// Returns the feedback on a decision of a clear policy. The server reads it. The same feedback counts
    /// once.
    ///
    /// # Errors
    /// As [`Self::encrypted`]; [`Error::Refused`] with status 409 if a later decision has replaced this one.
    pub fn feedback_clear(
        &self,
        id: &str,
        decision: &str,
        feedback: &ClearFeedback,
    ) -> Result<Counted, Error> {
        self.post(&format!("bandits/{}/decisions/{}/feedback", checked(id)?, checked(decision)?), feedback)
    }

    /// Intermediary side: delivers a batch. The same batch counts once.
    ///
    /// # Errors
    /// As [`Self::encrypted`]; [`Error::Refused`] with status 409 if the server waits for another exchange.
    pub fn shuffled(&self, id: &str, batch: &ShuffledBatch) -> Result<Counted, Error> {
        self.post(&format!("bandits/{}/shuffled", checked(id)?), batch)
    }

    /// The bandits of both kinds that the token gives access to, as they were created.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn bandits(&self) -> Result<Vec<Value>, Error> {
        self.bandits_of(&Listing::default())
    }

    /// As [`Self::bandits`], those of a listing.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn bandits_of(&self, listing: &Listing) -> Result<Vec<Value>, Error> {
        let Listing { name, tag } = listing;
        let mut listed: Vec<Value> = Vec::new();
        loop {
            let last = listed.last().and_then(|bandit| bandit["id"].as_str());
            let given = [("name", name.as_deref()), ("tag", tag.as_deref()), ("after", last)];
            let given = given.iter().filter_map(|(field, value)| Some((*field, (*value)?)));
            let mut page = self.accepted(self.get("bandits").query_pairs(given).call())?;
            let goes_on = page.headers().contains_key("link");
            let page: Vec<Value> = self.json_of(MAX_CLEAR_BYTES, &mut page)?;
            let goes_on = goes_on && !page.is_empty();
            listed.extend(page);
            if listed.len() > MOST_LISTED {
                return Err(Error::BadAnswer(format!(
                    "it lists more than {MOST_LISTED} bandits: give a name or a tag"
                )));
            }
            if !goes_on {
                return Ok(listed);
            }
        }
    }

    /// Deletes a bandit of either kind.
    ///
    /// # Errors
    /// [`Error::BadId`]; as [`Self::keys`].
    pub fn delete(&self, id: &str) -> Result<(), Error> {
        self.accepted(
            self.authorized(self.agent.delete(self.url(&format!("bandits/{}", checked(id)?)))).call(),
        )
        .map(drop)
    }

    /// The configuration and the state of a bandit of any kind.
    ///
    /// # Errors
    /// As [`Self::encrypted`].
    pub fn any_bandit(&self, id: &str) -> Result<AnyBandit, Error> {
        self.labelled(id).map(|view| view.of)
    }

    /// As [`Self::any_bandit`], with the labels.
    ///
    /// # Errors
    /// As [`Self::encrypted`].
    pub fn labelled(&self, id: &str) -> Result<Labelled<AnyBandit>, Error> {
        let request = self.get(&format!("bandits/{}", checked(id)?));
        let Labelled::<Value> { labels, of: view } = self.json_up_to(MAX_CLEAR_BYTES, request.call())?;
        if view.get("committee").is_some() {
            check_id(id, view["id"].as_str().unwrap_or_default())?;
            let view = serde_json::from_value(view).map_err(|e| Error::BadAnswer(e.to_string()))?;
            return Ok(Labelled { labels, of: AnyBandit::Committee(Box::new(view)) });
        }
        check_id(id, view["created"]["id"].as_str().unwrap_or_default())?;
        if view["created"]["method"] == "paper" {
            return Err(Error::BadAnswer(format!(
                "bandit {id} is of `method: paper`, which this request is not for"
            )));
        }
        let read = if view["created"].get("policy").is_some() {
            serde_json::from_value(view).map(|view| AnyBandit::Clear(Box::new(view)))
        } else {
            serde_json::from_value(view).map(|view| AnyBandit::Encrypted(Box::new(view)))
        };
        let of = read.map_err(|e| Error::BadAnswer(e.to_string()))?;
        Ok(Labelled { labels, of })
    }

    /// The configuration and the state of an encrypted bandit.
    ///
    /// # Errors
    /// [`Error::BadId`]; as [`Self::keys`].
    pub fn encrypted(&self, id: &str) -> Result<BanditView, Error> {
        let view: BanditView = self.json(self.get(&format!("bandits/{}", checked(id)?)).call())?;
        check_id(id, &view.created.id)?;
        Ok(view)
    }

    /// Asks an encrypted bandit for the `decisions` of the frame of `contexts`
    /// ([`crate::BanditDevice::contexts_of_several`]). Returns the reply, of at most the length in `limits`,
    /// for [`crate::BanditDevice::read`].
    ///
    /// # Errors
    /// As [`Self::encrypted`].
    pub fn decide_several(
        &self,
        id: &str,
        limits: &Limits,
        decisions: usize,
        contexts: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let path = format!("bandits/{}/decisions", checked(id)?);
        let mut response = self.send_as_sender(&path, decisions, contexts)?;
        self.body(&mut response, limits.reply())
    }

    /// Asks an encrypted bandit for another answer to `decision`, which has had `answers` answers, of which
    /// the last cannot be relied on. Waits until others have asked too, and returns the reply for
    /// [`crate::BanditDevice::read`]. [`crate::BanditDevice::decide`] does this by itself, and counts how
    /// often. Callers who do it themselves ask [`crate::Device::may_repeat`] first.
    ///
    /// # Errors
    /// As [`Self::encrypted`]; [`Error::Refused`] with status 409 if the evaluation is not repeated.
    pub fn ask_again(
        &self,
        id: &str,
        limits: &Limits,
        decision: DecisionId,
        answers: u32,
    ) -> Result<Vec<u8>, Error> {
        let path = format!("bandits/{}/decisions/{decision}/again", checked(id)?);
        let mut response = self.send_as_sender(&path, 1, &AskAgain { answers }.to_bytes())?;
        self.body(&mut response, limits.reply())
    }

    /// The encrypted counters of a bandit, for [`crate::BanditDevice::open_counters`].
    ///
    /// # Errors
    /// As [`Self::encrypted`]; [`Error::Refused`] with status 409 for a bandit without counters.
    pub fn counters(&self, id: &str, limits: &Limits) -> Result<Vec<u8>, Error> {
        let request = self.get(&format!("bandits/{}/counters", checked(id)?));
        let mut response = self.accepted(request.call())?;
        self.body(&mut response, limits.shown_counters())
    }

    /// The encrypted model of a bandit, for [`crate::BanditDevice::export`].
    ///
    /// # Errors
    /// As [`Self::encrypted`]; [`Error::Refused`] for a bandit of another kind.
    pub fn model(&self, id: &str, limits: &Limits) -> Result<Vec<u8>, Error> {
        let request = self.get(&format!("bandits/{}/model", checked(id)?));
        let mut response = self.accepted(request.call())?;
        self.body(&mut response, limits.shown_model())
    }

    /// The tasks of an encrypted bandit that wait for a holder of the key, or `None` if there was none within
    /// `wait` seconds, at most 30. The reply is for [`crate::BanditDevice::read`].
    ///
    /// # Errors
    /// As [`Self::encrypted`].
    pub fn raises(&self, id: &str, limits: &Limits, wait: u64) -> Result<Option<Vec<u8>>, Error> {
        let request = self.get(&format!("bandits/{}/raises?wait={wait}", checked(id)?));
        // A server that is gone without a word must not hold the caller for as long as a decision may take.
        let limit = Duration::from_secs(wait) + TRANSFER;
        let mut response = self.accepted(request.config().timeout_global(Some(limit)).build().call())?;
        if response.status() == 204 {
            return Ok(None);
        }
        self.body(&mut response, limits.reply()).map(Some)
    }

    /// Sends the answers of [`crate::BanditDevice::raise`]. Returns the reply for
    /// [`crate::BanditDevice::read`], which has a decision if the answers came under a ticket.
    ///
    /// # Errors
    /// As [`Self::encrypted`]; [`Error::Refused`] with status 409 if a task does not wait for an answer.
    pub fn post_raises(&self, id: &str, limits: &Limits, raises: &[u8]) -> Result<Vec<u8>, Error> {
        let mut response = self.send(&format!("bandits/{}/raises", checked(id)?), raises)?;
        self.body(&mut response, limits.reply())
    }

    /// Sends the feedback of [`crate::BanditDevice::feedback`]. The same feedback counts once.
    ///
    /// # Errors
    /// As [`Self::encrypted`].
    pub fn feedback_encrypted(
        &self,
        id: &str,
        decision: DecisionId,
        feedback: &[u8],
    ) -> Result<Receipt, Error> {
        let path = format!("bandits/{}/decisions/{decision}/feedback", checked(id)?);
        self.json_of(MAX_JSON_BYTES, &mut self.send(&path, feedback)?)
    }

    /// Sends logged rounds ([`crate::BanditDevice::logged`]), which are learnt once.
    ///
    /// # Errors
    /// As [`Self::encrypted`]; [`Error::Refused`] with the reason `still_learning` while as many rounds wait
    /// for a model as one takes.
    pub fn learn(&self, id: &str, logged: &[u8]) -> Result<LearnReceipt, Error> {
        self.json_of(MAX_JSON_BYTES, &mut self.send(&format!("bandits/{}/learn", checked(id)?), logged)?)
    }

    /// Erases the feedback on a decision of an encrypted bandit. A repeated request changes nothing.
    ///
    /// # Errors
    /// As [`Self::encrypted`].
    pub fn erase_feedback(&self, id: &str, decision: DecisionId) -> Result<Erasure, Error> {
        let url = self.url(&format!("bandits/{}/decisions/{decision}/feedback", checked(id)?));
        let mut erased = self.accepted(self.authorized(self.agent.delete(url)).call())?;
        self.json_of(MAX_JSON_BYTES, &mut erased)
    }

    /// The bytes that `GET /v1/{path}` answers, at most `limit` of them, which may take `wait` seconds: for
    /// services that are no server of bandits.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn fetch(&self, path: &str, limit: usize, wait: u64) -> Result<Vec<u8>, Error> {
        let time = Duration::from_secs(wait) + TRANSFER;
        let request = self.get(path).config().timeout_global(Some(time)).build();
        self.body(&mut self.accepted(request.call())?, limit)
    }

    /// Sends `body` as `POST /v1/{path}`, as [`Self::fetch`].
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn submit(&self, path: &str, body: &[u8]) -> Result<(), Error> {
        self.send(path, body).map(drop)
    }

    /// The bytes that `POST /v1/{path}` answers to a binary body, at most `limit` of them, which may take
    /// `wait` seconds.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn exchange(&self, path: &str, body: &[u8], limit: usize, wait: u64) -> Result<Vec<u8>, Error> {
        let time = Duration::from_secs(wait) + TRANSFER;
        let request = self.authorized(self.agent.post(self.url(path))).content_type(OCTET_STREAM);
        let request = request.config().timeout_global(Some(time)).build();
        self.body(&mut self.accepted(request.send(body))?, limit)
    }

    /// As [`Self::exchange`], for what members of a committee answer.
    pub(crate) fn exchange_with_members(
        &self,
        path: &str,
        body: &[u8],
        limit: usize,
        wait: u64,
    ) -> Result<Vec<u8>, Error> {
        let _waits = self.notice.as_ref().map(|notice| notice.waits(self));
        self.exchange(path, body, limit, wait)
    }

    /// The members of the committee who are here.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn members_here(&self) -> Result<wire::MembersHere, Error> {
        self.json(self.get("committee/members").call())
    }

    /// Creates a bandit of the committee: its linear bandit, the least number of sessions whose
    /// feedback a batch has, the most decisions of a session between two batches, the least and the largest
    /// reward (none for −1 to 1), and whether arms are counted. The same call may be made again: it returns
    /// the same bandit.
    ///
    /// # Errors
    /// As [`Self::create_encrypted_as`].
    pub fn create_of_committee(
        &self,
        linear: &bandit::LinearConfig,
        (sessions, decisions): (u16, u16),
        rewards: Option<[f64; 2]>,
        counters: Option<Counters>,
        creation: &Creation,
    ) -> Result<Labelled<wire::CommitteeBandit>, Error> {
        let asked = serde_json::json!({
            "keys": "committee", "linear": linear, "sessions": sessions, "decisions_a_session": decisions,
            "rewards": rewards, "counters": counters,
        });
        self.create(&asked, creation)
    }

    /// A bandit of the committee.
    ///
    /// # Errors
    /// [`Error::NoCommittee`] for another one; as [`Self::encrypted`].
    pub fn committee_bandit(&self, id: &str) -> Result<wire::CommitteeBanditView, Error> {
        match self.any_bandit(id)? {
            AnyBandit::Committee(view) => Ok(*view),
            AnyBandit::Encrypted(_) | AnyBandit::Clear(_) => Err(Error::NoCommittee { id: id.into() }),
        }
    }

    /// The counters of a bandit of the committee, which its members have opened.
    ///
    /// # Errors
    /// As [`Self::counters`]; [`Error::BadAnswer`] for another bandit.
    pub fn counters_of_committee(&self, id: &str) -> Result<OpenedCounters, Error> {
        let request = self.get(&format!("bandits/{}/counters", checked(id)?));
        let wire::CommitteeCounters { feedbacks, arms } = self.json(request.call())?;
        Ok(OpenedCounters { feedbacks, deviation: 0.0, arms })
    }

    /// Has a committee's feedback erased, as `DELETE /v1/{path}`, by what its device has signed.
    pub(crate) fn erase_at(&self, path: &str, erasure: &[u8]) -> Result<wire::CommitteeErasure, Error> {
        let request = self.authorized(self.agent.delete(self.url(path)));
        let request = request.header(wire::ERASURE_HEADER, ckks::Hex(erasure).to_string());
        self.json(request.call())
    }

    /// The manifest of the public bundle of a server with keys of the paper's method.
    ///
    /// # Errors
    /// [`Error::BadAnswer`] for keys of the default method; as [`Self::keys`].
    pub fn paper_keys(&self) -> Result<PaperManifest, Error> {
        self.json(self.get("keys").call())
    }

    /// Creates a bandit of the paper's method. A request whose answer is lost is sent once more.
    ///
    /// # Errors
    /// As [`Self::create_encrypted_as`].
    pub fn create_paper(&self, linear: &bandit::LinearConfig) -> Result<PaperCreated, Error> {
        let asked = serde_json::json!({ "method": "paper", "linear": linear });
        let created: PaperCreated = Creation::send(|creation| self.create(&asked, creation))?;
        if created.linear != *linear {
            return Err(Error::BadAnswer("the bandit has another configuration than was asked for".into()));
        }
        Ok(created)
    }

    /// The configuration and the counters of a bandit of the paper's method.
    ///
    /// # Errors
    /// As [`Self::encrypted`].
    pub fn paper(&self, id: &str) -> Result<PaperView, Error> {
        let view: PaperView = self.json(self.get(&format!("bandits/{}", checked(id)?)).call())?;
        check_id(id, &view.created.id)?;
        Ok(view)
    }

    /// Asks a bandit of the paper's method for a decision, and answers every task of it.
    ///
    /// # Errors
    /// As [`PaperDevice::check`], [`PaperDevice::contexts`], [`PaperDevice::answer`], [`Self::encrypted`].
    pub fn decide_paper<R: CryptoRng>(
        &self,
        device: &PaperDevice,
        created: &PaperCreated,
        rows: &[Vec<f64>],
        rng: &mut R,
    ) -> Result<PaperRound, Error> {
        device.check(created)?;
        let bandit = format!("bandits/{}", checked(&created.id)?);
        let (mut path, mut body) = (format!("{bandit}/decisions"), device.contexts(created, rows, rng)?);
        let (mut sent, mut received, mut opened) = (0, 0, false);
        for _ in 0..MOST_PAPER_TASKS {
            let reply = self.body(&mut self.send(&path, &body)?, PaperReply::most_bytes(device.params()))?;
            (sent, received) = (sent + body.len(), received + reply.len());
            match PaperReply::read(&reply, device.params())? {
                PaperReply::Task { task: PaperTask::Open, .. } if std::mem::replace(&mut opened, true) => {
                    return Err(Error::BadTask("it opens a second comparison of the trace for one decision"));
                }
                PaperReply::Task { id, task, frame } => {
                    (path, body) = (format!("{bandit}/raises"), device.answer(id, task, &frame, rng)?);
                }
                PaperReply::Decision(decision) => {
                    let arm = device.arm(&decision)?;
                    return Ok(PaperRound { decision, arm, sent, received });
                }
            }
        }
        Err(Error::BadTask("it follows on more tasks than a decision by the paper's method has"))
    }

    /// The response to a binary body.
    fn send(&self, path: &str, body: &[u8]) -> Result<Response<Body>, Error> {
        let request = self.authorized(self.agent.post(self.url(path))).content_type(OCTET_STREAM);
        self.accepted(request.send(body))
    }

    /// As [`Self::send`], with the tag of this sender, about this many decisions.
    fn send_as_sender(&self, path: &str, decisions: usize, body: &[u8]) -> Result<Response<Body>, Error> {
        let request = self.authorized(self.agent.post(self.url(path))).content_type(OCTET_STREAM);
        let request = match decisions {
            1 => request,
            several => request.header(DECISIONS_HEADER, several.to_string()),
        };
        let request = match &self.sender {
            Some(tag) => request.header(SENDER_HEADER, tag.to_string()),
            None => request,
        };
        self.accepted(request.send(body))
    }

    fn post<T: DeserializeOwned>(&self, path: &str, message: &impl Serialize) -> Result<T, Error> {
        let request = self.authorized(self.agent.post(self.url(path))).content_type("application/json");
        self.json_up_to(MAX_CLEAR_BYTES, request.send(&json_of(message)?[..]))
    }

    fn get(&self, path: &str) -> RequestBuilder<WithoutBody> {
        self.authorized(self.agent.get(self.url(path)))
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        let request = match &self.token {
            Some(token) => request.header("authorization", token.authorization().as_str()),
            None => request,
        };
        match &self.enrolment {
            Some(enrolment) => request.header(ENROLMENT_HEADER, enrolment.as_str()),
            None => request,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/v1/{path}", self.server.as_str())
    }

    fn unreachable(&self, e: ureq::Error) -> Error {
        let reason = e.to_string();
        // To a request in plain HTTP a port with TLS answers by an alert, or hangs up.
        let unlike_http = match e {
            ureq::Error::Protocol(_) => true,
            ureq::Error::Io(e) => [ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof].contains(&e.kind()),
            _ => false,
        };
        let hint = self.hint(&reason, unlike_http);
        Error::Unreachable { server: self.server.as_str().into(), reason: reason + hint }
    }

    /// What to do about a connection that failed for this reason. `unlike_http` is whether the answer was
    /// none in HTTP.
    fn hint(&self, reason: &str, unlike_http: bool) -> &'static str {
        let https = self.server.is_https();
        match reason {
            _ if https && ["UnknownIssuer", "BadSignature"].iter().any(|fault| reason.contains(fault)) => {
                "; nobody whom this client trusts has signed the certificate of the server: trust its authority by --ca FILE (ca= in \
                 Python), which is STATE/tls/ca.pem of a server with --tls-self-signed"
            }
            _ if https && reason.contains("InvalidContentType") => {
                "; this port does not speak TLS: if it is that of the server, its address begins with http://"
            }
            _ if !https && unlike_http => {
                "; if the server has a certificate, its address begins with https://"
            }
            _ => "",
        }
    }

    /// The response if its status is a success, or else the problem document as an error.
    fn accepted(&self, response: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, Error> {
        let mut response = response.map_err(|e| self.unreachable(e))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(&mut response, MAX_JSON_BYTES)?;
        Err(Error::refused(status.as_u16(), status.canonical_reason().unwrap_or_default(), &body))
    }

    fn body(&self, response: &mut Response<Body>, limit: usize) -> Result<Vec<u8>, Error> {
        // The reader fails at its limit, which is therefore one byte longer.
        let read = response.body_mut().with_config().limit(limit as u64 + 1).read_to_vec();
        read.map_err(|e| match e {
            ureq::Error::BodyExceedsLimit(_) => Error::BadAnswer(format!("it is longer than {limit} bytes")),
            e => self.unreachable(e),
        })
    }

    fn json<T: DeserializeOwned>(&self, response: Result<Response<Body>, ureq::Error>) -> Result<T, Error> {
        self.json_up_to(MAX_JSON_BYTES, response)
    }

    fn json_up_to<T: DeserializeOwned>(
        &self,
        limit: usize,
        response: Result<Response<Body>, ureq::Error>,
    ) -> Result<T, Error> {
        self.json_of(limit, &mut self.accepted(response)?)
    }

    fn json_of<T: DeserializeOwned>(&self, limit: usize, response: &mut Response<Body>) -> Result<T, Error> {
        let body = self.body(response, limit)?;
        serde_json::from_slice(&body).map_err(|e| Error::BadAnswer(e.to_string()))
    }
}

/// A message as JSON.
fn json_of(message: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(message).map_err(|e| Error::BadAnswer(e.to_string()))
}

/// Refuses another bandit than the one that was asked for, which a device would go on with.
fn check_id(asked: &str, got: &str) -> Result<(), Error> {
    match asked == got {
        true => Ok(()),
        false => Err(Error::BadAnswer(format!("it is about another bandit than {asked}"))),
    }
}

/// Checks an id, which comes from a server and becomes part of a path.
fn checked(id: &str) -> Result<&str, Error> {
    if wire::is_id(id) { Ok(id) } else { Err(Error::BadId) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_shown_over_http_to_other_hosts_alone() {
        let shows = |url: &str, token: bool| {
            let client = Client::new(url).unwrap();
            match token {
                true => client.with_token(AccessToken::from_bytes(&[1; 32]).unwrap()).shows_token(),
                false => client.shows_token(),
            }
        };
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "127.8.0.1/x"] {
            assert!(!shows(&format!("http://{host}"), true), "{host}");
        }
        for host in ["example.org", "192.168.0.1:8080", "[fe80::1]:80", "localhost.example.org"] {
            assert!(shows(&format!("http://{host}"), true), "{host}");
            assert!(!shows(&format!("http://{host}"), false) && !shows(&format!("https://{host}"), true));
        }
    }
}
