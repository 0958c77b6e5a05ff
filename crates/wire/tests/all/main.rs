//! Messages and bundles, and bytes from outside.
//!
//! All files are one program: a program for each would link the whole crate again.

mod enrolment;
mod hostile;
mod messages;
