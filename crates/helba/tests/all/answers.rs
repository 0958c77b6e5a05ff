//! The entries of an evaluation in the ring of answers: of a request alone by a fold, of several by the
//! exchange of answers, against exact arithmetic; and what a raiser that deviates learns of a neighbour.

use circuits::{Clear, Complex64};
use ckks::{
    Ciphertext, EvaluationKeys, Evaluator, Fold, Plaintext, RingKeys, RingSwitch, SeededCoefficients,
};
use ckks_secret::SecretKey;
use helba::Engine;
use helba::circuit::DecisionCircuit;
use helba::{DeepEngine, Error, Masked, Scalars};
use protocol::exchange::{ANSWER_FLOOD_BITS, ENTRY_FLOOD_BITS};
use protocol::levels::{ANSWER_LEVEL, DecisionLevels, PRODUCTS_LEVEL};
use protocol::{AnswerLayout, BanditConfig, Exchanges, KeyPlan, LOG_SCORE, Shape, WidthShape};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// An engine without the keys of the deep circuit, whose products are made in the clear.
struct World {
    engine: Engine,
    switch: RingSwitch,
    large: SecretKey,
    scores: SecretKey,
    answers: SecretKey,
    layout: AnswerLayout,
    exchanges: Exchanges,
    shape: Shape,
    rng: ChaCha20Rng,
}

/// Half of the width of the noise of an entry, and what the errors of products add to it.
const WIDEST: f64 = 1.0 / (1u64 << ENTRY_FLOOD_BITS) as f64 + 1e-4;

impl World {
    fn new(d: usize, k: usize, toy: bool) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(17);
        let shape = Shape::for_problem(d, k);
        let plan = KeyPlan::new(shape, toy, WidthShape::default()).unwrap();
        let ring = plan.scores;
        let (params, small) = (plan.rings().unwrap().decisions, ring.params.validate().unwrap());
        let [large, scores] = [&params, &small].map(|params| SecretKey::generate(params, &mut rng));
        let [public, public_scores] = [&large, &scores].map(|key| ckks_secret::public_key(key, &mut rng));
        let (key_id, id_of_scores) = (public.id(&params), public_scores.id(&small));
        let switch = testkit::ring_switch(&large, &scores, &plan.answers, &mut rng);
        let layout = AnswerLayout::new(ring, shape, params.max_slots());
        // The ring of updates, which no answer depends on.
        let updates = plan.params.validate().unwrap();
        let none = EvaluationKeys::default;
        let evaluator = Evaluator::new(params, none());
        let decisions = RingKeys { evaluator, public_key: public.clone(), key_id };
        let deep = DeepEngine::new(updates, public, key_id, shape, none()).unwrap();
        let deep = deep.with_decisions(Some(decisions));
        let (keys, own) = (EvaluationKeys::default(), switch.clone());
        let engine = Engine::new(deep, ring, small, public_scores, id_of_scores, keys, own).unwrap();
        let answers = scores.under(engine.answer_params());
        let config = BanditConfig::new(d, k);
        let rings = engine.deep().rings();
        let plan = config.plan(&rings, shape, ring).unwrap();
        let (small, params) = (engine.params(), engine.answer_params());
        let exchanges = Exchanges::new(&config, &plan, ring, small, rings, params).unwrap();
        World { engine, switch, large, scores, answers, layout, exchanges, shape, rng }
    }

    /// The products of a full evaluation with random scores, in the clear.
    fn products(&mut self, d: usize, k: usize) -> Vec<f64> {
        let config = BanditConfig::new(d, k);
        let slots = self.large.params().max_slots();
        let scalars = Scalars::new(&config, 31, 30);
        let circuit = DecisionCircuit::new(&config, scalars, self.shape, slots).unwrap();
        let users = self.layout.users();
        let scores: Vec<[f64; 2]> = (0..users * k)
            .map(|_| [self.rng.random_range(0.0..0.9), self.rng.random_range(-0.9..0.9)])
            .collect();
        let raised = circuit.raised(|arm, user| (user < users).then(|| scores[user * k + arm]));
        let alg = Clear::new(slots).unwrap();
        let levels = DecisionLevels::new(&config, self.shape).unwrap().sum();
        circuit.products(&alg, &alg.fresh(&raised, levels).unwrap()).unwrap().real()
    }

    fn encrypt(&self, products: &[f64], level: usize, rng: &mut ChaCha20Rng) -> Ciphertext {
        let slots: Vec<Complex64> = products.iter().map(|&v| v.into()).collect();
        let message = Plaintext::encode(self.large.params(), &slots, level).unwrap();
        ckks_secret::encrypt(&self.large, &message, rng).expand(&self.large)
    }

    /// As [`Self::encrypt`] for products that are too large for the integers of an encoding: a multiple of
    /// 2¹⁰ is added without an encryption.
    fn encrypt_large(&mut self, products: &[f64], level: usize) -> Ciphertext {
        let params = self.large.params();
        let unit = 10f64.exp2();
        let high: Vec<f64> = products.iter().map(|v| (v / unit).round()).collect();
        let low: Vec<f64> = products.iter().zip(&high).map(|(v, high)| v - high * unit).collect();
        let mut out = self.encrypt(&low, level, &mut self.rng.clone());
        let evaluator = Evaluator::new(params.clone(), EvaluationKeys::default());
        let mut rest = Ciphertext::zero(params, level);
        let high: Vec<Complex64> = high.into_iter().map(Complex64::from).collect();
        evaluator.add_plain_assign(&mut rest, &Plaintext::encode(params, &high, level).unwrap()).unwrap();
        evaluator.mul_integer_assign(&mut rest, 1 << 10);
        evaluator.add_assign(&mut out, &rest).unwrap();
        out
    }

    /// Products with these entries of the first arm of users, and 0 elsewhere.
    fn with_entries(&self, entries: &[(usize, f64)]) -> Vec<f64> {
        let mut products = vec![0.0; self.large.params().max_slots()];
        entries.iter().for_each(|&(user, entry)| products[self.layout.product_slot(0, user)] = entry);
        products
    }

    /// What the holder of the key is asked for to answer several requests.
    fn masked(&mut self, products: Ciphertext) -> Masked {
        let evaluated = self.engine.evaluated(products, &mut self.rng).unwrap();
        self.engine.mask_answers(&self.exchanges.answers, &evaluated, &mut self.rng).unwrap()
    }

    /// The exchange of answers.
    fn exchanged(&mut self, products: Ciphertext) -> SeededCoefficients {
        let Masked { ciphertext, seed } = self.masked(products);
        let exchange = &self.exchanges.answers;
        let (large, answers) = (&self.large, &self.answers);
        let fresh =
            ckks_secret::slots_to_coefficients(exchange, large, answers, &ciphertext, &mut self.rng).unwrap();
        let frame = fresh.to_bytes(answers, self.engine.key_id());
        let mut out = self.engine.read_answers(exchange, &frame).unwrap();
        out.sub_assign(answers.params(), &exchange.encode_mask(&seed).unwrap()).unwrap();
        out
    }

    /// All coefficients of the answer to a request for `users`, in units of the scale.
    fn coefficients(&mut self, answers: &SeededCoefficients, users: &[usize]) -> Vec<f64> {
        let layout = &self.exchanges.layout;
        let frame = self.engine.answer(layout, answers, users, &mut self.rng).unwrap();
        let places = layout.answer_coefficients(users, self.large.params().max_slots());
        let ((level, scale), params) = (self.exchanges.answers.to(), self.answers.params());
        let named = places.iter().copied();
        let id = self.engine.key_id();
        let answer = ckks::read_partial_ciphertext(params, id, level, scale, named, &frame).unwrap();
        ckks_secret::decrypt_coefficients(&self.answers, &answer)
            .with(|values| values.iter().map(|value| *value as f64 / scale).collect())
    }

    /// The entry of an arm of `user` in the answer to it.
    fn entry(&mut self, answers: &SeededCoefficients, arm: usize, user: usize) -> f64 {
        self.coefficients(answers, &[user])[self.layout.coefficient(arm, user)]
    }

    /// The largest of what the slots of a neighbour hold in an answer to another user, in deviations of the
    /// noise.
    fn deviations(&self, answer: &[Complex64], neighbour: usize) -> f64 {
        let of_arm = |arm: usize| answer[self.layout.slot(arm, neighbour)].norm() / self.noise();
        of_arm(0).max(of_arm(1))
    }

    fn slots(&self, answer: &Ciphertext) -> Vec<Complex64> {
        let slots = self.answers.params().max_slots();
        ckks_secret::decrypt(&self.answers, answer, slots).with(|slots| slots.to_vec())
    }

    /// The deviation of the noise of an answer in the real part of a slot: √(N'/2) times that of a
    /// coefficient, which is uniform.
    fn noise(&self) -> f64 {
        let slots = self.answers.params().max_slots() as f64;
        (-f64::from(ANSWER_FLOOD_BITS)).exp2() / 3f64.sqrt() * slots.sqrt()
    }
}

/// In full evaluations of the circuit every user gets its own entries by the exchange, those of the clear
/// twin, in less than a kilobyte; so does a request of two users.
#[test]
fn every_user_gets_its_own_entries() {
    for (d, k) in [(2, 2), (8, 8), (8, 16), (8, 32)] {
        let mut world = World::new(d, k, true);
        let products = world.products(d, k);
        let encrypted = world.encrypt(&products, PRODUCTS_LEVEL, &mut world.rng.clone());
        let answers = world.exchanged(encrypted);
        let users = world.layout.users();
        let own = |world: &World, coefficients: &[f64], user: usize| {
            for arm in 0..k {
                let got = coefficients[world.layout.coefficient(arm, user)];
                let want = products[world.layout.product_slot(arm, user)];
                assert!((got - want).abs() < WIDEST, "{d} {k}, user {user}, arm {arm}: {got} for {want}");
            }
        };
        for user in 0..users {
            let coefficients = world.coefficients(&answers, &[user]);
            own(&world, &coefficients, user);
        }
        let coefficients = world.coefficients(&answers, &[0, users / 2]);
        [0, users / 2].into_iter().for_each(|user| own(&world, &coefficients, user));
        let layout = &world.exchanges.layout;
        let frame = world.engine.answer(layout, &answers, &[users - 1], &mut world.rng).unwrap();
        assert!(frame.len() < 1000, "{d} {k}: {} bytes", frame.len());
        for none in [&[users][..], &[]] {
            let refused = world.engine.answer(layout, &answers, none, &mut world.rng);
            assert!(matches!(refused, Err(Error::Broken(_))));
        }
    }
}

/// A request alone gets its entries by a fold, whatever its users are, and nothing else: noise is in all
/// other slots. With 10⁵ slots in all, a noise of seven deviations has a probability below 10⁻⁵.
#[test]
fn a_request_alone_gets_its_entries_without_an_exchange() {
    let mut world = World::new(8, 8, true);
    let products = world.products(8, 8);
    let mut rng = world.rng.clone();
    let encrypted = world.encrypt(&products, PRODUCTS_LEVEL, &mut rng);
    let evaluated = world.engine.evaluated(encrypted, &mut rng).unwrap();
    let last = world.layout.users() - 1;
    let bound = 7.0 * world.noise();
    for users in [&[0][..], &[last], &[1, last / 2]] {
        let answer = world.engine.answer_alone(&evaluated, users, &mut rng).unwrap();
        assert_eq!((answer.level(), answer.c0().n()), (0, world.engine.answer_params().n()));
        let mut slots = world.slots(&answer);
        for &user in users {
            for arm in 0..8 {
                let got = std::mem::take(&mut slots[world.layout.slot(arm, user)]);
                assert!((got - products[world.layout.product_slot(arm, user)]).norm() < bound);
            }
        }
        assert!(slots.iter().all(|slot| slot.norm() < bound), "the entries of others are left out");
    }
    for users in [&[last + 1][..], &[]] {
        let refused = world.engine.answer_alone(&evaluated, users, &mut rng);
        assert!(matches!(refused, Err(Error::Broken(_))));
    }
    // Products at another level are refused.
    for level in [0, 2] {
        let encrypted = world.encrypt(&products, level, &mut rng);
        let refused = world.engine.evaluated(encrypted, &mut rng).map(drop);
        assert!(matches!(refused, Err(Error::WrongLevel { got, .. }) if got == level), "{level}");
    }
}

/// Neighbours' entries of 2²⁰ change an answer by less than 2⁻⁴² of them, on ciphertexts of the toy and of
/// the ring in use, with the same randomness. What they change is the rounding of their encoding; a mask in
/// slots leaves 2⁻²⁷.
#[test]
fn an_exchange_leaves_nothing_of_a_neighbour() {
    for toy in [true, false] {
        let mut world = World::new(2, 2, toy);
        let users = world.layout.users();
        let (user, neighbours) = (users / 3, [0, users / 3 - 1, users / 3 + 1, users - 1]);
        let mut entry = |of_neighbours: f64| {
            world.rng = ChaCha20Rng::seed_from_u64(18);
            let mut entries = vec![(user, 1.0)];
            entries.extend(neighbours.map(|neighbour| (neighbour, of_neighbours)));
            let products = world.with_entries(&entries);
            let encrypted = world.encrypt(&products, PRODUCTS_LEVEL, &mut world.rng.clone());
            let answers = world.exchanged(encrypted);
            world.entry(&answers, 0, user)
        };
        let changed = (entry(0.0) - entry(20f64.exp2())).abs();
        assert!(changed < (-22f64).exp2(), "2^{}", changed.log2());
    }
}

/// Answers of two evaluations of the same products have no c₁ in common: that of a request alone is behind an
/// encryption of zero, and that of others is the holder's, which differs in each exchange.
#[test]
fn attack_answers_do_not_show_what_they_were_computed_from() {
    let mut world = World::new(2, 2, true);
    let products = world.products(2, 2);
    let encrypted = world.encrypt(&products, PRODUCTS_LEVEL, &mut world.rng.clone());
    let alone = [(); 2].map(|()| {
        let evaluated = world.engine.evaluated(encrypted.clone(), &mut world.rng).unwrap();
        world.engine.answer_alone(&evaluated, &[0], &mut world.rng).unwrap()
    });
    assert!(alone[0].c1() != alone[1].c1());
    let masked = [(); 2].map(|()| world.masked(encrypted.clone()));
    assert!(masked[0].seed != masked[1].seed && masked[0].ciphertext.c1() != masked[1].ciphertext.c1());
    // A generator that repeats itself masks other products by another mask.
    let other = world.encrypt(&world.with_entries(&[(0, 1.0)]), PRODUCTS_LEVEL, &mut world.rng.clone());
    let [one, same, other] = [&encrypted, &encrypted, &other]
        .map(|products| ckks::mask_seed_for(products, &mut ChaCha20Rng::seed_from_u64(19)));
    assert!(one == same && one != other);
}

/// An answer of open scores has uniform noise of ± 2⁻¹⁴ of their scale in every coefficient. The scores are 0
/// here, so that the noise is all there is: its mean square is a third of the square of its width, within
/// five deviations of √(4/5n).
#[test]
fn attack_open_scores_are_under_noise() {
    let mut world = World::new(2, 2, true);
    let params = world.engine.params().clone();
    let scores = Ciphertext::zero(&params, params.max_level()).with_scale(f64::from(LOG_SCORE).exp2());
    let scores = Evaluator::new(params, EvaluationKeys::default()).undivided(&scores);
    let answer = world.engine.open_answer(scores, &mut world.rng);
    let width = f64::from(LOG_SCORE - 14).exp2();
    let noise: Vec<f64> = ckks_secret::decrypt_coefficients(&world.scores, &answer)
        .with(|values| values.iter().map(|value| *value as f64 / width).collect());
    assert!(noise.iter().all(|noise| noise.abs() <= 1.0));
    let n = noise.len() as f64;
    let square = noise.iter().map(|noise| noise * noise).sum::<f64>() / n;
    assert!((square * 3.0 - 1.0).abs() < 5.0 * (4.0 / (5.0 * n)).sqrt(), "{square}");
}

/// The fold of all users holds the arms of all neighbours. In an answer of the exchange, guesses at 511 arms
/// of two from an answer are right no more often than by chance: 60 % have a probability of 4 · 10⁻⁶.
#[test]
fn attack_a_neighbours_arm_is_not_in_an_answer() {
    let mut world = World::new(2, 2, true);
    let mut rng = world.rng.clone();
    let users = world.layout.users();
    let arms: Vec<usize> = (0..users).map(|_| rng.random_range(0..2)).collect();
    let mut products = vec![0.0; world.large.params().max_slots()];
    for (user, arm) in arms.iter().enumerate() {
        products[world.layout.product_slot(*arm, user)] = 1.0;
    }
    let encrypted = world.encrypt(&products, PRODUCTS_LEVEL, &mut rng);
    let right = |entry: &dyn Fn(usize, usize) -> f64| {
        (1..users).filter(|&user| usize::from(entry(1, user) > entry(0, user)) == arms[user]).count()
    };
    let all: Vec<usize> = (0..users).collect();
    let fold = Fold::new(&world.switch, PRODUCTS_LEVEL, &world.layout.moves(&all)).unwrap();
    let mut unmasked = fold.apply(&world.switch, &world.switch.split(&encrypted).unwrap()).unwrap();
    ckks::flood_assign(world.answers.params(), &mut unmasked, ANSWER_FLOOD_BITS, &mut rng);
    let slots = world.slots(&unmasked);
    let got = right(&|arm, user| slots[world.layout.slot(arm, user)].re);
    assert_eq!(got, users - 1, "the control reads every arm");
    let answers = world.exchanged(encrypted);
    let coefficients = world.coefficients(&answers, &[0]);
    let exchanged = right(&|arm, user| coefficients[world.layout.coefficient(arm, user)]);
    assert!(exchanged * 10 < users * 6, "{exchanged} of {users}");
}

/// A raiser that deviates, and is a user of the evaluation or shares what it reads with one, tests a guess at
/// a neighbour's prediction: it adds what takes the guessed one out of the range of the comparison, where an
/// entry is 2³⁰, and a prediction that is 0.02 less leaves nothing.
///
/// The control is an answer under a mask in slots, as a product with an encoded number leaves 2⁻²⁷ of what it
/// masks: the guess shows far above the noise. By the exchange the raiser's own entries are right whatever
/// the guess, and nothing else can be decrypted.
#[test]
fn attack_a_raiser_tests_a_guess_at_a_neighbours_prediction() {
    for toy in [true, false] {
        let mut neighbour = Neighbour::new(toy);
        let added = neighbour.offset_to(GUESS, 30);
        let [right, wrong] =
            [GUESS, OTHER].map(|prediction| neighbour.seen_under_a_mask(toy, prediction, added));
        assert!(right > 30.0 && wrong < 7.0, "{right:.1} for the guess, {wrong:.1} for another");
        for prediction in [GUESS, OTHER] {
            let products = neighbour.products(prediction, added);
            let world = &mut neighbour.world;
            let encrypted = world.encrypt_large(&products, PRODUCTS_LEVEL);
            let answers = world.exchanged(encrypted);
            for arm in 0..2 {
                let want = products[world.layout.product_slot(arm, 0)];
                let got = world.entry(&answers, arm, 0);
                assert!((got - want).abs() < WIDEST, "{prediction}, arm {arm}: {got} for {want}");
            }
        }
    }
}

/// χ² of counts against equal ones.
fn chi_square(counts: &[usize]) -> f64 {
    let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    counts.iter().map(|&count| (count as f64 - mean).powi(2) / mean).sum()
}

/// The noise in a thousand answers is uniform, whether a neighbour's entry is 0, 1 or 2²⁰: with 15 degrees of
/// freedom χ² exceeds 50 with a probability of 10⁻⁵. A control with a shift of an eighth of the noise, which
/// is 2⁻²⁹ of the largest entry, is told.
#[test]
fn attack_a_thousand_answers_are_the_same_whatever_a_neighbours_entry() {
    let mut world = World::new(2, 2, true);
    let (users, neighbour, width) = (world.layout.users(), 7, 1.0 / f64::from(1 << ENTRY_FLOOD_BITS));
    for (entry, shift, is_told) in
        [(0.0, 0.0, false), (1.0, 0.0, false), (20f64.exp2(), 0.0, false), (0.0, width / 8.0, true)]
    {
        let mut counts = [0; 16];
        for _ in 0..4 {
            let products = world.with_entries(&[(neighbour, entry)]);
            let encrypted = world.encrypt_large(&products, PRODUCTS_LEVEL);
            let answers = world.exchanged(encrypted);
            for user in (0..users).filter(|user| *user != neighbour).take(250) {
                let noise = world.entry(&answers, 0, user) + shift;
                counts[((noise / width + 1.0) * 8.0).clamp(0.0, 15.0) as usize] += 1;
            }
        }
        let told = chi_square(&counts);
        assert_eq!(told > 50.0, is_told, "an entry of {entry}: {told:.1}");
    }
}

/// What the holder of an exchange decrypts is uniform modulo q, whether entries are 0 or as large as they can
/// be: χ² of the highest four bits of all coefficients has 15 degrees of freedom. So are the differences to
/// the same products under another mask.
#[test]
fn attack_the_holder_of_an_exchange_sees_uniform_numbers() {
    let mut world = World::new(2, 2, true);
    let params = world.large.params().clone();
    let q = params.log_q(PRODUCTS_LEVEL).exp2();
    for entry in [0.0, 1.0, 39f64.exp2()] {
        let products: Vec<f64> = vec![entry; params.max_slots()];
        let encrypted = world.encrypt_large(&products, PRODUCTS_LEVEL);
        let mut seen = || {
            let masked = world.masked(encrypted.clone()).ciphertext;
            ckks_secret::decrypt_coefficients(&world.large, &masked)
                .with(|values| values.iter().map(|value| *value as f64 / q).collect::<Vec<f64>>())
        };
        let (one, other) = (seen(), seen());
        let differences = one.iter().zip(&other).map(|(a, b)| a - b);
        for values in [one.clone(), differences.collect()] {
            let mut counts = [0; 16];
            values.iter().for_each(|value| counts[((value + 0.5).rem_euclid(1.0) * 16.0) as usize % 16] += 1);
            let told = chi_square(&counts);
            assert!(told < 50.0, "an entry of {entry}: {told:.1}");
        }
    }
}

/// All that is left of a neighbour is whether the sum with a mask exceeds the modulus: with a probability of
/// 1.3·2³²·|entry|/q, which is a sixth for an entry of 2³⁸. Then the answers of all users are spoilt, that of
/// the raiser too, and otherwise none is.
#[test]
fn an_overflow_spoils_all_answers_or_none() {
    let mut world = World::new(2, 2, true);
    let (users, neighbour) = (world.layout.users(), 7);
    let scale = world.exchanges.answers.to().1;
    let q = world.large.params().log_q(PRODUCTS_LEVEL).exp2();
    for (entry, tries) in [(20f64.exp2(), 20), (38f64.exp2(), 60), (44f64.exp2(), 5)] {
        let products = world.with_entries(&[(neighbour, entry)]);
        let mut spoilt = 0;
        for _ in 0..tries {
            let encrypted = world.encrypt_large(&products, PRODUCTS_LEVEL);
            let answers = world.exchanged(encrypted);
            let wrong = (0..users)
                .filter(|user| user % 16 != neighbour % 16)
                .step_by(16)
                .filter(|user| world.entry(&answers, 0, *user).abs() > 2.0 * WIDEST)
                .count();
            // A spoilt entry is near 0 by chance, one in thousands.
            assert!(wrong == 0 || wrong + 2 >= users / 17, "{wrong} of {users}");
            spoilt += usize::from(wrong > 0);
        }
        let expected = 1.3 * scale * entry / q * f64::from(tries as u32);
        let deviation = expected.sqrt().max(0.3);
        let most = (expected + 4.0 * deviation).min(f64::from(tries as u32));
        let least = (expected - 4.0 * deviation).min(f64::from(tries as u32));
        let spoilt = spoilt as f64;
        assert!((least..=most).contains(&spoilt), "{spoilt} of {tries} at an entry of 2^{}", entry.log2());
    }
}

/// What the raiser takes a neighbour's prediction for, and another one.
const GUESS: f64 = 0.3;
const OTHER: f64 = 0.28;

/// A configuration with the root of width ½.
fn root(d: usize, k: usize) -> BanditConfig {
    let mut config = BanditConfig::new(d, k);
    config.linear.width = WidthShape::Root.width(0.5);
    config
}

/// A user of an evaluation whose raised score a raiser changes.
struct Neighbour {
    world: World,
    circuit: DecisionCircuit,
    levels: usize,
    user: usize,
}

impl Neighbour {
    fn new(toy: bool) -> Self {
        let world = World::new(2, 2, toy);
        // Predictions that differ by 0.02 are farther apart in a smaller range of indices.
        let (config, slots) = (root(2, 2), world.large.params().max_slots());
        let circuit =
            DecisionCircuit::new(&config, Scalars::new(&config, 31, 30), world.shape, slots).unwrap();
        let levels = DecisionLevels::new(&config, world.shape).unwrap().sum();
        let user = world.layout.users() / 3;
        Neighbour { world, circuit, levels, user }
    }

    /// The products of an evaluation where the first arm of the user has `prediction`, to which the raiser
    /// adds `added`, and all other scores are 0.
    fn products(&self, prediction: f64, added: f64) -> Vec<f64> {
        let slots = self.world.large.params().max_slots();
        let first = [0.4, prediction + added];
        let raised = self.circuit.raised(|arm, user| ((arm, user) == (0, self.user)).then_some(first));
        let alg = Clear::new(slots).unwrap();
        self.circuit.products(&alg, &alg.fresh(&raised, self.levels).unwrap()).unwrap().real()
    }

    fn place(&self) -> usize {
        self.world.layout.product_slot(0, self.user)
    }

    /// What is to be added to `prediction` for an entry of 2^`log_entry`.
    fn offset_to(&self, prediction: f64, log_entry: i32) -> f64 {
        let large = f64::from(log_entry).exp2();
        let [mut added, mut step] = [0.0, 4.0];
        while step > 1e-6 {
            if self.products(prediction, added + step)[self.place()].abs() < large {
                added += step;
            }
            step /= 2.0;
        }
        added
    }

    /// [`World::deviations`] of an answer to user 0 under a mask in slots, at a level of its own.
    fn seen_under_a_mask(&mut self, toy: bool, prediction: f64, added: f64) -> f64 {
        let products = self.products(prediction, added);
        let World { large, answers, layout, shape, rng, .. } = &mut self.world;
        let mut plan = KeyPlan::new(*shape, toy, WidthShape::default()).unwrap().answers;
        plan.params.depth = 2;
        let switch = testkit::ring_switch(large, answers, &plan, rng);
        let all: Vec<usize> = (0..layout.users()).collect();
        let fold = Fold::new(&switch, 2, &layout.moves(&all)).unwrap();
        let small = switch.small();
        let mut mask = vec![Complex64::ZERO; small.params().max_slots()];
        (0..2).for_each(|arm| mask[layout.slot(arm, 0)] = Complex64::ONE);
        let encrypted = self.world.encrypt_large(&products, 2);
        let folded = fold.apply(&switch, &switch.split(&encrypted).unwrap()).unwrap();
        let mask = small.encode_factor(&mask, folded.level()).unwrap();
        let mut answer = small.mul_plain(&folded, &mask).unwrap();
        assert_eq!(answer.level(), ANSWER_LEVEL);
        ckks::flood_assign(small.params(), &mut answer, ANSWER_FLOOD_BITS, &mut self.world.rng);
        self.world.deviations(&self.world.slots(&answer), self.user)
    }
}
