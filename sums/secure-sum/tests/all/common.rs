//! What tests of processes have in common.

use secure_sum::{Error, Party};
use std::net::SocketAddr;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_secure-sum");

pub(crate) fn party(address: SocketAddr) -> Party {
    Party::new(format!("http://{address}")).unwrap()
}

/// The bodies of requests or answers that passed; heads are dropped.
pub(crate) fn bodies(mut passed: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    while let Some(end) = passed.windows(4).position(|w| w == b"\r\n\r\n") {
        let head = String::from_utf8(passed[..end].to_vec()).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|l| l.strip_prefix("content-length:")?.trim().parse().ok());
        let (body, rest) = passed[end + 4..].split_at(length.unwrap_or(0));
        out.push(body.to_vec());
        passed = rest;
    }
    out
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>, reason: &str) {
    match result {
        Err(Error::Refused { problem, .. }) if problem.reason.as_deref() == Some(reason) => {}
        other => panic!("{other:?} in place of {reason}"),
    }
}
