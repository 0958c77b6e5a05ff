//! The suite that every implementation of [`SlotAlgebra`] must pass.

use std::collections::BTreeSet;

use num_complex::Complex64;

use circuits::{Chebyshev, Error, LinearTransform, SlotAlgebra, Steps};

/// The least level of a fresh vector.
pub(crate) const LEVELS: usize = 4;

/// The rotations of [`check`] on `slots` slots, 8 or more, so that keys can be generated for them.
pub(crate) fn rotations(slots: usize) -> BTreeSet<i64> {
    let transforms = transforms(slots).unwrap_or_default();
    let mut all: BTreeSet<i64> = transforms.iter().flat_map(LinearTransform::rotations).collect();
    all.extend(plain_rotations(slots));
    all.remove(&0);
    all
}

/// Runs every operation, compares levels exactly, and compares values within `tolerance`. Values are in the
/// unit disc, and results have magnitude at most 8. `encrypt` returns a fresh vector at a top level of at
/// least [`LEVELS`].
///
/// # Panics
/// If an operation deviates from the trait.
pub(crate) fn check<A: SlotAlgebra>(
    alg: &A,
    encrypt: impl Fn(&[Complex64]) -> A::Vector,
    decrypt: impl Fn(&A::Vector) -> Vec<Complex64>,
    tolerance: f64,
) {
    let n = alg.slots();
    assert!(n.is_power_of_two() && n >= 8, "slots: {n}");
    let (x, y) = (disc(n, 0.3), disc(n, 1.1));
    let (a, b) = (encrypt(&x), encrypt(&y));
    let top = alg.level(&a);
    assert!(top >= LEVELS, "fresh level {top}");
    let see =
        |op: &str, got: Result<A::Vector, A::Error>, level: usize, want: &dyn Fn(usize) -> Complex64| {
            let got = got.unwrap_or_else(|e| panic!("{op}: {e}"));
            assert_eq!(alg.level(&got), level, "{op}: level");
            let slots = decrypt(&got);
            assert_eq!(slots.len(), n, "{op}: slots");
            for (j, s) in slots.iter().enumerate() {
                let error = (s - want(j)).norm();
                assert!(error <= tolerance, "{op}: slot {j} is off by {error:e}");
            }
        };
    let refused = |op: &str, got: Result<A::Vector, A::Error>| assert!(got.is_err(), "{op}: accepted");
    let low = alg.drop_to(&b, top - 2).unwrap_or_else(|e| panic!("drop_to: {e}"));
    let floor = alg.drop_to(&a, 0).unwrap_or_else(|e| panic!("drop_to: {e}"));
    let c = Complex64::new(-0.4, 0.7);
    let short: Vec<Complex64> = disc(n / 4, 2.0);

    see("drop_to", Ok(low.clone()), top - 2, &|j| y[j]);
    refused("drop_to a higher level", alg.drop_to(&low, top - 1));
    see("add", alg.add(&a, &b), top, &|j| x[j] + y[j]);
    see("add, levels apart", alg.add(&a, &low), top - 2, &|j| x[j] + y[j]);
    see("sub, levels apart", alg.sub(&low, &a), top - 2, &|j| y[j] - x[j]);
    see("neg", Ok(alg.neg(&a)), top, &|j| -x[j]);
    see("add_const", alg.add_const(&low, c), top - 2, &|j| y[j] + c);
    see("add_plain", alg.add_plain(&low, &x), top - 2, &|j| y[j] + x[j]);
    see("add_plain, repeated", alg.add_plain(&a, &short), top, &|j| x[j] + short[j % (n / 4)]);
    see("mul_integer", alg.mul_integer(&a, -3), top, &|j| x[j] * -3.0);
    see("mul_integer by 0", alg.mul_integer(&a, 0), top, &|_| Complex64::ZERO);
    see("mul_i", alg.mul_i(&a), top, &|j| x[j] * Complex64::I);
    see("add at level 0", alg.add(&floor, &b), 0, &|j| x[j] + y[j]);
    see("conjugate", alg.conjugate(&a), top, &|j| x[j].conj());
    for k in plain_rotations(n) {
        see("rotate", alg.rotate(&a, k), top, &|j| x[at(j, k, n)]);
    }

    see("mul", alg.mul(&a, &b), top - 1, &|j| x[j] * y[j]);
    see("mul, levels apart", alg.mul(&low, &a), top - 3, &|j| x[j] * y[j]);
    see("square", alg.square(&low), top - 3, &|j| y[j] * y[j]);
    see("mul_plain", alg.mul_plain(&a, &short), top - 1, &|j| x[j] * short[j % (n / 4)]);
    see("mul_const", alg.mul_const(&low, -0.37), top - 3, &|j| y[j] * -0.37);
    let combined = alg.linear_combination(&[(0.3, &a), (-1.7, &low), (2.0, &b)], 0.25);
    see("linear_combination", combined, top - 3, &|j| x[j] * 0.3 + y[j] * 0.3 + 0.25);
    refused("linear_combination of nothing", alg.linear_combination(&[], 1.0));

    let transforms = transforms(n).unwrap_or_else(|e| panic!("transforms: {e}"));
    for t in &transforms {
        see("linear", alg.linear(&a, t), top - 1, &|j| {
            t.diagonals().map(|(k, d)| d[j % d.len()] * x[at(j, k, n)]).sum()
        });
    }
    let wide = LinearTransform::new(2 * n, n, steps(&[], 0), [(0, disc(2 * n, 0.0))]);
    let wide = wide.unwrap_or_else(|e| panic!("{e}"));
    refused("linear with too long a period", alg.linear(&a, &wide));

    // Results of different depth must have equal scales at one level.
    let product = alg.mul(&a, &b).and_then(|p| alg.add(&alg.mul(&p, &a)?, &alg.mul_const(&b, 0.5)?));
    see("paths of different length", product, top - 2, &|j| x[j] * x[j] * y[j] + y[j] * 0.5);

    let p = Chebyshev::new(vec![0.1, 0.4, 0.0, -0.2, 0.1, 0.05, 0.0, 0.15], -1.0, 1.0)
        .unwrap_or_else(|e| panic!("{e}"));
    let real: Vec<Complex64> = x.iter().map(|v| v.re.into()).collect();
    see("polynomial", p.evaluate(alg, &encrypt(&real)), top - 3, &|j| p.eval(x[j].re).into());

    refused("mul at level 0", alg.mul(&floor, &a));
    refused("square at level 0", alg.square(&floor));
    refused("mul_plain at level 0", alg.mul_plain(&floor, &x));
    refused("mul_const at level 0", alg.mul_const(&floor, 0.5));
    refused("linear_combination at level 0", alg.linear_combination(&[(1.0, &floor)], 0.0));
    refused("linear at level 0", alg.linear(&floor, &transforms[0]));
    for bad in [0, 3, 2 * n] {
        refused("add_plain of a bad length", alg.add_plain(&a, &disc(bad, 0.0)));
        refused("mul_plain of a bad length", alg.mul_plain(&a, &disc(bad, 0.0)));
    }
    see("operands are left alone", Ok(a.clone()), top, &|j| x[j]);
}

fn plain_rotations(slots: usize) -> [i64; 5] {
    let n = slots as i64;
    [0, 1, -1, n / 2, 3 - n]
}

/// Transforms with dense, strided and single diagonals, of full and of smaller length.
fn transforms(slots: usize) -> Result<Vec<LinearTransform>, Error> {
    let n = slots as i64;
    let band = (-3..4).map(|k| (k, disc(slots, 0.2 * k as f64)));
    let strided = (-2..2).map(|k| (k * n / 4, disc(slots / 4, 0.9 * k as f64)));
    Ok(vec![
        LinearTransform::new(slots, slots, steps(&[-3, -1], 2), band)?,
        LinearTransform::new(slots, slots, steps(&[], n / 4), strided)?,
        LinearTransform::new(slots / 2, slots, steps(&[5], 0), [(5, disc(slots / 2, 0.0))])?,
    ])
}

fn steps(babies: &[i64], giant: i64) -> Steps {
    Steps { babies: babies.to_vec(), giant }
}

/// Values that fill the unit disc. They are equal on every machine up to the last few bits.
fn disc(n: usize, phase: f64) -> Vec<Complex64> {
    (0..n).map(|j| Complex64::from_polar((1.7 * j as f64 + phase).sin(), 0.9 * j as f64 + phase)).collect()
}

fn at(j: usize, k: i64, n: usize) -> usize {
    (j as i64 + k).rem_euclid(n as i64) as usize
}
