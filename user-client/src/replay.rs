//! `helba-client replay`: plays a file of purchases round by round, with reward 1 for the brand that was
//! bought.

use crate::arguments::Tuning;
use crate::{label, note, open};
use anyhow::{Context, bail};
use bandit::datasets::Purchases;
use host::say;
use protocol::BanditConfig;
use std::path::Path;
use std::time::Instant;
use user_client::{Client, Device, os_rng};
use wire::Created;

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
    let created = match bandit {
        Some(id) => client.bandit(id)?.created,
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
    play(client, device, &created, purchases, rounds)
}

/// Total milliseconds.
#[derive(Default)]
struct Spent {
    device: f64,
    decide: f64,
    feedback: f64,
}

fn play(
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
    let status = client.status(&created.id)?;
    say!(
        "{} feedbacks counted, {} batch updates, {} models refreshed",
        status.feedbacks,
        status.batches,
        status.refreshes
    );
    Ok(())
}
