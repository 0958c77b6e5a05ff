//! The parameter set of a problem and its costs.

use crate::Error;
use crate::count::{Op, OperationCounter};
use crate::kernel::{self, KernelSeconds};
use crate::messages::messages;
use crate::price::{MEASURED_AT, Prices};
use bandit::Schedule;
use circuits::Counts;
use circuits::inverse::Newton;
use ckks::{Gadget, KeyStorage, KeySwitchKey, Params, Security};
use fault::OutOfRange;
use helba::circuit::DecisionCircuit;
use helba::{Scalars, update};
use protocol::levels::{ANSWER_LEVEL, DecisionLevels, PRODUCTS_LEVEL, UpdateLevels};
use protocol::{AnswerLayout, Automorphism, BanditConfig, KeyPlan, Plan, Rings, Shape, WidthShape};
use rns::Kernel;
use serde::Serialize;
use std::collections::BTreeMap;

/// Levels of one step, in the order of the data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Depth {
    /// The step.
    pub step: &'static str,
    /// Levels it takes.
    pub levels: usize,
}

/// Keys of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeyCost {
    /// The operations that need them.
    pub kind: &'static str,
    /// How many.
    pub count: usize,
    /// Bytes in the bundle, all together.
    pub bytes: u64,
    /// Bytes in a server's memory, all together.
    pub memory: u64,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MessageCost {
    /// Its content and its direction.
    pub what: &'static str,
    /// Bytes of its ciphertexts.
    pub bytes: u64,
}

/// Numbers of operations of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// Relinearisations.
    pub products: usize,
    /// Products with plaintexts, and linear combinations.
    pub plain_products: usize,
    /// Rotations by an offset that is not 0, and conjugations.
    pub rotations: usize,
    /// Linear transforms.
    pub transforms: usize,
}

/// Seconds on a machine like the one of the record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Seconds {
    /// Threads.
    pub threads: usize,
    /// The scores of one user and their place in the pack.
    pub user: f64,
    /// Square root, comparison, product of rows and the fold of the answers, once for all users of an
    /// evaluation.
    pub evaluation: f64,
    /// The mask and the noise of one user's answer.
    pub answer: f64,
    /// Counting a feedback.
    pub feedback: f64,
    /// A batch update, which runs beside the rounds.
    pub update: f64,
    /// What a user alone waits for of its round: scores, evaluation, answer and feedback. The raise comes on
    /// top.
    pub round: f64,
    /// All rounds of users alone, and as many updates as there can be.
    pub all_rounds_at_most: f64,
}

/// What is different under the paper's schedule, `trace_or_growth`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traced {
    /// The most users of an evaluation, in which the trace has a place.
    pub users: usize,
    /// The largest number of batch updates.
    pub updates_at_most: u64,
    /// Predictions on one and two threads, for the kernels that this process runs.
    pub seconds: Vec<TracedSeconds>,
}

/// Seconds under `trace_or_growth`, as those of [`Seconds`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TracedSeconds {
    /// Threads.
    pub threads: usize,
    /// An evaluation with the trace in the place of a user, and the question to a device.
    pub evaluation: f64,
    /// Counting a feedback, and adding the statistics of the trace.
    pub feedback: f64,
    /// A batch update.
    pub update: f64,
}

/// The plan of a problem.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Features asked for.
    pub features: usize,
    /// Arms asked for.
    pub arms: usize,
    /// Rounds asked for.
    pub rounds: u64,
    /// Name of the parameter set.
    pub params: &'static str,
    /// The reasons for this set.
    pub why: Vec<String>,
    /// log₂ of the ring degree.
    pub log_n: u32,
    /// Levels of the set.
    pub levels: usize,
    /// log₂ of the widest modulus.
    pub log2_qp: f64,
    /// The limit of the security table on it.
    pub log2_qp_allowed: Option<u32>,
    /// Bits of security claimed.
    pub security_bits: u32,
    /// log₂ of N', the degree of the ring of scores.
    pub log_n_of_scores: u32,
    /// The most users of an evaluation.
    pub users: usize,
    /// Levels of an evaluation of several users by step; they add up to the level of raised scores. A user
    /// alone takes no mask.
    pub decision_depth: Vec<Depth>,
    /// Levels of a batch update by step; they add up to the statistics' level.
    pub update_depth: Vec<Depth>,
    /// Slots of a user of an evaluation, and of an update.
    pub slots: [usize; 2],
    /// Slots of the ring.
    pub slots_available: usize,
    /// The server's keys.
    pub keys: Vec<KeyCost>,
    /// Messages.
    pub messages: Vec<MessageCost>,
    /// A server's memory for one bandit with keys, state and scratch, in bytes; it takes more while it loads
    /// a bundle.
    pub memory: u64,
    /// Operations of an evaluation, without its answers.
    pub decision_operations: Operations,
    /// Operations of a batch update.
    pub update_operations: Operations,
    /// The largest number of batch updates.
    pub updates_at_most: u64,
    /// Predictions on one and two threads, for the kernels that this process runs.
    pub seconds: Vec<Seconds>,
    /// What is different under `trace_or_growth`. `None` if the default settings do not fit that schedule.
    pub traced: Option<Traced>,
    /// The kernels that this process runs.
    #[serde(serialize_with = "kernel::word")]
    pub kernel: Kernel,
    /// Predictions for the kernels with prices, the fastest last.
    pub kernels: Vec<KernelSeconds>,
    /// The set that prices were measured at.
    pub measured_at: &'static str,
}

/// Plans a bandit of `features` features and `arms` arms for `rounds` rounds with default settings.
///
/// Seconds come from prices measured at one set, carried over by the limbs each operation touches: recorded
/// comparisons and updates took 0.9 to 1.3 times what is predicted of them.
/// Everything else is exact. [`Security::None`] allows sets without security.
///
/// # Errors
/// [`Error::NoPlan`], which says what would work, for a problem that no set carries; [`Error::Ckks`] never in
/// practice.
pub fn plan(features: usize, arms: usize, rounds: u64, security: Security) -> Result<Report, Error> {
    plan_with(WidthShape::default(), features, arms, rounds, security)
}

/// [`plan`] for a width of this shape.
pub(crate) fn plan_with(
    shape: WidthShape,
    features: usize,
    arms: usize,
    rounds: u64,
    security: Security,
) -> Result<Report, Error> {
    let (keys, rings, config) =
        carried(shape, features, arms, rounds, security).map_err(|error| match error {
            Error::Protocol(why) => Error::no_plan(features, arms, rounds, why),
            other => other,
        })?;
    let config = config.exploring(Some(shape), None, None)?;
    let shape = Shape::for_problem(features, arms);
    let levels = config.plan(&rings, shape, keys.scores)?;
    let Rings { updates: params, decisions: evaluating, .. } = &rings;
    let small = keys.scores.params.validate()?;
    let circuits = Circuits::new(&config, &keys, shape, &levels, &small)?;
    let decision = DecisionLevels::new(&config, shape)?;
    let decision_depth = [
        ("square root", decision.square_root),
        ("comparison", decision.comparison),
        ("product over a row of pairs", decision.row_product),
        ("fold or exchange of the answers", PRODUCTS_LEVEL),
    ];
    let update = UpdateLevels::new(levels.newton_steps);
    let update_depth = [
        ("first product", update.first_product),
        ("Newton's steps", update.newton),
        ("estimate", update.estimate),
        ("scale of the refresh", update.scale),
        ("left for the mask of the refresh", update.refresh),
    ];
    let depth = |list: &[(&'static str, usize)]| {
        list.iter().map(|&(step, levels)| Depth { step, levels }).collect::<Vec<_>>()
    };
    let key_costs = key_costs(&rings, &keys)?;
    // Model, statistics and those of an update that runs; in the ring of scores model, sum and trace.
    let state: u64 = [levels.model_level, levels.statistics_level, levels.statistics_level]
        .map(|level| memory_of(params, 2 * (level + 1)))
        .iter()
        .sum::<u64>()
        + 3 * memory_of(&small, 2 * (small.max_level() + 1));
    // Powers of the polynomial's argument, digits and two polynomials modulo QP.
    let wide = params.qp_basis(params.max_level()).len();
    let scratch = memory_of(params, 12 * wide + 2 * params.galois_gadget().digits(params.max_level()));
    let updates_at_most = config.linear.max_batches(rounds).saturating_sub(1);
    let reference = MEASURED_AT.validate()?;
    let seconds = |kernel| -> Vec<Seconds> {
        let on = |threads| {
            let rings = [params, evaluating, &small, &circuits.answers];
            let prices = rings.map(|params| Prices::new(params, &reference, kernel, threads));
            circuits.seconds(prices.each_ref(), rounds, updates_at_most)
        };
        [1, 2].map(on).into()
    };
    let traced = traced(&config, &keys, &rings, &small, kernel::price_of(rns::kernels()))?;
    let kernel = rns::kernels();
    let kernels = kernel::priced().into_iter().map(|kernel| KernelSeconds {
        kernel,
        available: kernel.is_available(),
        seconds: seconds(kernel),
    });
    let kernels = kernels.collect();
    let spec = *params.spec();
    let top = params.max_level();
    let why = vec![
        format!(
            "with {} padded features and {} padded arms, a user takes {} of {} slots, and an update {} of {}",
            shape.dim,
            shape.arm_slots,
            shape.user_slots(),
            evaluating.max_slots(),
            shape.update_slots(),
            params.max_slots()
        ),
        match &keys.decisions {
            None => format!(
                "an evaluation takes {} levels and an update {}: the fastest set with so many levels and slots has {top}",
                levels.scores_level, levels.statistics_level
            ),
            Some(keys) => format!(
                "an evaluation takes {} levels, for which there is a ring of its own, {}; an update takes {} of {top}",
                levels.scores_level, keys.params.name, levels.statistics_level
            ),
        },
        format!(
            "the numbers of an arm take {} of {} coefficients between the scores in the ring of scores",
            shape.dim * (shape.dim + 3) / 2,
            keys.scores.gap
        ),
        format!(
            "the wider P, the fewer digits a key switch has: {} of a rotation, {} of a product",
            params.galois_gadget().digits(top),
            params.relin_gadget().digits(top)
        ),
    ];
    Ok(Report {
        features,
        arms,
        rounds,
        params: spec.name,
        why,
        log_n: spec.log_n,
        levels: top,
        log2_qp: params.log_qp(),
        log2_qp_allowed: match spec.security {
            Security::None => None,
            security => security.max_log_qp(spec.log_n),
        },
        security_bits: spec.security.bits(),
        log_n_of_scores: keys.scores.params.log_n,
        users: levels.users,
        decision_depth: depth(&decision_depth),
        update_depth: depth(&update_depth),
        slots: [shape.user_slots(), shape.update_slots()],
        slots_available: params.max_slots().min(evaluating.max_slots()),
        memory: key_costs.iter().map(|k| k.memory).sum::<u64>() + state + scratch,
        keys: key_costs,
        messages: messages(&config, &levels, &rings, &small, &circuits.answers, keys.scores)?,
        decision_operations: circuits.evaluation.operations(),
        update_operations: circuits.update.operations(),
        updates_at_most,
        seconds: seconds(kernel::price_of(kernel)),
        traced,
        kernel,
        kernels,
        measured_at: MEASURED_AT.name,
    })
}

/// What is different if `config` has the schedule `trace_or_growth`.
fn traced(
    config: &BanditConfig,
    keys: &KeyPlan,
    rings: &Rings,
    small: &Params,
    kernel: Kernel,
) -> Result<Option<Traced>, Error> {
    let shape = Shape::for_problem(config.linear.d, config.linear.k);
    let mut config = config.clone();
    config.linear.schedule = Schedule::TraceOrGrowth;
    let Ok(levels) = config.plan(rings, shape, keys.scores) else { return Ok(None) };
    let circuits = Circuits::new(&config, keys, shape, &levels, small)?;
    let updates_at_most = config.linear.max_batches(config.horizon).saturating_sub(1);
    let reference = MEASURED_AT.validate()?;
    let seconds = [1, 2].map(|threads| {
        let rings = [&rings.updates, &rings.decisions, small, &circuits.answers];
        let prices = rings.map(|params| Prices::new(params, &reference, kernel, threads));
        let Seconds { threads, user, evaluation, feedback, update, .. } =
            circuits.seconds(prices.each_ref(), config.horizon, updates_at_most);
        // The trace is a product, as the scores of a user are.
        let evaluation = evaluation + user + circuits.question_seconds(&prices[1]);
        TracedSeconds { threads, evaluation, feedback: 2.0 * feedback, update }
    });
    Ok(Some(Traced { users: levels.users, updates_at_most, seconds: seconds.into() }))
}

/// Keys, parameters and configuration that carry the problem.
pub(crate) fn carried(
    width: WidthShape,
    features: usize,
    arms: usize,
    rounds: u64,
    security: Security,
) -> Result<(KeyPlan, Rings, BanditConfig), Error> {
    for (field, value, most) in [("features", features, 256), ("arms", arms, protocol::MOST_ARMS)] {
        // Beyond that no set fits, and the power of two must not overflow.
        if !(1..=most).contains(&value) {
            let want = format!("from 1 to {most}");
            return Err(protocol::Error::OutOfRange(OutOfRange::new(field, value, want)).into());
        }
    }
    let shape = Shape::for_problem(features, arms);
    let keys = KeyPlan::with_security(shape, security, width)?;
    let rings = keys.rings()?;
    let config = BanditConfig { horizon: rounds, ..BanditConfig::new(features, arms) };
    config.plan(&rings, shape, keys.scores)?;
    Ok((keys, rings, config))
}

/// "1 arm", "2 arms".
pub(crate) fn many(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The nearest problems that some set carries, as the end of a refusal.
pub(crate) fn alternatives(features: usize, arms: usize, rounds: u64, why: &protocol::Error) -> String {
    use protocol::Error::{Coefficients, Depth, OutOfRange, Slots};
    if !matches!(
        why,
        Depth { .. }
            | Slots { .. }
            | Coefficients { .. }
            | OutOfRange(fault::OutOfRange { field: "features" | "arms", .. })
    ) {
        return "change that".into();
    }
    let works =
        |d: usize, k: usize| carried(WidthShape::default(), d, k, rounds, Security::Classical128).is_ok();
    let most = |f: &dyn Fn(usize) -> bool| (0..=8).rev().map(|log| 1 << log).find(|&x| x > 1 && f(x));
    let mut options = Vec::new();
    if let Some(k) = most(&|k| works(features, k)) {
        options.push(format!("{} with up to {k} arms", many(features as u64, "feature")));
    }
    if let Some(d) = most(&|d| works(d, arms)) {
        options.push(format!("{} with up to {d} features", many(arms as u64, "arm")));
    }
    match options.is_empty() {
        true => {
            let d = most(&|d| works(d, 1)).unwrap_or(0);
            let k = most(&|k| works(d, k)).unwrap_or(0);
            format!(
                "split the arms or shorten the features: no ring has slots for more than {d} features with {k} arms"
            )
        }
        false => format!("what would work: {}", options.join("; ")),
    }
}

/// Bytes of `limbs` limbs in memory.
fn memory_of(params: &Params, limbs: usize) -> u64 {
    (limbs * params.n() * 8) as u64
}

/// Bytes of a frame with a seed and `parts` polynomials over `basis`.
fn seeded_frame(basis: &rns::Basis, parts: usize) -> u64 {
    let poly: usize = (0..basis.len()).map(|i| basis.modulus(i).bits() as usize * basis.n() / 8).sum();
    (ckks::FRAME_HEADER_BYTES + 32 + parts * poly + ckks::FRAME_DIGEST_BYTES) as u64
}

fn key_costs(rings: &Rings, keys: &KeyPlan) -> Result<Vec<KeyCost>, Error> {
    let params = &rings.updates;
    let rotations = |storage| -> Vec<_> {
        keys.galois.iter().filter(|key| key.storage == storage).map(|key| (key.level, storage)).collect()
    };
    let (relin, galois) = (params.relin_gadget(), params.galois_gadget());
    let mut costs = vec![
        public_key_cost("public key", params),
        switch_cost("relinearisation", params, relin, &[(keys.relin_level, KeyStorage::Expanded)]),
        switch_cost("rotations of decisions", params, galois, &rotations(KeyStorage::Expanded)),
        switch_cost("rotations of updates alone, seeded", params, galois, &rotations(KeyStorage::Seeded)),
    ];
    if let Some(keys) = &keys.decisions {
        let params = &rings.decisions;
        let (relin, galois) = (params.relin_gadget(), params.galois_gadget());
        let rotations: Vec<_> = keys.galois.iter().map(|key| (key.level, key.storage)).collect();
        let top = (params.max_level(), KeyStorage::Expanded);
        costs.extend([
            public_key_cost("public key of evaluations", params),
            switch_cost("relinearisation of evaluations", params, relin, &[top]),
            switch_cost("rotations of evaluations", params, galois, &rotations),
        ]);
    }
    let params = keys.scores.params.validate()?;
    let (relin, galois) = (params.relin_gadget(), params.galois_gadget());
    let key = (params.max_level(), KeyStorage::Expanded);
    let packing = vec![key; ckks::pack_elements(&params, keys.scores.gap)?.len()];
    costs.extend([
        public_key_cost("public key of the ring of scores", &params),
        switch_cost("relinearisation of scores", &params, relin, &[key]),
        switch_cost("packing of scores", &params, galois, &packing),
    ]);
    let params = keys.answers.params.validate()?;
    let key = (params.max_level(), KeyStorage::Expanded);
    let answers = vec![key; keys.answers.switch + keys.answers.rotations.len()];
    costs.push(switch_cost("ring switch and fold of answers", &params, params.galois_gadget(), &answers));
    Ok(costs)
}

fn public_key_cost(kind: &'static str, params: &Params) -> KeyCost {
    let top = params.max_level();
    let (bytes, memory) = (seeded_frame(params.q_basis(top), 1), memory_of(params, 2 * (top + 1)));
    KeyCost { kind, count: 1, bytes, memory }
}

/// The cost of key-switch keys of these levels.
fn switch_cost(
    kind: &'static str,
    params: &Params,
    gadget: &Gadget,
    keys: &[(usize, KeyStorage)],
) -> KeyCost {
    let memory = |&(l, storage): &(usize, _)| KeySwitchKey::bytes_at(params, gadget, l, storage) as u64;
    KeyCost {
        kind,
        count: keys.len(),
        bytes: keys.iter().map(|&(l, _)| seeded_frame(params.qp_basis(l), gadget.digits(l))).sum(),
        memory: keys.iter().map(memory).sum(),
    }
}

/// A circuit's operations by level, and its own count of them.
#[derive(Default)]
struct Circuit {
    steps: BTreeMap<(Op, usize), usize>,
    counts: Counts,
}

impl Circuit {
    fn of(counter: &OperationCounter) -> Self {
        Circuit { steps: counter.steps(), counts: counter.counts() }
    }

    fn operations(&self) -> Operations {
        let c = &self.counts;
        Operations {
            products: c.products,
            plain_products: c.plain_products,
            rotations: c.rotations + c.conjugations,
            transforms: c.transforms,
        }
    }

    fn seconds(&self, prices: &Prices) -> f64 {
        self.steps.iter().map(|(&(op, level), &times)| times as f64 * prices.seconds(op, level)).sum()
    }
}

/// The counted circuits of a bandit, and the sizes that its other costs depend on.
struct Circuits {
    /// What follows the raise.
    evaluation: Circuit,
    update: Circuit,
    /// The parameters of answers.
    answers: Params,
    /// The parts of a ring switch, and the moves of the fold.
    parts: usize,
    moves: usize,
    /// The top level of the ring of scores.
    scores_top: usize,
    levels: Plan,
}

impl Circuits {
    fn new(
        config: &BanditConfig,
        keys: &KeyPlan,
        shape: Shape,
        levels: &Plan,
        small: &Params,
    ) -> Result<Self, Error> {
        let slots = 1 << (keys.decisions.as_ref().map_or(keys.params, |keys| keys.params).log_n - 1);
        // The number of operations does not depend on values, so that any scalars serve.
        let circuit = DecisionCircuit::new(config, Scalars::new(config, 1, 0), shape, slots)?;
        let counter = OperationCounter::new(slots)?;
        // The evaluations that prices and ways were compared with had a level more.
        let more = usize::from(keys.decisions.is_none());
        circuit.products(&counter, &counter.fresh(levels.scores_level + more)?)?;
        let evaluation = Circuit::of(&counter);

        let seeded = keys.galois.iter().filter(|key| key.storage == KeyStorage::Seeded);
        let seeded = seeded.filter_map(|key| match key.automorphism {
            Automorphism::Rotation(k) => Some(k),
            Automorphism::Conjugation => None,
        });
        let counter = OperationCounter::with_seeded(shape.update_slots(), seeded.collect())?;
        let newton = Newton::new(shape.dim, 1.0, &vec![1.0; levels.newton_steps], levels.design_scale)?;
        let statistics = counter.fresh(levels.statistics_level)?;
        let model = counter.fresh(levels.model_level)?;
        update::batch_update(&counter, &newton, &statistics, &model)?;
        let update = Circuit::of(&counter);
        Ok(Circuits {
            evaluation,
            update,
            answers: keys.answers.params.validate()?,
            parts: keys.answers.switch,
            moves: AnswerLayout::new(keys.scores, shape, slots).moves(&[0]).len(),
            scores_top: small.max_level(),
            levels: levels.clone(),
        })
    }

    /// A batch update, and the mask of its result.
    fn update_seconds(&self, prices: &Prices) -> f64 {
        let level = self.levels.refresh_level;
        self.update.seconds(prices) + prices.seconds(Op::Adjust, level + 1) + 2.0 * prices.encryption(level)
    }

    /// The trace question: a masked entry, and a zero at the level of an answer.
    fn question_seconds(&self, evaluating: &Prices) -> f64 {
        let values = 1 << (evaluating.log_n() - 1);
        let level = ANSWER_LEVEL + 1;
        evaluating.seconds(Op::Adjust, level + 1)
            + evaluating.seconds(Op::Encode { values, wide: false }, level)
            + evaluating.seconds(Op::PlainProduct { terms: 1 }, level)
            + evaluating.encryption(ANSWER_LEVEL)
    }

    /// From the prices in the rings of updates, of evaluations, of scores and of answers.
    fn seconds(&self, prices: [&Prices; 4], rounds: u64, updates: u64) -> Seconds {
        let ([deep, evaluating, scores, answers], top) = (prices, self.scores_top);
        // A product of two ciphertexts, and in the mean one merge of two packs: an automorphism, two products
        // with a monomial and two sums.
        let user = scores.seconds(Op::Product { products: 1, terms: 0 }, top)
            + scores.seconds(Op::Rotations { count: 1 }, top)
            + 4.0 * scores.seconds(Op::Add, top);
        // Each part of the switch is decomposed, multiplied by the keys of all parts, and divided. A move is
        // a sum of plain products and a rotation.
        let level = PRODUCTS_LEVEL;
        let switch = self.parts as f64 * answers.seconds(Op::Rotations { count: self.parts }, level);
        let fold = self.moves as f64 * answers.seconds(Op::PlainProduct { terms: self.parts }, level)
            + (self.moves - 1) as f64 * answers.seconds(Op::Rotations { count: 1 }, level);
        let evaluation = self.evaluation.seconds(evaluating) + evaluating.encryption(level) + switch + fold;
        let answer = 0.5 * answers.encryption(ANSWER_LEVEL);
        let feedback = scores.seconds(Op::Add, top);
        let update = self.update_seconds(deep);
        let round = user + evaluation + answer + feedback;
        let all_rounds_at_most = rounds as f64 * round + updates as f64 * update;
        let threads = deep.threads();
        Seconds { threads, user, evaluation, answer, feedback, update, round, all_rounds_at_most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuits_of(d: usize, k: usize) -> Circuits {
        let (keys, rings, config) =
            carried(WidthShape::default(), d, k, 1000, Security::Classical128).unwrap();
        let shape = Shape::for_problem(d, k);
        let levels = config.plan(&rings, shape, keys.scores).unwrap();
        Circuits::new(&config, &keys, shape, &levels, &keys.scores.params.validate().unwrap()).unwrap()
    }

    /// The priced operations are those that the circuits count themselves.
    #[test]
    fn priced_operations_are_the_circuits_own() {
        for (d, k) in [(2, 2), (7, 4), (8, 8), (16, 16), (16, 32), (16, 64)] {
            let circuits = circuits_of(d, k);
            for circuit in [&circuits.evaluation, &circuits.update] {
                let of = |f: &dyn Fn(Op) -> usize| -> usize {
                    circuit.steps.iter().map(|(&(op, _), times)| times * f(op)).sum()
                };
                let c = circuit.counts;
                let once = |yes| usize::from(yes);
                assert_eq!(of(&|op| once(matches!(op, Op::Product { .. }))), c.products);
                assert_eq!(of(&|op| once(matches!(op, Op::PlainProduct { .. }))), c.plain_products);
                assert_eq!(of(&|op| once(matches!(op, Op::Transform { .. }))), c.transforms);
                let rotations = of(&|op| match op {
                    Op::Rotations { count } => count,
                    Op::Transform { babies, giants, .. } => babies.unwrap_or(0) + giants,
                    _ => 0,
                });
                assert_eq!(rotations, c.rotations + c.conjugations);
            }
        }
    }

    /// More arms, more features and fewer threads never cost less.
    #[test]
    fn predictions_grow_with_the_problem() {
        let round = |d, k| plan(d, k, 100, Security::Classical128).unwrap().seconds[0];
        let [small, arms, both, most] = [round(2, 2), round(2, 8), round(16, 16), round(16, 64)];
        assert!(0.0 < small.round && small.round < arms.round && arms.round < both.round);
        assert!(both.round < most.round && 0.0 < small.update && small.update < both.update);
        for s in [small, arms, both] {
            assert!(0.0 < s.user && s.user < s.evaluation / 50.0);
            assert!(0.0 < s.feedback && s.feedback < s.answer && s.answer < s.user);
        }
    }

    /// Predictions against steps measured with each kernel, under a root. The prices are of another hour of
    /// such a machine, in which everything may take a fifth longer or less.
    #[test]
    fn steps_take_what_is_predicted() {
        let record = std::fs::read_to_string("../../benches/record/2026-11-24-costs.csv").unwrap();
        let rows: Vec<Vec<&str>> = record.lines().skip(1).map(|line| line.split(',').collect()).collect();
        let mut compared = 0;
        for (d, k) in [(2, 2), (8, 8), (16, 16), (16, 64)] {
            let report = plan_with(WidthShape::Root, d, k, 1000, Security::Classical128).unwrap();
            for of_kernel in report.kernels {
                let kernel = of_kernel.kernel.to_string();
                for s in &of_kernel.seconds {
                    for (step, predicted) in [("evaluate", s.evaluation), ("update", s.update)] {
                        let start = format!("helba/{step}/d={d};K={k}/l=");
                        let end = format!("/threads={}", s.threads);
                        let of = |row: &&Vec<&str>| {
                            row[3] == kernel && row[4].starts_with(&start) && row[4].ends_with(&end)
                        };
                        let Some(row) = rows.iter().find(of) else { continue };
                        let ratio = row[5].parse::<f64>().unwrap() * 1e-9 / predicted;
                        println!("{step} of {d}, {k}, {kernel}{end}: {ratio:.2}");
                        assert!(
                            (1.0 / 1.3..1.3).contains(&ratio),
                            "{step} of {d}, {k}, {kernel}{end}: {ratio}"
                        );
                        compared += 1;
                    }
                }
            }
        }
        // The slower kernels were measured on fewer problems.
        assert_eq!(compared, 4 * (4 + 3 + 2));
    }
}
