//! A server of bandits in this process, for devices and tools that speak HTTP.

use crate::device::{Bundles, bundles};
use helba_server::{AppState, Connections, Settings, app};
use protocol::{Answers, BanditConfig, Shape};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
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
    address: SocketAddr,
    folder: TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub(crate) fn start(listen: &str) -> Self {
        let (public, secret) = keys();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("public.bundle"), public).unwrap();
        std::fs::write(folder.path().join("secret.bundle"), secret).unwrap();
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(folder.path().join("secret.bundle"), mode).unwrap();
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let address = runtime.block_on(async {
            let bundle = PublicBundle::read(&public[..]).unwrap();
            let state = AppState::open(bundle, &folder.path().join("state"), Settings::default()).unwrap();
            let listener = tokio::net::TcpListener::bind(listen).await.unwrap();
            let address = listener.local_addr().unwrap();
            let never = std::future::pending();
            tokio::spawn(helba_server::serve(listener, app(state), Connections::default(), never));
            address
        });
        Server { address, folder, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn device(&self) -> Device {
        Device::read(&keys().1[..]).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url()).unwrap().with_token(self.device().token().clone())
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
