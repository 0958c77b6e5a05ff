//! Messages of bandits with a clear policy, as JSON.

use privacy::PrivacyStatement;
use privacy::task::Task;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// The longest message of a bandit in the clear that either side reads. An intermediary whose batch is longer
/// adds up.
pub const MAX_CLEAR_BYTES: usize = 4 << 20;

/// The card of a policy that a server offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyCard {
    /// Its name in a creation request.
    pub policy: String,
    /// What the policy is for, and the privacy it gives.
    pub about: String,
    /// A creation request with every parameter in it.
    pub example: Value,
    /// The parameters that may be left out, with their default values.
    pub defaults: Map<String, Value>,
    /// What a feedback holds.
    pub feedback: FeedbackKind,
    /// Whether a decision takes contexts.
    pub contextual: bool,
}

/// What a policy learns from, and hence the field that feedback must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackKind {
    /// Ciphertexts.
    Encrypted,
    /// The reward of the arm played.
    Reward,
    /// The rewards of all arms.
    Rewards,
    /// The sum of all rewards that arrived since the decision before, whichever decision earned them.
    Sum,
    /// The reward as the user's randomiser sends it.
    Share,
    /// No feedback: users answer an intermediary, which sends batches of sums.
    Batch,
}

/// A bandit in the clear as it was created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyCreated {
    /// The bandit's id in paths.
    pub id: String,
    /// Name of the policy.
    pub policy: String,
    /// Its parameters, defaults filled in.
    pub parameters: Map<String, Value>,
    /// What it promises and has spent.
    pub privacy: Privacy,
}

/// The guarantee of a bandit for its whole run, and how much of its budget is spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Privacy {
    /// The guarantee.
    pub statement: PrivacyStatement,
    /// The budget spent so far; null if nothing is guaranteed.
    pub spent: Option<Spent>,
}

/// The privacy that the person with the largest loss has lost so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// `epsilon`.
    pub epsilon: f64,
    /// `delta`.
    pub delta: f64,
}

/// A request for a decision. An empty body is one without contexts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecideRequest {
    /// Features, one row for each arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Vec<Vec<f64>>>,
}

/// A decision in the clear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// Id of the decision, which the feedback names.
    pub decision: String,
    /// Number of the decision, from 1.
    pub round: u64,
    /// The arm to play, from 0; `None` if the device chooses it from what is `published`.
    pub arm: Option<usize>,
    /// Estimate and metric of each complete batch, for devices that choose their arms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Value>,
    /// The task that the user's answer belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<Task>,
    /// The guarantee, and the budget spent.
    pub privacy: Privacy,
}

/// Feedback on a decision: the one field that the policy's [`FeedbackKind`] names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClearFeedback {
    /// The reward of the arm played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// The rewards of all arms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewards: Option<Vec<f64>>,
    /// The sum of the rewards that arrived, whichever decision earned them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<f64>,
    /// The randomised reward: a residue of the batch's modulus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
}

/// The answer to feedback or a batch that was counted; the same each time the same message is sent again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// The decision, or the number of the exchange.
    pub of: String,
    /// Feedbacks, or users of batches, counted so far.
    pub feedbacks: u64,
    /// The guarantee, and the budget spent at that time.
    pub privacy: Privacy,
}

/// The public state of a bandit with a clear policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyView {
    /// The bandit as it was created, with the budget spent until now.
    pub created: PolicyCreated,
    /// Decisions made.
    pub round: u64,
    /// Feedbacks, or users of batches, counted.
    pub feedbacks: u64,
    /// Number of decisions that still accept feedback.
    pub pending_decisions: usize,
    /// The sum that the server waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<Task>,
    /// As in [`Decided`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Value>,
    /// How often the bandit began anew, with what it had spent, because its state was restored from a backup.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restored: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The sums that an intermediary lets out of a batch. No number in it can be attributed to a user.
///
/// Bits of one label that were shuffled, all users', are known by their sum alone; shares of a secure sum
/// likewise. So an intermediary may split a label's sum up as it likes, into bits or totals of its parts; but
/// not by users, whose single numbers hold little noise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShuffledBatch {
    /// [`Task::exchange`].
    pub exchange: u64,
    /// Users whose messages are in it.
    pub users: u64,
    /// A list a label: numbers in any order and of any number, which are added up.
    pub labels: Vec<Vec<u64>>,
}

impl ShuffledBatch {
    /// The sum of each label.
    pub fn sums(&self) -> impl ExactSizeIterator<Item = u128> + '_ {
        // Each term is below 2^64, and no memory holds 2^64 of them.
        self.labels.iter().map(|values| values.iter().map(|v| u128::from(*v)).sum())
    }
}

/// A [`ShuffledBatch`] as its receiver keeps it: added up while it was read, so that its memory does not
/// depend on how an intermediary splits sums up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummedBatch {
    /// [`ShuffledBatch::exchange`].
    pub exchange: u64,
    /// [`ShuffledBatch::users`].
    pub users: u64,
    /// The number of lists received, one for each label.
    pub labels: usize,
    /// The sums of the first labels, at most as many as the bandit has.
    pub sums: Vec<u128>,
}

impl SummedBatch {
    /// Reads a [`ShuffledBatch`] and keeps the sums of its first `most` labels.
    pub fn of(most: usize) -> impl for<'a> DeserializeSeed<'a, Value = Self> {
        SumBatch(most)
    }
}

impl From<&ShuffledBatch> for SummedBatch {
    fn from(batch: &ShuffledBatch) -> Self {
        let ShuffledBatch { exchange, users, .. } = *batch;
        SummedBatch { exchange, users, labels: batch.labels.len(), sums: batch.sums().collect() }
    }
}

struct SumBatch(usize);
struct SumLabels(usize);
struct SumLabel;

impl<'de> DeserializeSeed<'de> for SumBatch {
    type Value = SummedBatch;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<SummedBatch, D::Error> {
        deserializer.deserialize_struct("ShuffledBatch", &BATCH_FIELDS, self)
    }
}

const BATCH_FIELDS: [&str; 3] = ["exchange", "users", "labels"];

impl<'de> Visitor<'de> for SumBatch {
    type Value = SummedBatch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a shuffled batch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SummedBatch, A::Error> {
        let (mut exchange, mut users, mut labels) = (None, None, None);
        while let Some(field) = map.next_key::<String>()? {
            let (known, twice) = match BATCH_FIELDS.iter().position(|known| *known == field) {
                Some(0) => ("exchange", exchange.replace(map.next_value()?).is_some()),
                Some(1) => ("users", users.replace(map.next_value()?).is_some()),
                Some(_) => ("labels", labels.replace(map.next_value_seed(SumLabels(self.0))?).is_some()),
                None => return Err(A::Error::unknown_field(&field, &BATCH_FIELDS)),
            };
            if twice {
                return Err(A::Error::duplicate_field(known));
            }
        }
        let exchange = exchange.ok_or_else(|| A::Error::missing_field("exchange"))?;
        let users = users.ok_or_else(|| A::Error::missing_field("users"))?;
        let (labels, sums) = labels.ok_or_else(|| A::Error::missing_field("labels"))?;
        Ok(SummedBatch { exchange, users, labels, sums })
    }
}

impl<'de> DeserializeSeed<'de> for SumLabels {
    type Value = (usize, Vec<u128>);
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for SumLabels {
    type Value = (usize, Vec<u128>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers for each label")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut lists: A) -> Result<Self::Value, A::Error> {
        let (mut count, mut sums) = (0, Vec::new());
        while let Some(sum) = lists.next_element_seed(SumLabel)? {
            count += 1;
            if sums.len() < self.0 {
                sums.push(sum);
            }
        }
        Ok((count, sums))
    }
}

impl<'de> DeserializeSeed<'de> for SumLabel {
    type Value = u128;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u128, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for SumLabel {
    type Value = u128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<u128, A::Error> {
        let mut sum = 0;
        while let Some(number) = numbers.next_element::<u64>()? {
            // Each is below 2^64, and no message has 2^64 of them.
            sum += u128::from(number);
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reading with and without summation gives the same batch and the same refusals. Labels beyond those
    /// asked for are read, and their sums are not kept.
    #[test]
    fn attack_batches_are_summed_while_they_are_read() {
        let read = |text: &str, most| {
            SummedBatch::of(most).deserialize(&mut serde_json::Deserializer::from_str(text))
        };
        for text in [
            r#"{"exchange":1,"users":2,"labels":[[1,2],[],[18446744073709551615,1]]}"#,
            r#"{"labels":[],"users":0,"exchange":3}"#,
        ] {
            let batch: ShuffledBatch = serde_json::from_str(text).unwrap();
            assert_eq!(read(text, 9).unwrap(), SummedBatch::from(&batch));
        }
        let many = format!(r#"{{"exchange":1,"users":2,"labels":[[7],{}[0]]}}"#, "[0],".repeat(100_000));
        let batch = read(&many, 1).unwrap();
        assert_eq!((batch.labels, batch.sums), (100_002, vec![7]));
        for bad in [
            "[1,2,[[3]]]",
            r#"{"exchange":1,"users":2}"#,
            r#"{"exchange":1,"exchange":1,"users":2,"labels":[[1]]}"#,
            r#"{"exchange":1,"users":2,"labels":[[1]],"labels":[[1]]}"#,
            r#"{"exchange":1,"users":2,"labels":[[1,2]],"origin":"me"}"#,
            r#"{"exchange":-1,"users":2,"labels":[[1,2]]}"#,
            r#"{"exchange":1,"users":2,"labels":[[1.5]]}"#,
            r#"{"exchange":1,"users":2,"labels":[[18446744073709551616]]}"#,
            r#"{"exchange":1,"users":2,"labels":[1]}"#,
        ] {
            assert!(read(bad, 9).is_err(), "{bad}");
        }
    }

    /// Sums are exact beyond 64 bits, whether numbers come one by one or added up.
    #[test]
    fn sums_by_label() {
        let batch = |labels| ShuffledBatch { exchange: 1, users: 2, labels };
        let sums: Vec<u128> = batch(vec![vec![u64::MAX; 3], vec![], vec![1, 0, 1]]).sums().collect();
        assert_eq!(sums, [3 * u128::from(u64::MAX), 0, 2]);
    }

    #[test]
    fn messages_say_nothing_more_and_nothing_less() {
        let read = serde_json::from_str::<ShuffledBatch>;
        let good = r#"{"exchange":1,"users":2,"labels":[[1,2]]}"#;
        assert_eq!(serde_json::to_string(&read(good).unwrap()).unwrap(), good);
        for bad in [
            r#"{"exchange":1,"users":2}"#,
            r#"{"exchange":1,"users":2,"labels":[[1,2]],"origin":"me"}"#,
            r#"{"exchange":-1,"users":2,"labels":[[1,2]]}"#,
            r#"{"exchange":1,"users":2,"labels":[[1.5]]}"#,
            r#"{"exchange":1,"users":2,"labels":[1]}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let feedback = ClearFeedback { reward: Some(0.5), ..ClearFeedback::default() };
        assert_eq!(serde_json::to_string(&feedback).unwrap(), r#"{"reward":0.5}"#);
        assert!(serde_json::from_str::<ClearFeedback>(r#"{"Reward":0.5}"#).is_err());
    }
}
