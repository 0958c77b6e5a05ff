//! A member of a committee: what it reads, what it agrees to, what it shows, and what it remembers.
//!
//! The server says what is computed when ([`ToMember`]), and a member holds it to the rules of the bandit. In
//! step 0 of a run each member signs the hash of all that the run is about, and what it refuses of it. Its
//! slots are struck off before that leaves it, so that no mask serves for two inputs. Then it shows one
//! number for each step of the circuits. Nothing here does I/O but [`Memory::save`].

mod deciding;
mod learning;
mod moving;
mod preparing;
mod restoring;

use deciding::Deciding;
use learning::Learning;
use preparing::Preparing;

use crate::learn::{State, initial};
use crate::prepare::{Identity, Stock};
use crate::scalars::{Decide, Learn};
use crate::{CircuitId, Error, MemberKeys, Run, Slot};
use bandit::LinearConfig;
use envelope::SealingSecret;
use rand::CryptoRng;
use shares::talk::{
    AGREED, Ballot, BanditId, Checkpoint, Definition, FromMember, MOST_PRODUCTS, Prepare, RECEIPT, Rules,
    RunId, Signatures, SlotAt, ToMember, from_bytes, products_of_a_decision, receipt, to_bytes,
};
use shares::{Field, Label, Manifest, MemberSession, Message, Nonce, Pads, Session, SessionId};
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
/// How often a request is computed between two batches.
const MOST_TRIES: u8 = 16;

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
    /// The requests of sessions that were computed since the last batch, and how often. One whose run has
    /// ended early is computed again: its answers have other pads then, and its indices other roundings.
    decisions: HashMap<SessionId, HashMap<Nonce, u8>>,
}

struct Current {
    checkpoint: Checkpoint,
    hash: [u8; 32],
    state: Arc<Zeroizing<State<Field>>>,
    scalars: Arc<Decide>,
}

enum Running {
    Preparing(Box<Preparing>),
    Deciding(Box<Deciding>),
    Learning(Box<Learning>),
    Taking(Box<moving::Taking>),
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

/// What a member has signed in step 0 of a run.
struct Agreed {
    member: u8,
    /// The places that it refuses.
    refused: Vec<u32>,
}

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
            ToMember::Forget(sessions) => {
                sessions.iter().for_each(|id| drop(self.sessions.remove(id)));
                Ok(vec![])
            }
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
            ToMember::Begin | ToMember::Forget(_) => About::Hash([0; 32]),
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
            bandit.current = Some(self.current(&bandit, Checkpoint::first(id))?);
        }
        self.bandits.insert(id, bandit);
        Ok(said)
    }

    /// A checkpoint, with the member's shares of its model.
    fn current(&self, bandit: &Bandit, checkpoint: Checkpoint) -> Result<Current, Error> {
        let (keys, config, counted) = (&self.secrets.keys, &bandit.config, bandit.definition.counted());
        let state = match &checkpoint.model {
            None => initial(&Learn::new(config, keys.sharing(), (0, 0), (0, 0))?.counting(counted, false)),
            Some(record) => {
                let shares = Zeroizing::new(keys.record(record));
                let state = State::from_numbers(config.d, counted, &shares);
                state.ok_or(Error::Refused("the record of the checkpoint is no model of this bandit"))?
            }
        };
        let feedbacks = checkpoint.feedbacks;
        let scalars = Decide::new(config, keys.sharing(), feedbacks.saturating_add(1), feedbacks, 0)?;
        let scalars = scalars.counting(counted);
        let hash = checkpoint.hash();
        Ok(Current { checkpoint, hash, state: Arc::new(Zeroizing::new(state)), scalars: Arc::new(scalars) })
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

    fn keep(&mut self, bandit: BanditId, kept: Kept) -> Result<(), Error> {
        self.memory.save(&bandit, &kept)?;
        if let Some(known) = self.bandits.get_mut(&bandit) {
            known.kept = kept;
        }
        Ok(())
    }
}

enum About {
    Run(RunId),
    Hash([u8; 32]),
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
    let sessions = (1..=Rules::MOST_SESSIONS).contains(&definition.rules.sessions);
    match named && fits && config.schedule.is_public() && sessions && definition.has_sizable_groups() {
        true => Ok(config),
        false => refused(
            "the bandit has other features or arms than its configuration or too many of them, a schedule that depends on data, no sessions a batch or too many, or counters of groups that are too small or of too many arms",
        ),
    }
}
