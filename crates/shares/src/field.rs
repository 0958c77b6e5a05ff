//! Integers modulo p = 2¹²⁷ − 1, in constant time.

use crate::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign};
use zeroize::Zeroize;

/// p = 2¹²⁷ − 1, a prime.
const P: u128 = (1 << 127) - 1;

/// An integer modulo p = 2¹²⁷ − 1. Arithmetic has no branches and no indices that depend on values;
/// comparisons are for numbers that were opened.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone, Copy, PartialEq, Eq, Default, Zeroize)]
pub struct Field(u128);

impl Field {
    /// 0.
    pub const ZERO: Field = Field(0);
    /// 1.
    pub const ONE: Field = Field(1);

    /// The number that is `x` modulo p.
    pub const fn new(x: u128) -> Self {
        Field(canonical(x))
    }

    /// The number that is `x` modulo p, for |x| < p.
    pub const fn from_signed(x: i128) -> Self {
        Field(canonical((x as u128).wrapping_add(P & (x >> 127) as u128)))
    }

    /// The integer from 0 below p.
    pub const fn get(self) -> u128 {
        self.0
    }

    /// The integer of least size that is this number modulo p: above −p/2 and below p/2.
    pub const fn signed(self) -> i128 {
        let negative = (((P >> 1).wrapping_sub(self.0)) as i128 >> 127) as u128;
        self.0.wrapping_sub(P & negative) as i128
    }

    /// 16 bytes, the lowest first.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Reads what [`Field::to_bytes`] writes.
    ///
    /// # Errors
    /// [`Error::NoNumber`] for p and above.
    pub fn from_bytes(bytes: [u8; 16]) -> Result<Self, Error> {
        let x = u128::from_le_bytes(bytes);
        if x < P { Ok(Field(x)) } else { Err(Error::NoNumber) }
    }

    /// This number to a power, which is public.
    pub fn pow(self, exponent: u128) -> Self {
        let bits = 128 - exponent.leading_zeros();
        (0..bits).rev().fold(Field::ONE, |power, bit| {
            let square = power * power;
            if exponent >> bit & 1 == 1 { square * self } else { square }
        })
    }

    /// The inverse, and 0 for 0: the power p − 2 = 4·(2¹²⁵ − 1) + 1.
    pub fn inverse(self) -> Self {
        let power = self.power_of_ones();
        let square = power * power;
        square * square * self
    }

    /// The inverse of [`Field::root`] of a square, and 0 for 0: the power (p − 3)/4 = 2¹²⁵ − 1.
    pub fn inverse_root(self) -> Self {
        self.power_of_ones()
    }

    /// The power 2¹²⁵ − 1, whose bits are 125 ones.
    fn power_of_ones(self) -> Self {
        // a has a bits of one and b has b: a·2^b + b has both.
        let joined = |a: Field, b: Field, bits: u32| (0..bits).fold(a, |power, _| power * power) * b;
        let two = joined(self, self, 1);
        let three = joined(two, self, 1);
        let five = joined(three, two, 2);
        let ten = joined(five, five, 5);
        let twenty = joined(ten, ten, 10);
        let forty = joined(twenty, twenty, 20);
        let eighty = joined(forty, forty, 40);
        let hundred_twenty = joined(eighty, forty, 40);
        joined(hundred_twenty, five, 5)
    }

    /// A root of a square, the one that is a square itself: the power (p + 1)/4, since p = 3 mod 4. Of what
    /// is no square it is a root of the negative.
    pub fn root(self) -> Self {
        (0..125).fold(self, |power, _| power * power)
    }
}

/// As its 16 bytes.
impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_bytes().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Field::from_bytes(<[u8; 16]>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// x mod p, by 2¹²⁷ = 1.
const fn canonical(x: u128) -> u128 {
    let x = folded(folded(x));
    // p itself is 0.
    let is_p = x.wrapping_add(1) >> 127;
    x & is_p.wrapping_sub(1)
}

/// A number that is x mod p, and at most 2¹²⁷.
const fn folded(x: u128) -> u128 {
    (x & P) + (x >> 127)
}

impl Add for Field {
    type Output = Field;

    fn add(self, other: Field) -> Field {
        Field(canonical(self.0 + other.0))
    }
}

impl Sub for Field {
    type Output = Field;

    fn sub(self, other: Field) -> Field {
        Field(canonical(self.0 + (P - other.0)))
    }
}

impl Neg for Field {
    type Output = Field;

    fn neg(self) -> Field {
        Field::ZERO - self
    }
}

impl Mul for Field {
    type Output = Field;

    fn mul(self, other: Field) -> Field {
        const LOW: u128 = u64::MAX as u128;
        let ((a0, a1), (b0, b1)) = ((self.0 & LOW, self.0 >> 64), (other.0 & LOW, other.0 >> 64));
        // a1 and b1 are below 2⁶³, so that both terms of the middle are below 2¹²⁷.
        let (low, middle, high) = (a0 * b0, a0 * b1 + a1 * b0, a1 * b1);
        // 2¹²⁸ = 2. Each sum is below 2¹²⁸: low and middle·2⁶⁴ are folded, and 2·high + 2·(middle/2⁶⁴) is
        // below 2¹²⁷ because high is at most 2¹²⁶ − 2⁶⁴ + 1.
        let sum = folded(low) + folded(middle << 64);
        Field(canonical(folded(sum) + (2 * high + 2 * (middle >> 64))))
    }
}

impl AddAssign for Field {
    fn add_assign(&mut self, other: Field) {
        *self = *self + other;
    }
}

impl SubAssign for Field {
    fn sub_assign(&mut self, other: Field) {
        *self = *self - other;
    }
}

impl Sum for Field {
    fn sum<I: Iterator<Item = Field>>(numbers: I) -> Field {
        numbers.fold(Field::ZERO, |sum, x| sum + x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    fn big(x: Field) -> BigUint {
        BigUint::from(x.get())
    }

    fn modulo(x: BigUint) -> u128 {
        u128::try_from(x % P).unwrap()
    }

    /// Numbers at the ends of words and of the field, and any others.
    fn number() -> impl Strategy<Value = Field> {
        let ends =
            [0, 1, 2, u128::from(u64::MAX), 1 << 64, P - 1, P - 2, P >> 1, (P >> 1) + 1, P - (1 << 64)];
        prop_oneof![
            prop::sample::select(ends.to_vec()).prop_map(Field::new),
            any::<u128>().prop_map(Field::new)
        ]
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_big_integers(a in number(), b in number(), any in any::<u128>()) {
            prop_assert_eq!((a + b).get(), modulo(big(a) + big(b)));
            prop_assert_eq!((a - b).get(), modulo(big(a) + P - big(b)));
            prop_assert_eq!((a * b).get(), modulo(big(a) * big(b)));
            prop_assert_eq!((-a).get(), modulo(BigUint::from(P) - big(a)));
            prop_assert_eq!(Field::new(any).get(), any % P);
            prop_assert_eq!(a.pow(any).get(), u128::try_from(big(a).modpow(&any.into(), &P.into())).unwrap());
            prop_assert_eq!(Field::from_bytes(a.to_bytes()), Ok(a));
            let (signed, back) = (a.signed(), Field::from_signed(a.signed()));
            prop_assert!(signed.unsigned_abs() <= P >> 1 && back == a);
        }

        #[test]
        fn inverses_and_roots(a in number()) {
            prop_assert_eq!(a * a.inverse(), if a == Field::ZERO { Field::ZERO } else { Field::ONE });
            let root = (a * a).root();
            prop_assert!(root == a || root == -a);
            // The root is a square itself.
            prop_assert_eq!(root.root() * root.root(), root);
            let one = if a == Field::ZERO { Field::ZERO } else { Field::ONE };
            prop_assert_eq!((a * a).inverse_root() * root, one);
        }
    }

    #[test]
    fn bytes_of_no_number_are_refused() {
        for x in [P, P + 1, u128::MAX] {
            assert_eq!(Field::from_bytes(x.to_le_bytes()), Err(Error::NoNumber));
        }
    }

    /// 3 is no square modulo p, since p = 7 mod 12.
    #[test]
    fn what_is_no_square_has_the_root_of_its_negative() {
        let three = Field::new(3);
        assert_eq!(three.root() * three.root(), -three);
    }
}
