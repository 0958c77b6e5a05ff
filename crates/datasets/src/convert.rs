//! Writes the features of a file.

use crate::{Error, Observed, Prepared};
use host::Draft;
use std::path::Path;

/// Writes the rounds of `prepared` to `output`, whole or not at all, as comma-separated values: `round`, the
/// line of the round in its file; for each candidate one column `FEATURE.CANDIDATE` a feature; and its
/// reward, `reward.CANDIDATE`. Where only rewards of logged actions are known, `action`, `reward` and, if it
/// is known, `propensity` follow instead. [`Dataset::open`](crate::Dataset::open) reads such a file without a
/// schema.
///
/// Numbers are written with as many digits as it takes to read the same number. Features are named `x1`,
/// `x2`, … with the name from the schema behind it, where there is no projection.
///
/// # Errors
/// Those of [`Prepared::each`]; [`Error::File`] if `output` cannot be written.
pub fn convert(prepared: &Prepared, output: &Path) -> Result<(), Error> {
    convert_with(prepared, output, || ())
}

/// The same, and calls `written` after each of the [rounds](Prepared::rounds).
///
/// # Errors
/// Those of [`convert`].
pub fn convert_with(prepared: &Prepared, output: &Path, mut written: impl FnMut()) -> Result<(), Error> {
    let fault = |e: csv::Error| Error::file(output, 0, format!("cannot be written: {e}"));
    let draft = Draft::create(output).map_err(|e| fault(e.into()))?;
    let mut writer = csv::Writer::from_writer(draft.file());
    let (transform, arms) = (prepared.transform(), prepared.arms());
    let names = transform.names();
    let digits = names.len().to_string().len();
    // Numbers of equal length, so that features are read back in this order.
    let name = |(i, name): (usize, &String)| match transform.projects() {
        Some(_) => format!("x{:0digits$}", i + 1),
        None => format!("x{:0digits$}_{}", i + 1, name.replace('.', "_")),
    };
    let names: Vec<String> = names.iter().enumerate().map(name).collect();
    let propensity = {
        let schema = prepared.schema();
        schema.propensity.is_some() || schema.layout == schema::Layout::Dsjson
    };
    let mut header = vec!["round".to_string()];
    header.extend(arms.iter().flat_map(|arm| names.iter().map(move |name| format!("{name}.{arm}"))));
    if prepared.schema().is_logged() {
        header.extend(["action".into(), "reward".into()]);
        header.extend(propensity.then(|| "propensity".into()));
    } else {
        header.extend(arms.iter().map(|arm| format!("reward.{arm}")));
    }
    writer.write_record(&header).map_err(fault)?;
    prepared.each(|round| {
        let mut row = vec![round.raw.line.to_string()];
        row.extend(round.rows.iter().map(f64::to_string));
        match &round.raw.observed {
            Observed::Every(rewards) => row.extend(rewards.iter().map(f64::to_string)),
            Observed::Played { arm, reward, propensity: p } => {
                row.extend([arms[*arm].clone(), reward.to_string()]);
                if propensity {
                    let reason = "this line has no probability of its action, and others may have: add it, or remove all of them";
                    let p = p.ok_or_else(|| Error::column(prepared.path(), round.raw.line, "_label_probability", reason))?;
                    row.push(p.to_string());
                }
            }
        }
        writer.write_record(&row).map_err(fault)?;
        written();
        Ok(())
    })?;
    writer.flush().map_err(|e| fault(e.into()))?;
    drop(writer);
    draft.finish().map_err(|e| fault(e.into()))
}
