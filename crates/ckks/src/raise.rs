//! The raise: coefficients of a ciphertext of a small ring, under a mask, become slots of a fresh ciphertext
//! of a large ring at a high level. A holder of both secret keys computes it and learns only the masked
//! values.
//!
//! | who | does |
//! |---|---|
//! | server | adds a mask expanded from a fresh seed ([`Raise::mask_assign`]), and an encryption of zero |
//! | key holder | decrypts the coefficients, encodes them as slots ([`Raise::encode`]), encrypts |
//! | server | encodes the coefficients of the mask in the same way and subtracts them ([`Raise::unmask_assign`]) |
//!
//! The mask is uniform modulo q, so that the masked values are uniform and independent of the values, however
//! large a hostile sender makes them. A value v comes back wrong by a multiple of q with probability |v|/q,
//! where |v| is its size at its scale.

use crate::wide::from_wide;
use crate::{Ciphertext, Error, MAX_WIDE_BITS, MaskSeed, Op, Params, Plaintext, WideEncoder, WideSlot};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// The coefficients of the small ring that a raise reads, the slots of the large ring that they become, and
/// scale and level of the result.
#[derive(Debug, Clone)]
pub struct Raise {
    small: Params,
    large: Params,
    encoder: WideEncoder,
    places: Vec<Option<[usize; 2]>>,
    log_scale: u32,
    level: usize,
}

impl Raise {
    /// The raise of values at the scale 2^`log_scale` in the ring of `small` to `level` of `large`. Entry j
    /// of `places` names the coefficients that become real and imaginary part of slot j; other slots are 0.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless there is an entry for every slot of `large`; [`Error::CoefficientCount`]
    /// if a coefficient is not below N of `small`; [`Error::OutOfLevels`] if `level` is above the top level
    /// of `large`; [`Error::ScaleMismatch`] if the scale of that level exceeds 2^`log_scale`;
    /// [`Error::BadParams`] if q of `small` is too large for [`WideEncoder`].
    pub fn new(
        small: &Params,
        large: &Params,
        places: Vec<Option<[usize; 2]>>,
        log_scale: u32,
        level: usize,
    ) -> Result<Self, Error> {
        large.check_level(Op::Encode, level)?;
        if places.len() != large.max_slots() {
            return Err(Error::SlotCount { op: Op::Encode, got: places.len(), max: large.max_slots() });
        }
        if let Some(&got) = places.iter().flatten().flatten().find(|&&k| k >= small.n()) {
            return Err(Error::CoefficientCount { got: got + 1, max: small.n() });
        }
        let log_q = small.log_q(small.max_level());
        if log_q > f64::from(MAX_WIDE_BITS) {
            return Err(Error::BadParams(format!(
                "q has {log_q:.1} bits, of which a raise takes at most {MAX_WIDE_BITS}"
            )));
        }
        let (from, to) = (f64::from(log_scale), large.scale(level).log2());
        if from < to {
            return Err(Error::ScaleMismatch { op: Op::Encode, left: from, right: to });
        }
        let (small, large) = (small.clone(), large.clone());
        let encoder = WideEncoder::new(large.spec().log_n);
        Ok(Raise { small, large, encoder, places, log_scale, level })
    }

    /// The parameters of the small ring.
    pub fn small(&self) -> &Params {
        &self.small
    }

    /// The parameters of the large ring.
    pub fn large(&self) -> &Params {
        &self.large
    }

    /// The plaintext of the large ring whose slots are these coefficients of the small one.
    ///
    /// # Errors
    /// [`Error::CoefficientCount`] unless there are N of the small ring, [`Error::ValueRange`] if one that is
    /// raised is not below 2^[`crate::MAX_WIDE_BITS`] in size.
    pub fn encode(&self, coefficients: &[i128]) -> Result<Plaintext, Error> {
        if coefficients.len() != self.small.n() {
            return Err(Error::CoefficientCount { got: coefficients.len(), max: self.small.n() });
        }
        let slot = |place: &Option<[usize; 2]>| place.map_or([0; 2], |place| place.map(|k| coefficients[k]));
        let slots = zeroize::Zeroizing::new(self.places.iter().map(slot).collect::<Vec<WideSlot>>());
        Plaintext::encode_wide(&self.large, &self.encoder, &slots, self.log_scale, self.level)
    }

    /// Refuses what is not a pack at the top level of the small ring and the scale of this raise.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`], [`Error::ScaleMismatch`].
    pub fn check(&self, packed: &Ciphertext) -> Result<(), Error> {
        same((packed.level, packed.scale), (self.small.max_level(), f64::from(self.log_scale).exp2()))
    }

    /// Adds the mask that `seed` stands for to every coefficient of a pack.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn mask_assign(&self, packed: &mut Ciphertext, seed: &MaskSeed) -> Result<(), Error> {
        self.check(packed)?;
        let basis = self.small.q_basis(packed.level);
        packed.c0.add_assign(basis, &from_wide(basis, &self.mask(seed), 1).into_ntt(basis));
        Ok(())
    }

    /// The coefficients of the mask that `seed` stands for: uniform in [−q/2, q/2).
    fn mask(&self, seed: &MaskSeed) -> Vec<i128> {
        let q: i128 = self.small.q_basis(self.small.max_level()).primes().map(i128::from).product();
        let bits = i128::BITS - q.leading_zeros();
        let mut rng = ChaCha20Rng::from_seed(*seed);
        let mut uniform = move || loop {
            let word = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            let value = (word >> (128 - bits)) as i128;
            if value < q {
                return value - q / 2;
            }
        };
        (0..self.small.n()).map(|_| uniform()).collect()
    }

    /// Subtracts the mask that `seed` expands to at the top level of the small ring from a raised ciphertext.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`], [`Error::ScaleMismatch`] if the ciphertext is not one of this raise.
    pub fn unmask_assign(&self, raised: &mut Ciphertext, seed: &MaskSeed) -> Result<(), Error> {
        same((raised.level, raised.scale), (self.level, self.large.scale(self.level)))?;
        let mask = self.encode(&self.mask(seed))?;
        raised.c0.sub_assign(self.large.q_basis(self.level), &mask.poly);
        Ok(())
    }
}

fn same(got: (usize, f64), want: (usize, f64)) -> Result<(), Error> {
    if got.0 != want.0 {
        return Err(Error::LevelMismatch { op: Op::Add, left: got.0, right: want.0 });
    }
    if got.1 != want.1 {
        return Err(Error::ScaleMismatch { op: Op::Add, left: got.1.log2(), right: want.1.log2() });
    }
    Ok(())
}
