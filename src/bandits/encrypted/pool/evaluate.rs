//! An evaluation, from the seal of its pack to the answers to its users.

use super::raises::{GivenTo, Raising};
use super::staged::SealedPack;
use super::{
    AnswerFrame, Awaited, EncryptedServed, Gathering, Holder, Pack, RAISER_RETURNS, Turn, User,
    answer_frames, blocking, pads_of_answers,
};
use crate::access::{Forbidden, Needs, Scope};
use crate::bandits::encrypted::again::{Group, Sent};
use crate::error::Error;
use crate::metrics::Step;
use ckks::{Ciphertext, RAISE_FACTORS};
use helba::circuit::DecisionCircuit;
use helba::{Masked, ScoresModel, TraceTest};
use host::{lock, os_rng};
use protocol::{TaskKind, UserKeys};
use rand::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use wire::{DecideReply, Decision, RaiseTask, UserPads};

/// The longest time after the answers for which the next pack waits for users to come back.
const RETURN: Duration = Duration::from_millis(60);
/// The time after which a raise is asked of the next raiser.
const PATIENCE: Duration = Duration::from_secs(2);

/// What an evaluation needs besides its users, to be repeated.
struct Rest {
    model: ScoresModel,
    /// The contexts of users who do not wait. `None` if some are not kept, so that there is no repeat.
    others: Option<Vec<Sent>>,
    /// Whether this is a repeat.
    repeat: bool,
    /// Who answered a stage of what this repeats.
    holders: BTreeSet<Holder>,
}

/// What the circuit of an evaluation gives, and the times of its parts.
struct Computed {
    outcome: Products,
    /// The user who is asked for the trace, and the frame of the question.
    question: Option<(usize, Vec<u8>)>,
    circuit: Duration,
    answers: Duration,
}

/// What becomes of the products of an evaluation.
enum Products {
    /// The frame of the answer to the only request.
    Alone(Vec<u8>),
    /// What a holder of the key is asked for to answer several requests.
    Masked(Masked),
}

/// A pack that is closed, and what its evaluation needs.
enum Sealed {
    /// By one raise.
    Raised(Box<SealedScores>),
    /// In stages.
    Staged(SealedPack),
}

/// Scores that are raised once.
struct SealedScores {
    circuit: DecisionCircuit,
    /// How many requests are in the pack, those of users who left among them.
    requests: usize,
    factors: [f64; RAISE_FACTORS],
    seed: ckks::MaskSeed,
    masked: Ciphertext,
    test: Option<TraceTest>,
}

/// The answers to the users of an evaluation, before they are sent.
pub(super) struct Answered<'a> {
    /// The answers, in the order of the users.
    pub(super) frames: Vec<AnswerFrame>,
    /// The place of the user who is asked for the trace, what is tested, and the frame of the question.
    question: Option<(usize, TraceTest, Vec<u8>)>,
    /// What the evaluation waited for holders of the key.
    pub(super) raise: Duration,
    /// What its circuit took, and its answers.
    pub(super) circuit: Duration,
    pub(super) answers: Duration,
    /// Void when they are dropped.
    pub(super) asked: Vec<Raising<'a>>,
    /// Who answered a stage.
    pub(super) holders: BTreeSet<Holder>,
}

impl<'a> Answered<'a> {
    /// Without a question.
    pub(super) fn new(frames: Vec<AnswerFrame>, times: [Duration; 3], asked: Vec<Raising<'a>>) -> Self {
        let [raise, circuit, answers] = times;
        Answered { frames, question: None, raise, circuit, answers, asked, holders: BTreeSet::new() }
    }
}

impl EncryptedServed {
    /// Seals a pack, has it raised, evaluates it and answers its users. Returns the time of its turn.
    pub(super) async fn evaluate(self: &Arc<Self>, gathering: Gathering, mut turn: Turn) -> Duration {
        let Gathering { number: _, pack, users, model_feedbacks, model, test } = gathering;
        // The contexts of users who left are in the pack.
        let (gone, mut users): (Vec<User>, Vec<User>) =
            users.into_iter().partition(|user| user.sender.is_closed());
        if users.is_empty() {
            return Duration::ZERO;
        }
        let (count, requests) = (users.len(), users.len() + gone.len());
        lock(&self.pool).evaluates(requests);
        lock(&self.pace).evaluate(requests);
        let kept = users.iter().all(|user| user.sent.is_some());
        let others = gone.into_iter().map(|user| user.sent).collect::<Option<Vec<Sent>>>().filter(|_| kept);
        let rest = Rest { model: model.clone(), others, repeat: false, holders: BTreeSet::new() };
        let served = self.clone();
        let began = Instant::now();
        let sealed = blocking(move || {
            let decisions = users.iter().map(|user| user.numbers.len() as u64).sum();
            let sealed = served.take_rounds(decisions).and_then(|first| {
                let mut next = first;
                for user in &mut users {
                    user.round = next;
                    next += user.numbers.len() as u64;
                }
                let last = (next - 1, model_feedbacks);
                Ok((served.seal(pack, requests, &model, last, test)?, last))
            });
            Ok((sealed, users))
        });
        let (sealed, mut users) = match sealed.await {
            Ok(sealed) => sealed,
            Err(error) => (Err(error), Vec::new()),
        };
        tracing::debug!(
            bandit = self.created.id,
            users = count,
            seconds = began.elapsed().as_secs_f64(),
            "sealed"
        );
        let done = match sealed {
            Ok((sealed, last)) => self.raise_and_answer(sealed, last, &mut users, rest, &mut turn).await,
            Err(error) => Err(error),
        };
        if count > 1 && turn.is_held() {
            self.wait_for_return(count).await;
        }
        let held = turn.held();
        drop(turn);
        if let Err(error) = done {
            self.refuse(users, &error);
        }
        held
    }

    /// Evaluates users of an evaluation again, under a fresh mask, and answers those who ask. Returns the
    /// number under which they are kept, or `None` if they were refused.
    pub(in crate::bandits::encrypted) async fn evaluate_again(
        self: &Arc<Self>,
        mut group: Group,
    ) -> Option<u64> {
        let contexts = match self.contexts_again(&mut group).await {
            Ok(contexts) => contexts,
            Err(error) => {
                self.refuse(Vec::new(), &error);
                return None;
            }
        };
        let mut turn = self.turn().await?;
        let (model, model_feedbacks, last) = (group.model.clone(), group.model_feedbacks, group.last);
        let holders = group.holders.clone();
        let served = self.clone();
        let sealed = blocking(move || {
            let model = group.model.clone();
            let (pack, users, others) = served.pack_again(group, contexts)?;
            let requests = users.len() + others.len();
            Ok((served.seal(pack, requests, &model, (last, model_feedbacks), None), users, others))
        });
        let (sealed, mut users, others) = match sealed.await {
            Ok((Ok(sealed), users, others)) => (sealed, users, others),
            Ok((Err(error), users, _)) => {
                self.refuse(users, &error);
                return None;
            }
            Err(error) => {
                self.refuse(Vec::new(), &error);
                return None;
            }
        };
        let rest = Rest { model, others: Some(others), repeat: true, holders };
        let last = (last, model_feedbacks);
        match self.raise_and_answer(sealed, last, &mut users, rest, &mut turn).await {
            Ok(kept) => kept,
            Err(error) => {
                self.refuse(users, &error);
                None
            }
        }
    }

    /// Answers users whose evaluation ended with `error`.
    fn refuse(&self, users: Vec<User>, error: &Error) {
        tracing::warn!(bandit = self.created.id, users = users.len(), %error, "an evaluation ended");
        let deleted = lock(&self.live).deleted;
        for user in users {
            let why = error.to_string();
            let error = if deleted { self.deleted() } else { Error::NotEvaluated { why } };
            let _ = user.sender.send(Err(error));
        }
    }

    /// Waits until about as many users wait as were just answered. Those who ask again at once then share the
    /// next evaluation, where two groups of them would take turns otherwise.
    async fn wait_for_return(&self, answered: usize) {
        let began = Instant::now();
        while began.elapsed() < RETURN {
            let waiting = self.users_waiting();
            if waiting * 10 >= answered * 9 {
                return;
            }
            tokio::time::sleep(RETURN / 12).await;
        }
    }

    /// `last` is the last round of the users. `model_feedbacks` belongs to the model of the scores, which may
    /// have been replaced since.
    fn seal(
        &self,
        pack: Pack,
        requests: usize,
        model: &ScoresModel,
        (last, model_feedbacks): (u64, u64),
        test: Option<TraceTest>,
    ) -> Result<Sealed, Error> {
        let engine = &self.shared.engine;
        let scalars = helba::Scalars::new(&self.created.config, last, model_feedbacks);
        let packer = match pack {
            Pack::Scores(packer) if self.exchanges.staged.is_none() => packer,
            pack => return Ok(Sealed::Staged(SealedPack { pack, model: model.clone(), scalars })),
        };
        let packed = rayon::scope(|_| packer.finish()).map_err(helba::Error::from)?;
        let circuit = engine.circuit(&self.created.config, scalars)?;
        let factors = circuit.factors(self.exchanges.layout.log_range());
        let masked = engine.mask(&self.exchanges.scores, packed, &mut os_rng()?)?;
        let (masked, seed) = (masked.ciphertext, masked.seed);
        let sealed = SealedScores { circuit, requests, factors, seed, masked, test };
        Ok(Sealed::Raised(Box::new(sealed)))
    }

    /// `turn` is the turn of the evaluation, and another one when its raise was late. Returns the number
    /// under which a repeat is kept.
    async fn raise_and_answer(
        self: &Arc<Self>,
        sealed: Sealed,
        (last_round, model_feedbacks): (u64, u64),
        users: &mut Vec<User>,
        mut rest: Rest,
        turn: &mut Turn,
    ) -> Result<Option<u64>, Error> {
        let began = Instant::now();
        let answered = match sealed {
            Sealed::Raised(sealed) => self.raise(*sealed, users, turn).await?,
            Sealed::Staged(sealed) => self.stages(sealed, users, rest.holders.clone(), turn).await?,
        };
        let Answered { frames, mut question, raise, circuit, answers, asked, holders } = answered;
        rest.holders.extend(holders);
        let waiting = std::mem::take(users);
        // Those who left are in the evaluation too.
        let gone = rest.others.iter().flatten().map(|sent| sent.decisions);
        let count = waiting.iter().map(|user| user.numbers.len()).chain(gone).sum::<usize>() as u32;
        self.shared.stages.metrics.took(Step::Evaluation, circuit);
        self.shared.stages.metrics.took(Step::Answers, answers);
        let seconds = began.elapsed().as_secs_f64();
        // Kept before the first answer leaves, so that its user may ask again at once.
        let kept = self.keep(&waiting, rest, (model_feedbacks, last_round));
        for (at, (user, answer)) in waiting.into_iter().zip(frames).enumerate() {
            let round = user.round;
            let last = round + user.numbers.len() as u64;
            let (id, others) = {
                let live = lock(&self.live);
                let others = (round + 1..last).map(|round| live.bandit.decision_id(round)).collect();
                (live.bandit.decision_id(round), others)
            };
            let first = user.numbers[0] as u32;
            let question = question.take_if(|(asked, ..)| *asked == at);
            let question = question.map(|(_, test, frame)| self.question(round, &test, frame));
            let AnswerFrame { frame: answer, nonce } = answer;
            let refused = nonce.is_some_and(|nonce| nonce.is_none());
            let (user_of, users) = (first, count);
            let decision = Decision {
                id,
                others,
                round,
                model_feedbacks,
                user: user_of,
                users,
                answer,
                nonce: nonce.flatten(),
                question,
            };
            let reply = match refused {
                false => Ok(DecideReply { decision: Some(decision), ..DecideReply::default() }),
                true => {
                    Err(Error::ForbiddenScope { needs: Needs::Scope(Scope::Decide), why: Forbidden::Removed })
                }
            };
            // A user who is gone leaves a round without feedback.
            let _ = user.sender.send(reply);
        }
        drop(asked);
        tracing::info!(
            bandit = self.created.id,
            users = count,
            raise = raise.as_secs_f64(),
            circuit = circuit.as_secs_f64(),
            answers = answers.as_secs_f64(),
            seconds,
            "evaluated"
        );
        Ok(kept)
    }

    /// Has scores raised once, and computes the answers.
    async fn raise<'a>(
        self: &'a Arc<Self>,
        sealed: SealedScores,
        users: &mut Vec<User>,
        turn: &mut Turn,
    ) -> Result<Answered<'a>, Error> {
        let began = Instant::now();
        let SealedScores { circuit, requests, factors, seed, masked, test } = sealed;
        // What the mask becomes is computed while the raiser works.
        let served = self.clone();
        let mask = tokio::task::spawn_blocking(move || {
            rayon::scope(|_| served.exchanges.scores.encode_mask(&seed, &factors))
        });
        let (kind, masked) = (TaskKind::Scores { factors }, self.small_frame(masked));
        let (sender, receiver) = oneshot::channel();
        let awaited = Awaited::Scores(sender, self.exchanges.scores.to().level);
        let (raised, raising) =
            self.ask_a_holder((kind, masked, Vec::new()), (awaited, receiver), users, turn).await?;
        let raise = began.elapsed();
        self.shared.stages.metrics.took(Step::Raise, raise);
        let mask = mask.await.map_err(|_| Error::Broken("a computation panicked"))??;
        let place = self.shared.stages.computing.clone().acquire_owned().await;
        let waiting: Vec<User> = std::mem::take(users);
        let (served, tests) = (self.clone(), test.is_some());
        let work = move || {
            let _place = place;
            let computed = served.compute(&circuit, requests, raised, &mask, &waiting, tests);
            (waiting, computed)
        };
        let mut work = tokio::task::spawn_blocking(work);
        let computed = tokio::select! {
            computed = &mut work => computed,
            () = self.closed_pack() => {
                turn.pass();
                work.await
            }
        };
        let (waiting, computed) = computed.map_err(|_| Error::Broken("a computation panicked"))?;
        *users = waiting;
        let Computed { outcome, question, circuit, answers } = computed?;
        turn.computed(circuit + answers);
        let (frames, answers, of_answers) = match outcome {
            Products::Alone(frame) => (vec![AnswerFrame { frame, nonce: None }], answers, None),
            Products::Masked(masked) => {
                let (frames, took, asked) = self.exchange_answers(masked, users, turn).await?;
                (frames, answers + took, Some(asked))
            }
        };
        let question = test.zip(question).map(|(test, (at, frame))| (at, test, frame));
        let asked = [raising].into_iter().chain(of_answers).collect();
        Ok(Answered { question, ..Answered::new(frames, [raise, circuit, answers], asked) })
    }

    /// The frames of the answers of `users`, in their order, from a holder of the key. Users who were asked
    /// before are asked last.
    async fn exchange_answers<'a>(
        self: &'a Arc<Self>,
        masked: Masked,
        users: &mut [User],
        turn: &mut Turn,
    ) -> Result<(Vec<AnswerFrame>, Duration, Raising<'a>), Error> {
        let began = Instant::now();
        let Masked { ciphertext, seed } = masked;
        // What the mask becomes is computed while the holder works.
        let served = self.clone();
        let mask = tokio::task::spawn_blocking(move || {
            rayon::scope(|_| served.exchanges.answers.encode_mask(&seed))
        });
        let engine = &self.shared.engine;
        let masked = ckks::write_ciphertext(engine.decision_params(), engine.decision_key_id(), &ciphertext);
        let (sender, receiver) = oneshot::channel();
        let pads = pads_of_answers(users);
        let awaited = (Awaited::Answers(sender, pads.len()), receiver);
        let task = (TaskKind::Answers, masked, pads);
        let ((mut answers, nonces), asked) = self.ask_a_holder(task, awaited, users, turn).await?;
        self.shared.stages.metrics.took(Step::Exchange, began.elapsed());
        let mask = mask.await.map_err(|_| Error::Broken("a computation panicked"))??;
        let began = Instant::now();
        let numbers: Vec<Vec<usize>> = users.iter().map(|user| user.numbers.clone()).collect();
        let served = self.clone();
        let frames = blocking(move || {
            let (engine, layout) = (&served.shared.engine, &served.exchanges.layout);
            let mut rng = os_rng()?;
            answers.sub_assign(engine.answer_params(), &mask).map_err(helba::Error::from)?;
            let answer = |numbers: &Vec<usize>| Ok(engine.answer(layout, &answers, numbers, &mut rng)?);
            numbers.iter().map(answer).collect::<Result<Vec<_>, Error>>()
        });
        Ok((answer_frames(frames.await?, nonces), began.elapsed(), asked))
    }

    /// What an evaluation asks a holder of the key for.
    async fn ask_a_holder<'a, T>(
        self: &'a Arc<Self>,
        (kind, masked, pads): (TaskKind, Vec<u8>, Vec<UserPads>),
        (awaited, mut raised): (Awaited, oneshot::Receiver<T>),
        users: &mut [User],
        turn: &mut Turn,
    ) -> Result<(T, Raising<'a>), Error> {
        let (id, masked) = (os_rng()?.next_u64() | 1 << 63, vec![masked]);
        let task = RaiseTask { id, kind, masked, pads };
        let began = Instant::now();
        let mut raising = self.begin(task.id, awaited)?;
        let (mut asked, mut queued, mut late, mut last) = (0, false, false, began);
        let raised = loop {
            let stages = &self.shared.stages;
            if began.elapsed() >= stages.longest_raise || last.elapsed() >= stages.last_raise {
                return Err(Error::NotRaised);
            }
            // Users with keys of their own hold none that a task needs.
            let own_keys = self.created.plan.keys == UserKeys::Own;
            let askable = if own_keys { &mut [] } else { &mut *users };
            let patience = match self.ask(&task, askable, &mut asked, &mut raising.tickets, &mut queued)? {
                GivenTo::Queued => RAISER_RETURNS,
                GivenTo::Raiser => {
                    last = Instant::now();
                    PATIENCE
                }
                GivenTo::Nobody if own_keys && last == began => return Err(Error::NotRaised),
                GivenTo::Nobody => PATIENCE,
            };
            match tokio::time::timeout(patience, &mut raised).await {
                Ok(Ok(raised)) => break raised,
                // The bandit was deleted.
                Ok(Err(_)) => return Err(self.deleted()),
                Err(_) if users.iter().all(|user| user.sender.is_closed()) => return Err(Error::NotRaised),
                Err(_) => {}
            }
            if began.elapsed() >= stages.raise_turn && !late {
                late = self.leave_turn(turn);
            }
        };
        let asked = asked.min(users.len());
        users.rotate_left(asked);
        Ok((raised, raising))
    }

    /// Leaves the turn of an evaluation that waits for others to the next one, if there is room for one more
    /// that is late.
    fn leave_turn(&self, turn: &mut Turn) -> bool {
        let place = self.shared.stages.late.clone().try_acquire_owned();
        place.map(|place| turn.leave(place)).is_ok()
    }

    /// Keeps an evaluation whose users are answered now. Returns the number of a repeat.
    fn keep(
        self: &Arc<Self>,
        users: &[User],
        rest: Rest,
        (model_feedbacks, last): (u64, u64),
    ) -> Option<u64> {
        let Rest { model, others, repeat, holders } = rest;
        let mut group = Group::new(model, model_feedbacks, last);
        group.holders = holders;
        others?.into_iter().for_each(|sent| group.push(sent, None));
        for user in users {
            let answered = (!user.sender.is_closed()).then_some((user.round, user.answers + 1));
            group.push(user.sent.clone()?, answered);
        }
        if repeat {
            return self.keep_repeat(group);
        }
        self.keep_first(group);
        None
    }

    /// The circuit of a pack of so many `requests`, and what becomes of its products;
    /// and the trace question to one of `users` if the evaluation `tests` the trace, which has the place of a
    /// user.
    fn compute(
        &self,
        circuit: &DecisionCircuit,
        requests: usize,
        raised: Ciphertext,
        mask: &[ckks::Plaintext],
        users: &[User],
        tests: bool,
    ) -> Result<Computed, Error> {
        let engine = &self.shared.engine;
        let raise = &self.exchanges.scores;
        let mut rng = os_rng()?;
        rayon::scope(|_| {
            let mut clock = Instant::now();
            let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed();
            let evaluated = engine.evaluate(circuit, raise, raised, mask, &mut rng)?;
            let circuit = lap();
            let outcome = match users {
                [user] if requests == 1 && user.enrolment.is_none() => {
                    let answer = engine.answer_alone(&evaluated, &user.numbers, &mut rng)?;
                    let frame = ckks::write_ciphertext(engine.answer_params(), engine.key_id(), &answer);
                    Products::Alone(frame)
                }
                _ => Products::Masked(engine.mask_answers(&self.exchanges.answers, &evaluated, &mut rng)?),
            };
            let question =
                tests.then(|| self.ask_for_trace(&evaluated, users.len(), &mut rng)).transpose()?;
            Ok(Computed { outcome, question, circuit, answers: lap() })
        })
    }
}
