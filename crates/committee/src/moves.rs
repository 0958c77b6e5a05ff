//! Records move to another committee, or to other members and thresholds of the same one.
//!
//! Each of 2t − 1 old members deals its share of every number by a polynomial of degree t' − 1 whose value at
//! 0 is the share, sealed to the new members. The first t dealers determine every number, so that what a
//! further one has dealt is a sum of what they have: new members open a random combination of these
//! differences, 0 or somebody lies. Then their shares are Σ ℓ_j of what they were dealt, and become a record
//! of their own.
//!
//! The combination of a further dealer has its own polynomials in it, so that what is opened tells nothing of
//! the next shares; where that dealer is hostile, one member less of the first t is.

use crate::Error;
use crate::conversation::Port;
use crate::keys::MemberKeys;
use crate::machine::{CircuitId, Gate, Machine};
use crate::online::{Lane, Slot};
use crate::prepare::Batch;
use envelope::SealingSecret;
use rand::{CryptoRng, Rng};
use shares::moves::Dealing;
use shares::{Field, Sharing, factors};

/// What a new member was dealt by each dealer, by its number: the dealers are the same 2t − 1 for all.
pub struct Dealt {
    dealers: Vec<u8>,
    numbers: Vec<Vec<Field>>,
    /// The hash of all boxes, from which factors follow.
    all: blake3::Hasher,
}

fn purpose(name: &[u8; 32], dealer: u8, member: u8) -> Vec<u8> {
    [b"helba move of a committee", &name[..], &[dealer, member]].concat()
}

/// What `dealer` deals of its shares: a sealed box for each member of the next committee, by its number, for
/// the move of this name.
///
/// # Errors
/// [`Error::Shares`] for another number of sealing keys than there are members, and for a bad one.
pub fn deal<R: CryptoRng>(
    name: &[u8; 32],
    dealer: u8,
    shares: &[Field],
    next: &Sharing,
    sealing: &[Vec<u8>],
    rng: &mut R,
) -> Result<Vec<Vec<u8>>, Error> {
    if sealing.len() != usize::from(next.threshold().members()) {
        return Err(shares::Error::Message.into());
    }
    let polynomial = |share: &Field| {
        let random = (1..next.threshold().t()).map(|_| random(rng));
        std::iter::once(*share).chain(random).collect()
    };
    let polynomials: Vec<Vec<Field>> = shares.iter().map(polynomial).collect();
    let mut sealed = vec![];
    for (member, public) in (1..).zip(sealing) {
        let point = Field::new(u128::from(member));
        let at = |polynomial: &Vec<Field>| {
            polynomial.iter().rev().fold(Field::ZERO, |value, coefficient| value * point + *coefficient)
        };
        let bytes: Vec<u8> = polynomials.iter().flat_map(|p| at(p).to_bytes()).collect();
        let bytes = zeroize::Zeroizing::new(bytes);
        let boxed = envelope::seal(public, &purpose(name, dealer, member), &bytes, rng);
        sealed.push(boxed.map_err(|_| shares::Error::Sealed { member })?);
    }
    Ok(sealed)
}

fn random<R: Rng>(rng: &mut R) -> Field {
    let mut bytes = [0; 16];
    rng.fill_bytes(&mut bytes);
    Field::new(u128::from_le_bytes(bytes) >> 1)
}

impl Dealt {
    /// What `member` of the next committee was dealt. `dealings` are those of 2t − 1 members of the old one.
    ///
    /// # Errors
    /// [`Error::Shares`] for another number of dealers, a box that does not open, or another number of
    /// numbers.
    pub fn read(
        name: &[u8; 32],
        old: &Sharing,
        dealings: &[Dealing],
        member: u8,
        secret: &SealingSecret,
        count: usize,
    ) -> Result<Self, Error> {
        let dealers: Vec<u8> = dealings.iter().map(|dealing| dealing.dealer).collect();
        old.reader(&dealers)?;
        let need = old.threshold().needed();
        if dealers.len() != need {
            return Err(shares::Error::TooFew { here: dealers.len(), need }.into());
        }
        let mut all = blake3::Hasher::new_derive_key("helba 2026-11-27 what was dealt in a move");
        all.update(name);
        let mut numbers = vec![];
        for Dealing { dealer, sealed: boxes, .. } in dealings {
            for sealed in boxes {
                all.update(&[*dealer]).update(&(sealed.len() as u64).to_le_bytes()).update(sealed);
            }
            let own = usize::from(member).checked_sub(1).and_then(|at| boxes.get(at));
            let refused = shares::Error::Sealed { member };
            let own = own.ok_or_else(|| refused.clone())?;
            let opened = secret.open(&purpose(name, *dealer, member), own).map_err(|_| refused)?;
            let (chunks, rest) = opened.as_chunks::<16>();
            if chunks.len() != count || !rest.is_empty() {
                return Err(shares::Error::Message.into());
            }
            let of: Result<Vec<Field>, shares::Error> =
                chunks.iter().map(|x| Field::from_bytes(*x)).collect();
            numbers.push(of?);
        }
        Ok(Dealt { dealers, numbers, all })
    }

    /// How many dealers there are beyond the first t.
    pub fn further(&self) -> usize {
        self.dealers.len() - self.dealers.len().div_ceil(2)
    }

    /// The hash of all that was dealt.
    pub fn seen(&self) -> [u8; 32] {
        *self.all.finalize().as_bytes()
    }

    /// The member's shares of the numbers, and of each further dealer what must be 0.
    fn shares(&self) -> (Vec<Field>, Vec<(u8, Field)>) {
        let t = self.dealers.len().div_ceil(2);
        let count = self.numbers.first().map_or(0, Vec::len);
        let combined = |factors: &[Field], i: usize| -> Field {
            factors.iter().zip(&self.numbers).map(|(factor, of)| *factor * of[i]).sum()
        };
        let at_zero = factors(&self.dealers[..t], Field::ZERO);
        let shares = (0..count).map(|i| combined(&at_zero, i)).collect();
        let test = |(dealer, own): (&u8, &Vec<Field>)| {
            let expected = factors(&self.dealers[..t], Field::new((*dealer).into()));
            let mut hasher = self.all.clone();
            hasher.update(b"factors").update(&[*dealer]);
            let weights = crate::online::numbers(&hasher, count);
            let off = |(i, weight): (usize, Field)| weight * (own[i] - combined(&expected, i));
            (*dealer, weights.into_iter().enumerate().map(off).sum())
        };
        let further = self.dealers.iter().zip(&self.numbers).skip(t);
        (shares, further.map(test).collect())
    }
}

/// The circuit of [`take_over`] for so many numbers of `further` dealers beyond the first t.
pub fn circuit(count: usize, further: usize) -> CircuitId {
    CircuitId::new("move", &[count as u64, further as u64])
}

/// The lane of a new member in which [`take_over`] runs. The batch has one slot, which needs no preparation.
///
/// # Errors
/// [`Error::Slot`] for a batch of another circuit.
pub fn lane(keys: &MemberKeys, batch: Batch, dealt: &Dealt, port: Port) -> Result<Lane, Error> {
    let of = circuit(dealt.numbers.first().map_or(0, Vec::len), dealt.further());
    Lane::new(keys, Slot::of_batch(batch), of, port)
}

/// Takes over what was dealt: the numbers are the record of the slot. Two rounds. New members first agree on
/// [`Dealt::seen`]: a member that was dealt other numbers than the others shows wrong shares, and is no liar.
///
/// # Errors
/// [`Error::Dealer`] if what was dealt does not lie on polynomials; those of the machine.
pub async fn take_over<M: Machine<Share = Field>>(m: &mut M, dealt: &Dealt) -> Result<(), Error> {
    let (shares, tests) = dealt.shares();
    let gates = tests.iter().map(|(_, test)| Gate::shared(*test).opened()).collect();
    let opened = m.round(gates).await?;
    let wrong = tests.iter().zip(opened).filter(|(_, wire)| m.public(*wire) != Field::ZERO);
    let wrong: Vec<u8> = wrong.map(|((dealer, _), _)| *dealer).collect();
    if !wrong.is_empty() {
        return Err(Error::Dealer { apart: wrong });
    }
    // A bandit that has learnt nothing has no numbers, and a round has some.
    if !shares.is_empty() {
        m.round(shares.into_iter().map(|share| Gate::shared(share).record()).collect()).await?;
    }
    Ok(())
}
