//! `secure-sum`: the parties of a secure sum, each a process.

mod demo;

use anyhow::{Context, Result, bail};
use bandit::distributed::Model;
use clap::{Args, Parser, Subcommand};
use privacy::Ratio;
use privacy::budget::Delta;
use secure_sum::aggregator::AggregatorLimits;
use secure_sum::encrypted::{self, LOGN12_LOGQP105_SUM};
use secure_sum::{Aggregator, BanditTask, BatchId, Collector, Party, Plan, http};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wire::AccessToken;

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
        /// Reports kept, about 100 bytes each.
        #[arg(long, default_value_t = AggregatorLimits::default().reports)]
        max_reports: usize,
        /// Hours after which a batch is forgotten, opened or not.
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8760))]
        hours: u64,
        #[command(flatten)]
        token: TokenFile,
    },
    /// Takes the bits of the users that a bandit waits for, and delivers the number of ones when all have
    /// answered. Its state is in memory. It must not collude with the server.
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
        /// A file with the operator's token of helba-server, where that has one.
        #[arg(long, value_name = "FILE")]
        server_token_file: Option<PathBuf>,
    },
    /// Has a shuffler deliver a complete batch that it kept because it could not reach the server.
    Forward {
        /// The shuffler's address, such as http://127.0.0.1:9003.
        #[arg(long, value_parser = address)]
        shuffler: String,
        /// Number of the bandit's exchange.
        #[arg(long)]
        exchange: u64,
    },
    /// Announces a batch to both aggregators, or to the adder and its key authority: they take what users
    /// send to it from then on.
    Announce {
        #[command(flatten)]
        sums: Sums,
        #[command(flatten)]
        token: TokenFile,
    },
    /// Sums one batch of reports at both aggregators, or has one of ciphertexts opened, and hands the sum to
    /// a bandit of helba-server that waits for it.
    Collect {
        #[command(flatten)]
        sums: Sums,
        /// A file with the operator's token of helba-server, where that has one.
        #[arg(long, value_name = "FILE")]
        server_token_file: Option<PathBuf>,
        #[command(flatten)]
        token: TokenFile,
    },
    /// Adds users' ciphertexts; a key authority opens one sum a batch. Its state is in memory.
    Adder {
        /// Address and port; port 0 takes any free one.
        #[arg(long, default_value = "127.0.0.1:9005")]
        listen: String,
        /// Address of the key authority, `sum-authority`, such as http://127.0.0.1:9006.
        #[arg(long, value_parser = address)]
        authority: String,
        /// A file with the token that the authority was started with.
        #[arg(long, value_name = "FILE")]
        authority_token_file: Option<PathBuf>,
        /// Hours after which a batch is forgotten, opened or not.
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8760))]
        hours: u64,
        #[command(flatten)]
        token: TokenFile,
    },
    /// Simulated users of one batch, with rewards of 0 and 1; some drop out.
    Users(Box<demo::users::Users>),
    /// Successive elimination over all roles on this machine, each a process; figures go to stdout as CSV.
    Demo(demo::Demo),
}

/// Sums that an adder keeps, opened ones included: about 130 kB each.
const MAX_BATCHES: usize = 1 << 10;

/// The bandit whose batch is summed, and the parties that sum it.
#[derive(Args)]
struct Sums {
    /// The aggregators' addresses, both, such as http://127.0.0.1:9001 http://127.0.0.1:9002.
    #[arg(long, num_args = 2, required_unless_present = "adder", value_parser = address)]
    aggregators: Vec<String>,
    /// The adder's address, in place of aggregators. All who sent it a ciphertext are in the sum: ask exactly
    /// as many users as the bandit waits for.
    #[arg(long, conflicts_with = "aggregators", value_parser = address)]
    adder: Option<String>,
    /// Address of helba-server, such as http://127.0.0.1:8080.
    #[arg(long, value_parser = address)]
    server: String,
    /// Its bandit.
    #[arg(long)]
    bandit: String,
    /// Number of the batch; each has a higher one than those before. A batch that lacks users is given up:
    /// ask others, under a new number.
    #[arg(long)]
    batch: u64,
}

impl Sums {
    fn collector(&self, token: Option<&AccessToken>) -> Result<Collector> {
        let [first, second] = self.aggregators.as_slice() else {
            bail!("--aggregators: {} given, it must be 2", self.aggregators.len());
        };
        let party = |url: &String| Party::new(url).with_token(token.cloned());
        Ok(Collector::new([party(first), party(second)]))
    }

    fn announce(&self, token: Option<&AccessToken>) -> Result<()> {
        let task = BanditTask::ask(&Party::new(&self.server), &self.bandit)?;
        let id = BatchId { number: self.batch, at_least: task.users() };
        match &self.adder {
            Some(adder) => Party::new(adder).with_token(token.cloned()).announce(id)?,
            None => self.collector(token)?.announce(id)?,
        }
        println!("batch {} announced for {} users", id.number, id.at_least);
        Ok(())
    }

    fn collect(&self, token: Option<&AccessToken>, operator: Option<AccessToken>) -> Result<()> {
        let (server, bandit) = (Party::new(&self.server).with_token(operator), &self.bandit);
        let exchange = match &self.adder {
            Some(adder) => {
                let task = BanditTask::ask(&server, bandit)?;
                let (number, users) = (self.batch, task.users());
                let sum =
                    Party::new(adder).with_token(token.cloned()).opened(BatchId { number, at_least: users });
                task.deliver(
                    &server,
                    bandit,
                    &sum.with_context(|| format!("batch {number} of {users} users"))?,
                )?;
                task.exchange()
            }
            None => self.collector(token)?.deliver(&server, bandit, self.batch)?,
        };
        println!("exchange {exchange} done");
        Ok(())
    }
}

/// The collector's token.
#[derive(Args)]
struct TokenFile {
    /// A file with the token that the collector sends to aggregators or adder: 64 hexadecimal digits, as
    /// `helba-keygen token FILE` makes. Users need none. A service without one listens on loopback addresses
    /// only.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenFile {
    fn read(&self) -> Result<Option<AccessToken>> {
        token(self.token_file.as_deref())
    }
}

fn token(path: Option<&Path>) -> Result<Option<AccessToken>> {
    Ok(path.map(AccessToken::open).transpose()?)
}

/// What users and collector agree on.
#[derive(Args, Clone)]
struct Agreed {
    /// Privacy of every batch.
    #[arg(long, default_value = "1", value_parser = ratio)]
    epsilon: Ratio,
    /// Whose noise: `pure`, differences of Polya variates under pure privacy; or `skellam`, Skellam variates
    /// at scale 10, whose bounded Renyi divergences are stated at delta = 10^-6.
    #[arg(long, default_value = "pure", value_parser = noise)]
    noise: Model,
    /// Part of the users of a batch that may drop out; with more missing it is refused.
    #[arg(long, default_value = "0.15", value_parser = ratio)]
    missing: Ratio,
    /// Part of the users of a batch that may collude with the collector, or be made up by it: the noise is
    /// enough without theirs.
    #[arg(long, default_value = "0", value_parser = ratio)]
    colluding: Ratio,
    /// Probability p with which the noise may pass the threshold: as the bandit was told, since precision and
    /// modulus of the batch follow from it.
    #[arg(long, value_name = "P", default_value_t = 0.1)]
    confidence: f64,
}

impl Agreed {
    fn plan(&self, invited: u64, horizon: u64) -> Result<Plan> {
        let Self { epsilon, noise: model, missing, colluding, confidence } = *self;
        Ok(Plan { model, epsilon, invited, missing, colluding, confidence, horizon })
    }
}

/// The model of that name.
fn noise(text: &str) -> Result<Model> {
    match text {
        "pure" => Ok(Model::Pure),
        "skellam" => Ok(Model::Renyi { scale: Ratio::integer(10), delta: Delta::one_in(1_000_000) }),
        _ => bail!("must be pure or skellam"),
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
    host::exit("error", run(Arguments::parse().role))
}

const fn age(hours: u64) -> Duration {
    Duration::from_secs(3600 * hours)
}

fn run(role: Role) -> Result<()> {
    match role {
        Role::Aggregator { listen, max_reports, hours, token } => {
            let token = token.read()?;
            let limits =
                AggregatorLimits { reports: max_reports, age: age(hours), ..AggregatorLimits::default() };
            let routes = http::aggregator(Aggregator::new(limits), token.as_ref());
            Ok(http::serve_guarded(&listen, routes, token.as_ref())?)
        }
        Role::Shuffler { listen, server, bandit, server_token_file } => {
            let server = Party::new(server).with_token(token(server_token_file.as_deref())?);
            let task = BanditTask::ask(&server, &bandit).with_context(|| format!("bandit {bandit}"))?;
            if task.shape()?.is_none() {
                bail!(
                    "bandit {bandit} waits for shares, not for bits: its users need two aggregators or an adder, not a \
                     shuffler"
                );
            }
            Ok(http::serve(&listen, http::shuffler(server, bandit))?)
        }
        Role::Forward { shuffler, exchange } => {
            Party::new(shuffler).forward(exchange)?;
            println!("exchange {exchange} handed on");
            Ok(())
        }
        Role::Announce { sums, token } => sums.announce(token.read()?.as_ref()),
        Role::Collect { sums, server_token_file, token: shown } => {
            sums.collect(shown.read()?.as_ref(), token(server_token_file.as_deref())?)
        }
        Role::Adder { listen, authority, authority_token_file, hours, token: shown } => {
            let authority = Party::new(authority).with_token(token(authority_token_file.as_deref())?);
            let token = shown.read()?;
            let state = encrypted::Server::new(&LOGN12_LOGQP105_SUM.validate()?, MAX_BATCHES, age(hours));
            let routes = http::adder(state, authority, token.as_ref());
            Ok(http::serve_guarded(&listen, routes, token.as_ref())?)
        }
        Role::Users(users) => users.run(),
        Role::Demo(demo) => demo.run(),
    }
}
