//! What travels between user and server, and what keys rest in: messages, bundles, limits.
//!
//! For servers, devices and key authorities. Ciphertexts are opaque bytes here; `ckks` makes and checks them.
//! No type holds a secret key: a [`SecretBundle`] is a container, what is in it belongs to `ckks-secret`.
//!
//! Readers take nothing on trust: lengths are checked against [`Limits`] before memory is taken, and
//! no byte may be left over.

mod action;
mod bundle;
mod clear;
mod error;
mod feedback;
mod frame;
mod json;
mod limits;
mod problem;
mod public;
mod secret;
mod token;

pub use action::DecideReply;
pub use bundle::{BUNDLE_VERSION, BundleKind, BundleReader, BundleWriter, Manifest, SECURITY_TABLE};
pub use clear::{
    ClearFeedback, Counted, DecideRequest, Decided, FeedbackKind, MAX_CLEAR_BYTES, PolicyCard, PolicyCreated,
    PolicyView, Privacy, ShuffledBatch, Spent, SummedBatch,
};
pub use error::Error;
pub use feedback::FeedbackRequest;
pub use frame::{MAGIC, MAX_HEADER_BYTES};
pub use json::{BanditView, Created, MAX_JSON_BYTES, OCTET_STREAM};
pub use limits::Limits;
pub use problem::{PROBLEM_JSON, Problem, ProblemType};
pub use public::PublicBundle;
pub use secret::SecretBundle;
pub use token::{AccessToken, TOKEN_BYTES, TokenDigest};
