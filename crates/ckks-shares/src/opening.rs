//! Openings of a few linear forms of the coefficients of a message, and of nothing else.
//!
//! ```text
//! member j    ⟨w, λⱼσⱼ·c₁⟩ + yⱼ + ζⱼ   modulo q, for each form w: smudging yⱼ hides the error of the message
//! receiver    ⟨w, c₀⟩ + the sum of the shares = ⟨w, m⟩ + Σ yⱼ
//! ```

use crate::transfer::Lift;
use crate::{ActiveSet, Error};
use ckks::{Ciphertext, Params};
use rns::{Coeff, Poly};
use std::f64::consts::PI;

/// The most bits of the modulus of an opening.
const MAX_BITS: u32 = 126;

/// Linear forms ⟨w, m⟩ = Σₖ wₖ·mₖ of the N coefficients of a message, with small integer weights.
#[derive(Debug, Clone)]
pub struct Forms {
    params: Params,
    level: usize,
    weights: Vec<Vec<i32>>,
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
        let roots: Vec<i32> = (0..two_n).map(root).collect();
        let weights = |&slot: &usize| {
            let power = (0..slot % n).fold(1, |power, _| power * 5 % two_n);
            (0..n).map(|k| roots[power * k % two_n]).collect()
        };
        Self::new(params, level, slots.iter().map(weights).collect())
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
        self.weights.len()
    }

    /// The forms of `poly`, each by its residues modulo the primes up to the level.
    pub fn apply(&self, poly: &Poly<Coeff>) -> Vec<Vec<u64>> {
        let basis = self.params.q_basis(self.level);
        let form = |weights: &Vec<i32>, i: usize| {
            let m = basis.modulus(i);
            let terms = weights.iter().zip(poly.limb(i));
            // Each term is below 2³¹·2⁵² in size, and there are at most 2¹⁶.
            let sum: i128 = terms.map(|(w, x)| i128::from(*w) * i128::from(*x)).sum();
            m.reduce_i128(sum)
        };
        self.weights.iter().map(|w| (0..=self.level).map(|i| form(w, i)).collect()).collect()
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
    if shares.len() != set.len() {
        return Err(Error::ShareCount { got: shares.len(), want: set.len() });
    }
    check_modulus(params, level)?;
    let basis = params.q_basis(level);
    let below = |residues: &Vec<u64>| {
        residues.len() == basis.len() && residues.iter().zip(basis.primes()).all(|(x, q)| *x < q)
    };
    let fits = |residues: &[Vec<u64>]| residues.len() == own.len() && residues.iter().all(below);
    if !fits(own) || !shares.iter().all(|share| fits(&share.0)) {
        return Err(Error::Foreign("a share has not one residue for each form and prime"));
    }
    let lift = Lift::new(params, level);
    let total = |(f, own): (usize, &Vec<u64>)| {
        let residue = |i: usize| {
            let m = basis.modulus(i);
            shares.iter().fold(own[i], |sum, share| m.add(sum, share.0[f][i]))
        };
        lift.centred((0..=level).map(residue))
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

    /// Weights from a table are those of the definition.
    #[test]
    fn forms_are_the_slots_that_they_name() {
        let params = ckks::TOY_LOGN11_SCORES.validate().unwrap();
        let (n, slots, bits) = (params.n(), [0, 1, 5, 17, 700, 1023], 10);
        let forms = Forms::real_slots(&params, 0, &slots, bits).unwrap();
        for (weights, slot) in forms.weights.iter().zip(slots) {
            let power = (0..slot).fold(1, |power, _| power * 5 % (2 * n));
            for (k, weight) in weights.iter().enumerate() {
                let want = 1024.0 * (PI * (power * k % (2 * n)) as f64 / n as f64).cos();
                assert_eq!(f64::from(*weight), want.round(), "slot {slot}, weight {k}");
            }
        }
    }
}
