//! A committee leaves, and the next one takes over what it had.
//!
//! The server carries dealings and signatures, and chooses who deals and who takes over. It could stop a
//! move, as it can stop everything, and it cannot have two committees compute one bandit: members of the next
//! one compute what is on a roll that 2t − 1 of the one before have signed, and these sign nothing more.

use crate::bandit::{Bandit, Updating, choice, choices};
use crate::run::Kind;
use crate::{Error, Key, Switchboard};
use serde::{Deserialize, Serialize};
use shares::SignedManifest;
use shares::moves::{DEALT, Dealing, Handover, MOVED, Roll, Take, move_name, moved};
use shares::talk::{BanditId, Checkpoint, Signatures, ToMember};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

/// After so many failures of an update a bandit moves without it.
const MOST_FAILED: usize = 8;
/// The most bytes of a dealing: 128 features to 10 members are half of it.
const MOST_DEALT: usize = 8 << 20;

/// What the members of a committee have said that leave.
#[derive(Default)]
pub(crate) struct Leaving {
    /// To which committee.
    to: BTreeMap<u8, [u8; 32]>,
    /// What was dealt of a bandit at a checkpoint.
    dealings: HashMap<(BanditId, [u8; 32]), BTreeMap<u8, Dealing>>,
    /// Who was asked to deal it.
    asked: HashMap<(BanditId, [u8; 32]), BTreeSet<u8>>,
    /// Who was told that it may leave, for the roll of this hash.
    told: ([u8; 32], BTreeSet<u8>),
    /// Who has left, for the roll of this hash.
    left: BTreeMap<u8, ([u8; 32], Vec<u8>)>,
}

impl Leaving {
    /// A member has started.
    pub(crate) fn comes(&mut self, member: u8) {
        self.to.remove(&member);
        self.told.1.remove(&member);
        for asked in self.asked.values_mut() {
            asked.remove(&member);
        }
    }

    /// Whether somebody was told that it may leave: then nothing more is learnt, since who has left votes for
    /// nothing.
    pub(crate) fn may_leave(&self) -> bool {
        !self.told.1.is_empty()
    }

    pub(crate) fn has_left(&self, member: u8) -> bool {
        self.left.contains_key(&member)
    }

    pub(crate) fn leaves(&self, member: u8) -> bool {
        self.to.contains_key(&member)
    }

    /// The committee to which so many members leave.
    fn next(&self, need: usize) -> Option<[u8; 32]> {
        let count = |to: &[u8; 32]| self.to.values().filter(|other| *other == to).count();
        self.to.values().find(|to| count(to) >= need).copied()
    }
}

/// A bandit that is to be taken over.
pub(crate) struct Offer {
    old: SignedManifest,
    checkpoint: Checkpoint,
    dealings: Vec<Dealing>,
}

/// That the committee before has left.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Arrived {
    old: SignedManifest,
    roll: Roll,
    signatures: Signatures,
}

impl Arrived {
    pub(crate) fn message(&self) -> ToMember {
        let Arrived { old, roll, signatures } = self.clone();
        ToMember::Arrived(Box::new(old), Box::new(roll), signatures)
    }
}

impl Switchboard {
    /// A member leaves for another committee.
    pub(crate) fn moves(&mut self, member: u8, to: [u8; 32]) {
        self.leaving.to.insert(member, to);
        self.lose(member);
    }

    pub(crate) fn dealt(&mut self, member: u8, bandit: BanditId, checkpoint: [u8; 32], dealing: Dealing) {
        let Some(to) = self.leaving.to.get(&member) else { return };
        let signed = dealing.signed(&move_name(&self.committee, to, &checkpoint));
        let asked =
            self.leaving.asked.get(&(bandit, checkpoint)).is_some_and(|asked| asked.contains(&member));
        if asked
            && dealing.sealed.iter().map(Vec::len).sum::<usize>() <= MOST_DEALT
            && dealing.dealer == member
            && self.has_signed(member, DEALT, &signed, &dealing.signature)
        {
            self.leaving.dealings.entry((bandit, checkpoint)).or_default().insert(member, dealing);
        }
    }

    pub(crate) fn left(&mut self, member: u8, to: [u8; 32], roll: [u8; 32], signature: Vec<u8>) {
        if self.has_signed(member, MOVED, &moved(&self.committee, &to, &roll), &signature) {
            self.leaving.to.insert(member, to);
            self.leaving.left.insert(member, (roll, signature));
            self.lose(member);
        }
    }

    /// The committee to which 2t − 1 members leave: bandits decide and learn nothing until they have arrived
    /// there.
    pub fn leaves_for(&self) -> Option<[u8; 32]> {
        self.leaving.next(self.threshold.needed())
    }

    /// That the committee before has left for this one, once it has.
    pub fn handover(&self) -> Option<(&SignedManifest, Handover)> {
        self.arrived.as_ref().map(|Arrived { old, roll, signatures }| {
            let Roll { from, to, .. } = *roll;
            (old, Handover { from, to, roll: roll.hash(), signatures: signatures.clone() })
        })
    }

    /// Has a checkpoint dealt.
    fn have_dealt(&mut self, bandit: BanditId, checkpoint: [u8; 32], to: [u8; 32]) {
        // Those of checkpoints before are of no use.
        self.leaving.dealings.retain(|(of, hash), _| *of != bandit || *hash == checkpoint);
        self.leaving.asked.retain(|(of, hash), _| *of != bandit || *hash == checkpoint);
        let asked = self.leaving.asked.entry((bandit, checkpoint)).or_default();
        let leaves = self.leaving.to.iter().filter(|(_, of)| **of == to).map(|(member, _)| *member);
        let fresh: Vec<u8> = leaves.filter(|member| asked.insert(*member)).collect();
        self.seats.tell_some(&fresh, ToMember::Deal { bandit, checkpoint });
    }

    /// Tells members that they may leave.
    fn have_left(&mut self, roll: &Roll) {
        let hash = roll.hash();
        if self.leaving.told.0 != hash {
            self.leaving.told = (hash, BTreeSet::new());
        }
        let told = &mut self.leaving.told.1;
        let leaves = self.leaving.to.iter().filter(|(_, of)| **of == roll.to).map(|(member, _)| *member);
        let fresh: Vec<u8> = leaves.filter(|member| told.insert(*member)).collect();
        self.seats.tell_some(&fresh, ToMember::Leave(Box::new(roll.clone())));
    }

    fn arrive(&mut self, arrived: Arrived) -> Result<(), Error> {
        self.put(&Key::Arrived, &arrived)?;
        // Those that were deleted on the way.
        let on_roll = |id: &BanditId| arrived.roll.bandits.iter().any(|(of, _)| of == id);
        let gone: Vec<BanditId> = self
            .bandits
            .iter()
            .filter(|(_, bandit)| bandit.definition.founder != self.committee)
            .filter(|(_, bandit)| !on_roll(&bandit.definition.id(&arrived.roll.from)))
            .map(|(id, _)| *id)
            .collect();
        gone.iter().try_for_each(|id| self.delete(id))?;
        self.seats.tell_all(&arrived.message());
        self.arrived = Some(arrived);
        Ok(())
    }

    /// Whether a bandit waits for the committee before: its model has not come, or members there have not
    /// left yet.
    pub(crate) fn waits_for_move(&self, id: &BanditId) -> bool {
        let Some(bandit) = self.bandits.get(id) else { return false };
        let taken = bandit.certified.as_ref().map(|(checkpoint, ..)| checkpoint.taken);
        let here = taken == Some(false) || taken == Some(true) && self.arrived.is_some();
        bandit.definition.founder != self.committee && !here
    }

    /// Has members take a bandit over that was offered.
    pub(crate) fn begin_take(&mut self, id: BanditId, here: &[u8], now: Instant) {
        let need = self.threshold.needed();
        let Some(bandit) = self.bandits.get_mut(&id) else { return };
        let may = bandit.may_prepare(now, self.options.patience);
        let goes_on = bandit.voted.is_some() || bandit.updating.is_some();
        let taken = bandit.certified.as_ref().map(|(checkpoint, ..)| checkpoint.previous);
        let fresh = |offer: &&Offer| may && !goes_on && taken != Some(offer.checkpoint.hash());
        let Some(offer) = bandit.offer.as_ref().filter(fresh) else { return };
        let dealers: Vec<u8> = offer.dealings.iter().map(|dealing| dealing.dealer).collect();
        let of = offer.old.manifest.proposal.threshold.needed();
        let dealers = choice(&dealers, of, bandit.failed / (choices(here.len(), need) + 1));
        let set = bandit.prepare_with(here, need);
        let nonces = set.iter().filter_map(|member| Some((*member, self.seats.nonce(*member)?)));
        self.number += 1;
        let dealt = offer.dealings.iter().filter(|dealing| dealers.contains(&dealing.dealer));
        let take = Take {
            old: offer.old.clone(),
            definition: bandit.definition.clone(),
            checkpoint: offer.checkpoint.clone(),
            dealings: dealt.cloned().collect(),
            set: nonces.collect(),
            number: self.number,
            ballot: bandit.next_ballot(),
        };
        bandit.begun = Some(now);
        bandit.updating = Some(Updating { set: set.clone(), runs: true, ..Updating::default() });
        let run = take.run(&self.committee);
        let kind = Kind::Update { votes: BTreeMap::new(), checkpoints: BTreeMap::new() };
        self.begin(run, id, set.clone(), kind, now);
        self.seats.tell_some(&set, ToMember::Take(Box::new(take)));
    }
}

/// Carries a move on as far as it goes: from the switchboard of the committee of `manifest` to that of the
/// next one. Whether the next one serves from now on.
///
/// # Errors
/// [`Error::Definition`] for a bandit that the next committee cannot read.
pub fn carry(
    old: &mut Switchboard,
    manifest: &SignedManifest,
    next: &mut Switchboard,
    now: Instant,
) -> Result<bool, Error> {
    if next.arrived.is_some() {
        return Ok(true);
    }
    let (from, to) = (old.committee, next.committee);
    if old.leaves_for() != Some(to) {
        return Ok(false);
    }
    let mut bandits = vec![];
    for id in old.bandits.keys().copied().collect::<Vec<_>>() {
        // What is due is learnt first, unless it fails again and again.
        let last = |bandit: &&Bandit| {
            bandit.voted.is_none() && (bandit.updating.is_none() || bandit.failed >= MOST_FAILED)
        };
        let Some(bandit) = old.bandits.get(&id).filter(last) else { continue };
        let checkpoint = bandit.certified.as_ref().map(|(checkpoint, ..)| checkpoint.clone());
        let checkpoint = checkpoint.unwrap_or_else(|| Checkpoint::first(id));
        let (hash, definition) = (checkpoint.hash(), bandit.definition.clone());
        let at = next.takes(definition)?;
        let Some(bandit) = next.bandits.get_mut(&at) else { continue };
        if bandit.certified.as_ref().is_some_and(|(taken, ..)| taken.previous == hash) {
            bandit.offer = None;
            bandits.push((id, hash));
            continue;
        }
        old.have_dealt(id, hash, to);
        let dealings = old.leaving.dealings.get(&(id, hash));
        let dealings: Vec<Dealing> = dealings.into_iter().flatten().map(|(_, of)| of.clone()).collect();
        if dealings.len() >= old.threshold.needed() {
            bandit.offer = Some(Offer { old: manifest.clone(), checkpoint, dealings });
        }
    }
    next.go_on(now);
    if bandits.len() < old.bandits.len() {
        return Ok(false);
    }
    let roll = Roll { from, to, bandits };
    old.have_left(&roll);
    let hash = roll.hash();
    let signed = old.leaving.left.iter().filter(|(_, (of, _))| *of == hash);
    let signatures: Signatures = signed.map(|(member, (_, of))| (*member, of.clone())).collect();
    if signatures.len() < old.threshold.needed() {
        return Ok(false);
    }
    next.arrive(Arrived { old: manifest.clone(), roll, signatures })?;
    next.go_on(now);
    Ok(true)
}
