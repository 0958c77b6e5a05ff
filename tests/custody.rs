//! The server cannot name a secret key: `ckks-secret` is on no dependency path of it.

use std::process::{Command, Output};

/// The paths from the server to `package`, as `cargo tree` prints them.
fn tree(package: &str) -> Output {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--locked", "--edges", "normal,build", "--target", "all"]);
    cargo.args(["--package", "helba-server", "--invert", package]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap()
}

#[test]
fn no_secret_key_is_reachable() {
    let out = tree("ckks-secret");
    let (paths, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(paths.is_empty(), "the server can name a secret key:\n{paths}");
    // Cargo fails where a package is in no graph, and succeeds with nothing to print where it is in another edge's only.
    assert!(
        out.status.success() || said.contains("did not match any packages"),
        "cargo tree failed:\n{said}"
    );
}

/// The question above can be answered with yes.
#[test]
fn public_keys_are_reachable() {
    let out = tree("ckks");
    let paths = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && paths.contains("helba-server v"),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}
