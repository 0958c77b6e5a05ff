//! The fold of the entries of an evaluation into the ring of answers, and the mask of each user, against
//! exact arithmetic and masks in the large ring.

use circuits::{Clear, Complex64, Encrypted, SlotAlgebra};
use ckks::{Ciphertext, EvaluationKeys, Evaluator, Fold, Plaintext, RingSwitch};
use ckks_secret::SecretKey;
use helba::Engine;
use helba::circuit::DecisionCircuit;
use helba::{DeepEngine, Error, Scalars};
use protocol::exchange::ANSWER_FLOOD_BITS;
use protocol::levels::{ANSWER_LEVEL, DecisionLevels, products_level};
use protocol::{AnswerLayout, BanditConfig, KeyPlan, LOG_SCORE, Shape, WidthShape};
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
    shape: Shape,
    rng: ChaCha20Rng,
}

impl World {
    fn new(d: usize, k: usize, toy: bool) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(17);
        let shape = Shape::for_problem(d, k);
        let plan = KeyPlan::new(shape, toy).unwrap();
        let ring = plan.scores;
        let (params, small) = (plan.params.validate().unwrap(), ring.params.validate().unwrap());
        let [large, scores] = [&params, &small].map(|params| SecretKey::generate(params, &mut rng));
        let [public, public_scores] = [&large, &scores].map(|key| ckks_secret::public_key(key, &mut rng));
        let (id, id_of_scores) = (public.id(&params), public_scores.id(&small));
        let switch = testkit::ring_switch(&large, &scores, &plan.answers, &mut rng);
        let layout = AnswerLayout::new(ring, shape, params.max_slots());
        let deep = DeepEngine::new(params, public, id, shape, EvaluationKeys::default()).unwrap();
        let (keys, own) = (EvaluationKeys::default(), switch.clone());
        let engine = Engine::new(deep, ring, small, public_scores, id_of_scores, keys, own).unwrap();
        let answers = scores.under(engine.answer_params());
        World { engine, switch, large, scores, answers, layout, shape, rng }
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
        let levels = DecisionLevels::new(&config, self.shape).unwrap().of_users(2);
        circuit.products(&alg, &alg.fresh(&raised, levels).unwrap()).unwrap().real()
    }

    fn encrypt(&self, products: &[f64], level: usize, rng: &mut ChaCha20Rng) -> Ciphertext {
        let slots: Vec<Complex64> = products.iter().map(|&v| v.into()).collect();
        let message = Plaintext::encode(self.large.params(), &slots, level).unwrap();
        ckks_secret::encrypt(&self.large, &message, rng).expand(&self.large)
    }

    /// As [`Self::encrypt`] for products that are too large for the integers of an encoding: a multiple of
    /// 2²⁰ is added without an encryption.
    fn encrypt_large(&mut self, products: &[f64], level: usize) -> Ciphertext {
        let params = self.large.params();
        let unit = 20f64.exp2();
        let high: Vec<f64> = products.iter().map(|v| (v / unit).round()).collect();
        let low: Vec<f64> = products.iter().zip(&high).map(|(v, high)| v - high * unit).collect();
        let mut out = self.encrypt(&low, level, &mut self.rng.clone());
        let evaluator = Evaluator::new(params.clone(), EvaluationKeys::default());
        let mut rest = Ciphertext::zero(params, level);
        let high: Vec<Complex64> = high.into_iter().map(Complex64::from).collect();
        evaluator.add_plain_assign(&mut rest, &Plaintext::encode(params, &high, level).unwrap()).unwrap();
        evaluator.mul_integer_assign(&mut rest, 1 << 20);
        evaluator.add_assign(&mut out, &rest).unwrap();
        out
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

/// In full evaluations of the circuit every user gets its own entries: those of the clear twin, those that a
/// mask in the large ring gives, and noise in all other slots. With 2 · 10⁶ slots in all, a noise of seven
/// deviations has a probability below 10⁻⁴.
#[test]
fn every_user_gets_its_own_entries() {
    for (d, k) in [(2, 2), (8, 8), (8, 16), (8, 32)] {
        let mut world = World::new(d, k, true);
        let products = world.products(d, k);
        let mut rng = world.rng.clone();
        let encrypted = world.encrypt(&products, products_level(2), &mut rng);
        let users = world.layout.users();
        let evaluated = world.engine.fold(users, encrypted.clone(), &mut rng).unwrap();
        let params = world.large.params().clone();
        let alg =
            Encrypted::new(Evaluator::new(params.clone(), EvaluationKeys::default()), params.max_slots());
        let alg = alg.unwrap();
        let lower = alg.drop_to(&encrypted, 1).unwrap();
        let bound = 7.0 * world.noise();
        for user in 0..users {
            let answer = world.engine.answer(&evaluated, &[user], &mut rng).unwrap();
            assert_eq!((answer.level(), answer.c0().n()), (0, world.engine.answer_params().n()));
            let mut slots = world.slots(&answer);
            let mut mask = vec![Complex64::ZERO; params.max_slots()];
            (0..k).for_each(|arm| mask[world.layout.product_slot(arm, user)] = Complex64::ONE);
            let old = alg.mul_plain(&lower, &mask).unwrap();
            let old = ckks_secret::decrypt(&world.large, &old, params.max_slots()).with(|slots| {
                (0..k).map(|arm| slots[world.layout.product_slot(arm, user)]).collect::<Vec<_>>()
            });
            for arm in 0..k {
                let got = std::mem::take(&mut slots[world.layout.slot(arm, user)]);
                let want = products[world.layout.product_slot(arm, user)];
                assert!((got - want).norm() < bound, "{d} {k}, user {user}, arm {arm}: {got} for {want}");
                assert!((old[arm] - want).norm() < 1e-4, "{d} {k}, user {user}: {} for {want}", old[arm]);
            }
            // The padding of the arms has slots of its own.
            (k..world.shape.arm_slots).for_each(|arm| slots[world.layout.slot(arm, user)] = Complex64::ZERO);
            assert!(slots.iter().all(|slot| slot.norm() < bound), "{d} {k}, user {user}");
        }
        assert!(matches!(world.engine.answer(&evaluated, &[users], &mut rng), Err(Error::Broken(_))));
    }
}

/// A user alone gets its entries one level earlier, under no mask, and nobody else is answered from there.
#[test]
fn a_user_alone_gets_its_entries_without_a_mask() {
    let mut world = World::new(8, 8, true);
    let products = world.products(8, 8);
    let mut rng = world.rng.clone();
    let encrypted = world.encrypt(&products, products_level(1), &mut rng);
    let evaluated = world.engine.fold(1, encrypted, &mut rng).unwrap();
    let answer = world.engine.answer(&evaluated, &[0], &mut rng).unwrap();
    let mut slots = world.slots(&answer);
    let bound = 7.0 * world.noise();
    for arm in 0..8 {
        let got = std::mem::take(&mut slots[world.layout.slot(arm, 0)]);
        assert!((got - products[world.layout.product_slot(arm, 0)]).norm() < bound);
    }
    assert!(slots.iter().all(|slot| slot.norm() < bound), "the entries of others are left out");
    assert!(matches!(world.engine.answer(&evaluated, &[1], &mut rng), Err(Error::Broken(_))));
    // Products at the level of another number of users are refused.
    for (users, level) in [(1, 2), (2, 1), (2, 3), (1, 0)] {
        let encrypted = world.encrypt(&products, level, &mut rng);
        let refused = world.engine.fold(users, encrypted, &mut rng).map(drop);
        assert!(matches!(refused, Err(Error::WrongLevel { got, .. }) if got == level), "{users}, {level}");
    }
}

/// Neighbours' entries change an answer by less than 2⁻²⁰ of them, on ciphertexts of the toy and of the ring
/// in use: the same encryptions with the entries of neighbours 64 larger, and with the same noise. The noise
/// of an entry has the deviation that the protocol states.
#[test]
fn a_mask_leaves_nothing_of_a_neighbour() {
    for (toy, noise) in [(true, 0.0045), (false, 0.009)] {
        let world = World::new(2, 2, toy);
        assert!((world.noise() / noise - 1.0).abs() < 0.02, "{}", world.noise());
        let users = world.layout.users();
        let (user, neighbours) = (users / 3, [0, users / 3 - 1, users / 3 + 1, users - 1]);
        let answer = |more: f64| {
            let mut rng = world.rng.clone();
            let mut products = vec![0.0; world.large.params().max_slots()];
            products[world.layout.product_slot(0, user)] = 1.0;
            for neighbour in neighbours {
                (0..2).for_each(|arm| products[world.layout.product_slot(arm, neighbour)] += more);
            }
            let encrypted = world.encrypt(&products, products_level(2), &mut rng);
            let evaluated = world.engine.fold(users, encrypted, &mut rng).unwrap();
            world.slots(&world.engine.answer(&evaluated, &[user], &mut rng).unwrap())
        };
        let (without, with) = (answer(0.0), answer(64.0));
        let worst = without.iter().zip(&with).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
        assert!(worst / 64.0 < (-20f64).exp2(), "{:.1} bits", -(worst / 64.0).log2());
        assert!(worst > 0.0, "roundings at least");
        let variance = without.iter().map(|slot| slot.im * slot.im).sum::<f64>() / without.len() as f64;
        // A twentieth is three deviations of it for 1024 slots, and six for 4096.
        assert!((variance.sqrt() / world.noise() - 1.0).abs() < 0.05, "{}", variance.sqrt());
    }
}

/// Answers of two evaluations of the same products have no c₁ in common: what they were computed from is
/// behind an encryption of zero, which is drawn for each evaluation.
#[test]
fn attack_answers_do_not_show_what_they_were_computed_from() {
    let mut world = World::new(2, 2, true);
    let products = world.products(2, 2);
    for users in [1, world.layout.users()] {
        let encrypted = world.encrypt(&products, products_level(users), &mut world.rng.clone());
        let answers = [(); 2].map(|()| {
            let evaluated = world.engine.fold(users, encrypted.clone(), &mut world.rng).unwrap();
            world.engine.answer(&evaluated, &[0], &mut world.rng).unwrap()
        });
        assert!(answers[0].c1() != answers[1].c1(), "{users} users");
    }
}

/// An answer of open scores has uniform noise of ± 2⁻¹⁴ of their scale in every coefficient. The scores are 0
/// here, so that the noise is all there is: its mean square is a third of the square of its width, within
/// five deviations of √(4/5n).
#[test]
fn attack_open_scores_are_under_noise() {
    let mut world = World::new(2, 2, true);
    let params = world.engine.params().clone();
    let scores = Ciphertext::zero(&params, params.max_level()).with_scale(f64::from(LOG_SCORE).exp2());
    let answer = world.engine.open_answer(scores, &mut world.rng);
    let width = f64::from(LOG_SCORE - 14).exp2();
    let noise: Vec<f64> = ckks_secret::decrypt_coefficients(&world.scores, &answer)
        .with(|values| values.iter().map(|value| *value as f64 / width).collect());
    assert!(noise.iter().all(|noise| noise.abs() <= 1.0));
    let n = noise.len() as f64;
    let square = noise.iter().map(|noise| noise * noise).sum::<f64>() / n;
    assert!((square * 3.0 - 1.0).abs() < 5.0 * (4.0 / (5.0 * n)).sqrt(), "{square}");
}

/// Without the masks an answer holds the arms of all neighbours. With them, guesses at 511 arms of two from
/// an answer are right no more often than by chance: 60 % have a probability of 4 · 10⁻⁶.
#[test]
fn attack_a_neighbours_arm_is_not_in_an_answer() {
    let world = World::new(2, 2, true);
    let mut rng = world.rng.clone();
    let users = world.layout.users();
    let arms: Vec<usize> = (0..users).map(|_| rng.random_range(0..2)).collect();
    let mut products = vec![0.0; world.large.params().max_slots()];
    for (user, arm) in arms.iter().enumerate() {
        products[world.layout.product_slot(*arm, user)] = 1.0;
    }
    let encrypted = world.encrypt(&products, products_level(2), &mut rng);
    let right = |answer: &Ciphertext| {
        let slots = world.slots(answer);
        let entry = |arm: usize, user: usize| slots[world.layout.slot(arm, user)].re;
        (1..users).filter(|&user| usize::from(entry(1, user) > entry(0, user)) == arms[user]).count()
    };
    let fold = Fold::new(&world.switch, products_level(2), &world.layout.moves(users)).unwrap();
    let mut unmasked = fold.apply(&world.switch, &world.switch.split(&encrypted).unwrap()).unwrap();
    ckks::flood_assign(world.answers.params(), &mut unmasked, ANSWER_FLOOD_BITS, &mut rng);
    assert_eq!(right(&unmasked), users - 1, "the control reads every arm");
    let evaluated = world.engine.fold(users, encrypted, &mut rng).unwrap();
    let masked = right(&world.engine.answer(&evaluated, &[0], &mut rng).unwrap());
    assert!(masked * 10 < users * 6, "{masked} of {users}");
}

/// A raiser that deviates, and is a user of the evaluation or shares what it reads with one, tests a guess at
/// a neighbour's prediction: it adds what takes the guessed one out of the range of the comparison, where an
/// entry is 2³⁰. The mask leaves 2⁻²⁷ of it, far above the noise, in the answers of all others. A prediction
/// that is 0.02 less leaves nothing. The control is a raiser that adds nothing.
#[test]
fn attack_a_raiser_tests_a_guess_at_a_neighbours_prediction() {
    for toy in [true, false] {
        let mut neighbour = Neighbour::new(toy);
        let added = neighbour.offset_to(GUESS, 30);
        let mut seen = |prediction: f64, added: f64| {
            let products = neighbour.products(prediction, added);
            let Neighbour { world, user, .. } = &mut neighbour;
            let users = world.layout.users();
            let encrypted = world.encrypt(&products, products_level(2), &mut world.rng.clone());
            let evaluated = world.engine.fold(users, encrypted, &mut world.rng).unwrap();
            let answer = world.engine.answer(&evaluated, &[0], &mut world.rng).unwrap();
            world.deviations(&world.slots(&answer), *user)
        };
        let [right, wrong] = [GUESS, OTHER].map(|prediction| seen(prediction, added));
        assert!(right > 30.0 && wrong < 7.0, "{right:.1} for the guess, {wrong:.1} for another");
        let [right, wrong] = [GUESS, OTHER].map(|prediction| seen(prediction, 0.0));
        assert!(right < 7.0 && wrong < 7.0, "{right:.1} and {wrong:.1} where nothing is added");
    }
}

/// A second mask is no remedy: the raiser adds a little more. Under two masks an entry of 2³⁰ leaves nothing,
/// and one of 2⁵⁷ what 2³⁰ leaves under one. A further mask takes a further level, whose prime lets an entry
/// be larger by as much as the mask is scaled, before anything exceeds the modulus.
#[test]
fn attack_a_second_mask_moves_what_a_raiser_adds() {
    for toy in [true, false] {
        let mut neighbour = Neighbour::new(toy);
        for (masks, log_entry, is_seen) in [(1, 30, true), (2, 30, false), (2, 57, true)] {
            let added = neighbour.offset_to(GUESS, log_entry);
            let [right, wrong] =
                [GUESS, OTHER].map(|prediction| neighbour.seen_under(masks, toy, prediction, added));
            let what = format!("{masks} masks, an entry of 2^{log_entry}: {right:.1} and {wrong:.1}");
            assert!((right > 30.0) == is_seen && (right < 7.0) != is_seen && wrong < 7.0, "{what}");
        }
    }
    // With 8 and with 64 arms an evaluation with a root takes the last level of its parameters already.
    for arms in [8, 64] {
        let shape = Shape::for_problem(8, arms);
        let levels = DecisionLevels::new(&root(8, arms), shape).unwrap();
        assert_eq!(levels.of_users(2), KeyPlan::new(shape, false).unwrap().params.depth);
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
        let levels = DecisionLevels::new(&config, world.shape).unwrap().of_users(2);
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

    /// [`World::deviations`] of an answer to user 0 under this many masks, each at a level of its own.
    fn seen_under(&mut self, masks: usize, toy: bool, prediction: f64, added: f64) -> f64 {
        let products = self.products(prediction, added);
        let World { large, answers, layout, shape, rng, .. } = &mut self.world;
        let mut plan = KeyPlan::new(*shape, toy).unwrap().answers;
        plan.params.depth = 1 + masks;
        let switch = testkit::ring_switch(large, answers, &plan, rng);
        let fold = Fold::new(&switch, 1 + masks, &layout.moves(layout.users())).unwrap();
        let mask = layout.mask();
        let encrypted = self.world.encrypt_large(&products, 1 + masks);
        let small = switch.small();
        let mut answer = fold.apply(&switch, &switch.split(&encrypted).unwrap()).unwrap();
        while answer.level() > ANSWER_LEVEL {
            let mask = small.encode_factor(&mask, answer.level()).unwrap();
            answer = small.mul_plain(&answer, &mask).unwrap();
        }
        ckks::flood_assign(small.params(), &mut answer, ANSWER_FLOOD_BITS, &mut self.world.rng);
        self.world.deviations(&self.world.slots(&answer), self.user)
    }
}
