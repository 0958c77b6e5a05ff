//! What an encrypted bandit asks the members of its committee: transfers in the place of a raiser's answers,
//! and the openings of answers.

use super::pool::blocking;
use super::{EncryptedServed, Event};
use crate::committee::{Agreed, Committee, Errand, MOST_OWN_SETS, MOST_SETS, Share};
use crate::error::Error;
use ckks::{Ciphertext, KeyId, Params};
use ckks_shares::{ActiveSet, Forms, RequestId, RequestKind, Transfer, TransferShare};
use helba::{Engine, Task};
use host::lock;
use protocol::exchange::OPENED_FORM_BITS;
use protocol::levels::ANSWER_LEVEL;
use protocol::{Exchanges, TaskKind};
use rns::{Ntt, Poly};
use std::sync::Arc;
use std::time::Duration;
use wire::{
    AnswerUser, Evidence, MemberReply, OpenedAnswer, Question, RaiseEvidence, SealedShare, Wanted,
    check_transfer, transfer_header, transfers,
};

/// The pause after members have not answered a task of the bandit's own.
const PAUSE: Duration = Duration::from_secs(1);

/// What every errand of a bandit has.
struct About {
    engine: Arc<Engine>,
    exchanges: Arc<Exchanges>,
    bandit: String,
    task: u64,
}

impl About {
    fn question(&self, attempt: u32, wanted: Wanted) -> Vec<u8> {
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

    fn polynomial(&self, (params, level): (&Params, usize), bytes: &[u8]) -> Result<Poly<Ntt>, Error> {
        Ok(ckks::read_polynomial(params, self.key_id(params), level, bytes)?)
    }
}

/// A task of a holder of the key.
struct Transferred {
    about: About,
    kind: TaskKind,
    input: Ciphertext,
    evidence: Option<Arc<Evidence>>,
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

    /// The ciphertexts that the answers of a set add up to.
    fn combine(&self, Agreed { question, set, shares }: Agreed) -> Result<Moved, Error> {
        let requests = self.requests(&question, set);
        let mut shares: Vec<_> = shares
            .into_iter()
            .filter_map(|share| match share {
                Share::Transfers(shares) => Some(shares.into_iter()),
                Share::Answers(_) => None,
            })
            .collect();
        let combine = |(map, request): (&dyn Transfer, &RequestId)| {
            let own: Vec<TransferShare> = shares.iter_mut().filter_map(Iterator::next).collect();
            ckks_shares::transfer(map, set, request, &self.input, &own).map_err(wire_error)
        };
        let ciphertexts =
            self.maps().iter().map(|map| &**map).zip(&requests).map(combine).collect::<Result<_, _>>()?;
        Ok(Moved { ciphertexts, question, set })
    }
}

fn wire_error(error: ckks_shares::Error) -> Error {
    Error::Shares { why: error.to_string() }
}

impl Errand for Transferred {
    fn question(&self, attempt: u32) -> Vec<u8> {
        self.about.question(attempt, Wanted::Transfer(self.kind))
    }

    fn c1(&self) -> Vec<u8> {
        let maps = self.maps();
        let (params, level) = maps[0].source();
        ckks::write_polynomial(params, self.about.key_id(params), level, self.input.c1())
    }

    fn evidence(&self) -> Vec<u8> {
        self.evidence.as_ref().map_or(Vec::new(), |evidence| evidence.to_bytes())
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
        let MemberReply::Transfer { frames, signature, .. } = reply else {
            return Err(wire::Error::Malformed("an answer to another kind of question").into());
        };
        if frames.len() != 2 * maps.len() {
            return Err(wire::Error::Malformed("not two frames for each transfer").into());
        }
        let requests: Vec<_> = self.requests(question, set).iter().map(|request| *request.bytes()).collect();
        check_transfer(verifying, &requests, &frames, &signature)?;
        let share = |(map, pair): (&dyn Transfer, &[Vec<u8>])| {
            let down = self.about.polynomial(map.source(), &pair[0])?;
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

    /// The answer to each user.
    fn combine(&self, Agreed { question, set, shares }: Agreed) -> Result<Vec<Vec<u8>>, Error> {
        let request = self.request(&question, set);
        let basis = self.about.engine.answer_params().q_basis(ANSWER_LEVEL);
        let c0 = self.input.c0().clone().into_coeff(basis);
        let mut members: Vec<_> = shares
            .into_iter()
            .filter_map(|share| match share {
                Share::Answers(shares) => Some(shares.into_iter()),
                Share::Transfers(_) => None,
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
        let params = self.about.engine.answer_params();
        ckks::write_polynomial(params, self.about.engine.key_id(), ANSWER_LEVEL, self.input.c1())
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

impl EncryptedServed {
    fn about(&self, task: u64) -> About {
        let (engine, exchanges) = (self.shared.engine.clone(), self.exchanges.clone());
        About { engine, exchanges, bandit: self.created.id.clone(), task }
    }

    async fn transfer(
        &self,
        committee: &Committee,
        transferred: Transferred,
        sets: (&mut Vec<ActiveSet>, usize),
    ) -> Result<Moved, Error> {
        let errand = Arc::new(transferred);
        let combine = |agreed| {
            let errand = errand.clone();
            blocking(move || rayon::scope(|_| errand.combine(agreed)))
        };
        committee.ask(errand.clone(), sets, combine).await
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
        let asked = Transferred { about, kind, input: packed, evidence: evidence.clone() };
        let moved = self.transfer(committee, asked, (&mut Vec::new(), MOST_SETS)).await?;
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
        let evidence = evidence.map(Arc::new);
        let errand = Arc::new(Opening { about: self.about(task), model_feedbacks, users, input, evidence });
        let combine = |agreed| {
            let errand = errand.clone();
            blocking(move || rayon::scope(|_| errand.combine(agreed)))
        };
        committee.ask(errand.clone(), (&mut Vec::new(), MOST_SETS), combine).await
    }

    /// Asks the committee for the tasks of the bandit's own, one after the other, until none waits. At most
    /// one such run is under way.
    pub(super) fn ask_committee(self: &Arc<Self>, committee: Arc<Committee>) {
        let served = self.clone();
        tokio::spawn(async move {
            // A task that comes after the last look and before the permit is free is seen by this loop.
            while served.waiting_task().is_some() {
                let Ok(_alone) = served.own_tasks.clone().try_acquire_owned() else { return };
                // The sets that were asked for a task, which are asked first when it is asked for again.
                let (mut of, mut tried) = (0, Vec::new());
                while let Some(task) = served.waiting_task() {
                    if std::mem::replace(&mut of, task.id) != task.id {
                        tried.clear();
                    }
                    if let Err(error) = served.answer_by_committee(&committee, task, &mut tried).await {
                        tracing::warn!(bandit = served.created.id, %error, "a task waits for members");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        });
    }

    fn waiting_task(&self) -> Option<Task> {
        let live = lock(&self.live);
        if live.deleted { None } else { live.bandit.task() }
    }

    async fn answer_by_committee(
        self: &Arc<Self>,
        committee: &Committee,
        task: Task,
        tried: &mut Vec<ActiveSet>,
    ) -> Result<(), Error> {
        let Task { id, kind, masked } = task;
        let sets = (tried, MOST_OWN_SETS);
        let asked =
            Transferred { about: self.about(id), kind, input: Arc::unwrap_or_clone(masked), evidence: None };
        let done = self.transfer(committee, asked, sets).await?.ciphertexts;
        let served = self.clone();
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
