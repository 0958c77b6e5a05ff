//! Budgets, conversions, composition and the ledger, against numbers worked out by hand or by another
//! program.

use fault::OutOfRange;
use privacy::accountant::{Accountant, Cost};
use privacy::budget::{Delta, Epsilon, Neighbours, Rho, Sensitivity};
use privacy::rdp::RdpCurve;
use privacy::{Definition, Error, PrivacyStatement, Trust, composition};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;

fn eps(v: f64) -> Epsilon {
    Epsilon::new(v).unwrap()
}
fn del(v: f64) -> Delta {
    Delta::new(v).unwrap()
}
#[track_caller]
fn near(got: f64, want: f64, by: f64) {
    assert!((got - want).abs() <= by, "{got} against {want}");
}

#[test]
fn what_is_no_budget_is_refused() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(Epsilon::new(bad), Err(Error::OutOfRange(OutOfRange { field: "epsilon", .. }))));
        assert!(matches!(Rho::new(bad), Err(Error::OutOfRange(OutOfRange { field: "rho", .. }))));
        assert!(matches!(
            Sensitivity::new(bad),
            Err(Error::OutOfRange(OutOfRange { field: "sensitivity", .. }))
        ));
    }
    for bad in [-1e-9, 1.0, f64::NAN] {
        assert!(matches!(Delta::new(bad), Err(Error::OutOfRange(OutOfRange { field: "delta", .. }))));
    }
    assert!(serde_json::from_str::<Epsilon>("-1").is_err());
    assert_eq!(serde_json::to_string(&eps(0.5)).unwrap(), "0.5");
}

/// Zero-concentrated budgets there and back, and Gaussian and tree noise of given size.
#[test]
fn zcdp_conversions() {
    for (e, d, rho) in [(4.0, 0.02, 0.69713880), (1.0, 1e-5, 0.02081994), (4.0 / 3.0, 0.02 / 3.0, 0.07855619)]
    {
        let got = Rho::within(eps(e), del(d)).unwrap();
        near(got.get(), rho, 5e-9);
        near(got.epsilon(del(d)).unwrap().get(), e, 1e-12);
    }
    let tree = |levels: f64, e, d| {
        let l2 = Sensitivity::new(levels.sqrt()).unwrap();
        let sigma = Rho::within(eps(e), del(d)).unwrap().sigma(l2);
        near(Rho::of_gaussian(l2, sigma).unwrap().get(), Rho::within(eps(e), del(d)).unwrap().get(), 1e-15);
        sigma
    };
    near(tree(14.0, 4.0 / 3.0, 0.02 / 3.0), 9.43971350, 5e-9);
    near(tree(4.0, 1.0, 1e-5), 9.80111034, 5e-9);
    assert!(Rho::within(eps(1.0), Delta::ZERO).is_err());
}

/// Budget of each of k adaptive releases within (4/3, 0.02/3).
#[test]
fn per_release_budgets() {
    let (e, d) = (eps(4.0 / 3.0), del(0.02 / 3.0));
    let table =
        [(3, 0.444444), (8, 0.166667), (10, 0.133333), (11, 0.10713109), (95, 0.03657130), (657, 0.01392049)];
    for (k, want) in table {
        let (part, part_delta) = composition::per_release(k, e, d).unwrap();
        near(part.get(), want, if k <= 10 { 5e-7 } else { 1e-8 });
        let (total, total_delta) = if k <= 10 {
            composition::basic(k, part, part_delta).unwrap()
        } else {
            composition::advanced(k, part, part_delta, del(d.get() / 2.0)).unwrap()
        };
        near(total.get(), e.get(), 1e-12);
        near(total_delta.get(), d.get(), 1e-15);
    }
    assert!(
        composition::per_release(0, e, d).is_err() && composition::per_release(11, e, Delta::ZERO).is_err()
    );
}

/// The split printed for private gradient descent spends other than it says; advanced composition shows how
/// much.
#[test]
fn printed_split_of_gradient_descent() {
    for (e, d, n, want) in [(1.0, 0.02, 100, 0.770), (1.0, 0.02, 1_000_000, 1.096), (14.0, 0.02, 1000, 18.16)]
    {
        let part = eps(e / (2.0 * (2.0 * f64::from(n) * (1.0f64 / d).ln()).sqrt()));
        let small = del(d / (f64::from(n) + 1.0));
        near(composition::advanced(n, part, Delta::ZERO, small).unwrap().0.get(), want, want * 6e-4);
    }
}

/// Skellam curve converted at delta = 1e-5: epsilon and order.
#[test]
fn renyi_conversions() {
    let delta = del(1e-5);
    let table = [
        (0.1, [0.52529, 0.37742, 0.37531], 0.37529),
        (0.5, [2.91801, 2.18064, 2.16813], 2.16801),
        (1.0, [6.25273, 4.77673, 4.75295], 4.75273),
    ];
    for (e, skellam, gauss) in table {
        for (scale, want) in [1.0, 10.0, 100.0].into_iter().zip(skellam) {
            let curve = RdpCurve::Skellam { epsilon: eps(e), scale, batch: 1 };
            near(curve.epsilon(delta).unwrap().0.get(), want, 6e-6);
        }
        let curve = RdpCurve::Zcdp(Rho::of_pure(eps(e)).unwrap());
        near(curve.epsilon(delta).unwrap().0.get(), gauss, 6e-6);
    }
    let order = |curve: RdpCurve| curve.epsilon(delta).unwrap().1;
    assert_eq!(order(RdpCurve::Skellam { epsilon: eps(0.1), scale: 1.0, batch: 1 }), 41);
    assert_eq!(order(RdpCurve::Skellam { epsilon: eps(0.1), scale: 10.0, batch: 1 }), 40);
    assert_eq!(order(RdpCurve::Zcdp(Rho::new(0.125).unwrap())), 10);
    assert_eq!(order(RdpCurve::Zcdp(Rho::new(0.5).unwrap())), 5);
    assert!(RdpCurve::Pure(eps(1.0)).epsilon(Delta::ZERO).is_err());
}

/// Exact Renyi divergence of Skellam noise at its sensitivity, below the bound and equal to the recorded
/// values (made with 60 digits, mpmath).
#[test]
fn skellam_bound_holds() {
    /// ln of the mass of a difference of two Poisson(v/2), by the series of the Bessel function.
    fn log_mass(x: i64, v: f64, log_factorial: &[f64]) -> f64 {
        let (x, h) = (x.unsigned_abs() as usize, (v / 2.0f64).ln());
        let terms: Vec<f64> = (0..log_factorial.len() - x)
            .map(|k| (2 * k + x) as f64 * h - log_factorial[k] - log_factorial[k + x])
            .collect();
        let most = terms.iter().fold(f64::MIN, |a, &b| a.max(b));
        most + terms.iter().map(|t| (t - most).exp()).sum::<f64>().ln() - v
    }
    let mut log_factorial = vec![0.0f64];
    for k in 1..6000 {
        log_factorial.push(log_factorial[k - 1] + (k as f64).ln());
    }
    let table = [
        (1.0, 1.0, 4, 2, [(0.92212, 1.375), (2.19242, 4.75), (2.96207, 8.75)]),
        (1.0, 10.0, 4, 20, [(0.99856, 1.00206), (3.87535, 4.00956), (7.18729, 8.01956)]),
        (0.5, 10.0, 16, 20, [(0.24998, 0.25013), (0.99782, 1.0006), (1.98188, 2.00122)]),
        (1.0, 2.0, 16, 8, [(0.99145, 1.01465), (3.47645, 4.06152), (5.68658, 8.12402)]),
    ];
    for (e, scale, batch, g, rows) in table {
        let v = (f64::from(g) / e).powi(2);
        let reach = (v.sqrt() * 30.0) as i64 + 200;
        let mass: Vec<f64> = (-reach..=reach).map(|x| log_mass(x, v, &log_factorial)).collect();
        let curve = RdpCurve::Skellam { epsilon: eps(e), scale, batch };
        for (alpha, (exact, bound)) in [2u32, 8, 16].into_iter().zip(rows) {
            let a = f64::from(alpha);
            let sum: f64 =
                mass.iter().zip(&mass[g as usize..]).map(|(p, q)| (a * p + (1.0 - a) * q).exp()).sum();
            let got = sum.ln() / (a - 1.0);
            near(got, exact, 6e-6);
            near(curve.at(alpha), bound, 6e-6);
            assert!(got <= curve.at(alpha));
        }
    }
}

/// Shuffled randomised response, its exact hockey-stick divergence: below delta at the amplified epsilon, and
/// above it at a twentieth, so that the bound says something.
#[test]
fn amplification_by_shuffling_holds_for_randomised_response() {
    let (n, local, delta) = (2000u64, 1.0f64, 1e-4);
    let amplified = composition::shuffled(n, eps(local), del(delta)).unwrap().get();
    assert!(amplified < local);
    let q = 1.0 / (local.exp() + 1.0); // a bit is flipped with probability q
    // Number of ones among n people, all but the first of whom hold 0.
    let mut others = vec![0.0; n as usize];
    let mut mass = ((n - 1) as f64 * (-q).ln_1p()).exp();
    for (k, slot) in others.iter_mut().enumerate() {
        *slot = mass;
        mass *= ((n - 1) as f64 - k as f64) / (k as f64 + 1.0) * q / (1.0 - q);
    }
    let with = |one: f64, k: usize| {
        one * k.checked_sub(1).map_or(0.0, |k| others[k])
            + (1.0 - one) * others.get(k).copied().unwrap_or(0.0)
    };
    let stick = |e: f64| -> f64 {
        (0..=n as usize).map(|k| (with(1.0 - q, k) - e.exp() * with(q, k)).max(0.0)).sum()
    };
    assert!(stick(amplified) <= delta);
    assert!(stick(amplified / 20.0) > delta);
    // A crowd too small to hide in gives nothing.
    assert_eq!(composition::shuffled(10, eps(local), del(delta)).unwrap().get(), local);
}

#[test]
fn ledger_spends_once_and_refuses_the_rest() {
    let mut ledger = Accountant::new(Cost::Approximate(eps(1.0), del(1e-6)));
    ledger.spend(Cost::pure(eps(0.25))).unwrap();
    ledger.release([1, 2, 3], Cost::pure(eps(0.75))).unwrap();
    ledger.release([7, 5, 6], Cost::Approximate(eps(0.5), del(1e-6))).unwrap();
    assert_eq!(ledger.spent(), (1.0, 1e-6));
    let before = ledger.clone();
    let refused = [
        ledger.release([9, 3], Cost::pure(eps(0.1))),
        ledger.release([9, 9], Cost::pure(eps(0.1))),
        ledger.release([9], Cost::pure(eps(0.76))),
        ledger.release([9], Cost::Approximate(eps(0.1), del(2e-6))),
        ledger.spend(Cost::pure(eps(0.01))),
        ledger.spend(Cost::Zcdp(Rho::new(0.1).unwrap())),
    ];
    assert!(matches!(refused[0], Err(Error::ReleasedTwice { observation: 3 })));
    assert!(matches!(refused[1], Err(Error::ReleasedTwice { observation: 9 })));
    assert!(refused[2..5].iter().all(|r| matches!(r, Err(Error::BudgetSpent { .. }))));
    assert!(matches!(refused[5], Err(Error::Currency)));
    assert_eq!(ledger, before);
    let stored = serde_json::to_string(&ledger).unwrap();
    assert_eq!(serde_json::from_str::<Accountant>(&stored).unwrap(), before);
    let good = serde_json::to_value(&ledger).unwrap();
    for (path, bad) in [
        ("/shared/0", json!(-0.1)),
        ("/worst/0", json!(1e9)),
        ("/worst/1", json!(0.9)),
        ("/released", json!({"5": 4})),
        ("/released", json!({"5": 7, "7": 9})),
        ("/released", json!({"5": 6, "7": 9})),
        ("/released", json!({"5": u64::MAX, "7": 9})),
    ] {
        let mut damaged = good.clone();
        *damaged.pointer_mut(path).unwrap() = bad.clone();
        assert!(serde_json::from_value::<Accountant>(damaged).is_err(), "{path} {bad}");
    }

    // Three thirds are one.
    let mut thirds = Accountant::new(Cost::pure(eps(1.0)));
    for _ in 0..3 {
        thirds.spend(Cost::pure(eps(1.0 / 3.0))).unwrap();
    }
    assert!(thirds.spend(Cost::pure(eps(1e-9))).is_err());
    // Pure epsilon counts as epsilon squared halves of rho.
    let mut rho = Accountant::new(Cost::Zcdp(Rho::new(0.5).unwrap()));
    rho.spend(Cost::pure(eps(1.0))).unwrap();
    assert_eq!(rho.spent(), (0.5, 0.0));
}

proptest! {
    /// The interval set knows exactly what a plain set knows.
    #[test]
    fn ledger_remembers_what_a_set_remembers(batches in prop::collection::vec(prop::collection::vec(0u64..40, 1..6), 1..20)) {
        let mut ledger = Accountant::new(Cost::pure(eps(1.0)));
        let mut model = BTreeSet::new();
        for batch in batches {
            let distinct: BTreeSet<u64> = batch.iter().copied().collect();
            let fresh = distinct.len() == batch.len() && distinct.is_disjoint(&model);
            prop_assert_eq!(ledger.release(batch, Cost::pure(eps(1.0))).is_ok(), fresh);
            if fresh {
                model.extend(distinct);
            }
            prop_assert!((0..41).all(|o| ledger.is_released(o) == model.contains(&o)));
        }
        prop_assert!(!ledger.is_released(u64::MAX));
        prop_assert!(ledger.release([u64::MAX, u64::MAX - 1], Cost::pure(eps(1.0))).is_ok());
        prop_assert!(ledger.is_released(u64::MAX));
    }
}

#[test]
fn statements_say_what_they_mean() {
    let s = PrivacyStatement::pure(eps(0.5), Trust::Central, Neighbours::ReplaceOne, "rewards, one a person");
    assert_eq!(s.to_string(), "pure DP, epsilon 0.5, delta 0, central, one replaced: rewards, one a person");
    assert_eq!(serde_json::from_str::<PrivacyStatement>(&serde_json::to_string(&s).unwrap()).unwrap(), s);
    assert_eq!(PrivacyStatement::none("in the clear").to_string(), "no privacy: in the clear");
    let with = |definition, delta| {
        PrivacyStatement::with_delta(definition, eps(1.0), delta, Trust::Shuffler, Neighbours::ReplaceOne, "")
    };
    assert!(with(Definition::Approximate, Delta::ZERO).is_err() && with(Definition::Pure, del(0.1)).is_err());
    assert!(with(Definition::Joint, Delta::ZERO).is_ok() && with(Definition::Renyi, del(0.1)).is_ok());
}
