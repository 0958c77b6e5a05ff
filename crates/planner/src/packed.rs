//! The costs of packed decisions.

use crate::count::{Op, OperationCounter};
use crate::plan::{Circuit, Depth, MessageCost, Operations, by_step, many};
use crate::price::Prices;
use crate::{Error, kernel};
use ckks::{Params, ciphertext_bytes, partial_ciphertext_bytes};
use helba::Scalars;
use helba::packed::circuit::PackedCircuit;
use protocol::levels::{DecisionLevels, products_level};
use protocol::{BanditConfig, Decisions, PackedPlan, ScoreLayout, ScoreRing, Shape};
use rns::Kernel;
use serde::Serialize;

/// Packed decisions of a problem.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PackedCosts {
    /// N' of the ring of scores.
    pub ring_degree: usize,
    /// The most users of an evaluation.
    pub users: usize,
    /// Levels of an evaluation of several users by step; they add up to the level of raised scores. A user
    /// alone takes no mask.
    pub depth: Vec<Depth>,
    /// Messages.
    pub messages: Vec<MessageCost>,
    /// Operations of an evaluation, without its answers.
    pub operations: Operations,
    /// Predictions on one and two threads, for the kernels that this process runs.
    pub seconds: Vec<PackedSeconds>,
}

/// Seconds on a machine like the one of the record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PackedSeconds {
    /// Threads.
    pub threads: usize,
    /// Square root, comparison and product of rows, once for all users of an evaluation.
    pub evaluation: f64,
    /// The scores of one user and their place in the pack.
    pub user: f64,
}

impl PackedCosts {
    /// The costs of `config` with keys of `shape` whose ring of scores is `ring`.
    pub(crate) fn new(
        config: &BanditConfig,
        params: &Params,
        shape: Shape,
        ring: ScoreRing,
        kernel: Kernel,
    ) -> Result<Self, Error> {
        let config = BanditConfig { decisions: Decisions::Packed, ..config.clone() };
        let plan = config.packed_plan(params, shape, ring)?;
        let levels = DecisionLevels::new(&config, shape)?;
        let step = |step, levels| Depth { step, levels };
        let depth = vec![
            step("square root", levels.square_root),
            step("comparison", levels.comparison),
            step("product over a row of pairs", levels.row_product),
            step("fold of the answers", products_level(1)),
            step("answers' masks", products_level(2) - products_level(1)),
        ];
        // The number of operations does not depend on values, so that any scalars serve.
        let circuit = PackedCircuit::new(&config, Scalars::new(&config, 1, 0), shape, params.max_slots())?;
        let counter = OperationCounter::new(params.max_slots())?;
        circuit.products(&counter, &counter.fresh(plan.scores_level)?)?;
        let circuit = Circuit::of(&counter);
        let small = ring.params.validate()?;
        let seconds = |threads| -> Result<PackedSeconds, Error> {
            let price = kernel::price_of(kernel);
            let (deep, scores) = (Prices::new(params, price, threads)?, Prices::new(&small, price, threads)?);
            let top = small.max_level();
            // A product of two ciphertexts, and in the mean one merge of two packs: an automorphism, two
            // products with a monomial and two sums.
            let user = scores.seconds(Op::Product { products: 1, terms: 0 }, top)
                + scores.seconds(Op::Rotations { count: 1 }, top)
                + 4.0 * scores.seconds(Op::Add, top);
            Ok(PackedSeconds { threads, evaluation: circuit.seconds(&deep), user })
        };
        Ok(PackedCosts {
            ring_degree: ring.n(),
            users: plan.users,
            depth,
            messages: messages(&config, &plan, params, &small, ring)?,
            operations: circuit.operations(),
            seconds: [1, 2].into_iter().map(seconds).collect::<Result<_, _>>()?,
        })
    }
}

fn messages(
    config: &BanditConfig,
    plan: &PackedPlan,
    params: &Params,
    small: &Params,
    ring: ScoreRing,
) -> Result<Vec<MessageCost>, Error> {
    let answers = ring.answers(params.spec()).validate()?;
    let top = small.max_level();
    let numbers = ScoreLayout::new(config, plan, ring).numbers();
    let deep = |level, seeded| ciphertext_bytes(params, level, seeded);
    let messages = [
        ("contexts, to the server", ciphertext_bytes(small, top, true)),
        ("answer, to the device", ciphertext_bytes(&answers, plan.answer_level, false)),
        ("feedback, to the server", partial_ciphertext_bytes(small, top, numbers)),
        ("masked scores, to a raiser, once an evaluation", ciphertext_bytes(small, top, false)),
        ("raised scores, to the server, once an evaluation", deep(plan.scores_level, true)),
        ("raised scores of a user alone, to the server", deep(plan.alone_level, true)),
        ("masked statistics, to a raiser, once a batch", ciphertext_bytes(small, top, false)),
        ("raised statistics, to the server, once a batch", deep(plan.statistics_level, true)),
        ("masked model, to a raiser, once a batch", deep(plan.refresh_level, false)),
        (
            "model in both rings, to the server, once a batch",
            deep(plan.model_level, true) + ciphertext_bytes(small, top, true),
        ),
    ];
    Ok(messages.map(|(what, bytes)| MessageCost { what, bytes: bytes as u64 }).into())
}

impl std::fmt::Display for PackedCosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let log_n = self.ring_degree.ilog2();
        writeln!(f, "packed        up to {} users an evaluation; ring of scores N = 2^{log_n}", self.users)?;
        writeln!(f, "              levels {}", by_step(&self.depth))?;
        for message in &self.messages {
            writeln!(f, "              {}: {} kB", message.what, thousands(message.bytes))?;
        }
        for s in &self.seconds {
            let threads = many(s.threads as u64, "thread");
            let (evaluation, user) = (s.evaluation, 1e3 * s.user);
            writeln!(
                f,
                "              seconds on {threads}: evaluation {evaluation:.3}, and {user:.1} ms of scores a user"
            )?;
        }
        Ok(())
    }
}

/// Thousands of bytes, with one digit behind the point below 10 000 bytes.
fn thousands(bytes: u64) -> String {
    let kilo = bytes as f64 / 1e3;
    if kilo < 10.0 { format!("{kilo:.1}") } else { format!("{kilo:.0}") }
}

#[cfg(test)]
mod tests {
    use crate::plan;

    /// Shapes with a ring of scores have the costs of packed decisions, whose levels add up to that of the
    /// raise. One evaluation costs less than two decisions of single users.
    #[test]
    fn packed_decisions_are_priced_where_there_is_a_ring() {
        for (d, k) in [(2, 2), (7, 4), (8, 8), (16, 16)] {
            let report = plan(d, k, 1000, false).unwrap();
            let packed = report.packed.unwrap();
            let levels: usize = packed.depth.iter().map(|step| step.levels).sum();
            assert!(levels <= report.levels && packed.users >= 64);
            for (packed, single) in packed.seconds.iter().zip(&report.seconds) {
                assert!(0.0 < packed.user && packed.user < packed.evaluation / 100.0);
                assert!(packed.evaluation < 2.0 * (single.score + single.compare));
            }
        }
        assert!(plan(16, 64, 1000, false).unwrap().packed.is_none());
    }
}
