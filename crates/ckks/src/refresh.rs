//! The refresh of a vector of few slots within one ring: a holder of the key encrypts it anew at a higher
//! level, under a mask that is uniform modulo q.
//!
//! | who | does |
//! |---|---|
//! | server | adds a mask expanded from a fresh seed ([`UniformRefresh::mask_assign`]), and an encryption of zero |
//! | key holder | decrypts, encodes the coefficients at the scale of the higher level ([`UniformRefresh::encode`]), encrypts |
//! | server | encodes the mask in the same way and subtracts it ([`UniformRefresh::unmask_assign`]) |
//!
//! A coefficient v comes back wrong by a multiple of q with probability |v|/q, where |v| is its size at its
//! scale.

use crate::mask::uniform_mask;
use crate::raise::same;
use crate::wide::{from_wide, scaled};
use crate::{Ciphertext, Error, MAX_WIDE_BITS, MaskSeed, Op, Params, Plaintext};

/// The refresh of vectors with `slots` values from one level to a higher one.
#[derive(Debug, Clone)]
pub struct UniformRefresh {
    params: Params,
    slots: usize,
    from: usize,
    to: usize,
}

impl UniformRefresh {
    /// The refresh of vectors of period `slots`, a power of two, from level `from` to level `to`.
    ///
    /// # Errors
    /// [`Error::SlotCount`] unless `slots` is a power of two from 1 to N/2, [`Error::OutOfLevels`] unless
    /// `to` is a level of `params`, [`Error::BadParams`] if q at `from` is too large for a mask.
    pub fn new(params: &Params, slots: usize, from: usize, to: usize) -> Result<Self, Error> {
        let max = params.max_slots();
        if !slots.is_power_of_two() || slots > max {
            return Err(Error::SlotCount { op: Op::Encode, got: slots, max });
        }
        params.check_level(Op::Encode, from)?;
        params.check_level(Op::Encode, to)?;
        let log_q = params.log_q(from);
        if log_q > f64::from(MAX_WIDE_BITS) {
            return Err(Error::BadParams(format!(
                "q has {log_q:.1} bits at level {from}, of which a refresh takes at most {MAX_WIDE_BITS}"
            )));
        }
        Ok(UniformRefresh { params: params.clone(), slots, from, to })
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The level of masked vectors.
    pub fn from(&self) -> usize {
        self.from
    }

    /// The level of refreshed vectors.
    pub fn to(&self) -> usize {
        self.to
    }

    /// Refuses what is not at the level of masked vectors and its canonical scale.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`], [`Error::ScaleMismatch`].
    pub fn check(&self, masked: &Ciphertext) -> Result<(), Error> {
        same((masked.level, masked.scale), (self.from, self.params.scale(self.from)))
    }

    /// Adds the mask that `seed` stands for to every coefficient.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn mask_assign(&self, vector: &mut Ciphertext, seed: &MaskSeed) -> Result<(), Error> {
        self.check(vector)?;
        let basis = self.params.q_basis(self.from);
        vector.c0.add_assign(basis, &from_wide(basis, &self.mask(seed), 1).into_ntt(basis));
        Ok(())
    }

    /// The plaintext at the higher level of the vector with these N coefficients. Only every N/(2
    /// `slots`)-th belongs to a vector of the period; the others hold noise, and become 0.
    ///
    /// # Errors
    /// [`Error::CoefficientCount`] unless there are N.
    pub fn encode(&self, coefficients: &[i128]) -> Result<Plaintext, Error> {
        let (n, level) = (self.params.n(), self.to);
        if coefficients.len() != n {
            return Err(Error::CoefficientCount { got: coefficients.len(), max: n });
        }
        let (stride, scale) = (self.params.max_slots() / self.slots, self.params.scale(level));
        let change = scale / self.params.scale(self.from);
        // The same operations on integers for a masked vector and for the mask: their difference is off by
        // one unit at most.
        let changed = |c: i128| c * change.floor() as i128 + scaled(c, change.fract());
        let mut own = zeroize::Zeroizing::new(vec![0i128; n]);
        for (out, c) in own.iter_mut().zip(coefficients).step_by(stride) {
            *out = changed(*c);
        }
        let basis = self.params.q_basis(level);
        Ok(Plaintext { poly: from_wide(basis, &own, stride).into_ntt(basis), level, scale })
    }

    /// Subtracts what the mask of `seed` becomes from a refreshed vector.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`], [`Error::ScaleMismatch`] for a vector that this refresh does not return.
    pub fn unmask_assign(&self, refreshed: &mut Ciphertext, seed: &MaskSeed) -> Result<(), Error> {
        let mask = self.encode(&self.mask(seed))?;
        same((refreshed.level, refreshed.scale), (mask.level, mask.scale))?;
        refreshed.c0.sub_assign(self.params.q_basis(self.to), &mask.poly);
        Ok(())
    }

    /// The constant coefficient of a masked vector, in units of its scale, from what the key holder decrypted
    /// of it (`masked`, any number) and the seed of the mask. All slots of a constant vector have this value.
    pub fn unmasked_constant(&self, masked: i128, seed: &MaskSeed) -> f64 {
        let q: i128 = self.params.q_basis(self.from).primes().map(i128::from).product();
        let value = (masked.rem_euclid(q) - self.mask(seed)[0]).rem_euclid(q);
        let centred = if value > q / 2 { value - q } else { value };
        centred as f64 / self.params.scale(self.from)
    }

    /// The coefficients of the mask that `seed` stands for: uniform in [−q/2, q/2).
    fn mask(&self, seed: &MaskSeed) -> Vec<i128> {
        uniform_mask(&self.params, self.from, seed)
    }
}
