//! The negacyclic number theoretic transform of one limb.
//!
//! Output slot i holds the value at ψ^(2·bitrev(i)+1), so the automorphism X → Xᵍ is a permutation of
//! slots that does not depend on the prime.

use crate::{Error, Modulus, simd};
use std::sync::OnceLock;

/// One implementation of the transform for one ring degree and prime. Inputs and outputs are fully
/// reduced and have length N; the inverse is scaled, so that it undoes the forward transform.
pub trait NttKernel: Send + Sync {
    /// Coefficients → values, in place.
    fn forward(&self, limb: &mut [u64]);
    /// Values → coefficients, in place.
    fn inverse(&self, limb: &mut [u64]);
}

/// A prime with its transform.
pub struct NttTable {
    modulus: Modulus,
    kernel: Box<dyn NttKernel>,
    /// Transforms of length N/2ⁱ with root ψ^(2ⁱ), made when first needed.
    sparse: [OnceLock<PortableNtt>; 17],
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
        let bad = Error::BadModulus { q, max_bits: Modulus::MAX_BITS, two_n: 2 * n as u64 };
        let modulus = Modulus::new(q).ok_or(bad.clone())?;
        let plan = tfhe_ntt::prime64::Plan::try_new(n, q).ok_or(bad)?;
        let kernel: Box<dyn NttKernel> = match simd::kernels() {
            simd::Kernel::Avx512Ifma => {
                let inverse_n = modulus.constant(modulus.inv(n as u64));
                Box::new(TfheNtt { plan, modulus, inverse_n })
            }
            simd::Kernel::Scalar => {
                // The root is the one the other kernel uses: slot 0 of the transform of X is ψ.
                let mut x = vec![0; n];
                x[1] = 1;
                plan.fwd(&mut x);
                Box::new(PortableNtt::new(modulus, n, x[0]))
            }
        };
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

    /// Values → coefficients, in place.
    pub fn inverse(&self, limb: &mut [u64]) {
        self.kernel.inverse(limb);
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
            PortableNtt::new(self.modulus, coefficients.len(), x[0])
        });
        short.forward(coefficients);
    }
}

/// `tfhe-ntt` (BSD-3-Clause-Clear), the fast kernel.
struct TfheNtt {
    plan: tfhe_ntt::prime64::Plan,
    modulus: Modulus,
    inverse_n: crate::Constant,
}

impl NttKernel for TfheNtt {
    fn forward(&self, limb: &mut [u64]) {
        self.plan.fwd(limb);
    }

    fn inverse(&self, limb: &mut [u64]) {
        self.plan.inv(limb);
        simd::mul_constant_assign(&self.modulus, limb, self.inverse_n);
    }
}

/// Textbook Cooley-Tukey and Gentleman-Sande butterflies with Shoup constants: the second, portable kernel.
struct PortableNtt {
    modulus: Modulus,
    /// ψ^bitrev(i), as in Longa and Naehrig 2016.
    roots: Vec<crate::Constant>,
    inverse_roots: Vec<crate::Constant>,
    inverse_n: crate::Constant,
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
            inverse_n: modulus.constant(modulus.inv(n as u64)),
        }
    }
}

impl NttKernel for PortableNtt {
    fn forward(&self, limb: &mut [u64]) {
        let q = &self.modulus;
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
    }

    fn inverse(&self, limb: &mut [u64]) {
        let q = &self.modulus;
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
        for x in limb {
            *x = q.mul_constant(*x, self.inverse_n);
        }
    }
}

/// The `bits` low bits of `i`, reversed.
pub fn bit_reverse(i: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) }
}

/// The permutation p with `σ(a)[i] = a[p[i]]` for X → X^`element` on values; `element` is odd.
pub fn automorphism_permutation(log_n: u32, element: u64) -> Vec<u32> {
    let n = 1usize << log_n;
    let mask = 2 * n as u64 - 1;
    (0..n)
        .map(|i| {
            let exponent = 2 * bit_reverse(i, log_n) as u64 + 1;
            let source = exponent.wrapping_mul(element) & mask;
            bit_reverse((source >> 1) as usize, log_n) as u32
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primes;
    use rand::{Rng, SeedableRng};

    fn random(n: usize, q: u64, seed: u64) -> Vec<u64> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(|_| rng.next_u64() % q).collect()
    }

    /// Products in the transform domain equal the schoolbook negacyclic product, on both kernels.
    #[test]
    fn both_kernels_multiply_like_the_schoolbook() {
        let (log_n, n) = (5, 32);
        for bits in [30, 32, 42, 50] {
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
            let plan = tfhe_ntt::prime64::Plan::try_new(n, q).unwrap();
            let mut x = vec![0; n];
            x[1] = 1;
            plan.fwd(&mut x);
            let portable = PortableNtt::new(m, n, x[0]);
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

    #[test]
    fn kernels_agree_bit_for_bit_at_full_size() {
        for (log_n, bits) in [(13, 50), (15, 32), (16, 45)] {
            let n = 1 << log_n;
            let q = primes::largest(bits, 2 * n as u64, &[]).unwrap();
            let m = Modulus::new(q).unwrap();
            let table = NttTable::new(log_n, q).unwrap();
            let mut x = vec![0; n];
            x[1] = 1;
            table.forward(&mut x);
            let portable = PortableNtt::new(m, n, x[0]);
            let a = random(n, q, 3);
            let (mut fast, mut slow) = (a.clone(), a.clone());
            table.forward(&mut fast);
            portable.forward(&mut slow);
            assert!(fast == slow);
            table.inverse(&mut fast);
            portable.inverse(&mut slow);
            assert!(fast == slow && fast == a);
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
        let permuted: Vec<u64> =
            automorphism_permutation(log_n, element).iter().map(|&i| values[i as usize]).collect();
        assert_eq!(permuted, rotated);
    }

    #[test]
    fn short_transform_equals_the_full_one() {
        let (log_n, n) = (8, 256usize);
        let q = primes::largest(42, 2 * n as u64, &[]).unwrap();
        let table = NttTable::new(log_n, q).unwrap();
        for log_stride in 0..6 {
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
