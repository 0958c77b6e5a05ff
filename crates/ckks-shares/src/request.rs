use crate::ActiveSet;
use rns::{Ntt, Poly, sample::Seed};

/// What members are asked for. Zero shares and errors of different kinds come from different streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A share of the relinearisation key.
    RelinearisationKey,
    /// A share of the openings that test keys.
    KeyTest,
    /// A share of a [`crate::Transfer`].
    Transfer,
    /// A share of an opening of [`crate::Forms`].
    Opening,
    /// A share of the openings of a [`crate::RangeCheck`].
    RangeCheck,
    /// A share of a [`crate::Transfer`] to other keys.
    Rotation,
}

/// The identifier of a request: the hash of its kind, its members, its header, and the ciphertext.
///
/// Everything that a member draws for an answer follows from this hash and keys of its own. The same request
/// therefore gets the same answer, and two requests that differ in anything have independent masks. Members
/// who were asked with different ciphertexts have zero shares that do not cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId([u8; 32]);

impl RequestId {
    /// The request of this kind to `set`, about the polynomial `c1`. `header` says everything else that the
    /// request means: key, bandit, step, model.
    pub fn new(kind: RequestKind, set: ActiveSet, header: &[u8], c1: Option<&Poly<Ntt>>) -> Self {
        let mut hash = blake3::Hasher::new_derive_key("helba committee v1: request");
        let kind = match kind {
            RequestKind::RelinearisationKey => 1u8,
            RequestKind::KeyTest => 2,
            RequestKind::Transfer => 3,
            RequestKind::Opening => 4,
            RequestKind::RangeCheck => 5,
            RequestKind::Rotation => 6,
        };
        hash.update(&[kind]).update(&set.bits().to_le_bytes());
        hash.update(&(header.len() as u64).to_le_bytes()).update(header);
        if let Some(c1) = c1 {
            let mut bytes = Vec::with_capacity(8 * c1.data().len());
            c1.data().iter().for_each(|x| bytes.extend(x.to_le_bytes()));
            hash.update(&bytes);
        }
        RequestId(*hash.finalize().as_bytes())
    }

    /// The 32 bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The seed of the uniform polynomial of an encryption that the members make together.
    pub fn seed(&self) -> Seed {
        *blake3::Hasher::new_derive_key("helba committee v1: uniform").update(&self.0).finalize().as_bytes()
    }
}
