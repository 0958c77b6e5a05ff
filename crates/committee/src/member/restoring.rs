//! A member that was put back from a backup, or has lost what it remembers: others tell it first.

use super::{ALL, Kept, Member, Memory, refused};
use crate::Error;
use shares::talk::{Ballot, BanditId, COMMIT, Checkpoint, FromMember, REMEMBERED, Remembered, Signatures};
use std::collections::BTreeMap;

impl<M: Memory> Member<M> {
    /// The member, which was put back from a backup, or has lost its memory: it takes no part with a bandit
    /// until it has heard from n − t + 1 others what they remember of it. To be said once, at its first start
    /// after that; it remembers it.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn restored(mut self) -> Result<Self, Error> {
        self.restored = true;
        self.kept.entry(ALL).or_default();
        for (bandit, kept) in &mut self.kept {
            kept.restored = true;
            self.memory.save(bandit, kept)?;
        }
        Ok(self)
    }

    /// Tells a member that was put back what this one remembers.
    pub(super) fn remember(&mut self, bandit: BanditId, nonce: [u8; 32]) -> Result<Vec<FromMember>, Error> {
        let known = self.bandits.get(&bandit).ok_or(Error::Refused("the bandit is not known"))?;
        if known.kept.restored {
            return refused("the member was put back itself");
        }
        let Kept { checkpoint, vote, lock, .. } = known.kept.clone();
        let remembered = Remembered { checkpoint, vote, lock };
        let signature = self.sign(REMEMBERED, &remembered.signed(&self.committee, &bandit, &nonce));
        Ok(vec![FromMember::Remembers { bandit, nonce, remembered: Box::new(remembered), signature }])
    }

    /// Takes what others remember: the last checkpoint of all, the last lock, and no vote before the last.
    pub(super) fn remembered(
        &mut self,
        bandit: BanditId,
        said: Vec<(u8, Remembered, Vec<u8>)>,
    ) -> Result<Vec<FromMember>, Error> {
        let known = self.bandits.get(&bandit).ok_or(Error::Refused("the bandit is not known"))?;
        if !known.kept.restored {
            return refused("the member was not put back");
        }
        let mut heard: BTreeMap<u8, Remembered> = BTreeMap::new();
        for (member, remembered, signature) in said.into_iter().take(64) {
            let signed = remembered.signed(&self.committee, &bandit, &self.nonce());
            let right = member != self.number()
                && !heard.contains_key(&member)
                && self.count(REMEMBERED, &signed, &vec![(member, signature)]) == 1
                && remembered.checkpoint.as_ref().is_none_or(|(ballot, commits)| {
                    ballot.bandit == bandit && self.count(COMMIT, &ballot.bytes(), commits) >= self.needed()
                });
            if right {
                heard.insert(member, remembered);
            }
        }
        let (agreed, need) = (heard.len(), self.secrets.keys.sharing().threshold().remember());
        if agreed < need {
            return Err(Error::NoAgreement { agreed, need });
        }
        let Kept { checkpoint, vote, lock, .. } = known.kept.clone();
        heard.insert(self.number(), Remembered { checkpoint, vote, lock });
        let checkpoint = heard.values().filter_map(|of| of.checkpoint.clone());
        let checkpoint = checkpoint.max_by_key(|(ballot, _)| ballot.number);
        let number = checkpoint.as_ref().map_or(0, |(ballot, _)| ballot.number).saturating_add(1);
        let next = |ballot: &Ballot| ballot.bandit == bandit && ballot.number == number;
        let lock = heard.values().filter_map(|of| of.lock).filter(next).max_by_key(|lock| lock.ballot);
        let votes = heard.values().flat_map(|of| [of.vote, of.lock]).flatten().filter(next);
        // What it has voted for itself it does not know.
        let vote = votes.max_by_key(|vote| vote.ballot).map(|vote| Ballot { hash: [0; 32], ..vote });
        let first = match checkpoint {
            None if known.definition.founder != self.committee => None,
            None => Some(self.current(known, Checkpoint::first(bandit))?),
            Some(_) => None,
        };
        self.keep(bandit, Kept { checkpoint, vote, lock, ..Kept::default() })?;
        if let Some(known) = self.bandits.get_mut(&bandit) {
            known.current = first;
        }
        Ok(vec![])
    }

    /// Whether the member has signed this itself.
    pub(super) fn has_signed(&self, context: &'static str, ballot: &Ballot, signatures: &Signatures) -> bool {
        let own = |(member, _): &&(u8, Vec<u8>)| *member == self.number();
        let own: Signatures = signatures.iter().filter(own).take(8).cloned().collect();
        self.count(context, &ballot.bytes(), &own) == 1
    }

    /// The member is shown what it has signed and does not remember: it was put back in silence.
    pub(super) fn forgets(&mut self, bandit: BanditId, kept: Kept) -> Result<Vec<FromMember>, Error> {
        self.keep(bandit, Kept { restored: true, ..kept })?;
        if let Some(known) = self.bandits.get_mut(&bandit) {
            known.current = None;
        }
        Ok(vec![FromMember::Forgot { bandit }])
    }
}
