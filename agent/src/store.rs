//! The database of the state folder. All its values are sealed.
//!
//! A value is sealed by XChaCha20-Poly1305 under a key that is derived from the secret key, or from the
//! session with a committee, with a random nonce. Format, table, bandit, id and time are authenticated with
//! it. Whoever reads the file learns these, and the lengths of values, and nothing else.
//!
//! ```text
//! table  key         value
//! each   bandit, id  8 bytes time in seconds, 24 bytes nonce, sealed value with its tag
//! ```

use crate::Error;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use rand::CryptoRng;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The format of the values. Those of another format are refused.
const FORMAT: u8 = 7;
/// The context of the derivation of the key.
pub(crate) const CONTEXT: &str = "helba-agent 2026 pending decisions";
pub(crate) const TIME_BYTES: usize = 8;
pub(crate) const NONCE_BYTES: usize = 24;
/// Memory for pages of the database. Values are small.
const CACHE_BYTES: usize = 8 << 20;

/// A table, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Decisions that wait for feedback, and receipts.
    Pending = 0,
    /// Settings of bandits, under an empty id.
    Settings = 1,
    /// Numbers of bandits, under an empty id.
    Tallies = 2,
}

impl Table {
    const ALL: [Table; 3] = [Table::Pending, Table::Settings, Table::Tallies];

    fn definition(self) -> TableDefinition<'static, (&'static str, &'static [u8]), &'static [u8]> {
        TableDefinition::new(match self {
            Table::Pending => "pending",
            Table::Settings => "settings",
            Table::Tallies => "tallies",
        })
    }
}

/// A change of one value. `None` removes it.
pub(crate) struct Change {
    pub(crate) table: Table,
    pub(crate) bandit: String,
    pub(crate) id: Vec<u8>,
    pub(crate) sealed: Option<Vec<u8>>,
}

/// A value of a table: bandit, id, time, message.
pub(crate) type Row = (String, Vec<u8>, u64, Zeroizing<Vec<u8>>);

/// The time of a value, and its message.
type Timed = (u64, Zeroizing<Vec<u8>>);

/// The database of a folder, which no other process uses meanwhile.
pub(crate) struct Store {
    path: PathBuf,
    /// `None` after a failed transaction: the database takes no write then until it is opened again.
    database: Option<Database>,
    cipher: XChaCha20Poly1305,
    /// The lock of the folder. The database releases its own lock when it is opened again.
    _lock: File,
}

impl Store {
    /// Opens or creates the database in `folder`, with mode 0600. Its values are sealed under `key`.
    pub(crate) fn open(folder: &Path, key: &[u8; 32]) -> Result<Self, Error> {
        let path = Self::path_in(folder);
        let lock = lock(folder)?;
        // A database is never empty, and another one would begin in an empty file.
        if std::fs::metadata(&path).is_ok_and(|about| about.len() == 0) {
            return Err(Error::database(&path, redb::Error::Corrupted("it is empty".into())));
        }
        let cipher = XChaCha20Poly1305::new(key.into());
        let mut store = Store { path, database: None, cipher, _lock: lock };
        store.reopen()?;
        host::sync_folder(folder).map_err(|e| Error::disk(folder, e))?;
        Ok(store)
    }

    /// The file of a folder.
    pub(crate) fn path_in(folder: &Path) -> PathBuf {
        folder.join("pending.redb")
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the database must be opened again.
    pub(crate) fn is_closed(&self) -> bool {
        self.database.is_none()
    }

    /// Closes the database until [`Self::reopen`].
    pub(crate) fn close(&mut self) {
        self.database = None;
    }

    /// Opens the database again, as the last transaction that reached the disk left it.
    pub(crate) fn reopen(&mut self) -> Result<(), Error> {
        self.close();
        let mut options = host::private_file();
        let file = options.read(true).write(true).create(true).open(&self.path);
        let file = file.map_err(|e| Error::disk(&self.path, e))?;
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        #[cfg(not(test))]
        let opened = builder.create_file(file);
        #[cfg(test)]
        let opened = builder.create_with_backend(tests::FailingBackend::new(file));
        self.database = Some(opened.map_err(|e| Error::database(&self.path, e.into()))?);
        // The tables exist from then on.
        self.write(Durability::Immediate, &[])
    }

    /// Writes all changes in one transaction.
    pub(crate) fn write(&mut self, durability: Durability, changes: &[Change]) -> Result<(), Error> {
        let write = |database: &Database| -> Result<(), redb::Error> {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(durability)?;
            for table in Table::ALL {
                let mut open = transaction.open_table(table.definition())?;
                for Change { bandit, id, sealed, .. } in changes.iter().filter(|c| c.table == table) {
                    let key = (bandit.as_str(), id.as_slice());
                    match sealed {
                        Some(sealed) => open.insert(key, sealed.as_slice())?,
                        None => open.remove(key)?,
                    };
                }
            }
            Ok(transaction.commit()?)
        };
        let written = write(self.database()?);
        if written.is_err() {
            self.close();
        }
        written.map_err(|e| Error::database(&self.path, e))
    }

    /// The message of a value with its time.
    pub(crate) fn get(&self, table: Table, bandit: &str, id: &[u8]) -> Result<Option<Timed>, Error> {
        let read = |database: &Database| -> Result<_, redb::Error> {
            let open = database.begin_read()?.open_table(table.definition())?;
            Ok(open.get((bandit, id))?.map(|value| value.value().to_vec()))
        };
        let value = read(self.database()?).map_err(|e| Error::database(&self.path, e))?;
        value.map(|value| self.unseal(table, bandit, id, &value)).transpose()
    }

    /// Every value of a table.
    pub(crate) fn read(&self, table: Table) -> Result<Vec<Row>, Error> {
        let read = |database: &Database| -> Result<_, redb::Error> {
            let open = database.begin_read()?.open_table(table.definition())?;
            let mut values = Vec::new();
            for row in open.iter()? {
                let (key, value) = row?;
                let (bandit, id) = key.value();
                values.push((bandit.to_string(), id.to_vec(), value.value().to_vec()));
            }
            Ok(values)
        };
        let values = read(self.database()?).map_err(|e| Error::database(&self.path, e))?;
        let unseal = |(bandit, id, value): (String, Vec<u8>, Vec<u8>)| {
            let (time, message) = self.unseal(table, &bandit, &id, &value)?;
            Ok((bandit, id, time, message))
        };
        values.into_iter().map(unseal).collect()
    }

    /// The change that stores `message`.
    pub(crate) fn put<R: CryptoRng>(
        &self,
        table: Table,
        (bandit, id, time): (&str, &[u8], u64),
        message: &[u8],
        rng: &mut R,
    ) -> Result<Change, Error> {
        let mut nonce = [0; NONCE_BYTES];
        rng.fill_bytes(&mut nonce);
        let about = about(table, time, bandit, id);
        let sealed = self.cipher.encrypt((&nonce).into(), Payload { msg: message, aad: &about });
        let sealed = sealed.map_err(|_| Error::Broken("a value that is too long to be sealed"))?;
        let sealed = [&time.to_le_bytes()[..], &nonce, &sealed].concat();
        Ok(Change { table, bandit: bandit.into(), id: id.into(), sealed: Some(sealed) })
    }

    fn unseal(&self, table: Table, bandit: &str, id: &[u8], value: &[u8]) -> Result<Timed, Error> {
        let bad = || Error::Unsealable { path: self.path.clone() };
        let (time, value) = value.split_first_chunk::<TIME_BYTES>().ok_or_else(bad)?;
        let (nonce, sealed) = value.split_first_chunk::<NONCE_BYTES>().ok_or_else(bad)?;
        let time = u64::from_le_bytes(*time);
        let about = about(table, time, bandit, id);
        let message = self.cipher.decrypt(nonce.into(), Payload { msg: sealed, aad: &about });
        Ok((time, Zeroizing::new(message.map_err(|_| bad())?)))
    }

    fn database(&self) -> Result<&Database, Error> {
        self.database.as_ref().ok_or(Error::Broken("a database that is closed"))
    }
}

/// What is authenticated with a value. The name of the bandit may have any length.
fn about(table: Table, time: u64, bandit: &str, id: &[u8]) -> Vec<u8> {
    let length = u8::try_from(id.len()).unwrap_or(u8::MAX);
    [&[FORMAT, table as u8], &time.to_le_bytes()[..], &[length], id, bandit.as_bytes()].concat()
}

/// Locks the folder until the returned file is dropped.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let file = host::private_file().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|e| Error::disk(&path, e))?;
    match host::lock_file(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::StateInUse { path: folder.to_owned() }),
        Err(TryLockError::Error(e)) => Err(Error::disk(&path, e)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use redb::StorageBackend;
    use redb::backends::FileBackend;
    use std::cell::Cell;
    use std::fs::File;
    use std::io;

    thread_local! {
        /// How many times synchronising fails in this thread, after it has been done.
        static FAILING: Cell<u32> = const { Cell::new(0) };
    }

    /// Lets the next `times` synchronisations of this thread fail, after they have been done.
    pub(crate) fn fail(times: u32) {
        FAILING.set(times);
    }

    /// A file whose synchronisation fails when it is told to.
    #[derive(Debug)]
    pub(super) struct FailingBackend(FileBackend);

    impl FailingBackend {
        pub(super) fn new(file: File) -> Self {
            FailingBackend(FileBackend::new(file).unwrap())
        }
    }

    impl StorageBackend for FailingBackend {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.0.sync_data()?;
            match FAILING.get() {
                0 => Ok(()),
                times => {
                    FAILING.set(times - 1);
                    Err(io::Error::other("the disk does not answer"))
                }
            }
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.write(offset, data)
        }

        fn close(&self) -> io::Result<()> {
            self.0.close()
        }
    }
}
