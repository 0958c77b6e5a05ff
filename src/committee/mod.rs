//! A committee at this server: its members come for messages, devices for decisions, and what they
//! leave is stored before it is acknowledged.

mod error;
mod moving;

use crate::access::unix_now;
use crate::bandits::{BodyLimit, Listed, Measured, Reply};
use crate::store::{Named, NamedEdit, Store};
use bandit::LinearConfig;
pub use error::CommitteeError;
use host::lock;
pub(crate) use moving::Committees;
use protocol::Counters;
use serde::{Deserialize, Serialize};
use service::Content;
use shares::talk::{
    Answered, BanditId, Definition, POLL, Poll, Rules, SignedPoll, ToMember, from_bytes, polled, to_bytes,
};
use shares::{Manifest, Session, SessionId, Sharing, SignedManifest};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use switchboard::{Decision, Options, Switchboard, Ticket};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout_at;
use wire::{CommitteeBandit, CommitteeBanditView, CommitteeCounters, CommitteeErasure, MembersHere};

/// The time between two looks at who is silent.
const TICK: Duration = Duration::from_millis(250);
/// The longest wait of a member.
const LONGEST_WAIT: Duration = Duration::from_secs(25);
/// The most seconds between the clocks of a member and of this server.
const MOST_SKEW: u64 = 300;
/// The most bytes of messages that a member is told at a time, but for one that is longer.
const MOST_TOLD: usize = 8 << 20;
/// The most bytes of what a member says at a time.
const MOST_SAID: usize = 64 << 20;

/// A committee, and all that this server does for it.
pub(crate) struct Committee {
    manifest: SignedManifest,
    id: [u8; 32],
    sharing: Sharing,
    desk: Mutex<Desk>,
    store: Arc<Store>,
    /// Changes when there may be something to tell.
    changed: watch::Sender<u64>,
    /// The time for which decisions and sessions wait for members.
    waits: Duration,
    /// The committee to which it has moved, in hexadecimal digits.
    moved: OnceLock<String>,
}

/// A committee that is to be served.
pub(crate) struct Given {
    /// As its members have made it.
    pub(crate) manifest: SignedManifest,
    /// The committee to which it moves.
    pub(crate) next: Option<SignedManifest>,
    /// The time that members have for an answer, after which they count as away.
    pub(crate) patience: Duration,
    /// The time for which decisions and sessions wait for members.
    pub(crate) waits: Duration,
}

struct Desk {
    board: Switchboard,
    /// Who waits for a decision.
    waiting: HashMap<Ticket, oneshot::Sender<Result<Decision, switchboard::Error>>>,
    /// Of each member the number of the next message that it says, by what it has drawn at its start.
    heard: BTreeMap<u8, ([u8; 32], u64)>,
    /// Whether a change could not be stored: what is in memory is ahead of the disk, until a restart.
    ahead: bool,
}

/// The members of a committee who are here, by their numbers.
#[derive(Serialize)]
pub(crate) struct MembersPresent {
    /// Those who take what they are told, or did until a moment ago.
    pub(crate) here: Vec<u8>,
    /// 2t − 1, how many it takes.
    pub(crate) needed: usize,
    /// n, how many there are.
    pub(crate) members: u8,
    /// In how many runs each member was seen to err, from member 1 on.
    pub(crate) erred: Vec<u64>,
    /// Pairs that have disagreed on a key that they have in common: one of the two lies.
    pub(crate) disputed: Vec<(u8, u8)>,
}

/// Takes a request back whose device does not wait any more.
struct Waits<'a>(&'a Committee, Ticket);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut desk = lock(&self.0.desk);
        if desk.waiting.remove(&self.1).is_some() {
            desk.board.forget(self.1);
        }
    }
}

impl Committee {
    /// The committee of a manifest, with what the store has of it.
    fn open(
        manifest: SignedManifest,
        rows: Vec<(Vec<u8>, Vec<u8>)>,
        store: Arc<Store>,
        (patience, waits): (Duration, Duration),
    ) -> Result<Arc<Self>, crate::Error> {
        let sharing = manifest.check().map_err(CommitteeError::Manifest)?;
        let id = manifest.id();
        // Above those of every batch that members were asked for before.
        let number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let options = Options { patience, ..Options::default() };
        let board = Switchboard::open(&manifest.manifest, options, rows, number)?;
        let desk = Desk { board, waiting: HashMap::new(), heard: BTreeMap::new(), ahead: false };
        let desk = Mutex::new(desk);
        let (changed, moved) = (watch::Sender::new(0), OnceLock::new());
        Ok(Arc::new(Committee { manifest, id, sharing, desk, store, changed, waits, moved }))
    }

    /// Does something at the switchboard, and stores what follows before anybody is told.
    fn with<T>(
        &self,
        act: impl FnOnce(&mut Switchboard) -> Result<T, switchboard::Error>,
    ) -> Result<T, crate::Error> {
        self.at_desk(|desk| act(&mut desk.board))
    }

    fn at_desk<T>(
        &self,
        act: impl FnOnce(&mut Desk) -> Result<T, switchboard::Error>,
    ) -> Result<T, crate::Error> {
        let mut desk = lock(&self.desk);
        if desk.ahead {
            return Err(CommitteeError::Ahead.into());
        }
        let done = act(&mut desk);
        let edits = self.edits(desk.board.changes());
        if !edits.is_empty() {
            self.store.commit_with(&[], &edits).inspect_err(|_| desk.ahead = true)?;
        }
        for (ticket, outcome) in desk.board.outcomes() {
            if let Some(waiting) = desk.waiting.remove(&ticket) {
                // Its device may be gone.
                let _ = waiting.send(outcome);
            }
        }
        drop(desk);
        self.wake();
        Ok(done?)
    }

    /// There may be something to tell.
    fn wake(&self) {
        self.changed.send_modify(|number| *number = number.wrapping_add(1));
    }

    fn edits(&self, changes: Vec<switchboard::Change>) -> Vec<NamedEdit> {
        let prefix = moving::prefix(&self.id);
        let edit = |change: switchboard::Change| NamedEdit {
            table: Named::Committee,
            key: format!("{prefix}{}", ckks::Hex(&change.key)),
            value: change.value,
        };
        changes.into_iter().map(edit).collect()
    }

    /// The longest session.
    pub(crate) fn session_body(&self) -> BodyLimit {
        let threshold = self.sharing.threshold();
        let (keys, members) = (self.sharing.subsets().len(), usize::from(threshold.members()));
        BodyLimit { bytes: 32 * keys + members * (2048 + 32 * keys) + 64, content: Content::Binary }
    }

    /// What a member of this committee asks, if it has signed the request.
    fn polls(&self, member: u8, body: &[u8]) -> Result<Option<Poll>, crate::Error> {
        let poll = signed_poll(&self.manifest.manifest, member, body)?;
        match poll {
            Some(poll) if unix_now().abs_diff(poll.time) > MOST_SKEW => Err(CommitteeError::Poll.into()),
            poll => Ok(poll),
        }
    }

    /// Takes what a member says, and waits for what it is told.
    async fn rounds(self: Arc<Self>, member: u8, poll: Poll) -> Result<Reply, crate::Error> {
        let Poll { nonce, after, first, said, .. } = poll;
        let committee = self.clone();
        let taken = tokio::task::spawn_blocking(move || committee.hear(member, nonce, first, said)).await;
        taken.map_err(|_| crate::Error::Broken("a computation panicked"))??;
        let (mut changed, until) = (self.changed.subscribe(), tokio::time::Instant::now() + LONGEST_WAIT);
        loop {
            if let Some(to) = self.moved.get() {
                return Err(CommitteeError::Moved { to: to.clone() }.into());
            }
            let told = lock(&self.desk).board.tell(member, after);
            let last = timeout_at(until, async {
                match told.is_empty() {
                    true => changed.changed().await.is_ok(),
                    false => false,
                }
            });
            match last.await {
                Ok(true) => {}
                _ => return Ok(Reply::Binary(told_bytes(&told)?)),
            }
        }
    }

    fn hear(
        &self,
        member: u8,
        nonce: [u8; 32],
        first: u64,
        said: Vec<shares::talk::FromMember>,
    ) -> Result<(), crate::Error> {
        let now = Instant::now();
        let known = lock(&self.desk).heard.get(&member).filter(|(known, _)| *known == nonce).map(|(_, n)| *n);
        let (next, end) = (known.unwrap_or(0), first.saturating_add(said.len() as u64));
        self.with(|board| {
            board.comes(member, nonce, now);
            // A request that came twice is heard once.
            let fresh = (first..).zip(said).filter(|(number, _)| *number >= next);
            let before = (board.liars().clone(), board.disputed());
            fresh.for_each(|(_, said)| board.says(member, said, now));
            if before != (board.liars().clone(), board.disputed()) {
                let (erred, disputed) = (board.liars(), board.disputed());
                tracing::warn!(?erred, ?disputed, "members of the committee were seen to err");
            }
            Ok(())
        })?;
        lock(&self.desk).heard.insert(member, (nonce, next.max(end)));
        Ok(())
    }

    /// Takes a session of a device, and waits for the receipts of members.
    pub(crate) async fn session(&self, body: &[u8]) -> Result<Reply, crate::Error> {
        let session: Session = from_bytes(body)?;
        let id: SessionId = self.with(|board| board.session(session))?;
        let (mut changed, until) = (self.changed.subscribe(), tokio::time::Instant::now() + self.waits);
        loop {
            let receipts = lock(&self.desk).board.receipts(&id)?.cloned();
            if let Some(receipts) = receipts {
                return Ok(Reply::Binary(to_bytes(&receipts)?));
            }
            if timeout_at(until, changed.changed()).await.is_err() {
                return Err(self.missing());
            }
        }
    }

    /// Who is here.
    pub(crate) fn presence(&self) -> MembersPresent {
        let threshold = self.sharing.threshold();
        let desk = lock(&self.desk);
        let liars = desk.board.liars();
        MembersPresent {
            here: desk.board.here(),
            needed: threshold.needed(),
            members: threshold.members(),
            erred: (1..=threshold.members()).map(|of| liars.get(&of).copied().unwrap_or(0)).collect(),
            disputed: desk.board.disputed(),
        }
    }

    /// Those who are here, for devices that wait for them.
    pub(crate) fn members_here(&self) -> MembersHere {
        let here = lock(&self.desk).board.here();
        MembersHere { here, needed: self.sharing.threshold().needed() }
    }

    fn missing(&self) -> crate::Error {
        let MembersHere { here, needed } = self.members_here();
        CommitteeError::Members { here, needed }.into()
    }
}

/// What a member of the committee of this manifest asks, if it has signed the request.
fn signed_poll(manifest: &Manifest, member: u8, body: &[u8]) -> Result<Option<Poll>, crate::Error> {
    let SignedPoll { poll, signature } = from_bytes(body)?;
    let card = usize::from(member).checked_sub(1).and_then(|at| manifest.proposal.cards.get(at));
    let signed = polled(&manifest.id(), member, &poll);
    match card.filter(|card| envelope::verify(&card.signing, POLL, &signed, &signature).is_ok()) {
        Some(_) => Ok(Some(from_bytes(&poll)?)),
        None => Ok(None),
    }
}

/// What a creation asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// The linear bandit.
    linear: LinearConfig,
    /// The least number of sessions whose feedback a batch has.
    #[serde(default = "default_sessions")]
    sessions: u16,
    /// The most decisions of a session between two batches.
    #[serde(default = "default_decisions")]
    decisions_a_session: u16,
    /// Whether arms are counted, and how many feedbacks members open together.
    #[serde(default)]
    counters: Option<Counters>,
    /// The least and the largest reward, to which devices hold themselves.
    #[serde(default)]
    rewards: Option<[f64; 2]>,
}

fn default_sessions() -> u16 {
    8
}

fn default_decisions() -> u16 {
    32
}

impl Asked {
    /// The bandit of this id, 16 bytes in hexadecimal digits.
    fn definition(&self, id: &str, founder: [u8; 32]) -> Result<Definition, crate::Error> {
        let bad = |why: String| crate::Error::BadConfig { why };
        let narrow = |size: usize| u16::try_from(size).map_err(|_| bad("it is too large".into()));
        let config = serde_json::to_string(&self.linear).map_err(|error| bad(error.to_string()))?;
        let nonce = wire::from_hex(id);
        let counters = match self.counters {
            Some(Counters { rho: Some(_), .. }) => {
                return Err(bad(
                    "counters.rho (--counters-rho): a bandit of a committee has none, since its members add no noise".into(),
                ));
            }
            // What does not fit is larger than any group.
            Some(Counters { every, .. }) => Some(every.try_into().unwrap_or(u32::MAX)),
            None => None,
        };
        let counters = counters.map(|every| shares::talk::Counters { every });
        let sound = |[low, high]: [f64; 2]| -1.0 <= low && low < high && high <= 1.0;
        if self.rewards.is_some_and(|range| !sound(range)) {
            return Err(bad(
                "rewards (--rewards) must be the least and the largest reward, from -1 to 1".into()
            ));
        }
        Ok(Definition {
            features: narrow(self.linear.d)?,
            arms: narrow(self.linear.k)?,
            config,
            rules: Rules { sessions: self.sessions, decisions: self.decisions_a_session },
            counters,
            rewards: self.rewards.map(|range| range.map(wire::steps)),
            founder,
            nonce: nonce.ok_or(crate::Error::Broken("an id that is not 16 bytes"))?,
        })
    }
}

/// The messages that a member is told, as many as fit.
fn told_bytes(told: &[(u64, Arc<ToMember>)]) -> Result<Vec<u8>, crate::Error> {
    let (mut messages, mut bytes) = (vec![], 0);
    for (number, message) in told {
        let message = to_bytes(&**message)?;
        if bytes > 0 && bytes + message.len() > MOST_TOLD {
            break;
        }
        bytes += message.len();
        messages.push((*number, message));
    }
    Ok(to_bytes(&messages)?)
}

/// A bandit of a committee.
pub(crate) struct CommitteeServed {
    committees: Arc<Committees>,
    definition: Definition,
}

impl CommitteeServed {
    fn new(committees: Arc<Committees>, definition: Definition) -> Self {
        CommitteeServed { committees, definition }
    }

    /// The committee that serves it, and its id there.
    fn at(&self) -> (Arc<Committee>, BanditId) {
        let committee = self.committees.serving();
        let id = self.definition.id(&committee.id);
        (committee, id)
    }

    /// Its id in paths.
    pub(crate) fn path_id(&self) -> String {
        ckks::Hex(&self.definition.nonce).to_string()
    }

    /// The answer to its creation request.
    pub(crate) fn created(&self) -> Listed {
        Listed::Committee(Box::new(self.shown()))
    }

    fn shown(&self) -> CommitteeBandit {
        CommitteeBandit::new(self.path_id(), &self.committees.serving().id, &self.definition)
    }

    /// Its public state.
    pub(crate) fn view(&self) -> Result<CommitteeBanditView, crate::Error> {
        let (committee, id) = self.at();
        let members = committee.members_here();
        let desk = lock(&committee.desk);
        let view = desk.board.view(&id)?;
        Ok(CommitteeBanditView {
            created: self.shown(),
            updates: view.updates,
            feedbacks: view.feedbacks,
            decisions: view.decisions,
            waiting: view.waiting,
            unlearnt: view.unlearnt,
            open: view.open,
            slots: view.slots,
            members,
        })
    }

    /// Its counters, of whole groups of feedbacks.
    pub(crate) fn counters(&self) -> Result<Reply, crate::Error> {
        if self.definition.counters.is_none() {
            return Err(crate::Error::NoCounters { id: self.path_id() });
        }
        let (committee, id) = self.at();
        let desk = lock(&committee.desk);
        let opened = desk.board.view(&id)?.opened;
        Reply::json(&CommitteeCounters::new(self.definition.arms.into(), opened))
    }

    /// The longest body of a decision request.
    pub(crate) fn decision_body(&self) -> BodyLimit {
        let members = usize::from(self.committees.serving().sharing.threshold().members());
        // The features of a row, and three squares.
        let numbers = usize::from(self.definition.arms) * (usize::from(self.definition.features) + 3);
        BodyLimit { bytes: 48 + 16 * members + 8 * numbers, content: Content::Binary }
    }

    /// The longest body of a feedback.
    pub(crate) fn feedback_body(&self) -> BodyLimit {
        let members = usize::from(self.committees.serving().sharing.threshold().members());
        BodyLimit { bytes: 80 + 16 * members, content: Content::Binary }
    }

    /// Makes a decision.
    pub(crate) async fn decide(&self, body: Vec<u8>) -> Result<Reply, crate::Error> {
        let (sender, receiver) = oneshot::channel();
        let (committee, id) = self.at();
        let ticket = committee.at_desk(|desk| {
            let ticket = desk.board.ask(&id, body, Instant::now())?;
            desk.waiting.insert(ticket, sender);
            Ok(ticket)
        })?;
        let waits = Waits(&committee, ticket);
        let decision = tokio::time::timeout(committee.waits, receiver).await;
        let decision = match decision {
            Ok(Ok(decision)) => decision?,
            _ => return Err(committee.missing()),
        };
        drop(waits);
        let Decision { label, round, place, answers } = decision;
        Ok(Reply::Binary(to_bytes(&Answered { decision: label, round, place, answers })?))
    }

    /// Takes a feedback, which is durable when this returns.
    pub(crate) fn feedback(
        &self,
        (decision, session): (&[u8; 32], Option<SessionId>),
        body: Vec<u8>,
    ) -> Result<Reply, crate::Error> {
        let (committee, id) = self.at();
        committee.with(|board| {
            session.map_or(Ok(()), |session| board.check_session(&id, decision, &session))?;
            board.feedback(&id, body, Instant::now())
        })?;
        Reply::json(&serde_json::json!({ "counted": true }))
    }

    /// Has a feedback erased.
    pub(crate) fn erase(
        &self,
        (decision, session): (&[u8; 32], Option<SessionId>),
        erasure: Vec<u8>,
    ) -> Result<Reply, crate::Error> {
        let (committee, id) = self.at();
        let learnt = committee.with(|board| {
            session.map_or(Ok(()), |session| board.check_session(&id, decision, &session))?;
            board.erase(&id, decision, erasure, Instant::now())
        })?;
        Reply::json(&CommitteeErasure { erased: true, learnt })
    }

    /// Its numbers.
    pub(crate) fn measured(&self) -> Result<Measured, crate::Error> {
        let view = self.view()?;
        Ok(Measured {
            id: self.path_id(),
            kind: "committee",
            policy: "helba".into(),
            features: Some(self.definition.features.into()),
            arms: self.definition.arms.into(),
            round: view.decisions,
            feedbacks: view.feedbacks,
            batches: Some(view.updates),
            open: view.open as u64,
            max_open: None,
            users_waiting: Some(view.waiting),
            levels: None,
            privacy: None,
            awaited: vec![],
        })
    }

    /// Deletes the bandit.
    pub(crate) fn delete(&self) -> Result<(), crate::Error> {
        let (committee, id) = self.at();
        committee.with(|board| board.delete(&id))
    }
}
