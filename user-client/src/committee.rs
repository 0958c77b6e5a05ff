//! `helba-client shares`: a user of a committee on shares.

use crate::arguments::{SessionOptions, SharesCommand};
use anyhow::{Context, ensure};
use host::{say, tell};
use protocol::BanditConfig;
use serde_json::json;
use user_client::{Creation, KeptSession, SharesUser, os_rng};
use wire::{Labels, SharesCreated};

pub(crate) fn run(command: SharesCommand, json: bool) -> anyhow::Result<()> {
    match command {
        SharesCommand::Begin { server, committee, session } => {
            ensure!(!session.exists(), "{} exists already: it keeps another session", session.display());
            let id = wire::from_hex(&committee).context("--committee must be 64 hexadecimal digits")?;
            SharesUser::open(server.client(None, warn)?, Some(id), &session)?;
            say!("session in {}", session.display());
        }
        SharesCommand::Create { server, features, arms, tuning, sessions, decisions, name } => {
            let mut config = BanditConfig::new(features, arms);
            tuning.apply(&mut config)?;
            let linear = config.linear;
            ensure!(
                config == BanditConfig { linear, ..BanditConfig::new(features, arms) },
                "a committee on shares has exact numbers and no counters: leave out --horizon, --unanswered, --answers, --compare, \
                 --open-model and --counters"
            );
            let creation = Creation::new(Labels { name, tags: vec![] }, &mut os_rng()?);
            let client = server.client(None, warn)?;
            let created = client.create_shares(&config.linear, (sessions, decisions), &creation)?;
            match json {
                true => say!("{}", serde_json::to_string(&created)?),
                false => say!("{}", created.of.id),
            }
        }
        SharesCommand::Decide { user, contexts } => {
            let (user, bandit) = open(&user)?;
            let contexts = crate::contexts_of(&contexts)?;
            let decision = user.decide(&bandit, &contexts)?;
            let label = ckks::Hex(&decision.label);
            say!(
                "{}",
                json!({ "arm": decision.arm, "decision": label.to_string(), "round": decision.round })
            );
        }
        SharesCommand::Feedback { user, decision, reward } => {
            let (user, bandit) = open(&user)?;
            user.feedback(&bandit, &label(&decision)?, reward)?;
        }
        SharesCommand::Erase { user, decision } => {
            let (user, bandit) = open(&user)?;
            user.erase(&bandit, &label(&decision)?)?;
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
fn open(options: &SessionOptions) -> anyhow::Result<(SharesUser, SharesCreated)> {
    let session = KeptSession::open(&options.session)?;
    let client = options.server.client(None, warn)?;
    let bandit = client.shares_bandit(&options.bandit)?.created;
    Ok((SharesUser::restore(client, &session)?, bandit))
}
