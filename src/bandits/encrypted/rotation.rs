//! A bandit goes on under other keys: its committee moves what it has learnt, and a server with the other
//! keys takes it.
//!
//! ```text
//! DIR/ID.rotated    configuration, name, tags, event, BLAKE3 of all before; written whole
//! ```

use super::committee::{About, Combining, ask, wire_error};
use super::pool::blocking;
use super::state::{Live, stored};
use super::{EncryptedServed, Event, Shared};
use crate::committee::{Agreed, Committee, Errand, MOST_OWN_SETS, Share};
use crate::error::Error;
use crate::store;
use ckks::{Ciphertext, KeyId, Params};
use ckks_shares::{ActiveSet, RotationShare, rotate};
use helba::{Departing, EncryptedBandit};
use host::lock;
use protocol::BanditConfig;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::{
    Labels, Manifest, MemberReply, RotationEvidence, RotationShares, Wanted, read_opening, rotation_requests,
    rotations,
};

/// The pause between two looks at a bandit whose last batch is under way.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest time for which other bandits wait for the last batch of one.
const LAST_BATCH: Duration = Duration::from_secs(30);

/// The ids of other keys.
#[derive(Debug, Clone, Copy)]
struct NextIds {
    digest: [u8; 32],
    large: KeyId,
    scores: KeyId,
}

/// What members are asked for.
struct Rotating {
    about: About,
    next: NextIds,
    departing: Departing,
}

impl Rotating {
    fn next_id(&self, params: &Params) -> KeyId {
        if params == self.about.engine.deep().params() { self.next.large } else { self.next.scores }
    }

    fn c1_frame(&self, input: &Ciphertext) -> Vec<u8> {
        self.about.c1_frame(self.about.engine.deep().params(), input)
    }

    fn requests(&self, question: &[u8], set: ActiveSet) -> [[u8; 32]; 3] {
        let Departing { model, statistics, .. } = &self.departing;
        rotation_requests(question, set, [model.c1(), statistics.c1()])
    }
}

impl Combining for Rotating {
    /// The event that the bandit begins with under the other keys.
    type Combined = Event;

    fn combine(&self, Agreed { question, set, shares }: Agreed) -> Result<Event, Error> {
        let (maps, Departing { standing, model, statistics }) =
            (rotations(&self.about.exchanges, self.about.plan())?, &self.departing);
        let mut members: Vec<_> = shares
            .into_iter()
            .filter_map(|share| match share {
                Share::Rotation(shares, signed) => Some((shares.into_iter(), signed)),
                _ => None,
            })
            .collect();
        let mut frames = Vec::new();
        for (map, input) in maps.iter().zip([model, model, statistics]) {
            let own: Vec<RotationShare> =
                members.iter_mut().filter_map(|(shares, _)| shares.next()).collect();
            let moved = rotate(&**map, set, input, &own).map_err(wire_error)?;
            let (params, level) = map.target();
            let moved = moved.with_scale(params.scale(level));
            frames.push(ckks::write_ciphertext(params, self.next_id(params), &moved));
        }
        let [deep, scores, statistics_frame] =
            <[Vec<u8>; 3]>::try_from(frames).map_err(|_| Error::Broken("a rotation without a result"))?;
        let evidence = RotationEvidence {
            question,
            set: set.bits(),
            c1: [self.c1_frame(model), self.c1_frame(statistics)],
            shares: members.into_iter().map(|(_, signed)| signed).collect(),
        };
        let (standing, evidence) = (standing.to_bytes(), evidence.to_bytes());
        Ok(Event::Rotated { standing, deep, scores, statistics: statistics_frame, evidence })
    }
}

impl Errand for Rotating {
    fn question(&self, attempt: u32) -> Vec<u8> {
        let standing = self.departing.standing.to_bytes();
        self.about.question(attempt, Wanted::Rotation { next: self.next.digest, standing })
    }

    fn c1(&self) -> Vec<u8> {
        self.c1_frame(&self.departing.model)
    }

    fn evidence(&self) -> Vec<u8> {
        self.c1_frame(&self.departing.statistics)
    }

    fn read(
        &self,
        question: &[u8],
        set: ActiveSet,
        _member: u8,
        verifying: &[u8],
        reply: MemberReply,
    ) -> Result<Share, Error> {
        let maps = rotations(&self.about.exchanges, self.about.plan())?;
        // Of each transfer its forms, and the two polynomials of an encryption under the other keys.
        let (frames, signature) =
            reply.into_signed_frames(3 * maps.len(), verifying, &self.requests(question, set))?;
        let mut shares = Vec::new();
        for (map, own) in maps.iter().zip(frames.chunks(3)) {
            let (target, high) = map.target();
            let read = |bytes: &[u8]| ckks::read_polynomial(target, self.next_id(target), high, bytes);
            let down = read_opening(&map.forms().map_err(wire_error)?, &own[0])?;
            let up = Ciphertext::new(read(&own[1])?, read(&own[2])?, high, target.scale(high));
            shares.push(RotationShare { down, up });
        }
        let hashes = frames.iter().map(|frame| *blake3::hash(frame).as_bytes()).collect();
        let up = frames.into_iter().skip(2).step_by(3).collect();
        Ok(Share::Rotation(shares, RotationShares { hashes, up, signature }))
    }
}

impl EncryptedServed {
    /// Has the committee move the bandit to the keys of `next`, and writes its state under them into
    /// `folder`, with its labels. A file that is there already stays. Returns whether the bandit has moved:
    /// if not, its last batch waits, or members are missing or have failed, and the caller asks again after
    /// it has asked others. `tried` are the sets that were asked.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) async fn rotate(
        self: &Arc<Self>,
        committee: &Arc<Committee>,
        next: &Manifest,
        labels: &Labels,
        folder: &Path,
        tried: &mut Vec<ActiveSet>,
    ) -> Result<bool, Error> {
        let path = rotated(folder, &self.created.id);
        if path.exists() {
            return Ok(true);
        }
        let began = Instant::now();
        let departing = loop {
            let (departing, closes, given) = {
                let live = lock(&self.live);
                if live.deleted {
                    return Ok(true);
                }
                let given = live.last_given();
                let unknown = (given > live.bandit.last_given()).then_some(given);
                (live.bandit.departing(), live.bandit.closes_early(), unknown)
            };
            let event = match (departing, given) {
                // What moves has the number of decisions.
                (Some(_), Some(round)) => Some(Event::Given(round)),
                (Some(departing), None) => break departing,
                (None, _) => closes.then_some(Event::Closed),
            };
            if let Some(event) = event {
                let served = self.clone();
                let change = move || match served.change(&event) {
                    // It was deleted meanwhile, which the next look finds.
                    Err(Error::UnknownBandit { .. }) => Ok(()),
                    changed => changed.map(drop),
                };
                blocking(change).await?;
                continue;
            }
            if began.elapsed() > LAST_BATCH {
                tracing::warn!(bandit = self.created.id, "a rotation waits for the last batch");
                return Ok(false);
            }
            self.update_if_due();
            self.ask_committee(committee.clone());
            tokio::time::sleep(PAUSE).await;
        };
        let next = NextIds {
            digest: next.rotation_digest(),
            large: next.key_id.parse()?,
            scores: next.scores.key_id.parse()?,
        };
        let about = self.about(departing.standing.task());
        let event = match ask(committee, Rotating { about, next, departing }, (tried, MOST_OWN_SETS)).await {
            Ok(event) => event,
            Err(error @ (Error::MembersMissing { .. } | Error::CommitteeFailed { .. })) => {
                tracing::warn!(bandit = self.created.id, %error, "a rotation waits for members");
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let config = serde_json::to_vec(&self.created.config)
            .map_err(|_| Error::Broken("a configuration that cannot be serialised"))?;
        let mut bytes = postcard::to_stdvec(&(config, &labels.name, &labels.tags, event.to_bytes()?))
            .map_err(|_| Error::Broken("a bandit that cannot be serialised"))?;
        let digest = blake3::hash(&bytes);
        bytes.extend(digest.as_bytes());
        let served = self.clone();
        blocking(move || {
            // A bandit that was deleted while members answered does not come back.
            let live = lock(&served.live);
            if live.deleted {
                return Ok(true);
            }
            store::write_private(&path, &bytes)?;
            tracing::info!(bandit = served.created.id, "moved to other keys");
            Ok(true)
        })
        .await
    }

    /// Refuses what would be lost because the bandits of this server move to other keys.
    ///
    /// # Errors
    /// [`Error::Overloaded`].
    pub(crate) fn check_stays(&self) -> Result<(), Error> {
        self.shared.check_stays()
    }

    /// Removes what [`Self::rotate`] wrote of this bandit, which is about to be deleted. The caller holds
    /// `live`, under which it is written.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn remove_rotated(&self) -> Result<(), Error> {
        let Some(folder) = lock(&self.shared.moves_to).clone() else { return Ok(()) };
        let path = rotated(&folder, &self.created.id);
        match std::fs::remove_file(&path).and_then(|()| host::sync_folder_of(&path)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::disk(&path, error)),
            _ => Ok(()),
        }
    }

    /// Creates the bandit `id` with the state that [`Self::rotate`] wrote to `path`, after `keep` has kept
    /// its labels. One that has it already stays as it is. The file is removed then, so that a bandit that is
    /// deleted later does not come back.
    ///
    /// # Errors
    /// [`Error::CorruptState`] for other bytes, or a state under other keys; those of the disk and of `keep`.
    pub(super) fn take_rotated(
        id: &str,
        path: &Path,
        shared: &Shared,
        keep: impl Fn(&str, &Labels) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let corrupt =
            |why: &str| Error::CorruptState { bandit: id.into(), folder: path.into(), why: why.into() };
        let bytes = std::fs::read(path).map_err(|e| Error::disk(path, e))?;
        let (body, digest) = bytes.split_last_chunk::<32>().ok_or_else(|| corrupt("it is too short"))?;
        if blake3::hash(body).as_bytes() != digest {
            return Err(corrupt("its digest does not match"));
        }
        let (config, name, tags, event) =
            postcard::from_bytes::<(Vec<u8>, Option<String>, Vec<String>, Vec<u8>)>(body)
                .map_err(|_| corrupt("it is no bandit under other keys"))?;
        let config: BanditConfig =
            serde_json::from_slice(&config).map_err(|_| corrupt("its configuration cannot be read"))?;
        config.check_committee()?;
        let (engine, event) = (&shared.engine, Event::from_bytes(&event)?);
        let mut live = match shared.root.join(id).exists() {
            true => Live::load(&shared.root, id, engine, shared.keep_log)?,
            false => {
                let mut secret = [0; 32];
                rand::Rng::fill_bytes(&mut host::os_rng()?, &mut secret);
                let bandit = EncryptedBandit::create(engine, config, secret)?;
                Live::create(&shared.root, id, engine, bandit, shared.keep_log)?
            }
        };
        // A process that ended between the two has the bandit without its state.
        if live.is_empty() {
            keep(id, &Labels { name, tags })?;
            live.change(engine, &event)?.ticket.wait()?;
        }
        let removed = std::fs::remove_file(path).and_then(|()| host::sync_folder_of(path));
        removed.map_err(|e| Error::disk(path, e))
    }
}

impl Shared {
    /// The bandits move into `folder` from now on. What arrives after this is refused.
    pub(in crate::bandits) fn begin_moving(&self, folder: &Path) {
        *lock(&self.moves_to) = Some(folder.to_path_buf());
    }

    /// As [`EncryptedServed::check_stays`].
    pub(in crate::bandits) fn check_stays(&self) -> Result<(), Error> {
        if lock(&self.moves_to).is_none() { Ok(()) } else { Err(Error::Overloaded) }
    }
}

/// The file of the bandit `id` in the folder of those that have moved.
fn rotated(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.rotated"))
}

/// Takes the bandits in `folder` ([`EncryptedServed::take_rotated`]).
///
/// # Errors
/// As there.
pub(crate) fn take_all(
    folder: &Path,
    shared: &Shared,
    keep: impl Fn(&str, &Labels) -> Result<(), Error>,
) -> Result<(), Error> {
    let disk = |e| Error::disk(folder, e);
    // What a creation left that was interrupted is in the way of the next one.
    stored(&shared.root)?;
    for entry in std::fs::read_dir(folder).map_err(disk)? {
        let path = entry.map_err(disk)?.path();
        let (Some(id), Some("rotated")) =
            (path.file_stem().and_then(|id| id.to_str()), path.extension().and_then(|e| e.to_str()))
        else {
            continue;
        };
        EncryptedServed::take_rotated(id, &path, shared, &keep)?;
    }
    Ok(())
}
