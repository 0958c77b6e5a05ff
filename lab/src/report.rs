//! The report of an experiment: CSV, SVG, JSON, and one HTML page.

use crate::experiment::{Claim, Experiment, PanelResult, Results, SeriesResult, Verdict};
use crate::runner::write_whole;
use anyhow::Result;
use plot::{Curve, Figure, Point};
use serde_json::{Value, json};
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
    write_whole(&folder.join("report.html"), html(experiment, results, &claims, &svgs).as_bytes())?;
    let json = json(experiment, results, &claims);
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
    let PanelResult { title, x_label, y_label, log_x, series } = panel;
    let curves = series.iter().map(|s| Curve { name: &s.label, points: curve(s) }).collect();
    Ok(Figure { title, x_label, y_label, log_x: *log_x, curves }.svg()?)
}

/// The claims and last values as text for a terminal.
pub fn text(results: &Results, claims: &[Claim]) -> String {
    let mut out = results.caution().map_or(String::new(), |caution| caution + "\n");
    // Writing to a string does not fail, here and below.
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
        let _ = writeln!(
            out,
            "\n{}: {}\n  reference: {}\n  here:      {}",
            c.verdict.words(),
            c.paper,
            c.reference,
            c.ours
        );
    }
    out
}

fn csv(results: &Results) -> String {
    let mut out = String::from("panel,series,seed,x,value\n");
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
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

fn json(experiment: &dyn Experiment, results: &Results, claims: &[Claim]) -> Value {
    let card = experiment.card();
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
        "experiment": card.name, "about": card.about, "source": card.source,
        "notes": card.notes, "scale": results.scale, "seeds": results.seeds, "caution": results.caution(), "claims": claims,
        "panels": results.panels.iter().map(panel).collect::<Vec<_>>(),
    })
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:84rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;\
background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;margin:.6rem 0}\
th,td{border-bottom:1px solid #ddd;padding:.25rem .7rem;text-align:left;vertical-align:top}td.n{text-align:right;\
font-variant-numeric:tabular-nums}.holds{color:#096b2d}.not{color:#a3140f}.open{color:#666}\
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(30rem,1fr));gap:1rem}svg{max-width:100%;height:auto}";

fn html(experiment: &dyn Experiment, results: &Results, claims: &[Claim], svgs: &[String]) -> String {
    let card = experiment.card();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{name}</title><style>{STYLE}</style></head><body>\n\
         <h1>{name}: {about}</h1>\n{caution}<p>{source}</p>\n<p>{notes}</p>\n<h2>Claims</h2>\n<table><tr><th>the paper says</th>\
         <th>reference</th><th>here</th><th></th></tr>\n",
        name = escape(card.name),
        about = escape(card.about),
        caution = results
            .caution()
            .map_or(String::new(), |c| format!("<p class=\"not\"><b>{}</b></p>\n", escape(&c))),
        source = escape(card.source),
        notes = escape(card.notes),
    );
    for c in claims {
        let class = match c.verdict {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "not",
            Verdict::NotTested => "open",
        };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\"><b>{}</b></td></tr>",
            escape(&c.paper),
            escape(&c.reference),
            escape(&c.ours),
            c.verdict.words()
        );
    }
    out.push_str("</table>\n<h2>Figures</h2>\n<p>Mean and one standard error.</p>\n<div class=\"panels\">\n");
    svgs.iter().for_each(|svg| {
        let _ = writeln!(out, "<div>{svg}</div>");
    });
    out.push_str("</div>\n<h2>Last values</h2>\n<p>Each in the unit of its figure's vertical axis.");
    if results.panels.iter().flat_map(|p| &p.series).any(|s| s.stuck() > 0.0) {
        out.push_str(
            " Above 3 × median: the share of runs that end there; the mean then speaks of these alone.",
        );
    }
    out.push_str("</p>\n");
    for panel in &results.panels {
        // No column without anything in it.
        let (stuck, compared) = (
            panel.series.iter().any(|s| s.stuck() > 0.0),
            panel.series.iter().any(|s| s.reference.is_some()),
        );
        let heads = ["", "runs", "mean ± s.e.", "median"].into_iter();
        let heads = heads.chain(stuck.then_some("above 3 × median"));
        let heads = heads.chain(compared.then_some(["reference", "within 3 s.e."]).into_iter().flatten());
        let heads: String = heads.map(|head| format!("<th>{head}</th>")).collect();
        let _ = writeln!(
            out,
            "<h3>{}: {}</h3>\n<table><tr>{heads}</tr>",
            escape(&panel.title),
            escape(panel.y_label)
        );
        for s in &panel.series {
            let (last, reference) = (s.last(), s.reference);
            let with_error = |mean, error| digits(mean, error).join(" ± ");
            let reference = reference.map_or("–".into(), |r| with_error(r.mean, r.standard_error));
            let agrees = s.agrees().map_or("–", |a| if a { "yes" } else { "no" });
            let _ = write!(
                out,
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
                escape(&s.label),
                s.runs.len(),
                with_error(last.mean, last.standard_error),
                digits(s.median(), 0.0)[0],
            );
            if stuck {
                let _ = write!(out, "<td class=\"n\">{:.0} %</td>", 100.0 * s.stuck());
            }
            if compared {
                let _ = write!(out, "<td class=\"n\">{reference}</td><td>{agrees}</td>");
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</table>\n");
    }
    out.push_str("</body></html>\n");
    out
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
}
