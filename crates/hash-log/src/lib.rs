//! An append-only log of records, chained by hashes, for many threads: what was acknowledged survives SIGKILL
//! and a loss of power at any point, and no record counts twice. The feedback of encrypted bandits is
//! appended, and snapshots elsewhere say up to which [`Head`] they contain it.
//!
//! ```ignore
//! let log = Log::create(folder, identity, 1 << 16, salt)?;
//! let head = log.append(b"a record")?.wait()?; // durable: it may be acknowledged
//! let boundary = log.rotate()?; // a new segment; make a durable snapshot up to `boundary`, and then:
//! log.remove_before(&boundary)?; // or keep the earlier segments for an audit
//! drop(log);
//! let (log, _) = Log::open(folder, identity, 1 << 16, &boundary, |head, record| state.apply(head, record))?;
//! ```
//!
//! For servers that need more durable rows a second than the disk synchronises. It is no database: records
//! are not found by a key, nor changed. To open it reads the segments from the snapshot on.
//!
//! # Format
//!
//! The log is a folder of segments. The name of a segment is the number of records before it, 20 digits, and
//! `.log`. All numbers are in little endian.
//!
//! | bytes | header of a segment |
//! |---|---|
//! | 8 | `hash-log` |
//! | 4 | version, 1 |
//! | 4 | length of the identity, at most 256 |
//! | 32 | salt, random, the same in all segments of a log |
//! | 48 | the [`Head`] where the segment starts: records, bytes, hash |
//! | … | identity: bytes of the caller, such as a bandit's id and the id of its keys |
//! | 32 | BLAKE3 of all these, with the context `hash-log 1 header of a segment` |
//!
//! Groups follow. A group is what was written and synchronised at once.
//!
//! | bytes | group |
//! |---|---|
//! | 4 | a5 `grp` |
//! | 4 | length of the body |
//! | 8 | records of the log before the group |
//! | 32 | the chain hᵢ after the last record of the group |
//! | 16 | check of these: BLAKE3 under the key of the segment, its first 16 bytes |
//! | … | body: of each record its length (4 bytes) and its bytes |
//!
//! h₀ is BLAKE3 of the identity with the context `hash-log 1 chain of records`, and hᵢ = BLAKE3(hᵢ₋₁ ‖ length
//! ‖ record), 32 bytes, since two logs with the same hash must have the same records. A group stores the last
//! hash alone: it is kept or cut as a whole, and readers compute the others. The check needs no resistance to
//! collisions, only to guesses, for which 16 bytes suffice. The key of a segment is BLAKE3 of its header,
//! keyed with the salt.
//!
//! A group without records is a *mark*: what was written before it was durable when it was written. The
//! writer adds one after a second without a request, when the log is opened or closed, and never two in a
//! row.
//!
//! # A torn group or damage
//!
//! Of a group that was not synchronised any part may be on the disk after a loss of power, in any order, and
//! the file may end anywhere within it. Such a group was never acknowledged and is cut off. Bytes that were
//! acknowledged and have changed must not be cut off in silence. What separates them:
//!
//! 1. The writer appends a group only when the one before is synchronised. Hence at most one group is not
//!    durable, the last that was written, and no byte of another group follows its header.
//! 2. Hence a group that is not as it was written is damaged, and not torn, if anything shows that a later
//!    one was written: a later segment, a valid header of a group anywhere behind it, bytes behind the end
//!    that its valid header states, more bytes than a group has, or a caller whose snapshot contains later
//!    records.
//! 3. A valid header cannot appear by chance nor by intent within a torn record. Its check needs the salt,
//!    which those who write records do not know. Nor can it appear by old blocks of the disk, since the key
//!    of each segment is its own.
//! 4. What remains is a group at the end that was acknowledged, changed later, and has nothing behind it.
//!    Marks make this window short. A log that was closed or idle for a second ends with a mark, so that a
//!    changed bit before the mark is damage, and one within the mark loses no record. In a log that was
//!    killed sooner, a change of its last group cannot be told from a torn one.
//! 5. A file that was cut at the end is a valid log, as is every older copy. The caller's snapshot sets the
//!    limit: a log that ends before it is refused.
//!
//! Departure from logs that delimit records: a record is delivered only when its group is complete, since a
//! record of a torn group may be complete while an earlier one is not.
//!
//! What is assumed of the disk: a sector that is written again with other bytes behind those that were
//! durable keeps the durable ones (the property that SQLite calls powersafe overwrite), and bytes are durable
//! once `fdatasync` has returned.
//!
//! # Failures
//!
//! A failed write or sync ends the log: each waiting and later record gets the error, until the log is opened
//! again. A sync is not tried twice, because on Linux the pages whose write failed may be taken for clean
//! afterwards, and a second `fsync` then returns success without having written them (Rebello et al. 2020,
//! "Can applications recover from fsync failures?"; PostgreSQL stops at such an error since 2019 for this
//! reason, see its setting `data_sync_retry`). For the same reason [`Log::open`] does not trust that what it
//! reads is on the disk: it writes the last complete group once more, and synchronises it.
//!
//! After an error a record may be stored or not. The caller finds out when it opens the log again, as after a
//! crash.

mod error;
mod format;
mod read;
mod write;

pub use error::Error;
pub use format::Head;
pub use read::{Replayed, replay};
pub use write::{Log, Ticket};
