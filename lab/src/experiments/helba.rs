//! Figure 1 of Garcelon, Perchet, Pirotta in the clear, and the same policies on recorded purchases.

use crate::experiment::{
    Card, Claim, Decision, Experiment, Interval, Panel, PanelResult, Results, Run, Scale, Series,
    SeriesResult, listed,
};
use crate::play;
use anyhow::Result;
use bandit::datasets::Purchases;
use bandit::toy::{FIGURE_1_CONTEXTS, FIGURE_1_ROUNDS, Toy};
use bandit::{
    Arithmetic, Environment, Error, Features, HelbaClear, LinearConfig, Oful, Policy, Ridge, Schedule,
    Summary, UniformRandom, Width,
};
use datasets::{Dataset, DatasetLog};
use privacy::source::SplitMix64;
use std::sync::Arc;

/// Figure 1 without its encrypted curve, and recorded purchases.
pub const EXPERIMENTS: &[&dyn Experiment] = &[&Figure1, &Shopping { own: None }];

pub(super) const HELBA_SOURCE: &str = "Garcelon, Perchet, Pirotta: Encrypted Linear Contextual Bandit";
const OFUL: &str = "OFUL";
const RSOFUL: &str = "RSOFUL";
const TRACE: &str = "RSOFUL-Tr";
const HELBA: &str = "HELBA, exact";
const POLYNOMIALS: &str = "HELBA, the paper's polynomials";
pub(super) const UPDATES: &str = "updates";
const PANEL: &str = "toy problem, σ = 0.5, C = 1, η = 0.1";

/// The number of repetitions in the paper.
const PAPER_SEEDS: usize = 25;

/// The regret of `policy` in the environment of a seed. The number of updates of its statistics is kept as a
/// further number.
pub(super) fn series<P, E>(
    label: &str,
    setting: &str,
    policy: impl Fn() -> Result<P, Error> + Send + Sync + 'static,
    statistics: fn(&P) -> &Ridge,
    environment: impl Fn(u64) -> Result<E, Error> + Send + Sync + 'static,
    rounds: u64,
) -> Result<Series>
where
    P: Policy<Context = Features, Feedback = f64> + std::fmt::Debug + 'static,
    E: Environment<Context = Features, Feedback = f64>,
{
    let settings = format!("{rounds} rounds; {setting}; {:?}", policy()?);
    let updates = move |policy: &P, run: Run| Run {
        figures: [(UPDATES.into(), statistics(policy).updates() as f64)].into(),
        ..run
    };
    let (policy, environment) = (move || Ok(policy()?), move |seed| Ok(environment(seed)?));
    Ok(play::series(label, settings, rounds, policy, environment, updates))
}

/// Figure 1.
struct Figure1;

impl Experiment for Figure1 {
    fn card(&self) -> Card {
        Card {
            name: "helba-fig1",
            about: "figure 1 in the clear: OFUL, RSOFUL, RSOFUL-Tr and HELBA on the toy problem",
            source: HELBA_SOURCE,
            stand_in: None,
            seeds: [2500, 4],
            notes: "All policies run in the clear; helba-fig1-encrypted has the encrypted curve. d = 2, K = 2, 4 context sets, 130 rounds, \
                    L = 5.5. The paper states neither S nor δ (here 1 and 0.01), nor the distribution of contexts and parameter (here a \
                    fresh problem for each seed, with uniform features). The baselines have the width of OFUL for an exact inverse, HELBA \
                    has its own.",
        }
    }

    fn panels(&self, _: Scale) -> Result<Vec<Panel>> {
        let helba = LinearConfig::figure_1();
        let base = LinearConfig { width: Width::SelfNormalized, ..helba };
        let toy = move |seed: u64| {
            // The problem is drawn from its own stream, which is not that of the rounds.
            Toy::new(&helba, FIGURE_1_CONTEXTS, &mut SplitMix64::new(seed ^ 0x746F_7900_0000_0000))
        };
        let rounds = FIGURE_1_ROUNDS as u64;
        let oful = |label, schedule| {
            let config = LinearConfig { schedule, ..base };
            series(label, "toy", move || Oful::new(config), Oful::ridge, toy, rounds)
        };
        let clear = |label, arithmetic| {
            let policy = move || HelbaClear::new(helba, arithmetic);
            series(label, "toy", policy, HelbaClear::ridge, toy, rounds)
        };
        let series = [
            oful(OFUL, Schedule::EveryRound),
            oful(RSOFUL, Schedule::Determinant),
            oful(TRACE, Schedule::Trace),
            clear(HELBA, Arithmetic::Exact),
            clear(POLYNOMIALS, Arithmetic::Paper),
        ];
        Ok(vec![Panel::regret_over("round", PANEL, series)?])
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let get = |label| results.series(PANEL, label);
        let (Some(oful), Some(rsoful), Some(trace), Some(helba), Some(polynomials)) =
            (get(OFUL), get(RSOFUL), get(TRACE), get(HELBA), get(POLYNOMIALS))
        else {
            return Vec::new();
        };
        let updates = |s: &SeriesResult| s.figure(UPDATES).unwrap_or(f64::NAN);
        // Groups of as many seeds as the paper has: the summary of each, beside that of OFUL.
        let groups = |s: &SeriesResult| {
            let of = |s: &SeriesResult| -> Vec<_> {
                s.finals().chunks(PAPER_SEEDS).map(|c| Summary::of(c).unwrap_or(s.last())).collect()
            };
            of(s).into_iter().zip(of(oful)).collect::<Vec<_>>()
        };
        // The number of groups in which the policy is within one standard error of OFUL, and of all groups.
        let near = |s: &SeriesResult| {
            let within = |(a, b): &&(Summary, Summary)| {
                (a.mean - b.mean).abs() <= a.standard_error.max(b.standard_error)
            };
            let groups = groups(s);
            (groups.iter().filter(within).count(), groups.len())
        };
        let lazy = [(RSOFUL, rsoful), (TRACE, trace), (HELBA, helba)];
        let join = |parts: &dyn Fn(&str, &SeriesResult) -> String, of: &[(&str, &SeriesResult)]| {
            listed(of.iter().map(|(label, s)| parts(label, s)))
        };
        let base = oful.mean();
        let against_oful = |label: &str, s: &SeriesResult| {
            let d = s.less(oful);
            let percent = 100.0 * d.mean / base;
            format!("{label} {:+.2} ± {:.2} ({percent:+.0} %)", d.mean, d.standard_error)
        };
        let ends = |label: &str, s: &SeriesResult| {
            let first = groups(s).first().map_or(s.last(), |g| g.0);
            let (near, all) = near(s);
            format!(
                "{label} {:.1} ± {:.1} in the first, within in {near} of {all}",
                first.mean, first.standard_error
            )
        };
        let seeds = oful.runs.len();
        let renewed =
            |label: &str, s: &SeriesResult| format!("{label} {:.1} of {FIGURE_1_ROUNDS} rounds", updates(s));
        let below = |s: &'_ SeriesResult, factor| results.ends_below(Some(s), factor, Some(oful));
        let same = same_end(polynomials, helba);
        vec![
            results.claim(
                "At 25 repetitions the low-switching policies are comparable to OFUL (here: within one standard error, in nine of \
                 ten groups of 25 seeds)",
                "all within one standard error, in one group of another prototype",
                format!("groups of 25 seeds: {}; {}", ends(OFUL, oful), join(&ends, &lazy)),
                Decision::all(lazy.iter().map(|(_, s)| near(s)).map(|(n, all)| Interval::share(n, all).above(0.9))),
            ),
            results.claim(
                "RSOFUL and RSOFUL-Tr lose only slightly against OFUL (here: at most a tenth, on all seeds)",
                "not significant at 25 seeds",
                format!("{seeds} seeds, on equal problems, OFUL {base:.2}: {}", join(&against_oful, &lazy[..2])),
                Decision::all(lazy[..2].iter().map(|(_, s)| below(s, 1.1))),
            ),
            results.claim(
                "Approximations and low switching combined worsen the regret of HELBA, a small loss (here: above OFUL, at most by a \
                 quarter)",
                "not significant at 25 seeds",
                join(&against_oful, &[(HELBA, helba), (POLYNOMIALS, polynomials)]),
                results.ends_above(Some(polynomials), 1.0, Some(oful)).and(below(polynomials, 1.25)),
            ),
            results.claim(
                "RSOFUL and RSOFUL-Tr recompute the ridge regression 11 times on average (here: 9.5 to 12.5)",
                "RSOFUL-Tr 8 to 10",
                join(&renewed, &lazy[..2]),
                Decision::all(lazy[..2].iter().map(|(_, s)| s.figure_interval(UPDATES).within(11.0, 1.5))),
            ),
            results.claim(
                "HELBA recomputes it about 20 times on average (here: 18 to 22)",
                "32 to 33: t >= 1.1 t_j alone makes about 32 of 130 rounds",
                join(&renewed, &[(HELBA, helba), (POLYNOMIALS, polynomials)]),
                helba.figure_interval(UPDATES).within(20.0, 2.0),
            ),
            results.own(
                "Its polynomials, at its precisions, decide as exact arithmetic does (here: nine of ten runs end on the same regret)",
                "99.9 % of arms",
                format!(
                    "{same} of {seeds} runs end on the same regret; mean difference {:.4}",
                    polynomials.less(helba).mean
                ),
                Interval::share(same, seeds).above(0.9),
            ),
        ]
    }
}

/// The number of seeds on which both series end on the same value.
fn same_end(a: &SeriesResult, b: &SeriesResult) -> usize {
    a.finals().iter().zip(b.finals()).filter(|(x, y)| *x == y).count()
}

/// Recorded purchases of yogurt and crackers, or a file of the user.
struct Shopping {
    /// Title and rounds of the file.
    own: Option<(String, Arc<Dataset>)>,
}

/// The experiment on recorded purchases, on a file whose rewards are all known.
pub fn purchases_of(name: &str, dataset: Dataset) -> impl Experiment + use<> {
    // Kept runs are those of these numbers: FNV-1a of all features and rewards.
    let step = |hash: u64, x: f64| (hash ^ x.to_bits()).wrapping_mul(0x0000_0100_0000_01B3);
    let numbers = dataset.rounds().iter().flat_map(|round| {
        let rewards = (0..dataset.arms().len()).filter_map(|arm| round.observed.reward(arm));
        round.features.rows().flatten().copied().chain(rewards)
    });
    let hash = numbers.fold(0xCBF2_9CE4_8422_2325, step);
    let title = format!("{name}, {} rounds ({hash:016x})", dataset.rounds().len());
    Shopping { own: Some((title, Arc::new(dataset))) }
}

/// Title and data; last values of OFUL and of the lazy rule, and of the best fixed brand, in per cent.
type Shop = (&'static str, fn() -> Result<Purchases, Error>, [f64; 2], f64);

const SHOPS: [Shop; 2] = [
    ("Yogurt, 2412 purchases", Purchases::yogurt, [84.2, 84.2], 40.2),
    ("Cracker, 3292 purchases", Purchases::cracker, [76.4, 75.4], 54.4),
];

/// The share of purchases that were predicted, in per cent, from a `series` whose regret counts the others.
pub(super) fn hit_rate(series: Series) -> Series {
    let Series { label, settings, run, .. } = series;
    let rate = |(t, lost): (f64, f64)| (t, 100.0 * (1.0 - lost / t));
    Series::new(label, format!("hit rate; {settings}"), move |seed| {
        let run = run(seed)?;
        Ok(Run { points: run.points.into_iter().map(rate).collect(), ..run })
    })
}

/// The panel of a purchase file.
pub(super) fn shop_panel(title: &str, series: Vec<Series>) -> Panel {
    Panel {
        title: title.into(),
        x_label: "purchase",
        y_label: "predicted, %",
        log_x: false,
        log_y: false,
        series,
    }
}

/// The configuration of linear policies on purchases: width 0.5, lambda 1.
fn shop_config(data: &Dataset, schedule: Schedule) -> LinearConfig {
    LinearConfig {
        d: data.d(),
        k: data.arms().len(),
        l: 1.0,
        width: Width::Constant { alpha: 0.5 },
        schedule,
        ..LinearConfig::figure_1()
    }
}

/// The hit rate of the arm that is best over all of `rounds`, played in each of them.
pub(super) fn best_fixed(label: &str, name: &str, data: &Dataset, rounds: u64) -> Series {
    let (arm, _) = data.best_fixed(0..rounds as usize);
    let mut sum = 0.0;
    let rewards = data.rounds().iter().take(rounds as usize).map(|r| r.observed.reward(arm).unwrap_or(0.0));
    let rate = |(t, reward)| {
        sum += reward;
        100.0 * sum / (t + 1) as f64
    };
    let rates: Vec<f64> = rewards.enumerate().map(rate).collect();
    let at = play::checkpoints(rounds).into_iter();
    let points: Vec<_> = at.filter_map(|t| Some((t as f64, *rates.get(t as usize - 1)?))).collect();
    Series::new(label, format!("{rounds} rounds; {name}; always arm {arm}"), move |_| {
        Ok(Run::curve(points.clone()))
    })
}

/// The hit rate of OFUL on purchases.
pub(super) fn oful_on(name: &str, data: &Arc<Dataset>, schedule: Schedule, rounds: u64) -> Result<Series> {
    let (config, log) = (shop_config(data, schedule), DatasetLog::new(data.clone()));
    let label = match schedule {
        Schedule::EveryRound => OFUL,
        Schedule::Determinant => RSOFUL,
        Schedule::Trace => TRACE,
        _ => "OFUL, HELBA's schedule",
    };
    let series =
        series(label, name, move || Oful::new(config), Oful::ridge, move |_| Ok(log.clone()), rounds);
    Ok(hit_rate(series?))
}

/// The hit rate of any policy on purchases.
pub(super) fn policy_on<P>(
    label: &str,
    name: &str,
    policy: P,
    log: &DatasetLog,
    rounds: u64,
    figures: fn(&P, Run) -> Run,
) -> Series
where
    P: Policy<Context = Features, Feedback = f64> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let (settings, log) = (format!("{rounds} rounds; {name}; {policy:?}"), log.clone());
    let (policy, log) = (move || Ok(policy.clone()), move |_| Ok(log.clone()));
    hit_rate(play::series(label, settings, rounds, policy, log, figures))
}

impl Shopping {
    fn fixed(&self) -> &'static str {
        if self.own.is_some() { "best fixed candidate" } else { "best fixed brand" }
    }
}

impl Experiment for Shopping {
    fn card(&self) -> Card {
        Card {
            name: "helba-purchases",
            about: "beyond the paper: share of real purchases predicted by OFUL, RSOFUL, RSOFUL-Tr and HELBA",
            source: "Garcelon, Perchet, Pirotta: Encrypted Linear Contextual Bandit; data: see data/README.md",
            stand_in: None,
            seeds: [20, 2],
            notes: "Real purchases in file order, in the clear. An arm is a brand, and its reward is 1 if the household bought it. Constant \
                    width 0.5, λ = 1, C = 1, η = 0.1. All policies but random play are deterministic. The paper has no real data. With \
                    --data FILE, the same on a file of the user: an arm is a candidate, and what is shown is the mean reward in per cent.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let mut panels = Vec::new();
        let shops =
            SHOPS.map(|(name, read, ends, _)| Ok((name.into(), Arc::new(read()?.into()), Some(ends))));
        let shops: Vec<(String, Arc<Dataset>, Option<[f64; 2]>)> = match &self.own {
            Some((name, data)) => vec![(name.clone(), data.clone(), None)],
            None => shops.into_iter().collect::<Result<_, Error>>()?,
        };
        for (name, data, ends) in shops {
            let (name, [oful, lazy]) =
                (name.as_str(), ends.map_or([None; 2], |ends| ends.map(|end| Some((end, 0.0)))));
            let uniform = ends.map(|_| (25.0, 0.0));
            let rounds = scale.of(data.rounds().len() as u64, 200);
            let curve = |schedule| oful_on(name, &data, schedule, rounds);
            let (config, log) = (shop_config(&data, Schedule::TraceOrGrowth), DatasetLog::new(data.clone()));
            let random = policy_on("random", name, UniformRandom, &log, rounds, |_, run| run);
            let policy = move || HelbaClear::new(config, Arithmetic::Exact);
            let helba = series(HELBA, name, policy, HelbaClear::ridge, move |_| Ok(log.clone()), rounds)?;
            let series = vec![
                curve(Schedule::EveryRound)?.referenced(scale, oful),
                curve(Schedule::Determinant)?,
                curve(Schedule::Trace)?,
                curve(Schedule::TraceOrGrowth)?.referenced(scale, lazy),
                hit_rate(helba),
                random.referenced(scale, uniform),
                best_fixed(self.fixed(), name, &data, rounds),
            ];
            panels.push(shop_panel(name, series));
        }
        Ok(panels)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let fixed = match &self.own {
            // In per cent, with one decimal as for the purchases.
            Some((_, data)) => vec![(1000.0 * data.best_fixed(0..data.rounds().len()).1).round() / 10.0],
            None => SHOPS.map(|(.., fixed)| fixed).to_vec(),
        };
        let mut claims: Vec<_> =
            results.panels.iter().zip(fixed).map(|(panel, fixed)| judge(results, panel, fixed)).collect();
        claims.push(results.agreement());
        claims
    }
}

fn judge(results: &Results, panel: &PanelResult, fixed: f64) -> Claim {
    let cell = |s: &SeriesResult| {
        let updates = s.figure(UPDATES).map_or(String::new(), |u| format!(" ({u:.0} updates)"));
        format!("{} {:.1} %{updates}", s.label, s.mean())
    };
    let title = &panel.title;
    let (helba, oful) = (panel.series(HELBA), panel.series(OFUL));
    results.own(
        format!("{title}: HELBA is within 2 points of OFUL and beats every fixed brand"),
        format!("best fixed brand {fixed} %"),
        listed(panel.series.iter().map(cell)),
        results.sum(&[(1.0, helba)]).above(fixed).and(results.sum(&[(1.0, oful), (-1.0, helba)]).below(2.0)),
    )
}
