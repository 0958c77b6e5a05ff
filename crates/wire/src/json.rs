use protocol::{BanditConfig, Plan, Status};
use serde::{Deserialize, Serialize};

/// The media type of binary messages and ciphertexts.
pub const OCTET_STREAM: &str = "application/octet-stream";
/// The longest JSON body that either side reads.
pub const MAX_JSON_BYTES: usize = 64 << 10;

/// An encrypted bandit as it was created. This is the answer to its creation request, and every device of the
/// bandit uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Created {
    /// The id of the bandit in paths.
    pub id: String,
    /// The configuration, with defaults filled in.
    pub config: BanditConfig,
    /// Levels and sizes. They follow from configuration and keys, which every device checks.
    pub plan: Plan,
    /// The id of the key pair, in hexadecimal.
    pub key_id: String,
    /// The fingerprint of the parameters, in hexadecimal.
    pub fingerprint: String,
}

/// An encrypted bandit and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BanditView {
    /// The bandit as it was created.
    pub created: Created,
    /// The counters and the phase.
    pub status: Status,
}
