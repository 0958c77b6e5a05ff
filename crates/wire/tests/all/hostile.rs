//! Whatever the bytes: no panic, no memory beyond the limits, and what was changed is not taken for the
//! original.

use ckks_secret::SecretKey;
use proptest::prelude::*;
use std::process::Command;
use std::sync::OnceLock;
use testkit::samples;
use wire::{
    AskAgain, BundleReader, DecideReply, Error, LearnRequest, Limits, MAGIC, PublicBundle, Raises,
    SecretBundle, ShownCounters, ShownModel, TracedFeedback,
};

struct Samples {
    limits: Limits,
    /// One of each kind.
    messages: [Vec<u8>; 7],
    /// The public keys alone; every other key is missing.
    public: Vec<u8>,
    secret: Vec<u8>,
}

fn samples() -> &'static Samples {
    static SAMPLES: OnceLock<Samples> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let samples::Bundles { public, secret } = samples::bundles();
        let messages = [
            samples::reply().to_bytes(),
            samples::raises().to_bytes(),
            samples::feedback().to_bytes(),
            AskAgain { answers: 3 }.to_bytes(),
            ShownCounters { feedbacks: 100, sum: vec![1; 8] }.to_bytes(),
            ShownModel { feedbacks: 100, parts: vec![vec![1; 8]] }.to_bytes(),
            samples::learn().to_bytes(),
        ];
        Samples { limits: samples::limits(), messages, public, secret }
    })
}

/// What each decoder of messages makes of the bytes, written again.
fn read_messages(bytes: &[u8]) -> [Result<Vec<u8>, Error>; 7] {
    let limits = &samples().limits;
    [
        DecideReply::read(bytes, limits).map(|message| message.to_bytes()),
        Raises::read(bytes, limits).map(|message| message.to_bytes()),
        TracedFeedback::read(bytes, limits).map(|message| message.to_bytes()),
        AskAgain::read(bytes).map(|message| message.to_bytes()),
        ShownCounters::read(bytes, limits).map(|message| message.to_bytes()),
        ShownModel::read(bytes, limits).map(|message| message.to_bytes()),
        LearnRequest::read(bytes, limits).map(|message| message.to_bytes()),
    ]
}

/// Every decoder of this crate; true if one of them took the bytes.
fn any_accepts(bytes: &[u8]) -> bool {
    read_messages(bytes).iter().any(Result::is_ok) || is_bundle(bytes)
}

/// Whether the bytes are a bundle of any kind.
fn is_bundle(bytes: &[u8]) -> bool {
    PublicBundle::read(bytes).is_ok() || SecretBundle::read(bytes).is_ok()
}

fn with_magic() -> impl Strategy<Value = Vec<u8>> {
    let magic =
        prop::sample::select(vec![&b""[..], &MAGIC, b"HELBAPUB\x01\0", b"HELBASEC\x01\0", b"HELBAUSR\x05\0"]);
    // Small numbers where lengths are, so that readers get past them.
    let length = prop_oneof![Just(None), (0u32..64).prop_map(Some)];
    (magic, length, prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(magic, length, rest)| {
        let length = length.map(u32::to_le_bytes);
        magic.iter().chain(length.iter().flatten()).chain(&rest).copied().collect()
    })
}

proptest! {
    #[test]
    fn random_bytes_are_refused(bytes in with_magic()) {
        // Short ones may be a message by chance; a bundle cannot be, for its digests.
        let _ = any_accepts(&bytes);
        prop_assert!(!is_bundle(&bytes));
    }
}

proptest! {
    // Each case of these builds parameters anew.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn truncated_and_longer_bytes_are_refused(cut in any::<prop::sample::Index>(), more in 1usize..100) {
        let s = samples();
        for bytes in s.messages.iter().chain([&s.secret, &s.public]) {
            prop_assert!(!any_accepts(&bytes[..cut.index(bytes.len())]));
            let mut longer = bytes.clone();
            longer.resize(bytes.len() + more, 0);
            prop_assert!(!any_accepts(&longer));
        }
    }

    #[test]
    fn flipped_bits_in_keys_are_refused(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let s = samples();
        for bytes in [&s.secret, &s.public] {
            // Behind the manifest, which is JSON and may be changed into other JSON.
            let manifest = u32::from_le_bytes(bytes[10..14].try_into().unwrap()) as usize;
            let mut changed = bytes.clone();
            let frame = 14 + manifest;
            changed[frame + at.index(bytes.len() - frame)] ^= 1 << bit;
            prop_assert!(PublicBundle::read(&changed[..]).is_err());
            // The container is opaque; what is in it has a digest.
            if let Ok(bundle) = SecretBundle::read(&changed[..]) {
                let large = SecretKey::from_bytes(&bundle.params, &bundle.frame);
                let small = SecretKey::from_bytes(&bundle.scores.params, &bundle.scores.frame);
                let own = bundle.decisions.unwrap();
                let own = SecretKey::from_bytes(&own.params, &own.frame);
                prop_assert!(large.is_err() || small.is_err() || own.is_err());
            }
        }
    }

    #[test]
    fn flipped_bits_in_manifests_do_not_panic(at in 0usize..700, bit in 0u8..8) {
        let s = samples();
        for bytes in [&s.secret, &s.public] {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            let _ = any_accepts(&changed);
            let _ = BundleReader::new(&changed[..]);
        }
    }
}

/// No prefix of a message is one, and no message with a flipped bit is read as the original. Parts are opaque
/// here, so that many a change is another valid message, which then reads back as it is.
#[test]
fn flipped_bits_do_not_panic() {
    for bytes in &samples().messages {
        assert!((0..bytes.len()).all(|end| read_messages(&bytes[..end]).iter().all(Result::is_err)));
        for at in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[at / 8] ^= 1 << (at % 8);
            for (reader, written) in read_messages(&changed).into_iter().enumerate() {
                let Ok(written) = written else { continue };
                assert_ne!(written, *bytes, "bit {at}");
                assert_eq!(read_messages(&written)[reader].as_ref().ok(), Some(&written), "bit {at}");
            }
        }
    }
}

#[test]
fn samples_are_what_they_should_be() {
    let s = samples();
    for (i, bytes) in s.messages.iter().enumerate() {
        assert_eq!(read_messages(bytes)[i].as_ref().unwrap(), bytes);
    }
    assert!(SecretBundle::read(&s.secret[..]).is_ok());
    // Read to its end: the public keys are good, the others are not there.
    assert!(matches!(PublicBundle::read(&s.public[..]), Err(Error::MissingKey { .. })));
}

/// What users of a committee had is refused by its name.
#[test]
fn users_bundles_of_a_committee_are_refused_by_name() {
    let refused = BundleReader::new(&b"HELBAUSR\x06\0"[..]).map(drop).unwrap_err().to_string();
    assert!(
        refused.contains("users' bundle of a committee") && refused.contains("begins a session"),
        "{refused}"
    );
}

#[test]
fn shapes_that_overflow_are_refused() {
    let s = samples();
    for shape in [
        r#"{"dim":0,"arm_slots":2}"#,
        r#"{"dim":4611686018427387904,"arm_slots":2}"#,
        r#"{"dim":2,"arm_slots":3}"#,
    ] {
        let bytes = with_manifest(&s.public, |json| json.replace(r#"{"dim":2,"arm_slots":2}"#, shape));
        assert!(matches!(BundleReader::new(&bytes[..]), Err(Error::BadManifest(_))), "{shape}");
    }
}

/// A bundle with another manifest.
fn with_manifest(bytes: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    let length = u32::from_le_bytes(bytes[10..14].try_into().unwrap()) as usize;
    let json = change(std::str::from_utf8(&bytes[14..14 + length]).unwrap());
    let mut out = bytes[..10].to_vec();
    out.extend((json.len() as u32).to_le_bytes());
    out.extend(json.as_bytes());
    out.extend(&bytes[14 + length..]);
    out
}

/// The number of frames of the ring of scores is a statement of the manifest: no reader trusts it.
#[test]
fn false_counts_of_frames_are_refused() {
    let s = samples();
    for frames in [0u32, 2, 3, 4, u32::MAX] {
        let changed = |bytes| {
            with_manifest(bytes, |json| {
                let (large, scores) = json.split_once("\"scores\":").unwrap();
                assert!(scores.contains("\"frames\":1"));
                format!(
                    "{large}\"scores\":{}",
                    scores.replace("\"frames\":1", &format!("\"frames\":{frames}"))
                )
            })
        };
        assert!(PublicBundle::read(&changed(&s.public)[..]).is_err(), "{frames}");
        let secret = SecretBundle::read(&changed(&s.secret)[..]).map(drop);
        assert!(
            matches!(&secret, Err(Error::Manifest { field, .. }) if field == "scores.frames"),
            "{frames}: {secret:?}"
        );
    }
    for bytes in [&s.public, &s.secret] {
        // Or none of it at all.
        let unstated = with_manifest(bytes, |json| {
            format!("{}\"scores\":null}}", json.split_once("\"scores\":").unwrap().0)
        });
        for refused in
            [PublicBundle::read(&unstated[..]).map(drop), SecretBundle::read(&unstated[..]).map(drop)]
        {
            assert!(matches!(refused, Err(Error::BadManifest(_))), "{refused:?}");
        }
    }
}

/// Runs itself under a limit on address space, which an allocation of 4 GiB would break; and once with such
/// an allocation, to see that the limit holds.
#[cfg(unix)]
#[test]
fn huge_lengths_take_no_memory() {
    let run = |name: &str| {
        let me = std::env::current_exe().unwrap();
        let script = r#"ulimit -v 2000000 && exec "$0" --exact "$1" --ignored --test-threads=1"#;
        Command::new("sh")
            .args(["-c", script])
            .arg(me)
            .arg(name)
            .env("RAYON_NUM_THREADS", "1")
            .output()
            .unwrap()
    };
    let good = run("hostile::under_a_memory_limit");
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    assert!(String::from_utf8_lossy(&good.stdout).contains("1 passed"));
    assert!(!run("hostile::breaks_a_memory_limit").status.success());
}

#[test]
#[ignore = "run by huge_lengths_take_no_memory"]
fn breaks_a_memory_limit() {
    assert_eq!(std::hint::black_box(vec![1u8; 1 << 32]).len(), 1 << 32);
}

#[test]
#[ignore = "run by huge_lengths_take_no_memory"]
fn under_a_memory_limit() {
    let s = samples();
    // All places where a length can stand, and all others.
    for bytes in &s.messages {
        for at in 4..bytes.len() - 4 {
            let mut changed = bytes.clone();
            changed[at..at + 4].fill(0xff);
            let _ = any_accepts(&changed);
        }
        let mut changed = bytes.clone();
        changed[4..8].fill(0xff);
        let too_long = |read: &Result<Vec<u8>, Error>| matches!(read, Err(Error::TooLong { .. }));
        assert!(read_messages(&changed).iter().all(too_long));
    }
    for bytes in [&s.secret, &s.public] {
        let manifest = u32::from_le_bytes(bytes[10..14].try_into().unwrap()) as usize;
        for (at, width) in [(10, 4), (14 + manifest, 8)] {
            for length in [u64::MAX, u64::from(u32::MAX), 1 << 31] {
                let mut changed = bytes.clone();
                changed[at..at + width].copy_from_slice(&length.to_le_bytes()[..width]);
                let refused = |r: Result<(), Error>| {
                    matches!(r, Err(Error::TooLong { .. } | Error::WrongBundle { .. }))
                };
                assert!(refused(PublicBundle::read(&changed[..]).map(drop)));
                assert!(refused(SecretBundle::read(&changed[..]).map(drop)));
            }
        }
    }
}
