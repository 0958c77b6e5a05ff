use crate::Error;
use rand::CryptoRng;
use std::path::Path;
use wire::AccessToken;
use zeroize::Zeroizing;

/// Creates the state folder and its missing parents, for its owner alone. A folder that exists stays as it
/// is.
///
/// # Errors
/// Those of the disk.
pub fn private_folder(folder: &Path) -> Result<(), Error> {
    host::private_folder(folder).map_err(|e| Error::disk(folder, e))?;
    host::sync_folder_of(folder).map_err(|e| Error::disk(folder, e))
}

/// The token of the application in the file `path`, as 64 hexadecimal digits. A file that does not exist is
/// created with a fresh token, durably, and only its owner can read it.
///
/// # Errors
/// [`Error::Token`] for a file without a token, and those of the disk.
pub fn local_token<R: CryptoRng>(path: &Path, rng: &mut R) -> Result<AccessToken, Error> {
    if !path.exists() {
        let line = Zeroizing::new(format!("{}\n", *AccessToken::generate(rng).to_hex()));
        host::write_private(path, line.as_bytes()).map_err(|e| Error::disk(path, e))?;
    }
    Ok(AccessToken::open(path)?)
}
