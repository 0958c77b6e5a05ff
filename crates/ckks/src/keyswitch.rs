//! Hybrid key switching: decompose into digits, multiply with the key modulo QP, divide by P.
//!
//! The decomposition of one polynomial is kept as the scaled residues of its digits ([`Digits`]); each limb of a
//! digit is extended and transformed only when it is multiplied, so that it stays in the cache.

use crate::{KeySwitchKey, Params};
use rayon::prelude::*;
use rns::{Coeff, Ntt, Poly};
use std::cell::RefCell;

/// A polynomial cut into digits, ready to be multiplied with key after key ("hoisted").
pub(crate) struct Digits<'a> {
    params: &'a Params,
    level: usize,
    poly: &'a Poly<Ntt>,
    /// For each digit: yᵢ of the base conversion, then the multiple of the digit's modulus to take off.
    prepared: Vec<Vec<Vec<u64>>>,
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
        let (converter, _) = params.converter(j, self.prepared[j].len() - 1);
        converter.output(full, prime, &self.prepared[j], out);
        full.tables()[prime].forward(out);
    }

    /// Σⱼ digitⱼ·keyⱼ, a pair of polynomials modulo QP.
    pub(crate) fn multiply(&self, key: &KeySwitchKey) -> (Poly<Ntt>, Poly<Ntt>) {
        let (params, level, n) = (self.params, self.level, self.params.n());
        let basis = params.qp_basis(level);
        let digits = self.prepared.len();
        let (mut out0, mut out1) = (Poly::<Ntt>::zero(n, basis.len()), Poly::<Ntt>::zero(n, basis.len()));
        Poly::for_each_limb_pair(&mut out0, &mut out1, |i, o0, o1| {
            let index = if i <= level { i } else { i + key.level - level };
            // One buffer a thread, so that it stays in the cache.
            thread_local!(static SCRATCH: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) });
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.resize(scratch.len().max(digits * n), 0);
                for (j, x) in scratch.chunks_exact_mut(n).take(digits).enumerate() {
                    self.limb_into(j, i, x);
                }
                let x: Vec<&[u64]> = scratch.chunks_exact(n).take(digits).collect();
                let y: Vec<&[u64]> = key.b[..digits].iter().map(|p| p.limb(index)).collect();
                let z: Vec<&[u64]> = key.a[..digits].iter().map(|p| p.limb(index)).collect();
                rns::inner_products(basis.modulus(i), o0, o1, &x, &y, &z);
            });
        });
        (out0, out1)
    }

    /// All digits over QP, for use with several keys.
    pub(crate) fn extended(&self) -> Vec<Poly<Ntt>> {
        let basis = self.params.qp_basis(self.level);
        (0..self.prepared.len())
            .map(|j| {
                let mut out = Poly::zero(self.params.n(), basis.len());
                out.for_each_limb(|i, limb| self.limb_into(j, i, limb));
                out
            })
            .collect()
    }
}

/// Σⱼ digitⱼ·keyⱼ for digits already extended over QP at `level`.
pub(crate) fn multiply_extended(
    params: &Params,
    digits: &[Poly<Ntt>],
    level: usize,
    key: &KeySwitchKey,
) -> (Poly<Ntt>, Poly<Ntt>) {
    let basis = params.qp_basis(level);
    let index: Vec<usize> =
        (0..basis.len()).map(|i| if i <= level { i } else { i + key.level - level }).collect();
    let b: Vec<&Poly<Ntt>> = key.b.iter().collect();
    let a: Vec<&Poly<Ntt>> = key.a.iter().collect();
    Poly::inner_products(basis, digits, &b, &a, &index)
}

/// acc + P·x on the limbs of Q; P·x vanishes modulo the special primes.
pub(crate) fn add_times_p(params: &Params, level: usize, acc: &mut Poly<Ntt>, x: &Poly<Ntt>) {
    let basis = params.qp_basis(level);
    acc.for_each_limb(|i, limb| {
        if i <= level {
            rns::mul_constant_add(basis.modulus(i), limb, x.limb(i), params.p_constants()[i]);
        }
    });
}
