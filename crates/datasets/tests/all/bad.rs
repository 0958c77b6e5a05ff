//! Every error names the file, the line, the column and the value where there are some, and what to do.

use datasets::{Dataset, Prepared, guess, read_schema};
use std::path::Path;

const WIDE: &str = "layout = \"wide\"\nchosen = \"y\"\n[candidate]\nx = \"min-max\"\n";
const WIDE_OF_TWO: &str =
    "layout = \"wide\"\ncandidates = [\"a\", \"b\"]\nchosen = \"y\"\n[candidate]\nx = \"min-max\"\n";
const LONG: &str = "layout = \"long\"\nround = [\"r\"]\nchosen = \"y\"\n[candidate]\nx = \"min-max\"\n";
const JSON: &str = "layout = \"dsjson\"\n[candidate]\nx = \"min-max\"\n";

/// The error of a file under a schema, without its folder.
fn error(name: &str, bytes: &[u8], schema: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let [file, path] = [name, "s.toml"].map(|name| folder.path().join(name));
    std::fs::write(&file, bytes).unwrap();
    std::fs::write(&path, schema).unwrap();
    let result = read_schema(&path).and_then(|schema| Prepared::fit(&file, &schema));
    let error =
        result.err().unwrap_or_else(|| panic!("{schema} accepts {:?}", String::from_utf8_lossy(bytes)));
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

#[track_caller]
fn refused(name: &str, text: &str, schema: &str, wants: &[&str]) {
    let got = error(name, text.as_bytes(), schema);
    for want in wants {
        assert!(got.contains(want), "{want:?} is not in {got:?}");
    }
}

#[test]
fn bad_tables_are_refused_at_their_place() {
    let head = "x.a,x.b,y\n";
    for (body, wants) in [
        (
            "1,2,a\n1,two,b\n",
            &["f.csv, line 3, column x.b, value \"two\"", "no finite number", "one-hot"][..],
        ),
        ("1,2,a\n1,\"35,22 €\",b\n", &["column x.b, value \"35,22 €\"", "add the column to `decimal_comma`"]),
        ("1,2,a\n1,2\n", &["f.csv, line 3", "2 cells", "3 names"]),
        ("1,2,c\n", &["line 2, column y, value \"c\"", "none of the candidates a, b", "chosen_pattern"]),
        ("1,\"2,a\n", &["f.csv"]),
        ("", &["f.csv", "no rounds follow the header"]),
        (",1,a\n", &["all 1 rounds are dropped", "x has no value", "line 2"]),
        ("2,2,a\n2,2,b\n", &["every row of features is zero"]),
    ] {
        refused("f.csv", &format!("{head}{body}"), WIDE, wants);
    }
    refused("f.csv", "x.a,y\n1,a\n", WIDE, &["line 1", "1 candidates", "x.{candidate}", "`pattern`"]);
    refused(
        "f.csv",
        "x.a,x.b,z\n1,2,a\n",
        WIDE,
        &["line 1, column y", "no such column: the file has x.a, x.b, z"],
    );
    refused("f.csv", "x.a,x.a,y\n1,2,a\n", WIDE, &["column x.a", "rename"]);
    refused("f.csv", "", WIDE, &["there is no header"]);
    assert!(error("f.csv", b"x.a,x.b,y\n1,\xff,a\n", WIDE).contains("line 2: the row is not UTF-8"));
    refused(
        "f.csv",
        "x.a,x.b,y\n1,2,a\n-1,2,b\n",
        &WIDE.replace("min-max", "log"),
        &["line 3, column x.a, value \"-1\"", "from 0"],
    );
    refused("f.parquet", "PAR1", WIDE, &["f.parquet", "Parquet"]);
    refused("f.csv", "PAR1....", WIDE, &["f.csv: cannot be read as Parquet"]);
}

#[test]
fn bad_rounds_of_long_tables_are_refused_at_their_place() {
    let head = "r,x,y,w,p,g\n";
    let with = |more: &str| LONG.replace("[candidate]", &format!("{more}\n[candidate]"));
    for (body, schema, wants) in [
        ("1,1,1,,,\n1,2,1,,,\n", LONG.to_string(), &["all 1 rounds", "two candidates", "line 2"][..]),
        ("1,1,2,,,\n", LONG.into(), &["line 2, column y, value \"2\"", "must be 1"]),
        (
            "1,1,1,,,\n1,2,0,,,\n2,1,1,,,\n2,3,0,,,\n1,3,0,,,\n",
            LONG.into(),
            &["line 6, column r, value \"1\"", "stand apart", "sort"],
        ),
        (
            "1,1,1,9,,\n1,2,0,,,\n2,1,1,-2.5,,\n2,2,0,,,\n3,1,1,182.5,,\n3,2,0,,,\n",
            with("reward = \"w\""),
            &[
                "line 2, column w, value \"9\"",
                "reward_range = [0, 1]",
                "go from -2.5 to 182.5: set reward_range = [-2.5, 182.5], or wider limits if later rewards",
            ],
        ),
        (
            "1,1,1,9,,\n1,2,0,,,\n",
            with("reward = \"w\""),
            &["reward_range = [0, 1]: set it to the values of reward 0 and reward 1"],
        ),
        (
            "1,1,1,1,2,\n1,2,0,,,\n",
            with("reward = \"w\"\npropensity = \"p\""),
            &["line 2, column p, value \"2\"", "from 1e-9 to 1"],
        ),
        (
            "1,1,1,1,,\n1,2,0,,,\n",
            with("reward = \"w\"\npropensity = \"p\""),
            &["line 2, column p", "from 1e-9 to 1"],
        ),
        (
            "1,1,1,,,u\n1,2,0,,,v\n",
            format!("{LONG}[context]\ng = \"one-hot\"\n"),
            &["line 3, column g, value \"v\"", "move it"],
        ),
        (
            "1,1,1,,,u\n1,2,0,,,v\n",
            with("candidate_column = \"g\"\ncandidates = [\"u\", \"t\"]"),
            &["all 1 rounds", "does not list", "line 2"],
        ),
        (
            "1,1,1,,,u\n1,2,0,,,u\n",
            with("candidate_column = \"g\"\ncandidates = [\"u\", \"t\"]"),
            &["all 1 rounds", "twice", "line 2"],
        ),
    ] {
        refused("f.csv", &format!("{head}{body}"), &schema, wants);
    }
    let many: String = (0..66).map(|i| format!("{},k{i},{}\n", i / 2, 1 - i % 2)).collect();
    let schema = LONG.replace("min-max", "one-hot");
    refused("f.csv", &format!("r,x,y\n{many}"), &schema, &["line 66, column x, value \"k64\"", "hash:N"]);
}

#[test]
fn bad_lines_of_json_are_refused_at_their_place() {
    let line = |rest: &str| format!("{{\"c\":{{\"_multi\":[{{\"x\":1}},{{\"x\":2}}]}},{rest}}}\n");
    let good = line("\"_label_cost\":0,\"_label_Action\":1,\"_label_probability\":0.5");
    for (bad, wants) in [
        ("{\"c\":\n".to_string(), &["f.json, line 2", "no JSON object"][..]),
        (
            line("\"_label_cost\":0,\"_label_Action\":3"),
            &["line 2, column _label_Action, value \"3\"", "1 to 2"],
        ),
        (
            line("\"_label_cost\":0,\"_label_Action\":1,\"_labelIndex\":1"),
            &["line 2, column _labelIndex", "mend one"],
        ),
        (
            line("\"_label_cost\":-2,\"_label_Action\":1"),
            &["line 2, column _label_cost, value \"-2\"", "reward_range"],
        ),
        (
            line("\"_label_cost\":0,\"_label_Action\":1,\"_label_probability\":0"),
            &["column _label_probability, value \"0\""],
        ),
        (
            line("\"_label_cost\":0,\"_label_Action\":1,\"pdrop\":0.5"),
            &["line 2, column pdrop, value \"0.5\"", "log all lines"],
        ),
        (good.replace("\"x\":1", "\"x\":\"one\""), &["line 2, column x, value \"one\"", "no finite number"]),
        (format!("{{\"c\":\"{}\"}}", "a".repeat(1 << 20)), &["line 2", "longer than 1 MiB"]),
    ] {
        refused("f.json", &format!("{good}{bad}"), JSON, wants);
    }
}

/// A quote that is never closed makes no cell of the rest of a large file: its row is left out, and the
/// others are read. Lines without an end take no memory.
#[test]
fn rows_are_bounded() {
    let mut text = String::from("x.a,x.b,y\n1,\"2\n");
    text.extend((0..1 << 18).map(|i| format!("{},2,a\n", i % 3)));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.csv");
    std::fs::write(&file, text).unwrap();
    let prepared = Prepared::fit(&file, &crate::schema(WIDE_OF_TWO)).unwrap();
    assert_eq!(
        (prepared.rounds(), prepared.notes()[0].rows, prepared.notes()[0].first_line),
        (1 << 18, 1, 2)
    );
    assert!(prepared.notes()[0].what.contains("is not closed"), "{:?}", prepared.notes());
    refused(
        "f.csv",
        &format!("x.a,x.b,y\n1,2,{}\n", "a".repeat(1 << 20)),
        WIDE,
        &["line 2: a line is longer than 1 MiB"],
    );
}

/// The attack: a name of half a line stands in the path of each of a quarter million values, 128 GiB in all.
#[test]
fn attack_long_names_of_many_values_take_no_memory() {
    let line = |name: usize, values: usize| {
        let candidate = format!("{{\"{}\":[{}]}}", "K".repeat(name), vec!["0"; values].join(","));
        format!("{{\"c\":{{\"_multi\":[{candidate},{{\"x\":1}}]}},\"_label_Action\":1,\"_label_cost\":0}}\n")
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.json");
    for (name, values) in [(524_000, 262_000), (3000, 262_000), (524_000, 1)] {
        refused(
            "f.json",
            &line(name, values),
            JSON,
            &["f.json, line 1", "a path has at most 4096 bytes", "too long"],
        );
        std::fs::write(&file, line(name, values)).unwrap();
        assert!(guess(&file).unwrap_err().to_string().contains("too long"));
    }
    // The control: the paths of a line of the usual kind.
    std::fs::write(&file, line(30, 1000)).unwrap();
    Prepared::fit(&file, &crate::schema(JSON)).unwrap();
}

/// A header of half a million columns is refused by its number, and one with the most allowed is read by
/// positions that are looked up.
#[test]
fn attack_many_columns_are_refused() {
    let columns = vec![""; 1 << 19].join(",");
    refused("f.csv", &format!("x.a{columns}\n"), WIDE, &["line 1", "columns", "65536"]);
    let columns: Vec<String> = (0..40_000).map(|i| format!("x.{i}")).collect();
    refused("f.csv", &format!("{},y\n", columns.join(",")), WIDE, &["no rounds follow"]);
}

/// Without a schema, rows of a file of purchases are bounded, and so are brands, and the features before they
/// are computed: some kilobytes would take gigabytes.
#[test]
fn attack_purchases_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.csv");
    let table = |brands: usize, rows: usize| {
        let names: Vec<String> = (0..brands).map(|b| format!("p.b{b}")).collect();
        let row = format!("1,b0,{}\n", vec!["0"; brands].join(","));
        format!("id,choice,{}\n{}", names.join(","), row.repeat(rows))
    };
    for (text, wants) in [
        (table(5000, 1), &["line 1", "5000 brands", "4096"][..]),
        (table(4000, 9), &["f.csv, line 10", "more than 1073741824 bytes"]),
        (format!("{}1,\"{}", table(2, 1), "0,0,0\n".repeat(1 << 18)), &["line 3: choice"]),
        (format!("{}1,b0,{}", table(2, 1), "0".repeat(1 << 20)), &["line 3: a line is longer than 1 MiB"]),
    ] {
        std::fs::write(&file, text).unwrap();
        let got = Dataset::open(&file, None).unwrap_err().to_string();
        assert!(wants.iter().all(|want| got.contains(want)), "{got}");
    }
    std::fs::write(&file, table(3, 2)).unwrap();
    assert_eq!(Dataset::open(&file, None).unwrap().rounds().len(), 2);
}

#[test]
fn bad_schemas_are_refused_by_entry() {
    let table = "x.a,x.b,y\n1,2,a\n2,3,b\n";
    for (schema, wants) in [
        (WIDE.replace("min-max", "minmax"), &["s.toml, line 4", "minmax", "one-hot", "docs/data.md"][..]),
        (WIDE.replace("chosen", "choosen"), &["s.toml, line 2", "choosen"]),
        (WIDE.replace("chosen = \"y\"\n", ""), &["s.toml: schema, chosen:", "column of the choice"]),
        ("layout = \"wide\"\nchosen = \"y\"\n".into(), &["schema, [candidate]", "identity"]),
        (format!("previous = true\n{WIDE}"), &["schema, previous", "column of the user"]),
        (format!("candidates = [\"a\"]\n{WIDE}"), &["schema, candidates", "2 to 4096"]),
        (format!("reward_range = [1, 1]\n{WIDE}"), &["schema, reward_range"]),
        (format!("interactions = [[\"x\", \"z\"]]\n{WIDE}"), &["schema, interactions", "z is no feature"]),
        (format!("project = {{ features = 0 }}\n{WIDE}"), &["schema, project"]),
        (format!("pattern = \"x\"\n{WIDE}"), &["schema, pattern", "{candidate}"]),
        (format!("interactions = [{}]\n{WIDE}", "[\"x\", \"x\"], ".repeat(600)), &["601 features", "512"]),
    ] {
        refused("f.csv", table, &schema, wants);
    }
}

#[test]
fn files_without_a_known_layout_get_advice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.csv");
    std::fs::write(&file, "a,b\n1,2\n").unwrap();
    assert!(Dataset::open(&file, None).unwrap_err().to_string().contains("data check FILE > schema.toml"));
    assert!(guess(&file).unwrap_err().to_string().contains("no column looks like a choice"));
    let missing = Dataset::open(Path::new("/nowhere/f.csv"), None).unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere/f.csv: cannot be opened"), "{missing}");
    assert!(Dataset::open(folder.path(), None).unwrap_err().to_string().contains("folder"));
}
