//! The numbers that a server and the devices of an encrypted bandit agree on before they exchange a
//! ciphertext.
//!
//! Everything here follows from the public configuration and the parameter set by integer arithmetic and
//! formulas on `f64`: [`BanditConfig::plan`] gives the levels ([`Plan`]), [`ScoreLayout`] the
//! coefficients and slots, [`KeyPlan`] the parameter sets and the evaluation keys. A device computes the same
//! values again and refuses a server whose values differ. There is no circuit, no key and no I/O in this
//! crate: the `helba` crate holds the circuits, its tests compare their depth and rotations with what is
//! stated here.
//!
//! | symbol | here |
//! |---|---|
//! | d, K | features and arms, [`LinearConfig::d`](bandit::LinearConfig::d), [`k`](bandit::LinearConfig::k) |
//! | D, Ka | d and K padded to powers of two, [`Shape`] |
//! | V, g | design and moment, together *statistics* |
//! | A_j, ω_j | inverse and estimate, together *model* |
//! | Σ xxᵀ of the batch | *trace statistics* |
//! | s | scaling of the statistics, [`Plan::design_scale`] |

mod answers;
mod arms;
mod config;
mod counters;
mod error;
pub mod exchange;
mod exchanges;
mod ids;
mod key_plan;
pub mod levels;
mod newton;
pub mod paper;
pub mod products;
mod rings;
mod scores;
mod shape;
pub mod staged;

pub use answers::AnswerLayout;
pub use arms::{check_rows, is_open};
pub use bandit::{Bonus, PREDICTION_BOUND, UNCERTAINTY_BOUND, Width, WidthShape};
pub use config::{Answers, BanditConfig, INVERSE_TOLERANCE, MOST_LOGGED, Plan};
pub use counters::{ArmCounter, Counters, LEAST_COUNTED, LOG_COUNTER_STEPS};
pub use error::Error;
pub use exchanges::{AskedExchanges, Exchanges, MOST_FACTOR, SlotExchanges, TaskKind, exchanges_hash};
pub use ids::{DecisionId, Erasure, LearnId, LearnReceipt, QuestionId, Receipt, Status};
pub use key_plan::{AnswerKeys, Automorphism, DecisionKeys, GaloisKey, KeyPlan};
pub use newton::{Factors, warm_steps};
pub use rings::{Exchanging, Rings, Updates, UserKeys};
pub use scores::{
    LOG_CONTEXT, LOG_MODEL, LOG_SCORE, LOG_STATISTICS, MOST_DECISIONS, MOST_SUMMED, ScoreLayout, ScoreRing,
    check_features,
};
pub use shape::{MOST_ARMS, MOST_FEATURES, Shape};
