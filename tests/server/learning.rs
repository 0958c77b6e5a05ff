//! Logged rounds in bulk, and the numbers of a bandit after a start.

use crate::fixture::*;
use crate::users::*;
use helba::Event;
use helba_server::Settings;
use protocol::{Answers, BanditConfig, LearnId, LearnReceipt};
use tempfile::TempDir;
use testkit::ClearTwin;
use user_client::LoggedRound;

fn learning(answers: Answers) -> BanditConfig {
    BanditConfig { horizon: 2000, ..encrypted(answers) }
}

/// Rounds with arms in turn.
fn logged(n: usize, rng: &mut rand_chacha::ChaCha20Rng) -> Vec<LoggedRound> {
    let of = |t: usize| {
        let features = random_rows(rng).remove(t % 2);
        LoggedRound { arm: t % 2, reward: reward(&features), features }
    };
    (0..n).map(of).collect()
}

/// A thousand logged rounds and 300 more are learnt with two requests or a few more, and the arms of the
/// rounds after them are the twin's. They are learnt once, whatever is sent again, also after the server was
/// killed.
#[test]
fn logged_rounds_are_learnt_over_http() {
    let state = TempDir::new().unwrap();
    let mut rng = rng(61);
    let server = Program::start(state.path());
    let user = User::create_with(server.device(), &learning(Answers::Arm));
    let genesis = state.path().join("encrypted").join(user.id());
    std::fs::copy(genesis.join("snapshot"), genesis.join("genesis-of-test")).unwrap();
    let rounds = logged(1300, &mut rng);
    let mut heard = Vec::new();
    let learnt =
        user.device.learn(&user.client, "history", &rounds, &mut rng, |done| heard.push(done.rounds));
    let learnt = learnt.unwrap();
    assert_eq!((learnt.rounds, heard.last()), (1300, Some(&1300)));
    let status = user.status();
    assert_eq!((status.round, status.feedbacks, status.pending_decisions), (1300, 1300, 0));
    assert_eq!(status.model_feedbacks, 1300, "{status:?}");

    server.kill();
    let server = Program::start(state.path());
    let user = user.at(server.address);
    let again = user.device.learn(&user.client, "history", &rounds, &mut rng, |_| ()).unwrap();
    assert_eq!((again.rounds, again.requests, again.status), (1300, learnt.requests, user.status()));
    assert_eq!(user.status().feedbacks, 1300);

    let mut twin = ClearTwin::new(user.device.created().config.clone());
    rounds.iter().for_each(|round| twin.learn(&round.features, round.reward));
    for _ in 0..6 {
        let rows = random_rows(&mut rng);
        let choice = user.decide(&rows, &mut rng);
        assert_eq!(choice.model_feedbacks, 1300);
        let indices = twin.indices(&rows, choice.round, 1300);
        let best = indices.iter().copied().fold(f64::MIN, f64::max);
        assert!(best - indices[choice.arm] < 1e-2, "arm {} of {indices:?}", choice.arm);
    }
    assert_eq!(user.status().pending_decisions, 6);
    server.kill();
    // The whole log gives the state that is served.
    let whole = replay(state.path(), user.id(), "genesis-of-test");
    let last = replay(state.path(), user.id(), "snapshot");
    assert!(whole.head == last.head && whole.bytes == last.bytes, "the replay has another state");
    let requests = whole.events.iter().filter(|event| matches!(event, Event::Learnt { .. }));
    assert_eq!(requests.count(), learnt.requests);
}

/// Feedbacks of a batch that is not due leave less room than one model has: logged rounds that find none end
/// the batch, in place of waiting for feedback that may never come.
#[test]
fn logged_rounds_end_a_batch_that_is_in_their_way() {
    let server = InProcess::start(Settings::default());
    let mut rng = rng(65);
    let config = BanditConfig { horizon: 100_000, ..encrypted(Answers::Scores) };
    let user = User::create_with(server.device(), &config);
    user.device.learn(&user.client, "first", &logged(300, &mut rng), &mut rng, |_| ()).unwrap();
    for _ in 0..5 {
        let rows = random_rows(&mut rng);
        let choice = user.decide(&rows, &mut rng);
        user.feedback(&rows, &choice, &mut rng);
    }
    let status = user.status();
    assert_eq!((status.feedbacks, status.model_feedbacks), (305, 300), "an open batch");
    assert!(!status.updating && !status.refresh_due, "{status:?}");
    let most = config.most_waiting(300) as usize;
    assert!((6..1000).contains(&most), "{most}");
    let rounds = logged(most, &mut rng);
    let all: Vec<(usize, &[f64], f64)> =
        rounds.iter().map(|round| (round.arm, &round.features[..], round.reward)).collect();
    let body = user.device.logged(LearnId([9; 16]), &all, &mut rng).unwrap();
    let problem = user.http.post(&user.path("/learn"), &body).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (409, Some("still_learning")));
    assert!(user.status().updating, "the batch has ended");
    let learnt = user.device.learn(&user.client, "second", &rounds, &mut rng, |_| ()).unwrap();
    assert_eq!((learnt.rounds, user.status().feedbacks), (most, 305 + most as u64));
}

/// What is no request of this bandit is refused with its reason, and changes nothing.
#[test]
fn bad_logged_rounds_change_nothing() {
    let server = InProcess::start(Settings::default());
    let mut rng = rng(62);
    let user = User::create_with(server.device(), &learning(Answers::Scores));
    let path = user.path("/learn");
    let rounds = logged(20, &mut rng);
    let all: Vec<(usize, &[f64], f64)> =
        rounds.iter().map(|round| (round.arm, &round.features[..], round.reward)).collect();
    let body = user.device.logged(LearnId([1; 16]), &all, &mut rng).unwrap();
    let receipt: LearnReceipt = serde_json::from_slice(&user.http.post(&path, &body).ok()).unwrap();
    assert_eq!((receipt.rounds, receipt.feedbacks, receipt.erasable), (20, 20, false));
    let again: LearnReceipt = serde_json::from_slice(&user.http.post(&path, &body).ok()).unwrap();
    assert_eq!(again, receipt);
    let before = user.status();

    let other = |id| user.device.logged(LearnId([id; 16]), &all, &mut self::rng(63)).unwrap();
    let frame_off = forged(&other(2), |bytes| *bytes.last_mut().unwrap() ^= 0xff);
    for (body, status, reason) in [
        (vec![], 400, "malformed"),
        (vec![7; 100], 400, "malformed"),
        (other(2)[..200].to_vec(), 400, "malformed"),
        ([&other(2)[..], &[0]].concat(), 400, "malformed"),
        (vec![0; user.device.limits().learn() + 1], 413, "too_large"),
        (frame_off, 400, "malformed"),
    ] {
        let answer = user.http.post(&path, &body);
        let problem = answer.problem();
        // Bytes of a frame that are changed may be found out in several ways.
        assert!(problem.status == status || problem.status == 400, "{reason}: {problem:?}");
        assert_eq!(user.status(), before, "{reason}");
    }
    // As many as wait for one model: 4096 at most, and 2896 for a horizon of 1000 or less.
    let many: Vec<_> = all.iter().copied().cycle().take(1000).collect();
    let send = |id| {
        let body = user.device.logged(LearnId([id; 16]), &many, &mut self::rng(64)).unwrap();
        user.http.post(&path, &body)
    };
    let taken = (10..20).take_while(|id| send(*id).status == 200).count() as u64;
    let most = user.device.created().config.most_waiting(0);
    assert_eq!(taken, (most - 20) / 1000);
    let problem = send(30).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (409, Some("still_learning")));

    let traced = User::create_with(
        server.device(),
        &BanditConfig {
            linear: bandit::LinearConfig {
                schedule: bandit::Schedule::TraceOrGrowth,
                ..learning(Answers::Arm).linear
            },
            ..learning(Answers::Arm)
        },
    );
    let problem = traced.http.post(&traced.path("/learn"), &other(2)).problem();
    assert_eq!(problem.status, 422, "{problem:?}");
    let clear = server.device().post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    let clear: wire::PolicyCreated = serde_json::from_slice(&clear).unwrap();
    let problem = server.device().post(&format!("/bandits/{}/learn", clear.id), &other(2)).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (409, Some("not_encrypted")));
}

/// Decisions are counted as they were given out, and those that wait for feedback too, whatever round numbers
/// a start leaves out: after the server was killed, and after a backup was restored.
#[test]
fn numbers_are_true_after_a_start() {
    let state = TempDir::new().unwrap();
    let mut rng = rng(65);
    let mut server = Program::start(state.path());
    let mut user = User::create(server.device(), Answers::Scores);
    let mut open = Vec::new();
    let numbers = |user: &User| {
        let status = user.status();
        (status.round, status.feedbacks, status.pending_decisions)
    };
    let (mut decided, mut fed) = (0, 0);
    for start in 0..4 {
        for _ in 0..3 {
            let rows = random_rows(&mut rng);
            let choice = user.decide(&rows, &mut rng);
            decided += 1;
            open.push((rows, choice));
        }
        // The feedback on the decision before last, and on one of before the last start.
        for at in [open.len() - 2, 0] {
            let (rows, choice) = open.remove(at);
            user.feedback(&rows, &choice, &mut rng);
            fed += 1;
        }
        assert_eq!(numbers(&user), (decided, fed, open.len()), "start {start}");
        let metrics = |server: &Program| {
            let text = String::from_utf8(server.device().above("/metrics").ok()).unwrap();
            let value = |name: &str| {
                let line = text.lines().find(|line| line.starts_with(&format!("{name}{{"))).unwrap();
                line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
            };
            (value("helba_bandit_rounds_total"), value("helba_bandit_open"))
        };
        server.kill();
        // A backup that is restored gives out none of the rounds after it.
        let mut start = command(&keys().public_file(), state.path(), "127.0.0.1:0");
        server =
            Program::spawn(if start_is_restored(decided) { start.arg("--restored") } else { &mut start });
        user = user.at(server.address);
        assert_eq!(numbers(&user), (decided, fed, open.len()), "after a start");
        assert_eq!(metrics(&server), (decided as f64, open.len() as f64));
    }
}

/// Whether the start after so many decisions is that of a backup.
fn start_is_restored(decided: u64) -> bool {
    decided == 12
}
