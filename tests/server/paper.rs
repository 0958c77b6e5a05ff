//! Bandits of the paper's method over HTTP: rounds, what a task is worth once, and what is refused by name.

use crate::fixture::{InProcess, keys};
use bandit::LinearConfig;
use ckks::Plaintext;
use ckks_secret::SecretKey;
use helba::paper::PaperTwin;
use helba_server::Settings;
use num_complex::Complex64;
use protocol::paper::PAPER_SLOTS;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::sync::OnceLock;
use user_client::{Client, Error, PaperDevice};
use wire::{PaperAnswer, PaperCreated, PaperKeys, PaperReply, PaperSecret, ProblemType};

/// Toy keys of the paper's method: the public half, and the secret bundle.
fn paper_keys() -> &'static (PaperKeys, Vec<u8>) {
    static KEYS: OnceLock<(PaperKeys, Vec<u8>)> = OnceLock::new();
    KEYS.get_or_init(|| {
        let (mut public, mut secret) = (Vec::new(), Vec::new());
        let rng = &mut ChaCha20Rng::seed_from_u64(20);
        keygen::generate_paper((true, 0), &mut public, &mut secret, rng, |_, _| ()).unwrap();
        (PaperKeys::read(&public[..]).unwrap(), secret)
    })
}

fn settings() -> Settings {
    Settings { paper: Some(paper_keys().0.clone()), ..Settings::default() }
}

fn device() -> PaperDevice {
    PaperDevice::read(&paper_keys().1[..]).unwrap()
}

fn client(server: &InProcess, device: &PaperDevice) -> Client {
    Client::new(&format!("http://{}", server.address)).unwrap().with_token(device.token().clone())
}

/// Rewards divided by R are within ± 1; eta is large, so that the trace is opened.
fn linear() -> LinearConfig {
    let linear = LinearConfig::figure_1();
    let bound = linear.l * linear.s + 4.0 * linear.sigma;
    LinearConfig { s: linear.s / bound, sigma: linear.sigma / bound, ..linear }
}

const ROWS: [[[f64; 2]; 2]; 3] =
    [[[3.0, 1.0], [-2.0, 4.5]], [[1.0, -5.0], [0.5, 2.0]], [[-4.0, 1.0], [2.0, 2.5]]];

fn rows(round: usize) -> Vec<Vec<f64>> {
    ROWS[round % ROWS.len()].iter().map(|row| row.to_vec()).collect()
}

/// The code and the sentence of a refusal.
fn refusal(error: Error) -> (String, String) {
    match error {
        Error::Refused(problem) => (problem.reason.unwrap_or_default(), problem.detail),
        other => (String::new(), other.to_string()),
    }
}

/// The frame of a raised vector under another key of the same parameters.
fn of_another_key(frame: &[u8]) -> Vec<u8> {
    let params = device().params().clone();
    let rng = &mut ChaCha20Rng::seed_from_u64(23);
    let secret = SecretKey::generate(&params, rng);
    let id = ckks_secret::public_key(&secret, rng).id(&params);
    let slots = Plaintext::encode(&params, &[Complex64::ONE; PAPER_SLOTS], params.max_level()).unwrap();
    let other = ckks_secret::encrypt(&secret, &slots, rng).to_bytes(&secret, id);
    assert_eq!(other.len(), frame.len());
    other
}

/// Rounds over HTTP play the twin's arms with as many raises, and go on after a restart of the server.
#[test]
fn rounds_play_the_twins_arms_and_survive_a_restart() {
    let mut server = InProcess::start(settings());
    let (device, mut rng) = (device(), ChaCha20Rng::seed_from_u64(21));
    let mut twin = PaperTwin::new(linear(), device.params().max_level()).unwrap();
    let mut created: Option<PaperCreated> = None;
    for round in 0..3 {
        let client = client(&server, &device);
        device.check_manifest(&client.paper_keys().unwrap()).unwrap();
        let bandit = created.get_or_insert_with(|| client.create_paper(&linear()).unwrap());
        let rows = rows(round);
        let played = client.decide_paper(&device, bandit, &rows, &mut rng).unwrap();
        let entries = twin.decide(&rows).unwrap();
        assert_eq!(played.arm, usize::from(entries[1] > entries[0]));
        let feedback = device.feedback(bandit, &rows[played.arm], 0.25, &mut rng).unwrap();
        let id = played.decision.id;
        let receipt = client.feedback_encrypted(&bandit.id, id, &feedback).unwrap();
        assert_eq!(client.feedback_encrypted(&bandit.id, id, &feedback).unwrap(), receipt, "counts once");
        twin.learn(&rows[played.arm], 0.25).unwrap();
        let view = client.paper(&bandit.id).unwrap();
        assert_eq!(view.created, *bandit);
        let status = view.status;
        assert_eq!((status.round, status.feedbacks), (round as u64 + 1, round as u64 + 1));
        assert_eq!((status.raises, status.batches), (twin.raises(), twin.state().batches()));
        let listed = client.bandits().unwrap();
        assert!(listed.len() == 1 && listed[0]["method"] == "paper");
        server = server.restart_with(settings());
    }
}

/// An answer counts once. One of another kind, level or ring, and one to another task are refused, and the
/// task waits on. A new decision ends the one before.
#[test]
fn a_task_is_answered_once_and_by_what_it_asks() {
    let server = InProcess::start(settings());
    let (device, mut rng) = (device(), ChaCha20Rng::seed_from_u64(22));
    let client = client(&server, &device);
    let bandit = client.create_paper(&linear()).unwrap();
    let params = device.params();
    let post = |path: &str, body: &[u8]| {
        let reply = client.exchange(&format!("bandits/{}/{path}", bandit.id), body, 1 << 24, 60)?;
        PaperReply::read(&reply, params).map_err(Error::from)
    };
    let contexts = device.contexts(&bandit, &rows(0), &mut rng).unwrap();
    let PaperReply::Task { id, task, frame } = post("decisions", &contexts).unwrap() else { panic!() };
    let good = device.answer(id, task, &frame, &mut rng).unwrap();
    let raised = PaperAnswer::read(&good, params).unwrap().answer.unwrap();

    let another_task = PaperAnswer { id: id ^ 1, answer: Ok(raised.clone()) };
    let opened = PaperAnswer { id, answer: Err(5) };
    // The masked vector itself is of the level of raises, and not of the top.
    let low = PaperAnswer { id, answer: Ok(frame.clone()) };
    let of_other_key = PaperAnswer { id, answer: Ok(of_another_key(&raised)) };
    let code = |answer: &PaperAnswer| refusal(post("raises", &answer.to_bytes()).unwrap_err()).0;
    for (answer, kind) in [
        (&another_task, ProblemType::TaskOver),
        (&opened, ProblemType::Malformed),
        (&low, ProblemType::WrongLevel),
        (&of_other_key, ProblemType::WrongKey),
    ] {
        assert_eq!(code(answer), kind.reason());
    }
    let PaperReply::Task { id: next, .. } = post("raises", &good).unwrap() else { panic!() };
    assert_ne!(next, id);
    let again = refusal(post("raises", &good).unwrap_err()).0;
    assert_eq!(again, ProblemType::TaskOver.reason(), "a second answer");

    // Another decision ends this one.
    let PaperReply::Task { id: fresh, .. } = post("decisions", &contexts).unwrap() else { panic!() };
    let late = PaperAnswer { id: next, answer: Ok(raised) };
    assert_eq!(code(&late), ProblemType::TaskOver.reason());
    assert!(fresh != next && client.paper(&bandit.id).unwrap().status.round == 0);

    // What only other bandits have is refused by name.
    let (_, why) = refusal(client.fetch(&format!("bandits/{}/raises", bandit.id), 1 << 20, 5).unwrap_err());
    assert!(why.contains("method: paper"), "{why}");
    client.delete(&bandit.id).unwrap();
    assert!(client.bandits().unwrap().is_empty());
}

/// Each method is refused on the keys of the other, by name, and so are other problems.
#[test]
fn methods_and_keys_must_fit() {
    let (server, device) = (InProcess::start(settings()), device());
    let client = client(&server, &device);
    let (kind, why) = refusal(client.create_encrypted(&protocol::BanditConfig::new(2, 2)).unwrap_err());
    assert!(kind == ProblemType::NoKeys.reason() && why.contains("method: paper"), "{why}");
    let (_, why) = refusal(client.create_paper(&LinearConfig { d: 4, ..linear() }).unwrap_err());
    assert!(why.contains("features") && why.contains("toy problem"), "{why}");
    assert_eq!(server.state.bandits(), 0);

    let server = InProcess::start(Settings::default());
    let client = Client::new(&format!("http://{}", server.address)).unwrap();
    let client = client.with_token(keys().token().clone());
    let (kind, why) = refusal(client.create_paper(&linear()).unwrap_err());
    assert!(kind == ProblemType::NoKeys.reason() && why.contains("create --method paper"), "{why}");

    // The bundles are told apart.
    let (public, secret) = (std::fs::read(keys().public_file()).unwrap(), &paper_keys().1);
    assert!(PaperKeys::read(&public[..]).is_err());
    let refused = wire::SecretBundle::read(&secret[..]).err().unwrap().to_string();
    assert!(refused.contains("method: paper"), "{refused}");
    assert!(PaperKeys::read(&secret[..]).is_err() && PaperSecret::read(&public[..]).is_err());
}
