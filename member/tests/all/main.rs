//! Members in processes, a server and users.

mod committee;
mod processes;
