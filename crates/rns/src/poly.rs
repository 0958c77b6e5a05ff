//! Polynomials in the residue number system, with their domain in the type.

use crate::pool::Buffer;
use crate::{Basis, Modulus, Permutation, simd};
use rayon::prelude::*;
use std::marker::PhantomData;
use zeroize::Zeroize;

/// The coefficient domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coeff {}
/// The value domain, after the NTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ntt {}

/// The marker of a domain: [`Coeff`] or [`Ntt`].
pub trait Domain: Send + Sync + Copy {}
impl Domain for Coeff {}
impl Domain for Ntt {}

/// A polynomial of `ℤ_Q[X]/(Xᴺ + 1)`, stored limb after limb with every residue reduced. Limb i belongs to
/// prime i of the [`Basis`] that is passed to each operation; the basis may have more primes than the
/// polynomial has limbs.
#[derive(Clone, PartialEq, Eq)]
pub struct Poly<D> {
    n: usize,
    data: Buffer,
    domain: PhantomData<D>,
}

impl<D: Domain> std::fmt::Debug for Poly<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Poly(n = {}, limbs = {})", self.n, self.limbs())
    }
}

impl<D: Domain> Zeroize for Poly<D> {
    fn zeroize(&mut self) {
        self.data.zeroize();
    }
}

impl<D: Domain> Poly<D> {
    /// The zero polynomial.
    pub fn zero(n: usize, limbs: usize) -> Self {
        Poly { n, data: Buffer::zero(n * limbs), domain: PhantomData }
    }

    /// A polynomial of unspecified residues, to be overwritten.
    pub fn scratch(n: usize, limbs: usize) -> Self {
        Poly { n, data: Buffer::scratch(n * limbs), domain: PhantomData }
    }

    /// Ring degree N.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of limbs.
    pub fn limbs(&self) -> usize {
        self.data.len() / self.n
    }

    /// Limb `i`.
    pub fn limb(&self, i: usize) -> &[u64] {
        &self.data[i * self.n..(i + 1) * self.n]
    }

    /// Limb `i`, mutable.
    pub fn limb_mut(&mut self, i: usize) -> &mut [u64] {
        &mut self.data[i * self.n..(i + 1) * self.n]
    }

    /// All residues, limb after limb.
    pub fn data(&self) -> &[u64] {
        &self.data
    }

    /// Drops all but the first `limbs` limbs.
    pub fn truncate(&mut self, limbs: usize) {
        self.data.truncate(limbs * self.n);
    }

    /// A copy of the first `limbs` limbs.
    pub fn truncated(&self, limbs: usize) -> Self {
        Poly { n: self.n, data: Buffer::copy(&self.data[..limbs * self.n]), domain: PhantomData }
    }

    /// Runs `f(i, limb)` on every limb, in parallel.
    pub fn for_each_limb(&mut self, f: impl Fn(usize, &mut [u64]) + Send + Sync) {
        self.data.par_chunks_exact_mut(self.n).enumerate().for_each(|(i, limb)| f(i, limb));
    }

    /// Runs `f(i, limbs)` in parallel for every even i, where `limbs` holds limb i and behind it limb i + 1,
    /// if there is one.
    pub(crate) fn for_each_two_limbs(&mut self, f: impl Fn(usize, &mut [u64]) + Send + Sync) {
        self.data.par_chunks_mut(2 * self.n).enumerate().for_each(|(i, limbs)| f(2 * i, limbs));
    }

    /// Runs `f(i, rows)` in parallel for every even i. `rows[0]` holds limb i of each of `polys`, and
    /// `rows[1]`, if there is one, limb i + 1. All `polys` have the same number of limbs.
    pub fn for_each_two_limbs_of(
        polys: &mut [Self],
        f: impl Fn(usize, &mut [Vec<&mut [u64]>]) + Send + Sync,
    ) {
        let Some(limbs) = polys.first().map(Self::limbs) else { return };
        let mut by_limb: Vec<Vec<&mut [u64]>> = (0..limbs).map(|_| Vec::with_capacity(polys.len())).collect();
        for poly in polys {
            let n = poly.n;
            by_limb.iter_mut().zip(poly.data.chunks_exact_mut(n)).for_each(|(row, limb)| row.push(limb));
        }
        by_limb.par_chunks_mut(2).enumerate().for_each(|(i, rows)| f(2 * i, rows));
    }

    /// Runs `f(i, limb of a, limb of b)` on every pair of limbs, in parallel.
    pub fn for_each_limb_pair(
        a: &mut Self,
        b: &mut Self,
        f: impl Fn(usize, &mut [u64], &mut [u64]) + Send + Sync,
    ) {
        let n = a.n;
        a.data
            .par_chunks_exact_mut(n)
            .zip(b.data.par_chunks_exact_mut(n))
            .enumerate()
            .for_each(|(i, (x, y))| f(i, x, y));
    }

    fn zip(&mut self, basis: &Basis, b: &Self, f: impl Fn(&Modulus, &mut [u64], &[u64]) + Send + Sync) {
        assert!(self.limbs() <= b.limbs() && self.limbs() <= basis.len(), "operand with too few limbs");
        self.for_each_limb(|i, limb| f(basis.modulus(i), limb, b.limb(i)));
    }

    /// self ← self + b, on the limbs of self.
    pub fn add_assign(&mut self, basis: &Basis, b: &Self) {
        self.zip(basis, b, simd::add_assign);
    }

    /// self ← self − b, on the limbs of self.
    pub fn sub_assign(&mut self, basis: &Basis, b: &Self) {
        self.zip(basis, b, simd::sub_assign);
    }

    /// (self, b) ← (self + b, self − b), for polynomials of as many limbs.
    pub fn sum_and_difference_assign(&mut self, basis: &Basis, b: &mut Self) {
        Self::for_each_limb_pair(self, b, |i, x, y| simd::sum_and_difference(basis.modulus(i), x, y));
    }

    /// self ← −self.
    pub fn neg_assign(&mut self, basis: &Basis) {
        self.for_each_limb(|i, limb| simd::neg_assign(basis.modulus(i), limb));
    }

    /// self ← k·self, for a constant k that is given modulo each prime.
    pub fn mul_residues_assign(&mut self, basis: &Basis, k: impl Fn(&Modulus) -> u64 + Send + Sync) {
        self.for_each_limb(|i, limb| {
            let m = basis.modulus(i);
            simd::mul_constant_assign(m, limb, m.constant(k(m)));
        });
    }

    /// self ← k·self for a signed integer k.
    pub fn mul_integer_assign(&mut self, basis: &Basis, k: i128) {
        self.mul_residues_assign(basis, |m| m.reduce_i128(k));
    }

    /// self ← self·2^−`log_k` modulo every prime.
    pub fn divide_exactly_assign(&mut self, basis: &Basis, log_k: u32) {
        self.mul_residues_assign(basis, |m| m.pow(m.inv(2), log_k.into()));
    }
}

impl Poly<Coeff> {
    /// The polynomial with these signed coefficients, at most n of them, reduced modulo every prime of
    /// `basis`.
    pub fn from_signed(basis: &Basis, coefficients: &[i64]) -> Self {
        let mut out = Self::scratch(basis.n(), basis.len());
        out.for_each_limb(|i, limb| {
            let (given, rest) = limb.split_at_mut(coefficients.len());
            simd::signed_into(basis.modulus(i), given, coefficients);
            rest.fill(0);
        });
        out
    }

    /// Transforms to the value domain (NTT).
    pub fn into_ntt(mut self, basis: &Basis) -> Poly<Ntt> {
        self.for_each_limb(|i, limb| basis.tables()[i].forward(limb));
        Poly { n: self.n, data: std::mem::take(&mut self.data), domain: PhantomData }
    }
}

impl Poly<Ntt> {
    /// The values of the polynomial in X^stride with these N/stride signed coefficients.
    pub fn from_signed_sparse(basis: &Basis, coefficients: &[i64]) -> Self {
        let (short, stride) = (coefficients.len(), basis.n() / coefficients.len());
        let mut out = Self::scratch(basis.n(), basis.len());
        out.for_each_limb(|i, limb| {
            simd::signed_into(basis.modulus(i), &mut limb[..short], coefficients);
            basis.tables()[i].forward_short(basis.n(), &mut limb[..short]);
            // In place, from the last value down: a message may be secret, and no copy of it is left
            // elsewhere.
            for j in (0..if stride > 1 { short } else { 0 }).rev() {
                let value = limb[j];
                limb[j * stride..][..stride].fill(value);
            }
        });
        out
    }

    /// As [`Self::from_signed_sparse`], but with each of the N/stride distinct values stored once a limb.
    pub fn from_signed_short(basis: &Basis, coefficients: &[i64]) -> Self {
        let mut out = Self::scratch(coefficients.len(), basis.len());
        out.for_each_limb(|i, limb| {
            simd::signed_into(basis.modulus(i), limb, coefficients);
            basis.tables()[i].forward_short(basis.n(), limb);
        });
        out
    }

    /// Multiplies every value by 2⁵², as [`crate::inner_products_short`] wants one of its factors.
    pub fn into_montgomery(mut self, basis: &Basis) -> Self {
        self.for_each_limb(|i, limb| simd::montgomery_assign(basis.modulus(i), limb));
        self
    }

    /// Transforms to the coefficient domain (inverse NTT).
    pub fn into_coeff(mut self, basis: &Basis) -> Poly<Coeff> {
        self.for_each_limb(|i, limb| basis.tables()[i].inverse(limb));
        Poly { n: self.n, data: std::mem::take(&mut self.data), domain: PhantomData }
    }

    /// self ← self·b.
    pub fn mul_assign(&mut self, basis: &Basis, b: &Self) {
        self.zip(basis, b, simd::mul_assign);
    }

    /// self·b, on the limbs of self.
    pub fn mul(&self, basis: &Basis, b: &Self) -> Self {
        let mut out = Self::scratch(self.n, self.limbs());
        assert!(self.limbs() <= b.limbs(), "operand with too few limbs");
        out.for_each_limb(|i, limb| simd::mul_into(basis.modulus(i), limb, self.limb(i), b.limb(i)));
        out
    }

    /// self ← self + a·b.
    pub fn mul_add_assign(&mut self, basis: &Basis, a: &Self, b: &Self) {
        assert!(self.limbs() <= a.limbs() && self.limbs() <= b.limbs(), "operand with too few limbs");
        self.for_each_limb(|i, limb| simd::mul_add_assign(basis.modulus(i), limb, a.limb(i), b.limb(i)));
    }

    /// The image under the automorphism with this permutation.
    pub fn permuted(&self, permutation: &Permutation) -> Self {
        let mut out = Self::scratch(self.n, self.limbs());
        out.for_each_limb(|i, limb| simd::gather_into(limb, self.limb(i), permutation));
        out
    }
}
