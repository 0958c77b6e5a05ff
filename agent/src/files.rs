use crate::Error;
use rand::CryptoRng;
use std::io::Write;
use std::path::Path;
use wire::AccessToken;

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
        let create = |token: &AccessToken| {
            // Under another name, until its content is on disk.
            let new = path.with_extension("new");
            let mut options = host::private_file();
            let mut file = options.write(true).create(true).truncate(true).open(&new)?;
            writeln!(file, "{}", *token.to_hex())?;
            file.sync_all()?;
            std::fs::rename(&new, path)?;
            host::sync_folder_of(path)
        };
        create(&AccessToken::generate(rng)).map_err(|e| Error::disk(path, e))?;
    }
    Ok(AccessToken::open(path)?)
}
