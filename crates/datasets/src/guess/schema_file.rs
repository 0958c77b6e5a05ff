//! A proposed schema as a file that can be edited.

use super::Guess;
use crate::check::words;
use crate::error::name_of;
use schema::{Layout, Missing};
use std::path::Path;

impl Guess {
    /// The schema as a file that can be edited, with what was seen as comments.
    pub fn toml(&self, file: &Path) -> String {
        let s = &self.schema;
        let quoted = |text: &str| toml_string(text);
        let list = |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let mut out = format!(
            "# Schema of {}: {} rows, {} columns. docs/data.md explains every entry.\n",
            host::visible(&name_of(file)),
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
        line(
            "codes",
            (!s.codes.is_empty()).then(|| format!("[{}]", list(&s.codes))),
            "how the choice writes the candidates, in their order",
        );
        line("available", text(&s.available), "0 where a candidate is not offered: such rounds are dropped");
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
        line(
            "decimal_comma",
            (!s.decimal_comma.is_empty()).then(|| format!("[{}]", list(&s.decimal_comma))),
            "columns whose numbers are written as 1.234,5",
        );
        line(
            "no_value",
            (!s.no_value.is_empty()).then(|| format!("[{}]", list(&s.no_value))),
            "texts among numbers that are no value",
        );
        let missing = match s.missing {
            Missing::Drop => None,
            Missing::Mean => Some("\"mean\"".to_string()),
            Missing::Zero => Some("\"zero\"".to_string()),
        };
        line("missing", missing, "");
        line("bias", truth(s.bias), "a feature that is 1");
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
        line(
            "score",
            s.score.as_ref().map(|_| "{}".into()),
            "features: a prediction of the reward, learnt from the file, and the candidate",
        );
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

/// A basic string of TOML.
pub(super) fn toml_string(text: &str) -> String {
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

pub(super) fn toml_key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { name.into() } else { toml_string(name) }
}
