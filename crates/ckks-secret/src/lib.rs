//! The secret half of CKKS: secret keys, key generation, symmetric encryption, decryption, re-encryption, and
//! a meter for precision.
//!
//! This crate is for key authorities and for the devices of users. A server must not depend on it;
//! `tests/custody.rs` checks the dependency graph. A server knows a key
//! by its identifier only.
//!
//! A decryption is a [`Private`] value. A server may learn one bit of it ([`Private::at_least`]), because an
//! exact CKKS decryption reveals the key to whoever has the ciphertext (Li, Micciancio 2021).

mod decrypt;
mod encrypt;
mod error;
mod keygen;
mod noise;
mod private;
mod raise;
mod sealed;
mod secret;

pub use decrypt::{
    Coefficients, Slots, constant_coefficient, decrypt, decrypt_coefficients, decrypt_with_errors, recrypt,
};
pub use encrypt::{SeededCiphertext, encrypt};
pub use error::Error;
pub use keygen::{galois_key, public_key, relin_key, ring_switch_key};
pub use noise::{Precision, measure};
pub use private::Private;
pub use raise::{
    exchange, exchange_group, exchange_under_pads, flooded_constant, raise, slots_to_coefficients,
    slots_under_pads,
};
pub use sealed::{MAX_SEALED_BYTES, Passphrase, SEALED_MAGIC, seal, unseal};
pub use secret::SecretKey;
