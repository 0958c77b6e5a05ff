//! Members, a server and users without a secret, in one process.

mod committee;
mod inputs;
mod keygen;
mod keys;
mod plan;
mod processes;
mod replay;
mod reshare;
mod rotating;
mod rotating_requests;
mod rotation;
mod rounds;
mod shares;
