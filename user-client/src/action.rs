//! Reads a decision: it decrypts the action at the answer level, and returns the arm to play.

use crate::{Device, Error};
use ckks::Ciphertext;
use protocol::{DecisionId, RefreshId};
use wire::{Created, DecideReply};
use zeroize::Zeroize;

/// A decision as the device sees it. It has no Debug, because its values are private to the user.
pub struct Decision {
    /// The id that the feedback names.
    pub id: DecisionId,
    /// The arm to play, from 0.
    pub arm: usize,
    /// The decrypted entry of each arm, near 1 for the arms worth playing. They must stay on this device,
    /// because exact decryptions reveal the key to the server.
    pub action_values: Vec<f64>,
    /// Round t.
    pub round: u64,
    /// The number of feedbacks in the model of the decision.
    pub model_feedbacks: u64,
    /// Seconds of wall time in each phase, as the server states them.
    pub seconds: Vec<(String, f64)>,
    /// Whether every entry is above −0.5 and below [`protocol::exchange::largest_entry`]. If not, a score was
    /// outside the range of the comparison, or the server deviates from the protocol, and the arm must not be
    /// relied on.
    pub reliable: bool,
    /// The trace comparison, if the schedule asks for an answer.
    pub(crate) trace: Option<Ciphertext>,
    /// The masked model.
    pub(crate) refresh: Option<(RefreshId, Ciphertext)>,
}

impl Drop for Decision {
    fn drop(&mut self) {
        self.action_values.zeroize();
    }
}

impl Decision {
    /// Whether the answer will contain a refreshed model.
    pub fn has_refresh(&self) -> bool {
        self.refresh.is_some()
    }
}

impl Device {
    /// Reads the server's reply and decrypts the action.
    ///
    /// # Errors
    /// [`Error::Wire`], [`Error::Ckks`] for bytes that are no reply under this key and plan;
    /// [`Error::WrongKeys`], [`Error::PlanMismatch`], [`Error::Protocol`] for a bandit that does not fit this
    /// device.
    pub fn read_decision(&self, created: &Created, reply: &[u8]) -> Result<Decision, Error> {
        let agreement = self.agree(created)?;
        let plan = &created.plan;
        let reply = DecideReply::read(reply, &agreement.limits)?;
        let read = |frame: &[u8], level| ckks::read_ciphertext(self.params(), self.key_id(), level, frame);
        let action = read(&reply.action, plan.answer_level)?;
        let trace = reply.trace.map(|frame| read(&frame, plan.answer_level)).transpose()?;
        let refresh = match reply.refresh {
            Some((id, frame)) => Some((id, read(&frame, plan.refresh_level)?)),
            None => None,
        };
        let layout = &agreement.layout;
        let (arm, action_values) = ckks_secret::decrypt(self.secret(), &action, plan.slots)
            .with(|slots| (layout.action(slots), layout.action_values(slots)));
        let entries = -0.5..protocol::exchange::largest_entry(self.shape());
        let reliable = action_values.iter().all(|v| entries.contains(v));
        Ok(Decision {
            id: reply.decision,
            arm,
            action_values,
            round: reply.round,
            model_feedbacks: reply.model_feedbacks,
            seconds: reply.seconds,
            // Under a public schedule, an honest server asks no question, and a question of another server is
            // dropped. Every other question is answered and counted. This must not depend on decrypted
            // values, because the server would learn from it.
            trace: trace.filter(|_| !created.config.linear.schedule.is_public()),
            reliable,
            refresh,
        })
    }
}

/// The first of the largest values.
pub(crate) fn first_largest(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, a| if values[a] > values[best] { a } else { best })
}
