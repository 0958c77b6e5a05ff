//! Slots are prepared, and checked, before an input is there.
//!
//! A product x·y of shared numbers takes a round (Damgård, Nielsen 2007): of the first 2t − 1 members of
//! the set each sends
//!
//! s_j = ℓ_j·Σ x_j·y_j + ζ_j + Σ r_A,
//!
//! with the weights ℓ_j of a polynomial of degree 2t − 2 at 0, shares ζ_j of zero from the keys of pairs, and
//! of each subset A the number r_A once, by its first member of these. Whoever adds up s_j gives D = x·y + r
//! to all, and D − r_j is member j's share of the product. A member that errs, or a sum that is given
//! wrongly, shifts the product by a number that does not depend on secrets; the check finds it but for 2⁻¹¹⁹
//! for each hash that somebody tries.
//!
//! When 2t − 1 members have signed that a batch is burnt, and only then, its seeds are opened and who has
//! erred is named (`naming`). A check that fails at one member never opens a seed: the server and a liar can
//! have it fail there alone, while 2t − 1 others use the slots. Two sets of 2t − 1 share an honest member,
//! who signs good or burn and never both, so that slots whose seeds are opened serve nobody.
//!
//! A bit is (a/√(a²) + 1)/2 for a random a whose square is opened, with the root that is a square itself.

mod naming;

use crate::Error;
use crate::conversation::{Ask, Port, Reply};
use crate::keys::{Holders, MemberKeys, Seeds};
use crate::machine::{Bits, CircuitId};
use crate::online::{Plan, Slot, numbers};
use envelope::SigningSecret;
pub(crate) use naming::MOST_SEEDS;
use naming::{Burnt, Claim};
use rand::CryptoRng;
use shares::preparation::{PREPARED, Statement, Transcript};
use shares::{Field, Key, Kind, Label, Sharing, Subset, factors};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many parts a vector is folded from, in a round of the check.
const FOLD: usize = 16;
/// The most slots of a batch.
const MOST_SLOTS: u32 = 1024;

/// Names the batches of slots of a member. A label that served twice would show bits and differences of
/// inputs: the nonce is drawn when the member starts and is never stored, and numbers rise.
pub struct Stock {
    committee: [u8; 32],
    member: u8,
    nonce: [u8; 32],
    last: u64,
}

impl Stock {
    /// The stock of a member of the committee of this id, which has just started.
    pub fn new<R: CryptoRng>(keys: &MemberKeys, committee: [u8; 32], rng: &mut R) -> Self {
        let mut nonce = [0; 32];
        rng.fill_bytes(&mut nonce);
        Stock { committee, member: keys.member(), nonce, last: 0 }
    }

    /// The member's nonce, which the others of a set are told.
    pub fn nonce(&self) -> [u8; 32] {
        self.nonce
    }

    /// The batch of `slots` slots for a circuit that the members of `set` prepare, with the nonce of each,
    /// under this number: above all that the member has prepared under. A batch whose preparation ended in an
    /// error has used its number up.
    ///
    /// # Errors
    /// [`Error::Batch`].
    pub fn batch(
        &mut self,
        circuit: CircuitId,
        set: &[u8],
        nonces: &[[u8; 32]],
        number: u64,
        slots: u32,
    ) -> Result<Batch, Error> {
        let own = set.iter().position(|member| *member == self.member);
        let known = own.and_then(|at| nonces.get(at)) == Some(&self.nonce) && nonces.len() == set.len();
        if !known || number <= self.last || !(1..=MOST_SLOTS).contains(&slots) {
            return Err(Error::Batch { number, last: self.last, most: MOST_SLOTS });
        }
        self.last = number;
        let nonces: Vec<u8> = nonces.concat();
        let (number, count) = (number.to_le_bytes(), slots.to_le_bytes());
        let fields: [&[u8]; 6] = [&self.committee, circuit.bytes(), set, &nonces, &number, &count];
        Ok(Batch { label: Label::new(Kind::Seed, &fields), circuit, set: set.to_vec(), slots })
    }
}

/// A batch of slots that a set of members prepares together, once.
#[cfg_attr(test, derive(Clone))]
pub struct Batch {
    label: Label,
    circuit: CircuitId,
    set: Vec<u8>,
    slots: u32,
}

impl Batch {
    /// Its label.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The circuit that its slots serve.
    pub fn circuit(&self) -> CircuitId {
        self.circuit
    }

    /// The first 2t − 1 members of the set: those who multiply.
    fn multiplying(&self, sharing: &Sharing) -> &[u8] {
        &self.set[..sharing.threshold().needed().min(self.set.len())]
    }

    /// Who holds the keys of the seeds of a member, in the order in which it signs their hashes.
    fn held(&self, sharing: &Sharing, member: u8) -> Vec<Holders> {
        let subsets = sharing.subsets().iter().enumerate().filter(|(_, subset)| subset.has(member));
        let multiplying = self.multiplying(sharing);
        let multiplies = multiplying.contains(&member);
        let others = multiplying.iter().filter(|other| multiplies && **other != member);
        let pair = |other: &u8| Holders::Pair(member.min(*other), member.max(*other));
        subsets.map(|(at, _)| Holders::Subset(at)).chain(others.map(pair)).collect()
    }
}

/// What a member signs with, and by what it knows the others.
pub struct Identity {
    /// Its own.
    pub signing: SigningSecret,
    /// The public key of each member, by number from 1.
    pub members: Vec<Vec<u8>>,
}

/// Where sums come from.
#[derive(Clone, Copy)]
enum Sums<'a> {
    /// From whoever adds up.
    Asked(&'a Port),
    /// They are those of each round, which were opened before.
    Again(&'a [Vec<Field>]),
}

/// The members that multiply, and what they add.
struct Multiplier<'a> {
    member: u8,
    seeds: Seeds,
    /// The seeds of the zeros that it shares with others, by these.
    zeros: Vec<(u8, Key)>,
    batch: &'a Batch,
    multiplying: &'a [u8],
    /// The member's ℓ_j; none for one that only listens.
    weight: Option<Field>,
    from: Sums<'a>,
    round: u32,
    /// All that was opened.
    seen: Transcript,
    /// All that the member has sent to be added up.
    sent: Transcript,
    /// The sums of each round.
    sums: Vec<Vec<Field>>,
    /// Every product: its factors and its value, as shares.
    done: Vec<(Vec<(Field, Field)>, Field)>,
}

impl<'a> Multiplier<'a> {
    /// What a member of these seeds does, which are in the order of [`Batch::held`].
    fn new(
        sharing: &Arc<Sharing>,
        batch: &'a Batch,
        member: u8,
        seeds: Vec<Key>,
        from: Sums<'a>,
    ) -> Result<Self, Error> {
        // Refuses a set that is too small, or names a member twice.
        sharing.reader(&batch.set)?;
        if !batch.set.contains(&member) {
            return Err(shares::Error::Member { member }.into());
        }
        let (mut of_subsets, mut zeros) = (vec![], vec![]);
        for (holders, seed) in batch.held(sharing, member).into_iter().zip(seeds) {
            match holders {
                Holders::Subset(at) => of_subsets.push((at, seed)),
                Holders::Pair(a, b) => zeros.push((if a == member { b } else { a }, seed)),
            }
        }
        let multiplying = batch.multiplying(sharing);
        let own = multiplying.iter().position(|other| *other == member);
        Ok(Multiplier {
            member,
            seeds: Seeds::new(member, sharing.clone(), of_subsets),
            zeros,
            batch,
            weight: own.map(|at| factors(multiplying, Field::ZERO)[at]),
            multiplying,
            from,
            round: 0,
            seen: Transcript::new(&batch.label),
            sent: Transcript::new(&batch.label),
            sums: vec![],
            done: vec![],
        })
    }

    /// Sums of products, as shares; the first `opened` are public instead.
    async fn multiply(&mut self, sums: Vec<Vec<(Field, Field)>>, opened: usize) -> Result<Vec<Field>, Error> {
        self.round += 1;
        let mut masks = self.seeds.of(Kind::Prepare, self.round);
        // r_A is added by the first member of A that multiplies; the share of r is everyone's.
        let own = self.member;
        let adds =
            |subset: &Subset| self.multiplying.iter().find(|member| subset.has(**member)) == Some(&own);
        let adds: Vec<bool> = self.seeds.sharing().subsets().iter().map(adds).collect();
        let mut shares = vec![Field::ZERO; sums.len()];
        let mut sent = vec![Field::ZERO; sums.len()];
        for (share, sent) in shares.iter_mut().zip(&mut sent).skip(opened) {
            (*share, *sent) = masks.uniform_and_of(&adds);
        }
        let sent = match self.weight {
            None => None,
            Some(weight) => {
                for (sent, sum) in sent.iter_mut().zip(&sums) {
                    *sent += weight * sum.iter().map(|(x, y)| *x * *y).sum();
                }
                self.add_zeros(&mut sent);
                self.sent.add(&sent);
                Some(sent)
            }
        };
        let added = match self.from {
            Sums::Asked(port) => match port.ask(Ask::Sum(sent)).await {
                Reply::Numbers(added) => added,
                _ => return Err(Error::Message),
            },
            Sums::Again(sums) => sums.get(self.round as usize - 1).cloned().ok_or(Error::Message)?,
        };
        if added.len() != sums.len() {
            return Err(Error::Message);
        }
        self.seen.add(&added);
        if matches!(self.from, Sums::Asked(_)) {
            self.sums.push(added.clone());
        }
        let values: Vec<Field> = added.into_iter().zip(shares).map(|(sum, mask)| sum - mask).collect();
        self.done.extend(sums.into_iter().zip(values.iter().copied()));
        Ok(values)
    }

    /// Adds a share of zero to each number: what a pair has in common is added by one and taken off by the
    /// other, so that all but the sum is uniform.
    fn add_zeros(&self, sent: &mut [Field]) {
        for (other, seed) in &self.zeros {
            let mut stream = seed.stream(&Label::new(Kind::Zero, &[&self.round.to_le_bytes()]));
            for number in sent.iter_mut() {
                let zero = stream.field();
                *number = if self.member < *other { *number + zero } else { *number - zero };
            }
        }
    }

    /// Numbers that nobody could choose before all that was opened was opened.
    fn challenge(&self, count: usize) -> Vec<Field> {
        numbers(self.seen.hasher(), count)
    }

    /// Folds all products to one (Goyal, Song, Zhu 2020): factors and value, as shares.
    async fn fold(&mut self) -> Result<[Field; 3], Error> {
        let done = std::mem::take(&mut self.done);
        let (mut xs, mut ys, mut value) = (vec![], vec![], Field::ZERO);
        for (coefficient, (products, product)) in self.challenge(done.len()).into_iter().zip(done) {
            for (x, y) in products {
                xs.push(x * coefficient);
                ys.push(y);
            }
            value += product * coefficient;
        }
        while xs.len() > 1 {
            let parts = FOLD.min(xs.len());
            let length = xs.len().div_ceil(parts);
            xs.resize(parts * length, Field::ZERO);
            ys.resize(parts * length, Field::ZERO);
            // The polynomials f and g through the parts at 0, 1, …; h(i) = ⟨f(i), g(i)⟩ has degree 2(parts −
            // 1).
            let points: Vec<u8> = (0..2 * parts as u8 - 1).collect();
            let at = |x: Field| factors(&points[..parts], x);
            let mut sums: Vec<Vec<(Field, Field)>> = (1..parts)
                .map(|i| {
                    let range = i * length..(i + 1) * length;
                    xs[range.clone()].iter().copied().zip(ys[range].iter().copied()).collect()
                })
                .collect();
            sums.extend(
                further(&xs, parts)
                    .into_iter()
                    .zip(further(&ys, parts))
                    .map(|(f, g)| f.into_iter().zip(g).collect()),
            );
            let later = self.multiply(sums, 0).await?;
            // h(0) is what is left of the value.
            let mut h = vec![value - later[..parts - 1].iter().copied().sum()];
            h.extend(later);
            let [point] = self.challenge(1)[..] else { return Err(Error::Message) };
            let weights = at(point);
            (xs, ys) = (mixed(&xs, &weights), mixed(&ys, &weights));
            value = h.iter().zip(factors(&points, point)).map(|(h, weight)| *h * weight).sum();
        }
        // The products of the check itself are not checked: what they are is tested at the random point.
        self.done.clear();
        match (&xs[..], &ys[..]) {
            ([x], [y]) => Ok([*x, *y, value]),
            _ => Err(Error::Message),
        }
    }
}

/// A member that prepares.
struct Preparer<'a> {
    keys: &'a MemberKeys,
    identity: &'a Identity,
    batch: &'a Batch,
    port: &'a Port,
}

impl Preparer<'_> {
    /// Signs a statement, and returns what each has signed.
    async fn sign(&self, statement: Statement) -> Result<BTreeMap<u8, Statement>, Error> {
        let Reply::Signed(signed) = self.port.ask(Ask::Sign(statement)).await else {
            return Err(Error::Message);
        };
        let right = |(member, statement, signature): &(u8, Statement, Vec<u8>)| {
            let key = usize::from(*member).checked_sub(1).and_then(|at| self.identity.members.get(at));
            let message = statement.signed(&self.batch.label);
            self.batch.set.contains(member)
                && key.is_some_and(|key| envelope::verify(key, PREPARED, &message, signature).is_ok())
        };
        Ok(signed.into_iter().filter(right).map(|(member, statement, _)| (member, statement)).collect())
    }

    /// Opens the last triple of the check, and agrees that the slots may serve: the hash of all that was
    /// opened, and who has shown a wrong share of the triple.
    ///
    /// A member shows its shares only when 2t − 1 have signed its hash. Two sets of 2t − 1 have an honest
    /// member in common, who signs good or burn and never both.
    async fn verify<F>(
        &self,
        mut multiplier: Multiplier<'_>,
        walk: &F,
    ) -> Result<([u8; 32], BTreeSet<u8>), Error>
    where
        F: Fn(&mut Plan) -> Result<(), Error> + Send + Sync,
    {
        let triple = multiplier.fold().await?;
        let sharing = self.keys.sharing();
        let need = sharing.threshold().needed();
        let (seen, sent) = (multiplier.seen.hash(), multiplier.sent.hash());
        let seeds = own_seeds(self.keys, self.batch)?.iter().map(Key::hash).collect();
        let stated = self.sign(Statement::Seen { seen, sent, seeds }).await?;
        let claim = |(member, statement)| match statement {
            Statement::Seen { seen: of, sent, seeds } if of == seen => Some((member, Claim { sent, seeds })),
            _ => None,
        };
        let claims: BTreeMap<u8, Claim> = stated.into_iter().filter_map(claim).collect();
        if claims.len() < need {
            return Err(Error::NoAgreement { agreed: claims.len(), need });
        }
        let Reply::Shown(mut shown) = self.port.ask(Ask::Show(triple.to_vec())).await else {
            return Err(Error::Message);
        };
        shown.retain(|(member, _)| claims.contains_key(member));
        let mut liars = BTreeSet::new();
        let opened: Result<Vec<Field>, shares::Error> = (0..3)
            .map(|at| {
                let of = |(member, numbers): &(u8, Vec<Field>)| Some((*member, *numbers.get(at)?));
                let shares: Vec<(u8, Field)> = shown.iter().filter_map(of).collect();
                let opened = sharing.open(&shares)?;
                liars.extend(opened.liars);
                Ok(opened.value)
            })
            .collect();
        let good = matches!(opened.as_deref(), Ok([x, y, product]) if *x * *y == *product);
        let verdict = if good { Statement::Good(seen) } else { Statement::Burn(seen) };
        let verdicts = self.sign(verdict).await?;
        let count = |verdict| verdicts.values().filter(|other| **other == verdict).count();
        match (count(Statement::Good(seen)), count(Statement::Burn(seen))) {
            (agreed, _) if good && agreed >= need => Ok((seen, liars)),
            (_, burnt) if burnt >= need => {
                let seeds = own_seeds(self.keys, self.batch)?;
                let seeds = seeds.iter().map(|seed| *seed.bytes()).collect();
                let Reply::Opened(opened) = self.port.ask(Ask::Open(seeds)).await else {
                    return Err(Error::Message);
                };
                let (batch, sums) = (self.batch, multiplier.sums);
                Err(Burnt { sharing, batch, sums, claims, shown }.name(opened, walk).await)
            }
            (agreed, _) if good => Err(Error::NoAgreement { agreed, need }),
            _ => Err(Error::WrongProduct),
        }
    }
}

/// The values at `parts`, …, 2·`parts` − 2 of the polynomials through the parts of a vector at 0, 1, …,
/// `parts` − 1: by differences, which are sums alone.
fn further(vector: &[Field], parts: usize) -> Vec<Vec<Field>> {
    let length = vector.len() / parts;
    let mut further = vec![vec![Field::ZERO; length]; parts - 1];
    let mut differences = vec![Field::ZERO; parts];
    for g in 0..length {
        // The last difference of each order.
        differences.iter_mut().enumerate().for_each(|(i, value)| *value = vector[i * length + g]);
        for order in 1..parts {
            for i in 0..parts - order {
                differences[i] = differences[i + 1] - differences[i];
            }
        }
        for values in &mut further {
            // Place i has the difference of order parts − 1 − i.
            for i in 1..parts {
                let higher = differences[i - 1];
                differences[i] += higher;
            }
            values[g] = differences[parts - 1];
        }
    }
    further
}

/// Σ w_i·part i of a vector that is cut into as many parts as there are weights.
fn mixed(vector: &[Field], weights: &[Field]) -> Vec<Field> {
    let length = vector.len() / weights.len();
    let at = |g: usize| weights.iter().enumerate().map(|(i, w)| *w * vector[i * length + g]).sum();
    (0..length).map(at).collect()
}

/// Slots that were prepared.
pub struct Prepared {
    /// They.
    pub slots: Vec<Slot>,
    /// Who has shown a wrong share of the check, which was corrected.
    pub liars: Vec<u8>,
}

/// Prepares a batch of slots for a circuit: `walk` walks through it on a machine that has no inputs.
///
/// # Errors
/// [`Error::NoAgreement`], [`Error::WrongProduct`] or [`Error::Burnt`], after which no slot of the batch
/// serves; those of the walk.
pub async fn prepare<F>(
    keys: Arc<MemberKeys>,
    identity: Arc<Identity>,
    batch: Batch,
    walk: F,
    port: Port,
) -> Result<Prepared, Error>
where
    F: Fn(&mut Plan) -> Result<(), Error> + Send + Sync,
{
    let (batch, port) = (&batch, &port);
    let mut multiplier = of_keys(&keys, batch, port)?;
    let mut slots = unchecked(&mut multiplier, &walk).await?;
    let preparer = Preparer { keys: &keys, identity: &identity, batch, port };
    let (seen, liars) = preparer.verify(multiplier, &walk).await?;
    slots.iter_mut().for_each(|slot| slot.seen = seen);
    Ok(Prepared { slots, liars: liars.into_iter().collect() })
}

fn own_seeds(keys: &MemberKeys, batch: &Batch) -> Result<Vec<Key>, Error> {
    let held = batch.held(keys.sharing(), keys.member());
    Ok(held.into_iter().map(|of| keys.seed(of, &batch.label)).collect::<Result<_, _>>()?)
}

fn of_keys<'a>(keys: &MemberKeys, batch: &'a Batch, port: &'a Port) -> Result<Multiplier<'a>, Error> {
    let seeds = own_seeds(keys, batch)?;
    Multiplier::new(keys.sharing(), batch, keys.member(), seeds, Sums::Asked(port))
}

/// Slots whose products nobody has checked.
async fn unchecked<F>(multiplier: &mut Multiplier<'_>, walk: &F) -> Result<Vec<Slot>, Error>
where
    F: Fn(&mut Plan) -> Result<(), Error> + Send + Sync,
{
    let batch = multiplier.batch;
    let mut plans = Vec::with_capacity(batch.slots as usize);
    for slot in 0..batch.slots {
        let mut plan = Plan::new(&multiplier.seeds, slot);
        walk(&mut plan)?;
        plans.push(plan);
    }
    // The squares of all bits and all products of masks in a round, and a random product, which makes what
    // the check opens at its end random.
    let mut random = multiplier.seeds.of(Kind::Prepare, 0);
    let beside = (random.uniform(), random.uniform());
    let bits: u32 = plans.iter().flat_map(|plan| &plan.widths).sum();
    let roots: Vec<Field> = (0..bits).map(|_| random.uniform()).collect();
    let squares = roots.iter().map(|root| vec![(*root, *root)]);
    let counts: Vec<usize> = plans.iter().map(|plan| plan.sums.len()).collect();
    let products = plans.iter_mut().flat_map(|plan| std::mem::take(&mut plan.sums));
    let sums: Vec<Vec<(Field, Field)>> = squares.chain(products).chain([vec![beside]]).collect();
    let opened = roots.len();
    let values = multiplier.multiply(sums, opened).await?;
    let (squares, products) = values.split_at(opened);
    // A random number is 0 once in 2¹²⁷: nobody needs to sign that the batch is burnt.
    if squares.contains(&Field::ZERO) {
        return Err(Error::WrongProduct);
    }
    let half = Field::new(2).inverse();
    let bit = |(root, square): (&Field, &Field)| (*root * square.inverse_root() + Field::ONE) * half;
    let bits: Vec<Field> = roots.iter().zip(squares).map(bit).collect();
    let blocks = indicators(multiplier, &bits).await?;
    // What belongs to each slot.
    let (mut products, mut bits, mut blocks) = (products.iter(), bits.chunks_exact(3), blocks.into_iter());
    let slot = |(number, plan): (usize, Plan)| {
        let of_width = |width: &u32| {
            let count = *width as usize / 3;
            let value = bits.by_ref().take(count).flatten().enumerate();
            Bits {
                value: value.map(|(i, bit)| *bit * Field::new(1 << i)).sum(),
                blocks: blocks.by_ref().take(count).collect(),
            }
        };
        Slot {
            batch: batch.label,
            circuit: batch.circuit,
            number: number as u32,
            seen: [0; 32],
            bits: plan.widths.iter().map(of_width).collect(),
            products: products.by_ref().take(counts[number]).copied().collect(),
        }
    };
    Ok(plans.into_iter().enumerate().map(slot).collect())
}

/// Eight indicators of each three bits, in two rounds.
async fn indicators(multiplier: &mut Multiplier<'_>, bits: &[Field]) -> Result<Vec<[Field; 8]>, Error> {
    let blocks: Vec<[Field; 3]> = bits.chunks_exact(3).map(|b| [b[0], b[1], b[2]]).collect();
    if blocks.is_empty() {
        return Ok(vec![]);
    }
    let pairs = blocks.iter().flat_map(|[a, b, c]| [vec![(*a, *b)], vec![(*a, *c)], vec![(*b, *c)]]);
    let two = multiplier.multiply(pairs.collect(), 0).await?;
    let triples = blocks.iter().enumerate().map(|(i, block)| vec![(two[3 * i], block[2])]);
    let three = multiplier.multiply(triples.collect(), 0).await?;
    let hot = |(i, [a, b, c]): (usize, &[Field; 3])| {
        let ([ab, ac, bc], abc) = ([two[3 * i], two[3 * i + 1], two[3 * i + 2]], three[i]);
        let (one, only_ab, only_ac, only_bc) = (Field::ONE, ab - abc, ac - abc, bc - abc);
        let (only_a, only_b, only_c) = (*a - ab - only_ac, *b - ab - only_bc, *c - ac - only_bc);
        let none = one - *a - *b - *c + ab + ac + bc - abc;
        [none, only_a, only_b, only_ab, only_c, only_ac, only_bc, abc]
    };
    Ok(blocks.iter().enumerate().map(hot).collect())
}

/// What a committee without the check would do: for the controls of tests.
#[cfg(test)]
pub(crate) async fn prepare_unchecked<F>(
    keys: Arc<MemberKeys>,
    batch: Batch,
    walk: F,
    port: Port,
) -> Result<Prepared, Error>
where
    F: Fn(&mut Plan) -> Result<(), Error> + Send + Sync,
{
    let slots = unchecked(&mut of_keys(&keys, &batch, &port)?, &walk).await?;
    Ok(Prepared { slots, liars: vec![] })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences give what the factors of the polynomial give.
    #[test]
    fn polynomials_go_on() {
        for parts in [2, 5, 16] {
            let vector: Vec<Field> =
                (0..3 * parts as u128).map(|i| Field::new(i * i * i + (i << 120))).collect();
            let points: Vec<u8> = (0..parts as u8).collect();
            for (i, values) in further(&vector, parts).iter().enumerate() {
                let weights = factors(&points, Field::new((parts + i) as u128));
                assert!(*values == mixed(&vector, &weights), "{parts} parts, {i}");
            }
        }
    }
}
