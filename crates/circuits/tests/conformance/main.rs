//! `Clear` passes the suite of the trait, with and without noise.

mod suite;

use circuits::{Clear, NoiseModel};
use std::collections::BTreeSet;

#[test]
fn clear_conforms() {
    for slots in [8, 16, 256] {
        let alg = Clear::new(slots).unwrap();
        let encrypt = |v: &[_]| alg.fresh(v, suite::LEVELS).unwrap();
        suite::check(&alg, encrypt, |v| v.values().to_vec(), 1e-12);
        let made: BTreeSet<i64> =
            suite::rotations(slots).iter().map(|k| k.rem_euclid(slots as i64)).collect();
        assert!(alg.rotation_levels().into_keys().eq(made));
    }
}

#[test]
fn noisy_clear_conforms() {
    let model = NoiseModel { log_scale: 40.0, log_degree: 15, seed: 7 };
    let alg = Clear::with_noise(256, model).unwrap();
    let encrypt = |v: &[_]| alg.fresh(v, suite::LEVELS + 2).unwrap();
    suite::check(&alg, encrypt, |v| v.values().to_vec(), 40.0 * model.sigma());
}

/// The modelled error of a rescaling has its stated standard deviation within 2 %, measured on 2^16 slots.
#[test]
fn noise_has_its_deviation() {
    use circuits::SlotAlgebra;
    let model = NoiseModel { log_scale: 32.0, log_degree: 15, seed: 7 };
    assert!((model.sigma().log2() + 19.085).abs() < 0.001);
    let alg = Clear::with_noise(1 << 16, model).unwrap();
    let zero = alg.mul_integer(&alg.fresh_real(&[0.0], 1).unwrap(), 0).unwrap();
    let out = alg.mul_const(&zero, 0.0).unwrap();
    let mean: f64 = out.values().iter().map(|v| v.norm_sqr()).sum::<f64>() / 65536.0;
    assert!((mean.sqrt() / model.sigma() - 1.0).abs() < 0.02);
}
