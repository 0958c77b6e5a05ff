//! Uses of the crate that would break it, and what stops them; and attacks that do not work.

use super::world::{Bandit, Device, World, config, decide_circuit, reward, rng};
use crate::compare::at_least_zero;
use crate::decide::{Inputs, decide};
use crate::learn::initial;
use crate::machine::{CircuitId, Gate, Machine};
use crate::moves::{Dealt, circuit, deal, lane, take_over};
use crate::prepare::Stock;
use crate::scalars::{Decide, Learn};
use crate::{Ask, Clear, Conversation, Error, Lane, Next, Part, Reply, Run, Slot, walk};
use bandit::{LinearConfig, WidthShape};
use envelope::SealingSecret;
use shares::moves::Dealing;
use shares::{Field, Record, Row, Sharing, Threshold, factors};
use std::cell::RefCell;

fn sharing(t: u8, n: u8) -> Sharing {
    Sharing::new(Threshold::new(t, n).unwrap())
}

/// A stock gives a number once, so that no label is prepared twice. In the control one is prepared three
/// times by honest members: twice it is broken off, then it ends well and its slots serve. A server alone,
/// without any member, has read the third bit of every block of R: in the second attempt it gives member j
/// another sum, which shifts j's share of a·b by δ, and what j sends next differs from what it sent in the
/// first by ℓ_j·δ·c_j.
#[test]
fn attack_a_label_that_is_prepared_again_shows_bits() {
    let world = World::new(2, 3);
    let of = CircuitId::new("any", &[]);
    let mut stocks: Vec<Stock> =
        (1..=3).map(|j| Stock::new(world.member(j), [1; 32], &mut rng(j.into()))).collect();
    let nonces: Vec<[u8; 32]> = stocks.iter().map(Stock::nonce).collect();
    let mut batch = |set: &[u8], nonces: &[[u8; 32]], number: u64, slots: u32| {
        stocks[0].batch(of, set, nonces, number, slots).is_ok()
    };
    assert!(batch(&[1, 2, 3], &nonces, 5, 32));
    assert!(!batch(&[1, 2, 3], &nonces, 5, 32) && !batch(&[1, 2, 3], &nonces, 4, 32));
    assert!(!batch(&[1, 2, 3], &nonces[..2], 6, 32) && !batch(&[2, 3], &nonces[1..], 6, 32));
    assert!(!batch(&[2, 1, 3], &nonces, 6, 32), "its own nonce in another's place");
    // A huge batch would take the memory of its plans.
    assert!(!batch(&[1, 2, 3], &nonces, 6, u32::MAX) && !batch(&[1, 2, 3], &nonces, 6, 0));
    assert!(batch(&[1, 2, 3], &nonces, 6, 1));
    label_again_shows_bits();
}

fn label_again_shows_bits() {
    let world = World::new(2, 3);
    let bandit = Bandit::new(&world, config(3, 4));
    let scalars = bandit.scalars(0);
    let set = world.all();
    let batch = world.batch(scalars.circuit(), &set, 1);
    let delta = Field::new(1 << 77);
    let attempt = |shift: Field, ends: bool| {
        let mut sent = vec![vec![]; 3];
        let mut notice = |step: usize, member: u8, ask: &mut Ask| {
            if let (2, Ask::Sum(Some(numbers))) = (step, ask) {
                sent[usize::from(member) - 1] = numbers.clone();
            }
        };
        let mut gives = |step: usize, _: u8, reply: &mut Reply| match (step, reply) {
            (1, Reply::Numbers(numbers)) => numbers.iter_mut().step_by(3).for_each(|ab| *ab += shift),
            (2, Reply::Numbers(numbers)) if !ends => numbers.clear(),
            _ => {}
        };
        let made =
            world.prepare(batch.clone(), &set, decide_circuit(scalars.clone()), &mut notice, &mut gives);
        (sent, made)
    };
    let (first, broken) = attempt(Field::ZERO, false);
    assert!(broken.iter().all(Result::is_err));
    let (second, broken) = attempt(delta, false);
    assert!(broken.iter().all(Result::is_err));
    let (_, made) = attempt(Field::ZERO, true);
    let slots: Vec<Slot> = made.into_iter().map(|made| made.unwrap().remove(0)).collect();
    // What the server reads.
    let weights = factors(&set, Field::ZERO);
    let share = |j: usize, i: usize| (second[j][i] - first[j][i]) * (weights[j] * delta).inverse();
    let read: Vec<u128> =
        (0..first[0].len()).map(|i| world.open(&set, &[0, 1, 2].map(|j| share(j, i))).get()).collect();
    // What the bits are.
    let blocks = slots[0].bits.iter().map(|bits| bits.blocks.len()).sum::<usize>();
    let bit = |i: usize| {
        let of = |slot: &Slot| {
            let blocks: Vec<_> = slot.bits.iter().flat_map(|bits| &bits.blocks).collect();
            blocks[i][4..].iter().copied().sum()
        };
        world.open(&set, &slots.iter().map(of).collect::<Vec<Field>>()).get()
    };
    let bits: Vec<u128> = (0..blocks).map(bit).collect();
    assert_eq!(read, bits);
    assert!(bits.contains(&0) && bits.contains(&1));
}

fn one_number(world: &World, member: u8, batch: &crate::prepare::Batch, of: CircuitId) -> Conversation<()> {
    let (keys, slot) = (world.member(member).clone(), Slot::of_batch(batch.clone()));
    Conversation::new(move |port| async move {
        let mut lane = Lane::new(&keys, slot, of, port)?;
        let numbers = (0..2).map(|i| Gate::shared(Field::new(i))).collect();
        lane.round(numbers).await.map(|_| ())
    })
}

/// A round that was on no polynomial is not read again, also when the right numbers are there: a server could
/// bring it about for some members alone.
#[test]
fn a_round_is_read_once() {
    let world = World::new(2, 3);
    let set = world.all();
    let of = CircuitId::new("any", &[]);
    let batch = world.batch(of, &set, 1);
    let run = |member: u8| {
        let computation = one_number(&world, member, &batch, of);
        let parts = vec![Part { computation, members: set.clone() }];
        Run::new(world.member(member), &set, &[], parts).unwrap()
    };
    let mut runs: Vec<Run<()>> = set.iter().map(|member| run(*member)).collect();
    let shown: Vec<Vec<Field>> = runs.iter_mut().map(Run::start).collect();
    let right: Vec<(u8, &[Field])> = set.iter().copied().zip(shown.iter().map(Vec::as_slice)).collect();
    let mut second = shown[1].clone();
    second[1] += Field::ONE;
    let wrong = [right[0], (2, &second[..]), right[2]];
    assert!(matches!(runs[0].go_on(&wrong), Err(Error::Shares(shares::Error::NoPolynomial))));
    assert_eq!(runs[0].go_on(&right).err(), Some(Error::Message));
    runs[1..].iter_mut().for_each(|run| drop(run.go_on(&right).unwrap()));
    assert_eq!(runs[1].seen(), runs[2].seen());
}

/// Widths that are no multiple of three, for which blocks of bits would leave some out, are refused.
#[test]
fn widths_of_other_bits_are_refused() {
    for width in [0, 2, 20, 34, 36, 128] {
        let refused = walk(at_least_zero(&mut Clear::new(3, 4), &[Field::ONE], width));
        assert!(
            matches!(refused, Err(Error::OutOfRange { what: "the width of a comparison", .. })),
            "{width}"
        );
    }
}

/// Public numbers must be those of the model's count of feedbacks: with others arguments of the root are far
/// above 1, its polynomial explodes, and numbers are larger than their masks are made for. Whoever hands a
/// model to a decision must have it certified together with its count.
#[test]
fn a_model_and_public_numbers_of_different_rounds() {
    let sharing = sharing(2, 3);
    let config = LinearConfig { lambda: 1024.0, width: WidthShape::Root.width(0.5), ..config(2, 2) };
    let model = initial(&Learn::new(&config, &sharing, (1000, 0), (0, 0)).unwrap());
    let rows: Vec<Vec<Field>> = [[0.99, 0.0], [0.0, 0.5]]
        .iter()
        .map(|x| {
            Row::new(x, &mut rng(1))
                .unwrap()
                .numbers()
                .iter()
                .map(|x| Field::from_signed((*x).into()))
                .collect()
        })
        .collect();
    let decides = |t_j: u64| {
        let of = Decide::new(&config, &sharing, t_j + 1, t_j, 0).unwrap();
        let inputs =
            Inputs { inverse: model.scaled.clone(), estimate: model.estimate.clone(), rows: rows.clone() };
        walk(decide(&mut Clear::new(3, 1), &of, inputs)).map(|_| ())
    };
    assert_eq!(decides(1000), Ok(()));
    assert!(matches!(decides(1), Err(Error::Bound { .. })));
}

/// More is erased than was counted before the batch: what a batch adds is not in V when its bounds are
/// stated.
#[test]
fn what_was_never_counted_is_not_erased() {
    let learns =
        |counted, added, erased| Learn::new(&config(2, 2), &sharing(2, 3), (counted, 0), (added, erased));
    assert!(learns(3, 5, 3).is_ok());
    assert!(matches!(learns(0, 5, 3), Err(Error::OutOfRange { what: "erased feedbacks", .. })));
    assert!(Learn::new(&config(0, 2), &sharing(2, 3), (0, 0), (5, 0)).is_err());
}

/// A dealer deals another number to one honest new member alone. The move goes on without that member, whose
/// shares are wrong and who is no liar: nobody may be accused by what it shows in a move.
#[test]
fn a_dealer_can_frame_a_new_member() {
    let (old, next) = (World::new(2, 3), World::new(2, 4));
    let mut rng = rng(8);
    let name = [6; 32];
    let secrets: Vec<SealingSecret> = next.all().iter().map(|_| SealingSecret::generate(&mut rng)).collect();
    let public: Vec<Vec<u8>> = secrets.iter().map(SealingSecret::public).collect();
    let batch = *old.batch(circuit(1, 1), &old.all(), 1).label();
    let record = Record { batch, slot: 0, numbers: vec![Field::ONE; 3] };
    let dealings: Vec<Dealing> = old
        .few()
        .into_iter()
        .map(|dealer| {
            let shares = old.member(dealer).record(&record);
            let mut sealed = deal(&name, dealer, &shares, &next.sharing, &public, &mut rng).unwrap();
            if dealer == 1 {
                let again = deal(&name, dealer, &shares, &next.sharing, &public, &mut rng).unwrap();
                sealed[3] = again[3].clone();
            }
            Dealing { dealer, sealed, signature: vec![] }
        })
        .collect();
    let here = next.all();
    let of = circuit(3, 1);
    let batch = next.batch(of, &here, 1);
    let lanes = |member: u8| {
        let secret = &secrets[usize::from(member) - 1];
        let dealt = Dealt::read(&name, &old.sharing, &dealings, member, secret, 3).unwrap();
        let (keys, batch) = (next.member(member).clone(), batch.clone());
        vec![Conversation::new(move |port| async move {
            let mut lane = lane(&keys, batch, &dealt, port)?;
            take_over(&mut lane, &dealt).await?;
            Ok(lane.into_record())
        })]
    };
    let ran = next.run(&here, lanes, &mut |_, _, _| {}).unwrap();
    assert!(ran.iter().all(|ran| ran.results[0].is_ok()));
    assert_eq!(ran[0].liars, [4]);
}

/// Shapes at the ends: one feature, one arm, groups that leave one over. Lanes and plans draw alike.
#[test]
fn shapes_at_the_ends_are_decided() {
    let world = World::new(2, 4);
    for (d, k) in [(1, 1), (1, 2), (2, 1), (2, 5), (1, 9), (1, 17)] {
        let bandit = Bandit::new(&world, config(d, k));
        let mut device = Device::new(&world, d, 3);
        let rows: Vec<Vec<f64>> = (0..k)
            .map(|i| vec![0.1 + 0.8 * ((i * 7) % k) as f64 / k as f64 / (d as f64).sqrt(); d])
            .collect();
        let longest = (0..k).max_by(|a, b| rows[*a][0].total_cmp(&rows[*b][0])).unwrap();
        let played = bandit.decide(&mut device, &[rows], 1);
        assert_eq!(played[0].arm, longest, "{d} features, {k} arms");
    }
}

/// All values of small widths, with many draws, for odd and even numbers of blocks.
#[test]
fn comparisons_of_small_widths_are_exact_for_all_values() {
    for width in [3u32, 6, 9, 15] {
        for seed in 0..if width < 9 { 200 } else { 2 } {
            let end = (1i128 << width) - 1;
            let step = if width == 15 { 37 } else { 1 };
            let values: Vec<i128> = (-end..=end).step_by(step).collect();
            let shares: Vec<Field> = values.iter().map(|v| Field::from_signed(*v)).collect();
            let results = walk(at_least_zero(&mut Clear::new(3, seed), &shares, width)).unwrap();
            for (value, result) in values.iter().zip(results) {
                assert_eq!(result.get(), u128::from(*value >= 0), "{value} with {width} bits");
            }
        }
    }
}

/// A server gives one honest member of four other sums in a round, and the liar beside it adds the error that
/// would make a triple wrong by a multiple of a bit alone: 0 if the bit is 0 (a selective failure). The
/// challenge of the member that saw other sums is another one, so that the check fails whatever the bit is.
#[test]
fn attack_a_selective_failure_reads_no_bit() {
    let world = World::new(2, 4);
    let bandit = Bandit::new(&world, config(1, 2));
    let scalars = bandit.scalars(0);
    let set = world.all();
    let (liar, victim) = (1u8, 2u8);
    let delta = Field::new(1 << 90);
    let weights = factors(&[1, 2, 3], Field::ZERO);
    let through = factors(&[liar, victim], Field::ZERO);
    let outcomes: RefCell<Vec<bool>> = RefCell::default();
    for _ in 0..12 {
        let batch = world.batch(scalars.circuit(), &set, 1);
        // The liar's share of c, as it would compute it: here from an honest preparation of the same label.
        let honest = world.prepare(
            batch.clone(),
            &set,
            decide_circuit(scalars.clone()),
            &mut |_, _, _| {},
            &mut |_, _, _| {},
        );
        let slots: Vec<Slot> = honest.into_iter().map(|made| made.unwrap().remove(0)).collect();
        let c = |member: u8| -> Field {
            slots[usize::from(member) - 1].bits[0].blocks[0][4..].iter().copied().sum()
        };
        let bit = world.open(&set, &[1, 2, 3, 4].map(c)).get();
        let mut lie = |step: usize, member: u8, ask: &mut Ask| {
            if let (2, true, Ask::Sum(Some(numbers))) = (step, member == liar, ask) {
                // ℓ_victim·δ·c_victim comes of itself; this makes it a multiple of c(0).
                numbers[0] += weights[1] * delta * through[1].inverse() * through[0] * c(liar);
            }
        };
        let mut other = |step: usize, member: u8, reply: &mut Reply| {
            if let (1, true, Reply::Numbers(numbers)) = (step, member == victim, reply) {
                numbers[0] += delta;
            }
        };
        let made = world.prepare(batch, &set, decide_circuit(scalars.clone()), &mut lie, &mut other);
        assert!(made.iter().all(Result::is_err), "bit {bit}");
        outcomes.borrow_mut().push(bit == 1);
    }
    assert!(outcomes.borrow().contains(&true) && outcomes.borrow().contains(&false));
}

/// The rounding of V, L²/λ·2^log_t·d·(#A/2 + 1)·2⁻³⁶, is in the residual of all that is accepted.
#[test]
fn residuals_have_the_rounding_of_v() {
    let mut accepted = 0;
    for (t, n) in [(2u8, 3u8), (2, 4), (3, 5), (3, 7), (4, 7), (4, 10)] {
        let sharing = sharing(t, n);
        let subsets = sharing.subsets().len() as f64;
        for d in [1usize, 2, 8, 64] {
            for ratio in [0.25, 1.0, 4.0, 8.0, 16.0, 24.0, 30.0, 60.0] {
                for log in 4..26 {
                    for batch in [1u64, 16] {
                        let config = LinearConfig { lambda: 1.0 / ratio, ..config(d, 2) };
                        let count = (1u64 << log).saturating_sub(200);
                        let Ok(of) = Learn::new(&config, &sharing, (count.max(1), 1 << 29), (batch, 0))
                        else {
                            continue;
                        };
                        let off = ratio * 2f64.powi(of.log_t as i32 - 36) * d as f64 * (subsets / 2.0 + 1.0);
                        let stated = of.residual as f64 / 2f64.powi(40);
                        assert!(off < stated, "{t} of {n}, d {d}, ratio {ratio}, t 2^{log}, batch {batch}");
                        accepted += 1;
                    }
                }
            }
        }
    }
    assert!(accepted > 2000, "{accepted}");
}

/// Rows and rewards of hostile devices, batches that add and erase at once, and L and λ that are not 1: no
/// number is larger than its circuit says, and the residual is as stated where V is small.
#[test]
fn attack_hostile_batches_keep_all_bounds() {
    use rand::Rng;
    for (seed, ratio, l) in [(1u64, 0.25, 1.0), (2, 1.0, 3.0), (3, 4.0, 0.5), (4, 10.0, 1.0), (5, 25.0, 1.0)]
    {
        for width in [WidthShape::Tangent, WidthShape::Root] {
            let config =
                LinearConfig { l, lambda: l * l / ratio, width: width.width(0.5 * l), ..config(2, 4) };
            let mut bandit = super::circuits::InClear::new(config, (2, 3));
            let mut rng = rng(seed);
            let mut counted: Vec<(Vec<i64>, Vec<i64>)> = vec![];
            for step in 0..60 {
                let add = rng.next_u32() as usize % if ratio > 20.0 { 2 } else { 12 };
                let erase = (rng.next_u32() as usize % 9).min(counted.len());
                let mut batch = vec![];
                for _ in 0..erase {
                    let at = rng.next_u32() as usize % counted.len();
                    let (x, r) = counted.swap_remove(at);
                    batch.push((x, r, true));
                }
                for i in 0..add {
                    let epsilon = (ratio * (counted.len() + 12) as f64).sqrt().recip().min(0.9);
                    let sign = if (i + step).is_multiple_of(2) { 1.0 } else { -1.0 };
                    let turn = if step > 30 { std::mem::swap } else { |_: &mut f64, _: &mut f64| () };
                    let (mut a, mut b) = ((1.0 - epsilon * epsilon).sqrt() * 0.9999, sign * epsilon * 0.9999);
                    turn(&mut a, &mut b);
                    let x = Row::new(&[a, b], &mut rng).unwrap().numbers().to_vec();
                    let r = reward(sign, 1);
                    batch.push((x[..2].to_vec(), r.clone(), false));
                    counted.push((x[..2].to_vec(), r));
                }
                bandit.learn(&batch).unwrap();
                let off = bandit.residual_entry();
                // Entries are at most √cond times an eigenvalue's distance.
                let cond = (1.0 + bandit.feedbacks as f64 * ratio).sqrt();
                assert!(
                    off <= 4.0 * cond * (bandit.residual as f64 + 2f64.powi(20)) / 2f64.powi(40),
                    "{seed} {step}: {off}"
                );
                let scalars = bandit.scalars();
                let rows: Vec<Vec<i64>> = [[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0]]
                    .iter()
                    .map(|x| Row::new(x, &mut rng).unwrap().numbers().to_vec())
                    .collect();
                bandit.decide(&rows, &scalars).unwrap();
            }
        }
    }
}

/// Millions of valid feedbacks with a large L²/λ, for which the rounding of V alone would make ω longer than
/// its bound, and two indices differ by 2^width: such an update is refused.
#[test]
fn attack_valid_feedback_and_a_rounded_v() {
    let refused = |ratio: f64, d: usize, t: u64| {
        let config = LinearConfig { lambda: 1.0 / ratio, ..config(d, 2) };
        Learn::new(&config, &sharing(2, 3), (t, 0), (1, 0)).err()
    };
    for (ratio, d, t) in [(29.9, 1, 8_900_000), (29.9, 2, 4_500_000)] {
        assert!(matches!(
            refused(ratio, d, t),
            Some(Error::OutOfRange { what: "the number of feedbacks", .. })
        ));
    }
    assert_eq!(refused(29.9, 1, 200_000), None);
}

/// A reply that is there before anything was asked is none to the first question: somebody else has chosen
/// it.
#[test]
fn attack_a_reply_before_the_question() {
    let world = World::new(2, 3);
    let of = CircuitId::new("any", &[]);
    let batch = world.batch(of, &world.all(), 1);
    let mut talk = one_number(&world, 1, &batch, of);
    let early = Reply::Numbers(vec![Field::new(7); 2]);
    assert!(matches!(talk.next(Some(early)), Next::Ask(Ask::Show(_))));
}

/// A computation that has ended and is asked again says so.
#[test]
fn a_conversation_has_one_end() {
    let mut talk: Conversation<()> = Conversation::new(|_| async { Err(Error::Slot) });
    assert!(matches!(talk.next(None), Next::Done(Err(Error::Slot))));
    assert!(matches!(talk.next(None), Next::Done(Err(Error::Message))));
}
