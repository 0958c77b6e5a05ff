//! Steps 2 and 3, score and comparison, on any slot algebra.
//!
//! The engine runs this circuit on ciphertexts, the planner on an operation counter, and tests on exact
//! vectors. Contexts are at the level that [`protocol::levels::DecisionLevels`] adds up to, and the answer is
//! at level 0.

use crate::score::ScoreInputs;
use crate::{Error, Scalars, compare, score};
use circuits::SlotAlgebra;
use circuits::argmax::Argmax;
use protocol::{BanditConfig, Shape};

/// The circuit of a decision and its public numbers.
#[derive(Debug, Clone)]
pub struct DecisionCircuit {
    score: ScoreInputs,
    argmax: Argmax,
}

/// The results of a decision before they are masked for the user.
#[derive(Debug, Clone)]
pub struct Decided<V> {
    /// Slot (a, 0) is near 1 if arm a is worth playing, and near 0 otherwise. Every other slot is 0.
    pub action: V,
    /// The trace comparison in the constant coefficient of the message, if trace statistics were given.
    pub trace: Option<V>,
}

impl DecisionCircuit {
    /// The circuit for keys of `shape` in a round with these scalars.
    ///
    /// # Errors
    /// As [`compare::argmax`].
    pub fn new(config: &BanditConfig, scalars: Scalars, shape: Shape) -> Result<Self, Error> {
        let score = ScoreInputs::new(config, scalars, shape);
        Ok(DecisionCircuit { score, argmax: compare::argmax(config, shape)? })
    }

    /// Computes the action from contexts and model, and the trace comparison if trace statistics are given.
    /// Calls `after` with `"score"` and with `"compare"` after these steps.
    ///
    /// # Errors
    /// Those of the algebra.
    pub fn run<A: SlotAlgebra>(
        &self,
        alg: &A,
        contexts: &A::Vector,
        trace: Option<&A::Vector>,
        model: &A::Vector,
        mut after: impl FnMut(&'static str),
    ) -> Result<Decided<A::Vector>, A::Error> {
        let sum = trace.map(|trace| alg.add(contexts, trace)).transpose()?;
        let index = score::optimistic_index(alg, &self.score, sum.as_ref().unwrap_or(contexts), model)?;
        after("score");
        let wins = self.argmax.products(alg, &index)?;
        after("compare");
        let action = self.argmax.one_hot(alg, &wins)?;
        // Times the number of slots, so that the comparison is the constant coefficient of the message.
        let slots = self.score.shape.decision_slots() as f64;
        let trace = trace.map(|_| self.argmax.spare_result(alg, &wins, slots)).transpose()?;
        Ok(Decided { action, trace })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use circuits::Clear;
    use protocol::Layout;
    use protocol::levels::DecisionLevels;
    use testkit::ClearTwin;

    /// On exact vectors the circuit plays an arm whose index is within the comparison's resolution of the
    /// largest, mostly the twin's own arm, and it uses the levels that the protocol states.
    #[test]
    fn exact_vectors_decide_as_the_twin() {
        for (d, k) in [(2, 2), (3, 5), (7, 4), (11, 32)] {
            let config = BanditConfig { sqrt_degree: 31, ..BanditConfig::new(d, k) };
            let shape = Shape::for_problem(d, k);
            let levels = DecisionLevels::new(&config, shape).unwrap().total();
            let params = ckks::LOGN16_LOGQP1130_DEPTH22.validate().unwrap();
            let layout = Layout::new(&config, &config.plan(&params, shape).unwrap());
            let wave = |seed: usize| {
                let x: Vec<f64> = (0..d).map(|i| ((7 * seed + 3 * i + 1) as f64).sin()).collect();
                let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
                x.iter().map(|v| v / norm).collect::<Vec<f64>>()
            };
            let mut twin = ClearTwin::new(config.clone());
            let alg = Clear::new(shape.decision_slots()).unwrap();
            let mut same = 0;
            for t in 0..40 {
                let rows: Vec<Vec<f64>> = (0..k).map(|a| wave(31 * t + a)).collect();
                let scalars = Scalars::new(&config, t as u64 + 1, t as u64);
                let indices = twin.indices(&rows, t as u64 + 1, t as u64);
                let arm = twin.arm(&rows, t as u64 + 1, t as u64);
                let (a, omega) = twin.model();
                let at = |i: usize, j: usize| if i < d && j < d { a[(i, j)] } else { 0.0 };
                let model = layout.model(at, |j| omega.get(j).copied().unwrap_or(0.0));
                let fresh = |slots: &[circuits::Complex64]| alg.fresh(slots, levels + 1).unwrap();
                let circuit = DecisionCircuit::new(&config, scalars, shape).unwrap();
                let contexts = alg.fresh(&layout.contexts(&rows).unwrap(), levels).unwrap();
                let trace = alg.fresh(&layout.trace_features(&rows[0]).unwrap(), levels).unwrap();
                let mut steps = Vec::new();
                let out = circuit
                    .run(&alg, &contexts, Some(&trace), &fresh(&model), |step| steps.push(step))
                    .unwrap();
                assert_eq!((alg.level(&out.action), alg.level(&out.trace.unwrap())), (0, 0));
                assert_eq!(steps, ["score", "compare"]);
                let played = layout.action(out.action.values());
                let gap = indices[arm] - indices[played];
                assert!(gap < config.resolution() * scalars.range, "{d}, {k}, round {t}: {gap}");
                same += usize::from(played == arm);
                twin.learn(&rows[arm], (t as f64).cos());
            }
            assert!(same > 30, "{d}, {k}: {same}");
        }
    }
}
