//! The secret half of CKKS: secret keys, key generation, decryption, symmetric encryption, the noise meter.
//!
//! For key authorities and users' devices. A server must not depend on this crate, and a test sees to it.
//! Nothing outside assumes that one party holds the whole key: a server knows keys by their id only.
//!
//! A decryption is a [`Private`] value. A server is told one bit of it ([`Private::at_least`]): an exact CKKS
//! decryption that a server learns gives the key away (Li, Micciancio 2021).

mod decrypt;
mod encrypt;
mod error;
mod keygen;
mod noise;
mod private;
mod sealed;
mod secret;

pub use decrypt::{Slots, constant_coefficient, decrypt, recrypt};
pub use encrypt::{SeededCiphertext, encrypt};
pub use error::Error;
pub use keygen::{galois_key, public_key, relin_key};
pub use noise::{Precision, measure};
pub use private::Private;
pub use sealed::{MAX_SEALED_BYTES, Passphrase, SEALED_MAGIC, seal, unseal};
pub use secret::SecretKey;
