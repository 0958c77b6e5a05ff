//! The binary frame of everything that travels or rests: ciphertexts and keys.
//!
//! ```text
//! offset  bytes  what
//!      0      4  magic "CKKS"
//!      4      2  version, little endian like all numbers
//!      6      1  kind
//!      7      1  zero
//!      8     16  parameter fingerprint
//!     24     16  key id
//!     40      2  level
//!     42      2  number of polynomials
//!     44      4  Galois element (key-switch keys; 0: relinearisation), else 0
//!     48      8  scale, IEEE 754
//!     56      …  seed (32 bytes, where the kind has one), then limb after limb, each residue in as many bits as
//!                its prime has, least significant bit first
//!   end−32   32  BLAKE3 of all before
//! ```
//! The digest finds accidents, not forgers. Readers check everything before they allocate, and the length
//! follows from the header, so memory is bounded by the input.

use crate::{Ciphertext, Error, Fingerprint, GaloisElement, KeyId, KeySwitchKey, Op, Params, PublicKey};
use rayon::prelude::*;
use rns::sample::{self, Seed};
use rns::{Basis, Ntt, Poly};

/// First bytes of every frame.
pub const MAGIC: [u8; 4] = *b"CKKS";
/// The format version written and read.
pub const VERSION: u16 = 2;
/// Bytes before the payload.
pub const FRAME_HEADER_BYTES: usize = 56;
/// Bytes after the payload.
pub const FRAME_DIGEST_BYTES: usize = 32;
const SEED_BYTES: usize = 32;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Both polynomials of a ciphertext.
    Ciphertext = 1,
    /// c₀ of a ciphertext and the seed of c₁: made under the secret key, half the size.
    SeededCiphertext = 2,
    /// b of a public key and the seed of a.
    PublicKey = 3,
    /// b of every digit and the seed of all a.
    KeySwitchKey = 4,
    /// A secret key; read and written by `ckks-secret` only.
    SecretKey = 5,
}

/// The header's variable fields.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameHeader {
    /// What follows.
    pub kind: FrameKind,
    /// Level of the polynomials.
    pub level: usize,
    /// Number of polynomials.
    pub parts: usize,
    /// Galois element, or 0.
    pub element: u64,
    /// Scale, or 0 for keys.
    pub scale: f64,
}

/// A frame with this header; `payload` appends what comes between header and digest, some `size` bytes.
pub fn write_frame(
    params: &Params,
    key: KeyId,
    header: FrameHeader,
    size: usize,
    payload: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_HEADER_BYTES + size + FRAME_DIGEST_BYTES);
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
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

/// Checks magic, version, kind, parameters, key (unless `None`) and digest; returns header and payload.
///
/// # Errors
/// [`Error::BadFrame`], [`Error::Version`], [`Error::WrongParams`], [`Error::WrongKey`].
pub fn read_frame<'a>(
    params: &Params,
    key: Option<KeyId>,
    kinds: &[FrameKind],
    bytes: &'a [u8],
) -> Result<(FrameHeader, KeyId, &'a [u8]), Error> {
    if bytes.len() < FRAME_HEADER_BYTES + FRAME_DIGEST_BYTES {
        return Err(Error::BadFrame("shorter than a header and a digest"));
    }
    let mut at = 0;
    fn take<const K: usize>(bytes: &[u8], at: &mut usize) -> [u8; K] {
        let mut out = [0; K];
        out.copy_from_slice(&bytes[*at..*at + K]);
        *at += K;
        out
    }
    if take::<4>(bytes, &mut at) != MAGIC {
        return Err(Error::BadFrame("not a frame of this format (magic number)"));
    }
    let version = u16::from_le_bytes(take(bytes, &mut at));
    if version != VERSION {
        return Err(Error::Version { got: version, want: VERSION });
    }
    let [kind, zero] = take::<2>(bytes, &mut at);
    let kind =
        kinds.iter().copied().find(|&k| k as u8 == kind).ok_or(Error::BadFrame("a frame of another kind"))?;
    if zero != 0 {
        return Err(Error::BadFrame("a reserved byte is not zero"));
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
        return Err(Error::BadFrame("the level is above the top of the chain"));
    }
    let end = bytes.len() - FRAME_DIGEST_BYTES;
    // The digest last: cheap checks come first.
    let digest = blake3::Hasher::new().update_rayon(&bytes[..end]).finalize();
    if digest.as_bytes()[..] != bytes[end..] {
        return Err(Error::BadFrame("the digest does not match: bytes were changed or lost on the way"));
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

/// Bytes of each limb over `basis`: n·bits/8, and n is a multiple of 64.
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
        return Err(Error::BadFrame("the length does not follow from the header"));
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

/// Residues of 32 bits; returns the largest.
fn unpack_words(bytes: &[u8], limb: &mut [u64]) -> u64 {
    let mut largest = 0;
    for (x, word) in limb.iter_mut().zip(bytes.as_chunks().0) {
        let word = u32::from_le_bytes(*word);
        largest = largest.max(word);
        *x = u64::from(word);
    }
    largest.into()
}

/// Residues of fewer than 64 bits, as many a word as begin in it; returns the largest.
fn unpack_bits(bytes: &[u8], bits: u32, limb: &mut [u64]) -> u64 {
    let mask = (1u64 << bits) - 1;
    let mut words = bytes.as_chunks().0.iter();
    let (mut word, mut filled, mut largest) = (0u128, 0, 0);
    for x in limb {
        if filled < bits {
            let next = words.next().map_or(0, |w| u64::from_le_bytes(*w));
            word |= u128::from(next) << filled;
            filled += 64;
        }
        *x = word as u64 & mask;
        largest = largest.max(*x);
        word >>= bits;
        filled -= bits;
    }
    largest
}

fn ciphertext_header(kind: FrameKind, level: usize, scale: f64) -> FrameHeader {
    let parts = if kind == FrameKind::Ciphertext { 2 } else { 1 };
    FrameHeader { kind, level, parts, element: 0, scale }
}

/// A ciphertext with both its polynomials.
pub fn write_ciphertext(params: &Params, key: KeyId, ct: &Ciphertext) -> Vec<u8> {
    let header = ciphertext_header(FrameKind::Ciphertext, ct.level, ct.scale);
    write_frame(params, key, header, 2 * poly_bytes(params.q_basis(ct.level)), |out| {
        pack(out, params.q_basis(ct.level), &ct.c0);
        pack(out, params.q_basis(ct.level), &ct.c1);
    })
}

/// A ciphertext whose c₁ is the uniform polynomial of `seed` (see [`uniform_c1`]).
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

/// c₁ of the seeded ciphertext at `level`.
pub fn uniform_c1(params: &Params, level: usize, seed: &Seed) -> Poly<Ntt> {
    let mut out = Poly::scratch(params.n(), level + 1);
    out.for_each_limb(|i, limb| uniform_c1_limb(params, i, seed, limb));
    out
}

/// Limb `i` of [`uniform_c1`], at any level that has it.
pub fn uniform_c1_limb(params: &Params, i: usize, seed: &Seed, limb: &mut [u64]) {
    sample::uniform_limb(params.q_basis(i).modulus(i), i, seed, limb);
}

/// Reads a ciphertext of either kind that must be at `level` with its canonical scale.
///
/// # Errors
/// As [`read_frame`]; [`Error::WrongLevel`], [`Error::ResidueTooLarge`]; [`Error::OutOfLevels`] if there is no such
/// level.
pub fn read_ciphertext(params: &Params, key: KeyId, level: usize, bytes: &[u8]) -> Result<Ciphertext, Error> {
    params.check_level(Op::Encrypt, level)?;
    let kinds = [FrameKind::Ciphertext, FrameKind::SeededCiphertext];
    // The longest frame there can be at this level, before anything is hashed.
    if bytes.len() > ciphertext_bytes(params, level, false) {
        return Err(Error::BadFrame("longer than a ciphertext at the level expected"));
    }
    let (header, _, payload) = read_frame(params, Some(key), &kinds, bytes)?;
    let scale = params.scale(level);
    if header.level != level || header.scale.to_bits() != scale.to_bits() {
        let (got_level, got_scale) = (header.level, header.scale.log2());
        return Err(Error::WrongLevel { got_level, got_scale, want_level: level });
    }
    let seeded = header.kind == FrameKind::SeededCiphertext;
    if header != ciphertext_header(header.kind, level, scale) {
        return Err(Error::BadFrame("a header field does not belong to a ciphertext"));
    }
    if payload.len() + FRAME_HEADER_BYTES + FRAME_DIGEST_BYTES != ciphertext_bytes(params, level, seeded) {
        return Err(Error::BadFrame("the length does not follow from the header"));
    }
    let basis = params.q_basis(level);
    let (c0, c1) = if seeded {
        let (seed, body) = split_seed(payload)?;
        (unpack(body, basis)?, uniform_c1(params, level, &seed))
    } else {
        let (first, second) = payload.split_at(payload.len() / 2);
        (unpack(first, basis)?, unpack(second, basis)?)
    };
    Ok(Ciphertext { c0, c1, level, scale })
}

fn split_seed(payload: &[u8]) -> Result<(Seed, &[u8]), Error> {
    let (seed, body) =
        payload.split_first_chunk::<SEED_BYTES>().ok_or(Error::BadFrame("no room for a seed"))?;
    Ok((*seed, body))
}

/// A public key.
pub fn write_public_key(params: &Params, key: &PublicKey) -> Vec<u8> {
    let basis = params.q_basis(params.max_level());
    write_frame(params, key.id(params), public_key_header(params), SEED_BYTES + poly_bytes(basis), |out| {
        out.extend(key.seed);
        pack(out, basis, &key.b);
    })
}

fn public_key_header(params: &Params) -> FrameHeader {
    let level = params.max_level();
    FrameHeader { kind: FrameKind::PublicKey, level, parts: 1, element: 0, scale: 0.0 }
}

/// Reads a public key, whose id must be what its content hashes to.
///
/// # Errors
/// As [`read_frame`]; [`Error::ResidueTooLarge`].
pub fn read_public_key(params: &Params, bytes: &[u8]) -> Result<(PublicKey, KeyId), Error> {
    let (header, id, payload) = read_frame(params, None, &[FrameKind::PublicKey], bytes)?;
    // By bits: a scale of −0 is not what we write.
    if header != public_key_header(params) || header.scale.to_bits() != 0 {
        return Err(Error::BadFrame("a header field does not belong to a public key"));
    }
    let (seed, body) = split_seed(payload)?;
    let key = PublicKey::new(params, unpack(body, params.q_basis(header.level))?, seed);
    if key.id(params) != id {
        return Err(Error::WrongKey { got: id.to_string(), want: key.id(params).to_string() });
    }
    Ok((key, id))
}

/// A key-switch key; `element` is its Galois element, or `None` for relinearisation.
pub fn write_key_switch_key(
    params: &Params,
    id: KeyId,
    element: Option<GaloisElement>,
    key: &KeySwitchKey,
) -> Vec<u8> {
    let element = element.map_or(0, |g| g.0);
    let header = FrameHeader {
        kind: FrameKind::KeySwitchKey,
        level: key.level(),
        parts: key.digits(),
        element,
        scale: 0.0,
    };
    let size = SEED_BYTES + key.digits() * poly_bytes(params.qp_basis(key.level()));
    write_frame(params, id, header, size, |out| {
        out.extend(key.seed());
        (0..key.digits()).for_each(|j| pack(out, params.qp_basis(key.level()), &key.b(params, j)));
    })
}

/// Reads a key-switch key.
///
/// # Errors
/// As [`read_frame`]; [`Error::ResidueTooLarge`].
pub fn read_key_switch_key(
    params: &Params,
    id: KeyId,
    bytes: &[u8],
) -> Result<(Option<GaloisElement>, KeySwitchKey), Error> {
    let (header, _, payload) = read_frame(params, Some(id), &[FrameKind::KeySwitchKey], bytes)?;
    let element = (header.element != 0).then_some(GaloisElement(header.element));
    let gadget = if element.is_some() { params.galois_gadget() } else { params.relin_gadget() };
    if header.parts != gadget.digits(header.level)
        || header.scale.to_bits() != 0
        || element.is_some_and(|g| g.0.is_multiple_of(2))
        || header.element >= 2 * params.n() as u64
    {
        return Err(Error::BadFrame("a header field does not belong to a key-switch key"));
    }
    let (seed, body) = split_seed(payload)?;
    let basis = params.qp_basis(header.level);
    let size = poly_bytes(basis);
    if body.len() != size * header.parts {
        return Err(Error::BadFrame("the length does not follow from the header"));
    }
    let b = body.chunks_exact(size).map(|part| unpack(part, basis)).collect::<Result<_, _>>()?;
    Ok((element, KeySwitchKey::new(params, gadget, header.level, b, seed)))
}
