//! The lab: re-creates the figures and tables of the papers behind the policies, and says which claims hold.
//!
//! ```text
//! cargo run --release -p helba-lab -- list
//! cargo run --release -p helba-lab -- experiment NAME [--quick] [--seeds N] [--out DIR] [--json]
//! ```
//!
//! An experiment is one file in `experiments/` and one line in its `mod.rs`: it names its panels, each a list
//! of [`Series`](experiment::Series) (a function from seed to curve), and judges the
//! [`Results`](experiment::Results). All else is shared: seeds run in parallel, each finished one is kept, an
//! interrupted run goes on, and every experiment ends as CSV, one SVG a panel, and one HTML page that needs
//! no network.

pub mod chart;
pub mod experiment;
pub mod experiments;
pub mod play;
pub mod report;
pub mod runner;
