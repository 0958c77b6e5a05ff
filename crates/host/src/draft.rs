//! Files that are written whole or not at all.

use crate::{Undone, os_rng, sync_folder_of};
use rand::Rng;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The longest name that its draft is named by, so that both fit 255 bytes.
const LONGEST: usize = 200;

/// A file that gets its name when it is complete, in place of a file of that name. Until then it stands
/// beside it as `.NAME.RANDOM.part`, a name that nobody can guess, and of a file that did not exist: who may
/// write to the folder can put no file or link of their own there. If this is dropped before, or a signal
/// ends the process ([`crate::undo_on_signals`]), the draft is removed. What is no file, such as
/// `/dev/stdout`, is written at once.
#[derive(Debug)]
pub struct Draft {
    file: File,
    part: Option<Part>,
}

/// The name of a draft, the name that it gets, and its removal by a signal.
#[derive(Debug)]
struct Part {
    draft: PathBuf,
    path: PathBuf,
    _undone: Undone,
}

impl Draft {
    /// Creates the draft of `path`.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::with(path, File::options())
    }

    /// As [`Self::create`], readable for the owner alone ([`crate::private_file`]).
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn create_private(path: &Path) -> io::Result<Self> {
        Self::with(path, crate::private_file())
    }

    fn with(path: &Path, mut options: std::fs::OpenOptions) -> io::Result<Self> {
        options.write(true).create_new(true);
        // A link stays, and the file that it names is replaced, or made.
        let named = || path.read_link().map(|to| path.with_file_name(to));
        let path = path.canonicalize().or_else(|_| named()).unwrap_or_else(|_| path.into());
        let before = path.metadata().ok();
        if before.as_ref().is_some_and(|before| !before.is_file()) {
            return Ok(Draft { file: File::options().write(true).open(path)?, part: None });
        }
        let Some(name) = path.file_name() else { return Err(io::ErrorKind::IsADirectory.into()) };
        let mut hidden = OsString::from(".");
        if name.len() <= LONGEST {
            hidden.push(name);
        }
        let random = os_rng().map_err(io::Error::other)?.next_u64();
        hidden.push(format!(".{random:016x}.part"));
        let draft = path.with_file_name(hidden);
        let of_signal = draft.clone();
        let create = || Ok::<_, io::Error>((options.open(&draft)?, move || remove(&of_signal)));
        let (file, undone) = Undone::after(create)?;
        #[cfg(unix)]
        if let Some(before) = before {
            // Whom the file was kept from does not read what is put in its place.
            use std::os::unix::fs::PermissionsExt;
            let mode = file.metadata()?.permissions().mode() & before.permissions().mode();
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        }
        Ok(Draft { file, part: Some(Part { draft, path, _undone: undone }) })
    }

    /// The draft, to write into.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes the content durable and gives the file its name.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn finish(mut self) -> io::Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        self.file.sync_all()?;
        std::fs::rename(&part.draft, &part.path)?;
        sync_folder_of(&part.path)?;
        self.part = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            remove(&part.draft);
        }
    }
}

/// Writes `content` to the file `path`, whole or not at all.
///
/// # Errors
/// Those of the operating system.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = Draft::create(path)?;
    io::Write::write_all(&mut draft.file(), content)?;
    draft.finish()
}

/// As [`write_whole`], readable for the owner alone.
///
/// # Errors
/// Those of the operating system.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = Draft::create_private(path)?;
    io::Write::write_all(&mut draft.file(), content)?;
    draft.finish()
}

/// Removes a file. A failure cannot be reported where this is used: an error or a signal led there.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let folder = std::env::temp_dir().join(format!("host-draft-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("file");
        write_whole(&path, b"first").unwrap();
        let draft = Draft::create(&path).unwrap();
        io::Write::write_all(&mut draft.file(), b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        drop(draft);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        write_whole(&path, b"third").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"third");
        assert!(Draft::create(&folder).is_err() && Draft::create(&folder.join("no/file")).is_err());
        #[cfg(unix)]
        {
            write_whole(Path::new("/dev/null"), b"nothing").unwrap();
            assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
            let link = folder.join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            write_whole(&link, b"through a link").unwrap();
            assert!(link.is_symlink() && std::fs::read(&path).unwrap() == b"through a link");
            std::fs::remove_file(&path).unwrap();
            write_whole(&link, b"anew").unwrap();
            assert!(link.is_symlink() && std::fs::read(&path).unwrap() == b"anew");
            let long = folder.join("n".repeat(255));
            write_whole(&long, b"long").unwrap();
            assert_eq!(std::fs::read(&long).unwrap(), b"long");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// What replaces a private file is as private.
    #[cfg(unix)]
    #[test]
    fn attack_what_replaces_a_private_file_is_read_by_nobody_else() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.csv");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        std::fs::write(&path, b"first").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!((mode(), std::fs::read(&path).unwrap()), (0o600, b"second".to_vec()));
    }

    /// Whoever else may write to the folder puts a link in the place of the draft whose name follows from the
    /// process. The control writes through it, as drafts of such a name would.
    #[cfg(unix)]
    #[test]
    fn attack_a_draft_is_written_through_no_link() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, stolen) = (folder.path().join("identity"), folder.path().join("stolen"));
        std::fs::write(&stolen, b"").unwrap();
        let guessed = folder.path().join(format!(".identity.{}.part", std::process::id()));
        std::os::unix::fs::symlink(&stolen, &guessed).unwrap();
        write_private(&path, b"secret").unwrap();
        assert!(!path.is_symlink() && std::fs::read(&stolen).unwrap().is_empty());
        assert_eq!(std::fs::read(&path).unwrap(), b"secret");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut control =
            crate::private_file().write(true).create(true).truncate(true).open(&guessed).unwrap();
        io::Write::write_all(&mut control, b"secret").unwrap();
        assert_eq!(std::fs::read(&stolen).unwrap(), b"secret");
        // Of two drafts of one file each has a name of its own, which is not that of the last run.
        let names: Vec<_> =
            (0..2).map(|_| Draft::create(&path).unwrap().part.as_ref().unwrap().draft.clone()).collect();
        assert_ne!(names[0], names[1]);
    }
}
