//! The paper's method in the clear.

use super::{Holder, PaperMethod, PaperState};
use ::bandit::LinearConfig;
use circuits::paper::Raises;
use circuits::{Clear, ClearVector, Error};
use protocol::paper::{
    PAPER_BLOCK, PAPER_RAISE_LEVEL, PAPER_SIDE, PAPER_SLOTS, paper_contexts, paper_feedback,
};

/// The twin of a bandit of the paper: the same circuits and the same raises on `f64`.
#[derive(Debug)]
pub struct PaperTwin {
    alg: Clear,
    method: PaperMethod,
    state: PaperState<ClearVector>,
    holder: ClearHolder,
}

/// Raises vectors in the clear, and counts that.
#[derive(Debug)]
struct ClearHolder {
    top: usize,
    raises: u64,
}

impl Raises<Clear> for ClearHolder {
    fn floor(&self) -> usize {
        PAPER_RAISE_LEVEL
    }

    fn raise(&mut self, alg: &Clear, vector: &ClearVector) -> Result<ClearVector, Error> {
        self.raises += 1;
        alg.fresh(vector.values(), self.top)
    }
}

impl Holder<Clear> for ClearHolder {
    fn open(&mut self, _: &Clear, vector: &ClearVector) -> Result<f64, Error> {
        Ok(vector.values()[0].re)
    }
}

impl PaperTwin {
    /// The twin under keys with `top` levels.
    ///
    /// # Errors
    /// As [`PaperMethod::new`].
    pub fn new(config: LinearConfig, top: usize) -> Result<Self, crate::Error> {
        let (alg, method) = (Clear::new(PAPER_SLOTS)?, PaperMethod::new(config)?);
        Ok(PaperTwin { alg, method, state: PaperState::default(), holder: ClearHolder { top, raises: 0 } })
    }

    /// The entry of each arm, near 1/2 for the one to play.
    ///
    /// # Errors
    /// As [`paper_contexts`].
    pub fn decide(&mut self, rows: &[Vec<f64>]) -> Result<Vec<f64>, crate::Error> {
        let [left, right] = paper_contexts(self.method.config(), rows)?;
        let PaperTwin { alg, method, state, holder } = self;
        method.begin_round(alg, holder, state)?;
        let top = holder.top;
        let (left, right) = (alg.fresh(&left, top)?, alg.fresh(&right, top)?);
        let action = method.decide(alg, holder, state, [&left, &right])?;
        Ok((0..PAPER_SIDE).map(|a| action.values()[a * PAPER_BLOCK].re).collect())
    }

    /// Learns the reward of an arm with these features.
    ///
    /// # Errors
    /// As [`paper_feedback`].
    pub fn learn(&mut self, features: &[f64], reward: f64) -> Result<(), crate::Error> {
        let [left, right] = paper_feedback(self.method.config(), features, reward)?;
        let (left, right) =
            (self.alg.fresh(&left, self.holder.top)?, self.alg.fresh(&right, self.holder.top)?);
        Ok(self.method.learn(&self.alg, &mut self.state, [&left, &right])?)
    }

    /// The counters of the state.
    pub fn state(&self) -> &PaperState<ClearVector> {
        &self.state
    }

    /// The algebra, which has counted all operations.
    pub fn algebra(&self) -> &Clear {
        &self.alg
    }

    /// The number of raises.
    pub fn raises(&self) -> u64 {
        self.holder.raises
    }

    /// The inverse A and the estimate ω of the model, row by row. `None` before the first batch start.
    pub fn model(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let slots = self.state.model.as_ref()?.real();
        let matrix = PAPER_SIDE * PAPER_SIDE;
        Some((slots[..matrix].to_vec(), slots[matrix..matrix + PAPER_SIDE].to_vec()))
    }

    /// The level of a raised vector.
    pub fn top(&self) -> usize {
        self.holder.top
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use circuits::SlotAlgebra;

    /// A raise brings a vector to the top level, and changes nothing else.
    #[test]
    fn a_clear_raise_keeps_the_values() {
        let alg = Clear::new(PAPER_SLOTS).unwrap();
        let mut holder = ClearHolder { top: 9, raises: 0 };
        let low = alg.fresh_real(&[0.25, -1.5], PAPER_RAISE_LEVEL).unwrap();
        let high = holder.with_levels(&alg, low.clone(), 1).unwrap();
        assert_eq!((alg.level(&high), holder.raises), (9, 1));
        assert_eq!(high.values(), low.values());
        let same = holder.with_levels(&alg, high, 8).unwrap();
        assert_eq!((alg.level(&same), holder.raises), (9, 1));
    }
}
