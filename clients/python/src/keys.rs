use crate::error::{Failure, raised};
use crate::work::call;
use ckks_secret::Passphrase;
use host::os_rng;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use user_client::{Device, Opening};
use zeroize::Zeroizing;

/// The secret keys of encrypted bandits, as a secret bundle of helba-keygen holds them, or the key of a user
/// with one of its own; with the access token.
///
/// Keys.open(path) loads them. They stay in the memory of this process, which is overwritten when the last
/// Client that uses them is gone. They cannot be pickled, copied or printed.
#[pyclass(frozen, module = "helba")]
pub(crate) struct Keys {
    pub(crate) device: Arc<Device>,
}

#[pymethods]
impl Keys {
    /// Loads the secret bundle at path, which only its owner may be able to read; with user, the path of the
    /// bundle that a user with a key of its own got from the owner of the bandit's keys, the secret of this
    /// user (Keys.create_user).
    ///
    /// passphrase opens a bundle that was sealed; a text is encoded as UTF-8. toy=True accepts keys without
    /// security, for tests. repeats is how many decisions may be asked for again under this key because an
    /// answer could not be relied on: 5 if left out, and 0 with user, since what all users of a bandit tell
    /// adds up. trace_answers is how many questions about the trace of a batch may be answered. Each request
    /// or answer tells the server one bit of a decryption, and both are counted in files beside the bundle,
    /// over all processes.
    ///
    /// Raises KeysError if the file cannot be used, or that of user, and if it is the bundle of another user;
    /// ArgumentError for passphrase or trace_answers with user, which has no secret keys of the bandit.
    #[staticmethod]
    #[pyo3(signature = (path, passphrase=None, *, user=None, toy=false, repeats=None, trace_answers=0))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        passphrase: Option<Secret>,
        user: Option<PathBuf>,
        toy: bool,
        repeats: Option<u64>,
        trace_answers: u64,
    ) -> PyResult<Py<PyAny>> {
        let opened = move || {
            let device = match user {
                Some(_) if passphrase.is_some() || trace_answers > 0 => {
                    let what =
                        "passphrase and trace_answers are for a secret bundle: leave them out with user";
                    return Err(Failure::Argument(what.into()));
                }
                Some(user) => Device::open_user(&path, &user, toy)
                    .map_err(|error| Failure::OpeningUser(Box::new(([path, user], error))))?,
                None => {
                    let passphrase = passphrase.map(|Secret(bytes)| Passphrase::new(bytes)).transpose();
                    let passphrase = passphrase.map_err(|e| Failure::Keys(e.to_string()))?;
                    let device = Device::open(&path, &Opening { toy, passphrase });
                    let device = device.map_err(|error| Failure::Opening(Box::new((path, error))))?;
                    device.with_most_answers(trace_answers)
                }
            };
            let device = match repeats {
                Some(repeats) => device.with_most_repeats(repeats),
                None => device,
            };
            Ok((Keys { device: Arc::new(device) }, None))
        };
        call(py, None, move |_| opened(), |py, keys| Ok(Py::new(py, keys)?.into_any()))
    }

    /// Makes the key of a user with one of its own: in the new file secret, which only its owner can read,
    /// what open loads with user, and in the new file request what the owner of the bandit's keys makes the
    /// bundle of this user of, by helba-keygen enrol. Nothing in request is secret. Returns the fingerprint
    /// of the request: compare it with that which enrol prints, by another way than the request went.
    ///
    /// Raises KeysError if one of the files exists or cannot be written; then neither is made.
    #[staticmethod]
    fn create_user(py: Python<'_>, secret: PathBuf, request: PathBuf) -> PyResult<Py<PyAny>> {
        let create = move || Ok((user_client::create_user(&secret, &request, &mut os_rng()?)?, None));
        call(
            py,
            None,
            move |_| create(),
            |py, fingerprint| Ok(fingerprint.into_pyobject(py)?.into_any().unbind()),
        )
    }

    /// The public id of the key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.device.key_id().to_string()
    }

    /// The least and the largest number of features of bandits under these keys.
    #[getter]
    fn features(&self) -> (usize, usize) {
        let [features, _] = self.device.shape().problems();
        features.into_inner()
    }

    /// The least and the largest number of arms of bandits under these keys.
    #[getter]
    fn arms(&self) -> (usize, usize) {
        let [_, arms] = self.device.shape().problems();
        arms.into_inner()
    }

    fn __repr__(&self) -> String {
        format!("<helba.Keys {} for {}>", self.device.key_id(), self.device.shape())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "helba.Keys cannot be pickled or copied: open the secret bundle where it is used",
        ))
    }
}

/// A passphrase as text or bytes.
struct Secret(Zeroizing<Vec<u8>>);

impl<'py> FromPyObject<'_, 'py> for Secret {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let bytes = match given.extract::<&[u8]>() {
            Ok(bytes) => bytes.to_vec(),
            Err(_) => match given.cast::<pyo3::types::PyString>() {
                Ok(text) => text.to_cow()?.as_bytes().to_vec(),
                Err(_) => return Err(PyTypeError::new_err("passphrase must be a str or bytes")),
            },
        };
        Ok(Secret(Zeroizing::new(bytes)))
    }
}

/// The device of `keys`, which a call needs.
pub(crate) fn needed(keys: Option<Arc<Device>>) -> Result<Arc<Device>, Failure> {
    let missing =
        "the bandit is encrypted: open the client with keys, as helba.Client(url, helba.Keys.open(path))";
    keys.ok_or_else(|| Failure::Keys(missing.into()))
}

/// As [`raised`], for results.
pub(crate) fn or_raise<T>(py: Python<'_>, result: Result<T, Failure>) -> PyResult<T> {
    result.map_err(|failure| raised(py, failure))
}
