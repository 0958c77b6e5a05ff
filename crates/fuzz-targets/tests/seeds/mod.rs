//! Valid inputs of every target, the same in every run.

use ckks::{FRAME_DIGEST_BYTES, GaloisElement, KeyId, Params, Plaintext};
use ckks_secret::{SEALED_MAGIC, SecretKey};
use committee::keygen::{Announcement, Contribution};
use fuzz_targets::{COEFFICIENTS, SPEC};
use num_complex::Complex64;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use secure_sum::{BatchId, Sum, encrypted};
use shares::talk::{Checkpoint, Poll, SignedPoll, to_bytes};
use shares::{Card, Feedback, Manifest, Proposal, Request, SignedManifest, Threshold};
use testkit::samples;
use wire::{AccessToken, AskAgain, DecideReply, SenderTag, ShownCounters, TracedFeedback};

/// The inputs of the target `name`.
pub(crate) fn seeds(name: &str) -> Vec<Vec<u8>> {
    match name {
        "ciphertext_frame" => ciphertexts(),
        "key_frame" => keys(),
        "secret_key_frame" => secret_keys(),
        "public_bundle" => vec![samples::bundles().public],
        "secret_bundle" => vec![samples::bundles().secret],
        "sealed_bundle" => sealed_bundles(),
        "access_token" => access_tokens(),
        "device_message" => device_messages(),
        "json_message" => json_messages(),
        "policy_request" => policy_requests(),
        "data_file" => data_files(),
        "sum_share" => sums(),
        "committee_message" => committee_messages(),
        other => panic!("no inputs for the target {other}"),
    }
}

/// The first rows of the files in `data/foreign`, after their schemas.
fn data_files() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/foreign");
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let seed = |(schema, file, bytes): (&str, &str, usize)| {
        let file = read(file);
        let end = file[..bytes].iter().rposition(|byte| *byte == b'\n').unwrap();
        [&read(schema), &b"\0"[..], &file[..=end]].concat()
    };
    let files = [
        ("cars.toml", "cars.csv", 4000),
        ("ratings.toml", "ratings.csv", 2000),
        ("logged.toml", "logged.json", 4000),
    ];
    files.into_iter().map(seed).collect()
}

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(1)
}

/// The key pair whose id the targets expect.
fn key() -> (Params, SecretKey, ckks::PublicKey, KeyId, ChaCha20Rng) {
    let (params, mut rng) = (SPEC.validate().unwrap(), rng());
    let secret = SecretKey::generate(&params, &mut rng);
    let public = ckks_secret::public_key(&secret, &mut rng);
    let id = public.id(&params);
    (params, secret, public, id, rng)
}

/// The frames, and the frames without the digest, which the targets append.
fn and_undigested(frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let bare: Vec<Vec<u8>> = frames.iter().map(|f| f[..f.len() - FRAME_DIGEST_BYTES].to_vec()).collect();
    frames.into_iter().chain(bare).collect()
}

fn ciphertexts() -> Vec<Vec<u8>> {
    let (params, secret, _, id, mut rng) = key();
    let mut frames = Vec::new();
    for level in 0..=params.max_level() {
        let message = Plaintext::encode(&params, &[Complex64::ONE], level).unwrap();
        let seeded = ckks_secret::encrypt(&secret, &message, &mut rng);
        frames.push(seeded.to_bytes(&secret, id));
        frames.push(seeded.to_partial_bytes(&secret, id, COEFFICIENTS));
        let whole = seeded.expand(&secret);
        frames.push(ckks::write_ciphertext(&params, id, &whole));
        frames.push(ckks::write_truncated_ciphertext(&params, id, &whole, COEFFICIENTS));
    }
    and_undigested(frames)
}

fn keys() -> Vec<Vec<u8>> {
    let (params, secret, public, id, mut rng) = key();
    let g = GaloisElement::rotation(&params, 1);
    let relin = ckks_secret::relin_key(&secret, 1, &mut rng);
    let galois = ckks_secret::galois_key(&secret, g, 0, &mut rng);
    // The switch of a ring to itself.
    let switch = ckks_secret::ring_switch_key(&secret, &secret, 0, &mut rng);
    and_undigested(vec![
        ckks::write_public_key(&params, &public),
        ckks::write_key_switch_key(&params, id, None, &relin),
        ckks::write_key_switch_key(&params, id, Some(g), &galois),
        ckks::write_ring_switch_key(&params, id, 0, &switch),
    ])
}

fn secret_keys() -> Vec<Vec<u8>> {
    let (_, secret, _, id, _) = key();
    and_undigested(vec![secret.to_bytes(id).to_vec()])
}

/// Headers of sealed bundles that cost little work, followed by bytes that do not authenticate.
fn sealed_bundles() -> Vec<Vec<u8>> {
    let sealed = |[memory, passes, lanes]: [u32; 3]| {
        let mut out = SEALED_MAGIC.to_vec();
        out.extend(1u16.to_le_bytes());
        [memory, passes, lanes].iter().for_each(|x| out.extend(x.to_le_bytes()));
        out.resize(120, 7);
        out
    };
    vec![sealed([64, 1, 1]), sealed([256, 2, 4]), sealed([0, 0, 0])]
}

fn access_tokens() -> Vec<Vec<u8>> {
    let token = AccessToken::generate(&mut rng());
    vec![
        token.as_bytes().to_vec(),
        token.to_hex().as_bytes().to_vec(),
        token.authorization().as_bytes().to_vec(),
    ]
}

fn device_messages() -> Vec<Vec<u8>> {
    let unanswered = TracedFeedback { answer: None, ..samples::feedback() };
    vec![
        samples::reply().to_bytes(),
        DecideReply::default().to_bytes(),
        samples::raises().to_bytes(),
        samples::feedback().to_bytes(),
        unanswered.to_bytes(),
        AskAgain { answers: 3 }.to_bytes(),
        ShownCounters { feedbacks: 100, sum: vec![1; 8] }.to_bytes(),
        samples::learn().to_bytes(),
        SenderTag([0x5a; 16]).to_string().into_bytes(),
    ]
}

fn json_messages() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"contexts": [[0.1, 0.2], [-0.3, 1e-9]]}"#,
        r#"{"reward": 0.5}"#,
        r#"{"rewards": [0.5, 1, -1]}"#,
        r#"{"sum": 12.25}"#,
        r#"{"share": 18446744073709551615}"#,
        r#"{"exchange": 1, "users": 2, "labels": [[1, 2, 3], [0], []]}"#,
        r#"{"type": "about:blank", "title": "Bad Request", "status": 400, "detail": "no", "reason": "range"}"#,
    ];
    let created = samples::created();
    let encrypted = [serde_json::to_vec(&created.config).unwrap(), serde_json::to_vec(&created).unwrap()];
    texts.into_iter().map(|text| text.as_bytes().to_vec()).chain(encrypted).collect()
}

fn policy_requests() -> Vec<Vec<u8>> {
    policies::cards().unwrap().iter().map(|card| card.example.to_string().into_bytes()).collect()
}

fn sums() -> Vec<Vec<u8>> {
    let batch = BatchId { number: 7, at_least: 3 };
    let reports = secure_sum::reports(batch, -5, &mut rng()).map(|report| report.to_bytes());
    let opened = encrypted::write_opened(&Sum { total: -5, users: 3 });
    vec![reports[0].to_vec(), reports.concat(), opened.to_vec()]
}

/// The cards of three members, a manifest without keys, and messages without numbers.
fn committee_messages() -> Vec<Vec<u8>> {
    let mut rng = rng();
    let card = |rng: &mut ChaCha20Rng| Card {
        sealing: envelope::SealingSecret::generate(rng).public(),
        signing: envelope::SigningSecret::generate(rng).public(),
    };
    let cards = (0..fuzz_targets::MEMBERS).map(|_| card(&mut rng)).collect();
    let threshold = Threshold::new(2, fuzz_targets::MEMBERS).unwrap();
    let proposal = Proposal { threshold, cards, follows: None, nonce: [1; 32] };
    let keys = || vec![[2; 32]; 3];
    let manifest = Manifest { proposal: proposal.clone(), subsets: keys(), pairs: keys() };
    let signatures = vec![vec![3; 64]; 3];
    let (time, nonce) = (1_800_000_000, [4; 32]);
    let poll = to_bytes(&Poll { time, nonce, after: 3, first: 5, said: vec![] }).unwrap();
    let (macs, numbers) = (vec![[5; 16]; 3], vec![6; 8]);
    let request = Request { session: [7; 32], nonce: [8; 16], numbers: numbers.clone(), macs: macs.clone() };
    let feedback = Feedback { decision: [9; 32], nonce: [8; 16], numbers, macs };
    vec![
        serde_json::to_vec(&proposal).unwrap(),
        proposal.to_bytes(),
        SignedManifest { manifest, signatures }.to_bytes(),
        to_bytes(&SignedPoll { poll: poll.clone(), signature: vec![3; 64] }).unwrap(),
        poll,
        to_bytes(&Checkpoint::first([1; 32])).unwrap(),
        request.to_bytes(),
        feedback.to_bytes(),
        to_bytes(&Contribution {
            member: 2,
            hashes: keys(),
            sealed: vec![vec![6; 8]; 2],
            signature: vec![3; 64],
        })
        .unwrap(),
        to_bytes(&Announcement { member: 2, seen: keys(), hashes: keys(), signature: vec![3; 64] }).unwrap(),
    ]
}
