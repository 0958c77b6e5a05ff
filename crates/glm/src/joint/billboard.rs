//! The billboard of joint privacy: all published values, and the choice of an arm from them and the round's
//! arm set.

use super::config::{Growth, JointConfig};
use crate::{Error, Symmetric};
use bandit::Features;
use bandit::vector::{argmax, dot};
use serde::{Deserialize, Serialize};

/// The values that every user may know after `rounds` rounds. Any function of them costs no further privacy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Billboard {
    pub(super) rounds: u64,
    /// Number of explorations, as released.
    pub(super) explorations: f64,
    pub(super) v_inverse: Symmetric,
    pub(super) v: Symmetric,
    pub(super) h: Symmetric,
    pub(super) warm_up: Vec<f64>,
    pub(super) warm_up_calls: u32,
    /// Running maxima of the log-determinants, and that of V at the last renewal of the warm-up estimate.
    pub(super) log_det_v: f64,
    pub(super) log_det_v_fitted: f64,
    pub(super) log_det_h: f64,
    pub(super) running: Option<Running>,
    pub(super) running_calls: u32,
}

/// The running estimate, and the H at its renewal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Running {
    pub(super) theta: Vec<f64>,
    pub(super) h: Symmetric,
    pub(super) h_inverse: Symmetric,
    pub(super) log_det_h: f64,
    pub(super) round: u64,
}

impl Billboard {
    pub(super) fn new(c: &JointConfig) -> Self {
        let log_det = c.problem.d as f64 * c.lambda.ln();
        Self {
            rounds: 0,
            explorations: 0.0,
            v_inverse: Symmetric::identity(c.problem.d, 1.0 / c.lambda),
            v: Symmetric::identity(c.problem.d, c.lambda),
            h: Symmetric::identity(c.problem.d, c.lambda),
            warm_up: vec![0.0; c.problem.d],
            warm_up_calls: 0,
            log_det_v: log_det,
            log_det_v_fitted: log_det,
            log_det_h: log_det,
            running: c.published.first_waits.then(|| Running {
                theta: vec![0.0; c.problem.d],
                h: Symmetric::identity(c.problem.d, c.lambda),
                h_inverse: Symmetric::identity(c.problem.d, 1.0 / c.lambda),
                log_det_h: log_det,
                round: 0,
            }),
            running_calls: 0,
        }
    }

    /// Number of rounds published.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Number of explorations, as released.
    pub fn explorations(&self) -> f64 {
        self.explorations
    }

    /// V including `lambda I`, as released.
    pub fn v(&self) -> &Symmetric {
        &self.v
    }

    /// H including `lambda I`, as released.
    pub fn h(&self) -> &Symmetric {
        &self.h
    }

    /// The warm-up estimate.
    pub fn warm_up(&self) -> &[f64] {
        &self.warm_up
    }

    /// The running estimate, and the number of rounds before its renewal; `None` before the first one.
    pub fn running(&self) -> Option<(&[f64], u64)> {
        self.running.as_ref().map(|r| (&r.theta[..], r.round))
    }

    /// The number of warm-up estimates, and of running estimates, computed from data.
    pub fn calls(&self) -> (u32, u32) {
        (self.warm_up_calls, self.running_calls)
    }

    /// The number of rows of a running estimate, computed from released values.
    pub(super) fn running_rows(&self, c: &JointConfig) -> f64 {
        self.rounds as f64 - if c.published.shared_rows { 0.0 } else { self.explorations }
    }

    /// Criterion I: the arm to explore; `None` if the round does not explore. Only here an arm set determines
    /// the data set of a round.
    pub fn explores(&self, c: &JointConfig, set: &Features) -> Option<usize> {
        let arm = argmax(set.rows().map(|x| self.v_inverse.quadratic_form(x)));
        set.row(arm).filter(|x| self.v_inverse.quadratic_form(x) >= c.explore_at).map(|_| arm)
    }

    /// Criterion II: whether the running estimate is to be renewed.
    pub(super) fn renewal_due(&self, c: &JointConfig) -> Result<bool, Error> {
        let Some(running) = &self.running else {
            return Ok(true);
        };
        if (c.published.aliased && self.running_calls > 0) || self.running_calls >= c.max_running_calls {
            return Ok(false);
        }
        match c.growth {
            Growth::Determinant(factor) => Ok(self.log_det_h > running.log_det_h + factor.ln()),
            Growth::Eigenvalue(factor) => Ok(self.h.largest_eigenvalue_against(&running.h)? > factor),
        }
    }

    /// The arm of a round that does not explore.
    pub fn exploits(&self, c: &JointConfig, set: &Features) -> usize {
        let factor = c.gamma * c.problem.kappa.sqrt();
        let bounds: Vec<(f64, f64)> = set
            .rows()
            .map(|x| (dot(x, &self.warm_up), factor * self.v_inverse.norm(x)))
            .map(|(centre, width)| (centre - width, centre + width))
            .collect();
        let best_lower = bounds.iter().map(|b| b.0).fold(f64::NEG_INFINITY, f64::max);
        let index = |(x, bounds): (&[f64], &(f64, f64))| {
            if bounds.1 < best_lower { f64::NEG_INFINITY } else { self.index(c, x) }
        };
        argmax(set.rows().zip(&bounds).map(index))
    }

    /// The optimistic index of an arm by the running estimate, and before its first renewal by the warm-up
    /// estimate.
    pub fn index(&self, c: &JointConfig, x: &[f64]) -> f64 {
        let warm_up = dot(x, &self.warm_up);
        let Some(running) = &self.running else {
            return warm_up + c.beta * self.v_inverse.norm(x);
        };
        let estimate = dot(x, &running.theta);
        let estimate = if c.published.averaged { 0.5 * (estimate + warm_up) } else { estimate };
        estimate + c.beta * running.h_inverse.norm(x)
    }

    /// Publishes the released prefixes of a round.
    pub(super) fn advance(
        &mut self,
        c: &JointConfig,
        v: Symmetric,
        h: Symmetric,
        explorations: f64,
    ) -> Result<(), Error> {
        let not_positive = || Error::NotPositive { field: "design" };
        let (v_inverse, log_det_v) = v.inverse_and_log_det().ok_or_else(not_positive)?;
        self.v_inverse = v_inverse;
        self.log_det_v = self.log_det_v.max(log_det_v);
        self.log_det_h = self.log_det_h.max(h.log_det().ok_or_else(not_positive)?);
        (self.v, self.h, self.explorations) = (v, h, explorations);
        self.rounds += 1;
        if let Some(running) = self.running.as_mut().filter(|_| c.published.aliased && self.running_calls > 0)
        {
            running.h_inverse = self.h.inverse().ok_or_else(not_positive)?;
            running.h = self.h.clone();
        }
        Ok(())
    }

    pub(super) fn renew_running(&mut self, theta: Vec<f64>) -> Result<(), Error> {
        let h_inverse = self.h.inverse().ok_or(Error::NotPositive { field: "design" })?;
        let (h, log_det_h, round) = (self.h.clone(), self.log_det_h, self.rounds);
        self.running = Some(Running { theta, h, h_inverse, log_det_h, round });
        Ok(())
    }

    pub(super) fn is_consistent(&self, c: &JointConfig) -> bool {
        let d = c.problem.d;
        let running = self.running.iter();
        let vectors = [&self.warm_up].into_iter().chain(running.clone().map(|r| &r.theta));
        let matrices =
            [&self.v, &self.v_inverse, &self.h].into_iter().chain(running.flat_map(|r| [&r.h, &r.h_inverse]));
        self.warm_up_calls <= c.max_warm_up_calls
            && self.running_calls <= c.max_running_calls
            && self.running.iter().all(|r| r.round <= self.rounds && r.log_det_h.is_finite())
            && vectors.into_iter().all(|v| v.len() == d && v.iter().all(|x| x.is_finite()))
            && matrices.into_iter().all(|m| m.d() == d && m.is_finite())
            && [self.explorations, self.log_det_v, self.log_det_v_fitted, self.log_det_h]
                .iter()
                .all(|v| v.is_finite())
    }
}
