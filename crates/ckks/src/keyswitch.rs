//! Hybrid key switching: decompose into digits, multiply with the key modulo QP, divide by P.
//!
//! The decomposition of one polynomial is kept as the scaled residues of its digits ([`Digits`]); each limb of a
//! digit is extended and transformed only when it is multiplied, so that it stays in the cache.

use crate::{KeySwitchKey, Params};
use rayon::prelude::*;
use rns::{Coeff, Ntt, Poly, Prepared};
use std::cell::RefCell;

/// A polynomial cut into digits, ready to be multiplied with key after key ("hoisted").
pub(crate) struct Digits<'a> {
    params: &'a Params,
    level: usize,
    poly: &'a Poly<Ntt>,
    /// For each digit: yᵢ of the base conversion, then the multiple of the digit's modulus to take off.
    prepared: Vec<Prepared>,
}

impl<'a> Digits<'a> {
    /// Decomposes `poly`, which has level + 1 limbs.
    pub(crate) fn new(params: &'a Params, poly: &'a Poly<Ntt>, level: usize) -> Self {
        let coefficients: Poly<Coeff> = poly.clone().into_coeff(params.q_basis(level));
        let size = params.digit_limbs();
        let prepared = (0..params.digits(level))
            .into_par_iter()
            .map(|j| {
                let limbs: Vec<&[u64]> =
                    (j * size..((j + 1) * size).min(level + 1)).map(|i| coefficients.limb(i)).collect();
                let (converter, basis) = params.converter(j, limbs.len());
                converter.prepare(basis, &limbs)
            })
            .collect();
        Digits { params, level, poly, prepared }
    }

    /// Writes limb `i` (over Q then P) of digit `j`, in the value domain.
    fn limb_into(&self, j: usize, i: usize, out: &mut [u64]) {
        let (params, level, size) = (self.params, self.level, self.params.digit_limbs());
        if i <= level && i / size == j {
            // The digit's own residues are known already.
            out.copy_from_slice(self.poly.limb(i));
            return;
        }
        let full = params.qp_basis(params.max_level());
        let prime = if i <= level { i } else { i + params.max_level() - level };
        let (converter, _) = params.converter(j, self.prepared[j].limbs());
        converter.output(full, prime, &self.prepared[j], out);
        full.tables()[prime].forward(out);
    }

    /// Calls `f(i, digits, outputs)` for every limb i over QP with limb i of every digit and of every output, in parallel.
    pub(crate) fn for_each_limb<const K: usize>(
        &self,
        outputs: &mut [Poly<Ntt>],
        f: impl Fn(usize, &[&[u64]], &mut [&mut [u64]], &mut [&mut [u64]; K]) + Send + Sync,
    ) {
        // One buffer a thread, so that it stays in the cache: the digits, then K limbs for `f`.
        thread_local!(static SCRATCH: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) });
        let (n, digits) = (self.params.n(), self.prepared.len());
        Poly::for_each_limb_of(outputs, |i, row| {
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.resize(scratch.len().max((digits + K) * n), 0);
                let (x, rest) = scratch.split_at_mut(digits * n);
                x.chunks_exact_mut(n).enumerate().for_each(|(j, x)| self.limb_into(j, i, x));
                let x: Vec<&[u64]> = x.chunks_exact(n).collect();
                let mut rest = rest.chunks_exact_mut(n);
                // There are K limbs after the digits.
                let mut own: [&mut [u64]; K] = std::array::from_fn(|_| rest.next().unwrap_or_default());
                f(i, &x, row, &mut own);
            });
        });
    }

    /// Limb i of Σⱼ digitⱼ·keyⱼ.
    pub(crate) fn times_key(
        &self,
        i: usize,
        digits: &[&[u64]],
        key: &KeySwitchKey,
        o0: &mut [u64],
        o1: &mut [u64],
    ) {
        let index = if i <= self.level { i } else { i + key.level - self.level };
        let y: Vec<&[u64]> = key.b[..digits.len()].iter().map(|p| p.limb(index)).collect();
        let z: Vec<&[u64]> = key.a[..digits.len()].iter().map(|p| p.limb(index)).collect();
        rns::inner_products(self.params.qp_basis(self.level).modulus(i), o0, o1, digits, &y, &z);
    }

    /// Σⱼ digitⱼ·keyⱼ, a pair of polynomials modulo QP.
    pub(crate) fn multiply(&self, key: &KeySwitchKey) -> [Poly<Ntt>; 2] {
        let mut out = scratch(self.params, self.level);
        self.for_each_limb::<0>(&mut out, |i, digits, row, _| {
            if let [o0, o1] = row {
                self.times_key(i, digits, key, o0, o1);
            }
        });
        out
    }
}

/// Two polynomials modulo QP to be overwritten.
pub(crate) fn scratch(params: &Params, level: usize) -> [Poly<Ntt>; 2] {
    let limbs = params.qp_basis(level).len();
    std::array::from_fn(|_| Poly::scratch(params.n(), limbs))
}

/// acc + P·x on the limbs of Q; P·x vanishes modulo the special primes.
pub(crate) fn add_times_p(params: &Params, level: usize, acc: &mut Poly<Ntt>, x: &Poly<Ntt>) {
    acc.for_each_limb(|i, limb| add_limb_times_p(params, level, i, limb, x));
}

/// Limb i of [`add_times_p`].
pub(crate) fn add_limb_times_p(params: &Params, level: usize, i: usize, acc: &mut [u64], x: &Poly<Ntt>) {
    if i <= level {
        rns::mul_constant_add(params.q_basis(level).modulus(i), acc, x.limb(i), params.p_constants()[i]);
    }
}
