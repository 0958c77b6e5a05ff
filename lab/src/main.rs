//! `helba-lab list`, `helba-lab experiment NAME`, `helba-lab report`.

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use datasets::Dataset;
use helba_lab::experiment::{Experiment, JUDGED, Scale};
use helba_lab::{experiments, report, runner};
use host::{Undone, say, tell};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(version, about = "Re-creates the figures and tables of the papers behind the policies")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists every policy and every experiment, one line each.
    List {
        /// Prints one JSON object instead of lines.
        #[arg(long)]
        json: bool,
    },
    /// Runs an experiment, or continues an interrupted one. RAYON_NUM_THREADS sets the number of threads.
    Experiment {
        /// The name that `list` shows.
        name: String,
        /// Shortens the runs to a few seconds in all. Then no claim is judged.
        #[arg(long)]
        quick: bool,
        /// Number of independent repetitions [default: the experiment's own number].
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        seeds: Option<u64>,
        /// Folder for curves.csv, panel-N.svg, results.json and report.html [default:
        /// target/helba-lab/NAME, with --quick target/helba-lab/NAME-quick].
        #[arg(long)]
        out: Option<PathBuf>,
        /// Writes the experiment's tables to this file as a page of Markdown, if the experiment has one.
        #[arg(long)]
        page: Option<PathBuf>,
        /// helba-purchases: a file whose rewards are all known, instead of the purchases: in the layout of
        /// data/README.md, written by `helba-client data convert`, or with --schema any other.
        /// distributed-fig5: a file of pages, such as MSLR-WEB10K's, instead of synthetic ones.
        #[arg(long)]
        data: Option<PathBuf>,
        /// Schema of the file, as `helba-client data check` proposes one.
        #[arg(long, requires = "data")]
        schema: Option<PathBuf>,
        /// Prints one JSON object instead of the table.
        #[arg(long)]
        json: bool,
    },
    /// Runs or continues all experiments, and writes the book: all of their reports as one HTML page.
    Report {
        /// Shortens the runs to a few minutes in all. Then no claim is judged.
        #[arg(long)]
        quick: bool,
        /// Runs nothing: the book has the experiments of which ten seeds or more are kept, with so many
        /// seeds, and names the others. PAGE keeps its sections of these.
        #[arg(long)]
        kept: bool,
        /// Number of independent repetitions of each experiment [default: the experiment's own number].
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        seeds: Option<u64>,
        /// Folder of the experiments' folders and of book.html, with --quick book-quick.html.
        #[arg(long, default_value = "target/helba-lab")]
        out: PathBuf,
        /// Writes all verdicts to this file as a page of Markdown, and their numbers to a CSV file beside it.
        #[arg(long)]
        page: Option<PathBuf>,
        /// Writes the summary table between its two marks in this file.
        #[arg(long)]
        readme: Option<PathBuf>,
    },
}

/// The progress that is printed at an interruption.
static PROGRESS: runner::Progress = runner::Progress::new();

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A signal says how many runs are kept, before it ends the process.
fn say_when_interrupted() -> Result<Undone> {
    host::undo_on_signals().context("listening for signals")?;
    let say = || {
        let (kept, all) = PROGRESS.runs();
        tell!("\ninterrupted, {kept} of {all} runs kept; the same command goes on");
    };
    Ok(Undone::after(|| Ok::<_, std::convert::Infallible>(((), say)))?.1)
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::List { json } => list(json),
        Command::Report { quick, kept, seeds, out, page, readme } => {
            let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
            let earlier =
                page.as_ref().filter(|_| kept).map(|page| [page.clone(), page.with_extension("csv")]);
            let book = book(
                quick,
                kept,
                seeds,
                &out,
                earlier.map_or_else(Default::default, |e| e.map(|p| read(&p))),
            )?;
            if let Some(page) = page {
                runner::write_whole(&page, book.markdown().as_bytes())?;
                runner::write_whole(&page.with_extension("csv"), book.figures().as_bytes())?;
            }
            if let Some(path) = readme {
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let text = report::with_table(&text, &book.table())
                    .with_context(|| format!("{} has no place for the summary table", path.display()))?;
                runner::write_whole(&path, text.as_bytes())?;
            }
            Ok(())
        }
        Command::Experiment { name, quick, seeds, out, page, data, schema, json } => {
            let mut experiment = experiments::find(&name)
                .with_context(|| format!("no experiment {name}; `helba-lab list` names them all"))?;
            let own = data.map(|path| own(&name, &path, schema.as_deref())).transpose()?;
            if let Some(own) = &own {
                experiment = own.as_ref();
            }
            let scale = if quick { Scale::Quick } else { Scale::Full };
            let default = if quick { format!("{name}-quick") } else { name };
            let folder = out.unwrap_or_else(|| PathBuf::from("target/helba-lab").join(default));
            let seeds = seeds.unwrap_or_else(|| experiment.seeds(scale));
            let _said = say_when_interrupted()?;
            let results = runner::run(experiment, scale, seeds, &folder, &PROGRESS)?;
            let object = report::write(experiment, &results, &folder)?;
            if let Some(path) = page {
                let text = experiment.page(&results).context("this experiment has no page of Markdown")?;
                runner::write_whole(&path, text.as_bytes())?;
            }
            if json {
                say!("{object}");
            } else {
                say!("{}", report::text(&results, &experiment.claims(&results)));
                say!("{}", folder.join("report.html").display());
            }
            Ok(())
        }
    }
}

/// The book of the runs under `out`. Experiments without have the sections of the earlier page, and the lines
/// of its figures, if `kept`.
fn book(
    quick: bool,
    kept: bool,
    seeds: Option<u64>,
    out: &Path,
    earlier: [String; 2],
) -> Result<report::Book> {
    let (scale, end) = if quick { (Scale::Quick, "-quick") } else { (Scale::Full, "") };
    let _said = say_when_interrupted()?;
    let mut book = report::Book::default();
    let experiments = experiments::all();
    for (before, &experiment) in experiments.iter().enumerate() {
        PROGRESS.begin(before + 1, experiments.len());
        let folder = out.join(format!("{}{end}", experiment.card().name));
        let seeds = seeds.unwrap_or_else(|| experiment.seeds(scale));
        let all = seeds;
        let seeds = if kept { runner::kept(experiment, scale, all, &folder)? } else { all };
        if seeds < all.min(JUDGED) {
            if !book.add_earlier(experiment, &earlier[0], &earlier[1])? {
                book.without(experiment);
            }
            continue;
        }
        let results = runner::run(experiment, scale, seeds, &folder, &PROGRESS)?;
        report::write(experiment, &results, &folder)?;
        book.add(experiment, &results)?;
    }
    let file = out.join(format!("book{end}.html"));
    runner::write_whole(&file, book.html().as_bytes())?;
    say!("{}", file.display());
    Ok(book)
}

/// The experiment on a file of the user.
fn own(name: &str, path: &Path, schema: Option<&Path>) -> Result<Box<dyn Experiment>> {
    if name == "distributed-fig5" {
        ensure!(schema.is_none(), "distributed-fig5 takes no --schema");
        return Ok(Box::new(experiments::pages_of(path)?));
    }
    ensure!(
        name == "helba-purchases",
        "--data FILE is for the experiments helba-purchases and distributed-fig5"
    );
    let title = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(Box::new(experiments::helba::purchases_of(&title, Dataset::open(path, schema)?)))
}

fn list(json: bool) -> Result<()> {
    let (policies, experiments) = (experiments::policies()?, experiments::all());
    if json {
        let experiments: Vec<_> = experiments
            .iter()
            .map(|e| e.card())
            .map(|c| serde_json::json!({ "name": c.name, "about": c.about, "source": c.source }))
            .collect();
        println!("{}", serde_json::json!({ "policies": policies, "experiments": experiments }));
        return Ok(());
    }
    println!("policies");
    policies.iter().for_each(|p| println!("  {:36} {}", p.name, p.about));
    println!("experiments");
    experiments.iter().map(|e| e.card()).for_each(|c| println!("  {:28} {}", c.name, c.about));
    Ok(())
}
