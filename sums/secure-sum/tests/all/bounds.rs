//! What strangers who send slowly, or nothing at all, take from others.

use secure_sum::http::{Bounds, accept, aggregator_within};
use secure_sum::{Aggregator, Error, Party};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tokio::runtime::Runtime;
use wire::AccessToken;

fn party(address: SocketAddr) -> Party {
    Party::new(format!("http://{address}"))
}

fn service(bounds: Bounds, token: Option<&AccessToken>) -> (Runtime, SocketAddr) {
    let runtime = Runtime::new().unwrap();
    let address = runtime.block_on(async {
        let routes = aggregator_within(Aggregator::default(), token, bounds);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, routes, bounds, std::future::pending()));
        address
    });
    (runtime, address)
}

/// A head that promises `length` bytes, and the first of them.
fn slow(address: SocketAddr, path: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "POST /v1/{path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\nx").unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = [0; 12];
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.read_exact(&mut text).unwrap();
    String::from_utf8(text.into()).unwrap()
}

/// Sixty-four bodies of one byte are under way, as many as there are places for work. Requests of others are
/// answered all the while, since a place is taken when the body is there; and the slow ones are given up.
/// Sets of users' ids, the one kind of body that takes a place while it is read, show what that would do:
/// with as many under way as there are such places, others are turned away. Those are read from whoever shows
/// the token alone.
#[test]
fn attack_slow_bodies_hold_no_place() {
    let bounds = Bounds { working: 4, large: 4, body: Duration::from_secs(4), ..Bounds::default() };
    let (_runtime, address) = service(bounds, None);
    let strangers: Vec<TcpStream> = (0..64).map(|_| slow(address, "reports", 36)).collect();
    for _ in 0..8 {
        // Answered: there is no such batch.
        let said = party(address).post("batches/1/1/close", &[], 0);
        assert!(matches!(said, Err(Error::Refused { problem, .. }) if problem.status == 409));
    }
    let sets: Vec<TcpStream> = (0..64).map(|_| slow(address, "batches/1/1/open", 1600)).collect();
    let answers: Vec<String> = sets.into_iter().map(answer).collect();
    let turned_away = answers.iter().filter(|text| text.ends_with("503")).count();
    assert_eq!(turned_away, 60, "{answers:?}");
    assert!(strangers.into_iter().map(answer).all(|text| text == "HTTP/1.1 408"));

    let token = AccessToken::from_hex(&"0123".repeat(16)).unwrap();
    let (_runtime, address) = service(bounds, Some(&token));
    let sets: Vec<TcpStream> = (0..64).map(|_| slow(address, "batches/1/1/open", 1600)).collect();
    assert!(sets.into_iter().map(answer).all(|text| text == "HTTP/1.1 401"));
    let collector = party(address).with_token(Some(token));
    let said = collector.post("batches/1/1/open", &[0; 16], 8);
    assert!(matches!(said, Err(Error::Refused { problem, .. }) if problem.status == 409));
}

/// As many half-sent heads as there may be connections: with a limit on the time of a head others are served
/// when it is over; without one, never.
#[test]
fn attack_half_sent_heads_are_given_up() {
    for (head, served) in [(Duration::from_millis(500), true), (Duration::from_secs(3600), false)] {
        let (_runtime, address) = service(Bounds { connections: 8, head, ..Bounds::default() }, None);
        let half = |_| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "POST /v1/reports HTTP/1.1\r\nhost: a\r\nx-").unwrap();
            stream
        };
        let strangers: Vec<TcpStream> = (0..8).map(half).collect();
        let mut honest = TcpStream::connect(address).unwrap();
        write!(honest, "POST /v1/reports HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").unwrap();
        let patience = Duration::from_secs(if served { 30 } else { 2 });
        honest.set_read_timeout(Some(patience)).unwrap();
        let mut text = [0; 12];
        assert_eq!(honest.read_exact(&mut text).is_ok(), served);
        assert_eq!(&text == b"HTTP/1.1 400", served);
        drop(strangers);
    }
}
