//! Names by which columns are recognised, in any case.

pub(super) const CHOSEN: &[&str] =
    &["choice", "chosen", "choose", "selected", "bought", "action", "arm", "decision", "pick"];
pub(super) const REWARD: &[&str] =
    &["reward", "rating", "click", "clicked", "stars", "score", "purchase", "payoff", "outcome", "label"];
pub(super) const PROPENSITY: &[&str] =
    &["propensity", "propensity_score", "pscore", "probability", "prob", "p_action", "action_prob"];
pub(super) const USER: &[&str] = &[
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
pub(super) const TIME: &[&str] = &["time", "timestamp", "date", "datetime", "day", "week", "t", "ts"];
pub(super) const ROUND: &[&str] = &[
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
pub(super) const ITEM: &[&str] = &[
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
pub(super) const ROW: &[&str] = &["rownames", "row", "rowid", "index", "unnamed: 0"];
