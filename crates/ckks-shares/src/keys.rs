//! The keys of the sum of secrets, from the keys of each secret under one seed.

use crate::{Error, Quorum};
use ckks::{Gadget, GaloisElement, KeySwitchKey, Params, PublicKey};
use rns::sample::Seed;
use rns::{Ntt, Poly};

/// The identifier of a key generation: the hash of what all members said first, so that no two have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 32]);

/// A key of a bundle, as the label of its common seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLabel {
    /// The public key.
    Public,
    /// The relinearisation key.
    Relinearisation,
    /// The Galois key of this automorphism.
    Galois(GaloisElement),
    /// The key of this number of a ring switch.
    RingSwitch(usize),
}

impl KeyLabel {
    /// The digits of the key.
    fn gadget(self, params: &Params) -> &Gadget {
        match self {
            KeyLabel::Relinearisation => params.relin_gadget(),
            KeyLabel::Public | KeyLabel::Galois(_) | KeyLabel::RingSwitch(_) => params.galois_gadget(),
        }
    }
}

impl SessionId {
    /// The seed of the uniform polynomials of a key under `params`, which are known before any secret is.
    pub fn seed(&self, params: &Params, label: KeyLabel) -> Seed {
        let (kind, number) = match label {
            KeyLabel::Public => (1u8, 0),
            KeyLabel::Relinearisation => (2, 0),
            KeyLabel::Galois(element) => (3, element.exponent()),
            KeyLabel::RingSwitch(number) => (4, number as u64),
        };
        let mut hash = blake3::Hasher::new_derive_key("helba committee v1: reference string");
        hash.update(&self.0).update(&params.fingerprint().0).update(&[kind]).update(&number.to_le_bytes());
        *hash.finalize().as_bytes()
    }
}

/// Adds the public keys of the members' own secrets.
///
/// With bᵢ = −a·sᵢ + eᵢ, Σ bᵢ = −a·s + e for s = Σ sᵢ; the error has deviation √n·3.2. Wide keys add up to a
/// wide one.
#[derive(Debug)]
pub struct PublicKeySum {
    params: Params,
    seed: Seed,
    /// `None` before the first key.
    b: Option<Poly<Ntt>>,
    count: usize,
}

impl PublicKeySum {
    /// The sum of no keys yet.
    pub fn new(params: &Params, session: SessionId) -> Self {
        let seed = session.seed(params, KeyLabel::Public);
        PublicKeySum { params: params.clone(), seed, b: None, count: 0 }
    }

    /// Adds the key of one member.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it has another seed, or is wide and others are not.
    pub fn add(&mut self, key: &PublicKey) -> Result<(), Error> {
        if *key.seed() != self.seed {
            return Err(Error::Foreign("a public key has another seed than the reference string"));
        }
        let (params, top) = (&self.params, self.params.max_level());
        let basis = if key.is_wide(params) { params.qp_basis(top) } else { params.q_basis(top) };
        match &mut self.b {
            None => self.b = Some(key.b().clone()),
            Some(b) if b.limbs() == basis.len() => b.add_assign(basis, key.b()),
            Some(_) => return Err(Error::Foreign("one public key is wide and another is not")),
        }
        self.count += 1;
        Ok(())
    }

    /// The public key of the committee.
    ///
    /// # Errors
    /// [`Error::ShareCount`] unless every member's key was added.
    pub fn finish(self, quorum: Quorum) -> Result<PublicKey, Error> {
        everybody(self.count, quorum)?;
        // A quorum has members.
        let b = self.b.ok_or(Error::ShareCount { got: 0, want: usize::from(quorum.members()) })?;
        Ok(PublicKey::new(&self.params, b, self.seed))
    }
}

/// Adds the shares of a key-switch key: those of the members' own secrets, whose key is that of the sum, or
/// those of the relinearisation key.
#[derive(Debug)]
pub struct KeySum {
    params: Params,
    label: KeyLabel,
    level: usize,
    seed: Seed,
    b: Vec<Poly<Ntt>>,
    count: usize,
}

impl KeySum {
    /// The sum of no shares yet, of the key with this label at `level`.
    pub fn new(params: &Params, session: SessionId, label: KeyLabel, level: usize) -> Self {
        let zero = Poly::zero(params.n(), params.qp_basis(level).len());
        let b = vec![zero; label.gadget(params).digits(level)];
        KeySum { params: params.clone(), label, level, seed: session.seed(params, label), b, count: 0 }
    }

    /// Adds the share of one member.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it is of another seed, level or gadget.
    pub fn add(&mut self, share: &KeySwitchKey) -> Result<(), Error> {
        if *share.seed() != self.seed {
            return Err(Error::Foreign("a key has another seed than the reference string"));
        }
        if share.level() != self.level || !share.serves(self.label.gadget(&self.params), self.level) {
            return Err(Error::Foreign("a key is for another level or other digits"));
        }
        let basis = self.params.qp_basis(self.level);
        for (j, b) in self.b.iter_mut().enumerate() {
            b.add_assign(basis, &share.b(&self.params, j));
        }
        self.count += 1;
        Ok(())
    }

    /// The key of the committee.
    ///
    /// # Errors
    /// [`Error::ShareCount`] unless every member's share was added.
    pub fn finish(self, quorum: Quorum) -> Result<KeySwitchKey, Error> {
        everybody(self.count, quorum)?;
        let gadget = self.label.gadget(&self.params);
        Ok(KeySwitchKey::new(&self.params, gadget, self.level, self.b, self.seed))
    }
}

fn everybody(got: usize, quorum: Quorum) -> Result<(), Error> {
    let want = usize::from(quorum.members());
    if got == want { Ok(()) } else { Err(Error::ShareCount { got, want }) }
}
