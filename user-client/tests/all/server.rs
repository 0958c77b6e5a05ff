//! A server of bandits in this process, for devices and tools that speak HTTP.

use crate::device::{Bundles, bundles, rng};
use helba_server::{AppState, Connections, NewToken, Scope, Settings, TokensFile, app};
use protocol::{Answers, BanditConfig, Shape};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;
use user_client::{Client, Device};
use wire::{Created, PublicBundle};

/// Features and arms of all bandits: those of purchases of two brands with one kind of column.
const FEATURES: usize = 4;
const ARMS: usize = 2;

/// Both bundles of the server's keys.
pub(crate) fn keys() -> &'static Bundles {
    static KEYS: OnceLock<Bundles> = OnceLock::new();
    KEYS.get_or_init(|| bundles(Shape::for_problem(FEATURES, ARMS), 11))
}

/// Another key pair of the same shape and parameters.
pub(crate) fn other_keys() -> &'static Bundles {
    static KEYS: OnceLock<Bundles> = OnceLock::new();
    KEYS.get_or_init(|| bundles(Shape::for_problem(FEATURES, ARMS), 12))
}

/// A server in this process, and the files of its keys.
pub(crate) struct Server {
    keys: &'static Bundles,
    address: SocketAddr,
    state: AppState,
    folder: TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    /// A server whose evaluations in stages wait for slow machines.
    pub(crate) fn start(listen: &str) -> Self {
        Self::start_patient(listen, Duration::from_secs(3600))
    }

    /// A server whose evaluations in stages wait so long for silent holders of the key.
    pub(crate) fn start_patient(listen: &str, stage_patience: Duration) -> Self {
        Self::start_with(keys(), listen, stage_patience)
    }

    /// A server with these keys.
    pub(crate) fn start_with(keys: &'static Bundles, listen: &str, stage_patience: Duration) -> Self {
        let (public, secret) = keys;
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("public.bundle"), public).unwrap();
        std::fs::write(folder.path().join("secret.bundle"), secret).unwrap();
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(folder.path().join("secret.bundle"), mode).unwrap();
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let settings = Settings { stage_patience, ..Settings::default() };
        let bundle = PublicBundle::read(&public[..]).unwrap();
        let state = AppState::open(bundle, &folder.path().join("state"), settings).unwrap();
        let of_app = state.clone();
        let address = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind(listen).await.unwrap();
            let address = listener.local_addr().unwrap();
            let never = std::future::pending();
            tokio::spawn(helba_server::serve(listener, app(of_app), Connections::default(), never));
            address
        });
        Server { keys, address, state, folder, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn device(&self) -> Device {
        Device::read(&self.keys.1[..]).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url()).unwrap().with_token(self.device().token().clone())
    }

    /// A client on a line on which every byte comes so late.
    pub(crate) fn client_behind(&self, late: Duration) -> Client {
        let line = testkit::late_line(self.address, late).unwrap();
        Client::new(&format!("http://{line}")).unwrap().with_token(self.device().token().clone())
    }

    /// The number of holders of the key that wait for tasks of a bandit.
    pub(crate) fn raisers_waiting(&self, bandit: &str) -> usize {
        self.state.raisers_waiting(bandit)
    }

    /// A client with a token of its own, with which every request needs a token.
    pub(crate) fn client_of(&self, name: &str, scopes: &[Scope]) -> Client {
        let new = NewToken { name: name.into(), scopes: scopes.to_vec(), bandit: None, expires: None };
        let token = TokensFile::of(&self.file("state")).create(new, &mut rng(name.len() as u64)).unwrap();
        Client::new(&self.url()).unwrap().with_token(token)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn create(&self, answers: Answers) -> Created {
        let open_model = answers == Answers::Scores;
        let base = BanditConfig::new(FEATURES, ARMS);
        let config = BanditConfig { answers, open_model, ..base };
        self.client().create_encrypted(&config).unwrap()
    }
}
