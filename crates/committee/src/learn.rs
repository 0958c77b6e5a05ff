//! An update on shares, at the end of a batch.
//!
//! V += Σ x·xᵀ and g += Σ r·x are exact, one product for each number however many feedbacks. The inverse
//! follows from the last one by Newton's iteration A ← f·A·(2 − f·A·V) with public factors, and ω = A·g.
//!
//! Where arms are counted, the arm of a feedback stands behind its row x as h, 1 at the arm and 0 elsewhere.
//! Σ h and Σ r·h are part of the state, and exact. They are opened in round 1 as they were *before* the
//! update: another try with other feedback opens the same numbers.

use crate::Error;
use crate::decide::{norms, place};
use crate::machine::{Gate, Machine, walk};
use crate::online::Plan;
use crate::scalars::{ESTIMATE_BITS, FEATURE_BITS, Learn, MODEL_BITS};
use shares::Field;
use zeroize::Zeroize;

/// The shared state of a bandit.
#[derive(Clone)]
pub struct State<S> {
    /// V, its upper triangle by rows, in units of 2⁻³².
    pub design: Vec<S>,
    /// g, in units of 2⁻³².
    pub moment: Vec<S>,
    /// A, its upper triangle by rows, in units of 2⁻³⁶.
    pub inverse: Vec<S>,
    /// 2·A/c₂, in units of 2⁻³⁶.
    pub scaled: Vec<S>,
    /// ω, in units of 2⁻²⁸.
    pub estimate: Vec<S>,
    /// Of each arm that is counted how often it was played, and then the sums of rewards, in units of 2⁻¹⁶.
    pub counters: Vec<S>,
}

impl Zeroize for State<Field> {
    fn zeroize(&mut self) {
        let State { design, moment, inverse, scaled, estimate, counters } = self;
        [design, moment, inverse, scaled, estimate, counters].into_iter().for_each(Zeroize::zeroize);
    }
}

/// How many numbers a state has, with so many arms that are counted.
pub(crate) fn numbers_of_a_state(features: usize, counted: usize) -> usize {
    3 * (features * (features + 1) / 2) + 2 * (features + counted)
}

impl<S: Clone> State<S> {
    /// The numbers in the order of its record.
    pub fn numbers(&self) -> Vec<S> {
        let State { design, moment, inverse, scaled, estimate, counters } = self;
        [design, moment, inverse, scaled, estimate, counters].into_iter().flatten().cloned().collect()
    }

    /// The numbers of a state in the order of its record, of which they are the first.
    pub fn from_numbers(features: usize, counted: usize, numbers: &[S]) -> Option<Self> {
        let triangle = features * (features + 1) / 2;
        let mut rest = numbers;
        let mut take = |count: usize| {
            let (part, after) = rest.split_at_checked(count)?;
            rest = after;
            Some(part.to_vec())
        };
        Some(State {
            design: take(triangle)?,
            moment: take(features)?,
            inverse: take(triangle)?,
            scaled: take(triangle)?,
            estimate: take(features)?,
            counters: take(2 * counted)?,
        })
    }
}

/// The state of a bandit that has learnt nothing: V = λ', A = 1/λ', g = ω = 0. All of it is public. `start`
/// has the numbers of an update of nothing.
pub fn initial(start: &Learn) -> State<Field> {
    let d = start.features;
    let scaled = (start.inverse_ridge.get() * start.scale.get()) >> 20;
    let diagonal = |value: Field| {
        let entry = move |i: usize, j: usize| if i == j { value } else { Field::ZERO };
        (0..d).flat_map(move |i| (i..d).map(move |j| entry(i, j))).collect()
    };
    State {
        design: diagonal(start.ridge),
        moment: vec![Field::ZERO; d],
        inverse: diagonal(start.inverse_ridge),
        scaled: diagonal(Field::new(scaled)),
        estimate: vec![Field::ZERO; d],
        counters: vec![Field::ZERO; 2 * start.counted],
    }
}

/// A feedback: the row that was played, and the reward.
pub struct Feedback<S> {
    /// The features, in units of 2⁻¹⁶, and h where arms are counted.
    pub row: Vec<S>,
    /// The reward in units of 2⁻¹⁶.
    pub reward: S,
    /// The three squares that prove its size; none for a feedback that was counted and goes, whose reward is
    /// of the record of the update that counted it.
    pub squares: Option<[S; 3]>,
}

impl Zeroize for Feedback<Field> {
    fn zeroize(&mut self) {
        self.row.zeroize();
        self.reward.zeroize();
        self.squares.zeroize();
    }
}

/// Walks through an update without inputs, to prepare a slot for it ([`Learn::circuit`]).
///
/// # Errors
/// None for numbers of [`Learn::new`].
pub fn plan(plan: &mut Plan, of: &Learn, erased: &[bool]) -> Result<(), Error> {
    let (d, counted) = (of.features, of.counted);
    let zeros = |count: usize| vec![Field::ZERO; count];
    let state = State::from_numbers(d, counted, &zeros(numbers_of_a_state(d, counted))).ok_or(Error::Slot)?;
    let squares = |erased: bool| if erased { None } else { Some([Field::ZERO; 3]) };
    let feedback =
        |erased: &bool| Feedback { row: zeros(d + counted), reward: Field::ZERO, squares: squares(*erased) };
    walk(learn(plan, of, state, erased.iter().map(feedback).collect())).map(|_| ())
}

/// Learns a batch. The record of the slot is the next state, in the order of [`State::from_numbers`], and
/// then the reward of each feedback that was counted: a feedback is erased by this reward and the record of
/// its row. Returns the counters of `state` if they are opened, else nothing.
///
/// # Errors
/// [`Error::Rewards`] for rewards that are out of range: then nothing is learnt; those of the machine.
pub async fn learn<M: Machine>(
    m: &mut M,
    learn: &Learn,
    state: State<M::Share>,
    batch: Vec<Feedback<M::Share>>,
) -> Result<Vec<Field>, Error> {
    let (d, arms) = (learn.features, learn.counted);
    let triangle = d * (d + 1) / 2;
    let shaped = |f: &Feedback<M::Share>| f.row.len() == d + arms;
    let of_state = [state.inverse.len(), state.moment.len(), state.counters.len()];
    if of_state != [triangle, d, 2 * arms] || !batch.iter().all(shaped) {
        return Err(Error::Slot);
    }
    let erased: Vec<bool> = batch.iter().map(|feedback| feedback.squares.is_none()).collect();
    let inputs = batch.into_iter().flat_map(|feedback| {
        let squares = feedback.squares.into_iter().flatten();
        feedback.row.into_iter().chain([feedback.reward]).chain(squares)
    });
    let shown: &[M::Share] = if learn.opens { &state.counters } else { &[] };
    let shown = shown.iter().map(|number| Gate::shared(*number).opened());
    let gates = shown.chain(state.inverse.iter().copied().chain(inputs).map(Gate::shared));
    let masked = m.round(gates.collect()).await?;
    let (shown, masked) = masked.split_at(if learn.opens { 2 * arms } else { 0 });
    let shown = shown.iter().map(|wire| m.public(*wire)).collect();
    let (inverse, mut rest) = masked.split_at(triangle);
    let mut take = |count: usize| {
        let (part, after) = rest.split_at(count);
        rest = after;
        part
    };
    let numbers = |erased: &bool| (take(d + arms), take(if *erased { 1 } else { 4 }));
    let (rows, rewards): (Vec<_>, Vec<_>) = erased.iter().map(numbers).unzip();
    // The products have uniform masks, whatever the rewards are.
    let counted = || erased.iter().enumerate().filter(|(_, erased)| !**erased).map(|(at, _)| at);
    let mut gates: Vec<_> = counted().map(|at| norms(m, &[rewards[at]], 1)).collect();
    let proofs = gates.len();
    let signed = |wire: M::Wire, erased: bool| if erased { wire * -Field::ONE } else { wire };
    let all = || rows.iter().zip(&rewards).zip(&erased).map(|((row, reward), erased)| (row, reward, *erased));
    for i in 0..d {
        for j in i..d {
            let products = all().map(|(row, _, erased)| (signed(row[i], erased), row[j]));
            gates.push(Gate::products(products.collect()));
        }
    }
    for i in 0..d + arms {
        let products = all().map(|(row, reward, erased)| (signed(reward[0], erased), row[i]));
        gates.push(Gate::products(products.collect()));
    }
    let opened = m.round(gates).await?;
    let wrong = counted().zip(&opened[..proofs]).filter(|(_, proof)| m.public(**proof) != Field::ZERO);
    let places: Vec<usize> = wrong.map(|(at, _)| at).collect();
    if !places.is_empty() {
        return Err(Error::Rewards { places });
    }
    let (pulls, rewards_of_arms) = state.counters.split_at(arms);
    let before = state.design.iter().chain(&state.moment).chain(rewards_of_arms);
    let mut sums: Vec<M::Share> =
        before.zip(&opened[proofs..]).map(|(old, sum)| *old + m.share(*sum)).collect();
    let rewards_of_arms = sums.split_off(triangle + d);
    let pulls = pulls.iter().enumerate().map(|(arm, old)| {
        all().fold(*old, |sum, (row, _, erased)| sum + m.share(signed(row[d + arm], erased)))
    });
    let counters: Vec<M::Share> = pulls.chain(rewards_of_arms).collect();
    let low = 2 * FEATURE_BITS + learn.log_t - MODEL_BITS;
    let cut = |sum: &M::Share| Gate::shared(*sum).cut(low, learn.most_statistics);
    let scaled = m.round(sums.iter().map(cut).collect()).await?;
    let (design, moment) = scaled.split_at(triangle);
    let inverse = newton(m, learn, inverse.to_vec(), design).await?;
    let row = |i: usize| (0..d).map(|k| (inverse[place(d, i, k)], moment[k])).collect();
    let estimate_low = 2 * MODEL_BITS - learn.log_t - ESTIMATE_BITS;
    let estimate = |i: usize| Gate::products(row(i)).cut(estimate_low, learn.most_estimate);
    let scale = |a: &M::Wire| Gate::shared(m.share(*a) * learn.scale).cut(20, learn.most_scaled);
    let gates = (0..d).map(estimate).chain(inverse.iter().map(scale)).collect();
    let last = m.round(gates).await?;
    let (estimate, scaled) = last.split_at(d);
    let wires = inverse.iter().chain(scaled).chain(estimate).map(|wire| m.share(*wire));
    let learnt: Vec<M::Share> = counted().map(|at| m.share(rewards[at][0])).collect();
    let gates = sums.into_iter().chain(wires).chain(counters).chain(learnt);
    m.round(gates.map(|number| Gate::shared(number).record()).collect()).await?;
    Ok(shown)
}

/// The inverse of V from one of the V before, in two rounds a step.
async fn newton<M: Machine>(
    m: &mut M,
    learn: &Learn,
    mut inverse: Vec<M::Wire>,
    design: &[M::Wire],
) -> Result<Vec<M::Wire>, Error> {
    let d = learn.features;
    let two = Field::new(2 << MODEL_BITS);
    for ((factor, shift), (most_product, most_inverse)) in learn.steps.iter().zip(&learn.most_steps) {
        let factor = Field::new((*factor).into());
        let low = MODEL_BITS + shift - learn.log_t;
        let entry = |i: usize, j: usize| {
            let product = |k: usize| (inverse[place(d, i, k)] * factor, design[place(d, k, j)]);
            Gate::products((0..d).map(product).collect()).cut(low, *most_product)
        };
        let gates = (0..d).flat_map(|i| (0..d).map(move |j| (i, j))).map(|(i, j)| entry(i, j));
        let products = m.round(gates.collect()).await?;
        let rest = |i: usize, j: usize| {
            let negative = products[i * d + j] * -Field::ONE;
            if i == j { negative + two } else { negative }
        };
        let entry = |i: usize, j: usize| {
            let product = |k: usize| (rest(i, k) * factor, inverse[place(d, k, j)]);
            Gate::products((0..d).map(product).collect()).cut(MODEL_BITS + shift, *most_inverse)
        };
        let gates = (0..d).flat_map(|i| (i..d).map(move |j| (i, j))).map(|(i, j)| entry(i, j));
        inverse = m.round(gates.collect()).await?;
    }
    Ok(inverse)
}
