//! The secret half of CKKS: key generation, decryption, flooding, noise meter.
