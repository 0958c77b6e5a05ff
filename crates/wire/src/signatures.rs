//! What the members of a committee sign of a manifest: their own keys, the epoch that they hand their shares
//! on to, and the keys under which bandits go on.

use crate::manifest::differs;
use crate::{
    CommitteeManifest, Custody, Error, Followed, Handover, Manifest, MemberManifest, PastEpoch, PublicBytes,
};
use std::collections::BTreeSet;

/// The domain of signatures of keys.
const KEYS_SIGNATURE: &str = "helba committee v1: keys";
/// The domain of signatures of members of the epoch after their own.
const HANDOVER_SIGNATURE: &str = "helba committee v1: next epoch";
/// The domain of signatures of keys under which bandits go on.
const ROTATION_SIGNATURE: &str = "helba committee v1: rotation";

impl Manifest {
    /// What the members of a committee sign: all but the signatures, and the numbers of frames, in which the
    /// public and the users' bundle differ.
    fn signed(&self) -> Vec<u8> {
        let mut signed = self.clone();
        (signed.frames, signed.scores.frames, signed.scores.answers.frames) = (0, 0, 0);
        if let Custody::Committee(committee) = &mut signed.custody {
            committee.signatures.clear();
            committee.before.iter_mut().for_each(|past| past.handover.clear());
            committee.follows.iter_mut().for_each(|followed| followed.epoch.handover.clear());
        }
        // Serialising plain data into memory does not fail.
        serde_json::to_vec(&signed).unwrap_or_default()
    }

    /// The hash of what the members of a committee sign.
    pub fn signed_digest(&self) -> [u8; 32] {
        *blake3::hash(&self.signed()).as_bytes()
    }

    /// The signature of a member of the committee.
    pub fn sign(&self, signing: &envelope::SigningSecret) -> Vec<u8> {
        signing.sign(KEYS_SIGNATURE, &self.signed()).to_vec()
    }

    /// The manifest with the signatures of the members of its committee.
    pub fn with_signatures(mut self, of_members: Vec<PublicBytes>) -> Self {
        if let Custody::Committee(committee) = &mut self.custody {
            committee.signatures = of_members;
        }
        self
    }

    /// Checks the signature of the member with this verifying key.
    ///
    /// # Errors
    /// [`Error::Envelope`].
    pub fn check_signature(&self, verifying: &[u8], signature: &[u8]) -> Result<(), Error> {
        Ok(envelope::verify(verifying, KEYS_SIGNATURE, &self.signed(), signature)?)
    }

    /// Checks that every member of the committee signed these keys, if one holds them, and that t members of
    /// each epoch before signed the one after it.
    ///
    /// # Errors
    /// [`Error::Manifest`] for another number of signatures than members, or fewer than t; as
    /// [`Self::check_signature`].
    pub fn check_signatures(&self) -> Result<(), Error> {
        let Custody::Committee(committee) = &self.custody else {
            return Ok(());
        };
        let CommitteeManifest { members, signatures, before, .. } = committee;
        if members.len() != signatures.len() {
            let (got, want) = (signatures.len().to_string(), format!("those of {} members", members.len()));
            return Err(differs("custody.signatures", &got, &want));
        }
        let check = |(member, signature): (&MemberManifest, &PublicBytes)| {
            self.check_signature(&member.verifying.0, &signature.0)
        };
        members.iter().zip(signatures).try_for_each(check)?;
        (0..).zip(before).try_for_each(|(epoch, past)| self.check_handover(committee, epoch, past))
    }

    /// Checks that t members of the epoch `past` signed the one after it.
    fn check_handover(
        &self,
        committee: &CommitteeManifest,
        epoch: usize,
        past: &PastEpoch,
    ) -> Result<(), Error> {
        let (want, mut signed) = (past.quorum()?.threshold(), BTreeSet::new());
        for Handover { member, signature } in &past.handover {
            let verifying = usize::from(*member).checked_sub(1).and_then(|at| past.verifying.get(at));
            let verifying = verifying.map_or(&[][..], |key| &key.0);
            let statement = self.next_epoch(committee, epoch + 1);
            envelope::verify(verifying, HANDOVER_SIGNATURE, &statement, &signature.0)?;
            signed.insert(member);
        }
        if signed.len() >= want.into() {
            return Ok(());
        }
        let want = format!("those of {want} members of epoch {epoch}");
        Err(differs("custody.before.handover", &signed.len().to_string(), &want))
    }

    /// What members of the epoch before sign of the epoch with this number: the keys, and who answers.
    fn next_epoch(&self, committee: &CommitteeManifest, number: usize) -> Vec<u8> {
        let CommitteeManifest { keys, wide_key, .. } = committee;
        let rings = [&self.fingerprint, &self.key_id, &self.scores.fingerprint, &self.scores.key_id];
        let epoch = committee.epoch_at(number);
        // Serialising plain data into memory does not fail.
        serde_json::to_vec(&(rings, &self.token_digest, keys, wide_key, number, epoch)).unwrap_or_default()
    }

    /// The signature of a member of the epoch before, by which it hands its share on to the committee of this
    /// manifest.
    pub fn sign_next_epoch(&self, signing: &envelope::SigningSecret) -> Vec<u8> {
        let statement = self.statement_of_epoch();
        signing.sign(HANDOVER_SIGNATURE, &statement).to_vec()
    }

    /// Checks the signature of [`Self::sign_next_epoch`].
    ///
    /// # Errors
    /// [`Error::Envelope`].
    pub fn check_next_epoch(&self, verifying: &[u8], signature: &[u8]) -> Result<(), Error> {
        Ok(envelope::verify(verifying, HANDOVER_SIGNATURE, &self.statement_of_epoch(), signature)?)
    }

    fn statement_of_epoch(&self) -> Vec<u8> {
        match &self.custody {
            Custody::Committee(committee) => self.next_epoch(committee, committee.epoch()),
            Custody::Holder => Vec::new(),
        }
    }

    /// The manifest with the signatures of members of the epoch before.
    pub fn with_handover(mut self, of_members: Vec<Handover>) -> Self {
        if let Custody::Committee(committee) = &mut self.custody
            && let Some(past) = committee.before.last_mut()
        {
            past.handover = of_members;
        }
        self
    }

    /// Checks that the committee of this manifest is `known`, or one of a later epoch that t members of
    /// `known`, and of each epoch between, have signed. The keys must be those of `known`.
    ///
    /// # Errors
    /// [`Error::OldEpoch`], [`Error::Epoch`].
    pub fn follows(&self, known: &CommitteeManifest) -> Result<&CommitteeManifest, Error> {
        let refused = |got, why: String| Error::Epoch { got, known: known.epoch(), why };
        let Custody::Committee(committee) = &self.custody else {
            return Err(refused(0, "no committee holds these keys".into()));
        };
        let (got, old) = (committee.epoch(), known.epoch());
        if got < old {
            return Err(Error::OldEpoch { got, known: old });
        }
        if committee.epoch_at(old) != Some(known.as_past()) {
            return Err(refused(got, format!("it names other members, or another run, as epoch {old}")));
        }
        if committee.keys != known.keys || committee.wide_key != known.wide_key {
            return Err(refused(got, "its keys are others".into()));
        }
        self.check_signatures().map_err(|error| refused(got, error.to_string()))?;
        Ok(committee)
    }

    /// What the committee of these keys is to one whose bandits go on under it.
    ///
    /// # Errors
    /// [`Error::Manifest`] if no committee holds these keys.
    pub fn as_followed(&self) -> Result<Followed, Error> {
        let Custody::Committee(committee) = &self.custody else {
            return Err(differs("custody", "a holder", "a committee"));
        };
        Ok(Followed {
            key_id: self.key_id.clone(),
            scores_key_id: self.scores.key_id.clone(),
            digest: PublicBytes(self.signed_digest().to_vec()),
            epoch: committee.as_past(),
        })
    }

    /// What members of the committee before sign of the keys that a bandit goes on under: the same in every
    /// epoch of the committee of these keys.
    pub fn rotation_digest(&self) -> [u8; 32] {
        let Custody::Committee(committee) = &self.custody else { return [0; 32] };
        let CommitteeManifest { keys, wide_key, follows, .. } = committee;
        let followed = follows.as_deref().map(|f| (&f.key_id, &f.scores_key_id, &f.digest));
        let rings = [&self.fingerprint, &self.key_id, &self.scores.fingerprint, &self.scores.key_id];
        // Serialising plain data into memory does not fail.
        let signed = serde_json::to_vec(&(rings, keys, wide_key, followed)).unwrap_or_default();
        blake3::derive_key("helba committee v1: keys that bandits go on under", &signed)
    }

    /// The signature of a member of the committee that the one of these keys follows.
    pub fn sign_rotation(&self, signing: &envelope::SigningSecret) -> Vec<u8> {
        signing.sign(ROTATION_SIGNATURE, &self.signed()).to_vec()
    }

    /// Checks the signature of [`Self::sign_rotation`].
    ///
    /// # Errors
    /// [`Error::Envelope`].
    pub fn check_rotation_signature(&self, verifying: &[u8], signature: &[u8]) -> Result<(), Error> {
        Ok(envelope::verify(verifying, ROTATION_SIGNATURE, &self.signed(), signature)?)
    }

    /// The manifest with the signatures of members of the committee that it follows.
    pub fn with_rotation(mut self, of_members: Vec<Handover>) -> Self {
        if let Custody::Committee(committee) = &mut self.custody
            && let Some(followed) = &mut committee.follows
        {
            followed.epoch.handover = of_members;
        }
        self
    }

    /// What this manifest says of the committee that it follows, which must be that of `known`: keys, members
    /// and epoch. Its own keys must have the parameters of `known`, under which ciphertexts move.
    ///
    /// # Errors
    /// [`Error::Manifest`] if it follows none, says something else, or has other parameters.
    pub fn followed(&self, known: &Manifest) -> Result<&Followed, Error> {
        for (name, own, want) in [
            ("fingerprint", &self.fingerprint, &known.fingerprint),
            ("scores.fingerprint", &self.scores.fingerprint, &known.scores.fingerprint),
        ] {
            if own != want {
                return Err(differs(name, own, want));
            }
        }
        if self.shape != known.shape {
            return Err(differs("shape", "another problem", "that of the keys before"));
        }
        let followed = match &self.custody {
            Custody::Committee(committee) => committee.follows.as_deref(),
            Custody::Holder => None,
        };
        let want = "the one that is known";
        let followed = followed.ok_or_else(|| differs("custody.follows", "no committee", want))?;
        let bare = PastEpoch { handover: Vec::new(), ..followed.epoch.clone() };
        match (Followed { epoch: bare, ..followed.clone() }) == known.as_followed()? {
            true => Ok(followed),
            false => Err(differs("custody.follows", "another committee", want)),
        }
    }

    /// Checks that all members of this committee signed its keys, and t members of the committee of `known`
    /// that bandits go on under them.
    ///
    /// # Errors
    /// [`Error::Manifest`] if it follows another committee, or fewer signed; [`Error::Envelope`] for a
    /// signature of somebody else.
    pub fn check_rotation(&self, known: &Manifest) -> Result<(), Error> {
        self.check_signatures()?;
        let followed = self.followed(known)?;
        let (want, mut signed) = (followed.epoch.quorum()?.threshold(), BTreeSet::new());
        for Handover { member, signature } in &followed.epoch.handover {
            let at = usize::from(*member).checked_sub(1);
            let verifying = at.and_then(|at| followed.epoch.verifying.get(at)).map_or(&[][..], |key| &key.0);
            self.check_rotation_signature(verifying, &signature.0)?;
            signed.insert(member);
        }
        match signed.len() >= want.into() {
            true => Ok(()),
            false => {
                let want = format!("those of {want} members of the committee before");
                Err(differs("custody.follows.handover", &signed.len().to_string(), &want))
            }
        }
    }
}
