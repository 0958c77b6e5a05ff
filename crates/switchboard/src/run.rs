//! Runs: what members say in each step goes to the others, or is added up.

use crate::bandit::{Updating, Waiting};
use crate::{Decision, Error, Key, Row, Stocked, Switchboard, Voted, stored_state};
use shares::preparation::{PREPARED, Statement, Transcript, Word};
use shares::talk::{
    Added, Ballot, BanditId, COMMIT, Checkpoint, Decided, Erased, MOST_ERASED, MOST_PRODUCTS, MOST_TOGETHER,
    Pack, Played, Prepare, Purpose, RunId, SlotAt, Tags, ToMember, Update, VOTE, decision_label, from_bytes,
    products_of_a_decision,
};
use shares::{AnswerPlace, DecisionState, Field, Key as Seed, Label, Message, SessionId, Threshold};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The most packs of a bandit that are computed at a time.
const MOST_PACKS: usize = 2;
/// The most slots that are prepared together.
const MOST_SLOTS: u32 = 256;
/// More bytes than what honest members say in one step differs by: the places that they refuse in step 0.
const MOST_MORE: usize = 4 * MOST_TOGETHER;

/// A run that goes on.
pub(crate) struct Run {
    pub(crate) bandit: BanditId,
    pub(crate) here: Vec<u8>,
    /// What members call it, where the server does not know: a preparation.
    names: BTreeMap<u8, RunId>,
    step: u32,
    said: BTreeMap<u8, Work>,
    pub(crate) since: Instant,
    /// What its longest step has taken.
    longest: Duration,
    kind: Kind,
}

/// What a member says in a step.
pub(crate) enum Work {
    Said(Vec<u8>),
    Added(Option<Vec<Field>>),
}

pub(crate) enum Kind {
    /// Slots are prepared: for an update, or for decisions.
    Prepare {
        learns: bool,
        slots: u32,
        done: BTreeMap<u8, Done>,
        /// What it has had from members, once all have begun.
        had: Option<Box<Had>>,
    },
    Pack {
        round: u64,
        /// Who has prepared its slots.
        set: Vec<u8>,
        requests: Vec<Waiting>,
        done: BTreeMap<u8, Vec<Result<Decided, String>>>,
    },
    Update {
        votes: BTreeMap<u8, Vote>,
        checkpoints: BTreeMap<[u8; 32], Checkpoint>,
    },
}

/// That a member has computed a checkpoint.
pub(crate) struct Vote {
    pub(crate) ballot: Ballot,
    pub(crate) signature: Vec<u8>,
    /// The members who have shown it wrong numbers.
    pub(crate) liars: BTreeSet<u8>,
}

/// How a preparation has ended at a member.
pub(crate) struct Done {
    pub(crate) good: bool,
    pub(crate) liars: BTreeSet<u8>,
    pub(crate) disputed: BTreeSet<(u8, u8)>,
}

/// What has come of a preparation: what members say must fit it.
pub(crate) struct Had {
    batch: Label,
    /// The hash of all sums that were given.
    seen: Transcript,
    /// Of each member the hash of all that it has sent to be added up.
    sent: BTreeMap<u8, Transcript>,
    /// What each has signed of its seeds.
    seeds: BTreeMap<u8, Vec<[u8; 32]>>,
    /// How many steps with words are over.
    words: u32,
}

impl Run {
    /// Whether it computes decisions.
    pub(crate) fn is_pack(&self) -> bool {
        matches!(self.kind, Kind::Pack { .. })
    }

    /// The sessions of requests that it computes.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        let requests = match &self.kind {
            Kind::Pack { requests, .. } => requests.as_slice(),
            _ => &[],
        };
        requests.iter().map(|waiting| waiting.session)
    }
}

impl Switchboard {
    pub(crate) fn begin(&mut self, id: RunId, bandit: BanditId, here: Vec<u8>, kind: Kind, now: Instant) {
        let (names, said) = (BTreeMap::new(), BTreeMap::new());
        let run = Run { bandit, here, names, step: 0, said, since: now, longest: Duration::ZERO, kind };
        self.runs.insert(id, run);
    }

    /// Has slots prepared, if the stock of a bandit is low.
    pub(crate) fn prepare_stock(&mut self, id: BanditId, here: &[u8], now: Instant) {
        let Some(bandit) = self.bandits.get_mut(&id) else { return };
        let stock = self.options.stock as usize;
        let (want, slots) = (stock.max(bandit.waiting.len()), bandit.slots());
        // Members decide nothing while they take a step of a preparation: steps are short where few ask.
        let (part, low) = match bandit.waiting.is_empty() && bandit.packs == 0 {
            true => (stock.div_ceil(4), slots + stock.div_ceil(4).max(1) <= want),
            false => (want, slots < want.div_ceil(2)),
        };
        let may = bandit.may_prepare(now, self.options.patience);
        if bandit.prepares || !low || !may {
            return;
        }
        bandit.prepares = true;
        let fit = MOST_PRODUCTS / products_of_a_decision(bandit.config.d, bandit.config.k).max(1);
        let slots = (part as u32).min(fit as u32).min(bandit.most_slots).clamp(1, MOST_SLOTS);
        let purpose = Purpose::Decide { feedbacks: bandit.feedbacks() };
        let set = bandit.prepare_with(here, self.threshold.needed());
        self.begin_prepare(id, purpose, slots, &set, now);
    }

    fn begin_prepare(&mut self, bandit: BanditId, purpose: Purpose, slots: u32, set: &[u8], now: Instant) {
        self.number += 1;
        let number = self.number;
        if let Some(bandit) = self.bandits.get_mut(&bandit) {
            bandit.begun = Some(now);
        }
        let nonces = set.iter().filter_map(|member| Some((*member, self.seats.nonce(*member)?)));
        let prepare = Prepare { bandit, purpose, set: nonces.collect(), number, slots };
        let kind = Kind::Prepare {
            learns: matches!(purpose, Purpose::Learn { .. }),
            slots,
            done: BTreeMap::new(),
            had: None,
        };
        self.begin(Prepare::asked(number), bandit, set.to_vec(), kind, now);
        self.seats.tell_some(set, ToMember::Prepare(prepare));
    }

    /// What a member calls the preparation of a batch. Each is told of it by its own name, so that one with
    /// another name stops nobody.
    pub(crate) fn began(&mut self, member: u8, number: u64, id: RunId) {
        if let Some(run) = self.runs.get_mut(&Prepare::asked(number))
            && run.here.contains(&member)
            && matches!(run.kind, Kind::Prepare { .. })
        {
            run.names.insert(member, id);
        }
    }

    /// The run that a member calls so.
    pub(crate) fn named(&self, member: u8, id: RunId) -> RunId {
        let named = |run: &Run| run.names.get(&member) == Some(&id);
        self.runs.iter().find(|(_, run)| named(run)).map_or(id, |(of, _)| *of)
    }

    /// Begins a pack, if requests wait and slots are there. Whether it has.
    pub(crate) fn begin_pack(&mut self, id: BanditId, here: &[u8], now: Instant) -> bool {
        let Some(bandit) = self.bandits.get_mut(&id) else { return false };
        if bandit.waiting.is_empty() || bandit.packs >= MOST_PACKS {
            return false;
        }
        let most = bandit.waiting.len().min(MOST_TOGETHER);
        let Some((set, slots)) = bandit.take_slots(most) else { return false };
        let set: Vec<u8> = set.into_iter().filter(|member| here.contains(member)).collect();
        if set.len() < self.threshold.needed() {
            bandit.drop_stock(|_| true);
            return false;
        }
        let requests: Vec<Waiting> = bandit.waiting.drain(..slots.len().min(most)).collect();
        let round = bandit.round;
        bandit.round += requests.len() as u64;
        bandit.packs += 1;
        let checkpoint = bandit.certified.as_ref().map(|(checkpoint, ..)| checkpoint.hash());
        let checkpoint = checkpoint.unwrap_or_else(|| Checkpoint::first(id).hash());
        let pack = Pack {
            bandit: id,
            checkpoint,
            round,
            here: set.clone(),
            requests: requests.iter().map(|waiting| waiting.bytes.clone()).collect(),
            slots,
        };
        let run = pack.run(&self.committee);
        for waiting in &requests {
            if let Some(known) = self.sessions.get(&waiting.session) {
                for member in &set {
                    self.seats.tell_session_to(*member, &known.session, waiting.session);
                }
            }
        }
        let kind = Kind::Pack { round, set: set.clone(), requests, done: BTreeMap::new() };
        self.begin(run, id, set.clone(), kind, now);
        self.seats.tell_some(&set, ToMember::Pack(pack));
        true
    }

    /// Begins an update, if one is due: its slot first.
    pub(crate) fn begin_update(&mut self, id: BanditId, here: &[u8], now: Instant) {
        let Some(bandit) = self.bandits.get_mut(&id) else { return };
        let may = bandit.may_prepare(now, self.options.patience);
        if bandit.voted.is_some() || bandit.updating.is_some() || self.leaving.may_leave() || !may {
            return;
        }
        let without = |apart: &BTreeSet<u8>| -> Vec<u8> {
            here.iter().copied().filter(|member| !apart.contains(member)).collect()
        };
        let mut set = without(&bandit.apart);
        if set.len() < self.threshold.needed() {
            bandit.apart.clear();
            set = here.to_vec();
        }
        let set = bandit.prepare_with(&set, self.threshold.needed());
        let Some(([added, erased], _)) = bandit.choose(MOST_ERASED) else { return };
        let (feedbacks, residual) =
            bandit.certified.as_ref().map_or((0, 0), |(known, ..)| (known.feedbacks, known.residual));
        let (learns, erases, opens) = (added.len() as u32, erased.len() as u32, bandit.opens());
        let purpose = Purpose::Learn { feedbacks, residual, added: learns, erased: erases, opens };
        bandit.updating = Some(Updating { added, erased, set: set.clone(), ..Updating::default() });
        self.begin_prepare(id, purpose, 1, &set, now);
    }

    /// Computes the update whose slot is there.
    fn run_update(&mut self, id: BanditId, slot: SlotAt, set: Vec<u8>, now: Instant) {
        let Some(bandit) = self.bandits.get_mut(&id) else { return };
        let ballot = bandit.next_ballot();
        let Some(updating) = &mut bandit.updating else { return };
        updating.slot = Some(slot);
        updating.runs = true;
        updating.set = set.clone();
        let (added, erased) = (updating.added.clone(), updating.erased.clone());
        let all: Vec<[u8; 32]> = added.iter().chain(&erased).copied().collect();
        let row = |label: &[u8; 32]| bandit.row(label).cloned();
        let add = |label: &[u8; 32]| {
            let Row { played, tags, feedback, .. } = row(label)?;
            Some(Added { played, tags, feedback: feedback? })
        };
        let erase = |label: &[u8; 32]| {
            let Row { played, tags, erasure, learnt, .. } = row(label)?;
            Some(Erased { played, tags, learnt: learnt?, request: erasure? })
        };
        let (add, erase): (Vec<Added>, Vec<Erased>) =
            (added.iter().filter_map(add).collect(), erased.iter().filter_map(erase).collect());
        if add.len() + erase.len() != all.len() {
            // A feedback was taken back meanwhile.
            self.update_ends(id, &BTreeSet::new());
            return;
        }
        let certified = bandit.certified.as_ref().map(|(checkpoint, ..)| checkpoint.hash());
        let update = Update {
            bandit: id,
            checkpoint: certified.unwrap_or_else(|| Checkpoint::first(id).hash()),
            ballot,
            here: set.clone(),
            paths: bandit.tree.paths(&all).to_bytes(),
            added: add,
            erased: erase,
            slot,
        };
        let rows = update.added.iter().map(|added| &added.played);
        let rows = rows.chain(update.erased.iter().map(|erased| &erased.played));
        for played in rows {
            if let Some(known) = self.sessions.get(&played.session) {
                for member in &set {
                    self.seats.tell_session_to(*member, &known.session, played.session);
                }
            }
        }
        let run = update.run(&self.committee);
        let kind = Kind::Update { votes: BTreeMap::new(), checkpoints: BTreeMap::new() };
        self.begin(run, id, set.clone(), kind, now);
        self.seats.tell_some(&set, ToMember::Update(Box::new(update)));
    }

    /// A member says something in a step.
    pub(crate) fn said(&mut self, member: u8, id: RunId, step: u32, work: Work, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let adds = matches!(work, Work::Added(_));
        if run.step != step
            || !run.here.contains(&member)
            || adds && !matches!(run.kind, Kind::Prepare { .. })
        {
            return;
        }
        run.said.entry(member).or_insert(work);
        if run.here.iter().all(|member| run.said.contains_key(member)) {
            self.deliver(id, now);
        }
    }

    /// Hands on what members have said in this step. If somebody says in a preparation what cannot be right,
    /// the next one is without it.
    fn deliver(&mut self, id: RunId, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let wrong = wrong(run, &self.threshold, &self.keys);
        if !wrong.is_empty() {
            self.give_up(id);
            return self.name(&wrong, &[], now);
        }
        let Some(run) = self.runs.get_mut(&id) else { return };
        let (mut said, mut sums) = (vec![], vec![]);
        for (member, work) in std::mem::take(&mut run.said) {
            match work {
                Work::Said(body) => said.push((member, body)),
                Work::Added(numbers) => sums.push(numbers),
            }
        }
        // What is longer than what t members say is no honest member's, and goes to nobody.
        let mut lengths: Vec<usize> = said.iter().map(|(_, body)| body.len()).collect();
        lengths.sort_unstable();
        let honest = lengths.iter().rev().nth(self.threshold.t() - 1).copied().unwrap_or(0);
        said.retain(|(_, body)| body.len() <= honest + MOST_MORE);
        let (step, here) = (run.step, run.here.clone());
        run.step += 1;
        run.longest = run.longest.max(now.saturating_duration_since(run.since));
        run.since = now;
        // Most say a thing of the right kind.
        let message: Option<Box<dyn Fn(RunId) -> ToMember>> = match said.len() >= sums.len() {
            true => Some(Box::new(move |run| ToMember::Heard { run, step, said: said.clone() })),
            false => added(sums).map(|sums| -> Box<dyn Fn(RunId) -> ToMember> {
                if let Kind::Prepare { had: Some(had), .. } = &mut run.kind {
                    had.seen.add(&sums);
                }
                Box::new(move |run| ToMember::Sums { run, step, sums: sums.clone() })
            }),
        };
        let names = run.names.clone();
        match message {
            Some(message) if names.is_empty() => self.seats.tell_some(&here, message(id)),
            Some(message) => {
                for (member, run) in names.into_iter().filter(|(member, _)| here.contains(member)) {
                    self.seats.tell(member, message(run));
                }
            }
            None => self.give_up(id),
        }
    }

    /// A member does not take part in a run any more.
    pub(crate) fn ended(&mut self, member: u8, id: RunId, refused: &[u32]) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if !run.here.contains(&member) {
            return;
        }
        if let (Kind::Update { .. }, Some(bandit)) = (&run.kind, self.bandits.get_mut(&run.bandit))
            && let Some(updating) = &mut bandit.updating
        {
            for place in refused {
                updating.refused.entry(*place).or_default().insert(member);
            }
        }
        run.here.retain(|other| *other != member);
        // Before an update begins without what some members refuse of it, all have said what they accept.
        if let (Kind::Update { .. }, Some(bandit)) = (&run.kind, self.bandits.get(&run.bandit))
            && bandit.updating.as_ref().is_some_and(|updating| !updating.refused.is_empty())
            && run.here.iter().any(|other| !run.said.contains_key(other))
            && run.here.len() < self.threshold.needed()
        {
            return;
        }
        // A sum needs all who multiply.
        let adds = match &run.kind {
            Kind::Prepare { had, .. } => had.as_ref().is_none_or(|had| had.words == 0),
            _ => false,
        };
        if run.here.len() >= self.threshold.needed() && !adds {
            let (said, since) = (run.said.len(), run.since);
            let done = match &run.kind {
                Kind::Prepare { done, .. } => run.here.iter().all(|member| done.contains_key(member)),
                Kind::Pack { done, .. } => run.here.iter().all(|member| done.contains_key(member)),
                Kind::Update { .. } => false,
            };
            if done {
                self.finish(id, since);
            } else if said > 0 && run.here.iter().all(|member| run.said.contains_key(member)) {
                self.deliver(id, since);
            }
            return;
        }
        // Slots for another width than decisions have now.
        if let (Kind::Pack { .. }, 0, Some(bandit)) = (&run.kind, run.step, self.bandits.get_mut(&run.bandit))
        {
            bandit.drop_stock(|_| true);
        }
        self.give_up(id);
    }

    /// A step of a run has taken too long.
    pub(crate) fn late(&mut self, id: RunId, now: Instant) {
        let need = self.threshold.needed();
        let Some(run) = self.runs.get_mut(&id) else { return };
        let done: Vec<u8> = match &run.kind {
            Kind::Prepare { done, .. } => done.keys().copied().collect(),
            Kind::Pack { done, .. } => done.keys().copied().collect(),
            Kind::Update { votes, .. } => votes.keys().copied().collect(),
        };
        let spoke: Vec<u8> = run.here.iter().copied().filter(|m| run.said.contains_key(m)).collect();
        // Who says too early that it is done stops nobody.
        let ends = done.len() >= need;
        let active = if ends { &done } else { &spoke };
        let silent: Vec<u8> = run.here.iter().copied().filter(|member| !active.contains(member)).collect();
        let goes_on = active.len() >= need;
        let adds = run.said.values().any(|work| matches!(work, Work::Added(_)));
        let names = run.names.clone();
        for member in &silent {
            let run = names.get(member).copied().unwrap_or(id);
            self.seats.tell(*member, ToMember::End { run });
        }
        if goes_on && !ends && !adds {
            run.here = spoke;
            self.deliver(id, now);
        } else if ends {
            run.here = done;
            self.finish(id, now);
        } else {
            // Members may be slow and not silent.
            if let (Kind::Prepare { learns: false, slots, .. }, Some(bandit)) =
                (&run.kind, self.bandits.get_mut(&run.bandit))
            {
                bandit.most_slots = slots.div_ceil(2);
            }
            self.give_up(id);
        }
        silent.into_iter().for_each(|member| self.seats.is_silent(member));
    }

    /// Ends a run whose members are all done.
    fn finish(&mut self, id: RunId, now: Instant) {
        let need = self.threshold.needed();
        let Some(mut run) = self.runs.remove(&id) else { return };
        match run.kind {
            Kind::Prepare { learns, slots, done, .. } => {
                // Who calls the batch as most do has its slots.
                let same = |name: &RunId| run.names.values().filter(|other| *other == name).count();
                let name = run.names.values().max_by_key(|name| same(name)).copied().unwrap_or(id);
                let has = |member: &u8| {
                    done.get(member).is_some_and(|done| done.good) && run.names.get(member) == Some(&name)
                };
                run.here.retain(has);
                let batch = Label::from_bytes(name);
                let Some(bandit) = self.bandits.get_mut(&run.bandit) else { return };
                match (run.here.len() >= need, learns) {
                    (false, _) => {
                        bandit.failed += 1;
                        bandit.prepares &= learns;
                        if learns {
                            self.update_ends(run.bandit, &BTreeSet::new());
                        }
                    }
                    (true, true) => self.run_update(run.bandit, SlotAt { batch, number: 0 }, run.here, now),
                    (true, false) => {
                        bandit.prepares = false;
                        if run.longest < self.options.patience / 8 {
                            bandit.most_slots =
                                bandit.most_slots.max(slots.saturating_mul(2)).min(MOST_SLOTS);
                        }
                        bandit.stock.push(Stocked { batch, set: run.here, next: 0, count: slots });
                    }
                }
                // What t members say is what one honest member says.
                let t = self.threshold.t();
                let liars = said_by(t, done.values().flat_map(|done| done.liars.iter().copied()));
                let disputed = said_by(t, done.values().flat_map(|done| done.disputed.iter().copied()));
                self.name(&liars, &disputed, now);
            }
            Kind::Pack { round, requests, done, .. } => {
                self.decide(id, run.bandit, (round, now), requests, &done)
            }
            Kind::Update { .. } => {
                // Votes that do not agree.
                self.update_ends(run.bandit, &BTreeSet::new());
            }
        }
    }

    /// Gives a run up: what it was for begins again.
    pub(crate) fn give_up(&mut self, id: RunId) {
        let Some(run) = self.runs.remove(&id) else { return };
        for member in &run.here {
            let run = run.names.get(member).copied().unwrap_or(id);
            self.seats.tell(*member, ToMember::End { run });
        }
        let Some(bandit) = self.bandits.get_mut(&run.bandit) else {
            if let Kind::Pack { requests, .. } = run.kind {
                for waiting in requests {
                    self.outcomes.insert(waiting.ticket, Err(Error::Bandit));
                }
            }
            return;
        };
        if matches!(run.kind, Kind::Prepare { .. }) {
            bandit.failed += 1;
        }
        match run.kind {
            Kind::Prepare { learns: false, .. } => bandit.prepares = false,
            Kind::Prepare { .. } | Kind::Update { .. } => {
                if let (Kind::Update { .. }, Some(updating)) = (&run.kind, &bandit.updating)
                    && updating.refused.is_empty()
                {
                    bandit.failed += 1;
                }
                let refused = bandit.without(self.threshold.needed());
                self.update_ends(run.bandit, &refused);
            }
            Kind::Pack { requests, set, .. } => {
                bandit.packs -= 1;
                // With others who are here now, what a member of the set has shown is corrected.
                if set.len() < self.seats.here().len() {
                    bandit.drop_stock(|stocked| stocked.set == set);
                    bandit.failed = 0;
                }
                for ticket in bandit.again(requests) {
                    self.outcomes.insert(ticket, Err(Error::Ended));
                }
            }
        }
    }

    /// An update has ended without a checkpoint.
    fn update_ends(&mut self, id: BanditId, refused: &BTreeSet<u32>) {
        let Some(bandit) = self.bandits.get_mut(&id) else { return };
        let Some(updating) = bandit.updating.take() else { return };
        bandit.gone.extend(updating.slot.map(|slot| (updating.set.clone(), slot.batch)));
        let (gone, kept) = bandit.update_again(updating, refused);
        let kept: Vec<([u8; 32], Row)> =
            kept.iter().filter_map(|label| Some((*label, bandit.row(label)?.clone()))).collect();
        for label in gone {
            let _ = self.remove(&Key::Played(id, label));
        }
        for (label, row) in kept {
            let _ = self.put(&Key::Played(id, label), &row);
        }
    }

    /// A preparation is over at a member.
    pub(crate) fn prepared(&mut self, member: u8, batch: Label, how: Done) {
        let id = self.named(member, *batch.bytes());
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Kind::Prepare { done, .. } = &mut run.kind else { return };
        if !run.here.contains(&member) {
            return;
        }
        done.entry(member).or_insert(how);
        if run.here.iter().all(|member| done.contains_key(member)) {
            let since = run.since;
            self.finish(id, since);
        }
    }

    /// A member has computed the decisions of a pack.
    pub(crate) fn decided(&mut self, member: u8, id: RunId, decisions: Vec<Result<Decided, String>>) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Kind::Pack { requests, done, .. } = &mut run.kind else { return };
        if !run.here.contains(&member) || decisions.len() != requests.len() {
            return;
        }
        done.entry(member).or_insert(decisions);
        if run.here.iter().all(|member| done.contains_key(member)) {
            let since = run.since;
            self.finish(id, since);
        }
    }

    /// Makes decisions of what members have computed.
    fn decide(
        &mut self,
        run: RunId,
        id: BanditId,
        (round, now): (u64, Instant),
        requests: Vec<Waiting>,
        done: &BTreeMap<u8, Vec<Result<Decided, String>>>,
    ) {
        let (t, need) = (self.threshold.t(), self.threshold.needed());
        let subsets = self.threshold.subsets().len();
        let members = usize::from(self.threshold.members());
        let mut liars = vec![];
        for member in 1..=self.threshold.members() {
            let named = done.values().filter(|decisions| {
                decisions.iter().any(|d| d.as_ref().is_ok_and(|d| d.liars.contains(&member)))
            });
            if named.count() >= t {
                liars.push(member);
            }
        }
        self.name(&liars, &[], now);
        let Some(bandit) = self.bandits.get_mut(&id) else { return };
        bandit.packs -= 1;
        let mut gone = vec![];
        let mut stored = vec![];
        for (position, waiting) in requests.into_iter().enumerate() {
            let of = |(member, decisions): (&u8, &'_ Vec<Result<Decided, String>>)| {
                Some((*member, decisions.get(position)?.clone().ok()?))
            };
            let all: Vec<(u8, Decided)> = done.iter().filter_map(of).collect();
            // What t members say is what one honest member says.
            let same = |row: &shares::Record| all.iter().filter(|(_, other)| other.row == *row).count();
            let row = all.iter().map(|(_, decided)| &decided.row).find(|row| same(row) >= t).cloned();
            let answers = |row: &shares::Record| {
                let of = |(member, decided): &(u8, Decided)| {
                    (decided.row == *row).then(|| Some((*member, decided.answer.clone()?))).flatten()
                };
                all.iter().filter_map(of).collect::<Vec<_>>()
            };
            let label = decision_label(&run, position as u32, &waiting.nonce);
            let decision = row.map(|row| (answers(&row), row)).filter(|(answers, _)| answers.len() >= need);
            let Some((answers, row)) = decision else {
                let said = said_by(t, done.values().filter_map(|d| d.get(position)?.clone().err()));
                let why = said.into_iter().next().unwrap_or_else(|| "their results differ".into());
                self.outcomes.insert(waiting.ticket, Err(Error::Refused(why)));
                continue;
            };
            let mut tags = Tags::default();
            for (_, decided) in all.iter().filter(|(_, decided)| decided.row == row) {
                tags.add(subsets, members, &decided.tags);
            }
            let played = Played { bandit: id, session: waiting.session, label, row };
            let row = Row { played, tags, feedback: None, erasure: None, learnt: None };
            gone.extend(bandit.decided(label, row.clone(), self.options.most_open));
            stored.push((label, row));
            let place =
                AnswerPlace { bandit: id.to_vec(), run, position: position as u32, nonce: waiting.nonce };
            let decision = Decision { label, round: round + position as u64, place, answers };
            self.outcomes.insert(waiting.ticket, Ok(decision));
        }
        for (label, row) in stored {
            let _ = self.put(&Key::Played(id, label), &row);
        }
        for label in gone {
            let _ = self.remove(&Key::Played(id, label));
        }
    }

    /// A member votes for a checkpoint.
    pub(crate) fn voted(&mut self, member: u8, id: RunId, checkpoint: Checkpoint, vote: Vote, now: Instant) {
        let ballot = vote.ballot;
        if !self.has_signed(member, VOTE, &ballot.bytes(), &vote.signature)
            || checkpoint.hash() != ballot.hash
        {
            return;
        }
        let need = self.threshold.needed();
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Kind::Update { votes, checkpoints } = &mut run.kind else { return };
        if !run.here.contains(&member) || ballot.bandit != run.bandit {
            return;
        }
        if votes.contains_key(&member) {
            return;
        }
        votes.insert(member, vote);
        checkpoints.insert(ballot.hash, checkpoint);
        let same = || votes.iter().filter(|(_, vote)| vote.ballot == ballot);
        if same().count() < need {
            return;
        }
        // What t members say is what one honest member says.
        let liars = said_by(self.threshold.t(), same().flat_map(|(_, vote)| vote.liars.iter().copied()));
        let same: Vec<(u8, Vec<u8>)> =
            same().map(|(member, vote)| (*member, vote.signature.clone())).collect();
        let Some(checkpoint) = checkpoints.remove(&ballot.hash) else { return };
        let bandit_id = run.bandit;
        self.runs.remove(&id);
        let Some(bandit) = self.bandits.get_mut(&bandit_id) else { return };
        let Some(updating) = bandit.updating.take() else { return };
        let Updating { added, erased, .. } = updating;
        let voted = Voted { checkpoint, ballot, votes: same.clone(), added, erased };
        bandit.apart.clear();
        bandit.voted = Some(voted.clone());
        bandit.commits.clear();
        let _ = self.put(&Key::Votes(bandit_id), &voted);
        self.seats.tell_all(&ToMember::Votes(ballot, same));
        self.name(&liars, &[], now);
    }

    /// A member commits to a checkpoint.
    pub(crate) fn committed(&mut self, member: u8, ballot: Ballot, signature: Vec<u8>) {
        if !self.has_signed(member, COMMIT, &ballot.bytes(), &signature) {
            return;
        }
        let need = self.threshold.needed();
        let Some(bandit) = self.bandits.get_mut(&ballot.bandit) else { return };
        let Some(voted) = bandit.voted.clone().filter(|voted| voted.ballot == ballot) else { return };
        bandit.commits.insert(member, signature);
        if bandit.commits.len() < need {
            return;
        }
        let commits: Vec<(u8, Vec<u8>)> = std::mem::take(&mut bandit.commits).into_iter().collect();
        let certified = (voted.checkpoint.clone(), ballot, commits.clone());
        bandit.voted = None;
        bandit.certified = Some(certified.clone());
        if bandit.learn(&voted).is_err() {
            return;
        }
        let (added, erased) = (voted.added, voted.erased);
        let rows: Vec<([u8; 32], Row)> =
            added.iter().filter_map(|label| Some((*label, bandit.row(label)?.clone()))).collect();
        let states: Vec<([u8; 32], Option<DecisionState>)> =
            added.iter().chain(&erased).map(|label| (*label, bandit.tree.state(label))).collect();
        let id = ballot.bandit;
        let _ = self.put(&Key::Checkpoint(id), &certified);
        let _ = self.remove(&Key::Votes(id));
        for (label, row) in rows {
            let _ = self.put(&Key::Played(id, label), &row);
        }
        for label in erased {
            let _ = self.remove(&Key::Played(id, label));
        }
        for (label, state) in states {
            if let Some(state) = state {
                let _ = self.put(&Key::State(id, label), &stored_state(state));
            }
        }
        let checkpoint = Box::new(certified.0);
        self.seats.tell_all(&ToMember::Checkpoint(checkpoint, ballot, commits));
    }
}

/// The sums of what members have prepared; none if their counts differ, or nobody adds.
fn added(numbers: Vec<Option<Vec<Field>>>) -> Option<Vec<Field>> {
    let mut all = numbers.into_iter().flatten();
    let mut sums = all.next()?;
    for numbers in all {
        if numbers.len() != sums.len() {
            return None;
        }
        sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
    }
    Some(sums)
}

/// What at least `t` of those have said who have said all this.
fn said_by<T: Ord>(t: usize, said: impl Iterator<Item = T>) -> Vec<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    said.for_each(|of| *counts.entry(of).or_default() += 1);
    counts.into_iter().filter(|(_, count)| *count >= t).map(|(of, _)| of).collect()
}

/// Who says in this step of a preparation what it cannot have computed: numbers of another count than t
/// others, a hash of others than it has sent or was given, seeds of other hashes. Nobody else may have been
/// shown these numbers: what follows for the others they find themselves.
fn wrong(run: &mut Run, threshold: &Threshold, keys: &[Vec<u8>]) -> Vec<u8> {
    let Kind::Prepare { had, .. } = &mut run.kind else { return vec![] };
    let had = had.get_or_insert_with(|| {
        let same = |name: &&RunId| run.names.values().filter(|other| other == name).count();
        let batch = Label::from_bytes(run.names.values().max_by_key(same).copied().unwrap_or_default());
        let seen = Transcript::new(&batch);
        Box::new(Had { batch, seen, sent: BTreeMap::new(), seeds: BTreeMap::new(), words: 0 })
    });
    let counts = |work: &Work| match work {
        Work::Added(Some(numbers)) => Some(numbers.len()),
        _ => None,
    };
    let count = said_by(threshold.t(), run.said.values().filter_map(counts)).first().copied();
    let multiplies = |member: &u8| run.here.iter().take(threshold.needed()).any(|other| other == member);
    let mut wrong = vec![];
    for (member, work) in &run.said {
        let right = match (count, work) {
            _ if run.names.get(member) != Some(had.batch.bytes()) => false,
            (Some(count), Work::Added(Some(numbers))) => {
                let sent = had.sent.entry(*member).or_insert_with(|| Transcript::new(&had.batch));
                sent.add(numbers);
                numbers.len() == count && multiplies(member)
            }
            (Some(_), Work::Added(None)) => !multiplies(member),
            (None, Work::Said(body)) => from_bytes(body).is_ok_and(|word| had.fits(*member, word, keys)),
            _ => false,
        };
        if !right {
            wrong.push(*member);
        }
    }
    had.words += u32::from(count.is_none());
    wrong
}

impl Had {
    /// Whether a member can have said this in the step that is there.
    fn fits(&mut self, member: u8, word: Word, keys: &[Vec<u8>]) -> bool {
        match (self.words, word) {
            (0 | 2, Word::Signed(statement, signature)) => {
                let key = usize::from(member).checked_sub(1).and_then(|at| keys.get(at));
                let signed = statement.signed(&self.batch);
                let fits = *statement.seen() == self.seen.hash()
                    && key.is_some_and(|key| envelope::verify(key, PREPARED, &signed, &signature).is_ok());
                match statement {
                    Statement::Seen { sent, seeds, .. } => {
                        let had = self.sent.get(&member).cloned();
                        let had = had.unwrap_or_else(|| Transcript::new(&self.batch));
                        self.seeds.insert(member, seeds);
                        fits && self.words == 0 && sent == had.hash()
                    }
                    Statement::Good(_) | Statement::Burn(_) => fits && self.words == 2,
                }
            }
            (1, Word::Shown(message)) => {
                Message::from_bytes(&message).is_ok_and(|message| message.numbers.len() == 3)
            }
            (3, Word::Opened(seeds)) => {
                let hashes = seeds.into_iter().map(|seed| Seed::new(seed).hash());
                self.seeds.get(&member).is_some_and(|signed| hashes.eq(signed.iter().copied()))
            }
            _ => false,
        }
    }
}
