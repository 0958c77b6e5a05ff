//! `helba-member`: makes the keys of a committee, and answers a server with the share of one member.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "`say!` and `tell!` escape what others named")]

use anyhow::{Context, ensure};
use ckks::Hex;
use clap::{Args, Parser, Subcommand};
use helba_member::MemberKeys;
use helba_member::keygen::{
    self, Identity, Keygen, Old, Plan, Proposal, RemoteBoard, Reshare, Resharing, Store,
};
use helba_member::serve::{Ledger, Member, NextKeys, Replica};
use host::{say, tell};
use protocol::budget::OPENED_NATS;
use rand::Rng;
use service::{Connections, Tls, TlsArguments};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use user_client::{Client, Passphrase, ServerOptions, Stop, os_rng, until_signal};
use wire::{
    AccessToken, BundleKind, BundleReader, Custody, Manifest, MemberManifest, PublicBundle, PublicBytes,
    SignedHead, UsersBundle,
};
use zeroize::Zeroizing;

/// Makes the keys of a key committee, and answers a server as one of its members.
///
/// Any t of n members answer together, and t − 1 of them and the server learn nothing. Users have no secret.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Which run a member takes part in, and over which board.
#[derive(Debug, Args)]
struct RunArguments {
    /// The proposal.
    #[arg(long, value_name = "FILE")]
    proposal: PathBuf,
    /// File of this member's identity.
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// Address of the board, https://HOST:PORT or http://HOST:PORT.
    #[arg(long)]
    board: String,
    /// PEM file of the authorities that may sign the certificate of the board.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Seconds after which a member that sends nothing ends the run.
    #[arg(long, default_value_t = 600)]
    patience: u64,
}

#[derive(Subcommand)]
enum Command {
    /// A committee on shares: proposes one, makes its keys, and serves as one of its members.
    Shares {
        #[command(subcommand)]
        command: SharesCommand,
    },
    /// Makes the signing and the sealing secret of a member, and prints its public card.
    ///
    /// Each member runs it alone, and gives the card to whoever writes the proposal.
    Identity {
        /// New file for the secrets. Only its owner can read it.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Writes the proposal of a committee, which its members make keys for, or of the next epoch of one.
    ///
    /// All members need the same file. It holds no secret. Each run takes a new one.
    Propose {
        /// Number of features of an arm, d.
        #[arg(long, required_unless_present_any = ["reshare", "rotate"])]
        features: Option<usize>,
        /// Number of arms, K.
        #[arg(long, required_unless_present_any = ["reshare", "rotate"])]
        arms: Option<usize>,
        /// Public bundle of a committee whose shares are handed on to these members. Keys and bandits stay.
        #[arg(long, value_name = "BUNDLE", requires = "dealers", conflicts_with_all = ["features", "arms", "toy"])]
        reshare: Option<PathBuf>,
        /// Public bundle of a committee whose bandits go on under the new keys. Members make these as any
        /// others.
        #[arg(long, value_name = "BUNDLE", conflicts_with = "reshare")]
        rotate: Option<PathBuf>,
        /// The t members who hand their shares on, by their numbers, such as 1,3,4.
        #[arg(long, value_name = "NUMBERS", value_delimiter = ',', requires = "reshare")]
        dealers: Vec<u8>,
        /// t: how many members it takes to answer, at least 2 of 2t − 1 or more.
        #[arg(long)]
        threshold: u8,
        /// Files with the cards of the members 1 to n.
        #[arg(required = true, value_name = "CARD")]
        cards: Vec<PathBuf>,
        /// New file for the proposal.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Allows small keys without security, for tests.
        #[arg(long)]
        toy: bool,
    },
    /// Serves the board on which members leave messages while they make keys.
    ///
    /// It holds no secret, and takes messages of the members of the proposal alone. Run it until all members
    /// have their keys. Prints its address to stdout.
    Board {
        /// The proposal.
        #[arg(long, value_name = "FILE")]
        proposal: PathBuf,
        /// Folder of the messages, which a restart goes on with.
        #[arg(long, value_name = "FOLDER")]
        folder: PathBuf,
        /// Address to listen on.
        #[arg(long, default_value = "127.0.0.1:8090")]
        listen: String,
        #[command(flatten)]
        tls: TlsArguments,
        /// Makes a certificate for HTTPS in this folder, if there is none yet. It names localhost, 127.0.0.1,
        /// ::1 and every --host. Prints the file that members trust (`--ca`) to stderr.
        #[arg(long, value_name = "DIR")]
        tls_self_signed: Option<PathBuf>,
        /// Host name for the certificate of --tls-self-signed. It may be given several times.
        #[arg(long = "host", value_name = "NAME", requires = "tls_self_signed")]
        hosts: Vec<String>,
    },
    /// Makes keys with the other members of a proposal, as the member with this identity.
    ///
    /// It connects to the board and accepts no connection. If it is stopped, start it again with the same
    /// arguments. Compare the name of the run, which it prints, with the other members: they must not take it
    /// from the board.
    Keygen {
        #[command(flatten)]
        run: RunArguments,
        /// Folder for member.keys, member.ledger, public.bundle and users.bundle.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
        /// File whose first line is a passphrase. It seals the file of keys.
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
    },
    /// Hands shares on to the members of the next epoch, or takes them, or both, by the identity.
    ///
    /// It connects to the board and accepts no connection. If it is stopped, start it again with the same
    /// arguments. `serve` must not run with the old keys: their file is erased at the end, when all members
    /// of the next epoch have theirs. Compare the name of the run, which it prints, with the other members.
    Reshare {
        #[command(flatten)]
        run: RunArguments,
        /// Public bundle of the epoch that ends.
        #[arg(long, value_name = "FILE")]
        public: PathBuf,
        /// Users' bundle of the epoch that ends.
        #[arg(long, value_name = "FILE")]
        users: PathBuf,
        /// File of the keys of this member in the epoch that ends, if it has any.
        #[arg(long, value_name = "FILE")]
        keys: Option<PathBuf>,
        /// Ledger of these keys [default: their file with the extension `ledger`].
        #[arg(long, value_name = "FILE", requires = "keys")]
        ledger: Option<PathBuf>,
        /// Folder for member.keys, member.ledger, public.bundle and users.bundle of the next epoch.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
        /// File whose first line is the passphrase of the old and of the new keys.
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
        /// Gives up a run that does not end: the old keys are used again, and this member never takes part in
        /// this run. It is refused after this member has signed the next epoch.
        #[arg(long)]
        give_up: bool,
    },
    /// Prints the heads of journals that members have signed, and looks for two that contradict each other.
    ///
    /// Give it the ledger of a member, which must not serve meanwhile, and files of others: what this command
    /// printed elsewhere, or what a device was shown by `GET /v1/bandits/{id}`. It fails if somebody was
    /// shown another journal, and its output is then the evidence.
    Heads {
        /// The public bundle, whose members' signatures count.
        #[arg(long, value_name = "FILE")]
        public: PathBuf,
        /// Ledger of a member.
        #[arg(long, value_name = "FILE")]
        ledger: Option<PathBuf>,
        /// Files with heads.
        #[arg(value_name = "HEADS", required_unless_present = "ledger")]
        files: Vec<PathBuf>,
    },
    /// Answers the questions of a server as the member with these keys.
    ///
    /// It connects to the server and accepts no connection. Run each member on a machine of its own, and none
    /// on that of the server. Its log goes to stderr, with a line for each answer. Its token needs the scope
    /// `raise`.
    Serve {
        #[command(flatten)]
        server: ServerOptions,
        /// The keys of this member.
        #[arg(long, value_name = "FILE")]
        keys: PathBuf,
        /// What was answered, on disk [default: the file of the keys with the extension `ledger`]. Whoever
        /// loses it must not serve with these keys any more.
        #[arg(long, value_name = "FILE")]
        ledger: Option<PathBuf>,
        /// The users' bundle, whose token is taken in place of an API token.
        #[arg(long, value_name = "FILE", required_unless_present = "token_file")]
        users: Option<PathBuf>,
        /// File whose first line is the passphrase of the keys.
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
        /// What is checked before an answer: replay computes all again, sample=P does for a share P of the
        /// tasks and stops at the first deviation, structure checks the form of a question alone. Against a
        /// server that deviates from the protocol, structure does not help.
        #[arg(long, default_value = "replay", value_name = "replay|sample=P|structure")]
        verify: Verify,
        /// The public bundle, for replay and sample. The states of bandits that they lead to are kept beside
        /// the keys, in a folder with the extension `states`.
        #[arg(long, value_name = "FILE")]
        public: Option<PathBuf>,
        /// How much all answers of a key together may show of it, in nats (1 nat is 1.44 bits). Each answer
        /// shows a little; when its part is spent, this member answers no more, and the keys must be rotated.
        /// With 4 about as many decisions and models are answered as docs/committee.md lists; more allows
        /// more and protects less. All members take the same number.
        #[arg(long, default_value_t = OPENED_NATS)]
        nats: f64,
        /// Public bundle of a committee that follows this one, to whose keys bandits move when the server
        /// asks.
        #[arg(long, value_name = "BUNDLE")]
        next: Option<PathBuf>,
        /// Number of requests for questions that are kept open at the server. Each answers one question at a
        /// time, so that with 2 a question is received while another one is computed.
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
        waiting: u8,
    },
}

/// What a member of a committee on shares does.
#[derive(Subcommand)]
enum SharesCommand {
    /// Writes the proposal of a committee, which its members make keys for.
    ///
    /// All members need the same file. It holds no secret. Each key generation takes a new one.
    Propose {
        /// t: with t members somebody knows everything, with fewer nothing. 2t - 1 members must be here for
        /// every decision, so that there are from 2t - 1 to 3t - 2: 2 of 4 may miss one of them, 3 of 7 two,
        /// and 2 of 3 and 3 of 5 nobody.
        #[arg(long)]
        threshold: u8,
        /// Files with the cards of the members 1 to n, as `identity` prints them.
        #[arg(required = true, value_name = "CARD")]
        cards: Vec<PathBuf>,
        /// New file for the proposal.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Serves the board on which members leave messages while they make keys.
    ///
    /// It holds no secret, and takes messages of the members of the proposal alone. Run it until all members
    /// have their keys. Prints its address to stdout.
    Board {
        /// The proposal.
        #[arg(long, value_name = "FILE")]
        proposal: PathBuf,
        /// Address to listen on.
        #[arg(long, default_value = "127.0.0.1:8090")]
        listen: String,
        #[command(flatten)]
        tls: TlsArguments,
        /// Makes a certificate for HTTPS in this folder, if there is none yet. It names localhost, 127.0.0.1,
        /// ::1 and every --host. Prints the file that members trust (`--ca`) to stderr.
        #[arg(long, value_name = "DIR")]
        tls_self_signed: Option<PathBuf>,
        /// Host name for the certificate of --tls-self-signed. It may be given several times.
        #[arg(long = "host", value_name = "NAME", requires = "tls_self_signed")]
        hosts: Vec<String>,
    },
    /// Makes keys with the other members of a proposal, as the member with this identity.
    ///
    /// It connects to the board and accepts no connection. If it ends with an error, all begin again with a
    /// new proposal. Compare the committee's id, which it prints, with the other members.
    Keygen {
        #[command(flatten)]
        run: RunArguments,
        /// Folder for the keys, the committee's manifest, and what the member remembers.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Serves as the member with these keys.
    ///
    /// It connects to the server and accepts no connection. Run each member on a machine of its own, and none
    /// on that of the server. Never go on from a snapshot of its memory. Its token needs the scope `raise`.
    Serve {
        #[command(flatten)]
        server: ServerOptions,
        /// Folder of `keygen`.
        #[arg(long, value_name = "FOLDER")]
        keys: PathBuf,
        /// File of this member's identity.
        #[arg(long, value_name = "FILE")]
        identity: PathBuf,
        /// The folder of keys comes from a backup, or what the member remembers there is lost: it takes part
        /// once it has heard from n - t + 1 others. Give it once, at the first start after that.
        #[arg(long)]
        restored: bool,
    },
}

fn shares_command(command: SharesCommand) -> anyhow::Result<()> {
    use helba_member::shares::{Board, Served, make_keys, routes, serve};
    let open_proposal = |path: &Path| -> anyhow::Result<shares::Proposal> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        let proposal: shares::Proposal =
            serde_json::from_slice(&bytes).with_context(|| format!("{} is no proposal", path.display()))?;
        proposal.check().with_context(|| path.display().to_string())?;
        Ok(proposal)
    };
    match command {
        SharesCommand::Propose { threshold, cards, out } => {
            let card = |path: &PathBuf| -> anyhow::Result<shares::Card> {
                let json = std::fs::read(path).with_context(|| path.display().to_string())?;
                let card: MemberManifest = serde_json::from_slice(&json)
                    .with_context(|| format!("{} is no card of a member", path.display()))?;
                Ok(shares::Card { sealing: card.sealing.0, signing: card.verifying.0 })
            };
            let cards: Vec<shares::Card> = cards.iter().map(card).collect::<anyhow::Result<_>>()?;
            let members = u8::try_from(cards.len()).context("there are too many members")?;
            let threshold = shares::Threshold::new(threshold, members)?;
            let mut nonce = [0; 32];
            os_rng()?.fill_bytes(&mut nonce);
            let proposal = shares::Proposal { threshold, cards, follows: None, nonce };
            proposal.check()?;
            ensure!(!out.exists(), "{} exists already: each key generation takes a new one", out.display());
            host::write_whole(&out, &serde_json::to_vec(&proposal)?)
                .with_context(|| out.display().to_string())?;
            say!("proposal {}: {} of {members} members", Hex(&proposal.id()), threshold.t());
            Ok(())
        }
        SharesCommand::Board { proposal, listen, tls, tls_self_signed, hosts } => {
            let board = Arc::new(Board::new(open_proposal(&proposal)?));
            let own = tls_self_signed.as_deref().map(|folder| (folder, hosts.as_slice()));
            serve_board(&listen, &tls, own, routes(board))
        }
        SharesCommand::Keygen { run, out } => {
            host::undo_on_signals().context("listening for signals")?;
            let proposal = open_proposal(&run.proposal)?;
            say!("proposal {}", Hex(&proposal.id()));
            let client = client(&run.board, run.ca.as_deref())?;
            let identity = Identity::open(&run.identity)?;
            let (patience, start) = (Duration::from_secs(run.patience), Instant::now());
            let signed = make_keys(&proposal, &identity, &client, &out, patience)?;
            let seconds = start.elapsed().as_secs_f64();
            say!(
                "committee {} in {seconds:.1} s: keys and manifest in {}",
                Hex(&signed.manifest.id()),
                out.display()
            );
            Ok(())
        }
        SharesCommand::Serve { server, keys, identity, restored } => {
            let client = server.client(None, log)?;
            let served = Served::open(&keys, Identity::open(&identity)?, client, restored)?;
            log(&format!("member {} of committee {}", served.number(), Hex(served.committee())));
            let stop = Stop::default();
            let ordered = stop.clone();
            until_signal(stop, move || serve(served, &ordered, &log))??;
            log("stopped");
            Ok(())
        }
    }
}

fn main() -> ExitCode {
    host::exit("helba-member", run(Arguments::parse().command))
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Shares { command } => shares_command(command),
        Command::Identity { out } => make_identity(&out),
        Command::Propose { features, arms, reshare, rotate, dealers, threshold, cards, out, toy } => {
            let of_epoch = reshare.map(|bundle| resharing(&bundle, dealers)).transpose()?;
            let rotated = rotate.map(|bundle| manifest_of(&bundle)).transpose()?;
            let problem = (features.unwrap_or(0), arms.unwrap_or(0));
            propose(problem, (of_epoch, rotated), threshold, &cards, &out, toy)
        }
        Command::Board { proposal, folder, listen, tls, tls_self_signed, hosts } => {
            let own = tls_self_signed.as_deref().map(|folder| (folder, hosts.as_slice()));
            board(&proposal, &folder, &listen, &tls, own)
        }
        Command::Keygen { run, out, passphrase_file } => {
            let passphrase = open_passphrase(passphrase_file.as_deref())?;
            let client = client(&run.board, run.ca.as_deref())?;
            let patience = Duration::from_secs(run.patience);
            make_keys(&run.proposal, &run.identity, client, &out, passphrase.as_ref(), patience)
        }
        Command::Reshare { run: of_run, public, users, keys, ledger, out, passphrase_file, give_up } => {
            let passphrase = open_passphrase(passphrase_file.as_deref())?;
            let client = client(&of_run.board, of_run.ca.as_deref())?;
            let plan = Plan::new(Proposal::open(&of_run.proposal)?)?;
            let identity = Identity::open(&of_run.identity)?;
            // A run that was stopped after it had erased the old keys is over.
            let keys = keys.filter(|path| path.exists() || !out.join("reshare.memory").exists());
            let old = keys.as_deref().map(|path| open_old(path, ledger, passphrase.as_ref())).transpose()?;
            let run = Reshare {
                plan: &plan,
                identity: &identity,
                public: &public,
                users: &users,
                folder: &out,
                passphrase: passphrase.as_ref(),
                patience: Duration::from_secs(of_run.patience),
                log: &log,
            };
            if give_up {
                return Ok(run.give_up(old)?);
            }
            reshare(&run, client, old)
        }
        Command::Heads { public, ledger, files } => heads(&public, ledger.as_deref(), &files),
        Command::Serve {
            server,
            keys,
            ledger,
            users,
            passphrase_file,
            verify,
            public,
            nats,
            next,
            waiting,
        } => {
            let passphrase = open_passphrase(passphrase_file.as_deref())?;
            let of_member =
                MemberKeys::open(&keys, passphrase.as_ref()).context(keys.display().to_string())?;
            let token = users.as_deref().map(token_of).transpose()?;
            let client = server.client(token, log)?;
            let ledger = Ledger::open(&ledger.unwrap_or_else(|| keys.with_extension("ledger")))?;
            let ledger = ledger.with_budget(of_member.budget(nats));
            let replica = replica(&of_member, verify, public.as_deref())?;
            let replica = replica.map(|replica| replica.with_states(keys.with_extension("states")));
            let next = next.as_deref().map(open_public).transpose()?;
            let next = next.map(|bundle| NextKeys::new(&of_member, bundle)).transpose()?;
            serve(of_member, ledger, client, (replica, next), waiting.into())
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
    let replica = Replica::new(keys, open_public(path)?, &mut os_rng()?)?;
    Ok(Some(if share < 1.0 { replica.sampled(share) } else { replica }))
}

fn open_public(path: &Path) -> anyhow::Result<PublicBundle> {
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    PublicBundle::read(BufReader::new(file)).with_context(|| path.display().to_string())
}

/// The signed heads of a ledger and of files. An error if two of them contradict each other.
fn heads(public: &Path, ledger: Option<&Path>, files: &[PathBuf]) -> anyhow::Result<()> {
    let Custody::Committee(committee) = manifest_of(public)?.custody else {
        anyhow::bail!("{} has no key committee", public.display());
    };
    let own = ledger.map(|path| {
        ensure!(path.exists(), "{} does not exist", path.display());
        Ok(Ledger::open(path)?.heads()?)
    });
    let mut heads: Vec<SignedHead> = own.transpose()?.unwrap_or_default();
    for path in files {
        let read = || {
            let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path)?)?;
            let list = json.get("heads").unwrap_or(&json).clone();
            anyhow::Ok(serde_json::from_value::<Vec<SignedHead>>(list)?)
        };
        heads.extend(read().with_context(|| format!("{} has no heads", path.display()))?);
    }
    heads.retain(|head| head.check(&committee).is_ok());
    say!("{}", serde_json::to_string_pretty(&heads)?);
    let forks = wire::forks(&committee, &heads);
    for (one, other) in &forks {
        let (bandit, a, b) = (&one.bandit, one.member, other.member);
        log(&format!(
            "bandit {bandit}: member {a} has signed {} after batch {}, and member {b} {} after batch {}",
            ckks::Hex(&one.hash.0),
            one.batch,
            ckks::Hex(&other.hash.0),
            other.batch
        ));
    }
    ensure!(forks.is_empty(), "two journals: the heads above contradict each other");
    Ok(())
}

fn token_of(path: &Path) -> anyhow::Result<AccessToken> {
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    Ok(UsersBundle::read(file).with_context(|| path.display().to_string())?.token)
}

fn open_passphrase(path: Option<&Path>) -> anyhow::Result<Option<Passphrase>> {
    path.map(|path| Passphrase::open(path).with_context(|| path.display().to_string())).transpose()
}

fn client(server: &str, ca: Option<&Path>) -> anyhow::Result<Client> {
    Ok(match ca {
        Some(ca) => Client::with_ca(server, ca)?,
        None => Client::new(server)?,
    })
}

fn make_identity(out: &Path) -> anyhow::Result<()> {
    let identity = Identity::generate(&mut os_rng()?);
    identity.save(out)?;
    say!("{}", serde_json::to_string(&identity.card())?);
    Ok(())
}

/// The epoch of a public bundle, whose members `dealers` hand their shares on.
fn resharing(bundle: &Path, dealers: Vec<u8>) -> anyhow::Result<Box<Resharing>> {
    Ok(Box::new(Resharing { before: manifest_of(bundle)?, dealers }))
}

/// The manifest of a public bundle.
fn manifest_of(bundle: &Path) -> anyhow::Result<Manifest> {
    let file = std::fs::File::open(bundle).with_context(|| bundle.display().to_string())?;
    let reader = BundleReader::of_kind(BundleKind::Public, BufReader::new(file));
    Ok(reader.with_context(|| bundle.display().to_string())?.manifest().clone())
}

fn propose(
    (features, arms): (usize, usize),
    (resharing, rotated): (Option<Box<Resharing>>, Option<Manifest>),
    threshold: u8,
    cards: &[PathBuf],
    out: &Path,
    toy: bool,
) -> anyhow::Result<()> {
    let card = |path: &PathBuf| -> anyhow::Result<MemberManifest> {
        let json = std::fs::read(path).with_context(|| path.display().to_string())?;
        serde_json::from_slice(&json).with_context(|| format!("{} is no card of a member", path.display()))
    };
    let mut nonce = vec![0; 32];
    os_rng()?.fill_bytes(&mut nonce);
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let members = cards.iter().map(card).collect::<anyhow::Result<_>>()?;
    let nonce = PublicBytes(nonce);
    let follows = rotated.as_ref().map(Manifest::as_followed).transpose()?.map(Box::new);
    let before = resharing.as_deref().map(|resharing| &resharing.before).or(rotated.as_ref());
    let (features, arms, toy) = match before {
        Some(before) => (before.shape.dim, before.shape.arm_slots, before.security_bits == 0),
        None => (features, arms, toy),
    };
    let proposal = Proposal { features, arms, threshold, toy, created, nonce, members, resharing, follows };
    let plan = Plan::new(proposal.clone())?;
    ensure!(!out.exists(), "{} exists already: each run takes a new proposal", out.display());
    host::write_whole(out, &serde_json::to_vec(&proposal)?).with_context(|| out.display().to_string())?;
    say!("run {}: {threshold} of {} members", Hex(&plan.session().0), cards.len());
    if toy {
        say!("NO SECURITY: toy keys, for tests only");
    }
    Ok(())
}

fn board(
    proposal: &Path,
    folder: &Path,
    address: &str,
    tls: &TlsArguments,
    own: Option<(&Path, &[String])>,
) -> anyhow::Result<()> {
    let plan = Plan::new(Proposal::open(proposal)?)?;
    let members = plan.quorum().members();
    let store = Arc::new(Store::open(plan, folder)?);
    let of_store = store.clone();
    serve_board(address, tls, own, keygen::routes(of_store))?;
    (1..=members).for_each(|member| log(&format!("member {member} left {} bytes", store.bytes_of(member))));
    Ok(())
}

fn serve_board(
    address: &str,
    tls: &TlsArguments,
    own: Option<(&Path, &[String])>,
    routes: axum::Router,
) -> anyhow::Result<()> {
    host::outlive_hangups().context("listening for signals")?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?;
        let address = listener.local_addr()?;
        tls.check(address, own.is_some())?;
        let tls = tls.open(own, log)?;
        if let Some(authority) = tls.as_ref().and_then(Tls::authority) {
            log(&authority.to_string());
        }
        say!("listening on {address}");
        let stop = async {
            if host::stop_signal().await.is_err() {
                std::future::pending().await
            }
        };
        service::serve_tls(listener, tls, routes, Connections::default(), stop).await;
        Ok::<_, anyhow::Error>(())
    })
}

fn make_keys(
    proposal: &Path,
    identity: &Path,
    client: Client,
    folder: &Path,
    passphrase: Option<&Passphrase>,
    patience: Duration,
) -> anyhow::Result<()> {
    host::undo_on_signals().context("listening for signals")?;
    let (start, mut seed) = (Instant::now(), Zeroizing::new([0; 32]));
    os_rng()?.fill_bytes(&mut *seed);
    let (plan, identity) = (Plan::new(Proposal::open(proposal)?)?, Identity::open(identity)?);
    say!("run {}", Hex(&plan.session().0));
    let board = RemoteBoard::new(client, &plan);
    let run = Keygen { plan: &plan, identity: &identity, folder, passphrase, patience, log: &log };
    let manifest = run.run(&board, seed)?;
    let (seconds, folder) = (start.elapsed().as_secs_f64(), folder.display());
    say!(
        "key {} in {seconds:.1} s: member.keys, member.ledger, public.bundle and users.bundle in {folder}",
        manifest.key_id
    );
    Ok(())
}

fn open_old<'a>(
    path: &'a Path,
    ledger: Option<PathBuf>,
    passphrase: Option<&Passphrase>,
) -> anyhow::Result<Old<'a>> {
    let keys = MemberKeys::open(path, passphrase).with_context(|| path.display().to_string())?;
    let ledger = Ledger::open(&ledger.unwrap_or_else(|| path.with_extension("ledger")))?;
    Ok(Old { keys, path, ledger })
}

fn reshare(run: &Reshare, client: Client, old: Option<Old>) -> anyhow::Result<()> {
    host::undo_on_signals().context("listening for signals")?;
    let (start, mut seed) = (Instant::now(), Zeroizing::new([0; 32]));
    os_rng()?.fill_bytes(&mut *seed);
    say!("run {}", Hex(&run.plan.session().0));
    let board = RemoteBoard::new(client, run.plan);
    let manifest = run.run(&board, old, seed)?;
    let (seconds, epoch) = (
        start.elapsed().as_secs_f64(),
        match &manifest.custody {
            Custody::Committee(committee) => committee.epoch(),
            Custody::Holder => 0,
        },
    );
    say!("epoch {epoch} of key {} in {seconds:.1} s", manifest.key_id);
    Ok(())
}

/// Writes a line of the log. A log on a full disk must not end the program.
fn log(line: &str) {
    tell!("helba-member: {line}");
}

fn serve(
    keys: MemberKeys,
    ledger: Ledger,
    client: Client,
    (replica, next): (Option<Replica>, Option<NextKeys>),
    waiting: usize,
) -> anyhow::Result<()> {
    let (stop, mut rng) = (Stop::default(), os_rng()?);
    let member = Member::new(keys, ledger, client, stop.clone(), log).verifying(replica).moving_to(next);
    until_signal(stop, move || member.run(waiting, &mut rng))??;
    log("stopped");
    Ok(())
}
