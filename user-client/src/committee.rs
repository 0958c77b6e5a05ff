//! `helba-client committee`: a user of a committee.

use crate::arguments::{CommitteeCommand, SessionOptions};
use crate::rounds::{print_counters, rounds_of};
use anyhow::{Context, ensure};
use host::{say, tell};
use protocol::BanditConfig;
use serde_json::json;
use user_client::{CommitteeUser, Creation, Error, os_rng};
use wire::{CommitteeBandit, Labels};

pub(crate) fn run(command: CommitteeCommand, json: bool) -> anyhow::Result<()> {
    match command {
        CommitteeCommand::Begin { server, committee, session } => {
            ensure!(!session.exists(), "{} exists already: it keeps another session", session.display());
            let id = wire::from_hex(&committee).context("--committee must be 64 hexadecimal digits")?;
            CommitteeUser::open(server.client(None, warn)?.telling(warn), Some(id), &session)?;
            say!("session in {}", session.display());
        }
        CommitteeCommand::Create { server, features, arms, tuning, sessions, decisions, name } => {
            let of_keys = tuning.of_keys().join(", ");
            ensure!(
                of_keys.is_empty(),
                "a bandit of a committee has exact numbers and a public schedule: leave out {of_keys}"
            );
            let mut config = BanditConfig::new(features, arms);
            tuning.apply(&mut config)?;
            let rewards = <[f64; 2]>::try_from(&tuning.rewards[..]).ok();
            let BanditConfig { linear, counters, .. } = config;
            let creation = Creation::new(Labels { name, tags: vec![] }, &mut os_rng()?);
            let client = server.client(None, warn)?;
            let created =
                client.create_of_committee(&linear, (sessions, decisions), rewards, counters, &creation)?;
            match json {
                true => say!("{}", serde_json::to_string(&created)?),
                false => say!("{}", created.of.id),
            }
        }
        CommitteeCommand::Decide { user, contexts } => {
            let (user, bandit) = open(&user)?;
            let contexts = crate::contexts_of(&contexts)?;
            let decision = user.decide(&bandit, &contexts)?;
            let label = ckks::Hex(&decision.label);
            say!(
                "{}",
                json!({ "arm": decision.arm, "decision": label.to_string(), "round": decision.round })
            );
        }
        CommitteeCommand::Feedback { user, decision, reward } => {
            let (user, bandit) = open(&user)?;
            user.feedback(&bandit, &label(&decision)?, reward)?;
        }
        CommitteeCommand::Learn { user, data, schema, transform, from } => {
            let dataset = crate::data::logged(&data, schema.as_deref(), transform.as_deref())?;
            let (user, bandit) = open(&user)?;
            let rounds = rounds_of(&dataset, (bandit.arms.into(), bandit.features.into()))?;
            let (all, rest) = (rounds.len(), rounds.get(from..).unwrap_or_default());
            ensure!(!rest.is_empty(), "there is no round {from}: the file has {all}, counted from 0");
            let mut printed = false;
            let learnt = user.learn(&bandit, rest, |at, decision| {
                printed = true;
                let line = json!({ "round": from + at, "decision": ckks::Hex(decision).to_string() });
                host::write_line(format_args!("{line}")).map_err(|error| Error::Io {
                    path: "standard output".into(),
                    error: std::io::Error::other(error),
                })
            });
            match learnt {
                Err(error) if printed => Err(error).context(
                    "the reward of the last round that was printed may be missing: return it with `committee feedback`, which \
                     refuses it if it is there, and go on behind it with --from",
                )?,
                learnt => learnt?,
            }
        }
        CommitteeCommand::Counters { server, bandit, baseline } => {
            let client = server.client(None, warn)?;
            let view = client.committee_bandit(&bandit)?;
            let every = view.created.counters.map_or(0, |counters| counters.every.into());
            let opened = client.counters_of_committee(&bandit)?;
            print_counters(&opened, (view.feedbacks, every), baseline, json)?;
        }
        CommitteeCommand::Erase { user, decision } => {
            let (user, bandit) = open(&user)?;
            let learnt = user.erase(&bandit, &label(&decision)?)?;
            let what = match learnt {
                true => {
                    "the reward goes with the next update of the model, in which members check that this session asks for it"
                }
                false => "the reward is erased: no model has it",
            };
            match json {
                true => say!("{}", json!({ "decision": decision, "learnt": learnt })),
                false => say!("{what}"),
            }
        }
    }
    Ok(())
}

fn warn(sentence: &str) {
    tell!("helba-client: {sentence}");
}

fn label(decision: &str) -> anyhow::Result<[u8; 32]> {
    wire::from_hex(decision).context("--decision must be 64 hexadecimal digits, as `decide` prints them")
}

/// The user of a session, and the bandit.
fn open(options: &SessionOptions) -> anyhow::Result<(CommitteeUser, CommitteeBandit)> {
    let client = options.server.client(None, warn)?.telling(warn);
    let user = CommitteeUser::open(client.clone(), None, &options.session)?;
    Ok((user, client.committee_bandit(&options.bandit)?.created))
}
