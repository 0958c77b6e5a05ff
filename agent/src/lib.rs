//! A service beside an application, which offers encrypted bandits by the JSON messages of clear ones: the
//! program `helba-agent`.
//!
//! The agent is the device of its application. It holds the secret key, encrypts contexts and rewards,
//! decrypts decisions, and answers the tasks of its bandits. Ciphertexts leave it, and nothing else.
//!
//! | module | does |
//! |---|---|
//! | `http` | routes, the local token, bodies and answers |
//! | `committee` | decisions and feedback of bandits of a committee |
//! | `desk` | gathers the decisions of a bandit into requests, and returns feedback |
//! | `settings` | what is kept of a bandit: how named values become features |
//! | `pending` | decisions that wait for feedback, and the settings on disk |
//! | `decision_log` | a file of JSON lines, one a decision and one a reward |
//! | `tally` | counts and sums of a bandit, and their summary |
//! | `store` | the database of the state folder, whose values are sealed |

mod agent;
mod committee;
mod decision_log;
mod desk;
mod error;
mod files;
mod http;
mod pending;
mod settings;
mod store;
mod tally;

pub use agent::{Agent, Credentials, Options};
pub use decision_log::LogOptions;
pub use error::{Error, Holder};
pub use files::{local_token, private_folder};
pub use pending::{MOST_QUESTIONS, MOST_RECEIPTS};
