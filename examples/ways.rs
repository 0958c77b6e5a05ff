//! Times the ways to decide for a lone user of d = 8 features, through a server process over HTTP on this
//! machine: the polynomial comparison raised by the device itself, the same beside a raiser, and bootstraps.
//!
//! ```text
//! R=benches/record/DATE-ways.csv
//! RAYON_NUM_THREADS=1 cargo run --release --features pbs --example ways > $R
//! RAYON_NUM_THREADS=2 cargo run --release --features pbs --example ways | tail -n +2 >> $R
//! ```
//!
//! The environment variable sets the threads of server and device. `polynomial` is raised by the device,
//! `raise` by a raiser in the process of the device.

mod support;

use anyhow::Result;
use protocol::{BanditConfig, Compare, Updates, WidthShape};
use rand::RngExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{Deployment, median};
use user_client::BanditDevice;

const FEATURES: usize = 8;
/// Decisions of which the median is taken.
const DECISIONS: usize = 41;
/// Decisions before them.
const WARM: usize = 2;

fn main() -> Result<()> {
    support::serve_if_asked()?;
    let threads = std::env::var("RAYON_NUM_THREADS").unwrap_or_else(|_| "all".into());
    println!(
        "way,kernel,threads,features,arms,median_s,least_s,sent_bytes,received_bytes,bundle_bytes,server_peak_bytes"
    );
    for arms in [2, 4, 8, 16] {
        let deployment = Deployment::start_with(
            (FEATURES, arms),
            false,
            true,
            0,
            None,
            Compare::Pbs,
            (WidthShape::default(), Updates::Slots),
        )?;
        for (way, compare, raiser) in [
            ("polynomial", Compare::Polynomial, false),
            ("raise", Compare::Polynomial, true),
            ("pbs", Compare::Pbs, false),
        ] {
            let config = BanditConfig { compare, ..BanditConfig::new(FEATURES, arms) };
            let bandit = deployment.device().join(&deployment.client().create_encrypted(&config)?)?;
            let stop = AtomicBool::new(!raiser);
            let timed = std::thread::scope(|scope| -> Result<Timed> {
                let raising = scope.spawn(|| deployment.raise(&bandit, &stop, &AtomicU64::new(0)));
                if raiser {
                    // Until it waits at the server.
                    std::thread::sleep(Duration::from_millis(500));
                }
                let timed = timed(&deployment, &bandit);
                stop.store(true, Relaxed);
                raising.join().map_err(|_| anyhow::anyhow!("the raiser panicked"))?.and(timed)
            })?;
            let least = timed.seconds.iter().copied().fold(f64::INFINITY, f64::min);
            println!(
                "{way},{},{threads},{FEATURES},{arms},{:.4},{least:.4},{},{},{},{}",
                rns::kernels(),
                median(&timed.seconds),
                timed.sent,
                timed.received,
                deployment.public_bundle_bytes,
                deployment.server_peak_bytes()
            );
        }
    }
    Ok(())
}

/// Seconds of decisions, and bytes of the last one.
struct Timed {
    seconds: Vec<f64>,
    sent: usize,
    received: usize,
}

/// Decisions on random contexts, without feedback, one after another.
fn timed(deployment: &Deployment, bandit: &BanditDevice<'_>) -> Result<Timed> {
    let mut rng = user_client::os_rng()?;
    let mut out = Timed { seconds: Vec::new(), sent: 0, received: 0 };
    for decision in 0..WARM + DECISIONS {
        let row = |_| (0..FEATURES).map(|_| rng.random_range(-0.3..0.3)).collect();
        let rows: Vec<Vec<f64>> = (0..bandit.created().config.linear.k).map(row).collect();
        let began = Instant::now();
        let round = bandit.decide(deployment.client(), &rows, &mut rng)?;
        if decision >= WARM {
            out.seconds.push(began.elapsed().as_secs_f64());
        }
        (out.sent, out.received) = (round.sent, round.received);
    }
    Ok(out)
}
