//! `sum-authority`: the process that holds the secret key of encrypted sums.

use anyhow::{Context, Result};
use clap::Parser;
use secure_sum::http;
use std::process::ExitCode;
use sum_authority::Authority;
use sum_authority::service::{Opener, routes};

/// Opens one sum a batch for the server that adds ciphertexts (`secure-sum adder`), and nothing else.
///
/// The key is made at the start and kept in memory: a restart has another one, and batches under way are lost. Put a
/// proxy with TLS and authentication in front.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Address and port; port 0 takes any free one.
    #[arg(long, default_value = "127.0.0.1:9006")]
    listen: String,
    /// Users without whom no sum is opened, whatever the server asks for.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    at_least: u32,
    /// Sums opened under the key.
    #[arg(long, default_value_t = 1 << 16)]
    sums: usize,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(Arguments { listen, at_least, sums }: Arguments) -> Result<()> {
    let authority = Authority::generate(&mut http::rng()?).context("making a key")?;
    Ok(http::serve(&listen, routes(Opener::new(authority, at_least, sums)))?)
}
