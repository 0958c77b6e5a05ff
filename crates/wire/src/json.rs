use protocol::{BanditConfig, Plan, Status};
use serde::{Deserialize, Serialize};

/// Content type of binary messages and ciphertexts.
pub const OCTET_STREAM: &str = "application/octet-stream";
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
