//! Seconds of slot operations: measured at one parameter set, and carried over to others in proportion to the
//! work, counted in transforms of one limb.

use crate::count::Op;
use ckks::{Gadget, Params, ParamsSpec};
use rns::Kernel;
use std::collections::BTreeMap;

/// `kernel,operation,level,threads,nanoseconds`: medians of the record, at [`ckks::LOGN15_LOGQP858_DEPTH18`];
/// `expand_key` is `rotate_seeded` less `rotate`.
const MEASURED: &str = include_str!("measured.csv");
pub(crate) const MEASURED_AT: ParamsSpec = ckks::LOGN15_LOGQP858_DEPTH18;

/// Cost of the embedding in floating point, in transforms of one limb, at any level.
const EMBEDDING: f64 = 24.0;
/// The kernels' times over that of a transform of one limb of the same length (`rns/…` in the record).
const COMBINE_A_TERM: f64 = 0.075;
const INNER_PRODUCTS_A_DIGIT: f64 = 0.20;
const PASS: f64 = 0.15;
/// A limb of an operand, which comes from memory.
const OPERAND: f64 = 0.4;

/// The sizes at a level of a parameter set that the work of an operation depends on.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    n: f64,
    /// Limbs of the level and of P.
    q: f64,
    p: f64,
    /// Rotations and products have digits of different sizes.
    galois: Digits,
    relin: Digits,
}

/// The number of digits, the rows that one digit is computed from, and the transforms of all digits together.
#[derive(Debug, Clone, Copy)]
struct Digits {
    count: f64,
    rows: f64,
    transforms: f64,
}

impl Sizes {
    fn new(params: &Params, level: usize) -> Self {
        let digits = |gadget: &Gadget| Digits {
            count: gadget.digits(level) as f64,
            rows: gadget.rows(level) as f64,
            transforms: gadget.transforms(level, params.qp_basis(level).len()) as f64,
        };
        Sizes {
            n: params.n() as f64,
            q: (level + 1) as f64,
            p: params.p_basis().len() as f64,
            galois: digits(params.galois_gadget()),
            relin: digits(params.relin_gadget()),
        }
    }

    /// The decomposition of a polynomial into digits modulo QP, which serves all keys.
    fn decompose(&self, digits: Digits) -> f64 {
        self.q + digits.transforms * (1.0 + COMBINE_A_TERM * (digits.rows + 1.0))
    }

    /// The product of the digits and a key.
    fn key(&self, digits: Digits) -> f64 {
        (self.q + self.p) * (digits.count * INNER_PRODUCTS_A_DIGIT + PASS)
    }

    /// The division of two polynomials modulo QP by the product of `dropped` primes.
    fn divide(&self, dropped: f64) -> f64 {
        let kept = self.q + self.p - dropped;
        2.0 * (dropped + kept * (1.0 + COMBINE_A_TERM * (dropped + 1.0) + PASS))
    }

    /// The work of `op`, in transforms of one limb.
    fn work(&self, op: Op) -> f64 {
        let rescale = 2.0 * (1.0 + (self.q - 1.0) * (1.0 + PASS));
        match op {
            Op::Add => 2.0 * self.q * PASS,
            Op::PlainProduct { terms } => 2.0 * self.q * OPERAND * terms as f64 + rescale,
            Op::Adjust => 2.0 * self.q * OPERAND + rescale,
            // A plaintext of fewer values than slots is repeated, not transformed.
            Op::Encode { values, wide } => {
                let limbs = self.q + if wide { self.p } else { 0.0 };
                (EMBEDDING + limbs) * values as f64 / (self.n / 2.0)
            }
            Op::Product { products, terms } => {
                // For each prime a product reads four limbs, two of them again for the decomposition, and
                // these once more where a digit has them. A term reads two.
                let operands = (8 * products + 2 * terms) as f64;
                let sums = self.q * OPERAND * operands;
                self.decompose(self.relin) + self.key(self.relin) + sums + self.divide(self.p + 1.0)
            }
            Op::Rotations { count } => {
                self.decompose(self.galois) + count as f64 * self.key(self.galois) + self.divide(self.p)
            }
            Op::Expand { keys } => keys as f64 * (self.q + self.p) * self.galois.count,
            Op::Transform { babies, giants, diagonals } => {
                let (giants, diagonals) = (giants as f64, diagonals as f64);
                let wide = self.q + self.p;
                let (decompose, key) = (self.decompose(self.galois), self.key(self.galois));
                let baby = babies.map_or(0.0, |babies| decompose + babies as f64 * key);
                let giant = giants * (decompose + key + 0.5 * self.divide(self.p));
                let sums = diagonals * wide * INNER_PRODUCTS_A_DIGIT;
                baby + giant + sums + self.divide(self.p + 1.0)
            }
        }
    }

    /// The cost of a transform is proportional to N log N; log N of the shipped rings differs by about a
    /// twentieth.
    fn limb(&self) -> f64 {
        self.n * self.n.log2()
    }
}

/// The lines of the table: kernel, operation, level, threads, nanoseconds.
fn table() -> impl Iterator<Item = (&'static str, &'static str, usize, usize, f64)> {
    MEASURED.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let (kernel, operation) = (fields.next()?, fields.next()?);
        let mut number = || fields.next()?.parse().ok();
        let (level, threads) = (number()?, number()?);
        Some((kernel, operation, level, threads, fields.next()?.parse().ok()?))
    })
}

/// Whether the table has prices of `kernel`.
pub(crate) fn is_measured(kernel: Kernel) -> bool {
    let word = kernel.to_string();
    table().any(|(of, ..)| of == word)
}

/// Prices at one parameter set on a number of threads.
pub(crate) struct Prices<'a> {
    params: &'a Params,
    reference: &'a Params,
    threads: usize,
    /// (operation, threads) → nanoseconds by level.
    measured: BTreeMap<(&'static str, usize), BTreeMap<usize, f64>>,
}

impl<'a> Prices<'a> {
    /// For a kernel that is measured, on one or two threads. `reference` is the set of [`MEASURED_AT`].
    pub(crate) fn new(params: &'a Params, reference: &'a Params, kernel: Kernel, threads: usize) -> Self {
        let word = kernel.to_string();
        let mut measured: BTreeMap<_, BTreeMap<usize, f64>> = BTreeMap::new();
        for (.., op, level, threads, ns) in table().filter(|(of, ..)| *of == word) {
            measured.entry((op, threads)).or_default().insert(level, ns);
        }
        Prices { params, reference, threads, measured }
    }

    /// log₂ N.
    pub(crate) fn log_n(&self) -> u32 {
        self.params.spec().log_n
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Those on one thread.
    pub(crate) fn of_one_thread(&self) -> Self {
        Prices { threads: 1, measured: self.measured.clone(), ..*self }
    }

    /// Seconds of `op` at `level`.
    pub(crate) fn seconds(&self, op: Op, level: usize) -> f64 {
        // The measured operation of the same kind, whose time per unit of work is carried over.
        let (name, alike) = match op {
            Op::Add => ("add", Op::Add),
            Op::PlainProduct { .. } | Op::Adjust => ("mul_plain", Op::PlainProduct { terms: 1 }),
            Op::Encode { .. } => ("encode", Op::Encode { values: self.reference.max_slots(), wide: false }),
            Op::Product { .. } => ("mul", Op::Product { products: 1, terms: 0 }),
            Op::Rotations { count: 1 } => ("rotate", Op::Rotations { count: 1 }),
            Op::Rotations { .. } => ("sum_of_4_rotations", Op::Rotations { count: 4 }),
            Op::Expand { .. } => ("expand_key", Op::Expand { keys: 1 }),
            Op::Transform { .. } => ("rotate", Op::Rotations { count: 1 }),
        };
        let here = Sizes::new(self.params, level);
        here.work(op) * here.limb() * self.rate(name, alike, level)
    }

    /// Seconds of an encryption under the public key at `level`, by its limbs.
    pub(crate) fn encryption(&self, level: usize) -> f64 {
        let rate = self.interpolated("encrypt_public", level, |s| s.q * s.limb());
        let here = Sizes::new(self.params, level);
        here.q * here.limb() * rate
    }

    fn rate(&self, name: &'static str, op: Op, level: usize) -> f64 {
        self.interpolated(name, level, |s| s.work(op) * s.limb())
    }

    /// Seconds a unit of work, between the levels measured.
    fn interpolated(&self, name: &'static str, level: usize, work: impl Fn(&Sizes) -> f64) -> f64 {
        let Some(measured) = self.measured.get(&(name, self.threads)) else { return f64::NAN };
        let rate = |(l, ns): (&usize, &f64)| (*l as f64, ns * 1e-9 / work(&Sizes::new(self.reference, *l)));
        let below = measured.range(..=level).next_back().or_else(|| measured.first_key_value());
        let above = measured.range(level..).next().or_else(|| measured.last_key_value());
        let (Some(below), Some(above)) = (below.map(rate), above.map(rate)) else { return f64::NAN };
        let share = if above.0 > below.0 { (level as f64 - below.0) / (above.0 - below.0) } else { 0.0 };
        below.1 + share * (above.1 - below.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernels with prices, on one and two threads.
    fn measured() -> impl Iterator<Item = (Kernel, usize)> {
        let kernels = Kernel::ALL.into_iter().filter(|&kernel| is_measured(kernel));
        kernels.flat_map(|kernel| [(kernel, 1), (kernel, 2)])
    }

    /// Every line of the table is read, and every price is a positive number that grows with the level.
    #[test]
    fn prices_exist_and_grow() {
        let params = MEASURED_AT.validate().unwrap();
        let mut read = 0;
        for (kernel, threads) in measured() {
            let prices = Prices::new(&params, &params, kernel, threads);
            read += prices
                .measured
                .iter()
                .filter(|((_, t), _)| *t == threads)
                .map(|(_, l)| l.len())
                .sum::<usize>();
            for (op, growth) in [
                (Op::Add, 2.0),
                (Op::PlainProduct { terms: 1 }, 2.0),
                (Op::Adjust, 2.0),
                // Half of it or more is the embedding.
                (Op::Encode { values: 1024, wide: true }, 1.0),
                (Op::Product { products: 2, terms: 3 }, 2.0),
                (Op::Rotations { count: 3 }, 2.0),
                (Op::Expand { keys: 1 }, 2.0),
                (Op::Transform { babies: Some(4), giants: 4, diagonals: 16 }, 2.0),
            ] {
                let all: Vec<f64> = (1..=18).map(|l| prices.seconds(op, l)).collect();
                assert!(all[0] > 0.0 && all[17] > growth * all[0], "{op:?}: {all:?}");
            }
            assert!(prices.encryption(0) > 0.0);
        }
        assert_eq!(read, MEASURED.lines().count() - 1);
    }

    /// At a measured level the price is the measurement.
    #[test]
    fn measured_prices_come_back() {
        let params = MEASURED_AT.validate().unwrap();
        for (kernel, threads) in measured() {
            let prices = Prices::new(&params, &params, kernel, threads);
            for (name, op) in
                [("mul", Op::Product { products: 1, terms: 0 }), ("rotate", Op::Rotations { count: 1 })]
            {
                for (level, ns) in &prices.measured[&(name, threads)] {
                    assert!((prices.seconds(op, *level) / (ns * 1e-9) - 1.0).abs() < 1e-9);
                }
            }
        }
    }

    /// A sum is charged for each limb that it reads from memory: for each prime two a term, and eight a
    /// product.
    #[test]
    fn operands_have_their_price() {
        let sizes = Sizes::new(&MEASURED_AT.validate().unwrap(), 6);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let product = |products, terms| sizes.work(Op::Product { products, terms });
        let (limbs, one) = (7.0, product(1, 0));
        assert!(near(product(3, 0) - one, 2.0 * 8.0 * limbs * OPERAND));
        assert!(near(product(1, 5) - one, 5.0 * 2.0 * limbs * OPERAND));
        let plain = |terms| sizes.work(Op::PlainProduct { terms });
        assert!(near(plain(4) - plain(1), 3.0 * 2.0 * limbs * OPERAND));
        assert!(near(sizes.work(Op::Adjust), plain(1)));
    }

    /// Between two measured levels the time per unit of work is interpolated linearly.
    #[test]
    fn levels_in_between_are_interpolated() {
        let params = MEASURED_AT.validate().unwrap();
        for (kernel, threads) in measured() {
            let prices = Prices::new(&params, &params, kernel, threads);
            let op = Op::Product { products: 1, terms: 0 };
            let rate = |level: usize| prices.rate("mul", op, level);
            let (low, middle, high) = (rate(2), rate(9), rate(18));
            assert!(low != middle && middle != high);
            assert!((rate(5) - (low + 3.0 / 7.0 * (middle - low))).abs() < 1e-18);
            assert!((rate(12) - (middle + 3.0 / 9.0 * (high - middle))).abs() < 1e-18);
            assert_eq!(rate(1), low);
        }
    }
}
