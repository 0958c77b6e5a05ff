//! A bandit: its requests, its slots, its decisions, and what is to be learnt.

use crate::moving::Offer;
use crate::{Certified, Error, Row, Stocked, Voted};
use bandit::LinearConfig;
use shares::talk::{Counters, Definition, MOST_PRODUCTS, Remembered, Rules, SlotAt, products_of_a_decision};
use shares::{Answer, AnswerPlace, DecisionState, Label, Request, SessionId, Tree};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// The slots for decisions that are prepared together at first.
const FIRST_SLOTS: u32 = 8;
/// How often a request is begun again.
const MOST_TRIES: u32 = 5;

/// A decision, for the device that has asked.
#[derive(Clone)]
pub struct Decision {
    /// By what its feedback names it.
    pub label: [u8; 32],
    /// Its number.
    pub round: u64,
    /// Where the answers belong.
    pub place: AnswerPlace,
    /// Of each member.
    pub answers: Vec<(u8, Answer)>,
}

/// A request that waits.
#[derive(Clone)]
pub(crate) struct Waiting {
    pub(crate) ticket: u64,
    pub(crate) session: SessionId,
    pub(crate) nonce: shares::Nonce,
    pub(crate) bytes: Vec<u8>,
    tries: u32,
}

/// An update that was begun.
#[derive(Default)]
pub(crate) struct Updating {
    pub(crate) added: Vec<[u8; 32]>,
    pub(crate) erased: Vec<[u8; 32]>,
    /// The members who prepare it, and compute it.
    pub(crate) set: Vec<u8>,
    /// Its slot, once it is there.
    pub(crate) slot: Option<SlotAt>,
    /// Whether it is computed.
    pub(crate) runs: bool,
    /// Of each place the members who refuse it.
    pub(crate) refused: BTreeMap<u32, BTreeSet<u8>>,
}

pub(crate) struct Bandit {
    pub(crate) definition: Definition,
    pub(crate) config: LinearConfig,
    pub(crate) certified: Option<Certified>,
    pub(crate) voted: Option<Voted>,
    /// Commits to the checkpoint for which members have voted.
    pub(crate) commits: BTreeMap<u8, Vec<u8>>,
    rows: HashMap<[u8; 32], Row>,
    /// Decisions without feedback, the oldest first; some of them have it since.
    open: VecDeque<[u8; 32]>,
    /// How many have none.
    waits: usize,
    /// Decisions whose feedback is to be learnt, the oldest first.
    told: VecDeque<[u8; 32]>,
    /// Decisions whose feedback is to be erased.
    to_erase: VecDeque<[u8; 32]>,
    /// Those whose feedback is gone: their states stay.
    erased: Vec<[u8; 32]>,
    pub(crate) tree: Tree,
    /// The number of decisions.
    pub(crate) round: u64,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) stock: Vec<Stocked>,
    /// Batches of slots that serve no more, with their members, until these are told.
    pub(crate) gone: Vec<(Vec<u8>, Label)>,
    /// Whether slots for decisions are prepared.
    pub(crate) prepares: bool,
    /// The most slots that are prepared together: half as many as took a step too long, and twice as many as
    /// took none an eighth of that.
    pub(crate) most_slots: u32,
    /// Preparations that have failed since a member came last.
    pub(crate) failed: usize,
    /// When slots were asked for last.
    pub(crate) begun: Option<Instant>,
    /// Members that were put back, with what others have told them that they remember.
    pub(crate) forgot: BTreeMap<u8, BTreeMap<u8, (Remembered, Vec<u8>)>>,
    /// Packs that are computed.
    pub(crate) packs: usize,
    pub(crate) updating: Option<Updating>,
    /// What the committee before has dealt.
    pub(crate) offer: Option<Offer>,
    pub(crate) ballot: u32,
    /// Members whose updates are tried without them, because they refuse what others accept.
    pub(crate) apart: BTreeSet<u8>,
}

impl Bandit {
    pub(crate) fn new(definition: Definition) -> Result<Self, Error> {
        let bad = |why: String| Error::Definition(why);
        let config: LinearConfig =
            serde_json::from_str(&definition.config).map_err(|error| bad(error.to_string()))?;
        config.validate().map_err(|error| bad(error.to_string()))?;
        if !config.schedule.is_public() {
            return Err(bad("its schedule depends on data; take growth_or_every".into()));
        }
        let named = (config.d, config.k) == (definition.features as usize, definition.arms as usize);
        let fits = products_of_a_decision(config.d, config.k) <= MOST_PRODUCTS;
        if !fits {
            return Err(bad("it has too many features and arms: their products exceed 2^23".into()));
        }
        let Rules { sessions, decisions } = definition.rules;
        if !(1..=Rules::MOST_SESSIONS).contains(&sessions) {
            let most = Rules::MOST_SESSIONS;
            return Err(bad(format!("sessions (--sessions) is {sessions}, it must be from 1 to {most}")));
        }
        if decisions == 0 {
            return Err(bad("decisions_a_session (--decisions) is 0: a session needs 1 at least".into()));
        }
        if !definition.has_sizable_groups() {
            let every = definition.counters.map_or(0, |counters| counters.every);
            let (least, most) = (Counters::LEAST.max(sessions.into()), Counters::MOST);
            let numbers = Counters::MOST_NUMBERS;
            return Err(bad(match (least..=most).contains(&every) {
                true => format!("counters (--counters) need {numbers} features and arms together at most"),
                false => format!(
                    "counters.every (--counters) is {every}, it must be from {least} to {most}: a group that is opened has {} \
                     feedbacks at least, and not fewer than a batch has sessions (--sessions {sessions}), so that it shows no sum of \
                     fewer people",
                    Counters::LEAST
                ),
            }));
        }
        if !named {
            return Err(bad("it has other features or arms than its configuration".into()));
        }
        Ok(Bandit {
            definition,
            config,
            certified: None,
            voted: None,
            commits: BTreeMap::new(),
            rows: HashMap::new(),
            open: VecDeque::new(),
            waits: 0,
            told: VecDeque::new(),
            to_erase: VecDeque::new(),
            erased: vec![],
            tree: Tree::default(),
            round: 0,
            waiting: VecDeque::new(),
            stock: vec![],
            gone: vec![],
            prepares: false,
            most_slots: FIRST_SLOTS,
            failed: 0,
            begun: None,
            forgot: BTreeMap::new(),
            packs: 0,
            updating: None,
            offer: None,
            ballot: 0,
            apart: BTreeSet::new(),
        })
    }

    pub(crate) fn restore_row(&mut self, label: [u8; 32], row: Row) {
        self.round += 1;
        self.sort(label, &row);
        self.rows.insert(label, row);
    }

    /// Puts a decision where it waits for what comes next.
    fn sort(&mut self, label: [u8; 32], row: &Row) {
        match (&row.learnt, &row.feedback, &row.erasure) {
            (Some(_), _, Some(_)) => self.to_erase.push_back(label),
            (Some(_), _, None) => {}
            // What members have voted for is about to be learnt.
            (None, Some(_), _) if self.voted.as_ref().is_some_and(|voted| voted.added.contains(&label)) => {}
            (None, Some(_), _) => self.told.push_back(label),
            (None, None, _) => {
                self.open.push_back(label);
                self.waits += 1;
            }
        }
    }

    pub(crate) fn restore_state(&mut self, label: &[u8; 32], state: Option<[u8; 32]>) -> Result<(), Error> {
        let learnt = state.unwrap_or_default();
        self.tree.set(label, DecisionState::Learnt(learnt))?;
        if state.is_none() {
            self.erased.push(*label);
            self.tree.set(label, DecisionState::Erased)?;
        }
        Ok(())
    }

    pub(crate) fn feedbacks(&self) -> u64 {
        self.certified.as_ref().map_or(0, |(checkpoint, ..)| checkpoint.feedbacks)
    }

    /// The feedbacks that are in no model that members have certified.
    pub(crate) fn unlearnt(&self) -> usize {
        let updating = self.updating.as_ref().map_or(0, |updating| updating.added.len());
        self.told.len() + updating + self.voted.as_ref().map_or(0, |voted| voted.added.len())
    }

    pub(crate) fn open(&self) -> usize {
        self.waits
    }

    pub(crate) fn slots(&self) -> usize {
        self.stock.iter().map(|stocked| (stocked.count - stocked.next) as usize).sum()
    }

    pub(crate) fn labels(&self) -> Vec<[u8; 32]> {
        self.rows.keys().chain(&self.erased).copied().collect()
    }

    pub(crate) fn tickets(&self) -> Vec<u64> {
        self.waiting.iter().map(|waiting| waiting.ticket).collect()
    }

    pub(crate) fn ask(&mut self, ticket: u64, request: Request, bytes: Vec<u8>) -> Result<(), Error> {
        if request.numbers.len() != self.config.k * (self.config.d + 3) {
            return Err(shares::Error::Message.into());
        }
        let Request { session, nonce, .. } = request;
        self.waiting.push_back(Waiting { ticket, session, nonce, bytes, tries: 0 });
        Ok(())
    }

    /// The sessions of requests, feedback and erasures that wait.
    pub(crate) fn waiting_sessions(&self) -> impl Iterator<Item = SessionId> {
        let due = |row: &&Row| row.feedback.is_some() && (row.learnt.is_none() || row.erasure.is_some());
        let rows = self.rows.values().filter(due).map(|row| row.played.session);
        self.waiting.iter().map(|waiting| waiting.session).chain(rows)
    }

    pub(crate) fn forget(&mut self, ticket: u64) {
        self.waiting.retain(|waiting| waiting.ticket != ticket);
    }

    /// Requests of a run that has ended wait again; those that have been tried too often are returned.
    pub(crate) fn again(&mut self, requests: Vec<Waiting>) -> Vec<u64> {
        let mut given_up = vec![];
        for mut waiting in requests.into_iter().rev() {
            waiting.tries += 1;
            match waiting.tries < MOST_TRIES {
                true => self.waiting.push_front(waiting),
                false => given_up.push(waiting.ticket),
            }
        }
        given_up
    }

    /// Gives up those batches of slots.
    pub(crate) fn drop_stock(&mut self, which: impl Fn(&Stocked) -> bool) {
        let gone = self.stock.extract_if(.., |stocked| which(stocked));
        self.gone.extend(gone.map(|stocked| (stocked.set, stocked.batch)));
    }

    /// Takes slots that were prepared by one set, at most so many, with the set.
    pub(crate) fn take_slots(&mut self, most: usize) -> Option<(Vec<u8>, Vec<SlotAt>)> {
        self.drop_stock(|stocked| stocked.next >= stocked.count);
        let set = self.stock.first()?.set.clone();
        let mut slots = vec![];
        for stocked in self.stock.iter_mut().filter(|stocked| stocked.set == set) {
            while stocked.next < stocked.count && slots.len() < most {
                slots.push(SlotAt { batch: stocked.batch, number: stocked.next });
                stocked.next += 1;
            }
        }
        Some((set, slots))
    }

    /// A decision was made: its row, and the decision that it makes too many, which goes.
    pub(crate) fn decided(&mut self, label: [u8; 32], row: Row, most: usize) -> Option<[u8; 32]> {
        self.sort(label, &row);
        self.rows.insert(label, row);
        let waits = |label: &[u8; 32]| self.rows.get(label).is_some_and(|row| row.feedback.is_none());
        if self.open.len() > 2 * most {
            self.open.retain(waits);
        }
        if self.waits <= most {
            return None;
        }
        let oldest = self.open.iter().position(waits)?;
        let oldest = self.open.drain(..=oldest).next_back()?;
        self.rows.remove(&oldest);
        self.waits -= 1;
        Some(oldest)
    }

    /// Takes a feedback. The row with it, if that is new.
    pub(crate) fn feedback(&mut self, label: &[u8; 32], bytes: Vec<u8>) -> Result<Option<Row>, Error> {
        let row = self.rows.get_mut(label).ok_or(Error::Decision)?;
        match &row.feedback {
            Some(known) if *known == bytes => Ok(None),
            Some(_) => Err(Error::Decision),
            None => {
                row.feedback = Some(bytes);
                let row = row.clone();
                self.waits -= 1;
                self.told.push_back(*label);
                Ok(Some(row))
            }
        }
    }

    /// Has a feedback erased: the row, or none if it was not counted and is gone.
    pub(crate) fn erase(&mut self, label: &[u8; 32], request: Vec<u8>) -> Result<Option<Row>, Error> {
        // It is about to be counted: then it is counted first, and erased by the next update.
        let runs = self.updating.as_ref().is_some_and(|updating| updating.added.contains(label))
            || self.voted.as_ref().is_some_and(|voted| voted.added.contains(label));
        let row = self.rows.get_mut(label).ok_or(Error::Decision)?;
        if row.feedback.is_none() {
            return Err(Error::Decision);
        }
        let counted = row.learnt.is_some();
        if !counted && !runs {
            self.told.retain(|told| told != label);
            self.rows.remove(label);
            return Ok(None);
        }
        let first = row.erasure.is_none();
        row.erasure = Some(request);
        let row = row.clone();
        if counted && first {
            self.to_erase.push_back(*label);
        }
        Ok(Some(row))
    }

    pub(crate) fn row(&self, label: &[u8; 32]) -> Option<&Row> {
        self.rows.get(label)
    }

    /// Whether the next update opens counters.
    pub(crate) fn opens(&self) -> bool {
        self.certified.as_ref().is_some_and(|(checkpoint, ..)| checkpoint.opens(&self.definition))
    }

    /// Chooses what the next update learns and erases: none if nothing is due.
    pub(crate) fn choose(&mut self, most_erased: usize) -> Option<([Vec<[u8; 32]>; 2], u64)> {
        let rules = self.definition.rules;
        let due = self.config.batch_length(self.feedbacks(), rules.sessions.into());
        let most = rules.most_of_a_session(due);
        let mut of_session: HashMap<SessionId, u64> = HashMap::new();
        let mut added = vec![];
        for label in &self.told {
            let Some(row) = self.rows.get(label) else { continue };
            // Places that sessions have which are not in the batch yet.
            let kept = usize::from(rules.sessions).saturating_sub(of_session.len()) as u64;
            let free = due - added.len() as u64;
            let count = of_session.get(&row.played.session).copied().unwrap_or(0);
            if count < most && free > if count == 0 { 0 } else { kept } {
                of_session.insert(row.played.session, count + 1);
                added.push(*label);
            }
        }
        if (added.len() as u64) < due {
            added.clear();
        }
        let erased: Vec<[u8; 32]> = self.to_erase.iter().copied().take(most_erased).collect();
        if added.is_empty() && erased.is_empty() && !self.opens() {
            return None;
        }
        self.told.retain(|label| !added.contains(label));
        self.to_erase.retain(|label| !erased.contains(label));
        Some(([added, erased], due))
    }

    /// What an update is begun again without: what is refused by those 2t − 1 of its members who refuse least
    /// together. Others who refuse more are left apart. So no device stops learning by a feedback that is
    /// right for some members alone, and no member has more refused than it must.
    pub(crate) fn without(&mut self, need: usize) -> BTreeSet<u32> {
        let Some(updating) = &self.updating else { return BTreeSet::new() };
        let set: Vec<u8> = updating.set.iter().copied().take(16).collect();
        let refused = |choice: u32| -> BTreeSet<u32> {
            let chosen =
                |member: &u8| set.iter().position(|of| of == member).is_some_and(|at| choice >> at & 1 == 1);
            let by = updating.refused.iter().filter(|(_, members)| members.iter().any(chosen));
            by.map(|(place, _)| *place).collect()
        };
        let choices = (0u32..1 << set.len()).filter(|choice| choice.count_ones() as usize == need);
        let Some(least) = choices.min_by_key(|choice| refused(*choice).len()) else { return BTreeSet::new() };
        let without = refused(least);
        let more = |member: &u8| {
            updating
                .refused
                .iter()
                .any(|(place, members)| !without.contains(place) && members.contains(member))
        };
        self.apart.extend(set.iter().copied().filter(more).collect::<Vec<u8>>());
        without
    }

    /// What an update was to learn waits again, but for what is refused: the decisions that are gone, and
    /// those whose erasure is.
    pub(crate) fn update_again(
        &mut self,
        updating: Updating,
        refused: &BTreeSet<u32>,
    ) -> (Vec<[u8; 32]>, Vec<[u8; 32]>) {
        let places = |label: &[u8; 32]| {
            let all = updating.added.iter().chain(&updating.erased);
            all.enumerate().find(|(_, other)| *other == label).map(|(at, _)| at as u32)
        };
        let bad = |label: &[u8; 32]| places(label).is_some_and(|at| refused.contains(&at));
        let mut gone = vec![];
        for label in updating.added.iter().rev() {
            match bad(label) {
                true => {
                    self.rows.remove(label);
                    gone.push(*label);
                }
                false => self.told.push_front(*label),
            }
        }
        let mut kept = vec![];
        for label in updating.erased.iter().rev() {
            match bad(label) {
                // The device may ask again.
                true => {
                    if let Some(row) = self.rows.get_mut(label) {
                        row.erasure = None;
                        kept.push(*label);
                    }
                }
                false => self.to_erase.push_front(*label),
            }
        }
        (gone, kept)
    }

    /// Rows and states that follow from a checkpoint on which members have agreed.
    pub(crate) fn learn(&mut self, voted: &Voted) -> Result<(), Error> {
        let model = voted.checkpoint.model.as_ref();
        for (at, label) in voted.added.iter().enumerate() {
            let model = model.ok_or(Error::Stored)?;
            let learnt = shares::talk::Learnt::of(model, voted.added.len(), at).ok_or(Error::Stored)?;
            self.tree.set(label, DecisionState::Learnt(learnt.hash()))?;
            if let Some(row) = self.rows.get_mut(label) {
                row.learnt = Some(learnt);
                if row.erasure.is_some() {
                    self.to_erase.push_back(*label);
                }
            }
            self.told.retain(|told| told != label);
        }
        for label in &voted.erased {
            self.tree.set(label, DecisionState::Erased)?;
            self.erased.push(*label);
            self.rows.remove(label);
            self.to_erase.retain(|other| other != label);
        }
        Ok(())
    }

    /// Who prepares, of those who are here: all; and after a preparation has failed as few as can, others
    /// each time, so that one who makes it fail is not among them.
    pub(crate) fn prepare_with(&self, here: &[u8], need: usize) -> Vec<u8> {
        match self.failed {
            0 => here.to_vec(),
            failed => choice(here, need, failed - 1),
        }
    }

    /// Whether slots are asked for again: after eight failures only once so much time has gone.
    pub(crate) fn may_prepare(&self, now: Instant, patience: Duration) -> bool {
        let rests = self.failed > 0 && self.failed.is_multiple_of(8);
        let since = self.begun.map(|begun| now.saturating_duration_since(begun));
        !rests || since.is_none_or(|since| since >= patience)
    }

    /// A member has forgotten its slots.
    pub(crate) fn lose_member(&mut self, member: u8) {
        self.failed = 0;
        self.drop_stock(|stocked| stocked.set.contains(&member));
        if self.updating.as_ref().is_some_and(|updating| !updating.runs && updating.set.contains(&member))
            && let Some(updating) = self.updating.take()
        {
            let _ = self.update_again(updating, &BTreeSet::new());
        }
    }

    /// The number of the next try of an update.
    pub(crate) fn next_ballot(&mut self) -> u32 {
        self.ballot += 1;
        self.ballot
    }
}

/// How many choices of so many of these there are.
pub(crate) fn choices(of: usize, need: usize) -> usize {
    masks(of, need).count()
}

/// The choice of this number, counted round and round: all of them if they are no more than needed.
pub(crate) fn choice(of: &[u8], need: usize, number: usize) -> Vec<u8> {
    let count = choices(of.len(), need).max(1);
    match masks(of.len(), need).nth(number % count) {
        Some(mask) => of.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, m)| *m).collect(),
        None => of.to_vec(),
    }
}

fn masks(of: usize, need: usize) -> impl Iterator<Item = u32> {
    (0u32..1 << of.min(16)).filter(move |mask| mask.count_ones() as usize == need)
}
