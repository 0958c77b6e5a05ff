//! Scores first: what a user's contexts cost the server in the small ring, and what a raise costs both sides.
//!
//! Ids: `scores/OPERATION/n=2^13/threads=T`, `scores/OPERATION/n=2^15/threads=T` for steps in the large ring.

mod support;

use ckks::{
    EvaluationKeys, Evaluator, KeyId, LOGN13_LOGQP147_SCORES, LOGN15_LOGQP825_DEPTH17, Packer, Places,
    Plaintext, pack_elements,
};
use ckks_secret::SecretKey;
use criterion::{Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Bench, Fact};

/// Arms, and so the gap between useful coefficients: N/(2·arms).
const ARMS: usize = 8;
/// Users of one pack.
const USERS: usize = 256;
/// Scale of a product.
const LOG_SCALE: u32 = 44;

fn timed<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(run());
    start.elapsed()
}

fn scores(c: &mut Criterion) {
    let mut bench = Bench::new(c);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let small = LOGN13_LOGQP147_SCORES.validate().expect("a shipped set");
    let large = LOGN15_LOGQP825_DEPTH17.validate().expect("a shipped set");
    let (secret, large_secret) =
        (SecretKey::generate(&small, &mut rng), SecretKey::generate(&large, &mut rng));
    let (top, gap) = (small.max_level(), small.n() / (2 * ARMS));
    let public = ckks_secret::public_key(&secret, &mut rng);
    let relin = Some(Arc::new(ckks_secret::relin_key(&secret, top, &mut rng)));
    let mut keys = EvaluationKeys { relin, ..EvaluationKeys::default() };
    for element in pack_elements(&small, gap).expect("a power of two") {
        keys.galois.insert(element, Arc::new(ckks_secret::galois_key(&secret, element, top, &mut rng)));
    }
    let evaluator = Evaluator::new(small.clone(), keys);
    let level = 15;
    let place = |j: usize| [j, j + gap].map(|k| j.is_multiple_of(ARMS).then_some(k % small.n()));
    let places = Places::parts(&(0..large.max_slots()).map(place).collect::<Vec<_>>());
    let raise = places.exchange(&small, &large, LOG_SCALE, level).expect("a level of the set");

    let id = KeyId([0; 16]);
    let mut plaintext = || {
        let coefficients: Vec<i64> = (0..small.n()).map(|_| rng.random_range(-1i64 << 20..1 << 20)).collect();
        Plaintext::from_integers(&small, &coefficients, top, small.scale(top)).expect("N coefficients")
    };
    let (contexts, model) = (plaintext(), plaintext());
    let seeded = ckks_secret::encrypt(&secret, &contexts, &mut rng);
    let frame = seeded.to_bytes(&secret, id);
    let context = seeded.expand(&secret);
    let model = ckks_secret::encrypt(&secret, &model, &mut rng).expand(&secret);
    let product = evaluator.mul_unrescaled(&context, &model).expect("a key");
    let undivided = evaluator.mul_undivided(&context, &model).expect("a key");
    let pack = |users: usize| {
        let mut packer = Packer::new(&evaluator, gap, top, product.scale()).expect("keys");
        for _ in 0..users {
            packer.push(undivided.clone()).expect("room");
        }
        packer.finish().expect("keys")
    };
    let seed = ckks::mask_seed(&mut rng);
    let masked = || {
        let mut packed = product.clone();
        raise.mask_assign(std::slice::from_mut(&mut packed), &seed).expect("a pack of this raise");
        packed
    };
    let packed = masked();
    let raised =
        ckks_secret::raise(&raise, &secret, &large_secret, &packed, [1.0; 3], &mut rng).expect("a raise");
    let raise_bytes = raised.to_bytes(&large_secret, id).len();
    let raised = raised.expand(&large_secret);

    let fact = Fact::bytes(frame.len());
    bench.time("scores/encrypt/n=2^13", true, fact, || {
        timed(|| ckks_secret::encrypt(&secret, &contexts, &mut rng).to_bytes(&secret, id))
    });
    let read = || timed(|| ckks::read_ciphertext(&small, id, top, &frame).expect("its own frame"));
    bench.time("scores/read/n=2^13", true, Fact::default(), read);
    let multiply = || timed(|| evaluator.mul_undivided(&context, &model).expect("a key"));
    bench.time("scores/product/n=2^13", true, Fact::default(), multiply);
    let per_user = || timed(|| pack(USERS)) / USERS as u32;
    bench.time("scores/pack_per_user/n=2^13", true, Fact::default(), per_user);
    let rest = || timed(|| pack(1));
    bench.time("scores/pack_of_one/n=2^13", true, Fact::default(), rest);
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let mask = || {
        timed(|| {
            let mut packed = masked();
            ckks::rerandomise_assign(&small, &public, &mut packed, &mut rng);
            packed
        })
    };
    bench.time("scores/mask/n=2^13", true, Fact::default(), mask);
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    bench.time("scores/raise/n=2^15", true, Fact::bytes(raise_bytes), || {
        timed(|| {
            ckks_secret::raise(&raise, &secret, &large_secret, &packed, [1.0; 3], &mut rng).expect("a raise")
        })
    });
    bench.time("scores/unmask/n=2^15", true, Fact::default(), || {
        let mut raised = raised.clone();
        timed(|| {
            let mask = raise.encode_mask(&seed, &[1.0; 3]).expect("factors of one");
            raise.unmask_assign(std::slice::from_mut(&mut raised), &mask).expect("its own raise")
        })
    });
}

criterion_group! {
    name = benches;
    config = support::config();
    targets = scores
}
criterion_main!(benches);
