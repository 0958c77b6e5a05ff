//! Valid inputs of every target, the same in every run.

use ckks::{FRAME_DIGEST_BYTES, GaloisElement, KeyId, Params, Plaintext};
use ckks_secret::{SEALED_MAGIC, SecretKey};
use fuzz_targets::{COEFFICIENTS, SPEC};
use helba_member::keygen::{Entry, Round, Slot};
use helba_member::serve::{Told, ToldBandit};
use num_complex::Complex64;
use protocol::budget::Budget;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use secure_sum::{BatchId, Sum, encrypted};
use testkit::samples;
use wire::{
    AccessToken, AskAgain, CheckEvidence, DecideReply, OpenedChecks, RotationEvidence, RotationShares,
    SenderTag, ShownCounters, SignedHead, TracedFeedback,
};

/// The inputs of the target `name`.
pub(crate) fn seeds(name: &str) -> Vec<Vec<u8>> {
    match name {
        "ciphertext_frame" => ciphertexts(),
        "key_frame" => keys(),
        "secret_key_frame" => secret_keys(),
        "public_bundle" => vec![samples::bundles().public],
        "secret_bundle" => {
            let samples::Bundles { secret, users, .. } = samples::bundles();
            vec![secret, users]
        }
        "sealed_bundle" => sealed_bundles(),
        "access_token" => access_tokens(),
        "device_message" => device_messages(),
        "json_message" => json_messages(),
        "policy_request" => policy_requests(),
        "data_file" => data_files(),
        "sum_share" => shares(),
        "keygen_message" => keygen_messages(),
        "resharing_deal" => resharing_deals(),
        "member_told" => told(),
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
        frames.push(ckks::write_polynomial(&params, id, level, whole.c1()));
    }
    frames.push(proven(&params, &secret, id));
    and_undigested(frames)
}

/// A ciphertext with a proof, under the id that the targets expect.
fn proven(params: &Params, secret: &SecretKey, id: KeyId) -> Vec<u8> {
    let key = ckks_secret::wide_public_key_from(secret, [5; 32], &mut rng());
    let (top, scale) = (params.max_level(), params.scale(params.max_level()));
    let message = Plaintext::from_integers(params, &[1], top, scale).unwrap();
    let mut frame = ckks::encrypt_proven(params, &key, &message, COEFFICIENTS, b"", &mut rng());
    frame[24..40].copy_from_slice(&id.0);
    let end = frame.len() - FRAME_DIGEST_BYTES;
    let digest = blake3::hash(&frame[..end]);
    frame[end..].copy_from_slice(digest.as_bytes());
    frame
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
    .into_iter()
    .chain(samples::committee())
    .collect()
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

fn shares() -> Vec<Vec<u8>> {
    let batch = BatchId { number: 7, at_least: 3 };
    let reports = secure_sum::reports(batch, -5, &mut rng()).map(|report| report.to_bytes());
    let opened = encrypted::write_opened(&Sum { total: -5, users: 3 });
    vec![reports[0].to_vec(), reports.concat(), opened.to_vec()]
}

/// The bytes of a deal of zeros.
fn zeros() -> usize {
    let slot = Slot { round: Round::Deal, number: 0, member: 1 };
    fuzz_targets::plan().most_bytes(slot) - envelope::SEALED_OVERHEAD
}

fn keygen_messages() -> Vec<Vec<u8>> {
    let signing = envelope::SigningSecret::generate(&mut rng());
    let slot = Slot { round: Round::Commit, number: 0, member: 2 };
    let entry = Entry::sign(&signing, fuzz_targets::plan().session(), slot, [1; 32], b"body").to_bytes();
    let opening = [&[7; 32][..], &3u16.to_le_bytes(), b"why", &entry].concat();
    let proposal = serde_json::to_vec(&fuzz_targets::proposal()).unwrap();
    vec![[entry, entry].concat(), opening, proposal, vec![0; zeros()]]
}

/// What a ledger tells with a bandit, and the record of its last task.
fn told_by_ledger() -> Told {
    let record = postcard::to_stdvec(&([5u8; 32], vec![[6u8; 32]])).unwrap();
    let bandit = ToldBandit {
        id: "b".repeat(32),
        pinned: Some([1; 32]),
        head: Some((9, [2; 32])),
        own: Some((4, [(0, record)].into())),
        evaluations: vec![(0, 1 << 63 | 7), (1, 1 << 63 | 7)],
    };
    Told {
        spent: Budget { decisions: 3, models: 2 },
        uploads: vec![([3; 32], 1 << 63 | 7)],
        bandits: vec![bandit],
    }
}

fn resharing_deals() -> Vec<Vec<u8>> {
    let told = postcard::to_stdvec(&told_by_ledger()).unwrap();
    // A deal of a key generation has two halves of 32 bytes more.
    vec![[vec![0; zeros() - 64], told].concat(), vec![8; 40]]
}

fn told() -> Vec<Vec<u8>> {
    let signing = envelope::SigningSecret::generate(&mut rng());
    let head = SignedHead::sign((2, &signing), fuzz_targets::plan().session(), "b", (1, 2), &[3; 32]);
    let opened =
        OpenedChecks { question: vec![1; 20], set: 0b11, shares: vec![(vec![2; 32], vec![3; 64]); 2] };
    let shares =
        RotationShares { hashes: vec![[4; 32]; 9], up: vec![vec![5; 30]; 3], signature: vec![6; 64] };
    let rotation = RotationEvidence {
        question: vec![1; 20],
        set: 0b11,
        c1: [vec![2; 40], vec![3; 40]],
        shares: vec![shares],
    };
    let check = CheckEvidence { frames: vec![vec![1; 50]; 2], opened: vec![opened.clone()] };
    let mut told = vec![
        head.to_bytes(),
        check.to_bytes(),
        opened.to_bytes(),
        rotation.to_bytes(),
        postcard::to_stdvec(&told_by_ledger()).unwrap(),
    ];
    for event in [
        helba::Event::Rounds(1024),
        helba::Event::Feedback { round: 3, frame: vec![1; 40] },
        helba::Event::Given(9),
        helba::Event::Skipped,
        helba::Event::Learnt { id: protocol::LearnId([5; 16]), first: 4, rounds: 2, frame: vec![3; 40] },
        helba::Event::Raised { task: 4, frame: vec![2; 40] },
        helba::Event::Checked { task: 4, dropped: Vec::new(), openings: vec![opened.to_bytes()] },
    ] {
        told.push(event.to_bytes().unwrap());
    }
    told
}
