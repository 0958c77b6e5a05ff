//! The device of a user where a committee holds the key, against its members and a server in one process.

use crate::device::{bundles, rng};
use bandit::Schedule;
use ckks::{Ciphertext, KeyId, Params, Plaintext, ProofKey, PublicKey};
use ckks_committee::{Dealt, MemberShare, PairKeys, PairSecret, Smudge, deal};
use ckks_secret::SecretKey;
use ckks_shares::{ActiveSet, Forms, KeyLabel, PublicKeySum, Quorum, RequestId, RequestKind, SessionId};
use envelope::SigningSecret;
use num_complex::Complex64;
use protocol::exchange::{OPENED_DEVIATION, OPENED_FORM_BITS};
use protocol::{
    Answers, BanditConfig, DecisionId, KeyPlan, LOG_CONTEXT, LOG_STATISTICS, ScoreLayout, Shape, TaskKind,
};
use rns::{Ntt, Poly};
use std::sync::OnceLock;
use user_client::{Asking, BanditDevice, Choice, Device, Error, Opening, Target};
use wire::{
    AnswerBinding, AnswerUser, CommitteeContexts, CommitteeManifest, Created, Custody, DecideReply, Decision,
    KeysDigest, MemberManifest, OpenedAnswer, Problem, ProblemType, PublicBytes, Question, RaiseTask,
    SealedShare, UsersBundle, Wanted,
};

const SESSION: SessionId = SessionId([7; 32]);
const TOKEN: [u8; 32] = [5; 32];
/// The id of the key pair of the large ring, which devices have no frame of.
const LARGE: KeyId = KeyId([4; 16]);

struct Committee {
    quorum: Quorum,
    params: Params,
    small: Params,
    answers: Params,
    /// The members' own secrets of the ring of scores.
    secrets: Vec<SecretKey>,
    /// Their shares of the secret of answers.
    shares: Vec<MemberShare>,
    pairs: Vec<PairKeys>,
    signing: Vec<SigningSecret>,
    answers_key: PublicKey,
    bundle: Vec<u8>,
    created: Created,
    layout: ScoreLayout,
}

fn committee() -> &'static Committee {
    static COMMITTEE: OnceLock<Committee> = OnceLock::new();
    COMMITTEE.get_or_init(|| Committee::new(Quorum::new(2, 3).unwrap()))
}

fn sum(params: &Params, secrets: &[SecretKey], quorum: Quorum) -> PublicKey {
    let (mut sum, seed) = (PublicKeySum::new(params, SESSION), SESSION.seed(params, KeyLabel::Public));
    for (secret, i) in secrets.iter().zip(1..) {
        sum.add(&ckks_secret::wide_public_key_from(secret, seed, &mut rng(i))).unwrap();
    }
    sum.finish(quorum).unwrap()
}

impl Committee {
    fn new(quorum: Quorum) -> Self {
        let mut rng = rng(1);
        let shape = Shape::for_problem(2, 3);
        let plan = KeyPlan::new(shape, true).unwrap();
        let (ring, params) = (plan.scores, plan.params.validate().unwrap());
        let (small, answers) =
            (ring.params.validate().unwrap(), ring.answers(params.spec()).validate().unwrap());
        let members = 1..=quorum.members();
        let secrets: Vec<_> = members.clone().map(|_| SecretKey::generate(&small, &mut rng)).collect();
        let under: Vec<_> = secrets.iter().map(|secret| secret.under(&answers)).collect();
        let mut dealt: Vec<_> = under.iter().map(|s| deal(s, quorum, &mut rng).into_iter()).collect();
        let share = |j| {
            let mine: Vec<Dealt> = dealt.iter_mut().map(|values| values.next().unwrap()).collect();
            MemberShare::new(&answers, quorum, j, &mine, &mut rng).unwrap()
        };
        let shares = members.clone().map(share).collect();
        let secret = |from: u8, to: u8| PairSecret::from_bytes(&[16 * from + to; 32]);
        let keys = |own: u8| {
            let mut keys = PairKeys::new(own);
            let others = members.clone().filter(|&k| k != own);
            others.for_each(|k| keys.insert(k, &secret(own, k), &secret(k, own)));
            keys
        };
        let pairs = members.clone().map(keys).collect();
        let signing: Vec<_> = members.map(|j| SigningSecret::from_bytes(&[j; 32])).collect();

        let public_key = sum(&small, &secrets, quorum);
        let key_id = public_key.id(&small);
        let member = |signing: &SigningSecret| MemberManifest {
            verifying: PublicBytes(signing.public()),
            sealing: PublicBytes(vec![1; envelope::SEALING_KEY_BYTES]),
        };
        let frame = ckks::write_public_key(&small, &public_key);
        let mut wide_key = KeysDigest::default();
        wide_key.add(&frame);
        let custody = Custody::Committee(CommitteeManifest {
            threshold: quorum.threshold(),
            session: SESSION,
            members: signing.iter().map(member).collect(),
            keys: KeysDigest::default().digest(),
            wide_key: wide_key.digest(),
            signatures: Vec::new(),
            before: Vec::new(),
            follows: None,
        });
        let token = wire::AccessToken::from_bytes(&TOKEN).unwrap();
        let scores = wire::ScoresManifest::new(&small, key_id, 1, wire::AnswersManifest::new(&answers, 0));
        let manifest = wire::Manifest::new(&params, LARGE, shape, 0, 1, token.digest(), scores, custody);
        let signatures = signing.iter().map(|signing| PublicBytes(manifest.sign(signing))).collect();
        let manifest = manifest.with_signatures(signatures);
        let (bundle, _) = UsersBundle::write(&manifest, &frame, &token, Vec::new()).unwrap();

        let config = BanditConfig::new(2, 3);
        let plan = config.plan(&params, shape, ring).unwrap();
        let layout = ScoreLayout::new(&config, &plan, ring);
        let created = Created::new("b".into(), config, plan, (&params, LARGE), (&small, key_id));
        let answers_key = sum(&answers, &under, quorum);
        Committee {
            quorum,
            params,
            small,
            answers,
            secrets,
            shares,
            pairs,
            signing,
            answers_key,
            bundle,
            created,
            layout,
        }
    }

    fn device(&self) -> Device {
        Device::read(&self.bundle[..]).unwrap()
    }

    fn set(&self, members: &[u8]) -> ActiveSet {
        self.quorum.active(members).unwrap()
    }

    /// c₀ + c₁·s modulo the first prime, centred.
    fn decrypt(&self, ct: &Ciphertext) -> Vec<i64> {
        let basis = self.small.q_basis(0);
        let mut whole = Poly::<Ntt>::zero(self.small.n(), 1);
        self.secrets.iter().for_each(|secret| whole.add_assign(basis, &secret.values_qp(0).truncated(1)));
        let mut phase = ct.c1().truncated(1);
        phase.mul_assign(basis, &whole);
        phase.add_assign(basis, &ct.c0().truncated(1));
        let phase = phase.into_coeff(basis);
        phase.limb(0).iter().map(|&x| basis.modulus(0).centered(x)).collect()
    }

    /// The numbers of the users of a request for `count` decisions whose first is `user`.
    fn users(&self, user: u32, count: usize) -> Vec<u32> {
        let log = self.layout.log_places(count).unwrap();
        (0..count).map(|b| self.layout.user_of(user as usize, b, log) as u32).collect()
    }

    /// The ciphertext of an evaluation with these entries of these users.
    fn evaluated(&self, users: &[u32], entries: &[[f64; 3]]) -> Ciphertext {
        let mut slots = vec![Complex64::ZERO; self.answers.max_slots()];
        for (&user, entries) in users.iter().zip(entries) {
            let places = self.layout.answer_slots(user as usize, self.params.max_slots());
            places.iter().zip(entries).for_each(|(&slot, entry)| slots[slot].re = *entry);
        }
        let message = Plaintext::encode(&self.answers, &slots, 0).unwrap();
        ckks::encrypt(&self.answers, &self.answers_key, &message, &mut rng(3))
    }

    fn forms(&self, users: &[u32]) -> Forms {
        let slots: Vec<usize> = users
            .iter()
            .flat_map(|&user| self.layout.answer_slots(user as usize, self.params.max_slots()))
            .collect();
        Forms::real_slots(&self.answers, 0, &slots, OPENED_FORM_BITS).unwrap()
    }

    /// The decision of an evaluation as the server tells it, and its shares as members make them.
    fn answer(&self, asking: &Asking, asked: &Asked) -> (Decision, OpenedAnswer) {
        let body = asking.request().unwrap().body;
        let contexts = CommitteeContexts::contexts_bytes(&self.small);
        let CommitteeContexts { answer_key, .. } = CommitteeContexts::read(body, contexts).unwrap();
        let users = self.users(asked.user, asked.entries.len());
        let ct = self.evaluated(&users, &asked.entries);
        let user = AnswerUser { round: asked.round, users: users.clone(), answer_key: answer_key.clone() };
        let wanted = Wanted::Answers { model_feedbacks: 4, users: vec![user.clone()] };
        let question = Question { bandit: asked.bandit.into(), task: 1, attempt: 0, wanted };
        let (forms, header, set) = (self.forms(&users), question.to_bytes(), self.set(&asked.members));
        let request = *RequestId::new(RequestKind::Opening, set, &header, Some(ct.c1())).bytes();
        let binding = question.binding(4, &user);
        let unit = f64::from(OPENED_FORM_BITS).exp2() * self.answers.scale(0);
        let smudge =
            Smudge::at_least(OPENED_DEVIATION / 2.0 / f64::from(self.quorum.threshold()).sqrt() * unit);
        let share = |j: u8| {
            let at = usize::from(j - 1);
            let share = self.shares[at].open(&self.pairs[at], &forms, smudge, set, &header, ct.c1()).unwrap();
            let residues: Vec<u64> = share.0.iter().map(|x| x[0]).collect();
            let member = (j, &self.signing[at]);
            SealedShare::seal(member, &binding, &answer_key, &request, set, &residues, &mut rng(9)).unwrap()
        };
        let values = forms.values(&ct).unwrap().iter().map(|x| x[0]).collect();
        let answer =
            OpenedAnswer { request, set: set.bits(), values, shares: set.iter().map(share).collect() };
        let decision = Decision {
            id: id(asked.round),
            others: (1..users.len() as u64).map(|n| id(asked.round + n)).collect(),
            round: asked.round,
            model_feedbacks: 4,
            user: asked.user,
            users: 8,
            answer: Vec::new(),
            question: None,
        };
        (decision, answer)
    }
}

/// An id of a decision of this round.
fn id(round: u64) -> DecisionId {
    let mut id = [7; 16];
    id[..DecisionId::ROUND_BYTES].copy_from_slice(&round.to_le_bytes()[..DecisionId::ROUND_BYTES]);
    DecisionId(id)
}

/// What members are asked about.
struct Asked {
    bandit: &'static str,
    round: u64,
    user: u32,
    entries: Vec<[f64; 3]>,
    members: [u8; 2],
}

impl Default for Asked {
    fn default() -> Self {
        Asked { bandit: "b", round: 5, user: 3, entries: vec![[0.0, 1.0, 0.0]], members: [1, 3] }
    }
}

fn rows() -> Vec<Vec<f64>> {
    vec![vec![0.5, 0.25], vec![-0.25, 0.75], vec![0.0, -0.5]]
}

fn reply(decision: Decision, answer: &OpenedAnswer) -> Vec<u8> {
    let decision = Decision { answer: answer.to_bytes(), ..decision };
    DecideReply { decision: Some(decision), ..DecideReply::default() }.to_bytes()
}

fn read(device: &BanditDevice, asking: &mut Asking, reply: Vec<u8>) -> Result<(), Error> {
    device.answered(asking, Ok(reply), &mut rng(4))
}

fn choices(asking: Asking) -> Vec<Choice> {
    asking.finish().unwrap().choice
}

#[test]
fn contexts_and_statistics_are_encrypted_under_the_public_key() {
    let committee = committee();
    let device = committee.device();
    assert!(device.is_of_committee() && device.key_id() == LARGE);
    let device = device.join(&committee.created).unwrap();
    let (rows, mut rng) = (rows(), rng(2));
    let asking = device.ask(&[&rows], &mut rng).unwrap();
    let small = &committee.small;
    let id = sum(small, &committee.secrets, committee.quorum).id(small);
    let limit = CommitteeContexts::contexts_bytes(small);
    let sent = CommitteeContexts::read(asking.request().unwrap().body, limit).unwrap();
    let scale = f64::from(LOG_CONTEXT).exp2();
    let contexts = ckks::read_proven_ciphertext(small, id, scale, small.n(), &sent.contexts).unwrap();
    let proofs = ProofKey::new(small, &sum(small, &committee.secrets, committee.quorum).narrow(small));
    contexts.verify(&proofs, &CommitteeContexts::about("b", 1, &sent.answer_key)).unwrap();
    let contexts = committee.decrypt(&contexts.ciphertext(small));
    // Six deviations of the noise of a wide encryption under a key of three members.
    let noise = 6.0 * ((1.0 + 2.0 * 3.0 * small.n() as f64 / 3.0) / 12.0).sqrt();
    let close = |got: &[i64], want: &[i64]| {
        assert_eq!(got.len(), want.len());
        got.iter().zip(want).for_each(|(x, y)| assert!(((x - y) as f64).abs() < noise, "{x} for {y}"));
    };
    close(&contexts, &committee.layout.contexts(&[&rows]).unwrap());
    assert!(noise < f64::from(LOG_CONTEXT).exp2() / 524_288.0);

    let mut decision = DecisionId([7; 16]);
    decision.0[..DecisionId::ROUND_BYTES].copy_from_slice(&[5, 0, 0, 0, 0, 0]);
    let statistics = device.feedback(decision, 1, &rows[1], 0.5, None, &mut rng).unwrap();
    let count = committee.layout.feedback_numbers();
    assert_eq!(statistics.len(), device.limits().feedback());
    let scale = f64::from(LOG_STATISTICS).exp2();
    let statistics = ckks::read_proven_ciphertext(small, id, scale, count, &statistics).unwrap();
    statistics.verify(&proofs, &wire::feedback_about("b", 5)).unwrap();
    assert!(statistics.verify(&proofs, &wire::feedback_about("b", 6)).is_err());
    assert!(statistics.verify(&proofs, &wire::feedback_about("c", 5)).is_err());
    let statistics = statistics.ciphertext(small);
    let want = committee.layout.feedback(1, &rows[1], 0.5).unwrap();
    assert!(want.iter().any(|x| *x as f64 > f64::from(LOG_STATISTICS).exp2() / 16.0));
    close(&committee.decrypt(&statistics)[..count], &want);

    // Each request has a key of its own, and what has none cannot be asked for.
    let other = device.ask(&[&rows], &mut rng).unwrap();
    let key =
        |asking: &Asking| CommitteeContexts::read(asking.request().unwrap().body, limit).unwrap().answer_key;
    assert_ne!(key(&asking), key(&other));
    // An evaluation that ended without an answer: the server takes no contexts twice.
    let mut again = device.ask(&[&rows], &mut rng).unwrap();
    let before = again.request().unwrap().body.to_vec();
    let ended = Problem::from(ProblemType::NotEvaluated);
    device.answered(&mut again, Err(Error::Refused(ended)), &mut rng).unwrap();
    let [before, after] = [&before[..], again.request().unwrap().body]
        .map(|body| CommitteeContexts::read(body, limit).unwrap());
    assert_ne!(before.contexts, after.contexts);
    assert_ne!(before.answer_key, after.answer_key);
    assert!(matches!(device.contexts(&rows, &mut rng), Err(Error::AnswerKey)));
    assert!(matches!(device.ask(&[&rows[..2]], &mut rng).map(drop), Err(Error::Protocol(_))));
}

/// Contexts of another user under a key of one's own, for another bandit or another number of decisions, are
/// refused. The control is the same frame under its own key.
#[test]
fn attack_copied_contexts_are_refused() {
    let committee = committee();
    let (device, small) = (committee.device(), &committee.small);
    let device = device.join(&committee.created).unwrap();
    let public = sum(small, &committee.secrets, committee.quorum);
    let proofs = ProofKey::new(small, &public.narrow(small));
    let asking = device.ask(&[&rows()], &mut rng(2)).unwrap();
    let body = asking.request().unwrap().body;
    let sent = CommitteeContexts::read(body, CommitteeContexts::contexts_bytes(small)).unwrap();
    let scale = f64::from(LOG_CONTEXT).exp2();
    let frame =
        ckks::read_proven_ciphertext(small, public.id(small), scale, small.n(), &sent.contexts).unwrap();
    let check = |bandit: &str, decisions: usize, key: &[u8]| {
        frame.verify(&proofs, &CommitteeContexts::about(bandit, decisions, key)).is_ok()
    };
    let own = envelope::SealingSecret::generate(&mut rng(3)).public();
    assert!(check("b", 1, &sent.answer_key), "the control");
    assert!(!check("b", 1, &own));
    assert!(!check("c", 1, &sent.answer_key) && !check("b", 2, &sent.answer_key));
}

/// (0, g) has no proof that is accepted. The control opens it without the check: coefficient k of its message
/// is 2^17 times coefficient k of the secret.
#[test]
fn attack_zero_and_a_small_polynomial_is_refused() {
    let committee = committee();
    let (small, top) = (&committee.small, committee.small.max_level());
    let public = sum(small, &committee.secrets, committee.quorum);
    let (wide, id, scale) = (small.qp_basis(top), public.id(small), f64::from(LOG_CONTEXT).exp2());
    let message = Plaintext::from_integers(small, &[0], top, scale).unwrap();
    let mut frame = ckks::encrypt_proven(small, &public, &message, small.n(), b"", &mut rng(2));
    // 2·c₁ = P·g modulo QP, and c₀ = 0.
    let mut c1 = Poly::<rns::Coeff>::from_signed(wide, &[1 << 17]).into_ntt(wide);
    small.p_basis().primes().for_each(|p| c1.mul_integer_assign(wide, p.into()));
    c1.divide_exactly_assign(wide, 1);
    let mut bytes = Vec::new();
    ckks::pack_residues(&mut bytes, wide, &c1);
    bytes.resize(bytes.len() + ckks::residue_bytes(small.q_basis(top)), 0);
    frame[ckks::FRAME_HEADER_BYTES..][..bytes.len()].copy_from_slice(&bytes);
    let end = frame.len() - ckks::FRAME_DIGEST_BYTES;
    let digest = blake3::hash(&frame[..end]);
    frame[end..].copy_from_slice(digest.as_bytes());
    let read = ckks::read_proven_ciphertext(small, id, scale, small.n(), &frame).unwrap();
    let refused = read.verify(&ProofKey::new(small, &public), b"");
    assert!(matches!(refused, Err(ckks::Error::BadProof(_))));

    let shown = committee.decrypt(&read.ciphertext(small));
    let basis = small.q_basis(0);
    let mut secret = Poly::<Ntt>::zero(small.n(), 1);
    committee.secrets.iter().for_each(|s| secret.add_assign(basis, &s.values_qp(0).truncated(1)));
    let secret = secret.into_coeff(basis);
    let secret: Vec<i64> = secret.limb(0).iter().map(|x| basis.modulus(0).centered(*x)).collect();
    assert!(secret.iter().any(|x| *x != 0) && secret.iter().all(|x| x.abs() <= 3));
    assert!(shown.iter().zip(&secret).all(|(m, s)| *m == s << 17));
}

/// The shares of any t members open the entries of every decision of a request.
#[test]
fn answers_are_opened_from_shares() {
    let committee = committee();
    let device = committee.device();
    let device = device.join(&committee.created).unwrap();
    let rows = rows();
    for members in [[1, 2], [1, 3], [2, 3]] {
        for arm in 0..3 {
            let mut entries = [0.0; 3];
            entries[arm] = 1.0;
            let asked = Asked { members, entries: vec![entries], ..Asked::default() };
            let mut asking = device.ask(&[&rows], &mut rng(6)).unwrap();
            let (decision, answer) = committee.answer(&asking, &asked);
            read(&device, &mut asking, reply(decision, &answer)).unwrap();
            assert!(asking.request().is_none());
            let choice = choices(asking).remove(0);
            assert_eq!((choice.arm, choice.reliable, choice.round), (arm, true, 5));
            let error = |(got, want): (&f64, &f64)| (got - want).abs();
            assert!(choice.values.iter().zip(&entries).map(error).all(|e| e < 6.0 * OPENED_DEVIATION));
        }
    }
    let several = vec![[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
    let asked = Asked { entries: several, user: 0, ..Asked::default() };
    let mut asking = device.ask(&[&rows, &rows, &rows], &mut rng(7)).unwrap();
    let (decision, answer) = committee.answer(&asking, &asked);
    read(&device, &mut asking, reply(decision, &answer)).unwrap();
    let choices = choices(asking);
    assert_eq!(choices.iter().map(|c| (c.arm, c.round)).collect::<Vec<_>>(), [(2, 5), (0, 6), (1, 7)]);

    // An answer out of its range is reported, and nobody asks again.
    for entries in [[0.0, 3.0, 0.0], [-2.0, 0.0, 0.0]] {
        let asked = Asked { entries: vec![entries], ..Asked::default() };
        let mut asking = device.ask(&[&rows], &mut rng(8)).unwrap();
        let (decision, answer) = committee.answer(&asking, &asked);
        read(&device, &mut asking, reply(decision, &answer)).unwrap();
        assert!(asking.request().is_none());
        assert!(!self::choices(asking)[0].reliable);
    }
}

/// Whatever deviates from what members signed for this request is refused, and nothing is read.
#[test]
fn attack_answers_of_other_requests_are_refused() {
    let committee = committee();
    let device = committee.device();
    let device = device.join(&committee.created).unwrap();
    let rows = rows();
    let ask = || device.ask(&[&rows], &mut rng(11)).unwrap();
    let manifest = serde_json::to_vec(&UsersBundle::read(&committee.bundle[..]).unwrap().manifest).unwrap();
    // The same bytes for every request of this seed: `first` stands for all of them.
    let first = ask();
    let (decision, answer) = committee.answer(&first, &Asked::default());
    let unread = |reply: Vec<u8>| {
        let mut asking = ask();
        match read(&device, &mut asking, reply) {
            Err(error) => error,
            // The members may have changed, and have not.
            Ok(()) => {
                assert_eq!(asking.request().unwrap().to, Target::Keys);
                read(&device, &mut asking, manifest.clone()).unwrap_err()
            }
        }
    };
    let refused = |decision: &Decision, answer: &OpenedAnswer| unread(reply(decision.clone(), answer));
    let mut asking = ask();
    read(&device, &mut asking, reply(decision.clone(), &answer)).expect("the control");

    let by = |error: Error, member: u8| {
        assert!(matches!(&error, Error::Share { member: got, .. } if *got == member), "{error}");
        assert!(error.to_string().contains("ask again"), "{error}");
    };
    // Told about another round, model or user than the shares are for.
    by(refused(&Decision { round: 6, id: id(6), ..decision.clone() }, &answer), 1);
    // An id of another round, which feedback would go to.
    for (round, own) in [(5, 6), (u64::MAX, 5)] {
        let error = refused(&Decision { round, id: id(own), ..decision.clone() }, &answer);
        assert!(matches!(error, Error::BadAnswer(_)), "{error}");
    }
    by(refused(&Decision { model_feedbacks: 5, ..decision.clone() }, &answer), 1);
    by(refused(&Decision { user: 2, ..decision.clone() }, &answer), 1);
    // Shares for another round, user or bandit.
    for asked in [
        Asked { round: 4, ..Asked::default() },
        Asked { user: 1, ..Asked::default() },
        Asked { bandit: "c", ..Asked::default() },
    ] {
        by(refused(&decision, &committee.answer(&first, &asked).1), 1);
    }
    // The answer of another request, whose key differs.
    let other = device.ask(&[&rows], &mut rng(12)).unwrap();
    let replayed = committee.answer(&other, &Asked::default());
    by(refused(&replayed.0, &replayed.1), 1);
    // Another id of the request, and shares of two requests.
    by(refused(&decision, &OpenedAnswer { request: [1; 32], ..answer.clone() }), 1);
    let shares = vec![answer.shares[0].clone(), replayed.1.shares[1].clone()];
    by(refused(&decision, &OpenedAnswer { shares, ..answer.clone() }), 3);

    // Forged: by the other member, by a stranger, and a changed sealed share.
    let spoilt = |spoil: &dyn Fn(&mut SealedShare)| {
        let mut answer = answer.clone();
        spoil(&mut answer.shares[1]);
        refused(&decision, &answer)
    };
    let signature = answer.shares[0].signature.clone();
    by(spoilt(&|share| share.signature = signature.clone()), 3);
    by(spoilt(&|share| share.signature[5] ^= 1), 3);
    by(spoilt(&|share| share.signature.truncate(63)), 3);
    by(spoilt(&|share| share.sealed[1140] ^= 1), 3);
    by(spoilt(&|share| share.sealed.clear()), 3);

    // A member who signs for this request what is no share of it.
    let binding = AnswerBinding {
        bandit: "b".into(),
        round: 5,
        model_feedbacks: 4,
        users: vec![3],
        answer_key: wire::answer_key_hash(&key_of(&first)),
    };
    let sealed = |key: &[u8], residues: &[u64]| {
        let (member, set) = ((3, &committee.signing[2]), committee.set(&[1, 3]));
        SealedShare::seal(member, &binding, key, &answer.request, set, residues, &mut rng(1)).unwrap()
    };
    let with = |share: SealedShare| spoilt(&|old| *old = share.clone());
    by(with(sealed(&key_of(&other), &[0; 3])), 3);
    by(with(sealed(&key_of(&first), &[0; 2])), 3);
    assert!(matches!(with(sealed(&key_of(&first), &[0, u64::MAX, 0])), Error::Shares(_)));

    // Sets that are not t members of the committee, and values that are not one for each arm.
    let shares = |at: &[usize]| at.iter().map(|&i| answer.shares[i].clone()).collect();
    for bad in [
        OpenedAnswer { set: 0b110, ..answer.clone() },
        OpenedAnswer { set: 0b111, ..answer.clone() },
        OpenedAnswer { shares: shares(&[0]), ..answer.clone() },
        OpenedAnswer { shares: shares(&[1, 0]), ..answer.clone() },
        OpenedAnswer { shares: shares(&[0, 0]), ..answer.clone() },
        OpenedAnswer { shares: Vec::new(), set: 0, ..answer.clone() },
        OpenedAnswer { values: answer.values[..2].to_vec(), ..answer.clone() },
    ] {
        assert!(matches!(refused(&decision, &bad), Error::Wire(_)));
    }
    let far = OpenedAnswer { values: vec![u64::MAX; 3], ..answer.clone() };
    assert!(matches!(refused(&decision, &far), Error::Shares(_)));
    let user = Decision { user: 1 << 20, ..decision.clone() };
    assert!(matches!(refused(&user, &answer), Error::BadAnswer(_)));

    let bytes = answer.to_bytes();
    for len in (0..bytes.len()).step_by(97) {
        let decision = Decision { answer: bytes[..len].to_vec(), ..decision.clone() };
        let reply = DecideReply { decision: Some(decision), ..DecideReply::default() }.to_bytes();
        assert!(matches!(unread(reply), Error::Wire(_)), "{len}");
    }
    let whole = reply(decision, &answer);
    for len in (0..whole.len()).step_by(89) {
        assert!(matches!(unread(whole[..len].to_vec()), Error::Wire(_)), "{len}");
    }
}

fn key_of(asking: &Asking) -> Vec<u8> {
    CommitteeContexts::read(asking.request().unwrap().body, 1 << 22).unwrap().answer_key
}

/// No server gets a raise or a trace answer from a device without a secret key, nor an open model.
#[test]
fn attack_devices_of_a_committee_are_no_holders_of_the_key() {
    let committee = committee();
    let device = committee.device().with_most_answers(9).with_most_repeats(9);
    assert!(!device.may_repeat().unwrap());
    let joined = device.join(&committee.created).unwrap();
    let masked = Ciphertext::zero(&committee.small, committee.small.max_level());
    let masked = ckks::write_ciphertext(&committee.small, device.scores_key_id(), &masked);
    for kind in [TaskKind::Scores { factor: 0.5, alone: true }, TaskKind::Sum, TaskKind::Model] {
        let tasks = vec![RaiseTask { id: 1, kind, masked: masked.clone() }];
        let reply = DecideReply { tasks, ..DecideReply::default() }.to_bytes();
        assert!(matches!(joined.read(&reply), Err(Error::NoSecret(_))));
    }
    assert!(matches!(joined.raise(&[], None, &mut rng(1)), Err(Error::NoSecret(_))));
    let asking = joined.ask(&[&rows()], &mut rng(1)).unwrap();
    let (decision, answer) = committee.answer(&asking, &Asked::default());
    assert!(matches!(joined.read(&reply(decision, &answer)), Err(Error::AnswerKey)));

    let join = |change: fn(&mut BanditConfig)| {
        let mut created = committee.created.clone();
        change(&mut created.config);
        device.join(&created).map(drop).unwrap_err()
    };
    for change in [
        |config: &mut BanditConfig| config.linear.schedule = Schedule::TraceOrGrowth,
        |config: &mut BanditConfig| (config.answers, config.open_model) = (Answers::Scores, true),
        |config: &mut BanditConfig| config.counters = Some(Default::default()),
    ] {
        let error = join(change);
        assert!(matches!(error, Error::Protocol(protocol::Error::Custody { .. })), "{error}");
    }
    let mut created = committee.created.clone();
    created.plan.users += 1;
    assert!(matches!(device.join(&created).map(drop), Err(Error::PlanMismatch)));
}

/// A device that was read from bytes goes on with its memory. Other bytes are refused, and secret keys have
/// no memory.
#[test]
fn a_device_without_files_remembers() {
    let read = || Device::read(&committee().bundle[..]).unwrap();
    let (device, other) = (read(), read());
    let key = |device: &Device| device.derive_key("test 2026 memory").unwrap();
    let memory = device.memory().unwrap();
    let again = read().remembering(&memory).unwrap();
    assert_eq!(key(&again), key(&device));
    assert_eq!(again.memory().unwrap(), memory);
    assert_ne!(key(&other), key(&device));
    for at in (0..50).chain((50..memory.len()).step_by(100)).chain([memory.len() - 1]) {
        assert!(matches!(read().remembering(&memory[..at]), Err(Error::BadMemory)), "the first {at} bytes");
    }
    let longer = [&memory[..], &[0]].concat();
    assert!(matches!(read().remembering(&longer), Err(Error::BadMemory)));
    let holder = bundles(Shape::for_problem(2, 3), 5);
    let holder = Device::read(&holder.1[..]).unwrap();
    assert!(matches!(holder.memory(), Err(Error::NotOfCommittee)));
    assert!(matches!(holder.remembering(&memory), Err(Error::NotOfCommittee)));
}

/// A users' bundle is opened like a secret one, and what a device seals at rest it alone reads.
#[test]
fn users_bundles_are_opened_from_files() {
    let (committee, folder) = (committee(), tempfile::tempdir().unwrap());
    let path = folder.path().join("users.bundle");
    let write = |path: &std::path::Path| {
        std::fs::write(path, &committee.bundle).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    write(&path);
    let toy = Opening { toy: true, ..Opening::default() };
    assert!(matches!(Device::open(&path, &Opening::default()), Err(Error::Toy { .. })));
    let device = Device::open(&path, &toy).unwrap();
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing is written before it is needed"
    );
    let key = device.derive_key("test 2026 one").unwrap();
    assert_ne!(key, device.derive_key("test 2026 two").unwrap());
    assert!(folder.path().join(format!("{}.device", device.key_id())).is_file());
    let again = Device::open(&path, &toy).unwrap();
    assert_eq!(again.derive_key("test 2026 one").unwrap(), key);
    // Another folder is another device, and the token that all of them have tells nobody the key.
    let other = tempfile::tempdir().unwrap();
    write(&other.path().join("users.bundle"));
    let other = Device::open(&other.path().join("users.bundle"), &toy).unwrap();
    assert_eq!(other.token().as_bytes(), device.token().as_bytes());
    assert_ne!(other.derive_key("test 2026 one").unwrap(), key);
    #[cfg(unix)]
    {
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        assert!(matches!(Device::open(&path, &toy), Err(Error::Permissions { .. })));
    }

    // A server with other keys, another committee or none.
    let manifest = UsersBundle::read(&committee.bundle[..]).unwrap().manifest;
    device.check_manifest(&manifest).unwrap();
    let of = |custody: Custody| wire::Manifest { custody, ..manifest.clone() };
    let Custody::Committee(mut stated) = manifest.custody.clone() else { panic!("a committee") };
    stated.members[0].verifying.0[0] ^= 1;
    for bad in [
        of(Custody::Holder),
        of(Custody::Committee(stated)),
        wire::Manifest { key_id: "00".repeat(16), ..manifest.clone() },
    ] {
        assert!(matches!(device.check_manifest(&bad), Err(Error::WrongKeys { .. })));
    }
    let holder = bundles(Shape::for_problem(2, 3), 5);
    let holder = Device::read(&holder.1[..]).unwrap();
    assert!(!holder.is_of_committee());
    assert!(matches!(holder.join(&committee.created).map(drop), Err(Error::WrongKeys { .. })));
}
