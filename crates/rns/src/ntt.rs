//! The negacyclic number theoretic transform of one limb.
//!
//! Entry i of the output is the polynomial's value at ψ^(2·bitrev(i) + 1), where ψ is a root of order 2N. The
//! automorphism X → X^g is then a permutation of the entries that does not depend on the prime.

use crate::simd::operands::{Input, NttKernel, Output, bit_reverse};
use crate::{Constant, Error, Modulus, primes, simd};
use std::sync::OnceLock;

/// A prime with its transform.
pub struct NttTable {
    modulus: Modulus,
    kernel: Box<dyn NttKernel>,
    /// The transforms of length N/2ⁱ with root ψ^(2ⁱ), each built when it is first needed.
    sparse: [OnceLock<Box<dyn NttKernel>>; 17],
}

impl std::fmt::Debug for NttTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NttTable(q = {})", self.modulus.value())
    }
}

impl NttTable {
    /// Builds the transform of length N = 2^`log_n` modulo `q`, with the kernel that [`crate::kernels`]
    /// selects.
    ///
    /// # Errors
    /// [`Error::BadModulus`] unless q is a prime below 2⁵⁰ with q ≡ 1 mod 2N, and N ≥ 16.
    pub fn new(log_n: u32, q: u64) -> Result<Self, Error> {
        let n = 1usize << log_n;
        let two_n = 2 * n as u64;
        let bad = Error::BadModulus { q, max_bits: Modulus::MAX_BITS, two_n };
        let modulus = Modulus::new(q).ok_or(bad.clone())?;
        if n < 16 || q % two_n != 1 || !primes::is_prime(q) {
            return Err(bad);
        }
        let kernel = kernel(modulus, n, primitive_root(&modulus, log_n + 1));
        Ok(NttTable { modulus, kernel, sparse: std::array::from_fn(|_| OnceLock::new()) })
    }

    /// The prime.
    pub fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    /// Transforms coefficients to values, in place.
    pub fn forward(&self, limb: &mut [u64]) {
        self.kernel.forward(limb);
    }

    /// Transforms as [`NttKernel::forward_with`].
    pub fn forward_with(&self, limb: &mut [u64], input: Input, output: Output) {
        self.kernel.forward_with(limb, input, output);
    }

    /// Transforms values to coefficients, in place.
    pub fn inverse(&self, limb: &mut [u64]) {
        self.kernel.inverse(limb);
    }

    /// Transforms as [`NttKernel::inverse_with`].
    pub fn inverse_with(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64) {
        self.kernel.inverse_with(limb, values, factor);
    }
}

impl NttTable {
    /// Transforms a polynomial in X^(2ᵏ) from its N/2ᵏ coefficients to its N/2ᵏ distinct values, in place.
    /// Value i of the full transform is entry ⌊i/2ᵏ⌋ of the result, because (2·bitrev(i) + 1)·2ᵏ mod 2N
    /// depends only on the upper bits of i.
    pub fn forward_short(&self, n: usize, coefficients: &mut [u64]) {
        let stride = n / coefficients.len();
        if stride == 1 {
            return self.forward(coefficients);
        }
        let short = self.sparse[stride.trailing_zeros() as usize].get_or_init(|| {
            let mut x = vec![0; n];
            x[stride] = 1;
            self.forward(&mut x);
            kernel(self.modulus, coefficients.len(), x[0])
        });
        short.forward(coefficients);
    }
}

/// The kernel for the length `n` and the root `psi`: the vector kernel if this process runs it, else the
/// portable one.
fn kernel(modulus: Modulus, n: usize, psi: u64) -> Box<dyn NttKernel> {
    #[cfg(target_arch = "x86_64")]
    if let Some(fast) = simd::VectorNtt::new(modulus, n, psi) {
        return Box::new(fast);
    }
    Box::new(PortableNtt::new(modulus, n, psi))
}

/// The root ψ of order 2^`log_order` modulo a prime q ≡ 1 mod 2^`log_order`: the result of log_order − 1
/// square roots, starting from −1. Which of the two square roots is taken determines the meaning of stored
/// values, so it must not change; the known answers pin it.
fn primitive_root(m: &Modulus, log_order: u32) -> u64 {
    let q = m.value();
    let two_power = (q - 1).trailing_zeros();
    let odd = (q - 1) >> two_power;
    // Half of all residues are non-squares, so the search is short.
    let non_square = (2..q).find(|&z| m.pow(z, (q - 1) / 2) == q - 1).unwrap_or(q - 1);
    (1..log_order).fold(q - 1, |square, _| {
        // Tonelli-Shanks: r² = square·t holds throughout, and the order of t decreases to 1.
        let (mut c, mut bits) = (m.pow(non_square, odd), two_power);
        let (mut t, mut r) = (m.pow(square, odd), m.pow(square, odd.div_ceil(2)));
        while t != 1 {
            let order = (1..bits).scan(t, |x, _| {
                *x = m.mul(*x, *x);
                Some(*x)
            });
            let i = 1 + order.take_while(|&x| x != 1).count() as u32;
            let b = m.pow(c, 1 << (bits - i - 1));
            (bits, c) = (i, m.mul(b, b));
            (t, r) = (m.mul(t, c), m.mul(r, b));
        }
        r
    })
}

/// The portable kernel: Cooley-Tukey and Gentleman-Sande butterflies with Shoup multiplication (Longa and
/// Naehrig 2016).
struct PortableNtt {
    modulus: Modulus,
    /// Entry i is ψ^bitrev(i).
    roots: Vec<Constant>,
    inverse_roots: Vec<Constant>,
    inverse_n: u64,
}

impl PortableNtt {
    fn new(modulus: Modulus, n: usize, psi: u64) -> Self {
        let log_n = n.trailing_zeros();
        let powers = |base: u64| {
            let mut out = vec![modulus.constant(1); n];
            let mut p = 1;
            for i in 0..n {
                out[bit_reverse(i, log_n)] = modulus.constant(p);
                p = modulus.mul(p, base);
            }
            out
        };
        PortableNtt {
            modulus,
            roots: powers(psi),
            inverse_roots: powers(modulus.inv(psi)),
            inverse_n: modulus.inv(n as u64),
        }
    }
}

impl NttKernel for PortableNtt {
    fn forward_with(&self, limb: &mut [u64], input: Input, output: Output) {
        let q = &self.modulus;
        if let Input::Lifted(lift, from) = input {
            simd::lift_into(q, limb, from, lift);
        }
        let mut half = limb.len() / 2;
        let mut blocks = 1;
        while half > 0 {
            for (block, w) in limb.chunks_exact_mut(2 * half).zip(&self.roots[blocks..]) {
                let (low, high) = block.split_at_mut(half);
                for (x, y) in low.iter_mut().zip(high) {
                    let t = q.mul_constant(*y, *w);
                    (*x, *y) = (q.add(*x, t), q.sub(*x, t));
                }
            }
            half /= 2;
            blocks *= 2;
        }
        if let Output::Quotient(x, w) = output {
            simd::sub_mul_constant_assign(q, x, limb, w);
        }
    }

    fn inverse_with(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64) {
        let q = &self.modulus;
        if let Some(values) = values {
            limb.copy_from_slice(values);
        }
        let mut half = 1;
        let mut blocks = limb.len() / 2;
        while blocks > 0 {
            for (block, w) in limb.chunks_exact_mut(2 * half).zip(&self.inverse_roots[blocks..]) {
                let (low, high) = block.split_at_mut(half);
                for (x, y) in low.iter_mut().zip(high) {
                    (*x, *y) = (q.add(*x, *y), q.mul_constant(q.sub(*x, *y), *w));
                }
            }
            half *= 2;
            blocks /= 2;
        }
        let last = q.constant(q.mul(self.inverse_n, factor));
        for x in limb {
            *x = q.mul_constant(*x, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lift, Permutation};
    use rand::{Rng, SeedableRng};

    fn random(n: usize, q: u64, seed: u64) -> Vec<u64> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(|_| rng.next_u64() % q).collect()
    }

    /// The transform of `tfhe-ntt`, an independent implementation, and its root ψ.
    fn peer(n: usize, q: u64) -> (tfhe_ntt::prime64::Plan, u64) {
        let plan = tfhe_ntt::prime64::Plan::try_new(n, q).unwrap();
        // Entry 0 of the transform of X is ψ.
        let mut x = vec![0; n];
        x[1] = 1;
        plan.fwd(&mut x);
        (plan, x[0])
    }

    /// On every kernel, products in the value domain equal the schoolbook negacyclic product.
    #[test]
    fn kernels_multiply_like_the_schoolbook() {
        for (log_n, bits) in [5, 6, 9].into_iter().flat_map(|l| [20, 32, 42, 46, 49, 50].map(|b| (l, b))) {
            let n = 1usize << log_n;
            let q = primes::largest(bits, 2 * n as u64, &[]).unwrap();
            let m = Modulus::new(q).unwrap();
            let (a, b) = (random(n, q, 1), random(n, q, 2));
            let mut slow = vec![0; n];
            for (i, &x) in a.iter().enumerate() {
                for (j, &y) in b.iter().enumerate() {
                    let p = m.mul(x, y);
                    let k = (i + j) % n;
                    slow[k] = if i + j < n { m.add(slow[k], p) } else { m.sub(slow[k], p) };
                }
            }
            let portable = PortableNtt::new(m, n, peer(n, q).1);
            let table = NttTable::new(log_n, q).unwrap();
            for kernel in [&portable as &dyn NttKernel, &*table.kernel] {
                let (mut fa, mut fb) = (a.clone(), b.clone());
                kernel.forward(&mut fa);
                kernel.forward(&mut fb);
                let mut product: Vec<u64> = fa.iter().zip(&fb).map(|(&x, &y)| m.mul(x, y)).collect();
                kernel.inverse(&mut product);
                assert_eq!(product, slow, "{bits} bits");
            }
        }
    }

    /// All kernels give the same bits, and the inverse undoes the forward transform, for every degree, for
    /// primes on both sides of each bound that a kernel relies on, and for the extreme residues.
    #[test]
    fn kernels_agree_bit_for_bit() {
        let mut pairs = 0;
        for (log_n, bits) in
            (4..=16).flat_map(|l| [20, 31, 32, 35, 36, 39, 42, 44, 45, 46, 47, 49, 50].map(|b| (l, b)))
        {
            let n = 1usize << log_n;
            let Ok(q) = primes::largest(bits, 2 * n as u64, &[]) else { continue };
            pairs += 1;
            let m = Modulus::new(q).unwrap();
            let (plan, psi) = peer(n, q);
            assert_eq!(primitive_root(&m, log_n + 1), psi, "2^{log_n}, {bits} bits");
            let (table, portable) = (NttTable::new(log_n, q).unwrap(), PortableNtt::new(m, n, psi));
            let ends = random(n, 2, 5).iter().map(|&x| x * (q - 1)).collect();
            for a in [vec![0; n], vec![q - 1; n], ends, random(n, q, 3)] {
                let [mut ours, mut slow, mut peers] = [a.clone(), a.clone(), a.clone()];
                table.forward(&mut ours);
                portable.forward(&mut slow);
                plan.fwd(&mut peers);
                assert!(ours == slow && ours == peers, "forward, 2^{log_n}, {bits} bits");
                table.inverse(&mut ours);
                assert!(ours == a, "round trip, 2^{log_n}, {bits} bits");
                // The inverse, with `a` as values.
                let [mut ours, mut slow, mut peers] = [a.clone(), a.clone(), a.clone()];
                table.inverse(&mut ours);
                portable.inverse(&mut slow);
                plan.inv(&mut peers);
                simd::mul_constant_assign(&m, &mut peers, m.constant(portable.inverse_n));
                assert!(ours == slow && ours == peers, "inverse, 2^{log_n}, {bits} bits");
                table.forward(&mut ours);
                assert!(ours == a, "round trip, 2^{log_n}, {bits} bits");
            }
        }
        assert!(pairs > 120, "{pairs}");
    }

    /// A transform with a lifted input and a quotient output equals the lift, the transform, the difference
    /// and the product computed one by one on integers, for primes on both sides of each bound and for the
    /// extreme residues.
    #[test]
    fn inputs_are_lifted_and_outputs_divided() {
        for (log_n, bits) in (5..=16).flat_map(|l| [20, 32, 40, 46, 47, 50].map(|b| (l, b))) {
            let n = 1usize << log_n;
            let Ok(q) = primes::largest(bits, 2 * n as u64, &[]) else { continue };
            let table = NttTable::new(log_n, q).unwrap();
            let m = *table.modulus();
            for from_bits in [24, 40, 50] {
                let p = primes::largest(from_bits, 2 * n as u64, &[q]).unwrap();
                let lift = Lift::new(&Modulus::new(p).unwrap(), &m);
                let mut from = random(n, p, 5);
                from[..4].copy_from_slice(&[0, p / 2, p / 2 + 1, p - 1]);
                let mut x = random(n, q, 6);
                x.iter_mut().step_by(3).for_each(|x| *x = 0);
                x.iter_mut().skip(1).step_by(3).for_each(|x| *x = q - 1);
                for from in [from, vec![p - 1; n], vec![p / 2; n]] {
                    let centred = |&y: &u64| if y > p / 2 { y as i64 - p as i64 } else { y as i64 };
                    let mut values: Vec<u64> =
                        from.iter().map(|y| centred(y).rem_euclid(q as i64) as u64).collect();
                    table.forward(&mut values);
                    let mut made = vec![7; n];
                    table.forward_with(&mut made, Input::Lifted(lift, &from), Output::Limb);
                    assert!(made == values, "lifted from {from_bits} to {bits} bits, 2^{log_n}");
                    table.forward_with(&mut made, Input::Lifted(lift, &from), Output::Lazy);
                    let below = made.iter().all(|x| x >> m.lazy_bits() == 0);
                    made.iter_mut().for_each(|x| *x %= q);
                    assert!(below && made == values, "unreduced, {from_bits} to {bits} bits, 2^{log_n}");
                    let w = m.constant(q - 2);
                    table.inverse_with(&mut made, Some(&values), w.value);
                    let scaled = |y| m.mul(centred(y).rem_euclid(q as i64) as u64, w.value);
                    assert!(
                        from.iter().map(scaled).eq(made.iter().copied()),
                        "scaled, {bits} bits, 2^{log_n}"
                    );
                    let quotient: Vec<u64> =
                        x.iter().zip(&values).map(|(&x, &v)| m.mul(m.sub(x, v), w.value)).collect();
                    let mut kept = x.clone();
                    table.forward_with(&mut made, Input::Lifted(lift, &from), Output::Quotient(&mut kept, w));
                    assert!(kept == quotient, "divided, {from_bits} to {bits} bits, 2^{log_n}");
                }
            }
        }
    }

    /// The transform of digits equals the transform of their residues, for primes on both sides of the bounds
    /// up to which digits are taken unreduced, and for both ends of the digits' range.
    #[test]
    fn digits_are_transformed_like_their_residues() {
        for (log_n, bits) in [4, 9, 13, 16]
            .into_iter()
            .flat_map(|l| [20, 32, 40, 41, 42, 43, 44, 45, 46, 47, 48, 50].map(|b| (l, b)))
        {
            let n = 1usize << log_n;
            let Ok(q) = primes::largest(bits, 2 * n as u64, &[]) else { continue };
            let table = NttTable::new(log_n, q).unwrap();
            let m = *table.modulus();
            for width in [1, 20, 41, 46, 47] {
                let (lift, half) = (Lift::of_digit(width, &m), 1i64 << (width - 1));
                let ends = random(n, 2, 7).iter().map(|&x| x * ((1 << width) - 1)).collect();
                for stored in [random(n, 1 << width, 8), ends, vec![(1 << width) - 1; n], vec![0; n]] {
                    let mut values: Vec<u64> =
                        stored.iter().map(|&x| (x as i64 - half).rem_euclid(q as i64) as u64).collect();
                    let mut made = vec![7; n];
                    simd::lift_into(&m, &mut made, &stored, lift);
                    assert!(made == values, "lifted, {width} to {bits} bits");
                    table.forward(&mut values);
                    table.forward_with(&mut made, Input::Lifted(lift, &stored), Output::Limb);
                    assert!(made == values, "{width} to {bits} bits, 2^{log_n}");
                    table.forward_with(&mut made, Input::Lifted(lift, &stored), Output::Lazy);
                    let below = made.iter().all(|x| x >> m.lazy_bits() == 0);
                    made.iter_mut().for_each(|x| *x %= q);
                    assert!(below && made == values, "unreduced, {width} to {bits} bits, 2^{log_n}");
                    let w = m.constant(q - 2);
                    let x = random(n, q, 9);
                    let mut kept = x.clone();
                    table.forward_with(
                        &mut made,
                        Input::Lifted(lift, &stored),
                        Output::Quotient(&mut kept, w),
                    );
                    let quotient = x.iter().zip(&values).map(|(&x, &v)| m.mul(m.sub(x, v), w.value));
                    assert!(kept.into_iter().eq(quotient), "divided, {width} to {bits} bits, 2^{log_n}");
                }
            }
        }
    }

    #[test]
    fn automorphism_permutes_values() {
        let (log_n, n, element) = (6, 64usize, 5u64);
        let q = primes::largest(40, 2 * n as u64, &[]).unwrap();
        let table = NttTable::new(log_n, q).unwrap();
        let a = random(n, q, 4);
        let mut rotated = vec![0; n];
        for (i, &c) in a.iter().enumerate() {
            let e = (i as u64 * element) % (2 * n as u64);
            rotated[e as usize % n] = if e < n as u64 { c } else { table.modulus().neg(c) };
        }
        let mut values = a;
        table.forward(&mut values);
        table.forward(&mut rotated);
        let permutation = Permutation::of_automorphism(log_n, element);
        let permuted: Vec<u64> = permutation.indices().iter().map(|&i| values[i as usize]).collect();
        assert_eq!(permuted, rotated);
    }

    #[test]
    fn short_transform_equals_the_full_one() {
        let (log_n, n) = (12, 4096usize);
        let q = primes::largest(42, 2 * n as u64, &[]).unwrap();
        let table = NttTable::new(log_n, q).unwrap();
        for log_stride in [0, 1, 2, 4, 6, 8] {
            let stride = 1 << log_stride;
            let mut short = random(n / stride, q, 9);
            let mut full = vec![0; n];
            short.iter().enumerate().for_each(|(i, &c)| full[i * stride] = c);
            table.forward(&mut full);
            table.forward_short(n, &mut short);
            let got: Vec<u64> = (0..n).map(|i| short[i / stride]).collect();
            assert_eq!(got, full, "stride {stride}");
        }
    }

    #[test]
    fn bad_moduli_are_refused() {
        for q in [0, 1, 2, 97, (1 << 50) - 27, 1 << 40] {
            assert!(NttTable::new(13, q).is_err(), "{q}");
        }
    }
}
