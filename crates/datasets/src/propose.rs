//! A schema for a file that has none, with what it makes of the file.

#[cfg(doc)]
use crate::HeldOut;
use crate::{Checked, Error, Prepared, check, guess};
use schema::{Schema, ScoreRule};
use std::path::Path;

/// A proposed schema, and what it makes of its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The schema as TOML, with comments on what it leaves out.
    pub toml: String,
    /// The schema.
    pub schema: Schema,
    /// What it makes of the file, or why it must be mended before it can be used.
    pub checked: Result<Checked, Error>,
}

/// Proposes a schema for a file, and checks it. Where there are more features than keys carry, it has score
/// features or a projection, whichever explains more of the variance of rewards ([`HeldOut`]).
///
/// # Errors
/// Those of [`guess()`].
pub fn propose(path: &Path) -> Result<Proposal, Error> {
    let mut guess = guess(path)?;
    let fitted = Prepared::fit(path, &guess.schema).and_then(|prepared| {
        guess.project(prepared.transform().wide());
        if guess.schema.project.is_some() { Prepared::fit(path, &guess.schema) } else { Ok(prepared) }
    });
    let mut checked = fitted.and_then(|prepared| check(&prepared));
    if checked.as_ref().is_ok_and(|c| c.held_out.is_some_and(|h| h.scores > h.features)) {
        (guess.schema.project, guess.schema.score) = (None, Some(ScoreRule::default()));
        checked = Prepared::fit(path, &guess.schema).and_then(|prepared| check(&prepared));
    }
    Ok(Proposal { toml: guess.toml(path), schema: guess.schema, checked })
}
