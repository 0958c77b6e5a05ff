//! A decision on shares.
//!
//! | round | what is shown, for d features and K arms |
//! |---|---|
//! | 1 | the model (A·2/c₂ and ω) and the rows of the request, masked |
//! | 2 | the proof that the rows are no longer than 1: **nothing goes on unless it is 0**; y = A·x |
//! | 3 | 2z/c₂ = ⟨x, y⟩ and u = ⟨ω, x⟩, cut |
//! | 4 to 7 | under a root: its Chebyshev polynomial of degree 15 |
//! | 8 | the index, rounded to 2⁻¹⁶ of its range: after this all is exact |
//! | then | the largest index ([`largest`]) |
//! | last but one | the row of the arm, as a record, and where arms are counted which one it is; the sum that is 0 if one arm alone was chosen |
//! | last | that sum, times a random number: **0, or the decision stops** |

use crate::Error;
use crate::compare::largest;
use crate::machine::{Gate, Machine, walk};
use crate::online::Plan;
use crate::scalars::{Decide, ESTIMATE_BITS, FEATURE_BITS, MODEL_BITS, ROOT_BITS};
use shares::Field;

/// The shared inputs of a decision.
pub struct Inputs<S> {
    /// A·2/c₂, its upper triangle by rows, in units of 2⁻³⁴.
    pub inverse: Vec<S>,
    /// ω, in units of 2⁻²⁸.
    pub estimate: Vec<S>,
    /// Of each arm the features, in units of 2⁻¹⁶, and the three squares that prove their length.
    pub rows: Vec<Vec<S>>,
}

/// What a decision gives.
pub struct Decided<S> {
    /// The arm, from 0.
    pub arm: S,
    /// The index of each arm, in units of 2⁻¹⁶ (2⁻²⁰) of the range: a member never shows its share.
    #[cfg(test)]
    pub(crate) indices: Vec<S>,
}

/// The place of entry (i, j) in the upper triangle of a symmetric matrix of size d.
pub(crate) fn place(d: usize, i: usize, j: usize) -> usize {
    let (i, j) = (i.min(j), i.max(j));
    i * (2 * d - i - 1) / 2 + j
}

/// Sums that are 0 if rows are no longer than 1, with a factor for each row: what its squares add up to, less
/// 4·2³² + 1.
pub(crate) fn norms<M: Machine>(m: &mut M, rows: &[&[M::Wire]], features: usize) -> Gate<M::Share, M::Wire> {
    let wires: Vec<M::Wire> = rows.iter().flat_map(|row| row.iter().copied()).collect();
    let factors = m.challenge(&wires, rows.len());
    let one = Field::new((4 << (2 * FEATURE_BITS)) + 1);
    let constant: Field = factors.iter().map(|factor| -(*factor * one)).sum();
    let four = Field::new(4);
    let square = |(at, x): (usize, &M::Wire)| (if at < features { *x * four } else { *x }, *x);
    let sum = |row: &&[M::Wire]| row.iter().enumerate().map(square).collect();
    let sums = factors.into_iter().zip(rows.iter().map(sum)).collect();
    Gate::combined(sums).plus(m.constant(constant)).opened()
}

/// Walks through a decision without inputs, to prepare slots for it ([`Decide::circuit`]).
///
/// # Errors
/// None for numbers of [`Decide::new`].
pub fn plan(plan: &mut Plan, of: &Decide) -> Result<(), Error> {
    let d = of.features;
    let zeros = |count: usize| vec![Field::ZERO; count];
    let rows = vec![zeros(d + 3); of.order.len()];
    walk(decide(plan, of, Inputs { inverse: zeros(d * (d + 1) / 2), estimate: zeros(d), rows })).map(|_| ())
}

/// Decides. The row that is played is the record of the slot, and then, where arms are counted, a 1 for its
/// arm among K numbers that are 0 else.
///
/// # Errors
/// [`Error::Row`], [`Error::NoChoice`]; those of the machine.
pub async fn decide<M: Machine>(
    m: &mut M,
    decide: &Decide,
    inputs: Inputs<M::Share>,
) -> Result<Decided<M::Share>, Error> {
    let (d, arms) = (decide.features, decide.order.len());
    let Inputs { inverse, estimate, rows } = inputs;
    let shaped = inverse.len() == d * (d + 1) / 2
        && estimate.len() == d
        && rows.len() == arms
        && rows.iter().all(|row| row.len() == d + 3);
    if !shaped {
        return Err(Error::Slot);
    }
    // Rows stand in the order in which equal arms are preferred, so that the gates do not depend on it.
    let ordered = decide.order.iter().filter_map(|arm| rows.get(*arm)).flatten().copied();
    let all = inverse.into_iter().chain(estimate).chain(ordered);
    let masked = m.round(all.map(Gate::shared).collect()).await?;
    let (inverse, rest) = masked.split_at(d * (d + 1) / 2);
    let (estimate, rest) = rest.split_at(d);
    let rows: Vec<&[M::Wire]> = rest.chunks_exact(d + 3).collect();
    // The products have uniform masks, whatever the rows are.
    let mut gates = vec![norms(m, &rows, d)];
    for row in &rows {
        let entry = |i: usize| (0..d).map(|j| (inverse[place(d, i, j)], row[j])).collect();
        gates.extend((0..d).map(|i| Gate::products(entry(i))));
    }
    let opened = m.round(gates).await?;
    if m.public(opened[0]) != Field::ZERO {
        return Err(Error::Row);
    }
    let rows: Vec<&[M::Wire]> = rows.iter().map(|row| &row[..d]).collect();
    let mut gates = vec![];
    for (row, products) in rows.iter().zip(opened[1..].chunks_exact(d)) {
        let z = row.iter().copied().zip(products.iter().copied()).collect();
        gates.push(Gate::products(z).cut(MODEL_BITS + 2 * FEATURE_BITS - ROOT_BITS, decide.most_uncertainty));
        let u = estimate.iter().copied().zip(row.iter().copied()).collect();
        gates.push(Gate::products(u).cut(ESTIMATE_BITS + FEATURE_BITS - ROOT_BITS, decide.most_estimate));
    }
    let cut = m.round(gates).await?;
    let arguments: Vec<M::Wire> = cut.iter().step_by(2).map(|z| *z + decide.at_zero).collect();
    let estimates: Vec<M::Wire> = cut.iter().skip(1).step_by(2).copied().collect();
    let powers = chebyshev(m, arguments, decide).await?;
    let mut gates = vec![];
    for (arm, u) in estimates.iter().enumerate() {
        let start = m.share(*u) * decide.estimate + decide.shift;
        let terms = powers.iter().zip(&decide.bonus);
        let index = terms.fold(start, |sum, (power, factor)| sum + m.share(power[arm]) * *factor);
        gates.push(Gate::shared(index).cut(2 * ROOT_BITS - decide.index_bits, decide.most_index));
    }
    let indices = m.round(gates).await?;
    let most = decide.most_index >> (2 * ROOT_BITS - decide.index_bits);
    let chosen = largest(m, &indices, decide.width, most + decide.slack).await?;
    // The row of the arm; and whether one arm alone was chosen.
    let entry = |i: usize| chosen.winner.iter().map(|(at, wire)| (*wire, rows[*at][i])).collect();
    let mut gates: Vec<_> = (0..d).map(|i| Gate::products(entry(i)).record()).collect();
    if decide.counts {
        let mut by_arm: Vec<_> = chosen.winner.iter().map(|(at, wire)| (decide.order[*at], *wire)).collect();
        by_arm.sort_unstable_by_key(|(arm, _)| *arm);
        gates.extend(by_arm.into_iter().map(|(_, wire)| Gate::shared(m.share(wire)).record()));
    }
    let numbers = gates.len();
    let groups = &chosen.groups;
    if !groups.is_empty() {
        gates.push(one_of_each(m, groups));
    }
    let played = m.round(gates).await?;
    if let Some(sum) = played.get(numbers) {
        let random = m.random();
        let opened = m.round(vec![Gate::products(vec![(*sum, random)]).opened()]).await?;
        if m.public(opened[0]) != Field::ZERO {
            return Err(Error::NoChoice);
        }
    }
    let zero = m.constant(Field::ZERO);
    let number = |(at, wire): &(usize, M::Wire)| m.share(*wire) * Field::new(decide.order[*at] as u128);
    Ok(Decided {
        arm: chosen.winner.iter().map(number).fold(zero, |sum, part| sum + part),
        #[cfg(test)]
        indices: by_arm(m, &decide.order, &indices),
    })
}

/// The indices in the order of the arms.
#[cfg(test)]
fn by_arm<M: Machine>(m: &M, order: &[usize], indices: &[M::Wire]) -> Vec<M::Share> {
    let mut by_arm: Vec<(usize, M::Share)> =
        order.iter().zip(indices).map(|(arm, index)| (*arm, m.share(*index))).collect();
    by_arm.sort_unstable_by_key(|(arm, _)| *arm);
    by_arm.into_iter().map(|(_, index)| index).collect()
}

/// T₁, T₂, … up to the degree of the bonus, of each argument, in units of 2⁻³⁰.
async fn chebyshev<M: Machine>(
    m: &mut M,
    arguments: Vec<M::Wire>,
    decide: &Decide,
) -> Result<Vec<Vec<M::Wire>>, Error> {
    let degree = decide.bonus.len();
    let one = Field::new(1 << ROOT_BITS);
    let mut powers = vec![arguments];
    while powers.len() < degree {
        // 2·T_a·T_b = T_{a+b} + T_{a−b}, with a and b as equal as they can be.
        let known = powers.len();
        let next: Vec<(usize, usize)> =
            (known + 1..=(2 * known).min(degree)).map(|n| (n.div_ceil(2), n / 2)).collect();
        let mut gates = vec![];
        for (a, b) in &next {
            let pairs = powers[a - 1].iter().copied().zip(powers[b - 1].iter().copied());
            gates.extend(
                pairs.map(|pair| Gate::products(vec![pair]).cut(ROOT_BITS - 1, 1 << (2 * ROOT_BITS + 1))),
            );
        }
        let mut products = m.round(gates).await?.into_iter();
        for (a, b) in next {
            let first = powers[0].clone();
            let product = products.by_ref().take(first.len());
            let most = 1 << (ROOT_BITS + 1);
            let power = product
                .zip(first)
                .map(|(product, x)| m.at_most(if a == b { product + -one } else { product - x }, most));
            powers.push(power.collect());
        }
    }
    Ok(powers)
}

/// What is 0 if each group is a one and else zeros: Σ γ·(h² − h) + Σ γ'·(Σ h − 1).
fn one_of_each<M: Machine>(m: &mut M, groups: &[Vec<M::Wire>]) -> Gate<M::Share, M::Wire> {
    let wires: Vec<M::Wire> = groups.iter().flatten().copied().collect();
    let mut factors = m.challenge(&wires, wires.len() + groups.len()).into_iter();
    let mut sums = vec![];
    let mut rest = m.constant(Field::ZERO);
    for group in groups {
        let of_group = factors.next().unwrap_or(Field::ONE);
        for wire in group {
            let factor = factors.next().unwrap_or(Field::ONE);
            sums.push((factor, vec![(*wire, *wire)]));
            rest = rest + m.share(*wire) * (of_group - factor);
        }
        rest = rest + -of_group;
    }
    Gate::combined(sums).plus(rest)
}
