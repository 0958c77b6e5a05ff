//! The state of a bandit as bytes, with every ciphertext as a frame.

use super::{EncryptedBandit, State, Statistics};
use crate::{Engine, Error};
use ckks::{Ciphertext, KeyId, Params};
use protocol::{LOG_CONTEXT, LOG_STATISTICS};
use serde::de::DeserializeOwned;
use serde_bytes::ByteBuf;
use std::sync::Arc;

/// Where a part of a state is: its ring, its level and its scale.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// The ring of scores, at its canonical scale.
    Scores,
    /// The ring of scores, at the scale of the statistics of feedback.
    Statistics,
    /// The same, of which this many coefficients have values.
    First(usize),
    /// The ring of scores, at the scale of contexts.
    Trace,
    /// The ring of scores, at this power of two.
    Scaled(u32),
    /// The deep ring at this level.
    Deep(usize),
}

impl Place {
    /// The parameters and the key of the ring, and the level.
    fn ring(self, engine: &Engine) -> (&Params, KeyId, usize) {
        match self {
            Place::Scores | Place::Statistics | Place::First(_) | Place::Trace | Place::Scaled(_) => {
                (engine.params(), engine.key_id(), engine.params().max_level())
            }
            Place::Deep(level) => (engine.deep().params(), engine.deep().key_id(), level),
        }
    }

    fn scale(self, engine: &Engine) -> f64 {
        let (params, _, level) = self.ring(engine);
        match self {
            Place::Scores | Place::Deep(_) => params.scale(level),
            Place::Statistics | Place::First(_) => f64::from(LOG_STATISTICS).exp2(),
            Place::Trace => f64::from(LOG_CONTEXT).exp2(),
            Place::Scaled(log_scale) => f64::from(log_scale).exp2(),
        }
    }

    fn write(self, engine: &Engine, ciphertext: Arc<Ciphertext>) -> ByteBuf {
        let (params, key, _) = self.ring(engine);
        if let Place::First(count) = self {
            return ByteBuf::from(ckks::write_truncated_ciphertext(params, key, &ciphertext, count));
        }
        // Frames hold the canonical scale, and sums have others.
        let canonical = params.scale(ciphertext.level());
        let canonical = Arc::unwrap_or_clone(ciphertext).with_scale(canonical);
        ByteBuf::from(ckks::write_ciphertext(params, key, &canonical))
    }

    fn read(self, engine: &Engine, frame: &[u8]) -> Result<Arc<Ciphertext>, Error> {
        let (params, key, level) = self.ring(engine);
        if let Place::First(count) = self {
            let scale = self.scale(engine);
            return Ok(Arc::new(ckks::read_truncated_ciphertext(params, key, level, scale, count, frame)?));
        }
        let ciphertext = ckks::read_ciphertext(params, key, level, frame)?;
        Ok(Arc::new(ciphertext.with_scale(self.scale(engine))))
    }
}

impl EncryptedBandit {
    /// The state with every ciphertext as a frame.
    ///
    /// # Errors
    /// [`Error::Broken`] if it cannot be serialised.
    pub fn to_bytes(&self, engine: &Engine) -> Result<Vec<u8>, Error> {
        let numbers = self.exchanges.layout.feedback_numbers();
        let write = |place: Place, ciphertext| Ok(place.write(engine, ciphertext));
        let state = self.state.clone().try_map(numbers, write)?;
        postcard::to_stdvec(&state).map_err(|_| Error::Broken("a state that cannot be serialised"))
    }

    /// A bandit from [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::BadState`], [`Error::Ckks`] for bytes that are not those of a bandit of these keys.
    pub fn from_bytes(engine: &Engine, bytes: &[u8]) -> Result<Self, Error> {
        let state: State<ByteBuf> = decode(bytes)?;
        let deep = engine.deep();
        let (plan, config) = (&state.plan, &state.config);
        if config.plan(deep.rings(), deep.shape(), engine.ring())? != *plan {
            return Err(Error::BadState("it was made with other parameters".into()));
        }
        deep.check_width(config)?;
        if !state.answered.is_valid() {
            return Err(Error::BadState("its rounds are not those of this version".into()));
        }
        let forgetting = config.forgetting();
        if !state.past.as_ref().map_or(forgetting.is_none(), |past| past.is_valid(forgetting)) {
            return Err(Error::BadState("its weights are not those of its configuration".into()));
        }
        let exchanges = Self::exchanges_of(engine, config, plan)?;
        let numbers = exchanges.layout.feedback_numbers();
        let state = state.try_map(numbers, |place, frame| place.read(engine, &frame))?;
        Ok(EncryptedBandit { state, exchanges })
    }
}

impl<C> State<C> {
    /// The state with `map` of each ciphertext. A feedback has `numbers` coefficients.
    fn try_map<D>(
        self,
        numbers: usize,
        mut map: impl FnMut(Place, C) -> Result<D, Error>,
    ) -> Result<State<D>, Error> {
        let map = &mut map;
        let (plan, log_sums) = (&self.plan, self.config.log_sums());
        Ok(State {
            statistics: match self.statistics {
                Statistics::Slots { model, statistics } => Statistics::Slots {
                    model: map(Place::Deep(plan.model_level), model)?,
                    statistics: map(Place::Deep(plan.statistics_level), statistics)?,
                },
                Statistics::Products { inverse, total } => Statistics::Products {
                    inverse: inverse.try_map(&mut |log, operand| map(Place::Scaled(log), operand))?,
                    total: map(Place::Scaled(log_sums), total)?,
                },
            },
            scores_model: self.scores_model.try_map(|part| map(Place::Scores, part))?,
            sum: map(Place::Statistics, self.sum)?,
            past: self.past.map(|past| past.try_map(numbers, map)).transpose()?,
            logged: self.logged,
            learnt: self.learnt,
            trace: self.trace.map(|trace| trace.try_map(map)).transpose()?,
            counters: self.counters.map(|sums| sums.try_map(map)).transpose()?,
            phase: self.phase.try_map(plan, log_sums, map)?,
            frozen: self.frozen,
            origins: self.origins,
            erased: self.erased,
            subtracted: self.subtracted,
            config: self.config,
            plan: self.plan,
            secret: self.secret,
            history: self.history,
            reserved: self.reserved,
            answered: self.answered,
            given: self.given,
            feedbacks: self.feedbacks,
            closed: self.closed,
            model_feedbacks: self.model_feedbacks,
            batches: self.batches,
            refreshes: self.refreshes,
            tasks: self.tasks,
            residual: self.residual,
        })
    }
}

/// Reads `bytes` to their end.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let bad = |why: String| Error::BadState(why);
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(bad(format!("{} bytes after its end", rest.len()))),
        Err(error) => Err(bad(error.to_string())),
    }
}
