//! The encrypted bandit on real purchases where a committee computes on shares. Members in processes of their
//! own draw keys and decide through a server that reads nothing. One member is killed while rounds go on, and
//! comes back. Every decision is compared with that of a twin in exact arithmetic.
//!
//! ```text
//! cargo run --release --example committee -- [--rounds 300] [--users 20] [--threshold 2] [--members 4]
//! cargo run --release --example committee -- --features 2 --arms 2 --decisions 10000 --together 256
//! ```

mod support;

use anyhow::{Context, Result, ensure};
use bandit::datasets::Purchases;
use bandit::{EXACT_TIE, LinearConfig, Schedule, WidthShape};
use clap::Parser;
use datasets::Dataset;
use helba_member::Identity;
use helba_member::{Board, MANIFEST_FILE, Served, make_keys, routes};
use host::Undone;
use protocol::BanditConfig;
use rand::RngExt;
use shares::{Card, Proposal, SignedManifest, Threshold};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use support::{median, percentile};
use testkit::ClearTwin;
use user_client::{Client, CommitteeUser, Creation, Stop};
use wire::{CommitteeBandit, Labels};

const KEYGEN: &str = "--keygen";
const MEMBER: &str = "--member";
const SERVER: &str = "--server";
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
    #[arg(long, default_value_t = 2)]
    threshold: u8,
    /// n: the number of members.
    #[arg(long, default_value_t = 4)]
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
    /// Prints one JSON object instead of the table.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    play_a_part_if_asked()?;
    let args = Args::parse();
    host::undo_on_signals().context("listening for signals")?;
    let (folder, _of_folder) = support::folder()?;
    let began = Instant::now();
    make_all_keys(&args, folder.path())?;
    let keygen_seconds = began.elapsed().as_secs_f64();
    let (server, address) = Process::listening(&[SERVER.as_ref(), folder.path().as_os_str()])?;
    let address = format!("http://{address}");
    let members = (1..=args.members)
        .map(|member| Process::member(folder.path(), member, &address).map(Some))
        .collect::<Result<_>>()?;
    let of_first = own(folder.path(), 1).join(MANIFEST_FILE);
    // Users know the committee's id from its members, and not from the server.
    let committee = SignedManifest::from_bytes(&std::fs::read(of_first)?)?.manifest.id();
    let mut deployment =
        Deployment { folder: folder.path(), server, address, members, committee, keygen_seconds };
    match (args.decisions, args.together) {
        (Some(decisions), Some(together)) => ask_together(&args, &deployment, decisions, together),
        _ => play(&args, &mut deployment),
    }
}

/// A committee with keys, and a server.
struct Deployment<'a> {
    folder: &'a Path,
    server: Process,
    address: String,
    members: Vec<Option<Process>>,
    committee: [u8; 32],
    keygen_seconds: f64,
}

impl Deployment<'_> {
    fn client(&self) -> Result<Client> {
        Ok(Client::new(&self.address)?)
    }

    fn user(&self) -> Result<CommitteeUser> {
        Ok(CommitteeUser::begin(self.client()?, Some(self.committee))?)
    }

    fn create(&self, config: &LinearConfig, sessions: u16) -> Result<CommitteeBandit> {
        let creation = Creation::new(Labels::default(), &mut user_client::os_rng()?);
        Ok(self.client()?.create_of_committee(config, (sessions, u16::MAX), &creation)?.of)
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
        [&self.server].into_iter().chain(self.members.iter().flatten()).map(Process::peak_bytes).collect()
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

/// Plays purchases, and compares with the twin.
fn play(args: &Args, deployment: &mut Deployment) -> Result<()> {
    ensure!(args.rounds >= 8 && args.users > 0, "it takes 8 --rounds and one of --users");
    let needed = Threshold::new(args.threshold, args.members)?.needed();
    ensure!(
        usize::from(args.members) > needed,
        "one member is killed, so that it takes {} of them",
        needed + 1
    );
    let dataset: Dataset = Purchases::yogurt()?.into();
    let rounds = args.rounds.min(dataset.rounds().len());
    let config = config(dataset.d(), dataset.arms().len());
    let sessions = args.users.min(8) as u16;
    let bandit = deployment.create(&config, sessions)?;
    let users: Vec<CommitteeUser> = (0..args.users).map(|_| deployment.user()).collect::<Result<_>>()?;
    let client = deployment.client()?;
    let mut twin = ClearTwin::new(BanditConfig { linear: config, ..BanditConfig::new(config.d, config.k) });
    // The feedbacks of which the model is that decides.
    let mut learnt = 0;
    let (mut played, mut misses, mut same, mut hits) = (vec![], vec![], 0, 0.0);
    let progress = support::progress(rounds as u64, "learning through a committee", args.json);
    for (t, purchase) in dataset.rounds()[..rounds].iter().enumerate() {
        if t == rounds / 2 {
            deployment.members[1] = None;
        }
        if t == 3 * rounds / 4 {
            deployment.members[1] = Some(Process::member(deployment.folder, 2, &deployment.address)?);
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
    if args.json {
        let json = serde_json::json!({
            "rounds": rounds, "users": args.users, "threshold": args.threshold, "members": args.members,
            "features": config.d, "arms": config.k, "agreement": agreement,
            "same_arm": same as f64 / rounds as f64, "widest_miss": widest,
            "hit_rate": hits / rounds as f64, "updates": view.updates, "feedbacks": view.feedbacks,
            "members_killed": 1, "members_restarted": 1, "keygen_seconds": deployment.keygen_seconds,
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
    println!("  member 2 was killed after {} rounds and came back after {}", rounds / 2, 3 * rounds / 4);
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
            let (rows, began) = (rows(&mut rng), Instant::now());
            user.decide(&bandit, &rows)?;
            seconds.push(began.elapsed().as_secs_f64());
        }
        Ok(seconds)
    };
    let (took, seconds) = std::thread::scope(|scope| -> Result<(f64, Vec<f64>)> {
        let threads: Vec<_> = (0..together).map(|_| scope.spawn(ask)).collect();
        all.wait();
        let (began, mut seconds) = (Instant::now(), vec![]);
        for thread in threads {
            seconds.extend(thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??);
        }
        Ok((began.elapsed().as_secs_f64(), seconds))
    })?;
    let rows = vec![vec![0.1; args.features]; args.arms];
    let [request, answer, feedback] = deployment.sizes(&bandit, &deployment.user()?, &rows)?;
    let (rate, peak) = (decisions as f64 / took, deployment.peak_bytes());
    if args.json {
        let json = serde_json::json!({
            "decisions": decisions, "together": together, "threshold": args.threshold,
            "members": args.members, "features": args.features, "arms": args.arms,
            "keygen_seconds": deployment.keygen_seconds, "decisions_per_second": rate,
            "seconds_per_decision_median": median(&seconds),
            "seconds_per_decision_p99": percentile(&seconds, 0.99),
            "request_bytes": request, "feedback_bytes": feedback, "answer_bytes": answer,
            "peak_bytes": peak,
        });
        println!("{json}");
        return Ok(());
    }
    println!("\n{decisions} decisions, {together} devices at once: {rate:.0} a second");
    println!("  seconds a decision: median {:.3}, p99 {:.3}", median(&seconds), percentile(&seconds, 0.99));
    println!(
        "  peak memory of the server and of each member, MB: {:?}",
        peak.iter().map(|b| b >> 20).collect::<Vec<_>>()
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

/// Draws the keys, by members in processes of their own over a board of this process.
fn make_all_keys(args: &Args, folder: &Path) -> Result<()> {
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
    let proposal = Proposal { threshold, cards, follows: None, nonce: rng.random() };
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
    for process in &processes {
        let status = loop {
            // Not waited for under the lock, which a signal takes.
            match host::lock(&process.0).try_wait()? {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        ensure!(status.success(), "a member has not drawn its keys: {status}");
    }
    bar.finish_and_clear();
    Ok(())
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

    fn member(folder: &Path, member: u8, address: &str) -> Result<Self> {
        let member = member.to_string();
        Self::start(&[MEMBER.as_ref(), folder.as_os_str(), member.as_ref(), address.as_ref()])
    }

    /// One that prints its address.
    fn listening(arguments: &[&OsStr]) -> Result<(Self, String)> {
        let process = Self::start(arguments)?;
        let out = host::lock(&process.0).stdout.take().context("the process has an output")?;
        let mut address = String::new();
        BufReader::new(out).read_line(&mut address)?;
        ensure!(!address.is_empty(), "the server did not start; stderr has its message");
        Ok((process, address.trim().to_string()))
    }

    /// Its largest resident memory so far; 0 if the system does not report it.
    fn peak_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", host::lock(&self.0).id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
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
        [SERVER, folder] => {
            end_with_the_first();
            serve(Path::new(folder))?;
        }
        [KEYGEN, folder, member, address] => {
            end_with_the_first();
            let (folder, own) = (Path::new(folder), own(Path::new(folder), member.parse()?));
            let proposal = serde_json::from_slice(&std::fs::read(folder.join("proposal"))?)?;
            let identity = Identity::open(&own.join("identity"))?;
            make_keys(&proposal, &identity, &Client::new(address)?, &own, PATIENCE)?;
        }
        [MEMBER, folder, member, address] => {
            end_with_the_first();
            let own = own(Path::new(folder), member.parse()?);
            let (identity, client) = (Identity::open(&own.join("identity"))?, Client::new(address)?);
            // A member that comes back has its memory.
            let served = Served::open(&own, identity, client, false)?;
            helba_member::serve(served, &Stop::default(), &log)?;
        }
        _ => return Ok(()),
    }
    std::process::exit(0)
}

fn serve(folder: &Path) -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let manifest = SignedManifest::from_bytes(&std::fs::read(own(folder, 1).join(MANIFEST_FILE))?)?;
        let settings = helba_server::Settings {
            committee: Some(manifest),
            hosts: Some(vec![]),
            member_patience: Duration::from_secs(1),
            ..Default::default()
        };
        let state = helba_server::AppState::open(None, &folder.join("state"), settings)?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
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
