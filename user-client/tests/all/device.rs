//! Secret bundles that a device opens, and those that it refuses.

use keygen::{Request, generate};
use protocol::Shape;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::sync::OnceLock;
use user_client::{Device, Error, Opening};
use wire::{BundleKind, SecretBundle};

/// A public and a secret bundle of the same keys.
pub(crate) type Bundles = (Vec<u8>, Vec<u8>);

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Toy keys for problems of `shape`.
pub(crate) fn bundles(shape: Shape, seed: u64) -> Bundles {
    let request = Request {
        keys: Default::default(),
        shape,
        security: keygen::Security::None,
        width: Default::default(),
        exchanges: Default::default(),
        updates: Default::default(),
        created: 0,
    };
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    generate(request, &mut public, &mut secret, &mut rng(seed), |_, _| ()).unwrap();
    (public, secret)
}

/// Keys for 2 features and 2 arms, and those of a stranger.
pub(crate) fn keys() -> &'static [Bundles; 2] {
    static KEYS: OnceLock<[Bundles; 2]> = OnceLock::new();
    KEYS.get_or_init(|| [1, 2].map(|seed| bundles(Shape::for_problem(2, 2), seed)))
}

/// A secret bundle, and the id of its key.
fn secret() -> (&'static [u8], ckks::KeyId) {
    let secret = &keys()[0].1[..];
    (secret, Device::read(secret).unwrap().key_id())
}

#[test]
fn a_secret_file_must_be_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret.bundle");
    let (bundle, id) = secret();
    std::fs::write(&path, bundle).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A public bundle is named as such, whoever may read it.
        let public = dir.path().join("public.bundle");
        std::fs::write(&public, b"HELBAPUB\x01\x00\x00\x00\x00\x00\x00\x00").unwrap();
        std::fs::set_permissions(&public, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Device::open(&public, &Opening::default()).map(drop), Err(Error::Wire(_))));
        for mode in [0o644, 0o640, 0o604, 0o660, 0o610] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let Err(e @ Error::Permissions { .. }) = Device::open(&path, &Opening::default()).map(drop)
            else {
                panic!("{mode:o}")
            };
            assert!(e.to_string().contains("chmod 600"));
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let Err(Error::Toy { .. }) = Device::open(&path, &Opening::default()).map(drop) else {
        panic!("a toy, and nobody asked for one")
    };
    let device = Device::open(&path, &Opening { toy: true, ..Opening::default() }).unwrap();
    assert_eq!(device.key_id(), id);
    assert!(matches!(
        Device::open(&dir.path().join("none"), &Opening::default()).map(drop),
        Err(Error::Io { .. })
    ));
}

/// A sealed bundle opens with its passphrase, a bundle that is not sealed without one, and nothing else does.
#[test]
fn attack_a_sealed_bundle_needs_its_passphrase() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret.bundle");
    let phrase = |text: &str| {
        let file = dir.path().join("phrase");
        std::fs::write(&file, format!("{text}\n")).unwrap();
        Some(user_client::Passphrase::open(&file).unwrap())
    };
    let open = |passphrase| Device::open(&path, &Opening { toy: true, passphrase }).map(|d| d.key_id());
    let write = |bytes: &[u8]| {
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, bytes).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    let (bundle, id) = secret();
    write(&ckks_secret::seal(bundle, &phrase("right").unwrap(), &mut rng(9)).unwrap());
    assert_eq!(open(phrase("right")).unwrap(), id);
    let wrong = open(phrase("wrong")).unwrap_err();
    assert!(matches!(wrong, Error::Secret(ckks_secret::Error::WrongPassphrase)), "{wrong}");
    assert!(matches!(open(None), Err(Error::Sealed { sealed: true, .. })));
    write(bundle);
    assert_eq!(open(None).unwrap(), id);
    assert!(matches!(open(phrase("right")), Err(Error::Sealed { sealed: false, .. })));
}

#[test]
fn other_bundles_are_refused() {
    let (secret, id) = secret();
    let read = |bytes: &[u8]| Device::read(bytes).map(drop);
    read(secret).unwrap();
    let mut public = secret.to_vec();
    public[..8].copy_from_slice(b"HELBAPUB");
    let wrong = read(&public).unwrap_err();
    assert!(matches!(wrong, Error::Wire(wire::Error::WrongBundle { want: BundleKind::Secret })), "{wrong}");

    // A manifest of other parameters, or of another key, around this secret.
    let bundle = SecretBundle::read(secret).unwrap();
    let of_decisions = bundle.decisions.as_ref().unwrap();
    let around = |manifest: &wire::Manifest| {
        let rings: [&[u8]; 3] = [&bundle.frame, &of_decisions.frame, &bundle.scores.frame];
        let rings = if manifest.decisions.is_some() { &rings[..] } else { &[rings[0], rings[2]] };
        let out = SecretBundle::write(manifest, rings, &bundle.token, Vec::new());
        read(&out.unwrap().0).unwrap_err()
    };
    let spec = ckks::TOY_LOGN14_DEPTH22.validate().unwrap();
    let stated = bundle.manifest.scores.clone();
    // Answers have primes of the deep ring.
    let ring = protocol::ScoreRing::beside(spec.spec(), bundle.manifest.shape).unwrap();
    let answers = wire::AnswersManifest::new(&ring.answers(spec.spec()).validate().unwrap(), 0);
    let others = wire::ScoresManifest { answers, ..stated.clone() };
    let manifest = wire::Manifest::new(&spec, id, bundle.manifest.shape, 0, 2, bundle.token.digest(), others);
    let e = around(&manifest);
    // No keys of this shape have this set.
    assert!(matches!(&e, Error::Wire(wire::Error::Manifest { field, .. }) if field == "params"), "{e}");
    let mut without = bundle.manifest.clone();
    (without.frames, without.decisions) = (without.frames - 1, None);
    let e = around(&without);
    assert!(
        matches!(&e, Error::Wire(wire::Error::Manifest { field, .. }) if field == "decisions.params"),
        "{e}"
    );
    let wrong = |ring: &wire::RingManifest| wire::RingManifest { key_id: "00".repeat(16), ..ring.clone() };
    let ring = wrong(&bundle.manifest.ring);
    let e = around(&wire::Manifest { ring, ..bundle.manifest.clone() });
    assert!(matches!(&e, Error::Wire(wire::Error::Manifest { field, .. }) if field == "key_id"), "{e}");
    let mut of_another = bundle.manifest.clone();
    of_another.decisions.as_mut().unwrap().ring.key_id = "00".repeat(16);
    let e = around(&of_another);
    assert!(
        matches!(&e, Error::Wire(wire::Error::Manifest { field, .. }) if field == "decisions.key_id"),
        "{e}"
    );
    let stated = wire::ScoresManifest { ring: wrong(&stated.ring), ..stated };
    let e = around(&wire::Manifest { scores: stated, ..bundle.manifest.clone() });
    assert!(
        matches!(&e, Error::Wire(wire::Error::Manifest { field, .. }) if field == "scores.key_id"),
        "{e}"
    );
    let digest = wire::AccessToken::generate(&mut rng(3)).digest();
    let e = around(&wire::Manifest { token_digest: digest, ..bundle.manifest.clone() });
    assert!(matches!(&e, Error::Wire(wire::Error::Manifest { field, .. }) if field == "token_digest"), "{e}");
}
