//! Simulated users of one batch.

use crate::{Agreed, address};
use anyhow::{Context, Result, bail};
use clap::Args;
use privacy::shuffle::BitSum;
use privacy::source::Words;
use rand::CryptoRng;
use secure_sum::encrypted::{LOGN12_LOGQP105_SUM, encrypt};
use secure_sum::{Awaiting, Batch, Party, http, reports};

#[derive(Args)]
pub(crate) struct Users {
    /// Address of helba-server, such as http://127.0.0.1:8080: users answer what its `--bandit` waits for, with the noise that
    /// follows from the bandit's parameters.
    #[arg(long, requires = "bandit", value_parser = address)]
    #[arg(conflicts_with_all = ["shuffler", "horizon", "epsilon", "noise", "missing", "colluding"])]
    server: Option<String>,
    /// The bandit, under one of the models pure, renyi and concentrated.
    #[arg(long, requires = "server")]
    bandit: Option<String>,
    /// The aggregators' addresses, both, such as http://127.0.0.1:9001 http://127.0.0.1:9002.
    #[arg(long, num_args = 2, conflicts_with = "shuffler", value_parser = address)]
    aggregators: Vec<String>,
    /// The address of the server that adds ciphertexts, in place of aggregators.
    #[arg(long, requires = "authority", conflicts_with_all = ["aggregators", "shuffler"], value_parser = address)]
    adder: Option<String>,
    /// The key authority's address.
    #[arg(long, value_parser = address)]
    authority: Option<String>,
    /// The shuffler's address, in place of aggregators.
    #[arg(long, requires = "steps", value_parser = address)]
    shuffler: Option<String>,
    /// Steps of a reward in bits, for the shuffler.
    #[arg(long, requires = "noise_bits")]
    steps: Option<u64>,
    /// Noise bits of each user, for the shuffler.
    #[arg(long)]
    noise_bits: Option<u64>,
    /// Number of the batch.
    #[arg(long)]
    batch: u64,
    /// Users asked [default with --bandit: as many as it waits for].
    #[arg(long, required_unless_present = "server")]
    invited: Option<u64>,
    /// Users in all batches.
    #[arg(long, required_unless_present = "server")]
    horizon: Option<u64>,
    /// Probability of a reward of 1, else it is 0; with --bandit one for each arm, separated by commas, or one for all.
    #[arg(long, value_delimiter = ',', required = true)]
    mean: Vec<f64>,
    /// Probability that a user drops out, half of them after the first of two reports.
    #[arg(long, default_value_t = 0.0)]
    dropout: f64,
    #[command(flatten)]
    agreed: Agreed,
}

impl Users {
    pub(crate) fn run(&self) -> Result<()> {
        let mut rng = http::rng()?;
        match (&self.shuffler, &self.adder, &self.authority, self.aggregators.as_slice()) {
            (Some(shuffler), ..) => self.shuffle(&Party::new(shuffler), &mut rng),
            (_, Some(adder), Some(authority), _) => {
                self.encrypt(&Party::new(adder), &Party::new(authority), &mut rng)
            }
            (.., [first, second]) => self.share([Party::new(first), Party::new(second)], &mut rng),
            _ => bail!("give two --aggregators, an --adder with its --authority, or a --shuffler"),
        }
    }

    /// What is asked, of how many, and the mean of their rewards.
    fn asked(&self) -> Result<(Batch, u64, f64)> {
        let (Some(server), Some(bandit)) = (&self.server, &self.bandit) else {
            let (invited, horizon) = (self.invited.unwrap_or(0), self.horizon.unwrap_or(0));
            return Ok((Batch::new(&self.agreed.plan(invited, horizon)?)?, invited, self.mean[0]));
        };
        let awaiting = Awaiting::ask(&Party::new(server), bandit)?;
        let (arm, users) = (awaiting.arm(), awaiting.users());
        let invited = self.invited.unwrap_or(users.into());
        let mean = match self.mean.as_slice() {
            [mean] => *mean,
            means => *means.get(arm).with_context(|| format!("--mean: none for arm {arm}"))?,
        };
        eprintln!("arm {arm}: {invited} users asked, {users} needed");
        Ok((awaiting.batch(invited)?, invited, mean))
    }

    fn encrypt<R: CryptoRng>(&self, adder: &Party, authority: &Party, rng: &mut R) -> Result<()> {
        let params = LOGN12_LOGQP105_SUM.validate()?;
        let (key, _) = authority.key(&params)?;
        let (batch, invited, mean) = self.asked()?;
        for _ in 0..invited {
            let value = batch.randomise(reward(mean, rng), rng)?;
            if rng.uniform() < self.dropout {
                continue;
            }
            let mut id = [0; 16];
            rng.fill_bytes(&mut id);
            adder.value(batch.id(self.batch), &id, &encrypt(&params, &key, value, rng)?)?;
        }
        Ok(())
    }

    fn share<R: CryptoRng>(&self, aggregators: [Party; 2], rng: &mut R) -> Result<()> {
        let (batch, invited, mean) = self.asked()?;
        let id = batch.id(self.batch);
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

    fn shuffle<R: CryptoRng>(&self, shuffler: &Party, rng: &mut R) -> Result<()> {
        let (Some(steps), Some(noise_bits)) = (self.steps, self.noise_bits) else {
            bail!("a --shuffler needs --steps and --noise-bits");
        };
        let invited = self.invited.unwrap_or(0);
        let bits = BitSum::new(1.0, invited, steps, noise_bits)?;
        for _ in 0..invited {
            let ones = bits.randomise(reward(self.mean[0], rng), rng)?;
            if rng.uniform() < self.dropout {
                continue;
            }
            let messages: Vec<u8> = (0..steps + noise_bits).map(|k| u8::from(k < ones)).collect();
            let mut id = [0; 16];
            rng.fill_bytes(&mut id);
            shuffler.messages(self.batch, &id, &messages)?;
        }
        Ok(())
    }
}

fn reward<R: CryptoRng>(mean: f64, rng: &mut R) -> f64 {
    f64::from(rng.uniform() < mean)
}
