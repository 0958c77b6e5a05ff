//! What a server and the members of a committee say to each other.
//!
//! The server is a switchboard: it begins runs, hands on what members say, and adds up what they prepare. A
//! run is known by the hash of all that it is about, so that members who were shown different things take
//! part in different runs.

use crate::moves::{Dealing, Roll, Take};
use crate::{Answer, Error, Field, Label, Nonce, Record, Session, SessionId, SignedManifest};
use serde::{Deserialize, Serialize};

/// The hash of all that a run is about.
pub type RunId = [u8; 32];
/// The hash of the definition of a bandit.
pub type BanditId = [u8; 32];

/// What receipts of sessions are signed for.
pub const RECEIPT: &str = "helba 2026-11-27 receipt of a session";
/// What members sign in step 0 of a run.
pub const AGREED: &str = "helba 2026-11-27 step 0 of a run";
/// What votes for a checkpoint are signed for.
pub const VOTE: &str = "helba 2026-11-27 vote for a checkpoint";
/// What commits to a checkpoint are signed for.
pub const COMMIT: &str = "helba 2026-11-27 commit to a checkpoint";
/// What members sign for one that was put back: what they remember.
pub const REMEMBERED: &str = "helba 2026-11-28 what a member remembers";
/// The most decisions of a pack.
pub const MOST_TOGETHER: usize = 1024;
/// The most feedbacks that one update erases.
pub const MOST_ERASED: usize = 16;

/// The most products of the slots for decisions that are prepared together.
pub const MOST_PRODUCTS: u64 = 1 << 23;

/// About how many products a decision takes, with those of its comparisons.
pub fn products_of_a_decision(features: usize, arms: usize) -> u64 {
    let (d, arms) = (features as u64, arms as u64);
    arms.saturating_mul(d.saturating_mul(d).saturating_add(256))
}

/// The most bytes of one message between a server and a member.
pub const MOST_BYTES: usize = 64 << 20;

pub(crate) fn hash(context: &'static str, of: &impl Serialize) -> [u8; 32] {
    // Serialising plain data into memory does not fail; a failure would give one hash to all, and members
    // would refuse what does not fit it.
    let bytes = postcard::to_stdvec(of).unwrap_or_default();
    let mut hasher = blake3::Hasher::new_derive_key(context);
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(&bytes);
    *hasher.finalize().as_bytes()
}

/// A bandit of a committee, as it was created. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// d.
    pub features: u16,
    /// K.
    pub arms: u16,
    /// The linear bandit, JSON of its configuration.
    pub config: String,
    /// What members hold the server to.
    pub rules: Rules,
    /// Whether arms are counted, and how many feedbacks members open together.
    pub counters: Option<Counters>,
    /// The least and the largest reward, in units of 2⁻¹⁶: its devices send no other. None for −1 to 1, to
    /// which members hold devices.
    pub rewards: Option<[i32; 2]>,
    /// The committee that it was created with. Another one takes it over with its model, and never begins
    /// it anew.
    pub founder: [u8; 32],
    /// Drawn for this bandit.
    pub nonce: [u8; 16],
}

/// What bounds how much decisions tell of one person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The least number of sessions whose feedback a batch has: none of them has more than twice its part of
    /// that. 1 is no bound.
    pub sessions: u16,
    /// The most decisions of a session between two batches that are learnt.
    pub decisions: u16,
}

impl Rules {
    /// The most sessions of a batch, as many as feedbacks.
    pub const MOST_SESSIONS: u16 = 4096;

    /// The most feedbacks of one session in a batch of so many.
    pub fn most_of_a_session(self, batch: u64) -> u64 {
        if self.sessions > 1 { batch.saturating_mul(2) / u64::from(self.sessions) } else { batch }
    }
}

/// The groups of feedback whose counters are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// The fewest feedbacks that are added between two openings.
    pub every: u32,
}

impl Counters {
    /// The fewest feedbacks of a group.
    pub const LEAST: u32 = 10;
    /// The most.
    pub const MOST: u32 = 1_000_000;
    /// The most features and arms together, so that what ten members say of a batch of 4096 feedbacks fits a
    /// message ([`MOST_BYTES`]).
    pub const MOST_NUMBERS: u32 = 98;
}

impl Definition {
    /// The bandit's id with this committee.
    pub fn id(&self, committee: &[u8; 32]) -> BanditId {
        hash("helba 2026-11-28 bandit of a committee", &(committee, self))
    }

    /// How many arms are counted: K, or none.
    pub fn counted(&self) -> usize {
        if self.counters.is_some() { self.arms.into() } else { 0 }
    }

    /// Whether a group has from [`Counters::LEAST`] to [`Counters::MOST`] feedbacks, and as many as a batch
    /// has sessions, and the rows that are kept at most [`Counters::MOST_NUMBERS`] numbers.
    pub fn has_sizable_groups(&self) -> bool {
        let least = Counters::LEAST.max(self.rules.sessions.into());
        let numbers = u32::from(self.features) + u32::from(self.arms);
        let fits = |counters: Counters| (least..=Counters::MOST).contains(&counters.every);
        self.counters.is_none_or(|counters| fits(counters) && numbers <= Counters::MOST_NUMBERS)
    }
}

/// What slots are prepared for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Decisions with a model of at most so many feedbacks.
    Decide {
        /// t_j.
        feedbacks: u64,
    },
    /// An update.
    Learn {
        /// The feedbacks of the checkpoint.
        feedbacks: u64,
        /// Its residual.
        residual: u64,
        /// The feedbacks that come.
        added: u32,
        /// The feedbacks that go.
        erased: u32,
        /// Whether the counters of the checkpoint are opened.
        opens: bool,
    },
}

/// Slots that a set of members prepares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    /// The bandit.
    pub bandit: BanditId,
    /// What for.
    pub purpose: Purpose,
    /// The members, and what each has drawn at its start.
    pub set: Vec<(u8, [u8; 32])>,
    /// Above the numbers of all batches that these members have prepared.
    pub number: u64,
    /// How many.
    pub slots: u32,
}

/// A slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotAt {
    /// Its batch.
    pub batch: Label,
    /// Its place there.
    pub number: u32,
}

/// Decisions that are computed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pack {
    /// The bandit.
    pub bandit: BanditId,
    /// The hash of its checkpoint.
    pub checkpoint: [u8; 32],
    /// The number of the first decision.
    pub round: u64,
    /// The members who compute.
    pub here: Vec<u8>,
    /// What devices have sent.
    pub requests: Vec<Vec<u8>>,
    /// A slot for each.
    pub slots: Vec<SlotAt>,
}

impl Prepare {
    /// How a refusal names it: its run is known to members alone.
    pub fn asked(number: u64) -> RunId {
        let mut run = [0; 32];
        run[..8].copy_from_slice(&number.to_le_bytes());
        run
    }
}

impl Pack {
    /// The run.
    pub fn run(&self, committee: &[u8; 32]) -> RunId {
        hash("helba 2026-11-27 pack of a committee", &(committee, self))
    }
}

/// The label of the decision at a place of a pack, for the request with this nonce: feedback and erasure name
/// the decision by it. Other devices of the pack know its run, and without the nonce they cannot name it.
pub fn decision_label(run: &RunId, position: u32, nonce: &Nonce) -> [u8; 32] {
    hash("helba 2026-11-29 decision of a committee", &(run, position, nonce))
}

/// The row that a decision has played, and then its arm where arms are counted, as 1 among K numbers that are
/// 0 else: members keep it under masks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Played {
    /// The bandit.
    pub bandit: BanditId,
    /// Whose decision it was.
    pub session: SessionId,
    /// The decision.
    pub label: [u8; 32],
    /// The row.
    pub row: Record,
}

impl Played {
    /// What tags of it are for.
    pub fn hash(&self) -> [u8; 32] {
        hash("helba 2026-11-27 row that was played", self)
    }
}

/// Tags by which members know what they have certified: for each subset those that its members gave. A
/// member asks for one that is right in each of its subsets, one of which has no hostile member.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tags(pub Vec<Vec<[u8; crate::MAC_BYTES]>>);

impl Tags {
    /// Adds the tags of a member, by the places of its subsets: one for each of them, so that no member takes
    /// the places of others. Each subset has at most as many as there are members.
    pub fn add(&mut self, subsets: usize, members: usize, of: &[(u8, [u8; crate::MAC_BYTES])]) {
        self.0.resize(subsets, Vec::new());
        let mut seen = vec![false; subsets];
        for (at, tag) in of {
            let at = usize::from(*at);
            if let (Some(tags), Some(seen)) = (self.0.get_mut(at), seen.get_mut(at))
                && !std::mem::replace(seen, true)
                && tags.len() < members
                && !tags.contains(tag)
            {
                tags.push(*tag);
            }
        }
    }
}

/// A feedback that is counted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// The row.
    pub played: Played,
    /// Its tags.
    pub tags: Tags,
    /// What the device has sent.
    pub feedback: Vec<u8>,
}

/// Where the reward of a feedback is that was counted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learnt {
    /// The batch of the slot of the update.
    pub batch: Label,
    /// The slot.
    pub slot: u32,
    /// The place of the number in its record.
    pub place: u32,
    /// The number, under its mask.
    pub reward: Field,
}

impl Learnt {
    /// Where the reward of the feedback at a place of an update is, which has `added` of them: rewards are
    /// the last numbers of its record.
    pub fn of(model: &Record, added: usize, at: usize) -> Option<Self> {
        let place = model.numbers.len().checked_sub(added)? + at;
        let reward = *model.numbers.get(place)?;
        Some(Learnt { batch: model.batch, slot: model.slot, place: place as u32, reward })
    }

    /// The value of a decision's leaf.
    pub fn hash(&self) -> [u8; 32] {
        hash("helba 2026-11-27 reward that was learnt", self)
    }
}

/// A feedback that goes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erased {
    /// The row.
    pub played: Played,
    /// Its tags.
    pub tags: Tags,
    /// The reward.
    pub learnt: Learnt,
    /// What the device has sent ([`crate::SessionSecret::erasure`]): nobody else has its feedback erased.
    pub request: Vec<u8>,
}

/// An update of a model.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// The bandit.
    pub bandit: BanditId,
    /// The hash of its checkpoint.
    pub checkpoint: [u8; 32],
    /// Rises with each try to follow this checkpoint.
    pub ballot: u32,
    /// The members who compute.
    pub here: Vec<u8>,
    /// What comes.
    pub added: Vec<Added>,
    /// What goes.
    pub erased: Vec<Erased>,
    /// What shows the states of all these decisions.
    pub paths: Vec<u8>,
    /// The slot.
    pub slot: SlotAt,
}

impl Update {
    /// The run.
    pub fn run(&self, committee: &[u8; 32]) -> RunId {
        hash("helba 2026-11-27 update of a committee", &(committee, self))
    }
}

/// The state of a bandit, which members have agreed on: all of it is public.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The bandit.
    pub bandit: BanditId,
    /// The number of updates.
    pub number: u64,
    /// The hash of the checkpoint before; zeros at the beginning.
    pub previous: [u8; 32],
    /// Whether the one before is one of the committee before.
    pub taken: bool,
    /// The model, under masks, and the rewards of the batch; none at the beginning.
    pub model: Option<Record>,
    /// The feedbacks in it.
    pub feedbacks: u64,
    /// How far the inverse may be off, in units of 2⁻⁴⁰.
    pub residual: u64,
    /// The root of the states of decisions.
    pub root: [u8; 32],
    /// At most as many as the feedbacks that were added since counters were opened last and are not erased:
    /// each erasure takes one off, whichever feedback it is of.
    pub grouped: u64,
    /// What was opened last, by arm; nothing before that.
    pub opened: Vec<Counted>,
}

/// The counters of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// How often it was played.
    pub pulls: i64,
    /// The sum of its rewards, in units of 2⁻¹⁶.
    pub rewards: i64,
}

impl Counted {
    /// The counters of arms, from their pulls and then their rewards as members have opened them. None if one
    /// is larger than feedbacks can make it.
    pub fn of(opened: &[Field]) -> Option<Vec<Self>> {
        let (pulls, rewards) = opened.split_at(opened.len() / 2);
        let number = |number: &Field| i64::try_from(number.signed()).ok();
        let of = |(pulls, rewards)| Some(Counted { pulls: number(pulls)?, rewards: number(rewards)? });
        pulls.iter().zip(rewards).map(of).collect()
    }
}

impl Checkpoint {
    /// Whether the next update opens the counters of this one, whatever else it does: they are those of whole
    /// groups, and the same in each try.
    pub fn opens(&self, definition: &Definition) -> bool {
        definition.counters.is_some_and(|counters| self.grouped >= counters.every.into())
    }

    /// The state of a bandit that has learnt nothing, which everybody knows.
    pub fn first(bandit: BanditId) -> Self {
        Checkpoint {
            bandit,
            number: 0,
            previous: [0; 32],
            taken: false,
            model: None,
            feedbacks: 0,
            residual: 0,
            root: [0; 32],
            grouped: 0,
            opened: vec![],
        }
    }

    /// Its hash.
    pub fn hash(&self) -> [u8; 32] {
        hash("helba 2026-11-28 checkpoint of a committee", self)
    }
}

/// That a member has computed a checkpoint, or that it has seen 2t − 1 who have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// The bandit.
    pub bandit: BanditId,
    /// The number of the checkpoint.
    pub number: u64,
    /// The try.
    pub ballot: u32,
    /// The hash of the checkpoint.
    pub hash: [u8; 32],
}

impl Ballot {
    /// What is signed.
    pub fn bytes(&self) -> [u8; 32] {
        hash("helba 2026-11-27 ballot of a committee", self)
    }
}

/// Signatures of members, by their numbers.
pub type Signatures = Vec<(u8, Vec<u8>)>;

/// What a member remembers of a bandit, for one that was put back from a backup or has lost its disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Its last checkpoint, with who has committed to it; none at the beginning.
    pub checkpoint: Option<(Ballot, Signatures)>,
    /// Its last vote.
    pub vote: Option<Ballot>,
    /// To what it has committed since.
    pub lock: Option<Ballot>,
}

impl Remembered {
    /// What is signed, for the member that has drawn this nonce at its start.
    pub fn signed(&self, committee: &[u8; 32], bandit: &BanditId, nonce: &[u8; 32]) -> [u8; 32] {
        hash("helba 2026-11-28 what a member remembers of a bandit", &(committee, bandit, nonce, self))
    }
}

/// What a server tells a member, in an order that the server counts.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum ToMember {
    /// The server has started, or the member has: what it was told before is gone.
    Begin,
    /// A session of a device.
    Session(Session),
    /// A bandit.
    Bandit(Definition),
    /// Slots are to be prepared.
    Prepare(Prepare),
    /// Decisions are to be computed.
    Pack(Pack),
    /// An update is to be computed.
    Update(Box<Update>),
    /// What others have said in a step of a run. Who is not among them is left out.
    Heard {
        /// The run.
        run: RunId,
        /// The step.
        step: u32,
        /// By member.
        said: Vec<(u8, Vec<u8>)>,
    },
    /// What members have prepared, added up.
    Sums {
        /// The run.
        run: RunId,
        /// The step.
        step: u32,
        /// The sums.
        sums: Vec<Field>,
    },
    /// Votes for a checkpoint.
    Votes(Ballot, Signatures),
    /// A checkpoint on which members have agreed.
    Checkpoint(Box<Checkpoint>, Ballot, Signatures),
    /// The server gives up a run.
    End {
        /// The run.
        run: RunId,
    },
    /// The server gives up slots.
    Drop {
        /// Their batch.
        batch: Label,
    },
    /// A member that was put back asks for what others remember.
    Remember {
        /// The bandit.
        bandit: BanditId,
        /// What that member has drawn at its start.
        nonce: [u8; 32],
    },
    /// What others remember, with their signatures.
    Remembered {
        /// The bandit.
        bandit: BanditId,
        /// By member.
        said: Vec<(u8, Remembered, Vec<u8>)>,
    },
    /// A member that leaves deals its shares of a model.
    Deal {
        /// The bandit.
        bandit: BanditId,
        /// The hash of its checkpoint.
        checkpoint: [u8; 32],
    },
    /// The next members have taken over all that is on this roll: the member may leave.
    Leave(Box<Roll>),
    /// A bandit of the committee before is to be taken over.
    Take(Box<Take>),
    /// The committee before has left.
    Arrived(Box<SignedManifest>, Box<Roll>, Signatures),
    /// Sessions are forgotten until their devices begin them again.
    Forget(Vec<SessionId>),
}

/// What a member tells the server.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum FromMember {
    /// It has read a session.
    Receipt {
        /// The session.
        session: SessionId,
        /// Its signature of [`receipt`].
        signature: Vec<u8>,
    },
    /// It refuses a session, a bandit or a checkpoint.
    Refused {
        /// The hash by which that is known.
        about: [u8; 32],
        /// Why.
        why: String,
    },
    /// What it says to the others in a step of a run.
    Say {
        /// The run.
        run: RunId,
        /// The step.
        step: u32,
        /// The bytes.
        body: Vec<u8>,
    },
    /// What is to be added up.
    Add {
        /// The run.
        run: RunId,
        /// The step.
        step: u32,
        /// The numbers; none of a member that only listens.
        numbers: Option<Vec<Field>>,
    },
    /// The batch of this number is prepared in this run.
    Began {
        /// The number.
        number: u64,
        /// The run.
        run: RunId,
    },
    /// A preparation is over.
    Prepared {
        /// The batch.
        batch: Label,
        /// Whether its slots are there; else they are burnt.
        good: bool,
        /// The members who have erred in it.
        liars: Vec<u8>,
        /// Pairs of members of whom one has signed another seed than they have in common.
        disputed: Vec<(u8, u8)>,
    },
    /// Decisions were computed.
    Decided {
        /// The run.
        run: RunId,
        /// By their places.
        decisions: Vec<Result<Decided, String>>,
    },
    /// A checkpoint was computed.
    Voted {
        /// The run.
        run: RunId,
        /// The checkpoint.
        checkpoint: Box<Checkpoint>,
        /// The vote.
        ballot: Ballot,
        /// Its signature.
        signature: Vec<u8>,
        /// The members who have shown a wrong number in this run.
        liars: Vec<u8>,
    },
    /// 2t − 1 votes were seen.
    Committed {
        /// The ballot.
        ballot: Ballot,
        /// Its signature.
        signature: Vec<u8>,
    },
    /// A run has ended with an error.
    Ended {
        /// The run.
        run: RunId,
        /// Why.
        why: String,
        /// The places of requests or feedbacks that the member refuses.
        refused: Vec<u32>,
    },
    /// The member was put back, and takes no part before it has heard what others remember.
    Forgot {
        /// The bandit.
        bandit: BanditId,
    },
    /// What it remembers.
    Remembers {
        /// The bandit.
        bandit: BanditId,
        /// For whom.
        nonce: [u8; 32],
        /// What it remembers.
        remembered: Box<Remembered>,
        /// Its signature of [`Remembered::signed`].
        signature: Vec<u8>,
    },
    /// It computes nothing more here, since it moves to the committee of this id.
    Moves {
        /// The next committee.
        to: [u8; 32],
    },
    /// What it deals of a model.
    Dealt {
        /// The bandit.
        bandit: BanditId,
        /// The hash of its checkpoint.
        checkpoint: [u8; 32],
        /// The dealing.
        dealing: Dealing,
    },
    /// It has left.
    Left {
        /// The next committee.
        to: [u8; 32],
        /// The hash of the roll.
        roll: [u8; 32],
        /// Its signature of [`crate::moves::moved`].
        signature: Vec<u8>,
    },
}

/// A request of a member for what it is told next, with what it says.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Poll {
    /// Seconds since 1970, by the member's clock.
    pub time: u64,
    /// What the member has drawn at its start.
    pub nonce: [u8; 32],
    /// The number of the last message that it has taken; 0 at its start.
    pub after: u64,
    /// The number of the first of what it says, of all that it says since its start.
    pub first: u64,
    /// What it says.
    pub said: Vec<FromMember>,
}

/// A [`Poll`] with the signature of its member.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct SignedPoll {
    /// The bytes of the poll.
    pub poll: Vec<u8>,
    /// The signature of [`polled`].
    pub signature: Vec<u8>,
}

/// What polls are signed for.
pub const POLL: &str = "helba 2026-11-27 poll of a member";

/// What a member signs of a poll.
pub fn polled(committee: &[u8; 32], member: u8, poll: &[u8]) -> [u8; 32] {
    hash("helba 2026-11-27 poll of a committee", &(committee, member, poll))
}

/// The answer to a request for a decision: what a device needs to read its arm.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// By what feedback names the decision.
    pub decision: [u8; 32],
    /// Its number.
    pub round: u64,
    /// Where the answers belong.
    pub place: crate::AnswerPlace,
    /// Of each member.
    pub answers: Vec<(u8, Answer)>,
}

/// A decision as a member has computed it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// For the device; none of a member that refuses its request.
    pub answer: Option<Answer>,
    /// The row.
    pub row: Record,
    /// Its tags, by the places of the member's subsets.
    pub tags: Vec<(u8, [u8; crate::MAC_BYTES])>,
    /// The members who have shown a wrong number in this run.
    pub liars: Vec<u8>,
}

/// What a member signs for a session.
pub fn receipt(committee: &[u8; 32], session: &SessionId) -> Vec<u8> {
    [&committee[..], session].concat()
}

/// Bytes of what is said.
///
/// # Errors
/// [`Error::Message`] for what is too long.
pub fn to_bytes(message: &impl Serialize) -> Result<Vec<u8>, Error> {
    let bytes = postcard::to_stdvec(message).map_err(|_| Error::Message)?;
    if bytes.len() > MOST_BYTES { Err(Error::Message) } else { Ok(bytes) }
}

/// Reads what [`to_bytes`] writes.
///
/// # Errors
/// [`Error::Message`] for other bytes, and for some that are left over.
pub fn from_bytes<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, Error> {
    if bytes.len() > MOST_BYTES {
        return Err(Error::Message);
    }
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(Error::Message),
    }
}
