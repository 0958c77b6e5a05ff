//! The name and the tags of a bandit, which people choose. The server reads them.

use serde::{Deserialize, Deserializer, Serialize};

/// The header by which a repeated creation gets the answer to the first one.
pub const IDEMPOTENCY_HEADER: &str = "idempotency-key";
/// The most characters of a name.
pub const MOST_NAME: usize = 100;
/// The most characters of a tag.
pub const MOST_TAG: usize = 50;
/// The most tags of a bandit.
pub const MOST_TAGS: usize = 16;

/// Whether this is text that can be the id of a bandit: 1 to 64 letters, digits, `-` or `_`.
pub fn is_id(text: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}

/// The name and the tags of a bandit. Neither has to be unique: the id tells bandits apart, and a refused
/// name would show a bandit to somebody whose token does not reach it. Names and tags are compared code
/// point by code point.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// The name, of 1 to [`MOST_NAME`] characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Different tags, at most [`MOST_TAGS`], of 1 to [`MOST_TAG`] characters each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// What changes the labels of a bandit: a JSON merge patch (RFC 7396) of name and tags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelsPatch {
    /// `None`: the name stays. `Some(None)`, in JSON null: it is removed.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub name: Option<Option<String>>,
    /// `None`: the tags stay. Else all tags. In JSON, null removes them.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub tags: Option<Option<Vec<String>>>,
}

/// Whether an encrypted bandit is frozen: it then decides with the model that it has, and learns nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Freeze {
    /// False thaws it.
    pub frozen: bool,
}

/// A value that is given, which may be null.
fn given<'a, D: Deserializer<'a>, T: Deserialize<'a>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Labels {
    /// Checks lengths, numbers and characters.
    ///
    /// # Errors
    /// The label that is refused, and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        self.name.iter().try_for_each(|name| check("name", name, MOST_NAME))?;
        if self.tags.len() > MOST_TAGS {
            return Err(format!("tags: {} are given, at most {MOST_TAGS} are allowed", self.tags.len()));
        }
        for (at, tag) in self.tags.iter().enumerate() {
            check("tags", tag, MOST_TAG)?;
            if self.tags[..at].contains(tag) {
                return Err(format!("tags: {tag:?} is given twice"));
            }
        }
        Ok(())
    }

    /// The labels after `patch`.
    pub fn patched(&self, patch: LabelsPatch) -> Labels {
        Labels {
            name: patch.name.unwrap_or_else(|| self.name.clone()),
            tags: patch.tags.map_or_else(|| self.tags.clone(), Option::unwrap_or_default),
        }
    }
}

/// Checks one label: a line of text, which looks like what it is wherever it is printed.
fn check(field: &str, text: &str, most: usize) -> Result<(), String> {
    // Marks that change the direction of writing show a text in another order than it has.
    let marks = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !(1..=most).contains(&text.chars().take(most + 1).count()) {
        return Err(format!("{field}: a text must have 1 to {most} characters"));
    }
    if text.trim() != text || text.chars().any(|c| c.is_control() || marks(c)) {
        return Err(format!(
            "{field}: a text must have no space at its ends, no control characters, no line ends, and no marks that change the \
             direction of writing"
        ));
    }
    Ok(())
}

/// A bandit, or an answer about it, with its labels of now beside its own fields. For JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Labelled<T> {
    /// The labels.
    #[serde(flatten)]
    pub labels: Labels,
    /// What is labelled.
    #[serde(flatten)]
    pub of: T,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(name: &str, tags: &[&str]) -> Labels {
        Labels { name: Some(name.into()), tags: tags.iter().map(|tag| tag.to_string()).collect() }
    }

    #[test]
    fn labels_are_lines_of_text() {
        let most_tags: Vec<String> = (0..MOST_TAGS).map(|i| i.to_string()).collect();
        let most_tags: Vec<&str> = most_tags.iter().map(String::as_str).collect();
        for good in [
            Labels::default(),
            labels("Käse 🧀 \u{5d0}\u{5d1}, \"it's\"", &["a", "A", "ä", "a b"]),
            labels(&"é".repeat(MOST_NAME), &[&"é".repeat(MOST_TAG)]),
            labels("👩\u{200d}🔬", &most_tags),
        ] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
        for bad in [
            labels("", &[]),
            labels(" a", &[]),
            labels("a\u{a0}", &[]),
            labels("a\nb", &[]),
            labels("a\u{1b}[31m", &[]),
            labels("a\u{202e}b", &[]),
            labels("a\u{2028}b", &[]),
            labels(&"é".repeat(MOST_NAME + 1), &[]),
            labels("a", &[""]),
            labels("a", &["b", "b"]),
            labels("a", &[&"é".repeat(MOST_TAG + 1)]),
            labels("a", &[&most_tags[..], &["one more"]].concat()),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    /// What a patch does not name stays, and null removes.
    #[test]
    fn patches_merge() {
        let before = labels("a", &["b", "c"]);
        let patched = |json: &str| before.patched(serde_json::from_str(json).unwrap());
        assert_eq!(patched("{}"), before);
        assert_eq!(patched(r#"{"name": "d"}"#), labels("d", &["b", "c"]));
        assert_eq!(patched(r#"{"name": null}"#), Labels { name: None, ..before.clone() });
        assert_eq!(patched(r#"{"tags": ["d"]}"#), labels("a", &["d"]));
        assert_eq!(patched(r#"{"tags": null}"#), labels("a", &[]));
        assert_eq!(patched(r#"{"name": null, "tags": []}"#), Labels::default());
        for bad in [r#"{"nam": "a"}"#, r#"{"name": 1}"#, r#"{"tags": "a"}"#, r#"{"tags": [null]}"#] {
            assert!(serde_json::from_str::<LabelsPatch>(bad).is_err(), "{bad}");
        }
        let patch = LabelsPatch { name: Some(None), tags: None };
        assert_eq!(serde_json::to_string(&patch).unwrap(), r#"{"name":null}"#);
    }

    /// Labels stand beside the fields of what they label, and are read back from there.
    #[test]
    fn labels_stand_beside_other_fields() {
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Of {
            id: u64,
        }
        let labelled = Labelled { labels: labels("a", &["b"]), of: Of { id: 7 } };
        let json = serde_json::to_string(&labelled).unwrap();
        assert_eq!(json, r#"{"name":"a","tags":["b"],"id":7}"#);
        assert_eq!(serde_json::from_str::<Labelled<Of>>(&json).unwrap(), labelled);
        let bare = Labelled { labels: Labels::default(), of: Of { id: 7 } };
        assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"id":7}"#);
    }
}
