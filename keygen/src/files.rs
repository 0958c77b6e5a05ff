use crate::{Error, Request, Summary, generate};
use ckks_secret::{MAX_SEALED_BYTES, Passphrase};
use host::Undone;
use rand::CryptoRng;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use wire::AccessToken;
use zeroize::Zeroizing;

/// Generates a key pair as [`generate`] does, into two new files that are durable when this returns. Only its
/// owner can read the secret file. With a passphrase, the secret bundle is sealed ([`ckks_secret::seal`]). If
/// anything fails, or a signal ends the process ([`host::undo_on_signals`]), both files are removed.
///
/// # Errors
/// [`Error::Exists`] if one of the files exists, before any key is generated; [`Error::Io`];
/// [`Error::Secret`] if the bundle cannot be sealed; as [`generate`].
pub fn create_files<R: CryptoRng>(
    request: Request,
    public: &Path,
    secret: &Path,
    passphrase: Option<&Passphrase>,
    rng: &mut R,
    progress: impl FnMut(u32, u32),
) -> Result<Summary, Error> {
    let make = |public: &mut dyn Write, secret: &mut dyn Write, rng: &mut R| {
        generate(request, public, secret, rng, progress)
    };
    let (summary, sealed) = write_files([public, secret], passphrase, rng, make)?;
    Ok(Summary { secret_bytes: sealed.unwrap_or(summary.secret_bytes), ..summary })
}

/// Two new files, of the public and the secret bundle that `make` writes, and the bytes of a sealed one.
pub(crate) fn write_files<T, R: CryptoRng>(
    [public, secret]: [&Path; 2],
    passphrase: Option<&Passphrase>,
    rng: &mut R,
    make: impl FnOnce(&mut dyn Write, &mut dyn Write, &mut R) -> Result<T, Error>,
) -> Result<(T, Option<u64>), Error> {
    let public_file = NewFile::create(public, false)?;
    let secret_file = NewFile::create(secret, true)?;
    let mut out = BufWriter::new(&public_file.file);
    let written = match passphrase {
        // Without a buffer, which would keep a copy of the secret key.
        None => (make(&mut out, &mut &secret_file.file, rng)?, None),
        Some(passphrase) => {
            // The capacity is reserved at once, because a vector that grows leaves a copy of its content in
            // memory.
            let mut bundle = Zeroizing::new(Vec::with_capacity(MAX_SEALED_BYTES as usize));
            let made = make(&mut out, &mut *bundle, rng)?;
            let sealed = ckks_secret::seal(&bundle, passphrase, rng)?;
            (&secret_file.file)
                .write_all(&sealed)
                .map_err(|error| Error::Io { path: secret.into(), error })?;
            (made, Some(sealed.len() as u64))
        }
    };
    out.flush().map_err(|error| Error::Io { path: public.into(), error })?;
    drop(out);
    // Both files are on disk before either is kept.
    secret_file.sync()?;
    public_file.sync()?;
    NewFile::keep([secret_file, public_file]);
    Ok(written)
}

/// Writes a fresh access token to a new file that only its owner can read, as 64 hexadecimal digits and an
/// end of line. The file is durable when this returns.
///
/// # Errors
/// [`Error::Exists`], [`Error::Io`].
pub fn create_token_file<R: CryptoRng>(path: &Path, rng: &mut R) -> Result<(), Error> {
    let new = NewFile::create(path, true)?;
    let token = AccessToken::generate(rng).to_hex();
    let mut out = &new.file;
    let written = out.write_all(token.as_bytes()).and_then(|()| out.write_all(b"\n"));
    written.map_err(|error| Error::Io { path: path.into(), error })?;
    new.sync()?;
    NewFile::keep([new]);
    Ok(())
}

/// A new file that is removed when this is dropped or a signal ends the process, unless it is kept.
pub(crate) struct NewFile {
    file: File,
    path: PathBuf,
    /// `None` once it is kept.
    undone: Option<Undone>,
}

impl NewFile {
    pub(crate) fn create(path: &Path, owner_only: bool) -> Result<Self, Error> {
        let mut options = if owner_only { host::private_file() } else { File::options() };
        let of_signal = path.to_path_buf();
        let open = || {
            let file = options.write(true).create_new(true).open(path)?;
            Ok::<_, std::io::Error>((file, move || remove(&of_signal)))
        };
        match Undone::after(open) {
            Ok((file, undone)) => Ok(NewFile { file, path: path.into(), undone: Some(undone) }),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(Error::Exists { path: path.into() }),
            Err(error) => Err(Error::Io { path: path.into(), error }),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        (&self.file).write_all(bytes).map_err(|error| Error::Io { path: self.path.clone(), error })
    }

    /// Makes the content and the name of the file durable.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let synced = self.file.sync_all().and_then(|()| host::sync_folder_of(&self.path));
        synced.map_err(|error| Error::Io { path: self.path.clone(), error })
    }

    /// Keeps all of these files. A signal removes all or none of them.
    pub(crate) fn keep<const N: usize>(mut files: [Self; N]) {
        Undone::keep_all(files.iter_mut().filter_map(|file| file.undone.take()));
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.undone.is_some() {
            remove(&self.path);
        }
    }
}

/// Removes a file. A failure cannot be reported; the caller gets the error that led here.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}
