//! Openings of a few linear forms of the coefficients of a message, and of nothing else.
//!
//! ```text
//! member j    ⟨w, λⱼσⱼ·c₁⟩ + yⱼ + ζⱼ   modulo q, for each form w: smudging yⱼ hides the error of the message
//! receiver    ⟨w, c₀⟩ + the sum of the shares = ⟨w, m⟩ + Σ yⱼ
//! ```

use crate::transfer::Lift;
use crate::{ActiveSet, Error};
use ckks::{Ciphertext, Params, SlotNumbers};
use rns::sample::Seed;
use rns::{Coeff, Poly};
use std::f64::consts::PI;

/// The most bits of the modulus of an opening.
const MAX_BITS: u32 = 126;
/// The largest weight of [`Forms::random`].
const MAX_RANDOM: i32 = 127;
/// The standard deviation of the weights of [`Forms::random`]: √((255² − 1)/12).
pub const RANDOM_WEIGHT: f64 = 73.612;

/// Linear forms ⟨w, m⟩ = Σₖ wₖ·mₖ of the N coefficients of a message, with small integer weights.
#[derive(Debug, Clone)]
pub struct Forms {
    params: Params,
    level: usize,
    weights: Weights,
}

#[derive(Debug, Clone)]
enum Weights {
    /// Those of each form.
    Given(Vec<Vec<i32>>),
    /// Weight k of form f is root k·`powers[f]` modulo 2N, so that thousands of forms take no memory.
    Slots { roots: Vec<i32>, powers: Vec<usize> },
    /// Those of the coefficients 0, `step`, …, of which there are `count`, form after form, and 0 at all
    /// others.
    Spaced { step: usize, count: usize, weights: Vec<i32> },
    /// Form f is one coefficient.
    Coefficients(Vec<usize>),
}

impl Forms {
    /// Forms with these weights of the coefficients of messages at `level`.
    ///
    /// # Errors
    /// [`Error::Foreign`] unless each form has N weights; [`Error::Modulus`] for a modulus above 126 bits.
    pub fn new(params: &Params, level: usize, weights: Vec<Vec<i32>>) -> Result<Self, Error> {
        if weights.iter().any(|w| w.len() != params.n()) {
            return Err(Error::Foreign("a linear form has not one weight for each coefficient"));
        }
        Self::with(params, level, Weights::Given(weights))
    }

    fn with(params: &Params, level: usize, weights: Weights) -> Result<Self, Error> {
        check_modulus(params, level)?;
        Ok(Forms { params: params.clone(), level, weights })
    }

    /// The real parts of these slots of messages at `level`, each times 2^`bits`: slot j is Σₖ mₖ·ζ^(k·5ʲ)
    /// with ζ = e^(πi/N). Weights are rounded, so that a form is off by Σₖ δₖ·mₖ with |δₖ| ≤ ½.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn real_slots(params: &Params, level: usize, slots: &[usize], bits: u32) -> Result<Self, Error> {
        let (n, two_n) = (params.n(), 2 * params.n());
        let scale = f64::from(bits).exp2();
        let root = |i: usize| (scale * (PI * i as f64 / n as f64).cos()).round() as i32;
        let power = |&slot: &usize| (0..slot % n).fold(1, |power, _| power * 5 % two_n);
        let (roots, powers) = ((0..two_n).map(root).collect(), slots.iter().map(power).collect());
        Self::with(params, level, Weights::Slots { roots, powers })
    }

    /// `count` forms whose weights are uniform in [−127, 127] and follow from `seed`, of messages at any
    /// level ([`all_below`]).
    pub fn random(params: &Params, level: usize, count: usize, seed: &Seed) -> Self {
        let mut stream = blake3::Hasher::new_keyed(seed).finalize_xof();
        let mut bytes = vec![0u8; params.n()];
        let mut form = || {
            let mut weights = Vec::with_capacity(params.n());
            while weights.len() < params.n() {
                stream.fill(&mut bytes);
                let drawn = bytes.iter().map(|b| i32::from(*b as i8)).filter(|w| *w >= -MAX_RANDOM);
                weights.extend(drawn.take(params.n() - weights.len()));
            }
            weights
        };
        let weights = Weights::Given((0..count).map(|_| form()).collect());
        Forms { params: params.clone(), level, weights }
    }

    /// `count` forms of messages at `level` whose weights at the first `coefficients` are uniform in
    /// [−2¹³, 2¹³) and follow from `seed`. All other weights are 0.
    ///
    /// # Errors
    /// [`Error::Foreign`] for more coefficients than N; [`Error::Modulus`] for a modulus above 126 bits.
    pub fn of_first(
        params: &Params,
        level: usize,
        count: usize,
        coefficients: usize,
        seed: &Seed,
    ) -> Result<Self, Error> {
        if !(1..=params.n()).contains(&coefficients) {
            return Err(Error::Foreign("a linear form of no coefficients, or of more than there are"));
        }
        let mut bytes = vec![0u8; 2 * count * coefficients];
        blake3::Hasher::new_keyed(seed).finalize_xof().fill(&mut bytes);
        // The upper bits of a word with its sign.
        let weight = |two: &[u8; 2]| i32::from(i16::from_le_bytes(*two) >> 2);
        let weights = bytes.as_chunks().0.iter().map(weight).collect();
        Self::with(params, level, Weights::Spaced { step: 1, count: coefficients, weights })
    }

    /// These coefficients of messages at `level`.
    ///
    /// # Errors
    /// [`Error::Foreign`] for one beyond N; [`Error::Modulus`] for a modulus above 126 bits.
    pub fn coefficients(params: &Params, level: usize, at: Vec<usize>) -> Result<Self, Error> {
        match at.iter().all(|&k| k < params.n()) {
            true => Self::with(params, level, Weights::Coefficients(at)),
            false => Err(Error::Foreign("a coefficient that no message has")),
        }
    }

    /// The forms of the numbers of a model ([`SlotNumbers::weights`]).
    ///
    /// # Errors
    /// [`Error::Modulus`] for a modulus above 126 bits.
    pub fn numbers(numbers: &SlotNumbers) -> Result<Self, Error> {
        let (params, step) = (numbers.params(), numbers.step());
        let weights = Weights::Spaced { step, count: params.n() / step, weights: numbers.weights() };
        Self::with(params, numbers.level(), weights)
    }

    /// ⟨w, c₀⟩ of each form: all of it that members need not compute.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a ciphertext at another level.
    pub fn values(&self, ct: &Ciphertext) -> Result<Vec<Vec<u64>>, Error> {
        let basis = self.params.q_basis(self.level);
        if ct.level() != self.level || ct.c0().n() != basis.n() {
            return Err(Error::Foreign("the ciphertext is not at the level of the opening"));
        }
        Ok(self.apply(&ct.c0().clone().into_coeff(basis)))
    }

    /// The parameters of the messages.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The level of the messages.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The number of forms.
    #[allow(clippy::len_without_is_empty, reason = "an opening of nothing is of no use")]
    pub fn len(&self) -> usize {
        match &self.weights {
            Weights::Given(forms) => forms.len(),
            Weights::Slots { powers, .. } => powers.len(),
            Weights::Spaced { count, weights, .. } => weights.len() / count,
            Weights::Coefficients(at) => at.len(),
        }
    }

    /// The forms of `poly`, each by its residues modulo the primes up to the level.
    pub fn apply(&self, poly: &Poly<Coeff>) -> Vec<Vec<u64>> {
        let basis = self.params.q_basis(self.level);
        let form = |f: usize, i: usize| basis.modulus(i).reduce_i128(self.weights.sum(f, poly.limb(i)));
        (0..self.len()).map(|f| (0..=self.level).map(|i| form(f, i)).collect()).collect()
    }
}

impl Weights {
    /// Σₖ wₖ·xₖ of form f. Each term is below 2³¹·2⁵² in size, and there are at most 2¹⁶.
    fn sum(&self, f: usize, limb: &[u64]) -> i128 {
        let term = |weight: i32, x: &u64| i128::from(weight) * i128::from(*x);
        match self {
            Weights::Given(forms) => forms[f].iter().zip(limb).map(|(w, x)| term(*w, x)).sum(),
            Weights::Slots { roots, powers } => {
                // There are 2N roots, a power of two.
                let (power, last) = (powers[f], roots.len() - 1);
                limb.iter().enumerate().map(|(k, x)| term(roots[(k * power) & last], x)).sum()
            }
            Weights::Spaced { step, count, weights } => {
                let read = limb.iter().step_by(*step).take(*count);
                weights[f * count..].iter().zip(read).map(|(w, x)| term(*w, x)).sum()
            }
            Weights::Coefficients(at) => i128::from(limb[at[f]]),
        }
    }
}

/// The share of one member of an opening: for each form, its residues modulo the primes up to the level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpeningShare(pub Vec<Vec<u64>>);

/// The forms of a message with the smudging of all members, as integers in (−q/2, q/2]: `own` is ⟨w, c₀⟩ of
/// each ([`Forms::values`]) at `level`, and `shares` are those of all members of `set`.
///
/// # Errors
/// [`Error::ShareCount`]; [`Error::Foreign`] for a share of another shape, or a residue that is not below its
/// prime; [`Error::Modulus`] for a modulus above 126 bits.
pub fn open(
    params: &Params,
    level: usize,
    set: ActiveSet,
    own: &[Vec<u64>],
    shares: &[OpeningShare],
) -> Result<Vec<i128>, Error> {
    check_modulus(params, level)?;
    let lift = Lift::new(params, level);
    Ok(totals(params, level, set, own, shares)?.iter().map(|sum| lift.centred(sum.iter().copied())).collect())
}

/// Whether each form of a message with the smudging of all members is an integer of size `bound` or less, of
/// which all residues are those: what [`open`] takes, at any level.
///
/// # Errors
/// As [`open`], but for the modulus.
pub fn all_below(
    params: &Params,
    level: usize,
    set: ActiveSet,
    own: &[Vec<u64>],
    shares: &[OpeningShare],
    bound: i128,
) -> Result<bool, Error> {
    let low = (0..=level).take_while(|&low| check_modulus(params, low).is_ok()).last().unwrap_or(0);
    let (basis, lift) = (params.q_basis(level), Lift::new(params, low));
    let small = |residues: &Vec<u64>| {
        let value = lift.centred(residues[..=low].iter().copied());
        let same = |(i, x): (usize, &u64)| basis.modulus(i).reduce_i128(value) == *x;
        value.abs() <= bound && residues.iter().enumerate().all(same)
    };
    Ok(totals(params, level, set, own, shares)?.iter().all(small))
}

/// The residues of each form: ⟨w, c₀⟩ and the shares of all members.
fn totals(
    params: &Params,
    level: usize,
    set: ActiveSet,
    own: &[Vec<u64>],
    shares: &[OpeningShare],
) -> Result<Vec<Vec<u64>>, Error> {
    if shares.len() != set.len() {
        return Err(Error::ShareCount { got: shares.len(), want: set.len() });
    }
    let basis = params.q_basis(level);
    let below = |residues: &Vec<u64>| {
        residues.len() == basis.len() && residues.iter().zip(basis.primes()).all(|(x, q)| *x < q)
    };
    let fits = |residues: &[Vec<u64>]| residues.len() == own.len() && residues.iter().all(below);
    if !fits(own) || !shares.iter().all(|share| fits(&share.0)) {
        return Err(Error::Foreign("a share has not one residue for each form and prime"));
    }
    let total = |(f, own): (usize, &Vec<u64>)| {
        let residue = |i: usize| {
            let m = basis.modulus(i);
            shares.iter().fold(own[i], |sum, share| m.add(sum, share.0[f][i]))
        };
        (0..=level).map(residue).collect()
    };
    Ok(own.iter().enumerate().map(total).collect())
}

fn check_modulus(params: &Params, level: usize) -> Result<(), Error> {
    let got = params.log_q(level);
    if got > f64::from(MAX_BITS) { Err(Error::Modulus { got, max: MAX_BITS }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights of the first coefficients are uniform, are 0 beyond, and make the sums that they say.
    #[test]
    fn weights_of_the_first_coefficients_are_uniform() {
        let params = ckks::TOY_LOGN11_SCORES.validate().unwrap();
        let (n, first) = (params.n(), 500);
        let forms = Forms::of_first(&params, 0, 16, first, &[7; 32]).unwrap();
        assert_eq!(forms.len(), 16);
        let unit = |k: usize| (0..n).map(|i| u64::from(i == k)).collect::<Vec<_>>();
        let weights: Vec<Vec<i128>> =
            (0..16).map(|f| (0..n).map(|k| forms.weights.sum(f, &unit(k))).collect()).collect();
        assert!(weights.iter().all(|w| w[first..].iter().all(|w| *w == 0)));
        let mut quarters = [0; 4];
        weights.iter().flat_map(|w| &w[..first]).for_each(|w| quarters[((w + 8192) / 4096) as usize] += 1);
        // Six standard deviations of √(3/16·8000).
        assert!(quarters.iter().all(|count: &i32| (count - 2000).abs() < 233), "{quarters:?}");
        let message: Vec<u64> = (0..n as u64).map(|k| (1 << 59) + k * k * 977).collect();
        for (f, weights) in weights.iter().enumerate() {
            let want: i128 = weights.iter().zip(&message).map(|(w, m)| w * i128::from(*m)).sum();
            assert_eq!(forms.weights.sum(f, &message), want);
        }
        assert!(Forms::of_first(&params, 0, 1, n + 1, &[7; 32]).is_err());
        assert!(Forms::of_first(&params, 0, 1, 0, &[7; 32]).is_err());
    }

    /// A form is Σₖ wₖ·mₖ with the rounded weights of the definition, for each single coefficient.
    #[test]
    fn forms_are_the_slots_that_they_name() {
        let params = ckks::TOY_LOGN11_SCORES.validate().unwrap();
        let (n, slots, bits) = (params.n(), [0, 1, 5, 17, 700, 1023], 10);
        let forms = Forms::real_slots(&params, 0, &slots, bits).unwrap();
        assert_eq!(forms.len(), slots.len());
        for (f, slot) in slots.into_iter().enumerate() {
            let power = (0..slot).fold(1, |power, _| power * 5 % (2 * n));
            for k in 0..n {
                let want = 1024.0 * (PI * (power * k % (2 * n)) as f64 / n as f64).cos();
                let mut unit = vec![0; n];
                unit[k] = 1;
                assert_eq!(forms.weights.sum(f, &unit) as f64, want.round(), "slot {slot}, weight {k}");
            }
        }
    }
}
