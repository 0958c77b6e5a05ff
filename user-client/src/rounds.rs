//! One decision of an encrypted bandit and its feedback, as commands of their own.

use crate::{label, open, print};
use anyhow::{Context, bail};
use host::say;
use serde::Serialize;
use std::path::Path;
use user_client::{
    AnyBandit, BanditDevice, Choice, Client, Device, Pending, PlayedRound, os_rng, read_contexts,
};
use wire::Created;

/// Asks for a decision, keeps it in `pending`, and prints the arm. The file `pending` is created before the
/// server is asked, because a decision whose reward cannot be returned is lost.
pub(crate) fn decide(
    client: &Client,
    id: &str,
    device: &Device,
    (contexts, pending): (&Path, &Path),
    json: bool,
) -> anyhow::Result<()> {
    let rows = read_contexts(open(contexts)?).with_context(|| contexts.display().to_string())?;
    let AnyBandit::Encrypted(view) = client.any_bandit(id)? else {
        bail!("bandit {id} has a clear policy: ask without --secret")
    };
    label(&view.created.config);
    let joined = device.join(&view.created)?;
    let mut file = Pending::reserve(pending)?;
    let kept = ask(client, &joined, &view.created, rows).and_then(|(round, waiting)| {
        waiting.write(&mut file).with_context(|| format!("cannot write {}", pending.display()))?;
        Ok(round)
    });
    if kept.is_err() {
        std::fs::remove_file(pending).with_context(|| format!("cannot remove {}", pending.display()))?;
    }
    let mut round = kept?;
    note_repeats(device, &round);
    announce(&round, pending, json)?;
    answer_tasks(client, &joined, &mut round)
}

/// A decision, and what is kept of it until its reward is returned.
fn ask(
    client: &Client,
    device: &BanditDevice,
    created: &Created,
    contexts: Vec<Vec<f64>>,
) -> anyhow::Result<(PlayedRound, Pending)> {
    let round = device.decide(client, &contexts, &mut os_rng()?)?;
    let Choice { id: decision, arm, reliable, .. } = round.choice;
    let question = round.choice.question.clone();
    let (server, created) = (client.server().into(), created.clone());
    Ok((round, Pending { server, contexts, created, decision, arm, reliable, question }))
}

/// Says how often the device asked again, and why it did not any more.
fn note_repeats(device: &Device, round: &PlayedRound) {
    if round.repeats > 0 {
        eprintln!(
            "helba-client: asked {} more times, because the answer could not be relied on; each request told the server a bit of a \
             decryption (docs/threat-model.md)",
            round.repeats
        );
    }
    if let Some(error) = &round.unrepeated {
        eprintln!("helba-client: the server gave no other answer to the decision: {error}");
    }
    crate::note(device);
}

/// Answers what the server asks besides, after the arm was printed.
fn answer_tasks(client: &Client, bandit: &BanditDevice, round: &mut PlayedRound) -> anyhow::Result<()> {
    if let Err(error) = bandit.answer_tasks(client, round, &mut os_rng()?) {
        eprintln!(
            "helba-client: a task was not answered, and the server gives it to another device: {error}"
        );
    }
    Ok(())
}

/// An encrypted decision as `decide --json` prints it.
#[derive(Serialize)]
struct Announced<'a> {
    decision: String,
    arm: usize,
    reliable: bool,
    repeats: u32,
    pending: &'a Path,
}

fn announce(round: &PlayedRound, pending: &Path, json: bool) -> anyhow::Result<()> {
    let (arm, reliable) = (round.choice.arm, round.choice.reliable);
    if json {
        let (decision, repeats) = (round.choice.id.to_string(), round.repeats);
        print(&Announced { decision, arm, reliable, repeats, pending })?;
    } else {
        say!("{arm}");
    }
    if !reliable {
        eprintln!(
            "helba-client: the answer is outside its range, and the arm cannot be relied on: contexts of somebody are longer than the \
             bound `linear.l`, or the server deviates from the protocol; ask for a new decision"
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
    let arm = arm.unwrap_or(pending.arm);
    let features = pending.contexts.get(arm).with_context(|| {
        let last = pending.contexts.len().saturating_sub(1);
        format!("there is no arm {arm}: arms are numbered from 0 to {last}")
    })?;
    let (created, question) = (&pending.created, pending.question.as_ref());
    let body = device.join(created)?.feedback(features, reward, question, &mut os_rng()?)?;
    crate::note(device);
    let receipt = client.feedback_encrypted(&created.id, pending.decision, &body)?;
    std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    print(&receipt)
}
