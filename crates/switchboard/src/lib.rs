//! What a server does for a committee on shares: it begins runs, hands on what members say, adds up what they
//! prepare, and keeps what they have certified.
//!
//! Nothing here has to be trusted with more than that it answers: numbers are under masks, members check what
//! they are shown, and devices check what members answer. Nothing here does I/O: what must survive a restart
//! is a [`Change`], which is stored before what was asked for is acknowledged.

mod bandit;
mod error;
mod moving;
mod run;
mod seats;

pub use bandit::Decision;
use bandit::{Bandit, choice, choices};
pub use error::Error;
pub use moving::carry;
use moving::{Arrived, Leaving};
use run::{Done, Run, Vote, Work};
use seats::Seats;
use serde::{Deserialize, Serialize};
use shares::talk::{
    Ballot, BanditId, COMMIT, Checkpoint, Counted, Definition, FromMember, Played, RECEIPT, REMEMBERED,
    Remembered, RunId, Signatures, Tags, ToMember, from_bytes, to_bytes,
};
use shares::{DecisionState, Feedback, Label, MAC_BYTES, Manifest, Request, Session, SessionId, Threshold};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

/// For so long a member that was seen to err takes no part where others can do without it.
const APART: Duration = Duration::from_secs(600);

/// Names a request of a device that waits for its decision.
pub type Ticket = u64;

/// What a server chooses.
#[derive(Debug, Clone)]
pub struct Options {
    /// After so long without a message a member is left out, or a run begins again.
    pub patience: Duration,
    /// The slots for decisions that each bandit has in stock.
    pub stock: u32,
    /// The most requests that wait.
    pub most_waiting: usize,
    /// The most sessions.
    pub most_sessions: usize,
    /// The most decisions of a bandit that wait for feedback.
    pub most_open: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            patience: Duration::from_secs(5),
            stock: 32,
            most_waiting: 10_000,
            most_sessions: 100_000,
            most_open: 100_000,
        }
    }
}

/// What must be stored: a value under a key, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Vec<u8>,
    /// The value; none if it goes.
    pub value: Option<Vec<u8>>,
}

/// What is stored, by kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Key {
    Session(SessionId),
    Bandit(BanditId),
    Checkpoint(BanditId),
    Votes(BanditId),
    Played(BanditId, [u8; 32]),
    State(BanditId, [u8; 32]),
    Arrived,
    Named,
}

/// A session that members have read.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Known {
    session: Session,
    /// The receipts of members.
    receipts: Signatures,
    /// The members who refuse it.
    refused: BTreeSet<u8>,
    /// Rises with each use of any session since the start.
    #[serde(skip)]
    used: u64,
}

/// The switchboard of a committee.
pub struct Switchboard {
    threshold: Threshold,
    /// The verifying keys of members.
    keys: Vec<Vec<u8>>,
    committee: [u8; 32],
    options: Options,
    seats: Seats,
    sessions: HashMap<SessionId, Known>,
    /// The uses of sessions since the start.
    uses: u64,
    bandits: BTreeMap<BanditId, Bandit>,
    runs: HashMap<RunId, Run>,
    /// The number of the last batch of slots that members were asked for.
    number: u64,
    next_ticket: Ticket,
    /// What has become of requests, until somebody takes it.
    outcomes: HashMap<Ticket, Result<Decision, Error>>,
    changes: Vec<Change>,
    /// The members who were seen to err, and how often.
    liars: BTreeMap<u8, u64>,
    /// When a member was last seen to err, who is both of a pair, and when a pair was seen that disagrees on
    /// its key: none of those before the start, until time is told.
    apart: BTreeMap<(u8, u8), Option<Instant>>,
    /// The members who leave for the next committee.
    leaving: Leaving,
    /// That the committee before has left.
    arrived: Option<Arrived>,
}

impl Switchboard {
    /// The switchboard of a committee with what was stored. `number` is above those of all batches that
    /// members were asked for, such as the nanoseconds since 1970.
    ///
    /// # Errors
    /// [`Error::Stored`] for what cannot be read.
    pub fn open(
        manifest: &Manifest,
        options: Options,
        stored: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
        number: u64,
    ) -> Result<Self, Error> {
        let threshold = manifest.proposal.threshold;
        let mut board = Switchboard {
            seats: Seats::new(threshold.members(), number),
            threshold,
            keys: manifest.proposal.cards.iter().map(|card| card.signing.clone()).collect(),
            committee: manifest.id(),
            options,
            sessions: HashMap::new(),
            uses: 0,
            bandits: BTreeMap::new(),
            runs: HashMap::new(),
            number,
            next_ticket: 0,
            outcomes: HashMap::new(),
            changes: vec![],
            liars: BTreeMap::new(),
            apart: BTreeMap::new(),
            leaving: Leaving::default(),
            arrived: None,
        };
        // In the order of kinds, so that bandits are there before what belongs to them.
        let read = |(key, value): (Vec<u8>, Vec<u8>)| Ok((from_bytes::<Key>(&key)?, value));
        let stored: Result<BTreeMap<Key, Vec<u8>>, shares::Error> = stored.into_iter().map(read).collect();
        for (key, value) in stored.map_err(|_| Error::Stored)? {
            board.restore(key, &value).map_err(|_| Error::Stored)?;
        }
        Ok(board)
    }

    fn restore(&mut self, key: Key, value: &[u8]) -> Result<(), Error> {
        match key {
            // A bandit that was deleted has left it.
            Key::Checkpoint(id) | Key::Votes(id) | Key::Played(id, _) | Key::State(id, _)
                if !self.bandits.contains_key(&id) =>
            {
                self.remove(&key)?;
            }
            Key::Session(id) => drop(self.sessions.insert(id, from_bytes(value)?)),
            Key::Bandit(id) => drop(self.bandits.insert(id, Bandit::new(from_bytes(value)?)?)),
            Key::Checkpoint(id) => {
                self.bandits.get_mut(&id).ok_or(Error::Stored)?.certified = Some(from_bytes(value)?);
            }
            Key::Votes(id) => {
                self.bandits.get_mut(&id).ok_or(Error::Stored)?.voted = Some(from_bytes(value)?);
            }
            Key::Played(id, label) => {
                let stored = from_bytes(value)?;
                self.bandits.get_mut(&id).ok_or(Error::Stored)?.restore_row(label, stored);
            }
            Key::State(id, label) => {
                let state: Option<[u8; 32]> = from_bytes(value)?;
                self.bandits.get_mut(&id).ok_or(Error::Stored)?.restore_state(&label, state)?;
            }
            Key::Arrived => self.arrived = Some(from_bytes(value)?),
            Key::Named => {
                let pairs: Vec<(u8, u8)>;
                (self.liars, pairs) = from_bytes(value)?;
                self.apart = pairs.into_iter().map(|pair| (pair, None)).collect();
            }
        }
        Ok(())
    }

    fn put(&mut self, key: &Key, value: &impl Serialize) -> Result<(), Error> {
        self.changes.push(Change { key: to_bytes(key)?, value: Some(to_bytes(value)?) });
        Ok(())
    }

    fn remove(&mut self, key: &Key) -> Result<(), Error> {
        self.changes.push(Change { key: to_bytes(key)?, value: None });
        Ok(())
    }

    /// What is to be stored since the last call, in this order and at once.
    pub fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The members who are here, and do not leave for another committee.
    pub fn here(&self) -> Vec<u8> {
        let mut here = self.seats.here();
        here.retain(|member| !self.leaving.leaves(*member));
        here
    }

    /// The members who were seen to err, in how many runs.
    pub fn liars(&self) -> &BTreeMap<u8, u64> {
        &self.liars
    }

    /// Pairs of members who have disagreed on a seed that they have in common: one of them lies.
    pub fn disputed(&self) -> Vec<(u8, u8)> {
        self.apart.keys().copied().filter(|(a, b)| a != b).collect()
    }

    /// Members were seen to err, or pairs to disagree.
    fn name(&mut self, liars: &[u8], disputed: &[(u8, u8)], now: Instant) {
        if liars.is_empty() && disputed.is_empty() {
            return;
        }
        liars.iter().for_each(|member| *self.liars.entry(*member).or_default() += 1);
        for pair in liars.iter().map(|member| (*member, *member)).chain(disputed.iter().copied()) {
            let before = self.apart.insert(pair, Some(now)).flatten();
            if before.is_none_or(|at| now.saturating_duration_since(at) >= APART) {
                // Others try now.
                self.bandits.values_mut().for_each(|bandit| bandit.failed = 0);
            }
        }
        // A failure would be one of memory; they are named again after a restart then.
        let pairs: Vec<&(u8, u8)> = self.apart.keys().collect();
        let named = to_bytes(&(&self.liars, pairs)).ok();
        if let (Ok(key), Some(named)) = (to_bytes(&Key::Named), named) {
            self.changes.push(Change { key, value: Some(named) });
        }
    }

    /// The most of those who are here of whom none was seen to err lately and no two disagree. All of them
    /// where these are too few, so that a wrong word against a member stops nobody.
    fn trusted(&self, here: Vec<u8>, now: Instant) -> Vec<u8> {
        let lately = |at: &Option<Instant>| at.is_none_or(|at| now.saturating_duration_since(at) < APART);
        let apart: Vec<(u8, u8)> =
            self.apart.iter().filter(|(_, at)| lately(at)).map(|(pair, _)| *pair).collect();
        let none = |set: &Vec<u8>| !apart.iter().any(|(a, b)| set.contains(a) && set.contains(b));
        let sizes = (self.threshold.needed()..=here.len()).rev();
        let mut sets = sizes.flat_map(|size| {
            let here = &here;
            (0..choices(here.len(), size)).map(move |number| choice(here, size, number))
        });
        if apart.is_empty() { here } else { sets.find(none).unwrap_or(here) }
    }

    /// Takes a session. It serves once enough members have read it ([`Switchboard::receipts`]). If there are
    /// as many as there is room for, those that were not used for the longest time are forgotten, but for
    /// those of requests and of feedback that wait: their devices begin them again.
    ///
    /// # Errors
    /// [`Error::Request`] for one of another form; [`Error::Full`] if all wait.
    pub fn session(&mut self, session: Session) -> Result<SessionId, Error> {
        if !session.fits(self.threshold) {
            return Err(shares::Error::Form { what: "a session with this committee" }.into());
        }
        let id = session.id();
        self.uses += 1;
        if let Some(known) = self.sessions.get_mut(&id) {
            known.used = self.uses;
            return Ok(id);
        }
        let most = self.options.most_sessions;
        if self.sessions.len() >= most {
            self.forget_sessions()?;
        }
        if self.sessions.len() >= most {
            return Err(Error::Full { what: "sessions", most });
        }
        self.seats.tell_session(&session, id);
        let known = Known { session, receipts: vec![], refused: BTreeSet::new(), used: self.uses };
        self.sessions.insert(id, known);
        Ok(id)
    }

    /// Forgets a sixteenth of the sessions.
    fn forget_sessions(&mut self) -> Result<(), Error> {
        let waiting = self.bandits.values().flat_map(Bandit::waiting_sessions);
        let waits: HashSet<SessionId> = waiting.chain(self.runs.values().flat_map(Run::sessions)).collect();
        let idle = self.sessions.iter().filter(|(id, _)| !waits.contains(*id));
        let mut idle: Vec<(u64, SessionId)> = idle.map(|(id, known)| (known.used, *id)).collect();
        idle.sort_unstable();
        idle.truncate(self.options.most_sessions.div_ceil(16));
        let gone: Vec<SessionId> = idle.into_iter().map(|(_, id)| id).collect();
        for id in &gone {
            self.sessions.remove(id);
            self.remove(&Key::Session(*id))?;
        }
        self.seats.forget_sessions(&gone);
        Ok(())
    }

    /// Refuses what a device of this session asks about a decision that another one has asked for. Ids of
    /// sessions are no secrets: members check what a device has signed, and this tells it in time.
    ///
    /// # Errors
    /// [`Error::OtherSession`]; [`Error::Bandit`] and [`Error::Decision`] for what is not known.
    pub fn check_session(&self, id: &BanditId, label: &[u8; 32], session: &SessionId) -> Result<(), Error> {
        let bandit = self.bandits.get(id).ok_or(Error::Bandit)?;
        let row = bandit.row(label).ok_or(Error::Decision)?;
        if row.played.session == *session { Ok(()) } else { Err(Error::OtherSession) }
    }

    /// The device of a decision's session needs it.
    fn uses_of(&mut self, id: &BanditId, decision: &[u8; 32]) -> Result<(), Error> {
        let bandit = self.bandits.get(id).ok_or(Error::Bandit)?;
        let session = bandit.row(decision).ok_or(Error::Decision)?.played.session;
        self.uses(&session)
    }

    /// The device of a session needs it.
    fn uses(&mut self, id: &SessionId) -> Result<(), Error> {
        self.uses += 1;
        self.sessions.get_mut(id).ok_or(Error::Session)?.used = self.uses;
        Ok(())
    }

    /// The receipts of a session, if enough members have signed it; none while it waits.
    ///
    /// # Errors
    /// [`Error::Session`] for one that is not known, or that so many members refuse that it never serves.
    pub fn receipts(&self, id: &SessionId) -> Result<Option<&Signatures>, Error> {
        let known = self.sessions.get(id).ok_or(Error::Session)?;
        if known.receipts.len() >= self.threshold.needed() {
            return Ok(Some(&known.receipts));
        }
        let left = usize::from(self.threshold.members()).saturating_sub(known.refused.len());
        if left < self.threshold.needed() { Err(Error::Session) } else { Ok(None) }
    }

    /// Creates a bandit.
    ///
    /// # Errors
    /// [`Error::Definition`]; [`Error::Leaves`].
    pub fn create(&mut self, definition: Definition) -> Result<BanditId, Error> {
        if self.leaves_for().is_some() {
            return Err(Error::Leaves);
        }
        self.takes(definition)
    }

    /// Takes a bandit that was created, here or with the committee before.
    fn takes(&mut self, definition: Definition) -> Result<BanditId, Error> {
        let id = definition.id(&self.committee);
        if self.bandits.contains_key(&id) {
            return Ok(id);
        }
        // One that is refused leaves nothing in the store, which it would keep from being read.
        let bandit = Bandit::new(definition.clone())?;
        self.put(&Key::Bandit(id), &definition)?;
        self.bandits.insert(id, bandit);
        self.seats.tell_all(&ToMember::Bandit(definition));
        self.go_on(Instant::now());
        Ok(id)
    }

    /// Deletes a bandit and all that belongs to it.
    ///
    /// # Errors
    /// [`Error::Bandit`].
    pub fn delete(&mut self, id: &BanditId) -> Result<(), Error> {
        let bandit = self.bandits.remove(id).ok_or(Error::Bandit)?;
        for key in [Key::Bandit(*id), Key::Checkpoint(*id), Key::Votes(*id)] {
            self.remove(&key)?;
        }
        for label in bandit.labels() {
            self.remove(&Key::Played(*id, label))?;
            self.remove(&Key::State(*id, label))?;
        }
        for ticket in bandit.tickets() {
            self.outcomes.insert(ticket, Err(Error::Bandit));
        }
        let of = |(run, of): (&RunId, &Run)| (of.bandit == *id).then_some(*run);
        let runs: Vec<RunId> = self.runs.iter().filter_map(of).collect();
        runs.into_iter().for_each(|run| self.give_up(run));
        Ok(())
    }

    /// A bandit's definition and checkpoint.
    ///
    /// # Errors
    /// [`Error::Bandit`].
    pub fn view(&self, id: &BanditId) -> Result<View<'_>, Error> {
        let bandit = self.bandits.get(id).ok_or(Error::Bandit)?;
        Ok(View {
            definition: &bandit.definition,
            updates: bandit.certified.as_ref().map_or(0, |(checkpoint, ..)| checkpoint.number),
            feedbacks: bandit.feedbacks(),
            decisions: bandit.round,
            waiting: bandit.waiting.len(),
            unlearnt: bandit.unlearnt(),
            open: bandit.open(),
            opened: bandit.certified.as_ref().map_or(&[], |(checkpoint, ..)| &checkpoint.opened),
            slots: bandit.slots(),
        })
    }

    /// Asks for a decision.
    ///
    /// # Errors
    /// [`Error::Bandit`], [`Error::Session`], [`Error::Request`], [`Error::Full`].
    pub fn ask(&mut self, id: &BanditId, bytes: Vec<u8>, now: Instant) -> Result<Ticket, Error> {
        let request = Request::from_bytes(&bytes, self.threshold.members())?;
        if self.receipts(&request.session)?.is_none() {
            return Err(Error::Session);
        }
        self.uses(&request.session)?;
        let waiting: usize = self.bandits.values().map(|bandit| bandit.waiting.len()).sum();
        if waiting >= self.options.most_waiting {
            return Err(Error::Full { what: "requests that wait", most: self.options.most_waiting });
        }
        let ticket = self.next_ticket + 1;
        let bandit = self.bandits.get_mut(id).ok_or(Error::Bandit)?;
        bandit.ask(ticket, request, bytes)?;
        self.next_ticket = ticket;
        self.go_on(now);
        Ok(ticket)
    }

    /// What has become of a request; none while it waits. It is there once.
    pub fn outcome(&mut self, ticket: Ticket) -> Option<Result<Decision, Error>> {
        self.outcomes.remove(&ticket)
    }

    /// What has become of all requests that no longer wait.
    pub fn outcomes(&mut self) -> HashMap<Ticket, Result<Decision, Error>> {
        std::mem::take(&mut self.outcomes)
    }

    /// The bandits.
    pub fn definitions(&self) -> impl Iterator<Item = (BanditId, &Definition)> {
        self.bandits.iter().map(|(id, bandit)| (*id, &bandit.definition))
    }

    /// Nobody waits for this request any more.
    pub fn forget(&mut self, ticket: Ticket) {
        self.outcomes.remove(&ticket);
        self.bandits.values_mut().for_each(|bandit| bandit.forget(ticket));
    }

    /// Takes the feedback on a decision. The same bytes may be sent again.
    ///
    /// # Errors
    /// [`Error::Bandit`], [`Error::Request`]; [`Error::Session`] for a decision of a session that is
    /// forgotten; [`Error::Decision`] for a decision that is not known, or was told another feedback.
    pub fn feedback(&mut self, id: &BanditId, bytes: Vec<u8>, now: Instant) -> Result<(), Error> {
        let feedback = Feedback::from_bytes(&bytes, self.threshold.members())?;
        self.uses_of(id, &feedback.decision)?;
        let bandit = self.bandits.get_mut(id).ok_or(Error::Bandit)?;
        if let Some(stored) = bandit.feedback(&feedback.decision, bytes)? {
            self.put(&Key::Played(*id, feedback.decision), &stored)?;
            self.go_on(now);
        }
        Ok(())
    }

    /// Has a feedback erased that was counted, or takes back one that was not. Whether the model has it until
    /// the next update.
    ///
    /// # Errors
    /// [`Error::Request`] for what is no MAC for each member; [`Error::Bandit`]; [`Error::Session`],
    /// [`Error::Decision`], as [`Switchboard::feedback`].
    pub fn erase(
        &mut self,
        id: &BanditId,
        label: &[u8; 32],
        request: Vec<u8>,
        now: Instant,
    ) -> Result<bool, Error> {
        self.uses_of(id, label)?;
        if request.len() != MAC_BYTES * usize::from(self.threshold.members()) {
            return Err(shares::Error::Form { what: "what has a feedback erased" }.into());
        }
        let bandit = self.bandits.get_mut(id).ok_or(Error::Bandit)?;
        let stored = bandit.erase(label, request)?;
        match &stored {
            Some(stored) => self.put(&Key::Played(*id, *label), stored)?,
            None => self.remove(&Key::Played(*id, *label))?,
        }
        self.go_on(now);
        Ok(stored.is_some())
    }

    /// A member has come, with what it has drawn at its start. If that is new, it has forgotten its slots and
    /// runs.
    pub fn comes(&mut self, member: u8, nonce: [u8; 32], now: Instant) {
        if !self.seats.comes(member, nonce, now) {
            return;
        }
        self.seats.tell(member, ToMember::Begin);
        self.leaving.comes(member);
        self.lose(member);
        for bandit in self.bandits.values_mut() {
            bandit.forgot.remove(&member);
        }
        for bandit in self.bandits.values() {
            self.seats.tell(member, ToMember::Bandit(bandit.definition.clone()));
            if let Some((checkpoint, ballot, commits)) = &bandit.certified {
                let checkpoint = Box::new(checkpoint.clone());
                self.seats.tell(member, ToMember::Checkpoint(checkpoint, *ballot, commits.clone()));
            }
            if let Some(voted) = &bandit.voted {
                self.seats.tell(member, ToMember::Votes(voted.ballot, voted.votes.clone()));
            }
        }
        if let Some(arrived) = &self.arrived {
            self.seats.tell(member, arrived.message());
        }
        self.ask_for_others(member);
        // Sessions that it has not signed for; it gets others when they are used.
        for (id, known) in &self.sessions {
            if !known.receipts.iter().any(|(other, _)| *other == member) {
                self.seats.tell_session_to(member, &known.session, *id);
            }
        }
        self.go_on(now);
    }

    /// A member was put back: all others are asked for what they remember.
    fn forgot(&mut self, member: u8, id: BanditId) {
        let (Some(nonce), Some(bandit)) = (self.seats.nonce(member), self.bandits.get_mut(&id)) else {
            return;
        };
        bandit.forgot.insert(member, BTreeMap::new());
        let others: Vec<u8> = (1..=self.threshold.members()).filter(|other| *other != member).collect();
        self.seats.tell_some(&others, ToMember::Remember { bandit: id, nonce });
    }

    /// A member that has come is asked for what those wait for who were put back.
    fn ask_for_others(&mut self, member: u8) {
        for (id, bandit) in &self.bandits {
            let nonces = bandit.forgot.keys().filter_map(|other| self.seats.nonce(*other));
            for nonce in nonces.collect::<Vec<_>>() {
                self.seats.tell(member, ToMember::Remember { bandit: *id, nonce });
            }
        }
    }

    /// What a member remembers goes to the one that waits for it, once enough have said it.
    fn remembers(
        &mut self,
        member: u8,
        id: BanditId,
        nonce: &[u8; 32],
        remembered: Remembered,
        signature: Vec<u8>,
    ) {
        let right = |(ballot, commits): &(Ballot, Signatures)| {
            let signed = commits.iter().filter(|(of, s)| self.has_signed(*of, COMMIT, &ballot.bytes(), s));
            let members: BTreeSet<u8> = signed.map(|(of, _)| *of).collect();
            ballot.bandit == id && members.len() >= self.threshold.needed()
        };
        let signed = remembered.signed(&self.committee, &id, nonce);
        if !self.has_signed(member, REMEMBERED, &signed, &signature)
            || !remembered.checkpoint.as_ref().is_none_or(right)
        {
            return;
        }
        let Some(bandit) = self.bandits.get_mut(&id) else { return };
        let waits = bandit.forgot.keys().copied().find(|of| self.seats.nonce(*of).as_ref() == Some(nonce));
        let Some(waits) = waits.filter(|waits| *waits != member) else { return };
        let said = bandit.forgot.entry(waits).or_default();
        said.insert(member, (remembered, signature));
        if said.len() < self.threshold.remember() {
            return;
        }
        let said = std::mem::take(said).into_iter();
        let said = said.map(|(member, (remembered, signature))| (member, remembered, signature)).collect();
        bandit.forgot.remove(&waits);
        self.seats.tell(waits, ToMember::Remembered { bandit: id, said });
        if let Some((checkpoint, ballot, commits)) = &bandit.certified {
            let checkpoint = Box::new(checkpoint.clone());
            self.seats.tell(waits, ToMember::Checkpoint(checkpoint, *ballot, commits.clone()));
        }
        if let Some(voted) = &bandit.voted {
            self.seats.tell(waits, ToMember::Votes(voted.ballot, voted.votes.clone()));
        }
    }

    /// The runs and slots of a member are gone.
    fn lose(&mut self, member: u8) {
        let of = |(run, of): (&RunId, &Run)| of.here.contains(&member).then_some(*run);
        let runs: Vec<RunId> = self.runs.iter().filter_map(of).collect();
        runs.into_iter().for_each(|run| self.give_up(run));
        self.bandits.values_mut().for_each(|bandit| bandit.lose_member(member));
    }

    /// What a member is told next, after what it has taken. It is told all of it again until it has taken it.
    pub fn tell(&mut self, member: u8, after: u64) -> Vec<(u64, std::sync::Arc<ToMember>)> {
        self.seats.next(member, after)
    }

    /// What a member says. What does not belong to a run that goes on is of no effect.
    pub fn says(&mut self, member: u8, said: FromMember, now: Instant) {
        self.seats.heard(member, now);
        match said {
            FromMember::Receipt { session, signature } => self.receipt(member, session, signature),
            FromMember::Refused { about, .. } => {
                if let Some(known) = self.sessions.get_mut(&about)
                    && (1..=self.threshold.members()).contains(&member)
                {
                    known.refused.insert(member);
                }
            }
            FromMember::Began { number, run } => self.began(member, number, run),
            FromMember::Say { run, step, body } => {
                self.said(member, self.named(member, run), step, Work::Said(body), now);
            }
            FromMember::Add { run, step, numbers } => {
                self.said(member, self.named(member, run), step, Work::Added(numbers), now);
            }
            FromMember::Prepared { batch, good, liars, disputed } => {
                let (liars, disputed) = (liars.into_iter().collect(), disputed.into_iter().collect());
                self.prepared(member, batch, Done { good, liars, disputed });
            }
            FromMember::Decided { run, decisions } => self.decided(member, run, decisions),
            FromMember::Voted { run, checkpoint, ballot, signature, liars } => {
                let vote = Vote { ballot, signature, liars: liars.into_iter().collect() };
                self.voted(member, run, *checkpoint, vote, now);
            }
            FromMember::Committed { ballot, signature } => self.committed(member, ballot, signature),
            FromMember::Forgot { bandit } => self.forgot(member, bandit),
            FromMember::Remembers { bandit, nonce, remembered, signature } => {
                self.remembers(member, bandit, &nonce, *remembered, signature);
            }
            FromMember::Moves { to } => self.moves(member, to),
            FromMember::Dealt { bandit, checkpoint, dealing } => {
                self.dealt(member, bandit, checkpoint, dealing);
            }
            FromMember::Left { to, roll, signature } => self.left(member, to, roll, signature),
            FromMember::Ended { run, refused, .. } => {
                self.ended(member, self.named(member, run), &refused);
            }
        }
        self.go_on(now);
    }

    fn receipt(&mut self, member: u8, session: SessionId, signature: Vec<u8>) {
        let signed = shares::talk::receipt(&self.committee, &session);
        if !self.has_signed(member, RECEIPT, &signed, &signature) {
            return;
        }
        let Some(known) = self.sessions.get_mut(&session) else { return };
        if known.receipts.iter().any(|(other, _)| *other == member) {
            return;
        }
        known.receipts.push((member, signature));
        if known.receipts.len() >= self.threshold.needed() {
            let known = known.clone();
            // A failure would be one of memory; the session then is begun again after a restart.
            let _ = self.put(&Key::Session(session), &known);
        }
    }

    fn has_signed(&self, member: u8, context: &'static str, message: &[u8], signature: &[u8]) -> bool {
        let key = usize::from(member).checked_sub(1).and_then(|at| self.keys.get(at));
        key.is_some_and(|key| envelope::verify(key, context, message, signature).is_ok())
    }

    /// Leaves out who is silent, and begins what waits.
    pub fn tick(&mut self, now: Instant) {
        self.seats.time(now);
        self.apart.values_mut().for_each(|at| *at = at.or(Some(now)));
        let late: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, run)| now.saturating_duration_since(run.since) >= self.patience(run))
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.late(id, now);
        }
        self.go_on(now);
    }

    /// How long a step of a run may take. Once what it is for has failed with each set of members, these are
    /// slow and not silent: they have twice the time in the next turn, up to 16 times.
    fn patience(&self, run: &Run) -> Duration {
        let sets = choices(self.seats.here().len(), self.threshold.needed());
        let failed = match run.is_pack() {
            true => None,
            false => self.bandits.get(&run.bandit).map(|bandit| bandit.failed),
        };
        self.options.patience * 2u32.pow((failed.unwrap_or(0) / (sets + 1)).min(4) as u32)
    }

    /// Begins all that can begin.
    fn go_on(&mut self, now: Instant) {
        let (mut all, stay) = (self.seats.here(), self.here());
        all.retain(|member| !self.leaving.has_left(*member));
        if all.len() < self.threshold.needed() {
            return;
        }
        let ids: Vec<BanditId> = self.bandits.keys().copied().collect();
        for id in ids {
            // Who was put back has not heard yet what others remember.
            let forgot = self.bandits.get(&id).map(|bandit| bandit.forgot.keys().copied().collect());
            let forgot: Vec<u8> = forgot.unwrap_or_default();
            let knows = |here: &[u8]| -> Vec<u8> {
                here.iter().copied().filter(|member| !forgot.contains(member)).collect()
            };
            // Who leaves still learns what is due.
            let (all, here) = (self.trusted(knows(&all), now), self.trusted(knows(&stay), now));
            let enough = |here: &[u8]| here.len() >= self.threshold.needed();
            if !enough(&all) {
                continue;
            }
            if !enough(&here) {
                self.begin_update(id, &all, now);
                continue;
            }
            if self.waits_for_move(&id) {
                self.begin_take(id, &here, now);
                continue;
            }
            while self.begin_pack(id, &here, now) {}
            self.prepare_stock(id, &here, now);
            self.begin_update(id, &all, now);
        }
        for bandit in self.bandits.values_mut() {
            for (set, batch) in bandit.gone.drain(..) {
                self.seats.tell_some(&set, ToMember::Drop { batch });
            }
        }
    }
}

/// What is public of a bandit.
pub struct View<'a> {
    /// As it was created.
    pub definition: &'a Definition,
    /// The number of updates.
    pub updates: u64,
    /// The feedbacks in its model.
    pub feedbacks: u64,
    /// The decisions.
    pub decisions: u64,
    /// The requests that wait.
    pub waiting: usize,
    /// The feedbacks that wait for the end of the batch.
    pub unlearnt: usize,
    /// The decisions that wait for feedback.
    pub open: usize,
    /// The slots in stock.
    pub slots: usize,
    /// What members have opened last of the counters, by arm; nothing before that.
    pub opened: &'a [Counted],
}

/// A checkpoint for which 2t − 1 members have voted, and what follows from it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Voted {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) ballot: Ballot,
    pub(crate) votes: Signatures,
    /// The decisions whose feedback it has learnt.
    pub(crate) added: Vec<[u8; 32]>,
    /// Those whose feedback is gone.
    pub(crate) erased: Vec<[u8; 32]>,
}

/// A checkpoint with the ballot and the signatures for it.
pub(crate) type Certified = (Checkpoint, Ballot, Signatures);

/// The row of a decision, with what became of its feedback.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) played: Played,
    pub(crate) tags: Tags,
    /// What the device has told.
    pub(crate) feedback: Option<Vec<u8>>,
    /// That the device has it erased.
    pub(crate) erasure: Option<Vec<u8>>,
    /// Where its reward is, once it was counted.
    pub(crate) learnt: Option<shares::talk::Learnt>,
}

/// A state as it is stored: a hash, or none after it was erased.
pub(crate) fn stored_state(state: DecisionState) -> Option<[u8; 32]> {
    match state {
        DecisionState::Learnt(hash) => Some(hash),
        DecisionState::Erased => None,
    }
}

/// A batch of slots in stock.
pub(crate) struct Stocked {
    pub(crate) batch: Label,
    pub(crate) set: Vec<u8>,
    /// The next slot that has not served.
    pub(crate) next: u32,
    pub(crate) count: u32,
}
