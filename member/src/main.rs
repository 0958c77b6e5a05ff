//! `helba-member`: makes the keys of a committee with the other members, and serves as one of them.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "`say!` and `tell!` escape what others named")]

use anyhow::{Context, ensure};
use ckks::Hex;
use clap::{Args, Parser, Subcommand};
use helba_member::{Board, Identity, Served, card_from_json, card_to_json, make_keys, routes, serve};
use host::{say, tell};
use rand::Rng;
use service::{Connections, Tls, TlsArguments};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use user_client::{Client, ServerOptions, Stop, os_rng, until_signal};

/// Makes the keys of a committee with the other members, and serves as one of them.
///
/// Any t of the n members together can learn everything, fewer than t nothing but counters. Users hold no key
/// of the committee. A member whose keys are lost never serves again: keep a copy of them.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The key generation in which a member takes part, and its board.
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
    /// Seconds after which the key generation ends with an error if a member has not sent all its messages.
    #[arg(long, default_value_t = 600)]
    patience: u64,
}

#[derive(Subcommand)]
enum Command {
    /// Makes the signing and the sealing secret of a member, and prints its public card.
    ///
    /// Each member runs it alone, and gives the card to whoever writes the proposal.
    Identity {
        /// New file for the secrets. Only its owner can read it.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Writes the proposal of a committee: its threshold and its members, who then make keys for it.
    ///
    /// All members need the same file. It holds no secret. Each key generation takes a new one.
    Propose {
        /// t: any t members together can learn everything. A committee has from 2t - 1 to 3t - 2 members, and
        /// 2t - 1 of them must be here for every decision: of 4 members with t = 2 one may be away, of 7 with
        /// t = 3 two, and none of 3 with t = 2 or of 5 with t = 3.
        #[arg(long)]
        threshold: u8,
        /// Manifest of the committee whose bandits this one takes over: to replace members, to change the
        /// threshold, or to draw new keys.
        #[arg(long, value_name = "FILE")]
        follows: Option<PathBuf>,
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
        /// Folder for the keys, the committee's manifest, and what the member remembers. Keep a copy of
        /// member.shares, committee.manifest and the identity.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Serves as the member with these keys.
    ///
    /// It connects to the server and accepts no connection. Run each member on a machine of its own, and none
    /// on that of the server. Its clock must be within 300 s of the server's, and its token needs the scope
    /// `raise`. Never resume the machine from a snapshot of its memory.
    Serve {
        #[command(flatten)]
        server: ServerOptions,
        /// Folder of `keygen`.
        #[arg(long, value_name = "FOLDER")]
        keys: PathBuf,
        /// File of this member's identity.
        #[arg(long, value_name = "FILE")]
        identity: PathBuf,
        /// Give this once, at the first start after the folder of keys came from a backup, or after what the
        /// member remembers there was lost. The member takes part once it has heard from n - t + 1 others.
        #[arg(long)]
        restored: bool,
        /// Manifest of the committee to which this one moves: the member computes nothing more, deals its
        /// shares of all models to the members of that committee, and leaves once they have taken over. The
        /// bandits go on there when 2t - 1 have left. Until it has left, start it without this option to
        /// take it back.
        #[arg(long, value_name = "FILE")]
        leaves_for: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    host::exit("helba-member", run(Arguments::parse().command))
}

fn run(command: Command) -> anyhow::Result<()> {
    let open_proposal = |path: &Path| -> anyhow::Result<shares::Proposal> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        let proposal: shares::Proposal =
            serde_json::from_slice(&bytes).with_context(|| format!("{} is no proposal", path.display()))?;
        proposal.check().with_context(|| path.display().to_string())?;
        Ok(proposal)
    };
    match command {
        Command::Propose { threshold, follows, cards, out } => {
            let card = |path: &PathBuf| -> anyhow::Result<shares::Card> {
                let json = std::fs::read(path).with_context(|| path.display().to_string())?;
                card_from_json(&json).with_context(|| format!("{} is no card of a member", path.display()))
            };
            let cards: Vec<shares::Card> = cards.iter().map(card).collect::<anyhow::Result<_>>()?;
            let members = u8::try_from(cards.len()).context("there are too many members")?;
            let threshold = shares::Threshold::new(threshold, members)?;
            let mut nonce = [0; 32];
            os_rng()?.fill_bytes(&mut nonce);
            let follows = follows.as_deref().map(open_manifest).transpose()?.map(|of| of.id());
            let proposal = shares::Proposal { threshold, cards, follows, nonce };
            proposal.check()?;
            ensure!(!out.exists(), "{} exists already: each key generation takes a new one", out.display());
            host::write_whole(&out, &serde_json::to_vec(&proposal)?)
                .with_context(|| out.display().to_string())?;
            say!("proposal {}: {} of {members} members", Hex(&proposal.id()), threshold.t());
            if let Some(follows) = proposal.follows {
                say!("follows committee {}", Hex(&follows));
            }
            Ok(())
        }
        Command::Board { proposal, listen, tls, tls_self_signed, hosts } => {
            let board = Arc::new(Board::new(open_proposal(&proposal)?));
            let own = tls_self_signed.as_deref().map(|folder| (folder, hosts.as_slice()));
            serve_board(&listen, &tls, own, routes(board))
        }
        Command::Keygen { run, out } => {
            host::undo_on_signals().context("listening for signals")?;
            let proposal = open_proposal(&run.proposal)?;
            say!("proposal {}", Hex(&proposal.id()));
            if let Some(follows) = proposal.follows {
                say!("follows committee {}", Hex(&follows));
            }
            let client = client(&run.board, run.ca.as_deref())?;
            let identity = open_identity(&run.identity)?;
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
        Command::Serve { server, keys, identity, restored, leaves_for } => {
            let client = server.client(None, log)?;
            let mut served = Served::open(&keys, open_identity(&identity)?, client, restored)?;
            if let Some(next) = leaves_for {
                let next = open_manifest(&next)?;
                log(&format!("leaves for committee {}", Hex(&next.id())));
                served = served.leaving_for(&next)?;
            }
            log(&format!("member {} of committee {}", served.number(), Hex(served.committee())));
            let stop = Stop::default();
            let ordered = stop.clone();
            until_signal(stop, move || serve(served, &ordered, &log))??;
            log("stopped");
            Ok(())
        }
        Command::Identity { out } => make_identity(&out),
    }
}

fn client(server: &str, ca: Option<&Path>) -> anyhow::Result<Client> {
    Ok(match ca {
        Some(ca) => Client::with_ca(server, ca)?,
        None => Client::new(server)?,
    })
}

fn open_identity(path: &Path) -> anyhow::Result<Identity> {
    Identity::open(path).with_context(|| path.display().to_string())
}

fn open_manifest(path: &Path) -> anyhow::Result<shares::SignedManifest> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    shares::SignedManifest::from_bytes(&bytes).with_context(|| path.display().to_string())
}

fn make_identity(out: &Path) -> anyhow::Result<()> {
    let identity = Identity::generate(&mut os_rng()?);
    identity.save(out).with_context(|| out.display().to_string())?;
    say!("{}", card_to_json(&identity.card()));
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

/// Writes a line of the log. A log on a full disk must not end the program.
fn log(line: &str) {
    tell!("helba-member: {line}");
}
