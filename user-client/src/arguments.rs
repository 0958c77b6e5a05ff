//! The command line of `helba-client`.

use bandit::{Schedule, Width};
use clap::{Args, Parser, Subcommand, ValueEnum};
use protocol::BanditConfig;
use std::path::PathBuf;

/// Asks a bandit for decisions and returns rewards: encrypted, or in the clear under the privacy that its
/// policy states.
#[derive(Parser)]
#[command(version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Creates a bandit and prints its id.
    Create {
        #[command(flatten)]
        server: Server,
        /// Features of an arm, d. Keys fit bandits whose d rounds up to the same power of two; arms likewise.
        #[arg(long)]
        features: Option<usize>,
        /// Arms, K.
        #[arg(long)]
        arms: Option<usize>,
        #[command(flatten)]
        tuning: Tuning,
        /// The secret bundle, whose token admits to encrypted bandits.
        #[arg(long, conflicts_with = "policy")]
        secret: Option<PathBuf>,
        #[command(flatten)]
        key: Key,
        /// The whole configuration as a JSON file, instead of the options above.
        #[arg(long, conflicts_with_all = ["features", "arms", "lambda", "alpha", "horizon", "unanswered", "schedule"])]
        config: Option<PathBuf>,
        /// A policy in the clear, one of `policies`, instead of encrypted HELBA.
        #[arg(long, conflicts_with_all = ["config", "features", "arms", "lambda", "alpha", "horizon", "unanswered", "schedule"])]
        policy: Option<String>,
        /// Its parameters, a JSON object such as {"arms": 5, "epsilon": 1.0}.
        #[arg(long, value_name = "JSON")]
        parameters: Option<String>,
    },
    /// Lists the policies that the server offers, with an example of each.
    Policies {
        #[command(flatten)]
        server: Server,
    },
    /// Asks for a decision, prints the arm to play, and keeps what the feedback will need in a file. Without
    /// a secret bundle it asks a bandit in the clear and prints its answer.
    Decide {
        #[command(flatten)]
        server: Server,
        /// The bandit's id.
        #[arg(long)]
        bandit: String,
        /// The secret bundle, for encrypted bandits.
        #[arg(long, requires = "contexts")]
        secret: Option<PathBuf>,
        /// Comma-separated features, a line an arm, no header.
        #[arg(long)]
        contexts: Option<PathBuf>,
        /// Where the decision waits for its reward [default: the contexts' name with .pending].
        #[arg(long, requires = "secret")]
        pending: Option<PathBuf>,
        #[command(flatten)]
        key: Key,
    },
    /// Returns the reward of a pending decision, then deletes its file; or, with `--decision`, what came of a
    /// decision in the clear.
    Feedback {
        /// The file that `decide` made.
        #[arg(long)]
        pending: Option<PathBuf>,
        /// The secret bundle.
        #[arg(long)]
        secret: Option<PathBuf>,
        #[command(flatten)]
        key: Key,
        /// The arm that was played, if it was not the one proposed.
        #[arg(long, requires = "pending")]
        arm: Option<usize>,
        /// Certificates in PEM that vouch for the server, instead of the usual authorities.
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
        /// In the clear: the server's address, https://HOST:PORT or http://HOST:PORT.
        #[arg(long = "server", value_name = "URL", conflicts_with = "pending")]
        url: Option<String>,
        /// In the clear: file with the operator's token, where the server has one.
        #[arg(long, value_name = "FILE", conflicts_with = "pending")]
        token_file: Option<PathBuf>,
        /// In the clear: the bandit's id.
        #[arg(long, conflicts_with = "pending")]
        bandit: Option<String>,
        /// In the clear: the decision's id.
        #[arg(long, conflicts_with = "pending")]
        decision: Option<String>,
        #[command(flatten)]
        outcome: Outcome,
    },
    /// Lists the server's bandits that the token admits to: id, and policy or size.
    List {
        #[command(flatten)]
        server: Server,
        /// The secret bundle, whose token admits to encrypted bandits.
        #[arg(long)]
        secret: Option<PathBuf>,
        #[command(flatten)]
        key: Key,
    },
    /// Deletes a bandit and all that it has learned.
    Delete {
        #[command(flatten)]
        server: Server,
        /// The bandit's id.
        #[arg(long)]
        bandit: String,
        /// The secret bundle, whose token admits to encrypted bandits.
        #[arg(long)]
        secret: Option<PathBuf>,
        #[command(flatten)]
        key: Key,
    },
    /// Shows where a bandit stands.
    Status {
        #[command(flatten)]
        server: Server,
        /// The bandit's id.
        #[arg(long)]
        bandit: String,
        /// The secret bundle, whose token admits to encrypted bandits.
        #[arg(long)]
        secret: Option<PathBuf>,
        #[command(flatten)]
        key: Key,
    },
    /// Plays a file of purchases, round by round: propose a brand, earn 1 if it was the one bought.
    Replay {
        #[command(flatten)]
        server: Server,
        /// The secret bundle.
        #[arg(long)]
        secret: PathBuf,
        /// The purchases.
        #[arg(long)]
        data: PathBuf,
        /// Stop after so many rounds.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        rounds: Option<u64>,
        /// A bandit that is there already [default: a new one].
        #[arg(long, conflicts_with_all = ["lambda", "alpha", "horizon", "unanswered", "schedule"])]
        bandit: Option<String>,
        #[command(flatten)]
        tuning: Tuning,
        #[command(flatten)]
        key: Key,
    },
}

/// How the secret bundle is used.
#[derive(Args)]
pub(crate) struct Key {
    /// Takes a bundle of toy keys, which protect nothing: for tests.
    #[arg(long)]
    pub(crate) toy: bool,
    /// File whose first line is the passphrase that the secret bundle is sealed by.
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Trace answers that this device gives under its key, for bandits of schedule trace_or_growth: each is
    /// one bit of a decryption. At most what the parameters allow, up to 1000; devices that share a key share
    /// that number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) trace_answers: u64,
}

/// When a batch of an encrypted bandit ends.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Rule {
    /// By the numbers of rounds alone: nobody is asked.
    GrowthOrEvery,
    /// The paper's: by the batch's trace, about which each answer tells the server one bit of a decryption.
    TraceOrGrowth,
}

/// What the policy learns from, one of these; from -1 to 1 if encrypted.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Outcome {
    /// What was earned.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) reward: Option<f64>,
    /// What each arm would have earned, separated by commas.
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true)]
    pub(crate) rewards: Option<Vec<f64>>,
    /// The sum of all that arrived since the decision before.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) sum: Option<f64>,
    /// The reward as the user's randomiser sends it: the residue that the decision's `awaited` describes.
    #[arg(long)]
    pub(crate) share: Option<u64>,
}

#[derive(Args)]
pub(crate) struct Server {
    /// The server's address, https://HOST:PORT or http://HOST:PORT.
    #[arg(long = "server", value_name = "URL")]
    pub(crate) url: String,
    /// Certificates in PEM that vouch for the server, instead of the usual authorities: for https with an
    /// authority of one's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// File with the operator's token: 64 hexadecimal digits.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// What is most often changed; the rest is in `--config`.
#[derive(Args)]
pub(crate) struct Tuning {
    /// Ridge regularisation [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) lambda: Option<f64>,
    /// The confidence width, constant [default: 0.5].
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) alpha: Option<f64>,
    /// Rounds the numeric scaling is made for [default: 1000; the file's when replayed].
    #[arg(long)]
    pub(crate) horizon: Option<u64>,
    /// Feedbacks that may wait for the answer to their trace condition [default: 4].
    #[arg(long)]
    pub(crate) unanswered: Option<u64>,
    /// When a batch ends, and inverse and estimate are computed anew [default: growth_or_every].
    #[arg(long)]
    pub(crate) schedule: Option<Rule>,
}

impl Tuning {
    pub(crate) fn apply(&self, config: &mut BanditConfig) {
        config.linear.lambda = self.lambda.unwrap_or(config.linear.lambda);
        config.horizon = self.horizon.unwrap_or(config.horizon);
        config.unanswered = self.unanswered.unwrap_or(config.unanswered);
        if let Some(Rule::TraceOrGrowth) = self.schedule {
            config.linear.schedule = Schedule::TraceOrGrowth;
        }
        if let Some(alpha) = self.alpha {
            config.linear.width = Width::Constant { alpha };
        }
    }
}
