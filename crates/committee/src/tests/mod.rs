//! Members of committees, each with its own keys, in one process.

mod attacks;
mod circuits;
mod counters;
mod hostile;
mod moves;
mod moving;
mod naming;
mod people;
mod play;
mod reader;
mod served;
mod world;
