//! Sums of three squares, by which a device proves the norm of a row.

use rand::Rng;

/// Three integers whose squares add up to `m`, which is 1 modulo 4 and below 2⁶².
///
/// Every such number is a sum of three squares (Legendre). The square of a random even number is taken off
/// until a prime is left, which is 1 modulo 4 and a sum of two squares (Fermat, by Cornacchia's algorithm).
/// Of a square s² that leaves (s − a)·(s + a), which is hardly ever a prime, and nothing is drawn. The time
/// depends on the draws, and on m by the density of primes: this is for the device whose row it is.
pub fn three_squares<R: Rng>(m: u64, rng: &mut R) -> [u64; 3] {
    debug_assert!(m % 4 == 1 && m < 1 << 62);
    if m.isqrt().pow(2) == m {
        return [m.isqrt(), 0, 0];
    }
    // Too few candidates for a prime among them.
    if m < 400 {
        let squares = (0..20u64).flat_map(|a| (0..20).map(move |b| (a, b)));
        let fits = |(a, b): (u64, u64)| {
            let rest = m.checked_sub(a * a + b * b)?;
            (rest.isqrt().pow(2) == rest).then(|| [a, b, rest.isqrt()])
        };
        return squares.filter_map(fits).next().unwrap_or([0; 3]);
    }
    loop {
        let a = 2 * (rng.next_u64() % (m.isqrt() / 2 + 1));
        let q = m - a * a;
        if q % 4 == 1 && is_prime(q) {
            let [b, c] = two_squares(q);
            return [a, b, c];
        }
    }
}

/// The squares whose sum is a prime that is 1 modulo 4: the remainders below its root in Euclid's algorithm
/// for it and a root of −1.
fn two_squares(q: u64) -> [u64; 2] {
    let root = |g: u64| power(g, (q - 1) / 4, q);
    let is_root = |y: &u64| times(*y, *y, q) == q - 1;
    // Half of all g are no squares.
    let (mut u, mut v) = (q, (2..).map(root).find(is_root).unwrap_or(1));
    while u128::from(v) * u128::from(v) > u128::from(q) {
        (u, v) = (v, u % v);
    }
    [v, (q - v * v).isqrt()]
}

fn times(a: u64, b: u64, q: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(q)) as u64
}

fn power(base: u64, exponent: u64, q: u64) -> u64 {
    (0..64 - exponent.leading_zeros()).rev().fold(1, |power, bit| {
        let square = times(power, power, q);
        if exponent >> bit & 1 == 1 { times(square, base % q, q) } else { square }
    })
}

/// Miller's test with the bases that are enough below 2⁶⁴ (Sorenson, Webster 2015: the first twelve primes
/// below 3.18·10²³).
fn is_prime(q: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if q < 2 || BASES.contains(&q) || BASES.iter().any(|p| q.is_multiple_of(*p)) {
        return BASES.contains(&q);
    }
    let twos = (q - 1).trailing_zeros();
    BASES.iter().all(|base| {
        let mut x = power(*base, (q - 1) >> twos, q);
        if x == 1 || x == q - 1 {
            return true;
        }
        (1..twos).any(|_| {
            x = times(x, x, q);
            x == q - 1
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    /// Squares among them: for 529 = 23² and most others no even number leaves a prime, and a search would
    /// not end.
    #[test]
    fn squares_add_up() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let drawn: Vec<u64> = (0..300).map(|i| (rng.next_u64() >> (2 + i % 50)) / 4 * 4 + 1).collect();
        let squares = (1..2000u64).step_by(2).map(|s| s * s);
        for m in (1..2000).step_by(4).chain([1 << 34 | 1, (1 << 62) - 3]).chain(drawn).chain(squares) {
            let squares = three_squares(m, &mut rng);
            assert_eq!(squares.iter().map(|x| u128::from(*x).pow(2)).sum::<u128>(), m.into(), "{m}");
        }
    }

    /// By trial division below 2000, and by what others have published: Carmichael numbers, a strong
    /// pseudoprime to the first nine bases (OEIS A014233), and the largest prime below 2⁶⁴.
    #[test]
    fn primes_are_told_apart() {
        for q in 0..2000u64 {
            let prime = q > 1 && (2..q).all(|d| q % d != 0);
            assert_eq!(is_prime(q), prime, "{q}");
        }
        for composite in [561, 41_041, 825_265, 3_825_123_056_546_413_051, u64::MAX] {
            assert!(!is_prime(composite), "{composite}");
        }
        assert!(is_prime((1 << 61) - 1) && is_prime(u64::MAX - 58));
    }
}
