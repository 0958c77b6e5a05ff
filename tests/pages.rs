//! What the pages name is there: tests, files and headings.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of the repository that end so.
fn files(folder: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let left_out =
            name.starts_with('.') || ["target", "node_modules", "record", "venv"].contains(&&*name);
        if path.is_dir() && !left_out {
            files(&path, ends, found);
        } else if ends.iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
}

fn all(ends: &[&str]) -> Vec<PathBuf> {
    let mut found = vec![];
    files(Path::new(env!("CARGO_MANIFEST_DIR")), ends, &mut found);
    found
}

/// A page without its blocks of code.
fn text(page: &Path) -> String {
    let page = fs::read_to_string(page).unwrap();
    page.split("\n```").step_by(2).collect()
}

/// By what a link names a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    heading.trim_start_matches('#').trim().chars().filter_map(kept).collect()
}

/// Every test of an attack that a page names exists, and on the pages of the committee every test.
#[test]
fn pages_name_tests_that_exist() {
    let mut functions = BTreeSet::new();
    for file in all(&[".rs", ".py"]) {
        let source = fs::read_to_string(file).unwrap();
        let words: Vec<&str> = source.split_whitespace().collect();
        let named = words.windows(2).filter(|pair| ["fn", "def"].contains(&pair[0]));
        functions.extend(named.filter_map(|pair| Some(pair[1].split(['(', '<']).next()?.to_string())));
    }
    let (mut missing, mut count) = (vec![], 0);
    for page in all(&[".md"]) {
        let of_committee =
            page.file_name().is_some_and(|name| name.to_string_lossy().starts_with("committee"));
        let text = text(&page);
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let names = text.split('`').skip(1).step_by(2).filter(|code| code.chars().all(is_name));
        let is_test = |name: &&str| {
            let attack = name.starts_with("attack_") || name.starts_with("test_attack_");
            !name.ends_with('_') && (attack || of_committee && name.matches('_').count() > 2)
        };
        for name in names.filter(is_test) {
            count += 1;
            if !functions.contains(name) {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(missing.is_empty() && count > 150, "{count} tests, and those do not exist: {missing:#?}");
}

/// Every link to a page, and to one of its headings, leads there.
#[test]
fn links_lead_somewhere() {
    let (mut broken, mut count) = (vec![], 0);
    for page in all(&[".md"]) {
        let text = text(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()) {
            if link.contains(':') {
                continue;
            }
            count += 1;
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            let is_there = || {
                let headings = fs::read_to_string(&target).unwrap_or_default();
                let mut headings = headings.lines().filter(|line| line.starts_with('#'));
                heading.is_empty() || headings.any(|line| anchor(line) == heading)
            };
            if !target.exists() || !is_there() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty() && count > 150, "{count} links, and those lead nowhere: {broken:#?}");
}
