//! Comparisons of shared integers, and the largest of several.
//!
//! For |v| < 2^w, c = v + 2^w + R + 2^w·r is opened, where R is w random bits and r a sum of large random
//! integers: c tells nothing of v. Its lowest w bits are compared with those of R, three bits at a time: of
//! each block the indicators g of R > c and e of R = c are sums of prepared ones, and two blocks become one
//! by (g, e)∘(g', e') = (g + e·g', e·e'). Then v ≥ 0 has the indicator ⌊c/2^w⌋ − r − g of all blocks
//! (Catrina, de Hoogh 2010). Of the lowest block e is never needed.

use crate::Error;
use crate::machine::{Bits, Gate, Machine};
use shares::Field;

/// The largest width of a comparison.
pub(crate) const MOST_WIDTH: u32 = 33;

/// Wires that are 1 for values of at least 0, and 0 for others. Each value is an integer below 2^`width` in
/// size; `width` is a multiple of 3. Rounds: 2 + ⌈log₂(`width`/3)⌉, and 3 at least.
///
/// # Errors
/// [`Error::OutOfRange`] for a width that is no multiple of 3 or above 33; those of the machine.
pub async fn at_least_zero<M: Machine>(
    m: &mut M,
    values: &[M::Share],
    width: u32,
) -> Result<Vec<M::Wire>, Error> {
    if !width.is_multiple_of(3) || !(3..=MOST_WIDTH).contains(&width) {
        let want = "a multiple of 3, at most 33";
        return Err(Error::OutOfRange { what: "the width of a comparison", got: width.to_string(), want });
    }
    let power = Field::new(1 << width);
    let most = (1u128 << width) - 1;
    let mut bits = Vec::with_capacity(values.len());
    let mut highs = Vec::with_capacity(values.len());
    let mut opened = Vec::with_capacity(values.len());
    for value in values {
        let random = m.random_bits(width)?;
        let high = m.random_below(m.mask_bits() - width);
        let c = m.share_at_most(*value, most) + power + random.value + high * power;
        opened.push(Gate::shared(c).opened());
        bits.push(random);
        highs.push(high);
    }
    let opened: Vec<u128> = m.round(opened).await?.into_iter().map(|c| m.public(c).get()).collect();
    // Of each block from the lowest on [R > c], and but for the lowest [R = c].
    let leaves = opened.iter().zip(&bits).flat_map(|(c, bits)| leaves(m, *c, bits));
    let leaves: Vec<_> = leaves.map(Gate::shared).collect();
    let mut leaves = m.round(leaves).await?.into_iter().map(|leaf| m.at_most(leaf, 1));
    let blocks = width as usize / 3;
    let mut trees: Vec<Vec<Block<M::Wire>>> = Vec::with_capacity(values.len());
    for _ in values {
        let mut block = |at: usize| {
            let above = leaves.next()?;
            Some(Block { above, equal: if at == 0 { None } else { leaves.next() } })
        };
        let tree: Option<Vec<_>> = (0..blocks).map(&mut block).collect();
        trees.push(tree.ok_or(Error::Slot)?);
    }
    drop(leaves);
    // The last product of two blocks gives the wire of the result.
    while trees.first().is_some_and(|tree| tree.len() > 2) {
        let mut gates = vec![];
        for (low, high) in trees.iter().flat_map(|tree| pairs(tree)) {
            let equal = high.equal.ok_or(Error::Slot)?;
            gates.push(Gate::products(vec![(equal, low.above)]));
            gates.extend(low.equal.map(|below| Gate::products(vec![(equal, below)])));
        }
        let mut products = m.round(gates).await?.into_iter();
        for tree in &mut trees {
            let mut next = vec![];
            for (low, high) in pairs(tree) {
                let carried = products.next().ok_or(Error::Slot)?;
                let equal = low.equal.and_then(|_| products.next()).map(|equal| m.at_most(equal, 1));
                next.push(Block { above: m.at_most(high.above + carried, 1), equal });
            }
            next.extend(tree.chunks_exact(2).remainder().iter().copied());
            *tree = next;
        }
    }
    let mut gates = vec![];
    for ((c, high), tree) in opened.iter().zip(highs).zip(&trees) {
        let (low, top) = (tree.first().ok_or(Error::Slot)?, tree.last().ok_or(Error::Slot)?);
        let carry = m.constant(Field::new(c >> width)) - high;
        gates.push(match (tree.len(), top.equal) {
            (2, Some(equal)) => {
                let negative = equal * -Field::ONE;
                Gate::products(vec![(negative, low.above)]).plus(carry - m.share(top.above))
            }
            _ => Gate::shared(carry - m.share(low.above)),
        });
    }
    Ok(m.round(gates).await?.into_iter().map(|result| m.at_most(result, 1)).collect())
}

/// Whether R is above c in some blocks, and whether it is equal there.
#[derive(Clone, Copy)]
struct Block<W> {
    above: W,
    equal: Option<W>,
}

fn pairs<W: Copy>(tree: &[Block<W>]) -> impl Iterator<Item = (Block<W>, Block<W>)> {
    tree.chunks_exact(2).map(|pair| (pair[0], pair[1]))
}

/// Of each block of bits R, from the lowest on, [R > c] and, but for the lowest, [R = c].
fn leaves<M: Machine>(m: &M, c: u128, bits: &Bits<M::Share>) -> Vec<M::Share> {
    let zero = m.constant(Field::ZERO);
    let mut leaves = Vec::with_capacity(2 * bits.blocks.len());
    for (at, indicators) in bits.blocks.iter().enumerate() {
        let digit = (c >> (3 * at)) as usize & 7;
        leaves.push(indicators[digit + 1..].iter().fold(zero, |sum, one| sum + *one));
        if at > 0 {
            leaves.push(indicators[digit]);
        }
    }
    leaves
}

/// Which of several indices is the largest.
pub struct Largest<W> {
    /// Of each place a wire: 1 for the one that has won.
    pub winner: Vec<(usize, W)>,
    /// Groups of wires of which exactly one is 1.
    pub groups: Vec<Vec<W>>,
}

/// An index, and the places for one of which it stands: the wire of the one is 1, and none is one without a
/// wire.
type Candidate<W> = (W, Vec<(usize, Option<W>)>);

/// The place of the largest index, and of equal ones the first. Indices are integers of at most
/// `most` in size, and two of them differ by less than 2^`width`.
///
/// Groups of four are compared by all pairs, and their winners again.
///
/// # Errors
/// Those of the machine.
pub async fn largest<M: Machine>(
    m: &mut M,
    indices: &[M::Wire],
    width: u32,
    most: u128,
) -> Result<Largest<M::Wire>, Error> {
    let one = m.known(Field::ONE);
    let mut groups = vec![];
    // A candidate has an index, and places for one of which it stands.
    let mut candidates: Vec<Candidate<M::Wire>> =
        indices.iter().enumerate().map(|(at, index)| (*index, vec![(at, None)])).collect();
    while candidates.len() > 1 {
        let of_four: Vec<&[_]> = candidates.chunks(4).collect();
        let pairs = |group: usize, size: usize| {
            (0..size).flat_map(move |i| (i + 1..size).map(move |j| (group, i, j)))
        };
        let all: Vec<(usize, usize, usize)> =
            of_four.iter().enumerate().flat_map(|(g, group)| pairs(g, group.len())).collect();
        let difference =
            |(g, i, j): &(usize, usize, usize)| m.share(of_four[*g][*i].0) - m.share(of_four[*g][*j].0);
        let differences: Vec<M::Share> = all.iter().map(difference).collect();
        let first_wins = at_least_zero(m, &differences, width).await?;
        // What each candidate must be: ahead of all others of its group.
        let mut beats: Vec<Vec<Vec<M::Wire>>> =
            of_four.iter().map(|group| vec![vec![]; group.len()]).collect();
        for ((g, i, j), wins) in all.iter().zip(first_wins) {
            beats[*g][*i].push(wins);
            beats[*g][*j].push(one - wins);
        }
        while beats.iter().flatten().any(|all| all.len() > 1) {
            let two = |all: &Vec<M::Wire>| Some((*all.first()?, *all.get(1)?));
            let gates = beats.iter().flatten().filter_map(two).map(|pair| Gate::products(vec![pair]));
            let gates: Vec<_> = gates.collect();
            let mut products = m.round(gates).await?.into_iter();
            for all in beats.iter_mut().flatten().filter(|all| all.len() > 1) {
                let product = products.next().ok_or(Error::Slot)?;
                all.splice(..2, [m.at_most(product, 1)]);
            }
        }
        let wins: Vec<Vec<M::Wire>> = beats
            .into_iter()
            .map(|group| group.into_iter().map(|all| all.first().copied().unwrap_or(one)).collect())
            .collect();
        groups.extend(wins.iter().filter(|group| group.len() > 1).cloned());
        let last = of_four.len() == 1;
        let alone = |places: &[(usize, Option<M::Wire>)]| places.iter().all(|(_, wire)| wire.is_none());
        if last && of_four[0].iter().all(|(_, places)| alone(places)) {
            let arm = |((_, places), win): (&Candidate<M::Wire>, M::Wire)| Some((places.first()?.0, win));
            let winner = of_four[0].iter().zip(wins[0].iter().copied()).filter_map(arm).collect();
            return Ok(Largest { winner, groups });
        }
        // The winner's index, and the arm for which it stands.
        let mut gates = vec![];
        for (group, wins) in of_four.iter().zip(&wins).filter(|(group, _)| group.len() > 1) {
            if !last {
                let indices = group.iter().map(|(index, _)| *index);
                gates.push(Gate::products(wins.iter().copied().zip(indices).collect()));
            }
            for ((_, places), win) in group.iter().zip(wins) {
                let stands = places.iter().filter_map(|(_, wire)| *wire);
                gates.extend(stands.map(|wire| Gate::products(vec![(*win, wire)])));
            }
        }
        let mut products = m.round(gates).await?.into_iter();
        let mut next = vec![];
        for (group, wins) in of_four.iter().zip(&wins) {
            if let [alone] = group {
                next.push(alone.clone());
                continue;
            }
            let index = if last { one } else { m.at_most(products.next().ok_or(Error::Slot)?, most) };
            let mut stands = vec![];
            for ((_, places), win) in group.iter().zip(wins) {
                for (at, wire) in places {
                    let wire = match wire {
                        None => *win,
                        Some(_) => m.at_most(products.next().ok_or(Error::Slot)?, 1),
                    };
                    stands.push((*at, Some(wire)));
                }
            }
            next.push((index, stands));
        }
        candidates = next;
    }
    let winner = candidates.pop().map(|(_, places)| places).unwrap_or_default();
    let winner = winner.into_iter().map(|(arm, wire)| (arm, wire.unwrap_or(one))).collect();
    Ok(Largest { winner, groups })
}
