//! The configuration reference: tables of a program's options from its help text, in sections of
//! `docs/configuration.md` that tests hold equal to the code.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// An option of a program, as its help describes it.
#[derive(Debug)]
pub struct ProgramOption {
    /// Its name with the dashes.
    pub name: String,
    /// The name of its value; `None` for a flag.
    pub value: Option<String>,
    /// What follows `range:` in the help.
    pub range: Option<String>,
    /// What follows `default:` in the help.
    pub default: Option<String>,
    /// The text.
    pub about: String,
}

impl ProgramOption {
    /// The ends of a range of whole numbers.
    pub fn ends(&self) -> Option<(u64, Option<u64>)> {
        let range = self.range.as_deref()?;
        match range.strip_prefix("at least ") {
            Some(least) => Some((least.parse().ok()?, None)),
            None => {
                let (least, most) = range.split_once(" to ")?;
                Some((least.parse().ok()?, Some(most.parse().ok()?)))
            }
        }
    }
}

/// The options of `program --help`, but for help and version.
///
/// # Panics
/// If the program does not run.
pub fn options(program: &str) -> Vec<ProgramOption> {
    let help = Command::new(program).arg("--help").output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    let mut found: Vec<ProgramOption> = Vec::new();
    for line in text.lines().skip_while(|line| *line != "Options:") {
        let words = line.trim();
        // Texts are indented by ten.
        if let Some(at) =
            words.find("--").filter(|_| words.starts_with('-') && !line.starts_with("          "))
        {
            let (name, value) = words[at..].split_once(' ').map_or((&words[at..], None), |(name, value)| {
                (name, Some(value.trim_matches(['<', '>']).to_string()))
            });
            let (range, default, about) = (None, None, String::new());
            found.push(ProgramOption { name: name.into(), value, range, default, about });
        } else if let Some(option) = found.last_mut().filter(|_| !words.is_empty()) {
            option.about += if option.about.is_empty() { "" } else { " " };
            option.about += words;
        }
    }
    found.retain(|option| !["--help", "--version"].contains(&option.name.as_str()));
    for option in &mut found {
        option.default = take(&mut option.about, "default");
        option.range = take(&mut option.about, "range");
    }
    found
}

/// Takes `[what: …]` out of a text.
fn take(text: &mut String, what: &str) -> Option<String> {
    let start = text.find(&format!("[{what}: "))?;
    let end = start + text[start..].find(']')?;
    let found = text[start + what.len() + 3..end].to_string();
    text.replace_range(start..=end, "");
    *text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" .", ".");
    Some(found)
}

/// A row for each option.
pub fn table(options: &[ProgramOption]) -> String {
    let mut rows =
        "| option | range | default | what it does, and when to change it |\n|---|---|---|---|\n".to_string();
    for ProgramOption { name, value, range, default, about } in options {
        let kind = value.as_ref().map_or("given or not".to_string(), |value| format!("`{value}`"));
        let range = range.as_ref().map_or(kind, |range| range.clone());
        let default = default.as_ref().map_or("-".to_string(), |default| format!("`{default}`"));
        let about = about.replace('|', "\\|").replace('<', "&lt;");
        rows += &format!("| `{name}` | {range} | {default} | {about} |\n");
    }
    rows
}

/// Tries every option with a range of numbers just beyond its ends: the program must refuse it at once.
///
/// # Panics
/// If an option with a number states no range, or if a value outside of it is not refused.
pub fn check_ranges(program: &str, options: &[ProgramOption], needed: &[&str]) {
    let mut tried = 0;
    for option in options {
        let number = ["N", "SECONDS", "MIB", "DAYS"].contains(&option.value.as_deref().unwrap_or_default());
        let ends = option.ends();
        assert!(!number || ends.is_some(), "{} states no range", option.name);
        let Some((least, most)) = ends else { continue };
        for outside in [least.checked_sub(1), most.map(|most| most + 1)].into_iter().flatten() {
            let refused = Command::new(program)
                .args(needed)
                .arg(&option.name)
                .arg(outside.to_string())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{} {outside}: {said}", option.name);
            assert!(said.contains(&option.name), "{said}");
            tried += 1;
        }
    }
    assert!(tried > 0);
}

/// Compares the section `name` of the page with `text`, or writes it if `UPDATE_DOCS` is set.
///
/// # Panics
/// If they differ.
pub fn check_section(name: &str, text: &str) {
    /// Tests of one program write one after the other.
    static WRITES: Mutex<()> = Mutex::new(());
    let _writes = WRITES.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->\n"));
    let start = page.find(&begin).unwrap() + begin.len();
    let stop = page.find(&end).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, [&page[..start], text, &page[stop..]].concat()).unwrap();
    }
    for (got, want) in page[start..stop].lines().zip(text.lines()) {
        assert_eq!(got, want, "docs/configuration.md: UPDATE_DOCS=1 writes it anew");
    }
    assert_eq!(&page[start..stop], text, "docs/configuration.md: UPDATE_DOCS=1 writes it anew");
}
