//! What a loss of power may take after the tool has ended: nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use testkit::power_loss::{lost, traced};

/// What a loss of power may take of the files below `folder` once `program` has ended.
fn lost_after(program: &str, arguments: &[&str], folder: &Path) -> BTreeSet<PathBuf> {
    let logs = tempfile::tempdir().unwrap();
    let log = logs.path().join("calls");
    let output = traced(program, &log).args(arguments).current_dir(folder).output();
    let output = output.expect("strace, from the package of that name, is on the path");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    lost(&std::fs::read_to_string(&log).unwrap(), folder)
}

/// A key that users already hold a half of, or a token that a service was given, is not lost with the power.
#[test]
fn attack_power_loss_takes_no_key_and_no_token() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().canonicalize().unwrap();
    let keygen = env!("CARGO_BIN_EXE_helba-keygen");
    let create = "create --features 2 --arms 2 --toy --public public.bundle --secret secret.bundle";
    for arguments in [create, "token token.hex"] {
        let arguments: Vec<_> = arguments.split(' ').collect();
        assert_eq!(lost_after(keygen, &arguments, &folder), BTreeSet::new(), "{arguments:?}");
    }
    for file in ["public.bundle", "secret.bundle", "token.hex"] {
        assert!(folder.join(file).exists());
    }

    // The control: what does not sync loses bytes and name, what syncs its file alone loses the name.
    let file = BTreeSet::from([folder.join("file")]);
    let shell = |script: &str| {
        let lost = lost_after("sh", &["-c", script], &folder);
        std::fs::remove_file(folder.join("file")).unwrap();
        lost
    };
    assert_eq!(shell("echo 1 > file"), file);
    assert_eq!(shell("echo 1 > file; sync file"), file);
    assert_eq!(shell("echo 1 > new; sync new; mv new file"), file);
    assert_eq!(shell("echo 1 > file; sync ."), file);
    assert_eq!(shell("echo 1 > file; sync file; sync ."), BTreeSet::new());
}
