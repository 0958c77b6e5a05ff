//! The parameter set of a problem and its costs.

use crate::Error;
use crate::count::{Op, OperationCounter};
use crate::kernel::{self, KernelSeconds};
use crate::packed::PackedCosts;
use crate::price::{MEASURED_AT, Prices};
use circuits::Counts;
use circuits::inverse::Newton;
use ckks::{Gadget, KeyStorage, KeySwitchKey, Params, Security, ciphertext_bytes};
use fault::OutOfRange;
use helba::decide::DecisionCircuit;
use helba::{Scalars, update};
use protocol::levels::{DecisionLevels, UpdateLevels};
use protocol::{Automorphism, BanditConfig, KeyPlan, Shape};
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
    /// The index of all arms.
    pub score: f64,
    /// Comparison and product of rows.
    pub compare: f64,
    /// The answer's masks and noise.
    pub answer: f64,
    /// Counting a feedback.
    pub feedback: f64,
    /// A batch update, which runs beside the rounds.
    pub update: f64,
    /// The part of a round that a user waits for: score, compare, answer, feedback.
    pub round: f64,
    /// All rounds, and as many updates as there can be.
    pub all_rounds_at_most: f64,
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
    /// Levels of a decision by step; they add up to the contexts' level.
    pub decision_depth: Vec<Depth>,
    /// Levels of a batch update by step; they add up to the statistics' level.
    pub update_depth: Vec<Depth>,
    /// Slots a decision and an update use.
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
    /// Operations of a decision.
    pub decision_operations: Operations,
    /// Operations of a batch update.
    pub update_operations: Operations,
    /// The largest number of batch updates.
    pub updates_at_most: u64,
    /// Predictions on one and two threads, for the kernels that this process runs.
    pub seconds: Vec<Seconds>,
    /// The costs of packed decisions, if the keys have a ring of scores.
    pub packed: Option<PackedCosts>,
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
/// scores, comparisons, updates and whole decisions took 0.9 to 1.3 times what is predicted of them.
/// Everything else is exact. `toy` allows sets without security.
///
/// # Errors
/// [`Error::NoPlan`], which says what would work, for a problem that no set carries; [`Error::Ckks`] never in
/// practice.
pub fn plan(features: usize, arms: usize, rounds: u64, toy: bool) -> Result<Report, Error> {
    let (keys, params, config) = carried(features, arms, rounds, toy).map_err(|error| match error {
        Error::Protocol(why) => Error::no_plan(features, arms, rounds, why),
        other => other,
    })?;
    let shape = Shape::for_problem(features, arms);
    let levels = config.plan(&params, shape)?;
    let circuits = Circuits::new(&config, &keys, shape, &levels)?;
    let decision = DecisionLevels::new(&config, shape)?;
    let decision_depth = [
        ("product with the model", decision.product),
        ("mask", decision.mask),
        ("square root", decision.square_root),
        ("comparison", decision.comparison),
        ("product over a row of pairs", decision.row_product),
        ("answer's mask", decision.answer_mask),
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
    let key_costs = key_costs(&params, &keys)?;
    let state: u64 =
        [levels.model_level, levels.statistics_level, levels.trace_level, levels.statistics_level]
            .iter()
            .map(|&level| memory_of(&params, 2 * (level + 1)))
            .sum();
    // Powers of the polynomial's argument, digits and two polynomials modulo QP.
    let wide = params.qp_basis(params.max_level()).len();
    let scratch = memory_of(&params, 12 * wide + 2 * params.galois_gadget().digits(params.max_level()));
    let updates_at_most = config.linear.max_batches(rounds).saturating_sub(1);
    let seconds = |kernel| -> Result<Vec<Seconds>, Error> {
        let on = |threads| -> Result<Seconds, Error> {
            Ok(circuits.seconds(&Prices::new(&params, kernel, threads)?, rounds, updates_at_most))
        };
        [1, 2].into_iter().map(on).collect()
    };
    let kernel = rns::kernels();
    let kernels = kernel::priced().into_iter().map(|kernel| {
        Ok(KernelSeconds { kernel, available: kernel.is_available(), seconds: seconds(kernel)? })
    });
    let kernels = kernels.collect::<Result<_, Error>>()?;
    let packed = keys.scores.map(|ring| PackedCosts::new(&config, &params, shape, ring, kernel));
    let spec = *params.spec();
    let top = params.max_level();
    let why = vec![
        format!(
            "{} padded features and {} padded arms take {} of {} slots",
            shape.dim,
            shape.arm_slots,
            shape.slots(),
            params.max_slots()
        ),
        format!(
            "a decision takes {} levels and an update {}: the fastest set with so many levels and slots has {top}",
            levels.context_level, levels.statistics_level
        ),
        format!(
            "the wider P, the fewer digits a key switch has: {} of a rotation, below the first product, {} of a product",
            params.galois_gadget().digits(top - 1),
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
        decision_depth: depth(&decision_depth),
        update_depth: depth(&update_depth),
        slots: [shape.decision_slots(), shape.update_slots()],
        slots_available: params.max_slots(),
        memory: key_costs.iter().map(|k| k.memory).sum::<u64>() + state + scratch,
        keys: key_costs,
        messages: message_costs(&params, &levels, !config.linear.schedule.is_public()),
        decision_operations: circuits.decision.operations(),
        update_operations: circuits.update.operations(),
        updates_at_most,
        seconds: seconds(kernel::price_of(kernel))?,
        packed: packed.transpose()?,
        kernel,
        kernels,
        measured_at: MEASURED_AT.name,
    })
}

/// Keys, parameters and configuration that carry the problem.
fn carried(
    features: usize,
    arms: usize,
    rounds: u64,
    toy: bool,
) -> Result<(KeyPlan, Params, BanditConfig), Error> {
    for (field, value, most) in [("features", features, 256), ("arms", arms, protocol::MOST_ARMS)] {
        // Beyond that no set fits, and the power of two must not overflow.
        if !(1..=most).contains(&value) {
            let want = format!("from 1 to {most}");
            return Err(protocol::Error::OutOfRange(OutOfRange::new(field, value, want)).into());
        }
    }
    let shape = Shape::for_problem(features, arms);
    let keys = KeyPlan::new(shape, toy)?;
    let params = keys.params.validate()?;
    let config = BanditConfig { horizon: rounds, ..BanditConfig::new(features, arms) };
    config.plan(&params, shape)?;
    Ok((keys, params, config))
}

/// "1 arm", "2 arms".
pub(crate) fn many(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The nearest problems that some set carries, as the end of a refusal.
pub(crate) fn alternatives(features: usize, arms: usize, rounds: u64, why: &protocol::Error) -> String {
    use protocol::Error::{Depth, OutOfRange, Slots};
    if !matches!(
        why,
        Depth { .. } | Slots { .. } | OutOfRange(fault::OutOfRange { field: "features" | "arms", .. })
    ) {
        return "change that".into();
    }
    let works = |d: usize, k: usize| carried(d, k, rounds, false).is_ok();
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

fn key_costs(params: &Params, keys: &KeyPlan) -> Result<Vec<KeyCost>, Error> {
    let rotations = |storage| -> Vec<_> {
        keys.galois.iter().filter(|key| key.storage == storage).map(|key| (key.level, storage)).collect()
    };
    let (relin, galois) = (params.relin_gadget(), params.galois_gadget());
    let mut costs = vec![
        public_key_cost("public key", params),
        switch_cost("relinearisation", params, relin, &[(keys.relin_level, KeyStorage::Expanded)]),
        switch_cost("rotations and conjugation", params, galois, &rotations(KeyStorage::Expanded)),
        switch_cost("rotations of updates alone, seeded", params, galois, &rotations(KeyStorage::Seeded)),
    ];
    if let Some(ring) = keys.scores {
        let params = ring.params.validate()?;
        let (relin, galois) = (params.relin_gadget(), params.galois_gadget());
        let key = (params.max_level(), KeyStorage::Expanded);
        let packing = vec![key; ckks::pack_elements(&params, ring.gap)?.len()];
        costs.extend([
            public_key_cost("public key of the ring of scores", &params),
            switch_cost("relinearisation of scores", &params, relin, &[key]),
            switch_cost("packing of scores", &params, galois, &packing),
        ]);
    }
    if let Some(answers) = &keys.answers {
        let params = answers.params.validate()?;
        let level = params.max_level();
        let keys = vec![(level, KeyStorage::Expanded); answers.switch + answers.rotations.len()];
        costs.push(switch_cost("ring switch and fold of answers", &params, params.galois_gadget(), &keys));
    }
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

fn message_costs(params: &Params, levels: &protocol::Plan, asks: bool) -> Vec<MessageCost> {
    let frame = |level, seeded| ciphertext_bytes(params, level, seeded) as u64;
    let message = |what, bytes| MessageCost { what, bytes };
    let question = message(
        "trace comparison, to the device, where the batch may end",
        frame(levels.answer_level, false),
    );
    let mut out = vec![
        message("contexts, to the server", frame(levels.context_level, true)),
        message("action, to the device", frame(levels.answer_level, false)),
    ];
    out.extend(asks.then_some(question));
    out.extend([
        message(
            "feedback, to the server",
            frame(levels.statistics_level, true) + frame(levels.trace_level, true),
        ),
        message("masked model, to the device, once a batch", frame(levels.refresh_level, false)),
        message("model encrypted anew, to the server, once a batch", frame(levels.model_level, true)),
    ]);
    out
}

/// A circuit's operations by level, and its own count of them.
#[derive(Default)]
pub(crate) struct Circuit {
    steps: BTreeMap<(Op, usize), usize>,
    counts: Counts,
}

impl Circuit {
    pub(crate) fn of(counter: &OperationCounter) -> Self {
        Circuit { steps: counter.steps(), counts: counter.counts() }
    }

    pub(crate) fn operations(&self) -> Operations {
        let c = &self.counts;
        Operations {
            products: c.products,
            plain_products: c.plain_products,
            rotations: c.rotations + c.conjugations,
            transforms: c.transforms,
        }
    }

    pub(crate) fn seconds(&self, prices: &Prices) -> f64 {
        self.steps.iter().map(|(&(op, level), &times)| times as f64 * prices.seconds(op, level)).sum()
    }
}

/// The counted circuits of a bandit.
struct Circuits {
    score: Circuit,
    compare: Circuit,
    /// Score, comparison and both answers.
    decision: Circuit,
    update: Circuit,
    /// Whether the schedule asks devices for the trace.
    asks: bool,
    levels: protocol::Plan,
}

impl Circuits {
    fn new(
        config: &BanditConfig,
        keys: &KeyPlan,
        shape: Shape,
        levels: &protocol::Plan,
    ) -> Result<Self, Error> {
        // The number of operations does not depend on values, so that any scalars serve.
        let decide = DecisionCircuit::new(config, Scalars::new(config, 1, 0), shape)?;
        let counter = OperationCounter::new(shape.decision_slots())?;
        let asks = !config.linear.schedule.is_public();
        let (contexts, model) = (counter.fresh(levels.context_level)?, counter.fresh(levels.model_level)?);
        // With the trace statistics, as in most rounds of a schedule that asks.
        let trace = asks.then(|| counter.fresh(levels.trace_level)).transpose()?;
        let (mut score, mut compare) = (Circuit::default(), Circuit::default());
        decide.run(&counter, &contexts, trace.as_ref(), &model, |step| match step {
            "score" => score = Circuit::of(&counter),
            _ => compare = Circuit::of(&counter),
        })?;
        let decision = Circuit::of(&counter);
        for (key, times) in &score.steps {
            compare.steps.entry(*key).and_modify(|n| *n -= times);
        }

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
        Ok(Circuits { score, compare, decision, update, asks, levels: levels.clone() })
    }

    fn seconds(&self, prices: &Prices, rounds: u64, updates: u64) -> Seconds {
        let levels = &self.levels;
        let (score, compare) = (self.score.seconds(prices), self.compare.seconds(prices));
        let masks = self.decision.seconds(prices) - score - compare;
        // The action and, where it is asked, the trace comparison are encrypted anew and flooded at level 0.
        let answers = if self.asks { 2.0 } else { 1.0 };
        let answer = masks + 1.5 * answers * prices.encryption(levels.answer_level);
        let feedback =
            prices.seconds(Op::Add, levels.statistics_level) + prices.seconds(Op::Add, levels.trace_level);
        let refresh = prices.seconds(Op::Adjust, levels.refresh_level + 1)
            + 2.0 * prices.encryption(levels.refresh_level);
        let update = self.update.seconds(prices) + refresh;
        let round = score + compare + answer + feedback;
        let all_rounds_at_most = rounds as f64 * round + updates as f64 * update;
        let threads = prices.threads();
        Seconds { threads, score, compare, answer, feedback, update, round, all_rounds_at_most }
    }
}

/// The sum of the levels, and the levels of each step.
pub(crate) fn by_step(depth: &[Depth]) -> String {
    let parts: Vec<String> = depth.iter().map(|d| format!("{} {}", d.step, d.levels)).collect();
    format!("{}: {}", depth.iter().map(|d| d.levels).sum::<usize>(), parts.join(", "))
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64);
        let (features, arms) = (many(self.features as u64, "feature"), many(self.arms as u64, "arm"));
        writeln!(f, "problem       {features}, {arms}, {}", many(self.rounds, "round"))?;
        writeln!(f, "parameters    {} (N = 2^{}, {} levels)", self.params, self.log_n, self.levels)?;
        self.why.iter().try_for_each(|why| writeln!(f, "              {why}"))?;
        match self.log2_qp_allowed {
            Some(allowed) => writeln!(
                f,
                "security      {} bits: log2(QP) = {:.1} of {allowed} allowed",
                self.security_bits, self.log2_qp
            )?,
            None => writeln!(f, "security      NONE: toy keys, for tests only")?,
        }
        writeln!(f, "decision      levels {}", by_step(&self.decision_depth))?;
        writeln!(f, "update        levels {}", by_step(&self.update_depth))?;
        let [decision, update] = self.slots;
        writeln!(f, "slots         decision {decision}, update {update}, of {}", self.slots_available)?;
        for k in &self.keys {
            let (file, memory) = (mib(k.bytes), mib(k.memory));
            writeln!(f, "key           {} ({}): {file} in the bundle, {memory} in memory", k.kind, k.count)?;
        }
        let all = |of: fn(&KeyCost) -> u64| mib(self.keys.iter().map(of).sum());
        writeln!(f, "keys          {} in the bundle, {} in memory", all(|k| k.bytes), all(|k| k.memory))?;
        for m in &self.messages {
            writeln!(f, "message       {}: {}", m.what, mib(m.bytes))?;
        }
        writeln!(
            f,
            "memory        {} for one bandit with its keys; buffers of requests and updates come on top, 0.2 to 1.1 GiB where measured",
            mib(self.memory)
        )?;
        for s in &self.seconds {
            writeln!(
                f,
                "seconds       on {}: round {:.3} (score {:.3}, compare {:.3}, answer {:.3}, feedback {:.3}); \
                 update {:.3}, at most {} of them; all rounds at most {:.1}",
                many(s.threads as u64, "thread"),
                s.round,
                s.score,
                s.compare,
                s.answer,
                s.feedback,
                s.update,
                self.updates_at_most,
                s.all_rounds_at_most
            )?;
        }
        if let Some(packed) = &self.packed {
            write!(f, "{packed}")?;
        }
        for s in &self.seconds {
            writeln!(f, "kernels       {}", self.kernel_outlook(s.threads))?;
        }
        writeln!(f, "prices        measured at {}, carried over by limbs", self.measured_at)?;
        write!(
            f,
            "              arithmetic alone, on an idle machine: score, compare and update, and decisions as a whole, took 0.9 to 1.3 times that where measured; clients, HTTP and disk come on top"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuits(d: usize, k: usize) -> Circuits {
        let (keys, params, config) = carried(d, k, 1000, false).unwrap();
        let shape = Shape::for_problem(d, k);
        Circuits::new(&config, &keys, shape, &config.plan(&params, shape).unwrap()).unwrap()
    }

    /// The priced operations are those that the circuits count themselves.
    #[test]
    fn priced_operations_are_the_circuits_own() {
        for (d, k) in [(2, 2), (7, 4), (8, 8), (16, 16), (16, 32)] {
            let circuits = circuits(d, k);
            for circuit in [&circuits.decision, &circuits.update] {
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
                    Op::Transform { babies, giants, .. } => babies + giants,
                    _ => 0,
                });
                assert_eq!(rotations, c.rotations + c.conjugations);
            }
            // The parts of a decision: score, comparison and the encoded mask for the action. There is no
            // trace question.
            let total = |c: &Circuit| c.steps.values().sum::<usize>();
            assert_eq!(total(&circuits.score) + total(&circuits.compare) + 2, total(&circuits.decision));
        }
    }

    /// More arms, more features and fewer threads never cost less.
    #[test]
    fn predictions_grow_with_the_problem() {
        let round = |d, k| plan(d, k, 100, false).unwrap().seconds[0];
        let [small, arms, both] = [round(2, 2), round(2, 8), round(16, 16)];
        assert!(0.0 < small.round && small.round < arms.round && arms.round < both.round);
        assert!(0.0 < small.update && small.update < both.update);
    }
}
