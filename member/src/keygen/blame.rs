//! Who deviated: all members open their seeds, and everybody computes all messages again. Nothing is
//! encrypted under the keys of such a run, and nobody signs them.

use super::Error;
use super::evaluation::Tests;
use super::message::{Entry, Round, Slot};
use super::parts::{Own, PublicKeySums, PublicKeys, Received, commitment};
use super::plan::{MOST_WHY, Plan};
use super::run::test_seed;
use ckks_shares::KeySum;
use std::collections::BTreeMap;
use wire::KeysDigest;
use zeroize::Zeroizing;

/// What a member opens.
pub(super) struct Opening {
    pub(super) member: u8,
    /// The seed of all that it drew.
    pub(super) seed: [u8; 32],
    /// What it holds against another, or nothing.
    pub(super) why: String,
    /// The messages that it has seen.
    pub(super) entries: Vec<Entry>,
}

impl Opening {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let why = &self.why[..self.why.floor_char_boundary(MOST_WHY)];
        let mut out = self.seed.to_vec();
        out.extend((why.len() as u16).to_le_bytes());
        out.extend(why.as_bytes());
        out.extend(self.entries.iter().flat_map(Entry::to_bytes));
        out
    }

    /// Reads an opening. What cannot be read is an opening with another seed than was drawn from.
    pub(super) fn from_bytes(member: u8, bytes: &[u8]) -> Self {
        let read = || {
            let (seed, rest) = bytes.split_first_chunk::<32>()?;
            let (length, rest) = rest.split_first_chunk::<2>()?;
            let (why, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
            let why = std::str::from_utf8(why).ok()?.into();
            Some(Opening { member, seed: *seed, why, entries: Entry::read_all(rest).ok()? })
        };
        read().unwrap_or(Opening { member, seed: [0; 32], why: String::new(), entries: Vec::new() })
    }
}

/// The hash of all messages up to a round, from that of the rounds before and its entries in their order.
pub(super) fn after<'a>(seen: &[u8; 32], entries: impl Iterator<Item = &'a Entry>) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("helba committee v1: messages of a round");
    hash.update(seen);
    for entry in entries {
        hash.update(&entry.digest);
    }
    *hash.finalize().as_bytes()
}

/// The error that ends a run: it names who deviated, as far as the messages of all members show it. `own` is
/// the number of this member, and `why` what it holds against another.
pub(super) fn judge(plan: &Plan, own: u8, openings: &[Opening], why: &str) -> Error {
    match find(plan, openings) {
        Ok(Some((member, why))) => Error::Blamed { member, why },
        Ok(None) => match openings.iter().find(|opening| !opening.why.is_empty() && opening.member != own) {
            Some(Opening { member, why, .. }) => {
                let why = format!("it ended the run for what is not so: {}", host::visible(why));
                Error::Blamed { member: *member, why }
            }
            None => Error::Unresolved(why.into()),
        },
        Err(error) => error,
    }
}

type Found = Option<(u8, String)>;

/// The first message that its member did not compute as it had to.
fn find(plan: &Plan, openings: &[Opening]) -> Result<Found, Error> {
    let mut entries = BTreeMap::<Slot, Entry>::new();
    for entry in openings.iter().flat_map(|opening| &opening.entries).filter(|entry| plan.accepts(entry)) {
        if entry.slot.round == Round::Blame {
            continue;
        }
        if entries.insert(entry.slot, *entry).is_some_and(|before| before != *entry) {
            let why = format!("it signed two messages as {}", entry.slot);
            return Ok(Some((entry.slot.member, why)));
        }
    }
    let owns: Vec<Own> =
        openings.iter().map(|opening| Own::new(plan, opening.member, Zeroizing::new(opening.seed))).collect();
    let mut judge = Judge { plan, entries, seen: first(plan), complete: true, found: None };
    let public_keys: Vec<[Vec<u8>; 2]> = owns.iter().map(Own::public_keys).collect();
    judge.round(Round::Commit, |slot| Ok(commitment(&public_keys[at(slot.member)]).to_vec()))?;
    judge.round(Round::Reveal, |slot| Ok(public_keys[at(slot.member)][usize::from(slot.number)].clone()))?;
    let dealt: Vec<Vec<Zeroizing<Vec<u8>>>> = owns.iter().map(Own::deals).collect();
    judge.round(Round::Deal, |slot| {
        owns[at(slot.member)].seal(slot.number as u8 + 1, &dealt[at(slot.member)][usize::from(slot.number)])
    })?;
    if judge.found.is_some() || !judge.complete {
        return Ok(judge.found);
    }
    let received = owns.iter().enumerate().map(|(j, own)| {
        let to_it: Vec<_> = dealt.iter().map(|of_dealer| of_dealer[j].clone()).collect();
        own.receive(&to_it).map_err(|_| Error::Malformed("a deal that was computed again"))
    });
    let received: Vec<Received> = received.collect::<Result<_, _>>()?;
    let mut sums = PublicKeySums::new(plan);
    public_keys.iter().try_for_each(|frames| sums.add(frames))?;
    judge.keys_and_tests(&owns, &received, &sums.finish()?)
}

fn first(plan: &Plan) -> [u8; 32] {
    blake3::derive_key("helba committee v1: messages", &plan.session.0)
}

fn at(member: u8) -> usize {
    usize::from(member) - 1
}

struct Judge<'a> {
    plan: &'a Plan,
    entries: BTreeMap<Slot, Entry>,
    /// The hash of all messages of the rounds so far, while they are complete.
    seen: [u8; 32],
    complete: bool,
    found: Found,
}

impl Judge<'_> {
    /// Compares the messages of a round with those that their members had to compute.
    fn round(&mut self, round: Round, body: impl Fn(Slot) -> Result<Vec<u8>, Error>) -> Result<(), Error> {
        for slot in self.plan.all_slots(round) {
            if self.found.is_none() && self.complete && self.entries.contains_key(&slot) {
                self.compare(slot, &body(slot)?);
            }
        }
        self.end(round);
        Ok(())
    }

    fn compare(&mut self, slot: Slot, body: &[u8]) {
        let Some(entry) = self.entries.get(&slot).filter(|_| self.found.is_none()) else { return };
        if entry.seen != self.seen {
            let why = format!("its {slot} follows messages that nobody sent");
            self.found = Some((slot.member, why));
        } else if !entry.is_of(body) {
            self.found = Some((slot.member, format!("its {slot} is not what it had to compute")));
        }
    }

    fn end(&mut self, round: Round) {
        let slots = self.plan.all_slots(round);
        self.complete &= slots.iter().all(|slot| self.entries.contains_key(slot));
        self.seen = after(&self.seen, slots.iter().filter_map(|slot| self.entries.get(slot)));
    }

    fn keys_and_tests(
        mut self,
        owns: &[Own],
        received: &[Received],
        public: &PublicKeys,
    ) -> Result<Found, Error> {
        let plan = self.plan;
        let slots = plan.all_slots(Round::Keys);
        let seen = after(&self.seen, slots.iter().filter_map(|slot| self.entries.get(slot)));
        let mut tests = Tests::new(plan, public, test_seed(&seen));
        let mut answers: Vec<Vec<u8>> = owns.iter().map(|_| Vec::new()).collect();
        let mut take = |made: Vec<super::evaluation::Test>| -> Result<(), Error> {
            for ((received, answer), member) in received.iter().zip(&mut answers).zip(plan.members()) {
                made.iter().try_for_each(|test| received.test(plan, member, test, answer))?;
            }
            Ok(())
        };
        take(tests.of_public_keys()?)?;
        let mut digest = KeysDigest::default();
        for (i, wanted) in plan.keys.iter().enumerate() {
            let mut sum = KeySum::new(plan.params(wanted.ring), plan.session, wanted.label, wanted.level);
            for ((own, received), member) in owns.iter().zip(received).zip(plan.members()) {
                let frame = own.key(received, i, public.ids)?;
                self.compare(Slot { round: Round::Keys, number: i as u16, member }, &frame);
                sum.add(&plan.read_frame(wanted, public.ids, &frame)?)?;
            }
            if self.found.is_some() {
                return Ok(self.found);
            }
            let key = sum.finish(plan.quorum)?;
            public.before(plan, i).iter().for_each(|frame| digest.add(frame));
            digest.add(&plan.frame(wanted, public.ids, &key));
            take(tests.of_key(i, key)?)?;
        }
        self.end(Round::Keys);
        if !self.complete {
            return Ok(None);
        }
        self.round(Round::Test, |slot| Ok(answers[at(slot.member)].clone()))?;
        let [manifest, _] = public.manifests(plan, &received[0].token, digest.digest());
        self.round(Round::Verdict, |_| Ok(manifest.signed_digest().to_vec()))?;
        Ok(self.found)
    }
}
