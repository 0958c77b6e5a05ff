//! Bandits at the agent: lists and deletion.

use crate::fixture::*;
use serde_json::Value;

/// The agent lists the bandits of its key, in pages, and no clear one. One that is deleted is gone here and
/// on the server, with the decisions that waited.
#[test]
fn bandits_are_listed_and_deleted() {
    let (_folder, server, _agent, app) = started();
    let parameters = serde_json::from_str(r#"{"arms": 2}"#).unwrap();
    let clear = server.client().create_policy("ucb1", parameters).unwrap().id;
    let mut ids = [(); 3].map(|()| app.create());
    ids.sort();
    let listed = |query: &str| {
        let found: Vec<Value> = app.get(&format!("/bandits{query}")).ok();
        found.iter().map(|bandit| bandit["id"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed(""), ids);
    assert_eq!(listed("?limit=2"), ids[..2]);
    assert_eq!(listed(&format!("?limit=2&after={}", ids[1])), ids[2..]);
    let link = |query: &str| {
        let request = app.agent.get(format!("{}/v1/bandits{query}", app.base));
        let answer = app.authorized(request).call().unwrap();
        answer.headers().get("link").map(|link| link.to_str().unwrap().to_string())
    };
    assert_eq!(link("?limit=2"), Some(format!("</v1/bandits?limit=2&after={}>; rel=\"next\"", ids[1])));
    assert_eq!(link("?limit=3"), None);
    assert_eq!(app.get("/bandits?limit=0").problem(), (422, "bad_value".into()));
    assert_eq!(app.get("/bandits?most=1").problem(), (400, "malformed".into()));

    let decided = app.decided(&ids[0], &random_rows(&mut rng(1)));
    assert_eq!(app.delete(&ids[0]).0, 204);
    for bandit in [&ids[0], "none"] {
        assert_eq!(app.delete(bandit).problem(), (404, "unknown_bandit".into()));
    }
    assert_eq!(app.feedback(&ids[0], &decided.decision, 0.5).problem(), (404, "unknown_bandit".into()));
    assert_eq!(app.delete(&clear).problem(), (409, "not_encrypted".into()));
    assert_eq!(listed(""), ids[1..]);
    assert_eq!(server.client().bandits().unwrap().len(), 3);
}
