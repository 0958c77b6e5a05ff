//! The raise: coefficients of a ciphertext of a small ring, under a mask, become slots of a fresh ciphertext
//! of a large ring at a high level. A holder of both secret keys computes it and learns only the masked
//! values.
//!
//! | who | does |
//! |---|---|
//! | server | adds a mask expanded from a fresh seed ([`crate::mask_assign`]), and an encryption of zero |
//! | key holder | decrypts the coefficients, encodes them as slots ([`Raise::encode`]), encrypts |
//! | server | encodes the coefficients of the mask in the same way and subtracts them ([`Raise::unmask_assign`]) |

use crate::mask::mask_coefficients;
use crate::{Ciphertext, Error, MaskSeed, Op, Params, Plaintext, WideEncoder, WideSlot};

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
    /// of `large`; [`Error::ScaleMismatch`] if the scale of that level exceeds 2^`log_scale`.
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

    /// Subtracts the mask that `seed` expands to at the top level of the small ring from a raised ciphertext.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`], [`Error::ScaleMismatch`] if the ciphertext is not one of this raise.
    pub fn unmask_assign(&self, raised: &mut Ciphertext, seed: &MaskSeed) -> Result<(), Error> {
        let mask = self.encode(&mask_coefficients(&self.small, self.small.max_level(), seed))?;
        let (left, right) = (raised.level, mask.level);
        if left != right {
            return Err(Error::LevelMismatch { op: Op::Add, left, right });
        }
        if raised.scale != mask.scale {
            let (left, right) = (raised.scale.log2(), mask.scale.log2());
            return Err(Error::ScaleMismatch { op: Op::Add, left, right });
        }
        raised.c0.sub_assign(self.large.q_basis(left), &mask.poly);
        Ok(())
    }
}
