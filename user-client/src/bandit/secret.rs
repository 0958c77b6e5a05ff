//! What a device encrypts and decrypts in the ring of scores.

use super::{BanditDevice, reply};
use crate::Error;
use crate::device::OwnKey;
use ckks::Plaintext;
use protocol::{ArmCounter, LOG_CONTEXT, LOG_SCORE, LOG_STATISTICS, LearnId};
use rand::CryptoRng;
use wire::{Decision, LearnRequest, Nonce, Padded, ShownCounters, TraceQuestion, TracedFeedback};
use zeroize::Zeroizing;

/// A fresh nonce.
pub(super) fn nonce<R: CryptoRng>(rng: &mut R) -> Nonce {
    let mut nonce = [0; size_of::<Nonce>()];
    rng.fill_bytes(&mut nonce);
    nonce
}

impl BanditDevice<'_> {
    /// The frame of a message in the ring of scores under the secret key, with a seed.
    pub(super) fn encrypted<R: CryptoRng>(&self, message: &Plaintext, rng: &mut R) -> Result<Vec<u8>, Error> {
        let small = &self.device.secret_keys()?.small;
        Ok(ckks_secret::encrypt(small, message, rng).to_bytes(small, self.small_id))
    }

    /// The frame of the coefficients `places` of a message of a user with a key of its own, under the pads of
    /// `of`.
    pub(super) fn under_pads(
        &self,
        own: &OwnKey,
        (of, nonce): (Padded, &Nonce),
        values: &[i64],
        log_scale: u32,
    ) -> Vec<u8> {
        let (params, scale) = (self.small(), f64::from(log_scale).exp2());
        let seed = own.pads.seed(of, &self.created.id, nonce);
        let level = (params.max_level(), scale);
        ckks::write_padded_upload(params, self.small_id, level, values, (nonce, &seed))
    }

    /// The frame of the statistics of feedbacks.
    fn encrypted_statistics<R: CryptoRng>(
        &self,
        coefficients: &[i64],
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let count = self.exchanges.layout.feedback_numbers();
        if let Some(own) = self.device.own_key() {
            let nonce = nonce(rng);
            let values = &coefficients[..count];
            return Ok(self.under_pads(own, (Padded::Feedback, &nonce), values, LOG_STATISTICS));
        }
        let message = Zeroizing::new(self.message(coefficients, LOG_STATISTICS)?);
        let small = &self.device.secret_keys()?.small;
        Ok(ckks_secret::encrypt(small, &message, rng).to_partial_bytes(small, self.small_id, count))
    }

    /// The body of a feedback with these statistics.
    pub(super) fn encrypted_feedback<R: CryptoRng>(
        &self,
        statistics: &[i64],
        features: &[f64],
        question: Option<&TraceQuestion>,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let layout = &self.exchanges.layout;
        let statistics = self.encrypted_statistics(statistics, rng)?;
        if !self.created.config.tests_trace() {
            return Ok(statistics);
        }
        let coefficients = Zeroizing::new(layout.trace(features)?);
        let message = Zeroizing::new(self.message(&coefficients, LOG_CONTEXT)?);
        let trace = self.encrypted(&message, rng)?;
        // The question is answered last, so that every counted answer is sent.
        let answer = question.map(|question| self.answer_question(question, rng)).transpose()?;
        Ok(TracedFeedback { statistics, trace, answer: answer.flatten() }.to_bytes())
    }

    /// The body of a request to learn these logged rounds ([`wire::LearnRequest`]), each with its arm,
    /// features and reward: an encryption of the sum of their feedbacks.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a bandit that takes no logged rounds, for no round and more than
    /// [`protocol::BanditConfig::most_logged`], and for what [`Self::feedback`] refuses.
    pub fn logged<R: CryptoRng>(
        &self,
        id: LearnId,
        rounds: &[(usize, &[f64], f64)],
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        self.created.config.check_logged()?;
        let layout = &self.exchanges.layout;
        let coefficients = Zeroizing::new(layout.logged(rounds)?);
        // The rounds of others are no user's to teach.
        self.device.secret_keys()?;
        let statistics = self.encrypted_statistics(&coefficients, rng)?;
        Ok(LearnRequest { id, rounds: rounds.len() as u32, statistics }.to_bytes())
    }

    /// N/2 of the ring of evaluations.
    fn evaluation_slots(&self) -> usize {
        self.device.rings().decisions.max_slots()
    }

    /// The entry of each arm of these users. They are slots of the answer to a request alone, and
    /// coefficients of one to a request of several. Whatever else it holds is noise.
    pub(super) fn entries(&self, decision: &Decision, users: &[usize]) -> Result<Vec<Vec<f64>>, Error> {
        let (params, level) = (&self.answers, self.created.plan.answer_level);
        let places = self.exchanges.layout.answer_coefficients(users, self.evaluation_slots());
        if let Some(own) = self.device.own_key() {
            let nonce = decision.nonce.ok_or(wire::Error::Malformed("an answer that is not under pads"))?;
            let seed = own.pads.seed(Padded::Answer, &self.created.id, &nonce);
            let (id, scale) = (self.small_id, self.exchanges.answers.to().1);
            let padded = (&*seed, &places[..]);
            let coefficients =
                Zeroizing::new(ckks::read_padded(params, id, scale, padded, &decision.answer)?);
            let of_user = coefficients.chunks(self.exchanges.layout.arms());
            return Ok(of_user.map(|of| of.iter().map(|c| *c as f64 / scale).collect()).collect());
        }
        let secret = self.answers_secret.as_ref().ok_or(Error::NoSecretKeys)?;
        if decision.answer.len() == ckks::partial_ciphertext_bytes(params, level, places.len()) {
            let (id, scale) = (self.small_id, self.exchanges.answers.to().1);
            let named = places.iter().copied();
            let answer = ckks::read_partial_ciphertext(params, id, level, scale, named, &decision.answer)?;
            let entries = |coefficients: &[i128]| {
                // Below q₀ < 2⁶³, where the conversion has no branch.
                let entry = |place: &usize| coefficients[*place] as i64 as f64 / scale;
                let of_user = places.chunks(self.exchanges.layout.arms());
                of_user.map(|places| places.iter().map(entry).collect()).collect()
            };
            return Ok(ckks_secret::decrypt_coefficients(secret, &answer).with(|c| entries(c)));
        }
        let answer = ckks::read_ciphertext(params, self.small_id, level, &decision.answer)?;
        let (layout, large) = (&self.exchanges.layout, self.evaluation_slots());
        Ok(ckks_secret::decrypt(secret, &answer, params.max_slots())
            .with(|slots| users.iter().map(|&user| layout.action_values(slots, user, large)).collect()))
    }

    /// The counters of a sum. They are rounded to steps, and so do not depend on the noise of encryption.
    pub(super) fn opened_counters(&self, shown: &ShownCounters) -> Result<Vec<ArmCounter>, Error> {
        let (layout, params) = (&self.exchanges.layout, self.small());
        let (level, scale) = (params.max_level(), f64::from(LOG_STATISTICS).exp2());
        let (id, count) = (self.small_id, layout.feedback_numbers());
        let sum = ckks::read_truncated_ciphertext(params, id, level, scale, count, &shown.sum)?;
        let coefficients = ckks_secret::decrypt_coefficients(&self.device.secret_keys()?.small, &sum);
        Ok(coefficients.with(|coefficients| layout.read_counters(coefficients)))
    }

    /// The index of each arm, u and the bonus of z, of `count` decisions, and whether all z and u are in
    /// their range.
    pub(super) fn indices(&self, decision: &Decision, count: usize) -> Result<Vec<reply::Values>, Error> {
        let (layout, log) = (&self.exchanges.layout, self.exchanges.layout.log_places(count)?);
        let params = self.small();
        let answer = ckks::read_ciphertext(params, self.small_id, params.max_level(), &decision.answer)?;
        // A product keeps the scale of its factors' product, and frames hold the canonical one.
        let answer = answer.with_scale(f64::from(LOG_SCORE).exp2());
        let (linear, t_j) = (&self.created.config.linear, decision.model_feedbacks);
        let (range, t_j) = (self.possible_scores(t_j), self.created.config.effective(t_j));
        let of_decision = |coefficients: &[i128], b: usize| {
            let scores = Zeroizing::new(layout.scores(coefficients, b, log));
            let bonus = linear.bonus(decision.round.saturating_add(b as u64), t_j, linear.c1(t_j));
            let values = scores.iter().map(|[z, u]| u + bonus.of(*z)).collect();
            let reliable =
                scores.iter().flatten().zip(range.iter().cycle()).all(|(v, range)| range.contains(v));
            reply::Values { values, reliable }
        };
        Ok(ckks_secret::decrypt_coefficients(&self.device.secret_keys()?.small, &answer)
            .with(|coefficients| (0..count).map(|b| of_decision(coefficients, b)).collect()))
    }

    /// The ranges of z = xᵀAx and u = ⟨ω, x⟩ after `feedbacks` feedbacks with rewards within ± 1. A is at
    /// most 1/λ, and the norm of ω is at most √(t/λ)/2; a sixteenth is left for errors of the model, and the
    /// rest for noise.
    fn possible_scores(&self, feedbacks: u64) -> [std::ops::Range<f64>; 2] {
        let linear = &self.created.config.linear;
        let noise = self.scores_noise();
        let z = 1.0625 * linear.l * linear.l / linear.lambda + noise;
        let u = 1.0625 * linear.l * (feedbacks as f64 / linear.lambda).sqrt() / 2.0 + noise;
        [-noise..z, -u..u]
    }
}
