//! A service beside an application, which offers encrypted bandits by the JSON messages of clear ones: the
//! program `helba-agent`.
//!
//! The agent is the device of its application. It holds the secret key, encrypts contexts and rewards,
//! decrypts decisions, and answers the tasks of its bandits. Ciphertexts leave it, and nothing else.
//!
//! | module | does |
//! |---|---|
//! | `http` | routes, the local token, bodies and answers |
//! | `desk` | gathers the decisions of a bandit into requests, and returns feedback |
//! | `pending` | decisions that wait for feedback, sealed on disk |

mod agent;
mod desk;
mod error;
mod files;
mod http;
mod pending;

pub use agent::{Agent, Options};
pub use error::Error;
pub use files::{local_token, private_folder};
pub use pending::{MOST_QUESTIONS, MOST_RECEIPTS};
