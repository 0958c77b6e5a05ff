//! Encryption of a secret bundle at rest under a passphrase: Argon2id derives a key from the passphrase, and
//! XChaCha20-Poly1305 encrypts and authenticates the bytes.
//!
//! ```text
//! offset  bytes  field
//!      0      8  magic "HELBALCK"
//!      8      2  version, 1, little-endian like all numbers
//!     10     12  Argon2id: memory in KiB, passes, lanes
//!     22     16  salt
//!     38     24  nonce
//!     62      …  ciphertext and tag, which also authenticates the bytes before
//! ```

use crate::Error;
use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use rand::CryptoRng;
use std::path::Path;
use zeroize::Zeroizing;

/// The first bytes of a sealed file.
pub const SEALED_MAGIC: [u8; 8] = *b"HELBALCK";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 62;
/// The largest file that is read. The secret bundle of the largest ring is many times smaller.
pub const MAX_SEALED_BYTES: u64 = 1 << 20;
/// Memory in KiB, passes and lanes of a new file: the second recommended option of RFC 9106, section 4.
const COST: [u32; 3] = [1 << 16, 3, 4];
/// The largest memory in KiB, passes and lanes that a header may ask for: 1 GiB, 64 passes, 16 lanes.
const MOST: [u32; 3] = [1 << 20, 64, 16];

/// A passphrase. It has no Debug, and is zeroed when it is dropped.
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// The passphrase `bytes`, which must not be empty.
    ///
    /// # Errors
    /// [`Error::BadPassphrase`] if it is empty.
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> Result<Self, Error> {
        if bytes.is_empty() { Err(Error::BadPassphrase("it is empty")) } else { Ok(Passphrase(bytes)) }
    }

    /// Reads the passphrase from the first line of a file, without the line end.
    ///
    /// # Errors
    /// [`Error::BadPassphrase`] if the file cannot be read, is longer than 4096 bytes, or begins with an
    /// empty line.
    pub fn open(path: &Path) -> Result<Self, Error> {
        use std::io::Read;
        // Reserved at once, because a vector that grows leaves copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(4097));
        let file =
            std::fs::File::open(path).map_err(|_| Error::BadPassphrase("its file cannot be opened"))?;
        file.take(4097)
            .read_to_end(&mut bytes)
            .map_err(|_| Error::BadPassphrase("its file cannot be read"))?;
        if bytes.len() > 4096 {
            return Err(Error::BadPassphrase("its file has more than 4096 bytes"));
        }
        let end = bytes.iter().position(|b| [b'\n', b'\r'].contains(b)).unwrap_or(bytes.len());
        bytes.truncate(end);
        Self::new(bytes)
    }
}

fn key(
    passphrase: &Passphrase,
    [memory, passes, lanes]: [u32; 3],
    salt: &[u8],
) -> Result<Zeroizing<[u8; 32]>, Error> {
    let bad = |_| Error::BadSealed("its Argon2 parameters make no sense");
    let params = Params::new(memory, passes, lanes, Some(32)).map_err(bad)?;
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(&passphrase.0, salt, &mut *key)
        .map_err(bad)?;
    Ok(key)
}

/// Seals `content`: returns the bytes of a sealed file. Takes 64 MiB of memory and some tenths of a second.
///
/// # Errors
/// [`Error::BadSealed`] if the passphrase has 4 GiB or more, or `content` 256 GiB or more.
pub fn seal<R: CryptoRng>(content: &[u8], passphrase: &Passphrase, rng: &mut R) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(HEADER_BYTES + content.len() + 16);
    out.extend(SEALED_MAGIC);
    out.extend(VERSION.to_le_bytes());
    COST.iter().for_each(|c| out.extend(c.to_le_bytes()));
    let (mut salt, mut nonce) = ([0; 16], [0; 24]);
    rng.fill_bytes(&mut salt);
    rng.fill_bytes(&mut nonce);
    out.extend(salt);
    out.extend(nonce);
    let key = key(passphrase, COST, &salt)?;
    let sealed = XChaCha20Poly1305::new((&*key).into())
        .encrypt((&nonce).into(), Payload { msg: content, aad: &out })
        .map_err(|_| Error::BadSealed("its content is too long"))?;
    out.extend(sealed);
    Ok(out)
}

/// Opens a sealed file: the inverse of [`seal`].
///
/// # Errors
/// [`Error::BadSealed`] if the bytes are no sealed file, or ask for more memory or time than is allowed,
/// which is refused before any is spent; [`Error::WrongPassphrase`] if they do not authenticate under the
/// passphrase.
pub fn unseal(bytes: &[u8], passphrase: &Passphrase) -> Result<Zeroizing<Vec<u8>>, Error> {
    let (header, sealed) =
        bytes.split_at_checked(HEADER_BYTES).ok_or(Error::BadSealed("it ends within its header"))?;
    let (fixed, nonce) = header.split_at(38);
    let (fixed, salt) = fixed.split_at(22);
    let number = |at: usize| fixed[at..][..4].iter().rev().fold(0u32, |n, &b| n << 8 | u32::from(b));
    if fixed[..8] != SEALED_MAGIC {
        return Err(Error::BadSealed("it does not begin as a sealed file does"));
    }
    if fixed[8..10] != VERSION.to_le_bytes() {
        return Err(Error::BadSealed("its version is not one that this program reads"));
    }
    let cost = [number(10), number(14), number(18)];
    if cost.iter().zip(&MOST).any(|(c, most)| c > most) {
        return Err(Error::BadSealed("it asks for more than 1 GiB, 64 passes or 16 lanes of Argon2"));
    }
    let nonce: &[u8; 24] = nonce.try_into().map_err(|_| Error::BadSealed("it ends within its header"))?;
    let key = key(passphrase, cost, salt)?;
    XChaCha20Poly1305::new((&*key).into())
        .decrypt(nonce.into(), Payload { msg: sealed, aad: header })
        .map(Zeroizing::new)
        .map_err(|_| Error::WrongPassphrase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(Zeroizing::new(text.into())).unwrap()
    }

    /// The right passphrase opens the file. Another passphrase and a change of any field are refused, and the
    /// file contains no part of the content in the clear.
    #[test]
    fn attack_a_sealed_bundle_opens_for_its_passphrase_alone() {
        let (content, mut rng) = (b"a secret key of many bytes".repeat(20), ChaCha20Rng::seed_from_u64(1));
        let sealed = seal(&content, &passphrase("right"), &mut rng).unwrap();
        assert_eq!(*unseal(&sealed, &passphrase("right")).unwrap(), content);
        assert!(!sealed.windows(8).any(|w| content.windows(8).any(|c| c == w)));
        assert_ne!(seal(&content, &passphrase("right"), &mut rng).unwrap(), sealed);
        assert!(matches!(unseal(&sealed, &passphrase("wrong")), Err(Error::WrongPassphrase)));
        for at in [14, 25, 40, HEADER_BYTES, sealed.len() - 1] {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert!(matches!(unseal(&bad, &passphrase("right")), Err(Error::WrongPassphrase)), "{at}");
        }
    }

    /// A header that asks for too much memory, too many passes or lanes is refused before any memory is
    /// allocated.
    #[test]
    fn headers_that_ask_for_too_much_are_refused() {
        let sealed = seal(b"x", &passphrase("right"), &mut ChaCha20Rng::seed_from_u64(1)).unwrap();
        for (at, value) in [(0, 0), (8, 9), (13, 1), (16, 1), (20, 1)] {
            let mut bad = sealed.clone();
            bad[at] = value;
            assert!(matches!(unseal(&bad, &passphrase("right")), Err(Error::BadSealed(_))), "{at}");
        }
        let mut none = sealed.clone();
        none[10..22].fill(0);
        assert!(matches!(unseal(&none, &passphrase("right")), Err(Error::BadSealed(_))));
        for cut in [0, 10, HEADER_BYTES - 1] {
            assert!(matches!(unseal(&sealed[..cut], &passphrase("right")), Err(Error::BadSealed(_))));
        }
        assert!(matches!(Passphrase::new(Zeroizing::new(Vec::new())), Err(Error::BadPassphrase(_))));
    }
}
