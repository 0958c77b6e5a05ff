//! Decisions of a pack: what a member accepts of it, and what it shows.

use super::{Agreed, MOST_RUNS, MOST_TRIES, Member, Memory, Running, Showing, refused};
use crate::decide::{Inputs, decide};
use crate::learn::State;
use crate::scalars::Decide;
use crate::{Conversation, Error, Lane, MemberKeys, Part, Run, Slot};
use bandit::LinearConfig;
use shares::talk::{Decided, FromMember, MOST_TOGETHER, Pack, Played, RunId, decision_label, to_bytes};
use shares::{AnswerPlace, Field, MemberSession, Nonce, Record, Request, SessionId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use zeroize::Zeroizing;

/// What has agreed on step 0, and what is computed then.
pub(super) struct Deciding {
    pack: Pack,
    refused: Vec<u32>,
    requests: Vec<Request>,
    sessions: Vec<Option<Arc<MemberSession>>>,
    /// Of each request that is not refused the member's shares.
    rows: Vec<Option<Zeroizing<Vec<Vec<Field>>>>>,
    slots: Vec<Slot>,
    state: Arc<Zeroizing<State<Field>>>,
    scalars: Arc<Decide>,
    config: LinearConfig,
    /// The most decisions of a session between two batches.
    most: u16,
    /// The places that are computed.
    places: Vec<u32>,
    showing: Option<Showing<(Field, Record)>>,
}

impl<M: Memory> Member<M> {
    pub(super) fn pack(&mut self, pack: Pack) -> Result<Vec<FromMember>, Error> {
        let run = pack.run(&self.committee);
        self.stays()?;
        self.check_here(&pack.here)?;
        let count = pack.requests.len();
        if !(1..=MOST_TOGETHER).contains(&count) || pack.slots.len() != count || self.runs.len() >= MOST_RUNS
        {
            return refused("a pack has as many slots as requests, and at most 1024 of them");
        }
        let sharing = self.secrets.keys.sharing().clone();
        let members = sharing.threshold().members();
        let bandit = self.bandits.get(&pack.bandit).ok_or(Error::Refused("the bandit is not known"))?;
        let current = bandit.current.as_ref().filter(|current| current.hash == pack.checkpoint);
        let current = current.ok_or(Error::Refused("the member has another checkpoint of the bandit"))?;
        self.check_arrived(bandit, current)?;
        if !self.has_slots(&pack.slots, current.scalars.circuit(), &pack.here) {
            return Err(Error::Slot);
        }
        let (state, scalars) = (current.state.clone(), current.scalars.clone());
        let (config, rules, pads) = (bandit.config, bandit.definition.rules, bandit.pads);
        // Which requests the member computes.
        let mut requests = Vec::with_capacity(count);
        let (mut sessions, mut rows, mut refused) = (vec![], vec![], vec![]);
        let mut fresh: HashMap<SessionId, HashSet<Nonce>> = HashMap::new();
        for (at, bytes) in pack.requests.iter().enumerate() {
            let request = Request::from_bytes(bytes, members)?;
            let (id, nonce) = (request.session, request.nonce);
            let session = self.sessions.get(&id).cloned();
            let (before, here) = (bandit.decisions.get(&id), fresh.entry(id).or_default());
            let tries = before.and_then(|before| before.get(&nonce));
            let count = here.len() + before.map_or(0, HashMap::len);
            let again = tries.map_or(count < rules.decisions.into(), |tries| *tries < MOST_TRIES);
            let may = again && !here.contains(&nonce);
            let shares = session
                .as_ref()
                .filter(|_| may)
                .and_then(|session| session.request(&sharing, &pack.bandit, pads, config.k, &request).ok());
            match &shares {
                Some(_) => drop(here.insert(nonce)),
                None => refused.push(at as u32),
            }
            sessions.push(session);
            rows.push(shares.map(Zeroizing::new));
            requests.push(request);
        }
        let slots: Vec<Slot> = pack.slots.iter().map(|at| self.slot(at)).collect::<Result<_, _>>()?;
        if let Some(bandit) = self.bandits.get_mut(&pack.bandit) {
            for (id, nonces) in fresh {
                let decisions = bandit.decisions.entry(id).or_default();
                nonces.into_iter().for_each(|nonce| *decisions.entry(nonce).or_default() += 1);
            }
        }
        let body = self.agree(&run, &refused)?;
        let deciding = Deciding {
            pack,
            refused,
            requests,
            sessions,
            rows,
            slots,
            state,
            scalars,
            config,
            most: rules.decisions,
            places: vec![],
            showing: None,
        };
        self.runs.insert(run, Running::Deciding(Box::new(deciding)));
        Ok(vec![FromMember::Say { run, step: 0, body }])
    }

    pub(super) fn hear_deciding(
        &mut self,
        run: RunId,
        step: u32,
        mut deciding: Box<Deciding>,
        said: &[(u8, Vec<u8>)],
    ) -> Result<Vec<FromMember>, Error> {
        let keys = self.secrets.keys.clone();
        let ended = match &mut deciding.showing {
            Some(showing) if showing.step == step => showing.hear(&keys, run, said)?,
            None if step == 0 => {
                let agreed = self.agreed(&run, &deciding.pack.here, &deciding.refused, said)?;
                deciding.begin(&keys, run, &agreed, self.needed())?
            }
            _ => return refused("the run is not at this step"),
        };
        match (&deciding.showing, ended) {
            (Some(showing), false) => {
                let say = showing.say(&keys, run);
                self.runs.insert(run, Running::Deciding(deciding));
                Ok(vec![say])
            }
            _ => {
                let decisions = deciding.end(&keys, run);
                Ok(vec![FromMember::Decided { run, decisions }])
            }
        }
    }
}

impl Deciding {
    /// Begins with those requests that enough members accept. Whether nothing is left to compute.
    fn begin(
        &mut self,
        keys: &Arc<MemberKeys>,
        run: RunId,
        agreed: &[Agreed],
        needed: usize,
    ) -> Result<bool, Error> {
        let here: Vec<u8> = agreed.iter().map(|agreed| agreed.member).collect();
        let mut parts = vec![];
        let (rows, slots) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.slots));
        for (at, (slot, rows)) in slots.into_iter().zip(rows).enumerate() {
            let accepts = |agreed: &Agreed| (!agreed.refused.contains(&(at as u32))).then_some(agreed.member);
            let members: Vec<u8> = agreed.iter().filter_map(accepts).collect();
            if members.len() < needed {
                continue;
            }
            self.places.push(at as u32);
            let zeros = || vec![vec![Field::ZERO; self.config.d + 3]; self.config.k];
            let inputs = Inputs {
                inverse: self.state.scaled.clone(),
                estimate: self.state.estimate.clone(),
                rows: rows.map_or_else(zeros, |mut rows| std::mem::take(&mut *rows)),
            };
            let scalars = self.scalars.with_order(&self.config, self.pack.round.wrapping_add(at as u64));
            let keys = keys.clone();
            let computation = Conversation::new(move |port| async move {
                let mut lane = Lane::new(&keys, slot, scalars.circuit(), port)?;
                let decided = decide(&mut lane, &scalars, inputs).await?;
                Ok((decided.arm, lane.into_record()))
            });
            parts.push(Part { computation, members });
        }
        if parts.is_empty() {
            return Ok(true);
        }
        let what: Vec<(u8, &[u32])> =
            agreed.iter().map(|agreed| (agreed.member, &agreed.refused[..])).collect();
        let mut begun = Run::new(keys, &here, &to_bytes(&(run, what))?, parts)?;
        let numbers = begun.start();
        self.showing = Some(Showing { run: begun, step: 1, numbers });
        Ok(false)
    }

    /// What the member tells of each decision.
    fn end(self: Box<Self>, keys: &MemberKeys, run: RunId) -> Vec<Result<Decided, String>> {
        let few = || {
            Err(format!(
                "too few members accept it, which is so once the session has made {} decisions (--decisions) since a batch of the \
                 bandit was learnt, or asks with a request of before",
                self.most
            ))
        };
        let mut decisions: Vec<Result<Decided, String>> = self.requests.iter().map(|_| few()).collect();
        let Some(showing) = self.showing else { return decisions };
        let liars = showing.run.liars().to_vec();
        for (place, result) in self.places.iter().zip(showing.run.into_results()) {
            let at = *place as usize;
            let decided = result.unwrap_or(Err(Error::Message)).map(|(arm, row)| {
                let request = &self.requests[at];
                let label = decision_label(&run, *place, &request.nonce);
                let (bandit, session) = (self.pack.bandit, request.session);
                let played = Played { bandit, session, label, row };
                let (position, nonce) = (*place, request.nonce);
                let place = AnswerPlace { bandit: bandit.to_vec(), run, position, nonce };
                let accepted = !self.refused.contains(&position);
                let session = self.sessions[at].as_ref().filter(|_| accepted);
                let answer = session.map(|session| session.answer(keys.sharing(), &place, arm));
                let tags = keys.tags(&played.hash());
                Decided { answer, row: played.row, tags, liars: liars.clone() }
            });
            decisions[at] = decided.map_err(|error| error.to_string());
        }
        decisions
    }
}
