//! Names by which columns are recognised, in any case and with any separators: weak evidence.

pub(super) const CHOSEN: &[&str] = &[
    "choice",
    "chosen",
    "choose",
    "choices",
    "selected",
    "selection",
    "bought",
    "action",
    "arm",
    "decision",
    "pick",
    "picked",
];
pub(super) const REWARD: &[&str] = &[
    "reward",
    "rating",
    "click",
    "clicked",
    "stars",
    "score",
    "purchase",
    "payoff",
    "outcome",
    "label",
    "conversion",
    "converted",
    "revenue",
    "profit",
    "earnings",
    "gain",
    "spend",
];
/// Those that are no property of a person or an item.
pub(super) const FEEDBACK: &[&str] = &[
    "reward",
    "click",
    "clicked",
    "purchase",
    "payoff",
    "outcome",
    "conversion",
    "converted",
    "revenue",
    "profit",
];
pub(super) const PROPENSITY: &[&str] =
    &["propensity", "propensity_score", "pscore", "probability", "prob", "p_action", "action_prob"];
pub(super) const USER: &[&str] = &[
    "user",
    "user_id",
    "id",
    "household",
    "customer",
    "customer_id",
    "person",
    "person_id",
    "individual",
    "visitor",
    "patient",
    "patient_id",
    "panelist",
    "respondent",
    "respondent_id",
    "case",
    "student",
    "student_id",
    "client",
    "client_id",
    "account",
    "account_id",
    "guest",
    "subscriber",
];
pub(super) const TIME: &[&str] = &["time", "timestamp", "date", "datetime", "day", "week", "t", "ts"];
pub(super) const ROUND: &[&str] = &[
    "round",
    "choice_id",
    "choice_set",
    "chid",
    "session",
    "session_id",
    "obs",
    "obs_id",
    "query_id",
    "impression",
    "impression_id",
    "event_id",
    "view_id",
    "visit_id",
    "request_id",
    "task",
    "task_id",
];
pub(super) const ITEM: &[&str] = &[
    "item",
    "item_id",
    "candidate",
    "alternative",
    "alt",
    "mode",
    "product",
    "product_id",
    "movie",
    "movie_id",
    "brand",
    "ad",
    "ad_id",
    "article",
    "article_id",
    "book",
    "tile",
    "content",
    "banner",
    "offer",
    "variant",
    "course",
    "treatment",
    "sku",
    "creative",
    "campaign",
    "therapy",
    "drug",
    "medication",
    "promotion",
    "promo",
    "coupon",
    "message",
    "template",
    "exercise",
    "lesson",
];
pub(super) const ROW: &[&str] = &["rownames", "row", "rowid", "index", "unnamed: 0"];
/// Columns of availability.
pub(super) const AVAILABLE: &[&str] = &["av", "avail", "available", "availability", "offered"];
/// Columns of the place at which a candidate stood.
pub(super) const PLACE: &[&str] = &["position", "rank", "slot", "place", "pos"];
/// Columns of ids, whose numbers have no order.
pub(super) const CODE: &[&str] = &["id", "code", "zip", "zipcode", "postcode", "uuid", "sku", "key"];
/// Words that make a count or a share of what stands beside them.
const COUNT: &[&str] = &[
    "n", "num", "number", "no", "count", "cnt", "qty", "quantity", "total", "amount", "sum", "avg", "mean",
    "share", "rate", "nb", "last", "prev", "previous",
];

/// 2 for a column that has a name of `names`, 1 for one with a word of it that is no count of it, else 0.
pub(super) fn likeness(name: &str, names: &[&str]) -> i32 {
    let plain = |text: &str| -> String { words(text).concat() };
    let own = plain(name);
    if names.iter().any(|wanted| plain(wanted) == own) {
        return 2;
    }
    i32::from(has_word(name, names) && !has_word(name, COUNT))
}

/// Whether a word of the name is one of `names`.
pub(super) fn has_word(name: &str, names: &[&str]) -> bool {
    words(name).iter().any(|word| names.contains(&word.as_str()))
}

/// The words of a name in small letters: `userId`, `user_id` and `User ID` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before: Option<char> = None;
    for c in name.chars() {
        let letter = c.is_alphanumeric();
        let begins = match before {
            Some(before) => !before.is_alphanumeric() || (before.is_lowercase() && c.is_uppercase()),
            None => true,
        };
        if letter && begins {
            words.push(String::new());
        }
        if let (true, Some(word)) = (letter, words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name is recognised however it is written, and a count of choices is no choice.
    #[test]
    fn names_are_recognised() {
        assert_eq!(["userId", "USER_ID", "user id", "UserID"].map(|name| likeness(name, USER)), [2; 4]);
        assert_eq!(
            ["CHOICE", "mode_choice", "n_bought", "price"].map(|name| likeness(name, CHOSEN)),
            [2, 1, 0, 0]
        );
        assert_eq!(["AV", "CAR_AV", "avenue"].map(|name| has_word(name, AVAILABLE)), [true, true, false]);
    }
}
