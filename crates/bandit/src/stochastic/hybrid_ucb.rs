//! Hybrid-UCB: private means of all rewards, from the sums of complete arrays and a binary tree over the open
//! array.
//!
//! | symbol | here |
//! |---|---|
//! | `O_j` | `Arm::pulls` |
//! | finished arrays 0..r-1, of sizes 1, 2, 4, ... | `Arm::closed`, the total of their noisy sums |
//! | p-sums of the active tree nodes | `Arm::nodes` |

use super::{Noise, OpenSum, Turn, check_arms, no_privacy, statement};
use crate::vector::argmax;
use crate::{Error, Learnt, Policy};
use privacy::PrivacyStatement;
use privacy::budget::{Epsilon, Neighbours};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Plays the arm with the largest
/// `mean + sqrt(3 log2 t / O) + 6 sqrt(8) log2 t floor(log2(O + 1)) / (epsilon O)`; anytime.
///
/// - Privacy: epsilon-DP for the sequence of decisions when one round's rewards are replaced. Half of epsilon
///   pays for the sum of the reward's array, with noise `Lap(2/epsilon)`, and half for the r nodes that
///   contain it in the tree over array r, with noise `Lap(2r/epsilon)` each. [`Tree::Paper`] costs 1.5
///   epsilon.
/// - Cost: O(K) per round; O(K log T) memory.
///
/// # Source
/// Hu, Huang, Mehta, "Near-Optimal Algorithms for Private Online Learning in a Stochastic Environment":
/// appendix E, Algorithm 4; index: eq. 35. Departures: [`Tree::Corrected`]; each noise is drawn once and
/// kept. The pseudo-code can be read as drawing it anew in each round, in which case it would average out.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound = "", try_from = "State<N>")]
pub struct HybridUcb<N: Noise>(State<N>);

/// The value that is released when an array is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tree {
    /// The sum of the array.
    #[default]
    Corrected,
    /// The root of its tree, and then the sum of the array, for reproduction only. The scale `2r/epsilon`
    /// pays for r nodes that contain a reward; the root is a further one, so that the cost is up to 1.5
    /// epsilon.
    Paper,
}

impl<N: Noise> HybridUcb<N> {
    /// The policy for `k` arms before the first pull.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `k` is 0.
    pub fn new(k: usize, epsilon: Epsilon, tree: Tree, noise: N) -> Result<Self, Error> {
        check_arms(k)?;
        Ok(Self(State { epsilon, tree, noise, turn: Turn::default(), arms: vec![Arm::default(); k] }))
    }

    /// The index of `arm` in round `t`; infinite before its first pull. Source: eq. 35.
    ///
    /// # Errors
    /// [`Error::Arm`] if there is no such arm.
    pub fn index(&self, arm: usize, t: u64) -> Result<f64, Error> {
        let a = self.0.arms.get(arm).ok_or(Error::Arm { arm, k: self.0.arms.len() })?;
        Ok(if a.pulls == 0 { f64::INFINITY } else { a.index((t as f64).log2(), self.0.epsilon.get()) })
    }

    /// The private mean of each arm; 0 before its first pull.
    pub fn means(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.arms.iter().map(|a| a.mean)
    }

    /// The number of pulls of each arm.
    pub fn pulls(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.arms.iter().map(|a| a.pulls)
    }

    /// The source of noise.
    pub fn noise(&self) -> &N {
        &self.0.noise
    }
}

impl<N: Noise> Policy for HybridUcb<N> {
    type Context = ();
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        let epsilon = match self.0.tree {
            Tree::Corrected => Ok(self.0.epsilon),
            Tree::Paper => Epsilon::new(1.5 * self.0.epsilon.get()),
        };
        // It fails only if 1.5 epsilon is infinite.
        epsilon.map_or_else(|_| no_privacy(), |epsilon| statement(epsilon, Neighbours::ReplaceOne))
    }

    fn learnt(&self) -> Learnt {
        let released = |(mean, pulls): (f64, u64)| (pulls > 0).then_some(mean);
        let means = self.means().zip(self.pulls()).map(released).collect();
        Learnt { pulls: Some(self.pulls().collect()), means: Some(means), ..Learnt::default() }
    }

    fn decide(&mut self, (): &(), _: &mut dyn Rng) -> Result<usize, Error> {
        let State { epsilon, turn, arms, .. } = &mut self.0;
        let t = turn.round();
        let arm = if t <= arms.len() as u64 {
            (t - 1) as usize
        } else {
            let log2_t = (t as f64).log2();
            argmax(arms.iter().map(|a| a.index(log2_t, epsilon.get())))
        };
        Ok(turn.decide(arm))
    }

    /// # Errors
    /// [`Error::OutOfTurn`], [`Error::OutOfRange`] if the reward is outside [0, 1], [`Error::Overflow`] after
    /// 2^33 rewards of one arm, [`Error::Privacy`] from the noise. The state is then unchanged.
    fn learn(&mut self, (): &(), arm: usize, reward: &f64, rng: &mut dyn Rng) -> Result<(), Error> {
        let State { epsilon, tree, noise, turn, arms } = &mut self.0;
        turn.check(arm)?;
        arms[arm].observe(*reward, epsilon.get(), *tree, noise, rng)?; // `decide` named it
        turn.end(1);
        Ok(())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State<N> {
    epsilon: Epsilon,
    tree: Tree,
    noise: N,
    turn: Turn,
    arms: Vec<Arm>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arm {
    pulls: u64,
    mean: f64,
    closed: f64,
    /// The active nodes, largest first: one for each bit that is set in the fill of the open array.
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    sum: OpenSum,
    released: f64,
}

impl Arm {
    fn index(&self, log2_t: f64, epsilon: f64) -> f64 {
        let pulls = self.pulls as f64;
        let noise = 6.0 * 8f64.sqrt() * log2_t * f64::from(self.open_array()) / (epsilon * pulls);
        self.mean + (3.0 * log2_t / pulls).sqrt() + noise
    }

    /// The number r of the open array, of size `2^r`. The arrays before it contain `2^r - 1` rewards.
    fn open_array(&self) -> u32 {
        (self.pulls + 1).ilog2()
    }

    fn observe(
        &mut self,
        reward: f64,
        epsilon: f64,
        tree: Tree,
        noise: &mut impl Noise,
        rng: &mut dyn Rng,
    ) -> Result<(), Error> {
        if self.pulls == OpenSum::MAX_COUNT {
            return Err(Error::Overflow);
        }
        let r = self.open_array();
        let fill = self.pulls + 2 - (1 << r);
        // As in a binary counter with carries, the nodes of the trailing zeros and the reward form the new
        // node.
        let kept = self.nodes.len() - fill.trailing_zeros() as usize;
        let mut sum = OpenSum::default();
        sum.add(reward)?;
        self.nodes[kept..].iter().for_each(|n| sum.absorb(n.sum));

        let (array_scale, node_scale) = (2.0 / epsilon, f64::from(2 * r) / epsilon);
        let array_full = fill == 1 << r;
        let root = tree == Tree::Paper && r > 0;
        let node = if array_full && !root { None } else { Some(sum.noisy(node_scale, noise, rng)?) };
        let array = if array_full { sum.noisy(array_scale, noise, rng)? } else { 0.0 };

        self.nodes.truncate(kept);
        self.pulls += 1;
        let before = self.closed + self.nodes.iter().map(|n| n.released).sum::<f64>();
        self.mean = (before + node.unwrap_or(array)) / self.pulls as f64;
        self.closed += array;
        if !array_full {
            self.nodes.extend(node.map(|released| Node { sum, released }));
        }
        Ok(())
    }

    /// Whether a run can reach this state.
    fn fits(&self) -> bool {
        let fill = self.pulls + 1 - (1 << self.open_array());
        let sizes = (0..64).rev().map(|l| 1 << l).filter(|size| fill & size != 0);
        let node_fits =
            |n: &Node, size: u64| n.sum.count() == size && n.sum.fits(size + 1) && n.released.is_finite();
        self.mean.is_finite()
            && self.closed.is_finite()
            && self.nodes.len() == fill.count_ones() as usize
            && self.nodes.iter().zip(sizes).all(|(n, size)| node_fits(n, size))
    }
}

impl<N: Noise> TryFrom<State<N>> for HybridUcb<N> {
    type Error = Error;
    fn try_from(state: State<N>) -> Result<Self, Error> {
        check_arms(state.arms.len())?;
        let initialised = state.arms.iter().take(state.turn.learnt as usize).all(|a| a.pulls > 0);
        if !initialised || !state.arms.iter().all(|a| a.pulls <= OpenSum::MAX_COUNT && a.fits()) {
            return Err(Error::State { what: "an arm that no run can reach" });
        }
        state.turn.fits(state.arms.len(), state.arms.iter().map(|a| a.pulls).sum())?;
        Ok(Self(state))
    }
}
