//! `sum-authority`: the process that holds the secret keys of encrypted sums.

use anyhow::Result;
use clap::Parser;
use secure_sum::http;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use sum_authority::service::{AuthorityLimits, Opener, routes};
use wire::AccessToken;

/// Generates a key for each batch that the adder (`secure-sum adder`) announces, and decrypts one sum under
/// it.
///
/// Keys are in memory, and are zeroed when their sum is opened. A restart loses all batches. On an address
/// that other machines reach, the service needs HTTPS.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Address and port to listen on. Port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:9006")]
    listen: String,
    #[command(flatten)]
    over: http::Listen,
    /// Least number of users of a batch. Smaller batches get no key, whatever the adder asks for.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    at_least: u32,
    /// The most batches with a key at a time, about 0.1 MB each.
    #[arg(long, default_value_t = 256)]
    keys: usize,
    /// Hours after which a key is destroyed, used or not.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8760))]
    hours: u64,
    /// File with the token that the adder sends (its --authority-token-file): 64 hexadecimal digits, as
    /// `helba-keygen token FILE` generates. Users need no token. Without a token, the service listens on
    /// loopback addresses only.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

fn main() -> ExitCode {
    host::exit("error", run(Arguments::parse()))
}

fn run(Arguments { listen, over, at_least, keys, hours, token_file }: Arguments) -> Result<()> {
    let token = token_file.as_deref().map(AccessToken::open).transpose()?;
    let limits = AuthorityLimits {
        at_least,
        keys,
        age: Duration::from_secs(3600 * hours),
        ..AuthorityLimits::default()
    };
    Ok(http::serve_guarded(&over.on(&listen), routes(Opener::new(limits), token.as_ref())?, token.as_ref())?)
}
