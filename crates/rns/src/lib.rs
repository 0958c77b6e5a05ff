//! Residue number system arithmetic for ring-LWE: primes, the negacyclic NTT, polynomials of `ℤ_Q[X]/(Xᴺ +
//! 1)` stored limb by limb, base conversion, rounded division (rescaling, ModDown) and samplers.
//!
//! This crate is for those who implement a scheme. Users of the scheme want `ckks`; nothing here knows of
//! ciphertexts. Every modulus is a prime of at most 50 bits. Every stored residue is fully reduced. Every
//! vector kernel has a scalar twin that gives the same bits. [`kernels`] says which run, and how the
//! environment variable `RNS_KERNEL` chooses others.

mod basis;
mod convert;
mod error;
mod modulus;
mod ntt;
mod poly;
mod pool;
pub mod primes;
mod radix;
pub mod sample;
mod simd;

pub use basis::Basis;
pub use convert::{BaseConverter, ModDown, ScaledResidues};
pub use error::Error;
pub use modulus::{Constant, Modulus};
pub use ntt::NttTable;
pub use poly::{Coeff, Domain, Ntt, Poly};
pub use pool::Buffer;
pub use simd::operands::{
    AccumulatorTerms, Affine, Destination, Input, Lift, LimbPairs, Mode, NttKernel, Output, Pairs,
    Permutation, Radix, Rows, Term, bit_reverse,
};
pub use simd::{
    Kernel, add_assign, add_constant, combine_into as combine, gather_into,
    inner_products_short_into as inner_products_short, kernels, montgomery_assign, mul_add_assign,
    mul_constant_add, mul_into, pair_products_into as pair_products, signed_into, sub_assign,
    sum_of_products_into as sum_of_products,
};
