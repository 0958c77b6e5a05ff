//! The sum on ciphertexts between parties: what comes out, what each of them sees, what is refused.

use bandit::distributed::Model;
use privacy::Ratio;
use privacy::source::Words;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use secure_sum::encrypted::{Adder, SUM_BYTES, Server, SumRing, encrypt};
use secure_sum::local::{Process, Relay};
use secure_sum::{Batch, BatchId, Error, Party, Plan, http};
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;
use wire::AccessToken;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sum-authority");

fn party(address: std::net::SocketAddr) -> Party {
    Party::new(format!("http://{address}")).unwrap()
}

/// The bodies of requests or answers that passed; heads are dropped.
fn bodies(mut passed: &[u8]) -> Vec<Vec<u8>> {
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
fn refused<T: Debug>(result: Result<T, Error>, reason: &str) {
    match result {
        Err(Error::Refused { problem, .. }) if problem.reason.as_deref() == Some(reason) => {}
        other => panic!("{other:?} in place of {reason}"),
    }
}

/// Forty users of whom four drop out; users, server and authority talk over relays that record every byte.
/// The server gets ciphertexts and one opened sum; the authority one ciphertext, which none of the users
/// sent; nobody a value, nor the sum without its noise.
#[test]
fn views_hold_ciphertexts_and_one_noised_sum() {
    let process = Process::start(Path::new(PROGRAM), &["--listen", "127.0.0.1:0"]).unwrap();
    let to_authority = Relay::start(process.address()).unwrap();
    let authority = party(to_authority.address());
    let ring = SumRing::for_users(40).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let to_server = Relay::start(listener.local_addr().unwrap()).unwrap();
    let routes = http::adder(Server::new(2, Duration::from_secs(3600)), authority.clone(), None).unwrap();
    runtime.spawn(async move { axum::serve(listener, routes).await });
    let server = party(to_server.address());

    let mut rng = ChaCha20Rng::seed_from_u64(41);
    let plan = Plan {
        model: Model::Pure,
        epsilon: Ratio::ONE,
        invited: 40,
        missing: Ratio::new(1, 10).unwrap(),
        colluding: Ratio::ZERO,
        confidence: 0.1,
        horizon: 100,
    };
    let batch = Batch::new(&plan).unwrap();
    let id = batch.id(7);
    refused(party(process.address()).key(id), "not_announced");
    refused(server.value(id, &[0; 16], &vec![0; ring.value_bytes()]), "not_announced");
    server.announce(id).unwrap();
    server.announce(id).unwrap();
    let (key, _) = party(process.address()).key(id).unwrap();
    let (mut steps, mut values, mut total, mut sent) = (0, Vec::new(), 0, Vec::new());
    for user in 0..36u64 {
        if user == 35 {
            refused(server.opened(id), "too_few");
        }
        let step = i128::from(batch.mechanism().encode(f64::from(user % 3 == 0), &mut rng).unwrap());
        let value = step + batch.mechanism().noise(&mut rng).unwrap();
        (steps, total) = (steps + step, total + value);
        values.push(value);
        let ciphertext = encrypt(ring, &key, value, &mut rng).unwrap();
        let name: [u8; 16] = std::array::from_fn(|_| rng.word() as u8);
        server.value(id, &name, &ciphertext).unwrap();
        // A retry changes nothing; another value under the name is refused.
        server.value(id, &name, &ciphertext).unwrap();
        let other = encrypt(ring, &key, 5, &mut rng).unwrap();
        refused(server.value(id, &name, &other), "duplicate");
        sent.push(ciphertext);
    }
    let sum = server.opened(id).unwrap();
    assert_eq!((sum.total, sum.users), (total, 36));
    assert_ne!(total, steps, "another seed: with this one all noise cancels");
    assert_eq!(server.opened(id).unwrap(), sum);
    refused(server.value(id, &[9; 16], &sent[0]), "closed");

    // The authority: one ciphertext, asked for twice, that no user sent; it answers total and number of
    // users.
    let view = to_authority.passed();
    let asked = bodies(&view.sent);
    // First the key is made.
    assert_eq!(asked.iter().map(Vec::len).collect::<Vec<_>>(), [0, ring.value_bytes(), ring.value_bytes()]);
    assert_eq!(asked[1], asked[2]);
    assert!(!sent.contains(&asked[1]));
    let answers = bodies(&view.answered);
    assert_eq!(answers[1..].iter().map(Vec::len).collect::<Vec<_>>(), [SUM_BYTES; 2]);
    // The server: names and ciphertexts of one length.
    let to_server = bodies(&to_server.passed().sent);
    let length = 16 + ring.value_bytes();
    assert!(to_server.iter().all(|b| b.is_empty() || b.len() == length));
    // In all that passed: no value, and no sum without its noise.
    let secret: Vec<i128> = values.into_iter().filter(|v| v.abs() > 1).chain([steps]).collect();
    for body in to_server.iter().chain(&asked).chain(&answers) {
        for window in body.windows(16) {
            assert!(!secret.contains(&i128::from_le_bytes(window.try_into().unwrap())), "in the clear");
        }
    }

    // A server that strays: another sum of the batch, a single user, too few, another key, no ciphertext.
    refused(authority.open(id, &sent[0]), "opened");
    refused(authority.key(id), "opened");
    let next = batch.id(8);
    refused(authority.open(next, &sent[0]), "not_announced");
    server.announce(next).unwrap();
    let (key, _) = authority.key(next).unwrap();
    let one = encrypt(ring, &key, 1, &mut rng).unwrap();
    refused(authority.open(next, &one), "too_few");
    refused(authority.open(BatchId { at_least: 1, ..next }, &one), "not_announced");
    refused(authority.open(next, &sent[0]), "bad_ciphertext");
    refused(server.value(next, &[1; 16], &sent[0]), "bad_ciphertext");
    for bad in [&[][..], &[7; 100], &one[1..]] {
        refused(authority.open(next, bad), "bad_ciphertext");
        refused(server.value(next, &[1; 16], bad), "bad_ciphertext");
    }
    refused(server.opened(next), "too_few");
    refused(authority.get("sums/8/1", 10), "unknown_path");
    // The server keeps two batches: of those the one that is closed makes room, and stays closed.
    server.announce(batch.id(9)).unwrap();
    refused(server.opened(id), "not_announced");
    refused(server.announce(batch.id(10)), "full");
}

/// The limit on keys, and the least number of users that the operator sets, hold against the adder, and
/// nobody but the adder can have keys made or sums opened.
#[test]
fn attack_strangers_cannot_use_up_the_keys() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("token");
    host::write_private(&file, "0123456789abcdef".repeat(4).as_bytes()).unwrap();
    let ring = SumRing::for_users(40).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(42);
    for guarded in [true, false] {
        let mut arguments = vec!["--listen", "127.0.0.1:0", "--at-least", "2", "--keys", "2"];
        if guarded {
            arguments.extend(["--token-file", file.to_str().unwrap()]);
        }
        let process = Process::start(Path::new(PROGRAM), &arguments).unwrap();
        let stranger = party(process.address());
        let adder = stranger.clone().with_token(Some(AccessToken::open(&file).unwrap()));
        let batch = |number| BatchId { number, at_least: 2 };
        for number in 100..102 {
            assert_eq!(stranger.make_key(batch(number)).is_err(), guarded);
        }
        if !guarded {
            refused(adder.make_key(batch(200)), "full");
            continue;
        }
        refused(stranger.make_key(batch(100)), "no_token");
        refused(adder.make_key(BatchId { number: 1, at_least: 1 }), "too_few");
        for number in 1..=5 {
            let (key, name) = adder.make_key(batch(number)).unwrap();
            // Users show nothing, and get the same.
            assert_eq!(stranger.key(batch(number)).unwrap().1, name);
            let mut sum = Adder::new(ring, name);
            for value in [-3, -4] {
                sum.add(&encrypt(ring, &key, value, &mut rng).unwrap()).unwrap();
            }
            refused(stranger.open(batch(number), &sum.to_bytes()), "no_token");
            let opened = adder.open(batch(number), &sum.to_bytes()).unwrap();
            assert_eq!((opened.total, opened.users), (-7, 2));
            assert_eq!(adder.open(batch(number), &sum.to_bytes()).unwrap(), opened);
        }
        for number in 6..8 {
            adder.make_key(batch(number)).unwrap();
        }
        refused(adder.make_key(batch(8)), "full");
    }
    // One user's value is no sum.
    for few in ["0", "1"] {
        let mut command = std::process::Command::new(PROGRAM);
        let output = command.args(["--at-least", few]).output().unwrap();
        assert!(
            !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("2.."),
            "{output:?}"
        );
    }
}
