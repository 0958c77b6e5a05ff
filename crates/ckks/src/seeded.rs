use crate::frame::{read_seeded_ciphertext, write_partial_ciphertext};
use crate::{Error, KeyId, Op, Params, Plaintext};
use rand::CryptoRng;
use rns::sample::Seed;
use rns::{Coeff, Poly};

/// A ciphertext under the secret key, whose c₁ is the expansion of a seed, by the coefficients of c₀. A
/// server gives some of them away; whoever gets them can decrypt the coefficients of the message at their
/// places, and nothing else.
#[derive(Debug, Clone)]
pub struct SeededCoefficients {
    c0: Poly<Coeff>,
    seed: Seed,
    level: usize,
    scale: f64,
}

impl SeededCoefficients {
    /// Reads the frame of a ciphertext with a seed, which must be at `level` and `scale`.
    ///
    /// # Errors
    /// As [`crate::read_ciphertext`]; [`Error::BadFrame`] for a ciphertext without a seed.
    pub fn read(params: &Params, key: KeyId, level: usize, scale: f64, bytes: &[u8]) -> Result<Self, Error> {
        let (c0, seed) = read_seeded_ciphertext(params, key, level, scale, bytes)?;
        Ok(SeededCoefficients { c0: c0.into_coeff(params.q_basis(level)), seed, level, scale })
    }

    /// Subtracts a message.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`], [`Error::ScaleMismatch`].
    pub fn sub_assign(&mut self, params: &Params, message: &Plaintext) -> Result<(), Error> {
        if message.level != self.level {
            return Err(Error::LevelMismatch { op: Op::Add, left: self.level, right: message.level });
        }
        if message.scale != self.scale {
            let (left, right) = (self.scale.log2(), message.scale.log2());
            return Err(Error::ScaleMismatch { op: Op::Add, left, right });
        }
        let basis = params.q_basis(self.level);
        let message = message.poly.clone().into_coeff(basis);
        self.c0.for_each_limb(|i, limb| rns::sub_assign(basis.modulus(i), limb, message.limb(i)));
        Ok(())
    }

    /// The frame of the coefficients at `places` ([`crate::read_partial_ciphertext`]), each under uniform
    /// noise of ± 2^−`bits` times the scale.
    ///
    /// # Errors
    /// [`Error::CoefficientCount`] for a place that is not below N.
    pub fn flooded_frame<R: CryptoRng>(
        &self,
        params: &Params,
        key: KeyId,
        places: &[usize],
        bits: u32,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        if let Some(got) = places.iter().find(|place| **place >= params.n()) {
            return Err(Error::CoefficientCount { got: got + 1, max: params.n() });
        }
        let basis = params.q_basis(self.level);
        let noise: Vec<i64> = places.iter().map(|_| crate::mask::flood(self.scale, bits, rng)).collect();
        let mut named = Poly::<Coeff>::zero(places.len().max(1), self.c0.limbs());
        named.for_each_limb(|i, limb| {
            let (m, all) = (basis.modulus(i), self.c0.limb(i));
            for ((x, &place), &noise) in limb.iter_mut().zip(places).zip(&noise) {
                *x = m.add(all[place], m.reduce_i128(noise.into()));
            }
        });
        let all = 0..places.len();
        Ok(write_partial_ciphertext(params, key, &named, all, &self.seed, self.level, self.scale))
    }
}
