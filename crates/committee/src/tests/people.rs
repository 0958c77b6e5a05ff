//! What decisions tell of people, whatever the protocol is.

use super::world::{config, rng};
use crate::decide::{Inputs, decide};
use crate::learn::{Feedback, State, initial, learn};
use crate::scalars::{Decide, Learn};
use crate::{Clear, walk};
use shares::{Field, Row, Sharing, Threshold};

/// A batch of one honest feedback and fifteen rows of zeros from devices of one attacker, who then asks for
/// 46 decisions: signs of ω along directions of its choice give the honest row's direction to 3·10⁻⁴. Nothing
/// in the protocol prevents it: what a batch and a session may do is for the bandit's rules, and for noise.
#[test]
fn attack_decisions_tell_of_a_person_who_is_alone_in_a_batch() {
    let (d, sharing) = (4, Sharing::new(Threshold::new(2, 3).unwrap()));
    let config = config(d, 2);
    let field = |row: &[i64]| row.iter().map(|x| Field::from_signed((*x).into())).collect::<Vec<_>>();
    let sent = |features: &[f64]| field(Row::new(features, &mut rng(1)).unwrap().numbers());
    let secret = [0.51, -0.37, 0.62, 0.46];
    let length = secret.iter().map(|x: &f64| x * x).sum::<f64>().sqrt();
    let honest: Vec<f64> = secret.iter().map(|x| 0.9 * x / length).collect();
    let start = Learn::new(&config, &sharing, (0, 0), (0, 0)).unwrap();
    let scalars = Learn::new(&config, &sharing, (0, 0), (16, 0)).unwrap();
    let feedback = |i: usize| {
        let row = if i == 0 { sent(&honest) } else { sent(&[0.0; 4]) };
        let reward = sent(&[if i == 0 { 1.0 } else { 0.0 }]);
        Feedback {
            row: row[..d].to_vec(),
            reward: reward[0],
            squares: Some([reward[1], reward[2], reward[3]]),
        }
    };
    let mut clear = Clear::new(3, 1);
    walk(learn(&mut clear, &scalars, initial(&start), (0..16).map(feedback).collect())).unwrap();
    let state = State::from_numbers(d, &clear.record).unwrap();
    let decides = Decide::new(&config, &sharing, 17, 16, 0).unwrap();
    let mut asked = 0;
    // Rows w and −w have the same bonus: the arm is the sign of ⟨ω, w⟩.
    let mut sign = |w: &[f64]| {
        asked += 1;
        let norm = w.iter().map(|x| x * x).sum::<f64>().sqrt();
        let row = |side: f64| sent(&w.iter().map(|x| side * 0.99 * x / norm).collect::<Vec<_>>());
        let inputs = Inputs {
            inverse: state.scaled.clone(),
            estimate: state.estimate.clone(),
            rows: vec![row(1.0), row(-1.0)],
        };
        let decided = walk(decide(&mut Clear::new(3, asked), &decides, inputs)).unwrap();
        if decided.arm.get() == 0 { 1.0 } else { -1.0 }
    };
    let unit = |i: usize| (0..d).map(|j| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
    let signs: Vec<f64> = (0..d).map(|i| sign(&unit(i))).collect();
    let mut found = vec![signs[0]];
    for i in 1..d {
        let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
        for _ in 0..14 {
            let middle: f64 = (low + high) / 2.0;
            let mut w = vec![0.0; d];
            (w[i], w[0]) = (signs[i] * middle.cos(), -signs[0] * middle.sin());
            if sign(&w) > 0.0 { low = middle } else { high = middle }
        }
        found.push(signs[i] * ((low + high) / 2.0).tan());
    }
    let norm = found.iter().map(|x| x * x).sum::<f64>().sqrt();
    let off = found.iter().zip(&secret).map(|(f, s)| (f / norm - s / length).abs()).fold(0.0, f64::max);
    assert!(asked == 46 && off < 3e-4, "{asked} decisions, {off:e}");
}
