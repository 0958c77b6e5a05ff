//! Circuits on the numbers themselves, and on their largest sizes.

use crate::Error;
use crate::machine::{Bits, Gate, Linear, Machine, Target};
use shares::Field;
use std::ops::{Add, Mul, Sub};

/// Computes on the numbers themselves, and refuses one that is larger than its circuit says. Cuts round down.
pub struct Clear {
    subsets: usize,
    random: blake3::OutputReader,
    /// What the circuit has put into its record.
    pub record: Vec<Field>,
    /// Why a number was refused that no error could be returned for.
    too_large: std::sync::Mutex<Option<u128>>,
}

impl Clear {
    /// A machine for a committee of so many subsets, whose random numbers follow from a seed.
    pub fn new(subsets: usize, seed: u64) -> Self {
        let random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
        Clear { subsets, random, record: vec![], too_large: std::sync::Mutex::new(None) }
    }

    fn drawn(&mut self, bits: u32) -> u128 {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes);
        u128::from_le_bytes(bytes) >> (128 - bits)
    }

    fn check(&self, number: Field, most: u128) -> Field {
        if number.signed().unsigned_abs() > most {
            let mut too_large = self.too_large.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            too_large.get_or_insert(most);
        }
        number
    }
}

impl Machine for Clear {
    type Share = Field;
    type Wire = Field;

    fn public(&self, wire: Field) -> Field {
        wire
    }

    fn challenge(&mut self, _: &[Field], count: usize) -> Vec<Field> {
        (0..count).map(|_| Field::new(self.drawn(127))).collect()
    }

    fn random(&mut self) -> Field {
        Field::new(self.drawn(127))
    }

    fn random_below(&mut self, bits: u32) -> Field {
        (0..self.subsets).map(|_| Field::new(self.drawn(bits))).sum()
    }

    fn random_bits(&mut self, width: u32) -> Result<Bits<Field>, Error> {
        let value = self.drawn(width);
        let one_of =
            |at: u32| std::array::from_fn(|i| Field::new((value >> (3 * at) & 7 == i as u128).into()));
        Ok(Bits { value: Field::new(value), blocks: (0..width / 3).map(one_of).collect() })
    }

    fn at_most(&self, wire: Field, most: u128) -> Field {
        self.check(wire, most)
    }

    fn share_at_most(&self, share: Field, most: u128) -> Field {
        self.check(share, most)
    }

    fn mask_bits(&self) -> u32 {
        126 - (self.subsets + 1).next_power_of_two().trailing_zeros()
    }

    async fn round(&mut self, gates: Vec<Gate<Field, Field>>) -> Result<Vec<Field>, Error> {
        let mut numbers = Vec::with_capacity(gates.len());
        for gate in gates {
            let sum = |sum: &crate::machine::Sum<Field>| {
                sum.factor * sum.products.iter().map(|(x, y)| *x * *y).sum::<Field>()
            };
            let number = gate.sums.iter().map(sum).sum::<Field>() + gate.plus.unwrap_or(Field::ZERO);
            numbers.push(match gate.target {
                Target::Cut { low, most } => Field::from_signed(self.check(number, most).signed() >> low),
                Target::Record => {
                    self.record.push(number);
                    number
                }
                Target::Masked | Target::Opened => number,
            });
        }
        let too_large = self.too_large.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        match too_large.take() {
            None => Ok(numbers),
            Some(most) => Err(Error::Bound {
                what: "a number",
                need: 128,
                have: 128 - most.leading_zeros(),
                advice: "its circuit states another bound",
            }),
        }
    }
}

/// The largest size of a number.
#[derive(Debug, Clone, Copy)]
pub struct Most(u128);

impl Linear for Most {}

impl From<Field> for Most {
    fn from(number: Field) -> Most {
        Most(number.signed().unsigned_abs())
    }
}

impl Add for Most {
    type Output = Most;

    fn add(self, other: Most) -> Most {
        Most(self.0.saturating_add(other.0))
    }
}

impl Sub for Most {
    type Output = Most;

    // Sizes add up in a difference too.
    #[allow(clippy::suspicious_arithmetic_impl)]
    fn sub(self, other: Most) -> Most {
        self + other
    }
}

impl Add<Field> for Most {
    type Output = Most;

    fn add(self, number: Field) -> Most {
        Most(self.0.saturating_add(number.signed().unsigned_abs()))
    }
}

impl Mul<Field> for Most {
    type Output = Most;

    fn mul(self, factor: Field) -> Most {
        Most(self.0.saturating_mul(factor.signed().unsigned_abs()))
    }
}

/// Walks through a circuit and counts: what is shown, in how many rounds, and what is prepared.
#[derive(Default)]
pub struct Bound {
    subsets: usize,
    /// The rounds.
    pub rounds: usize,
    /// The numbers that a member shows.
    pub shown: usize,
    /// The products of masks that are prepared.
    pub products: usize,
    /// The bits of comparisons that are prepared.
    pub bits: usize,
    /// The terms of all products, which the check folds.
    pub terms: usize,
    /// The least number of bits by which a mask is wider than its number.
    pub slack: Option<u32>,
}

impl Bound {
    /// A machine for a committee of so many subsets.
    pub fn new(subsets: usize) -> Self {
        Bound { subsets, ..Bound::default() }
    }

    /// The numbers that a member sends while a batch of `slots` slots is prepared, its part of the check
    /// included, and the rounds of that.
    pub fn prepared(&self, slots: usize) -> (usize, usize) {
        let blocks = self.bits / 3;
        let first = (self.bits + self.products) * slots + 1;
        let mut terms = (self.bits + self.terms + 4 * blocks) * slots + 1;
        let (mut sent, mut rounds) = (first + 4 * blocks * slots, 1 + 2 * usize::from(blocks > 0));
        while terms > 1 {
            let parts = 16.min(terms);
            sent += 2 * (parts - 1);
            terms = terms.div_ceil(parts);
            rounds += 1;
        }
        // The hash, the triple, and good or burn.
        (sent + 3, rounds + 3)
    }

    /// A number of this size, as an input.
    pub fn input(most: u128) -> Most {
        Most(most)
    }
}

impl Machine for Bound {
    type Share = Most;
    type Wire = Most;

    fn public(&self, _: Most) -> Field {
        Field::ZERO
    }

    fn challenge(&mut self, _: &[Most], count: usize) -> Vec<Field> {
        vec![Field::ONE; count]
    }

    fn random(&mut self) -> Most {
        Most(u128::MAX)
    }

    fn random_below(&mut self, bits: u32) -> Most {
        Most((self.subsets as u128).saturating_mul(1 << bits))
    }

    fn random_bits(&mut self, width: u32) -> Result<Bits<Most>, Error> {
        self.bits += width as usize;
        Ok(Bits { value: Most((1 << width) - 1), blocks: vec![[Most(1); 8]; width as usize / 3] })
    }

    fn at_most(&self, wire: Most, most: u128) -> Most {
        Most(wire.0.min(most))
    }

    fn share_at_most(&self, share: Most, most: u128) -> Most {
        Most(share.0.min(most))
    }

    fn mask_bits(&self) -> u32 {
        126 - (self.subsets + 1).next_power_of_two().trailing_zeros()
    }

    async fn round(&mut self, gates: Vec<Gate<Most, Most>>) -> Result<Vec<Most>, Error> {
        self.rounds += 1;
        self.shown += gates.len();
        let have = self.mask_bits();
        let mut sizes = Vec::with_capacity(gates.len());
        for gate in gates {
            self.products += gate.sums.len();
            self.terms += gate.sums.iter().map(|sum| sum.products.len()).sum::<usize>();
            let sum = |sum: &crate::machine::Sum<Most>| {
                let products = sum.products.iter().map(|(x, y)| Most(x.0.saturating_mul(y.0)));
                products.fold(Most(0), Add::add) * sum.factor
            };
            let size = gate.sums.iter().map(sum).fold(gate.plus.unwrap_or(Most(0)), Add::add);
            sizes.push(match gate.target {
                Target::Cut { low, most } => {
                    let most = size.0.min(most);
                    let bits = 128 - most.leading_zeros() + 1;
                    let slack = have.saturating_sub(bits);
                    self.slack = Some(self.slack.map_or(slack, |least| least.min(slack)));
                    Most((most >> low) + self.subsets as u128 + 1)
                }
                _ => size,
            });
        }
        Ok(sizes)
    }
}
