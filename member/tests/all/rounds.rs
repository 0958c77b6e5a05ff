use crate::committee::{self, Keys, rng};
use ckks_shares::{OpeningShare, RequestId, RequestKind};
use helba_member::MemberKeys;
use helba_member::serve::{Joined, Ledger, Member, NextKeys, Replica, answer};
use helba_server::{AppState, Settings};
use protocol::{Answers, BanditConfig, KeyPlan, ScoreRing, TaskKind};
use rand_chacha::ChaCha20Rng;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use testkit::ClearTwin;
use user_client::{BanditDevice, Choice, Client, Device, Stop};
use wire::{BanditView, Manifest, MemberReply, MemberRequest, PublicBundle, Question, Raises, Wanted};

/// A server in a thread of its own, which ends when this is dropped.
pub(super) struct Served {
    pub(super) url: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        drop(self.thread.take().map(std::thread::JoinHandle::join));
    }
}

/// The ledger of a member at `path`. Key generation makes it, and these keys come from none.
pub(super) fn ledger_at(path: &Path) -> Ledger {
    if path.exists() { Ledger::open(path) } else { Ledger::create(path) }.unwrap()
}

pub(super) fn serve(public: &[u8], state: &std::path::Path) -> Served {
    serve_with(ANY, public, state, Settings::default(), None)
}

/// A free port of this machine.
const ANY: &str = "127.0.0.1:0";

/// A server that takes the bandits of a folder, and has a users' bundle for devices of before.
fn serve_taking(
    listen: &str,
    public: &[u8],
    state: &Path,
    (folder, users): (PathBuf, Option<PathBuf>),
) -> Served {
    serve_with(listen, public, state, Settings { rotated: Some(folder), users, ..Settings::default() }, None)
}

/// Where the states of bandits go under other keys, and who hears how many they are.
type Rotates = (Manifest, PathBuf, std::sync::mpsc::Sender<Result<usize, helba_server::Error>>);

/// A server with these settings, which may move its bandits to other keys.
fn serve_with(
    listen: &str,
    public: &[u8],
    state: &std::path::Path,
    settings: Settings,
    rotates: Option<Rotates>,
) -> Served {
    let bundle = PublicBundle::read(public).unwrap();
    let state = state.to_path_buf();
    // No member of these tests is silent, and on a busy machine they take their time.
    let (last_raise, member_patience) = (Duration::from_secs(2), Duration::from_secs(60));
    let settings = Settings { last_raise, member_patience, ..settings };
    let listen = listen.to_string();
    let (sender, receiver) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let state = AppState::open(bundle, &state, settings).unwrap();
            let listener = tokio::net::TcpListener::bind(listen).await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            if let Some((next, folder, done)) = rotates {
                let state = state.clone();
                tokio::spawn(async move { drop(done.send(state.rotate(&next, &folder).await)) });
            }
            let (router, ending) = (helba_server::app(state.clone()), state);
            let ends = async {
                drop(stopped.await);
                ending.end_waits();
            };
            helba_server::serve(listener, router, Default::default(), ends).await;
        });
    });
    let url = format!("http://{}", receiver.recv().unwrap());
    Served { url, stop: Some(stop), thread: Some(thread) }
}

/// A server and the members of its committee.
pub(super) struct World {
    pub(super) device: Arc<Device>,
    pub(super) client: Client,
    pub(super) members: BTreeMap<u8, MemberKeys>,
    running: BTreeMap<u8, (Stop, std::thread::JoinHandle<MemberKeys>)>,
    pub(super) server: Option<Served>,
    pub(super) folder: tempfile::TempDir,
    pub(super) public: Vec<u8>,
    pub(super) users: Vec<u8>,
    /// Whether members compute again what they are asked about.
    pub(super) replays: bool,
    /// The public bundle of the keys that members move bandits to.
    pub(super) next: Option<Vec<u8>>,
    /// The name of the folder of the server.
    state: &'static str,
    _turn: MutexGuard<'static, ()>,
}

/// Worlds take turns: members that are silent for five seconds are replaced, and each computes on all
/// processors.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed with its turn leaves nothing behind.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// All records of a journal, page by page.
    pub(crate) fn records(&self, id: &str) -> Vec<Vec<u8>> {
        let mut records: Vec<Vec<u8>> = Vec::new();
        loop {
            let page = self.client.journal(id, records.len() as u64, None).unwrap().records;
            if page.is_empty() {
                return records;
            }
            records.extend(page);
        }
    }

    pub(super) fn start(threshold: u8, members: u8, dim: usize, arms: usize) -> Self {
        Self::start_with(threshold, members, dim, arms, true)
    }

    fn start_with(threshold: u8, members: u8, dim: usize, arms: usize, toy: bool) -> Self {
        let _turn = turn();
        let committee::Keys { members, public, users } = committee::keys(threshold, members, dim, arms, toy);
        let device = Arc::new(Device::read(&users[..]).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let server = serve(&public, &folder.path().join("state"));
        let client = Client::new(&server.url).unwrap().with_token(device.token().clone());
        let members = members.into_iter().map(|keys| (keys.member(), keys)).collect();
        let (server, running) = (Some(server), BTreeMap::new());
        let (replays, next, state) = (false, None, "state");
        World { device, client, members, running, server, folder, public, users, replays, next, state, _turn }
    }

    /// Starts the server again with this bundle, and its state.
    pub(super) fn restart(&mut self, public: Vec<u8>) {
        self.server = None;
        let server = serve(&public, &self.folder.path().join(self.state));
        self.client = Client::new(&server.url).unwrap().with_token(self.device.token().clone());
        (self.server, self.public) = (Some(server), public);
    }

    /// The ledger of a member.
    pub(super) fn ledger(&self, member: u8) -> std::path::PathBuf {
        self.folder.path().join(format!("ledger-{member}"))
    }

    /// What a member of these keys computes again.
    pub(super) fn replica(&self, keys: &MemberKeys) -> Replica {
        Replica::new(keys, PublicBundle::read(&self.public[..]).unwrap(), &mut rng(11)).unwrap()
    }

    /// Starts a member, with the ledger that it had before.
    pub(super) fn join(&mut self, member: u8) {
        let (keys, client, stop) =
            (self.members.remove(&member).unwrap(), self.client.clone(), Stop::default());
        let path = self.ledger(member);
        let of_thread = stop.clone();
        let replica = self.replays.then(|| self.replica(&keys));
        let next = self.next.as_ref().map(|public| next_keys(&keys, public));
        let thread = std::thread::spawn(move || {
            let ledger = ledger_at(&path);
            let member = Member::new(keys, ledger, client, of_thread, |line| eprintln!("{line}"));
            let member = member.verifying(replica).moving_to(next);
            member.run(2, &mut rng(9)).unwrap();
            member.into_keys()
        });
        self.running.insert(member, (stop, thread));
    }

    /// Starts the server again, which moves all bandits to the keys of `next` into `folder`. Members 1 and 2
    /// come when it runs.
    pub(super) fn rotate(&mut self, next: &Keys, folder: &Path) -> usize {
        let moved = self.begin_rotation(next, folder);
        let moved = moved.recv_timeout(Duration::from_secs(120)).unwrap().unwrap();
        (1..=2).for_each(|member| self.leave(member));
        moved
    }

    /// As [`Self::rotate`], and returns where the number of bandits comes. Members 1 and 2 are here then.
    pub(super) fn begin_rotation(
        &mut self,
        next: &Keys,
        folder: &Path,
    ) -> std::sync::mpsc::Receiver<Result<usize, helba_server::Error>> {
        let manifest = PublicBundle::read(&next.public[..]).unwrap().manifest;
        let (sender, receiver) = std::sync::mpsc::channel();
        let listen = self.stop_server();
        let rotates = Some((manifest, folder.to_path_buf(), sender));
        let state = self.folder.path().join("state");
        let server = serve_with(&listen, &self.public, &state, Settings::default(), rotates);
        self.client = Client::new(&server.url).unwrap().with_token(self.device.token().clone());
        self.server = Some(server);
        self.next = Some(next.public.clone());
        (1..=2).for_each(|member| self.join(member));
        receiver
    }

    /// Stops the server. Returns its address, which the next one takes.
    fn stop_server(&mut self) -> String {
        let url = self.server.take().map_or(format!("http://{ANY}"), |server| server.url.clone());
        url.trim_start_matches("http://").into()
    }

    /// Goes on with the keys of `next` and the bandits in `folder`, with ledgers that are empty.
    pub(super) fn go_on(&mut self, next: Keys, folder: &Path) {
        let Keys { members, public, users } = next;
        let listen = self.stop_server();
        self.state = "state-next";
        let (state, path) = (self.folder.path().join(self.state), folder.join("users.bundle"));
        std::fs::write(&path, &users).unwrap();
        let server = serve_taking(&listen, &public, &state, (folder.to_path_buf(), Some(path)));
        self.device = Arc::new(Device::read(&users[..]).unwrap());
        self.client = Client::new(&server.url).unwrap().with_token(self.device.token().clone());
        self.members = members.into_iter().map(|keys| (keys.member(), keys)).collect();
        (self.server, self.public, self.users, self.next) = (Some(server), public, users, None);
        for member in 1..=3 {
            drop(std::fs::remove_file(self.ledger(member)));
        }
    }

    /// Starts the server of [`Self::go_on`] again, as an operator does who leaves `--users` out.
    pub(super) fn restart_next(&mut self, folder: &Path) {
        let listen = self.stop_server();
        let state = self.folder.path().join("state-next");
        let server = serve_taking(&listen, &self.public, &state, (folder.to_path_buf(), None));
        self.client = Client::new(&server.url).unwrap().with_token(self.device.token().clone());
        self.server = Some(server);
    }

    /// Stops a member.
    pub(super) fn leave(&mut self, member: u8) {
        let (stop, thread) = self.running.remove(&member).unwrap();
        stop.stop();
        self.members.insert(member, thread.join().unwrap());
    }

    /// Stops a member, and waits until the server does not count it as here any more (3 s after its last
    /// request), so that no set with it is asked.
    fn leave_for_good(&mut self, member: u8) {
        self.leave(member);
        std::thread::sleep(Duration::from_secs(4));
    }

    pub(super) fn create(&self, dim: usize, arms: usize) -> (BanditConfig, BanditDevice<'static>) {
        let config = BanditConfig { horizon: 100, ..BanditConfig::new(dim, arms) };
        let created = self.client.create_encrypted(&config).unwrap();
        (config, self.device.clone().join_shared(&created).unwrap())
    }

    pub(super) fn feedback(&self, device: &BanditDevice, choice: &Choice, features: &[f64], reward: f64) {
        let frame =
            device.feedback(choice.id, choice.arm, features, reward, None, &mut rng(choice.round)).unwrap();
        self.client.feedback_encrypted(&device.created().id, choice.id, &frame).unwrap();
    }

    /// Plays a round of two arms and features as the twin does, which learns what the device sends, and waits
    /// until members are done.
    pub(super) fn play(
        &self,
        (config, device): (&BanditConfig, &BanditDevice),
        twin: &mut ClearTwin,
        round: u32,
        draws: &mut ChaCha20Rng,
    ) {
        let rows = rows(round, 2, 2);
        let reply = device.decide(&self.client, &rows, draws).unwrap().choice;
        check(config, &reply, &twin.indices(&rows, reply.round, reply.model_feedbacks));
        let reward = if reply.arm == 0 { 0.7 } else { -0.2 };
        self.feedback(device, &reply, &rows[reply.arm], reward);
        twin.learn(&rows[reply.arm], reward);
        self.settle(device);
    }

    /// Waits until no update and no task of the bandit is under way.
    pub(super) fn settle(&self, device: &BanditDevice) -> protocol::Status {
        for _ in 0..1500 {
            let BanditView { status, .. } = self.client.encrypted(&device.created().id).unwrap();
            if !status.updating && !status.refresh_due {
                return status;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("an update without an end")
    }
}

// Members would go on asking a server that is gone.
impl Drop for World {
    fn drop(&mut self) {
        self.running.values().for_each(|(stop, _)| stop.stop());
    }
}

pub(super) fn next_keys(keys: &MemberKeys, public: &[u8]) -> NextKeys {
    NextKeys::new(keys, PublicBundle::read(public).unwrap()).unwrap()
}

pub(super) fn rows(seed: u32, dim: usize, arms: usize) -> Vec<Vec<f64>> {
    let x = |i: usize| f64::from((seed * 7 + i as u32 * 5) % 11) / 11.0 / (dim as f64).sqrt();
    (0..arms).map(|arm| (0..dim).map(|i| x(arm * dim + i)).collect()).collect()
}

/// Ends a member that a test plays, also when an assertion fails.
pub(super) struct Over<'a>(pub(super) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn best(indices: &[f64]) -> (usize, f64) {
    let mut order: Vec<usize> = (0..indices.len()).collect();
    order.sort_by(|a, b| indices[*b].total_cmp(&indices[*a]));
    (order[0], indices[order[0]] - indices[order[1]])
}

/// The arm is that of the exact indices, unless the comparison does not resolve the best two.
pub(super) fn check(config: &BanditConfig, reply: &Choice, indices: &[f64]) {
    let range = helba::Scalars::new(config, reply.round, reply.model_feedbacks).range;
    let (arm, gap) = best(indices);
    let same = gap / range < config.resolution() || reply.arm == arm;
    assert!(same, "{:?} for {indices:?}, {} of the range apart", reply.values, gap / range);
}

/// Users learn through a committee, and a decision counts for the two members who answer: those who raise its
/// scores open its answers.
#[test]
fn users_without_a_secret_learn_through_a_committee() {
    let mut world = World::start(2, 3, 2, 2);
    (1..=3).for_each(|member| world.join(member));
    let (config, device) = world.create(2, 2);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    for round in 1..=12 {
        let rows = rows(round, 2, 2);
        let reply = device.decide(&world.client, &rows, &mut draws).unwrap().choice;
        let indices = twin.indices(&rows, reply.round, reply.model_feedbacks);
        check(&config, &reply, &indices);
        let reward = if reply.arm == 0 { 0.7 } else { -0.2 };
        world.feedback(&device, &reply, &rows[reply.arm], reward);
        twin.learn(&rows[reply.arm], reward);
        world.settle(&device);
    }
    assert!(world.settle(&device).refreshes > 5);
    (1..=3).for_each(|member| world.leave(member));
    let spent = (1..=3).map(|member| ledger_at(&world.ledger(member)).tell().unwrap().spent.decisions);
    let spent: u64 = spent.sum();
    // Two sets that are drawn apart would be 32 in the mean. A member that is late counts for another one.
    assert!((24..28).contains(&spent), "{spent} for 12 decisions");
}

/// Users who ask at once share an evaluation, and each reads its own arms.
#[test]
fn many_users_share_an_evaluation() {
    let mut world = World::start(3, 5, 5, 4);
    (1..=5).for_each(|member| world.join(member));
    let (config, device) = world.create(5, 4);
    let mut twin = ClearTwin::new(config.clone());
    let most = std::thread::scope(|scope| {
        let ask = |user: u32| {
            let (device, client) = (&device, &world.client);
            scope.spawn(move || {
                let rows = rows(user, 5, 4);
                (device.decide(client, &rows, &mut rng(user.into())).unwrap().choice, rows)
            })
        };
        let asked: Vec<_> = (0..24).map(ask).collect();
        let answered: Vec<_> = asked.into_iter().map(|thread| thread.join().unwrap()).collect();
        for (reply, rows) in &answered {
            check(&config, reply, &twin.indices(rows, reply.round, reply.model_feedbacks));
        }
        answered.iter().map(|(reply, _)| reply.users).max().unwrap()
    });
    assert!(most > 4, "{most} users in the largest evaluation");
}

/// While t members are here, decisions go on; with fewer they wait, and learn why; who comes back helps.
#[test]
fn two_members_of_five_may_leave() {
    let mut world = World::start(3, 5, 2, 2);
    (1..=5).for_each(|member| world.join(member));
    let (_, device) = world.create(2, 2);
    let mut draws = rng(4);
    let mut play = |world: &World| {
        let reply = device.decide(&world.client, &rows(3, 2, 2), &mut draws).unwrap().choice;
        world.feedback(&device, &reply, &rows(3, 2, 2)[reply.arm], 0.5);
        world.settle(&device)
    };
    let here = |world: &World| {
        let seen = world.client.fetch("metrics", 1 << 20, 0).unwrap();
        serde_json::from_slice::<serde_json::Value>(&seen).unwrap()["committee"].take()
    };
    play(&world);
    assert_eq!(here(&world), serde_json::json!({ "here": [1, 2, 3, 4, 5], "needed": 3, "members": 5 }));
    for member in [2, 5] {
        world.leave_for_good(member);
        play(&world);
    }
    world.leave_for_good(1);
    assert_eq!(here(&world)["here"], serde_json::json!([3, 4]));
    let page = prometheus(&world);
    for (member, here) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 0)] {
        assert!(page.contains(&format!("\nhelba_member_here{{member=\"{member}\"}} {here}\n")), "{page}");
    }
    assert!(page.contains("\nhelba_members_needed 3\n"), "{page}");
    let refused = device.decide(&world.client, &rows(1, 2, 2), &mut rng(5)).err().unwrap();
    assert!(refused.to_string().contains("2 members of the committee are here, and it takes 3"), "{refused}");
    world.join(5);
    play(&world);
}

/// What the server tells Prometheus.
fn prometheus(world: &World) -> String {
    let address = world.client.server().strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// A request of a member for questions, now.
pub(super) fn poll(keys: &MemberKeys) -> (u64, Vec<u8>) {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    (time, keys.sign_poll(time))
}

pub(super) fn borrowed((time, signature): &(u64, Vec<u8>)) -> (u64, &[u8]) {
    (*time, signature)
}

/// What a member did not sign is refused, whoever sends it, and a member that refuses is replaced by another.
#[test]
fn attack_nobody_answers_for_a_member() {
    let mut world = World::start(2, 3, 2, 2);
    let (config, device) = world.create(2, 2);
    let hostile = world.members.remove(&1).unwrap();
    let path = world.folder.path().join("ledger-1");
    (2..=3).for_each(|member| world.join(member));
    let (answered, refusals) = std::thread::scope(|scope| {
        let decided = scope.spawn(|| {
            let decide = |seed: u32| device.decide(&world.client, &rows(seed, 2, 2), &mut rng(seed.into()));
            // Sets are drawn at random: some have member 1.
            (0..8).map(|seed| decide(seed).unwrap().choice).collect::<Vec<_>>()
        });
        let ledger = ledger_at(&path);
        let joined = Joined::new(&hostile, device.created().clone()).unwrap();
        let (client, mut refusals) = (&world.client, 0);
        while !decided.is_finished() {
            let Some(request) = client.question(1, borrowed(&poll(&hostile)), 1 << 22, 1).unwrap() else {
                continue;
            };
            let reply = answer(&hostile, &ledger, &joined, &request).unwrap();
            assert!(client.shares(2, &reply).is_err(), "as another member");
            if let MemberReply::Frames { number, frames, signature } = reply {
                let frames = frames.into_iter().rev().collect();
                let altered = MemberReply::Frames { number, frames, signature };
                assert!(client.shares(1, &altered).is_err(), "in another order than it signed");
            }
            let why = MemberReply::refused(hostile.signing(), request.number, &request.question, "a reason");
            let MemberReply::Refused { number, why: text, signature } = why.clone() else {
                panic!("a refusal")
            };
            let altered = MemberReply::Refused { number, why: format!("{text}!"), signature };
            assert!(client.shares(1, &altered).is_err(), "another reason than it signed");
            client.shares(1, &why).unwrap();
            assert!(client.shares(1, &why).is_err(), "the question is over");
            refusals += 1;
        }
        (decided.join().unwrap(), refusals)
    });
    assert!(refusals > 0, "some sets had member 1");
    let mut twin = ClearTwin::new(config.clone());
    for (seed, choice) in (0..).zip(&answered) {
        check(&config, choice, &twin.indices(&rows(seed, 2, 2), choice.round, choice.model_feedbacks));
    }
}

/// A member that is busy is asked the same again when there are too few others, and nobody else says that it
/// is. Where there are others, they are asked at once.
#[test]
fn a_member_that_is_busy_is_asked_again_later() {
    for others in [1, 2] {
        let mut world = World::start(2, 3, 2, 2);
        let (config, device) = world.create(2, 2);
        let keys = world.members.remove(&1).unwrap();
        let path = world.folder.path().join("ledger-1");
        (2..=1 + others).for_each(|member| world.join(member));
        let (choices, asked) = std::thread::scope(|scope| {
            let decided = scope.spawn(|| {
                let decide =
                    |seed: u32| device.decide(&world.client, &rows(seed, 2, 2), &mut rng(seed.into()));
                (0..others * 4).map(|seed| decide(seed.into()).unwrap().choice).collect::<Vec<_>>()
            });
            let ledger = ledger_at(&path);
            let joined = Joined::new(&keys, device.created().clone()).unwrap();
            let (client, mut asked) = (&world.client, Vec::new());
            while !decided.is_finished() {
                let Some(request) = client.question(1, borrowed(&poll(&keys)), 1 << 22, 1).unwrap() else {
                    continue;
                };
                let again = asked.contains(&request.question);
                let reply = match again {
                    true => answer(&keys, &ledger, &joined, &request).unwrap(),
                    false => MemberReply::busy(keys.signing(), request.number, &request.question),
                };
                if !again {
                    let made_up = MemberReply::busy(keys.signing(), request.number, b"another question");
                    assert!(client.shares(1, &made_up).is_err(), "signed for another question");
                }
                client.shares(1, &reply).ok();
                asked.push(request.question);
            }
            (decided.join().unwrap(), asked)
        });
        let again = asked.iter().enumerate().filter(|(at, question)| asked[..*at].contains(question)).count();
        match others {
            // Two questions a decision, each asked twice.
            1 => assert_eq!((again, asked.len()), (8, 16)),
            _ => assert_eq!(again, 0, "of {} questions", asked.len()),
        }
        let mut twin = ClearTwin::new(config.clone());
        for (seed, choice) in (0..).zip(&choices) {
            check(&config, choice, &twin.indices(&rows(seed, 2, 2), choice.round, choice.model_feedbacks));
        }
    }
}

/// A member that sends random bytes in the place of its shares of sums and models, under its own signature,
/// is found: other sets are asked, the rounds go on, and what is learnt is what the twin learns. While there
/// is no set without it, the model waits, and no batch is undone. The control of the check itself is
/// `attack_garbage_of_a_member_is_found` in `ckks-committee`.
#[test]
fn attack_garbage_of_a_member_is_not_learnt() {
    let mut world = World::start(2, 3, 2, 2);
    let (config, device) = world.create(2, 2);
    let hostile = world.members.remove(&1).unwrap();
    let path = world.folder.path().join("ledger-1");
    world.join(2);
    let client = world.client.clone();
    let (over, spoils_sums) = (AtomicBool::new(false), AtomicBool::new(false));
    let sent = std::thread::scope(|scope| {
        let answers = scope.spawn(|| {
            let spoils = |kind| {
                kind == TaskKind::Model || kind == TaskKind::Sum && spoils_sums.load(Ordering::Relaxed)
            };
            spoil((&hostile, &path), &client, &device, &over, spoils)
        });
        let ends = Over(&over);
        let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
        let status = || client.encrypted(&device.created().id).unwrap().status;
        // Until the first batch ends.
        let mut played = 0;
        while !status().updating && !status().refresh_due {
            played += 1;
            let rows = rows(played, 2, 2);
            let reply = device.decide(&world.client, &rows, &mut draws).unwrap().choice;
            let reward = if reply.arm == 0 { 0.7 } else { -0.2 };
            world.feedback(&device, &reply, &rows[reply.arm], reward);
            twin.learn(&rows[reply.arm], reward);
        }
        let refresh_due = (0..1500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            status().refresh_due
        });
        assert!(refresh_due, "the model is due");
        std::thread::sleep(Duration::from_secs(5));
        assert!(status().refresh_due && status().refreshes == 0, "the batch waits");
        spoils_sums.store(true, Ordering::Relaxed);
        world.join(3);
        assert_eq!(world.settle(&device).refreshes, 1);
        for round in played + 1..=8 {
            world.play((&config, &device), &mut twin, round, &mut draws);
        }
        assert!(world.settle(&device).refreshes > 3, "batches were learnt");
        drop(ends);
        answers.join().unwrap()
    });
    assert!(sent > 0, "some sets had member 1");
}

/// Answers as `hostile`, whose ledger is at `path`, until it is over, but for garbage in the place of its
/// shares of tasks that it `spoils`. Returns how many these were.
fn spoil(
    (hostile, path): (&MemberKeys, &Path),
    client: &Client,
    device: &BanditDevice,
    over: &AtomicBool,
    spoils: impl Fn(TaskKind) -> bool,
) -> usize {
    let ledger = ledger_at(path);
    let joined = Joined::new(hostile, device.created().clone()).unwrap();
    let (mut sent, mut noise) = (0, rng(6));
    while !over.load(Ordering::Relaxed) {
        let asked = client.question(hostile.member(), borrowed(&poll(hostile)), 1 << 22, 1).unwrap();
        let Some(request) = asked else { continue };
        let mut reply = answer(hostile, &ledger, &joined, &request).unwrap();
        let question = Question::from_bytes(&request.question).unwrap();
        if let (MemberReply::Frames { frames, signature, .. }, Wanted::Transfer(kind)) =
            (&mut reply, &question.wanted)
            && spoils(*kind)
        {
            let requests = garbage(hostile, &request, *kind, frames, &mut noise);
            *signature = wire::sign_frames(hostile.signing(), &requests, frames);
            sent += 1;
        }
        client.shares(hostile.member(), &reply).ok();
    }
    sent
}

/// Two members of five send random bytes in the place of their shares of models. With one of the others away
/// there is no set without them, and a batch is undone. The control is the batch before, while all are here.
#[test]
fn attack_two_members_who_send_garbage_undo_a_batch_where_no_set_is_without_them() {
    let mut world = World::start(3, 5, 2, 2);
    let (config, device) = world.create(2, 2);
    let hostile = [1, 2].map(|member| {
        let keys = world.members.remove(&member).unwrap();
        (keys, world.folder.path().join(format!("ledger-{member}")))
    });
    (3..=5).for_each(|member| world.join(member));
    let (client, over) = (world.client.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for (keys, path) in &hostile {
            let (client, device, over) = (&client, &device, &over);
            scope.spawn(move || spoil((keys, path), client, device, over, |kind| kind == TaskKind::Model));
        }
        let _ends = Over(&over);
        let status = || client.encrypted(&device.created().id).unwrap().status;
        let (mut twin, mut draws, mut round) = (ClearTwin::new(config.clone()), rng(3), 0);
        while status().refreshes == 0 {
            round += 1;
            world.play((&config, &device), &mut twin, round, &mut draws);
        }
        world.leave_for_good(5);
        // The batch that was open when member 5 left may still be learnt. One that begins now is undone.
        loop {
            round += 1;
            let rows = rows(round, 2, 2);
            let reply = device.decide(&client, &rows, &mut draws).unwrap().choice;
            let body = device.feedback(reply.id, reply.arm, &rows[reply.arm], 0.5, None, &mut draws).unwrap();
            let send = || client.feedback_encrypted(&device.created().id, reply.id, &body);
            send().unwrap();
            world.settle(&device);
            let Err(refused) = send() else { continue };
            let user_client::Error::Refused(problem) = refused else { panic!("{refused}") };
            assert!(problem.detail.contains("was dropped"), "{}", problem.detail);
            break;
        }
        let protocol::Status { batches, refreshes, .. } = status();
        assert!(refreshes < batches, "{refreshes} models of {batches} batches");
    });
}

/// Replaces the downward half of each transfer by uniform residues. Returns the ids of the requests.
fn garbage(
    keys: &MemberKeys,
    request: &MemberRequest,
    kind: TaskKind,
    frames: &mut [Vec<u8>],
    rng: &mut ChaCha20Rng,
) -> Vec<[u8; 32]> {
    let manifest = keys.manifest();
    let ring = ScoreRing::for_shape(manifest.shape, true).unwrap();
    let large = KeyPlan::new(manifest.shape, true).unwrap().params.validate().unwrap();
    let small = ring.params.validate().unwrap();
    let (source, id, level) = match kind {
        TaskKind::Model => (&large, &manifest.key_id, protocol::levels::REFRESH_LEVEL),
        _ => (&small, &manifest.scores.key_id, small.max_level()),
    };
    let id = id.parse().unwrap();
    let c1 = ckks::read_polynomial(source, id, level, &request.c1).unwrap();
    let set = (1..=16).filter(|j| request.set >> (j - 1) & 1 == 1).collect::<Vec<u8>>();
    let set = keys.quorum().active(&set).unwrap();
    let mut requests = Vec::new();
    for (number, frame) in (0..).zip(frames.iter_mut().step_by(2)) {
        let (basis, forms) = (source.q_basis(level), frame.len() / 8 / (level + 1));
        let uniform = rns::sample::uniform(basis, rng).into_coeff(basis);
        let residues = |f: usize| (0..=level).map(|i| uniform.limb(i)[f]).collect();
        *frame = wire::write_openings(&[OpeningShare((0..forms).map(residues).collect())]);
        let header = wire::transfer_header(&request.question, number);
        requests.push(*RequestId::new(RequestKind::Transfer, set, &header, Some(&c1)).bytes());
    }
    requests
}

/// Where a committee holds the key, nobody raises alone, and bandits are refused that need a holder of the
/// key.
#[test]
fn attack_a_holder_of_the_token_is_no_member() {
    let world = World::start(2, 3, 2, 2);
    let (config, device) = world.create(2, 2);
    let refused = |error: user_client::Error, reason: &str| {
        let user_client::Error::Refused(problem) = error else { panic!("{error}") };
        assert_eq!(problem.reason.as_deref(), Some(reason), "{}", problem.detail);
    };
    let (id, limits) = (&device.created().id, device.limits());
    refused(world.client.raises(id, limits, 0).unwrap_err(), "has_committee");
    refused(
        world.client.post_raises(id, limits, &Raises::default().to_bytes()).unwrap_err(),
        "has_committee",
    );
    for member in [0, 4, 255] {
        refused(world.client.question(member, (0, &[]), 1 << 20, 0).unwrap_err(), "unknown_path");
    }
    let stranger = Client::new(world.client.server()).unwrap();
    let own = &world.members[&1];
    refused(stranger.question(1, borrowed(&poll(own)), 1 << 20, 0).unwrap_err(), "unauthorized");
    // Whoever has a token takes no question of a member, and does not make it seem to be here.
    let (time, signature) = poll(own);
    for (member, time, signature) in
        [(2, time, &signature[..]), (1, time - 1, &signature), (1, time, &signature[1..]), (1, time, &[])]
    {
        let error = world.client.question(member, (time, signature), 1 << 20, 0).unwrap_err();
        refused(error, "unauthorized");
    }
    let old = time - 1000;
    refused(world.client.question(1, (old, &own.sign_poll(old)), 1 << 20, 0).unwrap_err(), "unauthorized");
    assert_eq!(world.client.question(1, (time, &signature), 1 << 20, 0).unwrap(), None);
    let over = MemberReply::refused(world.members[&1].signing(), 7, b"", "a reason");
    refused(world.client.shares(1, &over).unwrap_err(), "task_over");
    let open = BanditConfig { answers: Answers::Scores, open_model: true, ..config.clone() };
    refused(world.client.create_encrypted(&open).unwrap_err(), "bad_configuration");
    let counted = BanditConfig { counters: Some(Default::default()), ..config.clone() };
    refused(world.client.create_encrypted(&counted).unwrap_err(), "bad_configuration");
    let mut traced = config;
    traced.linear.schedule = bandit::Schedule::TraceOrGrowth;
    refused(world.client.create_encrypted(&traced).unwrap_err(), "bad_configuration");
}

/// Decisions of a lone user under keys of the default parameters, 3 of 5, one after the other: prints times.
#[test]
#[ignore = "prints times of real parameters"]
fn times_of_real_parameters() {
    let mut world = World::start_with(3, 5, 7, 4, false);
    world.replays = std::env::var_os("REPLAY").is_some();
    (1..=5).for_each(|member| world.join(member));
    let (config, device) = world.create(7, 4);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    let mut times = Vec::new();
    for round in 1..=20 {
        let rows = rows(round, 7, 4);
        let began = std::time::Instant::now();
        let reply = device.decide(&world.client, &rows, &mut draws).unwrap().choice;
        times.push(began.elapsed().as_secs_f64());
        let indices = twin.indices(&rows, reply.round, reply.model_feedbacks);
        check(&config, &reply, &indices);
        world.feedback(&device, &reply, &rows[reply.arm], 0.5);
        twin.learn(&rows[reply.arm], 0.5);
        world.settle(&device);
    }
    times.sort_by(f64::total_cmp);
    println!("a decision takes {:.3} s at the median, {:.3} to {:.3} s", times[10], times[0], times[19]);
}
