//! The states of bandits on disk, after the last batch that was followed. A member that is started again
//! computes no update a second time.

use super::mirror::{Mirror, Seen, Unchecked};
use super::{MOST_BANDITS, Model};
use crate::serve::Error;
use ckks::Ciphertext;
use helba::{EncryptedBandit, Engine};
use protocol::BanditConfig;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Begins each file.
const MAGIC: &[u8; 4] = b"HMS2";

/// A folder with a file for each bandit, of the member's own making: what is in it was checked as the journal
/// was followed.
pub(super) struct States {
    folder: PathBuf,
}

/// A file: this, after [`MAGIC`], and BLAKE3 of both.
#[derive(Serialize, Deserialize)]
struct Stored {
    records: u64,
    hash: [u8; 32],
    batches: u64,
    /// The hashes of all feedbacks, by their rounds.
    feedbacks: Vec<(u64, [u8; 32])>,
    /// The rounds of those that are not checked, and how many records are before them.
    unchecked: Vec<(u64, u64)>,
    /// The last models: the number of their feedbacks, and a frame of the ring of scores.
    models: Vec<(u64, Vec<u8>)>,
    /// [`EncryptedBandit::to_bytes`].
    bandit: Vec<u8>,
}

impl States {
    pub(super) fn new(folder: PathBuf) -> Self {
        States { folder }
    }

    /// The file of a bandit, whose id comes from the server.
    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(blake3::hash(id.as_bytes()).to_hex().as_str())
    }

    /// Writes the state of a bandit. At most [`MOST_BANDITS`] files are kept, and the oldest goes first.
    ///
    /// # Errors
    /// [`Error::States`]; [`Error::Helba`].
    pub(super) fn save(
        &self,
        engine: &Engine,
        id: &str,
        (mirror, models): (&Mirror, &VecDeque<Model>),
    ) -> Result<(), Error> {
        let frame = |model: &Ciphertext| ckks::write_ciphertext(engine.params(), engine.key_id(), model);
        let Seen { unchecked, hashes, .. } = &mirror.seen;
        let stored = Stored {
            records: mirror.records,
            hash: mirror.hash,
            batches: mirror.batches,
            feedbacks: hashes.iter().map(|(round, hash)| (*round, *hash)).collect(),
            unchecked: unchecked.iter().map(|(round, feedback)| (*round, feedback.after)).collect(),
            models: models.iter().map(|(feedbacks, model)| (*feedbacks, frame(model))).collect(),
            bandit: mirror.bandit.to_bytes(engine)?,
        };
        let unwritten = |error| Error::States { path: self.folder.clone(), error };
        let mut bytes = postcard::to_extend(&stored, MAGIC.to_vec())
            .map_err(|error| unwritten(io::Error::other(error)))?;
        bytes.extend(blake3::hash(&bytes).as_bytes());
        // Who writes to it gives the member other states to compute again from.
        host::private_folder(&self.folder).map_err(unwritten)?;
        host::write_private(&self.path(id), &bytes).map_err(unwritten)?;
        self.remove_oldest().map_err(unwritten)
    }

    fn remove_oldest(&self) -> io::Result<()> {
        let mut all = Vec::new();
        for file in fs::read_dir(&self.folder)? {
            let file = file?;
            all.push((file.metadata()?.modified()?, file.path()));
        }
        all.sort_unstable();
        let more = all.len().saturating_sub(MOST_BANDITS);
        all.iter().take(more).try_for_each(|(_, path)| fs::remove_file(path))
    }

    /// The state that was saved last, if the member had followed the journal as far as it says in `noted`:
    /// `None` if there is none that can be read, and the journal is followed from its beginning.
    pub(super) fn load(
        &self,
        engine: &Engine,
        id: &str,
        config: &BanditConfig,
        noted: Option<(u64, [u8; 32])>,
    ) -> Option<(Mirror, VecDeque<Model>)> {
        let bytes = fs::read(self.path(id)).ok()?;
        let (content, hash) = bytes.split_last_chunk()?;
        if blake3::hash(content) != blake3::Hash::from_bytes(*hash) {
            return None;
        }
        let stored: Stored = postcard::from_bytes(content.strip_prefix(MAGIC)?).ok()?;
        let (records, hash) = noted?;
        if stored.records > records || (stored.records == records && stored.hash != hash) {
            return None;
        }
        let bandit = EncryptedBandit::from_bytes(engine, &stored.bandit).ok()?;
        if bandit.config() != config {
            return None;
        }
        let unchecked =
            stored.unchecked.into_iter().map(|(round, after)| (round, Unchecked { after, frame: None }));
        let (unchecked, hashes) = (unchecked.collect(), stored.feedbacks.into_iter().collect());
        let seen = Seen { unchecked, bytes: 0, hashes };
        let (records, hash, batches) = (stored.records, stored.hash, stored.batches);
        let (params, key) = (engine.params(), engine.key_id());
        let read = |(feedbacks, frame): (u64, Vec<u8>)| {
            let model = ckks::read_ciphertext(params, key, params.max_level(), &frame).ok()?;
            Some((feedbacks, Arc::new(model)))
        };
        let models = stored.models.into_iter().map(read).collect::<Option<_>>()?;
        Some((Mirror { bandit, seen, records, hash, batches }, models))
    }
}
