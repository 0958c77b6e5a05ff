//! The bodies of the fuzz targets: one function for each parser of bytes or JSON from outside.
//!
//! A target must return for every input. It panics only if the program breaks a promise, such as a message
//! that is read differently after it was written again. `fuzz/` runs the targets under libFuzzer.
//! `tests/mutations.rs` runs them on random and mutated inputs in every test run. `tests/seeds` has valid
//! inputs, from which `examples/corpus.rs` writes the seed corpus.

mod committee;
mod data;
mod frames;
mod messages;
mod rest;

pub use committee::MEMBERS;
pub use frames::{COEFFICIENTS, SPEC};

/// A parser.
pub struct Target {
    /// The name of the target in `fuzz/fuzz_targets` and of its corpus.
    pub name: &'static str,
    /// Parses an input.
    pub run: fn(&[u8]),
    /// The number of inputs in a test run, which is lower if an input takes long.
    pub inputs: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "ciphertext_frame", run: frames::ciphertext, inputs: 3000 },
    Target { name: "key_frame", run: frames::key, inputs: 2000 },
    Target { name: "secret_key_frame", run: frames::secret_key, inputs: 3000 },
    Target { name: "public_bundle", run: rest::public_bundle, inputs: 60 },
    Target { name: "secret_bundle", run: rest::secret_bundle, inputs: 200 },
    Target { name: "sealed_bundle", run: rest::sealed_bundle, inputs: 2000 },
    Target { name: "access_token", run: rest::access_token, inputs: 5000 },
    Target { name: "device_message", run: messages::device, inputs: 5000 },
    Target { name: "json_message", run: messages::json, inputs: 5000 },
    Target { name: "policy_request", run: messages::policy, inputs: 5000 },
    Target { name: "data_file", run: data::file, inputs: 1500 },
    Target { name: "sum_share", run: messages::share, inputs: 5000 },
    Target { name: "committee_message", run: committee::message, inputs: 3000 },
];

/// Runs the target `name`. Panics if there is no such target.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("no target {name}")).run)(input);
}
