//! Messages of bandits with clear policies, as JSON.

use privacy::PrivacyStatement;
use privacy::task::Task;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// The longest message of a clear policy that either side reads. An intermediary with a longer batch adds
/// numbers up first.
pub const MAX_CLEAR_BYTES: usize = 4 << 20;

/// The card of a policy that a server offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyCard {
    /// The name of the policy in a creation request.
    pub policy: String,
    /// The purpose of the policy, and its privacy.
    pub about: String,
    /// A creation request with all parameters.
    pub example: Value,
    /// The parameters that may be left out, with their default values.
    pub defaults: Map<String, Value>,
    /// The parameters, described.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, ParameterCard>,
    /// The kind of feedback.
    pub feedback: FeedbackKind,
    /// Whether a decision takes contexts.
    pub contextual: bool,
    /// How late feedback is learnt. `None` for encrypted bandits, which learn from sums.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateFeedback>,
}

/// The description of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterCard {
    /// Its meaning.
    pub about: String,
    /// The values that it may have.
    pub range: String,
    /// What null stands for. `None` if it must not be null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null: Option<String>,
}

/// How a policy learns from feedback that comes late or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateFeedback {
    /// The order in which feedback is learnt.
    pub rule: LateRule,
    /// The reason for the rule, and for its being private.
    pub why: String,
    /// What becomes of a decision without feedback after the wait time, and of feedback that comes then.
    pub after_wait: String,
}

/// The order in which a policy learns from feedback. Decisions are never held up by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateRule {
    /// As it arrives.
    AnyOrder,
    /// In the order of the decisions, for each arm if decisions take no contexts. What comes early waits.
    Queue,
    /// In batches of users, which wait for all their answers.
    Batch,
}

/// The kind of feedback that a policy learns from, which determines the field of a [`ClearFeedback`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackKind {
    /// Encrypted statistics.
    Encrypted,
    /// The reward of the arm that was played.
    Reward,
    /// The rewards of all arms.
    Rewards,
    /// The sum of all rewards that arrived since the decision before, of any decision.
    Sum,
    /// The output of the user's randomiser.
    Share,
    /// No feedback. Users answer an intermediary, which sends batches of sums.
    Batch,
}

/// A bandit with a clear policy, as it was created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyCreated {
    /// The id of the bandit in paths.
    pub id: String,
    /// The name of the policy.
    pub policy: String,
    /// The parameters of the policy, with defaults filled in.
    pub parameters: Map<String, Value>,
    /// The seconds after which a decision without feedback expires; `None` if users answer an intermediary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<u64>,
    /// The reward that an expired decision counts as; `None` if it is left out, or by what the policy needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_reward: Option<f64>,
    /// The most decisions without feedback, and the most whose feedback is not learnt yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_open: Option<usize>,
    /// What a user must know who expects much of these parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The guarantee, and the budget spent.
    pub privacy: Privacy,
}

/// The guarantee of a bandit for its whole run, and how much of its budget is spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Privacy {
    /// The guarantee.
    pub statement: PrivacyStatement,
    /// The budget spent so far. It is null if nothing is guaranteed.
    pub spent: Option<Spent>,
}

/// The largest privacy loss of a person so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// The parameter epsilon of the loss.
    pub epsilon: f64,
    /// The parameter delta of the loss.
    pub delta: f64,
}

/// A decision request. An empty body is a request without contexts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecideRequest {
    /// One row of features for each arm, which is empty for a closed arm.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "open_rows")]
    pub contexts: Option<Vec<Vec<f64>>>,
}

/// Rows of features in JSON, where the row of a closed arm is null, and empty in memory.
pub mod open_rows {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes rows.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(rows: &Option<Vec<Vec<f64>>>, serializer: S) -> Result<S::Ok, S::Error> {
        let row = |x| Some(x).filter(|x: &&Vec<f64>| !x.is_empty());
        rows.as_ref().map(|rows| rows.iter().map(row).collect::<Vec<_>>()).serialize(serializer)
    }

    /// Reads rows.
    ///
    /// # Errors
    /// Those of the format, also for a row without a number, which is no closed arm.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<Vec<f64>>>, D::Error> {
        let rows = Option::<Vec<Option<Vec<f64>>>>::deserialize(deserializer)?;
        if let Some(at) = rows.iter().flatten().position(|row| row.as_ref().is_some_and(Vec::is_empty)) {
            return Err(D::Error::custom(format!(
                "row {} is empty: the row of a closed arm is null",
                at + 1
            )));
        }
        Ok(rows.map(|rows| rows.into_iter().map(Option::unwrap_or_default).collect()))
    }
}

/// A decision of a clear policy, or of an encrypted bandit from an agent that decrypts it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// The id of the decision, which the feedback names.
    pub decision: String,
    /// The number of the decision, from 1.
    pub round: u64,
    /// The arm to play, from 0. `None` if the device chooses an arm from `published`.
    pub arm: Option<usize>,
    /// Estimate and metric of each complete batch, for devices that choose their arms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Value>,
    /// The task that the user answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<Task>,
    /// Only from an agent: whether the decrypted answer is in its range. If not, the arm must not be relied
    /// on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reliable: Option<bool>,
    /// Only from an agent: the probability with which the arm was to be played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The guarantee, and the budget spent.
    pub privacy: Privacy,
}

/// Feedback on a decision. It has exactly the field that the [`FeedbackKind`] of the policy names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClearFeedback {
    /// The reward of the arm that was played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// The rewards of all arms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewards: Option<Vec<f64>>,
    /// The sum of the rewards that arrived, of any decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<f64>,
    /// The randomised reward, a residue modulo the modulus of the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
}

/// The answer to a counted feedback or batch. A repeated message gets the same answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// The id of the decision, or the number of the exchange.
    pub of: String,
    /// The number of feedbacks, or of users of batches, counted so far.
    pub feedbacks: u64,
    /// Only from an agent: false if the reward was counted at the agent alone, and nothing learns from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learnt: Option<bool>,
    /// The guarantee, and the budget spent when the message was counted.
    pub privacy: Privacy,
}

/// The public state of a bandit with a clear policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyView {
    /// The bandit as it was created, with the budget spent until now.
    pub created: PolicyCreated,
    /// The number of decisions.
    pub round: u64,
    /// The number of feedbacks, or of users of batches, counted so far.
    pub feedbacks: u64,
    /// The number of decisions that accept feedback.
    pub pending_decisions: usize,
    /// The number of decisions whose feedback has come, or was replaced, and is not learnt yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// The number of expired decisions that count as the default reward.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub defaulted: u64,
    /// The number of decisions that nothing is learnt from: expired ones, and feedback that had to make room
    /// before its turn came.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The task of the batch that the server waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<Task>,
    /// As in [`Decided`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Value>,
    /// What the policy has learnt, as far as its guarantee covers it.
    #[serde(default, skip_serializing_if = "Learnt::is_empty")]
    pub learnt: Learnt,
    /// The number of times that the bandit started again without its data, because its state was restored
    /// from a backup. The budget spent is kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restored: u64,
}

/// What a policy shows of what it has learnt, by arm where it is a list of as many numbers as there are arms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learnt {
    /// The number of learnt plays of each arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulls: Option<Vec<u64>>,
    /// The mean reward of each arm as released: with the noise of the guarantee. Null without a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<Vec<Option<f64>>>,
    /// The arms that are not eliminated, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Vec<usize>>,
    /// The arm that the last release chose, from 0, which is played until the next release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<usize>,
    /// The probability with which each arm is drawn next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probabilities: Option<Vec<f64>>,
    /// The estimate of the parameter of rewards, by feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theta: Option<Vec<f64>>,
}

impl Learnt {
    /// Whether nothing is shown.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The sums of a batch, which an intermediary delivers. No number can be attributed to a user.
///
/// The shuffled bits of all users for one label are equivalent to their sum, and so are the shares of a
/// secure sum. An intermediary may therefore split the sum of a label into bits or totals of parts. It must
/// not split it by users, whose single numbers hold little noise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShuffledBatch {
    /// The number of the exchange, [`Task::exchange`].
    pub exchange: u64,
    /// The number of users in the batch.
    pub users: u64,
    /// A list of numbers for each label, which are added up. Their order and number are arbitrary.
    pub labels: Vec<Vec<u64>>,
}

impl ShuffledBatch {
    /// The sum of each label.
    pub fn sums(&self) -> impl ExactSizeIterator<Item = u128> + '_ {
        // Each term is below 2^64, and no memory holds 2^64 of them.
        self.labels.iter().map(|values| values.iter().map(|v| u128::from(*v)).sum())
    }
}

/// A [`ShuffledBatch`] whose lists were added up while they were read, so that its memory does not depend on
/// how an intermediary splits the sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummedBatch {
    /// [`ShuffledBatch::exchange`].
    pub exchange: u64,
    /// [`ShuffledBatch::users`].
    pub users: u64,
    /// The number of lists received, one for each label.
    pub labels: usize,
    /// The sums of the first labels, of at most as many as the bandit has.
    pub sums: Vec<u128>,
}

impl SummedBatch {
    /// A reader of a [`ShuffledBatch`] that keeps the sums of the first `most` labels.
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

    /// The row of a closed arm is null, and one without a number is refused: it is a mistake.
    #[test]
    fn closed_arms_are_null() {
        let request = DecideRequest { contexts: Some(vec![vec![], vec![0.5], vec![]]) };
        let json = r#"{"contexts":[null,[0.5],null]}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), json);
        assert_eq!(serde_json::from_str::<DecideRequest>(json).unwrap(), request);
        for json in ["{}", r#"{"contexts":null}"#] {
            assert_eq!(serde_json::from_str::<DecideRequest>(json).unwrap(), DecideRequest::default());
        }
        let refused = serde_json::from_str::<DecideRequest>(r#"{"contexts":[[0.5],[]]}"#).unwrap_err();
        assert!(refused.to_string().contains("row 2 is empty"), "{refused}");
    }

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
