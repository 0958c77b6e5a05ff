//! Files of people who know nothing of this project, good ones and bad ones.
//!
//! All files are one program: a program for each would link the whole crate again.

mod after;
mod bad;
mod columns;
mod foreign;
mod forms;
mod parsers;
mod readings;
mod score;

use schema::Schema;
use std::path::{Path, PathBuf};

/// A file of `data/foreign`.
fn foreign(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/foreign").join(name)
}

/// A schema from the text of its file.
fn schema(text: &str) -> Schema {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.toml");
    std::fs::write(&path, text).unwrap();
    datasets::read_schema(&path).unwrap()
}
