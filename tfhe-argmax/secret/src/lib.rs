//! The secret half of the argmax by bootstrapping: who generates keys. No server may depend on it. A device
//! decrypts answers with [`ckks_secret::LweSecret`] alone, and needs neither this crate nor `tfhe`.

mod generate;

pub use generate::generate;
pub use tfhe_argmax::Error;

#[cfg(test)]
mod tests;
