//! What a configuration is refused for, and that the shipped sets carry what they say.

use bandit::{LinearConfig, Schedule};
use helba::{Automorphism, BanditConfig, Error, KeyPlan, Shape};

fn plan(config: &BanditConfig) -> Result<helba::Plan, Error> {
    let shape = Shape::for_problem(config.linear.d, config.linear.k);
    config.plan(&KeyPlan::new(shape, false)?.params.validate()?, shape)
}

fn with(change: impl FnOnce(&mut BanditConfig)) -> BanditConfig {
    let mut config = BanditConfig::new(7, 4);
    change(&mut config);
    config
}

#[test]
fn shipped_sets_carry_their_shapes_at_128_bits() {
    for (d, k) in [(2, 2), (7, 4), (8, 4), (8, 8), (16, 8), (16, 16), (8, 32), (16, 32), (2, 64), (16, 64)] {
        let plan = plan(&BanditConfig::new(d, k)).unwrap_or_else(|e| panic!("d = {d}, K = {k}: {e}"));
        assert_eq!(plan.answer_level, 0);
        let set = KeyPlan::new(Shape::for_problem(d, k), false).unwrap().params;
        assert_eq!(set.security.bits(), 128);
    }
}

/// Where four squares an arm would not fit N = 2¹⁵, and only there: conjugation costs others a tenth of a decision.
#[test]
fn only_crowded_problems_conjugate() {
    for (d, k, crowded) in [(2, 2, false), (16, 16, false), (8, 64, false), (16, 17, true), (9, 64, true)] {
        let keys = KeyPlan::new(Shape::for_problem(d, k), false).unwrap().galois;
        assert_eq!(keys.iter().any(|key| key.automorphism == Automorphism::Conjugation), crowded, "{d}, {k}");
    }
}

/// The paper's toy problem, L²/λ = 30.
#[test]
fn figure_1_fits() {
    let linear = LinearConfig { schedule: Schedule::TraceOrGrowth, ..LinearConfig::figure_1() };
    let config = BanditConfig { linear, horizon: 130, unanswered: 1, ..BanditConfig::new(2, 2) };
    assert_eq!(plan(&config).unwrap().newton_steps, 5);
}

#[test]
fn what_the_circuit_cannot_carry_is_refused_by_name() {
    let field = |config: &BanditConfig| match plan(config) {
        Err(Error::Field { field, .. }) => field.to_string(),
        Err(Error::Depth { what, .. }) => what.to_string(),
        Err(Error::Config(e)) => format!("config: {e}").chars().take(7).collect(),
        other => panic!("{other:?}"),
    };
    assert_eq!(field(&with(|c| c.linear.c = 1e18)), "a batch update");
    assert_eq!(field(&with(|c| c.linear.c = 1e6)), "a batch update");
    assert_eq!(field(&with(|c| c.linear.l = 1e9)), "linear.c");
    assert_eq!(field(&with(|c| c.linear.lambda = 1e-17)), "linear.c");
    assert_eq!(field(&with(|c| c.unanswered = 64)), "linear.c");
    assert!(plan(&with(|c| c.unanswered = 20)).is_ok());
    assert_eq!(field(&with(|c| c.linear.c = 100.0)), "a batch update");
    assert_eq!(field(&with(|c| c.linear.lambda = 1e308)), "linear.lambda");
    assert_eq!(field(&with(|c| c.horizon = 0)), "horizon");
    assert_eq!(field(&with(|c| c.comparison_bits = 7)), "comparison_bits");
    assert_eq!(field(&with(|c| c.comparison_bits = 10)), "a decision");
    assert_eq!(field(&with(|c| c.sqrt_degree = 16)), "sqrt_degree");
    assert_eq!(field(&with(|c| c.linear.schedule = Schedule::Trace)), "linear.schedule");
    // Proposition 7.
    assert_eq!(field(&with(|c| c.linear.c = 0.26)), "config:");
    assert_eq!(field(&BanditConfig::new(7, 65)), "arms");
    assert!(matches!(plan(&BanditConfig::new(17, 4)), Err(Error::Slots { have: 32768, .. })));
}
