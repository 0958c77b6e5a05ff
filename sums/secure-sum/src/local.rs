//! Parties on one machine, for measurements and tests: processes, and relays that record the bytes between
//! them.

use crate::Error;
use host::{Undone, lock};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A service in a process of its own, which is killed when this is dropped, or when a signal ends this
/// process ([`host::undo_on_signals`]).
#[derive(Debug)]
pub struct Process {
    child: Arc<Mutex<Child>>,
    address: SocketAddr,
    _undone: Undone,
}

impl Process {
    /// Starts `program` with `arguments`, and waits until it prints its address. Its warnings are not shown.
    ///
    /// # Errors
    /// [`Error::Io`] if the program cannot be started, or prints no address.
    pub fn start(program: &Path, arguments: &[&str]) -> Result<Self, Error> {
        let io = |error| Error::Io { what: "starting a process", error };
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, undone) = start(&mut command).map_err(io)?;
        let (out, errors) = {
            let mut child = lock(&child);
            (child.stdout.take(), child.stderr.take())
        };
        if let Some(errors) = errors {
            std::thread::spawn(move || {
                let lines = BufReader::new(errors).lines().map_while(Result::ok);
                lines.filter(|line| !line.starts_with("warning: ")).for_each(|line| host::tell!("{line}"));
            });
        }
        let mut line = String::new();
        if let Some(out) = out {
            BufReader::new(out).read_line(&mut line).map_err(io)?;
        }
        match line.trim().strip_prefix(LISTENING).and_then(|a| a.parse().ok()) {
            Some(address) => Ok(Self { child, address, _undone: undone }),
            None => {
                end(&child);
                Err(io(std::io::Error::other("it printed no address")))
            }
        }
    }

    /// The address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&self.child);
    }
}

/// Starts a process, which is killed when a signal ends this one.
fn start(command: &mut Command) -> std::io::Result<(Arc<Mutex<Child>>, Undone)> {
    Undone::after(|| {
        let child = Arc::new(Mutex::new(command.spawn()?));
        let of_signal = child.clone();
        Ok((child, move || end(&of_signal)))
    })
}

/// Runs a process until it ends. It is killed when a signal ends this one.
///
/// # Errors
/// Those of the operating system.
pub fn run(command: &mut Command) -> std::io::Result<ExitStatus> {
    let (child, _undone) = start(command)?;
    loop {
        // The lock is free between two looks, so that a signal can kill the process.
        if let Some(status) = lock(&child).try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ends a process, which may have ended by itself.
fn end(child: &Mutex<Child>) {
    let mut child = lock(child);
    let _ = (child.kill(), child.wait());
}

/// The text that a service prints before its address.
pub const LISTENING: &str = "listening on ";

/// The bytes of all connections in both directions.
#[derive(Debug, Clone, Default)]
pub struct Passed {
    /// The bytes of all requests.
    pub sent: Vec<u8>,
    /// The bytes of all answers.
    pub answered: Vec<u8>,
}

/// A relay between callers and a service. It listens on a loopback port until the process ends.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    passed: Arc<Mutex<Passed>>,
}

impl Relay {
    /// Starts a relay to `target`.
    ///
    /// # Errors
    /// [`Error::Io`] if no port is free.
    pub fn start(target: SocketAddr) -> Result<Self, Error> {
        let io = |error| Error::Io { what: "starting a relay", error };
        let listener = TcpListener::bind("127.0.0.1:0").map_err(io)?;
        let address = listener.local_addr().map_err(io)?;
        let passed = Arc::new(Mutex::new(Passed::default()));
        let record = passed.clone();
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let Ok(called) = TcpStream::connect(target) else { continue };
                let _ = (called.set_nodelay(true), caller.set_nodelay(true));
                let (Ok(back), Ok(caller_too)) = (called.try_clone(), caller.try_clone()) else { continue };
                let (up, down) = (record.clone(), record.clone());
                std::thread::spawn(move || copy(caller, called, |b| lock(&up).sent.extend_from_slice(b)));
                std::thread::spawn(move || {
                    copy(back, caller_too, |b| lock(&down).answered.extend_from_slice(b))
                });
            }
        });
        Ok(Self { address, passed })
    }

    /// The address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bytes so far.
    pub fn passed(&self) -> Passed {
        lock(&self.passed).clone()
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, record: impl Fn(&[u8])) {
    let mut buffer = [0; 1 << 14];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        record(&buffer[..n]);
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    // The other side may be gone already.
    let _ = to.shutdown(Shutdown::Write);
}
