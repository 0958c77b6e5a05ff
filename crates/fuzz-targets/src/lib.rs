//! The bodies of the fuzz targets: one function for each parser of bytes or JSON from outside.
//!
//! A target must return for every input. It may panic only to report a broken promise, such as a message that
//! is read differently after it was written again. `fuzz/` runs the targets under libFuzzer.
//! `tests/mutations.rs` runs them on random and mutated inputs in every test run, so that they cannot rot.
//! [`Target::seeds`] are valid inputs, from which `examples/corpus.rs` writes the seed corpus.

mod frames;
mod messages;
mod rest;

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

/// A parser, with inputs to start from.
pub struct Target {
    /// The name of the target in `fuzz/fuzz_targets` and of its corpus.
    pub name: &'static str,
    /// Parses an input.
    pub run: fn(&[u8]),
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The number of inputs in a test run: fewer where an input takes long.
    pub inputs: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "ciphertext_frame", run: frames::ciphertext, seeds: frames::ciphertexts, inputs: 3000 },
    Target { name: "key_frame", run: frames::key, seeds: frames::keys, inputs: 2000 },
    Target { name: "secret_key_frame", run: frames::secret_key, seeds: frames::secret_keys, inputs: 3000 },
    Target { name: "public_bundle", run: rest::public_bundle, seeds: rest::public_bundles, inputs: 60 },
    Target { name: "secret_bundle", run: rest::secret_bundle, seeds: rest::secret_bundles, inputs: 200 },
    Target { name: "sealed_bundle", run: rest::sealed_bundle, seeds: rest::sealed_bundles, inputs: 2000 },
    Target { name: "access_token", run: rest::access_token, seeds: rest::access_tokens, inputs: 5000 },
    Target { name: "device_message", run: messages::device, seeds: messages::of_devices, inputs: 5000 },
    Target { name: "json_message", run: messages::json, seeds: messages::in_json, inputs: 5000 },
    Target { name: "policy_request", run: messages::policy, seeds: messages::of_policies, inputs: 5000 },
    Target { name: "sum_share", run: messages::share, seeds: messages::shares, inputs: 5000 },
];

/// Runs the target `name`. Panics if there is none.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("no target {name}")).run)(input);
}

/// A generator with a fixed seed, so that seeds are the same in every run.
fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(1)
}
