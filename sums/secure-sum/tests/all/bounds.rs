//! What strangers who send slowly, or nothing at all, take from others.

use secure_sum::http::{RequestLimits, accept, aggregator_within};
use secure_sum::{Aggregator, Error, Party};
use service::{Connections, Pace};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use wire::AccessToken;

fn party(address: SocketAddr) -> Party {
    Party::new(format!("http://{address}")).unwrap()
}

fn started(limits: RequestLimits, token: Option<&AccessToken>) -> (Runtime, SocketAddr) {
    let runtime = Runtime::new().unwrap();
    let address = runtime.block_on(async {
        let routes = aggregator_within(Aggregator::default(), token, limits);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, routes, limits, std::future::pending()));
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

/// A party that answers with a redirect does not lead a client, and its token, to another one.
#[test]
fn attack_redirects_are_not_followed() {
    let [first, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [address, elsewhere] = [&first, &other].map(|listener| listener.local_addr().unwrap());
    other.set_nonblocking(true).unwrap();
    let redirects = std::thread::spawn(move || {
        let (mut stream, _) = first.accept().unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
        let head = "HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\nconnection: close\r\n";
        write!(stream, "{head}location: http://{elsewhere}/v1/x\r\n\r\n").unwrap();
    });
    let token = AccessToken::from_bytes(&[7; 32]).unwrap();
    // The other party takes the connection and does not answer, so that a client which follows waits there.
    let asks = std::thread::spawn(move || party(address).with_token(Some(token)).get("x", 1 << 10).is_err());
    redirects.join().unwrap();
    let begun = Instant::now();
    while !asks.is_finished() && begun.elapsed() < Duration::from_secs(10) {
        assert!(other.accept().is_err(), "the client followed");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(asks.join().unwrap() && other.accept().is_err());
}

/// Sixty-four bodies of one byte are under way, as many as there are places for work. Requests of others are
/// answered all the while, since a place is taken when the body is there; and the slow ones are given up.
/// Sets of users' ids, the one kind of body that takes a place while it is read, show what that would do:
/// with as many under way as there are such places, others are turned away. Those are read from whoever shows
/// the token alone.
#[test]
fn attack_slow_bodies_hold_no_place() {
    let pace = Pace { grace: Duration::from_secs(4), ..Pace::default() };
    let limits = RequestLimits { working: 4, large: 4, pace, ..RequestLimits::default() };
    let (_runtime, address) = started(limits, None);
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
    let (_runtime, address) = started(limits, Some(&token));
    let sets: Vec<TcpStream> = (0..64).map(|_| slow(address, "batches/1/1/open", 1600)).collect();
    assert!(sets.into_iter().map(answer).all(|text| text == "HTTP/1.1 401"));
    let collector = party(address).with_token(Some(token));
    let said = collector.post("batches/1/1/open", &[0; 16], 8);
    assert!(matches!(said, Err(Error::Refused { problem, .. }) if problem.status == 409));
}

/// As many half-sent heads as there may be connections: the one that has waited longest makes room, so others
/// are served at once, and a head that does not end is given up. The control: connections whose requests are
/// under way make no room for another of the same address.
#[test]
fn attack_half_sent_heads_are_given_up() {
    let head = Duration::from_millis(500);
    for (begun, served) in [("x-", true), ("content-length: 1\r\n\r\n", false)] {
        let connections = Connections { most: 8, most_an_address: 8, head, ..Connections::default() };
        let (_runtime, address) = started(RequestLimits { connections, ..RequestLimits::default() }, None);
        let stranger = |_| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "POST /v1/reports HTTP/1.1\r\nhost: a\r\n{begun}").unwrap();
            stream
        };
        let mut strangers: Vec<TcpStream> = (0..8).map(stranger).collect();
        // Until the service has read what they sent.
        std::thread::sleep(Duration::from_millis(200));
        let mut honest = TcpStream::connect(address).unwrap();
        write!(honest, "POST /v1/reports HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").unwrap();
        assert_eq!(answer(honest), if served { "HTTP/1.1 400" } else { "HTTP/1.1 503" });
        if served {
            let ended = strangers.iter_mut().all(|stream| {
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                !matches!(stream.read(&mut [0; 1]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
            });
            assert!(ended, "no half-sent head is kept");
        }
    }
}

/// A page of another origin cannot make a visitor's browser send reports.
#[test]
fn attack_pages_of_other_origins_are_refused() {
    let (_runtime, address) = started(RequestLimits::default(), None);
    for (origin, want) in [("http://evil.example", "HTTP/1.1 403"), ("http://a", "HTTP/1.1 400")] {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "POST /v1/reports HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n";
        write!(stream, "{head}origin: {origin}\r\n\r\n").unwrap();
        assert_eq!(answer(stream), want);
    }
}
