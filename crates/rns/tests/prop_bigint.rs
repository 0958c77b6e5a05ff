//! Polynomials, base conversion and division, compared with big integers.

use num_bigint::BigInt;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::{
    AccumulatorTerms, BaseConverter, Basis, Coeff, Destination, LimbPairs, ModDown, Modulus, Ntt, NttTable,
    Output, Permutation, Poly, Radix, Rows, primes,
};
use std::sync::Arc;

const LOG_N: u32 = 5;
const N: usize = 1 << LOG_N;

/// A basis of distinct primes of these sizes for N = 32, none of them in `used`.
fn basis(bits: &[u32], used: &mut Vec<u64>) -> Basis {
    let tables = bits
        .iter()
        .map(|&b| {
            let q = primes::largest(b, 2 * N as u64, used).unwrap();
            used.push(q);
            Arc::new(NttTable::new(LOG_N, q).unwrap())
        })
        .collect();
    Basis::new(N, tables)
}

fn product(basis: &Basis) -> BigInt {
    basis.primes().map(BigInt::from).product()
}

fn residue(x: &BigInt, q: u64) -> u64 {
    let q = BigInt::from(q);
    let r = ((x % &q) + &q) % &q;
    r.try_into().unwrap()
}

fn poly(basis: &Basis, x: &[BigInt]) -> Poly<Coeff> {
    let mut out = Poly::zero(N, basis.len());
    out.for_each_limb(|i, limb| {
        let q = basis.modulus(i).value();
        limb.iter_mut().zip(x).for_each(|(r, x)| *r = residue(x, q));
    });
    out
}

/// The representatives in (−Q/2, Q/2], by the Chinese remainder theorem.
fn centred(basis: &Basis, p: &Poly<Coeff>) -> Vec<BigInt> {
    let q = product(basis);
    (0..N)
        .map(|k| {
            let x: BigInt = (0..basis.len())
                .map(|i| {
                    let m = basis.modulus(i);
                    let rest = &q / m.value();
                    let inverse = m.inv(residue(&rest, m.value()));
                    rest * m.mul(p.limb(i)[k], inverse)
                })
                .sum();
            let x = x % &q;
            if &x * 2 > q { x - &q } else { x }
        })
        .collect()
}

/// Integers uniform in (−Q/2, Q/2), together with zero, ±1 and both ends. The ends are 2⁻³⁰·Q/2 inside the
/// interval, where the floating-point correction is exact.
fn values(q: &BigInt, rng: &mut ChaCha20Rng) -> Vec<BigInt> {
    let end: BigInt = (q / 2) - (q >> 31u32);
    (0..N)
        .map(|k| match k {
            0 => BigInt::ZERO,
            1 => end.clone(),
            2 => -end.clone(),
            3 => BigInt::from(1),
            4 => BigInt::from(-1),
            _ => {
                let words: Vec<u32> = (0..24).map(|_| rng.next_u32()).collect();
                BigInt::from_slice(num_bigint::Sign::Plus, &words) % (&end * 2) - &end
            }
        })
        .collect()
}

/// The integer nearest to x/d, for odd d, so that there are no ties.
fn nearest(x: &BigInt, d: &BigInt) -> BigInt {
    let twice: BigInt = x * 2 + d;
    let d2: BigInt = d * 2;
    let q = &twice / &d2;
    if twice.sign() == num_bigint::Sign::Minus && &q * &d2 != twice { q - 1 } else { q }
}

fn schoolbook(a: &[BigInt], b: &[BigInt], q: &BigInt) -> Vec<BigInt> {
    let mut out = vec![BigInt::ZERO; N];
    for i in 0..N {
        for j in 0..N {
            let p = &a[i] * &b[j];
            if i + j < N { out[i + j] += p } else { out[i + j - N] -= p }
        }
    }
    out.iter()
        .map(|x| {
            let x = ((x % q) + q) % q;
            if &x * 2 > *q { x - q } else { x }
        })
        .collect()
}

fn views(v: &[Vec<u64>]) -> Vec<&[u64]> {
    v.iter().map(|v| &v[..]).collect()
}

fn column(v: &[Vec<u64>], i: usize) -> Vec<u64> {
    v.iter().map(|v| v[i]).collect()
}

fn sizes(count: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(20u32..=Modulus::MAX_BITS, count)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// For up to 11 primes of any size, every output limb holds the residues of the centred representative.
    #[test]
    fn base_conversion_lifts_the_centred_representative(from in sizes(1..=11), to in sizes(1..=4), seed: u64) {
        let mut used = Vec::new();
        let (from, to) = (basis(&from, &mut used), basis(&to, &mut used));
        let x = values(&product(&from), &mut ChaCha20Rng::seed_from_u64(seed));
        let (input, want) = (poly(&from, &x), poly(&to, &x));
        for converter in [BaseConverter::new(&from, &to), BaseConverter::unpacked(&from, &to)] {
            let prepared = converter.scaled_residues_coeff(&from, |i| input.limb(i));
            let pair = |i: usize| {
                let (mut a, mut b) = (vec![0; N], vec![0; N]);
                let outputs = [Output::Limb, Output::Limb];
                converter.values_pair(&to, [0, i], &prepared, [&mut a, &mut b], outputs);
                to.tables()[0].inverse(&mut a);
                to.tables()[i].inverse(&mut b);
                a == want.limb(0) && b == want.limb(i)
            };
            prop_assert!((0..to.len()).all(pair));
            for j in 0..to.len() {
                let mut out = vec![0; N];
                converter.output(&to, j, &prepared, &mut out);
                prop_assert_eq!(&out[..], want.limb(j), "prime {}", j);
            }
        }
    }

    /// An approximate conversion gives the residues of Σ yᵢ·Q/qᵢ with centred yᵢ: the same representative for
    /// every output prime, of magnitude at most k·Q/2.
    #[test]
    fn approximate_conversion_stays_within_half_of_each_prime(from in sizes(1..=11), to in sizes(1..=4), seed: u64) {
        let mut used = Vec::new();
        let (from, to) = (basis(&from, &mut used), basis(&to, &mut used));
        let q = product(&from);
        let x = values(&q, &mut ChaCha20Rng::seed_from_u64(seed));
        let input = poly(&from, &x);
        let near: Vec<BigInt> = (0..N)
            .map(|k| {
                let term = |i: usize| {
                    let (m, rest) = (from.modulus(i), &q / from.modulus(i).value());
                    let inverse = m.inv(residue(&rest, m.value()));
                    rest * m.centered(m.mul(input.limb(i)[k], inverse))
                };
                (0..from.len()).map(term).sum()
            })
            .collect();
        for (x, near) in x.iter().zip(&near) {
            prop_assert_eq!((near - x) % &q, BigInt::from(0));
            prop_assert!(near * 2 <= &q * from.len() && near * -2 <= &q * from.len());
        }
        let want = poly(&to, &near);
        let converter = BaseConverter::approximate(&from, &to);
        let prepared = converter.scaled_residues_coeff(&from, |i| input.limb(i));
        for j in 0..to.len() {
            let mut out = vec![0; N];
            converter.output(&to, j, &prepared, &mut out);
            prop_assert_eq!(&out[..], want.limb(j), "prime {}", j);
            let (mut a, mut b) = (vec![0; N], vec![0; N]);
            converter.values_pair(&to, [0, j], &prepared, [&mut a, &mut b], [Output::Limb, Output::Limb]);
            to.tables()[0].inverse(&mut a);
            to.tables()[j].inverse(&mut b);
            prop_assert!(a == want.limb(0) && b == want.limb(j));
        }
    }

    /// The digits of the base-2ʷ decomposition are in their ranges, sum to the centred representative, and
    /// are converted to any prime exactly.
    #[test]
    fn digits_sum_to_the_centred_representative(from in sizes(1..=13), to in sizes(1..=3), width in 17u32..=46, seed: u64) {
        let mut used = Vec::new();
        let (from, to) = (basis(&from, &mut used), basis(&to, &mut used));
        let q = product(&from);
        let bits = Radix::bits(&from);
        // Widths differ by one, and there are more ends than the representative needs.
        let ends: Vec<u32> = (1..=bits as u32 / width + 3).map(|t| t * width + t % 2).collect();
        let radix = Radix::new(&from, &ends).unwrap();
        let fewest = ends.iter().take_while(|&&end| f64::from(end) < bits).count() + 1;
        prop_assert_eq!(radix.digits(), fewest);
        let x = values(&q, &mut ChaCha20Rng::seed_from_u64(seed));
        let input = poly(&from, &x);
        let prepared = radix.split(&from, |i, w, out| {
            let m = from.modulus(i);
            out.iter_mut().zip(input.limb(i)).for_each(|(o, &x)| *o = m.mul(x, w));
        });
        let mut sum = vec![BigInt::ZERO; N];
        let (mut start, mut wide) = (0, Vec::new());
        for (digit, &end) in prepared.iter().zip(&ends) {
            let bits = end - start;
            let converter = BaseConverter::of_digit(bits, &to);
            // Modulo a prime wider than any digit, the centred residue is the digit.
            let widest = basis(&[50], &mut wide);
            let mut values = vec![0; N];
            BaseConverter::of_digit(bits, &widest).output(&widest, 0, digit, &mut values);
            let values: Vec<i64> = values.iter().map(|&x| widest.modulus(0).centered(x)).collect();
            let half = 1i64 << (bits - 1);
            prop_assert!(values.iter().all(|d| (-half..half).contains(d)));
            sum.iter_mut().zip(&values).for_each(|(s, &d)| *s += BigInt::from(d) << start);
            let want = poly(&to, &values.iter().map(|&d| BigInt::from(d)).collect::<Vec<_>>());
            for j in 0..to.len() {
                let mut out = vec![0; N];
                converter.output(&to, j, digit, &mut out);
                prop_assert_eq!(&out[..], want.limb(j));
                converter.values(&to, j, digit, &mut out, Output::Limb);
                to.tables()[j].inverse(&mut out);
                prop_assert_eq!(&out[..], want.limb(j));
            }
            start = end;
        }
        for (x, sum) in x.iter().zip(&sum) {
            prop_assert_eq!(x, sum);
        }
    }

    /// Division by one prime (rescaling), by several (ModDown) and by both kinds at once rounds to the
    /// nearest integer.
    #[test]
    fn division_rounds_to_the_nearest_integer(kept in sizes(1..=6), dropped in sizes(1..=5), seed: u64) {
        let mut used = Vec::new();
        let (kept, dropped) = (basis(&kept, &mut used), basis(&dropped, &mut used));
        let all = Basis::new(N, kept.tables().iter().chain(dropped.tables()).cloned().collect());
        let (q, p) = (product(&kept), product(&dropped));
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        // x = P·quotient + remainder, with any remainder in the centred range of P.
        let (quotients, remainders) = (values(&q, &mut rng), values(&p, &mut rng));
        let x: Vec<BigInt> =
            quotients.iter().zip(remainders.iter().rev()).map(|(a, b)| a * &p + b).collect();
        let want: Vec<BigInt> = x.iter().map(|x| nearest(x, &p)).collect();
        prop_assert_eq!(&want, &quotients);
        let divider = ModDown::new(&kept, &dropped);
        let input = poly(&all, &x);
        prop_assert!(divider.divide(input.into_ntt(&all)).into_coeff(&kept) == poly(&kept, &want));
    }

    /// Ring operations equal schoolbook arithmetic modulo Q.
    #[test]
    fn ring_operations_equal_the_schoolbook(bits in sizes(1..=4), k: i64, seed: u64) {
        let basis = basis(&bits, &mut Vec::new());
        let q = product(&basis);
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let (a, b) = (values(&q, &mut rng), values(&q, &mut rng));
        let (x, y) = (poly(&basis, &a), poly(&basis, &b));
        prop_assert_eq!(&centred(&basis, &x), &a);
        let combined = |f: &dyn Fn(&BigInt, &BigInt) -> BigInt| -> Vec<BigInt> {
            a.iter().zip(&b).map(|(a, b)| f(a, b)).collect()
        };
        let mut out = x.clone();
        out.add_assign(&basis, &y);
        prop_assert!(out == poly(&basis, &combined(&|a, b| a + b)));
        let mut out = x.clone();
        out.sub_assign(&basis, &y);
        prop_assert!(out == poly(&basis, &combined(&|a, b| a - b)));
        let mut out = x.clone();
        out.neg_assign(&basis);
        prop_assert!(out == poly(&basis, &combined(&|a, _| -a)));
        let mut out = x.clone();
        out.mul_integer_assign(&basis, i128::from(k) << 40);
        prop_assert!(out == poly(&basis, &combined(&|a, _| a * (BigInt::from(k) << 40))));

        let (fx, fy) = (x.clone().into_ntt(&basis), y.clone().into_ntt(&basis));
        let want = schoolbook(&a, &b, &q);
        let product = fx.mul(&basis, &fy);
        prop_assert_eq!(&centred(&basis, &product.clone().into_coeff(&basis)), &want);
        let mut assigned = fx.clone();
        assigned.mul_assign(&basis, &fy);
        prop_assert!(assigned == product);
        let mut added = fx.clone();
        added.mul_add_assign(&basis, &fx, &fy);
        let mut want_added = x.clone();
        want_added.add_assign(&basis, &poly(&basis, &want));
        prop_assert!(added.into_coeff(&basis) == want_added);
        prop_assert!(fx.into_coeff(&basis) == x);
    }

    /// Permuting the values is the substitution X → X^g, for every odd g.
    #[test]
    fn automorphisms_substitute_powers(bits in sizes(1..=3), half in 0..N as u64, seed: u64) {
        let basis = basis(&bits, &mut Vec::new());
        let g = 2 * half + 1;
        let a = values(&product(&basis), &mut ChaCha20Rng::seed_from_u64(seed));
        let mut want = vec![BigInt::ZERO; N];
        for (i, c) in a.iter().enumerate() {
            let e = i * g as usize % (2 * N);
            want[e % N] = if e < N { c.clone() } else { -c };
        }
        let got = poly(&basis, &a).into_ntt(&basis).permuted(&Permutation::of_automorphism(LOG_N, g));
        prop_assert!(got.into_coeff(&basis) == poly(&basis, &want));
    }

    /// Signed coefficients of any size are reduced to their residues.
    #[test]
    fn signed_coefficients_are_reduced(bits in sizes(1..=3), mut c in proptest::collection::vec(any::<i64>(), N)) {
        (c[0], c[1]) = (i64::MIN, i64::MAX);
        let basis = basis(&bits, &mut Vec::new());
        let want: Vec<BigInt> = c.iter().map(|&c| BigInt::from(c)).collect();
        prop_assert!(Poly::from_signed(&basis, &c) == poly(&basis, &want));
    }

    /// Up to 2¹¹ terms may be summed before the one reduction, for random and for the largest residues.
    /// Primes are taken from their whole range: for primes just below a power of two 2⁵² mod q is small,
    /// which would hide an error.
    #[test]
    fn long_lazy_sums_are_exact(log_q in 20.0f64..50.0, log_terms in 0.0f64..=10.99, largest: bool, seed: u64) {
        /// Two whole vector registers and three more entries.
        const COUNT: usize = 19;
        let terms = log_terms.exp2() as usize;
        let q = primes::nearest(log_q.exp2(), 2 * N as u64, &[]).unwrap();
        let m = Modulus::new(q).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut limb = |bound: u64| -> Vec<u64> {
            (0..COUNT).map(|_| if largest { bound - 1 } else { rng.next_u64() % bound }).collect()
        };
        let y: Vec<Vec<u64>> = (0..terms).map(|_| limb(q)).collect();
        let z: Vec<Vec<u64>> = (0..terms).map(|_| limb(q)).collect();
        // A combination takes words of up to 50 bits that are not reduced modulo q.
        let x: Vec<Vec<u64>> = (0..terms).map(|_| limb(1 << 50)).collect();
        let c: Vec<u64> = (0..terms).map(|j| y[j][0]).collect();
        let dot = |a: &[u64], b: &[u64]| -> u64 {
            a.iter().zip(b).fold(0u128, |s, (&a, &b)| (s + u128::from(a) * u128::from(b)) % u128::from(q)) as u64
        };
        let [mut o0, mut o1, mut o2] = std::array::from_fn(|_| vec![0; COUNT]);
        let stored: Vec<(&[u64], &[u64])> = y.iter().zip(&z).map(|(y, z)| (&y[..16], &z[..16])).collect();
        let pairs = LimbPairs::new(&m, &stored);
        // Digits are in the range of a lazy transform, the other terms are reduced.
        let digits: Vec<Vec<u64>> = (0..terms).map(|_| limb(1 << m.lazy_bits())).collect();
        let head: Vec<&[u64]> = digits.iter().map(|x| &x[..16]).collect();
        let added = limb(q);
        let plus = AccumulatorTerms {
            products: vec![(m.constant(q - 1), [&added[..16]; 2], [&added[..16]; 2]); 3],
            multiples: [vec![(q - 1, &added[..16]); 2], vec![(q - 1, &added[..16]); 3]],
            constant: q - 1,
        };
        rns::pair_products(&m, &mut o0[..16], &mut o1[..16], &head, pairs.whole(), &plus, Destination::default());
        rns::combine(&m, &mut o2, &Rows::Wide(views(&x)), (&c, q - 1));
        for i in 0..COUNT {
            let (yi, zi, xi) = (column(&y, i), column(&z, i), column(&x, i));
            if i < 16 {
                let (xi, a) = (column(&digits, i), added[i]);
                // A product adds −a² to the first sum and −2a² to the second, a multiple adds −a.
                let (square, less) = (m.mul(a, a), |n: u64, x: u64| m.mul(m.reduce(n), m.neg(x)));
                let more = [m.add(less(3, square), less(2, a)), m.add(less(6, square), less(3, a))];
                prop_assert_eq!(o0[i], m.sub(m.add(dot(&xi, &yi), more[0]), 1), "x·y, {} terms", terms);
                prop_assert_eq!(o1[i], m.add(dot(&xi, &zi), more[1]), "x·z, {} terms", terms);
            }
            prop_assert_eq!(o2[i], m.sub(dot(&xi, &c), 1), "combination, {} terms", terms);
        }
    }

    /// Barrett and Shoup products equal u128 arithmetic, at both ends of the range of primes and of operands.
    #[test]
    fn products_match_u128(bits in 3u32..=50, low_end: bool, a: u64, b: u64, extreme in 0u8..4) {
        // The smallest and the largest odd modulus of each size. Reduction does not need a prime.
        let q = if low_end { (1u64 << (bits - 1)) + 1 } else { (1u64 << bits) - 1 };
        let m = Modulus::new(q).unwrap();
        let a = if extreme & 1 == 1 { q - 1 } else { a % q };
        let b = if extreme & 2 == 2 { q - 1 } else { b % q };
        let slow = |x: u64, y: u64| (u128::from(x) * u128::from(y) % u128::from(q)) as u64;
        prop_assert_eq!(m.mul(a, b), slow(a, b));
        for word in [a, a | 1 << 51, (1 << 52) - 1] {
            prop_assert_eq!(m.mul_constant(word, m.constant(b)), slow(word, b));
        }
        for word in [a, b, u64::MAX] {
            prop_assert_eq!(m.reduce(word), word % q);
        }
        prop_assert_eq!(m.add(a, b), slow(1, a + b));
        prop_assert_eq!(m.sub(a, b), slow(1, a + q - b));
        prop_assert_eq!(i128::from(m.centered(a)).rem_euclid(i128::from(q)), i128::from(a));
        prop_assert!(m.centered(a).unsigned_abs() <= q / 2);
    }
}

/// A base conversion computes the multiple of Q in double precision. It is exact for every value whose
/// distance to ±Q/2 is at least 2⁻⁴⁰·Q.
#[test]
fn the_floating_point_correction_errs_only_at_the_ends() {
    for k in 1..=11 {
        let mut used = Vec::new();
        let (from, to) = (basis(&vec![50; k], &mut used), basis(&[50, 20], &mut used));
        let q = product(&from);
        let margin: BigInt = (&q >> 40u32) + 1;
        let inside: BigInt = (&q / 2) - &margin;
        let outside: BigInt = (&q / 2) + &margin;
        // Past the end of the interval, the representative is on the other side.
        let x = [inside.clone(), -inside.clone(), outside.clone(), -outside.clone()];
        let want = [inside.clone(), -inside, outside.clone() - &q, &q - outside];
        let (input, want) = (poly(&from, &x), poly(&to, &want));
        let converter = BaseConverter::new(&from, &to);
        let prepared = converter.scaled_residues_coeff(&from, |i| input.limb(i));
        for j in 0..to.len() {
            let mut out = vec![0; N];
            converter.output(&to, j, &prepared, &mut out);
            assert_eq!(out, want.limb(j), "{k} primes");
        }
    }
}

/// Uniform residues are below their prime and pass a chi-square test with 64 cells (fixed seed; false alarm
/// below 10⁻⁶ for each prime). A limb depends on its stream and the seed only, and not on the other limbs.
#[test]
fn uniform_residues_fill_their_range() {
    let mut used = Vec::new();
    let q = basis(&[20, 31, 32, 33, 49, 50], &mut used);
    let seed = [7; 32];
    let mut counts = vec![[0f64; 64]; q.len()];
    let draws = 4096;
    for stream in 0..draws / N {
        let index: Vec<usize> = (0..q.len()).map(|i| i + stream * 16).collect();
        let p: Poly<Ntt> = rns::sample::uniform_from_seed(&q, &index, &seed);
        for (i, counts) in counts.iter_mut().enumerate() {
            let prime = q.modulus(i).value();
            for &x in p.limb(i) {
                assert!(x < prime);
                counts[(u128::from(x) * 64 / u128::from(prime)) as usize] += 1.0;
            }
        }
        let first = Basis::new(N, q.tables()[..1].to_vec());
        assert_eq!(rns::sample::uniform_from_seed(&first, &index[..1], &seed).limb(0), p.limb(0));
    }
    let expected = draws as f64 / 64.0;
    for counts in counts {
        let chi2: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
        // The 1 − 10⁻⁶ quantile of chi-square with 63 degrees of freedom is 131.4.
        assert!(chi2 < 131.4, "{chi2}");
    }
}

/// Sums with as many terms as the vector kernel takes are reduced completely when every factor is the largest
/// possible.
#[test]
fn sums_at_their_bounds_are_reduced() {
    for bits in 20..=Modulus::MAX_BITS {
        let q = primes::largest(bits, 2 * N as u64, &[]).unwrap();
        let m = Modulus::new(q).unwrap();
        let (x, last) = (vec![(1 << m.lazy_bits()) - 1; 8], vec![q - 1; 8]);
        for (terms, added) in (1..=12).flat_map(|terms| (0..=3).map(move |added| (terms, added))) {
            let pairs = LimbPairs::new(&m, &vec![(&last[..], &last[..]); terms]);
            let plus = AccumulatorTerms {
                products: vec![(m.constant(q - 1), [&last[..]; 2], [&last[..]; 2]); added],
                multiples: [vec![(q - 1, &last[..]); added], vec![(q - 1, &last[..]); added]],
                constant: q - 1,
            };
            let (mut o0, mut o1) = (vec![0; 8], vec![0; 8]);
            rns::pair_products(
                &m,
                &mut o0,
                &mut o1,
                &vec![&x[..]; terms],
                pairs.whole(),
                &plus,
                Destination::default(),
            );
            // Modulo q a term is −x, a product −1 or −2, a multiple 1, and the constant −1.
            let of = |terms: usize, more: i64| {
                let sum = -i128::from(x[0]) * terms as i128 + i128::from(more);
                sum.rem_euclid(i128::from(q)) as u64
            };
            assert_eq!(o0, [of(terms, -1); 8], "{bits} bits, {terms} terms, {added} more");
            assert_eq!(o1, [of(terms, -(added as i64)); 8], "{bits} bits, {terms} terms, {added} more");
        }
    }
}
