//! Figure 5: arms that are clusters of the pages of a search engine.

use super::clusters::Clusters;
use super::*;
use crate::experiment::{Card, Claim, Panel, Scale};
use bandit::Arms;
use std::path::Path;
use std::sync::OnceLock;

/// Figure 5.
pub(crate) struct Ranking {
    /// A title, and the arms of a file of the user.
    own: Option<(String, Arms<Clusters>)>,
}

/// Synthetic pages.
pub(super) const SYNTHETIC: Ranking = Ranking { own: None };

/// Figure 5 on a file in the format of LETOR, in clusters.
pub(crate) fn of_file(path: &Path) -> Result<Ranking> {
    let (arms, rows) = Clusters::of_file(path, ARMS, STEPS, SEED)?;
    let hash = arms.means().iter().fold(0u64, |hash, mean| hash.rotate_left(7) ^ mean.to_bits());
    let title = format!("{ARMS} clusters of {rows} rows of the file ({hash:016x})");
    Ok(Ranking { own: Some((title, arms)) })
}

const ARMS: usize = 50;
const STEPS: usize = 15;
const SEED: u64 = 20_230;

impl Experiment for Ranking {
    fn card(&self) -> Card {
        Card {
            name: "distributed-fig5",
            about: "figures 1d to 1f, 5: Dist-DP-SE, Dist-RDP-SE and DP-SE on 50 clusters of pages (synthetic)",
            source: SOURCE,
            stand_in: if self.own.is_some() { Some("a file of the user") } else { Some("synthetic pages") },
            seeds: [40, 2],
            notes: "SYNTHETIC DATA: the paper clusters MSLR-WEB10K, which may not be redistributed. Here 60000 synthetic rows have 136 \
                    features, 40 topics, and labels with the frequencies of that data set; they form 50 clusters, and an arm pays the \
                    relevance, over 4, of a random row of its cluster. Batches double, p = 0.1, T = 1e6. References are for another \
                    draw of such rows. With --data FILE, the rows of a file in the format of that data set, scaled to mean 0 and \
                    deviation 1.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let (users, rows, steps) = scale.of((1_000_000, 60_000, STEPS), (20_000, 1_000, 3));
        // Clustering takes seconds: the first run that needs it does it.
        let clusters = Arc::new(OnceLock::new());
        let (name, own) = match &self.own {
            Some((title, arms)) => (title.clone(), Some(arms.clone())),
            None => (format!("50 clusters of {rows} rows, {steps} steps, seed {SEED}"), None),
        };
        let ground = Ground {
            name: format!("{users} users; {name}"),
            arms: ARMS,
            users,
            make: Arc::new(move |_| {
                let drawn = || own.clone().unwrap_or_else(|| Clusters::arms(ARMS, rows, steps, SEED));
                Ok(clusters.get_or_init(drawn).clone())
            }),
        };
        let rows = [
            (DP_SE, Kind::DpSe),
            (PURE, sums(Model::Pure, 2)),
            (RENYI, sums(renyi(10), 2)),
            ("no privacy", sums(Model::None, 2)),
        ];
        let panel = |epsilon| {
            let curve = |(label, kind)| series(label, kind, epsilon, &ground);
            Panel::regret_over_log("user", title(epsilon), rows.into_iter().map(curve))
        };
        [EPSILONS[2], LARGE[0], LARGE[1]].into_iter().map(panel).collect()
    }

    fn derived(&self, results: &Results) -> Vec<PanelResult> {
        time_averages(results, &[EPSILONS[2], LARGE[0], LARGE[1]])
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let (against, gain) = (pairs(results, PURE, DP_SE), pairs(results, RENYI, PURE));
        vec![
            results.claim(
                "For large T, Dist-DP-SE matches DP-SE (here: at most a tenth above it)",
                "24260 against 18050, 17181 against 17468, 16716 against 17261",
                differences(&against),
                below(results, &against, 1.1),
            ),
            results.claim(
                "Renyi privacy with s = 10 gains over pure privacy, most at small ε",
                "20209 against 24260, 16410 against 17181, 16140 against 16716",
                differences(&gain),
                gains_most_at_small_epsilon(results, &gain),
            ),
        ]
    }
}
