//! The ways to decide without showing the model to users, by the time that a user waits.

use crate::Report;
use protocol::MOST_BOOTSTRAPPED_ARMS;
use serde::Serialize;

/// Seconds of a decision by bootstraps at d = 8, from the request of a device to its arm: bootstraps of a
/// decision, on one thread, on two. Medians of the record benches/record/2026-11-24-ways.csv, K = 2, 4, 8,
/// 16, on AVX-512.
const MEASURED: [(usize, [f64; 2]); 4] =
    [(3, [0.056, 0.040]), (14, [0.242, 0.118]), (44, [0.665, 0.355]), (152, [2.296, 1.240])];
/// Seconds of a raise on one thread and on two (`raise` in docs/costs.md).
const RAISE: [f64; 2] = [0.0174, 0.0109];
/// The bits of security of bootstrapping keys.
const SECURITY_BITS: u32 = 128;

/// A way to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// `compare: polynomial`; a user who waits raises the scores, by a second request.
    Polynomial,
    /// `compare: polynomial`; a raiser beside the server raises them.
    Raise,
    /// `compare: pbs`: one request, one user after the other.
    Pbs,
}

impl Way {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Way::Polynomial => "polynomial, raised by a user",
            Way::Raise => "polynomial, raised by a raiser beside the server",
            Way::Pbs => "pbs",
        }
    }
}

/// The time for which the last of the users waits who ask at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WayCost {
    /// The way.
    pub way: Way,
    /// Round trips, raise and arithmetic of the server. The time to send bytes is left out.
    pub seconds: f64,
}

/// The bootstraps of a decision between `arms` arms: one an arm for its root, one a pair, and for more than
/// two arms one an arm for its entry.
pub fn bootstraps(arms: usize) -> usize {
    arms + arms * (arms - 1) / 2 + if arms > 2 { arms } else { 0 }
}

/// Seconds of a decision by bootstraps on one or two threads: linear in their number between those measured.
fn bootstrapped(arms: usize, threads: usize) -> f64 {
    let (count, threads) = (bootstraps(arms) as f64, threads.clamp(1, 2) - 1);
    let above = MEASURED[1..MEASURED.len() - 1].iter().take_while(|(n, _)| (*n as f64) < count).count();
    let [(n0, s0), (n1, s1)] = [MEASURED[above], MEASURED[above + 1]];
    let share = (count - n0 as f64) / (n1 - n0) as f64;
    s0[threads] + share * (s1[threads] - s0[threads])
}

impl Report {
    /// The ways that these keys allow, the fastest first, for `users` who ask at once and a round trip of so
    /// many seconds between them and the server, whose arithmetic runs on one thread or on two.
    pub fn ways(&self, threads: usize, users: usize, round_trip: f64) -> Vec<WayCost> {
        let threads = threads.clamp(1, 2);
        let (n, most) = (users.max(1), self.users.max(1));
        let mut ways = Vec::new();
        if let Some(s) = self.seconds.iter().find(|s| s.threads == threads) {
            // An evaluation serves many users, and one follows the other.
            let evaluations = n.div_ceil(most) as f64;
            let evaluated =
                n as f64 * (s.user + s.answer) + evaluations * (s.evaluation + RAISE[threads - 1]);
            ways.push(WayCost { way: Way::Polynomial, seconds: 2.0 * round_trip + evaluated });
            ways.push(WayCost { way: Way::Raise, seconds: round_trip + evaluated });
            if (2..=MOST_BOOTSTRAPPED_ARMS).contains(&self.arms) && self.security_bits <= SECURITY_BITS {
                let one = bootstrapped(self.arms, threads);
                ways.push(WayCost { way: Way::Pbs, seconds: round_trip + n as f64 * one });
            }
        }
        ways.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        ways
    }

    /// The ways in a line, the fastest first.
    pub fn ways_text(&self, threads: usize, users: usize, round_trip: f64) -> String {
        let ways = self.ways(threads, users, round_trip);
        let way = |cost: &WayCost| format!("{} {:.2} s", cost.way.text(), cost.seconds);
        ways.iter().map(way).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckks::Security;
    use rns::Kernel;

    /// What was measured comes back, and more arms take longer.
    #[test]
    fn bootstraps_cost_what_was_measured() {
        for (arms, (count, seconds)) in [2, 4, 8, 16].into_iter().zip(MEASURED) {
            assert_eq!(bootstraps(arms), count);
            for threads in [1, 2] {
                assert!((bootstrapped(arms, threads) / seconds[threads - 1] - 1.0).abs() < 1e-12);
            }
        }
        let all: Vec<f64> = (2..=16).map(|arms| bootstrapped(arms, 2)).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    }

    /// Under a root, a lone user with two arms and a slow line is fastest with bootstraps, many users or many
    /// arms with the polynomial, which no other way is left for above 16 arms or 128 bits. Under a tangent
    /// the polynomial is.
    #[test]
    fn the_fastest_way_depends_on_arms_and_users() {
        use protocol::WidthShape::{Root, Tangent};
        let fastest = |width, arms, users| {
            let report = crate::plan::plan_with(width, 8, arms, 1000, Security::Classical128).unwrap();
            report.ways(2, users, 0.05)[0].way
        };
        assert_eq!(fastest(Root, 2, 1), Way::Pbs);
        assert_eq!(fastest(Root, 16, 1), Way::Raise);
        assert_eq!(fastest(Root, 2, 100), Way::Raise);
        assert!([2, 4, 16].iter().all(|&arms| fastest(Tangent, arms, 1) == Way::Raise));
        let ways = |arms, security| crate::plan(8, arms, 1000, security).unwrap().ways(1, 1, 0.0);
        assert_eq!(ways(16, Security::Classical128).len(), 3);
        for ways in [ways(17, Security::Classical128), ways(2, Security::Classical192)] {
            assert!(ways.len() == 2 && ways.iter().all(|cost| cost.way != Way::Pbs));
        }
    }

    /// Bootstraps are proposed for the arms for which they were the fastest of the ways in both records, with
    /// and without AVX-512, on a machine with the kernels of the record. The records have a root, whose
    /// evaluations take longer than those of the default width.
    #[test]
    fn the_proposal_is_what_was_fastest() {
        let records = [
            (Kernel::Avx512Ifma, include_str!("../../../benches/record/2026-11-24-ways.csv")),
            (Kernel::Avx2, include_str!("../../../benches/record/2026-11-25-ways.csv")),
        ];
        for (kernel, record) in records {
            for (arms, threads) in [2, 4, 8, 16].into_iter().flat_map(|k| [(k, 1), (k, 2)]) {
                let measured = |wanted: bool| {
                    let of = |line: &&str| line.starts_with("pbs,") == wanted;
                    let medians = record.lines().skip(1).filter(of).filter_map(|line| {
                        let fields: Vec<&str> = line.split(',').collect();
                        let here = fields[2] == threads.to_string() && fields[4] == arms.to_string();
                        here.then(|| fields[5].parse::<f64>().unwrap())
                    });
                    medians.fold(f64::INFINITY, f64::min)
                };
                let (root, security) = (protocol::WidthShape::Root, Security::Classical128);
                let mut report = crate::plan::plan_with(root, 8, arms, 1000, security).unwrap();
                let of_kernel = report.kernels.iter().find(|other| other.kernel == kernel);
                report.seconds.clone_from(&of_kernel.unwrap().seconds);
                let proposed = report.ways(threads, 1, 0.0)[0].way == Way::Pbs;
                assert_eq!(proposed, measured(true) < measured(false), "{arms} arms, {threads} threads");
            }
        }
    }
}
