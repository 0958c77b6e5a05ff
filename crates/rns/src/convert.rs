//! From one set of primes to another, and exact division by primes.

use crate::{Basis, Coeff, Constant, Ntt, Poly, simd};
use rayon::prelude::*;

/// Takes residues modulo the primes of one basis to residues, modulo other primes, of the representative in
/// (−Q/2, Q/2] (Halevi, Polyakov, Shoup 2019: the multiple of Q is found in double precision; a value
/// within 2⁻⁴⁰ of ±Q/2, relative to Q, may come out as the other end, which is as good a representative).
#[derive(Debug, Clone)]
pub struct BaseConverter {
    /// (Q/qᵢ)⁻¹ mod qᵢ.
    scale: Vec<Constant>,
    reciprocal: Vec<f64>,
    /// For each output prime p: Q/qᵢ mod p for every i, then −Q mod p.
    matrix: Vec<Vec<u64>>,
}

impl BaseConverter {
    /// From the primes of `from` to those of `to`, which must be others.
    pub fn new(from: &Basis, to: &Basis) -> Self {
        let k = from.len();
        let product = |m: &crate::Modulus, skip: usize| {
            (0..k).filter(|&j| j != skip).fold(1, |p, j| m.mul(p, m.reduce(from.modulus(j).value())))
        };
        BaseConverter {
            scale: (0..k)
                .map(|i| {
                    let m = from.modulus(i);
                    m.constant(m.inv(product(m, i)))
                })
                .collect(),
            reciprocal: from.primes().map(|q| 1.0 / q as f64).collect(),
            matrix: (0..to.len())
                .map(|j| {
                    let m = to.modulus(j);
                    (0..k).map(|i| product(m, i)).chain([m.neg(product(m, k))]).collect()
                })
                .collect(),
        }
    }

    /// The residues of xᵢ·(Q/qᵢ)⁻¹ and, last, the multiple of Q to take off: what [`Self::output`] needs.
    pub fn prepare(&self, from: &Basis, limbs: &[&[u64]]) -> Vec<Vec<u64>> {
        let mut y: Vec<Vec<u64>> = limbs
            .par_iter()
            .enumerate()
            .map(|(i, x)| {
                let mut y = x.to_vec();
                simd::mul_constant_assign(from.modulus(i), &mut y, self.scale[i]);
                y
            })
            .collect();
        let mut overflow = vec![0; limbs[0].len()];
        let views: Vec<&[u64]> = y.iter().map(|y| &y[..]).collect();
        simd::rounded_sum_into(&mut overflow, &views, &self.reciprocal);
        y.push(overflow);
        y
    }

    /// Writes limb `j` of the result, in the coefficient domain.
    pub fn output(&self, to: &Basis, j: usize, prepared: &[Vec<u64>], out: &mut [u64]) {
        let views: Vec<&[u64]> = prepared.iter().map(|y| &y[..]).collect();
        simd::combine_into(to.modulus(j), out, &views, &self.matrix[j]);
    }
}

/// Divides by a product of primes and rounds: `mod_down`, `rescale`, and both at once.
#[derive(Debug, Clone)]
pub struct Divider {
    from: Basis,
    to: Basis,
    converter: BaseConverter,
    inverse: Vec<Constant>,
}

impl Divider {
    /// Takes polynomials over `kept` ∪ `dropped` (in this order of limbs) to polynomials over `kept`,
    /// divided by the product of `dropped` and rounded to the nearest integer.
    pub fn new(kept: &Basis, dropped: &Basis) -> Self {
        let inverse = (0..kept.len())
            .map(|j| {
                let m = kept.modulus(j);
                let p = dropped.primes().fold(1, |p, q| m.mul(p, m.reduce(q)));
                m.constant(m.inv(p))
            })
            .collect();
        Divider {
            from: dropped.clone(),
            to: kept.clone(),
            converter: BaseConverter::new(dropped, kept),
            inverse,
        }
    }

    /// round(x / product of the dropped primes).
    pub fn divide(&self, mut x: Poly<Ntt>) -> Poly<Ntt> {
        let (kept, n) = (self.to.len(), self.to.n());
        let mut tail = Poly::<Ntt>::from_limbs(n, x.data()[kept * n..].to_vec()).into_coeff(&self.from);
        let limbs: Vec<&[u64]> = (0..self.from.len()).map(|i| tail.limb(i)).collect();
        let prepared = self.converter.prepare(&self.from, &limbs);
        tail.truncate(0);
        x.truncate(kept);
        x.for_each_limb(|j, limb| {
            let mut lifted = vec![0; n];
            self.converter.output(&self.to, j, &prepared, &mut lifted);
            self.to.tables()[j].forward(&mut lifted);
            simd::sub_mul_constant_assign(self.to.modulus(j), limb, &lifted, self.inverse[j]);
        });
        x
    }

    /// The same in the coefficient domain.
    pub fn divide_coeff(&self, mut x: Poly<Coeff>) -> Poly<Coeff> {
        let (kept, n) = (self.to.len(), self.to.n());
        let limbs: Vec<&[u64]> = (0..self.from.len()).map(|i| x.limb(kept + i)).collect();
        let prepared = self.converter.prepare(&self.from, &limbs);
        x.truncate(kept);
        x.for_each_limb(|j, limb| {
            let mut lifted = vec![0; n];
            self.converter.output(&self.to, j, &prepared, &mut lifted);
            simd::sub_mul_constant_assign(self.to.modulus(j), limb, &lifted, self.inverse[j]);
        });
        x
    }
}
