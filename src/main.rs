//! `helba-server`: the program reads its arguments, sets up the log and serves.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "`say!` and `tell!` escape what others named")]

use anyhow::{Context, Result, anyhow, bail};
use ckks::Security;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};
use helba_server::{
    ApiToken, AppState, Connections, NewToken, RemovedUsersList, Scope, Settings, Tls, TlsArguments,
    TokensFile, app, printable,
};
use host::{Hangups, tell};
use planner::Problem;
use protocol::Shape;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use wire::{BundleKind, BundleReader, Manifest, PaperKeys, PublicBundle};

/// After a signal, requests that are being answered get this time.
const GRACE: Duration = Duration::from_secs(30);
/// What `check` predicts of without keys.
const UNKNOWN_PROBLEM: Shape = Shape { dim: 8, arm_slots: 8 };

/// Serves contextual bandits on encrypted contexts and rewards, and bandits with clear policies.
///
/// The log goes to stderr, and RUST_LOG sets its level. On an address that other machines reach, the server
/// needs tokens (`token create`, or --operator-token-file) and HTTPS (--tls-certificate and --tls-key, or
/// --tls-self-signed).
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    arguments: Option<Arguments>,
    // Within optional options, clap takes no others.
    #[command(flatten)]
    tls: TlsArguments,
}

#[derive(Subcommand)]
enum Command {
    /// Says which kernels run on this machine and why, and what a decision takes with them and with others.
    /// Starts no server.
    Check {
        /// Public key bundle: its largest problem is the one whose decisions are meant, without it d = 8 and
        /// K = 8.
        #[arg(long, value_name = "FILE")]
        keys: Option<PathBuf>,
        /// One JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Creates, lists and revokes API tokens, also while the server runs: it reads their file again when it
    /// has changed. Once there is one, requests without a token are refused, except for GET /v1/health and
    /// the description of the routes.
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Removes users with keys of their own, and lists those who were removed, also while the server runs.
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Replays the logs of encrypted bandits, and says whether each agrees with its snapshot. The server must
    /// be stopped. Nothing is changed. Fails if a bandit does not agree.
    Audit {
        /// Public key bundle of the server.
        #[arg(long, value_name = "FILE")]
        keys: PathBuf,
        /// Folder for the state of the bandits.
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
        /// This bandit alone.
        #[arg(long, value_name = "ID")]
        bandit: Option<String>,
        /// One JSON object a line instead of text.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Subcommand)]
enum UserCommand {
    /// Removes users: their next requests are refused, until the owner of the keys enrols them again. Give
    /// the list to the owner's raiser too (`helba-raiser --removed`), which then makes no answers for them
    /// whatever a server asks for.
    Remove {
        /// Folder for the state of the bandits.
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
        /// Names of the users, by which they were enrolled.
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Prints the list of removed users as JSON: names, and seconds since 1970.
    List {
        /// Folder for the state of the bandits.
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
    },
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Creates a token and prints it, once: the server keeps its digest only.
    Create {
        /// Folder for the state of the bandits.
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
        /// Name of the token, by which it is revoked.
        #[arg(long)]
        name: String,
        /// What the token permits, separated by commas: `decide`, `feedback`, `raise`, or `admin`, which
        /// permits everything.
        #[arg(long, value_name = "SCOPES", value_delimiter = ',', required = true)]
        scope: Vec<Scope>,
        /// Id of the only bandit that the token is for [default: all bandits].
        #[arg(long, value_name = "ID")]
        bandit: Option<String>,
        /// Time after which the token is refused, such as 90d or 12h [default: never].
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        expires: Option<Duration>,
        /// New file for the token, which only its owner can read, instead of stdout.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Lists the tokens: name, scopes, bandit, and when they expire. Nobody can print the tokens themselves.
    List {
        /// Folder for the state of the bandits.
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
        /// One JSON object a line instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Revokes a token: the next request with it is refused.
    Revoke {
        /// Folder for the state of the bandits.
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
        /// Name of the token.
        name: String,
    },
}

#[derive(Args)]
struct Arguments {
    /// Public key bundle, as `helba-keygen create --public FILE` writes it. Without it, the server serves
    /// clear policies only.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Manifest of a committee, as its members have made it. The server carries their messages, and
    /// serves their bandits beside those of --keys and clear policies.
    #[arg(long, value_name = "FILE")]
    committee: Option<PathBuf>,
    /// Manifest of the committee to which that of --committee moves, when its members are started with
    /// --leaves-for. Once it has moved, start the server with this as --committee.
    #[arg(long, value_name = "FILE", requires = "committee")]
    next_committee: Option<PathBuf>,
    /// Accepts a bundle of toy keys, which protect nothing. For tests.
    #[arg(long)]
    toy: bool,
    /// Folder for the state of the bandits. It is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Address and port to listen on. Port 0 selects a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// The most requests that are computed at a time. Further requests are answered 503.
    ///
    /// [range: at least 1]
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_in_flight, value_parser = at_least_one())]
    max_in_flight: usize,
    /// The most bandits.
    ///
    /// [range: at least 1]
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_bandits, value_parser = at_least_one())]
    max_bandits: usize,
    /// File with the operator's token, 64 hexadecimal digits (`helba-keygen token FILE` generates one), which
    /// permits everything. With it, requests without a token are refused, except for GET /v1/health and
    /// the description of the routes. It is read again on SIGHUP.
    #[arg(long, value_name = "FILE")]
    operator_token_file: Option<PathBuf>,
    /// Accepts an address that other machines reach without any token of the operator's. Everybody who
    /// reaches it can then use clear policies.
    #[arg(long)]
    open: bool,
    /// Makes a certificate for HTTPS in the folder `tls` of the state folder, if there is none yet. It names
    /// localhost, 127.0.0.1, ::1 and every --host. Prints the file that devices trust (`--ca`) to stderr.
    #[arg(long)]
    tls_self_signed: bool,
    /// Memory for request bodies above 64 KiB. A request whose body does not fit is answered 503.
    ///
    /// [range: at least 1]
    #[arg(long, value_name = "MIB", default_value_t = Settings::default().body_memory >> 20, value_parser = at_least_one())]
    max_body_memory: usize,
    /// The most open connections. For one more, the connection that has waited longest for a request is
    /// closed.
    ///
    /// [range: at least 1]
    #[arg(long, value_name = "N", default_value_t = Connections::default().most, value_parser = at_least_one())]
    max_connections: usize,
    /// The most open connections from one address. All connections through a proxy have the address of the
    /// proxy.
    ///
    /// [range: at least 1]
    #[arg(long, value_name = "N", default_value_t = Connections::default().most_an_address, value_parser = at_least_one())]
    max_connections_an_address: usize,
    /// Seconds after which a decision of a clear policy without feedback expires, if the bandit was created
    /// without `wait`. It then counts as the default reward of the bandit, or is left out.
    ///
    /// [range: 1 to 2592000]
    #[arg(long, value_name = "SECONDS", default_value_t = Settings::default().wait.as_secs(), value_parser = clap::value_parser!(u64).range(1..=2_592_000))]
    wait: u64,
    /// The most users who wait for encrypted decisions. Further ones are answered 503.
    ///
    /// [range: at least 1]
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_waiting, value_parser = at_least_one())]
    max_waiting: usize,
    /// Seconds after which encrypted decisions are answered 503 if no holder of the key has raised their
    /// scores.
    ///
    /// [range: at least 1]
    #[arg(long, value_name = "SECONDS", default_value_t = Settings::default().raise_timeout.as_secs(), value_parser = clap::value_parser!(u64).range(1..))]
    raise_timeout: u64,
    /// Seconds that the members of a committee have for an answer, after which they count as away.
    ///
    /// [range: at least 1]
    #[arg(long, value_name = "SECONDS", default_value_t = Settings::default().member_patience.as_secs(), value_parser = clap::value_parser!(u64).range(1..))]
    member_patience: u64,
    /// Memory for contexts of encrypted decisions, so that evaluations can be repeated whose users ask again.
    /// Evaluations whose contexts do not fit are not repeated.
    ///
    /// [range: at least 0]
    #[arg(long, value_name = "MIB", default_value_t = Settings::default().context_memory >> 20)]
    max_context_memory: usize,
    /// Keeps the whole logs of encrypted bandits that are created from now on, so that `audit` can replay
    /// them. Without it, records are removed once a snapshot contains them.
    #[arg(long)]
    keep_log: bool,
    /// Host name of this server, such as that of its proxy. It may be given several times. Requests for
    /// loopback addresses and localhost are always answered. Without it, requests for any host are answered,
    /// unless --listen is a loopback address.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Origin whose pages may send requests, such as https://shop.example: scheme, host and port as a browser
    /// writes them, without a wildcard. It may be given several times. Pages of other origins than these and
    /// of the server's own are refused. Every script of a listed origin can use what needs no token, and any
    /// token that a visitor gives it.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    cors_origins: Vec<service::Origin>,
    /// The state folder was restored from a backup. Give this flag once, at the first start after that.
    /// Rewards in the folder may have been released since the backup, so that bandits with a privacy
    /// guarantee start again without their data, and keep the budget that they have spent.
    #[arg(long)]
    restored: bool,
    /// Number of threads that compute [default: one per core].
    ///
    /// [range: at least 0]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
}

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn main() -> ExitCode {
    let Program { command, arguments, tls } = Program::parse();
    let level = std::env::var("RUST_LOG").ok().and_then(|level| level.parse::<Targets>().ok());
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // A log on a full disk must not make requests fail.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    let level = level.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    tracing_subscriber::registry().with(log).with(level).init();
    let done = match (command, arguments) {
        (Some(Command::Check { keys, json }), _) => check(keys.as_deref(), json),
        (Some(Command::Token { command }), _) => token(command),
        (Some(Command::User { command }), _) => user(command),
        (Some(Command::Audit { keys, state, bandit, json }), _) => {
            audit(&keys, &state, bandit.as_deref(), json)
        }
        (None, Some(arguments)) => start(arguments, &tls),
        (None, None) => Err(anyhow!("--state is missing: the folder for the state of bandits")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("error: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes in one line. A cause whose text an earlier part contains is left out.
fn sentence(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(|e| e.to_string())
        .reduce(|said, next| if said.contains(&next) { said } else { said + ": " + &next })
        .unwrap_or_default()
}

/// Prints the kernels of this machine, the reason for the choice, and predictions for each.
fn check(keys: Option<&Path>, json: bool) -> Result<()> {
    let open = |path: &Path| -> Result<Problem> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let bundle = BundleReader::of_kind(BundleKind::Public, file)
            .with_context(|| format!("cannot use {}", path.display()))?;
        Ok(largest(bundle.manifest())?)
    };
    let Shape { dim, arm_slots } = UNKNOWN_PROBLEM;
    let unknown = Problem::new(dim, arm_slots, 1, Security::Classical128);
    let problem = keys.map(open).transpose()?.unwrap_or(unknown);
    let (dim, arm_slots, report) = (problem.features, problem.arms, planner::plan(problem)?);
    let choice = planner::kernel_choice();
    let mut out = std::io::stdout();
    if json {
        let json = serde_json::json!({
            "kernel": planner::kernels().to_string(), "why": choice, "features": dim, "arms": arm_slots,
            "kernels": report.kernels,
        });
        return writeln!(out, "{json}").context("writing to stdout");
    }
    let outlook = report.kernel_outlook(rayon::current_num_threads());
    writeln!(out, "{choice}\nd = {dim}, K = {arm_slots}: {outlook}").context("writing to stdout")
}

/// The largest problem that the keys of a bundle carry.
fn largest(manifest: &Manifest) -> Result<Problem, wire::Error> {
    let (Shape { dim, arm_slots }, security) = (manifest.shape, manifest.security()?);
    let problem = Problem { width: manifest.width, ..Problem::new(dim, arm_slots, 1, security) };
    Ok(problem.with_keys(manifest.updates, manifest.exchanges))
}

/// Changes or prints the API tokens of a state folder.
fn token(command: TokenCommand) -> Result<()> {
    match command {
        TokenCommand::Create { state, name, scope, bandit, expires, out } => {
            let file = TokensFile::of(&state);
            // Before the token exists, so that none is lost.
            let create = |path: &PathBuf| {
                let new = host::private_file().write(true).create_new(true).open(path);
                new.with_context(|| format!("cannot create {}", path.display()))
            };
            let opened = out.as_ref().map(create).transpose()?;
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let expires = expires.map(|after| now.saturating_add(after).as_secs());
            let new = NewToken { name, scopes: scope, bandit, expires };
            let token = host::os_rng().map_err(Into::into).and_then(|mut rng| file.create(new, &mut rng));
            match (opened, token) {
                (Some(mut file), Ok(token)) => writeln!(file, "{}", *token.to_hex())
                    .and_then(|()| file.sync_all())
                    .context("writing the token"),
                (None, Ok(token)) => {
                    writeln!(std::io::stdout(), "{}", *token.to_hex()).context("writing to stdout")
                }
                (_, Err(error)) => {
                    // Empty, and in the way of the next try.
                    if let Some(path) = out {
                        let _ = std::fs::remove_file(path);
                    }
                    Err(error.into())
                }
            }
        }
        TokenCommand::List { state, json } => {
            let mut out = std::io::stdout();
            for token in TokensFile::of(&state).list()? {
                let line = if json { serde_json::to_string(&token)? } else { described(&token) };
                writeln!(out, "{line}").context("writing to stdout")?;
            }
            Ok(())
        }
        TokenCommand::Revoke { state, name } => Ok(TokensFile::of(&state).revoke(&name)?),
    }
}

/// Changes or prints the list of removed users of a state folder.
fn user(command: UserCommand) -> Result<()> {
    match command {
        UserCommand::Remove { state, names } => {
            Ok(RemovedUsersList::of(&state).remove(names.iter().map(String::as_str))?)
        }
        UserCommand::List { state } => {
            let json = RemovedUsersList::of(&state).read()?.to_json();
            std::io::stdout().write_all(&json).context("writing to stdout")
        }
    }
}

/// The line of a token in the list.
fn described(token: &ApiToken) -> String {
    let time = |seconds: u64| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    let time =
        |seconds| time(seconds).map_or("never".into(), |t| humantime::format_rfc3339_seconds(t).to_string());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let end = match token.expires {
        Some(seconds) if token.is_expired(now) => format!("expired {}", time(seconds)),
        Some(seconds) => format!("expires {}", time(seconds)),
        None => "never expires".into(),
    };
    let about = token.bandit.as_deref().map_or("all bandits".into(), |id| format!("bandit {id}"));
    format!("{}  {}  {about}  {end}", token.name, token.scopes_text())
}

/// Prints a line for each bandit.
fn audit(keys: &Path, state: &Path, bandit: Option<&str>, json: bool) -> Result<()> {
    let bundle = open_bundle(keys)?;
    let results = helba_server::audit(bundle, state, bandit)?;
    let mut out = std::io::stdout();
    for (id, result) in &results {
        let line = match (result, json) {
            (Ok(found), true) => serde_json::json!({
                "bandit": id, "agrees": true, "records": found.records, "feedbacks": found.feedbacks,
                "state": hex(&found.state), "since_creation": found.since_creation, "torn": found.torn,
            })
            .to_string(),
            (Err(error), true) => {
                serde_json::json!({ "bandit": id, "agrees": false, "error": error.to_string() }).to_string()
            }
            (Ok(found), false) => {
                let since = if found.since_creation { "its creation" } else { "its last snapshot" };
                format!(
                    "{id}: agrees since {since}: {} records, {} feedbacks, state {}",
                    found.records,
                    found.feedbacks,
                    hex(&found.state)
                )
            }
            (Err(error), false) => format!("{id}: does not agree: {error}"),
        };
        writeln!(out, "{line}").context("writing to stdout")?;
    }
    match results.iter().filter(|(_, result)| result.is_err()).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} bandits do not agree with their logs", results.len()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open_bundle(keys: &Path) -> Result<PublicBundle> {
    PublicBundle::open(keys).with_context(|| not_keys(keys))
}

fn not_keys(keys: &Path) -> String {
    format!("--keys {} must be a file that `helba-keygen create --public` wrote", keys.display())
}

fn start(arguments: Arguments, tls: &TlsArguments) -> Result<()> {
    host::outlive_hangups().context("listening for signals")?;
    rayon::ThreadPoolBuilder::new()
        .num_threads(arguments.threads)
        .build_global()
        .context("starting threads")?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let served = runtime.block_on(serve(arguments, tls));
    // A batch update that still runs is stored as due, and runs again after the next start.
    runtime.shutdown_background();
    served
}

/// Refuses text that is not an address and a port. Whether the address exists shows when it is bound.
fn check_address(given: &str) -> Result<()> {
    let split = given.rsplit_once(':');
    if split.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
        return Ok(());
    }
    let port = given.trim_start_matches(':').parse::<u16>().unwrap_or(8080);
    bail!("--listen {given}: this must be an address and a port from 0 to 65535, such as 127.0.0.1:{port}")
}

async fn serve(arguments: Arguments, tls: &TlsArguments) -> Result<()> {
    let Arguments { keys, state, listen, max_in_flight, max_bandits, operator_token_file, restored, .. } =
        arguments;
    let connections = Connections {
        most: arguments.max_connections,
        most_an_address: arguments.max_connections_an_address,
        grace: GRACE,
        ..Connections::default()
    };
    check_address(&listen)?;
    tracing::info!("{}", planner::kernel_choice());
    // The port is bound first, since loading the keys takes seconds.
    let listener = TcpListener::bind(&listen).await.with_context(|| {
        format!("cannot listen on {listen}: choose another address with --listen, or stop the process that uses it")
    })?;
    let address = listener.local_addr().context("asking for the port")?;
    let operator =
        operator_token_file.as_deref().map(wire::AccessToken::open).transpose()?.map(|t| t.digest());
    let loopback = address.ip().to_canonical().is_loopback();
    if !loopback && operator.is_none() && !TokensFile::of(&state).exists() {
        if !arguments.open {
            bail!(
                "--listen {listen}: other machines reach this address, and without tokens everybody there can use clear policies: \
                 create one with `helba-server token create --state {} --name NAME --scope admin`, or give --operator-token-file; \
                 or listen on 127.0.0.1; or give --open",
                state.display()
            );
        }
        tracing::warn!("--open: everybody who reaches {address} can use clear policies");
    }
    tls.check(address, arguments.tls_self_signed)?;
    let of_paper = keys.as_deref().filter(|path| wire::is_paper(path).unwrap_or(false));
    let paper = of_paper.map(|path| PaperKeys::open(path).with_context(|| not_keys(path))).transpose()?;
    let bundle = keys.as_deref().filter(|_| paper.is_none()).map(open_bundle).transpose()?;
    let security = bundle.as_ref().map(|bundle| bundle.manifest.ring.security_bits);
    let security = security.or(paper.as_ref().map(|keys| keys.manifest.ring.security_bits));
    if let Some(PaperKeys { manifest, .. }) = &paper {
        let (key, parameters) = (printable(&manifest.ring.key_id), printable(&manifest.ring.params));
        tracing::info!(key, parameters, "keys of `method: paper` loaded");
    }
    match &bundle {
        Some(PublicBundle { manifest, .. }) => {
            let (key, parameters) = (printable(&manifest.ring.key_id), printable(&manifest.ring.params));
            tracing::info!(key, parameters, "keys loaded");
            let Shape { dim, arm_slots } = manifest.shape;
            if let Ok(report) = planner::plan(largest(manifest)?) {
                let outlook = report.kernel_outlook(rayon::current_num_threads());
                tracing::info!("d = {dim}, K = {arm_slots}: {outlook}");
            }
        }
        None if arguments.committee.is_none() && paper.is_none() => {
            tracing::info!("no --keys: only clear policies are served");
        }
        None => {}
    }
    if security == Some(0) && !arguments.toy {
        bail!(
            "the bundle holds toy keys, which protect nothing: generate keys with `helba-keygen create` without --toy, or \
             give --toy here"
        );
    }
    let names = arguments.hosts.clone();
    let hosts = (loopback || !arguments.hosts.is_empty()).then_some(arguments.hosts);
    let body_memory = arguments.max_body_memory.saturating_mul(1 << 20);
    let wait = Duration::from_secs(arguments.wait);
    let (max_waiting, raise_timeout) = (arguments.max_waiting, Duration::from_secs(arguments.raise_timeout));
    let settings = Settings {
        max_in_flight,
        max_bandits,
        operator,
        max_waiting,
        raise_timeout,
        member_patience: Duration::from_secs(arguments.member_patience),
        keep_log: arguments.keep_log,
        context_memory: arguments.max_context_memory.saturating_mul(1 << 20),
        body_memory,
        wait,
        hosts,
        cors_origins: arguments.cors_origins,
        committee: arguments.committee.as_deref().map(open_committee).transpose()?,
        next_committee: arguments.next_committee.as_deref().map(open_committee).transpose()?,
        paper,
        restored,
        ..Settings::default()
    };
    let app_state = AppState::open(bundle, &state, settings)?;
    tracing::info!(bandits = app_state.bandits(), state = %state.display(), "state loaded");
    let missing = app_state.keys_missing();
    if missing > 0 {
        tracing::warn!(
            "{missing} encrypted bandits in {} are not loaded, and answer 409 until the server is started with their --keys",
            state.display()
        );
    }

    let folder = state.join("tls");
    let own = arguments.tls_self_signed.then_some((folder.as_path(), names.as_slice()));
    let tls = tls.open(own, |line| tracing::info!("{line}"))?;
    if let Some(tls) = &tls {
        app_state.show_certificate(tls.ends());
    }
    if let Some(authority) = tls.as_ref().and_then(Tls::authority) {
        // A log on a full disk must not end the program.
        tell!("{authority}");
    }

    // Before anybody knows that the server listens, so that no signal after that is missed.
    let hangups = Hangups::new();
    if let Some(path) = operator_token_file {
        tokio::spawn(follow_operator(path, hangups, app_state.clone()));
    }
    writeln!(std::io::stdout(), "listening on {address}").context("writing to stdout")?;
    let mut heard = Ok(());
    let ending = app_state.clone();
    let stop = async {
        heard = helba_server::stop_signal().await.context("listening for signals");
        tracing::info!("stopping");
        ending.end_waits();
    };
    if !helba_server::serve_tls(listener, tls, app(app_state), connections, stop).await {
        tracing::warn!("requests were cut off after {} s", GRACE.as_secs());
    }
    heard
}

/// The manifest of a committee.
fn open_committee(path: &Path) -> Result<shares::SignedManifest> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot open {}", path.display()))?;
    let manifest = shares::SignedManifest::from_bytes(&bytes);
    let manifest = manifest.with_context(|| format!("cannot use {}", path.display()))?;
    let id = printable(&ckks::Hex(&manifest.manifest.id()).to_string());
    tracing::info!(committee = id, "committee loaded");
    Ok(manifest)
}

/// Reads the operator's token again on every SIGHUP. A file that cannot be used leaves the token before in
/// its place.
async fn follow_operator(path: PathBuf, mut hangups: Hangups, state: AppState) {
    loop {
        hangups.next().await;
        let from = path.clone();
        // Panics are reported by the runtime.
        let read = tokio::task::spawn_blocking(move || wire::AccessToken::open(&from)).await;
        match read {
            Ok(Ok(token)) => {
                state.replace_operator(token.digest());
                tracing::info!(path = %path.display(), "the operator's token was read again");
            }
            Ok(Err(error)) => tracing::error!(%error, "the operator's token before is still the one"),
            Err(_) => {}
        }
    }
}
