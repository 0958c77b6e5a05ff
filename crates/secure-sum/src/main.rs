//! `secure-sum`: the parties of a secure sum, each a process.

mod demo;
mod users;

use anyhow::{Context, Result, bail};
use axum::Router;
use bandit::distributed::Model;
use clap::{Args, Parser, Subcommand, ValueEnum};
use privacy::Ratio;
use privacy::budget::Delta;
use secure_sum::aggregator::Limits;
use secure_sum::http::Destination;
use secure_sum::shuffler::Shape;
use secure_sum::{Aggregator, Party, Plan, Shuffler, http, local};
use std::io::Write;
use std::process::ExitCode;

/// Sums and shuffles of users' messages among processes, no one of which is trusted with more than its share.
///
/// Services speak HTTP; put a proxy with TLS and authentication in front.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// One of two: takes shares, lets out one total a batch. Its state is in memory.
    Aggregator {
        /// Address and port; port 0 takes any free one.
        #[arg(long, default_value = "127.0.0.1:9001")]
        listen: String,
        /// Reports kept that are not opened yet, about 100 bytes each.
        #[arg(long, default_value_t = Limits::default().reports)]
        max_reports: usize,
    },
    /// Takes the messages of a batch and hands them on in random order. Its state is in memory.
    Shuffler {
        /// Address and port; port 0 takes any free one.
        #[arg(long, default_value = "127.0.0.1:9003")]
        listen: String,
        /// Address of the server, such as http://127.0.0.1:9004.
        #[arg(long)]
        forward: String,
        /// The server is helba-server, and this its bandit: messages are numbers of `--unit` bytes, little endian.
        #[arg(long)]
        bandit: Option<String>,
        /// Users without whom nothing is handed on.
        #[arg(long)]
        at_least: usize,
        /// Users of a batch at most.
        #[arg(long)]
        at_most: usize,
        /// Messages of each user.
        #[arg(long)]
        messages: usize,
        /// Bytes of a message.
        #[arg(long, default_value_t = 1)]
        unit: usize,
    },
    /// Simulated users of one batch with Bernoulli rewards; some drop out.
    Users(users::Users),
    /// Successive elimination over all roles on this machine, each a process; figures go to stdout as CSV.
    Demo(demo::Demo),
}

/// What users and collector agree on.
#[derive(Args, Clone)]
struct Agreed {
    /// Privacy of every batch.
    #[arg(long, default_value = "1", value_parser = ratio)]
    epsilon: Ratio,
    /// Whose noise.
    #[arg(long, default_value = "pure")]
    noise: Noise,
    /// Part of the users of a batch that may drop out; with more missing it is refused.
    #[arg(long, default_value = "0.15", value_parser = ratio)]
    missing: Ratio,
    /// Part of them that may collude with the collector.
    #[arg(long, default_value = "0", value_parser = ratio)]
    colluding: Ratio,
}

#[derive(Clone, Copy, ValueEnum)]
enum Noise {
    /// Differences of Polya variates: pure privacy.
    Pure,
    /// Skellam variates at scale 10: bounded Renyi divergences, stated at delta = 10^-6.
    Skellam,
}

impl Agreed {
    /// The paper's experiments: p = 0.1.
    fn plan(&self, invited: u64, horizon: u64) -> Result<Plan> {
        let model = match self.noise {
            Noise::Pure => Model::Pure,
            Noise::Skellam => Model::Renyi { scale: Ratio::integer(10), delta: Delta::new(1e-6)? },
        };
        let Self { epsilon, missing, colluding, .. } = *self;
        Ok(Plan { model, epsilon, invited, missing, colluding, confidence: 0.1, horizon })
    }
}

/// A decimal such as 0.05, exactly.
fn ratio(text: &str) -> Result<Ratio> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 18 {
        bail!("at most 18 decimals");
    }
    Ok(Ratio::new(format!("{whole}{part}").parse()?, 10u128.pow(part.len() as u32))?)
}

fn main() -> ExitCode {
    match run(Arguments::parse().role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: Role) -> Result<()> {
    match role {
        Role::Aggregator { listen, max_reports } => {
            let limits = Limits { reports: max_reports, ..Limits::default() };
            serve(&listen, http::aggregator(Aggregator::new(limits)))
        }
        Role::Shuffler { listen, forward, bandit, at_least, at_most, messages, unit } => {
            let party = Party::new(forward);
            let destination = match bandit {
                Some(_) if unit > 8 => bail!("--unit {unit}: numbers have at most 8 bytes"),
                Some(id) => Destination::Bandit(party, id),
                None => Destination::Inbox(party),
            };
            Shuffler::new(Shape { at_least, at_most, messages, unit })
                .context("the shape of a batch")
                .and_then(|state| serve(&listen, http::shuffler(state, destination)))
        }
        Role::Users(users) => users.run(),
        Role::Demo(demo) => demo.run(),
    }
}

/// Until the process is ended.
fn serve(listen: &str, routes: Router) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(listen).await.with_context(|| {
            format!("cannot listen on {listen}: choose another address with --listen, or stop who uses it")
        })?;
        let address = listener.local_addr().context("asking for the port")?;
        writeln!(std::io::stdout(), "{}{address}", local::LISTENING).context("writing to stdout")?;
        axum::serve(listener, routes).await.context("serving")
    })
}
