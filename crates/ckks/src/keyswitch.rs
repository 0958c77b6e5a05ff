//! Hybrid key switching: decompose a polynomial into digits, multiply the digits by the key modulo QP, divide
//! by P.
//!
//! The decomposition holds the scaled residues of the digits ([`Digits`]). A limb of a digit is computed and
//! transformed only when it is multiplied, so that it stays in the cache.

use crate::{Ciphertext, Gadget, KeySwitchKey, Params};
use rns::{AccumulatorTerms, Basis, Buffer, Destination, Mode, Ntt, Output, Poly, ScaledResidues};
use std::cell::RefCell;

/// The polynomial to decompose, in the value domain. A sum of products Σ k·a·b is computed limb by limb and
/// never stored as a whole.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    Poly(&'a Poly<Ntt>),
    Products(&'a [(i64, &'a Poly<Ntt>, &'a Poly<Ntt>)]),
}

/// A polynomial decomposed into digits, to be multiplied by one key after another (hoisting).
pub(crate) struct Digits<'a> {
    params: &'a Params,
    gadget: &'a Gadget,
    level: usize,
    source: Source<'a>,
    /// The scaled residues of each digit.
    scaled: Vec<ScaledResidues>,
}

impl<'a> Digits<'a> {
    /// Decomposes `source`, which has `level` + 1 limbs.
    pub(crate) fn new(params: &'a Params, gadget: &'a Gadget, source: Source<'a>, level: usize) -> Self {
        let basis = params.q_basis(level);
        let scaled = gadget.split(basis, level, |i, w, y| match source {
            Source::Poly(a) => basis.tables()[i].inverse_with(y, Some(a.limb(i)), w),
            Source::Products(_) => {
                source.limb_into(basis, i, y);
                basis.tables()[i].inverse_with(y, None, w);
            }
        });
        Digits { params, gadget, level, source, scaled }
    }

    /// Whether limb `i` of the source belongs to digit `j`.
    fn owns(&self, j: usize, i: usize) -> bool {
        self.gadget.limbs(j, self.level).contains(&i)
    }

    /// Limb `i` of digit `j`, if the source has it stored.
    fn stored(&self, j: usize, i: usize) -> Option<&'a [u64]> {
        match self.source {
            Source::Poly(a) if self.owns(j, i) => Some(a.limb(i)),
            _ => None,
        }
    }

    /// Writes limb `i` of digit `j`, and behind it limb i + 1 if `out` has room for two, in the value domain
    /// and not reduced, as [`Self::times_key`] takes them. Limbs count the primes of Q at this level and then
    /// those of P. Limbs that [`Self::stored`] returns are left out.
    fn limbs_into(&self, j: usize, i: usize, out: &mut [u64]) {
        let (params, level) = (self.params, self.level);
        let full = params.qp_basis(params.max_level());
        let converter = self.gadget.converter(j, &self.scaled[j]);
        let prime = |i: usize| if i <= level { i } else { i + params.max_level() - level };
        let single = |i: usize, out: &mut [u64]| {
            if self.stored(j, i).is_some() {
                return;
            }
            if self.owns(j, i) {
                return self.source.limb_into(params.q_basis(level), i, out);
            }
            converter.values(full, prime(i), &self.scaled[j], out, Output::Lazy);
        };
        match out.split_at_mut(params.n()) {
            (one, []) => single(i, one),
            (one, two) if self.owns(j, i) || self.owns(j, i + 1) => {
                single(i, one);
                single(i + 1, two);
            }
            (one, two) => {
                let primes = [prime(i), prime(i + 1)];
                let outputs = [Output::Lazy, Output::Lazy];
                converter.values_pair(full, primes, &self.scaled[j], [one, two], outputs);
            }
        }
    }

    /// Calls `f(i, digits, outputs)` in parallel for every limb i over QP, with limb i of every digit and of
    /// every output. If digits have several rows, two limbs are computed at a time, so that the rows are read
    /// half as often.
    pub(crate) fn for_each_limb(
        &self,
        outputs: &mut [Poly<Ntt>],
        f: impl Fn(usize, &[&[u64]], &mut [&mut [u64]]) + Send + Sync,
    ) {
        // One buffer for each thread, with two limbs of every digit, which stays in the cache.
        thread_local!(static SCRATCH: RefCell<Buffer> = RefCell::new(Buffer::default()));
        let (n, digits) = (self.params.n(), self.scaled.len());
        let at_a_time = self.gadget.rows(self.level).min(2);
        Poly::for_each_two_limbs_of(outputs, |first, rows| {
            SCRATCH.with_borrow_mut(|scratch| {
                if scratch.len() < 2 * digits * n {
                    *scratch = Buffer::scratch(2 * digits * n);
                }
                let x = &mut scratch[..2 * digits * n];
                for (first, rows) in (first..).step_by(at_a_time).zip(rows.chunks_mut(at_a_time)) {
                    let made = rows.len() * n;
                    x.chunks_exact_mut(2 * n)
                        .enumerate()
                        .for_each(|(j, x)| self.limbs_into(j, first, &mut x[..made]));
                    for (k, row) in rows.iter_mut().enumerate() {
                        let x: Vec<&[u64]> = (x.chunks_exact(2 * n).enumerate())
                            .map(|(j, made)| self.stored(j, first + k).unwrap_or(&made[k * n..(k + 1) * n]))
                            .collect();
                        f(first + k, &x, row);
                    }
                }
            });
        });
    }

    /// Computes limb i of Σⱼ digitⱼ·keyⱼ plus the terms of `plus`, and writes it to the outputs as
    /// `destination` says.
    pub(crate) fn times_key(
        &self,
        i: usize,
        digits: &[&[u64]],
        key: &KeySwitchKey,
        plus: &AccumulatorTerms,
        destination: Destination,
        [o0, o1]: [&mut [u64]; 2],
    ) {
        let m = self.params.qp_basis(self.level).modulus(i);
        key.with_limb(self.params, self.level, i, digits.len(), |pairs| {
            rns::pair_products(m, o0, o1, digits, pairs, plus, destination);
        });
    }

    /// Computes limb i of P·`a` under the target secret of `key` and writes it to `out` as `destination`
    /// says. `digits` are those of c₁. Without a key, P·`a` stays under its own secret, and the permutation
    /// of `destination` is ignored.
    pub(crate) fn ciphertext_times_p(
        &self,
        i: usize,
        digits: &[&[u64]],
        key: Option<&KeySwitchKey>,
        a: &Ciphertext,
        destination: Destination,
        out: [&mut [u64]; 2],
    ) {
        // P·c is 0 modulo the special primes.
        let p = (i <= self.level).then(|| self.params.p_constants()[i]);
        if let Some(key) = key {
            let first = p.map(|p| (p.value, a.c0.limb(i)));
            let plus = AccumulatorTerms {
                multiples: [first.into_iter().collect(), Vec::new()],
                ..AccumulatorTerms::default()
            };
            return self.times_key(i, digits, key, &plus, destination, out);
        }
        for (part, out) in out.into_iter().enumerate() {
            if destination.mode == Mode::Write {
                out.fill(0);
            }
            if let Some(p) = p {
                let m = self.params.q_basis(self.level).modulus(i);
                let p = if destination.mode == Mode::Subtract { m.constant(m.neg(p.value)) } else { p };
                rns::mul_constant_add(m, out, a.limbs(i)[part], p);
            }
        }
    }

    /// The pair of polynomials Σⱼ digitⱼ·keyⱼ modulo QP, plus the terms of `plus(i)` in limb i.
    pub(crate) fn multiply<'b>(
        &self,
        key: &KeySwitchKey,
        plus: impl Fn(usize) -> AccumulatorTerms<'b> + Send + Sync,
    ) -> [Poly<Ntt>; 2] {
        let mut out = scratch(self.params, self.level);
        self.for_each_limb(&mut out, |i, digits, row| {
            if let [o0, o1] = row {
                self.times_key(i, digits, key, &plus(i), Destination::default(), [o0, o1]);
            }
        });
        out
    }
}

impl<'a> Source<'a> {
    /// Writes limb `i` of the source.
    fn limb_into(&self, basis: &Basis, i: usize, out: &mut [u64]) {
        match self {
            Source::Poly(a) => out.copy_from_slice(a.limb(i)),
            Source::Products([(1, a, b)]) => rns::mul_into(basis.modulus(i), out, a.limb(i), b.limb(i)),
            Source::Products(terms) => {
                let m = basis.modulus(i);
                let term = |(k, a, b): &(i64, &'a Poly<Ntt>, &'a Poly<Ntt>)| {
                    (m.constant(m.reduce_i64(*k)), a.limb(i), b.limb(i))
                };
                rns::sum_of_products(m, out, &terms.iter().map(term).collect::<Vec<_>>());
            }
        }
    }
}

/// Two polynomials modulo QP of unspecified content, to be overwritten.
pub(crate) fn scratch(params: &Params, level: usize) -> [Poly<Ntt>; 2] {
    let limbs = params.qp_basis(level).len();
    std::array::from_fn(|_| Poly::scratch(params.n(), limbs))
}
