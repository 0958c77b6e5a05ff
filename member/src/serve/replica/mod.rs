//! What a member computes itself before it answers.
//!
//! Evaluation under a committee draws no randomness. The journal of a bandit therefore determines its models
//! and sums, and what users sent determines what is raised and opened in an evaluation. A replica computes
//! both again, and refuses every other ciphertext. Raised and refreshed ciphertexts, which it cannot compute,
//! must have the c₁ of a request to members about the ciphertext before: the server can add to such a message
//! what it knows, and cannot put another one in its place.

mod mirror;
mod states;

use self::mirror::{Mirror, Unchecked};
use self::states::States;
use super::answering::NO_BANDIT;
use super::turns::Turns;
use super::{Error, Joined, Ledger};
use crate::MemberKeys;
use ckks::{Ciphertext, KeyId, Params};
use ckks_shares::{ActiveSet, RequestId, RequestKind};
use helba::circuit::DecisionCircuit;
use helba::{DeepEngine, EncryptedBandit, Engine, Event, Scalars};
use host::lock;
use protocol::TaskKind;
use protocol::levels::ANSWER_LEVEL;
use rand::{CryptoRng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::{Ntt, Poly};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use wire::{
    AnswerUser, CheckEvidence, CommitteeContexts, CommitteeManifest, Custody, Evidence, FeedbackCheck,
    Journal, MOST_ATTEMPTS, MemberRequest, PublicBundle, Question, RaiseEvidence, RotationEvidence,
    RotationShares, ScoreKeys, SignedHead, Wanted, check_hashed_frames, rotation_requests, transfer_header,
};

/// The models that are kept: evaluations may be under way with the one before.
const MOST_MODELS: usize = 4;
/// The evaluations that are kept between a raise and its answers.
const MOST_EVALUATIONS: usize = 4;
/// The most bandits that are followed.
const MOST_BANDITS: usize = 16;
/// The most bytes of feedback of a bandit that is kept until it is checked. What comes after it is fetched
/// again.
const MOST_KEPT: usize = 64 << 20;

/// Where the records of the journal of a bandit come from, after a number of them, with the heads that
/// members have signed. It gets the last one that this member has signed.
pub type Source<'a> = &'a dyn Fn(&str, u64, Option<&SignedHead>) -> Result<Journal, Error>;

/// The evaluation keys of a committee, and the state of each bandit as its journal determines it.
pub struct Replica {
    engine: Engine,
    committee: CommitteeManifest,
    /// What members of the committee before sign of these keys.
    digest: [u8; 32],
    /// All sets of t members, of this epoch and those before.
    sets: Vec<ActiveSet>,
    /// The attempts at a task up to this epoch.
    attempts: u32,
    /// The probability with which a task is checked.
    share: f64,
    /// What draws the tasks that are checked. No server knows it.
    key: [u8; 32],
    /// The most bytes of feedback of a bandit that is kept until it is checked.
    kept: usize,
    /// Where states are kept.
    states: Option<States>,
    bandits: Mutex<BTreeMap<String, Arc<Followed>>>,
    /// One question is computed at a time, on all cores.
    turns: Turns,
}

/// A model in the ring of scores, and the number of its feedbacks.
type Model = (u64, Arc<Ciphertext>);

/// A bandit that is followed. The models are locked for a moment, and the mirror for as long as an update.
struct Followed {
    models: Mutex<VecDeque<Model>>,
    /// The last evaluations, by [`hash_of`] what their users sent: each is asked about twice.
    evaluations: Mutex<VecDeque<([u8; 32], Arc<Evaluation>)>>,
    mirror: Mutex<Mirror>,
}

/// An evaluation as its contexts determine it.
struct Evaluation {
    packed: Ciphertext,
    circuit: DecisionCircuit,
    factor: f64,
    /// The number of places in the pack.
    count: usize,
    /// The key and the numbers of each request.
    users: Vec<(Vec<u8>, Vec<u32>)>,
}

impl Replica {
    /// A replica with the public bundle of the committee of `keys`, which checks every task.
    ///
    /// # Errors
    /// [`Error::OtherKeys`] for the bundle of other keys; [`Error::Helba`].
    pub fn new<R: CryptoRng>(keys: &MemberKeys, bundle: PublicBundle, rng: &mut R) -> Result<Self, Error> {
        super::check_manifest(keys, &bundle.manifest)?;
        let Custody::Committee(committee) = bundle.manifest.custody.clone() else {
            return Err(Error::OtherKeys { what: "the public bundle".into() });
        };
        let digest = bundle.manifest.rotation_digest();
        let PublicBundle { manifest, params, public_key, key_id, keys: deep, scores, .. } = bundle;
        let deep = DeepEngine::new(params, public_key, key_id, manifest.shape, deep)?;
        let ScoreKeys { ring, params, public_key, key_id, keys: small, switch } = scores;
        let engine = Engine::new(deep, ring, params, public_key, key_id, small, switch)?.of_committee();
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        let (sets, attempts) = (sets(keys)?, (keys.epoch() as u32 + 1) * MOST_ATTEMPTS);
        let (kept, states, bandits, turns) = (MOST_KEPT, None, Mutex::default(), Turns::default());
        let share = 1.0;
        Ok(Replica { engine, committee, digest, sets, attempts, share, key, kept, states, bandits, turns })
    }

    /// Keeps the state of each bandit after its last batch in `folder`, which a replica of the same member
    /// goes on from, also in the next epoch. Without it, a journal is followed from its beginning, which
    /// computes every update again.
    pub fn with_states(self, folder: PathBuf) -> Self {
        Replica { states: Some(States::new(folder)), ..self }
    }

    /// Checks a task with this probability only, drawn once for each task.
    pub fn sampled(self, share: f64) -> Self {
        Replica { share, ..self }
    }

    /// Keeps at most this many bytes of feedback of a bandit until it is checked, in the place of 64 MiB, and
    /// fetches again what comes after it.
    pub fn keeping(self, kept: usize) -> Self {
        Replica { kept, ..self }
    }

    /// Whether some tasks are not checked, so that a server that is caught once must not be answered again.
    pub fn is_sampled(&self) -> bool {
        self.share < 1.0
    }

    /// Checks that `request` is about what the journal of the bandit and the requests of its users lead to.
    ///
    /// # Errors
    /// [`Error::Deviates`] if it is not; [`Error::Wire`], [`Error::Ckks`], [`Error::Helba`] for records and
    /// evidence that cannot be read; [`Error::Busy`] if too many questions wait; [`Error::Ledger`]; those of
    /// `journal`.
    pub fn check(
        &self,
        keys: &MemberKeys,
        ledger: &Ledger,
        bandit: &Joined,
        request: &MemberRequest,
        journal: Source,
    ) -> Result<(), Error> {
        let question = Question::from_bytes(&request.question)?;
        if question.bandit != bandit.created.id {
            return Err(Error::Refused("a question about another bandit"));
        }
        if !self.draws(&question) {
            return Ok(());
        }
        let _alone = self.turns.take()?;
        let followed = self.followed(ledger, bandit)?;
        match &question.wanted {
            Wanted::Transfer(TaskKind::Scores { factor, alone }) => {
                let evidence = evidence(request)?;
                let evaluation = self.evaluation(keys, &followed, ledger, bandit, &evidence, journal)?;
                let (own, count) = (evaluation.factor, evaluation.count);
                if own.to_bits() != factor.to_bits() || *alone != (count == 1) {
                    return Err(Error::Deviates("a raise by another factor than that of its round"));
                }
                self.same(request, self.engine.params(), self.engine.params().max_level(), &evaluation.packed)
            }
            Wanted::Transfer(kind) => {
                let mut mirror = lock(&followed.mirror);
                self.follow(keys, &followed, &mut mirror, ledger, &question.bandit, journal)?;
                mirror.update(&self.engine)?;
                let task = mirror.bandit.task().filter(|task| task.id == question.task && task.kind == *kind);
                let task = task.ok_or(Error::Deviates("a task that does not follow from the journal"))?;
                let deep = self.engine.deep().params();
                let (params, level) = match kind {
                    TaskKind::Model => (deep, mirror.bandit.plan().refresh_level),
                    _ => (self.engine.params(), self.engine.params().max_level()),
                };
                self.same(request, params, level, &task.masked)
            }
            Wanted::Checks { .. } => {
                let evidence = CheckEvidence::from_bytes(&request.evidence)?;
                let mut mirror = lock(&followed.mirror);
                self.follow(keys, &followed, &mut mirror, ledger, &question.bandit, journal)?;
                let other = Error::Deviates("a check that does not follow from the journal");
                let Some(check) = mirror.bandit.check() else { return Err(other) };
                let hashes = evidence.frames.iter().map(|frame| wire::input_hash(frame));
                if !check.feedbacks.iter().map(|(_, hash)| *hash).eq(hashes) {
                    return Err(other);
                }
                let ring = (self.engine.params(), self.engine.key_id());
                let feedbacks = FeedbackCheck::read(&bandit.exchanges, ring, &evidence.frames)?;
                let about = (&question.bandit[..], check.id);
                let state = feedbacks.after(&self.committee, about, &evidence.opened)?;
                match question.task == check.id && state.next == Some(question.wanted) {
                    true => Ok(()),
                    false => Err(other),
                }
            }
            Wanted::Rotation { standing, .. } => {
                let mut mirror = lock(&followed.mirror);
                self.follow(keys, &followed, &mut mirror, ledger, &question.bandit, journal)?;
                let own = mirror.bandit.departing();
                let own = own.filter(|own| own.standing.to_bytes() == *standing);
                let own = own.filter(|own| own.standing.task() == question.task);
                let own = own.ok_or(Error::Deviates("a rotation that does not follow from the journal"))?;
                let (deep, level) = (self.engine.deep().params(), mirror.bandit.plan().refresh_level);
                self.same(request, deep, level, &own.model)?;
                let beside = MemberRequest { c1: request.evidence.clone(), ..request.clone() };
                self.same(&beside, deep, level, &own.statistics)
            }
            Wanted::Handover { .. } => Err(Error::Refused(NO_BANDIT)),
            Wanted::Answers { model_feedbacks, users } => {
                let evidence = evidence(request)?;
                if evidence.model_feedbacks != *model_feedbacks {
                    return Err(Error::Deviates(
                        "answers that state another model than their evaluation has",
                    ));
                }
                let evaluation = self.evaluation(keys, &followed, ledger, bandit, &evidence, journal)?;
                check_users(&evaluation, &evidence, users)?;
                let raised = self.raised(keys, bandit, &question, &evaluation, evidence.raise.as_ref())?;
                let Evaluation { circuit, count, .. } = &*evaluation;
                let raise = bandit.exchanges.scores(*count == 1);
                // Under a committee nothing is drawn.
                let mut rng = ChaCha20Rng::from_seed([0; 32]);
                let evaluated = self.engine.evaluate(circuit, *count, raise, raised, None, &mut rng)?;
                let opening = self.engine.opening(&evaluated)?;
                self.same(request, self.engine.answer_params(), ANSWER_LEVEL, &opening)?;
                let hashes: Vec<_> =
                    evidence.uploads.iter().map(|(_, body)| *blake3::hash(body).as_bytes()).collect();
                ledger.note_uploads(question.task, &hashes)
            }
        }
    }

    fn draws(&self, question: &Question) -> bool {
        let mut hash = blake3::Hasher::new_keyed(&self.key);
        hash.update(question.bandit.as_bytes()).update(&question.task.to_le_bytes());
        let mut first = [0; 8];
        hash.finalize_xof().fill(&mut first);
        (u64::from_le_bytes(first) as f64) < self.share * 64f64.exp2()
    }

    fn followed(&self, ledger: &Ledger, bandit: &Joined) -> Result<Arc<Followed>, Error> {
        let id = &bandit.created.id;
        if let Some(known) = lock(&self.bandits).get(id) {
            return Ok(known.clone());
        }
        // What a member noted before it started again must be part of the journal.
        let (noted, config) = (ledger.head(id)?, &bandit.created.config);
        let kept = self.states.as_ref().and_then(|states| states.load(&self.engine, id, config, noted));
        let (mirror, models) = match kept {
            Some(kept) => kept,
            None => {
                let first = Mirror::new(&self.engine, id, config.clone())?;
                let models = VecDeque::from([first.model()]);
                (first, models)
            }
        };
        let (models, evaluations, mirror) = (Mutex::new(models), Mutex::default(), Mutex::new(mirror));
        let mut bandits = lock(&self.bandits);
        if bandits.len() >= MOST_BANDITS {
            bandits.pop_first();
        }
        Ok(bandits
            .entry(id.clone())
            .or_insert_with(|| Arc::new(Followed { models, evaluations, mirror }))
            .clone())
    }

    /// Applies the records of the journal that are new, notes the position, signs the heads of batches that
    /// have ended, and compares those of other members. What was followed of a journal that ends before the
    /// position that was noted, or has other records before it, is forgotten. After an error of the network
    /// the member goes on from where it was.
    fn follow(
        &self,
        keys: &MemberKeys,
        followed: &Followed,
        mirror: &mut Mirror,
        ledger: &Ledger,
        id: &str,
        journal: Source,
    ) -> Result<(), Error> {
        let done = self.follow_to_end(keys, followed, mirror, ledger, id, journal);
        if matches!(done, Err(Error::Deviates(_))) && !has_reached(mirror, ledger, id)? {
            lock(&self.bandits).remove(id);
        }
        done
    }

    fn follow_to_end(
        &self,
        keys: &MemberKeys,
        followed: &Followed,
        mirror: &mut Mirror,
        ledger: &Ledger,
        id: &str,
        journal: Source,
    ) -> Result<(), Error> {
        let (noted, mut ended, mut fresh) = (ledger.head(id)?, Vec::new(), Vec::new());
        let (known, mut saved) = (noted.map_or(0, |(count, _)| count), mirror.batches);
        loop {
            let own = ledger.last_signed(id)?.filter(|own| own.records <= mirror.records);
            let Journal { records, heads } = journal(id, mirror.records, own.as_ref())?;
            let before = mirror.records;
            for record in &records {
                self.fetch(mirror, id, journal)?;
                let mut next = mirror.after(record);
                if noted.is_some_and(|(count, hash)| count == next.records && hash != next.hash) {
                    return Err(Error::Deviates("another journal than the one that was answered for"));
                }
                std::mem::swap(&mut next.seen, &mut mirror.seen);
                let applied = next.apply(self, id, record);
                if applied.is_err() {
                    std::mem::swap(&mut next.seen, &mut mirror.seen);
                }
                applied?;
                if next.batches > mirror.batches {
                    ended.push(keys.sign_head(id, (next.batches, next.records), &next.hash));
                }
                *mirror = next;
                fresh.push(mirror.model());
                fresh.dedup_by_key(|(feedbacks, _)| *feedbacks);
            }
            if records.is_empty() && mirror.records < known {
                return Err(Error::Deviates("a journal that is shorter than the one that was answered for"));
            }
            if mirror.records > before && mirror.records >= known {
                ledger.note_head(id, mirror.records, mirror.hash, &std::mem::take(&mut ended))?;
                // No decision is made with a model of another journal, and none is kept.
                let mut models = lock(&followed.models);
                for model in fresh.drain(..) {
                    if models.back().is_none_or(|(feedbacks, _)| *feedbacks != model.0) {
                        models.push_back(model);
                    }
                }
                let more = models.len().saturating_sub(MOST_MODELS);
                models.drain(..more);
                if let (Some(states), true) = (&self.states, mirror.batches > saved) {
                    states.save(&self.engine, id, (mirror, &models))?;
                    saved = mirror.batches;
                }
            }
            let others: Vec<_> = heads.into_iter().filter(|head| self.is_of_other(keys, id, head)).collect();
            ledger.compare_heads(id, &others)?;
            if records.is_empty() {
                return Ok(());
            }
        }
    }

    /// Fetches the frames of a check that is due which are not kept.
    fn fetch(&self, mirror: &mut Mirror, id: &str, journal: Source) -> Result<(), Error> {
        let Some(check) = mirror.bandit.check() else { return Ok(()) };
        let after = |(round, _): &(u64, _)| match mirror.seen.unchecked.get(round) {
            Some(Unchecked { after, frame: None }) => Some((*after, *round)),
            _ => None,
        };
        let mut missing: BTreeMap<u64, u64> = check.feedbacks.iter().filter_map(after).collect();
        while let Some((&first, _)) = missing.first_key_value() {
            let records = journal(id, first, None)?.records;
            let other = || Error::Deviates("another feedback in the journal than the one that was followed");
            if records.is_empty() {
                return Err(other());
            }
            for (at, record) in (first..).zip(&records) {
                let Some(round) = missing.remove(&at) else { continue };
                match Event::from_bytes(record)? {
                    Event::Feedback { round: same, frame }
                        if same == round
                            && mirror.seen.hashes.get(&round) == Some(&wire::input_hash(&frame)) =>
                    {
                        // At most those of one check are kept beyond the bound.
                        mirror.seen.insert(round, at, frame, usize::MAX);
                    }
                    _ => return Err(other()),
                }
            }
        }
        Ok(())
    }

    /// Whether another member of this epoch has signed this head.
    fn is_of_other(&self, keys: &MemberKeys, id: &str, head: &SignedHead) -> bool {
        head.bandit == id && head.member != keys.member() && head.check(&self.committee).is_ok()
    }

    /// The model of this many feedbacks.
    fn model(
        &self,
        keys: &MemberKeys,
        followed: &Followed,
        ledger: &Ledger,
        id: &str,
        feedbacks: u64,
        journal: Source,
    ) -> Result<Arc<Ciphertext>, Error> {
        let known = || {
            let models = lock(&followed.models);
            models.iter().find(|(of, _)| *of == feedbacks).map(|(_, model)| model.clone())
        };
        let mut mirror = lock(&followed.mirror);
        if let (true, Some(model)) = (has_reached(&mirror, ledger, id)?, known()) {
            return Ok(model);
        }
        self.follow(keys, followed, &mut mirror, ledger, id, journal)?;
        known().ok_or(Error::Deviates("scores of a model that does not follow from the journal"))
    }

    /// What `evidence` determines of an evaluation. Its raise is not looked at.
    fn evaluation(
        &self,
        keys: &MemberKeys,
        followed: &Followed,
        ledger: &Ledger,
        bandit: &Joined,
        evidence: &Evidence,
        journal: Source,
    ) -> Result<Arc<Evaluation>, Error> {
        let hash = hash_of(evidence);
        if let Some((_, known)) = lock(&followed.evaluations).iter().find(|(of, _)| *of == hash) {
            return Ok(known.clone());
        }
        let (engine, layout) = (&self.engine, &bandit.exchanges.layout);
        let (id, config) = (&bandit.created.id, &bandit.created.config);
        let model = self.model(keys, followed, ledger, id, evidence.model_feedbacks, journal)?;
        let limit = CommitteeContexts::contexts_bytes(engine.params());
        let (mut packer, mut users) = (engine.packer()?, Vec::new());
        for (decisions, body) in &evidence.uploads {
            let (sent, decisions) = (CommitteeContexts::read(body, limit)?, *decisions as usize);
            let about = CommitteeContexts::about(id, decisions, &sent.answer_key);
            let unproven = |_| Error::Deviates("an evaluation of contexts that their sender does not know");
            let contexts = engine.read_proven_contexts(&sent.contexts, &about).map_err(unproven)?;
            let scores = engine.score(&contexts, &model)?;
            let log = layout.log_places(decisions)?;
            let first = layout.user_at(packer.push_block(scores, log)?);
            let numbers = (0..decisions).map(|b| layout.user_of(first, b, log) as u32).collect();
            users.push((sent.answer_key, numbers));
        }
        if users.is_empty() {
            return Err(Error::Deviates("an evaluation without users"));
        }
        let count = packer.len();
        let circuit =
            engine.circuit(config, Scalars::new(config, evidence.last_round, evidence.model_feedbacks))?;
        let factor = circuit.factor(layout.log_range());
        let evaluation = Arc::new(Evaluation { packed: packer.finish()?, circuit, factor, count, users });
        let mut evaluations = lock(&followed.evaluations);
        evaluations.push_back((hash, evaluation.clone()));
        if evaluations.len() > MOST_EVALUATIONS {
            evaluations.pop_front();
        }
        Ok(evaluation)
    }

    /// The raised scores of an evaluation, whose c₁ is that of a request to members about its pack.
    fn raised(
        &self,
        keys: &MemberKeys,
        bandit: &Joined,
        question: &Question,
        evaluation: &Evaluation,
        raise: Option<&RaiseEvidence>,
    ) -> Result<Ciphertext, Error> {
        let RaiseEvidence { question: bytes, set, frame } =
            raise.ok_or(Error::Deviates("answers without a raise"))?;
        let asked = Question::from_bytes(bytes)?;
        let alone = evaluation.count == 1;
        let scores = Wanted::Transfer(TaskKind::Scores { factor: evaluation.factor, alone });
        if asked.bandit != question.bandit || asked.task != question.task || asked.wanted != scores {
            return Err(Error::Deviates("answers of another raise than that of their evaluation"));
        }
        let set = keys.quorum().active(&super::answering::members(*set))?;
        let header = transfer_header(bytes, 0);
        let id = RequestId::new(RequestKind::Transfer, set, &header, Some(evaluation.packed.c1()));
        let (deep, level) = (self.engine.deep(), bandit.exchanges.scores(alone).level());
        let raised = ckks::read_ciphertext(deep.params(), deep.key_id(), level, frame)?;
        match is_of(&id, deep.params(), &raised) {
            true => Ok(raised),
            false => Err(Error::Deviates("raised scores that no members made from this evaluation")),
        }
    }

    /// Checks that the request is about c₁ of `own`.
    fn same(
        &self,
        request: &MemberRequest,
        params: &Params,
        level: usize,
        own: &Ciphertext,
    ) -> Result<(), Error> {
        let deep = self.engine.deep();
        let key: KeyId = if params == deep.params() { deep.key_id() } else { self.engine.key_id() };
        let asked: Poly<Ntt> = ckks::read_polynomial(params, key, level, &request.c1)?;
        match asked == *own.c1() {
            true => Ok(()),
            false => Err(Error::Deviates("another ciphertext than the one that the member computes")),
        }
    }

    /// Whether t members of the committee before have signed that this is the state of the bandit, for these
    /// keys.
    fn is_rotated(
        &self,
        bandit: &EncryptedBandit,
        id: &str,
        standing: &[u8],
        frames: [&Vec<u8>; 3],
        evidence: &[u8],
    ) -> Result<bool, Error> {
        let Some(followed) = self.committee.follows.as_deref() else { return Ok(false) };
        let RotationEvidence { question: bytes, set, c1, shares } = RotationEvidence::from_bytes(evidence)?;
        let (quorum, question) = (followed.epoch.quorum()?, Question::from_bytes(&bytes)?);
        let set = quorum.active(&super::answering::members(set))?;
        let wanted = Wanted::Rotation { next: self.digest, standing: standing.to_vec() };
        if question.bandit != id || question.wanted != wanted || shares.len() != set.len() {
            return Ok(false);
        }
        let (deep, small, plan) = (self.engine.deep(), self.engine.params(), bandit.plan());
        let before: KeyId = followed.key_id.parse()?;
        let input = |bytes| ckks::read_polynomial(deep.params(), before, plan.refresh_level, bytes);
        let requests = rotation_requests(&bytes, set, [&input(&c1[0])?, &input(&c1[1])?]);
        let rings = [
            (deep.params(), deep.key_id(), plan.model_level),
            (small, self.engine.key_id(), small.max_level()),
            (deep.params(), deep.key_id(), plan.statistics_level),
        ];
        let mut sums = rings.map(|(params, _, level)| Poly::<Ntt>::zero(params.n(), level + 1));
        for (member, RotationShares { hashes, up, signature }) in set.iter().zip(&shares) {
            // A set has the members of its quorum alone.
            let verifying = &followed.epoch.verifying[usize::from(member - 1)].0;
            check_hashed_frames(verifying, &requests, hashes, signature)?;
            if hashes.len() != 9 || up.len() != 3 {
                return Ok(false);
            }
            for (k, (params, key, level)) in rings.iter().enumerate() {
                if *blake3::hash(&up[k]).as_bytes() != hashes[3 * k + 2] {
                    return Ok(false);
                }
                let poly = ckks::read_polynomial(params, *key, *level, &up[k])?;
                sums[k].add_assign(params.q_basis(*level), &poly);
            }
        }
        let mut all = rings.iter().zip(&sums).zip(frames);
        all.try_fold(true, |same, (((params, key, level), sum), frame)| {
            let output = ckks::read_ciphertext(params, *key, *level, frame)?;
            Ok::<_, Error>(same && output.c1() == sum)
        })
    }

    /// Whether the ciphertexts are the transfers of one request to members about `input`.
    fn are_transfers(
        &self,
        question: impl Fn(u32) -> Vec<u8>,
        input: &Ciphertext,
        outputs: &[(&Params, &Ciphertext)],
    ) -> bool {
        let of = |attempt: u32, set: ActiveSet| {
            let question = question(attempt);
            (0..).zip(outputs).all(|(number, (params, output))| {
                let header = transfer_header(&question, number);
                is_of(&RequestId::new(RequestKind::Transfer, set, &header, Some(input.c1())), params, output)
            })
        };
        (0..self.attempts).any(|attempt| self.sets.iter().any(|set| of(attempt, *set)))
    }
}

/// Whether a journal was followed as far as the ledger has noted.
fn has_reached(mirror: &Mirror, ledger: &Ledger, id: &str) -> Result<bool, Error> {
    Ok(ledger.head(id)?.is_none_or(|(noted, _)| mirror.records >= noted))
}

/// BLAKE3 of all of an evidence but its raise.
fn hash_of(evidence: &Evidence) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    hash.update(&evidence.last_round.to_le_bytes()).update(&evidence.model_feedbacks.to_le_bytes());
    for (decisions, body) in &evidence.uploads {
        hash.update(&decisions.to_le_bytes()).update(&(body.len() as u64).to_le_bytes()).update(body);
    }
    *hash.finalize().as_bytes()
}

fn evidence(request: &MemberRequest) -> Result<Evidence, Error> {
    if request.evidence.is_empty() {
        return Err(Error::Deviates("an evaluation without what its users sent"));
    }
    Ok(Evidence::from_bytes(&request.evidence)?)
}

/// Whether c₁ is what the members of this request have drawn.
fn is_of(id: &RequestId, params: &Params, ciphertext: &Ciphertext) -> bool {
    let (seed, c1) = (id.seed(), ciphertext.c1());
    let mut limb = vec![0; params.n()];
    (0..c1.limbs()).all(|i| {
        ckks::uniform_c1_limb(params, i, &seed, &mut limb);
        limb == c1.limb(i)
    })
}

/// Checks that answers go to those who sent the contexts, for the rounds of the evaluation.
fn check_users(evaluation: &Evaluation, evidence: &Evidence, users: &[AnswerUser]) -> Result<(), Error> {
    let sent = |user: &AnswerUser| {
        evaluation.users.iter().any(|(key, numbers)| *key == user.answer_key && *numbers == user.users)
    };
    if !users.iter().all(sent) {
        return Err(Error::Deviates("an answer to somebody who sent no contexts"));
    }
    let last = users.iter().map(|user| user.round.saturating_add(user.users.len() as u64 - 1)).max();
    match last == Some(evidence.last_round) {
        true => Ok(()),
        false => Err(Error::Deviates("answers for other rounds than those of their evaluation")),
    }
}

/// All sets of t members, of this epoch and those before: the journal has what they made.
fn sets(keys: &MemberKeys) -> Result<Vec<ActiveSet>, Error> {
    let mut sets: Vec<ActiveSet> = keys.quorum().subsets().collect();
    if let Custody::Committee(committee) = &keys.manifest().custody {
        for past in &committee.before {
            sets.extend(past.quorum()?.subsets());
        }
    }
    sets.sort_unstable_by_key(|set| set.bits());
    sets.dedup();
    Ok(sets)
}
