//! CKKS with public and evaluation keys only: encode, encrypt, evaluate.
