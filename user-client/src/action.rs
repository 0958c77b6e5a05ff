//! The decision: its ciphertexts, answer level → the arm to play.

use crate::{Device, Error};
use ckks::Ciphertext;
use protocol::{DecisionId, RefreshId};
use wire::{Created, DecideReply};
use zeroize::Zeroize;

/// A decision as the device sees it. No Debug: values are the user's.
pub struct Decision {
    /// The id that the feedback names.
    pub id: DecisionId,
    /// The arm to play, from 0.
    pub arm: usize,
    /// The decrypted entries, one an arm, near 1 for the arms worth playing. They must stay on this device:
    /// exact decryptions that reach the server give the key away.
    pub action_values: Vec<f64>,
    /// Round t.
    pub round: u64,
    /// Feedbacks in the model that decided.
    pub model_feedbacks: u64,
    /// Seconds of wall time that the server states, by phase.
    pub seconds: Vec<(String, f64)>,
    /// Whether every entry is below [`protocol::exchange::largest_entry`] and above −0.5, as those of a
    /// decision are. If not, scores left the range that the comparison was made for, or the server did not
    /// follow the protocol: the arm means nothing.
    pub reliable: bool,
    /// The trace comparison, where the schedule asks for an answer.
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
    /// Whether its answer will bring a refreshed model.
    pub fn has_refresh(&self) -> bool {
        self.refresh.is_some()
    }
}

impl Device {
    /// Reads the server's reply and decrypts the action.
    ///
    /// # Errors
    /// [`Error::Wire`], [`Error::Ckks`] for bytes that are not a reply under this key and plan;
    /// [`Error::WrongKeys`], [`Error::PlanMismatch`], [`Error::Protocol`] for the bandit.
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
            // Under a public schedule an honest server asks nothing: a question can only be meant to have
            // something else decrypted.
            // Every other question is answered, and counted. Whether it is answered must not depend on what
            // was decrypted: that would be an answer too.
            trace: trace.filter(|_| !created.config.linear.schedule.is_public()),
            reliable,
            refresh,
        })
    }
}
