/// The media type of binary messages and ciphertexts.
pub const OCTET_STREAM: &str = "application/octet-stream";
/// The longest JSON body that either side reads.
pub const MAX_JSON_BYTES: usize = 64 << 10;
