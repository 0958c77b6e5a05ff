//! Nonnegative rationals, always in lowest terms.

use crate::Error;
use fault::require;
use serde::{Deserialize, Serialize};

/// A nonnegative rational `num / den` in lowest terms. Operations are exact; one that exceeds 128 bits fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(u128, u128)", into = "(u128, u128)")]
pub struct Ratio {
    num: u128,
    den: u128,
}

impl Ratio {
    /// Zero.
    pub const ZERO: Self = Self { num: 0, den: 1 };
    /// One.
    pub const ONE: Self = Self { num: 1, den: 1 };

    /// `num / den`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `den` is 0.
    pub fn new(num: u128, den: u128) -> Result<Self, Error> {
        require(den > 0, "denominator", 0, "at least 1")?;
        Ok(Self::reduced(num, den))
    }

    /// The whole number `n`.
    pub const fn integer(n: u64) -> Self {
        Self { num: n as u128, den: 1 }
    }

    /// The exact value of the double `x`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `x` is negative or not finite; [`Error::Overflow`] below about `2^-127` or
    /// above `2^128`.
    pub fn from_f64(x: f64) -> Result<Self, Error> {
        require(x.is_finite() && x >= 0.0, "rational", x, "finite and not negative")?;
        if x == 0.0 {
            return Ok(Self::ZERO);
        }
        let bits = x.to_bits();
        let (exponent, fraction) = ((bits >> 52) as i32, u128::from(bits & ((1 << 52) - 1)));
        let (mantissa, power) =
            if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
        let (mantissa, power) =
            (mantissa >> mantissa.trailing_zeros(), power + mantissa.trailing_zeros() as i32);
        let overflow = Error::Overflow { what: "a double as a rational", bits: 128 };
        match u32::try_from(power) {
            Ok(up) if up <= mantissa.leading_zeros() => Ok(Self { num: mantissa << up, den: 1 }),
            Err(_) if power > -128 => Ok(Self { num: mantissa, den: 1 << -power }),
            _ => Err(overflow),
        }
    }

    fn reduced(num: u128, den: u128) -> Self {
        let d = gcd(num, den);
        Self { num: num / d, den: den / d }
    }

    /// Numerator in lowest terms.
    pub const fn num(self) -> u128 {
        self.num
    }

    /// Denominator in lowest terms, at least 1.
    pub const fn den(self) -> u128 {
        self.den
    }

    /// The largest integer that is at most this number.
    pub const fn floor(self) -> u128 {
        self.num / self.den
    }

    /// The difference to [`floor`](Self::floor), below 1.
    pub const fn fract(self) -> Self {
        Self { num: self.num % self.den, den: self.den }
    }

    /// Whether this number is at most 1.
    pub const fn at_most_one(self) -> bool {
        self.num <= self.den
    }

    /// This number, which is at least 1, less 1.
    pub(crate) const fn less_one(self) -> Self {
        Self { num: self.num - self.den, den: self.den }
    }

    /// The product.
    ///
    /// # Errors
    /// [`Error::Overflow`] if it exceeds 128 bits.
    pub fn times(self, other: Self) -> Result<Self, Error> {
        // Reducing crosswise gives the result in lowest terms, with the smallest possible products.
        let (a, b) = (Self::reduced(self.num, other.den), Self::reduced(other.num, self.den));
        match (a.num.checked_mul(b.num), a.den.checked_mul(b.den)) {
            (Some(num), Some(den)) => Ok(Self { num, den }),
            _ => Err(Error::Overflow { what: "a product of rationals", bits: 128 }),
        }
    }

    /// The quotient.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `other` is 0, [`Error::Overflow`].
    pub fn over(self, other: Self) -> Result<Self, Error> {
        self.times(other.inverse()?)
    }

    /// The reciprocal.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if this number is 0.
    pub fn inverse(self) -> Result<Self, Error> {
        require(self.num > 0, "divisor", 0, "above 0")?;
        Ok(Self { num: self.den, den: self.num })
    }

    /// This number divided by `n`: one division, where [`Self::over`] computes two greatest common divisors.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `n` is 0, [`Error::Overflow`].
    pub fn divided_by(self, n: u64) -> Result<Self, Error> {
        require(n > 0, "divisor", 0, "above 0")?;
        // Nothing of the numerator divides the denominator.
        let common = u128::from(gcd_small((self.num % u128::from(n)) as u64, n));
        match self.den.checked_mul(u128::from(n) / common) {
            Some(den) => Ok(Self { num: self.num / common, den }),
            None => Err(Error::Overflow { what: "a quotient of rationals", bits: 128 }),
        }
    }

    /// The nearest double, to within two units in the last place.
    pub fn to_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }
}

impl From<u64> for Ratio {
    fn from(n: u64) -> Self {
        Self::integer(n)
    }
}

impl TryFrom<(u128, u128)> for Ratio {
    type Error = Error;
    fn try_from((num, den): (u128, u128)) -> Result<Self, Error> {
        Self::new(num, den)
    }
}

impl From<Ratio> for (u128, u128) {
    fn from(r: Ratio) -> Self {
        (r.num, r.den)
    }
}

/// Greatest common divisor; `den` is not 0.
fn gcd(mut a: u128, mut b: u128) -> u128 {
    while a != 0 {
        if let (Ok(x), Ok(y)) = (u64::try_from(a), u64::try_from(b)) {
            return u128::from(gcd_small(x, y));
        }
        (a, b) = (b % a, a);
    }
    b
}

/// The binary algorithm of Stein, without divisions.
fn gcd_small(a: u64, mut b: u64) -> u64 {
    if a == 0 || b == 0 {
        return a | b;
    }
    let common = (a | b).trailing_zeros();
    let mut a = a >> a.trailing_zeros();
    while b != 0 {
        b >>= b.trailing_zeros();
        (a, b) = (a.min(b), a.abs_diff(b));
    }
    a << common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_taken_exactly() {
        let exact = |x: f64| Ratio::from_f64(x).map(|r| (r.num(), r.den()));
        assert_eq!(exact(0.0), Ok((0, 1)));
        assert_eq!(exact(0.375), Ok((3, 8)));
        assert_eq!(exact(0.1), Ok((3_602_879_701_896_397, 1 << 55)));
        assert_eq!(exact(2f64.powi(127)), Ok((1 << 127, 1)));
        assert_eq!(exact(2f64.powi(-127)), Ok((1, 1 << 127)));
        assert!(matches!(exact(2f64.powi(128)), Err(Error::Overflow { .. })));
        assert!(matches!(exact(f64::MIN_POSITIVE / 8.0), Err(Error::Overflow { .. })));
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(exact(bad), Err(Error::OutOfRange(_))));
        }
    }

    #[test]
    fn arithmetic_stays_in_lowest_terms_or_refuses() {
        let r = |a, b| Ratio::new(a, b).unwrap();
        assert_eq!(r(6, 4), r(3, 2));
        assert_eq!(r(3, 4).times(r(2, 9)), Ok(r(1, 6)));
        assert_eq!(r(3, 4).over(r(9, 2)), Ok(r(1, 6)));
        assert_eq!((r(7, 2).floor(), r(7, 2).fract()), (3, r(1, 2)));
        let huge = r(u128::MAX, 2);
        assert!(matches!(huge.times(huge), Err(Error::Overflow { .. })));
        assert!(Ratio::new(1, 0).is_err() && Ratio::ONE.over(Ratio::ZERO).is_err());
        assert!(serde_json::from_str::<Ratio>("[1,0]").is_err());
        assert_eq!(
            serde_json::from_str::<Ratio>(&serde_json::to_string(&r(6, 4)).unwrap()).unwrap(),
            r(3, 2)
        );
    }

    /// Divisors are those of Euclid's algorithm, and a quotient by a whole number is that of rationals.
    #[test]
    fn quotients_are_in_lowest_terms() {
        fn euclid(a: u128, b: u128) -> u128 {
            if a == 0 { b } else { euclid(b % a, a) }
        }
        let words =
            (0..400u32).map(|i| u128::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834));
        let numbers: Vec<u128> = words.map(|word| word >> (word % 120)).chain([0, 1, 2, 3 << 90]).collect();
        for (i, &a) in numbers.iter().enumerate() {
            let b = numbers[(i * 7 + 3) % numbers.len()].max(1);
            assert_eq!(gcd(a, b), euclid(a, b), "{a}, {b}");
            let (a, b) = (a >> 32, b >> 32 | 1);
            let ratio = Ratio::new(a, b).unwrap();
            for n in [1, 2, 3, 12, 1 << 31, 4_294_967_291] {
                let apart = Ratio::new(a, b).unwrap().over(Ratio::integer(n));
                assert_eq!(ratio.divided_by(n), apart, "{a}, {b}, {n}");
            }
            if a >= b {
                assert_eq!(ratio.less_one(), Ratio::new(a - b, b).unwrap());
            }
        }
        assert!(Ratio::ONE.divided_by(0).is_err());
        assert!(Ratio::new(1, u128::MAX).unwrap().divided_by(2).is_err());
    }
}
