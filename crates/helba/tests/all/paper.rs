//! The paper's method: the circuits in the clear equal the formulas of `bandit`, and rounds on ciphertexts
//! play the arms of the clear twin.

use bandit::{Arithmetic, Features, HelbaClear, LinearConfig, Policy, Schedule, Width};
use circuits::paper::{Raises, compositions_of_comparison};
use ckks::{Ciphertext, GaloisElement, KeyStorage};
use helba::paper::{Holder, HolderAnswer, HolderTask, PaperBandit, PaperEngine, PaperTwin};
use num_complex::Complex64;
use protocol::DecisionId;
use protocol::paper::{
    PAPER_ANSWER_LEVEL, PAPER_BLOCK, PAPER_OPEN_LEVEL, PAPER_RAISE_LEVEL, PAPER_SIDE, PAPER_SLOTS,
    PAPER_TRACE_FLOOD_BITS, PaperPlan, check_paper, paper_contexts, paper_feedback,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use testkit::Party;

/// The toy problem of the paper with rewards divided by R = L S + 4 sigma, so that they are within ± 1.
fn config() -> LinearConfig {
    let c = LinearConfig::figure_1();
    let bound = c.l * c.s + 4.0 * c.sigma;
    LinearConfig { s: c.s / bound, sigma: c.sigma / bound, ..c }
}

/// Contexts whose rows have norms from L/4 to L.
fn contexts(config: &LinearConfig, rng: &mut ChaCha20Rng) -> Vec<Vec<f64>> {
    let row = |rng: &mut ChaCha20Rng| {
        let angle = rng.random_range(0.0..std::f64::consts::TAU);
        let norm = rng.random_range(0.25 * config.l..config.l);
        vec![norm * angle.cos(), norm * angle.sin()]
    };
    (0..config.k).map(|_| row(rng)).collect()
}

fn features(rows: &[Vec<f64>]) -> Features {
    Features::new(rows.concat(), PAPER_SIDE).unwrap()
}

fn best(entries: &[f64]) -> usize {
    usize::from(entries[1] > entries[0])
}

/// Entries, models and batches of the twin are those of the formulas, in 60 rounds.
#[test]
fn the_twin_computes_the_papers_formulas() {
    let config = config();
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let mut twin = PaperTwin::new(config, 17).unwrap();
    let mut formulas = HelbaClear::new(config, Arithmetic::Paper).unwrap();
    for round in 0..60 {
        let rows = contexts(&config, &mut rng);
        let features = features(&rows);
        let entries = twin.decide(&rows).unwrap();
        for (got, want) in entries.iter().zip(formulas.action(&features).unwrap()) {
            assert!((got - want).abs() < 1e-6, "round {round}: {got} {want}");
        }
        assert_eq!(twin.state().batches(), formulas.ridge().updates(), "round {round}");
        if let Some((inverse, omega)) = twin.model() {
            let want = formulas.ridge().inverse().iter().chain(formulas.ridge().omega());
            for (got, want) in inverse.iter().chain(&omega).zip(want) {
                assert!((got - want).abs() < 1e-9, "round {round}: {got} {want}");
            }
        }
        let (arm, reward) = (best(&entries), rng.random_range(-1.0..1.0));
        twin.learn(&rows[arm], reward).unwrap();
        formulas.learn(&features, arm, &reward, &mut rng).unwrap();
    }
    // Growth by a tenth ends a batch in each of the first ten rounds.
    assert!(
        twin.state().batches() > 10 && twin.raises() > 60,
        "{} {}",
        twin.state().batches(),
        twin.raises()
    );
}

/// A batch ends by growth, or where NewComp of its exact trace is at least 0.45. With eta = 2 most batches
/// end by the trace.
#[test]
fn the_trace_ends_batches() {
    let config = LinearConfig { eta: 2.0, c: 3.0, ..config() };
    let LinearConfig { l, lambda, c, .. } = config;
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let mut twin = PaperTwin::new(config, 17).unwrap();
    let (mut by_trace, mut trace) = (0, 0.0);
    for _ in 0..80 {
        let rows = contexts(&config, &mut rng);
        let (batches, t, t_j) =
            (twin.state().batches(), twin.state().feedbacks() + 1, twin.state().model_feedbacks());
        let arm = best(&twin.decide(&rows).unwrap());
        let bound = l * l * (1.0 / lambda + 1.0 / lambda.sqrt()) * (t - 1 - t_j) as f64;
        let depth = compositions_of_comparison((4.0 * t as f64 * bound).recip().min(0.2)).unwrap();
        let reached = bound > 0.0 && bandit::paper::compare(trace / bound, c / bound, depth as u32) >= 0.45;
        let grown = t > 1 + t_j && config.batch_ends_publicly(t - 1, t_j.max(1));
        let ended = twin.state().batches() > batches;
        assert_eq!(ended, grown || reached, "t = {t}");
        by_trace += usize::from(ended && !grown);
        if ended {
            trace = 0.0;
        }
        let inverse = twin.model().map_or(vec![1.0 / lambda, 0.0, 0.0, 1.0 / lambda], |model| model.0);
        let x = &rows[arm];
        trace += (0..4).map(|s| x[s / 2] * inverse[s] * x[s % 2]).sum::<f64>();
        twin.learn(x, 0.5).unwrap();
    }
    assert!(by_trace > 2, "{by_trace}");
}

/// The plan has the rotations that the circuits make, and no other.
#[test]
fn each_rotation_has_a_key() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let mut twin = PaperTwin::new(LinearConfig { eta: 2.0, c: 3.0, ..config() }, 17).unwrap();
    for _ in 0..20 {
        let rows = contexts(&config(), &mut rng);
        let arm = best(&twin.decide(&rows).unwrap());
        twin.learn(&rows[arm], 0.1).unwrap();
    }
    let made: Vec<i64> = twin.algebra().rotation_levels().into_keys().collect();
    assert_eq!(made, PaperPlan::new(false).rotations);
    assert_eq!(made, PaperPlan::new(true).rotations);
    assert_eq!(PaperPlan::with_set(&ckks::TOY_LOGN12_DEPTH21), Some(PaperPlan::new(true)));
    assert_eq!(PaperPlan::with_set(&ckks::TOY_LOGN14_DEPTH22), None);
}

/// All parties, with toy keys.
struct World {
    party: Party,
    engine: PaperEngine,
    config: LinearConfig,
}

impl World {
    fn new(config: LinearConfig) -> Self {
        let plan = PaperPlan::new(true);
        let params = plan.params.validate().unwrap();
        let top = params.max_level();
        let galois = plan.rotations.iter().map(|&k| GaloisElement::rotation(&params, k));
        let party = Party::generate(&params, top, galois.map(|g| (g, top, KeyStorage::Expanded)), 8);
        let key_id = party.key_id();
        let engine = PaperEngine::new(params, party.public.clone(), key_id, party.keys.clone()).unwrap();
        World { party, engine, config }
    }

    fn encrypt(&mut self, slots: [Vec<Complex64>; 2]) -> [Ciphertext; 2] {
        let top = self.party.params.max_level();
        slots.map(|slots| self.party.encrypt(&slots, top))
    }

    fn answer(&self, task: HolderTask, masked: &Ciphertext, rng: &mut ChaCha20Rng) -> HolderAnswer {
        let (secret, params) = (&self.party.secret, &self.party.params);
        let (refresh, opening) = (PaperPlan::refresh(params).unwrap(), PaperPlan::opening(params).unwrap());
        match task {
            HolderTask::Raise => {
                let masked = std::slice::from_ref(masked);
                let raised = ckks_secret::exchange(&refresh, secret, secret, masked, &[1.0], rng).unwrap();
                HolderAnswer::Raised(raised.into_iter().next().unwrap().expand(secret))
            }
            HolderTask::Open => {
                let bits = PAPER_TRACE_FLOOD_BITS;
                HolderAnswer::Opened(
                    ckks_secret::flooded_constant(&opening, secret, masked, bits, rng).unwrap(),
                )
            }
        }
    }

    fn decide(&mut self, bandit: &mut PaperBandit, rows: &[Vec<f64>]) -> (DecisionId, u64, Vec<f64>) {
        let [left, right] = self.encrypt(paper_contexts(&self.config, rows).unwrap());
        let mut rng = ChaCha20Rng::from_rng(&mut self.party.rng);
        let mut of_holder = ChaCha20Rng::from_rng(&mut rng);
        let send = |task, masked: Ciphertext| Ok(self.answer(task, &masked, &mut of_holder));
        let decision = bandit.decide(&self.engine, [&left, &right], send, rng).unwrap();
        assert_eq!(decision.action.level(), PAPER_ANSWER_LEVEL);
        let entries = ckks_secret::decrypt(&self.party.secret, &decision.action, PAPER_SLOTS)
            .with(|slots| (0..PAPER_SIDE).map(|a| slots[a * PAPER_BLOCK].re).collect::<Vec<f64>>());
        (decision.id, decision.raises, entries)
    }
}

/// Rounds on ciphertexts play the arms of the twin, with as many raises, and go on after the bandit was
/// stored. With eta = 2 the trace is opened in most rounds.
#[test]
fn encrypted_rounds_play_the_twins_arms() {
    for (eta, rounds) in [(0.1, 3), (2.0, 4)] {
        let mut world = World::new(LinearConfig { eta, c: 3.0, ..config() });
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        let mut twin = PaperTwin::new(world.config, world.party.params.max_level()).unwrap();
        let mut bandit = PaperBandit::new(world.config).unwrap();
        let mut raises = 0;
        for round in 0..rounds {
            let rows = contexts(&world.config, &mut rng);
            let (id, of_round, entries) = world.decide(&mut bandit, &rows);
            let want = twin.decide(&rows).unwrap();
            for (got, want) in entries.iter().zip(&want) {
                // With five deviations of the noise of an answer, 2⁻¹²/√3 in each of 32 coefficients.
                assert!((got - want).abs() < 4e-3, "round {round}: {entries:?} {want:?}");
            }
            assert_eq!(best(&entries), best(&want));
            raises += of_round;
            assert_eq!((raises, bandit.raises()), (twin.raises(), twin.raises()), "round {round}");
            let (arm, reward) = (best(&want), rng.random_range(-1.0..1.0));
            let [left, right] = world.encrypt(paper_feedback(&world.config, &rows[arm], reward).unwrap());
            let vectors = [&left, &right];
            assert!(bandit.learn(&world.engine, DecisionId([7; 16]), vectors).is_err());
            let receipt = bandit.learn(&world.engine, id, vectors).unwrap();
            assert_eq!(receipt, bandit.learn(&world.engine, id, vectors).unwrap(), "counts once");
            assert_eq!(receipt.feedbacks, round + 1);
            twin.learn(&rows[arm], reward).unwrap();
            bandit =
                PaperBandit::from_bytes(&world.engine, &bandit.to_bytes(&world.engine).unwrap()).unwrap();
        }
        assert_eq!(bandit.state().batches(), twin.state().batches());
    }
}

/// An exchange that fails leaves the bandit as it was.
#[test]
fn a_round_without_a_holder_changes_nothing() {
    let mut world = World::new(config());
    let mut bandit = PaperBandit::new(world.config).unwrap();
    let rows = contexts(&world.config, &mut ChaCha20Rng::seed_from_u64(9));
    let [left, right] = world.encrypt(paper_contexts(&world.config, &rows).unwrap());
    let silent = |_, _| Err("no holder");
    let rng = ChaCha20Rng::seed_from_u64(1);
    assert!(bandit.decide(&world.engine, [&left, &right], silent, rng.clone()).is_err());
    let wrong = |_, _| Ok(HolderAnswer::Opened(1));
    assert!(bandit.decide(&world.engine, [&left, &right], wrong, rng).is_err());
    assert!(bandit.rounds() == 0 && !bandit.is_open() && bandit.raises() == 0);
}

/// What the holder decrypts of a task is uniform, whether the values are 0 or as large as they can be: with
/// 15 degrees of freedom χ² exceeds 50 with a probability of 10⁻⁵. Without the mask it is told.
#[test]
fn attack_a_holder_sees_uniform_numbers() {
    let mut world = World::new(config());
    let params = world.party.params.clone();
    let mut rng = ChaCha20Rng::seed_from_u64(10);
    for (task, level) in [(HolderTask::Raise, PAPER_RAISE_LEVEL), (HolderTask::Open, PAPER_OPEN_LEVEL)] {
        let log_q = params.log_q(level);
        let mut counts_of = |value: f64, masked: bool| {
            let mut counts = [0usize; 16];
            let vector = world.party.encrypt(&[value.into(); PAPER_SLOTS], level);
            let sent = if masked { world.engine.mask(task, &vector, &mut rng).unwrap().0 } else { vector };
            assert_eq!(sent.level(), level);
            ckks_secret::decrypt_coefficients(&world.party.secret, &sent).with(|all| {
                for c in all.iter() {
                    let part = (*c as f64 / log_q.exp2() + 0.5) * 16.0;
                    counts[part.clamp(0.0, 15.0) as usize] += 1;
                }
            });
            let mean = params.n() as f64 / 16.0;
            counts.iter().map(|&count| (count as f64 - mean).powi(2) / mean).sum::<f64>()
        };
        for value in [0.0, 1.0, -30.0] {
            let (told, control) = (counts_of(value, true), counts_of(value, false));
            assert!(told < 50.0 && control > 1e4, "{task:?}, {value}: {told:.1}, {control:.1}");
        }
    }
}

/// A raise returns the values, and an opening the value within its noise, at the ends of what vectors hold.
#[test]
fn exchanges_return_the_values() {
    let mut world = World::new(config());
    let params = world.party.params.clone();
    for value in [0.0, 0.45, -1.0, 30.0] {
        for level in [PAPER_RAISE_LEVEL, PAPER_RAISE_LEVEL + 3] {
            let vector = world.party.encrypt(&[value.into(); PAPER_SLOTS], level);
            let mut of_holder = ChaCha20Rng::seed_from_u64(12);
            let send = |task, masked: Ciphertext| Ok(world.answer(task, &masked, &mut of_holder));
            let mut exchange = world.engine.exchange(send, ChaCha20Rng::seed_from_u64(11));
            let raised = exchange.raise(world.engine.algebra(), &vector).unwrap();
            assert_eq!((raised.level(), exchange.raises()), (params.max_level(), 1));
            let opened = exchange.open(world.engine.algebra(), &vector).unwrap();
            assert!((opened - value).abs() < 1.0 / 60.0, "{opened} {value}");
            assert!((opened - value).abs() > 1e-9, "the answer has noise");
            let error = ckks_secret::decrypt(&world.party.secret, &raised, PAPER_SLOTS)
                .with(|slots| slots.iter().map(|slot| (slot - value).norm()).fold(0.0, f64::max));
            assert!(error < 1e-5, "{value}: {error}");
        }
    }
    // A vector below the level of raises is refused, and so is a masked one at another level.
    let low = world.party.encrypt(&[Complex64::ZERO; PAPER_SLOTS], PAPER_RAISE_LEVEL - 1);
    assert!(world.engine.mask(HolderTask::Raise, &low, &mut ChaCha20Rng::seed_from_u64(1)).is_err());
    let (refresh, opening) = (PaperPlan::refresh(&params).unwrap(), PaperPlan::opening(&params).unwrap());
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let high = world.party.encrypt(&[Complex64::ZERO; PAPER_SLOTS], PAPER_RAISE_LEVEL + 1);
    let secret = &world.party.secret;
    for wrong in [&low, &high] {
        assert!(
            ckks_secret::exchange(&refresh, secret, secret, std::slice::from_ref(wrong), &[1.0], &mut rng)
                .is_err()
        );
    }
    assert!(ckks_secret::flooded_constant(&opening, secret, &high, 6, &mut rng).is_err());
}

/// Other problems, widths and schedules are refused by name.
#[test]
fn other_problems_are_refused() {
    for (change, named) in [
        (LinearConfig { d: 3, ..config() }, "features"),
        (LinearConfig { k: 4, ..config() }, "arms"),
        (LinearConfig { width: Width::Constant { alpha: 1.0 }, ..config() }, "width"),
        (LinearConfig { schedule: Schedule::Growth, ..config() }, "schedule"),
    ] {
        let refused = check_paper(&change).unwrap_err().to_string();
        assert!(refused.starts_with(named) && refused.contains("paper"), "{refused}");
        assert!(PaperBandit::new(change).is_err());
    }
}
