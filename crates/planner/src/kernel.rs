//! The kernels that this process runs, the reason, and predicted times with other kernels.

use crate::plan::many;
use crate::price::is_measured;
use crate::{Report, Seconds};
use rns::Kernel;
use serde::{Serialize, Serializer};

/// Predictions for one version of the kernels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelSeconds {
    /// The version.
    #[serde(serialize_with = "word")]
    pub kernel: Kernel,
    /// Whether this CPU has the features that it needs.
    pub available: bool,
    /// Predictions on one and two threads.
    pub seconds: Vec<Seconds>,
}

/// The kernels that this process runs and the reason, as a sentence for logs.
///
/// These are the last of [`Kernel::ALL`] whose features the CPU has, unless `RNS_KERNEL` names others
/// ([`rns::kernels`]).
pub fn kernel_choice() -> String {
    let (runs, wanted) = (rns::kernels(), std::env::var("RNS_KERNEL").unwrap_or_default());
    if runs.to_string() == wanted {
        return format!("{runs} kernels run, as RNS_KERNEL says");
    }
    let lacking: Vec<String> = priced()
        .into_iter()
        .filter(|kernel| !kernel.is_available())
        .map(|kernel| kernel.to_string())
        .collect();
    match lacking.is_empty() {
        true => format!("{runs} kernels run, the fastest there are: the CPU has their features"),
        false => format!(
            "{runs} kernels run, the fastest that the CPU has the features for; it lacks those of {}",
            lacking.join(" and ")
        ),
    }
}

impl Report {
    /// The predicted time of a decision for a user alone with the kernels that run, and with the others that
    /// have prices for this kind of CPU, on one thread or on two, whichever is nearer to `threads`.
    pub fn kernel_outlook(&self, threads: usize) -> String {
        let threads = threads.clamp(1, 2);
        let decision =
            |all: &[Seconds]| all.iter().filter(|s| s.threads == threads).map(Seconds::decision).sum::<f64>();
        let (runs, price) = (self.kernel, price_of(self.kernel));
        let mut out = format!(
            "a decision takes about {:.2} s on {} with {runs} kernels",
            decision(&self.seconds),
            many(threads as u64, "thread")
        );
        if price != runs {
            // These kernels have no prices.
            out += &format!(" or less, by the prices of {price}");
        }
        for other in self.kernels.iter().filter(|other| other.kernel != runs).rev() {
            let (kernel, seconds) = (other.kernel, decision(&other.seconds));
            out += &match other.available {
                true => format!("; {kernel} would take {seconds:.2} s"),
                false => {
                    format!("; {kernel}, which this CPU lacks the features for, would take {seconds:.2} s")
                }
            };
        }
        out
    }
}

/// Kernels with prices that this kind of CPU could run, the fastest last.
pub(crate) fn priced() -> Vec<Kernel> {
    let of_this_kind = |kernel: Kernel| cfg!(target_arch = "x86_64") || kernel.is_available();
    Kernel::ALL.into_iter().filter(|&kernel| is_measured(kernel) && of_this_kind(kernel)).collect()
}

/// The kernels whose prices count for `kernel`: itself, or where it was not measured the fastest of the
/// slower ones.
pub(crate) fn price_of(kernel: Kernel) -> Kernel {
    let upto = Kernel::ALL.iter().position(|&k| k == kernel).unwrap_or(0);
    Kernel::ALL[..=upto].iter().rev().copied().find(|&k| is_measured(k)).unwrap_or(Kernel::Scalar)
}

/// Serialises a kernel as its word in `RNS_KERNEL`.
pub(crate) fn word<S: Serializer>(kernel: &Kernel, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(kernel)
}
