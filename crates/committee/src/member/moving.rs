//! A member leaves for the next committee, or takes over what the one before had.
//!
//! A member that leaves decides nothing more. It learns what is due, and deals each model at its last
//! checkpoint. It signs that it has left once, for a roll with the last checkpoint of each bandit, none of
//! them one after which it has committed to another, and answers nothing more then. So no checkpoint follows
//! those of a roll that 2t − 1 members have signed: 2t − 1 who commit to it and 2t − 1 who have left would
//! share an honest member. Until it has signed, its operator may take it back.

use super::{Current, Member, Memory, RunId, Running, Showing, refused};
use crate::moves::{self, Dealt};
use crate::{Conversation, Error, MemberKeys, Part, Run};
use rand::CryptoRng;
use shares::moves::{DEALT, Dealing, Handover, MOVED, Roll, Take, move_name, moved};
use shares::talk::{BanditId, Checkpoint, FromMember, Signatures, to_bytes};
use shares::{Manifest, Record, Sharing, SignedManifest};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The committee to which a member leaves.
pub(super) struct Next {
    id: [u8; 32],
    manifest: Manifest,
    sharing: Sharing,
    rng: Box<dyn CryptoRng + Send>,
}

/// A bandit that is taken over.
pub(super) struct Taking {
    take: Box<Take>,
    /// The number of its checkpoint here.
    number: u64,
    /// What is computed once members have agreed.
    begin: Option<(crate::prepare::Batch, Dealt)>,
    showing: Option<Showing<Record>>,
}

impl<M: Memory> Member<M> {
    /// The member, which leaves for the committee of this manifest as its operator says.
    ///
    /// # Errors
    /// [`Error::Shares`] for a manifest that its members have not all signed, [`Error::Refused`] for one of a
    /// committee that does not follow this one.
    pub fn moving(
        mut self,
        next: &SignedManifest,
        rng: impl CryptoRng + Send + 'static,
    ) -> Result<Self, Error> {
        let sharing = next.check()?;
        let manifest = next.manifest.clone();
        if manifest.proposal.follows != Some(self.committee) {
            return refused("the next committee's proposal does not say that it follows this one");
        }
        self.next = Some(Next { id: manifest.id(), manifest, sharing, rng: Box::new(rng) });
        Ok(self)
    }

    /// Whether the member has left: it serves no more.
    pub fn has_left(&self) -> bool {
        self.left.is_some()
    }

    /// What a member that leaves or has left says when it comes.
    pub(super) fn says_that_it_moves(&self) -> Vec<FromMember> {
        match (&self.left, &self.next) {
            (Some((to, roll)), _) => vec![self.says_left(to, roll)],
            (None, Some(next)) => vec![FromMember::Moves { to: next.id }],
            (None, None) => vec![],
        }
    }

    fn says_left(&self, to: &[u8; 32], roll: &[u8; 32]) -> FromMember {
        let signature = self.sign(MOVED, &moved(&self.committee, to, roll));
        FromMember::Left { to: *to, roll: *roll, signature }
    }

    /// Refuses decisions of a member that leaves.
    pub(super) fn stays(&self) -> Result<(), Error> {
        match self.next {
            None => Ok(()),
            Some(_) => refused("the member leaves for another committee, and decides nothing more here"),
        }
    }

    /// Deals the shares of a model.
    pub(super) fn deal(&mut self, bandit: BanditId, checkpoint: [u8; 32]) -> Result<Vec<FromMember>, Error> {
        let known = self.bandits.get(&bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let current = known.current.as_ref().filter(|current| current.hash == checkpoint);
        let current = current.ok_or(Error::Refused("the member has another checkpoint of the bandit"))?;
        self.check_last(known, current)?;
        let shares: Zeroizing<Vec<_>> = Zeroizing::new(match current.checkpoint.model {
            None => vec![],
            Some(_) => current.state.numbers(),
        });
        let (dealer, committee) = (self.number(), self.committee);
        let Some(next) = &mut self.next else { return refused("the member does not leave") };
        let name = move_name(&committee, &next.id, &checkpoint);
        let sealing: Vec<Vec<u8>> =
            next.manifest.proposal.cards.iter().map(|card| card.sealing.clone()).collect();
        let sealed = moves::deal(&name, dealer, &shares, &next.sharing, &sealing, &mut next.rng)?;
        let mut dealing = Dealing { dealer, sealed, signature: vec![] };
        dealing.signature = self.sign(DEALT, &dealing.signed(&name));
        Ok(vec![FromMember::Dealt { bandit, checkpoint, dealing }])
    }

    /// Refuses to hand a model on that the committee before may still change, or that has been changed by a
    /// checkpoint to which the member has committed.
    fn check_last(&self, bandit: &super::Bandit, current: &Current) -> Result<(), Error> {
        self.check_arrived(bandit, current)?;
        match bandit.kept.lock.is_some_and(|lock| lock.number > current.checkpoint.number) {
            true => refused("the member has committed to a later checkpoint of the bandit"),
            false => Ok(()),
        }
    }

    /// Leaves, if the roll is right.
    pub(super) fn leave(&mut self, roll: &Roll) -> Result<Vec<FromMember>, Error> {
        let Some(next) = &self.next else { return refused("the member does not leave") };
        if (roll.from, roll.to) != (self.committee, next.id) || !roll.bandits.is_sorted_by(|a, b| a.0 < b.0) {
            return refused("the roll is of another move, or not in order");
        }
        for (id, hash) in &roll.bandits {
            let known = self.bandits.get(id).and_then(|bandit| Some((bandit, bandit.current.as_ref()?)));
            let known = known.filter(|(_, current)| current.hash == *hash);
            let (bandit, current) = known.ok_or(Error::Refused(
                "the roll does not have the last checkpoint of a bandit that the member has",
            ))?;
            self.check_last(bandit, current)?;
        }
        let left = (roll.to, roll.hash());
        let all = self.kept.entry(super::ALL).or_default();
        all.left = Some(left);
        self.memory.save(&super::ALL, all)?;
        self.left = Some(left);
        self.runs.clear();
        self.batches.clear();
        Ok(vec![self.says_left(&left.0, &left.1)])
    }

    /// The committee before has left: what was on its roll may be decided.
    pub(super) fn arrived(
        &mut self,
        old: &SignedManifest,
        roll: &Roll,
        signatures: Signatures,
    ) -> Result<Vec<FromMember>, Error> {
        old.check()?;
        if self.follows != Some(old.id()) || roll.to != self.committee {
            return refused("this committee does not follow that one");
        }
        let handover = Handover { from: roll.from, to: roll.to, roll: roll.hash(), signatures };
        handover.check(&old.manifest)?;
        self.arrived = roll.bandits.iter().copied().collect();
        Ok(vec![])
    }

    /// Refuses to compute what the committee before may still compute.
    pub(super) fn check_arrived(&self, bandit: &super::Bandit, current: &Current) -> Result<(), Error> {
        let old = self.follows.map(|follows| bandit.definition.id(&follows));
        let hash = old.and_then(|old| self.arrived.get(&old));
        match current.checkpoint.taken && hash != Some(&current.checkpoint.previous) {
            true => refused("too few members of the committee before have left yet"),
            false => Ok(()),
        }
    }

    /// Takes a bandit of the committee before over: step 0.
    pub(super) fn take_over(&mut self, take: Box<Take>) -> Result<Vec<FromMember>, Error> {
        let run = take.run(&self.committee);
        if self.runs.len() >= super::MOST_RUNS {
            return refused("the member has as many runs as it can");
        }
        let old = take.old.check()?;
        let (from, id) = (take.old.id(), take.definition.id(&self.committee));
        let known = self.bandits.get(&id).ok_or(Error::Refused("the bandit is not known"))?;
        let Some(number) = known.next_number(&self.committee) else {
            return refused("the member does not know its last checkpoint of the bandit yet");
        };
        // Until the committee before has left, it may deal a later checkpoint.
        let goes_on = known.current.as_ref().is_some_and(|current| !current.checkpoint.taken);
        if goes_on || self.arrived.contains_key(&take.definition.id(&from)) {
            return refused("the bandit goes on here already");
        }
        if self.follows != Some(from) || take.checkpoint.bandit != take.definition.id(&from) {
            return refused("the bandit is not one of the committee that this one follows");
        }
        let set: Vec<u8> = take.set.iter().map(|(member, _)| *member).collect();
        self.check_here(&set)?;
        let name = move_name(&from, &self.committee, &take.checkpoint.hash());
        for dealing in &take.dealings {
            let card = usize::from(dealing.dealer).checked_sub(1);
            let card = card.and_then(|at| take.old.manifest.proposal.cards.get(at));
            let right = card.is_some_and(|card| {
                let signed = dealing.signed(&name);
                envelope::verify(&card.signing, DEALT, &signed, &dealing.signature).is_ok()
            });
            if !right {
                return refused("a dealing is not signed by its dealer");
            }
        }
        let count = match take.checkpoint.model {
            None => 0,
            Some(_) => crate::learn::numbers_of_a_state(known.config.d, known.definition.counted()),
        };
        let secret = &self.secrets.sealing;
        let dealt = Dealt::read(&name, &old, &take.dealings, self.number(), secret, count)?;
        let circuit = moves::circuit(count, dealt.further());
        let nonces: Vec<[u8; 32]> = take.set.iter().map(|(_, nonce)| *nonce).collect();
        let batch = self.stock.batch(circuit, &set, &nonces, take.number, 1)?;
        let body = self.agree(&run, &[])?;
        let taking = Taking { take, number, begin: Some((batch, dealt)), showing: None };
        self.runs.insert(run, Running::Taking(Box::new(taking)));
        Ok(vec![FromMember::Say { run, step: 0, body }])
    }

    pub(super) fn hear_taking(
        &mut self,
        run: RunId,
        step: u32,
        mut taking: Box<Taking>,
        said: &[(u8, Vec<u8>)],
    ) -> Result<Vec<FromMember>, Error> {
        let keys = self.secrets.keys.clone();
        let ended = match &mut taking.showing {
            Some(showing) if showing.step == step => showing.hear(&keys, run, said)?,
            None if step == 0 => {
                let set: Vec<u8> = taking.take.set.iter().map(|(member, _)| *member).collect();
                let agreed = self.agreed(&run, &set, &[], said)?;
                taking.begin(&keys, run, agreed.iter().map(|agreed| agreed.member).collect())?;
                false
            }
            _ => return refused("the run is not at this step"),
        };
        match (&taking.showing, ended) {
            (Some(showing), false) => {
                let say = showing.say(&keys, run);
                self.runs.insert(run, Running::Taking(taking));
                Ok(vec![say])
            }
            _ => {
                let (bandit, ballot) = (taking.take.definition.id(&self.committee), taking.take.ballot);
                let checkpoint = taking.end(bandit)?;
                // Who was dealt wrong numbers shows wrong ones, and is not to blame.
                self.vote(run, (bandit, ballot), checkpoint, vec![])
            }
        }
    }
}

impl Taking {
    fn begin(&mut self, keys: &Arc<MemberKeys>, run: RunId, here: Vec<u8>) -> Result<(), Error> {
        let Some((batch, dealt)) = self.begin.take() else { return refused("the run has begun") };
        let of = keys.clone();
        let computation = Conversation::new(move |port| async move {
            let mut lane = moves::lane(&of, batch, &dealt, port)?;
            moves::take_over(&mut lane, &dealt).await?;
            Ok(lane.into_record())
        });
        let part = Part { computation, members: here.clone() };
        let mut begun = Run::new(keys, &here, &to_bytes(&(run, &here))?, vec![part])?;
        let numbers = begun.start();
        self.showing = Some(Showing { run: begun, step: 1, numbers });
        Ok(())
    }

    /// The checkpoint with these members. Nothing of the decisions before goes on, so that the tree of
    /// their states is empty.
    fn end(self: Box<Self>, bandit: BanditId) -> Result<Checkpoint, Error> {
        let Taking { take, number, showing, .. } = *self;
        let result = showing.and_then(|showing| showing.run.into_results().pop().flatten());
        let record = result.unwrap_or(Err(Error::Message))?;
        let model = take.checkpoint.model.as_ref().map(|_| record);
        let (previous, taken, root) = (take.checkpoint.hash(), true, [0; 32]);
        Ok(Checkpoint { bandit, number, previous, taken, model, root, ..take.checkpoint })
    }
}
