//! Exchanges with a holder of the key, and what the server multiplies between them: staged evaluations of
//! eight users with 32 features and 32 arms, and updates by products with 16 features.
//!
//! Ids: `exchanges/OPERATION/n=2^14/l=LEVEL/threads=T`, with the ring of the masked side and its level.

mod support;

use bandit::Width;
use circuits::maximum::Maximum;
use circuits::{Complex64, Encrypted, SlotAlgebra};
use ckks::{Ciphertext, Domain, Exchange, Params, PublicKey, Side};
use ckks_secret::SecretKey;
use criterion::{Criterion, criterion_group, criterion_main};
use protocol::products::{LOG_OPERAND, ProductExchanges, ProductStep};
use protocol::staged::{
    BEHIND_LEVEL, PAIRS_LEVEL, SQUARES_LEVEL, STAGED_FACTORS, StagedExchanges, StagedLayout,
};
use protocol::{BanditConfig, KeyPlan, ScoreLayout, ScoreRing, Shape, WidthShape};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::time::{Duration, Instant};
use support::{Bench, Fact};
use testkit::{Party, ScoresParty};

const FEATURES: usize = 32;
const ARMS: usize = 32;
const USERS: usize = 8;

fn timed<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(run());
    start.elapsed()
}

/// Both parties of an exchange.
struct Parties<'a> {
    public: &'a PublicKey,
    from: &'a SecretKey,
    to: &'a SecretKey,
}

/// The mask of the server, the work of the holder of the key, and the image of the mask.
fn exchange(bench: &mut Bench, name: &str, exchange: &Exchange, parties: &Parties, factors: &[f64]) {
    let from = exchange.from();
    let id =
        |what: &str| format!("exchanges/{name}_{what}/n=2^{}/l={}", from.params.spec().log_n, from.level);
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let zero = || Ciphertext::zero(&from.params, from.level).with_scale(from.scale);
    let mut mask = || {
        let mut masked: Vec<Ciphertext> = (0..from.ciphertexts).map(|_| zero()).collect();
        let seed = ckks::mask_seed_of(&masked, &ckks::mask_seed(&mut rng));
        exchange.mask_assign(&mut masked, &seed).expect("its side");
        for ct in &mut masked {
            ckks::rerandomise_assign(&from.params, parties.public, ct, &mut rng);
        }
        (masked, seed)
    };
    let (masked, seed) = mask();
    let bytes = from.ciphertexts * ckks::ciphertext_bytes(&from.params, from.level, false);
    bench.time(&id("mask"), false, Fact::bytes(bytes), || timed(&mut mask));
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let mut hold = || {
        let fresh = ckks_secret::exchange(exchange, parties.from, parties.to, &masked, factors, &mut rng);
        fresh.expect("its side")
    };
    let bytes = hold().iter().map(|ct| ct.to_bytes(parties.to, ckks::KeyId([0; 16])).len()).sum();
    bench.time(&id("holder"), false, Fact::bytes(bytes), || timed(&mut hold));
    let image = || timed(|| exchange.encode_mask(&seed, factors).expect("its factors"));
    bench.time(&id("image"), false, Fact::default(), image);
}

fn stages(bench: &mut Bench) {
    let mut config = BanditConfig::new(FEATURES, ARMS);
    config.linear.width = Width::Tangent { alpha: 0.5, floor: 1.0 / 64.0 };
    let set = ckks::LOGN14_LOGQP409_DEPTH11;
    let valid = |set: ckks::ParamsSpec| -> Params { set.validate().expect("a shipped set") };
    let (small, stages) = (valid(ckks::LOGN13_LOGQP147_SCORES), valid(set));
    let shape = Shape::for_problem(config.linear.d, config.linear.k);
    let ring = ScoreRing::with_stages(ckks::LOGN13_LOGQP147_SCORES, shape);
    let layout = StagedLayout::new(&config, USERS, ring, stages.max_slots()).expect("they fit");
    let answers = ring.answers(&set).validate().expect("a prefix of a shipped set");
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let scores = ScoresParty::generate(ring, &mut rng).expect("a shipped set");
    let mut party = Party::generate(&stages, stages.max_level(), [], 2);
    let exchanges = StagedExchanges::new(layout, &small, &stages, &answers).expect("a shipped set");
    let secret = scores.secret.under(&answers);
    let factors = [0.25, 0.5, 1.0];
    assert_eq!(factors.len(), STAGED_FACTORS);

    let of_scores = Parties { public: &scores.public, from: &scores.secret, to: &party.secret };
    exchange(bench, "contexts", &exchanges.steps[0][0][0], &of_scores, &factors);
    exchange(bench, "products", &exchanges.steps[0][1][0], &of_scores, &factors);
    let public = party.ring_keys().public_key;
    let of_stages = Parties { public: &public, from: &party.secret, to: &party.secret };
    exchange(bench, "pairs", &exchanges.steps[1][0][0], &of_stages, &factors);
    let of_answers = Parties { public: &public, from: &party.secret, to: &secret };
    let last = exchanges.steps.last().expect("a last step");
    exchange(bench, "answers", &last[0][0], &of_answers, &factors);

    let slots = stages.max_slots();
    let alg = Encrypted::new(party.evaluator(), slots).expect("the slots fit");
    let maximum = Maximum::new().expect("built-in coefficients");
    let unit: Vec<Complex64> = (0..slots).map(|_| (rng.random::<f64>() - 0.5).into()).collect();
    let mut encrypt = |level: usize| party.encrypt(&unit, level);
    let id = |what: &str, level: usize| format!("exchanges/{what}/n=2^14/l={level}");
    let (x, v) = (encrypt(SQUARES_LEVEL), encrypt(SQUARES_LEVEL));
    let squares = || timed(|| alg.mul(&x, &v).expect("a key"));
    bench.time(&id("squares", SQUARES_LEVEL), true, Fact::default(), squares);
    let (differences, means) = (encrypt(PAIRS_LEVEL), encrypt(protocol::levels::PRODUCTS_LEVEL));
    let of_two = || timed(|| maximum.of_two(&alg, &differences, &means).expect("its levels"));
    bench.time(&id("maximum", PAIRS_LEVEL), true, Fact::default(), of_two);
    let behind = encrypt(BEHIND_LEVEL);
    let entries = || timed(|| maximum.entries(&alg, &behind).expect("its levels"));
    bench.time(&id("entries", BEHIND_LEVEL), true, Fact::default(), entries);
}

fn updates(bench: &mut Bench) {
    let config = BanditConfig::new(16, 2);
    let shape = Shape::for_problem(16, 2);
    let plan = KeyPlan::new(shape, false, WidthShape::Tangent).expect("a default shape");
    let ring = plan.scores;
    let plan = config.plan(plan.rings().expect("shipped sets"), shape, ring).expect("defaults fit");
    let layout = ScoreLayout::new(&config, &plan, ring);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let party = ScoresParty::generate(ring, &mut rng).expect("a shipped set");
    let matrices = layout.matrices().expect("16 features");
    let exchanges = ProductExchanges::new(&layout, &party.params, matrices, None).expect("a shipped set");
    let parties = Parties { public: &party.public, from: &party.secret, to: &party.secret };
    exchange(bench, "newton", exchanges.of(ProductStep::Newton), &parties, &[1.0, 1.0]);

    let evaluator = ckks::Evaluator::new(party.params.clone(), party.keys.clone());
    let identity = party.encrypt(&matrices.right_identity(1 << LOG_OPERAND)[0], LOG_OPERAND, &mut rng);
    let identity = identity.expand(&party.secret);
    let product = || timed(|| evaluator.mul_unrescaled(&identity, &identity).expect("a key"));
    let id = format!("exchanges/matrices/n=2^13/l={}", party.params.max_level());
    bench.time(&id, true, Fact::default(), product);
}

/// The transform of slots at the widest modulus that decodes them, both ways, as an exchange of one number.
fn transforms(bench: &mut Bench) {
    for set in [ckks::LOGN14_LOGQP409_DEPTH11, ckks::LOGN15_LOGQP825_DEPTH17] {
        let params = set.validate().expect("a shipped set");
        let level = protocol::levels::PRODUCTS_LEVEL;
        let side = || Side::slots(&params, 1, level).expect("a level of the set");
        let term = ckks::MapTerm { from: 0, to: 0, weight: 1.0, group: 0 };
        let Ok(exchange) = Exchange::new(side(), side(), vec![term]) else { continue };
        assert!(matches!(exchange.from().domain, Domain::Slots));
        let seed = ckks::mask_seed(&mut ChaCha20Rng::seed_from_u64(7));
        let id = format!("exchanges/wide_transforms/n=2^{}/l={level}", set.log_n);
        let transform = || timed(|| exchange.encode_mask(&seed, &[1.0]).expect("a factor of one"));
        bench.time(&id, false, Fact::default(), transform);
    }
}

fn exchanges(c: &mut Criterion) {
    let mut bench = Bench::new(c);
    stages(&mut bench);
    updates(&mut bench);
    transforms(&mut bench);
}

criterion_group! {
    name = benches;
    config = support::config();
    targets = exchanges
}
criterion_main!(benches);
