//! `helba-client replay`: plays a file of purchases round by round, with reward 1 for the brand that was
//! bought.

use crate::arguments::Tuning;
use crate::{create, label, note, open};
use anyhow::{Context, bail};
use bandit::datasets::Purchases;
use host::say;
use protocol::{BanditConfig, Status};
use rand::CryptoRng;
use std::path::Path;
use std::time::Instant;
use user_client::{AnyBandit, Client, Device, Error, PackedDevice, os_rng};
use wire::{Created, Limits};

/// Reads a file of purchases.
pub(crate) fn read(data: &Path) -> anyhow::Result<Purchases> {
    Purchases::read(open(data)?).with_context(|| data.display().to_string())
}

/// Plays `purchases` on `bandit`, or on a new bandit tuned by `tuning`, up to `rounds` rounds.
pub(crate) fn run(
    client: &Client,
    (secret, device): (&Path, &Device),
    purchases: &Purchases,
    rounds: Option<u64>,
    bandit: Option<&str>,
    tuning: &Tuning,
) -> anyhow::Result<()> {
    // Checked before a bandit is created that this device could not use.
    let served = client.keys()?.key_id;
    if served != device.key_id().to_string() {
        bail!(
            "{} belongs to key {}, but the server has key {served}: use the secret bundle that was generated with the public \
             bundle of the server",
            secret.display(),
            device.key_id()
        );
    }
    let id = match bandit {
        Some(id) => id.to_string(),
        None => {
            let mut config = BanditConfig::new(purchases.d(), purchases.brands().len());
            config.horizon = purchases.rounds().len() as u64;
            tuning.apply(&mut config);
            create(client, &config)?
        }
    };
    let player = Player::new(client, device, &id)?;
    label(player.config());
    let all = purchases.rounds().len();
    let rounds = rounds.map_or(all, |rounds| all.min(usize::try_from(rounds).unwrap_or(all)));
    play(&player, &id, purchases, rounds)
}

/// The device's side of a bandit of either kind.
enum Side<'a> {
    Single(Box<Created>, Limits),
    Packed(Box<PackedDevice<'a>>),
}

struct Player<'a> {
    client: &'a Client,
    device: &'a Device,
    side: Side<'a>,
}

/// A round that was played.
struct Played {
    arm: usize,
    up: usize,
    down: usize,
}

impl<'a> Player<'a> {
    fn new(client: &'a Client, device: &'a Device, id: &str) -> anyhow::Result<Self> {
        let side = match client.any_bandit(id)? {
            AnyBandit::Single(view) => {
                let limits = device.limits(&view.created)?;
                Side::Single(Box::new(view.created), limits)
            }
            AnyBandit::Packed(view) => Side::Packed(Box::new(device.join(&view.created)?)),
            AnyBandit::Clear(_) => {
                bail!("bandit {id} has a clear policy, and this command plays encrypted ones")
            }
        };
        Ok(Player { client, device, side })
    }

    fn config(&self) -> &BanditConfig {
        match &self.side {
            Side::Single(created, _) => &created.config,
            Side::Packed(packed) => &packed.created().config,
        }
    }

    fn status(&self, id: &str) -> Result<Status, Error> {
        match &self.side {
            Side::Single(..) => self.client.status(id),
            Side::Packed(_) => Ok(self.client.packed(id)?.status),
        }
    }

    /// Plays a round, in which the arm `bought` earns 1.
    fn round<R: CryptoRng>(
        &self,
        rows: &[Vec<f64>],
        bought: usize,
        spent: &mut Spent,
        rng: &mut R,
    ) -> Result<Played, Error> {
        let (client, device) = (self.client, self.device);
        let mut clock = Instant::now();
        let mut lap = |total: &mut f64| {
            *total += clock.elapsed().as_secs_f64() * 1e3;
            clock = Instant::now();
        };
        let reward = |arm| f64::from(arm == bought);
        match &self.side {
            Side::Single(created, limits) => {
                let contexts = device.encrypt_contexts(created, rows, rng)?;
                lap(&mut spent.device);
                let reply = client.decide(created, limits, &contexts)?;
                lap(&mut spent.decide);
                let decision = device.read_decision(created, &reply)?;
                let arm = decision.arm;
                let answer = device.answer(created, &decision, &rows[arm], reward(arm), rng)?;
                note(device);
                lap(&mut spent.device);
                client.feedback(created, decision.id, &answer)?;
                lap(&mut spent.feedback);
                Ok(Played { arm, up: contexts.len() + answer.len(), down: reply.len() })
            }
            Side::Packed(packed) => {
                let mut round = packed.decide(client, rows, rng)?;
                lap(&mut spent.decide);
                let arm = round.choice.arm;
                let question = round.choice.question.as_ref();
                let feedback = packed.feedback(&rows[arm], reward(arm), question, rng)?;
                note(device);
                lap(&mut spent.device);
                client.feedback_packed(&packed.created().id, round.choice.id, &feedback)?;
                lap(&mut spent.feedback);
                packed.answer_tasks(client, &mut round, rng)?;
                lap(&mut spent.device);
                Ok(Played { arm, up: round.sent + feedback.len(), down: round.received })
            }
        }
    }
}

/// Total milliseconds. A packed decision includes the device's part of it.
#[derive(Default)]
struct Spent {
    device: f64,
    decide: f64,
    feedback: f64,
}

fn play(player: &Player, id: &str, purchases: &Purchases, rounds: usize) -> anyhow::Result<()> {
    let mut rng = os_rng()?;
    let (mut spent, mut matched, mut up, mut down) = (Spent::default(), 0usize, 0usize, 0usize);
    say!("bandit {id}");
    for (t, (features, bought)) in purchases.rounds()[..rounds].iter().enumerate() {
        let rows: Vec<Vec<f64>> = features.rows().map(<[f64]>::to_vec).collect();
        let played = player.round(&rows, *bought, &mut spent, &mut rng)?;
        matched += usize::from(played.arm == *bought);
        up += played.up;
        down += played.down;
        if (t + 1) % 100 == 0 || t + 1 == rounds {
            let n = (t + 1) as f64;
            say!(
                "round {:5}  matched {:.3}  per round: decision {:.0} ms, feedback {:.0} ms, device {:.0} ms, up {:.2} MiB, \
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
    let status = player.status(id)?;
    say!(
        "{} feedbacks counted, {} batch updates, {} models refreshed",
        status.feedbacks,
        status.batches,
        status.refreshes
    );
    Ok(())
}
