//! HTTPS from outside: certificates that change, and peers that hold a handshake up.

use axum::Router;
use axum::routing::get;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use service::{Connections, Tls, TlsError, serve_tls};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

type Lines = Arc<Mutex<Vec<String>>>;

struct Server {
    address: SocketAddr,
    lines: Lines,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start(tls: impl FnOnce(Lines) -> Tls, connections: Connections) -> Self {
        let lines = Lines::default();
        let tls = tls(lines.clone());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let address = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let app = Router::new().route("/", get(async || "well"));
            tokio::spawn(serve_tls(listener, Some(tls), app, connections, std::future::pending()));
            address
        });
        Server { address, lines, _runtime: runtime }
    }

    /// With a certificate of its own in `folder`.
    fn own(folder: &Path, connections: Connections) -> Self {
        Self::start(|lines| own(folder, &[], lines).unwrap(), connections)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Whether the server answers over TLS whoever trusts `ca` and means the host `name`.
    fn answers(&self, ca: &Path, name: &str) -> io::Result<()> {
        let mut stream = StreamOwned::new(client(ca, name, &[]), self.connect());
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("well"), "{text}");
        Ok(())
    }
}

fn own(folder: &Path, names: &[&str], lines: Lines) -> Result<Tls, TlsError> {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    Tls::self_signed(folder, &names, move |line| lines.lock().unwrap().push(line.into()))
}

fn client(ca: &Path, name: &str, protocols: &[&str]) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_string()).unwrap()).unwrap()
}

/// The first message of a handshake.
fn hello(ca: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    client(ca, "localhost", &[]).write_tls(&mut bytes).unwrap();
    bytes
}

fn closed(stream: &mut TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(e) => e.kind() == io::ErrorKind::ConnectionReset,
    }
}

/// Peers that say nothing, or half of a first message, are closed for others, however many they are. Without
/// others they are closed when the time of a handshake is over; a longer time is the control.
#[test]
fn attack_silent_handshakes_take_no_place_from_others() {
    let folder = TempDir::new().unwrap();
    let ca = folder.path().join("ca.pem");
    let patient = Connections { most: 4, most_an_address: 4, ..Connections::default() };
    let server = Server::own(folder.path(), patient);
    let half = hello(&ca);
    let half = &half[..half.len() / 2];
    let silent: Vec<TcpStream> = (0..16)
        .map(|i| {
            let mut stream = server.connect();
            if i % 2 == 1 {
                // One that was closed already takes none.
                let _ = stream.write_all(half);
            }
            stream
        })
        .collect();
    for _ in 0..8 {
        let asked = Instant::now();
        server.answers(&ca, "localhost").unwrap();
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    }
    drop(silent);

    let short = Connections { handshake: Duration::from_millis(300), ..Connections::default() };
    let hasty = Server::own(folder.path(), short);
    for (server, closes) in [(&hasty, true), (&server, false)] {
        let (mut nothing, mut part) = (server.connect(), server.connect());
        part.write_all(half).unwrap();
        let within = if closes { Duration::from_secs(10) } else { Duration::from_millis(900) };
        assert_eq!([closed(&mut nothing, within), closed(&mut part, within)], [closes; 2]);
    }
    hasty.answers(&ca, "localhost").unwrap();
}

/// HTTP/1.1 is what the server agrees to, and plain HTTP reaches no route.
#[test]
fn http_1_alone_over_tls_alone() {
    let folder = TempDir::new().unwrap();
    let ca = folder.path().join("ca.pem");
    let server = Server::own(folder.path(), Connections::default());
    let agreed = |protocols: &[&str]| {
        let (mut connection, mut stream) = (client(&ca, "localhost", protocols), server.connect());
        connection.complete_io(&mut stream)?;
        io::Result::Ok(connection.alpn_protocol().map(<[u8]>::to_vec))
    };
    assert_eq!(agreed(&["h2", "http/1.1"]).unwrap(), Some(b"http/1.1".to_vec()));
    assert_eq!(agreed(&[]).unwrap(), None);
    assert!(agreed(&["h2"]).is_err());
    let mut plain = server.connect();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // A reset says as much.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|w| w == b"HTTP"), "{answer:?}");
}

/// A certificate of one's own names loopback and the hosts, and nothing else. It is used again at the next
/// start. Its key is readable by nobody else, and that of its authority is on no disk.
#[test]
fn own_certificates_name_their_hosts() {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("state").join("tls");
    let tls = own(&folder, &["bandits.example", "10.1.2.3"], Lines::default()).unwrap();
    let authority = tls.authority().unwrap().clone();
    assert_eq!((&authority.path, authority.sha256.len()), (&folder.join("ca.pem"), 64));
    let ca = folder.join("ca.pem");
    let server = Server::start(|_| tls, Connections::default());
    for name in ["localhost", "127.0.0.1", "::1", "bandits.example", "10.1.2.3"] {
        server.answers(&ca, name).unwrap();
    }
    for name in ["other.example", "10.1.2.4"] {
        assert!(server.answers(&ca, name).is_err(), "{name}");
    }
    let again = own(&folder, &["bandits.example"], Lines::default()).unwrap();
    assert_eq!(again.authority(), Some(&authority));
    let refused = own(&folder, &["other.example"], Lines::default()).unwrap_err().to_string();
    assert!(refused.contains("`other.example`") && refused.contains("delete this folder"), "{refused}");
    let bad = own(&root.path().join("bad"), &["no host"], Lines::default()).unwrap_err();
    assert!(matches!(&bad, TlsError::BadName { name } if name == "no host"), "{bad}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&folder), mode(&folder.join("key.pem"))], [0o700, 0o600]);
    }
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    let keys = files.iter().filter(|file| std::fs::read_to_string(file).unwrap().contains("PRIVATE KEY"));
    assert_eq!((files.len(), keys.count()), (3, 1));
    // A start that was cut short, before the certificate was there.
    std::fs::remove_file(folder.join("certificate.pem")).unwrap();
    let new = own(&folder, &["other.example"], Lines::default()).unwrap();
    assert_ne!(new.authority(), Some(&authority));
}

/// Files that are replaced are served without a restart, and files that cannot be used change nothing but the
/// log.
#[test]
fn certificates_are_read_again() {
    let folder = TempDir::new().unwrap();
    let [first, second, used] = ["first", "second", "used"].map(|name| folder.path().join(name));
    for folder in [&first, &second] {
        own(folder, &[], Lines::default()).unwrap();
    }
    std::fs::create_dir(&used).unwrap();
    let take = |from: &Path, name: &str| {
        std::fs::copy(from.join(name), used.join("new")).unwrap();
        std::fs::rename(used.join("new"), used.join(name)).unwrap();
    };
    let (certificate, key) = (used.join("certificate.pem"), used.join("key.pem"));
    take(&first, "certificate.pem");
    let log = |_: &str| ();
    assert!(matches!(Tls::open(&certificate, &key, log), Err(TlsError::Io { path, .. }) if path == key));
    take(&second, "key.pem");
    assert!(matches!(Tls::open(&certificate, &key, log), Err(TlsError::Unusable { .. })));
    assert!(matches!(Tls::open(&key, &key, log), Err(TlsError::NoPem { what: "certificate", .. })));
    assert!(matches!(Tls::open(&certificate, &certificate, log), Err(TlsError::NoPem { .. })));
    take(&first, "key.pem");
    #[cfg(unix)]
    for mode in [0o644, 0o640, 0o600] {
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        match Tls::open(&certificate, &key, log) {
            Ok(_) => assert_eq!(mode, 0o600),
            Err(refused) => assert!(mode != 0o600 && refused.to_string().contains("chmod 600"), "{refused}"),
        }
    }

    let open =
        |lines: Lines| Tls::open(&certificate, &key, move |line| lines.lock().unwrap().push(line.into()));
    let server = Server::start(|lines| open(lines).unwrap(), Connections::default());
    let until = |done: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", server.lines.lock().unwrap());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let said = |part: &str| server.lines.lock().unwrap().iter().any(|line| line.contains(part));
    let is = |folder: &Path| server.answers(&folder.join("ca.pem"), "localhost").is_ok();
    assert!(is(&first) && !is(&second));
    // Half of the new pair, as when somebody copies files one by one.
    take(&second, "certificate.pem");
    until(&|| said("stays as it was"));
    assert!(is(&first) && !is(&second));
    take(&second, "key.pem");
    until(&|| is(&second));
    assert!(!is(&first) && said("was read again"));
}

/// Writes a certificate that is valid between two days, and its key, under these names.
fn dated(folder: &Path, begins: (i32, u8, u8), ends: (i32, u8, u8)) -> [std::path::PathBuf; 2] {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.not_before = rcgen::date_time_ymd(begins.0, begins.1, begins.2);
    params.not_after = rcgen::date_time_ymd(ends.0, ends.1, ends.2);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let paths = ["dated.pem", "dated.key"].map(|name| folder.join(name));
    host::write_private(&paths[1], key.serialize_pem().as_bytes()).unwrap();
    host::write_private(&paths[0], certificate.pem().as_bytes()).unwrap();
    paths
}

/// A certificate out of date is said at the start, and does not take the place of one that devices take; one
/// that devices take does.
#[test]
fn a_certificate_out_of_date_is_said_and_replaces_none_that_is_valid() {
    let folder = TempDir::new().unwrap();
    let open = |[certificate, key]: &[std::path::PathBuf; 2], lines: Lines| {
        Tls::open(certificate, key, move |line| lines.lock().unwrap().push(line.into())).unwrap()
    };
    let good = ((2020, 1, 1), (2400, 1, 1));
    for (begins, ends, says) in [
        ((2020, 1, 1), (2021, 1, 1), "expired on 2021-01-01"),
        ((2399, 1, 1), (2400, 1, 1), "is not valid yet, but from 2399-01-01"),
    ] {
        let lines = Lines::default();
        let paths = dated(folder.path(), begins, ends);
        let tls = open(&paths, lines.clone());
        let at_start = lines.lock().unwrap().join(" ");
        assert!(at_start.contains(says) && at_start.contains("warning"), "{at_start}");
        assert_eq!(tls.ends().seconds(), rcgen::date_time_ymd(ends.0, ends.1, ends.2).unix_timestamp());

        let paths = dated(folder.path(), good.0, good.1);
        let server = Server::start(|lines| open(&paths, lines), Connections::default());
        assert!(server.lines.lock().unwrap().is_empty());
        let ca = folder.path().join("ca.pem");
        std::fs::copy(&paths[0], &ca).unwrap();
        server.answers(&ca, "localhost").unwrap();
        dated(folder.path(), begins, ends);
        let until = |part: &str| {
            let begun = Instant::now();
            while !server.lines.lock().unwrap().iter().any(|line| line.contains(part)) {
                assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", server.lines.lock().unwrap());
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        until(&format!("stays as it was: that in {} {says}", paths[0].display()));
        server.answers(&ca, "localhost").unwrap();
        dated(folder.path(), good.0, good.1);
        until("was read again");
        assert!(server.answers(&ca, "localhost").is_err(), "the new one has another key");
    }
}
