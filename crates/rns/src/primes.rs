//! NTT-friendly primes. The search is deterministic, so that a size, a ring degree and the primes already in
//! use determine the next prime.

use crate::{Error, Modulus};

/// Whether `n` is prime: Miller-Rabin with the twelve prime bases up to 37, which is exact for every 64-bit
/// number.
pub fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    for b in BASES {
        if n.is_multiple_of(b) {
            return n == b;
        }
    }
    let mul = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) % u128::from(n)) as u64;
    let pow = |mut a: u64, mut e: u64| {
        let mut r = 1;
        while e > 0 {
            if e & 1 == 1 {
                r = mul(r, a);
            }
            a = mul(a, a);
            e >>= 1;
        }
        r
    };
    let s = (n - 1).trailing_zeros();
    let d = (n - 1) >> s;
    BASES.iter().all(|&b| {
        let mut x = pow(b, d);
        if x == 1 || x == n - 1 {
            return true;
        }
        for _ in 1..s {
            x = mul(x, x);
            if x == n - 1 {
                return true;
            }
        }
        false
    })
}

/// The prime ≡ 1 mod 2N nearest to `target` that is not in `used`. Of two at the same distance it is the
/// smaller.
///
/// # Errors
/// [`Error::NoPrime`] if there is none between `target`/2 and 2·`target` below 2⁵⁰.
pub fn nearest(target: f64, two_n: u64, used: &[u64]) -> Result<u64, Error> {
    let bits = target.log2().ceil() as u32;
    let none = Error::NoPrime { bits, two_n };
    let limit = 1u64 << Modulus::MAX_BITS;
    let centre = ((target / two_n as f64).round() as u64) * two_n + 1;
    let good = |c: u64| c < limit && !used.contains(&c) && is_prime(c);
    let steps = (target / 2.0 / two_n as f64) as u64;
    for k in 0..=steps {
        let (down, up) = (centre.checked_sub(k * two_n), centre + k * two_n);
        if let Some(d) = down.filter(|&d| d as f64 >= target / 2.0 && good(d)) {
            return Ok(d);
        }
        if (up as f64) < target * 2.0 && good(up) {
            return Ok(up);
        }
    }
    Err(none)
}

/// The largest prime below 2^`bits` that is ≡ 1 mod 2N and not in `used`.
///
/// # Errors
/// [`Error::NoPrime`] if there is none of exactly `bits` bits.
pub fn largest(bits: u32, two_n: u64, used: &[u64]) -> Result<u64, Error> {
    let none = Error::NoPrime { bits, two_n };
    if !(2..=Modulus::MAX_BITS).contains(&bits) {
        return Err(none);
    }
    let (low, high) = (1u64 << (bits - 1), 1u64 << bits);
    let mut c = (high - 1) / two_n * two_n + 1;
    if c >= high {
        c = c.checked_sub(two_n).ok_or(none.clone())?;
    }
    while c > low {
        if !used.contains(&c) && is_prime(c) {
            return Ok(c);
        }
        match c.checked_sub(two_n) {
            Some(next) => c = next,
            None => break,
        }
    }
    Err(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_prime_agrees_with_trial_division() {
        for n in 0..5000u64 {
            let slow = n >= 2 && (2..n).take_while(|d| d * d <= n).all(|d| n % d != 0);
            assert_eq!(is_prime(n), slow, "{n}");
        }
        // A strong pseudoprime to the bases 2, 3, 5 and 7.
        assert!(!is_prime(3_215_031_751));
        assert!(is_prime((1 << 61) - 1));
    }

    #[test]
    fn primes_have_the_size_and_residue_asked_for() {
        let mut used = Vec::new();
        for bits in [30, 32, 42, 50, 50, 50] {
            let q = largest(bits, 1 << 16, &used).unwrap();
            assert!(
                is_prime(q) && q % (1 << 16) == 1 && 64 - q.leading_zeros() == bits && !used.contains(&q)
            );
            used.push(q);
        }
        let q = nearest(4294967296.0, 1 << 16, &[]).unwrap();
        assert!(is_prime(q) && (q as f64 / 4294967296.0 - 1.0).abs() < 1e-3);
        assert!(largest(51, 1 << 16, &[]).is_err() && largest(16, 1 << 16, &[]).is_err());
    }
}
