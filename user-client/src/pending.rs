use crate::{Device, Error};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use protocol::DecisionId;
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use wire::{Created, TraceQuestion};
use zeroize::Zeroizing;

/// The first bytes of a sealed decision, which are authenticated with it: a name and the version 3.
const SEALED: [u8; 10] = *b"HELBADEC\x03\0";
const NONCE_BYTES: usize = 24;
/// The context of the derivation of the key.
const CONTEXT: &str = "helba user-client 2026 sealed decision";

/// A decision that waits for its reward, for programs that end in between. The file contains features in the
/// clear, so that only its owner can read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The address of the server.
    pub server: String,
    /// The features of each arm.
    pub contexts: Vec<Vec<f64>>,
    /// The bandit.
    pub created: Created,
    /// The decision.
    pub decision: DecisionId,
    /// The arm to play.
    pub arm: usize,
    /// Whether the answer was in its range ([`crate::Choice::reliable`]).
    pub reliable: bool,
    /// The question that the feedback answers.
    pub question: Option<TraceQuestion>,
}

impl Pending {
    /// Creates the file, which only its owner can read. It is created before the server is asked, so that no
    /// decision is lost because it cannot be stored.
    ///
    /// # Errors
    /// [`Error::PendingExists`], [`Error::Io`].
    pub fn reserve(path: &Path) -> Result<File, Error> {
        let file =
            host::private_file().write(true).create_new(true).open(path).map_err(|error| {
                match error.kind() {
                    ErrorKind::AlreadyExists => Error::PendingExists { path: path.into() },
                    _ => Error::Io { path: path.into(), error },
                }
            })?;
        // The name must be durable too.
        if let Err(error) = host::sync_folder_of(path) {
            // A failure cannot be reported here; the caller gets the first error.
            let _ = std::fs::remove_file(path);
            return Err(Error::Io { path: path.into(), error });
        }
        Ok(file)
    }

    /// Writes the decision into the file of [`Self::reserve`].
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn write(&self, file: &mut File) -> std::io::Result<()> {
        let bytes = postcard::to_stdvec(self).map_err(std::io::Error::other)?;
        file.write_all(&bytes)?;
        file.sync_all()
    }

    /// Reads the file of [`Self::write`].
    ///
    /// # Errors
    /// [`Error::NoPending`], [`Error::Io`], [`Error::BadPending`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let io = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => Error::NoPending { path: path.into() },
            _ => Error::Io { path: path.into(), error },
        };
        File::open(path).and_then(|mut f| f.read_to_end(&mut bytes)).map_err(io)?;
        postcard::from_bytes(&bytes).map_err(|_| Error::BadPending { path: path.into() })
    }

    /// The decision as bytes that only a holder of the secret key can read, for a process that returns the
    /// reward later: a name and a version, 24 random bytes, and the content of the file of [`Self::write`]
    /// sealed by XChaCha20-Poly1305 under a key that is derived from the secret key.
    ///
    /// # Errors
    /// [`Error::BadSealedDecision`] if the content has 256 GiB or more; as [`Device::derive_key`].
    pub fn seal<R: CryptoRng>(&self, device: &Device, rng: &mut R) -> Result<Vec<u8>, Error> {
        let content = Zeroizing::new(postcard::to_stdvec(self).map_err(|_| Error::BadSealedDecision)?);
        let mut nonce = [0; NONCE_BYTES];
        rng.fill_bytes(&mut nonce);
        let sealed = XChaCha20Poly1305::new((&*device.derive_key(CONTEXT)).into())
            .encrypt((&nonce).into(), Payload { msg: &content, aad: &SEALED })
            .map_err(|_| Error::BadSealedDecision)?;
        Ok([&SEALED[..], &nonce, &sealed].concat())
    }

    /// Opens the bytes of [`Self::seal`].
    ///
    /// # Errors
    /// [`Error::BadSealedDecision`] for other bytes, and for those that another key sealed; as
    /// [`Device::derive_key`].
    pub fn unseal(bytes: &[u8], device: &Device) -> Result<Self, Error> {
        let rest = bytes.strip_prefix(&SEALED).ok_or(Error::BadSealedDecision)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(Error::BadSealedDecision)?;
        let content = XChaCha20Poly1305::new((&*device.derive_key(CONTEXT)).into())
            .decrypt(nonce.into(), Payload { msg: sealed, aad: &SEALED })
            .map_err(|_| Error::BadSealedDecision)?;
        postcard::from_bytes(&Zeroizing::new(content)).map_err(|_| Error::BadSealedDecision)
    }
}
