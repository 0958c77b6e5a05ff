//! What a run makes: parameters, keys and tests, and who sends which message, of how many bytes.

use super::message::{Entry, Round, Slot};
use super::proposal::Resharing;
use super::{Error, Proposal};
use ckks::{GaloisElement, KeyId, KeySwitchKey, Params, Security};
use ckks_committee::Dealt;
use ckks_shares::{ActiveSet, KeyLabel, Quorum, SessionId};
use envelope::{SEALED_OVERHEAD, SIGNATURE_BYTES};
use protocol::{GaloisKey, KeyPlan};
use wire::{AnswersManifest, CommitteeManifest, Custody, Manifest, ScoresManifest, TokenDigest};

/// The most bytes of a frame beside its residues.
const FRAME_OVERHEAD: usize = 256;
/// The random forms by which a message is tested.
pub(super) const FORMS: usize = 8;
/// The most bytes of the reason in an opening.
pub(super) const MOST_WHY: usize = 400;
/// The bytes of a seed.
const SEED_BYTES: usize = 32;
/// The most bytes of what a dealer tells of its ledger.
pub(super) const MOST_TOLD: usize = 4 << 20;

/// The ring of a key, by its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ring {
    Large,
    Scores,
    Answers,
}

/// A key of the bundle beside the public keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedKey {
    pub(super) ring: Ring,
    pub(super) label: KeyLabel,
    pub(super) level: usize,
}

/// The ids of the key pairs of both rings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    pub(super) large: KeyId,
    pub(super) scores: KeyId,
}

/// What a run makes.
pub struct Plan {
    pub(super) proposal: Proposal,
    pub(super) session: SessionId,
    pub(super) quorum: Quorum,
    pub(super) large: Params,
    pub(super) scores: Params,
    pub(super) answers: Params,
    /// None in a resharing.
    pub(super) keys: Vec<WantedKey>,
    pub(super) sets: Vec<ActiveSet>,
    /// Those who hand their shares on, in a resharing.
    pub(super) dealers: Option<ActiveSet>,
    /// How many members made the keys.
    makers: u8,
}

impl Plan {
    /// The plan of a proposal.
    ///
    /// # Errors
    /// As [`Proposal::check`]; [`Error::Insecure`], [`Error::Protocol`], [`Error::Ckks`].
    pub fn new(proposal: Proposal) -> Result<Self, Error> {
        proposal.check()?;
        let plan = KeyPlan::new(proposal.shape(), proposal.toy)?;
        if plan.params.security == Security::None && !proposal.toy {
            return Err(Error::Insecure { params: plan.params.name });
        }
        let (large, scores) = (plan.params.validate()?, plan.scores.params.validate()?);
        let answers = plan.answers.params.validate()?;
        let (session, quorum) = (proposal.session(), proposal.quorum()?);
        let sets = quorum.subsets().collect();
        if let Some(resharing) = proposal.resharing.clone() {
            let before = &resharing.before;
            if before.params()? != large || before.scores(&large)?.1 != scores {
                return Err(Error::Proposal("its keys have other parameters than this program makes".into()));
            }
            let makers = resharing.committee()?.makers() as u8;
            let (keys, dealers) = (Vec::new(), Some(resharing.dealers()?));
            return Ok(Plan {
                proposal,
                session,
                quorum,
                large,
                scores,
                answers,
                keys,
                sets,
                dealers,
                makers,
            });
        }
        let key = |ring, label, level| WantedKey { ring, label, level };
        let mut galois: Vec<_> =
            plan.galois.iter().map(|key| (key.automorphism.element(&large), key)).collect();
        galois.sort_by_key(|key| key.0);
        let mut keys = vec![key(Ring::Large, KeyLabel::Relinearisation, plan.relin_level)];
        keys.extend(
            galois.into_iter().map(|(element, &GaloisKey { level, .. })| {
                key(Ring::Large, KeyLabel::Galois(element), level)
            }),
        );
        let top = scores.max_level();
        keys.push(key(Ring::Scores, KeyLabel::Relinearisation, top));
        let elements = ckks::pack_elements(&scores, plan.scores.gap)?.into_iter();
        keys.extend(elements.map(|element| key(Ring::Scores, KeyLabel::Galois(element), top)));
        let top = answers.max_level();
        let switch = 0..plan.answers.switch;
        keys.extend(switch.map(|number| key(Ring::Answers, KeyLabel::RingSwitch(number), top)));
        keys.extend(
            plan.answers
                .rotations
                .iter()
                .map(|&k| key(Ring::Answers, KeyLabel::Galois(GaloisElement::rotation(&answers, k)), top)),
        );
        let (dealers, makers) = (None, quorum.members());
        Ok(Plan { proposal, session, quorum, large, scores, answers, keys, sets, dealers, makers })
    }

    /// Whether the run hands shares on, and makes no keys.
    pub fn is_resharing(&self) -> bool {
        self.dealers.is_some()
    }

    /// The rounds, in their order.
    pub(super) fn rounds(&self) -> &'static [Round] {
        if self.is_resharing() { &Round::OF_RESHARING } else { &Round::OF_KEYS }
    }

    /// The place of a round among those of the run.
    pub(super) fn place(&self, round: Round) -> usize {
        self.rounds().iter().position(|of_run| *of_run == round).unwrap_or(usize::MAX)
    }

    /// The number of members that contributed to the errors of the keys.
    pub(super) fn makers(&self) -> u8 {
        self.makers
    }

    /// The manifest of the next epoch, without signatures.
    ///
    /// # Errors
    /// [`Error::Proposal`] for a key generation.
    pub(super) fn next_manifest(&self) -> Result<Manifest, Error> {
        self.resharing()?.next(self.session, &self.proposal)
    }

    pub(super) fn resharing(&self) -> Result<&Resharing, Error> {
        let no = || Error::Proposal("it is for a key generation, and not for a resharing".into());
        self.proposal.resharing.as_deref().ok_or_else(no)
    }

    /// The members who send messages in a round, by their numbers there.
    fn senders(&self, round: Round) -> ActiveSet {
        match (round, self.dealers) {
            (Round::Deal | Round::Handover, Some(dealers)) => dealers,
            _ => self.quorum.everybody(),
        }
    }

    /// The name of the run.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// t of n.
    pub fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// All members.
    pub(super) fn members(&self) -> impl Iterator<Item = u8> + use<> {
        self.quorum.everybody().iter()
    }

    pub(super) fn params(&self, ring: Ring) -> &Params {
        match ring {
            Ring::Large => &self.large,
            Ring::Scores => &self.scores,
            Ring::Answers => &self.answers,
        }
    }

    /// The verifying key of a member who sends messages in a round.
    pub fn verifying(&self, round: Round, member: u8) -> Option<&[u8]> {
        let at = usize::from(member).checked_sub(1)?;
        let members = match (round, &self.proposal.resharing) {
            (Round::Deal | Round::Handover, Some(resharing)) => &resharing.committee().ok()?.members,
            _ => &self.proposal.members,
        };
        members.get(at).map(|card| &card.verifying.0[..])
    }

    /// Whether the slot is one of this run and its member signed the entry, with no longer body than the slot
    /// may have.
    pub fn accepts(&self, entry: &Entry) -> bool {
        let Entry { slot, length, .. } = *entry;
        let known = self.senders(slot.round).contains(slot.member)
            && self.slots(slot.round, slot.member).contains(&slot);
        let verifying = || self.verifying(slot.round, slot.member);
        let signed = || verifying().is_some_and(|key| entry.is_signed(key, &self.session));
        known && length as usize <= self.most_bytes(slot) && signed()
    }

    /// The slots of a member in a round.
    pub(super) fn slots(&self, round: Round, member: u8) -> Vec<Slot> {
        let count = match round {
            _ if round != Round::Blame && !self.rounds().contains(&round) => 0,
            Round::Reveal => 2,
            Round::Deal | Round::Pair => usize::from(self.quorum.members()),
            Round::Keys => self.keys.len(),
            Round::Commit
            | Round::Test
            | Round::Verdict
            | Round::Confirm
            | Round::Blame
            | Round::Handover
            | Round::Stored => 1,
        };
        let slot = |number| Slot { round, number, member };
        // A dealer has another number in the next epoch.
        let among_equals = round == Round::Pair || round == Round::Deal && !self.is_resharing();
        let to_itself = |slot: &Slot| among_equals && slot.number + 1 == u16::from(member);
        (0..count as u16).map(slot).filter(|slot| !to_itself(slot)).collect()
    }

    /// All slots of a round.
    pub(super) fn all_slots(&self, round: Round) -> Vec<Slot> {
        self.senders(round).iter().flat_map(|member| self.slots(round, member)).collect()
    }

    /// The most bytes of the body of a slot.
    pub fn most_bytes(&self, slot: Slot) -> usize {
        match slot.round {
            Round::Commit | Round::Verdict | Round::Stored => 32,
            // Half of a pair key, and two numbers.
            Round::Pair => SEALED_OVERHEAD + SEED_BYTES + 16,
            Round::Reveal if slot.number == 0 => ckks::public_key_bytes(&self.large, false),
            Round::Reveal => ckks::public_key_bytes(&self.scores, true),
            Round::Deal if self.is_resharing() => SEALED_OVERHEAD + self.shares_bytes() + MOST_TOLD,
            Round::Deal => SEALED_OVERHEAD + self.dealt_bytes(),
            Round::Keys => self.keys.get(usize::from(slot.number)).map_or(0, |key| {
                let params = self.params(key.ring);
                let poly = ckks::residue_bytes(params.qp_basis(key.level));
                FRAME_OVERHEAD + self.gadget(key).digits(key.level) * poly
            }),
            Round::Test => self.test_bytes(slot.member),
            Round::Confirm | Round::Handover => SIGNATURE_BYTES,
            Round::Blame if self.is_resharing() => MOST_WHY,
            Round::Blame => {
                let entries: usize = self.rounds().iter().map(|round| self.all_slots(*round).len()).sum();
                SEED_BYTES + 2 + MOST_WHY + Entry::BYTES * entries
            }
        }
    }

    /// The most bytes that the body of a message of this run may have, complaints included.
    pub(super) fn longest(&self) -> usize {
        let rounds = self.rounds().iter().chain([&Round::Blame]);
        let slots =
            rounds.flat_map(|round| self.slots(*round, self.senders(*round).iter().next().unwrap_or(1)));
        slots.map(|slot| self.most_bytes(slot)).max().unwrap_or(0)
    }

    fn gadget(&self, key: &WantedKey) -> &ckks::Gadget {
        let params = self.params(key.ring);
        match key.label {
            KeyLabel::Relinearisation => params.relin_gadget(),
            KeyLabel::Public | KeyLabel::Galois(_) | KeyLabel::RingSwitch(_) => params.galois_gadget(),
        }
    }

    /// Bytes of what is dealt to a member: a value for each ring, a part of a pair key, and one of the token.
    pub(super) fn dealt_bytes(&self) -> usize {
        self.shares_bytes() + 64
    }

    /// Bytes of a value for each ring.
    pub(super) fn shares_bytes(&self) -> usize {
        [&self.large, &self.scores, &self.answers].iter().map(|params| Dealt::bytes(params)).sum()
    }

    /// The sets that a member is in.
    pub(super) fn sets_of(&self, member: u8) -> Vec<ActiveSet> {
        self.sets.iter().copied().filter(|set| set.contains(member)).collect()
    }

    /// Ring and level of the messages that are tested, in their order: the public keys, each key, and the
    /// parts of the ring switch with its last key.
    pub(super) fn tests(&self) -> Vec<(Ring, usize)> {
        let mut out = vec![(Ring::Large, self.large.max_level()), (Ring::Scores, self.scores.max_level())];
        if self.is_resharing() {
            out.push((Ring::Answers, self.answers.max_level()));
        }
        for (i, key) in self.keys.iter().enumerate() {
            match key.label {
                KeyLabel::RingSwitch(_) if !self.is_last_of_switch(i) => {}
                // A product is divided by the last prime.
                KeyLabel::Relinearisation => out.push((key.ring, key.level - 1)),
                KeyLabel::RingSwitch(last) => out.extend((0..=last).map(|_| (key.ring, key.level))),
                _ => out.push((key.ring, key.level)),
            }
        }
        out
    }

    /// Whether key `i` completes the ring switch.
    pub(super) fn is_last_of_switch(&self, i: usize) -> bool {
        let is_of_switch =
            |i: usize| self.keys.get(i).is_some_and(|key| matches!(key.label, KeyLabel::RingSwitch(_)));
        is_of_switch(i) && !is_of_switch(i + 1)
    }

    /// Bytes of the test message of a member.
    fn test_bytes(&self, member: u8) -> usize {
        let limbs: usize = self.tests().iter().map(|(_, level)| level + 1).sum();
        self.sets_of(member).len() * FORMS * 8 * limbs
    }

    /// The frame of a key.
    pub(super) fn frame(&self, wanted: &WantedKey, ids: Ids, key: &KeySwitchKey) -> Vec<u8> {
        let params = self.params(wanted.ring);
        match wanted.label {
            KeyLabel::RingSwitch(number) => ckks::write_ring_switch_key(params, ids.scores, number, key),
            label => ckks::write_key_switch_key(params, self.id(wanted, ids), element(label), key),
        }
    }

    /// Reads a frame of this key.
    ///
    /// # Errors
    /// [`Error::Ckks`]; [`Error::Malformed`] for the frame of another key.
    pub(super) fn read_frame(
        &self,
        wanted: &WantedKey,
        ids: Ids,
        frame: &[u8],
    ) -> Result<KeySwitchKey, Error> {
        let (params, other) = (self.params(wanted.ring), Error::Malformed("it is a share of another key"));
        let (same, key) = match wanted.label {
            KeyLabel::RingSwitch(want) => {
                let (number, key) = ckks::read_ring_switch_key(params, ids.scores, frame)?;
                (number == want, key)
            }
            label => {
                let (got, key) = ckks::read_key_switch_key(params, self.id(wanted, ids), frame)?;
                (got == element(label), key)
            }
        };
        if same && key.level() == wanted.level { Ok(key) } else { Err(other) }
    }

    fn id(&self, wanted: &WantedKey, ids: Ids) -> KeyId {
        if wanted.ring == Ring::Large { ids.large } else { ids.scores }
    }

    /// The manifests of the public and of the users' bundle.
    pub(super) fn manifests(
        &self,
        ids: Ids,
        token: TokenDigest,
        custody: CommitteeManifest,
    ) -> [Manifest; 2] {
        let count = |ring: Ring| self.keys.iter().filter(|key| key.ring == ring).count() as u32;
        let manifest = |[frames, of_scores, of_answers]: [u32; 3]| {
            let answers = AnswersManifest::new(&self.answers, of_answers);
            let scores = ScoresManifest::new(&self.scores, ids.scores, of_scores, answers);
            let Proposal { created, .. } = self.proposal;
            let custody = Custody::Committee(custody.clone());
            Manifest::new(
                &self.large,
                ids.large,
                self.proposal.shape(),
                created,
                frames,
                token,
                scores,
                custody,
            )
        };
        [
            manifest([1 + count(Ring::Large), 1 + count(Ring::Scores), count(Ring::Answers)]),
            manifest([1, 1, 0]),
        ]
    }
}

fn element(label: KeyLabel) -> Option<GaloisElement> {
    match label {
        KeyLabel::Galois(element) => Some(element),
        KeyLabel::Public | KeyLabel::Relinearisation | KeyLabel::RingSwitch(_) => None,
    }
}
