//! One decision of an encrypted bandit and its feedback, as commands of their own.

use crate::{label, open, print};
use anyhow::{Context, bail};
use host::say;
use std::path::Path;
use user_client::{
    AnyBandit, Client, Device, PackedDevice, PackedRound, Pending, Waiting, os_rng, read_contexts,
};
use wire::{Created, PackedCreated};

/// Asks for a decision, keeps it in `pending`, and prints the arm.
pub(crate) fn decide(
    client: &Client,
    id: &str,
    device: &Device,
    contexts: &Path,
    pending: &Path,
) -> anyhow::Result<()> {
    let rows = read_contexts(open(contexts)?).with_context(|| contexts.display().to_string())?;
    match client.any_bandit(id)? {
        AnyBandit::Single(view) => decide_alone(client, device, view.created, rows, pending),
        AnyBandit::Packed(view) => decide_packed(client, device, view.created, rows, pending),
        AnyBandit::Clear(_) => bail!("bandit {id} has a clear policy: ask without --secret"),
    }
}

fn decide_alone(
    client: &Client,
    device: &Device,
    created: Created,
    rows: Vec<Vec<f64>>,
    pending: &Path,
) -> anyhow::Result<()> {
    label(&created.config);
    let body = device.encrypt_contexts(&created, &rows, &mut os_rng()?)?;
    let decision = keep(client, rows, pending, || {
        let reply = client.decide(&created, &device.limits(&created)?, &body)?;
        let decision = device.read_decision(&created, &reply)?;
        Ok((decision, Waiting::Single { created, reply }))
    })?;
    announce(decision.arm, decision.reliable, pending)
}

fn decide_packed(
    client: &Client,
    device: &Device,
    created: PackedCreated,
    rows: Vec<Vec<f64>>,
    pending: &Path,
) -> anyhow::Result<()> {
    label(&created.config);
    let (packed, mut rng) = (device.join(&created)?, os_rng()?);
    let contexts = rows.clone();
    let mut round = keep(client, rows, pending, || {
        let round = packed.decide(client, &contexts, &mut rng)?;
        let (decision, arm, question) = (round.choice.id, round.choice.arm, round.choice.question.clone());
        Ok((round, Waiting::Packed { created, decision, arm, question }))
    })?;
    note_repeats(device, &round);
    announce(round.choice.arm, round.choice.reliable, pending)?;
    answer_tasks(client, &packed, &mut round)
}

/// Says how often the device asked again, and why it did not any more.
fn note_repeats(device: &Device, round: &PackedRound) {
    if round.repeats > 0 {
        eprintln!(
            "helba-client: asked {} times again for an answer that could not be relied on, each of which told the server a bit of a \
             decryption (docs/threat-model.md)",
            round.repeats
        );
    }
    if let Some(error) = &round.unrepeated {
        eprintln!("helba-client: the decision is not repeated: {error}");
    }
    crate::note(device);
}

/// Answers what the server asks besides, after the arm was printed.
fn answer_tasks(client: &Client, packed: &PackedDevice, round: &mut PackedRound) -> anyhow::Result<()> {
    if let Err(error) = packed.answer_tasks(client, round, &mut os_rng()?) {
        eprintln!(
            "helba-client: a task was not answered, and the server gives it to another device: {error}"
        );
    }
    Ok(())
}

/// Creates the file `pending`, asks, and writes the decision into it. The file is created before the server
/// is asked, because a decision whose reward cannot be returned is lost.
fn keep<T>(
    client: &Client,
    contexts: Vec<Vec<f64>>,
    pending: &Path,
    ask: impl FnOnce() -> anyhow::Result<(T, Waiting)>,
) -> anyhow::Result<T> {
    let mut file = Pending::reserve(pending)?;
    let kept = ask().and_then(|(asked, waiting)| {
        let waiting = Pending { server: client.server().into(), contexts, waiting };
        waiting.write(&mut file).with_context(|| format!("cannot write {}", pending.display()))?;
        Ok(asked)
    });
    if kept.is_err() {
        std::fs::remove_file(pending).with_context(|| format!("cannot remove {}", pending.display()))?;
    }
    kept
}

fn announce(arm: usize, reliable: bool, pending: &Path) -> anyhow::Result<()> {
    say!("{arm}");
    if !reliable {
        eprintln!(
            "helba-client: the answer is outside its range, so that the arm is not to be relied on: contexts of somebody are longer \
             than the bound `linear.l`, or the server deviates from the protocol"
        );
    }
    eprintln!("the decision is kept in {} until its reward is returned", pending.display());
    Ok(())
}

/// Returns the reward of the decision in the file at `path`, and deletes the file.
pub(crate) fn feedback(
    (path, pending): (&Path, &Pending),
    device: &Device,
    client: &Client,
    reward: f64,
    arm: Option<usize>,
) -> anyhow::Result<()> {
    let features = |proposed: usize| {
        let arm = arm.unwrap_or(proposed);
        pending.contexts.get(arm).with_context(|| {
            let last = pending.contexts.len().saturating_sub(1);
            format!("there is no arm {arm}: arms are numbered from 0 to {last}")
        })
    };
    let receipt = match &pending.waiting {
        Waiting::Single { created, reply } => {
            let decision = device.read_decision(created, reply)?;
            let features = features(decision.arm)?;
            let answer = device.answer(created, &decision, features, reward, &mut os_rng()?)?;
            crate::note(device);
            client.feedback(created, decision.id, &answer)?
        }
        Waiting::Packed { created, decision, arm, question } => {
            let (features, question) = (features(*arm)?, question.as_ref());
            let body = device.join(created)?.feedback(features, reward, question, &mut os_rng()?)?;
            crate::note(device);
            client.feedback_packed(&created.id, *decision, &body)?
        }
    };
    std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    print(&receipt)
}
