//! Exchanges between two rings with a holder of both secret keys, who learns only masked values.
//!
//! [`Places`]: a public linear map of the coefficients of a ciphertext of the small ring becomes the slots of
//! a fresh ciphertext of the large ring at a high level, by an [`Exchange`]. [`SlotsToCoefficients`]: slots
//! of a ciphertext of the large ring become coefficients of a fresh ciphertext of the small ring.

use crate::mask::{mask_coefficients, uniform_mask};
use crate::wide::from_wide;
use crate::{
    Ciphertext, Error, Exchange, MapTerm, MaskSeed, Op, Params, Plaintext, Side, SumTerm, WideEncoder,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most factors of a raise.
pub const RAISE_FACTORS: usize = 3;

/// The linear map of a raise: sums of coefficients of the small ring, and the slots that they become.
#[derive(Debug, Clone, PartialEq)]
pub struct Places {
    /// Each sum names a coefficient, or none, for each factor of the raise.
    pub sums: Vec<[Option<usize>; RAISE_FACTORS]>,
    /// For each slot two sums, each of which may be missing.
    pub slots: Vec<[Option<usize>; 2]>,
    /// Whether a slot is the first of its sums less the second. It has them as real and imaginary part
    /// otherwise.
    pub differences: bool,
}

impl Places {
    /// The places of single coefficients, as real and imaginary part of each slot, times the first factor.
    pub fn parts(coefficients: &[[Option<usize>; 2]]) -> Self {
        let named: BTreeSet<usize> = coefficients.iter().flatten().flatten().copied().collect();
        let number: BTreeMap<usize, usize> = named.iter().copied().zip(0..).collect();
        let slot = |parts: &[Option<usize>; 2]| parts.map(|part| part.map(|k| number[&k]));
        Places {
            sums: named.into_iter().map(|k| [Some(k), None, None]).collect(),
            slots: coefficients.iter().map(slot).collect(),
            differences: false,
        }
    }

    /// The exchange of values at the scale 2^`log_scale` in the ring of `small` for what they become at
    /// `level` of `large`.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless there is an entry for every slot of `large`; [`Error::ScaleMismatch`] if
    /// the scale of `level` exceeds 2^`log_scale`; as [`Exchange::of_sums`].
    pub fn exchange(
        &self,
        small: &Params,
        large: &Params,
        log_scale: u32,
        level: usize,
    ) -> Result<Exchange, Error> {
        let (got, max) = (self.slots.len(), large.max_slots());
        if got != max {
            return Err(Error::SlotCount { op: Op::Encode, got, max });
        }
        let (from, to) = (Side::coefficients(small, 1, log_scale), Side::slots(large, 1, level)?);
        if from.scale < to.scale {
            let [left, right] = [from.scale, to.scale].map(f64::log2);
            return Err(Error::ScaleMismatch { op: Op::Encode, left, right });
        }
        let mut terms = Vec::new();
        for (to, sum) in self.sums.iter().enumerate() {
            let named = sum.iter().enumerate().filter_map(|(group, from)| Some((group, (*from)?)));
            terms.extend(named.map(|(group, from)| MapTerm { from, to, weight: 1.0, group }));
        }
        let mut outputs = Vec::new();
        for (slot, named) in self.slots.iter().enumerate() {
            let named = named.iter().enumerate().filter_map(|(part, sum)| Some((part, (*sum)?)));
            outputs.extend(named.map(|(part, sum)| match self.differences {
                true => SumTerm { sum, to: 2 * slot, negative: part == 1 },
                false => SumTerm { sum, to: 2 * slot + part, negative: false },
            }));
        }
        Exchange::of_sums(from, to, self.sums.len(), terms, outputs)
    }
}

/// Slots of a masked ciphertext of the large ring that become coefficients of the small ring, each times a
/// public factor.
///
/// | who | does |
/// |---|---|
/// | server | masks a message of few slots by [`crate::mask_assign`], or one of all slots by [`Self::mask_assign`], whose mask is uniform modulo q |
/// | key holder | decrypts it, computes the slots ([`Self::encode`]), encrypts them |
/// | server | subtracts what the mask becomes in the same way ([`Self::unmask_assign`], or [`Self::encode_mask`]) |
///
/// Under a uniform mask a value v of a coefficient comes back wrong by a multiple of q with probability
/// |v|/q, and then all slots do.
///
/// It is no [`Exchange`], because the q of a masked model has three primes, more bits than [`MAX_WIDE_BITS`],
/// which is all that the transform of an exchange takes. That of a model has few slots, and takes them.
///
/// [`MAX_WIDE_BITS`]: crate::MAX_WIDE_BITS
#[derive(Debug, Clone)]
pub struct SlotsToCoefficients {
    large: Params,
    small: Params,
    encoder: Arc<WideEncoder>,
    level: usize,
    /// The scale of the slots.
    scale: f64,
    /// Level and scale of the coefficients.
    to: (usize, f64),
    /// Slot and factor of each term.
    terms: Vec<(usize, f64)>,
    /// The coefficient that each term is added to.
    coefficients: Vec<usize>,
}

/// A slot whose real part, times `factor`, is added to a coefficient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// The slot of the large ring.
    pub slot: usize,
    /// The coefficient of the small ring.
    pub coefficient: usize,
    /// The factor, at most 1 in size after the change of scale.
    pub factor: f64,
}

impl SlotsToCoefficients {
    /// The exchange of messages with `slots` values, a power of two, masked at `level` of `large`. Their
    /// scale is `scale`, and that of the coefficients is the canonical one of the top level of `small`.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless `slots` is a power of two from 2 to N/2 and every term names one;
    /// [`Error::CoefficientCount`] for a coefficient that is not below N of `small`; [`Error::OutOfLevels`]
    /// for a level above the top; [`Error::ValueRange`] for a factor that exceeds 1.
    pub fn new(
        large: &Params,
        small: &Params,
        level: usize,
        slots: usize,
        scale: f64,
        terms: &[Term],
    ) -> Result<Self, Error> {
        large.check_level(Op::Encode, level)?;
        let max = large.max_slots();
        let outside = terms.iter().map(|term| term.slot).find(|&slot| slot >= slots);
        if !slots.is_power_of_two() || !(2..=max).contains(&slots) || outside.is_some() {
            return Err(Error::SlotCount {
                op: Op::Encode,
                got: outside.map_or(slots, |slot| slot + 1),
                max,
            });
        }
        if let Some(term) = terms.iter().find(|term| term.coefficient >= small.n()) {
            return Err(Error::CoefficientCount { got: term.coefficient + 1, max: small.n() });
        }
        let coefficients = terms.iter().map(|term| term.coefficient).collect();
        let terms: Vec<_> = terms.iter().map(|term| (term.slot, term.factor)).collect();
        let encoder = Arc::new(WideEncoder::new(slots.ilog2() + 1));
        let (large, small, top) = (large.clone(), small.clone(), small.max_level());
        let to = (top, small.scale(top));
        SlotsToCoefficients { large, small, encoder, level, scale, to, terms, coefficients }
            .into_level(top, to.1)
    }

    /// The same exchange with coefficients at another level and scale of the small ring.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] for a level above the top; [`Error::ValueRange`] for a factor that exceeds 1.
    pub fn into_level(self, level: usize, scale: f64) -> Result<Self, Error> {
        self.small.check_level(Op::Encode, level)?;
        let exchange = SlotsToCoefficients { to: (level, scale), ..self };
        let change = exchange.change();
        let too_large = |factor: &f64| (factor * change).is_nan() || (factor * change).abs() > 1.0;
        if let Some(factor) = exchange.terms.iter().map(|term| term.1).find(too_large) {
            return Err(Error::ValueRange { op: Op::Encode, scale: (factor * change).abs().log2() });
        }
        Ok(exchange)
    }

    /// The change of scale.
    fn change(&self) -> f64 {
        self.to.1 / self.scale
    }

    /// The parameters of the large ring.
    pub fn large(&self) -> &Params {
        &self.large
    }

    /// The parameters of the small ring.
    pub fn small(&self) -> &Params {
        &self.small
    }

    /// The level of the masked message.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Level and scale of the coefficients.
    pub fn to(&self) -> (usize, f64) {
        self.to
    }

    /// Coefficients that [`Self::encode`] takes are below 2 to this power in size.
    pub fn coefficient_bits(&self) -> u32 {
        self.encoder.coefficient_bits()
    }

    /// The coefficients of the large ring that hold the message, in ascending order.
    pub fn reads(&self) -> Vec<usize> {
        (0..self.large.n()).step_by(self.large.n() / self.encoder.degree()).collect()
    }

    /// Refuses what is not at the level of a masked message.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`].
    pub fn check(&self, masked: &Ciphertext) -> Result<(), Error> {
        same((masked.level, masked.scale), (self.level, masked.scale))
    }

    /// The plaintext of the small ring from the coefficients of a message of the large one.
    ///
    /// # Errors
    /// [`Error::CoefficientCount`] unless there are N of the large ring; [`Error::ValueRange`] if one is not
    /// below 2 to [`Self::coefficient_bits`] in size.
    pub fn encode(&self, coefficients: &[i128]) -> Result<Plaintext, Error> {
        if coefficients.len() != self.large.n() {
            return Err(Error::CoefficientCount { got: coefficients.len(), max: self.large.n() });
        }
        // A message of few slots is a polynomial in a power of X. The others hold noise alone.
        let stride = self.large.n() / self.encoder.degree();
        let own: zeroize::Zeroizing<Vec<i128>> =
            coefficients.iter().step_by(stride).copied().collect::<Vec<_>>().into();
        let change = self.change();
        let terms: Vec<_> = self.terms.iter().map(|&(slot, factor)| (slot, factor * change)).collect();
        let values = zeroize::Zeroizing::new(self.encoder.real_slots(&own, &terms)?);
        let (level, scale) = self.to;
        let basis = self.small.q_basis(level);
        let mut poly = rns::Poly::<rns::Coeff>::zero(self.small.n(), basis.len());
        poly.for_each_limb(|i, limb| {
            let m = basis.modulus(i);
            for (&at, &value) in self.coefficients.iter().zip(values.iter()) {
                limb[at] = m.add(limb[at], m.reduce_i128(value));
            }
        });
        Ok(Plaintext { poly: poly.into_ntt(basis), level, scale })
    }

    /// Adds the mask that `seed` stands for, which is uniform modulo q, to every coefficient of a message.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn mask_assign(&self, message: &mut Ciphertext, seed: &MaskSeed) -> Result<(), Error> {
        self.check(message)?;
        let (basis, mask) = (self.large.q_basis(self.level), uniform_mask(&self.large, self.level, seed));
        message.c0.add_assign(basis, &from_wide(basis, &mask, 1).into_ntt(basis));
        Ok(())
    }

    /// What the mask of [`Self::mask_assign`] becomes. It can be computed while the key holder works.
    ///
    /// # Errors
    /// [`Error::ValueRange`] if q is too large for [`WideEncoder`].
    pub fn encode_mask(&self, seed: &MaskSeed) -> Result<Plaintext, Error> {
        self.encode(&uniform_mask(&self.large, self.level, seed))
    }

    /// Subtracts what the mask of `seed` ([`crate::mask_assign`]) becomes from the ciphertext that the key
    /// holder encrypted.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`], [`Error::ScaleMismatch`] unless the ciphertext has the level and scale of
    /// the coefficients.
    pub fn unmask_assign(&self, answer: &mut Ciphertext, seed: &MaskSeed) -> Result<(), Error> {
        same((answer.level, answer.scale), self.to)?;
        let mask = self.encode(&mask_coefficients(&self.large, self.level, seed))?;
        answer.c0.sub_assign(self.small.q_basis(self.to.0), &mask.poly);
        Ok(())
    }
}

pub(crate) fn same(got: (usize, f64), want: (usize, f64)) -> Result<(), Error> {
    if got.0 != want.0 {
        return Err(Error::LevelMismatch { op: Op::Add, left: got.0, right: want.0 });
    }
    if got.1 != want.1 {
        return Err(Error::ScaleMismatch { op: Op::Add, left: got.1.log2(), right: want.1.log2() });
    }
    Ok(())
}
