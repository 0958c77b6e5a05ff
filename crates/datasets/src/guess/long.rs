//! A table with a row for each candidate of a round.

use super::column::{ColumnSeen, FEW, MAX_DISTINCT};
use super::draft::in_order;
use super::names::{AVAILABLE, CHOSEN, ITEM, PLACE, PROPENSITY, REWARD, ROUND, has_word, likeness};
use super::reading::{Evidence, Kind, Reading};
use super::sample::Groups;
use super::{Draft, Seen};
use schema::{Encoding, Layout, Schema};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// The most columns that are tried as parts of a key.
const MAX_KEYS: usize = 48;
/// The most columns of which pairs are tried.
const MAX_PAIRS: usize = 12;
/// The least number of rounds whose choices are evidence by themselves.
const ENOUGH_ROUNDS: usize = 10;

/// Columns whose values name a round, with the rounds.
struct Keyed {
    key: Vec<String>,
    groups: Groups,
    /// Whether a name says that it is a key.
    named: bool,
}

impl Seen {
    /// Readings of a table whose rows are candidates.
    pub(super) fn long_readings(&self) -> Vec<Reading> {
        let keys = self.keys();
        let item = self.item(&keys);
        let mut readings = Vec::new();
        for column in self.columns.iter().filter(|column| column.is_binary()) {
            readings.extend(self.chosen_rows(column, &keys, item.as_deref()));
            readings.extend(self.rows_apart(column));
        }
        if let Some(item) = &item {
            let columns = self.columns.iter().filter(|column| column.name != *item && !column.is_binary());
            readings.extend(columns.filter_map(|column| self.chosen_names(column, &keys, item)));
        }
        if let Some(reward) = self.named_reward() {
            readings.extend(self.rewarded_rows(reward, &keys, item.as_deref()));
        }
        readings
    }

    fn named_reward(&self) -> Option<&ColumnSeen> {
        let word = || self.columns.iter().find(|column| likeness(&column.name, REWARD) == 1);
        let chosen = || self.columns.iter().find(|c| likeness(&c.name, CHOSEN) > 0 && c.is_binary());
        self.named(REWARD).or_else(word).or_else(chosen)
    }

    /// Keys that make rounds of several rows: those by name first, then single columns, then pairs.
    fn keys(&self) -> Vec<Keyed> {
        let mut keys: Vec<Keyed> = Vec::new();
        let mut add = |key: Vec<String>, named: bool| {
            if keys.iter().all(|have| have.key != key)
                && let Some(groups) = self.sample.groups(&key)
                && groups.rounds() > 1
            {
                keys.push(Keyed { key, groups, named });
            }
        };
        let rounds = || ROUND.iter().filter_map(|name| self.named(&[name])).map(Self::name);
        let (user, time) = (self.user(), self.time());
        for round in rounds() {
            add(vec![round], true);
        }
        if let (Some(user), Some(time)) = (&user, &time) {
            add(vec![user.clone(), time.clone()], true);
        }
        for name in user.iter().chain(&time) {
            add(vec![name.clone()], true);
        }
        let names: Vec<&str> = self
            .columns
            .iter()
            .filter(|column| !column.is_binary() && !column.is_constant())
            .map(|column| column.name.as_str())
            .take(MAX_KEYS)
            .collect();
        let running = self.sample.running(&names);
        for name in &running {
            add(vec![name.clone()], false);
        }
        let leading: Vec<String> =
            user.into_iter().chain(rounds()).chain(running.iter().take(MAX_PAIRS).cloned()).collect();
        for (i, a) in leading.iter().enumerate() {
            for b in leading[i + 1..].iter().filter(|b| *b != a) {
                add(vec![a.clone(), b.clone()], false);
            }
        }
        keys
    }

    /// The column that names candidates: by its name, else the first whose values differ in each round and
    /// come again in others.
    fn item(&self, keys: &[Keyed]) -> Option<String> {
        let named = ITEM.iter().find_map(|name| self.named(&[name]));
        let word = || self.columns.iter().find(|c| likeness(&c.name, ITEM) == 1 && !c.is_binary());
        if let Some(column) = named.filter(|column| !column.is_binary()).or_else(word) {
            return Some(column.name.clone());
        }
        let names = |column: &ColumnSeen, groups: &Groups| {
            column.count() == groups.size && groups.common(&self.sample, &column.name).is_some()
        };
        let constant = || keys.iter().map(|keyed| &keyed.groups).filter(|groups| groups.are_constant());
        let tells = |column: &&ColumnSeen| {
            (2..=FEW).contains(&column.count())
                && !column.is_binary()
                && !has_word(&column.name, PLACE)
                && constant().any(|groups| names(column, groups))
        };
        self.columns.iter().find(tells).map(Self::name)
    }

    /// The reading in which a column is 1 in the row of the candidate that was chosen.
    fn chosen_rows(&self, column: &ColumnSeen, keys: &[Keyed], item: Option<&str>) -> Option<Reading> {
        if Some(column.name.as_str()) == item || has_word(&column.name, AVAILABLE) {
            return None;
        }
        let like = likeness(&column.name, CHOSEN);
        let yes: Vec<bool> =
            self.sample.numbers(&column.name, false).iter().map(|x| *x == Some(1.0)).collect();
        let picks = |round: Range<usize>| yes[round].iter().filter(|yes| **yes).count();
        let fits = |keyed: &&Keyed| keyed.groups.size > 1 && keyed.groups.most(|round| picks(round) == 1);
        // Of keys that fit, the one with the most rounds of one size, then one that is named, then the
        // shortest.
        let rank =
            |keyed: &&Keyed| (keyed.groups.are_constant(), keyed.named, std::cmp::Reverse(keyed.key.len()));
        let best = keys.iter().filter(fits).rev().max_by_key(rank)?;
        let groups = &best.groups;
        // A column that is 1 for one candidate in all rounds is a name of it.
        let place = |round: Range<usize>| round.clone().position(|row| yes[row]);
        let same = groups.each().map(place).collect::<BTreeSet<_>>().len() == 1;
        let share = groups.share(|round| picks(round) == 1);
        // A reward may be 1 for several candidates or for none, and once in every round it is a choice.
        let rewards = likeness(&column.name, REWARD) > 0 && share < 1.0;
        if like == 0 && (same || groups.rounds() < ENOUGH_ROUNDS || rewards) {
            return None;
        }
        let mut evidence = Evidence::default();
        evidence.add(like, format!("{} is named like a choice", column.name));
        let share = 100.0 * share;
        evidence.add(3, format!("it is 1 once in {share:.0} % of the rounds of {}", best.key.join(" and ")));
        if share == 100.0 && groups.are_constant() && groups.rounds() >= 2 * ENOUGH_ROUNDS {
            evidence.add(2, "rewards of single rows would not come once in so many".to_string());
        }
        self.of_groups(&mut evidence, best, item);
        let reward = self.reward_of_choice(column, &yes, item);
        if let Some(reward) = reward {
            evidence.add(1, format!("{} has values in the chosen rows alone", reward.name));
        }
        let made = self.long(best, item, Some(column), reward);
        let mut entries = format!(
            "layout = \"long\", round = [\"{}\"], chosen = \"{}\"",
            best.key.join("\", \""),
            column.name
        );
        if let Some(reward) = reward {
            entries.push_str(&format!(", reward = \"{}\"", reward.name));
        }
        Some(Reading {
            kind: Kind::Long,
            what: format!("a row for each candidate, of which one is chosen ({})", column.name),
            entries,
            evidence: evidence.points,
            why: evidence.why,
            made,
        })
    }

    /// The reading in which the rows of a round do not stand together, which is none that can be proposed.
    fn rows_apart(&self, column: &ColumnSeen) -> Option<Reading> {
        let like = likeness(&column.name, CHOSEN);
        let yes = self.sample.numbers(&column.name, false);
        let is_key = |key: &&ColumnSeen| {
            if key.name == column.name
                || key.is_constant()
                || self.sample.groups(std::slice::from_ref(&key.name)).is_some()
            {
                return false;
            }
            let mut rounds: HashMap<&str, (usize, usize)> = HashMap::new();
            for (key, yes) in self.sample.texts(&key.name).zip(&yes) {
                let round = rounds.entry(key).or_default();
                *round = (round.0 + 1, round.1 + usize::from(*yes == Some(1.0)));
            }
            let fits = rounds.values().filter(|(rows, yes)| *rows > 1 && *yes == 1).count();
            rounds.len() > ENOUGH_ROUNDS && 10 * fits >= 9 * rounds.len()
        };
        let key = self.columns.iter().filter(|_| like > 0).find(is_key)?;
        let mut evidence = Evidence::default();
        evidence.add(like, format!("{} is named like a choice", column.name));
        evidence.add(5, format!("it is 1 in one row of each {}", key.name));
        Some(Reading {
            kind: Kind::Long,
            what: format!("rows of candidates of which one is chosen ({})", column.name),
            entries: format!("layout = \"long\", round = [\"{}\"], chosen = \"{}\"", key.name, column.name),
            evidence: evidence.points,
            why: evidence.why,
            made: Err(format!("the rows of a round stand apart: sort the file by {}", key.name)),
        })
    }

    /// The reading in which a column names the candidate that was chosen, in each row of its round.
    fn chosen_names(&self, column: &ColumnSeen, keys: &[Keyed], item: &str) -> Option<Reading> {
        let items = &self.column(item)?.distinct;
        if column.more || column.distinct.len() < 2 || !column.distinct.is_subset(items) {
            return None;
        }
        let [names, picked] = [item, &column.name].map(|name| self.sample.texts(name).collect::<Vec<_>>());
        let fits = |keyed: &&Keyed| {
            keyed.groups.size > 1
                && !keyed.groups.vary(&self.sample, &column.name)
                && keyed.groups.most(|round| round.filter(|row| names[*row] == picked[*row]).count() == 1)
        };
        let best = keys.iter().find(fits)?;
        let mut evidence = Evidence::default();
        evidence.add(likeness(&column.name, CHOSEN), format!("{} is named like a choice", column.name));
        evidence.add(3, format!("it names one {item} of each round of {}", best.key.join(" and ")));
        self.of_groups(&mut evidence, best, Some(item));
        let made = self.long(best, Some(item), Some(column), None).map(|mut draft| {
            draft.schema.chosen_pattern = Some("{candidate}".into());
            draft
        });
        let key = best.key.join("\", \"");
        Some(Reading {
            kind: Kind::Long,
            what: format!("a row for each candidate, of which {} names one", column.name),
            entries: format!("layout = \"long\", round = [\"{key}\"], chosen = \"{}\"", column.name),
            evidence: evidence.points,
            why: evidence.why,
            made,
        })
    }

    /// The reward of the chosen row, if a column that is named like one has values there alone.
    fn reward_of_choice(&self, chosen: &ColumnSeen, yes: &[bool], item: Option<&str>) -> Option<&ColumnSeen> {
        let reward = self.columns.iter().find(|c| likeness(&c.name, REWARD) == 2)?;
        if reward.name == chosen.name || Some(reward.name.as_str()) == item {
            return None;
        }
        let numbers = self.sample.numbers(&reward.name, reward.has_comma());
        let others = || numbers.iter().zip(yes).filter(|(_, yes)| !**yes).map(|(x, _)| *x);
        let empty = others().filter(|x| x.is_none_or(|x| x == 0.0)).count();
        (empty as f64 >= 0.95 * others().count() as f64).then_some(reward)
    }

    /// The reading in which each candidate has a reward.
    fn rewarded_rows(&self, reward: &ColumnSeen, keys: &[Keyed], item: Option<&str>) -> Option<Reading> {
        let rank = |keyed: &&Keyed| (keyed.groups.are_constant(), std::cmp::Reverse(keyed.key.len()));
        let best = keys.iter().filter(|keyed| keyed.named && keyed.groups.size > 1).rev().max_by_key(rank)?;
        let mut evidence = Evidence::default();
        let like = likeness(&reward.name, REWARD).max(likeness(&reward.name, CHOSEN));
        evidence.add(like, format!("{} is named like a reward", reward.name));
        let varies = best.groups.vary(&self.sample, &reward.name);
        evidence.add(
            if varies { 1 } else { -2 },
            format!("{} differs within rounds of {}", reward.name, best.key.join(" and ")),
        );
        if reward.missing > reward.values {
            evidence.add(-2, format!("{} is known of each candidate", reward.name));
        }
        self.of_groups(&mut evidence, best, item);
        let mut made = self.long(best, item, None, Some(reward));
        if let Ok(draft) = &mut made
            && likeness(&reward.name, CHOSEN) > 0
        {
            draft.notes.push(format!(
                "{} is the reward of each candidate and no choice, because a round may have none or several of them",
                reward.name
            ));
        }
        Some(Reading {
            kind: Kind::Long,
            what: format!("a row for each candidate, with its reward ({})", reward.name),
            entries: format!(
                "layout = \"long\", round = [\"{}\"], reward = \"{}\"",
                best.key.join("\", \""),
                reward.name
            ),
            evidence: evidence.points,
            why: evidence.why,
            made,
        })
    }

    fn of_groups(&self, evidence: &mut Evidence, keyed: &Keyed, item: Option<&str>) {
        let key = keyed.key.join(" and ");
        if keyed.named {
            evidence.add(1, format!("{key} is named like a round"));
        }
        if keyed.groups.are_constant() {
            evidence.add(2, format!("its rounds have {} rows", keyed.groups.size));
        }
        if let Some(item) = item {
            let apart = keyed.groups.tell_apart(&self.sample, item);
            evidence.add(if apart { 1 } else { -2 }, format!("{item} tells the rows of a round apart"));
        }
    }

    fn long(
        &self,
        keyed: &Keyed,
        item: Option<&str>,
        chosen: Option<&ColumnSeen>,
        reward: Option<&ColumnSeen>,
    ) -> Result<Draft, String> {
        let Keyed { key, groups, .. } = keyed;
        let shared = |name: &String| !groups.vary(&self.sample, name);
        let schema = Schema {
            layout: Layout::Long,
            chosen: chosen.map(Self::name),
            user: self.user().filter(shared),
            time: self.time().filter(shared),
            candidate_column: item.map(str::to_string),
            ..Schema::default()
        };
        let mut draft = Draft::new(schema);
        let by_default: Vec<String> = draft.schema.user.iter().chain(&draft.schema.time).cloned().collect();
        if *key != by_default {
            draft.schema.round = key.clone();
        }
        // A user with one round has no last choice.
        if draft.schema.user.as_ref().is_some_and(|user| *key == [user.clone()]) {
            draft.schema.round = key.clone();
            draft.schema.user = None;
        }
        if let Some(reward) = reward {
            draft.reward(reward)?;
            if chosen.is_some()
                && let Some(column) = self.named(PROPENSITY)
            {
                draft.propensity(column);
            }
        }
        draft.notes.push(format!(
            "{:.0} % of {} rounds have {} rows; sizes seen: {:?}",
            100.0 * groups.constant,
            groups.rounds(),
            groups.size,
            groups.sizes.iter().take(12).collect::<Vec<_>>()
        ));
        let common = item.and_then(|item| groups.common(&self.sample, item));
        match common {
            Some((names, odd)) => {
                for (line, what) in odd.iter().take(5) {
                    draft.notes.push(format!("the round that begins in line {line} {what}, and is dropped"));
                }
                if odd.len() > 5 {
                    draft.notes.push(format!(
                        "{} more rounds have other candidates, and are dropped",
                        odd.len() - 5
                    ));
                }
                draft.schema.candidates = in_order(names);
                draft.schema.identity = true;
            }
            None if groups.size < 2 => return Err("most rounds have a single row".into()),
            None => draft.schema.arms = Some(groups.size),
        }
        let offered = self.columns.iter().find(|column| {
            has_word(&column.name, AVAILABLE) && column.is_binary() && Some(column.name.as_str()) != item
        });
        draft.schema.available = offered.map(Self::name);
        draft.schema.previous = draft.schema.user.is_some() && chosen.is_some() && item.is_some();
        let used: BTreeSet<String> = key.iter().cloned().collect();
        let varies: BTreeSet<String> = self
            .columns
            .iter()
            .filter(|column| groups.vary(&self.sample, &column.name))
            .map(Self::name)
            .collect();
        draft.rest(self, &used, &varies);
        if let Some(column) =
            item.and_then(|item| self.column(item)).filter(|_| draft.schema.candidates.is_empty())
        {
            let few = column.count() <= FEW;
            let (encoding, size) =
                if few { (Encoding::OneHot, column.count()) } else { (Encoding::Hash(8), 8) };
            draft.take(&column.name, encoding, size, true);
            if !few {
                let many = if column.count() > MAX_DISTINCT {
                    "more than 256".into()
                } else {
                    column.count().to_string()
                };
                draft.notes.push(format!(
                    "{}: {many} candidates share 8 features by a hash; features of their own tell them apart better",
                    column.name
                ));
            }
        }
        let arms = groups.size;
        draft.finish(arms);
        if draft.schema.candidate.is_empty() && !draft.schema.identity {
            return Err("no column tells the candidates of a round apart".into());
        }
        Ok(draft)
    }
}
