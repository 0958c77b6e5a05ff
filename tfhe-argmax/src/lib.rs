//! The argmax of encrypted indices by programmable bootstrapping: one user, one round trip, no raise.
//!
//! The scores z and u of the arms are coefficients of a CKKS ciphertext of the ring of scores. They become
//! LWE samples, a bootstrap an arm computes the index u + β·√(z + c₁), a bootstrap a pair compares two
//! indices, and a bootstrap an arm finds out whether the arm won all its comparisons. The answer is one LWE
//! sample an arm, which its user decrypts. docs/argmax-by-bootstrapping.md has the chain and its noise.
//!
//! For a server that answers users who are alone, with up to [`MOST_ARMS`] arms. No program here uses
//! it, because the polynomial comparison of `helba` is faster with the default width. The server needs no
//! secret: key generation and decryption are in `tfhe-argmax-secret`.
//!
//! The ciphertexts are those of the crate `tfhe` (TFHE-rs), whose licence BSD-3-Clause-Clear grants no patent
//! licence.
//!
//! Source: Chillotti, Gama, Georgieva, Izabachène 2020 (TFHE); Boura, Gama, Georgieva, Jetchev 2018 (Chimera:
//! from CKKS to TFHE by extraction and key switch). Departure: a key switch of GLWE ciphertexts in place of
//! one of LWE samples, because all scores of a user are coefficients of one ciphertext.

mod answer;
mod circuit;
mod error;
mod exact;
mod extract;
mod keys;
pub mod noise;
pub mod params;

pub use answer::{Answer, ENTRY, FLOOD_BITS, LEAST_ENTRY, MOST_ARMS};
pub use circuit::{Circuit, Formula, Sample};
pub use error::Error;
pub use keys::{Keys, SeededKeys};
