use crate::Error;
use rns::Modulus;

/// The most members of a committee.
pub const MOST_MEMBERS: u8 = 16;

/// t of n: any t members open, and t − 1 learn nothing. Members are the points 1 to n.
///
/// n ≥ 2t − 1, because the relinearisation key is a sum over points of the square of a polynomial of degree
/// t − 1, and t ≥ 2, because a zero share hides a share from all others only if another member has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quorum {
    threshold: u8,
    members: u8,
}

impl Quorum {
    /// `threshold` of `members`.
    ///
    /// # Errors
    /// [`Error::Quorum`] unless 2 ≤ t, 2t − 1 ≤ n ≤ [`MOST_MEMBERS`].
    pub fn new(threshold: u8, members: u8) -> Result<Self, Error> {
        let enough = u16::from(members) + 1 >= 2 * u16::from(threshold);
        let possible = threshold >= 2 && members <= MOST_MEMBERS && enough;
        possible.then_some(Quorum { threshold, members }).ok_or(Error::Quorum { threshold, members })
    }

    /// t.
    pub fn threshold(self) -> u8 {
        self.threshold
    }

    /// n.
    pub fn members(self) -> u8 {
        self.members
    }

    /// All members.
    pub fn everybody(self) -> ActiveSet {
        ActiveSet(((1u32 << self.members) - 1) as u16)
    }

    /// All sets of t members, in ascending order of their [`ActiveSet::bits`].
    pub fn subsets(self) -> impl Iterator<Item = ActiveSet> {
        let t = u32::from(self.threshold);
        (1..=self.everybody().0).filter(move |bits| bits.count_ones() == t).map(ActiveSet)
    }

    /// The t members who answer a request.
    ///
    /// # Errors
    /// [`Error::ActiveSet`] unless `members` are t different numbers from 1 to n.
    pub fn active(self, members: &[u8]) -> Result<ActiveSet, Error> {
        let known = members.iter().filter(|j| (1..=self.members).contains(*j));
        let set = ActiveSet(known.fold(0, |bits, j| bits | 1 << (j - 1)));
        if set.len() != members.len() || set.len() != usize::from(self.threshold) {
            let got = members.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::ActiveSet { got, want: self.threshold, members: self.members });
        }
        Ok(set)
    }
}

/// The members who take part in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ActiveSet(u16);

impl ActiveSet {
    /// The members, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (1..=MOST_MEMBERS).filter(move |j| self.contains(*j))
    }

    /// Whether `member` takes part.
    pub fn contains(self, member: u8) -> bool {
        (1..=MOST_MEMBERS).contains(&member) && self.0 >> (member - 1) & 1 == 1
    }

    /// The number of members.
    #[allow(clippy::len_without_is_empty, reason = "no set is empty")]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Bit j − 1 is set for member j.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// λ_j = Π k/(k − j) over the other members k, modulo a prime: f(0) = Σ_j λ_j·f(j) for every polynomial f
    /// whose degree is less than the number of members.
    pub fn lagrange(self, j: u8, m: &Modulus) -> u64 {
        let others = self.iter().filter(|&k| k != j);
        let (numerator, denominator) = others.fold((1, 1), |(up, down), k| {
            let difference = m.reduce_i64(i64::from(k) - i64::from(j));
            (m.mul(up, u64::from(k)), m.mul(down, difference))
        });
        m.mul(numerator, m.inv(denominator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorums_are_those_of_an_honest_majority() {
        for (t, n, possible) in [
            (1, 1, false),
            (2, 2, false),
            (2, 3, true),
            (3, 5, true),
            (3, 4, false),
            (8, 16, true),
            (9, 17, false),
            (127, 3, false),
            (128, 3, false),
            (129, 3, false),
            (130, 3, false),
            (255, 16, false),
            (2, 255, false),
        ] {
            assert_eq!(Quorum::new(t, n).is_ok(), possible, "{t} of {n}");
        }
        let refused = Quorum::new(3, 4).unwrap_err();
        assert_eq!((refused.fault(), refused.to_string().contains("3 of 4")), (fault::Fault::Value, true));
    }

    #[test]
    fn sets_have_t_different_members() {
        let quorum = Quorum::new(3, 5).unwrap();
        let set = quorum.active(&[5, 1, 3]).unwrap();
        assert_eq!((set.iter().collect::<Vec<_>>(), set.bits(), set.len()), (vec![1, 3, 5], 0b10101, 3));
        for members in [&[1, 2][..], &[1, 2, 2], &[1, 2, 6], &[0, 1, 2], &[1, 2, 3, 4], &[]] {
            assert!(matches!(quorum.active(members), Err(Error::ActiveSet { .. })), "{members:?}");
        }
        assert_eq!(quorum.everybody().iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        let all: Vec<ActiveSet> = quorum.subsets().collect();
        assert!(all.len() == 10 && all.contains(&set) && all.iter().all(|set| set.len() == 3));
        assert_eq!(Quorum::new(8, 16).unwrap().subsets().count(), 12_870);
    }

    /// Σ λ_j·f(j) = f(0) for a polynomial of degree t − 1, and not for one of degree t.
    #[test]
    fn coefficients_interpolate_at_zero() {
        let m = Modulus::new(1_000_003).unwrap();
        let set = Quorum::new(3, 5).unwrap().active(&[2, 3, 5]).unwrap();
        let at_zero = |coefficients: &[u64]| {
            set.iter().fold(0, |sum, j| {
                let value = coefficients.iter().rev().fold(0, |v, c| m.add(m.mul(v, u64::from(j)), *c));
                m.add(sum, m.mul(set.lagrange(j, &m), value))
            })
        };
        assert_eq!(at_zero(&[7, 123_456, 999_999]), 7);
        assert_ne!(at_zero(&[7, 123_456, 999_999, 1]), 7);
    }
}
