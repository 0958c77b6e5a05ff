//! The negacyclic number theoretic transform of one limb.
//!
//! Output slot i holds the value at ψ^(2·bitrev(i)+1), so the automorphism X → Xᵍ is a permutation of
//! slots that does not depend on the prime.

use crate::{Constant, Error, Modulus, primes, simd};
use std::sync::OnceLock;

/// One implementation of the transform for one ring degree and prime. Inputs and outputs are fully
/// reduced and have length N; the inverse is scaled, so that it undoes the forward transform.
pub trait NttKernel: Send + Sync {
    /// Coefficients → values, in place.
    fn forward(&self, limb: &mut [u64]) {
        self.forward_with(limb, Input::Limb, Output::Limb);
    }
    /// The coefficients of `input` → values to `output`. Unless both are the limb, what it holds is lost.
    fn forward_with(&self, limb: &mut [u64], input: Input, output: Output);
    /// Values → coefficients, in place.
    fn inverse(&self, limb: &mut [u64]) {
        self.inverse_with(limb, None, 1);
    }
    /// `factor`, reduced, times the coefficients of `values`, or of what the limb holds, to the limb.
    fn inverse_with(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64);
}

/// Where a transform finds the coefficients.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// In the limb.
    Limb,
    /// In a limb of another prime, reduced there, or of digits.
    Lifted(Lift, &'a [u64]),
}

/// Where a transform puts the values.
#[derive(Debug)]
pub enum Output<'a> {
    /// In the limb.
    Limb,
    /// In the limb, below 2ᵇ instead of reduced, b = [`Modulus::lazy_bits`]: the last step is left to what multiplies them
    /// ([`crate::pair_products`]).
    Lazy,
    /// Takes them off this limb, and multiplies what is left: x ← (x − values)·w.
    Quotient(&'a mut [u64], Constant),
}

/// Takes small numbers to residues modulo a prime.
#[derive(Debug, Clone, Copy)]
pub enum Lift {
    /// Residues modulo another prime p, to those of the representative in (−p/2, p/2).
    Residue {
        /// p.
        prime: u64,
        /// −p: as it is if that makes a residue of what is in the upper half, or reduced.
        less: u64,
        /// Whether the sum is a residue already.
        exact: bool,
    },
    /// Digits of so many bits, at most [`crate::Radix::MAX_BITS`], each stored plus half of its range.
    Digit {
        /// b.
        bits: u32,
        /// −2ᵇ⁻¹, reduced.
        less: u64,
    },
}

impl Lift {
    /// From residues modulo `from` to residues modulo `to`.
    pub fn new(from: &Modulus, to: &Modulus) -> Self {
        let (p, q) = (from.value(), to.value());
        // ⌊p/2⌋ and q − ⌊p/2⌋ are then below q.
        let exact = p < 2 * q;
        let less = if exact { q.wrapping_sub(p) } else { to.neg(to.reduce(p)) };
        Lift::Residue { prime: p, less, exact }
    }

    /// From digits of `bits` bits to residues modulo `to`.
    pub fn of_digit(bits: u32, to: &Modulus) -> Self {
        assert!((1..=crate::Radix::MAX_BITS).contains(&bits), "no digit of {bits} bits");
        Lift::Digit { bits, less: to.neg(to.reduce(1 << (bits - 1))) }
    }

    /// Of one number. Branch-free.
    #[inline(always)]
    pub(crate) fn apply(&self, to: &Modulus, x: u64) -> u64 {
        // All terms are below 2⁵⁰.
        match *self {
            Lift::Residue { prime, less, exact } => {
                let x = x.wrapping_add(less.wrapping_mul(u64::from(x > prime / 2)));
                if exact { x } else { to.mul_constant(x, to.one) }
            }
            Lift::Digit { less, .. } => to.mul_constant(x + less, to.one),
        }
    }
}

/// A prime with its transform.
pub struct NttTable {
    modulus: Modulus,
    kernel: Box<dyn NttKernel>,
    /// Transforms of length N/2ⁱ with root ψ^(2ⁱ), made when first needed.
    sparse: [OnceLock<Box<dyn NttKernel>>; 17],
}

impl std::fmt::Debug for NttTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NttTable(q = {})", self.modulus.value())
    }
}

impl NttTable {
    /// Builds the transform of length N = 2^`log_n` modulo `q` with the kernel the machine (or
    /// `RNS_KERNEL`) asks for.
    ///
    /// # Errors
    /// [`Error::BadModulus`] unless q is a prime below 2⁵⁰ that is 1 modulo 2N, N ≥ 16.
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

    /// Coefficients → values, in place.
    pub fn forward(&self, limb: &mut [u64]) {
        self.kernel.forward(limb);
    }

    /// The coefficients of `input` → values to `output`. Unless both are the limb, what it holds is lost.
    pub fn forward_with(&self, limb: &mut [u64], input: Input, output: Output) {
        self.kernel.forward_with(limb, input, output);
    }

    /// Values → coefficients, in place.
    pub fn inverse(&self, limb: &mut [u64]) {
        self.kernel.inverse(limb);
    }

    /// `factor`, reduced, times the coefficients of `values`, or of what the limb holds, to the limb.
    pub fn inverse_with(&self, limb: &mut [u64], values: Option<&[u64]>, factor: u64) {
        self.kernel.inverse_with(limb, values, factor);
    }
}

impl NttTable {
    /// Coefficients → values of a polynomial in X^(2ᵏ), of which `coefficients` holds N/2ᵏ, in place: the value at slot i is
    /// that of the short transform at ⌊i/2ᵏ⌋, since (2·bitrev(i) + 1)·2ᵏ modulo 2N depends on the upper bits of i alone.
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

/// The kernel of this process for one length and root.
fn kernel(modulus: Modulus, n: usize, psi: u64) -> Box<dyn NttKernel> {
    #[cfg(target_arch = "x86_64")]
    if let Some(fast) = simd::VectorNtt::new(modulus, n, psi) {
        return Box::new(fast);
    }
    Box::new(PortableNtt::new(modulus, n, psi))
}

/// ψ: the root of order 2^`log_order` modulo a prime q that is 1 modulo it, found by square roots from −1 on. Which of the
/// two is taken is part of what values mean, and known answers hold it.
fn primitive_root(m: &Modulus, log_order: u32) -> u64 {
    let q = m.value();
    let two_power = (q - 1).trailing_zeros();
    let odd = (q - 1) >> two_power;
    // Half of all residues are no squares, so the search is short.
    let non_square = (2..q).find(|&z| m.pow(z, (q - 1) / 2) == q - 1).unwrap_or(q - 1);
    (1..log_order).fold(q - 1, |square, _| {
        // Tonelli and Shanks: r² = square·t throughout, and the order of t falls to 1.
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

/// Textbook Cooley-Tukey and Gentleman-Sande butterflies with Shoup constants: the second, portable kernel.
struct PortableNtt {
    modulus: Modulus,
    /// ψ^bitrev(i), as in Longa and Naehrig 2016.
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

/// The `bits` low bits of `i`, reversed.
pub fn bit_reverse(i: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) }
}

/// What X → X^g does to values: `σ(a)[i] = a[p[i]]`.
///
/// Eight values from a multiple of eight on come from eight values from a multiple of eight on: their exponents are equal
/// modulo N/4, and so are the products with g.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    indices: Vec<u32>,
    /// Where each eight values go, in eights.
    targets: Vec<u32>,
}

impl Permutation {
    /// Of the automorphism with odd exponent `element` in a ring of degree N = 2^`log_n` ≥ 8.
    pub fn of_automorphism(log_n: u32, element: u64) -> Self {
        assert!((3..32).contains(&log_n) && element % 2 == 1, "no automorphism of such a ring");
        let n = 1usize << log_n;
        let mask = 2 * n as u64 - 1;
        let source = |i| {
            let exponent = 2 * bit_reverse(i, log_n) as u64 + 1;
            let source = exponent.wrapping_mul(element) & mask;
            bit_reverse((source >> 1) as usize, log_n) as u32
        };
        let indices: Vec<u32> = (0..n).map(source).collect();
        let mut targets = vec![0; n / 8];
        indices.iter().step_by(8).zip(0..).for_each(|(&from, to)| targets[from as usize / 8] = to);
        Permutation { indices, targets }
    }

    /// p, of length N.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// Values from 8i on become those from 8·`targets()[i]` on.
    pub(crate) fn targets(&self) -> &[u32] {
        &self.targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    fn random(n: usize, q: u64, seed: u64) -> Vec<u64> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(|_| rng.next_u64() % q).collect()
    }

    /// An implementation by others, the oracle of ours; it also chose ψ, before there was ours.
    fn peer(n: usize, q: u64) -> (tfhe_ntt::prime64::Plan, u64) {
        let plan = tfhe_ntt::prime64::Plan::try_new(n, q).unwrap();
        // Slot 0 of the transform of X is ψ.
        let mut x = vec![0; n];
        x[1] = 1;
        plan.fwd(&mut x);
        (plan, x[0])
    }

    /// Products in the transform domain equal the schoolbook negacyclic product, on every kernel.
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

    /// For every degree, and primes on both sides of each bound that a kernel relies on, all kernels give the same bits,
    /// and undo themselves, for the extreme residues too.
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
                // The other way round: `a` as values.
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

    /// A transform that lifts its input and divides by its output does what lift, transform, difference and product do one by
    /// one, in whole numbers, for primes on both sides of each bound and for the extreme residues.
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

    /// Digits go into a transform as they are where its values have room for them, for primes on both sides of each bound, and
    /// come out as those of the residues, both ends of their range too.
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
