//! Members in processes, a server and users.

mod processes;
mod shares;
