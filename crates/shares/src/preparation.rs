//! What members say to each other while they prepare slots, in a form that the server reads too: it tells
//! whether what a member has signed is what the server had from it.

use crate::{Field, Label};
use serde::{Deserialize, Serialize};

/// What statements about a batch of slots are signed for.
pub const PREPARED: &str = "helba 2026-11-28 preparation of slots";

/// The hash of the label of a batch of slots and of numbers that were sent or opened in its preparation.
#[derive(Clone)]
pub struct Transcript(blake3::Hasher);

impl Transcript {
    /// Of no number yet.
    pub fn new(batch: &Label) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 what was opened in a preparation");
        hasher.update(batch.bytes());
        Transcript(hasher)
    }

    /// Adds numbers.
    pub fn add(&mut self, numbers: &[Field]) {
        numbers.iter().for_each(|number| {
            self.0.update(&number.to_bytes());
        });
    }

    /// The hash.
    pub fn hash(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }

    /// What numbers are drawn from that nobody could choose before all of these were fixed.
    pub fn hasher(&self) -> &blake3::Hasher {
        &self.0
    }
}

/// What a member signs about a preparation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Statement {
    /// What it has seen and done, before it shows anything of the check.
    Seen {
        /// The hash of all sums.
        seen: [u8; 32],
        /// The hash of all that it has sent to be added up.
        sent: [u8; 32],
        /// The hashes of its seeds: of its subsets in their order, then those of zeros that it shares with
        /// the other members who multiply.
        seeds: Vec<[u8; 32]>,
    },
    /// The slots may serve, by the hash of all sums.
    Good([u8; 32]),
    /// The slots must never serve, and seeds of them may be opened.
    Burn([u8; 32]),
}

impl Statement {
    /// The hash of all sums.
    pub fn seen(&self) -> &[u8; 32] {
        match self {
            Statement::Seen { seen, .. } | Statement::Good(seen) | Statement::Burn(seen) => seen,
        }
    }

    /// What is signed of it, for the batch of this label.
    pub fn signed(&self, batch: &Label) -> [u8; 32] {
        crate::talk::hash("helba 2026-11-28 statement about slots", &(batch, self))
    }
}

/// What a member says to the others in a preparation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// A statement with its signature.
    Signed(Statement, Vec<u8>),
    /// Its shares of the last triple of the check: the bytes of a [`crate::Message`].
    Shown(Vec<u8>),
    /// The seeds of a batch that is burnt, in the order of their hashes.
    Opened(Vec<[u8; 32]>),
}
