//! The colour, dash and marker of each policy, which it has on all pages. Variants of a policy share its
//! colour where a panel has few policies.

use plot::Style;

/// The style of the policy of this label. Labels that are not in the table, such as those of a file of the
/// user, have one that follows from their letters.
pub fn style(label: &str) -> Style {
    known(label).unwrap_or_else(|| Style::of(label.bytes().map(usize::from).sum()))
}

/// The style in the table.
fn known(label: &str) -> Option<Style> {
    let (_, [colour, dash, marker]) = TABLE.iter().find(|(name, _)| *name == label)?;
    Some(Style { colour: *colour, dash: *dash, marker: *marker })
}

/// Labels, with colour (0 blue, 1 vermilion, 2 green, 3 purple, 4 ochre, 5 sky, 6 grey, 7 black), dash and
/// marker.
const TABLE: &[(&str, [usize; 3])] = &[
    ("random", [6, 2, 4]),
    ("no privacy", [7, 0, 0]),
    ("no noise", [7, 0, 0]),
    ("best fixed brand", [6, 1, 1]),
    ("best fixed candidate", [6, 1, 1]),
    // Stochastic bandits, central privacy.
    ("Anytime-Lazy-UCB", [0, 0, 0]),
    ("DP-SE", [1, 1, 1]),
    ("Hybrid-UCB", [2, 2, 2]),
    ("UCB1", [7, 3, 3]),
    // Follow the leader, by scale of the noise.
    ("FTL, no privacy", [7, 0, 0]),
    ("naive, ε = 0.1 (b = K/ε)", [6, 3, 4]),
    ("b = 1", [0, 0, 0]),
    ("b = 2", [5, 1, 1]),
    ("b = 10", [2, 2, 2]),
    ("b = 20", [3, 3, 3]),
    ("b = 100", [4, 1, 5]),
    ("b = 200", [1, 2, 4]),
    // Elimination under distributed privacy.
    ("Dist-DP-SE", [0, 0, 2]),
    ("Dist-DP-SE, growth 2", [0, 1, 2]),
    ("Dist-RDP-SE, s = 10", [2, 0, 3]),
    ("Dist-RDP-SE, s = 10, growth 2", [2, 1, 3]),
    ("Dist-RDP-SE, s = 100", [5, 2, 5]),
    ("Dist-CDP-SE, s = 10", [3, 3, 1]),
    ("CDP-SE (central)", [1, 2, 0]),
    ("LDP-SE (local)", [4, 1, 4]),
    ("Shuffled sums of Theorem 3", [6, 2, 5]),
    ("pure, ε = 0.1", [0, 1, 2]),
    ("pure, ε = 1", [0, 0, 0]),
    ("s = 10, ε = 0.1", [2, 1, 3]),
    ("s = 10, ε = 1", [2, 0, 5]),
    ("s = 100, ε = 1", [5, 2, 1]),
    ("composition of (ε, δ)", [1, 1, 1]),
    ("composition of Rényi divergences", [2, 0, 3]),
    // Generalised linear bandits.
    ("GLM-UCB", [1, 1, 1]),
    ("GLOC", [4, 2, 2]),
    ("GLOC, as run", [4, 2, 2]),
    ("GLOC, textbook", [4, 0, 5]),
    ("ECOLog", [5, 3, 3]),
    ("RS-GLinUCB", [0, 0, 0]),
    ("RS-GLinUCB, as run", [0, 1, 5]),
    ("JointGLM as run, ε = 2", [3, 2, 1]),
    ("JointGLM as run, ε = 4", [3, 1, 2]),
    ("JointGLM as run, ε = 6", [3, 3, 4]),
    ("JointGLM as run, ε = 8", [3, 0, 3]),
    ("JointGLM, proved, ε = 1", [2, 2, 1]),
    ("JointGLM, proved, ε = 8", [2, 0, 3]),
    ("JointGLM, proved, ε = 64", [2, 1, 5]),
    ("0.002 of the noise", [5, 1, 1]),
    ("0.02 of the noise", [4, 2, 2]),
    ("noise as stated, ε = 4", [1, 3, 3]),
    ("calibrated bits, ε = 4", [2, 0, 5]),
    // By budget.
    ("ε = 0.1", [3, 2, 1]),
    ("ε = 0.5", [4, 3, 2]),
    ("ε = 1", [0, 0, 2]),
    ("ε = 2", [5, 1, 3]),
    ("ε = 4", [2, 2, 4]),
    ("ε = 8", [1, 3, 5]),
    ("ε = 16", [3, 0, 0]),
    ("ε = 32", [4, 1, 1]),
    ("ε = 64", [0, 2, 3]),
    // Linear bandits.
    ("OFUL", [1, 1, 1]),
    ("RSOFUL", [4, 2, 2]),
    ("RSOFUL-Tr", [5, 3, 3]),
    ("OFUL, HELBA's schedule", [3, 1, 4]),
    ("HELBA, exact", [2, 0, 5]),
    ("HELBA, the paper's polynomials", [3, 2, 0]),
    ("HELBA, rewards over R", [2, 0, 5]),
    ("HELBA on ciphertexts", [0, 0, 0]),
    ("table 1 of the paper", [6, 1, 1]),
    ("HELBA on ciphertexts, 128 bits", [0, 1, 0]),
    ("HELBA on ciphertexts, 192 bits", [3, 2, 1]),
    ("HELBA on ciphertexts, 256 bits", [7, 3, 2]),
    ("every_round", [7, 0, 0]),
    ("trace_or_growth, eta 0.1 (the paper's)", [1, 1, 1]),
    ("growth_or_every 8, eta 0.1", [5, 2, 2]),
    ("growth_or_every 16, eta 0.1 (the default)", [0, 0, 3]),
    ("growth_or_every 16, eta 0.5", [3, 3, 4]),
    ("every 16", [4, 1, 5]),
    ("growth_or_every 64, eta 0.1", [2, 2, 0]),
    ("growth_or_every 128, eta 0.1", [2, 1, 1]),
    ("growth_or_every 256, eta 0.1", [2, 3, 2]),
    ("every 64", [4, 2, 0]),
    ("every 128", [4, 3, 1]),
    ("every 256", [4, 0, 2]),
    // Confidence widths.
    ("tangent, ½ (the default)", [0, 0, 3]),
    ("constant ½", [5, 2, 2]),
    ("constant 1", [3, 3, 4]),
    ("constant 2", [4, 1, 5]),
    ("the paper's width", [2, 2, 0]),
    // Composite anonymous feedback.
    ("ODAAF", [1, 1, 1]),
    ("generalised ODAAF", [1, 1, 1]),
    ("α = 1, f = k²", [3, 2, 1]),
    ("α = 2, f = k²", [4, 1, 2]),
    ("α = 4, f = k²", [0, 0, 0]),
    ("α = 4.5, f = k²", [5, 1, 4]),
    ("α = 6, f = k²", [1, 2, 5]),
    ("α = 8, f = k²", [2, 3, 3]),
    ("α = 4, f = 1", [6, 2, 4]),
    ("α = 4, f = k", [4, 2, 5]),
    ("α = 4, f = k³", [3, 1, 3]),
    ("α = 4, f = 2^k", [7, 3, 2]),
    ("ARS-EXP3", [0, 0, 0]),
    ("ARS-CLW, T^(1/3)", [2, 0, 2]),
    ("ARS-CLW, T^(1/4)", [2, 2, 3]),
    ("CLW", [1, 1, 1]),
    ("CLW, all one slot later", [3, 2, 4]),
    ("CLW, d = 5", [4, 2, 2]),
    ("CLW, d = 9", [4, 1, 3]),
    ("CLW, d = 10", [1, 1, 1]),
    ("CLW, d = 11", [3, 1, 4]),
    ("CLW, d = 18", [4, 1, 3]),
    ("CLW, d = 20", [5, 2, 5]),
    ("CLW, d = 22", [3, 1, 4]),
    ("CLW, d = 40", [6, 3, 2]),
    ("CLW, look-ahead, d = 10", [7, 3, 0]),
    ("CLW, look-ahead, d = 20", [7, 3, 0]),
    // Forgetting.
    ("all feedback alike", [7, 0, 0]),
    ("discount 0.9995", [0, 0, 0]),
    ("discount 0.999", [5, 1, 1]),
    ("discount 0.998", [2, 2, 2]),
    ("discount 0.995", [3, 3, 3]),
    ("discount 0.99", [4, 1, 4]),
    ("window 2000", [1, 0, 5]),
    ("window 1000", [1, 2, 4]),
    ("window 500", [6, 3, 2]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;
    use std::collections::HashSet;

    /// Every policy has a look of its own in each panel, and the same one on every page.
    #[test]
    fn policies_keep_their_looks() {
        let names: HashSet<_> = TABLE.iter().map(|row| row.0).collect();
        assert_eq!(names.len(), TABLE.len());
        for experiment in crate::experiments::all() {
            for panel in experiment.panels(Scale::Quick).unwrap() {
                let mut seen = HashSet::new();
                for series in &panel.series {
                    let style = known(&series.label);
                    assert!(style.is_some(), "{} has no look", series.label);
                    assert!(seen.insert(style), "{}: {} looks like another", panel.title, series.label);
                }
            }
        }
    }
}
