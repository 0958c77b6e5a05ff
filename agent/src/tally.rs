//! Numbers about the decisions of a bandit at this agent, in the clear: what a summary shows.
//!
//! They change in the transactions that keep decisions and receipts, so that each decision and each reward is
//! counted once, whatever a crash undid.

use crate::decision_log::Played;
use serde::{Deserialize, Serialize};

/// The most blocks of a curve. Two become one when there are more.
const MOST_BLOCKS: usize = 64;
/// The alarm is given while this many of the last 64 answers were outside their range, even after they were
/// asked for again. A single one may be of a sender that the server evaluates alone from then on.
const ALARM: u32 = 4;
/// The 97.5 % quantile of the normal distribution.
const QUANTILE: f64 = 1.959964;

/// Counts and sums of a bandit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tally {
    decisions: u64,
    unreliable: u64,
    /// The last 64 decisions, the newest in the lowest bit: 1 for an answer outside its range.
    recent: u64,
    arms: Vec<OfArm>,
    /// Rewards of decisions that played the baseline arm, and of those that played another one.
    at_baseline: Sum,
    elsewhere: Sum,
    /// Whether a reward was below 0.
    below_zero: bool,
    curve: Curve,
}

/// Counts and sums of an arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct OfArm {
    played: u64,
    rewards: Sum,
}

/// Rewards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Sum {
    count: u64,
    sum: f64,
    /// Those above 0.
    hits: u64,
}

impl Sum {
    fn add(self, other: Sum) -> Sum {
        Sum { count: self.count + other.count, sum: self.sum + other.sum, hits: self.hits + other.hits }
    }

    fn of(reward: f64) -> Sum {
        Sum { count: 1, sum: reward, hits: u64::from(reward > 0.0) }
    }
}

/// Rewards in the order in which they came, in blocks of equal numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Curve {
    /// The number of rewards of a whole block, less one.
    more: u64,
    blocks: Vec<Sum>,
}

impl Curve {
    fn push(&mut self, reward: f64) {
        match self.blocks.last_mut().filter(|block| block.count <= self.more) {
            Some(block) => *block = block.add(Sum::of(reward)),
            None => self.blocks.push(Sum::of(reward)),
        }
        if self.blocks.len() > MOST_BLOCKS {
            self.more = 2 * self.more + 1;
            let pairs = self.blocks.chunks(2);
            self.blocks = pairs.map(|pair| pair.iter().fold(Sum::default(), |a, b| a.add(*b))).collect();
        }
    }
}

impl Tally {
    /// Counts a decision.
    pub(crate) fn decided(&mut self, played: &Played) {
        self.decisions += 1;
        self.unreliable += u64::from(!played.reliable);
        self.recent = self.recent << 1 | u64::from(!played.reliable);
        self.arms.resize(self.arms.len().max(played.arms as usize), OfArm::default());
        self.arm(played).played += 1;
    }

    /// Whether many of the last answers were outside their range.
    pub(crate) fn alarm(&self) -> bool {
        self.recent.count_ones() >= ALARM
    }

    /// Counts the reward of a decision.
    pub(crate) fn rewarded(&mut self, played: &Played, reward: f64) {
        let arm = self.arm(played);
        arm.rewards = arm.rewards.add(Sum::of(reward));
        match played.baseline {
            Some(true) => self.at_baseline = self.at_baseline.add(Sum::of(reward)),
            Some(false) => self.elsewhere = self.elsewhere.add(Sum::of(reward)),
            None => {}
        }
        self.below_zero |= reward < 0.0;
        self.curve.push(reward);
    }

    /// What a summary shows, of a bandit with at least `arms` arms.
    pub(crate) fn summary(&self, arms: usize) -> Summary {
        let none = OfArm::default();
        let of_arm = |arm: usize| (arm, self.arms.get(arm).unwrap_or(&none));
        let per_arm = (0..arms.max(self.arms.len())).map(of_arm);
        let all = self.arms.iter().fold(Sum::default(), |all, arm| all.add(arm.rewards));
        Summary {
            decisions: self.decisions,
            unreliable: self.unreliable,
            unreliable_recently: self.recent.count_ones(),
            alarm: self.alarm(),
            rewards: self.mean(all),
            arms: per_arm
                .map(|(arm, of)| ArmSummary { arm, played: of.played, rewards: self.mean(of.rewards) })
                .collect(),
            baseline: BaselineSummary {
                at_baseline: self.mean(self.at_baseline),
                elsewhere: self.mean(self.elsewhere),
            },
            curve: self.curve.blocks.iter().map(|block| self.mean(*block)).collect(),
        }
    }

    fn arm(&mut self, played: &Played) -> &mut OfArm {
        let arm = played.arm as usize;
        if self.arms.len() <= arm {
            self.arms.resize(arm + 1, OfArm::default());
        }
        &mut self.arms[arm]
    }

    fn mean(&self, sum: Sum) -> Mean {
        let count = sum.count as f64;
        let share = |part: f64| (sum.count > 0).then(|| part / count);
        let least = if self.below_zero { -1.0 } else { 0.0 };
        Mean {
            count: sum.count,
            mean: share(sum.sum),
            interval: share(sum.sum).map(|mean| interval(mean, count, least)),
            hits: share(sum.hits as f64),
        }
    }
}

/// The 95 % interval of a mean of `count` values from `least` to 1: the score interval of a share, for the
/// mean moved to [0, 1]. No distribution on this range has a larger variance than values at its ends with
/// this mean, so that the interval of other values is wider than it need be.
///
/// # Source
/// Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
fn interval(mean: f64, count: f64, least: f64) -> [f64; 2] {
    let width = 1.0 - least;
    let (share, z2) = (((mean - least) / width).clamp(0.0, 1.0), QUANTILE * QUANTILE);
    let middle = (share + z2 / (2.0 * count)) / (1.0 + z2 / count);
    let half =
        QUANTILE / (1.0 + z2 / count) * (share * (1.0 - share) / count + z2 / (4.0 * count * count)).sqrt();
    [middle - half, middle + half].map(|end| least + width * end.clamp(0.0, 1.0))
}

/// A summary of the decisions of a bandit at this agent.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// The number of decisions.
    pub(crate) decisions: u64,
    /// How many of them had an answer outside its range.
    pub(crate) unreliable: u64,
    /// How many of the last 64 had.
    pub(crate) unreliable_recently: u32,
    /// Whether these are so many that a sender or the server must be suspected.
    pub(crate) alarm: bool,
    /// All rewards.
    pub(crate) rewards: Mean,
    /// Each arm.
    pub(crate) arms: Vec<ArmSummary>,
    /// Rewards beside those of the baseline.
    pub(crate) baseline: BaselineSummary,
    /// Rewards in the order in which they came, in blocks.
    pub(crate) curve: Vec<Mean>,
}

/// Rewards of decisions that were made while there was a baseline arm.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct BaselineSummary {
    /// Of those that played it.
    pub(crate) at_baseline: Mean,
    /// Of those that played another arm.
    pub(crate) elsewhere: Mean,
}

/// An arm in a summary.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ArmSummary {
    /// The arm, from 0.
    pub(crate) arm: usize,
    /// How often it was played.
    pub(crate) played: u64,
    /// Its rewards.
    pub(crate) rewards: Mean,
}

/// Rewards in a summary.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Mean {
    /// Their number.
    pub(crate) count: u64,
    /// Their mean; null if there are none.
    pub(crate) mean: Option<f64>,
    /// The 95 % interval of the mean.
    pub(crate) interval: Option<[f64; 2]>,
    /// The share of those above 0.
    pub(crate) hits: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(arm: u32) -> Played {
        Played {
            decided: 0,
            round: 1,
            model_feedbacks: Some(0),
            arms: 3,
            arm,
            chosen: Some(0),
            probability: 1.0,
            baseline: Some(arm == 1),
            reliable: arm > 0,
        }
    }

    /// Known answers of R's `prop.test(k, n, correct = FALSE)`.
    #[test]
    fn intervals_are_those_of_wilson() {
        for (hits, count, want) in [(8.0, 10.0, [0.4901625, 0.9433178]), (0.0, 20.0, [0.0, 0.1611252])] {
            let got = interval(hits / count, count, 0.0);
            assert!((got[0] - want[0]).abs() < 1e-6 && (got[1] - want[1]).abs() < 1e-6, "{got:?}");
            // The same shares of values -1 and 1.
            let got = interval(2.0 * hits / count - 1.0, count, -1.0);
            assert!(
                (got[0] - (2.0 * want[0] - 1.0)).abs() < 1e-6
                    && (got[1] - (2.0 * want[1] - 1.0)).abs() < 1e-6
            );
        }
    }

    #[test]
    fn decisions_and_rewards_are_counted_by_arm() {
        let mut tally = Tally::default();
        for (arm, reward) in [(1, Some(1.0)), (1, Some(0.0)), (0, None), (1, Some(0.5))] {
            tally.decided(&played(arm));
            if let Some(reward) = reward {
                tally.rewarded(&played(arm), reward);
            }
        }
        let summary = tally.summary(3);
        assert_eq!((summary.decisions, summary.unreliable, summary.rewards.count), (4, 1, 3));
        assert_eq!(summary.arms.iter().map(|arm| arm.played).collect::<Vec<_>>(), [1, 3, 0]);
        assert_eq!((summary.baseline.at_baseline.count, summary.baseline.elsewhere.count), (3, 0));
        let rewards = &summary.arms[1].rewards;
        assert_eq!((rewards.mean, rewards.hits), (Some(0.5), Some(2.0 / 3.0)));
        assert_eq!((summary.arms[0].rewards.mean, summary.arms[2].rewards.interval), (None, None));
        let narrow = summary.rewards.interval.unwrap();
        tally.rewarded(&played(2), -1.0);
        assert!(narrow[0] > 0.0 && tally.summary(3).rewards.interval.unwrap()[0] < 0.0);
    }

    /// A curve has at most as many blocks as stated, all but the last of the same size, and every reward
    /// once.
    #[test]
    fn curves_are_bounded() {
        let mut curve = Curve::default();
        for count in 1..=1000u64 {
            curve.push(count as f64);
            let (blocks, size) = (&curve.blocks, curve.more + 1);
            assert!(blocks.len() <= MOST_BLOCKS);
            assert!(blocks[..blocks.len() - 1].iter().all(|block| block.count == size), "{count}");
            let all = blocks.iter().fold(Sum::default(), |all, block| all.add(*block));
            assert_eq!((all.count, all.sum), (count, (count * (count + 1) / 2) as f64));
        }
        assert_eq!((curve.more + 1, curve.blocks.len()), (16, 63));
    }

    /// The alarm is given at four of the last 64, and ends when they are further back.
    #[test]
    fn the_alarm_is_about_the_last_answers() {
        let of = |reliable| Played { reliable, ..played(0) };
        let mut tally = Tally::default();
        for many in 1..=4 {
            tally.decided(&of(false));
            assert_eq!((tally.alarm(), tally.summary(0).unreliable_recently), (many == 4, many));
        }
        for good in 1..=61 {
            tally.decided(&of(true));
            assert_eq!(tally.alarm(), good <= 60, "{good}");
        }
        assert_eq!(tally.summary(0).unreliable, 4);
    }
}
