//! Whole decisions in stages on ciphertexts, against the twin; and what the holder of the key sees of them.

use bandit::Width;
use ckks::{Ciphertext, Evaluator, KeyId, Packer, Params, Plaintext, RingKeys, Term};
use ckks_secret::SecretKey;
use helba::{Error, Scalars, StageReply, StagedEngine, staged_factors};
use protocol::staged::{StagedExchanges, StagedLayout};
use protocol::{
    BanditConfig, Exchanging, LOG_CONTEXT, LOG_MODEL, LOG_SCORE, Rings, ScoreLayout, ScoreRing, Shape,
    Updates,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use testkit::{ClearTwin, Party, ScoresParty};

/// All parties of a bandit.
struct World {
    config: BanditConfig,
    layout: ScoreLayout,
    engine: StagedEngine,
    /// That of the ring of scores.
    evaluator: Evaluator,
    scores: SecretKey,
    stages: SecretKey,
    answers: SecretKey,
    id: KeyId,
    rng: ChaCha20Rng,
}

/// What the holder of the key is sent in a step, by groups, with the keys that it is encrypted under.
type Seen<'a> = dyn FnMut(usize, &SecretKey, &[Ciphertext]) + 'a;

impl World {
    fn new(d: usize, k: usize, users: usize) -> Self {
        // With 33 features and more, the matrices of updates take 2¹³ coefficients.
        let (scores, stages) = match d > 32 {
            true => (ckks::LOGN13_LOGQP147_SCORES, ckks::LOGN14_LOGQP409_DEPTH11),
            false => (ckks::TOY_LOGN11_SCORES, ckks::TOY_LOGN12_DEPTH11),
        };
        let mut config = BanditConfig::new(d, k);
        config.linear.width = Width::Tangent { alpha: 0.5, floor: 1.0 / 64.0 };
        let params = [scores, stages].map(|spec| spec.validate().unwrap());
        let ring = ScoreRing::with_stages(scores, Shape::for_problem(d, k));
        let layout = StagedLayout::new(&config, users, ring, params[1].max_slots()).unwrap();
        config.exchanges = Some(Exchanging::Staged);
        let [updates, decisions] = [(); 2].map(|()| params[1].clone());
        let (by, exchanges) = (Updates::Products, Exchanging::Staged);
        let rings = Rings { updates, decisions, by, exchanges, keys: Default::default() };
        let mut plan = config.plan(rings, Shape::for_problem(d, k), ring).unwrap();
        // Fewer users than there is room for: those of lifted contexts are then further apart.
        plan.users = if layout.is_lifted() { 4 * users.next_power_of_two() } else { users };
        let all = ScoreLayout::new(&config, &plan, ring);
        let layout = all.staged().unwrap().for_users(users);
        let answers = ring.answers(&stages).validate().unwrap();
        let exchanges = StagedExchanges::new(layout, &params[0], &params[1], &answers).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(31);
        let of_scores = ScoresParty::generate(ring, &mut rng).unwrap();
        // No Galois key but those of packs.
        let of_stages = Party::generate(&params[1], params[1].max_level(), [], 32);
        let id = of_scores.public.id(&params[0]);
        let evaluator = Evaluator::new(params[0].clone(), of_scores.keys);
        let keys = RingKeys { evaluator: evaluator.clone(), public_key: of_scores.public, key_id: id };
        let engine = StagedEngine::new(exchanges, of_stages.ring_keys(), keys).unwrap();
        let answers = of_scores.secret.under(&answers);
        let (layout, scores, stages) = (all, of_scores.secret, of_stages.secret);
        World { config, layout, engine, evaluator, scores, stages, answers, id, rng }
    }

    fn layout(&self) -> &StagedLayout {
        self.engine.layout()
    }

    /// The number of the last step.
    fn last(&self) -> usize {
        (0..).find(|step| self.engine.step(step + 1).is_err()).unwrap()
    }

    /// An encryption in the ring of scores.
    fn encrypt(&mut self, coefficients: &[i64], log_scale: u32) -> Ciphertext {
        let params: &Params = self.scores.params();
        let scale = f64::from(log_scale).exp2();
        let message = Plaintext::from_integers(params, coefficients, params.max_level(), scale).unwrap();
        ckks_secret::encrypt(&self.scores, &message, &mut self.rng).expand(&self.scores)
    }

    fn contexts(&mut self, rows: &[Vec<f64>]) -> Vec<Ciphertext> {
        let parts = self.layout.all_contexts(&[rows]).unwrap();
        parts.iter().map(|part| self.encrypt(part, LOG_CONTEXT)).collect()
    }

    fn model(&mut self, twin: &ClearTwin) -> Vec<Ciphertext> {
        let (a, omega) = twin.model();
        let (d, n) = (self.config.linear.d, self.scores.params().n());
        let dim = d.next_power_of_two().max(2);
        let mut all = vec![0; n * self.layout.model_parts()];
        for Term { slot, coefficient, factor } in self.layout.model() {
            let (i, j) = (slot / dim, slot % dim);
            let entry = if i == dim { omega[j] } else { a[(i, j)] };
            all[coefficient] += (factor * entry * f64::from(LOG_MODEL).exp2()).round() as i64;
        }
        let parts: Vec<Vec<i64>> = all.chunks(n).map(<[i64]>::to_vec).collect();
        let parts = parts.iter().map(|part| self.encrypt(part, LOG_MODEL)).collect();
        self.engine.model(parts)
    }

    /// The entries of each user, and what the holder of the key saw.
    fn decide(
        &mut self,
        factors: [f64; 3],
        users: &[Vec<Ciphertext>],
        model: &[Ciphertext],
        seen: &mut Seen,
    ) -> Vec<Vec<f64>> {
        let mut rng = self.rng.clone();
        let mut numbers: Vec<usize> = (0..users.len()).collect();
        let begun = if self.layout().is_lifted() {
            let scale = f64::from(LOG_SCORE).exp2();
            let level = self.scores.params().max_level();
            let mut packer = Packer::new(&self.evaluator, self.layout().gap(), level, scale).unwrap();
            let push = |user: &Vec<Ciphertext>| {
                let product = self.evaluator.mul_undivided(&user[0], &model[0]).unwrap();
                self.layout.user_at(packer.push(product).unwrap())
            };
            numbers = users.iter().map(push).collect();
            self.engine.begin_scores(factors, packer.finish().unwrap(), &mut rng)
        } else {
            self.engine.begin(factors, users, model, &mut rng)
        };
        let (mut evaluation, mut sent) = begun.unwrap();
        loop {
            let (step, factors) = evaluation.asks();
            let (from, groups) =
                (if step == 0 { &self.scores } else { &self.stages }, self.engine.step(step).unwrap());
            let last = step == self.last();
            let to = if last { &self.answers } else { &self.stages };
            let mut fresh = Vec::new();
            for (group, masked) in groups.iter().zip(&sent) {
                seen(step, from, masked);
                for exchange in group {
                    fresh
                        .push(ckks_secret::exchange(exchange, from, to, masked, &factors, &mut rng).unwrap());
                }
            }
            let masks = self.engine.encode_masks(&evaluation).unwrap();
            if last {
                let frame = fresh[0][0].to_bytes(to, self.id);
                let StageReply::Answers(answers) = self.engine.read(step, &[frame]).unwrap() else {
                    panic!("answers at the last step")
                };
                let answers = self.engine.answers(&evaluation, answers, &masks).unwrap();
                return numbers.into_iter().map(|user| self.entries(&answers, user, &mut rng)).collect();
            }
            let fresh =
                fresh.into_iter().map(|all| all.into_iter().map(|ct| ct.expand(to)).collect()).collect();
            sent = self.engine.next(&mut evaluation, fresh, &masks, &mut rng).unwrap();
        }
    }

    /// What a user reads.
    fn entries(&self, answers: &ckks::SeededCoefficients, user: usize, rng: &mut ChaCha20Rng) -> Vec<f64> {
        let frame = self.engine.answer(answers, &[user], rng).unwrap();
        let places = self.layout().answer_coefficients(user);
        let to = self.engine.step(self.last()).unwrap()[0][0].to();
        let named = places.iter().copied();
        let ct =
            ckks::read_partial_ciphertext(&to.params, self.id, to.level, to.scale, named, &frame).unwrap();
        ckks_secret::decrypt_coefficients(&self.answers, &ct)
            .with(|all| places.iter().map(|place| all[*place] as f64 / to.scale).collect())
    }

    fn rows(&self, seed: usize) -> Vec<Vec<f64>> {
        (0..self.config.linear.k).map(|arm| context(self.config.linear.d, 1000 * seed + 31 * arm)).collect()
    }
}

/// A vector of norm 1.
fn unit(x: Vec<f64>) -> Vec<f64> {
    let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
    x.iter().map(|v| v / norm).collect()
}

/// What rewards are the product of a context with.
fn theta(d: usize) -> Vec<f64> {
    unit((0..d).map(|i| ((5 * i * i + 2) as f64).cos()).collect())
}

/// A context of norm 1, more or less along [`theta`].
fn context(d: usize, seed: usize) -> Vec<f64> {
    let other = unit((0..d).map(|i| ((7 * seed + 3 * i * i + 1) as f64).sin()).collect());
    let along = 2.0 * ((11 * seed + 3) as f64).sin();
    unit(other.iter().zip(theta(d)).map(|(x, t)| x + along * t).collect())
}

fn largest(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, arm| if values[arm] > values[best] { arm } else { best })
}

/// The users of an evaluation with one place left empty play arms whose indices are within half a resolution
/// of the best one of the twin, or within one where all pairs are compared, and all arms two resolutions
/// behind it have entries near 0. Returns how many arms are, and how many are not.
fn users_play_the_arms_of_the_twin(d: usize, k: usize, users: usize) -> [usize; 2] {
    let mut world = World::new(d, k, users);
    let mut twin = ClearTwin::new(world.config.clone());
    let rounds = 3 * d;
    for x in (0..rounds).map(|t| context(d, t)) {
        twin.learn(&x, x.iter().zip(theta(d)).map(|(x, t)| x * t).sum());
    }
    let rows: Vec<Vec<Vec<f64>>> = (0..users.max(2) - 1).map(|user| world.rows(user + 1)).collect();
    let round = rounds as u64;
    let indices: Vec<Vec<f64>> = rows.iter().map(|rows| twin.indices(rows, round + 1, round)).collect();
    let scalars = Scalars::new(&world.config, round + 1, round);
    let factors = staged_factors(&scalars, world.layout().log_range()).unwrap();
    let model = world.model(&twin);
    let contexts: Vec<_> = rows.iter().map(|rows| world.contexts(rows)).collect();
    let entries = world.decide(factors, &contexts, &model, &mut |_, _, _| ());
    let resolution = scalars.range / 64.0;
    let mut counts = [0; 2];
    for (entries, indices) in entries.iter().zip(&indices) {
        let best = indices[largest(indices)];
        let (played, behind) = (entries[largest(entries)], best - indices[largest(entries)]);
        let after = world.layout().pairs_after(world.stages.params().max_slots());
        let most = if after == Some(0) { resolution } else { resolution / 2.0 };
        assert!(behind <= most, "{d} {k}: {} resolutions behind", behind / resolution);
        assert!((0.3..1.1).contains(&played), "{d} {k}: {played}");
        for (entry, index) in entries.iter().zip(indices) {
            let is_behind = best - index >= 2.0 * resolution;
            assert!(!is_behind || entry.abs() < 0.1, "{d} {k}: {entry}");
            counts[usize::from(!is_behind)] += 1;
        }
    }
    counts
}

/// With lifted contexts, an odd number of arms, and more features, arms and numbers than one ciphertext of
/// contexts, of the model or of slots holds; by maxima, and by a comparison of all pairs.
#[test]
fn staged_decisions_are_those_of_the_twin() {
    let shapes = [(3, 5, 4), (6, 2, 2), (16, 3, 7), (4, 100, 2), (17, 2, 2), (32, 32, 2), (64, 64, 1)];
    let counts = shapes.map(|(d, k, users)| users_play_the_arms_of_the_twin(d, k, users));
    let [behind, near] = counts.into_iter().fold([0; 2], |[a, b], [c, d]| [a + c, b + d]);
    assert!(behind > near, "{counts:?}");
}

/// Contexts of which `best` are equal and have the largest index, and the others are far behind.
fn tied_rows(d: usize, k: usize, best: usize, seed: usize) -> Vec<Vec<f64>> {
    let row = |arm: usize| {
        // The best arms are scattered.
        let rank = (arm * 7 + seed) % k;
        if rank < best {
            return theta(d);
        }
        let v = context(d, 100 * seed + arm);
        let along: f64 = v.iter().zip(theta(d)).map(|(v, t)| v * t).sum();
        let aside = unit(v.iter().zip(theta(d)).map(|(v, t)| v - along * t).collect());
        // 86 to 180 degrees from the best ones.
        let angle = 1.5 + 1.64 * (rank - best) as f64 / (k - best) as f64;
        theta(d).iter().zip(aside).map(|(t, v)| angle.cos() * t + angle.sin() * v).collect()
    };
    (0..k).map(row).collect()
}

/// Users of whom each has this many equal arms that are best play one of them, and all others have entries
/// near 0. Returns the rounds of maxima before all pairs of what is left were compared.
fn tied_arms_are_played(k: usize, best: &[usize]) -> Option<usize> {
    let d = 17;
    let mut world = World::new(d, k, best.len());
    let mut twin = ClearTwin::new(world.config.clone());
    let rounds = 3 * d as u64;
    for x in (0..3 * d).map(|t| context(d, t)) {
        twin.learn(&x, x.iter().zip(theta(d)).map(|(x, t)| x * t).sum());
    }
    let rows: Vec<_> = (0..).zip(best).map(|(user, &best)| tied_rows(d, k, best, user)).collect();
    let scalars = Scalars::new(&world.config, rounds + 1, rounds);
    let indices: Vec<_> = rows.iter().map(|rows| twin.indices(rows, rounds + 1, rounds)).collect();
    let factors = staged_factors(&scalars, world.layout().log_range()).unwrap();
    let (model, contexts) =
        (world.model(&twin), rows.iter().map(|rows| world.contexts(rows)).collect::<Vec<_>>());
    let entries = world.decide(factors, &contexts, &model, &mut |_, _, _| ());
    for ((entries, indices), &best) in entries.iter().zip(&indices).zip(best) {
        let top = indices[largest(indices)];
        let is_best = |arm: usize| top - indices[arm] < 1e-9;
        assert_eq!((0..k).filter(|arm| is_best(*arm)).count(), best);
        let played = entries[largest(entries)];
        assert!(is_best(largest(entries)) && (0.3..1.1).contains(&played), "{k} {best}: {entries:?}");
        for (arm, entry) in entries.iter().enumerate().filter(|(arm, _)| !is_best(*arm)) {
            assert!(top - indices[arm] > 0.1 * scalars.range, "a control: {arm} is far behind");
            assert!(entry.abs() < 0.1, "{k} {best}: {entry}");
        }
    }
    world.layout().pairs_after(world.stages.params().max_slots())
}

/// However many arms are equal and best, up to all but one, one of them is played, by comparisons of all
/// pairs of arms and of what some rounds of maxima leave.
#[test]
fn equal_arms_are_played() {
    for (k, ties, users) in [(16, [2, 4, 8, 15], 36), (64, [32, 40, 48, 63], 4)] {
        for best in ties {
            assert_eq!(tied_arms_are_played(k, std::slice::from_ref(&best)), Some(0), "{k}");
        }
        let of_all: Vec<usize> = ties.iter().copied().cycle().take(users).collect();
        assert_eq!(tied_arms_are_played(k, &of_all), Some(1), "{k}");
    }
}

/// χ² of the highest four bits of numbers modulo q, which has 15 degrees of freedom.
fn chi_square_of(counts: &[usize; 16]) -> f64 {
    let mean = counts.iter().sum::<usize>() as f64 / 16.0;
    counts.iter().map(|&count| (count as f64 - mean).powi(2) / mean).sum()
}

/// The highest four bits of what a ciphertext decrypts to.
fn high_bits(secret: &SecretKey, ciphertext: &Ciphertext) -> Vec<usize> {
    let q = secret.params().log_q(ciphertext.level()).exp2();
    let bits = |c: &i128| ((*c as f64 / q + 0.5) * 16.0).clamp(0.0, 15.0) as usize;
    ckks_secret::decrypt_coefficients(secret, ciphertext).with(|all| all.iter().map(bits).collect())
}

/// χ² of all coefficients of a ciphertext.
fn chi_square(secret: &SecretKey, ciphertext: &Ciphertext) -> f64 {
    let mut counts = [0; 16];
    high_bits(secret, ciphertext).into_iter().for_each(|bits| counts[bits] += 1);
    chi_square_of(&counts)
}

/// 1,000 exchanges of evaluations of the same contexts show a holder of the key nothing, where contexts and
/// model are 0 and where they are as large as a hostile sender can make them: in each step, each of the first
/// coefficients is uniform over all evaluations, and so are all coefficients together. Without masks the same
/// coefficients of the contexts are always the same. χ² exceeds 60 with a probability of 2·10⁻⁷.
#[test]
fn attack_a_thousand_staged_exchanges_show_uniform_numbers() {
    const EVALUATIONS: usize = 125;
    const FIRST: usize = 16;
    let mut world = World::new(17, 5, 1);
    let n = world.scores.params().n();
    let mut exchanges = 0;
    for value in [0i64, 1 << 60] {
        let contexts = vec![vec![world.encrypt(&vec![value; n], LOG_CONTEXT)]];
        let unmasked = high_bits(&world.scores, &contexts[0][0]);
        assert!(unmasked[..FIRST].iter().all(|bits| *bits == unmasked[0]), "a control");
        let model: Vec<Ciphertext> = (0..world.layout().model_parts())
            .map(|_| world.encrypt(&vec![value.min(1 << 40); n], LOG_MODEL))
            .collect();
        let steps = world.last() + 1;
        // Of each of the first coefficients, and of all.
        let mut counts = vec![[[0; 16]; FIRST + 1]; steps];
        for _ in 0..EVALUATIONS {
            world.decide([0.4, 0.3, 1.0], &contexts, &model, &mut |step, secret, masked| {
                for (at, bits) in high_bits(secret, &masked[0]).into_iter().enumerate() {
                    counts[step][at.min(FIRST)][bits] += 1;
                }
            });
            // The next evaluation has other randomness.
            let next = rand::Rng::next_u64(&mut world.rng);
            world.rng = ChaCha20Rng::seed_from_u64(next);
            exchanges += steps;
        }
        for (step, counts) in counts.iter().enumerate() {
            for (at, counts) in counts.iter().enumerate() {
                let told = chi_square_of(counts);
                assert!(told < 60.0, "{value}, step {step}, coefficient {at}: {told:.1}");
            }
        }
    }
    assert_eq!(exchanges, 1000);
}

/// What the holder of the key decrypts in each step is uniform modulo q, whether contexts and model are 0 or
/// as large as a hostile sender can make them: χ² exceeds 50 with a probability of 10⁻⁵. The contexts
/// themselves, without a mask, are told.
#[test]
fn attack_the_holder_of_staged_exchanges_sees_uniform_numbers() {
    let factors = [0.4, 0.3, 1.0];
    for (d, value) in [6, 17].into_iter().flat_map(|d| [0i64, 1 << 28, 1 << 60].map(|value| (d, value))) {
        let mut world = World::new(d, 5, 2);
        let n = world.scores.params().n();
        assert_eq!(world.layout().is_lifted(), d == 6);
        let contexts = vec![vec![world.encrypt(&vec![value; n], LOG_CONTEXT)]; 2];
        let control = chi_square(&world.scores, &contexts[0][0]);
        assert!(control > 1e4, "{value}: {control:.1}");
        let model: Vec<Ciphertext> = (0..world.layout().model_parts())
            .map(|_| world.encrypt(&vec![value.min(1 << 40); n], LOG_MODEL))
            .collect();
        let mut steps = 0;
        world.decide(factors, &contexts, &model, &mut |step, secret, masked| {
            for ciphertext in masked {
                let told = chi_square(secret, ciphertext);
                assert!(told < 50.0, "{value}, step {step}: {told:.1}");
            }
            steps = step + 1;
        });
        assert_eq!(steps, world.last() + 1);
    }
}

/// Another number of ciphertexts, and another width, are refused before anything is computed.
#[test]
fn what_no_staged_evaluation_has_is_refused() {
    let mut world = World::new(17, 5, 1);
    let twin = ClearTwin::new(world.config.clone());
    let (model, rows) = (world.model(&twin), world.rows(1));
    let contexts = world.contexts(&rows);
    let mut rng = ChaCha20Rng::seed_from_u64(33);
    for (users, model) in [
        (vec![], &model[..]),
        (vec![contexts.clone(); 2], &model[..]),
        (vec![vec![]], &model[..]),
        (vec![contexts.clone()], &model[1..]),
    ] {
        let refused = world.engine.begin([0.4, 0.3, 1.0], &users, model, &mut rng);
        assert!(matches!(refused, Err(Error::Broken(_))));
    }
    let (mut evaluation, _) = world.engine.begin([0.4, 0.3, 1.0], &[contexts], &model, &mut rng).unwrap();
    let masks = world.engine.encode_masks(&evaluation).unwrap();
    assert!(world.engine.next(&mut evaluation, vec![], &masks, &mut rng).is_err());
    assert!(world.engine.read(0, &[]).is_err(), "a step without its frames");
    world.config.linear.width = Width::Constant { alpha: 0.5 };
    assert!(staged_factors(&Scalars::new(&world.config, 2, 1), 0).is_err());
}
