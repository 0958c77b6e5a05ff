//! The negacyclic number theoretic transform of one limb.
//!
//! Entry i of the output is the polynomial's value at ψ^(2·bitrev(i) + 1), where ψ is a root of order 2N. The
//! automorphism X → X^g is then a permutation of the entries that does not depend on the prime.

use crate::simd::operands::{Input, Lift, NttKernel, Output, bit_reverse};
use crate::{Error, Modulus, primes, simd};
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

/// The kernel for the length `n` and the root `psi`: the vector kernel that this process runs if it has this
/// length, else the portable one.
fn kernel(modulus: Modulus, n: usize, psi: u64) -> Box<dyn NttKernel> {
    simd::vector_ntt(modulus, n, psi).unwrap_or_else(|| Box::new(PortableNtt::new(modulus, n, psi)))
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

/// The portable kernel: Cooley-Tukey and Gentleman-Sande butterflies (Longa and Naehrig 2016) with Shoup
/// products of 64-bit words, two stages in each pass over memory. Products of any word by a root are below
/// 2q, and no value is reduced between the stages of a forward transform: each stage adds less than 2q.
/// Values of an inverse transform double in each stage and are reduced only where the next sum could exceed
/// a word.
struct PortableNtt {
    modulus: Modulus,
    /// Entry i is ψ^bitrev(i).
    roots: Vec<Root>,
    inverse_roots: Vec<Root>,
    inverse_n: u64,
}

/// A residue w with its Shoup quotient ⌊w·2⁶⁴/q⌋.
#[derive(Clone, Copy)]
struct Root {
    value: u64,
    quotient: u64,
}

impl Root {
    fn new(m: &Modulus, value: u64) -> Self {
        Root { value, quotient: ((u128::from(value) << 64) / u128::from(m.value())) as u64 }
    }

    /// y·w modulo q in [0, 2q), for any word y.
    #[inline(always)]
    fn times(self, y: u64, q: u64) -> u64 {
        // The estimated quotient is short by less than y/2⁶⁴ + 1 < 2.
        let estimate = ((u128::from(y) * u128::from(self.quotient)) >> 64) as u64;
        y.wrapping_mul(self.value).wrapping_sub(estimate.wrapping_mul(q))
    }
}

/// Calls `f` on the entries i, i + stride, … of a block of W parts, for every i below stride = |block|/W.
#[inline(always)]
fn columns<const W: usize>(block: &mut [u64], f: impl Fn([u64; W]) -> [u64; W]) {
    let stride = block.len() / W;
    // A compiler that knows the bound would compute two columns at a time in vectors, where the low half of a
    // 64-bit product takes three multiplications; that is slower.
    for i in 0..std::hint::black_box(stride) {
        let out = f(std::array::from_fn(|j| block[i + j * stride]));
        out.iter().enumerate().for_each(|(j, &o)| block[i + j * stride] = o);
    }
}

impl PortableNtt {
    fn new(modulus: Modulus, n: usize, psi: u64) -> Self {
        let log_n = n.trailing_zeros();
        let powers = |base: u64| {
            let mut out = vec![Root::new(&modulus, 1); n];
            let mut p = 1;
            for i in 0..n {
                out[bit_reverse(i, log_n)] = Root::new(&modulus, p);
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

    /// The stages of a forward transform. `finish(i, v)` gives what is stored for the unreduced value v with
    /// index i.
    #[inline(always)]
    fn forward_stages(&self, limb: &mut [u64], mut finish: impl FnMut(usize, u64) -> u64) {
        let q = self.modulus.value();
        let butterfly = |x: u64, y: u64, w: Root| {
            let t = w.times(y, q);
            (x + t, x + 2 * q - t)
        };
        let four = |[a, b, c, d]: [u64; 4], w: Root, w0: Root, w1: Root| {
            let ((a, c), (b, d)) = (butterfly(a, c, w), butterfly(b, d, w));
            let ((a, b), (c, d)) = (butterfly(a, b, w0), butterfly(c, d, w1));
            [a, b, c, d]
        };
        let n = limb.len();
        // The last two stages are done together, where there are as many.
        let merged = if n >= 4 { 2 } else { 0 };
        let (mut half, mut blocks) = (n / 2, 1);
        while half > merged {
            if merged == 0 || half.trailing_zeros() % 2 == 0 {
                for (block, &w) in limb.chunks_exact_mut(2 * half).zip(&self.roots[blocks..]) {
                    columns(block, |[x, y]| butterfly(x, y, w).into());
                }
                (half, blocks) = (half / 2, 2 * blocks);
                continue;
            }
            let (first, last) = (&self.roots[blocks..], self.roots[2 * blocks..].as_chunks::<2>().0);
            for ((block, &w), &[w0, w1]) in limb.chunks_exact_mut(2 * half).zip(first).zip(last) {
                columns(block, |v| four(v, w, w0, w1));
            }
            (half, blocks) = (half / 4, 4 * blocks);
        }
        if merged == 0 {
            return limb.iter_mut().enumerate().for_each(|(i, x)| *x = finish(i, *x));
        }
        let (first, last) = (&self.roots[n / 4..n / 2], self.roots[n / 2..].as_chunks::<2>().0);
        let blocks = limb.as_chunks_mut::<4>().0.iter_mut();
        for (k, ((v, &w), &[w0, w1])) in blocks.zip(first).zip(last).enumerate() {
            let values = four(*v, w, w0, w1);
            for (j, (o, x)) in v.iter_mut().zip(values).enumerate() {
                *o = finish(4 * k + j, x);
            }
        }
    }
}

impl NttKernel for PortableNtt {
    fn forward_with(&self, limb: &mut [u64], input: Input, output: Output) {
        let (m, q) = (&self.modulus, self.modulus.value());
        // Coefficients are below `start`.
        let start = match input {
            Input::Limb => q,
            Input::Lifted(Lift::Residue { prime, .. }, from) => {
                // A multiple of q that makes all representatives positive.
                let (half, offset) = (prime / 2, (prime / 2 / q + 1) * q);
                for (o, &x) in limb.iter_mut().zip(from) {
                    *o = x + offset - (prime & u64::from(x > half).wrapping_neg());
                }
                offset + half + 1
            }
            Input::Lifted(Lift::Digit { bits, less }, from) => {
                limb.iter_mut().zip(from).for_each(|(o, &x)| *o = x + less);
                q + (1 << bits)
            }
        };
        match output {
            Output::Limb | Output::Lazy => self.forward_stages(limb, |_, v| m.reduce(v)),
            Output::Quotient(x, w) => {
                // A multiple of q that is at least any value: sixteen stages add less than 32q.
                let (above, w) = ((start / q + 33) * q, Root::new(m, w.value));
                self.forward_stages(limb, |i, v| {
                    x[i] = m.reduce_once(w.times(x[i] + above - v, q));
                    v
                });
            }
        }
    }

    fn inverse_with(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64) {
        let (m, q) = (&self.modulus, self.modulus.value());
        if let Some(values) = values {
            limb.copy_from_slice(values);
        }
        let scale = Root::new(m, m.mul(self.inverse_n, factor));
        if limb.len() < 2 {
            return limb.iter_mut().for_each(|x| *x = m.reduce_once(scale.times(*x, q)));
        }
        let butterfly = |x: u64, y: u64, w: Root, bound: u64| (x + y, w.times(x + bound - y, q));
        // Two stages on values below `bound`.
        let four = |[a, b, c, d]: [u64; 4], w0: Root, w1: Root, w: Root, bound: u64| {
            let ((a, b), (c, d)) = (butterfly(a, b, w0, bound), butterfly(c, d, w1, bound));
            let ((a, c), (b, d)) = (butterfly(a, c, w, 2 * bound), butterfly(b, d, w, 2 * bound));
            [a, b, c, d]
        };
        // Values are below 2^grown·q.
        let (mut half, mut blocks, mut grown) = (1, limb.len() / 2, 0);
        while blocks > 1 {
            let stages = if blocks == 2 { 1 } else { 2 };
            // Sums and differences of these stages and of the last one are below 2⁶⁴.
            if m.bits() + grown + stages + 1 > 64 {
                limb.iter_mut().for_each(|x| *x = m.reduce(*x));
                grown = 0;
            }
            let (bound, roots) = (q << grown, &self.inverse_roots);
            if stages == 1 {
                for (block, &w) in limb.chunks_exact_mut(2 * half).zip(&roots[blocks..]) {
                    columns(block, |[x, y]| butterfly(x, y, w, bound).into());
                }
            } else {
                let (first, last) = (roots[blocks..].as_chunks::<2>().0, &roots[blocks / 2..]);
                for ((block, &[w0, w1]), &w) in limb.chunks_exact_mut(4 * half).zip(first).zip(last) {
                    match <&mut [u64; 4]>::try_from(&mut *block) {
                        Ok(v) => *v = four(*v, w0, w1, w, bound),
                        Err(_) => columns(block, |v| four(v, w0, w1, w, bound)),
                    }
                }
            }
            (half, blocks, grown) = (half << stages, blocks >> stages, grown + stages);
        }
        // The last stage, and the factor.
        let last = Root::new(m, m.mul(scale.value, self.inverse_roots[1].value));
        columns(limb, |[x, y]| {
            let (sum, difference) = (x + y, x + (q << grown) - y);
            [m.reduce_once(scale.times(sum, q)), m.reduce_once(last.times(difference, q))]
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Permutation;
    use crate::simd::tests::{available, on};
    use rand::{Rng, SeedableRng};

    fn random(n: usize, q: u64, seed: u64) -> Vec<u64> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(|_| rng.next_u64() % q).collect()
    }

    /// Each degree, as its log₂, with primes of each of `bits` bits. In the emulator of `.ci/aarch64`, where
    /// all of them take minutes, degrees above 2¹³, which have more of the same passes, come with the widest
    /// primes of each kind of transform alone.
    fn cases(degrees: impl IntoIterator<Item = u32>, bits: &[u32]) -> impl Iterator<Item = (u32, u32)> {
        let emulated = std::env::var_os("RNS_EMULATED").is_some();
        let all = degrees.into_iter().flat_map(|log_n| bits.iter().map(move |&bits| (log_n, bits)));
        all.filter(move |&(log_n, bits)| !emulated || log_n <= 13 || [32, 35, 48, 50].contains(&bits))
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
            let tables = available().map(|kernel| on(kernel, || NttTable::new(log_n, q).unwrap()));
            for table in tables {
                let kernel = &table.kernel;
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
        let bits = &[20, 31, 32, 35, 36, 39, 42, 44, 45, 46, 47, 48, 49, 50];
        for (log_n, bits) in cases(4..=16, bits) {
            let n = 1usize << log_n;
            let Ok(q) = primes::largest(bits, 2 * n as u64, &[]) else { continue };
            pairs += 1;
            let m = Modulus::new(q).unwrap();
            let (plan, psi) = peer(n, q);
            assert_eq!(primitive_root(&m, log_n + 1), psi, "2^{log_n}, {bits} bits");
            let tables = || available().map(|kernel| on(kernel, || NttTable::new(log_n, q).unwrap()));
            let portable = PortableNtt::new(m, n, psi);
            let ends = random(n, 2, 5).iter().map(|&x| x * (q - 1)).collect();
            for a in [vec![0; n], vec![q - 1; n], ends, random(n, q, 3)] {
                let [mut slow, mut peers] = [a.clone(), a.clone()];
                portable.forward(&mut slow);
                plan.fwd(&mut peers);
                assert!(slow == peers, "forward, 2^{log_n}, {bits} bits");
                // The inverse, with `a` as values.
                let [mut slow_inverse, mut peers] = [a.clone(), a.clone()];
                portable.inverse(&mut slow_inverse);
                plan.inv(&mut peers);
                simd::mul_constant_assign(&m, &mut peers, m.constant(portable.inverse_n));
                assert!(slow_inverse == peers, "inverse, 2^{log_n}, {bits} bits");
                for (table, kernel) in tables().zip(available()) {
                    let mut ours = a.clone();
                    table.forward(&mut ours);
                    assert!(ours == slow, "{kernel}, forward, 2^{log_n}, {bits} bits");
                    table.inverse(&mut ours);
                    assert!(ours == a, "{kernel}, round trip, 2^{log_n}, {bits} bits");
                    table.inverse(&mut ours);
                    assert!(ours == slow_inverse, "{kernel}, inverse, 2^{log_n}, {bits} bits");
                }
            }
        }
        assert!(pairs > 120, "{pairs}");
    }

    /// A transform with a lifted input and a quotient output equals the lift, the transform, the difference
    /// and the product computed one by one on integers, for primes on both sides of each bound and for the
    /// extreme residues.
    #[test]
    fn inputs_are_lifted_and_outputs_divided() {
        for (log_n, bits) in cases(5..=16, &[20, 32, 40, 46, 47, 48, 49, 50]) {
            let n = 1usize << log_n;
            let Ok(q) = primes::largest(bits, 2 * n as u64, &[]) else { continue };
            for kernel in available() {
                on(kernel, || {
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
                            assert!(
                                below && made == values,
                                "unreduced, {from_bits} to {bits} bits, 2^{log_n}"
                            );
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
                            table.forward_with(
                                &mut made,
                                Input::Lifted(lift, &from),
                                Output::Quotient(&mut kept, w),
                            );
                            assert!(kept == quotient, "divided, {from_bits} to {bits} bits, 2^{log_n}");
                        }
                    }
                })
            }
        }
    }

    /// The transform of digits equals the transform of their residues, for primes on both sides of the bounds
    /// up to which digits are taken unreduced, and for both ends of the digits' range.
    #[test]
    fn digits_are_transformed_like_their_residues() {
        let bits = &[20, 32, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50];
        for (log_n, bits) in cases([4, 9, 13, 16], bits) {
            let n = 1usize << log_n;
            let Ok(q) = primes::largest(bits, 2 * n as u64, &[]) else { continue };
            for kernel in available() {
                on(kernel, || {
                    let table = NttTable::new(log_n, q).unwrap();
                    let m = *table.modulus();
                    for width in [1, 20, 41, 46, 47] {
                        let (lift, half) = (Lift::of_digit(width, &m), 1i64 << (width - 1));
                        let ends = random(n, 2, 7).iter().map(|&x| x * ((1 << width) - 1)).collect();
                        for stored in [random(n, 1 << width, 8), ends, vec![(1 << width) - 1; n], vec![0; n]]
                        {
                            let mut values: Vec<u64> = stored
                                .iter()
                                .map(|&x| (x as i64 - half).rem_euclid(q as i64) as u64)
                                .collect();
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
                            assert!(
                                kept.into_iter().eq(quotient),
                                "divided, {width} to {bits} bits, 2^{log_n}"
                            );
                        }
                    }
                })
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
        for kernel in available() {
            on(kernel, || {
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
            })
        }
    }

    #[test]
    fn bad_moduli_are_refused() {
        for q in [0, 1, 2, 97, (1 << 50) - 27, 1 << 40] {
            assert!(NttTable::new(13, q).is_err(), "{q}");
        }
    }
}
