//! Experiments that re-create the figures and tables of the papers behind the policies, and judge the
//! papers' claims.
//!
//! ```text
//! cargo run --release -p helba-lab -- list
//! cargo run --release -p helba-lab -- experiment NAME [--quick] [--seeds N] [--out DIR] [--json]
//! ```
//!
//! An experiment is one file in `experiments/` and one line in its `mod.rs`. It returns its panels, each a
//! list of [`Series`](experiment::Series) (a function from seed to curve), and judges the
//! [`Results`](experiment::Results). The rest is shared: repetitions run in parallel, each finished one is
//! kept, an interrupted experiment continues, and every experiment ends with CSV, one SVG for each panel, and
//! one HTML page without external resources.

pub mod encrypted;
pub mod experiment;
pub mod experiments;
pub mod looks;
pub mod made;
pub mod play;
pub mod report;
pub mod runner;
pub mod verdict;
