use protocol::{BanditConfig, Plan, Status};
use serde::{Deserialize, Serialize};

/// Content type of binary messages and ciphertexts.
pub const OCTET_STREAM: &str = "application/octet-stream";
/// Content type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";
/// The longest JSON body that either side reads.
pub const MAX_JSON_BYTES: usize = 64 << 10;

/// A bandit as it was created: the answer to its creation request, which every device of the bandit works by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Created {
    /// The bandit's id in paths.
    pub id: String,
    /// Its configuration, defaults filled in.
    pub config: BanditConfig,
    /// Levels and sizes; they follow from configuration and keys, and a device checks that.
    pub plan: Plan,
    /// The key pair, in hexadecimal.
    pub key_id: String,
    /// The parameters' fingerprint, in hexadecimal.
    pub fingerprint: String,
}

/// A bandit and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BanditView {
    /// As it was created.
    pub created: Created,
    /// Where it stands.
    pub status: Status,
}

/// A problem document (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A URI that names the kind of problem; `about:blank` if its status says it all.
    #[serde(rename = "type", default = "blank")]
    pub kind: String,
    /// The kind in words, the same each time.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong this time and what to do.
    #[serde(default)]
    pub detail: String,
    /// A stable code for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn blank() -> String {
    "about:blank".into()
}

impl Problem {
    /// Of the kind `about:blank`, without a code.
    pub fn new(status: u16, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Problem { kind: blank(), title: title.into(), status, detail: detail.into(), reason: None }
    }

    /// With a stable code.
    pub fn with_reason(self, reason: impl Into<String>) -> Self {
        Problem { reason: Some(reason.into()), ..self }
    }
}
