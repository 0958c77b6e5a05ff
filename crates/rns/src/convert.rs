//! From one set of primes to another, and exact division by primes.

use crate::ntt::{Input, Lift, Output};
use crate::pool::Buffer;
use crate::simd::{self, Affine, Rows};
use crate::{Basis, Coeff, Constant, Modulus, Ntt, Poly};
use rayon::prelude::*;
use zeroize::Zeroize;

/// Takes residues modulo the primes of one basis to residues, modulo other primes, of a small representative.
#[derive(Debug, Clone)]
pub struct BaseConverter {
    /// From a single prime or digit, to each of the output's; the rest is then not used.
    lifts: Vec<Lift>,
    /// (Q/qᵢ)⁻¹ mod qᵢ.
    scale: Vec<u64>,
    /// For each row of [`Prepared`] but the last, 2ᵏ/qᵢ: what it counts for in v. Empty if [`Self::loose`].
    weight: Vec<f64>,
    /// No multiple of Q is taken off.
    loose: bool,
    /// For each output prime p: 2ᵏ·Q/qᵢ mod p for every row, then −Q mod p; and a constant.
    matrix: Vec<(Vec<u64>, u64)>,
    /// Most primes are below 2³².
    narrow: bool,
}

/// Bits of a narrow row.
const NARROW: u32 = 32;

impl BaseConverter {
    /// From the primes of `from` to those of `to`, which must be others: the representative in (−Q/2, Q/2] (Halevi, Polyakov, Shoup
    /// 2019: the multiple of Q is found in double precision; a value within 2⁻⁴⁰ of ±Q/2, relative to Q, may come out as
    /// the other end, which is as good a representative). A single prime needs none of this: its residues are lifted as they
    /// are, exactly.
    pub fn new(from: &Basis, to: &Basis) -> Self {
        Self::with_rows(Rowing::of(from), to)
    }

    /// The same for secrets: residues stay in the words they come in, so that who wipes [`Prepared`] wipes all there was.
    pub fn wide(from: &Basis, to: &Basis) -> Self {
        Self::with_rows(Rowing { from, narrow: false }, to)
    }

    fn with_rows(plan: Rowing, to: &Basis) -> Self {
        let (from, k) = (plan.from, plan.from.len());
        let lifts = |j| (k == 1).then(|| Lift::new(from.modulus(0), to.modulus(j)));
        let matrix = |j| {
            let m: &Modulus = to.modulus(j);
            let factors = plan.factors(m).chain([m.neg(plan.product(m, k))]).collect();
            (factors, 0)
        };
        let weight = |(i, shift): (usize, u32)| (1u64 << shift) as f64 / from.modulus(i).value() as f64;
        BaseConverter {
            lifts: (0..to.len()).filter_map(lifts).collect(),
            scale: plan.scale(),
            weight: plan.rows().map(weight).collect(),
            loose: false,
            matrix: (0..to.len()).map(matrix).collect(),
            narrow: plan.narrow,
        }
    }

    /// The same, but the representative may be any within k·Q/2, k the number of primes: Σ yᵢ·Q/qᵢ with centred yᵢ, no multiple
    /// of Q taken off. One row less to read, where a few more bits of the representative do not matter.
    pub fn loose(from: &Basis, to: &Basis) -> Self {
        let exact = Self::new(from, to);
        if from.len() == 1 {
            return exact;
        }
        let plan = Rowing::of(from);
        // Rows hold yᵢ + ⌊qᵢ/2⌋, which centres them.
        let matrix = |j| {
            let m: &Modulus = to.modulus(j);
            let half = |i: usize| m.mul(plan.product(m, i), m.reduce(from.modulus(i).value() / 2));
            let halves = (0..from.len()).fold(0, |sum, i| m.add(sum, half(i)));
            (plan.factors(m).collect(), m.neg(halves))
        };
        BaseConverter {
            weight: Vec::new(),
            loose: true,
            matrix: (0..to.len()).map(matrix).collect(),
            ..exact
        }
    }

    /// From digits of `bits` bits ([`crate::Radix::split`]) to the primes of `to`.
    pub fn of_digit(bits: u32, to: &Basis) -> Self {
        BaseConverter {
            lifts: (0..to.len()).map(|j| Lift::of_digit(bits, to.modulus(j))).collect(),
            scale: Vec::new(),
            weight: Vec::new(),
            loose: false,
            matrix: Vec::new(),
            narrow: false,
        }
    }

    /// The residues of xᵢ·(Q/qᵢ)⁻¹ and, last, the multiple of Q to take off if any is: what [`Self::output`] needs.
    /// `limb(i, w, out)` writes w times limb i of x, in the coefficient domain; x has all limbs of the `from` basis.
    pub fn prepare(&self, from: &Basis, limb: impl Fn(usize, u64, &mut [u64]) + Send + Sync) -> Prepared {
        let n = from.n();
        let narrow = self.narrow;
        if !self.lifts.is_empty() {
            let mut y = Buffer::scratch(n);
            limb(0, 1, &mut y);
            return Prepared { rows: vec![y], limbs: 1, narrow: false };
        }
        let mut rows: Vec<Buffer> = (0..from.len())
            .into_par_iter()
            .flat_map_iter(|i| {
                let mut y = Buffer::scratch(n);
                limb(i, self.scale[i], &mut y);
                let m = from.modulus(i);
                if self.loose {
                    simd::add_constant(m, &mut y, m.value() / 2);
                }
                self.stored(y, m)
            })
            .collect();
        if self.loose {
            return Prepared { rows, limbs: from.len(), narrow };
        }
        let mut overflow = Buffer::scratch(n);
        simd::rounded_sum_into(&mut overflow, &views(&rows, narrow), &self.weight);
        // At most the number of limbs: one narrow row holds it.
        rows.extend(if narrow { vec![narrowed(&overflow, 0)] } else { vec![overflow] });
        Prepared { rows, limbs: from.len(), narrow }
    }

    /// [`Self::prepare`] of limbs in the coefficient domain.
    pub fn prepare_coeff<'a>(
        &self,
        from: &Basis,
        limb: impl Fn(usize) -> &'a [u64] + Send + Sync,
    ) -> Prepared {
        self.prepare(from, |i, w, y| {
            let m = from.modulus(i);
            y.copy_from_slice(limb(i));
            simd::mul_constant_assign(m, y, m.constant(w));
        })
    }

    fn affine(&self, j: usize) -> Affine<'_> {
        let (factors, constant) = &self.matrix[j];
        (factors, *constant)
    }

    /// The rows that hold `y`, residues modulo `m`.
    fn stored(&self, y: Buffer, m: &Modulus) -> Vec<Buffer> {
        if !self.narrow {
            return vec![y];
        }
        shifts(true, m).iter().map(|&shift| narrowed(&y, shift)).collect()
    }

    /// Writes limb `j` of the result, in the coefficient domain.
    pub fn output(&self, to: &Basis, j: usize, prepared: &Prepared, out: &mut [u64]) {
        match (self.lifts.get(j), &prepared.rows[..]) {
            (Some(&lift), [y]) => simd::lift_into(to.modulus(j), out, y, lift),
            _ => simd::combine_into(to.modulus(j), out, &prepared.views(), self.affine(j)),
        }
    }

    /// Writes limb `j` to `output`, in the value domain; `limb` is where it is made.
    pub fn values(&self, to: &Basis, j: usize, prepared: &Prepared, limb: &mut [u64], output: Output) {
        let table = &to.tables()[j];
        if let (Some(&lift), [y]) = (self.lifts.get(j), &prepared.rows[..]) {
            return table.forward_with(limb, Input::Lifted(lift, y), output);
        }
        self.output(to, j, prepared, limb);
        table.forward_with(limb, Input::Limb, output);
    }

    /// [`Self::values`] for limbs `i` and `j`: cheaper than one after the other where `prepared` is larger than a cache.
    pub fn values_pair(
        &self,
        to: &Basis,
        [i, j]: [usize; 2],
        prepared: &Prepared,
        [limb0, limb1]: [&mut [u64]; 2],
        [output0, output1]: [Output; 2],
    ) {
        if !self.lifts.is_empty() {
            self.values(to, i, prepared, limb0, output0);
            return self.values(to, j, prepared, limb1, output1);
        }
        let (moduli, affine) = ([to.modulus(i), to.modulus(j)], [self.affine(i), self.affine(j)]);
        simd::combine_pair_into(moduli, limb0, limb1, &prepared.views(), affine);
        to.tables()[i].forward_with(limb0, Input::Limb, output0);
        to.tables()[j].forward_with(limb1, Input::Limb, output1);
    }
}

/// How residues modulo the primes of a basis lie in rows.
struct Rowing<'a> {
    from: &'a Basis,
    narrow: bool,
}

impl<'a> Rowing<'a> {
    fn of(from: &'a Basis) -> Self {
        let narrow = 2 * from.primes().filter(|&q| q >> NARROW == 0).count() > from.len();
        Rowing { from, narrow }
    }

    /// The prime of each row, and the bit of its residue that the row starts at.
    fn rows(&self) -> impl Iterator<Item = (usize, u32)> {
        let starts = |i| shifts(self.narrow, self.from.modulus(i)).iter().map(move |&shift| (i, shift));
        (0..self.from.len()).flat_map(starts)
    }

    /// Q/qᵢ mod m; Q for an i beyond the last.
    fn product(&self, m: &Modulus, skip: usize) -> u64 {
        let others = (0..self.from.len()).filter(|&j| j != skip);
        others.fold(1, |p, j| m.mul(p, m.reduce(self.from.modulus(j).value())))
    }

    fn scale(&self) -> Vec<u64> {
        let scale = |i| {
            let m: &Modulus = self.from.modulus(i);
            m.inv(self.product(m, i))
        };
        (0..self.from.len()).map(scale).collect()
    }

    /// What each row counts for modulo `m`.
    fn factors(&self, m: &Modulus) -> impl Iterator<Item = u64> {
        self.rows().map(move |(i, shift)| m.mul(self.product(m, i), m.reduce(1u64 << shift)))
    }
}

/// Where the rows of a residue modulo `m` start: a wide residue in narrow rows takes two.
fn shifts(narrow: bool, m: &Modulus) -> &'static [u32] {
    if narrow && m.bits() > NARROW { &[0, NARROW] } else { &[0] }
}

/// Bits of `y` from `shift` on, two words in one.
fn narrowed(y: &[u64], shift: u32) -> Buffer {
    let mut out = Buffer::scratch(y.len() / 2);
    let words: &mut [u32] = bytemuck::cast_slice_mut(&mut out);
    words.iter_mut().zip(y).for_each(|(o, &y)| *o = (y >> shift) as u32);
    out
}

fn views(rows: &[Buffer], narrow: bool) -> Rows<'_> {
    if narrow {
        Rows::Narrow(rows.iter().map(|y| bytemuck::cast_slice(y)).collect())
    } else {
        Rows::Wide(rows.iter().map(|y| &y[..]).collect())
    }
}

/// The half of a base conversion that does not depend on the output prime.
pub struct Prepared {
    rows: Vec<Buffer>,
    limbs: usize,
    narrow: bool,
}

impl Prepared {
    pub(crate) fn digit(row: Buffer) -> Self {
        Prepared { rows: vec![row], limbs: 1, narrow: false }
    }

    /// Limbs it was made of.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    fn views(&self) -> Rows<'_> {
        views(&self.rows, self.narrow)
    }
}

impl Zeroize for Prepared {
    fn zeroize(&mut self) {
        self.rows.iter_mut().for_each(Zeroize::zeroize);
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
        let kept = self.to.len();
        let prepared = self.converter.prepare(&self.from, |i, w, y| {
            self.from.tables()[i].inverse_with(y, Some(x.limb(kept + i)), w);
        });
        x.truncate(kept);
        let n = self.to.n();
        // Of two limbs at a time the rows are read half as often; one row stays in the cache with what is made of it.
        let at_a_time = prepared.rows.len().clamp(1, 2) * n;
        x.for_each_two_limbs(|first, limbs| {
            let mut made = Buffer::scratch(limbs.len().min(at_a_time));
            let output = |j: usize, limb| Output::Quotient(limb, self.inverse[j]);
            for (j, limbs) in (first..).step_by(at_a_time / n).zip(limbs.chunks_mut(at_a_time)) {
                match (limbs.split_at_mut(n), made.split_at_mut(n)) {
                    ((one, []), (limb, _)) => {
                        self.converter.values(&self.to, j, &prepared, limb, output(j, one));
                    }
                    ((one, two), (limb0, limb1)) => {
                        let outputs = [output(j, one), output(j + 1, two)];
                        self.converter.values_pair(&self.to, [j, j + 1], &prepared, [limb0, limb1], outputs);
                    }
                }
            }
        });
        x
    }

    /// round((Σ k·x + constant) / product of the dropped primes), where the x may have more limbs than are used.
    pub fn divide_sum(&self, terms: &[(i128, &Poly<Ntt>)], constant: i128) -> Poly<Ntt> {
        let (kept, n) = (self.to.len(), self.to.n());
        let factors = |m: &Modulus| -> Vec<u64> { terms.iter().map(|(k, _)| m.reduce_i128(*k)).collect() };
        let limbs = |j: usize| -> Vec<_> { terms.iter().map(|(_, x)| x.limb(j)).collect() };
        let prepared = self.converter.prepare(&self.from, |i, w, y| {
            let m = self.from.modulus(i);
            // A constant has the same value at every root.
            simd::combine_into(m, y, &Rows::Wide(limbs(kept + i)), (&factors(m), m.reduce_i128(constant)));
            self.from.tables()[i].inverse_with(y, None, w);
        });
        let mut out = Poly::scratch(n, kept);
        out.for_each_limb(|j, limb| {
            let m = self.to.modulus(j);
            simd::combine_into(m, limb, &Rows::Wide(limbs(j)), (&factors(m), m.reduce_i128(constant)));
            let output = Output::Quotient(limb, self.inverse[j]);
            self.converter.values(&self.to, j, &prepared, &mut Buffer::scratch(n), output);
        });
        out
    }

    /// The same in the coefficient domain.
    pub fn divide_coeff(&self, mut x: Poly<Coeff>) -> Poly<Coeff> {
        let (kept, n) = (self.to.len(), self.to.n());
        let prepared = self.converter.prepare_coeff(&self.from, |i| x.limb(kept + i));
        x.truncate(kept);
        x.for_each_limb(|j, limb| {
            let mut lifted = Buffer::scratch(n);
            self.converter.output(&self.to, j, &prepared, &mut lifted);
            simd::sub_mul_constant_assign(self.to.modulus(j), limb, &lifted, self.inverse[j]);
        });
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NttTable, primes};
    use std::sync::Arc;

    /// Secrets lie in the words that their residues came in and nowhere else, and can be wiped there.
    #[test]
    fn wide_conversions_keep_no_copies() {
        let (log_n, n) = (4, 16);
        let mut found = Vec::new();
        let mut basis = |bits: u32, count: usize| {
            let tables = (0..count).map(|_| {
                found.push(primes::largest(bits, 2 * n as u64, &found).unwrap());
                Arc::new(NttTable::new(log_n, found[found.len() - 1]).unwrap())
            });
            Basis::new(n, tables.collect())
        };
        let (from, to) = (basis(30, 4), basis(40, 1));
        let residues: Vec<u64> = (1..=n as u64).collect();
        let prepare = |converter: &BaseConverter| converter.prepare_coeff(&from, |_| &residues);
        let [packed, wide] = [BaseConverter::new(&from, &to), BaseConverter::wide(&from, &to)];
        let (mut a, mut b) = (vec![0; n], vec![0; n]);
        packed.output(&to, 0, &prepare(&packed), &mut a);
        let mut prepared = prepare(&wide);
        wide.output(&to, 0, &prepared, &mut b);
        assert_eq!((&a, &b), (&residues, &residues));
        assert!(prepare(&packed).narrow && !prepared.narrow);
        // A row a prime, and one that counts what passes their product.
        assert_eq!(prepared.rows.iter().map(|row| row.len()).collect::<Vec<_>>(), [n; 5]);
        prepared.zeroize();
        assert!(prepared.rows.iter().all(|row| row.iter().all(|&x| x == 0)));
    }
}
