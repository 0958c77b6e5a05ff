//! Axes: ranges, and ticks at round numbers.

/// A range of values, linear or logarithmic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// From `low` to `high`, which are widened if they are equal. Both are positive if `log`.
    pub(crate) fn new(low: f64, high: f64, log: bool) -> Self {
        let high = if high > low { high } else { low + low.abs().max(1e-9) * 0.01 };
        Self { low, high, log }
    }

    /// The same with ends at ticks, if it is linear.
    pub(crate) fn rounded(self) -> Self {
        let step = self.step();
        Self { low: (self.low / step).floor() * step, high: (self.high / step).ceil() * step, ..self }
    }

    /// Where `value` lies between the ends, from 0 to 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }

    /// Values and labels of at least two ticks, and of at most ten.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let inside = |v: &f64| *v >= self.low * (1.0 - 1e-9) && *v <= self.high * (1.0 + 1e-9);
        let mut values = Vec::new();
        if self.log {
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            for steps in
                [&[1.0][..], &[1.0, 3.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]]
            {
                let all = decades.clone().flat_map(|e| steps.iter().map(move |s| s * 10f64.powi(e)));
                values = all.filter(inside).collect();
                if values.len() >= 3 {
                    break;
                }
            }
        }
        if values.len() < 2 {
            let step = self.step();
            let first = (self.low / step).ceil() as i64;
            let last = (self.high / step + 1e-9).floor() as i64;
            values = (first..=last).map(|i| i as f64 * step).collect();
        }
        values.into_iter().map(|v| (v, label(v)))
    }

    /// 1, 2 or 5 times a power of ten, of which the range has 4 to 10.
    fn step(&self) -> f64 {
        let rough = (self.high - self.low) / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let fits = [5.0, 2.0, 1.0].into_iter().find(|s| s * power <= rough);
        fits.unwrap_or(1.0) * power
    }
}

/// A value of a tick: thousands and millions are written as k and M.
fn label(value: f64) -> String {
    let plain = |v: f64| {
        let digits = format!("{v:.6}");
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value.abs() {
        v if v < 1e-9 => "0".into(),
        v if v < 1e-4 => format!("{value:.0e}"),
        v if v < 1e4 => plain(value),
        v if v < 1e6 => plain(value / 1e3) + "k",
        v if v < 1e9 => plain(value / 1e6) + "M",
        _ => format!("{value:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, log: bool) -> Vec<String> {
        Axis::new(low, high, log).ticks().map(|t| t.1).collect()
    }

    #[test]
    fn ticks_are_round_and_enough() {
        assert_eq!(labels(0.0, 5000.0, false), ["0", "1000", "2000", "3000", "4000", "5000"]);
        assert_eq!(labels(0.0, 0.9, false), ["0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(labels(1.0, 1e6, true), ["1", "10", "100", "1000", "10k", "100k", "1M"]);
        assert_eq!(labels(18.39, 222.15, true), ["20", "50", "100", "200"]);
        assert_eq!(labels(2.0, 16.0, true), ["2", "5", "10"]);
        for (low, high, log) in [
            (0.0, 7.3, false),
            (-3.0, 0.1, false),
            (0.1, 128.0, true),
            (1.0, 1.5, true),
            (40.0, 41.0, true),
            (3.0, 3.0, false),
        ] {
            let ticks = labels(low, high, log);
            assert!((2..=11).contains(&ticks.len()), "{low} {high}: {ticks:?}");
        }
    }

    #[test]
    fn ends_are_at_ticks() {
        let axis = Axis::new(0.0, 4.7, false).rounded();
        assert_eq!((axis.low, axis.high), (0.0, 5.0));
        assert_eq!((axis.place(0.0), axis.place(5.0)), (0.0, 1.0));
        assert!((Axis::new(1.0, 100.0, true).place(10.0) - 0.5).abs() < 1e-12);
    }
}
