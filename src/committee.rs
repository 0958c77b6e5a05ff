//! The desk of a key committee: which members are here, what they are asked, and what they answered.
//!
//! Members come to the server, by requests that wait for something to do. What they are asked goes to t of
//! those who are here, and if one of them is silent or refuses, to another set of t. Every answer is checked
//! when it arrives: its shape, and the signature of its member.

use crate::error::Error;
use ckks_shares::{ActiveSet, Quorum, RotationShare, TransferShare};
use host::lock;
use rand::seq::SliceRandom;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{oneshot, watch};
use tokio::time::{timeout, timeout_at};
use wire::{
    CommitteeManifest, Handover, MemberReply, MemberRequest, RotationShares, SealedShare, check_busy,
    check_poll, check_refusal,
};

/// The time for which a member counts as here after its last request ended: it computes, or comes back.
const RETURNS: Duration = Duration::from_secs(3);
/// The most sets that are asked for one evaluation. A member refuses more.
pub(crate) const MOST_SETS: usize = 3;
/// The most sets that are asked for a task of a bandit's own, which waits until it is done.
pub(crate) const MOST_OWN_SETS: usize = wire::MOST_ATTEMPTS as usize;
/// The time for which a member that was silent or refused is asked only if there are too few others.
const BACKOFF: Duration = Duration::from_secs(30);
/// The time after which an unanswered request is given to another waiting request of its member.
const AGAIN: Duration = Duration::from_secs(2);
/// The time after which a member that is busy is asked again, if there are too few others.
const LATER: Duration = Duration::from_secs(1);
/// How often the same set is asked again for that.
const MOST_LATER: u32 = 8;
/// The most seconds between the clocks of a member and of this server.
const MOST_SKEW: u64 = 300;
/// The most requests of a member that wait.
const MOST_WAITING: usize = 8;

/// What one member answered.
pub(crate) enum Share {
    /// Its shares of transfers, in the order of [`wire::transfers`].
    Transfers(Vec<TransferShare>),
    /// Its sealed shares for the users of an evaluation.
    Answers(Vec<SealedShare>),
    /// The frame of its shares of checks, and its signature.
    Checks(Vec<u8>, Vec<u8>),
    /// Its shares of a rotation, and what it signed.
    Rotation(Vec<RotationShare>, RotationShares),
    /// Its signature of the keys that follow.
    Handover(Handover),
}

/// Something that t members are asked for.
pub(crate) trait Errand: Send + Sync + 'static {
    /// The bytes of the question of this attempt.
    fn question(&self, attempt: u32) -> Vec<u8>;

    /// The frame of the polynomial that it is about.
    fn c1(&self) -> Vec<u8>;

    /// The bytes of the evidence from which members compute it themselves.
    fn evidence(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Whether the set has answered with shares that are out of range. Its members would answer another
    /// attempt under other masks, and no better.
    fn is_over_for(&self, _set: ActiveSet) -> bool {
        false
    }

    /// Reads the answer of `member`, and checks its signature under `verifying`.
    fn read(
        &self,
        question: &[u8],
        set: ActiveSet,
        member: u8,
        verifying: &[u8],
        reply: MemberReply,
    ) -> Result<Share, Error>;
}

/// What a set of members answered, in the order of their numbers.
pub(crate) struct Agreed {
    pub(crate) question: Vec<u8>,
    pub(crate) set: ActiveSet,
    pub(crate) shares: Vec<Share>,
}

/// The members of a committee who are here, by their numbers.
#[derive(Serialize)]
pub(crate) struct MembersPresent {
    /// Those who wait for questions, or did until a moment ago.
    pub(crate) here: Vec<u8>,
    /// t, how many it takes.
    pub(crate) needed: u8,
    /// n, how many there are.
    pub(crate) members: u8,
}

/// The desk.
pub(crate) struct Committee {
    manifest: CommitteeManifest,
    quorum: Quorum,
    /// The time for which a task waits for t members to come.
    gathers: Duration,
    /// The time that the members of a set have for an answer.
    patience: Duration,
    desk: Mutex<Desk>,
    /// Changes when there is something new to do, or a member comes.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct Desk {
    present: BTreeMap<u8, Presence>,
    open: BTreeMap<u64, Open>,
    next: u64,
}

#[derive(Default)]
struct Presence {
    /// Its requests that wait.
    waiting: usize,
    seen: Option<Instant>,
    /// When it was last silent or refused.
    failed: Option<Instant>,
    /// When it last said that it is busy.
    busy: Option<Instant>,
    /// How many sets with it answered garbage since one with it did not.
    suspected: u32,
}

/// The shares of a set, or the member who refuses and why, or who is busy.
type Answered = Result<Vec<Share>, (u8, Option<String>)>;

/// A question that waits for answers.
struct Open {
    errand: Arc<dyn Errand>,
    question: Vec<u8>,
    set: ActiveSet,
    request: Arc<Vec<u8>>,
    /// When the members got it.
    given: BTreeMap<u8, Instant>,
    shares: BTreeMap<u8, Share>,
    done: Option<oneshot::Sender<Answered>>,
}

/// Closes a question when it is dropped.
struct Posted<'a>(&'a Committee, u64);

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        lock(&self.0.desk).open.remove(&self.1);
    }
}

/// A request of a member that waits.
struct Here<'a>(&'a Committee, u8);

impl Drop for Here<'_> {
    fn drop(&mut self) {
        if let Some(presence) = lock(&self.0.desk).present.get_mut(&self.1) {
            presence.waiting = presence.waiting.saturating_sub(1);
            presence.seen = Some(Instant::now());
        }
    }
}

impl Committee {
    /// The desk of a committee with nobody here. A task waits for t members for as long as `gathers`, and the
    /// members of a set have `patience` for an answer.
    ///
    /// # Errors
    /// [`Error::Wire`] for numbers that no committee has.
    pub(crate) fn new(
        manifest: CommitteeManifest,
        gathers: Duration,
        patience: Duration,
    ) -> Result<Self, Error> {
        let quorum = manifest.quorum()?;
        // Replies to the server before this one must not fit the requests of this one.
        let next = rand::random::<u64>() >> 1;
        let desk = Mutex::new(Desk { next, ..Desk::default() });
        Ok(Committee { manifest, quorum, gathers, patience, desk, news: watch::Sender::new(0) })
    }

    /// The set with these bits, if it has t members.
    pub(crate) fn set(&self, bits: u16) -> Option<ActiveSet> {
        self.quorum.subsets().find(|set| set.bits() == bits)
    }

    /// The members, as the manifest of the keys has them.
    pub(crate) fn manifest(&self) -> &CommitteeManifest {
        &self.manifest
    }

    /// Who is here.
    pub(crate) fn presence(&self) -> MembersPresent {
        let desk = lock(&self.desk);
        let here = desk.present.iter().filter(|(_, presence)| presence.is_here());
        let here = here.map(|(member, _)| *member).collect();
        MembersPresent { here, needed: self.quorum.threshold(), members: self.quorum.members() }
    }

    /// Checks that `member` signed its request for questions, at `time` by its clock.
    ///
    /// # Errors
    /// [`Error::UnknownMember`], [`Error::NotSigned`].
    pub(crate) fn check_poll(&self, member: u8, time: u64, signature: &[u8]) -> Result<(), Error> {
        self.check_member(member)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let verifying = &self.manifest.members[usize::from(member - 1)].verifying.0;
        let signed = check_poll(verifying, &self.manifest.session, member, time, signature).is_ok();
        match signed && now.abs_diff(time) <= MOST_SKEW {
            true => Ok(()),
            false => Err(Error::NotSigned { member }),
        }
    }

    fn check_member(&self, member: u8) -> Result<(), Error> {
        let most = self.quorum.members();
        if (1..=most).contains(&member) { Ok(()) } else { Err(Error::UnknownMember { member, most }) }
    }

    /// A request for `member`, or `None` if there was none within `wait`.
    ///
    /// # Errors
    /// [`Error::UnknownMember`]; [`Error::Overloaded`] if too many of its requests wait.
    pub(crate) async fn next(&self, member: u8, wait: Duration) -> Result<Option<Arc<Vec<u8>>>, Error> {
        self.check_member(member)?;
        let (mut news, until) = (self.news.subscribe(), tokio::time::Instant::now() + wait);
        let _here = {
            let mut desk = lock(&self.desk);
            let presence = desk.present.entry(member).or_default();
            if presence.waiting >= MOST_WAITING {
                return Err(Error::Overloaded);
            }
            presence.waiting += 1;
            presence.seen = Some(Instant::now());
            Here(self, member)
        };
        self.tell();
        loop {
            if let Some(request) = lock(&self.desk).take(member) {
                return Ok(Some(request));
            }
            // Half of the time of another round, so that what was given and not answered is given again.
            let again = tokio::time::Instant::now() + AGAIN / 2;
            if timeout_at(until.min(again), news.changed()).await.is_err() && again >= until {
                return Ok(None);
            }
        }
    }

    fn tell(&self) {
        self.news.send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Takes the answer of `member`. It computes for some milliseconds.
    ///
    /// # Errors
    /// [`Error::UnknownMember`]; [`Error::TaskOver`] if it was answered before or has ended; those of the
    /// answer, which is then refused, and the question waits on.
    pub(crate) fn answer(&self, member: u8, reply: MemberReply) -> Result<(), Error> {
        self.check_member(member)?;
        let number = reply.number();
        let over = || Error::TaskOver { task: number };
        let (errand, question, set) = {
            let desk = lock(&self.desk);
            let open = desk.open.get(&number).ok_or_else(over)?;
            if open.done.is_none() || !open.set.contains(member) || open.shares.contains_key(&member) {
                return Err(over());
            }
            (open.errand.clone(), open.question.clone(), open.set)
        };
        let verifying = &self.manifest.members[usize::from(member - 1)].verifying.0;
        let read = match reply {
            MemberReply::Refused { number, why, signature } => {
                check_refusal(verifying, number, &question, &why, &signature)?;
                Err(Some(why))
            }
            MemberReply::Busy { number, signature } => {
                check_busy(verifying, number, &question, &signature)?;
                Err(None)
            }
            reply => Ok(errand.read(&question, set, member, verifying, reply)?),
        };
        let mut desk = lock(&self.desk);
        if let Some(presence) = desk.present.get_mut(&member) {
            presence.seen = Some(Instant::now());
        }
        let open = desk.open.get_mut(&number).ok_or_else(over)?;
        match read {
            Ok(share) => {
                open.shares.insert(member, share);
                if open.shares.len() == open.set.len() {
                    let shares = std::mem::take(&mut open.shares).into_values().collect();
                    if let Some(done) = open.done.take() {
                        let _ = done.send(Ok(shares));
                    }
                }
            }
            Err(why) => {
                open.done.take().into_iter().for_each(|done| drop(done.send(Err((member, why.clone())))))
            }
        }
        Ok(())
    }

    /// Asks t members after t members, at most `most` sets, until all of a set have answered and `combine`
    /// takes their answers. `tried` are the sets that were asked for this task before, by their attempts:
    /// they are asked the same again, which their members have noted, before another set is. One that is not
    /// here any more counts as one that has failed. A set with a
    /// member that is busy is asked the same again later, if there are too few others.
    ///
    /// # Errors
    /// [`Error::MembersMissing`] if fewer than t members are here; [`Error::CommitteeFailed`] if `most` sets
    /// have failed, or the errand is over for all sets that are here.
    pub(crate) async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        errand: Arc<dyn Errand>,
        (tried, most): (&mut Vec<ActiveSet>, usize),
        combine: impl Fn(Agreed) -> F,
    ) -> Result<T, Error> {
        let (c1, evidence, until) =
            (errand.c1(), errand.evidence(), tokio::time::Instant::now() + self.gathers);
        let first = self.manifest.epoch() as u32 * wire::MOST_ATTEMPTS;
        let mut why = "their members are not here".to_string();
        let (mut attempt, mut later) = (0, 0);
        while attempt < most {
            let set = match tried.get(attempt) {
                Some(set) if self.are_here(*set) => *set,
                Some(_) => {
                    attempt += 1;
                    continue;
                }
                None => {
                    let mut set = self.choose(until).await?;
                    if errand.is_over_for(set) {
                        let Some(other) = self.other(&*errand) else { break };
                        set = other;
                    }
                    tried.push(set);
                    set
                }
            };
            let question = errand.question(first + attempt as u32);
            let (sender, receiver) = oneshot::channel();
            let posted = {
                let mut desk = lock(&self.desk);
                desk.next += 1;
                let number = desk.next;
                let request = MemberRequest {
                    number,
                    set: set.bits(),
                    question: question.clone(),
                    c1: c1.clone(),
                    evidence: evidence.clone(),
                };
                let open = Open {
                    errand: errand.clone(),
                    question: question.clone(),
                    set,
                    request: Arc::new(request.to_bytes()),
                    given: BTreeMap::new(),
                    shares: BTreeMap::new(),
                    done: Some(sender),
                };
                desk.open.insert(number, open);
                Posted(self, number)
            };
            self.tell();
            why = match timeout(self.patience, receiver).await {
                Ok(Ok(Ok(shares))) => match combine(Agreed { question, set, shares }).await {
                    Ok(done) => {
                        self.suspect(set, |_| 0);
                        return Ok(done);
                    }
                    Err(error) => {
                        self.suspect(set, |count| count.saturating_add(1));
                        format!("members {} are suspect, whose answers do not fit: {error}", listed(set))
                    }
                },
                Ok(Ok(Err((member, None)))) => {
                    lock(&self.desk).present.entry(member).or_default().busy = Some(Instant::now());
                    if later < MOST_LATER && !self.has_others() {
                        later += 1;
                        tokio::time::sleep(LATER).await;
                        continue;
                    }
                    format!("member {member} is busy")
                }
                Ok(Ok(Err((member, Some(why))))) => {
                    self.failed(&[member]);
                    format!("member {member} refuses: {why}")
                }
                _ => {
                    let silent = lock(&self.desk).silent(posted.1);
                    self.failed(&silent);
                    let names = silent.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
                    format!("members {names} were silent for {:?}", self.patience)
                }
            };
            tracing::warn!(why, attempt, "a set of members has not answered");
            attempt += 1;
        }
        Err(Error::CommitteeFailed { sets: tried.len(), why })
    }

    fn failed(&self, members: &[u8]) {
        let mut desk = lock(&self.desk);
        for member in members {
            desk.present.entry(*member).or_default().failed = Some(Instant::now());
        }
    }

    /// Changes for how many sets the members of `set` are suspected. Sets that are asked later have as few
    /// suspects as can be, so that with one member who answers garbage the third set has none.
    fn suspect(&self, set: ActiveSet, change: impl Fn(u32) -> u32) {
        let mut desk = lock(&self.desk);
        for member in set.iter() {
            let presence = desk.present.entry(member).or_default();
            presence.suspected = change(presence.suspected);
        }
    }

    /// A set of members who are here that the errand is not over for, with as few suspects as can be.
    fn other(&self, errand: &dyn Errand) -> Option<ActiveSet> {
        let left = |set: &ActiveSet| self.are_here(*set) && !errand.is_over_for(*set);
        let suspects = |set: &ActiveSet| {
            let desk = lock(&self.desk);
            set.iter().filter_map(|member| desk.present.get(&member)).map(|own| own.suspected).sum::<u32>()
        };
        self.quorum.subsets().filter(left).min_by_key(suspects)
    }

    /// Whether all members of a set are here.
    fn are_here(&self, set: ActiveSet) -> bool {
        let desk = lock(&self.desk);
        set.iter().all(|member| desk.present.get(&member).is_some_and(Presence::is_here))
    }

    /// Whether t members are here who have not failed and are not busy.
    fn has_others(&self) -> bool {
        let desk = lock(&self.desk);
        let fit = |presence: &&Presence| presence.is_here() && !presence.is_busy() && !presence.has_failed();
        desk.present.values().filter(fit).count() >= usize::from(self.quorum.threshold())
    }

    /// t of the members who are here at `until` or before: those who wait first, those who are busy or have
    /// failed after them, and those who are suspect last.
    async fn choose(&self, until: tokio::time::Instant) -> Result<ActiveSet, Error> {
        let (mut news, t) = (self.news.subscribe(), usize::from(self.quorum.threshold()));
        loop {
            let mut here: Vec<([u32; 4], u8)> = {
                let desk = lock(&self.desk);
                let here = desk.present.iter().filter(|(_, presence)| presence.is_here());
                here.map(|(member, presence)| (presence.rank(), *member)).collect()
            };
            // The work is spread over all members.
            here.shuffle(&mut rand::rng());
            here.sort_by_key(|(rank, _)| *rank);
            if here.len() >= t {
                let chosen: Vec<u8> = here[..t].iter().map(|(_, member)| *member).collect();
                return self.quorum.active(&chosen).map_err(|e| Error::Shares { why: e.to_string() });
            }
            if timeout_at(until, news.changed()).await.is_err() {
                let MembersPresent { here, needed, .. } = self.presence();
                return Err(Error::MembersMissing { here: here.len(), want: needed });
            }
        }
    }
}

fn listed(set: ActiveSet) -> String {
    set.iter().map(|member| member.to_string()).collect::<Vec<_>>().join(", ")
}

impl Presence {
    fn is_here(&self) -> bool {
        self.waiting > 0 || self.seen.is_some_and(|seen| seen.elapsed() < RETURNS)
    }

    fn has_failed(&self) -> bool {
        self.failed.is_some_and(|failed| failed.elapsed() < BACKOFF)
    }

    fn is_busy(&self) -> bool {
        self.busy.is_some_and(|busy| busy.elapsed() < LATER)
    }

    /// Members of a lower rank are asked first.
    fn rank(&self) -> [u32; 4] {
        let rest = [self.has_failed(), self.is_busy(), self.waiting == 0].map(u32::from);
        [self.suspected, rest[0], rest[1], rest[2]]
    }
}

impl Desk {
    /// The first question that `member` has not got, or got a while ago and has not answered.
    fn take(&mut self, member: u8) -> Option<Arc<Vec<u8>>> {
        let asked = |open: &&mut Open| {
            let given = open.given.get(&member).is_some_and(|given| given.elapsed() < AGAIN);
            open.done.is_some() && open.set.contains(member) && !open.shares.contains_key(&member) && !given
        };
        let open = self.open.values_mut().find(asked)?;
        open.given.insert(member, Instant::now());
        Some(open.request.clone())
    }

    /// The members who have not answered a question.
    fn silent(&self, number: u64) -> Vec<u8> {
        let Some(open) = self.open.get(&number) else { return Vec::new() };
        let answered: BTreeSet<u8> = open.shares.keys().copied().collect();
        open.set.iter().filter(|member| !answered.contains(member)).collect()
    }
}
