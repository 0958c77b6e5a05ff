//! What members check of the ciphertexts that users send, and how servers and other members read the outcome.
//!
//! The check of some inputs has up to four rounds ([`ROUNDS`]). In each, t members open projections of the
//! inputs that passed the round before. What they opened is signed, and everybody computes from it which
//! inputs passed and what the next question is.

use crate::members::{Question, Wanted, check_frames};
use crate::{CommitteeManifest, Error};
use ckks::{Ciphertext, KeyId, Params};
use ckks_shares::{ActiveSet, Forms, OpeningShare, ROUNDS, RangeCheck, RequestId, RequestKind};
use protocol::{Exchanges, LOG_STATISTICS};
use serde::{Deserialize, Serialize};

/// The most inputs that are checked at once.
pub(crate) const MOST_INPUTS: usize = 64;

/// The hash by which questions name an input.
pub fn input_hash(frame: &[u8]) -> [u8; 32] {
    *blake3::hash(frame).as_bytes()
}

/// The frames of feedbacks that are checked, and all that was opened of them so far: beside each question,
/// the evidence that it is due.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckEvidence {
    /// The frames, in the order of the feedbacks.
    pub frames: Vec<Vec<u8>>,
    /// What was opened, one for each round.
    pub opened: Vec<OpenedChecks>,
}

/// What the members of a set have opened in one round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedChecks {
    /// The bytes of the question.
    pub question: Vec<u8>,
    /// The members, as [`ActiveSet::bits`].
    pub set: u16,
    /// The shares of each in ascending order ([`write_openings`]), and the signature of the member.
    pub shares: Vec<(Vec<u8>, Vec<u8>)>,
}

impl CheckEvidence {
    /// The bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let malformed = Error::Malformed("the evidence of a check cannot be read");
        match postcard::take_from_bytes::<CheckEvidence>(bytes) {
            Ok((evidence, []))
                if evidence.frames.len() <= MOST_INPUTS && evidence.opened.len() <= ROUNDS.len() =>
            {
                Ok(evidence)
            }
            _ => Err(malformed),
        }
    }
}

impl OpenedChecks {
    /// The bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::Trailing`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let malformed = |_| Error::Malformed("the openings of a check cannot be read");
        let (opened, rest) = postcard::take_from_bytes::<OpenedChecks>(bytes).map_err(malformed)?;
        if rest.is_empty() { Ok(opened) } else { Err(Error::Trailing { bytes: rest.len() }) }
    }

    /// Which of `inputs` are in range, if members of a committee signed these shares.
    fn passed(&self, manifest: &CommitteeManifest, inputs: &[RoundInput<'_>]) -> Result<Vec<bool>, Error> {
        let other = Error::Malformed("the openings of a check by members of no epoch");
        let Some(epoch) = manifest.epoch_at(Question::from_bytes(&self.question)?.epoch()) else {
            return Err(other);
        };
        let members: Vec<u8> = (1..=16).filter(|j| self.set >> (j - 1) & 1 == 1).collect();
        let set = epoch.quorum()?.active(&members)?;
        let request = check_request(&self.question, set);
        if self.shares.len() != members.len() {
            return Err(Error::Malformed("the openings of a check have not one share for each member"));
        }
        let residues: usize = inputs.iter().map(RoundInput::residues).sum();
        for (member, (frame, signature)) in members.iter().zip(&self.shares) {
            check_frames(
                &epoch.verifying[usize::from(member - 1)].0,
                &[request],
                std::slice::from_ref(frame),
                signature,
            )?;
            if frame.len() != 8 * residues {
                return Err(Error::Malformed("a share of a check has not one residue for each projection"));
            }
        }
        let mut rest: Vec<&[u8]> = self.shares.iter().map(|(frame, _)| &frame[..]).collect();
        let pass = |input: &RoundInput<'_>| {
            let take = |frame: &mut &[u8]| {
                let (own, after) = frame.split_at(8 * input.residues());
                *frame = after;
                read_opening(input.check.forms(), own)
            };
            let shares = rest.iter_mut().map(take).collect::<Result<Vec<_>, _>>()?;
            Ok(input.check.passes(set, &input.check.forms().values(input.ciphertext)?, &shares)?)
        };
        inputs.iter().map(pass).collect()
    }
}

/// An input and the projections that are opened of it in one round.
pub struct RoundInput<'a> {
    /// The ciphertext.
    pub ciphertext: &'a Ciphertext,
    /// Its projections.
    pub check: RangeCheck,
}

impl RoundInput<'_> {
    /// The number of residues of a share of its projections.
    fn residues(&self) -> usize {
        self.check.forms().len() * (self.check.forms().level() + 1)
    }
}

/// The check of some feedbacks of a bandit.
pub struct FeedbackCheck {
    /// The ciphertext of each, and BLAKE3 of its frame.
    inputs: Vec<(Ciphertext, [u8; 32])>,
    params: Params,
    count: usize,
}

/// The state of a check after some rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckState {
    /// Which feedbacks have passed all of them.
    pub passed: Vec<bool>,
    /// What members are asked next, or `None` after the last round or if nothing has passed.
    pub next: Option<Wanted>,
}

impl FeedbackCheck {
    /// Reads the frames of the feedbacks. Their proofs are not checked.
    ///
    /// # Errors
    /// [`Error::Ckks`] for a frame that is none of this bandit.
    pub fn read<F: AsRef<[u8]>>(
        exchanges: &Exchanges,
        (params, key): (&Params, KeyId),
        frames: &[F],
    ) -> Result<Self, Error> {
        let scale = f64::from(LOG_STATISTICS).exp2();
        let count = exchanges.layout.feedback_numbers();
        let read = |frame: &F| {
            let frame = frame.as_ref();
            let ct = ckks::read_proven_ciphertext(params, key, scale, count, frame)?;
            Ok((ct.ciphertext(params), input_hash(frame)))
        };
        let inputs = frames.iter().map(read).collect::<Result<_, Error>>()?;
        Ok(FeedbackCheck { inputs, params: params.clone(), count })
    }

    /// The state after `opened`, which members must have signed for this task of this bandit, each for the
    /// round that the one before led to.
    ///
    /// # Errors
    /// [`Error::Malformed`] for openings of something else; [`Error::Envelope`], [`Error::Shares`].
    pub fn after(
        &self,
        manifest: &CommitteeManifest,
        (bandit, task): (&str, u64),
        opened: &[OpenedChecks],
    ) -> Result<CheckState, Error> {
        let mut state = CheckState { passed: vec![true; self.inputs.len()], next: None };
        state.next = self.question(&state.passed, 0, b"");
        for (round, opened) in (1..).zip(opened) {
            let question = Question::from_bytes(&opened.question)?;
            let about = question.bandit == bandit && question.task == task;
            let (true, Some(wanted)) = (about && Some(&question.wanted) == state.next.as_ref(), &state.next)
            else {
                return Err(Error::Malformed("the openings of another check"));
            };
            let passed = opened.passed(manifest, &self.round(wanted)?)?;
            let alive = state.passed.iter_mut().filter(|alive| **alive);
            alive.zip(passed).for_each(|(alive, passed)| *alive = passed);
            state.next = self.question(&state.passed, round, &opened.to_bytes());
        }
        Ok(state)
    }

    /// The question of a round about those who passed, whose weights follow from what was opened before.
    fn question(&self, passed: &[bool], round: u8, before: &[u8]) -> Option<Wanted> {
        let alive = self.inputs.iter().zip(passed).filter(|(_, passed)| **passed);
        let hashes: Vec<[u8; 32]> = alive.map(|((_, hash), _)| *hash).collect();
        let due = usize::from(round) < ROUNDS.len() && !hashes.is_empty();
        let seed = blake3::derive_key("helba committee v1: weights of projections", before);
        due.then_some(Wanted::Checks { round, seed, hashes })
    }

    /// The inputs that a question of [`CheckState::next`] is about.
    ///
    /// # Errors
    /// [`Error::Malformed`] for another question.
    pub fn round(&self, wanted: &Wanted) -> Result<Vec<RoundInput<'_>>, Error> {
        let other = Error::Malformed("a question that is not about these feedbacks");
        let Wanted::Checks { round, seed, hashes } = wanted else { return Err(other) };
        let Some(projections) = ROUNDS.get(usize::from(*round)) else { return Err(other) };
        let mut inputs = self.inputs.iter();
        let input = |hash: &[u8; 32]| {
            let (ciphertext, _) = inputs.find(|(_, own)| own == hash).ok_or(())?;
            let weights = *blake3::Hasher::new_keyed(seed).update(hash).finalize().as_bytes();
            let level = ciphertext.level();
            let check = RangeCheck::new(&self.params, level, self.count, *projections, &weights);
            Ok(check.map(|check| RoundInput { ciphertext, check }))
        };
        let inputs = hashes.iter().map(input).collect::<Result<Vec<_>, ()>>().map_err(|()| other)?;
        Ok(inputs.into_iter().collect::<Result<_, _>>()?)
    }
}

/// The header of the request id of the check of one input of a question.
pub fn check_header(question: &[u8], input: usize) -> Vec<u8> {
    [question, &(input as u32).to_le_bytes()].concat()
}

/// The id of the request that a member signs its shares of a check under.
pub fn check_request(question: &[u8], set: ActiveSet) -> [u8; 32] {
    *RequestId::new(RequestKind::RangeCheck, set, question, None).bytes()
}

/// The bytes of shares of openings, in their order: each residue takes eight.
pub fn write_openings(shares: &[OpeningShare]) -> Vec<u8> {
    let residues = shares.iter().flat_map(|share| share.0.iter().flatten());
    residues.flat_map(|x| x.to_le_bytes()).collect()
}

/// Reads the bytes of the share of an opening of `forms`. Residues are not compared with their primes.
///
/// # Errors
/// [`Error::Malformed`] for another number of residues.
pub fn read_opening(forms: &Forms, bytes: &[u8]) -> Result<OpeningShare, Error> {
    let limbs = forms.level() + 1;
    if bytes.len() != 8 * limbs * forms.len() {
        return Err(Error::Malformed("a share of an opening has not one residue for each form and prime"));
    }
    let words = bytes.as_chunks::<8>().0.iter().map(|x| u64::from_le_bytes(*x));
    Ok(OpeningShare(words.collect::<Vec<_>>().chunks(limbs).map(<[u64]>::to_vec).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is cut is refused, and so is what no check has.
    #[test]
    fn evidence_is_read_as_it_is_written() {
        let shares = vec![(vec![1; 16], vec![2; 64]), (vec![3; 16], vec![4; 64])];
        let opened = OpenedChecks { question: vec![5; 9], set: 0b101, shares };
        let bytes = opened.to_bytes();
        assert_eq!(OpenedChecks::from_bytes(&bytes).unwrap(), opened);
        assert!((0..bytes.len()).all(|len| OpenedChecks::from_bytes(&bytes[..len]).is_err()));
        assert!(OpenedChecks::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        let evidence = CheckEvidence { frames: vec![vec![1; 5], vec![2; 7]], opened: vec![opened.clone()] };
        let bytes = evidence.to_bytes();
        assert_eq!(CheckEvidence::from_bytes(&bytes).unwrap(), evidence);
        assert!((0..bytes.len()).all(|len| CheckEvidence::from_bytes(&bytes[..len]).is_err()));
        let long = CheckEvidence { frames: vec![Vec::new(); MOST_INPUTS + 1], opened: Vec::new() };
        assert!(CheckEvidence::from_bytes(&long.to_bytes()).is_err());
        let rounds = CheckEvidence { frames: Vec::new(), opened: vec![opened; ROUNDS.len() + 1] };
        assert!(CheckEvidence::from_bytes(&rounds.to_bytes()).is_err());
    }
}
