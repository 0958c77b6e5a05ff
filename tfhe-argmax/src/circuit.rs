//! The index of each arm, the comparison of each pair, and which arms won all their comparisons.
//!
//! | name | torus |
//! |---|---|
//! | index | F·(u + β·√(z + c₁)), where F·R = ½ − [`GUARD`] for the bound R on a difference of two indices |
//! | z, for its root | [`GUARD`] + G·z, where G ≤ (½ − 2·[`GUARD`])/(c₂ − c₁) and G/F is a fraction of small integers |
//! | comparison | from −δ to δ, where δ = 1/(4(K − 1)) |
//! | entry of an arm | from −e to e, where e is [`ENTRY`]; for two arms the comparison itself |
//!
//! A bootstrap rotates X^−μ·v for a test vector v, where μ is the phase in steps of 1/2N, and its coefficient
//! t is v at μ + t. A comparison is a ramp: v at μ is δ·μ/w for |μ| ≤ w = [`RAMP_STEPS`], and ± δ beyond. Of
//! the difference a − b of two indices, coefficient w of one rotation belongs to arm a, and coefficient N − w
//! to arm b: an arm has δ if it is not behind the other, −δ if it is 2w steps behind or more, and a number
//! between them if they are nearly equal. The user takes the largest entry, which orders such arms too.
//! Signs in place of ramps would order three arms in a circle, by noise, so that none is ahead of all.
//!
//! An arm that is behind none has the sum (K − 1)·δ, one that is 2w steps behind another (K − 3)·δ or less.
//! Less (K − 2)·δ these are δ, and from −(2K − 3)·δ > δ − ½ to −δ: a ramp of half width δ gives the entries.

use crate::params::*;
use crate::{Answer, ENTRY, Error, FLOOD_BITS, Keys, MOST_ARMS, extract, noise};
use ckks::{Ciphertext, Params};
use protocol::Bonus;
use rand::{CryptoRng, Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use tfhe::core_crypto::fft_impl::fft64::crypto::bootstrap::batch_blind_rotate_assign_scratch;
use tfhe::core_crypto::prelude::*;

/// w, the half width of the ramp of a comparison, in steps of 1/2N: three deviations of its noise or more.
/// An arm that is w steps behind another has 0 in their comparison, and one that is not behind has 1.
const RAMP_STEPS: usize = 16;
/// The most inputs that a thread rotates side by side: their accumulators and a part of the key fit into a
/// cache of 1 MiB.
const MOST_TOGETHER: usize = 8;
/// The part of the torus that is left for noise at each end of a range: thirteen deviations of a comparison.
const GUARD: f64 = 1.0 / 64.0;
/// The largest integer that a sample is multiplied by. The noise of the key switch from CKKS is multiplied
/// too.
const MOST_WEIGHT: u32 = 32;

/// An LWE sample under the GLWE secret.
pub type Sample = LweCiphertextOwned<u64>;

/// The public numbers of the indices of a round, u and the bonus of z, and where the scores are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Formula {
    /// K, the number of arms.
    pub arms: usize,
    /// g: coefficient 2a·g is zₐ/r and coefficient (2a + 1)·g is uₐ/r.
    pub gap: usize,
    /// log₂ of r.
    pub log_range: i32,
    /// What z adds to an index.
    pub bonus: Bonus,
    /// The largest z.
    pub most: f64,
    /// R, a bound on the difference of two indices.
    pub range: f64,
}

impl Formula {
    fn check(&self) -> Result<(), Error> {
        let Formula { arms, gap, bonus, most, range, .. } = *self;
        if !(2..=MOST_ARMS).contains(&arms) {
            return Err(Error::Arms { got: arms, most: MOST_ARMS });
        }
        let finite = [bonus.of(0.0), bonus.of(most), most, range].into_iter().all(f64::is_finite);
        let rises = bonus.of(0.0) >= 0.0 && bonus.of(most) >= bonus.of(0.0);
        if !(finite && rises && most > 0.0 && range > 0.0 && gap > 0) {
            let what = "the bonus must be 0 or more, and the largest z, the gap and the bound R positive";
            return Err(Error::Formula(what.into()));
        }
        Ok(())
    }
}

/// The argmax of the indices of a round, for a ring of scores of one degree.
#[derive(Debug, Clone)]
pub struct Circuit {
    formula: Formula,
    /// N'.
    n: usize,
    /// F.
    index: f64,
    /// What the samples of u and of z are multiplied by.
    weights: [u32; 2],
    /// The bonus times F by the phase of z, in steps of 1/2N; none without a width.
    root: Option<GlweCiphertextOwned<u64>>,
}

impl Circuit {
    /// The circuit of a round, for a ring of scores of degree `n`.
    ///
    /// # Errors
    /// [`Error::Arms`], [`Error::Formula`] for numbers outside their ranges; [`Error::Scores`] if the ring
    /// has no place for the scores, or not at multiples of N'/N.
    pub fn new(formula: Formula, n: usize) -> Result<Self, Error> {
        formula.check()?;
        let Formula { arms, gap, bonus, most: largest, range, .. } = formula;
        if !n.is_multiple_of(DEGREE) || !gap.is_multiple_of(n / DEGREE) || 2 * arms * gap > n {
            let what = format!("a ring of degree {n} has no place for {arms} arms with a gap of {gap}");
            return Err(Error::Scores(what));
        }
        let index = (0.5 - GUARD) / range;
        let most = (0.5 - 2.0 * GUARD) / largest;
        // One key switch serves both: samples are F/w·u and F/w·z, the index has w of them, and the root v.
        let fit = |w: u32| (w, (most / index * f64::from(w)).floor().min(f64::from(MOST_WEIGHT)) as u32);
        let ratio = |(w, v): (u32, u32)| f64::from(v) / f64::from(w);
        let fits = (1..=MOST_WEIGHT).map(fit).filter(|(_, v)| *v > 0);
        let Some((w, v)) = fits.reduce(|best, next| if ratio(next) > ratio(best) { next } else { best })
        else {
            let what = format!("z is up to {largest:.3e} and differences of indices to {range:.3e}");
            return Err(Error::Formula(what));
        };
        let slope = index * ratio((w, v));
        let root = (bonus.of(largest) > 0.0).then(|| {
            let value = |step: usize| {
                let phase = (step as f64 + 0.5) / (2 * DEGREE) as f64;
                index * bonus.of((phase - GUARD) / slope)
            };
            vector((0..DEGREE).map(value))
        });
        Ok(Circuit { formula, n, index, weights: [w, v], root })
    }

    /// F: what an index of 1 is on the torus.
    pub fn scale(&self) -> f64 {
        self.index
    }

    /// F/w: what a u, or a z, of 1 is on the torus before it is multiplied by its weight.
    fn unit(&self) -> f64 {
        self.index / f64::from(self.weights[0])
    }

    /// G: what a z of 1 is on the torus as the argument of the root.
    fn slope(&self) -> f64 {
        self.unit() * f64::from(self.weights[1])
    }

    /// Standard deviation of the comparison of two indices whose z is `z`, as a fraction of R: noise of the
    /// key switch from CKKS, of both roots, and of the comparison.
    pub fn deviation(&self, z: f64) -> f64 {
        noise::compared(2.0 * self.index_variance(z)) / (self.index * self.formula.range)
    }

    /// The difference of two indices, as a fraction of R, from which on the better arm has the larger entry
    /// but for three deviations of the noise, whatever the noise of the server.
    pub fn resolution(&self, z: f64) -> f64 {
        let step = 1.0 / (2 * DEGREE) as f64 / (self.index * self.formula.range);
        // What the noise of two entries takes off their difference, in steps of the ramp.
        let flood = 2.0 * (-f64::from(FLOOD_BITS)).exp2() / ENTRY * RAMP_STEPS as f64;
        let entries = RAMP_STEPS as f64 * step * self.entry_deviation();
        flood * step + 3.0 * (self.deviation(z).powi(2) + 2.0 * entries.powi(2)).sqrt()
    }

    /// Standard deviation of the ramp of an entry, as a part of its half width: 0 for two arms.
    fn entry_deviation(&self) -> f64 {
        let others = (self.formula.arms - 1) as f64;
        if self.formula.arms == 2 { 0.0 } else { noise::compared(others * noise::bootstrap()) * 4.0 * others }
    }

    /// Variance of an index whose z is `z`, on the torus.
    pub fn index_variance(&self, z: f64) -> f64 {
        let [of_u, of_z] = self.weights.map(|weight| f64::from(weight).powi(2) * noise::switch(self.n));
        let root = match self.root {
            None => 0.0,
            Some(_) => {
                // The root of the middle of a step stands for all of it.
                let step = (-2.0 * LOG_STEPS as f64).exp2() / 12.0;
                let argument = of_z + noise::reduction() + noise::modulus_switch() + step;
                let steepness = self.index * self.formula.bonus.steepness(z) / self.slope();
                steepness.powi(2) * argument + noise::bootstrap()
            }
        };
        of_u + root
    }

    /// −log₂ of the probability that an arm that is 2w steps behind another has the larger entry, given their
    /// comparisons: from the noise of the ramp of entries, and of the last bootstrap.
    pub fn failure_bits(&self) -> f64 {
        let flood = (-f64::from(FLOOD_BITS)).exp2() / ENTRY;
        // The entries are 2 apart but for twice the flood, in units of ENTRY.
        let apart = 2.0 - 2.0 * flood;
        let last = apart * ENTRY / (2.0 * noise::bootstrap()).sqrt();
        let ramp = match self.formula.arms {
            // One bootstrap gives both entries, with the same noise.
            2 => last / 2f64.sqrt(),
            _ => apart / (2f64.sqrt() * self.entry_deviation()),
        };
        noise::failure_bits(ramp.min(last)) - 1.0
    }

    /// The number of bootstraps of a decision.
    pub fn bootstraps(&self) -> usize {
        let k = self.formula.arms;
        let roots = if self.root.is_some() { k } else { 0 };
        roots + k * (k - 1) / 2 + if k > 2 { k } else { 0 }
    }

    /// The answer to one decision, from its scores: a product of contexts and model, times the gap. Computes
    /// on all threads of the pool that it is called in. Each sample is re-randomised and flooded, and used
    /// once.
    ///
    /// # Errors
    /// [`Error::Scores`] for scores of another ring than keys and circuit are for.
    pub fn decide<R: CryptoRng>(
        &self,
        keys: &Keys,
        params: &Params,
        scores: &Ciphertext,
        rng: &mut R,
    ) -> Result<Answer, Error> {
        let generators: Vec<_> = (0..self.formula.arms).map(|_| ChaCha20Rng::from_rng(rng)).collect();
        let indices = self.indices(keys, params, scores)?;
        let arms = self.entries(keys, &indices);
        let samples = arms.into_par_iter().zip(generators);
        let samples = samples.map(|(arm, rng)| hide(keys, arm, rng)).collect();
        Ok(Answer { id: keys.id(), samples })
    }

    /// The index of each arm, times F, as a sample under the GLWE secret.
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub fn indices(&self, keys: &Keys, params: &Params, scores: &Ciphertext) -> Result<Vec<Sample>, Error> {
        let (found, want) = (params.n(), self.n);
        if found != want || keys.n() != want {
            let switched = keys.n();
            let what = format!("a ring of degree {found}, keys for {switched}, and a circuit for {want}");
            return Err(Error::Scores(what));
        }
        let Formula { arms, gap, log_range, .. } = self.formula;
        // Q/Δ·r·F/w: the coefficients are z/r and u/r at the scale Δ.
        let log = params.log_q(scores.level()) - scores.scale().log2() + f64::from(log_range);
        let factor = self.unit() * log.exp2();
        if !(1e6..1e30).contains(&factor) {
            let what = format!("scores at a scale of 2^{:.1} below a modulus of", scores.scale().log2());
            return Err(Error::Scores(format!("{what} 2^{:.1}", params.log_q(scores.level()))));
        }
        let switched = extract::glwe(keys, params, scores, factor.round() as i128);
        let step = gap / (self.n / DEGREE);
        let take = |at: usize, weight: u32| {
            let mut out = sample_at(&switched, at * step);
            out.as_mut().iter_mut().for_each(|x| *x = x.wrapping_mul(u64::from(weight)));
            out
        };
        let mut indices: Vec<Sample> = (0..arms).map(|arm| take(2 * arm + 1, self.weights[0])).collect();
        if let Some(root) = &self.root {
            let argument = |arm: usize| {
                let mut z = take(2 * arm, self.weights[1]);
                add_constant(&mut z, GUARD);
                z
            };
            let arguments: Vec<Sample> = (0..arms).map(argument).collect();
            let roots = rotate(keys, &arguments, root);
            indices.iter_mut().zip(&roots).for_each(|(u, root)| add_assign(u, &sample_at(root, 0)));
        }
        Ok(indices)
    }

    /// The entry of each arm: [`ENTRY`] for one that is behind no other, −[`ENTRY`] for one that is
    /// 2w steps behind another, without the noise of an answer.
    pub fn entries(&self, keys: &Keys, indices: &[Sample]) -> Vec<Sample> {
        let arms = indices.len();
        let delta = if arms == 2 { ENTRY } else { 1.0 / (4 * (arms - 1)) as f64 };
        let comparison = ramp(delta, RAMP_STEPS as f64);
        let pairs: Vec<(usize, usize)> = (0..arms).flat_map(|a| (a + 1..arms).map(move |b| (a, b))).collect();
        let difference = |&(a, b): &(usize, usize)| {
            let mut out = indices[a].clone();
            out.as_mut().iter_mut().zip(indices[b].as_ref()).for_each(|(x, y)| *x = x.wrapping_sub(*y));
            out
        };
        let differences: Vec<Sample> = pairs.iter().map(difference).collect();
        let compared = rotate(keys, &differences, &comparison);
        let mut sums = vec![sample(); arms];
        for ((a, b), compared) in pairs.into_iter().zip(&compared) {
            add_assign(&mut sums[a], &sample_at(compared, RAMP_STEPS));
            // Coefficient N − w is the negative of that of −w.
            add_assign(&mut sums[b], &sample_at(compared, DEGREE - RAMP_STEPS));
        }
        if arms == 2 {
            return sums;
        }
        let entry = ramp(ENTRY, delta * (2 * DEGREE) as f64);
        sums.iter_mut().for_each(|sum| add_constant(sum, -delta * (arms - 2) as f64));
        rotate(keys, &sums, &entry).iter().map(|arm| sample_at(arm, 0)).collect()
    }
}

/// The test vector that is `most`·μ/`half_width` at phases of at most `half_width` steps in size, and
/// ± `most`
/// at larger ones, up to `half_width` steps below ½.
fn ramp(most: f64, half_width: f64) -> GlweCiphertextOwned<u64> {
    let value = |step: usize| most * (step.min(DEGREE - step) as f64 / half_width).min(1.0);
    vector((0..DEGREE).map(value))
}

/// X^−μ·v for the phase of each input in steps of 1/2N. Each thread takes some of the inputs and rotates them
/// side by side, so that it reads the bootstrapping key once.
fn rotate(keys: &Keys, inputs: &[Sample], v: &GlweCiphertextOwned<u64>) -> Vec<GlweCiphertextOwned<u64>> {
    let most = inputs.len().div_ceil(rayon::current_num_threads()).clamp(1, MOST_TOGETHER);
    let together = |inputs: &[Sample]| rotate_together(keys, inputs, v);
    inputs.par_chunks(most).flat_map(together).collect()
}

fn rotate_together(
    keys: &Keys,
    inputs: &[Sample],
    v: &GlweCiphertextOwned<u64>,
) -> Vec<GlweCiphertextOwned<u64>> {
    let size = LweDimension(LWE_DIMENSION).to_lwe_size();
    let steps = |input: &Sample| {
        let mut reduced = LweCiphertext::new(0u32, size, CiphertextModulus::new_native());
        keyswitch_lwe_ciphertext_with_scalar_change(&keys.reduction, input, &mut reduced);
        lwe_ciphertext_centered_binary_modulus_switch::<_, usize, _>(reduced, CiphertextModulusLog(LOG_STEPS))
    };
    let steps: Vec<_> = inputs.iter().map(steps).collect();
    let (degree, native) = (PolynomialSize(DEGREE), CiphertextModulus::new_native());
    let vectors = v.as_ref().repeat(inputs.len());
    let mut out = GlweCiphertextList::from_container(vectors, GlweSize(2), degree, native);
    let fft = Fft::new(degree);
    let scratch = batch_blind_rotate_assign_scratch::<u64>(
        GlweSize(2),
        degree,
        CiphertextCount(inputs.len()),
        fft.as_view(),
    );
    let mut buffers = ComputationBuffers::new();
    buffers.resize(scratch.unaligned_bytes_required());
    let key = keys.bootstrap.as_view();
    key.batch_blind_rotate_assign(out.as_mut_view(), &steps, fft.as_view(), buffers.stack());
    out.iter().map(|out| GlweCiphertext::from_container(out.as_ref().to_vec(), degree, native)).collect()
}

/// The sample, modulo 2³², after an encryption of zero and a noise that is uniform in ±
/// 2^−[`FLOOD_BITS`].
fn hide(keys: &Keys, mut entry: Sample, mut rng: ChaCha20Rng) -> Vec<u32> {
    let binary: Vec<u64> = (0..DEGREE).map(|_| rng.next_u64() & 1).collect();
    let binary = keys.exact.values(&binary);
    // As [`glwe_noise`]: the sum of a number below 2^(b + 1) and a bit, less 2ᵇ.
    let noise = |rng: &mut ChaCha20Rng| {
        let word = rng.next_u64();
        (word & ((2 << GLWE_NOISE_BITS) - 1)).wrapping_add(word >> 63).wrapping_sub(1 << GLWE_NOISE_BITS)
    };
    let zero = keys.public.iter().flat_map(|key| keys.exact.sum(std::iter::once((key, &binary))));
    let zero = zero.map(|x| x.wrapping_add(noise(&mut rng))).collect();
    let zero = GlweCiphertext::from_container(zero, PolynomialSize(DEGREE), CiphertextModulus::new_native());
    add_assign(&mut entry, &sample_at(&zero, 0));
    let body = entry.get_mut_body().data;
    // 2⁶⁵⁻ᵇ values, centred.
    *body = body.wrapping_add((rng.next_u64() as i64 >> (FLOOD_BITS - 1)) as u64);
    entry.as_ref().iter().map(|x| (x.wrapping_add(1 << 31) >> 32) as u32).collect()
}

/// A number on the torus, in [−½, ½).
fn torus(x: f64) -> u64 {
    (x * 64f64.exp2()) as i128 as u64
}

/// The trivial encryption of a test vector.
fn vector(values: impl Iterator<Item = f64>) -> GlweCiphertextOwned<u64> {
    let mut out = ciphertext();
    out.get_mut_body().as_mut().iter_mut().zip(values).for_each(|(out, value)| *out = torus(value));
    out
}

fn ciphertext() -> GlweCiphertextOwned<u64> {
    GlweCiphertext::new(0, GlweSize(2), PolynomialSize(DEGREE), CiphertextModulus::new_native())
}

/// The trivial encryption of zero.
fn sample() -> Sample {
    LweCiphertext::new(0, LweDimension(DEGREE).to_lwe_size(), CiphertextModulus::new_native())
}

fn sample_at(glwe: &GlweCiphertextOwned<u64>, coefficient: usize) -> Sample {
    let mut out = sample();
    extract_lwe_sample_from_glwe_ciphertext(glwe, &mut out, MonomialDegree(coefficient));
    out
}

fn add_assign(a: &mut Sample, b: &Sample) {
    a.as_mut().iter_mut().zip(b.as_ref()).for_each(|(a, b)| *a = a.wrapping_add(*b));
}

fn add_constant(a: &mut Sample, x: f64) {
    let body = a.get_mut_body().data;
    *body = body.wrapping_add(torus(x));
}
