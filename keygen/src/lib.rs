//! The key authority: generates a key pair and writes it as a public and a secret bundle.
//!
//! For the program `helba-keygen`, and for examples and tests that play all parties. A server must not depend
//! on this crate.

mod enrol;
mod error;
mod files;
mod generate;
mod paper;

pub use ckks::Security;
pub use ckks_secret::Passphrase;
pub use enrol::{Owner, create_user_bundle};
pub use error::Error;
pub use files::{create_files, create_token_file};
pub use generate::{Request, Summary, generate};
pub use host::os_rng;
pub use paper::{PaperSummary, create_paper_files, generate_paper};
