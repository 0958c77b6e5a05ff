use crate::committee::{self, rng};
use ckks_secret::Passphrase;
use helba_member::keygen::Identity;
use helba_member::{KeysError, MemberKeys};
use zeroize::Zeroizing;

/// Keys come back from their file, sealed or not, and nothing else is taken for keys.
#[test]
fn keys_are_read_as_they_were_saved() {
    let (mut rng, members) = (rng(3), committee::keys(2, 3, 2, 2, true).members);
    let folder = tempfile::tempdir().unwrap();
    let [plain, sealed, again] = ["plain", "sealed", "again"].map(|name| folder.path().join(name));
    let passphrase = |text: &[u8]| Passphrase::new(Zeroizing::new(text.to_vec())).unwrap();
    let keys = &members[1];
    keys.save(&plain, None, &mut rng).unwrap();
    keys.save(&sealed, Some(&passphrase(b"right")), &mut rng).unwrap();
    assert!(matches!(keys.save(&plain, None, &mut rng), Err(KeysError::Io(_))), "keys are not overwritten");
    #[cfg(unix)]
    for path in [&plain, &sealed] {
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no draft is left");

    let read = MemberKeys::open(&sealed, Some(&passphrase(b"right"))).unwrap();
    assert_eq!((read.member(), read.quorum(), read.manifest()), (2, keys.quorum(), keys.manifest()));
    #[cfg(unix)]
    for mode in [0o644, 0o640, 0o604, 0o660, 0o602] {
        let set =
            |mode| std::fs::set_permissions(&sealed, std::os::unix::fs::PermissionsExt::from_mode(mode));
        set(mode).unwrap();
        let refused = MemberKeys::open(&sealed, Some(&passphrase(b"right"))).err().unwrap().to_string();
        assert!(refused.contains("chmod 600") && refused.contains(&format!("{mode:o}")), "{refused}");
        set(0o400).unwrap();
        assert!(MemberKeys::open(&sealed, Some(&passphrase(b"right"))).is_ok());
        set(0o600).unwrap();
    }
    read.save(&again, None, &mut rng).unwrap();
    let bytes = std::fs::read(&plain).unwrap();
    assert!(std::fs::read(&again).unwrap() == bytes, "every share and key came back");
    assert!(matches!(MemberKeys::open(&sealed, None), Err(KeysError::Sealed)));
    assert!(matches!(MemberKeys::open(&sealed, Some(&passphrase(b"wrong"))), Err(KeysError::Secret(_))));

    let refused = |bytes: &[u8]| {
        host::write_private(&again, bytes).unwrap();
        MemberKeys::open(&again, None).is_err()
    };
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(refused(&changed) && refused(&bytes[..at]), "{at}");
    }
    // With a digest that fits, fields are checked all the same.
    let with_digest = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut content = bytes[..bytes.len() - 32].to_vec();
        change(&mut content);
        content.extend(*blake3::hash(&content).as_bytes());
        content
    };
    assert!(!refused(&with_digest(&|_| {})), "the control");
    assert!(refused(&with_digest(&|content| content[10] = 1)), "keys of another member");
    assert!(refused(&with_digest(&|content| content[10] = 4)), "no member of the committee");
    assert!(refused(&with_digest(&|content| content.push(0))), "a byte too many");
    assert!(refused(&with_digest(&|content| content.iter_mut().rev().take(9).for_each(|b| *b = 0xff))));
}

/// Who reads an identity signs as the member, and opens what is dealt to it.
#[cfg(unix)]
#[test]
fn attack_an_identity_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("member.identity");
    Identity::generate(&mut rng(5)).save(&path).unwrap();
    for (mode, taken) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        match Identity::open(&path) {
            Ok(_) => assert!(taken, "{mode:o}"),
            Err(refused) => assert!(!taken && refused.to_string().contains("chmod 600"), "{refused}"),
        }
    }
}
