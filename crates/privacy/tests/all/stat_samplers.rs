//! Chi-square tests of the samplers, against laws that are computed independently. Fixed seeds; a right
//! sampler passes the limit once in 10^4.

use privacy::Ratio;
use privacy::sampler::*;
use privacy::source::SplitMix64;
use std::collections::BTreeMap;

fn r(num: u128, den: u128) -> Ratio {
    Ratio::new(num, den).unwrap()
}

/// Compares `draws` of `draw` with `law` on `low..=high`; cells are pooled to an expectation of 8, and all
/// beyond is one.
fn fits(
    name: &str,
    draws: u32,
    (low, high): (i64, i64),
    law: impl Fn(i64) -> f64,
    mut draw: impl FnMut(&mut SplitMix64) -> i64,
) {
    let mut rng = SplitMix64::new(1);
    let mut counts: BTreeMap<i64, u32> = BTreeMap::new();
    for _ in 0..draws {
        *counts.entry(draw(&mut rng)).or_default() += 1;
    }
    let (mut chi, mut cells, mut want, mut got, mut inside, mut seen) = (0.0, 0.0f64, 0.0, 0.0, 0.0, 0.0);
    for x in low..=high {
        want += law(x) * f64::from(draws);
        got += f64::from(counts.get(&x).copied().unwrap_or(0));
        if want >= 8.0 {
            (chi, cells, inside, seen) =
                (chi + (got - want).powi(2) / want, cells + 1.0, inside + want, seen + got);
            (want, got) = (0.0, 0.0);
        }
    }
    // The rest: what no cell took.
    let (want, got) = (f64::from(draws) - inside, f64::from(draws) - seen);
    chi += (got - want).powi(2) / want.max(8.0);
    // Wilson and Hilferty: the cube root of chi-square over its degrees of freedom is nearly normal; 3.72 is
    // 10^-4.
    let spread = 2.0 / (9.0 * cells);
    let z = ((chi / cells).cbrt() - 1.0 + spread) / spread.sqrt();
    assert!(cells >= 3.0 && z < 3.72, "{name}: chi-square {chi:.1} over {cells} cells, z = {z:.2}");
}

fn laplace_law(g: f64) -> impl Fn(i64) -> f64 {
    move |x| (g / 2.0).tanh() * (-g * x.unsigned_abs() as f64).exp()
}

/// Weights divided by their sum.
fn normalised(low: i64, high: i64, log_weight: impl Fn(i64) -> f64) -> impl Fn(i64) -> f64 {
    let most = (low..=high).map(&log_weight).fold(f64::MIN, f64::max);
    let table: Vec<f64> = (low..=high).map(|x| (log_weight(x) - most).exp()).collect();
    let sum: f64 = table.iter().sum();
    move |x| table[(x - low) as usize] / sum
}

fn log_factorial(n: u64) -> f64 {
    (2..=n).map(|k| (k as f64).ln()).sum()
}

fn poisson_law(mean: f64) -> impl Fn(i64) -> f64 {
    move |x| if x < 0 { 0.0 } else { (x as f64 * mean.ln() - mean - log_factorial(x as u64)).exp() }
}

fn skellam_law(v: f64, reach: i64) -> impl Fn(i64) -> f64 {
    let top = (v + 12.0 * v.sqrt() + 40.0) as i64;
    let one: Vec<f64> = (0..=top).map(poisson_law(v / 2.0)).collect();
    let table: Vec<f64> =
        (0..=reach).map(|d| one.iter().zip(one.iter().skip(d as usize)).map(|(p, q)| p * q).sum()).collect();
    move |x| table[x.unsigned_abs() as usize]
}

/// P(x) = Gamma(x + r)/(x! Gamma(r)) b^x (1 - b)^r.
fn polya_law(r: f64, g: f64, reach: i64) -> impl Fn(i64) -> f64 {
    let mut table = vec![(r * (-(-g).exp()).ln_1p()).exp()];
    for x in 0..reach {
        table.push(table[x as usize] * (x as f64 + r) / (x + 1) as f64 * (-g).exp());
    }
    move |x| table[x as usize]
}

#[test]
fn discrete_laplace_small_and_large() {
    fits("scale 5", 50_000, (-60, 60), laplace_law(0.2), |w| discrete_laplace(w, r(1, 5)).unwrap() as i64);
    // Scale 10^12/7: in cells of a fortieth of the scale.
    let (scale, cell) = (1e12 / 7.0, 3_571_428_571i64);
    let law = move |c: i64| {
        let above = |x: f64| if x >= 0.0 { (-x / scale).exp() / 2.0 } else { 1.0 - (x / scale).exp() / 2.0 };
        above(c as f64 * cell as f64) - above((c + 1) as f64 * cell as f64)
    };
    fits("scale 1e12/7", 50_000, (-200, 200), law, |w| {
        (discrete_laplace(w, r(7, 1_000_000_000_000)).unwrap() as i64).div_euclid(cell)
    });
}

#[test]
fn discrete_gaussian_small_and_large() {
    let law = |v: f64| normalised(-4000, 4000, move |x| -((x * x) as f64) / (2.0 * v));
    for v in [r(1, 4), r(10, 1)] {
        fits("small", 50_000, (-40, 40), law(v.to_f64()), |w| discrete_gaussian(w, v).unwrap() as i64);
    }
    fits("v = 40000", 50_000, (-1200, 1200), law(40_000.0), |w| {
        discrete_gaussian(w, r(40_000, 1)).unwrap() as i64
    });
    // v = 10^16, in cells of a twentieth of a deviation against the normal law, by Simpson's rule.
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let law = |c: i64| {
        let a = c as f64 / 20.0;
        (density(a) + 4.0 * density(a + 0.025) + density(a + 0.05)) / 120.0
    };
    fits("v = 1e16", 50_000, (-100, 100), law, |w| {
        (discrete_gaussian(w, r(10_000_000_000_000_000, 1)).unwrap() as i64).div_euclid(5_000_000)
    });
}

#[test]
fn polya_and_its_sums() {
    for (n, g) in [(8u64, 4u128), (64, 8)] {
        let law = polya_law(1.0 / n as f64, 1.0 / g as f64, 200);
        fits("polya", 50_000, (0, 200), law, |w| polya(w, n, r(1, g)).unwrap() as i64);
    }
    // The differences of all users together are discrete Laplace; one Polya a user in place of a difference
    // is not.
    for (n, g) in [(8u64, 4u128), (32, 6)] {
        let one = |w: &mut SplitMix64| polya(w, n, r(1, g)).unwrap() as i64;
        fits("sum of differences", 4000, (-80, 80), laplace_law(1.0 / g as f64), |w| {
            (0..n).map(|_| one(w) - one(w)).sum()
        });
    }
}

#[test]
#[should_panic(expected = "single Polya")]
fn a_single_polya_a_user_is_told_apart() {
    fits("single Polya", 4000, (-80, 80), laplace_law(0.25), |w| {
        (0..8).map(|_| polya(w, 8, r(1, 4)).unwrap() as i64).sum()
    });
}

#[test]
fn poisson_and_skellam() {
    fits("poisson 1", 50_000, (0, 20), poisson_law(1.0), |w| poisson(w, Ratio::ONE).unwrap() as i64);
    fits("poisson 7/3", 50_000, (0, 30), poisson_law(7.0 / 3.0), |w| poisson(w, r(7, 3)).unwrap() as i64);
    fits("poisson 401/2", 20_000, (100, 300), poisson_law(200.5), |w| poisson(w, r(401, 2)).unwrap() as i64);
    fits("skellam 5", 20_000, (-30, 30), skellam_law(5.0, 30), |w| skellam(w, r(5, 1)).unwrap() as i64);
    fits("16 skellam 25/16", 5000, (-50, 50), skellam_law(25.0, 50), |w| {
        (0..16).map(|_| skellam(w, r(25, 16)).unwrap() as i64).sum()
    });
}

#[test]
fn binomials_from_one_to_ten_trillion() {
    let law = |n: i64, p: f64, low, high| {
        normalised(low, high, move |x| {
            if x < 0 || x > n {
                return f64::NEG_INFINITY;
            }
            x as f64 * p.ln() + (n - x) as f64 * (1.0 - p).ln()
                - log_factorial(x as u64)
                - log_factorial((n - x) as u64)
        })
    };
    for n in [1, 63, 64, 65, 256, 257, 300, 1001] {
        let (low, high) = ((n / 2 - 80).max(0), (n / 2 + 80).min(n));
        if n > 2 {
            fits("half", 20_000, (low, high), law(n, 0.5, low, high), |w| {
                binomial_half(w, n as u64).unwrap() as i64
            });
        }
        let (low, high) = ((n / 4 - 70).max(0), (n / 4 + 70).min(n));
        if n > 2 {
            fits("quarter", 20_000, (low, high), law(n, 0.25, low, high), |w| {
                binomial_quarter(w, n as u64).unwrap() as i64
            });
        }
    }
    assert_eq!(
        (binomial_half(&mut SplitMix64::new(0), 0), binomial_quarter(&mut SplitMix64::new(0), 0)),
        (Ok(0), Ok(0))
    );
    // 10^13 trials: normal to one part in 10^6, in cells of a twentieth of a deviation.
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let law = |c: i64| {
        let a = c as f64 / 20.0;
        (density(a) + 4.0 * density(a + 0.025) + density(a + 0.05)) / 120.0
    };
    let n = 10_000_000_000_000u64;
    let sd = (n as f64 * 3.0 / 16.0).sqrt();
    fits("quarter of 1e13", 100_000, (-100, 100), law, |w| {
        ((binomial_quarter(w, n).unwrap() as f64 - n as f64 / 4.0) / sd * 20.0).floor() as i64
    });
}
