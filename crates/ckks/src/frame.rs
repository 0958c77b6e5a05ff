//! The binary frame of ciphertexts and keys, in transit and at rest.
//!
//! ```text
//! offset  bytes  field
//!      0      4  magic "CKKS"
//!      4      2  version, little-endian like all numbers
//!      6      1  kind
//!      7      1  zero
//!      8     16  parameter fingerprint
//!     24     16  key id
//!     40      2  level
//!     42      2  number of polynomials
//!     44      4  Galois element of a key-switch key; number of coefficients of a partial or truncated
//!                ciphertext; number of a key of a ring switch; 0 for relinearisation and all other kinds
//!     48      8  scale, IEEE 754
//!     56      …  seed (32 bytes, if the kind has one), then limb after limb; each residue has as many bits
//!                as its prime, least significant bit first
//!   end−32   32  BLAKE3 hash of all bytes before
//! ```
//! The digest detects accidental changes; it does not authenticate. Readers check the header and the length,
//! which follows from the header, before they allocate, so that memory is bounded by the size of the input.

use crate::{
    Ciphertext, Error, Fingerprint, Gadget, GaloisElement, KeyId, KeySwitchKey, Op, Params, PublicKey,
};
use rayon::prelude::*;
use rns::sample::{self, Seed};
use rns::{Basis, Coeff, Ntt, Poly};

/// The first bytes of every frame.
pub const FRAME_MAGIC: [u8; 4] = *b"CKKS";
/// The format version that is written and read.
pub const FRAME_VERSION: u16 = 2;
/// Bytes of the header.
pub const FRAME_HEADER_BYTES: usize = 56;
/// Bytes of the digest behind the payload.
pub const FRAME_DIGEST_BYTES: usize = 32;
const SEED_BYTES: usize = 32;

/// The kind of object in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Both polynomials of a ciphertext.
    Ciphertext = 1,
    /// c₀ of a ciphertext and the seed of c₁. Such a ciphertext was encrypted under the secret key, and has
    /// half the size.
    SeededCiphertext = 2,
    /// b of a public key and the seed of a.
    PublicKey = 3,
    /// bⱼ of every digit of a key-switch key and the seed of all aⱼ.
    KeySwitchKey = 4,
    /// A secret key, which only `ckks-secret` reads and writes.
    SecretKey = 5,
    /// The first coefficients of c₀ of a ciphertext, and the seed of c₁.
    PartialCiphertext = 6,
    /// As a key-switch key, for one of the keys of a [`crate::RingSwitch`].
    RingSwitchKey = 7,
    /// The first coefficients of c₀ of a ciphertext that was encrypted under the public key, and all of c₁,
    /// which no seed stands for.
    TruncatedCiphertext = 8,
}

/// The fields of a header that depend on its object. Two are equal if their bytes are: a scale of −0, which
/// is never written, is not 0.
#[derive(Debug, Clone, Copy)]
pub struct FrameHeader {
    /// The kind of the object.
    pub kind: FrameKind,
    /// The level of the polynomials.
    pub level: usize,
    /// Number of polynomials.
    pub parts: usize,
    /// The exponent of the Galois element, the number of coefficients of a partial or truncated
    /// ciphertext, the number of a key of a ring switch, or 0.
    pub element: u64,
    /// The scale, or 0 for keys.
    pub scale: f64,
}

impl PartialEq for FrameHeader {
    fn eq(&self, other: &Self) -> bool {
        let fields = |h: &Self| (h.kind, h.level, h.parts, h.element, h.scale.to_bits());
        fields(self) == fields(other)
    }
}

/// Writes a frame with this header. `payload` appends the payload, about `size` bytes.
pub fn write_frame(
    params: &Params,
    key: KeyId,
    header: FrameHeader,
    size: usize,
    payload: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_HEADER_BYTES + size + FRAME_DIGEST_BYTES);
    out.extend(FRAME_MAGIC);
    out.extend(FRAME_VERSION.to_le_bytes());
    out.extend([header.kind as u8, 0]);
    out.extend(params.fingerprint().0);
    out.extend(key.0);
    out.extend((header.level as u16).to_le_bytes());
    out.extend((header.parts as u16).to_le_bytes());
    out.extend((header.element as u32).to_le_bytes());
    out.extend(header.scale.to_le_bytes());
    payload(&mut out);
    let digest = blake3::Hasher::new().update_rayon(&out).finalize();
    out.extend(digest.as_bytes());
    out
}

/// Checks magic number, version, kind, parameters, the key id if `key` is given, the level and the digest of
/// a frame. Returns its header, key id and payload.
///
/// # Errors
/// [`Error::BadFrame`], [`Error::Version`], [`Error::WrongParams`] or [`Error::WrongKey`], by the field that
/// is wrong.
pub fn read_frame<'a>(
    params: &Params,
    key: Option<KeyId>,
    kinds: &[FrameKind],
    bytes: &'a [u8],
) -> Result<(FrameHeader, KeyId, &'a [u8]), Error> {
    if bytes.len() < FRAME_HEADER_BYTES + FRAME_DIGEST_BYTES {
        return Err(Error::BadFrame("it is shorter than a header and a digest"));
    }
    let mut at = 0;
    fn take<const K: usize>(bytes: &[u8], at: &mut usize) -> [u8; K] {
        let mut out = [0; K];
        out.copy_from_slice(&bytes[*at..*at + K]);
        *at += K;
        out
    }
    if take::<4>(bytes, &mut at) != FRAME_MAGIC {
        return Err(Error::BadFrame("it does not begin with the magic number of this format"));
    }
    let version = u16::from_le_bytes(take(bytes, &mut at));
    if version != FRAME_VERSION {
        return Err(Error::Version { got: version, want: FRAME_VERSION });
    }
    let [kind, zero] = take::<2>(bytes, &mut at);
    let kind = kinds
        .iter()
        .copied()
        .find(|&k| k as u8 == kind)
        .ok_or(Error::BadFrame("it is a frame of another kind"))?;
    if zero != 0 {
        return Err(Error::BadFrame("its reserved byte is not zero"));
    }
    let fingerprint = Fingerprint(take(bytes, &mut at));
    if fingerprint != params.fingerprint() {
        return Err(Error::WrongParams {
            got: fingerprint.to_string(),
            want: params.fingerprint().to_string(),
        });
    }
    let id = KeyId(take(bytes, &mut at));
    if let Some(want) = key.filter(|&want| want != id) {
        return Err(Error::WrongKey { got: id.to_string(), want: want.to_string() });
    }
    let level = usize::from(u16::from_le_bytes(take(bytes, &mut at)));
    let parts = usize::from(u16::from_le_bytes(take(bytes, &mut at)));
    let element = u64::from(u32::from_le_bytes(take(bytes, &mut at)));
    let scale = f64::from_le_bytes(take(bytes, &mut at));
    if level > params.max_level() {
        return Err(Error::BadFrame("its level is above the top level of the parameters"));
    }
    let end = bytes.len() - FRAME_DIGEST_BYTES;
    // The digest comes last, because it costs more than all other checks.
    let digest = blake3::Hasher::new().update_rayon(&bytes[..end]).finalize();
    if digest.as_bytes()[..] != bytes[end..] {
        return Err(Error::BadFrame("its digest does not match: bytes were changed or lost on the way"));
    }
    Ok((FrameHeader { kind, level, parts, element, scale }, id, &bytes[FRAME_HEADER_BYTES..end]))
}

/// Bytes of one polynomial over `basis`.
fn poly_bytes(basis: &Basis) -> usize {
    limb_bytes(basis).sum()
}

/// Bytes of a ciphertext frame at `level`.
pub fn ciphertext_bytes(params: &Params, level: usize, seeded: bool) -> usize {
    let body = poly_bytes(params.q_basis(level));
    FRAME_HEADER_BYTES + FRAME_DIGEST_BYTES + if seeded { SEED_BYTES + body } else { 2 * body }
}

/// Bytes of each limb over `basis`: n·bits/8, where n is a multiple of 64.
fn limb_bytes(basis: &Basis) -> impl Iterator<Item = usize> {
    (0..basis.len()).map(|i| basis.modulus(i).bits() as usize * basis.n() / 8)
}

fn pack(out: &mut Vec<u8>, basis: &Basis, poly: &Poly<Ntt>) {
    let start = out.len();
    out.resize(start + poly_bytes(basis), 0);
    let mut rest = &mut out[start..];
    let mut limbs = Vec::with_capacity(basis.len());
    for (i, size) in limb_bytes(basis).enumerate() {
        let (limb, after) = rest.split_at_mut(size);
        limbs.push((basis.modulus(i).bits(), poly.limb(i), limb));
        rest = after;
    }
    limbs.into_par_iter().for_each(|(bits, limb, out)| {
        if bits == 32 {
            out.chunks_exact_mut(4)
                .zip(limb)
                .for_each(|(o, &x)| o.copy_from_slice(&(x as u32).to_le_bytes()));
            return;
        }
        let mut words = out.chunks_exact_mut(8);
        let (mut word, mut filled) = (0u128, 0);
        for &x in limb {
            word |= u128::from(x) << filled;
            filled += bits;
            if filled >= 64 {
                words.next().into_iter().for_each(|w| w.copy_from_slice(&(word as u64).to_le_bytes()));
                word >>= 64;
                filled -= 64;
            }
        }
    });
}

fn unpack(bytes: &[u8], basis: &Basis) -> Result<Poly<Ntt>, Error> {
    let mut starts = vec![0];
    for (i, size) in limb_bytes(basis).enumerate() {
        starts.push(starts[i] + size);
    }
    if starts[basis.len()] != bytes.len() {
        return Err(Error::BadFrame("its length does not follow from its header"));
    }
    let mut out = Poly::<Ntt>::scratch(basis.n(), basis.len());
    let bad = std::sync::atomic::AtomicUsize::new(usize::MAX);
    out.for_each_limb(|i, limb| {
        let (bits, q) = (basis.modulus(i).bits(), basis.modulus(i).value());
        let bytes = &bytes[starts[i]..starts[i + 1]];
        let largest = if bits == 32 { unpack_words(bytes, limb) } else { unpack_bits(bytes, bits, limb) };
        if largest >= q {
            bad.fetch_min(i, std::sync::atomic::Ordering::Relaxed);
        }
    });
    match bad.into_inner() {
        usize::MAX => Ok(out),
        limb => Err(Error::ResidueTooLarge { limb }),
    }
}

/// Unpacks residues of 32 bits and returns the largest.
fn unpack_words(bytes: &[u8], limb: &mut [u64]) -> u64 {
    let mut largest = 0;
    for (x, word) in limb.iter_mut().zip(bytes.as_chunks().0) {
        let word = u32::from_le_bytes(*word);
        largest = largest.max(word);
        *x = u64::from(word);
    }
    largest.into()
}

/// Unpacks residues of `bits` ≤ [`Modulus::MAX_BITS`] bits and returns the largest.
fn unpack_bits(bytes: &[u8], bits: u32, limb: &mut [u64]) -> u64 {
    // Eight residues fill whole bytes, and each is within the eight bytes from the one where it begins.
    const GROUP: usize = 8;
    let (bits, mask) = (bits as usize, (1u64 << bits) - 1);
    let places: [(usize, usize); GROUP] = std::array::from_fn(|k| (k * bits / 8, k * bits % 8));
    let mut largest = 0;
    for (xs, group) in limb.chunks_exact_mut(GROUP).zip(bytes.chunks_exact(bits)) {
        let mut padded = [0; 64];
        padded[..bits].copy_from_slice(group);
        for (x, (byte, shift)) in xs.iter_mut().zip(places) {
            let word = padded[byte..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            *x = word >> shift & mask;
            largest = largest.max(*x);
        }
    }
    largest
}

fn ciphertext_header(kind: FrameKind, level: usize, scale: f64) -> FrameHeader {
    let parts = if kind == FrameKind::Ciphertext { 2 } else { 1 };
    FrameHeader { kind, level, parts, element: 0, scale }
}

/// Writes a ciphertext with both its polynomials.
pub fn write_ciphertext(params: &Params, key: KeyId, ct: &Ciphertext) -> Vec<u8> {
    let header = ciphertext_header(FrameKind::Ciphertext, ct.level, ct.scale);
    write_frame(params, key, header, 2 * poly_bytes(params.q_basis(ct.level)), |out| {
        pack(out, params.q_basis(ct.level), &ct.c0);
        pack(out, params.q_basis(ct.level), &ct.c1);
    })
}

/// Writes a ciphertext whose c₁ is expanded from `seed` by [`uniform_c1`].
pub fn write_seeded_ciphertext(
    params: &Params,
    key: KeyId,
    c0: &Poly<Ntt>,
    seed: &Seed,
    level: usize,
    scale: f64,
) -> Vec<u8> {
    let header = ciphertext_header(FrameKind::SeededCiphertext, level, scale);
    write_frame(params, key, header, SEED_BYTES + poly_bytes(params.q_basis(level)), |out| {
        out.extend(seed);
        pack(out, params.q_basis(level), c0);
    })
}

/// The polynomial c₁ of a seeded ciphertext at `level`.
pub fn uniform_c1(params: &Params, level: usize, seed: &Seed) -> Poly<Ntt> {
    let mut out = Poly::scratch(params.n(), level + 1);
    out.for_each_limb(|i, limb| uniform_c1_limb(params, i, seed, limb));
    out
}

/// Limb `i` of [`uniform_c1`], which is the same at every level.
pub fn uniform_c1_limb(params: &Params, i: usize, seed: &Seed, limb: &mut [u64]) {
    sample::uniform_limb(params.q_basis(i).modulus(i), i, seed, limb);
}

/// Reads a ciphertext of either kind, which must be at `level` and its canonical scale.
///
/// # Errors
/// As [`read_frame`]; [`Error::WrongLevel`] for another level or scale, [`Error::ResidueTooLarge`], and
/// [`Error::OutOfLevels`] if the parameters have no such level.
pub fn read_ciphertext(params: &Params, key: KeyId, level: usize, bytes: &[u8]) -> Result<Ciphertext, Error> {
    params.check_level(Op::Encrypt, level)?;
    read_scaled_ciphertext(params, key, level, params.scale(level), bytes)
}

/// As [`read_ciphertext`], for a ciphertext at `scale`.
///
/// # Errors
/// As [`read_ciphertext`].
pub fn read_scaled_ciphertext(
    params: &Params,
    key: KeyId,
    level: usize,
    scale: f64,
    bytes: &[u8],
) -> Result<Ciphertext, Error> {
    let kinds = [FrameKind::Ciphertext, FrameKind::SeededCiphertext];
    let (kind, payload) = read_payload(params, key, level, scale, &kinds, bytes)?;
    let basis = params.q_basis(level);
    let (c0, c1) = if kind == FrameKind::SeededCiphertext {
        let (seed, body) = split_seed(payload)?;
        (unpack(body, basis)?, uniform_c1(params, level, &seed))
    } else {
        let (first, second) = payload.split_at(payload.len() / 2);
        (unpack(first, basis)?, unpack(second, basis)?)
    };
    Ok(Ciphertext { c0, c1, level, scale })
}

/// c₀ and the seed of c₁ of a ciphertext at `level` and `scale`.
pub(crate) fn read_seeded_ciphertext(
    params: &Params,
    key: KeyId,
    level: usize,
    scale: f64,
    bytes: &[u8],
) -> Result<(Poly<Ntt>, Seed), Error> {
    let (_, payload) = read_payload(params, key, level, scale, &[FrameKind::SeededCiphertext], bytes)?;
    let (seed, body) = split_seed(payload)?;
    Ok((unpack(body, params.q_basis(level))?, seed))
}

/// Kind and payload of the frame of a ciphertext.
fn read_payload<'a>(
    params: &Params,
    key: KeyId,
    level: usize,
    scale: f64,
    kinds: &[FrameKind],
    bytes: &'a [u8],
) -> Result<(FrameKind, &'a [u8]), Error> {
    params.check_level(Op::Encrypt, level)?;
    // Longer input is refused before anything is hashed.
    if bytes.len() > ciphertext_bytes(params, level, false) {
        return Err(Error::BadFrame("it is longer than a ciphertext of the expected level"));
    }
    let (header, _, payload) = read_frame(params, Some(key), kinds, bytes)?;
    if header.level != level || header.scale.to_bits() != scale.to_bits() {
        let (got_level, got_scale) = (header.level, header.scale.log2());
        return Err(Error::WrongLevel { got_level, got_scale, want_level: level });
    }
    let seeded = header.kind == FrameKind::SeededCiphertext;
    if header != ciphertext_header(header.kind, level, scale) {
        return Err(Error::BadFrame("a header field does not belong to a ciphertext"));
    }
    if payload.len() + FRAME_HEADER_BYTES + FRAME_DIGEST_BYTES != ciphertext_bytes(params, level, seeded) {
        return Err(Error::BadFrame("its length does not follow from its header"));
    }
    Ok((header.kind, payload))
}

fn partial_header(level: usize, count: usize, scale: f64) -> FrameHeader {
    FrameHeader { kind: FrameKind::PartialCiphertext, level, parts: 1, element: count as u64, scale }
}

/// Bytes of `count` residues of each limb over `basis`.
fn partial_limb_bytes(basis: &Basis, count: usize) -> impl Iterator<Item = usize> {
    (0..basis.len()).map(move |i| (basis.modulus(i).bits() as usize * count).div_ceil(8))
}

/// Bytes of the frame of the first `count` coefficients of a ciphertext at `level`.
pub fn partial_ciphertext_bytes(params: &Params, level: usize, count: usize) -> usize {
    let body: usize = partial_limb_bytes(params.q_basis(level), count).sum();
    FRAME_HEADER_BYTES + SEED_BYTES + body + FRAME_DIGEST_BYTES
}

/// Writes the coefficients of c₀ at `places`, and the seed that c₁ is expanded from by [`uniform_c1`]. Only
/// these coefficients of the message can be decrypted.
pub fn write_partial_ciphertext(
    params: &Params,
    key: KeyId,
    c0: &Poly<Coeff>,
    places: impl ExactSizeIterator<Item = usize> + Clone,
    seed: &Seed,
    level: usize,
    scale: f64,
) -> Vec<u8> {
    let size = partial_ciphertext_bytes(params, level, places.len());
    write_frame(params, key, partial_header(level, places.len(), scale), size, |out| {
        out.extend(seed);
        pack_partial(out, params.q_basis(level), c0, places);
    })
}

/// Reads the coefficients at `places` of a ciphertext at `level` and `scale`, in the order in which they were
/// written. The other coefficients of c₀ are 0, and those of the message are noise as wide as the modulus.
///
/// # Errors
/// As [`read_ciphertext`]; [`Error::BadFrame`] for another number of coefficients;
/// [`Error::CoefficientCount`] for a place that is not below N.
pub fn read_partial_ciphertext(
    params: &Params,
    key: KeyId,
    level: usize,
    scale: f64,
    places: impl ExactSizeIterator<Item = usize> + Clone,
    bytes: &[u8],
) -> Result<Ciphertext, Error> {
    let (seed, c0) = read_partial_coefficients(params, key, level, scale, places, bytes)?;
    let c0 = c0.into_ntt(params.q_basis(level));
    Ok(Ciphertext { c0, c1: uniform_c1(params, level, &seed), level, scale })
}

/// The seed and c₀ of [`read_partial_ciphertext`].
pub(crate) fn read_partial_coefficients(
    params: &Params,
    key: KeyId,
    level: usize,
    scale: f64,
    places: impl ExactSizeIterator<Item = usize> + Clone,
    bytes: &[u8],
) -> Result<(Seed, Poly<Coeff>), Error> {
    params.check_level(Op::Encrypt, level)?;
    let (count, max) = (places.len(), params.n());
    if let Some(got) = places.clone().find(|place| *place >= max) {
        return Err(Error::CoefficientCount { got: got + 1, max });
    }
    let size = partial_ciphertext_bytes(params, level, count);
    let payload = read_first_coefficients(params, key, partial_header(level, count, scale), size, bytes)?;
    let (seed, body) = split_seed(payload)?;
    Ok((seed, unpack_partial(body, params.q_basis(level), places)?))
}

fn truncated_header(level: usize, count: usize, scale: f64) -> FrameHeader {
    FrameHeader { kind: FrameKind::TruncatedCiphertext, parts: 2, ..partial_header(level, count, scale) }
}

/// Bytes of the frame of c₁ and the first `count` coefficients of c₀ of a ciphertext at `level`.
pub fn truncated_ciphertext_bytes(params: &Params, level: usize, count: usize) -> usize {
    partial_ciphertext_bytes(params, level, count) - SEED_BYTES + poly_bytes(params.q_basis(level))
}

/// Writes c₁ and the first `count` coefficients of c₀ of `ct`, the only coefficients of the message that can
/// then be decrypted.
pub fn write_truncated_ciphertext(params: &Params, key: KeyId, ct: &Ciphertext, count: usize) -> Vec<u8> {
    let (level, basis) = (ct.level, params.q_basis(ct.level));
    let size = truncated_ciphertext_bytes(params, level, count);
    let c0 = ct.c0.truncated(basis.len()).into_coeff(basis);
    write_frame(params, key, truncated_header(level, count, ct.scale), size, |out| {
        pack(out, basis, &ct.c1);
        pack_partial(out, basis, &c0, 0..count);
    })
}

/// Reads c₁ and the first `count` coefficients of c₀ of a ciphertext at `level` and `scale`, as
/// [`read_partial_ciphertext`].
///
/// # Errors
/// As [`read_partial_ciphertext`].
pub fn read_truncated_ciphertext(
    params: &Params,
    key: KeyId,
    level: usize,
    scale: f64,
    count: usize,
    bytes: &[u8],
) -> Result<Ciphertext, Error> {
    params.check_level(Op::Encrypt, level)?;
    let size = truncated_ciphertext_bytes(params, level, count);
    let payload = read_first_coefficients(params, key, truncated_header(level, count, scale), size, bytes)?;
    let basis = params.q_basis(level);
    let (c1, body) = payload.split_at(poly_bytes(basis));
    let c0 = unpack_partial(body, basis, 0..count)?.into_ntt(basis);
    Ok(Ciphertext { c0, c1: unpack(c1, basis)?, level, scale })
}

/// The payload of a frame of `size` bytes with exactly this header, of some coefficients of a ciphertext.
fn read_first_coefficients<'a>(
    params: &Params,
    key: KeyId,
    want: FrameHeader,
    size: usize,
    bytes: &'a [u8],
) -> Result<&'a [u8], Error> {
    let count = want.element as usize;
    if count > params.n() {
        return Err(Error::CoefficientCount { got: count, max: params.n() });
    }
    if bytes.len() != size {
        return Err(Error::BadFrame("its length is not that of the expected number of coefficients"));
    }
    let (header, _, payload) = read_frame(params, Some(key), &[want.kind], bytes)?;
    if header.level != want.level || header.scale.to_bits() != want.scale.to_bits() {
        let (got_level, got_scale) = (header.level, header.scale.log2());
        return Err(Error::WrongLevel { got_level, got_scale, want_level: want.level });
    }
    if header != want {
        return Err(Error::BadFrame("a header field does not belong to a partial ciphertext"));
    }
    Ok(payload)
}

fn pack_partial(
    out: &mut Vec<u8>,
    basis: &Basis,
    poly: &Poly<Coeff>,
    places: impl ExactSizeIterator<Item = usize> + Clone,
) {
    for (i, size) in partial_limb_bytes(basis, places.len()).enumerate() {
        let (bits, start) = (basis.modulus(i).bits() as usize, out.len());
        out.resize(start + size, 0);
        for (k, place) in places.clone().enumerate() {
            let x = poly.limb(i)[place];
            // A residue has at most 62 bits, so that it fills part of at most nine bytes.
            let (byte, shift) = (start + k * bits / 8, k * bits % 8);
            let word = (u128::from(x) << shift).to_le_bytes();
            out[byte..].iter_mut().zip(word).for_each(|(o, w)| *o |= w);
        }
    }
}

/// The polynomial whose coefficients at `places` [`pack_partial`] wrote, and whose others are 0.
fn unpack_partial(
    mut bytes: &[u8],
    basis: &Basis,
    places: impl ExactSizeIterator<Item = usize> + Clone,
) -> Result<Poly<Coeff>, Error> {
    let mut out = Poly::<Coeff>::zero(basis.n(), basis.len());
    for (i, size) in partial_limb_bytes(basis, places.len()).enumerate() {
        let (limb_bytes, rest) = bytes.split_at(size);
        bytes = rest;
        let (bits, q) = (basis.modulus(i).bits() as usize, basis.modulus(i).value());
        let mut used = 0;
        for (k, place) in places.clone().enumerate() {
            let x = &mut out.limb_mut(i)[place];
            let (byte, shift) = (k * bits / 8, k * bits % 8);
            let mut word = [0; 16];
            word.iter_mut().zip(&limb_bytes[byte..]).for_each(|(w, b)| *w = *b);
            *x = (u128::from_le_bytes(word) >> shift) as u64 & ((1 << bits) - 1);
            if *x >= q {
                return Err(Error::ResidueTooLarge { limb: i });
            }
            used = (k + 1) * bits;
        }
        if used % 8 != 0 && limb_bytes[size - 1] >> (used % 8) != 0 {
            return Err(Error::BadFrame("bits after its last coefficient are not zero"));
        }
    }
    Ok(out)
}

fn split_seed(payload: &[u8]) -> Result<(Seed, &[u8]), Error> {
    let (seed, body) =
        payload.split_first_chunk::<SEED_BYTES>().ok_or(Error::BadFrame("it is too short for a seed"))?;
    Ok((*seed, body))
}

/// Writes a public key.
pub fn write_public_key(params: &Params, key: &PublicKey) -> Vec<u8> {
    let basis = params.q_basis(params.max_level());
    write_frame(params, key.id(params), public_key_header(params), SEED_BYTES + poly_bytes(basis), |out| {
        out.extend(key.seed);
        pack(out, basis, &key.b);
    })
}

/// Bytes of the frame of a public key.
pub fn public_key_bytes(params: &Params) -> usize {
    let body = poly_bytes(params.q_basis(params.max_level()));
    FRAME_HEADER_BYTES + SEED_BYTES + body + FRAME_DIGEST_BYTES
}

fn public_key_header(params: &Params) -> FrameHeader {
    FrameHeader { kind: FrameKind::PublicKey, level: params.max_level(), parts: 1, element: 0, scale: 0.0 }
}

/// Reads a public key. The key id in the header must be the hash of the key.
///
/// # Errors
/// As [`read_frame`]; [`Error::ResidueTooLarge`].
pub fn read_public_key(params: &Params, bytes: &[u8]) -> Result<(PublicKey, KeyId), Error> {
    let (header, id, payload) = read_frame(params, None, &[FrameKind::PublicKey], bytes)?;
    if header != public_key_header(params) {
        return Err(Error::BadFrame("a header field does not belong to a public key"));
    }
    let (seed, body) = split_seed(payload)?;
    let key = PublicKey::new(params, unpack(body, params.q_basis(params.max_level()))?, seed);
    if key.id(params) != id {
        return Err(Error::WrongKey { got: id.to_string(), want: key.id(params).to_string() });
    }
    Ok((key, id))
}

/// Writes a key-switch key. `element` is its Galois element, or `None` for a relinearisation key.
pub fn write_key_switch_key(
    params: &Params,
    id: KeyId,
    element: Option<GaloisElement>,
    key: &KeySwitchKey,
) -> Vec<u8> {
    switch_key_frame(params, id, FrameKind::KeySwitchKey, element.map_or(0, GaloisElement::exponent), key)
}

/// Writes the key of a [`crate::RingSwitch`] with this number, under the parameters of the small ring.
pub fn write_ring_switch_key(params: &Params, id: KeyId, number: usize, key: &KeySwitchKey) -> Vec<u8> {
    switch_key_frame(params, id, FrameKind::RingSwitchKey, number as u64, key)
}

fn switch_key_frame(
    params: &Params,
    id: KeyId,
    kind: FrameKind,
    element: u64,
    key: &KeySwitchKey,
) -> Vec<u8> {
    let header = FrameHeader { kind, level: key.level(), parts: key.digits(), element, scale: 0.0 };
    let size = SEED_BYTES + key.digits() * poly_bytes(params.qp_basis(key.level()));
    write_frame(params, id, header, size, |out| {
        out.extend(key.seed());
        (0..key.digits()).for_each(|j| pack(out, params.qp_basis(key.level()), &key.b(params, j)));
    })
}

const BAD_KEY_FIELD: Error = Error::BadFrame("a header field does not belong to a key-switch key");

/// Reads a key-switch key with its Galois element, or `None` for a relinearisation key.
///
/// # Errors
/// As [`read_frame`]; [`Error::ResidueTooLarge`].
pub fn read_key_switch_key(
    params: &Params,
    id: KeyId,
    bytes: &[u8],
) -> Result<(Option<GaloisElement>, KeySwitchKey), Error> {
    let (header, _, payload) = read_frame(params, Some(id), &[FrameKind::KeySwitchKey], bytes)?;
    let element = match header.element {
        0 => None,
        exponent => Some(GaloisElement::new(params, exponent).ok_or(BAD_KEY_FIELD)?),
    };
    let gadget = if element.is_some() { params.galois_gadget() } else { params.relin_gadget() };
    Ok((element, unpack_key(params, gadget, header, payload)?))
}

/// Reads a key of a [`crate::RingSwitch`] with its number, under the parameters of the small ring.
///
/// # Errors
/// As [`read_key_switch_key`].
pub fn read_ring_switch_key(
    params: &Params,
    id: KeyId,
    bytes: &[u8],
) -> Result<(usize, KeySwitchKey), Error> {
    let (header, _, payload) = read_frame(params, Some(id), &[FrameKind::RingSwitchKey], bytes)?;
    Ok((header.element as usize, unpack_key(params, params.galois_gadget(), header, payload)?))
}

fn unpack_key(
    params: &Params,
    gadget: &Gadget,
    header: FrameHeader,
    payload: &[u8],
) -> Result<KeySwitchKey, Error> {
    if header.parts != gadget.digits(header.level) || header.scale.to_bits() != 0 {
        return Err(BAD_KEY_FIELD);
    }
    let (seed, body) = split_seed(payload)?;
    let basis = params.qp_basis(header.level);
    let size = poly_bytes(basis);
    if body.len() != size * header.parts {
        return Err(Error::BadFrame("its length does not follow from its header"));
    }
    let b = body.chunks_exact(size).map(|part| unpack(part, basis)).collect::<Result<_, _>>()?;
    Ok(KeySwitchKey::new(params, gadget, header.level, b, seed))
}
