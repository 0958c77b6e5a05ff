//! The key authority: makes a key pair and splits it into a public and a secret bundle.
//!
//! For the `helba-keygen` tool, and for programs and tests that play all parties ([`generate_in_memory`]). A
//! server must not depend on this crate.

mod error;
mod files;
mod generate;

pub use ckks_secret::Passphrase;
pub use error::Error;
pub use files::{create_files, create_sealed_files, create_token_file};
pub use generate::{Keys, Request, Summary, generate, generate_in_memory};
pub use host::os_rng;
