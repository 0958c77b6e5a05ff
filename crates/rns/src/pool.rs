//! Large buffers that are used again: asking the system for megabytes of fresh pages at every operation, and giving
//! them back, costs more than the arithmetic on them.

use aligned_vec::{AVec, ConstAlign};
use rayon::prelude::*;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroize;

/// Shorter buffers are left to the allocator.
const SHORTEST: usize = 1 << 13;
/// Words kept at most: 512 MiB.
const KEPT_WORDS: usize = 1 << 26;

static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), words: 0 });

/// A vector load that crosses cache lines takes twice as long.
type Words = AVec<u64, ConstAlign<64>>;

struct Pool {
    free: Vec<Words>,
    words: usize,
}

/// Words on the heap, aligned to cache lines, given back to the pool when dropped.
pub struct Buffer {
    words: Words,
    /// The first so many are in use.
    len: usize,
}

impl Buffer {
    /// `len` words that hold anything, to be overwritten.
    pub fn scratch(len: usize) -> Self {
        if len >= SHORTEST {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            // The best fit, if it wastes less than half; of several the one given back last, which a cache may still hold.
            let fits = |(_, b): &(usize, &Words)| b.len() >= len && b.len() < 2 * len;
            let free = pool.free.iter().enumerate().rev();
            let best = free.filter(fits).min_by_key(|(_, b)| b.len()).map(|(i, _)| i);
            if let Some(i) = best {
                let words = pool.free.remove(i);
                pool.words -= words.len();
                return Buffer { words, len };
            }
        }
        let mut words = Words::new(0);
        words.resize(len, 0);
        Buffer { words, len }
    }

    /// `len` zeros.
    pub(crate) fn zero(len: usize) -> Self {
        let mut out = Self::scratch(len);
        out.fill(0);
        out
    }

    /// A copy of `words`, made in parallel on the pool's threads; other threads do not wait for the pool.
    pub(crate) fn copy(words: &[u64]) -> Self {
        /// Words of one piece.
        const PIECE: usize = 1 << 15;
        let mut out = Self::scratch(words.len());
        if rayon::current_thread_index().is_none() {
            out.copy_from_slice(words);
            return out;
        }
        out.par_chunks_mut(PIECE).zip(words.par_chunks(PIECE)).for_each(|(o, w)| o.copy_from_slice(w));
        out
    }

    /// Keeps the first `len` words.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

/// Its length alone: words may be secret, and those past the end another's.
impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({})", self.len)
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Buffer {}

impl Default for Buffer {
    fn default() -> Self {
        Buffer { words: Words::new(0), len: 0 }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Self::copy(self)
    }
}

impl Deref for Buffer {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.words[..self.len]
    }
}

impl Zeroize for Buffer {
    fn zeroize(&mut self) {
        self.words.as_mut_slice().zeroize();
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let words = std::mem::replace(&mut self.words, Words::new(0));
        if words.len() >= SHORTEST {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            if pool.words + words.len() <= KEPT_WORDS {
                pool.words += words.len();
                pool.free.push(words);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_with_the_length_asked_for() {
        for len in [0, 10, SHORTEST, SHORTEST + 1, 3 * SHORTEST] {
            drop(Buffer::copy(&vec![7; len]));
            assert_eq!(Buffer::scratch(len).len(), len);
            assert!(Buffer::zero(len).iter().all(|&w| w == 0));
            let mut short = Buffer::copy(&vec![7; len]);
            short.truncate(len / 2);
            assert_eq!((short.len(), short.clone().len()), (len / 2, len / 2));
        }
    }
}
