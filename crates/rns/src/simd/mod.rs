//! Kernels on one limb. Each has several versions that give the same bits: `scalar`, on x86-64 `avx2` (AVX2
//! with FMA), `avx512f` (AVX-512 without IFMA) and `avx512` (with IFMA), on aarch64 `neon`, and in
//! WebAssembly `simd128`. The version is chosen once, by the features of the CPU ([`kernels`]).
//!
//! Slices that a call reads side by side must have the same length, which is checked. Inputs are reduced
//! unless a kernel says otherwise, and outputs always are. The running time does not depend on the values,
//! except in [`take_residues`], where it depends on which words are rejected.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512f;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[allow(unsafe_code)]
mod float;
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
mod neon;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ntt512;
pub(crate) mod operands;
mod scalar;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[allow(unsafe_code)]
mod vector;

use crate::{Constant, Modulus};
use operands::{
    AccumulatorTerms, Affine, Destination, Lift, NttKernel, Pairs, Permutation, Radix, Rows, Term,
};
use std::sync::OnceLock;

/// The version of the kernels that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The scalar version, in portable Rust.
    Scalar,
    /// The vector version for WebAssembly, in builds with the target feature `simd128`.
    Simd128,
    /// The vector version for the architecture aarch64.
    Neon,
    /// The vector version for CPUs with AVX2 and FMA.
    Avx2,
    /// The vector version for CPUs with AVX-512 F, DQ, VL and BW.
    Avx512F,
    /// The vector version for CPUs with AVX-512 F, DQ, VL, BW, IFMA and VBMI.
    Avx512Ifma,
}

impl Kernel {
    /// All versions, the fastest last.
    pub const ALL: [Kernel; 6] =
        [Kernel::Scalar, Kernel::Simd128, Kernel::Neon, Kernel::Avx2, Kernel::Avx512F, Kernel::Avx512Ifma];

    /// Whether the CPU has the features that this version needs.
    pub fn is_available(self) -> bool {
        match self {
            Kernel::Scalar => true,
            Kernel::Simd128 => cfg!(all(target_arch = "wasm32", target_feature = "simd128")),
            Kernel::Neon => cfg!(target_arch = "aarch64"),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512F => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512Ifma => {
                Kernel::Avx512F.is_available()
                    && is_x86_feature_detected!("avx512ifma")
                    && is_x86_feature_detected!("avx512vbmi")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Kernel::Avx2 | Kernel::Avx512F | Kernel::Avx512Ifma => false,
        }
    }

    /// The version to run if the environment asks for `wanted`, and a warning if the two differ.
    fn choose(wanted: Option<&str>) -> (Self, Option<String>) {
        let best = Self::ALL.into_iter().rfind(|kernel| kernel.is_available()).unwrap_or(Kernel::Scalar);
        let Some(word) = wanted.filter(|word| !word.is_empty()) else { return (best, None) };
        match Self::ALL.into_iter().find(|kernel| kernel.to_string() == word) {
            Some(kernel) if kernel.is_available() => (kernel, None),
            Some(_) => {
                (best, Some(format!("this CPU lacks the features of RNS_KERNEL={word}: running {best}")))
            }
            None => {
                let all = Self::ALL.map(|kernel| kernel.to_string()).join(", ");
                (best, Some(format!("RNS_KERNEL={word} is none of {all}: running {best}")))
            }
        }
    }
}

/// The word for this version in `RNS_KERNEL`, logs and benchmarks.
impl std::fmt::Display for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Kernel::Scalar => "scalar",
            Kernel::Simd128 => "simd128",
            Kernel::Neon => "neon",
            Kernel::Avx2 => "avx2",
            Kernel::Avx512F => "avx512f",
            Kernel::Avx512Ifma => "avx512",
        })
    }
}

/// The version that this process runs. It is chosen at the first call: the fastest that the CPU has the
/// features for, or the one that the environment variable `RNS_KERNEL` names (`scalar`, `simd128`, `neon`,
/// `avx2`, `avx512f` or `avx512`). If the CPU cannot run that one, or there is none of this name, a warning
/// goes to the standard error and the fastest runs.
pub fn kernels() -> Kernel {
    static CHOICE: OnceLock<Kernel> = OnceLock::new();
    #[cfg(test)]
    if let Some(kernel) = tests::FORCED.get() {
        return kernel;
    }
    *CHOICE.get_or_init(|| {
        let (kernel, warning) = Kernel::choose(std::env::var("RNS_KERNEL").ok().as_deref());
        if let Some(warning) = warning {
            eprintln!("warning: {warning}");
        }
        kernel
    })
}

macro_rules! kernel {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) $(-> $out:ident)? $(same_length $($slice:expr),+)?) => {
        $(#[$doc])*
        #[allow(unsafe_code)]
        $vis fn $name($($arg: $ty),*) $(-> $out)? {
            $(
                let lengths = [$($slice),+];
                assert!(lengths.iter().all(|&l| l == lengths[0]), "kernel operands of different length");
            )?
            match kernels() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `kernels` returns this variant only after the CPU reported every feature it needs.
                Kernel::Avx512Ifma => unsafe { avx512::$name($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Kernel::Avx512F => unsafe { avx512f::$name($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Kernel::Avx2 => unsafe { avx2::$name($($arg),*) },
                #[cfg(target_arch = "aarch64")]
                // SAFETY: NEON is part of the architecture.
                Kernel::Neon => unsafe { neon::$name($($arg),*) },
                #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                Kernel::Simd128 => simd128::$name($($arg),*),
                _ => scalar::$name($($arg),*),
            }
        }
    };
}

kernel! {
    /// a ← a + b.
    pub fn add_assign(m: &Modulus, a: &mut [u64], b: &[u64]) same_length a.len(), b.len()
}
kernel! {
    /// a ← a − b.
    pub fn sub_assign(m: &Modulus, a: &mut [u64], b: &[u64]) same_length a.len(), b.len()
}
kernel! {
    /// (a, b) ← (a + b, a − b).
    pub(crate) fn sum_and_difference(m: &Modulus, a: &mut [u64], b: &mut [u64]) same_length a.len(), b.len()
}
kernel! {
    /// a ← −a.
    pub(crate) fn neg_assign(m: &Modulus, a: &mut [u64]) same_length a.len()
}
kernel! {
    /// a ← a·b.
    pub(crate) fn mul_assign(m: &Modulus, a: &mut [u64], b: &[u64]) same_length a.len(), b.len()
}
kernel! {
    /// out ← a·b.
    pub fn mul_into(m: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) same_length out.len(), a.len(), b.len()
}
kernel! {
    /// acc ← acc + a·b.
    pub fn mul_add_assign(m: &Modulus, acc: &mut [u64], a: &[u64], b: &[u64]) same_length acc.len(), a.len(), b.len()
}
kernel! {
    /// a ← a·w for entries of a below 2⁵².
    pub(crate) fn mul_constant_assign(m: &Modulus, a: &mut [u64], w: Constant) same_length a.len()
}
/// a ← a·2⁵² for entries of a below 2⁵²: the Montgomery form of one factor of a product.
pub fn montgomery_assign(m: &Modulus, a: &mut [u64]) {
    mul_constant_assign(m, a, m.word);
}
kernel! {
    /// acc ← acc + x·w for entries of x below 2⁵².
    pub fn mul_constant_add(m: &Modulus, acc: &mut [u64], x: &[u64], w: Constant) same_length acc.len(), x.len()
}
kernel! {
    /// a ← a + c, the same c in every entry.
    pub fn add_constant(m: &Modulus, a: &mut [u64], c: u64) same_length a.len()
}
kernel! {
    /// out ← the residues of x modulo `m`, by `lift`.
    pub(crate) fn lift_into(m: &Modulus, out: &mut [u64], x: &[u64], lift: Lift) same_length out.len(), x.len()
}
kernel! {
    /// out ← Σ xᵢ·cᵢ + constant for at most 2¹¹ rows xᵢ, whose entries are below 2⁵⁰ and need not be reduced.
    pub fn combine_into(m: &Modulus, out: &mut [u64], x: &Rows, c: Affine)
    same_length out.len(), x.shortest().unwrap_or(out.len())
}
kernel! {
    /// [`combine_into`] for two moduli, reading x once.
    pub(crate) fn combine_pair_into(m: [&Modulus; 2], out0: &mut [u64], out1: &mut [u64], x: &Rows, c: [Affine; 2])
    same_length out0.len(), out1.len(), x.shortest().unwrap_or(out0.len())
}
kernel! {
    /// out ← Σ k·x·y over the terms (k, x, y).
    pub fn sum_of_products_into(m: &Modulus, out: &mut [u64], terms: &[Term])
    same_length out.len(), terms.iter().map(|(_, x, y)| x.len().min(y.len())).min().unwrap_or(out.len())
}
kernel! {
    /// Computes Σ xⱼ·yⱼ and Σ xⱼ·zⱼ over the first pairs (yⱼ, zⱼ), one for each xⱼ, adds the terms of `plus`,
    /// and writes both sums to out₀ and out₁ as `destination` says. Entries of x are below 2ᵇ with b =
    /// [`Modulus::lazy_bits`]. There are at most 2¹¹ terms in all.
    pub fn pair_products_into(m: &Modulus, out0: &mut [u64], out1: &mut [u64], x: &[&[u64]], pairs: Pairs, plus: &AccumulatorTerms, destination: Destination)
    same_length out0.len(), out1.len(), pairs.stored.n(), destination.permutation.map_or(out0.len(), |p| p.indices().len()),
        x.iter().map(|x| x.len()).chain(plus.lengths()).min().unwrap_or(out0.len())
}
kernel! {
    /// out₀ ← Σ xⱼ·yⱼ/2⁵² and out₁ ← Σ xⱼ·zⱼ/2⁵² for at most 2¹¹ terms, with xⱼ in Montgomery form
    /// ([`crate::Poly::into_montgomery`]). The xⱼ may be shorter than the other limbs: entry i of a limb is
    /// multiplied by entry ⌊i·len(x)/len(out)⌋ of xⱼ. All lengths are powers of two.
    pub fn inner_products_short_into(m: &Modulus, out0: &mut [u64], out1: &mut [u64], x: &[&[u64]], y: &[&[u64]], z: &[&[u64]])
    same_length out0.len(), out1.len(), y.iter().chain(z).map(|x| x.len()).min().unwrap_or(out0.len())
}
kernel! {
    /// out ← ⌊½ + Σ xᵢ·fᵢ⌋ in double precision, with the terms added in order.
    pub(crate) fn rounded_sum_into(out: &mut [u64], x: &Rows, f: &[f64])
    same_length out.len(), x.shortest().unwrap_or(out.len())
}
kernel! {
    /// Replaces the scaled residues yᵢ in `rows` by the digits of x, in the first rows. Each digit is stored
    /// with half its range added.
    pub(crate) fn split_in_place(rows: &mut [&mut [u64]], radix: &Radix)
    same_length rows.iter().map(|x| x.len()).min().unwrap_or(0), rows.iter().map(|x| x.len()).max().unwrap_or(0)
}

kernel! {
    /// out ← x mod q for any signed words x.
    pub fn signed_into(m: &Modulus, out: &mut [u64], x: &[i64]) same_length out.len(), x.len()
}
kernel! {
    /// out ← for each word, the number of entries of `table` that are at most its upper 63 bits, negated if
    /// its lowest bit is set.
    pub(crate) fn signed_ranks_into(out: &mut [i64], words: &[u64], table: &[u64]) same_length out.len(), words.len()
}

kernel! {
    /// Rejection sampling. Reads little-endian words of as many bytes as q has from `drawn`, masks each to
    /// the size of q in bits, and writes those below q to the front of `out`, until either slice is used up.
    /// Returns the number of words written; the content of `out` behind them is unspecified.
    pub(crate) fn take_residues(q: u64, out: &mut [u64], drawn: &[u8]) -> usize
}

kernel! {
    /// `out[i] ← a[permutation[i]]`.
    pub fn gather_into(out: &mut [u64], a: &[u64], permutation: &Permutation)
    same_length out.len(), a.len(), permutation.indices().len()
}

/// The vector version of the transform of length n, a power of two, with the root `psi` of order 2n; `None`
/// if this process runs the scalar version, or the vector version has no transform of this length.
#[allow(unsafe_code)]
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128")),
    expect(unused_variables)
)]
pub(crate) fn vector_ntt(modulus: Modulus, n: usize, psi: u64) -> Option<Box<dyn NttKernel>> {
    match kernels() {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512Ifma => Some(Box::new(ntt512::VectorNtt::new(modulus, n, psi)?)),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512F => {
            // SAFETY: `kernels` returns this variant only after the CPU reported every feature it needs.
            let vector = unsafe { avx512f::Avx512F::new() };
            Some(Box::new(float::FloatNtt::new(vector, modulus, n, psi)?))
        }
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => {
            // SAFETY: as above.
            let vector = unsafe { avx2::Avx2::new() };
            Some(Box::new(float::FloatNtt::new(vector, modulus, n, psi)?))
        }
        #[cfg(target_arch = "aarch64")]
        Kernel::Neon => Some(Box::new(float::FloatNtt::new(neon::Neon::new(), modulus, n, psi)?)),
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Kernel::Simd128 => Some(Box::new(simd128::Simd128Ntt::new(modulus, n, psi)?)),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::primes;
    use operands::{LimbPairs, Mode};
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use std::cell::Cell;

    thread_local! {
        /// The version that this thread runs, in place of the process's choice.
        pub(super) static FORCED: Cell<Option<Kernel>> = const { Cell::new(None) };
    }

    /// The result of `f` on this thread with the version `kernel`, which must be available.
    pub(crate) fn on<T>(kernel: Kernel, f: impl FnOnce() -> T) -> T {
        struct Restore(Option<Kernel>);
        impl Drop for Restore {
            fn drop(&mut self) {
                FORCED.set(self.0);
            }
        }
        assert!(kernel.is_available());
        let _restore = Restore(FORCED.replace(Some(kernel)));
        f()
    }

    /// The versions that this CPU can run.
    pub(crate) fn available() -> impl Iterator<Item = Kernel> {
        Kernel::ALL.into_iter().filter(|kernel| kernel.is_available())
    }

    /// The version asked for is chosen if the CPU can run it; otherwise the best one is, with a warning.
    #[test]
    fn the_environment_chooses_among_the_versions_of_the_cpu() {
        let best = available().last().unwrap();
        assert_eq!(Kernel::choose(None), (best, None));
        assert_eq!(Kernel::choose(Some("")), (best, None));
        for kernel in Kernel::ALL {
            let (chosen, warning) = Kernel::choose(Some(&kernel.to_string()));
            let known = kernel.is_available();
            assert_eq!((chosen, warning.is_none()), (if known { kernel } else { best }, known));
        }
        let (chosen, warning) = Kernel::choose(Some("sclar"));
        assert!(
            chosen == best
                && warning.unwrap().contains("sclar is none of scalar, simd128, neon, avx2, avx512f, avx512")
        );
    }

    fn limb(rng: &mut impl Rng, n: usize, bound: u64) -> Vec<u64> {
        // Both ends of the range are frequent.
        (0..n)
            .map(|_| match rng.next_u32() % 8 {
                0 => 0,
                1 => bound - 1,
                _ => rng.next_u64() % bound,
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Every vector kernel equals its scalar twin, which equals big-integer arithmetic.
        #[test]
        fn twins_agree(bits in 17u32..=50, n in 1usize..70, terms in 1usize..19, seed: u64) {
            for kernel in available() {
            let q = primes::largest(bits, 1 << 11, &[]).unwrap();
            let m = Modulus::new(q).unwrap();
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let (a, b, c) = (limb(&mut rng, n, q), limb(&mut rng, n, q), limb(&mut rng, n, q));
            let w = m.constant(rng.next_u64());
            let big = |x: u128| (x % u128::from(q)) as u64;
            let word = limb(&mut rng, n, 1 << 52);
            macro_rules! both {
                ($name:ident($($arg:expr),*), $init:expr, $slow:expr) => {{
                    let (mut s, mut v) = ($init.clone(), $init.clone());
                    scalar::$name(&m, &mut s $(, $arg)*);
                    on(kernel, || $name(&m, &mut v $(, $arg)*));
                    prop_assert_eq!(&s, &v, "{}", stringify!($name));
                    let slow: Vec<u64> = (0..s.len()).map($slow).collect();
                    prop_assert_eq!(&s, &slow, "{}", stringify!($name));
                }};
            }
            let wide = |x: u64| u128::from(x);
            both!(add_assign(&b), a, |i| big(wide(a[i]) + wide(b[i])));
            both!(sub_assign(&b), a, |i| big(wide(a[i]) + wide(q) - wide(b[i])));
            both!(sum_and_difference(&mut b.clone()), a, |i| big(wide(a[i]) + wide(b[i])));
            let mut difference = b.clone();
            on(kernel, || sum_and_difference(&m, &mut a.clone(), &mut difference));
            let slow: Vec<u64> = (0..n).map(|i| big(wide(a[i]) + wide(q) - wide(b[i]))).collect();
            prop_assert_eq!(&difference, &slow, "sum_and_difference");
            both!(neg_assign(), a, |i| big(wide(q) - wide(a[i])));
            both!(mul_assign(&b), a, |i| big(wide(a[i]) * wide(b[i])));
            both!(mul_into(&b, &c), a, |i| big(wide(b[i]) * wide(c[i])));
            both!(mul_add_assign(&b, &c), a, |i| big(wide(a[i]) + wide(b[i]) * wide(c[i])));
            both!(mul_constant_add(&word, w), a, |i| big(wide(a[i]) + wide(word[i]) * wide(w.value)));
            both!(add_constant(w.value), a, |i| big(wide(a[i]) + wide(w.value)));
            both!(mul_constant_assign(w), word, |i| big(wide(word[i]) * wide(w.value)));

            let signed: Vec<i64> = (0..n).map(|i| [rng.next_u64() as i64, i64::MIN, i64::MAX, -(b[i] as i64)][i % 4]).collect();
            both!(signed_into(&signed), a, |i| i128::from(signed[i]).rem_euclid(i128::from(q)) as u64);

            let xs: Vec<_> = (0..terms).map(|_| limb(&mut rng, n, 1 << 50)).collect();
            let x: Vec<&[u64]> = xs.iter().map(|x| &x[..]).collect();
            let k: Vec<u64> = (0..terms).map(|_| rng.next_u64() % q).collect();
            let rows = Rows::Wide(x.clone());
            let by = (&k[..], w.value);
            both!(combine_into(&rows, by), a, |i| big((0..terms).map(|j| wide(xs[j][i]) * wide(k[j])).sum::<u128>() + wide(w.value)));
            let short: Vec<Vec<u32>> = xs.iter().map(|x| x.iter().map(|&x| x as u32).collect()).collect();
            let narrow = Rows::Narrow(short.iter().map(|x| &x[..]).collect());
            both!(combine_into(&narrow, by), a, |i| big((0..terms).map(|j| wide(u64::from(short[j][i])) * wide(k[j])).sum::<u128>() + wide(w.value)));

            let other = Modulus::new(primes::largest(bits, 1 << 11, &[q]).unwrap()).unwrap();
            let k1: Vec<u64> = (0..terms).map(|_| rng.next_u64() % other.value()).collect();
            for rows in [&rows, &narrow] {
                let mut out = [a.clone(), a.clone(), a.clone(), a.clone()];
                let [s0, s1, v0, v1] = &mut out;
                scalar::combine_into(&m, s0, rows, by);
                scalar::combine_into(&other, s1, rows, (&k1, 1));
                on(kernel, || combine_pair_into([&m, &other], v0, v1, rows, [by, (&k1, 1)]));
                prop_assert!(s0 == v0 && s1 == v1);
            }

            {
                let log_n = 3 + n as u32 % 4;
                let n = 1 << log_n;
                let b = limb(&mut rng, n, q);
                let permutation = Permutation::of_automorphism(log_n, u64::from(rng.next_u32()) | 1);
                let picked = |i: usize| b[permutation.indices()[i] as usize];
                let (mut s, mut v) = (vec![0; n], vec![0; n]);
                scalar::gather_into(&mut s, &b, &permutation);
                on(kernel, || gather_into(&mut v, &b, &permutation));
                prop_assert!(s == v && (0..n).all(|i| s[i] == picked(i)));
            }

            let rs: Vec<_> = (0..2 * terms).map(|_| limb(&mut rng, n, q)).collect();
            let rounded: Vec<&[u64]> = rs.iter().map(|x| &x[..]).collect();
            let (x, y) = rounded.split_at(terms);
            let factors: Vec<Constant> = k.iter().map(|&k| m.constant(k)).collect();
            let products: Vec<Term> = (0..terms).map(|j| (factors[j], x[j], y[j])).collect();
            both!(sum_of_products_into(&products), a, |i| {
                big((0..terms).map(|j| wide(k[j]) * wide(big(wide(x[j][i]) * wide(y[j][i])))).sum())
            });
            let (stride, short) = ([1, 2, 4, 8, 32][n % 5], 8);
            let long: Vec<_> = (0..2 * terms).map(|_| limb(&mut rng, stride * short, q)).collect();
            let long: Vec<&[u64]> = long.iter().map(|x| &x[..]).collect();
            let few: Vec<_> = (0..terms).map(|_| limb(&mut rng, short, q)).collect();
            let few: Vec<&[u64]> = few.iter().map(|x| &x[..]).collect();
            let (y, z) = long.split_at(terms);
            let mut out = [(); 4].map(|()| vec![0; stride * short]);
            let [s0, s1, v0, v1] = &mut out;
            scalar::inner_products_short_into(&m, s0, s1, &few, y, z);
            on(kernel, || inner_products_short_into(&m, v0, v1, &few, y, z));
            prop_assert!(s0 == v0 && s1 == v1);
            for i in 0..stride * short {
                let x = |j: usize| wide(m.montgomery(wide(few[j][i / stride])));
                prop_assert_eq!(s0[i], big((0..terms).map(|j| x(j) * wide(y[j][i])).sum()));
                prop_assert_eq!(s1[i], big((0..terms).map(|j| x(j) * wide(z[j][i])).sum()));
            }

            // Residues taken from a stream, with room for some of them or for all.
            for room in [3, 16, 200] {
                let mut drawn = vec![0; 8 * 64];
                rng.fill_bytes(&mut drawn);
                let mut out = [(); 2].map(|()| vec![0; room]);
                let [s, v] = &mut out;
                let taken = scalar::take_residues(q, s, &drawn);
                prop_assert_eq!(on(kernel, || take_residues(q, v, &drawn)), taken);
                prop_assert!(s[..taken] == v[..taken]);
                let width = (m.bits() as usize).div_ceil(8);
                let words = drawn.chunks_exact(width).map(|w| w.iter().rev().fold(0, |x, b| x << 8 | u64::from(*b)));
                let below = words.map(|w| w % (1 << m.bits())).filter(|w| *w < q).take(room);
                prop_assert!(below.eq(s[..taken].iter().copied()));
            }

            // Sums over pairs, more of them stored than used, with addends or without.
            let len = 8 * (n % 5 + 1);
            let limbs: Vec<_> = (0..3 * terms + 8).map(|_| limb(&mut rng, len, q)).collect();
            let (used, (x, yz)) = (terms - seed as usize % terms, limbs.split_at(terms));
            // The range in which a lazy transform leaves its values.
            let x: Vec<_> = (x[..used].iter()).map(|_| limb(&mut rng, len, 1 << on(kernel, || m.lazy_bits()))).collect();
            let x: Vec<&[u64]> = x.iter().map(|x| &x[..]).collect();
            let stored: Vec<(&[u64], &[u64])> = (0..terms).map(|j| (&yz[j][..], &yz[terms + j][..])).collect();
            let whole = LimbPairs::new(&m, &stored);
            let (firsts, mut seconds) = (whole.clone().into_firsts(), yz[terms..2 * terms].to_vec());
            seconds.iter_mut().for_each(|z| montgomery_assign(&m, z));
            let seconds: Vec<&[u64]> = seconds.iter().map(|z| &z[..]).collect();
            let pairs = match seed % 5 {
                0 => firsts.with_seconds(&seconds),
                1 => whole.with_seconds(&seconds),
                _ => whole.whole(),
            };
            let [p, r, s, t] = std::array::from_fn(|i| [&yz[2 * terms + 2 * i][..], &yz[2 * terms + 2 * i + 1][..]]);
            let plus = if seed % 3 == 0 { AccumulatorTerms::default() } else {
                AccumulatorTerms {
                    products: vec![(w, p, r), (m.constant(1), r, s)],
                    multiples: [vec![(w.value, t[0])], vec![(q - 1, t[1]), (w.value, p[0])]],
                    constant: w.value,
                }
            };
            let mut out = [(); 4].map(|()| vec![0; len]);
            let [s0, s1, v0, v1] = &mut out;
            on(kernel, || scalar::pair_products_into(&m, s0, s1, &x, pairs, &plus, Destination::default()));
            on(kernel, || pair_products_into(&m, v0, v1, &x, pairs, &plus, Destination::default()));
            prop_assert!(s0 == v0 && s1 == v1);
            let automorphism = len
                .is_power_of_two()
                .then(|| Permutation::of_automorphism(len.trailing_zeros(), seed | 1));
            for (to, mode) in [Mode::Write, Mode::Add, Mode::Subtract]
                .into_iter()
                .flat_map(|mode| [(None, mode), (automorphism.as_ref(), mode)])
            {
                // The old content of the outputs.
                let (b0, b1) = (t[0], t[1]);
                let mut moved = [b0.to_vec(), b1.to_vec(), b0.to_vec(), b1.to_vec()];
                let [m0, m1, n0, n1] = &mut moved;
                on(kernel, || scalar::pair_products_into(&m, m0, m1, &x, pairs, &plus, Destination { permutation: to, mode }));
                on(kernel, || pair_products_into(&m, n0, n1, &x, pairs, &plus, Destination { permutation: to, mode }));
                for i in 0..len {
                    let from = to.map_or(i, |to| to.indices()[i] as usize);
                    let want = |before: u64, sum: u64| match mode {
                        Mode::Write => sum,
                        Mode::Add => (before + sum) % q,
                        Mode::Subtract => (before + q - sum) % q,
                    };
                    prop_assert!(m0[i] == want(b0[i], s0[from]) && m1[i] == want(b1[i], s1[from]));
                }
                prop_assert!(m0 == n0 && m1 == n1);
            }
            for i in 0..len {
                let mut want = [wide(plus.constant), 0];
                for (x, (y, z)) in x.iter().zip(&stored) {
                    want = [want[0] + wide(x[i]) * wide(y[i]), want[1] + wide(x[i]) * wide(z[i])];
                }
                for (k, x, y) in &plus.products {
                    let k = |a: u64, b: u64| wide(k.value) * wide(big(wide(a) * wide(b)));
                    want = [want[0] + k(x[0][i], y[0][i]), want[1] + k(x[0][i], y[1][i]) + k(x[1][i], y[0][i])];
                }
                for (want, multiples) in want.iter_mut().zip(&plus.multiples) {
                    *want += multiples.iter().map(|(k, x)| wide(*k) * wide(x[i])).sum::<u128>();
                }
                prop_assert_eq!([s0[i], s1[i]], want.map(big));
            }

            // The base-2ʷ decomposition of integers of several words.
            let (words, len) = (1 + (seed % 16) as usize, 8 * (n % 5) + n % 2);
            let mut word = |bound: u64| rng.next_u64() % bound;
            let digits = (0..words as u32 * 52 / 50).map(|t| (50 * t + t % 2, 1 + (7 * t + 40) % 47)).collect::<Vec<_>>();
            let radix = Radix {
                scale: vec![1; terms],
                weight: vec![1.0 / q as f64; terms],
                factors: (0..words).map(|_| (0..=terms).map(|_| word(1 << 52)).collect()).collect(),
                start: (0..words).map(|_| word(1 << 52)).collect(),
                digits,
            };
            let rows: Vec<_> = (0..terms.max(radix.digits())).map(|_| limb(&mut rng, len, 1 << 50)).collect();
            let (mut s, mut v) = (rows.clone(), rows);
            scalar::split_in_place(&mut s.iter_mut().map(|row| &mut row[..]).collect::<Vec<_>>(), &radix);
            on(kernel, || split_in_place(&mut v.iter_mut().map(|row| &mut row[..]).collect::<Vec<_>>(), &radix));
            prop_assert_eq!(s, v);

            let f: Vec<f64> = k.iter().map(|&k| k as f64 / (q as f64 * (1u64 << 50) as f64)).collect();
            for rows in [&Rows::Wide(rounded[..terms].to_vec()), &narrow] {
                let (mut s, mut v) = (a.clone(), a.clone());
                scalar::rounded_sum_into(&mut s, rows, &f);
                on(kernel, || rounded_sum_into(&mut v, rows, &f));
                prop_assert_eq!(s, v);
            }
            }
        }
    }

    /// Sums are exact on both sides of the number of terms that the accumulators hold, with all factors at
    /// their largest.
    #[test]
    fn sums_of_many_products_are_exact() {
        let len = 9;
        for bits in [17, 32, 44, 50] {
            let q = primes::largest(bits, 1 << 11, &[]).unwrap();
            let m = Modulus::new(q).unwrap();
            let last = vec![q - 1; len];
            // The largest factor, and the factor whose Montgomery form is the largest.
            for k in [q - 1, m.montgomery(u128::from(q - 1))] {
                for terms in [0, 1, 13, 14, 15, 16, 17, 1023, 1024, 1025, 3000] {
                    let products: Vec<Term> = vec![(m.constant(k), &last[..], &last[..]); terms];
                    // (−1)·(−1)·k each.
                    let want = (terms as u128 * u128::from(k) % u128::from(q)) as u64;
                    let (mut twin, mut out) = (vec![1; len], vec![2; len]);
                    scalar::sum_of_products_into(&m, &mut twin, &products);
                    for kernel in available() {
                        on(kernel, || sum_of_products_into(&m, &mut out, &products));
                        assert!(twin.iter().chain(&out).all(|&x| x == want), "{terms} terms of {bits} bits");
                    }
                }
            }
        }
    }

    /// Words of every width in bytes are accepted below the prime and rejected from the prime on.
    #[test]
    fn residues_are_taken_below_the_prime() {
        for bits in 20..=Modulus::MAX_BITS {
            let q = primes::largest(bits, 1 << 11, &[]).unwrap();
            // Bits above the size of the prime are masked, where the width in bytes has any.
            let width = bits.div_ceil(8) as usize;
            let above = if bits % 8 == 0 { 0 } else { 1u64 << bits };
            let words =
                [0, q - 1, q, q + 1, (1 << bits) - 1, above | 5, above | (q - 1), above | q, 7, q - 2];
            let drawn: Vec<u8> =
                words.iter().flat_map(|w| w.to_le_bytes()[..width].to_vec()).collect::<Vec<_>>().repeat(5);
            let want: Vec<u64> = [0, q - 1, 5, q - 1, 7, q - 2].repeat(5);
            for room in [4, 30, 40] {
                let taken = room.min(want.len());
                let (mut twin, mut out) = (vec![0; room], vec![0; room]);
                assert_eq!(scalar::take_residues(q, &mut twin, &drawn), taken);
                for kernel in available() {
                    assert_eq!(on(kernel, || take_residues(q, &mut out, &drawn)), taken);
                    assert!(twin[..taken] == want[..taken] && out[..taken] == want[..taken], "{bits} bits");
                }
            }
        }
    }

    /// Operands that are too short are refused, so that no kernel reads past their end.
    #[test]
    fn short_operands_are_refused() {
        let m = Modulus::new(primes::largest(40, 1 << 11, &[]).unwrap()).unwrap();
        let (long, short) = (vec![1u64; 16], vec![1u64; 8]);
        let refuses =
            |f: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
        let sum = |x: &[u64], y: &[u64]| {
            let products = [(m.constant(3), &long[..], &long[..]), (m.constant(3), x, y)];
            refuses(&mut || sum_of_products_into(&m, &mut [0; 16], &products))
        };
        assert!(!sum(&long, &long) && sum(&short, &long) && sum(&long, &short));
        let pairs = LimbPairs::new(&m, &[(&long, &long)]);
        assert!(refuses(&mut || _ = pairs.clone().into_firsts().whole()));
        assert!(refuses(&mut || _ = pairs.with_seconds(&[&short])));
        assert!(!refuses(&mut || _ = pairs.with_seconds(&[&long])));
        let pairs = pairs.whole();
        let product = |x: &[u64], log_n: u32| {
            let to = Permutation::of_automorphism(log_n, 3);
            let target = Destination { permutation: Some(&to), mode: Mode::Add };
            let (mut out0, mut out1) = ([0; 16], [0; 16]);
            refuses(&mut || {
                pair_products_into(
                    &m,
                    &mut out0,
                    &mut out1,
                    &[x],
                    pairs,
                    &AccumulatorTerms::default(),
                    target,
                );
            })
        };
        assert!(!product(&long, 4) && product(&short, 4) && product(&long, 3) && product(&long, 5));
    }
}
