//! Runs an experiment: seeds in parallel, each finished one kept.

use crate::experiment::{Experiment, PanelResult, Results, Run, Scale, SeriesResult};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs all that is missing under `folder`, then collects everything.
///
/// A run is kept as `runs/HASH-SEED.json`, written whole or not at all, with its settings inside: a run of other
/// settings (or a damaged file) is done again, an interrupted experiment goes on where it was.
///
/// # Errors
/// If `seeds` is 0, two series of a panel share a label, a run fails, or `folder` cannot be written.
pub fn run(experiment: &dyn Experiment, scale: Scale, seeds: u64, folder: &Path) -> Result<Results> {
    if seeds == 0 {
        bail!("--seeds is 0, it must be at least 1");
    }
    let panels = experiment.panels(scale)?;
    let kept = folder.join("runs");
    std::fs::create_dir_all(&kept).with_context(|| format!("cannot make {}", kept.display()))?;

    let mut unique = BTreeMap::new();
    for panel in &panels {
        for (i, series) in panel.series.iter().enumerate() {
            if panel.series[..i].iter().any(|s| s.label == series.label) {
                bail!("panel {:?} has two series {:?}", panel.title, series.label);
            }
            unique.entry(series.settings.as_str()).or_insert(series);
        }
    }
    // Seed by seed, so that an interrupted experiment has all curves.
    let jobs: Vec<_> =
        (0..seeds).flat_map(|seed| unique.iter().map(move |(settings, s)| (*settings, seed, *s))).collect();
    let progress = ProgressBar::new(jobs.len() as u64).with_style(
        ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} runs, {eta} left")?.progress_chars("=> "),
    );
    progress.set_message(experiment.card().name);
    let runs = jobs
        .par_iter()
        .map(|(settings, seed, series)| {
            let path = kept.join(file_name(settings, *seed));
            let run = match read(&path, settings, *seed) {
                Some(run) => run,
                None => {
                    let run =
                        (series.run)(*seed).with_context(|| format!("{}, seed {seed}", series.label))?;
                    write(&path, &Kept { settings: (*settings).to_owned(), seed: *seed, run: run.clone() })?;
                    run
                }
            };
            progress.inc(1);
            Ok(((*settings).to_owned(), *seed, run))
        })
        .collect::<Result<Vec<_>>>()?;
    progress.finish_and_clear();

    let mut by_settings: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for (settings, _, run) in runs {
        by_settings.entry(settings).or_default().push(run); // in the order of jobs: by seed
    }
    let panels = panels.into_iter().map(|panel| PanelResult {
        title: panel.title,
        x_label: panel.x_label,
        y_label: panel.y_label,
        log_x: panel.log_x,
        series: panel
            .series
            .into_iter()
            .map(|s| SeriesResult {
                runs: by_settings.get(&s.settings).cloned().unwrap_or_default(),
                label: s.label,
                settings: s.settings,
                reference: s.reference,
            })
            .collect(),
    });
    let mut results = Results { scale, panels: panels.collect() };
    let derived = experiment.derived(&results);
    results.panels.extend(derived);
    Ok(results)
}

/// Writes `bytes` to `path`, whole or not at all.
///
/// # Errors
/// If the folder cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.tmp", std::process::id()));
    std::fs::write(&part, bytes)
        .and_then(|()| std::fs::rename(&part, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    settings: String,
    seed: u64,
    run: Run,
}

fn read(path: &PathBuf, settings: &str, seed: u64) -> Option<Run> {
    let kept: Kept = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    (kept.settings == settings && kept.seed == seed).then_some(kept.run)
}

fn write(path: &Path, kept: &Kept) -> Result<()> {
    write_whole(path, &serde_json::to_vec(kept)?)
}

/// FNV-1a: names files only; their settings are compared in full.
fn file_name(settings: &str, seed: u64) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let hash = settings.bytes().fold(0xCBF2_9CE4_8422_2325, step);
    format!("{hash:016x}-{seed}.json")
}
