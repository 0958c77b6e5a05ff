//! What a circuit is written against.

use crate::Error;
use shares::Field;
use std::ops::{Add, Mul, Sub};

/// A number that is added, and multiplied by public numbers, without a message.
pub trait Linear:
    Copy
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Add<Field, Output = Self>
    + Mul<Field, Output = Self>
{
}

/// The machines that walk through a circuit: [`Plan`](crate::Plan) prepares it without inputs,
/// [`Lane`](crate::Lane) computes it on shares, [`Clear`](crate::Clear) on the numbers themselves, and
/// [`Bound`](crate::Bound) on the largest values that they can have.
pub trait Machine: Send {
    /// A number whose shares lie on a polynomial of degree t − 1.
    type Share: Linear + From<Field> + From<Self::Wire>;
    /// A number x as m = x + λ, where m is public and λ a random number from the keys of subsets.
    type Wire: Linear + From<Field>;

    /// A public number.
    fn constant(&self, value: Field) -> Self::Share {
        value.into()
    }

    /// A public number.
    fn known(&self, value: Field) -> Self::Wire {
        value.into()
    }

    /// The number of a wire.
    fn share(&self, wire: Self::Wire) -> Self::Share {
        wire.into()
    }

    /// The public part m of a wire: of an opened number the number.
    fn public(&self, wire: Self::Wire) -> Field;

    /// `count` numbers that nobody can choose, from a hash of the public parts of wires.
    fn challenge(&mut self, wires: &[Self::Wire], count: usize) -> Vec<Field>;

    /// A uniform number that nobody knows.
    fn random(&mut self) -> Self::Wire;

    /// The sum of an integer below 2^`bits` of each subset: nobody knows it.
    fn random_below(&mut self, bits: u32) -> Self::Share;

    /// Random bits that nobody knows.
    ///
    /// # Errors
    /// [`Error::Slot`] if no more were prepared.
    fn random_bits(&mut self, width: u32) -> Result<Bits<Self::Share>, Error>;

    /// A wire of which the circuit knows that it is no larger in size.
    fn at_most(&self, wire: Self::Wire, _most: u128) -> Self::Wire {
        wire
    }

    /// A shared number of which the circuit knows that it is no larger in size.
    fn share_at_most(&self, share: Self::Share, _most: u128) -> Self::Share {
        share
    }

    /// The number of bits of a mask of which one subset alone has so many.
    fn mask_bits(&self) -> u32;

    /// Opens a number of each gate: one round.
    ///
    /// # Errors
    /// [`Error::Slot`] if the slot was prepared for another circuit; [`Error::Bound`] from machines that
    /// check bounds; [`Error::Shares`] if what was shown is on no polynomial.
    fn round(
        &mut self,
        gates: Vec<Gate<Self::Share, Self::Wire>>,
    ) -> impl Future<Output = Result<Vec<Self::Wire>, Error>> + Send;
}

/// What a circuit computes, up to the values of its inputs and public numbers: a slot serves the circuit that
/// it was prepared for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitId([u8; 32]);

impl CircuitId {
    /// The circuit of this name, with all that its gates and masks depend on.
    pub(crate) fn new(name: &str, numbers: &[u64]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 circuits on shares");
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        numbers.iter().for_each(|number| {
            hasher.update(&number.to_le_bytes());
        });
        CircuitId(*hasher.finalize().as_bytes())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Random bits of a comparison.
#[derive(Clone)]
pub struct Bits<S> {
    /// The integer that they are.
    pub value: S,
    /// Of each three bits, from the lowest on, eight indicators: the one of their value is 1.
    pub blocks: Vec<[S; 8]>,
}

/// What a round opens: Σ f·Σ x·y + v, under the mask of its target.
pub struct Gate<S, W> {
    pub(crate) sums: Vec<Sum<W>>,
    pub(crate) plus: Option<S>,
    pub(crate) target: Target,
}

/// A sum of products of wires, times a public number. The product of its masks is prepared, whatever the
/// public number is.
pub(crate) struct Sum<W> {
    pub(crate) factor: Field,
    pub(crate) products: Vec<(W, W)>,
}

/// What becomes of the number of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A wire under a uniform mask.
    Masked,
    /// A wire under a uniform mask of the record of the slot: it is there after the run.
    Record,
    /// A wire under a mask of which each subset has `mask_bits` bits, divided by 2^`low` and rounded.
    Cut { low: u32, most: u128 },
    /// The number itself, which must tell nothing.
    Opened,
}

impl<S: Linear, W: Linear> Gate<S, W> {
    /// Σ x·y.
    pub fn products(products: Vec<(W, W)>) -> Self {
        Gate { sums: vec![Sum { factor: Field::ONE, products }], plus: None, target: Target::Masked }
    }

    /// A shared number.
    pub fn shared(share: S) -> Self {
        Gate { sums: vec![], plus: Some(share), target: Target::Masked }
    }

    /// Several sums of products, each times a public number.
    pub fn combined(sums: Vec<(Field, Vec<(W, W)>)>) -> Self {
        let sums = sums.into_iter().map(|(factor, products)| Sum { factor, products }).collect();
        Gate { sums, plus: None, target: Target::Masked }
    }

    /// The gate, with a shared number added.
    pub fn plus(self, share: S) -> Self {
        Gate { plus: Some(share), ..self }
    }

    /// Divided by 2^`low`, and rounded to an integer that is off by half a unit a subset at most. `most` is
    /// the largest size of the number.
    pub fn cut(self, low: u32, most: u128) -> Self {
        Gate { target: Target::Cut { low, most }, ..self }
    }

    /// As a number of the slot's record.
    pub fn record(self) -> Self {
        Gate { target: Target::Record, ..self }
    }

    /// Opened as it is.
    pub fn opened(self) -> Self {
        Gate { target: Target::Opened, ..self }
    }
}

impl Linear for Field {}

/// Walks through a circuit on a machine whose rounds are answered at once.
///
/// # Errors
/// Those of the circuit.
pub fn walk<T>(circuit: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let mut circuit = std::pin::pin!(circuit);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match circuit.as_mut().poll(&mut context) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => Err(Error::Slot),
    }
}
