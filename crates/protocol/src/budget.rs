//! The budget of a committee's keys: how many decisions and models its members answer, and the estimates that
//! it follows from (docs/committee-protocol.md).

use crate::exchange::OPENED_DEVIATION;
use crate::{ScoreRing, Shape};
use serde::{Deserialize, Serialize};

/// The nats of κ for which a committee opens answers under one key. An attack that finds the key with
/// probability ½ from the answers of 4 nats finds it with 2⁻¹² or more from answers without CKKS noise, which
/// do not depend on the key (docs/committee-protocol.md).
pub const OPENED_NATS: f64 = 4.0;

/// −log₂ of the root of Σ z² over the entries of a near tie before they are opened, for up to this many arms:
/// the row "entries of a near tie" of docs/precision.md, whose contexts are wide encryptions under a key of
/// one member.
const TIE_BITS: [(usize, f64); 6] =
    [(2, 12.5), (4, 10.4), (8, 9.7), (16, 9.0), (32, 8.3), (crate::MOST_ARMS, 9.0)];

/// The errors of entries with those of the model, over those under an exact one, as root mean squares.
/// After an update the model moves the difference of two scores by no more than √3 times what the circuit
/// does (docs/precision.md, rows "scores under this model" and "pairwise differences").
const WITH_MODEL: f64 = 2.0;

/// The dimensions of the secret of the ring of scores that remain when hostile devices have learnt all that
/// they may, if they know each form exactly. Beside 155 bits, the modulus of answers at N' = 2¹³, the attack
/// on them costs 2¹¹². No form is known exactly, which costs it 2¹⁸³
/// (`hostile_devices_leave_a_key_its_bits`).
const KEPT_DIMENSIONS: usize = 5200;

/// What a decision counts for 2 and for 3 members who answer: its forms of entries with its raised numbers,
/// over the forms alone. A raised number shows digits of one coefficient of the error of the model, each of
/// log₂ t bits, and an error has 3.73 bits, so that few of them buy an equation modulo q without any error.
/// At 560 and at 490 decisions of 4 arms, where forms alone would allow 748, entries and such equations
/// together leave the 112 bits of [`KEPT_DIMENSIONS`].
const WITH_RAISED: [(u8, f64); 2] = [(2, 1.335), (3, 1.526)];

/// The linear forms of the secret of the large ring that entries and models may show under a key: a quarter
/// of the least N with security. If all were known exactly, the attack on the rest costs 2⁹⁶ at 866 bits, and
/// 2¹⁰⁰ at 825. By the bits that they have it costs 2¹²⁹ and more (`hostile_devices_leave_a_key_its_bits`).
const LARGE_FORMS: u64 = (1 << 15) / 4;

/// Counts of decisions and models: what was spent of a key, or the most that may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Decisions whose scores were raised, with the places that a request has beyond its own, or whose
    /// entries were opened, once for each set of members.
    pub decisions: u64,
    /// Models that were refreshed, whatever the number of sets.
    pub models: u64,
}

/// κ in nats of the answer to one decision between arms that are nearly equal, which `threshold` members open
/// to a user, under keys that `makers` members made: Σ z²/(2(v/√t)²) over the entries, with the root mean
/// square of errors z of `TIE_BITS`, twice for the model, times √n, since every error of a scheme whose
/// secret is a sum of n ternary ones grows by √n at most. This is the divergence from an answer without
/// errors, of which one honest member hides a coalition of users, server and t − 1 members
/// (docs/committee-protocol.md). Over many decisions their sum counts, and so the mean square.
fn honest_nats(shape: Shape, threshold: u8, makers: u8) -> f64 {
    let bits = TIE_BITS.iter().find(|(arms, _)| shape.arm_slots <= *arms).map_or(0.0, |(_, bits)| *bits);
    let error = WITH_MODEL * (-bits).exp2() * f64::from(makers).sqrt();
    (error / OPENED_DEVIATION).powi(2) * f64::from(threshold) / 2.0
}

/// The linear forms of the secrets that hostile devices may learn from entries under a key.
///
/// Contexts out of range show the server one form for each entry that is opened. A form that is known exactly
/// takes away one dimension of N' (Dachman-Soled, Ducas, Gong, Rossi: LWE with Side Information, CRYPTO
/// 2020). `KEPT_DIMENSIONS` remain. The same forms are those of the large secret, of which they take half of
/// `LARGE_FORMS` at most.
pub fn hostile_forms(shape: Shape) -> u64 {
    ((ScoreRing::least_n(shape) - KEPT_DIMENSIONS) as u64).min(LARGE_FORMS / 2)
}

/// The models that are refreshed under a key, by `nats` of [`OPENED_NATS`]. More nats than these take more
/// forms of the large secret than the estimates are for.
///
/// A transfer opens D·(D + 3)/2 numbers of a model under masks ([`crate::ScoreLayout::model_numbers`]), whose
/// errors are linear forms of the secret of the large ring. A model that overflows shows them when it is
/// refreshed, and any model shows them to contexts out of range. With the forms of entries they are
/// `LARGE_FORMS`.
pub fn models_of_a_key(nats: f64, shape: Shape) -> u64 {
    let forms = (LARGE_FORMS - hostile_forms(shape)) as f64;
    (nats / OPENED_NATS * forms / (shape.dim * (shape.dim + 3) / 2) as f64) as u64
}

/// The nats of [`OPENED_NATS`] that a decision counts as, which `threshold` members open under keys that
/// `makers` members made: its κ if the device is honest, or its part of [`hostile_forms`] if that is more.
/// Raised numbers count by `WITH_RAISED`, and for more than three members in proportion to their log₂ t bits.
pub fn opened_nats(shape: Shape, threshold: u8, makers: u8) -> f64 {
    let raised = with_raised(threshold);
    let hostile = OPENED_NATS * raised * shape.arm_slots as f64 / hostile_forms(shape) as f64;
    honest_nats(shape, threshold, makers).max(hostile)
}

fn with_raised(threshold: u8) -> f64 {
    let [two, three] = WITH_RAISED;
    match threshold {
        0..=2 => two.1,
        _ => 1.0 + (three.1 - 1.0) * f64::from(threshold).ln() / f64::from(three.0).ln(),
    }
}

/// The part of one of `members` members of the budget of a key, which `makers` members made: the decisions
/// that `nats` of κ allow, and [`models_of_a_key`], divided by n − t + 1. A coalition of the server with t −
/// 1 members makes a set with each of the n − t + 1 others, and asks each about other decisions and models,
/// so that what they show adds up.
pub fn budget_of_a_member(nats: f64, shape: Shape, (threshold, members): (u8, u8), makers: u8) -> Budget {
    let honest = u64::from(members.saturating_sub(threshold)) + 1;
    let decisions = nats / opened_nats(shape, threshold, makers) / honest as f64;
    Budget { decisions: decisions as u64, models: models_of_a_key(nats, shape) / honest }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors are those that docs/precision.md measures, or larger, and the budget is what docs/committee.md
    /// states.
    #[test]
    fn the_budget_of_answers_is_as_stated() {
        let page = include_str!("../../../docs/precision.md");
        let evaluations: Vec<_> = page.split("## One evaluation, ").skip(1).collect();
        assert!(evaluations.len() >= TIE_BITS.len());
        for evaluation in evaluations {
            let arms: usize =
                evaluation.lines().next().unwrap().split("K = ").nth(1).unwrap().parse().unwrap();
            let mean = |what: &str| -> f64 {
                let row = evaluation.lines().find(|line| line.starts_with(&format!("| {what}"))).unwrap();
                row.split('|').nth(4).unwrap().trim().parse().unwrap()
            };
            // Two scores of independent errors move a difference by √2 times one of them.
            let model = mean("scores under this model") - 0.5;
            assert!(model > mean("pairwise differences") - 3f64.log2() / 2.0, "{arms} arms");
            let (measured, (_, bits)) =
                (mean("entries of a near tie"), TIE_BITS.iter().find(|(most, _)| arms <= *most).unwrap());
            assert!(*bits <= measured, "{arms} arms: {bits} for {measured}");
        }
        let (page, mut rows) = (include_str!("../../../docs/committee.md"), Vec::new());
        for (dim, arms) in [(2, 2), (7, 4), (8, 8), (16, 16), (16, 32), (16, 64)] {
            let shape = Shape::for_problem(dim, arms);
            let quorums = [(2, 3), (3, 5)];
            let nats = quorums.map(|(t, n)| honest_nats(shape, t, n));
            let honest = nats.map(|nats| (OPENED_NATS / nats) as u64);
            let forms = hostile_forms(shape);
            let hostile =
                quorums.map(|(t, _)| (forms as f64 / shape.arm_slots as f64 / with_raised(t)) as u64);
            let of_member = quorums.map(|(t, n)| budget_of_a_member(OPENED_NATS, shape, (t, n), n));
            let models = models_of_a_key(OPENED_NATS, shape);
            for (((honest, hostile), of_member), (t, n)) in
                honest.into_iter().zip(hostile).zip(of_member).zip(quorums)
            {
                let [of_key, models_of_key] =
                    [of_member.decisions, of_member.models].map(|own| own * u64::from(n - t + 1));
                assert!(of_key <= honest.min(hostile) && of_key + 3 > honest.min(hostile));
                assert!(models_of_key <= models && models_of_key + 3 > models);
            }
            // Forms of the large secret: entries of all decisions, and numbers of all models.
            let numbers = dim.next_power_of_two();
            let numbers = (numbers * (numbers + 3) / 2) as u64;
            let forms = forms + models * numbers;
            assert!(forms <= LARGE_FORMS && forms + numbers + 64 > LARGE_FORMS, "{forms}");
            let [one, other] = nats.map(|nats| format!("{nats:.1e}"));
            let [first, second] = of_member.map(|own| format!("{}, {}", own.decisions, own.models));
            let decisions = format!("{} | {} | {}, {}", honest[0], honest[1], hostile[0], hostile[1]);
            let row =
                format!("| {dim}, {arms} | {one} | {other} | {decisions} | {models} | {first} | {second} |");
            println!("{row}");
            rows.push(row);
        }
        let missing: Vec<_> = rows.iter().filter(|row| !page.contains(*row)).collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }

    /// log₂ of the cost of the primal attack on the secret of a ring of n dimensions, by the estimate of 2016
    /// and the geometric series assumption, 8d·2^(0.292β + 16.4), where hints on a ternary secret multiply
    /// the volume of the lattice by 2^`hints`.
    fn attack_bits(n: usize, log_q: f64, hints: f64) -> f64 {
        let (ln_2, error) = (std::f64::consts::LN_2, 3.2f64);
        let ln_delta = |b: f64| {
            let pi_e = 2.0 * std::f64::consts::PI * std::f64::consts::E;
            ((std::f64::consts::PI * b).ln() / b + (b / pi_e).ln()) / (2.0 * (b - 1.0))
        };
        let of_samples = |m: f64| {
            let d = m + n as f64 + 1.0;
            let ln_volume = (m * log_q + hints) * ln_2 + n as f64 * (error / (2f64 / 3.0).sqrt()).ln();
            let finds = |b: f64| (error * b.sqrt()).ln() <= (2.0 * b - d - 1.0) * ln_delta(b) + ln_volume / d;
            let (mut low, mut high) = (60.0, d);
            while high - low > 0.05 {
                let middle = (low + high) / 2.0;
                if finds(middle) { high = middle } else { low = middle }
            }
            0.292 * high + 16.4 + (8.0 * d).log2()
        };
        (32..=128).map(|part| of_samples((part * n / 64) as f64)).fold(f64::INFINITY, f64::min)
    }

    /// The raised numbers of a decision, z and u of each arm.
    const RAISED: f64 = 2.0;

    /// What hostile devices may learn leaves the ring of scores 183 bits of security, and 112 even if every
    /// form of an entry were known exactly, and the large ring 129 and 96. The estimate has some 131 bits in
    /// the rows of the table for 128. The control has more forms.
    #[test]
    fn hostile_devices_leave_a_key_its_bits() {
        for (log_n, log_q) in [(12, 106.0), (13, 214.0), (15, 868.0)] {
            let bits = attack_bits(1 << log_n, log_q, 0.0);
            assert!((130.0..132.0).contains(&bits), "{log_n}: {bits}");
        }
        let exact = attack_bits(KEPT_DIMENSIONS, 155.0, 0.0);
        assert!((112.0..114.0).contains(&exact), "{exact}");
        let forms = hostile_forms(Shape::for_problem(7, 4)) as f64;
        // What a form has modulo 8, under the smudging of one honest member of three, and what a raised
        // number has under the mask of one.
        let root = (2.0 * std::f64::consts::PI * std::f64::consts::E).sqrt();
        let of_form = (8.0 / (root * OPENED_DEVIATION / 3f64.sqrt())).log2();
        let hints = forms * (of_form + RAISED * 3f64.log2());
        let scores = [0.0, hints].map(|hints| attack_bits(1 << 13, 155.0, hints));
        println!("{exact:.1}; {forms} forms of {of_form:.1} bits: {scores:.1?}");
        assert!(scores[0] - scores[1] < 5.0 && scores[1] > 183.0, "{scores:?}");
        assert!(attack_bits(8192 - 4096, 155.0, 0.0) < 100.0, "the control");
        // A number of a model that overflows is seen through sixteen windows, by eight sets and two maps. A
        // mask leaves a window of 2⁻⁹/t of the modulus at 825 bits, and 2⁻¹⁰/t with q₀ of 42 bits, which is
        // taken here. All of them leave a sixteenth of it in the mean.
        let hints = LARGE_FORMS as f64 * (10.0 + 3f64.log2() + 16f64.log2());
        for (log_q, least) in [(825.0, 100.0), (866.0, 96.0)] {
            let exact = attack_bits((1 << 15) - LARGE_FORMS as usize, log_q, 0.0);
            let large = [0.0, hints].map(|hints| attack_bits(1 << 15, log_q, hints));
            println!("2^15, {log_q}: {exact:.1}, {large:.1?}");
            assert!(exact > least && large[0] - large[1] < 1.0 && large[1] > 129.0, "{exact}, {large:?}");
        }
        assert!(attack_bits(1 << 14, 825.0, 0.0) < 70.0, "the control");
    }

    /// The part of the variance of a secret that approximate message passing leaves, from linear forms of its
    /// coefficients, each a sum of `makers` ternary ones. Of each kind of form there are so many for a
    /// coefficient, whose deviation is so many times that of their noise. By state evolution (Donoho, Maleki,
    /// Montanari 2009; Bayati, Montanari 2011): 1/τ² = Σ δ/(σ² + m), m = the mean square that τ² leaves.
    fn left_by_message_passing(makers: usize, forms: &[(f64, f64)]) -> f64 {
        let thirds = |p: Vec<f64>| {
            let at = |i: usize| if i < p.len() { p[i] / 3.0 } else { 0.0 };
            (0..p.len() + 2).map(|k| (0..3).filter(|d| *d <= k).map(|d| at(k - d)).sum()).collect()
        };
        let p: Vec<f64> = (0..makers).fold(vec![1.0], |p, _| thirds(p));
        let values: Vec<f64> = (0..p.len()).map(|i| i as f64 - makers as f64).collect();
        let variance: f64 = values.iter().zip(&p).map(|(x, p)| p * x * x).sum();
        // The mean over the noise by the rule of trapezoids on ±8 deviations.
        let left = |square: f64| -> f64 {
            let one = |x: f64, z: f64| {
                let y = x + square.sqrt() * z;
                let log = |v: &f64| -(y - v).powi(2) / (2.0 * square);
                let most = values.iter().map(log).fold(f64::NEG_INFINITY, f64::max);
                let (sum, mean) = values.iter().zip(&p).fold((0.0, 0.0), |(sum, mean), (v, p)| {
                    let weight = p * (log(v) - most).exp();
                    (sum + weight, mean + weight * v)
                });
                (mean / sum - x).powi(2)
            };
            let density = |z: f64| (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() / 16.0;
            let over =
                |x: f64| (-128..=128).map(|i| f64::from(i) / 16.0).map(move |z| density(z) * one(x, z));
            values.iter().zip(&p).map(|(x, p)| p * over(*x).sum::<f64>()).sum()
        };
        let mut m = variance;
        for _ in 0..2000 {
            let precision: f64 =
                forms.iter().map(|(count, ratio)| count / (variance / ratio.powi(2) + m)).sum();
            let next = left(1.0 / precision);
            if (next - m).abs() < 1e-7 * variance {
                break;
            }
            m = next;
        }
        m / variance
    }

    /// What one honest mask of t leaves of a raised number, as exact forms: the largest s²·I over all
    /// amplitudes s, where I is the Fisher information of (s·z + U) modulo 1 about the mean of a normal z of
    /// variance 1, and U is uniform in ±1/(2t). A number of any amplitude, also one that wraps, is at most as
    /// precise in a step of message passing as so much of an exact form.
    fn as_exact_forms(threshold: u8) -> f64 {
        let half = 0.5 / f64::from(threshold);
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let steps = 4000;
        let of = |s: f64| {
            let wraps = (8.0 * s).ceil() as i32 + 1;
            // The probability of an interval, by Simpson's rule on sixteen parts.
            let within = |a: f64, b: f64| {
                let h = (b - a) / 16.0;
                let weight = |i: i32| if i % 16 == 0 { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
                (0..=16).map(|i| weight(i) * density(a + h * f64::from(i))).sum::<f64>() * h / 3.0
            };
            let at = |y: f64| {
                let ends = |k: i32| [-half, half].map(|end| (y + end + f64::from(k)) / s);
                let (slope, mass) = (-wraps..=wraps).map(ends).fold((0.0, 0.0), |(slope, mass), [a, b]| {
                    (slope + (density(a) - density(b)) / s, mass + within(a.max(-9.0), b.clamp(-9.0, 9.0)))
                });
                if mass < 1e-12 { 0.0 } else { slope * slope / mass }
            };
            let mean = (0..steps).map(|i| at((f64::from(i) + 0.5) / f64::from(steps))).sum::<f64>();
            s * s * mean / f64::from(steps) / (2.0 * half)
        };
        (1..=40).map(|i| of(0.01 * f64::from(i))).fold(0.0, f64::max)
    }

    /// Who has as many forms as a secret has coefficients solves linear equations, and message passing needs
    /// fewer, since coefficients are small integers. It finds neither secret from what a key allows, for any
    /// committee. Forms of entries have a noise of 1/36, and raised numbers count as [`as_exact_forms`]. The
    /// controls have two to three times the forms, and are found.
    #[test]
    fn message_passing_finds_no_secret_within_the_budget() {
        let shape = Shape::for_problem(7, 4);
        let of_scores = |threshold: u8, times: f64| {
            let decisions = OPENED_NATS / opened_nats(shape, threshold, 1);
            let entries = times * decisions * shape.arm_slots as f64 / f64::from(1 << 13);
            let raised = (RAISED * entries * as_exact_forms(threshold), 1e6);
            // Of n ≥ 2t − 1 members, all but t − 1 are honest.
            left_by_message_passing(usize::from(threshold), &[(entries, 36.0), raised])
        };
        let left: Vec<f64> = (2..=8).map(|t| of_scores(t, 1.0)).collect();
        println!("{:.3}, {:.3}; ring of scores: {left:.2?}", as_exact_forms(2), as_exact_forms(3));
        // What docs/committee-protocol.md says.
        for (threshold, forms) in [(2, 0.38), (3, 0.63), (8, 0.92)] {
            assert!((as_exact_forms(threshold) - forms).abs() < 0.006, "{threshold}");
        }
        assert!((left[0] - 0.51).abs() < 0.006 && (left[1] - 0.46).abs() < 0.006, "{left:?}");
        assert!(left[2..].iter().all(|left| *left > 0.445), "{left:?}");
        assert!(of_scores(2, 2.7) < 0.01 && of_scores(3, 2.3) < 0.01 && of_scores(8, 2.2) < 0.01, "controls");
        // As many exact forms are enough.
        for (makers, enough) in [(2, 0.84), (3, 0.90)] {
            let exact = |forms: f64| left_by_message_passing(makers, &[(forms, 1e4)]);
            assert!(exact(enough + 0.01) < 0.01 && exact(enough - 0.02) > 0.1, "{makers}");
        }
        // Raised numbers show of the large secret what numbers of models show, and no more.
        let large = LARGE_FORMS as f64 / f64::from(1 << 15);
        let of_large = |makers, times| left_by_message_passing(makers, &[(large * times, 1e4)]);
        assert!([2, 3].iter().all(|makers| (of_large(*makers, 1.0) - 0.75).abs() < 0.01));
        assert!(of_large(2, 4.0) < 0.01 && of_large(3, 4.0) < 0.01, "the controls");
    }
}
