//! Members draw the keys of a committee over a board.

use super::board::MOST_BYTES;
use super::serve::MEMORY_FOLDER;
use crate::Identity;
use anyhow::{Context, bail, ensure};
use committee::MemberKeys;
use committee::keygen::{MemberSecrets, contribute, gather};
use serde::{Deserialize, Serialize};
use shares::talk::{POLL, SignedPoll, from_bytes, polled, to_bytes};
use shares::{Proposal, SignedManifest};
use std::path::Path;
use std::time::{Duration, Instant};
use user_client::{Client, Error as ClientError, os_rng};

/// The file of a member's keys, in its folder.
pub const KEYS_FILE: &str = "member.shares";
/// The file of the manifest, in the same folder and at the server.
pub const MANIFEST_FILE: &str = "committee.manifest";
/// The seconds for which a request for a message waits.
const WAIT: u64 = 10;

/// The board, as a member sees it.
struct Run<'a> {
    client: &'a Client,
    proposal: &'a Proposal,
    member: u8,
    identity: &'a Identity,
    until: Instant,
}

impl Run<'_> {
    fn post(&self, round: u8, message: &impl Serialize) -> anyhow::Result<()> {
        let poll = to_bytes(message)?;
        let signed = polled(&self.proposal.id(), self.member, &[&[round], &poll[..]].concat());
        let signature = self.identity.signing.sign(POLL, &signed).to_vec();
        let body = to_bytes(&SignedPoll { poll, signature })?;
        Ok(self.client.submit(&format!("messages/{round}/{}", self.member), &body)?)
    }

    /// The messages of all others in a round.
    fn others<T: for<'de> Deserialize<'de>>(&self, round: u8) -> anyhow::Result<Vec<T>> {
        let members = 1..=self.proposal.threshold.members();
        members.filter(|other| *other != self.member).map(|other| self.message(round, other)).collect()
    }

    fn message<T: for<'de> Deserialize<'de>>(&self, round: u8, member: u8) -> anyhow::Result<T> {
        loop {
            let path = format!("messages/{round}/{member}?wait={WAIT}");
            match self.client.fetch(&path, MOST_BYTES, WAIT) {
                Ok(bytes) => {
                    let message = from_bytes(&bytes);
                    return message
                        .with_context(|| format!("the message of member {member} in round {round}"));
                }
                Err(ClientError::Refused(problem)) if problem.status == 404 => {}
                // The board may not be up yet, or may be restarted.
                Err(error) if Instant::now() > self.until => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
            ensure!(
                Instant::now() < self.until,
                "member {member} has left no message of round {round} in time"
            );
        }
    }
}

/// Draws the keys of a proposal with the others, and writes keys and manifest into `folder`.
///
/// # Errors
/// For a folder that has keys already, of this committee or another one. Those of the key generation, which
/// name who lies where that can be known; a new proposal is needed then.
pub fn make_keys(
    proposal: &Proposal,
    identity: &Identity,
    client: &Client,
    folder: &Path,
    patience: Duration,
) -> anyhow::Result<SignedManifest> {
    let secrets = MemberSecrets {
        sealing: envelope::SealingSecret::from_bytes(&identity.sealing.to_bytes())?,
        signing: envelope::SigningSecret::from_bytes(&identity.signing.to_bytes()),
    };
    let card = secrets.card();
    let own = proposal.cards.iter().position(|other| *other == card);
    let Some(own) = own else { bail!("the proposal does not name the member with this identity") };
    let member = own as u8 + 1;
    let kept = folder.join(KEYS_FILE);
    ensure!(
        !kept.exists(),
        "{} has the keys of a member, which nobody can make anew: name another folder",
        kept.display()
    );
    host::private_folder(folder)?;
    let until = Instant::now() + patience;
    let run = Run { client, proposal, member, identity, until };
    let (mut drawn, contribution) = contribute(proposal, member, &secrets, &mut os_rng()?)?;
    run.post(1, &contribution)?;
    let announcement = drawn.combine(&run.others(1)?, &secrets)?;
    run.post(2, &announcement)?;
    let (manifest, signature) = drawn.sign(&run.others(2)?, &secrets)?;
    run.post(3, &(member, &signature))?;
    let mut signatures: Vec<(u8, Vec<u8>)> = run.others(3)?;
    signatures.push((member, signature));
    let signed = gather(manifest, &signatures)?;
    let keys = drawn.finish(&signed)?;
    save(folder, &keys, &signed)?;
    Ok(signed)
}

fn save(folder: &Path, keys: &MemberKeys, signed: &SignedManifest) -> anyhow::Result<()> {
    let path = folder.join(KEYS_FILE);
    host::write_private(&path, &keys.to_bytes(&signed.manifest.id()))
        .with_context(|| path.display().to_string())?;
    host::private_folder(&folder.join(MEMORY_FOLDER))?;
    let path = folder.join(MANIFEST_FILE);
    host::write_whole(&path, &signed.to_bytes()).with_context(|| path.display().to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shares::Threshold;

    /// Keys for the next committee do not take the place of those of the committee before, without which that
    /// one loses a member for good. In the control the folder is empty, and the board is asked for.
    #[test]
    fn keys_of_a_member_are_not_replaced() {
        let folder = tempfile::TempDir::new().unwrap();
        let identities: Vec<Identity> = (0..3).map(|_| Identity::generate(&mut os_rng().unwrap())).collect();
        let cards = identities.iter().map(Identity::card).collect();
        let proposal =
            Proposal { threshold: Threshold::new(2, 3).unwrap(), cards, follows: None, nonce: [1; 32] };
        // A port that nobody listens on.
        let client = Client::new("http://127.0.0.1:1").unwrap();
        let make = || {
            let made = make_keys(&proposal, &identities[0], &client, folder.path(), Duration::ZERO);
            made.map(drop).unwrap_err().to_string()
        };
        let control = make();
        assert!(!control.contains("another folder"), "{control}");
        std::fs::write(folder.path().join(KEYS_FILE), b"keys").unwrap();
        let refused = make();
        assert!(refused.contains("another folder"), "{refused}");
        assert_eq!(std::fs::read(folder.path().join(KEYS_FILE)).unwrap(), b"keys");
    }
}
