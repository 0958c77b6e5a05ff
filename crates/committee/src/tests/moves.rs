//! Records that move to another committee.

use super::world::{World, rng};
use crate::moves::{Dealt, circuit, deal, lane, take_over};
use crate::{Conversation, Error};
use envelope::SealingSecret;
use shares::moves::Dealing;
use shares::{Field, Key, Kind, Label, Record};
use std::cell::RefCell;

const NAME: [u8; 32] = [6; 32];

/// Moves the numbers of a record from `old` to `next`; `change` lies about what a dealer deals.
fn moves(
    old: &World,
    next: &World,
    record: &Record,
    change: &dyn Fn(u8, &mut Vec<Field>),
) -> Result<Record, Error> {
    let mut rng = rng(8);
    let secrets: Vec<SealingSecret> = next.all().iter().map(|_| SealingSecret::generate(&mut rng)).collect();
    let public: Vec<Vec<u8>> = secrets.iter().map(SealingSecret::public).collect();
    let dealings: Vec<Dealing> = old
        .few()
        .into_iter()
        .map(|dealer| {
            let mut shares = old.member(dealer).record(record);
            change(dealer, &mut shares);
            let sealed = deal(&NAME, dealer, &shares, &next.sharing, &public, &mut rng).unwrap();
            Dealing { dealer, sealed, signature: vec![] }
        })
        .collect();
    let here = next.all();
    let of = circuit(record.numbers.len(), old.few().len() / 2);
    let batch = next.batch(of, &here, 1);
    let failed = RefCell::new(None);
    let lanes = |member: u8| {
        let secret = &secrets[usize::from(member) - 1];
        let count = record.numbers.len();
        let dealt = Dealt::read(&NAME, &old.sharing, &dealings, member, secret, count);
        let dealt = match dealt {
            Ok(dealt) => dealt,
            Err(error) => {
                failed.borrow_mut().get_or_insert(error);
                return vec![];
            }
        };
        let (keys, batch) = (next.member(member).clone(), batch.clone());
        vec![Conversation::new(move |port| async move {
            let mut lane = lane(&keys, batch, &dealt, port)?;
            take_over(&mut lane, &dealt).await?;
            Ok(lane.into_record())
        })]
    };
    let ran = next.run(&here, lanes, &mut |_, _, _| {});
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    let mut records = ran?.into_iter().map(|mut ran| ran.results.remove(0));
    let moved = records.next().unwrap()?;
    assert!(records.all(|other| other.as_ref() == Ok(&moved)));
    Ok(moved)
}

fn opened(world: &World, record: &Record) -> Vec<Field> {
    let here = world.all();
    let of: Vec<Vec<Field>> = here.iter().map(|member| world.member(*member).record(record)).collect();
    let number = |i: usize| {
        let shares: Vec<Field> = of.iter().map(|shares| shares[i]).collect();
        world.open(&here, &shares)
    };
    (0..record.numbers.len()).map(number).collect()
}

fn record(world: &World) -> Record {
    let numbers = (0..5).map(|i| Field::new(1 << (20 * i))).collect();
    let batch = *world.batch(circuit(1, 1), &world.all(), 1).label();
    assert!(batch != Label::new(Kind::Seed, &[]));
    Record { batch, slot: 0, numbers }
}

/// Numbers arrive at other members and thresholds. A dealer that changes a number, whichever it is, is
/// noticed, and so are two numbers whose errors would cancel. The control has t of them, who move another
/// number.
#[test]
fn attack_a_dealer_lies_in_a_move() {
    for ((t, n), (next_t, next_n)) in [((2, 4), (3, 5)), ((2, 3), (2, 4)), ((3, 5), (2, 3))] {
        let (old, next) = (World::new(t, n), World::new(next_t, next_n));
        let record = record(&old);
        let numbers = opened(&old, &record);
        let moved = moves(&old, &next, &record, &|_, _| {}).unwrap();
        assert!(opened(&next, &moved) == numbers);
        for liar in old.few() {
            let one = moves(&old, &next, &record, &|dealer, shares| {
                if dealer == liar {
                    shares[3] += Field::ONE;
                }
            });
            assert!(matches!(one, Err(Error::Dealer { .. })), "{liar}");
            let two = moves(&old, &next, &record, &|dealer, shares| {
                if dealer == liar {
                    shares[0] += Field::ONE;
                    shares[1] -= Field::ONE;
                }
            });
            assert!(matches!(two, Err(Error::Dealer { .. })), "{liar}");
        }
        // The control: all dealers shift by one polynomial.
        let control = moves(&old, &next, &record, &|_, shares| shares[2] += Field::ONE).unwrap();
        assert!(opened(&next, &control)[2] == numbers[2] + Field::ONE);
    }
}

/// What a coalition of t − 1 old members and t' − 1 new ones is dealt fits any number: the new shares of a
/// number that is moved twice have nothing in common.
#[test]
fn a_move_deals_fresh_shares() {
    let (old, next) = (World::new(2, 3), World::new(2, 3));
    let record = record(&old);
    let mut rng = rng(3);
    let secrets: Vec<SealingSecret> = next.all().iter().map(|_| SealingSecret::generate(&mut rng)).collect();
    let public: Vec<Vec<u8>> = secrets.iter().map(SealingSecret::public).collect();
    let shares = old.member(1).record(&record);
    let mut read = || {
        let sealed = deal(&NAME, 1, &shares, &next.sharing, &public, &mut rng).unwrap();
        let dealings = [1, 2, 3].map(|dealer| Dealing { dealer, sealed: sealed.clone(), signature: vec![] });
        // The boxes of dealer 1 open for dealer 1 alone.
        let dealt = Dealt::read(&NAME, &old.sharing, &dealings, 2, &secrets[1], 5);
        assert!(matches!(dealt, Err(Error::Shares(shares::Error::Sealed { member: 2 }))));
        let purpose = [b"helba move of a committee", &NAME[..], &[1, 2]].concat();
        secrets[1].open(&purpose, &dealings[0].sealed[1]).unwrap().to_vec()
    };
    let (one, two) = (read(), read());
    assert!(one.chunks(16).zip(two.chunks(16)).all(|(a, b)| a != b));
    let refused = deal(&NAME, 1, &shares, &next.sharing, &public[..2], &mut rng);
    assert!(matches!(refused, Err(Error::Shares(shares::Error::Message))));
}

/// Whoever takes the keys of a member before a move and those of another one after it lacks a mask of each
/// record. In the control the next keys follow from those before without anything fresh: together they have
/// all masks.
#[test]
fn attack_members_before_and_after_a_move() {
    let (old, next) = (World::new(2, 3), World::new(2, 4));
    let record = record(&old);
    let moved = moves(&old, &next, &record, &|_, _| {}).unwrap();
    let numbers = opened(&old, &record);
    // What is left of the numbers of a record without the masks of these keys.
    let left = |record: &Record, keys: &[Key]| -> Vec<Field> {
        let label = Label::new(Kind::Record, &[&record.slot.to_le_bytes()]);
        let mut streams: Vec<_> = keys.iter().map(|key| key.derive(&record.batch).stream(&label)).collect();
        let without = |m: &Field| *m - streams.iter_mut().map(shares::Stream::field).sum();
        record.numbers.iter().map(without).collect()
    };
    let keys_of = |world: &World, members: &[u8]| -> Vec<Key> {
        let known = world.sharing.subsets().iter().zip(&world.subset_keys);
        let known = known.filter(|(subset, _)| members.iter().any(|member| subset.has(*member)));
        known.map(|(_, key)| Key::new(*key)).collect()
    };
    for (world, record, member) in [(&old, &record, 1), (&next, &moved, 2)] {
        let read = left(record, &keys_of(world, &[member]));
        let hidden = |(read, number): (&Field, &Field)| (*read - *number).signed().unsigned_abs() > 1 << 64;
        assert!(read.iter().zip(&numbers).all(hidden));
    }
    // The control.
    let epoch = Label::new(Kind::Seed, &[b"the next epoch"]);
    let follow: Vec<Key> = old.subset_keys.iter().map(|key| Key::new(*key).derive(&epoch)).collect();
    let mut masked = record.clone();
    let masks = left(&Record { numbers: vec![Field::ZERO; numbers.len()], ..record.clone() }, &follow);
    masked.numbers = numbers.iter().zip(&masks).map(|(number, mask)| *number - *mask).collect();
    let derived = keys_of(&old, &[1]).into_iter().map(|key| key.derive(&epoch));
    let of_one = old.sharing.subsets().iter().zip(&old.subset_keys).filter(|(subset, _)| !subset.has(1));
    let of_other = of_one.filter(|(subset, _)| subset.has(2)).map(|(_, key)| Key::new(*key).derive(&epoch));
    assert!(left(&masked, &derived.chain(of_other).collect::<Vec<_>>()) == numbers);
}
