//! The terms of a bandit for feedback that comes late: parameters of its creation that no policy reads.

use crate::error::Error;
use policies::Profile;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wire::{FeedbackKind, LateRule};

/// The most decisions without feedback, the most whose feedback waits for its turn, and the most receipts.
/// Fewer decisions are kept together with contexts.
pub(super) const REMEMBERED: usize = 1024;
/// The most features that are kept with decisions without feedback, in memory, and with others.
pub(super) const KEPT_VALUES: usize = 1 << 17;
/// The longest wait time, in seconds: thirty days.
const MAX_WAIT: u64 = 30 * 24 * 3600;

/// What becomes of decisions without feedback.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// The seconds after which a decision without feedback expires.
    pub(super) wait: u64,
    /// The reward that an expired decision counts as.
    pub(super) default_reward: Option<f64>,
    /// The most decisions without feedback, and the most whose feedback waits for its turn.
    pub(super) max_open: usize,
}

/// The terms in a creation request; `None` for those that it leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct AskedTerms {
    wait: Option<u64>,
    default_reward: Option<f64>,
    max_open: Option<u64>,
}

impl AskedTerms {
    /// Takes the terms out of a creation request, whose other fields are those of the policy.
    pub(crate) fn take(request: &mut Map<String, Value>) -> Result<Self, Error> {
        let mut whole = |name: &str| match request.remove(name) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| bad(name, &value, "a whole number")),
        };
        let (wait, max_open) = (whole("wait")?, whole("max_open")?);
        let default_reward = match request.remove("default_reward") {
            None => None,
            Some(value) => Some(value.as_f64().ok_or_else(|| bad("default_reward", &value, "a number"))?),
        };
        Ok(AskedTerms { wait, default_reward, max_open })
    }

    /// The terms of a bandit with this profile, whose default wait time is `wait`.
    pub(super) fn settle(self, profile: &Profile, wait: u64) -> Result<Terms, Error> {
        let AskedTerms { wait: asked, default_reward, max_open } = self;
        let given = [
            ("wait", asked.is_some()),
            ("max_open", max_open.is_some()),
            ("default_reward", default_reward.is_some()),
        ];
        let refused = |name: &str, why: &str| Err(Error::BadParameter { why: format!("{name}: {why}") });
        if profile.feedback == FeedbackKind::Batch
            && let Some((name, _)) = given.iter().find(|(_, given)| *given)
        {
            return refused(name, "users of this policy answer an intermediary, and no decision waits here");
        }
        if profile.late == LateRule::Batch && default_reward.is_some() {
            return refused("default_reward", "users of this policy add noise to their rewards themselves");
        }
        if let Some(got) = asked.filter(|wait| !(1..=MAX_WAIT).contains(wait)) {
            return Err(bad("wait", &got.into(), &format!("from 1 to {MAX_WAIT} seconds")));
        }
        let (least, most) = profile.rewards();
        if let Some(got) = default_reward.filter(|reward| !(least..=most).contains(reward)) {
            return Err(bad("default_reward", &got.into(), &format!("from {least} to {most}")));
        }
        let room = remembered(profile);
        if let Some(got) = max_open.filter(|most| !(1..=room as u64).contains(most)) {
            return Err(bad("max_open", &got.into(), &format!("from 1 to {room}")));
        }
        let max_open = max_open.map_or(room, |most| most as usize);
        Ok(Terms { wait: asked.unwrap_or(wait.clamp(1, MAX_WAIT)), default_reward, max_open })
    }
}

fn bad(name: &str, got: &Value, want: &str) -> Error {
    Error::BadParameter { why: format!("{name} is {got}, it must be {want}") }
}

/// The most decisions without feedback that are kept together with contexts of the policy's shape.
pub(super) fn remembered(profile: &Profile) -> usize {
    profile.shape().map_or(REMEMBERED, |(d, k)| (KEPT_VALUES / d.saturating_mul(k).max(1)).min(REMEMBERED))
}

impl Terms {
    /// The value that stands for the reward of a decision that expires; `None` if the decision is left out.
    pub(super) fn in_place(&self, profile: &Profile) -> Option<f64> {
        self.default_reward.or_else(|| profile.keeps_places().then_some(0.0))
    }

    /// The seconds after which a decision of the time `at` expires; `None` if it has expired.
    ///
    /// A clock that was set back by more than the wait time keeps no decision: its time cannot be right.
    pub(super) fn left(&self, at: u64, now: u64) -> Option<u64> {
        let ends = at.saturating_add(self.wait);
        let left = ends.checked_sub(now)?;
        (1..=self.wait.saturating_mul(2)).contains(&left).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A decision has its wait time, also if the clock is set back by less than that. One whose time lies
    /// further ahead has a wrong time, and must not hold up others for as long.
    #[test]
    fn clocks_that_are_set_back() {
        let terms = Terms { wait: 60, default_reward: None, max_open: 1 };
        for (at, now, left) in [
            (1000, 1000, Some(60)),
            (1000, 1059, Some(1)),
            (1000, 1060, None),
            (1000, 5000, None),
            (1000, 940, Some(120)),
            (1000, 939, None),
            (u64::MAX, 1000, None),
        ] {
            assert_eq!(terms.left(at, now), left, "{at} {now}");
        }
    }
}
