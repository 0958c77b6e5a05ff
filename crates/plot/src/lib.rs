//! Curves with bands as SVG: cumulative regret, hit rates.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

/// The figure has no finite point, or the drawing failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the figure {title:?} cannot be drawn: {reason}")]
pub struct Error {
    /// Title of the figure.
    pub title: String,
    /// The cause.
    pub reason: String,
}

/// Curves on common axes.
#[derive(Debug, Clone)]
pub struct Figure<'a> {
    /// Title above the figure.
    pub title: &'a str,
    /// Label of the horizontal axis.
    pub x_label: &'a str,
    /// Label of the vertical axis.
    pub y_label: &'a str,
    /// Whether the horizontal axis is logarithmic, if all its values are positive.
    pub log_x: bool,
    /// Curves, in legend order.
    pub curves: Vec<Curve<'a>>,
}

/// One curve with a band around it.
#[derive(Debug, Clone)]
pub struct Curve<'a> {
    /// Name in the legend.
    pub name: &'a str,
    /// Points with ascending `x`. Points that are not finite are left out.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Round, or parameter.
    pub x: f64,
    /// Lower end of the band.
    pub low: f64,
    /// Value of the curve.
    pub y: f64,
    /// Upper end of the band.
    pub high: f64,
}

/// A curve over the round number, without a band.
#[derive(Debug, Clone, Copy)]
pub struct Series<'a> {
    /// Name in the legend.
    pub name: &'a str,
    /// The value of each round, from round 1.
    pub values: &'a [f64],
}

/// Draws `series` over the round number as [`Figure::svg`] does.
///
/// # Errors
/// Those of [`Figure::svg`].
pub fn svg(title: &str, y_label: &str, series: &[Series<'_>]) -> Result<String, Error> {
    let point = |(i, &y): (usize, &f64)| Point { x: (i + 1) as f64, low: y, y, high: y };
    let points = |values: &[f64]| values.iter().enumerate().map(point).collect();
    let curves = series.iter().map(|s| Curve { name: s.name, points: points(s.values) }).collect();
    Figure { title, x_label: "round", y_label, log_x: false, curves }.svg()
}

const WIDTH: u32 = 640;
/// Height without the legend, in pixels.
const HEIGHT: u32 = 420;
/// Height of a line of the legend, in pixels.
const LINE: u32 = 20;
/// Number of characters of a name that fit half of the width.
const NAME: usize = 34;
/// The most curves whose names are beside them.
const BESIDE: usize = 16;
/// Width of a character of a name, in pixels, and the space before a name.
const CHARACTER: u32 = 8;
const GAP: u32 = 40;

impl Figure<'_> {
    /// The SVG document: curves with bands, and axis labels. Each name is beside the end of its curve, or in
    /// a legend below if there are many or long names. A curve that equals an earlier one is dashed, so that
    /// both are seen, and its name says which it equals. The vertical axis contains 0.
    ///
    /// # Errors
    /// [`Error`] if there is no finite point, or the drawing fails.
    pub fn svg(&self) -> Result<String, Error> {
        let error = |reason: String| Error { title: self.title.to_owned(), reason };
        let finite = |p: &Point| p.x.is_finite() && p.low.is_finite() && p.high.is_finite();
        let visible = |c: &Curve<'_>| c.points.iter().copied().filter(finite).collect::<Vec<_>>();
        let curves: Vec<Vec<Point>> = self.curves.iter().map(visible).collect();
        let points = || curves.iter().flatten();
        if points().next().is_none() {
            return Err(error("it has no finite point".into()));
        }
        let left = points().map(|p| p.x).fold(f64::INFINITY, f64::min);
        let right = points().map(|p| p.x).fold(f64::NEG_INFINITY, f64::max).max(left * 1.01 + 1e-9);
        let low = points().map(|p| p.low).fold(0.0, f64::min);
        let high = points().map(|p| p.high).fold(low + 1e-9, f64::max);
        let y = low..high + 0.05 * (high - low);
        let drawn = self.named(curves);
        let longest = drawn.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
        let beside = drawn.len() <= BESIDE && longest <= NAME;
        // A legend below covers no curve.
        let columns = if longest <= NAME { 2 } else { 1 };
        let rows = if beside { 0 } else { drawn.len().div_ceil(columns) as u32 };
        let right_of = if beside { GAP + CHARACTER * longest as u32 } else { 0 };
        let mut document = String::new();
        let size = (WIDTH + right_of, HEIGHT + LINE * rows + LINE / 2);
        let root = SVGBackend::with_string(&mut document, size).into_drawing_area();
        let (above, below) = root.split_vertically(HEIGHT);
        let done = root.fill(&WHITE).and_then(|()| {
            if self.log_x && left > 0.0 {
                self.draw(&above, &drawn, right_of, (left..right).log_scale(), y)
            } else {
                self.draw(&above, &drawn, right_of, left.min(0.0)..right, y)
            }
        });
        let done = done.and_then(|()| if beside { Ok(()) } else { legend(&drawn, &below, columns) });
        done.and_then(|()| root.present()).map_err(|e| error(e.to_string()))?;
        drop((root, above, below));
        Ok(document)
    }

    /// The curves with their names, each after how many it equals.
    fn named(&self, curves: Vec<Vec<Point>>) -> Vec<Drawn> {
        let same = |a: &[Point], b: &[Point]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a.x, a.y) == (b.x, b.y))
        };
        let mut drawn: Vec<Drawn> = Vec::new();
        for (curve, points) in self.curves.iter().zip(curves) {
            let equal = || drawn.iter().filter(|other| !points.is_empty() && same(&other.points, &points));
            let (repeats, first) = (equal().count(), equal().next().map(|first| &first.name));
            let name = first.map_or(curve.name.to_string(), |first| format!("{} (= {first})", curve.name));
            drawn.push(Drawn { name, points, repeats });
        }
        drawn
    }

    fn draw<B: DrawingBackend, X>(
        &self,
        area: &DrawingArea<B, Shift>,
        curves: &[Drawn],
        right_of: u32,
        x: X,
        y: std::ops::Range<f64>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 20))
            .margin(10)
            .margin_right(10 + right_of)
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
            .x_desc(self.x_label)
            .y_desc(self.y_label)
            .x_labels(6)
            .x_label_formatter(&short)
            .y_label_formatter(&|v| {
                if v.abs() < 10.0 && *v != 0.0 { format!("{v:.2}") } else { format!("{v:.0}") }
            })
            .max_light_lines(0)
            .label_style(("sans-serif", 14))
            .draw()?;
        for (i, Drawn { points, repeats, .. }) in curves.iter().enumerate() {
            let around =
                points.iter().map(|p| (p.x, p.low)).chain(points.iter().rev().map(|p| (p.x, p.high)));
            let band = Polygon::new(around.collect::<Vec<_>>(), Palette99::pick(i).mix(0.15).filled());
            chart.draw_series(std::iter::once(band))?;
            let line = points.iter().map(|p| (p.x, p.y));
            match *repeats as i32 {
                0 => drop(chart.draw_series(LineSeries::new(line, stroke(i)))?),
                // Shorter dashes on those before.
                n => drop(chart.draw_series(DashedLineSeries::new(
                    line,
                    24 / (n + 1),
                    24 - 24 / (n + 1),
                    stroke(i),
                ))?),
            }
        }
        if right_of == 0 {
            return Ok(());
        }
        let end = |(i, curve): (usize, &Drawn)| {
            let last = curve.points.last()?;
            Some((i, chart.backend_coord(&(last.x, last.y))))
        };
        let mut ends: Vec<(usize, (i32, i32))> = curves.iter().enumerate().filter_map(end).collect();
        ends.sort_by_key(|(i, (_, y))| (*y, *i));
        let x = (WIDTH - 4) as i32;
        for ((i, from), y) in ends.iter().zip(spread(ends.iter().map(|(_, (_, y))| *y))) {
            let faint = Palette99::pick(*i).mix(0.5).stroke_width(1);
            area.draw(&PathElement::new([*from, (x, y)], faint))?;
            area.draw(&PathElement::new([(x, y), (x + 14, y)], stroke(*i)))?;
            area.draw(&Text::new(curves[*i].name.as_str(), (x + 20, y - 7), ("sans-serif", 14)))?;
        }
        Ok(())
    }
}

/// A curve as it is drawn.
struct Drawn {
    name: String,
    points: Vec<Point>,
    /// The number of earlier curves that it equals.
    repeats: usize,
}

/// Places of names, from the places of their curves' ends in ascending order: at least a line apart, and on
/// the figure.
fn spread(ends: impl Iterator<Item = i32>) -> Vec<i32> {
    let line = LINE as i32;
    let mut places: Vec<i32> = Vec::new();
    for end in ends {
        places.push(places.last().map_or(end, |last| end.max(last + line)));
    }
    let mut most = HEIGHT as i32 - line;
    for place in places.iter_mut().rev() {
        *place = (*place).min(most);
        most = *place - line;
    }
    places
}

/// Draws the names row by row, each beside a piece of its line.
fn legend<B: DrawingBackend>(
    curves: &[Drawn],
    area: &DrawingArea<B, Shift>,
    columns: usize,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    for (i, curve) in curves.iter().enumerate() {
        let x = 20 + (i % columns) as i32 * (WIDTH / 2) as i32;
        let y = (i / columns) as i32 * LINE as i32;
        area.draw(&PathElement::new([(x, y + 8), (x + 18, y + 8)], stroke(i)))?;
        area.draw(&Text::new(curve.name.as_str(), (x + 24, y + 1), ("sans-serif", 14)))?;
    }
    Ok(())
}

fn stroke(i: usize) -> ShapeStyle {
    Palette99::pick(i).stroke_width(2)
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

    /// A curve that another one hides is dashed, and its name says which it equals.
    #[test]
    fn equal_curves_are_told_apart() {
        let (a, b) = ([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.5]);
        let draw = |other: &[f64]| {
            let series = [Series { name: "one", values: &a }, Series { name: "two", values: other }];
            svg("t", "y", &series).unwrap()
        };
        assert!(draw(&a).contains("two (= one)") && !draw(&b).contains("(="));
        let pieces = |svg: &str| svg.matches("<polyline").count();
        assert!(pieces(&draw(&a)) > pieces(&draw(&b)) + 10, "dashes");
    }

    /// For any number and length of names, every name is drawn beside the figure or below it, inside the
    /// document, and none covers another.
    #[test]
    fn names_keep_out_of_the_way() {
        for (count, label) in [
            (1, "a"),
            (9, "an ordinary label of some length"),
            (16, "a label of 16 curves"),
            (17, "a label of 17 curves"),
            (4, "a label that is longer than half of the width"),
        ] {
            let names: Vec<String> = (0..count).map(|i| format!("{label} {i}")).collect();
            let curve = |(i, name)| {
                let y = |x: i32| f64::from(x * i - 3 * x);
                let points = (1..=20).map(|x| Point { x: f64::from(x), low: y(x), y: y(x), high: y(x) });
                Curve { name, points: points.collect() }
            };
            let curves = (0..count).zip(names.iter().map(String::as_str)).map(curve).collect();
            let figure = Figure { title: "title", x_label: "x", y_label: "y", log_x: true, curves };
            let document = figure.svg().unwrap();
            let number = |tag: &str, name: &str| -> f64 {
                let value = tag.split(&format!(" {name}=\"")).nth(1).unwrap();
                value.split('"').next().unwrap().parse().unwrap()
            };
            let whole = document.split("<svg").nth(1).unwrap();
            let (width, height) = (number(whole, "width"), number(whole, "height"));
            let ours = |text: &&str| text.split('>').nth(1).unwrap().trim().starts_with(&format!("{label} "));
            let texts: Vec<&str> = document.split("<text").skip(1).filter(ours).collect();
            assert_eq!(texts.len(), count as usize, "{document}");
            let beside = label.len() <= 32 && count <= BESIDE as i32;
            let mut places: Vec<(f64, f64)> =
                texts.iter().map(|t| (number(t, "x"), number(t, "y"))).collect();
            for (x, y) in &places {
                assert!(y + 10.0 < height && *y > 0.0, "{y} of {height}");
                match beside {
                    true => assert!(
                        *x > f64::from(WIDTH) && x + 7.0 * label.len() as f64 <= width,
                        "{x} of {width}"
                    ),
                    false => assert!(*y > f64::from(HEIGHT), "{y}"),
                }
            }
            places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let apart =
                |pair: &[(f64, f64)]| pair[0].0 != pair[1].0 || pair[1].1 - pair[0].1 >= f64::from(LINE);
            assert!(places.windows(2).all(apart), "{places:?}");
        }
    }
}
