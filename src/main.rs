//! `helba-server`: arguments, log, listen.

use anyhow::{Context, Result, bail};
use clap::Parser;
use helba_server::{AppState, Connections, Settings, app, printable};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use wire::PublicBundle;

/// Requests under way get this long after a signal.
const GRACE: Duration = Duration::from_secs(30);

/// A contextual bandit that learns from contexts and rewards it cannot read; and policies in the clear.
///
/// The log goes to stderr; RUST_LOG sets its level. Put a proxy with TLS and authentication in front.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Public key bundle, made by `helba-keygen create --public FILE`. Without it only policies in the clear
    /// are served.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Takes a bundle of toy keys, which protect nothing: for tests.
    #[arg(long)]
    toy: bool,
    /// Folder for the state of bandits; made if it is not there.
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Address and port; port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// Requests computed at a time; one more is answered 503.
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_in_flight)]
    max_in_flight: usize,
    /// Bandits kept.
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_bandits)]
    max_bandits: usize,
    /// File with the operator's token, 64 hexadecimal digits (`helba-keygen token FILE` makes one). With it,
    /// policies in the clear are created, used and deleted by its bearers alone.
    #[arg(long, value_name = "FILE")]
    operator_token_file: Option<PathBuf>,
    /// Memory of request bodies, beside those of 64 KiB and less; one that does not fit is answered 503.
    #[arg(long, value_name = "MIB", default_value_t = Settings::default().body_memory >> 20)]
    max_body_memory: usize,
    /// Connections open at a time; beyond them, the one that has waited longest for a request is closed.
    #[arg(long, value_name = "N", default_value_t = Connections::default().most)]
    max_connections: usize,
    /// Connections open at a time from one address. All that come through a proxy count as one address.
    #[arg(long, value_name = "N", default_value_t = Connections::default().most_an_address)]
    max_connections_an_address: usize,
    /// Seconds that a decision waits for its feedback before new decisions may take its place; they are
    /// refused until then.
    #[arg(long, value_name = "SECONDS", default_value_t = Settings::default().hold.as_secs())]
    hold: u64,
    /// Name of this server, such as the proxy's, that requests may name as their host; may be given several
    /// times. Loopback addresses and localhost are always served. Without it any name is served, unless
    /// --listen is a loopback address.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// The state folder was brought back from a backup: bandits with a privacy promise begin anew, keeping
    /// count of what they spent, since rewards in the folder may have been released since. Give this flag
    /// once, at the first start after that.
    #[arg(long)]
    restored: bool,
    /// Threads that compute; one a core if not given.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let level = std::env::var("RUST_LOG").ok().and_then(|level| level.parse::<Targets>().ok());
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // A log on a full disk must not take requests down with it.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    let level = level.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    tracing_subscriber::registry().with(log).with(level).init();
    match start(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", sentence(&error));
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

fn start(arguments: Arguments) -> Result<()> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(arguments.threads)
        .build_global()
        .context("starting threads")?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let served = runtime.block_on(serve(arguments));
    // A batch update that still runs is stored as due, and begins again at the next start.
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
    bail!("--listen {given}: must be an address and a port from 0 to 65535, such as 127.0.0.1:{port}")
}

async fn serve(arguments: Arguments) -> Result<()> {
    let Arguments { keys, state, listen, max_in_flight, max_bandits, operator_token_file, restored, .. } =
        arguments;
    let connections = Connections {
        most: arguments.max_connections,
        most_an_address: arguments.max_connections_an_address,
        grace: GRACE,
        ..Connections::default()
    };
    check_address(&listen)?;
    // The port is bound first, since loading the keys takes seconds.
    let listener = TcpListener::bind(&listen).await.with_context(|| {
        format!("cannot listen on {listen}: choose another address with --listen, or stop the process that uses it")
    })?;
    let address = listener.local_addr().context("asking for the port")?;
    let open = |keys: PathBuf| {
        PublicBundle::open(&keys).with_context(|| {
            format!("--keys {} must be the file that `helba-keygen create --public` made", keys.display())
        })
    };
    let bundle = keys.map(open).transpose()?;
    match &bundle {
        Some(PublicBundle { manifest, .. }) => {
            let (key, parameters) = (printable(&manifest.key_id), printable(&manifest.params));
            tracing::info!(key, parameters, "keys loaded");
            if manifest.security_bits == 0 && !arguments.toy {
                bail!(
                    "the bundle holds toy keys, which protect nothing: make others with `helba-keygen create` without --toy, or \
                     say --toy here"
                );
            }
        }
        None => tracing::info!("no --keys: policies in the clear alone are served"),
    }
    let operator =
        operator_token_file.as_deref().map(wire::AccessToken::open).transpose()?.map(|t| t.digest());
    if operator.is_none() && !address.ip().to_canonical().is_loopback() {
        tracing::warn!("no --operator-token-file: whoever reaches {address} can use clear policies");
    }
    let hosts =
        (address.ip().to_canonical().is_loopback() || !arguments.hosts.is_empty()).then_some(arguments.hosts);
    let body_memory = arguments.max_body_memory.saturating_mul(1 << 20);
    let hold = Duration::from_secs(arguments.hold);
    let settings = Settings { max_in_flight, max_bandits, operator, body_memory, hold, hosts, restored };
    let app_state = AppState::open(bundle, &state, settings)?;
    tracing::info!(bandits = app_state.bandits(), state = %state.display(), "state loaded");
    let missing = app_state.keys_missing();
    if missing > 0 {
        tracing::warn!(
            "{missing} encrypted bandits in {} answer 409 until the server is started with their --keys; nothing of them changes",
            state.display()
        );
    }

    writeln!(std::io::stdout(), "listening on {address}").context("writing to stdout")?;
    let mut heard = Ok(());
    let stop = async {
        heard = helba_server::stop_signal().await.context("listening for signals");
        tracing::info!("stopping");
    };
    if !helba_server::serve(listener, app(app_state), connections, stop).await {
        tracing::warn!("requests were cut off after {} s", GRACE.as_secs());
    }
    heard
}
