//! `secure-sum report`: one user sends a reward.

use crate::{address, token};
use anyhow::{Context, Result, bail};
use clap::Args;
use privacy::task::DeviceBounds;
use rand::CryptoRng;
use secure_sum::encrypted::{SumRing, encrypt};
use secure_sum::{BanditTask, Party, ReportId, reports};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Report {
    /// PEM file of the certificate authorities to trust, instead of those that browsers trust.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Address of helba-server, such as http://127.0.0.1:8080.
    #[arg(long, value_parser = address)]
    server: String,
    /// File with a token of helba-server, if it has tokens: an API token of any scope, or the operator's.
    #[arg(long, value_name = "FILE")]
    server_token_file: Option<PathBuf>,
    /// Id of the bandit, with the policy `elimination` under a model whose users answer an intermediary.
    #[arg(long)]
    bandit: String,
    /// The reward, from 0 to 1. Without it, prints the arm to play and sends nothing.
    #[arg(long, requires = "arm")]
    reward: Option<f64>,
    /// The arm that was played. If the bandit has gone on to another one, nothing is sent.
    #[arg(long, requires = "reward")]
    arm: Option<usize>,
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
    #[arg(long, value_parser = address)]
    shuffler: Option<String>,
    /// Number of the batch that was announced. Behind a shuffler, the bandit numbers the batches.
    #[arg(long, conflicts_with = "shuffler")]
    batch: Option<u64>,
    /// Largest epsilon that this user accepts. Nothing is sent to a bandit whose parameters have a larger
    /// one.
    #[arg(long, default_value_t = DeviceBounds::default().epsilon)]
    most_epsilon: f64,
    /// Largest delta that this user accepts, the probability with which the guarantee may fail.
    #[arg(long, default_value_t = DeviceBounds::default().delta)]
    most_delta: f64,
    /// Least share of made-up or colluding users that the noise must tolerate.
    #[arg(long, default_value_t = DeviceBounds::default().colluding)]
    least_colluding: f64,
}

impl Report {
    pub(crate) fn run(&self) -> Result<()> {
        let server = self.party(&self.server)?.with_token(token(self.server_token_file.as_deref())?);
        let task = BanditTask::ask(&server, &self.bandit)?;
        let asked = task
            .arm()
            .context("the devices of this bandit choose their arms: `secure-sum users` plays them")?;
        let (Some(reward), Some(arm)) = (self.reward, self.arm) else {
            host::say!("{asked}");
            return Ok(());
        };
        if arm != asked {
            bail!(
                "the bandit waits for rewards of arm {asked} now: the reward of arm {arm} comes too late and is not sent"
            );
        }
        self.send(&task, reward, &mut host::os_rng()?)?;
        host::tell!("sent, with noise: nobody sees this reward alone");
        Ok(())
    }

    fn send<R: CryptoRng>(&self, task: &BanditTask, reward: f64, rng: &mut R) -> Result<()> {
        let bounds = DeviceBounds {
            epsilon: self.most_epsilon,
            delta: self.most_delta,
            colluding: self.least_colluding,
        };
        let mut id: ReportId = [0; 16];
        rng.fill_bytes(&mut id);
        if let Some(shuffler) = &self.shuffler {
            let ones = task.count(&bounds)?.ones(reward, rng)?;
            return Ok(self.party(shuffler)?.messages(task.exchange(), &task.digest()?, &id, &[ones])?);
        }
        let batch = task.batch(&bounds)?;
        let of = batch.id(self.batch.context("--batch is missing: the number that was announced")?);
        let value = batch.randomise(reward, rng)?;
        match (&self.adder, &self.authority, self.aggregators.as_slice()) {
            (Some(adder), Some(authority), _) => {
                let (key, _) = self.party(authority)?.key(of)?;
                let value = encrypt(SumRing::for_users(batch.at_least())?, &key, value, rng)?;
                Ok(self.party(adder)?.value(of, &id, &value)?)
            }
            (.., [first, second]) => {
                for (party, report) in [first, second].into_iter().zip(&reports(of, value, rng)) {
                    self.party(party)?.report(report)?;
                }
                Ok(())
            }
            _ => bail!("give two --aggregators, an --adder with its --authority, or a --shuffler"),
        }
    }

    fn party(&self, url: &str) -> Result<Party> {
        Ok(Party::new(url)?.trusting(self.ca.as_deref())?)
    }
}
