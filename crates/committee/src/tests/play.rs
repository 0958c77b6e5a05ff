//! Committees beside the exact twin.

use super::world::{Bandit, Device, World, config, made_up, reward};
use bandit::{LinearConfig, WidthShape};

/// Rows rounded towards zero to 2⁻¹⁶, as devices do.
fn rounded(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
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
        for (k, other) in m.iter_mut().enumerate().filter(|(k, _)| *k != i) {
            let factor = other[i];
            other.iter_mut().zip(&row).for_each(|(x, y)| *x -= factor * y);
            let _ = k;
        }
    }
    m.into_iter().map(|row| row[d..].to_vec()).collect()
}

/// The algorithm in double precision.
struct Twin {
    config: LinearConfig,
    v: Vec<Vec<f64>>,
    g: Vec<f64>,
    t: u64,
}

impl Twin {
    fn new(config: LinearConfig) -> Self {
        let d = config.d;
        let v = (0..d).map(|i| (0..d).map(|j| if i == j { config.lambda } else { 0.0 }).collect()).collect();
        Twin { config, v, g: vec![0.0; d], t: 0 }
    }

    fn indices(&self, rows: &[Vec<f64>]) -> Vec<f64> {
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

    fn learn(&mut self, row: &[f64], reward: f64, sign: f64) {
        for (i, x) in row.iter().enumerate() {
            self.g[i] += sign * reward * x;
            row.iter().zip(&mut self.v[i]).for_each(|(y, v)| *v += sign * x * y);
        }
    }
}

/// Plays `rounds` rounds in packs, learns each pack, and compares every decision with the twin. Returns the
/// largest gap by which the twin's arm is ahead, in parts of the range.
fn play(t: u8, n: u8, config: LinearConfig, rounds: usize, pack: usize) -> f64 {
    let world = World::new(t, n);
    let mut bandit = Bandit::new(&world, config);
    let mut twin = Twin::new(config);
    let mut device = Device::new(&world, config.d, 3);
    let data = made_up(rounds, config.d, config.k, 2);
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

/// Members decide as the algorithm does, but for ties below 2⁻¹⁴ of the range, and their statistics are equal
/// to those of the twin as integers.
#[test]
fn members_decide_as_the_twin_does() {
    let root = LinearConfig { width: WidthShape::Root.width(0.5), ..config(7, 4) };
    for (t, n, config) in [(2, 3, config(7, 4)), (2, 4, config(3, 5)), (3, 5, config(2, 2)), (2, 3, root)] {
        // A root's polynomial is off by 2⁻¹⁰ of the range at most.
        let allowed = if config.width == root.width { 2f64.powi(-10) } else { 2f64.powi(-14) };
        let gap = play(t, n, config, 40, 10);
        assert!(gap <= allowed, "{t} of {n}: {gap:e}");
    }
}
