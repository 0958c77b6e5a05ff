//! Continual sums of vectors: a binary tree whose nodes get their noise once.

use crate::Error;
use serde::{Deserialize, Serialize};

/// The online form, O(log T) vectors: level `i` holds the last complete node of `2^i` leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tree {
    len: usize,
    t: u64,
    exact: Vec<Vec<f64>>,
    noisy: Vec<Vec<f64>>,
}

impl Tree {
    /// Over vectors of length `len`.
    pub(crate) fn new(len: usize) -> Self {
        Self { len, t: 0, exact: Vec::new(), noisy: Vec::new() }
    }

    /// Adds a leaf; returns the sum of the noisy nodes that make up the prefix. `noise` is drawn once for every
    /// coordinate of the node that the leaf completes.
    ///
    /// # Errors
    /// [`Error::Dimension`]; those of `noise`.
    pub(crate) fn add(
        &mut self,
        leaf: &[f64],
        mut noise: impl FnMut(usize) -> Result<f64, Error>,
    ) -> Result<Vec<f64>, Error> {
        if leaf.len() != self.len {
            return Err(Error::Dimension { field: "leaf", got: leaf.len(), want: self.len });
        }
        let drawn = (0..self.len).map(&mut noise).collect::<Result<Vec<_>, _>>()?;
        self.t += 1;
        let level = self.t.trailing_zeros() as usize;
        if self.exact.len() <= level {
            self.exact.resize(level + 1, vec![0.0; self.len]);
            self.noisy.resize(level + 1, vec![0.0; self.len]);
        }
        let (below, own) = self.exact.split_at_mut(level);
        let own = &mut own[0];
        own.copy_from_slice(leaf);
        for lower in below.iter_mut() {
            own.iter_mut().zip(lower.iter()).for_each(|(o, l)| *o += l);
            lower.fill(0.0);
        }
        for ((noisy, exact), z) in self.noisy[level].iter_mut().zip(own.iter()).zip(&drawn) {
            *noisy = exact + z;
        }
        let mut prefix = vec![0.0; self.len];
        for (_, node) in self.noisy.iter().enumerate().filter(|(i, _)| self.t >> i & 1 == 1) {
            prefix.iter_mut().zip(node).for_each(|(p, n)| *p += n);
        }
        Ok(prefix)
    }

    pub(crate) fn is_consistent(&self, len: usize, t: u64) -> bool {
        let levels = (u64::BITS - t.leading_zeros()) as usize;
        let nodes = [&self.exact, &self.noisy];
        self.len == len
            && self.t == t
            && nodes.iter().all(|n| n.len() == levels)
            && nodes.iter().copied().flatten().all(|v| v.len() == len && v.iter().all(|x| x.is_finite()))
    }
}
