//! The mode, the lock and the files of the state folder.

use crate::error::Error;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Creates the folder and its missing parents, durably, and makes it readable by its owner only. Masks and
/// ciphertexts reveal the model to a holder of the secret key of a bandit, and rewards of clear policies are
/// stored in the clear.
pub(crate) fn prepare(folder: &Path) -> Result<(), Error> {
    let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let mut made: Vec<&Path> = folder.ancestors().take_while(missing).collect();
    host::private_folder(folder).map_err(|e| Error::disk(folder, e))?;
    // An empty folder may come from a process that ended before it synced the name.
    if made.is_empty() && !database(folder).exists() {
        made.push(folder);
    }
    for path in made {
        host::sync_folder_of(path).map_err(|e| Error::disk(path, e))?;
    }
    make_private(folder)
}

/// Locks the folder until the returned file is dropped.
pub(crate) fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let file =
        host::private_file().write(true).create(true).open(&path).map_err(|e| Error::disk(&path, e))?;
    match host::lock_file(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::StateInUse { folder: folder.to_owned() }),
        Err(TryLockError::Error(e)) => Err(Error::disk(&path, e)),
    }
}

/// The database file of a folder.
pub(crate) fn database(folder: &Path) -> PathBuf {
    folder.join("state.redb")
}

/// Opens the database file. `None` if there is none.
pub(super) fn database_file(folder: &Path) -> Result<Option<File>, Error> {
    let path = database(folder);
    let file = match File::options().read(true).write(true).open(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|e| Error::disk(&path, e))?,
    };
    // A database is never empty, and another one would begin in an empty file.
    if file.metadata().map_err(|e| Error::disk(&path, e))?.len() == 0 {
        return Err(Error::EmptyDatabase { path });
    }
    // It may have another mode.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .map_err(|e| Error::disk(&path, e))?;
    Ok(Some(file))
}

/// A new file with mode 0600, which gets the name of the database when `begin` has made it one. The name is
/// durable after [`sync`].
pub(super) fn new_database<T>(
    folder: &Path,
    begin: impl FnOnce(File) -> Result<T, Error>,
) -> Result<T, Error> {
    let (path, new) = (database(folder), folder.join("state.new"));
    let disk = |e| Error::disk(&new, e);
    match fs::remove_file(&new) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(disk(e)),
        _ => {}
    }
    let file = host::private_file().read(true).write(true).create_new(true).open(&new).map_err(disk)?;
    let begun = begin(file)?;
    fs::rename(&new, &path).map_err(|e| Error::disk(&path, e))?;
    Ok(begun)
}

/// Makes the entries of a folder durable.
pub(super) fn sync(folder: &Path) -> Result<(), Error> {
    host::sync_folder(folder).map_err(|e| Error::disk(folder, e))
}

/// The entries of a folder.
pub(super) fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.map(|e| Ok(e?.path())).collect());
    entries.map_err(|e| Error::disk(folder, e))
}

/// Sets the mode of a folder that is empty or holds a state to 0700. The mode of any other folder is not
/// changed.
#[cfg(unix)]
fn make_private(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    let disk = |e| Error::disk(folder, e);
    let metadata = fs::metadata(folder).map_err(disk)?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let ours = database(folder).is_file() || list(folder)?.is_empty();
    let private = fs::Permissions::from_mode(0o700);
    if !ours || fs::set_permissions(folder, private).is_err() {
        return Err(Error::FolderIsShared { folder: folder.to_owned(), mode });
    }
    tracing::info!(folder = %folder.display(), "had mode {mode:o}: it is now readable by its owner alone");
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> Result<(), Error> {
    Ok(())
}
