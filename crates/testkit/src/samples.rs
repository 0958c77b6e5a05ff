//! Valid messages and bundles, the same in every run.

use ckks::TOY_LOGN12_DEPTH21;
use ckks_secret::SecretKey;
use protocol::{DecisionId, RefreshId, Shape};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use wire::{AccessToken, BundleKind, BundleWriter, DecideReply, FeedbackRequest, Manifest, SecretBundle};

/// A reply with all parts. The parts are no ciphertexts.
pub fn reply() -> DecideReply {
    DecideReply {
        decision: DecisionId([1; 16]),
        round: 1,
        model_feedbacks: 0,
        seconds: vec![("score".into(), 0.5)],
        action: vec![1; 50],
        trace: Some(vec![2; 40]),
        refresh: Some((RefreshId(3), vec![3; 30])),
    }
}

/// A feedback with all parts. The parts are no ciphertexts.
pub fn request() -> FeedbackRequest {
    FeedbackRequest {
        statistics: vec![1; 50],
        trace: vec![2; 40],
        trace_answer: Some(true),
        refreshed: Some((RefreshId(3), vec![3; 30])),
    }
}

/// The bytes of a public and a secret bundle of toy keys. The public one has a public key and no evaluation
/// key, so that it is refused only when its keys are checked for completeness.
///
/// # Panics
/// Never: the parameters are valid, and vectors can be written.
pub fn bundles() -> (Vec<u8>, Vec<u8>) {
    let params = TOY_LOGN12_DEPTH21.validate().expect("a toy set");
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let secret = SecretKey::generate(&params, &mut rng);
    let public = ckks_secret::public_key(&secret, &mut rng);
    let (id, token) = (public.id(&params), AccessToken::generate(&mut rng));
    let manifest = Manifest::new(&params, id, Shape::for_problem(2, 2), 0, 1, token.digest());
    let mut writer = BundleWriter::new(BundleKind::Public, &manifest, Vec::new()).expect("a vector");
    writer.frame(&ckks::write_public_key(&params, &public)).expect("a vector");
    let two = Manifest { frames: 2, ..manifest };
    let secret = SecretBundle::write(&two, &secret.to_bytes(id), &token, Vec::new()).expect("a vector");
    (writer.finish().expect("one frame").0, secret.0)
}
