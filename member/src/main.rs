//! `helba-member`: makes the keys of a committee, and answers a server with the share of one member.

use anyhow::{Context, ensure};
use ckks_shares::Quorum;
use clap::{Parser, Subcommand};
use helba_member::MemberKeys;
use helba_member::ceremony::{self, Ceremony};
use helba_member::serve::{Ledger, Member, Replica};
use host::{Draft, say};
use protocol::Shape;
use protocol::exchange::{OPENED_NATS, opened_nats};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use user_client::{Client, Passphrase, Stop, os_rng, until_signal};
use wire::{AccessToken, PublicBundle, UsersBundle};

/// Makes the keys of a key committee, and answers a server as one of its members.
///
/// Any t of n members answer together, and t − 1 of them and the server learn nothing. Users have no secret.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes the keys of a committee on this machine, with a file for each member.
    ///
    /// All members' parts run in this one process: whoever reads its memory while it runs, or all files
    /// before they are given away, has the key. Run it offline, give each member its file, and delete the
    /// files here.
    Ceremony {
        /// Number of features of an arm, d.
        #[arg(long)]
        features: usize,
        /// Number of arms, K.
        #[arg(long)]
        arms: usize,
        /// t: how many members it takes to answer, at least 2.
        #[arg(long)]
        threshold: u8,
        /// n: the number of members, from 2t − 1 to 16.
        #[arg(long)]
        members: u8,
        /// New folder for the public bundle, the users' bundle and the members' files.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
        /// Makes small keys without security, for tests.
        #[arg(long)]
        toy: bool,
    },
    /// Answers the questions of a server as the member with these keys.
    ///
    /// It connects to the server and accepts no connection. Run each member on a machine of its own, and none
    /// on that of the server. Its log goes to stderr, with a line for each answer.
    Serve {
        /// Address of the server, https://HOST:PORT or http://HOST:PORT.
        #[arg(long, value_name = "URL")]
        server: String,
        /// PEM file of the certificate authorities to trust, instead of those that browsers trust.
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
        /// The keys of this member.
        #[arg(long, value_name = "FILE")]
        keys: PathBuf,
        /// What was answered, on disk [default: the file of the keys with the extension `ledger`]. Whoever
        /// loses it must not serve with these keys any more.
        #[arg(long, value_name = "FILE")]
        ledger: Option<PathBuf>,
        /// File with an API token of scope `raise`.
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
        /// The users' bundle, whose token is taken in place of an API token.
        #[arg(long, value_name = "FILE", required_unless_present = "token_file")]
        users: Option<PathBuf>,
        /// File whose first line is the passphrase of the keys.
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
        /// What is checked before an answer: replay computes all again, sample=P does for a share P of the tasks
        /// and stops at the first deviation, structure checks the form of a question alone. Against a server
        /// that deviates from the protocol, structure does not help.
        #[arg(long, default_value = "replay", value_name = "replay|sample=P|structure")]
        verify: Verify,
        /// The public bundle, for replay and sample.
        #[arg(long, value_name = "FILE")]
        public: Option<PathBuf>,
        /// The nats of the budget of answers after which this member opens no more: docs/committee.md says how
        /// many decisions that is.
        #[arg(long, default_value_t = OPENED_NATS)]
        nats: f64,
        /// Number of requests that wait for questions. Each answers one at a time.
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
        waiting: u8,
    },
}

fn main() -> ExitCode {
    host::exit("helba-member", run(Arguments::parse().command))
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Ceremony { features, arms, threshold, members, out, toy } => {
            hold_ceremony(features, arms, Quorum::new(threshold, members)?, &out, toy)
        }
        Command::Serve {
            server,
            ca,
            keys,
            ledger,
            token_file,
            users,
            passphrase_file,
            verify,
            public,
            nats,
            waiting,
        } => {
            let open = |path: &PathBuf| Passphrase::open(path).with_context(|| path.display().to_string());
            let passphrase = passphrase_file.as_ref().map(open).transpose()?;
            let of_member =
                MemberKeys::open(&keys, passphrase.as_ref()).context(keys.display().to_string())?;
            let token = match (token_file, users) {
                (Some(path), _) => AccessToken::open(&path)?,
                (None, Some(path)) => token_of(&path)?,
                (None, None) => anyhow::bail!("--token-file or --users is missing"),
            };
            let client = match ca {
                Some(ca) => Client::with_ca(&server, &ca)?,
                None => Client::new(&server)?,
            };
            let ledger = Ledger::open(&ledger.unwrap_or_else(|| keys.with_extension("ledger")))?;
            let (shape, quorum) = (of_member.manifest().shape, of_member.quorum());
            let each = opened_nats(shape, quorum.threshold(), quorum.members());
            let ledger = ledger.with_most_opened((nats / each) as u64);
            let replica = replica(&of_member, verify, public.as_deref())?;
            serve(of_member, ledger, client.with_token(token), replica, waiting.into())
        }
    }
}

/// What a member checks.
#[derive(Clone, Copy)]
enum Verify {
    Structure,
    /// Replay of this share of the tasks.
    Replay(f64),
}

impl FromStr for Verify {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("sample=").map(str::parse)) {
            ("structure", _) => Ok(Verify::Structure),
            ("replay", _) => Ok(Verify::Replay(1.0)),
            (_, Some(Ok(share))) if share > 0.0 && share < 1.0 => Ok(Verify::Replay(share)),
            _ => Err("this is replay, structure, or sample=P with P between 0 and 1".into()),
        }
    }
}

fn replica(keys: &MemberKeys, verify: Verify, public: Option<&Path>) -> anyhow::Result<Option<Replica>> {
    let Verify::Replay(share) = verify else { return Ok(None) };
    let path = public.context("--public is missing: give the public bundle, or --verify structure")?;
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    let bundle = PublicBundle::read(BufReader::new(file)).with_context(|| path.display().to_string())?;
    let replica = Replica::new(keys, bundle, &mut os_rng()?)?;
    Ok(Some(if share < 1.0 { replica.sampled(share) } else { replica }))
}

fn token_of(path: &Path) -> anyhow::Result<AccessToken> {
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    Ok(UsersBundle::read(file).with_context(|| path.display().to_string())?.token)
}

fn hold_ceremony(features: usize, arms: usize, quorum: Quorum, out: &Path, toy: bool) -> anyhow::Result<()> {
    // No parameter set fits larger problems, and the power of two must not overflow.
    for (name, value) in [("--features", features), ("--arms", arms)] {
        ensure!((1..=256).contains(&value), "{name} {value}: this must be from 1 to 256");
    }
    host::undo_on_signals().context("listening for signals")?;
    let (start, mut rng) = (Instant::now(), os_rng()?);
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let ceremony = Ceremony { shape: Shape::for_problem(features, arms), quorum, toy, created };
    std::fs::create_dir(out).with_context(|| format!("cannot make the folder {}", out.display()))?;
    let path = |name: &str| out.join(name);
    let draft = |name: &str| Draft::create(&path(name)).with_context(|| path(name).display().to_string());
    let (public, users) = (draft("public.bundle")?, Draft::create_private(&path("users.bundle"))?);
    let members =
        ceremony::hold(ceremony, BufWriter::new(public.file()), users.file(), &mut rng, |done, all| {
            if done % 16 == 0 || done == all {
                // A terminal that is gone does not end the ceremony.
                let _ = writeln!(std::io::stderr(), "{done} of {all} keys");
            }
        })?;
    for keys in &members {
        let file = path(&format!("member-{}.keys", keys.member()));
        keys.save(&file, None, &mut rng).with_context(|| file.display().to_string())?;
    }
    users.finish()?;
    public.finish()?;
    let (t, n) = (quorum.threshold(), quorum.members());
    say!(
        "{t} of {n} members, in {:.1} s: public.bundle for the server, users.bundle for users, and",
        start.elapsed().as_secs_f64()
    );
    say!("member-1.keys to member-{n}.keys for one member each, in {}", out.display());
    if toy {
        say!("NO SECURITY: toy keys, for tests only");
    }
    Ok(())
}

fn serve(
    keys: MemberKeys,
    ledger: Ledger,
    client: Client,
    replica: Option<Replica>,
    waiting: usize,
) -> anyhow::Result<()> {
    // A log on a full disk must not end the program.
    let log = |line: &str| drop(writeln!(std::io::stderr(), "helba-member: {line}"));
    if client.shows_token() {
        log(&format!("the access token is sent to {} without encryption: use https", client.server()));
    }
    let (stop, mut rng) = (Stop::default(), os_rng()?);
    let member = Member::new(keys, ledger, client, stop.clone(), log).verifying(replica);
    until_signal(stop, move || member.run(waiting, &mut rng))??;
    log("stopped");
    Ok(())
}
