//! The numbers of an encrypted bandit for its operator.

use super::EncryptedServed;
use crate::bandits::measured::{Awaited, Levels, Measured};
use host::lock;
use protocol::TaskKind;
use wire::Created;

impl EncryptedServed {
    /// Its numbers.
    pub(in crate::bandits) fn measured(&self) -> Measured {
        let (raising, users_waiting) = {
            let pool = lock(&self.pool);
            (pool.is_raising(), pool.users_waiting())
        };
        let live = lock(&self.live);
        let status = live.status();
        let task = live.bandit.task().map(|task| match task.kind {
            TaskKind::Model | TaskKind::Product { .. } => Awaited::Model,
            TaskKind::Scores { .. }
            | TaskKind::Answers
            | TaskKind::Sum
            | TaskKind::Stage { .. }
            | TaskKind::Pads => Awaited::Sum,
        });
        drop(live);
        let open = status.pending_decisions as u64;
        let mut awaited = Vec::new();
        awaited.extend(raising.then_some(Awaited::Raise));
        awaited.extend(task);
        awaited.extend(status.updating.then_some(Awaited::Update));
        awaited.extend(status.frozen.then_some(Awaited::Thaw));
        awaited.extend((open > 0).then_some(Awaited::Feedback));
        let Created { id, config, plan, .. } = &self.created;
        Measured {
            id: id.clone(),
            kind: "encrypted",
            policy: "helba".into(),
            features: Some(config.linear.d),
            arms: config.linear.k,
            round: status.round,
            feedbacks: status.feedbacks,
            batches: Some(status.batches),
            open,
            max_open: None,
            users_waiting: Some(users_waiting),
            levels: Some(Levels::new(plan, self.shared.engine.deep().params().max_level())),
            privacy: None,
            awaited,
        }
    }
}
