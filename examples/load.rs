//! Load on an encrypted bandit: prepared contexts arrive as a Poisson process, or from clients that each
//! wait for their answer, and every decision gets its feedback.
//!
//! ```text
//! cargo run --release --example load -- --features 8 --arms 8 --rate 400 --seconds 30 [--closed 64] [--json]
//! ```
//! Contexts and feedback are encrypted before the measurement. A raiser runs in this process and takes
//! processor time from the server; `load_cpu_seconds` says how much it and the clients took. With `--check`
//! the clients decrypt each answer, which takes more of it, and ask again for one that cannot be relied on.
//! With `--spoil` one of the senders has contexts of norm 2, which spoil every evaluation that they are in,
//! until the server evaluates them alone. With `--silent 448` so many connections ask for the description
//! of the interface, again and again, and read nothing. With `--keys own --users 10000 --remove 100` each
//! request is one of an enrolled user, and 100 of them are removed after half of the time.

mod support;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use helba_server::RemovedUsersList;
use planner::{Line, Problem, Wanted};
use protocol::{Answers, BanditConfig, Exchanging, ScoreRing, Updates, UserKeys, WidthShape};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};
use support::{Deployment, Raises, percentile};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use user_client::{BanditDevice, Device};
use wire::{
    AccessToken, AskAgain, DECISIONS_HEADER, DecideReply, ENROLMENT_HEADER, Limits, SENDER_HEADER, SenderTag,
    UserBundle, UserSecret,
};

/// A connection on which nothing was asked for this time is not used again.
const IDLE: Duration = Duration::from_secs(15);

#[derive(Parser)]
#[command(about = "Load on an encrypted bandit, with prepared bodies")]
struct Args {
    /// Features.
    #[arg(long, default_value_t = 2)]
    features: usize,
    /// Arms.
    #[arg(long, default_value_t = 2)]
    arms: usize,
    /// Decisions of a request: that of a device that decides for several users.
    #[arg(long, default_value_t = 1)]
    decisions: usize,
    /// Requests per second, a Poisson process.
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Seconds of arrivals.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// This many clients in place of a rate, each of which asks for its next decision when it has an answer.
    #[arg(long)]
    closed: Option<usize>,
    /// What a client learns from a decision.
    #[arg(long, value_parser = ["arm", "scores"], default_value = "arm")]
    answers: String,
    /// Number of prepared contexts, each of a sender of its own.
    #[arg(long, default_value_t = 64)]
    bodies: usize,
    /// Decrypts each answer, and asks again for one that cannot be relied on.
    #[arg(long)]
    check: bool,
    /// Makes the contexts of the first sender too long, and checks the answers of the others.
    #[arg(long, conflicts_with = "decisions")]
    spoil: bool,
    /// Connections that ask for a large answer and read nothing; another takes the place of one that ends.
    #[arg(long, default_value_t = 0)]
    silent: usize,
    /// How often a decision asks a holder of the key: `staged` takes up to 64 features and 256 arms, and
    /// `auto` is that for which a client alone waits less with --delay.
    #[arg(long, default_value = "one")]
    exchanges: Wanted,
    /// How updates are computed [default: slots with one raise, products in stages].
    #[arg(long)]
    updates: Option<Updates>,
    /// Ends a batch after so many feedbacks, up to 64 [default: 16, and at first fewer].
    #[arg(long)]
    every: Option<u64>,
    /// Factor by which a feedback counts less with each feedback after it.
    #[arg(long)]
    discount: Option<f64>,
    /// Number of feedbacks after which a feedback counts no more.
    #[arg(long)]
    window: Option<u64>,
    /// Milliseconds that each message between the server and clients and raisers takes, there and back.
    #[arg(long, default_value_t = 0)]
    delay: u64,
    /// Whose keys users have: with `own`, each request is one of an enrolled user, in turn.
    #[arg(long, default_value = "shared")]
    keys: UserKeys,
    /// Number of enrolled users.
    #[arg(long, default_value_t = 64)]
    users: usize,
    /// Number of users that are removed after half of the time.
    #[arg(long, default_value_t = 0)]
    remove: usize,
    /// Keys without security, for tests.
    #[arg(long)]
    toy: bool,
    /// Prints one JSON object instead of the table.
    #[arg(long)]
    json: bool,
}

/// What a client needs to ask and to answer.
struct Shared {
    address: String,
    /// The first lines of each request; with users' own keys those of each user.
    heads: Vec<String>,
    /// How many of the users have been removed: those of the first heads.
    removed: AtomicUsize,
    /// Requests of removed users that were refused as such.
    refused: AtomicU64,
    path: String,
    limits: Limits,
    /// Decisions of a request.
    decisions: usize,
    /// Whether the contexts of the first sender are too long.
    spoil: bool,
    /// The device, if answers are checked.
    device: Option<BanditDevice<'static>>,
    /// For how many decisions each sender has asked again: it stands for a device of its own.
    repeats: Vec<AtomicU64>,
    /// Answers that could not be relied on, and were not answered again.
    unreliable: AtomicU64,
    contexts: Vec<Vec<u8>>,
    feedback: Vec<Vec<u8>>,
    /// Open connections, and since when nothing is asked on them.
    idle: Mutex<Vec<(TcpStream, Instant)>>,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    next: AtomicU64,
}

/// Seconds from arrival to answer, and how many decisions shared the evaluation.
struct Decided {
    /// Its contexts, and so its sender.
    pick: usize,
    arrived: Instant,
    seconds: f64,
    users: u32,
    /// The number of its answers.
    answers: u32,
}

fn main() -> Result<()> {
    support::serve_if_asked()?;
    let args = Args::parse();
    let (d, k) = (args.features, args.arms);
    let security = if args.toy { keygen::Security::None } else { keygen::Security::Classical128 };
    let problem = Problem::new(d, k, 1000, security);
    // The line of this machine has no limit of speed.
    let line = Line { round_trip: 2e-3 * args.delay as f64, up: f64::INFINITY, down: f64::INFINITY };
    let exchanges = match args.exchanges {
        Wanted::Only(exchanges) => exchanges,
        Wanted::Auto => planner::choose(problem, args.updates, &line)?.exchanges,
    };
    let staged = exchanges == Exchanging::Staged;
    ensure!(!(staged && args.spoil), "--spoil is about one raise, and not about --exchanges staged");
    let updates = args.updates.unwrap_or(planner::default_updates(exchanges));
    let predicted = planner::plan(problem.with_keys(updates, exchanges))?;
    let own_keys = args.keys == UserKeys::Own;
    ensure!(!(own_keys && (args.check || args.spoil)), "--check and --spoil are about keys that users share");
    ensure!(own_keys || args.remove == 0, "--remove is about users with keys of their own");
    let keys_for = (WidthShape::default(), updates, exchanges, args.keys);
    let deployment = Deployment::start_with((d, k), args.toy, args.json, 0, None, keys_for)?;
    let deployment = deployment.behind(Duration::from_millis(args.delay))?;
    let answers = if args.answers == "scores" { Answers::Scores } else { Answers::Arm };
    let open_model = answers == Answers::Scores;
    let (discount, window) = (args.discount, args.window);
    let mut config = BanditConfig { answers, open_model, discount, window, ..BanditConfig::new(d, k) };
    if let Some(rounds) = args.every {
        config.linear.schedule = bandit::Schedule::Every { rounds };
    }
    let device = deployment.device();
    let created = deployment.client().create_encrypted(&config)?;
    let joined = device.join(&created)?;
    let enrolled = if own_keys { deployment.enrol(args.users.max(1))? } else { Vec::new() };
    let user = own_keys.then(|| deployment.user()).transpose()?;
    let user = user.as_ref().map(|(user, _)| user.join(&created)).transpose()?;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut unit = || {
        let x: Vec<f64> = (0..d).map(|_| rng.random_range(-1.0..1.0)).collect();
        let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        x.into_iter().map(|x| x / norm).collect::<Vec<f64>>()
    };
    let rows: Vec<Vec<Vec<f64>>> =
        (0..args.bodies.max(args.decisions)).map(|_| (0..k).map(|_| unit()).collect()).collect();
    let mut rng = user_client::os_rng()?;
    let mut prepare = |uploads: &BanditDevice, first: usize| -> Result<(Vec<u8>, Vec<u8>)> {
        let of_request = |at: usize| rows[(first + at) % rows.len()].as_slice();
        let decisions: Vec<&[Vec<f64>]> = (0..args.decisions).map(of_request).collect();
        let x = &of_request(0)[0];
        Ok((
            uploads.contexts_of_several(&decisions, &mut rng)?,
            uploads.feedback(0, x, x[0], None, &mut rng)?,
        ))
    };
    let server = deployment.client().server().trim_start_matches("http://").to_string();
    let head = |token: &AccessToken, more: &str| {
        format!("Host: {server}\r\nAuthorization: {}\r\n{more}", token.authorization().as_str())
    };
    let mut heads = Vec::new();
    let prepared = match &user {
        None => {
            heads.push(head(device.token(), ""));
            (0..rows.len()).map(|first| prepare(&joined, first)).collect::<Result<Vec<_>>>()?
        }
        // Each user has pads of its own.
        Some(one) => {
            let mut of_user = |(first, (secret, bundle)): (usize, (UserSecret, UserBundle))| {
                let header = bundle.enrolment.to_header();
                heads.push(head(secret.token(), &format!("{ENROLMENT_HEADER}: {header}\r\n")));
                prepare(&one.of_another_user(secret, bundle.enrolment, &bundle.sealed)?, first)
            };
            enrolled.into_iter().enumerate().map(&mut of_user).collect::<Result<Vec<_>>>()?
        }
    };
    let (mut contexts, feedback): (Vec<_>, Vec<_>) = prepared.into_iter().unzip();
    if args.spoil {
        contexts[0] = long_contexts(device, &joined, &rows[0])?;
    }
    let check = args.check || args.spoil;
    let shared = Arc::new(Shared {
        heads,
        removed: AtomicUsize::new(0),
        refused: AtomicU64::new(0),
        address: server,
        path: format!("/v1/bandits/{}", created.id),
        limits: *joined.limits(),
        decisions: args.decisions,
        spoil: args.spoil,
        device: if check { Some(device.join(&created)?) } else { None },
        repeats: contexts.iter().map(|_| AtomicU64::new(0)).collect(),
        unreliable: AtomicU64::new(0),
        contexts,
        feedback,
        idle: Mutex::default(),
        bytes_up: AtomicU64::new(0),
        bytes_down: AtomicU64::new(0),
        next: AtomicU64::new(0),
    });
    let (stop, raised) = (AtomicBool::new(false), Raises::default());
    let (decided, failed, elapsed, cpu) = std::thread::scope(|scope| -> Result<_> {
        let raiser = || deployment.raise(&joined, &stop, &raised);
        let raisers: Vec<_> = (0..2).map(|_| scope.spawn(raiser)).collect();
        std::thread::sleep(Duration::from_millis(300));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let removal = (args.remove > 0).then(|| {
            let (shared, state) = (shared.clone(), deployment.folder().join("state"));
            scope.spawn(move || -> Result<()> {
                std::thread::sleep(Duration::from_secs_f64(args.seconds / 2.0));
                let names: Vec<String> = (0..args.remove).map(|number| number.to_string()).collect();
                RemovedUsersList::of(&state).remove(names.iter().map(String::as_str))?;
                shared.removed.store(args.remove, SeqCst);
                Ok(())
            })
        });
        (0..args.silent).for_each(|_| drop(runtime.spawn(take_nothing(shared.address.clone()))));
        let spent = || [std::process::id(), deployment.server_id()].map(support::process_seconds);
        let (began, before) = (Instant::now(), spent());
        let (decided, failed) = runtime.block_on(arrivals(&args, &shared));
        let elapsed = began.elapsed().as_secs_f64();
        if let Some(removal) = removal {
            removal.join().map_err(|_| anyhow::anyhow!("the removal panicked"))??;
        }
        stop.store(true, Relaxed);
        let after = spent();
        let cpu = [after[0] - before[0], after[1] - before[1]];
        for raiser in raisers {
            raiser.join().map_err(|_| anyhow::anyhow!("a raiser panicked"))??;
        }
        Ok((decided, failed, elapsed, cpu))
    })?;
    ensure!(!decided.is_empty(), "no decision was answered; {failed} failed");
    let others = || decided.iter().filter(|d| !args.spoil || d.pick > 0);
    let seconds: Vec<f64> = others().map(|d| d.seconds).collect();
    // Those that arrived after the last answer of an evaluation that was repeated.
    let repeated = others().filter(|d| d.answers > 1);
    let last = repeated.map(|d| d.arrived + Duration::from_secs_f64(d.seconds)).max();
    let after: Vec<f64> = others().filter(|d| Some(d.arrived) > last).map(|d| d.seconds).collect();
    let answers = others().map(|d| d.answers).max().unwrap_or_default();
    let decisions = decided.len() * args.decisions;
    let count = decisions as f64;
    let evaluations: f64 = decided.iter().map(|d| args.decisions as f64 / f64::from(d.users)).sum();
    let up = shared.bytes_up.load(Relaxed) as f64 / count;
    let down = shared.bytes_down.load(Relaxed) as f64 / count;
    let share = raised.bytes() as f64 / count;
    let status = deployment.client().encrypted(&created.id)?.status;
    if args.json {
        let json = serde_json::json!({
            "features": d, "arms": k, "answers": args.answers, "closed": args.closed,
            "rate": args.closed.is_none().then_some(args.rate), "seconds": elapsed, "silent": args.silent,
            "decisions": decisions, "decisions_of_a_request": args.decisions, "failed": failed, "decisions_per_second": count / elapsed,
            "p50": percentile(&seconds, 0.5), "p99": percentile(&seconds, 0.99),
            "bytes_up": up, "bytes_down": down, "raise_bytes": share,
            "exchanges": exchanges, "delay": args.delay, "predicted_p50_alone": predicted.waits(&line), "bytes_by_exchange": raised.by_exchange(),
            "keys": args.keys, "users": shared.heads.len(), "removed": args.remove, "refused": shared.refused.load(Relaxed),
            "users_per_evaluation": count / evaluations, "load_cpu_seconds": cpu[0], "server_cpu_seconds": cpu[1],
            "feedbacks": status.feedbacks, "refreshes": status.refreshes,
            "server_peak_bytes": deployment.server_peak_bytes(),
            "most_answers": answers, "after_repeats": after.len(),
            "p50_after": percentile(&after, 0.5), "p99_after": percentile(&after, 0.99),
            "unreliable": check.then(|| shared.unreliable.load(Relaxed)),
        });
        println!("{json}");
        return Ok(());
    }
    println!("\n{d} features, {k} arms, answers: {}\n", args.answers);
    println!("  {:.1} decisions/s for {elapsed:.1} s, {failed} failed", count / elapsed);
    println!(
        "  seconds to the answer   p50 {:.3}   p99 {:.3}",
        percentile(&seconds, 0.5),
        percentile(&seconds, 0.99)
    );
    println!("  users an evaluation     {:.1}", count / evaluations);
    println!("  bytes a decision        up {up:.0} and {share:.0} of raises, down {down:.0}");
    if let Some(line) = raised.line() {
        println!("  {line}");
    }
    println!("  feedbacks {}, models {}", status.feedbacks, status.refreshes);
    if check {
        println!(
            "  most answers of a decision {answers}; to the {} that came after the last repeat p50 {:.3}   p99 {:.3}",
            after.len(),
            percentile(&after, 0.5),
            percentile(&after, 0.99)
        );
        println!("  answers that cannot be relied on: {}", shared.unreliable.load(Relaxed));
    }
    println!(
        "  processor: clients and raisers {:.1} s, server {:.1} s or {:.2} ms a decision; server's peak memory {} MB",
        cpu[0],
        cpu[1],
        1e3 * cpu[1] / count,
        deployment.server_peak_bytes() / 1_000_000
    );
    Ok(())
}

/// Contexts with rows of norm 2, which no device would encrypt: 3·c + c′ from those of x and of −x,
/// whose products of features are equal and whose features are opposite.
fn long_contexts(device: &Device, joined: &BanditDevice, rows: &[Vec<f64>]) -> Result<Vec<u8>> {
    let ring = ScoreRing::beside(device.params().spec(), device.shape())?;
    let (small, id) = (ring.params.validate()?, device.scores_key_id());
    let mut rng = user_client::os_rng()?;
    let mut encrypt = |rows: &[Vec<f64>]| -> Result<ckks::Ciphertext> {
        let (frame, scale) = (joined.contexts(rows, &mut rng)?, f64::from(protocol::LOG_CONTEXT).exp2());
        Ok(ckks::read_scaled_ciphertext(&small, id, small.max_level(), scale, &frame)?)
    };
    let opposite: Vec<Vec<f64>> = rows.iter().map(|x| x.iter().map(|x| -x).collect()).collect();
    let (mut sum, other) = (encrypt(rows)?, encrypt(&opposite)?);
    let evaluator = ckks::Evaluator::new(small.clone(), ckks::EvaluationKeys::default());
    evaluator.mul_integer_assign(&mut sum, 3);
    evaluator.add_assign(&mut sum, &other)?;
    Ok(ckks::write_ciphertext(&small, id, &sum))
}

/// Asks for large answers on connections of which it reads nothing, from an address of its own.
async fn take_nothing(address: String) {
    let ask = format!("GET /v1/openapi.json HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let connect = async || {
        let socket = tokio::net::TcpSocket::new_v4()?;
        if cfg!(target_os = "linux") {
            socket.bind(([127, 0, 0, 2], 0).into())?;
        }
        socket.connect(address.parse().map_err(std::io::Error::other)?).await
    };
    loop {
        if let Ok(mut stream) = connect().await {
            // Requests fit the buffers of the system until the server has ended the connection.
            while stream.write_all(ask.as_bytes()).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Runs the arrivals, and returns what was decided and how many requests failed.
async fn arrivals(args: &Args, shared: &Arc<Shared>) -> (Vec<Decided>, u64) {
    let end = Instant::now() + Duration::from_secs_f64(args.seconds);
    let mut tasks = tokio::task::JoinSet::new();
    match args.closed {
        Some(clients) => {
            for _ in 0..clients {
                let shared = shared.clone();
                tasks.spawn(async move {
                    let mut out = Vec::new();
                    while Instant::now() < end {
                        out.push(decide(&shared, Instant::now()).await);
                    }
                    out
                });
            }
        }
        None => {
            let mut rng = ChaCha20Rng::seed_from_u64(2);
            let mut at = Instant::now();
            while at < end {
                tokio::time::sleep_until(at.into()).await;
                let (shared, arrived) = (shared.clone(), at);
                tasks.spawn(async move { vec![decide(&shared, arrived).await] });
                at += Duration::from_secs_f64(-(1.0 - rng.random::<f64>()).ln() / args.rate);
            }
        }
    }
    let (mut decided, mut failed) = (Vec::new(), 0);
    while let Some(done) = tasks.join_next().await {
        for one in done.unwrap_or_default() {
            match one {
                Ok(one) => decided.extend(one),
                Err(error) => {
                    if failed == 0 {
                        eprintln!("a request failed: {error:#}");
                    }
                    failed += 1;
                }
            }
        }
    }
    (decided, failed)
}

/// One decision and its feedback; `None` if its user was removed.
async fn decide(shared: &Arc<Shared>, arrived: Instant) -> Result<Option<Decided>> {
    let n = shared.next.fetch_add(1, Relaxed) as usize;
    // The server closes connections on which nothing is asked for 20 s.
    let idle = shared.idle.lock().await.pop().filter(|(_, since)| since.elapsed() < IDLE);
    let mut stream = match idle {
        Some((stream, _)) => stream,
        None => TcpStream::connect(&shared.address).await?,
    };
    // In an order in which those who are removed are everywhere.
    let user = n.wrapping_mul(1_000_003) % shared.heads.len();
    let pick = if shared.heads.len() > 1 { user } else { n % shared.contexts.len() };
    let body = &shared.contexts[pick];
    let was_removed = user < shared.removed.load(SeqCst);
    let asks = Post { path: format!("{}/decisions", shared.path), decisions: shared.decisions };
    let asked = post(&mut stream, shared, (pick, user), &asks, body).await;
    if was_removed {
        // Anything but a refusal is a fault, and is counted as one.
        let error = asked.err().context("a removed user was answered")?;
        ensure!(error.to_string().starts_with("http/1.1 403"), "a removed user got {error}");
        shared.refused.fetch_add(1, Relaxed);
        return Ok(None);
    }
    let refused = |error: &anyhow::Error| error.to_string().starts_with("http/1.1 403");
    let mut reply = match asked {
        // Its user was removed meanwhile.
        Err(error) if refused(&error) && user < shared.removed.load(SeqCst) => return Ok(None),
        asked => asked?,
    };
    let mut seconds = arrived.elapsed().as_secs_f64();
    let mut count = 1;
    let asked = "a raiser waits, and this client was asked to raise";
    let decision = DecideReply::read(&reply, &shared.limits)?.decision.context(asked)?;
    for answers in 1.. {
        (seconds, count) = (arrived.elapsed().as_secs_f64(), answers);
        if is_reliable(shared, reply).await? {
            break;
        }
        let again = AskAgain { answers }.to_bytes();
        let path = Post::to(format!("{}/decisions/{}/again", shared.path, decision.id));
        if answers == 1 && shared.repeats[pick].fetch_add(1, Relaxed) >= user_client::DEFAULT_REPEATS {
            shared.unreliable.fetch_add(1, Relaxed);
            break;
        }
        // What is read of a refusal ends the connection.
        match post(&mut stream, shared, (pick, user), &path, &again).await {
            Ok(next) => reply = next,
            Err(_) => {
                if !shared.spoil || pick > 0 {
                    shared.unreliable.fetch_add(1, Relaxed);
                }
                stream = TcpStream::connect(&shared.address).await?;
                break;
            }
        }
    }
    for id in [decision.id].into_iter().chain(decision.others) {
        let path = Post::to(format!("{}/decisions/{id}/feedback", shared.path));
        match post(&mut stream, shared, (pick, user), &path, &shared.feedback[pick]).await {
            Err(error) if refused(&error) && user < shared.removed.load(SeqCst) => return Ok(None),
            counted => drop(counted?),
        }
    }
    shared.idle.lock().await.push((stream, Instant::now()));
    Ok(Some(Decided { pick, arrived, seconds, users: decision.users, answers: count }))
}

/// Whether the answer can be relied on, if answers are checked.
async fn is_reliable(shared: &Arc<Shared>, reply: Vec<u8>) -> Result<bool> {
    if shared.device.is_none() {
        return Ok(true);
    }
    let shared = shared.clone();
    tokio::task::spawn_blocking(move || {
        let Some(joined) = &shared.device else { return Ok(true) };
        let reply = joined.read(&reply)?;
        Ok(reply.choice.iter().chain(&reply.others).all(|choice| choice.reliable))
    })
    .await?
}

/// Where a body goes, and for how many decisions it asks.
struct Post {
    path: String,
    decisions: usize,
}

impl Post {
    fn to(path: String) -> Self {
        Post { path, decisions: 1 }
    }
}

/// Posts a body as a sender of the contexts `pick` and as a user, and returns that of the answer.
async fn post(
    stream: &mut TcpStream,
    shared: &Shared,
    (pick, user): (usize, usize),
    Post { path, decisions }: &Post,
    body: &[u8],
) -> Result<Vec<u8>> {
    let tag = SenderTag((pick.max(user) as u128).to_le_bytes());
    let head = format!(
        "POST {path} HTTP/1.1\r\n{}{SENDER_HEADER}: {tag}\r\n{DECISIONS_HEADER}: {decisions}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        shared.heads[user],
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    shared.bytes_up.fetch_add(body.len() as u64, Relaxed);
    let mut bytes = Vec::with_capacity(4096);
    let (start, length) = loop {
        ensure!(stream.read_buf(&mut bytes).await? > 0, "the server closed the connection");
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&bytes[..end])?.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.context("an answer without a length")?.trim().parse()?;
        ensure!(head.starts_with("http/1.1 2"), "{}", head.lines().next().unwrap_or_default());
        break (end + 4, length);
    };
    while bytes.len() < start + length {
        ensure!(stream.read_buf(&mut bytes).await? > 0, "the server closed the connection");
    }
    shared.bytes_down.fetch_add(length as u64, Relaxed);
    Ok(bytes.split_off(start))
}
