//! After their first calls, operations take their buffers from the pool and allocate only small bookkeeping.

mod common;

use ckks::{Ciphertext, EvaluationKeys, Evaluator, GaloisElement, KeyStorage, Plaintext, TOY_LOGN14_DEPTH22};
use ckks_secret::SecretKey;
use common::{rng, values};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// This is the only test of the file, because the counters are those of the whole process.
#[test]
fn no_operation_allocates_as_much_as_one_limb() {
    // One thread only: a second thread would allocate its scratch space whenever it first takes part.
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(measure);
}

fn measure() {
    let params = TOY_LOGN14_DEPTH22.validate().unwrap();
    let (mut rng, level) = (rng(3), 6);
    let secret = SecretKey::generate(&params, &mut rng);
    let public = ckks_secret::public_key(&secret, &mut rng);
    let [g, h] = [1, 2].map(|k| GaloisElement::rotation(&params, k));
    let mut galois =
        |g, storage| (g, Arc::new(ckks_secret::galois_key(&secret, g, level, &mut rng).stored_as(storage)));
    let galois = [galois(g, KeyStorage::Expanded), galois(h, KeyStorage::Seeded)].into();
    let keys =
        EvaluationKeys { relin: Some(Arc::new(ckks_secret::relin_key(&secret, level, &mut rng))), galois };
    let eval = Evaluator::new(params.clone(), keys);
    let m = Plaintext::encode(&params, &values(64, true, &mut rng), level).unwrap();
    let [x, y] = std::array::from_fn(|_| ckks::encrypt(&params, &public, &m, &mut rng));
    let factor = eval.encode_factor(&values(64, true, &mut rng), level).unwrap();

    type Operation<'a> = (&'a str, Box<dyn Fn() -> Ciphertext + 'a>);
    let operations: [Operation; 9] = [
        ("sum", {
            let sum = || {
                let mut sum = x.clone();
                eval.add_assign(&mut sum, &y).unwrap();
                sum
            };
            Box::new(sum)
        }),
        ("product", Box::new(|| eval.mul(&x, &y).unwrap())),
        ("plaintext product", Box::new(|| eval.mul_plain(&x, &factor).unwrap())),
        ("rescaling", Box::new(|| eval.rescale(x.clone()).unwrap())),
        ("rotation", Box::new(|| eval.rotate(&x, 1).unwrap())),
        ("rotation by a seeded key", Box::new(|| eval.rotate(&x, 2).unwrap())),
        ("hoisted rotations", Box::new(|| eval.rotate_many(&x, &[0, 1]).unwrap().remove(1))),
        ("sum of rotations", Box::new(|| eval.sum_of_rotations(&x, &[(0, false), (1, true)]).unwrap())),
        ("combination", Box::new(|| eval.linear_combination(&[(0.5, &x), (2.0, &y)], 1.0).unwrap())),
    ];
    for (what, operation) in operations {
        (0..3).for_each(|_| drop(operation()));
        let region = Region::new(ALLOCATOR);
        drop(operation());
        let bytes = region.change().bytes_allocated;
        println!("{what}: {bytes} bytes");
        assert!(bytes < params.n() * 8 / 4, "{what} allocated {bytes} bytes");
    }
}
