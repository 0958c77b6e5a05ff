//! An evaluation in stages, from the seal of its pack to the answers: the server multiplies, and a holder of
//! the key who may answer every task moves numbers between the products ([`protocol::staged`]). No user of an
//! evaluation is asked.
//!
//! A step goes to the holder who answered the last one, if it waits or did a moment ago, or else to another.
//! A repeat goes to one who answered none of what it repeats, if there is one: a holder that changed a number
//! does not see whether the device asked again.
//!
//! All silent holders together cost an evaluation its patience ([`crate::Settings::stage_patience`]), and no
//! more than the time of their bytes ([`LEAST_SPEED`]): one who is asked has what is left of it, or half of
//! that while there is another one, who then gets the same bytes.
//! Who misses its time is not asked for the next minute, by any evaluation. Without a holder who can be asked
//! an evaluation is refused, as one that nobody raises is.

use super::evaluate::Answered;
use super::raises::Raising;
use super::{
    AnswerFrame, Awaited, EncryptedServed, Holder, Pack, Pool, Queued, RAISER_RETURNS, Staged, Turn, User,
    answer_frames, blocking, pads_of_answers,
};
use crate::error::Error;
use crate::metrics::Step;
use ckks::Ciphertext;
use helba::{Scalars, ScoresModel, StageReply, StagedEngine, StagedEvaluation};
use host::{lock, os_rng};
use protocol::TaskKind;
use protocol::staged::STAGED_FACTORS;
use rand::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use wire::RaiseTask;

/// The bytes a second, of a task and its answer together, that a holder of the key is given time for beside
/// the patience of an evaluation.
const LEAST_SPEED: f64 = 1e6;

/// The bytes of the answer to a step.
fn answer_bytes(engine: &StagedEngine, step: usize) -> Result<usize, Error> {
    let sides = engine.step(step)?.iter().flatten().map(|exchange| exchange.to());
    Ok(sides.map(|to| to.ciphertexts * ckks::ciphertext_bytes(&to.params, to.level, true)).sum())
}

/// Whom an evaluation asks.
pub(super) struct Owners {
    /// How long it still waits for those who are silent.
    patience: Duration,
    /// Who answered the last step.
    last: Option<Holder>,
    /// Who answered a step of an evaluation that this one repeats: asked if there is nobody else.
    avoided: BTreeSet<Holder>,
    /// Who answered a step.
    answered: BTreeSet<Holder>,
}

impl Owners {
    /// Those who may be silent for so long, with the holders who answered what is repeated.
    pub(super) fn new(patience: Duration, avoided: BTreeSet<Holder>) -> Self {
        Owners { patience, last: None, avoided, answered: BTreeSet::new() }
    }

    fn answered_by(&mut self, holder: Holder) {
        self.answered.insert(holder.clone());
        self.last = Some(holder);
    }
}

/// A step that is asked for.
struct Offered {
    /// How long its answer is waited for.
    wait: Duration,
    /// Who has it. `None` while it is in the queue.
    to: Option<Holder>,
}

impl Pool {
    /// Gives a step to a holder who waits, or puts it into the queue of those who waited a moment ago. `None`
    /// if nobody can be asked, or the evaluation has waited too long.
    fn offer(&mut self, task: &RaiseTask, owners: &mut Owners) -> Option<Offered> {
        let left = Some(owners.patience).filter(|left| !left.is_zero())?;
        let fetched = self.fetched.remove(&task.id);
        if self.withdraw(task.id) {
            // The one who answered the last step did not come for it.
            owners.last = None;
        }
        let is_waiting =
            |of: &Holder| self.raisers.iter().any(|(holder, sender)| holder == of && !sender.is_closed());
        let [asked, mut not] = self.holders.to_ask(is_waiting, Instant::now());
        let turn = |to: &Holder| if asked.iter().any(|other| other != to) { left / 2 } else { left };
        if let Some(holder) = fetched {
            return Some(Offered { wait: turn(&holder), to: Some(holder) });
        }
        if asked.is_empty() {
            return None;
        }
        let last = owners.last.as_ref().filter(|last| asked.contains(last));
        let others = asked.iter().any(|holder| !owners.avoided.contains(holder));
        let left_out = |holder: &&Holder| match last {
            Some(last) => last != *holder,
            None => others && owners.avoided.contains(*holder),
        };
        not.extend(asked.iter().filter(left_out).cloned());
        let tasks = vec![task.clone()];
        match self.give(tasks, |holder| !not.contains(holder)) {
            Ok(holder) => Some(Offered { wait: turn(&holder), to: Some(holder) }),
            Err(tasks) => {
                self.queued.push_back(Queued { tasks, not });
                Some(Offered { wait: left.min(RAISER_RETURNS), to: None })
            }
        }
    }
}

/// A pack that is evaluated in stages.
pub(super) struct SealedPack {
    pub(super) pack: Pack,
    pub(super) model: ScoresModel,
    pub(super) scalars: Scalars,
}

/// What an evaluation asks for next.
struct Asked {
    evaluation: StagedEvaluation,
    kind: TaskKind,
    frames: Vec<Vec<u8>>,
}

impl Asked {
    fn new(
        engine: &StagedEngine,
        evaluation: StagedEvaluation,
        sent: &[Vec<Ciphertext>],
    ) -> Result<Self, Error> {
        let (frames, hash) = engine.frames(&evaluation, sent)?;
        let (step, factors): (usize, [f64; STAGED_FACTORS]) = evaluation.asks();
        let users = engine.layout().users() as u32;
        Ok(Asked { evaluation, kind: TaskKind::Stage { step: step as u32, users, factors, hash }, frames })
    }
}

/// What an evaluation has after a step.
enum Next {
    Step(Box<Asked>),
    /// The answers.
    Answers(Vec<AnswerFrame>),
}

impl EncryptedServed {
    /// Evaluates contexts in stages, and computes the answers. `avoided` answered what this repeats.
    pub(super) async fn stages<'a>(
        self: &'a Arc<Self>,
        sealed: SealedPack,
        users: &[User],
        avoided: BTreeSet<Holder>,
        turn: &mut Turn,
    ) -> Result<Answered<'a>, Error> {
        let SealedPack { pack, model, scalars } = sealed;
        let numbers: Arc<Vec<Vec<usize>>> = Arc::new(users.iter().map(|user| user.numbers.clone()).collect());
        let mut owners = Owners::new(self.shared.stages.stage_patience, avoided);
        let (mut raise, mut circuit) = (Duration::ZERO, Duration::ZERO);
        let served = self.clone();
        let begin = self.computed(&mut circuit, move || {
            let staging = served.exchanges.staged.as_ref().ok_or(Error::Broken("no stages"))?;
            let exchanges = staging.of(pack.len()).map_err(helba::Error::from)?;
            let engine = Arc::new(served.shared.engine.staged((*exchanges).clone())?);
            let factors = helba::staged_factors(&scalars, served.exchanges.layout.log_range())?;
            let mut rng = os_rng()?;
            let (evaluation, sent) = match pack {
                Pack::Scores(packer) => {
                    let scores = packer.finish().map_err(helba::Error::from)?;
                    engine.begin_scores(factors, scores, &mut rng)?
                }
                Pack::Contexts(contexts) => engine.begin(factors, &contexts, model.parts(), &mut rng)?,
            };
            let asked = Asked::new(&engine, evaluation, &sent)?;
            Ok((engine, asked))
        });
        let (engine, mut asked) = begin.await?;
        let frames = loop {
            let began = Instant::now();
            let Asked { mut evaluation, kind, frames } = asked;
            // What the masks become is computed while the holder works.
            let masks = {
                let (engine, evaluation) = (engine.clone(), evaluation.clone());
                tokio::task::spawn_blocking(move || rayon::scope(|_| engine.encode_masks(&evaluation)))
            };
            let step = evaluation.asks().0;
            let pads = if engine.is_last(step) { pads_of_answers(users) } else { Vec::new() };
            let (sender, reply) = oneshot::channel();
            let awaited = (Awaited::Stage(sender, engine.clone(), step, pads.len()), reply);
            let task = RaiseTask { id: os_rng()?.next_u64() | 1 << 63, kind, masked: frames, pads };
            let bytes = answer_bytes(&engine, step)?;
            let staged = self.ask_an_owner(task, awaited, bytes, &mut owners).await?;
            let Staged { reply, nonces, holder } = staged;
            owners.answered_by(holder);
            let masks = masks.await.map_err(|_| Error::Broken("a computation panicked"))??;
            raise += began.elapsed();
            self.shared.stages.metrics.took(Step::Exchange, began.elapsed());
            let (engine, numbers) = (engine.clone(), numbers.clone());
            let next = self.computed(&mut circuit, move || {
                let mut rng = os_rng()?;
                match reply {
                    StageReply::Ciphertexts(fresh) => {
                        let sent = engine.next(&mut evaluation, fresh, &masks, &mut rng)?;
                        Ok(Next::Step(Box::new(Asked::new(&engine, evaluation, &sent)?)))
                    }
                    StageReply::Answers(answers) => {
                        let answers = engine.answers(&evaluation, answers, &masks)?;
                        let frame = |numbers: &Vec<usize>| Ok(engine.answer(&answers, numbers, &mut rng)?);
                        let frames = numbers.iter().map(frame).collect::<Result<_, Error>>()?;
                        Ok(Next::Answers(answer_frames(frames, nonces)))
                    }
                }
            });
            match next.await? {
                Next::Step(next) => asked = *next,
                Next::Answers(frames) => break frames,
            }
        };
        turn.computed(circuit);
        let mut answered = Answered::new(frames, [raise, circuit, Duration::ZERO], Vec::new());
        answered.holders = owners.answered;
        Ok(answered)
    }

    /// Computes a part of an evaluation when no other one computes, and adds what it took to `took`.
    async fn computed<T: Send + 'static>(
        &self,
        took: &mut Duration,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let place = self.shared.stages.computing.clone().acquire_owned().await;
        let done = blocking(move || {
            let (_place, began) = (place, Instant::now());
            let done = rayon::scope(|_| work())?;
            Ok((done, began.elapsed()))
        });
        let (done, of_this) = done.await?;
        *took += of_this;
        Ok(done)
    }

    /// What a holder of the key who may answer every task makes of `task`, in `bytes`.
    pub(super) async fn ask_an_owner<T>(
        self: &Arc<Self>,
        task: RaiseTask,
        (awaited, mut reply): (Awaited, oneshot::Receiver<T>),
        bytes: usize,
        owners: &mut Owners,
    ) -> Result<T, Error> {
        let bytes = task.masked.iter().map(Vec::len).sum::<usize>() + bytes;
        let of_bytes = Duration::from_secs_f64(bytes as f64 / LEAST_SPEED);
        let _raising: Raising = self.begin(task.id, awaited)?;
        loop {
            let offered = lock(&self.pool).offer(&task, owners);
            let Offered { wait, to } = offered.ok_or(Error::NotRaised)?;
            let of_bytes = if to.is_some() { of_bytes } else { Duration::ZERO };
            let began = Instant::now();
            match tokio::time::timeout(wait + of_bytes, &mut reply).await {
                Ok(Ok(reply)) => return Ok(reply),
                // The bandit was deleted.
                Ok(Err(_)) => return Err(self.deleted()),
                Err(_) => {
                    let silent = began.elapsed().saturating_sub(of_bytes);
                    owners.patience = owners.patience.saturating_sub(silent);
                }
            }
            let Some(holder) = to else { continue };
            let mut pool = lock(&self.pool);
            // An answer may have come at the last moment.
            if pool.waits(task.id).is_ok() {
                tracing::warn!(bandit = self.created.id, %holder, "a holder of the key was silent: it is not asked for a minute");
                pool.holders.rest(&holder, task.id, Instant::now());
            }
        }
    }
}
