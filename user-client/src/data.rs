//! `helba-client data`: checks, converts and evaluates files of choices and logged decisions.

use crate::arguments::{DataCommand, EvaluateArguments};
use crate::print;
use anyhow::{Context, bail};
use datasets::{
    Checked, Dataset, Prepared, Proposal, RewardNoise, after_outcome, check, convert_with, propose,
    read_schema, read_transform,
};
use evaluation::{EvaluationSettings, evaluate_with, visits};
use host::{say, tell};
use indicatif::{ProgressBar, ProgressStyle};
use privacy::budget::{Delta, Epsilon};
use schema::Schema;
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

pub(crate) fn run(command: DataCommand, json: bool) -> anyhow::Result<()> {
    match command {
        DataCommand::Check { file, schema: Some(schema), transform } => {
            let checked = check(&prepared(&file, &schema, transform.as_deref())?)?;
            if json {
                return print(&checked);
            }
            for line in checked.lines() {
                say!("{line}");
            }
            Ok(())
        }
        DataCommand::Check { file, schema: None, .. } => print_proposal(&file, json),
        DataCommand::Convert { file, schema, transform, output } => {
            let reading = waiting("reading");
            let prepared = prepared(&file, &schema, transform.as_deref())?;
            reading.finish_and_clear();
            let bar = progress("rounds")?;
            bar.set_length(prepared.rounds());
            convert_with(&prepared, &output, || bar.inc(1))?;
            bar.finish_and_clear();
            if json {
                return print(&check(&prepared)?);
            }
            for line in check(&prepared)?.lines() {
                tell!("{line}");
            }
            Ok(())
        }
        DataCommand::Transform { file, schema, supervised, epsilon, delta, public_reward_range } => {
            let mut schema = read_schema(&schema)?;
            if supervised {
                schema.project = None;
                schema.score.get_or_insert_default();
            }
            let (Some(epsilon), Some(delta)) = (epsilon, delta) else {
                warn_of_outcomes(&file, &schema)?;
                return print(Prepared::fit(&file, &schema)?.transform());
            };
            warn_of_outcomes(&file, &schema)?;
            if schema.score.is_none() {
                bail!("--epsilon protects rewards, and nothing is learnt from them: give --supervised too");
            }
            if let Some([zero, one]) = schema.reward_range.filter(|_| !public_reward_range) {
                bail!(
                    "reward_range = [{zero:?}, {one:?}] is part of the transformation, and no noise protects it: write limits that hold for \
                     any such file, instead of the extremes of this one, and say so with --public-reward-range"
                );
            }
            let (epsilon, delta) = (Epsilon::new(epsilon)?, Delta::new(delta)?);
            let statement = RewardNoise::statement(epsilon, delta)?;
            let mut rng = user_client::os_rng()?;
            let mut noise = RewardNoise::new(epsilon, delta, &mut rng);
            print(Prepared::fit_with_noise(&file, &schema, &mut noise)?.transform())?;
            tell!("{statement}");
            Ok(())
        }
        DataCommand::Generate { file, truth, rounds, seed } => {
            let draft = |path: &Path| {
                host::Draft::create(path).with_context(|| format!("cannot write {}", path.display()))
            };
            let drafts = [draft(&file)?, draft(&truth)?];
            let [mut log, mut known] = drafts.each_ref().map(|draft| BufWriter::new(draft.file()));
            visits::write_visits(seed, rounds as usize, &mut log, &mut known)?;
            log.flush()?;
            known.flush()?;
            drop((log, known));
            for draft in drafts {
                draft.finish()?;
            }
            say!("{}", visits::SCHEMA.trim_end());
            Ok(())
        }
        DataCommand::Evaluate(arguments) => print_evaluation(*arguments, json),
    }
}

fn print_evaluation(arguments: EvaluateArguments, json: bool) -> anyhow::Result<()> {
    let EvaluateArguments {
        file,
        schema,
        transform,
        policies,
        epsilon,
        seeds,
        rounds,
        grid,
        policy_column,
        decisions,
        plot,
    } = arguments;
    let reading = waiting("reading");
    let dataset = match (&schema, &transform) {
        (Some(schema), Some(_)) => Dataset::load(&prepared(&file, schema, transform.as_deref())?)?,
        _ => Dataset::any(&file, schema.as_deref())?,
    };
    if let Some(schema) = &schema {
        warn_of_outcomes(&file, &read_schema(schema)?)?;
    }
    let rule = match (policy_column, &schema) {
        (Some(column), Some(schema)) => {
            let picks = datasets::rule(&file, &read_schema(schema)?, &column)?;
            Some((column, picks))
        }
        _ => None,
    };
    let settings = EvaluationSettings {
        policies,
        epsilon,
        seeds,
        rounds: rounds.map_or(usize::MAX, |rounds| usize::try_from(rounds).unwrap_or(usize::MAX)),
        grid,
        rule,
        keep_picks: decisions.is_some(),
    };
    reading.finish_and_clear();
    let bar = progress("runs")?;
    let report = evaluate_with(&dataset, &settings, |ended, all| {
        bar.set_length(all);
        bar.set_position(ended);
    });
    bar.finish_and_clear();
    let report = report.with_context(|| file.display().to_string())?;
    if let Some(path) = plot {
        let title = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        host::write_whole(&path, report.svg(&title)?.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = decisions {
        let wrong = || format!("cannot write {}", path.display());
        report.write_decisions(&dataset, &path).with_context(wrong)?;
    }
    if json {
        return print(&report);
    }
    for line in report.lines() {
        say!("{line}");
    }
    Ok(())
}

/// A bar on stderr for work whose length is told, in units of `what`. Where stderr is no terminal, nothing is
/// drawn.
fn progress(what: &str) -> anyhow::Result<ProgressBar> {
    let style =
        ProgressStyle::with_template("[{bar:40}] {pos}/{len} {msg}, {eta} left")?.progress_chars("=> ");
    Ok(ProgressBar::no_length().with_style(style).with_message(what.to_string()))
}

/// A sign on stderr that the program works, for work of unknown length. Where stderr is no terminal, nothing
/// is drawn.
fn waiting(what: &str) -> ProgressBar {
    let sign = ProgressBar::new_spinner().with_message(what.to_string());
    sign.enable_steady_tick(Duration::from_millis(200));
    sign
}

/// A file with what was learnt from it, or from another one.
pub(crate) fn prepared(file: &Path, schema: &Path, transform: Option<&Path>) -> anyhow::Result<Prepared> {
    let schema = read_schema(schema)?;
    Ok(match transform {
        Some(transform) => Prepared::with(file, &schema, read_transform(transform)?)?,
        None => Prepared::fit(file, &schema)?,
    })
}

/// The rounds of a file that a bandit learns in bulk.
pub(crate) fn logged(
    file: &Path,
    schema: Option<&Path>,
    transform: Option<&Path>,
) -> anyhow::Result<Dataset> {
    let dataset = Dataset::to_learn(file, schema, transform)?;
    if let Some(schema) = schema {
        warn_of_outcomes(file, &read_schema(schema)?)?;
    }
    Ok(dataset)
}

/// Warns of features that look as if they were known only after the outcome: a policy that learns from them
/// is promised what it cannot earn.
fn warn_of_outcomes(file: &Path, schema: &Schema) -> anyhow::Result<()> {
    for after in after_outcome(file, schema)? {
        tell!("helba-client: {}", after.warning());
    }
    Ok(())
}

/// A proposed schema, and what it makes of its file.
#[derive(Serialize)]
struct Proposed {
    toml: String,
    schema: Schema,
    checked: Checked,
}

/// Prints a schema for a file to stdout, and what it makes of the file to stderr.
fn print_proposal(file: &Path, json: bool) -> anyhow::Result<()> {
    let Proposal { toml, schema, checked } = propose(file)?;
    if json {
        return print(&Proposed { toml, schema, checked: checked? });
    }
    say!("{}", toml.trim_end());
    let checked = checked.context("the schema above must be mended before it can be used")?;
    for line in checked.lines() {
        tell!("{line}");
    }
    Ok(())
}
