//! The turns of a transition: decisions that expire, feedback that is learnt in its order, and room for the
//! next decision.

use super::super::terms::{Terms, remembered};
use super::{Core, Open, Receipt, Rows};
use crate::error::Error;
use crate::store::{Edit, Recent};
use fault::Fault;
use policies::Profile;
use privacy::PrivacyStatement;
use protocol::DecisionId;
use rand::Rng;
use std::collections::BTreeMap;
use wire::{ClearFeedback, FeedbackKind, LateRule};

/// The most rewards that a request learns from, so that its time is bounded. Others are learnt by the next
/// requests.
const LEARNT_AT_ONCE: usize = 64;

/// The state that a transition computes, before it is a [`ClearChange`].
pub(super) struct Step<'a> {
    pub(super) core: Core,
    pub(super) before: &'a Recent<DecisionId, Open>,
    /// The rows that differ from those before. `None` for a row that is removed.
    pub(super) edited: BTreeMap<DecisionId, Option<Open>>,
    pub(super) receipts: Vec<(DecisionId, Receipt)>,
}

impl Step<'_> {
    /// The rows as they are now, the oldest first.
    fn rows(&self) -> impl Iterator<Item = (DecisionId, &Open)> {
        self.before.in_order().filter_map(|(id, row)| match self.edited.get(id) {
            Some(edited) => Some((*id, edited.as_ref()?)),
            None => Some((*id, row)),
        })
    }

    pub(super) fn row(&self, id: DecisionId) -> Option<&Open> {
        self.edited.get(&id).map_or_else(|| self.before.get(&id), Option::as_ref)
    }

    pub(super) fn len(&self) -> usize {
        self.rows().count()
    }

    /// The number of decisions without feedback.
    pub(super) fn open(&self) -> usize {
        self.rows().filter(|(_, row)| row.given.is_none()).count()
    }

    /// Replaces decisions that have expired by their default reward, or leaves them out.
    pub(super) fn expire(&mut self, now: u64) {
        let profile = self.core.profile();
        let in_place = self.core.terms.in_place(&profile);
        let over = |row: &Open| row.given.is_none() && self.core.terms.left(row.at, now).is_none();
        let over: Vec<_> =
            self.rows().filter(|(_, row)| over(row)).map(|(id, row)| (id, row.clone())).collect();
        for (id, row) in over {
            self.receipts.push((id, Receipt::Expired { round: self.core.round }));
            let given = in_place.map(|value| standing_for(value, &profile).into());
            *(if given.is_some() { &mut self.core.defaulted } else { &mut self.core.left_out }) += 1;
            self.edited.insert(id, given.map(|given| Open { given: Some(given), ..row }));
        }
    }

    /// The decision whose feedback is learnt next; `None` if what is next has not come, or the run is over.
    fn next(&mut self, rng: &mut impl Rng) -> Result<Option<DecisionId>, Error> {
        if self.rows().all(|(_, row)| row.given.is_none()) {
            return Ok(None);
        }
        let profile = self.core.profile();
        // Without contexts, the policy names the arm whose reward it learns from next. Rewards of all arms
        // fit any arm, and shares are those of one batch.
        let named = match profile.feedback {
            FeedbackKind::Share => None,
            _ if profile.features.is_some() => None,
            kind => match self.core.policy.decide(None, rng) {
                Ok(arm) => arm.filter(|_| kind != FeedbackKind::Rewards),
                Err(error) if error.fault() == Fault::Over => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        };
        let mut rows = self.rows().filter(|(_, row)| named.is_none_or(|arm| arm == row.arm));
        let found = match self.core.rule() {
            LateRule::Queue => rows.next().filter(|(_, row)| row.given.is_some()),
            LateRule::AnyOrder | LateRule::Batch => rows.find(|(_, row)| row.given.is_some()),
        };
        Ok(found.map(|(id, _)| id))
    }

    /// Learns from what has come, in the order of the rule. What a policy without a guarantee refuses, for
    /// whatever fault, is left out, unless it is the feedback on `fresh`: it would fail each further request.
    ///
    /// A policy that keeps places admits a feedback by its range alone when it comes, and refuses none at its
    /// turn. If it does, nothing is changed: were the row left out, or 0 put in its place, then the place or
    /// the value of one person's entry would depend on the state of the policy, so on the entries of others.
    pub(super) fn learn(
        &mut self,
        fresh: Option<DecisionId>,
        statement: &PrivacyStatement,
        rng: &mut impl Rng,
    ) -> Result<(), Error> {
        for _ in 0..LEARNT_AT_ONCE {
            let Some(id) = self.next(rng)? else { break };
            let Some(Open { arm, mark, context, given: Some(given), .. }) = self.row(id).cloned() else {
                return Err(Error::Broken("a decision that is learnt and has no feedback"));
            };
            let before = (fresh != Some(id)).then(|| self.core.policy.clone());
            // With full information the policy learns the rewards of all arms, in a turn of its own arm.
            let arm = match self.core.profile().feedback {
                FeedbackKind::Rewards => self.core.policy.decide(None, rng)?.unwrap_or(arm),
                _ => arm,
            };
            self.core.policy.recall(mark);
            self.edited.insert(id, None);
            match (self.core.policy.learn(context.as_ref(), arm, &given.into(), rng), before) {
                (Ok(()), _) => {
                    self.core.learnt += 1;
                    self.core.learnt_anew += 1;
                    self.core.charge(self.core.learnt, statement)?;
                }
                (Err(_), Some(_)) if self.core.profile().keeps_places() => {
                    return Err(Error::Broken("a private policy refused a feedback that it had admitted"));
                }
                (Err(_), Some(before)) => {
                    self.core.policy = before;
                    self.core.left_out += 1;
                }
                (Err(error), _) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Makes room for one more decision. Decisions without feedback, and feedback that came before its turn,
    /// have a bound each, so that whoever asks for many decisions voids no feedback. Where too much feedback
    /// waits, some of an arm that the policy does not play now is left out, the newest first: the place of no
    /// other decision moves. A decision without feedback is never replaced before it expires, or whoever asks
    /// for many decisions would take away those of others. `admitted` says whether the sender may have a
    /// place.
    pub(super) fn make_room(&mut self, named: Option<usize>, now: u64, admitted: bool) -> Result<(), Error> {
        let Terms { max_open: limit, wait: expires, .. } = self.core.terms;
        let open = self.open();
        let free = open < limit && admitted;
        if free && self.len() - open < limit {
            return Ok(());
        }
        let mut last = BTreeMap::new();
        if free
            && self.core.profile().features.is_none()
            && self.core.profile().feedback != FeedbackKind::Rewards
        {
            last.extend(self.rows().filter(|(_, row)| Some(row.arm) != named).map(|row| (row.1.arm, row)));
        }
        let spare = last.into_values().filter(|(_, row)| row.given.is_some());
        if let Some((id, _)) = spare.max_by_key(|(_, row)| row.round) {
            self.edited.insert(id, None);
            self.core.left_out += 1;
            return Ok(());
        }
        let open = self.rows().filter(|(_, row)| row.given.is_none());
        let wait = open.filter_map(|(_, row)| self.core.terms.left(row.at, now)).min().unwrap_or(1);
        let most = remembered(&self.core.profile());
        Err(Error::TooManyOpen { limit, wait, expires, most })
    }

    /// The core, and the rows that a change writes or removes.
    pub(super) fn finish(self, receipts: &Recent<DecisionId, Receipt>) -> (Core, Rows) {
        let open = self.edited.into_iter().map(|(key, value)| Edit { key, value }).collect();
        (self.core, Rows { open, receipts: receipts.set_all(self.receipts), ..Rows::default() })
    }
}

/// The feedback that stands for a reward of this value.
pub(super) fn standing_for(value: f64, profile: &Profile) -> ClearFeedback {
    let none = ClearFeedback::default();
    match profile.feedback {
        FeedbackKind::Rewards => ClearFeedback { rewards: Some(vec![value; profile.arms]), ..none },
        FeedbackKind::Sum => ClearFeedback { sum: Some(value), ..none },
        _ => ClearFeedback { reward: Some(value), ..none },
    }
}
