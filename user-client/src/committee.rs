//! `helba-client shares`: a user of a committee on shares.

use crate::arguments::{SessionOptions, SharesCommand};
use anyhow::{Context, anyhow, ensure};
use host::{say, tell};
use protocol::BanditConfig;
use serde_json::json;
use std::io::Read;
use std::path::Path;
use user_client::{Creation, SharesUser, os_rng};
use wire::{Labels, SharesCreated};
use zeroize::Zeroizing;

/// The bytes of a file of a session: the committee's id, and what the device keeps.
const SESSION_BYTES: usize = 96;

pub(crate) fn run(command: SharesCommand, json: bool) -> anyhow::Result<()> {
    match command {
        SharesCommand::Begin { server, committee, session } => {
            ensure!(!session.exists(), "{} exists already: it keeps another session", session.display());
            let id = wire::from_hex(&committee).context("--committee must be 64 hexadecimal digits")?;
            let user = SharesUser::begin(server.client(None, warn)?, Some(id))?;
            let mut kept = Zeroizing::new([0; SESSION_BYTES]);
            kept[..32].copy_from_slice(&id);
            kept[32..].copy_from_slice(&*user.device().session());
            host::write_private(&session, &*kept).with_context(|| session.display().to_string())?;
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
    let (id, session) = read(&options.session)?;
    let client = options.server.client(None, warn)?;
    let bandit = client.shares_bandit(&options.bandit)?.created;
    Ok((SharesUser::restore(client, Some(id), &session)?, bandit))
}

fn read(path: &Path) -> anyhow::Result<([u8; 32], Zeroizing<[u8; 64]>)> {
    let file = host::open_private(path).with_context(|| path.display().to_string())?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(SESSION_BYTES + 1));
    file.take(SESSION_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let bad = || anyhow!("{} is no session: begin another one with `shares begin`", path.display());
    ensure!(bytes.len() == SESSION_BYTES, bad());
    let (id, session) = bytes.split_first_chunk::<32>().ok_or_else(bad)?;
    Ok((*id, Zeroizing::new(session.try_into().map_err(|_| bad())?)))
}
