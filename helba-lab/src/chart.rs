//! A panel as SVG.

use crate::experiment::PanelResult;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

/// Mean curves with bands of one standard error, legend and axis labels; an SVG document, 640 by 420.
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
    let mut document = String::new();
    let root = SVGBackend::with_string(&mut document, (640, 420)).into_drawing_area();
    let log = panel.log_x && left > 0.0;
    let across = |x: f64| if log { (x / left).ln() / (right / left).ln() } else { x / right };
    let legend = emptiest_corner(points().map(|p| (across(p.0), (p.2 - y.start) / (y.end - y.start))));
    let drawn = if log {
        draw(&root, panel, &curves, (left..right).log_scale(), y, legend)
    } else {
        draw(&root, panel, &curves, left.min(0.0)..right, y, legend)
    };
    drawn.map_err(|e| anyhow!("{}: {e}", panel.title))?;
    drop(root);
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

/// Where a legend hides the fewest of the points, given as shares of the picture's width and height.
fn emptiest_corner(points: impl Iterator<Item = (f64, f64)>) -> SeriesLabelPosition {
    use SeriesLabelPosition::{LowerLeft, LowerRight, UpperLeft, UpperRight};
    let mut corners = [(0, UpperLeft), (0, UpperRight), (0, LowerRight), (0, LowerLeft)];
    for (x, y) in points {
        let hidden = [x < 0.4 && y > 0.5, x > 0.6 && y > 0.5, x > 0.6 && y < 0.5, x < 0.4 && y < 0.5];
        corners.iter_mut().zip(hidden).for_each(|(corner, hidden)| corner.0 += u32::from(hidden));
    }
    let [first, rest @ ..] = corners;
    rest.into_iter().fold(first, |best, c| if c.0 < best.0 { c } else { best }).1
}

fn draw<B: DrawingBackend, X>(
    root: &DrawingArea<B, Shift>,
    panel: &PanelResult,
    curves: &[Curve],
    x: X,
    y: std::ops::Range<f64>,
    legend: SeriesLabelPosition,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(root)
        .caption(&panel.title, ("sans-serif", 20))
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)?;
    let short = |v: &f64| match v.abs() {
        size if size >= 1e4 => format!("{v:.1e}").replace(".0e", "e"),
        size if size > 0.0 && size < 10.0 => format!("{v:.2}"),
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
    for (i, (label, points)) in curves.iter().enumerate() {
        let style = Palette99::pick(i).stroke_width(2);
        let around = points.iter().map(|p| (p.0, p.1)).chain(points.iter().rev().map(|p| (p.0, p.3)));
        let band = Polygon::new(around.collect::<Vec<_>>(), Palette99::pick(i).mix(0.15).filled());
        chart.draw_series(std::iter::once(band))?;
        chart
            .draw_series(LineSeries::new(points.iter().map(|p| (p.0, p.2)), style))?
            .label(*label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(legend)
        .label_font(("sans-serif", 14))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.4))
        .draw()?;
    root.present()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legends_keep_out_of_the_way() {
        let corner = |f: fn(f64) -> f64| {
            let points = (0..=20).map(|i| f64::from(i) / 20.0).map(|x| (x, f(x)));
            format!("{:?}", emptiest_corner(points))
        };
        assert_eq!(corner(|x| x), "UpperLeft");
        assert_eq!(corner(|x| 1.0 - x), "UpperRight");
        assert_eq!(corner(|x| x.sqrt().max(0.6)), "LowerRight");
    }
}
