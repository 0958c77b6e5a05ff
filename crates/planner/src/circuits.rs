//! The operations of decisions and of updates, counted, and their seconds.

use crate::count::{Op, OperationCounter};
use crate::exchange::{Asked, ExchangePrices, Side};
use crate::price::Prices;
use crate::{Error, Operations, Seconds};
use circuits::Counts;
use circuits::inverse::Newton;
use circuits::maximum::Maximum;
use circuits::ranks::Ranks;
use circuits::{Complex64, SlotAlgebra};
use ckks::{KeyStorage, Params};
use helba::circuit::DecisionCircuit;
use helba::{Scalars, update};
use protocol::levels::{ANSWER_LEVEL, PRODUCTS_LEVEL, REFRESH_LEVEL};
use protocol::products::{MatrixLayout, ProductExchanges, ProductScalars, ProductStep};
use protocol::staged::{StagedExchanges, Staging, doublings};
use protocol::{
    AnswerLayout, Automorphism, BanditConfig, Exchanges, Factors, INVERSE_TOLERANCE, KeyPlan, Plan, Rings,
    Shape, Updates, warm_steps,
};
use std::collections::BTreeMap;

/// The users of a packed evaluation, if it has room for so many.
pub(crate) const PACKED: usize = 64;

/// The time of a product and of a merge at 2¹³ over what the prices of the large ring make of them, on one
/// and on two threads (`scores/product` and `scores/pack_per_user` of the record).
const SMALL_RING: [[f64; 2]; 2] = [[1.058, 1.300], [1.180, 1.380]];

/// The feedbacks of a batch of the default schedule.
const BATCH: f64 = 16.0;

/// A circuit's operations by level, and its own count of them.
#[derive(Default)]
pub(crate) struct Circuit {
    pub(crate) steps: BTreeMap<(Op, usize), usize>,
    pub(crate) counts: Counts,
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

/// Operations in the ring of scores: products of ciphertexts, and merges of two packs.
#[derive(Debug, Clone, Copy, Default)]
struct Products {
    products: usize,
    merges: usize,
    /// Packs that are made side by side, if there are several.
    beside: usize,
}

impl Products {
    /// So many products in packs with this gap, as [`ckks::Packer`] merges them.
    fn packed(products: usize, gap: usize) -> Self {
        let (full, rest) = (products / gap, products % gap);
        let closing = match rest {
            0 => 0,
            // One for two packs of one size; at the end each later size.
            rest => rest - rest.count_ones() as usize + (gap.ilog2() - rest.trailing_zeros()) as usize,
        };
        Products { products, merges: full * (gap - 1) + closing, beside: 0 }
    }

    fn seconds(&self, scores: &Prices, top: usize) -> f64 {
        let beside = self.beside.min(scores.threads());
        if beside > 1 {
            // Each pack is made by one thread, and waits for no other.
            return Products { beside: 0, ..*self }.seconds(&scores.of_one_thread(), top) / beside as f64;
        }
        // A merge is an automorphism, two products with a monomial and two sums.
        let product = scores.seconds(Op::Product { products: 1, terms: 0 }, top);
        let merge = scores.seconds(Op::Rotations { count: 1 }, top) + 4.0 * scores.seconds(Op::Add, top);
        let [of_product, of_merge] = SMALL_RING[usize::from(scores.threads() > 1)];
        self.products as f64 * product * of_product + self.merges as f64 * merge * of_merge
    }
}

/// An evaluation of so many users.
struct Evaluation {
    users: usize,
    products: Products,
    circuit: Circuit,
    asked: Vec<Asked>,
}

/// How updates are computed.
enum Update {
    Slots(Circuit),
    Products(Products),
}

/// The prices in the rings of updates, of evaluations, of scores and of answers, and those of exchanges.
pub(crate) struct AllPrices<'a> {
    pub(crate) rings: [Prices<'a>; 4],
    pub(crate) exchanges: ExchangePrices,
}

/// The counted circuits of a bandit, and the sizes that its other costs depend on.
pub(crate) struct Circuits {
    /// Of a user alone, and of many.
    evaluations: [Evaluation; 2],
    /// The products and merges of one more user.
    user: Products,
    update: Update,
    /// The exchanges of an update.
    updates: Vec<Asked>,
    /// The parts of a ring switch, and the moves of the fold; none in stages.
    parts: usize,
    moves: usize,
    /// The top level of the ring of scores.
    scores_top: usize,
    levels: Plan,
}

impl Circuits {
    pub(crate) fn new(
        config: &BanditConfig,
        keys: &KeyPlan,
        shape: Shape,
        levels: &Plan,
        rings: &Rings,
        [small, answers]: [&Params; 2],
    ) -> Result<Self, Error> {
        let of_bandit = Exchanges::new(config, levels, keys.scores, small, rings, answers)?;
        let slots = rings.decisions.max_slots();
        let many = levels.users.min(PACKED);
        let (evaluations, user) = match &of_bandit.staged {
            Some(staging) => {
                let evaluations = [staged(staging, 1, slots)?, staged(staging, many, slots)?];
                let layout = &staging.of(1)?.layout;
                let products = layout.context_parts() * layout.model_parts();
                (evaluations, Products { products, merges: products, beside: 0 })
            }
            None => {
                let answered = Asked(vec![(
                    side(&rings.decisions, PRODUCTS_LEVEL, true),
                    vec![side(answers, ANSWER_LEVEL, false)],
                )]);
                let raised = Asked::of(&[vec![of_bandit.scores.clone()]]);
                let of = |users: usize, asked: Vec<Asked>| -> Result<Evaluation, Error> {
                    let circuit = one_raise(config, keys, shape, levels.scores_level, slots)?;
                    let products = Products::packed(users, of_bandit.layout.pack_gap());
                    Ok(Evaluation { users, products, circuit, asked })
                };
                let evaluations = [of(1, vec![raised.clone()])?, of(many, vec![raised, answered])?];
                (evaluations, Products { products: 1, merges: 1, beside: 0 })
            }
        };
        let (update, updates) = match (&of_bandit.products, &of_bandit.slots) {
            (Some(products), _) => by_products(config, products)?,
            (None, in_slots) => {
                let mut updates = Vec::new();
                if let Some(of) = in_slots {
                    updates.push(Asked::of(&[vec![of.statistics.clone()]]));
                    let deep = |level| side(&rings.updates, level, true);
                    let model = vec![deep(levels.model_level), side(small, small.max_level(), false)];
                    updates.push(Asked(vec![(deep(REFRESH_LEVEL), model)]));
                }
                (Update::Slots(in_slots_of(keys, shape, levels)?), updates)
            }
        };
        let moves = match keys.answers.switch {
            0 => 0,
            _ => AnswerLayout::new(keys.scores, shape, slots).moves(&[0]).len(),
        };
        Ok(Circuits {
            evaluations,
            user,
            update,
            updates,
            parts: keys.answers.switch,
            moves,
            scores_top: small.max_level(),
            levels: levels.clone(),
        })
    }

    /// The circuits in slots: of an evaluation of a user alone, and of an update.
    #[cfg(test)]
    pub(crate) fn in_slots(&self) -> Vec<&Circuit> {
        let update = match &self.update {
            Update::Slots(circuit) => Some(circuit),
            Update::Products(_) => None,
        };
        [&self.evaluations[0].circuit].into_iter().chain(update).collect()
    }

    /// The users of a packed evaluation.
    pub(crate) fn packed_users(&self) -> usize {
        self.evaluations[1].users
    }

    /// The bytes to the holder of the key and from it in each exchange of a decision of a user alone.
    pub(crate) fn bytes_by_exchange(&self) -> Vec<[u64; 2]> {
        self.evaluations[0].asked.iter().map(Asked::bytes).collect()
    }

    /// Those of a packed evaluation.
    pub(crate) fn packed_bytes_by_exchange(&self) -> Vec<[u64; 2]> {
        self.evaluations[1].asked.iter().map(Asked::bytes).collect()
    }

    /// Those of an update.
    pub(crate) fn update_bytes_by_exchange(&self) -> Vec<[u64; 2]> {
        self.updates.iter().map(Asked::bytes).collect()
    }

    /// Those of an evaluation of a user alone without its answers, and of an update.
    pub(crate) fn operations(&self) -> [Operations; 2] {
        let update = match &self.update {
            Update::Slots(circuit) => circuit.operations(),
            Update::Products(of) => {
                Operations { products: of.products, rotations: of.merges, ..Circuit::default().operations() }
            }
        };
        [self.evaluations[0].circuit.operations(), update]
    }

    /// A batch update, and in slots the mask of its result.
    fn update_seconds(&self, deep: &Prices, scores: &Prices) -> f64 {
        let level = self.levels.refresh_level;
        match &self.update {
            Update::Slots(circuit) => {
                circuit.seconds(deep) + deep.seconds(Op::Adjust, level + 1) + 2.0 * deep.encryption(level)
            }
            Update::Products(products) => products.seconds(scores, self.scores_top),
        }
    }

    /// The trace question: a masked entry, and a zero at the level of an answer.
    pub(crate) fn question_seconds(&self, evaluating: &Prices) -> f64 {
        let values = 1 << (evaluating.log_n() - 1);
        let level = ANSWER_LEVEL + 1;
        evaluating.seconds(Op::Adjust, level + 1)
            + evaluating.seconds(Op::Encode { values, wide: false }, level)
            + evaluating.seconds(Op::PlainProduct { terms: 1 }, level)
            + evaluating.encryption(ANSWER_LEVEL)
    }

    pub(crate) fn seconds(&self, prices: &AllPrices, rounds: u64, updates: u64) -> Seconds {
        let ([deep, evaluating, scores, answers], top) = (&prices.rings, self.scores_top);
        let asked = |all: &[Asked]| {
            let each = all.iter().map(|asked| prices.exchanges.seconds(asked, deep.threads()));
            each.fold([0.0; 2], |sum, [server, holder]| [sum[0] + server, sum[1] + holder])
        };
        // Each part of the switch is decomposed, multiplied by the keys of all parts, and divided. A move is
        // a sum of plain products and a rotation.
        let level = PRODUCTS_LEVEL;
        let fold = match self.moves {
            0 => 0.0,
            moves => {
                self.parts as f64 * answers.seconds(Op::Rotations { count: self.parts }, level)
                    + moves as f64 * answers.seconds(Op::PlainProduct { terms: self.parts }, level)
                    + (moves - 1) as f64 * answers.seconds(Op::Rotations { count: 1 }, level)
                    + evaluating.encryption(level)
            }
        };
        let user = self.user.seconds(scores, top);
        let answer = 0.5 * answers.encryption(ANSWER_LEVEL);
        let [alone, packed] = &self.evaluations;
        let evaluation = alone.circuit.seconds(evaluating) + fold;
        let [masks, holder] = asked(&alone.asked);
        // A user alone has its packs to itself.
        let exchanges = masks + (alone.products.seconds(scores, top) - user).max(0.0);
        let all = packed.products.seconds(scores, top)
            + packed.circuit.seconds(evaluating)
            + asked(&packed.asked)[0];
        let feedback = scores.seconds(Op::Add, top);
        let [masks_of_update, update_holder] = asked(&self.updates);
        let update = self.update_seconds(deep, scores)
            + match &self.update {
                // Its exchanges come on top, as those that it was compared with.
                Update::Slots(_) => 0.0,
                Update::Products(_) => masks_of_update,
            };
        let round = user + evaluation + exchanges + answer + feedback;
        Seconds {
            threads: deep.threads(),
            user,
            evaluation,
            exchanges,
            holder,
            answer,
            packed: all / packed.users as f64 + answer,
            feedback,
            update,
            update_holder,
            round,
            all_rounds_at_most: rounds as f64 * round + updates as f64 * update,
        }
    }
}

/// One ciphertext at this level.
fn side(params: &Params, level: usize, slots: bool) -> Side {
    Side { params: params.clone(), ciphertexts: 1, level, slots }
}

/// What follows the raise.
fn one_raise(
    config: &BanditConfig,
    keys: &KeyPlan,
    shape: Shape,
    level: usize,
    slots: usize,
) -> Result<Circuit, Error> {
    // The number of operations does not depend on values, so that any scalars serve.
    let circuit = DecisionCircuit::new(config, Scalars::new(config, 1, 0), shape, slots)?;
    let counter = OperationCounter::new(slots)?;
    // The evaluations that prices and ways were compared with had a level more.
    let more = usize::from(keys.updates == Updates::Slots && keys.decisions.is_none());
    circuit.products(&counter, &counter.fresh(level + more)?)?;
    Ok(Circuit::of(&counter))
}

/// An evaluation in stages.
fn staged(staging: &Staging, users: usize, slots: usize) -> Result<Evaluation, Error> {
    let exchanges = staging.of(users)?;
    let StagedExchanges { layout, steps } = &*exchanges;
    let counter = OperationCounter::new(slots)?;
    let (maximum, after) = (Maximum::new()?, layout.pairs_after(slots));
    let ranks =
        after.map(|rounds| Ranks::new(layout.left(rounds), doublings(layout.left(rounds)))).transpose()?;
    let rounds = after.unwrap_or(layout.rounds());
    // What the server computes of the ciphertexts of every exchange but the last.
    for (at, step) in steps.iter().enumerate().take(steps.len().saturating_sub(1)) {
        let of = |exchange: usize| step.iter().flatten().nth(exchange).map(|exchange| exchange.to());
        let Some(first) = of(0) else { continue };
        let step = at + usize::from(layout.is_lifted());
        let fresh = || counter.fresh(first.level);
        match (step, &ranks, of(1)) {
            (0, ..) => {
                for _ in 0..first.ciphertexts {
                    let with_ones = counter.add_plain(&fresh()?, &vec![Complex64::ONE; slots])?;
                    counter.mul(&with_ones, &fresh()?)?;
                }
            }
            (step, _, Some(means)) if step <= rounds => {
                drop(maximum.of_two(&counter, &fresh()?, &counter.fresh(means.level)?)?);
            }
            (step, Some(ranks), within) if step == rounds + 1 => {
                for _ in 0..first.ciphertexts {
                    ranks.indicators(&counter, &fresh()?)?;
                }
                if let Some(within) = within {
                    maximum.entries(&counter, &counter.fresh(within.level)?)?;
                }
            }
            (_, Some(ranks), _) => {
                let entries = ranks.entries(&counter, &fresh()?)?;
                if rounds > 0 {
                    counter.mul(&entries, &entries)?;
                }
            }
            (_, None, _) => drop(maximum.entries(&counter, &fresh()?)?),
        }
    }
    let products = users * layout.context_parts() * layout.model_parts();
    // Lifted contexts are packed as they come.
    let beside = if layout.is_lifted() { 0 } else { layout.packs() };
    Ok(Evaluation {
        users,
        products: Products { beside, ..Products::packed(products, layout.gap()) },
        circuit: Circuit::of(&counter),
        asked: steps.iter().map(|step| Asked::of(step)).collect(),
    })
}

/// An update by circuits on slots.
fn in_slots_of(keys: &KeyPlan, shape: Shape, levels: &Plan) -> Result<Circuit, Error> {
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
    Ok(Circuit::of(&counter))
}

/// An update by products after a batch, from the inverse of the last one.
fn by_products(config: &BanditConfig, exchanges: &ProductExchanges) -> Result<(Update, Vec<Asked>), Error> {
    let (linear, matrices) = (&config.linear, &exchanges.matrices);
    let top = 1.0 + BATCH * linear.l * linear.l / linear.lambda;
    let factors = Factors::warm(1.0, top, warm_steps(1.0, top, INVERSE_TOLERANCE)?)?;
    let scalars = ProductScalars::warm(config, matrices.dim(), factors, config.scaled_rounds());
    let (mut all, mut asked) = (Products::default(), Vec::new());
    for (step, _) in (0..scalars.steps()).filter_map(|at| scalars.step(at)) {
        let Products { products, merges, .. } = product_of(step, matrices);
        all.products += products;
        all.merges += merges;
        asked.push(Asked::of(&[vec![exchanges.of(step).clone()]]));
    }
    Ok((Update::Products(all), asked))
}

/// The product that follows a step of an update.
fn product_of(step: ProductStep, matrices: &MatrixLayout) -> Products {
    let dim = matrices.dim();
    let rows = match step {
        ProductStep::Statistics | ProductStep::Last | ProductStep::Inverse => dim + 1,
        ProductStep::Start | ProductStep::Newton => 2 * dim,
        ProductStep::Residual => dim,
        ProductStep::Estimate => return Products::default(),
    };
    let products = matrices.left_parts(rows) * matrices.right_parts();
    match matrices.pack_gap() {
        Some(gap) => Products::packed(products, gap),
        None => Products { products, merges: 0, beside: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::MEASURED_AT;

    /// Products and merges in the ring of scores take what was measured there.
    #[test]
    fn small_rings_take_what_was_measured() {
        let record = std::fs::read_to_string("../../benches/record/2026-11-23-scores.csv").unwrap();
        let small = ckks::LOGN13_LOGQP147_SCORES.validate().unwrap();
        let reference = MEASURED_AT.validate().unwrap();
        for threads in [1, 2] {
            let prices = Prices::new(&small, &reference, rns::Kernel::Avx512Ifma, threads);
            let seconds = |products, merges| Products { products, merges, beside: 0 }.seconds(&prices, 1);
            for (what, predicted) in [("product", seconds(1, 0)), ("pack_per_user", seconds(0, 1))] {
                let id = format!("scores/{what}/n=2^13/threads={threads}");
                let row = record.lines().find(|line| line.contains(&id)).unwrap();
                let measured = row.split(',').nth(5).unwrap().parse::<f64>().unwrap() * 1e-9;
                assert!((measured / predicted - 1.0).abs() < 0.02, "{id}: {measured} of {predicted}");
            }
        }
    }

    /// As many merges as packers do.
    #[test]
    fn merges_are_those_of_a_packer() {
        // By hand: a pack of one doubles itself log₂ g times, of two once less, and of three it merges two,
        // closes the third and merges both; full packs merge in a tree.
        for (products, gap, merges) in
            [(1, 8, 3), (2, 8, 3), (3, 8, 4), (4, 8, 4), (5, 8, 6), (8, 8, 7), (9, 8, 10)]
        {
            assert_eq!(Products::packed(products, gap).merges, merges, "{products} of {gap}");
        }
    }
}
