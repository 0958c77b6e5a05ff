//! Figure 5: arms that are clusters of the pages of a search engine.

use super::clusters::Clusters;
use super::*;
use crate::experiment::{Card, Claim, Panel, Scale};
use std::sync::OnceLock;

/// Figure 5.
pub(super) struct Ranking;

impl Experiment for Ranking {
    fn card(&self) -> Card {
        Card {
            name: "distributed-fig5",
            about: "figures 1d to 1f, 5: Dist-DP-SE, Dist-RDP-SE and DP-SE on 50 clusters of pages (synthetic)",
            source: SOURCE,
            stand_in: Some("synthetic pages"),
            seeds: [40, 2],
            notes: "SYNTHETIC DATA: the paper clusters MSLR-WEB10K, which may not be redistributed. Here 60000 synthetic rows have 136 \
                    features, 40 topics, and labels with the frequencies of that data set; they form 50 clusters, and an arm pays the \
                    relevance, over 4, of a random row of its cluster. Batches double, p = 0.1, T = 1e6. References are for another \
                    draw of such rows.",
        }
    }

    fn panels(&self, scale: Scale) -> Result<Vec<Panel>> {
        let (users, rows, steps) = scale.of((1_000_000, 60_000, 15), (20_000, 1_000, 3));
        // Clustering takes seconds: the first run that needs it does it.
        let clusters = Arc::new(OnceLock::new());
        let ground = Ground {
            name: format!("{users} users; 50 clusters of {rows} rows, {steps} steps, seed 20230"),
            arms: 50,
            users,
            make: Arc::new(move |_| {
                Ok(clusters.get_or_init(|| Clusters::arms(50, rows, steps, 20_230)).clone())
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
