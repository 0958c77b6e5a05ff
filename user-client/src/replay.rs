//! `helba-client replay`: plays a file whose rewards are all known, round by round.

use crate::arguments::Tuning;
use crate::{label, note, print};
use anyhow::{Context, bail};
use datasets::Dataset;
use host::say;
use protocol::BanditConfig;
use std::path::Path;
use std::time::Instant;
use user_client::{AnyBandit, BanditDevice, Client, Device, os_rng};

/// Plays `dataset` on `bandit`, or on a new bandit tuned by `tuning`, up to `rounds` rounds.
pub(crate) fn run(
    client: &Client,
    (secret, device): (&Path, &Device),
    dataset: &Dataset,
    rounds: Option<u64>,
    (bandit, tuning): (Option<&str>, &Tuning),
    json: bool,
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
        Some(id) => match client.any_bandit(id)? {
            AnyBandit::Encrypted(view) => view.created,
            AnyBandit::Clear(_) => {
                bail!("bandit {id} has a clear policy, and this command plays encrypted ones")
            }
        },
        None => {
            let mut config = BanditConfig::new(dataset.d(), dataset.arms().len());
            config.horizon = dataset.rounds().len() as u64;
            tuning.apply(&mut config);
            client.create_encrypted(&config)?
        }
    };
    label(&created.config);
    let all = dataset.rounds().len();
    let rounds = rounds.map_or(all, |rounds| all.min(usize::try_from(rounds).unwrap_or(all)));
    play(client, device, &device.join(&created)?, (dataset, rounds), json)
}

/// Totals of all rounds: milliseconds, of which those of a decision include the device's part of it, and
/// bytes.
#[derive(Default)]
struct Spent {
    device: f64,
    decide: f64,
    feedback: f64,
    up: usize,
    down: usize,
}

fn play(
    client: &Client,
    device: &Device,
    bandit: &BanditDevice,
    (dataset, rounds): (&Dataset, usize),
    json: bool,
) -> anyhow::Result<()> {
    let mut rng = os_rng()?;
    let (mut spent, mut earned) = (Spent::default(), 0.0);
    let id = &bandit.created().id;
    if !json {
        say!("bandit {id}");
    }
    for (t, played) in dataset.rounds()[..rounds].iter().enumerate() {
        let rows: Vec<Vec<f64>> = played.features.rows().map(<[f64]>::to_vec).collect();
        let mut clock = Instant::now();
        let mut lap = |total: &mut f64| {
            *total += clock.elapsed().as_secs_f64() * 1e3;
            clock = Instant::now();
        };
        let mut round = bandit.decide(client, &rows, &mut rng)?;
        lap(&mut spent.decide);
        let (arm, question) = (round.choice.arm, round.choice.question.as_ref());
        let reward =
            played.observed.reward(arm).context("the device chose an arm that the round does not have")?;
        let feedback = bandit.feedback(&rows[arm], reward, question, &mut rng)?;
        note(device);
        lap(&mut spent.device);
        client.feedback_encrypted(id, round.choice.id, &feedback)?;
        lap(&mut spent.feedback);
        bandit.answer_tasks(client, &mut round, &mut rng)?;
        lap(&mut spent.device);
        earned += reward;
        spent.up += round.sent + feedback.len();
        spent.down += round.received;
        if !json && ((t + 1) % 100 == 0 || t + 1 == rounds) {
            let n = (t + 1) as f64;
            say!(
                "round {:5}  mean reward {:.3}  per round: decision {:.0} ms, feedback {:.0} ms, device {:.0} ms, up {:.2} MiB, \
                 down {:.2} MiB",
                t + 1,
                earned / n,
                spent.decide / n,
                spent.feedback / n,
                spent.device / n,
                spent.up as f64 / n / f64::from(1 << 20),
                spent.down as f64 / n / f64::from(1 << 20),
            );
        }
    }
    // On the rounds that were played: a share of others is no comparison.
    let (arm, mean) = dataset.best_fixed(rounds);
    let status = client.encrypted(id)?.status;
    if json {
        let n = rounds.max(1) as f64;
        return print(&serde_json::json!({
            "bandit": id, "rounds": rounds, "mean_reward": earned / n,
            "best_fixed": { "candidate": dataset.arms()[arm], "mean_reward": mean, "rounds": rounds },
            "milliseconds_per_round": {
                "decision": spent.decide / n, "feedback": spent.feedback / n, "device": spent.device / n,
            },
            "bytes_per_round": { "up": spent.up as f64 / n, "down": spent.down as f64 / n },
            "status": status,
        }));
    }
    say!("always {}: mean reward {mean:.3} of these {rounds} rounds", dataset.arms()[arm]);
    say!(
        "{} feedbacks counted, {} batch updates, {} models refreshed",
        status.feedbacks,
        status.batches,
        status.refreshes
    );
    Ok(())
}
