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

/// Buffers that are free, the one given back last at the end.
struct Pool {
    free: Vec<Words>,
    words: usize,
}

impl Pool {
    /// The best fit, if it wastes less than half; of several the one given back last, which a cache may still hold.
    fn take(&mut self, len: usize) -> Option<Words> {
        let fits = |(_, b): &(usize, &Words)| b.len() >= len && b.len() < 2 * len;
        let free = self.free.iter().enumerate().rev();
        let (best, _) = free.filter(fits).min_by_key(|(_, b)| b.len())?;
        let words = self.free.remove(best);
        self.words -= words.len();
        Some(words)
    }

    /// Keeps `words`, and returns what lay there longest and is now one too many, so that sizes that nobody asks for any more make room.
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
            let free = POOL.lock().unwrap_or_else(PoisonError::into_inner).take(len);
            if let Some(words) = free {
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
            let too_many = POOL.lock().unwrap_or_else(PoisonError::into_inner).give_back(words, KEPT_WORDS);
            // The system takes them back while nobody waits for the pool.
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
        // One that is larger than the pool drives nothing out.
        assert_eq!(pool.give_back(words(101), 100).len(), 1);
        assert_eq!((pool.words, pool.free.len()), (25, 1));
    }
}
