//! Who has erred in a batch of slots that is burnt.
//!
//! Seeds follow from a key and the label of the batch, so that an opened one tells nothing of the key. All
//! that a member sends in a preparation follows from its seeds and from the sums: whoever knows these
//! computes it again. Before anything of the check is shown, each member signs the hashes of its seeds and of
//! all that it has sent ([`shares::preparation::Statement::Seen`]), and cannot choose them later.
//!
//! | what does not fit | who is named |
//! |---|---|
//! | a hash of a seed, where t members have signed another one, of whom one is honest | the member |
//! | two hashes of a seed, where that does not decide | the pair: one of them lies |
//! | the hash of what a member has sent, or its share of the triple | the member |
//!
//! An honest member is in none of the first and last rows, whatever the server has added up or handed on: it
//! computes from sums that others have signed for too. Whoever adds up compares the hash of what a member has
//! sent with what came, so that nobody sends one thing and signs another.

use super::{Batch, Multiplier, Sums, unchecked};
use crate::keys::Holders;
use crate::{Error, Plan};
use shares::{Field, Key, Sharing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most seeds of a member: it is in at most 126 subsets, and shares zeros with at most 15 others.
pub(crate) const MOST_SEEDS: usize = 141;

/// What a member has signed that it has sent, and the hashes of its seeds.
pub(super) struct Claim {
    pub(super) sent: [u8; 32],
    pub(super) seeds: Vec<[u8; 32]>,
}

/// What is known of a batch that is burnt.
pub(super) struct Burnt<'a> {
    pub(super) sharing: &'a Arc<Sharing>,
    pub(super) batch: &'a Batch,
    /// The sums of each round.
    pub(super) sums: Vec<Vec<Field>>,
    pub(super) claims: BTreeMap<u8, Claim>,
    /// The triples that members have shown.
    pub(super) shown: Vec<(u8, Vec<Field>)>,
}

impl Burnt<'_> {
    /// Names who has erred, from what was opened: [`Error::Burnt`].
    pub(super) async fn name<F>(&self, opened: Vec<[u8; 32]>, walk: &F) -> Error
    where
        F: Fn(&mut Plan) -> Result<(), Error> + Send + Sync,
    {
        let (mut liars, mut disputed) = (BTreeSet::new(), BTreeSet::new());
        let mut hashes: BTreeMap<Holders, Vec<(u8, [u8; 32])>> = BTreeMap::new();
        for (member, claim) in &self.claims {
            let held = self.batch.held(self.sharing, *member);
            if held.len() != claim.seeds.len() {
                liars.insert(*member);
                continue;
            }
            for (of, hash) in held.into_iter().zip(&claim.seeds) {
                hashes.entry(of).or_default().push((*member, *hash));
            }
        }
        for of in hashes.values() {
            let count = |hash: &[u8; 32]| of.iter().filter(|(_, other)| other == hash).count();
            let right = of.iter().find(|(_, hash)| count(hash) >= self.sharing.threshold().t());
            for (at, (member, hash)) in of.iter().enumerate() {
                match right {
                    Some((_, right)) if right != hash => drop(liars.insert(*member)),
                    Some(_) => {}
                    None => {
                        let others = of[at + 1..].iter().filter(|(_, other)| other != hash);
                        disputed.extend(others.map(|(other, _)| (*member, *other)));
                    }
                }
            }
        }
        let opened: BTreeMap<[u8; 32], [u8; 32]> =
            opened.into_iter().map(|seed| (Key::new(seed).hash(), seed)).collect();
        for (member, claim) in &self.claims {
            let seeds = claim.seeds.iter().map(|hash| opened.get(hash).map(|seed| Key::new(*seed)));
            // Of whom a seed is missing nothing is known: the server may have kept it back.
            let Some(seeds) = seeds.collect::<Option<Vec<Key>>>().filter(|_| !liars.contains(member)) else {
                continue;
            };
            if let Ok((sent, triple)) = self.again(*member, seeds, walk).await
                && (sent != claim.sent
                    || self.shown.iter().any(|(of, shown)| of == member && shown[..] != triple))
            {
                liars.insert(*member);
            }
        }
        let open = |(a, b): &(u8, u8)| !liars.contains(a) && !liars.contains(b);
        Error::Burnt {
            disputed: disputed.into_iter().filter(open).collect(),
            liars: liars.into_iter().collect(),
        }
    }

    /// The hash of what a member sends who has these seeds, and its share of the triple.
    async fn again<F>(&self, member: u8, seeds: Vec<Key>, walk: &F) -> Result<([u8; 32], [Field; 3]), Error>
    where
        F: Fn(&mut Plan) -> Result<(), Error> + Send + Sync,
    {
        let sums = Sums::Again(&self.sums);
        let mut multiplier = Multiplier::new(self.sharing, self.batch, member, seeds, sums)?;
        unchecked(&mut multiplier, walk).await?;
        let triple = multiplier.fold().await?;
        Ok((multiplier.sent.hash(), triple))
    }
}
