//! Members, a switchboard and devices, which send each other bytes.

use super::play::{Twin, rounded};
use super::world::{keys_of, made_up, rng};
use crate::member::{Kept, Member, Memory, Secrets};
use crate::prepare::Identity;
use crate::{Error, MemberKeys};
use bandit::{LinearConfig, Schedule, WidthShape};
use envelope::{SealingSecret, SigningSecret};
use rand::Rng;
use rand_chacha::ChaCha20Rng;
use shares::talk::{BanditId, Counters, Definition, FromMember, Rules, ToMember, from_bytes, to_bytes};
use shares::{Card, Manifest, Pads, Proposal, Row, SessionSecret, Sharing, SignedManifest, Threshold};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switchboard::{Options, Switchboard};

pub(crate) type Disk = Rc<RefCell<BTreeMap<BanditId, Kept>>>;

pub(crate) struct OnDisk(pub(crate) Disk);

impl Memory for OnDisk {
    fn save(&mut self, bandit: &BanditId, kept: &Kept) -> Result<(), Error> {
        self.0.borrow_mut().insert(*bandit, kept.clone());
        Ok(())
    }
}

/// A committee whose members are in this process.
pub(crate) struct Committee {
    pub(crate) manifest: Manifest,
    /// To which its members leave when they start.
    pub(crate) next: Option<SignedManifest>,
    pub(crate) sharing: Arc<Sharing>,
    pub(crate) keys: Vec<Arc<MemberKeys>>,
    pub(crate) signing: Vec<[u8; 32]>,
    pub(crate) sealing: Vec<[u8; 32]>,
    pub(crate) disks: Vec<Disk>,
    pub(crate) members: Vec<Option<Member<OnDisk>>>,
    pub(crate) taken: Vec<u64>,
    pub(crate) board: Switchboard,
    pub(crate) stored: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) now: Instant,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) options: Options,
    pub(crate) number: u64,
    /// The last checkpoint that a member was told.
    pub(crate) told: Option<ToMember>,
    /// The last session that was begun.
    pub(crate) sent: Option<shares::Session>,
    /// How long members take for what they say.
    pub(crate) slow: Duration,
    /// How long they take besides for each number that they prepare.
    pub(crate) slow_number: Duration,
}

/// What a hostile member says in place of what it should: the member, and its message.
pub(crate) type Lies<'a> = &'a mut dyn FnMut(u8, FromMember) -> Vec<FromMember>;
/// What a hostile server tells a member in place of what it should.
pub(crate) type Tells<'a> = &'a mut dyn FnMut(u8, &ToMember) -> Vec<ToMember>;

pub(crate) fn honest(_: u8, said: FromMember) -> Vec<FromMember> {
    vec![said]
}

pub(crate) fn tells(_: u8, told: &ToMember) -> Vec<ToMember> {
    vec![told.clone()]
}

impl Committee {
    pub(crate) fn new(t: u8, n: u8) -> Self {
        Self::with_stock(t, n, 16)
    }

    /// A committee with a bandit and the session of a device.
    pub(crate) fn with_bandit(t: u8, n: u8) -> (Self, BanditId, SessionSecret) {
        let mut committee = Committee::new(t, n);
        let bandit = committee.create(&config(2, 2), 1);
        let device = committee.session();
        (committee, bandit, device)
    }

    /// As [`Self::with_bandit`], after the first batch was learnt.
    pub(crate) fn learnt(t: u8, n: u8) -> (Self, BanditId, SessionSecret) {
        let (mut committee, bandit, device) = Self::with_bandit(t, n);
        assert_eq!(play(&mut committee, &bandit, &device, 4), 4);
        (committee, bandit, device)
    }

    /// A committee whose server has so many slots prepared.
    pub(crate) fn with_stock(t: u8, n: u8, stock: u32) -> Self {
        Self::of(t, n, stock, None)
    }

    /// A committee that follows another one.
    pub(crate) fn after(old: &Committee, t: u8, n: u8) -> Self {
        Self::of(t, n, 16, Some(old.manifest.id()))
    }

    fn of(t: u8, n: u8, stock: u32, follows: Option<[u8; 32]>) -> Self {
        let mut rng = rng(u64::from(n) + follows.map_or(0, |follows| 256 + u64::from(follows[0])));
        let sharing = Arc::new(Sharing::new(Threshold::new(t, n).unwrap()));
        let mut bytes = || {
            let mut bytes = [0; 32];
            rng.fill_bytes(&mut bytes);
            bytes
        };
        let subsets: Vec<[u8; 32]> = sharing.subsets().iter().map(|_| bytes()).collect();
        let pairs: BTreeMap<(u8, u8), [u8; 32]> =
            (1..=n).flat_map(|a| (a + 1..=n).map(move |b| (a, b))).map(|pair| (pair, bytes())).collect();
        let keys = keys_of(&sharing, &subsets, |a, b| pairs[&(a, b)]);
        let signing: Vec<SigningSecret> = (0..n).map(|_| SigningSecret::generate(&mut rng)).collect();
        let sealing: Vec<SealingSecret> = (0..n).map(|_| SealingSecret::generate(&mut rng)).collect();
        let cards = signing.iter().zip(&sealing);
        let cards = cards.map(|(a, b)| Card { sealing: b.public(), signing: a.public() }).collect();
        let proposal = Proposal { threshold: sharing.threshold(), cards, follows, nonce: [1; 32] };
        let hashes = |count| vec![[7; 32]; count];
        let pairs = hashes(sharing.threshold().pairs().len());
        let manifest = Manifest { proposal, subsets: hashes(sharing.subsets().len()), pairs };
        let options = Options { patience: Duration::from_secs(5), stock, ..Options::default() };
        let board = Switchboard::open(&manifest, options.clone(), [], 1).unwrap();
        let mut committee = Committee {
            manifest,
            next: None,
            sharing,
            keys,
            signing: signing.iter().map(|secret| *secret.to_bytes()).collect(),
            sealing: sealing.iter().map(|secret| *secret.to_bytes()).collect(),
            disks: (0..n).map(|_| Disk::default()).collect(),
            members: (0..n).map(|_| None).collect(),
            taken: vec![0; n.into()],
            board,
            stored: BTreeMap::new(),
            now: Instant::now(),
            rng,
            options,
            number: 1,
            told: None,
            sent: None,
            slow: Duration::ZERO,
            slow_number: Duration::ZERO,
        };
        (1..=n).for_each(|member| committee.start(member));
        committee
    }

    /// Starts a member from its disk.
    pub(crate) fn start(&mut self, member: u8) {
        self.start_of(member, false);
    }

    /// Starts a member, which may have been put back.
    pub(crate) fn start_of(&mut self, member: u8, restored: bool) {
        let at = usize::from(member) - 1;
        let identity = Identity {
            signing: SigningSecret::from_bytes(&self.signing[at]),
            members: self.manifest.proposal.cards.iter().map(|card| card.signing.clone()).collect(),
        };
        let secrets = Secrets {
            keys: self.keys[at].clone(),
            identity: Arc::new(identity),
            sealing: SealingSecret::from_bytes(&self.sealing[at]).unwrap(),
        };
        let kept = self.disks[at].borrow().clone();
        let memory = (OnDisk(self.disks[at].clone()), kept);
        let mut member = Member::new(secrets, &self.manifest, memory, &mut self.rng);
        if restored {
            member = member.restored().unwrap();
        }
        if let Some(next) = &self.next {
            member = member.moving(next, super::world::rng(self.rng.next_u64())).unwrap();
        }
        self.board.comes(member.number(), member.nonce(), self.now);
        self.taken[at] = 0;
        self.members[at] = Some(member);
    }

    /// The manifest that all have signed.
    pub(crate) fn signed(&self) -> SignedManifest {
        let sign = |secret: &[u8; 32]| self.manifest.sign(&SigningSecret::from_bytes(secret));
        SignedManifest {
            manifest: self.manifest.clone(),
            signatures: self.signing.iter().map(sign).collect(),
        }
    }

    pub(crate) fn stop(&mut self, member: u8) {
        self.members[usize::from(member) - 1] = None;
    }

    /// Starts the server from what it has stored. Members come again.
    pub(crate) fn restart_server(&mut self) {
        self.number += 1000;
        let stored = self.stored.clone();
        let board = Switchboard::open(&self.manifest, self.options.clone(), stored, self.number).unwrap();
        let mut before = std::mem::replace(&mut self.board, board);
        // What it counts on the way is what it counts of all that is stored.
        let all_stored = before.changes().is_empty();
        for (bandit, _) in before.definitions().filter(|_| all_stored) {
            let counts = |board: &Switchboard| {
                board.view(&bandit).map(|view| (view.open, view.unlearnt, view.feedbacks)).ok()
            };
            let (was, is) = (counts(&before), counts(&self.board));
            assert!(is == was || is.is_none(), "{was:?}, {is:?}");
        }
        for member in self.members.iter().flatten() {
            self.board.comes(member.number(), member.nonce(), self.now);
        }
    }

    /// Carries messages until nobody says anything more; 200 times at most where members are slow.
    pub(crate) fn run_with(&mut self, lies: Lies, tells: Tells) {
        for _ in 0..if (self.slow + self.slow_number).is_zero() { usize::MAX } else { 200 } {
            let mut said = vec![];
            for at in 0..self.members.len() {
                let number = at as u8 + 1;
                let Some(member) = &mut self.members[at] else { continue };
                // It asks for what it is told.
                self.board.comes(number, member.nonce(), self.now);
                for (count, message) in self.board.tell(number, self.taken[at]) {
                    self.taken[at] = count;
                    if matches!(*message, ToMember::Checkpoint(..)) {
                        self.told = Some(ToMember::clone(&message));
                    }
                    for message in tells(number, &message) {
                        // As bytes, as over a network.
                        let message: ToMember = from_bytes(&to_bytes(&message).unwrap()).unwrap();
                        said.extend(member.take(message).into_iter().map(|said| (number, said)));
                    }
                }
            }
            if said.is_empty() {
                break;
            }
            let numbers = said.iter().map(|(_, said)| match said {
                FromMember::Add { numbers: Some(numbers), .. } => numbers.len() as u32,
                _ => 0,
            });
            let took = self.slow + self.slow_number * numbers.max().unwrap_or(0);
            if !took.is_zero() {
                self.now += took;
                self.board.tick(self.now);
            }
            for (member, message) in said {
                for message in lies(member, message) {
                    let message: FromMember = from_bytes(&to_bytes(&message).unwrap()).unwrap();
                    self.board.says(member, message, self.now);
                }
            }
            self.store();
        }
    }

    /// Stores what the server has changed.
    pub(crate) fn store(&mut self) {
        for change in self.board.changes() {
            match change.value {
                Some(value) => drop(self.stored.insert(change.key, value)),
                None => drop(self.stored.remove(&change.key)),
            }
        }
    }

    pub(crate) fn run(&mut self) {
        self.run_with(&mut honest, &mut tells);
    }

    /// Lets the patience of the server end.
    pub(crate) fn wait(&mut self) {
        self.now += self.options.patience;
        self.board.tick(self.now);
    }

    pub(crate) fn session(&mut self) -> SessionSecret {
        let sealing: Vec<Vec<u8>> =
            self.manifest.proposal.cards.iter().map(|card| card.sealing.clone()).collect();
        let id = self.manifest.id();
        let (secret, session) = SessionSecret::open(&self.sharing, &id, &sealing, &mut self.rng).unwrap();
        self.sent = Some(session.clone());
        self.board.session(session).unwrap();
        self.run();
        assert!(self.board.receipts(&secret.id()).unwrap().is_some());
        secret
    }

    pub(crate) fn create(&mut self, config: &LinearConfig, sessions: u16) -> BanditId {
        self.create_with(config, sessions, None)
    }

    /// Creates a bandit that counts arms, in groups of at least so many feedbacks.
    pub(crate) fn create_with(
        &mut self,
        config: &LinearConfig,
        sessions: u16,
        every: Option<u32>,
    ) -> BanditId {
        let id = self.board.create(definition(self, config, sessions, every)).unwrap();
        self.run();
        id
    }

    pub(crate) fn request(
        &mut self,
        device: &SessionSecret,
        bandit: &BanditId,
        rows: &[Vec<f64>],
    ) -> Vec<u8> {
        let pads = Pads::new(&self.sharing, rows[0].len()).unwrap();
        let rows: Vec<Row> = rows.iter().map(|row| Row::new(row, &mut self.rng).unwrap()).collect();
        device.request(bandit, pads, &rows, &mut self.rng).unwrap().to_bytes()
    }

    /// Asks for a decision, and waits for it: the arm and the decision.
    pub(crate) fn decide(
        &mut self,
        device: &SessionSecret,
        bandit: &BanditId,
        rows: &[Vec<f64>],
    ) -> (usize, [u8; 32]) {
        let bytes = self.request(device, bandit, rows);
        let ticket = self.board.ask(bandit, bytes, self.now).unwrap();
        self.run();
        self.arm(device, ticket, rows.len()).unwrap()
    }

    pub(crate) fn arm(
        &mut self,
        device: &SessionSecret,
        ticket: u64,
        arms: usize,
    ) -> Result<(usize, [u8; 32]), switchboard::Error> {
        self.arm_of(device, ticket, arms).expect("the request waits")
    }

    /// The arm and the decision, once they are there.
    pub(crate) fn arm_of(
        &mut self,
        device: &SessionSecret,
        ticket: u64,
        arms: usize,
    ) -> Option<Result<(usize, [u8; 32]), switchboard::Error>> {
        let decision = match self.board.outcome(ticket)? {
            Ok(decision) => decision,
            Err(error) => return Some(Err(error)),
        };
        let arm = device.arm(&self.sharing, &decision.place, arms, &decision.answers).unwrap();
        Some(Ok((arm, decision.label)))
    }

    pub(crate) fn reward(
        &mut self,
        device: &SessionSecret,
        bandit: &BanditId,
        label: &[u8; 32],
        reward: f64,
    ) {
        self.tell(device, bandit, label, reward);
        self.run();
    }

    /// Sends a feedback, and carries no message of members.
    pub(crate) fn tell(&mut self, device: &SessionSecret, bandit: &BanditId, label: &[u8; 32], reward: f64) {
        let reward = Row::new(&[reward], &mut self.rng).unwrap();
        let feedback = device.feedback(label, &self.sharing, &reward, &mut self.rng).unwrap();
        self.board.feedback(bandit, feedback.to_bytes(), self.now).unwrap();
    }
}

pub(crate) fn definition(
    committee: &Committee,
    config: &LinearConfig,
    sessions: u16,
    every: Option<u32>,
) -> Definition {
    Definition {
        features: config.d as u16,
        arms: config.k as u16,
        config: serde_json::to_string(config).unwrap(),
        rules: Rules { sessions, decisions: 64 },
        counters: every.map(|every| Counters { every }),
        rewards: None,
        founder: committee.manifest.id(),
        nonce: [3; 16],
    }
}

pub(crate) fn config(d: usize, k: usize) -> LinearConfig {
    LinearConfig {
        d,
        k,
        l: 1.0,
        lambda: 1.0,
        width: WidthShape::Tangent.width(0.5),
        schedule: Schedule::Every { rounds: 4 },
        ..LinearConfig::figure_1()
    }
}

/// Plays rounds in batches of four, and asserts that each arm is the twin's.
pub(crate) fn plays_as(
    twin: &mut Twin,
    committee: &mut Committee,
    (device, bandit): (&SessionSecret, &BanditId),
    rounds: &[(Vec<Vec<f64>>, usize)],
) {
    let mut batch = vec![];
    for (round, (rows, best)) in rounds.iter().enumerate() {
        let rounded = rounded(rows);
        let (arm, label) = committee.decide(device, bandit, rows);
        let indices = twin.indices(&rounded);
        let order = twin.config.order_of_ties(round as u64);
        let largest = indices.iter().copied().fold(f64::MIN, f64::max);
        let first = order.iter().find(|arm| largest - indices[**arm] < 1e-9).unwrap();
        assert!(arm == *first || largest - indices[arm] < 1e-4, "{arm} of {indices:?}");
        let reward = if arm == *best { 1.0 } else { 0.0 };
        batch.push((rounded[arm].clone(), reward));
        if batch.len() == 4 {
            batch.drain(..).for_each(|(row, reward)| twin.learn(&row, reward, 1.0));
            twin.t += 4;
        }
        committee.reward(device, bandit, &label, reward);
    }
}

/// A committee plays as the clear twin does: decisions one by one, with updates on the way, as bytes.
#[test]
fn a_committee_plays_as_its_twin() {
    for (t, n) in [(2, 3), (2, 4)] {
        let mut committee = Committee::new(t, n);
        let config = config(3, 4);
        let bandit = committee.create(&config, 1);
        let device = committee.session();
        plays_as(&mut Twin::new(config), &mut committee, (&device, &bandit), &made_up(40, 3, 4, 5));
        let view = committee.board.view(&bandit).unwrap();
        assert_eq!((view.feedbacks, view.updates, view.decisions), (40, 10, 40));
    }
}

/// Plays rounds of one device: the number of feedbacks in the model afterwards.
pub(crate) fn play(
    committee: &mut Committee,
    bandit: &BanditId,
    device: &SessionSecret,
    rounds: usize,
) -> u64 {
    for (rows, best) in made_up(rounds, 2, 2, 7) {
        let (arm, label) = committee.decide(device, bandit, &rows);
        committee.reward(device, bandit, &label, if arm == best { 1.0 } else { -1.0 });
    }
    committee.board.view(bandit).unwrap().feedbacks
}

/// A bandit that is deleted leaves nothing in the store, an erased feedback neither, and the server starts
/// with what an older one has left of it.
#[test]
fn a_deleted_bandit_leaves_nothing() {
    let (mut committee, bandit, device) = Committee::with_bandit(2, 3);
    let left = committee.stored.clone();
    play(&mut committee, &bandit, &device, 3);
    let (rows, _) = &made_up(1, 2, 2, 9)[0];
    let (_, label) = committee.decide(&device, &bandit, rows);
    committee.reward(&device, &bandit, &label, 1.0);
    committee.board.erase(&bandit, &label, device.erasure(&label), committee.now).unwrap();
    committee.run();
    assert_eq!(committee.board.view(&bandit).unwrap().feedbacks, 3);
    let full = committee.stored.clone();
    committee.board.delete(&bandit).unwrap();
    committee.store();
    let sessions = left.len() - 1;
    assert_eq!(committee.stored.len(), sessions);
    // All of it but the bandit.
    let bandits: Vec<Vec<u8>> =
        left.keys().filter(|key| !committee.stored.contains_key(*key)).cloned().collect();
    committee.stored = full;
    bandits.iter().for_each(|key| drop(committee.stored.remove(key)));
    committee.restart_server();
    committee.store();
    assert_eq!(committee.stored.len(), sessions);
}

/// A bandit that is refused leaves nothing in the store, which the server reads when it starts again.
#[test]
fn a_refused_bandit_leaves_nothing() {
    let mut committee = Committee::new(2, 3);
    let bandit = committee.create(&config(2, 2), 1);
    let stored = committee.stored.clone();
    let config = LinearConfig { schedule: Schedule::TraceOrGrowth, ..config(2, 2) };
    let config = serde_json::to_string(&config).unwrap();
    let known = committee.board.view(&bandit).unwrap().definition.clone();
    let rules = |sessions, decisions| Rules { sessions, decisions };
    let with = |rules, every| Definition {
        rules,
        counters: Some(Counters { every }),
        nonce: [4; 16],
        ..known.clone()
    };
    for (refused, why) in [
        (Definition { config, nonce: [4; 16], ..known.clone() }, "growth_or_every"),
        (with(rules(0, 1), 10), "sessions (--sessions) is 0, it must be from 1 to 4096"),
        (with(rules(4097, 1), 5000), "sessions (--sessions) is 4097, it must be from 1 to 4096"),
        (with(rules(1, 0), 10), "decisions_a_session (--decisions) is 0"),
        (with(rules(12, 1), 11), "counters.every (--counters) is 11, it must be from 12 to 1000000"),
        (Definition { features: 97, ..with(rules(1, 1), 10) }, "98 features and arms together"),
    ] {
        match committee.board.create(refused) {
            Err(switchboard::Error::Definition(found)) => assert!(found.contains(why), "{found}"),
            other => panic!("{why}: {other:?}"),
        }
    }
    committee.store();
    assert_eq!(committee.stored, stored);
    committee.restart_server();
}

/// With one member more than 2t − 1, one that is silent in the middle of a run is left out, and comes back
/// later. With exactly 2t − 1, requests wait until it is back. A server that starts again goes on.
#[test]
fn members_and_servers_stop_and_start() {
    let (mut committee, bandit, device) = Committee::learnt(2, 4);
    committee.stop(3);
    let rows = vec![vec![0.5, 0.5], vec![0.1, 0.2]];
    let bytes = committee.request(&device, &bandit, &rows);
    let ticket = committee.board.ask(&bandit, bytes, committee.now).unwrap();
    committee.run();
    assert!(committee.board.outcome(ticket).is_none(), "the server waits for member 3");
    for _ in 0..3 {
        committee.wait();
        committee.run();
    }
    committee.arm(&device, ticket, 2).unwrap();
    assert_eq!(play(&mut committee, &bandit, &device, 4), 8);
    // A second one stops: two are left, and three are needed.
    committee.stop(1);
    let bytes = committee.request(&device, &bandit, &rows);
    let ticket = committee.board.ask(&bandit, bytes, committee.now).unwrap();
    for _ in 0..3 {
        committee.wait();
        committee.run();
    }
    assert!(committee.board.outcome(ticket).is_none());
    committee.start(3);
    committee.run();
    committee.arm(&device, ticket, 2).unwrap();
    committee.start(1);
    assert_eq!(play(&mut committee, &bandit, &device, 4), 12);
    committee.restart_server();
    assert_eq!(play(&mut committee, &bandit, &device, 4), 16);
    (1..=4).for_each(|member| committee.start(member));
    committee.restart_server();
    assert_eq!(play(&mut committee, &bandit, &device, 4), 20);
}

/// A server that keeps three decisions that wait for feedback drops the oldest for a fourth one, and none for
/// those that have it.
#[test]
fn decisions_wait_for_feedback_beside_others_that_have_it() {
    let mut committee = Committee::new(2, 3);
    committee.options.most_open = 3;
    committee.restart_server();
    let bandit = committee.create(&config(2, 2), 1);
    let device = committee.session();
    let rows = vec![vec![0.5, 0.5], vec![0.1, 0.2]];
    let mut waits: Vec<[u8; 32]> = (0..2).map(|_| committee.decide(&device, &bandit, &rows).1).collect();
    assert_eq!(play(&mut committee, &bandit, &device, 8), 8);
    assert_eq!(committee.board.view(&bandit).unwrap().open, 2);
    committee.reward(&device, &bandit, &waits.remove(0), 1.0);
    waits.extend((0..3).map(|_| committee.decide(&device, &bandit, &rows).1));
    assert_eq!(committee.board.view(&bandit).unwrap().open, 3);
    committee.restart_server();
    let feedback = |committee: &mut Committee, label: &[u8; 32]| {
        let reward = Row::new(&[1.0], &mut committee.rng).unwrap();
        let feedback = device.feedback(label, &committee.sharing, &reward, &mut committee.rng).unwrap();
        committee.board.feedback(&bandit, feedback.to_bytes(), committee.now)
    };
    assert_eq!(feedback(&mut committee, &waits[0]), Err(switchboard::Error::Decision), "the oldest");
    for label in &waits[1..] {
        feedback(&mut committee, label).unwrap();
    }
    committee.run();
    assert_eq!(committee.board.view(&bandit).unwrap().feedbacks, 12);
}

/// Members whose steps take longer than the server's patience where many slots are prepared together, as many
/// as the stock has, prepare fewer, and a request is decided. If they always prepare as many, it ends without
/// a decision.
#[test]
fn slow_members_prepare_fewer_slots() {
    let mut committee = Committee::with_stock(2, 4, 32);
    // A step for 8 slots takes three quarters of the patience, and one for 32 three times as long.
    let numbers = std::cell::Cell::new(0);
    let mut count = |_: u8, said: FromMember| {
        if let FromMember::Add { numbers: Some(of), .. } = &said {
            numbers.set(numbers.get().max(of.len() as u32));
        }
        vec![said]
    };
    let bandit = committee.board.create(definition(&committee, &config(2, 2), 1, None)).unwrap();
    committee.run_with(&mut count, &mut tells);
    let device = committee.session();
    committee.slow_number = committee.options.patience * 3 / 4 / numbers.get();
    let rows = vec![vec![0.5, 0.5], vec![0.1, 0.2]];
    let bytes = committee.request(&device, &bandit, &rows);
    // Their slots are gone.
    (1..=4).for_each(|member| committee.start(member));
    let (asked, ticket) = (committee.now, committee.board.ask(&bandit, bytes, committee.now).unwrap());
    let mut decided = None;
    for _ in 0..200 {
        committee.run();
        decided = committee.arm_of(&device, ticket, 2);
        if decided.is_some() {
            break;
        }
        committee.wait();
    }
    decided.expect("a decision").unwrap();
    let waited = committee.now - asked;
    assert!(waited < committee.options.patience * 8, "{waited:?}");
}

/// A server that has as many sessions as it can forgets those that were not used for the longest time, but
/// for those whose feedback waits, and so do the members. Their devices begin them again, and return the
/// feedback on decisions of before.
#[test]
fn sessions_are_forgotten_and_begin_again() {
    let mut committee = Committee::new(2, 3);
    committee.options.most_sessions = 3;
    committee.restart_server();
    let bandit = committee.create(&config(2, 2), 1);
    let (rows, reward) = (vec![vec![0.5, 0.5], vec![0.1, 0.2]], Row::new(&[1.0], &mut rng(1)).unwrap());
    let mut begun = vec![];
    for _ in 0..3 {
        let device = committee.session();
        let (_, label) = committee.decide(&device, &bandit, &rows);
        begun.push((device, label, committee.sent.clone().unwrap()));
    }
    let feedback = |committee: &mut Committee, (device, label, _): &(SessionSecret, [u8; 32], _)| {
        let feedback = device.feedback(label, &committee.sharing, &reward, &mut committee.rng).unwrap();
        committee.board.feedback(&bandit, feedback.to_bytes(), committee.now)
    };
    // That of the first waits for the end of the batch.
    feedback(&mut committee, &begun[0]).unwrap();
    committee.session();
    assert!(committee.board.receipts(&begun[0].0.id()).unwrap().is_some());
    let unknown = Err(switchboard::Error::Session);
    assert_eq!(feedback(&mut committee, &begun[1]), unknown);
    let (device, _, begins) = &begun[1];
    let request = committee.request(device, &bandit, &rows);
    assert_eq!(
        committee.board.ask(&bandit, request.clone(), committee.now),
        Err(switchboard::Error::Session)
    );
    let stored = committee.stored.len();
    committee.board.session(begins.clone()).unwrap();
    committee.run();
    assert_eq!(committee.stored.len(), stored, "the session in place of another one");
    feedback(&mut committee, &begun[1]).unwrap();
    let ticket = committee.board.ask(&bandit, request, committee.now).unwrap();
    committee.run();
    committee.arm(device, ticket, 2).unwrap();
    // If all wait there is no place.
    committee.board.session(begun[2].2.clone()).unwrap();
    committee.run();
    feedback(&mut committee, &begun[2]).unwrap();
    let other = begun[0].2.clone();
    let full = committee.board.session(shares::Session { hashes: vec![[0; 32]; 3], ..other });
    assert!(matches!(full, Err(switchboard::Error::Full { most: 3, .. })), "{full:?}");
    // The batch of four is learnt with all of them.
    let (_, label) = committee.decide(&begun[0].0, &bandit, &rows);
    committee.reward(&begun[0].0, &bandit, &label, 1.0);
    assert_eq!(committee.board.view(&bandit).unwrap().feedbacks, 4);
}
