//! What a collector shows to the services that let out sums.

use crate::Error;
use std::fmt;
use std::io::Read;
use std::path::Path;

/// A secret that the operators of two parties share. Whoever shows it may announce, close and open batches; users need none.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Characters of a token; 16 random ones of base 64 hold 96 bits.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=256;

impl Token {
    /// What the file at `path` holds, white space around it dropped.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::BadToken`] as [`from_text`](Self::from_text).
    pub fn read(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io { what: "reading the token's file", source };
        let (mut text, most) = (String::new(), 2 * *LENGTHS.end() as u64);
        std::fs::File::open(path).map_err(io)?.take(most).read_to_string(&mut text).map_err(io)?;
        Self::from_text(text.trim())
    }

    /// Of these characters.
    ///
    /// # Errors
    /// [`Error::BadToken`] unless they are 16 to 256 visible ones of ASCII.
    pub fn from_text(text: &str) -> Result<Self, Error> {
        if !LENGTHS.contains(&text.len()) || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Error::BadToken);
        }
        Ok(Self(text.into()))
    }

    /// The value of its `Authorization` header.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    pub(crate) fn digest(&self) -> blake3::Hash {
        blake3::hash(self.header().as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_plain() {
        let long = "x".repeat(257);
        for bad in
            ["", "0123456789abcde", "0123456789abcde\n", "0123456789 abcdef", "0123456789abcdeé", &long]
        {
            assert!(matches!(Token::from_text(bad), Err(Error::BadToken)), "{bad:?}");
        }
        let token = Token::from_text("0123456789abcdef").unwrap();
        assert_eq!(
            (token.header().as_str(), format!("{token:?}").as_str()),
            ("Bearer 0123456789abcdef", "Token")
        );
    }
}
