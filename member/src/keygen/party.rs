//! The part of a member in a run over a board: it sends its messages of a round, and waits for those of all.

use super::blame;
use super::board::Board;
use super::evaluation::Test;
use super::memory::Memory;
use super::message::{Entry, Round, Slot};
use super::parts::{Received, read_shares};
use super::plan::{Plan, Ring};
use super::{Error, Identity};
use ckks_shares::{ActiveSet, MOST_MEMBERS, OpeningShare};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time for which a request waits for messages.
pub(super) const WAIT: Duration = Duration::from_secs(5);
/// The pause after a request that failed, or was answered at once.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// Why a run does not go on.
pub(super) enum Stopped {
    Failed(Error),
    /// Something is wrong that only a deviation explains.
    Suspicion(String),
}

impl<E: Into<Error>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Stopped::Failed(error.into())
    }
}

pub(super) fn suspicion<T>(why: impl Into<String>) -> Result<T, Stopped> {
    Err(Stopped::Suspicion(why.into()))
}

/// A member in a run.
pub(super) struct Party<'a, B> {
    pub(super) plan: &'a Plan,
    pub(super) identity: &'a Identity,
    pub(super) board: &'a B,
    pub(super) memory: Memory,
    /// How long it waits for the messages of a round.
    pub(super) patience: Duration,
    pub(super) log: &'a dyn Fn(&str),
    /// The hash of all messages of the rounds so far.
    pub(super) seen: [u8; 32],
    /// These messages.
    pub(super) entries: BTreeMap<Slot, Entry>,
}

impl<'a, B: Board> Party<'a, B> {
    pub(super) fn new(
        (plan, identity): (&'a Plan, &'a Identity),
        board: &'a B,
        memory: Memory,
        patience: Duration,
        log: &'a dyn Fn(&str),
    ) -> Self {
        let seen = blake3::derive_key("helba committee v1: messages", &plan.session.0);
        Party { plan, identity, board, memory, patience, log, seen, entries: BTreeMap::new() }
    }

    /// Sends the messages of a round, of `member` as it is numbered there, unless the board has them.
    pub(super) fn send(
        &mut self,
        round: Round,
        member: u8,
        body: impl Fn(Slot) -> Result<Vec<u8>, Error>,
    ) -> Result<(), Stopped> {
        self.memory.begin(self.plan.place(round), self.seen)?;
        let known = self.patiently(|board| board.entries(round, Duration::ZERO))?;
        for slot in self.plan.slots(round, member) {
            let bytes = body(slot)?;
            let entry = Entry::sign(&self.identity.signing, &self.plan.session, slot, self.seen, &bytes);
            if !known.contains(&entry) {
                self.patiently(|board| board.post(&entry, &bytes))?;
            }
        }
        (self.log)(&format!("{round} sent"));
        Ok(())
    }

    /// Waits for the messages of all members in a round.
    pub(super) fn gather(&mut self, round: Round) -> Result<(), Stopped> {
        // Also for a round in which this member sends nothing.
        self.memory.begin(self.plan.place(round), self.seen)?;
        let began = Instant::now();
        let wanted = self.plan.all_slots(round);
        loop {
            let asked = Instant::now();
            let entries = self.patiently(|board| board.entries(round, WAIT))?;
            let entries = self.accepted(round, entries);
            let missing = wanted.iter().find(|slot| !entries.contains_key(slot));
            if missing.is_none() {
                return self.take(&wanted, entries);
            }
            let ended = self.patiently(|board| board.entries(Round::Blame, Duration::ZERO))?;
            let mut ended = self.accepted(Round::Blame, ended);
            // Who has confirmed ends no run.
            ended.retain(|slot, _| !self.has_confirmed(round, slot.member, &entries));
            if !ended.is_empty() {
                self.entries.extend(entries);
                return suspicion("");
            }
            if let Some(&missing) = missing
                && began.elapsed() > self.patience
            {
                return Err(Error::Silent { missing, seconds: self.patience.as_secs() }.into());
            }
            std::thread::sleep(PAUSE.saturating_sub(asked.elapsed()));
        }
    }

    fn has_confirmed(&self, round: Round, member: u8, now: &BTreeMap<Slot, Entry>) -> bool {
        let slot = Slot { round: Round::Confirm, number: 0, member };
        self.plan.place(round) > self.plan.place(Round::Confirm)
            || self.plan.is_resharing() && now.contains_key(&slot)
    }

    /// The messages of a round that their members signed. Others are the board's own, and as if missing.
    pub(super) fn accepted(&self, round: Round, entries: Vec<Entry>) -> BTreeMap<Slot, Entry> {
        let of_round = entries.into_iter().filter(|entry| entry.slot.round == round);
        of_round.filter(|entry| self.plan.accepts(entry)).map(|entry| (entry.slot, entry)).collect()
    }

    /// Takes the messages of a round, which must follow the same messages as this member has seen.
    pub(super) fn take(&mut self, slots: &[Slot], entries: BTreeMap<Slot, Entry>) -> Result<(), Stopped> {
        let other = entries.values().find(|entry| entry.seen != self.seen).map(|entry| entry.slot);
        self.entries.extend(&entries);
        if let Some(slot) = other {
            return suspicion(format!("the {slot} follows other messages than this member has seen"));
        }
        self.seen = blame::after(&self.seen, slots.iter().filter_map(|slot| entries.get(slot)));
        Ok(())
    }

    pub(super) fn entry(&self, slot: Slot) -> Result<&Entry, Error> {
        self.entries.get(&slot).ok_or(Error::Malformed("a message of a round that is over is missing"))
    }

    /// The body of a message that was taken. What the board has in its place is never held against its
    /// member.
    pub(super) fn fetch(&self, slot: Slot) -> Result<Vec<u8>, Error> {
        let (entry, began) = (self.entry(slot)?, Instant::now());
        loop {
            let body = self.patiently(|board| board.body(slot, entry.length as usize));
            match body {
                Ok(body) if entry.is_of(&body) => return Ok(body),
                _ if began.elapsed() > self.patience => {
                    return Err(Error::Silent { missing: slot, seconds: self.patience.as_secs() });
                }
                _ => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Repeats a request while the board cannot be reached, as long as a member may be silent.
    pub(super) fn patiently<T>(&self, request: impl Fn(&B) -> Result<T, Error>) -> Result<T, Error> {
        let began = Instant::now();
        loop {
            match request(self.board) {
                Err(Error::Client(error)) if error.is_temporary() && began.elapsed() < self.patience => {
                    std::thread::sleep(PAUSE);
                }
                done => return done,
            }
        }
    }

    /// Sends the openings of `member`, and checks that every set of t members opens each test to what it must
    /// be.
    pub(super) fn test(&mut self, member: u8, openings: &Openings) -> Result<(), Stopped> {
        let plan = self.plan;
        self.send(Round::Test, member, |_| Ok(openings.own.clone()))?;
        self.gather(Round::Test)?;
        let mut bodies = Vec::new();
        for member in plan.members() {
            let slot = Slot { round: Round::Test, number: 0, member };
            let body = self.fetch(slot)?;
            if body.len() != plan.most_bytes(slot) {
                return suspicion(format!("the {slot} has not one number for each opening"));
            }
            bodies.push(body);
        }
        let Openings { tested, .. } = openings;
        let mut rest: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
        for (number, (ring, level, own, bound)) in tested.iter().enumerate() {
            let mut of_members: Vec<_> = Vec::new();
            for (member, rest) in plan.members().zip(&mut rest) {
                let shares = read_shares(rest, plan.sets_of(member).len(), *level);
                of_members.push(shares.ok_or(Error::Malformed("a test is too short"))?.into_iter());
            }
            let mut passes = |set: &ActiveSet| {
                let shares: Vec<OpeningShare> =
                    set.iter().filter_map(|j| of_members[usize::from(j - 1)].next()).collect();
                let params = plan.params(*ring);
                ckks_shares::all_below(params, *level, *set, own, &shares, *bound).unwrap_or(false)
            };
            let failing: Vec<ActiveSet> = plan.sets.iter().filter(|set| !passes(set)).copied().collect();
            if !failing.is_empty() {
                return suspicion(failure(number, &failing, plan.sets.len()));
            }
        }
        (self.log)(&format!("{} tests opened by {} sets of members", tested.len(), plan.sets.len()));
        Ok(())
    }
}

/// Which sets of members, of `all`, open a test to what it cannot be.
fn failure(test: usize, failing: &[ActiveSet], all: usize) -> String {
    if failing.len() == all {
        return format!("every set of members opens test {test} to what it cannot be");
    }
    let in_all = |j: &u8| failing.iter().all(|set| set.contains(*j));
    let members: Vec<String> = (1..=MOST_MEMBERS).filter(in_all).map(|j| j.to_string()).collect();
    let (some, members) = (failing.len(), members.join(", "));
    format!(
        "{some} of {all} sets of members open test {test} to what it cannot be: members in all of them are [{members}]"
    )
}

/// The openings of a member of the tests of a run, and what all openings of each must add up to.
pub(super) struct Openings<'a> {
    plan: &'a Plan,
    member: u8,
    received: &'a Received,
    /// The message of the member.
    own: Vec<u8>,
    /// Ring, level, ⟨w, c₀⟩ of each form, and the bound of each test.
    tested: Vec<(Ring, usize, Vec<Vec<u64>>, i128)>,
}

impl<'a> Openings<'a> {
    pub(super) fn new(plan: &'a Plan, member: u8, received: &'a Received) -> Self {
        Openings { plan, member, received, own: Vec::new(), tested: Vec::new() }
    }

    /// Opens further tests.
    pub(super) fn take(&mut self, tests: Vec<Test>) -> Result<(), Error> {
        for test in tests {
            self.received.test(self.plan, self.member, &test, &mut self.own)?;
            let level = test.ciphertext.level();
            self.tested.push((test.ring, level, test.forms.values(&test.ciphertext)?, test.bound));
        }
        Ok(())
    }
}
