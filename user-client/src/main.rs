//! `helba-client`: a device on the command line, for single steps or a file of purchases.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "`say!` and `tell!` escape what others named")]

mod arguments;
mod committee;
mod data;
mod replay;
mod rounds;

use anyhow::{Context, anyhow, bail};
use arguments::{Arguments, BundleOptions, Caller, Command, Outcome};
use bandit::Schedule;
use bandit::Width;
use clap::Parser;
use host::{say, tell};
use protocol::{Answers, BanditConfig};
use serde_json::Map;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use user_client::{
    AnyBandit, Client, Creation, Device, Error, Listing, Opening, Passphrase, Pending, ServerOptions, Stop,
    os_rng, read_contexts,
};
use wire::{ClearFeedback, Labels, LabelsPatch};

/// The time for which a creation is sent again while the server cannot be reached.
const PATIENCE: Duration = Duration::from_secs(2);
const NONE_LISTED: &str = "helba-client: no bandit that is listed to this token has this name and tag";

/// The name that stands for stdin.
const STDIN: &str = "-";

fn main() -> ExitCode {
    let Arguments { command, json } = Arguments::parse();
    host::exit("helba-client", run(command, json))
}

fn run(command: Command, json: bool) -> anyhow::Result<()> {
    host::undo_on_signals().context("listening for signals")?;
    match command {
        Command::Committee { command } => committee::run(command, json)?,
        Command::User { secret, request } => {
            let fingerprint = user_client::create_user(&secret, &request, &mut os_rng()?)?;
            say!("{}: keep it, it is secret", secret.display());
            say!("{}: give it to the owner of the keys, who enrols you by it", request.display());
            say!("fingerprint {fingerprint}: compare it with the owner's, by another way");
        }
        Command::Create { caller, policy: Some(policy), parameters, name, tags, .. } => {
            let creation = Creation::new(Labels { name, tags }, &mut os_rng()?);
            create_policy(&caller.server, &policy, parameters.as_deref(), &creation, json)?;
        }
        Command::Policies { server } => {
            let cards = connect(&server, None)?.policies()?;
            if json {
                return print(&cards);
            }
            for card in cards {
                say!("{}\n  {}", card.about, card.example);
            }
        }
        // The parser would name every option that is missing; one line names the alternatives.
        Command::Create { parameters: Some(_), .. } => {
            bail!("--parameters needs --policy NAME, one of those that `policies` lists")
        }
        Command::Create { features, arms, config: None, .. } if features.is_none() || arms.is_none() => {
            bail!(
                "give --features D and --arms K or --config FILE for an encrypted bandit, or --policy NAME for a clear policy"
            )
        }
        Command::Create { caller, features, arms, tuning, config, name, tags, .. } => {
            let (client, device) = caller.client_and_device()?;
            let config = match config {
                Some(path) => read_config(&path)?,
                None => {
                    let mut config = BanditConfig::new(features.unwrap_or(0), arms.unwrap_or(0));
                    tuning.apply(&mut config)?;
                    config
                }
            };
            label(&config);
            explore(&config, tuning.reward_range());
            let creation = Creation::new(Labels { name, tags }, &mut os_rng()?);
            let created = patiently(|| match &device {
                Some(device) => client.create_encrypted_for(device, &config, &creation),
                None => client.create_encrypted_as(&config, &creation),
            })?;
            if json {
                return print(&created);
            }
            say!("{}", created.of.id);
        }
        Command::Decide {
            server,
            bandit,
            secret: Some(secret),
            contexts: Some(contexts),
            pending,
            opening,
            repeats,
        } => {
            let pending = match pending {
                Some(pending) => pending,
                None if contexts.as_os_str() == STDIN => bail!("give --pending FILE with --contexts -"),
                None => contexts.with_extension("pending"),
            };
            let (client, device) = opening.connect(&secret, &server)?;
            let device = repeats.allow(device);
            rounds::decide(&client, &bandit, &device, (&contexts, &pending), json)?;
        }
        Command::Decide { server, bandit, contexts, .. } => {
            decide_clear(&connect(&server, None)?, &bandit, contexts.as_deref())?;
        }
        Command::Feedback {
            pending: Some(pending),
            secret: Some(secret),
            opening,
            answers,
            arm,
            ca,
            token_file,
            outcome,
            ..
        } => {
            let reward = outcome.reward.context("encrypted bandits take --reward")?;
            let waiting = Pending::load(&pending)?;
            let server = ServerOptions { url: waiting.server.clone(), ca, token_file };
            let (client, device) = opening.connect(&secret, &server)?;
            let device = device.with_most_answers(answers.trace_answers);
            rounds::feedback((&pending, &waiting), &device, &client, reward, arm)?;
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
            let client = connect(&ServerOptions { url, ca, token_file }, None)?;
            print(&client.feedback_clear(&bandit, &decision, &feedback)?)?;
        }
        Command::Feedback { .. } => bail!(
            "give --pending FILE and --secret FILE for an encrypted bandit, or --server URL, --bandit ID and --decision ID for a \
             clear policy"
        ),
        Command::List { caller, name, tag } => {
            let listing = Listing { name, tag };
            let bandits = caller.client()?.bandits_of(&listing)?;
            if json {
                return print(&bandits);
            }
            for bandit in &bandits {
                say!("{}", line(bandit));
            }
            if bandits.is_empty() {
                let filtered = listing != Listing::default();
                tell!("{}", if filtered { NONE_LISTED } else { caller.why_empty() });
            }
        }
        Command::Label { caller, bandit, name, no_name, tags, no_tags } => {
            let patch = LabelsPatch {
                name: if no_name { Some(None) } else { name.map(Some) },
                tags: (no_tags || !tags.is_empty()).then_some(Some(tags)),
            };
            let labels = caller.client()?.relabel(&bandit, &patch, None)?;
            if json {
                return print(&labels);
            }
            say!("{bandit}{}", shown(&labels));
        }
        Command::Copy { caller, bandit, changes, name, tags } => {
            let changes = serde_json::from_str(&changes).context("--changes is not a JSON object")?;
            let client = caller.client()?;
            let creation = Creation::new(Labels { name, tags }, &mut os_rng()?);
            let copy = patiently(|| client.copy(&bandit, &changes, &creation))?;
            label(&copy.of.config);
            if json {
                return print(&copy);
            }
            say!("{}", copy.of.id);
        }
        Command::Export { server, bandit, secret, output, opening } => {
            let (client, device) = opening.connect(&secret, &server)?;
            rounds::export(&client, &bandit, &device, &output)?;
        }
        Command::Freeze { caller, bandit } => {
            let client = caller.client()?;
            print(&patiently(|| client.freeze(&bandit, true))?)?;
        }
        Command::Thaw { caller, bandit } => {
            let client = caller.client()?;
            print(&patiently(|| client.freeze(&bandit, false))?)?;
        }
        Command::Erase { caller, bandit, decision } => {
            let (client, decision) = (caller.client()?, decision.parse()?);
            print(&patiently(|| client.erase_feedback(&bandit, decision))?)?;
        }
        Command::Learn { server, bandit, secret, data, schema, transform, name, opening } => {
            let dataset = data::logged(&data, schema.as_deref(), transform.as_deref())?;
            let (client, device) = opening.connect(&secret, &server)?;
            rounds::learn(&client, &bandit, &device, &dataset, name.as_deref(), json)?;
        }
        Command::Delete { caller, bandit } => {
            caller.client()?.delete(&bandit)?;
            if json {
                return print(&serde_json::json!({ "deleted": bandit }));
            }
            tell!("deleted {bandit}");
        }
        Command::Status { caller, bandit } => status(&caller.client()?, &bandit)?,
        Command::Data { command } => data::run(command, json)?,
        Command::Refresh { server, bandit, secret, opening } => {
            let (client, device) = opening.connect(&secret, &server)?;
            rounds::refresh(&client, &bandit, &device, json)?;
        }
        Command::Counters { server, bandit, secret, baseline, opening } => {
            let (client, device) = opening.connect(&secret, &server)?;
            rounds::counters(&client, &bandit, &device, baseline, json)?;
        }
        Command::Replay(arguments) => replay::run(&arguments, json)?,
    }
    Ok(())
}

impl Caller {
    /// A client that sends the token of the file, if one is given, or else that of the secret bundle.
    fn client(&self) -> anyhow::Result<Client> {
        Ok(self.client_and_device()?.0)
    }

    /// The client, and the device of the secret bundle if there is one.
    fn client_and_device(&self) -> anyhow::Result<(Client, Option<Device>)> {
        let Some(secret) = &self.secret else { return Ok((connect(&self.server, None)?, None)) };
        let (client, device) = self.opening.connect(secret, &self.server)?;
        Ok((client, Some(device)))
    }

    /// Why a list may be empty although the server has bandits.
    fn why_empty(&self) -> &'static str {
        match (&self.server.token_file, &self.secret) {
            (Some(_), _) => {
                "helba-client: the server has no bandit that the token in --token-file gives access to"
            }
            (None, Some(_)) => {
                "helba-client: the server has no encrypted bandit; others are listed to the operator's token or an API token \
                 (--token-file FILE)"
            }
            (None, None) => {
                "helba-client: the server has no bandit that is open to everybody; encrypted ones are listed to the token of their \
                 secret bundle (--secret FILE)"
            }
        }
    }
}

impl BundleOptions {
    /// A client of the server, and the device of a bundle.
    pub(crate) fn connect(&self, secret: &Path, server: &ServerOptions) -> anyhow::Result<(Client, Device)> {
        let device = self.device(secret)?;
        let client = connect(server, Some(&device))?;
        Ok((client, device))
    }

    /// The device of a secret bundle; errors name the file.
    fn device(&self, secret: &Path) -> anyhow::Result<Device> {
        if let Some(bundle) = &self.user {
            return Device::open_user(secret, bundle, self.toy)
                .with_context(|| format!("{} and {}", secret.display(), bundle.display()));
        }
        let open = |path: &PathBuf| Passphrase::open(path).with_context(|| path.display().to_string());
        let passphrase = self.passphrase_file.as_ref().map(open).transpose()?;
        Device::open(secret, &Opening { toy: self.toy, passphrase }).map_err(|e| match e {
            Error::Wire(_) | Error::Secret(_) => anyhow::Error::new(e).context(secret.display().to_string()),
            other => other.into(),
        })
    }
}

/// A client that sends the token of the file, if one is given, or else that of the device.
fn connect(server: &ServerOptions, device: Option<&Device>) -> anyhow::Result<Client> {
    let warn = |text: &str| tell!("helba-client: {text}");
    Ok(server.client(device, warn)?)
}

/// The result of a request that may be sent again, repeated for some seconds while the server has no place
/// or its answer is lost.
fn patiently<T>(request: impl Fn() -> Result<T, Error>) -> anyhow::Result<T> {
    let done = user_client::patiently(PATIENCE, &Stop::default(), &mut os_rng()?, |_| request());
    Ok(done?)
}

fn create_policy(
    server: &ServerOptions,
    policy: &str,
    parameters: Option<&str>,
    creation: &Creation,
    json: bool,
) -> anyhow::Result<()> {
    if policy == "helba" {
        bail!("helba is not a clear policy: use --features and --arms, or --config FILE");
    }
    let parameters =
        serde_json::from_str(parameters.unwrap_or("{}")).context("--parameters is not a JSON object")?;
    let client = connect(server, None)?;
    let created = patiently(|| client.create_policy_as(policy, Map::clone(&parameters), creation))?;
    if json {
        return print(&created);
    }
    tell!("{}", created.of.privacy.statement);
    say!("{}", created.of.id);
    Ok(())
}

fn decide_clear(client: &Client, bandit: &str, contexts: Option<&Path>) -> anyhow::Result<()> {
    let decided = client.decide_clear(bandit, contexts.map(contexts_of).transpose()?);
    if matches!(decided, Err(Error::Refused(_)))
        && matches!(client.any_bandit(bandit), Ok(AnyBandit::Encrypted(_)))
    {
        bail!("bandit {bandit} is encrypted: give --secret FILE and --contexts FILE");
    }
    print(&decided?)
}

fn status(client: &Client, bandit: &str) -> anyhow::Result<()> {
    print(&client.labelled(bandit)?)
}

/// Name and tags for people. Characters that a terminal would take for commands are escaped.
fn shown(labels: &Labels) -> String {
    let name = labels.name.as_ref().map_or(String::new(), |name| format!("  {name:?}"));
    labels.tags.iter().fold(name, |shown, tag| format!("{shown} #{}", tag.escape_debug()))
}

/// The line of a bandit in the list.
fn line(bandit: &serde_json::Value) -> String {
    let text = |field: &str| bandit[field].as_str().unwrap_or_default();
    let labels: Labels = serde_json::from_value(bandit.clone()).unwrap_or_default();
    let labels = shown(&labels);
    match text("policy") {
        "" => {
            let linear = &bandit["config"]["linear"];
            let bits = match serde_json::from_value::<Schedule>(linear["schedule"].clone()) {
                Ok(schedule) if !schedule.is_public() => ", one bit of a decryption per feedback",
                _ => "",
            };
            let open = match bandit["config"]["answers"].as_str() {
                Some("scores") => ", holders of the key see the model",
                _ => "",
            };
            format!(
                "{}{labels}  helba, encrypted{open}, {} features, {} arms{bits}",
                text("id"),
                linear["d"],
                linear["k"]
            )
        }
        policy => format!("{}{labels}  {policy} {}", text("id"), bandit["parameters"]),
    }
}

fn print(answer: &impl serde::Serialize) -> anyhow::Result<()> {
    say!("{}", serde_json::to_string_pretty(answer)?);
    Ok(())
}

/// The rows of a file of contexts, or of stdin.
fn contexts_of(path: &Path) -> anyhow::Result<Vec<Vec<f64>>> {
    match path.as_os_str() == STDIN {
        true => read_contexts(std::io::stdin().lock()).context("stdin"),
        false => read_contexts(open(path)?).with_context(|| path.display().to_string()),
    }
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    Ok(BufReader::new(File::open(path).with_context(|| format!("cannot open {}", path.display()))?))
}

fn read_config(path: &Path) -> anyhow::Result<BanditConfig> {
    let read = serde_json::from_reader(open(path)?);
    read.map_err(|e| {
        anyhow!("{} is not a configuration: {}", path.display(), fault::in_words(&e.to_string()))
    })
}

/// Prints a warning if the schedule of a bandit is not public, or if its devices learn more than their arm.
fn label(config: &BanditConfig) {
    if !config.linear.schedule.is_public() {
        tell!(
            "schedule trace_or_growth: with --trace-answers N, at most N feedbacks tell the server one bit of a decryption each; \
             without it, batches end by their length (docs/threat-model.md)"
        );
    }
    if config.answers == Answers::Scores {
        tell!(
            "answers scores: devices decrypt the scores of their arms, from which a holder of the key can compute the model \
             (docs/threat-model.md)"
        );
    }
}

/// Prints how the bandit explores with rewards in a range of this length, and a warning if it can lock in.
pub(crate) fn explore(config: &BanditConfig, range: f64) {
    let linear = &config.linear;
    let width = match linear.width {
        Width::Constant { alpha } => format!("constant width {alpha}"),
        Width::Tangent { alpha, .. } => format!("tangent of width {alpha}"),
        Width::Theory => "the width of the paper's proof".into(),
        Width::SelfNormalized => "the width of OFUL's proof".into(),
    };
    let resolved = |round| config.resolution() * config.linear.index_range(round, config.effective(round));
    tell!(
        "exploration: {width}, lambda {}, for rewards that differ by up to {range}; the comparison of arms resolves {:.3} of the \
         reward at first, and {:.3} after {} rounds",
        linear.lambda,
        resolved(1),
        resolved(config.horizon),
        config.horizon
    );
    if let Some(warning) = linear.lock_in_warning(config.effective(config.horizon), range) {
        tell!("helba-client: {warning}");
    }
}

/// Prints the notices that the device gives no further trace answers, and does not ask again, each once.
fn note(device: &Device) {
    if let Some(spent) = device.answers_spent() {
        tell!("helba-client: {spent}");
    }
    if let Some(spent) = device.repeats_spent() {
        tell!("helba-client: {spent}");
    }
}
