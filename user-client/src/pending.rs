use crate::Error;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use wire::Created;

/// A decision that waits for its reward, for programs that end in between. It holds features in the clear, so
/// only its owner may read the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The server's address.
    pub server: String,
    /// The bandit.
    pub created: Created,
    /// Features of each arm.
    pub contexts: Vec<Vec<f64>>,
    /// The server's reply, as it came.
    pub reply: Vec<u8>,
}

impl Pending {
    /// Creates the file before the server is asked, so that a decision cannot be lost for want of it. Only
    /// its owner can read it.
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
        // The name too: a decision whose reward cannot come back is lost.
        if let Err(error) = host::sync_folder_of(path) {
            // Nothing more can be done if that fails; the error is on its way to the caller.
            let _ = std::fs::remove_file(path);
            return Err(Error::Io { path: path.into(), error });
        }
        Ok(file)
    }

    /// Writes it into what [`Self::reserve`] made.
    ///
    /// # Errors
    /// The file's.
    pub fn write(&self, file: &mut File) -> std::io::Result<()> {
        let bytes = postcard::to_stdvec(self).map_err(std::io::Error::other)?;
        file.write_all(&bytes)?;
        file.sync_all()
    }

    /// Reads the file.
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
}
