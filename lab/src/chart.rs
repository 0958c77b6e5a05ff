//! A panel as SVG.

use crate::experiment::PanelResult;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

const WIDTH: u32 = 640;
/// Without the legend.
const HEIGHT: u32 = 420;
/// Of the legend.
const LINE: u32 = 20;
/// Characters of a label that half the width surely holds.
const LABEL: usize = 34;

/// Mean curves with bands of one standard error, axis labels, and a legend below; an SVG document, 640 wide.
///
/// # Errors
/// If there is no finite point, or the drawing fails.
pub fn svg(panel: &PanelResult) -> Result<String> {
    let curves: Vec<Curve> = panel.series.iter().map(|s| (s.label.as_str(), bounds(s))).collect();
    let points = || curves.iter().flat_map(|c| &c.1);
    if points().next().is_none() {
        return Err(anyhow!("{}: nothing to draw", panel.title));
    }
    let left = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let right = points().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max).max(left * 1.01 + 1e-9);
    let low = points().map(|p| p.1).fold(0.0, f64::min);
    let high = points().map(|p| p.3).fold(low + 1e-9, f64::max);
    let y = low..high + 0.05 * (high - low);
    // The legend stands below, where it hides nothing.
    let longest = curves.iter().map(|c| c.0.chars().count()).max().unwrap_or(0);
    let columns = if longest <= LABEL { 2 } else { 1 };
    let rows = curves.len().div_ceil(columns) as u32;
    let mut document = String::new();
    let size = (WIDTH, HEIGHT + LINE * rows + LINE / 2);
    let root = SVGBackend::with_string(&mut document, size).into_drawing_area();
    let (above, below) = root.split_vertically(HEIGHT);
    let drawn = root.fill(&WHITE).and_then(|()| {
        if panel.log_x && left > 0.0 {
            draw(&above, panel, &curves, (left..right).log_scale(), y)
        } else {
            draw(&above, panel, &curves, left.min(0.0)..right, y)
        }
    });
    let drawn = drawn.and_then(|()| legend(&below, &curves, columns)).and_then(|()| root.present());
    drawn.map_err(|e| anyhow!("{}: {e}", panel.title))?;
    drop((root, above, below));
    Ok(document)
}

/// Slot (or parameter), low end, mean, high end.
type Point = (f64, f64, f64, f64);

/// Label and points.
type Curve<'a> = (&'a str, Vec<Point>);

fn bounds(series: &crate::experiment::SeriesResult) -> Vec<Point> {
    let band =
        |(x, s): (f64, bandit::Summary)| (x, s.mean - s.standard_error, s.mean, s.mean + s.standard_error);
    series
        .curve()
        .into_iter()
        .map(band)
        .filter(|p| p.0.is_finite() && p.1.is_finite() && p.3.is_finite())
        .collect()
}

fn draw<B: DrawingBackend, X>(
    area: &DrawingArea<B, Shift>,
    panel: &PanelResult,
    curves: &[Curve],
    x: X,
    y: std::ops::Range<f64>,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)?;
    let short = |v: &f64| match v.abs() {
        size if size >= 1e4 => format!("{v:.1e}").replace(".0e", "e"),
        size if size < 10.0 && v.fract() != 0.0 => format!("{v:.2}"),
        _ => format!("{v:.0}"),
    };
    chart
        .configure_mesh()
        .x_desc(panel.x_label)
        .y_desc(panel.y_label)
        .x_labels(6)
        .x_label_formatter(&short)
        .y_label_formatter(&|v| {
            if v.abs() < 10.0 && *v != 0.0 { format!("{v:.2}") } else { format!("{v:.0}") }
        })
        .max_light_lines(0)
        .label_style(("sans-serif", 14))
        .draw()?;
    for (i, (_, points)) in curves.iter().enumerate() {
        let around = points.iter().map(|p| (p.0, p.1)).chain(points.iter().rev().map(|p| (p.0, p.3)));
        let band = Polygon::new(around.collect::<Vec<_>>(), Palette99::pick(i).mix(0.15).filled());
        chart.draw_series(std::iter::once(band))?;
        chart.draw_series(LineSeries::new(points.iter().map(|p| (p.0, p.2)), stroke(i)))?;
    }
    Ok(())
}

/// Labels row by row, each beside a piece of its line.
fn legend<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    curves: &[Curve],
    columns: usize,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    for (i, (label, _)) in curves.iter().enumerate() {
        let x = 20 + (i % columns) as i32 * (WIDTH / 2) as i32;
        let y = (i / columns) as i32 * LINE as i32;
        area.draw(&PathElement::new([(x, y + 8), (x + 18, y + 8)], stroke(i)))?;
        area.draw(&Text::new(*label, (x + 24, y + 1), ("sans-serif", 14)))?;
    }
    Ok(())
}

fn stroke(i: usize) -> ShapeStyle {
    Palette99::pick(i).stroke_width(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Run, SeriesResult};

    /// Whatever the curves do, and however many there are: every label is there, below the picture, inside
    /// the document.
    #[test]
    fn legends_keep_out_of_the_way() {
        for (count, label) in [
            (1, "a"),
            (9, "an ordinary label of some length"),
            (4, "a label that is longer than half of the width"),
        ] {
            let series = (0..count).map(|i| SeriesResult {
                label: format!("{label} {i}"),
                settings: String::new(),
                reference: None,
                runs: vec![Run::curve((1..=20).map(|x| (f64::from(x), f64::from(x * i - 3 * x))).collect())],
            });
            let (title, series) = ("title".to_owned(), series.collect());
            let panel = PanelResult { title, x_label: "x", y_label: "y", log_x: true, series };
            let document = svg(&panel).unwrap();
            let number = |tag: &str, name: &str| -> f64 {
                let value = tag.split(&format!(" {name}=\"")).nth(1).unwrap();
                value.split('"').next().unwrap().parse().unwrap()
            };
            let height = number(document.split("<svg").nth(1).unwrap(), "height");
            let ours = |text: &&str| text.split('>').nth(1).unwrap().trim().starts_with(&format!("{label} "));
            let texts: Vec<&str> = document.split("<text").skip(1).filter(ours).collect();
            assert_eq!(texts.len(), count as usize, "{document}");
            for text in texts {
                let y = number(text, "y");
                assert!(y > f64::from(HEIGHT) && y + 10.0 < height, "{y} of {height}");
            }
        }
    }
}
