//! A bandit's keys, model and contexts as a server and a device have them, and the indices in the clear.

#![allow(dead_code)] // Each test and example uses a part.

use ckks::{Ciphertext, EvaluationKeys, Evaluator, KeyId, Plaintext};
use ckks_secret::SecretKey;
use protocol::{BanditConfig, KeyPlan, LOG_CONTEXT, LOG_MODEL, ScoreLayout, ScoreRing, Shape};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::sync::Arc;
use tfhe_argmax::{Answer, Circuit, ENTRY, Error, Formula, Keys, LEAST_ENTRY, SeededKeys};
use tfhe_argmax_secret::LweSecret;

/// The keys of a ring of scores of degree 2¹³ and of TFHE.
pub(crate) struct Pair {
    pub(crate) evaluator: Evaluator,
    pub(crate) ckks: SecretKey,
    pub(crate) id: KeyId,
    pub(crate) seeded: SeededKeys,
    pub(crate) keys: Keys,
    pub(crate) secret: LweSecret,
}

impl Pair {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let params = ckks::LOGN13_LOGQP147_SCORES.validate().unwrap();
        let ckks = SecretKey::generate(&params, &mut rng);
        let id = ckks_secret::public_key(&ckks, &mut rng).id(&params);
        let relin = Some(Arc::new(ckks_secret::relin_key(&ckks, params.max_level(), &mut rng)));
        let evaluator = Evaluator::new(params, EvaluationKeys { relin, ..EvaluationKeys::default() });
        let (seeded, secret) = tfhe_argmax_secret::generate(&ckks, id, &mut rng).unwrap();
        let keys = seeded.clone().expand(id).unwrap();
        Pair { evaluator, ckks, id, seeded, keys, secret }
    }
}

/// The entry of each arm of an answer, as a device decrypts it.
pub(crate) fn entries(secret: &LweSecret, answer: &Answer) -> Vec<f64> {
    assert_eq!(answer.id, secret.id());
    let message = Answer::read(&answer.to_bytes(), answer.samples.len()).unwrap();
    message.samples.iter().map(|sample| secret.phase(sample).unwrap() / ENTRY).collect()
}

/// The arm that a device plays, if the answer can be relied on.
pub(crate) fn arm(secret: &LweSecret, answer: &Answer) -> Option<usize> {
    let entries = entries(secret, answer);
    let best = (0..entries.len()).fold(0, |best, a| if entries[a] > entries[best] { a } else { best });
    (entries[best] > LEAST_ENTRY).then_some(best)
}

/// A bandit with a model after some rounds.
pub(crate) struct Bandit {
    pub(crate) config: BanditConfig,
    pub(crate) formula: Formula,
    layout: ScoreLayout,
    gap: usize,
    /// A and ω.
    a: Vec<Vec<f64>>,
    omega: Vec<f64>,
    model: Ciphertext,
}

impl Bandit {
    /// A bandit with d features, K arms and a random model as after `rounds` rounds.
    pub(crate) fn new(pair: &Pair, d: usize, k: usize, rounds: u64, rng: &mut ChaCha20Rng) -> Self {
        let (config, shape) = (BanditConfig::new(d, k), Shape::for_problem(d, k));
        let plan = KeyPlan::new(shape, false, protocol::WidthShape::default()).unwrap();
        let params = plan.params.validate().unwrap();
        let ring = ScoreRing::for_shape(shape, false).unwrap();
        assert_eq!(ring.n(), pair.evaluator.params().n());
        let layout = ScoreLayout::new(&config, &config.plan(&params, shape, ring).unwrap(), ring);
        let mut bandit = Bandit {
            a: Vec::new(),
            omega: Vec::new(),
            model: Ciphertext::zero(pair.evaluator.params(), 1),
            formula: formula(&config, ring.gap, &layout, rounds),
            gap: ring.gap,
            config,
            layout,
        };
        // Rewards of a linear model.
        let theta = unit(d, rng);
        let play = |_| {
            let x = unit(d, rng);
            let reward = 0.8 * dot(&x, &theta);
            (x, reward)
        };
        let played: Vec<(Vec<f64>, f64)> = (0..rounds).map(play).collect();
        bandit.learn(pair, &played, rng);
        bandit
    }

    /// The ridge estimate of rounds with features x and reward r, and the encrypted model.
    pub(crate) fn learn(&mut self, pair: &Pair, played: &[(Vec<f64>, f64)], rng: &mut ChaCha20Rng) {
        let d = self.config.linear.d;
        // A = (I + Σ x·xᵀ)⁻¹ by the formula of Sherman and Morrison.
        let mut a: Vec<Vec<f64>> =
            (0..d).map(|i| (0..d).map(|j| f64::from(u8::from(i == j))).collect()).collect();
        let mut moment = vec![0.0; d];
        for (x, r) in played {
            let ax: Vec<f64> = a.iter().map(|row| dot(row, x)).collect();
            let divisor = 1.0 + dot(&ax, x);
            (0..d).for_each(|i| (0..d).for_each(|j| a[i][j] -= ax[i] * ax[j] / divisor));
            moment.iter_mut().zip(x).for_each(|(g, x)| *g += r * x);
        }
        let omega: Vec<f64> = a.iter().map(|row| dot(row, &moment)).collect();
        let dim = Shape::for_problem(d, self.config.linear.k).dim;
        let mut slots = vec![0.0; 2 * dim * dim];
        (0..d).for_each(|i| (0..d).for_each(|j| slots[i * dim + j] = a[i][j]));
        (0..d).for_each(|i| slots[dim * dim + i] = omega[i]);
        let mut coefficients = vec![0.0; pair.evaluator.params().n()];
        for term in self.layout.model() {
            coefficients[term.coefficient] += slots[term.slot] * term.factor;
        }
        let scale = f64::from(LOG_MODEL).exp2();
        let coefficients: Vec<i64> = coefficients.iter().map(|c| (c * scale).round() as i64).collect();
        self.model = encrypt(pair, &coefficients, LOG_MODEL, rng);
        self.formula = formula(&self.config, self.gap, &self.layout, played.len() as u64);
        (self.a, self.omega) = (a, omega);
    }

    pub(crate) fn circuit(&self, pair: &Pair) -> Result<Circuit, Error> {
        Circuit::new(self.formula, pair.evaluator.params().n())
    }

    /// Random contexts of norm at most 1.
    pub(crate) fn contexts(&self, rng: &mut ChaCha20Rng) -> Vec<Vec<f64>> {
        let l = &self.config.linear;
        (0..l.k).map(|_| unit(l.d, rng).into_iter().map(|x| 0.99 * x).collect()).collect()
    }

    /// What a device sends.
    pub(crate) fn encrypted(&self, pair: &Pair, rows: &[Vec<f64>], rng: &mut ChaCha20Rng) -> Ciphertext {
        encrypt(pair, &self.layout.contexts(&[rows]).unwrap(), LOG_CONTEXT, rng)
    }

    /// What a server computes of it before the argmax.
    pub(crate) fn scores(&self, pair: &Pair, contexts: &Ciphertext) -> Ciphertext {
        pair.evaluator.mul_unrescaled(contexts, &self.model).unwrap()
    }

    /// z of each arm, and the index.
    pub(crate) fn indices(&self, rows: &[Vec<f64>]) -> Vec<(f64, f64)> {
        let index = |x: &Vec<f64>| {
            let ax: Vec<f64> = self.a.iter().map(|row| dot(row, x)).collect();
            let z = dot(&ax, x);
            (z, dot(&self.omega, x) + self.formula.bonus.of(z))
        };
        rows.iter().map(index).collect()
    }
}

/// The numbers of `helba::Scalars` in the next round, without room for a tie.
fn formula(config: &BanditConfig, gap: usize, layout: &ScoreLayout, rounds: u64) -> Formula {
    let l = &config.linear;
    let bonus = l.bonus(rounds + 1, rounds, l.c1(rounds));
    let most = 1.0625 * l.l * l.l / l.lambda;
    let range = 3.0 + bonus.of(most);
    Formula { arms: l.k, gap, log_range: layout.log_range(), bonus, most, range }
}

/// An encryption at the scale 2^`log`.
fn encrypt(pair: &Pair, coefficients: &[i64], log: u32, rng: &mut ChaCha20Rng) -> Ciphertext {
    let params = pair.evaluator.params();
    let (level, scale) = (params.max_level(), f64::from(log).exp2());
    let plain = Plaintext::from_integers(params, coefficients, level, scale).unwrap();
    ckks_secret::encrypt(&pair.ckks, &plain, rng).expand(&pair.ckks)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn unit(d: usize, rng: &mut ChaCha20Rng) -> Vec<f64> {
    let x: Vec<f64> = (0..d).map(|_| rng.random_range(-1.0..1.0)).collect();
    let norm = dot(&x, &x).sqrt();
    x.into_iter().map(|x| x / norm).collect()
}
