//! Curves as SVG: cumulative regret, hit rates.

use plotters::coord::Shift;
use plotters::prelude::*;

/// A figure without a single finite point, or a drawing that failed.
#[derive(Debug, thiserror::Error)]
#[error("the figure cannot be drawn: {reason}")]
pub struct Error {
    /// Why.
    pub reason: String,
}

/// One curve.
#[derive(Debug, Clone, Copy)]
pub struct Series<'a> {
    /// For the legend.
    pub name: &'a str,
    /// One value a round, from round 1.
    pub values: &'a [f64],
}

/// Draws `series` over the round number, with legend and axis labels; returns the SVG document, 900 by 560.
///
/// The vertical axis holds 0 and every finite value; values that are not finite are left out.
///
/// # Errors
/// [`Error`] if there is no finite value, or the drawing fails.
pub fn svg(title: &str, y_label: &str, series: &[Series<'_>]) -> Result<String, Error> {
    let rounds = series.iter().map(|s| s.values.len()).max().unwrap_or(0);
    let finite = || series.iter().flat_map(|s| s.values).copied().filter(|v| v.is_finite());
    if finite().next().is_none() {
        return Err(Error { reason: "no finite value".to_owned() });
    }
    let (low, high) = (finite().fold(0.0, f64::min), finite().fold(0.0, f64::max));
    let high = if high > low { high + 0.05 * (high - low) } else { low + 1.0 };
    let mut document = String::new();
    let root = SVGBackend::with_string(&mut document, (900, 560)).into_drawing_area();
    draw(&root, title, y_label, series, rounds, low..high).map_err(|e| Error { reason: e.to_string() })?;
    drop(root);
    Ok(document)
}

fn draw<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    title: &str,
    y_label: &str,
    series: &[Series<'_>],
    rounds: usize,
    y: std::ops::Range<f64>,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 28))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..rounds as f64, y)?;
    chart
        .configure_mesh()
        .x_desc("round")
        .y_desc(y_label)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .max_light_lines(0)
        .label_style(("sans-serif", 18))
        .draw()?;
    for (i, s) in series.iter().enumerate() {
        let style = Palette99::pick(i).stroke_width(2);
        let points =
            s.values.iter().enumerate().map(|(t, &v)| ((t + 1) as f64, v)).filter(|p| p.1.is_finite());
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(s.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans-serif", 18))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_names_everything() {
        let (a, b) = ([0.0, 1.0, f64::NAN, 3.0], [0.5, -0.5]);
        let series = [Series { name: "OFUL & co", values: &a }, Series { name: "HELBA", values: &b }];
        let svg = svg("Regret <toy>", "cumulative regret", &series).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["Regret &lt;toy&gt;", "cumulative regret", "round", "OFUL &amp; co", "HELBA"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert!(!svg.contains("NaN"));
        // Two curves and two legend lines.
        assert!(svg.matches("<polyline").count() >= 4);
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert!(matches!(svg("t", "y", &[]), Err(Error { .. })));
        assert!(matches!(svg("t", "y", &[Series { name: "a", values: &[f64::NAN] }]), Err(Error { .. })));
        assert!(svg("t", "y", &[Series { name: "zeros", values: &[0.0, 0.0] }]).is_ok());
    }
}
