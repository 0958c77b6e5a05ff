//! Files of choices and logged decisions.

use datasets::{Dataset, Prepared, check, guess, read_schema};

/// A schema, a zero byte, and a file that it describes: JSON lines if they begin with a brace, else a table.
/// What is read has finite features of a norm of at most 1, and rewards from 0 to 1.
pub(crate) fn file(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (text, rest) = (&input[..at], input.get(at + 1..).unwrap_or_default());
    let folder = tempfile::tempdir().expect("a folder for the files");
    let extension = if rest.first() == Some(&b'{') { "json" } else { "csv" };
    let [schema, file] =
        ["schema.toml".into(), format!("file.{extension}")].map(|name| folder.path().join(name));
    std::fs::write(&schema, text).expect("a file in the folder");
    std::fs::write(&file, rest).expect("a file in the folder");
    if let Ok(guess) = guess(&file) {
        std::fs::write(folder.path().join("guess.toml"), guess.toml(&file)).expect("a file in the folder");
        let read = read_schema(&folder.path().join("guess.toml"));
        assert!(read.is_err() || read == Ok(guess.schema), "a schema is read differently when it is written");
    }
    // A schema may name other files, which are not those of this input.
    let alone = read_schema(&schema).ok().filter(|schema| schema.tables.is_empty());
    let Some(Ok(prepared)) = alone.map(|schema| Prepared::fit(&file, &schema)) else { return };
    check(&prepared).expect("every round was read before");
    let dataset = Dataset::load(&prepared).expect("every round was read before");
    for round in dataset.rounds() {
        assert!(round.features.max_norm() <= 1.0 + 1e-9, "a row is longer than 1");
        for arm in 0..dataset.arms().len() {
            assert!(round.observed.reward(arm).is_none_or(|reward| (0.0..=1.0).contains(&reward)));
        }
    }
}
