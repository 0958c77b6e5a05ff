//! What the members of an epoch have spent of the budget of answers, for the members of the next one.

use ckks_shares::Quorum;
use protocol::budget::Budget;
use std::collections::BTreeMap;

/// What each member of `next` counts as spent, so that a coalition that spent as much as the members of the
/// epoch before have counted spends no more than the budget with those of both epochs.
///
/// What was spent is at most the sum of what the n − t + 1 members counted who were honest: the largest ones,
/// since nobody knows who was. `known` are the counts that are told, by member. Others may have counted
/// `most`, up to which a member answers. The sum is divided by the n' − t' + 1 members who may be honest
/// next, since each of these answers as much less, and multiplied by t/t' if that is more than 1: the nats of
/// a decision grow at most as t does, and the forms of a model do not.
pub(super) fn counted_on(known: &BTreeMap<u8, Budget>, most: Budget, before: Quorum, next: Quorum) -> Budget {
    let counted = |of: fn(&Budget) -> u64| {
        let known = known.iter().map(|(member, spent)| (*member, of(spent))).collect();
        counted_alone(&known, of(&most), before, next)
    };
    Budget { decisions: counted(|spent| spent.decisions), models: counted(|spent| spent.models) }
}

fn counted_alone(known: &BTreeMap<u8, u64>, most: u64, before: Quorum, next: Quorum) -> u64 {
    let unknown = known.values().copied().fold(most, u64::max);
    let members = before.everybody().iter();
    let mut counts: Vec<u64> = members.map(|j| known.get(&j).copied().unwrap_or(unknown)).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let spent: u128 = counts.into_iter().take(honest(before)).map(u128::from).sum();
    let divisor = honest(next) as u128 * u128::from(next.threshold());
    let threshold = before.threshold().max(next.threshold());
    u64::try_from((spent * u128::from(threshold)).div_ceil(divisor)).unwrap_or(u64::MAX)
}

/// The fewest members who are honest beside t − 1 others.
fn honest(quorum: Quorum) -> usize {
    usize::from(quorum.members() - quorum.threshold()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Shape;
    use protocol::budget::{OPENED_NATS, budget_of_a_member, opened_nats};

    /// Whoever was honest and whatever each opened: with what the next epoch may open, the budget of the key
    /// suffices. The control is the largest count of those who deal, which knows nothing of the others.
    #[test]
    fn attack_a_resharing_renews_no_budget_of_members_who_tell_nothing() {
        let shape = Shape::for_problem(7, 4);
        let quorum = |(t, n)| Quorum::new(t, n).unwrap();
        for (before, next) in [((2, 3), (2, 3)), ((3, 5), (3, 5)), ((2, 3), (3, 5)), ((3, 5), (2, 3))] {
            let makers = before.1;
            let each = opened_nats(shape, before.0, makers);
            let [most, after] =
                [before, next].map(|quorum| budget_of_a_member(OPENED_NATS, shape, quorum, makers).decisions);
            // The last members open all that they may, and the dealers, who are the first, nothing.
            let counts: BTreeMap<u8, u64> =
                (1..=before.1).map(|j| (j, if j > before.0 { most } else { 0 })).collect();
            let opened: u64 = counts.values().sum();
            let told: BTreeMap<u8, u64> = counts.into_iter().filter(|(j, _)| *j <= before.0).collect();
            let honest = honest(quorum(next)) as u64;
            let spent = |counted: u64| {
                let left = honest * after.saturating_sub(counted);
                opened as f64 * each + left as f64 * opened_nats(shape, next.0, makers)
            };
            let counted = counted_alone(&told, most, quorum(before), quorum(next));
            assert!(spent(counted) <= OPENED_NATS, "{before:?}, {next:?}: {}", spent(counted));
            let largest = told.values().copied().max().unwrap_or(0);
            assert!(spent(largest) > OPENED_NATS, "the control");
        }
    }

    #[test]
    fn members_who_tell_what_they_have_opened_are_counted_by_that() {
        let quorum = Quorum::new(3, 5).unwrap();
        // Models are counted as decisions are.
        let counted = |told: &[(u8, u64)]| {
            let own = |decisions| Budget { decisions, models: decisions / 2 };
            let told = told.iter().map(|(member, decisions)| (*member, own(*decisions))).collect();
            let counted = counted_on(&told, own(249), quorum, quorum);
            let halves = told.iter().map(|(member, spent)| (*member, spent.models)).collect();
            assert_eq!(counted.models, counted_alone(&halves, 124, quorum, quorum));
            counted.decisions
        };
        assert_eq!(counted(&[(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]), 0);
        assert_eq!(counted(&[(1, 30), (2, 20), (3, 10), (4, 0), (5, 31)]), 27);
        assert_eq!(counted(&[(1, 150), (2, 150), (3, 150), (5, 150)]), 183);
        assert_eq!(counted(&[(1, 0), (2, 0), (3, 0)]), 166);
        assert_eq!(counted(&[(1, u64::MAX - 1), (2, u64::MAX - 1)]), u64::MAX - 1);
    }
}
