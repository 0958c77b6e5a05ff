//! The slots of the answers of encrypted decisions, in a ring as small as that of scores.
//!
//! The large ring has N/2 slots in r = N/N' segments of N'/2. After the products, the entry of arm a of user
//! b is slot J = (a·B + b)·Ka of it ([`crate::ScoreLayout`]), and m = min(r, Ka) segments hold entries,
//! because users are at most N'/(2·Ka): those of numbers 0, r/m, 2·r/m, … With N' = N there is one segment,
//! and entries keep their slots.
//!
//! ```text
//! folded      slot (J mod N'/2) + i = entry in slot J of the segment with number i·r/m, and 0 elsewhere
//! answer      the slots of its user, and 0 elsewhere
//! ```
//! The slots of user b are those of user 0, b·Ka slots further, so that one encoded mask serves all users.

use crate::{ScoreRing, Shape};
use ckks::Move;
use num_complex::Complex64;

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

    /// The moves of the entries of the first `users` users into the small ring.
    pub fn moves(&self, users: usize) -> Vec<Move> {
        let slots = |i: usize| {
            let all = (0..self.arms).flat_map(|arm| (0..users).map(move |user| (arm, user)));
            all.map(|(arm, user)| self.product_slot(arm, user))
                .filter(|slot| self.segment(*slot) == i)
                .collect()
        };
        (0..self.segments()).map(|i| Move { slots: slots(i), rotation: -(i as i64) }).collect()
    }

    /// The rotations of the small ring that a fold takes, each within its slots.
    pub fn rotations(&self) -> impl Iterator<Item = i64> {
        (1..self.segments() as i64).map(|i| -i)
    }

    /// The slots of the small ring with 1 at the entries of user 0.
    pub fn mask(&self) -> Vec<Complex64> {
        let mut out = vec![Complex64::ZERO; self.small];
        (0..self.arms).for_each(|arm| out[self.slot(arm, 0)] = Complex64::ONE);
        out
    }

    /// The rotation that takes [`Self::mask`] to the entries of `user`.
    pub fn rotation_to(&self, user: usize) -> i64 {
        -((user * self.arms) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyPlan;
    use std::collections::BTreeSet;

    /// Every entry of every user has a slot of its own, to which one move takes it; the mask, rotated, has
    /// exactly the slots of a user. For shapes with the smallest and the largest rings, and the toys.
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
            let plan = KeyPlan::new(shape, toy).unwrap();
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
        let moves = layout.moves(layout.users);
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
        let alone: BTreeSet<usize> = layout.moves(1).iter().flat_map(|m| m.slots.clone()).collect();
        assert!(alone.into_iter().eq((0..layout.arms).map(|arm| layout.product_slot(arm, 0))), "{what}");
        let mask = layout.mask();
        for user in 0..layout.users {
            let rotation = layout.rotation_to(user);
            let own: BTreeSet<usize> = (0..layout.arms).map(|arm| layout.slot(arm, user)).collect();
            for arm in 0..layout.arms {
                // Slot j of the rotated mask is slot j + k of the mask.
                let from = (layout.slot(arm, user) as i64 + rotation).rem_euclid(small as i64);
                assert_eq!(mask[from as usize], Complex64::ONE, "{what}, user {user}");
            }
            assert_eq!(own.len(), mask.iter().filter(|z| z.re == 1.0).count());
        }
    }
}
