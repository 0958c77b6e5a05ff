//! `secure-sum`: the parties of a secure sum, each a process.

mod demo;
mod users;

use anyhow::{Context, Result, bail};
use bandit::distributed::Model;
use clap::{Args, Parser, Subcommand, ValueEnum};
use privacy::Ratio;
use privacy::budget::Delta;
use secure_sum::aggregator::Limits;
use secure_sum::encrypted::{self, LOGN12_LOGQP105_SUM};
use secure_sum::{Aggregator, Awaiting, BatchId, Collector, Party, Plan, http};
use std::process::ExitCode;

/// Sums of users' messages among processes, no one of which is trusted with more than its share.
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
    /// Takes the bits of the users that a bandit waits for, and hands on the number of ones when all have answered. Its
    /// state is in memory. It must not collude with the server.
    Shuffler {
        /// Address and port; port 0 takes any free one.
        #[arg(long, default_value = "127.0.0.1:9003")]
        listen: String,
        /// Address of helba-server, such as http://127.0.0.1:8080.
        #[arg(long, value_parser = address)]
        server: String,
        /// Its bandit, `shuffle-glm` or `elimination` under model shuffle: it says what users send.
        #[arg(long)]
        bandit: String,
    },
    /// Has a shuffler hand on a batch that is whole, where it could not reach the server by itself.
    Forward {
        /// The shuffler's address, such as http://127.0.0.1:9003.
        #[arg(long, value_parser = address)]
        shuffler: String,
        /// Number of the bandit's exchange.
        #[arg(long)]
        exchange: u64,
    },
    /// Sums one batch of reports at both aggregators, or has one of ciphertexts opened, and hands the sum to a bandit of
    /// helba-server that waits for it.
    Collect {
        /// The aggregators' addresses, both, such as http://127.0.0.1:9001 http://127.0.0.1:9002.
        #[arg(long, num_args = 2, required_unless_present = "adder", value_parser = address)]
        aggregators: Vec<String>,
        /// The adder's address, in place of aggregators. All who sent it a ciphertext are in the sum: ask exactly as many
        /// users as the bandit waits for.
        #[arg(long, conflicts_with = "aggregators", value_parser = address)]
        adder: Option<String>,
        /// Address of helba-server, such as http://127.0.0.1:8080.
        #[arg(long, value_parser = address)]
        server: String,
        /// Its bandit.
        #[arg(long)]
        bandit: String,
        /// Number of the batch of reports. A batch that lacks users is given up: ask others, under a new number.
        #[arg(long)]
        batch: u64,
    },
    /// Adds users' ciphertexts; a key authority opens one sum a batch. Its state is in memory.
    Adder {
        /// Address and port; port 0 takes any free one.
        #[arg(long, default_value = "127.0.0.1:9005")]
        listen: String,
        /// Address of the key authority, `sum-authority`, such as http://127.0.0.1:9006.
        #[arg(long, value_parser = address)]
        authority: String,
    },
    /// Simulated users of one batch, with rewards of 0 and 1; some drop out.
    Users(Box<users::Users>),
    /// Successive elimination over all roles on this machine, each a process; figures go to stdout as CSV.
    Demo(demo::Demo),
}

/// Sums that an adder keeps, opened ones included: about 130 kB each.
const MAX_BATCHES: usize = 1 << 12;

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
    /// Part of them that may collude with the collector; the noise behind a shuffler is sized for all.
    #[arg(long, default_value = "0", value_parser = ratio)]
    colluding: Ratio,
    /// Probability p with which the noise may pass the threshold: as the bandit was told, since precision and modulus of
    /// the batch follow from it.
    #[arg(long, value_name = "P", default_value_t = 0.1)]
    confidence: f64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Noise {
    /// Differences of Polya variates: pure privacy.
    Pure,
    /// Skellam variates at scale 10: bounded Renyi divergences, stated at delta = 10^-6.
    Skellam,
}

impl Agreed {
    fn plan(&self, invited: u64, horizon: u64) -> Result<Plan> {
        let model = match self.noise {
            Noise::Pure => Model::Pure,
            Noise::Skellam => Model::Renyi { scale: Ratio::integer(10), delta: Delta::new(1e-6)? },
        };
        let Self { epsilon, missing, colluding, confidence, .. } = *self;
        Ok(Plan { model, epsilon, invited, missing, colluding, confidence, horizon })
    }
}

/// An address, with its scheme.
fn address(text: &str) -> Result<String> {
    if !text.starts_with("http://") {
        bail!("must be an address such as http://127.0.0.1:9001 (TLS is a proxy's)");
    }
    Ok(text.into())
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
            Ok(http::serve(&listen, http::aggregator(Aggregator::new(limits)))?)
        }
        Role::Shuffler { listen, server, bandit } => {
            Ok(http::serve(&listen, http::shuffler(Party::new(server), bandit))?)
        }
        Role::Forward { shuffler, exchange } => {
            Party::new(shuffler).forward(exchange)?;
            println!("exchange {exchange} handed on");
            Ok(())
        }
        Role::Collect { aggregators, adder, server, bandit, batch } => {
            let server = Party::new(server);
            let exchange = match adder {
                Some(adder) => {
                    let awaiting = Awaiting::ask(&server, &bandit)?;
                    let id = BatchId { number: batch, at_least: awaiting.users() };
                    let sum = Party::new(adder).opened(id);
                    let sum = sum.with_context(|| format!("batch {batch} of {} users", awaiting.users()))?;
                    awaiting.hand(&server, &bandit, &sum)?;
                    awaiting.exchange()
                }
                None => {
                    let aggregators = <[String; 2]>::try_from(aggregators).map_err(|given| {
                        anyhow::anyhow!("--aggregators: {} given, it must be 2", given.len())
                    })?;
                    Collector::new(aggregators.map(Party::new)).hand(&server, &bandit, batch)?
                }
            };
            println!("exchange {exchange} done");
            Ok(())
        }
        Role::Adder { listen, authority } => {
            let (params, authority) = (LOGN12_LOGQP105_SUM.validate()?, Party::new(authority));
            let (_, key) = authority.key(&params).context("asking the authority for its key")?;
            let state = encrypted::Server::new(&params, key, MAX_BATCHES);
            Ok(http::serve(&listen, http::adder(state, authority))?)
        }
        Role::Users(users) => users.run(),
        Role::Demo(demo) => demo.run(),
    }
}
