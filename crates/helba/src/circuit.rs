//! What follows the raise, on any slot algebra: bonus, comparison and argmax of all users of an
//! evaluation at once.
//!
//! | width | a raise places ([`protocol::ScoreLayout`]) | the circuit computes |
//! |---|---|---|
//! | a root | zₐ and uₐ of user b, over c₂, in slot (a·B + b)·Ka + Ka − 1 | β·√(z + c₁) by a Chebyshev polynomial, the index, the differences by rotations, comparison, products over rows |
//! | its tangent | the differences of the indices over their range, in slot (a·B + b)·Ka + m for m < Ka − 1 | public constants, comparison, products over rows |
//!
//! All other slots are 0, and so are those of users who are not there.
//!
//! Under the trace condition the place of user 0 decides between two scores: arm 0 has the trace of the
//! batch, affinely mapped, and arm 1 the threshold C. The entry of arm 0 is near 1 if the trace has reached
//! C, and near 0 otherwise. With a root slot Ka − 1 holds i·trace/c₂, and with a tangent a raise places the
//! trace as the index of arm 0. The levels are those of a decision.
//!
//! Source: Algorithm 4, steps 2 and 3, and eq. 8. Departures: one evaluation decides for many users; all
//! pairs of arms are compared at once, where the paper chains amax and acomp (Algorithms 8 and 9), whose
//! depth grows with K; and the square root is a polynomial (`testkit` has eq. 5).

use crate::{Error, Scalars};
use bandit::Bonus;
use circuits::argmax::{Argmax, tie_bonus};
use circuits::{Chebyshev, Comparison, Complex64, SlotAlgebra};
use ckks::RAISE_FACTORS;
use protocol::{BanditConfig, Shape};

/// The score of a trace of 0. Scores are in [−½, ½ − [`tie_bonus`]], and the rest is left for noise.
const NO_TRACE: f64 = -0.45;
/// The score of a trace at its bound ([`BanditConfig::trace_bound`]), less that of a trace of 0.
const TRACE_SPAN: f64 = 0.9;

/// The circuit of an encrypted decision and its public numbers.
#[derive(Debug, Clone)]
pub struct DecisionCircuit {
    /// What a raise multiplies z, u and the trace by.
    factors: [f64; RAISE_FACTORS],
    raised: Raised,
    /// Whether user 0 decides whether the trace has reached C.
    tests_trace: bool,
    /// K.
    arms: usize,
    users: usize,
    argmax: Argmax,
}

/// How the slots of a raise become the differences of indices.
#[derive(Debug, Clone)]
enum Raised {
    Scores(RootIndex),
    /// By adding these constants: what the indices are shifted by, and the tie bonus.
    Differences(Vec<Complex64>),
}

/// The index with a root.
#[derive(Debug, Clone)]
struct RootIndex {
    /// What the imaginary part of each slot, times 2, is multiplied by.
    weight: f64,
    /// The same under the trace condition, where it differs from slot to slot.
    weights: Option<Vec<Complex64>>,
    /// The bonus over the range, as a polynomial in 2(z + c₁)/c₂ − 1.
    bonus: Chebyshev,
    /// The levels of a polynomial of the degree of the configuration.
    levels: usize,
    /// 2·c₁/c₂ − 1, the argument of the polynomial at z = 0.
    at_zero: f64,
    /// What is added to each slot of the indices.
    offsets: Vec<Complex64>,
}

impl DecisionCircuit {
    /// The circuit for keys of `shape` and vectors of `slots` slots in a round with these scalars.
    ///
    /// # Errors
    /// [`Error::Protocol`] for comparison bits other than 6, 8 or 10; [`Error::Circuit`] if the slots do not
    /// hold one user.
    pub fn new(config: &BanditConfig, scalars: Scalars, shape: Shape, slots: usize) -> Result<Self, Error> {
        let Scalars { bonus, c2, range, least_index, .. } = scalars;
        let comparison = Comparison::composite(config.resolution(), config.comparison_degrees()?)?;
        let (count, users) = (shape.arm_slots, slots / shape.user_slots());
        let argmax = Argmax::of_users(count, users, count, comparison)?;
        let (arms, tests_trace, tie) =
            (config.linear.k, config.tests_trace(), tie_bonus(config.resolution()));
        let per_trace = match tests_trace {
            true => TRACE_SPAN / config.trace_bound(config.unanswered),
            false => 0.0,
        };
        // The index of an arm is its score over the range plus this.
        let offset = |arm: usize, user: usize| match (tests_trace && user == 0, arm) {
            (true, 0) => NO_TRACE,
            // The bonus is that of the comparison, which a tie must not win here.
            (true, 1) => NO_TRACE + per_trace * config.linear.c + tie,
            // All other arms of the trace are padding.
            (false, arm) if arm < arms => -(least_index / range + 0.5),
            _ => -0.5,
        };
        let (factors, raised) = match bonus {
            Bonus::Linear { slope } => {
                let mut constants = vec![Complex64::ONE; slots];
                for (at, row) in constants.chunks_exact_mut(count).enumerate() {
                    let (arm, user) = (at / users, at % users);
                    for (pair, slot) in row[..count - 1].iter_mut().enumerate() {
                        let other = (arm + count - 1 - pair) % count;
                        *slot = (offset(arm, user) - offset(other, user) + tie).into();
                    }
                }
                ([slope / range, 1.0 / range, per_trace], Raised::Differences(constants))
            }
            Bonus::Root { beta, c1 } => {
                let root = |x: f64| beta / range * (c2 * (x + 1.0) / 2.0).max(0.0).sqrt();
                let bonus = Chebyshev::interpolate(root, config.sqrt_degree, -1.0, 1.0)?;
                let at_zero = 2.0 * c1 / c2 - 1.0;
                // Slots without a score hold the bonus of 0.
                let rest = bonus.eval(at_zero);
                let mut offsets = vec![Complex64::new(-rest, 0.0); slots];
                let weight = c2 / (2.0 * range);
                let mut weights = tests_trace.then(|| vec![Complex64::new(weight, 0.0); slots]);
                for (at, row) in offsets.chunks_exact_mut(count).enumerate() {
                    let (arm, user) = (at / users, at % users);
                    let shown = if arm < arms && !(tests_trace && user == 0) { 0.0 } else { rest };
                    row[count - 1].re = offset(arm, user) - shown;
                }
                weights.iter_mut().for_each(|weights| weights[count - 1].re = c2 / 2.0 * per_trace);
                let levels = (config.sqrt_degree + 1).ilog2() as usize;
                let index = RootIndex { weight, weights, bonus, levels, at_zero, offsets };
                ([1.0 / c2; RAISE_FACTORS], Raised::Scores(index))
            }
        };
        Ok(DecisionCircuit { factors, raised, tests_trace, arms, users, argmax })
    }

    /// The factors of a raise of scores that are z/r, u/r and trace/r in the ring of scores, for r =
    /// 2^`log_range`.
    pub fn factors(&self, log_range: i32) -> [f64; RAISE_FACTORS] {
        self.factors.map(|factor| factor * f64::from(log_range).exp2())
    }

    /// What a raise places, in the clear: the slots for z and u of an arm of a user, or `None` of users who
    /// are not there. Under the trace condition u of arm 0 of user 0 is the trace.
    pub fn raised(&self, score: impl Fn(usize, usize) -> Option<[f64; 2]>) -> Vec<Complex64> {
        let (count, users, [of_z, of_u, of_trace]) = (self.argmax.count(), self.users, self.factors);
        let mut out = vec![Complex64::ZERO; self.argmax.slots()];
        for user in 0..users {
            let is_trace = self.tests_trace && user == 0;
            let arms = if is_trace { 1 } else { self.arms };
            let scores: Vec<[f64; 2]> = (0..count)
                .map(|arm| (arm < arms).then(|| score(arm, user)).flatten().unwrap_or_default())
                .collect();
            let index = |arm: usize| {
                let [z, u] = scores[arm];
                if is_trace { of_trace * u } else { of_z * z + of_u * u }
            };
            for arm in 0..count {
                let row = &mut out[(arm * users + user) * count..][..count];
                match &self.raised {
                    Raised::Scores(_) => {
                        let [z, u] = scores[arm];
                        row[count - 1] = Complex64::new(of_z * z, of_u * u);
                    }
                    Raised::Differences(_) => (0..count - 1).for_each(|pair| {
                        row[pair] = (index(arm) - index((arm + count - 1 - pair) % count)).into();
                    }),
                }
            }
        }
        out
    }

    /// The circuit of the comparison and of the product over each row of pairs.
    pub fn argmax(&self) -> &Argmax {
        &self.argmax
    }

    /// The products over the pairs of each arm: near 1 in the first slot of the block of the arm that a user
    /// should play. Other slots hold intermediate results, which a [`ckks::Fold`] leaves out. Takes the
    /// levels of root, comparison and row product.
    ///
    /// # Errors
    /// Those of the algebra.
    pub fn products<A: SlotAlgebra>(&self, alg: &A, raised: &A::Vector) -> Result<A::Vector, A::Error> {
        self.argmax.winners(alg, &self.differences(alg, raised)?)
    }

    /// The arguments of the comparison ([`Argmax::pairwise_differences`]): the differences of the optimistic
    /// indices over their range, plus the tie bonus; those with the arms of padding, whose index is the
    /// least; and 1 in the last slot of each row. Takes the levels of the root, and none with a tangent.
    ///
    /// # Errors
    /// Those of the algebra.
    pub fn differences<A: SlotAlgebra>(&self, alg: &A, raised: &A::Vector) -> Result<A::Vector, A::Error> {
        match &self.raised {
            Raised::Scores(root) => self.argmax.pairwise_differences(alg, &root.index(alg, raised)?),
            Raised::Differences(constants) => alg.add_plain(raised, constants),
        }
    }

    /// The trace comparison in the constant coefficient of the message: near 1 if the trace has reached C,
    /// and near 0 otherwise. Takes a level.
    ///
    /// # Errors
    /// Those of the algebra.
    pub fn trace<A: SlotAlgebra>(alg: &A, products: &A::Vector) -> Result<A::Vector, A::Error> {
        let mut mask = vec![Complex64::ZERO; alg.slots()];
        // Times the number of slots, so that the entry is the constant coefficient.
        mask[0].re = alg.slots() as f64;
        alg.mul_plain(products, &mask)
    }
}

impl RootIndex {
    /// The optimistic indices, u and the bonus of z, divided by their range and shifted into ± ½, in the last
    /// slot of the block of each arm; −½ in those of padding. All other slots are 0. Takes the levels of the
    /// root.
    fn index<A: SlotAlgebra>(&self, alg: &A, raised: &A::Vector) -> Result<A::Vector, A::Error> {
        let conjugate = alg.conjugate(raised)?;
        // 2z/c₂ and 2u/c₂: of v = a + ib, v + v̄ is 2a, and i·(v̄ − v) is 2b.
        let z = alg.add(raised, &conjugate)?;
        let u = alg.mul_i(&alg.sub(&conjugate, raised)?)?;
        let z = alg.add_const(&z, self.at_zero.into())?;
        let to = alg.level(&z) - self.levels;
        let index = match &self.weights {
            None => {
                // u is added one level above the result of the polynomial, which is of degree 0 for a width
                // of 0.
                let u = alg.drop_to(&u, alg.level(&z) - self.bonus.depth().max(1) + 1)?;
                self.bonus.evaluate_plus(alg, &z, &[(self.weight, &u)])?
            }
            Some(weights) => {
                let u = alg.mul_plain(&alg.drop_to(&u, to + 1)?, weights)?;
                alg.add(&alg.drop_to(&self.bonus.evaluate(alg, &z)?, to)?, &u)?
            }
        };
        let index = alg.drop_to(&index, to)?;
        alg.add_plain(&index, &self.offsets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bandit::Width;
    use circuits::{Clear, ClearVector};
    use protocol::levels::{ANSWER_LEVEL, DecisionLevels, PRODUCTS_LEVEL};
    use testkit::ClearTwin;

    const ROOT: Width = Width::Constant { alpha: 0.5 };
    const NONE: Width = Width::Constant { alpha: 0.0 };
    const TANGENT: Width = Width::Tangent { alpha: 0.5, floor: 1.0 / 64.0 };

    /// On exact vectors every user of a full evaluation plays an arm whose index is within the resolution of
    /// the largest of its own, with and without padding, under a root, its tangent, and without a width. The
    /// circuit uses the levels that the protocol states.
    #[test]
    fn every_user_gets_its_own_arm() {
        for (d, k, slots, width) in [
            (2, 2, 64, ROOT),
            (2, 2, 64, TANGENT),
            (3, 3, 128, ROOT),
            (7, 4, 256, NONE),
            (7, 4, 256, TANGENT),
            (5, 16, 1024, ROOT),
            (5, 16, 1024, TANGENT),
        ] {
            let mut config = BanditConfig { sqrt_degree: 31, ..BanditConfig::new(d, k) };
            config.linear.width = width;
            let shape = Shape::for_problem(d, k);
            let count = shape.arm_slots;
            let users = slots / (count * count);
            let levels = DecisionLevels::new(&config, shape).unwrap().sum();
            let mut twin = ClearTwin::new(config.clone());
            let unit = |seed: usize| {
                let x: Vec<f64> = (0..d).map(|i| ((7 * seed + 3 * i + 1) as f64).sin()).collect();
                let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
                x.iter().map(|v| v / norm).collect::<Vec<f64>>()
            };
            (0..30).for_each(|t| twin.learn(&unit(t), (t as f64).cos()));
            let scalars = Scalars::new(&config, 31, 30);
            let circuit = DecisionCircuit::new(&config, scalars, shape, slots).unwrap();
            // The model takes the feedbacks in when indices are asked for.
            twin.indices(&[unit(0)], 31, 30);
            let (a, omega) = twin.model();
            let (a, omega) = (a.clone(), omega.clone());
            let rows = |user: usize| (0..k).map(|a| unit(1000 + 31 * user + a)).collect::<Vec<_>>();
            // The last user is not there.
            let score = |arm: usize, user: usize| {
                (user < users - 1).then(|| {
                    let x = rows(user).swap_remove(arm);
                    let z = (0..d).map(|i| (0..d).map(|j| x[i] * a[(i, j)] * x[j]).sum::<f64>()).sum();
                    [z, x.iter().zip(omega.iter()).map(|(x, w)| x * w).sum()]
                })
            };
            let raised = circuit.raised(score);
            let alg = Clear::new(slots).unwrap();
            let products = circuit.products(&alg, &alg.fresh(&raised, levels).unwrap()).unwrap();
            assert_eq!(alg.level(&products), PRODUCTS_LEVEL);
            let products = products.real();
            for user in 0..users - 1 {
                let indices = twin.indices(&rows(user), 31, 30);
                let values: Vec<f64> = (0..k).map(|arm| products[(arm * users + user) * count]).collect();
                let largest = |v: &[f64]| (0..k).fold(0, |b, a| if v[a] > v[b] { a } else { b });
                let gap = indices[largest(&indices)] - indices[largest(&values)];
                assert!(gap < config.resolution() * scalars.range, "{d} {k}, user {user}: {gap}");
                assert!(values.iter().all(|v| (-0.1..1.2).contains(v)), "{d} {k}, user {user}: {values:?}");
            }
        }
    }

    /// On exact vectors, with and without padding: every difference equals that of the formulas, up to the
    /// error of the root's polynomial, and under a tangent or without a width to rounding. All other slots
    /// are 1. A tangent takes no level, no rotation and no conjugation.
    #[test]
    fn differences_are_what_the_formulas_say() {
        for (d, k, slots, width) in [
            (2, 2, 64, ROOT),
            (2, 2, 64, NONE),
            (3, 5, 256, ROOT),
            (3, 5, 256, TANGENT),
            (11, 32, 2048, NONE),
            (16, 64, 8192, ROOT),
            (16, 64, 8192, TANGENT),
        ] {
            let mut config = BanditConfig { sqrt_degree: 31, ..BanditConfig::new(d, k) };
            config.linear.width = width;
            let shape = Shape::for_problem(d, k);
            let (count, users) = (shape.arm_slots, slots / shape.user_slots());
            // So many feedbacks that the tangent is steep.
            let s = Scalars::new(&config, 50_000, 50_000);
            let circuit = DecisionCircuit::new(&config, s, shape, slots).unwrap();
            let score = |arm: usize, user: usize| {
                let at = arm * users + user;
                [((3 * at) as f64).sin().abs(), ((5 * at) as f64).sin()]
            };
            let index = |arm: usize, user: usize| match arm < k {
                true => {
                    let [z, u] = score(arm, user);
                    (u + s.bonus.of(z) - s.least_index) / s.range - 0.5
                }
                false => -0.5,
            };
            let raised = circuit.raised(|arm, user| Some(score(arm, user)));
            let alg = Clear::new(slots).unwrap();
            let differences = circuit.differences(&alg, &alg.fresh(&raised, 20).unwrap()).unwrap();
            let linear = width == TANGENT;
            assert_eq!(alg.level(&differences), if linear { 20 } else { 20 - 5 });
            let counts = alg.counts();
            assert_eq!(counts.rotations + counts.conjugations == 0, linear);
            for (at, got) in differences.values().iter().enumerate() {
                let (row, pair) = (at / count, at % count);
                let (arm, user, other) = (row / users, row % users, (row / users + count - 1 - pair) % count);
                let want = match pair + 1 < count {
                    true => index(arm, user) - index(other, user) + tie_bonus(config.resolution()),
                    false => 1.0,
                };
                let tolerance = if width == ROOT { 2e-2 } else { 1e-9 };
                let right = (got.re - want).abs() < tolerance && got.im.abs() < 1e-9;
                assert!(right, "{d}, {k}: slot {at} holds {got}, not {want}");
                assert!(got.re.abs() <= 1.0 + 1e-9, "{d}, {k}: slot {at} holds {got}");
            }
        }
    }

    /// A user of a shared key that raises its own scores and is alone in its evaluation adds numbers of its
    /// choice to the differences that it places. In each row it leaves one argument of the comparison near 0,
    /// and makes the others positive: each of its K entries shows one difference of indices. The control is
    /// an honest raise, whose entries are near 0 and 1. Prints the errors in units of the resolution.
    #[test]
    fn attack_a_raiser_reads_as_many_differences_of_its_own_as_arms() {
        let (d, k, slots) = (7, 4, 256);
        let config = BanditConfig::new(d, k);
        let shape = Shape::for_problem(d, k);
        let scalars = Scalars::new(&config, 31, 30);
        let circuit = DecisionCircuit::new(&config, scalars, shape, slots).unwrap();
        let users = slots / shape.user_slots();
        let scores = [[0.31, 0.22], [0.12, -0.41], [0.44, -0.13], [0.05, 0.48]];
        let index = |arm: usize| {
            let [z, u]: [f64; 2] = scores[arm];
            (u + scalars.bonus.of(z)) / scalars.range
        };
        let honest = circuit.raised(|arm, user| (user == 0).then_some(scores[arm]));
        let (alg, levels) = (Clear::new(slots).unwrap(), DecisionLevels::new(&config, shape).unwrap());
        let entries = |raised: &[Complex64]| {
            let raised = alg.fresh(raised, levels.sum()).unwrap();
            let products = circuit.products(&alg, &raised).unwrap().real();
            (0..k).map(|arm| products[arm * users * k]).collect::<Vec<f64>>()
        };
        let near = |entry: &f64| entry.abs() < 0.05 || (entry - 1.0).abs() < 0.05;
        assert!(entries(&honest).iter().all(near), "{:?}", entries(&honest));
        let resolution = config.resolution();
        let (mut lie, mut guesses) = (honest, vec![]);
        for arm in 0..k {
            for pair in 0..k - 1 {
                let slot = &mut lie[arm * users * k + pair].re;
                if pair > 0 {
                    *slot += 0.5;
                    continue;
                }
                let wanted = index(arm) - index((arm + k - 1) % k);
                // A guess, within a quarter of the resolution.
                let guess = (2.0 * wanted / resolution).round() * resolution / 2.0;
                *slot -= guess + tie_bonus(resolution);
                guesses.push((guess, wanted));
            }
        }
        let sign = circuit.argmax().comparison();
        for (entry, (guess, wanted)) in entries(&lie).into_iter().zip(guesses) {
            // The indicator grows with the difference below the resolution.
            let (mut low, mut high) = (-resolution, resolution);
            for _ in 0..40 {
                let middle = (low + high) / 2.0;
                if 0.5 + 0.5 * sign.eval(middle) < entry { low = middle } else { high = middle }
            }
            let error = (guess + low - wanted).abs() / resolution;
            println!("a difference of {wanted:.4} of the range is read up to {error:.4} resolutions");
            assert!(error < 0.02, "{error}");
        }
    }

    /// For the largest number of arms of each comparison, the entry of the trace stays on the right side of
    /// [`protocol::exchange::TRACE_DECISION`] with noise of 1/16 from the server and 1/16 from the device.
    #[test]
    fn errors_of_the_most_arms_leave_the_trace_where_it_is() {
        use protocol::exchange::{TRACE_DECISION, TRACE_FLOOD_BITS, indicator_error, largest_entry};
        for (arms, near) in [(32, 1.988), (33, 1.711), (protocol::MOST_ARMS, 1.711)] {
            let shape = Shape::for_problem(16, arms);
            for comparison_bits in [6, 8, 10] {
                let mut config = BanditConfig { comparison_bits, ..BanditConfig::new(2, arms) };
                config.linear.schedule = bandit::Schedule::TraceOrGrowth;
                let scalars = Scalars::new(&config, 1, 0);
                let circuit = DecisionCircuit::new(&config, scalars, shape, shape.slots()).unwrap();
                let sign = circuit.argmax().comparison();
                let resolution = config.resolution();
                let error = testkit::worst_error(|x| sign.eval(x), |_| 1.0, [resolution, 1.0], 100_000) / 2.0;
                assert!(error < indicator_error(shape.arm_slots));
            }
            let (row, error) = (shape.arm_slots as i32, indicator_error(shape.arm_slots));
            let noise = 2.0 * (-f64::from(TRACE_FLOOD_BITS)).exp2();
            assert!((1.0 - error).powi(row) - noise > TRACE_DECISION);
            assert!(error * (1.0 + error).powi(row - 1) + noise < TRACE_DECISION);
            let largest = largest_entry(shape);
            assert!((largest - near).abs() < 1e-3, "{largest}");
        }
    }

    /// Under the trace condition the question is answered by the exact trace, for traces from 0 to their
    /// bound that are not within the resolution of C, with and without padding, without a width, and for the
    /// two compositions of the comparison. Users get what they get from the circuit of a public schedule, and
    /// the levels are the same.
    #[test]
    fn the_trace_is_compared_beside_the_users() {
        for (d, k, slots, width, unanswered) in [
            (2, 2, 64, ROOT, 4),
            (2, 2, 64, TANGENT, 4),
            (3, 3, 128, NONE, 1),
            (7, 4, 256, TANGENT, 20),
            (5, 16, 1024, ROOT, 4),
            (6, 64, 1 << 14, ROOT, 4),
        ] {
            let mut config = BanditConfig { unanswered, ..BanditConfig::new(d, k) };
            config.linear.width = width;
            let public = config.clone();
            config.linear.schedule = bandit::Schedule::TraceOrGrowth;
            let shape = Shape::for_problem(d, k);
            let count = shape.arm_slots;
            let users = slots / (count * count);
            let scalars = Scalars::new(&config, 31, 30);
            let new = |config| DecisionCircuit::new(config, scalars, shape, slots).unwrap();
            let (circuit, public) = (new(&config), new(&public));
            let score = |trace: f64| {
                move |arm: usize, user: usize| match (user, arm) {
                    (0, 0) => Some([0.0, trace]),
                    (0, _) => None,
                    _ => {
                        let value = |n: usize| ((n * (arm * users + user) + 1) as f64).sin();
                        Some([value(3).abs(), value(5)])
                    }
                }
            };
            let levels = DecisionLevels::new(&config, shape).unwrap().sum();
            let alg = Clear::new(slots).unwrap();
            let products = |circuit: &DecisionCircuit, trace: f64| {
                let raised = circuit.raised(score(trace));
                circuit.products(&alg, &alg.fresh(&raised, levels).unwrap()).unwrap()
            };
            let without = products(&public, 0.0);
            let (bound, c) = (config.trace_bound(unanswered), config.linear.c);
            let resolution = bound / TRACE_SPAN * config.resolution();
            assert!(resolution < c / 2.0);
            let near = [c - resolution, c + resolution];
            for trace in (0..=20).map(|i| f64::from(i) / 20.0 * bound).chain(near) {
                if (trace - c).abs() < resolution * (1.0 - 1e-9) {
                    continue;
                }
                let with = products(&circuit, trace);
                assert_eq!((alg.level(&with), alg.level(&without)), (PRODUCTS_LEVEL, PRODUCTS_LEVEL));
                let entries = |products: &ClearVector| -> Vec<f64> {
                    let slots = products.real().into_iter().step_by(count).enumerate();
                    slots.filter(|(at, _)| at % users > 0).map(|(_, entry)| entry).collect()
                };
                let pairs = entries(&with).into_iter().zip(entries(&without));
                assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9), "{d} {k}");
                let question = DecisionCircuit::trace(&alg, &with).unwrap();
                assert_eq!(alg.level(&question), ANSWER_LEVEL);
                let (first, rest) = question.values().split_first().unwrap();
                let entry = first.re / slots as f64;
                let want = if trace > c { 1.0 } else { 0.0 };
                assert!((entry - want).abs() < 0.36, "{d} {k}: {entry} for a trace of {trace}");
                assert!(rest.iter().all(|z| *z == Complex64::ZERO));
                // On the right side, with the noise of server and device.
                let noise = 2.0 * (-f64::from(protocol::exchange::TRACE_FLOOD_BITS)).exp2();
                let decision = protocol::exchange::TRACE_DECISION;
                assert_eq!(entry - noise > decision, trace > c, "{entry} for a trace of {trace}");
                assert_eq!(entry + noise > decision, trace > c, "{entry} for a trace of {trace}");
            }
        }
    }
}
