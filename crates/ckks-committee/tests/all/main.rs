//! A committee whose members all run in the test, beside the whole secret that nobody has outside of it.

mod committee;
mod keys;
mod noise;
mod openings;
mod range;
mod samplers;
mod timing;
mod transfers;
