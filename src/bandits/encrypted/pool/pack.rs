//! What is gathered of users until their evaluation is sealed.

use crate::bandits::encrypted::EncryptedServed;
use crate::error::Error;
use crate::metrics::Step;
use ckks::{Ciphertext, Packer, Undivided};
use std::time::Instant;

/// What a request brings to a pack.
pub(in crate::bandits::encrypted) enum Brought {
    /// The scores of its decisions, in one product.
    Scores(Undivided),
    /// For stages whose contexts are not lifted, those of each of its decisions.
    Contexts(Vec<Vec<Ciphertext>>),
}

/// What the requests of an evaluation have brought.
pub(in crate::bandits::encrypted) enum Pack {
    /// Scores, packed as they come.
    Scores(Packer),
    /// For stages whose contexts are not lifted, those of each decision, which are multiplied when all are
    /// there.
    Contexts(Vec<Vec<Ciphertext>>),
}

impl Pack {
    /// The number of places that are taken.
    pub(super) fn len(&self) -> usize {
        match self {
            Pack::Scores(packer) => packer.len(),
            Pack::Contexts(contexts) => contexts.len(),
        }
    }

    /// The number of places that are taken with a request for so many decisions, which takes 2^`log` places
    /// of scores.
    pub(super) fn after(&self, decisions: usize, log: usize) -> usize {
        match self {
            Pack::Scores(packer) => packer.after(log),
            Pack::Contexts(contexts) => contexts.len() + decisions,
        }
    }
}

impl EncryptedServed {
    /// Adds what a request for this many decisions brings to a pack, and returns their numbers in the
    /// evaluation.
    pub(in crate::bandits::encrypted) fn push(
        &self,
        pack: &mut Pack,
        brought: Brought,
        decisions: usize,
    ) -> Result<Vec<usize>, Error> {
        let layout = &self.exchanges.layout;
        let log = layout.log_places(decisions).map_err(helba::Error::from)?;
        let (stages, began) = (&self.shared.stages, Instant::now());
        let first = match (pack, brought) {
            (Pack::Scores(packer), Brought::Scores(scores)) => {
                let position = stages.beside(|| packer.push_block(scores, log));
                layout.user_at(position.map_err(helba::Error::from)?)
            }
            (Pack::Contexts(all), Brought::Contexts(contexts)) => {
                all.extend(contexts);
                all.len() - decisions
            }
            _ => return Err(Error::Broken("scores among contexts")),
        };
        stages.metrics.took(Step::Pack, began.elapsed());
        Ok((0..decisions).map(|b| layout.user_of(first, b, log)).collect())
    }
}
