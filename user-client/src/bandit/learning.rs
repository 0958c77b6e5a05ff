//! Logged rounds of before, learnt in bulk over HTTP.

use super::BanditDevice;
use crate::{Client, Error};
use protocol::{LearnId, Status};
use rand::CryptoRng;
use wire::ProblemType;

/// Seconds for which a request waits for a task.
const SECONDS: u64 = 5;
/// The most refusals in succession without a task in between.
const MOST_REFUSALS: u32 = 100;
/// The pause after such a refusal.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// What was played in a round that was logged, and its reward.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedRound {
    /// The arm that was played.
    pub arm: usize,
    /// Its features.
    pub features: Vec<f64>,
    /// Its reward, from −1 to 1.
    pub reward: f64,
}

/// How far logged rounds are learnt.
#[derive(Debug, Clone, PartialEq)]
pub struct Learning {
    /// The rounds that the server has.
    pub rounds: usize,
    /// The requests that they took.
    pub requests: usize,
    /// The state of the bandit.
    pub status: Status,
}

/// The id of the rounds from `first` on of those that go by `name`: the same for the same name.
fn id(name: &str, first: usize) -> LearnId {
    let mut hasher = blake3::Hasher::new_derive_key("helba user-client 2026 id of logged rounds");
    hasher.update(&(first as u64).to_le_bytes()).update(name.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    LearnId(id)
}

impl BanditDevice<'_> {
    /// Has the bandit learn `rounds` in bulk, with as many requests as they take, and answers the tasks of
    /// the bandit until its model has all that its schedule has closed. The server learns nothing but their
    /// number. Rounds that go by the same `name` are learnt once, so that a call that failed is repeated with
    /// the same rounds and name. `each` hears how far they are.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a bandit that takes no logged rounds, and for the first round that is no
    /// feedback of it, before anything is sent; as [`Self::logged`]; those of [`Client`].
    pub fn learn<R: CryptoRng>(
        &self,
        client: &Client,
        name: &str,
        rounds: &[LoggedRound],
        rng: &mut R,
        mut each: impl FnMut(&Learning),
    ) -> Result<Learning, Error> {
        let config = &self.created.config;
        config.check_logged()?;
        let rounds: Vec<(usize, &[f64], f64)> =
            rounds.iter().map(|round| (round.arm, &round.features[..], round.reward)).collect();
        self.exchanges.layout.check_logged(&rounds)?;
        let view = client.encrypted(&self.created.id)?;
        let mut done = Learning { rounds: 0, requests: 0, status: view.status };
        let mut refusals = 0;
        while done.rounds < rounds.len() {
            let left = &rounds[done.rounds..];
            let (learnt, waiting) = (done.status.model_feedbacks, done.status.feedbacks);
            // At least one: the server then ends the batch that waits for more.
            let room = config.most_waiting(learnt).saturating_sub(waiting.saturating_sub(learnt)).max(1);
            let most = config.most_logged(learnt);
            let part = &left[..left.len().min(most).min(usize::try_from(room).unwrap_or(most))];
            let body = self.logged(id(name, done.rounds), part, rng)?;
            match client.learn(&self.created.id, &body) {
                // It may have been learnt by a call before this one, with another length.
                Ok(receipt) if (1..=protocol::MOST_LOGGED as u64).contains(&receipt.rounds) => {
                    done.rounds = (done.rounds + receipt.rounds as usize).min(rounds.len());
                    done.requests += 1;
                    done.status.feedbacks = receipt.feedbacks;
                    refusals = 0;
                }
                Ok(_) => return Err(Error::BadAnswer("its receipt has no number of logged rounds".into())),
                Err(error) => {
                    let (answered, status) = self.answer_until_idle(client, rng)?;
                    // A raiser may have renewed the model since, which then takes fewer rounds.
                    let fewer = config.most_logged(status.model_feedbacks) < part.len();
                    refusals = if answered > 0 { 0 } else { refusals + 1 };
                    if !(is_learning(&error) || fewer) || refusals > MOST_REFUSALS {
                        return Err(error);
                    }
                    if answered == 0 {
                        std::thread::sleep(PAUSE);
                    }
                    done.status = status;
                    continue;
                }
            }
            each(&done);
        }
        done.status = self.answer_until_idle(client, rng)?.1;
        Ok(done)
    }

    /// Answers the tasks of the bandit until it waits for no holder of the key. Returns how many it answered,
    /// and the state of the bandit.
    ///
    /// # Errors
    /// Those of [`Self::raise`] and [`Client`].
    pub fn answer_until_idle<R: CryptoRng>(
        &self,
        client: &Client,
        rng: &mut R,
    ) -> Result<(u64, Status), Error> {
        let (id, limits, mut answered) = (&self.created.id, &self.limits, 0);
        loop {
            let status = client.encrypted(id)?.status;
            if !status.updating && !status.refresh_due {
                return Ok((answered, status));
            }
            let Some(reply) = client.raises(id, limits, SECONDS)? else { continue };
            for task in self.read(&reply)?.tasks {
                match client.post_raises(id, limits, &self.raise(&[task], None, rng)?) {
                    // Another holder of the key was faster.
                    Err(Error::Refused(problem)) if problem.status == 409 => {}
                    sent => {
                        sent?;
                        answered += 1;
                    }
                }
            }
        }
    }
}

/// Whether the bandit takes more logged rounds after its next model.
fn is_learning(error: &Error) -> bool {
    let reason = ProblemType::StillLearning.reason();
    matches!(error, Error::Refused(problem) if problem.reason.as_deref() == Some(reason))
}
