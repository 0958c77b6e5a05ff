//! Members, a server and users without a secret, in one process.

mod keys;
mod replay;
mod rounds;
