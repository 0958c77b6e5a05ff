//! A device of a user of a committee: it makes requests and feedback, and reads its arms. It does no I/O.

use crate::session::Nonce;
use crate::talk::{Answered, Definition, RECEIPT, Signatures, decision_label, from_bytes, receipt, to_bytes};
use crate::{Error, Key, Manifest, Pads, Request, Row, SessionSecret, Sharing, SignedManifest};
use rand::CryptoRng;
use serde::Deserialize;
use std::collections::BTreeSet;
use zeroize::Zeroizing;

/// The bytes of a session that is kept.
const KEPT_BYTES: usize = 96;

/// A session as a device keeps it: the id of the committee with which it has begun, and what
/// [`SessionSecret::to_bytes`] has of it. It is secret: whoever has it reads the arms of the session, and
/// returns and erases its feedback. It serves after moves of the committee too.
#[derive(Clone)]
pub struct KeptSession(Zeroizing<[u8; KEPT_BYTES]>);

impl KeptSession {
    /// Reads what [`Self::bytes`] wrote. `None` for bytes of another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(KeptSession(Zeroizing::new(bytes.try_into().ok()?)))
    }

    fn new(committee: &[u8; 32], session: &SessionSecret) -> Self {
        let mut bytes = Zeroizing::new([0; KEPT_BYTES]);
        bytes[..32].copy_from_slice(committee);
        bytes[32..].copy_from_slice(&*session.to_bytes());
        KeptSession(bytes)
    }

    /// The bytes to keep, where nobody else reads them.
    pub fn bytes(&self) -> &[u8] {
        &*self.0
    }

    /// The id of the committee with which it has begun.
    pub fn committee(&self) -> [u8; 32] {
        let mut id = [0; 32];
        id.copy_from_slice(&self.0[..32]);
        id
    }

    /// A key that follows from the session, for what its holder keeps.
    pub fn derive_key(&self, context: &'static str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(context, self.bytes()))
    }

    fn secret(&self, sharing: &Sharing) -> SessionSecret {
        let mut bytes = Zeroizing::new([0; 64]);
        bytes.copy_from_slice(&self.0[32..]);
        SessionSecret::from_bytes(sharing, &bytes)
    }

    /// What the session with another committee follows from.
    fn next(&self, committee: &[u8; 32]) -> Key {
        let next = Zeroizing::new([self.bytes(), committee].concat());
        Key::new(blake3::derive_key("helba 2026-11-28 session with the next committee", &next))
    }
}

/// A device with a session.
pub struct Device {
    sharing: Sharing,
    manifest: Manifest,
    session: SessionSecret,
    kept: KeptSession,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The arm, from 0.
    pub arm: usize,
    /// By what its feedback names it.
    pub label: [u8; 32],
    /// Its number.
    pub round: u64,
}

/// What a device reads of the configuration of a bandit.
#[derive(Deserialize)]
struct Bounded {
    /// L.
    l: f64,
}

impl Device {
    /// A device that begins a session, and what it sends for that. Compare the id of the manifest with
    /// somebody other than the server: it says who the members are.
    ///
    /// # Errors
    /// Those of [`SignedManifest::check`].
    pub fn begin<R: CryptoRng>(manifest: SignedManifest, rng: &mut R) -> Result<(Self, Vec<u8>), Error> {
        let sharing = manifest.check()?;
        let manifest = manifest.manifest;
        let (session, begins) = SessionSecret::open(&sharing, &manifest.id(), &sealing(&manifest), rng)?;
        let kept = KeptSession::new(&manifest.id(), &session);
        Ok((Device { sharing, manifest, session, kept }, to_bytes(&begins)?))
    }

    /// A device that goes on with a session that was kept. With another committee than the one that it has
    /// begun with, which must be one to which that one has moved ([`follow`](crate::moves::follow)), it goes
    /// on with the one session with this committee that follows from it. A server that does not know the
    /// session is told [`Device::begins`].
    ///
    /// # Errors
    /// Those of [`SignedManifest::check`].
    pub fn restore(manifest: SignedManifest, kept: &KeptSession) -> Result<Self, Error> {
        let sharing = manifest.check()?;
        let (manifest, id) = (manifest.manifest, kept.committee());
        let session = match manifest.id() {
            same if same == id => kept.secret(&sharing),
            next => SessionSecret::of(&sharing, &next, &sealing(&manifest), kept.next(&next))?.0,
        };
        Ok(Device { manifest, session, sharing, kept: kept.clone() })
    }

    /// What the device sends to begin its session, the same bytes each time: a server may have forgotten it.
    ///
    /// # Errors
    /// [`Error::Sealed`] for a bad key of the manifest.
    pub fn begins(&self) -> Result<Vec<u8>, Error> {
        let (id, keys) = (self.manifest.id(), sealing(&self.manifest));
        to_bytes(&SessionSecret::of(&self.sharing, &id, &keys, self.session.seed())?.1)
    }

    /// The id of the committee.
    pub fn committee(&self) -> [u8; 32] {
        self.manifest.id()
    }

    /// What the device keeps of its session, in secret. It is the same after moves.
    pub fn session(&self) -> &KeptSession {
        &self.kept
    }

    /// By what the server knows the session.
    pub fn session_id(&self) -> [u8; 32] {
        self.session.id()
    }

    /// Checks that enough members have read the session.
    ///
    /// # Errors
    /// [`Error::Message`] for bytes that are no receipts, [`Error::TooFew`].
    pub fn check_receipts(&self, bytes: &[u8]) -> Result<(), Error> {
        let receipts: Signatures = from_bytes(bytes)?;
        let signed = receipt(&self.manifest.id(), &self.session.id());
        let right = |(member, signature): &&(u8, Vec<u8>)| {
            let card =
                usize::from(*member).checked_sub(1).and_then(|at| self.manifest.proposal.cards.get(at));
            card.is_some_and(|card| envelope::verify(&card.signing, RECEIPT, &signed, signature).is_ok())
        };
        let members: BTreeSet<u8> =
            receipts.iter().take(64).filter(right).map(|(member, _)| *member).collect();
        let (here, need) = (members.len(), self.sharing.threshold().needed());
        if here < need { Err(Error::TooFew { here, need }) } else { Ok(()) }
    }

    /// A request for a decision: the features of each arm, none longer than the bandit's L.
    ///
    /// # Errors
    /// [`Error::Row`] for other features; [`Error::Message`] for another number of arms.
    pub fn request<R: CryptoRng>(
        &self,
        bandit: &Definition,
        contexts: &[Vec<f64>],
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let Bounded { l } = serde_json::from_str(&bandit.config).map_err(|_| Error::Message)?;
        if contexts.len() != usize::from(bandit.arms) {
            return Err(Error::Message);
        }
        let pads = Pads::new(&self.sharing, bandit.features.into())?;
        let mut row = |context: &Vec<f64>| {
            let scaled: Vec<f64> = context.iter().map(|x| x / l).collect();
            Row::new(&scaled, rng)
        };
        let rows: Vec<Row> = contexts.iter().map(&mut row).collect::<Result<_, _>>()?;
        let id = bandit.id(&self.manifest.id());
        Ok(self.session.request(&id, pads, &rows, rng)?.to_bytes())
    }

    /// Reads the answer to a request.
    ///
    /// # Errors
    /// [`Error::Message`] for the answer to another request; those of [`SessionSecret::arm`].
    pub fn open(&self, bandit: &Definition, request: &[u8], answer: &[u8]) -> Result<Decision, Error> {
        let asked = Request::from_bytes(request, self.sharing.threshold().members())?;
        let Answered { decision, round, place, answers } = from_bytes(answer)?;
        let nonce: Nonce = asked.nonce;
        let id = bandit.id(&self.manifest.id());
        let named = place.nonce == nonce
            && place.bandit == id
            && decision == decision_label(&place.run, place.position, &nonce);
        if !named {
            return Err(Error::Message);
        }
        let arm = self.session.arm(&self.sharing, &place, bandit.arms.into(), &answers)?;
        Ok(Decision { arm, label: decision, round })
    }

    /// The feedback on a decision: a reward between −1 and 1. A retry sends the same bytes.
    ///
    /// # Errors
    /// [`Error::Row`] for another reward.
    pub fn feedback<R: CryptoRng>(
        &self,
        decision: &[u8; 32],
        reward: f64,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let reward = Row::new(&[reward], rng)?;
        Ok(self.session.feedback(decision, &self.sharing, &reward, rng)?.to_bytes())
    }

    /// What has the feedback on a decision erased.
    pub fn erasure(&self, decision: &[u8; 32]) -> Vec<u8> {
        self.session.erasure(decision)
    }
}

/// What is sealed to the members of a manifest is under these keys.
fn sealing(manifest: &Manifest) -> Vec<Vec<u8>> {
    manifest.proposal.cards.iter().map(|card| card.sealing.clone()).collect()
}
