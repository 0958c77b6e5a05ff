//! Residue number system arithmetic for ring-LWE: primes, the negacyclic NTT, polynomials over
//! `ℤ_q[X]/(Xᴺ + 1)` limb by limb, base conversion and samplers.
//!
//! For people who build a scheme on top of it; users of the scheme want `ckks`. Nothing here knows
//! of ciphertexts. Every modulus is a prime of at most 50 bits, every stored residue is fully reduced,
//! and every kernel has a scalar twin that it equals bit for bit (`RNS_KERNEL=scalar` selects it).

mod basis;
mod convert;
mod error;
mod modulus;
mod ntt;
mod pairs;
mod poly;
mod pool;
pub mod primes;
mod radix;
pub mod sample;
mod simd;

pub use basis::Basis;
pub use convert::{BaseConverter, Divider, Prepared};
pub use error::Error;
pub use modulus::{Constant, Modulus};
pub use ntt::{Input, Lift, NttKernel, NttTable, Output, Permutation, bit_reverse};
pub use pairs::{Addends, LimbPairs, Mode, Pairs, Target};
pub use poly::{Coeff, Domain, Ntt, Poly};
pub use pool::Buffer;
pub use radix::Radix;
pub use simd::{
    Affine, Kernel, Rows, Term, add_assign, add_constant, combine_into as combine, gather_into,
    inner_products_short_into as inner_products_short, kernels, mul_add_assign, mul_constant_add, mul_into,
    pair_products_into as pair_products, signed_into, sub_assign, sum_of_products_into as sum_of_products,
};
