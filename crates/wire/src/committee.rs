//! JSON of bandits of a committee. Their other messages are those of the crate `shares`.

use crate::from_hex;
use protocol::ArmCounter;
use serde::{Deserialize, Serialize};
use shares::talk::{Counted, Counters, Definition, Rules};

/// The header of a request that has a committee's feedback erased: the MACs of its device, in hexadecimal
/// digits.
pub const ERASURE_HEADER: &str = "helba-erasure";

/// A bandit of a committee, as it was created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitteeBandit {
    /// The id of the bandit in paths: what was drawn for it.
    pub id: String,
    /// The id of the committee, in hexadecimal digits.
    pub committee: String,
    /// d.
    pub features: u16,
    /// K.
    pub arms: u16,
    /// The configuration, a text of JSON, to the letter: members and devices hash it.
    pub config: String,
    /// The least number of sessions whose feedback a batch has.
    pub sessions: u16,
    /// The most decisions of a session between two batches.
    pub decisions_a_session: u16,
    /// Whether arms are counted, and how many feedbacks members open together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// The least and the largest reward, in steps of 2⁻¹⁶; none for −1 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewards: Option<[f64; 2]>,
    /// The id of the committee that it was created with.
    pub founder: String,
}

/// A reward in steps of 2⁻¹⁶, as devices send it.
pub fn steps(reward: f64) -> i32 {
    (reward * 65_536.0).round() as i32
}

impl CommitteeBandit {
    /// The bandit of this definition.
    pub fn new(id: String, committee: &[u8; 32], definition: &Definition) -> Self {
        CommitteeBandit {
            id,
            committee: ckks::Hex(committee).to_string(),
            features: definition.features,
            arms: definition.arms,
            config: definition.config.clone(),
            sessions: definition.rules.sessions,
            decisions_a_session: definition.rules.decisions,
            counters: definition.counters,
            rewards: definition.rewards.map(|range| range.map(|reward| f64::from(reward) / 65_536.0)),
            founder: ckks::Hex(&definition.founder).to_string(),
        }
    }

    /// The definition, from which a device computes the bandit's id itself. `None` for an id that is none.
    pub fn definition(&self) -> Option<Definition> {
        Some(Definition {
            features: self.features,
            arms: self.arms,
            config: self.config.clone(),
            rules: Rules { sessions: self.sessions, decisions: self.decisions_a_session },
            counters: self.counters,
            rewards: self.rewards.map(|range| range.map(steps)),
            founder: from_hex(&self.founder)?,
            nonce: from_hex(&self.id)?,
        })
    }
}

/// The counters of a bandit of a committee, of whole groups of feedbacks without those that were erased. They
/// are public.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitteeCounters {
    /// The feedbacks in them.
    pub feedbacks: u64,
    /// The counter of each arm, without noise.
    pub arms: Vec<ArmCounter>,
}

impl CommitteeCounters {
    /// Those of so many arms, as members have opened them: nothing, before the first group is whole.
    pub fn new(arms: usize, opened: &[Counted]) -> Self {
        let of = |arm: usize| {
            let counted = opened.get(arm).map_or((0, 0), |of| (of.pulls, of.rewards));
            ArmCounter { pulls: counted.0 as f64, reward: counted.1 as f64 / 65_536.0 }
        };
        let feedbacks = opened.iter().map(|of| of.pulls).sum::<i64>().max(0) as u64;
        CommitteeCounters { feedbacks, arms: (0..arms).map(of).collect() }
    }
}

/// The answer to a request that has a committee's feedback erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitteeErasure {
    /// True.
    pub erased: bool,
    /// Whether the model has the feedback until the next update. Otherwise no model had it.
    pub learnt: bool,
}

/// The public state of a bandit of a committee.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitteeBanditView {
    /// As it was created.
    #[serde(flatten)]
    pub created: CommitteeBandit,
    /// The number of updates.
    pub updates: u64,
    /// The feedbacks in its model.
    pub feedbacks: u64,
    /// The number of decisions.
    pub decisions: u64,
    /// The requests that wait for members.
    pub waiting: usize,
    /// The feedbacks that wait for the end of the batch.
    pub unlearnt: usize,
    /// The decisions that wait for feedback.
    pub open: usize,
    /// The slots in stock.
    pub slots: usize,
    /// The members who are here.
    #[serde(flatten)]
    pub members: MembersHere,
}

/// The members of a committee who are here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembersHere {
    /// Their numbers.
    pub here: Vec<u8>,
    /// How many must be.
    pub needed: usize,
}
