//! One decision of an encrypted bandit and its feedback, as commands of their own.

use crate::{contexts_of, label, print};
use anyhow::{Context, bail};
use datasets::{DataRound, Dataset, Observed};
use host::{Undone, say, tell};
use protocol::{ArmCounter, DecisionId};
use rand::RngExt;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use user_client::{
    AnyBandit, BanditDevice, Choice, Client, Device, Error, LoggedRound, OpenedCounters, Pending,
    PlayedRound, os_rng,
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
    let rows = contexts_of(contexts)?;
    let AnyBandit::Encrypted(view) = client.any_bandit(id)? else {
        bail!("bandit {id} has a clear policy: ask without --secret")
    };
    label(&view.created.config);
    let joined = device.join(&view.created)?;
    let of_signal = pending.to_path_buf();
    // Until the decision is in it, the file is removed if a signal ends the process.
    let reserve = || {
        let file = Pending::reserve(pending)?;
        Ok::<_, Error>((file, move || drop(std::fs::remove_file(of_signal))))
    };
    let (mut file, unwritten) = Undone::after(reserve)?;
    let kept = ask(client, &joined, &view.created, rows).and_then(|(round, waiting)| {
        waiting.write(&mut file).with_context(|| format!("cannot write {}", pending.display()))?;
        Ok(round)
    });
    if kept.is_err() {
        std::fs::remove_file(pending).with_context(|| format!("cannot remove {}", pending.display()))?;
    }
    drop(unwritten);
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
        tell!(
            "helba-client: asked {} more times, because the answer could not be relied on; each request told the server a bit of a \
             decryption (docs/threat-model.md)",
            round.repeats
        );
    }
    if let Some(error) = &round.unrepeated {
        tell!("helba-client: the server gave no other answer to the decision: {error}");
    }
    crate::note(device);
}

/// Answers what the server asks besides, after the arm was printed.
fn answer_tasks(client: &Client, bandit: &BanditDevice, round: &mut PlayedRound) -> anyhow::Result<()> {
    if let Err(error) = bandit.answer_tasks(client, round, &mut os_rng()?) {
        tell!("helba-client: a task was not answered, and the server gives it to another device: {error}");
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
        tell!(
            "helba-client: the answer is outside its range, and the arm cannot be relied on: contexts of somebody are longer than the \
             bound `linear.l`, or the server deviates from the protocol; ask for a new decision"
        );
    }
    tell!("the decision is kept in {} until its reward is returned", pending.display());
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
    let body = device.join(created)?.feedback(arm, features, reward, question, &mut os_rng()?)?;
    crate::note(device);
    let receipt = client.feedback_encrypted(&created.id, pending.decision, &body)?;
    std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    print(&receipt)
}

/// Writes the model of a bandit in the clear to the new file `output`.
pub(crate) fn export(client: &Client, id: &str, device: &Device, output: &Path) -> anyhow::Result<()> {
    let AnyBandit::Encrypted(view) = client.any_bandit(id)? else {
        bail!(
            "bandit {id} is not one of this key bundle: a committee's model is opened by nobody, and the server shows that of a clear policy"
        )
    };
    let bandit = device.join(&view.created)?;
    let model = bandit.export(&client.model(id, bandit.limits())?)?;
    let json = serde_json::to_vec_pretty(&model)?;
    let mut file = host::private_file();
    let written = file.write(true).create_new(true).open(output).and_then(|mut file| {
        file.write_all(&json)?;
        file.sync_all()
    });
    written.with_context(|| format!("cannot write {}", output.display()))?;
    tell!("{}: the model of {} feedbacks; keep it from the server", output.display(), model.feedbacks);
    Ok(())
}

/// Opens the counters of a bandit, and compares its arms with `baseline`.
pub(crate) fn counters(
    client: &Client,
    id: &str,
    device: &Device,
    baseline: Option<usize>,
    json: bool,
) -> anyhow::Result<()> {
    let view = match client.any_bandit(id)? {
        AnyBandit::Encrypted(view) => view,
        AnyBandit::Committee(_) => {
            bail!(
                "bandit {id} is of a committee: `helba-client committee counters` shows what its members have opened"
            )
        }
        AnyBandit::Clear(_) => {
            bail!("bandit {id} has a clear policy: the server has its numbers in the clear")
        }
    };
    let bandit = device.join(&view.created)?;
    let opened = bandit.open_counters(&client.counters(id, bandit.limits())?)?;
    let every = view.created.config.counters.map_or(0, |counters| counters.every);
    print_counters(&opened, (view.status.feedbacks, every), baseline, json)
}

/// Prints counters of a bandit with so many feedbacks, which are shown for `every` of them together.
pub(crate) fn print_counters(
    opened: &OpenedCounters,
    (total, every): (u64, u64),
    baseline: Option<usize>,
    json: bool,
) -> anyhow::Result<()> {
    if let Some(arm) = baseline.filter(|arm| *arm >= opened.arms.len()) {
        bail!("there is no arm {arm}: arms are numbered from 0 to {}", opened.arms.len().saturating_sub(1));
    }
    let all = opened.total();
    let mean = |of: &ArmCounter| of.mean();
    let before = baseline.and_then(|arm| mean(&opened.arms[arm]));
    let gain = mean(&all).zip(before).map(|(mean, before)| mean - before);
    if json {
        let of_arm = |(arm, of): (usize, &ArmCounter)| {
            let (pulls, reward, mean) = (of.pulls, of.reward, of.mean());
            serde_json::json!({ "arm": arm, "pulls": pulls, "reward": reward, "mean": mean })
        };
        return print(&serde_json::json!({
            "feedbacks": opened.feedbacks, "deviation": opened.deviation, "mean": mean(&all), "gain": gain,
            "arms": opened.arms.iter().enumerate().map(of_arm).collect::<Vec<_>>(),
        }));
    }
    if opened.feedbacks == 0 {
        say!("no counters yet: {total} feedbacks came, and the first {every} are shown together");
        return Ok(());
    }
    let number = |mean: Option<f64>| mean.map_or("-".into(), |mean| format!("{mean:.4}"));
    let line = |name: &str, of: &ArmCounter| -> anyhow::Result<()> {
        let share = 100.0 * of.pulls / all.pulls.max(1.0);
        say!("{name:>5}{:>12.1}{share:>9.1} %{:>14}", of.pulls, number(of.mean()));
        Ok(())
    };
    say!("{:>5}{:>12}{:>11}{:>14}", "arm", "played", "share", "mean reward");
    for (arm, of) in opened.arms.iter().enumerate() {
        line(&arm.to_string(), of)?;
    }
    line("all", &all)?;
    if let (Some(arm), Some(gain)) = (baseline, gain) {
        say!("the mean reward is {gain:+.4} from that of arm {arm}");
    }
    say!("the first {} of {total} feedbacks, as devices reported them", opened.feedbacks);
    if opened.deviation > 0.0 {
        say!(
            "each count and each sum of rewards has noise with a standard deviation of {:.1}",
            opened.deviation
        );
    }
    Ok(())
}

/// Answers the tasks of a bandit until it waits for no holder of the key, and prints its state.
pub(crate) fn refresh(client: &Client, id: &str, device: &Device, json: bool) -> anyhow::Result<()> {
    let AnyBandit::Encrypted(view) = client.any_bandit(id)? else {
        bail!("bandit {id} has a clear policy: its server updates it without a holder of keys")
    };
    let bandit = device.join(&view.created)?;
    let (answered, status) = bandit.answer_until_idle(client, &mut os_rng()?)?;
    if json {
        return print(&serde_json::json!({ "answered": answered, "status": status }));
    }
    match answered {
        0 => say!(
            "nothing to answer: the model in use has {} of {} feedbacks",
            status.model_feedbacks,
            status.feedbacks
        ),
        _ => say!(
            "{answered} tasks answered: the model in use has {} of {} feedbacks",
            status.model_feedbacks,
            status.feedbacks
        ),
    }
    Ok(())
}

/// Has a bandit learn the logged rounds of a file in bulk: of logged decisions the arm that was played, and
/// of choices every candidate.
pub(crate) fn learn(
    client: &Client,
    id: &str,
    device: &Device,
    dataset: &Dataset,
    name: Option<&str>,
    json: bool,
) -> anyhow::Result<()> {
    let view = match client.any_bandit(id)? {
        AnyBandit::Encrypted(view) => view,
        AnyBandit::Committee(_) => {
            bail!("bandit {id} is of a committee: have it learn with `committee learn`")
        }
        AnyBandit::Clear(_) => {
            bail!("bandit {id} has a clear policy, which learns from feedback on its own decisions alone")
        }
    };
    let linear = &view.created.config.linear;
    let rounds = rounds_of(dataset, (linear.k, linear.d))?;
    let (horizon, before) = (view.created.config.horizon, view.status.feedbacks);
    if let Some(warning) = beyond(horizon, before, rounds.len() as u64) {
        tell!("helba-client: warning: {warning}");
    }
    let bandit = device.join(&view.created)?;
    let mut rng = os_rng()?;
    // A name of its own, so that the rounds are learnt once whatever is sent again.
    let name = name.map_or_else(|| DecisionId(rng.random()).to_string(), str::to_string);
    let total = rounds.len();
    let learnt = bandit.learn(client, &name, &rounds, &mut rng, |done| {
        tell!("helba-client: {} of {total} rounds are learnt", done.rounds);
    });
    let learnt = learnt.with_context(|| format!("to go on without counting twice, give --name {name}"))?;
    let (rounds, status) = (learnt.rounds, learnt.status);
    if json {
        return print(
            &serde_json::json!({ "rounds": rounds, "name": name, "erasable": false, "status": status }),
        );
    }
    let (model, feedbacks) = (status.model_feedbacks, status.feedbacks);
    say!(
        "{rounds} rounds are learnt by the name {name}: the model in use has {model} of {feedbacks} feedbacks"
    );
    say!("single rounds of them cannot be erased: the server has their sum alone");
    Ok(())
}

/// Why a bandit that has `before` feedbacks, and numbers that are scaled for `horizon` rounds, should not
/// learn
/// `more`. Rounds that it has learnt by the same name are counted twice here, since the server alone knows
/// them.
fn beyond(horizon: u64, before: u64, more: u64) -> Option<String> {
    let all = before.saturating_add(more);
    (all > horizon).then(|| {
        format!(
            "the numbers of this bandit are scaled for a horizon of {horizon} rounds, and with these {more} it has up to {all} \
             feedbacks: beyond its horizon it learns with less precision. Create a bandit with --horizon {all} and as many rounds \
             more as will be played, or learn fewer rounds"
        )
    })
}

/// The rounds that a bandit of so many arms and features learns from a file.
pub(crate) fn rounds_of(
    dataset: &Dataset,
    (arms, features): (usize, usize),
) -> anyhow::Result<Vec<LoggedRound>> {
    let (of_arms, of_features) = (dataset.arms().len(), dataset.d());
    if (of_arms, of_features) != (arms, features) {
        bail!(
            "the file has {of_features} features and {of_arms} arms, but the bandit has {features} and {arms}"
        );
    }
    Ok(dataset.rounds().iter().flat_map(of_file).collect())
}

/// What a round of a file teaches.
fn of_file(round: &DataRound) -> Vec<LoggedRound> {
    let row = |arm: usize, reward: f64| {
        let features = round.features.row(arm).unwrap_or_default().to_vec();
        LoggedRound { arm, features, reward }
    };
    match &round.observed {
        Observed::Played { arm, reward, .. } => vec![row(*arm, *reward)],
        Observed::Every(rewards) => {
            rewards.iter().enumerate().map(|(arm, reward)| row(arm, *reward)).collect()
        }
    }
}
