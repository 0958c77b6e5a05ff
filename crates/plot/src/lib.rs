//! Curves with bands as SVG: cumulative regret, hit rates.
//!
//! A curve has a colour, a dash and a marker, so that equal curves and curves without colours can be told
//! apart, and its name stands beside its end. Colours are distinct under the common forms of colour
//! blindness, and follow the light or dark scheme of the reader.

mod axis;

use axis::Axis;
use std::fmt::Write as _;

/// The figure has no finite point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the figure {title:?} cannot be drawn: it has no finite point")]
pub struct Error {
    /// Title of the figure.
    pub title: String,
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
    /// Whether the horizontal axis is logarithmic, if all its values are positive. It starts where the first
    /// curve becomes visible.
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic, if all its values are positive. Otherwise it contains 0.
    pub log_y: bool,
    /// Curves. Later ones are drawn above earlier ones.
    pub curves: Vec<Curve<'a>>,
}

/// One curve with a band around it.
#[derive(Debug, Clone)]
pub struct Curve<'a> {
    /// Name beside the end of the curve.
    pub name: &'a str,
    /// How it is drawn.
    pub style: Style,
    /// Points with ascending `x`. Points that are not finite are left out.
    pub points: Vec<Point>,
}

/// Colour, dash and marker of a curve. Numbers beyond the last one start again at the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Style {
    /// One of [`Style::COLOURS`] colours.
    pub colour: usize,
    /// One of [`Style::DASHES`] dashes; 0 is a solid line.
    pub dash: usize,
    /// One of [`Style::MARKERS`] markers.
    pub marker: usize,
}

impl Style {
    /// Number of colours.
    pub const COLOURS: usize = 8;
    /// Number of dashes.
    pub const DASHES: usize = 4;
    /// Number of markers.
    pub const MARKERS: usize = 6;

    /// The style of curve `i` of a figure whose curves have no styles of their own.
    pub fn of(i: usize) -> Self {
        Self { colour: i, dash: i, marker: i }
    }
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
    /// Name beside the end of the curve.
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
    let curve = |(i, s): (usize, &Series<'_>)| (s.name.to_owned(), Style::of(i), points(s.values));
    let drawn: Vec<(String, Style, Vec<Point>)> = series.iter().enumerate().map(curve).collect();
    let curves =
        drawn.iter().map(|(name, style, points)| Curve { name, style: *style, points: points.clone() });
    let curves = curves.collect();
    Figure { title, x_label: "round", y_label, log_x: false, log_y: false, curves }.svg()
}

/// Colours on white and on black, after Okabe and Ito, darker or lighter where a thin line needs it.
const COLOURS: [(&str, &str); Style::COLOURS] = [
    ("#0061a8", "#5aaef5"),
    ("#c44900", "#ff8f52"),
    ("#007a5c", "#35cfa0"),
    ("#a6338d", "#ec93d8"),
    ("#8a6200", "#e8bd2c"),
    ("#3b94c9", "#a5ddff"),
    ("#6b6b6b", "#a8a8a8"),
    ("#141414", "#f4f4f4"),
];
const DASHES: [&str; Style::DASHES] = ["none", "8 4", "2 3", "10 3 2 3"];
/// Ink, faint lines and ground, light and dark.
const INK: [(&str, &str, &str); 2] = [("#1b1b1b", "#dcdcdc", "#ffffff"), ("#e8e8e8", "#3a3d42", "#16181c")];

/// Size of the area of the curves, in pixels, unless names need more height.
const WIDTH: f64 = 430.0;
const HEIGHT: f64 = 290.0;
/// Height of a name, and width of one of its characters at most.
const LINE: f64 = 16.0;
const CHARACTER: f64 = 7.3;
const TOP: f64 = 50.0;

impl Figure<'_> {
    /// The SVG document: curves with bands, axes, and names beside the curves.
    ///
    /// # Errors
    /// [`Error`] if there is no finite point.
    pub fn svg(&self) -> Result<String, Error> {
        let finite =
            |p: &Point| p.x.is_finite() && p.low.is_finite() && p.y.is_finite() && p.high.is_finite();
        let visible = |c: &Curve<'_>| c.points.iter().copied().filter(finite).collect::<Vec<_>>();
        let mut curves: Vec<Vec<Point>> = self.curves.iter().map(visible).collect();
        let all = || curves.iter().flatten();
        if all().next().is_none() {
            return Err(Error { title: self.title.to_owned() });
        }
        let least = |of: fn(&Point) -> f64| all().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&Point) -> f64| all().map(of).fold(f64::NEG_INFINITY, f64::max);
        let (log_x, log_y) = (self.log_x && least(|p| p.x) > 0.0, self.log_y && least(|p| p.low) > 0.0);
        let (top, bottom) = (most(|p| p.high), least(|p| p.low));
        // A band that dips a little below 0 needs no tick of its own.
        let bottom = if bottom < 0.0 && bottom > -0.04 * top { 0.0 } else { bottom };
        let (left, right) = (least(|p| p.x), most(|p| p.x));
        let left = match (log_x, log_y) {
            (true, false) => self.start(&curves, top.max(-bottom)).min(right / 2.0).max(left),
            (true, true) => left,
            _ => left.min(0.0),
        };
        curves.iter_mut().for_each(|points| points.retain(|p| p.x >= left));
        let x = Axis::new(left, right, log_x);
        let y = if log_y {
            Axis::new(bottom, top, true)
        } else {
            Axis::new(bottom.min(0.0), top.max(0.0), false).rounded()
        };
        Ok(self.draw(&curves, &x, &y))
    }

    /// The last x before which all curves are within a hundredth of the height.
    fn start(&self, curves: &[Vec<Point>], height: f64) -> f64 {
        let small = |p: &&Point| p.high.abs().max(p.low.abs()) < 0.01 * height;
        let last =
            |points: &Vec<Point>| points.iter().take_while(small).last().map_or(f64::NEG_INFINITY, |p| p.x);
        curves.iter().filter(|c| c.len() > 12).map(last).fold(f64::INFINITY, f64::min)
    }

    fn draw(&self, curves: &[Vec<Point>], x: &Axis, y: &Axis) -> String {
        let names = || self.curves.iter().map(|c| c.name.chars().count());
        let height = HEIGHT.max(LINE * curves.len() as f64);
        let margin = 16.0 + CHARACTER * y.ticks().map(|t| t.1.chars().count()).max().unwrap_or(0) as f64;
        let beside = 62.0 + CHARACTER * names().max().unwrap_or(0) as f64;
        // A title that is longer than the rest widens the figure.
        let titled = 20.0 + 8.6 * self.title.chars().count() as f64;
        let (w, h) = ((margin + WIDTH + beside).max(titled).ceil(), TOP + height + 46.0);
        let at = |p: f64, q: f64| (margin + WIDTH * x.place(p), TOP + height * (1.0 - y.place(q)));
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\">\
             <title>{title}</title><style>{}</style><rect class=\"ground\" width=\"{w}\" height=\"{h}\"/>\
             <text class=\"title\" x=\"10\" y=\"20\">{title}</text><text x=\"10\" y=\"{}\">{}</text>",
            style(),
            TOP - 11.0,
            escape(self.y_label),
            title = escape(self.title),
        );
        // Writing to a string does not fail.
        let (bottom, end) = (TOP + height, margin + WIDTH);
        for (value, label) in y.ticks() {
            let q = TOP + height * (1.0 - y.place(value));
            let _ = write!(out, "<path class=\"grid\" d=\"M{margin:.1} {q:.1}H{end:.1}\"/>");
            let _ = write!(
                out,
                "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
                margin - 6.0,
                q + 4.0
            );
        }
        for (value, label) in x.ticks() {
            let p = margin + WIDTH * x.place(value);
            let _ = write!(out, "<path class=\"axis\" d=\"M{p:.1} {bottom:.1}v4\"/>");
            let _ =
                write!(out, "<text class=\"middle\" x=\"{p:.1}\" y=\"{:.1}\">{label}</text>", bottom + 18.0);
        }
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{margin:.1} {bottom:.1}H{end:.1}\"/><text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            margin + WIDTH / 2.0,
            bottom + 36.0,
            escape(self.x_label)
        );
        for (i, (curve, points)) in self.curves.iter().zip(curves).enumerate() {
            let Style { colour, .. } = curve.style.bounded();
            let line = |of: &mut dyn Iterator<Item = (f64, f64)>| -> String {
                of.map(|(p, q)| format!("{p:.1},{q:.1}")).collect::<Vec<_>>().join(" ")
            };
            if points.iter().any(|p| p.high > p.low) {
                let upper = points.iter().map(|p| at(p.x, p.high));
                let lower = points.iter().rev().map(|p| at(p.x, p.low));
                let _ = write!(
                    out,
                    "<polygon class=\"f{colour} band\" points=\"{}\"/>",
                    line(&mut upper.chain(lower))
                );
            }
            let middle = line(&mut points.iter().map(|p| at(p.x, p.y)));
            let _ =
                write!(out, "<polyline class=\"s{colour}\" {} points=\"{middle}\"/>", curve.style.dashes());
            for place in marked(points, i, curves.len(), &at) {
                curve.style.mark(&mut out, place);
            }
        }
        self.name_curves(&mut out, curves, (TOP, bottom), end, &at);
        out.push_str("</svg>\n");
        out
    }

    /// Writes each name beside the end of its curve, moved apart where they would meet.
    fn name_curves(
        &self,
        out: &mut String,
        curves: &[Vec<Point>],
        (top, bottom): (f64, f64),
        end: f64,
        at: &impl Fn(f64, f64) -> (f64, f64),
    ) {
        let last = |points: &Vec<Point>| points.last().map_or((end, bottom), |p| at(p.x, p.y));
        let mut order: Vec<(usize, (f64, f64))> = curves.iter().map(last).enumerate().collect();
        order.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let heights = spread(order.iter().map(|o| o.1.1), top, bottom);
        for ((i, (p, q)), height) in order.into_iter().zip(heights) {
            let curve = &self.curves[i];
            let Style { colour, .. } = curve.style.bounded();
            let key = end + 22.0;
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{p:.1} {q:.1}L{end:.1} {q:.1}L{:.1} {height:.1}\"/>",
                key - 2.0
            );
            let _ = write!(
                out,
                "<path class=\"s{colour}\" {} d=\"M{key:.1} {height:.1}h26\"/>",
                curve.style.dashes()
            );
            curve.style.mark(out, (key + 13.0, height));
            let _ = write!(
                out,
                "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                key + 32.0,
                height + 4.0,
                escape(curve.name)
            );
        }
    }
}

impl Style {
    fn bounded(self) -> Self {
        let Self { colour, dash, marker } = self;
        Self { colour: colour % Self::COLOURS, dash: dash % Self::DASHES, marker: marker % Self::MARKERS }
    }

    fn dashes(self) -> String {
        match self.bounded().dash {
            0 => String::new(),
            dash => format!("stroke-dasharray=\"{}\"", DASHES[dash]),
        }
    }

    fn mark(self, out: &mut String, (x, y): (f64, f64)) {
        let Self { colour, marker, .. } = self.bounded();
        let path = match marker {
            0 => format!("M{:.1} {y:.1}a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z", x - 3.6),
            1 => format!("M{:.1} {:.1}h6.4v6.4h-6.4z", x - 3.2, y - 3.2),
            2 => format!("M{x:.1} {:.1}l4 7.2h-8z", y - 4.4),
            3 => format!("M{x:.1} {:.1}l4.4 4.4l-4.4 4.4l-4.4 -4.4z", y - 4.4),
            4 => format!("M{:.1} {:.1}l7 7m0 -7l-7 7", x - 3.5, y - 3.5),
            _ => format!("M{:.1} {y:.1}h8.4m-4.2 -4.2v8.4", x - 4.2),
        };
        let class = if marker < 4 { format!("f{colour}") } else { format!("s{colour}") };
        let _ = write!(out, "<path class=\"{class}\" d=\"{path}\"/>");
    }
}

/// The places of the markers of curve `i` of `n`: all points if there are few, and otherwise six places in
/// equal distances, which no other curve has.
fn marked(points: &[Point], i: usize, n: usize, at: &impl Fn(f64, f64) -> (f64, f64)) -> Vec<(f64, f64)> {
    let places: Vec<(f64, f64)> = points.iter().map(|p| at(p.x, p.y)).collect();
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return Vec::new() };
    if places.len() <= 12 {
        return places;
    }
    let step = (last.0 - first.0) / 6.0;
    let targets = (0..6).map(|k| first.0 + step * (k as f64 + (i as f64 + 0.5) / n as f64));
    let nearest =
        |target: f64| places.iter().min_by(|a, b| (a.0 - target).abs().total_cmp(&(b.0 - target).abs()));
    targets.filter_map(nearest).copied().collect()
}

/// `heights`, ascending, moved as little as needed to be a line apart and between `top` and `bottom`.
fn spread(heights: impl Iterator<Item = f64>, top: f64, bottom: f64) -> Vec<f64> {
    let mut out: Vec<f64> = Vec::new();
    for height in heights {
        let least = out.last().map_or(top + 4.0, |last| last + LINE);
        out.push(height.max(least));
    }
    let mut most = bottom;
    for height in out.iter_mut().rev() {
        *height = height.min(most);
        most = *height - LINE;
    }
    out
}

/// The colours of both schemes. Every figure has the same, so that a page may hold several.
fn style() -> String {
    let scheme = |dark: bool| {
        let (ink, faint, ground) = INK[usize::from(dark)];
        let mut out = format!(
            ".plot .ground{{fill:{ground}}}.plot text{{fill:{ink}}}.plot .grid{{stroke:{faint}}}.plot .axis{{stroke:{ink}}}"
        );
        for (i, (light, black)) in COLOURS.iter().enumerate() {
            let colour = if dark { black } else { light };
            let _ = write!(out, ".plot .s{i}{{stroke:{colour}}}.plot .f{i}{{fill:{colour}}}");
        }
        out
    };
    format!(
        ".plot text{{font:13px system-ui,sans-serif}}.plot .title{{font-weight:600;font-size:15px}}\
         .plot .end{{text-anchor:end}}.plot .middle{{text-anchor:middle}}\
         .plot polyline,.plot path[class^=s]{{fill:none;stroke-width:2;stroke-linejoin:round}}\
         .plot .band{{opacity:.16}}.plot .grid,.plot .axis{{fill:none;stroke-width:1}}{}\
         @media (prefers-color-scheme:dark){{{}}}",
        scheme(false),
        scheme(true)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(tag: &str, name: &str) -> f64 {
        let value = tag.split(&format!(" {name}=\"")).nth(1).unwrap();
        value.split('"').next().unwrap().parse().unwrap()
    }

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
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert!(matches!(svg("t", "y", &[]), Err(Error { .. })));
        assert!(matches!(svg("t", "y", &[Series { name: "a", values: &[f64::NAN] }]), Err(Error { .. })));
        assert!(svg("t", "y", &[Series { name: "zeros", values: &[0.0, 0.0] }]).is_ok());
    }

    /// For any number and length of names, and equal curves, names are a line apart, beside the curves and
    /// inside of the document, and every tick is inside too.
    #[test]
    fn names_and_ticks_are_whole() {
        for (count, label, log) in [
            (1, "a", false),
            (9, "an ordinary label of some length", true),
            (30, "a label that is longer than a third of the width of a figure", true),
        ] {
            let names: Vec<String> = (0..count).map(|i| format!("{label} {i}")).collect();
            let curve = |(i, name)| {
                let y = |x: i32| f64::from(x * (i % 3) + 5000 * x);
                let points =
                    (1..=20).map(|x| Point { x: 50.0 * f64::from(x), low: y(x), y: y(x), high: y(x) });
                Curve { name, style: Style::of(i as usize), points: points.collect() }
            };
            let curves = (0..count).zip(names.iter().map(String::as_str)).map(curve).collect();
            let figure =
                Figure { title: "title", x_label: "x", y_label: "y", log_x: log, log_y: false, curves };
            let document = figure.svg().unwrap();
            let root = document.split("<svg").nth(1).unwrap();
            let (width, height) = (number(root, "width"), number(root, "height"));
            let mut places = Vec::new();
            for text in document.split("<text").skip(1) {
                let written = text.split('>').nth(1).unwrap().split('<').next().unwrap();
                let (x, y, long) =
                    (number(text, "x"), number(text, "y"), 6.0 * written.chars().count() as f64);
                let (left, right) = match text {
                    _ if text.starts_with(" class=\"end\"") => (x - long, x),
                    _ if text.starts_with(" class=\"middle\"") => (x - long / 2.0, x + long / 2.0),
                    _ => (x, x + long),
                };
                assert!(
                    left >= 0.0 && right <= width && y > 0.0 && y < height,
                    "{written}: {left} {right} {y}"
                );
                if text.starts_with(" class=\"name\"") {
                    places.push(y);
                }
            }
            assert_eq!(places.len(), count as usize);
            places.sort_by(f64::total_cmp);
            assert!(places.windows(2).all(|w| w[1] - w[0] > LINE - 0.2), "{places:?}");
        }
    }

    /// Curves that lie on each other differ in dash and marker, and their markers do not cover each other.
    #[test]
    fn equal_curves_are_told_apart() {
        let points: Vec<Point> = (0..50).map(f64::from).map(|x| Point { x, low: x, y: x, high: x }).collect();
        let at = |x: f64, y: f64| (10.0 * x, y);
        let (a, b) = (marked(&points, 0, 2, &at), marked(&points, 1, 2, &at));
        assert!(a.len() == 6 && a.iter().all(|p| !b.contains(p)));
        let styles: Vec<_> = (0..8).map(|i| Style::of(i).bounded()).collect();
        for (i, a) in styles.iter().enumerate() {
            for b in &styles[i + 1..] {
                assert!(a.colour != b.colour && (a.dash, a.marker) != (b.dash, b.marker));
            }
        }
    }
}
