//! A rotation by the programs, whose processes are killed while it runs.

use crate::committee::{self, rng};
use crate::processes::{Killed, PROGRAM, output, run};
use crate::rounds::{check, rows};
use helba_member::serve::Ledger;
use protocol::{BanditConfig, Status};
use rand_chacha::ChaCha20Rng;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::ClearTwin;
use user_client::{BanditDevice, Client, Device, Opening};
use wire::{BundleKind, BundleReader, Custody};

const TOY: Opening = Opening { toy: true, passphrase: None };

/// A program of another package, beside that of the member. It is built if it is not there.
fn program(package: &str, name: &str) -> PathBuf {
    let path = Path::new(PROGRAM).with_file_name(name).with_extension(std::env::consts::EXE_EXTENSION);
    if !path.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", package, "--bin", name]);
        if path.parent().is_some_and(|profile| profile.ends_with("release")) {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
    }
    path
}

/// A server at `address`, and the address that it listens on.
fn server(arguments: &[&str], address: &str) -> (Killed, String) {
    let mut command = Command::new(program("helba-server", "helba-server"));
    command.args(["--toy", "--listen", address]).args(arguments).env("RUST_LOG", "warn");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}")).to_string();
    (Killed(child), address)
}

/// Files of a committee: `public.bundle`, `users.bundle`, `1.keys` and so on.
struct Files(PathBuf);

impl Files {
    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn serve(&self, member: u8, address: &str, more: &[&str]) -> Killed {
        let mut command = Command::new(PROGRAM);
        command.args([
            "serve",
            "--server",
            &format!("http://{address}"),
            "--users",
            &self.path("users.bundle"),
        ]);
        command.args([
            "--keys",
            &self.path(&format!("{member}.keys")),
            "--public",
            &self.path("public.bundle"),
        ]);
        Killed(command.args(more).stdout(Stdio::null()).spawn().unwrap())
    }

    /// The decisions that a member has opened, by its ledger.
    fn opened(&self, member: u8) -> u64 {
        Ledger::open(&self.0.join(format!("{member}.ledger"))).unwrap().tell().unwrap().spent.decisions
    }
}

fn private(path: &Path, bytes: &[u8]) {
    let draft = host::Draft::create_private(path).unwrap();
    draft.file().write_all(bytes).unwrap();
    draft.finish().unwrap();
}

fn settle(client: &Client, id: &str) -> Status {
    until("an update", || {
        let status = client.encrypted(id).unwrap().status;
        (!status.updating && !status.refresh_due).then_some(status)
    })
}

/// The result of `look`, within two minutes.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{what} has no end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A bandit of a test, and the twin that plays beside it.
struct Played {
    id: String,
    config: BanditConfig,
    twin: ClearTwin,
    draws: ChaCha20Rng,
}

impl Played {
    fn new(client: &Client, seed: u64) -> Self {
        let config = BanditConfig { horizon: 100, ..BanditConfig::new(2, 2) };
        let id = client.create_encrypted(&config).unwrap().id;
        Played { id, twin: ClearTwin::new(config.clone()), config, draws: rng(seed) }
    }

    /// Plays a round as the twin does.
    fn play(&mut self, client: &Client, device: &Arc<Device>, round: u32) {
        let joined: BanditDevice =
            device.clone().join_shared(&client.encrypted(&self.id).unwrap().created).unwrap();
        let rows = rows(round, 2, 2);
        let reply = joined.decide(client, &rows, &mut self.draws).unwrap().choice;
        check(&self.config, &reply, &self.twin.indices(&rows, reply.round, reply.model_feedbacks));
        let reward = if reply.arm == 0 { 0.7 } else { -0.2 };
        let features = &rows[reply.arm];
        let body = joined.feedback(reply.id, reply.arm, features, reward, None, &mut self.draws).unwrap();
        client.feedback_encrypted(&self.id, reply.id, &body).unwrap();
        self.twin.learn(features, reward);
        settle(client, &self.id);
    }
}

/// The committee of the keys in `before`, and one that follows it, which three members in processes make.
fn committees(folder: &Path) -> [Files; 2] {
    let path = |name: &str| folder.join(name).display().to_string();
    let before = Files(folder.join("before"));
    std::fs::create_dir(&before.0).unwrap();
    let keys = committee::keys(2, 3, 2, 2, true);
    for member in &keys.members {
        let name = before.0.join(format!("{}.keys", member.member()));
        member.save(&name, None, &mut rng(1)).unwrap();
        drop(Ledger::create(&name.with_extension("ledger")).unwrap());
    }
    std::fs::write(before.path("public.bundle"), &keys.public).unwrap();
    private(&before.0.join("users.bundle"), &keys.users);
    let card = |name: &str| {
        let card = path(&format!("{name}.card"));
        std::fs::write(&card, output(&["identity", "--out", &path(&format!("{name}.identity"))])).unwrap();
        card
    };
    let cards = ["1", "2", "3"].map(card);
    let (proposal, public) = (path("next.json"), before.path("public.bundle"));
    let of = ["propose", "--rotate", &public, "--threshold", "2", "--out", &proposal];
    output(&of.into_iter().chain(cards.iter().map(String::as_str)).collect::<Vec<_>>());
    run(&proposal, &path("board"), &|j, address| {
        let (identity, out) = (path(&format!("{j}.identity")), path(&format!("made-{j}")));
        ["keygen", "--proposal", &proposal, "--identity", &identity, "--board", address, "--out", &out]
            .map(String::from)
            .into()
    });
    let next = Files(folder.join("next"));
    std::fs::rename(folder.join("made-1"), &next.0).unwrap();
    for (j, made) in [(1, next.0.clone()), (2, folder.join("made-2")), (3, folder.join("made-3"))] {
        for kind in ["keys", "ledger"] {
            let own = next.0.join(format!("{j}.{kind}"));
            std::fs::rename(made.join(format!("member.{kind}")), own).unwrap();
        }
    }
    let bundle = std::fs::File::open(next.path("public.bundle")).unwrap();
    let reader = BundleReader::of_kind(BundleKind::Public, BufReader::new(bundle)).unwrap();
    let Custody::Committee(committee) = &reader.manifest().custody else { panic!("a committee") };
    assert!(committee.follows.is_some());
    [before, next]
}

/// helba-client in `folder`, with the users' bundle there.
fn helba_client(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program("user-client", "helba-client"));
    command.args(arguments).args(["--secret", "users.bundle", "--toy"]);
    command.current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two bandits move to other keys, while the server and a member of before are killed, and the server of the
/// next keys too. No bandit is lost, none moves twice, the rotation opens no decision, the bandits decide as
/// their twins, and the device of a user goes on with the bundle that it has.
#[test]
fn a_rotation_goes_on_when_its_processes_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let [before, next] = committees(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (state, moved, next_state) = (path("state"), path("moved"), path("next-state"));
    let (public, next_public) = (before.path("public.bundle"), next.path("public.bundle"));
    let (mut of_server, address) = server(&["--keys", &public, "--state", &state], "127.0.0.1:0");
    let device = Arc::new(Device::open(&before.0.join("users.bundle"), &TOY).unwrap());
    let url = format!("http://{address}");
    let client = Client::new(&url).unwrap().with_token(device.token().clone());
    let members = [1, 2].map(|member| before.serve(member, &address, &[]));
    let mut bandits = [5, 6].map(|seed| Played::new(&client, seed));
    for round in 1..=3 {
        bandits.iter_mut().for_each(|bandit| bandit.play(&client, &device, round));
    }
    // A decision that waits for its reward, of a user with a copy of the bundle.
    let user = folder.path().join("user");
    std::fs::create_dir(&user).unwrap();
    private(&user.join("users.bundle"), &std::fs::read(before.path("users.bundle")).unwrap());
    std::fs::write(user.join("rows.csv"), "0.1,0.2\n0.3,0.1\n").unwrap();
    let decide =
        ["decide", "--server", &url, "--bandit", &bandits[0].id, "--contexts", "rows.csv", "--pending"];
    let decide =
        |pending: &str| helba_client(&user, &decide.iter().copied().chain([pending]).collect::<Vec<_>>());
    let out = decide("waits");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let counted: Vec<u64> = bandits.iter().map(|bandit| settle(&client, &bandit.id).feedbacks).collect();
    drop(members);
    drop(of_server);
    let opened = [1, 2].map(|member| before.opened(member));
    assert!(opened.iter().all(|opened| *opened > 0));

    // The server is killed when a bandit has moved, and then a member.
    let rotate = ["--keys", &public, "--state", &state, "--rotate", &next_public, "--rotated", &moved];
    let to = ["--next", &next_public[..]];
    of_server = server(&rotate, &address).0;
    let mut first = before.serve(1, &address, &to);
    let second = before.serve(2, &address, &to);
    let file = |id: &str| Path::new(&moved).join(format!("{id}.rotated"));
    let there = || -> Vec<PathBuf> {
        bandits.iter().map(|bandit| file(&bandit.id)).filter(|file| file.exists()).collect()
    };
    until("the first bandit", || (!there().is_empty()).then_some(()));
    drop(of_server);
    let (done, all) = (there(), bandits.len());
    let bytes: Vec<Vec<u8>> = done.iter().map(|file| std::fs::read(file).unwrap()).collect();
    eprintln!("killed with {} of {all} bandits moved", done.len());
    of_server = server(&rotate, &address).0;
    drop(first);
    first = before.serve(1, &address, &to);
    let ended = until("the rotation", || of_server.0.try_wait().unwrap());
    assert!(ended.success(), "the server ends when all have moved");
    assert_eq!(there().len(), all);
    for (file, bytes) in done.iter().zip(&bytes) {
        assert!(std::fs::read(file).unwrap() == *bytes, "what had moved stays");
    }
    drop((first, second));
    assert_eq!([1, 2].map(|member| before.opened(member)), opened, "a rotation opens no decision");

    // The next server is killed while it takes them, and takes the rest.
    let users = next.path("users.bundle");
    let take = ["--keys", &next_public, "--state", &next_state, "--rotated", &moved, "--users", &users];
    let mut taking = Command::new(program("helba-server", "helba-server"));
    taking.args(["--toy", "--listen", &address]).args(take).stdout(Stdio::null());
    let taking = Killed(taking.spawn().unwrap());
    until("the state folder", || Path::new(&next_state).join("encrypted").exists().then_some(()));
    drop(taking);
    let (_of_server, address) = server(&take, &address);
    let _members = [1, 3].map(|member| next.serve(member, &address, &[]));

    let out = decide("next");
    let said = text(&out.stderr);
    assert!(out.status.success() && said.contains("the bandits went on under key"), "{said}");
    let feedback =
        |pending: &str| helba_client(&user, &["feedback", "--pending", pending, "--reward", "0.5"]);
    let out = feedback("waits");
    let said = text(&out.stderr);
    assert!(!out.status.success() && said.contains("takes no feedback any more"), "{said}");
    let successor = client.successor(&device).unwrap().expect("a rotation");
    let device = Arc::new(device.followed_by(&successor).unwrap());
    let client = Client::new(&url).unwrap().with_token(device.token().clone());
    assert_eq!(client.bandits().unwrap().len(), all, "no bandit is lost, and none is there twice");
    for (bandit, counted) in bandits.iter_mut().zip(counted) {
        assert_eq!(client.encrypted(&bandit.id).unwrap().status.feedbacks, counted);
        (4..=5).for_each(|round| bandit.play(&client, &device, round));
    }
    // The program opens its bundle with the next keys from now on, and says so once.
    let out = feedback("next");
    let said = text(&out.stderr);
    assert!(out.status.success() && !said.contains("went on under key"), "{said}");
}
