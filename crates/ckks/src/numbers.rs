//! The numbers of a message of few slots that go to slots of the same ring, or to coefficients of a small
//! one.
//!
//! A number is the mean of the real parts of two slots, which may be one and the same. It is read as a linear
//! form of the coefficients, whose weights are rounded ([`SlotNumbers::weights`]), so that whoever reads the
//! numbers under masks learns as many linear forms of the message, and no other coefficient of it.

use crate::wide::{from_wide, root_bits, scaled};
use crate::{Error, MAX_WIDE_BITS, Op, Params, Plaintext, WideEncoder, WideSlot};
use rns::{Coeff, Poly};
use zeroize::Zeroizing;

/// b: a form is 2ᵇ⁺¹ times a number. The weight of a coefficient is off by half a unit for each slot, and a
/// number by some 2⁻ᵇ⁻² of the root mean square of all slots.
pub const NUMBER_BITS: u32 = 18;

/// The numbers of a message of few slots, at one level.
#[derive(Debug, Clone)]
pub struct SlotNumbers {
    params: Params,
    encoder: WideEncoder,
    level: usize,
    places: Vec<[usize; 2]>,
}

impl SlotNumbers {
    /// Number f is the mean of the slots `places[f]` of messages of `slots` slots at `level`.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless `slots` is a power of two from 2 to 2¹¹ and every place is below;
    /// [`Error::OutOfLevels`] for a level above the top.
    pub fn new(params: &Params, level: usize, slots: usize, places: Vec<[usize; 2]>) -> Result<Self, Error> {
        params.check_level(Op::Encode, level)?;
        let max = params.max_slots().min(1 << 11);
        let outside = places.iter().flatten().find(|&&slot| slot >= slots);
        if !slots.is_power_of_two() || !(2..=max).contains(&slots) || outside.is_some() {
            let got = outside.map_or(slots, |slot| slot + 1);
            return Err(Error::SlotCount { op: Op::Encode, got, max });
        }
        let encoder = WideEncoder::new(slots.ilog2() + 1);
        Ok(SlotNumbers { params: params.clone(), encoder, level, places })
    }

    /// The parameters of the ring.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The distance of two coefficients that hold the message. The others hold noise alone.
    pub fn step(&self) -> usize {
        self.params.n() / self.encoder.degree()
    }

    /// The weights of the coefficients 0, [`Self::step`], … in each number, number after number: slot j is
    /// Σₖ mₖ·ζ^(k·5ʲ) with ζ = e^(πi/N), whose real part is taken 2ᵇ times and rounded, for both slots.
    pub fn weights(&self) -> Vec<i32> {
        let degree = self.encoder.degree();
        let order = 2 * degree;
        let power = |slot: usize| (0..slot).fold(1, |power, _| power * 5 % order);
        let cosine = |k: usize| root_bits(k, order.ilog2(), NUMBER_BITS) as i32;
        let cosines: Vec<i32> = (0..order).map(cosine).collect();
        let mut out = Vec::with_capacity(degree * self.places.len());
        for place in &self.places {
            let powers = place.map(power);
            out.extend(
                (0..degree).map(|k| powers.map(|power| cosines[k * power % order]).iter().sum::<i32>()),
            );
        }
        out
    }

    /// Refuses another count of forms, or forms that are too wide.
    fn check(&self, forms: &[i128]) -> Result<(), Error> {
        if forms.len() != self.places.len() {
            return Err(Error::SlotCount { op: Op::Encode, got: forms.len(), max: self.places.len() });
        }
        let limit = 1i128 << MAX_WIDE_BITS;
        // Without a branch that depends on a value.
        match forms.iter().fold(false, |wide, x| wide | (*x <= -limit) | (*x >= limit)) {
            true => Err(Error::ValueRange { op: Op::Encode, scale: f64::from(MAX_WIDE_BITS) }),
            false => Ok(()),
        }
    }
}

/// Numbers that become the slots that they are the mean of, at a higher level of the same ring. All other
/// slots are 0.
#[derive(Debug, Clone)]
pub struct NumbersToSlots {
    numbers: SlotNumbers,
    high: usize,
}

impl NumbersToSlots {
    /// The map of `numbers` to level `high`. The message must have been brought to the scale of `high`.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] unless `high` is between the level of the numbers and the top level.
    pub fn new(numbers: SlotNumbers, high: usize) -> Result<Self, Error> {
        numbers.params.check_level(Op::Encode, high)?;
        match numbers.level <= high {
            true => Ok(NumbersToSlots { numbers, high }),
            false => Err(Error::OutOfLevels { op: Op::Encode, need: numbers.level, have: high }),
        }
    }

    /// The numbers.
    pub fn numbers(&self) -> &SlotNumbers {
        &self.numbers
    }

    /// The level after.
    pub fn high(&self) -> usize {
        self.high
    }

    /// The plaintext at the level after, from the forms of all numbers.
    ///
    /// # Errors
    /// [`Error::SlotCount`] for another count; [`Error::ValueRange`] if one is not below
    /// 2^[`MAX_WIDE_BITS`] in size.
    pub fn encode(&self, forms: &[i128]) -> Result<Plaintext, Error> {
        let SlotNumbers { params, encoder, places, .. } = &self.numbers;
        self.numbers.check(forms)?;
        let mut slots = Zeroizing::new(vec![WideSlot::default(); encoder.degree() / 2]);
        for (place, form) in places.iter().zip(forms) {
            place.iter().for_each(|&slot| slots[slot] = [*form, 0]);
        }
        let own = Zeroizing::new(encoder.coefficients(&slots, (-f64::from(NUMBER_BITS + 1)).exp2())?);
        let step = self.numbers.step();
        let mut all = Zeroizing::new(vec![0; params.n()]);
        all.iter_mut().step_by(step).zip(own.iter()).for_each(|(out, c)| *out = *c);
        let basis = params.q_basis(self.high);
        let poly = from_wide(basis, &all, step).into_ntt(basis);
        Ok(Plaintext { poly, level: self.high, scale: params.scale(self.high) })
    }
}

/// Numbers that become coefficients of a small ring at its top level, each times a public factor.
#[derive(Debug, Clone)]
pub struct NumbersToCoefficients {
    numbers: SlotNumbers,
    small: Params,
    /// For each number, the coefficient and the factor of a form. Numbers without one are left out.
    terms: Vec<Option<(usize, f64)>>,
}

impl NumbersToCoefficients {
    /// The map of `numbers` at the scale `scale` to the ring of `small`. Entry f of `terms` is the
    /// coefficient that number f becomes, and its factor.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless there is an entry for each number; [`Error::CoefficientCount`] for a
    /// coefficient that is not below N of `small`, or that two numbers become; [`Error::ValueRange`] for a
    /// factor that exceeds 1 after the change of scale.
    pub fn new(
        numbers: SlotNumbers,
        small: &Params,
        scale: f64,
        terms: &[Option<(usize, f64)>],
    ) -> Result<Self, Error> {
        if terms.len() != numbers.count() {
            return Err(Error::SlotCount { op: Op::Encode, got: terms.len(), max: numbers.count() });
        }
        let mut used = vec![false; small.n()];
        for (coefficient, _) in terms.iter().flatten() {
            match used.get_mut(*coefficient) {
                Some(used) if !*used => *used = true,
                _ => return Err(Error::CoefficientCount { got: coefficient + 1, max: small.n() }),
            }
        }
        let change = small.scale(small.max_level()) / scale / f64::from(NUMBER_BITS + 1).exp2();
        let own = |term: &Option<(usize, f64)>| term.map(|(at, factor)| (at, factor * change));
        let terms: Vec<_> = terms.iter().map(own).collect();
        let wide = |factor: f64| factor.is_nan() || factor.abs() > 1.0;
        if let Some((_, factor)) = terms.iter().flatten().find(|(_, factor)| wide(*factor)) {
            return Err(Error::ValueRange { op: Op::Encode, scale: factor.abs().log2() });
        }
        Ok(NumbersToCoefficients { numbers, small: small.clone(), terms })
    }

    /// The numbers.
    pub fn numbers(&self) -> &SlotNumbers {
        &self.numbers
    }

    /// The parameters of the small ring.
    pub fn small(&self) -> &Params {
        &self.small
    }

    /// The plaintext of the small ring, from the forms of all numbers.
    ///
    /// # Errors
    /// As [`NumbersToSlots::encode`].
    pub fn encode(&self, forms: &[i128]) -> Result<Plaintext, Error> {
        self.numbers.check(forms)?;
        let level = self.small.max_level();
        let basis = self.small.q_basis(level);
        let mut poly = Poly::<Coeff>::zero(self.small.n(), basis.len());
        let terms = self.terms.iter().zip(forms);
        let values: Zeroizing<Vec<(usize, i128)>> = terms
            .filter_map(|(term, form)| term.map(|(at, factor)| (at, scaled(*form, factor))))
            .collect::<Vec<_>>()
            .into();
        poly.for_each_limb(|i, limb| {
            values.iter().for_each(|&(at, value)| limb[at] = basis.modulus(i).reduce_i128(value));
        });
        Ok(Plaintext { poly: poly.into_ntt(basis), level, scale: self.small.scale(level) })
    }
}
