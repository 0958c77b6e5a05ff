//! The secret half of the argmax by bootstrapping: who generates keys, and the device that decrypts answers.
//! No server may depend on it.

mod generate;
mod secret;

pub use generate::generate;
pub use secret::ArgmaxSecret;

#[cfg(test)]
mod tests;
