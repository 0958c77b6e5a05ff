//! API tokens: a file in the state folder has the digest, the scopes and the expiry of each. The program
//! writes it while a server runs, and the server reads it again when it has changed.

use crate::error::Error;
use crate::store;
use host::{FileStamp, WatchedFile};
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use wire::{AccessToken, TokenDigest};

/// The most API tokens of a server.
pub const MOST_TOKENS: usize = 4096;
/// The longest name of a token.
const MOST_NAME: usize = 64;
/// More than [`MOST_TOKENS`] rows take.
const MOST_BYTES: u64 = 4 << 20;
/// The last second of the year 9999. No token expires later.
const LAST_SECOND: u64 = 253_402_300_799;
/// The format of the file.
const VERSION: u16 = 1;
const NAME: &str = "tokens";

/// What an API token permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To ask for decisions.
    Decide,
    /// To return feedback, or the sums of a batch.
    Feedback,
    /// To take and answer the tasks of a holder of the key.
    Raise,
    /// Everything: to create and delete bandits, and all that the other scopes permit.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Scope; 4] = [Scope::Decide, Scope::Feedback, Scope::Raise, Scope::Admin];

    /// Whether `scopes` permit what this one names.
    pub(super) fn is_in(self, scopes: &[Scope]) -> bool {
        scopes.contains(&self) || scopes.contains(&Scope::Admin)
    }

    /// The scopes, separated by commas.
    pub(super) fn text(scopes: &[Scope]) -> String {
        scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(",")
    }

    /// The name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Decide => "decide",
            Scope::Feedback => "feedback",
            Scope::Raise => "raise",
            Scope::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Scope::ALL.into_iter().find(|scope| scope.name() == text);
        named.ok_or_else(|| format!("the scopes are {}", Scope::ALL.map(Scope::name).join(", ")))
    }
}

/// An API token as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiToken {
    /// The name, by which it is revoked.
    pub name: String,
    /// The digest of the token.
    pub digest: TokenDigest,
    /// What it permits.
    pub scopes: Vec<Scope>,
    /// The only bandit that it is for. `None`: all bandits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandit: Option<String>,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// When it expires, in seconds since 1970. `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

impl ApiToken {
    /// Whether the token permits what `scope` names.
    pub fn has(&self, scope: Scope) -> bool {
        scope.is_in(&self.scopes)
    }

    /// Whether the token has expired, `now` in seconds since 1970.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    /// The scopes, separated by commas.
    pub fn scopes_text(&self) -> String {
        Scope::text(&self.scopes)
    }

    fn check(&self) -> Result<(), String> {
        let letter = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
        if !(1..=MOST_NAME).contains(&self.name.len()) || !self.name.bytes().all(letter) {
            return Err(format!("a name must have 1 to {MOST_NAME} letters, digits, '-', '_' or '.'"));
        }
        if self.scopes.is_empty() {
            return Err(format!("give the token {} a scope", self.name));
        }
        if self.expires.is_some_and(|expires| expires > LAST_SECOND) {
            return Err("a token expires before the year 10000, or never".into());
        }
        let hex = |id: &str| id.len() == 32 && id.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        match &self.bandit {
            Some(id) if !hex(id) => Err("the id of a bandit must be 32 hexadecimal digits".into()),
            _ => Ok(()),
        }
    }
}

/// The wish for an API token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The name.
    pub name: String,
    /// What it permits.
    pub scopes: Vec<Scope>,
    /// The only bandit that it is for.
    pub bandit: Option<String>,
    /// When it expires, in seconds since 1970.
    pub expires: Option<u64>,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u16,
    tokens: Vec<ApiToken>,
}

/// The file of API tokens in a state folder. It is replaced as a whole, so that a server that runs meanwhile
/// reads the old tokens or the new ones.
#[derive(Debug, Clone)]
pub struct TokensFile {
    folder: PathBuf,
    path: PathBuf,
}

impl TokensFile {
    /// The file in the state `folder`, whether it exists or not.
    pub fn of(folder: &Path) -> Self {
        TokensFile { folder: folder.to_owned(), path: folder.join(NAME) }
    }

    /// Whether there is such a file, so that requests need tokens.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// The tokens in the order of their creation. Without a file there is none.
    ///
    /// # Errors
    /// [`Error::Tokens`] for a file that cannot be read, and those of the disk.
    pub fn list(&self) -> Result<Vec<ApiToken>, Error> {
        Ok(self.read()?.map(|(_, tokens)| tokens).unwrap_or_default())
    }

    /// Creates a token. The file has its digest when this returns, and the token is nowhere but in the
    /// return value. The folder is created if it does not exist.
    ///
    /// # Errors
    /// [`Error::Tokens`] for a name that is taken or no name, for no scope, for an id that is none, and for
    /// more than [`MOST_TOKENS`] tokens; those of [`Self::list`] and of the disk.
    pub fn create<R: CryptoRng>(&self, new: NewToken, rng: &mut R) -> Result<AccessToken, Error> {
        store::prepare(&self.folder)?;
        let token = AccessToken::generate(rng);
        let NewToken { name, mut scopes, bandit, expires } = new;
        scopes.sort_unstable();
        scopes.dedup();
        let (digest, created) = (token.digest(), super::unix_now());
        let row = ApiToken { name, digest, scopes, bandit, created, expires };
        row.check().map_err(|why| self.fault(why))?;
        self.change(|tokens| {
            if tokens.iter().any(|other| other.name == row.name) {
                return Err(self.fault(format!("there is a token {} already: revoke it first", row.name)));
            }
            if tokens.len() >= MOST_TOKENS {
                return Err(self.fault(format!("it has {MOST_TOKENS} tokens, the most: revoke one first")));
            }
            tokens.push(row);
            Ok(())
        })?;
        Ok(token)
    }

    /// Revokes the token with this name: the next request with it is refused. The file stays, even without
    /// tokens, so that the server does not open to everybody.
    ///
    /// # Errors
    /// [`Error::Tokens`] if there is no such token; those of [`Self::list`] and of the disk.
    pub fn revoke(&self, name: &str) -> Result<(), Error> {
        if !self.exists() {
            return Err(self.fault("there is no such file: this server has no API tokens".into()));
        }
        self.change(|tokens| {
            let at = tokens.iter().position(|token| token.name == name);
            let name: String = name.chars().take(MOST_NAME).collect();
            let at = at.ok_or_else(|| self.fault(format!("there is no token {name}: `list` names them")))?;
            tokens.remove(at);
            Ok(())
        })
    }

    /// Changes the tokens, and returns when the change is on disk.
    fn change(&self, how: impl FnOnce(&mut Vec<ApiToken>) -> Result<(), Error>) -> Result<(), Error> {
        let disk = |e| Error::disk(&self.path, e);
        let _alone = host::lock_beside(&self.path).map_err(disk)?;
        let mut tokens = self.list()?;
        how(&mut tokens)?;
        let document = Document { version: VERSION, tokens };
        let text = serde_json::to_vec_pretty(&document).map_err(|e| self.fault(e.to_string()))?;
        host::write_private(&self.path, &[&text[..], b"\n"].concat()).map_err(disk)
    }

    /// The tokens and the file that they were read from. `None` if there is no file.
    fn read(&self) -> Result<Option<(FileStamp, Vec<ApiToken>)>, Error> {
        let disk = |e| Error::disk(&self.path, e);
        let file = match File::open(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(disk)?,
        };
        let metadata = file.metadata().map_err(disk)?;
        make_private(&file, &metadata, &self.path).map_err(disk)?;
        let mut text = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(disk)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(self.fault(format!("it is longer than {MOST_BYTES} bytes")));
        }
        let document: Document = serde_json::from_slice(&text).map_err(|e| self.fault(e.to_string()))?;
        let Document { version, tokens } = document;
        if version != VERSION {
            return Err(self.fault(format!("it has format {version}, and this program reads {VERSION}")));
        }
        if tokens.len() > MOST_TOKENS {
            return Err(self.fault(format!("it has more than {MOST_TOKENS} tokens")));
        }
        tokens.iter().try_for_each(|token| token.check()).map_err(|why| self.fault(why))?;
        Ok(Some((FileStamp::of(&metadata), tokens)))
    }

    fn fault(&self, why: String) -> Error {
        Error::Tokens { path: self.path.clone(), why }
    }
}

/// Takes the file from all others than its owner.
#[cfg(unix)]
fn make_private(file: &File, metadata: &Metadata, path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
        tracing::warn!(path = %path.display(), "had mode {mode:o}: it is now readable by its owner alone");
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_: &File, _: &Metadata, _: &Path) -> std::io::Result<()> {
    Ok(())
}

/// The API tokens at one moment.
#[derive(Debug, Clone)]
pub(super) enum Tokens {
    /// The server never had a file of tokens.
    Off,
    /// Those of the file. None after the file was deleted, or if it cannot be read: the server stays closed.
    On(Arc<[ApiToken]>),
}

impl Tokens {
    pub(super) fn is_on(&self) -> bool {
        matches!(self, Tokens::On(_))
    }

    /// The token with this digest. All are compared, so that the time does not depend on which one it is.
    pub(super) fn find(&self, digest: &TokenDigest) -> Option<&ApiToken> {
        let Tokens::On(tokens) = self else { return None };
        tokens.iter().fold(None, |found, token| if token.digest == *digest { Some(token) } else { found })
    }
}

/// The tokens of a server that runs, which looks at the file at each request.
#[derive(Debug)]
pub(super) struct Live {
    file: TokensFile,
    watched: WatchedFile<Tokens>,
}

impl Live {
    /// Reads the tokens. `operated` says whether the server has an operator's token, which closes it too.
    pub(super) fn open(file: TokensFile, operated: bool) -> Result<Self, Error> {
        let (stamp, tokens) = match file.read()? {
            Some((stamp, tokens)) => (Some(stamp), Tokens::On(tokens.into())),
            None if host::was_deleted(&file.path) && !operated => {
                let why = "it was deleted, and without it the server would be open to everybody: restore it, or \
                           create a token; to serve without tokens, delete tokens.lock too";
                return Err(file.fault(why.into()));
            }
            None => (None, Tokens::Off),
        };
        Ok(Live { watched: WatchedFile::new(&file.path, stamp, tokens), file })
    }

    /// The tokens now. A file that was deleted or cannot be read leaves no token, so that a revoked one is
    /// never taken for a valid one.
    pub(super) fn current(&self) -> Tokens {
        let current = self.watched.current(|| {
            let read = self.file.read();
            match &read {
                Ok(Some((_, tokens))) => tracing::info!(tokens = tokens.len(), "API tokens read again"),
                Ok(None) => tracing::error!("the file of API tokens was deleted: no API token is valid"),
                Err(error) => tracing::error!(%error, "no API token is valid until the file can be read"),
            }
            read.map(|read| read.map(|(stamp, tokens)| (stamp, Tokens::On(tokens.into()))))
        });
        current.unwrap_or_else(|| Tokens::On(Arc::from([])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::time::{Duration, Instant};

    fn new(name: &str) -> NewToken {
        NewToken { name: name.into(), scopes: vec![Scope::Decide], bandit: None, expires: None }
    }

    /// A server follows every change of the file, and is open only if it has never had one. Without a file
    /// that can be read no token is valid.
    #[test]
    fn attack_no_token_outlives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokensFile::of(folder.path());
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(1);
        let live = Live::open(file.clone(), false).unwrap();
        assert!(!live.current().is_on());
        let [first, second] = ["first", "second"].map(|name| file.create(new(name), &mut rng).unwrap());
        let known = |token: &AccessToken| live.current().find(&token.digest()).map(|t| t.name.clone());
        assert_eq!([known(&first), known(&second)], [Some("first".into()), Some("second".into())]);
        file.revoke("first").unwrap();
        assert_eq!([known(&first), known(&second)], [None, Some("second".into())]);

        let good = std::fs::read(&file.path).unwrap();
        for bad in [&b"{"[..], b"", br#"{"version": 2, "tokens": []}"#] {
            std::fs::write(&file.path, bad).unwrap();
            assert!(known(&second).is_none() && live.current().is_on());
            assert!(Live::open(file.clone(), false).is_err(), "no server starts with it");
        }
        std::fs::write(&file.path, &good).unwrap();
        assert!(known(&second).is_some());
        std::fs::remove_file(&file.path).unwrap();
        assert!(known(&second).is_none() && live.current().is_on());
        let refused = Live::open(file.clone(), false).unwrap_err().to_string();
        assert!(refused.contains("it was deleted") && refused.contains("tokens.lock"), "{refused}");
        assert!(Live::open(file.clone(), true).is_ok(), "the operator's token closes the server");
        std::fs::write(&file.path, &good).unwrap();
        file.revoke("second").unwrap();
        assert!(live.current().is_on() && Live::open(file.clone(), false).unwrap().current().is_on());
        // What opens the server is a choice of the operator's.
        std::fs::remove_file(&file.path).unwrap();
        std::fs::remove_file(file.path.with_extension("lock")).unwrap();
        assert!(!Live::open(file, false).unwrap().current().is_on());
    }

    /// A program that changes the file waits for another one that does, and loses none of its changes: this
    /// test holds the lock as that one does, revokes a token, and lets go.
    #[test]
    fn attack_no_change_of_the_file_undoes_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokensFile::of(folder.path());
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(4);
        file.create(new("revoked"), &mut rng).unwrap();
        let with_one = std::fs::read(&file.path).unwrap();
        file.revoke("revoked").unwrap();
        let revoked = std::fs::read(&file.path).unwrap();
        std::fs::write(&file.path, with_one).unwrap();
        let alone = File::options().write(true).open(file.path.with_extension("lock")).unwrap();
        alone.lock().unwrap();
        let other = {
            let file = file.clone();
            std::thread::spawn(move || file.create(new("created"), &mut rng).unwrap())
        };
        // Without the lock, the other one has written long before this ends.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(500) && !other.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!other.is_finished());
        host::write_private(&file.path, &revoked).unwrap();
        drop(alone);
        other.join().unwrap();
        assert_eq!(file.list().unwrap().iter().map(|token| &token.name).collect::<Vec<_>>(), ["created"]);
    }

    /// What is read is checked as what is created: a file that somebody edited opens nothing that no program
    /// would have written, and costs no more than a full one.
    #[test]
    fn attack_a_file_that_no_program_wrote_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokensFile::of(folder.path());
        file.create(new("a"), &mut rand_chacha::ChaCha20Rng::seed_from_u64(5)).unwrap();
        let good = file.list().unwrap().remove(0);
        let text = |version: u16, tokens: Vec<ApiToken>| {
            serde_json::to_string(&Document { version, tokens }).unwrap()
        };
        let row = |change: &dyn Fn(&mut ApiToken)| {
            let mut row = good.clone();
            change(&mut row);
            text(VERSION, vec![row])
        };
        let one = row(&|_| ());
        let most = vec![good.clone(); MOST_TOKENS];
        let padded = |bytes: u64| format!("{one}{}", " ".repeat(bytes as usize - one.len()));
        let read = |text: &str| {
            std::fs::write(&file.path, text).unwrap();
            file.list()
        };
        for taken in [&one, &text(VERSION, most.clone()), &padded(MOST_BYTES)] {
            assert!(read(taken).is_ok());
        }
        for (bad, why) in [
            (row(&|row| row.scopes.clear()), "a scope"),
            (row(&|row| row.name = "a b".into()), "a name must"),
            (row(&|row| row.expires = Some(u64::MAX)), "10000"),
            (row(&|row| row.bandit = Some("x".into())), "32 hex"),
            (text(VERSION, [most, vec![good.clone()]].concat()), "more than 4096"),
            (text(VERSION + 1, vec![good.clone()]), "format 2"),
            (padded(MOST_BYTES + 1), "longer than"),
            (one.replacen("\"name\"", "\"admin\":true,\"name\"", 1), "unknown field"),
        ] {
            let refused = read(&bad).unwrap_err();
            assert!(matches!(&refused, Error::Tokens { why: said, .. } if said.contains(why)), "{refused}");
        }
    }

    #[test]
    fn names_scopes_and_numbers_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokensFile::of(folder.path());
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(1);
        let mut refused = |new: NewToken| match file.create(new, &mut rng) {
            Err(Error::Tokens { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        for name in ["", "a b", "ü", "a/b", &"a".repeat(65)] {
            assert!(refused(new(name)).contains("a name must"), "{name}");
        }
        assert!(refused(NewToken { scopes: vec![], ..new("a") }).contains("a scope"));
        assert!(refused(NewToken { expires: Some(u64::MAX), ..new("a") }).contains("10000"));
        assert!(refused(NewToken { bandit: Some("x".into()), ..new("a") }).contains("32 hex"));
        assert!(file.revoke("a").unwrap_err().to_string().contains("no API tokens"));
        file.create(new("a"), &mut rand_chacha::ChaCha20Rng::seed_from_u64(2)).unwrap();
        assert!(refused(new("a")).contains("already"));
        assert!(file.revoke("b").unwrap_err().to_string().contains("no token b"));

        // A full file.
        let row = file.list().unwrap().remove(0);
        let rows =
            (0..MOST_TOKENS).map(|i| ApiToken { name: format!("{}{i}", "n".repeat(60)), ..row.clone() });
        let bandit = Some("0".repeat(32));
        let rows = rows.map(|row| ApiToken { bandit: bandit.clone(), expires: Some(LAST_SECOND), ..row });
        let rows = rows.map(|row| ApiToken { scopes: Scope::ALL.to_vec(), ..row });
        let document = Document { version: VERSION, tokens: rows.collect() };
        let text = serde_json::to_vec_pretty(&document).unwrap();
        assert!((text.len() as u64) < MOST_BYTES, "{}", text.len());
        std::fs::write(&file.path, text).unwrap();
        assert!(refused(new("b")).contains("the most"));
    }
}
