//! Keys, and the numbers that follow from them and a label.

use crate::Field;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

/// What a label is for. Labels of two kinds are never equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The masks of a slot.
    Mask = 1,
    /// Shares of zero between two members.
    Zero = 2,
    /// The pads of a request.
    Request = 3,
    /// The pads of a feedback.
    Feedback = 4,
    /// The pad of an answer.
    Answer = 5,
    /// The mask of a record.
    Record = 6,
    /// The tag of a record.
    Tag = 7,
    /// The authentication of a message.
    Message = 8,
    /// The seed of a batch of slots.
    Seed = 9,
    /// What is random while a batch of slots is prepared.
    Prepare = 10,
    /// The keys of a session.
    Session = 11,
    /// That a device has its feedback erased.
    Erasure = 12,
}

/// A hash of a kind and of fields, which are hashed with their lengths. A label gives one stream under a key:
/// it must never stand for two different values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label([u8; 32]);

impl Label {
    /// The label of this kind with these fields.
    pub fn new(kind: Kind, fields: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 labels of shares");
        hasher.update(&[kind as u8]);
        for field in fields {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field);
        }
        Label(*hasher.finalize().as_bytes())
    }

    /// The hash.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The label of this hash, which is another one's.
    pub fn from_bytes(hash: [u8; 32]) -> Self {
        Label(hash)
    }
}

/// A key of 256 bits: of a subset, or of two members.
pub struct Key([u8; 32]);

impl Key {
    /// The key of these bytes, which must be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Key(bytes)
    }

    /// A random key.
    pub fn random<R: rand::CryptoRng>(rng: &mut R) -> Self {
        let mut bytes = [0; 32];
        rng.fill_bytes(&mut bytes);
        let key = Key(bytes);
        bytes.zeroize();
        key
    }

    /// Its bytes, for whoever stores or seals it.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hash by which others know the key.
    pub fn hash(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 hash of a key of shares");
        hasher.update(&self.0);
        *hasher.finalize().as_bytes()
    }

    /// The key that follows from this one and a label. It tells nothing of this one.
    pub fn derive(&self, label: &Label) -> Key {
        let mut derived = [0; 32];
        self.stream(label).reader.fill(&mut derived);
        let key = Key(derived);
        derived.zeroize();
        key
    }

    /// The numbers that follow from this key and a label: BLAKE3 with the key, extended.
    pub fn stream(&self, label: &Label) -> Stream {
        let reader = blake3::Hasher::new_keyed(&self.0).update(&label.0).finalize_xof();
        Stream { reader, buffer: [0; BUFFER], at: BUFFER }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Bytes of a stream that are made at once: blocks are hashed side by side.
const BUFFER: usize = 512;

/// Numbers of a key and a label, one after the other.
pub struct Stream {
    reader: blake3::OutputReader,
    buffer: [u8; BUFFER],
    /// The next byte of the buffer.
    at: usize,
}

impl Stream {
    /// The next number of the field: uniform, but for 2⁻¹²⁷.
    pub fn field(&mut self) -> Field {
        Field::new(self.integer(127))
    }

    /// The next integer of `bits` bits, at most 128. Each takes 16 bytes of the stream.
    pub fn integer(&mut self, bits: u32) -> u128 {
        if self.at == BUFFER {
            self.reader.fill(&mut self.buffer);
            self.at = 0;
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.buffer[self.at..self.at + 16]);
        self.at += 16;
        u128::from_le_bytes(bytes) >> (128 - bits.clamp(1, 128))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.buffer.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No two labels are equal whose kinds or fields differ, also where their bytes are the same in a row.
    #[test]
    fn labels_tell_kinds_and_fields_apart() {
        let labels = [
            Label::new(Kind::Request, &[b"ab", b"c"]),
            Label::new(Kind::Request, &[b"a", b"bc"]),
            Label::new(Kind::Request, &[b"abc"]),
            Label::new(Kind::Request, &[b"abc", b""]),
            Label::new(Kind::Feedback, &[b"ab", b"c"]),
        ];
        for (i, a) in labels.iter().enumerate() {
            assert!(labels[i + 1..].iter().all(|b| a != b), "{i}");
        }
    }

    /// The stream is the extended output of BLAKE3 under the key, from the highest bits of 16 bytes.
    #[test]
    fn a_stream_is_keyed_blake3() {
        let (key, label) = (Key::new([7; 32]), Label::new(Kind::Mask, &[b"slot"]));
        let mut bytes = [0; 32];
        blake3::Hasher::new_keyed(&[7; 32]).update(&label.0).finalize_xof().fill(&mut bytes);
        let [first, second] = [0, 16].map(|at| u128::from_le_bytes(bytes[at..at + 16].try_into().unwrap()));
        let mut stream = key.stream(&label);
        assert_eq!(
            (stream.field().get(), stream.integer(58)),
            ((first >> 1) % ((1 << 127) - 1), second >> 70)
        );
        assert_ne!(key.stream(&label).field().get(), Key::new([8; 32]).stream(&label).field().get());
    }
}
