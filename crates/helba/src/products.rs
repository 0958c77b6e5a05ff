//! The update of a batch by products of matrices in the ring of scores, with a holder of the key between
//! them ([`protocol::products`]).
//!
//! V and g stay sums of feedback and X = λ·A fresh ciphertexts, so that no level is used, and no Galois key
//! but those of packs where operands have several ciphertexts. The holder sees numbers that are uniform
//! modulo q, at each of the steps.
//!
//! A holder that deviates changes whatever it encrypts. It must be one that may know V and g: by adding c in
//! entry (i, j) of X after [`ProductStep::Inverse`], it adds c·g_i/λ to ω_j, and its own decisions show the
//! sum. It cannot change V and g themselves, and an update that begins with a multiple of I
//! forgets what it changed.

use crate::Error;
use ckks::{Ciphertext, Evaluator, MaskSeed, Packer, Plaintext, RingKeys};
use protocol::LOG_MODEL;
use protocol::products::{
    LOG_BALANCE, LOG_OPERAND, MatrixLayout, ProductExchanges, ProductScalars, ProductStep,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::sync::Arc;

/// X = λ·A as both operands of a product: rows of X, and columns of κX.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inverse<C = Arc<Ciphertext>> {
    rows: Vec<C>,
    columns: Vec<C>,
}

impl Inverse {
    /// X = `value`·I at the scale 2^[`LOG_OPERAND`], without encryption: the inverse of a bandit without
    /// data, and the start of a cold update ([`ProductScalars::identity`]).
    ///
    /// # Errors
    /// [`Error::Ckks`] for a layout of another ring.
    pub fn identity(ring: &RingKeys, matrices: &MatrixLayout, value: i64) -> Result<Self, Error> {
        let eval = &ring.evaluator;
        let (params, scale) = (eval.params(), f64::from(LOG_OPERAND).exp2());
        let operand = |coefficients: Vec<Vec<i64>>| {
            let zero = Ciphertext::zero(params, params.max_level()).with_scale(scale);
            let mut out = vec![zero; coefficients.len()];
            add(eval, &mut out, &coefficients)?;
            Ok::<_, Error>(shared(out))
        };
        let (rows, columns) = (matrices.left_identity(value), matrices.right_identity(value << LOG_BALANCE));
        Ok(Inverse { rows: operand(rows)?, columns: operand(columns)? })
    }
}

/// An update between two exchanges. `C` is a ciphertext in memory, and a frame in a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProductUpdate<C = Arc<Ciphertext>> {
    scalars: ProductScalars,
    /// The secret that masks are derived from.
    key: MaskSeed,
    /// The number of the step that is asked for.
    at: usize,
    /// What its exchange takes, without a mask.
    product: C,
    /// The rows of V/(κλ) and gᵀ/(κλ), once they are there.
    statistics: Option<Vec<C>>,
    inverse: Inverse<C>,
    /// The ciphertexts of the model, with the inverse alone, once they are there.
    model: Vec<C>,
}

/// A step of an update for a holder of the key.
#[derive(Debug, Clone)]
pub struct ProductTask {
    /// What it makes of the ciphertext.
    pub step: ProductStep,
    /// The factors of its groups.
    pub factors: Vec<f64>,
    /// The masked ciphertext.
    pub masked: Ciphertext,
    seed: MaskSeed,
}

/// The result of an update.
#[derive(Debug, Clone)]
pub struct ProductModel {
    /// The ciphertexts of the model that contexts are multiplied by, at the scale 2^[`LOG_MODEL`]: one, and
    /// for stages [`protocol::staged::StagedLayout::model_parts`].
    pub scores: Vec<Ciphertext>,
    /// The inverse from which the next update begins.
    pub inverse: Inverse,
}

impl ProductUpdate {
    /// An update of the inverse `inverse` to the sums `total` of all feedback, with masks derived from `key`,
    /// which must be secret and belong to this update alone.
    pub fn new(scalars: ProductScalars, total: Ciphertext, inverse: Inverse, key: MaskSeed) -> Self {
        let product = Arc::new(total);
        ProductUpdate { scalars, key, at: 0, product, statistics: None, inverse, model: Vec::new() }
    }

    /// The step that waits for a holder of the key. The same state gives the same bytes, because the mask
    /// and the encryption of zero come from a hash of the ciphertext, of the step and of the secret.
    ///
    /// # Errors
    /// [`Error::Ckks`] for sums of another level or scale.
    pub fn task(&self, ring: &RingKeys, exchanges: &ProductExchanges) -> Result<ProductTask, Error> {
        let (step, factors) = self.step()?;
        let key = blake3::keyed_hash(&self.key, &(self.at as u64).to_le_bytes());
        let mut masked = [Ciphertext::clone(&self.product)];
        let seed = ckks::mask_seed_of(&masked, key.as_bytes());
        exchanges.of(step).mask_assign(&mut masked, &seed)?;
        let [mut masked] = masked;
        let mut rng = ChaCha20Rng::from_seed(*blake3::keyed_hash(&seed, b"zero").as_bytes());
        ckks::rerandomise_assign(ring.evaluator.params(), &ring.public_key, &mut masked, &mut rng);
        Ok(ProductTask { step, factors, masked, seed })
    }

    fn step(&self) -> Result<(ProductStep, Vec<f64>), Error> {
        let (step, factors) = self.scalars.step(self.at).ok_or(Error::Broken("a step after the last"))?;
        Ok((step, factors.to_vec()))
    }

    /// Takes what a holder of the key encrypted for `task`, and computes the next product. The last step
    /// gives the model. On an error nothing has changed.
    ///
    /// # Errors
    /// [`Error::Ckks`] for ciphertexts of another number, level or scale; [`Error::Broken`] for another step.
    pub fn take(
        &mut self,
        ring: &RingKeys,
        exchanges: &ProductExchanges,
        task: &ProductTask,
        mut fresh: Vec<Ciphertext>,
    ) -> Result<Option<ProductModel>, Error> {
        let (step, factors) = self.step()?;
        if task.step != step {
            return Err(Error::Broken("an answer to another step of an update"));
        }
        let exchange = exchanges.of(step);
        exchange.unmask_assign(&mut fresh, &exchange.encode_mask(&task.seed, &factors)?)?;
        let (eval, matrices) = (&ring.evaluator, &exchanges.matrices);
        let (left, right) = (|rows| matrices.left_parts(rows), matrices.right_parts());
        let mut parts = fresh.into_iter();
        let mut next = |count: usize| -> Vec<Ciphertext> { parts.by_ref().take(count).collect() };
        // 2I − M from −M.
        let complement = |mut columns: Vec<Ciphertext>| -> Result<Vec<Ciphertext>, Error> {
            add(eval, &mut columns, &matrices.right_identity(2 << LOG_OPERAND))?;
            Ok(columns)
        };
        let statistics = self.statistics.as_ref();
        let with_statistics = |columns: &[Arc<Ciphertext>]| {
            let rows = statistics.ok_or(Error::Broken("an update without its statistics"))?;
            multiply(eval, matrices, rows, columns)
        };
        let model_scale = f64::from(LOG_MODEL).exp2();
        let dim = matrices.dim();
        match step {
            ProductStep::Statistics => {
                let mut rows = next(left(dim + 1));
                // λ/(κλ). Padded dimensions have λ too, so that V can be inverted.
                add(eval, &mut rows, &matrices.left_identity(1 << (LOG_OPERAND - LOG_BALANCE)))?;
                self.product = Arc::new(multiply(eval, matrices, &rows, &self.inverse.columns)?);
                self.statistics = Some(shared(rows));
            }
            ProductStep::Start => {
                let (mut rows, columns) = (next(left(2 * dim)), next(right));
                for (rows, inverse) in rows.iter_mut().zip(&self.inverse.rows) {
                    eval.add_assign(rows, inverse)?;
                }
                self.product = Arc::new(multiply(eval, matrices, &rows, &complement(columns)?)?);
            }
            ProductStep::Newton => {
                let (rows, columns) = (next(left(2 * dim)), next(right));
                self.product = Arc::new(multiply(eval, matrices, &rows, &complement(columns)?)?);
            }
            ProductStep::Last => {
                let inverse = Inverse { rows: shared(next(left(dim))), columns: shared(next(right)) };
                self.product = Arc::new(with_statistics(&inverse.columns)?);
                self.inverse = inverse;
            }
            ProductStep::Residual => {
                let columns = complement(next(right))?;
                self.product = Arc::new(multiply(eval, matrices, &self.inverse.rows, &columns)?);
            }
            ProductStep::Inverse => {
                let inverse = Inverse { rows: shared(next(left(dim))), columns: shared(next(right)) };
                self.product = Arc::new(with_statistics(&inverse.columns)?);
                self.model = parts.map(|part| Arc::new(part.with_scale(model_scale))).collect();
                self.inverse = inverse;
            }
            ProductStep::Estimate => {
                let mut scores: Vec<Ciphertext> =
                    self.model.iter().map(|part| Ciphertext::clone(part)).collect();
                let last = scores.last_mut().ok_or(Error::Broken("an estimate without its inverse"))?;
                let estimate = parts.next().ok_or(Error::Broken("an exchange without its ciphertexts"))?;
                eval.add_assign(last, &estimate.with_scale(model_scale))?;
                return Ok(Some(ProductModel { scores, inverse: self.inverse.clone() }));
            }
        }
        self.at += 1;
        Ok(None)
    }
}

impl<C> Inverse<C> {
    /// The inverse with `map` of its ciphertexts, which gets log₂ of their scale.
    pub(crate) fn try_map<D>(
        self,
        map: &mut impl FnMut(u32, C) -> Result<D, Error>,
    ) -> Result<Inverse<D>, Error> {
        let (rows, columns) = (self.rows, self.columns);
        Ok(Inverse { rows: try_map(LOG_OPERAND, rows, map)?, columns: try_map(LOG_OPERAND, columns, map)? })
    }
}

impl<C> ProductUpdate<C> {
    /// Whether no step has been taken yet.
    pub(crate) fn is_at_first_step(&self) -> bool {
        self.at == 0
    }

    /// log₂ of the scale of what the exchange of the next step takes.
    pub(crate) fn log_scale(&self) -> u32 {
        if self.at == 0 { self.scalars.log_sums } else { 2 * LOG_OPERAND }
    }

    /// The update with `map` of its ciphertexts, which gets log₂ of their scale.
    pub(crate) fn try_map<D>(
        self,
        map: &mut impl FnMut(u32, C) -> Result<D, Error>,
    ) -> Result<ProductUpdate<D>, Error> {
        let of_product = self.log_scale();
        Ok(ProductUpdate {
            scalars: self.scalars,
            key: self.key,
            at: self.at,
            product: map(of_product, self.product)?,
            statistics: self.statistics.map(|rows| try_map(LOG_OPERAND, rows, map)).transpose()?,
            inverse: self.inverse.try_map(map)?,
            model: try_map(LOG_MODEL, self.model, map)?,
        })
    }
}

/// `map` of all ciphertexts of this scale.
fn try_map<C, D>(
    log_scale: u32,
    ciphertexts: Vec<C>,
    map: &mut impl FnMut(u32, C) -> Result<D, Error>,
) -> Result<Vec<D>, Error> {
    ciphertexts.into_iter().map(|ciphertext| map(log_scale, ciphertext)).collect()
}

fn shared(ciphertexts: Vec<Ciphertext>) -> Vec<Arc<Ciphertext>> {
    ciphertexts.into_iter().map(Arc::new).collect()
}

/// The product of two operands, in one ciphertext.
fn multiply<L: Borrow<Ciphertext>, R: Borrow<Ciphertext>>(
    eval: &Evaluator,
    matrices: &MatrixLayout,
    left: &[L],
    right: &[R],
) -> Result<Ciphertext, Error> {
    if let (None, [left], [right]) = (matrices.pack_gap(), left, right) {
        return Ok(eval.mul_unrescaled(left.borrow(), right.borrow())?);
    }
    let gap = matrices.pack_gap().ok_or(Error::Broken("another number of operands of a product"))?;
    let (level, scale) = (eval.params().max_level(), f64::from(2 * LOG_OPERAND).exp2());
    // A pack multiplies by its gap.
    let divided = |right: &R| {
        let mut right = right.borrow().clone();
        eval.divide_exactly_assign(&mut right, gap.ilog2());
        right
    };
    let right: Vec<Ciphertext> = right.iter().map(divided).collect();
    let mut packer = Packer::new(eval, gap, level, scale)?;
    for (left, right) in left.iter().flat_map(|left| right.iter().map(move |right| (left, right))) {
        packer.push(eval.mul_undivided(left.borrow(), right)?)?;
    }
    Ok(packer.finish()?)
}

/// Adds these integers to the coefficients of ciphertexts.
fn add(eval: &Evaluator, ciphertexts: &mut [Ciphertext], coefficients: &[Vec<i64>]) -> Result<(), Error> {
    for (ct, coefficients) in ciphertexts.iter_mut().zip(coefficients) {
        let message = Plaintext::from_integers(eval.params(), coefficients, ct.level(), ct.scale())?;
        eval.add_plain_assign(ct, &message)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bandit::WeightedSums;
    use ckks::Security;
    use ckks_secret::{SecretKey, decrypt_coefficients};
    use nalgebra::{DMatrix, DVector};
    use protocol::staged::StagedLayout;
    use protocol::{
        BanditConfig, Exchanging, INVERSE_TOLERANCE, KeyPlan, LOG_STATISTICS, ScoreLayout, Shape, Updates,
        WidthShape,
    };
    use rand::RngExt;
    use testkit::ScoresParty;

    /// The longest batch of the default schedule.
    const BATCH: u64 = 16;

    /// Server, holder of the key and devices of a bandit, and its exact statistics.
    struct World {
        config: BanditConfig,
        layout: ScoreLayout,
        exchanges: ProductExchanges,
        ring: RingKeys,
        secret: SecretKey,
        rng: ChaCha20Rng,
        total: Ciphertext,
        /// Σ xxᵀ.
        squares: DMatrix<f64>,
        moment: DVector<f64>,
        theta: DVector<f64>,
        feedbacks: u64,
        /// Those of the last batch.
        pending: u64,
        inverse: Inverse,
        /// The twin of X.
        exact: DMatrix<f64>,
        residual: f64,
        /// What the last batch took of V.
        removed: f64,
        /// The sums of batches, if old feedback counts less, and the number of feedbacks.
        past: Option<WeightedSums<(Ciphertext, DMatrix<f64>)>>,
        learnt: u64,
        updates: u64,
        /// The sum over all exchanges of |v|/q, by which the probability of a wrong number is bounded.
        wraps: f64,
    }

    /// What a holder of the key does to its messages: number of the ciphertext, its coefficients.
    type Lie<'a> = &'a dyn Fn(ProductStep, usize) -> Vec<i64>;

    impl World {
        fn new(features: usize, arms: usize, lambda: f64) -> Self {
            let mut config = BanditConfig::new(features, arms);
            config.linear.lambda = lambda;
            Self::of(config)
        }

        fn of(config: BanditConfig) -> Self {
            let (features, arms) = (config.linear.d, config.linear.k);
            let shape = Shape::for_problem(features, arms);
            let (width, security) = (WidthShape::Tangent, Security::Classical128);
            let keys = match shape.dim {
                ..=16 => KeyPlan::with_security(shape, security, width),
                _ => KeyPlan::for_exchanges(shape, security, width, Updates::Products, Exchanging::Staged),
            };
            let keys = keys.unwrap();
            let ring = keys.scores;
            let plan = config.plan(keys.rings().unwrap(), shape, ring).unwrap();
            let layout = ScoreLayout::new(&config, &plan, ring);
            let mut rng = ChaCha20Rng::seed_from_u64(71);
            let party = ScoresParty::generate(ring, &mut rng).unwrap();
            let evaluator = Evaluator::new(party.params.clone(), party.keys.clone());
            let (public_key, key_id) = (party.public.clone(), party.key_id());
            let ring = RingKeys { evaluator, public_key, key_id };
            let matrices = layout.matrices().unwrap();
            let exchanges = ProductExchanges::new(&layout, &party.params, matrices, layout.alone()).unwrap();
            let scale = f64::from(LOG_STATISTICS).exp2();
            let total = Ciphertext::zero(&party.params, party.params.max_level()).with_scale(scale);
            let inverse = Inverse::identity(&ring, &matrices, 1 << LOG_OPERAND).unwrap();
            let dim = shape.dim;
            World {
                theta: unit(features, &mut rng),
                squares: DMatrix::zeros(dim, dim),
                moment: DVector::zeros(dim),
                exact: DMatrix::identity(dim, dim),
                secret: party.secret,
                feedbacks: 0,
                pending: 0,
                residual: 0.0,
                removed: 1.0,
                past: config.forgetting().map(WeightedSums::new),
                learnt: 0,
                updates: 0,
                wraps: 0.0,
                config,
                layout,
                exchanges,
                ring,
                rng,
                total,
                inverse,
            }
        }

        /// Feedback on these contexts, encrypted, added to the sums `times` times each.
        fn learn(&mut self, contexts: &[DVector<f64>], times: u64) {
            for x in contexts {
                let reward = (x.dot(&self.theta) + 0.2 * self.rng.random_range(-1.0..1.0)).clamp(-1.0, 1.0);
                let feedback = self.layout.feedback(0, x.as_slice(), reward).unwrap();
                let (params, scale) = (self.ring.evaluator.params(), f64::from(LOG_STATISTICS).exp2());
                let mut coefficients = vec![0; params.n()];
                coefficients[..feedback.len()].copy_from_slice(&feedback);
                let message =
                    Plaintext::from_integers(params, &coefficients, params.max_level(), scale).unwrap();
                let mut fresh =
                    ckks_secret::encrypt(&self.secret, &message, &mut self.rng).expand(&self.secret);
                self.ring.evaluator.mul_integer_assign(&mut fresh, times as i64);
                self.ring.evaluator.add_assign(&mut self.total, &fresh).unwrap();
                let d = x.len();
                let mut squares = self.squares.view_mut((0, 0), (d, d));
                squares += x * x.transpose() * times as f64;
                let mut moment = self.moment.rows_mut(0, d);
                moment += x * reward * times as f64;
            }
            self.pending = contexts.len() as u64 * times;
            self.feedbacks += self.pending;
        }

        /// Feedback on these contexts, of a batch of its own, and the sums of all batches with their weights.
        fn forget(&mut self, contexts: &[DVector<f64>]) {
            let scale = f64::from(LOG_STATISTICS).exp2();
            let (params, eval) = (self.ring.evaluator.params().clone(), self.ring.evaluator.clone());
            let zero = || Ciphertext::zero(&params, params.max_level()).with_scale(scale);
            self.total = zero();
            self.squares.fill(0.0);
            self.learn(contexts, 1);
            self.learnt += self.pending;
            let batch = (self.total.clone(), self.squares.clone());
            let past = self.past.as_mut().unwrap();
            let faded = past.end_batch(self.learnt, batch, |sum, batch| {
                sum.1 += batch.1;
                eval.add_assign(&mut sum.0, &batch.0)
            });
            self.removed = faded.unwrap().bound(self.config.ratio());
            let one = f64::from(1u32 << past.forgetting().log_weight());
            (self.total, self.feedbacks) = (zero(), past.feedbacks());
            self.squares.fill(0.0);
            for ((sum, squares), weight) in past.iter() {
                let mut sum = sum.clone();
                eval.mul_integer_assign(&mut sum, weight.into());
                eval.add_assign(&mut self.total, &sum).unwrap();
                self.squares += squares * (f64::from(weight) / one);
            }
            self.total = self.total.clone().with_scale(scale * one);
        }

        /// Makes the next update a cold one.
        fn cool(&mut self) -> ProductScalars {
            let dim = self.exact.nrows();
            self.exact = DMatrix::identity(dim, dim);
            let scalars = ProductScalars::cold(&self.config, dim, self.feedbacks).unwrap();
            let matrices = self.layout.matrices().unwrap();
            self.inverse = Inverse::identity(&self.ring, &matrices, scalars.identity()).unwrap();
            scalars
        }

        fn warm(&self) -> ProductScalars {
            let factors = self.config.newton(self.residual, self.pending, self.removed, usize::MAX).unwrap();
            ProductScalars::warm(&self.config, self.exact.nrows(), factors, self.feedbacks)
        }

        /// V.
        fn design(&self) -> DMatrix<f64> {
            let dim = self.squares.nrows();
            &self.squares + DMatrix::identity(dim, dim) * self.config.linear.lambda
        }

        /// The state of the next update.
        fn begin(&mut self, scalars: &ProductScalars) -> ProductUpdate {
            self.updates += 1;
            let key = *blake3::hash(&self.updates.to_le_bytes()).as_bytes();
            ProductUpdate::new(scalars.clone(), self.total.clone(), self.inverse.clone(), key)
        }

        /// What the holder of the key answers.
        fn answer(&mut self, task: &ProductTask, lie: Lie<'_>) -> Vec<Ciphertext> {
            let (exchange, masked) = (self.exchanges.of(task.step), [task.masked.clone()]);
            let fresh = ckks_secret::exchange(
                exchange,
                &self.secret,
                &self.secret,
                &masked,
                &task.factors,
                &mut self.rng,
            )
            .unwrap();
            let mut out: Vec<_> = fresh.into_iter().map(|ct| ct.expand(&self.secret)).collect();
            for (i, ct) in out.iter_mut().enumerate() {
                let more = lie(task.step, i);
                if !more.is_empty() {
                    add(&self.ring.evaluator, std::slice::from_mut(ct), &[more]).unwrap();
                }
            }
            out
        }

        fn run(&mut self, scalars: &ProductScalars, lie: Lie<'_>) -> ProductModel {
            let mut update = self.begin(scalars);
            let mut steps = 0;
            loop {
                let task = update.task(&self.ring, &self.exchanges).unwrap();
                self.count_wraps(&update.product, task.step);
                let fresh = self.answer(&task, lie);
                steps += 1;
                if let Some(model) = update.take(&self.ring, &self.exchanges, &task, fresh).unwrap() {
                    assert_eq!(steps, scalars.steps());
                    self.inverse = model.inverse.clone();
                    self.residual = scalars.residual();
                    return model;
                }
            }
        }

        fn count_wraps(&mut self, product: &Ciphertext, step: ProductStep) {
            let log_q = self.ring.evaluator.params().log_q(product.level());
            let reads = self.exchanges.of(step).reads();
            self.wraps += decrypt_coefficients(&self.secret, product)
                .with(|c| reads.iter().map(|&k| c[k].abs() as f64 / log_q.exp2()).sum::<f64>());
        }

        /// The same update in exact arithmetic: X and ω.
        fn twin(&mut self, scalars: &ProductScalars) -> DVector<f64> {
            let (v, dim) = (self.design() / scalars.lambda, self.squares.nrows());
            let two = DMatrix::identity(dim, dim) * 2.0;
            // The twin of a cold update begins with I.
            let mut x = &self.exact * scalars.factors.start();
            let mut m = &v * &x;
            for factor in scalars.factors.steps() {
                let t = &two - &m;
                (x, m) = (&x * &t * *factor, &m * &t * *factor);
            }
            x = (&x + x.transpose()) / 2.0;
            x = &x * (two - &v * &x);
            self.exact = (&x + x.transpose()) / 2.0;
            &self.exact * &self.moment / scalars.lambda
        }

        /// X, decrypted from the columns.
        fn decrypted(&self) -> DMatrix<f64> {
            let (dim, matrices) = (self.squares.nrows(), &self.exchanges.matrices);
            let unit = f64::from(LOG_OPERAND + LOG_BALANCE).exp2();
            let of = |part: &Arc<Ciphertext>| decrypt_coefficients(&self.secret, part).with(|c| c.to_vec());
            let columns: Vec<i128> = self.inverse.columns.iter().flat_map(of).collect();
            DMatrix::from_fn(dim, dim, |k, j| columns[matrices.right(k, j)] as f64 / unit)
        }

        /// The largest eigenvalue of A·V − I.
        fn distance(&self, x: &DMatrix<f64>) -> f64 {
            let v = self.design() / self.config.linear.lambda;
            let root = v.cholesky().unwrap().l();
            let product = root.transpose() * (x + x.transpose()) / 2.0 * &root;
            (product - DMatrix::identity(root.nrows(), root.nrows())).symmetric_eigen().eigenvalues.amax()
        }

        /// z and u of a context by a decrypted model.
        fn scores(&self, model: &Ciphertext, x: &DVector<f64>) -> [f64; 2] {
            let contexts = vec![x.as_slice().to_vec(); self.config.linear.k];
            let contexts = self.layout.contexts(&[&contexts]).unwrap();
            let n = contexts.len();
            decrypt_coefficients(&self.secret, model).with(|model| {
                let mut product = vec![0i128; n];
                for (i, c) in contexts.iter().enumerate().filter(|(_, c)| **c != 0) {
                    for (j, m) in model.iter().enumerate().filter(|(_, m)| m.abs() > 64) {
                        let sign = if i + j < n { 1 } else { -1 };
                        product[(i + j) % n] += sign * i128::from(*c) * m;
                    }
                }
                self.layout.scores(&product, 0, 0)[0]
            })
        }
    }

    fn honest(_: ProductStep, _: usize) -> Vec<i64> {
        Vec::new()
    }

    fn unit(d: usize, rng: &mut ChaCha20Rng) -> DVector<f64> {
        // Directions of unequal weight, as those of real contexts are.
        DVector::from_fn(d, |i, _| rng.random_range(-1.0..1.0) / (1.0 + i as f64)).normalize()
    }

    /// Batches of the longest length, most of one direction, and three of 30 times as many feedbacks, all of
    /// this direction. After each update the decrypted inverse is that of exact arithmetic and within the
    /// bound that the server claims, which is within the tolerance; scores choose the arm of the exact model,
    /// but where two indices are within the noise of scores. Update 12 begins with a multiple of I. An update
    /// is wrong by a wrapped number with a probability below 2⁻²².
    #[test]
    fn updates_by_products_keep_the_inverse() {
        for (d, k, lambda, batches) in [(2, 2, 1.0, 6), (7, 4, 0.5, 20), (16, 16, 1.0, 16)] {
            let mut world = World::new(d, k, lambda);
            let dim = world.squares.nrows();
            let (mut agreed, mut asked) = (0, 0);
            for j in 0..batches {
                let last = j + 3 >= batches;
                let contexts: Vec<_> = (0..BATCH)
                    .map(|i| match (i + j) % 4 {
                        0 if !last => unit(d, &mut world.rng),
                        _ => DVector::from_fn(d, |i, _| f64::from(i == 0)),
                    })
                    .collect();
                // The last batches are those of a bandit of many feedbacks.
                world.learn(&contexts, if last { 30 } else { 1 });
                let scalars = match j == 12 {
                    true => world.cool(),
                    false => world.warm(),
                };
                let before = world.wraps;
                let model = world.run(&scalars, &honest);
                assert!(world.wraps - before < (-22f64).exp2(), "{d}: 2^{}", (world.wraps - before).log2());
                let omega = world.twin(&scalars);
                let x = world.decrypted();
                let (off, distance) = ((&x - &world.exact).amax(), world.distance(&x));
                assert!(off <= world.residual, "{d}, batch {j}: X is off by 2^{:.1}", off.log2());
                assert!(world.residual <= INVERSE_TOLERANCE, "{d}, batch {j}: {}", world.residual);
                assert!(
                    distance <= world.residual,
                    "{d}, batch {j}: 2^{:.1}, claimed 2^{:.1}",
                    distance.log2(),
                    world.residual.log2()
                );
                let inverse = world.design().try_inverse().unwrap();
                let exact = &inverse * &world.moment;
                assert!((&omega - &exact).amax() < 0.01, "{omega} {exact}");
                if j % 5 != 4 {
                    continue;
                }
                for _ in 0..3 {
                    let arms: Vec<_> = (0..k).map(|_| unit(d, &mut world.rng)).collect();
                    let indices = |of: &dyn Fn(&DVector<f64>) -> [f64; 2]| -> Vec<f64> {
                        arms.iter().map(of).map(|[z, u]| u + 0.5 * z).collect()
                    };
                    let got = indices(&|x| world.scores(&model.scores[0], x));
                    let want = indices(&|x| {
                        let padded = x.clone().resize_vertically(dim, 0.0);
                        [(padded.transpose() * &inverse * &padded)[0], padded.dot(&exact)]
                    });
                    let best = |v: &[f64]| (0..k).fold(0, |best, a| if v[a] > v[best] { a } else { best });
                    let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                    assert!(worst < (-9f64).exp2(), "{d}, batch {j}: scores off by 2^{:.1}", worst.log2());
                    asked += 1;
                    agreed += u32::from(want[best(&want)] - want[best(&got)] < 2.0 * worst);
                }
            }
            assert_eq!(agreed, asked, "{d}");
        }
    }

    /// Batches of bandits that forget: after each update the decrypted inverse is within the claimed bound,
    /// which is within the tolerance and does not grow. Directions are left alone until they are forgotten.
    fn forget(batches: usize) {
        for (discount, window) in [(Some(0.99), None), (None, Some(200))] {
            let mut world = World::of(BanditConfig { discount, window, ..BanditConfig::new(7, 4) });
            let (mut worst, mut claimed) = (0.0f64, 0.0f64);
            for j in 0..batches {
                let contexts: Vec<_> = (0..BATCH)
                    .map(|i| match i % 4 {
                        0 => unit(7, &mut world.rng),
                        _ => DVector::from_fn(7, |i, _| f64::from(u8::from(i == j / 12 % 7))),
                    })
                    .collect();
                world.forget(&contexts);
                let scalars = if j % 32 == 31 { world.cool() } else { world.warm() };
                world.run(&scalars, &honest);
                let distance = world.distance(&world.decrypted());
                assert!(world.residual <= INVERSE_TOLERANCE, "batch {j}: {}", world.residual);
                assert!(distance <= world.residual, "batch {j}: {distance}, claimed {}", world.residual);
                (worst, claimed) = (worst.max(distance), claimed.max(world.residual));
            }
            println!("{discount:?} {window:?}: 2^{:.2}, claimed 2^{:.2}", worst.log2(), claimed.log2());
        }
    }

    #[test]
    fn updates_by_products_keep_the_inverse_of_what_is_not_forgotten() {
        forget(20);
    }

    #[test]
    #[ignore = "long: 3,000 feedbacks under each setting"]
    fn updates_by_products_keep_the_inverse_for_a_year() {
        forget(188);
    }

    /// A first batch of a million feedbacks, most of one direction, takes the inverse from a multiple of I,
    /// and later ones from the last inverse, each with M computed anew before each step. All stay within
    /// their claims, and a wrapped number has a probability below 2⁻²¹ an update.
    #[test]
    fn a_million_feedbacks_have_their_inverse() {
        for (d, k) in [(16, 16), (64, 2)] {
            let mut world = World::new(d, k, 1.0);
            let contexts = |world: &mut World| -> Vec<_> {
                let axis = DVector::from_fn(d, |i, _| f64::from(i == 0));
                (0..BATCH).map(|i| if i > 0 { axis.clone() } else { unit(d, &mut world.rng) }).collect()
            };
            let first = contexts(&mut world);
            world.learn(&first, 62_500);
            for j in 0..3 {
                let scalars = if j == 0 { world.cool() } else { world.warm() };
                assert_eq!(scalars.step(1).map(|step| step.0), Some(ProductStep::Residual));
                let before = world.wraps;
                world.run(&scalars, &honest);
                let (distance, claimed) = (world.distance(&world.decrypted()), world.residual);
                assert!(world.wraps - before < (-21f64).exp2(), "{d}: 2^{}", (world.wraps - before).log2());
                assert!(distance <= claimed, "{d}, batch {j}: {distance}, claimed {claimed}");
                let next = contexts(&mut world);
                world.learn(&next, 1);
            }
        }
    }

    /// A staged bandit has the model of its stages in the places of [`StagedLayout::model`], in one
    /// ciphertext and in several, of which the last has the estimate.
    #[test]
    fn stages_have_the_model_in_their_places() {
        for (arms, parts) in [(128, 1), (256, 2)] {
            let mut world = World::new(7, 4, 0.5);
            let params = world.ring.evaluator.params().clone();
            let mut config = world.config.clone();
            config.linear.k = arms;
            let ring =
                protocol::ScoreRing::with_stages(ckks::LOGN13_LOGQP147_SCORES, Shape::for_problem(7, arms));
            let staged = StagedLayout::new(&config, 1, ring, params.n()).unwrap();
            assert_eq!(staged.model_parts(), parts);
            world.exchanges =
                ProductExchanges::new(&world.layout, &params, world.exchanges.matrices, Some(&staged))
                    .unwrap();
            let contexts: Vec<_> = (0..BATCH).map(|_| unit(7, &mut world.rng)).collect();
            world.learn(&contexts, 1);
            let scalars = world.warm();
            let model = world.run(&scalars, &honest);
            let omega = world.twin(&scalars);
            let want = staged.model(|i, j| world.exact[(i, j)] / scalars.lambda, |j| omega[j]);
            assert_eq!((model.scores.len(), want.len()), (parts, parts));
            for (part, want) in model.scores.iter().zip(&want) {
                assert_eq!(part.scale(), f64::from(LOG_MODEL).exp2());
                let off = decrypt_coefficients(&world.secret, part).with(|got| {
                    got.iter().zip(want).map(|(got, want)| (got - i128::from(*want)).abs()).max().unwrap()
                });
                // Two fresh encryptions, and the noise of X and of ω in units of 2⁻²².
                assert!(off < 64, "{arms}: {off}");
                assert!(want.iter().any(|want| want.abs() > 1 << 18), "{arms}");
            }
        }
    }

    /// Matrices that operands have in several ciphertexts: the inverse is that of exact arithmetic and within
    /// the bound that the server claims, after two updates and after one that begins with a multiple of I,
    /// and the model of stages is that of the twin.
    #[test]
    fn operands_of_several_ciphertexts_keep_the_inverse() {
        for (d, arms, left) in [(20, 8, 4), (64, 2, 8)] {
            let mut world = World::new(d, arms, 1.0);
            let (dim, matrices) = (world.squares.nrows(), world.exchanges.matrices);
            assert_eq!(matrices.left_parts(2 * dim), left);
            for j in 0..3 {
                let contexts: Vec<_> = (0..BATCH).map(|_| unit(d, &mut world.rng)).collect();
                world.learn(&contexts, 1);
                let scalars = if j == 2 { world.cool() } else { world.warm() };
                let model = world.run(&scalars, &honest);
                let omega = world.twin(&scalars);
                let x = world.decrypted();
                let (off, distance) = ((&x - &world.exact).amax(), world.distance(&x));
                assert!(world.residual <= INVERSE_TOLERANCE, "{d}, batch {j}: {}", world.residual);
                assert!(off <= world.residual, "{d}, batch {j}: X is off by 2^{:.1}", off.log2());
                assert!(distance <= world.residual, "{d}, batch {j}: 2^{:.1}", distance.log2());
                let staged = world.layout.staged().unwrap();
                let want = staged.model(|i, j| world.exact[(i, j)] / scalars.lambda, |j| omega[j]);
                assert_eq!(model.scores.len(), want.len());
                for (part, want) in model.scores.iter().zip(&want) {
                    let off = decrypt_coefficients(&world.secret, part).with(|got| {
                        got.iter().zip(want).map(|(got, want)| (got - i128::from(*want)).abs()).max().unwrap()
                    });
                    // Two fresh encryptions, and the noise of X and of ω in units of 2⁻²².
                    assert!(off < 64, "{d}, batch {j}: {off}");
                }
            }
        }
    }

    /// A holder of the key that adds garbage in one step spoils the model. V and g are as before, so that an
    /// update that begins with a multiple of I has the inverse again, where one that begins with the spoilt X
    /// has not.
    #[test]
    fn a_cold_start_forgets_what_a_holder_spoilt() {
        let mut world = World::new(2, 2, 1.0);
        let contexts: Vec<_> = (0..BATCH).map(|_| unit(2, &mut world.rng)).collect();
        world.learn(&contexts, 1);
        let (scalars, n) = (world.warm(), world.ring.evaluator.params().n());
        let spoil = |step: ProductStep, _: usize| match step {
            ProductStep::Newton => vec![1 << LOG_OPERAND; n],
            _ => Vec::new(),
        };
        world.run(&scalars, &spoil);
        assert!(world.distance(&world.decrypted()) > 1.0);
        let scalars = world.warm();
        world.run(&scalars, &honest);
        assert!(world.distance(&world.decrypted()) > 1.0);
        let scalars = world.cool();
        world.run(&scalars, &honest);
        let distance = world.distance(&world.decrypted());
        assert!(distance <= world.residual, "{distance}, {}", world.residual);
    }

    /// The holder of the key adds c·e₀e₁ᵀ to X, and reads g₀ from u₁ in its own decision: the product that
    /// follows is the server's, with the moment that nobody has shown. Hence no device of a user may answer
    /// a step. The control: the scores of an honest holder differ from the exact ones by noise alone.
    #[test]
    fn attack_a_holder_reads_the_moment_by_a_changed_inverse() {
        let read = |lies: bool| {
            let mut world = World::new(2, 2, 1.0);
            let contexts: Vec<_> = (0..BATCH).map(|_| unit(2, &mut world.rng)).collect();
            world.learn(&contexts, 1);
            let (scalars, n) = (world.warm(), world.ring.evaluator.params().n());
            let c = 16.0;
            let at = world.exchanges.matrices.right(0, 1);
            let lie = |step: ProductStep, ciphertext: usize| match (step, ciphertext, lies) {
                (ProductStep::Inverse, 1, true) => {
                    let mut more = vec![0; n];
                    more[at] = (c * f64::from(LOG_OPERAND + LOG_BALANCE).exp2()) as i64;
                    more
                }
                _ => Vec::new(),
            };
            let model = world.run(&scalars, &lie);
            let exact = world.design().try_inverse().unwrap() * &world.moment;
            let [_, u] = world.scores(&model.scores[0], &DVector::from_vec(vec![0.0, 1.0]));
            ((u - exact[1]) / c, world.moment[0])
        };
        let (got, moment) = read(true);
        assert!(moment.abs() > 0.5, "{moment}");
        assert!((got - moment).abs() < (-9f64).exp2(), "{got} for {moment}");
        assert!(read(false).0.abs() < (-12f64).exp2());
    }

    /// A step that is asked again is asked with the same bytes, whatever failed between. Two updates of the
    /// same sums have other masks, and so has each step. What is not of the step is refused, and leaves the
    /// update as it was.
    #[test]
    fn steps_are_resumed_and_refuse_what_is_not_theirs() {
        let mut world = World::new(2, 2, 1.0);
        let contexts: Vec<_> = (0..BATCH).map(|_| unit(2, &mut world.rng)).collect();
        world.learn(&contexts, 1);
        let scalars = world.warm();
        let mut update = world.begin(&scalars);
        let other = world.begin(&scalars);
        let bytes = |world: &World, task: &ProductTask| {
            let params = world.ring.evaluator.params();
            ckks::write_ciphertext(params, world.ring.key_id, &task.masked)
        };
        let mut seen = vec![bytes(&world, &other.task(&world.ring, &world.exchanges).unwrap())];
        let mut last: Option<ProductTask> = None;
        for _ in 0..scalars.steps() {
            let task = update.task(&world.ring, &world.exchanges).unwrap();
            let again = update.clone().task(&world.ring, &world.exchanges).unwrap();
            assert_eq!(bytes(&world, &task), bytes(&world, &again));
            seen.push(bytes(&world, &task));
            let fresh = world.answer(&task, &honest);
            if let Some(last) = &last
                && last.step != task.step
            {
                let refused = update.take(&world.ring, &world.exchanges, last, fresh.clone());
                assert!(matches!(refused, Err(Error::Broken(_))), "{refused:?}");
            }
            let mut more = fresh.clone();
            more.push(fresh[0].clone());
            let refused = update.take(&world.ring, &world.exchanges, &task, more);
            let wrong = |error: &Error| matches!(error, Error::Ckks(ckks::Error::CiphertextCount { .. }));
            assert!(refused.as_ref().is_err_and(wrong), "{refused:?}");
            let rescaled = fresh.iter().map(|ct| ct.clone().with_scale(2.0)).collect();
            let refused = update.take(&world.ring, &world.exchanges, &task, rescaled);
            let wrong = |error: &Error| matches!(error, Error::Ckks(ckks::Error::ScaleMismatch { .. }));
            assert!(refused.as_ref().is_err_and(wrong), "{refused:?}");
            update.take(&world.ring, &world.exchanges, &task, fresh).unwrap();
            last = Some(task);
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), scalars.steps() + 1);
    }
}
