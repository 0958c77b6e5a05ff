//! A bandit of the paper's method on ciphertexts, without I/O.

use super::engine::{HolderAnswer, HolderTask, PaperEngine};
use super::{PaperMethod, PaperState};
use crate::Error;
use ::bandit::LinearConfig;
use ckks::Ciphertext;
use protocol::exchange::ANSWER_FLOOD_BITS;
use protocol::paper::PAPER_ANSWER_LEVEL;
use protocol::{DecisionId, Receipt};
use rand::{CryptoRng, RngExt};
use serde::{Deserialize, Serialize};

/// A bandit of the paper's method. It holds ciphertexts and public counters.
#[derive(Debug, Clone)]
pub struct PaperBandit {
    method: PaperMethod,
    state: PaperState<Ciphertext>,
    rounds: u64,
    raises: u64,
    /// The last decision, until its feedback is counted.
    open: Option<DecisionId>,
    /// The decision whose feedback was counted last.
    counted: Option<DecisionId>,
}

/// A decision for a device.
#[derive(Debug, Clone)]
pub struct PaperDecision {
    /// The id that its feedback names.
    pub id: DecisionId,
    /// The number of feedbacks in the model.
    pub model_feedbacks: u64,
    /// The number of raises of this round.
    pub raises: u64,
    /// The encrypted entries of the arms, at [`PAPER_ANSWER_LEVEL`].
    pub action: Ciphertext,
}

/// The stored form, with ciphertexts as frames.
#[derive(Serialize, Deserialize)]
struct Stored {
    config: LinearConfig,
    vectors: [Option<Vec<u8>>; 3],
    feedbacks: u64,
    model_feedbacks: u64,
    batches: u64,
    rounds: u64,
    raises: u64,
    open: Option<DecisionId>,
    counted: Option<DecisionId>,
}

impl PaperBandit {
    /// A bandit without data.
    ///
    /// # Errors
    /// As [`PaperMethod::new`].
    pub fn new(config: LinearConfig) -> Result<Self, Error> {
        let method = PaperMethod::new(config)?;
        let (state, open, counted) = (PaperState::default(), None, None);
        Ok(PaperBandit { method, state, rounds: 0, raises: 0, open, counted })
    }

    /// The configuration.
    pub fn config(&self) -> &LinearConfig {
        self.method.config()
    }

    /// The counters of feedbacks and batches.
    pub fn state(&self) -> &PaperState<Ciphertext> {
        &self.state
    }

    /// The number of decisions.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// The number of raises of all rounds.
    pub fn raises(&self) -> u64 {
        self.raises
    }

    /// Whether a decision waits for its feedback.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Ends the batch if its rule says so, and decides on the two vectors of contexts. The decision takes the
    /// place of an earlier one without feedback. `send` takes masked vectors to the holder of the key. On an
    /// error the bandit is as before.
    ///
    /// # Errors
    /// [`Error::Circuit`]: those of the arithmetic and of `send`.
    pub fn decide<R: CryptoRng>(
        &mut self,
        engine: &PaperEngine,
        [left, right]: [&Ciphertext; 2],
        send: impl FnMut(HolderTask, Ciphertext) -> Result<HolderAnswer, &'static str>,
        rng: R,
    ) -> Result<PaperDecision, Error> {
        let (alg, mut holder) = (engine.algebra(), engine.exchange(send, rng));
        let mut state = self.state.clone();
        self.method.begin_round(alg, &mut holder, &mut state)?;
        let mut action = self.method.decide(alg, &mut holder, &state, [left, right])?;
        let raises = holder.raises();
        ckks::flood_assign(engine.params(), &mut action, ANSWER_FLOOD_BITS, holder.rng());
        let action = engine.rerandomised(&action, PAPER_ANSWER_LEVEL, holder.rng())?;
        let id = DecisionId(holder.rng().random());
        let model_feedbacks = state.model_feedbacks();
        (self.state, self.open) = (state, Some(id));
        self.rounds += 1;
        self.raises += raises;
        Ok(PaperDecision { id, model_feedbacks, raises, action })
    }

    /// Counts the feedback on the last decision. The same feedback counts once.
    ///
    /// # Errors
    /// [`protocol::Error::UnknownDecision`] for another decision; [`Error::Circuit`].
    pub fn learn(
        &mut self,
        engine: &PaperEngine,
        decision: DecisionId,
        vectors: [&Ciphertext; 2],
    ) -> Result<Receipt, Error> {
        if self.counted != Some(decision) {
            if self.open != Some(decision) {
                return Err(protocol::Error::UnknownDecision { id: decision.to_string() }.into());
            }
            self.method.learn(engine.algebra(), &mut self.state, vectors)?;
            (self.open, self.counted) = (None, Some(decision));
        }
        let (feedbacks, batches) = (self.state.feedbacks, self.state.batches);
        Ok(Receipt { decision: decision.to_string(), feedbacks, batches })
    }

    /// The state as bytes.
    ///
    /// # Errors
    /// [`Error::Broken`] if it cannot be serialised.
    pub fn to_bytes(&self, engine: &PaperEngine) -> Result<Vec<u8>, Error> {
        let PaperState { statistics, closed, model, feedbacks, model_feedbacks, batches } = &self.state;
        let vectors = [statistics, closed, model].map(|v| v.as_ref().map(|v| engine.write(v)));
        let stored = Stored {
            config: *self.config(),
            vectors,
            feedbacks: *feedbacks,
            model_feedbacks: *model_feedbacks,
            batches: *batches,
            rounds: self.rounds,
            raises: self.raises,
            open: self.open,
            counted: self.counted,
        };
        postcard::to_stdvec(&stored).map_err(|_| Error::Broken("a state that cannot be serialised"))
    }

    /// A bandit from [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::BadState`], [`Error::Ckks`] for bytes that are not those of a bandit of these keys.
    pub fn from_bytes(engine: &PaperEngine, bytes: &[u8]) -> Result<Self, Error> {
        let stored: Stored = postcard::from_bytes(bytes).map_err(|e| Error::BadState(e.to_string()))?;
        let Stored { config, vectors, feedbacks, model_feedbacks, batches, rounds, raises, open, counted } =
            stored;
        let top = engine.params().max_level();
        let [statistics, closed, model] = vectors;
        let read = |frame: Option<Vec<u8>>, level| frame.map(|frame| engine.read(level, &frame)).transpose();
        let state = PaperState {
            statistics: read(statistics, top - 1)?,
            closed: read(closed, top - 1)?,
            model: read(model, top)?,
            feedbacks,
            model_feedbacks,
            batches,
        };
        Ok(PaperBandit { method: PaperMethod::new(config)?, state, rounds, raises, open, counted })
    }
}
