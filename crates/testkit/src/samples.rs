//! Valid messages and bundles, the same in every run.

use ckks::{KeyId, Params, ParamsSpec, PublicKey, TOY_LOGN11_SCORES, TOY_LOGN12_DEPTH21};
use ckks_secret::SecretKey;
use protocol::{DecisionId, RefreshId, ScoreRing, Shape};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use wire::{
    AccessToken, AnswersManifest, BundleKind, BundleWriter, DecideReply, FeedbackRequest, Manifest,
    ScoresManifest, SecretBundle,
};

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

/// The bytes of a public and a secret bundle of toy keys. The public one has the public keys of both rings
/// and no evaluation key, so that it is refused only when its keys are checked for completeness.
///
/// # Panics
/// Never: the parameters are valid, and vectors can be written.
pub fn bundles() -> (Vec<u8>, Vec<u8>) {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let (params, secret, public, id) = key_pair(TOY_LOGN12_DEPTH21, &mut rng);
    let (small, small_secret, small_public, small_id) = key_pair(TOY_LOGN11_SCORES, &mut rng);
    let token = AccessToken::generate(&mut rng);
    let shape = Shape::for_problem(2, 2);
    let ring = ScoreRing::for_shape(shape, true).expect("a ring of scores");
    let answers = ring.answers(params.spec()).validate().expect("a prefix of the set");
    let manifest = |frames| {
        let scores = ScoresManifest::new(&small, small_id, 1, AnswersManifest::new(&answers, 0));
        Manifest::new(&params, id, shape, 0, frames, token.digest(), Some(scores))
    };
    let mut writer = BundleWriter::new(BundleKind::Public, &manifest(1), Vec::new()).expect("a vector");
    writer.frame(&ckks::write_public_key(&params, &public)).expect("a vector");
    writer.frame(&ckks::write_public_key(&small, &small_public)).expect("a vector");
    let (frame, small_frame) = (secret.to_bytes(id), small_secret.to_bytes(small_id));
    let secret = SecretBundle::write(&manifest(2), &frame, Some(&small_frame), &token, Vec::new());
    (writer.finish().expect("two frames").0, secret.expect("a vector").0)
}

fn key_pair(spec: ParamsSpec, rng: &mut ChaCha20Rng) -> (Params, SecretKey, PublicKey, KeyId) {
    let params = spec.validate().expect("a toy set");
    let secret = SecretKey::generate(&params, rng);
    let public = ckks_secret::public_key(&secret, rng);
    let id = public.id(&params);
    (params, secret, public, id)
}
