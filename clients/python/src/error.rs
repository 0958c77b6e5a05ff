//! Errors as exceptions of `helba._errors`. The sentences name what a Python program can do.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyModule, PyTuple};
use std::path::PathBuf;
use user_client::Error;
use wire::{Problem, ProblemType};

/// The reason why a call failed.
pub(crate) enum Failure {
    /// From the device or the server.
    Device(Error),
    /// From opening a secret bundle.
    Opening(Box<(PathBuf, Error)>),
    /// From opening a user's secret and the bundle of this user.
    OpeningUser(Box<([PathBuf; 2], Error)>),
    /// Contexts of the decision with this number, counted from 0, if the call has several.
    Contexts(Option<usize>, protocol::Error),
    /// Named values that make no features.
    Named(String),
    /// A file or a data frame that makes no rounds.
    Data(String),
    /// An argument that cannot be used.
    Argument(String),
    /// The keys are missing or cannot be used.
    Keys(String),
    /// The process was forked off from one that had used the package.
    Forked,
    /// The interpreter ends.
    Ended,
    /// A fault of this package.
    Internal(&'static str),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Device(error)
    }
}

impl From<host::NoRandomness> for Failure {
    fn from(error: host::NoRandomness) -> Self {
        Failure::Keys(error.to_string())
    }
}

/// The closed table of the reasons for which a server refuses a request, as rows of code, status and
/// sentence.
#[pyfunction]
pub(crate) fn problems() -> Vec<(&'static str, u16, &'static str)> {
    ProblemType::ALL.iter().map(|kind| (kind.reason(), kind.status(), kind.sentence())).collect()
}

/// The exception for `failure`.
pub(crate) fn raised(py: Python<'_>, failure: Failure) -> PyErr {
    let one = |class, text: String| exception(py, class, (text,));
    match failure {
        Failure::Device(error) => of_device(py, error),
        Failure::Opening(opening) => match *opening {
            (path, error @ (Error::Wire(_) | Error::Secret(_))) => {
                one("KeysError", format!("{}: {error}", path.display()))
            }
            (_, error) => of_device(py, error),
        },
        Failure::OpeningUser(opening) => match *opening {
            ([secret, user], error @ (Error::Wire(_) | Error::Secret(_) | Error::OtherUser)) => {
                let text = format!("{} with {}: {error}", secret.display(), user.display());
                one("KeysError", text)
            }
            (_, error) => of_device(py, error),
        },
        Failure::Contexts(at, error) => {
            let place = at.map_or(String::new(), |at| format!("decision {at} of the request: "));
            one("ContextsError", format!("{place}{}", of_contexts(&error)))
        }
        Failure::Named(text) => one("ContextsError", text),
        Failure::Data(text) => one("DataError", text),
        Failure::Argument(text) => one("ArgumentError", text),
        Failure::Keys(text) => one("KeysError", text),
        Failure::Forked => one(
            "Error",
            "this process was forked from one that had used helba, whose threads it does not have: use the start method \
             `spawn` of multiprocessing, or import and use helba in the children only"
                .into(),
        ),
        Failure::Ended => one("Error", "the program ends, and nothing can be awaited any more".into()),
        Failure::Internal(text) => one("Error", format!("{text}: please report it")),
    }
}

fn of_device(py: Python<'_>, error: Error) -> PyErr {
    let (class, text) = match &error {
        Error::Refused(Problem { title, status, detail, reason, .. }) => {
            let code = reason.clone().unwrap_or_else(|| "unknown".into());
            return exception(py, "refused", (code, *status, title.clone(), detail.clone()));
        }
        Error::Unreachable { server, reason } => {
            return exception(py, "UnreachableError", (server.clone(), reason.clone()));
        }
        Error::Toy { path } => {
            let text = format!(
                "{} holds a toy key, which protects nothing: use a bundle that was generated without --toy, or for \
                 tests open it with toy=True",
                path.display()
            );
            ("KeysError", text)
        }
        Error::Sealed { path, sealed: true } => {
            ("KeysError", format!("{} is sealed: give its passphrase, as passphrase=…", path.display()))
        }
        Error::Sealed { path, sealed: false } => {
            ("KeysError", format!("{} is not sealed: leave passphrase out", path.display()))
        }
        Error::Io { .. }
        | Error::Permissions { .. }
        | Error::WrongKeys { .. }
        | Error::OtherCommittee { .. }
        | Error::NoSecretKeys
        | Error::NoSession { .. }
        | Error::AnswerCount { .. }
        | Error::RepeatCount { .. } => ("KeysError", error.to_string()),
        Error::BadSealedDecision => ("DecisionError", error.to_string()),
        Error::BadId | Error::BadUrl(_) | Error::BadCertificates { .. } | Error::NoCommittee { .. } => {
            ("ArgumentError", error.to_string())
        }
        Error::Protocol(protocol::Error::UnknownDecision { .. }) => ("DecisionError", error.to_string()),
        Error::Protocol(_) | Error::RewardRange { .. } => ("ArgumentError", error.to_string()),
        _ => ("ProtocolError", error.to_string()),
    };
    exception(py, class, (text,))
}

/// The sentence about contexts. Rows are counted from 0 here, as arms are.
fn of_contexts(error: &protocol::Error) -> String {
    use protocol::Error as E;
    match error {
        E::ArmCount { got, want } => {
            format!(
                "the contexts have {got} rows, but the bandit has {want} arms: give one row of features for each arm"
            )
        }
        E::FeatureCount { row, got, want } => {
            format!("arm {} has {got} features, but the bandit has {want}", row - 1)
        }
        E::NotANumber { row, column } => {
            format!(
                "feature {} of arm {} is not a finite number: replace it before you ask",
                column - 1,
                row - 1
            )
        }
        E::NormAboveBound { row, bound } => format!(
            "the features of arm {} have a norm above {bound}: divide all features by the same number, or create the bandit \
             with a larger bound, as l=…",
            row - 1
        ),
        other => other.to_string(),
    }
}

/// An exception that `helba._errors.NAME(*arguments)` makes.
fn exception<'py>(
    py: Python<'py>,
    name: &str,
    arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyErr {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let make = || -> PyResult<Bound<'py, PyAny>> {
        let module = ERRORS.get_or_try_init(py, || py.import("helba._errors").map(Bound::unbind))?;
        module.bind(py).getattr(name)?.call1(arguments.into_pyobject(py)?)
    };
    make().map_or_else(|error| error, PyErr::from_value)
}
