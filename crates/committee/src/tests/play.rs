//! Committees beside the exact twin.

use super::world::{Bandit, Device, World, config, made_up, reward};
use bandit::{LinearConfig, WidthShape};

/// Rows rounded towards zero to 2⁻¹⁶, as devices do.
pub(crate) fn rounded(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    rows.iter().map(|row| row.iter().map(|x| ((x * 65536.0) as i64) as f64 / 65536.0).collect()).collect()
}

fn inverse(v: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let d = v.len();
    let mut m: Vec<Vec<f64>> = v.to_vec();
    for (i, row) in m.iter_mut().enumerate() {
        row.extend((0..d).map(|j| f64::from(u8::from(i == j))));
    }
    for i in 0..d {
        let pivot = m[i][i];
        m[i].iter_mut().for_each(|x| *x /= pivot);
        let row = m[i].clone();
        for (_, other) in m.iter_mut().enumerate().filter(|(k, _)| *k != i) {
            let factor = other[i];
            other.iter_mut().zip(&row).for_each(|(x, y)| *x -= factor * y);
        }
    }
    m.into_iter().map(|row| row[d..].to_vec()).collect()
}

/// The algorithm in double precision.
pub(crate) struct Twin {
    pub(crate) config: LinearConfig,
    v: Vec<Vec<f64>>,
    g: Vec<f64>,
    pub(crate) t: u64,
}

impl Twin {
    pub(crate) fn new(config: LinearConfig) -> Self {
        let d = config.d;
        let v = (0..d).map(|i| (0..d).map(|j| if i == j { config.lambda } else { 0.0 }).collect()).collect();
        Twin { config, v, g: vec![0.0; d], t: 0 }
    }

    pub(crate) fn indices(&self, rows: &[Vec<f64>]) -> Vec<f64> {
        let a = inverse(&self.v);
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let omega: Vec<f64> = a.iter().map(|row| dot(row, &self.g)).collect();
        let bonus = self.config.bonus(self.t + 1, self.t, self.config.c1(self.t));
        let index = |row: &Vec<f64>| {
            let y: Vec<f64> = a.iter().map(|of| dot(of, row)).collect();
            dot(&omega, row) + bonus.of(dot(row, &y))
        };
        rows.iter().map(index).collect()
    }

    pub(crate) fn learn(&mut self, row: &[f64], reward: f64, sign: f64) {
        for (i, x) in row.iter().enumerate() {
            self.g[i] += sign * reward * x;
            row.iter().zip(&mut self.v[i]).for_each(|(y, v)| *v += sign * x * y);
        }
    }
}

/// Plays rounds in packs, learns each pack, and compares every decision with the twin. Returns the
/// largest gap by which the twin's arm is ahead, in parts of the range.
fn play(t: u8, n: u8, config: LinearConfig, data: &[(Vec<Vec<f64>>, usize)], pack: usize) -> f64 {
    let world = World::new(t, n);
    let mut bandit = Bandit::new(&world, config);
    let mut twin = Twin::new(config);
    let mut device = Device::new(&world, config.d, 3);
    let rounds = data.len();
    let (mut gap, mut same) = (0f64, 0);
    for (at, part) in data.chunks(pack).enumerate() {
        let rows: Vec<Vec<Vec<f64>>> = part.iter().map(|(rows, _)| rows.clone()).collect();
        let played = bandit.decide(&mut device, &rows, at as u64);
        let range = config.index_range(bandit.feedbacks + 1, bandit.feedbacks);
        let mut learnt = vec![];
        for ((rows, best), played) in part.iter().zip(&played) {
            let rows = rounded(rows);
            let exact = twin.indices(&rows);
            let arm = config.preferred(&exact, 0.0, at as u64);
            same += usize::from(arm == played.arm);
            gap = gap.max((exact[arm] - exact[played.arm]) / range);
            let middle = 0.5 - bandit::PREDICTION_BOUND / range;
            for (exact, index) in exact.iter().zip(&played.indices) {
                let off = (exact / range - middle - index).abs();
                assert!(off < 1e-3, "an index is off by {off} of the range");
            }
            learnt.push((rows[played.arm].clone(), f64::from(u8::from(played.arm == *best))));
        }
        let batch: Vec<_> = played
            .iter()
            .zip(&learnt)
            .enumerate()
            .map(|(i, (played, (_, hit)))| (&played.row, reward(*hit, i as u64), false))
            .collect();
        bandit.learn(&mut device, &batch).unwrap();
        learnt.iter().for_each(|(row, hit)| twin.learn(row, *hit, 1.0));
        twin.t = bandit.feedbacks;
        // Statistics are exact.
        let state = bandit.opened();
        let mut entries = state.design.iter();
        for i in 0..config.d {
            assert_eq!(state.moment[i].signed() as f64 / 2f64.powi(32), twin.g[i]);
            for j in i..config.d {
                assert_eq!(entries.next().unwrap().signed() as f64 / 2f64.powi(32), twin.v[i][j]);
            }
        }
    }
    assert_eq!(bandit.feedbacks, rounds as u64);
    println!("{t} of {n}: the twin's arm in {same} of {rounds}, ahead by {gap:e} of the range at most");
    gap
}

/// 300 purchases of Yogurt.csv: features of brands, a price, the last brand of the user.
fn purchases() -> Vec<(Vec<Vec<f64>>, usize)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/Yogurt.csv");
    let text = std::fs::read_to_string(file).unwrap();
    let mut last = std::collections::HashMap::new();
    let mut rounds: Vec<(Vec<Vec<f64>>, usize)> = vec![];
    let brands = ["yoplait", "dannon", "hiland", "weight"];
    for line in text.lines().skip(1).take(300) {
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim_matches('"')).collect();
        let number = |at: usize| cells[at].parse::<f64>().unwrap();
        let row = |brand: usize| {
            let one = |i: usize| f64::from(u8::from(i == brand));
            let before = f64::from(u8::from(last.get(cells[1]) == Some(&brands[brand].to_owned())));
            vec![number(2 + brand), number(6 + brand) / 20.0, one(0), one(1), one(2), one(3), before]
        };
        rounds.push(((0..4).map(row).collect(), brands.iter().position(|b| *b == cells[10]).unwrap()));
        last.insert(cells[1].to_owned(), cells[10].to_owned());
    }
    let norm = |row: &Vec<f64>| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    let longest = rounds.iter().flat_map(|(rows, _)| rows.iter().map(norm)).fold(0.0, f64::max);
    for (rows, _) in &mut rounds {
        rows.iter_mut().flatten().for_each(|x| *x *= 0.9999 / longest);
    }
    rounds
}

/// 300 purchases with a committee of 2 of 3, in packs of ten: the twin's arm but for ties, and statistics
/// that are equal to the twin's.
#[test]
#[ignore = "half a minute"]
fn purchases_are_decided_as_the_twin_does() {
    for width in [WidthShape::Tangent, WidthShape::Root] {
        let config = LinearConfig { width: width.width(0.5), ..config(7, 4) };
        let gap = play(2, 3, config, &purchases(), 10);
        assert!(gap <= if width == WidthShape::Root { 2f64.powi(-10) } else { 2f64.powi(-14) }, "{gap:e}");
    }
}

/// The same over 10,000 rounds of eight features and eight arms.
#[test]
#[ignore = "minutes"]
fn long_plays_are_decided_as_the_twin_does() {
    let gap = play(2, 3, config(8, 8), &made_up(10_000, 8, 8, 3), 20);
    assert!(gap <= 2f64.powi(-14), "{gap:e}");
}

/// Members decide as the algorithm does, but for ties below 2⁻¹⁴ of the range, and their statistics are equal
/// to those of the twin as integers.
#[test]
fn members_decide_as_the_twin_does() {
    let root = LinearConfig { width: WidthShape::Root.width(0.5), ..config(7, 4) };
    for (t, n, config) in [(2, 3, config(7, 4)), (2, 4, config(3, 5)), (3, 5, config(2, 2)), (2, 3, root)] {
        // A root's polynomial is off by 2⁻¹⁰ of the range at most.
        let allowed = if config.width == root.width { 2f64.powi(-10) } else { 2f64.powi(-14) };
        let gap = play(t, n, config, &made_up(40, config.d, config.k, 2), 10);
        assert!(gap <= allowed, "{t} of {n}: {gap:e}");
    }
}
