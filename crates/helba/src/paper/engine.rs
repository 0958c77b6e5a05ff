//! The paper's method on ciphertexts: masks around every exchange with the holder of the key.

use super::Holder;
use crate::Error;
use circuits::paper::Raises;
use circuits::{Encrypted, SlotAlgebra};
use ckks::{Ciphertext, EvaluationKeys, Evaluator, Exchange, KeyId, MaskSeed, Params, PublicKey};
use protocol::paper::{PAPER_RAISE_LEVEL, PAPER_SLOTS, PaperPlan};
use rand::CryptoRng;

/// The public keys of the paper's method, and its arithmetic on ciphertexts.
#[derive(Debug, Clone)]
pub struct PaperEngine {
    alg: Encrypted,
    refresh: Exchange,
    opening: Exchange,
    public_key: PublicKey,
    key_id: KeyId,
}

/// What the holder of the key does with a masked vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderTask {
    /// It encrypts the vector anew at the top level.
    Raise,
    /// It returns the constant coefficient with noise.
    Open,
}

/// The answer of the holder of the key.
#[derive(Debug, Clone)]
pub enum HolderAnswer {
    /// The masked vector at the top level.
    Raised(Ciphertext),
    /// The masked constant coefficient with noise.
    Opened(i128),
}

/// An exchange with the holder of the key. `send` takes a masked vector to it and returns its answer, or why
/// there is none.
pub struct PaperExchange<'a, S, R> {
    engine: &'a PaperEngine,
    send: S,
    rng: R,
    raises: u64,
}

impl PaperEngine {
    /// The engine with these keys, which are those of a [`PaperPlan`].
    ///
    /// # Errors
    /// [`Error::Ckks`] for parameters that are not those of a plan.
    pub fn new(
        params: Params,
        public_key: PublicKey,
        key_id: KeyId,
        keys: EvaluationKeys,
    ) -> Result<Self, Error> {
        let (refresh, opening) = (PaperPlan::refresh(&params)?, PaperPlan::opening(&params)?);
        let alg = Encrypted::new(Evaluator::new(params, keys), PAPER_SLOTS)?;
        Ok(PaperEngine { alg, refresh, opening, public_key, key_id })
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.refresh.from().params
    }

    /// The id of the key pair.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The arithmetic.
    pub fn algebra(&self) -> &Encrypted {
        &self.alg
    }

    /// Reads a frame at `level`.
    ///
    /// # Errors
    /// As [`ckks::read_ciphertext`].
    pub fn read(&self, level: usize, frame: &[u8]) -> Result<Ciphertext, Error> {
        Ok(ckks::read_ciphertext(self.params(), self.key_id, level, frame)?)
    }

    /// Reads a frame at the top level: a vector of a device, or a raised one.
    ///
    /// # Errors
    /// As [`ckks::read_ciphertext`].
    pub fn read_fresh(&self, frame: &[u8]) -> Result<Ciphertext, Error> {
        self.read(self.params().max_level(), frame)
    }

    /// The frame of a ciphertext.
    pub fn write(&self, ciphertext: &Ciphertext) -> Vec<u8> {
        ckks::write_ciphertext(self.params(), self.key_id, ciphertext)
    }

    fn exchange_of(&self, task: HolderTask) -> &Exchange {
        match task {
            HolderTask::Raise => &self.refresh,
            HolderTask::Open => &self.opening,
        }
    }

    /// `vector` at `level`, re-randomised.
    pub(super) fn rerandomised<R: CryptoRng>(
        &self,
        vector: &Ciphertext,
        level: usize,
        rng: &mut R,
    ) -> Result<Ciphertext, circuits::Error> {
        let mut out = self.alg.drop_to(vector, level)?;
        ckks::rerandomise_assign(self.params(), &self.public_key, &mut out, rng);
        Ok(out)
    }

    /// `vector` at the level of its task under the mask of a fresh seed, re-randomised: what the holder of
    /// the key gets.
    ///
    /// # Errors
    /// [`circuits::Error::Ckks`] if `vector` is below that level.
    pub fn mask<R: CryptoRng>(
        &self,
        task: HolderTask,
        vector: &Ciphertext,
        rng: &mut R,
    ) -> Result<(Ciphertext, MaskSeed), circuits::Error> {
        let exchange = self.exchange_of(task);
        let mut masked = self.rerandomised(vector, exchange.from().level, rng)?;
        let seed = ckks::mask_seed_for(&masked, rng);
        exchange.mask_assign(std::slice::from_mut(&mut masked), &seed)?;
        Ok((masked, seed))
    }

    /// The exchange in which `send` takes masked vectors to the holder of the key.
    pub fn exchange<S, R>(&self, send: S, rng: R) -> PaperExchange<'_, S, R>
    where
        S: FnMut(HolderTask, Ciphertext) -> Result<HolderAnswer, &'static str>,
        R: CryptoRng,
    {
        PaperExchange { engine: self, send, rng, raises: 0 }
    }
}

impl<S, R> PaperExchange<'_, S, R>
where
    S: FnMut(HolderTask, Ciphertext) -> Result<HolderAnswer, &'static str>,
    R: CryptoRng,
{
    /// The number of raises so far.
    pub fn raises(&self) -> u64 {
        self.raises
    }

    fn sent(&mut self, task: HolderTask, masked: Ciphertext) -> Result<HolderAnswer, circuits::Error> {
        (self.send)(task, masked).map_err(|why| circuits::Error::NotRaised { why })
    }

    /// The generator of masks.
    pub(super) fn rng(&mut self) -> &mut R {
        &mut self.rng
    }
}

/// The holder's answer to another task than the one that was asked.
const OTHER_ANSWER: circuits::Error =
    circuits::Error::NotRaised { why: "the answer is one to another kind of task" };

impl<S, R> Raises<Encrypted> for PaperExchange<'_, S, R>
where
    S: FnMut(HolderTask, Ciphertext) -> Result<HolderAnswer, &'static str>,
    R: CryptoRng,
{
    fn floor(&self) -> usize {
        PAPER_RAISE_LEVEL
    }

    fn raise(&mut self, _: &Encrypted, vector: &Ciphertext) -> Result<Ciphertext, circuits::Error> {
        let (masked, seed) = self.engine.mask(HolderTask::Raise, vector, &mut self.rng)?;
        let HolderAnswer::Raised(mut raised) = self.sent(HolderTask::Raise, masked)? else {
            return Err(OTHER_ANSWER);
        };
        let refresh = &self.engine.refresh;
        let mask = refresh.encode_mask(&seed, &[1.0])?;
        refresh.unmask_assign(std::slice::from_mut(&mut raised), &mask)?;
        self.raises += 1;
        Ok(raised)
    }
}

impl<S, R> Holder<Encrypted> for PaperExchange<'_, S, R>
where
    S: FnMut(HolderTask, Ciphertext) -> Result<HolderAnswer, &'static str>,
    R: CryptoRng,
{
    fn open(&mut self, _: &Encrypted, vector: &Ciphertext) -> Result<f64, circuits::Error> {
        let (masked, seed) = self.engine.mask(HolderTask::Open, vector, &mut self.rng)?;
        match self.sent(HolderTask::Open, masked)? {
            HolderAnswer::Opened(constant) => Ok(self.engine.opening.unmasked_constant(constant, &seed)),
            HolderAnswer::Raised(_) => Err(OTHER_ANSWER),
        }
    }
}
