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
use helba_member::ceremony::{self, Ceremony};
use helba_member::serve::{Ledger, Member, Replica};
use host::Undone;
use protocol::{BanditConfig, Shape};
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use support::{Started, median, percentile};
use testkit::ClearTwin;
use user_client::{BanditDevice, Client, Device, Opening, Stop};
use wire::PublicBundle;

const MEMBER: &str = "--member";

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
    let shape = Shape::for_problem(d, k);
    let keygen_seconds =
        make_keys(Ceremony { shape, quorum, toy: args.toy, created: 0 }, folder.path(), args.json)?;
    let path = |name: &str| folder.path().join(name);
    let server = support::serve(&path("public.bundle"), &path("state"), args.json, None)?;
    let mut members: Vec<Option<Process>> = (1..=args.members)
        .map(|member| Process::start(member, folder.path(), &server, args.structure).map(Some))
        .collect::<Result<_>>()?;

    // Each user opens the bundle of users, which has no secret of the lattice.
    let opening = Opening { toy: args.toy, ..Opening::default() };
    let devices: Vec<Device> =
        (0..args.users).map(|_| Device::open(&path("users.bundle"), &opening)).collect::<Result<_, _>>()?;
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
        let feedback = user.feedback(&rows[choice.arm], reward, None, &mut rng)?;
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
            "keygen_seconds": keygen_seconds, "seconds_per_round_median": median(&seconds),
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
    println!("  keys made in {keygen_seconds:.1} s, all members' parts in one process");
    if args.toy {
        println!("  NO SECURITY: toy keys");
    }
    Ok(())
}

/// Writes the bundles and the members' files. Returns seconds.
fn make_keys(ceremony: Ceremony, folder: &Path, quiet: bool) -> Result<f64> {
    let bar = support::progress(0, "making keys", quiet);
    let (start, mut rng) = (Instant::now(), user_client::os_rng()?);
    let public = BufWriter::new(File::create(folder.join("public.bundle"))?);
    // It has the access token.
    let users = host::private_file().write(true).create_new(true).open(folder.join("users.bundle"))?;
    let members = ceremony::hold(ceremony, public, users, &mut rng, |done, total| {
        bar.set_length(total.into());
        bar.set_position(done.into());
    })?;
    for keys in members {
        keys.save(&folder.join(format!("member-{}.keys", keys.member())), None, &mut rng)?;
    }
    bar.finish_and_clear();
    Ok(start.elapsed().as_secs_f64())
}

/// A member in a process of its own. It is killed when this is dropped.
struct Process(Arc<Mutex<Child>>, #[allow(dead_code, reason = "a signal ends the process too")] Undone);

impl Process {
    fn start(member: u8, folder: &Path, server: &Started, structure: bool) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let keys = folder.join(format!("member-{member}.keys"));
        command
            .arg(MEMBER)
            .arg(keys)
            .arg(folder.join("users.bundle"))
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
    // The member ends when the process that started it ends.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0)
    });
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
