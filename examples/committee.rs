//! The encrypted bandit on real purchases where a committee computes on shares. Members in processes of their
//! own draw keys and decide through a server that reads nothing. As many members as may be away first lie in
//! every number that they show while decisions and updates are computed. They are named, and then killed. The
//! committee moves to another one, in which one person is replaced, and a member of that one is killed and
//! comes back. Every decision is compared with that of a twin in exact arithmetic, which loses the rewards
//! that no batch has learnt before the move, as the committee does.
//!
//! ```text
//! cargo run --release --example committee -- [--rounds 300] [--users 20] [--threshold 3] [--members 7]
//! cargo run --release --example committee -- --features 2 --arms 2 --threshold 2 --members 3 \
//!     --decisions 10000 --together 1000
//! ```

mod support;

use anyhow::{Context, Result, bail, ensure};
use bandit::datasets::Purchases;
use bandit::{EXACT_TIE, LinearConfig, Schedule, WidthShape};
use clap::Parser;
use committee::MemberKeys;
use datasets::Dataset;
use helba_member::Identity;
use helba_member::{Board, KEYS_FILE, MANIFEST_FILE, Served, make_keys, routes};
use host::Undone;
use protocol::BanditConfig;
use rand::RngExt;
use shares::{Card, Proposal, SignedManifest, Threshold};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use support::relay::{Liar, relay};
use support::{median, percentile};
use testkit::ClearTwin;
use user_client::{Client, CommitteeUser, Creation, Stop};
use wire::{CommitteeBandit, Labels};

const KEYGEN: &str = "--keygen";
const MEMBER: &str = "--member";
const LIES: &str = "--lies";
const LATE: &str = "--late";
const LEAVES: &str = "--leaves";
const SERVER: &str = "--server";
/// The folder of the committee that serves first, and that of the next.
const COMMITTEES: [&str; 2] = ["first", "next"];
/// Of how many decisions of a device one is followed by a feedback, where devices ask together.
const FED_BACK: usize = 64;
/// Indices that are as close as this part of their range are equal to the committee.
const RESOLUTION: f64 = 1.0 / 16384.0;
/// How long members wait for each other, and this example for all of them.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Parser)]
#[command(about = "The bandit on real purchases, decided by a committee that computes on shares")]
struct Args {
    /// Number of purchases to play.
    #[arg(long, default_value_t = 300)]
    rounds: usize,
    /// Number of users, who take turns.
    #[arg(long, default_value_t = 20)]
    users: usize,
    /// t: how many members know everything together.
    #[arg(long, default_value_t = 3)]
    threshold: u8,
    /// n: the number of members.
    #[arg(long, default_value_t = 7)]
    members: u8,
    /// In place of purchases: the number of decisions that are asked for.
    #[arg(long, requires = "together")]
    decisions: Option<usize>,
    /// How many devices ask at once for those.
    #[arg(long, requires = "decisions")]
    together: Option<usize>,
    /// The features of those.
    #[arg(long, default_value_t = 2)]
    features: usize,
    /// The arms of those.
    #[arg(long, default_value_t = 2)]
    arms: usize,
    /// Milliseconds that messages take to the server and back, of each member, for those.
    #[arg(long, default_value_t = 0, requires = "decisions")]
    round_trip: u64,
    /// Prints one JSON object instead of the table.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    play_a_part_if_asked()?;
    let args = Args::parse();
    host::undo_on_signals().context("listening for signals")?;
    let (folder, _of_folder) = support::folder()?;
    let threshold = Threshold::new(args.threshold, args.members)?;
    let began = Instant::now();
    let manifest = make_all_keys(&args, &folder.path().join(COMMITTEES[0]), None)?;
    let keygen_seconds = began.elapsed().as_secs_f64();
    let (server, address) = Process::server(folder.path(), 0)?;
    let mut deployment = Deployment {
        folder: folder.path(),
        server: Some(server),
        address,
        members: vec![],
        // Users know the committee's id from its members, and not from the server.
        committee: manifest.manifest.id(),
        keygen_seconds,
    };
    match (args.decisions, args.together) {
        (Some(decisions), Some(together)) => {
            let late = (args.round_trip / 2).to_string();
            let how: &[&str] = if args.round_trip > 0 { &[LATE, &late] } else { &[] };
            deployment.start_all(0, args.members, |_| how)?;
            ask_together(&args, &deployment, decisions, together)
        }
        _ => {
            let honest = usize::from(args.members).min(threshold.needed());
            deployment.start_all(0, args.members, |member| match usize::from(member) > honest {
                true => &[LIES],
                false => &[],
            })?;
            play(&args, &mut deployment, honest)
        }
    }
}

/// A committee with keys, and a server.
struct Deployment<'a> {
    folder: &'a Path,
    server: Option<Process>,
    address: String,
    members: Vec<Option<Process>>,
    committee: [u8; 32],
    keygen_seconds: f64,
}

impl Deployment<'_> {
    fn client(&self) -> Result<Client> {
        Ok(Client::new(&format!("http://{}", self.address))?)
    }

    fn user(&self) -> Result<CommitteeUser> {
        Ok(CommitteeUser::begin(self.client()?, Some(self.committee))?)
    }

    /// Starts a member of a committee; `how` it serves is in [`play_a_part_if_asked`].
    fn start(&self, committee: usize, member: u8, how: &[&str]) -> Result<Process> {
        let (folder, member) = (self.folder.join(COMMITTEES[committee]), member.to_string());
        let mut arguments = vec![MEMBER.as_ref(), folder.as_os_str(), member.as_ref(), self.address.as_ref()];
        arguments.extend(how.iter().map(OsStr::new));
        Process::start(&arguments)
    }

    fn start_all<'b>(
        &mut self,
        committee: usize,
        members: u8,
        how: impl Fn(u8) -> &'b [&'b str],
    ) -> Result<()> {
        let start = |member| self.start(committee, member, how(member)).map(Some);
        self.members = (1..=members).map(start).collect::<Result<_>>()?;
        Ok(())
    }

    /// Moves to a next committee, as operators do: its members make keys, the server starts again with both
    /// manifests, the next members serve, and the operator of each old member that is left starts it again so
    /// that it leaves. Returns when all of these have ended.
    fn move_on(&mut self, args: &Args) -> Result<()> {
        make_all_keys(args, &self.folder.join(COMMITTEES[1]), Some(self.committee))?;
        self.server = None;
        let port = self.address.rsplit(':').next().context("the address has a port")?.parse()?;
        let (server, address) = Process::server(self.folder, port)?;
        (self.server, self.address) = (Some(server), address);
        let old = std::mem::take(&mut self.members);
        self.start_all(1, args.members, |_| &[])?;
        let mut leave = vec![];
        for (member, process) in (1..).zip(old) {
            if let Some(process) = process {
                drop(process);
                leave.push(self.start(0, member, &[LEAVES])?);
            }
        }
        leave.iter().try_for_each(Process::ends)
    }

    fn create(&self, config: &LinearConfig, sessions: u16) -> Result<CommitteeBandit> {
        let creation = Creation::new(Labels::default(), &mut user_client::os_rng()?);
        Ok(self.client()?.create_of_committee(config, (sessions, u16::MAX), None, None, &creation)?.of)
    }

    /// What the server measures of itself.
    fn metrics(&self) -> Result<serde_json::Value> {
        Ok(serde_json::from_slice(&self.client()?.fetch("metrics", 1 << 20, PATIENCE.as_secs())?)?)
    }

    /// The members whom the server has seen to err.
    fn liars(&self) -> Result<BTreeSet<u64>> {
        let metrics = self.metrics()?;
        let erred = metrics["committee"]["erred"].as_array().context("the server has a committee")?;
        let erred = (1..).zip(erred).filter(|(_, runs)| runs.as_u64().is_some_and(|runs| runs > 0));
        Ok(erred.map(|(member, _)| member).collect())
    }

    /// The bytes of a request, its answer and a feedback, of one more decision.
    fn sizes(&self, bandit: &CommitteeBandit, user: &CommitteeUser, rows: &[Vec<f64>]) -> Result<[usize; 3]> {
        let (definition, mut rng) =
            (bandit.definition().context("the bandit has an id")?, user_client::os_rng()?);
        let request = user.device().request(&definition, rows, &mut rng)?;
        let path = format!("bandits/{}/decisions", bandit.id);
        let answer = self.client()?.exchange(&path, &request, 1 << 16, PATIENCE.as_secs())?;
        let decision = user.device().open(&definition, &request, &answer)?;
        let feedback = user.device().feedback(&decision.label, 1.0, &mut rng)?;
        Ok([request.len(), answer.len(), feedback.len()])
    }

    /// The largest resident memory of the server and of each member so far.
    fn peak_bytes(&self) -> Vec<u64> {
        let processes = self.server.iter().chain(self.members.iter().flatten());
        processes.map(|process| support::peak_bytes(process.id())).collect()
    }

    /// The processor seconds of all members so far.
    fn member_seconds(&self) -> f64 {
        self.members.iter().flatten().map(|process| support::process_seconds(process.id())).sum()
    }
}

fn config(d: usize, k: usize) -> LinearConfig {
    LinearConfig {
        d,
        k,
        l: 1.0,
        width: WidthShape::Tangent.width(0.5),
        schedule: Schedule::GrowthOrEvery { rounds: 64 },
        ..LinearConfig::figure_1()
    }
}

/// What a round of purchases took.
struct Played {
    decision: f64,
    feedback: f64,
    update: Option<f64>,
}

/// Plays purchases, and compares with the twin. Members above `honest` lie.
fn play(args: &Args, deployment: &mut Deployment, honest: usize) -> Result<()> {
    ensure!(args.rounds >= 16 && args.users > 0, "it takes 16 --rounds and one of --users");
    let dataset: Dataset = Purchases::yogurt()?.into();
    let rounds = args.rounds.min(dataset.rounds().len());
    let config = config(dataset.d(), dataset.arms().len());
    let sessions = args.users.min(8) as u16;
    let mut bandit = deployment.create(&config, sessions)?;
    let begin = |deployment: &Deployment| -> Result<Vec<CommitteeUser>> {
        (0..args.users).map(|_| deployment.user()).collect()
    };
    let mut users = begin(deployment)?;
    let client = deployment.client()?;
    let new_twin =
        || ClearTwin::new(BanditConfig { linear: config, ..BanditConfig::new(config.d, config.k) });
    let mut twin = new_twin();
    // Rows that were played, and their rewards; the number of them of which the model is that decides.
    let (mut told, mut learnt) = (Vec::<(Vec<f64>, f64)>::new(), 0u64);
    let (mut liars, mut lost, mut move_seconds) = (BTreeSet::new(), 0, 0.0);
    let (mut played, mut misses, mut same, mut hits) = (vec![], vec![], 0, 0.0);
    let spare = usize::from(args.members) - honest;
    let [killed, moved, away, back] = [4, 8, 10, 12].map(|sixteenths| sixteenths * rounds / 16);
    let progress = support::progress(rounds as u64, "learning through a committee", args.json);
    for (t, purchase) in dataset.rounds()[..rounds].iter().enumerate() {
        if t == killed {
            liars = deployment.liars()?;
            deployment.members[honest..].fill_with(|| None);
        }
        if t == moved {
            let began = Instant::now();
            deployment.move_on(args)?;
            users = begin(deployment)?;
            bandit = client.committee_bandit(&bandit.id)?.created;
            lost = told.len() - learnt as usize;
            told.truncate(learnt as usize);
            twin = new_twin();
            told.iter().for_each(|(row, reward)| twin.learn(row, *reward));
            move_seconds = began.elapsed().as_secs_f64();
        }
        if t == away && spare > 0 {
            deployment.members[1] = None;
        }
        if t == back && spare > 0 {
            deployment.members[1] = Some(deployment.start(1, 2, &[])?);
        }
        let rows: Vec<Vec<f64>> = purchase.features.rows().map(<[f64]>::to_vec).collect();
        let (user, began) = (&users[t % users.len()], Instant::now());
        let chosen = user.decide(&bandit, &rows)?;
        let decision = began.elapsed().as_secs_f64();
        let reward = purchase.observed.reward(chosen.arm).unwrap_or(0.0);
        user.feedback(&bandit, &chosen.label, reward)?;
        let feedback = began.elapsed().as_secs_f64() - decision;
        let rows: Vec<Vec<f64>> = rows.iter().map(|row| rounded(row)).collect();
        let indices = twin.indices(&rows, learnt + 1, learnt);
        let best = config.preferred(&indices, EXACT_TIE, chosen.round);
        same += usize::from(chosen.arm == best);
        let range = config.index_range(learnt + 1, learnt);
        misses.push((indices[best] - indices[chosen.arm]) / range);
        hits += reward;
        twin.learn(&rows[chosen.arm], reward);
        told.push((rows[chosen.arm].clone(), reward));
        // Members learn beside decisions. The twin has to know of which feedbacks the next decision is, and
        // so it is asked for when the update has ended.
        let due = config.batch_length(learnt, sessions.into());
        let mut update = None;
        if twin.feedbacks() - learnt >= due {
            while client.committee_bandit(&bandit.id)?.feedbacks < learnt + due {
                ensure!(began.elapsed() < PATIENCE, "an update of {due} feedbacks has not ended");
                std::thread::sleep(Duration::from_millis(10));
            }
            learnt += due;
            update = Some(began.elapsed().as_secs_f64() - decision - feedback);
        }
        played.push(Played { decision, feedback, update });
        progress.inc(1);
    }
    progress.finish_and_clear();
    let rows: Vec<Vec<f64>> = dataset.rounds()[0].features.rows().map(<[f64]>::to_vec).collect();
    let [request, answer, feedback] = deployment.sizes(&bandit, &users[0], &rows)?;
    let view = client.committee_bandit(&bandit.id)?;
    let of = |what: fn(&Played) -> f64| played.iter().map(what).collect::<Vec<f64>>();
    let (decisions, feedbacks) = (of(|round| round.decision), of(|round| round.feedback));
    let round_seconds = of(|round| round.decision + round.feedback + round.update.unwrap_or(0.0));
    let updates: Vec<f64> = played.iter().filter_map(|round| round.update).collect();
    let longest = decisions.iter().copied().fold(0.0, f64::max);
    let agreement = misses.iter().filter(|miss| **miss < RESOLUTION).count() as f64 / rounds as f64;
    let widest = misses.iter().copied().fold(0.0, f64::max);
    let restarted = usize::from(spare > 0);
    if args.json {
        let json = serde_json::json!({
            "rounds": rounds, "users": args.users, "threshold": args.threshold, "members": args.members,
            "features": config.d, "arms": config.k, "agreement": agreement,
            "same_arm": same as f64 / rounds as f64, "widest_miss": widest,
            "hit_rate": hits / rounds as f64, "updates": view.updates, "feedbacks": view.feedbacks,
            "liars_named": liars, "members_killed": spare + restarted, "members_replaced": 1,
            "members_restarted": restarted, "move_seconds": move_seconds, "rewards_lost_by_move": lost,
            "keygen_seconds": deployment.keygen_seconds,
            "seconds_per_decision_median": median(&decisions),
            "seconds_per_decision_p99": percentile(&decisions, 0.99),
            "seconds_per_decision_longest": longest,
            "seconds_per_update_median": median(&updates),
            "seconds_per_round_median": median(&round_seconds),
            "request_bytes": request, "feedback_bytes": feedback, "answer_bytes": answer,
            "peak_bytes": deployment.peak_bytes(),
        });
        println!("{json}");
        return Ok(());
    }
    let (t, n) = (args.threshold, args.members);
    println!(
        "\n{rounds} rounds of {} users; {t} of {n} members would know everything together\n",
        args.users
    );
    println!("  {spare} members lied in every number online; named: {liars:?}; killed after {killed} rounds");
    println!(
        "  moved after {moved} rounds in {move_seconds:.1} s to {n} members, one of them another person;"
    );
    println!("  {lost} rewards that no batch had learnt were lost");
    if spare > 0 {
        println!("  member 2 was killed after {away} rounds and came back after {back}");
    }
    println!("  mean reward       {:.3}", hits / rounds as f64);
    println!(
        "  as exact arithmetic decides, but for ties below 2^-14 of the range: {:.1} %",
        100.0 * agreement
    );
    println!("\n  seconds                median    p99");
    let line = |name: &str, values: &[f64]| {
        println!("    {name:<20} {:.3}   {:.3}", median(values), percentile(values, 0.99));
    };
    line("decision", &decisions);
    line("feedback", &feedbacks);
    line("update, waited for", &updates);
    println!("  the longest decision took {longest:.3} s; {} updates", view.updates);
    println!("  request {request} B, answer {answer} B, feedback {feedback} B");
    println!("  keys drawn in {:.1} s by {n} processes", deployment.keygen_seconds);
    Ok(())
}

/// Asks for decisions with many devices at once.
fn ask_together(args: &Args, deployment: &Deployment, decisions: usize, together: usize) -> Result<()> {
    ensure!(together > 0, "it takes a device to ask");
    let bandit = deployment.create(&config(args.features, args.arms), 1)?;
    let (left, all) = (AtomicUsize::new(decisions), Barrier::new(together + 1));
    let client = deployment.client()?;
    let ask = || -> Result<Vec<f64>> {
        let user = deployment.user();
        let rows = |rng: &mut rand_chacha::ChaCha20Rng| -> Vec<Vec<f64>> {
            let most = 1.0 / (args.features as f64).sqrt();
            (0..args.arms)
                .map(|_| (0..args.features).map(|_| rng.random_range(-most..most)).collect())
                .collect()
        };
        all.wait();
        let (user, mut rng, mut seconds) = (user?, user_client::os_rng()?, vec![]);
        while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            // A lone decision is one with slots in stock, beside which none are prepared.
            while together == 1 && client.committee_bandit(&bandit.id)?.slots <= 24 {
                std::thread::sleep(Duration::from_millis(20));
            }
            let (rows, began) = (rows(&mut rng), Instant::now());
            let chosen = user.decide(&bandit, &rows)?;
            seconds.push(began.elapsed().as_secs_f64());
            if seconds.len() % FED_BACK == 0 {
                user.feedback(&bandit, &chosen.label, if chosen.arm == 0 { 1.0 } else { -1.0 })?;
            }
        }
        Ok(seconds)
    };
    let sent = || -> Result<u64> {
        let metrics = deployment.metrics()?;
        metrics["traffic"]["sent_bytes"].as_u64().context("the server counts what it sends")
    };
    let (before, of_members) = (sent()?, deployment.member_seconds());
    let (took, halfway, seconds) = std::thread::scope(|scope| -> Result<(f64, Vec<u64>, Vec<f64>)> {
        let threads: Vec<_> = (0..together).map(|_| scope.spawn(ask)).collect();
        all.wait();
        let (began, mut seconds) = (Instant::now(), vec![]);
        while left.load(Relaxed) > decisions / 2 && !threads.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let halfway = deployment.peak_bytes();
        for thread in threads {
            seconds.extend(thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??);
        }
        Ok((began.elapsed().as_secs_f64(), halfway, seconds))
    })?;
    let sent = (sent()? - before) / decisions as u64;
    let of_members = deployment.member_seconds() - of_members;
    let member_ms = 1000.0 * of_members / f64::from(args.members) / decisions as f64;
    let view = client.committee_bandit(&bandit.id)?;
    let rows = vec![vec![0.1; args.features]; args.arms];
    let [request, answer, feedback] = deployment.sizes(&bandit, &deployment.user()?, &rows)?;
    let (rate, peak) = (decisions as f64 / took, deployment.peak_bytes());
    if args.json {
        let json = serde_json::json!({
            "decisions": decisions, "together": together, "threshold": args.threshold,
            "members": args.members, "features": args.features, "arms": args.arms,
            "round_trip_ms": args.round_trip, "updates": view.updates, "feedbacks": view.feedbacks,
            "keygen_seconds": deployment.keygen_seconds, "decisions_per_second": rate,
            "seconds_per_decision_median": median(&seconds),
            "seconds_per_decision_p99": percentile(&seconds, 0.99),
            "request_bytes": request, "feedback_bytes": feedback, "answer_bytes": answer,
            "sent_bytes_per_decision": sent, "member_ms_per_decision": member_ms,
            "peak_bytes_halfway": halfway, "peak_bytes": peak,
        });
        println!("{json}");
        return Ok(());
    }
    println!("\n{decisions} decisions, {together} devices at once: {rate:.0} a second");
    println!("  seconds a decision: median {:.3}, p99 {:.3}", median(&seconds), percentile(&seconds, 0.99));
    println!(
        "  peak memory of the server and of each member, MB: {:?}, halfway {:?}",
        peak.iter().map(|b| b >> 20).collect::<Vec<_>>(),
        halfway.iter().map(|b| b >> 20).collect::<Vec<_>>()
    );
    println!(
        "  a decision took {member_ms:.2} ms of a member's processor, and {sent} B out of the server; {} updates \
         with {} feedbacks",
        view.updates, view.feedbacks
    );
    println!("  request {request} B, answer {answer} B, feedback {feedback} B");
    Ok(())
}

/// A row rounded towards zero to 2⁻¹⁶, as devices do.
fn rounded(row: &[f64]) -> Vec<f64> {
    row.iter().map(|x| (x * 65536.0).trunc() / 65536.0).collect()
}

/// The folder of a member.
fn own(folder: &Path, member: u8) -> PathBuf {
    folder.join(format!("member-{member}"))
}

/// Draws the keys of a committee into a folder, by members in processes of their own over a board of this
/// process.
fn make_all_keys(args: &Args, folder: &Path, follows: Option<[u8; 32]>) -> Result<SignedManifest> {
    let mut rng = user_client::os_rng()?;
    let mut card = |member: u8| -> Result<Card> {
        let own = own(folder, member);
        std::fs::create_dir_all(&own)?;
        let identity = Identity::generate(&mut rng);
        identity.save(&own.join("identity"))?;
        Ok(identity.card())
    };
    let cards = (1..=args.members).map(&mut card).collect::<Result<_>>()?;
    let threshold = Threshold::new(args.threshold, args.members)?;
    let proposal = Proposal { threshold, cards, follows, nonce: rng.random() };
    proposal.check()?;
    std::fs::write(folder.join("proposal"), serde_json::to_vec(&proposal)?)?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let _entered = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let routes = routes(Arc::new(Board::new(proposal)));
    let connections = service::Connections::default();
    runtime.spawn(service::serve(listener, routes, connections, std::future::pending()));
    let start = |member: u8| {
        let member = member.to_string();
        Process::start(&[KEYGEN.as_ref(), folder.as_os_str(), member.as_ref(), address.as_ref()])
    };
    let processes: Vec<Process> = (1..=args.members).map(start).collect::<Result<_>>()?;
    let bar = support::progress(0, "drawing keys", args.json);
    processes.iter().try_for_each(Process::ends)?;
    bar.finish_and_clear();
    first_manifest(folder)
}

/// The manifest of a committee, as its first member has it.
fn first_manifest(folder: &Path) -> Result<SignedManifest> {
    Ok(SignedManifest::from_bytes(&std::fs::read(own(folder, 1).join(MANIFEST_FILE))?)?)
}

/// A process of this example. It is killed when this is dropped.
struct Process(Arc<Mutex<Child>>, #[allow(dead_code, reason = "a signal ends the process too")] Undone);

impl Process {
    fn start(arguments: &[&OsStr]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (process, undone) = support::spawn(command).context("cannot start a process")?;
        Ok(Process(process, undone))
    }

    /// A server on a port, 0 for a free one, with its address. It reads which committees there are from the
    /// folder.
    fn server(folder: &Path, port: u16) -> Result<(Self, String)> {
        let process = Self::start(&[SERVER.as_ref(), folder.as_os_str(), port.to_string().as_ref()])?;
        let out = host::lock(&process.0).stdout.take().context("the process has an output")?;
        let mut address = String::new();
        BufReader::new(out).read_line(&mut address)?;
        ensure!(!address.is_empty(), "the server did not start; stderr has its message");
        Ok((process, address.trim().to_string()))
    }

    /// Waits until it has done its part.
    fn ends(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            // Not waited for under the lock, which a signal takes.
            match host::lock(&self.0).try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("a member has failed: {status}"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
            ensure!(began.elapsed() < PATIENCE, "a member has not ended");
        }
    }

    fn id(&self) -> u32 {
        host::lock(&self.0).id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        support::end(&self.0);
    }
}

/// If this process was started as a member or as the server, does what that does and does not return.
fn play_a_part_if_asked() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    match args[..] {
        [SERVER, folder, port] => {
            end_with_the_first();
            serve(Path::new(folder), port.parse()?)?;
        }
        [KEYGEN, folder, member, address] => {
            end_with_the_first();
            let (folder, own) = (Path::new(folder), own(Path::new(folder), member.parse()?));
            let proposal = serde_json::from_slice(&std::fs::read(folder.join("proposal"))?)?;
            let identity = Identity::open(&own.join("identity"))?;
            make_keys(&proposal, &identity, &Client::new(address)?, &own, PATIENCE)?;
        }
        [MEMBER, folder, member, address, ref how @ ..] => {
            end_with_the_first();
            be_member(Path::new(folder), member.parse()?, address, how)?;
        }
        _ => return Ok(()),
    }
    std::process::exit(0)
}

/// Serves as a member: honestly, with lies, with messages that take so many milliseconds to the server and as
/// many back, or as one that leaves for the next committee.
fn be_member(folder: &Path, member: u8, address: &str, how: &[&str]) -> Result<()> {
    let own = own(folder, member);
    let identity = || Identity::open(&own.join("identity"));
    let server = Client::new(&format!("http://{address}"))?;
    let client = match how {
        [LIES] => {
            let manifest = first_manifest(folder)?;
            let keys = MemberKeys::from_bytes(&std::fs::read(own.join(KEYS_FILE))?, &manifest)?;
            let liar = Liar { identity: identity()?, keys, committee: manifest.manifest.id() };
            Client::new(&relay(server, liar)?)?
        }
        [LATE, milliseconds] => {
            let line = testkit::late_line(address.parse()?, Duration::from_millis(milliseconds.parse()?))?;
            Client::new(&format!("http://{line}"))?
        }
        _ => server,
    };
    // A member that comes back has its memory.
    let mut served = Served::open(&own, identity()?, client, false)?;
    if how == [LEAVES] {
        served = served.leaving_for(&first_manifest(&folder.with_file_name(COMMITTEES[1]))?)?;
    }
    helba_member::serve(served, &Stop::default(), &log)
}

fn serve(folder: &Path, port: u16) -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let [committee, next_committee] = COMMITTEES.map(|name| first_manifest(&folder.join(name)).ok());
        let settings = helba_server::Settings {
            committee,
            next_committee,
            hosts: Some(vec![]),
            member_patience: Duration::from_secs(2),
            ..Default::default()
        };
        let state = helba_server::AppState::open(None, &folder.join("state"), settings)?;
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
        println!("{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        // Many devices of one address.
        let most = 4096;
        let connections = helba_server::Connections { most, most_an_address: most, ..Default::default() };
        helba_server::serve(listener, helba_server::app(state), connections, std::future::pending()).await;
        Ok(())
    })
}

fn log(line: &str) {
    if std::env::var_os("RUST_LOG").is_some() {
        eprintln!("{line}");
    }
}

/// Ends this process when the one that started it ends.
fn end_with_the_first() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0)
    });
}
