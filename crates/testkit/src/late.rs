//! A line to a server on which every byte comes later than it is sent.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Carries connections to `server` until the process ends, each byte `late` after it comes, in both
/// directions, and returns the address to connect to. A connection itself is there at once, and the line has
/// no limit of speed.
///
/// # Errors
/// Without a port.
pub fn late_line(server: SocketAddr, late: Duration) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        // A connection that cannot be carried is closed.
        for near in listener.incoming().flatten() {
            let _ = TcpStream::connect(server).and_then(|far| carry_both(near, far, late));
        }
    });
    Ok(address)
}

fn carry_both(near: TcpStream, far: TcpStream, late: Duration) -> std::io::Result<()> {
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let back = (far.try_clone()?, near.try_clone()?);
    carry((near, far), late);
    carry(back, late);
    Ok(())
}

/// One direction, in two threads: one reads, so that nothing waits for what is under way.
fn carry((mut from, mut to): (TcpStream, TcpStream), late: Duration) {
    let (sender, under_way) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + late, buffer[..read].to_vec())).is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        for (due, bytes) in under_way {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // The end of what was read is carried too. The other direction goes on.
        let _ = to.shutdown(Shutdown::Write);
    });
}
