//! Updates, and how members agree on what follows from them: votes, commits, checkpoints.

use super::{Agreed, Member, Memory, Running, Showing, refused};
use crate::learn::{Feedback, State};
use crate::scalars::Learn;
use crate::{CircuitId, Conversation, Error, Lane, MemberKeys, Part, Run, Slot, learn};
use shares::talk::{
    Added, Ballot, BanditId, COMMIT, Checkpoint, Counted, Erased, FromMember, Learnt, MOST_ERASED, RunId,
    Signatures, Update, VOTE, to_bytes,
};
use shares::{DecisionState, Field, Paths, Record, SessionId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use zeroize::Zeroizing;

pub(super) struct Learning {
    update: Box<Update>,
    /// What is computed once members have agreed.
    begin: Option<Batch>,
    circuit: CircuitId,
    /// The checkpoint that follows, without what is computed.
    next: Checkpoint,
    paths: Paths,
    showing: Option<Showing<(Record, Vec<Field>)>>,
}

/// What an update is computed of.
pub(super) struct Batch {
    slot: Slot,
    scalars: Learn,
    state: Arc<Zeroizing<State<Field>>>,
    feedbacks: Zeroizing<Vec<Feedback<Field>>>,
}

impl<M: Memory> Member<M> {
    pub(super) fn update(&mut self, update: Box<Update>) -> Result<Vec<FromMember>, Error> {
        let run = update.run(&self.committee);
        self.check_here(&update.here)?;
        let keys = self.secrets.keys.clone();
        let sharing = keys.sharing().clone();
        let members = sharing.threshold().members();
        let bandit = self.bandits.get(&update.bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let current = bandit.current.as_ref().filter(|current| current.hash == update.checkpoint);
        let current = current.ok_or(Error::Refused("the member has another checkpoint of the bandit"))?;
        self.check_arrived(bandit, current)?;
        let checkpoint = &current.checkpoint;
        let rules = bandit.definition.rules;
        let due = bandit.config.batch_length(checkpoint.feedbacks, rules.sessions.into());
        let (added, erased) = (update.added.len(), update.erased.len());
        let opens = checkpoint.opens(&bandit.definition);
        let adds_nothing = added == 0 && (erased > 0 || opens);
        if (added as u64 != due && !adds_nothing) || erased > MOST_ERASED {
            return refused("the update does not have the length that the schedule says");
        }
        let counted = bandit.definition.counted();
        let numbers = bandit.config.d + counted;
        let paths = Paths::from_bytes(&checkpoint.root, &update.paths)?;
        let mut feedbacks = Zeroizing::new(Vec::with_capacity(added + erased));
        let mut bad = vec![];
        let mut of_session: HashMap<SessionId, u64> = HashMap::new();
        let mut named: HashSet<[u8; 32]> = HashSet::new();
        for (at, Added { played, tags, feedback }) in update.added.iter().enumerate() {
            let session = self.sessions.get(&played.session);
            let read = || {
                let right = played.bandit == update.bandit
                    && played.row.numbers.len() == numbers
                    && keys.check_tags(&played.hash(), tags);
                right.then_some(())?;
                let feedback = shares::Feedback::from_bytes(feedback, members).ok()?;
                (feedback.decision == played.label).then_some(())?;
                session?.feedback(&sharing, &feedback).ok()
            };
            match (paths.state(&played.label)?, read()) {
                (None, Some(reward)) if named.insert(played.label) => {
                    *of_session.entry(played.session).or_default() += 1;
                    let squares = reward.get(1..4).and_then(|squares| squares.try_into().ok());
                    let reward = *reward.first().ok_or(Error::Message)?;
                    feedbacks.push(Feedback { row: keys.record(&played.row), reward, squares });
                }
                _ => bad.push(at as u32),
            }
        }
        for (at, Erased { played, tags, learnt, request }) in update.erased.iter().enumerate() {
            let session = self.sessions.get(&played.session);
            let right = played.bandit == update.bandit
                && played.row.numbers.len() == numbers
                && keys.check_tags(&played.hash(), tags)
                && session.is_some_and(|session| session.erases(&played.label, request));
            match paths.state(&played.label)? {
                Some(DecisionState::Learnt(hash))
                    if right && hash == learnt.hash() && named.insert(played.label) =>
                {
                    let Learnt { batch, slot, place, reward } = learnt;
                    let reward = keys.number(batch, *slot, *place, *reward);
                    feedbacks.push(Feedback { row: keys.record(&played.row), reward, squares: None });
                }
                _ => bad.push((added + at) as u32),
            }
        }
        if !bad.is_empty() {
            let why = "feedbacks that are not of this bandit and session, or were counted before".into();
            return Ok(vec![FromMember::Ended { run, why, refused: bad }]);
        }
        let most = of_session.values().copied().max().unwrap_or(0);
        let few = of_session.len() < rules.sessions.into();
        if added > 0 && (few || most > rules.most_of_a_session(added as u64)) {
            return refused("the batch has feedback of too few sessions, or too much of one");
        }
        let before = (checkpoint.feedbacks, checkpoint.residual);
        let scalars = Learn::new(&bandit.config, &sharing, before, (added as u64, erased as u64))?;
        let scalars = scalars.counting(counted, opens);
        let circuit = scalars.circuit(&erases(added, erased));
        if !self.has_slots(&[update.slot], circuit, &update.here) {
            return Err(Error::Slot);
        }
        let next = Checkpoint {
            number: checkpoint.number + 1,
            previous: current.hash,
            taken: false,
            feedbacks: scalars.feedbacks,
            residual: scalars.residual,
            // Erased people would else leave the others of their group a smaller one.
            grouped: (if opens { 0 } else { checkpoint.grouped } + added as u64)
                .saturating_sub(erased as u64),
            ..checkpoint.clone()
        };
        let state = current.state.clone();
        let slot = self.slot(&update.slot)?;
        let body = self.agree(&run, &[])?;
        let begin = Some(Batch { slot, scalars, state, feedbacks });
        let learning = Learning { update, begin, circuit, next, paths, showing: None };
        self.runs.insert(run, Running::Learning(Box::new(learning)));
        Ok(vec![FromMember::Say { run, step: 0, body }])
    }

    pub(super) fn hear_learning(
        &mut self,
        run: RunId,
        step: u32,
        mut learning: Box<Learning>,
        said: &[(u8, Vec<u8>)],
    ) -> Result<Vec<FromMember>, Error> {
        let keys = self.secrets.keys.clone();
        let ended = match &mut learning.showing {
            Some(showing) if showing.step == step => showing.hear(&keys, run, said)?,
            None if step == 0 => {
                let mut agreed = self.agreed(&run, &learning.update.here, &[], said)?;
                // A member that refuses a feedback has no share of this update.
                agreed.retain(|agreed| agreed.refused.is_empty());
                if agreed.len() < self.needed() {
                    return Err(Error::NoAgreement { agreed: agreed.len(), need: self.needed() });
                }
                learning.begin(&keys, run, &agreed)?
            }
            _ => return refused("the run is not at this step"),
        };
        match (&learning.showing, ended) {
            (Some(showing), false) => {
                let say = showing.say(&keys, run);
                self.runs.insert(run, Running::Learning(learning));
                Ok(vec![say])
            }
            _ => {
                let bandit = learning.update.bandit;
                let ballot = learning.update.ballot;
                let liars = learning.showing.as_ref().map_or(vec![], |showing| showing.run.liars().to_vec());
                match learning.end()? {
                    Ok(checkpoint) => self.vote(run, (bandit, ballot), checkpoint, liars),
                    Err(places) => {
                        let why = "rewards that are out of range".into();
                        Ok(vec![FromMember::Ended { run, why, refused: places }])
                    }
                }
            }
        }
    }

    /// Votes for a checkpoint that the member has computed: for one in a ballot, and after it has committed
    /// to one for no other, unless 2t − 1 have voted for that in a later ballot. `liars` have shown wrong
    /// numbers meanwhile.
    pub(super) fn vote(
        &mut self,
        run: RunId,
        (bandit, ballot): (BanditId, u32),
        checkpoint: Checkpoint,
        liars: Vec<u8>,
    ) -> Result<Vec<FromMember>, Error> {
        let known = self.bandits.get(&bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let mut kept = known.kept.clone();
        let vote = Ballot { bandit, number: checkpoint.number, ballot, hash: checkpoint.hash() };
        // An update may end after members have agreed on another one.
        if known.next_number(&self.committee) != Some(vote.number) {
            return refused("members have agreed on another checkpoint meanwhile");
        }
        let same = |other: &Ballot| other.number == vote.number && other.hash == vote.hash;
        if kept.lock.as_ref().is_some_and(|lock| lock.number == vote.number && !same(lock)) {
            return refused("the member has committed to another checkpoint");
        }
        let later = |other: &Ballot| (other.number, other.ballot) < (vote.number, vote.ballot);
        if kept.vote.as_ref().is_some_and(|other| *other != vote && !later(other)) {
            return refused("the member has voted in this ballot or a later one");
        }
        kept.vote = Some(vote);
        self.keep(bandit, kept)?;
        let signature = self.sign(VOTE, &vote.bytes());
        let checkpoint = Box::new(checkpoint);
        Ok(vec![FromMember::Voted { run, checkpoint, ballot: vote, signature, liars }])
    }

    pub(super) fn votes(&mut self, ballot: Ballot, votes: &Signatures) -> Result<Vec<FromMember>, Error> {
        let bandit = self.bandits.get(&ballot.bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let last = (bandit.kept.checkpoint.as_ref().map_or(0, |(last, _)| last.number), u32::MAX);
        let voted = bandit.kept.vote.map_or(last, |vote| last.max((vote.number, vote.ballot)));
        if !bandit.kept.restored
            && voted < (ballot.number, ballot.ballot)
            && self.has_signed(VOTE, &ballot, votes)
        {
            return self.forgets(ballot.bandit, bandit.kept.clone());
        }
        if bandit.next_number(&self.committee) != Some(ballot.number) {
            return refused("the votes are for no checkpoint that follows");
        }
        let (agreed, need) = (self.count(VOTE, &ballot.bytes(), votes), self.needed());
        if agreed < need {
            return Err(Error::NoAgreement { agreed, need });
        }
        let mut kept = bandit.kept.clone();
        // Who has voted in a later ballot commits to nothing in this one: both would get a certificate.
        if kept.vote.is_some_and(|vote| vote.number == ballot.number && vote.ballot > ballot.ballot) {
            return refused("the member has voted in a later ballot");
        }
        let earlier = |lock: &Ballot| {
            lock.number == ballot.number && lock.hash != ballot.hash && lock.ballot >= ballot.ballot
        };
        if kept.lock.as_ref().is_some_and(earlier) {
            return refused("the member has committed to another checkpoint, in a later ballot");
        }
        kept.lock = Some(ballot);
        self.keep(ballot.bandit, kept)?;
        let signature = self.sign(COMMIT, &ballot.bytes());
        Ok(vec![FromMember::Committed { ballot, signature }])
    }

    pub(super) fn checkpoint(
        &mut self,
        checkpoint: Checkpoint,
        ballot: Ballot,
        commits: Signatures,
    ) -> Result<Vec<FromMember>, Error> {
        let bandit = self.bandits.get(&ballot.bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let named = checkpoint.bandit == ballot.bandit
            && checkpoint.number == ballot.number
            && checkpoint.hash() == ballot.hash;
        if !named {
            return refused("the checkpoint is not the one that members have committed to");
        }
        let (agreed, need) = (self.count(COMMIT, &ballot.bytes(), &commits), self.needed());
        if agreed < need {
            return Err(Error::NoAgreement { agreed, need });
        }
        if bandit.kept.restored {
            return refused("the member was put back, and has not heard yet what others remember");
        }
        let last = bandit.kept.checkpoint.as_ref().map_or(0, |(last, _)| last.number);
        let locked = bandit.kept.lock.map_or((last, u32::MAX), |lock| (lock.number, lock.ballot));
        if locked < (ballot.number, ballot.ballot) && self.has_signed(COMMIT, &ballot, &commits) {
            return self.forgets(ballot.bandit, bandit.kept.clone());
        }
        let other = bandit
            .kept
            .checkpoint
            .as_ref()
            .is_some_and(|(known, _)| known.number == ballot.number && known.hash != ballot.hash);
        if ballot.number < last || other {
            return refused("the member knows a later checkpoint, or another of this number");
        }
        let current = self.current(bandit, checkpoint)?;
        let mut kept = bandit.kept.clone();
        kept.checkpoint = Some((ballot, commits));
        kept.vote = kept.vote.filter(|vote| vote.number > ballot.number);
        kept.lock = kept.lock.filter(|lock| lock.number > ballot.number);
        self.keep(ballot.bandit, kept)?;
        if let Some(bandit) = self.bandits.get_mut(&ballot.bandit) {
            // The same one again, and one that has erased alone, for which a device can ask: after neither
            // sessions have all their decisions again.
            let feedbacks = current.checkpoint.feedbacks;
            if bandit.current.as_ref().is_some_and(|known| feedbacks > known.checkpoint.feedbacks) {
                bandit.decisions.clear();
            }
            bandit.current = Some(current);
        }
        Ok(vec![])
    }
}

impl Learning {
    fn begin(&mut self, keys: &Arc<MemberKeys>, run: RunId, agreed: &[Agreed]) -> Result<bool, Error> {
        let here: Vec<u8> = agreed.iter().map(|agreed| agreed.member).collect();
        let Some(Batch { slot, scalars, state, mut feedbacks }) = self.begin.take() else {
            return refused("the run has begun");
        };
        let (circuit, of) = (self.circuit, keys.clone());
        let computation = Conversation::new(move |port| async move {
            let mut lane = Lane::new(&of, slot, circuit, port)?;
            let feedbacks = std::mem::take(&mut *feedbacks);
            let opened = learn::learn(&mut lane, &scalars, State::clone(&state), feedbacks).await?;
            Ok((lane.into_record(), opened))
        });
        let part = Part { computation, members: here.clone() };
        let mut begun = Run::new(keys, &here, &to_bytes(&(run, &here))?, vec![part])?;
        let numbers = begun.start();
        self.showing = Some(Showing { run: begun, step: 1, numbers });
        Ok(false)
    }

    /// The checkpoint, or the places of rewards that are out of range.
    fn end(self: Box<Self>) -> Result<Result<Checkpoint, Vec<u32>>, Error> {
        let Learning { update, mut next, mut paths, showing, .. } = *self;
        let result = showing.and_then(|showing| showing.run.into_results().pop().flatten());
        let (model, opened) = match result.unwrap_or(Err(Error::Message)) {
            Ok(computed) => computed,
            Err(Error::Rewards { places }) => {
                return Ok(Err(places.into_iter().map(|at| at as u32).collect()));
            }
            Err(error) => return Err(error),
        };
        if !opened.is_empty() {
            let counted = Counted::of(&opened);
            next.opened = counted.ok_or(Error::Refused("counters were opened that no feedback makes"))?;
        }
        for (at, added) in update.added.iter().enumerate() {
            let learnt = Learnt::of(&model, update.added.len(), at).ok_or(Error::Message)?;
            paths.set(&added.played.label, DecisionState::Learnt(learnt.hash()))?;
        }
        for erased in &update.erased {
            paths.set(&erased.played.label, DecisionState::Erased)?;
        }
        (next.root, next.model) = (paths.root(), Some(model));
        Ok(Ok(next))
    }
}

/// Which feedbacks of an update go: those that come are first.
pub(super) fn erases(added: usize, erased: usize) -> Vec<bool> {
    (0..added + erased).map(|at| at >= added).collect()
}
