//! Bandits of a committee, by the messages of the others.
//!
//! An agent has one session with the committee. What a bandit asks of sessions, how many a batch has and how
//! much each decides and counts, is about those who send: several sessions of one agent would be counted as
//! several senders.
//!
//! Each decision is a request of its own, because members compute those together that come together. The
//! feedback on a decision needs its label alone, which is the id that the application gets, so that no
//! feature is kept.

use crate::Error;
use crate::agent::{Inner, now};
use crate::decision_log::{Line, Played};
use crate::desk::{Returning, decided};
use crate::pending::{Kept, Sent, Waiting};
use host::lock;
use protocol::DecisionId;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use user_client::{CommitteeSession, CommitteeUser, patiently};
use wire::{Counted, Decided};

/// The most requests for decisions and feedback that are under way.
const MOST_UNDER_WAY: usize = 256;
/// Feedback on one decision is returned by one thread at a time.
const LANES: usize = 64;
/// The statement about a bandit of a committee.
const STATEMENT: &str = "The server and fewer than t members of the committee see no context, no arm and no reward. Nothing is \
                         differentially private.";

/// The committee, and the agent's session with it.
pub(crate) struct Committee {
    pub(crate) session: CommitteeSession,
    lanes: [Mutex<()>; LANES],
    under_way: AtomicUsize,
}

/// A request that is under way, until it is dropped.
struct UnderWay<'a>(&'a Committee);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Committee {
    /// The committee of a session that goes on when it is first needed.
    pub(crate) fn new(session: CommitteeSession) -> Self {
        let lanes = std::array::from_fn(|_| Mutex::default());
        Committee { session, lanes, under_way: AtomicUsize::new(0) }
    }

    /// Makes a decision on `rows`, and keeps it.
    pub(crate) fn decide(&self, agent: &Inner, bandit: &str, rows: &[Vec<f64>]) -> Result<Decided, Error> {
        let _under_way = self.begin()?;
        let mut rng = agent.fork_rng();
        let created =
            patiently(agent.options.patience, &agent.stop, &mut rng, |_| self.session.bandit(bandit))?;
        CommitteeUser::check_contexts(&created, rows)?;
        let ask = |_: &mut ChaCha20Rng| self.session.user()?.decide(&created, rows);
        let made = patiently(agent.options.patience, &agent.stop, &mut rng, ask)?;
        let arm = u32::try_from(made.arm).unwrap_or(u32::MAX);
        let played = Played {
            decided: now(),
            // Rounds of other bandits are counted from 1.
            round: made.round + 1,
            model_feedbacks: None,
            arms: created.arms.into(),
            arm,
            chosen: Some(arm),
            probability: 1.0,
            baseline: None,
            reliable: true,
        };
        let kept = Kept::Waiting(Waiting { features: vec![], question: None, played: played.clone() });
        agent.pending.keep(bandit, vec![(place(&made.label), kept)], now(), &mut rng)?;
        let label = ckks::Hex(&made.label).to_string();
        agent.log_decisions(vec![Line::new(now(), bandit, label.clone(), &played, None)]);
        Ok(decided(label, &played, STATEMENT))
    }

    /// Returns the reward of a decision.
    pub(crate) fn feedback(
        &self,
        agent: &Inner,
        bandit: &str,
        decision: &str,
        reward: f64,
    ) -> Result<Counted, Error> {
        let _under_way = self.begin()?;
        let label = label(decision)?;
        let _alone = lock(&self.lanes[usize::from(label[0]) % LANES]);
        let decision = decision.to_string();
        let returning =
            Returning { agent, bandit, id: place(&label), decision, reward, statement: STATEMENT };
        let send = |_: &Waiting, sent: &Sent, rng: &mut ChaCha20Rng| {
            let within = agent.options.patience;
            let user = patiently(within, &agent.stop, rng, |_| self.session.user())?;
            let message = user.feedback_of(&label, reward, &mut ChaCha20Rng::from_seed(sent.seed))?;
            patiently(within, &agent.stop, rng, |_| user.return_feedback(bandit, &label, &message))?;
            Ok(patiently(within, &agent.stop, rng, |_| user.feedbacks(bandit))?)
        };
        let check = |_: &Waiting| Ok(CommitteeUser::check_reward(&*self.session.bandit(bandit)?, reward)?);
        returning.counted(check, send, &mut agent.fork_rng())
    }

    /// Has the feedback on a decision erased.
    pub(crate) fn erase(&self, agent: &Inner, bandit: &str, decision: &str) -> Result<(), Error> {
        let (label, mut rng) = (label(decision)?, agent.fork_rng());
        let erase = |_: &mut ChaCha20Rng| self.session.user()?.erase(&*self.session.bandit(bandit)?, &label);
        Ok(patiently(agent.options.patience, &agent.stop, &mut rng, erase).map(drop)?)
    }

    fn begin(&self) -> Result<UnderWay<'_>, Error> {
        let under_way = UnderWay(self);
        match self.under_way.fetch_add(1, Ordering::Relaxed) < MOST_UNDER_WAY {
            true => Ok(under_way),
            false => Err(Error::Overloaded { most: MOST_UNDER_WAY }),
        }
    }
}

/// Where a decision is kept: under the start of its label.
fn place(label: &[u8; 32]) -> DecisionId {
    let mut id = [0; 16];
    id.copy_from_slice(&label[..16]);
    DecisionId(id)
}

fn label(decision: &str) -> Result<[u8; 32], Error> {
    wire::from_hex(decision).ok_or_else(|| Error::UnknownDecision { id: decision.chars().take(64).collect() })
}
