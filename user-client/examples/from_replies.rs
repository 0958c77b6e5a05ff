//! Plays rounds from the replies that a server once gave, with a fixed seed, and writes the requests: what
//! builds of the device for other machines are compared with (clients/web).
//!
//! ```text
//! cargo run -p user-client --example from_replies -- FOLDER
//! ```
//!
//! FOLDER has `secret.bundle`, `created.json`, `rounds.json` (`[{"contexts": […], "replies": N, "reward": Y},
//! …]`, without the reply to tasks) and the replies `reply-0`, `reply-1`, … in their order. Requests become
//! `native-0`, `native-1`, …, and the arms are printed.

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use user_client::{Device, Opening, Pending};

#[derive(Deserialize)]
struct Round {
    contexts: Vec<Vec<f64>>,
    replies: usize,
    reward: f64,
}

/// The files of requests and replies.
struct Files {
    folder: PathBuf,
    requests: usize,
    replies: usize,
}

impl Files {
    fn read(&self, name: &str) -> Result<Vec<u8>> {
        std::fs::read(self.folder.join(name)).with_context(|| name.to_string())
    }

    fn reply(&mut self) -> Result<Vec<u8>> {
        self.replies += 1;
        self.read(&format!("reply-{}", self.replies - 1))
    }

    fn request(&mut self, body: &[u8]) -> Result<()> {
        let name = format!("native-{}", self.requests);
        self.requests += 1;
        std::fs::write(self.folder.join(&name), body).context(name)
    }
}

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).context("a folder is missing")?;
    let mut files = Files { folder: folder.into(), requests: 0, replies: 0 };
    let opening = Opening { toy: true, ..Opening::default() };
    let device = Arc::new(Device::open(&files.folder.join("secret.bundle"), &opening)?);
    let created: wire::Created = serde_json::from_slice(&files.read("created.json")?)?;
    let rounds: Vec<Round> = serde_json::from_slice(&files.read("rounds.json")?)?;
    let (bandit, mut rng) = (device.clone().join_shared(&created)?, ChaCha20Rng::seed_from_u64(13));
    for Round { contexts, replies, reward } in rounds {
        let mut asking = bandit.ask(&[&contexts], &mut rng)?;
        for _ in 0..replies {
            files.request(asking.request().context("no further request")?.body)?;
            bandit.answered(&mut asking, Ok(files.reply()?), &mut rng)?;
        }
        anyhow::ensure!(asking.request().is_none(), "more requests than replies");
        let round = asking.finish()?.single()?;
        let choice = &round.choice;
        println!("{} {}", choice.arm, choice.reliable);
        let (decision, arm, reliable, question) =
            (choice.id, choice.arm, choice.reliable, choice.question.clone());
        let server = "http://server".into();
        let pending = Pending {
            server,
            contexts: contexts.clone(),
            created: created.clone(),
            decision,
            arm,
            reliable,
            question,
        };
        // The contexts are sealed with random numbers of the same generator.
        pending.seal(&device, &mut rng)?;
        if !round.tasks.is_empty() {
            files.request(&bandit.raise(&round.tasks, None, &mut rng)?)?;
        }
        let question = round.choice.question.as_ref();
        files.request(&bandit.feedback(arm, &contexts[arm], reward, question, &mut rng)?)?;
    }
    Ok(())
}
