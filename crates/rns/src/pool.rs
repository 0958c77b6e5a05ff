//! A pool of large buffers for reuse. Allocating megabytes of fresh pages for each operation, and returning
//! them to the system, costs more than the arithmetic on them.

use aligned_vec::{AVec, ConstAlign, avec};
use rayon::prelude::*;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroize;

/// Buffers of fewer words are not pooled.
const SHORTEST: usize = 1 << 13;
/// The largest number of words in the pool: 512 MiB.
const KEPT_WORDS: usize = 1 << 26;

static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), words: 0 });

/// Words aligned to cache lines: a vector load that crosses two lines takes twice as long.
type Words = AVec<u64, ConstAlign<64>>;

/// The free buffers, in the order in which they were returned.
struct Pool {
    free: Vec<Words>,
    words: usize,
}

impl Pool {
    /// Takes the smallest free buffer of at least `len` and less than 2·`len` words. Of several of one size
    /// it takes the one returned last, which may still be in a cache.
    fn take(&mut self, len: usize) -> Option<Words> {
        let fits = |(_, b): &(usize, &Words)| b.len() >= len && b.len() < 2 * len;
        let free = self.free.iter().enumerate().rev();
        let (best, _) = free.filter(fits).min_by_key(|(_, b)| b.len())?;
        let words = self.free.remove(best);
        self.words -= words.len();
        Some(words)
    }

    /// Returns `words` to the pool, unless they are more than `most` alone. While the pool holds more than
    /// `most` words, its oldest buffers are removed; they are returned to the caller, who frees them outside
    /// the lock.
    fn give_back(&mut self, words: Words, most: usize) -> Vec<Words> {
        if words.len() > most {
            return vec![words];
        }
        self.words += words.len();
        self.free.push(words);
        let mut first_kept = 0;
        while self.words > most {
            self.words -= self.free[first_kept].len();
            first_kept += 1;
        }
        self.free.drain(..first_kept).collect()
    }
}

/// A buffer of words, aligned to cache lines. It returns to the pool when it is dropped.
pub struct Buffer {
    words: Words,
    /// Number of words in use, from the first on.
    len: usize,
}

impl Buffer {
    /// A buffer of `len` words of unspecified content, to be overwritten.
    pub fn scratch(len: usize) -> Self {
        if len >= SHORTEST {
            let free = POOL.lock().unwrap_or_else(PoisonError::into_inner).take(len);
            if let Some(words) = free {
                return Buffer { words, len };
            }
        }
        Buffer { words: avec![[64]| 0; len], len }
    }

    /// A buffer of `len` zeros.
    pub(crate) fn zero(len: usize) -> Self {
        let mut out = Self::scratch(len);
        out.fill(0);
        out
    }

    /// A copy of `words`. A thread of the thread pool copies in parallel; another thread copies alone, so
    /// that it does not wait for the thread pool.
    pub(crate) fn copy(words: &[u64]) -> Self {
        /// Words that one task copies.
        const PIECE: usize = 1 << 15;
        let mut out = Self::scratch(words.len());
        if rayon::current_thread_index().is_none() {
            out.copy_from_slice(words);
            return out;
        }
        out.par_chunks_mut(PIECE).zip(words.par_chunks(PIECE)).for_each(|(o, w)| o.copy_from_slice(w));
        out
    }

    /// Shortens the buffer to its first `len` words.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

/// Prints the length only: the words may be secret.
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
            let too_many = POOL.lock().unwrap_or_else(PoisonError::into_inner).give_back(words, KEPT_WORDS);
            // Freed after the lock is released.
            drop(too_many);
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

    #[test]
    fn a_full_pool_keeps_what_came_last() {
        let words = |len| {
            let mut words = Words::new(0);
            words.resize(len, 0);
            words
        };
        let mut pool = Pool { free: Vec::new(), words: 0 };
        for _ in 0..4 {
            assert!(pool.give_back(words(25), 100).is_empty());
        }
        let freed = pool.give_back(words(60), 100);
        assert_eq!(freed.iter().map(|w| w.len()).collect::<Vec<_>>(), [25, 25, 25]);
        assert_eq!((pool.words, pool.free.len()), (85, 2));
        assert!(pool.take(30).is_none(), "it wastes half");
        assert_eq!(pool.take(31).map(|w| w.len()), Some(60));
        assert_eq!(pool.words, 25);
        // A buffer larger than the pool is refused, and removes no other.
        assert_eq!(pool.give_back(words(101), 100).len(), 1);
        assert_eq!((pool.words, pool.free.len()), (25, 1));
    }
}
