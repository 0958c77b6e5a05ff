//! The paper's circuits compute what the paper says.

use circuits::inverse::Newton;
use circuits::paper::{
    PaperArgmax, PaperComparison, SquareRootIteration, Unraised, cold_start, cold_steps,
    compositions_of_comparison, compositions_of_maximum, square_root_steps,
};
use circuits::{Clear, SlotAlgebra};
use rand::{RngExt, SeedableRng};
use testkit::newton::{matrix_slots, read_solution};
use testkit::worst_error;

/// f_1 is (3x - x^3)/2, and compositions converge to the sign.
#[test]
fn paper_stage_and_convergence() {
    let one = PaperComparison::new(1, 1).unwrap();
    assert_eq!((one.depth(), one.products()), (2, 2));
    for x in [-1.0, -0.4, 0.1, 0.9] {
        assert!((one.eval(x) - (3.0 * x - x * x * x) / 2.0).abs() < 1e-14);
    }
    let many = PaperComparison::new(1, 18).unwrap();
    // It rises to 1, so that the error is largest at the gap.
    let error = |gap: f64| worst_error(|x| many.eval(x), |_| 1.0, [gap, 1.0], 10_000);
    assert!(error(2f64.powi(-8)) < 1e-6);
    assert!((error(0.01) - (1.0 - many.eval(0.01))).abs() < 1e-12);
    let f3 = PaperComparison::new(3, 1).unwrap();
    let x: f64 = 0.3;
    let want = (35.0 * x - 35.0 * x.powi(3) + 21.0 * x.powi(5) - 5.0 * x.powi(7)) / 16.0;
    assert!((f3.eval(x) - want).abs() < 1e-14);
}

/// The numbers of compositions at t = 130, with eps' = 1/(4.1 t), equal those computed by hand.
#[test]
fn paper_depths() {
    let eps = 1.0 / (4.1 * 130.0);
    assert_eq!(compositions_of_maximum(eps).unwrap(), 22);
    assert_eq!(compositions_of_comparison(eps).unwrap(), 9);
    assert!(compositions_of_maximum(0.25).is_err());
}

/// The iteration on vectors equals the iteration in f64, with the stated depth and products.
#[test]
fn square_roots_equal_the_scalar_form() {
    let alg = Clear::new(128).unwrap();
    let z: Vec<f64> = (0..128).map(|k| 3.0 * f64::from(k) / 127.0).collect();
    let u: Vec<f64> = z.iter().map(|z| 2.0 * z / 3.0 - 1.0).collect();
    for root in (1..6).map(|k| SquareRootIteration::new(k, 3.0, 0.7).unwrap()) {
        let v = alg.fresh_real(&u, root.depth()).unwrap();
        alg.reset_counts();
        let got = root.evaluate(&alg, &mut Unraised, &v).unwrap();
        assert_eq!((alg.level(&got), alg.counts().products), (0, root.products()));
        for (g, &z) in got.real().iter().zip(&z) {
            assert!((g - root.eval(z)).abs() < 1e-12);
        }
    }
    assert!(SquareRootIteration::new(0, 1.0, 1.0).is_err());
    assert!(square_root_steps(0.1, 2.0, 1.0).is_err());
    assert!(PaperComparison::new(0, 1).is_err());
}

/// With factor 2 the number of steps is enough for every precision and range that the paper uses.
#[test]
fn square_root_count_suffices() {
    for t in [2.0f64, 10.0, 130.0] {
        let c1 = 1.0 / (t.powf(1.5) * (1.0 + t).sqrt());
        let (k, upper) = (square_root_steps(1.0 / t, c1, c1 + 2.0).unwrap(), c1 + 2.0);
        let root = SquareRootIteration::new(k, upper, 1.0).unwrap();
        let error = worst_error(|z| root.eval(z), f64::sqrt, [c1, upper], 10_000);
        assert!(error <= 1.0 / t, "t {t}: {error} after {k}");
    }
}

#[test]
fn the_chain_finds_the_largest() {
    let comparison = PaperComparison::new(1, 14).unwrap();
    let paper = PaperArgmax::new(4, 8, comparison.clone(), comparison).unwrap();
    let alg = Clear::new(32).unwrap();
    let scores = [0.2, 0.9, 0.1, 0.7];
    let mut scores_in_blocks = [0.0; 32];
    scores_in_blocks.iter_mut().step_by(8).zip(scores).for_each(|(slot, score)| *slot = score);
    let v = alg.fresh_real(&scores_in_blocks, paper.depth()).unwrap();
    let b = paper.evaluate(&alg, &mut Unraised, &v).unwrap();
    assert_eq!(alg.level(&b), 0);
    let b = b.real();
    assert!(alg.rotation_levels().into_keys().eq(paper.rotations()));
    assert!(b[8] > 0.4 && [0, 16, 24].iter().all(|&j| b[j] < 1e-3), "{b:?}");
    assert!(b.iter().enumerate().all(|(j, x)| j % 8 == 0 || *x == 0.0));
}

/// The comparison on vectors equals the comparison in f64.
#[test]
fn comparisons_equal_the_scalar_form() {
    let alg = Clear::new(256).unwrap();
    let x: Vec<f64> = (0..256).map(|k| -1.0 + f64::from(k) / 127.5).collect();
    let c = PaperComparison::new(2, 3).unwrap();
    let v = alg.fresh_real(&x, c.depth()).unwrap();
    let (s, t) = (
        c.affine(&alg, &mut Unraised, &v, 1.0, 0.0).unwrap(),
        c.affine(&alg, &mut Unraised, &v, 0.5, 0.5).unwrap(),
    );
    assert_eq!((alg.level(&s), alg.level(&t)), (0, 0));
    for ((x, s), t) in x.iter().zip(s.real()).zip(t.real()) {
        assert!((s - c.eval(*x)).abs() < 1e-9);
        assert!((t - 0.5 - 0.5 * c.eval(*x)).abs() < 1e-9);
    }
}

type Matrix = Vec<f64>;

fn identity(d: usize) -> Matrix {
    (0..d * d).map(|s| if s / d == s % d { 1.0 } else { 0.0 }).collect()
}

fn product(a: &Matrix, b: &Matrix, d: usize) -> Matrix {
    (0..d * d).map(|s| (0..d).map(|k| a[s / d * d + k] * b[k * d + s % d]).sum()).collect()
}

/// I plus `t` outer products of random unit vectors.
fn matrix(d: usize, t: usize, rng: &mut rand_chacha::ChaCha8Rng) -> Matrix {
    let mut v = identity(d);
    for _ in 0..t {
        let x: Vec<f64> = (0..d).map(|_| rng.random::<f64>() - 0.5).collect();
        let norm: f64 = x.iter().map(|x| x * x).sum();
        v.iter_mut().enumerate().for_each(|(s, v)| *v += x[s / d] * x[s % d] / norm);
    }
    v
}

/// A cold start with the paper's number of steps reaches the paper's precision.
#[test]
fn cold_start_converges_in_k1_steps() {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
    let (d, t, eps) = (4, 50, 1e-4);
    let v = matrix(d, t, &mut rng);
    let c = d as f64 + t as f64;
    let steps = cold_steps(eps, 1.0, c).unwrap();
    let newton = Newton::new(d, 1.0, &vec![1.0; steps], 1.0).unwrap();
    let alg = Clear::new(newton.period()).unwrap();
    let matrix = alg.fresh(&matrix_slots(d, &v), 1 + 2 * steps).unwrap();
    let state = cold_start(&alg, d, 1.0, &matrix, c).unwrap();
    for (got, v) in state.real()[d * d..2 * d * d].iter().zip(&v) {
        assert!((got - v / c).abs() <= 1e-12 * (1.0 + v / c));
    }
    let inverse = newton.iterate(&alg, &state).unwrap();
    assert_eq!(alg.level(&inverse), 0);
    let (x, _) = read_solution(d, inverse.values());
    let residual = product(&x, &v, d);
    // ||X - V^-1|| <= eps, and ||V|| <= c.
    for (r, i) in residual.iter().zip(identity(d)) {
        assert!((r - i).abs() <= eps * c);
    }
    assert!(cold_steps(0.1, 2.0, 1.0).is_err());
}
