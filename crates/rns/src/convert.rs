//! Base conversion from the primes of one basis to those of another, and division by a product of primes with
//! rounding.

use crate::pool::Buffer;
use crate::simd;
use crate::simd::operands::{Affine, Input, Lift, Output, Rows};
use crate::{Basis, Constant, Modulus, Ntt, Poly};
use rayon::prelude::*;
use zeroize::Zeroize;

/// Base conversion: maps the residues of x modulo the primes qᵢ of one basis, with product Q, to the residues
/// modulo other primes of a small representative of x mod Q.
#[derive(Debug, Clone)]
pub struct BaseConverter {
    /// The lift to each output prime, if the input is a single prime or a digit. The other fields are then
    /// not used.
    lifts: Vec<Lift>,
    /// (Q/qᵢ)⁻¹ mod qᵢ.
    scale: Vec<u64>,
    /// The weight 2ᵏ/qᵢ in the multiple v of Q, for each row of [`ScaledResidues`] but the last. Empty if
    /// [`Self::approximate`].
    weight: Vec<f64>,
    /// Whether no multiple of Q is subtracted.
    approximate: bool,
    /// For each output prime p, the factors 2ᵏ·Q/qᵢ mod p of the rows and −Q mod p of the last row; and a
    /// constant.
    matrix: Vec<(Vec<u64>, u64)>,
    /// Whether rows hold words of 32 bits.
    packed: bool,
}

/// Bits of a word of a packed row.
const PACKED_BITS: u32 = 32;

impl BaseConverter {
    /// The conversion to the representative in (−Q/2, Q/2], from the primes of `from` to the primes of `to`,
    /// which must be distinct from them. The multiple of Q is computed in double precision (Halevi, Polyakov,
    /// Shoup 2019), so that a value within 2⁻⁴⁰·Q of ±Q/2 may come out as the representative on the other
    /// side. The residues of a single prime are lifted exactly.
    pub fn new(from: &Basis, to: &Basis) -> Self {
        Self::with_rows(RowPacking::of(from), to)
    }

    /// As [`Self::new`], with every residue in a 64-bit word of its own. For secrets: zeroing the
    /// [`ScaledResidues`] then leaves no copy.
    pub fn unpacked(from: &Basis, to: &Basis) -> Self {
        Self::with_rows(RowPacking { from, packed: false }, to)
    }

    fn with_rows(plan: RowPacking, to: &Basis) -> Self {
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
            approximate: false,
            matrix: (0..to.len()).map(matrix).collect(),
            packed: plan.packed,
        }
    }

    /// Approximate base conversion: the representative is Σ yᵢ·Q/qᵢ with centred scaled residues yᵢ, without
    /// the multiple of Q. For k primes its magnitude is at most k·Q/2. It has one row less to read than
    /// [`Self::new`].
    pub fn approximate(from: &Basis, to: &Basis) -> Self {
        let exact = Self::new(from, to);
        if from.len() == 1 {
            return exact;
        }
        let plan = RowPacking::of(from);
        // Rows hold yᵢ + ⌊qᵢ/2⌋, which centres them.
        let matrix = |j| {
            let m: &Modulus = to.modulus(j);
            let half = |i: usize| m.mul(plan.product(m, i), m.reduce(from.modulus(i).value() / 2));
            let halves = (0..from.len()).fold(0, |sum, i| m.add(sum, half(i)));
            (plan.factors(m).collect(), m.neg(halves))
        };
        BaseConverter {
            weight: Vec::new(),
            approximate: true,
            matrix: (0..to.len()).map(matrix).collect(),
            ..exact
        }
    }

    /// The conversion of digits of `bits` bits ([`crate::Radix::split`]) to the primes of `to`.
    pub fn of_digit(bits: u32, to: &Basis) -> Self {
        BaseConverter {
            lifts: (0..to.len()).map(|j| Lift::of_digit(bits, to.modulus(j))).collect(),
            scale: Vec::new(),
            weight: Vec::new(),
            approximate: false,
            matrix: Vec::new(),
            packed: false,
        }
    }

    /// The scaled residues yᵢ = xᵢ·(Q/qᵢ)⁻¹ mod qᵢ, and behind them the multiple v of Q, unless the
    /// conversion is approximate. `limb(i, w, out)` writes w times limb i of x in the coefficient domain; x
    /// has all limbs of `from`.
    pub fn scaled_residues(
        &self,
        from: &Basis,
        limb: impl Fn(usize, u64, &mut [u64]) + Send + Sync,
    ) -> ScaledResidues {
        let n = from.n();
        let packed = self.packed;
        if !self.lifts.is_empty() {
            let mut y = Buffer::scratch(n);
            limb(0, 1, &mut y);
            return ScaledResidues { rows: vec![y], limbs: 1, packed: false };
        }
        let mut rows: Vec<Buffer> = (0..from.len())
            .into_par_iter()
            .flat_map_iter(|i| {
                let mut y = Buffer::scratch(n);
                limb(i, self.scale[i], &mut y);
                let m = from.modulus(i);
                if self.approximate {
                    simd::add_constant(m, &mut y, m.value() / 2);
                }
                self.stored(y, m)
            })
            .collect();
        if self.approximate {
            return ScaledResidues { rows, limbs: from.len(), packed };
        }
        let mut overflow = Buffer::scratch(n);
        simd::rounded_sum_into(&mut overflow, &views(&rows, packed), &self.weight);
        // v is at most the number of limbs, so one packed row holds it.
        rows.extend(if packed { vec![pack(&overflow, 0)] } else { vec![overflow] });
        ScaledResidues { rows, limbs: from.len(), packed }
    }

    /// [`Self::scaled_residues`] of limbs that are in the coefficient domain already.
    pub fn scaled_residues_coeff<'a>(
        &self,
        from: &Basis,
        limb: impl Fn(usize) -> &'a [u64] + Send + Sync,
    ) -> ScaledResidues {
        self.scaled_residues(from, |i, w, y| {
            let m = from.modulus(i);
            y.copy_from_slice(limb(i));
            simd::mul_constant_assign(m, y, m.constant(w));
        })
    }

    fn affine(&self, j: usize) -> Affine<'_> {
        let (factors, constant) = &self.matrix[j];
        (factors, *constant)
    }

    /// Stores the residues `y` modulo `m` as one row, or as two packed rows.
    fn stored(&self, y: Buffer, m: &Modulus) -> Vec<Buffer> {
        if !self.packed {
            return vec![y];
        }
        shifts(true, m).iter().map(|&shift| pack(&y, shift)).collect()
    }

    /// Writes limb `j` of the result in the coefficient domain.
    pub fn output(&self, to: &Basis, j: usize, scaled: &ScaledResidues, out: &mut [u64]) {
        match (self.lifts.get(j), &scaled.rows[..]) {
            (Some(&lift), [y]) => simd::lift_into(to.modulus(j), out, y, lift),
            _ => simd::combine_into(to.modulus(j), out, &scaled.views(), self.affine(j)),
        }
    }

    /// Writes limb `j` of the result in the value domain, as `output` says. `limb` is scratch space, and the
    /// destination of some outputs.
    pub fn values(&self, to: &Basis, j: usize, scaled: &ScaledResidues, limb: &mut [u64], output: Output) {
        let table = &to.tables()[j];
        if let (Some(&lift), [y]) = (self.lifts.get(j), &scaled.rows[..]) {
            return table.forward_with(limb, Input::Lifted(lift, y), output);
        }
        self.output(to, j, scaled, limb);
        table.forward_with(limb, Input::Limb, output);
    }

    /// [`Self::values`] for limbs `i` and `j`. The scaled residues are read once for both, which is faster
    /// where they exceed a cache.
    pub fn values_pair(
        &self,
        to: &Basis,
        [i, j]: [usize; 2],
        scaled: &ScaledResidues,
        [limb0, limb1]: [&mut [u64]; 2],
        [output0, output1]: [Output; 2],
    ) {
        if !self.lifts.is_empty() {
            self.values(to, i, scaled, limb0, output0);
            return self.values(to, j, scaled, limb1, output1);
        }
        let (moduli, affine) = ([to.modulus(i), to.modulus(j)], [self.affine(i), self.affine(j)]);
        simd::combine_pair_into(moduli, limb0, limb1, &scaled.views(), affine);
        to.tables()[i].forward_with(limb0, Input::Limb, output0);
        to.tables()[j].forward_with(limb1, Input::Limb, output1);
    }
}

/// The layout of the scaled residues of a basis in rows. If most primes are below 2³², rows are packed: they
/// hold words of 32 bits, and a residue of a wider prime takes two rows.
struct RowPacking<'a> {
    from: &'a Basis,
    packed: bool,
}

impl<'a> RowPacking<'a> {
    fn of(from: &'a Basis) -> Self {
        let packed = 2 * from.primes().filter(|&q| q >> PACKED_BITS == 0).count() > from.len();
        RowPacking { from, packed }
    }

    /// For each row, the index of its prime and the first bit of the residue that it holds.
    fn rows(&self) -> impl Iterator<Item = (usize, u32)> {
        let starts = |i| shifts(self.packed, self.from.modulus(i)).iter().map(move |&shift| (i, shift));
        (0..self.from.len()).flat_map(starts)
    }

    /// Q/qᵢ mod m for i = `skip`; Q mod m if `skip` is the number of primes.
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

    /// The factor of each row modulo `m`.
    fn factors(&self, m: &Modulus) -> impl Iterator<Item = u64> {
        self.rows().map(move |(i, shift)| m.mul(self.product(m, i), m.reduce(1u64 << shift)))
    }
}

/// The first bit of each row that a residue modulo `m` takes.
fn shifts(packed: bool, m: &Modulus) -> &'static [u32] {
    if packed && m.bits() > PACKED_BITS { &[0, PACKED_BITS] } else { &[0] }
}

/// Packs 32 bits of each word of `y`, from bit `shift` on, two in one word.
fn pack(y: &[u64], shift: u32) -> Buffer {
    let mut out = Buffer::scratch(y.len() / 2);
    let words: &mut [u32] = bytemuck::cast_slice_mut(&mut out);
    words.iter_mut().zip(y).for_each(|(o, &y)| *o = (y >> shift) as u32);
    out
}

fn views(rows: &[Buffer], packed: bool) -> Rows<'_> {
    if packed {
        Rows::Narrow(rows.iter().map(|y| bytemuck::cast_slice(y)).collect())
    } else {
        Rows::Wide(rows.iter().map(|y| &y[..]).collect())
    }
}

/// The scaled residues of a base conversion: the half of its work that does not depend on the output prime.
/// Or one digit of a base-2ʷ decomposition.
pub struct ScaledResidues {
    rows: Vec<Buffer>,
    limbs: usize,
    packed: bool,
}

impl ScaledResidues {
    pub(crate) fn digit(row: Buffer) -> Self {
        ScaledResidues { rows: vec![row], limbs: 1, packed: false }
    }

    /// Number of input limbs.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    fn views(&self) -> Rows<'_> {
        views(&self.rows, self.packed)
    }
}

impl Zeroize for ScaledResidues {
    fn zeroize(&mut self) {
        self.rows.iter_mut().for_each(Zeroize::zeroize);
    }
}

/// Divides by a product of primes and rounds to the nearest integer. If the dropped primes are the special
/// primes this is ModDown, if it is the last prime of the chain it is rescaling, and with both it is one
/// division for the two.
#[derive(Debug, Clone)]
pub struct ModDown {
    from: Basis,
    to: Basis,
    converter: BaseConverter,
    inverse: Vec<Constant>,
}

impl ModDown {
    /// The division by the product of `dropped`. It maps polynomials whose limbs are those of `kept` followed
    /// by those of `dropped` to polynomials over `kept`.
    pub fn new(kept: &Basis, dropped: &Basis) -> Self {
        let inverse = (0..kept.len())
            .map(|j| {
                let m = kept.modulus(j);
                let p = dropped.primes().fold(1, |p, q| m.mul(p, m.reduce(q)));
                m.constant(m.inv(p))
            })
            .collect();
        ModDown {
            from: dropped.clone(),
            to: kept.clone(),
            converter: BaseConverter::new(dropped, kept),
            inverse,
        }
    }

    /// ⌊x/P⌉ for the product P of the dropped primes.
    pub fn divide(&self, mut x: Poly<Ntt>) -> Poly<Ntt> {
        let kept = self.to.len();
        let scaled = self.converter.scaled_residues(&self.from, |i, w, y| {
            self.from.tables()[i].inverse_with(y, Some(x.limb(kept + i)), w);
        });
        x.truncate(kept);
        let n = self.to.n();
        // Two limbs at a time read several rows half as often. A single row stays in the cache with its limb.
        let at_a_time = scaled.rows.len().clamp(1, 2) * n;
        x.for_each_two_limbs(|first, limbs| {
            let mut made = Buffer::scratch(limbs.len().min(at_a_time));
            let output = |j: usize, limb| Output::Quotient(limb, self.inverse[j]);
            for (j, limbs) in (first..).step_by(at_a_time / n).zip(limbs.chunks_mut(at_a_time)) {
                match (limbs.split_at_mut(n), made.split_at_mut(n)) {
                    ((one, []), (limb, _)) => {
                        self.converter.values(&self.to, j, &scaled, limb, output(j, one));
                    }
                    ((one, two), (limb0, limb1)) => {
                        let outputs = [output(j, one), output(j + 1, two)];
                        self.converter.values_pair(&self.to, [j, j + 1], &scaled, [limb0, limb1], outputs);
                    }
                }
            }
        });
        x
    }

    /// ⌊(Σ k·x + constant)/P⌉ for the product P of the dropped primes. The x may have more limbs than are
    /// used.
    pub fn divide_sum(&self, terms: &[(i128, &Poly<Ntt>)], constant: i128) -> Poly<Ntt> {
        let (kept, n) = (self.to.len(), self.to.n());
        let factors = |m: &Modulus| -> Vec<u64> { terms.iter().map(|(k, _)| m.reduce_i128(*k)).collect() };
        let limbs = |j: usize| -> Vec<_> { terms.iter().map(|(_, x)| x.limb(j)).collect() };
        let scaled = self.converter.scaled_residues(&self.from, |i, w, y| {
            let m = self.from.modulus(i);
            // A constant polynomial has the same value at every root.
            simd::combine_into(m, y, &Rows::Wide(limbs(kept + i)), (&factors(m), m.reduce_i128(constant)));
            self.from.tables()[i].inverse_with(y, None, w);
        });
        let mut out = Poly::scratch(n, kept);
        out.for_each_limb(|j, limb| {
            let m = self.to.modulus(j);
            simd::combine_into(m, limb, &Rows::Wide(limbs(j)), (&factors(m), m.reduce_i128(constant)));
            let output = Output::Quotient(limb, self.inverse[j]);
            self.converter.values(&self.to, j, &scaled, &mut Buffer::scratch(n), output);
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NttTable, primes};
    use std::sync::Arc;

    /// An unpacked conversion holds one word for each residue and no further copy, and zeroing clears them
    /// all.
    #[test]
    fn unpacked_conversions_keep_no_copies() {
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
        let scale = |converter: &BaseConverter| converter.scaled_residues_coeff(&from, |_| &residues);
        let [packed, unpacked] = [BaseConverter::new(&from, &to), BaseConverter::unpacked(&from, &to)];
        let (mut a, mut b) = (vec![0; n], vec![0; n]);
        packed.output(&to, 0, &scale(&packed), &mut a);
        let mut scaled = scale(&unpacked);
        unpacked.output(&to, 0, &scaled, &mut b);
        assert_eq!((&a, &b), (&residues, &residues));
        assert!(scale(&packed).packed && !scaled.packed);
        // One row for each prime, and one for the multiple of Q.
        assert_eq!(scaled.rows.iter().map(|row| row.len()).collect::<Vec<_>>(), [n; 5]);
        scaled.zeroize();
        assert!(scaled.rows.iter().all(|row| row.iter().all(|&x| x == 0)));
    }
}
