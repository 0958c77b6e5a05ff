//! An exchange with a holder of the secret keys: a public linear map of the numbers in masked ciphertexts
//! becomes fresh ciphertexts, in the same ring or in another.
//!
//! | who | does |
//! |---|---|
//! | server | adds a mask expanded from a seed ([`Exchange::mask_assign`]), and an encryption of zero |
//! | key holder | decrypts, computes the map ([`Exchange::encode`]), encrypts |
//! | server | computes the map of the mask in the same way and subtracts it ([`Exchange::unmask_assign`]) |
//!
//! Both compute the map by the same operations on integers, each product with a factor rounded to an integer.
//! So the image of a masked value, less that of the mask, is off by at most one unit a term. Where slots are
//! decoded, the transform adds its own rounding ([`WideEncoder`]).
//!
//! The mask is uniform modulo q in all coefficients, so that masked values are uniform and independent of the
//! values, however large a hostile sender makes them. A coefficient v comes back wrong by a multiple of q
//! with probability |v|/q, where |v| is its size at its scale.

use crate::mask::uniform_mask;
use crate::raise::same;
use crate::wide::{DECODED_FRACTION, from_wide, scaled};
use crate::{Ciphertext, Error, MAX_WIDE_BITS, MaskSeed, Op, Params, Plaintext, WideEncoder, WideSlot};
use rayon::prelude::*;
use std::sync::Arc;
use zeroize::Zeroizing;

/// A term of a linear map: the number at the place `to` has as a summand the number at the place `from`,
/// times `weight` and the factor of `group`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MapTerm {
    /// The place of the input.
    pub from: usize,
    /// The place of the output.
    pub to: usize,
    /// The weight, which is part of the map.
    pub weight: f64,
    /// The number of the factor, which each exchange has anew.
    pub group: usize,
}

/// A sum of terms that the number at the place `to` has as a summand, or subtracts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SumTerm {
    /// The number of the sum.
    pub sum: usize,
    /// The place of the output.
    pub to: usize,
    /// Whether it is subtracted.
    pub negative: bool,
}

/// What the numbers of a ciphertext are. Ciphertext c of a side has the places c·N to c·N + N − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Place k is coefficient k.
    Coefficients,
    /// Place 2j is the real part of slot j, and place 2j + 1 its imaginary part.
    Slots,
}

/// The ciphertexts on one side of an exchange.
#[derive(Debug, Clone)]
pub struct Side {
    /// The parameters.
    pub params: Params,
    /// What their numbers are.
    pub domain: Domain,
    /// How many there are, at least one.
    pub ciphertexts: usize,
    /// Their level.
    pub level: usize,
    /// Their scale.
    pub scale: f64,
}

impl Side {
    /// Ciphertexts at the top level of `params` with coefficients at the scale 2^`log_scale`.
    pub fn coefficients(params: &Params, ciphertexts: usize, log_scale: u32) -> Self {
        let (level, scale) = (params.max_level(), f64::from(log_scale).exp2());
        Side { params: params.clone(), domain: Domain::Coefficients, ciphertexts, level, scale }
    }

    /// Ciphertexts at `level` of `params` with slots at the scale of that level.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] for a level above the top.
    pub fn slots(params: &Params, ciphertexts: usize, level: usize) -> Result<Self, Error> {
        params.check_level(Op::Encode, level)?;
        let (params, scale) = (params.clone(), params.scale(level));
        Ok(Side { params, domain: Domain::Slots, ciphertexts, level, scale })
    }

    fn places(&self) -> usize {
        self.ciphertexts * self.params.n()
    }

    fn check(&self, ciphertexts: &[Ciphertext]) -> Result<(), Error> {
        self.check_count(ciphertexts.len())?;
        ciphertexts.iter().try_for_each(|ct| {
            same((ct.level, ct.scale), (self.level, self.scale))?;
            let (got, max) = (ct.c0.n(), self.params.n());
            if got == max { Ok(()) } else { Err(Error::CoefficientCount { got, max }) }
        })
    }

    fn check_count(&self, got: usize) -> Result<(), Error> {
        let max = self.ciphertexts;
        if got == max { Ok(()) } else { Err(Error::CiphertextCount { got, want: max }) }
    }

    /// Whether both have the same numbers in the same ciphertexts.
    fn is(&self, other: &Side) -> bool {
        let of = |side: &Side| (side.domain, side.ciphertexts, side.level, side.scale.to_bits());
        of(self) == of(other) && self.params == other.params
    }

    fn hash(&self, hasher: &mut blake3::Hasher) {
        hasher.update(&self.params.fingerprint().0);
        let numbers = [self.domain as u64, self.ciphertexts as u64, self.level as u64, self.scale.to_bits()];
        for x in numbers {
            hasher.update(&x.to_le_bytes());
        }
    }
}

/// An exchange of the numbers on one [`Side`] for those on another.
#[derive(Debug, Clone)]
pub struct Exchange {
    from: Side,
    to: Side,
    terms: Arc<[MapTerm]>,
    /// What outputs have of the sums of the terms, where terms do not go to outputs themselves.
    of_sums: Option<OfSums>,
    /// The number of groups.
    groups: usize,
    /// A hash of both sides and all terms.
    map_hash: [u8; 32],
    /// The transforms of slots on both sides.
    decoder: Option<Arc<WideEncoder>>,
    encoder: Option<Arc<WideEncoder>>,
}

/// The sums of terms, and what outputs have of them.
#[derive(Debug, Clone)]
struct OfSums {
    count: usize,
    outputs: Arc<[SumTerm]>,
}

impl Exchange {
    /// The exchange with these terms.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] for a level that its side does not have; [`Error::CiphertextCount`] for a side
    /// without ciphertexts; [`Error::CoefficientCount`] for a place that a side does not have;
    /// [`Error::ValueRange`] for a weight that is 0 or not a number; [`Error::BadParams`] if q of the masked
    /// side is too large for integers of 128 bits.
    pub fn new(from: Side, to: Side, terms: Vec<MapTerm>) -> Result<Self, Error> {
        Self::map(from, to, terms, None)
    }

    /// The exchange whose terms go to `sums` sums, of which `outputs` are made: for many differences of few
    /// sums, it has fewer terms than [`Self::new`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_sums(
        from: Side,
        to: Side,
        sums: usize,
        terms: Vec<MapTerm>,
        outputs: Vec<SumTerm>,
    ) -> Result<Self, Error> {
        Self::map(from, to, terms, Some(OfSums { count: sums, outputs: outputs.into() }))
    }

    fn map(from: Side, to: Side, terms: Vec<MapTerm>, of_sums: Option<OfSums>) -> Result<Self, Error> {
        for side in [&from, &to] {
            side.params.check_level(Op::Encode, side.level)?;
            if side.ciphertexts == 0 {
                return Err(Error::CiphertextCount { got: 0, want: 1 });
            }
        }
        let within = |(got, max): (usize, usize)| match got < max {
            true => Ok(()),
            false => Err(Error::CoefficientCount { got: got + 1, max }),
        };
        let sums = of_sums.as_ref().map_or(to.places(), |of| of.count);
        for output in of_sums.iter().flat_map(|of| of.outputs.iter()) {
            [(output.sum, sums), (output.to, to.places())].into_iter().try_for_each(within)?;
        }
        for term in &terms {
            [(term.from, from.places()), (term.to, sums)].into_iter().try_for_each(within)?;
            if !term.weight.is_normal() {
                return Err(Error::ValueRange { op: Op::Encode, scale: term.weight.abs().log2() });
            }
        }
        let transform = |side: &Side| {
            (side.domain == Domain::Slots).then(|| WideEncoder::shared(side.params.spec().log_n))
        };
        let (decoder, encoder) = (transform(&from), transform(&to));
        // Centred values, the sums of a transform and its bits after the point.
        let log_q = from.params.log_q(from.level);
        let decoded = decoder.as_ref().map_or(0, |_| from.params.spec().log_n + DECODED_FRACTION);
        if log_q + f64::from(decoded) > f64::from(MAX_WIDE_BITS) {
            let most = MAX_WIDE_BITS - decoded;
            let text = format!("q has {log_q:.1} bits, of which an exchange takes at most {most}");
            return Err(Error::BadParams(text));
        }
        let groups = terms.iter().map(|term| term.group + 1).max().unwrap_or(0);
        let map_hash = hash_of(&from, &to, &terms, of_sums.as_ref());
        Ok(Exchange { from, to, terms: terms.into(), of_sums, groups, map_hash, decoder, encoder })
    }

    /// The masked side.
    pub fn from(&self) -> &Side {
        &self.from
    }

    /// The side of fresh ciphertexts.
    pub fn to(&self) -> &Side {
        &self.to
    }

    /// The places of the masked side that are read, in ascending order.
    pub fn reads(&self) -> Vec<usize> {
        let used: std::collections::BTreeSet<usize> = self.terms.iter().map(|term| term.from).collect();
        used.into_iter().collect()
    }

    /// The bytes of its terms in memory.
    pub fn bytes(&self) -> usize {
        let outputs = self.of_sums.as_ref().map_or(0, |of| size_of_val(&*of.outputs));
        size_of_val(&*self.terms) + outputs
    }

    /// A hash of both sides, the terms and these factors: two parties with the same hash compute the same.
    pub fn hash(&self, factors: &[f64]) -> [u8; 32] {
        let factors: Vec<u8> = factors.iter().flat_map(|x| x.to_bits().to_le_bytes()).collect();
        *blake3::keyed_hash(&self.map_hash, &factors).as_bytes()
    }

    /// Refuses what is not on the masked side.
    ///
    /// # Errors
    /// [`Error::CiphertextCount`], [`Error::LevelMismatch`], [`Error::ScaleMismatch`];
    /// [`Error::CoefficientCount`] for ciphertexts of another ring.
    pub fn check(&self, masked: &[Ciphertext]) -> Result<(), Error> {
        self.from.check(masked)
    }

    /// Refuses factors that [`Self::encode`] does not take.
    ///
    /// # Errors
    /// [`Error::ValueRange`] unless there is a factor from 0 to 2⁶³ for each group, and every term and the
    /// change of scale are at most 2 together; for outputs in slots, every sum of terms of one sign is at
    /// most 1, and at most 256 from slots to slots.
    pub fn check_factors(&self, factors: &[f64]) -> Result<(), Error> {
        self.shares(factors).map(drop)
    }

    /// The number that outputs are multiplied by at last, and each term before.
    fn shares(&self, factors: &[f64]) -> Result<(f64, Vec<f64>), Error> {
        let refused = |scale: f64| Error::ValueRange { op: Op::Encode, scale };
        let most = 63f64.exp2();
        if factors.len() < self.groups || !factors.iter().all(|factor| (0.0..=most).contains(factor)) {
            return Err(refused(factors.len() as f64));
        }
        let change = self.to.scale / self.from.scale;
        let weights = self.terms.iter().map(|term| term.weight * factors[term.group] * change);
        // Outputs in slots take the largest sum as the scale is changed, so that nothing is lost before the
        // transform, and sums are at most twice as large as the largest input.
        let last = match self.encoder {
            None => 1.0,
            Some(_) => {
                let mut sums = vec![[0.0; 2]; self.sums()];
                for (term, weight) in self.terms.iter().zip(weights.clone()) {
                    sums[term.to][usize::from(weight < 0.0)] += weight.abs();
                }
                if let Some(of) = &self.of_sums {
                    let mut all = vec![[0.0; 2]; self.to.places()];
                    for SumTerm { sum, to, negative } in of.outputs.iter() {
                        let [more, less] = sums[*sum];
                        let signed = if *negative { [less, more] } else { [more, less] };
                        all[*to].iter_mut().zip(signed).for_each(|(all, of)| *all += of);
                    }
                    sums = all;
                }
                let largest = sums.into_iter().flatten().fold(0.0, f64::max);
                if largest > 0.0 { largest } else { 1.0 }
            }
        };
        let shares: Vec<f64> = weights.map(|weight| weight / last).collect();
        let largest = shares.iter().map(|share| share.abs()).fold(last / self.fraction(), f64::max);
        // Twice the largest input is what products of integers bear.
        let most = if self.encoder.is_none() { 2.0 } else { 1.0 };
        if largest <= most { Ok((last, shares)) } else { Err(refused(largest.log2())) }
    }

    /// The number of places that terms go to.
    fn sums(&self) -> usize {
        self.of_sums.as_ref().map_or(self.to.places(), |of| of.count)
    }

    /// The unit of inputs: decoded slots have bits after the point.
    fn fraction(&self) -> f64 {
        if self.decoder.is_some() { f64::from(DECODED_FRACTION).exp2() } else { 1.0 }
    }

    /// The plaintexts that the coefficients of the masked side become with these factors, one for each
    /// ciphertext.
    ///
    /// # Errors
    /// As [`Self::check_factors`]; [`Error::CiphertextCount`], [`Error::CoefficientCount`] for another number
    /// of inputs, [`Error::ValueRange`] for one that is not centred modulo q.
    pub fn encode<C: AsRef<[i128]> + Sync>(
        &self,
        inputs: &[C],
        factors: &[f64],
    ) -> Result<Vec<Plaintext>, Error> {
        self.image(&self.numbers(inputs)?, factors)
    }

    /// As [`Self::encode`], of each of these exchanges, which have one masked side: its slots are decoded
    /// once.
    ///
    /// # Errors
    /// As [`Self::encode`]; [`Error::BadParams`] for exchanges of different masked sides.
    pub fn encode_group<C: AsRef<[i128]> + Sync>(
        group: &[Exchange],
        inputs: &[C],
        factors: &[f64],
    ) -> Result<Vec<Vec<Plaintext>>, Error> {
        let Some(first) = group.first() else { return Ok(Vec::new()) };
        if group.iter().any(|other| !other.from.is(&first.from)) {
            return Err(Error::BadParams("exchanges of one group with different masked sides".into()));
        }
        let numbers = first.numbers(inputs)?;
        group.par_iter().map(|exchange| exchange.image(&numbers, factors)).collect()
    }

    /// The numbers at the places of the masked side.
    fn numbers<C: AsRef<[i128]> + Sync>(&self, inputs: &[C]) -> Result<Zeroizing<Vec<i128>>, Error> {
        self.from.check_count(inputs.len())?;
        let n = self.from.params.n();
        let mut numbers = Zeroizing::new(vec![0; self.from.places()]);
        let of_one = |(numbers, input): (&mut [i128], &C)| {
            let input = input.as_ref();
            if input.len() != n {
                return Err(Error::CoefficientCount { got: input.len(), max: n });
            }
            match &self.decoder {
                None => numbers.copy_from_slice(input),
                Some(decoder) => {
                    let slots = decoder.slots(input)?;
                    numbers.iter_mut().zip(slots.iter().flatten()).for_each(|(number, part)| *number = *part);
                }
            }
            Ok(())
        };
        numbers.par_chunks_exact_mut(n).zip(inputs).try_for_each(of_one)?;
        Ok(numbers)
    }

    /// The plaintexts that the numbers at the places of the masked side become.
    fn image(&self, numbers: &[i128], factors: &[f64]) -> Result<Vec<Plaintext>, Error> {
        let (last, shares) = self.shares(factors)?;
        let fraction = self.fraction();
        let kept = if self.encoder.is_some() { fraction } else { 1.0 };
        let mut out = Zeroizing::new(vec![0i128; self.sums()]);
        for (term, share) in self.terms.iter().zip(shares) {
            // Rounding does not depend on the sign, so that a difference of equal numbers is 0.
            let part = scaled(numbers[term.from], share.abs() * kept / fraction);
            out[term.to] += if share < 0.0 { -part } else { part };
        }
        if let Some(of) = &self.of_sums {
            let sums = std::mem::replace(&mut out, Zeroizing::new(vec![0i128; self.to.places()]));
            for SumTerm { sum, to, negative } in of.outputs.iter() {
                out[*to] += if *negative { -sums[*sum] } else { sums[*sum] };
            }
        }
        let Side { params, level, scale, .. } = &self.to;
        let basis = params.q_basis(*level);
        let plaintext = |numbers: &[i128]| {
            let poly = match &self.encoder {
                None => from_wide(basis, numbers, 1),
                Some(encoder) => {
                    let slots: Zeroizing<Vec<WideSlot>> =
                        numbers.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>().into();
                    let coefficients = Zeroizing::new(encoder.coefficients(&slots, last / fraction)?);
                    from_wide(basis, &coefficients, 1)
                }
            };
            Ok(Plaintext { poly: poly.into_ntt(basis), level: *level, scale: *scale })
        };
        out.par_chunks_exact(self.to.params.n()).map(plaintext).collect()
    }

    /// Adds the mask that `seed` stands for to every coefficient of the ciphertexts.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn mask_assign(&self, ciphertexts: &mut [Ciphertext], seed: &MaskSeed) -> Result<(), Error> {
        self.check(ciphertexts)?;
        let basis = self.from.params.q_basis(self.from.level);
        ciphertexts.par_iter_mut().zip(self.masks(seed)).for_each(|(ct, mask)| {
            ct.c0.add_assign(basis, &from_wide(basis, &mask, 1).into_ntt(basis));
        });
        Ok(())
    }

    /// The masks of the ciphertexts: uniform in [−q/2, q/2).
    fn masks(&self, seed: &MaskSeed) -> Vec<Vec<i128>> {
        let Side { params, ciphertexts, level, .. } = &self.from;
        let seed_of = |i: usize| *blake3::keyed_hash(seed, &(i as u64).to_le_bytes()).as_bytes();
        (0..*ciphertexts).into_par_iter().map(|i| uniform_mask(params, *level, &seed_of(i))).collect()
    }

    /// What the mask of `seed` becomes with these factors. It can be computed while the key holder works.
    ///
    /// # Errors
    /// As [`Self::check_factors`].
    pub fn encode_mask(&self, seed: &MaskSeed, factors: &[f64]) -> Result<Vec<Plaintext>, Error> {
        self.encode(&self.masks(seed), factors)
    }

    /// As [`Self::encode_mask`], of each of these exchanges, which have one masked side.
    ///
    /// # Errors
    /// As [`Self::encode_group`].
    pub fn encode_masks(
        group: &[Exchange],
        seed: &MaskSeed,
        factors: &[f64],
    ) -> Result<Vec<Vec<Plaintext>>, Error> {
        let masks = group.first().map_or_else(Vec::new, |first| first.masks(seed));
        Self::encode_group(group, &masks, factors)
    }

    /// The constant coefficient of the first masked ciphertext, in units of its scale, from what the key
    /// holder decrypted of it (`masked`, any number) and the seed of the mask. All slots of a constant vector
    /// have this value.
    pub fn unmasked_constant(&self, masked: i128, seed: &MaskSeed) -> f64 {
        let q: i128 = self.from.params.q_basis(self.from.level).primes().map(i128::from).product();
        let value = (masked.rem_euclid(q) - self.masks(seed)[0][0]).rem_euclid(q);
        let centred = if value > q / 2 { value - q } else { value };
        centred as f64 / self.from.scale
    }

    /// Subtracts what the mask becomes from the ciphertexts that the key holder encrypted.
    ///
    /// # Errors
    /// [`Error::CiphertextCount`], [`Error::LevelMismatch`], [`Error::ScaleMismatch`],
    /// [`Error::CoefficientCount`] unless both are on the side of fresh ciphertexts.
    pub fn unmask_assign(&self, fresh: &mut [Ciphertext], mask: &[Plaintext]) -> Result<(), Error> {
        self.to.check(fresh)?;
        self.to.check_count(mask.len())?;
        let basis = self.to.params.q_basis(self.to.level);
        for (ct, mask) in fresh.iter_mut().zip(mask) {
            same((mask.level, mask.scale), (self.to.level, self.to.scale))?;
            ct.c0.sub_assign(basis, &mask.poly);
        }
        Ok(())
    }
}

/// The hash of what a map is without its factors.
fn hash_of(from: &Side, to: &Side, terms: &[MapTerm], of_sums: Option<&OfSums>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    from.hash(&mut hasher);
    to.hash(&mut hasher);
    let mut add = |numbers: &mut dyn Iterator<Item = u64>| {
        let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        hasher.update(&bytes);
    };
    add(&mut [terms.len() as u64].into_iter());
    // Many at once, since large maps have hundreds of thousands.
    for terms in terms.chunks(1024) {
        let numbers = |t: &MapTerm| [t.from as u64, t.to as u64, t.weight.to_bits(), t.group as u64];
        add(&mut terms.iter().flat_map(numbers));
    }
    if let Some(OfSums { count, outputs }) = of_sums {
        add(&mut [*count as u64, outputs.len() as u64].into_iter());
        for outputs in outputs.chunks(1024) {
            let numbers = |of: &SumTerm| [of.sum as u64, of.to as u64, u64::from(of.negative)];
            add(&mut outputs.iter().flat_map(numbers));
        }
    }
    *hasher.finalize().as_bytes()
}
