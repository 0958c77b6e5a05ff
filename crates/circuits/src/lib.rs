//! Circuits on slot vectors: polynomials, comparison, argmax, and the inverse of a matrix.
//!
//! Every circuit is written once, for any [`SlotAlgebra`]. [`Encrypted`] evaluates it on ciphertexts.
//! [`Clear`] evaluates it on complex vectors with the same levels, optionally with the noise that encryption
//! would add; it is the reference for the encrypted results and counts levels and operations. This crate is
//! for those who build encrypted algorithms. The operations on ciphertexts themselves are in `ckks`, and the
//! encrypted bandit is in `helba`.
//!
//! A fresh vector is at the top level. Each multiplication takes one level; additions and rotations take
//! none. The scale is the canonical one of each level, so that circuits need to state levels only.
//! `docs/circuits.md` is the generated table of depths, operation counts and errors.

mod algebra;
pub mod argmax;
mod clear;
mod comparison;
mod encrypted;
mod error;
pub mod inverse;
pub mod maximum;
pub mod paper;
mod polynomial;
pub mod ranks;
mod remez;

pub use algebra::{LinearTransform, SlotAlgebra, Steps, rotate_sum};
pub use clear::{Clear, ClearVector, Counts, NoiseModel};
pub use comparison::Comparison;
pub use encrypted::Encrypted;
pub use error::Error;
pub use num_complex::Complex64;
pub use polynomial::Chebyshev;
