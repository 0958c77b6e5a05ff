//! The encrypted bandit on real purchases where nobody holds the key. Members in processes of their own
//! answer a server that learns from ciphertexts of users without a secret. Two members are killed while
//! rounds go on: one comes back, and another takes the place of the second by a resharing, while the server
//! keeps its state. Every decision is compared with that of a twin in exact arithmetic.
//!
//! ```text
//! cargo run --release --example committee -- [--rounds 300] [--users 20] [--threshold 3] [--members 5]
//! ```

mod support;

use anyhow::{Context, Result, ensure};
use bandit::datasets::Purchases;
use ckks_shares::Quorum;
use clap::Parser;
use datasets::Dataset;
use helba_member::MemberKeys;
use helba_member::keygen::{
    Identity, Keygen, Old, Plan, Proposal, RemoteBoard, Reshare, Resharing, Store, routes,
};
use helba_member::serve::{Ledger, Member, Replica};
use host::Undone;
use protocol::budget::{OPENED_NATS, budget_of_a_member, opened_nats};
use protocol::{BanditConfig, Shape};
use rand::Rng;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Started, median, percentile};
use testkit::ClearTwin;
use user_client::{Asking, BanditDevice, Client, Device, Opening, Stop};
use wire::{BundleKind, BundleReader, MemberManifest, PublicBundle, PublicBytes};
use zeroize::Zeroizing;

const MEMBER: &str = "--member";
const KEYGEN: &str = "--keygen";
const RESHARE: &str = "--reshare";
/// The member that is lost and replaced.
const LOST: u8 = 4;
/// How often many users ask at once.
const WAVES: usize = 3;
/// The phase of a round in which members take part.
const DECIDE: &str = "decide: device, server and members";

#[derive(Parser)]
#[command(
    about = "The encrypted bandit on real purchases, with a key that a committee holds and nobody else"
)]
struct Args {
    /// Number of purchases to play.
    #[arg(long, default_value_t = 300)]
    rounds: usize,
    /// Number of users, who take turns. Each has a device of its own without a secret.
    #[arg(long, default_value_t = 20)]
    users: usize,
    /// t: how many members it takes to answer.
    #[arg(long, default_value_t = 3)]
    threshold: u8,
    /// n: the number of members, at least t + 2, because two are killed.
    #[arg(long, default_value_t = 5)]
    members: u8,
    /// The nats of the budget of answers of the keys, of which each member opens its part.
    #[arg(long, default_value_t = OPENED_NATS)]
    nats: f64,
    /// Has so many users ask at once after the rounds, three times. Their requests are prepared before.
    #[arg(long, default_value_t = 0)]
    together: usize,
    /// Members check the structure of questions alone, in place of computing all again.
    #[arg(long)]
    structure: bool,
    /// Prints one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// Small keys without security, for tests.
    #[arg(long)]
    toy: bool,
}

fn main() -> Result<()> {
    support::serve_if_asked()?;
    answer_if_asked()?;
    make_keys_if_asked()?;
    reshare_if_asked()?;
    let args = Args::parse();
    let quorum = Quorum::new(args.threshold, args.members)?;
    ensure!(args.members >= args.threshold + 2, "two members are killed, so that it takes t + 2 of them");
    ensure!(args.rounds >= 8 && args.users > 0, "it takes 8 --rounds and one of --users");
    let dataset: Dataset = Purchases::yogurt()?.into();
    let rounds = args.rounds.min(dataset.rounds().len());
    let (d, k) = (dataset.d(), dataset.arms().len());
    let config = BanditConfig { horizon: rounds as u64, ..BanditConfig::new(d, k) };
    // Work is spread over all members, each of whom opens its part of the budget and refuses after that.
    let numbers = (args.threshold, args.members);
    let most = budget_of_a_member(args.nats, Shape::for_problem(d, k), numbers, args.members);
    let carried = most.decisions * u64::from(args.members) / u64::from(args.threshold);
    ensure!(
        (rounds + WAVES * args.together) as u64 <= carried,
        "{} nats are at most {carried} decisions: play fewer --rounds, or give more --nats",
        args.nats
    );

    host::undo_on_signals().context("listening for signals")?;
    let (folder, _of_folder) = support::folder()?;
    let (keygen_seconds, keygen_bytes) = make_keys(&args, quorum, (d, k), folder.path())?;
    let path = |name: &str| folder.path().join(name);
    // All members have the same bundles.
    let of_users = own(folder.path(), 0, 1).join("users.bundle");
    let serve = |epoch| {
        let public = own(folder.path(), epoch, 1).join("public.bundle");
        support::serve(&public, &path("state"), args.json, None)
    };
    let mut server = serve(0)?;
    let start = |epoch, member, server: &Started| {
        Process::start(&own(folder.path(), epoch, member), server, &args).map(Some)
    };
    let mut members: Vec<Option<Process>> =
        (1..=args.members).map(|member| start(0, member, &server)).collect::<Result<_>>()?;

    // Each user opens the bundle of users, which has no secret of the lattice.
    let opening = Opening { toy: args.toy, ..Opening::default() };
    let devices: Vec<Device> =
        (0..args.users).map(|_| Device::open(&of_users, &opening)).collect::<Result<_, _>>()?;
    let connect = |server: &Started| -> Result<Client> {
        Ok(Client::new(&format!("http://{}", server.address))?.with_token(devices[0].token().clone()))
    };
    let mut client = connect(&server)?;
    let created = client.create_encrypted(&config)?;
    let users: Vec<BanditDevice> =
        devices.iter().map(|device| device.join(&created)).collect::<Result<_, _>>()?;

    let (mut twin, mut rng, mut log) =
        (ClearTwin::new(config.clone()), user_client::os_rng()?, support::Log::default());
    let mut resharing_seconds = 0.0;
    let progress = support::progress(rounds as u64, "learning through a committee", args.json);
    for (t, played) in dataset.rounds()[..rounds].iter().enumerate() {
        // Member 2 is killed after a quarter of the rounds and comes back after a half, with the file of its
        // keys and its ledger; member 4 is killed after five eighths and lost; after three quarters another
        // one takes its place.
        let is = |eighths: usize| t == eighths * rounds / 8;
        if is(2) {
            members[1] = None;
        }
        if is(4) {
            members[1] = start(0, 2, &server)?;
        }
        if is(5) {
            members[usize::from(LOST) - 1] = None;
        }
        if is(6) {
            members.clear();
            resharing_seconds = reshare(&args, folder.path())?;
            drop(server);
            server = serve(1)?;
            client = connect(&server)?;
            members = (1..=args.members).map(|member| start(1, member, &server)).collect::<Result<_>>()?;
        }
        let rows: Vec<Vec<f64>> = played.features.rows().map(<[f64]>::to_vec).collect();
        let (user, began) = (&users[t % users.len()], Instant::now());
        let round = user.decide(&client, &rows, &mut rng)?;
        let decided = began.elapsed().as_secs_f64();
        let choice = &round.choice;
        let reward = played.observed.reward(choice.arm).unwrap_or(0.0);
        let feedback = user.feedback(choice.id, choice.arm, &rows[choice.arm], reward, None, &mut rng)?;
        client.feedback_encrypted(&created.id, choice.id, &feedback)?;
        let phases = vec![
            (DECIDE.to_string(), decided),
            ("feedback".to_string(), began.elapsed().as_secs_f64() - decided),
        ];
        let indices = twin.indices(&rows, choice.round, choice.model_feedbacks);
        let range = helba::Scalars::new(&config, choice.round, choice.model_feedbacks).range;
        twin.learn(&rows[choice.arm], reward);
        let (bytes_up, bytes_down) = (round.sent + feedback.len(), round.received);
        let (arm, number, model_feedbacks) = (choice.arm, choice.round, choice.model_feedbacks);
        log.push(
            support::Round { arm, reward, round: number, model_feedbacks, bytes_up, bytes_down, phases },
            &indices,
            range,
            config.resolution(),
        );
        progress.inc(1);
    }
    progress.finish_and_clear();
    let mut waves = Vec::new();
    if args.together > 0 {
        // All know the members who answer, so that no request but that for a decision follows.
        let manifest = client.keys()?;
        devices.iter().try_for_each(|device| device.check_manifest(&manifest))?;
    }
    for _ in 0..if args.together > 0 { WAVES } else { 0 } {
        let asked = (0..args.together).map(|i| {
            let rows = dataset.rounds()[i % dataset.rounds().len()].features.rows();
            (&users[i % users.len()], rows.map(<[f64]>::to_vec).collect::<Vec<_>>())
        });
        waves.push(ask_together(&client, asked.collect())?);
    }
    let status = client.encrypted(&created.id)?.status;
    let (killed, restarted, replaced) = (2, 1, 1);
    let each = opened_nats(Shape::for_problem(d, k), args.threshold, args.members);
    let (seconds, verdict) = (log.seconds(), log.verdict());
    let hit = log.running_hit_rate().last().copied().unwrap_or(0.0);
    if args.json {
        let decide =
            log.phases().into_iter().find(|(name, _)| name == DECIDE).map(|(_, values)| median(&values));
        let json = serde_json::json!({
            "rounds": rounds, "users": args.users, "threshold": args.threshold, "members": args.members,
            "agreement": log.agreement(), "misses": log.misses(), "resolution": config.resolution(), "verdict": verdict,
            "hit_rate": hit, "verify": if args.structure { "structure" } else { "replay" }, "members_killed": killed, "members_restarted": restarted, "members_replaced": replaced,
            "keygen_seconds": keygen_seconds, "keygen_bytes_up": keygen_bytes, "resharing_seconds": resharing_seconds, "seconds_per_round_median": median(&seconds), "seconds_per_decision_median": decide,
            "together": args.together, "together_decisions_per_second_median": (!waves.is_empty()).then(|| median(&waves)),
            "seconds_per_round_p95": percentile(&seconds, 0.95), "bytes_up_median": median(&log.bytes_up()),
            "bytes_down_median": median(&log.bytes_down()), "refreshes": status.refreshes,
        });
        println!("{json}");
        return Ok(());
    }
    let (t, n) = (args.threshold, args.members);
    println!(
        "\n{rounds} rounds of {} users without a secret; {t} of {n} members answered together\n",
        args.users
    );
    println!("  members killed    {killed}: {restarted} came back with its file, {replaced} was replaced");
    println!("  mean reward       {hit:.3}");
    println!("\n  {verdict}");
    println!("\n  seconds per round median {:.3}   p95 {:.3}", median(&seconds), percentile(&seconds, 0.95));
    for (name, values) in log.phases() {
        println!("    {name:<36} {:.3}   {:>9.3}", median(&values), percentile(&values, 0.95));
    }
    println!(
        "  up   {:.0} kB a round   down {:.1} kB",
        median(&log.bytes_up()) / 1e3,
        median(&log.bytes_down()) / 1e3
    );
    println!("  refreshed models {}", status.refreshes);
    if !waves.is_empty() {
        println!("  {} users at once: {:.1} decisions a second", args.together, median(&waves));
    }
    println!(
        "  keys made in {keygen_seconds:.1} s by {n} processes, {:.0} MB sent by each",
        keygen_bytes as f64 / 1e6
    );
    println!("  shares handed on to the next epoch in {resharing_seconds:.1} s; keys and bandit stayed");
    println!(
        "  a decision spends {each:.4} of {} nats; a member answers {} and {} models, and refuses after that",
        args.nats, most.decisions, most.models
    );
    if args.toy {
        println!("  NO SECURITY: toy keys");
    }
    Ok(())
}

/// Sends the requests of a decision.
fn finish(client: &Client, device: &BanditDevice, mut asking: Asking) -> Result<()> {
    let (id, limits, mut rng) = (&device.created().id, device.limits(), user_client::os_rng()?);
    while let Some(request) = asking.request() {
        // A committee asks for nothing else, and answers no decision again.
        let reply = client.decide_several(id, limits, 1, request.body);
        device.answered(&mut asking, reply, &mut rng)?;
    }
    asking.finish()?.single()?;
    Ok(())
}

/// Asks for a decision of each of these users at once. Returns decisions a second, from the first request to
/// the last decision. Requests are encrypted before that.
fn ask_together(client: &Client, asked: Vec<(&BanditDevice, Vec<Vec<f64>>)>) -> Result<f64> {
    let mut rng = user_client::os_rng()?;
    let mut prepared = Vec::new();
    for (device, rows) in &asked {
        prepared.push((*device, device.ask(&[rows], &mut rng)?));
    }
    let began = Instant::now();
    let all: Vec<_> = std::thread::scope(|scope| {
        let send = |(device, asking)| scope.spawn(move || finish(client, device, asking));
        let threads: Vec<_> = prepared.into_iter().map(send).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    for decided in all {
        decided.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    Ok(asked.len() as f64 / seconds)
}

/// Makes the keys for `d` features and `k` arms, by members in processes of their own over a board of this
/// process: each leaves its keys and the bundles in a folder of its own. Returns seconds, and the bytes that
/// a member sent.
fn make_keys(args: &Args, quorum: Quorum, (d, k): (usize, usize), folder: &Path) -> Result<(f64, u64)> {
    let (start, mut rng) = (Instant::now(), user_client::os_rng()?);
    let cards = (1..=quorum.members()).map(|member| new_card(&own(folder, 0, member), &mut rng));
    let cards = cards.collect::<Result<_>>()?;
    let (threshold, toy, nonce) = (args.threshold, args.toy, nonce(&mut rng));
    let proposal = Proposal {
        features: d,
        arms: k,
        threshold,
        toy,
        created: 0,
        nonce,
        members: cards,
        resharing: None,
        follows: None,
    };
    let bytes = run_of_members(args, KEYGEN, "making keys", proposal, folder)?;
    Ok((start.elapsed().as_secs_f64(), bytes))
}

/// The folder of a member in an epoch.
fn own(folder: &Path, epoch: usize, member: u8) -> PathBuf {
    folder.join(format!("epoch-{epoch}")).join(format!("member-{member}"))
}

/// A new identity in the folder of a member. Returns its card.
fn new_card<R: Rng + rand::CryptoRng>(own: &Path, rng: &mut R) -> Result<MemberManifest> {
    std::fs::create_dir_all(own)?;
    let identity = Identity::generate(rng);
    identity.save(&own.join("identity"))?;
    Ok(identity.card())
}

fn nonce<R: Rng>(rng: &mut R) -> PublicBytes {
    let mut nonce = vec![0; 32];
    rng.fill_bytes(&mut nonce);
    PublicBytes(nonce)
}

/// Hands the shares on from members 1, 2, 3 … to the members of the next epoch, where another one takes the
/// place of the member that is lost. Returns seconds.
fn reshare(args: &Args, folder: &Path) -> Result<f64> {
    let (start, mut rng) = (Instant::now(), user_client::os_rng()?);
    // Its disk is lost too.
    std::fs::remove_dir_all(own(folder, 0, LOST))?;
    let card = |member: u8| match member {
        LOST => new_card(&own(folder, 1, member), &mut rng),
        _ => Ok(Identity::open(&own(folder, 0, member).join("identity"))?.card()),
    };
    let cards = (1..=args.members).map(card).collect::<Result<_>>()?;
    let file = File::open(own(folder, 0, 1).join("public.bundle"))?;
    let before = BundleReader::of_kind(BundleKind::Public, BufReader::new(file))?.manifest().clone();
    let dealers = (1..=args.members).filter(|member| *member != LOST).take(args.threshold.into()).collect();
    let (features, arms, nonce) = (before.shape.dim, before.shape.arm_slots, nonce(&mut rng));
    let resharing = Some(Box::new(Resharing { before, dealers }));
    let (threshold, toy) = (args.threshold, args.toy);
    let proposal = Proposal {
        features,
        arms,
        threshold,
        toy,
        created: 0,
        nonce,
        members: cards,
        resharing,
        follows: None,
    };
    run_of_members(args, RESHARE, "handing shares on", proposal, folder)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Runs all members, in processes of their own, over a board of this process. Returns the bytes that member 1
/// sent.
fn run_of_members(
    args: &Args,
    verb: &str,
    message: &'static str,
    proposal: Proposal,
    folder: &Path,
) -> Result<u64> {
    std::fs::write(folder.join("proposal.json"), serde_json::to_vec(&proposal)?)?;
    let store = Arc::new(Store::open(Plan::new(proposal)?, &folder.join("board"))?);
    let address = serve_board(store.clone())?;
    let mut processes = Vec::new();
    for member in 1..=args.members {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(verb).arg(member.to_string()).arg(folder).arg(&address).stdin(Stdio::piped());
        let (process, undone) = support::spawn(command).context("cannot start a member's process")?;
        processes.push(Process(process, undone));
    }
    let bar = support::progress(0, message, args.json);
    for Process(process, _) in &processes {
        let status = loop {
            // Not waited for under the lock, which a signal takes.
            match host::lock(process).try_wait()? {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        ensure!(status.success(), "a member has not ended its run: {status}");
    }
    bar.finish_and_clear();
    std::fs::remove_dir_all(folder.join("board"))?;
    Ok(store.bytes_of(1))
}

/// Serves the board of a key generation on a free loopback port, until this process ends.
fn serve_board(store: Arc<Store>) -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?.to_string();
    let runtime = tokio::runtime::Runtime::new()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let connections = service::Connections::default();
            service::serve(listener, routes(store), connections, std::future::pending()).await;
            Ok::<_, std::io::Error>(())
        })
    });
    Ok(address)
}

/// If this process was started to make keys as a member, makes them and does not return.
fn make_keys_if_asked() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, verb, member, folder, address] = &args[..] else { return Ok(()) };
    if verb != KEYGEN {
        return Ok(());
    }
    end_with_the_first();
    let (folder, own) = (Path::new(folder), own(Path::new(folder), 0, member.parse()?));
    let plan = Plan::new(Proposal::open(&folder.join("proposal.json"))?)?;
    let identity = Identity::open(&own.join("identity"))?;
    let board = RemoteBoard::new(Client::new(&format!("http://{address}"))?, &plan);
    let (plan, identity, patience) = (&plan, &identity, PATIENCE);
    Keygen { plan, identity, folder: &own, passphrase: None, patience, log: &log }.run(&board, seed()?)?;
    std::process::exit(0)
}

/// If this process was started to hand its share on, or to take one, does so and does not return.
fn reshare_if_asked() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, verb, member, folder, address] = &args[..] else { return Ok(()) };
    if verb != RESHARE {
        return Ok(());
    }
    end_with_the_first();
    let (folder, member) = (Path::new(folder), member.parse()?);
    let plan = Plan::new(Proposal::open(&folder.join("proposal.json"))?)?;
    let (before, next) = (own(folder, 0, member), own(folder, 1, member));
    // Another member takes the place of the one that is lost.
    let identity = if member == LOST { &next } else { &before };
    let identity = Identity::open(&identity.join("identity"))?;
    let keys = before.join("member.keys");
    let open = || -> Result<Old> {
        let ledger = Ledger::open(&keys.with_extension("ledger"))?;
        Ok(Old { keys: MemberKeys::open(&keys, None)?, path: &keys, ledger })
    };
    let old = if member == LOST { None } else { Some(open()?) };
    // Bundles are public to all members; a new one gets them from another.
    let from = own(folder, 0, 1);
    let run = Reshare {
        plan: &plan,
        identity: &identity,
        public: &from.join("public.bundle"),
        users: &from.join("users.bundle"),
        folder: &next,
        passphrase: None,
        patience: PATIENCE,
        log: &log,
    };
    let board = RemoteBoard::new(Client::new(&format!("http://{address}"))?, &plan);
    run.run(&board, old, seed()?)?;
    std::process::exit(0)
}

/// How long members wait for each other.
const PATIENCE: Duration = Duration::from_secs(600);

fn seed() -> Result<Zeroizing<[u8; 32]>> {
    let mut seed = Zeroizing::new([0; 32]);
    user_client::os_rng()?.fill_bytes(&mut *seed);
    Ok(seed)
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

/// A member in a process of its own. It is killed when this is dropped.
struct Process(Arc<Mutex<Child>>, #[allow(dead_code, reason = "a signal ends the process too")] Undone);

impl Process {
    fn start(own: &Path, server: &Started, args: &Args) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(MEMBER)
            .arg(own.join("member.keys"))
            .arg(own.join("users.bundle"))
            .arg(&server.address)
            .arg(if args.structure { "structure" } else { "replay" })
            .arg(args.nats.to_string())
            .stdin(Stdio::piped());
        let (process, undone) = support::spawn(command).context("cannot start a member's process")?;
        Ok(Process(process, undone))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        support::end(&self.0);
    }
}

/// If this process was started as a member, answers until it is killed and does not return.
fn answer_if_asked() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, verb, keys, users, address, verify, nats] = &args[..] else { return Ok(()) };
    if verb != MEMBER {
        return Ok(());
    }
    end_with_the_first();
    let (keys, users) = (PathBuf::from(keys), File::open(users)?);
    let token = wire::UsersBundle::read(users)?.token;
    let client = Client::new(&format!("http://{address}"))?.with_token(token);
    let (ledger, bundle) = (keys.with_extension("ledger"), keys.with_file_name("public.bundle"));
    let states = keys.with_extension("states");
    let keys = MemberKeys::open(&keys, None)?;
    let ledger = Ledger::open(&ledger)?.with_budget(keys.budget(nats.parse()?));
    let replica = match verify.as_str() {
        "structure" => None,
        _ => {
            let bundle = PublicBundle::read(BufReader::new(File::open(bundle)?))?;
            Some(Replica::new(&keys, bundle, &mut user_client::os_rng()?)?.with_states(states))
        }
    };
    let member = Member::new(keys, ledger, client, Stop::default(), log).verifying(replica);
    member.run(2, &mut user_client::os_rng()?)?;
    std::process::exit(0)
}
