//! An evaluation in stages, from the seal of its pack to the answers: the server multiplies, and a holder of
//! the key who may answer every task moves numbers between the products ([`protocol::staged`]). No user of an
//! evaluation is asked.
//!
//! A step goes to a holder of the key who waits, or to the next one who comes. Who has not answered within
//! [`PATIENCE`], less what others have used up of it but at least a second, has lost its turn, and the same
//! bytes go to the next one. All silent holders together cost an evaluation at most twice that time. Without
//! another holder it is refused, as an evaluation that nobody raises is.

use super::evaluate::Answered;
use super::raises::Raising;
use super::{Awaited, EncryptedServed, RAISER_RETURNS, Turn, User, blocking};
use crate::error::Error;
use crate::metrics::Step;
use ckks::Ciphertext;
use helba::{Scalars, ScoresModel, StageReply, StagedEngine, StagedEvaluation};
use host::{lock, os_rng};
use protocol::TaskKind;
use protocol::staged::STAGED_FACTORS;
use rand::Rng;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use wire::RaiseTask;

/// The time for which an evaluation waits for holders of the key who are silent.
const PATIENCE: Duration = Duration::from_secs(2);

/// Contexts that are evaluated in stages.
pub(super) struct SealedContexts {
    /// Those of each decision.
    pub(super) contexts: Vec<Vec<Ciphertext>>,
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
    /// The frames of the answers.
    Answers(Vec<Vec<u8>>),
}

impl EncryptedServed {
    /// Evaluates contexts in stages, and computes the answers.
    pub(super) async fn stages<'a>(
        self: &'a Arc<Self>,
        sealed: SealedContexts,
        users: &[User],
        turn: &mut Turn,
    ) -> Result<Answered<'a>, Error> {
        let SealedContexts { contexts, model, scalars } = sealed;
        let numbers: Arc<Vec<Vec<usize>>> = Arc::new(users.iter().map(|user| user.numbers.clone()).collect());
        let (mut raise, mut circuit, mut silence) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let served = self.clone();
        let begin = self.computed(&mut circuit, move || {
            let staging = served.exchanges.staged.as_ref().ok_or(Error::Broken("no stages"))?;
            let exchanges = staging.of(contexts.len()).map_err(helba::Error::from)?;
            let engine = Arc::new(served.shared.engine.staged((*exchanges).clone())?);
            let factors = helba::staged_factors(&scalars, served.exchanges.layout.log_range())?;
            let (evaluation, sent) = engine.begin(factors, &contexts, model.parts(), &mut os_rng()?)?;
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
            let reply = self.ask_an_owner(kind, frames, (&engine, step), &mut silence).await?;
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
                        Ok(Next::Answers(numbers.iter().map(frame).collect::<Result<_, Error>>()?))
                    }
                }
            });
            match next.await? {
                Next::Step(next) => asked = *next,
                Next::Answers(frames) => break frames,
            }
        };
        turn.computed(circuit);
        Ok(Answered::new(frames, [raise, circuit, Duration::ZERO], Vec::new()))
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

    /// What a holder of the key makes of a step. `silence` is how long the evaluation has waited for others
    /// in vain.
    async fn ask_an_owner(
        self: &Arc<Self>,
        kind: TaskKind,
        masked: Vec<Vec<u8>>,
        (engine, step): (&Arc<StagedEngine>, usize),
        silence: &mut Duration,
    ) -> Result<StageReply, Error> {
        let task = RaiseTask { id: os_rng()?.next_u64() | 1 << 63, kind, masked };
        let (sender, mut reply) = oneshot::channel();
        let _raising: Raising = self.begin(task.id, Awaited::Stage(sender, engine.clone(), step))?;
        loop {
            let waits = {
                let mut pool = lock(&self.pool);
                match pool.give(vec![task.clone()]) {
                    Ok(()) => PATIENCE.saturating_sub(*silence).max(RAISER_RETURNS),
                    Err(tasks) if pool.has_raiser() => {
                        pool.queued.push_back(tasks);
                        RAISER_RETURNS
                    }
                    Err(_) => return Err(Error::NotRaised),
                }
            };
            let began = Instant::now();
            match tokio::time::timeout(waits, &mut reply).await {
                Ok(Ok(reply)) => return Ok(reply),
                // The bandit was deleted.
                Ok(Err(_)) => return Err(self.deleted()),
                Err(_) => *silence += began.elapsed(),
            }
            lock(&self.pool).withdraw(task.id);
            if *silence >= 2 * PATIENCE {
                return Err(Error::NotRaised);
            }
        }
    }
}
