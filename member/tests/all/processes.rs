//! Key generation between processes, over HTTP.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wire::{PublicBundle, UsersBundle};

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

fn board(proposal: &str, folder: &str, address: &str) -> (Killed, String) {
    let mut command = Command::new(PROGRAM);
    command.args(["board", "--proposal", proposal, "--folder", folder, "--listen", address]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Killed(child), line.trim().strip_prefix("listening on ").unwrap().to_string())
}

/// Runs three members, of which the second is killed again and again, and the board too, until all have ended
/// well. `start` has the arguments of a member for a board.
pub(crate) fn run(proposal: &str, folder: &str, start: &dyn Fn(u8, &str) -> Vec<String>) {
    let (mut of_board, address) = board(proposal, folder, "127.0.0.1:0");
    let start = |j: u8| {
        let mut command = Command::new(PROGRAM);
        command.args(start(j, &format!("http://{address}")));
        Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let mut others = [start(1), start(3)];
    let mut second = start(2);
    for pause in [30, 60, 120, 240, 480] {
        std::thread::sleep(Duration::from_millis(pause));
        if second.0.try_wait().unwrap().is_none() {
            // Killed before another process takes its place.
            drop(second);
            second = start(2);
        }
        drop(of_board);
        of_board = board(proposal, folder, &address).0;
    }
    for member in others.iter_mut().chain([&mut second]) {
        assert!(member.0.wait().unwrap().success());
    }
}

/// Members in processes of their own make keys, and hand their shares on to a next epoch in which another one
/// takes the place of member 2.
#[test]
fn members_in_processes_make_keys_and_hand_them_on_while_they_and_the_board_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let identity = |name: &str| {
        let card = path(&format!("{name}.card"));
        std::fs::write(&card, output(&["identity", "--out", &path(&format!("{name}.identity"))])).unwrap();
        card
    };
    let cards = ["1", "2", "3", "new"].map(identity);
    let (proposal, next) = (path("proposal.json"), path("next.json"));
    let said = output(&[
        "propose",
        "--features",
        "2",
        "--arms",
        "2",
        "--threshold",
        "2",
        "--toy",
        "--out",
        &proposal,
        &cards[0],
        &cards[1],
        &cards[2],
    ]);
    assert!(said.contains("2 of 3 members") && said.contains("NO SECURITY"), "{said}");
    run(&proposal, &path("board"), &|j, address| {
        let (identity, out) = (path(&format!("{j}.identity")), path(&format!("member-{j}")));
        ["keygen", "--proposal", &proposal, "--identity", &identity, "--board", address, "--out", &out]
            .map(String::from)
            .into()
    });
    let read = |name: &str| std::fs::read(path(name)).unwrap();
    let public = read("member-1/public.bundle");
    for j in [2, 3] {
        assert!(read(&format!("member-{j}/public.bundle")) == public, "member {j}");
        assert!(read(&format!("member-{j}/users.bundle")) == read("member-1/users.bundle"), "member {j}");
    }
    let bundle = PublicBundle::read(&public[..]).unwrap();
    let of_users = UsersBundle::read(&read("member-1/users.bundle")[..]).unwrap();
    assert_eq!(bundle.manifest.key_id, of_users.manifest.key_id);

    let (bundle, users) = (path("member-1/public.bundle"), path("member-1/users.bundle"));
    let said = output(&[
        "propose",
        "--reshare",
        &bundle,
        "--dealers",
        "1,3",
        "--threshold",
        "2",
        "--out",
        &next,
        &cards[0],
        &cards[3],
        &cards[2],
    ]);
    assert!(said.contains("2 of 3 members") && said.contains("NO SECURITY"), "{said}");
    run(&next, &path("next-board"), &|j, address| {
        let name = if j == 2 { "new".into() } else { j.to_string() };
        let (identity, out) = (path(&format!("{name}.identity")), path(&format!("next-{j}")));
        let of_all = ["reshare", "--proposal", &next, "--identity", &identity, "--board", address];
        let files = ["--public", &bundle, "--users", &users, "--out", &out];
        let keys = path(&format!("member-{j}/member.keys"));
        let own = if j == 2 { vec![] } else { vec!["--keys", &keys] };
        of_all.into_iter().chain(files).chain(own).map(String::from).collect()
    });
    let next = PublicBundle::read(&read("next-2/public.bundle")[..]).unwrap().manifest;
    let wire::Custody::Committee(committee) = &next.custody else { panic!("a committee") };
    assert_eq!((committee.epoch(), &next.key_id), (1, &of_users.manifest.key_id));
    for (j, there) in [(1, false), (2, true), (3, false)] {
        let old = path(&format!("member-{j}/member.keys"));
        assert_eq!(Path::new(&old).exists(), there, "the share of a member that is not there is not erased");
        assert!(Path::new(&path(&format!("next-{j}/member.keys"))).exists());
    }
}
