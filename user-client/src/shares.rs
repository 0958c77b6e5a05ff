//! A user of a committee on shares, over HTTP.

use crate::{Client, Error, os_rng};
use shares::{Decision, Device, SignedManifest};
use wire::SharesCreated;

/// The most bytes of a manifest, and of receipts.
const MOST_MANIFEST: usize = 1 << 16;
/// The seconds that members have for a decision or a receipt.
const WAIT: u64 = 90;

/// A device with a session, and the server that carries its messages.
pub struct SharesUser {
    client: Client,
    device: Device,
}

impl SharesUser {
    /// Begins a session with the committee of a server. `committee` is the committee's id, which its members
    /// print: without it the server chooses who the members are.
    ///
    /// # Errors
    /// [`Error::BadAnswer`] for another committee, and for receipts that too few members have signed; those
    /// of the client.
    pub fn begin(client: Client, committee: Option<[u8; 32]>) -> Result<Self, Error> {
        let manifest = manifest(&client, committee)?;
        let (device, begins) = Device::begin(manifest, &mut os_rng()?).map_err(bad)?;
        let receipts = client.exchange("committee/sessions", &begins, MOST_MANIFEST, WAIT)?;
        device.check_receipts(&receipts).map_err(bad)?;
        Ok(SharesUser { client, device })
    }

    /// Goes on with a session ([`Device::session`]).
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn restore(client: Client, committee: Option<[u8; 32]>, session: &[u8; 64]) -> Result<Self, Error> {
        let manifest = manifest(&client, committee)?;
        Ok(SharesUser { client, device: Device::restore(manifest, session).map_err(bad)? })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Asks for a decision on the features of each arm.
    ///
    /// # Errors
    /// [`Error::BadAnswer`]; those of the client.
    pub fn decide(&self, bandit: &SharesCreated, contexts: &[Vec<f64>]) -> Result<Decision, Error> {
        let definition = bandit.definition().ok_or_else(|| Error::BadAnswer("an id that is none".into()))?;
        let request = self.device.request(&definition, contexts, &mut os_rng()?).map_err(bad)?;
        let path = format!("bandits/{}/decisions", bandit.id);
        let answer = self.client.exchange(&path, &request, MOST_MANIFEST, WAIT)?;
        self.device.open(&definition, &request, &answer).map_err(bad)
    }

    /// Sends the reward of a decision, between −1 and 1. It counts once.
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub fn feedback(&self, bandit: &SharesCreated, decision: &[u8; 32], reward: f64) -> Result<(), Error> {
        let feedback = self.device.feedback(decision, reward, &mut os_rng()?).map_err(bad)?;
        let label = ckks::Hex(decision);
        self.client.submit(&format!("bandits/{}/decisions/{label}/feedback", bandit.id), &feedback)
    }

    /// Has the feedback on a decision erased: with the end of the next batch the model has nothing of it.
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub fn erase(&self, bandit: &SharesCreated, decision: &[u8; 32]) -> Result<(), Error> {
        self.client.erase_shares(&bandit.id, decision, &self.device.erasure(decision))
    }
}

fn manifest(client: &Client, committee: Option<[u8; 32]>) -> Result<SignedManifest, Error> {
    let manifest = SignedManifest::from_bytes(&client.fetch("committee", MOST_MANIFEST, 0)?).map_err(bad)?;
    match committee {
        Some(id) if id != manifest.manifest.id() => {
            Err(Error::BadAnswer("the server has another committee than the one that was named".into()))
        }
        _ => Ok(manifest),
    }
}

fn bad(error: shares::Error) -> Error {
    Error::BadAnswer(error.to_string())
}
