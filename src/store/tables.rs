//! The tables of the state database, and transactions over them.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | name | format, key id, parameter fingerprint |
//! | `clear` | bandit | state of a bandit with a clear policy |
//! | `decisions` | bandit, decision | a decision that waits for feedback |
//! | `receipts` | bandit, decision | the answer to its feedback |
//! | `exchanges` | bandit, exchange | the answer to its batch |
//! | `keyed` | bandit, digest of caller and key | the answer to a decision that may be repeated |
//! | `labels` | bandit | name and tags of a bandit of either kind |
//! | `creations` | digest of caller and key | the answer to a creation that may be repeated |

use super::folder;
use super::rows::{StoredEdit, StoredRow};
use crate::error::Error;
use ckks::Hex;
use host::lock;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

type States = TableDefinition<'static, &'static str, &'static [u8]>;
type Keyed = TableDefinition<'static, (&'static str, &'static [u8]), &'static [u8]>;

const META: States = TableDefinition::new("meta");
const CLEAR: States = TableDefinition::new("clear");
const DECISIONS: Keyed = TableDefinition::new("decisions");
const RECEIPTS: Keyed = TableDefinition::new("receipts");
const EXCHANGES: Keyed = TableDefinition::new("exchanges");
const KEYED: Keyed = TableDefinition::new("keyed");
const ROWS: [Keyed; 4] = [DECISIONS, RECEIPTS, EXCHANGES, KEYED];
const LABELS: States = TableDefinition::new("labels");
const CREATIONS: States = TableDefinition::new("creations");
const COMMITTEE: States = TableDefinition::new("committee");

/// A key above all keys of rows, which have at most 16 bytes.
const AFTER_ALL_KEYS: &[u8] = &[u8::MAX; 17];
/// Memory for pages of the database. States and rows are small.
const CACHE_BYTES: usize = 16 << 20;

/// The database of a state folder.
pub(super) struct Tables {
    folder: PathBuf,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    /// `None` after a failed write, until the database is opened again.
    database: Option<Database>,
    /// The values before a failed transaction. It is unknown whether that transaction reached the disk, and
    /// memory has the values before it, so that the next transaction first writes these.
    before: Before,
}

/// Values before a transaction. `None` stands for a missing value.
#[derive(Default)]
struct Before {
    /// Table, key and value.
    values: Vec<(States, String, Option<Vec<u8>>)>,
    rows: Vec<RowBefore>,
}

struct RowBefore {
    /// Index in [`ROWS`].
    table: usize,
    bandit: String,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Before {
    fn is_empty(&self) -> bool {
        self.values.is_empty() && self.rows.is_empty()
    }

    /// Writes values, and keeps those before.
    fn write(
        &mut self,
        transaction: &redb::WriteTransaction,
        edits: &[NamedEdit],
    ) -> Result<(), redb::Error> {
        for NamedEdit { table, key, value } in edits {
            let old = write(transaction, table.table(), key, value.as_deref())?;
            self.values.push((table.table(), key.clone(), old));
        }
        Ok(())
    }

    /// Writes the values back. A repetition changes nothing.
    fn restore(&self, transaction: &redb::WriteTransaction) -> Result<(), redb::Error> {
        for (table, key, value) in &self.values {
            write(transaction, *table, key, value.as_deref())?;
        }
        for RowBefore { table, bandit, key, value } in &self.rows {
            let mut table = transaction.open_table(ROWS[*table])?;
            let key = (bandit.as_str(), key.as_slice());
            match value {
                Some(value) => table.insert(key, value.as_slice())?,
                None => table.remove(key)?,
            };
        }
        Ok(())
    }
}

/// The edits of one bandit in a commit.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    /// The whole state without its rows.
    pub(crate) state: Vec<u8>,
    /// Rows that are written or removed.
    pub(crate) decisions: Vec<StoredEdit>,
    pub(crate) receipts: Vec<StoredEdit>,
    pub(crate) exchanges: Vec<StoredEdit>,
    pub(crate) keyed: Vec<StoredEdit>,
}

/// A table of values that have one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// Name and tags by the id of the bandit.
    Labels,
    /// Creations by the digest of caller and key.
    Creations,
    /// What a committee has left, by the digits of its keys.
    Committee,
}

impl Named {
    fn table(self) -> States {
        match self {
            Named::Labels => LABELS,
            Named::Creations => CREATIONS,
            Named::Committee => COMMITTEE,
        }
    }
}

/// A value that a commit writes into a table, or removes if `value` is `None`.
#[derive(Debug, Clone)]
pub(crate) struct NamedEdit {
    pub(crate) table: Named,
    pub(crate) key: String,
    pub(crate) value: Option<Vec<u8>>,
}

/// A stored bandit.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Stored {
    pub(crate) id: String,
    pub(crate) state: Vec<u8>,
    pub(crate) decisions: Vec<StoredRow>,
    pub(crate) receipts: Vec<StoredRow>,
    pub(crate) exchanges: Vec<StoredRow>,
    pub(crate) keyed: Vec<StoredRow>,
}

impl Tables {
    /// Opens the database of `folder`, which the caller has locked.
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let database = open(folder)?;
        let slot = Slot { database: Some(database), before: Before::default() };
        Ok(Tables { folder: folder.to_owned(), slot: Mutex::new(slot) })
    }

    /// Checks that the database has this format and these keys. Both are written to an empty database.
    pub(super) fn check_meta(&self, format: u16, keys: Option<(&[u8], &[u8])>) -> Result<(), Error> {
        let mut wanted = vec![("format", format.to_le_bytes().to_vec())];
        if let Some((key, parameters)) = keys {
            wanted.extend([("key", key.to_vec()), ("parameters", parameters.to_vec())]);
        }
        let mut differs = None;
        self.transaction(|transaction, _| {
            let mut table = transaction.open_table(META)?;
            for (name, want) in &wanted {
                let found = table.get(*name)?.map(|v| v.value().to_vec());
                match found {
                    None => drop(table.insert(*name, want.as_slice())?),
                    Some(found) if found == *want => {}
                    Some(found) => differs = differs.take().or(Some((*name, found, want.clone()))),
                }
            }
            if differs.is_some() {
                return Ok(false);
            }
            for table in [CLEAR, LABELS, CREATIONS, COMMITTEE] {
                transaction.open_table(table)?;
            }
            for table in ROWS {
                transaction.open_table(table)?;
            }
            Ok(true)
        })?;
        match differs {
            None => Ok(()),
            Some(("format", got, _)) => {
                let got = got.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
                Err(Error::StateFormat { folder: self.folder.clone(), got, want: format })
            }
            Some((what, got, want)) => {
                let (got, want) = (Hex(&got).to_string(), Hex(&want).to_string());
                Err(Error::OtherKeys { folder: self.folder.clone(), what, got, want })
            }
        }
    }

    /// Every bandit with its rows.
    pub(super) fn read(&self) -> Result<Vec<Stored>, Error> {
        let slot = lock(&self.slot);
        let database = slot.database.as_ref().ok_or(Error::Broken("no database after it was opened"))?;
        let read = || -> Result<Vec<Stored>, redb::Error> {
            let transaction = database.begin_read()?;
            let rows = |table: Keyed| -> Result<BTreeMap<String, Vec<StoredRow>>, redb::Error> {
                let mut out = BTreeMap::<String, Vec<StoredRow>>::new();
                for row in transaction.open_table(table)?.iter()? {
                    let (key, value) = row?;
                    let (bandit, key) = key.value();
                    out.entry(bandit.into()).or_default().push((key.into(), value.value().into()));
                }
                Ok(out)
            };
            let (mut decisions, mut receipts) = (rows(DECISIONS)?, rows(RECEIPTS)?);
            let (mut exchanges, mut keyed) = (rows(EXCHANGES)?, rows(KEYED)?);
            let mut out = Vec::new();
            for row in transaction.open_table(CLEAR)?.iter()? {
                let (id, state) = row?;
                let (id, state) = (id.value().to_string(), state.value().to_vec());
                let of = |rows: &mut BTreeMap<_, _>| rows.remove(&id).unwrap_or_default();
                out.push(Stored {
                    state,
                    decisions: of(&mut decisions),
                    receipts: of(&mut receipts),
                    exchanges: of(&mut exchanges),
                    keyed: of(&mut keyed),
                    id,
                });
            }
            Ok(out)
        };
        read().map_err(|e| Error::database(&self.folder, e))
    }

    /// The values of a table by their keys.
    pub(super) fn read_named(&self, named: Named) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let slot = lock(&self.slot);
        let database = slot.database.as_ref().ok_or(Error::Broken("no database after it was opened"))?;
        let read = || -> Result<Vec<(String, Vec<u8>)>, redb::Error> {
            let mut out = Vec::new();
            for row in database.begin_read()?.open_table(named.table())?.iter()? {
                let (key, value) = row?;
                out.push((key.value().into(), value.value().into()));
            }
            Ok(out)
        };
        read().map_err(|e| Error::database(&self.folder, e))
    }

    /// Writes the edits of several bandits and of other tables in one transaction, which is durable when this
    /// returns. After an error, a restart finds all of the edits or none. If the process continues, the next
    /// transaction reverts them.
    pub(super) fn write(&self, bandits: &[(&str, Edits)], named: &[NamedEdit]) -> Result<(), Error> {
        self.transaction(|transaction, before| {
            before.write(transaction, named)?;
            for (id, edits) in bandits {
                let old = write(transaction, CLEAR, id, Some(&edits.state))?;
                before.values.push((CLEAR, id.to_string(), old));
                let rows = [&edits.decisions, &edits.receipts, &edits.exchanges, &edits.keyed];
                for (index, edits) in rows.into_iter().enumerate().filter(|(_, edits)| !edits.is_empty()) {
                    let mut table = transaction.open_table(ROWS[index])?;
                    for edit in edits {
                        let key = (*id, edit.key.as_slice());
                        let old = match &edit.value {
                            Some(value) => table.insert(key, value.as_slice())?,
                            None => table.remove(key)?,
                        };
                        let value = old.map(|v| v.value().to_vec());
                        let (bandit, key) = (id.to_string(), edit.key.clone());
                        before.rows.push(RowBefore { table: index, bandit, key, value });
                    }
                }
            }
            Ok(true)
        })
    }

    /// Removes a bandit and its rows, and writes the edits of other tables.
    pub(super) fn delete(&self, id: &str, named: &[NamedEdit]) -> Result<(), Error> {
        self.transaction(|transaction, before| {
            before.write(transaction, named)?;
            let old = write(transaction, CLEAR, id, None)?;
            before.values.push((CLEAR, id.into(), old));
            for (index, table) in ROWS.into_iter().enumerate() {
                let of_bandit = (id, &[][..])..(id, AFTER_ALL_KEYS);
                transaction.open_table(table)?.retain_in(of_bandit, |(_, key), value| {
                    let value = Some(value.into());
                    before.rows.push(RowBefore { table: index, bandit: id.into(), key: key.into(), value });
                    false
                })?;
            }
            Ok(true)
        })
    }

    /// Runs `write` in a transaction, and commits it if `write` returns true. `write` records the values that
    /// it overwrites.
    fn transaction(
        &self,
        write: impl FnOnce(&redb::WriteTransaction, &mut Before) -> Result<bool, redb::Error>,
    ) -> Result<(), Error> {
        let slot = &mut *lock(&self.slot);
        let database = match slot.database.take() {
            Some(database) => database,
            None => open(&self.folder)?,
        };
        let run = |before: &mut Before| -> Result<(), redb::Error> {
            if !before.is_empty() {
                let transaction = database.begin_write()?;
                before.restore(&transaction)?;
                transaction.commit()?;
                *before = Before::default();
            }
            let transaction = database.begin_write()?;
            match write(&transaction, before)? {
                true => transaction.commit()?,
                false => transaction.abort()?,
            }
            *before = Before::default();
            Ok(())
        };
        // The database accepts no write after a failed one. The slot stays empty, so that the next
        // transaction opens the database again.
        run(&mut slot.before).map_err(|error| Error::database(&self.folder, error))?;
        slot.database = Some(database);
        Ok(())
    }
}

/// Writes a value, or removes it, and returns the one before.
fn write(
    transaction: &redb::WriteTransaction,
    table: States,
    key: &str,
    value: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, redb::Error> {
    let mut table = transaction.open_table(table)?;
    let old = match value {
        Some(value) => table.insert(key, value)?,
        None => table.remove(key)?,
    };
    Ok(old.map(|old| old.value().to_vec()))
}

fn open(folder: &Path) -> Result<Database, Error> {
    let database = |file: File| {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        #[cfg(test)]
        let opened = builder.create_with_backend(super::tests::CountingBackend::new(file));
        #[cfg(not(test))]
        let opened = builder.create_file(file);
        opened.map_err(|e| Error::database(folder, e.into()))
    };
    match folder::database_file(folder)? {
        Some(file) => database(file),
        None => folder::new_database(folder, database),
    }
}
