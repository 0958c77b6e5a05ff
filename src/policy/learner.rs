//! State of every policy, and what the service asks of it: an arm, to learn, its promise.

use crate::Error;
use crate::collect::{ShuffledGlm, Sums};
use bandit::anonymous::{ArsClw, ArsExp3, ArsUcb, Clw, Odaaf};
use bandit::distributed::{Elimination, IdealSum};
use bandit::stochastic::{AnytimeLazyUcb, DpSe, FollowTheNoisyLeader, HybridUcb, Ucb1};
use bandit::{Features, Oful, Policy};
use glm::baseline::{Ecolog, GlmUcb, Gloc};
use glm::joint::JointGlm;
use privacy::PrivacyStatement;
use privacy::laplace::GridLaplace;
use rand::Rng;
use serde::{Deserialize, Serialize};
use wire::ClearFeedback;

/// State of a policy; stored and read back it goes on exactly.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Learner {
    AnytimeLazyUcb(AnytimeLazyUcb<GridLaplace>),
    HybridUcb(HybridUcb<GridLaplace>),
    DpSe(DpSe<GridLaplace>),
    Ucb1(Ucb1),
    Leader(FollowTheNoisyLeader<GridLaplace>),
    Elimination(Box<Elimination<IdealSum>>),
    Sums(Box<Sums>),
    ArsUcb(ArsUcb),
    ArsExp3(ArsExp3),
    ArsClw(Box<ArsClw>),
    Clw(Box<Clw>),
    Odaaf(Box<Odaaf>),
    Oful(Box<Oful>),
    GlmUcb(Box<GlmUcb>),
    Gloc(Box<Gloc>),
    Ecolog(Box<Ecolog>),
    /// RS-GLinUCB as well: it is JointGLM without noise.
    JointGlm(Box<JointGlm>),
    ShuffledGlm(Box<ShuffledGlm>),
}

/// For each policy that sees no context and learns from one number.
macro_rules! plain {
    ($learner:expr, $policy:ident => $does:expr, $($other:pat => $then:expr,)+) => {
        match $learner {
            Learner::AnytimeLazyUcb($policy) => $does,
            Learner::HybridUcb($policy) => $does,
            Learner::DpSe($policy) => $does,
            Learner::Ucb1($policy) => $does,
            Learner::Elimination($policy) => $does,
            Learner::ArsUcb($policy) => $does,
            Learner::ArsExp3($policy) => $does,
            Learner::ArsClw($policy) => $does,
            Learner::Clw($policy) => $does,
            Learner::Odaaf($policy) => $does,
            $($other => $then,)+
        }
    };
}

impl Learner {
    /// The arm to play; `None` if devices choose. Does not use data in any way that a release has not paid for.
    pub(crate) fn decide(
        &mut self,
        context: Option<&Features>,
        rng: &mut dyn Rng,
    ) -> Result<Option<usize>, Error> {
        let seen = || context.ok_or(Error::Broken("a contextual policy without a context"));
        Ok(Some(plain!(self, policy => policy.decide(&(), rng)?,
            Learner::Leader(policy) => policy.decide(&(), rng)?,
            Learner::Oful(policy) => policy.decide(seen()?, rng)?,
            Learner::GlmUcb(policy) => policy.decide(seen()?, rng)?,
            Learner::Gloc(policy) => policy.decide(seen()?, rng)?,
            Learner::Ecolog(policy) => policy.decide(seen()?, rng)?,
            Learner::JointGlm(policy) => policy.decide(seen()?, rng)?,
            Learner::Sums(policy) => policy.decide()?,
            Learner::ShuffledGlm(_) => return Ok(None),
        )))
    }

    /// Takes in feedback on `arm`. After an error the state is of no use.
    pub(crate) fn learn(
        &mut self,
        context: Option<&Features>,
        arm: usize,
        feedback: &ClearFeedback,
        rng: &mut dyn Rng,
    ) -> Result<(), Error> {
        let seen = || context.ok_or(Error::Broken("a contextual policy without a context"));
        let number = feedback.reward.or(feedback.sum).ok_or(Error::Broken("feedback without its number"));
        plain!(self, policy => policy.learn(&(), arm, &number?, rng)?,
            Learner::Leader(policy) => {
                let rewards = feedback.rewards.as_deref();
                policy.learn(&(), arm, rewards.ok_or(Error::Broken("feedback without its rewards"))?, rng)?;
            },
            Learner::Oful(policy) => policy.learn(seen()?, arm, &number?, rng)?,
            Learner::GlmUcb(policy) => policy.learn(seen()?, arm, &number?, rng)?,
            Learner::Gloc(policy) => policy.learn(seen()?, arm, &number?, rng)?,
            Learner::Ecolog(policy) => policy.learn(seen()?, arm, &number?, rng)?,
            Learner::JointGlm(policy) => policy.learn(seen()?, arm, &number?, rng)?,
            Learner::Sums(policy) => {
                policy.learn(feedback.share.ok_or(Error::Broken("feedback without its share"))?, rng)?;
            },
            Learner::ShuffledGlm(_) => return Err(Error::Broken("feedback for a policy that takes batches")),
        );
        Ok(())
    }

    pub(crate) fn privacy(&self) -> Result<PrivacyStatement, Error> {
        Ok(match self {
            Learner::AnytimeLazyUcb(policy) => policy.privacy(),
            Learner::HybridUcb(policy) => policy.privacy(),
            Learner::DpSe(policy) => policy.privacy(),
            Learner::Ucb1(policy) => policy.privacy(),
            Learner::Leader(policy) => policy.privacy(),
            Learner::Elimination(policy) => policy.privacy()?,
            Learner::Sums(policy) => policy.privacy()?,
            Learner::ArsUcb(policy) => policy.privacy(),
            Learner::ArsExp3(policy) => policy.privacy(),
            Learner::ArsClw(policy) => policy.privacy(),
            Learner::Clw(policy) => policy.privacy(),
            Learner::Odaaf(policy) => policy.privacy(),
            Learner::Oful(_) => {
                PrivacyStatement::none("Decisions follow contexts and rewards without noise.")
            }
            Learner::GlmUcb(policy) => policy.privacy(),
            Learner::Gloc(policy) => policy.privacy(),
            Learner::Ecolog(policy) => policy.privacy(),
            Learner::JointGlm(policy) => policy.privacy(),
            Learner::ShuffledGlm(policy) => policy.privacy()?,
        })
    }

    /// Whether users add the noise, so that feedback holds it when it arrives.
    pub(crate) fn users_add_noise(&self) -> bool {
        matches!(self, Learner::Sums(_) | Learner::ShuffledGlm(_))
    }

    /// Whether a decision must be answered before the next, or is void.
    pub(crate) fn in_turn(&self) -> bool {
        !matches!(self, Learner::Oful(_) | Learner::Sums(_))
    }
}
