//! Rounds through the real routes.

use crate::fixture::*;
use helba_server::Settings;
use protocol::{BanditConfig, Receipt};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::time::{Duration, Instant};

/// The bandit learns which arm pays, through batch updates in the background and refreshes by the device.
#[test]
fn learns_over_http() {
    let server = InProcess::start(Settings::default());
    let (device, mut rng) = (server.device(), ChaCha20Rng::seed_from_u64(1));
    let created = device.create(&BanditConfig::new(D, K));
    let deadline = Instant::now() + Duration::from_secs(40);
    let mut counted = 0;
    while device.status(&created).refreshes < 2 {
        assert!(Instant::now() < deadline, "{:?}", device.status(&created));
        counted += 1;
        assert_eq!(device.round(&created, &mut rng).feedbacks, counted);
        device.wait_for_update(&created);
    }
    let status = device.status(&created);
    assert_eq!((status.round, status.feedbacks, status.pending_decisions), (counted, counted, 0));
    assert!(status.model_feedbacks > 0 && status.batches >= 2);
    let decision = device.decide(&created, &mut rng);
    assert_eq!(decision.arm, 0, "the arm that paid");
    let phases: Vec<&str> = decision.seconds.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((phases[0], *phases.last().unwrap()), ("parse", "write"));
    assert!(phases.contains(&"score") && phases.contains(&"store"), "{phases:?}");
    assert!(decision.seconds.iter().all(|(_, s)| (0.0..10.0).contains(s)));
}

/// Only the blobs that bandits name are kept.
#[test]
fn replaced_ciphertexts_are_removed() {
    let server = InProcess::start(Settings::default());
    let (device, mut rng) = (server.device(), ChaCha20Rng::seed_from_u64(2));
    let created = device.create(&every_round());
    assert_eq!(blobs(server.folder.path()).len(), 3, "model, statistics, trace");
    for _ in 0..4 {
        device.round(&created, &mut rng);
        device.wait_for_update(&created);
    }
    assert!(device.status(&created).refresh_due);
    assert_eq!(blobs(server.folder.path()).len(), 4, "and the masked model");
}

#[test]
fn repeated_feedback_counts_once() {
    let server = InProcess::start(Settings::default());
    let (device, mut rng) = (server.device(), ChaCha20Rng::seed_from_u64(3));
    let created = device.create(&BanditConfig::new(D, K));
    let decision = device.decide(&created, &mut rng);
    let request = device.answer(&created, &decision, 0, &mut rng);
    let first = device.feedback(&created, &decision, &request).ok();
    let status = device.status(&created);
    // A device that lost the answer encrypts anew: other bytes, the same decision.
    let request = device.answer(&created, &decision, 1, &mut rng);
    for _ in 0..2 {
        assert_eq!(device.feedback(&created, &decision, &request).ok(), first);
    }
    assert_eq!(device.status(&created), status);
    assert_eq!(serde_json::from_slice::<Receipt>(&first).unwrap().feedbacks, 1);
}

#[test]
fn documents() {
    let server = InProcess::start(Settings { max_bandits: 2, ..Settings::default() });
    let device = server.device();
    assert_eq!(device.get("/health").ok(), br#"{"status":"ok"}"#);
    let manifest: wire::Manifest = serde_json::from_slice(&device.get("/keys").ok()).unwrap();
    assert_eq!(manifest, keys().bundle.manifest);
    assert_eq!(device.get("/bandits").ok(), b"[]");
    let first = device.create(&BanditConfig::new(D, K));
    assert_eq!((first.key_id, first.fingerprint), (manifest.key_id, manifest.fingerprint));
    device.create(&every_round());
    let list: Vec<wire::Created> = serde_json::from_slice(&device.get("/bandits").ok()).unwrap();
    assert_eq!(list.len(), 2);
    let config = serde_json::to_vec(&BanditConfig::new(D, K)).unwrap();
    let problem = device.post("/bandits", &config).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (507, Some("too_many_bandits")));
}
