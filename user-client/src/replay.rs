//! `helba-client replay`: plays a file whose rewards are all known, round by round.

use crate::arguments::ReplayArguments;
use crate::data::prepared;
use crate::{explore, label, note, print};
use anyhow::{Context, bail};
use bandit::{Arithmetic, HelbaClear};
use datasets::{DataRound, Dataset, DatasetLog};
use host::{Draft, Undone, say, tell};
use plot::{Curve, Figure, Point, Style};
use protocol::{BanditConfig, Receipt};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::convert::Infallible;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use user_client::{AnyBandit, BanditDevice, Client, Device, Error, PlayedRound, Stop, os_rng, patiently};
use wire::Created;

/// Plays the rounds of a file on a bandit, which is created unless one is named.
pub(crate) fn run(arguments: &ReplayArguments, json: bool) -> anyhow::Result<()> {
    let ReplayArguments { server, secret, data, schema, opening, answers, repeats, plot, .. } = arguments;
    let dataset = Arc::new(match (schema, &arguments.transform) {
        (Some(schema), Some(transform)) => {
            let prepared = prepared(data, schema, Some(transform))?;
            prepared.require_every_reward()?;
            Dataset::load(&prepared)?
        }
        _ => Dataset::open(data, schema.as_deref())?,
    });
    let (client, device) = opening.connect(secret, server)?;
    let device = repeats.allow(device.with_most_answers(answers.trace_answers));
    // A file that cannot be written is reported now and not after all rounds.
    let writing = |path: &Path| format!("cannot write {}", path.display());
    let draft = plot.as_deref().map(|path| Draft::create(path).with_context(|| writing(path))).transpose()?;
    // Checked before a bandit is created that this device could not use.
    let served = client.keys()?.ring.key_id;
    if served != device.key_id().to_string() {
        bail!(
            "{} belongs to key {}, but the server has key {served}: use the secret bundle that was generated with the public \
             bundle of the server",
            secret.display(),
            device.key_id()
        );
    }
    let (created, first) = bandit(&client, &dataset, arguments)?;
    label(&created.config);
    let end = arguments.rounds.map_or(usize::MAX, |rounds| usize::try_from(rounds).unwrap_or(usize::MAX));
    let rounds = first..end.min(dataset.rounds().len());
    if rounds.is_empty() {
        bail!(
            "bandit {} has counted {first} feedbacks, so that no round is left of {}",
            created.id,
            rounds.end
        );
    }
    let replay = Replay {
        client: &client,
        device: &device,
        bandit: device.join(&created)?,
        patience: Duration::from_secs(arguments.patience),
        json,
    };
    let played = replay.play(&dataset, rounds.clone())?;
    let report = Report::new(&replay, &dataset, rounds, played)?;
    if let (Some(draft), Some(path)) = (draft, plot) {
        let svg =
            report.svg(&data.file_name().map_or_else(String::new, |name| name.to_string_lossy().into()))?;
        let written = draft.file().write_all(svg.as_bytes()).and_then(|()| draft.finish());
        written.with_context(|| writing(path))?;
    }
    report.print(&replay)
}

/// The bandit to play on, and the first round: with `--resume` the number of feedbacks that it has counted.
fn bandit(
    client: &Client,
    dataset: &Dataset,
    arguments: &ReplayArguments,
) -> anyhow::Result<(Created, usize)> {
    let Some(id) = &arguments.bandit else {
        let mut config = BanditConfig::new(dataset.d(), dataset.arms().len());
        config.horizon = dataset.rounds().len() as u64;
        arguments.tuning.apply(&mut config)?;
        explore(&config, arguments.tuning.reward_range());
        return Ok((client.create_encrypted(&config)?, 0));
    };
    let AnyBandit::Encrypted(view) = client.any_bandit(id)? else {
        bail!("bandit {id} has a clear policy, and this command plays encrypted ones")
    };
    let first = if arguments.resume { usize::try_from(view.status.feedbacks)? } else { 0 };
    Ok((view.created, first))
}

struct Replay<'a> {
    client: &'a Client,
    device: &'a Device,
    bandit: BanditDevice<'a>,
    /// For how long a request is repeated while the server cannot answer.
    patience: Duration,
    json: bool,
}

/// Totals of the rounds played: milliseconds, of which those of a decision include the device's part of it,
/// and bytes.
#[derive(Default)]
struct Spent {
    device: f64,
    decide: f64,
    feedback: f64,
    up: usize,
    down: usize,
}

/// The rewards of the rounds played, and what they took.
#[derive(Default)]
struct Played {
    rewards: Vec<f64>,
    spent: Spent,
}

impl Replay<'_> {
    fn play(&self, dataset: &Dataset, rounds: Range<usize>) -> anyhow::Result<Played> {
        let id = self.bandit.created().id.clone();
        if !self.json {
            say!("bandit {id}");
        }
        let resume = format!("to go on, give the same command with --bandit {id} --resume");
        let of_signal = resume.clone();
        let tell = || Ok::<_, Infallible>(((), move || tell!("\nhelba-client: {of_signal}")));
        let (_, _told) = Undone::after(tell)?;
        let mut played = Played::default();
        for t in rounds.clone() {
            self.round(&dataset.rounds()[t], &mut played)
                .with_context(|| format!("round {} of the file was not played; {resume}", t + 1))?;
            if !self.json && ((t + 1) % 100 == 0 || t + 1 == rounds.end) {
                progress(t + 1, &played)?;
            }
        }
        Ok(played)
    }

    /// Plays one round, and answers the tasks that come with its decision.
    fn round(&self, data: &DataRound, played: &mut Played) -> anyhow::Result<()> {
        let mut rng = os_rng()?;
        let rows: Vec<Vec<f64>> = data.features.rows().map(<[f64]>::to_vec).collect();
        let mut last = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            let milliseconds = (now - last).as_secs_f64() * 1e3;
            last = now;
            milliseconds
        };
        let spent = &mut played.spent;
        let decide = |rng: &mut ChaCha20Rng| self.bandit.decide(self.client, &rows, rng);
        let mut round: PlayedRound = self.patiently(&mut rng, decide)?;
        spent.decide += lap();
        let arm = round.choice.arm;
        // Every reward of the file is known, and the device chooses among its candidates.
        let reward = data.observed.reward(arm).unwrap_or(0.0);
        let (decision, question) = (round.choice.id, round.choice.question.as_ref());
        let feedback = self.bandit.feedback(arm, &rows[arm], reward, question, &mut rng)?;
        note(self.device);
        spent.device += lap();
        let id = &self.bandit.created().id;
        let send = |_: &mut ChaCha20Rng| self.client.feedback_encrypted(id, decision, &feedback);
        let _: Receipt = self.patiently(&mut rng, send)?;
        spent.feedback += lap();
        match self.bandit.answer_tasks(self.client, &mut round, &mut rng) {
            // The server gives the task to the next decision.
            Err(error) if error.is_temporary() => {}
            answered => answered?,
        }
        spent.device += lap();
        spent.up += round.sent + feedback.len();
        spent.down += round.received;
        played.rewards.push(reward);
        Ok(())
    }

    /// Repeats a request while the server cannot answer, and says so once.
    fn patiently<T>(
        &self,
        rng: &mut ChaCha20Rng,
        mut request: impl FnMut(&mut ChaCha20Rng) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut told = false;
        let told_request = |rng: &mut ChaCha20Rng| {
            request(rng).inspect_err(|error| {
                if error.is_temporary() && !std::mem::replace(&mut told, true) {
                    tell!("helba-client: {error}; asking again for up to {} s", self.patience.as_secs());
                }
            })
        };
        patiently(self.patience, &Stop::default(), rng, told_request)
    }
}

fn progress(round: usize, played: &Played) -> anyhow::Result<()> {
    let (spent, n) = (&played.spent, played.rewards.len() as f64);
    say!(
        "round {round:5}  mean reward {:.3}  per round: decision {:.0} ms, feedback {:.0} ms, device {:.0} ms, up {:.2} MiB, \
         down {:.2} MiB",
        played.rewards.iter().sum::<f64>() / n,
        spent.decide / n,
        spent.feedback / n,
        spent.device / n,
        spent.up as f64 / n / f64::from(1 << 20),
        spent.down as f64 / n / f64::from(1 << 20),
    );
    Ok(())
}

/// The rounds that were played, beside what others earn in the same rounds.
struct Report {
    rounds: Range<usize>,
    spent: Spent,
    /// The rewards of the encrypted bandit.
    encrypted: Vec<f64>,
    /// Those of the same algorithm in exact arithmetic, which has played the file from its first round.
    twin: Vec<f64>,
    /// The candidate that earns the most in these rounds, and its rewards.
    fixed: (String, Vec<f64>),
    /// The expected rewards of a uniform choice.
    uniform: Vec<f64>,
    status: protocol::Status,
}

impl Report {
    fn new(
        replay: &Replay,
        dataset: &Arc<Dataset>,
        rounds: Range<usize>,
        Played { rewards, spent }: Played,
    ) -> anyhow::Result<Self> {
        let created = replay.bandit.created();
        let mut twin = HelbaClear::new(created.config.linear, Arithmetic::Exact)?;
        // Neither draws from it.
        let mut rng = ChaCha20Rng::seed_from_u64(0);
        let mut log = DatasetLog::new(dataset.clone());
        let history = bandit::play(&mut twin, &mut log, rounds.end, &mut rng.clone(), &mut rng)?;
        let (arm, _) = dataset.best_fixed(rounds.clone());
        let played = &dataset.rounds()[rounds.clone()];
        let fixed = played.iter().map(|round| round.observed.reward(arm).unwrap_or(0.0)).collect();
        let arms = dataset.arms().len();
        let mean = |round: &DataRound| {
            (0..arms).filter_map(|arm| round.observed.reward(arm)).sum::<f64>() / arms as f64
        };
        Ok(Report {
            spent,
            encrypted: rewards,
            twin: history.rewards[rounds.start..].to_vec(),
            fixed: (dataset.arms()[arm].clone(), fixed),
            uniform: played.iter().map(mean).collect(),
            status: replay.client.encrypted(&created.id)?.status,
            rounds,
        })
    }

    fn svg(&self, title: &str) -> anyhow::Result<String> {
        let fixed = format!("always {}", self.fixed.0);
        let curve = |i, name, rewards: &[f64]| {
            let mut sum = 0.0;
            let point = |(i, reward): (usize, &f64)| {
                sum += reward;
                let y = sum / (i + 1) as f64;
                Point { x: (self.rounds.start + i + 1) as f64, low: y, y, high: y }
            };
            Curve { name, style: Style::of(i), points: rewards.iter().enumerate().map(point).collect() }
        };
        let curves = vec![
            curve(0, "encrypted", &self.encrypted),
            curve(1, "exact arithmetic", &self.twin),
            curve(2, &fixed, &self.fixed.1),
            curve(3, "uniform choice", &self.uniform),
        ];
        Ok(Figure {
            title,
            x_label: "round",
            y_label: "mean reward since the first of these rounds",
            log_x: false,
            log_y: false,
            curves,
        }
        .svg()?)
    }

    fn print(&self, replay: &Replay) -> anyhow::Result<()> {
        let n = self.encrypted.len() as f64;
        let mean = |rewards: &[f64]| rewards.iter().sum::<f64>() / n;
        let [encrypted, twin, fixed, uniform] =
            [&self.encrypted, &self.twin, &self.fixed.1, &self.uniform].map(|rewards| mean(rewards));
        let (spent, status, candidate) = (&self.spent, &self.status, &self.fixed.0);
        if replay.json {
            return print(&serde_json::json!({
                "bandit": replay.bandit.created().id, "first_round": self.rounds.start + 1, "rounds": self.encrypted.len(),
                "mean_reward": encrypted, "exact_mean_reward": twin, "uniform_mean_reward": uniform,
                "best_fixed": { "candidate": candidate, "mean_reward": fixed },
                "milliseconds_per_round": {
                    "decision": spent.decide / n, "feedback": spent.feedback / n, "device": spent.device / n,
                },
                "bytes_per_round": { "up": spent.up as f64 / n, "down": spent.down as f64 / n },
                "status": status,
            }));
        }
        say!("mean rewards of rounds {} to {}:", self.rounds.start + 1, self.rounds.end);
        say!(
            "  encrypted {encrypted:.3}, exact arithmetic {twin:.3}, always {candidate} {fixed:.3}, uniform choice {uniform:.3}"
        );
        // An upper bound on twice the standard deviation of a mean of rewards between 0 and 1.
        say!(
            "  (a mean of {n} rounds has a random error of up to {:.2}. Exact arithmetic is a run of its own from the file's first",
            1.0 / n.sqrt()
        );
        say!("  round, and updates its model at once, so that it may show other candidates)");
        say!(
            "{} feedbacks counted, {} batch updates, {} models refreshed",
            status.feedbacks,
            status.batches,
            status.refreshes
        );
        Ok(())
    }
}
