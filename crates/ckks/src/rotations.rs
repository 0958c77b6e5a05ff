use crate::{Error, Op, Params, Plaintext};
use rns::Poly;

/// An encoded plaintext from which every rotation is taken without another encoding: the values of a rotated
/// polynomial are those of the polynomial in another order.
#[derive(Debug, Clone)]
pub struct Rotations {
    level: usize,
    scale: f64,
    /// For each limb the values at ψ^(5ʲ) for j < N/2 twice, and then those at ψ^(−5ʲ) twice.
    values: Vec<Vec<u64>>,
    /// Where each value of a limb stands among them.
    order: Vec<u32>,
}

impl Rotations {
    /// The rotations of `plaintext`.
    ///
    /// # Errors
    /// [`Error::LevelMismatch`] if `plaintext` has another ring than `params`, or more limbs than it has
    /// levels.
    pub fn new(params: &Params, plaintext: &Plaintext) -> Result<Self, Error> {
        let (n, level) = (params.n(), plaintext.level);
        if plaintext.poly.n() != n || level > params.max_level() {
            return Err(Error::LevelMismatch { op: Op::Rotate, left: level, right: params.max_level() });
        }
        // Value i is the one at the exponent 2·bitreverse(i) + 1.
        let bits = params.spec().log_n;
        let mut order = vec![0u32; n];
        let mut power = 1;
        for j in 0..n / 2 {
            for (exponent, start) in [(power, 0), (2 * n - power, n)] {
                order[rns::bit_reverse(exponent / 2, bits)] = (start + j) as u32;
            }
            power = power * 5 % (2 * n);
        }
        let limb = |i| {
            let mut out = vec![0; 2 * n];
            for (&at, &value) in order.iter().zip(plaintext.poly.limb(i)) {
                out[at as usize] = value;
                out[at as usize + n / 2] = value;
            }
            out
        };
        Ok(Rotations { level, scale: plaintext.scale, values: (0..=level).map(limb).collect(), order })
    }

    /// The plaintext whose slot j is slot j + k of the one that was encoded, as [`crate::Evaluator::rotate`]
    /// rotates ciphertexts. Takes no transform.
    pub fn rotated(&self, k: i64) -> Plaintext {
        let n = self.order.len();
        let k = k.rem_euclid(n as i64 / 2) as usize;
        let mut poly = Poly::scratch(n, self.level + 1);
        poly.for_each_limb(|i, limb| {
            let values = &self.values[i][k..];
            limb.iter_mut().zip(&self.order).for_each(|(out, &at)| *out = values[at as usize]);
        });
        Plaintext { poly, level: self.level, scale: self.scale }
    }

    /// The sum of the plaintexts that are rotated by `rotations` ([`Self::rotated`]); zero without any.
    pub fn sum(&self, params: &Params, rotations: impl IntoIterator<Item = i64>) -> Plaintext {
        let basis = params.q_basis(self.level);
        let mut rotations = rotations.into_iter();
        let mut out = match rotations.next() {
            Some(k) => self.rotated(k),
            None => {
                let poly = Poly::zero(self.order.len(), self.level + 1);
                Plaintext { poly, level: self.level, scale: self.scale }
            }
        };
        rotations.for_each(|k| out.poly.add_assign(basis, &self.rotated(k).poly));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GaloisElement;
    use num_complex::Complex64;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        /// A rotation is the automorphism of the encoded polynomial, value by value, and the encoding of the
        /// rotated slots up to the rounding of coefficients that lie between two integers.
        #[test]
        fn rotations_equal_the_encoding_of_rotated_slots(k in -600i64..1700, seed in 1u64..1 << 40) {
            let params = crate::PrefixSpec {
                large: crate::TOY_LOGN12_DEPTH21,
                log_n: 11,
                depth: 2,
                log_p: &[50],
            };
            let params = params.validate().unwrap();
            let (half, level) = (params.max_slots(), 1);
            let random = |j: usize| (seed.wrapping_mul(2 * j as u64 + 1) >> 20) as f64 / 2f64.powi(44);
            let slots: Vec<Complex64> =
                (0..half).map(|j| Complex64::new(random(j), random(j + half))).collect();
            let encoded = Plaintext::encode(&params, &slots, level).unwrap();
            let rotations = Rotations::new(&params, &encoded).unwrap();
            let rotated = rotations.rotated(k);
            let element = GaloisElement::rotation(&params, k);
            prop_assert!(rotated.poly == encoded.poly.permuted(&params.permutation(element)));
            prop_assert_eq!((rotated.level, rotated.scale), (level, params.scale(level)));
            let moved: Vec<Complex64> =
                (0..half as i64).map(|j| slots[(j + k).rem_euclid(half as i64) as usize]).collect();
            let mut difference = Plaintext::encode(&params, &moved, level).unwrap().poly;
            let basis = params.q_basis(level);
            difference.sub_assign(basis, &rotated.poly);
            let difference = difference.into_coeff(basis);
            for i in 0..=level {
                let q = basis.modulus(i).value();
                prop_assert!(difference.limb(i).iter().all(|&x| x <= 1 || x == q - 1));
            }
        }
    }

    #[test]
    fn plaintexts_of_another_ring_are_refused() {
        let large = crate::TOY_LOGN12_DEPTH21.validate().unwrap();
        let small = crate::TOY_LOGN11_SCORES.validate().unwrap();
        let of = |params: &Params, level| Plaintext::encode(params, &[Complex64::ONE], level).unwrap();
        assert!(Rotations::new(&small, &of(&large, 1)).is_err());
        assert!(Rotations::new(&small, &of(&small, 1)).is_ok());
    }
}
