//! Members, their subsets, and polynomials through their shares.

use crate::{Error, Field};

/// The most subsets of a committee, each of which has a key.
const MOST_SUBSETS: usize = 126;

/// How many members a committee has, and how many of them know everything together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "(u8, u8)", into = "(u8, u8)")]
pub struct Threshold {
    t: u8,
    n: u8,
}

impl Threshold {
    /// A committee of `n` members of whom `t` know everything together, and fewer than `t` nothing.
    ///
    /// With 2t − 1 members here a wrong share is seen, hence n is at least that. Two sets of 2t − 1 members
    /// have t in common, an honest one among them, hence n is at most 3t − 2.
    ///
    /// # Errors
    /// [`Error::Threshold`] for other numbers, for t below 2, and for more than 126 subsets.
    pub fn new(t: u8, n: u8) -> Result<Self, Error> {
        let refused = Error::Threshold { t: t.clamp(2, 64), n };
        if !(2..=64).contains(&t) || !(2 * t - 1..=3 * t - 2).contains(&n) {
            return Err(refused);
        }
        let threshold = Threshold { t, n };
        if threshold.number_of_subsets() > MOST_SUBSETS { Err(refused) } else { Ok(threshold) }
    }

    /// The number of members who know everything together.
    pub fn t(self) -> usize {
        self.t.into()
    }

    /// The number of members. They are 1 to n.
    pub fn members(self) -> u8 {
        self.n
    }

    /// The members that must be here: 2t − 1.
    pub fn needed(self) -> usize {
        2 * self.t() - 1
    }

    /// From how many others a member that was put back hears what they remember: any 2t − 1 members have an
    /// honest one among these, even without that member.
    pub fn remember(self) -> usize {
        usize::from(self.n) - self.t() + 1
    }

    /// C(n, t − 1).
    fn number_of_subsets(self) -> usize {
        let (n, k) = (usize::from(self.n), self.t() - 1);
        (0..k).try_fold(1usize, |c, i| Some(c.checked_mul(n - i)? / (i + 1))).unwrap_or(usize::MAX)
    }

    /// Every subset of n − t + 1 members, in the order of their numbers.
    pub fn subsets(self) -> Vec<Subset> {
        let size = u32::from(self.n) - u32::from(self.t) + 1;
        // n is at most 16 where there are at most 126 subsets.
        let all = (0..1u32 << self.n).filter(|bits| bits.count_ones() == size);
        let mut subsets: Vec<Subset> = all.map(|bits| Subset(bits << 1)).collect();
        subsets.sort_by_key(|subset| subset.members().collect::<Vec<u8>>());
        subsets
    }
}

/// Members who have a key in common: bit j is set for member j.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subset(u32);

impl Subset {
    /// Whether a member is in it.
    pub fn has(self, member: u8) -> bool {
        member < 32 && self.0 >> member & 1 == 1
    }

    /// Its members, by their numbers.
    pub fn members(self) -> impl Iterator<Item = u8> {
        (1..32).filter(move |member| self.has(*member))
    }
}

/// The polynomials of a committee.
#[derive(Clone)]
pub struct Sharing {
    threshold: Threshold,
    subsets: Vec<Subset>,
    /// f_A(j) by subset and member − 1.
    weights: Vec<Vec<Field>>,
}

/// A number that was opened.
#[cfg_attr(test, derive(Debug))]
#[derive(Clone, PartialEq, Eq)]
pub struct Opened {
    /// The number.
    pub value: Field,
    /// The members whose shares are not on its polynomial.
    pub liars: Vec<u8>,
}

impl Sharing {
    /// The polynomials of a committee.
    pub fn new(threshold: Threshold) -> Self {
        let subsets = threshold.subsets();
        let outside = |subset: Subset| (1..=threshold.n).filter(move |member| !subset.has(*member));
        // f_A(j) = Π (i − j)/i over i outside of A.
        let weight = |subset: Subset, j: u8| {
            outside(subset).fold(Field::ONE, |f, i| f * (point(i) - point(j)) * point(i).inverse())
        };
        let row = |subset: &Subset| (1..=threshold.n).map(|j| weight(*subset, j)).collect();
        let weights = subsets.iter().map(row).collect();
        Sharing { threshold, subsets, weights }
    }

    /// Its members and its threshold.
    pub fn threshold(&self) -> Threshold {
        self.threshold
    }

    /// Its subsets, in whose order parts are given.
    pub fn subsets(&self) -> &[Subset] {
        &self.subsets
    }

    /// The share of `member` of Σ r_A, from the parts r_A of the subsets that it is in, by their places.
    pub fn share(&self, member: u8, parts: impl Iterator<Item = (usize, Field)>) -> Field {
        parts.map(|(at, part)| part * self.weights[at][usize::from(member) - 1]).sum()
    }

    /// Reads an opened number from the shares of the members who are here.
    ///
    /// # Errors
    /// Those of [`Sharing::reader`] and [`Reader::open`].
    pub fn open(&self, shares: &[(u8, Field)]) -> Result<Opened, Error> {
        let here: Vec<u8> = shares.iter().map(|(member, _)| *member).collect();
        let shares: Vec<Field> = shares.iter().map(|(_, share)| *share).collect();
        self.reader(&here)?.open(&shares)
    }

    /// What reads opened numbers from the shares of these members.
    ///
    /// # Errors
    /// [`Error::Member`] for who is no member or is named twice, [`Error::TooFew`] for fewer than 2t − 1.
    pub fn reader(&self, here: &[u8]) -> Result<Reader, Error> {
        let need = self.threshold.needed();
        for (i, member) in here.iter().enumerate() {
            if here[..i].contains(member) || !(1..=self.threshold.n).contains(member) {
                return Err(Error::Member { member: *member });
            }
        }
        if here.len() < need {
            return Err(Error::TooFew { here: here.len(), need });
        }
        let first = Through::new(here, (0..self.threshold.t()).collect());
        let lied = vec![false; here.len()];
        Ok(Reader { t: self.threshold.t(), here: here.to_vec(), lied, last: first })
    }
}

/// Reads opened numbers from the shares of the members who are here.
///
/// Any polynomial of degree t − 1 on which 2t − 1 shares lie is right, since t of them are of honest members,
/// who determine it. With 2t − 1 shares a wrong one is seen; each further one corrects a liar and names it.
/// Members that have never lied are tried first, so that each liar costs one search, also where liars take
/// turns.
pub struct Reader {
    t: usize,
    here: Vec<u8>,
    /// Who of them has shown a wrong share.
    lied: Vec<bool>,
    last: Through,
}

impl Reader {
    /// The members who are here, in whose order shares are given.
    pub fn here(&self) -> &[u8] {
        &self.here
    }

    /// The number of which the members have shown these shares.
    ///
    /// # Errors
    /// [`Error::NoPolynomial`] if no polynomial has 2t − 1 of the shares, and for another number of shares.
    pub fn open(&mut self, shares: &[Field]) -> Result<Opened, Error> {
        if shares.len() != self.here.len() {
            return Err(Error::NoPolynomial);
        }
        let need = 2 * self.t - 1;
        let liars = |through: &Through| {
            let wrong = through.wrong(shares);
            (shares.len() - wrong.len() >= need).then_some(wrong)
        };
        let (value, wrong) = match liars(&self.last) {
            Some(wrong) => (self.last.value(shares), wrong),
            None => {
                let others = choices(self.here.len(), self.t).map(|at| Through::new(&self.here, at));
                let found = others.into_iter().find_map(|through| Some((liars(&through)?, through)));
                let (wrong, through) = found.ok_or(Error::NoPolynomial)?;
                let value = through.value(shares);
                wrong.iter().for_each(|at| self.lied[*at] = true);
                let honest =
                    (0..self.here.len()).filter(|at| !self.lied[*at]).take(self.t).collect::<Vec<_>>();
                self.last = if honest.len() == self.t { Through::new(&self.here, honest) } else { through };
                (value, wrong)
            }
        };
        let liars = wrong.iter().map(|at| self.here[*at]).collect();
        Ok(Opened { value, liars })
    }
}

/// The polynomial through the shares of t members, as factors of these shares.
struct Through {
    /// Their places among those who are here.
    places: Vec<usize>,
    /// The factors of the value at 0.
    at_zero: Vec<Field>,
    /// The factors of the values at all others, with their places.
    at_others: Vec<(usize, Vec<Field>)>,
}

impl Through {
    fn new(here: &[u8], places: Vec<usize>) -> Self {
        let members: Vec<u8> = places.iter().map(|at| here[*at]).collect();
        let others = (0..here.len()).filter(|at| !places.contains(at));
        let at_others = others.map(|at| (at, factors(&members, point(here[at])))).collect();
        Through { at_zero: factors(&members, Field::ZERO), at_others, places }
    }

    fn sum(&self, factors: &[Field], shares: &[Field]) -> Field {
        self.places.iter().zip(factors).map(|(at, factor)| shares[*at] * *factor).sum()
    }

    fn value(&self, shares: &[Field]) -> Field {
        self.sum(&self.at_zero, shares)
    }

    /// The places of the shares that are not on the polynomial.
    fn wrong(&self, shares: &[Field]) -> Vec<usize> {
        let off = |(at, factors): &&(usize, Vec<Field>)| self.sum(factors, shares) != shares[*at];
        self.at_others.iter().filter(off).map(|(at, _)| *at).collect()
    }
}

/// The number of a member in the field.
fn point(member: u8) -> Field {
    Field::new(member.into())
}

/// The factors of the shares of `members` whose sum is the value at `x` of the polynomial of least degree
/// through them.
pub fn factors(members: &[u8], x: Field) -> Vec<Field> {
    let factor = |j: &u8| {
        let others = members.iter().filter(|k| *k != j).map(|k| point(*k));
        let (over, under) = others
            .fold((Field::ONE, Field::ONE), |(over, under), k| (over * (x - k), under * (point(*j) - k)));
        over * under.inverse()
    };
    members.iter().map(factor).collect()
}

/// Every choice of `k` of the places below `n`, those of the first places first.
fn choices(n: usize, k: usize) -> impl Iterator<Item = Vec<usize>> {
    let first: Vec<usize> = (0..k).collect();
    std::iter::successors(Some(first), move |last| {
        let mut next = last.clone();
        let at = (0..k).rev().find(|at| next[*at] < n - k + at)?;
        next[at] += 1;
        (at + 1..k).for_each(|later| next[later] = next[later - 1] + 1);
        Some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Kind, Label};

    const COMMITTEES: [(u8, u8, usize); 6] =
        [(2, 3, 3), (2, 4, 4), (3, 5, 10), (3, 7, 21), (4, 7, 35), (4, 10, 120)];

    /// The value at `x` of the polynomial through points.
    fn at(points: &[(u8, Field)], x: Field) -> Field {
        let members: Vec<u8> = points.iter().map(|(j, _)| *j).collect();
        points.iter().zip(factors(&members, x)).map(|((_, share), factor)| *share * factor).sum()
    }

    fn keys(sharing: &Sharing) -> Vec<Key> {
        (0..sharing.subsets().len() as u8).map(|i| Key::new([i + 1; 32])).collect()
    }

    /// The shares of a random number, and the number.
    fn random(sharing: &Sharing, keys: &[Key], label: &Label) -> (Vec<(u8, Field)>, Field) {
        let parts = || keys.iter().map(|key| key.stream(label).field()).enumerate();
        let of = |member: u8| parts().filter(move |(at, _)| sharing.subsets()[*at].has(member));
        let members = 1..=sharing.threshold().members();
        (members.map(|j| (j, sharing.share(j, of(j)))).collect(), parts().map(|(_, part)| part).sum())
    }

    #[test]
    fn committees_have_their_subsets() {
        for (t, n, subsets) in COMMITTEES {
            let threshold = Threshold::new(t, n).unwrap();
            let all = threshold.subsets();
            assert_eq!((all.len(), threshold.number_of_subsets()), (subsets, subsets));
            assert!(all.iter().all(|subset| subset.members().count() == usize::from(n - t + 1)));
            assert!(all.is_sorted_by_key(|subset| subset.members().collect::<Vec<_>>()));
            // Any t − 1 members are outside of exactly one.
            for out in choices(n.into(), usize::from(t) - 1) {
                let none = |subset: &&Subset| out.iter().all(|j| !subset.has(*j as u8 + 1));
                assert_eq!(all.iter().filter(none).count(), 1);
            }
        }
        for (t, n) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (2, 5),
            (3, 4),
            (3, 8),
            (5, 9),
            (5, 13),
            (64, 127),
            (65, 130),
            (255, 255),
        ] {
            let refused = Threshold::new(t, n);
            // 5 of 9 has exactly 126 subsets.
            assert_eq!(refused.is_ok(), (t, n) == (5, 9), "{t} of {n}: {refused:?}");
        }
    }

    /// Nobody sends anything, and all shares of the sum lie on one polynomial, whose value at 0 it is.
    #[test]
    fn shares_of_keys_open_to_their_sum() {
        for (t, n, _) in COMMITTEES {
            let sharing = Sharing::new(Threshold::new(t, n).unwrap());
            let (shares, sum) = random(&sharing, &keys(&sharing), &Label::new(Kind::Mask, &[b"a"]));
            assert_eq!(sharing.open(&shares), Ok(Opened { value: sum, liars: vec![] }));
            let few = &shares[usize::from(n) - sharing.threshold().needed()..];
            assert_eq!(sharing.open(few).unwrap().value, sum);
            let (here, need) = (few.len() - 1, few.len());
            assert_eq!(sharing.open(&few[1..]), Err(Error::TooFew { here, need }));
            let twice = [&shares[..need - 1], &shares[..1]].concat();
            assert_eq!(sharing.open(&twice), Err(Error::Member { member: 1 }));
        }
    }

    /// t − 1 liars who agree on another polynomial are seen with 2t − 1 here, and named one by one with more.
    /// The control has t of them, who open what they like.
    #[test]
    fn attack_liars_open_no_other_number() {
        for (t, n, _) in COMMITTEES {
            let sharing = Sharing::new(Threshold::new(t, n).unwrap());
            let (mut shares, sum) = random(&sharing, &keys(&sharing), &Label::new(Kind::Mask, &[b"b"]));
            let (t, need) = (usize::from(t), sharing.threshold().needed());
            let lie = |shares: &mut Vec<(u8, Field)>, liars: usize| {
                shares[..liars].iter_mut().for_each(|(j, share)| *share += point(*j) + Field::new(5));
            };
            let right = shares.clone();
            lie(&mut shares, t - 1);
            assert_eq!(sharing.open(&shares[..need]), Err(Error::NoPolynomial), "{t} of {n}");
            let spare = usize::from(n) - need;
            let mut some = right.clone();
            lie(&mut some, spare);
            let names: Vec<u8> = (1..=spare as u8).collect();
            assert_eq!(sharing.open(&some), Ok(Opened { value: sum, liars: names }));
            let mut control = right;
            lie(&mut control, need);
            assert_eq!(sharing.open(&control[..need]).unwrap().value, sum + Field::new(5));
        }
    }

    /// What t − 1 members have fits any number: for each there is a polynomial through it and their shares.
    #[test]
    fn attack_fewer_than_t_shares_fit_any_number() {
        let sharing = Sharing::new(Threshold::new(3, 5).unwrap());
        let (shares, sum) = random(&sharing, &keys(&sharing), &Label::new(Kind::Mask, &[b"c"]));
        for guess in [Field::ZERO, sum, sum + Field::ONE] {
            let points = [(0, guess), shares[1], shares[3]];
            let rest = [0, 2, 4].map(|i| (shares[i].0, at(&points, point(shares[i].0))));
            let all = [&rest[..], &[shares[1], shares[3]]].concat();
            assert_eq!(sharing.open(&all).unwrap().value, guess);
        }
        // The control: t shares fit one number alone.
        assert_eq!(at(&shares[..3], Field::ZERO), sum);
    }

    /// Liars take turns, so that the members that were right last are not right again: each costs one search.
    #[test]
    fn liars_who_take_turns_cost_a_search_each() {
        let sharing = Sharing::new(Threshold::new(4, 10).unwrap());
        let (shares, sum) = random(&sharing, &keys(&sharing), &Label::new(Kind::Mask, &[b"d"]));
        let shares: Vec<Field> = shares.into_iter().map(|(_, share)| share).collect();
        let mut reader = sharing.reader(&(1..=10).collect::<Vec<u8>>()).unwrap();
        let mut changes = 0;
        for i in 0..60 {
            let mut shown = shares.clone();
            for at in if i % 2 == 0 { [0, 1, 2] } else { [3, 4, 5] } {
                shown[at] += Field::ONE;
            }
            let before = reader.last.places.clone();
            assert_eq!(reader.open(&shown).unwrap().value, sum);
            changes += usize::from(reader.last.places != before);
        }
        assert_eq!(changes, 2);
    }
}
