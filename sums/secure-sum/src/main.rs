//! `secure-sum`: each party of a secure sum as a process.

mod demo;
mod report;

use anyhow::{Context, Result, bail};
use bandit::distributed::Model;
use clap::{Args, Parser, Subcommand};
use privacy::Ratio;
use privacy::budget::Delta;
use secure_sum::aggregator::AggregatorLimits;
use secure_sum::encrypted;
use secure_sum::{Aggregator, BanditTask, BatchId, Collector, Party, Plan, http};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wire::AccessToken;

/// Sums users' messages in several processes, so that no single one sees a user's value.
///
/// On an address that other machines reach, the services need HTTPS. Put a proxy in front that admits each
/// person once.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Runs one of the two aggregators: receives shares, and opens one total per batch. Its state is in
    /// memory.
    Aggregator {
        /// Address and port to listen on. Port 0 selects a free port.
        #[arg(long, default_value = "127.0.0.1:9001")]
        listen: String,
        #[command(flatten)]
        over: http::Listen,
        /// The most reports in memory, about 100 bytes each.
        #[arg(long, default_value_t = AggregatorLimits::default().reports)]
        max_reports: usize,
        /// Hours after which a batch is deleted, opened or not.
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8760))]
        hours: u64,
        #[command(flatten)]
        token: TokenFile,
    },
    /// Runs a shuffler: receives the numbers of ones of the users that a bandit waits for, and delivers their
    /// sums when all users have answered. Its state is in memory. It must not collude with the server.
    Shuffler {
        /// Address and port to listen on. Port 0 selects a free port.
        #[arg(long, default_value = "127.0.0.1:9003")]
        listen: String,
        #[command(flatten)]
        over: http::Listen,
        /// PEM file of the certificate authorities to trust, instead of those that browsers trust.
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
        /// Address of helba-server, such as http://127.0.0.1:8080.
        #[arg(long, value_parser = address)]
        server: String,
        /// Id of the bandit, with the policy `shuffle-glm`, or `elimination` under model shuffle.
        #[arg(long)]
        bandit: String,
        /// File with a token of helba-server, if it has tokens: an API token of scope `feedback`, or the
        /// operator's.
        #[arg(long, value_name = "FILE")]
        server_token_file: Option<PathBuf>,
    },
    /// Asks a shuffler to deliver a complete batch that it kept because it could not reach the server.
    Forward {
        /// Address of the shuffler, such as http://127.0.0.1:9003.
        #[arg(long, value_parser = address)]
        shuffler: String,
        /// PEM file of the certificate authorities to trust, instead of those that browsers trust.
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
        /// Number of the exchange of the bandit.
        #[arg(long)]
        exchange: u64,
    },
    /// Announces a batch to both aggregators, or to the adder and its key authority. They accept messages of
    /// users for announced batches only.
    Announce {
        #[command(flatten)]
        sums: Sums,
        /// File with a token of helba-server, if it has tokens: an API token of any scope, or the operator's.
        #[arg(long, value_name = "FILE")]
        server_token_file: Option<PathBuf>,
        #[command(flatten)]
        token: TokenFile,
    },
    /// Closes a batch, opens its sum at both aggregators or at the adder, and delivers it to the bandit.
    Collect {
        #[command(flatten)]
        sums: Sums,
        /// File with a token of helba-server, if it has tokens: an API token of scope `feedback`, or the
        /// operator's.
        #[arg(long, value_name = "FILE")]
        server_token_file: Option<PathBuf>,
        #[command(flatten)]
        token: TokenFile,
    },
    /// Runs the adder: adds users' ciphertexts. The key authority opens one sum per batch. Its state is in
    /// memory.
    Adder {
        /// Address and port to listen on. Port 0 selects a free port.
        #[arg(long, default_value = "127.0.0.1:9005")]
        listen: String,
        #[command(flatten)]
        over: http::Listen,
        /// PEM file of the certificate authorities to trust, instead of those that browsers trust.
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
        /// Address of the key authority, `sum-authority`, such as http://127.0.0.1:9006.
        #[arg(long, value_parser = address)]
        authority: String,
        /// File with the token that the authority was started with.
        #[arg(long, value_name = "FILE")]
        authority_token_file: Option<PathBuf>,
        /// Hours after which a batch is deleted, opened or not.
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8760))]
        hours: u64,
        #[command(flatten)]
        token: TokenFile,
    },
    /// Sends the reward of one user, or prints the arm that it is to play.
    Report(Box<report::Report>),
    /// Simulates the users of one batch, with rewards of 0 and 1. Some users drop out.
    Users(Box<demo::users::Users>),
    /// Runs successive elimination with all parties as processes on this machine, and prints times and bytes
    /// as CSV.
    Demo(demo::Demo),
}

/// The most batches of an adder, opened ones included: at most 40 kB each.
const MAX_BATCHES: usize = 1 << 10;

/// The bandit whose batch is summed, and the parties that compute the sum.
#[derive(Args)]
struct Sums {
    /// Addresses of both aggregators, such as http://127.0.0.1:9001 http://127.0.0.1:9002.
    #[arg(long, num_args = 2, required_unless_present = "adder", value_parser = address)]
    aggregators: Vec<String>,
    /// Address of the adder, instead of aggregators. The sum contains every ciphertext that the adder
    /// received, so exactly as many users must be asked as the bandit waits for.
    #[arg(long, conflicts_with = "aggregators", value_parser = address)]
    adder: Option<String>,
    /// PEM file of the certificate authorities to trust, instead of those that browsers trust.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Address of helba-server, such as http://127.0.0.1:8080.
    #[arg(long, value_parser = address)]
    server: String,
    /// Id of the bandit.
    #[arg(long)]
    bandit: String,
    /// Number of the batch. Numbers must rise. A batch with too few users cannot be summed later: ask other
    /// users, under a new number.
    #[arg(long)]
    batch: u64,
}

impl Sums {
    fn party(&self, url: &str) -> Result<Party> {
        Ok(Party::new(url)?.trusting(self.ca.as_deref())?)
    }

    fn collector(&self, token: Option<&AccessToken>) -> Result<Collector> {
        let [first, second] = self.aggregators.as_slice() else {
            bail!("--aggregators takes two addresses, not {}", self.aggregators.len());
        };
        Ok(Collector::new([
            self.party(first)?.with_token(token.cloned()),
            self.party(second)?.with_token(token.cloned()),
        ]))
    }

    fn announce(&self, token: Option<&AccessToken>, of_server: Option<AccessToken>) -> Result<()> {
        let server = self.party(&self.server)?.with_token(of_server);
        let task = BanditTask::ask(&server, &self.bandit)?;
        let id = BatchId { number: self.batch, at_least: task.users() };
        match &self.adder {
            Some(adder) => self.party(adder)?.with_token(token.cloned()).announce(id)?,
            None => self.collector(token)?.announce(id)?,
        }
        println!("batch {} announced for {} users", id.number, id.at_least);
        Ok(())
    }

    fn collect(&self, token: Option<&AccessToken>, of_server: Option<AccessToken>) -> Result<()> {
        let (server, bandit) = (self.party(&self.server)?.with_token(of_server), &self.bandit);
        let exchange = match &self.adder {
            Some(adder) => {
                let task = BanditTask::ask(&server, bandit)?;
                let (number, users) = (self.batch, task.users());
                let sum =
                    self.party(adder)?.with_token(token.cloned()).opened(BatchId { number, at_least: users });
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

/// The token of the collector.
#[derive(Args)]
struct TokenFile {
    /// File with the token that the collector sends to aggregators or adder: 64 hexadecimal digits, as
    /// `helba-keygen token FILE` generates. Users need no token. Without a token, a service listens on
    /// loopback addresses only.
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

/// The parameters that users and collector agree on.
#[derive(Args, Clone)]
struct Agreed {
    /// Privacy parameter epsilon of every batch.
    #[arg(long, default_value = "1", value_parser = ratio)]
    epsilon: Ratio,
    /// Noise of the users: `pure` adds differences of Polya variates, for pure differential privacy;
    /// `skellam` adds Skellam variates at scale 10, whose Renyi divergences give a guarantee at delta =
    /// 10^-6.
    #[arg(long, default_value = "pure", value_parser = noise)]
    noise: Model,
    /// Share of the users of a batch that may drop out. A batch that misses more users is refused.
    #[arg(long, default_value = "0.15", value_parser = ratio)]
    missing: Ratio,
    /// Share of the users of a batch that may collude with the collector, or be made up by it. The noise of
    /// the others is sufficient.
    #[arg(long, default_value = "0", value_parser = ratio)]
    colluding: Ratio,
    /// Probability P with which the noise may exceed the width of the policy. It must be the value of the
    /// bandit, since it determines precision and modulus of the batch.
    #[arg(long, value_name = "P", default_value_t = 0.1)]
    confidence: f64,
}

impl Agreed {
    fn plan(&self, invited: u64, horizon: u64) -> Result<Plan> {
        let Self { epsilon, noise: model, missing, colluding, confidence } = *self;
        Ok(Plan { model, epsilon, invited, missing, colluding, confidence, horizon })
    }
}

/// The model with this name.
fn noise(text: &str) -> Result<Model> {
    match text {
        "pure" => Ok(Model::Pure),
        "skellam" => Ok(Model::Renyi { scale: Ratio::integer(10), delta: Delta::one_in(1_000_000) }),
        _ => bail!("must be pure or skellam"),
    }
}

/// An address with the scheme http or https.
fn address(text: &str) -> Result<String> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        bail!("must be an address such as http://127.0.0.1:9001 or https://sums.example");
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
        Role::Aggregator { listen, over, max_reports, hours, token } => {
            let token = token.read()?;
            let limits =
                AggregatorLimits { reports: max_reports, age: age(hours), ..AggregatorLimits::default() };
            let routes = http::aggregator(Aggregator::new(limits), token.as_ref());
            Ok(http::serve_guarded(&over.on(&listen), routes, token.as_ref())?)
        }
        Role::Shuffler { listen, over, ca, server, bandit, server_token_file } => {
            let server = Party::new(server)?.trusting(ca.as_deref())?;
            let server = server.with_token(token(server_token_file.as_deref())?);
            let task = BanditTask::ask(&server, &bandit).with_context(|| format!("bandit {bandit}"))?;
            if task.shape()?.is_none() {
                bail!(
                    "bandit {bandit} waits for shares and not for bits: its users need two aggregators or an adder, and no \
                     shuffler"
                );
            }
            Ok(http::serve(&over.on(&listen), http::shuffler(server, bandit))?)
        }
        Role::Forward { shuffler, ca, exchange } => {
            Party::new(shuffler)?.trusting(ca.as_deref())?.forward(exchange)?;
            println!("exchange {exchange} delivered");
            Ok(())
        }
        Role::Announce { sums, server_token_file, token: shown } => {
            sums.announce(shown.read()?.as_ref(), token(server_token_file.as_deref())?)
        }
        Role::Collect { sums, server_token_file, token: shown } => {
            sums.collect(shown.read()?.as_ref(), token(server_token_file.as_deref())?)
        }
        Role::Adder { listen, over, ca, authority, authority_token_file, hours, token: shown } => {
            let authority = Party::new(authority)?.trusting(ca.as_deref())?;
            let authority = authority.with_token(token(authority_token_file.as_deref())?);
            let token = shown.read()?;
            let state = encrypted::Server::new(MAX_BATCHES, age(hours));
            let routes = http::adder(state, authority, token.as_ref())?;
            Ok(http::serve_guarded(&over.on(&listen), routes, token.as_ref())?)
        }
        Role::Report(report) => report.run(),
        Role::Users(users) => users.run(),
        Role::Demo(demo) => demo.run(),
    }
}
