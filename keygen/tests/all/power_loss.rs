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

/// Logs as strace writes them, of what would be missed by looking at the order of lines alone.
#[test]
fn what_comes_during_a_sync_is_not_durable() {
    let folder = Path::new("/f");
    let open = "1 openat(AT_FDCWD</f>, \"a\", O_WRONLY|O_CREAT, 0600) = 3</f/a>\n1 fsync(4</f>) = 0\n";
    let a = BTreeSet::from([folder.join("a")]);
    for (log, expected) in [
        ("1 write(3</f/a>, \"x\", 1) = 1\n1 fsync(3</f/a>) = 0\n", BTreeSet::new()),
        (
            "1 fsync(3</f/a> <unfinished ...>\n2 write(3</f/a>, \"x\", 1) = 1\n1 <... fsync resumed>) = 0\n",
            a.clone(),
        ),
        ("1 fsync(3</f/a>) = 0\n2 write(3</f/a>, \"x\", 1 <unfinished ...>\n", a.clone()),
        ("1 fsync(3</f/a>) = -1 EIO (Input/output error)\n1 fsync(3</f/a>) = 0\n", a.clone()),
        ("1 openat(AT_FDCWD</f>, \"a\", O_WRONLY|O_TRUNC) = 5</f/a>\n", a.clone()),
        (
            "1 renameat(AT_FDCWD</f>, \"a\", AT_FDCWD</f>, \"b\") = 0\n1 fsync(4</f>) = 0\n\
             1 openat(AT_FDCWD</f>, \"a\", O_WRONLY|O_CREAT, 0600) = 3</f/a>\n",
            a,
        ),
    ] {
        assert_eq!(lost(&format!("{open}{log}"), folder), expected, "{log}");
    }
    for call in ["copy_file_range(3</f/a>, NULL, 4</f/b>, NULL, 9, 0) = 9", "io_uring_setup(8, 0x1) = 5"] {
        let log = format!("{open}1 {call}\n");
        assert!(std::panic::catch_unwind(|| lost(&log, folder)).is_err(), "{call}");
    }
}
