//! Figures 1 to 12 of Hu, Huang, Mehta: private bandits on Bernoulli arms, by setting.
//!
//! The paper prints no numbers, and does not state the distribution of rewards: here it is Bernoulli.

use crate::experiment::{
    Card, Claim, Decision, Experiment, Panel, PanelResult, Results, Scale, Series, listed, numbers,
};
use crate::play;
use anyhow::Result;
use bandit::stochastic::{
    AnytimeLazyUcb, BernoulliArms, DpSe, HybridUcb, SETTING_1, SETTING_2, SETTING_3, Tree, Ucb1,
};
use bandit::{Error, Policy};
use privacy::budget::Epsilon;
use privacy::laplace::HarnessLaplace;

/// One experiment a setting.
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &Setting {
        name: "stochastic-setting1",
        about: "figures 1 to 5 and 9: private bandits, one good arm and four slightly worse",
        means: SETTING_1,
        flat: "Figure 5: with different ε the final regret of DP-SE tends to stay flat",
        table: [
            [(13326., 219.), (11323.2, 0.), (138030., 242.)],
            [(12889., 149.), (11224.2, 0.), (90355., 228.)],
            [(10486., 447.), (11224.2, 0.), (56718., 182.)],
            [(8847., 385.), (11224.2, 0.), (32843., 126.)],
            [(7646., 306.), (11224.2, 0.), (8672., 53.)],
            [(7646., 261.), (11075., 149.), (5095., 65.)],
            [(8083., 298.), (11075., 149.), (4844., 72.)],
        ],
    },
    &Setting {
        name: "stochastic-setting2",
        about: "figures 6 to 8, 10 and 11: private bandits, evenly spaced arms",
        means: SETTING_2,
        flat: "Figure 10: all behave very similarly to setting 1, where the final regret of DP-SE stays flat",
        table: [
            [(8771., 299.), (5064., 171.), (226611., 372.)],
            [(5375., 97.), (4274.8, 0.), (93847., 277.)],
            [(3532., 110.), (4192., 83.), (47445., 112.)],
            [(3190., 113.), (4026., 133.), (24115., 44.)],
            [(2145., 21.), (3778., 163.), (4021., 34.)],
            [(2128., 36.), (3695., 166.), (1445., 19.)],
            [(2111., 44.), (3695., 166.), (1281., 22.)],
        ],
    },
    &Setting {
        name: "stochastic-setting3",
        about: "figure 12: private bandits, one good arm and four much worse",
        means: SETTING_3,
        flat: "(Figure 12, of which the text says nothing; as in setting 1:) the final regret of DP-SE stays flat",
        table: [
            [(9828., 0.), (7010.4, 0.), (227164., 499.)],
            [(4912.8, 0.), (5822.4, 0.), (90104., 173.)],
            [(2455.2, 0.), (5822.4, 0.), (43831., 102.)],
            [(1718., 84.), (5822.4, 0.), (21576., 81.)],
            [(1134., 29.), (5822.4, 0.), (2964., 9.)],
            [(899., 54.), (5822.4, 0.), (758., 6.)],
            [(837., 45.), (5822.4, 0.), (588.5, 7.)],
        ],
    },
];

const EPSILONS: [f64; 7] = [0.1, 0.25, 0.5, 1.0, 8.0, 64.0, 128.0];
const LAZY: &str = "Anytime-Lazy-UCB";
const ELIMINATION: &str = "DP-SE";
const HYBRID: &str = "Hybrid-UCB";
const UCB1: &str = "UCB1";
/// The values of ε at which Hybrid-UCB is compared with UCB1, which has no privacy.
const LARGE: [f64; 3] = [8.0, 64.0, 128.0];

/// Three policies at seven budgets.
struct Setting {
    name: &'static str,
    about: &'static str,
    means: [f64; 5],
    /// The claim about DP-SE.
    flat: &'static str,
    /// Regret of Anytime-Lazy-UCB, DP-SE and Hybrid-UCB at T = 2^22, by epsilon: mean and standard error.
    table: [[(f64, f64); 3]; 7],
}

fn title(epsilon: f64) -> String {
    format!("ε = {epsilon}")
}

impl Setting {
    fn series<P>(
        &self,
        label: &str,
        policy: impl Fn() -> Result<P, Error> + Send + Sync + 'static,
        scale: Scale,
        reference: impl Into<Option<(f64, f64)>>,
    ) -> Result<Series>
    where
        P: Policy<Context = (), Feedback = f64>,
    {
        let (slots, arms) = (slots(scale), BernoulliArms::new(&self.means)?);
        let fresh = serde_json::to_string(&policy()?)?;
        let settings = format!("{slots} rounds; {label}: {fresh}; means {:?}", self.means);
        let policy = move || Ok(policy()?);
        let series = play::series(label, settings, slots, policy, move |_| Ok(arms.clone()), |_, run| run);
        Ok(series.referenced(scale, reference))
    }
}

fn slots(scale: Scale) -> u64 {
    scale.of(1 << 22, 1 << 12)
}

impl Experiment for Setting {
    fn card(&self) -> Card {
        Card {
            name: self.name,
            about: self.about,
            source: "Hu, Huang, Mehta: Near-Optimal Algorithms for Private Online Learning in a Stochastic Environment",
            stand_in: None,
            seeds: [60, 2],
            notes: "Rewards are Bernoulli variates, since the paper does not state their distribution; T = 2^22, DP-SE with beta = \
                    1/T. Noise is drawn in floating point from a reproducible generator, which is for simulation only. Hybrid-UCB has its \
                    corrected form; the paper's form exceeds its budget, and its regret differs by less than two standard errors.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let beta = 1.0 / slots(scale) as f64;
        let mut panels = Vec::new();
        for (epsilon, [lazy, elimination, hybrid]) in EPSILONS.into_iter().zip(self.table) {
            let budget = Epsilon::new(epsilon)?;
            let anytime = move || AnytimeLazyUcb::new(5, budget, HarnessLaplace);
            let dp_se = move || DpSe::new(5, budget, beta, HarnessLaplace);
            let trees = move || HybridUcb::new(5, budget, Tree::Corrected, HarnessLaplace);
            let clear = LARGE.contains(&epsilon);
            let clear = clear.then(|| self.series(UCB1, || Ucb1::new(5), scale, None));
            let series = [
                self.series(LAZY, anytime, scale, lazy),
                self.series(ELIMINATION, dp_se, scale, elimination),
                self.series(HYBRID, trees, scale, hybrid),
            ];
            panels.push(Panel::regret_over("round", title(epsilon), series.into_iter().chain(clear))?);
        }
        Ok(panels)
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        vec![results.finals_over("last regret over ε", "ε", EPSILONS.map(|e| (title(e), e)))]
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let last = |label: &str, epsilon: f64| results.last(&title(epsilon), label);
        let row = |epsilons: &[f64], value: &dyn Fn(usize, f64) -> f64| {
            let cell = |e: f64| {
                let [a, b, c] = [0, 1, 2].map(|column| value(column, e));
                format!("ε = {e}: {LAZY} {a:.0}, {ELIMINATION} {b:.0}, {HYBRID} {c:.0}")
            };
            listed(epsilons.iter().map(|e| cell(*e)))
        };
        let ours = |column: usize, e: f64| last([LAZY, ELIMINATION, HYBRID][column], e);
        let table = |column: usize, e: f64| {
            EPSILONS.iter().position(|v| *v == e).map_or(f64::NAN, |i| self.table[i][column].0)
        };
        let claim = |text: &str, epsilons: &[f64], decision| {
            results.claim(text, row(epsilons, &table), row(epsilons, &ours), decision)
        };
        let at = |label: &str, e: f64| results.series(&title(e), label);
        let competitive = |e: f64| {
            let lazy = at(LAZY, e);
            results.ends_below(lazy, 1.25, at(ELIMINATION, e)).and(results.ends_above(
                at(HYBRID, e),
                2.0,
                lazy,
            ))
        };
        let hybrid = at(HYBRID, 64.0);
        let falls = Decision::all([LAZY, HYBRID].map(|label| {
            let series = EPSILONS.map(|e| at(label, e));
            let steps = series.windows(2).map(|w| results.ends_below(w[1], 1.25, w[0]));
            Decision::all(steps).and(results.ends_below(series[6], 1.0, series[0]))
        }));
        let dp_se = EPSILONS.map(|e| last(ELIMINATION, e));
        let basically = LARGE.map(|e| results.alike(&[at(HYBRID, e), at(UCB1, e)], 1.25));
        vec![
            claim(
                "ε = .5 and 1: Anytime-Lazy-UCB is competitive with DP-SE (within a quarter), Hybrid-UCB is poor (twice its regret)",
                &[0.5, 1.0],
                competitive(0.5).and(competitive(1.0)),
            ),
            claim(
                "ε = 8 and 64: Hybrid-UCB performs well (at 64 better than DP-SE), better the larger ε",
                &[8.0, 64.0],
                results.ends_below(hybrid, 1.0, at(HYBRID, 8.0)).and(results.ends_below(
                    hybrid,
                    1.0,
                    at(ELIMINATION, 64.0),
                )),
            ),
            results.claim(
                "With a large ε, Hybrid-UCB is basically UCB1 (here: at ε = 8, 64, 128 within a quarter)",
                "no result",
                format!(
                    "UCB1 {:.0}, Hybrid-UCB {}",
                    last(UCB1, 128.0),
                    numbers(&LARGE.map(|e| last(HYBRID, e)))
                ),
                Decision::all(basically),
            ),
            claim(
                "The final regret of both UCBs decreases as ε increases (from first to last; from one ε to the next it rises by a \
                 quarter at most)",
                &EPSILONS,
                falls,
            ),
            results.claim(
                format!("{} (here: largest over smallest at most 1.1)", self.flat),
                format!("DP-SE {}", numbers(&self.table.map(|row| row[1].0))),
                format!("DP-SE {}", numbers(&dp_se)),
                results.alike(&EPSILONS.map(|e| at(ELIMINATION, e)), 1.1),
            ),
            results.agreement(),
        ]
    }
}
