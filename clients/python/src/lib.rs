//! The device of encrypted bandits in a Python process. The module `helba._native` has what needs the secret
//! key, the network or the readers of files; names and sentences for users are in `python/helba`.
//!
//! A call takes plain values and returns plain values or JSON. It works on a thread of its own, without the
//! interpreter ([`work`]).

mod committee;
mod connection;
mod data;
mod decision;
mod error;
mod keys;
mod raising;
mod transform;
mod work;

use pyo3::prelude::*;

/// The device of encrypted bandits: keys, requests, decisions. Use the package `helba`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::committee::{Committee, Told, of_keys_alone};
    #[pymodule_export]
    use crate::connection::Connection;
    #[pymodule_export]
    use crate::connection::{default_configuration, exploring};
    #[pymodule_export]
    use crate::data::{check_data, evaluate_data, fit_transform, logged_rounds_of_data, rounds_of_data};
    #[pymodule_export]
    use crate::decision::Answer;
    #[pymodule_export]
    use crate::error::problems;
    #[pymodule_export]
    use crate::keys::Keys;
    #[pymodule_export]
    use crate::raising::Raising;
    #[pymodule_export]
    use crate::transform::Transform;
    #[pymodule_export]
    use crate::work::end;
}
