//! The report of an experiment: CSV, SVG, JSON, and one HTML page; and the book, one page of all reports.

use crate::experiment::{
    AGREES, Card, Claim, Experiment, PanelResult, Results, Scale, SeriesResult, Verdict,
};
use crate::looks;
use crate::made::{Origin, date, now, program};
use crate::runner::write_whole;
use anyhow::{Result, bail};
use plot::{Curve, Figure, Point};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Writes `curves.csv`, `panel-N.svg`, `results.json` and `report.html` into `folder`. Returns the content of
/// `results.json`.
///
/// # Errors
/// If a panel cannot be drawn, or `folder` cannot be written.
pub fn write(experiment: &dyn Experiment, results: &Results, folder: &Path) -> Result<Value> {
    let claims = experiment.claims(results);
    let svgs = results.panels.iter().map(svg).collect::<Result<Vec<_>>>()?;
    for (i, svg) in svgs.iter().enumerate() {
        write_whole(&folder.join(format!("panel-{}.svg", i + 1)), svg.as_bytes())?;
    }
    write_whole(&folder.join("curves.csv"), csv(results).as_bytes())?;
    let card = experiment.card();
    let body = format!("{}{RULE}", section(&card, results, &claims, &svgs));
    write_whole(&folder.join("report.html"), page(card.name, &body).as_bytes())?;
    let json = json(&card, results, &claims);
    write_whole(&folder.join("results.json"), &serde_json::to_vec_pretty(&json)?)?;
    Ok(json)
}

/// The mean curves of a panel, with bands of one standard error.
fn svg(panel: &PanelResult) -> Result<String> {
    let curve = |s: &'_ SeriesResult| -> Vec<Point> {
        let point = |(x, s): (f64, bandit::Summary)| {
            let (low, high) = (s.mean - s.standard_error, s.mean + s.standard_error);
            Point { x, low, y: s.mean, high }
        };
        s.curve().into_iter().map(point).collect()
    };
    let PanelResult { title, x_label, y_label, log_x, log_y, series } = panel;
    let curves =
        series.iter().map(|s| Curve { name: &s.label, style: looks::style(&s.label), points: curve(s) });
    let curves = curves.collect();
    Ok(Figure { title, x_label, y_label, log_x: *log_x, log_y: *log_y, curves }.svg()?)
}

/// The claims and last values as text for a terminal.
pub fn text(results: &Results, claims: &[Claim]) -> String {
    let cautions = results.caution().into_iter().chain(results.origin.caution());
    let mut out: String = cautions.map(|caution| caution + "\n").collect();
    // Writing to a string does not fail, here and below.
    let _ = writeln!(out, "{}", results.origin.words());
    for panel in &results.panels {
        let _ = writeln!(out, "\n{}: {}", panel.title, panel.y_label);
        for s in &panel.series {
            let last = s.last();
            let [mean, error] = digits(last.mean, last.standard_error);
            let _ = write!(out, "  {:34} {mean:>10} ± {error:<8}", s.label);
            if let Some(r) = s.reference {
                let [mean, error] = digits(r.mean, r.standard_error);
                let _ = write!(out, " reference {mean:>10} ± {error:<8}");
                out.push_str(if s.agrees() == Some(true) { "" } else { " apart" });
            }
            let _ = writeln!(out);
        }
    }
    for c in claims {
        let whose = if c.of_paper { "" } else { "(ours) " };
        let _ = writeln!(
            out,
            "\n{}: {whose}{}\n  reference: {}\n  here:      {}",
            c.words(),
            c.text,
            c.reference,
            c.ours
        );
    }
    out
}

fn csv(results: &Results) -> String {
    let mut out = String::from("panel,series,seed,x,value\n");
    for panel in &results.panels {
        for series in &panel.series {
            let names = format!("{},{}", quoted(&panel.title), quoted(&series.label));
            for (seed, run) in series.runs.iter().enumerate() {
                for (x, value) in &run.points {
                    let _ = writeln!(out, "{names},{seed},{x},{value}");
                }
            }
        }
    }
    out
}

fn json(card: &Card, results: &Results, claims: &[Claim]) -> Value {
    let panel = |p: &PanelResult| {
        let series: Vec<_> = p
            .series
            .iter()
            .map(|s| {
                let last = s.last();
                let names: std::collections::BTreeSet<_> = s.runs.iter().flat_map(|r| r.figures.keys()).collect();
                let figures: serde_json::Map<_, _> =
                    names.into_iter().map(|name| (name.clone(), json!(s.figure(name)))).collect();
                json!({
                    "series": s.label, "runs": s.runs.len(), "mean": last.mean, "standard_error": last.standard_error,
                    "median": s.median(), "stuck": s.stuck(), "by_seed": s.finals(), "figures": figures,
                    "reference": s.reference, "agrees": s.agrees(),
                })
            })
            .collect();
        json!({ "panel": p.title, "series": series })
    };
    json!({
        "experiment": card.name, "about": card.about, "source": card.source, "notes": card.notes,
        "scale": results.scale, "seeds": results.seeds, "caution": results.caution(), "origin": results.origin,
        "written": { "program": program(), "date": date(now()) }, "claims": claims,
        "panels": results.panels.iter().map(panel).collect::<Vec<_>>(),
    })
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:84rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;\
background:#fff}h1{font-size:1.5rem}h2{font-size:1.25rem;margin-top:2.5rem}h3{font-size:1.05rem;margin-top:1.6rem}\
table{border-collapse:collapse;margin:.6rem 0}th,td{border-bottom:1px solid #ddd;padding:.25rem .7rem;text-align:left;\
vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.parts{margin:0;font-size:.93em}\
.parts td{border:0;padding:0 .6rem 0 0}.parts td:first-child{white-space:nowrap}.holds{color:#0b6a2f}.not{color:#a3140f}.open{color:#666}.small{font-size:.9em;color:#555}\
.wide{overflow-x:auto}.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(30rem,1fr));gap:1rem}svg{max-width:100%;height:auto}\
@media (prefers-color-scheme:dark){body{color:#e8e8e8;background:#16181c}a{color:#8fc7ff}th,td{border-color:#3a3d42}.holds{color:#5fd38a}\
.not{color:#ff8a80}.open,.small{color:#a8a8a8}}";

/// How to read verdicts and references.
const RULE: &str = "<h2>How to read this</h2>\n<p>A claim holds if an interval of three standard errors on each side of \
the estimate lies on its side of the limit in brackets, and does not hold if the interval lies on the other side. Otherwise it is not \
decided by so many runs; the number of runs that would decide is given where these estimates tell it. Both sides of a comparison enter its \
error, seed by seed. At least ten runs judge a claim. <i>Reference</i> is the same number from another implementation: prototypes in \
numpy of this project, or the published code where the notes say so. Pictures show means with bands of one standard error.</p>\n";

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title><style>{STYLE}</style></head><body>\n{body}\
         <p class=\"small\">Written by helba-lab {}, {}.</p>\n</body></html>\n",
        escape(title),
        escape(program()),
        date(now())
    )
}

fn section(card: &Card, results: &Results, claims: &[Claim], svgs: &[String]) -> String {
    let mut out =
        format!("<h2 id=\"{name}\">{name}: {}</h2>\n", escape(card.about), name = escape(card.name));
    for caution in results.caution().into_iter().chain(results.origin.caution()) {
        let _ = writeln!(out, "<p class=\"not\"><b>{}</b></p>", escape(&caution));
    }
    if let Some(data) = card.stand_in {
        let _ = writeln!(out, "<p class=\"not\">Played on {}, not on the paper's data.</p>", escape(data));
    }
    let _ = writeln!(out, "<p>{}</p>\n<p>{}</p>", escape(card.source), escape(card.notes));
    let _ =
        writeln!(out, "<p class=\"small\">{} seeds; {}.</p>", results.seeds, escape(&results.origin.words()));
    out.push_str("<h3>Claims</h3>\n<div class=\"wide\"><table><tr><th>claim</th><th>reference</th><th>here</th><th>verdict</th></tr>\n");
    for c in claims {
        let whose = if c.of_paper { "" } else { " <span class=\"small\">(ours, not the paper's)</span>" };
        let _ = writeln!(
            out,
            "<tr><td>{}{whose}</td><td>{}</td><td>{}</td><td class=\"{}\"><b>{}</b></td></tr>",
            escape(&c.text),
            parts(&c.reference),
            parts(&c.ours),
            class(c.verdict),
            escape(&c.words())
        );
    }
    out.push_str("</table></div>\n<div class=\"panels\">\n");
    svgs.iter().for_each(|svg| {
        let _ = writeln!(out, "<div>{svg}</div>");
    });
    out.push_str("</div>\n<details><summary>Last values, in the unit of the vertical axis</summary>\n");
    results.panels.iter().for_each(|panel| last_values(&mut out, panel));
    out.push_str("</details>\n");
    out
}

fn last_values(out: &mut String, panel: &PanelResult) {
    // No column without anything in it.
    let stuck = panel.series.iter().any(|s| s.stuck() > 0);
    let compared = panel.series.iter().any(|s| s.reference.is_some());
    let heads = ["runs", "mean ± s.e.", "median"].into_iter();
    let heads = heads.chain(stuck.then_some("runs above 3 medians"));
    let heads = heads.chain(compared.then_some(["reference", "within 3 s.e."]).into_iter().flatten());
    let heads: String = heads.map(|head| format!("<th class=\"n\">{head}</th>")).collect();
    let _ = writeln!(
        out,
        "<h3>{}: {}</h3>\n<div class=\"wide\"><table><tr><th>policy</th>{heads}</tr>",
        escape(&panel.title),
        escape(panel.y_label)
    );
    for s in &panel.series {
        let last = s.last();
        let with_error = |mean, error| digits(mean, error).join(" ± ");
        let reference = s.reference.map_or("–".into(), |r| with_error(r.mean, r.standard_error));
        let agrees = s.agrees().map_or("–", |a| if a { "yes" } else { "no" });
        let cells = [
            s.runs.len().to_string(),
            with_error(last.mean, last.standard_error),
            digits(s.median(), 0.0)[0].clone(),
        ];
        let cells = cells.into_iter().chain(stuck.then(|| s.stuck().to_string()));
        let cells = cells.chain(compared.then(|| [reference, agrees.to_owned()]).into_iter().flatten());
        let cells: String = cells.map(|cell| format!("<td class=\"n\">{cell}</td>")).collect();
        let _ = writeln!(out, "<tr><td>{}</td>{cells}</tr>", escape(&s.label));
    }
    out.push_str("</table></div>\n");
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::DoesNotHold => "not",
        Verdict::NotDecided | Verdict::NotTested => "open",
    }
}

/// A list of "name: value" as a small table, any other list line by line.
fn parts(text: &str) -> String {
    let parts: Vec<&str> = text.split("; ").collect();
    let rows: Option<Vec<_>> = parts.iter().map(|part| part.split_once(": ")).collect();
    match rows {
        Some(rows) if rows.len() > 1 => {
            let row = |(name, value): &(&str, &str)| {
                format!("<tr><td>{}</td><td>{}</td></tr>", escape(name), escape(value))
            };
            format!("<table class=\"parts\">{}</table>", rows.iter().map(row).collect::<String>())
        }
        _ => parts.iter().map(|part| escape(part)).collect::<Vec<_>>().join("<br>"),
    }
}

/// `text` with `table` between the two lines of comments that mark the place of the summary; `None` if it has
/// no such lines.
pub fn with_table(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(TABLE_BEGINS)?;
    let (_, after) = rest.split_once(TABLE_ENDS)?;
    Some(format!("{before}{TABLE_BEGINS}\n{table}{TABLE_ENDS}{after}"))
}

const TABLE_BEGINS: &str = "<!-- written by `helba-lab report --readme README.md` -->";
const TABLE_ENDS: &str = "<!-- end -->";

/// The reports of many experiments as one page.
#[derive(Debug, Default)]
pub struct Book {
    chapters: Vec<Chapter>,
    missing: Vec<Card>,
}

#[derive(Debug)]
struct Chapter {
    card: Card,
    count: Count,
    /// Its section of [`Book::markdown`].
    section: String,
    /// Its lines of [`Book::figures`].
    figures: String,
    /// `None` if the section is of an earlier page.
    played: Option<Played>,
}

/// What was played for this book.
#[derive(Debug)]
struct Played {
    seeds: u64,
    origin: Origin,
    claims: Vec<Claim>,
    html: String,
}

/// The numbers of verdicts on a paper's claims.
#[derive(Debug, Default, Clone, PartialEq)]
struct Count {
    /// By verdict, in the order of [`Verdict::ALL`].
    on_papers_terms: [usize; 4],
    on_stand_ins: usize,
}

impl Book {
    /// Adds the report of an experiment.
    ///
    /// # Errors
    /// If a panel cannot be drawn.
    pub fn add(&mut self, experiment: &dyn Experiment, results: &Results) -> Result<()> {
        let (card, claims) = (experiment.card(), experiment.claims(results));
        let svgs = results.panels.iter().map(svg).collect::<Result<Vec<_>>>()?;
        let html = section(&card, results, &claims, &svgs);
        let (seeds, origin) = (results.seeds, results.origin.clone());
        let section = markdown(&card, results, &claims);
        let figures = figures(&card, &claims);
        let played = Some(Played { seeds, origin, html, claims });
        let count = Count::of(&section, &card)?;
        self.chapters.push(Chapter { card, count, section, figures, played });
        Ok(())
    }

    /// Adds the section that `page`, an earlier [`Self::markdown`], has of an experiment, with its lines of
    /// the earlier [`Self::figures`], and says whether it has one.
    ///
    /// # Errors
    /// For a verdict that is none.
    pub fn add_earlier(&mut self, experiment: &dyn Experiment, page: &str, figures: &str) -> Result<bool> {
        let card = experiment.card();
        let head = format!("\n## {}\n", card.name);
        let Some(from) = page.find(&head) else { return Ok(false) };
        let length = page[from + 1..].find("\n## ").map_or(page.len() - from, |next| next + 1);
        let section = page[from..from + length].to_string();
        let count = Count::of(&section, &card)?;
        let own = format!("{},", card.name);
        let figures =
            figures.lines().filter(|line| line.starts_with(&own)).map(|l| format!("{l}\n")).collect();
        self.chapters.push(Chapter { card, count, section, figures, played: None });
        Ok(true)
    }

    /// Names an experiment whose runs are missing.
    pub fn without(&mut self, experiment: &dyn Experiment) {
        self.missing.push(experiment.card());
    }

    /// Verdicts by paper.
    fn counts(&self) -> BTreeMap<&'static str, Count> {
        let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
        for chapter in &self.chapters {
            counts.entry(paper(chapter.card.source)).or_default().add(&chapter.count);
        }
        counts
    }

    /// The book as one HTML page without external resources.
    pub fn html(&self) -> String {
        let played = || self.chapters.iter().filter_map(|c| Some((&c.card, c.played.as_ref()?)));
        let mut origin = Origin::default();
        played().for_each(|(_, played)| origin.join(&played.origin));
        let mut out = format!(
            "<h1>What five papers claim, and what their experiments show here</h1>\n<p>{} experiments, {} in all.</p>\n",
            played().count(),
            origin.time()
        );
        out.push_str("<table><tr><th>paper</th>");
        for head in Self::HEADS {
            let _ = write!(out, "<th class=\"n\">{head}</th>");
        }
        out.push_str("</tr>\n");
        for (paper, count) in self.counts() {
            let cells = count.cells().map(|n| format!("<td class=\"n\">{n}</td>")).concat();
            let _ = writeln!(out, "<tr><td>{}</td>{cells}</tr>", escape(paper));
        }
        out.push_str("</table>\n<div class=\"wide\"><table><tr><th>experiment</th><th>claim</th><th>verdict</th><th class=\"n\">seeds</th><th class=\"n\">minutes</th></tr>\n");
        for (card, c) in played() {
            for claim in &c.claims {
                let whose = if claim.of_paper { "" } else { " <span class=\"small\">(ours)</span>" };
                let _ = writeln!(
                    out,
                    "<tr><td><a href=\"#{name}\">{name}</a></td><td>{}{whose}</td><td class=\"{}\">{}</td><td class=\"n\">{}</td>\
                     <td class=\"n\">{:.1}</td></tr>",
                    escape(&claim.text),
                    class(claim.verdict),
                    escape(&claim.words()),
                    c.seeds,
                    c.origin.seconds / 60.0,
                    name = escape(card.name),
                );
            }
        }
        out.push_str("</table></div>\n");
        let earlier = self.chapters.iter().filter(|c| c.played.is_none()).map(|c| &c.card);
        let names: Vec<_> = self.missing.iter().chain(earlier).map(|card| escape(card.name)).collect();
        if !names.is_empty() {
            let _ = writeln!(out, "<p class=\"not\">Not run: {}.</p>", names.join(", "));
        }
        out.push_str("<h2>Without an experiment</h2>\n<ul>\n");
        NOT_POSSIBLE.iter().for_each(|(what, why)| {
            let _ = writeln!(out, "<li>{}: {}</li>", escape(what), escape(&why.replace('`', "")));
        });
        out.push_str("</ul>\n");
        out.push_str(RULE);
        played().for_each(|(_, c)| out.push_str(&c.html));
        page("helba-lab: the book", &out)
    }

    const HEADS: [&'static str; 5] = ["claims", "re-created", "refuted", "not decided", "on stand-ins"];

    /// The numbers of verdicts by paper, as a table of Markdown.
    pub fn table(&self) -> String {
        let mut out = format!("| paper | {} |\n|---|---:|---:|---:|---:|---:|\n", Self::HEADS.join(" | "));
        for (paper, count) in self.counts() {
            let _ = writeln!(out, "| {paper} | {} |", count.cells().map(|n| n.to_string()).join(" | "));
        }
        out
    }

    /// The claims with what was measured and the verdicts, as CSV.
    pub fn figures(&self) -> String {
        let lines = self.chapters.iter().map(|c| c.figures.as_str());
        std::iter::once("experiment,claim,here,verdict\n").chain(lines).collect()
    }

    /// The verdicts as a page of Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "# Claims of five papers\n\n\
             Generated by `cargo run --release -p helba-lab -- report --page docs/claims.md --readme README.md`. [claims.csv](claims.csv) has the limit of each\n\
             claim and the numbers behind its verdict; the command also writes all curves, tables and times as one page, `target/helba-lab/book.html`. `--quick` runs\n\
             in minutes and judges nothing; an interrupted book goes on where it stopped.\n\n\
             A claim holds (is re-created) if the interval of three standard errors around the estimate lies on its side of the limit, does not hold (is refuted) if\n\
             the interval lies on the other side, and is not decided otherwise. A claim that was played on made-up data counts as *on stand-ins*. *As an independent\n\
             implementation* counts the series whose last values agree within three errors of both sides; one in twenty may not. A section stays as it is until its\n\
             experiment runs again.\n\n",
        );
        out.push_str(&self.table());
        self.chapters.iter().for_each(|c| out.push_str(&c.section));
        if !self.missing.is_empty() {
            out.push_str("\n## Not run\n\n");
            for card in &self.missing {
                let _ = writeln!(out, "- `{}`: {}", card.name, card.about);
            }
        }
        out.push_str("\n## Without an experiment\n\n");
        NOT_POSSIBLE.iter().for_each(|(what, why)| {
            let _ = writeln!(out, "- {what}: {why}");
        });
        out
    }
}

/// The verdicts of an experiment, as a section of Markdown.
fn markdown(card: &Card, results: &Results, claims: &[Claim]) -> String {
    let (agreements, claims): (Vec<_>, Vec<_>) = claims.iter().partition(|claim| claim.text == AGREES);
    let agreements: String = agreements
        .iter()
        .map(|c| format!("\nAs an independent implementation: {}, {}.", c.ours, c.words()))
        .collect();
    let mut out = format!(
        "\n## {}\n\n{} {} seeds{}.{agreements}\n\n| claim | verdict |\n|---|---|\n",
        card.name,
        sentence(card.about),
        results.seeds,
        if results.scale == Scale::Quick { ", shortened" } else { "" },
    );
    for claim in claims {
        let whose = if claim.of_paper { "" } else { OURS };
        let _ = writeln!(out, "| {}{whose} | {} |", brief(&claim.text).replace('|', "\\|"), claim.words());
    }
    out
}

/// A claim without its limits, which [`Book::figures`] has.
fn brief(text: &str) -> String {
    let Some((before, limits)) = text.split_once(" (here: ") else { return text.to_owned() };
    let mut open = 1;
    let ends = |c| {
        open += i32::from(c == '(') - i32::from(c == ')');
        open == 0
    };
    limits.find(ends).map_or(text.to_owned(), |end| format!("{before}{}", &limits[end + 1..]))
}

/// What an experiment measured for each claim, as lines of [`Book::figures`].
fn figures(card: &Card, claims: &[Claim]) -> String {
    let line = |c: &Claim| {
        let whose = if c.of_paper { "" } else { OURS };
        let [text, ours, words] =
            [&format!("{}{whose}", c.text), &c.ours, &c.words()].map(|text| quoted(text));
        format!("{},{text},{ours},{words}\n", card.name)
    };
    claims.iter().map(line).collect()
}

/// A field of CSV.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// What follows a claim that is not the paper's.
const OURS: &str = " (ours)";

impl Count {
    /// The verdicts in a section of [`Book::markdown`] on the paper's claims.
    fn of(section: &str, card: &Card) -> Result<Self> {
        let mut count = Count::default();
        for row in section.lines().filter(|line| line.starts_with("| ")).skip(1) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let (first, words) = (cells[0], cells[cells.len() - 1]);
            if first.ends_with(OURS.trim()) {
                continue;
            }
            let verdict = Verdict::ALL.iter().position(|verdict| words.starts_with(verdict.words()));
            match verdict {
                _ if card.stand_in.is_some() => count.on_stand_ins += 1,
                Some(i) => count.on_papers_terms[i] += 1,
                None => bail!("{}: {words:?} is no verdict", card.name),
            }
        }
        Ok(count)
    }

    fn add(&mut self, other: &Count) {
        self.on_papers_terms.iter_mut().zip(other.on_papers_terms).for_each(|(sum, n)| *sum += n);
        self.on_stand_ins += other.on_stand_ins;
    }

    /// As in [`Book::HEADS`]. What is not tested is not decided either.
    fn cells(&self) -> [usize; 5] {
        let [hold, fail, open, untested] = self.on_papers_terms;
        let all = hold + fail + open + untested + self.on_stand_ins;
        [all, hold, fail, open + untested, self.on_stand_ins]
    }
}

/// Figures and tables of the papers that no experiment re-creates, and why.
pub const NOT_POSSIBLE: [(&str, &str); 4] = [
    ("Sarmasarkar, table 1; Chowdhury and Zhou, table 1", "they compare bounds of theorems."),
    ("Wang et al., figure 1", "a drawing of the feedback model."),
    (
        "Chowdhury and Zhou, figure 5, on MSLR-WEB10K",
        "the data may not be redistributed. `distributed-fig5 --data FILE` takes the file.",
    ),
    (
        "Wang et al., figure 5, on the Outbrain and Coupon Purchase logs",
        "the data may not be redistributed. Synthetic logs and other real purchases stand in.",
    ),
];

/// Authors of a source.
fn paper(source: &'static str) -> &'static str {
    source.split(':').next().unwrap_or(source)
}

fn sentence(about: &str) -> String {
    let mut letters = about.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_uppercase().chain(letters).collect::<String>() + ".")
}

/// A mean and its error with a tenth for large means and four significant digits for small ones.
fn digits(mean: f64, error: f64) -> [String; 2] {
    let places = match mean.abs() {
        size if size >= 100.0 || size == 0.0 => 1,
        size => (3.0 - size.log10().floor()).clamp(1.0, 9.0) as usize,
    };
    [mean, error].map(|v| format!("{v:.places$}"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_keep_four_digits() {
        let shown = |mean, error| digits(mean, error).join(" ");
        assert_eq!(shown(13_081.44, 526.07), "13081.4 526.1");
        assert_eq!(shown(84.163, 0.0), "84.16 0.00");
        assert_eq!(shown(-0.012_345_6, 0.001), "-0.01235 0.00100");
        assert_eq!(shown(0.0, 0.0), "0.0 0.0");
    }

    #[test]
    fn limits_are_left_out() {
        assert_eq!(brief("Regret grows"), "Regret grows");
        assert_eq!(
            brief("Regret grows (here: by a tenth (or so)), not fast (says T)"),
            "Regret grows, not fast (says T)"
        );
        assert_eq!(brief("Regret grows (here: by"), "Regret grows (here: by");
    }

    #[test]
    fn lists_are_small_tables() {
        assert_eq!(
            parts("a: 1; b: 2"),
            "<table class=\"parts\"><tr><td>a</td><td>1</td></tr><tr><td>b</td><td>2</td></tr></table>"
        );
        assert_eq!(parts("1; 2"), "1<br>2");
        assert_eq!(parts("a: <1"), "a: &lt;1");
    }
}
