//! Evaluations that are repeated, because their users ask again.
//!
//! Contexts that are too long spoil the answers of all users of an evaluation. A device sees that its answer
//! is outside its range, and asks again. Contexts of the last evaluations are kept for this. If more than
//! half of the users of an evaluation ask, it is repeated in halves, and a half of which users ask again in
//! halves of its own, until a sender is alone: its contexts are evaluated alone from then on ([`Senders`]). A
//! repeat answers the users who asked, under a fresh mask and with the same rounds, ids and widths, so that
//! each of them returns one feedback. All users who ask are halved together, and each who does not with one
//! who does, since the answers of the others show nothing. Hence a sender is found in at most ⌈log₂ n⌉ + 1
//! repeats of n senders.
//!
//! [`Senders`]: super::senders::Senders

use super::EncryptedServed;
use super::pool::{Brought, Holder, Outcome, Pack, Stages, User, blocking};
use super::senders::Sender;
use crate::error::Error;
use ckks::Ciphertext;
use helba::ScoresModel;
use host::lock;
use protocol::{DecisionId, UserKeys};
use rayon::prelude::*;
use service::Body;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use wire::{AskAgain, Enrolment, SenderTag};

/// The most evaluations of a bandit that are kept: those whose users may ask again, and those that are being
/// repeated.
const MOST_KEPT: usize = 2;
/// The most evaluations for one that is repeated: two a repeat for three senders among 2048.
const MOST_REPEATED: usize = 72;
/// After enough users have asked again, the others get twice the time that these took, and at least this part
/// of the time for asking.
const LEAST_GRACE: u32 = 20;
/// Contexts scored at a time.
const CHUNK: usize = 64;
/// The unit in which memory for contexts is counted, in bytes.
pub(super) const UNIT: usize = 1 << 10;

/// Contexts as they came, which hold their part of the memory for contexts.
pub(super) struct Upload {
    pub(super) bytes: Vec<u8>,
    _memory: OwnedSemaphorePermit,
}

/// Contexts and who sent them.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) sender: Sender,
    /// The number of decisions.
    pub(super) decisions: usize,
    /// Under whose pads answers are, if users have keys of their own.
    pub(super) enrolment: Option<Arc<Enrolment>>,
    pub(super) upload: Arc<Upload>,
}

impl Stages {
    /// Keeps contexts, unless the memory for them is taken.
    pub(super) fn keep(
        &self,
        sender: Sender,
        enrolment: Option<Arc<Enrolment>>,
        decisions: usize,
        bytes: &[u8],
    ) -> Option<Sent> {
        let units = u32::try_from(bytes.len().div_ceil(UNIT)).ok()?;
        let memory = self.contexts.clone().try_acquire_many_owned(units).ok()?;
        let upload = Arc::new(Upload { bytes: bytes.to_vec(), _memory: memory });
        Some(Sent { sender, decisions, enrolment, upload })
    }
}

/// A user of an evaluation.
pub(super) struct Member {
    sent: Sent,
    /// Its round and the number of its answers. `None` if it was not answered.
    answered: Option<(u64, u32)>,
    asks: Option<Asks>,
}

/// A user who asks again, and waits.
struct Asks {
    outcome: oneshot::Sender<Outcome>,
    place: OwnedSemaphorePermit,
}

/// Users of an evaluation, or of a part of it.
pub(super) struct Group {
    members: Vec<Member>,
    /// Who answered a stage of its evaluation, or of one that this repeats.
    pub(super) holders: BTreeSet<Holder>,
    pub(super) model: ScoresModel,
    pub(super) model_feedbacks: u64,
    /// The last round of the first evaluation, which determines the width.
    pub(super) last: u64,
}

/// An evaluation whose users may ask again.
struct Kept {
    group: Group,
    /// How many users have an answer.
    answered: usize,
    asked: usize,
    /// How many must ask for a repeat.
    needed: usize,
    began: Instant,
    /// When enough had asked.
    enough: Option<Instant>,
    changed: Arc<Notify>,
    /// Whether it is a first evaluation, and no repeat.
    first: bool,
}

/// The evaluations of a bandit that are kept.
#[derive(Default)]
pub(super) struct Keeping {
    kept: HashMap<u64, Kept>,
    next: u64,
    /// The number of first evaluations that are being repeated.
    repeating: usize,
    /// The rounds whose users wait for a repeat.
    waiting: HashSet<u64>,
}

/// The repeats of one evaluation.
struct Search {
    /// The evaluations that are left for them.
    left: AtomicUsize,
    /// Its turn. It ends with the first sender that is found, since the next search may know this sender
    /// already, and need not wait until the right half has had its time for asking.
    turn: Mutex<Option<OwnedSemaphorePermit>>,
}

/// What the users of a repeat had to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// They ask again.
    Spoilt,
    /// They do not.
    Right,
    /// None of them waits for an answer, so that there is no repeat.
    Unheard,
    /// The repeat ended without answers.
    Failed,
}

impl Group {
    pub(super) fn new(model: ScoresModel, model_feedbacks: u64, last: u64) -> Self {
        Group { members: Vec::new(), holders: BTreeSet::new(), model, model_feedbacks, last }
    }

    /// Adds a user with its round and the number of its answers, or one who left before it was answered.
    pub(super) fn push(&mut self, sent: Sent, answered: Option<(u64, u32)>) {
        self.members.push(Member { sent, answered, asks: None });
    }

    fn with(&self, members: Vec<Member>) -> Self {
        Group { members, holders: self.holders.clone(), model: self.model.clone(), ..*self }
    }

    fn asks(&self) -> bool {
        self.members.iter().any(|member| member.asks.is_some())
    }

    fn senders(&self) -> Vec<Sender> {
        let mut senders: Vec<Sender> = self.members.iter().map(|member| member.sent.sender).collect();
        senders.sort_unstable();
        senders.dedup();
        senders
    }

    /// The users of each sender.
    fn by_sender(mut self) -> Vec<Group> {
        let mut of: BTreeMap<Sender, Vec<Member>> = BTreeMap::new();
        for member in std::mem::take(&mut self.members) {
            of.entry(member.sent.sender).or_default().push(member);
        }
        of.into_values().map(|members| self.with(members)).collect()
    }

    /// Two parts of about as many senders who ask. Each sender who does not ask is with one who does, as long
    /// as there are as many; a pair is parted only when it is alone.
    fn halves(self) -> [Group; 2] {
        let empty = self.with(Vec::new());
        let (asking, silent): (Vec<Group>, Vec<Group>) = self.by_sender().into_iter().partition(Group::asks);
        let mut silent = silent.into_iter();
        let mut units: Vec<Vec<Group>> =
            asking.into_iter().map(|group| [group].into_iter().chain(silent.next()).collect()).collect();
        units.extend(silent.map(|group| vec![group]));
        if units.len() == 1 {
            units = units.into_iter().flatten().map(|group| vec![group]).collect();
        }
        let right = units.split_off(units.len().div_ceil(2));
        [units, right]
            .map(|units| empty.with(units.into_iter().flatten().flat_map(|group| group.members).collect()))
    }

    /// Refuses the users who ask again.
    fn refuse(self, error: impl Fn() -> Error) {
        for asks in self.members.into_iter().filter_map(|member| member.asks) {
            let _ = asks.outcome.send(Err(error()));
        }
    }
}

impl Keeping {
    /// Keeps an evaluation for its users to ask again, and returns its number. If as many are kept as may be,
    /// it replaces the one of whose users the least part has asked, or is not kept.
    fn keep(&mut self, group: Group, first: bool) -> Option<u64> {
        let answered = group.members.iter().filter(|member| member.answered.is_some()).count();
        let firsts = || self.kept.iter().filter(|(_, kept)| kept.first);
        if first && firsts().count() + self.repeating >= MOST_KEPT {
            let share = |kept: &Kept| (kept.asked * 1000 / kept.answered.max(1), kept.began);
            let least = firsts().min_by_key(|(_, kept)| share(kept)).map(|(id, _)| *id)?;
            let dropped = self.kept.remove(&least)?;
            dropped.changed.notify_one();
            dropped.group.refuse(|| Error::NotKept);
        }
        self.next += 1;
        let needed = if first { answered / 2 + 1 } else { answered.div_ceil(2).max(1) };
        for (round, _) in group.members.iter().filter_map(|member| member.answered) {
            self.waiting.remove(&round);
        }
        let (began, changed) = (Instant::now(), Arc::new(Notify::new()));
        let kept = Kept { group, answered, asked: 0, needed, began, enough: None, changed, first };
        self.kept.insert(self.next, kept);
        Some(self.next)
    }

    /// Takes the wish of the user of `round` for another answer than its last one, the one with this number.
    fn ask(
        &mut self,
        round: u64,
        tag: Option<SenderTag>,
        answers: u32,
        place: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Outcome>, Error> {
        if self.waiting.contains(&round) {
            return Err(Error::AskedAgain);
        }
        for kept in self.kept.values_mut() {
            let members = kept.group.members.iter_mut();
            let mut of_round = members.filter_map(|member| Some((member.answered?, member)));
            let Some(((_, last), member)) = of_round.find(|((of, _), _)| *of == round) else { continue };
            if member.sent.sender.tag != tag {
                return Err(Error::OtherSender);
            }
            if member.asks.is_some() || answers != last {
                return Err(Error::AskedAgain);
            }
            let (outcome, receiver) = oneshot::channel();
            member.asks = Some(Asks { outcome, place });
            kept.asked += 1;
            if kept.asked == kept.needed {
                kept.enough = Some(Instant::now());
            }
            kept.changed.notify_one();
            return Ok(receiver);
        }
        Err(Error::NotKept)
    }

    /// The time until which the evaluation is kept if no other user asks. `None` if it is not kept, or all of
    /// its users have asked.
    fn until(&self, id: u64, longest: Duration) -> Option<(Instant, Arc<Notify>)> {
        let kept = self.kept.get(&id).filter(|kept| kept.asked < kept.answered)?;
        let until = match kept.enough {
            Some(enough) => enough + (longest / LEAST_GRACE).max(2 * (enough - kept.began)),
            None => kept.began + longest,
        };
        Some((until, kept.changed.clone()))
    }

    /// Ends the time for asking. Returns the users if enough of them asked.
    fn close(&mut self, id: u64) -> Option<Group> {
        let Kept { group, asked, needed, answered, first, .. } = self.kept.remove(&id)?;
        if asked < needed {
            group.refuse(|| Error::TooFewAsked { asked, answered });
            return None;
        }
        self.repeating += usize::from(first);
        let asking = group.members.iter().filter(|member| member.asks.is_some());
        self.waiting.extend(asking.filter_map(|member| Some(member.answered?.0)));
        Some(group)
    }

    /// Refuses all who ask again.
    pub(super) fn end(self, error: impl Fn() -> Error) {
        for kept in self.kept.into_values() {
            kept.changed.notify_one();
            kept.group.refuse(&error);
        }
    }
}

impl EncryptedServed {
    /// Answers a decision again, together with others whose users ask again for theirs.
    pub(crate) async fn again(
        self: Arc<Self>,
        decision: DecisionId,
        tag: Option<SenderTag>,
        body: Body,
    ) -> Result<super::Reply, Error> {
        let place = self.shared.stages.waiting.clone().try_acquire_owned().map_err(|_| Error::Overloaded)?;
        let AskAgain { answers } = AskAgain::read(&body)?;
        let served = self.clone();
        let asked = move || {
            let round = {
                let live = lock(&served.live);
                if live.deleted {
                    return Err(served.deleted());
                }
                live.bandit.waiting(decision)?
            };
            match (round, served.created.config.decides_alone()) {
                (Err(_), _) => Err(Error::Returned { id: decision.to_string() }),
                // Such an answer depends on its own contexts alone.
                (_, true) => Err(Error::Alone),
                (Ok(round), false) => lock(&served.keeping).ask(round, tag, answers, place),
            }
        };
        let outcome = blocking(asked).await?;
        self.shared.stages.metrics.asked_again();
        let lost = || Error::NotEvaluated { why: "its repeat ended early".into() };
        Ok(super::Reply::Binary(outcome.await.map_err(|_| lost())??.to_bytes()))
    }

    /// Keeps an evaluation whose users are answered now, and repeats it if enough of them ask again.
    pub(super) fn keep_first(self: &Arc<Self>, group: Group) {
        // The contexts of a sender alone spoil no other's answer.
        if group.senders().len() < 2 {
            return;
        }
        let Some(id) = lock(&self.keeping).keep(group, true) else { return };
        let served = self.clone();
        tokio::spawn(async move {
            let Some(group) = served.asking(id).await else { return };
            let rounds: Vec<u64> = group.members.iter().filter_map(|m| Some(m.answered?.0)).collect();
            served.clone().search(group).await;
            let mut keeping = lock(&served.keeping);
            keeping.repeating -= 1;
            keeping.waiting.retain(|round| !rounds.contains(round));
        });
    }

    /// Keeps a repeat whose users are answered now, and returns its number.
    pub(super) fn keep_repeat(&self, group: Group) -> Option<u64> {
        lock(&self.keeping).keep(group, false)
    }

    /// Waits for the users of an evaluation, and returns them if enough ask again.
    async fn asking(&self, id: u64) -> Option<Group> {
        let longest = self.shared.stages.ask_again;
        loop {
            let until = lock(&self.keeping).until(id, longest);
            let Some((until, changed)) = until else { break };
            if tokio::time::timeout_at(until.into(), changed.notified()).await.is_err() {
                // It may have changed at the last moment.
                if Instant::now() >= until {
                    break;
                }
            }
        }
        lock(&self.keeping).close(id)
    }

    /// Finds whose contexts spoilt the answers of `group`, and answers those who ask again.
    async fn search(self: Arc<Self>, group: Group) {
        // One at a time: the next one may know the sender already.
        let Ok(turn) = self.searches.clone().acquire_owned().await else { return };
        let (users, began) = (group.members.len(), Instant::now());
        let (left, turn) = (AtomicUsize::new(MOST_REPEATED), Mutex::new(Some(turn)));
        let search = Arc::new(Search { left, turn });
        let empty = group.with(Vec::new());
        let (known, others): (Vec<Group>, Vec<Group>) = group.by_sender().into_iter().partition(|group| {
            let sender = group.members.first().map(|member| member.sent.sender);
            sender.is_some_and(|sender| lock(&self.senders).is_alone(&sender, began))
        });
        let rest = empty.with(others.into_iter().flat_map(|group| group.members).collect());
        // A repeat of all without a sender that is known, or of two, of whom one would be alone at once.
        let whole = !known.is_empty() || rest.senders().len() <= 2;
        for group in known {
            self.clone().repeat(group, search.clone()).await;
        }
        if whole {
            self.clone().repeat(rest, search.clone()).await;
        } else {
            self.clone().split(rest, search.clone(), false).await;
        }
        let evaluations = MOST_REPEATED - search.left.load(Ordering::Relaxed).min(MOST_REPEATED);
        let seconds = began.elapsed().as_secs_f64();
        tracing::info!(bandit = self.created.id, users, evaluations, seconds, "repeated");
    }

    /// Repeats an evaluation in halves. If it is a repeat itself, one of them holds the cause, if the users
    /// say what is true; a first evaluation may have been spoilt by the trace that was in its pack.
    async fn split(self: Arc<Self>, group: Group, search: Arc<Search>, is_repeat: bool) {
        let halves = group.halves();
        let senders = halves.each_ref().map(Group::senders);
        let [one, other] = halves.map(|half| self.clone().repeat(half, search.clone()));
        use Verdict::{Right, Unheard};
        let (verdicts, [one, other]) = (tokio::join!(one, other), senders);
        let found = match verdicts {
            _ if !is_repeat => return,
            // By elimination.
            (Right, Unheard) => other,
            (Unheard, Right) => one,
            // One of two has said what is not true.
            (Right, Right) if one.len() == 1 && other.len() == 1 => [one, other].concat(),
            _ => return,
        };
        found.into_iter().for_each(|sender| self.find(sender, &search));
    }

    /// Repeats an evaluation, and again in halves if its users ask again.
    fn repeat(
        self: Arc<Self>,
        group: Group,
        search: Arc<Search>,
    ) -> Pin<Box<dyn Future<Output = Verdict> + Send>> {
        Box::pin(async move {
            if !group.asks() {
                return Verdict::Unheard;
            }
            let take = |left: usize| left.checked_sub(1);
            if search.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
                group.refuse(|| Error::NotEvaluated { why: "it was repeated too often".into() });
                return Verdict::Failed;
            }
            let senders = group.senders();
            let Some(id) = self.evaluate_again(group).await else { return Verdict::Failed };
            let Some(group) = self.asking(id).await else { return Verdict::Right };
            match senders[..] {
                [sender] => {
                    self.find(sender, &search);
                    group.refuse(|| Error::Alone);
                }
                _ => self.split(group, search, true).await,
            }
            Verdict::Spoilt
        })
    }

    /// The number of senders whose contexts are evaluated alone.
    pub(crate) fn senders_alone(&self) -> usize {
        lock(&self.senders).alone(Instant::now())
    }

    /// Evaluates the contexts of this sender alone from now on, and gives the turn of the search to the next.
    fn find(&self, sender: Sender, search: &Search) {
        tracing::warn!(bandit = self.created.id, %sender, "its contexts spoil evaluations, and are evaluated alone");
        lock(&self.senders).find(sender, Instant::now());
        lock(&search.turn).take();
    }

    /// The contexts of `group` anew, in groups of members who share ciphertexts, with their number: of users
    /// with keys of their own as a holder of the key makes them from their uploads, and of others each by
    /// itself and unread. Sorts the members.
    pub(super) async fn contexts_again(
        self: &Arc<Self>,
        group: &mut Group,
    ) -> Result<Vec<(usize, Option<Vec<Ciphertext>>)>, Error> {
        // The largest blocks first leave no place empty, so that whoever fitted into one pack fits again.
        group.members.sort_by_key(|member| std::cmp::Reverse(member.sent.decisions.next_power_of_two()));
        if self.created.plan.keys == UserKeys::Shared {
            return Ok(group.members.iter().map(|_| (1, None)).collect());
        }
        let mut contexts = Vec::new();
        let mut left = &group.members[..];
        while !left.is_empty() {
            let lone = left.iter().take_while(|member| member.sent.decisions == 1).count();
            let most = lone.min(self.exchanges.layout.most_decisions()).max(1);
            let (members, rest) = left.split_at(1 << most.ilog2());
            left = rest;
            let of = |member: &Member| {
                let Sent { enrolment, upload, decisions, .. } = &member.sent;
                let user = enrolment.clone().ok_or(Error::Broken("a user without an enrolment"))?;
                self.read_padded(user, upload.bytes.clone().into(), *decisions)
            };
            let padded = members.iter().map(of).collect::<Result<Vec<_>, Error>>()?;
            contexts.push((members.len(), Some(self.contexts_of_users(&padded).await?)));
        }
        Ok(contexts)
    }

    /// Scores the contexts of `group` anew ([`Self::contexts_again`]), with their model, and packs them.
    /// Returns the users who ask, and the contexts of the others.
    pub(super) fn pack_again(
        &self,
        group: Group,
        contexts: Vec<(usize, Option<Vec<Ciphertext>>)>,
    ) -> Result<(Pack, Vec<User>, Vec<Sent>), Error> {
        let bring = |(members, contexts): &(&[Member], Option<Vec<Ciphertext>>)| -> Result<Brought, Error> {
            match (contexts, members) {
                (Some(contexts), _) => self.bring(contexts, &group.model),
                (None, [Member { sent, .. }]) => {
                    self.bring(&self.read_contexts(&sent.upload.bytes, sent.decisions)?, &group.model)
                }
                (None, _) => Err(Error::Broken("contexts of several that are not read")),
            }
        };
        let (mut pack, mut users, mut others) = (self.pack_without_trace()?, Vec::new(), Vec::new());
        let (mut numbers, mut together, mut left) = (Vec::new(), Vec::new(), &group.members[..]);
        for (count, contexts) in contexts {
            let (members, rest) = left.split_at(count.min(left.len()));
            left = rest;
            together.push((members, contexts));
        }
        for chunk in together.chunks(CHUNK) {
            let brought = self
                .shared
                .stages
                .beside(|| chunk.par_iter().map(bring).collect::<Result<Vec<_>, Error>>())?;
            for (brought, (members, _)) in brought.into_iter().zip(chunk) {
                let decisions = members.iter().map(|member| member.sent.decisions);
                let mut all = self.push(&mut pack, brought, decisions.clone().sum())?.into_iter();
                numbers.extend(decisions.map(|decisions| all.by_ref().take(decisions).collect::<Vec<_>>()));
            }
        }
        for (member, numbers) in group.members.into_iter().zip(numbers) {
            match (member.asks, member.answered) {
                (Some(Asks { outcome, place }), Some((round, answers))) => users.push(User {
                    numbers,
                    round,
                    answers,
                    sender: outcome,
                    _place: Some(place),
                    enrolment: member.sent.enrolment.clone(),
                    sent: Some(member.sent),
                }),
                _ => others.push(member.sent),
            }
        }
        Ok((pack, users, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::sync::Semaphore;

    const BYTES: usize = 4 << 10;

    fn sender(number: u8) -> Sender {
        Sender { tag: Some(SenderTag([number; 16])), site: Ipv4Addr::LOCALHOST.into() }
    }

    fn sent(number: u8, memory: &Arc<Semaphore>) -> Option<Sent> {
        let room = memory.clone().try_acquire_many_owned((BYTES / UNIT) as u32).ok()?;
        let upload = Arc::new(Upload { bytes: vec![0; BYTES], _memory: room });
        Some(Sent { enrolment: None, sender: sender(number), decisions: 1, upload })
    }

    /// An evaluation of these senders, whose rounds begin at `first`.
    fn group(first: u64, senders: std::ops::Range<u8>, memory: &Arc<Semaphore>) -> Group {
        let mut group = Group::new(ScoresModel::default(), 0, 0);
        for (round, number) in (first..).zip(senders) {
            group.push(sent(number, memory).unwrap(), Some((round, 1)));
        }
        group
    }

    fn place() -> OwnedSemaphorePermit {
        Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap()
    }

    /// However many evaluations there are, the contexts of two are in memory. The one is replaced of whose
    /// users the least part asks again, and those are told.
    #[test]
    fn attack_many_evaluations_take_the_memory_of_two() {
        let memory = Arc::new(Semaphore::new(100 * BYTES / UNIT));
        let held = || 100 - memory.available_permits() * UNIT / BYTES;
        let mut keeping = Keeping::default();
        keeping.keep(group(1, 0..10, &memory), true).unwrap();
        let mut wish = keeping.ask(1, sender(0).tag, 1, place()).unwrap();
        for first in (100..2000).step_by(100) {
            keeping.keep(group(first, 0..10, &memory), true).unwrap();
            assert!(held() <= 20, "{}", held());
        }
        assert!(wish.try_recv().is_err(), "it still waits");
        assert!(matches!(keeping.ask(500, sender(0).tag, 1, place()), Err(Error::NotKept)));
        // More ask in the last one.
        let others: Vec<_> =
            (0..3).map(|at| keeping.ask(1900 + at, sender(at as u8).tag, 1, place())).collect();
        assert!(others.iter().all(Result::is_ok));
        keeping.keep(group(3000, 0..10, &memory), true).unwrap();
        assert!(matches!(wish.try_recv(), Ok(Err(Error::NotKept))));
        // Two are repeated, and no further one is kept.
        let ids: Vec<u64> = keeping.kept.keys().copied().collect();
        for id in ids {
            let kept = keeping.kept.get_mut(&id).unwrap();
            kept.needed = 0;
            let group = keeping.close(id).unwrap();
            assert_eq!(group.senders().len(), 10);
        }
        assert!(keeping.keep(group(4000, 0..10, &memory), true).is_none());
        assert_eq!(held(), 0);
    }

    /// A user asks once for each answer, as the sender of the contexts, and with too few others in vain.
    #[test]
    fn wishes_are_counted_once() {
        let memory = Arc::new(Semaphore::new(100));
        let mut keeping = Keeping::default();
        let id = keeping.keep(group(1, 0..4, &memory), true).unwrap();
        let mut first = keeping.ask(1, sender(0).tag, 1, place()).unwrap();
        assert!(matches!(keeping.ask(1, sender(0).tag, 1, place()), Err(Error::AskedAgain)));
        assert!(matches!(keeping.ask(2, sender(1).tag, 2, place()), Err(Error::AskedAgain)));
        for tag in [None, sender(2).tag] {
            assert!(matches!(keeping.ask(2, tag, 1, place()), Err(Error::OtherSender)));
        }
        keeping.ask(2, sender(1).tag, 1, place()).unwrap();
        assert!(keeping.until(id, Duration::ZERO).is_some_and(|(until, _)| until <= Instant::now()));
        assert!(keeping.close(id).is_none(), "two of four are no majority");
        assert!(matches!(first.try_recv(), Ok(Err(Error::TooFewAsked { asked: 2, answered: 4 }))));
        // Three are one, and wait until they are answered again.
        let id = keeping.keep(group(11, 0..4, &memory), true).unwrap();
        let wishes: Vec<_> =
            (0..3).map(|at| keeping.ask(11 + at, sender(at as u8).tag, 1, place())).collect();
        assert!(wishes.iter().all(Result::is_ok));
        let repeated = keeping.close(id).unwrap();
        assert!(
            repeated.asks() && matches!(keeping.ask(11, sender(0).tag, 1, place()), Err(Error::AskedAgain))
        );
        let mut answered = repeated.with(Vec::new());
        answered.push(sent(0, &memory).unwrap(), Some((11, 2)));
        keeping.keep(answered, false).unwrap();
        assert!(matches!(keeping.ask(11, sender(0).tag, 1, place()), Err(Error::AskedAgain)));
        keeping.ask(11, sender(0).tag, 2, place()).unwrap();
    }

    /// Halves have all users, and no sender is in both. While as many ask as do not, both halves have one who
    /// asks, until a pair is parted. Any sender is alone after at most ⌈log₂ n⌉ + 1 halvings.
    #[test]
    fn halves_end_with_a_sender_alone() {
        let memory = Arc::new(Semaphore::new(1000));
        for (asking, silent) in [1, 2, 3, 5, 8, 13, 32].into_iter().flat_map(|n| [(n, 0), (n, n / 2), (n, n)])
        {
            let senders = asking + silent;
            for cause in (0..senders).map(sender) {
                let mut part = group(1, 0..senders, &memory);
                for member in &mut part.members[..usize::from(asking)] {
                    member.asks = Some(Asks { outcome: oneshot::channel().0, place: place() });
                }
                let mut repeats = 0;
                while part.senders().len() > 1 {
                    let before = part.senders();
                    let halves = part.halves();
                    assert!(before.len() == 2 || halves.iter().all(Group::asks));
                    let [one, other] = halves.each_ref().map(Group::senders);
                    let mut both = [&one[..], &other].concat();
                    both.sort();
                    assert_eq!(both, before);
                    let [left, right] = halves;
                    part = if one.contains(&cause) { left } else { right };
                    repeats += 1;
                }
                let most = f64::from(senders).log2().ceil() as u32 + 1;
                assert!(repeats <= most, "{asking} {silent}: {repeats}");
            }
        }
    }
}
