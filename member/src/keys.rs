use ckks_committee::{MemberShare, PairKeys};
use ckks_shares::Quorum;
use envelope::{SealingSecret, SigningSecret};
use wire::Manifest;

/// The shares of a member.
pub struct MemberShares {
    /// That of the secret of the large ring.
    pub large: MemberShare,
    /// That of the secret of the ring of scores.
    pub scores: MemberShare,
    /// That of the secret of the ring of scores, modulo the primes of answers.
    pub answers: MemberShare,
}

/// What a member of a committee keeps. It has no Debug, Clone and Serialize.
pub struct MemberKeys {
    manifest: Manifest,
    quorum: Quorum,
    shares: MemberShares,
    pairs: PairKeys,
    signing: SigningSecret,
    sealing: SealingSecret,
}

impl MemberKeys {
    /// The keys of the member with these shares, whose custody `manifest` states.
    pub fn new(
        manifest: Manifest,
        quorum: Quorum,
        shares: MemberShares,
        pairs: PairKeys,
        signing: SigningSecret,
        sealing: SealingSecret,
    ) -> Self {
        MemberKeys { manifest, quorum, shares, pairs, signing, sealing }
    }

    /// The manifest of the keys, whose custody is the committee.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// t of n.
    pub fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// The number of the member.
    pub fn member(&self) -> u8 {
        self.shares.large.member()
    }

    /// The share of the secret of the large ring.
    pub fn large(&self) -> &MemberShare {
        &self.shares.large
    }

    /// The share of the secret of the ring of scores.
    pub fn scores(&self) -> &MemberShare {
        &self.shares.scores
    }

    /// The share of the secret of the ring of scores, modulo the primes of answers.
    pub fn answers(&self) -> &MemberShare {
        &self.shares.answers
    }

    /// The keys that the member has in common with each other one.
    pub fn pairs(&self) -> &PairKeys {
        &self.pairs
    }

    /// The key that it signs with.
    pub fn signing(&self) -> &SigningSecret {
        &self.signing
    }

    /// The key that messages to it are sealed under.
    pub fn sealing(&self) -> &SealingSecret {
        &self.sealing
    }
}
