//! Aggregators, collectors and shufflers cannot name a secret key: `ckks-secret` is on no dependency path of theirs.

use std::process::Command;

fn paths(package: &str) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "tree",
        "--offline",
        "--edges",
        "normal,build",
        "--target",
        "all",
        "--package",
        "secure-sum",
    ]);
    let out = cargo.args(["--invert", package]).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn no_secret_key_is_reachable() {
    assert_eq!(paths("ckks-secret"), "");
    // The question can be answered with yes.
    assert!(paths("ckks").contains("secure-sum v"));
}
