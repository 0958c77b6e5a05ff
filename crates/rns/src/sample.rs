//! Samplers. All randomness comes from the generator that is passed in, and no sampler branches on a secret
//! value.

use crate::{Basis, Coeff, Modulus, Ntt, Poly, simd};
use rand::CryptoRng;
use std::sync::OnceLock;
use zeroize::Zeroizing;

/// The parameter σ of the discrete Gaussian error distribution, as the security tables assume it.
pub const SIGMA: f64 = 3.2;
/// The largest magnitude of an error: 10σ. The tail beyond it has probability below 2⁻⁷⁰.
pub const ERROR_BOUND: i64 = 32;

/// The seed of a uniform polynomial.
pub type Seed = [u8; 32];

/// Expands `seed` to a uniform polynomial over `basis`. Limb i comes from stream `index[i]`: the extendable
/// output of BLAKE3, keyed with the seed, on the index as eight little-endian bytes. The stream is read as
/// little-endian words of as many bytes as the prime has. Each word is masked to the prime's size in bits,
/// and words not below the prime are rejected.
pub fn uniform_from_seed(basis: &Basis, index: &[usize], seed: &Seed) -> Poly<Ntt> {
    let mut out = Poly::scratch(basis.n(), basis.len());
    out.for_each_limb(|i, limb| uniform_limb(basis.modulus(i), index[i], seed, limb));
    out
}

/// Expands one limb of [`uniform_from_seed`] from stream `index` of `seed`.
pub fn uniform_limb(m: &Modulus, index: usize, seed: &Seed, limb: &mut [u64]) {
    /// Words that are drawn at a time.
    const DRAWN: usize = 1 << 10;
    let width = m.bits().div_ceil(8) as usize;
    let mut stream = blake3::Hasher::new_keyed(seed).update(&(index as u64).to_le_bytes()).finalize_xof();
    let (mut drawn, mut filled) = ([0u8; 8 * DRAWN], 0);
    while filled < limb.len() {
        let drawn = &mut drawn[..DRAWN * width];
        stream.fill(drawn);
        filled += simd::take_residues(m.value(), &mut limb[filled..], drawn);
    }
}

/// Samples a uniform polynomial over `basis`.
pub fn uniform<R: CryptoRng>(basis: &Basis, rng: &mut R) -> Poly<Ntt> {
    let index: Vec<usize> = (0..basis.len()).collect();
    uniform_from_seed(basis, &index, &seed(rng))
}

/// Samples a seed.
pub fn seed<R: CryptoRng>(rng: &mut R) -> Seed {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    seed
}

/// Samples `n` coefficients uniformly from {−1, 0, 1}.
pub fn ternary<R: CryptoRng>(n: usize, rng: &mut R) -> Vec<i64> {
    let mut out = Vec::with_capacity(n);
    while out.len() < n {
        let mut word = rng.next_u64();
        for _ in 0..32 {
            // Two bits a coefficient. The value 3 is rejected; rejections are independent of the accepted
            // values.
            let trit = (word & 3) as i64;
            if trit < 3 && out.len() < n {
                out.push(trit - 1);
            }
            word >>= 2;
        }
    }
    out
}

/// The discrete Gaussian on the integers, up to ten standard deviations. The tail beyond them has probability
/// below 2⁻⁷⁰.
#[derive(Debug, Clone)]
pub struct Gaussian {
    /// Entry k is P(|x| <= k) in units of 2⁻⁶³.
    cumulative: Vec<u64>,
}

impl Gaussian {
    /// The distribution with parameter `sigma`, at least 1.
    pub fn new(sigma: f64) -> Self {
        let bound = (10.0 * sigma) as i64;
        let weight = |k: i64| (-((k * k) as f64) / (2.0 * sigma * sigma)).exp();
        let total: f64 = (-bound..=bound).map(weight).sum();
        let mut sum = weight(0) / total;
        let entry = |k| {
            let entry = (sum * (1u64 << 63) as f64) as u64;
            sum += 2.0 * weight(k + 1) / total;
            entry
        };
        Gaussian { cumulative: (0..bound).map(entry).collect() }
    }

    /// Samples `n` integers by inversion: 63 random bits are compared with every entry of the cumulative
    /// table, and one more bit gives the sign.
    pub fn sample<R: CryptoRng>(&self, n: usize, rng: &mut R) -> Vec<i64> {
        let words: Zeroizing<Vec<u64>> = Zeroizing::new((0..n).map(|_| rng.next_u64()).collect());
        let mut out = vec![0; n];
        simd::signed_ranks_into(&mut out, &words, &self.cumulative);
        out
    }
}

/// Samples `n` coefficients from the discrete [`Gaussian`] with σ = 3.2.
pub fn error<R: CryptoRng>(n: usize, rng: &mut R) -> Vec<i64> {
    static ERRORS: OnceLock<Gaussian> = OnceLock::new();
    ERRORS.get_or_init(|| Gaussian::new(SIGMA)).sample(n, rng)
}

/// Samples [`error`] as a polynomial over `basis`. The caller must zero it after use.
pub fn error_poly<R: CryptoRng>(basis: &Basis, rng: &mut R) -> Poly<Coeff> {
    Poly::from_signed(basis, &Zeroizing::new(error(basis.n(), rng)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    /// Chi-square against the exact distribution; false alarm below 1e-6 (fixed seed).
    #[test]
    fn errors_follow_the_discrete_gaussian() {
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        let n = 1 << 20;
        let mut counts = std::collections::BTreeMap::<i64, f64>::new();
        for x in error(n, &mut rng) {
            assert!(x.abs() <= ERROR_BOUND);
            *counts.entry(x).or_default() += 1.0;
        }
        let weight = |k: i64| (-((k * k) as f64) / (2.0 * SIGMA * SIGMA)).exp();
        let total: f64 = (-ERROR_BOUND..=ERROR_BOUND).map(weight).sum();
        let mut chi2 = 0.0;
        for k in -12..=12 {
            let expected = n as f64 * weight(k) / total;
            chi2 += (counts.get(&k).copied().unwrap_or(0.0) - expected).powi(2) / expected;
        }
        // 25 cells: the 1 - 1e-6 quantile of chi-square with 25 degrees of freedom is 71.
        assert!(chi2 < 71.0, "{chi2}");
    }

    #[test]
    fn ternary_is_balanced() {
        let mut rng = ChaCha20Rng::seed_from_u64(8);
        let n = 300_000;
        let s = ternary(n, &mut rng);
        assert_eq!(s.len(), n);
        for v in -1..=1 {
            let count = s.iter().filter(|&&x| x == v).count() as f64;
            // Six standard deviations.
            assert!((count - n as f64 / 3.0).abs() < 6.0 * (n as f64 * 2.0 / 9.0).sqrt());
        }
    }
}
