//! `helba-agent`: encrypted bandits for applications that speak the JSON of clear ones.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "`say!` and `tell!` escape what others named")]

use anyhow::{Context, Result, bail};
use clap::Parser;
use clap::builder::RangedU64ValueParser;
use helba_agent::{Agent, Credentials, LogOptions, Options, local_token, private_folder};
use host::{say, tell};
use service::{Connections, Tls, TlsArguments};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;
use user_client::{
    Client, CommitteeUser, Device, KeptSession, Opening, Passphrase, Stop, os_rng, patiently, read_session,
};
use wire::AccessToken;

/// Offers the encrypted bandits of a server by the JSON messages of clear bandits, to an application on this
/// machine.
///
/// It holds the secret key, or a session with a committee: run it where the application's data may be read,
/// and never on the server. Contexts and rewards are encrypted here, decisions are decrypted here, and with a
/// key it answers the tasks of its bandits. Requests need the token in --token-file. The log goes to stderr.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Address of the server, https://HOST:PORT or http://HOST:PORT.
    #[arg(long, value_name = "URL")]
    server: String,
    /// PEM file of the certificate authorities to trust, instead of those that browsers trust.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Secret bundle, or with --user the secret of this user.
    #[arg(long, value_name = "FILE", required_unless_present = "committee")]
    secret: Option<PathBuf>,
    /// Bundle of a user with a key of its own, from the owner of the bandit's keys. The agent then decides
    /// and returns feedback for this user, and answers no tasks: the owner's raiser does.
    #[arg(long, value_name = "FILE", requires = "secret", conflicts_with_all = ["passphrase_file", "trace_answers", "server_token_file"])]
    user: Option<PathBuf>,
    /// Id of a committee, 64 hexadecimal digits, as its members print it. The agent offers the
    /// committee's bandits, with a session in place of a key.
    #[arg(long, value_name = "ID", conflicts_with_all = ["secret", "passphrase_file", "toy", "trace_answers", "repeats"])]
    committee: Option<String>,
    /// File of the session with the committee, readable for its owner alone. It is written when the session
    /// begins, at the first start [default: committee.session in the folder of --state].
    #[arg(long, value_name = "FILE", requires = "committee")]
    session: Option<PathBuf>,
    /// File with an API token of the server, instead of the token of the secret bundle. Its scopes are
    /// `decide` and `feedback`; `raise`, if no raiser runs; `admin`, if the application creates bandits.
    #[arg(long, value_name = "FILE")]
    server_token_file: Option<PathBuf>,
    /// File whose first line is the passphrase of the secret bundle.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Accepts a bundle of toy keys, which protect nothing. For tests.
    #[arg(long)]
    toy: bool,
    /// Address and port to listen on. Addresses that other machines reach need HTTPS. Port 0 selects a free
    /// port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8090")]
    listen: String,
    #[command(flatten)]
    tls: TlsArguments,
    /// Makes a certificate for HTTPS in the folder `tls` of the state folder, if there is none yet. It names
    /// localhost, 127.0.0.1, ::1 and every --host. Prints the file that applications trust to stderr.
    #[arg(long)]
    tls_self_signed: bool,
    /// Host name of the agent, such as that of its proxy. It may be given several times.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Folder for decisions that wait for feedback. It is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// File with the token of the application, 64 hexadecimal digits. It is created if it does not exist
    /// [default: agent.token in the folder of --state].
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The most decisions that wait for feedback, each with some hundred bytes. The oldest are forgotten.
    ///
    /// [range: 1024 to 4294967295]
    #[arg(long, value_name = "N", default_value_t = 1 << 16, value_parser = clap::value_parser!(u32).range(1024..))]
    max_pending: u32,
    /// Days after which a decision without feedback is forgotten.
    ///
    /// [range: 1 to 65535]
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    pending_days: u16,
    /// Keeps no log of decisions. It is a file of JSON lines in the folder `log` of the state folder, in the
    /// clear and for its owner alone: arms, rewards and times, and no feature.
    #[arg(long)]
    no_decision_log: bool,
    /// Size at which the log of decisions begins a new file, in MiB.
    ///
    /// [range: 1 to 65535]
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    decision_log_size: u16,
    /// The most files of the log of decisions. The oldest is deleted.
    ///
    /// [range: 1 to 65535]
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    decision_log_files: u16,
    /// Seconds for which requests to a server that cannot be reached are repeated.
    ///
    /// [range: 0 to 65535]
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    patience: u16,
    /// Number of trace questions that are answered under the key, for bandits with the schedule
    /// trace_or_growth. Each answer tells the server one bit of a decryption. The parameters bound the
    /// number, by at most 1000, and devices that share a key share the bound.
    ///
    /// [range: at least 0]
    #[arg(long, value_name = "N", default_value_t = 0)]
    trace_answers: u64,
    /// Number of unreliable decisions that are asked for again under the key. Each request tells the server a
    /// bit of a decryption. The parameters bound the number, by at most 55, and devices that share a key
    /// share the bound [default: 5, and 0 with --user].
    ///
    /// [range: at least 0]
    #[arg(long, value_name = "N")]
    repeats: Option<u64>,
    /// The most open connections.
    ///
    /// [range: at least 1]
    #[arg(long, value_name = "N", default_value_t = Connections::default().most, value_parser = at_least_one())]
    max_connections: usize,
}

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn main() -> ExitCode {
    host::exit("helba-agent", run(Arguments::parse()))
}

fn run(arguments: Arguments) -> Result<()> {
    host::outlive_hangups().context("listening for signals")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(arguments));
    // Requests that the server does not answer have no end.
    runtime.shutdown_background();
    served
}

async fn serve(arguments: Arguments) -> Result<()> {
    let Arguments { server, state, listen, hosts, trace_answers, .. } = arguments;
    let listener = TcpListener::bind(&listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr().context("asking for the port")?;
    let loopback = address.ip().to_canonical().is_loopback();
    arguments.tls.check(address, arguments.tls_self_signed)?;
    let open = |path: &PathBuf| Passphrase::open(path).with_context(|| path.display().to_string());
    let opening =
        Opening { toy: arguments.toy, passphrase: arguments.passphrase_file.as_ref().map(open).transpose()? };
    let device = |secret: &PathBuf| -> Result<Device> {
        let device = match &arguments.user {
            Some(user) => Device::open_user(secret, user, arguments.toy)
                .with_context(|| format!("{} with {}", secret.display(), user.display()))?,
            None => Device::open(secret, &opening).with_context(|| secret.display().to_string())?,
        };
        let device = device.with_most_answers(trace_answers);
        Ok(match arguments.repeats {
            Some(most) => device.with_most_repeats(most),
            None => device,
        })
    };
    let device = arguments.secret.as_ref().map(device).transpose()?;
    let client = match arguments.ca {
        Some(ca) => Client::with_ca(&server, &ca)?,
        None => Client::new(&server)?,
    };
    let token = arguments.server_token_file.as_deref().map(AccessToken::open).transpose()?;
    let client = match (token, &device) {
        (Some(token), _) => client.with_token(token),
        (None, Some(device)) => client.with_device(device),
        (None, None) => client,
    };
    // A log on a full disk must not end the program.
    let log = |line: &str| tell!("helba-agent: {line}");
    if client.shows_token() {
        log(&format!("the access token is sent to {} without encryption: use https", client.server()));
    }
    let client = client.telling(log);
    let mut rng = os_rng()?;
    private_folder(&state)?;
    let token_file = arguments.token_file.unwrap_or_else(|| state.join("agent.token"));
    let folder = state.join("tls");
    let own = arguments.tls_self_signed.then_some((folder.as_path(), hosts.as_slice()));
    let tls = arguments.tls.open(own, log)?;
    if let Some(authority) = tls.as_ref().and_then(Tls::authority) {
        log(&authority.to_string());
    }
    let options = Options {
        hosts: (loopback || !hosts.is_empty()).then_some(hosts),
        most_pending: arguments.max_pending as usize,
        pending_age: Duration::from_secs(24 * 3600 * u64::from(arguments.pending_days)),
        patience: Duration::from_secs(arguments.patience.into()),
        decision_log: (!arguments.no_decision_log).then_some(LogOptions {
            bytes: u64::from(arguments.decision_log_size) << 20,
            files: arguments.decision_log_files.into(),
        }),
        trace_answers: trace_answers > 0,
        ..Options::new(local_token(&token_file, &mut rng)?.digest())
    };
    let credentials: Credentials = match (device, arguments.committee) {
        (Some(device), _) => device.into(),
        (None, Some(id)) => {
            let id = wire::from_hex(&id).context("--committee must be 64 hexadecimal digits")?;
            let file = arguments.session.unwrap_or_else(|| state.join("committee.session"));
            let (client, patience) = (client.clone(), options.patience);
            tokio::task::spawn_blocking(move || session(&client, id, &file, patience)).await??.into()
        }
        (None, None) => bail!("give --secret, or --committee"),
    };
    let connections = Connections { most: arguments.max_connections, ..Connections::default() };
    let agent = Agent::open(client, credentials, &state, options, rng, log)?;
    say!("listening on {address}; the token is in {}", token_file.display());
    let mut heard = Ok(());
    let stop = async { heard = host::stop_signal().await.context("listening for signals") };
    if !agent.run(listener, tls, connections, stop).await? {
        log("requests were cut off");
    }
    log("stopped");
    heard
}

/// The session in a file, which begins with the committee of this id if there is no file yet.
fn session(client: &Client, id: [u8; 32], file: &Path, patience: Duration) -> Result<KeptSession> {
    if file.exists() {
        let session = read_session(file)?;
        // One of the two has moved to the other, if both are right.
        if session.committee() == id {
            return Ok(session);
        }
    }
    let open = |_: &mut _| CommitteeUser::open(client.clone(), Some(id), file);
    let user = patiently(patience, &Stop::default(), &mut os_rng()?, open);
    Ok(user.with_context(|| format!("the session in {}", file.display()))?.session())
}
