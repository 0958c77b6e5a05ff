//! What an encrypted bandit asks the members of its committee: transfers in the place of a raiser's answers,
//! and the openings of answers.

use super::pool::blocking;
use super::{EncryptedServed, Event};
use crate::committee::{Agreed, Committee, Errand, MOST_OWN_SETS, MOST_SETS, Share};
use crate::error::Error;
use ckks::{Ciphertext, KeyId, Params};
use ckks_shares::{ActiveSet, Forms, RequestId, RequestKind, Transfer, TransferShare};
use helba::{Check, Engine, Task};
use host::lock;
use protocol::exchange::OPENED_FORM_BITS;
use protocol::levels::ANSWER_LEVEL;
use protocol::{Exchanges, Plan, TaskKind};
use rns::{Ntt, Poly};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::{
    AnswerUser, CheckEvidence, Evidence, FeedbackCheck, MemberReply, OpenedAnswer, OpenedChecks, Question,
    RaiseEvidence, SealedShare, Wanted, check_request, read_opening, transfer_header, transfers,
};

/// The least sets without a common member whose shares of a model are out of range before its batch is
/// undone.
const UNDOING_SETS: usize = 3;
/// The pause after members have not answered a task of the bandit's own.
const PAUSE: Duration = Duration::from_secs(1);

/// What every errand of a bandit has.
pub(super) struct About {
    pub(super) engine: Arc<Engine>,
    pub(super) exchanges: Arc<Exchanges>,
    plan: Plan,
    bandit: String,
    task: u64,
}

impl About {
    pub(super) fn question(&self, attempt: u32, wanted: Wanted) -> Vec<u8> {
        Question { bandit: self.bandit.clone(), task: self.task, attempt, wanted }.to_bytes()
    }

    fn key_id(&self, params: &Params) -> KeyId {
        let deep = self.engine.deep();
        if params == deep.params() { deep.key_id() } else { self.engine.key_id() }
    }

    fn deep_frame(&self, ciphertext: &Ciphertext) -> Vec<u8> {
        let deep = self.engine.deep();
        ckks::write_ciphertext(deep.params(), deep.key_id(), ciphertext)
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The frame of c₁, which members are asked about.
    pub(super) fn c1_frame(&self, params: &Params, asked: &Ciphertext) -> Vec<u8> {
        ckks::write_polynomial(params, self.key_id(params), asked.level(), asked.c1())
    }

    pub(super) fn polynomial(
        &self,
        (params, level): (&Params, usize),
        bytes: &[u8],
    ) -> Result<Poly<Ntt>, Error> {
        Ok(ckks::read_polynomial(params, self.key_id(params), level, bytes)?)
    }
}

/// An errand whose answers are put together.
pub(super) trait Combining: Errand {
    type Combined: Send + 'static;

    /// What the answers of a set add up to.
    fn combine(&self, agreed: Agreed) -> Result<Self::Combined, Error>;
}

/// What t members answer, of at most `sets.1` sets, the first of which are `sets.0` ([`Committee::ask`]).
///
/// # Errors
/// As there.
pub(super) async fn ask<E: Combining>(
    committee: &Committee,
    errand: E,
    sets: (&mut Vec<ActiveSet>, usize),
) -> Result<E::Combined, Error> {
    let errand = Arc::new(errand);
    let combine = |agreed| {
        let errand = errand.clone();
        blocking(move || rayon::scope(|_| errand.combine(agreed)))
    };
    committee.ask(errand.clone(), sets, combine).await
}

/// A task of a holder of the key.
struct Transferred {
    about: About,
    kind: TaskKind,
    input: Ciphertext,
    evidence: Option<Arc<Evidence>>,
    /// The sets that gave shares of no message in range.
    garbage: Arc<Mutex<Vec<ActiveSet>>>,
}

/// What a transfer gave, and who made it.
struct Moved {
    ciphertexts: Vec<Ciphertext>,
    question: Vec<u8>,
    set: ActiveSet,
}

impl Transferred {
    fn maps(&self) -> Vec<Box<dyn Transfer + '_>> {
        transfers(&self.about.exchanges, self.kind)
    }

    /// The ids of the requests of its transfers.
    fn requests(&self, question: &[u8], set: ActiveSet) -> Vec<RequestId> {
        let request = |number| {
            let header = transfer_header(question, number);
            RequestId::new(RequestKind::Transfer, set, &header, Some(self.input.c1()))
        };
        (0..self.maps().len() as u8).map(request).collect()
    }
}

impl Combining for Transferred {
    type Combined = Moved;

    fn combine(&self, Agreed { question, set, shares }: Agreed) -> Result<Moved, Error> {
        let requests = self.requests(&question, set);
        let mut shares: Vec<_> = shares
            .into_iter()
            .filter_map(|share| match share {
                Share::Transfers(shares) => Some(shares.into_iter()),
                _ => None,
            })
            .collect();
        let combine = |(map, request): (&dyn Transfer, &RequestId)| {
            let own: Vec<TransferShare> = shares.iter_mut().filter_map(Iterator::next).collect();
            ckks_shares::transfer(map, set, request, &self.input, &own).map_err(|error| {
                let mut garbage = lock(&self.garbage);
                if error == ckks_shares::Error::Garbage && !garbage.contains(&set) {
                    garbage.push(set);
                }
                wire_error(error)
            })
        };
        let ciphertexts =
            self.maps().iter().map(|map| &**map).zip(&requests).map(combine).collect::<Result<_, _>>()?;
        Ok(Moved { ciphertexts, question, set })
    }
}

/// What the members of a set have signed of a check.
fn signed(Agreed { question, set, shares }: Agreed) -> OpenedChecks {
    let shares = shares.into_iter().filter_map(|share| match share {
        Share::Checks(frame, signature) => Some((frame, signature)),
        _ => None,
    });
    OpenedChecks { question, set: set.bits(), shares: shares.collect() }
}

pub(super) fn wire_error(error: ckks_shares::Error) -> Error {
    Error::Shares { why: error.to_string() }
}

impl Errand for Transferred {
    fn question(&self, attempt: u32) -> Vec<u8> {
        self.about.question(attempt, Wanted::Transfer(self.kind))
    }

    fn c1(&self) -> Vec<u8> {
        self.about.c1_frame(self.maps()[0].source().0, &self.input)
    }

    fn evidence(&self) -> Vec<u8> {
        self.evidence.as_ref().map_or(Vec::new(), |evidence| evidence.to_bytes())
    }

    fn is_over_for(&self, set: ActiveSet) -> bool {
        lock(&self.garbage).contains(&set)
    }

    fn read(
        &self,
        question: &[u8],
        set: ActiveSet,
        _member: u8,
        verifying: &[u8],
        reply: MemberReply,
    ) -> Result<Share, Error> {
        let maps = self.maps();
        let requests: Vec<_> = self.requests(question, set).iter().map(|request| *request.bytes()).collect();
        // Of each transfer its forms, and a polynomial of its target.
        let (frames, _) = reply.into_signed_frames(2 * maps.len(), verifying, &requests)?;
        let share = |(map, pair): (&dyn Transfer, &[Vec<u8>])| {
            let down = read_opening(&map.forms().map_err(wire_error)?, &pair[0])?;
            let up = self.about.polynomial(map.target(), &pair[1])?;
            Ok(TransferShare { down, up })
        };
        let shares: Result<_, Error> =
            maps.iter().map(|map| &**map).zip(frames.chunks(2)).map(share).collect();
        Ok(Share::Transfers(shares?))
    }
}

/// The answers of an evaluation.
struct Opening {
    about: About,
    model_feedbacks: u64,
    users: Vec<AnswerUser>,
    input: Ciphertext,
    evidence: Option<Arc<Evidence>>,
}

impl Opening {
    fn wanted(&self) -> Wanted {
        Wanted::Answers { model_feedbacks: self.model_feedbacks, users: self.users.clone() }
    }

    fn request(&self, question: &[u8], set: ActiveSet) -> [u8; 32] {
        *RequestId::new(RequestKind::Opening, set, question, Some(self.input.c1())).bytes()
    }

    /// The forms of all users, in the order of their decisions and arms.
    fn forms(&self) -> Result<Forms, Error> {
        let About { engine, exchanges, .. } = &self.about;
        let large = engine.deep().params().max_slots();
        let numbers = self.users.iter().flat_map(|user| &user.users);
        let slots: Vec<usize> =
            numbers.flat_map(|&number| exchanges.layout.answer_slots(number as usize, large)).collect();
        let forms = Forms::real_slots(engine.answer_params(), ANSWER_LEVEL, &slots, OPENED_FORM_BITS);
        forms.map_err(wire_error)
    }
}

impl Combining for Opening {
    /// The answer to each user.
    type Combined = Vec<Vec<u8>>;

    fn combine(&self, Agreed { question, set, shares }: Agreed) -> Result<Self::Combined, Error> {
        let request = self.request(&question, set);
        let basis = self.about.engine.answer_params().q_basis(ANSWER_LEVEL);
        let c0 = self.input.c0().clone().into_coeff(basis);
        let mut members: Vec<_> = shares
            .into_iter()
            .filter_map(|share| match share {
                Share::Answers(shares) => Some(shares.into_iter()),
                _ => None,
            })
            .collect();
        let arms = self.about.exchanges.layout.arms();
        let mut own = self.forms()?.apply(&c0).into_iter().map(|residues| residues[0]);
        let answer = |user: &AnswerUser| {
            let values = own.by_ref().take(user.users.len() * arms).collect();
            let shares: Vec<SealedShare> = members.iter_mut().filter_map(Iterator::next).collect();
            OpenedAnswer { request, set: set.bits(), values, shares }.to_bytes()
        };
        Ok(self.users.iter().map(answer).collect())
    }
}

impl Errand for Opening {
    fn question(&self, attempt: u32) -> Vec<u8> {
        self.about.question(attempt, self.wanted())
    }

    fn c1(&self) -> Vec<u8> {
        self.about.c1_frame(self.about.engine.answer_params(), &self.input)
    }

    fn evidence(&self) -> Vec<u8> {
        self.evidence.as_ref().map_or(Vec::new(), |evidence| evidence.to_bytes())
    }

    fn read(
        &self,
        question: &[u8],
        set: ActiveSet,
        member: u8,
        verifying: &[u8],
        reply: MemberReply,
    ) -> Result<Share, Error> {
        let MemberReply::Answers { shares, .. } = reply else {
            return Err(wire::Error::Malformed("an answer to another kind of question").into());
        };
        if shares.len() != self.users.len() || shares.iter().any(|share| share.member != member) {
            return Err(wire::Error::Malformed("not one share of this member for each user").into());
        }
        let (request, asked) = (self.request(question, set), Question::from_bytes(question)?);
        for (user, share) in self.users.iter().zip(&shares) {
            let binding = asked.binding(self.model_feedbacks, user);
            share.check(verifying, &binding, &request, set)?;
        }
        Ok(Share::Answers(shares))
    }
}

/// What a bandit waits for its committee for, besides evaluations.
enum Waiting {
    Task(Task),
    Check(Check),
}

/// A round of a check of feedbacks.
struct Checking {
    about: About,
    wanted: Wanted,
    evidence: CheckEvidence,
}

impl Errand for Checking {
    fn question(&self, attempt: u32) -> Vec<u8> {
        self.about.question(attempt, self.wanted.clone())
    }

    fn c1(&self) -> Vec<u8> {
        Vec::new()
    }

    fn evidence(&self) -> Vec<u8> {
        self.evidence.to_bytes()
    }

    fn read(
        &self,
        question: &[u8],
        set: ActiveSet,
        _member: u8,
        verifying: &[u8],
        reply: MemberReply,
    ) -> Result<Share, Error> {
        let requests = [check_request(question, set)];
        let (frames, signature) = reply.into_signed_frames(1, verifying, &requests)?;
        Ok(Share::Checks(frames.concat(), signature))
    }
}

impl EncryptedServed {
    pub(super) fn about(&self, task: u64) -> About {
        let (engine, exchanges) = (self.shared.engine.clone(), self.exchanges.clone());
        let plan = self.created.plan.clone();
        About { engine, exchanges, plan, bandit: self.created.id.clone(), task }
    }

    /// The raised scores of an evaluation, from the members of its committee, and the evidence with the
    /// raise.
    ///
    /// # Errors
    /// Those of [`Committee::ask`].
    pub(super) async fn raise_by_committee(
        &self,
        committee: &Committee,
        task: u64,
        kind: TaskKind,
        packed: Ciphertext,
        evidence: Option<Evidence>,
    ) -> Result<(Ciphertext, Option<Evidence>), Error> {
        let evidence = evidence.map(Arc::new);
        let about = self.about(task);
        let garbage = Arc::default();
        let asked = Transferred { about, kind, input: packed, evidence: evidence.clone(), garbage };
        let moved = ask(committee, asked, (&mut Vec::new(), MOST_SETS)).await?;
        let Moved { mut ciphertexts, question, set } = moved;
        let raised = ciphertexts.pop().ok_or(Error::Broken("a transfer without a result"))?;
        let evidence = evidence.map(|evidence| {
            let frame = self.about(task).deep_frame(&raised);
            let raise = Some(RaiseEvidence { question, set: set.bits(), frame });
            Evidence { raise, ..Arc::unwrap_or_clone(evidence) }
        });
        Ok((raised, evidence))
    }

    /// The answers of an evaluation, from the members of its committee, in the order of `users`.
    ///
    /// # Errors
    /// Those of [`Committee::ask`].
    pub(super) async fn open_answers(
        &self,
        committee: &Committee,
        task: u64,
        model_feedbacks: u64,
        users: Vec<AnswerUser>,
        (input, evidence): (Ciphertext, Option<Evidence>),
    ) -> Result<Vec<Vec<u8>>, Error> {
        // First those who raised its scores: others would count its decisions once more.
        let raised = evidence.as_ref().and_then(|evidence| evidence.raise.as_ref());
        let mut tried: Vec<_> = raised.and_then(|raise| committee.set(raise.set)).into_iter().collect();
        let evidence = evidence.map(Arc::new);
        let opening = Opening { about: self.about(task), model_feedbacks, users, input, evidence };
        ask(committee, opening, (&mut tried, MOST_SETS)).await
    }

    /// Asks the committee for the tasks of the bandit's own, one after the other, until none waits. At most
    /// one such run is under way.
    pub(super) fn ask_committee(self: &Arc<Self>, committee: Arc<Committee>) {
        let served = self.clone();
        tokio::spawn(async move {
            // A task that comes after the last look and before the permit is free is seen by this loop.
            while served.waiting_errand().is_some() {
                let Ok(_alone) = served.own_tasks.clone().try_acquire_owned() else { return };
                // The sets that were asked for a task, which are asked first when it is asked for again.
                let (mut of, mut tried, mut opened) = (0, Vec::new(), Vec::new());
                while let Some(waiting) = served.waiting_errand() {
                    let id = match &waiting {
                        Waiting::Task(task) => task.id,
                        Waiting::Check(check) => check.id,
                    };
                    if std::mem::replace(&mut of, id) != id {
                        tried.clear();
                        opened.clear();
                    }
                    let done = match (served.on_disk().await, waiting) {
                        (Err(error), _) => Err(error),
                        (Ok(()), Waiting::Task(task)) => {
                            served.answer_by_committee(&committee, task, &mut tried).await
                        }
                        (Ok(()), Waiting::Check(check)) => {
                            served.check_by_committee(&committee, check, (&mut tried, &mut opened)).await
                        }
                    };
                    if let Err(error) = done {
                        tracing::warn!(bandit = served.created.id, %error, "a task waits for members");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        });
    }

    /// Waits until the events that a task follows from are on disk.
    async fn on_disk(&self) -> Result<(), Error> {
        let written = lock(&self.live).flush()?;
        written.await?;
        Ok(())
    }

    fn waiting_errand(&self) -> Option<Waiting> {
        let live = lock(&self.live);
        if live.deleted {
            return None;
        }
        let task = live.bandit.task().map(Waiting::Task);
        task.or_else(|| live.bandit.check().map(Waiting::Check))
    }

    /// Has members check feedbacks round by round, and drops those that are out of range. A member that sends
    /// garbage makes all fail: where all do, another set is asked, three at most.
    async fn check_by_committee(
        self: &Arc<Self>,
        committee: &Arc<Committee>,
        check: Check,
        (tried, opened): (&mut Vec<ActiveSet>, &mut Vec<OpenedChecks>),
    ) -> Result<(), Error> {
        let Check { id, feedbacks } = check;
        let (served, wanted) = (self.clone(), feedbacks.clone());
        let read = blocking(move || {
            let rounds: Vec<u64> = wanted.iter().map(|(round, _)| *round).collect();
            let (mut found, engine) = (served.feedback_frames(&rounds)?, &served.shared.engine);
            let frames: Option<Vec<_>> = rounds.iter().map(|round| found.remove(round)).collect();
            let frames = frames.ok_or(Error::Broken("a feedback that is not in the log"))?;
            let ring = (engine.params(), engine.key_id());
            let check = FeedbackCheck::read(&served.exchanges, ring, &frames)?;
            Ok((frames, Arc::new(check)))
        });
        let (frames, inputs) = read.await?;
        let about = (self.created.id.clone(), id);
        let mut state = inputs.after(committee.manifest(), (&about.0, about.1), opened)?;
        while let Some(wanted) = state.next {
            let evidence = CheckEvidence { frames: frames.clone(), opened: opened.clone() };
            let errand = Arc::new(Checking { about: self.about(id), wanted, evidence });
            let sets = Arc::new(AtomicUsize::new(0));
            let combine = |agreed: Agreed| {
                let (inputs, committee, about) = (inputs.clone(), committee.clone(), about.clone());
                let (sets, mut opened) = (sets.clone(), opened.clone());
                blocking(move || {
                    opened.push(signed(agreed));
                    let state = inputs.after(committee.manifest(), (&about.0, about.1), &opened)?;
                    let none = state.passed.iter().all(|passed| !passed);
                    match none && sets.fetch_add(1, Ordering::Relaxed) + 1 < MOST_SETS {
                        true => Err(Error::Shares { why: "all feedbacks are out of range".into() }),
                        false => Ok((state, opened)),
                    }
                })
            };
            let asked = committee.ask(errand, (tried, MOST_SETS), combine).await?;
            (state, *opened) = asked;
            tried.clear();
        }
        let (served, opened) = (self.clone(), std::mem::take(opened));
        blocking(move || {
            let all = feedbacks.iter().zip(frames).zip(state.passed);
            let dropped: Vec<_> =
                all.filter(|(_, passed)| !passed).map(|(((round, _), frame), _)| (*round, frame)).collect();
            if !dropped.is_empty() {
                let rounds: Vec<u64> = dropped.iter().map(|(round, _)| *round).collect();
                tracing::warn!(bandit = served.created.id, ?rounds, "feedback out of range was dropped");
            }
            let openings = opened.iter().map(OpenedChecks::to_bytes).collect();
            served.change(&Event::Checked { task: id, dropped, openings })?;
            Ok(())
        })
        .await
    }

    /// Undoes the batch whose model is this task.
    fn undo(self: &Arc<Self>, task: u64) -> Result<(), Error> {
        self.answer_task(task, Event::Undone { task })?;
        tracing::warn!(bandit = self.created.id, "a batch was undone, of which members encrypt no model");
        Ok(())
    }

    /// Has members answer a task of the bandit's own. A batch is undone if they can encrypt no model of it:
    /// three sets or more that have no member in common gave shares of no message in range, and no other set
    /// can be asked. Where one member sends garbage, the third set is without it, and succeeds; while no
    /// such set is here, the model waits.
    async fn answer_by_committee(
        self: &Arc<Self>,
        committee: &Committee,
        task: Task,
        tried: &mut Vec<ActiveSet>,
    ) -> Result<(), Error> {
        let Task { id, kind, masked } = task;
        let (about, garbage) = (self.about(id), Arc::new(Mutex::new(Vec::new())));
        let input = Arc::unwrap_or_clone(masked);
        let asked = Transferred { about, kind, input, evidence: None, garbage: garbage.clone() };
        let served = self.clone();
        let done = match ask(committee, asked, (tried, MOST_OWN_SETS)).await {
            Ok(moved) => moved.ciphertexts,
            Err(error) => {
                let garbage = lock(&garbage).clone();
                let common = garbage.iter().fold(u16::MAX, |common, set| common & set.bits());
                let failed = matches!(error, Error::CommitteeFailed { .. });
                let overflows = failed && kind == TaskKind::Model && garbage.len() >= UNDOING_SETS;
                return match overflows && common == 0 {
                    true => blocking(move || served.undo(id)).await,
                    false => Err(error),
                };
            }
        };
        blocking(move || {
            let (about, mut done) = (served.about(id), done.into_iter());
            let mut next = || done.next().ok_or(Error::Broken("a transfer without a result"));
            let event = match kind {
                TaskKind::Model => {
                    let (model, scores) = (about.deep_frame(&next()?), next()?);
                    Event::Refreshed { task: id, deep: model, scores: served.small_frame(scores) }
                }
                TaskKind::Scores { .. } | TaskKind::Sum => {
                    Event::Raised { task: id, frame: about.deep_frame(&next()?) }
                }
            };
            served.answer_task(id, event)
        })
        .await
    }
}
