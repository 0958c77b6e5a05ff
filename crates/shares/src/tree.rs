//! Which decisions a bandit has learnt from: a sparse Merkle tree, whose root members agree on.
//!
//! The server has the [`Tree`]. For an update it brings [`Paths`] to the decisions of a batch; members
//! compare their root with the one that they have agreed on, read and change states, and compute the next
//! root alone. So no feedback is counted twice, erased twice, or erased without having been counted.
//!
//! The root of the leaves below a node is
//!
//! | leaves | root |
//! |---|---|
//! | none | zeros |
//! | one, wherever it would be | H(leaf, decision, state) |
//! | more | H(inner, root of those whose next bit is 0, root of those whose next bit is 1) |
//!
//! with the bits of the decision's id, the highest of its first byte first. A set of leaves has one tree: two
//! paths with one root differ in nothing but in what they hide.

use crate::Error;

/// The id of a decision: its label.
pub type DecisionId = [u8; 32];

/// The most bytes of paths: some 1,400 paths at 10⁶ decisions.
const MOST_BYTES: usize = 1 << 20;
/// The bits of a decision's id, and so the deepest leaf.
const BITS: usize = 256;
/// The root of no leaf.
const NONE: [u8; 32] = [0; 32];

/// What became of the feedback of a decision. One that is not in the tree has not been counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionState {
    /// It counts. The hash is that of the record by which it can be erased.
    Learnt([u8; 32]),
    /// It was counted, and does not count any more.
    Erased,
}

/// The states of all decisions.
#[derive(Default)]
pub struct Tree(Node);

/// The states of some decisions, and the hashes of what is beside the paths to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths(Part);

#[derive(Default)]
enum Node {
    #[default]
    Empty,
    Leaf(DecisionId, DecisionState),
    Inner([u8; 32], Box<[Node; 2]>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Empty,
    /// Leaves that are not shown.
    Hash([u8; 32]),
    Leaf(DecisionId, DecisionState),
    Inner(Box<[Part; 2]>),
}

impl Tree {
    /// The root of the tree of no decision is zeros.
    pub fn root(&self) -> [u8; 32] {
        self.0.root()
    }

    /// The state of a decision; none if it was never counted.
    pub fn state(&self, decision: &DecisionId) -> Option<DecisionState> {
        let mut node = &self.0;
        for depth in 0.. {
            match node {
                Node::Empty => break,
                Node::Leaf(id, state) => return (id == decision).then_some(*state),
                Node::Inner(_, below) => node = &below[bit(decision, depth)],
            }
        }
        None
    }

    /// Changes the state of a decision. It takes two hashes for each level above its leaf, and one
    /// more, at most.
    ///
    /// # Errors
    /// As [`Paths::set`].
    pub fn set(&mut self, decision: &DecisionId, state: DecisionState) -> Result<(), Error> {
        follows(self.state(decision), state)?;
        self.0.set(decision, state, 0);
        Ok(())
    }

    /// The paths to these decisions, in any order.
    pub fn paths(&self, decisions: &[DecisionId]) -> Paths {
        let mut sorted = decisions.to_vec();
        sorted.sort_unstable();
        Paths(self.0.part(&sorted, 0))
    }
}

impl Paths {
    /// The root of the tree that they are of.
    pub fn root(&self) -> [u8; 32] {
        self.0.root()
    }

    /// The state of a decision; none if it was never counted.
    ///
    /// # Errors
    /// [`Error::Hidden`] for a decision to which there is no path.
    pub fn state(&self, decision: &DecisionId) -> Result<Option<DecisionState>, Error> {
        let mut part = &self.0;
        for depth in 0.. {
            match part {
                Part::Empty => break,
                Part::Hash(_) => return Err(Error::Hidden),
                Part::Leaf(id, state) => return Ok((id == decision).then_some(*state)),
                Part::Inner(below) => part = &below[bit(decision, depth)],
            }
        }
        Ok(None)
    }

    /// Changes the state of a decision: [`Paths::root`] is that of the next tree.
    ///
    /// # Errors
    /// [`Error::Hidden`]; [`Error::Counted`] unless one that was never counted is learnt, or a learnt one
    /// erased.
    pub fn set(&mut self, decision: &DecisionId, state: DecisionState) -> Result<(), Error> {
        follows(self.state(decision)?, state)?;
        self.0.set(decision, state, 0);
        Ok(())
    }

    /// The bytes that [`Paths::from_bytes`] reads: 33 or fewer for what is beside each level,
    /// one for the level, and 65 for a leaf. At 10⁶ decisions a path has 20 levels, 0.75 kB.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![];
        self.0.write(&mut bytes);
        bytes
    }

    /// Reads paths of the tree of this root, which members have agreed on.
    ///
    /// # Errors
    /// [`Error::Paths`] for bytes of another form, of more than 2²⁰, or with some left over; for paths that
    /// have another root; for a leaf where its decision's bits do not lead to; and for a form that the tree
    /// of no set of leaves has, or that paths do not need.
    pub fn from_bytes(root: &[u8; 32], bytes: &[u8]) -> Result<Self, Error> {
        let paths = Paths(parse(bytes)?);
        paths.0.check(&mut vec![])?;
        match paths.root() == *root {
            true => Ok(paths),
            false => refused("their root is not the one of the checkpoint"),
        }
    }
}

impl DecisionState {
    fn name(state: Option<Self>) -> &'static str {
        match state {
            None => "not counted",
            Some(DecisionState::Learnt(_)) => "learnt",
            Some(DecisionState::Erased) => "erased",
        }
    }
}

/// Whether a decision of state `is` can be given the next one.
fn follows(is: Option<DecisionState>, next: DecisionState) -> Result<(), Error> {
    match (is, next) {
        (None, DecisionState::Learnt(_)) | (Some(DecisionState::Learnt(_)), DecisionState::Erased) => Ok(()),
        (is, next) => {
            Err(Error::Counted { is: DecisionState::name(is), wanted: DecisionState::name(Some(next)) })
        }
    }
}

fn refused<T>(why: &'static str) -> Result<T, Error> {
    Err(Error::Paths { why })
}

/// Bit `depth` of an id, from its highest on; 0 behind its end.
fn bit(decision: &DecisionId, depth: usize) -> usize {
    decision.get(depth / 8).map_or(0, |byte| usize::from(byte >> (7 - depth % 8) & 1))
}

fn leaf(decision: &DecisionId, state: &DecisionState) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 leaf of the tree of decisions");
    hasher.update(decision);
    match state {
        DecisionState::Learnt(record) => hasher.update(&[1]).update(record),
        DecisionState::Erased => hasher.update(&[2]),
    };
    counted(&hasher)
}

fn inner(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 node of the tree of decisions");
    counted(hasher.update(left).update(right))
}

fn counted(hasher: &blake3::Hasher) -> [u8; 32] {
    #[cfg(test)]
    tests::HASHES.with(|hashes| hashes.set(hashes.get() + 1));
    *hasher.finalize().as_bytes()
}

impl Node {
    fn root(&self) -> [u8; 32] {
        match self {
            Node::Empty => NONE,
            Node::Leaf(decision, state) => leaf(decision, state),
            Node::Inner(hash, _) => *hash,
        }
    }

    fn of(below: [Node; 2]) -> Self {
        Node::Inner(inner(&below[0].root(), &below[1].root()), Box::new(below))
    }

    fn set(&mut self, decision: &DecisionId, state: DecisionState, depth: usize) {
        match self {
            Node::Inner(hash, below) => {
                below[bit(decision, depth)].set(decision, state, depth + 1);
                *hash = inner(&below[0].root(), &below[1].root());
            }
            Node::Leaf(id, _) if id != decision => {
                let (other, to) = (bit(id, depth), bit(decision, depth));
                let mut below = [Node::Empty, Node::Empty];
                below[other] = std::mem::take(self);
                below[to].set(decision, state, depth + 1);
                *self = Node::of(below);
            }
            _ => *self = Node::Leaf(*decision, state),
        }
    }

    /// What paths to sorted decisions show of it.
    fn part(&self, decisions: &[DecisionId], depth: usize) -> Part {
        match self {
            Node::Empty => Part::Empty,
            node if decisions.is_empty() => Part::Hash(node.root()),
            Node::Leaf(decision, state) => Part::Leaf(*decision, *state),
            Node::Inner(_, below) => {
                let (left, right) =
                    decisions.split_at(decisions.partition_point(|decision| bit(decision, depth) == 0));
                Part::Inner(Box::new([below[0].part(left, depth + 1), below[1].part(right, depth + 1)]))
            }
        }
    }
}

impl Part {
    fn root(&self) -> [u8; 32] {
        match self {
            Part::Empty => NONE,
            Part::Hash(hash) => *hash,
            Part::Leaf(decision, state) => leaf(decision, state),
            Part::Inner(below) => inner(&below[0].root(), &below[1].root()),
        }
    }

    /// The decision must not be hidden.
    fn set(&mut self, decision: &DecisionId, state: DecisionState, depth: usize) {
        match self {
            Part::Inner(below) => below[bit(decision, depth)].set(decision, state, depth + 1),
            Part::Leaf(id, _) if id != decision => {
                let (other, to) = (bit(id, depth), bit(decision, depth));
                let mut below = [Part::Empty, Part::Empty];
                below[other] = std::mem::replace(self, Part::Empty);
                below[to].set(decision, state, depth + 1);
                *self = Part::Inner(Box::new(below));
            }
            _ => *self = Part::Leaf(*decision, state),
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Part::Empty => bytes.push(0),
            Part::Hash(hash) => {
                bytes.push(1);
                bytes.extend(hash);
            }
            Part::Leaf(decision, DecisionState::Learnt(record)) => {
                bytes.push(2);
                bytes.extend(decision);
                bytes.extend(record);
            }
            Part::Leaf(decision, DecisionState::Erased) => {
                bytes.push(3);
                bytes.extend(decision);
            }
            Part::Inner(below) => {
                bytes.push(4);
                below.iter().for_each(|part| part.write(bytes));
            }
        }
    }

    /// Refuses what is no part of the tree of a set of leaves. `path` has the bits that lead here.
    fn check(&self, path: &mut Vec<usize>) -> Result<(), Error> {
        match self {
            Part::Empty => Ok(()),
            Part::Hash(NONE) => refused("no leaf has a hash of zeros"),
            Part::Hash(_) => Ok(()),
            Part::Leaf(decision, _) => {
                match path.iter().enumerate().all(|(depth, step)| bit(decision, depth) == *step) {
                    true => Ok(()),
                    false => refused("a leaf is where its decision does not belong"),
                }
            }
            Part::Inner(below) => {
                match &**below {
                    [Part::Empty, Part::Empty | Part::Leaf(..)] | [Part::Leaf(..), Part::Empty] => {
                        return refused("a node has fewer than two leaves below it");
                    }
                    // An update would compute with hashes of a tree that nobody needs to see.
                    [Part::Hash(_), Part::Hash(_)] => return refused("a node shows nothing"),
                    _ => {}
                }
                for (step, part) in below.iter().enumerate() {
                    path.push(step);
                    part.check(path)?;
                    path.pop();
                }
                Ok(())
            }
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Part, Error> {
    if bytes.len() > MOST_BYTES {
        return refused("they have more than 2^20 bytes");
    }
    let mut rest = bytes;
    let part = parse_part(&mut rest, 0)?;
    if rest.is_empty() { Ok(part) } else { refused("bytes are left over") }
}

fn parse_part(rest: &mut &[u8], depth: usize) -> Result<Part, Error> {
    let Some((kind, after)) = rest.split_first() else { return refused("they end too early") };
    *rest = after;
    let mut hash = || match rest.split_first_chunk::<32>() {
        Some((hash, after)) => {
            *rest = after;
            Ok(*hash)
        }
        None => refused("they end too early"),
    };
    match kind {
        0 => Ok(Part::Empty),
        1 => Ok(Part::Hash(hash()?)),
        2 => Ok(Part::Leaf(hash()?, DecisionState::Learnt(hash()?))),
        3 => Ok(Part::Leaf(hash()?, DecisionState::Erased)),
        // The depth bounds the stack.
        4 if depth < BITS => {
            let left = parse_part(rest, depth + 1)?;
            Ok(Part::Inner(Box::new([left, parse_part(rest, depth + 1)?])))
        }
        4 => refused("a node is deeper than ids have bits"),
        _ => refused("a part is of no known kind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    thread_local! {
        /// The hashes that this thread has computed.
        pub(super) static HASHES: Cell<usize> = const { Cell::new(0) };
    }

    const LEARNT: DecisionState = DecisionState::Learnt([7; 32]);

    fn id(number: u64) -> DecisionId {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    /// The levels above the leaf of a decision.
    fn depth(node: &Node, decision: &DecisionId, above: usize) -> usize {
        match node {
            Node::Inner(_, below) => depth(&below[bit(decision, above)], decision, above + 1),
            _ => above,
        }
    }

    fn tree(decisions: &[DecisionId]) -> Tree {
        let mut tree = Tree::default();
        decisions.iter().for_each(|decision| tree.set(decision, LEARNT).unwrap());
        tree
    }

    /// The root by its definition.
    fn naive(leaves: &BTreeMap<DecisionId, DecisionState>, depth: usize) -> [u8; 32] {
        if leaves.len() <= 1 {
            return leaves.iter().next().map_or(NONE, |(decision, state)| leaf(decision, state));
        }
        let half =
            |side| leaves.iter().filter(|(d, _)| bit(d, depth) == side).map(|(d, s)| (*d, *s)).collect();
        inner(&naive(&half(0), depth + 1), &naive(&half(1), depth + 1))
    }

    /// Ids with long common beginnings, and ids without.
    fn ids() -> impl Strategy<Value = DecisionId> {
        let near = (0u8..3, 0u8..4, prop_oneof![Just(0usize), Just(1), Just(17), Just(31)]);
        let near = near.prop_map(|(first, other, at)| {
            let mut id = [0; 32];
            id[0] = first << 6;
            id[at] |= other;
            id
        });
        prop_oneof![near, (0u64..40).prop_map(id)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(192))]

        /// The tree, and paths to what is asked and changed, agree with a map and with the definition of the
        /// root at every step.
        #[test]
        fn trees_and_paths_are_a_map(
            steps in prop::collection::vec((ids(), any::<bool>(), any::<u8>()), 1..60),
            asked in prop::collection::vec(ids(), 0..8),
        ) {
            let mut map: BTreeMap<DecisionId, DecisionState> = BTreeMap::new();
            let mut tree = Tree::default();
            let touched: Vec<DecisionId> = steps.iter().map(|(d, ..)| *d).chain(asked.clone()).collect();
            for (decision, learn, record) in &steps {
                let next = if *learn { DecisionState::Learnt([*record; 32]) } else { DecisionState::Erased };
                let is = map.get(decision).copied();
                let allowed = matches!(
                    (is, next),
                    (None, DecisionState::Learnt(_)) | (Some(DecisionState::Learnt(_)), DecisionState::Erased)
                );
                let mut paths = tree.paths(&[&asked[..], &[*decision]].concat());
                prop_assert_eq!(paths.state(decision), Ok(is));
                prop_assert_eq!(tree.set(decision, next).is_ok(), allowed);
                prop_assert_eq!(paths.set(decision, next), follows(is, next));
                if allowed {
                    map.insert(*decision, next);
                }
                prop_assert_eq!(tree.root(), naive(&map, 0));
                prop_assert_eq!(paths.root(), tree.root());
                // What was changed has the one form of the next tree.
                prop_assert!(Paths::from_bytes(&tree.root(), &paths.to_bytes()).as_ref() == Ok(&paths));
            }
            let paths = tree.paths(&asked);
            let read = Paths::from_bytes(&tree.root(), &paths.to_bytes());
            prop_assert_eq!(read.as_ref(), Ok(&paths));
            for decision in &touched {
                let got = paths.state(decision);
                if asked.contains(decision) || got.is_ok() {
                    prop_assert_eq!(got, Ok(map.get(decision).copied()));
                }
                prop_assert_eq!(tree.state(decision), map.get(decision).copied());
            }
        }

        /// A batch of changes through paths gives the root that the tree has after them, in any order.
        #[test]
        fn a_batch_goes_through_paths(had in 0u64..200, order in Just((200u64..216).collect::<Vec<_>>()).prop_shuffle()) {
            let mut tree = tree(&(0..had).map(id).collect::<Vec<_>>());
            let batch: Vec<DecisionId> = order.into_iter().map(id).collect();
            let mut paths = Paths::from_bytes(&tree.root(), &tree.paths(&batch).to_bytes()).unwrap();
            batch.iter().for_each(|decision| paths.set(decision, LEARNT).unwrap());
            (200..216).for_each(|number| tree.set(&id(number), LEARNT).unwrap());
            prop_assert_eq!(paths.root(), tree.root());
        }

        /// No bytes make a reader panic, and what it reads is written as it was.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop_oneof![0u8..6, any::<u8>()], 0..200)) {
            if let Ok(part) = parse(&bytes) {
                let mut written = vec![];
                part.write(&mut written);
                prop_assert_eq!(written, bytes);
                part.check(&mut vec![]).ok();
            }
        }

        /// A bit of a path that is changed is seen.
        #[test]
        fn a_changed_bit_is_refused(had in 1u64..60, asked in 0u64..80, at in any::<prop::sample::Index>(), flip in 0u8..8) {
            let tree = tree(&(0..had).map(id).collect::<Vec<_>>());
            let mut bytes = tree.paths(&[id(asked)]).to_bytes();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << flip;
            prop_assert!(Paths::from_bytes(&tree.root(), &bytes).is_err());
        }
    }

    #[test]
    fn paths_are_small_and_changes_cheap() {
        let count = 20_000;
        let mut tree = tree(&(0..count).map(id).collect::<Vec<_>>());
        let sizes: Vec<usize> = (0..200).map(|i| tree.paths(&[id(i * 400)]).to_bytes().len()).collect();
        // log₂ 20,000 is 14.3: 34 bytes a level, fewer where nothing is beside, and 65 for the leaf.
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((500..560).contains(&mean), "{mean} bytes");
        for number in count..count + 200 {
            HASHES.with(|hashes| hashes.set(0));
            tree.set(&id(number), LEARNT).unwrap();
            let hashes = HASHES.with(Cell::get);
            let levels = depth(&tree.0, &id(number), 0);
            assert!(hashes <= 2 * levels + 1, "{hashes} hashes for {levels} levels");
            assert!((10..60).contains(&levels), "{levels} levels");
        }
    }

    #[test]
    fn feedback_counts_once() {
        let (one, other) = (id(1), id(2));
        let mut paths = tree(&[one]).paths(&[one, other]);
        let counted = |is, wanted| Err(Error::Counted { is, wanted });
        assert_eq!(paths.set(&one, DecisionState::Learnt([8; 32])), counted("learnt", "learnt"));
        assert_eq!(paths.set(&other, DecisionState::Erased), counted("not counted", "erased"));
        assert_eq!(paths.set(&one, DecisionState::Erased), Ok(()));
        assert_eq!(paths.set(&one, DecisionState::Erased), counted("erased", "erased"));
        assert_eq!(paths.set(&one, LEARNT), counted("erased", "learnt"));
        assert_eq!(paths.set(&other, LEARNT), Ok(()));
    }

    fn read(root: [u8; 32], part: Part) -> Result<Paths, Error> {
        Paths::from_bytes(&root, &Paths(part).to_bytes())
    }

    fn why(result: Result<Paths, Error>) -> &'static str {
        match result {
            Err(Error::Paths { why }) => why,
            other => panic!("{other:?}"),
        }
    }

    /// A server hides the leaf of a decision that was learnt, to count it again: the state cannot be read or
    /// changed. In the control, where what is hidden is taken for absent, it counts twice.
    #[test]
    fn attack_a_path_hides_a_learnt_leaf() {
        let decisions: Vec<DecisionId> = (0..50).map(id).collect();
        let tree = tree(&decisions);
        let beside = (0..50).map(id).find(|other| bit(other, 0) != bit(&decisions[0], 0)).unwrap();
        let bytes = tree.paths(&[beside]).to_bytes();
        let mut hides = Paths::from_bytes(&tree.root(), &bytes).unwrap();
        assert_eq!(hides.state(&decisions[0]), Err(Error::Hidden));
        assert_eq!(hides.set(&decisions[0], LEARNT), Err(Error::Hidden));
        let control = hides.state(&decisions[0]).unwrap_or(None);
        assert_eq!(follows(control, LEARNT), Ok(()), "the control: it counts twice");
        // A truncated path: the node above the leaf is shown as nothing, or its bytes end.
        let bytes = tree.paths(&[decisions[0]]).to_bytes();
        for cut in 0..bytes.len() {
            assert!(Paths::from_bytes(&tree.root(), &bytes[..cut]).is_err(), "{cut}");
        }
        fn cut(part: &mut Part, decision: &DecisionId, depth: usize) {
            match part {
                Part::Inner(below) if depth < 3 => cut(&mut below[bit(decision, depth)], decision, depth + 1),
                part => *part = Part::Empty,
            }
        }
        let mut paths = tree.paths(&[decisions[0]]);
        cut(&mut paths.0, &decisions[0], 0);
        assert_eq!(paths.state(&decisions[0]), Ok(None), "the control: nobody compares the root");
        assert_eq!(why(read(tree.root(), paths.0)), "their root is not the one of the checkpoint");
    }

    /// A server shows another leaf in the place of a learnt one. Its root is another; and where a root was
    /// agreed on that was not computed from leaves in their places, the place is looked at. In the control,
    /// without either, the decision that is in the tree is absent.
    #[test]
    fn attack_another_leaf_is_in_its_place() {
        let [zero, one] = [0, 1].map(|side| (0..).map(id).find(|d| bit(d, 0) == side).unwrap());
        let absent = (2..).map(id).find(|d| bit(d, 0) == 1 && *d != one).unwrap();
        let right = tree(&[zero, one]);
        let pair = |left, right| Part::Inner(Box::new([left, right]));
        let leaf = |decision| Part::Leaf(decision, LEARNT);
        let other = pair(leaf(zero), leaf(absent));
        assert_eq!(Paths(other.clone()).state(&one), Ok(None), "the control: nobody compares the root");
        assert_eq!(why(read(right.root(), other)), "their root is not the one of the checkpoint");
        let swapped = pair(leaf(one), leaf(zero));
        assert_eq!(Paths(swapped.clone()).state(&one), Ok(None), "the control: nobody looks at places");
        assert_eq!(parse(&Paths(swapped.clone()).to_bytes()).as_ref(), Ok(&swapped));
        assert_eq!(why(read(swapped.root(), swapped)), "a leaf is where its decision does not belong");
    }

    /// Forms that the tree of no leaves has are refused, whatever root they have.
    #[test]
    fn other_forms_are_refused() {
        let [zero, one] = [0, 1].map(|side| (0..).map(id).find(|d| bit(d, 0) == side).unwrap());
        let pair = |left, right| Part::Inner(Box::new([left, right]));
        let leaf = |decision| Part::Leaf(decision, LEARNT);
        let hash = |byte| Part::Hash([byte; 32]);
        let few = "a node has fewer than two leaves below it";
        for (part, reason) in [
            (pair(leaf(zero), Part::Empty), few),
            (pair(Part::Empty, leaf(one)), few),
            (pair(Part::Empty, Part::Empty), few),
            (pair(pair(Part::Empty, Part::Empty), leaf(one)), few),
            (pair(hash(1), hash(2)), "a node shows nothing"),
            (pair(leaf(zero), pair(hash(1), hash(2))), "a node shows nothing"),
            (hash(0), "no leaf has a hash of zeros"),
            (pair(leaf(zero), hash(0)), "no leaf has a hash of zeros"),
        ] {
            assert_eq!(why(read(part.root(), part)), reason);
        }
        assert!(read(NONE, Part::Empty).is_ok() && read([1; 32], hash(1)).is_ok());
        let deep = |count: usize| [vec![4; count], vec![0]].concat();
        assert_eq!(why(Paths::from_bytes(&NONE, &deep(256))), "they end too early");
        assert_eq!(why(Paths::from_bytes(&NONE, &deep(257))), "a node is deeper than ids have bits");
        assert_eq!(why(Paths::from_bytes(&NONE, &[4; MOST_BYTES + 1])), "they have more than 2^20 bytes");
        assert_eq!(why(Paths::from_bytes(&NONE, &[0, 0])), "bytes are left over");
        assert_eq!(why(Paths::from_bytes(&NONE, &[5])), "a part is of no known kind");
        // Two ids that differ in their last bit alone are 256 deep, and arrive.
        let (last, mut other) = ([0; 32], [0; 32]);
        other[31] = 1;
        let tree = tree(&[last, other]);
        let paths = tree.paths(&[other]);
        assert_eq!(Paths::from_bytes(&tree.root(), &paths.to_bytes()), Ok(paths));
    }
}
