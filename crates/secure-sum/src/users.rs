//! Simulated users of one batch.

use crate::Agreed;
use anyhow::{Result, bail};
use clap::Args;
use privacy::shuffle::BitSum;
use privacy::source::Words;
use rand::CryptoRng;
use secure_sum::encrypted::{LOGN12_LOGQP105_SUM, encrypt};
use secure_sum::{Batch, Party, http, reports};

#[derive(Args)]
pub(crate) struct Users {
    /// The aggregators' addresses, both.
    #[arg(long, num_args = 2, conflicts_with = "shuffler")]
    aggregators: Vec<String>,
    /// The address of the server that adds ciphertexts, in place of aggregators.
    #[arg(long, requires = "authority", conflicts_with_all = ["aggregators", "shuffler"])]
    adder: Option<String>,
    /// The key authority's address.
    #[arg(long)]
    authority: Option<String>,
    /// The shuffler's address, in place of aggregators.
    #[arg(long, requires = "steps")]
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
    /// Users asked.
    #[arg(long)]
    invited: u64,
    /// Users in all batches.
    #[arg(long)]
    horizon: u64,
    /// Probability of a reward of 1; else it is 0.
    #[arg(long)]
    mean: f64,
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

    fn encrypt<R: CryptoRng>(&self, adder: &Party, authority: &Party, rng: &mut R) -> Result<()> {
        let params = LOGN12_LOGQP105_SUM.validate()?;
        let (key, _) = authority.key(&params)?;
        let batch = Batch::new(&self.agreed.plan(self.invited, self.horizon)?)?;
        for _ in 0..self.invited {
            let value = batch.randomise(self.reward(rng), rng)?;
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
        let batch = Batch::new(&self.agreed.plan(self.invited, self.horizon)?)?;
        let id = batch.id(self.batch);
        for _ in 0..self.invited {
            let reward = self.reward(rng);
            let value = batch.randomise(reward, rng)?;
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
        let bits = BitSum::new(1.0, self.invited, steps, noise_bits)?;
        for _ in 0..self.invited {
            let ones = bits.randomise(self.reward(rng), rng)?;
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

    fn reward<R: CryptoRng>(&self, rng: &mut R) -> f64 {
        f64::from(rng.uniform() < self.mean)
    }
}
