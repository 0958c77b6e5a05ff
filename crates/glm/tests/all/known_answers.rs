//! Links, estimates and projections against numpy and scipy, and against values worked out by hand.

use fault::OutOfRange;
use glm::mle::{Ellipsoid, Rows, fit, fit_in, loss, project_ball};
use glm::{Descent, Design, DistributionalDesign, Error, Instance, Link, Symmetric, onto_ball};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../vectors/glm.json")).unwrap()
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn link(v: &Value) -> Link {
    serde_json::from_value(v["link"].clone()).unwrap()
}

fn assert_near(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{got:?} against {want:?}");
    }
}

fn rows(d: usize, x: &[f64], r: &[f64]) -> Rows {
    let mut rows = Rows::new(d);
    x.chunks(d).zip(r).for_each(|(x, r)| rows.push(x, *r).unwrap());
    rows
}

fn three_rows() -> Rows {
    rows(2, &[1.0, 0.0, 0.0, 1.0, 0.6, 0.8], &[1.0, 0.0, 1.0])
}

#[test]
fn links_match_scipy() {
    for v in vectors()["links"].as_array().unwrap() {
        let (link, z) = (link(v), v["z"].as_f64().unwrap());
        for (got, name) in [(link.mean(z), "mean"), (link.slope(z), "slope"), (link.integral(z), "integral")]
        {
            assert_near(&[got], &[v[name].as_f64().unwrap()], 1e-13);
        }
    }
    assert_near(
        &[Link::Probit.loss(1.0, 1.0), Link::Logistic.loss(1.0, 0.0)],
        &[-0.31562681, 0.62011451],
        5e-9,
    );
    assert_near(
        &[Link::Logistic.kappa(3.5), Link::Probit.kappa(2.0)],
        &[2.0 + 2.0 * 3.5f64.cosh(), 18.5215],
        1e-5,
    );
    // Far out, where 1 - mu would have no digits left.
    assert_near(
        &[Link::Logistic.slope(40.0) * 40f64.exp(), Link::Probit.mean(-10.0) / 7.6198530241605e-24],
        &[1.0; 2],
        1e-12,
    );
}

#[test]
fn estimates_match_scipy() {
    for v in vectors()["fits"].as_array().unwrap() {
        let (link, d) = (link(v), v["d"].as_u64().unwrap() as usize);
        let (lambda, radius) = (v["lambda"].as_f64().unwrap(), v["radius"].as_f64().unwrap());
        let rows = rows(d, &numbers(&v["x"]), &numbers(&v["r"]));
        let start = vec![0.0; d];
        assert_near(&fit(link, &rows, lambda, &start).unwrap(), &numbers(&v["theta"]), 1e-9);
        let metric = Symmetric::identity(d, 1.0);
        let ball = Ellipsoid { centre: &start, metric: &metric, radius };
        assert_near(&fit_in(link, &rows, lambda, &ball, &start).unwrap(), &numbers(&v["constrained"]), 1e-8);
    }
}

#[test]
fn estimates_of_three_rows() {
    for (link, lambda, want) in [
        (Link::Logistic, 1.0, [0.61161828, -0.12277411]),
        (Link::Logistic, 0.1, [2.51129059, -0.78499511]),
        (Link::Probit, 1.0, [0.54067622, -0.12274147]),
        (Link::Probit, 0.1, [1.87581724, -0.61063904]),
    ] {
        assert_near(&fit(link, &three_rows(), lambda, &[0.0, 0.0]).unwrap(), &want, 5e-9);
    }
}

#[test]
fn projections_match_scipy() {
    for v in vectors()["ellipsoids"].as_array().unwrap() {
        let (y, c) = (numbers(&v["y"]), numbers(&v["c"]));
        let metric = Symmetric::new(y.len(), numbers(&v["v"])).unwrap();
        let ellipsoid = Ellipsoid { centre: &c, metric: &metric, radius: v["rho"].as_f64().unwrap() };
        assert_near(&ellipsoid.project(&y).unwrap(), &numbers(&v["p"]), 1e-10);
    }
    let metric = Symmetric::new(2, vec![4.0, 1.0, 1.0, 2.0]).unwrap();
    let unit = Ellipsoid { centre: &[1.0, 0.0], metric: &metric, radius: 1.0 };
    assert_near(&unit.project(&[3.0, 2.0]).unwrap(), &[1.24352125, 0.50769982], 5e-9);
    assert_eq!(unit.project(&[1.1, 0.1]).unwrap(), [1.1, 0.1]);
    let mut y = [3.0, 4.0];
    project_ball(&mut y, 1.0);
    assert_near(&y, &[0.6, 0.8], 1e-15);
}

#[test]
fn g_optimal_designs() {
    let h = 0.75f64.sqrt();
    let cases: [(&[[f64; 2]], &[f64]); 4] = [
        (&[[1.0, 0.0], [0.0, 1.0]], &[0.5, 0.5]),
        (&[[1.0, 0.0], [0.0, 0.5]], &[0.5, 0.5]),
        (&[[1.0, 0.0], [0.5, 0.0]], &[1.0, 0.0]),
        (&[[1.0, 0.0], [-0.5, h], [-0.5, -h]], &[1.0 / 3.0; 3]),
    ];
    for (points, want) in cases {
        let design = Design::g_optimal(points.iter().map(|p| &p[..]), 1.001).unwrap();
        assert_near(&design.weights, want, 2e-3);
        assert!(
            design.max_leverage <= 1.001 * design.rank as f64
                && design.max_leverage > design.rank as f64 - 1e-9
        );
    }
    // Degenerate: the third point has leverage 2 at the optimum as well, so that weights are no test.
    let r = 0.5f64.sqrt();
    let design = Design::g_optimal([[1.0, 0.0], [0.0, 1.0], [r, r]].iter().map(|p| &p[..]), 1.0005).unwrap();
    assert!(design.max_leverage <= 2.001, "{design:?}");
    let zero = Design::g_optimal([[0.0, 0.0]].iter().map(|p| &p[..]), 2.0).unwrap();
    assert_eq!((zero.rank, zero.weights), (0, vec![1.0]));
    assert!(matches!(Design::g_optimal([], 2.0), Err(Error::Dimension { field: "points", .. })));
    assert!(matches!(
        Design::g_optimal([&[1.0][..]], 1.0),
        Err(Error::OutOfRange(OutOfRange { field: "factor", .. }))
    ));
}

/// Random sets, some of lower rank: the certificate meets the factor asked for, and `sum pi q = rank`.
#[test]
fn certificates_hold_on_random_sets() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for d in 1..7 {
        let instance = Instance::random(d, 20, 20, 1.0, &mut rng).unwrap();
        for (i, set) in instance.sets().iter().enumerate() {
            let n = if i % 3 == 0 { d.div_ceil(2) } else { 20 };
            for factor in [2.0, 1.01] {
                let design = Design::g_optimal(set.rows().take(n), factor).unwrap();
                assert_eq!(design.rank, n.min(d));
                assert!(design.max_leverage <= factor * design.rank as f64 * (1.0 + 1e-9));
                assert!((design.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }
}

/// On sets that are short in two directions: the leverage that fresh sets have under the information
/// gathered, in expectation, is lower than for uniform play, and no design can go below the dimension.
#[test]
fn distributional_design_lowers_expected_leverage() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let sets = |rng: &mut ChaCha8Rng| {
        let instance = Instance::random(3, 10, 400, 1.0, rng).unwrap();
        let stretch = |set: &bandit::Features| {
            let values = set.rows().flat_map(|x| [x[0], 0.3 * x[1], 0.05 * x[2]]).collect();
            bandit::Features::new(values, 3).unwrap()
        };
        instance.sets().iter().map(stretch).collect::<Vec<_>>()
    };
    let learnt = DistributionalDesign::learn(&sets(&mut rng), 0.01, 2).unwrap();
    let fresh = sets(&mut rng);
    let leverage = |weights: &dyn Fn(&bandit::Features) -> Vec<f64>| {
        let mut v = Symmetric::identity(3, 0.0);
        for set in &fresh {
            set.rows().zip(weights(set)).for_each(|(x, p)| v.add_outer(p / fresh.len() as f64, x));
        }
        let inverse = v.inverse().unwrap();
        let worst =
            |set: &bandit::Features| set.rows().map(|x| inverse.quadratic_form(x)).fold(0.0, f64::max);
        fresh.iter().map(worst).sum::<f64>() / fresh.len() as f64
    };
    let uniform = leverage(&|set| vec![0.1; set.k()]);
    let by_set = leverage(&|set| Design::g_optimal(set.rows(), 1.1).unwrap().weights);
    let ours = leverage(&|set| learnt.on(set).unwrap().weights);
    println!("uniform {uniform:.3}, set by set {by_set:.3}, learnt {ours:.3}");
    assert!(ours > 3.0 - 1e-9 && ours < 0.9 * uniform, "{ours}, uniform {uniform}");
}

#[test]
fn distributional_designs_are_checked() {
    let set = |d: usize| bandit::Features::new((0..3 * d).map(|i| (i % 4) as f64).collect(), d).unwrap();
    let learn = |sets: &[bandit::Features], ridge, passes| DistributionalDesign::learn(sets, ridge, passes);
    let range =
        |field| move |e: Error| matches!(e, Error::OutOfRange(OutOfRange { field: f, .. }) if f == field);
    assert!(range("ridge")(learn(&[set(2)], 0.0, 1).unwrap_err()));
    assert!(range("passes")(learn(&[set(2)], 1.0, 0).unwrap_err()));
    assert_eq!(learn(&[], 1.0, 1), Err(Error::Dimension { field: "sample", got: 0, want: 1 }));
    assert_eq!(learn(&[set(2), set(3)], 1.0, 1), Err(Error::Dimension { field: "sample", got: 3, want: 2 }));
    let learnt = learn(&[set(2)], 1.0, 2).unwrap();
    assert_eq!(learnt.on(&set(3)), Err(Error::Dimension { field: "set", got: 3, want: 2 }));
    let weights = learnt.on(&set(2)).unwrap().weights;
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{weights:?}");

    let stored = serde_json::to_value(&learnt).unwrap();
    assert_eq!(serde_json::from_value::<DistributionalDesign>(stored).unwrap(), learnt);
    let matrix = |d: usize| serde_json::to_value(Symmetric::identity(d, 1.0)).unwrap();
    for rules in [
        serde_json::json!([]),
        serde_json::json!([[-1.0, matrix(2)]]),
        serde_json::json!([[0.5, matrix(2)], [0.5, matrix(3)]]),
    ] {
        let stored = serde_json::json!({ "rules": rules });
        assert!(serde_json::from_value::<DistributionalDesign>(stored).is_err(), "{rules}");
    }
}

/// Four exact steps of unit length: every iterate is known.
#[test]
fn descent_makes_the_known_steps() {
    let descent =
        Descent { steps: 4, clip: 1.0, step: 1.0, constant: true, burn_in: 0, last: false, regulariser: 0.0 };
    let rows = three_rows();
    let run = |d: Descent| {
        let sum = |theta: &[f64], sum: &mut [f64]| {
            for (x, r) in rows.iter() {
                let factor = d.gradient(Link::Logistic, x, r, theta);
                sum.iter_mut().zip(x).for_each(|(s, x)| *s += factor * x);
            }
            Ok(())
        };
        d.run(2, 3.0, sum, onto_ball(1.0)).unwrap()
    };
    assert_near(&run(descent), &[0.37228958, -0.05558931], 5e-9);
    assert_near(&run(Descent { burn_in: 3, ..descent }), &[0.71790660, -0.11625901], 5e-9);
    // The paper's step: 2S/(L sqrt N) with L = R + S lambda/n.
    let paper = Descent::paper(4, 1.0, 1.0, 3.0, 3.0);
    assert_eq!((paper.step, paper.clip), (2.0 / (2.0 * 2.0), 1.0));
}

/// In a metric that is not round: the minimiser lies on the edge, and no point of the edge nearby is better.
#[test]
fn constrained_estimate_is_optimal() {
    let metric = Symmetric::new(2, vec![4.36, 0.48, 0.48, 4.64]).unwrap();
    let rows = three_rows();
    let e = Ellipsoid { centre: &[0.0, 0.0], metric: &metric, radius: 0.5 };
    let theta = fit_in(Link::Logistic, &rows, 0.1, &e, &[0.0, 0.0]).unwrap();
    assert!((e.distance(&theta) - 0.5).abs() < 1e-9);
    let best = loss(Link::Logistic, &rows, 0.1, &theta);
    for turn in [-0.01f64, 0.01] {
        let near = [theta[0] - turn * theta[1], theta[1] + turn * theta[0]];
        let scale = 0.5 / e.distance(&near);
        assert!(loss(Link::Logistic, &rows, 0.1, &near.map(|v| v * scale)) > best);
    }
}

#[test]
fn bad_input_is_named() {
    assert!(matches!(
        fit(Link::Logistic, &three_rows(), 0.0, &[0.0, 0.0]),
        Err(Error::OutOfRange(OutOfRange { field: "lambda", .. }))
    ));
    assert!(matches!(
        fit(Link::Logistic, &three_rows(), 1.0, &[0.0]),
        Err(Error::Dimension { field: "start", .. })
    ));
    assert!(matches!(Rows::new(2).push(&[1.0], 0.0), Err(Error::Dimension { field: "x", .. })));
    assert!(matches!(Rows::new(1).push(&[1.0], f64::NAN), Err(Error::NotFinite { field: "row" })));
    assert!(matches!(
        Symmetric::new(2, vec![1.0, 2.0, 3.0, 4.0]),
        Err(Error::OutOfRange(OutOfRange { field: "matrix", .. }))
    ));
    assert!(matches!(Symmetric::new(2, vec![1.0]), Err(Error::Dimension { field: "matrix", .. })));
    let flat = Symmetric::identity(2, 0.0);
    let e = Ellipsoid { centre: &[0.0, 0.0], metric: &flat, radius: 1.0 };
    assert!(e.project(&[1.0, 1.0]).is_ok(), "a flat metric holds everything");
    let bad = Ellipsoid { radius: 0.0, ..e };
    assert!(matches!(bad.project(&[1.0, 1.0]), Err(Error::OutOfRange(OutOfRange { field: "radius", .. }))));
    let saddle = Symmetric::new(2, vec![1.0, 0.0, 0.0, -0.1]).unwrap();
    let e = Ellipsoid { centre: &[0.0, 0.0], metric: &saddle, radius: 1.0 };
    assert!(matches!(e.project(&[3.0, 0.0]), Err(Error::NotPositive { field: "metric" })));
}
