//! Bundles made here are what servers and devices read, and no slip loses or shows a key.

use ckks_secret::SecretKey;
use keygen::{Error, Request, create_files, generate};
use protocol::Shape;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::path::Path;
use std::process::{Command, Output};
use wire::{AccessToken, BundleKind, BundleReader, BundleWriter, Manifest, PublicBundle, SecretBundle};

fn request() -> Request {
    Request { shape: Shape::for_problem(2, 2), toy: true, created: 1_700_000_000 }
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

#[test]
fn bundles_are_read_as_they_were_written() {
    let (public, secret) = bundles(1);
    let read = PublicBundle::read(&public[..]).unwrap();

    let bundle = SecretBundle::read(&secret[..]).unwrap();
    let (secret, id) = SecretKey::from_bytes(&bundle.params, &bundle.frame).unwrap();
    assert_eq!(id, read.key_id);
    assert_eq!(*secret.to_bytes(id), *bundle.frame);
    // Both halves name the same token, and the public one does not hold it.
    assert!(bundle.token.digest() == read.manifest.token_digest);
    assert!(memchr::memmem::find(&public, bundle.token.as_bytes()).is_none());
    assert!(memchr::memmem::find(&public, bundle.token.to_hex().as_bytes()).is_none());

    let PublicBundle { manifest, params, public_key, key_id, keys } = read;
    let engine = helba::Engine::new(params, public_key, key_id, manifest.shape, keys).unwrap();
    assert_eq!((engine.key_id(), engine.shape()), (id, request().shape));
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

/// A bundle again, with frames and manifest changed.
fn rewritten(public: &[u8], change: impl Fn(&mut Manifest, &mut Vec<Vec<u8>>)) -> Vec<u8> {
    let mut reader = BundleReader::new(public).unwrap();
    let mut manifest = reader.manifest().clone();
    let (mut frames, mut frame) = (Vec::new(), Vec::new());
    while reader.next_frame(1 << 30, &mut frame).unwrap() {
        frames.push(frame.clone());
    }
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
    let unknown = read(&|m, _| m.params = "none".into());
    assert!(matches!(&unknown, Err(wire::Error::UnknownParams { got, .. }) if got == "none"), "{unknown:?}");
    field(&|m| m.params = "toy-logn14-depth22".into(), "fingerprint");
    field(&|m| m.fingerprint = "00".into(), "fingerprint");
    field(&|m| m.key_id = "00".into(), "key_id");
    field(&|m| m.security_bits = 128, "security_bits");
    field(&|m| m.log2_qp = 100.0, "log2_qp");
    // A shape that this set of parameters is not for.
    field(&|m| m.shape = Shape::for_problem(16, 16), "params");

    let missing = |r| matches!(r, Err(wire::Error::MissingKey { .. }));
    for frame in 1..4 {
        assert!(missing(read(&|_, frames| drop(frames.remove(frame)))));
    }
    let twice = read(&|_, frames| frames.push(frames[1].clone()));
    assert!(matches!(twice, Err(wire::Error::Malformed(_))), "{twice:?}");
    // A relinearisation key under another secret.
    let foreign = read(&|_, frames| {
        let mut reader = BundleReader::new(&other[..]).unwrap();
        let mut frame = Vec::new();
        for _ in 0..2 {
            assert!(reader.next_frame(1 << 30, &mut frame).unwrap());
        }
        frames[1] = frame;
    });
    assert!(matches!(foreign, Err(wire::Error::Ckks(ckks::Error::WrongKey { .. }))), "{foreign:?}");
}

#[test]
fn a_writer_keeps_to_its_manifest() {
    let (public, secret) = bundles(1);
    let manifest = BundleReader::new(&public[..]).unwrap().manifest().clone();
    let writer = BundleWriter::new(BundleKind::Public, &manifest, Vec::new()).unwrap();
    assert!(matches!(writer.finish(), Err(wire::Error::FrameCount { got: 0, .. })));
    assert!(matches!(
        SecretBundle::write(&manifest, &secret, &AccessToken::generate(&mut rng(2)), Vec::new()),
        Err(wire::Error::FrameCount { got: 2, .. })
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
        text.contains(&manifest.fingerprint)
            && text.contains(&manifest.key_id)
            && text.contains("NO SECURITY")
    );

    let again = create();
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("not overwritten"));

    for file in [&public, &secret] {
        let out = tool(&["inspect"], &[file]);
        assert!(out.status.success());
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.contains(&manifest.key_id) && text.len() < 1000, "{text}");
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
