//! `secure-sum demo`: all parties on this machine. This process is the server of the bandit, and starts the
//! others.

pub(crate) mod users;

use crate::Agreed;
use anyhow::{Context, Result, bail};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use bandit::distributed::{EliminationConfig, Mechanism, Model, survivors};
use clap::Args;
use host::{lock, os_rng};
use privacy::budget::Delta;
use privacy::task::Task;
use secure_sum::encrypted::SumRing;
use secure_sum::local::{self, Process, Relay};
use secure_sum::{Batch, Collector, Error, Party};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::{Learnt, PolicyCreated, PolicyView, Privacy, ShuffledBatch};

#[derive(Args)]
pub(crate) struct Demo {
    /// Total number of users.
    #[arg(long, default_value_t = 10_000)]
    users: u64,
    /// Number of arms, at least 2. Their mean rewards are spread evenly over [0.1, 0.9], and the last arm is
    /// the best.
    #[arg(long, default_value_t = 10)]
    arms: usize,
    /// Probability that a user drops out.
    #[arg(long, default_value_t = 0.05)]
    dropout: f64,
    /// Number of users in the first batch of an arm. It doubles in each round.
    #[arg(long, default_value_t = 64)]
    first: u64,
    #[command(flatten)]
    agreed: Agreed,
}

/// The run with aggregators, and its counts.
struct Run<'a> {
    demo: &'a Demo,
    program: &'a Path,
    /// Addresses of the aggregators, for users.
    aggregators: [String; 2],
    collector: Collector,
    users: u64,
    answered: u64,
    batches: u64,
    refused: u64,
    collecting: Duration,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<()> {
        if self.arms < 2 || self.first == 0 || !(0.0..1.0).contains(&self.dropout) {
            bail!("--arms must be at least 2, --first at least 1, and --dropout in [0, 1)");
        }
        if self.users < self.arms as u64 {
            bail!("--users is {}, and must be at least --arms, {}", self.users, self.arms);
        }
        host::undo_on_signals().context("listening for signals")?;
        let program = std::env::current_exe().context("finding this program")?;
        println!("what,value,unit");
        self.eliminate(&program)?;
        self.shuffle(&program)?;
        let authority = program.with_file_name("sum-authority");
        if authority.exists() {
            return self.encrypt(&program, &authority);
        }
        host::tell!(
            "sums on ciphertexts are skipped, because their key authority is missing: cargo build -p sum-authority"
        );
        Ok(())
    }

    fn mean(&self, arm: usize) -> f64 {
        0.1 + 0.8 * arm as f64 / (self.arms - 1) as f64
    }

    fn row(what: &str, value: impl std::fmt::Display, unit: &str) {
        println!("{what},{value},{unit}");
    }

    /// Successive elimination (Chowdhury, Zhou, Algorithm 1) until too few users are left.
    fn eliminate(&self, program: &Path) -> Result<()> {
        let start = || Process::start(program, &["aggregator", "--listen", "127.0.0.1:0"]);
        let aggregators = [start()?, start()?];
        let relay = |process: &Process| Relay::start(process.address());
        let (to_users, to_collector) = (
            [relay(&aggregators[0])?, relay(&aggregators[1])?],
            [relay(&aggregators[0])?, relay(&aggregators[1])?],
        );
        let url = |relay: &Relay| format!("http://{}", relay.address());
        let [first, second] = to_collector.each_ref().map(|r| Party::new(url(r)));
        let collector = Collector::new([first?, second?]);
        let mut run = Run {
            demo: self,
            program,
            aggregators: to_users.each_ref().map(url),
            collector,
            users: 0,
            answered: 0,
            batches: 0,
            refused: 0,
            collecting: Duration::ZERO,
        };
        let begin = Instant::now();
        let mut left: Vec<usize> = (0..self.arms).collect();
        let mut rounds = 0;
        for round in 1u32.. {
            let invited = self.first << (round - 1).min(40);
            let batch = Batch::new(&self.agreed.plan(invited, self.users)?)?;
            let mut means = Vec::new();
            for &arm in &left {
                match run.ask(&batch, invited, arm)? {
                    Some(mean) => means.push(mean),
                    None => break,
                }
            }
            if left.len() == 1 || means.len() < left.len() {
                break;
            }
            rounds = round;
            let width = batch.mechanism().width(left.len(), round, self.agreed.confidence);
            host::tell!(
                "round {round}: {invited} users an arm, arms {left:?}, means {means:.3?}, width {width:.3}"
            );
            left = survivors(&left, &means, width);
        }
        let seconds = begin.elapsed().as_secs_f64();
        let bytes = |relays: &[Relay; 2]| -> [usize; 2] {
            let passed = relays.each_ref().map(Relay::passed);
            [passed.iter().map(|p| p.sent.len()).sum(), passed.iter().map(|p| p.answered.len()).sum()]
        };
        let (from_users, from_collector) = (bytes(&to_users), bytes(&to_collector));
        let each = |bytes: usize| format!("{:.1}", bytes as f64 / run.users as f64);
        Self::row("aggregators: users asked", run.users, "users");
        Self::row("aggregators: users answered", run.answered, "users");
        Self::row("aggregators: batches opened", run.batches, "batches");
        Self::row("aggregators: batches refused", run.refused, "batches");
        Self::row("aggregators: rounds complete", rounds, "rounds");
        Self::row("aggregators: arms left", format!("{left:?}").replace(", ", " "), "arms");
        Self::row("aggregators: time in all", format!("{seconds:.2}"), "s");
        Self::row("aggregators: time of collecting", format!("{:.3}", run.collecting.as_secs_f64()), "s");
        Self::row("aggregators: time a user", format!("{:.1}", 1e6 * seconds / run.users as f64), "us");
        Self::row("aggregators: payload a user", 2 * secure_sum::Report::BYTES, "B");
        Self::row("aggregators: user sends with HTTP", each(from_users[0]), "B a user");
        Self::row("aggregators: user receives with HTTP", each(from_users[1]), "B a user");
        Self::row("aggregators: collector sends with HTTP", each(from_collector[0]), "B a user");
        Self::row("aggregators: collector receives with HTTP", each(from_collector[1]), "B a user");
        Ok(())
    }

    fn simulate(&self, command: &mut Command, number: u64, invited: u64, arm: usize) -> Result<()> {
        let Agreed { epsilon, missing, colluding, noise, confidence } = self.agreed.clone();
        for (name, value) in [
            ("--batch", number.to_string()),
            ("--invited", invited.to_string()),
            ("--horizon", self.users.to_string()),
            ("--mean", self.mean(arm).to_string()),
            ("--dropout", self.dropout.to_string()),
            ("--epsilon", decimal(epsilon)),
            ("--missing", decimal(missing)),
            ("--colluding", decimal(colluding)),
            ("--confidence", confidence.to_string()),
            ("--noise", if noise == Model::Pure { "pure" } else { "skellam" }.into()),
        ] {
            command.args([name, &value]);
        }
        run_users(command)
    }

    /// One batch of the best arm through the shuffler, at (epsilon, 10^-6)-differential privacy.
    fn shuffle(&self, program: &Path) -> Result<()> {
        let invited = self.users / self.arms as u64;
        let plan = self.agreed.plan(invited, self.users)?;
        // The first batch has the least number of users who answer.
        let growth = u64::from(Batch::new(&plan)?.at_least()).max(2);
        let model = Model::Bits { delta: Delta::one_in(1_000_000) };
        let confidence = plan.confidence;
        let colluding = plan.colluding;
        let config = EliminationConfig {
            confidence,
            growth,
            colluding,
            ..EliminationConfig::new(1, self.users, model, plan.epsilon)
        };
        let mechanism = config.mechanism(1)?;
        let received = Arc::new(Mutex::new(None));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        let server = format!("http://{}", listener.local_addr()?);
        let routes = first_batch(&config, &mechanism, received.clone())?;
        runtime.spawn(async move { axum::serve(listener, routes).await });
        let before = ["--server", &server, "--bandit", BANDIT];
        let shuffler =
            Process::start(program, &[&["shuffler", "--listen", "127.0.0.1:0"], &before[..]].concat())?;
        let relay = Relay::start(shuffler.address())?;

        let begin = Instant::now();
        let mut command = Command::new(program);
        command.arg("users").args(before).args(["--shuffler", &format!("http://{}", relay.address())]);
        let mean = self.mean(self.arms - 1);
        for (name, value) in [
            ("--invited", invited.to_string()),
            ("--mean", mean.to_string()),
            ("--dropout", self.dropout.to_string()),
        ] {
            command.args([name, &value]);
        }
        run_users(&mut command)?;
        let batch: ShuffledBatch = lock(&received).take().context("no batch came from the shuffler")?;
        let seconds = begin.elapsed().as_secs_f64();
        let sum = mechanism.count(batch.sums().sum())?;
        let estimate = mechanism.analyse(sum, &mut os_rng()?)? / batch.users as f64;
        let sent = relay.passed().sent.len() as f64 / batch.users as f64;
        Self::row("shuffler: users asked", invited, "users");
        Self::row("shuffler: users counted", batch.users, "users");
        Self::row("shuffler: estimated mean", format!("{estimate:.4}"), "reward");
        Self::row("shuffler: true mean", mean, "reward");
        Self::row("shuffler: time in all", format!("{seconds:.2}"), "s");
        Self::row("shuffler: bits a user", mechanism.bits(), "bits");
        Self::row("shuffler: payload a user, their number of ones", 32 + 8, "B");
        Self::row("shuffler: user sends with HTTP", format!("{sent:.1}"), "B a user");
        Ok(())
    }
}

const BANDIT: &str = "demo";

/// The routes of a server with one bandit in its first batch. The bandit waits until the batch has arrived.
fn first_batch(
    config: &EliminationConfig,
    mechanism: &Mechanism,
    received: Arc<Mutex<Option<ShuffledBatch>>>,
) -> Result<Router> {
    let Model::Bits { delta } = config.model else { bail!("a model without bits") };
    let parameters = serde_json::json!({"model": "shuffle", "arms": config.arms, "horizon": config.horizon,
        "epsilon": config.epsilon.to_f64(), "confidence": config.confidence, "growth": config.growth,
        "colluding": config.colluding.to_f64(),
        "delta": delta.get()});
    let serde_json::Value::Object(parameters) = parameters else { bail!("parameters without names") };
    let statement = config.privacy()?;
    let created = PolicyCreated {
        id: BANDIT.into(),
        policy: "elimination".into(),
        parameters,
        wait: None,
        default_reward: None,
        max_open: None,
        warning: None,
        privacy: Privacy { statement, spent: None },
    };
    let ask = mechanism.ask(0).context("a model whose users add no noise")?;
    let awaited = Some(Task { exchange: 1, batch: 1, users: mechanism.users(), ask });
    let view = PolicyView {
        created,
        round: 0,
        feedbacks: 0,
        pending_decisions: 0,
        waiting: 0,
        defaulted: 0,
        left_out: 0,
        awaited,
        published: Vec::new(),
        learnt: Learnt::default(),
        restored: 0,
    };
    let taken = received.clone();
    let say = async move || {
        let awaited = view.awaited.clone().filter(|_| lock(&taken).is_none());
        Json(PolicyView { awaited, ..view.clone() })
    };
    let take = async move |body: Bytes| match serde_json::from_slice(&body) {
        Ok(batch) => {
            *lock(&received) = Some(batch);
            StatusCode::OK
        }
        Err(_) => StatusCode::BAD_REQUEST,
    };
    Ok(Router::new()
        .route(&format!("/v1/bandits/{BANDIT}"), get(say))
        .route(&format!("/v1/bandits/{BANDIT}/shuffled"), post(take)))
}

fn run_users(command: &mut Command) -> Result<()> {
    let status = local::run(command).context("starting the users")?;
    if !status.success() {
        bail!("the users' process failed: {status}");
    }
    Ok(())
}

impl Demo {
    /// One batch of the best arm on ciphertexts: users, the adder, and the key authority.
    fn encrypt(&self, program: &Path, authority: &Path) -> Result<()> {
        let invited = self.users / self.arms as u64;
        let batch = Batch::new(&self.agreed.plan(invited, self.users)?)?;
        let authority = Process::start(authority, &["--listen", "127.0.0.1:0"])?;
        let url = |address| format!("http://{address}");
        let opening = Relay::start(authority.address())?;
        let arguments = ["adder", "--listen", "127.0.0.1:0", "--authority", &url(opening.address())];
        let adder = Process::start(program, &arguments)?;
        let relay = Relay::start(adder.address())?;
        Party::new(url(adder.address()))?.announce(batch.id(0)).context("announcing the batch")?;

        let begin = Instant::now();
        let mut command = Command::new(program);
        command.arg("users").args(["--adder", &url(relay.address())]);
        command.args(["--authority", &url(authority.address())]);
        self.simulate(&mut command, 0, invited, self.arms - 1)?;
        let opened = Instant::now();
        let sum = Party::new(url(adder.address()))?.opened(batch.id(0)).context("opening the sum")?;
        let seconds = begin.elapsed().as_secs_f64();
        let ring = SumRing::for_users(batch.at_least())?;
        // A user who drops out sends nothing.
        let each = |bytes: usize| format!("{:.0}", bytes as f64 / sum.users as f64);
        Self::row("ciphertexts: users asked", invited, "users");
        Self::row("ciphertexts: users answered", sum.users, "users");
        Self::row("ciphertexts: estimated mean", format!("{:.4}", batch.mean(&sum)), "reward");
        Self::row("ciphertexts: true mean", self.mean(self.arms - 1), "reward");
        Self::row("ciphertexts: time in all", format!("{seconds:.2}"), "s");
        Self::row("ciphertexts: time a user", format!("{:.0}", 1e6 * seconds / invited as f64), "us");
        Self::row("ciphertexts: time of opening", format!("{:.3}", opened.elapsed().as_secs_f64()), "s");
        Self::row("ciphertexts: payload a user", 16 + ring.value_bytes(), "B");
        Self::row("ciphertexts: user sends with HTTP", each(relay.passed().sent.len()), "B a user");
        Self::row("ciphertexts: server sends the authority", opening.passed().sent.len(), "B a batch");
        Ok(())
    }
}

impl Run<'_> {
    /// The mean reward of a batch of new users. A refused batch is repeated with other users. `None` if too
    /// few are left.
    fn ask(&mut self, batch: &Batch, invited: u64, arm: usize) -> Result<Option<f64>> {
        while self.users + invited <= self.demo.users {
            let number = self.batches + self.refused;
            self.users += invited;
            self.collector.announce(batch.id(number)).context("announcing a batch")?;
            let mut command = Command::new(self.program);
            command.arg("users").arg("--aggregators").args(&self.aggregators);
            self.demo.simulate(&mut command, number, invited, arm)?;
            let begin = Instant::now();
            let collected = self.collector.collect(batch.id(number));
            self.collecting += begin.elapsed();
            match collected {
                Ok(sum) => {
                    self.batches += 1;
                    self.answered += sum.users;
                    return Ok(Some(batch.mean(&sum)));
                }
                Err(Error::TooFew { .. }) => self.refused += 1,
                Err(error) => return Err(error).context("collecting a batch"),
            }
        }
        Ok(None)
    }
}

/// The ratio as a decimal, which is exact because its denominator divides a power of ten.
fn decimal(r: privacy::Ratio) -> String {
    r.to_f64().to_string()
}
