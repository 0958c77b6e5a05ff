//! The device of a bandit of the paper's method, which holds the key and answers the tasks of its rounds.

use crate::answers::{Answers, most_openings};
use crate::device::{open_secret, same};
use crate::{Error, Opening};
use ckks::{Exchange, KeyId, Params, Plaintext, Security};
use ckks_secret::SecretKey;
use protocol::paper::{
    PAPER_ANSWER_LEVEL, PAPER_BLOCK, PAPER_OPEN_LEVEL, PAPER_RAISE_LEVEL, PAPER_SIDE, PAPER_SLOTS,
    PAPER_TRACE_FLOOD_BITS, PaperPlan, PaperSlots, check_paper, paper_contexts, paper_feedback,
};
use rand::CryptoRng;
use std::io::Read;
use std::path::Path;
use wire::{
    AccessToken, BundleKind, PaperAnswer, PaperCreated, PaperDecision, PaperManifest, PaperSecret, PaperTask,
    PaperVectors,
};

/// A device with the secret key of the paper's method. It has no Debug and no Clone.
pub struct PaperDevice {
    secret: SecretKey,
    key_id: KeyId,
    token: AccessToken,
    refresh: Exchange,
    opening: Exchange,
    /// The comparisons of the trace that were opened.
    answers: Answers,
}

impl PaperDevice {
    /// Loads a secret bundle. On Unix, only the owner may be able to read the file. The comparisons of the
    /// trace that it opens are counted in `KEY-ID.answers` beside it.
    ///
    /// # Errors
    /// As [`crate::Device::open`].
    pub fn open(path: &Path, opening: &Opening) -> Result<Self, Error> {
        let check_kind = |file: &mut dyn Read| match wire::read_paper_manifest(file)?.0 {
            BundleKind::Secret => Ok(()),
            BundleKind::Public => Err(wire::Error::WrongBundle { want: BundleKind::Secret }.into()),
        };
        let device = open_secret(path, opening, check_kind, |input| Self::read(input))?;
        if device.params().spec().security == Security::None && !opening.toy {
            return Err(Error::Toy { path: path.into() });
        }
        let answers = device.answers.beside(path);
        Ok(PaperDevice { answers, ..device })
    }

    /// Reads a secret bundle, also of toy keys. What [`Self::open`] counts in a file is counted in memory.
    ///
    /// # Errors
    /// [`Error::Wire`] for bytes that are no such bundle, [`Error::Secret`] for its content.
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let PaperSecret { manifest, params, frame, token } = PaperSecret::read(input)?;
        let (secret, key_id) = SecretKey::from_bytes(&params, &frame)?;
        manifest.check_key(key_id)?;
        let (refresh, opening) = (PaperPlan::refresh(&params)?, PaperPlan::opening(&params)?);
        let mut answers = Answers::new(key_id, &params);
        answers.allow(most_openings(&params));
        Ok(PaperDevice { secret, key_id, token, refresh, opening, answers })
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        self.secret.params()
    }

    /// The access token of the bundle.
    pub fn token(&self) -> &AccessToken {
        &self.token
    }

    /// Checks that the server with this manifest has the public half of the key of this device.
    ///
    /// # Errors
    /// [`Error::WrongKeys`].
    pub fn check_manifest(&self, manifest: &PaperManifest) -> Result<(), Error> {
        same("fingerprint", &manifest.ring.fingerprint, self.params().fingerprint().to_string())?;
        same("key id", &manifest.ring.key_id, self.key_id.to_string())
    }

    /// Checks that a bandit is one of this device's key and version.
    ///
    /// # Errors
    /// [`Error::WrongKeys`]; [`Error::Protocol`] for a configuration that is not for the paper's method;
    /// [`Error::BadAnswer`] for other levels.
    pub fn check(&self, created: &PaperCreated) -> Result<(), Error> {
        same("fingerprint", &created.fingerprint, self.params().fingerprint().to_string())?;
        same("key id", &created.key_id, self.key_id.to_string())?;
        check_paper(&created.linear)?;
        let levels = [created.top_level, created.raise_level, created.answer_level];
        if levels != [self.params().max_level(), PAPER_RAISE_LEVEL, PAPER_ANSWER_LEVEL] {
            return Err(Error::BadAnswer("the bandit has levels of another version".into()));
        }
        Ok(())
    }

    /// The message of a decision request, with one row of features an arm.
    ///
    /// # Errors
    /// [`Error::Protocol`] for contexts that the bandit does not take.
    pub fn contexts<R: CryptoRng>(
        &self,
        created: &PaperCreated,
        rows: &[Vec<f64>],
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        self.vectors(paper_contexts(&created.linear, rows)?, rng)
    }

    /// The message of the feedback `reward`, within ± 1, on the arm with these features.
    ///
    /// # Errors
    /// [`Error::Protocol`] for features or a reward that the bandit does not take.
    pub fn feedback<R: CryptoRng>(
        &self,
        created: &PaperCreated,
        features: &[f64],
        reward: f64,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        self.vectors(paper_feedback(&created.linear, features, reward)?, rng)
    }

    fn vectors<R: CryptoRng>(&self, vectors: [PaperSlots; 2], rng: &mut R) -> Result<Vec<u8>, Error> {
        let level = self.params().max_level();
        let mut frame = |slots: &PaperSlots| -> Result<Vec<u8>, Error> {
            let message = Plaintext::encode(self.params(), slots, level)?;
            Ok(ckks_secret::encrypt(&self.secret, &message, rng).to_bytes(&self.secret, self.key_id))
        };
        Ok(PaperVectors { left: frame(&vectors[0])?, right: frame(&vectors[1])? }.to_bytes())
    }

    /// The answer to the task with the number `id`. It opens at most [`crate::most_openings`] comparisons of
    /// the trace under one key, since each tells the server a linear form of it.
    ///
    /// # Errors
    /// [`Error::OpeningsSpent`] beyond that; [`Error::AnswerCount`] if the count cannot be kept;
    /// [`Error::Ckks`] for a frame that is no masked vector under the key of this device.
    pub fn answer<R: CryptoRng>(
        &self,
        id: u64,
        task: PaperTask,
        frame: &[u8],
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let secret = &self.secret;
        let read = |level| ckks::read_ciphertext(self.params(), self.key_id, level, frame);
        let answer = match task {
            PaperTask::Raise => {
                let masked = [read(PAPER_RAISE_LEVEL)?];
                let raised = ckks_secret::exchange(&self.refresh, secret, secret, &masked, &[1.0], rng)?;
                Ok(raised[0].to_bytes(secret, self.key_id))
            }
            PaperTask::Open => {
                let masked = read(PAPER_OPEN_LEVEL)?;
                if !self.answers.count()? {
                    return Err(Error::OpeningsSpent { given: self.answers.most() });
                }
                let bits = PAPER_TRACE_FLOOD_BITS;
                Err(ckks_secret::flooded_constant(&self.opening, secret, &masked, bits, rng)?)
            }
        };
        Ok(PaperAnswer { id, answer }.to_bytes())
    }

    /// The arm to play, which has the largest entry of a decision.
    ///
    /// # Errors
    /// [`Error::Ckks`] for an answer that is not one under the key of this device.
    pub fn arm(&self, decision: &PaperDecision) -> Result<usize, Error> {
        let answer = ckks::read_ciphertext(self.params(), self.key_id, PAPER_ANSWER_LEVEL, &decision.answer)?;
        let entries = ckks_secret::decrypt(&self.secret, &answer, PAPER_SLOTS);
        Ok(entries.with(|slots| {
            let entry = |arm: &usize| slots[arm * PAPER_BLOCK].re;
            (0..PAPER_SIDE).max_by(|a, b| entry(a).total_cmp(&entry(b))).unwrap_or(0)
        }))
    }
}
