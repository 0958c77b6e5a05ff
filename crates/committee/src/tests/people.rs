//! What decisions tell of people, whatever the protocol is. On the clear twin of the circuits, which decides
//! as members do.

use super::world::{config, rng};
use crate::decide::{Inputs, decide};
use crate::learn::{Feedback, State, initial, learn};
use crate::scalars::{Decide, Learn};
use crate::{Clear, walk};
use shares::{Field, Row, Sharing, Threshold};

const D: usize = 4;

fn sent(features: &[f64]) -> Vec<Field> {
    let row = Row::new(features, &mut rng(1)).unwrap();
    row.numbers().iter().map(|x| Field::from_signed((*x).into())).collect()
}

fn unit(row: &[f64]) -> Vec<f64> {
    let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
    row.iter().map(|x| x / length).collect()
}

/// How far what so many decisions tell is off the direction of the first row of a batch, in its worst entry.
///
/// Whoever asks sends rows w and −w, which have the same bonus: the arm is the sign of ⟨ω, w⟩. The first four
/// decisions give the signs of the entries of ω, the others halve the angles to the first entry.
fn told(batch: &[([f64; D], f64)], decisions: usize) -> f64 {
    let sharing = Sharing::new(Threshold::new(2, 3).unwrap());
    let (config, count) = (config(D, 2), batch.len() as u64);
    let start = Learn::new(&config, &sharing, (0, 0), (0, 0)).unwrap();
    let scalars = Learn::new(&config, &sharing, (0, 0), (count, 0)).unwrap();
    let feedback = |(row, reward): &([f64; D], f64)| {
        let (row, reward) = (sent(row), sent(&[*reward]));
        let squares = Some([reward[1], reward[2], reward[3]]);
        Feedback { row: row[..D].to_vec(), reward: reward[0], squares }
    };
    let mut clear = Clear::new(3, 1);
    let feedbacks = batch.iter().map(feedback).collect();
    walk(learn(&mut clear, &scalars, initial(&start), feedbacks)).unwrap();
    let state = State::from_numbers(D, 0, &clear.record).unwrap();
    let decides = Decide::new(&config, &sharing, count + 1, count, 0).unwrap();
    let mut asked = 0;
    let mut sign = |w: &[f64]| {
        asked += 1;
        let row = |side: f64| sent(&unit(w).iter().map(|x| side * 0.99 * x).collect::<Vec<_>>());
        let inputs = Inputs {
            inverse: state.scaled.clone(),
            estimate: state.estimate.clone(),
            rows: vec![row(1.0), row(-1.0)],
        };
        let decided = walk(decide(&mut Clear::new(3, asked as u64), &decides, inputs)).unwrap();
        if decided.arm.get() == 0 { 1.0 } else { -1.0 }
    };
    let axis = |i: usize| (0..D).map(|j| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
    let signs: Vec<f64> = (0..D).map(|i| sign(&axis(i))).collect();
    let mut found = vec![signs[0]];
    for i in 1..D {
        let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
        for _ in 0..(decisions - D) / (D - 1) {
            let middle: f64 = (low + high) / 2.0;
            let mut w = vec![0.0; D];
            (w[i], w[0]) = (signs[i] * middle.cos(), -signs[0] * middle.sin());
            if sign(&w) > 0.0 { low = middle } else { high = middle }
        }
        found.push(signs[i] * ((low + high) / 2.0).tan());
    }
    assert!(asked <= decisions);
    let (found, right) = (unit(&found), unit(&batch[0].0));
    found.iter().zip(right).map(|(f, r)| (f - r).abs()).fold(0.0, f64::max)
}

const HONEST: [f64; D] = [0.459, -0.333, 0.558, 0.414];

/// An honest row, and so many others.
fn batch(others: impl Iterator<Item = ([f64; D], f64)>) -> Vec<([f64; D], f64)> {
    std::iter::once((HONEST, 1.0)).chain(others).collect()
}

/// A batch of one honest feedback and fifteen rows of zeros from devices of one attacker, who then asks for
/// 46 decisions: they give the honest row's direction to 3·10⁻⁴. Nothing in the protocol prevents it: what a
/// batch and a session may do is for the bandit's rules.
#[test]
fn attack_decisions_tell_of_a_person_who_is_alone_in_a_batch() {
    let alone = batch((0..15).map(|_| ([0.0; D], 0.0)));
    let off = told(&alone, 46);
    assert!(off < 3e-4, "{off:e}");
}

/// What the rules of a bandit change. With 32 decisions a session between two batches, one session learns the
/// direction of a lone row to 3·10⁻³, and two sessions together what they learn without the rule. Beside
/// seven other people any number of decisions gives the direction of all together, which is not that of one.
/// Where the seven others are sessions of the attacker, as those of a server that enrols whom it likes, they
/// hide nobody.
#[test]
fn what_the_rules_of_a_bandit_change() {
    let alone = batch((0..15).map(|_| ([0.0; D], 0.0)));
    let (one, two) = (told(&alone, 32), told(&alone, 64));
    assert!((3e-4..3e-3).contains(&one) && two < 3e-4, "{one:e}, {two:e}");
    let others = [
        [0.3, 0.5, -0.2, 0.6],
        [-0.7, 0.1, 0.4, 0.2],
        [0.2, -0.6, -0.5, 0.3],
        [0.5, 0.5, 0.5, -0.4],
        [-0.1, 0.8, 0.2, 0.1],
        [0.6, -0.2, 0.1, -0.6],
        [-0.4, -0.4, 0.6, 0.3],
    ];
    let rewards = [1.0, -1.0, 0.5, 1.0, -0.5, 0.0, 1.0];
    let beside = told(&batch(others.into_iter().zip(rewards)), 64);
    assert!(beside > 0.1, "{beside}");
    let enrolled = told(&batch((0..7).map(|_| ([0.0; D], 0.0))), 46);
    assert!(enrolled < 3e-4, "{enrolled:e}");
}
