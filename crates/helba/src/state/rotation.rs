//! The move of a bandit to other keys: what goes along, and how it is taken there.

use super::EncryptedBandit;
use super::batch::Phase;
use super::given::Given;
use super::rounds::Rounds;
use super::stored::decode;
use crate::{Engine, Error};
use ckks::Ciphertext;
use protocol::BanditConfig;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Above every number of a bandit that moves.
const MOST_STANDING: u64 = 1 << 48;

/// The numbers of a bandit whose feedback is all in its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The hash of the configuration, which stays: what was learnt means something else under another one.
    config: [u8; 32],
    reserved: u64,
    /// The rounds that were given out.
    given: u64,
    feedbacks: u64,
    batches: u64,
    refreshes: u64,
    tasks: u64,
    residual: f64,
}

/// A bandit that can go on under other keys: its numbers, and what moves.
#[derive(Debug, Clone)]
pub struct Departing {
    /// The numbers.
    pub standing: Standing,
    /// The model, cut to the level of a refresh.
    pub model: Ciphertext,
    /// The statistics, cut to the level of a refresh.
    pub statistics: Ciphertext,
}

impl Standing {
    /// The bytes, which are the same wherever they are computed.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// The number of the task in which the bandit moves.
    pub fn task(&self) -> u64 {
        self.tasks + 1
    }

    /// Reads the bytes of [`Self::to_bytes`] of a bandit with this configuration. Members who check the
    /// structure of questions alone sign any bytes.
    ///
    /// # Errors
    /// [`Error::BadState`] for another configuration, and for numbers that no bandit comes to.
    fn read(bytes: &[u8], config: &BanditConfig) -> Result<Self, Error> {
        let standing: Standing = decode(bytes)?;
        if standing.config != config_hash(config) {
            return Err(Error::BadState("a state of a bandit with another configuration".into()));
        }
        let Standing { config: _, reserved, given, feedbacks, batches, refreshes, tasks, residual } =
            standing;
        let fits = [reserved, batches, refreshes, tasks].iter().all(|number| *number < MOST_STANDING)
            && feedbacks <= given
            && given <= reserved
            && (0.0..1.0).contains(&residual);
        if fits { Ok(standing) } else { Err(Error::BadState("a state with numbers out of range".into())) }
    }
}

fn config_hash(config: &BanditConfig) -> [u8; 32] {
    // Serialising plain data into memory does not fail.
    blake3::derive_key("helba: configuration of a bandit", &postcard::to_stdvec(config).unwrap_or_default())
}

impl EncryptedBandit {
    /// What moves to other keys, if all feedback is in the model.
    pub fn departing(&self) -> Option<Departing> {
        let s = &self.state;
        if !matches!(s.phase, Phase::Open) || self.closes_early() {
            return None;
        }
        let cut = |ciphertext: &Ciphertext| {
            let level = s.plan.refresh_level;
            let [c0, c1] = [ciphertext.c0(), ciphertext.c1()].map(|poly| poly.truncated(level + 1));
            Ciphertext::new(c0, c1, level, ciphertext.scale())
        };
        let standing = Standing {
            config: config_hash(&s.config),
            reserved: s.reserved,
            given: s.given.count(0),
            feedbacks: s.feedbacks,
            batches: s.batches,
            refreshes: s.refreshes,
            tasks: s.tasks,
            residual: s.residual,
        };
        Some(Departing { standing, model: cut(&s.model), statistics: cut(&s.statistics) })
    }

    /// Takes the state of a bandit under other keys: its [`Standing`], and the frames of its model in the
    /// deep ring and in that of scores, and of its statistics.
    pub(super) fn take_rotated(
        &mut self,
        engine: &Engine,
        standing: &[u8],
        [model, scores, statistics]: [&[u8]; 3],
    ) -> Result<(), Error> {
        let s = &self.state;
        let fresh = s.tasks == 0 && s.reserved == 0 && s.feedbacks == 0;
        if !fresh || !engine.has_committee() {
            return Err(Error::BadState("a state of other keys in a bandit that has its own".into()));
        }
        let standing = Standing::read(standing, &s.config)?;
        let deep = engine.deep();
        let level = s.plan.statistics_level;
        let statistics = ckks::read_ciphertext(deep.params(), deep.key_id(), level, statistics)?;
        let model = self.read_model(engine, model, scores)?;
        self.install(engine, model);
        let s = &mut self.state;
        s.statistics = Arc::new(statistics);
        let Standing { config: _, reserved, given, feedbacks, batches, refreshes, tasks, residual } =
            standing;
        // Nobody has an id of an earlier round that is one of this bandit's: none of them waits.
        (s.answered, s.given) = (Rounds::all_answered(reserved), Given::moved(reserved, given));
        (s.reserved, s.tasks, s.residual) = (reserved, tasks + 1, residual);
        (s.feedbacks, s.closed, s.model_feedbacks) = (feedbacks, feedbacks, feedbacks);
        (s.batches, s.refreshes) = (batches, refreshes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Old members who check the structure of questions alone sign any numbers. Those that no bandit comes to
    /// are refused, as are those of a bandit with another configuration.
    #[test]
    fn attack_numbers_of_a_rotation_out_of_range_are_refused() {
        let config = BanditConfig::new(2, 2);
        let honest = Standing {
            config: config_hash(&config),
            reserved: 12,
            given: 9,
            feedbacks: 8,
            batches: 3,
            refreshes: 2,
            tasks: 7,
            residual: 0.25,
        };
        let read = |standing: &Standing| Standing::read(&standing.to_bytes(), &config);
        assert_eq!(read(&honest).unwrap(), honest);
        for bad in [
            Standing { tasks: u64::MAX, ..honest.clone() },
            Standing { batches: MOST_STANDING, ..honest.clone() },
            Standing { refreshes: u64::MAX, ..honest.clone() },
            Standing { reserved: u64::MAX, feedbacks: u64::MAX, ..honest.clone() },
            Standing { feedbacks: 10, ..honest.clone() },
            Standing { given: 13, ..honest.clone() },
            Standing { residual: f64::NAN, ..honest.clone() },
            Standing { residual: f64::INFINITY, ..honest.clone() },
            Standing { residual: -0.25, ..honest.clone() },
            Standing { residual: 1.0, ..honest.clone() },
        ] {
            assert!(matches!(read(&bad), Err(Error::BadState(_))), "{bad:?}");
        }
        let bytes = honest.to_bytes();
        for len in 0..bytes.len() {
            assert!(Standing::read(&bytes[..len], &config).is_err(), "{len}");
        }
        assert!(Standing::read(&[&bytes[..], &[0]].concat(), &config).is_err());
        for other in [BanditConfig::new(2, 3), BanditConfig { horizon: 1, ..config.clone() }] {
            assert!(matches!(Standing::read(&bytes, &other), Err(Error::BadState(_))));
        }
    }
}
