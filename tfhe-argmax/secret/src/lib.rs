//! The secret half of the argmax by bootstrapping: key generation and decryption. No server may depend on it.

mod generate;
mod secret;

pub use generate::generate;
pub use secret::LweSecret;
pub use tfhe_argmax::Error;

#[cfg(test)]
mod tests;
