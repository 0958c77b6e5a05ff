//! Figures 2 to 4: easy arms, hard arms, and a comparison of the trust models.

use super::*;
use crate::experiment::{Card, Claim, Decision, Interval, Panel, Scale};

/// One curve: label, policy, and last values of the independent implementation by epsilon.
pub(super) struct Row(&'static str, Kind, [Option<(f64, f64)>; 3]);

#[rustfmt::skip]
pub(super) static FIGURE_2: [Row; 5] = [
    Row(DP_SE, Kind::DpSe, [Some((7085., 369.)), Some((3901., 342.)), Some((3707., 359.))]),
    Row(PURE, sums(Model::Pure, 4), [Some((13265., 526.)), Some((5614., 362.)), Some((4480., 358.))]),
    Row(RENYI, sums(renyi(10), 4), [Some((8784., 431.)), Some((4551., 351.)), Some((3975., 310.))]),
    Row(FINER, sums(renyi(100), 4), [Some((7914., 351.)), Some((4426., 359.)), Some((3974., 308.))]),
    Row("no privacy", sums(Model::None, 4), [Some((3433., 326.)); 3]),
];

#[rustfmt::skip]
pub(super) static FIGURE_3: [Row; 7] = [
    Row(DP_SE, Kind::DpSe, [Some((22906., 2231.)), None, Some((16567., 1756.))]),
    Row(PURE, sums(Model::Pure, 4), [None; 3]),
    Row(RENYI, sums(renyi(10), 4), [None; 3]),
    Row(FINER, sums(renyi(100), 4), [None; 3]),
    Row("no privacy", sums(Model::None, 4), [None; 3]),
    Row("Dist-DP-SE, growth 2", sums(Model::Pure, 2), [Some((32833., 2310.)), None, Some((19972., 1901.))]),
    Row("Dist-RDP-SE, s = 10, growth 2", sums(renyi(10), 2), [Some((25447., 1770.)), None, Some((19279., 1911.))]),
];

const CENTRAL: &str = "CDP-SE (central)";
const LOCAL: &str = "LDP-SE (local)";
const GAUSS: &str = "Dist-CDP-SE, s = 10";
const SHUFFLE: &str = "Shuffled sums of Theorem 3";

#[rustfmt::skip]
static FIGURE_4: [Row; 7] = [
    Row(CENTRAL, sums(Model::Central, 2), [None; 3]),
    Row(LOCAL, sums(Model::Local, 2), [Some((204358., 10964.)), Some((116959., 4509.)), Some((53832., 3032.))]),
    Row(PURE, sums(Model::Pure, 2), [Some((14281., 414.)), Some((6355., 299.)), Some((5209., 322.))]),
    Row(RENYI, sums(renyi(10), 2), [Some((10128., 390.)), Some((5286., 305.)), Some((4581., 308.))]),
    Row(GAUSS, sums(concentrated(10), 2), [Some((8085., 409.)), Some((4750., 309.)), Some((4277., 296.))]),
    Row(SHUFFLE, sums(Model::Shuffle, 2), [None; 3]),
    Row("no privacy", sums(Model::None, 2), [Some((3861., 294.)); 3]),
];

fn panels(rows: &[Row], means: (f64, f64), users: u64, scale: Scale) -> Result<Vec<Panel>> {
    let ground = published(means, users);
    let panel = |(i, epsilon): (usize, (u128, u128))| {
        let curve = |Row(label, kind, references): &Row| {
            Ok(series(*label, *kind, epsilon, &ground)?.referenced(scale, references[i]))
        };
        Panel::regret_over_log("user", title(epsilon), rows.iter().map(curve))
    };
    EPSILONS.into_iter().enumerate().map(panel).collect()
}

/// Figures 2 and 3.
pub(super) struct Instances {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) means: (f64, f64),
    pub(super) users: u64,
    pub(super) rows: &'static [Row],
    pub(super) seeds: u64,
}

impl Experiment for Instances {
    fn card(&self) -> Card {
        let (name, about, source, notes) = (self.name, self.about, SOURCE, SETTING);
        Card { name, about, source, notes, stand_in: None, seeds: [self.seeds, 2] }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        panels(self.rows, self.means, scale.of(self.users, 10_000), scale)
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        time_averages(results, &EPSILONS)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let against = pairs(results, PURE, DP_SE);
        let ratios: Vec<f64> = against.iter().map(|(_, a, b)| a.over(b)).collect();
        let easy = self.means == EASY;
        let mut claims = vec![
            results.claim("For large T, Dist-DP-SE matches DP-SE (here: within a tenth)", if easy { "1.87, 1.44 and 1.21 times at ε = .1, .5 and 1" } else { "no result for growth 4" }, listed(against.iter().zip(&ratios).map(|((title, ..), r)| format!("{title}: {r:.2} times"))), below(results, &against, 1.1)),
            results.claim("For large T the time-averaged regret is of the order of DP-SE's (here: within a factor of 2), and the \
                        gap of small T closes", "within a factor of 2", listed(against.iter().zip(&ratios).map(|((title, a, b), r)| {
                    let [early, late] = gaps(a, b);
                    format!("{title}: {r:.2} times, gap {early:.5} at T/10, {late:.5} at T")
                })), below(results, &against, 2.0).and(Decision::all(against.iter().map(|(_, a, b)| gap_closes(a, b))))),
            results.claim("The gap is smaller for larger ε", if easy { "6180, 1713 and 773" } else { "at growth 2: 9927 (ε = .1) and 3405 (ε = 1)" }, differences(&against), narrowing(results, &against)),
        ];
        let gain = pairs(results, RENYI, PURE);
        claims.push(results.claim(
            "Renyi privacy with s = 10 gains over pure privacy, most at small ε",
            if easy {
                "8784 against 13265, 4551 against 5614, 3975 against 4480"
            } else {
                "at growth 2: 25447 against 32833 (ε = .1), 19279 against 19972 (ε = 1)"
            },
            differences(&gain),
            gains_most_at_small_epsilon(results, &gain),
        ));
        let finer = pairs(results, FINER, RENYI);
        claims.push(results.claim(
            "The higher the scale s, the higher the gain (s = 100 below s = 10)",
            if easy {
                "7914 against 8784, 4426 against 4551, 3974 against 3975: hardly at ε = .5 and 1"
            } else {
                "no result"
            },
            differences(&finer),
            below(results, &finer, 1.0),
        ));
        if !easy {
            claims.push(at_a_million(results));
        }
        claims.push(results.agreement());
        claims
    }
}

/// The difference of the time-averaged regrets at a tenth of the users, and at the end.
fn gaps(a: &SeriesResult, b: &SeriesResult) -> [f64; 2] {
    let end = a.curve().last().map_or(1.0, |p| p.0);
    [end / 10.0, end].map(|t| (a.at(t) - b.at(t)) / t)
}

/// Whether the difference of the time-averaged regrets falls from a tenth of the users to the end.
fn gap_closes(a: &SeriesResult, b: &SeriesResult) -> Decision {
    let end = a.curve().last().map_or(1.0, |p| p.0);
    let at = |run: &Run, t: f64| run.points.iter().take_while(|p| p.0 <= t).last().map_or(0.0, |p| p.1);
    let gap = |(a, b): (&Run, &Run), t: f64| (at(a, t) - at(b, t)) / t;
    let pairs = a.runs.iter().zip(&b.runs);
    let falls: Vec<f64> = pairs.map(|pair| gap(pair, end) - gap(pair, end / 10.0)).collect();
    Interval::of(&falls).below(0.0)
}

/// Regret on hard arms at 10^6 users, for which the independent implementation ran all twenty instances.
#[rustfmt::skip]
const AT_A_MILLION: [(&str, [(f64, f64); 3]); 7] = [
    (DP_SE, [(16661., 682.), (11618., 568.), (11165., 591.)]),
    (PURE, [(21082., 752.), (14221., 611.), (12918., 616.)]),
    (RENYI, [(18265., 833.), (13186., 586.), (12024., 570.)]),
    (FINER, [(17151., 771.), (12863., 594.), (11978., 574.)]),
    ("no privacy", [(11748., 609.); 3]),
    ("Dist-DP-SE, growth 2", [(23416., 746.), (15834., 497.), (14528., 604.)]),
    ("Dist-RDP-SE, s = 10, growth 2", [(18962., 482.), (14609., 598.), (13928., 673.)]),
];

fn at_a_million(results: &Results) -> Claim {
    let (mut agree, mut all, mut apart) = (0, 0, Vec::new());
    for (label, references) in AT_A_MILLION {
        for (epsilon, (mean, error)) in EPSILONS.into_iter().zip(references) {
            let Some(series) = results.series(&title(epsilon), label) else { continue };
            let Some((_, at)) = series.curve().into_iter().find(|p| p.0 == 1e6) else { continue };
            all += 1;
            if (at.mean - mean).abs() <= 3.0 * at.standard_error.hypot(error) {
                agree += 1;
            } else {
                apart.push(format!("{}, {label}: {:.0} against {mean:.0}", title(epsilon), at.mean));
            }
        }
    }
    let ours = match all {
        0 => "nothing to compare".into(),
        _ => format!("{agree} of {all} within three standard errors {}", apart.join("; ")),
    };
    let decision = match all {
        0 => Decision::Open(f64::NAN),
        _ if agree == all => Decision::Yes,
        _ => Decision::No,
    };
    results.own(
        "The values at T = 1e6 are those of an independent implementation, within three errors of both sides",
        "21 values of an independent implementation",
        ours,
        decision,
    )
}

/// Figure 4.
pub(super) struct Models;

impl Experiment for Models {
    fn card(&self) -> Card {
        Card {
            name: "distributed-fig4",
            about: "figure 4: central, local, distributed and shuffle models on easy arms",
            source: SOURCE,
            stand_in: None,
            seeds: [60, 2],
            notes: "As figure 2, with batches that double and T = 1e6. The shuffle model, for which the paper has a theorem and no \
                    figure, is run as in Theorem 3, with pure privacy (the shuffle model of the service, which counts bits, is (ε, δ)-private and \
                    another mechanism): half of ε for the noise, p = 1/(2T), and sums that are wrong with probability \
                    1/(2T). The first panels show cumulative regret, the last ones divide it by the number of users. The noise of all \
                    users is drawn at once, in double precision where exact sampling would take hours, which is for simulation only.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        panels(&FIGURE_4, EASY, scale.of(1_000_000, 10_000), scale)
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        time_averages(results, &EPSILONS)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let central = pairs(results, CENTRAL, PURE);
        let local = pairs(results, PURE, LOCAL);
        let (renyi, gauss) = (pairs(results, RENYI, PURE), pairs(results, GAUSS, RENYI));
        let order = |paper: &str, reference: &str, pairs: &[Pair]| {
            results.claim(paper, reference, differences(pairs), below(results, pairs, 1.0))
        };
        vec![
            results.claim(
                "CDP-SE and Dist-DP-SE are similar (here: within a tenth)",
                "one law of noise",
                differences(&central),
                Decision::all(central.iter().map(|(_, a, b)| results.alike(&[Some(a), Some(b)], 1.1))),
            ),
            results.claim(
                "Both are much better than LDP-SE (here: twice at least)",
                "14281 against 204358, 6355 against 116959, 5209 against 53832",
                differences(&local),
                below(results, &local, 0.5),
            ),
            order(
                "Dist-RDP-SE is better than Dist-DP-SE",
                "10128 against 14281, 5286 against 6355, 4581 against 5209",
                &renyi,
            ),
            order(
                "Dist-CDP-SE is better than Dist-RDP-SE",
                "8085 against 10128, 4750 against 5286, 4277 against 4581",
                &gauss,
            ),
            results.agreement(),
        ]
    }
}
