//! Circuits over slot vectors: polynomials, comparison, argmax, square root, matrix inverse.
//!
//! Every circuit is written once, against [`SlotAlgebra`]. [`Clear`] runs it on complex vectors with the same level
//! book-keeping and, if asked, with the noise that an encrypted engine would add: it is the oracle for the encrypted
//! implementor and the planner of depths. Who wants to encrypt something wants the `ckks` crate; who wants the bandit
//! wants `helba`.
//!
//! Levels: a fresh vector is at the top level, every multiplication takes one, additions and rotations take none. The
//! scale is canonical per level, so circuits speak of levels only. `docs/circuits.md` holds the generated table of
//! depths, operation counts and errors.

mod algebra;
pub mod argmax;
mod clear;
mod encrypted;
mod error;
pub mod matrix;
mod polynomial;
mod remez;
mod sign;
mod sqrt;

pub use algebra::{LinearTransform, SlotAlgebra, rotate_sum};
pub use clear::{Clear, ClearVector, Counts, NoiseModel};
pub use encrypted::{Encrypted, EncryptedError};
pub use error::Error;
pub use num_complex::Complex64;
pub use polynomial::Chebyshev;
pub use sign::{Comparison, paper_compositions_comparison, paper_compositions_maximum};
pub use sqrt::{SquareRoot, paper_iterations as paper_sqrt_iterations};
