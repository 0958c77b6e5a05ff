//! `helba-raiser`: a holder of the key that answers the tasks of bandits, so that no device is asked.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "`say!` and `tell!` escape what others named")]

use anyhow::Context;
use clap::Parser;
use host::tell;
use protocol::UserKeys;
use std::path::PathBuf;
use std::process::ExitCode;
use user_client::{
    Device, MOST_WAITING, Opening, Passphrase, Raiser, RaiserOptions, ServerOptions, Stop, os_rng,
    until_signal,
};
use wire::RemovedUsersFile;

/// Raises scores and sums of encrypted bandits, and encrypts their models anew, for the server that has the
/// public bundle of these keys.
///
/// It connects to the server and accepts no connection. Run it on a machine of the owner of the keys, near
/// the server and never on it: whoever has both the keys and the server's data can read everything. It sees
/// masked values alone and keeps no state, so that it can be stopped, restarted and run several times. Its
/// log goes to stderr, with a line for each task. Its token needs the scope `raise`.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    server: ServerOptions,
    /// Secret bundle.
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
    /// File whose first line is the passphrase of the secret bundle.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Accepts a bundle of toy keys, which protect nothing. For tests.
    #[arg(long)]
    toy: bool,
    /// Id of a bandit to serve; may be given several times [default: all encrypted bandits of the server].
    #[arg(long = "bandit", value_name = "ID")]
    bandits: Vec<String>,
    /// The owner's list of removed users (`helba-keygen remove`), which keys need whose users have their own:
    /// no answer is made for them, whatever the server asks for. It is read again when it changes; while it
    /// cannot be read, no answer is made for anybody.
    #[arg(long, value_name = "FILE")]
    removed: Option<PathBuf>,
    /// Number of requests for tasks that are kept open at the server for each bandit. Each answers one task
    /// at a time, so that with 2 a task is received while another one is computed.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=MOST_WAITING as i64))]
    waiting: u8,
}

fn main() -> ExitCode {
    host::exit("helba-raiser", run(Arguments::parse()))
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    host::outlive_hangups().context("listening for signals")?;
    let Arguments { server, keys, passphrase_file, toy, bandits, removed, waiting } = arguments;
    let open = |path: &PathBuf| Passphrase::open(path).with_context(|| path.display().to_string());
    let passphrase = passphrase_file.as_ref().map(open).transpose()?;
    let device = Device::open(&keys, &Opening { toy, passphrase }).context(keys.display().to_string())?;
    let device = match (removed, device.rings().keys) {
        (Some(path), _) => device.without_users(RemovedUsersFile::open(&path)?),
        (None, UserKeys::Shared) => device,
        (None, UserKeys::Own) => anyhow::bail!(
            "users of these keys have their own: give --removed FILE, the list of those who were removed, which `helba-keygen remove \
             --list FILE` makes"
        ),
    };
    // A log on a full disk must not end the program.
    let log = |line: &str| tell!("helba-raiser: {line}");
    let client = server.client(Some(&device), log)?;
    let bandits = bandits.into_iter().collect();
    let options = RaiserOptions { bandits, waiting: waiting.into(), ..RaiserOptions::default() };
    let stop = Stop::default();
    let raiser = Raiser::new(client, device, options, stop.clone(), os_rng()?, log);
    until_signal(stop, move || raiser.run())??;
    log("stopped");
    Ok(())
}
