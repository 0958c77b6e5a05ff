//! Policies and environments from outside: published values, statistics, privacy, stored state.
//!
//! All files are one program: a program for each would link the whole crate again.

mod bounds;
mod delayed_environment;
mod delayed_golden;
mod delayed_state;
mod delayed_statistics;
mod distributed_golden;
mod distributed_privacy;
mod distributed_statistics;
mod intermediaries;
mod paper_figure_1;
mod purchases;
mod state;
mod stochastic_golden;
mod stochastic_privacy;
mod stochastic_state;
mod stochastic_statistics;
