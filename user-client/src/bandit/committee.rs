//! What a device without a secret key encrypts under the public key of a committee, and opens from the shares
//! of its members.
//!
//! ```text
//! entry = (⟨w, c₀⟩ + Σ shares modulo q₀, centred)/(2ᵉ·Δ)     w: the form of the arm's slot, with weights 2ᵉ
//! ```
//! The server knows ⟨w, c₀⟩, and this device alone the shares, which members seal under a key of its request.
//! Every member signs what its share is about, so that the server cannot show the answer of another request.

use super::BanditDevice;
use crate::Error;
use crate::device::CommitteeKeys;
use ckks::Plaintext;
use ckks_shares::OpeningShare;
use envelope::SealingSecret;
use protocol::exchange::OPENED_FORM_BITS;
use rand::CryptoRng;
use wire::{AnswerBinding, CommitteeContexts, Decision, OpenedAnswer};

impl BanditDevice<'_> {
    /// The body of a request for this many decisions, and the secret that its answer is opened with.
    pub(super) fn sealed_contexts<R: CryptoRng>(
        &self,
        keys: &CommitteeKeys,
        message: &Plaintext,
        decisions: usize,
        rng: &mut R,
    ) -> (Vec<u8>, SealingSecret) {
        let secret = SealingSecret::generate(rng);
        let (small, answer_key) = (self.small(), secret.public());
        let about = CommitteeContexts::about(&self.created.id, decisions, &answer_key);
        let contexts = ckks::encrypt_proven(small, &keys.public_key, message, small.n(), &about, rng);
        (CommitteeContexts { answer_key, contexts }.to_bytes(), secret)
    }

    /// The body of the feedback with these statistics on the decision of `round`.
    pub(super) fn public_statistics<R: CryptoRng>(
        &self,
        keys: &CommitteeKeys,
        message: &Plaintext,
        round: u64,
        rng: &mut R,
    ) -> Vec<u8> {
        let count = self.exchanges.layout.feedback_numbers();
        let about = wire::feedback_about(&self.created.id, round);
        ckks::encrypt_proven(self.small(), &keys.public_key, message, count, &about, rng)
    }

    /// The entry of each arm of these users, from shares of t members that are signed for this answer. The
    /// ids of the decisions must be those of the rounds that members signed, so that feedback goes to no
    /// other round.
    pub(super) fn opened(
        &self,
        keys: &CommitteeKeys,
        secret: &SealingSecret,
        decision: &Decision,
        users: &[usize],
    ) -> Result<Vec<Vec<f64>>, Error> {
        let (params, level, arms) =
            (&self.answers, self.created.plan.answer_level, self.created.config.linear.k);
        let count = arms * users.len();
        let known = keys.known();
        let (answer, set) = OpenedAnswer::read(&decision.answer, known.quorum, count)?;
        let ids = std::iter::once(&decision.id).chain(&decision.others);
        let rounds = (0..users.len() as u64).map(|i| decision.round.checked_add(i));
        if !ids.map(|id| Some(id.round())).eq(rounds) {
            return Err(Error::BadAnswer("the ids of its decisions are those of other rounds".into()));
        }
        let binding = AnswerBinding {
            bandit: self.created.id.clone(),
            round: decision.round,
            model_feedbacks: decision.model_feedbacks,
            // Users were checked against the layout.
            users: users.iter().map(|&user| user as u32).collect(),
            answer_key: wire::answer_key_hash(&secret.public()),
        };
        for share in &answer.shares {
            let checked = share.check(known.verifying(share.member), &binding, &answer.request, set);
            checked.map_err(|error| Error::Share { member: share.member, error })?;
        }
        let open = |share: &wire::SealedShare| {
            let opened = share.open(secret, &binding, &answer.request, set, count);
            let opened = opened.map_err(|error| Error::Share { member: share.member, error })?;
            Ok(OpeningShare(opened.iter().map(|x| vec![*x]).collect()))
        };
        let shares = answer.shares.iter().map(open).collect::<Result<Vec<_>, Error>>()?;
        let own: Vec<Vec<u64>> = answer.values.iter().map(|x| vec![*x]).collect();
        let entries = ckks_shares::open(params, level, set, &own, &shares)?;
        let unit = f64::from(OPENED_FORM_BITS).exp2() * params.scale(level);
        let entries: Vec<f64> = entries.iter().map(|x| *x as f64 / unit).collect();
        Ok(entries.chunks(arms).map(<[f64]>::to_vec).collect())
    }
}
