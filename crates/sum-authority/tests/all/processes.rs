//! The sum on ciphertexts between parties: what comes out, what each of them sees, what is refused.

use bandit::distributed::Model;
use privacy::Ratio;
use privacy::source::Words;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use secure_sum::encrypted::{Adder, LOGN12_LOGQP105_SUM, SUM_BYTES, Server, encrypt, encrypted_bytes};
use secure_sum::local::{Process, Relay};
use secure_sum::{Batch, BatchId, Error, Party, Plan, http};
use std::fmt::Debug;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sum-authority");

fn party(address: std::net::SocketAddr) -> Party {
    Party::new(format!("http://{address}"))
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

/// Forty users of whom four drop out; users, server and authority talk over relays that record every byte. The server gets
/// ciphertexts and one opened sum; the authority one ciphertext, which none of the users sent; nobody a value, nor the
/// sum without its noise.
#[test]
fn views_hold_ciphertexts_and_one_noised_sum() {
    let process = Process::start(Path::new(PROGRAM), &["--listen", "127.0.0.1:0"]).unwrap();
    let to_authority = Relay::start(process.address()).unwrap();
    let authority = party(to_authority.address());
    let params = LOGN12_LOGQP105_SUM.validate().unwrap();
    let (key, key_id) = party(process.address()).key(&params).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let to_server = Relay::start(listener.local_addr().unwrap()).unwrap();
    let routes = http::adder(Server::new(&params, key_id, 4), authority.clone());
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
    let (mut steps, mut values, mut total, mut sent) = (0, Vec::new(), 0, Vec::new());
    for user in 0..36u64 {
        if user == 35 {
            refused(server.opened(id), "too_few");
        }
        let step = i128::from(batch.mechanism().encode(f64::from(user % 3 == 0), &mut rng).unwrap());
        let value = step + batch.mechanism().noise(&mut rng).unwrap();
        (steps, total) = (steps + step, total + value);
        values.push(value);
        let ciphertext = encrypt(&params, &key, value, &mut rng).unwrap();
        let name: [u8; 16] = std::array::from_fn(|_| rng.word() as u8);
        server.value(id, &name, &ciphertext).unwrap();
        // A retry changes nothing; another value under the name is refused.
        server.value(id, &name, &ciphertext).unwrap();
        let other = encrypt(&params, &key, 5, &mut rng).unwrap();
        refused(server.value(id, &name, &other), "duplicate");
        sent.push(ciphertext);
    }
    let sum = server.opened(id).unwrap();
    assert_eq!((sum.total, sum.users), (total, 36));
    assert_ne!(total, steps, "another seed: with this one all noise cancels");
    assert_eq!(server.opened(id).unwrap(), sum);
    refused(server.value(id, &[9; 16], &sent[0]), "closed");

    // The authority: one ciphertext, asked for twice, that no user sent; it answers total and number of users.
    let view = to_authority.passed();
    let asked = bodies(&view.sent);
    assert_eq!(asked.iter().map(Vec::len).collect::<Vec<_>>(), [encrypted_bytes(&params); 2]);
    assert_eq!(asked[0], asked[1]);
    assert!(!sent.contains(&asked[0]));
    let answers = bodies(&view.answered);
    assert_eq!(answers.iter().map(Vec::len).collect::<Vec<_>>(), [SUM_BYTES; 2]);
    // The server: names and ciphertexts of one length.
    let to_server = bodies(&to_server.passed().sent);
    let length = 16 + encrypted_bytes(&params);
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
    refused(authority.open(BatchId { number: 8, at_least: 1 }, &sent[0]), "too_few");
    refused(authority.open(BatchId { number: 8, at_least: 36 }, &sent[0]), "too_few");
    let stranger = sum_authority::Authority::generate(&mut rng).unwrap();
    let foreign = encrypt(&params, stranger.public_key(), 1, &mut rng).unwrap();
    refused(authority.open(BatchId { number: 8, at_least: 1 }, &foreign), "bad_ciphertext");
    refused(server.value(batch.id(8), &[1; 16], &foreign), "bad_ciphertext");
    for bad in [&[][..], &[7; 100], &sent[0][1..]] {
        refused(authority.open(BatchId { number: 8, at_least: 1 }, bad), "bad_ciphertext");
        refused(server.value(batch.id(8), &[1; 16], bad), "bad_ciphertext");
    }
    refused(server.opened(batch.id(8)), "not_closed");
    refused(authority.get("sums/8/1", 10), "unknown_path");
    // The server keeps four batches, of which garbage took none.
    for number in 10..13 {
        server.value(batch.id(number), &[1; 16], &sent[0]).unwrap();
    }
    refused(server.value(batch.id(13), &[1; 16], &sent[0]), "full");
}

/// The limit on sums, and the least number of users that the operator sets, hold against the server.
#[test]
fn the_operator_bounds_what_is_opened() {
    let process =
        Process::start(Path::new(PROGRAM), &["--listen", "127.0.0.1:0", "--at-least", "2", "--sums", "2"]);
    let authority = party(process.as_ref().unwrap().address());
    let params = LOGN12_LOGQP105_SUM.validate().unwrap();
    let (key, key_id) = authority.key(&params).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(42);
    let mut adder = Adder::new(&params, key_id);
    for value in [-3, -4] {
        adder.add(&encrypt(&params, &key, value, &mut rng).unwrap()).unwrap();
    }
    let two = adder.to_bytes();
    for number in 0..2 {
        let sum = authority.open(BatchId { number, at_least: 1 }, &two).unwrap();
        assert_eq!((sum.total, sum.users), (-7, 2));
    }
    refused(authority.open(BatchId { number: 2, at_least: 1 }, &two), "full");
    assert_eq!(authority.open(BatchId { number: 1, at_least: 1 }, &two).unwrap().total, -7);
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
