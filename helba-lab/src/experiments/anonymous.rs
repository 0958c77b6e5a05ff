//! Figures 2 to 5 of Wang, Wang, Huang: composite and anonymous feedback.
//!
//! The paper prints no numbers. Horizon, repetitions and reward law of the stochastic figures are ours (Bernoulli totals,
//! T = 1e5, 20 runs), and so are the stand-ins for the data sets of figure 5, which may not be redistributed.

use crate::experiment::{
    Claim, Experiment, Panel, PanelResult, PolicyEntry, Reference, Results, Scale, Series,
};
use crate::play::{checkpoints, regret};
use anyhow::Result;
use bandit::anonymous::{
    ArsClw, ArsClwConfig, ArsExp3, ArsExp3Config, ArsUcb, ArsUcbConfig, Clw, ClwConfig, Composite, Delivery,
    Odaaf, OdaafConfig, OdaafRule, Rewards, RoundSize, UpdateRule,
};
use bandit::{Error, Policy};
use std::fmt::Debug;

/// Policies for anonymous feedback.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "ARS-UCB",
        about: "mixed anonymous feedback, i.i.d.; knows neither horizon nor delays; no privacy",
    },
    PolicyEntry {
        name: "ODAAF",
        about: "the same, knows horizon and delays: phased elimination; no privacy",
    },
    PolicyEntry {
        name: "ARS-EXP3",
        about: "mixed anonymous feedback, adversarial, delays may follow the player; no privacy",
    },
    PolicyEntry {
        name: "CLW",
        about: "mixed anonymous feedback, adversarial, knows horizon and interval; no privacy",
    },
    PolicyEntry {
        name: "ARS-CLW",
        about: "the same, knows neither: CLW in phases of doubled horizon; no privacy",
    },
];

/// Figures 2 to 5, and the runs that settle on a wrong arm.
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &Stochastic {
        name: "anonymous-fig2",
        about: "figure 2: ARS-UCB and ODAAF under random delays",
        cases: &FIGURE_2,
    },
    &Stochastic {
        name: "anonymous-fig3",
        about: "figure 3: ARS-UCB and ODAAF on intervals",
        cases: &FIGURE_3,
    },
    &Stochastic {
        name: "anonymous-fig4",
        about: "figure 4: ARS-UCB on vectors without end",
        cases: &FIGURE_4,
    },
    &Clicks,
    &Coupons,
    &Stuck,
];

const SOURCE: &str =
    "Wang, Wang, Huang: Adaptive Algorithms for Multi-armed Bandit with Composite and Anonymous Feedback";
const NINE: [f64; 9] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1];
const RECOMMENDED: &str = "α = 4, f = k²";

/// One curve of `policy` against `environment`; both constructors are tried at once, so that bad settings show early.
fn series<P>(
    label: impl Into<String>,
    policy: impl Fn() -> Result<P, Error> + Send + Sync + 'static,
    environment: &Composite,
    slots: u64,
    reference: Option<(f64, f64)>,
) -> Result<Series>
where
    P: Policy<Context = (), Feedback = f64> + Debug,
{
    // The fresh policy with all its fields, and what the environment is made of.
    let (rewards, delivery) = (environment.rewards(), environment.delivery());
    let settings = format!("{slots} slots; {:?}; {rewards:?}; {delivery:?}", policy()?);
    let (environment, at) = (environment.clone(), checkpoints(slots));
    Ok(Series {
        label: label.into(),
        settings,
        reference: reference.map(|(mean, standard_error)| Reference { mean, standard_error }),
        run: Box::new(move |seed| regret(policy()?, environment.clone(), &at, seed)),
    })
}

/// One delay case of the stochastic figures; references are means and standard errors at T = 1e5.
struct Case {
    title: &'static str,
    delivery: fn() -> Delivery,
    benchmark: Option<(&'static str, OdaafRule, (f64, f64))>,
    /// f = k², α = 1, 2, 4, 8; then α = 4, f = k, k³, 2^k, 1.
    reference: [(f64, f64); 8],
}

const SQUARES: RoundSize = RoundSize::SQUARES;
const DOUBLING: RoundSize = RoundSize::Doubling { shift: 0 };

const fn power(exponent: u32) -> RoundSize {
    RoundSize::Power { factor: 1, exponent }
}

/// Label, α, f, and whether the curve belongs to the panels over α and over f.
const CURVES: [(&str, f64, RoundSize, bool, bool); 8] = [
    ("α = 1, f = k²", 1.0, SQUARES, true, false),
    ("α = 2, f = k²", 2.0, SQUARES, true, false),
    (RECOMMENDED, 4.0, SQUARES, true, true),
    ("α = 8, f = k²", 8.0, SQUARES, true, false),
    ("α = 4, f = k", 4.0, power(1), false, true),
    ("α = 4, f = k³", 4.0, power(3), false, true),
    ("α = 4, f = 2^k", 4.0, DOUBLING, false, true),
    ("α = 4, f = 1", 4.0, power(0), false, true),
];

const fn composite(interval: u32) -> OdaafRule {
    OdaafRule::Composite { interval }
}

#[rustfmt::skip]
static FIGURE_2: [Case; 2] = [
    Case {
        title: "delay 10..30", delivery: || Delivery::Random { lo: 10, hi: 30 },
        benchmark: Some(("ODAAF", OdaafRule::Mean { delay: 20.0 }, (9312., 70.))),
        reference: [(1555., 435.), (1155., 329.), (1374., 14.), (2495., 14.), (1582., 84.), (1504., 17.), (1472., 33.), (2001., 134.)],
    },
    Case {
        title: "delay 0..60", delivery: || Delivery::Random { lo: 0, hi: 60 },
        benchmark: Some(("ODAAF", OdaafRule::Mean { delay: 30.0 }, (11458., 87.))),
        reference: [(2815., 875.), (999., 105.), (1413., 26.), (2572., 22.), (1664., 111.), (1520., 24.), (1507., 36.), (2149., 165.)],
    },
];

#[rustfmt::skip]
static FIGURE_3: [Case; 6] = [
    Case {
        title: "interval 30..40", delivery: || Delivery::interval(30, 40),
        benchmark: Some(("generalised ODAAF", composite(40), (4303., 64.))),
        reference: [(3921., 1070.), (4843., 1112.), (1520., 99.), (2562., 32.), (2185., 526.), (1500., 23.), (1473., 32.), (4256., 946.)],
    },
    Case {
        title: "interval 10..20", delivery: || Delivery::interval(10, 20),
        benchmark: Some(("generalised ODAAF", composite(20), (2623., 42.))),
        reference: [(1032., 332.), (716., 13.), (1381., 12.), (2348., 20.), (1524., 29.), (1478., 25.), (1558., 26.), (2177., 178.)],
    },
    Case {
        title: "decreasing, d = 100", delivery: || Delivery::decreasing(100),
        benchmark: Some(("generalised ODAAF", composite(100), (7844., 54.))),
        reference: [(1436., 543.), (932., 78.), (1485., 20.), (2627., 26.), (1652., 110.), (1524., 26.), (1555., 41.), (6278., 1101.)],
    },
    Case {
        title: "decreasing, d = 50", delivery: || Delivery::decreasing(50),
        benchmark: Some(("generalised ODAAF", composite(50), (4632., 27.))),
        reference: [(580., 67.), (773., 16.), (1389., 15.), (2409., 16.), (1800., 31.), (1466., 23.), (1557., 33.), (3651., 714.)],
    },
    Case {
        title: "increasing, d = 100", delivery: || Delivery::increasing(100),
        benchmark: Some(("generalised ODAAF", composite(100), (8458., 127.))),
        reference: [(4278., 1206.), (3810., 1251.), (2819., 594.), (2858., 136.), (3791., 943.), (1663., 166.), (1840., 155.), (11660., 1641.)],
    },
    Case {
        title: "increasing, d = 50", delivery: || Delivery::increasing(50),
        benchmark: Some(("generalised ODAAF", composite(50), (4958., 77.))),
        reference: [(3349., 1183.), (1949., 481.), (1470., 63.), (2607., 36.), (3208., 721.), (1516., 28.), (1513., 39.), (4101., 902.)],
    },
];

#[rustfmt::skip]
static FIGURE_4: [Case; 4] = [
    Case {
        title: "discounted .8", delivery: || Delivery::Discounted { discount: 0.8 }, benchmark: None,
        reference: [(406., 7.), (692., 12.), (1216., 12.), (2127., 17.), (1344., 15.), (1413., 31.), (1422., 32.), (2384., 36.)],
    },
    Case {
        title: "discounted .9", delivery: || Delivery::Discounted { discount: 0.9 }, benchmark: None,
        reference: [(412., 9.), (747., 12.), (1322., 15.), (2258., 22.), (1566., 14.), (1469., 26.), (1452., 31.), (2829., 423.)],
    },
    Case {
        title: "polynomial 3", delivery: || Delivery::Polynomial { exponent: 3.0, taps: 2000 }, benchmark: None,
        reference: [(360., 7.), (657., 11.), (1162., 13.), (2088., 16.), (1103., 11.), (1381., 26.), (1361., 21.), (1539., 18.)],
    },
    Case {
        title: "polynomial 2", delivery: || Delivery::Polynomial { exponent: 2.0, taps: 2000 }, benchmark: None,
        reference: [(392., 9.), (662., 12.), (1204., 14.), (2153., 15.), (1205., 10.), (1416., 23.), (1408., 29.), (1733., 12.)],
    },
];

/// Figures 2 to 4: each case once over α and once over f.
struct Stochastic {
    name: &'static str,
    about: &'static str,
    cases: &'static [Case],
}

impl Stochastic {
    /// Panels of each case, that over α first.
    fn by_case<'a>(&self, results: &'a Results) -> Vec<(&'static str, &'a [PanelResult])> {
        self.cases.iter().map(|c| c.title).zip(results.panels.chunks(2)).collect()
    }
}

impl Experiment for Stochastic {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn notes(&self) -> &'static str {
        "Nine arms, .9 to .1. The paper leaves open the horizon (here 1e5), the repetitions (20), the reward law \
         (Bernoulli totals) and which panel varies what (here every case does both). Polynomial tails end after 2000 slots. \
         Arms stand best first, as they do in the references; ODAAF begins with them in that order, which flatters it early."
    }

    fn seeds(&self, scale: Scale) -> u64 {
        if scale == Scale::Full { 20 } else { 2 }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let slots = if scale == Scale::Full { 100_000 } else { 2_000 };
        let mut panels = Vec::new();
        for case in self.cases {
            let environment = Composite::new(Rewards::Bernoulli(NINE.to_vec()), (case.delivery)())?;
            let full = |reference| (scale == Scale::Full).then_some(reference);
            for (over, by_alpha) in [("over α", true), ("over f", false)] {
                let mut curves = Vec::new();
                for ((label, alpha, round_size, in_alpha, in_f), reference) in
                    CURVES.into_iter().zip(case.reference)
                {
                    if if by_alpha { in_alpha } else { in_f } {
                        let policy = move || ArsUcb::new(ArsUcbConfig { arms: 9, alpha, round_size });
                        curves.push(series(label, policy, &environment, slots, full(reference))?);
                    }
                }
                if let Some((label, rule, reference)) = case.benchmark {
                    let policy = move || Odaaf::new(OdaafConfig { arms: 9, horizon: slots, rule });
                    curves.push(series(label, policy, &environment, slots, full(reference))?);
                }
                let title = format!("{}; {over}", case.title);
                panels.push(Panel { title, x_label: "slot", y_label: "regret", log_x: true, series: curves });
            }
        }
        Ok(panels)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let cases = self.by_case(results);
        let recommended = |panels: &'_ [PanelResult]| {
            panels.first().and_then(|p| p.series(RECOMMENDED)).map(|s| {
                let decade = s.curve().last().map_or(0.0, |p| p.0 / 10.0);
                (s.last(), s.last().mean / s.at(decade).max(f64::MIN_POSITIVE))
            })
        };
        let mut claims = Vec::new();

        let growth: Vec<(&str, f64)> =
            cases.iter().filter_map(|(title, panels)| Some((*title, recommended(panels)?.1))).collect();
        claims.push(Claim {
            paper: "The regret of ARS-UCB is logarithmic in every case".into(),
            reference: "factor 1.6 to 1.8 from T = 1e4 to 1e5 (10 would be linear, 3.2 a square root)".into(),
            ours: join(growth.iter().map(|(title, g)| format!("{title}: factor {g:.2}"))),
            verdict: results.verdict(growth.iter().all(|(_, g)| *g < 10f64.powf(1.0 / 3.0))),
        });

        let against: Vec<_> = cases
            .iter()
            .zip(self.cases)
            .filter_map(|((title, panels), case)| {
                let benchmark = panels.first()?.series(case.benchmark?.0)?.last();
                Some((*title, recommended(panels)?.0, benchmark))
            })
            .collect();
        if !against.is_empty() {
            let below = |(_, ours, theirs): &(&str, bandit::Summary, bandit::Summary)| {
                ours.mean + 3.0 * ours.standard_error.hypot(theirs.standard_error) < theirs.mean
            };
            claims.push(Claim {
                paper: "ARS-UCB (α = 4, f = k²) is clearly below ODAAF in every panel".into(),
                reference: "below by 1.9 to 8 times".into(),
                ours: join(against.iter().map(|(title, ours, theirs)| {
                    format!(
                        "{title}: {:.0} against {:.0}, {:.1} times",
                        ours.mean,
                        theirs.mean,
                        theirs.mean / ours.mean
                    )
                })),
                verdict: results.verdict(against.iter().all(below)),
            });
        }

        let best: Vec<_> = cases
            .iter()
            .map(|(title, panels)| {
                let all = panels.iter().flat_map(|p| &p.series).filter(|s| s.label.starts_with('α'));
                let least = all.min_by(|a, b| a.last().mean.total_cmp(&b.last().mean));
                (*title, least.map_or("", |s| s.label.as_str()))
            })
            .collect();
        let wins = best.iter().filter(|(_, label)| *label == RECOMMENDED).count();
        claims.push(Claim {
            paper: "α = 4 with f = k² is best in most cases".into(),
            reference: "not by the mean: α = 1 and 2 are lower where delays are mild; but it is the smallest α whose \
                        standard error stays small"
                .into(),
            ours: join(best.iter().map(|(title, label)| format!("{title}: least mean at {label}"))),
            verdict: results.verdict(2 * wins > best.len()),
        });
        claims.push(results.agreement());
        claims
    }
}

/// Delays that follow the player.
struct Clicks;

/// Probabilities, interval, then last values of ARS-EXP3 and CLW.
type ClickRow = (&'static [f64], usize, (f64, f64), (f64, f64));

const CLICKS: [ClickRow; 4] = [
    (&[0.50, 0.46, 0.02, 0.02], 10, (290_359.0, 4_809.0), (357_932.0, 2_036.0)),
    (&[0.50, 0.45, 0.03, 0.02], 10, (292_294.0, 6_472.0), (305_615.0, 2_302.0)),
    (&[0.50, 0.46, 0.02, 0.02], 20, (388_140.0, 2_962.0), (372_356.0, 5_769.0)),
    (&[0.30, 0.27, 0.25, 0.10, 0.08], 10, (266_585.0, 3_970.0), (283_420.0, 4_150.0)),
];
const PROMPT: &str = "CLW, all one slot later";

impl Experiment for Clicks {
    fn name(&self) -> &'static str {
        "anonymous-fig5-clicks"
    }

    fn about(&self) -> &'static str {
        "figure 5, clicks: ARS-EXP3 and CLW when delays follow the player"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn notes(&self) -> &'static str {
        "STAND-IN DATA: the paper uses the Outbrain click log, which may not be redistributed; here one category is clicked \
         in each slot, with the probabilities above each panel. Delay d if the best arm has been played 3d times on end or \
         more, else 1. T = 1e7: below 1e6 slots the two cannot be told apart."
    }

    fn seeds(&self, scale: Scale) -> u64 {
        if scale == Scale::Full { 3 } else { 2 }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let slots = if scale == Scale::Full { 10_000_000 } else { 20_000 };
        let full = |reference| (scale == Scale::Full).then_some(reference);
        let mut panels = Vec::new();
        for (i, (p, d, exp3, clw)) in CLICKS.into_iter().enumerate() {
            let environment = |delivery| Composite::new(Rewards::click_one(p), delivery);
            let follows = environment(Delivery::Streak { interval: d })?;
            let arms = p.len();
            let ars_exp3 = move || ArsExp3::new(ArsExp3Config::new(arms, slots));
            let wrapped = move || Clw::new(ClwConfig::new(arms, slots, d as u32));
            let mut curves = vec![
                series("ARS-EXP3", ars_exp3, &follows, slots, full(exp3))?,
                series("CLW", wrapped, &follows, slots, full(clw))?,
            ];
            if i == 0 {
                let prompt = environment(Delivery::Random { lo: 1, hi: 1 })?;
                curves.push(series(PROMPT, wrapped, &prompt, slots, full((135_916.0, 2_798.0)))?);
            }
            panels.push(Panel {
                title: format!("clicks {p:?}; d = {d}"),
                x_label: "slot",
                y_label: "regret",
                log_x: false,
                series: curves,
            });
        }
        Ok(panels)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let reference = [
            (".0255 .0203 .0159", ".0244 .0278 .0339"),
            (".0293 .0207 .0131", ".0269 .0248 .0208"),
            (".0306 .0300 .0300", ".0256 .0264 .0313"),
            (".0374 .0204 .0138", ".0311 .0228 .0210"),
        ];
        let mut claims = Vec::new();
        for (panel, (exp3, clw)) in results.panels.iter().zip(reference) {
            let (Some(a), Some(b)) = (panel.series("ARS-EXP3"), panel.series("CLW")) else { continue };
            let (a, b) = (slopes(a), slopes(b));
            // Linear: the slope does not fall; sub-linear: it falls by a quarter at least from first to last.
            let holds = a[2] < 0.75 * a[0] && b[2] > 0.95 * b[0];
            claims.push(Claim {
                paper: format!("{}: the regret of CLW is linear, that of ARS-EXP3 is not", panel.title),
                reference: format!("regret a slot in .1 T to .3 T to .6 T to T: ARS-EXP3 {exp3}, CLW {clw}"),
                ours: format!(
                    "ARS-EXP3 {:.4} {:.4} {:.4}, CLW {:.4} {:.4} {:.4}",
                    a[0], a[1], a[2], b[0], b[1], b[2]
                ),
                verdict: results.verdict(holds),
            });
        }
        claims.push(results.agreement());
        claims
    }
}

/// Regret a slot between .1, .3, .6 and 1 of the horizon.
fn slopes(series: &crate::experiment::SeriesResult) -> [f64; 3] {
    let end = series.curve().last().map_or(1.0, |p| p.0);
    let slope = |from: f64, to: f64| (series.at(to * end) - series.at(from * end)) / ((to - from) * end);
    [slope(0.1, 0.3), slope(0.3, 0.6), slope(0.6, 1.0)]
}

/// Oblivious delays.
struct Coupons;

/// z, then ARS-EXP3, CLW (interval and last value), CLW with look-ahead, ARS-CLW with cube and fourth root.
struct CouponRow {
    z: (usize, usize),
    exp3: (f64, f64),
    clw: [(u32, (f64, f64)); 5],
    ahead: (f64, f64),
    ars_clw: [(f64, f64); 2],
}

#[rustfmt::skip]
const COUPONS: [CouponRow; 2] = [
    CouponRow {
        z: (5, 10), exp3: (51_313., 791.),
        clw: [(10, (49_571., 758.)), (9, (48_110., 636.)), (11, (50_415., 777.)), (5, (41_770., 718.)), (20, (58_673., 723.))],
        ahead: (56_920., 465.), ars_clw: [(75_915., 434.), (73_847., 371.)],
    },
    CouponRow {
        z: (10, 20), exp3: (54_525., 828.),
        clw: [(20, (58_948., 681.)), (18, (57_521., 782.)), (22, (58_873., 507.)), (10, (52_084., 694.)), (40, (63_686., 448.))],
        ahead: (60_646., 972.), ars_clw: [(75_918., 433.), (73_902., 376.)],
    },
];

impl Experiment for Coupons {
    fn name(&self) -> &'static str {
        "anonymous-fig5-coupons"
    }

    fn about(&self) -> &'static str {
        "figure 5, coupons: ARS-EXP3, CLW and ARS-CLW under oblivious delays"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn notes(&self) -> &'static str {
        "STAND-IN DATA: the paper uses the Coupon Purchase log, which may not be redistributed; here each weekday's coupon \
         would be used with probability .50 to .35, independently. Guessing d too short helps CLW on this harmless source; no \
         guarantee follows. T = 1e6: at 1e5 little has been learnt by any of them."
    }

    fn seeds(&self, scale: Scale) -> u64 {
        if scale == Scale::Full { 10 } else { 2 }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let slots = if scale == Scale::Full { 1_000_000 } else { 10_000 };
        let full = |reference| (scale == Scale::Full).then_some(reference);
        let mut panels = Vec::new();
        for CouponRow { z: (lo, hi), exp3, clw, ahead, ars_clw } in COUPONS {
            let environment = Composite::new(Rewards::weekday_bits(), Delivery::Random { lo, hi })?;
            let e = &environment;
            let ars_exp3 = move || ArsExp3::new(ArsExp3Config::new(7, slots));
            let mut curves = vec![series("ARS-EXP3", ars_exp3, e, slots, full(exp3))?];
            for (d, reference) in clw {
                let policy = move || Clw::new(ClwConfig::new(7, slots, d));
                curves.push(series(format!("CLW, d = {d}"), policy, e, slots, full(reference))?);
            }
            let look = move || {
                Clw::new(ClwConfig { rule: UpdateRule::LookAhead, ..ClwConfig::new(7, slots, hi as u32) })
            };
            curves.push(series(format!("CLW, look-ahead, d = {hi}"), look, e, slots, full(ahead))?);
            for (root, reference) in [3, 4].into_iter().zip(ars_clw) {
                let policy = move || ArsClw::new(ArsClwConfig { root, ..ArsClwConfig::new(7) });
                curves.push(series(format!("ARS-CLW, T^(1/{root})"), policy, e, slots, full(reference))?);
            }
            panels.push(Panel {
                title: format!("coupons; delay {lo}..{hi}"),
                x_label: "slot",
                y_label: "regret",
                log_x: false,
                series: curves,
            });
        }
        Ok(panels)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let mut claims = Vec::new();
        for (panel, row) in results.panels.iter().zip(COUPONS) {
            let last = |label: &str| panel.series(label).map_or(f64::NAN, |s| s.last().mean);
            let clw = |i: usize| last(&format!("CLW, d = {}", row.clw[i].0));
            let (exp3, exact, worse) = (last("ARS-EXP3"), clw(0), clw(1).max(clw(2)));
            let reference = format!(
                "ARS-EXP3 {:.0}, CLW {:.0} (d off by a tenth: {:.0}, {:.0})",
                row.exp3.0, row.clw[0].1.0, row.clw[1].1.0, row.clw[2].1.0
            );
            claims.push(Claim {
                paper: format!("{}: CLW with exact d is slightly better than ARS-EXP3", panel.title),
                reference: reference.clone(),
                ours: format!("ARS-EXP3 {exp3:.0}, CLW {exact:.0}"),
                verdict: results.verdict(exact < exp3),
            });
            claims.push(Claim {
                paper: format!("{}: with d off by a tenth CLW can be worse than ARS-EXP3", panel.title),
                reference,
                ours: format!("ARS-EXP3 {exp3:.0}, the worse of the two CLW {worse:.0}"),
                verdict: results.verdict(worse > exp3),
            });
        }
        claims.push(results.agreement());
        claims
    }
}

/// Runs of ARS-UCB that settle on a wrong arm.
struct Stuck;

const STUCK: [(&str, f64, RoundSize, &str); 6] = [
    (RECOMMENDED, 4.0, SQUARES, "30 %, median 1964"),
    ("α = 4, f = k³", 4.0, power(3), "0 %"),
    ("α = 4, f = 2^k", 4.0, DOUBLING, "8 %"),
    ("α = 4.5, f = k²", 4.5, SQUARES, "20 %"),
    ("α = 6, f = k²", 6.0, SQUARES, "7 %"),
    ("α = 8, f = k²", 8.0, SQUARES, "0 %"),
];

impl Experiment for Stuck {
    fn name(&self) -> &'static str {
        "anonymous-stuck"
    }

    fn about(&self) -> &'static str {
        "beyond the paper: runs of ARS-UCB that settle on a wrong arm"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn notes(&self) -> &'static str {
        "Vectors that increase over 100 slots, T = 3e5. With α = 4, the paper's advice, which its own analysis excludes, some \
         runs pay linear regret: what other arms earned flatters a bad one in its short rounds. Longer rounds or a larger α help."
    }

    fn seeds(&self, scale: Scale) -> u64 {
        if scale == Scale::Full { 60 } else { 2 }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let slots = if scale == Scale::Full { 300_000 } else { 2_000 };
        let environment = Composite::new(Rewards::Bernoulli(NINE.to_vec()), Delivery::increasing(100))?;
        let curve = |(label, alpha, round_size, _): (&str, f64, RoundSize, &str)| {
            let policy = move || ArsUcb::new(ArsUcbConfig { arms: 9, alpha, round_size });
            series(label, policy, &environment, slots, None)
        };
        let series = STUCK.into_iter().map(curve).collect::<Result<_>>()?;
        Ok(vec![Panel {
            title: "increasing, d = 100".into(),
            x_label: "slot",
            y_label: "regret",
            log_x: true,
            series,
        }])
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let Some(panel) = results.panels.first() else { return Vec::new() };
        let stuck = |label: &str| panel.series(label).map_or(0.0, |s| s.stuck());
        vec![Claim {
            paper: "The regret of ARS-UCB with α = 4, f = k² is logarithmic here too".into(),
            reference: join(STUCK.iter().map(|(label, .., share)| format!("{label}: {share}"))),
            ours: join(STUCK.iter().map(|(label, ..)| {
                let median = panel.series(label).map_or(0.0, |s| s.median());
                format!(
                    "{label}: {:.0} % of runs above three medians, median {median:.0}",
                    100.0 * stuck(label)
                )
            })),
            verdict: results.verdict(stuck(RECOMMENDED) <= 0.05),
        }]
    }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}
