//! The encrypted bandit on real purchases where nobody holds the key. Members in processes of their own
//! answer a server that learns from ciphertexts of users without a secret. Two members are killed while
//! rounds go on, and one comes back. Every decision is compared with that of a twin in exact arithmetic.
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
use helba_member::keygen::{Identity, Keygen, Plan, Proposal, RemoteBoard, Store, routes};
use helba_member::serve::{Ledger, Member, Replica};
use host::Undone;
use protocol::BanditConfig;
use rand::Rng;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Started, median, percentile};
use testkit::ClearTwin;
use user_client::{BanditDevice, Client, Device, Opening, Stop};
use wire::PublicBundle;
use zeroize::Zeroizing;

const MEMBER: &str = "--member";
const KEYGEN: &str = "--keygen";

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
    let args = Args::parse();
    let quorum = Quorum::new(args.threshold, args.members)?;
    ensure!(args.members >= args.threshold + 2, "two members are killed, so that it takes t + 2 of them");
    ensure!(args.rounds > 0 && args.users > 0, "--rounds and --users are at least 1");
    let dataset: Dataset = Purchases::yogurt()?.into();
    let rounds = args.rounds.min(dataset.rounds().len());
    let (d, k) = (dataset.d(), dataset.arms().len());
    let config = BanditConfig { horizon: rounds as u64, ..BanditConfig::new(d, k) };

    host::undo_on_signals().context("listening for signals")?;
    let (folder, _of_folder) = support::folder()?;
    let (keygen_seconds, keygen_bytes) = make_keys(&args, quorum, (d, k), folder.path())?;
    let path = |name: &str| folder.path().join(name);
    // All members have the same bundles.
    let (public, of_users) = (path("member-1/public.bundle"), path("member-1/users.bundle"));
    let server = support::serve(&public, &path("state"), args.json, None)?;
    let mut members: Vec<Option<Process>> = (1..=args.members)
        .map(|member| Process::start(member, folder.path(), &server, args.structure).map(Some))
        .collect::<Result<_>>()?;

    // Each user opens the bundle of users, which has no secret of the lattice.
    let opening = Opening { toy: args.toy, ..Opening::default() };
    let devices: Vec<Device> =
        (0..args.users).map(|_| Device::open(&of_users, &opening)).collect::<Result<_, _>>()?;
    let client = Client::new(&format!("http://{}", server.address))?.with_token(devices[0].token().clone());
    let created = client.create_encrypted(&config)?;
    let users: Vec<BanditDevice> =
        devices.iter().map(|device| device.join(&created)).collect::<Result<_, _>>()?;

    let (mut twin, mut rng, mut log) =
        (ClearTwin::new(config.clone()), user_client::os_rng()?, support::Log::default());
    let progress = support::progress(rounds as u64, "learning through a committee", args.json);
    for (t, played) in dataset.rounds()[..rounds].iter().enumerate() {
        // Member 2 is killed after a quarter of the rounds and comes back after a half, with the file of its
        // keys and its ledger; member 4 is killed after three quarters.
        match t * 4 / rounds {
            1 if members[1].is_some() && t * 4 % rounds < 4 => members[1] = None,
            2 if members[1].is_none() => {
                members[1] = Some(Process::start(2, folder.path(), &server, args.structure)?)
            }
            3 => members[3] = None,
            _ => {}
        }
        let rows: Vec<Vec<f64>> = played.features.rows().map(<[f64]>::to_vec).collect();
        let (user, began) = (&users[t % users.len()], Instant::now());
        let round = user.decide(&client, &rows, &mut rng)?;
        let decided = began.elapsed().as_secs_f64();
        let choice = &round.choice;
        let reward = played.observed.reward(choice.arm).unwrap_or(0.0);
        let feedback = user.feedback(choice.arm, &rows[choice.arm], reward, None, &mut rng)?;
        client.feedback_encrypted(&created.id, choice.id, &feedback)?;
        let phases = vec![
            ("decide: device, server and members".to_string(), decided),
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
        );
        progress.inc(1);
    }
    progress.finish_and_clear();
    let status = client.encrypted(&created.id)?.status;
    let (killed, restarted, replaced) = (2, 1, 0);
    let (seconds, verdict) = (log.seconds(), log.verdict(config.resolution()));
    let hit = log.running_hit_rate().last().copied().unwrap_or(0.0);
    if args.json {
        let json = serde_json::json!({
            "rounds": rounds, "users": args.users, "threshold": args.threshold, "members": args.members,
            "agreement": log.agreement(), "misses": log.misses(), "resolution": config.resolution(), "verdict": verdict,
            "hit_rate": hit, "verify": if args.structure { "structure" } else { "replay" }, "members_killed": killed, "members_restarted": restarted, "members_replaced": replaced,
            "keygen_seconds": keygen_seconds, "keygen_bytes_up": keygen_bytes, "seconds_per_round_median": median(&seconds),
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
    println!("  members killed    {killed}, of which {restarted} came back with its file");
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
    println!(
        "  keys made in {keygen_seconds:.1} s by {n} processes, {:.0} MB sent by each",
        keygen_bytes as f64 / 1e6
    );
    if args.toy {
        println!("  NO SECURITY: toy keys");
    }
    Ok(())
}

/// Makes the keys for `d` features and `k` arms, by members in processes of their own over a board of this
/// process: each leaves its keys and the bundles in a folder of its own. Returns seconds, and the bytes that
/// a member sent.
fn make_keys(args: &Args, quorum: Quorum, (d, k): (usize, usize), folder: &Path) -> Result<(f64, u64)> {
    let (start, mut rng) = (Instant::now(), user_client::os_rng()?);
    let path = |name: &str| folder.join(name);
    let mut cards = Vec::new();
    for member in 1..=quorum.members() {
        let identity = Identity::generate(&mut rng);
        identity.save(&path(&format!("{member}.identity")))?;
        cards.push(identity.card());
    }
    let mut nonce = vec![0; 32];
    rng.fill_bytes(&mut nonce);
    let (threshold, toy, nonce) = (args.threshold, args.toy, wire::PublicBytes(nonce));
    let proposal = Proposal { features: d, arms: k, threshold, toy, created: 0, nonce, members: cards };
    std::fs::write(path("proposal.json"), serde_json::to_vec(&proposal)?)?;
    let store = Arc::new(Store::open(Plan::new(proposal)?, &path("board"))?);
    let address = serve_board(store.clone())?;
    let mut processes = Vec::new();
    for member in 1..=quorum.members() {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(KEYGEN).arg(member.to_string()).arg(folder).arg(&address).stdin(Stdio::piped());
        let (process, undone) = support::spawn(command).context("cannot start a member's process")?;
        processes.push(Process(process, undone));
    }
    let bar = support::progress(0, "making keys", args.json);
    for Process(process, _) in &processes {
        let status = loop {
            // Not waited for under the lock, which a signal takes.
            match host::lock(process).try_wait()? {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        ensure!(status.success(), "a member made no keys: {status}");
    }
    bar.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_dir_all(path("board"))?;
    Ok((seconds, store.bytes_of(1)))
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
    let folder = Path::new(folder);
    let plan = Plan::new(Proposal::open(&folder.join("proposal.json"))?)?;
    let identity = Identity::open(&folder.join(format!("{member}.identity")))?;
    let board = RemoteBoard::new(Client::new(&format!("http://{address}"))?, &plan);
    let mut seed = Zeroizing::new([0; 32]);
    user_client::os_rng()?.fill_bytes(&mut *seed);
    let (own, patience) = (folder.join(format!("member-{member}")), Duration::from_secs(600));
    let shown = std::env::var_os("RUST_LOG").is_some();
    let log = move |line: &str| {
        if shown {
            eprintln!("{line}");
        }
    };
    let (plan, identity, log) = (&plan, &identity, &log);
    Keygen { plan, identity, folder: &own, passphrase: None, patience, log }.run(&board, seed)?;
    std::process::exit(0)
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
    fn start(member: u8, folder: &Path, server: &Started, structure: bool) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let own = folder.join(format!("member-{member}"));
        command
            .arg(MEMBER)
            .arg(own.join("member.keys"))
            .arg(own.join("users.bundle"))
            .arg(&server.address)
            .arg(if structure { "structure" } else { "replay" })
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
    let [_, verb, keys, users, address, verify] = &args[..] else { return Ok(()) };
    if verb != MEMBER {
        return Ok(());
    }
    end_with_the_first();
    let (keys, users) = (PathBuf::from(keys), File::open(users)?);
    let token = wire::UsersBundle::read(users)?.token;
    let client = Client::new(&format!("http://{address}"))?.with_token(token);
    let ledger = Ledger::open(&keys.with_extension("ledger"))?;
    let shown = std::env::var_os("RUST_LOG").is_some();
    let log = move |line: &str| {
        if shown {
            eprintln!("{line}");
        }
    };
    let bundle = keys.with_file_name("public.bundle");
    let keys = MemberKeys::open(&keys, None)?;
    let replica = match verify.as_str() {
        "structure" => None,
        _ => {
            let bundle = PublicBundle::read(BufReader::new(File::open(bundle)?))?;
            Some(Replica::new(&keys, bundle, &mut user_client::os_rng()?)?)
        }
    };
    let member = Member::new(keys, ledger, client, Stop::default(), log).verifying(replica);
    member.run(2, &mut user_client::os_rng()?)?;
    std::process::exit(0)
}
