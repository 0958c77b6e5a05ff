use crate::Error;
use rand::CryptoRng;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The bytes of an [`AccessToken`].
pub const TOKEN_BYTES: usize = 32;
const BEARER: &str = "Bearer ";
const NOT_HEX: &str = "an access token must be 64 hexadecimal digits";
/// The most bytes that are read of a token file. They exceed 64 digits and an end of line.
const MAX_TOKEN_FILE: usize = 256;
/// The BLAKE3 context of token digests.
const CONTEXT: &str = "helba 2026 access token";

/// A token of 32 random bytes that gives access to a server. It is sent as `Authorization: Bearer` with 64
/// hexadecimal digits.
///
/// A server knows the [`TokenDigest`] only. The token has no Display, and is zeroed when it is dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct AccessToken([u8; TOKEN_BYTES]);

impl AccessToken {
    /// Generates a token from `rng`.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        let mut bytes = [0; TOKEN_BYTES];
        rng.fill_bytes(&mut bytes);
        AccessToken(bytes)
    }

    /// The token of a frame in a bundle.
    ///
    /// # Errors
    /// [`Error::Malformed`] for another length than [`TOKEN_BYTES`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |_| Error::Malformed("an access token must be 32 bytes long");
        bytes.try_into().map(AccessToken).map_err(wrong)
    }

    /// Reads 64 hexadecimal digits. White space around them is ignored.
    ///
    /// # Errors
    /// [`Error::Malformed`] for any other text.
    pub fn from_hex(text: &str) -> Result<Self, Error> {
        let bytes = from_hex(text.trim()).map(AccessToken);
        bytes.ok_or(Error::Malformed(NOT_HEX))
    }

    /// Reads a file of 64 hexadecimal digits. A token that other users can read is refused.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::TokenFile`], both with the path.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::Io { what: format!("cannot read the token in {}", path.display()), error };
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_TOKEN_FILE));
        let file = File::open(path).map_err(io)?;
        (&file).take(MAX_TOKEN_FILE as u64).read_to_end(&mut text).map_err(io)?;
        let token = std::str::from_utf8(&text).ok().and_then(|text| Self::from_hex(text).ok());
        let token = token.ok_or_else(|| Error::TokenFile { path: path.into() })?;
        host::check_private(path, &file).map_err(io)?;
        Ok(token)
    }

    /// The 32 bytes, for a frame in a bundle.
    pub fn as_bytes(&self) -> &[u8; TOKEN_BYTES] {
        &self.0
    }

    /// The 64 hexadecimal digits, for a file or the header of a request.
    pub fn to_hex(&self) -> Zeroizing<String> {
        let mut out = Zeroizing::new(String::with_capacity(2 * TOKEN_BYTES));
        push_hex(&mut out, &self.0);
        out
    }

    /// The value of the `Authorization` header: `Bearer` and the digits.
    pub fn authorization(&self) -> Zeroizing<String> {
        // The capacity is reserved at once, because a string that grows leaves a copy of its content in
        // memory.
        let mut out = Zeroizing::new(String::with_capacity(BEARER.len() + 2 * TOKEN_BYTES));
        out.push_str(BEARER);
        push_hex(&mut out, &self.0);
        out
    }

    /// The digest that a server keeps.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(blake3::derive_key(CONTEXT, &self.0))
    }
}

/// The output does not contain the token.
impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessToken")
    }
}

/// The BLAKE3 digest of an [`AccessToken`]. It identifies the token, is public, and does not reveal the
/// token. The time of a comparison does not depend on the content.
#[derive(Debug, Clone, Copy)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of the token in the value of an `Authorization` header. `None` if the value has no token.
    pub fn of_authorization(value: &str) -> Option<Self> {
        let (scheme, token) = value.split_once(' ')?;
        let token = scheme.eq_ignore_ascii_case("bearer").then(|| AccessToken::from_hex(token))?;
        token.ok().map(|token| token.digest())
    }
}

impl PartialEq for TokenDigest {
    fn eq(&self, other: &Self) -> bool {
        bool::from(subtle::ConstantTimeEq::ct_eq(&self.0[..], &other.0[..]))
    }
}

impl Eq for TokenDigest {}

impl Serialize for TokenDigest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut digits = String::new();
        push_hex(&mut digits, &self.0);
        to.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for TokenDigest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digest = from_hex(&text).map(TokenDigest);
        digest.ok_or_else(|| serde::de::Error::custom("a digest must be 64 hexadecimal digits"))
    }
}

/// Appends the hexadecimal digits of `bytes`, two a byte.
pub(crate) fn push_hex(out: &mut String, bytes: &[u8]) {
    let digit = |d: u8| char::from(b"0123456789abcdef"[usize::from(d)]);
    bytes.iter().for_each(|byte| out.extend([digit(byte >> 4), digit(byte & 15)]));
}

/// The byte of two hexadecimal digits.
fn byte_of(pair: &[u8; 2]) -> Option<u8> {
    let digit = |c: u8| char::from(c).to_digit(16);
    u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()
}

/// The N bytes of 2N hexadecimal digits. They are not on the heap: a token is secret.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut out = [0; N];
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(pairs) {
        *byte = byte_of(pair)?;
    }
    Some(out)
}

/// The bytes of hexadecimal digits, two a byte.
pub fn all_from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if rest.is_empty() { pairs.iter().map(byte_of).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// Digits alone are read: no sign, no blank, no half of a byte.
    #[test]
    fn bytes_have_two_digits() {
        assert_eq!((from_hex("0aF0"), all_from_hex("0aF0")), (Some([10, 240]), Some(vec![10, 240])));
        for bad in ["0a0", "+a00", "0 00", "0g00", "0a", "0a0000"] {
            assert_eq!(from_hex::<2>(bad), None, "{bad}");
        }
        assert!(["+a", "a", " 0", "é"].iter().all(|bad| all_from_hex(bad).is_none()));
    }

    #[test]
    fn tokens_travel_as_hexadecimal_digits_and_digests_do_not_spell_them() {
        let token = AccessToken::generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1));
        let other = AccessToken::generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(2));
        assert!(
            AccessToken::from_hex(&format!(" {}\n", *token.to_hex())).unwrap().digest() == token.digest()
        );
        assert!(AccessToken::from_bytes(token.as_bytes()).unwrap().digest() == token.digest());
        assert!(token.digest() != other.digest());
        let digest = serde_json::to_string(&token.digest()).unwrap();
        assert!(serde_json::from_str::<TokenDigest>(&digest).unwrap() == token.digest());
        assert!(!digest.contains(token.to_hex().as_str()));
        for bad in ["", "0", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert!(AccessToken::from_hex(bad).is_err(), "{bad}");
        }
    }

    /// Who reads the file of an operator may do everything.
    #[cfg(unix)]
    #[test]
    fn attack_a_token_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("operator.token");
        host::write_private(&path, "5".repeat(64).as_bytes()).unwrap();
        for (mode, taken) in [(0o600, true), (0o400, true), (0o640, false), (0o644, false), (0o622, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match AccessToken::open(&path) {
                Ok(token) => assert!(taken && token.to_hex().as_str() == "5".repeat(64), "{mode:o}"),
                Err(refused) => {
                    let said = refused.to_string();
                    assert!(!taken && said.contains("chmod 600") && !said.contains("55555"), "{said}");
                }
            }
        }
    }
}
