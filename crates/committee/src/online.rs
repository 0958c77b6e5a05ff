//! Circuits on shares: prepared without inputs, then computed with them.
//!
//! A slot serves one decision or one update. Its masks follow from the keys of subsets and its label, so that
//! both walks draw the same ones. What a member shows in a round is, for each gate Σ x·y + v with the wires
//! x = m_x − λ_x and y = m_y − λ_y,
//!
//! Σ (m_x·m_y − m_x·λ_y,j − m_y·λ_x,j) + Λ_j + v_j + λ_j,
//!
//! its share of Σ x·y + v + λ, where Λ = Σ λ_x·λ_y was prepared (Ben-Efraim, Nielsen, Omri 2019). The numbers
//! of others are read from shares of which 2t − 1 must lie on one polynomial.

use crate::Error;
use crate::conversation::{Ask, Conversation, Next, Port, Reply};
use crate::keys::{Masks, MemberKeys, Seeds, mask_bits};
use crate::machine::{Bits, CircuitId, Gate, Linear, Machine, Target};
use shares::{Field, Kind, Label, Reader, Record, Sharing};
use std::ops::{Add, Mul, Sub};
use std::sync::Arc;
use zeroize::Zeroize;

/// A number x = m − λ: m is public, and of λ the member has a share.
#[derive(Clone, Copy)]
pub struct Wire {
    pub(crate) m: Field,
    pub(crate) mask: Field,
}

impl Linear for Wire {}

impl From<Field> for Wire {
    fn from(m: Field) -> Wire {
        Wire { m, mask: Field::ZERO }
    }
}

impl From<Wire> for Field {
    /// The member's share of the number.
    fn from(wire: Wire) -> Field {
        wire.m - wire.mask
    }
}

impl Add for Wire {
    type Output = Wire;

    fn add(self, other: Wire) -> Wire {
        Wire { m: self.m + other.m, mask: self.mask + other.mask }
    }
}

impl Sub for Wire {
    type Output = Wire;

    fn sub(self, other: Wire) -> Wire {
        Wire { m: self.m - other.m, mask: self.mask - other.mask }
    }
}

impl Add<Field> for Wire {
    type Output = Wire;

    fn add(self, number: Field) -> Wire {
        Wire { m: self.m + number, ..self }
    }
}

impl Mul<Field> for Wire {
    type Output = Wire;

    fn mul(self, factor: Field) -> Wire {
        Wire { m: self.m * factor, mask: self.mask * factor }
    }
}

/// The masks of a slot, in the order in which a circuit draws them.
struct SlotMasks {
    masks: Masks,
    record: Masks,
    bits: u32,
    subsets: usize,
}

impl SlotMasks {
    fn new(seeds: &Seeds, slot: u32) -> Self {
        SlotMasks {
            masks: seeds.of(Kind::Mask, slot),
            record: seeds.of(Kind::Record, slot),
            bits: mask_bits(seeds.sharing()),
            subsets: seeds.sharing().subsets().len(),
        }
    }

    /// The mask that is added, and that of the wire.
    fn of(&mut self, target: Target) -> (Field, Field) {
        match target {
            Target::Masked => {
                let mask = self.masks.uniform();
                (mask, mask)
            }
            Target::Record => {
                let mask = self.record.uniform();
                (mask, mask)
            }
            Target::Cut { low, .. } => self.masks.bounded(self.bits, low),
            Target::Opened => (Field::ZERO, Field::ZERO),
        }
    }

    /// The public part of a wire whose masked number was opened.
    fn public(&self, target: Target, opened: Field) -> Field {
        let Target::Cut { low, most } = target else {
            return opened;
        };
        // As integers, opened = value + Σ r_A. Less Σ ⌊r_A/2^low⌋ it is value/2^low, and up to one for each
        // subset more: half of them are taken off.
        let offset = (most + 1).next_power_of_two().max(1 << low);
        let cut = ((opened + Field::new(offset)).get() >> low) as i128 - (offset >> low) as i128;
        Field::from_signed(cut - (self.subsets / 2) as i128)
    }
}

/// Walks through a circuit without inputs, and notes what is to be prepared.
pub struct Plan {
    masks: SlotMasks,
    /// Of each sum the masks whose products are added.
    pub(crate) sums: Vec<Vec<(Field, Field)>>,
    /// The width of each comparison.
    pub(crate) widths: Vec<u32>,
}

impl Plan {
    pub(crate) fn new(seeds: &Seeds, slot: u32) -> Self {
        Plan { masks: SlotMasks::new(seeds, slot), sums: vec![], widths: vec![] }
    }
}

/// What was prepared for a decision or an update, as a member has it: shares of the products of masks, and
/// of random bits.
pub struct Slot {
    pub(crate) batch: Label,
    pub(crate) circuit: CircuitId,
    pub(crate) number: u32,
    /// The hash of all that was opened while it was prepared, which 2t − 1 members have signed as good.
    pub(crate) seen: [u8; 32],
    pub(crate) products: Vec<Field>,
    pub(crate) bits: Vec<Bits<Field>>,
}

impl Slot {
    /// A slot of a batch for a computation that needs nothing prepared: it masks and opens alone.
    pub(crate) fn of_batch(batch: crate::prepare::Batch) -> Self {
        let (products, bits) = (vec![], vec![]);
        let (label, circuit) = (*batch.label(), batch.circuit());
        Slot { batch: label, circuit, number: 0, seen: *label.bytes(), products, bits }
    }

    /// The label of its batch.
    pub fn label(&self) -> &Label {
        &self.batch
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.products.zeroize();
        for bits in &mut self.bits {
            bits.value.zeroize();
            bits.blocks.iter_mut().for_each(Zeroize::zeroize);
        }
    }
}

/// Computes a circuit of one slot.
pub struct Lane {
    masks: SlotMasks,
    slot: Slot,
    /// How many of its products and numbers of random bits have served.
    products: usize,
    bits: usize,
    port: Port,
    record: Record,
    /// The batch of slots and the slot, which challenges are drawn from.
    seen: [u8; 32],
    challenges: u32,
}

impl Lane {
    /// Computes a circuit with a slot, which serves once.
    ///
    /// # Errors
    /// [`Error::Slot`] for a slot that was prepared for another circuit.
    pub fn new(keys: &MemberKeys, slot: Slot, circuit: CircuitId, port: Port) -> Result<Self, Error> {
        if slot.circuit != circuit {
            return Err(Error::Slot);
        }
        Ok(Lane {
            masks: SlotMasks::new(&keys.seeds(&slot.batch), slot.number),
            products: 0,
            bits: 0,
            port,
            record: Record { batch: slot.batch, slot: slot.number, numbers: vec![] },
            seen: slot.seen,
            slot,
            challenges: 0,
        })
    }

    /// The record of the numbers that the circuit has put there.
    pub fn into_record(self) -> Record {
        self.record
    }
}

impl Machine for Plan {
    type Share = Field;
    type Wire = Wire;

    fn public(&self, _: Wire) -> Field {
        Field::ZERO
    }

    fn challenge(&mut self, _: &[Wire], count: usize) -> Vec<Field> {
        vec![Field::ONE; count]
    }

    fn random(&mut self) -> Wire {
        Wire { m: Field::ZERO, mask: self.masks.masks.uniform() }
    }

    fn random_below(&mut self, bits: u32) -> Field {
        self.masks.masks.bounded(bits, 0).0
    }

    fn random_bits(&mut self, width: u32) -> Result<Bits<Field>, Error> {
        self.widths.push(width);
        Ok(Bits { value: Field::ZERO, blocks: vec![[Field::ZERO; 8]; width as usize / 3] })
    }

    fn mask_bits(&self) -> u32 {
        self.masks.bits
    }

    async fn round(&mut self, gates: Vec<Gate<Field, Wire>>) -> Result<Vec<Wire>, Error> {
        let mut wires = Vec::with_capacity(gates.len());
        for gate in gates {
            let (_, mask) = self.masks.of(gate.target);
            for sum in gate.sums {
                self.sums.push(sum.products.into_iter().map(|(x, y)| (x.mask, y.mask)).collect());
            }
            wires.push(Wire { m: Field::ZERO, mask });
        }
        Ok(wires)
    }
}

impl Machine for Lane {
    type Share = Field;
    type Wire = Wire;

    fn public(&self, wire: Wire) -> Field {
        wire.m
    }

    /// From the label of the slot, all that was opened before it was used, and the public parts.
    fn challenge(&mut self, wires: &[Wire], count: usize) -> Vec<Field> {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 factors of a run on shares");
        hasher.update(&self.seen).update(&self.record.slot.to_le_bytes());
        hasher.update(&self.challenges.to_le_bytes());
        self.challenges += 1;
        wires.iter().for_each(|wire| {
            hasher.update(&wire.m.to_bytes());
        });
        numbers(&hasher, count)
    }

    fn random(&mut self) -> Wire {
        Wire { m: Field::ZERO, mask: self.masks.masks.uniform() }
    }

    fn random_below(&mut self, bits: u32) -> Field {
        self.masks.masks.bounded(bits, 0).0
    }

    fn random_bits(&mut self, width: u32) -> Result<Bits<Field>, Error> {
        let bits = self.slot.bits.get(self.bits).cloned().ok_or(Error::Slot)?;
        self.bits += 1;
        if bits.blocks.len() == width as usize / 3 { Ok(bits) } else { Err(Error::Slot) }
    }

    fn mask_bits(&self) -> u32 {
        self.masks.bits
    }

    async fn round(&mut self, gates: Vec<Gate<Field, Wire>>) -> Result<Vec<Wire>, Error> {
        let mut shown = Vec::with_capacity(gates.len());
        let mut kept = Vec::with_capacity(gates.len());
        for gate in &gates {
            let mut share = gate.plus.unwrap_or(Field::ZERO);
            for sum in &gate.sums {
                let mut part = *self.slot.products.get(self.products).ok_or(Error::Slot)?;
                self.products += 1;
                for (x, y) in &sum.products {
                    part += x.m * (y.m - y.mask) - y.m * x.mask;
                }
                share += part * sum.factor;
            }
            let (mask, of_wire) = self.masks.of(gate.target);
            shown.push(share + mask);
            kept.push((gate.target, of_wire));
        }
        let Reply::Numbers(opened) = self.port.ask(Ask::Show(shown)).await else {
            return Err(Error::Message);
        };
        if opened.len() != kept.len() {
            return Err(Error::Message);
        }
        let wire = |((target, mask), opened): ((Target, Field), Field)| {
            if target == Target::Record {
                self.record.numbers.push(opened);
            }
            Wire { m: self.masks.public(target, opened), mask }
        };
        Ok(kept.into_iter().zip(opened).map(wire).collect())
    }
}

/// `count` numbers from a hash.
pub(crate) fn numbers(hasher: &blake3::Hasher, count: usize) -> Vec<Field> {
    let mut output = hasher.finalize_xof();
    let number = |_| {
        let mut bytes = [0; 16];
        output.fill(&mut bytes);
        Field::new(u128::from_le_bytes(bytes) >> 1)
    };
    (0..count).map(number).collect()
}

/// A pack of computations that show their numbers together, each on a slot of its own. One that ends early
/// does not stop the others.
///
/// A computation may have fewer members than the run: those who refuse its input walk through it without
/// showing anything, and read what the others open.
pub struct Run<T> {
    own: u8,
    lanes: Vec<RunLane<T>>,
    sharing: Arc<Sharing>,
    /// The members who take part.
    here: Vec<u8>,
    /// By the members of whom shares are read.
    readers: Vec<Reader>,
    liars: Vec<u8>,
    /// The hash of all that was opened.
    seen: blake3::Hasher,
    /// Whether a round was on no polynomial: then nothing more is read or shown.
    failed: bool,
}

/// A computation of a run.
pub struct Part<T> {
    /// What is computed.
    pub computation: Conversation<T>,
    /// The members whose shares it is computed on.
    pub members: Vec<u8>,
}

struct RunLane<T> {
    part: Part<T>,
    /// How many numbers it has shown in this round; none once it has ended.
    shown: usize,
    result: Option<Result<T, Error>>,
}

impl<T> Run<T> {
    /// A run of these computations among the members `here`. `about` is all that they have agreed on: members
    /// with another run see other hashes.
    ///
    /// # Errors
    /// Those of [`shares::Sharing::reader`].
    pub fn new(keys: &MemberKeys, here: &[u8], about: &[u8], parts: Vec<Part<T>>) -> Result<Self, Error> {
        let sharing = keys.sharing().clone();
        sharing.reader(here)?;
        for part in &parts {
            sharing.reader(&part.members)?;
            if let Some(member) = part.members.iter().find(|member| !here.contains(member)) {
                return Err(shares::Error::Member { member: *member }.into());
            }
        }
        let mut seen = blake3::Hasher::new_derive_key("helba 2026-11-27 what was opened in a run");
        seen.update(&(about.len() as u64).to_le_bytes()).update(about);
        let lane = |part| RunLane { part, shown: 0, result: None };
        Ok(Run {
            own: keys.member(),
            lanes: parts.into_iter().map(lane).collect(),
            sharing,
            here: here.to_vec(),
            readers: vec![],
            liars: vec![],
            seen,
            failed: false,
        })
    }

    /// The numbers that the member shows first.
    pub fn start(&mut self) -> Vec<Field> {
        let own = self.own;
        self.lanes.iter_mut().flat_map(|lane| lane.go_on(own, None)).collect()
    }

    /// The members who take part: fewer, once one was left out.
    pub fn here(&self) -> &[u8] {
        &self.here
    }

    /// How many numbers each member shows in this round.
    pub fn count(&self) -> usize {
        self.lanes.iter().map(|lane| lane.shown).sum()
    }

    /// Reads what members have shown in this round, the member's own numbers among them, and returns what the
    /// member shows in the next: nothing at the end. A member whose numbers are missing is left out from now
    /// on.
    ///
    /// # Errors
    /// [`Error::Shares`] if a number is on no polynomial, or too few members are left: the run has ended
    /// then, and nothing more is shown; [`Error::Message`] for other numbers than a round has, and after such
    /// an end.
    pub fn go_on(&mut self, shown: &[(u8, &[Field])]) -> Result<Vec<Field>, Error> {
        let count = self.count();
        if self.failed || shown.iter().any(|(_, numbers)| numbers.len() != count) {
            return Err(Error::Message);
        }
        self.here.retain(|member| shown.iter().any(|(other, _)| other == member));
        // All numbers of a round are read before a computation goes on.
        let opened = self.open(shown, count).inspect_err(|_| self.failed = true)?;
        opened.iter().for_each(|number| {
            self.seen.update(&number.to_bytes());
        });
        let mut opened = opened.into_iter();
        let mut next = Vec::new();
        for lane in &mut self.lanes {
            if lane.shown > 0 {
                let reply = opened.by_ref().take(lane.shown).collect();
                next.extend(lane.go_on(self.own, Some(Reply::Numbers(reply))));
            }
        }
        Ok(next)
    }

    fn open(&mut self, shown: &[(u8, &[Field])], count: usize) -> Result<Vec<Field>, Error> {
        let mut opened = Vec::with_capacity(count);
        for lane in &self.lanes {
            if lane.shown == 0 {
                continue;
            }
            let of = |member: &u8| self.here.contains(member).then_some(*member);
            let members: Vec<u8> = lane.part.members.iter().filter_map(of).collect();
            let at = match self.readers.iter().position(|reader| reader.here() == members) {
                Some(at) => at,
                None => {
                    self.readers.push(self.sharing.reader(&members)?);
                    self.readers.len() - 1
                }
            };
            let reader = &mut self.readers[at];
            let of = |member: &u8| shown.iter().find(|(other, _)| other == member).map(|(_, of)| *of);
            let numbers: Vec<&[Field]> = members.iter().filter_map(of).collect();
            let mut shares = vec![Field::ZERO; numbers.len()];
            for place in opened.len()..opened.len() + lane.shown {
                shares.iter_mut().zip(&numbers).for_each(|(share, numbers)| *share = numbers[place]);
                let number = reader.open(&shares)?;
                for liar in number.liars {
                    if !self.liars.contains(&liar) {
                        self.liars.push(liar);
                    }
                }
                opened.push(number.value);
            }
        }
        Ok(opened)
    }

    /// The hash of what members have agreed on, and of all numbers that were opened so far.
    pub fn seen(&self) -> [u8; 32] {
        *self.seen.finalize().as_bytes()
    }

    /// The members who have shown a wrong number.
    pub fn liars(&self) -> &[u8] {
        &self.liars
    }

    /// The results, each once its computation has ended.
    pub fn into_results(self) -> Vec<Option<Result<T, Error>>> {
        self.lanes.into_iter().map(|lane| lane.result).collect()
    }
}

impl<T> RunLane<T> {
    fn go_on(&mut self, own: u8, reply: Option<Reply>) -> Vec<Field> {
        self.shown = 0;
        match self.part.computation.next(reply) {
            Next::Ask(Ask::Show(mut numbers)) => {
                self.shown = numbers.len();
                // Without its input a member's shares would show its masks.
                if !self.part.members.contains(&own) {
                    numbers.iter_mut().for_each(|number| *number = Field::ZERO);
                }
                numbers
            }
            Next::Ask(_) => {
                self.result = Some(Err(Error::Message));
                vec![]
            }
            Next::Done(result) => {
                self.result = Some(result);
                vec![]
            }
        }
    }
}
