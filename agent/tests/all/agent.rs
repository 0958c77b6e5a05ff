//! Rounds, decisions that are open at once, and restarts.

use crate::fixture::*;
use helba_agent::Error;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use testkit::ClearTwin;
use user_client::Client;
use wire::Decided;

/// The agent raises for its bandit beside the application, which gets the arms of the exact twin and learns.
#[test]
fn rounds_decide_as_the_twin() {
    let folder = folder();
    let server = Server::start(folder.path());
    let agent = Running::start(&server.url(), folder.path());
    let (app, mut rng) = (agent.http(), rng(1));
    let bandit = app.create();
    let mut twin = ClearTwin::new(config());
    for round in 1..=20 {
        let (rows, learnt) = (random_rows(&mut rng), app.status(&bandit).model_feedbacks);
        let decided = app.decided(&bandit, &rows);
        assert_eq!((decided.round, decided.reliable), (round, Some(true)));
        let arm = decided.arm.unwrap();
        let indices = twin.indices(&rows, round, learnt);
        let best = indices.iter().copied().fold(f64::MIN, f64::max);
        assert!(best - indices[arm] < RESOLUTION, "round {round}: {indices:?}, arm {arm}");
        let counted = app.counted(&bandit, &decided.decision, reward(&rows[arm]));
        assert_eq!((counted.of, counted.feedbacks), (decided.decision, round));
        twin.learn(&rows[arm], reward(&rows[arm]));
        wait_for("the raiser answers what the bandit asks for", || {
            let status = app.status(&bandit);
            !status.updating && !status.refresh_due
        });
    }
    let status = app.status(&bandit);
    assert!(status.refreshes >= 3 && status.model_feedbacks >= 8, "{status:?}");
    assert!(agent.log.lock().unwrap().iter().any(|line| line.contains("model encrypted anew")));
}

/// Decisions that are open at once share requests, each has an id and a feedback of its own, and feedback
/// counts once. Alone, each would take a request.
#[test]
fn decisions_at_once_share_requests() {
    let (_folder, server, _agent, app) = started();
    let (bandit, open) = (app.create(), 64);
    app.decided(&bandit, &random_rows(&mut rng(1)));
    let before = server.asked.load(Ordering::Relaxed);
    let all = Arc::new(Barrier::new(open));
    let threads: Vec<_> = (0..open as u64)
        .map(|seed| {
            let (app, bandit, all) = (app.clone(), bandit.clone(), all.clone());
            std::thread::spawn(move || {
                let rows = random_rows(&mut rng(seed));
                all.wait();
                let decided: Decided = app.decided(&bandit, &rows);
                assert_eq!(decided.reliable, Some(true));
                let reward = reward(&rows[decided.arm.unwrap()]);
                // The answer to the first is lost, as it were.
                let first = app.counted(&bandit, &decided.decision, reward);
                assert_eq!(app.counted(&bandit, &decided.decision, reward), first);
                let other = app.feedback(&bandit, &decided.decision, 0.5 * reward);
                assert_eq!(other.problem(), (409, "answered".into()));
                decided.decision
            })
        })
        .collect();
    let ids: BTreeSet<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(ids.len(), open);
    let requests = server.asked.load(Ordering::Relaxed) - before;
    assert!((1..=open / 4).contains(&requests), "{requests} requests for {open} decisions");
    let status = app.status(&bandit);
    assert_eq!((status.round, status.feedbacks), (1 + open as u64, open as u64));
}

/// Decisions and receipts are there after a restart. Another agent cannot use the folder meanwhile, nor one
/// with other keys.
#[test]
fn pending_decisions_survive_a_restart() {
    let (folder, server, agent, app) = started();
    let bandit = app.create();
    let rows = random_rows(&mut rng(1));
    let [answered, waiting] = [(), ()].map(|()| app.decided(&bandit, &rows));
    let receipt = app.counted(&bandit, &answered.decision, 0.5);
    let again = open(&server.url(), &keys().1, folder.path(), options());
    assert!(matches!(again.err(), Some(Error::StateInUse { .. })));
    assert!(agent.stop().unwrap());

    let stranger = open(&server.url(), &bundles(2).1, folder.path(), options());
    assert!(matches!(stranger.err(), Some(Error::Unsealable { .. })));
    let agent = Running::start(&server.url(), folder.path());
    let app = agent.http();
    assert_eq!(app.counted(&bandit, &answered.decision, 0.5), receipt);
    assert_eq!(app.feedback(&bandit, &answered.decision, 0.25).problem(), (409, "answered".into()));
    assert_eq!(app.counted(&bandit, &waiting.decision, 0.5).feedbacks, 2);
    assert_eq!(app.status(&bandit).feedbacks, 2);
}

/// What works against a clear bandit works through the agent: the same client reads its answers.
#[test]
fn clients_of_clear_bandits_use_the_agent() {
    let folder = folder();
    let server = Server::start(folder.path());
    let agent = Running::start(&server.url(), folder.path());
    let client = Client::new(&agent.url()).unwrap().with_token(token());
    let bandit = client.create_encrypted(&config()).unwrap().id;
    let decided = client.decide_clear(&bandit, Some(random_rows(&mut rng(1)))).unwrap();
    let feedback = wire::ClearFeedback { reward: Some(0.5), ..wire::ClearFeedback::default() };
    let counted = client.feedback_clear(&bandit, &decided.decision, &feedback).unwrap();
    assert_eq!((counted.of, counted.feedbacks), (decided.decision, 1));
}

/// No body that the server gets has a feature or a reward of the application, as text or as a number. The
/// control is a clear bandit on the same server.
#[test]
fn attack_nothing_but_ciphertexts_leaves() {
    let (_folder, server, _agent, app) = started();
    let (features, reward) = ([0.123456789, 0.345678912, 0.567891234, 0.789123456], 0.912345678);
    let rows: Vec<Vec<f64>> = features.chunks(2).map(<[f64]>::to_vec).collect();
    let found = || {
        let secrets = features.iter().chain([&reward]);
        let written = secrets.flat_map(|number| [number.to_le_bytes().to_vec(), number.to_string().into()]);
        let written: Vec<Vec<u8>> = written.collect();
        let bodies = server.seen.lock().unwrap();
        let has =
            |written: &&Vec<u8>| bodies.iter().any(|body| body.windows(written.len()).any(|b| b == *written));
        written.iter().filter(has).count()
    };
    let play = |app: &Http, bandit: &str| {
        let decided = app.decided(bandit, &rows);
        app.counted(bandit, &decided.decision, reward);
    };
    let bandit = app.create();
    play(&app, &bandit);
    assert!(server.asked.load(Ordering::Relaxed) > 0);
    assert_eq!(found(), 0);
    let parameters = serde_json::json!({"features": 2, "arms": 2, "lambda": 1.0, "alpha": 0.5});
    let clear = server.client().create_policy("oful", parameters.as_object().unwrap().clone()).unwrap().id;
    play(&Http::new(server.url(), None), &clear);
    assert_eq!(found(), 5, "the control");
}
