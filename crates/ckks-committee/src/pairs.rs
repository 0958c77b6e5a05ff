use crate::Error;
use ckks_shares::{ActiveSet, Quorum, RequestId};
use rand::CryptoRng;
use rns::{Basis, Ntt, Poly, sample};
use std::collections::BTreeMap;
use zeroize::{Zeroize, Zeroizing};

/// What one member of a pair contributes to its key.
pub struct PairSecret([u8; 32]);

impl Drop for PairSecret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PairSecret {
    /// A fresh contribution, which is sealed to the other member.
    pub fn generate<R: CryptoRng>(rng: &mut R) -> Self {
        PairSecret(sample::seed(rng))
    }

    /// The contribution with these bytes.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        PairSecret(*bytes)
    }

    /// The 32 bytes, to be sealed.
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0)
    }
}

/// The keys that a member has in common with each other member.
pub struct PairKeys {
    own: u8,
    keys: BTreeMap<u8, [u8; 32]>,
}

impl Drop for PairKeys {
    fn drop(&mut self) {
        self.keys.values_mut().for_each(Zeroize::zeroize);
    }
}

impl PairKeys {
    /// No keys yet, of member `own`.
    pub fn new(own: u8) -> Self {
        PairKeys { own, keys: BTreeMap::new() }
    }

    /// The number of this member.
    pub fn own(&self) -> u8 {
        self.own
    }

    /// Appends the keys with all other members of `quorum` to `out`, 32 bytes each, to be stored where only
    /// their owner reads.
    ///
    /// # Errors
    /// [`Error::PairKey`] if one is missing.
    pub fn write(&self, quorum: Quorum, out: &mut Zeroizing<Vec<u8>>) -> Result<(), Error> {
        // Reserved at once, because a vector that grows leaves copies behind.
        out.reserve_exact(32 * usize::from(quorum.members() - 1));
        for other in quorum.everybody().iter().filter(|&k| k != self.own) {
            out.extend(self.keys.get(&other).ok_or(Error::PairKey { member: self.own, other })?);
        }
        Ok(())
    }

    /// Reads the bytes of [`Self::write`] of member `own`.
    ///
    /// # Errors
    /// [`Error::PairKey`] if there are fewer.
    pub fn read(own: u8, quorum: Quorum, bytes: &[u8]) -> Result<Self, Error> {
        let mut keys = PairKeys::new(own);
        let mut parts = bytes.as_chunks::<32>().0.iter();
        for other in quorum.everybody().iter().filter(|&k| k != own) {
            keys.keys.insert(other, *parts.next().ok_or(Error::PairKey { member: own, other })?);
        }
        Ok(keys)
    }

    /// Adds the key with member `other`: the hash of what both contributed, the lower number first.
    pub fn insert(&mut self, other: u8, mine: &PairSecret, theirs: &PairSecret) {
        let (first, second) = if self.own < other { (mine, theirs) } else { (theirs, mine) };
        let mut hash = blake3::Hasher::new_derive_key("helba committee v1: pair key");
        hash.update(&first.0).update(&second.0);
        self.keys.insert(other, *hash.finalize().as_bytes());
    }

    /// ζⱼ: polynomial `stream` of a request, which sums to 0 over the members of `set`. Each pair of members
    /// has a pseudo-random polynomial that the lower number adds and the higher subtracts.
    ///
    /// # Errors
    /// [`Error::NotAsked`], [`Error::PairKey`].
    pub(crate) fn zero_share(
        &self,
        basis: &Basis,
        set: ActiveSet,
        request: &RequestId,
        stream: u32,
    ) -> Result<Zeroizing<Poly<Ntt>>, Error> {
        let index: Vec<usize> = (0..basis.len()).collect();
        let mut out = Zeroizing::new(Poly::zero(basis.n(), basis.len()));
        self.for_each_seed(set, request, stream, |adds, seed| {
            let share = Zeroizing::new(sample::uniform_from_seed(basis, &index, seed));
            if adds {
                out.add_assign(basis, &share);
            } else {
                out.sub_assign(basis, &share);
            }
        })?;
        Ok(out)
    }

    /// As [`Self::zero_share`], the residues of `count` integers modulo each prime of `basis`.
    ///
    /// # Errors
    /// As [`Self::zero_share`].
    pub(crate) fn zero_residues(
        &self,
        basis: &Basis,
        set: ActiveSet,
        request: &RequestId,
        count: usize,
    ) -> Result<Vec<Vec<u64>>, Error> {
        let mut out = vec![vec![0; count]; basis.len()];
        self.for_each_seed(set, request, 0, |adds, seed| {
            let mut share = Zeroizing::new(vec![0; count]);
            for (i, out) in out.iter_mut().enumerate() {
                let m = basis.modulus(i);
                sample::uniform_limb(m, i, seed, &mut share);
                let sum = |(x, y): (&mut u64, &u64)| *x = if adds { m.add(*x, *y) } else { m.sub(*x, *y) };
                out.iter_mut().zip(share.iter()).for_each(sum);
            }
        })?;
        Ok(out)
    }

    /// Calls `f` for each other member of `set`, with whether this member adds what follows from the seed.
    fn for_each_seed(
        &self,
        set: ActiveSet,
        request: &RequestId,
        stream: u32,
        mut f: impl FnMut(bool, &sample::Seed),
    ) -> Result<(), Error> {
        if !set.contains(self.own) {
            return Err(Error::NotAsked { member: self.own });
        }
        for other in set.iter().filter(|&k| k != self.own) {
            let key = self.keys.get(&other).ok_or(Error::PairKey { member: self.own, other })?;
            let mut hash = blake3::Hasher::new_keyed(key);
            hash.update(b"zero").update(request.bytes()).update(&stream.to_le_bytes());
            let seed = Zeroizing::new(*hash.finalize().as_bytes());
            f(self.own < other, &seed);
        }
        Ok(())
    }
}
