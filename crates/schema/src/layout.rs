//! The schema: what people write.

use crate::{Error, MAX_CANDIDATES, MAX_WIDE};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// How the values of a round are named, and how they become features, choices and rewards.
///
/// `docs/data.md` is the reference of every entry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// Where candidates and their values stand.
    pub layout: Layout,
    /// Names of the columns, for a table that has no header.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub header: Vec<String>,
    /// Wide tables: how a column is named after a feature and a candidate, such as `{feature}.{candidate}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Names of the candidates, in the order of the arms. Wide tables: those of the columns, if left out.
    /// Long tables: left out if they differ from round to round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// Number of candidates of a round, where they have no fixed names. Rounds with another number are
    /// dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arms: Option<usize>,
    /// Long tables: the column that names the candidate of a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_column: Option<String>,
    /// Column of the choice or of the logged action. Wide tables: it holds the name of a candidate. Long
    /// tables: it holds 1 in the row of the candidate and 0 in the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// How the column `chosen` writes a candidate, such as `choice{candidate}`. Long tables: it names the
    /// candidate in every row of the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_pattern: Option<String>,
    /// Wide tables: how the column `chosen` writes the candidates, in their order, where it holds codes of
    /// them such as 1, 2 and 3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
    /// The column that is 0 where a candidate is not offered; in wide tables a pattern such as
    /// `{candidate}_AV`. Rounds without one of their candidates are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<String>,
    /// Column of the reward. Left out, the reward is 1 for the candidate that was chosen, else 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<String>,
    /// The values that become reward 0 and reward 1. In the order `[0, -1]` a cost of -1 is the reward 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward_range: Option<[f64; 2]>,
    /// Column of the probability with which the logged action was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propensity: Option<String>,
    /// Column of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Column of the time. Rounds stay in the order of the file; those before their predecessor are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Long tables: the columns whose values name a round, or one column [default: user and time].
    #[serde(default, deserialize_with = "one_or_several", skip_serializing_if = "Vec::is_empty")]
    pub round: Vec<String>,
    /// Long tables: the number of rows of a round, where no column tells rounds apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
    /// The features and columns whose numbers are written with a decimal comma.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decimal_comma: Vec<String>,
    /// Texts that stand for no value where a number is needed, besides those that always do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_value: Vec<String>,
    /// What is done with a round that lacks a value of a feature.
    #[serde(default, skip_serializing_if = "is_default")]
    pub missing: Missing,
    /// Whether every candidate gets a feature that is 1.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bias: bool,
    /// Whether the candidate is a feature: one-hot, in the order of the arms.
    #[serde(default, skip_serializing_if = "is_default")]
    pub identity: bool,
    /// Whether there is a feature that is 1 for the candidate that the same user chose last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub previous: bool,
    /// Pairs of features whose products are features. `candidate` stands for the one-hot of the candidate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interactions: Vec<[String; 2]>,
    /// Whether features of `context` stand in interactions only. They are the same for all candidates.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interactions_only: bool,
    /// What makes every row of features at most 1 long.
    #[serde(default, skip_serializing_if = "is_default")]
    pub norm: NormRule,
    /// The projection to fewer features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Projection>,
    /// Score features in place of a projection: a prediction of the reward, and which candidate it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<ScoreRule>,
    /// Features of a candidate, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub candidate: BTreeMap<String, Encoding>,
    /// Features of the user or the situation, which all candidates of a round share, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, Encoding>,
    /// Other tables, by the names that stand before those of their columns, as in `items.price`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, JoinedTable>,
}

/// A table whose columns stand beside those of the file, in every row with the same key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinedTable {
    /// Its file. A relative path begins at the folder of the schema.
    pub file: PathBuf,
    /// The column of the key in the file of rounds. Keys are compared as texts. In wide tables `{candidate}`:
    /// each candidate has the row of its name, and the columns are features of candidates.
    pub key: String,
    /// The column of the key in this table [default: `key`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub their_key: Option<String>,
}

impl JoinedTable {
    /// Whether it has a row for each candidate, by its name.
    pub fn is_of_candidates(&self) -> bool {
        self.key == "{candidate}"
    }
}

/// A text, or a list of them.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "name a column, or give a list of columns")]
    enum Names {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Names::deserialize(deserializer)? {
        Names::One(name) => vec![name],
        Names::Several(names) => names,
    })
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Where the candidates of a round stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// A row is a round; the columns of a candidate are named by a pattern.
    #[default]
    Wide,
    /// A row is a candidate of a round; the rows of a round stand together.
    Long,
    /// A line is a round, as a JSON object of VowpalWabbit's kind.
    Dsjson,
}

/// What is done with a round that lacks a value of a feature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// The round is dropped, and counted.
    #[default]
    Drop,
    /// Numbers become the mean of the column; categories become zeros.
    Mean,
    /// The features become zeros, after scaling.
    Zero,
}

/// What makes every row of features at most 1 long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NormRule {
    /// All rows are divided by the length of the longest, so that their proportions stay.
    #[default]
    Divide,
    /// Rows that are longer than 1 are shortened to 1, and counted.
    Clip,
}

/// A projection to fewer features. Where there are not more before, nothing is projected.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Projection {
    /// Number of features after it, d.
    pub features: usize,
    /// The rule.
    #[serde(default)]
    pub by: ProjectionRule,
    /// Seed of the random projection.
    #[serde(default)]
    pub seed: u64,
}

/// How features are projected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProjectionRule {
    /// The first principal components of the rows of the file: the eigenvectors of their second moments with
    /// the largest eigenvalues. Nothing is subtracted.
    #[default]
    Components,
    /// A matrix of random signs, divided by the root of d, which the seed alone determines.
    Random,
}

/// Where the prediction of a candidate's reward comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreRule {
    /// The column of `[candidate]` that holds the predictions of another model. Left out, they are those of a
    /// ridge regression of the rewards on all other features, which is learnt from the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

/// How a value becomes features. In a schema it is a text: `none`, `max`, `min-max`, `standard`, `log`,
/// `one-hot`, or `hash:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// The number as it stands.
    Plain,
    /// The number divided by the largest absolute value of the column.
    Max,
    /// The number moved and scaled to the interval from 0 to 1.
    MinMax,
    /// The number less the mean of the column, divided by its standard deviation (divisor n).
    Standard,
    /// ln(1 + number), divided by its largest value; the number must be at least 0.
    Log,
    /// A feature for each category of the column, 1 for that of the value.
    OneHot,
    /// As many features as given; the hash of the category says which is 1.
    Hash(usize),
}

impl Encoding {
    /// Whether values are numbers; else they are categories.
    pub fn is_number(self) -> bool {
        !matches!(self, Encoding::OneHot | Encoding::Hash(_))
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Plain => "none",
            Encoding::Max => "max",
            Encoding::MinMax => "min-max",
            Encoding::Standard => "standard",
            Encoding::Log => "log",
            Encoding::OneHot => "one-hot",
            Encoding::Hash(n) => return write!(f, "hash:{n}"),
        })
    }
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "none" => Encoding::Plain,
            "max" => Encoding::Max,
            "min-max" => Encoding::MinMax,
            "standard" => Encoding::Standard,
            "log" => Encoding::Log,
            "one-hot" => Encoding::OneHot,
            _ => {
                let into = text.strip_prefix("hash:").and_then(|n| n.parse().ok());
                Encoding::Hash(into.filter(|n| (1..=MAX_WIDE).contains(n)).ok_or_else(|| {
                    format!(
                        "`{text}` is none of none, max, min-max, standard, log, one-hot, and hash:N with N from 1 to {MAX_WIDE}"
                    )
                })?)
            }
        })
    }
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Encoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The reward, from 0 to 1, of a value where `zero` is the reward 0 and `one` the reward 1; `None` outside.
pub fn reward_in([zero, one]: [f64; 2], value: f64) -> Option<f64> {
    let reward = (value - zero) / (one - zero);
    // Ends of the range that are not exact in binary.
    (-1e-9..=1.0 + 1e-9).contains(&reward).then(|| reward.clamp(0.0, 1.0))
}

impl Schema {
    /// Refuses entries that contradict each other.
    ///
    /// # Errors
    /// [`Error::Schema`] with the entry, and what to do.
    pub fn validate(&self) -> Result<(), Error> {
        let wide = self.layout == Layout::Wide;
        let refuse = |bad: bool, key: &str, reason: &str| {
            if bad { Err(Error::schema(key, reason)) } else { Ok(()) }
        };
        let of_each_candidate = self.score.is_some() && self.is_fixed();
        if self.candidate.is_empty() && !self.identity && self.interactions.is_empty() && !of_each_candidate {
            let reason =
                "no feature tells candidates apart: name at least one column here, or set identity = true";
            return Err(Error::schema("[candidate]", reason));
        }
        let twice = self.candidate.keys().find(|name| self.context.contains_key(*name));
        if let Some(name) = twice {
            return Err(Error::schema(
                format!("[context] {name}"),
                "[candidate] has this name too: keep one of them",
            ));
        }
        let unused = |name: &&String| !self.interactions.iter().flatten().any(|used| used == *name);
        if let Some(name) = self.context.keys().find(unused).filter(|_| self.interactions_only) {
            return Err(Error::schema(
                "interactions_only",
                format!("{name} is in no interaction and would be lost: add one, or leave {name} out"),
            ));
        }
        for pair in &self.interactions {
            for name in pair {
                let known = name == "candidate"
                    || self.candidate.contains_key(name)
                    || self.context.contains_key(name);
                if !known {
                    let reason = format!(
                        "{name} is no feature: add it to [candidate] or [context], or write `candidate`"
                    );
                    return Err(Error::schema("interactions", reason));
                }
            }
        }
        refuse(!wide && self.pattern.is_some(), "pattern", "it belongs to layout = \"wide\"")?;
        let named = wide || (self.layout == Layout::Long && self.candidate_column.is_some());
        refuse(
            !named && self.chosen_pattern.is_some(),
            "chosen_pattern",
            "it belongs to layout = \"wide\", or to \"long\" with candidate_column",
        )?;
        refuse(
            self.chosen_pattern.as_ref().is_some_and(|p| p.matches("{candidate}").count() != 1),
            "chosen_pattern",
            "it must hold {candidate} once",
        )?;
        refuse(
            !self.codes.is_empty() && (!wide || self.chosen.is_none() || self.chosen_pattern.is_some()),
            "codes",
            "they are how the column `chosen` of a wide table writes candidates, where chosen_pattern does not say it",
        )?;
        refuse(
            !self.codes.is_empty() && self.codes.len() != self.candidates.len(),
            "codes",
            "give one for each name in `candidates`, in their order",
        )?;
        let mut codes = self.codes.clone();
        codes.sort_unstable();
        codes.dedup();
        refuse(codes.len() != self.codes.len(), "codes", "a code occurs twice")?;
        refuse(
            self.layout == Layout::Dsjson && self.available.is_some(),
            "available",
            "lines of dsjson list the candidates that were offered",
        )?;
        refuse(
            wide && self.available.as_ref().is_some_and(|p| p.matches("{candidate}").count() != 1),
            "available",
            "it must hold {candidate} once",
        )?;
        let numbers = self.candidate.iter().chain(&self.context).filter(|(_, encoding)| encoding.is_number());
        let written: Vec<&String> =
            numbers.map(|(name, _)| name).chain(&self.reward).chain(&self.propensity).collect();
        if let Some(name) = self.decimal_comma.iter().find(|name| !written.contains(name)) {
            let reason =
                format!("{name} is no feature that is a number, no reward and no probability: leave it out");
            return Err(Error::schema("decimal_comma", reason));
        }
        refuse(
            wide && self.chosen.is_none() && self.reward.is_none(),
            "chosen",
            "name the column of the choice, or a pattern of rewards such as reward = \"reward.{candidate}\"",
        )?;
        if self.layout == Layout::Long {
            refuse(
                self.chosen.is_none() && self.reward.is_none(),
                "chosen",
                "name the column of the choice, or that of the reward, or both",
            )?;
            refuse(
                self.user.is_none() && self.time.is_none() && self.round.is_empty() && self.rows.is_none(),
                "round",
                "name the columns whose values name a round, or user, or time, or give the number of `rows` of a round",
            )?;
        }
        refuse(
            self.rows
                .is_some_and(|rows| self.layout != Layout::Long || !(2..=MAX_CANDIDATES).contains(&rows)),
            "rows",
            "it belongs to layout = \"long\", and is from 2 to 4096",
        )?;
        let lines = self.layout == Layout::Dsjson;
        refuse(lines && !self.header.is_empty(), "header", "lines of JSON have names: leave it out")?;
        let joined = "lines of JSON hold all values of a decision: leave it out";
        refuse(lines && !self.tables.is_empty(), "[tables]", joined)?;
        refuse(
            !wide && self.tables.values().any(JoinedTable::is_of_candidates),
            "[tables]",
            "key = \"{candidate}\" belongs to layout = \"wide\": name the column that names the candidate of a row",
        )?;
        refuse(
            self.identity_used() && self.candidates.is_empty() && self.layout == Layout::Long,
            "candidates",
            "the candidate is a feature, so list the names in the order of the arms; or drop identity and the interactions \
             with `candidate`",
        )?;
        refuse(
            self.propensity.is_some() && !self.is_logged() && self.layout != Layout::Dsjson,
            "propensity",
            "it belongs to logged actions: name chosen and reward too",
        )?;
        let (n, arms) = (self.candidates.len(), self.arms.unwrap_or(2));
        refuse(n == 1 || n > MAX_CANDIDATES, "candidates", "2 to 4096 candidates are possible")?;
        refuse(!(2..=MAX_CANDIDATES).contains(&arms), "arms", "it must be from 2 to 4096")?;
        refuse(
            n > 0 && self.arms.is_some_and(|arms| arms != n),
            "arms",
            "`candidates` lists another number",
        )?;
        let mut sorted = self.candidates.clone();
        sorted.sort_unstable();
        sorted.dedup();
        refuse(sorted.len() != n, "candidates", "a name occurs twice")?;
        if let Some([zero, one]) = self.reward_range {
            let fine = zero.is_finite() && one.is_finite() && zero != one;
            refuse(
                !fine,
                "reward_range",
                "give two different numbers: the values of reward 0 and of reward 1",
            )?;
        }
        if let Some(pattern) = &self.pattern {
            let once = |part: &str| pattern.matches(part).count() == 1;
            refuse(
                !once("{feature}") || !once("{candidate}"),
                "pattern",
                "it must hold {feature} and {candidate}, each once",
            )?;
        }
        refuse(
            self.project.is_some_and(|p| !(1..=MAX_WIDE).contains(&p.features)),
            "project, features",
            "it must be from 1 to 512",
        )?;
        if let Some(score) = &self.score {
            refuse(
                self.project.is_some(),
                "project",
                "score features replace a projection: leave out one of the two",
            )?;
            if let Some(column) = &score.column {
                let alone = self.context.is_empty()
                    && !self.previous
                    && self.candidate.len() == 1
                    && self.candidate.get(column) == Some(&Encoding::Plain);
                let reason = format!(
                    "the predictions of another model take the place of all features: [candidate] must have {column} = \"none\" and \
                     nothing else, [context] nothing, and previous must be left out"
                );
                refuse(!alone, "score, column", &reason)?;
            }
        }
        refuse(
            self.previous && self.user.is_none(),
            "previous",
            "name the column of the user, whose last choice it is",
        )?;
        refuse(
            self.previous && self.chosen.is_none() && self.layout != Layout::Dsjson,
            "previous",
            "it needs the column of the choice: name chosen",
        )
    }

    /// Whether only the reward of one action a round is known: a choice column and a reward column that is
    /// not that of every candidate.
    pub fn is_logged(&self) -> bool {
        match self.layout {
            Layout::Dsjson => true,
            Layout::Long => self.chosen.is_some() && self.reward.is_some(),
            Layout::Wide => self.reward.as_ref().is_some_and(|r| !r.contains("{candidate}")),
        }
    }

    /// The values of reward 0 and of reward 1, with the default of the layout.
    pub fn rewards(&self) -> [f64; 2] {
        let cost = self.layout == Layout::Dsjson && self.reward.is_none();
        self.reward_range.unwrap_or(if cost { [0.0, -1.0] } else { [0.0, 1.0] })
    }

    /// The reward, from 0 to 1, of a reward in the units of the file: that which a reader of the file has.
    /// Without `reward_range` it is the value itself. Costs of `_label_cost`, which files need no range for,
    /// are mapped only where it is written, as `[0, -1]`: applications that have no such file know rewards.
    ///
    /// # Errors
    /// [`Error::Reward`] for a value outside the range.
    pub fn reward_of(&self, value: f64) -> Result<f64, Error> {
        let reward = reward_in(self.reward_range.unwrap_or([0.0, 1.0]), value);
        reward.ok_or(Error::Reward { value, range: self.reward_range })
    }

    /// Whether an arm is the same candidate in all rounds: in wide tables, where candidates have names, and
    /// where the candidate is a feature.
    pub fn is_fixed(&self) -> bool {
        self.layout == Layout::Wide || !self.candidates.is_empty() || self.identity_used()
    }

    /// The schema of the features that a score is computed from: with an intercept, and with the context by
    /// itself. Fixed candidates have coefficients of their own, which take the place of products with the
    /// candidate.
    pub(crate) fn before_score(&self) -> Schema {
        let mut schema = Schema { bias: true, interactions_only: false, identity: false, ..self.clone() };
        schema.interactions.retain(|pair| !pair.iter().any(|name| name == "candidate"));
        schema
    }

    /// Whether the one-hot of the candidate is computed.
    pub(crate) fn identity_used(&self) -> bool {
        self.identity || self.interactions.iter().flatten().any(|name| name == "candidate")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(reward_range: Option<[f64; 2]>) -> Schema {
        Schema { reward_range, ..Schema::default() }
    }

    #[test]
    fn rewards_are_mapped_by_the_range_of_the_schema() {
        let euros = with(Some([0.0, 50.0]));
        assert_eq!([0.0, 12.5, 50.0].map(|value| euros.reward_of(value)), [Ok(0.0), Ok(0.25), Ok(1.0)]);
        let costs = with(Some([0.0, -1.0]));
        assert_eq!(costs.reward_of(-0.25), Ok(0.25));
        assert_eq!(with(None).reward_of(0.3), Ok(0.3));
        // Ends that are not exact in binary.
        assert_eq!(with(Some([0.1, 0.3])).reward_of(0.1 + 0.2), Ok(1.0));
    }

    #[test]
    fn rewards_outside_the_range_are_refused_with_range_and_value() {
        let say = |range, value| with(range).reward_of(value).unwrap_err().to_string();
        assert_eq!(
            say(Some([0.0, 50.0]), 50.5),
            "the reward 50.5 is outside reward_range = [0, 50]: give one between the values of reward 0 and of reward 1"
        );
        assert_eq!(
            say(None, 20.0),
            "the reward 20 is outside 0 to 1, and the schema has no reward_range: set it to the values of reward 0 and of reward 1"
        );
        for value in [-1e-6, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(
                with(Some([0.0, 50.0])).reward_of(value).is_err() && with(None).reward_of(value).is_err()
            );
        }
        // A range whose length is beyond double precision maps nothing to a number that is none.
        let wide = with(Some([f64::MIN, f64::MAX]));
        assert!(wide.reward_of(f64::MAX).is_err());
    }
}
