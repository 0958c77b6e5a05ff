//! The log of decisions: a file of JSON lines in the state folder, in the clear, for its owner alone.
//!
//! A decision has a line when it is made, and another one, with the reward, when its feedback was counted.
//! The second says all that the first says, so that the lines with `reward` are a whole log of rewards. No
//! line has a feature.
//!
//! ```text
//! log/decisions.jsonl    the newest lines
//! log/decisions.1.jsonl  those before, up to one number less than there are files
//! ```

use crate::Error;
use host::lock;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The bounds of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// The size at which a new file is begun, in bytes.
    pub bytes: u64,
    /// The most files. The oldest is deleted.
    pub files: usize,
}

impl Default for LogOptions {
    /// Eight files of 16 MiB: about half a million decisions.
    fn default() -> Self {
        LogOptions { bytes: 16 << 20, files: 8 }
    }
}

/// What is known of a decision besides its features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Played {
    /// The time of the decision, in seconds since 1970.
    pub(crate) decided: u64,
    /// The round of the bandit, from 1.
    pub(crate) round: u64,
    /// The number of feedbacks in the model of the decision. A committee does not say it.
    pub(crate) model_feedbacks: Option<u64>,
    /// The number of arms.
    pub(crate) arms: u32,
    /// The arm that was played.
    pub(crate) arm: u32,
    /// The arm that the bandit chose, if it was asked.
    pub(crate) chosen: Option<u32>,
    /// The probability with which the arm was to be played.
    pub(crate) probability: f64,
    /// Whether the arm is the baseline, if there is one.
    pub(crate) baseline: Option<bool>,
    /// Whether the answer was in its range.
    pub(crate) reliable: bool,
}

/// A line.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    /// The time of the line, in seconds since 1970.
    pub(crate) time: u64,
    pub(crate) bandit: &'a str,
    pub(crate) decision: String,
    #[serde(flatten)]
    pub(crate) played: &'a Played,
    /// The number of decisions before this one whose feedback is not in the model.
    pub(crate) model_age: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reward: Option<f64>,
}

impl<'a> Line<'a> {
    /// The line of a decision, with its reward if it has one.
    pub(crate) fn new(
        time: u64,
        bandit: &'a str,
        decision: String,
        played: &'a Played,
        reward: Option<f64>,
    ) -> Self {
        let before = played.round.saturating_sub(1);
        let model_age = played.model_feedbacks.map(|feedbacks| before.saturating_sub(feedbacks));
        Line { time, bandit, decision, played, model_age, reward }
    }
}

/// The log, open.
pub(crate) struct DecisionLog {
    folder: PathBuf,
    options: LogOptions,
    /// The newest file with its length, once it was opened.
    newest: Mutex<Option<(File, u64)>>,
}

impl DecisionLog {
    /// The log in the folder `log` of the state folder, which is made if it does not exist.
    pub(crate) fn open(state: &Path, options: LogOptions) -> Result<Self, Error> {
        let folder = state.join("log");
        crate::private_folder(&folder)?;
        Ok(DecisionLog { folder, options, newest: Mutex::default() })
    }

    /// Appends lines in one write. They are not synchronised: a loss of power may lose the last of them.
    pub(crate) fn append(&self, lines: &[Line]) -> Result<(), Error> {
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line).map_err(|_| Error::Broken("a line of the log"))?;
            text.push(b'\n');
        }
        let mut newest = lock(&self.newest);
        let appended = self.write(&mut newest, &text);
        if appended.is_err() {
            *newest = None;
        }
        appended.map_err(|e| Error::disk(&self.file(0), e))
    }

    fn write(&self, newest: &mut Option<(File, u64)>, text: &[u8]) -> std::io::Result<()> {
        let (mut file, mut length) = match newest.take() {
            Some(open) => open,
            None => self.open_newest()?,
        };
        if length > 0 && length + text.len() as u64 > self.options.bytes {
            drop(file);
            self.rotate()?;
            (file, length) = self.open_newest()?;
        }
        file.write_all(text)?;
        *newest = Some((file, length + text.len() as u64));
        Ok(())
    }

    fn open_newest(&self) -> std::io::Result<(File, u64)> {
        let file = host::private_file().append(true).create(true).open(self.file(0))?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }

    /// Gives every file the next number, and deletes the one that has none left.
    fn rotate(&self) -> std::io::Result<()> {
        for number in (0..self.options.files.max(1)).rev() {
            let file = self.file(number);
            match number + 1 < self.options.files {
                _ if !file.exists() => {}
                true => std::fs::rename(&file, self.file(number + 1))?,
                false => std::fs::remove_file(&file)?,
            }
        }
        Ok(())
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder.join(match number {
            0 => "decisions.jsonl".to_string(),
            number => format!("decisions.{number}.jsonl"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn played(round: u64) -> Played {
        Played {
            decided: 90,
            round,
            model_feedbacks: Some(2),
            arms: 4,
            arm: 1,
            chosen: Some(2),
            probability: 0.25,
            baseline: None,
            reliable: true,
        }
    }

    fn append(log: &DecisionLog, round: u64) {
        let played = played(round);
        log.append(&[Line::new(100, "b", "d".into(), &played, Some(0.5))]).unwrap();
    }

    fn rounds(path: PathBuf) -> Vec<u64> {
        let lines = std::fs::read_to_string(path).unwrap_or_default();
        lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["round"].as_u64().unwrap())
            .collect()
    }

    /// A file is begun when the one before is full, and as many are kept as are asked for, also of an earlier
    /// process. They are their owner's alone.
    #[test]
    fn files_are_bounded_in_size_and_number() {
        let folder = tempfile::tempdir().unwrap();
        let line = serde_json::to_vec(&Line::new(100, "b", "d".into(), &played(1), Some(0.5))).unwrap();
        let options = LogOptions { bytes: 2 * (line.len() as u64 + 1), files: 3 };
        for rounds in [1..4, 4..10] {
            let log = DecisionLog::open(folder.path(), options).unwrap();
            rounds.for_each(|round| append(&log, round));
        }
        let log = DecisionLog::open(folder.path(), options).unwrap();
        assert_eq!([0, 1, 2].map(|number| rounds(log.file(number))), [vec![9], vec![7, 8], vec![5, 6]]);
        assert_eq!(std::fs::read_dir(&log.folder).unwrap().count(), 3);
        #[cfg(unix)]
        for number in 0..3 {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(log.file(number)).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    /// A line says what the reference says, and its age counts the decisions that the model lacks.
    #[test]
    fn a_line_has_the_fields_of_the_reference() {
        let (folder, played) = (tempfile::tempdir().unwrap(), played(7));
        let log = DecisionLog::open(folder.path(), LogOptions::default()).unwrap();
        let line = |reward| Line::new(100, "b", "d".into(), &played, reward);
        log.append(&[line(None), line(Some(0.5))]).unwrap();
        let text = std::fs::read_to_string(log.file(0)).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut want = serde_json::json!({
            "time": 100, "bandit": "b", "decision": "d", "decided": 90, "round": 7, "model_feedbacks": 2,
            "model_age": 4, "arms": 4, "arm": 1, "chosen": 2, "probability": 0.25, "baseline": null, "reliable": true,
        });
        assert_eq!(lines[0], want);
        want["reward"] = 0.5.into();
        assert_eq!(lines[1], want);
    }
}
