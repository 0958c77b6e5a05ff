//! Private prefix sums of a stream of vectors by a binary tree.

use crate::Error;
use crate::budget::{Rho, Sensitivity};
use crate::gauss::GaussianNoise;
use fault::{OutOfRange, require};
use rand::Rng;
use serde::{Deserialize, Serialize};

crate::stored! {
    /// The binary tree mechanism on vectors of a fixed length, with Gaussian noise.
    ///
    /// The items are grouped in dyadic blocks. The noise of a block is drawn **once**, when the block is
    /// complete, and the sum of the first `t` items is that of the blocks of the binary digits of `t`. A
    /// symmetric matrix is represented by its upper triangle, with `sigma` on the diagonal and `sigma/sqrt 2`
    /// off it, which is the isotropic Gaussian of the Frobenius norm.
    ///
    /// - Shape: noise of standard deviation `sigmas[k]` on coordinate `k` of each block.
    /// - Privacy: an item is in at most [`levels`](Self::levels) blocks, so all answers together cost
    ///   [`levels`](Self::levels) times the zCDP of one block, see [`sigma`](Self::sigma).
    /// - Cost: time and memory `O(levels · length)` per item.
    /// - Source: Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011; for matrices Shariff, Sheffet
    ///   2018.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Tree {
        horizon: u64,
        items: u64,
        sigmas: Vec<f64>,
        /// The last complete block of each level: its sum, and its sum with noise.
        blocks: Vec<Block>,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Block {
    exact: Vec<f64>,
    noisy: Vec<f64>,
}

impl Tree {
    /// An empty stream of at most `horizon` items. A coordinate with `sigma` 0 has no noise, **and no
    /// privacy**.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `horizon` is 0, there are no coordinates, or a `sigma` is negative or not
    /// finite.
    pub fn new(sigmas: Vec<f64>, horizon: u64) -> Result<Self, Error> {
        require(horizon > 0, "horizon", 0, "at least 1")?;
        require(!sigmas.is_empty(), "coordinates", 0, "at least 1")?;
        if let Some(&bad) = sigmas.iter().find(|s| !(s.is_finite() && **s >= 0.0)) {
            return Err(Error::OutOfRange(OutOfRange::new("sigma", bad, "finite and not negative")));
        }
        let empty = Block { exact: vec![0.0; sigmas.len()], noisy: vec![0.0; sigmas.len()] };
        let blocks = vec![empty; Self::levels(horizon) as usize];
        Ok(Self { horizon, items: 0, sigmas, blocks })
    }

    /// `ceil(log2 horizon) + 1`, a bound on the number of blocks that contain an item, and on that of an
    /// answer.
    pub fn levels(horizon: u64) -> u32 {
        u64::BITS - horizon.saturating_sub(1).leading_zeros() + 1
    }

    /// The standard deviation with which the whole stream costs `rho`, for items of sensitivity `l2`: `l2
    /// sqrt(levels / (2 rho))`.
    pub fn sigma(rho: Rho, l2: Sensitivity, horizon: u64) -> f64 {
        rho.sigma(l2) * f64::from(Self::levels(horizon)).sqrt()
    }

    /// Refuses a tree that no stream can store.
    fn check_stored(&self) -> Result<(), Error> {
        Self::new(self.sigmas.clone(), self.horizon)?;
        let width = self.sigmas.len();
        let finite = |values: &[f64]| values.len() == width && values.iter().all(|v| v.is_finite());
        let sound = self.items <= self.horizon
            && self.blocks.len() == Self::levels(self.horizon) as usize
            && self.blocks.iter().all(|block| finite(&block.exact) && finite(&block.noisy));
        if sound { Ok(()) } else { Err(Error::State { what: "a tree that no stream can reach" }) }
    }

    /// Whether this tree has such noise and such a horizon. Deviations may differ by a part of 1e-12, since
    /// decimals may lose their last digits.
    pub fn fits(&self, sigmas: &[f64], horizon: u64) -> bool {
        self.horizon == horizon
            && self.sigmas.len() == sigmas.len()
            && self.sigmas.iter().zip(sigmas).all(|(a, b)| (a - b).abs() <= 1e-12 * b)
    }

    /// Number of items so far.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Adds one item, and draws one noise vector in the order of the coordinates with `sigma > 0`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the length is not that of the tree, `noise` cannot round a value, or the
    /// horizon is exceeded; those of `noise`. The tree is then unchanged.
    pub fn add(
        &mut self,
        item: &[f64],
        noise: &mut impl GaussianNoise,
        rng: &mut dyn Rng,
    ) -> Result<(), Error> {
        require(item.len() == self.sigmas.len(), "item length", item.len(), "that of the tree")?;
        require(self.items < self.horizon, "items", self.items as f64 + 1.0, "at most the horizon")?;
        let level = (self.items + 1).trailing_zeros() as usize;
        let mut exact = item.iter().map(|x| noise.round(*x)).collect::<Result<Vec<_>, _>>()?;
        for lower in &self.blocks[..level] {
            exact.iter_mut().zip(&lower.exact).for_each(|(sum, x)| *sum += x);
        }
        let mut noisy = exact.clone();
        for (value, &sigma) in noisy.iter_mut().zip(&self.sigmas) {
            if sigma > 0.0 {
                *value += noise.draw(sigma, rng)?;
            }
        }
        self.items += 1;
        self.blocks[level] = Block { exact, noisy };
        Ok(())
    }

    /// The noisy sum of all items so far. Repeated calls return the same value, without further privacy cost.
    pub fn prefix(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.sigmas.len()];
        for (level, block) in self.blocks.iter().enumerate() {
            if self.items >> level & 1 == 1 {
                sum.iter_mut().zip(&block.noisy).for_each(|(sum, x)| *sum += x);
            }
        }
        sum
    }
}
