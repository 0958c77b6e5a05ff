//! The command line of `helba-client`.

use bandit::{Schedule, WidthShape};
use clap::{Args, Parser, Subcommand, ValueEnum};
use protocol::{Answers, BanditConfig, Counters};
use std::path::PathBuf;
use user_client::{Device, ServerOptions};

/// Plays bandits on a server: creates them, asks for decisions and returns rewards.
///
/// Contexts and rewards of an encrypted bandit are encrypted on this device. A bandit with a clear policy
/// lets the server read them, under the privacy that its policy states.
#[derive(Parser)]
#[command(version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Prints one JSON value to stdout instead of text. Notices go to stderr.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The most sessions of a batch.
const MOST_SESSIONS: i64 = shares::talk::Rules::MOST_SESSIONS as i64;

/// What a user of a committee does.
#[derive(Subcommand)]
pub(crate) enum CommitteeCommand {
    /// Begins a session of this device with the committee of a server, and keeps it in a file.
    Begin {
        #[command(flatten)]
        server: ServerOptions,
        /// Id of the committee, as its members print it, 64 hexadecimal digits.
        #[arg(long, value_name = "ID")]
        committee: String,
        /// New file for the session, which is secret.
        #[arg(long, value_name = "FILE")]
        session: PathBuf,
    },
    /// Creates a bandit of the committee and prints its id.
    Create {
        #[command(flatten)]
        server: ServerOptions,
        /// Number of features of an arm, d.
        #[arg(long)]
        features: usize,
        /// Number of arms, K.
        #[arg(long)]
        arms: usize,
        #[command(flatten)]
        tuning: Tuning,
        /// The least number of sessions whose feedback a batch has, so that nobody is alone in it. 1 is no
        /// bound: for a bandit with few users, and for one that is to `learn`.
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=MOST_SESSIONS))]
        sessions: u16,
        /// The most decisions of a session between two batches.
        #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
        decisions: u16,
        /// Name of the bandit, of at most 100 characters, which the server reads.
        #[arg(long)]
        name: Option<String>,
    },
    /// Asks for a decision and prints the arm to play and the decision.
    Decide {
        #[command(flatten)]
        user: SessionOptions,
        /// CSV file of the features, one line for each arm, without a header; - reads stdin.
        #[arg(long)]
        contexts: PathBuf,
    },
    /// Returns the reward of a decision, which is that of the decided arm: members keep the features of that
    /// arm alone. If another arm was played, return no feedback, and have the round learnt with `learn`.
    Feedback {
        #[command(flatten)]
        user: SessionOptions,
        /// The decision, as `decide` prints it.
        #[arg(long, value_name = "DECISION")]
        decision: String,
        /// The reward, of the range of --rewards if the bandit was created with it, else from -1 to 1.
        #[arg(long, allow_hyphen_values = true)]
        reward: f64,
    },
    /// Has a bandit with --sessions 1 and without counters learn logged rounds, and prints for each round its
    /// decision, by which it can be erased.
    ///
    /// Of logged decisions, the candidate that was played is learnt with its reward; of choices, every
    /// candidate, with reward 1 for the one that was chosen and 0 for the others. Each round takes as long as
    /// a decision, and the server does not see which rounds were logged. After a failure, return the reward
    /// of the last printed round with `feedback`, which refuses it if it is there already, and run `learn`
    /// again with --from and the place after it.
    Learn {
        #[command(flatten)]
        user: SessionOptions,
        /// File of choices or logged decisions.
        #[arg(long)]
        data: PathBuf,
        /// Schema of the file, as `data check` proposes one.
        #[arg(long)]
        schema: Option<PathBuf>,
        /// Transformation that the bandit's devices use, as `data transform` printed it from other rounds.
        /// A schema with a score needs one: a score that these rounds taught knows their rewards.
        #[arg(long, value_name = "FILE", requires = "schema")]
        transform: Option<PathBuf>,
        /// Place of the first round to learn, as `learn` prints places.
        #[arg(long, default_value_t = 0, value_name = "PLACE")]
        from: usize,
    },
    /// Prints the counters of a bandit that members have opened: how often all devices together played each
    /// arm, and its mean reward. The bandit must have been created with counters.
    Counters {
        #[command(flatten)]
        server: ServerOptions,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
        /// Arm that the others are compared with, from 0: the one that was shown before there was a bandit.
        #[arg(long, value_name = "ARM")]
        baseline: Option<usize>,
    },
    /// Has the reward of a decision erased: the model after the next update has nothing of it. After the
    /// committee has moved, rewards from before can no longer be erased.
    Erase {
        #[command(flatten)]
        user: SessionOptions,
        /// The decision, as `decide` prints it.
        #[arg(long, value_name = "DECISION")]
        decision: String,
    },
}

/// The session of a user, and the bandit that a command is about.
#[derive(Args)]
pub(crate) struct SessionOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// File of the session, as `begin` writes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) session: PathBuf,
    /// Id of the bandit.
    #[arg(long)]
    pub(crate) bandit: String,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// A bandit of a committee: begins a session, creates a bandit, decides, returns and erases rewards,
    /// learns logged rounds, prints counters.
    Committee {
        #[command(subcommand)]
        command: CommitteeCommand,
    },
    /// Makes a key of your own and the request to enrol you, where users have keys of their own.
    User {
        /// New file for the secret. Only its owner can read it.
        #[arg(long, value_name = "FILE")]
        secret: PathBuf,
        /// New file for the request, which the owner of the keys gets. It has no secret.
        #[arg(long, value_name = "FILE")]
        request: PathBuf,
    },
    /// Creates a bandit and prints its id.
    Create {
        #[command(flatten)]
        caller: Caller,
        /// Number of features of an arm, d. Keys fit every d that rounds up to the same power of two.
        #[arg(long)]
        features: Option<usize>,
        /// Number of arms, K. Keys fit every K that rounds up to the same power of two.
        #[arg(long)]
        arms: Option<usize>,
        #[command(flatten)]
        tuning: Tuning,
        /// JSON file with the whole configuration, instead of the options above.
        #[arg(long, conflicts_with_all = ["features", "arms", "lambda", "alpha", "width", "rewards", "horizon", "unanswered", "schedule", "answers", "open_model", "counters", "discount", "window"])]
        config: Option<PathBuf>,
        /// Name of a clear policy, as `policies` lists them, instead of encrypted HELBA.
        #[arg(long, conflicts_with_all = ["config", "features", "arms", "lambda", "alpha", "width", "rewards", "horizon", "unanswered", "schedule", "answers", "open_model", "counters", "discount", "window", "secret"])]
        policy: Option<String>,
        /// Parameters of the policy, as a JSON object such as {"arms": 5, "epsilon": 1.0}.
        #[arg(long, value_name = "JSON")]
        parameters: Option<String>,
        /// Name of the bandit, of at most 100 characters, which the server reads.
        #[arg(long)]
        name: Option<String>,
        /// Tag of the bandit, of at most 50 characters. May be given up to 16 times.
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
    },
    /// Lists the policies that the server offers, with an example of each.
    Policies {
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Asks for a decision and prints the arm to play.
    ///
    /// With a secret bundle, the bandit is an encrypted one, and the decision is kept in a file until its
    /// reward is returned. Without one, the bandit has a clear policy, and the server's answer is printed as
    /// JSON.
    Decide {
        #[command(flatten)]
        server: ServerOptions,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
        /// Secret bundle, for encrypted bandits.
        #[arg(long, requires = "contexts")]
        secret: Option<PathBuf>,
        /// CSV file of the features, one line for each arm, without a header; - reads stdin. The line of an
        /// arm that is closed, and not to be played, is the word null.
        #[arg(long)]
        contexts: Option<PathBuf>,
        /// File that keeps the decision until its reward is returned [default: the name of the contexts with
        /// .pending]. With --contexts - it must be given.
        #[arg(long, requires = "secret")]
        pending: Option<PathBuf>,
        #[command(flatten)]
        opening: BundleOptions,
        #[command(flatten)]
        repeats: Repeats,
    },
    /// Returns the reward of a decision.
    ///
    /// `--pending` names the file that `decide` wrote for an encrypted bandit; it is deleted when the server
    /// has counted the reward. `--server`, `--bandit` and `--decision` name the decision of a clear policy.
    Feedback {
        /// File that `decide` wrote.
        #[arg(long)]
        pending: Option<PathBuf>,
        /// Secret bundle, for encrypted bandits.
        #[arg(long)]
        secret: Option<PathBuf>,
        #[command(flatten)]
        opening: BundleOptions,
        #[command(flatten)]
        answers: TraceAnswers,
        /// Arm that was played, if it is not the one that `decide` printed.
        #[arg(long, requires = "pending")]
        arm: Option<usize>,
        /// PEM file of the certificate authorities to trust, instead of those that browsers trust.
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
        /// Clear policies: address of the server, https://HOST:PORT or http://HOST:PORT.
        #[arg(long = "server", value_name = "URL", conflicts_with = "pending")]
        url: Option<String>,
        /// File with an API token or the operator's token, 64 hexadecimal digits, instead of the token of the
        /// bundle.
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
        /// Clear policies: id of the bandit.
        #[arg(long, conflicts_with = "pending")]
        bandit: Option<String>,
        /// Clear policies: id of the decision.
        #[arg(long, conflicts_with = "pending")]
        decision: Option<String>,
        #[command(flatten)]
        outcome: Outcome,
    },
    /// Lists the bandits of the server that the token gives access to, with their policy or size.
    List {
        #[command(flatten)]
        caller: Caller,
        /// Lists bandits with this name alone.
        #[arg(long)]
        name: Option<String>,
        /// Lists bandits with this tag alone.
        #[arg(long)]
        tag: Option<String>,
    },
    /// Changes the name and the tags of a bandit, which the server reads. What is not given stays.
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Label {
        #[command(flatten)]
        caller: Caller,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
        /// Name of at most 100 characters.
        #[arg(long, group = "change")]
        name: Option<String>,
        /// Removes the name.
        #[arg(long, group = "change", conflicts_with = "name")]
        no_name: bool,
        /// Tag of at most 50 characters, in place of those before. May be given up to 16 times.
        #[arg(long = "tag", value_name = "TAG", group = "change")]
        tags: Vec<String>,
        /// Removes all tags.
        #[arg(long, group = "change", conflicts_with = "tags")]
        no_tags: bool,
    },
    /// Writes the model of an encrypted bandit in the clear, as JSON, to a new file that only its owner can
    /// read. Keep it from the server, and from its operator.
    Export {
        #[command(flatten)]
        server: ServerOptions,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
        /// Secret bundle.
        #[arg(long)]
        secret: PathBuf,
        /// The file.
        #[arg(long)]
        output: PathBuf,
        #[command(flatten)]
        opening: BundleOptions,
    },
    /// Copies an encrypted bandit: the copy begins with its sums and model, and learns by itself.
    Copy {
        #[command(flatten)]
        caller: Caller,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
        /// What the configuration of the copy has instead, as JSON:
        /// '{"linear": {"width": {"constant": {"alpha": 0.1}}}}'.
        #[arg(long, value_name = "JSON", default_value = "{}")]
        changes: String,
        /// Name of at most 100 characters.
        #[arg(long)]
        name: Option<String>,
        /// Tag of at most 50 characters. May be given up to 16 times.
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
    },
    /// Freezes an encrypted bandit: it decides with the model that it has, and refuses rewards until `thaw`.
    Freeze {
        #[command(flatten)]
        caller: Caller,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
    },
    /// Thaws a bandit that was frozen: it learns again.
    Thaw {
        #[command(flatten)]
        caller: Caller,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
    },
    /// Erases the reward of a decision of an encrypted bandit: the model after the next batch has nothing of
    /// it.
    Erase {
        #[command(flatten)]
        caller: Caller,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
        /// Id of the decision, as `feedback` printed it.
        #[arg(long)]
        decision: String,
    },
    /// Has a new encrypted bandit learn what was logged before it, in bulk: up to 1000 rounds in each
    /// request.
    ///
    /// Of logged decisions, the candidate that was played is learnt with its reward; of choices, every
    /// candidate, with reward 1 for the one that was chosen and 0 for the others. The rounds count as
    /// feedback, and single ones of them cannot be erased. Tasks of the bandit are answered until its model
    /// has them.
    Learn {
        #[command(flatten)]
        server: ServerOptions,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
        /// Secret bundle.
        #[arg(long)]
        secret: PathBuf,
        /// File of choices or logged decisions.
        #[arg(long)]
        data: PathBuf,
        /// Schema of the file, as `data check` proposes one.
        #[arg(long)]
        schema: Option<PathBuf>,
        /// Transformation that the bandit's devices use, as `data transform` printed it from other rounds.
        /// A schema with a score needs one: a score that these rounds taught knows their rewards.
        #[arg(long, value_name = "FILE", requires = "schema")]
        transform: Option<PathBuf>,
        /// Name of these rounds, of your choice: what was learnt by the same name is not learnt again,
        /// as long as it is among the last 4096 requests, of 1000 rounds each [default: a random one].
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        opening: BundleOptions,
    },
    /// Deletes a bandit and everything that it has learnt.
    Delete {
        #[command(flatten)]
        caller: Caller,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
    },
    /// Prints a bandit as it was created, its counters, and the phase of its batch.
    Status {
        #[command(flatten)]
        caller: Caller,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
    },
    /// Checks, converts and evaluates files of choices or logged decisions, without a server.
    Data {
        #[command(subcommand)]
        command: DataCommand,
    },
    /// Answers what an encrypted bandit waits for, until nothing waits: raises the sum of a batch that has
    /// ended, and encrypts the updated model anew. Without a raiser, devices do this with their decisions.
    Refresh {
        #[command(flatten)]
        server: ServerOptions,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
        /// Secret bundle.
        #[arg(long)]
        secret: PathBuf,
        #[command(flatten)]
        opening: BundleOptions,
    },
    /// Opens the counters of an encrypted bandit: how often all devices together played each arm, and its
    /// mean reward. The bandit must have been created with counters.
    Counters {
        #[command(flatten)]
        server: ServerOptions,
        /// Id of the bandit.
        #[arg(long)]
        bandit: String,
        /// Secret bundle.
        #[arg(long)]
        secret: PathBuf,
        /// Arm that the others are compared with, from 0: the one that was shown before there was a bandit.
        #[arg(long, value_name = "ARM")]
        baseline: Option<usize>,
        #[command(flatten)]
        opening: BundleOptions,
    },
    /// Plays a file of rounds whose rewards are all known: proposes a candidate, and earns its reward. In a
    /// file of purchases, that is 1 for the brand that was bought, else 0. At the end it compares the mean
    /// reward with those of exact arithmetic, of the best fixed candidate and of a uniform choice in the same
    /// rounds.
    Replay(Box<ReplayArguments>),
}

/// What `replay` plays, and where.
#[derive(Args)]
pub(crate) struct ReplayArguments {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Secret bundle.
    #[arg(long)]
    pub(crate) secret: PathBuf,
    /// File of the rounds: purchases in the layout of data/README.md, a file that `data convert` wrote, or
    /// with --schema any other.
    #[arg(long)]
    pub(crate) data: PathBuf,
    /// Schema of the file, as `data check` proposes one.
    #[arg(long)]
    pub(crate) schema: Option<PathBuf>,
    /// Transformation of another file, such as one of earlier rounds, as `data transform` prints it.
    /// Nothing is then learnt from this one.
    #[arg(long, value_name = "FILE", requires = "schema")]
    pub(crate) transform: Option<PathBuf>,
    /// Number of the last round to play, from 1 [default: the last of the file].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: Option<u64>,
    /// Id of an existing bandit [default: a new one].
    #[arg(long, conflicts_with_all = ["lambda", "alpha", "width", "rewards", "horizon", "unanswered", "schedule", "answers", "open_model", "counters", "discount", "window"])]
    pub(crate) bandit: Option<String>,
    /// Goes on where the bandit stands: leaves out as many rounds of the file as it has counted feedbacks.
    #[arg(long, requires = "bandit")]
    pub(crate) resume: bool,
    /// Seconds for which a request is repeated, with growing pauses, while the server cannot answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) patience: u64,
    /// Draws the mean reward up to each round as SVG to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
    #[command(flatten)]
    pub(crate) opening: BundleOptions,
    #[command(flatten)]
    pub(crate) answers: TraceAnswers,
    #[command(flatten)]
    pub(crate) repeats: Repeats,
}

/// What is done with a file of choices or logged decisions. docs/data.md describes layouts and schemas.
#[derive(Subcommand)]
pub(crate) enum DataCommand {
    /// Says what a schema makes of a file: rounds dropped and why, missing values, constant features, leakage
    /// suspects, what a projection loses. Without a schema, proposes one on stdout.
    Check {
        /// CSV, JSON lines (dsjson) or Parquet, also packed by gzip or zstd; - reads stdin.
        file: PathBuf,
        /// Schema, a TOML file.
        #[arg(long)]
        schema: Option<PathBuf>,
        /// Transformation of another file, such as one of earlier rounds, as `data transform` prints it.
        /// Nothing is then learnt from this one.
        #[arg(long, value_name = "FILE", requires = "schema")]
        transform: Option<PathBuf>,
    },
    /// Writes features and rewards as CSV, which `replay`, the quickstart and `helba-lab` read.
    Convert {
        /// CSV, JSON lines (dsjson) or Parquet, also packed by gzip or zstd; - reads stdin.
        file: PathBuf,
        /// Schema, a TOML file.
        #[arg(long)]
        schema: PathBuf,
        /// Transformation of another file, such as one of earlier rounds, as `data transform` prints it.
        /// Nothing is then learnt from this one.
        #[arg(long, value_name = "FILE", requires = "schema")]
        transform: Option<PathBuf>,
        /// File to write.
        #[arg(long)]
        output: PathBuf,
    },
    /// Prints the transformation that a schema learns from a file, as one JSON object. An agent takes it as
    /// `transform` when a bandit is created, and computes the features of named values by it.
    Transform {
        /// CSV, JSON lines (dsjson) or Parquet, also packed by gzip or zstd; - reads stdin.
        file: PathBuf,
        /// Schema, a TOML file.
        #[arg(long)]
        schema: PathBuf,
        /// Learns score features from the rewards of the file: a prediction of the reward, and which
        /// candidate it is. The same as score = {} in place of a projection in the schema.
        #[arg(long)]
        supervised: bool,
        /// Adds noise to what is learnt from rewards, so that the transformation is (epsilon,
        /// delta)-differentially private with respect to the rewards of one round. Needs a score.
        #[arg(long, requires = "delta")]
        epsilon: Option<f64>,
        /// Delta of the noise, far below 1 divided by the number of rounds.
        #[arg(long, requires = "epsilon")]
        delta: Option<f64>,
        /// The schema's reward_range does not follow from the rewards of the file, so that it may be
        /// published.
        #[arg(long, requires = "epsilon")]
        public_reward_range: bool,
    },
    /// Writes a log of visits to a made-up shop, and beside it the expected reward of every candidate. Prints
    /// the schema that reads the log.
    Generate {
        /// The log to write, CSV.
        file: PathBuf,
        /// File for the expected reward, and the reward, of every candidate in each round.
        #[arg(long)]
        truth: PathBuf,
        /// Number of rounds.
        #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
        rounds: u64,
        /// Seed of the visits. The population is the same for all seeds.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Plays every policy that fits a file, and compares: by replay where all rewards are known, else by
    /// estimates from logged actions with their probabilities.
    Evaluate(Box<EvaluateArguments>),
}

/// What is evaluated, and what is written.
#[derive(Args)]
pub(crate) struct EvaluateArguments {
    /// CSV, JSON lines (dsjson) or Parquet, also packed by gzip or zstd; - reads stdin.
    pub(crate) file: PathBuf,
    /// Schema, a TOML file. Files in the layout of data/README.md and those of `data convert` need none.
    #[arg(long)]
    pub(crate) schema: Option<PathBuf>,
    /// Transformation of another file, such as one of earlier rounds, as `data transform` prints it. Nothing
    /// is then learnt from this one.
    #[arg(long, value_name = "FILE", requires = "schema")]
    pub(crate) transform: Option<PathBuf>,
    /// Names of policies, separated by commas, here or in other libraries (linucb) [default: all that fit].
    #[arg(long, value_delimiter = ',')]
    pub(crate) policies: Vec<String>,
    /// Epsilon of the policies that have one.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) epsilon: f64,
    /// Number of runs of each policy, each with the rounds in another order and other random draws.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=1000))]
    pub(crate) seeds: u64,
    /// Number of rounds, from the first [default: all of the file].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: Option<u64>,
    /// Values of a parameter to try, as in `alpha=0.25,0.5,1`. With several, every combination is tried, and
    /// the comparison counts each as a policy.
    #[arg(long, value_name = "NAME=VALUES", value_parser = parse_grid)]
    pub(crate) grid: Vec<(String, Vec<f64>)>,
    /// Column with the candidate that a rule of your own picks, to compare policies with.
    #[arg(long, value_name = "COLUMN", requires = "schema")]
    pub(crate) policy_column: Option<String>,
    /// File for what each policy picked in each round and run, as CSV.
    #[arg(long)]
    pub(crate) decisions: Option<PathBuf>,
    /// Draws the mean up to each round as SVG to this file.
    #[arg(long)]
    pub(crate) plot: Option<PathBuf>,
}

/// The values of a parameter, `name=1,2,3`.
fn parse_grid(text: &str) -> Result<(String, Vec<f64>), String> {
    let wrong = || format!("{text:?} is no parameter with values: write it as alpha=0.25,0.5,1");
    let (name, values) = text.split_once('=').ok_or_else(wrong)?;
    let value =
        |value: &str| value.trim().parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(wrong);
    Ok((name.trim().into(), values.split(',').map(value).collect::<Result<_, _>>()?))
}

/// A server, and the secret bundle whose token requests carry.
#[derive(Args)]
pub(crate) struct Caller {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Secret bundle, whose token gives access to encrypted bandits.
    #[arg(long)]
    pub(crate) secret: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) opening: BundleOptions,
}

/// Options for opening the secret bundle.
#[derive(Args)]
pub(crate) struct BundleOptions {
    /// Accepts a bundle of toy keys, which protect nothing. For tests.
    #[arg(long)]
    pub(crate) toy: bool,
    /// File whose first line is the passphrase of the secret bundle.
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// User's bundle, as the owner of the keys made it of your request (`helba-keygen enrol`), where users
    /// have keys of their own. --secret is then your own secret, as `user` made it.
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_file")]
    pub(crate) user: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct TraceAnswers {
    /// Number of trace questions that this device answers under its key, for bandits with the schedule
    /// trace_or_growth. Each answer tells the server one bit of a decryption. The parameters bound the
    /// number, by at most 1000, and devices that share a key share the bound.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) trace_answers: u64,
}

#[derive(Args)]
pub(crate) struct Repeats {
    /// Number of decisions under the key of this device to which it asks for another answer, where the last
    /// one cannot be relied on. Each request tells the server a bit of a decryption. The parameters bound the
    /// number, by at most 55, and devices that share a key, and all users with keys of their own, share the
    /// bound [default: 5, and 0 with --user].
    #[arg(long, value_name = "N")]
    pub(crate) repeats: Option<u64>,
}

impl Repeats {
    /// The device, which asks again as often as was said.
    pub(crate) fn allow(&self, device: Device) -> Device {
        match self.repeats {
            Some(most) => device.with_most_repeats(most),
            None => device,
        }
    }
}

/// The rule by which a batch of an encrypted bandit ends.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Rule {
    /// By the number of feedbacks. No device answers a question.
    GrowthOrEvery,
    /// By the trace of the batch, as in the paper. Each answer of a device tells the server one bit of a
    /// decryption.
    TraceOrGrowth,
}

/// The feedback, exactly one of these. An encrypted bandit takes a reward from -1 to 1.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Outcome {
    /// Reward of the arm that was played.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) reward: Option<f64>,
    /// Rewards of all arms, separated by commas.
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true)]
    pub(crate) rewards: Option<Vec<f64>>,
    /// Sum of all rewards that arrived since the decision before.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) sum: Option<f64>,
    /// Output of the user's randomiser: the residue that `awaited` in the decision describes.
    #[arg(long)]
    pub(crate) share: Option<u64>,
}

/// The heading of options that a bandit of a committee has not.
const OF_KEYS: &str = "Options of encrypted bandits, which a committee refuses";

/// The parameters that are changed most often. `--config` sets all of them.
#[derive(Args)]
pub(crate) struct Tuning {
    /// Regularisation of the ridge estimate [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) lambda: Option<f64>,
    /// How much is explored, in units of the reward. The arm with the largest prediction + alpha ·
    /// uncertainty is played, and the uncertainty of an arm shrinks as rewards of arms with such features
    /// come. 0 explores nothing, and a larger number explores longer [default: half of the range of
    /// --rewards, or all of it with --width root].
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) alpha: Option<f64>,
    /// What uncertainty is: the tangent of a root, which grows for an arm that is not played, or the root
    /// itself, which locks in on one arm if alpha is too small [default: tangent].
    #[arg(long)]
    pub(crate) width: Option<Shape>,
    /// The least and the largest reward, within −1 and 1. If they are given, devices of a committee's bandit
    /// refuse others [default: 0,1].
    #[arg(long, value_name = "LOW,HIGH", value_delimiter = ',', num_args = 1, allow_hyphen_values = true)]
    pub(crate) rewards: Vec<f64>,
    /// Number of rounds that the encrypted statistics are scaled for. Learning goes on beyond it, with less
    /// precision [default: 1000; for `replay`, the rounds of the file].
    #[arg(long, help_heading = OF_KEYS)]
    pub(crate) horizon: Option<u64>,
    /// With the schedule trace_or_growth: number of feedbacks that a batch still takes while it waits for a
    /// device to say whether it ends. If no device says it, one more ends the batch, and the model is updated
    /// [default: 4].
    #[arg(long, help_heading = OF_KEYS)]
    pub(crate) unanswered: Option<u64>,
    /// Rule by which a batch ends; then the inverse and the estimate are computed. A committee has
    /// growth_or_every alone [default: growth_or_every].
    #[arg(long)]
    pub(crate) schedule: Option<Rule>,
    /// What a device learns from a decision [default: arm].
    #[arg(long, help_heading = OF_KEYS)]
    pub(crate) answers: Option<Learnt>,
    /// States that everyone who holds the key may see the model. `--answers scores` needs it, because the
    /// model can be computed from scores.
    #[arg(long, requires = "answers", help_heading = OF_KEYS)]
    pub(crate) open_model: bool,
    /// Adds counters per arm: plays and rewards of all devices together, over whole groups of N feedbacks
    /// [default without N: 100]. Holders of the key open them with `counters`. Members open those of a
    /// committee, whose N is at least 10 and not less than --sessions.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "100")]
    pub(crate) counters: Option<u64>,
    /// Rho of the noise that the server adds to the counters of each group (zero-concentrated differential
    /// privacy of one feedback). Without it they are exact.
    #[arg(long, value_name = "RHO", requires = "counters", help_heading = OF_KEYS)]
    pub(crate) counters_rho: Option<f64>,
    /// Factor by which a feedback counts less with each feedback after it, so that the bandit follows rewards
    /// that drift: 0.999 halves it in 693 feedbacks [default: 1].
    #[arg(long, value_name = "GAMMA", help_heading = OF_KEYS)]
    pub(crate) discount: Option<f64>,
    /// Number of feedbacks after which a feedback counts no more.
    #[arg(long, value_name = "N", help_heading = OF_KEYS)]
    pub(crate) window: Option<u64>,
}

/// The shape of the confidence width.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Shape {
    /// alpha·z/(2s), for z = xᵀAx and a public s that falls with the rounds.
    Tangent,
    /// alpha·√z.
    Root,
}

/// What a device learns from a decision.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Learnt {
    /// Its arm.
    Arm,
    /// The scores of its arms, from which the model can be computed. The server evaluates no deep circuit.
    Scores,
}

impl Tuning {
    /// The options that were given and that a bandit of a committee has not.
    pub(crate) fn of_keys(&self) -> Vec<&'static str> {
        let traces = matches!(self.schedule, Some(Rule::TraceOrGrowth));
        let given = [
            ("--horizon", self.horizon.is_some()),
            ("--unanswered", self.unanswered.is_some()),
            ("--schedule trace_or_growth", traces),
            ("--answers", self.answers.is_some()),
            ("--open-model", self.open_model),
            ("--counters-rho", self.counters_rho.is_some()),
            ("--discount", self.discount.is_some()),
            ("--window", self.window.is_some()),
        ];
        given.into_iter().filter_map(|(option, given)| given.then_some(option)).collect()
    }

    pub(crate) fn apply(&self, config: &mut BanditConfig) -> anyhow::Result<()> {
        config.linear.lambda = self.lambda.unwrap_or(config.linear.lambda);
        config.horizon = self.horizon.unwrap_or(config.horizon);
        config.open_model = self.open_model;
        config.counters = self.counters.map(|every| Counters { every, rho: self.counters_rho });
        config.unanswered = self.unanswered.unwrap_or(config.unanswered);
        (config.discount, config.window) = (self.discount, self.window);
        if let Some(Rule::TraceOrGrowth) = self.schedule {
            config.linear.schedule = Schedule::TraceOrGrowth;
        }
        config.answers = match self.answers {
            Some(Learnt::Scores) => Answers::Scores,
            Some(Learnt::Arm) => Answers::Arm,
            None => config.answers,
        };
        let rewards = match self.rewards[..] {
            [] => None,
            [low, high] => Some([low, high]),
            _ => anyhow::bail!("--rewards takes two numbers, such as --rewards 0,1"),
        };
        let shape = self.width.map(|width| match width {
            Shape::Tangent => WidthShape::Tangent,
            Shape::Root => WidthShape::Root,
        });
        *config = config.clone().exploring(shape, self.alpha, rewards)?;
        Ok(())
    }

    /// The length of the range of rewards.
    pub(crate) fn reward_range(&self) -> f64 {
        match self.rewards[..] {
            [low, high] => high - low,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;

    /// The words of a command of a shell up to its end, with variables in the place of their names.
    fn words(command: &str, variables: &BTreeMap<String, String>) -> Vec<String> {
        let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
        let mut text = command.to_string();
        for (name, value) in variables.iter().rev() {
            text = text.replace(&format!("${name}"), value);
        }
        for c in text.chars() {
            match (c, quote) {
                (c, Some(end)) if c == end => quote = None,
                ('\'' | '"', None) => (quote, begun) = (Some(c), true),
                ('>' | '|' | ';' | '&' | ')' | '`', None) => break,
                ('#', None) if word.is_empty() => break,
                (' ', None) => {
                    if begun || !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                    begun = false;
                }
                (c, _) => word.push(c),
            }
        }
        if begun || !word.is_empty() {
            words.push(word);
        }
        words
    }

    /// Whoever types a command of the documentation is not told that an argument is missing or unknown:
    /// commands in blocks, and those between backquotes that begin with the program and name a server.
    #[test]
    fn commands_of_the_documentation_are_complete() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut pages: Vec<PathBuf> =
            std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
        pages.retain(|page| page.extension().is_some_and(|e| e == "md"));
        pages.push(root.join("README.md"));
        let mut tried = 0;
        for page in pages {
            let text = std::fs::read_to_string(&page).unwrap().replace("\\\n", " ");
            let (mut inside, mut variables) = (false, BTreeMap::new());
            for line in text.lines() {
                if line.trim_start().starts_with("```") {
                    inside = !inside && line.trim_start().starts_with("```sh");
                    continue;
                }
                let inline = || line.match_indices("`helba-client ").map(|(at, _)| &line[at + 1..]);
                let commands: Vec<&str> = if inside {
                    if let Some((name, value)) = line.split_once('=')
                        && !name.contains(' ')
                        && !value.starts_with('$')
                    {
                        let end = if value.starts_with('"') { '"' } else { ' ' };
                        let value = value.trim_start_matches('"').split(end).next().unwrap_or_default();
                        variables.insert(name.trim().to_string(), value.to_string());
                    }
                    let code = line.split(" #").next().unwrap();
                    code.find("helba-client ").map(|at| &code[at..]).into_iter().collect()
                } else {
                    inline()
                        .filter(|command| command.split('`').next().unwrap().contains("--server"))
                        .collect()
                };
                for command in commands {
                    let words = words(command, &variables);
                    // What stands for more arguments; and a program that is built, and not run.
                    if words.iter().any(|word| word == "…") || words.len() < 2 {
                        continue;
                    }
                    tried += 1;
                    if let Err(error) = Arguments::try_parse_from(&words) {
                        panic!("{}: {line}\n{error}", page.display());
                    }
                }
            }
        }
        assert!(tried >= 40, "{tried} commands");
    }
}
