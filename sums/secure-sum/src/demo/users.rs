//! `secure-sum users`: simulated users of one batch.

use crate::{Agreed, address, token};
use anyhow::{Context, Result, bail};
use bandit::Environment;
use clap::Args;
use glm::shuffle::Row;
use glm::{GlmEnvironment, Instance};
use privacy::source::Words;
use privacy::task::DeviceBounds;
use rand::CryptoRng;
use secure_sum::encrypted::{SumRing, encrypt};
use secure_sum::shuffler::TaskDigest;
use secure_sum::{BanditTask, Batch, Error, Party, ReportId, reports};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(crate) struct Users {
    /// PEM file of the certificate authorities to trust, instead of those that browsers trust.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Address of helba-server, such as http://127.0.0.1:8080. Users answer the task of its `--bandit`, with
    /// the noise that follows from the bandit's parameters.
    #[arg(long, requires = "bandit", value_parser = address)]
    #[arg(conflicts_with_all = ["horizon", "epsilon", "noise", "missing", "colluding"])]
    server: Option<String>,
    /// File with a token of helba-server, if it has tokens: an API token of any scope, or the operator's.
    #[arg(long, value_name = "FILE", requires = "server")]
    server_token_file: Option<PathBuf>,
    /// Id of the bandit. Its policy is `elimination` under one of the models pure, renyi and concentrated;
    /// behind a shuffler, `elimination` under the model shuffle, or `shuffle-glm`.
    #[arg(long, requires = "server")]
    bandit: Option<String>,
    /// Addresses of both aggregators, such as http://127.0.0.1:9001 http://127.0.0.1:9002.
    #[arg(long, num_args = 2, conflicts_with = "shuffler", value_parser = address)]
    aggregators: Vec<String>,
    /// Address of the adder, instead of aggregators.
    #[arg(long, requires = "authority", conflicts_with_all = ["aggregators", "shuffler"], value_parser = address)]
    adder: Option<String>,
    /// Address of the key authority.
    #[arg(long, value_parser = address)]
    authority: Option<String>,
    /// Address of the shuffler of the bandit, instead of aggregators.
    #[arg(long, requires = "server", value_parser = address)]
    shuffler: Option<String>,
    /// Number of the batch. Behind a shuffler, the bandit numbers the batches.
    #[arg(long, required_unless_present = "shuffler", conflicts_with = "shuffler")]
    batch: Option<u64>,
    /// Number of users to simulate [default with --bandit: the number that it waits for].
    #[arg(long, required_unless_present = "server")]
    invited: Option<u64>,
    /// Total number of users of all batches.
    #[arg(long, required_unless_present = "server")]
    horizon: Option<u64>,
    /// Probability that a reward is 1; otherwise it is 0. With --bandit, one probability for all arms, or one
    /// for each arm, separated by commas.
    #[arg(long, value_delimiter = ',', required_unless_present = "theta")]
    mean: Vec<f64>,
    /// Parameter of the rewards of `shuffle-glm`, instead of --mean: one number for each feature, separated
    /// by commas.
    #[arg(
        long,
        value_delimiter = ',',
        requires = "shuffler",
        conflicts_with = "mean",
        allow_negative_numbers = true
    )]
    theta: Vec<f64>,
    /// Seconds that users behind a shuffler wait for the other users of their batch.
    #[arg(long, default_value_t = 20)]
    patience: u64,
    /// Probability that a user drops out. Half of these users send the first of their two reports.
    #[arg(long, default_value_t = 0.0)]
    dropout: f64,
    /// Largest epsilon that users accept. They answer a bandit only if the epsilon of its parameters is at
    /// most this.
    #[arg(long, requires = "server", default_value_t = DeviceBounds::default().epsilon)]
    most_epsilon: f64,
    /// Largest delta that users accept. They answer a bandit only if its delta, the probability with which
    /// the guarantee may fail, is at most this.
    #[arg(long, requires = "server", default_value_t = DeviceBounds::default().delta)]
    most_delta: f64,
    /// Least share of made-up or colluding users that the noise must tolerate. Users answer a bandit only if
    /// its parameter `colluding` is at least this.
    #[arg(long, requires = "server", default_value_t = DeviceBounds::default().colluding)]
    least_colluding: f64,
    #[command(flatten)]
    agreed: Agreed,
}

impl Users {
    pub(crate) fn run(&self) -> Result<()> {
        let mut rng = host::os_rng()?;
        match (&self.shuffler, &self.adder, &self.authority, self.aggregators.as_slice()) {
            (Some(shuffler), ..) => self.shuffle(&self.party(shuffler)?, &mut rng),
            (_, Some(adder), Some(authority), _) => {
                self.encrypt(&self.party(adder)?, &self.party(authority)?, &mut rng)
            }
            (.., [first, second]) => self.share([self.party(first)?, self.party(second)?], &mut rng),
            _ => bail!("give two --aggregators, an --adder with its --authority, or a --shuffler"),
        }
    }

    fn party(&self, url: &str) -> Result<Party> {
        Ok(Party::new(url)?.trusting(self.ca.as_deref())?)
    }

    /// The server of the bandit.
    fn service(&self, url: &str) -> Result<Party> {
        Ok(self.party(url)?.with_token(token(self.server_token_file.as_deref())?))
    }

    /// The batch, its number of users, and the mean of their rewards.
    fn asked(&self) -> Result<(Batch, u64, f64)> {
        let (Some(server), Some(bandit)) = (&self.server, &self.bandit) else {
            let (invited, horizon) = (self.invited.unwrap_or(0), self.horizon.unwrap_or(0));
            return Ok((Batch::new(&self.agreed.plan(invited, horizon)?)?, invited, self.mean_of(0)?));
        };
        let task = BanditTask::ask(&self.service(server)?, bandit)?;
        let users = task.users();
        let invited = self.invited.unwrap_or(users.into());
        let batch = task.batch(&self.bounds())?;
        let arm = task.arm().context("users whose devices choose need a --shuffler")?;
        host::tell!("arm {arm}: {invited} users asked, {users} needed");
        Ok((batch, invited, self.mean_of(arm)?))
    }

    const fn bounds(&self) -> DeviceBounds {
        DeviceBounds { epsilon: self.most_epsilon, delta: self.most_delta, colluding: self.least_colluding }
    }

    /// The mean reward of `arm`.
    fn mean_of(&self, arm: usize) -> Result<f64> {
        match self.mean.as_slice() {
            [] => bail!("this bandit chooses the arm: give --mean instead of --theta"),
            [mean] => Ok(*mean),
            means => means.get(arm).copied().with_context(|| format!("--mean has no value for arm {arm}")),
        }
    }

    fn number(&self) -> Result<u64> {
        self.batch.context("--batch is missing")
    }

    fn encrypt<R: CryptoRng>(&self, adder: &Party, authority: &Party, rng: &mut R) -> Result<()> {
        let (batch, invited, mean) = self.asked()?;
        let (id, ring) = (batch.id(self.number()?), SumRing::for_users(batch.at_least())?);
        let (key, _) = authority.key(id)?;
        for _ in 0..invited {
            let value = batch.randomise(reward(mean, rng), rng)?;
            if rng.uniform() < self.dropout {
                continue;
            }
            adder.value(id, &random_id(rng), &encrypt(ring, &key, value, rng)?)?;
        }
        Ok(())
    }

    fn share<R: CryptoRng>(&self, aggregators: [Party; 2], rng: &mut R) -> Result<()> {
        let (batch, invited, mean) = self.asked()?;
        let id = batch.id(self.number()?);
        for _ in 0..invited {
            let value = batch.randomise(reward(mean, rng), rng)?;
            let sent = match rng.uniform() {
                u if u < self.dropout / 2.0 => 0,
                u if u < self.dropout => 1,
                _ => 2,
            };
            for (party, report) in aggregators.iter().zip(&reports(id, value, rng)).take(sent) {
                party.report(report)?;
            }
        }
        Ok(())
    }

    /// One batch behind a shuffler: one exchange of an elimination, or all exchanges of a batch whose devices
    /// choose.
    fn shuffle<R: CryptoRng>(&self, shuffler: &Party, rng: &mut R) -> Result<()> {
        let (Some(server), Some(bandit)) = (&self.server, &self.bandit) else {
            bail!("--shuffler needs --server and --bandit");
        };
        let (server, patience) = (self.service(server)?, Duration::from_secs(self.patience));
        let crowd = Crowd { server, bandit: bandit.clone(), shuffler: shuffler.clone(), patience };
        let task = BanditTask::ask(&crowd.server, bandit)?;
        let invited = self.invited.unwrap_or(task.users().into());
        match task.arm() {
            Some(arm) => {
                let (mechanism, mean) = (task.count(&self.bounds())?, self.mean_of(arm)?);
                host::tell!("arm {arm}: {invited} users asked, {} needed", task.users());
                let answers = (0..invited).map(|_| {
                    let ones = mechanism.ones(reward(mean, rng), rng)?;
                    Ok((rng.uniform() >= self.dropout).then_some((random_id(rng), vec![ones])))
                });
                let answered = crowd.send(&task, answers)?;
                crowd.next(&task, answered).map(drop)
            }
            None => self.rows(&crowd, task, invited, rng),
        }
    }

    /// The devices of a batch. Each chooses an arm, and answers from its row in every exchange.
    fn rows<R: CryptoRng>(
        &self,
        crowd: &Crowd,
        mut task: BanditTask,
        invited: u64,
        rng: &mut R,
    ) -> Result<()> {
        let batch = task.devices(&self.bounds())?;
        let problem = &batch.config().problem;
        if self.theta.is_empty() {
            bail!("devices choose their arms: give --theta with {} numbers instead of --mean", problem.d);
        }
        if self.theta.len() != problem.d {
            bail!("--theta has {} numbers, but the bandit has {} features", self.theta.len(), problem.d);
        }
        host::tell!("batch {}: {invited} devices asked, {} needed", task.task().batch, task.users());
        // Contexts uniform in the unit ball, as in the published experiments.
        let sets = Instance::random(problem.d, problem.k, invited as usize, 1.0, rng)?.sets().to_vec();
        let instance = Instance::new(self.theta.clone(), sets)?;
        let mut environment = GlmEnvironment::new(instance.into(), problem.link).context("--theta")?;
        let (device, mut rows) = (batch.device(), Vec::new());
        while environment.begin(rng) {
            let arm = device.choose(environment.context()?, rng)?;
            let reward = environment.play(arm, rng)?.reward;
            if rng.uniform() >= self.dropout {
                rows.push(Row::new(&batch, environment.context()?, arm, reward)?);
            }
        }
        loop {
            let answers = rows.iter_mut().map(|row| {
                let ones = row.answer(&batch, task.task(), rng)?;
                Ok(Some((random_id(rng), ones)))
            });
            let answered = crowd.send(&task, answers)?;
            match crowd.next(&task, answered)? {
                Some(next) if next.task().batch == task.task().batch => task = next,
                _ => return Ok(()),
            }
        }
    }
}

/// Users of a bandit behind a shuffler.
struct Crowd {
    server: Party,
    bandit: String,
    shuffler: Party,
    patience: Duration,
}

impl Crowd {
    /// Sends the answers of users until the batch is complete; `None` stands for a user who drops out.
    /// Returns the number of answers that were accepted.
    fn send(
        &self,
        task: &BanditTask,
        answers: impl Iterator<Item = Result<Option<(ReportId, Vec<u64>)>>>,
    ) -> Result<u64> {
        let (mut answered, digest) = (0, task.digest()?);
        for answer in answers {
            let Some((id, ones)) = answer? else { continue };
            if !self.message(task.exchange(), &digest, &id, &ones)? {
                break;
            }
            answered += 1;
        }
        Ok(answered)
    }

    /// Whether the exchange accepted this user. A shuffler that has just asked the bandit, or is busy, is
    /// asked again.
    fn message(&self, exchange: u64, digest: &TaskDigest, id: &ReportId, ones: &[u64]) -> Result<bool> {
        let begin = Instant::now();
        loop {
            match self.shuffler.messages(exchange, digest, id, ones) {
                Ok(()) => return Ok(true),
                Err(Error::Refused { problem, .. }) if problem.reason.as_deref() == Some("closed") => {
                    return Ok(false);
                }
                Err(Error::Refused { problem, .. })
                    if matches!(problem.reason.as_deref(), Some("not_awaited" | "overloaded"))
                        && begin.elapsed() < self.patience.min(Duration::from_secs(3)) => {}
                Err(error) => return Err(error.into()),
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    /// The task of the bandit after `task`.
    fn next(&self, task: &BanditTask, answered: u64) -> Result<Option<BanditTask>> {
        let (exchange, begin) = (task.exchange(), Instant::now());
        let mut pause = Duration::from_millis(2);
        loop {
            let now = BanditTask::now(&self.server, &self.bandit)?;
            if now.as_ref().is_none_or(|now| now.exchange() != exchange) {
                host::tell!("exchange {exchange} done, {answered} answered here");
                return Ok(now);
            }
            if begin.elapsed() >= self.patience {
                bail!(
                    "exchange {exchange} is incomplete: {answered} users answered here, and {} are needed; ask other users, \
                     or read the log of the shuffler",
                    task.users()
                );
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(500));
        }
    }
}

fn random_id<R: CryptoRng>(rng: &mut R) -> ReportId {
    let mut id = [0; 16];
    rng.fill_bytes(&mut id);
    id
}

fn reward<R: CryptoRng>(mean: f64, rng: &mut R) -> f64 {
    f64::from(rng.uniform() < mean)
}
