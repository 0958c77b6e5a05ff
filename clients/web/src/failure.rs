//! Errors as they reach JavaScript: an `Error` whose name says the kind. Those of refusals carry the problem
//! document.

use js_sys::{Error, Reflect};
use user_client::Error as DeviceError;
use wasm_bindgen::JsValue;

/// An error of a device.
pub struct Failure {
    name: &'static str,
    message: String,
    problem: Option<wire::Problem>,
}

impl Failure {
    /// An error of the kind `name`.
    pub(crate) fn new(name: &'static str, message: impl std::fmt::Display) -> Self {
        Failure { name, message: message.to_string(), problem: None }
    }

    /// Misuse: keys that cannot be used, or not with this server.
    pub(crate) fn keys(message: impl std::fmt::Display) -> Self {
        Self::new("KeysError", message)
    }

    /// Misuse: contexts, rewards, configurations.
    pub(crate) fn value(message: impl std::fmt::Display) -> Self {
        Self::new("ValueError", message)
    }

    /// Untrusted: an answer that does not follow the protocol.
    pub(crate) fn answer(message: impl std::fmt::Display) -> Self {
        Self::new("AnswerError", message)
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Refused(problem) => {
                let message = DeviceError::Refused(problem.clone()).to_string();
                Failure { name: "RefusedError", message, problem: Some(problem) }
            }
            DeviceError::WrongKeys { .. } | DeviceError::NoSecretKeys => Self::keys(error),
            DeviceError::BadSealedDecision | DeviceError::BadId | DeviceError::Protocol(_) => {
                Self::value(error)
            }
            error => Self::answer(error),
        }
    }
}

impl From<Failure> for JsValue {
    fn from(failure: Failure) -> Self {
        let error = Error::new(&failure.message);
        error.set_name(failure.name);
        if let Some(problem) = failure.problem {
            let fields = [
                ("status", JsValue::from(problem.status)),
                ("reason", problem.reason.map_or(JsValue::NULL, JsValue::from)),
                ("title", problem.title.into()),
                ("detail", problem.detail.into()),
            ];
            for (name, value) in fields {
                // An error object takes new properties.
                let _ = Reflect::set(&error, &name.into(), &value);
            }
        }
        error.into()
    }
}
