//! HTTPS: a certificate from files, which are read again when they change, or one that the service makes for
//! itself. TLS 1.3 with HTTP/1.1.

use crate::validity::{Validity, now};
use clap::Args;
use host::{FileStamp, Hangups, lock};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The names of every certificate that a service makes for itself.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// The most bytes that are read of a file of certificates or of a key.
const MOST_BYTES: u64 = 1 << 20;
/// The pause between two looks at the files.
const LOOK: Duration = Duration::from_secs(2);
/// The pause between two warnings of a certificate that ends.
const WARN: Duration = Duration::from_secs(24 * 3600);

/// Options of a program that serves HTTP or HTTPS.
#[derive(Debug, Clone, Default, Args)]
pub struct TlsArguments {
    /// PEM file of the certificate for HTTPS, and of those of its authorities between it and the root. It is
    /// read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "tls_self_signed")]
    tls_certificate: Option<PathBuf>,
    /// PEM file of the private key of the certificate.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Accepts an address that other machines reach without HTTPS: requests, answers and tokens then travel
    /// in the clear, unless a proxy with TLS stands in front.
    #[arg(long, conflicts_with_all = ["tls_certificate", "tls_self_signed"])]
    plain_http: bool,
}

impl TlsArguments {
    /// Checks that a service on `address` may be started with these options. `self_signed`: whether it makes
    /// a certificate for itself.
    ///
    /// # Errors
    /// [`TlsError::PlainHttp`].
    pub fn check(&self, address: SocketAddr, self_signed: bool) -> Result<(), TlsError> {
        let https = self_signed || self.tls_certificate.is_some();
        if https || self.plain_http || address.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        Err(TlsError::PlainHttp { address })
    }

    /// The certificate of the files that were given, or else one that the service makes for itself in a
    /// folder under names; or `None` for plain HTTP. `log` gets a line when the files are read again, and
    /// when they cannot be used.
    ///
    /// # Errors
    /// Those of [`Tls::open`] and [`Tls::self_signed`].
    pub fn open(
        &self,
        own: Option<(&Path, &[String])>,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Option<Tls>, TlsError> {
        match (&self.tls_certificate, &self.tls_key, own) {
            (Some(certificate), Some(key), _) => Tls::open(certificate, key, log).map(Some),
            (_, _, Some((folder, names))) => Tls::self_signed(folder, names, log).map(Some),
            _ => Ok(None),
        }
    }
}

/// Why a service has no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Misuse: a file without a certificate or without a key.
    #[error("{} has no {what} in PEM", path.display())]
    NoPem {
        /// The file.
        path: PathBuf,
        /// What it should have.
        what: &'static str,
    },
    /// Misuse: a certificate and a key that are not of each other, or of a kind that is not known.
    #[error("{} and {} cannot be used together: {why}", certificate.display(), key.display())]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The cause.
        why: String,
    },
    /// Misuse: a name that a certificate cannot have.
    #[error("no certificate can name the host `{name}`: give a DNS name or an address as --host")]
    BadName {
        /// The name.
        name: String,
    },
    /// Misuse: a certificate that the service made for itself does not name all its hosts.
    #[error(
        "the certificate in {} does not name the host `{name}`: delete this folder to get another one, and give devices its new \
         ca.pem", folder.display()
    )]
    NotNamed {
        /// The folder of the certificate.
        folder: PathBuf,
        /// The host.
        name: String,
    },
    /// The system makes no key or certificate.
    #[error("no certificate could be made: {0}")]
    NotMade(#[from] rcgen::Error),
    /// Misuse: plain HTTP on an address that other machines reach.
    #[error(
        "other machines reach {address}, and without HTTPS requests, answers and tokens would travel in the clear: give \
         --tls-certificate FILE and --tls-key FILE, or --tls-self-signed; or listen on 127.0.0.1; or give --plain-http, if a proxy \
         with TLS stands in front"
    )]
    PlainHttp {
        /// The address.
        address: SocketAddr,
    },
}

impl TlsError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        |error| TlsError::Io { path: path.to_owned(), error }
    }
}

/// The file of the authority that devices of a service with a certificate of its own trust (`--ca`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnAuthority {
    /// The file.
    pub path: PathBuf,
    /// The SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
}

impl std::fmt::Display for OwnAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "devices trust this certificate by --ca {}, SHA-256 {}", self.path.display(), self.sha256)
    }
}

/// The certificate of a service that speaks HTTPS.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    authority: Option<OwnAuthority>,
    current: Mutex<Current>,
    ends: CertificateEnd,
    log: Box<dyn Fn(&str) + Send + Sync>,
}

struct Current {
    served: Served,
    seen: Seen,
    /// When the dates of the certificate were last said, or found to be good.
    said: Instant,
}

/// What the files gave.
struct Served {
    config: Arc<ServerConfig>,
    /// The dates of the certificate, and then those of its authorities in the file.
    dates: Vec<Validity>,
}

impl Served {
    /// What the owner should know about the dates of the certificates in `path`.
    fn warnings(&self, path: &Path, now: i64) -> impl Iterator<Item = String> {
        let path = path.display().to_string();
        self.dates.iter().enumerate().filter_map(move |(at, dates)| {
            let what = if at == 0 { "the certificate" } else { "the certificate of an authority" };
            let warning = dates.warning(now)?;
            Some(format!(
                "warning: {what} in {path} {warning}: renew it, or devices will refuse this service"
            ))
        })
    }

    /// Why devices take no such certificate now.
    fn fault(&self, now: i64) -> Option<String> {
        self.dates.first()?.fault(now)
    }

    fn ends(&self) -> i64 {
        self.dates.first().map_or(i64::MAX, Validity::ends)
    }
}

/// When the certificate of a service ends: for metrics.
#[derive(Debug, Clone)]
pub struct CertificateEnd(Arc<AtomicI64>);

impl CertificateEnd {
    /// Seconds since 1970, of the certificate that is served now.
    pub fn seconds(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The versions of the two files that were read last, whether they could be used or not.
type Seen = [Option<FileStamp>; 2];

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Tls {
    /// The certificate in the PEM file `certificate`, before those of its authorities, and its private key in
    /// the PEM file `key`. `log` gets a line when they are read again, when they cannot be used, and at the
    /// start and every day if they have expired, are not valid yet or end soon.
    ///
    /// # Errors
    /// [`TlsError::Io`], [`TlsError::NoPem`], [`TlsError::Unusable`].
    pub fn open(
        certificate: &Path,
        key: &Path,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let seen = seen(&certificate, &key);
        let served = read(&certificate, &key)?;
        served.warnings(&certificate, now()).for_each(|line| log(&line));
        let ends = CertificateEnd(Arc::new(AtomicI64::new(served.ends())));
        let current = Mutex::new(Current { served, seen, said: Instant::now() });
        Ok(Tls { certificate, key, authority: None, current, ends, log: Box::new(log) })
    }

    /// The certificate of a service that makes its own in `folder`, if there is none yet. It names localhost,
    /// 127.0.0.1, ::1 and `names`. An authority that is made for it alone signs it, and its key is forgotten
    /// at once. Devices trust the file [`Self::authority`].
    ///
    /// # Errors
    /// [`TlsError::BadName`], [`TlsError::NotNamed`], [`TlsError::NotMade`]; as [`Self::open`].
    pub fn self_signed(
        folder: &Path,
        names: &[String],
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let names: Vec<String> =
            OWN_NAMES.map(String::from).into_iter().chain(names.iter().cloned()).collect();
        let [certificate, key, ca] = ["certificate.pem", "key.pem", "ca.pem"].map(|name| folder.join(name));
        // It is written last.
        if !certificate.exists() {
            make(folder, &names, [&certificate, &key, &ca])?;
        }
        let tls = Self::open(&certificate, &key, log)?;
        let chain = certificates(&certificate)?;
        let parsed = ParsedCertificate::try_from(&chain[0]);
        let parsed = parsed.map_err(|e| unusable(&certificate, &key, e.to_string()))?;
        for name in names {
            let server = ServerName::try_from(name.clone());
            let server = server.map_err(|_| TlsError::BadName { name: name.clone() })?;
            verify_server_name(&parsed, &server)
                .map_err(|_| TlsError::NotNamed { folder: folder.to_owned(), name })?;
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes(&ca, File::open(&ca))?);
        let sha256 = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Tls { authority: Some(OwnAuthority { path: ca, sha256 }), ..tls })
    }

    /// The file that devices trust, if the service made its own certificate.
    pub fn authority(&self) -> Option<&OwnAuthority> {
        self.authority.as_ref()
    }

    /// When the certificate ends.
    pub fn ends(&self) -> CertificateEnd {
        self.ends.clone()
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        lock(&self.current).served.config.clone()
    }

    /// Reads the files again if they have changed, or if `asked` to. Connections that are open keep the
    /// certificate that they began with. Files that cannot be used change nothing, and a certificate that no
    /// device takes `now` does not replace one that devices take.
    fn look(&self, asked: bool, now: i64) {
        let found = seen(&self.certificate, &self.key);
        if asked || lock(&self.current).seen != found {
            let read = read(&self.certificate, &self.key);
            let mut current = lock(&self.current);
            current.seen = found;
            let path = self.certificate.display();
            match read {
                Err(error) => (self.log)(&format!("the certificate stays as it was: {error}")),
                Ok(served) => match (served.fault(now), current.served.fault(now)) {
                    (Some(fault), None) => {
                        (self.log)(&format!("the certificate stays as it was: that in {path} {fault}"));
                    }
                    _ => {
                        self.ends.0.store(served.ends(), Ordering::Relaxed);
                        current.served = served;
                        (self.log)(&format!("the certificate in {path} was read again"));
                        self.warn(&mut current, now);
                    }
                },
            }
        }
        let mut current = lock(&self.current);
        if current.said.elapsed() >= WARN {
            self.warn(&mut current, now);
        }
    }

    fn warn(&self, current: &mut Current, now: i64) {
        current.said = Instant::now();
        current.served.warnings(&self.certificate, now).for_each(|line| (self.log)(&line));
    }

    /// Follows the files until it is dropped.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut hangups = Hangups::new();
        loop {
            let asked = tokio::select! {
                () = hangups.next() => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            let tls = self.clone();
            // Panics are reported by the runtime.
            let _ = tokio::task::spawn_blocking(move || tls.look(asked, now())).await;
        }
    }
}

fn seen(certificate: &Path, key: &Path) -> Seen {
    [certificate, key].map(FileStamp::now)
}

fn bytes(path: &Path, opened: io::Result<File>) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let read = opened.and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    read.map_err(TlsError::io(path))?;
    Ok(bytes)
}

/// At least one certificate.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad = || TlsError::NoPem { path: path.to_owned(), what: "certificate" };
    let bytes = bytes(path, File::open(path))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(bad)
}

fn unusable(certificate: &Path, key: &Path, why: String) -> TlsError {
    TlsError::Unusable { certificate: certificate.to_owned(), key: key.to_owned(), why }
}

fn read(certificate: &Path, key: &Path) -> Result<Served, TlsError> {
    let chain = certificates(certificate)?;
    let no_dates = || unusable(certificate, key, "a certificate has no dates".into());
    let dates = chain.iter().map(Validity::of).collect::<Option<_>>().ok_or_else(no_dates)?;
    let no_key = |_| TlsError::NoPem { path: key.to_owned(), what: "private key" };
    // Who has the key answers for the service.
    let private = bytes(key, host::open_private(key))?;
    let private = PrivateKeyDer::from_pem_slice(&private).map_err(no_key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|e| {
        let why = match e {
            rustls::Error::InconsistentKeys(_) => {
                "the first certificate is not that of this key; behind it come those of its authorities"
                    .into()
            }
            other => other.to_string(),
        };
        unusable(certificate, key, why)
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Served { config: Arc::new(config), dates })
}

/// Makes an authority, and a certificate that it signs, and writes the files in `folder`.
fn make(folder: &Path, names: &[String], [certificate, key, ca]: [&Path; 3]) -> Result<(), TlsError> {
    for name in names {
        ServerName::try_from(name.as_str()).map_err(|_| TlsError::BadName { name: name.clone() })?;
    }
    let named = |name: &str| {
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, name);
        subject
    };
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name = named("authority of one service, which has forgotten its key");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let root = authority.self_signed(&authority_key)?;
    let mut leaf = CertificateParams::new(names.to_vec())?;
    leaf.distinguished_name = named("service");
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let leaf_key = KeyPair::generate()?;
    let leaf = leaf.signed_by(&leaf_key, &Issuer::new(authority, authority_key))?;

    host::private_folder(folder).map_err(TlsError::io(folder))?;
    let write =
        |path: &Path, text: String| host::write_private(path, text.as_bytes()).map_err(TlsError::io(path));
    write(key, leaf_key.serialize_pem())?;
    write(ca, root.pem())?;
    write(certificate, leaf.pem())?;
    host::sync_folder_of(folder).map_err(TlsError::io(folder))
}
