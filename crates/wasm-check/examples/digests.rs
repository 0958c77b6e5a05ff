//! Prints the digests of what a device computes, one a line. If `WASM_CHECK_DIGESTS` was set when this was
//! compiled, to the digests of another build, it prints nothing and compares: the exit code is 0 if all are
//! equal, and else the number of the first line that is not. `WASM_CHECK_KERNEL` then names the kernels that
//! must run. A module for wasm32-unknown-unknown has neither arguments nor output, but it has an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    let digests = wasm_check::digests();
    let Some(others) = option_env!("WASM_CHECK_DIGESTS") else {
        digests.iter().for_each(|(what, digest)| println!("{digest} {what}"));
        return ExitCode::SUCCESS;
    };
    assert_eq!(Some(&*rns::kernels().to_string()), option_env!("WASM_CHECK_KERNEL"), "the kernels that run");
    let mut others = others.split_whitespace();
    match digests.iter().position(|(_, digest)| others.next() != Some(digest.to_hex().as_str())) {
        Some(line) => ExitCode::from(line as u8 + 1),
        None => ExitCode::SUCCESS,
    }
}
