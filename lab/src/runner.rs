//! Runs the series of an experiment in parallel, and keeps each finished run in a file.

use crate::experiment::{Experiment, Panel, Results, Run, SECONDS, Scale, Series, SeriesResult};
use crate::made::{Made, Origin, Stopwatch};
use anyhow::{Context, Result, bail};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of runs that are kept so far, for the message at an interruption.
#[derive(Debug, Default)]
pub struct Progress {
    kept: AtomicU64,
    all: AtomicU64,
    /// Which of how many experiments runs; 0 of 0 for a single one.
    experiment: AtomicUsize,
    experiments: AtomicUsize,
}

impl Progress {
    /// No run is kept yet.
    pub const fn new() -> Self {
        Self {
            kept: AtomicU64::new(0),
            all: AtomicU64::new(0),
            experiment: AtomicUsize::new(0),
            experiments: AtomicUsize::new(0),
        }
    }

    /// Experiment `experiment` of `experiments` begins, counted from 1: its bar shows it.
    pub fn begin(&self, experiment: usize, experiments: usize) {
        self.experiment.store(experiment, Ordering::Relaxed);
        self.experiments.store(experiments, Ordering::Relaxed);
    }

    /// What stands beside the bar of the experiment `name`.
    fn label(&self, name: &str) -> String {
        match (self.experiment.load(Ordering::Relaxed), self.experiments.load(Ordering::Relaxed)) {
            (_, 0) => name.to_string(),
            (experiment, experiments) => format!("{experiment}/{experiments} {name}"),
        }
    }

    /// The number of runs kept, and of all runs.
    pub fn runs(&self) -> (u64, u64) {
        (self.kept.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
    }
}

/// Computes the runs that are missing under `folder`, then collects all results.
///
/// A run is kept as `runs/HASH-SEED.json`, written whole or not at all, together with its settings. A file
/// that is damaged or has other settings is computed again, so an interrupted experiment continues where it
/// stopped. The code of a policy is not part of the settings: after a change of a policy, `runs` must be
/// deleted. [`Results::origin`] says which program made the runs.
///
/// # Errors
/// If `seeds` is 0, two series of a panel share a label, a run fails, or `folder` cannot be written.
pub fn run(
    experiment: &dyn Experiment,
    scale: Scale,
    seeds: u64,
    folder: &Path,
    progress: &Progress,
) -> Result<Results> {
    if seeds == 0 {
        bail!("--seeds is 0, it must be at least 1");
    }
    let panels = experiment.panels(scale)?;
    let kept = folder.join("runs");
    let made = std::fs::create_dir_all(&kept).map_err(|e| host::no_folder(&kept, e));
    made.with_context(|| format!("cannot make {}", kept.display()))?;

    let unique = unique(&panels)?;
    // Ordered by seed, so that an interrupted experiment has points of all curves.
    let jobs: Vec<_> =
        (0..seeds).flat_map(|seed| unique.iter().map(move |(settings, s)| (*settings, seed, *s))).collect();
    let path = |settings: &str, seed| kept.join(file_name(settings, seed));
    let before: Vec<_> =
        jobs.par_iter().map(|(settings, seed, _)| read(&path(settings, *seed), settings, *seed)).collect();
    let there = before.iter().flatten().count() as u64;
    progress.all.store(jobs.len() as u64, Ordering::Relaxed);
    progress.kept.store(there, Ordering::Relaxed);
    // The time left is unknown until the first run of this process has ended.
    let left = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let known = state.pos() > there;
        let _ = if known {
            write!(out, "{} left", HumanDuration(state.eta()))
        } else {
            write!(out, "time left unknown")
        };
    };
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} runs, {left}")?;
    let bar =
        ProgressBar::new(jobs.len() as u64).with_style(style.progress_chars("=> ").with_key("left", left));
    bar.set_message(progress.label(experiment.card().name));
    bar.set_position(there);
    bar.reset_eta();
    let runs = jobs
        .par_iter()
        .zip(before)
        .map(|((settings, seed, series), before)| {
            let run = match before {
                Some(kept) => kept,
                None => {
                    let watch = Stopwatch::start();
                    let run =
                        (series.run)(*seed).with_context(|| format!("{}, seed {seed}", series.label))?;
                    let made = watch.made(run.figures.get(SECONDS).copied().unwrap_or(0.0));
                    let kept = Kept { settings: (*settings).to_owned(), seed: *seed, made, run };
                    write(&path(settings, *seed), &kept)?;
                    progress.kept.fetch_add(1, Ordering::Relaxed);
                    bar.inc(1);
                    kept
                }
            };
            Ok(run)
        })
        .collect::<Result<Vec<_>>>()?;
    bar.finish_and_clear();

    let mut by_settings: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    let mut origin = Origin::default();
    for Kept { settings, made, run, .. } in runs {
        origin.add(&made);
        by_settings.entry(settings).or_default().push(run); // in the order of jobs: by seed
    }
    let result = |s: Series| SeriesResult {
        runs: by_settings.get(&s.settings).cloned().unwrap_or_default(),
        label: s.label,
        settings: s.settings,
        reference: s.reference,
    };
    let panels = panels.into_iter().map(|Panel { title, x_label, y_label, log_x, log_y, series }| {
        let series = series.into_iter().map(result).collect();
        Panel { title, x_label, y_label, log_x, log_y, series }
    });
    let stand_in = experiment.card().stand_in;
    let mut results = Results { scale, seeds, stand_in, origin, panels: panels.collect() };
    let derived = experiment.derived(&results);
    results.panels.extend(derived);
    Ok(results)
}

/// The number of seeds, at most `seeds`, of which every run is kept.
///
/// # Errors
/// Those of [`run`] before the first run.
pub fn kept(experiment: &dyn Experiment, scale: Scale, seeds: u64, folder: &Path) -> Result<u64> {
    let panels = experiment.panels(scale)?;
    let unique = unique(&panels)?;
    let there = |settings: &str, seed| {
        read(&folder.join("runs").join(file_name(settings, seed)), settings, seed).is_some()
    };
    let whole = |seed: &u64| unique.keys().all(|settings| there(settings, *seed));
    Ok((0..seeds).take_while(whole).count() as u64)
}

/// The series of all panels by their settings.
fn unique(panels: &[Panel]) -> Result<BTreeMap<&str, &Series>> {
    let mut unique = BTreeMap::new();
    for panel in panels {
        for (i, series) in panel.series.iter().enumerate() {
            if panel.series[..i].iter().any(|s| s.label == series.label) {
                bail!("panel {:?} has two series {:?}", panel.title, series.label);
            }
            unique.entry(series.settings.as_str()).or_insert(series);
        }
    }
    Ok(unique)
}

/// Writes `bytes` to `path`, whole or not at all.
///
/// # Errors
/// If the folder cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    host::write_whole(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    settings: String,
    seed: u64,
    made: Made,
    run: Run,
}

fn read(path: &PathBuf, settings: &str, seed: u64) -> Option<Kept> {
    let kept: Kept = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    (kept.settings == settings && kept.seed == seed).then_some(kept)
}

/// Not synchronised with the disk, which would take longer than many runs: a run that a power loss damages is
/// computed again.
fn write(path: &Path, kept: &Kept) -> Result<()> {
    let temporary = path.with_extension("part");
    let written = std::fs::write(&temporary, serde_json::to_vec(kept)?);
    written
        .and_then(|()| std::fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The file name of a run, with the FNV-1a hash of its settings. Settings are compared in full on reading.
fn file_name(settings: &str, seed: u64) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let hash = settings.bytes().fold(0xCBF2_9CE4_8422_2325, step);
    format!("{hash:016x}-{seed}.json")
}
