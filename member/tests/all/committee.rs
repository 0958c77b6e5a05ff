//! A committee in processes of its own, a server, and users.

use crate::processes::{Killed, PROGRAM, output};
use bandit::{LinearConfig, Schedule, WidthShape};
use helba_server::{AppState, Connections, Settings, app, serve};
use protocol::{ArmCounter, Counters};
use shares::SignedManifest;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use user_client::{Client, CommitteeSession, CommitteeUser, Creation, Error, Keep, LoggedRound};
use wire::Labels;

/// A committee with keys, made by processes over a board.
struct Made {
    folder: TempDir,
    members: u8,
}

impl Made {
    fn new(threshold: u8, members: u8) -> Self {
        Self::after(None, threshold, members)
    }

    /// A committee that follows the one of a manifest.
    fn after(follows: Option<&str>, threshold: u8, members: u8) -> Self {
        let made = Made { folder: tempfile::tempdir().unwrap(), members };
        let cards: Vec<String> = (1..=members)
            .map(|j| {
                let card = made.path(&format!("{j}.card"));
                let identity = made.path(&format!("{j}.identity"));
                std::fs::write(&card, output(&["identity", "--out", &identity])).unwrap();
                card
            })
            .collect();
        let (proposal, threshold) = (made.path("proposal"), threshold.to_string());
        let mut propose = vec!["propose", "--threshold", &threshold, "--out", &proposal];
        propose.extend(follows.iter().flat_map(|follows| ["--follows", follows]));
        propose.extend(cards.iter().map(String::as_str));
        output(&propose);
        let mut board = Command::new(PROGRAM);
        board.args(["board", "--proposal", &proposal, "--listen", "127.0.0.1:0"]);
        let mut board = Killed(board.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(board.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = format!("http://{}", line.trim().strip_prefix("listening on ").unwrap());
        let keygen = |j: u8| {
            let (identity, out) = (made.path(&format!("{j}.identity")), made.path(&format!("member-{j}")));
            let mut command = Command::new(PROGRAM);
            command.args(["keygen", "--proposal", &proposal, "--identity", &identity]);
            command.args(["--board", &address, "--out", &out]).stdout(Stdio::null());
            Killed(command.stderr(Stdio::null()).spawn().unwrap())
        };
        let mut running: Vec<Killed> = (1..=members).map(keygen).collect();
        assert!(running.iter_mut().all(|member| member.0.wait().unwrap().success()));
        made
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn manifest(&self) -> SignedManifest {
        let of = |j: u8| std::fs::read(self.path(&format!("member-{j}/committee.manifest"))).unwrap();
        assert!((2..=self.members).all(|j| of(j) == of(1)), "all have one manifest");
        SignedManifest::from_bytes(&of(1)).unwrap()
    }

    fn serve(&self, member: u8, server: &str) -> Killed {
        self.serve_with(member, server, &[])
    }

    fn serve_with(&self, member: u8, server: &str, more: &[&str]) -> Killed {
        let mut command = Command::new(PROGRAM);
        let (keys, identity) =
            (self.path(&format!("member-{member}")), self.path(&format!("{member}.identity")));
        command.args(["serve", "--server", server, "--keys", &keys, "--identity", &identity]);
        command.args(more);
        Killed(command.stderr(Stdio::null()).spawn().unwrap())
    }
}

/// A server with a committee in a thread of its own; it stops when this is dropped.
struct Running {
    address: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn new(manifest: SignedManifest, state: &Path, port: u16) -> Self {
        Self::with_next(manifest, None, state, port)
    }

    fn with_next(manifest: SignedManifest, next: Option<SignedManifest>, state: &Path, port: u16) -> Self {
        let (committee, next_committee) = (Some(manifest), next);
        Self::with(Settings { committee, next_committee, ..Settings::default() }, state, port)
    }

    fn with(settings: Settings, state: &Path, port: u16) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (sender, receiver) = std::sync::mpsc::channel();
        let state: PathBuf = state.into();
        let thread = std::thread::spawn(move || {
            tokio::runtime::Runtime::new().unwrap().block_on(async move {
                let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
                sender.send(format!("http://{}", listener.local_addr().unwrap())).unwrap();
                let settings = Settings { member_patience: Duration::from_secs(1), ..settings };
                let state = AppState::open(None, &state, settings).unwrap();
                let ends = state.clone();
                let stop = async move {
                    let _ = stopped.await;
                    ends.end_waits();
                };
                serve(listener, app(state), Connections::default(), stop).await;
            });
        });
        Running { address: receiver.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    fn port(&self) -> u16 {
        self.address.rsplit(':').next().unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        self.thread.take().map(|thread| thread.join());
    }
}

/// The reason and the sentence of what the server refused.
fn refusal(error: Error) -> (String, String) {
    match error {
        Error::Refused(problem) => (problem.reason.unwrap_or_default(), problem.detail),
        other => panic!("{other}"),
    }
}

fn config(d: usize, k: usize) -> LinearConfig {
    LinearConfig {
        d,
        k,
        l: 1.0,
        lambda: 1.0,
        width: WidthShape::Tangent.width(0.5),
        schedule: Schedule::Every { rounds: 4 },
        ..LinearConfig::figure_1()
    }
}

/// Four members make keys, serve two users, and learn; one is killed and comes back without what it
/// remembered, and the server starts again from its folder meanwhile. Whoever names another committee gets
/// nothing.
#[test]
fn a_committee_serves_users_over_http() {
    let made = Made::new(2, 4);
    let state = tempfile::tempdir().unwrap();
    let server = Running::new(made.manifest(), state.path(), 0);
    let mut members: Vec<Killed> = (1..=4).map(|member| made.serve(member, &server.address)).collect();
    let client = || Client::new(&server.address).unwrap();
    let id = made.manifest().manifest.id();
    assert!(matches!(CommitteeUser::begin(client(), Some([7; 32])), Err(Error::OtherCommittee { .. })));
    let users = [(); 2].map(|()| CommitteeUser::begin(client(), Some(id)).unwrap());
    let create = |rewards| {
        let creation = Creation::new(Labels::default(), &mut rand::rng());
        client().create_of_committee(&config(2, 2), (1, 1000), rewards, None, &creation)
    };
    let bandit = create(None).unwrap().of;
    let rows = vec![vec![0.9, 0.1], vec![0.1, 0.9]];
    // Devices hold themselves to the range of rewards that a bandit was created for.
    let narrow = create(Some([0.1, 1.0])).unwrap().of;
    assert!(refusal(create(Some([1.0, 0.0])).unwrap_err()).1.contains("--rewards"));
    let decision = users[0].decide(&narrow, &rows).unwrap().label;
    for refused in [-1.0, 0.0999] {
        let refused = users[0].feedback(&narrow, &decision, refused);
        assert!(matches!(refused, Err(Error::RewardRange { .. })), "{refused:?}");
    }
    users[0].feedback(&narrow, &decision, 0.1).unwrap();
    let mut arms = vec![];
    let mut round = |user: &CommitteeUser| {
        let decision = user.decide(&bandit, &rows).unwrap();
        user.feedback(&bandit, &decision.label, if decision.arm == 1 { 1.0 } else { -1.0 }).unwrap();
        arms.push(decision.arm);
        decision.label
    };
    let mut last = [0; 32];
    for i in 0..8 {
        last = round(&users[i % 2]);
    }
    drop(members.remove(2));
    for i in 0..4 {
        round(&users[i % 2]);
    }
    // It has lost what it remembers, and says so.
    std::fs::remove_dir_all(made.path("member-3/memory")).unwrap();
    assert!(!made.serve(3, &server.address).0.wait().unwrap().success());
    members.push(made.serve_with(3, &server.address, &["--restored"]));
    let port = server.port();
    drop(server);
    let server = Running::new(made.manifest(), state.path(), port);
    for i in 0..4 {
        round(&users[i % 2]);
    }
    assert!(arms[8..].iter().all(|arm| *arm == 1), "{arms:?}");
    // A feedback is returned and erased by its own device alone, and another one is told so.
    let decision = users[0].decide(&bandit, &rows).unwrap().label;
    for refused in [users[0].erase(&bandit, &last).map(drop), users[1].feedback(&bandit, &decision, 1.0)] {
        let (reason, detail) = refusal(refused.unwrap_err());
        assert_eq!(reason, "unknown_decision");
        assert!(detail.contains("another session") && detail.contains("--session"), "{detail}");
    }
    users[0].feedback(&bandit, &decision, 1.0).unwrap();
    assert!(!users[0].erase(&bandit, &decision).unwrap(), "no model had it");
    assert!(users[1].erase(&bandit, &last).unwrap());
    let until = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let view = Client::new(&server.address).unwrap().committee_bandit(&bandit.id).unwrap();
        if view.feedbacks == 15 && view.updates == 5 {
            break;
        }
        assert!(std::time::Instant::now() < until, "{view:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Three members of 2 of 3 move to four of 2 of 4. Sessions go on, those of programs that run on too; what
/// was learnt is there; the old members end by themselves. Once it has moved the server starts with the
/// manifest of the next committee alone, and no more with the old one.
#[test]
fn a_committee_moves_to_other_members() {
    let old = Made::new(2, 3);
    let manifest = old.path("member-1/committee.manifest");
    let next = Made::after(Some(&manifest), 2, 4);
    let state = tempfile::tempdir().unwrap();
    let server = Running::with_next(old.manifest(), Some(next.manifest()), state.path(), 0);
    let members: Vec<Killed> = (1..=3).map(|member| old.serve(member, &server.address)).collect();
    let _next_members: Vec<Killed> = (1..=4).map(|member| next.serve(member, &server.address)).collect();
    let address = server.address.clone();
    let client = || Client::new(&address).unwrap();
    let known = Some(old.manifest().id());
    let file = state.path().join("user.session");
    let user = CommitteeUser::open(client(), known, &file).unwrap();
    let running = [Keep::Nowhere(old.manifest().id()), Keep::File(known, file.clone())]
        .map(|keep| CommitteeSession::new(client(), keep));
    running.iter().for_each(|running| drop(running.user().unwrap()));
    let creation = Creation::new(Labels::default(), &mut rand::rng());
    let bandit = client().create_of_committee(&config(2, 2), (1, 1000), None, None, &creation).unwrap().of;
    let rows = vec![vec![0.9, 0.1], vec![0.1, 0.9]];
    let round = |user: &CommitteeUser| {
        let bandit = client().committee_bandit(&bandit.id).unwrap().created;
        let decision = user.decide(&bandit, &rows).unwrap();
        user.feedback(&bandit, &decision.label, if decision.arm == 1 { 1.0 } else { -1.0 }).unwrap();
        decision.arm
    };
    for _ in 0..8 {
        round(&user);
    }
    // They are stopped in the middle of an update, which they compute before they leave.
    drop(members);
    let leaves = next.path("member-1/committee.manifest");
    let leave = |member| old.serve_with(member, &server.address, &["--leaves-for", &leaves]);
    let mut leaving: Vec<Killed> = (1..=3).map(leave).collect();
    assert!(leaving.iter_mut().all(|member| member.0.wait().unwrap().success()));
    let view = client().committee_bandit(&bandit.id).unwrap();
    assert_eq!(view.feedbacks, 8);
    // Sessions go on with the next committee: at once in programs that run on, and from what is kept.
    let next_id = next.manifest().id();
    let before = user.device().session_id();
    assert_eq!(user.decide(&view.created, &rows).unwrap().arm, 1);
    assert_ne!(user.device().session_id(), before);
    let followed = user.device().session_id();
    for running in &running {
        assert!(running.is_with(&ckks::Hex(&next_id).to_string()).unwrap());
        assert!(!running.is_with(&ckks::Hex(&[7; 32]).to_string()).unwrap());
        assert_eq!(running.user().unwrap().decide(&view.created, &rows).unwrap().arm, 1);
        assert_eq!(running.user().unwrap().device().committee(), next_id);
    }
    assert_eq!(running[1].user().unwrap().device().session_id(), followed);
    for id in [known, Some(next_id), None] {
        let again = CommitteeUser::open(client(), id, &file).unwrap();
        assert_eq!(again.device().session_id(), followed);
        assert_eq!(again.session().bytes(), user.session().bytes());
    }
    let user = CommitteeUser::open(client(), None, &file).unwrap();
    let other = CommitteeUser::open(client(), Some([7; 32]), &file);
    assert!(matches!(other, Err(Error::OtherCommittee { .. })));
    let arms: Vec<usize> = (0..4).map(|_| round(&user)).collect();
    assert_eq!(arms, [1; 4]);
    let port = server.port();
    drop(server);
    let refused = AppState::open(
        None,
        state.path(),
        Settings { committee: Some(old.manifest()), ..Settings::default() },
    );
    assert!(refused.is_err());
    let _server = Running::new(next.manifest(), state.path(), port);
    CommitteeUser::begin(client(), known).unwrap();
    assert_eq!((round(&user), client().committee_bandit(&bandit.id).unwrap().feedbacks), (1, 12));
}

/// Members open the counters of a bandit for whole groups: they are what two users have played, also after
/// the server has started again. A bandit without them says so, noise is refused by name, and rounds of
/// before would be counted for other arms. Whoever waits for members who are away is told so.
#[test]
fn counters_of_a_committee_are_what_was_played() {
    let made = Made::new(2, 3);
    let state = tempfile::tempdir().unwrap();
    let server = Running::new(made.manifest(), state.path(), 0);
    let mut members: Vec<Killed> = (1..=3).map(|member| made.serve(member, &server.address)).collect();
    let address = server.address.clone();
    let client = || Client::new(&address).unwrap();
    let id = made.manifest().manifest.id();
    let users = [(); 2].map(|()| CommitteeUser::begin(client(), Some(id)).unwrap());
    let create = |counters| {
        let creation = Creation::new(Labels::default(), &mut rand::rng());
        client().create_of_committee(&config(2, 2), (1, 1000), None, counters, &creation)
    };
    let none = create(None).unwrap().of;
    assert_eq!(refusal(client().counters_of_committee(&none.id).unwrap_err()).0, "no_counters");
    let noisy = refusal(create(Some(Counters { every: 10, rho: Some(0.5) })).unwrap_err()).1;
    assert!(noisy.contains("counters.rho (--counters-rho): a bandit of a committee has none"), "{noisy}");
    let small = refusal(create(Some(Counters { every: 9, rho: None })).unwrap_err()).1;
    assert!(small.contains("counters.every (--counters) is 9, it must be from 10 to 1000000"), "{small}");
    let bandit = create(Some(Counters { every: 10, rho: None })).unwrap().of;
    let round = LoggedRound { arm: 0, features: vec![0.5, 0.5], reward: 1.0 };
    let learnt = users[0].learn(&bandit, &[round], |_, _| panic!("nothing was to be asked"));
    assert!(matches!(learnt, Err(Error::CountsArms)));
    let nothing = ArmCounter { pulls: 0.0, reward: 0.0 };
    let mut played = [nothing; 2];
    let opened = client().counters_of_committee(&bandit.id).unwrap();
    assert_eq!((opened.feedbacks, &opened.arms[..]), (0, &played[..]));
    // Batches of four: twelve are the first whole group.
    for i in 0..12 {
        let decision = users[i % 2].decide(&bandit, &[vec![0.9, 0.1], vec![0.1, 0.9]]).unwrap();
        let reward = i as f64 / 16.0 - 0.25;
        users[i % 2].feedback(&bandit, &decision.label, reward).unwrap();
        played[decision.arm].pulls += 1.0;
        played[decision.arm].reward += reward;
    }
    let until = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let opened = client().counters_of_committee(&bandit.id).unwrap();
        if opened.feedbacks > 0 {
            assert_eq!((opened.feedbacks, opened.deviation, &opened.arms[..]), (12, 0.0, &played[..]));
            break;
        }
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(Duration::from_millis(100));
    }
    let port = server.port();
    drop(server);
    // Two are away: whoever waits for a decision is told so, at first and at last.
    members.truncate(1);
    let (committee, raise_timeout) = (Some(made.manifest()), Duration::from_secs(10));
    let settings = Settings { committee, raise_timeout, ..Settings::default() };
    let _server = Running::with(settings, state.path(), port);
    assert_eq!(client().counters_of_committee(&bandit.id).unwrap().arms, played);
    let (sender, told) = std::sync::mpsc::channel();
    let telling = |who: &'static str| {
        let sender = sender.clone();
        client().telling(move |sentence| sender.send((who, sentence.to_string())).unwrap())
    };
    let kept = users[0].session();
    let user = |who| CommitteeUser::restore(telling(who), None, &kept).unwrap();
    let round = LoggedRound { arm: 0, features: vec![0.5, 0.5], reward: 1.0 };
    let (decides, learns, begins) = (user("decide"), user("learn"), telling("begin"));
    let rows = [vec![0.9, 0.1], vec![0.1, 0.9]];
    let waited = std::thread::scope(|scope| {
        let decides = scope.spawn(|| decides.decide(&bandit, &rows).map(drop).unwrap_err());
        let learns = scope.spawn(|| learns.learn(&none, &[round], |_, _| Ok(())).unwrap_err());
        let begins = scope.spawn(|| CommitteeUser::begin(begins, Some(id)).map(drop).unwrap_err());
        [decides, learns, begins].map(|waits| waits.join().unwrap())
    });
    for refused in waited {
        let (reason, detail) = refusal(refused);
        assert_eq!(reason, "not_evaluated");
        assert!(detail.contains("members [1] of the committee are here, and 3 are needed"), "{detail}");
    }
    let last: BTreeMap<_, _> = told.try_iter().collect();
    let sentence = "waits for members: 1 of the committee are here, and 3 are needed".to_string();
    assert_eq!(last, ["begin", "decide", "learn"].map(|who| (who, sentence.clone())).into());
}

/// A device has a bandit learn what was played before it, within the decisions of its session, and has a
/// round of it erased. Where rounds would wait for other sessions, or for more decisions than the session
/// has, the device says so.
#[test]
fn rounds_of_before_are_learnt() {
    let made = Made::new(2, 3);
    let state = tempfile::tempdir().unwrap();
    let server = Running::new(made.manifest(), state.path(), 0);
    let _members: Vec<Killed> = (1..=3).map(|member| made.serve(member, &server.address)).collect();
    let client = || Client::new(&server.address).unwrap();
    let id = made.manifest().manifest.id();
    let users = [(); 2].map(|()| CommitteeUser::begin(client(), Some(id)).unwrap());
    let create = |rules| {
        let creation = Creation::new(Labels::default(), &mut rand::rng());
        client().create_of_committee(&config(2, 2), rules, None, None, &creation).unwrap().of
    };
    let rows = vec![vec![0.9, 0.1], vec![0.1, 0.9]];
    let round = |arm: usize| LoggedRound { arm, features: rows[arm].clone(), reward: [-1.0, 1.0][arm] };
    let history: Vec<LoggedRound> = (0..16).map(|at| round(at % 2)).collect();
    let bandit = create((1, 4));
    let until = |feedbacks: u64| {
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while client().committee_bandit(&bandit.id).unwrap().feedbacks != feedbacks {
            assert!(std::time::Instant::now() < until);
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let mut labels = vec![];
    let mut each = |at: usize, label: &[u8; 32]| {
        assert_eq!(at, labels.len());
        labels.push(*label);
        Ok(())
    };
    users[0].learn(&bandit, &history, &mut each).unwrap();
    until(16);
    assert_eq!(users[1].decide(&bandit, &rows).unwrap().arm, 1);
    // A round counts once, and its own device has it erased.
    let again = users[0].feedback(&bandit, &labels[3], 1.0);
    assert!(
        matches!(again, Err(Error::Refused(problem)) if problem.reason.as_deref() == Some("unknown_decision"))
    );
    users[0].erase(&bandit, &labels[3]).unwrap();
    until(15);

    let none = |_: usize, _: &[u8; 32]| -> Result<(), Error> { panic!("nothing was to be asked") };
    let two = create((2, 100));
    assert!(matches!(users[0].learn(&two, &history, none), Err(Error::OneSession { sessions: 2 })));
    let few = create((1, 2));
    for (features, arm, reward) in
        [(vec![0.9, 0.9], 0, 0.0), (vec![0.9], 0, 0.0), (vec![0.9, 0.1], 2, 0.0), (vec![0.9, 0.1], 0, 1.5)]
    {
        let refused = users[0].learn(&few, &[round(0), LoggedRound { arm, features, reward }], none);
        assert!(matches!(refused, Err(Error::Protocol(_))), "{refused:?}");
    }
    let mut asked = 0;
    let ended = users[0].learn(&few, &history, |_, _| {
        asked += 1;
        Ok(())
    });
    assert!(matches!(ended, Err(Error::BatchOpen { decisions: 2, waiting: 2, batch: 4 })), "{ended:?}");
    assert_eq!(asked, 2);
}
