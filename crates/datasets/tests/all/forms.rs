//! One table in many forms: packed, in UTF-16, with other delimiters and ends of lines, through a pipe,
//! without a header, with rows that are no rows, and in two files.

use crate::schema;
use datasets::{Checked, Dataset, Error, Prepared, check, guess};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::{Path, PathBuf};

const LONG: &str =
    "layout = \"long\"\nround = [\"round\"]\nchosen = \"chosen\"\narms = 3\n[candidate]\nprice = \"none\"\n";

/// The rows of `rounds` rounds of three candidates, without a header.
fn rows(rounds: usize) -> Vec<String> {
    let row = |i: usize| {
        format!("{},i{},{}.5,{}", i / 3, i % 3, 1 + i % 90, u8::from((i / 3 + i).is_multiple_of(3)))
    };
    (0..3 * rounds).map(row).collect()
}

fn table(rounds: usize) -> String {
    format!("round,item,price,chosen\n{}\n", rows(rounds).join("\n"))
}

/// A folder with a file.
struct Made(tempfile::TempDir, &'static str);

impl Made {
    fn new(name: &'static str, bytes: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), bytes).unwrap();
        Made(folder, name)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join(self.1)
    }

    fn fit(&self, text: &str) -> Result<Prepared, Error> {
        Prepared::fit(&self.path(), &schema(text))
    }

    fn checked(&self, text: &str) -> Checked {
        check(&self.fit(text).unwrap()).unwrap()
    }

    /// The error of a proposal and of a schema.
    #[track_caller]
    fn refused(&self, text: &str, wants: &[&str]) {
        for error in [guess(&self.path()).unwrap_err(), self.fit(text).unwrap_err()] {
            let error = error.to_string();
            assert!(wants.iter().all(|want| error.contains(want)), "{wants:?}: {error}");
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn utf16(text: &str, mark: bool, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let mark = mark.then_some(0xfeff);
    mark.into_iter().chain(text.encode_utf16()).flat_map(bytes).collect()
}

#[test]
fn a_table_is_the_same_in_every_form() {
    // A character beyond the first plane is a pair in UTF-16. The text is longer than what is read at a time.
    let plain = table(2000).replace("i0", "é𝒜 0").replace("i1", "\u{4e2d}");
    let want = Made::new("t.csv", &plain);
    let want = (Dataset::load(&want.fit(LONG).unwrap()).unwrap(), guess(&want.path()).unwrap().schema);
    let both = |bytes: &[u8]| [gzip(&bytes[..1000]), gzip(&bytes[1000..])].concat();
    let forms = [
        gzip(plain.as_bytes()),
        both(plain.as_bytes()),
        zstd(plain.as_bytes()),
        [zstd(&plain.as_bytes()[..999]), zstd(&plain.as_bytes()[999..])].concat(),
        format!("\u{feff}{plain}").into_bytes(),
        utf16(&plain, true, u16::to_le_bytes),
        utf16(&plain, true, u16::to_be_bytes),
        utf16(&plain.replace("é𝒜 0", "i0").replace('\u{4e2d}', "i1"), false, u16::to_le_bytes),
        gzip(&utf16(&plain, true, u16::to_le_bytes)),
        plain.replace('\n', "\r\n").into_bytes(),
        plain.replace('\n', "\r").into_bytes(),
        plain.replace('\n', "\n\n").into_bytes(),
        plain.replace(',', "\t").into_bytes(),
        plain.replace(',', ";").into_bytes(),
        plain.replace(',', "|").into_bytes(),
        plain.replace('\n', ",,\n").into_bytes(),
        format!("{plain},,,\n,,,\n").into_bytes(),
        format!("sep=;\r\n{}", plain.replace(',', ";").replace('\n', "\r\n")).into_bytes(),
        plain.replace("price", "\"price\"").replace(".5,", ".5, ").into_bytes(),
    ];
    for (at, form) in forms.iter().enumerate() {
        // Not by its name.
        let made = Made::new("table", form);
        assert_eq!(Dataset::load(&made.fit(LONG).unwrap()).unwrap(), want.0, "form {at}");
        let proposed = guess(&made.path()).unwrap().schema;
        assert!(proposed == want.1 || at == 7 && proposed.round == want.1.round, "form {at}");
        assert_eq!(made.checked(LONG).notes, [], "form {at}");
    }
}

/// Names with the delimiter of another kind do not decide.
#[test]
fn the_delimiter_is_that_of_most_rows() {
    let semicolons = "round;title, year, place;price;chosen\n0;Heat, 1995;1,5;1\n0;Ronin;2,5;0\n".to_string();
    for (text, column) in [
        (semicolons, "title, year, place"),
        ("a|b, c, d|e\n1|2, 3|4\n5|6|7\n".into(), "b, c, d"),
        ("\"a;b;c\",\"d\"\n\"1;2;3\",4\n".into(), "a;b;c"),
    ] {
        let made = Made::new("t.csv", text);
        let header = format!(
            "layout = \"wide\"\nchosen = \"{column}\"\ncandidates = [\"p\", \"q\"]\nidentity = true\n"
        );
        let error = made.fit(&header).unwrap_err().to_string();
        assert!(error.contains("none of the candidates p, q"), "{error}");
    }
}

/// Lines are those of the file, whatever ends them, and wherever cells span several of them.
#[test]
fn line_numbers_are_those_of_the_file() {
    let text = "round,note,price,chosen\n\n0,a,1,1\n0,\"b\n\nc\",2,0\n\n0,c,x,0\n";
    for text in [text.to_string(), text.replace('\n', "\r\n"), text.replace('\n', "\r")] {
        let error = Made::new("t.csv", text).fit(&LONG.replace("arms = 3\n", "")).unwrap_err().to_string();
        assert!(error.contains("line 8, column price, value \"x\""), "{error}");
    }
    let lines =
        "{\"c\":{\"_multi\":[{\"x\":1},{\"x\":2}]},\"_label_Action\":1,\"_label_cost\":0}\r\n\r\n".repeat(9);
    let error = Made::new("t.json", format!("{lines}{}", lines.replacen(":0}", ":7}", 1)));
    let error = error.fit("layout = \"dsjson\"\n[candidate]\nx = \"none\"\n").unwrap_err().to_string();
    assert!(error.contains("line 19, column _label_cost"), "{error}");
}

/// A quote that is a text swallows no rows: neither where it is closed by chance, nor where it never is.
#[test]
fn stray_quotes_swallow_no_rows() {
    let lines = |with: &[(usize, &str, &str)]| {
        let mut lines = rows(40);
        for (at, from, to) in with {
            lines[*at] = lines[*at].replace(from, to);
        }
        format!("round,item,price,chosen\n{}\n", lines.join("\n"))
    };
    let (open, end, never) = ((30, "i0", "\"Second"), (62, "i2", "Fifth\""), (60, "i0", "\"Third"));
    for (with, stray) in [
        (&[open, end][..], 1),
        (&[open, (31, "i1", "Third\"")], 1),
        (&[open, never], 2),
        (&[(30, "i0", "5\" pipe"), (33, "i0", "\"Heat\" again"), (36, "i0", "\"a \"\"b\"\" c\"")], 0),
        (&[(119, "i2", "\"the last")], 1),
    ] {
        for delimiter in [",", "\t"] {
            let checked = Made::new("t.csv", lines(with).replace(',', delimiter)).checked(LONG);
            assert_eq!((checked.rounds, checked.dropped.len()), (40, 0), "{with:?}: {checked:?}");
            let said: u64 = checked.notes.iter().map(|note| note.rows).sum();
            assert_eq!(said, stray, "{with:?}: {:?}", checked.notes);
            assert!(stray == 0 || checked.notes[0].first_line == with[0].0 as u64 + 2);
        }
    }
    // A cell of several lines is a cell, also in the last column, and where its lines have delimiters.
    let text = lines(&[(30, "i0", "\"a\nb, c\nd\""), (33, "i0", "\"a\n\"\"b\"\"\n\"")]);
    let checked = Made::new("t.csv", text).checked(LONG);
    assert_eq!((checked.rounds, checked.notes), (40, vec![]));
    let text: String = table(40).lines().map(|line| format!("{line},\"well,\nno, or, yes\"\n")).collect();
    let text = text.replacen("\"well,\nno, or, yes\"", "note", 1);
    assert_eq!(Made::new("t.csv", text).checked(LONG).notes, []);
}

/// A row that is none costs its round, and is named. Where they are many, the file is refused at the first.
#[test]
fn rows_that_are_none_are_left_out_and_named() {
    for (bad, says) in [
        ("7,i1,2.5,0,9", "5 cells and the header has 4 names"),
        ("7,i1", "2 cells and the header has 4 names"),
        ("7,\"i1", "is not closed"),
        ("round,item,price,chosen", "the header once more"),
    ] {
        let mut lines = rows(40);
        lines[22] = bad.into();
        let text = format!("round,item,price,chosen\n{}\n", lines.join("\n"));
        let made = Made::new("t.csv", text);
        let checked = made.checked(LONG);
        assert_eq!((checked.rounds, checked.dropped.len(), checked.notes.len()), (39, 1, 1), "{checked:?}");
        assert_eq!((checked.notes[0].rows, checked.notes[0].first_line), (1, 24));
        assert!(checked.notes[0].what.contains(says), "{:?}", checked.notes);
        let shown = checked.lines().join("\n");
        assert!(shown.contains("1 rows left out: ") && shown.contains("(first in line 24)"), "{shown}");
        assert!(guess(&made.path()).is_ok());
        // Thirteen of 120 rows are too many, and twelve are not.
        let spoil = |n: usize| {
            let mut lines = rows(40);
            lines[..n].iter_mut().for_each(|line| *line = bad.into());
            Made::new("t.csv", format!("round,item,price,chosen\n{}\n", lines.join("\n")))
        };
        assert_eq!(spoil(12).checked(LONG).rounds, 36);
        spoil(13).refused(LONG, &["t.csv, line 2", says, "13 of the 120 rows"]);
    }
    let line = "{\"c\":{\"_multi\":[{\"x\":1},{\"x\":2}]},\"_label_Action\":1,\"_label_cost\":0}\n";
    let made = Made::new("t.json", format!("{}{{\"c\":\n{line}", line.repeat(30)));
    let notes = made.checked("layout = \"dsjson\"\n[candidate]\nx = \"none\"\n").notes;
    assert_eq!((notes.len(), notes[0].first_line, guess(&made.path()).unwrap().rows), (1, 31, 31));
}

#[test]
fn a_table_without_a_header_is_told_and_can_be_given_names() {
    let rows = rows(40).join("\n");
    let made = Made::new("t.csv", &rows);
    made.refused(LONG, &["line 1: the first line looks like a row", "number 0", "no header", "header = ["]);
    let named = format!("header = [\"round\", \"item\", \"price\", \"chosen\"]\n{LONG}");
    let want = Dataset::load(&Made::new("t.csv", table(40)).fit(LONG).unwrap()).unwrap();
    assert_eq!(Dataset::load(&made.fit(&named).unwrap()).unwrap(), want);
    // A header that is there all the same is no row.
    let twice = Made::new("t.csv", table(40)).checked(&named);
    assert_eq!((twice.rounds, twice.notes[0].first_line), (40, 1));
    let short = made.fit(&named.replace("\"item\", ", "")).unwrap_err().to_string();
    assert!(short.contains("line 1: the row has 4 cells and the header has 3 names"), "{short}");
    for (text, sure) in [
        ("p,x,n,p\np,y,n,p\np,x,n,p\n".repeat(9), true),
        ("u1,red,4.5,1\nu2,red,3.5,0\nu3,blue,1.5,1\n".into(), true),
        ("196\t242\t3\n186\t302\t3\n22\t377\t1\n".into(), true),
        ("cap,odor,class\nx,n,p\ny,n,e\nx,n,p\n".into(), false),
        ("user,2019,2020\nu1,1.5,2.5\nu2,2.5,1.5\nu3,1,2\n".into(), false),
        ("0,1,2,3\n5,1,2,7\n5,2,2,7\n6,2,2,8\n".into(), false),
    ] {
        let error =
            guess(&Made::new("t.csv", &text).path()).map_or_else(|e| e.to_string(), |_| String::new());
        assert_eq!(error.contains("the first line looks like a row"), sure, "{text}: {error}");
    }
    let colons = Made::new("t.dat", "1::1193::5::978300760\n1::661::3::978302109\n1::914::3::978301968\n");
    colons.refused(LONG, &["line 1", "two colons"]);
}

/// What is not read is named, with what to do.
#[test]
fn other_forms_are_named() {
    let mut tar = vec![b'a'; 600];
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, wants) in [
        (
            b"PK\x03\x04..........[Content_Types].xml....xl/workbook.xml".to_vec(),
            &["spreadsheet", "save the sheet as CSV"][..],
        ),
        (b"PK\x03\x04.........rows.csv".to_vec(), &["zip archive", "unpack it"]),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec(), &[".xls", "CSV"]),
        (b"BZh91AY&SY".to_vec(), &["bzip2", "bzcat"]),
        (b"\xfd7zXZ\0".to_vec(), &["xz", "xzcat"]),
        (gzip(&tar), &["tar archive packed with gzip", "unpack"]),
        (gzip(&gzip(b"a,b\n")), &["gzip file packed with gzip", "once more"]),
        (b"SQLite format 3\0".to_vec(), &["SQLite", "sqlite3 -header -csv"]),
        (b"ARROW1\0\0".to_vec(), &["Arrow", "Parquet"]),
        (b"<!DOCTYPE html><html>404".to_vec(), &["page of the web"]),
        (b" [\n {\"a\": 1},\n".to_vec(), &["list in JSON", "jq -c"]),
        (b"a,b\n1,\0\n".to_vec(), &["no text"]),
        (b"\xff\xfe\0\0a\0\0\0".to_vec(), &["UTF-32"]),
        (gzip(b"PAR1...."), &["Parquet file packed with gzip", "unpack it first"]),
        (utf16("round,item\n", true, u16::to_le_bytes)[..21].to_vec(), &["ends within a character"]),
        (b"\xff\xfe\x00\xd8a\0".to_vec(), &["not UTF-16"]),
    ] {
        Made::new("t.csv", bytes).refused(LONG, wants);
    }
    // A packed file that was cut is not a shorter file.
    for packed in [gzip(table(3000).as_bytes()), zstd(table(3000).as_bytes())] {
        for cut in [3, packed.len() / 2, packed.len() - 12] {
            let error = Made::new("t.gz", &packed[..packed.len() - cut]).fit(LONG).unwrap_err().to_string();
            assert!(error.contains("cannot be unpacked") && error.contains("cut off"), "{error}");
        }
    }
}

/// The attack: some kilobytes that unpack to many megabytes. They are unpacked as far as a line may be long.
#[test]
fn attack_packed_bombs_take_no_memory() {
    let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
    (0..64).for_each(|_| packer.write_all(&[b'a'; 1 << 20]).unwrap());
    let mut bomb = packer.finish().unwrap();
    assert!(bomb.len() < 1 << 14, "{}", bomb.len());
    // What follows is not reached.
    bomb.extend(b"no frame");
    Made::new("t.zst", &bomb).refused(LONG, &["line 1: a line is longer than 1 MiB"]);
}

/// The tables of a schema stand beside the file, by keys that are texts.
#[test]
fn tables_are_joined_by_a_key() {
    let made = Made::new("log.csv", table(40).replace("round,item", "round,sku").replace(",i", ",00"));
    let beside = |name: &str, text: &str| std::fs::write(made.0.path().join(name), text).unwrap();
    beside("items.csv", "id;weight;kind\n000;1.5;a\n001;2.5;b\n002;3.5;a\n0;9;z\n");
    let text = LONG.replace("price = \"none\"", "\"items.weight\" = \"none\"\n\"items.kind\" = \"one-hot\"")
        + "[tables.items]\nfile = \"items.csv\"\nkey = \"sku\"\ntheir_key = \"id\"\n";
    beside("s.toml", &text);
    let read = || datasets::read_schema(&made.0.path().join("s.toml")).unwrap();
    let prepared = Prepared::fit(&made.path(), &read()).unwrap();
    let mut first = None;
    prepared
        .each(|round| {
            first.get_or_insert(round.raw.candidates);
            Ok(())
        })
        .unwrap();
    let weights: Vec<f64> = first.unwrap().iter().map(|cells| cells[1].number().unwrap()).collect();
    assert_eq!(weights, [1.5, 2.5, 3.5]);
    assert_eq!((prepared.notes(), prepared.transform().features()), (&[][..], 3));
    // A transformation for devices names no file.
    let public = serde_json::to_string(prepared.transform()).unwrap();
    assert!(public.contains("items.weight") && !public.contains("items.csv"), "{public}");
    // A key that the table does not have is said, and its rounds are dropped for the lack of a value.
    beside("items.csv", "id;weight;kind\n000;1.5;a\n001;2.5;b\n");
    let error = Prepared::fit(&made.path(), &read()).unwrap_err().to_string();
    assert!(error.contains("items.kind has no value"), "{error}");
    beside("s.toml", &format!("missing = \"zero\"\n{text}"));
    let noted = check(&Prepared::fit(&made.path(), &read()).unwrap()).unwrap().notes;
    assert_eq!((noted.len(), noted[0].rows, noted[0].first_line), (1, 40, 4));
    assert!(noted[0].what.contains("the table items has no row for their sku"), "{noted:?}");
    beside("items.csv", "id;weight;kind\n000;1.5;a\n000;2.5;b\n");
    let error = Prepared::fit(&made.path(), &read()).unwrap_err().to_string();
    assert!(error.contains("items.csv, line 3, column id, value \"000\": two rows have this key"), "{error}");
    std::fs::remove_file(made.0.path().join("items.csv")).unwrap();
    let error = Prepared::fit(&made.path(), &read()).unwrap_err().to_string();
    assert!(error.contains("items.csv: cannot be opened"), "{error}");
}

/// A log of shown candidates, whose features are in a table of candidates.
#[test]
fn candidates_of_a_log_have_rows_in_a_table() {
    let log: String = (0..40).map(|i| format!("u{},{:03},{},0.5\n", i % 7, i % 3, i % 2)).collect();
    let made = Made::new("log.csv", format!("user,shown,click,p\n{log}"));
    let beside = |name: &str, text: &str| std::fs::write(made.0.path().join(name), text).unwrap();
    beside("items.csv", "name,weight\n002,3.5\n001,2.5\n000,1.5\n");
    let text = "layout = \"wide\"\ncandidates = [\"000\", \"001\", \"002\"]\nchosen = \"shown\"\nreward = \"click\"\npropensity = \"p\"\n\
                [candidate]\n\"items.weight\" = \"none\"\n[tables.items]\nfile = \"items.csv\"\nkey = \"{candidate}\"\ntheir_key = \"name\"\n";
    let fit = |text: &str| {
        beside("s.toml", text);
        Prepared::fit(&made.path(), &datasets::read_schema(&made.0.path().join("s.toml"))?)
    };
    let prepared = fit(text).unwrap();
    prepared
        .each(|round| {
            let weights = round.raw.candidates.iter().map(|cells| cells[0].number().unwrap());
            assert!(weights.eq([1.5, 2.5, 3.5]), "{round:?}");
            Ok(())
        })
        .unwrap();
    assert_eq!((prepared.rounds(), prepared.transform().features()), (40, 1));
    for (text, wants) in [
        (
            text.replace("\"002\"]", "\"003\"]"),
            &["items.csv, column name, value \"003\"", "no row for this candidate"][..],
        ),
        (text.replace("their_key = \"name\"\n", ""), &["items.csv: name the column", "their_key"]),
        (
            text.replace("layout = \"wide\"", "layout = \"long\"\nround = \"user\""),
            &["[tables]", "belongs to layout = \"wide\""],
        ),
    ] {
        let error = fit(&text).unwrap_err().to_string();
        assert!(wants.iter().all(|want| error.contains(want)), "{wants:?}: {error}");
    }
}

/// Rounds that no column tells apart, by the number of their rows.
#[test]
fn rounds_are_told_apart_by_the_number_of_their_rows() {
    let want = Dataset::load(&Made::new("t.csv", table(40)).fit(LONG).unwrap()).unwrap();
    let counted = LONG.replace("round = [\"round\"]", "rows = 3");
    let alone = table(40).replace("round,", "");
    let alone: String = alone
        .lines()
        .enumerate()
        .map(|(i, line)| format!("{}\n", if i == 0 { line } else { line.split_once(',').unwrap().1 }))
        .collect();
    let read = |text: &str, schema: &str| {
        let made = Made::new("t.csv", text);
        let prepared = made.fit(schema)?;
        Ok::<_, Error>((Dataset::load(&prepared)?, prepared.dropped().to_vec()))
    };
    assert_eq!(read(&alone, &counted).unwrap().0, want);
    // With a column of users, of whom each has several rounds.
    let users = |i: usize| format!("u{}", i / 12);
    let of_users: String = alone
        .lines()
        .enumerate()
        .map(|(i, line)| format!("{},{line}\n", if i == 0 { "user".into() } else { users(i - 1) }))
        .collect();
    let both = format!("user = \"user\"\n{counted}");
    assert_eq!(read(&of_users, &both).unwrap().0, want);
    // A row that lacks costs the round at the end of its user alone; without users nobody knows where it
    // lacks.
    let without = |text: &str| {
        text.lines()
            .enumerate()
            .filter(|(i, _)| *i != 5)
            .map(|(_, line)| format!("{line}\n"))
            .collect::<String>()
    };
    let dropped = read(&without(&of_users), &both).unwrap().1;
    assert!(dropped.iter().any(|d| d.reason.contains("2 rows")), "{dropped:?}");
    let bad = alone.replacen("\n", "\nx\n", 6).replacen("x\n", "", 5);
    let error = read(&bad, &counted).unwrap_err().to_string();
    assert!(error.contains("line 7") && error.contains("none may be left out"), "{error}");
    let wide: schema::Schema = toml::from_str(&counted.replace("long", "wide")).unwrap();
    assert!(wide.validate().unwrap_err().to_string().contains("schema, rows"));
}

/// A pipe is read once, and its table several times.
#[cfg(unix)]
#[test]
fn a_pipe_is_read_once() {
    for (name, bytes) in [("plain", table(2000).into_bytes()), ("packed", zstd(table(2000).as_bytes()))] {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let to = pipe.clone();
        let writer = std::thread::spawn(move || std::fs::write(to, bytes).unwrap());
        assert_eq!(guess(&pipe).unwrap().rows, 6000);
        writer.join().unwrap();
        assert_eq!(Prepared::fit(&pipe, &schema(LONG)).unwrap().rounds(), 2000);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    assert!(
        Prepared::fit(Path::new("/dev/null"), &schema(LONG)).unwrap_err().to_string().contains("no header")
    );
}

/// Names of columns, candidates and files that a terminal would obey are shown escaped, on one line.
#[test]
fn names_are_shown_escaped() {
    let odd = "\u{1b}[31mi0\u{202e}\u{9b}";
    let plain = table(40).replace("i0", odd).replace("price", "pri\u{1b}[2Jce");
    let made = Made::new("t\u{1b}[1m.csv", &plain);
    let text = "layout = \"long\"\nround = [\"round\"]\nchosen = \"chosen\"\ncandidate_column = \"item\"\nidentity = true\n\
                candidates = [\"\\u001b[31mi0\\u202e\\u009b\", \"i1\", \"i2\"]\n";
    let lines = made.checked(text).lines().join("\n");
    assert!(lines.contains("\\u001b[31mi0\\u202e\\u009b, i1, i2"), "{lines}");
    let toml = guess(&made.path()).unwrap().toml(&made.path());
    let error = made.fit(&text.replace("item", "none")).unwrap_err().to_string();
    for text in [&lines, &toml, &error] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
    assert!(toml.starts_with("# Schema of ") && error.contains("t\\u001b[1m.csv"), "{error}");
}
