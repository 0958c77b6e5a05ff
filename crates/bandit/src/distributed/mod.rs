//! Successive elimination under distributed differential privacy: the server learns from noisy sums of the
//! users' rewards.
//!
//! Each user answers once, with a reward in [0, 1]. A batch of one arm has three roles. The [`Mechanism`] is
//! all that they share, so that each can run on its own machine.
//!
//! | role | file | here |
//! |---|---|---|
//! | common parameters | `parameters.rs`, `mechanism.rs` | [`EliminationParameters`], [`EliminationConfig`], [`Mechanism`] |
//! | device: a reward in, an integer share out | `device.rs` | [`EliminationParameters::answer`], [`Mechanism::randomise`] |
//! | intermediary: adds shares, outputs the sum alone | `intermediary.rs` | [`SecureSum`] |
//! | server: poses tasks, learns from sums | `server.rs` | [`EliminationServer`], [`Mechanism::analyse`] |
//! | all roles in one policy, for simulation | `whole.rs` | [`Elimination`] |
//!
//! | paper | here |
//! |---|---|
//! | R, S, A | [`Mechanism::randomise`], [`SecureSum`], [`Mechanism::analyse`] |
//! | `g`, `tau`, `m` | [`Mechanism::precision`], [`Mechanism::threshold`], [`Mechanism::modulus`] |
//! | `beta(b)` | [`Mechanism::width`] |
//! | Dist-DP-SE, Dist-RDP-SE, central, local, shuffle | [`Elimination`] with [`Model`] |
//!
//! The sums are private; arms, widths and eliminations are functions of them. Batches have disjoint users, so
//! the cost of a run is that of its worst batch. **A batch with missing users is refused**, since its noise
//! would be too small.
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

pub use environment::{Normal, NormalArms};
pub use intermediary::{IdealSum, RelaxedSum, SecureSum};
pub use mechanism::{Mechanism, Model};
pub use parameters::{EliminationConfig, EliminationParameters, MOST_DELTA, NoiseAt};
pub use server::{EliminationServer, Stage, survivors};
pub use whole::Elimination;
