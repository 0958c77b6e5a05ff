//! Counts what a device tells servers about decryptions under a key: trace answers, and repeats of
//! decisions. Each tells a bit of a decryption, and a server that deviates from the protocol chooses the
//! ciphertext. The bits add up to the secret key, so that a device counts them and stops
//! (docs/threat-model.md).

use crate::Error;
use ckks::{KeyId, Params};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The most answers of a device under one key, for all parameters.
pub const MOST_ANSWERS: u64 = 1000;

/// The most decisions that a device asks for again under one key by default.
pub const DEFAULT_REPEATS: u64 = 5;

/// As many trace answers as a decision counts for that is asked for again, however often. Which t of T
/// decisions are asked for again, and how often each, is one of fewer than (12·e·T/t)ᵗ possibilities: 28.3
/// bits a decision for one in 10⁷, which are less than 18 coefficients of a ternary secret.
pub(crate) const REPEAT_ANSWERS: u64 = 18;

/// The most decisions to ask for again under a key of these parameters: an 18th of [`most_answers`].
pub fn most_repeats(params: &Params) -> u64 {
    most_answers(params) / REPEAT_ANSWERS
}

/// The most answers under a key of these parameters.
///
/// An answer is a function of one linear form in the secret, so that it helps an attacker no more than the
/// value of the form, which removes one dimension of the lattice (a perfect hint in Dachman-Soled, Ducas,
/// Gong, Rossi 2020). After t answers the lattice has N − t dimensions. The limit of the table on log₂(QP) is
/// nearly proportional to N, and in this proportion it holds at N − t for t ≤ N·(1 − log₂(QP)/limit). Sets
/// without security have no such limit.
pub fn most_answers(params: &Params) -> u64 {
    MOST_ANSWERS.min(dimensions_to_spare(params))
}

/// As many dimensions as an opening of the paper's method may take. Its number is uniform in q₀ of 41 or 42
/// bits and has noise of 27 bits, so that it tells one of 2¹⁴ or 2¹⁵ values: fewer than nine ternary
/// coefficients have, which 14.3 bits are for, and the eight of a form Σ 3ʲ·s_j can be read from it.
const OPENING_DIMENSIONS: u64 = 10;

/// The most openings of the paper's method under a key of these parameters, each of which tells the server a
/// linear form of the secret up to noise.
pub fn most_openings(params: &Params) -> u64 {
    dimensions_to_spare(params) / OPENING_DIMENSIONS
}

/// N·(1 − log₂(QP)/limit), down to 0.
fn dimensions_to_spare(params: &Params) -> u64 {
    let spec = params.spec();
    let allowed = spec.security.max_log_qp(spec.log_n).map_or(0.0, f64::from);
    (params.n() as f64 * (1.0 - params.log_qp() / allowed)).max(0.0) as u64
}

/// The notice that a device gives once, when it stops answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswersSpent {
    /// Answers given under this key.
    pub given: u64,
}

impl std::fmt::Display for AnswersSpent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "this key has given {} trace answers, which is the limit: further feedback is sent without them, and batches end by their \
             length; generate new keys, or create the bandit with a public schedule (growth_or_every)",
            self.given
        )
    }
}

/// The notice that a device gives once, when it stops asking again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatsSpent {
    /// How many decisions it has asked for again under this key.
    pub given: u64,
}

impl std::fmt::Display for RepeatsSpent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} decisions were asked for again under this key, which is the limit: answers that cannot be relied on \
             are reported, and not asked for again; allow more with --repeats, or generate new keys",
            self.given
        )
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Answers,
    Repeats,
}

impl Kind {
    /// The extension of the file, and the first word in it.
    fn name(self) -> &'static str {
        match self {
            Kind::Answers => "answers",
            Kind::Repeats => "repeats",
        }
    }
}

/// Counts the answers of one key, or its repeats.
pub(crate) struct Answers {
    kind: Kind,
    key: KeyId,
    /// The most answers that the user allows: 0 by default, and repeats of [`DEFAULT_REPEATS`] decisions.
    most: u64,
    /// [`most_answers`] or [`most_repeats`] of the parameters.
    bound: u64,
    /// The file of the count. Without a file, answers are counted in memory.
    path: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    given: u64,
    notified: bool,
    /// The number for the notice.
    notice: Option<u64>,
}

/// Bytes after the first line of the file: one for each answer, and one after the user got the notice.
const ANSWER: u8 = b'.';
const NOTIFIED: u8 = b'!';

impl Answers {
    pub(crate) fn new(key: KeyId, params: &Params) -> Self {
        let (kind, bound) = (Kind::Answers, most_answers(params));
        Answers { kind, key, most: 0, bound, path: None, state: Mutex::default() }
    }

    /// A count of decisions that are asked for again.
    pub(crate) fn of_repeats(key: KeyId, params: &Params) -> Self {
        let (kind, bound) = (Kind::Repeats, most_repeats(params));
        let most = bound.min(DEFAULT_REPEATS);
        Answers { kind, key, most, bound, path: None, state: Mutex::default() }
    }

    /// Keeps the count in a file beside the secret bundle, which is named by the key. Links to the bundle and
    /// copies of it in the same folder, sealed or not, share the count.
    pub(crate) fn beside(mut self, bundle: &Path) -> Self {
        let bundle = std::fs::canonicalize(bundle).unwrap_or_else(|_| bundle.into());
        self.path = Some(bundle.with_file_name(format!("{}.{}", self.key, self.kind.name())));
        self
    }

    /// Allows `most` answers, or the bound of the parameters if that is less.
    pub(crate) fn allow(&mut self, most: u64) {
        self.most = self.bound.min(most);
    }

    /// As [`Self::allow`], for tests.
    #[cfg(test)]
    pub(crate) fn at_most(mut self, most: u64) -> Self {
        self.allow(most);
        self
    }

    /// Removes the limit, for tests that show its purpose.
    #[cfg(test)]
    pub(crate) fn unlimited(mut self) -> Self {
        self.most = u64::MAX;
        self
    }

    /// Whether one more answer may be sent. If so, it is counted on disk before this returns.
    pub(crate) fn count(&self) -> Result<bool, Error> {
        self.count_within(u64::MAX)
    }

    /// As [`Self::count`], for at most `most` answers.
    pub(crate) fn count_within(&self, most: u64) -> Result<bool, Error> {
        let most = most.min(self.most);
        // The mutex admits one thread at a time, and the lock of the file one process.
        if most == 0 {
            return Ok(false);
        }
        let mut state = host::lock(&self.state);
        match &self.path {
            None => Ok(decide(&mut state, most).0),
            Some(path) => {
                self.count_in(path, &mut state, most).map_err(|error| match (self.kind, path.clone()) {
                    (Kind::Answers, path) => Error::AnswerCount { path, error },
                    (Kind::Repeats, path) => Error::RepeatCount { path, error },
                })
            }
        }
    }

    /// The number for the notice, returned once.
    pub(crate) fn notice(&self) -> Option<u64> {
        host::lock(&self.state).notice.take()
    }

    /// The most answers that are allowed.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    fn count_in(&self, path: &Path, state: &mut State, most: u64) -> std::io::Result<bool> {
        let mut file = host::private_file().read(true).append(true).create(true).open(path)?;
        // Another process with this key waits until the file is closed, for a write and a sync.
        file.lock()?;
        let header = format!("{} of key {}\n", self.kind.name(), self.key);
        // The first line, the answers, the notice, and one byte more.
        let longest = header.len() as u64 + MOST_ANSWERS.max(self.most.min(1 << 32)) + 2;
        let mut bytes = Vec::new();
        (&mut file).take(longest).read_to_end(&mut bytes)?;
        match bytes.strip_prefix(header.as_bytes()) {
            Some(marks) if marks.iter().all(|b| [ANSWER, NOTIFIED].contains(b)) => {
                state.given = marks.iter().filter(|b| **b == ANSWER).count() as u64;
                state.notified = marks.contains(&NOTIFIED);
            }
            // The file is new, or writing its first line was interrupted before the first answer.
            None if header.as_bytes().starts_with(&bytes) => {
                *state = State::default();
                file.write_all(&header.as_bytes()[bytes.len()..])?;
                file.sync_all()?;
                host::sync_folder_of(path)?;
            }
            _ => {
                let what = format!(
                    "the file is not a count of the {} of this key; generate new keys, or restore the file",
                    self.kind.name()
                );
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
            }
        }
        let (may, mark) = decide(state, most);
        if let Some(mark) = mark {
            file.write_all(&[mark])?;
            file.sync_all()?;
        }
        Ok(may)
    }
}

/// Whether to answer, and the byte to write.
fn decide(state: &mut State, most: u64) -> (bool, Option<u8>) {
    if state.given < most {
        state.given += 1;
        return (true, Some(ANSWER));
    }
    if state.notified {
        return (false, None);
    }
    state.notified = true;
    state.notice = Some(state.given);
    (false, Some(NOTIFIED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandit::MOST_ANSWERS_OF_A_DECISION;

    const KEY: KeyId = KeyId([7; 16]);

    fn answers(path: &Path, most: u64) -> Answers {
        let params = ckks::TOY_LOGN12_DEPTH21.validate().unwrap();
        Answers::new(KEY, &params).beside(path).at_most(most)
    }

    /// Every shipped set keeps its row of the table at N less the limit, and no set allows more than a
    /// thousand.
    #[test]
    fn limits_keep_the_table() {
        for spec in ckks::ParamsSpec::named().iter().chain(ckks::ParamsSpec::evaluations()) {
            let params = spec.validate().unwrap();
            let most = most_answers(&params);
            assert!((1..=MOST_ANSWERS).contains(&most), "{}: {most}", spec.name);
            if let (true, Some(allowed)) = (spec.security.bits() > 0, spec.security.max_log_qp(spec.log_n)) {
                let left = (params.n() as u64 - most) as f64 / params.n() as f64;
                assert!(params.log_qp() <= f64::from(allowed) * left, "{}: {most}", spec.name);
            }
        }
    }

    /// An answer that has left is still counted after a loss of power.
    #[cfg(target_os = "linux")]
    #[test]
    fn attack_power_loss_takes_no_count() {
        const FOLDER: &str = "POWER_LOSS_FOLDER";
        let name = "answers::tests::attack_power_loss_takes_no_count";
        let Some(folder) = std::env::var_os(FOLDER) else {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().canonicalize().unwrap();
            let lost = testkit::power_loss::lost_by_test(name, FOLDER, &path);
            assert_eq!(lost, std::collections::BTreeSet::new());
            return;
        };
        let folder = Path::new(&folder);
        let secret = folder.join("secret.bundle");
        for _ in 0..2 {
            assert!(answers(&secret, 2).count().unwrap());
        }
    }

    #[test]
    fn attack_answers_are_counted_over_restarts_and_processes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.bundle");
        // No answer unless the user allows some.
        let params = ckks::TOY_LOGN12_DEPTH21.validate().unwrap();
        assert!(!Answers::new(KEY, &params).beside(&path).count().unwrap());
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
        for round in 0..5 {
            // A restart before every answer.
            assert_eq!(answers(&path, 3).count().unwrap(), round < 3, "{round}");
        }
        let file = folder.path().join(format!("{KEY}.answers"));
        #[cfg(unix)]
        {
            let mode =
                std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
        // A copy or a link beside it counts with it.
        assert!(!answers(&folder.path().join("copy.bundle"), 3).count().unwrap());
        // Told once, over restarts too.
        let again = answers(&path, 3);
        assert!(!again.count().unwrap() && again.notice().is_none());
        // Eight writers at once, as processes would be: each opens the file for itself.
        let path = folder.path().join("another").join("secret.bundle");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        let given: usize = std::thread::scope(|scope| {
            let path = &path;
            let writers: Vec<_> = (0..8)
                .map(|_| scope.spawn(move || (0..10).filter(|_| answers(path, 25).count().unwrap()).count()))
                .collect();
            writers.into_iter().map(|w| w.join().unwrap()).sum()
        });
        assert_eq!(given, 25);
    }

    /// A process that counts meanwhile is waited for, and its answer is one of those that are allowed: this
    /// test holds the lock of the file as it does, counts the last answer, and lets go.
    #[test]
    fn attack_two_processes_do_not_spend_the_same_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.bundle");
        assert!(answers(&path, 2).count().unwrap());
        let file = folder.path().join(format!("{KEY}.answers"));
        let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
        file.lock().unwrap();
        let other = std::thread::spawn(move || answers(&path, 2).count().unwrap());
        // Without the lock, the other one has counted long before this ends.
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(500) && !other.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!other.is_finished());
        file.write_all(&[ANSWER]).unwrap();
        file.sync_all().unwrap();
        drop(file);
        assert!(!other.join().unwrap());
    }

    #[test]
    fn attack_a_count_that_cannot_be_kept_stops_the_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.bundle");
        // Another key's count, a damaged one, a folder that is not there.
        let counted = answers(&path, 3);
        assert!(counted.count().unwrap());
        let file = folder.path().join(format!("{KEY}.answers"));
        let good = std::fs::read(&file).unwrap();
        for bad in
            [&b"answers of key 00000000000000000000000000000000\n."[..], b"x", &[&good[..], b"x"].concat()]
        {
            std::fs::write(&file, bad).unwrap();
            let error = counted.count().unwrap_err();
            assert!(
                matches!(&error, Error::AnswerCount { .. }) && error.to_string().contains("count"),
                "{error}"
            );
            assert_eq!(std::fs::read(&file).unwrap(), bad, "changed");
        }
        // Cut short while it was made: no answer had left.
        std::fs::write(&file, &good[..10]).unwrap();
        assert!(counted.count().unwrap());
        assert_eq!(std::fs::read(&file).unwrap(), good);
        let nowhere = answers(&folder.path().join("none").join("secret.bundle"), 3);
        assert!(matches!(nowhere.count(), Err(Error::AnswerCount { .. })));
    }

    /// A repeat counts for as many coefficients of a ternary secret as it can tell bits, for one decision in
    /// 10⁷ that is asked for again 1 to 12 times.
    #[test]
    fn a_repeat_counts_for_what_it_can_tell() {
        let told = (f64::from(MOST_ANSWERS_OF_A_DECISION) * std::f64::consts::E * 1e7).log2();
        let [counted, less] = [REPEAT_ANSWERS, REPEAT_ANSWERS - 1].map(|n| n as f64 * 3f64.log2());
        assert!((less..counted).contains(&told), "{told}");
        // The number of possibilities is below that bound: all t of T decisions, and the number of each.
        for (t, decisions) in [(1, 1e7), (55, 55e7)] {
            let ways: f64 = (0..t).map(|i| ((decisions - f64::from(i)) / f64::from(t - i)).log2()).sum();
            assert!(ways + f64::from(t) * f64::from(MOST_ANSWERS_OF_A_DECISION).log2() < f64::from(t) * told);
        }
    }

    /// Repeats have a count of their own, and never more than the bound.
    #[test]
    fn attack_repeats_are_counted_over_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.bundle");
        let params = ckks::TOY_LOGN12_DEPTH21.validate().unwrap();
        let repeats = || Answers::of_repeats(KEY, &params).beside(&path);
        for at in 0..DEFAULT_REPEATS + 2 {
            assert_eq!(repeats().count().unwrap(), at < DEFAULT_REPEATS, "{at}");
        }
        assert!(!repeats().at_most(DEFAULT_REPEATS).count().unwrap());
        assert!(repeats().at_most(DEFAULT_REPEATS + 1).count().unwrap());
        let (given, most) = (DEFAULT_REPEATS + 1, most_repeats(&params));
        assert!(most <= MOST_ANSWERS / REPEAT_ANSWERS && most > given, "{most}");
        let asked = (0..100).filter(|_| repeats().at_most(u64::MAX).count().unwrap()).count() as u64;
        assert_eq!(asked, most - given);
        // Trace answers are not among them.
        assert!(answers(&path, 1).count().unwrap());
        let file = folder.path().join(format!("{KEY}.repeats"));
        std::fs::write(&file, "answers of key 1\n").unwrap();
        assert!(matches!(repeats().count(), Err(Error::RepeatCount { .. })));
    }

    #[test]
    fn the_user_is_told_once() {
        let params = ckks::TOY_LOGN12_DEPTH21.validate().unwrap();
        let answers = Answers::new(KEY, &params).at_most(1);
        assert!(answers.count().unwrap() && answers.notice().is_none());
        assert!(!answers.count().unwrap());
        assert_eq!(answers.notice(), Some(1));
        assert!(!answers.count().unwrap() && answers.notice().is_none());
    }
}
