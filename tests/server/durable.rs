//! Acknowledged means durable for encrypted bandits: after kills at any point, in every phase, on a disk that
//! is full, and against damage.

use crate::fixture::*;
use crate::users::*;
use helba::Event;
use helba_server::Settings;
use protocol::{Answers, Receipt};
use rand::Rng;
use rand_chacha::ChaCha20Rng;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Feedback from several threads, through kills at random points: none that was acknowledged is lost, none
/// counts twice, no round is given out twice, and the state of the server is that of a replay from the
/// beginning, byte for byte.
fn feedback_through_kills(feedbacks: usize, kills: usize, seed: u64) {
    let state = TempDir::new().unwrap();
    let mut rng = rng(seed);
    let mut server = start(state.path());
    let mut user = User::create(server.device(), Answers::Scores);
    let contexts = user.contexts(&mut rng);
    let genesis = state.path().join("encrypted").join(user.id());
    std::fs::copy(genesis.join("snapshot"), genesis.join("genesis-of-test")).unwrap();
    let mut acknowledged: Vec<Receipt> = Vec::new();
    let mut ids = BTreeSet::new();
    // Frames whose answer was lost: counted or not, they are sent again.
    let mut unsure: Vec<(String, Vec<u8>)> = Vec::new();
    for part in 0..=kills {
        let goal = feedbacks * (part + 1) / (kills + 1);
        let goal = if part == kills { feedbacks } else { goal };
        let over = AtomicBool::new(false);
        // The last part runs to its end.
        let dies = (part < kills).then(|| {
            let share = goal.saturating_sub(acknowledged.len()).max(1);
            rng.next_u64() as usize % share + acknowledged.len()
        });
        let results = std::sync::Mutex::new((&mut acknowledged, &mut ids, &mut unsure));
        std::thread::scope(|scope| {
            let (user, contexts, over, results) = (&user, &contexts[..], &over, &results);
            for worker in 0..4 {
                let mut rng = self::rng(seed + 1 + (part * 4 + worker) as u64);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let pending = results.lock().unwrap().2.pop();
                        let Some((id, frame)) = pending.or_else(|| asks(user, contexts, results, &mut rng))
                        else {
                            // The server is gone.
                            if dies.is_some() { return } else { continue }
                        };
                        let path = user.path(&format!("/decisions/{id}/feedback"));
                        match user.http.try_post(&path, &frame) {
                            Ok(answer) => {
                                let receipt: Receipt = serde_json::from_slice(&answer.ok()).unwrap();
                                results.lock().unwrap().0.push(receipt);
                            }
                            Err(_) => {
                                results.lock().unwrap().2.push((id, frame));
                                return;
                            }
                        }
                    }
                });
            }
            // A holder of the key answers the tasks meanwhile.
            let mut own = self::rng(seed + 1000 + part as u64);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let Ok(reply) = user.client.raises(user.id(), user.device.limits(), 1) else { return };
                    let Some(reply) = reply else { continue };
                    let reply = user.device.read(&reply).unwrap();
                    let body = user.device.raise(&reply.tasks, None, &mut own).unwrap();
                    let _ = user.http.try_post(&user.path("/raises"), &body);
                }
            });
            loop {
                let (count, waits) = {
                    let results = results.lock().unwrap();
                    (results.0.len(), results.2.len())
                };
                match dies {
                    Some(at) if count >= at => {
                        std::thread::sleep(Duration::from_millis(u64::from(rng.next_u32() % 8)));
                        server.child.kill().unwrap();
                        break;
                    }
                    None if count >= goal && waits == 0 => break,
                    _ => std::thread::sleep(Duration::from_millis(1)),
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        if part < kills {
            server.kill();
            server = start(state.path());
            user = user.at(server.address);
            let counted = user.status().feedbacks;
            let sure = distinct(&acknowledged);
            assert!(counted >= sure, "{counted} counted, {sure} acknowledged");
        }
    }
    for (id, frame) in unsure {
        let path = user.path(&format!("/decisions/{id}/feedback"));
        acknowledged.push(serde_json::from_slice(&user.http.post(&path, &frame).ok()).unwrap());
    }
    let status = user.settle(&mut rng);
    assert_eq!(status.feedbacks, distinct(&acknowledged), "each decision counts once");
    assert!(status.feedbacks >= feedbacks as u64 && status.refreshes > 0, "{status:?}");
    server.kill();
    // The log since the creation, which the test's server keeps, gives the state that is served.
    let folder = state.path().join("encrypted").join(user.id());
    assert!(folder.join(format!("{:020}.log", 0)).exists());
    let whole = replay(state.path(), user.id(), "genesis-of-test");
    let last = replay(state.path(), user.id(), "snapshot");
    assert!(last.events.len() < whole.events.len(), "snapshots are written meanwhile");
    assert!(whole.head == last.head && whole.bytes == last.bytes, "the replay has another state");
    let rounds: Vec<u64> = whole
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Feedback { round, .. } => Some(*round),
            _ => None,
        })
        .collect();
    assert_eq!(rounds.len() as u64, status.feedbacks);
    assert_eq!(rounds.iter().collect::<BTreeSet<_>>().len(), rounds.len(), "a round has one feedback");
}

fn distinct(receipts: &[Receipt]) -> u64 {
    receipts.iter().map(|receipt| &receipt.decision).collect::<BTreeSet<_>>().len() as u64
}

type Results<'a> =
    std::sync::Mutex<(&'a mut Vec<Receipt>, &'a mut BTreeSet<String>, &'a mut Vec<(String, Vec<u8>)>)>;

/// A decision of the open tier and a feedback on it, or `None` if the server is gone.
fn asks(user: &User, contexts: &[u8], results: &Results, rng: &mut ChaCha20Rng) -> Option<(String, Vec<u8>)> {
    let reply = user.client.decide_several(user.id(), user.device.limits(), 1, contexts).ok()?;
    let choice = user.device.read(&reply).unwrap().choice.unwrap();
    let id = choice.id.to_string();
    assert!(results.lock().unwrap().1.insert(id.clone()), "round {} was given out twice", choice.round);
    let frame = user.device.feedback(0, &[0.6, 0.8], 0.5, None, rng).unwrap();
    Some((id, frame))
}

fn start(state: &Path) -> Program {
    Program::start(state)
}

#[test]
fn acknowledged_feedback_survives_kills() {
    feedback_through_kills(1000, 10, 40);
}

/// Some minutes.
#[test]
#[ignore = "takes minutes"]
fn acknowledged_feedback_survives_many_kills() {
    feedback_through_kills(20_000, 50, 41);
}

/// Killed in every phase of a batch, the server goes on: an interrupted update runs again and asks for the
/// same, and what was raised before is not asked for again.
#[test]
fn bandits_restart_in_every_phase() {
    let state = TempDir::new().unwrap();
    let mut rng = rng(42);
    let mut server = Program::start(state.path());
    let mut user = User::create(server.device(), Answers::Scores);
    let (mut rounds, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for step in 0..24 {
        let before = user.status();
        let phase = match (before.updating, before.refresh_due) {
            (false, false) => "open",
            (true, false) => "raising or updating",
            (_, true) => "refreshing",
        };
        seen.insert(phase);
        server.kill();
        server = Program::start(state.path());
        user = user.at(server.address);
        let after = user.status();
        assert_eq!(
            (after.feedbacks, after.model_feedbacks, after.batches, after.refreshes),
            (before.feedbacks, before.model_feedbacks, before.batches, before.refreshes),
            "{phase}"
        );
        if phase == "open" || step % 5 == 4 {
            let rows = random_rows(&mut rng);
            let reply = ask(&user, &user.device.contexts(&rows, &mut rng).unwrap()).ok();
            let choice = user.device.read(&reply).unwrap().choice.unwrap();
            assert!(rounds.insert(choice.round), "round {} again", choice.round);
            user.feedback(&rows, &choice, &mut rng);
        } else {
            user.raise_once(1, &mut rng);
            // Killed at once, or when the update has ended.
            let ended = |user: &User| user.status().refresh_due || !user.status().updating;
            let wait = if step % 2 == 0 { 400 } else { 0 };
            for _ in (0..wait).take_while(|_| !ended(&user)) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    let status = user.settle(&mut rng);
    assert!(status.refreshes > 2 && status.feedbacks == rounds.len() as u64, "{status:?}");
}

/// A snapshot or a log that is damaged or missing refuses the start with a sentence that names the file and
/// the remedy. Nothing is changed, and with the right bytes the server starts.
#[test]
fn damaged_bandits_refuse_the_start() {
    let state = TempDir::new().unwrap();
    let mut rng = rng(43);
    let server = Program::start(state.path());
    let user = User::create(server.device(), Answers::Scores);
    let history = History::default();
    for _ in 0..6 {
        user.round(&history, &mut rng);
    }
    let status = user.status();
    // Idle for longer than a second: the log ends with a mark.
    std::thread::sleep(Duration::from_millis(1500));
    server.kill();
    let folder = state.path().join("encrypted").join(user.id());
    let log = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|e| e == "log")).min().unwrap();
    let snapshot = folder.join("snapshot");
    let flip = |at: usize| move |bytes: &mut Vec<u8>| bytes[at] ^= 1;
    type Damage = Box<dyn Fn(&mut Vec<u8>)>;
    let cases: [(&Path, &str, Damage); 7] = [
        (&snapshot, "the first byte", Box::new(flip(0))),
        (&snapshot, "a byte of the state", Box::new(flip(5000))),
        (&snapshot, "empty", Box::new(Vec::clear)),
        (&snapshot, "cut", Box::new(|bytes| bytes.truncate(9000))),
        (&log, "a byte of the header", Box::new(flip(20))),
        (&log, "a byte of the first record", Box::new(flip(350))),
        (&log, "empty", Box::new(Vec::clear)),
    ];
    for (path, what, damage) in cases {
        let good = std::fs::read(path).unwrap();
        let mut bad = good.clone();
        damage(&mut bad);
        std::fs::write(path, &bad).unwrap();
        let before = files(&folder);
        let said = refused(&keys().public_file(), state.path(), "127.0.0.1:0");
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(said.contains(&*name) && said.contains("restore"), "{what}: {said}");
        assert!(files(&folder) == before, "{what}: a file changed");
        std::fs::write(path, &good).unwrap();
    }
    let server = Program::start(state.path());
    let after = user.at(server.address).status();
    assert_eq!((after.feedbacks, after.batches), (status.feedbacks, status.batches));
}

fn files(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// No write beyond the first byte of a file succeeds any more, whoever the user is: as on a full disk.
#[cfg(target_os = "linux")]
fn fill_disk(server: &Program, full: bool) {
    let limit = if full { "--fsize=1:unlimited" } else { "--fsize=unlimited:unlimited" };
    let pid = server.child.id().to_string();
    let set = std::process::Command::new("prlimit").args(["--pid", &pid, limit]).status();
    assert!(set.expect("prlimit is part of util-linux").success());
}

/// A full disk refuses feedback and new bandits, and changes nothing that is stored. An encrypted bandit
/// shows no feedback that was not stored. Decisions go on while reserved rounds last. Policies in the clear
/// go on when there is room again, and an encrypted bandit after the next start, since its log takes nothing
/// after a failed write.
#[cfg(target_os = "linux")]
#[test]
fn full_disk() {
    let state = TempDir::new().unwrap();
    let mut rng = rng(44);
    let server = Program::start_ignoring_file_size_signal(state.path());
    let user = User::create(server.device(), Answers::Scores);
    user.round(&History::default(), &mut rng);
    user.settle(&mut rng);
    let rows = random_rows(&mut rng);
    let choice = user.decide(&rows, &mut rng);
    let frame = user.device.feedback(choice.arm, &rows[choice.arm], 0.5, None, &mut rng).unwrap();
    let contexts = user.contexts(&mut rng);
    let config = serde_json::to_vec(&every_round(Answers::Arm)).unwrap();
    // And one in the clear.
    let device = &user.http;
    let clear = device.post("/bandits", br#"{"policy": "dp-se", "arms": 2, "epsilon": 1, "beta": 0.1}"#).ok();
    let clear = serde_json::from_slice::<wire::PolicyCreated>(&clear).unwrap().id;
    let clear = (format!("/bandits/{clear}"), format!("/bandits/{clear}/decisions"));
    let now = || (device.get("/bandits").ok(), device.get(&clear.0).ok());
    let (before, feedbacks) = (now(), user.status().feedbacks);
    // Decisions go on, and the last round that was given out is noted in place.
    let stored = || {
        let mut files = files(&state.path().join("encrypted").join(user.id()));
        files.retain(|(path, _)| path.file_name().is_none_or(|name| name != "given"));
        files
    };
    let before_full = stored();
    let full = |answer: Answer| {
        let problem = answer.problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (507, Some("disk_full")), "{problem:?}");
    };

    fill_disk(&server, true);
    for _ in 0..2 {
        full(user.send(&choice, &frame));
        full(device.get(&user.path("")));
        full(device.post("/bandits", &config));
        full(device.post(&clear.1, b""));
        full(device.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#));
        ask(&user, &contexts).ok();
        assert!(now() == before, "it has changed");
    }
    fill_disk(&server, false);
    device.post(&clear.1, b"").ok();
    device.create(&every_round(Answers::Arm));
    full(user.send(&choice, &frame));
    assert!(stored() == before_full, "the stored state has changed");
    server.kill();

    let server = Program::start(state.path());
    let user = user.at(server.address);
    assert_eq!(user.status().feedbacks, feedbacks);
    let receipt: Receipt = serde_json::from_slice(&user.send(&choice, &frame).ok()).unwrap();
    assert_eq!(receipt.feedbacks, feedbacks + 1);
    assert_eq!(user.round(&History::default(), &mut rng).feedbacks, feedbacks + 2);
}

/// On a full disk no erasure and no logged rounds are acknowledged, each as the first change that the disk
/// refuses. After the next start they are taken.
#[cfg(target_os = "linux")]
#[test]
fn full_disk_acknowledges_no_erasure_and_no_logged_rounds() {
    for erases in [true, false] {
        let state = TempDir::new().unwrap();
        let mut rng = rng(46);
        let server = Program::start_ignoring_file_size_signal(state.path());
        let config = protocol::BanditConfig { horizon: 2000, ..encrypted(Answers::Scores) };
        let user = User::create_with(server.device(), &config);
        let rows = random_rows(&mut rng);
        let choice = user.decide(&rows, &mut rng);
        let counted = user.feedback(&rows, &choice, &mut rng);
        user.settle(&mut rng);
        let rounds = [(0, &rows[0][..], 0.5), (1, &rows[1][..], -0.5)];
        let body = user.device.logged(protocol::LearnId([3; 16]), &rounds, &mut rng).unwrap();
        let send = |user: &User| match erases {
            true => user.http.delete(&user.path(&format!("/decisions/{}/feedback", counted.decision))),
            false => user.http.post(&user.path("/learn"), &body),
        };
        fill_disk(&server, true);
        let problem = send(&user).problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (507, Some("disk_full")), "{problem:?}");
        fill_disk(&server, false);
        server.kill();
        let server = Program::start(state.path());
        let user = user.at(server.address);
        assert_eq!(user.status().feedbacks, 1);
        send(&user).ok();
    }
}

/// Deleted, a bandit of either kind is gone, also after a restart and with a batch update under way, with
/// every file that was its own; the others stay, and there is room for a new one.
#[test]
fn deleted_is_gone() {
    let mut rng = rng(45);
    let server = InProcess::start(Settings { max_bandits: 3, ..Settings::default() });
    let stays = User::create(server.device(), Answers::Scores);
    let goes = User::create_with(server.device(), &every_round(Answers::Scores));
    let device = server.device();
    let clear = device.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    let clear: wire::PolicyCreated = serde_json::from_slice(&clear).unwrap();
    stays.round(&History::default(), &mut rng);
    let choice = goes.decide(&random_rows(&mut rng), &mut rng);
    let frame = goes.device.feedback(0, &[0.6, 0.8], 0.5, None, &mut rng).unwrap();
    goes.round(&History::default(), &mut rng);
    assert!(goes.raise_once(0, &mut rng), "an update is due");

    for id in [goes.id(), &clear.id] {
        let path = format!("/bandits/{id}");
        let answer = device.delete(&path);
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        for answer in
            [device.delete(&path), device.get(&path), device.post(&format!("{path}/decisions"), b"")]
        {
            assert_eq!(answer.problem().status, 404);
        }
    }
    assert_eq!(goes.send(&choice, &frame).problem().status, 404);
    let folders = || std::fs::read_dir(server.folder.path().join("encrypted")).unwrap().count();
    assert_eq!(folders(), 1);
    assert_eq!(stays.status().feedbacks, 1);
    device.create(&every_round(Answers::Arm));

    let server = server.restart();
    let stays = stays.at(server.address);
    let listed: Vec<serde_json::Value> =
        serde_json::from_slice(&server.device().get("/bandits").ok()).unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert_eq!(stays.status().feedbacks, 1);
}

/// What interrupted creations and deletions leave is removed at the next start, and nothing else.
#[test]
fn leftovers_are_removed() {
    let state = TempDir::new().unwrap();
    let server = Program::start(state.path());
    let user = User::create(server.device(), Answers::Arm);
    server.kill();
    let root = state.path().join("encrypted");
    for name in [format!("{}.new", "0".repeat(32)), format!("{}.deleted", "1".repeat(32))] {
        std::fs::create_dir(root.join(&name)).unwrap();
        std::fs::write(root.join(name).join("snapshot"), b"half").unwrap();
    }
    let server = Program::start(state.path());
    assert_eq!(user.at(server.address).status().round, 0);
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
}
