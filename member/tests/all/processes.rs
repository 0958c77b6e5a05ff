//! Key generation between processes, over HTTP.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wire::{PublicBundle, UsersBundle};

const PROGRAM: &str = env!("CARGO_BIN_EXE_helba-member");

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn output(arguments: &[&str]) -> String {
    let out = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn board(folder: &Path, address: &str) -> (Killed, String) {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new(PROGRAM);
    command.args([
        "board",
        "--proposal",
        &path("proposal.json"),
        "--folder",
        &path("board"),
        "--listen",
        address,
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Killed(child), line.trim().strip_prefix("listening on ").unwrap().to_string())
}

/// Three members in processes of their own, of which one is killed again and again, and the board too.
#[test]
fn members_in_processes_make_keys_while_they_and_the_board_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let cards: Vec<String> = (1..=3).map(|j| path(&format!("{j}.card"))).collect();
    for (j, card) in (1..).zip(&cards) {
        std::fs::write(card, output(&["identity", "--out", &path(&format!("{j}.identity"))])).unwrap();
    }
    let problem = ["--features", "2", "--arms", "2", "--threshold", "2", "--toy"];
    let mut propose = vec!["propose"];
    propose.extend(problem);
    let proposal = path("proposal.json");
    propose.extend(["--out", &proposal]);
    propose.extend(cards.iter().map(String::as_str));
    let run = output(&propose);
    assert!(run.contains("2 of 3 members") && run.contains("NO SECURITY"), "{run}");

    let (mut of_board, address) = board(folder.path(), "127.0.0.1:0");
    let start = |j: u8| {
        let mut command = Command::new(PROGRAM);
        command.args(["keygen", "--proposal", &proposal, "--identity", &path(&format!("{j}.identity"))]);
        command.args(["--board", &format!("http://{address}"), "--out", &path(&format!("member-{j}"))]);
        Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let mut members: Vec<Killed> = vec![start(1), start(3)];
    for pause in [30, 60, 120, 240, 480] {
        let mut second = start(2);
        std::thread::sleep(Duration::from_millis(pause));
        if second.0.try_wait().unwrap().is_none() {
            drop(second);
        }
        drop(of_board);
        of_board = board(folder.path(), &address).0;
    }
    if !folder.path().join("member-2/member.keys").exists() {
        members.push(start(2));
    }
    let _of_board = of_board;
    for member in &mut members {
        assert!(member.0.wait().unwrap().success());
    }
    let public = std::fs::read(path("member-1/public.bundle")).unwrap();
    let users = std::fs::read(path("member-1/users.bundle")).unwrap();
    for j in [2, 3] {
        assert!(std::fs::read(path(&format!("member-{j}/public.bundle"))).unwrap() == public, "member {j}");
        assert!(std::fs::read(path(&format!("member-{j}/users.bundle"))).unwrap() == users, "member {j}");
    }
    let bundle = PublicBundle::read(&public[..]).unwrap();
    assert_eq!(bundle.manifest.key_id, UsersBundle::read(&users[..]).unwrap().manifest.key_id);
}
