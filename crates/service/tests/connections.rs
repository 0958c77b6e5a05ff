//! Connections from outside, without TLS: heads that are too long.

use axum::Router;
use axum::routing::get;
use service::{Connections, serve};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

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
}
