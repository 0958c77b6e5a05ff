//! Numbers that a device sends to members under pads.
//!
//! A device has a session with a committee: a key for each subset, which the subset's members know. It sends
//! a number v as e = v + Σ r_A, with pads r_A of B bits. A member's share of v is e − Σ r_A·f_A(j) over its
//! subsets. Hence the shares of a device lie on one polynomial whatever it sends, of an integer between
//! −#A·2^B and #A·2^B + 2¹⁸, and an identity of squares that holds modulo p holds for integers.
//!
//! A row x of features, in units of 2⁻¹⁶, is sent with a, b, c such that
//!
//! 4·(2³² − |x|²) + 1 = a² + b² + c²,
//!
//! which proves |x| ≤ 1: every number that is 1 modulo 4 is a sum of three squares, and no negative one is.

use crate::{Error, Field, Key, Label, Sharing, three_squares};
use rand::Rng;

/// log₂ of the unit of features and rewards.
const LOG_UNIT: u32 = 16;
/// A bound on what a device sends: features, rewards, and the squares of a row, which are below 2·2¹⁶.
const LOG_VALUE: u32 = 18;
/// The most features of a row.
const MOST_FEATURES: usize = 128;

/// The pads of a committee for rows of so many features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pads {
    features: usize,
    subsets: usize,
    bits: u32,
}

/// A row of features as a device sends it: the features, and three numbers that prove its length.
#[derive(Clone, PartialEq, Eq)]
pub struct Row(Vec<i64>);

impl Row {
    /// The row of these features, rounded towards zero to multiples of 2⁻¹⁶, with fresh squares.
    ///
    /// # Errors
    /// [`Error::Row`] for a row that is longer than 1, is not finite, or has more than 128 features.
    pub fn new<R: Rng>(features: &[f64], rng: &mut R) -> Result<Self, Error> {
        let refused = || Error::Row { got: features.len(), most: MOST_FEATURES };
        let unit = f64::from(1u32 << LOG_UNIT);
        let fits = |x: &f64| x.abs() <= 1.0 + 1e-9;
        if features.is_empty() || features.len() > MOST_FEATURES || !features.iter().all(fits) {
            return Err(refused());
        }
        let mut row: Vec<i64> = features.iter().map(|x| (x * unit) as i64).collect();
        let squares: i64 = row.iter().map(|x| x * x).sum();
        let left = (1i64 << (2 * LOG_UNIT)) - squares;
        let left = u64::try_from(left).map_err(|_| refused())?;
        row.extend(three_squares(4 * left + 1, rng).map(|x| x as i64));
        Ok(Row(row))
    }

    /// Its numbers, the features first.
    pub fn numbers(&self) -> &[i64] {
        &self.0
    }
}

impl Pads {
    /// The pads for a committee and rows of `features` features.
    ///
    /// B is the largest number of bits with which 4·|x|² + a² + b² + c² of what pads can carry stays below p,
    /// so that the identity of a row holds for integers if it holds modulo p.
    ///
    /// # Errors
    /// [`Error::Row`] for no or too many features.
    pub fn new(sharing: &Sharing, features: usize) -> Result<Self, Error> {
        if !(1..=MOST_FEATURES).contains(&features) {
            return Err(Error::Row { got: features, most: MOST_FEATURES });
        }
        let subsets = sharing.subsets().len();
        let fits = |bits: &u32| {
            let largest = (subsets as u128) << bits | 1 << LOG_VALUE;
            let squares = largest.checked_mul(largest).and_then(|x| x.checked_mul(4 * features as u128 + 3));
            squares.is_some_and(|squares| squares < (1 << 127) - (1 << (2 * LOG_UNIT + 3)))
        };
        // Two bits at least: 126 subsets and 128 features leave 52.
        let bits = (2..64).rev().find(fits).unwrap_or(2);
        Ok(Pads { features, subsets, bits })
    }

    /// The number of bits of a pad.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// The numbers of a row.
    pub fn row_numbers(self) -> usize {
        self.features + 3
    }

    /// What the device sends for `values` under a label that serves once: each value and the sum of its pads.
    /// `keys` are those of all subsets, in their order. `None` if a sum is negative, which happens once in
    /// 2^B with a value below zero: the device then takes another label.
    pub fn hide(self, keys: &[Key], label: &Label, values: &[i64]) -> Option<Vec<u64>> {
        let mut streams: Vec<_> = keys.iter().map(|key| key.stream(label)).collect();
        let mut hidden = |value: &i64| {
            let pads: u128 = streams.iter_mut().map(|stream| stream.integer(self.bits)).sum();
            u64::try_from(pads as i128 + i128::from(*value)).ok()
        };
        values.iter().map(&mut hidden).collect()
    }

    /// The shares of a member of the numbers that a device has sent. `keys` are those of the member's
    /// subsets, with their places.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a number that no pads and value add up to.
    pub fn shares(
        self,
        sharing: &Sharing,
        member: u8,
        keys: &[(usize, Key)],
        label: &Label,
        sent: &[u64],
    ) -> Result<Vec<Field>, Error> {
        let most = ((self.subsets as u64) << self.bits) + (1 << LOG_VALUE);
        if let Some(index) = sent.iter().position(|e| *e >= most) {
            return Err(Error::OutOfRange { index });
        }
        let mut streams: Vec<_> = keys.iter().map(|(at, key)| (*at, key.stream(label))).collect();
        let mut share = |e: &u64| {
            let pads = streams.iter_mut().map(|(at, stream)| (*at, Field::new(stream.integer(self.bits))));
            Field::new(u128::from(*e)) - sharing.share(member, pads)
        };
        Ok(sent.iter().map(&mut share).collect())
    }

    /// What is 0 for the shares of a row that proves its length: the terms x·x of 4·|x|² + a² + b² + c² −
    /// 4·2³² − 1, as factors of the squares of its numbers, and the constant.
    pub fn norm(self) -> (Vec<Field>, Field) {
        let four = Field::new(4);
        let factors = (0..self.row_numbers()).map(|i| if i < self.features { four } else { Field::ONE });
        (factors.collect(), -Field::new((4 << (2 * LOG_UNIT)) + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Threshold};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    fn sharing(t: u8, n: u8) -> Sharing {
        Sharing::new(Threshold::new(t, n).unwrap())
    }

    fn keys(sharing: &Sharing) -> Vec<Key> {
        (0..sharing.subsets().len() as u8).map(|i| Key::new([i + 1; 32])).collect()
    }

    /// What every member makes of what a device has sent.
    fn read(
        sharing: &Sharing,
        pads: Pads,
        label: &Label,
        sent: &[u64],
    ) -> Result<Vec<Vec<(u8, Field)>>, Error> {
        let mut shares = vec![Vec::new(); sent.len()];
        for member in 1..=sharing.threshold().members() {
            let own =
                keys(sharing).into_iter().enumerate().filter(|(at, _)| sharing.subsets()[*at].has(member));
            let of_member = pads.shares(sharing, member, &own.collect::<Vec<_>>(), label, sent)?;
            shares.iter_mut().zip(of_member).for_each(|(shares, share)| shares.push((member, share)));
        }
        Ok(shares)
    }

    /// What the identity of a row is for numbers that were opened.
    fn norm(pads: Pads, numbers: &[Field]) -> Field {
        let (factors, constant) = pads.norm();
        factors.iter().zip(numbers).map(|(factor, x)| *factor * *x * *x).sum::<Field>() + constant
    }

    /// The most bits with which (4d + 3)·(#A·2^B + 2¹⁸)² is below p, by big integers of Python.
    #[test]
    fn pads_have_their_bits() {
        for ((t, n), at_16, at_64) in [
            ((2, 3), 58, 57),
            ((2, 4), 58, 57),
            ((3, 5), 57, 56),
            ((3, 7), 56, 55),
            ((4, 7), 55, 54),
            ((4, 10), 53, 52),
        ] {
            let bits = |features| Pads::new(&sharing(t, n), features).unwrap().bits();
            assert_eq!((bits(16), bits(64)), (at_16, at_64), "{t} of {n}");
        }
        assert!(Pads::new(&sharing(2, 3), 0).is_err() && Pads::new(&sharing(2, 3), 129).is_err());
    }

    /// Members open what a device has sent, and the proof of its length is 0.
    #[test]
    fn rows_arrive_and_prove_their_length() {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        for (t, n) in [(2, 3), (3, 5), (3, 7), (4, 10)] {
            let sharing = sharing(t, n);
            let pads = Pads::new(&sharing, 4).unwrap();
            let label = Label::new(Kind::Request, &[&[t, n]]);
            for features in [[0.6, -0.8, 0.0, 0.0], [0.0; 4], [-1.0, 0.0, 0.0, 0.0], [0.5; 4]] {
                let row = Row::new(&features, &mut rng).unwrap();
                assert_eq!(row.numbers().len(), pads.row_numbers());
                let sent = pads.hide(&keys(&sharing), &label, row.numbers()).unwrap();
                let opened: Vec<Field> = read(&sharing, pads, &label, &sent)
                    .unwrap()
                    .iter()
                    .map(|shares| sharing.open(shares).unwrap().value)
                    .collect();
                let signed: Vec<i64> = opened.iter().map(|x| x.signed() as i64).collect();
                assert_eq!(signed, row.numbers());
                assert_eq!(norm(pads, &opened), Field::ZERO);
            }
        }
        for bad in
            [vec![1.0, 0.01], vec![f64::NAN], vec![f64::INFINITY], vec![0.8; 2], vec![], vec![0.0; 129]]
        {
            assert!(Row::new(&bad, &mut rng).is_err(), "{bad:?}");
        }
    }

    /// A device sends what no row is: one unit too long, other squares, and a number whose square is right
    /// modulo p alone. The first two are seen by the identity, the last by its range. In the control, without
    /// the range, the identity is 0 for a row that is 2⁶³ long.
    #[test]
    fn attack_rows_of_another_length_are_seen() {
        let (mut rng, sharing) = (ChaCha20Rng::seed_from_u64(4), sharing(2, 3));
        let pads = Pads::new(&sharing, 2).unwrap();
        let field = |row: &[i64]| row.iter().map(|x| Field::from_signed((*x).into())).collect::<Vec<_>>();
        let honest = Row::new(&[0.6, 0.8], &mut rng).unwrap();
        let mut long = honest.numbers().to_vec();
        long[0] = 1 << 16 | 1;
        assert_ne!(norm(pads, &field(&long)), Field::ZERO);
        let mut other = honest.numbers().to_vec();
        other[4] += 1;
        assert_ne!(norm(pads, &field(&other)), Field::ZERO);
        // x² = y modulo p for half of all y: a device solves for the first feature.
        let solved = (0u128..).find_map(|a| {
            let rest = Field::new((4 << 32) + 1) - Field::new(a) * Field::new(a);
            let x = (rest * Field::new(4).inverse()).root();
            (x * x * Field::new(4) == rest && x.signed().unsigned_abs() > 1 << 62).then_some((x, a))
        });
        let (x, a) = solved.unwrap();
        let control = [x, Field::ZERO, Field::new(a), Field::ZERO, Field::ZERO];
        assert_eq!(norm(pads, &control), Field::ZERO);
        let label = Label::new(Kind::Request, &[b"range"]);
        for e in [(3u64 << pads.bits()) + (1 << LOG_VALUE), u64::MAX] {
            let refused = read(&sharing, pads, &label, &[0, 0, e, 0, 0]);
            assert_eq!(refused, Err(Error::OutOfRange { index: 2 }));
        }
        assert!(x.signed().unsigned_abs() > (3u128 << pads.bits()) + (1 << LOG_VALUE));
    }

    /// Devices that have no negative sums hide everything: who lacks one key of three sees numbers whose
    /// distribution is that of the pad but for 2⁻⁴⁰. Over 4,000 draws the mean of the highest bit of what is
    /// left is within five deviations of ½, for two values alike. In the control a label serves twice, and
    /// the difference of the values shows.
    #[test]
    fn attack_a_missing_key_hides_the_value() {
        let sharing = sharing(2, 3);
        let (pads, keys) = (Pads::new(&sharing, 2).unwrap(), keys(&sharing));
        for value in [-(1i64 << 16), 1 << 16] {
            let high = (0..4000u32).filter(|i| {
                let label = Label::new(Kind::Request, &[&i.to_le_bytes(), &value.to_le_bytes()]);
                let sent = pads.hide(&keys, &label, &[value]).unwrap()[0];
                let known: u128 = keys[1..].iter().map(|key| key.stream(&label).integer(pads.bits())).sum();
                (u128::from(sent) - known) >> (pads.bits() - 1) & 1 == 1
            });
            let share = high.count() as f64 / 4000.0;
            assert!((share - 0.5).abs() < 5.0 * 0.5 / 4000f64.sqrt(), "{value}: {share}");
        }
        let label = Label::new(Kind::Request, &[b"twice"]);
        let [one, two] = [5, 9].map(|value| pads.hide(&keys, &label, &[value]).unwrap()[0]);
        assert_eq!(two - one, 4);
    }
}
