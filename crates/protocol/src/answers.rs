//! Where the answers of encrypted decisions are, in a ring as small as that of scores.
//!
//! The large ring has N/2 slots in r = N/N' segments of N'/2. After the products, the entry of arm a of user
//! b is slot J = (a·B + b)·Ka of it ([`crate::ScoreLayout`]), and m = min(r, Ka) segments hold entries,
//! because users are at most N'/(2·Ka): those of numbers 0, r/m, 2·r/m, … With N' = N there is one segment,
//! and entries keep their slots.
//!
//! ```text
//! one request        folded: slot (J mod N'/2) + i = entry in slot J of the segment with number i·r/m of the
//!                    users of the request, and 0 elsewhere
//! several requests   exchanged: coefficient b·Ka + a = entry of arm a of user b
//! ```
//! **The exchange of answers**, which the pack of several requests ends with. The server masks all N
//! coefficients of the products uniformly modulo q, a holder of the key decrypts, decodes the slots and
//! encrypts the entries as coefficients under a seed, and the server takes the image of the mask off. An
//! answer is the seed, and the coefficients of c₀ of its users, each with noise of the server. Hence:
//!
//! - A raiser, the holder of the exchange and users who pool what they see have u = v + m mod q, where v are
//!   the products and m is the mask, and up to noise E(m) in their own coefficients, where E is the map from
//!   coefficients to entries. u is uniform whatever v is. E is linear and keeps entries of different users in
//!   different coefficients, so that E(m) there is E(u) less their own entries. Nothing of another user's
//!   entry is in an answer, **of whatever size it is**, but the rounding of E and whether v + m wrapped
//!   around q. The rounding is at most N·2⁻⁷ units beside a noise of ± 2²⁶, which is a statistical distance
//!   of 2⁻¹⁹ at N = 2¹⁵, and of 2⁻¹⁸ at N = 2¹⁴ with a scale of 30 bits. A wrap spoils the answers of all
//!   users.
//! - All other coefficients of c₀ are left out. This shows as much as if the server sent them under numbers
//!   that are uniform modulo q, because whoever gets such numbers can draw them.
//! - c₁ is the same for all users of a pack, and needs no re-randomisation. An honest holder draws it before
//!   anything depends on it, and one that deviates learns nothing from a number that it chose. The
//!   ciphertexts that products were computed from do not enter it.

use crate::{ScoreRing, Shape};
use ckks::Move;

/// Where the entries of the users of an evaluation are.
#[derive(Debug, Clone)]
pub struct AnswerLayout {
    /// Ka.
    arms: usize,
    /// The most users of an evaluation.
    users: usize,
    /// N/2.
    large: usize,
    /// N'/2.
    small: usize,
}

impl AnswerLayout {
    /// The layout for keys of `shape` and a large ring of `slots` slots.
    pub fn new(ring: ScoreRing, shape: Shape, slots: usize) -> Self {
        let (arms, users) = (shape.arm_slots, ring.users(shape, slots));
        AnswerLayout { arms, users, large: slots, small: ring.n() / 2 }
    }

    /// The most users of an evaluation.
    pub fn users(&self) -> usize {
        self.users
    }

    /// J, the slot of the large ring with the entry of an arm of a user.
    pub fn product_slot(&self, arm: usize, user: usize) -> usize {
        // B is the number of users that the slots hold, which is more than a pack of two arms has.
        (arm * (self.large / (self.arms * self.arms)) + user) * self.arms
    }

    /// The slot of the large ring with the raised scores of an arm of a user: the last of its row of pairs.
    pub fn score_slot(&self, arm: usize, user: usize) -> usize {
        self.product_slot(arm, user) + self.arms - 1
    }

    /// m, the number of segments with entries.
    fn segments(&self) -> usize {
        (self.large / self.small).min(self.arms)
    }

    /// i of the segment of slot J, in which [`Self::moves`] rotate it by −i.
    fn segment(&self, slot: usize) -> usize {
        slot / self.small * self.segments() * self.small / self.large
    }

    /// The slot of the small ring with the entry of an arm of a user.
    pub fn slot(&self, arm: usize, user: usize) -> usize {
        let slot = self.product_slot(arm, user);
        slot % self.small + self.segment(slot)
    }

    /// The moves of the entries of these users into the small ring.
    pub fn moves(&self, users: &[usize]) -> Vec<Move> {
        let slots = |i: usize| {
            let all = (0..self.arms).flat_map(|arm| users.iter().map(move |user| (arm, *user)));
            all.map(|(arm, user)| self.product_slot(arm, user))
                .filter(|slot| self.segment(*slot) == i)
                .collect()
        };
        (0..self.segments()).map(|i| Move { slots: slots(i), rotation: -(i as i64) }).collect()
    }

    /// The coefficient of the small ring with the entry of an arm of a user, after the exchange of answers.
    pub fn coefficient(&self, arm: usize, user: usize) -> usize {
        user * self.arms + arm
    }

    /// The rotations of the small ring that a fold takes, each within its slots.
    pub fn rotations(&self) -> impl Iterator<Item = i64> {
        (1..self.segments() as i64).map(|i| -i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyPlan, WidthShape};
    use std::collections::BTreeSet;

    /// Every entry of every user has a slot of its own, to which one move takes it, and a coefficient of its
    /// own. For shapes with the smallest and the largest rings, and the toys.
    #[test]
    fn every_entry_has_a_slot_of_its_own() {
        for (d, k, toy) in [
            (2, 2, false),
            (7, 4, false),
            (8, 8, false),
            (16, 16, false),
            (16, 2, false),
            (8, 64, false),
            (16, 32, false),
            (16, 64, false),
            (2, 2, true),
            (7, 4, true),
            (8, 8, true),
            (5, 16, true),
            (16, 16, true),
            (16, 32, true),
            (8, 64, true),
        ] {
            let shape = Shape::for_problem(d, k);
            let plan = KeyPlan::new(shape, toy, WidthShape::default()).unwrap();
            let ring = plan.scores;
            let slots = 1 << (plan.params.log_n - 1);
            check(&AnswerLayout::new(ring, shape, slots), &format!("{d} {k} {toy}"));
        }
        // Toys with eight segments, of which two and sixteen arms use two and eight.
        for arm_slots in [2, 16] {
            let shape = Shape { dim: 16, arm_slots };
            let ring = ScoreRing { params: ckks::TOY_LOGN11_SCORES, gap: (1 << 11) / (2 * arm_slots) };
            check(&AnswerLayout::new(ring, shape, 1 << 13), &format!("{arm_slots} arms"));
        }
    }

    fn check(layout: &AnswerLayout, what: &str) {
        let (small, large) = (layout.small, layout.large);
        let entries: Vec<(usize, usize)> =
            (0..layout.users).flat_map(|user| (0..layout.arms).map(move |arm| (user, arm))).collect();
        let places: BTreeSet<usize> = entries.iter().map(|&(user, arm)| layout.slot(arm, user)).collect();
        assert!(places.len() == entries.len() && places.iter().all(|slot| *slot < small), "{what}");
        let coefficients: BTreeSet<usize> =
            entries.iter().map(|&(user, arm)| layout.coefficient(arm, user)).collect();
        assert!(coefficients.len() == entries.len() && coefficients.iter().all(|k| *k < 2 * small), "{what}");
        let users: Vec<usize> = (0..layout.users).collect();
        let moves = layout.moves(&users);
        assert_eq!(moves.iter().map(|m| m.slots.len()).sum::<usize>(), entries.len(), "{what}");
        let moved: BTreeSet<(usize, usize)> = (moves.iter())
            .flat_map(|m| m.slots.iter().map(|slot| (*slot, (*slot as i64 - m.rotation) as usize % small)))
            .collect();
        for &(user, arm) in &entries {
            assert!(layout.product_slot(arm, user) < large);
            assert!(moved.contains(&(layout.product_slot(arm, user), layout.slot(arm, user))), "{what}");
        }
        let keys: BTreeSet<i64> = layout.rotations().chain([0]).collect();
        assert!(moves.iter().all(|m| keys.contains(&m.rotation)), "{what}");
        for m in &moves {
            let residues: BTreeSet<usize> = m.slots.iter().map(|slot| slot % small).collect();
            assert_eq!(residues.len(), m.slots.len(), "{what}");
        }
        for user in [0, layout.users - 1] {
            let alone: BTreeSet<usize> = layout.moves(&[user]).iter().flat_map(|m| m.slots.clone()).collect();
            assert!(
                alone.into_iter().eq((0..layout.arms).map(|arm| layout.product_slot(arm, user))),
                "{what}"
            );
        }
    }
}
