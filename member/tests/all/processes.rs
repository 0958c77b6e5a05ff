//! Members in processes of their own.

use std::process::{Child, Command};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_helba-member");

/// A process that is killed when this is dropped.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn output(arguments: &[&str]) -> String {
    let out = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}
