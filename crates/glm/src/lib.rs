//! Generalised linear contextual bandits under shuffle and joint differential privacy.
//!
//! The expected reward is a link function of a linear form, as for clicks and purchases.
//!
//! | symbol | here |
//! |---|---|
//! | `mu`, `mu'`, `B`, `kappa` | [`Link::mean`], [`slope`](Link::slope), [`integral`](Link::integral), [`kappa`](Link::kappa) |
//! | `pi_G` | [`Design::g_optimal`] |
//! | P_GD | [`Descent`] |
//! | Algorithm 1; the part of a device | [`shuffle::ShuffleGlm`]; [`shuffle::Device`] |
//! | Algorithm 2; V, H, `theta_o`, `theta_tau` | [`joint::JointGlm`]; its [`Billboard`](joint::Billboard) |
//! | its privacy | proof in `docs/joint-privacy.md`; value [`JointConfig::rho`](joint::JointConfig::rho) |
//! | GLM-UCB, GLOC, ECOLog; RS-GLinUCB | [`baseline`]; [`JointConfig::rs_glinucb`](joint::JointConfig::rs_glinucb) |
//!
//! Source, unless an item names another one: Sarmasarkar, "Shuffle and Joint Differential Privacy for
//! Generalized Linear Contextual Bandits".

pub mod baseline;
mod descent;
mod design;
mod environment;
mod error;
pub mod joint;
pub mod lbfgs;
mod link;
mod matrix;
pub mod mle;
mod noise;
mod problem;
pub mod published;
pub mod shuffle;

pub use descent::{Descent, onto_ball};
pub use design::{Design, DistributionalDesign};
pub use environment::{GlmEnvironment, Instance};
pub use error::Error;
pub use link::Link;
pub use matrix::Symmetric;
pub use problem::Problem;
