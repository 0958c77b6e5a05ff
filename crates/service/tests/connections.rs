//! Connections from outside, without TLS: heads that are too long, and peers that take nothing.

use axum::Router;
use axum::routing::get;
use service::{Connections, serve};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct Server {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start(app: Router, connections: Connections) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let address = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(serve(listener, app, connections, std::future::pending()));
            address
        });
        Server { address, _runtime: runtime }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }
}

/// A head of more than 64 KiB is refused however it arrives, and one of less is answered.
#[test]
fn attack_heads_are_no_longer_than_the_bound() {
    let server = Server::start(Router::new().route("/", get(async || "well")), Connections::default());
    let status = |head: String| {
        let mut stream = server.connect();
        // The server may close before it has read everything.
        let _ = stream.write_all(head.as_bytes());
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).map(|()| String::from_utf8(answer.to_vec()).unwrap())
    };
    let one = |bytes: usize| format!("GET / HTTP/1.1\r\nHost: x\r\nLong: {}\r\n\r\n", "a".repeat(bytes));
    let many = |count: usize| {
        let fields: String = (0..count).map(|i| format!("F{i:03}: {}\r\n", "a".repeat(990))).collect();
        format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
    };
    let target = |bytes: usize| format!("GET /?{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(bytes));
    for fits in [one(65_000), many(60), target(60_000)] {
        assert_eq!(status(fits).unwrap(), "HTTP/1.1 200");
    }
    for long in [one(65_536), one(70_000), one(100_000), many(70), many(95), target(65_530)] {
        // A longer one may be cut off while it is being sent.
        let status = status(long);
        assert!(
            status.as_ref().map_or(true, |status| status == "HTTP/1.1 431" || status == "HTTP/1.1 414"),
            "{status:?}"
        );
    }
    // What follows it is no request: a part of the head could be taken for one.
    let mut stream = server.connect();
    let _ = stream.write_all(format!("{}GET / HTTP/1.1\r\nHost: x\r\n\r\n", one(65_536)).as_bytes());
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
    assert_eq!(String::from_utf8_lossy(&answers).matches("HTTP/1.1").count(), 1);
}

/// Whether the server closes the connection within ten seconds, while a byte is sent every 50 ms.
fn is_closed(mut stream: TcpStream, byte: &[u8]) -> bool {
    let begun = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    while begun.elapsed() < Duration::from_secs(10) {
        let sent = stream.write_all(byte);
        let timed_out = |error: &std::io::Error| {
            matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
        };
        match stream.read(&mut [0; 64]) {
            Ok(0) => return true,
            Err(error) if !timed_out(&error) => return true,
            _ if sent.is_err() => return true,
            _ => {}
        }
    }
    false
}

/// A head that does not end is given up, however steadily it arrives.
#[test]
fn attack_heads_that_never_end_are_given_up() {
    let connections = Connections { head: Duration::from_millis(500), ..Connections::default() };
    let server = Server::start(Router::new().route("/", get(async || "well")), connections);
    let mut stream = server.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX: ").unwrap();
    assert!(is_closed(stream, b"a"));
    assert!(is_closed(server.connect(), b""), "nor does a connection wait for its first request");
}

/// There are no more connections than the bound, where no address has more than its own bound: those that
/// wait are closed for new ones.
#[test]
fn attack_waiting_connections_are_bounded_in_all() {
    let connections = Connections { most: 3, most_an_address: 100, ..Connections::default() };
    let server = Server::start(Router::new().route("/", get(async || "well")), connections);
    let mut waiting: Vec<_> = (0..6).map(|_| server.connect()).collect();
    let begun = Instant::now();
    let mut closed = 0;
    while closed < 3 && begun.elapsed() < Duration::from_secs(10) {
        waiting.retain_mut(|stream| {
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            !matches!(stream.read(&mut [0]), Ok(0))
        });
        closed = 6 - waiting.len();
    }
    assert_eq!(closed, 3);
    let mut stream = server.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Connections that come while none is accepted wait for it. With a short queue, the system would drop their
/// first packets, which come again after a second.
#[cfg(target_os = "linux")]
#[test]
fn attack_many_at_once_delay_no_connection() {
    const MANY: usize = 1000;
    let bound = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let most = MANY.min(bound.trim().parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let serving = serve(listener, Router::new(), Connections::default(), std::future::pending());
    let mut serving = std::pin::pin!(serving);
    // It has begun, and does nothing while this thread connects.
    runtime.block_on(async {
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut serving).await.is_err());
    });
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(900));
    let waiting: Result<Vec<TcpStream>, _> = (0..most).map(connect).collect();
    assert_eq!(waiting.map(|waiting| waiting.len()).map_err(|error| error.kind()), Ok(most));
}

/// Tests with the largest answers take turns, since one measures the memory of this process.
static ALONE: Mutex<()> = Mutex::new(());

/// Resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// 448 connections ask for answers of 8 MB and read none: they hold the budget and no more, others are
/// answered meanwhile, also with large answers, and the connections end. Without the budget they would hold
/// 3.6 GB.
#[cfg(target_os = "linux")]
#[test]
fn attack_connections_that_take_nothing_hold_little_and_end() {
    const LARGE: usize = 8 << 20;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let app = Router::new().route("/", get(async || "well")).route("/large", get(async || vec![7u8; LARGE]));
    let server = Server::start(app, Connections::default());
    let ask = |path: &str| {
        let mut stream = server.connect();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        stream
    };
    let read = |path: &str| {
        let begun = Instant::now();
        let mut answer = Vec::new();
        ask(path).read_to_end(&mut answer).unwrap();
        (answer, begun.elapsed())
    };
    let before = resident();
    let silent: Vec<TcpStream> = (0..448).map(|_| ask("/large")).collect();
    // The last of them has its answer or its refusal: from then on all that hold memory take nothing.
    silent.iter().for_each(|stream| drop(stream.peek(&mut [0])));
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let held = resident().saturating_sub(before);
    assert!(held < 100_000_000, "{held} bytes");
    for _ in 0..20 {
        let (answer, took) = read("/");
        assert!(answer.ends_with(b"well") && took < Duration::from_secs(1), "{took:?}");
    }
    // Who takes nothing makes room.
    let (answer, took) = read("/large");
    assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > LARGE, "{}", answer.len());
    assert!(took < Duration::from_secs(5), "{took:?}");
    // All that were answered at all are cut off: whoever reads now gets less than the answer.
    let ended = Duration::from_secs(25).saturating_sub(begun.elapsed());
    std::thread::sleep(ended);
    for mut stream in silent {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < LARGE);
    }
}

/// Others read slowly on connections that hold the whole budget: six of one address, or one of each of four
/// addresses. Another address gets its answer all the same, as long as theirs in the first case, and shorter
/// in the second.
#[cfg(target_os = "linux")]
#[test]
fn attack_others_keep_no_memory_of_answers_from_an_address() {
    const LARGE: usize = 8 << 20;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let shorter = get(async || vec![7u8; LARGE / 2]);
    let app = Router::new().route("/large", get(async || vec![7u8; LARGE])).route("/shorter", shorter);
    let ask =
        |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").into_bytes();
    for (addresses, path, least) in [(vec![2; 6], "/large", LARGE), (vec![2, 3, 4, 5], "/shorter", LARGE / 2)]
    {
        let server = Server::start(app.clone(), Connections::default());
        let address = server.address;
        let others = tokio::runtime::Runtime::new().unwrap();
        let begun = Arc::new(tokio::sync::Semaphore::new(0));
        for other in &addresses {
            let (begun, from, ask) =
                (begun.clone(), SocketAddr::from(([127, 0, 0, *other], 0)), ask("/large"));
            others.spawn(async move {
                let socket = tokio::net::TcpSocket::new_v4().unwrap();
                socket.bind(from).unwrap();
                let mut stream = socket.connect(address).await.unwrap();
                stream.write_all(&ask).await.unwrap();
                let mut part = vec![0; 64 << 10];
                stream.read_exact(&mut part[..1]).await.unwrap();
                begun.add_permits(1);
                // Some 1.3 MB/s: room for a write is there more often than once a second.
                while stream.read(&mut part).await.is_ok_and(|bytes| bytes > 0) {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
        let count = addresses.len() as u32;
        let all = async { tokio::time::timeout(Duration::from_secs(20), begun.acquire_many(count)).await };
        drop(others.block_on(all).unwrap().unwrap());
        for _ in 0..3 {
            let mut stream = server.connect();
            stream.write_all(&ask(path)).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > least, "{path} {}", answer.len());
        }
    }
}

/// An answer that finds no memory is a problem document, like other refusals at a limit: programs tell by it
/// that they may ask again. It keeps headers that are not about the body. The request is answered when the
/// memory is free again.
#[test]
fn answers_without_memory_are_overloaded() {
    const LARGE: usize = 32 << 20;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let headers = [("etag", "\"of-the-body\""), ("access-control-allow-origin", "https://shop.example")];
    let app = Router::new().route("/large", get(async move || (headers, vec![7u8; LARGE])));
    let server = Server::start(app, Connections { answers: LARGE, ..Connections::default() });
    let ask = || {
        let mut stream = server.connect();
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        stream
    };
    let mut slow = ask();
    slow.read_exact(&mut [0]).unwrap();
    let reads = std::thread::spawn(move || {
        let (mut part, mut left) = (vec![0; 64 << 10], 30);
        while slow.read(&mut part).unwrap() > 0 && left > 0 {
            // Room for a write is there more often than once a second.
            std::thread::sleep(Duration::from_millis(50));
            left -= 1;
        }
    });
    let mut answer = String::new();
    ask().read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert_eq!(field("content-type"), Some("application/problem+json"));
    assert_eq!((field("retry-after"), field("etag")), (Some("1"), None));
    assert_eq!(field("access-control-allow-origin"), Some("https://shop.example"));
    assert!(body.contains(r#""status":503"#) && body.contains(r#""reason":"overloaded""#), "{body}");
    reads.join().unwrap();
    let mut answer = Vec::new();
    ask().read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > LARGE, "{}", answer.len());
}

/// Who reads slowly, but at the pace, gets the whole answer.
#[test]
fn slow_readers_get_their_answers() {
    const LARGE: usize = 6 << 20;
    let app = Router::new().route("/large", get(async || vec![7u8; LARGE]));
    let server = Server::start(app, Connections::default());
    let mut stream = server.connect();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let (mut read, mut part) = (0, vec![0; 64 << 10]);
    loop {
        match stream.read(&mut part).unwrap() {
            0 => break,
            bytes => read += bytes,
        }
        // Some 250 KiB/s.
        std::thread::sleep(Duration::from_millis(250));
    }
    assert!(read > LARGE, "{read}");
}
