//! The answer to a decision: reward, trace answer and refreshed model in one message. The trace question is
//! at level 0, the masked model at the refresh level, and the refreshed model at the model level.
//!
//! Source: Algorithm 10. Departure: the trace answer is one bit, counted ([`crate::answers`]), not the masked
//! number.

use crate::{Decision, Device, Error};
use ckks::Ciphertext;
use protocol::{RefreshId, exchange};
use rand::{CryptoRng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use wire::{Created, FeedbackRequest};

impl Device {
    /// The body of the feedback on `decision`. `features` are those of the arm that was played, and `reward`
    /// is in [−1, 1].
    ///
    /// # Errors
    /// [`Error::Protocol`] for features (row 1), reward and the bandit's configuration; [`Error::WrongKeys`],
    /// [`Error::PlanMismatch`] for the bandit; [`Error::Secret`] if the masked model cannot be encrypted
    /// anew; [`Error::AnswerCount`] if the trace is asked for and the answer cannot be counted.
    pub fn answer<R: CryptoRng>(
        &self,
        created: &Created,
        decision: &Decision,
        features: &[f64],
        reward: f64,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let agreement = self.agree(created)?;
        let [mut first, mut second] = [ChaCha20Rng::from_rng(rng), ChaCha20Rng::from_rng(rng)];
        let (reward, refreshed) = rayon::join(
            || self.encrypt_reward(created, &agreement, features, reward, &mut first),
            || self.refresh(created, decision, &mut second),
        );
        let ((statistics, trace), refreshed) = (reward?, refreshed?);
        // The trace is answered last, so that every counted answer is sent.
        let trace_answer = match &decision.trace {
            Some(question) => self.answer_trace(question, rng)?,
            None => None,
        };
        Ok(FeedbackRequest { statistics, trace, trace_answer, refreshed }.to_bytes())
    }

    /// Whether the trace has reached its threshold. `None` if the key has given as many answers as it may.
    pub(crate) fn answer_trace<R: CryptoRng>(
        &self,
        question: &Ciphertext,
        rng: &mut R,
    ) -> Result<Option<bool>, Error> {
        if !self.answers().count()? {
            return Ok(None);
        }
        let params = self.params();
        let comparison = ckks_secret::constant_coefficient(self.secret(), question);
        let threshold = exchange::trace_threshold(params);
        let bits = exchange::device_flood_bits(params);
        Ok(Some(comparison.at_least(threshold, params.prime(0), bits, rng)))
    }

    /// Encrypts the masked model again, at the top level.
    fn refresh<R: CryptoRng>(
        &self,
        created: &Created,
        decision: &Decision,
        rng: &mut R,
    ) -> Result<Option<(RefreshId, Vec<u8>)>, Error> {
        let Some((id, masked)) = &decision.refresh else { return Ok(None) };
        let plan = &created.plan;
        let fresh = ckks_secret::recrypt(self.secret(), masked, plan.model_level, plan.model_slots, rng)?;
        Ok(Some((*id, fresh.to_bytes(self.secret(), self.key_id()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::{Answers, most_answers};
    use bandit::Schedule;
    use ckks::KeyId;
    use ckks_secret::SecretKey;
    use protocol::{BanditConfig, DecisionId, Shape};
    use rns::{Coeff, Poly};
    use wire::{DecideReply, Limits};

    /// A server that deviates: it sends trace questions of its own making, c₁ = 2³⁰·X⁻ᵏ, whose constant
    /// coefficient is 2³⁰·s_k, moved so that the device's threshold falls between two values of s_k.
    struct Attacker<'a> {
        device: &'a Device,
        created: Created,
        limits: Limits,
        answers: u64,
        rng: ChaCha20Rng,
    }

    const STEP: i64 = 1 << 30;

    impl<'a> Attacker<'a> {
        fn new(device: &'a Device, schedule: Schedule) -> Self {
            let mut config = BanditConfig::new(2, 2);
            config.linear.schedule = schedule;
            let params = device.params();
            let plan = config.plan(params, device.shape()).unwrap();
            let created = Created {
                id: "b".into(),
                config,
                plan,
                key_id: device.key_id().to_string(),
                fingerprint: params.fingerprint().to_string(),
            };
            let limits = device.limits(&created).unwrap();
            Attacker { device, created, limits, answers: 0, rng: ChaCha20Rng::seed_from_u64(3) }
        }

        /// A level 0 ciphertext of constants times monomials.
        fn frame(&self, c0: i64, (power, c1): (usize, i64)) -> Vec<u8> {
            let (params, basis) = (self.device.params(), self.device.params().q_basis(0));
            let poly = |at: usize, value: i64| {
                let mut coefficients = vec![0; params.n()];
                coefficients[at] = value;
                Poly::<Coeff>::from_signed(basis, &coefficients).into_ntt(basis)
            };
            let ct = Ciphertext::new(poly(0, c0), poly(power, c1), 0, params.scale(0));
            ckks::write_ciphertext(params, self.device.key_id(), &ct)
        }

        /// One round: whether 2³⁰·s_k is at least `bound`, if the device answers. Its feedback comes in any
        /// case.
        fn ask(&mut self, k: usize, bound: i64) -> Option<bool> {
            let n = self.device.params().n();
            let threshold = exchange::trace_threshold(self.device.params()) as i64;
            // X⁻ᵏ = −Xᴺ⁻ᵏ.
            let monomial = if k == 0 { (0, STEP) } else { (n - k, -STEP) };
            let reply = DecideReply {
                decision: DecisionId([0; 16]),
                round: 1,
                model_feedbacks: 0,
                seconds: Vec::new(),
                action: self.frame(0, (0, 0)),
                trace: Some(self.frame(threshold - bound, monomial)),
                refresh: None,
            };
            let decision = self.device.read_decision(&self.created, &reply.to_bytes()).unwrap();
            assert!(decision.reliable && decision.arm < 2);
            let body = self.device.answer(&self.created, &decision, &[0.5, 0.5], 1.0, &mut self.rng).unwrap();
            let feedback = FeedbackRequest::read(&body, &self.limits).unwrap();
            assert!(!feedback.statistics.is_empty() && !feedback.trace.is_empty());
            self.answers += u64::from(feedback.trace_answer.is_some());
            feedback.trace_answer
        }

        fn coefficient(&mut self, k: usize) -> Option<i64> {
            Some(match self.ask(k, STEP / 2)? {
                true => 1,
                false if self.ask(k, -STEP / 2)? => 0,
                false => -1,
            })
        }

        /// How many of the first `count` coefficients come out, and how many of these are right.
        fn attack(&mut self, secret: &[i64], count: usize) -> (usize, usize) {
            let got: Vec<_> = (0..count).map(|k| self.coefficient(k)).collect();
            let right = got.iter().zip(secret).filter(|(g, s)| **g == Some(**s)).count();
            (got.iter().flatten().count(), right)
        }
    }

    fn key() -> (SecretKey, Vec<i64>) {
        let params = ckks::TOY_LOGN12_DEPTH21.validate().unwrap();
        let secret = SecretKey::generate(&params, &mut ChaCha20Rng::seed_from_u64(1));
        let frame = secret.to_bytes(KeyId([1; 16]));
        let payload = &frame[ckks::FRAME_HEADER_BYTES..][..params.n() / 4];
        let coefficients = payload.iter().flat_map(|b| (0..4).map(move |i| i64::from(b >> (2 * i) & 3) - 1));
        (secret, coefficients.collect())
    }

    /// Without a limit the answers give the key away, coefficient by coefficient, and every decision looks
    /// like an honest one. The limit stops that, and under a public schedule the device never answers. A
    /// device that refuses says so once, and still sends its feedback.
    #[test]
    fn attack_trace_answers_give_the_key_away() {
        const TRIED: usize = 150;
        let device = |change: fn(Answers) -> Answers| {
            let (secret, coefficients) = key();
            let mut device = Device::new(
                secret,
                KeyId([1; 16]),
                None,
                Shape::for_problem(2, 2),
                wire::AccessToken::from_bytes(&[1; 32]).unwrap(),
            );
            let answers = Answers::new(KeyId([1; 16]), device.params());
            device.replace_answers(change(answers));
            (device, coefficients)
        };
        // The control: everything comes out, in 5/3 answers a coefficient.
        let (open, secret) = device(Answers::unlimited);
        let mut attacker = Attacker::new(&open, Schedule::TraceOrGrowth);
        assert_eq!(attacker.attack(&secret, TRIED), (TRIED, TRIED));
        assert!((TRIED as u64..=2 * TRIED as u64).contains(&attacker.answers));

        // The limit: as many bits as it says, and no more, however often one asks.
        let (limited, secret) = device(|answers| answers.at_most(40));
        let mut attacker = Attacker::new(&limited, Schedule::TraceOrGrowth);
        let (got, right) = attacker.attack(&secret, TRIED);
        assert_eq!(attacker.answers, 40);
        assert!(got == right && got <= 40, "{got}");
        assert_eq!(limited.answers_spent().map(|spent| spent.given), Some(40));
        assert_eq!(limited.answers_spent(), None, "told once");
        // That of the default is far below the bits of a ternary key.
        let params = limited.params();
        assert!((most_answers(params) as f64) < 0.2 * 3f64.log2() * params.n() as f64);

        // A public schedule, even without a limit.
        let mut attacker = Attacker::new(&open, BanditConfig::new(2, 2).linear.schedule);
        assert_eq!((attacker.attack(&secret, TRIED), attacker.answers), ((0, 0), 0));
    }
}
