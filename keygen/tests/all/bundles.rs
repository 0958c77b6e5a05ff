//! Bundles made here are what servers and devices read, and no slip loses or shows a key.

use ckks_secret::SecretKey;
use keygen::{Error, Request, Security, Summary, create_files, generate};
use protocol::levels::PRODUCTS_LEVEL;
use protocol::{Exchanging, ScoreRing, Shape, Updates, WidthShape};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::path::Path;
use std::process::{Command, Output};
use wire::{
    AccessToken, BundleKind, BundleReader, BundleWriter, DecisionsManifest, Manifest, PublicBundle,
    ScoreKeys, ScoresManifest, SecretBundle,
};

fn request() -> Request {
    Request {
        keys: Default::default(),
        shape: Shape::for_problem(2, 2),
        security: Security::None,
        width: Default::default(),
        exchanges: Default::default(),
        updates: Default::default(),
        created: 1_700_000_000,
    }
}

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Both bundles of one key pair, in memory.
fn bundles(seed: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    generate(request(), &mut public, &mut secret, &mut rng(seed), |_, _| {}).unwrap();
    (public, secret)
}

/// A server and a device read keys for 192 and 256 bits, whose rings are stated in the manifest.
#[test]
#[ignore = "long: keys at N = 2^16, half a minute"]
fn bundles_for_more_bits_are_read() {
    for security in [Security::Classical192, Security::Classical256] {
        let (mut public, mut secret) = (Vec::new(), Vec::new());
        // 16 arms have another set for each level, and two the same.
        for k in [2, 16] {
            public.clear();
            secret.clear();
            let request = Request {
                keys: Default::default(),
                shape: Shape::for_problem(2, k),
                security,
                width: Default::default(),
                exchanges: Default::default(),
                updates: Default::default(),
                created: 0,
            };
            generate(request, &mut public, &mut secret, &mut rng(3), |_, _| {}).unwrap();
            let read = PublicBundle::read(&public[..]).unwrap();
            assert!(read.manifest.ring.security_bits >= security.bits() && read.params.n() == 1 << 16);
            assert_eq!((read.manifest.scores.ring.security_bits, read.scores.params.n()), (256, 1 << 14));
            let secret = SecretBundle::read(&secret[..]).unwrap();
            assert_eq!(secret.params.fingerprint(), read.params.fingerprint());
        }
    }
}

#[test]
fn bundles_are_read_as_they_were_written() {
    let (public, secret) = bundles(1);
    let read = PublicBundle::read(&public[..]).unwrap();

    let bundle = SecretBundle::read(&secret[..]).unwrap();
    let (deep, id) = SecretKey::from_bytes(&bundle.params, &bundle.frame).unwrap();
    assert_eq!(id, read.key_id);
    assert_eq!(*deep.to_bytes(id), *bundle.frame);
    // Both halves name the same token, and the public one does not hold it.
    assert!(bundle.token.digest() == read.manifest.token_digest);
    assert!(memchr::memmem::find(&public, bundle.token.as_bytes()).is_none());
    assert!(memchr::memmem::find(&public, bundle.token.to_hex().as_bytes()).is_none());

    let PublicBundle { manifest, params, public_key, key_id, keys, decisions, scores } = read;
    // The ring of evaluations has a key pair of its own.
    let (own, stated) = (bundle.decisions.unwrap(), manifest.decisions.clone().unwrap());
    let (own, own_id) = SecretKey::from_bytes(&own.params, &own.frame).unwrap();
    let decisions = decisions.unwrap();
    assert!(own_id == decisions.key_id && own_id != id && stated.frames == 2);
    assert_eq!(decisions.evaluator.params().fingerprint(), own.params().fingerprint());

    // The ring of scores has a key pair of its own, and what packing needs.
    let secret = bundle.scores;
    let (secret, small_id) = SecretKey::from_bytes(&secret.params, &secret.frame).unwrap();
    assert_eq!(small_id, scores.key_id);
    assert!(small_id != id && scores.public_key.id(&scores.params) == small_id);
    assert_eq!(Ok(scores.ring), ScoreRing::for_shape(request().shape, true));
    assert_eq!((&scores.params, scores.ring.gap), (secret.params(), 512));
    let stated = manifest.scores;
    assert_eq!((scores.keys.galois.len(), stated.frames), (9, 11));
    // Answers take two keys of the ring switch, and one rotation.
    let switch = scores.switch.as_ref().unwrap();
    assert_eq!((switch.parts(), switch.small().keys().galois.len()), (2, 1));
    assert_eq!(stated.answers.frames, 3);
    switching_works(&scores, &own, &secret);
    packing_works(&scores, &secret);

    let engine = helba::DeepEngine::new(params, public_key, key_id, manifest.shape, keys).unwrap();
    assert_eq!((engine.key_id(), engine.shape()), (id, request().shape));
}

/// A number in every slot, encrypted in the large ring, is in every slot of the first part.
fn switching_works(scores: &ScoreKeys, deep: &SecretKey, secret: &SecretKey) {
    let message = ckks::Plaintext::encode(deep.params(), &[0.75.into()], PRODUCTS_LEVEL).unwrap();
    let encrypted = ckks_secret::encrypt(deep, &message, &mut rng(9)).expand(deep);
    let switch = scores.switch.as_ref().unwrap();
    let parts = switch.split(&encrypted).unwrap();
    let secret = secret.under(switch.small().params());
    for (part, want) in parts.iter().zip([0.75, 0.0]) {
        let slot = ckks_secret::decrypt(&secret, part, 1).with(|slots| slots[0]);
        assert!((slot - want).norm() < 1e-5, "{slot} for {want}");
    }
}

/// Two ciphertexts of one number each, multiplied by 1 and packed: both numbers come out.
fn packing_works(scores: &ScoreKeys, secret: &SecretKey) {
    let ScoreKeys { ring, params, public_key, keys, .. } = scores;
    let (evaluator, level, mut rng) =
        (ckks::Evaluator::new(params.clone(), keys.clone()), params.max_level(), rng(4));
    let scale = params.scale(level);
    let mut encrypt = |value: f64| {
        let coefficient = (value * scale) as i64;
        let plain = ckks::Plaintext::from_integers(params, &[coefficient], level, scale).unwrap();
        ckks::encrypt(params, public_key, &plain, &mut rng)
    };
    let mut one = encrypt(1.0);
    evaluator.divide_exactly_assign(&mut one, ring.gap.ilog2());
    let mut packer = ckks::Packer::new(&evaluator, ring.gap, level, scale * scale).unwrap();
    let positions = [0.5, -0.25]
        .map(|value| (value, packer.push(evaluator.mul_undivided(&encrypt(value), &one).unwrap()).unwrap()));
    let packed = packer.finish().unwrap();
    // A polynomial with these two coefficients.
    let mut coefficients = vec![0i64; params.n()];
    positions.iter().for_each(|&(value, at)| coefficients[at] = (value * scale * scale) as i64);
    let wanted = ckks::Plaintext::from_integers(params, &coefficients, level, scale * scale).unwrap();
    let mut rest = packed;
    evaluator.sub_assign(&mut rest, &ckks::encrypt(params, public_key, &wanted, &mut rng)).unwrap();
    ckks_secret::decrypt(secret, &rest, params.max_slots()).with(|slots| {
        let worst = slots.iter().map(|z| z.norm()).fold(0.0, f64::max);
        assert!(worst < 0.01, "{worst}");
    });
}

/// What is encrypted under the public bundle can be read with the secret one, and not with another.
#[test]
fn the_halves_belong_together() {
    let [ours, other] = [1, 2].map(bundles);
    let public = PublicBundle::read(&ours.0[..]).unwrap();
    let message: Vec<_> = (0..8).map(|i| f64::from(i).into()).collect();
    let plain = ckks::Plaintext::encode(&public.params, &message, 3).unwrap();
    let ct = ckks::encrypt(&public.params, &public.public_key, &plain, &mut rng(3));
    let bits = |bytes: &[u8]| {
        let bundle = SecretBundle::read(bytes).unwrap();
        let (secret, _) = SecretKey::from_bytes(&bundle.params, &bundle.frame).unwrap();
        ckks_secret::measure(&secret, &ct, &message).worst_bits
    };
    assert!(bits(&ours.1) > 12.0);
    assert!(bits(&other.1) < 0.0);
}

#[test]
fn one_half_is_not_taken_for_the_other() {
    let (public, secret) = bundles(1);
    let Err(wire::Error::WrongBundle { want: BundleKind::Public }) = PublicBundle::read(&secret[..]) else {
        panic!("a secret bundle was taken for a public one");
    };
    let Err(wire::Error::WrongBundle { want: BundleKind::Secret }) = SecretBundle::read(&public[..]) else {
        panic!("a public bundle was taken for a secret one");
    };
}

/// The frames of a bundle.
fn frames(bundle: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = BundleReader::new(bundle).unwrap();
    let (mut frames, mut frame) = (Vec::new(), Vec::new());
    while reader.next_frame(1 << 30, &mut frame).unwrap() {
        frames.push(frame.clone());
    }
    frames
}

/// A bundle again, with frames and manifest changed.
fn rewritten(public: &[u8], change: impl Fn(&mut Manifest, &mut Vec<Vec<u8>>)) -> Vec<u8> {
    let mut manifest = BundleReader::new(public).unwrap().manifest().clone();
    let mut frames = frames(public);
    change(&mut manifest, &mut frames);
    manifest.frames = frames.len() as u32;
    let mut writer = BundleWriter::new(BundleKind::Public, &manifest, Vec::new()).unwrap();
    frames.iter().for_each(|f| writer.frame(f).unwrap());
    writer.finish().unwrap().0
}

#[test]
fn contradictions_in_a_bundle_are_refused() {
    let [(ours, _), (other, _)] = [1, 2].map(bundles);
    let read = |change: &dyn Fn(&mut Manifest, &mut Vec<Vec<u8>>)| {
        PublicBundle::read(&rewritten(&ours, change)[..]).map(drop)
    };
    read(&|_, _| {}).unwrap();

    let field = |change: &dyn Fn(&mut Manifest), name: &str| match read(&|m, _| change(m)) {
        Err(wire::Error::Manifest { field, .. }) => assert_eq!(field, name),
        other => panic!("{name}: {other:?}"),
    };
    let unknown = read(&|m, _| m.ring.params = "none".into());
    assert!(matches!(&unknown, Err(wire::Error::UnknownParams { got, .. }) if got == "none"), "{unknown:?}");
    field(&|m| m.ring.params = "toy-logn14-depth22".into(), "fingerprint");
    field(&|m| m.ring.fingerprint = "00".into(), "fingerprint");
    field(&|m| m.ring.key_id = "00".into(), "key_id");
    field(&|m| m.ring.security_bits = 128, "security_bits");
    field(&|m| m.ring.log2_qp = 100.0, "log2_qp");
    // A shape that this set of parameters is not for.
    field(&|m| m.shape = Shape::for_problem(16, 16), "params");
    let scores = |change: fn(&mut ScoresManifest), name: &str| {
        field(&|m| change(&mut m.scores), &format!("scores{name}"));
    };
    scores(|m| m.ring.fingerprint = "00".into(), ".fingerprint");
    scores(|m| m.ring.key_id = "00".into(), ".key_id");
    scores(|m| m.ring.security_bits = 128, ".security_bits");
    scores(|m| m.ring.log2_qp = f64::from(f32::MAX), ".log2_qp");
    // The ring with security is not beside a large ring without it, and a large set is none of scores.
    scores(|m| m.ring.params = "logn13-logqp147-scores".into(), "");
    scores(|m| m.ring.params = "toy-logn12-depth21".into(), "");
    scores(|m| m.frames = 1000, ".frames");
    scores(|m| m.frames = u32::MAX, ".frames");
    scores(|m| m.answers.frames = 1000, ".frames");
    scores(|m| m.answers.fingerprint = "00".into(), ".answers.fingerprint");
    scores(|m| m.answers.log2_qp += 1.0, ".answers.log2_qp");

    let decisions = |change: fn(&mut DecisionsManifest), name: &str| {
        field(&|m| change(m.decisions.as_mut().unwrap()), &format!("decisions{name}"));
    };
    decisions(|m| m.ring.fingerprint = "00".into(), ".fingerprint");
    decisions(|m| m.ring.key_id = "00".into(), ".key_id");
    decisions(|m| m.ring.security_bits = 128, ".security_bits");
    decisions(|m| m.ring.log2_qp += 1.0, ".log2_qp");
    // The set with security is not beside a large ring without it, and no ring is left out.
    decisions(|m| m.ring.params = "logn14-logqp409-depth11".into(), ".params");
    decisions(|m| m.ring.params = "toy-logn12-depth21".into(), ".params");
    field(&|m| m.decisions = None, "decisions.params");

    let missing = |r| matches!(r, Err(wire::Error::MissingKey { .. }));
    let last = frames(&ours).len() - 3 - 11;
    assert!(missing(read(&|m, frames| {
        // The relinearisation key of evaluations.
        frames.remove(last - 1);
        m.decisions.as_mut().unwrap().frames = 1;
    })));
    for frame in 1..4 {
        assert!(missing(read(&|_, frames| drop(frames.remove(frame)))));
    }
    let twice = read(&|_, frames| frames.insert(2, frames[1].clone()));
    assert!(matches!(twice, Err(wire::Error::Malformed(_))), "{twice:?}");
    // A relinearisation key under another secret.
    let wrong_key = |r: Result<(), wire::Error>| match r {
        Err(wire::Error::Ckks(ckks::Error::WrongKey { .. })) => (),
        other => panic!("{other:?}"),
    };
    let others = frames(&other);
    wrong_key(read(&|_, frames| frames[1].clone_from(&others[1])));
}

/// The frames of the ring of scores: all of them, each once, under its own key id, and none of the other
/// ring.
#[test]
fn contradictions_in_the_ring_of_scores_are_refused() {
    let [(ours, _), (other, _)] = [1, 2].map(bundles);
    let bundle = PublicBundle::read(&ours[..]).unwrap();
    let (whole, others) = (frames(&ours), frames(&other));
    let stated = &bundle.manifest.scores;
    let (count, of_answers) = (stated.frames as usize, stated.answers.frames as usize);
    let end = whole.len() - of_answers;
    let first = end - count;
    let read = |change: &dyn Fn(&mut Manifest, &mut Vec<Vec<u8>>)| {
        PublicBundle::read(&rewritten(&ours, change)[..]).map(drop)
    };
    let of_scores = |m: &mut Manifest, count: usize| m.scores.frames = count as u32;

    // Each evaluation key of the ring is needed: the relinearisation key, and one a stage of packing.
    for frame in first + 1..end {
        let r = read(&|m, frames| {
            frames.remove(frame);
            of_scores(m, count - 1);
        });
        assert!(matches!(r, Err(wire::Error::MissingKey { level: 1, .. })), "{r:?}");
    }
    for frame in [first + 1, end - 1] {
        let r = read(&|m, frames| {
            frames.insert(end, frames[frame].clone());
            of_scores(m, count + 1);
        });
        assert!(matches!(r, Err(wire::Error::Malformed(_))), "{r:?}");
    }
    // A frame more than the manifest counts for this ring, at the start of it or at its end, and one less.
    let out_of_place = |r: Result<(), wire::Error>| match r {
        Err(wire::Error::Ckks(ckks::Error::BadFrame(_)) | wire::Error::TooLong { .. }) => (),
        other => panic!("{other:?}"),
    };
    out_of_place(read(&|_, frames| frames.insert(end, frames[first + 1].clone())));
    out_of_place(read(&|m, _| of_scores(m, count + 1)));
    out_of_place(read(&|m, _| of_scores(m, count - 1)));
    let none = read(&|m, frames| {
        frames.truncate(first);
        m.scores.answers.frames = 0;
        of_scores(m, 0);
    });
    assert!(matches!(none, Err(wire::Error::Truncated { .. })), "{none:?}");
    // Bytes after the last frame.
    let longer = PublicBundle::read(&[&ours[..], &[0]].concat()[..]).map(drop);
    assert!(matches!(longer, Err(wire::Error::Trailing { bytes: 1 })), "{longer:?}");

    // Keys of each ring in place of one of the other.
    let wrong_params = |r: Result<(), wire::Error>| match r {
        Err(wire::Error::Ckks(ckks::Error::WrongParams { .. })) => (),
        other => panic!("{other:?}"),
    };
    wrong_params(read(&|_, frames| frames[1] = frames[first + 1].clone()));
    let long = read(&|_, frames| frames[first + 1] = frames[1].clone());
    assert!(matches!(long, Err(wire::Error::TooLong { .. })), "{long:?}");
    // Keys of each ring under the key id of the other, with a digest that is right.
    let wrong_key = |r: Result<(), wire::Error>| match r {
        Err(wire::Error::Ckks(ckks::Error::WrongKey { .. })) => (),
        other => panic!("{other:?}"),
    };
    let small = bundle.scores;
    let mut rng = rng(5);
    let secret = SecretKey::generate(&small.params, &mut rng);
    let relin = ckks_secret::relin_key(&secret, 1, &mut rng);
    let frame = ckks::write_key_switch_key(&small.params, bundle.key_id, None, &relin);
    wrong_key(read(&|_, frames| frames[first + 1].clone_from(&frame)));
    let secret = SecretKey::generate(&bundle.params, &mut rng);
    let relin = ckks_secret::relin_key(&secret, bundle.params.max_level(), &mut rng);
    let frame = ckks::write_key_switch_key(&bundle.params, small.key_id, None, &relin);
    wrong_key(read(&|_, frames| frames[1].clone_from(&frame)));
    // A key, or the whole ring, of another pair.
    wrong_key(read(&|_, frames| frames[first + 1].clone_from(&others[first + 1])));
    let swapped = read(&|_, frames| frames[first..end].clone_from_slice(&others[first..end]));
    assert!(
        matches!(&swapped, Err(wire::Error::Manifest { field, .. }) if field == "scores.key_id"),
        "{swapped:?}"
    );
    // A key below the top level of the ring.
    let secret = SecretKey::generate(&small.params, &mut rng);
    let relin = ckks_secret::relin_key(&secret, 0, &mut rng);
    let frame = ckks::write_key_switch_key(&small.params, small.key_id, None, &relin);
    let low = read(&|_, frames| frames[first + 1].clone_from(&frame));
    assert!(matches!(low, Err(wire::Error::MissingKey { level: 1, .. })), "{low:?}");
}

/// The keys of answers: all of them, in their order, under the secret of the ring of scores.
#[test]
fn contradictions_in_the_keys_of_answers_are_refused() {
    let [(ours, _), (other, _)] = [1, 2].map(bundles);
    let bundle = PublicBundle::read(&ours[..]).unwrap();
    let (whole, others) = (frames(&ours), frames(&other));
    let scores = bundle.scores;
    let first = whole.len() - 3;
    let read = |change: &dyn Fn(&mut Manifest, &mut Vec<Vec<u8>>)| {
        PublicBundle::read(&rewritten(&ours, change)[..]).map(drop)
    };
    for frame in first..whole.len() {
        let r = read(&|m, frames| {
            frames.remove(frame);
            m.scores.answers.frames = 2;
        });
        let field = "scores.answers.frames";
        assert!(matches!(&r, Err(wire::Error::Manifest { field: got, .. }) if got == field), "{r:?}");
        let foreign = read(&|_, frames| frames[frame].clone_from(&others[frame]));
        assert!(matches!(foreign, Err(wire::Error::Ckks(ckks::Error::WrongKey { .. }))), "{foreign:?}");
    }
    let swapped = read(&|_, frames| frames.swap(first, first + 1));
    assert!(matches!(swapped, Err(wire::Error::Malformed(_))), "{swapped:?}");
    let twice = read(&|_, frames| frames[first + 1] = frames[first].clone());
    assert!(matches!(twice, Err(wire::Error::Malformed(_))), "{twice:?}");
    let kinds = read(&|_, frames| frames.swap(first + 1, first + 2));
    assert!(matches!(kinds, Err(wire::Error::Ckks(ckks::Error::BadFrame(_)))), "{kinds:?}");
    // A rotation below the top level, and another one.
    let params = scores.switch.as_ref().unwrap().small().params();
    let secret = SecretKey::generate(params, &mut rng(3));
    for (k, level, missing) in [(-1, 0, true), (-2, 1, false)] {
        let element = ckks::GaloisElement::rotation(params, k);
        let key = ckks_secret::galois_key(&secret, element, level, &mut rng(4));
        let frame = ckks::write_key_switch_key(params, scores.key_id, Some(element), &key);
        let r = read(&|_, frames| frames[first + 2].clone_from(&frame));
        match r {
            Err(wire::Error::MissingKey { level: 1, .. }) if missing => {}
            Err(wire::Error::Malformed(_)) if !missing => {}
            other => panic!("{k}: {other:?}"),
        }
    }
    // A bundle of the version before, whose keys a committee may hold.
    let mut old = ours.clone();
    old[8..10].copy_from_slice(&8u16.to_le_bytes());
    let error = PublicBundle::read(&old[..]).map(drop).unwrap_err().to_string();
    let says = "the bundle has format version 8, this program reads version 13: generate new keys";
    assert!(error.starts_with(says) && error.contains("a committee makes its own"), "{error}");
}

/// The ring of scores of a shape may be as large as the deep ring. It is then switched to one ciphertext, and
/// nothing is folded.
#[test]
fn a_ring_of_scores_may_be_as_large_as_the_deep_ring() {
    let shape = Shape::for_problem(8, 32);
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    let request = Request { shape, ..request() };
    let Summary { manifest, .. } =
        generate(request, &mut public, &mut secret, &mut rng(6), |_, _| {}).unwrap();
    let bundle = PublicBundle::read(&public[..]).unwrap();
    assert_eq!((bundle.scores.params.n(), bundle.manifest == manifest), (bundle.params.n(), true));
    assert_eq!((bundle.scores.switch.unwrap().parts(), manifest.scores.answers.frames), (1, 1));
    let secret = SecretBundle::read(&secret[..]).unwrap();
    assert_eq!((secret.manifest.frames, &secret.scores.params), (3, &bundle.scores.params));
}

/// Problems that no set carries are refused by a sentence, and nothing is written.
#[test]
fn shapes_that_no_ring_holds_are_refused() {
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    let request = Request {
        keys: Default::default(),
        shape: Shape::for_problem(32, 4),
        security: Security::Classical128,
        width: Default::default(),
        exchanges: Default::default(),
        updates: Default::default(),
        created: 0,
    };
    let error = generate(request, &mut public, &mut secret, &mut rng(6), |_, _| {}).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("carry up to 16 features") && text.contains("--exchanges staged"), "{error}");
    assert!(public.is_empty() && secret.is_empty());
}

/// Public bundles for stages have the public key and the relinearisation key of both rings, the Galois keys
/// of packs, and nothing else: at most 15 MB, and 10 MB up to 8 arms, with 128 bits of security. Packs have
/// the gap of scores where contexts are lifted, and that of products elsewhere.
#[test]
fn keys_of_stages_have_no_galois_key_but_those_of_packs() {
    for (d, k, gap, most) in [
        (2, 2, 512, 10),
        (7, 4, 512, 10),
        (16, 8, 512, 10),
        (64, 8, 64, 10),
        (16, 16, 256, 15),
        (64, 256, 64, 15),
    ] {
        let request = Request { security: Security::Classical128, ..staged(d, k) };
        let (mut public, mut secret) = (Vec::new(), Vec::new());
        let summary = generate(request, &mut public, &mut secret, &mut rng(8), |_, _| {}).unwrap();
        println!("{d} features, {k} arms: {} and {} bytes", summary.public_bytes, summary.secret_bytes);
        assert!(summary.public_bytes <= most * 1_000_000, "{d} {k}: {}", summary.public_bytes);
        let bundle = PublicBundle::read(&public[..]).unwrap();
        let packs = u32::ilog2(gap);
        assert_eq!((bundle.manifest.frames, bundle.manifest.ring.security_bits), (2 + 2 + packs, 128));
        assert!(
            bundle.keys.galois.is_empty() && bundle.decisions.is_none() && bundle.scores.switch.is_none()
        );
        let wanted = ckks::pack_elements(&bundle.scores.params, gap as usize).unwrap();
        assert!(bundle.scores.keys.galois.keys().eq(&std::collections::BTreeSet::from_iter(wanted)));
        assert_eq!(SecretBundle::read(&secret[..]).unwrap().manifest.frames, 3);
    }
}

fn staged(d: usize, k: usize) -> Request {
    Request {
        shape: Shape::for_problem(d, k),
        exchanges: Exchanging::Staged,
        updates: Updates::Products,
        ..request()
    }
}

/// A root, updates in slots, more bits and larger shapes are refused by name, and a bundle that lacks a key
/// of a pack or states other exchanges is not read.
#[test]
fn what_keys_of_stages_do_not_serve_is_refused() {
    let good = staged(20, 5);
    for (request, field) in [
        (Request { width: WidthShape::Root, ..good }, "width"),
        (Request { updates: Updates::Slots, ..good }, "updates"),
        (Request { security: Security::Classical192, ..good }, "security"),
        (Request { shape: Shape { dim: 128, arm_slots: 2 }, ..good }, "features"),
        (Request { shape: Shape { dim: 2, arm_slots: 512 }, ..good }, "arms"),
    ] {
        let (mut public, mut secret) = (Vec::new(), Vec::new());
        let error = generate(request, &mut public, &mut secret, &mut rng(9), |_, _| {}).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Protocol(protocol::Error::OutOfRange(_))), "{text}");
        assert!(text.contains(field) && public.is_empty() && secret.is_empty(), "{text}");
    }
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    generate(good, &mut public, &mut secret, &mut rng(9), |_, _| {}).unwrap();
    let read = |change: &dyn Fn(&mut Manifest, &mut Vec<Vec<u8>>)| {
        PublicBundle::read(&rewritten(&public, change)[..]).map(drop)
    };
    read(&|_, _| {}).unwrap();
    for frame in [1, 3, 4, 5, 6, 7, 8] {
        let missing = read(&|m, frames| {
            frames.remove(frame);
            m.scores.frames -= u32::from(frame > 1);
        });
        assert!(matches!(missing, Err(wire::Error::MissingKey { .. })), "{frame}: {missing:?}");
    }
    let other = read(&|m, _| m.exchanges = Exchanging::One);
    assert!(other.is_err(), "keys of stages were read as those of one raise");
}

#[test]
fn a_writer_keeps_to_its_manifest() {
    let (public, secret) = bundles(1);
    let manifest = BundleReader::new(&public[..]).unwrap().manifest().clone();
    let writer = BundleWriter::new(BundleKind::Public, &manifest, Vec::new()).unwrap();
    assert!(matches!(writer.finish(), Err(wire::Error::FrameCount { got: 0, .. })));
    assert!(matches!(
        SecretBundle::write(&manifest, &[&secret, &secret], &AccessToken::generate(&mut rng(2)), Vec::new()),
        Err(wire::Error::FrameCount { got: 3, .. })
    ));
}

#[test]
fn files_are_new_and_the_secret_one_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let (public, secret) = (dir.path().join("public.bundle"), dir.path().join("secret.bundle"));
    let mut steps = Vec::new();
    let summary =
        create_files(request(), &public, &secret, None, &mut rng(1), |done, total| steps.push((done, total)))
            .unwrap();
    let total = summary.manifest.frames;
    assert_eq!(steps, (1..=total).map(|i| (i, total)).collect::<Vec<_>>());
    assert_eq!(summary.max_log2_qp, None);
    assert_eq!(std::fs::metadata(&public).unwrap().len(), summary.public_bytes);
    assert_eq!(std::fs::metadata(&secret).unwrap().len(), summary.secret_bytes);
    #[cfg(unix)]
    {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&secret).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(PublicBundle::open(&public).unwrap().manifest, summary.manifest);

    // Either file stands in the way; nothing is changed and nothing is left.
    let before = std::fs::read(&secret).unwrap();
    let fresh = dir.path().join("fresh.bundle");
    for (public, secret, there) in [(&public, &fresh, &public), (&fresh, &secret, &secret)] {
        match create_files(request(), public, secret, None, &mut rng(2), |_, _| {}) {
            Err(Error::Exists { path }) => assert_eq!(&path, there),
            other => panic!("{other:?}"),
        }
        assert!(!fresh.exists());
    }
    assert!(matches!(
        create_files(request(), &fresh, &fresh, None, &mut rng(2), |_, _| {}),
        Err(Error::Exists { .. })
    ));
    assert!(!fresh.exists());
    assert_eq!(std::fs::read(&secret).unwrap(), before);
    let nowhere = dir.path().join("none/secret.bundle");
    assert!(matches!(
        create_files(request(), &fresh, &nowhere, None, &mut rng(2), |_, _| {}),
        Err(Error::Io { .. })
    ));
    assert!(!fresh.exists());
}

/// A writer that fails half-way.
#[test]
fn a_full_disk_is_an_error() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let result = generate(request(), Full(3_000_000), Vec::new(), &mut rng(1), |_, _| {});
    assert!(matches!(result, Err(Error::Wire(wire::Error::Io { .. }))), "{result:?}");
}

fn tool(arguments: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_helba-keygen")).args(arguments).args(files).output().unwrap()
}

#[test]
fn the_tool_creates_and_inspects() {
    let dir = tempfile::tempdir().unwrap();
    let (public, secret) = (dir.path().join("public.bundle"), dir.path().join("secret.bundle"));
    let options = ["--features", "2", "--arms", "2", "--toy"];
    let create = || {
        let files = ["--public".as_ref(), public.as_path(), "--secret".as_ref(), secret.as_path()];
        tool(&[&["create"], &options[..]].concat(), &files)
    };
    let out = create();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let manifest = PublicBundle::open(&public).unwrap().manifest;
    assert!(
        text.contains(&manifest.ring.fingerprint)
            && text.contains(&manifest.ring.key_id)
            && text.contains("NO SECURITY")
    );

    let again = create();
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("not overwritten"));

    for file in [&public, &secret] {
        let out = tool(&["inspect"], &[file]);
        assert!(out.status.success());
        let text = String::from_utf8(out.stdout).unwrap();
        let scores = &manifest.scores.ring;
        let wanted = [&manifest.ring.key_id, &scores.params, &scores.key_id, &scores.fingerprint];
        assert!(wanted.iter().all(|w| text.contains(*w)) && text.len() < 1000, "{text}");
    }
    for (arguments, says) in [
        (["inspect", "/no/such/file"], "cannot open /no/such/file"),
        (["inspect", env!("CARGO_MANIFEST_PATH")], "not a key bundle"),
    ] {
        let out = tool(&arguments, &[]);
        assert!(!out.status.success());
        assert!(String::from_utf8_lossy(&out.stderr).contains(says));
    }
    let out = tool(&["create", "--features", "9999", "--arms", "2", "--public", "x", "--secret", "y"], &[]);
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("--features 9999"));
}

/// Keys of the paper's method are read as they were written, are told from others, and other shapes are
/// refused with a sentence.
#[test]
fn keys_of_the_papers_method_are_of_their_own() {
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    let summary =
        keygen::generate_paper((true, 1_700_000_000), &mut public, &mut secret, &mut rng(31), |_, _| {})
            .unwrap();
    assert_eq!((summary.public_bytes, summary.secret_bytes), (public.len() as u64, secret.len() as u64));
    let keys = wire::PaperKeys::read(&public[..]).unwrap();
    assert_eq!(keys.manifest, summary.manifest);
    let bundle = wire::PaperSecret::read(&secret[..]).unwrap();
    let (_, id) = SecretKey::from_bytes(&bundle.params, &bundle.frame).unwrap();
    assert!(id == keys.key_id && bundle.token.digest() == keys.manifest.token_digest);
    assert!(memchr::memmem::find(&public, bundle.token.as_bytes()).is_none());
    for cut in [0, 8, 40, public.len() / 2, public.len() - 1] {
        assert!(wire::PaperKeys::read(&public[..cut]).is_err(), "{cut}");
    }
    let refused = PublicBundle::read(&public[..]).unwrap_err().to_string();
    assert!(refused.contains("method: paper"), "{refused}");

    let folder = tempfile::tempdir().unwrap();
    let run = |shape: [&str; 2], more: &[&str]| {
        let files = ["public", "secret"].map(|name| folder.path().join(name));
        Command::new(env!("CARGO_BIN_EXE_helba-keygen"))
            .args(["create", "--method", "paper", "--features", shape[0], "--arms", shape[1]])
            .args(["--public".as_ref(), files[0].as_os_str(), "--secret".as_ref(), files[1].as_os_str()])
            .args(more)
            .output()
            .unwrap()
    };
    for (shape, more, named) in [
        (["3", "2"], &["--toy"][..], "features is 3"),
        (["2", "8"], &["--toy"], "arms is 8"),
        (["2", "2"], &["--security", "192"], "--security"),
        (["2", "2"], &["--width", "root"], "--width"),
    ] {
        let output = run(shape, more);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(named), "{said}");
    }
    assert!(run(["2", "2"], &["--toy"]).status.success());
    assert!(wire::is_paper(&folder.path().join("public")).unwrap());
    let inspect = Command::new(env!("CARGO_BIN_EXE_helba-keygen"));
    let inspect = { inspect }.arg("inspect").arg(folder.path().join("secret")).output().unwrap();
    let said = String::from_utf8(inspect.stdout).unwrap();
    assert!(inspect.status.success() && said.contains("method        paper"), "{said}");
}

/// Keys beside users' own have no keys of answers, and the program enrols users by them: bundles of another
/// pair, shared keys, names that are none and requests that are none are refused, and leave no file.
#[test]
fn the_tool_enrols_users() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let create = |name: &str, keys: &str| {
        let files = ["public", "secret"].map(|kind| at(&format!("{name}.{kind}")));
        let files = ["--public".as_ref(), files[0].as_path(), "--secret".as_ref(), files[1].as_path()];
        let arguments = ["create", "--features", "2", "--arms", "2", "--toy", "--keys", keys];
        let created = tool(&arguments, &files);
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        String::from_utf8(created.stdout).unwrap()
    };
    assert!(create("own", "own").contains("users         have keys of their own"));
    create("other", "own");
    assert!(!create("shared", "shared").contains("of their own"));
    let size = |name: &str| std::fs::metadata(at(name)).unwrap().len();
    assert!(size("own.public") < size("shared.public"), "no keys of answers");

    let user = wire::UserSecret::generate(&mut rng(41));
    std::fs::write(at("request"), serde_json::to_vec(&user.request()).unwrap()).unwrap();
    std::fs::write(at("garbage"), "{}").unwrap();
    let enrol = |[secret, public, request, name]: [&str; 4]| {
        let [secret, public, request] = [secret, public, request].map(at);
        let files = ["--secret".as_ref(), secret.as_path(), "--public".as_ref(), public.as_path()];
        let user = at("user");
        let more = ["--request".as_ref(), request.as_path(), "--user".as_ref(), user.as_path()];
        tool(&["enrol", "--name", name, "--days", "30"], &[files, more].concat())
    };
    for (wrong, named) in [
        (["own.secret", "other.public", "request", "alice"], "not of one key pair"),
        (["shared.secret", "shared.public", "request", "alice"], "--keys own"),
        (["own.secret", "own.public", "garbage", "alice"], "garbage"),
        (["own.secret", "own.public", "request", "a b"], "a user's name"),
        (["own.public", "own.public", "request", "alice"], "bundle"),
    ] {
        let refused = enrol(wrong);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains(named) && !at("user").exists(), "{said}");
    }
    let done = enrol(["own.secret", "own.public", "request", "alice"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let bundle = wire::UserBundle::read(&std::fs::read(at("user")).unwrap()).unwrap();
    assert_eq!(bundle.enrolment.user(), "alice");
    assert_eq!(bundle.enrolment.expires() - bundle.enrolment.enrolled(), 30 * 24 * 3600);
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains(&user.request().fingerprint()), "{said}");
    let list = at("removed.json");
    for (names, bad) in [(&[][..], false), (&["alice", "bob"], false), (&["Alice"], true)] {
        let arguments = [&["remove"], names].concat();
        let removed = tool(&arguments, &["--list".as_ref(), list.as_path()]);
        assert_eq!(removed.status.success(), !bad, "{}", String::from_utf8_lossy(&removed.stderr));
    }
    let removed = wire::RemovedUsersFile::open(&list).unwrap();
    assert!(removed.has(&bundle.enrolment));
    let again = enrol(["own.secret", "own.public", "request", "alice"]);
    assert!(!again.status.success(), "the file exists");
    assert!(user.open_pad_key(&bundle.enrolment, &bundle.sealed).is_ok());
    let mut bytes = std::fs::read(at("user")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    let changed = wire::UserBundle::read(&bytes).unwrap();
    assert!(user.open_pad_key(&changed.enrolment, &changed.sealed).is_err(), "a sealed key that was changed");
}
