//! The server: ciphertexts in, ciphertexts out.
