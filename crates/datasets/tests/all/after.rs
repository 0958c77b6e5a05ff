//! Columns that are known only after the outcome are no features: logs of a shop that are made here.

use datasets::{AfterOutcome, Prepared, after_outcome, check, propose};
use std::fmt::Write;

/// A number from 0 below `n`, which looks random.
fn draw(i: usize, n: usize) -> usize {
    let word = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((word ^ (word >> 29)) >> 20) as usize % n
}

/// A log with `rows` rows, of which one in five has a click, and with a column `x` that `of` computes from
/// the number of the row and the click.
fn shop(rows: usize, of: impl Fn(usize, bool) -> String) -> String {
    let mut text = String::from("age,country,offer,clicked,probability,x\n");
    for i in 0..rows {
        let clicked = draw(7 * i + 1, 5) == 0;
        let (age, country) = (18 + draw(7 * i + 2, 50), ["de", "fr", "it"][draw(7 * i + 3, 3)]);
        let offer = ["ash", "birch"][draw(7 * i + 4, 2)];
        writeln!(text, "{age},{country},{offer},{},0.5,{}", u8::from(clicked), of(i, clicked)).unwrap();
    }
    text
}

/// An amount that varies.
fn amount(i: usize) -> String {
    format!("{}.{:02}", 1 + draw(7 * i + 5, 40), draw(7 * i + 6, 100))
}

fn clicks(text: &str) -> [usize; 2] {
    let of = |value: &str| text.lines().filter(|row| row.split(',').nth(3) == Some(value)).count();
    [of("0"), of("1")]
}

/// What is proposed for a file: the schema as text, and whether `x` is a feature.
fn proposed(name: &str, text: &str) -> (String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, text).unwrap();
    let proposal = propose(&file).unwrap();
    let schema = &proposal.schema;
    let named = schema.context.contains_key("x") || schema.candidate.contains_key("x");
    assert!(proposal.checked.unwrap().after_outcome.is_empty(), "{}", proposal.toml);
    (proposal.toml, named)
}

/// What a user's schema that names `x` as a feature is told.
fn told(text: &str, schema: &str) -> (Vec<AfterOutcome>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.csv");
    std::fs::write(&file, text).unwrap();
    let schema = crate::schema(schema);
    let checked = check(&Prepared::fit(&file, &schema).unwrap()).unwrap();
    assert_eq!(checked.after_outcome, after_outcome(&file, &schema).unwrap());
    let lines = checked.lines();
    (checked.after_outcome, lines)
}

const LOGGED: &str = "layout = \"wide\"\ncandidates = [\"ash\", \"birch\"]\nchosen = \"offer\"\nreward = \"clicked\"\n\
                      propensity = \"probability\"\nidentity = true\n[context]\n\"x\" = \"ENCODING\"\nage = \"min-max\"\n";

#[test]
fn what_is_measured_after_the_outcome_is_no_feature() {
    for (nothing, encoding, word) in
        [("0", "min-max", "0"), ("0.00", "min-max", "0"), ("", "min-max", "empty")]
    {
        let text = shop(1000, |i, clicked| if clicked { amount(i) } else { nothing.into() });
        let [without, with] = clicks(&text);
        let said = format!(
            "known only after the outcome? it is {word} in all {without} rows of reward 0, and varies in the {with} others"
        );
        let (toml, named) = proposed("f.csv", &text);
        assert!(!named && toml.contains(&format!("# x is left out: {said}")), "{toml}");
        // An empty column does not decide about missing values any more.
        assert!(!toml.contains("missing ="), "{toml}");
        let (after, lines) = told(&text, &LOGGED.replace("ENCODING", encoding));
        assert_eq!(after, [AfterOutcome { name: "x".into(), reason: said.clone() }]);
        assert!(lines.iter().any(|line| line.starts_with(&format!("warning: x: {said}"))), "{lines:?}");
    }
    // Zeros beside empty cells are nothing too.
    let nothing = |i: usize| if i.is_multiple_of(3) { "" } else { "0" };
    let text = shop(1000, |i, clicked| if clicked { amount(i) } else { nothing(i).into() });
    let (toml, named) = proposed("f.csv", &text);
    assert!(!named && toml.contains("it is 0 or empty in all"), "{toml}");
    // A category, and one that is the outcome by another name.
    let text = shop(1000, |i, clicked| if clicked { ["card", "cash"][i % 2] } else { "none" }.into());
    let (toml, named) = proposed("f.csv", &text);
    assert!(!named && toml.contains("it is none in all") && toml.contains("varies"), "{toml}");
    let text = shop(1000, |_, clicked| if clicked { "sold" } else { "open" }.into());
    let (toml, named) = proposed("f.csv", &text);
    assert!(!named && toml.contains("it is open in all") && toml.contains("and is sold in the"), "{toml}");
}

/// More values than are counted one by one, rows in the order of the outcome, the outcome with one value
/// last: what came once is forgotten, and the value that comes again is not.
#[test]
fn many_values_and_sorted_rows_hide_nothing() {
    let unsorted = shop(40_000, |i, clicked| if clicked { format!("{i}.5") } else { "0".into() });
    let (head, body) = unsorted.split_once('\n').unwrap();
    let mut rows: Vec<&str> = body.lines().collect();
    for descending in [true, false] {
        rows.sort_by_key(|row| (row.split(',').nth(3) == Some("1")) != descending);
        let text = format!("{head}\n{}\n", rows.join("\n"));
        let (toml, named) = proposed("f.csv", &text);
        assert!(!named && toml.contains("known only after the outcome? it is 0 in all"), "{toml}");
    }
}

#[test]
fn the_mirror_image_is_found_too() {
    let text = shop(2000, |i, clicked| if clicked { "0".into() } else { amount(i) });
    let [without, with] = clicks(&text);
    let (toml, named) = proposed("f.csv", &text);
    let said = format!("it is 0 in all {with} rows of reward 1, and varies in the {without} others");
    assert!(!named && toml.contains(&said), "{toml}");
}

/// The outcome of a file in euros: the lowest reward where none is 0, also if a lower one comes later.
#[test]
fn outcomes_are_told_apart_in_units_of_the_file() {
    let schema = format!("reward_range = [-5.0, 20.0]\n{}", LOGGED.replace("ENCODING", "min-max"));
    for (low, said) in [("0", "of reward 0,"), ("-2.5", "of the lowest reward, -2.5,")] {
        let text = shop(1000, |i, clicked| if clicked { amount(i) } else { "7".into() });
        let euros = |(n, row): (usize, &str)| match row.split(',').collect::<Vec<_>>()[..] {
            [a, c, o, "0", p, x] if n > 0 => format!("{a},{c},{o},{low},{p},{x}\n"),
            [a, c, o, "1", p, x] if n > 0 => format!("{a},{c},{o},{}.5,{p},{x}\n", 1 + n % 7),
            _ => format!("{row}\n"),
        };
        let text: String = text.lines().enumerate().map(euros).collect();
        let (after, _) = told(&text, &schema);
        assert!(after[0].reason.contains("it is 7 in all") && after[0].reason.contains(said), "{after:?}");
    }
}

/// What is known before may predict well and be rare, and few rows tell nothing.
#[test]
fn features_stay() {
    // A category of one row in a hundred, all with a click; and one of 3 % that never clicks.
    let rare = shop(3000, |i, clicked| u8::from(clicked && draw(i, 20) == 0).to_string());
    assert!(proposed("f.csv", &rare).1);
    let rare = shop(3000, |i, clicked| u8::from(!clicked && draw(i, 30) == 0).to_string());
    assert!(proposed("f.csv", &rare).1);
    // A small file, however clear it looks.
    let small = shop(60, |i, clicked| if clicked { amount(i) } else { "0".into() });
    assert!(proposed("f.csv", &small).1);
    // One row speaks against it.
    let text = shop(2000, |i, clicked| if clicked || i == 77 { amount(i) } else { "0".into() });
    assert!(proposed("f.csv", &text).1);
    // 200 files with a feature that clicks in four of five rows, and in one of sixteen without it.
    for file in 0..200 {
        let text = shop(400, |i, clicked| {
            let other = draw(file * 400 + i + 9_000_000, 20);
            u8::from(if clicked { other < 16 } else { other == 0 }).to_string()
        });
        assert!(told(&text, &LOGGED.replace("ENCODING", "none")).0.is_empty(), "file {file}");
    }
}

/// Candidates of a round: what only the chosen one has is named, and that none is chosen which is not
/// available is not.
#[test]
fn columns_of_candidates_are_tried_too() {
    let mut text = String::from("round,item,price,x,stock,bought\n");
    for round in 0..400 {
        let bought = draw(round, 3);
        for item in 0..3 {
            let own = item == bought;
            let paid = if own { amount(3 * round + item) } else { "0".into() };
            let stock = u8::from(own || draw(5 * round + item + 7777, 3) > 0);
            let price = amount(3 * round + item + 100_000);
            writeln!(text, "{round},i{item},{price},{paid},{stock},{}", u8::from(own)).unwrap();
        }
    }
    let (toml, named) = proposed("f.csv", &text);
    let said = "x is left out: known only after the outcome? it is 0 in all 800 rows of reward 0, and varies in the 400 others";
    assert!(!named && toml.contains(said) && toml.contains("price = "), "{toml}");
    let schema = "layout = \"long\"\nround = [\"round\"]\nchosen = \"bought\"\n[candidate]\nx = \"min-max\"\nstock = \"none\"\n";
    let (after, _) = told(&text, schema);
    assert_eq!(after.iter().map(|after| after.name.as_str()).collect::<Vec<_>>(), ["x"]);
}

#[test]
fn lines_of_json_are_tried_too() {
    let mut text = String::new();
    for i in 0..600 {
        let clicked = draw(i, 4) == 0;
        let spent = if clicked { format!(",\"x\":{}", amount(i)) } else { String::new() };
        let (cost, age) = (if clicked { "-1" } else { "0" }, draw(i + 9999, 60));
        writeln!(
            text,
            "{{\"_label_cost\":{cost},\"_label_probability\":0.5,\"_label_Action\":{},\"c\":{{\"age\":{age}{spent},\
             \"_multi\":[{{\"p\":1}},{{\"p\":2}}]}}}}",
            1 + i % 2
        )
        .unwrap();
    }
    let (toml, named) = proposed("f.json", &text);
    assert!(
        !named && toml.contains("# x is left out: known only after the outcome? it is 0 in all"),
        "{toml}"
    );
}
