//! Signals of the processes that tests start.

/// From now on the processes that this one starts begin with the default actions of SIGHUP, SIGINT and
/// SIGQUIT, whatever started the tests: `nohup` and the background jobs of a shell have some of them ignored,
/// which children would inherit. A signal that has a handler gets its default action in a child.
///
/// # Panics
/// If the system takes no handler.
#[cfg(unix)]
pub fn default_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    for signal in [SIGHUP, SIGINT, SIGQUIT].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 1) {
        // Nobody reads the flag: here the signal does nothing, as before.
        signal_hook::flag::register(signal, std::sync::Arc::default()).expect("a handler");
    }
}
