//! A member serves: it asks the server what is to be computed, and answers.

use super::keygen::{KEYS_FILE, MANIFEST_FILE};
use crate::Identity;
use anyhow::{Context, ensure};
use committee::member::{Kept, Member, Memory, Secrets};
use committee::prepare::Identity as Known;
use committee::{Error, MemberKeys};
use shares::SignedManifest;
use shares::talk::{
    BanditId, Checkpoint, FromMember, POLL, Poll, SignedPoll, ToMember, from_bytes, polled, to_bytes,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use user_client::{Client, Error as ClientError, Stop, os_rng};

/// The folder of what a member remembers, in its own.
pub(super) const MEMORY_FOLDER: &str = "memory";
/// The most bytes that a member is told at a time.
const MOST_TOLD: usize = 96 << 20;
/// The seconds for which the server lets a member wait, and some more.
const WAIT: u64 = 40;
/// The time between two tries to reach the server.
const PAUSE: Duration = Duration::from_millis(500);
/// What a member keeps of a bandit is below this.
const MOST_KEPT: u64 = 1 << 20;

/// What a member remembers, a file for each bandit, and the lock on the folder: of two processes of one
/// member each would refuse what the server tells the other one.
struct Files {
    folder: PathBuf,
    _lock: File,
}

impl Files {
    fn open(folder: &Path, restored: bool) -> anyhow::Result<(Self, BTreeMap<BanditId, Kept>)> {
        let folder = folder.join(MEMORY_FOLDER);
        // Key generation makes it.
        ensure!(
            restored || folder.exists(),
            "{} is missing: this member has lost what it remembers; start it once with --restored, and it hears from the others first",
            folder.display()
        );
        host::private_folder(&folder)?;
        let path = folder.join("lock");
        let lock = host::private_file().write(true).create(true).truncate(false).open(&path);
        let lock = lock.with_context(|| path.display().to_string())?;
        ensure!(
            host::lock_file(&lock).is_ok(),
            "another process serves this member from {}: end it first",
            folder.display()
        );
        let mut kept = BTreeMap::new();
        for file in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = file?.path();
            if path.extension().is_none_or(|extension| extension != "kept") {
                continue;
            }
            let bytes = crate::identity::read_private(&path, MOST_KEPT)
                .with_context(|| path.display().to_string())?;
            let (bandit, of): (BanditId, Kept) = from_bytes(&bytes).with_context(|| {
                format!(
                    "{} is damaged: remove it, and start this member once with --restored",
                    path.display()
                )
            })?;
            kept.insert(bandit, of);
        }
        Ok((Files { folder, _lock: lock }, kept))
    }
}

impl Memory for Files {
    fn save(&mut self, bandit: &BanditId, kept: &Kept) -> Result<(), Error> {
        let path = self.folder.join(format!("{}.kept", ckks::Hex(bandit)));
        let bytes = to_bytes(&(bandit, kept))?;
        // The draft is flushed before it takes the file's place.
        host::write_private(&path, &bytes)
            .map_err(|error| Error::Memory(format!("{}: {error}", path.display())))
    }
}

/// A member that is ready to serve.
pub struct Served {
    member: Member<Files>,
    identity: Identity,
    committee: [u8; 32],
    client: Client,
}

impl Served {
    /// The member of a folder of keys. `restored` if the folder comes from a backup, or what it remembers is
    /// lost: the member then takes part once it has heard from enough others.
    ///
    /// # Errors
    /// For files that are missing, damaged, or not of this identity.
    pub fn open(folder: &Path, identity: Identity, client: Client, restored: bool) -> anyhow::Result<Self> {
        let path = folder.join(MANIFEST_FILE);
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let manifest = SignedManifest::from_bytes(&bytes).with_context(|| path.display().to_string())?;
        let path = folder.join(KEYS_FILE);
        let bytes =
            crate::identity::read_private(&path, 1 << 16).with_context(|| path.display().to_string())?;
        let keys = MemberKeys::from_bytes(&bytes, &manifest).with_context(|| path.display().to_string())?;
        let cards = &manifest.manifest.proposal.cards;
        let own = cards.get(usize::from(keys.member()) - 1);
        let fits = own.is_some_and(|card| card.signing == identity.signing.public());
        ensure!(fits, "{} is of another member than the identity", path.display());
        let known = Known {
            signing: envelope::SigningSecret::from_bytes(&identity.signing.to_bytes()),
            members: cards.iter().map(|card| card.signing.clone()).collect(),
        };
        let secrets = Secrets {
            keys: Arc::new(keys),
            identity: Arc::new(known),
            sealing: envelope::SealingSecret::from_bytes(&identity.sealing.to_bytes())?,
        };
        let committee = manifest.manifest.id();
        let member = Member::new(secrets, &manifest.manifest, Files::open(folder, restored)?, &mut os_rng()?);
        let member = if restored { member.restored()? } else { member };
        Ok(Served { member, identity, committee, client })
    }

    /// The member, which leaves for the committee of this manifest.
    ///
    /// # Errors
    /// For a committee that does not follow this one, or whose members have not all signed the manifest.
    pub fn leaving_for(mut self, next: &SignedManifest) -> anyhow::Result<Self> {
        self.member = self.member.moving(next, os_rng()?)?;
        Ok(self)
    }

    /// Its number.
    pub fn number(&self) -> u8 {
        self.member.number()
    }

    /// The committee's id.
    pub fn committee(&self) -> &[u8; 32] {
        &self.committee
    }
}

/// Serves until it is stopped, or the committee has moved to another one. `log` gets a line for what an
/// operator wants to know.
///
/// # Errors
/// None for what a server answers: it is asked again.
pub fn serve(mut served: Served, stop: &Stop, log: &dyn Fn(&str)) -> anyhow::Result<()> {
    let (number, nonce) = (served.number(), served.member.nonce());
    let path = format!("committee/members/{number}/rounds");
    let (mut after, mut first, mut said) = (0u64, 0u64, Vec::<FromMember>::new());
    let mut reached = true;
    while !stop.is_stopped() {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let poll = to_bytes(&Poll { time, nonce, after, first, said: said.clone() })?;
        let signed = polled(&served.committee, number, &poll);
        let signature = served.identity.signing.sign(POLL, &signed).to_vec();
        let body = to_bytes(&SignedPoll { poll, signature })?;
        let told = served.client.exchange(&path, &body, MOST_TOLD, WAIT);
        let told = told.map_err(anyhow::Error::from).and_then(|bytes| {
            let told: Vec<(u64, Vec<u8>)> = from_bytes(&bytes)?;
            Ok(told)
        });
        match told {
            Ok(told) => {
                if !reached {
                    log("the server answers again");
                }
                reached = true;
                first += said.len() as u64;
                said.clear();
                for (number, message) in told {
                    after = after.max(number);
                    // What cannot be read is of no effect: the server leaves this member out.
                    let Ok(message) = from_bytes::<ToMember>(&message) else { continue };
                    match &message {
                        ToMember::Checkpoint(checkpoint, ..) => {
                            let Checkpoint { number, feedbacks, .. } = **checkpoint;
                            log(&format!("update {number} with {feedbacks} feedbacks"));
                        }
                        ToMember::Take(..) => log("takes a bandit over"),
                        ToMember::Arrived(..) => log("the committee before has left: its bandits go on here"),
                        _ => {}
                    }
                    let answers = served.member.take(message);
                    for answer in &answers {
                        match answer {
                            FromMember::Ended { why, .. } | FromMember::Refused { why, .. } => {
                                log(&format!("refused: {why}"));
                            }
                            FromMember::Dealt { .. } => log("has dealt its shares of a model"),
                            FromMember::Left { to, .. } => {
                                log(&format!("has left for committee {}", ckks::Hex(to)));
                            }
                            _ => {}
                        }
                    }
                    said.extend(answers);
                }
            }
            Err(error) if has_moved(&error) => {
                log(&format!("{error:#}"));
                return Ok(());
            }
            Err(error) => {
                if reached {
                    log(&format!("{error:#}; asking again"));
                }
                reached = false;
                std::thread::sleep(PAUSE);
            }
        }
    }
    Ok(())
}

/// Whether a server says that the committee has moved. A server that lies stops its members, as it could by
/// saying nothing.
fn has_moved(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<ClientError>();
    matches!(refused, Some(ClientError::Refused(problem)) if problem.reason.as_deref() == Some("committee_moved"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_serves_a_member() {
        let folder = tempfile::TempDir::new().unwrap();
        let open = || Files::open(folder.path(), true).map(drop);
        let first = Files::open(folder.path(), true).unwrap();
        assert!(open().unwrap_err().to_string().starts_with("another process serves this member"));
        drop(first);
        open().unwrap();
    }
}
