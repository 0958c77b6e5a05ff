//! What the memory of a process holds after its secret key was dropped.
#![cfg(target_os = "linux")]

use crate::common::rng;
use ckks::{FrameKind, GaloisElement, KeyId, Params, Plaintext, TOY_LOGN12_DEPTH21};
use ckks_secret::SecretKey;
use num_complex::Complex64;
use rns::Poly;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use zeroize::Zeroize;

/// Bytes of a pattern. Those of 64 ternary coefficients, eight bytes each, have 101 bits: no other key in
/// memory has them.
const LENGTH: usize = 512;

/// Bytes that occur in one value only. They are kept inverted: the search must not find the pattern it looks
/// for.
struct Pattern {
    inverted: [u8; LENGTH],
}

impl Pattern {
    /// From the middle of `bytes`: an allocator writes lists of its own into the ends of freed memory.
    fn of(bytes: impl Iterator<Item = u8>, len: usize) -> Self {
        let mut inverted = [0; LENGTH];
        for (out, byte) in inverted.iter_mut().zip(bytes.skip(len / 4)) {
            *out = !byte;
        }
        Pattern { inverted }
    }

    fn of_words(words: &[u64]) -> Self {
        Self::of(words.iter().flat_map(|w| w.to_le_bytes()), 8 * words.len())
    }

    fn is_at(&self, memory: &[u8]) -> bool {
        memory.iter().zip(&self.inverted).all(|(byte, inverted)| *byte == !inverted)
    }
}

/// How often the writable memory of this process holds each pattern.
fn found(patterns: &[Pattern; 4]) -> [usize; 4] {
    let mut maps = String::new();
    File::open("/proc/self/maps").unwrap().read_to_string(&mut maps).unwrap();
    let memory = File::open("/proc/self/mem").unwrap();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let firsts = patterns.each_ref().map(|pattern| word(&pattern.inverted));
    // Blocks overlap by a pattern, and the buffer, which is memory too, is empty when it is read.
    let mut block = vec![0u8; 1 << 16];
    let mut found = [0; 4];
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [mut at, to] = [from, to].map(|x| u64::from_str_radix(x, 16).unwrap());
        while at < to {
            block.fill(0);
            // Memory that another thread gave back in the meantime cannot be read.
            let Ok(read) = memory.read_at(&mut block, at) else { break };
            for window in block[..read].windows(LENGTH) {
                let first = !word(window);
                for ((pattern, found), want) in patterns.iter().zip(&mut found).zip(firsts) {
                    *found += usize::from(first == want && pattern.is_at(window));
                }
            }
            at += if read == block.len() { (read - LENGTH + 1) as u64 } else { read.max(1) as u64 };
        }
    }
    block.fill(0);
    found
}

/// A key is made and read back, and everything is done with it that an authority and a device do.
fn use_a_key(params: &Params) -> [Pattern; 4] {
    let (mut rng, id) = (rng(77), KeyId([7; 16]));
    let made = SecretKey::generate(params, &mut rng);
    let bytes = made.to_bytes(id);
    let (secret, _) = SecretKey::from_bytes(params, &bytes).unwrap();
    ckks_secret::public_key(&secret, &mut rng);
    ckks_secret::relin_key(&secret, 3, &mut rng);
    ckks_secret::galois_key(&secret, GaloisElement::rotation(params, 1), 3, &mut rng);
    let plaintext = Plaintext::encode(params, &[Complex64::ONE; 8], 3).unwrap();
    let ciphertext = ckks_secret::encrypt(&secret, &plaintext, &mut rng).expand(&secret);
    ckks_secret::decrypt(&secret, &ciphertext, 8).with(|slots| assert!((slots[3] - 1.0).norm() < 1e-2));

    // Two bits a coefficient, the coefficients themselves, and their residues before and after the transform.
    let (_, _, payload) = ckks::read_frame(params, None, &[FrameKind::SecretKey], &bytes).unwrap();
    let digits = payload.iter().flat_map(|b| (0..4).map(move |i| i64::from(b >> (2 * i) & 3) - 1));
    let mut coefficients = Vec::with_capacity(params.n());
    coefficients.extend(digits);
    let basis = params.q_basis(0);
    let mut residues = Poly::from_signed(basis, &coefficients);
    let packed = Pattern::of(payload.iter().copied(), payload.len());
    let signed = Pattern::of(coefficients.iter().flat_map(|c| c.to_le_bytes()), 8 * coefficients.len());
    let before = Pattern::of_words(residues.limb(0));
    coefficients.zeroize();
    let mut values = residues.clone().into_ntt(basis);
    let after = Pattern::of_words(values.limb(0));
    residues.zeroize();
    values.zeroize();
    [packed, signed, before, after]
}

#[test]
fn attack_memory_that_was_freed_holds_no_key() {
    let params = TOY_LOGN12_DEPTH21.validate().unwrap();
    let patterns = use_a_key(&params);
    // Packed, as coefficients, as residues, as values.
    assert_eq!(found(&patterns), [0; 4], "a dropped key is still in memory");
    // The control: what is dropped without being zeroed is found. There are several, since the search
    // allocates too.
    let left: [[Vec<u8>; 4]; 16] = std::array::from_fn(|_| {
        patterns.each_ref().map(|pattern| {
            let mut left = vec![0; 8192];
            let bytes = left[4096..].iter_mut().zip(pattern.inverted);
            bytes.for_each(|(to, inverted): (&mut u8, u8)| *to = !inverted);
            left
        })
    });
    drop(std::hint::black_box(left));
    assert!(found(&patterns).iter().all(|&times| times > 0), "the search misses memory that was freed");
}
