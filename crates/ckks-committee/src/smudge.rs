use rand::CryptoRng;
use rns::sample::Gaussian;
use std::sync::OnceLock;
use zeroize::Zeroizing;

/// The parameter σ of each term of a sum.
const BASE: f64 = 32.0;
/// log₂ of the ratio of the terms.
const LOG_RATIO: u32 = 4;
/// The most terms, for deviations below 2¹⁰⁵.
const MOST_TERMS: u32 = 26;

/// A wide discrete Gaussian: y₀ + 16·y₁ + … + 16^(k − 1)·y_{k−1} + c·16^(k − 1)·y_k with c from 1 to 16,
/// where each yᵢ is a discrete Gaussian with σ = 32 from a table that is read in constant time; y₀ alone for
/// k = 0.
///
/// Each partial sum is wider than √(ln(2 + 2/ε)/(2π²)) times the step of the next term for ε = 2⁻¹¹⁰, so that
/// the sum is a discrete Gaussian to within that distance (Micciancio and Walter 2017). The table, whose
/// entries have 63 bits and which ends at 10σ, adds 2⁻⁵⁴ a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Smudge {
    /// The weights 16ⁱ, and that of the last term.
    terms: u32,
    factor: u32,
}

impl Smudge {
    /// The narrowest distribution of this family whose standard deviation is at least `deviation`, which must
    /// be below 2¹⁰⁵. It is at most √(5/2) times as wide, or 32.
    pub fn at_least(deviation: f64) -> Self {
        let single = std::iter::once(Smudge { terms: 0, factor: 1 });
        let sums = (1..=MOST_TERMS).flat_map(|terms| (1..=16).map(move |factor| Smudge { terms, factor }));
        let widest = Smudge { terms: MOST_TERMS, factor: 16 };
        single.chain(sums).find(|smudge| smudge.deviation() >= deviation).unwrap_or(widest)
    }

    /// The weights of the terms.
    fn weights(self) -> impl Iterator<Item = i128> {
        let last = i128::from(self.factor) << (LOG_RATIO * self.terms.saturating_sub(1));
        (0..self.terms).map(|i| 1 << (LOG_RATIO * i)).chain([last])
    }

    /// The standard deviation.
    pub fn deviation(self) -> f64 {
        BASE * self.weights().map(|weight| (weight as f64).powi(2)).sum::<f64>().sqrt()
    }

    /// Samples `n` integers, without a branch on their values.
    pub fn sample<R: CryptoRng>(self, n: usize, rng: &mut R) -> Zeroizing<Vec<i128>> {
        static TABLE: OnceLock<Gaussian> = OnceLock::new();
        let table = TABLE.get_or_init(|| Gaussian::new(BASE));
        let mut out = Zeroizing::new(vec![0i128; n]);
        for weight in self.weights() {
            let term = Zeroizing::new(table.sample(n, rng));
            out.iter_mut().zip(term.iter()).for_each(|(sum, y)| *sum += weight * i128::from(*y));
        }
        out
    }

    /// No smudging, as the control of attacks.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Smudge { terms: 0, factor: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    #[test]
    fn widths_are_those_asked_for_or_little_more() {
        for log in 5..=104 {
            for wanted in [1.0, 1.3, 1.9].map(|c| c * f64::from(log).exp2()) {
                let got = Smudge::at_least(wanted).deviation();
                assert!(got >= wanted && got <= wanted * 2.5f64.sqrt(), "{got} for {wanted}");
            }
        }
        assert_eq!(Smudge::at_least(0.0).deviation(), 32.0);
    }

    /// Moments, tails, and residues modulo the step of the last term, which are uniform only if the terms
    /// below it are wide enough. Bounds are six standard deviations of the measure (fixed seeds).
    fn check(smudge: Smudge, n: usize) {
        let sigma = smudge.deviation();
        let samples = smudge.sample(n, &mut ChaCha20Rng::seed_from_u64(1));
        let moment = |p: i32| samples.iter().map(|&y| (y as f64 / sigma).powi(p)).sum::<f64>() / n as f64;
        // E x² = 1, E x⁴ = 3, E x⁶ = 15, E x⁸ = 105 of a Gaussian.
        let near = |p: i32, want: f64, variance: f64| {
            let distance = (moment(p) - want).abs() / (variance / n as f64).sqrt();
            assert!(distance < 6.0, "{smudge:?}: moment {p} is {}", moment(p));
        };
        near(1, 0.0, 1.0);
        near(2, 1.0, 2.0);
        near(3, 0.0, 15.0);
        near(4, 3.0, 96.0);
        let tails = [
            (1.0, 0.317_310_5),
            (2.0, 0.045_500_3),
            (3.0, 0.002_699_8),
            (4.0, 6.334_2e-5),
            (4.5, 6.795_3e-6),
        ];
        for (beyond, share) in tails {
            let got = samples.iter().filter(|y| (**y as f64).abs() > beyond * sigma).count() as f64;
            let want = n as f64 * share;
            // An integer at the bound counts half: 1/σ of the density.
            let granular = n as f64 / sigma * (-beyond * beyond / 2.0).exp();
            assert!(
                (got - want).abs() < 6.0 * want.max(1.0).sqrt() + granular,
                "{smudge:?}: {got} for {want}"
            );
        }
        if smudge.terms > 0 {
            let step = smudge.weights().last().unwrap();
            let mut bins = [0.0f64; 16];
            samples.iter().for_each(|y| bins[(y.rem_euclid(step) * 16 / step) as usize] += 1.0);
            let want = n as f64 / 16.0;
            let filled = bins.iter().filter(|b| **b > 0.0).count();
            if filled == 16 && step % 16 == 0 {
                let chi2: f64 = bins.iter().map(|b| (b - want).powi(2) / want).sum();
                // The 1 − 10⁻⁶ quantile with 15 degrees of freedom.
                assert!(chi2 < 55.0, "{smudge:?}: {chi2}");
            }
        }
    }

    /// Single terms and sums: the widths of the tests of keys, of openings by two, three and eight members,
    /// and far beyond.
    const WIDTHS: [f64; 8] = [32.0, 700.0, 4e7, 1_073_741_824.0, 6.07e9, 9.92e9, 1.21e10, 2.6e33];

    #[test]
    fn samples_follow_the_discrete_gaussian() {
        WIDTHS.iter().for_each(|&width| check(Smudge::at_least(width), 200_000));
    }

    #[test]
    #[ignore = "ten million draws"]
    fn ten_million_samples_follow_the_discrete_gaussian() {
        WIDTHS.iter().for_each(|&width| check(Smudge::at_least(width), 10_000_000));
    }
}
