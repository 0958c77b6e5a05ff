//! Answers the trace question of a bandit with the trace condition: whether the trace of the batch has
//! reached C. The answer is one bit of a decryption, counted for the key
//! ([`crate::Device::with_most_answers`]).
//!
//! Source: Algorithm 10. Departure: the answer is one bit, counted ([`crate::answers`]), not the masked
//! number.

use super::BanditDevice;
use crate::Error;
use ckks::Ciphertext;
use protocol::{QuestionId, exchange};
use rand::CryptoRng;
use wire::TraceQuestion;

impl BanditDevice<'_> {
    /// The answer to a trace question, or `None` if the key has given as many answers as it may. Every
    /// question is answered and counted, whatever else was decrypted.
    pub(super) fn answer_question<R: CryptoRng>(
        &self,
        question: &TraceQuestion,
        rng: &mut R,
    ) -> Result<Option<(QuestionId, bool)>, Error> {
        let (question_id, keys) = (question.id, self.device.secret_keys()?);
        let question = self.comparison(question)?;
        if !keys.answers.count()? {
            return Ok(None);
        }
        let secret = keys.decisions();
        let params = secret.params();
        let comparison = ckks_secret::constant_coefficient(secret, &question);
        let threshold = exchange::trace_threshold(params);
        let bits = exchange::device_flood_bits(params);
        Ok(Some((question_id, comparison.at_least(threshold, params.prime(0), bits, rng))))
    }

    /// The ciphertext of a trace question.
    pub(super) fn comparison(&self, question: &TraceQuestion) -> Result<Ciphertext, Error> {
        let (params, id) = (&self.device.rings().decisions, self.device.decisions_id());
        Ok(ckks::read_ciphertext(params, id, self.created.plan.answer_level, &question.frame)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::answers::{Answers, most_answers};
    use bandit::Schedule;
    use ckks::{KeyId, Params};
    use ckks_secret::SecretKey;
    use protocol::{BanditConfig, DecisionId, ScoreRing, Shape};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use rns::{Coeff, Poly};
    use wire::{Created, DecideReply, Decision, TracedFeedback};

    const ID: QuestionId = QuestionId { feedbacks: 1, model_feedbacks: 0, code: [5; 16] };
    /// A server that deviates chooses c₁ = 2³⁰·X⁻ᵏ, so that the constant coefficient is 2³⁰·s_k, moved so
    /// that the device's threshold falls between two values of s_k.
    const STEP: i64 = 1 << 30;
    const TRIED: usize = 150;

    fn rng() -> ChaCha20Rng {
        ChaCha20Rng::seed_from_u64(1)
    }

    /// A device whose answers are limited by `change`, and the coefficients of its key.
    fn device(change: fn(Answers) -> Answers) -> (Device, Vec<i64>) {
        let params = ckks::TOY_LOGN12_DEPTH21.validate().unwrap();
        let (id, shape) = (KeyId([1; 16]), Shape::for_problem(2, 2));
        let secret = SecretKey::generate(&params, &mut rng());
        let frame = secret.to_bytes(id);
        let payload = &frame[ckks::FRAME_HEADER_BYTES..][..params.n() / 4];
        let coefficients = payload.iter().flat_map(|b| (0..4).map(move |i| i64::from(b >> (2 * i) & 3) - 1));
        let coefficients = coefficients.collect();
        let ring = ScoreRing::for_shape(shape, true).unwrap();
        let small = SecretKey::generate(&ring.params.validate().unwrap(), &mut rng());
        let token = wire::AccessToken::from_bytes(&[1; 32]).unwrap();
        let mut device = Device::new(secret, id, (small, KeyId([2; 16])), shape, token);
        let answers = Answers::new(id, device.params());
        device.replace_answers(change(answers));
        (device, coefficients)
    }

    /// A level 0 ciphertext of constants times monomials.
    fn frame(params: &Params, key: KeyId, c0: i64, (power, c1): (usize, i64)) -> Vec<u8> {
        let basis = params.q_basis(0);
        let poly = |at: usize, value: i64| {
            let mut coefficients = vec![0; params.n()];
            coefficients[at] = value;
            Poly::<Coeff>::from_signed(basis, &coefficients).into_ntt(basis)
        };
        let ct = Ciphertext::new(poly(0, c0), poly(power, c1), 0, params.scale(0));
        ckks::write_ciphertext(params, key, &ct)
    }

    struct Attacker<'a> {
        device: BanditDevice<'a>,
        answers: u64,
        /// A constant of the decrypted answer, in units of the scale. Entries are near 0 or 1.
        entry: i64,
    }

    impl<'a> Attacker<'a> {
        fn new(device: &'a Device, schedule: Schedule) -> Self {
            let mut config = BanditConfig::new(2, 2);
            config.linear.schedule = schedule;
            let (params, ring) = (device.params(), ScoreRing::for_shape(device.shape(), true).unwrap());
            let plan = config.plan(params, device.shape(), ring).unwrap();
            let small = ring.params.validate().unwrap();
            let created = Created::new(
                "b".into(),
                config,
                plan,
                (params, device.key_id()),
                (&small, device.scores_key_id()),
            );
            Attacker { device: device.join(&created).unwrap(), answers: 0, entry: 0 }
        }

        /// A question: a level 0 ciphertext of constants times monomials.
        fn frame(&self, c0: i64, c1: (usize, i64)) -> Vec<u8> {
            frame(self.device.device.params(), self.device.device.key_id(), c0, c1)
        }

        /// The reply with the question whether 2³⁰·s_k is at least `bound`.
        fn reply(&self, k: usize, bound: i64) -> Vec<u8> {
            let params = self.device.device.params();
            let threshold = exchange::trace_threshold(params) as i64;
            // X⁻ᵏ = −Xᴺ⁻ᵏ.
            let monomial = if k == 0 { (0, STEP) } else { (params.n() - k, -STEP) };
            let question = TraceQuestion { id: ID, frame: self.frame(threshold - bound, monomial) };
            let (answers, key) = (&self.device.answers, self.device.small_id);
            let entry = self.entry * answers.scale(0) as i64;
            let decision = Decision {
                nonce: None,
                id: DecisionId([0; 16]),
                others: Vec::new(),
                round: 1,
                model_feedbacks: 0,
                user: 1,
                users: 1,
                answer: frame(answers, key, entry, (0, 0)),
                question: Some(question),
            };
            DecideReply { decision: Some(decision), ..DecideReply::default() }.to_bytes()
        }

        /// One round: the answer, if the device gives one. Its feedback comes in any case.
        fn ask(&mut self, k: usize, bound: i64) -> Option<bool> {
            let choice = self.device.read(&self.reply(k, bound)).unwrap().choice.unwrap();
            assert_eq!(choice.reliable, self.entry < 2);
            let body =
                self.device.feedback(0, &[0.5, 0.5], 1.0, choice.question.as_ref(), &mut rng()).unwrap();
            let feedback = TracedFeedback::read(&body, self.device.limits()).unwrap();
            assert!(!feedback.statistics.is_empty() && !feedback.trace.is_empty());
            self.answers += u64::from(feedback.answer.is_some());
            feedback.answer.map(|(id, reached)| {
                assert_eq!(id, ID);
                reached
            })
        }

        fn coefficient(&mut self, k: usize) -> Option<i64> {
            Some(match self.ask(k, STEP / 2)? {
                true => 1,
                false if self.ask(k, -STEP / 2)? => 0,
                false => -1,
            })
        }

        /// How many of the first coefficients come out, and how many of these are right.
        fn attack(&mut self, secret: &[i64]) -> (usize, usize) {
            let got: Vec<_> = (0..TRIED).map(|k| self.coefficient(k)).collect();
            let right = got.iter().zip(secret).filter(|(g, s)| **g == Some(**s)).count();
            (got.iter().flatten().count(), right)
        }
    }

    /// Without a limit the answers give the key away, coefficient by coefficient, and every decision looks
    /// like an honest one. The limit stops that. A device that refuses says so once, and still sends its
    /// feedback.
    #[test]
    fn attack_trace_answers_give_the_key_away() {
        // The control: everything comes out, in 5/3 answers a coefficient.
        let (open, secret) = device(Answers::unlimited);
        let mut attacker = Attacker::new(&open, Schedule::TraceOrGrowth);
        assert_eq!(attacker.attack(&secret), (TRIED, TRIED));
        assert!((TRIED as u64..=2 * TRIED as u64).contains(&attacker.answers));

        let (limited, secret) = device(|answers| answers.at_most(40));
        let mut attacker = Attacker::new(&limited, Schedule::TraceOrGrowth);
        let (got, right) = attacker.attack(&secret);
        assert_eq!(attacker.answers, 40);
        assert!(got == right && got <= 40, "{got}");
        assert_eq!(limited.answers_spent().map(|spent| spent.given), Some(40));
        assert_eq!(limited.answers_spent(), None, "told once");
        // The bound of every device is far below the bits of a ternary key.
        let params = limited.params();
        assert!((most_answers(params) as f64) < 0.2 * 3f64.log2() * params.n() as f64);

        // By default none, since the server alone says which schedule a bandit has.
        let (silent, secret) = device(|answers| answers);
        let mut attacker = Attacker::new(&silent, Schedule::TraceOrGrowth);
        assert_eq!((attacker.attack(&secret), attacker.answers), ((0, 0), 0));
    }

    /// Under a public schedule a reply with a question is refused before anything is decrypted, and a
    /// question that came another way is not answered. The open tier has no questions at all.
    #[test]
    fn attack_public_schedules_answer_nothing() {
        let (open, _) = device(Answers::unlimited);
        let attacker = Attacker::new(&open, BanditConfig::new(2, 2).linear.schedule);
        assert!(matches!(attacker.device.read(&attacker.reply(3, 0)), Err(Error::Wire(_))));
        let question = TraceQuestion { id: ID, frame: attacker.frame(0, (0, STEP)) };
        let body = attacker.device.feedback(0, &[0.5, 0.5], 1.0, Some(&question), &mut rng()).unwrap();
        assert_eq!(body.len(), attacker.device.limits().statistics);
        assert!(TracedFeedback::read(&body, attacker.device.limits()).is_err(), "statistics, and no answer");
    }

    /// Whether a question is answered depends on no decrypted value: answers of garbage count too.
    #[test]
    fn attack_unreliable_decisions_are_counted() {
        let (limited, secret) = device(|answers| answers.at_most(40));
        let mut attacker = Attacker::new(&limited, Schedule::TraceOrGrowth);
        attacker.entry = 50;
        let (got, right) = attacker.attack(&secret);
        assert_eq!((attacker.answers, got), (40, right));
    }

    /// Questions of another level, key or length are refused with the reply.
    #[test]
    fn attack_questions_of_another_key_or_level_are_refused() {
        let (open, _) = device(Answers::unlimited);
        let attacker = Attacker::new(&open, Schedule::TraceOrGrowth);
        let params = open.params();
        let good = attacker.frame(0, (0, STEP));
        let deeper = ckks::write_ciphertext(params, open.key_id(), &Ciphertext::zero(params, 1));
        let stranger = ckks::write_ciphertext(params, KeyId([9; 16]), &Ciphertext::zero(params, 0));
        let answer = frame(&attacker.device.answers, attacker.device.small_id, 0, (0, 0));
        for (frame, accepted) in [
            (good.clone(), true),
            (deeper, false),
            (stranger, false),
            (good[1..].to_vec(), false),
            (vec![], false),
        ] {
            let decision = Decision {
                nonce: None,
                id: DecisionId([0; 16]),
                others: Vec::new(),
                round: 1,
                model_feedbacks: 0,
                user: 1,
                users: 1,
                answer: answer.clone(),
                question: Some(TraceQuestion { id: ID, frame }),
            };
            let reply = DecideReply { decision: Some(decision), ..DecideReply::default() };
            assert_eq!(attacker.device.read(&reply.to_bytes()).is_ok(), accepted);
        }
    }
}
