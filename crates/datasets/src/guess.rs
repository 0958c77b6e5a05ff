//! A first schema for a file that has none.

use crate::Error;
use crate::check::{shown, words};
use crate::dsjson::{Flattener, Lines, candidates};
use crate::table::{Row, Table};
use schema::{Cell, Encoding, Layout, Projection, Schema};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

/// The most features that keys of encrypted bandits carry.
const KEY_FEATURES: usize = 16;
/// The most values of a column that are told apart.
const MAX_DISTINCT: usize = 256;
/// The most categories for which a one-hot encoding is proposed.
const FEW: usize = 12;
/// The most candidates of a logged action. Keys of encrypted bandits have room for as many.
const MAX_ARMS: usize = 64;
/// The most columns that are looked at.
const MAX_COLUMNS: usize = 4096;

/// What was seen in a file, and the schema proposed for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    /// The schema.
    pub schema: Schema,
    /// What was seen in each column or field.
    pub columns: Vec<ColumnSeen>,
    /// Number of rows.
    pub rows: u64,
    /// Why parts of the schema are as they are, and what it leaves out.
    pub notes: Vec<String>,
}

/// What was seen in a column or field.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSeen {
    /// Its name.
    pub name: String,
    /// Number of rows in which it has a value.
    pub values: u64,
    /// Number of rows in which it has none.
    pub missing: u64,
    /// Number of values that are no numbers.
    pub texts: u64,
    /// Least and largest number; infinite where there is none.
    pub range: [f64; 2],
    /// Whether all numbers are whole.
    pub whole: bool,
    /// The values, up to 256 of them.
    pub distinct: BTreeSet<String>,
    /// Whether there are more.
    pub more: bool,
    /// Sum of the numbers.
    sum: f64,
}

impl ColumnSeen {
    fn new(name: &str) -> Self {
        ColumnSeen {
            name: name.into(),
            values: 0,
            missing: 0,
            texts: 0,
            range: [f64::INFINITY, f64::NEG_INFINITY],
            whole: true,
            distinct: BTreeSet::new(),
            more: false,
            sum: 0.0,
        }
    }

    fn see(&mut self, cell: &Cell) {
        match cell {
            Cell::Missing => {
                self.missing += 1;
                return;
            }
            Cell::Number(x) => {
                self.range = [self.range[0].min(*x), self.range[1].max(*x)];
                self.whole &= x.fract() == 0.0;
                self.sum += x;
            }
            Cell::Text(_) => self.texts += 1,
        }
        self.values += 1;
        if !self.more {
            let text: String = cell.to_string().chars().take(80).collect();
            self.more = self.distinct.len() == MAX_DISTINCT && !self.distinct.contains(&text);
            if !self.more {
                self.distinct.insert(text);
            }
        }
    }

    /// Whether all values are 0 or 1, and both occur.
    fn is_binary(&self) -> bool {
        self.texts == 0 && self.whole && self.range == [0.0, 1.0]
    }

    fn is_constant(&self) -> bool {
        !self.more && self.distinct.len() <= 1
    }

    /// The encoding proposed; `None` for a column that is no feature, with the reason.
    fn encoding(&self) -> Result<Encoding, &'static str> {
        if self.values == 0 {
            return Err("it has no value");
        }
        if self.is_constant() {
            return Err("it is constant");
        }
        if self.texts > 0 {
            return match self.distinct.len() {
                _ if self.more && self.texts as f64 > 0.5 * self.values as f64 && self.values < 1000 => {
                    Err("nearly every row has another text")
                }
                n if !self.more && n <= FEW => Ok(Encoding::OneHot),
                _ => Ok(Encoding::Hash(8)),
            };
        }
        let mean = self.sum / self.values as f64;
        Ok(match self.range {
            _ if self.is_binary() => Encoding::Plain,
            // A few large values would leave nothing of the others.
            [least, most] if least >= 0.0 && most > 50.0 * mean => Encoding::Log,
            _ => Encoding::MinMax,
        })
    }
}

/// Proposes a schema for a file, from its names and values.
///
/// - Cost: one pass. Memory: 256 values of each column.
///
/// # Errors
/// [`Error::File`] if the file cannot be read, or nothing in it looks like a choice or a reward.
pub fn guess(path: &Path) -> Result<Guess, Error> {
    let mut start = [0; 64];
    let got = crate::table::open(path)?.read(&mut start).map_err(|e| Error::file(path, 0, e.to_string()))?;
    let json = path.extension().is_some_and(|e| e == "json" || e == "jsonl" || e == "dsjson");
    if json || start[..got].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return guess_dsjson(path);
    }
    let mut table = Table::open(path)?;
    if table.header().len() > MAX_COLUMNS {
        let reason = format!(
            "there are {} columns, and {MAX_COLUMNS} are looked at: write a schema",
            table.header().len()
        );
        return Err(Error::file(path, 1, reason));
    }
    let mut columns: Vec<ColumnSeen> = table.header().iter().map(|name| ColumnSeen::new(name)).collect();
    let (mut row, mut rows) = (Row::default(), 0);
    while table.read(&mut row)? {
        rows += 1;
        columns.iter_mut().zip(&row.cells).for_each(|(column, cell)| column.see(&Cell::parse(cell)));
    }
    if rows == 0 {
        return Err(Error::file(path, 1, "no rows follow the header"));
    }
    // A column without a name is a row number.
    columns.retain(|column| !column.name.is_empty());
    let mut guess = Guess { schema: Schema::default(), columns, rows, notes: Vec::new() };
    if !guess.wide() {
        guess.long(path)?;
    }
    guess.finish();
    Ok(guess)
}

const CHOSEN: &[&str] =
    &["choice", "chosen", "choose", "selected", "bought", "action", "arm", "decision", "pick"];
const REWARD: &[&str] =
    &["reward", "rating", "click", "clicked", "stars", "score", "purchase", "payoff", "outcome", "label"];
const PROPENSITY: &[&str] =
    &["propensity", "propensity_score", "pscore", "probability", "prob", "p_action", "action_prob"];
const USER: &[&str] = &[
    "user",
    "user_id",
    "userid",
    "id",
    "household",
    "customer",
    "person",
    "individual",
    "visitor",
    "patient",
    "patient_id",
    "panelist",
    "case",
];
const TIME: &[&str] = &["time", "timestamp", "date", "datetime", "day", "week", "t", "ts"];
const ROUND: &[&str] = &[
    "round",
    "choice_id",
    "choiceid",
    "chid",
    "session",
    "session_id",
    "obs",
    "query_id",
    "impression",
    "impression_id",
    "event_id",
    "view_id",
    "visit_id",
    "request_id",
];
const ITEM: &[&str] = &[
    "item",
    "item_id",
    "itemid",
    "candidate",
    "alternative",
    "alt",
    "mode",
    "product",
    "movie",
    "movie_id",
    "brand",
    "ad",
    "article",
    "book",
    "tile",
    "content",
    "banner",
    "offer",
    "variant",
    "course",
    "treatment",
];
const ROW: &[&str] = &["rownames", "row", "rowid", "index", "unnamed: 0"];

/// A pattern, features, and candidates.
type NameGrid = (String, Vec<String>, Vec<String>);

/// Rows that share the columns of their round.
struct RowGroups {
    /// Sizes of groups, with their numbers.
    sizes: BTreeMap<usize, u64>,
    /// Columns that differ within a group.
    varies: BTreeSet<String>,
    /// The candidates, if all groups have the same.
    candidates: Option<BTreeSet<String>>,
    /// Whether each group has one row whose `chosen` is 1.
    one_chosen: bool,
}

impl Guess {
    /// The first name of `names` that a column has, in any case.
    fn named(&self, names: &[&str]) -> Option<String> {
        let find = |wanted: &&str| self.columns.iter().find(|c| c.name.eq_ignore_ascii_case(wanted));
        names.iter().find_map(find).map(|c| c.name.clone())
    }

    fn column(&self, name: &str) -> Option<&ColumnSeen> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// A table whose columns are a grid of features and candidates, or a log with an action a row.
    fn wide(&mut self) -> bool {
        let grid = self.grid();
        let (pattern, features, arms) = match grid {
            Some(grid) => grid,
            None => return self.log(true),
        };
        let of = |feature: &str, arm: &str| pattern.replace("{feature}", feature).replace("{candidate}", arm);
        let in_grid: BTreeSet<String> =
            features.iter().flat_map(|f| arms.iter().map(move |arm| of(f, arm))).collect();
        let schema = &mut self.schema;
        schema.pattern = Some(pattern.clone());
        let rewards = features.iter().find(|f| REWARD.iter().any(|name| f.eq_ignore_ascii_case(name)));
        schema.reward = rewards.map(|f| of(f, "{candidate}"));
        let rewards = rewards.cloned();
        // The choice: a column outside of the grid that names candidates.
        let written = |column: &ColumnSeen| -> Option<String> {
            let shared = |text: &String, arm: &String| text.strip_suffix(arm.as_str()).map(str::to_string);
            let first = column.distinct.iter().next()?;
            let prefix = arms.iter().filter_map(|arm| shared(first, arm)).min_by_key(String::len)?;
            let all = column.distinct.iter().all(|text| {
                text.strip_prefix(prefix.as_str()).is_some_and(|rest| arms.iter().any(|arm| arm == rest))
            });
            (all && !column.more && column.distinct.len() > 1).then_some(prefix)
        };
        let outside = self.columns.iter().filter(|c| !in_grid.contains(&c.name));
        let mut choices: Vec<(&ColumnSeen, String)> =
            outside.filter_map(|c| Some((c, written(c)?))).collect();
        choices.sort_by_key(|(c, _)| !CHOSEN.iter().any(|name| c.name.eq_ignore_ascii_case(name)));
        let choice = choices.first().map(|(c, prefix)| (c.name.clone(), prefix.clone()));
        for (other, _) in choices.iter().skip(1).filter(|_| rewards.is_none()) {
            self.notes.push(format!("leakage? column {} names candidates too, and is left out", other.name));
        }
        let left: Vec<String> = choices.iter().map(|(c, _)| c.name.clone()).collect();
        let (reward, propensity) = (self.named(REWARD), self.named(PROPENSITY));
        if let Some((name, prefix)) = choice {
            self.schema.chosen = Some(name);
            self.schema.chosen_pattern = (!prefix.is_empty()).then(|| format!("{prefix}{{candidate}}"));
            if self.schema.reward.is_none() {
                self.schema.reward = reward.filter(|name| !left.contains(name));
                self.schema.propensity = propensity.filter(|_| self.schema.reward.is_some());
            }
        } else if self.schema.reward.is_none() {
            return false;
        }
        self.schema.candidates = arms.clone();
        self.schema.user = self.named(USER).filter(|name| !in_grid.contains(name));
        self.schema.time = self.named(TIME).filter(|name| !in_grid.contains(name));
        self.schema.identity = true;
        self.schema.previous = self.schema.user.is_some() && self.schema.chosen.is_some();
        for feature in &features {
            if Some(feature) == rewards.as_ref() {
                continue;
            }
            let whole = self.merged(&of(feature, "{candidate}"), &arms);
            self.offer(feature, &whole, true);
        }
        let mut used: BTreeSet<String> = in_grid;
        used.extend(left);
        self.rest(&used, &BTreeSet::new());
        true
    }

    /// What was seen in the columns of a feature, for all candidates.
    fn merged(&self, pattern: &str, arms: &[String]) -> ColumnSeen {
        let mut whole = ColumnSeen::new(pattern);
        for arm in arms {
            let Some(column) = self.column(&pattern.replace("{candidate}", arm)) else { continue };
            whole.values += column.values;
            whole.missing += column.missing;
            whole.texts += column.texts;
            whole.range = [whole.range[0].min(column.range[0]), whole.range[1].max(column.range[1])];
            whole.whole &= column.whole;
            whole.sum += column.sum;
            whole.more |= column.more;
            whole.distinct.extend(column.distinct.iter().cloned());
        }
        whole
    }

    /// The pattern, features and candidates of the largest full grid among the names of columns.
    fn grid(&self) -> Option<NameGrid> {
        let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        type Split = fn(&str) -> Option<(&str, &str)>;
        let digits: Split = |name| {
            let at = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            Some(name.split_at(at))
        };
        let splits: [(&str, Split); 7] = [
            ("{feature}.{candidate}", |name| name.split_once('.')),
            ("{feature}:{candidate}", |name| name.split_once(':')),
            ("{feature}_{candidate}", |name| name.rsplit_once('_')),
            ("{feature}-{candidate}", |name| name.rsplit_once('-')),
            ("{feature}{candidate}", digits),
            ("{candidate}.{feature}", |name| name.split_once('.').map(|(a, b)| (b, a))),
            ("{candidate}_{feature}", |name| name.split_once('_').map(|(a, b)| (b, a))),
        ];
        let mut best: Option<(usize, NameGrid)> = None;
        for (pattern, split) in splits {
            // Features in the order of the file, each with its candidates.
            let mut of: Vec<(&str, Vec<&str>)> = Vec::new();
            for name in &names {
                let Some((feature, arm)) = split(name).filter(|(f, a)| !f.is_empty() && !a.is_empty()) else {
                    continue;
                };
                match of.iter_mut().find(|(have, _)| *have == feature) {
                    Some((_, arms)) => arms.push(arm),
                    None => of.push((feature, vec![arm])),
                }
            }
            for (_, arms) in of.iter().filter(|(_, arms)| arms.len() >= 2) {
                let whole: Vec<&str> = of
                    .iter()
                    .filter(|(_, have)| arms.iter().all(|arm| have.contains(arm)))
                    .map(|(f, _)| *f)
                    .collect();
                let size = whole.len() * arms.len();
                // A single feature needs more than a common ending to be a grid.
                if best.as_ref().is_none_or(|(most, _)| size > *most) && (whole.len() > 1 || arms.len() > 1) {
                    let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
                    best = Some((size, (pattern.into(), owned(&whole), owned(arms))));
                }
            }
        }
        best.map(|(_, grid)| grid)
    }

    /// The column of a logged action: one that is named like a choice or an item, and has a few values.
    fn action(&self) -> Option<&ColumnSeen> {
        let few = |c: &&ColumnSeen| {
            !c.more && (2..=MAX_ARMS).contains(&c.distinct.len()) && !c.is_binary() && !boolean(c)
        };
        let named = |name: &&str| self.columns.iter().filter(few).find(|c| c.name.eq_ignore_ascii_case(name));
        CHOSEN.iter().chain(ITEM).find_map(named)
    }

    /// A log with an action and its reward a row, where candidates have no features. `sure` is whether it is
    /// one only if it has probabilities of the actions too.
    fn log(&mut self, sure: bool) -> bool {
        let reward = CHOSEN
            .iter()
            .filter_map(|name| self.named(&[name]))
            .find(|name| self.column(name).is_some_and(|c| c.is_binary() || boolean(c)));
        let (Some(action), Some(reward)) = (self.action(), self.named(REWARD).or(reward)) else {
            return false;
        };
        let propensity = self.named(PROPENSITY);
        if sure && propensity.is_none() {
            return false;
        }
        let (chosen, candidates) = (action.name.clone(), action.distinct.iter().cloned().collect());
        if propensity.is_none() {
            self.notes.push(
                "No column has the probability with which the action was chosen, and without it `data evaluate` cannot estimate. If \
                 actions were chosen at random, add a column of 1/candidates, and name it: propensity = \"COLUMN\""
                    .into(),
            );
        }
        self.schema = Schema {
            candidates,
            chosen: Some(chosen),
            reward: Some(reward),
            propensity,
            user: self.named(USER),
            time: self.named(TIME),
            ..Schema::default()
        };
        self.rest(&BTreeSet::new(), &BTreeSet::new());
        let context = &self.schema.context;
        // The products with categories add up to the one-hot of the candidate.
        self.schema.identity = !context.values().any(|encoding| *encoding == Encoding::OneHot);
        self.schema.interactions =
            context.keys().map(|name| [name.clone(), "candidate".to_string()]).collect();
        self.schema.interactions_only = !context.is_empty();
        true
    }

    /// A table with a row for each candidate.
    fn long(&mut self, path: &Path) -> Result<(), Error> {
        let chosen = CHOSEN.iter().find_map(|name| {
            self.columns.iter().find(|c| c.name.eq_ignore_ascii_case(name) && (c.is_binary() || boolean(c)))
        });
        let chosen = chosen.map(|c| c.name.clone());
        let reward = self.named(REWARD);
        if chosen.is_none() && reward.is_none() {
            let names: Vec<String> = self.columns.iter().map(|c| c.name.clone()).collect();
            let reason = format!(
                "no column looks like a choice ({}) or a reward ({}); the columns are {}: write a schema by docs/data.md",
                CHOSEN[..3].join(", "),
                REWARD[..3].join(", "),
                shown(&names)
            );
            return Err(Error::file(path, 1, reason));
        }
        self.schema = Schema { layout: Layout::Long, chosen, reward, ..Schema::default() };
        self.schema.user = self.named(USER);
        self.schema.time = self.named(TIME);
        self.schema.round = self.named(ROUND).into_iter().collect();
        self.schema.candidate_column = self.named(ITEM);
        if self.schema.chosen.is_some() && self.schema.reward.is_some() {
            self.schema.propensity = self.named(PROPENSITY);
        }
        if let Some(range) = self.schema.reward.as_ref().and_then(|name| self.column(name)).map(|c| c.range)
            && range[0] < range[1]
            && (range[0] < 0.0 || range[1] > 1.0)
        {
            self.schema.reward_range = Some(range);
        }
        let keys = match (self.schema.round.is_empty(), &self.schema.user, &self.schema.time) {
            (false, ..) => self.schema.round.clone(),
            (true, None, None) => {
                let reason = "no column looks like a user, a time or a round, which the rows of a round share: write a schema by \
                              docs/data.md, with `round`";
                return Err(Error::file(path, 1, reason));
            }
            (true, user, time) => user.iter().chain(time).cloned().collect(),
        };
        let RowGroups { sizes, varies, candidates: names, one_chosen } = self.groups(path, &keys)?;
        let (&most, &rounds) = sizes.iter().max_by_key(|(_, n)| **n).unwrap_or((&0, &0));
        if most < 2 {
            if self.log(false) {
                return Ok(());
            }
            let reason = format!(
                "most of the rounds that {} name have a single row, where the candidates of a round are needed. If a row is a round \
                 whose shown candidate and reward were logged, write the schema layout = \"wide\", candidates = [\"a\", \"b\"], \
                 chosen = \"COLUMN\", reward = \"COLUMN\"; else name the columns that the rows of a round share, as `round`. \
                 docs/data.md has every entry",
                keys.join(" and ")
            );
            return Err(Error::file(path, 1, reason));
        }
        self.notes.push(format!(
            "{rounds} rounds have {most} rows; sizes seen: {:?}",
            sizes.keys().take(12).collect::<Vec<_>>()
        ));
        if !one_chosen && self.schema.reward.is_none() {
            self.schema.reward = self.schema.chosen.take();
            self.notes.push(format!(
                "{} is the reward of each candidate and no choice, because a round may have none or several of them",
                self.schema.reward.as_deref().unwrap_or_default()
            ));
        }
        match names {
            Some(names) if names.len() == most => {
                self.schema.candidates = names.into_iter().collect();
                self.schema.identity = true;
            }
            _ => self.schema.arms = Some(most),
        }
        self.schema.previous = self.schema.user.is_some()
            && self.schema.chosen.is_some()
            && self.schema.candidate_column.is_some()
            && self.schema.user.as_ref().is_some_and(|user| keys != [user.clone()]);
        self.rest(&keys.into_iter().collect(), &varies);
        Ok(())
    }

    /// The groups of rows that share `keys`.
    fn groups(&self, path: &Path, keys: &[String]) -> Result<RowGroups, Error> {
        let mut table = Table::open(path)?;
        let at: Vec<usize> = keys.iter().map(|name| table.column(name)).collect::<Result<_, _>>()?;
        let item = self.schema.candidate_column.as_ref().map(|name| table.column(name)).transpose()?;
        let chosen = self.schema.chosen.as_ref().map(|name| table.column(name)).transpose()?;
        let header = table.header().to_vec();
        let (mut sizes, mut varies) = (BTreeMap::new(), BTreeSet::new());
        let (mut one_chosen, mut picks) = (true, 0);
        let mut all: Option<BTreeSet<String>> = None;
        let (mut same, mut group) = (item.is_some(), BTreeSet::new());
        let (mut row, mut first, mut size) = (Row::default(), Vec::<String>::new(), 0);
        loop {
            let more = table.read(&mut row)?;
            let cells: Vec<String> = row.cells.iter().map(|cell| cell.trim().to_string()).collect();
            if size > 0 && (!more || at.iter().any(|&i| cells[i] != first[i])) {
                *sizes.entry(size).or_insert(0) += 1;
                same &= all.as_ref().is_none_or(|all| *all == group);
                all.get_or_insert_with(|| group.clone());
                group.clear();
                one_chosen &= chosen.is_none() || picks == 1;
                (size, picks) = (0, 0);
            }
            if !more {
                break;
            }
            if size == 0 {
                first.clone_from(&cells);
            }
            size += 1;
            picks += usize::from(chosen.is_some_and(|at| is_yes(&cells[at])));
            if let Some(item) = item
                && group.len() <= MAX_DISTINCT
            {
                group.insert(cells[item].clone());
            }
            for (name, _) in header.iter().zip(cells.iter().zip(&first)).filter(|(_, (a, b))| a != b) {
                varies.insert(name.clone());
            }
        }
        Ok(RowGroups { sizes, varies, candidates: all.filter(|_| same), one_chosen })
    }

    /// Offers every column that has no other use: to candidates if it is in `varies`, else to the context.
    fn rest(&mut self, used: &BTreeSet<String>, varies: &BTreeSet<String>) {
        let s = &self.schema;
        let taken: BTreeSet<String> =
            [&s.chosen, &s.reward, &s.propensity, &s.user, &s.time, &s.candidate_column]
                .into_iter()
                .flatten()
                .chain(&s.round)
                .chain(used)
                .cloned()
                .collect();
        for column in self.columns.clone() {
            let row_number = ROW.iter().any(|name| column.name.eq_ignore_ascii_case(name));
            if !taken.contains(&column.name) && !row_number {
                self.offer(&column.name, &column, varies.contains(&column.name));
            }
        }
        // Names of candidates that are no fixed arms are features by their hash.
        if let Some(item) = self.schema.candidate_column.clone().filter(|_| self.schema.candidates.is_empty())
        {
            self.schema.candidate.insert(item, Encoding::Hash(8));
        }
    }

    fn offer(&mut self, name: &str, seen: &ColumnSeen, of_candidate: bool) {
        match seen.encoding() {
            Ok(encoding) => {
                let group = if of_candidate { &mut self.schema.candidate } else { &mut self.schema.context };
                group.insert(name.into(), encoding);
            }
            Err(reason) => self.notes.push(format!("{name} is left out: {reason}")),
        }
    }

    /// Products of the context with candidates are what tells candidates apart by it.
    fn finish(&mut self) {
        let features = &self.schema.candidate;
        let partner =
            features.keys().next().filter(|_| !self.schema.identity).map_or("candidate", String::as_str);
        if let Some(first) = self.schema.context.keys().next().filter(|_| self.schema.interactions.is_empty())
        {
            let pair = format!("[[{}, {}]]", toml_string(first), toml_string(partner));
            self.notes.push(format!(
                "These values are the same for all candidates, and change no choice by themselves. To use one, put it into [context] \
                 and multiply it with a feature of candidates: interactions = {pair}"
            ));
            let line =
                |(name, encoding): (&String, &Encoding)| format!("    {} = \"{encoding}\"", toml_key(name));
            self.notes.extend(self.schema.context.iter().map(line));
            self.schema.context.clear();
        }
        let missing = self.columns.iter().map(|c| c.missing).max().unwrap_or(0);
        if missing as f64 > 0.05 * self.rows as f64 {
            self.schema.missing = schema::Missing::Mean;
            self.notes.push(format!(
                "missing = \"mean\", because a column lacks {missing} of {} values",
                self.rows
            ));
        }
    }

    /// Proposes a projection if there are more features than keys carry: `wide` before it.
    pub fn project(&mut self, wide: usize) {
        if wide > KEY_FEATURES {
            let by = schema::ProjectionRule::Components;
            self.schema.project = Some(Projection { features: KEY_FEATURES, by, seed: 0 });
        }
    }

    /// The schema as a file that can be edited, with what was seen as comments.
    pub fn toml(&self, file: &Path) -> String {
        let s = &self.schema;
        let quoted = |text: &str| toml_string(text);
        let list = |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let mut out = format!(
            "# Schema of {}: {} rows, {} columns. docs/data.md explains every entry.\n",
            file.display(),
            self.rows,
            self.columns.len()
        );
        let mut line = |key: &str, value: Option<String>, comment: &str| {
            if let Some(value) = value {
                let comment = if comment.is_empty() { String::new() } else { format!("  # {comment}") };
                out.push_str(&format!("{key} = {value}{comment}\n"));
            }
        };
        let text = |value: &Option<String>| value.as_deref().map(quoted);
        let truth = |value: bool| value.then(|| "true".to_string());
        let layout = match s.layout {
            Layout::Wide => "\"wide\"",
            Layout::Long => "\"long\"",
            Layout::Dsjson => "\"dsjson\"",
        };
        line("layout", Some(layout.into()), words(s.layout));
        line("pattern", text(&s.pattern), "how columns are named");
        line("candidates", (!s.candidates.is_empty()).then(|| format!("[{}]", list(&s.candidates))), "");
        line(
            "arms",
            s.arms.map(|n| n.to_string()),
            "candidates of a round; rounds with another number are dropped",
        );
        line("candidate_column", text(&s.candidate_column), "");
        line("chosen", text(&s.chosen), "");
        line("chosen_pattern", text(&s.chosen_pattern), "");
        line("reward", text(&s.reward), "");
        line(
            "reward_range",
            s.reward_range.map(|[a, b]| format!("[{a:?}, {b:?}]")),
            "values of reward 0 and of reward 1",
        );
        line("propensity", text(&s.propensity), "probability of the logged action");
        line("user", text(&s.user), "");
        line("time", text(&s.time), "");
        line(
            "round",
            (!s.round.is_empty()).then(|| format!("[{}]", list(&s.round))),
            "columns whose values name a round",
        );
        line("missing", (s.missing != schema::Missing::Drop).then(|| "\"mean\"".into()), "");
        line("identity", truth(s.identity), "one feature for each candidate");
        line("previous", truth(s.previous), "1 for the candidate that the user chose last");
        let pairs: Vec<String> = s.interactions.iter().map(|pair| format!("[{}]", list(pair))).collect();
        line(
            "interactions_only",
            truth(s.interactions_only),
            "the context only in products, since all candidates share it",
        );
        line("interactions", (!pairs.is_empty()).then(|| format!("[{}]", pairs.join(", "))), "");
        if let Some(project) = s.project {
            line(
                "project",
                Some(format!("{{ features = {} }}", project.features)),
                "principal components; keys carry up to 16 features",
            );
        }
        for (name, group) in [("candidate", &s.candidate), ("context", &s.context)] {
            if !group.is_empty() {
                out.push_str(&format!("\n[{name}]\n"));
            }
            for (feature, encoding) in group {
                out.push_str(&format!("{} = \"{encoding}\"\n", toml_key(feature)));
            }
        }
        for note in &self.notes {
            out.push_str(&format!("# {}\n", note.replace(['\n', '\r'], " ")));
        }
        out
    }
}

fn boolean(column: &ColumnSeen) -> bool {
    let word = |text: &String| {
        ["0", "1", "true", "false", "yes", "no"].contains(&text.to_ascii_lowercase().as_str())
    };
    !column.more && column.distinct.len() == 2 && column.distinct.iter().all(word)
}

fn is_yes(cell: &str) -> bool {
    ["1", "true", "yes"].contains(&cell.to_ascii_lowercase().as_str())
}

/// A basic string of TOML.
fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn toml_key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { name.into() } else { toml_string(name) }
}

fn guess_dsjson(path: &Path) -> Result<Guess, Error> {
    let mut lines = Lines::open(path)?;
    let (mut context, mut candidate): (BTreeMap<String, ColumnSeen>, BTreeMap<String, ColumnSeen>) =
        Default::default();
    let mut timed = false;
    let (mut rows, mut sizes, mut probable) = (0, BTreeMap::<usize, u64>::new(), 0);
    let add = |into: &mut BTreeMap<String, ColumnSeen>, values: BTreeMap<String, Cell>| {
        for (name, cell) in values {
            if into.len() < MAX_COLUMNS || into.contains_key(&name) {
                into.entry(name.clone()).or_insert_with(|| ColumnSeen::new(&name)).see(&cell);
            }
        }
    };
    let mut costs = [f64::INFINITY, f64::NEG_INFINITY];
    while let Some((line, object)) = lines.read()? {
        rows += 1;
        let Some(multi) = candidates(&object) else { continue };
        *sizes.entry(multi.len()).or_insert(0) += 1;
        timed |= object.contains_key("Timestamp");
        probable += u64::from(object.contains_key("_label_probability"));
        if let Some(cost) = object.get("_label_cost").and_then(serde_json::Value::as_f64) {
            costs = [costs[0].min(cost), costs[1].max(cost)];
        }
        let mut flattener = Flattener::new(path, line);
        add(&mut context, flattener.flatten(&object["c"])?);
        for own in multi {
            add(&mut candidate, flattener.flatten(own)?);
        }
    }
    let Some((&k, &rounds)) = sizes.iter().max_by_key(|(_, n)| **n) else {
        let reason = "no line is a decision: each needs an object c with a list _multi of candidates, as docs/data.md describes";
        return Err(Error::file(path, 0, reason));
    };
    let schema = Schema { layout: Layout::Dsjson, arms: Some(k), ..Schema::default() };
    let mut guess = Guess { schema, columns: Vec::new(), rows, notes: Vec::new() };
    guess.notes.push(format!("{rounds} lines have {k} candidates; {probable} of {rows} name a probability"));
    if costs[0] < costs[1] && (costs[0] < -1.0 || costs[1] > 0.0) {
        // A cost of 0 to 1 or more is the lower the better: the smallest is reward 1.
        guess.schema.reward_range = Some([costs[1], costs[0]]);
    }
    guess.schema.time = timed.then(|| "Timestamp".into());
    let is_user = |name: &&String| USER.iter().any(|user| name.rsplit('.').next() == Some(*user));
    guess.schema.user = context.keys().find(is_user).cloned();
    let user = guess.schema.user.clone();
    for (name, seen) in context.iter().filter(|(name, _)| Some(*name) != user.as_ref()) {
        guess.offer(name, seen, false);
    }
    for (name, seen) in &candidate {
        guess.offer(name, seen, true);
    }
    // Names of both: a line may give them at either place.
    let both: Vec<String> = guess
        .schema
        .context
        .keys()
        .filter(|name| guess.schema.candidate.contains_key(*name))
        .cloned()
        .collect();
    guess.schema.context.retain(|name, _| !both.contains(name));
    if guess.schema.candidate.is_empty() {
        guess.schema.identity = true;
        guess.schema.interactions =
            guess.schema.context.keys().map(|name| [name.clone(), "candidate".to_string()]).collect();
    }
    guess.columns = context.into_values().chain(candidate.into_values()).collect();
    guess.finish();
    Ok(guess)
}
