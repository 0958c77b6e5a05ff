//! What users and operators send while bandits move to other keys.

use crate::committee::{self, Keys, rng};
use crate::rounds::{Over, World, borrowed, ledger_at, next_keys, poll, rows};
use helba_member::MemberKeys;
use helba_member::serve::{Joined, answer, answer_handover, answer_rotation};
use helba_server::{AppState, Error, Settings};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::ClearTwin;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use user_client::{BanditDevice, Client};
use wire::{Labels, LabelsPatch, Manifest, PublicBundle, Question, Wanted};

/// The server of a world, which begins to move its bandits when a test says so.
struct Server {
    runtime: Runtime,
    state: AppState,
    next: Manifest,
    folder: PathBuf,
}

impl Server {
    /// The server of `world` starts again. Members who join it know the keys of `next`.
    fn start(world: &mut World, next: &Keys) -> Self {
        world.server = None;
        let (runtime, bundle) = (Runtime::new().unwrap(), PublicBundle::read(&world.public[..]).unwrap());
        let folder = world.folder.path().join("state");
        let settings = Settings { last_raise: Duration::from_secs(2), ..Settings::default() };
        let (state, listener) = runtime.block_on(async {
            let state = AppState::open(bundle, &folder, settings).unwrap();
            (state, tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap())
        });
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = helba_server::app(state.clone());
        runtime.spawn(helba_server::serve(listener, router, Default::default(), std::future::pending()));
        world.client = Client::new(&url).unwrap().with_token(world.device.token().clone());
        world.next = Some(next.public.clone());
        let next = PublicBundle::read(&next.public[..]).unwrap().manifest;
        Server { runtime, state, next, folder: world.folder.path().join("rotated") }
    }

    /// Moves all bandits.
    fn rotate(&self) -> JoinHandle<Result<usize, Error>> {
        let (state, next, folder) = (self.state.clone(), self.next.clone(), self.folder.clone());
        self.runtime.spawn(async move { state.rotate(&next, &folder).await })
    }

    /// How many bandits moved, within two minutes.
    fn moved(&self, rotation: JoinHandle<Result<usize, Error>>) -> usize {
        let within = async { tokio::time::timeout(Duration::from_secs(120), rotation).await };
        self.runtime.block_on(within).expect("a rotation without an end").unwrap().unwrap()
    }

    fn file(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.rotated"))
    }
}

/// Until `done`, within two minutes.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what} has no end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Keys that follow those of `world`. The tests of this file share a run of their members, which takes some
/// seconds.
fn next_of(world: &World) -> Keys {
    /// The files of the members, and both bundles.
    type Saved = (Vec<Vec<u8>>, Vec<u8>, Vec<u8>);
    static WRITTEN: Mutex<Option<Saved>> = Mutex::new(None);
    let folder = tempfile::tempdir().unwrap();
    let path = |member: usize| folder.path().join(format!("{member}.keys"));
    let mut written = WRITTEN.lock().unwrap();
    let (members, public, users) = written.get_or_insert_with(|| {
        let keys = committee::keys_after(&PublicBundle::read(&world.public[..]).unwrap().manifest);
        let saved = tempfile::tempdir().unwrap();
        let bytes = |member: &MemberKeys| {
            let path = saved.path().join(format!("{}.keys", member.member()));
            member.save(&path, None, &mut rng(1)).unwrap();
            std::fs::read(path).unwrap()
        };
        (keys.members.iter().map(bytes).collect(), keys.public, keys.users)
    });
    let open = |(at, bytes): (usize, &Vec<u8>)| {
        host::write_private(&path(at), bytes).unwrap();
        MemberKeys::open(&path(at), None).unwrap()
    };
    let members = members.iter().enumerate().map(open).collect();
    Keys { members, public: public.clone(), users: users.clone() }
}

/// The reason for which a server refused a request.
fn reason<T>(sent: Result<T, user_client::Error>) -> Option<String> {
    match sent {
        Err(user_client::Error::Refused(problem)) => problem.reason,
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    }
}

const SENDERS: usize = 4;
const AT_ONCE: usize = 5;

/// Four users send feedback in a row while the bandit begins to move. What was acknowledged is in the state
/// under the next keys, and nothing else is: what comes too late is refused with a reason.
#[test]
fn feedback_in_flight_moves_or_is_refused() {
    let mut world = World::start(2, 3, 2, 2);
    let next = next_of(&world);
    let server = Server::start(&mut world, &next);
    (1..=2).for_each(|member| world.join(member));
    let (config, device) = world.create(2, 2);
    let id = device.created().id.clone();
    let asked: Vec<_> = (0..(SENDERS * (AT_ONCE + 1)) as u32).map(|user| rows(user, 2, 2)).collect();
    let several: Vec<&[Vec<f64>]> = asked.iter().map(Vec::as_slice).collect();
    let choices = device.decide_several(&world.client, &several, &mut rng(3)).unwrap().choice;
    let feedback: Vec<_> = choices
        .iter()
        .zip(&asked)
        .map(|(choice, rows)| {
            let (features, reward) = (&rows[choice.arm], if choice.arm == 0 { 0.7 } else { -0.2 });
            let draws = &mut rng(choice.round);
            let body = device.feedback(choice.id, choice.arm, features, reward, None, draws).unwrap();
            (choice.id, body, (features.clone(), reward))
        })
        .collect();

    let send = |at: usize| reason(world.client.feedback_encrypted(&id, feedback[at].0, &feedback[at].1));
    let (acknowledged, refused) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let has_begun = AtomicBool::new(false);
    let rotation = std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (send, acknowledged, refused, has_begun) = (&send, &acknowledged, &refused, &has_begun);
            let own = sender * (AT_ONCE + 1)..(sender + 1) * (AT_ONCE + 1);
            scope.spawn(move || {
                for at in own.clone() {
                    if at + 1 == own.end {
                        until("the beginning", || has_begun.load(Ordering::Relaxed));
                    }
                    match send(at) {
                        None => acknowledged.lock().unwrap().push(at),
                        Some(reason) => {
                            assert_eq!(reason, "overloaded");
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        until("the first feedback", || acknowledged.lock().unwrap().len() >= SENDERS);
        let rotation = server.rotate();
        // A repeat of what was acknowledged is acknowledged until nothing is learnt here any more.
        let first = acknowledged.lock().unwrap()[0];
        until("the beginning", || send(first).is_some());
        has_begun.store(true, Ordering::Relaxed);
        rotation
    });
    let (acknowledged, refused) = (acknowledged.into_inner().unwrap(), refused.into_inner());
    assert!(acknowledged.len() >= SENDERS && refused >= SENDERS, "{} and {refused}", acknowledged.len());
    assert_eq!(acknowledged.len() + refused, feedback.len());
    assert_eq!(server.moved(rotation), 1);
    (1..=2).for_each(|member| world.leave(member));
    let folder = server.folder.clone();
    drop(server);

    world.go_on(next, &folder);
    let device = again(&world, &id);
    let status = world.client.encrypted(&id).unwrap().status;
    let counted = acknowledged.len() as u64;
    assert_eq!((status.feedbacks, status.model_feedbacks), (counted, counted), "{refused} were refused");
    // The model is that of the feedback that was acknowledged, in any order.
    let mut twin = ClearTwin::new(config.clone());
    acknowledged.iter().for_each(|at| twin.learn(&feedback[*at].2.0, feedback[*at].2.1));
    (1..=2).for_each(|member| world.join(member));
    world.play((&config, &device), &mut twin, 50, &mut rng(4));
    (1..=2).for_each(|member| world.leave(member));
}

fn again(world: &World, id: &str) -> BanditDevice<'static> {
    world.device.clone().join_shared(&world.client.encrypted(id).unwrap().created).unwrap()
}

/// Answers as member 2 until `over`, and calls `before` with the id of a bandit before it answers what moves
/// that bandit.
fn play_a_member(
    world: &World,
    keys: &MemberKeys,
    ledger: &Path,
    bandits: &[Joined],
    over: &AtomicBool,
    mut before: impl FnMut(&str),
) {
    let next = next_keys(keys, world.next.as_ref().unwrap());
    let (client, ledger) = (&world.client, ledger_at(ledger));
    while !over.load(Ordering::Relaxed) {
        let Some(request) = client.question(2, borrowed(&poll(keys)), 1 << 22, 1).unwrap() else {
            continue;
        };
        let question = Question::from_bytes(&request.question).unwrap();
        let joined = bandits.iter().find(|joined| joined.created().id == question.bandit);
        let reply = match &question.wanted {
            Wanted::Handover { .. } => answer_handover(keys, &ledger, &request, Some(&next)),
            Wanted::Rotation { .. } => {
                before(&question.bandit);
                answer_rotation(keys, &ledger, joined.unwrap(), &request, &next)
            }
            _ => answer(keys, &ledger, joined.unwrap(), &request),
        };
        // The question may be over, since a bandit that is asked about is deleted.
        client.shares(2, &reply.unwrap()).ok();
    }
}

/// Of three bandits the first is deleted when it has moved, and the second while members are asked to move
/// it. Neither is there under the next keys, nor are its name and tags, and the third one moves. While they
/// move none is created or gets another name, since that would be lost.
#[test]
fn a_bandit_that_is_deleted_while_all_move_does_not_come_back() {
    let mut world = World::start(2, 3, 2, 2);
    let next = next_of(&world);
    let server = Server::start(&mut world, &next);
    world.join(1);
    let keys = world.members.remove(&2).unwrap();
    let mut devices: Vec<_> = (0..3).map(|_| world.create(2, 2).1).collect();
    // They move in the order of their ids.
    devices.sort_by(|a, b| a.created().id.cmp(&b.created().id));
    let ids: Vec<&str> = devices.iter().map(|device| device.created().id.as_str()).collect();
    for id in &ids {
        let patch = LabelsPatch { name: Some(Some(format!("name of {id}"))), tags: None };
        world.client.relabel(id, &patch, None).unwrap();
    }
    let bandits: Vec<_> =
        devices.iter().map(|device| Joined::new(&keys, device.created().clone()).unwrap()).collect();
    let (over, mut deleted) = (AtomicBool::new(false), false);
    let ledger = world.folder.path().join("ledger-2");
    let moved = std::thread::scope(|scope| {
        let (world, server, ids, devices) = (&world, &server, &ids, &devices);
        let _ends = Over(&over);
        let over = &over;
        scope.spawn(move || {
            play_a_member(world, &keys, &ledger, &bandits, over, |id| {
                if id != ids[1] || std::mem::replace(&mut deleted, true) {
                    return;
                }
                assert!(server.file(ids[0]).exists(), "the first has moved");
                ids[..2].iter().for_each(|id| world.client.delete(id).unwrap());
                assert!(!server.file(ids[0]).exists(), "what has moved is deleted too");
                let named = LabelsPatch { name: Some(Some("another".into())), tags: None };
                let config = &devices[2].created().config;
                assert_eq!(reason(world.client.create_encrypted(config)).as_deref(), Some("overloaded"));
                assert_eq!(reason(world.client.relabel(ids[2], &named, None)).as_deref(), Some("overloaded"));
            })
        });
        server.moved(server.rotate())
    });
    world.leave(1);
    assert_eq!(moved, 1, "the third alone");
    assert!(server.file(ids[2]).exists() && !ids[..2].iter().any(|id| server.file(id).exists()));
    let (folder, last) = (server.folder.clone(), ids[2].to_string());
    drop(server);

    world.go_on(next, &folder);
    let all = world.client.bandits().unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    let labels = world.client.labelled(&last).unwrap().labels;
    assert_eq!(labels, Labels { name: Some(format!("name of {last}")), tags: Vec::new() });
}
