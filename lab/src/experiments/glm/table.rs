//! Table 2: probit bandits on one instance; and the same with a fresh instance for each seed.

use super::{
    EXPLORATIONS, GLM_UCB, GLOC, Kind, PROVED, RS, RS_AS_RUN, SOURCE, Setting, Shape, figure, learns, private,
};
use crate::experiment::{
    Card, Claim, Decision, Experiment, Interval, Panel, PanelResult, Results, Scale, SeriesResult, listed,
    numbers,
};
use anyhow::Result;
use glm::Link;
use glm::published::SEED;

/// Table 2.
pub(super) struct Table2;

const NORMS: [f64; 3] = [2.0, 2.5, 3.0];

fn title(s: f64) -> String {
    format!("S = {s}")
}

/// The last values of a series at each norm.
fn row(results: &Results, label: &str) -> [f64; 3] {
    NORMS.map(|s| results.last(&title(s), label))
}

/// Label, policy, the paper's row if it has one, and another implementation's row on the same instances.
struct TableRow(&'static str, Kind, Option<[f64; 3]>, [Option<(f64, f64)>; 3]);

#[rustfmt::skip]
static TABLE_2: [TableRow; 11] = [
    TableRow(GLM_UCB, Kind::GlmUcb, Some([1399.07, 1942.18, 2322.53]), [Some((1408.1, 4.6)), Some((1944.3, 4.5)), Some((2323.1, 2.9))]),
    TableRow(GLOC, Kind::GlocPublished, Some([384.33, 627.62, 1352.05]), [Some((381.5, 1.6)), Some((625.8, 2.5)), Some((1346.9, 7.0))]),
    TableRow("JointGLM as run, ε = 2", Kind::Published(2.0), None, [Some((1061.0, 19.4)), Some((1139.3, 20.5)), Some((1177.9, 20.9))]),
    TableRow("JointGLM as run, ε = 4", Kind::Published(4.0), Some([369.53, 382.25, 384.91]), [Some((670.0, 15.4)), Some((713.2, 16.1)), Some((731.4, 16.7))]),
    TableRow("JointGLM as run, ε = 6", Kind::Published(6.0), Some([289.67, 299.33, 296.41]), [Some((509.4, 8.2)), Some((538.5, 9.5)), Some((549.9, 10.2))]),
    TableRow("JointGLM as run, ε = 8", Kind::Published(8.0), Some([300.32, 295.49, 301.73]), [Some((430.6, 6.3)), Some((451.8, 6.9)), Some((458.9, 7.2))]),
    TableRow(RS_AS_RUN, Kind::RsAsRun, Some([295.27, 168.83, 194.53]), [Some((252., 42.)), Some((187., 13.)), Some((188., 4.5))]),
    TableRow(RS, Kind::Rs, None, [Some((178.5, 4.6)), Some((137.0, 3.4)), Some((175.3, 1.0))]),
    TableRow("GLOC, textbook", Kind::Gloc, None, [Some((276.0, 1.5)), Some((518.1, 1.2)), Some((1057.3, 1.9))]),
    TableRow(PROVED, Kind::Proved(8.0), None, [None; 3]),
    TableRow("random", Kind::Random, None, [Some((2144.5, 0.0)), Some((2318.0, 0.0)), Some((2408.5, 0.0))]),
];

impl Experiment for Table2 {
    fn card(&self) -> Card {
        Card {
            name: "glm-table2",
            about: "table 2: probit bandits, d = 3, K = 20, T = 5000, three values of S",
            source: SOURCE,
            stand_in: None,
            seeds: [80, 2],
            notes: "All repetitions play one instance, that of the published code, with new rewards and noise, so that the standard \
                    errors do not include the variation between problems. 'JointGLM as run' is the published profile, whose accounting \
                    is wrong and which never explores in this table. Its constants are those of the published code; κ and κ* are \
                    computed from the true parameter; no constant was fitted to the paper's table or to the reference. 'As run' includes \
                    the published code's deviations from the algorithms: GLOC is scaled to the norm of the true parameter; RS-GLinUCB \
                    has an aliased H (one switch per run), averaged estimates, scaled V-leaves, a regulariser of 1e-5, and an optimiser \
                    that gets the value of one loss and the gradient of another, so that a fifth of its fits are reported as failed and \
                    thrown away; its references are the published code itself, run with scipy. 'Proved' is this project's profile, which is private for any data. GLM-UCB refits every 5 \
                    rounds.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let rounds = scale.of(5_000, 200);
        let mut panels = Vec::new();
        for (i, s) in NORMS.into_iter().enumerate() {
            let setting = Setting::published(SEED, Shape::published(Link::Probit, 3, s), rounds)?;
            let curve = |TableRow(label, kind, _, references): &TableRow| {
                Ok(setting.series(label, *kind)?.referenced(scale, references[i]))
            };
            panels.push(Panel::regret_over("round", title(s), TABLE_2.iter().map(curve))?);
        }
        Ok(panels)
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        let at = NORMS.map(title).into_iter().zip([18.39, 56.44, 222.15]);
        vec![results.finals_over("last regret over κ", "κ", at)]
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let row = |label: &str| row(results, label);
        let at = |label: &str| NORMS.map(|s| results.series(&title(s), label));
        let mut claims = Vec::new();
        for TableRow(label, _, paper, references) in &TABLE_2 {
            let Some(paper) = paper else { continue };
            let near = at(label).into_iter().zip(paper);
            let near = near.map(|(ours, paper)| match of_both(results, ours).within(*paper, 0.1 * paper) {
                // More of our runs do not make the paper's ten more certain.
                Decision::Open(_) => Decision::Open(f64::NAN),
                decided => decided,
            });
            claims.push(results.claim(
                format!("{label}: {} (here: each within a tenth)", numbers(paper)),
                numbers(&references.map(|r| r.map_or(f64::NAN, |r| r.0))),
                listed(NORMS.into_iter().zip(at(label)).zip(paper).map(|((norm, ours), paper)| {
                    let both = of_both(results, ours);
                    let errors = (both.estimate - paper).abs() / both.error;
                    let shown = ours.map_or("none".into(), |s| s.shown(0));
                    format!("S = {norm}: {shown}, {errors:.1} errors off")
                })),
                Decision::all(near),
            ));
        }
        let rises = |label: &str| results.ends_above(at(label)[2], 1.5, at(label)[0]);
        let times = |label: &str| row(label)[2] / row(label)[0];
        claims.push(results.claim(
            "GLM-UCB and GLOC degrade significantly with κ (1.7 and 3.5 times from first to last; here: by half at least)",
            "1.65 and 3.53 times",
            format!("{:.2} and {:.2} times", times(GLM_UCB), times(GLOC)),
            rises(GLM_UCB).and(rises(GLOC)),
        ));
        let privates = [4, 6, 8].map(private);
        let rows = privates.each_ref().map(|label| row(label));
        let explored = results.panels.iter().take(3);
        let explored = explored.flat_map(|p| privates.iter().map(|label| figure(p, label, EXPLORATIONS)));
        let explored: f64 = explored.fold(0.0, f64::max);
        claims.push(results.claim(
            "The private policy remains stable in κ (1.04, 1.03 and 1.02 times; here: at most 1.1)",
            "1.09, 1.08 and 1.07 times, without a single exploration: κ enters nowhere",
            format!("{}; {explored:.0} explorations at most", listed(rows.iter().map(|v| numbers(v)))),
            Decision::all(privates.iter().map(|label| results.alike(&at(label), 1.1))),
        ));
        let (rs, as_run, best) = (row(RS), row(RS_AS_RUN), rows[2]);
        let times = |b: [f64; 3]| [0, 1, 2].map(|i| format!("{:.2}", best[i] / b[i])).join(", ");
        let tracks = at(&privates[2]).into_iter().zip(at(RS));
        claims.push(results.claim(
            "The private policy closely tracks RS-GLinUCB (at ε = 8: 1.02, 1.75, 1.55 times; here: at most 1.75)",
            "2.41, 3.30, 2.62 times",
            format!("{} times; as run {}", times(rs), times(as_run)),
            Decision::all(tracks.map(|(a, b)| results.ends_below(a, 1.75, b))),
        ));
        claims.push(learns(results, &NORMS.map(title)));
        let by_norm = |(i, s): (usize, f64)| format!("S = {s}: {}", numbers(&rows.map(|v| v[i])));
        let narrows = [0, 1, 2].map(|i| results.falling(&privates.each_ref().map(|label| at(label)[i])));
        claims.push(results.claim(
            "The gap to RS-GLinUCB narrows as ε grows",
            "670, 509, 431 at S = 2 and so on",
            listed(NORMS.into_iter().enumerate().map(by_norm)),
            Decision::all(narrows),
        ));
        claims.push(results.agreement());
        claims
    }
}

/// Our mean beside the paper's, which is of ten runs: its error is taken to be that of ten of these runs.
fn of_both(results: &Results, ours: Option<&SeriesResult>) -> Interval {
    let mean = results.sum(&[(1.0, ours)]);
    Interval::new(mean.estimate, mean.error * (1.0 + results.seeds as f64 / 10.0).sqrt())
}

/// Table 2 with a fresh instance for each seed.
pub(super) struct Kappa;

impl Experiment for Kappa {
    fn card(&self) -> Card {
        Card {
            name: "glm-kappa",
            about: "beyond the table: κ swept on a fresh instance a seed",
            source: SOURCE,
            stand_in: None,
            seeds: [40, 2],
            notes: "Probit, d = 3, K = 20, T = 5000 as in table 2, but parameter and arms are drawn anew in every repetition, and κ is \
                    that of the whole ball. The published design does not show the variation between instances.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let rounds = scale.of(5_000, 200);
        let mut panels = Vec::new();
        for s in NORMS {
            let setting = Setting::fresh(Shape::published(Link::Probit, 3, s), rounds);
            let rows = [
                (RS, Kind::Rs),
                (GLOC, Kind::GlocPublished),
                ("JointGLM as run, ε = 8", Kind::Published(8.0)),
                (PROVED, Kind::Proved(8.0)),
                ("random", Kind::Random),
            ];
            let curve = |(label, kind)| setting.series(label, kind);
            panels.push(Panel::regret_over("round", title(s), rows.into_iter().map(curve))?);
        }
        Ok(panels)
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        let at = NORMS.map(|s| (title(s), Link::Probit.kappa(s)));
        vec![results.finals_over("last regret over κ", "κ", at)]
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let cells = |label: &str| {
            let cell = |s| results.series(&title(s), label).map_or("NaN ± NaN".into(), |r| r.shown(0));
            format!("{label}: {}", NORMS.map(cell).join(", "))
        };
        let at = |label: &str| NORMS.map(|s| results.series(&title(s), label));
        let stable = results.claim(
            "The private policy remains stable in κ (here: at most 1.1 times from S = 2 to 3), GLOC does not (rises by half)",
            "no result on fresh instances",
            listed([RS, GLOC, "JointGLM as run, ε = 8", PROVED].map(cells)),
            results
                .alike(&at("JointGLM as run, ε = 8"), 1.1)
                .and(results.ends_above(at(GLOC)[2], 1.5, at(GLOC)[0])),
        );
        vec![stable, learns(results, &NORMS.map(title))]
    }
}
