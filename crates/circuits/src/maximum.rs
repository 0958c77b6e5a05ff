//! The maximum of two slots, and the test whether a score is the maximum of its user.
//!
//! The largest of K scores takes ⌈log₂ K⌉ rounds of maxima of two, with K − 1 slots in all, where a
//! comparison of all pairs takes K(K − 1). Between rounds somebody else must move slots.
//!
//! max(a, b) = (a + b)/2 + x·s(x)/2 for x = a − b, where s approximates the sign. What counts is |x·s(x) −
//! |x|| and not |s(x) − sign(x)|: a minimax composite for the resolution r leaves 1.56·r, because it is small
//! near 0 and overshoots elsewhere. The stages here are fitted with weights, and leave 0.24·r.

use crate::error::has_levels;
use crate::{Chebyshev, Comparison, Error, SlotAlgebra};

/// The resolution r that the stages are fitted for, and that of the last comparison.
pub const RESOLUTION: f64 = 1.0 / 64.0;

/// What is added to the difference of a score and the maximum, before it is compared with 0. It makes up for
/// the error of the maximum.
pub const SHIFT: f64 = RESOLUTION / 4.0;

/// Chebyshev coefficients of degrees 1, 3, …, 15 of the first stage: the best odd approximation of 1 on [r,
/// 1] for errors times x^¼, divided by 1 + 2⁻¹² times its largest value.
const FIRST: [f64; 8] = [
    0.8913875957852706,
    -0.2996414560581652,
    0.18310679794608103,
    -0.134989313480759,
    0.11073048129408061,
    -0.09968637007429641,
    0.10433097479935347,
    -0.24397277517823815,
];

/// Those of the second stage: the best odd approximation of 1 on the image of [r, 1], where the error at y
/// counts times the largest x that the first stage takes within 0.01 of y. Both by Lawson's algorithm.
const SECOND: [f64; 8] = [
    1.270969783012009,
    -0.41319047164790623,
    0.23295593611905666,
    -0.14787053559269378,
    0.08955658725528316,
    -0.05483035292124066,
    0.02368706809455307,
    -0.012161791688178675,
];

/// The circuits of a search for the largest score, for scores of which no two are more than 1 apart.
#[derive(Debug, Clone)]
pub struct Maximum {
    first: Chebyshev,
    /// Half of the second stage.
    second: Chebyshev,
    comparison: Comparison,
}

impl Maximum {
    /// The circuits.
    ///
    /// # Errors
    /// None with the coefficients of this file.
    pub fn new() -> Result<Self, Error> {
        let stage =
            |odd: [f64; 8]| Chebyshev::new(odd.into_iter().flat_map(|c| [0.0, c]).collect(), -1.0, 1.0);
        let comparison = Comparison::composite(RESOLUTION, &[15, 15])?;
        Ok(Maximum { first: stage(FIRST)?, second: stage(SECOND)?.scaled(0.5, 0.0)?, comparison })
    }

    /// Levels of [`Self::of_two`]: those of both stages, and one for the product.
    pub fn depth(&self) -> usize {
        self.first.depth() + self.second.depth() + 1
    }

    /// The comparison of [`Self::entries`].
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// max(a, b) in f64.
    pub fn eval(&self, a: f64, b: f64) -> f64 {
        (a + b) / 2.0 + (a - b) * self.second.eval(self.first.eval(a - b))
    }

    /// About max(a, b) in every slot, from a − b in [-1, 1] and (a + b)/2. It is off by at most 0.12 r.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] if the differences do not have [`Self::depth`] levels; otherwise those of the
    /// algebra.
    pub fn of_two<A: SlotAlgebra>(
        &self,
        alg: &A,
        difference: &A::Vector,
        mean: &A::Vector,
    ) -> Result<A::Vector, A::Error> {
        has_levels("maximum", alg.level(difference), self.depth())?;
        let sign = self.second.evaluate(alg, &self.first.evaluate(alg, difference)?)?;
        alg.add(&alg.mul(difference, &sign)?, mean)
    }

    /// The entries of an answer: 0.4 to 1 in the slots of the largest score of a user and near 0 in those of
    /// scores that are two resolutions or more behind it, from the differences of each score and the maximum
    /// of its user.
    ///
    /// # Errors
    /// As [`Comparison::indicator`].
    pub fn entries<A: SlotAlgebra>(&self, alg: &A, behind: &A::Vector) -> Result<A::Vector, A::Error> {
        self.comparison.indicator(alg, &alg.add_const(behind, SHIFT.into())?)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Clear, ClearVector, NoiseModel};
    use rand::seq::SliceRandom;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// The minimax composite of the same degrees, as [`Comparison::composite`] makes it.
    fn minimax() -> Maximum {
        let odd: Vec<usize> = (1..16).step_by(2).collect();
        let (first, error) = Chebyshev::minimax(&odd, |_| 1.0, RESOLUTION, 1.0).unwrap();
        let factor = 1.0 / ((1.0 + error) * (1.0 + 1.0 / 4096.0));
        let (second, _) = Chebyshev::minimax(&odd, |_| 1.0, (1.0 - error) * factor, 1.0).unwrap();
        let (first, second) = (first.scaled(factor, 0.0).unwrap(), second.scaled(0.5, 0.0).unwrap());
        Maximum { first, second, ..Maximum::new().unwrap() }
    }

    /// max(a, b) is off by 0.12 resolutions at most, and no argument leaves the domain of the second stage.
    #[test]
    fn maxima_are_near() {
        let worst = |of: &Maximum| {
            let at = |k: i32| of.eval(f64::from(k) / 40_000.0, 0.0) - f64::from(k.max(0)) / 40_000.0;
            (-40_000..=40_000).map(at).fold(0.0, |worst: f64, x| worst.max(x.abs())) / RESOLUTION
        };
        let fitted = Maximum::new().unwrap();
        assert!((0.10..0.12).contains(&worst(&fitted)), "{}", worst(&fitted));
        assert!(worst(&minimax()) > 0.7, "{}", worst(&minimax()));
        assert!((0..=40_000).all(|k| fitted.first.eval(f64::from(k) / 40_000.0).abs() < 1.0 - 2e-4));
        assert_eq!((fitted.depth(), fitted.comparison().depth()), (9, 8));
    }

    /// Vectors of `count` numbers with the noise of a ring of 2¹⁴ and 30 bits.
    pub(crate) fn noisy(count: usize, seed: u64) -> Clear {
        let noise = NoiseModel { log_scale: 30.0, log_degree: 14, seed };
        Clear::with_noise(count.next_power_of_two(), noise).unwrap()
    }

    /// A fresh encryption, as after an exchange.
    pub(crate) fn fresh(alg: &Clear, values: &[f64], level: usize) -> ClearVector {
        let mut slots = values.to_vec();
        slots.resize(alg.slots(), 0.0);
        alg.fresh_real(&slots, level).unwrap()
    }

    /// What so many rounds leave of scores. Those of each round are a fresh encryption.
    pub(crate) fn maxima(of: &Maximum, alg: &Clear, scores: &[f64], rounds: usize) -> Vec<f64> {
        let mut round = scores.to_vec();
        for _ in 0..rounds {
            let pair =
                |pair: &[f64]| [pair[0] - pair[pair.len() - 1], (pair[0] + pair[pair.len() - 1]) / 2.0];
            let pairs: Vec<[f64; 2]> = round.chunks(2).map(pair).collect();
            let [differences, means] = [0, 1].map(|i| pairs.iter().map(|p| p[i]).collect::<Vec<f64>>());
            let larger = of.of_two(alg, &fresh(alg, &differences, 10), &fresh(alg, &means, 1)).unwrap();
            assert_eq!(alg.level(&larger), 1);
            round = larger.real()[..pairs.len()].to_vec();
        }
        round
    }

    /// The entries of scores.
    fn entries(of: &Maximum, scores: &[f64], seed: u64) -> Vec<f64> {
        let alg = noisy(scores.len(), seed);
        let maximum = maxima(of, &alg, scores, scores.len().next_power_of_two().ilog2() as usize)[0];
        let behind: Vec<f64> = scores.iter().map(|score| score - maximum).collect();
        of.entries(&alg, &fresh(&alg, &behind, 9)).unwrap().real()[..scores.len()].to_vec()
    }

    /// How far scores are behind the best one: far, near, nearer than a resolution, and so far that ripples
    /// of the sign count most.
    pub(crate) const BEHIND: [[f64; 2]; 4] = [[0.1, 0.75], [0.01, 0.05], [0.0, 0.02], [0.5, 0.9]];

    /// The entry of the best score and the loss, with `equal` best scores and the noise of an answer.
    pub(crate) fn played(
        entries: &impl Fn(&[f64]) -> Vec<f64>,
        count: usize,
        equal: usize,
        behind: [f64; 2],
        seed: u64,
    ) -> (f64, f64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let best = 0.45;
        let draw = |at: usize| best - if at < equal { 0.0 } else { rng.random_range(behind[0]..behind[1]) };
        let mut scores: Vec<f64> = (0..count).map(draw).collect();
        scores.shuffle(&mut rng);
        let noisy = |entry: f64| entry + rng.random_range(-0.03125..0.03125);
        let entries: Vec<f64> = entries(&scores).into_iter().map(noisy).collect();
        let played = (0..count).fold(0, |best, arm| if entries[arm] > entries[best] { arm } else { best });
        (entries[played], best - scores[played])
    }

    /// Whatever number of scores is equal and best, one of them is played, or one that is nearer than a
    /// quarter of a resolution. With the minimax composite, half of the range is lost in a tenth of the
    /// draws.
    #[test]
    fn ties_are_played() {
        let fitted = Maximum::new().unwrap();
        for (count, equals) in [
            (3, &[1, 2, 3][..]),
            (16, &[1, 2, 4, 8, 15, 16]),
            (64, &[1, 2, 32, 40, 48, 63, 64]),
            (256, &[1, 128, 255, 256]),
        ] {
            for (&equal, behind) in equals.iter().flat_map(|equal| BEHIND.map(|behind| (equal, behind))) {
                for seed in 0..3 {
                    let of = |scores: &[f64]| entries(&fitted, scores, seed);
                    let (entry, loss) = played(&of, count, equal, behind, seed);
                    assert!(loss <= RESOLUTION / 4.0, "{equal} of {count}, {behind:?}: {loss}");
                    assert!((0.3..1.1).contains(&entry), "{equal} of {count}, {behind:?}: {entry}");
                }
            }
        }
        let minimax = minimax();
        let loss = |seed: u64| {
            let of = |scores: &[f64]| entries(&minimax, scores, seed);
            played(&of, 256, 1, BEHIND[3], seed).1
        };
        let lost = (0..40).filter(|&seed| loss(seed) >= 0.5).count();
        assert!(lost >= 4, "{lost}");
    }
}
