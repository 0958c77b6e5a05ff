//! Operations on ciphertexts with the parameters of small problems, at the top level, in the middle and near the bottom.
//!
//! Ids: `ckks/OPERATION/n=2^15/l=LEVEL`, the level before the operation; frames read and written have theirs. Times count
//! only beside the bits of precision, which `crates/ckks-secret/tests/stat_noise.rs` holds to their bounds.

use ckks::{
    Ciphertext, DiagonalTransform, EvaluationKeys, Evaluator, GaloisElement, Params, Plaintext, PublicKey,
};
use ckks_secret::SecretKey;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use helba::{KeyPlan, Shape};
use num_complex::Complex64;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::hint::black_box;
use std::sync::Arc;

/// Slots of the messages: they repeat.
const SLOTS: usize = 1024;
const DIAGONALS: i64 = 16;
/// Offsets 0 to 15 as giant steps of 4 and baby steps below 4.
const BABY_STEPS: i64 = 4;

struct Fixture {
    params: Params,
    secret: SecretKey,
    public: PublicKey,
    evaluator: Evaluator,
    rng: ChaCha20Rng,
}

impl Fixture {
    fn new() -> Self {
        // A problem of 8 features and 4 arms: what a bench measures is what such a deployment runs.
        let spec = KeyPlan::new(Shape::for_problem(8, 4), false).expect("small problems have keys").params;
        let params = spec.validate().expect("shipped parameters are valid");
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (secret, top) = (SecretKey::generate(&params, &mut rng), params.max_level());
        let public = ckks_secret::public_key(&secret, &mut rng);
        let relin = Some(Arc::new(ckks_secret::relin_key(&secret, top, &mut rng)));
        let mut keys = EvaluationKeys { relin, ..EvaluationKeys::default() };
        let steps = (1..=BABY_STEPS).chain((2..BABY_STEPS).map(|g| g * BABY_STEPS));
        let elements = steps.map(|k| GaloisElement::rotation(&params, k));
        for g in elements.chain([GaloisElement::conjugation(&params)]) {
            keys.galois.insert(g, Arc::new(ckks_secret::galois_key(&secret, g, top, &mut rng)));
        }
        Fixture { evaluator: Evaluator::new(params.clone(), keys), params, secret, public, rng }
    }

    fn message(&mut self) -> Vec<Complex64> {
        let mut unit = || 2.0 * self.rng.random::<f64>() - 1.0;
        (0..SLOTS).map(|_| Complex64::new(unit(), unit())).collect()
    }

    fn ciphertext(&mut self, level: usize) -> Ciphertext {
        let message = self.message();
        let encoded = Plaintext::encode(&self.params, &message, level).expect("values in the unit square");
        ckks_secret::encrypt(&self.secret, &encoded, &mut self.rng).expand(&self.secret)
    }
}

fn operations(c: &mut Criterion) {
    let mut f = Fixture::new();
    let top = f.params.max_level();
    for level in [top, top / 2, 2] {
        let id = |what: &str| format!("ckks/{what}/n=2^{}/l={level}", f.params.n().ilog2());
        let ids = [
            "encode",
            "encrypt_public",
            "encrypt_symmetric",
            "decrypt",
            "add",
            "mul",
            "rescale",
            "rotate",
            "sum_of_4_rotations",
            "conjugate",
            "linear_16_diagonals",
            "write_frame",
            "read_frame",
        ]
        .map(id);
        let [
            encode,
            public,
            symmetric,
            decrypt,
            add,
            mul,
            rescale,
            rotate,
            sum,
            conjugate,
            linear,
            write,
            read,
        ] = ids;

        let message = f.message();
        let encoded = Plaintext::encode(&f.params, &message, level).expect("values in the unit square");
        let (a, b) = (f.ciphertext(level), f.ciphertext(level));
        let terms = (0..DIAGONALS).map(|k| (k / BABY_STEPS * BABY_STEPS, k % BABY_STEPS, f.message()));
        let transform = DiagonalTransform { terms: terms.collect() };
        let transform = f.evaluator.encode_transform(&transform, level).expect("level and slots are valid");
        let key = f.public.id(&f.params);
        let frame = ckks::write_ciphertext(&f.params, key, &a);
        let Fixture { params, secret, public: public_key, evaluator, rng } = &mut f;

        c.bench_function(&encode, |x| x.iter(|| Plaintext::encode(params, black_box(&message), level)));
        c.bench_function(&public, |x| x.iter(|| ckks::encrypt(params, public_key, black_box(&encoded), rng)));
        c.bench_function(&symmetric, |x| x.iter(|| ckks_secret::encrypt(secret, black_box(&encoded), rng)));
        c.bench_function(&decrypt, |x| x.iter(|| ckks_secret::decrypt(secret, black_box(&a), SLOTS)));
        c.bench_function(&add, |x| {
            x.iter_batched_ref(|| a.clone(), |a| evaluator.add_assign(a, &b), BatchSize::LargeInput)
        });
        c.bench_function(&mul, |x| x.iter(|| evaluator.mul(black_box(&a), &b)));
        c.bench_function(&rescale, |x| {
            x.iter_batched(|| a.clone(), |a| evaluator.rescale(a), BatchSize::LargeInput)
        });
        c.bench_function(&rotate, |x| x.iter(|| evaluator.rotate(black_box(&a), 1)));
        let four = [(1, false), (2, false), (3, true), (4, false)];
        c.bench_function(&sum, |x| x.iter(|| evaluator.sum_of_rotations(black_box(&a), &four)));
        c.bench_function(&conjugate, |x| x.iter(|| evaluator.conjugate(black_box(&a))));
        c.bench_function(&linear, |x| x.iter(|| evaluator.linear(black_box(&a), &transform)));
        c.bench_function(&write, |x| x.iter(|| ckks::write_ciphertext(params, key, black_box(&a))));
        c.bench_function(&read, |x| x.iter(|| ckks::read_ciphertext(params, key, level, black_box(&frame))));
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = operations
}
criterion_main!(benches);
