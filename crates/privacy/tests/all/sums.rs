//! Shuffled bit sums and the tree of continual sums.

use fault::OutOfRange;
use privacy::Error;
use privacy::budget::{Delta, Epsilon, Rho, Sensitivity};
use privacy::gauss::{GaussianNoise, GridGaussian, HarnessGaussian};
use privacy::shuffle::{BitSum, divergence};
use privacy::source::SplitMix64;
use privacy::tree::Tree;
use serde_json::json;

fn eps(v: f64) -> Epsilon {
    Epsilon::new(v).unwrap()
}
fn del(v: f64) -> Delta {
    Delta::new(v).unwrap()
}

/// `(mean, variance)` with the divisor n.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n)
}

/// Stored and read back a tree goes on; damaged, it is refused: by name, and without a panic later.
#[test]
fn stored_trees() {
    let mut tree = Tree::new(vec![0.0, 1.0], 5).unwrap();
    let (mut noise, mut rng) = (GridGaussian::new(12).unwrap(), SplitMix64::new(5));
    (0..3).for_each(|i| tree.add(&[f64::from(i), 1.0], &mut noise, &mut rng).unwrap());
    let good = serde_json::to_value(&tree).unwrap();
    let mut again: Tree = serde_json::from_value(good.clone()).unwrap();
    let mut twin = rng.clone();
    tree.add(&[7.0, 7.0], &mut noise, &mut rng).unwrap();
    again.add(&[7.0, 7.0], &mut noise, &mut twin).unwrap();
    assert_eq!(again, tree);
    for (path, bad) in [
        ("/horizon", json!(0)),
        ("/horizon", json!(2)),
        ("/horizon", json!(1u64 << 60)),
        ("/items", json!(6)),
        ("/sigmas", json!([])),
        ("/sigmas", json!([0.0])),
        ("/sigmas/1", json!(-1.0)),
        ("/blocks", json!([])),
        ("/blocks/0/exact", json!([1.0])),
        ("/blocks/3/noisy", json!([1.0, 2.0, 3.0])),
    ] {
        let mut damaged = good.clone();
        *damaged.pointer_mut(path).unwrap() = bad.clone();
        assert!(serde_json::from_value::<Tree>(damaged).is_err(), "{path} {bad}");
    }
}

#[test]
fn stated_constants() {
    for (n, d, e, g, b) in [
        (100, 2, 1.0, 20, 94_155_904),
        (10_000, 3, 1.0, 200, 107_797_121),
        (10_000, 3, 0.5, 200, 431_188_484),
    ] {
        let sum = BitSum::stated(1.0, n, d, eps(e), del(1e-3)).unwrap();
        assert_eq!((sum.steps(), sum.noise_bits()), (g, b));
    }
    let sum = BitSum::stated(1.0, 2000, 2, eps(2.0), del(1e-3)).unwrap();
    assert_eq!((sum.steps(), sum.noise_bits()), (90, 23_833_213));
    assert!((sum.noise_deviation() - 2100.8).abs() < 0.05);
    assert!(BitSum::stated(1.0, 10, 1, eps(16.0), del(1e-3)).is_err());
    assert!(BitSum::stated(1.0, 10, 1, eps(1.0), del(0.5)).is_err());
}

/// Least noise by the exact divergence: 700 to 800 times less than stated.
#[test]
fn calibrated_constants() {
    for (n, e, d, least, b) in
        [(25, 1.0, 1e-3, 3659, 147), (100, 1.0, 1e-3, 14382, 144), (400, 0.5, 1e-5, 423_712, 1060)]
    {
        let sum = BitSum::calibrated(1.0, n, n, 1, eps(e), del(d)).unwrap();
        assert_eq!(sum.noise_bits(), b);
        assert!(divergence(least, sum.steps(), eps(e)) <= d);
        assert!(divergence(least - 1, sum.steps(), eps(e)) > d);
        let stated = BitSum::stated(1.0, n, 1, eps(e), del(d)).unwrap();
        let factor = stated.noise_deviation() / sum.noise_deviation();
        assert!((700.0..830.0).contains(&factor), "{factor}");
    }
    assert!(BitSum::calibrated(1.0, 25, 25, 1, eps(1.0), Delta::ZERO).is_err());
}

/// Made-up users add no noise. Sized for all, what is left without a quarter of them exceeds the promise;
/// sized for the others, it keeps it, with the least noise that does.
#[test]
fn attack_made_up_users_leave_enough_bits() {
    let (users, honest, e, d) = (400, 300, eps(1.0), del(1e-6));
    let left = |sum: &BitSum, less: u64| divergence(honest * (sum.noise_bits() - less), sum.steps(), e);
    let counting_on_all = BitSum::calibrated(1.0, users, users, 1, e, d).unwrap();
    assert!(left(&counting_on_all, 0) > d.get());
    let sized = BitSum::calibrated(1.0, users, honest, 1, e, d).unwrap();
    assert!(left(&sized, 0) <= d.get() && left(&sized, 1) > d.get());
    let stored = |bits| BitSum::with_noise(1.0, users, honest, 1, e, d, bits);
    assert!(stored(sized.noise_bits()).unwrap() == sized && stored(counting_on_all.noise_bits()).is_err());
    for honest in [0, users + 1] {
        assert!(BitSum::calibrated(1.0, users, honest, 1, e, d).is_err());
    }
}

/// The divergence is the sum over all counts, where that can be afforded.
#[test]
fn divergence_is_the_plain_sum() {
    for (n, g, e) in [(12u64, 1u64, 0.3), (40, 3, 1.0), (200, 10, 0.5), (5, 7, 1.0)] {
        let mut p = vec![0.75f64.powi(n as i32)];
        for k in 0..n as usize {
            p.push(p[k] * (n as usize - k) as f64 / (3.0 * (k + 1) as f64));
        }
        let at = |x: i64| usize::try_from(x).ok().and_then(|x| p.get(x)).copied().unwrap_or(0.0);
        let stick = |s: i64| -> f64 {
            (-20..(n + 20) as i64).map(|x| (at(x) - f64::exp(e) * at(x - s)).max(0.0)).sum()
        };
        let want = stick(g as i64).max(stick(-(g as i64)));
        let got = divergence(n, g, eps(e));
        assert!((got - want).abs() <= 1e-12, "{n} {g} {e}: {got} against {want}");
    }
}

#[test]
fn bit_sum_golden() {
    let sum = BitSum::new(1.0, 2, 4, 8).unwrap();
    let mut words = SplitMix64::new(42);
    let ones: Vec<u64> = [0.3, -0.5].iter().map(|x| sum.randomise(*x, &mut words).unwrap()).collect();
    assert_eq!(ones, [4, 2]);
    assert_eq!(sum.analyse(6).unwrap(), -1.0);
    for bad in [1.5, -1.0001, f64::NAN] {
        assert!(matches!(
            sum.encode(bad, &mut words),
            Err(Error::OutOfRange(OutOfRange { field: "value", .. }))
        ));
    }
    assert!(sum.analyse(25).is_err() && sum.shuffle(&[0.0], &mut words).is_err());
    for bad in [BitSum::new(0.0, 1, 1, 1), BitSum::new(1.0, 0, 1, 1), BitSum::new(1.0, 1, 0, 1)] {
        assert!(matches!(bad, Err(Error::OutOfRange(_))));
    }
    assert!(matches!(BitSum::new(1.0, 1 << 30, 4, 1 << 30), Err(Error::Overflow { .. })));
}

/// Estimates at 4.8·10^10 noise bits: unbiased, of the predicted deviation; message by message and in one
/// draw.
#[test]
fn bit_sum_statistics() {
    let sum = BitSum::stated(1.0, 2000, 2, eps(2.0), del(1e-3)).unwrap();
    let values: Vec<f64> = (0..2000).map(|i| f64::from(i % 21) / 10.0 - 1.0).collect();
    let truth: f64 = values.iter().sum();
    let mut words = SplitMix64::new(3);
    let runs = 2000;
    let errors: Vec<f64> =
        (0..runs).map(|_| sum.analyse(sum.shuffle(&values, &mut words).unwrap()).unwrap() - truth).collect();
    let (mean, variance) = moments(&errors);
    let predicted = sum.noise_deviation();
    assert!(mean.abs() < 3.5 * predicted / f64::from(runs).sqrt(), "{mean}");
    // Standard error of a deviation: 1/sqrt(2 runs).
    assert!((variance.sqrt() / predicted - 1.0).abs() < 3.5 / (2.0 * f64::from(runs)).sqrt(), "{variance}");

    let small = BitSum::new(1.0, 50, 15, 1000).unwrap();
    let values = &values[..50];
    let truth: f64 = values.iter().sum();
    let one_by_one: Vec<f64> = (0..runs)
        .map(|_| {
            let ones = values.iter().map(|x| small.randomise(*x, &mut words).unwrap()).sum();
            small.analyse(ones).unwrap() - truth
        })
        .collect();
    let (mean, variance) = moments(&one_by_one);
    assert!(mean.abs() < 3.5 * small.noise_deviation() / f64::from(runs).sqrt(), "{mean}");
    assert!((variance.sqrt() / small.noise_deviation() - 1.0).abs() < 3.5 / (2.0 * f64::from(runs)).sqrt());
}

#[test]
fn tree_without_noise_sums() {
    let mut tree = Tree::new(vec![0.0], 8).unwrap();
    let rng = &mut SplitMix64::new(0);
    let mut seen = Vec::new();
    for x in 1..=8 {
        tree.add(&[f64::from(x)], &mut HarnessGaussian, rng).unwrap();
        seen.push(tree.prefix()[0]);
    }
    assert_eq!(seen, [1.0, 3.0, 6.0, 10.0, 15.0, 21.0, 28.0, 36.0]);
    let before = tree.clone();
    assert!(matches!(
        tree.add(&[1.0], &mut HarnessGaussian, rng),
        Err(Error::OutOfRange(OutOfRange { field: "items", .. }))
    ));
    assert_eq!(tree, before);
    let levels: Vec<u32> = [1, 2, 3, 4, 5, 8, 5000, 8192, 8193].iter().map(|t| Tree::levels(*t)).collect();
    assert_eq!(levels, [1, 2, 3, 3, 4, 4, 14, 14, 15]);
    let rho = Rho::within(eps(4.0 / 3.0), del(0.02 / 3.0)).unwrap();
    assert!((Tree::sigma(rho, Sensitivity::new(1.0).unwrap(), 5000) - 9.43971350).abs() < 5e-9);
}

/// Variance of prefix t is the number of ones in t; a block that two prefixes share is the same block. For
/// both noises.
fn tree_variances(mut noise: impl GaussianNoise, seed: u64) {
    let (runs, rng) = (4000, &mut SplitMix64::new(seed));
    let mut prefixes = vec![Vec::new(); 8];
    for _ in 0..runs {
        let mut tree = Tree::new(vec![1.0], 8).unwrap();
        for prefix in &mut prefixes {
            tree.add(&[0.0], &mut noise, rng).unwrap();
            assert_eq!(tree.prefix(), tree.prefix());
            prefix.push(tree.prefix()[0]);
        }
    }
    for (t, prefix) in (1u32..).zip(&prefixes) {
        let (mean, variance) = moments(prefix);
        let want = f64::from(t.count_ones());
        assert!(mean.abs() < 3.5 * (want / runs as f64).sqrt(), "mean at {t}: {mean}");
        assert!(
            (variance / want - 1.0).abs() < 3.5 * (2.0 / runs as f64).sqrt(),
            "variance at {t}: {variance}"
        );
    }
    for t in 5..=7 {
        let products: Vec<f64> = prefixes[3].iter().zip(&prefixes[t - 1]).map(|(a, b)| a * b).collect();
        let (mean, variance) = moments(&products);
        assert!(
            (mean - 1.0).abs() < 3.5 * (variance / runs as f64).sqrt(),
            "covariance of 4 and {t}: {mean}"
        );
    }
}

#[test]
fn tree_noise_is_drawn_once_a_block() {
    tree_variances(HarnessGaussian, 11);
    tree_variances(GridGaussian::new(10).unwrap(), 12);
}

/// Symmetric 3 by 3 matrices as upper triangles: mean spectral norm of one block over sigma is 1.96.
#[test]
fn tree_noise_of_matrices() {
    let (runs, rng) = (4000, &mut SplitMix64::new(5));
    let off = 0.5f64.sqrt();
    let mut sum = 0.0;
    for _ in 0..runs {
        let mut tree = Tree::new(vec![1.0, off, off, 1.0, off, 1.0], 1).unwrap();
        tree.add(&[0.0; 6], &mut HarnessGaussian, rng).unwrap();
        sum += spectral_norm(&tree.prefix());
    }
    let mean = sum / f64::from(runs);
    assert!((mean - 1.96).abs() < 0.03, "{mean}");

    /// Largest size of an eigenvalue, by powers of the square.
    fn spectral_norm(u: &[f64]) -> f64 {
        let a = [[u[0], u[1], u[2]], [u[1], u[3], u[4]], [u[2], u[4], u[5]]];
        let times = |v: [f64; 3]| a.map(|row| row.iter().zip(v).map(|(x, y)| x * y).sum::<f64>());
        let mut v = [0.61, 0.52, 0.6];
        for _ in 0..400 {
            let w = times(times(v));
            let norm = w.iter().map(|x| x * x).sum::<f64>().sqrt();
            v = w.map(|x| x / norm);
        }
        times(v).iter().map(|x| x * x).sum::<f64>().sqrt()
    }
}

/// On the grid everything is a whole number of steps, stored and read back without loss.
#[test]
fn tree_on_the_grid_is_exact_and_resumes() {
    let mut noise = GridGaussian::new(8).unwrap();
    let mut rng = SplitMix64::new(9);
    let mut tree = Tree::new(vec![2.0, 0.5], 100).unwrap();
    for t in 0..37 {
        tree.add(&[f64::from(t) / 3.0, -0.1], &mut noise, &mut rng).unwrap();
        assert!(tree.prefix().iter().all(|x| (x * 256.0).fract() == 0.0));
    }
    let mut stored: Tree = serde_json::from_str(&serde_json::to_string(&tree).unwrap()).unwrap();
    let mut rng2 = rng.clone();
    tree.add(&[1.0, 1.0], &mut noise, &mut rng).unwrap();
    stored.add(&[1.0, 1.0], &mut noise, &mut rng2).unwrap();
    assert_eq!(tree, stored);
    let before = tree.clone();
    for bad in [vec![1.0], vec![f64::NAN, 0.0], vec![1e12, 0.0]] {
        assert!(tree.add(&bad, &mut noise, &mut rng).is_err());
    }
    assert_eq!(tree, before);
    let l2 = noise.rounded_sensitivity(Sensitivity::new(1.0).unwrap(), 4).unwrap();
    assert_eq!(l2.get(), 1.0 + 2.0 / 256.0);
    for bad in [
        Tree::new(vec![], 5),
        Tree::new(vec![1.0], 0),
        Tree::new(vec![-1.0], 5),
        Tree::new(vec![f64::NAN], 5),
    ] {
        assert!(matches!(bad, Err(Error::OutOfRange(_))));
    }
    assert!(
        GridGaussian::new(31).is_err()
            && noise.draw(0.0, &mut rng).is_err()
            && noise.draw(1e9, &mut rng).is_err()
    );
}
