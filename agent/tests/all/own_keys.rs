//! An agent of a user with a key of its own.

use crate::fixture::*;
use protocol::{Shape, Updates, UserKeys};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;
use user_client::{Client, Device, Raiser, RaiserOptions, Stop};
use wire::{EnrolmentRequest, PublicBundle, SecretBundle};

/// The program with the secret and the bundle of two users of this folder, whose other arguments are given.
fn program(server: &Server, folder: &Path, [secret, user]: [&str; 2]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_helba-agent"));
    program.args(["--server", &server.url(), "--toy", "--listen", "127.0.0.1:0", "--state", secret]);
    program.args(["--secret", &format!("{secret}.secret"), "--user", &format!("{user}.user")]);
    program.current_dir(folder);
    program
}

/// Applications of an enrolled user decide and return feedback beside the owner's raiser, and do nothing
/// else; the bundle of another user is refused.
#[test]
fn an_enrolled_user_plays_through_the_program() {
    let request = keygen::Request {
        keys: UserKeys::Own,
        shape: Shape::for_problem(D, K),
        security: keygen::Security::None,
        width: Default::default(),
        exchanges: Default::default(),
        updates: Updates::Products,
        created: 0,
    };
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    keygen::generate(request, &mut public, &mut secret, &mut rng(11), |_, _| ()).unwrap();
    let folder = folder();
    let server = Server::start_with("127.0.0.1:0", folder.path(), &public);
    let bundle = SecretBundle::read(&secret[..]).unwrap();
    let owner = keygen::Owner::new(&bundle, PublicBundle::read(&public[..]).unwrap()).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for name in ["alice", "bob"] {
        let file = |what: &str| folder.path().join(format!("{name}.{what}"));
        user_client::create_user(&file("secret"), &file("request"), &mut rng(12 + name.len() as u64))
            .unwrap();
        let request: EnrolmentRequest =
            serde_json::from_slice(&std::fs::read(file("request")).unwrap()).unwrap();
        let user =
            owner.enrol(&request, name, [now, now + 3600], &mut user_client::os_rng().unwrap()).unwrap();
        keygen::create_user_bundle(&file("user"), &user).unwrap();
    }

    let device = Device::read(&secret[..]).unwrap();
    let client = Client::new(&server.url()).unwrap().with_device(&device);
    let id = client.create_encrypted(&config()).unwrap().id;
    let stop = Stop::default();
    let raiser = Raiser::new(client, device, RaiserOptions::default(), stop.clone(), rng(8), |_| ());
    let raiser = std::thread::spawn(move || raiser.run());

    let mut child = program(&server, folder.path(), ["alice", "alice"]);
    let mut child = Ended(child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split([' ', ';']).nth(2).unwrap();
    let token = wire::AccessToken::open(&folder.path().join("alice").join("agent.token")).unwrap();
    let app = Http::new(format!("http://{address}"), Some(token));
    let rows = random_rows(&mut rng(1));
    wait_for("the raiser answers", || app.decide(&id, &rows).0 == 200);
    for round in 0..12 {
        let rows = random_rows(&mut rng(round));
        let decided = app.decided(&id, &rows);
        let counted = app.counted(&id, &decided.decision, reward(&rows[decided.arm.unwrap()]));
        assert_eq!(counted.feedbacks, round + 1);
    }
    let config = serde_json::to_value(config()).unwrap();
    // The server refuses it (403), which the agent passes on.
    for answer in [app.post("/bandits", &config), app.delete(&id)] {
        let refused = String::from_utf8(answer.2.clone()).unwrap();
        assert!(answer.problem().0 == 502 && refused.contains("403"), "{refused}");
    }
    app.decided(&id, &rows);
    // Nothing has ended the program, as a raiser without the scope would.
    assert!(child.0.try_wait().unwrap().is_none());

    let out = program(&server, folder.path(), ["bob", "alice"]).output().unwrap();
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success() && text.contains("enrolled another user"), "{text}");
    stop.stop();
    raiser.join().unwrap().unwrap();
}

/// A process that ends with its test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
