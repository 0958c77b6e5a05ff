//! Records that move to another committee.

use super::world::{World, rng};
use crate::moves::{Dealt, circuit, deal, lane, take_over};
use crate::{Conversation, Error};
use envelope::SealingSecret;
use shares::moves::Dealing;
use shares::{Field, Kind, Label, Record};
use std::cell::RefCell;

const NAME: [u8; 32] = [6; 32];

/// Moves the numbers of a record from `old` to `next`; `change` lies about what a dealer deals.
fn moves(
    old: &World,
    next: &World,
    record: &Record,
    change: &dyn Fn(u8, &mut Vec<Field>),
) -> Result<Vec<Field>, Error> {
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
    Ok(opened(next, &moved))
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
        assert!(moved == numbers);
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
        assert!(control[2] == numbers[2] + Field::ONE);
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
