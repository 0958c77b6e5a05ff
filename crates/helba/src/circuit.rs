//! What follows the raise, on any slot algebra: bonus, comparison and argmax of all users of an
//! evaluation at once.
//!
//! A raised slot (a·B + b)·Ka + Ka − 1 holds (zₐ + i·uₐ)/c₂ of user b ([`protocol::ScoreLayout`]); all other
//! slots are 0, and so are those of users who are not there. The bonus of the index, β·√(z + c₁) or its
//! tangent, is a Chebyshev polynomial, and u is added to it one level above its result.
//!
//! Under the trace condition slot Ka − 1 holds i·trace/c₂, and the place of user 0 decides between two
//! scores: arm 0 has the trace of the batch, affinely mapped, and arm 1 the threshold C. The entry of arm 0
//! is near 1 if the trace has reached C, and near 0 otherwise. The levels are those of a decision.
//!
//! Source: Algorithm 4, steps 2 and 3, and eq. 8. Departures: one evaluation decides for many users; all
//! pairs of arms are compared at once, where the paper chains amax and acomp (Algorithms 8 and 9), whose
//! depth grows with K; and the square root is a polynomial (`testkit` has eq. 5).

use crate::{Error, Scalars};
use bandit::Bonus;
use circuits::argmax::{Argmax, tie_bonus};
use circuits::{Chebyshev, Comparison, Complex64, SlotAlgebra};
use protocol::{BanditConfig, Shape};

/// The score of a trace of 0. Scores are in [−½, ½ − [`tie_bonus`]], and the rest is left for noise.
const NO_TRACE: f64 = -0.45;
/// The score of a trace at its bound ([`BanditConfig::trace_bound`]), less that of a trace of 0.
const TRACE_SPAN: f64 = 0.9;

/// The circuit of an encrypted decision and its public numbers.
#[derive(Debug, Clone)]
pub struct DecisionCircuit {
    scalars: Scalars,
    /// What the imaginary part of each slot, times 2, is multiplied by, under the trace condition.
    weights: Option<Vec<Complex64>>,
    /// The bonus over the range, as a polynomial in 2(z + c₁)/c₂ − 1.
    bonus: Chebyshev,
    /// The levels of a polynomial of the degree of the configuration, which a tangent takes too.
    bonus_levels: usize,
    /// 2·c₁/c₂ − 1, the argument of the polynomial at z = 0.
    at_zero: f64,
    /// What is added to each slot of the indices.
    offsets: Vec<Complex64>,
    argmax: Argmax,
}

impl DecisionCircuit {
    /// The circuit for keys of `shape` and vectors of `slots` slots in a round with these scalars.
    ///
    /// # Errors
    /// [`Error::Protocol`] for comparison bits other than 6, 8 or 10; [`Error::Circuit`] if the slots do not
    /// hold one user.
    pub fn new(config: &BanditConfig, scalars: Scalars, shape: Shape, slots: usize) -> Result<Self, Error> {
        let Scalars { bonus, c1, c2, range, least_index } = scalars;
        let at_zero = 2.0 * c1 / c2 - 1.0;
        let of_argument = |x: f64| match bonus {
            Bonus::Root { beta, .. } => beta / range * (c2 * (x + 1.0) / 2.0).max(0.0).sqrt(),
            Bonus::Linear { slope } => slope / range * c2 * (x + 1.0) / 2.0,
        };
        let degree = match bonus {
            Bonus::Root { .. } => config.sqrt_degree,
            Bonus::Linear { .. } => 1,
        };
        let bonus = Chebyshev::interpolate(of_argument, degree, -1.0, 1.0)?;
        let comparison = Comparison::composite(config.resolution(), config.comparison_degrees()?)?;
        let (count, users) = (shape.arm_slots, slots / shape.user_slots());
        let argmax = Argmax::of_users(count, users, count, comparison)?;
        let middle = least_index / range + 0.5;
        // Slots without a score hold the bonus of 0.
        let rest = bonus.eval(at_zero);
        let mut offsets = vec![Complex64::new(-rest, 0.0); slots];
        for (arm, of_arm) in offsets.chunks_exact_mut(users * count).enumerate() {
            let offset = if arm < config.linear.k { -middle } else { -0.5 - rest };
            of_arm.iter_mut().skip(count - 1).step_by(count).for_each(|slot| slot.re = offset);
        }
        let weights = config.tests_trace().then(|| {
            let per_trace = TRACE_SPAN / config.trace_bound(config.unanswered);
            // Its other arms are padding. The bonus is that of the comparison, which a tie must not win here.
            let slot = |arm: usize| arm * users * count + count - 1;
            (0..count).for_each(|arm| offsets[slot(arm)].re = -0.5 - rest);
            offsets[slot(0)].re = NO_TRACE - rest;
            offsets[slot(1)].re =
                NO_TRACE + per_trace * config.linear.c + tie_bonus(config.resolution()) - rest;
            let mut weights = vec![Complex64::new(c2 / (2.0 * range), 0.0); slots];
            weights[slot(0)].re = c2 / 2.0 * per_trace;
            weights
        });
        let bonus_levels = (config.sqrt_degree + 1).ilog2() as usize;
        Ok(DecisionCircuit { scalars, weights, bonus, bonus_levels, at_zero, offsets, argmax })
    }

    /// r/c₂, the factor of a raise of scores that are z/r and u/r in the ring of scores, for r =
    /// 2^`log_range`. Raised scores are z/c₂ and u/c₂.
    pub fn factor(&self, log_range: i32) -> f64 {
        f64::from(log_range).exp2() / self.scalars.c2
    }

    /// The circuit of the comparison and of the product over each row of pairs.
    pub fn argmax(&self) -> &Argmax {
        &self.argmax
    }

    /// The products over the pairs of each arm: near 1 in the first slot of the block of the arm that a user
    /// should play. Other slots hold intermediate results, which a [`ckks::Fold`] leaves out. Takes the
    /// levels of bonus, comparison and row product.
    ///
    /// # Errors
    /// Those of the algebra.
    pub fn products<A: SlotAlgebra>(&self, alg: &A, raised: &A::Vector) -> Result<A::Vector, A::Error> {
        self.argmax.products(alg, &self.index(alg, raised)?)
    }

    /// The optimistic indices, u and the bonus of z, divided by their range and shifted into ± ½, in the last
    /// slot of the block of each arm; −½ in those of padding. All other slots are 0. Takes the levels of the
    /// bonus.
    ///
    /// # Errors
    /// Those of the algebra.
    pub fn index<A: SlotAlgebra>(&self, alg: &A, raised: &A::Vector) -> Result<A::Vector, A::Error> {
        let conjugate = alg.conjugate(raised)?;
        // 2z/c₂ and 2u/c₂: of v = a + ib, v + v̄ is 2a, and i·(v̄ − v) is 2b.
        let z = alg.add(raised, &conjugate)?;
        let u = alg.mul_i(&alg.sub(&conjugate, raised)?)?;
        let z = alg.add_const(&z, self.at_zero.into())?;
        let level = alg.level(&z) - self.bonus.depth().max(1);
        let index = match &self.weights {
            None => {
                let weight = self.scalars.c2 / (2.0 * self.scalars.range);
                let u = alg.drop_to(&u, level + 1)?;
                self.bonus.evaluate_plus(alg, &z, &[(weight, &u)])?
            }
            Some(weights) => {
                let u = alg.mul_plain(&alg.drop_to(&u, alg.level(&z) - self.bonus_levels + 1)?, weights)?;
                alg.add(&alg.drop_to(&self.bonus.evaluate(alg, &z)?, alg.level(&u))?, &u)?
            }
        };
        // A tangent takes one level.
        let index = alg.drop_to(&index, alg.level(&z) - self.bonus_levels)?;
        alg.add_plain(&index, &self.offsets)
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

#[cfg(test)]
mod tests {
    use super::*;
    use bandit::Width;
    use circuits::{Clear, ClearVector};
    use protocol::levels::DecisionLevels;
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
            let levels = DecisionLevels::new(&config, shape).unwrap().of_users(2);
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
            let mut raised = vec![Complex64::ZERO; slots];
            // The last user is not there.
            for user in 0..users - 1 {
                for (arm, x) in rows(user).iter().enumerate() {
                    let z: f64 = (0..d).map(|i| (0..d).map(|j| x[i] * a[(i, j)] * x[j]).sum::<f64>()).sum();
                    let u: f64 = x.iter().zip(omega.iter()).map(|(x, w)| x * w).sum();
                    raised[(arm * users + user) * count + count - 1] =
                        Complex64::new(z, u) * circuit.factor(0);
                }
            }
            let alg = Clear::new(slots).unwrap();
            let products = circuit.products(&alg, &alg.fresh(&raised, levels).unwrap()).unwrap();
            assert_eq!(alg.level(&products), 2);
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

    /// On exact vectors, with and without padding: every index equals the formula up to the error of the
    /// root's polynomial, and under a tangent or without a width to rounding; all other slots are 0.
    #[test]
    fn indices_are_what_the_formulas_say() {
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
            let mut raised = vec![Complex64::ZERO; slots];
            let mut want = vec![0.0; slots];
            for at in 0..users * count {
                let (arm, z, u) = (at / users, ((3 * at) as f64).sin().abs(), ((5 * at) as f64).sin());
                let slot = at * count + count - 1;
                want[slot] = -0.5;
                if arm < k {
                    raised[slot] = Complex64::new(z, u) * circuit.factor(0);
                    let width = s.bonus.of(z);
                    want[slot] = (u + width - s.least_index) / s.range - 0.5;
                }
            }
            let alg = Clear::new(slots).unwrap();
            let index = circuit.index(&alg, &alg.fresh(&raised, 20).unwrap()).unwrap();
            assert_eq!(alg.level(&index), 20 - 5);
            for (at, (got, want)) in index.values().iter().zip(&want).enumerate() {
                let rough = at % count == count - 1 && width == ROOT;
                let tolerance = if rough { 1e-2 } else { 1e-9 };
                let right = (got.re - want).abs() < tolerance && got.im.abs() < 1e-9;
                assert!(right, "{d}, {k}: slot {at} holds {got}, not {want}");
            }
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
            let mut raised = vec![Complex64::ZERO; slots];
            for (at, slot) in raised.iter_mut().enumerate().skip(count - 1).step_by(count) {
                let (user, arm) = (at / count % users, at / count / users);
                if user > 0 && arm < k {
                    let value = |n: usize| ((n * at + 1) as f64).sin();
                    *slot = Complex64::new(value(3).abs(), value(5)) * circuit.factor(0);
                }
            }
            let levels = DecisionLevels::new(&config, shape).unwrap().of_users(2);
            let alg = Clear::new(slots).unwrap();
            let products = |circuit: &DecisionCircuit, raised: &[Complex64]| {
                circuit.products(&alg, &alg.fresh(raised, levels).unwrap()).unwrap()
            };
            let without = products(&public, &raised);
            let (bound, c) = (config.trace_bound(unanswered), config.linear.c);
            let resolution = bound / TRACE_SPAN * config.resolution();
            assert!(resolution < c / 2.0);
            let near = [c - resolution, c + resolution];
            for trace in (0..=20).map(|i| f64::from(i) / 20.0 * bound).chain(near) {
                if (trace - c).abs() < resolution * (1.0 - 1e-9) {
                    continue;
                }
                raised[count - 1] = Complex64::new(0.0, trace / scalars.c2);
                let with = products(&circuit, &raised);
                assert_eq!((alg.level(&with), alg.level(&without)), (2, 2));
                let entries = |products: &ClearVector| -> Vec<f64> {
                    let slots = products.real().into_iter().step_by(count).enumerate();
                    slots.filter(|(at, _)| at % users > 0).map(|(_, entry)| entry).collect()
                };
                let pairs = entries(&with).into_iter().zip(entries(&without));
                assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9), "{d} {k}");
                let question = DecisionCircuit::trace(&alg, &with).unwrap();
                assert_eq!(alg.level(&question), 1);
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
