//! Signals: what is undone if one ends the process, and the wait for an order to stop.

use crate::lock;
use std::sync::Mutex;

type Undo = Box<dyn FnOnce() + Send>;

/// What a signal undoes, in the order in which it was done, with the ids of its [`Undone`].
static DONE: Mutex<Vec<(u64, Undo)>> = Mutex::new(Vec::new());

/// Something that [`undo_on_signals`] undoes if a signal ends the process while this exists: a file that is
/// not complete yet, a folder with a key, a child process.
#[derive(Debug)]
#[must_use = "what is dropped at once is not undone"]
pub struct Undone(u64);

impl Undone {
    /// Does `begin`, and registers how it is undone, which is the second part of its result. A signal comes
    /// before both or after both.
    ///
    /// Neither may make or drop an [`Undone`].
    ///
    /// # Errors
    /// Those of `begin`.
    pub fn after<T, U, E>(begin: impl FnOnce() -> Result<(T, U), E>) -> Result<(T, Self), E>
    where
        U: FnOnce() + Send + 'static,
    {
        let mut done = lock(&DONE);
        let (value, undo) = begin()?;
        let id = done.last().map_or(0, |(id, _)| id + 1);
        done.push((id, Box::new(undo)));
        Ok((value, Undone(id)))
    }

    /// Ends all of these at once, so that a signal undoes all or none of them.
    pub fn keep_all(all: impl IntoIterator<Item = Self>) {
        let mut done = lock(&DONE);
        for undone in all {
            forget(&mut done, undone.0);
            // Its destructor would wait for the lock.
            std::mem::forget(undone);
        }
    }
}

impl Drop for Undone {
    fn drop(&mut self) {
        forget(&mut lock(&DONE), self.0);
    }
}

fn forget(done: &mut Vec<(u64, Undo)>, id: u64) {
    done.retain(|(other, _)| *other != id);
}

/// Handles SIGINT, SIGTERM and SIGHUP from now on: what is registered ([`Undone`]) is undone, the last first,
/// and the process then ends as the signal ends it by default. If the process was started with SIGHUP
/// ignored, as under `nohup`, SIGHUP stays ignored. Does nothing where there are no signals.
///
/// # Errors
/// Those of the operating system.
pub fn undo_on_signals() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let hangup = (!hangup_is_ignored()).then_some(SIGHUP);
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup))?;
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // The lock is kept, so that nothing is begun that would not be undone.
                let mut done = lock(&DONE);
                while let Some((_, undo)) = done.pop() {
                    undo();
                }
                let _ = signal_hook::low_level::emulate_default_handler(signal);
                std::process::exit(128 + signal);
            }
        });
    }
    Ok(())
}

/// Keeps SIGHUP, SIGUSR1 and SIGUSR2 from ending the process from now on. Services call it before they do
/// anything else, and install their own handler of SIGHUP later, if they read files again on it. SIGINT,
/// SIGTERM and SIGQUIT stop them (`stop_signal`). Does nothing where there are no signals.
///
/// # Errors
/// Those of the operating system.
pub fn outlive_hangups() -> std::io::Result<()> {
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGHUP, signal_hook::consts::SIGUSR1, signal_hook::consts::SIGUSR2] {
        signal_hook::flag::register(signal, std::sync::Arc::default())?;
    }
    Ok(())
}

/// Whether the process was started with SIGHUP ignored; false where the system does not say.
#[cfg(unix)]
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Returns when the process receives SIGINT (Ctrl-C) or, on Unix, SIGTERM or SIGQUIT. Must be called within a
/// tokio runtime.
///
/// # Errors
/// That of the operating system if no handler can be installed.
#[cfg(feature = "tokio")]
pub async fn stop_signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut quit = signal(SignalKind::quit())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
            _ = quit.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// The signals SIGHUP that come from now on, where there are any: each asks a service to read its files
/// again.
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

#[cfg(feature = "tokio")]
impl Hangups {
    /// Those from now on. Must be called within a tokio runtime.
    #[allow(clippy::new_without_default, reason = "it installs a handler")]
    pub fn new() -> Self {
        Hangups {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        }
    }

    /// Returns at the next one: never, where there are no signals or no handler could be installed.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;
    use std::process::{Command, ExitStatus};
    use std::time::{Duration, Instant};

    const FOLDER: &str = "HOST_TEST_FOLDER";

    /// Something that removes the file `name` of `folder` when it is undone.
    fn begun(folder: &Path, name: &str) -> Undone {
        let path = folder.join(name);
        std::fs::write(&path, "").unwrap();
        Undone::after(|| Ok::<_, ()>(((), move || std::fs::remove_file(path).unwrap()))).unwrap().1
    }

    /// Runs the test `name` of this program in a process of its own, begins it with SIGHUP ignored or not,
    /// sends it `signals` when it has written the file `ready` of `folder`, and returns how it ended.
    fn signalled(name: &str, folder: &Path, ignored: bool, signals: &[&str]) -> ExitStatus {
        let exe = std::env::current_exe().unwrap();
        // A shell begins every process with the signals that it ignores itself, which tests may be run with.
        let before = if ignored { "trap '' HUP; " } else { "" };
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,QUIT,TERM", "sh", "-c"]);
        command.arg(format!("{before}exec \"$0\" \"$@\"")).arg(exe);
        command.args(["--exact", name, "--nocapture"]).env(FOLDER, folder);
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        while !folder.join("ready").exists() {
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(5));
        }
        for signal in signals {
            let id = child.id().to_string();
            assert!(Command::new("kill").args([*signal, id.as_str()]).status().unwrap().success());
            // Signals of different kinds have no order.
            std::thread::sleep(Duration::from_millis(200));
        }
        child.wait().unwrap()
    }

    fn wait_in(folder: &Path) {
        std::fs::write(folder.join("ready"), "").unwrap();
        std::thread::sleep(Duration::from_secs(30));
    }

    /// A signal undoes what is registered, and not what was kept or has ended; the process ends by the
    /// signal. SIGHUP ends no process that was begun with it ignored.
    #[test]
    fn a_signal_undoes_what_has_begun() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            let folder = Path::new(&folder);
            undo_on_signals().unwrap();
            let undone = ["undone", "undone too", "kept", "ended"].map(|name| begun(folder, name));
            let [_first, _second, kept, ended] = undone;
            drop(ended);
            Undone::keep_all([kept]);
            return wait_in(folder);
        }
        let name = "signals::tests::a_signal_undoes_what_has_begun";
        for (ignored, signals, ends) in [
            (false, &["-TERM"][..], 15),
            (false, &["-INT"], 2),
            (false, &["-HUP"], 1),
            (true, &["-HUP", "-TERM"], 15),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let status = signalled(name, folder.path(), ignored, signals);
            assert_eq!(status.signal(), Some(ends), "{signals:?}");
            let left = |name: &str| folder.path().join(name).exists();
            assert_eq!(["undone", "undone too", "kept", "ended"].map(left), [false, false, true, true]);
        }
    }

    /// A service outlives what asks it to read its files again.
    #[test]
    fn hangups_are_outlived() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            outlive_hangups().unwrap();
            return wait_in(Path::new(&folder));
        }
        let folder = tempfile::tempdir().unwrap();
        let signals = ["-HUP", "-USR1", "-USR2", "-TERM"];
        let status = signalled("signals::tests::hangups_are_outlived", folder.path(), false, &signals);
        assert_eq!(status.signal(), Some(15));
    }

    /// Signals that stop a service are heard, each once it comes, and a hangup is told apart from them.
    #[cfg(feature = "tokio")]
    #[test]
    fn stops_and_hangups_are_heard() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            let folder = Path::new(&folder);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut hangups = Hangups::new();
                let (mut stop, mut heard) = (std::pin::pin!(stop_signal()), 0);
                // Handlers of both are there when the file is.
                std::future::poll_fn(|context| {
                    assert!(stop.as_mut().poll(context).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
                std::fs::write(folder.join("ready"), "").unwrap();
                loop {
                    tokio::select! {
                        () = hangups.next() => heard += 1,
                        stopped = &mut stop => return stopped.unwrap(),
                    }
                    std::fs::write(folder.join("heard"), heard.to_string()).unwrap();
                }
            });
            return;
        }
        for (stop, hangups) in [("-TERM", 2), ("-INT", 1), ("-QUIT", 1)] {
            let folder = tempfile::tempdir().unwrap();
            let signals = [&["-HUP"].repeat(hangups)[..], &[stop]].concat();
            let name = "signals::tests::stops_and_hangups_are_heard";
            assert!(signalled(name, folder.path(), false, &signals).success(), "{stop}");
            assert_eq!(std::fs::read_to_string(folder.path().join("heard")).unwrap(), hangups.to_string());
        }
    }
}
