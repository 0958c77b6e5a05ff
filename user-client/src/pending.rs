use crate::Error;
use protocol::DecisionId;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use wire::{Created, TraceQuestion};

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
}
