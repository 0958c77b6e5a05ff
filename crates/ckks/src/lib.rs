//! The public half of CKKS: parameters, encoding, encryption under a public key, evaluation, key switching,
//! and the binary format of ciphertexts and keys.
//!
//! This crate is for programs that compute on ciphertexts they cannot decrypt. No type here can hold a secret
//! key; key generation and decryption are in `ckks-secret`. The scheme is that of Cheon, Kim, Kim, Song 2017
//! in its RNS form (Cheon et al. 2018), with hybrid key switching (Han and Ki 2020) and merged divisions
//! (Bossuat et al. 2021).
//!
//! A ciphertext at level l has l + 1 limbs. Each multiplication uses one level, and a ciphertext at level 0
//! cannot be multiplied. Each level has one canonical scale ([`Params::scale`]), so that ciphertexts of one
//! level can be added.

mod ciphertext;
mod decomposition;
mod encode;
mod encrypt;
mod error;
mod evaluate;
mod exchange;
mod frame;
mod hex;
mod keys;
mod keyswitch;
mod linear;
mod mask;
mod pack;
mod padded;
mod params;
mod raise;
mod ring_switch;
mod seeded;
mod wide;

pub use ciphertext::{Ciphertext, Plaintext, Undivided};
pub use decomposition::{Decomposition, Gadget};
pub use encode::{Encoder, zero_slots};
pub use encrypt::encrypt;
pub use error::{Error, Op};
pub use evaluate::{Evaluator, RingKeys};
pub use exchange::{Domain, Exchange, MapTerm, Side, SumTerm};
pub use frame::{
    FRAME_DIGEST_BYTES, FRAME_HEADER_BYTES, FRAME_MAGIC, FRAME_VERSION, FrameHeader, FrameKind,
    ciphertext_bytes, partial_ciphertext_bytes, public_key_bytes, read_ciphertext, read_frame,
    read_key_switch_key, read_partial_ciphertext, read_public_key, read_ring_switch_key,
    read_scaled_ciphertext, read_truncated_ciphertext, truncated_ciphertext_bytes, uniform_c1,
    uniform_c1_limb, write_ciphertext, write_frame, write_key_switch_key, write_partial_ciphertext,
    write_public_key, write_ring_switch_key, write_seeded_ciphertext, write_truncated_ciphertext,
};
pub use hex::Hex;
pub use keys::{EvaluationKeys, GaloisElement, KeyId, KeyStorage, KeySwitchKey, PublicKey};
pub use linear::{DiagonalTransform, EncodedTransform};
pub use mask::{
    MaskSeed, flood_assign, mask_all_but_constant_assign, mask_assign, mask_bits, mask_seed, mask_seed_for,
    mask_seed_of, rerandomise_assign, unmask_assign,
};
pub use pack::{Packer, pack_elements};
pub use padded::{Padded, PaddedUpload, read_padded, write_padded, write_padded_upload};
pub use params::{
    Fingerprint, LOGN10_LOGQ25_SUM, LOGN11_LOGQ50_SUM, LOGN13_LOGQP147_SCORES, LOGN14_LOGQP147_256BIT_SCORES,
    LOGN14_LOGQP147_SCORES, LOGN14_LOGQP409_DEPTH9, LOGN14_LOGQP409_DEPTH11, LOGN14_LOGQP409_DEPTH12,
    LOGN15_LOGQP147_256BIT_SCORES, LOGN15_LOGQP147_SCORES, LOGN15_LOGQP825_DEPTH17, LOGN15_LOGQP842_DEPTH19,
    LOGN15_LOGQP858_DEPTH18, LOGN15_LOGQP858_DEPTH21, LOGN15_LOGQP866_DEPTH23, LOGN16_LOGQP825_DEPTH17,
    LOGN16_LOGQP858_DEPTH21, LOGN16_LOGQP1130_DEPTH22, Params, ParamsSpec, PrefixSpec, Products, Security,
    TOY_LOGN11_SCORES, TOY_LOGN12_DEPTH11, TOY_LOGN12_DEPTH21, TOY_LOGN12_SCORES, TOY_LOGN13_SCORES,
    TOY_LOGN14_DEPTH22, TOY_LOGN14_SCORES,
};
pub use raise::{Places, RAISE_FACTORS, SlotsToCoefficients, Term};
pub use ring_switch::{Fold, Move, RingSwitch};
pub use seeded::SeededCoefficients;
pub use wide::{MAX_WIDE_BITS, MAX_WIDE_COEFFICIENT_BITS, WideEncoder, WideSlot};
