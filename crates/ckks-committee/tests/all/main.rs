//! A committee whose members all run in the test, beside the whole secret that nobody has outside of it.

mod committee;
mod keys;
mod openings;
mod range;
mod timing;
mod transfers;
