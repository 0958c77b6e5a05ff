//! The keys under which the bandits of a committee go on, for its devices: its members sign them, and a
//! server with these keys hands them to devices of the committee before.
//!
//! ```text
//! ROTATED/handover.json   the manifest before, and the next one with the signatures of t members
//! STATE/successor         what devices get, from the users' bundle of the next keys (`wire::Successor`)
//! ```

use crate::committee::{Agreed, Committee, Errand, MOST_OWN_SETS, Share};
use crate::error::Error;
use crate::store;
use ckks::Params;
use ckks_shares::ActiveSet;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wire::{
    Handover, MOST_ATTEMPTS, Manifest, MemberReply, PublicBytes, Question, Successor, TokenDigest, Wanted,
};

/// The keys of a committee, and those that follow, which t of its members have signed.
#[derive(Serialize, Deserialize)]
struct Handed {
    before: Manifest,
    next: Manifest,
}

/// The signatures of the next keys that members are asked for.
struct Signing {
    epoch: usize,
    next: Manifest,
}

impl Errand for Signing {
    fn question(&self, attempt: u32) -> Vec<u8> {
        debug_assert_eq!(attempt / MOST_ATTEMPTS, self.epoch as u32);
        let wanted = Wanted::Handover { next: self.next.rotation_digest() };
        Question { bandit: String::new(), task: 0, attempt, wanted }.to_bytes()
    }

    fn c1(&self) -> Vec<u8> {
        Vec::new()
    }

    fn read(
        &self,
        _question: &[u8],
        _set: ActiveSet,
        member: u8,
        verifying: &[u8],
        reply: MemberReply,
    ) -> Result<Share, Error> {
        let (frames, signature) = reply.into_frames(1)?;
        if frames != [self.next.rotation_digest()] {
            return Err(wire::Error::Malformed("a signature of other keys").into());
        }
        self.next.check_rotation_signature(verifying, &signature)?;
        Ok(Share::Handover(Handover { member, signature: PublicBytes(signature) }))
    }
}

/// What t members answer to `errand` about `what`. Those who are not here, or do not answer, are waited for.
///
/// # Errors
/// Other errors of [`Committee::ask`].
async fn persistently<T, F: Future<Output = Result<T, Error>>>(
    committee: &Committee,
    what: &str,
    errand: Arc<dyn Errand>,
    combine: impl Fn(Agreed) -> F,
) -> Result<T, Error> {
    let mut tried = Vec::new();
    loop {
        match committee.ask(errand.clone(), (&mut tried, MOST_OWN_SETS), &combine).await {
            Err(error @ (Error::MembersMissing { .. } | Error::CommitteeFailed { .. })) => {
                tracing::warn!(what, %error, "a rotation waits for members");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            done => return done,
        }
    }
}

/// Has t members of the committee of `before` sign `next`, and writes their signatures into `folder`. What is
/// there already stays.
///
/// # Errors
/// Those of the disk. Members who are not here, or do not answer, are waited for.
pub(super) async fn collect(
    committee: &Committee,
    before: &Manifest,
    next: &Manifest,
    folder: &Path,
) -> Result<(), Error> {
    let path = folder.join("handover.json");
    if path.exists() {
        return Ok(());
    }
    let signing = Arc::new(Signing { epoch: committee.manifest().epoch(), next: next.clone() });
    let combine = |Agreed { shares, .. }: Agreed| async {
        let signed = shares.into_iter().filter_map(|share| match share {
            Share::Handover(signed) => Some(signed),
            _ => None,
        });
        Ok(signed.collect::<Vec<_>>())
    };
    let signed = persistently(committee, "the next keys", signing, combine).await?;
    let handed = Handed { before: before.clone(), next: next.clone().with_rotation(signed) };
    handed.next.check_rotation(before)?;
    let json = serde_json::to_vec(&handed).map_err(|_| Error::Broken("a manifest that cannot be written"))?;
    store::write_private(&path, &json)
}

/// What devices of the committee before get from a server.
pub(crate) struct Succession {
    /// The digest of their token.
    pub(crate) token: TokenDigest,
    /// The bytes of a [`Successor`].
    pub(crate) bytes: Vec<u8>,
}

impl Succession {
    /// That of the folder `state`, or at the first start with `given`, from the folder of moved bandits and
    /// the users' bundle of the keys `own`. `small` are the parameters of the ring of scores.
    ///
    /// # Errors
    /// [`Error::Succession`] for files of other keys; those of the disk.
    pub(super) fn open(
        state: &Path,
        given: Option<(&Path, &Path)>,
        own: &Manifest,
        small: &Params,
    ) -> Result<Option<Self>, Error> {
        let (path, limit) = (state.join("successor"), Successor::most_bytes(small));
        let bytes = match (path.exists(), given) {
            (false, None) => return Ok(None),
            (true, _) => std::fs::read(&path).map_err(|e| Error::disk(&path, e))?,
            (false, Some((rotated, users))) => {
                let bytes = Self::made(&rotated.join("handover.json"), users)?;
                store::write_private(&path, &bytes)?;
                bytes
            }
        };
        let bad = |why: String| Error::Succession { path: path.clone(), why };
        let Successor { before, users } = Successor::read(&bytes, limit).map_err(|e| bad(e.to_string()))?;
        if users.manifest.key_id != own.key_id {
            return Err(bad(format!(
                "it has key {}, and the server has {}",
                users.manifest.key_id, own.key_id
            )));
        }
        Ok(Some(Succession { token: before.token_digest, bytes }))
    }

    /// The bytes from the signatures in the file `handover`, and the users' bundle `users`.
    fn made(handover: &Path, users: &Path) -> Result<Vec<u8>, Error> {
        let read = |path: &Path| std::fs::read(path).map_err(|e| Error::disk(path, e));
        let bad = |path: &Path, why: String| Error::Succession { path: path.into(), why };
        let Handed { before, next } =
            serde_json::from_slice(&read(handover)?).map_err(|error| bad(handover, error.to_string()))?;
        Successor::write(&before, &next, &read(users)?).map_err(|error| bad(users, error.to_string()))
    }
}
