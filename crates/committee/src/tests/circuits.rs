//! Circuits on the numbers themselves: what they compute, how large their numbers are, and what they cost.

use super::world::{World, config, reward, rng};
use crate::compare::{at_least_zero, largest};
use crate::decide::{Decided, Inputs, decide};
use crate::learn::{Feedback, State, initial, learn};
use crate::scalars::{Decide, LEAST_SLACK, Learn, MOST_RESIDUAL, schedule};
use crate::{Bound, Clear, Error, walk};
use bandit::{LinearConfig, WidthShape};
use rand::Rng;
use shares::{Field, Pads, Row, Sharing, Threshold};

const COMMITTEES: [(u8, u8); 6] = [(2, 3), (2, 4), (3, 5), (3, 7), (4, 7), (4, 10)];

pub(super) fn sharing((t, n): (u8, u8)) -> Sharing {
    Sharing::new(Threshold::new(t, n).unwrap())
}

pub(super) fn field(x: i128) -> Field {
    Field::from_signed(x)
}

/// Both ends of each width, both sides of zero, and any other values.
#[test]
fn comparisons_are_exact() {
    let mut rng = rng(1);
    for width in [18, 21, 24, 27] {
        let end = (1i128 << width) - 1;
        let drawn = (0..200).map(|_| i128::from(rng.next_u32()) % (2 * end) - end);
        let values: Vec<i128> = [0, 1, -1, end, -end, 7, -8].into_iter().chain(drawn).collect();
        let mut clear = Clear::new(3, u64::from(width));
        let shares: Vec<Field> = values.iter().map(|v| field(*v)).collect();
        let results = walk(at_least_zero(&mut clear, &shares, width)).unwrap();
        for (value, result) in values.iter().zip(results) {
            assert_eq!(result.get(), u128::from(*value >= 0), "{value} with {width} bits");
        }
        // A value that does not fit is noticed.
        let refused = walk(at_least_zero(&mut clear, &[field(end + 1)], width));
        assert!(matches!(refused, Err(Error::Bound { .. })));
    }
}

/// For every number of arms up to 20 and for 64: the largest, and of equal ones the first.
#[test]
fn the_largest_is_found() {
    let mut rng = rng(2);
    for arms in (1..=20).chain([64]) {
        for _ in 0..6 {
            let values: Vec<i128> = (0..arms).map(|_| i128::from(rng.next_u32() % 5) - 2).collect();
            let indices: Vec<Field> = values.iter().map(|v| field(*v)).collect();
            let mut clear = Clear::new(4, 3);
            let chosen = walk(largest(&mut clear, &indices, 18, 2)).unwrap();
            let top = *values.iter().max().unwrap();
            let want = values.iter().position(|value| *value == top).unwrap();
            for (arm, wire) in &chosen.winner {
                assert_eq!(wire.get(), u128::from(*arm == want), "{values:?}");
            }
            for group in &chosen.groups {
                assert_eq!(group.iter().map(|wire| wire.get()).sum::<u128>(), 1);
            }
        }
    }
}

/// A decision that is counted: what a member shows, and prepares in batches of 32 slots.
fn counted(config: &LinearConfig, committee: (u8, u8), t: u64) -> (Bound, Decide) {
    let sharing = sharing(committee);
    let scalars = Decide::new(config, &sharing, t + 1, t, 0).unwrap();
    let mut bound = Bound::new(sharing.subsets().len());
    let (d, ratio) = (config.d, config.l * config.l / config.lambda);
    let of = |most: f64| Bound::input(most as u128);
    let inputs = Inputs {
        inverse: vec![of(2.0 * 2f64.powi(36)); d * (d + 1) / 2],
        estimate: vec![of(((t as f64 * ratio).sqrt() / 2.0 + 1.0) * 2f64.powi(28)); d],
        rows: vec![vec![of(2f64.powi(18)); d + 3]; config.k],
    };
    walk(decide(&mut bound, &scalars, inputs)).unwrap();
    (bound, scalars)
}

/// An update at `t` feedbacks, with these numbers of feedbacks that come and go, and so many arms that are
/// counted, which opens what was counted before.
pub(super) fn counted_update(
    config: &LinearConfig,
    committee: (u8, u8),
    (t, added, erased): (u64, u64, u64),
    arms: usize,
) -> Result<Bound, Error> {
    let sharing = sharing(committee);
    let counts = (added, erased);
    let scalars = Learn::new(config, &sharing, (t, MOST_RESIDUAL), counts)?.counting(arms, arms > 0);
    let mut bound = Bound::new(sharing.subsets().len());
    let d = config.d;
    let triangle = d * (d + 1) / 2;
    let most = |most: f64| Bound::input(most as u128);
    let numbers = vec![most((t as f64 + 10.0) * 2f64.powi(40)); 3 * triangle + 2 * (d + arms)];
    let state = State::from_numbers(d, arms, &numbers).unwrap();
    let feedback = |at| Feedback {
        row: vec![most(2f64.powi(16)); d + arms],
        reward: most(2f64.powi(18)),
        squares: (at < added).then(|| [most(2f64.powi(18)); 3]),
    };
    let feedbacks = (0..added + erased).map(feedback).collect();
    walk(learn(&mut bound, &scalars, state, feedbacks))?;
    Ok(bound)
}

/// Numbers of 16 bytes that a member sends for a decision, prepared in batches of 32 and shown, and rounds;
/// and for an update of 16 feedbacks. A circuit that shows one number or takes one round more fails here.
#[test]
fn what_decisions_and_updates_cost() {
    let root = WidthShape::Root.width(0.5);
    let of = |d, k, width, batch| {
        let config = LinearConfig { width, ..config(d, k) };
        let (decision, _) = counted(&config, (2, 3), 100);
        let update = counted_update(&config, (2, 3), (100, 16, 0), 0).unwrap();
        let prepared = (decision.prepared(batch).0 / batch, decision.prepared(1).1);
        let of_update = (update.shown + update.prepared(1).0, update.rounds);
        (prepared, (decision.shown, decision.rounds), of_update)
    };
    let tangent = WidthShape::Tangent.width(0.5);
    for (d, k, with_tangent, with_root, update) in [
        (2, 2, ((66, 8), (49, 11)), ((94, 8), (77, 15)), (312, 15)),
        (7, 4, ((357, 9), (247, 13)), ((413, 9), (303, 17)), (1357, 15)),
        (8, 8, ((773, 9), (504, 20)), ((885, 9), (616, 24)), (1680, 15)),
        (16, 16, ((1875, 10), (1409, 22)), ((2099, 10), (1633, 26)), (5598, 15)),
        (8, 32, ((3550, 10), (2072, 28)), ((3998, 10), (2520, 32)), (1680, 15)),
        (16, 64, ((7811, 10), (5313, 30)), ((8707, 10), (6209, 34)), (5598, 15)),
    ] {
        assert_eq!(of(d, k, tangent, 32), (with_tangent.0, with_tangent.1, update), "({d}, {k})");
        assert_eq!(of(d, k, root, 32), (with_root.0, with_root.1, update), "({d}, {k})");
    }
}

/// Whatever is accepted keeps masks 2³⁶ times as wide as their numbers; what does not fit is refused by name.
#[test]
fn every_mask_covers_its_number() {
    let mut accepted = 0;
    for committee in COMMITTEES {
        let arms = if committee == (2, 3) { 64 } else { 4 };
        for lambda in [0.1, 1.0, 4.0] {
            for d in [2, 16, 64] {
                for t in [0, 20_000, 4_000_000] {
                    for width in [WidthShape::Tangent.width(0.5), WidthShape::Root.width(0.5)] {
                        let config = LinearConfig { lambda, width, ..config(d, arms) };
                        let sharing = sharing(committee);
                        match Decide::new(&config, &sharing, t + 1, t, 0) {
                            Ok(_) => {
                                let (bound, _) = counted(&config, committee, t);
                                assert!(bound.slack.unwrap() >= LEAST_SLACK, "{committee:?} {d} {t}");
                                accepted += 1;
                            }
                            Err(Error::Bound { .. } | Error::OutOfRange { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                    for (added, erased) in [(1, 0), (16, 0), (200, 0), (0, 16), (16, 1), (16, 16), (200, 16)]
                    {
                        let config = LinearConfig { lambda, ..config(d, arms) };
                        match counted_update(&config, committee, (t, added, erased), 0) {
                            Ok(bound) => {
                                let slack = bound.slack.unwrap();
                                assert!(slack >= LEAST_SLACK, "{committee:?} {d} {t} {added} {erased}");
                                accepted += 1;
                            }
                            Err(Error::Bound { .. } | Error::OutOfRange { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            }
        }
    }
    assert!(accepted > 200, "{accepted}");
    // So many feedbacks that rounding is half of the residual or more.
    for (committee, d, fits, refused) in [((2, 3), 7, 868_000, 869_000), ((3, 7), 16, 65_000, 66_000)] {
        let learns = |t| Learn::new(&config(d, 4), &sharing(committee), (t, MOST_RESIDUAL), (16, 0));
        assert!(learns(fits).is_ok(), "{committee:?}");
        assert!(matches!(learns(refused), Err(Error::OutOfRange { what: "the number of feedbacks", .. })));
    }
}

/// Public numbers are the same integers on all machines, or an honest member would be off the polynomial of
/// the others: those of 54 decisions and 54 updates have this hash, whatever logarithms a system has.
#[test]
fn public_numbers_are_the_same_on_all_machines() {
    let mut hasher = blake3::Hasher::new();
    for committee in [(2, 3), (3, 7), (4, 10)] {
        for lambda in [1.0, 1.7, 3.7] {
            for width in [WidthShape::Tangent.width(0.5), WidthShape::Root.width(0.3)] {
                for t in [1, 17, 1000] {
                    let (sharing, config) =
                        (sharing(committee), LinearConfig { lambda, width, ..config(7, 4) });
                    let decide = Decide::new(&config, &sharing, t + 1, t, 0).unwrap();
                    let mut numbers = decide.bonus.clone();
                    numbers.extend([decide.at_zero, decide.estimate, decide.shift]);
                    let learn = Learn::new(&config, &sharing, (t, MOST_RESIDUAL), (4, 1)).unwrap();
                    numbers.extend([learn.ridge, learn.inverse_ridge, learn.scale]);
                    for number in &numbers {
                        hasher.update(&number.to_bytes());
                    }
                    for bound in [decide.most_estimate, decide.most_index, learn.most_estimate] {
                        hasher.update(&bound.to_le_bytes());
                    }
                    let small = (decide.width, learn.log_t, &learn.steps, learn.residual);
                    hasher.update(format!("{small:?}").as_bytes());
                }
            }
        }
    }
    assert_eq!(hasher.finalize().to_hex()[..16], *"e21110ce755a549b");
}

/// Where Newton's steps leave an eigenvalue of A·V that `rounding` moves in each of them.
fn after(steps: &[(u32, u32)], eigenvalue: f64, rounding: f64) -> f64 {
    steps.iter().fold(eigenvalue, |eigenvalue, (m, s)| {
        let scaled = eigenvalue * f64::from(*m) / (1u64 << s) as f64;
        scaled * (2.0 - scaled) + rounding
    })
}

/// Batches of 1 to 200, L²/λ from ¼ to 10, up to 16 erased: eigenvalues anywhere in their interval are
/// brought within the residual that is promised, which is at most 2⁻¹¹ more than rounding, also where
/// rounding moves all steps to one side. In the control the promise does not know the rounding of the steps
/// between, and is false.
#[test]
fn schedules_keep_their_promise() {
    let unit = 2f64.powi(40);
    for rounding in [0.0, 2f64.powi(-14), 2f64.powi(-11)] {
        for ratio in [0.25, 1.0, 4.0, 10.0] {
            for batch in 1..=200 {
                for erased in [0, 1, 16] {
                    let made = schedule(MOST_RESIDUAL, (batch, erased), ratio, rounding);
                    let Ok((steps, promised)) = made else {
                        // An eigenvalue of 1/κ is lost in the rounding.
                        let condition = (1.0 + batch as f64 * ratio) * (1.0 + erased as f64 * ratio);
                        assert!(condition * rounding > 2.9, "{batch} {erased} {ratio} {rounding}");
                        continue;
                    };
                    let most = MOST_RESIDUAL as f64 / 2.0 + rounding * unit + 2.0;
                    assert!(promised as f64 <= most && steps.len() <= 15, "{batch}, {steps:?}");
                    let epsilon = MOST_RESIDUAL as f64 / unit;
                    let low = (1.0 - epsilon) * (1.0 - rounding) / (1.0 + erased as f64 * ratio);
                    let high = (1.0 + epsilon) * (1.0 + rounding) * (1.0 + batch as f64 * ratio);
                    for i in 0..=64 {
                        let eigenvalue = low + (high - low) * f64::from(i) / 64.0;
                        for side in [-1.0, 1.0] {
                            let off = (after(&steps, eigenvalue, side * rounding) - 1.0).abs() * unit;
                            assert!(off <= promised as f64, "{batch} {erased} {ratio} {rounding}: {off}");
                        }
                    }
                }
            }
        }
    }
    let mut worst = 0f64;
    for batch in 1..=200u64 {
        let rounding = 2f64.powi(-11) / 1.1;
        let (steps, promised) = schedule(MOST_RESIDUAL, (batch, 0), 10.0, 0.0).unwrap();
        let off = (1.0 - after(&steps, 1.0 - 2f64.powi(-10), -rounding)) * unit;
        worst = worst.max(off - promised as f64 - 1.1 * rounding * unit);
    }
    assert!(worst > unit * 2f64.powi(-11), "{worst}");
    let (steps, _) = schedule(MOST_RESIDUAL, (16, 0), 1.0, 0.0).unwrap();
    assert_eq!(steps.len(), 5);
    // If 16 rows are erased and the schedule does not know it, its promise is false.
    let (steps, promised) = schedule(0, (1, 0), 1.0, 0.0).unwrap();
    assert!((1.0 - after(&steps, 1.0 / 17.0, 0.0)) * unit > 100.0 * promised as f64);
    assert!(schedule(MOST_RESIDUAL + 1, (1, 0), 1.0, 0.0).is_err());
}

/// A bandit in the clear.
pub(super) struct InClear {
    pub(super) config: LinearConfig,
    pub(super) sharing: Sharing,
    pub(super) state: State<Field>,
    pub(super) feedbacks: u64,
    pub(super) residual: u64,
}

impl InClear {
    pub(super) fn new(config: LinearConfig, committee: (u8, u8)) -> Self {
        let sharing = sharing(committee);
        let start = Learn::new(&config, &sharing, (0, 0), (0, 0)).unwrap();
        InClear { config, sharing, state: initial(&start), feedbacks: 0, residual: 0 }
    }

    pub(super) fn learn(&mut self, batch: &[(Vec<i64>, Vec<i64>, bool)]) -> Result<(), Error> {
        let erased = batch.iter().filter(|(.., erased)| *erased).count() as u64;
        let change = (batch.len() as u64 - erased, erased);
        let scalars = Learn::new(&self.config, &self.sharing, (self.feedbacks, self.residual), change)?;
        let numbers = |row: &[i64]| row.iter().map(|x| field((*x).into())).collect::<Vec<_>>();
        let feedback = |(row, reward, erased): &(Vec<i64>, Vec<i64>, bool)| Feedback {
            row: numbers(&row[..self.config.d]),
            reward: numbers(reward)[0],
            squares: (!erased).then(|| [1, 2, 3].map(|at| numbers(reward)[at])),
        };
        let mut clear = Clear::new(self.sharing.subsets().len(), self.feedbacks);
        let batch = batch.iter().map(feedback).collect();
        walk(learn(&mut clear, &scalars, self.state.clone(), batch))?;
        self.state = State::from_numbers(self.config.d, 0, &clear.record).unwrap();
        (self.feedbacks, self.residual) = (scalars.feedbacks, scalars.residual);
        Ok(())
    }

    pub(super) fn decide(&self, rows: &[Vec<i64>], scalars: &Decide) -> Result<Decided<Field>, Error> {
        let numbers = |row: &Vec<i64>| row.iter().map(|x| field((*x).into())).collect::<Vec<_>>();
        let inputs = Inputs {
            inverse: self.state.scaled.clone(),
            estimate: self.state.estimate.clone(),
            rows: rows.iter().map(numbers).collect(),
        };
        let mut clear = Clear::new(self.sharing.subsets().len(), 5);
        walk(decide(&mut clear, scalars, inputs))
    }

    pub(super) fn scalars(&self) -> Decide {
        Decide::new(&self.config, &self.sharing, self.feedbacks + 1, self.feedbacks, 0).unwrap()
    }

    /// The largest entry of A·V − 1, for two features.
    pub(super) fn residual_entry(&self) -> f64 {
        let f = |x: &Field, bits: i32| x.signed() as f64 / 2f64.powi(bits);
        let full = |m: &[Field], bits| {
            let [a, b, c] = [0, 1, 2].map(|i| f(&m[i], bits));
            [[a, b], [b, c]]
        };
        let (a, v) = (full(&self.state.inverse, 36), full(&self.state.design, 32));
        let entry = |i: usize, j: usize| a[i][0] * v[0][j] + a[i][1] * v[1][j] - f64::from(u8::from(i == j));
        (0..4).map(|at| entry(at / 2, at % 2).abs()).fold(0.0, f64::max)
    }
}

pub(super) fn row(features: &[f64], seed: u64) -> Vec<i64> {
    Row::new(features, &mut rng(seed)).unwrap().numbers().to_vec()
}

/// Feedbacks of hostile devices, every norm and reward valid, make ω as long as √t/2; then rows along it. No
/// number is larger than its circuit says, and the arm is the right one. In the control comparisons are three
/// bits too narrow, and a difference of indices does not fit.
#[test]
fn attack_valid_feedback_stretches_the_model() {
    for t in [256u64, 1024, 20_000, 1_000_000] {
        let width = WidthShape::Root.width(0.5);
        let mut bandit = InClear::new(LinearConfig { width, ..config(2, 4) }, (2, 3));
        let epsilon = 1.0 / (t as f64).sqrt();
        let c = (1.0 - epsilon * epsilon).sqrt() * (1.0 - 2f64.powi(-12));
        let rows = [row(&[c, epsilon], 1), row(&[c, -epsilon], 2)];
        let rewards = [reward(1.0, 1), reward(-1.0, 2)];
        let length = if t > 20_000 { 200 } else { 16 };
        let batch: Vec<_> =
            (0..length).map(|i| (rows[i % 2].clone(), rewards[i % 2].clone(), false)).collect();
        for _ in 0..t / length as u64 {
            bandit.learn(&batch).unwrap();
            assert!(bandit.residual <= MOST_RESIDUAL);
        }
        let length = bandit.state.estimate[1].signed() as f64 / 2f64.powi(28);
        assert!(length > 0.45 * (t as f64).sqrt(), "{t}: {length}");
        let scalars = bandit.scalars();
        let rows = [[0.0, 0.999], [0.0, -0.999], [0.999, 0.0], [0.0, -0.999]];
        let rows: Vec<Vec<i64>> = rows.iter().map(|x| row(x, 3)).collect();
        let decided = bandit.decide(&rows, &scalars).unwrap();
        assert_eq!(decided.arm.get(), 0, "{t}");
        let narrow = Decide { width: scalars.width - 3, ..scalars.clone() };
        assert!(matches!(bandit.decide(&rows, &narrow), Err(Error::Bound { .. })), "{t}");
    }
}

/// Learning and erasing 1, 16 and whole batches: statistics are equal to integers, and the inverse is within
/// the residual that is stated.
#[test]
fn what_is_erased_is_gone() {
    let mut bandit = InClear::new(config(2, 4), (2, 4));
    let mut rng = rng(9);
    let mut draw = || f64::from(rng.next_u32()) / f64::from(u32::MAX) * 1.4 - 0.7;
    let feedback = |x: [f64; 2], r: f64, erased| (row(&x, 1), reward(r, 2), erased);
    let all: Vec<([f64; 2], f64)> = (0..48).map(|_| ([draw(), draw()], draw())).collect();
    for batch in all.chunks(16) {
        bandit.learn(&batch.iter().map(|(x, r)| feedback(*x, *r, false)).collect::<Vec<_>>()).unwrap();
        assert!(bandit.residual_entry() < 2f64.powi(-9));
    }
    let mut left = all.clone();
    for (gone, come) in [(1, 0), (16, 4), (16, 0), (15, 0)] {
        let erased: Vec<_> = left.drain(..gone).collect();
        let added: Vec<_> = all[..come].to_vec();
        let batch: Vec<_> = erased
            .iter()
            .map(|(x, r)| feedback(*x, *r, true))
            .chain(added.iter().map(|(x, r)| feedback(*x, *r, false)))
            .collect();
        bandit.learn(&batch).unwrap();
        left.extend(added);
        assert_eq!(bandit.feedbacks, left.len() as u64);
        let fixed = |x: f64| (x * 65536.0) as i64;
        type Played = ([f64; 2], f64);
        let sum = |f: &dyn Fn(&Played) -> i64| i128::from(left.iter().map(f).sum::<i64>());
        let design = [
            sum(&|(x, _)| fixed(x[0]) * fixed(x[0])) + (1 << 32),
            sum(&|(x, _)| fixed(x[0]) * fixed(x[1])),
            sum(&|(x, _)| fixed(x[1]) * fixed(x[1])) + (1 << 32),
        ];
        assert_eq!(bandit.state.design.iter().map(|v| v.signed()).collect::<Vec<_>>(), design);
        let moment = [0, 1].map(|i| sum(&|(x, r)| fixed(*r) * fixed(x[i])));
        assert_eq!(bandit.state.moment.iter().map(|v| v.signed()).collect::<Vec<_>>(), moment);
        assert!(bandit.residual_entry() < 2f64.powi(-9), "{}", bandit.residual_entry());
    }
    // More than there is.
    let batch: Vec<_> = all[..8].iter().map(|(x, r)| feedback(*x, *r, true)).collect();
    assert!(matches!(bandit.learn(&batch), Err(Error::OutOfRange { .. })));
}

/// A reward of 1.5, or with wrong squares, is named by its place, and nothing is learnt.
#[test]
fn rewards_out_of_range_are_named() {
    let mut bandit = InClear::new(config(2, 4), (2, 3));
    let before = bandit.state.design.clone();
    let mut long = reward(1.0, 1);
    long[0] = 3 << 15;
    let mut wrong = reward(0.5, 2);
    wrong[2] += 1;
    let x = row(&[0.6, 0.6], 1);
    let batch = [reward(1.0, 1), long, reward(-1.0, 3), wrong].map(|r| (x.clone(), r, false));
    assert_eq!(bandit.learn(&batch), Err(Error::Rewards { places: vec![1, 3] }));
    assert!(bandit.feedbacks == 0 && bandit.state.design == before);
    bandit.learn(&[batch[0].clone(), batch[2].clone()]).unwrap();
    assert_eq!(bandit.feedbacks, 2);
}

/// A world's committee has the subsets that the counts are for.
#[test]
fn counts_are_those_of_members() {
    let world = World::new(2, 3);
    let bandit = super::world::Bandit::new(&world, config(2, 2));
    let scalars = bandit.scalars(0);
    let here = world.all();
    world.sent.set([0; 4]);
    let slots = bandit.slots(&here, &scalars, 32);
    let (bound, _) = counted(&config(2, 2), (2, 3), 0);
    let (sent, rounds) = bound.prepared(32);
    assert_eq!(world.sent.get()[..2], [sent, rounds]);
    drop(slots);
}

/// The table of parameters in docs/committee-protocol.md.
#[test]
fn the_page_has_the_parameters() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/committee-protocol.md");
    let page = std::fs::read_to_string(page).unwrap();
    let power = |exponent: f64| {
        let digits = format!("{}", -exponent.floor() as i64);
        format!(
            "2⁻{}",
            digits.chars().map(|d| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(d as usize - 48).unwrap()).collect::<String>()
        )
    };
    let line = |what: &str, cell: &dyn Fn(&Sharing) -> String| {
        let cells: Vec<String> = COMMITTEES.iter().map(|committee| cell(&sharing(*committee))).collect();
        let line = format!("| {what} | {} |\n", cells.join(" | "));
        assert!(page.contains(&line), "the page lacks\n{line}");
    };
    line("members that must be here, that may be away", &|sharing| {
        let of = sharing.threshold();
        format!("{}, {}", of.needed(), usize::from(of.members()) - of.needed())
    });
    line("others that one hears which was put back", &|sharing| sharing.threshold().remember().to_string());
    line("subsets, and those of a member", &|sharing| {
        let own = sharing.subsets().iter().filter(|subset| subset.has(1)).count();
        format!("{}, {own}", sharing.subsets().len())
    });
    line("bits of a pad with 16 features, distance of a feature", &|sharing| {
        let bits = Pads::new(sharing, 16).unwrap().bits();
        format!("{bits}, {}", power(17.0 - f64::from(bits)))
    });
    // Two values differ by twice the largest one at most.
    let distance = |most: u128, sharing: &Sharing| {
        power(((2 * most) as f64).log2().ceil() - f64::from(crate::keys::mask_bits(sharing)))
    };
    line("bits of a mask, distance of z", &|sharing| {
        let of = Decide::new(&config(7, 4), sharing, 1, 0, 0).unwrap();
        format!("{}, {}", crate::keys::mask_bits(sharing), distance(of.most_uncertainty, sharing))
    });
    line("distance of an update of 16 feedbacks, L²/λ = 1", &|sharing| {
        let of = Learn::new(&config(7, 4), sharing, (0, 0), (16, 0)).unwrap();
        let most = of.most_steps.iter().map(|(product, inverse)| (*product).max(*inverse)).max().unwrap();
        distance(most, sharing)
    });
}
