//! Score features, from the rewards of a file.

use crate::prepare::{each, position};
use crate::ridge::{FOLDS, Ridge, RidgeFit};
use crate::{Error, HeldOut, MAX_DATASET, Observed, Prepared, RawRound};
use schema::{RangeFit, Schema, ScoreModel, Transform};
use std::path::Path;

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
///
/// # Errors
/// Those of [`each`]; [`Error::Schema`] for a model that is too large, or beyond double precision.
pub(crate) fn learn(
    path: &Path,
    schema: &Schema,
    rounds: u64,
    transform: Transform,
) -> Result<Scored, Error> {
    if schema.score.is_none() {
        return Ok(Scored { transform, crossed: Vec::new(), explained: None });
    }
    let fault = |error| Error::Schema { file: path.display().to_string(), error };
    let (model, crossed, explained) = match transform.column_model() {
        Some(model) => (model, Vec::new(), None),
        None => {
            let Ridge { model, crossed, explained } = regress(path, schema, rounds, &transform)?;
            (model, crossed, Some(explained))
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
    let scaled =
        |coefficients| transform.clone().with_score(ScoreModel { coefficients, range }).map_err(fault);
    let crossed = crossed.into_iter().map(scaled).collect::<Result<_, _>>()?;
    Ok(Scored { transform: scaled(model)?, crossed, explained })
}

/// The regression of the rewards on the features before the score.
pub(crate) fn regress(
    path: &Path,
    schema: &Schema,
    rounds: u64,
    transform: &Transform,
) -> Result<Ridge, Error> {
    let shape = (transform.wide(), transform.score_groups());
    let rows = |round: &RawRound| transform.wide_rows(&round.context, &round.candidates, position(round));
    regression(path, schema, rounds, shape, rows)
}

/// The regression of the rewards on rows of features, whose first is 1. `shape` is their number, and that of
/// the arms with coefficients of their own. Round t, from 0, is in fold t modulo [`FOLDS`].
fn regression(
    path: &Path,
    schema: &Schema,
    rounds: u64,
    shape: (usize, usize),
    rows: impl Fn(&RawRound) -> Result<Vec<f64>, schema::Error>,
) -> Result<Ridge, Error> {
    let (wide, groups) = shape;
    let fault = |reason: String| Error::Schema {
        file: path.display().to_string(),
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
        let mut see = |arm: usize, reward: f64| {
            let group = if groups == 1 { 0 } else { arm };
            fit.see(fold, group, &rows[arm * wide..(arm + 1) * wide], reward);
        };
        match &round.observed {
            Observed::Every(rewards) => {
                rewards.iter().enumerate().for_each(|(arm, reward)| see(arm, *reward))
            }
            Observed::Played { arm, reward, .. } => see(*arm, *reward),
        }
        Ok(())
    })?;
    fit.finish().ok_or_else(|| {
        fault("the features are beyond double precision: divide the columns by constants, or encode them as \"standard\"".into())
    })
}

/// What linear models explain of the rewards of a file whose features are projected. `None` where nothing is
/// projected, or where the score has too many features.
///
/// # Errors
/// Those of [`each`].
pub(crate) fn held_out(prepared: &Prepared) -> Result<Option<HeldOut>, Error> {
    let (path, schema, rounds, transform) =
        (prepared.path(), prepared.schema(), prepared.rounds(), prepared.transform());
    let Some(Ok(scored)) = transform.projects().map(|_| transform.before_score()) else { return Ok(None) };
    let scores = match regress(path, schema, rounds, &scored) {
        Ok(ridge) => ridge.explained,
        Err(Error::Schema { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let features = transform.features();
    let rows = |round: &RawRound| {
        let rows = transform.projected_rows(&round.context, &round.candidates, position(round))?;
        Ok(rows.chunks_exact(features).flat_map(|row| [1.0].into_iter().chain(row.iter().copied())).collect())
    };
    let features = regression(path, schema, rounds, (features + 1, 1), rows)?.explained;
    Ok(Some(HeldOut { features, scores }))
}
