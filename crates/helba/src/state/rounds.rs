//! Which of the last rounds have had their feedback.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of rounds that feedback is accepted for at least: 37 hours at 1,000 decisions a second.
pub(super) const MOST_ROUNDS: u64 = 1 << 27;
/// The rounds of a block.
const BLOCK: u64 = 1 << 16;
/// The most blocks: of the newest, a part may be there.
const MOST_BLOCKS: u64 = MOST_ROUNDS / BLOCK + 1;

/// One bit for each of the last rounds, in blocks that copies of the state share. Blocks in which no round
/// has its feedback, and those in which all have, take no memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rounds {
    /// The number of the first block: that of round r is r / [`BLOCK`].
    first: u64,
    blocks: VecDeque<Block>,
    /// The number of bits that are set.
    count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Block {
    /// No round has its feedback.
    Waits,
    /// How many rounds have it, and bit r % 8 of byte r / 8 for each round r of the block.
    Some(u64, Arc<Vec<u8>>),
    /// All rounds have it.
    Answered,
}

/// Whether a round waits for its feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    Waits,
    Answered,
    /// It is older than what is remembered.
    Forgotten,
}

impl Block {
    fn count(&self) -> u64 {
        match self {
            Block::Waits => 0,
            Block::Some(count, _) => *count,
            Block::Answered => BLOCK,
        }
    }

    fn get(&self, at: u64) -> bool {
        match self {
            Block::Waits => false,
            Block::Some(_, bits) => bits[(at / 8) as usize] & (1 << (at % 8)) != 0,
            Block::Answered => true,
        }
    }

    /// Marks a round that waits.
    fn answer(&mut self, at: u64) {
        if let Block::Waits = self {
            *self = Block::Some(0, Arc::new(vec![0; (BLOCK / 8) as usize]));
        }
        if let Block::Some(count, bits) = self {
            Arc::make_mut(bits)[(at / 8) as usize] |= 1 << (at % 8);
            *count += 1;
            if *count == BLOCK {
                *self = Block::Answered;
            }
        }
    }

    fn is_valid(&self) -> bool {
        let Block::Some(count, bits) = self else { return true };
        let ones = bits.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        bits.len() as u64 == BLOCK / 8 && ones == *count && (1..BLOCK).contains(count)
    }
}

impl Rounds {
    pub(super) fn new() -> Self {
        Rounds { first: 0, blocks: VecDeque::new(), count: 0 }
    }

    pub(super) fn get(&self, round: u64) -> Round {
        let Some(block) = (round / BLOCK).checked_sub(self.first) else { return Round::Forgotten };
        match self.blocks.get(block as usize) {
            Some(block) if block.get(round % BLOCK) => Round::Answered,
            _ => Round::Waits,
        }
    }

    /// Marks a round that waits, and forgets blocks that [`MOST_ROUNDS`] later rounds follow.
    pub(super) fn answer(&mut self, round: u64) {
        let block = round / BLOCK;
        if block < self.first {
            return;
        }
        let newest = block.max((self.first + self.blocks.len() as u64).saturating_sub(1));
        let first = self.first.max((newest + 1).saturating_sub(MOST_BLOCKS));
        let forgotten = (first - self.first).min(self.blocks.len() as u64);
        let forgotten: u64 = self.blocks.drain(..forgotten as usize).map(|block| block.count()).sum();
        self.first = first;
        self.blocks.resize((newest + 1 - first) as usize, Block::Waits);
        self.blocks[(block - first) as usize].answer(round % BLOCK);
        self.count = self.count - forgotten + 1;
    }

    /// The newest of the rounds that are forgotten, or 0.
    pub(super) fn forgotten(&self) -> u64 {
        (self.first * BLOCK).saturating_sub(1)
    }

    /// How many rounds after this one have had their feedback. All of its block are remembered, or forgotten.
    pub(super) fn count_after(&self, round: u64) -> u64 {
        let (own, at) = (round / BLOCK, round % BLOCK);
        let blocks = (self.first..).zip(&self.blocks).filter(|(number, _)| *number >= own);
        let after = |(number, block): (u64, &Block)| match number > own || round == 0 {
            true => block.count(),
            false => (at + 1..BLOCK).filter(|at| block.get(*at)).count() as u64,
        };
        blocks.map(after).sum()
    }

    /// Whether the blocks can have been written by this type.
    pub(super) fn is_valid(&self) -> bool {
        self.first <= u64::MAX / BLOCK - MOST_BLOCKS
            && self.blocks.len() as u64 <= MOST_BLOCKS
            && self.blocks.iter().all(Block::is_valid)
            && self.blocks.iter().map(Block::count).sum::<u64>() == self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Whatever the order of the answers, a round is answered once, and forgotten only when it is too
        /// old.
        #[test]
        fn rounds_are_those_of_a_set(steps in prop::collection::vec((0u64..4, 0u64..MOST_ROUNDS), 1..60)) {
            let (mut rounds, mut set, mut newest) = (Rounds::new(), BTreeSet::new(), 0u64);
            for (jump, back) in steps {
                let round = (newest + jump * MOST_ROUNDS / 2 + 1).saturating_sub(back).max(1);
                let want = match round {
                    round if round <= rounds.forgotten() => Round::Forgotten,
                    round if set.contains(&round) => Round::Answered,
                    _ => Round::Waits,
                };
                prop_assert_eq!(rounds.get(round), want);
                prop_assert_eq!(rounds.count, set.range(rounds.forgotten() + 1..).count() as u64);
                let after = round.max(rounds.forgotten());
                prop_assert_eq!(rounds.count_after(after), set.range(after + 1..).count() as u64);
                if want == Round::Waits {
                    rounds.answer(round);
                    set.insert(round);
                    newest = newest.max(round);
                    prop_assert_eq!(rounds.get(round), Round::Answered);
                }
                prop_assert!(rounds.forgotten() + MOST_ROUNDS <= newest.max(MOST_ROUNDS));
                prop_assert!(newest < rounds.forgotten() + MOST_ROUNDS + 2 * BLOCK);
                prop_assert!(rounds.is_valid());
            }
        }
    }

    /// A bandit with 1,000 decisions a second counts feedback that is a day late, of decisions of which every
    /// second one gets it at once. The bits of the day take 11 MB, and a copy of them shares them.
    #[test]
    fn feedback_a_day_late_is_counted() {
        const DAY: u64 = 86_400 * 1000;
        let mut rounds = Rounds::new();
        (1..DAY).step_by(2).for_each(|round| rounds.answer(round));
        for round in (2..1000).step_by(2) {
            assert_eq!(rounds.get(round), Round::Waits);
            rounds.answer(round);
            assert_eq!(rounds.get(round), Round::Answered);
        }
        let stored = postcard::to_stdvec(&rounds).unwrap();
        assert!(stored.len() < 11_000_000, "{}", stored.len());
        assert_eq!(postcard::from_bytes::<Rounds>(&stored).unwrap(), rounds);
        let copy = rounds.clone();
        rounds.answer(DAY);
        let shared = |(a, b): (&Block, &Block)| match (a, b) {
            (Block::Some(_, a), Block::Some(_, b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        assert_eq!(copy.blocks.iter().zip(&rounds.blocks).filter(|pair| !shared(*pair)).count(), 1);
    }

    /// Rounds that all have their feedback take no memory.
    #[test]
    fn blocks_without_gaps_take_no_memory() {
        let mut rounds = Rounds::new();
        (0..3 * BLOCK).for_each(|round| rounds.answer(round));
        assert!(rounds.blocks.iter().all(|block| *block == Block::Answered));
        assert_eq!(
            (rounds.get(0), rounds.get(3 * BLOCK), rounds.count),
            (Round::Answered, Round::Waits, 3 * BLOCK)
        );
    }

    /// Blocks that another program wrote are refused.
    #[test]
    fn blocks_that_disagree_with_themselves_are_not_valid() {
        let mut rounds = Rounds::new();
        (1..10).for_each(|round| rounds.answer(round));
        let wrong: [fn(&mut Rounds); 5] = [
            |rounds| rounds.count += 1,
            |rounds| rounds.first = u64::MAX,
            |rounds| rounds.blocks[0] = Block::Some(9, Arc::new(vec![1; 9])),
            |rounds| rounds.blocks[0] = Block::Answered,
            |rounds| rounds.blocks.resize(MOST_BLOCKS as usize + 1, Block::Waits),
        ];
        for wrong in wrong {
            let mut changed = rounds.clone();
            wrong(&mut changed);
            assert!(rounds.is_valid() && !changed.is_valid());
        }
    }
}
