//! A bandit that begins with what another has learnt.
//!
//! It has a secret of its own, so that ids of decisions, codes and masks are its own, and it gives out rounds
//! after those of its original. Decisions of the original are none of its decisions. The rounds whose
//! feedback it begins with keep their numbers, by which a feedback that is erased from the original is erased
//! from the copy.

use super::batch::Phase;
use super::given::Given;
use super::rounds::Round;
use super::{EncryptedBandit, State};
use crate::{Engine, Error};
use fault::OutOfRange;
use protocol::{BanditConfig, Plan};
use serde::{Deserialize, Serialize};

/// The bandit that a copy was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Its id.
    pub(super) bandit: String,
    /// The rounds up to this one are its own, or of the bandits that it is a copy of.
    pub(super) rounds: u64,
}

impl EncryptedBandit {
    /// A copy of this bandit, which is known as `id`, with another configuration and a fresh `secret`. It
    /// learns, also if this one is frozen.
    ///
    /// An update by products begins again: the masks of its next steps follow from its first one, and whoever
    /// answers the steps of both bandits would see two different numbers under one mask. What waits in slots
    /// is the same ciphertext under the same mask, and later masks follow from the secret.
    ///
    /// # Errors
    /// As [`Self::create`] and [`BanditConfig::check_copy`]; [`protocol::Error::OutOfRange`] for a schedule
    /// whose updates need other levels than the stored ciphertexts have.
    pub fn copied(
        &self,
        engine: &Engine,
        id: String,
        config: BanditConfig,
        secret: [u8; 32],
    ) -> Result<Self, Error> {
        config.check_copy(self.config())?;
        let fresh = Self::create(engine, config, secret)?;
        let places = |plan: &Plan| {
            let levels = [plan.statistics_level, plan.model_level, plan.refresh_level];
            (levels, plan.exchanges)
        };
        if places(fresh.plan()) != places(self.plan()) {
            let got = format!("{:?}", fresh.config().linear.schedule);
            let want = "one whose longest batch takes as many Newton steps as that of the original, with its exchanges";
            return Err(protocol::Error::from(OutOfRange::new("linear.schedule", got, want)).into());
        }
        let State { config, plan, secret, history, .. } = fresh.state;
        let mut state = self.state.clone();
        let rounds = state.reserved;
        state.origins.push(Origin { bandit: id, rounds });
        let state =
            State { config, plan, secret, history, given: Given::after(rounds), frozen: false, ..state };
        let mut copy = EncryptedBandit { state, exchanges: fresh.exchanges };
        if let Phase::Exchanging { batch, .. } = copy.state.phase {
            copy.begin_products(engine, batch)?;
        }
        Ok(copy)
    }

    /// The id of the bandit that this one is a copy of.
    pub fn origin(&self) -> Option<&str> {
        self.state.origins.last().map(|origin| origin.bandit.as_str())
    }

    /// The rounds of a bandit, by its id, that this one began with, if it is a copy of it or of a copy.
    fn began_with(&self, bandit: &str) -> Option<u64> {
        self.state.origins.iter().find(|origin| origin.bandit == bandit).map(|origin| origin.rounds)
    }

    /// Whether this is a copy that began with the feedback on `round` of the bandit with this id, and whether
    /// that is erased here.
    pub fn has_feedback_of(&self, bandit: &str, round: u64) -> Option<bool> {
        let began_with = self.began_with(bandit).is_some_and(|rounds| round <= rounds);
        let has = began_with && self.state.answered.get(round) == Round::Answered;
        has.then(|| self.state.erased.contains(&round))
    }
}
