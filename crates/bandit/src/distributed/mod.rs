//! Successive elimination under distributed differential privacy: the server learns from sums that it never sees whole.
//!
//! Every user answers once, with a reward in [0, 1]. Three parties work on each batch of one arm: the users'
//! randomiser ([`Mechanism::randomise`]: a reward in, an integer share out), an intermediary that adds shares and lets
//! nothing else out ([`SecureSum`]), and the server's analyser ([`Mechanism::analyse`]). They share no state but the
//! [`Mechanism`], so that each can run where it belongs.
//!
//! | paper | here |
//! |---|---|
//! | R, S, A | [`Mechanism::randomise`], [`SecureSum`], [`Mechanism::analyse`] |
//! | `g`, `tau`, `m` | [`Mechanism::precision`], [`Mechanism::threshold`], [`Mechanism::modulus`] |
//! | `beta(b)` | [`Mechanism::width`] |
//! | Dist-DP-SE, Dist-RDP-SE, central, local, shuffle | [`Elimination`] with [`Model`] |
//!
//! What leaves the sums is private; arms, widths and eliminations follow from it. Users are disjoint across batches, so
//! the run costs what its worst batch costs. **A batch that lacks users is refused**: noise is sized for all of them.
//!
//! Source throughout: Chowdhury, Zhou, "Distributed Differential Privacy in Multi-Armed Bandits".

mod device;
mod environment;
mod intermediary;
mod mechanism;
mod parameters;
mod server;
mod simulate;
mod whole;

pub use environment::NormalArms;
pub use intermediary::{AdditiveShares, BitShuffle, IdealSum, RelaxedSum, SecureSum};
pub use mechanism::{Mechanism, Model};
pub use parameters::{Config, MOST_DELTA, NoiseAt, Parameters};
pub use server::{EliminationServer, Stage, survivors};
pub use whole::Elimination;
