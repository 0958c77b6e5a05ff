//! `helba-client`: a device on the command line, one step at a time or a whole file of purchases.

use anyhow::{Context, bail};
use bandit::datasets::Purchases;
use bandit::{Schedule, Width};
use clap::{Args, Parser, Subcommand, ValueEnum};
use protocol::BanditConfig;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use user_client::{Client, Device, Error, Opening, Passphrase, Pending, os_rng, read_contexts};
use wire::{AccessToken, ClearFeedback, Created};

/// Asks a bandit for decisions and returns rewards: encrypted, or in the clear under the privacy that its policy states.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
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
    /// Asks for a decision, prints the arm to play, and keeps what the feedback will need in a file. Without a secret bundle
    /// it asks a bandit in the clear and prints its answer.
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
    /// Returns the reward of a pending decision, then deletes its file; or, with `--decision`, what came of a decision in the
    /// clear.
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
struct Key {
    /// Takes a bundle of toy keys, which protect nothing: for tests.
    #[arg(long)]
    toy: bool,
    /// File whose first line is the passphrase that the secret bundle is sealed by.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Trace answers that this device gives under its key, for bandits of schedule trace_or_growth: each is one bit of
    /// a decryption. At most what the parameters allow, up to 1000; devices that share a key share that number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    trace_answers: u64,
}

/// When a batch of an encrypted bandit ends.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Rule {
    /// By the numbers of rounds alone: nobody is asked.
    GrowthOrEvery,
    /// The paper's: by the batch's trace, about which each answer tells the server one bit of a decryption.
    TraceOrGrowth,
}

/// What the policy learns from, one of these; from -1 to 1 if encrypted.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Outcome {
    /// What was earned.
    #[arg(long, allow_negative_numbers = true)]
    reward: Option<f64>,
    /// What each arm would have earned, separated by commas.
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true)]
    rewards: Option<Vec<f64>>,
    /// The sum of all that arrived since the decision before.
    #[arg(long, allow_negative_numbers = true)]
    sum: Option<f64>,
    /// The reward as the user's randomiser sends it: the residue that the decision's `awaited` describes.
    #[arg(long)]
    share: Option<u64>,
}

#[derive(Args)]
struct Server {
    /// The server's address, https://HOST:PORT or http://HOST:PORT.
    #[arg(long = "server", value_name = "URL")]
    url: String,
    /// Certificates in PEM that vouch for the server, instead of the usual authorities: for https with an
    /// authority of one's own.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// File with the operator's token: 64 hexadecimal digits.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Server {
    /// A client that sends the operator's token, if one is given, or else that of the device.
    fn client(&self, device: Option<&Device>) -> anyhow::Result<Client> {
        connect(&self.url, self.ca.as_deref(), self.token_file.as_deref(), device)
    }
}

fn connect(
    url: &str,
    ca: Option<&Path>,
    token: Option<&Path>,
    device: Option<&Device>,
) -> anyhow::Result<Client> {
    let client = match ca {
        Some(ca) => Client::with_ca(url, ca)?,
        None => Client::new(url)?,
    };
    let token = match token {
        Some(path) => Some(AccessToken::open(path)?),
        None => device.map(|device| device.token().clone()),
    };
    Ok(match token {
        Some(token) => client.with_token(token),
        None => client,
    })
}

/// What is most often changed; the rest is in `--config`.
#[derive(Args)]
struct Tuning {
    /// Ridge regularisation [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    lambda: Option<f64>,
    /// The confidence width, constant [default: 0.5].
    #[arg(long, allow_negative_numbers = true)]
    alpha: Option<f64>,
    /// Rounds the numeric scaling is made for [default: 1000; the file's when replayed].
    #[arg(long)]
    horizon: Option<u64>,
    /// Feedbacks that may wait for the answer to their trace condition [default: 4].
    #[arg(long)]
    unanswered: Option<u64>,
    /// When a batch ends, and inverse and estimate are computed anew [default: growth_or_every].
    #[arg(long)]
    schedule: Option<Rule>,
}

impl Tuning {
    fn apply(&self, config: &mut BanditConfig) {
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

/// As `println!`, but an error that can be told when nobody reads on.
macro_rules! say {
    ($($text:tt)*) => { writeln!(std::io::stdout(), $($text)*)? };
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has read enough.
        Err(e) if e.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("helba-client: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Create { server, policy: Some(policy), parameters, .. } => {
            if policy == "helba" {
                bail!("helba is not made with --policy: use --features and --arms, or --config FILE");
            }
            let parameters = serde_json::from_str(parameters.as_deref().unwrap_or("{}"))
                .context("--parameters is not a JSON object")?;
            let created = server.client(None)?.create_policy(&policy, parameters)?;
            eprintln!("{}", created.privacy.statement);
            say!("{}", created.id);
        }
        Command::Policies { server } => {
            for card in server.client(None)?.policies()? {
                say!("{}\n  {}", card.about, card.example);
            }
        }
        // What goes with what is said here in one line: the parser would ask for all of it.
        Command::Create { parameters: Some(_), .. } => {
            bail!("--parameters are those of a policy: give --policy NAME, one of `policies`")
        }
        Command::Create { features, arms, config: None, .. } if features.is_none() || arms.is_none() => {
            bail!(
                "give --policy NAME for a policy in the clear, or --features D and --arms K, or --config FILE"
            )
        }
        Command::Create { server, features, arms, tuning, config, secret, key, .. } => {
            let device = secret.as_deref().map(|path| device(path, &key)).transpose()?;
            let config = match config {
                Some(path) => read_config(&path)?,
                None => {
                    let mut config = BanditConfig::new(features.unwrap_or(0), arms.unwrap_or(0));
                    tuning.apply(&mut config);
                    config
                }
            };
            let created = server.client(device.as_ref())?.create_bandit(&config)?;
            label(&created);
            say!("{}", created.id);
        }
        Command::Decide { server, bandit, secret: Some(secret), contexts: Some(contexts), pending, key } => {
            let pending = pending.unwrap_or_else(|| contexts.with_extension("pending"));
            let device = device(&secret, &key)?;
            decide(&server.client(Some(&device))?, &bandit, &device, &contexts, &pending)?;
        }
        Command::Decide { server, bandit, contexts, .. } => {
            let rows =
                contexts.map(|path| read_contexts(open(&path)?).with_context(|| path.display().to_string()));
            let client = server.client(None)?;
            let decided = client.decide_clear(&bandit, rows.transpose()?);
            if matches!(decided, Err(Error::Refused(_))) && client.bandit(&bandit).is_ok() {
                bail!("bandit {bandit} is encrypted: give --secret FILE and --contexts FILE");
            }
            print(&decided?)?;
        }
        Command::Feedback { pending: Some(pending), secret: Some(secret), key, arm, ca, outcome, .. } => {
            let reward = outcome.reward.context("encrypted bandits take --reward")?;
            feedback(&pending, (&secret, &key), ca.as_deref(), reward, arm)?;
        }
        Command::Feedback {
            url: Some(url),
            bandit: Some(bandit),
            decision: Some(decision),
            token_file,
            ca,
            outcome,
            ..
        } => {
            let Outcome { reward, rewards, sum, share } = outcome;
            let feedback = ClearFeedback { reward, rewards, sum, share };
            let client = connect(&url, ca.as_deref(), token_file.as_deref(), None)?;
            print(&client.feedback_clear(&bandit, &decision, &feedback)?)?;
        }
        Command::Feedback { .. } => bail!(
            "give --pending FILE and --secret FILE, or, in the clear, --server URL, --bandit ID and --decision ID"
        ),
        Command::List { server, secret, key } => {
            let device = secret.as_deref().map(|path| device(path, &key)).transpose()?;
            for bandit in server.client(device.as_ref())?.bandits()? {
                say!("{}", line(&bandit));
            }
        }
        Command::Delete { server, bandit, secret, key } => {
            let device = secret.as_deref().map(|path| device(path, &key)).transpose()?;
            server.client(device.as_ref())?.delete(&bandit)?;
            eprintln!("deleted {bandit}");
        }
        Command::Status { server, bandit } => {
            let client = server.client(None)?;
            match client.bandit(&bandit) {
                Ok(view) => print(&view.status)?,
                // Not an encrypted one.
                Err(Error::BadAnswer(_)) => print(&client.policy(&bandit)?)?,
                Err(error) => return Err(error.into()),
            }
        }
        Command::Replay { server, secret, data, rounds, bandit, tuning, key } => {
            let purchases = Purchases::read(open(&data)?).with_context(|| data.display().to_string())?;
            let device = device(&secret, &key)?;
            let client = server.client(Some(&device))?;
            // Before a bandit is made that nobody could use.
            let served = client.keys()?.key_id;
            if served != device.key_id().to_string() {
                bail!(
                    "{} belongs to key {}, the server has key {served}: take the secret bundle made with its public one",
                    secret.display(),
                    device.key_id()
                );
            }
            let created = match bandit {
                Some(id) => client.bandit(&id)?.created,
                None => {
                    let mut config = BanditConfig::new(purchases.d(), purchases.brands().len());
                    config.horizon = purchases.rounds().len() as u64;
                    tuning.apply(&mut config);
                    client.create_bandit(&config)?
                }
            };
            label(&created);
            let all = purchases.rounds().len();
            let rounds = rounds.map_or(all, |rounds| all.min(usize::try_from(rounds).unwrap_or(all)));
            replay(&client, &device, &created, &purchases, rounds)?;
        }
    }
    Ok(())
}

/// A bandit in the list.
fn line(bandit: &serde_json::Value) -> String {
    let text = |field: &str| bandit[field].as_str().unwrap_or_default();
    match text("policy") {
        "" => {
            let linear = &bandit["config"]["linear"];
            let bits = match serde_json::from_value::<Schedule>(linear["schedule"].clone()) {
                Ok(schedule) if !schedule.is_public() => ", one bit of a decryption a feedback",
                _ => "",
            };
            format!("{}  helba, encrypted, {} features, {} arms{bits}", text("id"), linear["d"], linear["k"])
        }
        policy => format!("{}  {policy} {}", text("id"), bandit["parameters"]),
    }
}

fn print(answer: &impl serde::Serialize) -> anyhow::Result<()> {
    say!("{}", serde_json::to_string_pretty(answer)?);
    Ok(())
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    Ok(BufReader::new(File::open(path).with_context(|| format!("cannot open {}", path.display()))?))
}

fn read_config(path: &Path) -> anyhow::Result<BanditConfig> {
    serde_json::from_reader(open(path)?).with_context(|| format!("{} is not a configuration", path.display()))
}

fn decide(client: &Client, id: &str, device: &Device, contexts: &Path, pending: &Path) -> anyhow::Result<()> {
    let rows = read_contexts(open(contexts)?).with_context(|| contexts.display().to_string())?;
    let created = match client.bandit(id) {
        Err(Error::BadAnswer(_)) => bail!("bandit {id} is in the clear: ask without --secret"),
        view => view?.created,
    };
    label(&created);
    let body = device.encrypt_contexts(&created, &rows, &mut os_rng()?)?;
    // Before the server is asked: a decision whose reward cannot come back is lost.
    let mut file = Pending::reserve(pending)?;
    let asked = || -> anyhow::Result<usize> {
        let reply = client.decide(&created, &device.limits(&created)?, &body)?;
        let arm = device.read_decision(&created, &reply)?.arm;
        let waiting = Pending { server: client.server().into(), created, contexts: rows, reply };
        waiting.write(&mut file).with_context(|| format!("cannot write {}", pending.display()))?;
        Ok(arm)
    };
    match asked() {
        Ok(arm) => say!("{arm}"),
        Err(e) => {
            std::fs::remove_file(pending).with_context(|| format!("cannot remove {}", pending.display()))?;
            return Err(e);
        }
    }
    eprintln!("pending in {}", pending.display());
    Ok(())
}

/// The device of a secret bundle; errors name the file.
fn device(secret: &Path, key: &Key) -> anyhow::Result<Device> {
    let open = |path: &PathBuf| Passphrase::open(path).with_context(|| path.display().to_string());
    let passphrase = key.passphrase_file.as_ref().map(open).transpose()?;
    let device = Device::open_with(secret, &Opening { toy: key.toy, passphrase }).map_err(|e| match e {
        Error::Wire(_) | Error::Secret(_) => anyhow::Error::new(e).context(secret.display().to_string()),
        other => other.into(),
    })?;
    Ok(device.with_most_answers(key.trace_answers))
}

/// Warns what a schedule that is not public costs.
fn label(created: &Created) {
    if !created.config.linear.schedule.is_public() {
        eprintln!(
            "schedule trace_or_growth: with --trace-answers N each feedback tells the server one bit of a decryption, N times at \
             most; without it batches end by their length (docs/threat-model.md)"
        );
    }
}

/// Says, once, that trace answers have ended.
fn note(device: &Device) {
    if let Some(spent) = device.answers_spent() {
        eprintln!("helba-client: {spent}");
    }
}

fn feedback(
    path: &Path,
    (secret, key): (&Path, &Key),
    ca: Option<&Path>,
    reward: f64,
    arm: Option<usize>,
) -> anyhow::Result<()> {
    let pending = Pending::load(path)?;
    let device = &device(secret, key)?;
    let decision = device.read_decision(&pending.created, &pending.reply)?;
    let arm = arm.unwrap_or(decision.arm);
    let features = pending.contexts.get(arm).with_context(|| {
        format!("there is no arm {arm}: arms count from 0 to {}", pending.contexts.len().saturating_sub(1))
    })?;
    let answer = device.answer(&pending.created, &decision, features, reward, &mut os_rng()?)?;
    note(device);
    let client = connect(&pending.server, ca, None, Some(device))?;
    let receipt = client.feedback(&pending.created, decision.id, &answer)?;
    std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    print(&receipt)
}

/// Milliseconds, in total.
#[derive(Default)]
struct Spent {
    device: f64,
    decide: f64,
    feedback: f64,
}

fn replay(
    client: &Client,
    device: &Device,
    created: &Created,
    purchases: &Purchases,
    rounds: usize,
) -> anyhow::Result<()> {
    let mut rng = os_rng()?;
    let limits = device.limits(created)?;
    let (mut spent, mut matched, mut up, mut down) = (Spent::default(), 0usize, 0usize, 0usize);
    say!("bandit {}", created.id);
    for (t, (features, bought)) in purchases.rounds()[..rounds].iter().enumerate() {
        let rows: Vec<Vec<f64>> = features.rows().map(<[f64]>::to_vec).collect();
        let mut clock = Instant::now();
        let mut lap = |total: &mut f64| {
            *total += clock.elapsed().as_secs_f64() * 1e3;
            clock = Instant::now();
        };
        let contexts = device.encrypt_contexts(created, &rows, &mut rng)?;
        lap(&mut spent.device);
        let reply = client.decide(created, &limits, &contexts)?;
        lap(&mut spent.decide);
        let decision = device.read_decision(created, &reply)?;
        let reward = f64::from(decision.arm == *bought);
        let answer = device.answer(created, &decision, &rows[decision.arm], reward, &mut rng)?;
        note(device);
        lap(&mut spent.device);
        client.feedback(created, decision.id, &answer)?;
        lap(&mut spent.feedback);
        matched += usize::from(decision.arm == *bought);
        up += contexts.len() + answer.len();
        down += reply.len();
        if (t + 1) % 100 == 0 || t + 1 == rounds {
            let n = (t + 1) as f64;
            say!(
                "round {:5}  matched {:.3}  a round: decision {:.0} ms, feedback {:.0} ms, device {:.0} ms, up {:.2} MiB, \
                 down {:.2} MiB",
                t + 1,
                matched as f64 / n,
                spent.decide / n,
                spent.feedback / n,
                spent.device / n,
                up as f64 / n / f64::from(1 << 20),
                down as f64 / n / f64::from(1 << 20),
            );
        }
    }
    let (brand, share) = purchases.best_fixed();
    say!("always {}: {share:.3} of all purchases", purchases.brands()[brand]);
    let status = client.status(&created.id)?;
    say!(
        "{} feedbacks counted, {} batch updates, {} models refreshed",
        status.feedbacks,
        status.batches,
        status.refreshes
    );
    Ok(())
}
