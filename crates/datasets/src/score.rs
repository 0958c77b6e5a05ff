//! Score features, from the rewards of a file.

use crate::error::name_of;
use crate::prepare::{each, position};
use crate::ridge::{FOLDS, Ridge, RidgeFit};
use crate::{Error, HeldOut, MAX_DATASET, Observed, Prepared, RawRound};
use privacy::budget::{Delta, Epsilon, Neighbours, Rho};
use privacy::{Definition, PrivacyStatement, Trust};
use rand::Rng;
use schema::{RangeFit, Schema, ScoreModel, ScorePrivacy, Transform};
use std::path::Path;

/// Noise that protects the rewards of a file from whoever sees a score that was learnt from them.
///
/// # Privacy
/// (ε, δ)-differential privacy for neighbours that differ in the rewards of one round: that of the action
/// that was shown, or those of all candidates, which is which of them was chosen. Features, actions and the
/// number of rounds are the same in both, and are not protected. Everything that a transformation takes from
/// rewards is a function of the noisy sums: the penalties, the coefficients, the range of predictions, and
/// the predictions for the rounds of the file. Each transformation that is learnt from a file spends ε and δ
/// anew.
pub struct RewardNoise<'a> {
    epsilon: Epsilon,
    delta: Delta,
    rng: &'a mut dyn Rng,
}

impl<'a> RewardNoise<'a> {
    /// Noise that is drawn from `rng`, which nobody may know.
    pub fn new(epsilon: Epsilon, delta: Delta, rng: &'a mut dyn Rng) -> Self {
        RewardNoise { epsilon, delta, rng }
    }

    /// What is guaranteed.
    ///
    /// # Errors
    /// [`privacy::Error`] if δ is 0.
    pub fn statement(epsilon: Epsilon, delta: Delta) -> Result<PrivacyStatement, privacy::Error> {
        PrivacyStatement::with_delta(
            Definition::Approximate,
            epsilon,
            delta,
            Trust::Central,
            Neighbours::ReplaceOne,
            "The rewards of one round of the file, from whoever has the transformation. Features, actions and the number of rounds \
             are not protected, and the holder of the file, who adds the noise, is trusted with all. Each transformation that is \
             learnt from the file spends as much again.",
        )
    }

    fn stated(&self) -> ScorePrivacy {
        ScorePrivacy { epsilon: self.epsilon.get(), delta: self.delta.get() }
    }
}

/// A transformation, and what a score adds to it.
pub(crate) struct Scored {
    /// The transformation of rounds that the file does not have.
    pub(crate) transform: Transform,
    /// Those of rounds of the file: of round t, from 0, number t modulo their number. None where no score is
    /// learnt from rewards.
    pub(crate) crossed: Vec<Transform>,
    /// The share of the variance of rewards that the score explains on rounds that it has not seen.
    pub(crate) explained: Option<f64>,
}

/// The transformation with the score that the schema asks for. A transformation without one is returned as
/// it is.
pub(crate) fn learn(
    path: &Path,
    schema: &Schema,
    rounds: u64,
    transform: Transform,
    noise: Option<&mut RewardNoise>,
) -> Result<Scored, Error> {
    let fault = |error| Error::Schema { file: name_of(path), error };
    let Some(rule) = &schema.score else {
        return Ok(Scored { transform, crossed: Vec::new(), explained: None });
    };
    if noise.is_some() && (rule.column.is_some() || schema.previous && !schema.is_logged()) {
        let reason = match rule.column {
            Some(_) => "noise protects rewards, and the predictions of another model are taken as they are",
            None => {
                "noise protects rewards, and previous is a feature that is computed from them: leave it out"
            }
        };
        let error = schema::Error::Schema { key: "score".into(), reason: reason.into() };
        return Err(fault(error));
    }
    let privacy = noise.as_ref().map(|noise| noise.stated());
    let (model, crossed, explained) = match transform.column_model() {
        Some(model) => (model, Vec::new(), None),
        None => {
            let Ridge { model, crossed, explained } = regress(path, schema, rounds, &transform, noise)?;
            (model, crossed, privacy.is_none().then_some(explained))
        }
    };
    let unscaled =
        |model: Vec<Vec<f64>>| transform.clone().with_score(ScoreModel::unscaled(model)).map_err(fault);
    let of_file = if crossed.is_empty() { vec![model.clone()] } else { crossed.clone() };
    let of_file: Vec<Transform> = of_file.into_iter().map(unscaled).collect::<Result<_, _>>()?;
    let (mut range, mut turns) = (RangeFit::default(), of_file.iter().cycle());
    each(path, schema, rounds, |round| {
        let transform = turns.next().unwrap_or(&transform);
        let predictions = transform.predictions(&round.context, &round.candidates, position(&round));
        range.see(&predictions.map_err(|e| Error::at(path, round.line, e))?);
        Ok(())
    })?;
    let range = range.finish().map_err(fault)?;
    let scaled = |coefficients| {
        transform.clone().with_score(ScoreModel { coefficients, range, privacy }).map_err(fault)
    };
    let crossed = crossed.into_iter().map(scaled).collect::<Result<_, _>>()?;
    Ok(Scored { transform: scaled(model)?, crossed, explained })
}

/// The regression of the rewards on the features before the score.
pub(crate) fn regress(
    path: &Path,
    schema: &Schema,
    rounds: u64,
    transform: &Transform,
    noise: Option<&mut RewardNoise>,
) -> Result<Ridge, Error> {
    let shape = (transform.wide(), transform.score_groups());
    let rows = |round: &RawRound| transform.wide_rows(&round.context, &round.candidates, position(round));
    regression(path, schema, rounds, shape, rows, noise)
}

/// The regression of the rewards on rows of features, whose first is 1. `shape` is their number, and that of
/// the arms with coefficients of their own. Round t, from 0, is in fold t modulo [`FOLDS`].
fn regression(
    path: &Path,
    schema: &Schema,
    rounds: u64,
    shape: (usize, usize),
    rows: impl Fn(&RawRound) -> Result<Vec<f64>, schema::Error>,
    noise: Option<&mut RewardNoise>,
) -> Result<Ridge, Error> {
    let (wide, groups) = shape;
    let fault = |reason: String| Error::Schema {
        file: name_of(path),
        error: schema::Error::Schema { key: "score".into(), reason },
    };
    let mut fit = RidgeFit::new(wide, groups).ok_or_else(|| {
        fault(format!(
            "the moments of {wide} features of {groups} candidates take more than {} MiB: leave columns out, or use \"hash:N\"",
            MAX_DATASET >> 20
        ))
    })?;
    let mut fold = (0..FOLDS).cycle();
    each(path, schema, rounds, |round| {
        let rows = rows(&round).map_err(|e| Error::at(path, round.line, e))?;
        let fold = fold.next().unwrap_or(0);
        let row = |arm: usize| &rows[arm * wide..(arm + 1) * wide];
        match &round.observed {
            Observed::Every(rewards) => {
                let all = rewards.iter().enumerate();
                fit.see_round(fold, all.map(|(arm, reward)| (arm, row(arm), *reward)));
            }
            Observed::Played { arm, reward, .. } => {
                fit.see_round(fold, [(*arm, row(*arm), *reward)].into_iter());
            }
        }
        Ok(())
    })?;
    if let Some(noise) = noise {
        let refused = |error: privacy::Error| fault(format!("no noise can be added: {error}"));
        fit.protect(Rho::within(noise.epsilon, noise.delta).map_err(refused)?, noise.rng).map_err(refused)?;
    }
    fit.finish().ok_or_else(|| {
        fault("the features are beyond double precision: divide the columns by constants, or encode them as \"standard\"".into())
    })
}

/// What linear models explain of the rewards of a file whose features are projected. `None` where nothing is
/// projected, or where the score has too many features.
pub(crate) fn held_out(prepared: &Prepared) -> Result<Option<HeldOut>, Error> {
    let (path, schema, rounds, transform) =
        (prepared.path(), prepared.schema(), prepared.rounds(), prepared.transform());
    let Some(Ok(scored)) = transform.projects().map(|_| transform.before_score()) else { return Ok(None) };
    let scores = match regress(path, schema, rounds, &scored, None) {
        Ok(ridge) => ridge.explained,
        Err(Error::Schema { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let features = transform.features();
    let rows = |round: &RawRound| {
        let rows = transform.projected_rows(&round.context, &round.candidates, position(round))?;
        Ok(rows.chunks_exact(features).flat_map(|row| [1.0].into_iter().chain(row.iter().copied())).collect())
    };
    let features = regression(path, schema, rounds, (features + 1, 1), rows, None)?.explained;
    Ok(Some(HeldOut { features, scores }))
}
