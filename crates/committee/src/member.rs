//! A member of a committee: what it reads, what it agrees to, what it shows, and what it remembers.
//!
//! The server says what is computed when ([`ToMember`]), and a member holds it to the rules of the bandit. In
//! step 0 of a run each member signs the hash of all that the run is about, and what it refuses of it. Its
//! slots are struck off before that leaves it, so that no mask serves for two inputs. Then it shows one
//! number for each step of the circuits. Nothing here does I/O but [`Memory::save`].

mod moving;

use crate::decide::{Inputs, decide};
use crate::learn::{self, Feedback, State, initial};
use crate::prepare::{self, Identity, Stock};
use crate::scalars::{Decide, Learn};
use crate::{
    Ask, CircuitId, Conversation, Error, Lane, MemberKeys, Next, Part, Plan, Reply, Run, Slot, Statement,
};
use bandit::LinearConfig;
use envelope::SealingSecret;
use rand::CryptoRng;
use shares::talk::{
    AGREED, Added, Ballot, BanditId, COMMIT, Checkpoint, Decided, Definition, Erased, FromMember, Learnt,
    MOST_ERASED, MOST_PRODUCTS, MOST_TOGETHER, Pack, Played, Prepare, Purpose, RECEIPT, REMEMBERED,
    Remembered, RunId, Signatures, SlotAt, ToMember, Update, VOTE, decision_label, from_bytes,
    products_of_a_decision, receipt, to_bytes,
};
use shares::{
    AnswerPlace, DecisionState, Field, Label, Manifest, MemberSession, Message, Nonce, Pads, Paths, Record,
    Request, Session, SessionId,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The most runs and batches of slots that a member holds.
const MOST_RUNS: usize = 256;
/// The most sessions that a member holds.
const MOST_SESSIONS: usize = 1 << 20;
/// The most products of the slots of updates that are prepared together: 128 features need half of them.
const MOST_LEARNT: u64 = 1 << 26;
/// The most bandits.
const MOST_BANDITS: usize = 1 << 12;

/// What a member keeps of a bandit while it does not run: a disk that it is put back from breaks this.
#[derive(Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Kept {
    /// The last checkpoint that members have agreed on, with who has committed to it.
    pub checkpoint: Option<(Ballot, Signatures)>,
    /// Its last vote.
    pub vote: Option<Ballot>,
    /// The ballot to which it has committed, until a checkpoint follows.
    pub lock: Option<Ballot>,
    /// That the rest may be old, since the member was put back: others remember what has happened since.
    pub restored: bool,
    /// Of the committee as a whole: the next one and the hash of the roll, once the member has left.
    pub left: Option<([u8; 32], [u8; 32])>,
}

/// Under this id a member keeps that it was put back, for bandits of which it knows nothing, and that it has
/// left.
const ALL: BanditId = [0; 32];

/// Where a member remembers.
pub trait Memory {
    /// Writes what is kept of a bandit, so that it is there after a loss of power.
    ///
    /// # Errors
    /// [`Error::Memory`].
    fn save(&mut self, bandit: &BanditId, kept: &Kept) -> Result<(), Error>;
}

/// The secrets of a member.
pub struct Secrets {
    /// Its keys.
    pub keys: Arc<MemberKeys>,
    /// What it signs with.
    pub identity: Arc<Identity>,
    /// What sessions are sealed to.
    pub sealing: SealingSecret,
}

/// A member that serves.
pub struct Member<M> {
    secrets: Secrets,
    committee: [u8; 32],
    /// The committee whose bandits this one takes over.
    follows: Option<[u8; 32]>,
    stock: Stock,
    memory: M,
    kept: BTreeMap<BanditId, Kept>,
    /// Whether it was put back once: what it does not remember of a bandit may have been.
    restored: bool,
    /// The committee to which it leaves.
    next: Option<moving::Next>,
    /// The next committee and the hash of the roll, once it has left.
    left: Option<([u8; 32], [u8; 32])>,
    /// The checkpoints at which bandits of the committee before have come, by their ids there.
    arrived: HashMap<BanditId, [u8; 32]>,
    sessions: HashMap<SessionId, Arc<MemberSession>>,
    bandits: HashMap<BanditId, Bandit>,
    batches: HashMap<Label, Stocked>,
    runs: HashMap<RunId, Running>,
}

/// Slots that were prepared and are good.
struct Stocked {
    set: Vec<u8>,
    circuit: CircuitId,
    slots: Vec<Option<Slot>>,
}

struct Bandit {
    definition: Definition,
    config: LinearConfig,
    pads: Pads,
    kept: Kept,
    /// None until the server has brought the checkpoint that the member remembers.
    current: Option<Current>,
    /// The requests of sessions that were computed since the last checkpoint. One whose run has ended early
    /// is computed again: its answers have other pads then.
    decisions: HashMap<SessionId, HashSet<Nonce>>,
}

struct Current {
    checkpoint: Checkpoint,
    hash: [u8; 32],
    state: Arc<Zeroizing<State<Field>>>,
    scalars: Arc<Decide>,
}

enum Running {
    Preparing(Preparing),
    Deciding(Box<Deciding>),
    Learning(Box<Learning>),
    Taking(Box<moving::Taking>),
}

struct Preparing {
    batch: Label,
    set: Vec<u8>,
    circuit: CircuitId,
    step: u32,
    asked: Asked,
    conversation: Conversation<Vec<Slot>>,
}

/// What a preparation waits for.
enum Asked {
    Sum,
    Show(Vec<Field>),
    Sign(Statement, Vec<u8>),
}

/// What has agreed on step 0, and what is computed then.
struct Deciding {
    pack: Pack,
    refused: Vec<u32>,
    requests: Vec<Request>,
    sessions: Vec<Option<Arc<MemberSession>>>,
    /// Of each request that is not refused the member's shares.
    rows: Vec<Option<Zeroizing<Vec<Vec<Field>>>>>,
    slots: Vec<Slot>,
    state: Arc<Zeroizing<State<Field>>>,
    scalars: Arc<Decide>,
    config: LinearConfig,
    /// The places that are computed.
    places: Vec<u32>,
    showing: Option<Showing<(Field, Record)>>,
}

struct Learning {
    update: Box<Update>,
    /// What is computed once members have agreed.
    begin: Option<Batch>,
    circuit: CircuitId,
    next: (u64, u64, u64, [u8; 32]),
    paths: Paths,
    showing: Option<Showing<Record>>,
}

impl Bandit {
    /// The number of the checkpoint that follows what the member knows.
    fn next_number(&self, committee: &[u8; 32]) -> Option<u64> {
        let arrives = self.definition.founder != *committee;
        match &self.current {
            Some(current) => Some(current.checkpoint.number + 1),
            // What comes from another committee has no beginning here.
            None => (arrives && !self.kept.restored && self.kept.checkpoint.is_none()).then_some(1),
        }
    }
}

/// What an update is computed of.
struct Batch {
    slot: Slot,
    scalars: Learn,
    state: Arc<Zeroizing<State<Field>>>,
    feedbacks: Zeroizing<Vec<Feedback<Field>>>,
}

/// What a member has signed in step 0 of a run.
struct Agreed {
    member: u8,
    /// The places that it refuses.
    refused: Vec<u32>,
}

/// Walks through a circuit without inputs.
type Circuit = Box<dyn Fn(&mut Plan) -> Result<(), Error> + Send + Sync>;

/// A run in which numbers are shown.
struct Showing<T> {
    run: Run<T>,
    step: u32,
    numbers: Vec<Field>,
}

impl<T> Showing<T> {
    fn say(&self, keys: &MemberKeys, id: RunId) -> FromMember {
        let message = keys.message(id, self.step, self.run.seen(), self.numbers.clone());
        FromMember::Say { run: id, step: self.step, body: message.to_bytes() }
    }

    /// Goes on with what others have said: a member whose message is not right is left out. Whether the run
    /// has ended.
    fn hear(&mut self, keys: &MemberKeys, id: RunId, said: &[(u8, Vec<u8>)]) -> Result<bool, Error> {
        let seen = self.run.seen();
        let read = |(member, body): &(u8, Vec<u8>)| {
            let message = Message::from_bytes(body).ok()?;
            let right = message.run == id
                && message.round == self.step
                && message.seen == seen
                && message.numbers.len() == self.numbers.len()
                && self.run.here().contains(member)
                && keys.check(*member, &message).is_ok();
            right.then_some((*member, message.numbers))
        };
        let mut shown: Vec<(u8, Vec<Field>)> = said.iter().filter_map(read).collect();
        shown.push((keys.member(), std::mem::take(&mut self.numbers)));
        shown.sort_by_key(|(member, _)| *member);
        shown.dedup_by_key(|(member, _)| *member);
        let shown: Vec<(u8, &[Field])> =
            shown.iter().map(|(member, numbers)| (*member, &numbers[..])).collect();
        self.numbers = self.run.go_on(&shown)?;
        self.step += 1;
        Ok(self.run.count() == 0)
    }
}

fn refused<T>(why: &'static str) -> Result<T, Error> {
    Err(Error::Refused(why))
}

impl<M: Memory> Member<M> {
    /// A member that has just started, with what it remembers.
    pub fn new<R: CryptoRng>(
        secrets: Secrets,
        manifest: &Manifest,
        (memory, kept): (M, BTreeMap<BanditId, Kept>),
        rng: &mut R,
    ) -> Self {
        let committee = manifest.id();
        Member {
            stock: Stock::new(&secrets.keys, committee, rng),
            secrets,
            committee,
            follows: manifest.proposal.follows,
            memory,
            restored: kept.get(&ALL).is_some_and(|kept| kept.restored),
            next: None,
            left: kept.get(&ALL).and_then(|kept| kept.left),
            arrived: HashMap::new(),
            kept,
            sessions: HashMap::new(),
            bandits: HashMap::new(),
            batches: HashMap::new(),
            runs: HashMap::new(),
        }
    }

    /// The member, which was put back from a backup, or has lost its memory: it takes no part with a bandit
    /// until it has heard from n − t + 1 others what they remember of it. To be said once, at its first start
    /// after that; it remembers it.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn restored(mut self) -> Result<Self, Error> {
        self.restored = true;
        self.kept.entry(ALL).or_default();
        for (bandit, kept) in &mut self.kept {
            kept.restored = true;
            self.memory.save(bandit, kept)?;
        }
        Ok(self)
    }

    /// What the member has drawn at its start, which the server tells the others.
    pub fn nonce(&self) -> [u8; 32] {
        self.stock.nonce()
    }

    /// How many runs and batches of slots it holds.
    #[cfg(test)]
    pub(crate) fn holds(&self) -> [usize; 2] {
        [self.runs.len(), self.batches.len()]
    }

    /// Its number.
    pub fn number(&self) -> u8 {
        self.secrets.keys.member()
    }

    /// Takes what the server tells it, and returns what it answers. What it refuses changes nothing.
    pub fn take(&mut self, message: ToMember) -> Vec<FromMember> {
        if self.left.is_some() {
            return if message == ToMember::Begin { self.says_that_it_moves() } else { vec![] };
        }
        let about = self.about(&message);
        let taken = match message {
            ToMember::Begin => {
                self.runs.clear();
                self.batches.clear();
                Ok(self.says_that_it_moves())
            }
            ToMember::Session(session) => self.session(&session),
            ToMember::Bandit(definition) => self.bandit(definition),
            ToMember::Prepare(prepare) => self.prepare(prepare),
            ToMember::Pack(pack) => self.pack(pack),
            ToMember::Update(update) => self.update(update),
            ToMember::Heard { run, step, said } => self.hear(run, step, &said),
            ToMember::Sums { run, step, sums } => self.sums(run, step, sums),
            ToMember::Votes(ballot, votes) => self.votes(ballot, &votes),
            ToMember::Checkpoint(checkpoint, ballot, commits) => {
                self.checkpoint(*checkpoint, ballot, commits)
            }
            ToMember::End { run } => {
                self.runs.remove(&run);
                // A preparation that has ended at this member alone.
                self.batches.remove(&Label::from_bytes(run));
                Ok(vec![])
            }
            ToMember::Drop { batch } => {
                self.batches.remove(&batch);
                Ok(vec![])
            }
            ToMember::Remember { bandit, nonce } => self.remember(bandit, nonce),
            ToMember::Remembered { bandit, said } => self.remembered(bandit, said),
            ToMember::Deal { bandit, checkpoint } => self.deal(bandit, checkpoint),
            ToMember::Leave(roll) => self.leave(&roll),
            ToMember::Take(take) => self.take_over(take),
            ToMember::Arrived(old, roll, signatures) => self.arrived(&old, &roll, signatures),
        };
        match (taken, about) {
            (Ok(answers), _) => answers,
            (Err(error), About::Run(run)) => {
                self.runs.remove(&run);
                vec![FromMember::Ended { run, why: error.to_string(), refused: vec![] }]
            }
            (Err(error), About::Hash(about)) => {
                vec![FromMember::Refused { about, why: error.to_string() }]
            }
        }
    }

    fn about(&self, message: &ToMember) -> About {
        match message {
            ToMember::Begin => About::Hash([0; 32]),
            ToMember::Session(session) => About::Hash(session.id()),
            ToMember::Bandit(definition) => About::Hash(definition.id(&self.committee)),
            ToMember::Prepare(prepare) => About::Run(Prepare::asked(prepare.number)),
            ToMember::Pack(pack) => About::Run(pack.run(&self.committee)),
            ToMember::Update(update) => About::Run(update.run(&self.committee)),
            ToMember::Heard { run, .. } | ToMember::Sums { run, .. } | ToMember::End { run } => {
                About::Run(*run)
            }
            ToMember::Votes(ballot, _) | ToMember::Checkpoint(_, ballot, _) => About::Hash(ballot.hash),
            ToMember::Drop { batch } => About::Hash(*batch.bytes()),
            ToMember::Remember { bandit, .. }
            | ToMember::Remembered { bandit, .. }
            | ToMember::Deal { bandit, .. } => About::Hash(*bandit),
            ToMember::Leave(roll) | ToMember::Arrived(_, roll, _) => About::Hash(roll.hash()),
            ToMember::Take(take) => About::Run(take.run(&self.committee)),
        }
    }

    fn session(&mut self, session: &Session) -> Result<Vec<FromMember>, Error> {
        if self.sessions.len() >= MOST_SESSIONS {
            return refused("the member holds as many sessions as it can");
        }
        let keys = &self.secrets.keys;
        let read = MemberSession::read(
            session,
            keys.sharing(),
            &self.committee,
            keys.member(),
            &self.secrets.sealing,
        )?;
        let id = read.id();
        self.sessions.insert(id, Arc::new(read));
        let signature = self.sign(RECEIPT, &receipt(&self.committee, &id));
        Ok(vec![FromMember::Receipt { session: id, signature }])
    }

    fn sign(&self, context: &'static str, message: &[u8]) -> Vec<u8> {
        self.secrets.identity.signing.sign(context, message).to_vec()
    }

    /// How many different members have signed this.
    fn count(&self, context: &'static str, message: &[u8], signatures: &Signatures) -> usize {
        let right = |(member, signature): &&(u8, Vec<u8>)| {
            let key = usize::from(*member).checked_sub(1);
            let key = key.and_then(|at| self.secrets.identity.members.get(at));
            key.is_some_and(|key| envelope::verify(key, context, message, signature).is_ok())
        };
        let members: HashSet<u8> =
            signatures.iter().take(64).filter(right).map(|(member, _)| *member).collect();
        members.len()
    }

    fn needed(&self) -> usize {
        self.secrets.keys.sharing().threshold().needed()
    }

    fn bandit(&mut self, definition: Definition) -> Result<Vec<FromMember>, Error> {
        let id = definition.id(&self.committee);
        let forgot =
            |kept: &Kept| if kept.restored { vec![FromMember::Forgot { bandit: id }] } else { vec![] };
        if let Some(known) = self.bandits.get(&id) {
            return Ok(forgot(&known.kept));
        }
        if self.bandits.len() >= MOST_BANDITS {
            return refused("the member holds as many bandits as it can");
        }
        let sharing = self.secrets.keys.sharing().clone();
        let config = config_of(&definition)?;
        let pads = Pads::new(&sharing, config.d)?;
        // Refuses a bandit that this committee does not compute.
        Decide::new(&config, &sharing, 1, 0, 0)?;
        let arrives = definition.founder != self.committee;
        if arrives && self.follows.is_none() {
            return refused("the bandit is another committee's, which this one does not follow");
        }
        let kept = self.kept.get(&id).cloned();
        let kept = kept.unwrap_or_else(|| Kept { restored: self.restored, ..Kept::default() });
        let said = forgot(&kept);
        let mut bandit = Bandit { definition, config, pads, current: None, decisions: HashMap::new(), kept };
        if !arrives && bandit.kept.checkpoint.is_none() && !bandit.kept.restored {
            bandit.current = Some(self.current(&bandit.config, Checkpoint::first(id))?);
        }
        self.bandits.insert(id, bandit);
        Ok(said)
    }

    /// Tells a member that was put back what this one remembers.
    fn remember(&mut self, bandit: BanditId, nonce: [u8; 32]) -> Result<Vec<FromMember>, Error> {
        let known = self.bandits.get(&bandit).ok_or(Error::Refused("the bandit is not known"))?;
        if known.kept.restored {
            return refused("the member was put back itself");
        }
        let Kept { checkpoint, vote, lock, .. } = known.kept.clone();
        let remembered = Remembered { checkpoint, vote, lock };
        let signature = self.sign(REMEMBERED, &remembered.signed(&self.committee, &bandit, &nonce));
        Ok(vec![FromMember::Remembers { bandit, nonce, remembered: Box::new(remembered), signature }])
    }

    /// Takes what others remember: the last checkpoint of all, the last lock, and no vote before the last.
    fn remembered(
        &mut self,
        bandit: BanditId,
        said: Vec<(u8, Remembered, Vec<u8>)>,
    ) -> Result<Vec<FromMember>, Error> {
        let known = self.bandits.get(&bandit).ok_or(Error::Refused("the bandit is not known"))?;
        if !known.kept.restored {
            return refused("the member was not put back");
        }
        let mut heard: BTreeMap<u8, Remembered> = BTreeMap::new();
        for (member, remembered, signature) in said.into_iter().take(64) {
            let signed = remembered.signed(&self.committee, &bandit, &self.nonce());
            let right = member != self.number()
                && !heard.contains_key(&member)
                && self.count(REMEMBERED, &signed, &vec![(member, signature)]) == 1
                && remembered.checkpoint.as_ref().is_none_or(|(ballot, commits)| {
                    ballot.bandit == bandit && self.count(COMMIT, &ballot.bytes(), commits) >= self.needed()
                });
            if right {
                heard.insert(member, remembered);
            }
        }
        let (agreed, need) = (heard.len(), self.secrets.keys.sharing().threshold().remember());
        if agreed < need {
            return Err(Error::NoAgreement { agreed, need });
        }
        let Kept { checkpoint, vote, lock, .. } = known.kept.clone();
        heard.insert(self.number(), Remembered { checkpoint, vote, lock });
        let checkpoint = heard.values().filter_map(|of| of.checkpoint.clone());
        let checkpoint = checkpoint.max_by_key(|(ballot, _)| ballot.number);
        let number = checkpoint.as_ref().map_or(0, |(ballot, _)| ballot.number).saturating_add(1);
        let next = |ballot: &Ballot| ballot.bandit == bandit && ballot.number == number;
        let lock = heard.values().filter_map(|of| of.lock).filter(next).max_by_key(|lock| lock.ballot);
        let votes = heard.values().flat_map(|of| [of.vote, of.lock]).flatten().filter(next);
        // What it has voted for itself it does not know.
        let vote = votes.max_by_key(|vote| vote.ballot).map(|vote| Ballot { hash: [0; 32], ..vote });
        let first = match checkpoint {
            None if known.definition.founder != self.committee => None,
            None => Some(self.current(&known.config, Checkpoint::first(bandit))?),
            Some(_) => None,
        };
        self.keep(bandit, Kept { checkpoint, vote, lock, ..Kept::default() })?;
        if let Some(known) = self.bandits.get_mut(&bandit) {
            known.current = first;
        }
        Ok(vec![])
    }

    /// Whether the member has signed this itself.
    fn has_signed(&self, context: &'static str, ballot: &Ballot, signatures: &Signatures) -> bool {
        let own = |(member, _): &&(u8, Vec<u8>)| *member == self.number();
        let own: Signatures = signatures.iter().filter(own).take(8).cloned().collect();
        self.count(context, &ballot.bytes(), &own) == 1
    }

    /// The member is shown what it has signed and does not remember: it was put back in silence.
    fn forgets(&mut self, bandit: BanditId, kept: Kept) -> Result<Vec<FromMember>, Error> {
        self.keep(bandit, Kept { restored: true, ..kept })?;
        if let Some(known) = self.bandits.get_mut(&bandit) {
            known.current = None;
        }
        Ok(vec![FromMember::Forgot { bandit }])
    }

    /// A checkpoint, with the member's shares of its model.
    fn current(&self, config: &LinearConfig, checkpoint: Checkpoint) -> Result<Current, Error> {
        let keys = &self.secrets.keys;
        let state = match &checkpoint.model {
            None => initial(&Learn::new(config, keys.sharing(), (0, 0), (0, 0))?),
            Some(record) => {
                let shares = Zeroizing::new(keys.record(record));
                let state = State::from_numbers(config.d, &shares);
                state.ok_or(Error::Refused("the record of the checkpoint is no model of this bandit"))?
            }
        };
        let feedbacks = checkpoint.feedbacks;
        let scalars = Decide::new(config, keys.sharing(), feedbacks.saturating_add(1), feedbacks, 0)?;
        let hash = checkpoint.hash();
        Ok(Current { checkpoint, hash, state: Arc::new(Zeroizing::new(state)), scalars: Arc::new(scalars) })
    }

    fn prepare(&mut self, asked: Prepare) -> Result<Vec<FromMember>, Error> {
        if matches!(asked.purpose, Purpose::Decide { .. }) {
            self.stays()?;
        }
        let bandit = self.bandits.get(&asked.bandit).ok_or(Error::Refused("the bandit is not known"))?;
        if self.runs.len() >= MOST_RUNS || self.batches.len() >= MOST_RUNS {
            return refused("the member has as many runs or slots as it can");
        }
        let sharing = self.secrets.keys.sharing();
        let (d, arms) = (bandit.config.d, bandit.config.k);
        // Each product that is prepared takes 32 bytes in the member's memory.
        let fits = |products: u64, most: u64| match u64::from(asked.slots).saturating_mul(products) {
            products if products <= most => Ok(()),
            _ => refused("the batch of slots has more products than the member prepares together"),
        };
        let (circuit, plan): (CircuitId, Circuit) = match asked.purpose {
            Purpose::Decide { feedbacks } => {
                let next = feedbacks.saturating_add(1);
                let scalars = Decide::new(&bandit.config, sharing, next, feedbacks, 0)?;
                fits(products_of_a_decision(d, arms), MOST_PRODUCTS)?;
                (scalars.circuit(), Box::new(move |plan| crate::decide::plan(plan, &scalars)))
            }
            Purpose::Learn { feedbacks, residual, added, erased } => {
                let counts = (u64::from(added), u64::from(erased));
                let scalars = Learn::new(&bandit.config, sharing, (feedbacks, residual), counts)?;
                fits(scalars.products(counts.0 + counts.1), MOST_LEARNT)?;
                let erases = erases(added as usize, erased as usize);
                let circuit = scalars.circuit(&erases);
                (circuit, Box::new(move |plan| learn::plan(plan, &scalars, &erases)))
            }
        };
        let set: Vec<u8> = asked.set.iter().map(|(member, _)| *member).collect();
        sharing.reader(&set)?;
        let nonces: Vec<[u8; 32]> = asked.set.iter().map(|(_, nonce)| *nonce).collect();
        let batch = self.stock.batch(circuit, &set, &nonces, asked.number, asked.slots)?;
        let label = *batch.label();
        let run = *label.bytes();
        let (keys, identity) = (self.secrets.keys.clone(), self.secrets.identity.clone());
        let walk = move |to: &mut Plan| plan(to);
        let conversation = Conversation::new(move |port| prepare::prepare(keys, identity, batch, walk, port));
        let preparing = Preparing { batch: label, set, circuit, step: 0, asked: Asked::Sum, conversation };
        self.runs.insert(run, Running::Preparing(preparing));
        let mut said = self.go_on_preparing(run, None)?;
        said.insert(0, FromMember::Began { number: asked.number, run });
        Ok(said)
    }

    fn go_on_preparing(&mut self, run: RunId, reply: Option<Reply>) -> Result<Vec<FromMember>, Error> {
        let keys = self.secrets.keys.clone();
        let Some(Running::Preparing(preparing)) = self.runs.get_mut(&run) else {
            return refused("the run is not known");
        };
        if reply.is_some() {
            preparing.step += 1;
        }
        let step = preparing.step;
        let ask = match preparing.conversation.next(reply) {
            Next::Ask(ask) => ask,
            Next::Done(done) => {
                let Some(Running::Preparing(preparing)) = self.runs.remove(&run) else {
                    return refused("the run is not known");
                };
                let slots = done?;
                let Preparing { batch, set, circuit, .. } = preparing;
                let slots = slots.into_iter().map(Some).collect();
                self.batches.insert(batch, Stocked { set, circuit, slots });
                return Ok(vec![FromMember::Prepared { batch }]);
            }
        };
        match ask {
            Ask::Sum(numbers) => {
                preparing.asked = Asked::Sum;
                Ok(vec![FromMember::Add { run, step, numbers }])
            }
            Ask::Show(numbers) => {
                let body = keys.message(run, step, [0; 32], numbers.clone()).to_bytes();
                preparing.asked = Asked::Show(numbers);
                Ok(vec![FromMember::Say { run, step, body }])
            }
            Ask::Sign(statement) => {
                let signed = prepare::signed(&preparing.batch, &statement);
                let signature = self.secrets.identity.signing.sign(prepare::CONTEXT, &signed).to_vec();
                let body = to_bytes(&(statement, &signature))?;
                preparing.asked = Asked::Sign(statement, signature);
                Ok(vec![FromMember::Say { run, step, body }])
            }
        }
    }

    fn sums(&mut self, run: RunId, step: u32, sums: Vec<Field>) -> Result<Vec<FromMember>, Error> {
        match self.runs.get(&run) {
            Some(Running::Preparing(preparing)) if preparing.step == step => match preparing.asked {
                Asked::Sum => self.go_on_preparing(run, Some(Reply::Numbers(sums))),
                _ => refused("the run waits for what others say"),
            },
            _ => refused("the run is not at this step"),
        }
    }

    /// Strikes a slot off: it serves once.
    fn slot(&mut self, at: &SlotAt) -> Result<Slot, Error> {
        let stocked = self.batches.get_mut(&at.batch);
        let slot = stocked.and_then(|stocked| stocked.slots.get_mut(at.number as usize)?.take());
        let slot = slot.ok_or(Error::Slot)?;
        if self.batches.get(&at.batch).is_some_and(|stocked| stocked.slots.iter().all(Option::is_none)) {
            self.batches.remove(&at.batch);
        }
        Ok(slot)
    }

    /// Whether these slots are there, for this circuit and prepared by all of these members.
    fn has_slots(&self, slots: &[SlotAt], circuit: CircuitId, here: &[u8]) -> bool {
        let mut named = HashSet::new();
        slots.iter().all(|at| {
            let stocked = self.batches.get(&at.batch);
            named.insert((at.batch, at.number))
                && stocked.is_some_and(|stocked| {
                    stocked.circuit == circuit
                        && here.iter().all(|member| stocked.set.contains(member))
                        && stocked.slots.get(at.number as usize).is_some_and(Option::is_some)
                })
        })
    }

    /// Refuses who cannot compute together.
    fn check_here(&self, here: &[u8]) -> Result<(), Error> {
        self.secrets.keys.sharing().reader(here)?;
        match here.contains(&self.number()) && here.is_sorted() {
            true => Ok(()),
            false => refused("the member is not among those who compute, or they are not in order"),
        }
    }

    fn pack(&mut self, pack: Pack) -> Result<Vec<FromMember>, Error> {
        let run = pack.run(&self.committee);
        self.stays()?;
        self.check_here(&pack.here)?;
        let count = pack.requests.len();
        if !(1..=MOST_TOGETHER).contains(&count) || pack.slots.len() != count || self.runs.len() >= MOST_RUNS
        {
            return refused("a pack has as many slots as requests, and at most 1024 of them");
        }
        let sharing = self.secrets.keys.sharing().clone();
        let members = sharing.threshold().members();
        let bandit = self.bandits.get(&pack.bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let current = bandit.current.as_ref().filter(|current| current.hash == pack.checkpoint);
        let current = current.ok_or(Error::Refused("the member has another checkpoint of the bandit"))?;
        self.check_arrived(bandit, current)?;
        if !self.has_slots(&pack.slots, current.scalars.circuit(), &pack.here) {
            return Err(Error::Slot);
        }
        let (state, scalars) = (current.state.clone(), current.scalars.clone());
        let (config, rules, pads) = (bandit.config, bandit.definition.rules, bandit.pads);
        // Which requests the member computes.
        let mut requests = Vec::with_capacity(count);
        let (mut sessions, mut rows, mut refused) = (vec![], vec![], vec![]);
        let mut fresh: HashMap<SessionId, HashSet<Nonce>> = HashMap::new();
        for (at, bytes) in pack.requests.iter().enumerate() {
            let request = Request::from_bytes(bytes, members)?;
            let (id, nonce) = (request.session, request.nonce);
            let session = self.sessions.get(&id).cloned();
            let (before, here) = (bandit.decisions.get(&id), fresh.entry(id).or_default());
            let known = before.is_some_and(|before| before.contains(&nonce));
            let count = here.len() + before.map_or(0, HashSet::len);
            let may = !here.contains(&nonce) && (known || count < rules.decisions.into());
            let shares = session
                .as_ref()
                .filter(|_| may)
                .and_then(|session| session.request(&sharing, &pack.bandit, pads, config.k, &request).ok());
            match &shares {
                Some(_) => drop(here.insert(nonce)),
                None => refused.push(at as u32),
            }
            sessions.push(session);
            rows.push(shares.map(Zeroizing::new));
            requests.push(request);
        }
        let slots: Vec<Slot> = pack.slots.iter().map(|at| self.slot(at)).collect::<Result<_, _>>()?;
        if let Some(bandit) = self.bandits.get_mut(&pack.bandit) {
            fresh.into_iter().for_each(|(id, nonces)| bandit.decisions.entry(id).or_default().extend(nonces));
        }
        let body = self.agree(&run, &refused)?;
        let deciding = Deciding {
            pack,
            refused,
            requests,
            sessions,
            rows,
            slots,
            state,
            scalars,
            config,
            places: vec![],
            showing: None,
        };
        self.runs.insert(run, Running::Deciding(Box::new(deciding)));
        Ok(vec![FromMember::Say { run, step: 0, body }])
    }

    /// What the member says in step 0: what it refuses, and its signature of that and of the run.
    fn agree(&self, run: &RunId, refused: &[u32]) -> Result<Vec<u8>, Error> {
        let signature = self.sign(AGREED, &to_bytes(&(run, refused))?);
        Ok(to_bytes(&(refused, &signature))?)
    }

    /// Who of `here` has signed step 0, the member itself among them.
    fn agreed(
        &self,
        run: &RunId,
        here: &[u8],
        own: &[u32],
        said: &[(u8, Vec<u8>)],
    ) -> Result<Vec<Agreed>, Error> {
        let read = |(member, body): &(u8, Vec<u8>)| {
            let (refused, signature): (Vec<u32>, Vec<u8>) = from_bytes(body).ok()?;
            let key = self.secrets.identity.members.get(usize::from(*member).checked_sub(1)?)?;
            let signed = to_bytes(&(run, &refused)).ok()?;
            let right = here.contains(member)
                && *member != self.number()
                && envelope::verify(key, AGREED, &signed, &signature).is_ok();
            right.then_some(Agreed { member: *member, refused })
        };
        let mut agreed: Vec<Agreed> = said.iter().filter_map(read).collect();
        agreed.push(Agreed { member: self.number(), refused: own.to_vec() });
        agreed.sort_by_key(|agreed| agreed.member);
        agreed.dedup_by_key(|agreed| agreed.member);
        match agreed.len() >= self.needed() {
            true => Ok(agreed),
            false => Err(Error::NoAgreement { agreed: agreed.len(), need: self.needed() }),
        }
    }

    fn hear(&mut self, run: RunId, step: u32, said: &[(u8, Vec<u8>)]) -> Result<Vec<FromMember>, Error> {
        let Some(running) = self.runs.remove(&run) else {
            return refused("the run is not known");
        };
        match running {
            Running::Preparing(preparing) => {
                let reply = preparing.reply(&self.secrets.keys, run, step, said)?;
                self.runs.insert(run, Running::Preparing(preparing));
                self.go_on_preparing(run, Some(reply))
            }
            Running::Deciding(deciding) => self.hear_deciding(run, step, deciding, said),
            Running::Learning(learning) => self.hear_learning(run, step, learning, said),
            Running::Taking(taking) => self.hear_taking(run, step, taking, said),
        }
    }

    fn hear_deciding(
        &mut self,
        run: RunId,
        step: u32,
        mut deciding: Box<Deciding>,
        said: &[(u8, Vec<u8>)],
    ) -> Result<Vec<FromMember>, Error> {
        let keys = self.secrets.keys.clone();
        let ended = match &mut deciding.showing {
            Some(showing) if showing.step == step => showing.hear(&keys, run, said)?,
            None if step == 0 => {
                let agreed = self.agreed(&run, &deciding.pack.here, &deciding.refused, said)?;
                deciding.begin(&keys, run, &agreed, self.needed())?
            }
            _ => return refused("the run is not at this step"),
        };
        match (&deciding.showing, ended) {
            (Some(showing), false) => {
                let say = showing.say(&keys, run);
                self.runs.insert(run, Running::Deciding(deciding));
                Ok(vec![say])
            }
            _ => {
                let decisions = deciding.end(&keys, run);
                Ok(vec![FromMember::Decided { run, decisions }])
            }
        }
    }

    fn update(&mut self, update: Box<Update>) -> Result<Vec<FromMember>, Error> {
        let run = update.run(&self.committee);
        self.check_here(&update.here)?;
        let keys = self.secrets.keys.clone();
        let sharing = keys.sharing().clone();
        let members = sharing.threshold().members();
        let bandit = self.bandits.get(&update.bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let current = bandit.current.as_ref().filter(|current| current.hash == update.checkpoint);
        let current = current.ok_or(Error::Refused("the member has another checkpoint of the bandit"))?;
        self.check_arrived(bandit, current)?;
        let checkpoint = &current.checkpoint;
        let rules = bandit.definition.rules;
        let due = bandit.config.batch_length(checkpoint.feedbacks, rules.sessions.into());
        let (added, erased) = (update.added.len(), update.erased.len());
        let only_erases = added == 0 && erased > 0;
        if (added as u64 != due && !only_erases) || erased > MOST_ERASED {
            return refused("the update does not have the length that the schedule says");
        }
        let paths = Paths::from_bytes(&checkpoint.root, &update.paths)?;
        let mut feedbacks = Zeroizing::new(Vec::with_capacity(added + erased));
        let mut bad = vec![];
        let mut of_session: HashMap<SessionId, u64> = HashMap::new();
        let mut named: HashSet<[u8; 32]> = HashSet::new();
        for (at, Added { played, tags, feedback }) in update.added.iter().enumerate() {
            let session = self.sessions.get(&played.session);
            let read = || {
                let right = played.bandit == update.bandit
                    && played.row.numbers.len() == bandit.config.d
                    && keys.check_tags(&played.hash(), tags);
                right.then_some(())?;
                let feedback = shares::Feedback::from_bytes(feedback, members).ok()?;
                (feedback.decision == played.label).then_some(())?;
                session?.feedback(&sharing, &feedback).ok()
            };
            match (paths.state(&played.label)?, read()) {
                (None, Some(reward)) if named.insert(played.label) => {
                    *of_session.entry(played.session).or_default() += 1;
                    let squares = reward.get(1..4).and_then(|squares| squares.try_into().ok());
                    let reward = *reward.first().ok_or(Error::Message)?;
                    feedbacks.push(Feedback { row: keys.record(&played.row), reward, squares });
                }
                _ => bad.push(at as u32),
            }
        }
        for (at, Erased { played, tags, learnt, request }) in update.erased.iter().enumerate() {
            let session = self.sessions.get(&played.session);
            let right = played.bandit == update.bandit
                && played.row.numbers.len() == bandit.config.d
                && keys.check_tags(&played.hash(), tags)
                && session.is_some_and(|session| session.erases(&played.label, request));
            match paths.state(&played.label)? {
                Some(DecisionState::Learnt(hash))
                    if right && hash == learnt.hash() && named.insert(played.label) =>
                {
                    let Learnt { batch, slot, place, reward } = learnt;
                    let reward = keys.number(batch, *slot, *place, *reward);
                    feedbacks.push(Feedback { row: keys.record(&played.row), reward, squares: None });
                }
                _ => bad.push((added + at) as u32),
            }
        }
        if !bad.is_empty() {
            let why = "feedbacks that are not of this bandit and session, or were counted before".into();
            return Ok(vec![FromMember::Ended { run, why, refused: bad }]);
        }
        let most = of_session.values().copied().max().unwrap_or(0);
        if added > 0 && most * u64::from(rules.sessions) > 2 * added as u64 && rules.sessions > 1 {
            return refused("one session has too many feedbacks of the batch");
        }
        let before = (checkpoint.feedbacks, checkpoint.residual);
        let scalars = Learn::new(&bandit.config, &sharing, before, (added as u64, erased as u64))?;
        let circuit = scalars.circuit(&erases(added, erased));
        if !self.has_slots(&[update.slot], circuit, &update.here) {
            return Err(Error::Slot);
        }
        let next = (checkpoint.number + 1, scalars.feedbacks, scalars.residual, current.hash);
        let state = current.state.clone();
        let slot = self.slot(&update.slot)?;
        let body = self.agree(&run, &[])?;
        let begin = Some(Batch { slot, scalars, state, feedbacks });
        let learning = Learning { update, begin, circuit, next, paths, showing: None };
        self.runs.insert(run, Running::Learning(Box::new(learning)));
        Ok(vec![FromMember::Say { run, step: 0, body }])
    }

    fn hear_learning(
        &mut self,
        run: RunId,
        step: u32,
        mut learning: Box<Learning>,
        said: &[(u8, Vec<u8>)],
    ) -> Result<Vec<FromMember>, Error> {
        let keys = self.secrets.keys.clone();
        let ended = match &mut learning.showing {
            Some(showing) if showing.step == step => showing.hear(&keys, run, said)?,
            None if step == 0 => {
                let mut agreed = self.agreed(&run, &learning.update.here, &[], said)?;
                // A member that refuses a feedback has no share of this update.
                agreed.retain(|agreed| agreed.refused.is_empty());
                if agreed.len() < self.needed() {
                    return Err(Error::NoAgreement { agreed: agreed.len(), need: self.needed() });
                }
                learning.begin(&keys, run, &agreed)?
            }
            _ => return refused("the run is not at this step"),
        };
        match (&learning.showing, ended) {
            (Some(showing), false) => {
                let say = showing.say(&keys, run);
                self.runs.insert(run, Running::Learning(learning));
                Ok(vec![say])
            }
            _ => {
                let bandit = learning.update.bandit;
                let ballot = learning.update.ballot;
                match learning.end()? {
                    Ok(checkpoint) => self.vote(run, bandit, ballot, checkpoint),
                    Err(places) => {
                        let why = "rewards that are out of range".into();
                        Ok(vec![FromMember::Ended { run, why, refused: places }])
                    }
                }
            }
        }
    }

    /// Votes for a checkpoint that the member has computed: for one in a ballot, and after it has committed
    /// to one for no other, unless 2t − 1 have voted for that in a later ballot.
    fn vote(
        &mut self,
        run: RunId,
        bandit: BanditId,
        ballot: u32,
        checkpoint: Checkpoint,
    ) -> Result<Vec<FromMember>, Error> {
        let known = self.bandits.get(&bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let mut kept = known.kept.clone();
        let vote = Ballot { bandit, number: checkpoint.number, ballot, hash: checkpoint.hash() };
        // An update may end after members have agreed on another one.
        if known.next_number(&self.committee) != Some(vote.number) {
            return refused("members have agreed on another checkpoint meanwhile");
        }
        let same = |other: &Ballot| other.number == vote.number && other.hash == vote.hash;
        if kept.lock.as_ref().is_some_and(|lock| lock.number == vote.number && !same(lock)) {
            return refused("the member has committed to another checkpoint");
        }
        let later = |other: &Ballot| (other.number, other.ballot) < (vote.number, vote.ballot);
        if kept.vote.as_ref().is_some_and(|other| *other != vote && !later(other)) {
            return refused("the member has voted in this ballot or a later one");
        }
        kept.vote = Some(vote);
        self.keep(bandit, kept)?;
        let signature = self.sign(VOTE, &vote.bytes());
        Ok(vec![FromMember::Voted { run, checkpoint: Box::new(checkpoint), ballot: vote, signature }])
    }

    fn keep(&mut self, bandit: BanditId, kept: Kept) -> Result<(), Error> {
        self.memory.save(&bandit, &kept)?;
        if let Some(known) = self.bandits.get_mut(&bandit) {
            known.kept = kept;
        }
        Ok(())
    }

    fn votes(&mut self, ballot: Ballot, votes: &Signatures) -> Result<Vec<FromMember>, Error> {
        let bandit = self.bandits.get(&ballot.bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let last = (bandit.kept.checkpoint.as_ref().map_or(0, |(last, _)| last.number), u32::MAX);
        let voted = bandit.kept.vote.map_or(last, |vote| last.max((vote.number, vote.ballot)));
        if !bandit.kept.restored
            && voted < (ballot.number, ballot.ballot)
            && self.has_signed(VOTE, &ballot, votes)
        {
            return self.forgets(ballot.bandit, bandit.kept.clone());
        }
        if bandit.next_number(&self.committee) != Some(ballot.number) {
            return refused("the votes are for no checkpoint that follows");
        }
        let (agreed, need) = (self.count(VOTE, &ballot.bytes(), votes), self.needed());
        if agreed < need {
            return Err(Error::NoAgreement { agreed, need });
        }
        let mut kept = bandit.kept.clone();
        // Who has voted in a later ballot commits to nothing in this one: both would get a certificate.
        if kept.vote.is_some_and(|vote| vote.number == ballot.number && vote.ballot > ballot.ballot) {
            return refused("the member has voted in a later ballot");
        }
        let earlier = |lock: &Ballot| {
            lock.number == ballot.number && lock.hash != ballot.hash && lock.ballot >= ballot.ballot
        };
        if kept.lock.as_ref().is_some_and(earlier) {
            return refused("the member has committed to another checkpoint, in a later ballot");
        }
        kept.lock = Some(ballot);
        self.keep(ballot.bandit, kept)?;
        let signature = self.sign(COMMIT, &ballot.bytes());
        Ok(vec![FromMember::Committed { ballot, signature }])
    }

    fn checkpoint(
        &mut self,
        checkpoint: Checkpoint,
        ballot: Ballot,
        commits: Signatures,
    ) -> Result<Vec<FromMember>, Error> {
        let bandit = self.bandits.get(&ballot.bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let named = checkpoint.bandit == ballot.bandit
            && checkpoint.number == ballot.number
            && checkpoint.hash() == ballot.hash;
        if !named {
            return refused("the checkpoint is not the one that members have committed to");
        }
        let (agreed, need) = (self.count(COMMIT, &ballot.bytes(), &commits), self.needed());
        if agreed < need {
            return Err(Error::NoAgreement { agreed, need });
        }
        if bandit.kept.restored {
            return refused("the member was put back, and has not heard yet what others remember");
        }
        let last = bandit.kept.checkpoint.as_ref().map_or(0, |(last, _)| last.number);
        let locked = bandit.kept.lock.map_or((last, u32::MAX), |lock| (lock.number, lock.ballot));
        if locked < (ballot.number, ballot.ballot) && self.has_signed(COMMIT, &ballot, &commits) {
            return self.forgets(ballot.bandit, bandit.kept.clone());
        }
        let other = bandit
            .kept
            .checkpoint
            .as_ref()
            .is_some_and(|(known, _)| known.number == ballot.number && known.hash != ballot.hash);
        if ballot.number < last || other {
            return refused("the member knows a later checkpoint, or another of this number");
        }
        let current = self.current(&bandit.config, checkpoint)?;
        let mut kept = bandit.kept.clone();
        kept.checkpoint = Some((ballot, commits));
        kept.vote = kept.vote.filter(|vote| vote.number > ballot.number);
        kept.lock = kept.lock.filter(|lock| lock.number > ballot.number);
        self.keep(ballot.bandit, kept)?;
        if let Some(bandit) = self.bandits.get_mut(&ballot.bandit) {
            // The same one again is no update, after which sessions have all their decisions again.
            if bandit.current.as_ref().is_some_and(|known| known.hash != current.hash) {
                bandit.decisions.clear();
            }
            bandit.current = Some(current);
        }
        Ok(vec![])
    }
}

enum About {
    Run(RunId),
    Hash([u8; 32]),
}

/// Which feedbacks of an update go: those that come are first.
fn erases(added: usize, erased: usize) -> Vec<bool> {
    (0..added + erased).map(|at| at >= added).collect()
}

/// The configuration of a bandit of a committee.
///
/// # Errors
/// [`Error::Refused`] for one that is none, or with a schedule that depends on data.
pub fn config_of(definition: &Definition) -> Result<LinearConfig, Error> {
    let config: LinearConfig = serde_json::from_str(&definition.config)
        .map_err(|_| Error::Refused("the configuration of the bandit cannot be read"))?;
    config.validate().map_err(|_| Error::Refused("the configuration of the bandit is out of range"))?;
    let named = config.d == usize::from(definition.features) && config.k == usize::from(definition.arms);
    let fits = products_of_a_decision(config.d, config.k) <= MOST_PRODUCTS;
    match named && fits && config.schedule.is_public() && definition.rules.sessions > 0 {
        true => Ok(config),
        false => refused(
            "the bandit has other features or arms than its configuration or too many of them, or a schedule that depends on data",
        ),
    }
}

impl Preparing {
    /// What others have said, with the member's own.
    fn reply(
        &self,
        keys: &MemberKeys,
        run: RunId,
        step: u32,
        said: &[(u8, Vec<u8>)],
    ) -> Result<Reply, Error> {
        if step != self.step {
            return refused("the run is not at this step");
        }
        let others = || said.iter().filter(|(member, _)| *member != keys.member());
        match &self.asked {
            Asked::Sum => refused("the run waits for sums"),
            Asked::Show(own) => {
                let read = |(member, body): &(u8, Vec<u8>)| {
                    let message = Message::from_bytes(body).ok()?;
                    let right = message.run == run && message.round == step;
                    (right && keys.check(*member, &message).is_ok()).then_some((*member, message.numbers))
                };
                let own = (keys.member(), own.clone());
                Ok(Reply::Shown(others().filter_map(read).chain([own]).collect()))
            }
            Asked::Sign(statement, signature) => {
                let read = |(member, body): &(u8, Vec<u8>)| {
                    let (statement, signature): (Statement, Vec<u8>) = from_bytes(body).ok()?;
                    Some((*member, statement, signature))
                };
                let own = (keys.member(), *statement, signature.clone());
                Ok(Reply::Signed(others().filter_map(read).chain([own]).collect()))
            }
        }
    }
}

impl Deciding {
    /// Begins with those requests that enough members accept. Whether nothing is left to compute.
    fn begin(
        &mut self,
        keys: &Arc<MemberKeys>,
        run: RunId,
        agreed: &[Agreed],
        needed: usize,
    ) -> Result<bool, Error> {
        let here: Vec<u8> = agreed.iter().map(|agreed| agreed.member).collect();
        let mut parts = vec![];
        let (rows, slots) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.slots));
        for (at, (slot, rows)) in slots.into_iter().zip(rows).enumerate() {
            let accepts = |agreed: &Agreed| (!agreed.refused.contains(&(at as u32))).then_some(agreed.member);
            let members: Vec<u8> = agreed.iter().filter_map(accepts).collect();
            if members.len() < needed {
                continue;
            }
            self.places.push(at as u32);
            let zeros = || vec![vec![Field::ZERO; self.config.d + 3]; self.config.k];
            let inputs = Inputs {
                inverse: self.state.scaled.clone(),
                estimate: self.state.estimate.clone(),
                rows: rows.map_or_else(zeros, |mut rows| std::mem::take(&mut *rows)),
            };
            let scalars = self.scalars.with_order(&self.config, self.pack.round.wrapping_add(at as u64));
            let keys = keys.clone();
            let computation = Conversation::new(move |port| async move {
                let mut lane = Lane::new(&keys, slot, scalars.circuit(), port)?;
                let decided = decide(&mut lane, &scalars, inputs).await?;
                Ok((decided.arm, lane.into_record()))
            });
            parts.push(Part { computation, members });
        }
        if parts.is_empty() {
            return Ok(true);
        }
        let what: Vec<(u8, &[u32])> =
            agreed.iter().map(|agreed| (agreed.member, &agreed.refused[..])).collect();
        let mut begun = Run::new(keys, &here, &to_bytes(&(run, what))?, parts)?;
        let numbers = begun.start();
        self.showing = Some(Showing { run: begun, step: 1, numbers });
        Ok(false)
    }

    /// What the member tells of each decision.
    fn end(self: Box<Self>, keys: &MemberKeys, run: RunId) -> Vec<Result<Decided, String>> {
        let few = || Err("too few members accept the request".to_string());
        let mut decisions: Vec<Result<Decided, String>> = self.requests.iter().map(|_| few()).collect();
        let Some(showing) = self.showing else { return decisions };
        let liars = showing.run.liars().to_vec();
        for (place, result) in self.places.iter().zip(showing.run.into_results()) {
            let at = *place as usize;
            let decided = result.unwrap_or(Err(Error::Message)).map(|(arm, row)| {
                let (request, label) = (&self.requests[at], decision_label(&run, *place));
                let (bandit, session) = (self.pack.bandit, request.session);
                let played = Played { bandit, session, label, row };
                let (position, nonce) = (*place, request.nonce);
                let place = AnswerPlace { bandit: bandit.to_vec(), run, position, nonce };
                let accepted = !self.refused.contains(&position);
                let session = self.sessions[at].as_ref().filter(|_| accepted);
                let answer = session.map(|session| session.answer(keys.sharing(), &place, arm));
                let tags = keys.tags(&played.hash());
                Decided { answer, row: played.row, tags, liars: liars.clone() }
            });
            decisions[at] = decided.map_err(|error| error.to_string());
        }
        decisions
    }
}

impl Learning {
    fn begin(&mut self, keys: &Arc<MemberKeys>, run: RunId, agreed: &[Agreed]) -> Result<bool, Error> {
        let here: Vec<u8> = agreed.iter().map(|agreed| agreed.member).collect();
        let Some(Batch { slot, scalars, state, mut feedbacks }) = self.begin.take() else {
            return refused("the run has begun");
        };
        let (circuit, of) = (self.circuit, keys.clone());
        let computation = Conversation::new(move |port| async move {
            let mut lane = Lane::new(&of, slot, circuit, port)?;
            let feedbacks = std::mem::take(&mut *feedbacks);
            learn::learn(&mut lane, &scalars, State::clone(&state), feedbacks).await?;
            Ok(lane.into_record())
        });
        let part = Part { computation, members: here.clone() };
        let mut begun = Run::new(keys, &here, &to_bytes(&(run, &here))?, vec![part])?;
        let numbers = begun.start();
        self.showing = Some(Showing { run: begun, step: 1, numbers });
        Ok(false)
    }

    /// The checkpoint, or the places of rewards that are out of range.
    fn end(self: Box<Self>) -> Result<Result<Checkpoint, Vec<u32>>, Error> {
        let Learning { update, next, mut paths, showing, .. } = *self;
        let result = showing.and_then(|showing| showing.run.into_results().pop().flatten());
        let model = match result.unwrap_or(Err(Error::Message)) {
            Ok(record) => record,
            Err(Error::Rewards { places }) => {
                return Ok(Err(places.into_iter().map(|at| at as u32).collect()));
            }
            Err(error) => return Err(error),
        };
        let (number, feedbacks, residual, previous) = next;
        for (at, added) in update.added.iter().enumerate() {
            let learnt = Learnt::of(&model, update.added.len(), at).ok_or(Error::Message)?;
            paths.set(&added.played.label, DecisionState::Learnt(learnt.hash()))?;
        }
        for erased in &update.erased {
            paths.set(&erased.played.label, DecisionState::Erased)?;
        }
        let root = paths.root();
        let bandit = update.bandit;
        let (taken, model) = (false, Some(model));
        Ok(Ok(Checkpoint { bandit, number, previous, taken, model, feedbacks, residual, root }))
    }
}
