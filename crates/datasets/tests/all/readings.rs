//! Readings of files that have rivals: each file is of a public layout, with values that are made here.

use datasets::{Checked, Error, propose};
use proptest::prelude::*;
use schema::{Encoding, Schema};
use std::fmt::Write;

/// What is proposed for a file, and what it makes of it.
fn proposed(name: &str, text: &str) -> Result<(Schema, Checked, String), Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, text).unwrap();
    let proposal = propose(&file)?;
    // The schema as it is printed is the one proposed, and it reads the file.
    assert_eq!(crate::schema(&proposal.toml), proposal.schema);
    Ok((proposal.schema, proposal.checked.unwrap(), proposal.toml))
}

#[track_caller]
fn read(text: &str) -> (Schema, Checked, String) {
    proposed("f.csv", text).unwrap()
}

#[track_caller]
fn refused(text: &str, wants: &[&str]) {
    let error = proposed("f.csv", text).map(|(schema, ..)| schema).unwrap_err().to_string();
    for want in wants {
        assert!(error.contains(want), "{want:?} is not in {error:?}");
    }
}

/// A number from 0 below `n`, which looks random.
fn draw(i: usize, n: usize) -> usize {
    ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33)
        as usize
        % n
}

fn some(text: &str) -> Option<String> {
    Some(text.into())
}

fn list(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

/// The layout of Open Bandit: items are numbered, each has a column, and what is known is a click.
fn shown_items(items: usize, propensity: impl Fn(usize) -> f64) -> String {
    let mut text = String::from(",timestamp,item_id,position,click,propensity_score");
    (0..4).for_each(|i| write!(text, ",user_feature_{i}").unwrap());
    (0..items).for_each(|i| write!(text, ",user-item_affinity_{i}").unwrap());
    for i in 0..400 {
        let (item, click) = (draw(i, items), usize::from(draw(i + 1000, 10) == 0));
        let time = format!("2019-11-24 00:{:02}:{:02}.000000+00:00", i / 60, i % 60);
        write!(text, "\n{i},{time},{item},{},{click},{}", 1 + draw(i + 77, 3), propensity(i)).unwrap();
        (0..4).for_each(|f| write!(text, ",81ce{}", draw(i + 31 * f, 3)).unwrap());
        (0..items).for_each(|f| write!(text, ",0.{}", draw(i + 17 * f, 9)).unwrap());
    }
    text
}

#[test]
fn a_click_on_a_numbered_item_is_a_log() {
    for (items, bts) in [(3, false), (4, true), (34, false), (34, true)] {
        let (schema, checked, _) = read(&shown_items(items, |i| {
            if bts { 0.01 + draw(i, 50) as f64 / 100.0 } else { 1.0 / items as f64 }
        }));
        assert_eq!(
            (schema.chosen, schema.reward, schema.propensity, schema.time),
            (some("item_id"), some("click"), some("propensity_score"), some("timestamp"))
        );
        assert_eq!(schema.candidate.keys().collect::<Vec<_>>(), ["user-item_affinity"], "{items}");
        let names: Vec<String> = (0..items).map(|item| item.to_string()).collect();
        assert_eq!(
            (schema.candidates, checked.logged, checked.rounds, checked.out_of_order),
            (names, true, 400, 0)
        );
        let clicks = (0..400).filter(|i| draw(i + 1000, 10) == 0).count() as f64;
        assert!((checked.mean_rewards[0] - clicks / 400.0).abs() < 1e-12);
    }
    refused(&shown_items(80, |_| 0.0125), &["items were shown", "item_id", "64"]);
    refused(&shown_items(1, |_| 1.0), &["only one item"]);
}

/// Stated choices: persons with several tasks of three options, whose tasks are numbered through, or begin
/// again for each person.
#[test]
fn tasks_of_persons_are_rounds() {
    for again in [true, false] {
        let mut text = String::from("person,card,alt,price,choice\n");
        for i in 0..80 {
            let (person, task) = (i / 4, if again { i % 4 } else { i });
            for alt in 0..3 {
                writeln!(
                    text,
                    "{person},{task},{alt},{},{}",
                    draw(i * 3 + alt, 50),
                    usize::from(draw(i, 3) == alt)
                )
                .unwrap();
            }
        }
        let (schema, checked, _) = read(&text);
        let round: &[&str] = if again { &["person", "card"] } else { &["card"] };
        assert_eq!((schema.round, schema.chosen, schema.reward), (list(round), some("choice"), None));
        assert_eq!((checked.rounds, checked.candidates), (80, list(&["0", "1", "2"])));
    }
}

/// The long tables of xlogit: the choice is 1 in a row, or it is named in all rows of its round; a column
/// says what was available.
#[test]
fn long_choices_are_read_either_way() {
    let names = ["beach", "boat", "charter", "pier"];
    let [mut ones, mut named] = [0; 2].map(|_| String::from("id,alt,choice,income,price,avail\n"));
    let mut offered = 0;
    for i in 0..120 {
        let (chosen, all) = (draw(i, 3), draw(i + 500, 5) > 0);
        offered += u64::from(all);
        for (alt, name) in names.iter().enumerate() {
            let rest =
                format!("{},{},{}", 1000 + draw(i, 90), draw(i * 4 + alt, 300), u8::from(all || alt < 3));
            writeln!(ones, "{i},{name},{},{rest}", u8::from(alt == chosen)).unwrap();
            writeln!(named, "{i},{name},{},{rest}", names[chosen]).unwrap();
        }
    }
    let mut means = Vec::new();
    for (text, pattern) in [(ones, None), (named, some("{candidate}"))] {
        let (schema, checked, _) = read(&text);
        assert_eq!(
            (schema.chosen, schema.chosen_pattern, schema.round),
            (some("choice"), pattern, list(&["id"]))
        );
        assert_eq!((schema.candidate_column, schema.available), (some("alt"), some("avail")));
        assert_eq!((checked.rounds, checked.candidates), (offered, list(&names)));
        means.push(checked.mean_rewards);
    }
    assert_eq!(means[0], means[1]);
}

/// The wide table of Swissmetro: the choice is a code, 0 is none, and a candidate may be unavailable. The
/// columns of availability have another order than those of times, and only one is not contradicted.
#[test]
fn codes_of_choices_are_candidates() {
    let file = |first: usize, order: [usize; 3]| {
        let mut text = String::from(
            "ID\tAGE\tTRAIN_AV\tCAR_AV\tSM_AV\tTRAIN_TT\tTRAIN_CO\tSM_TT\tSM_CO\tSM_SEATS\tCAR_TT\tCAR_CO\tCHOICE\n",
        );
        for i in 0..200 {
            let car = draw(i, 4) > 0;
            // Of train, Swissmetro and car.
            let chosen = if car { draw(i + 9, 3) } else { draw(i + 9, 2) };
            let code = if i == 50 && first == 1 { 0 } else { first + order[chosen] };
            write!(text, "{i}\t{}\t1\t{}\t1", draw(i + 3, 5), u8::from(car)).unwrap();
            (0..7).for_each(|f| write!(text, "\t{}", 20 + draw(i * 8 + f, 200)).unwrap());
            writeln!(text, "\t{code}").unwrap();
        }
        text
    };
    let (schema, checked, toml) = read(&file(1, [0, 1, 2]));
    assert_eq!((schema.chosen, schema.codes), (some("CHOICE"), list(&["1", "2", "3"])));
    assert_eq!(
        (schema.candidates, schema.available),
        (list(&["TRAIN", "SM", "CAR"]), some("{candidate}_AV"))
    );
    assert_eq!(schema.candidate.keys().collect::<Vec<_>>(), ["CO", "TT"]);
    let absent = (0..200).filter(|i| draw(*i, 4) == 0).count() as u64;
    assert_eq!(checked.rounds, 200 - absent - u64::from(draw(50, 4) > 0));
    assert!(toml.contains("Mend `codes`"), "{toml}");
    assert_eq!(read(&file(0, [0, 1, 2])).0.codes, list(&["0", "1", "2"]));
    refused(&file(1, [2, 1, 0]), &["CHOICE holds 0, 1, 2, 3", "TRAIN, CAR, SM", "codes ="]);
}

/// A count among numbered columns is no choice, whatever is bought; a column that is named so is one.
#[test]
fn counts_are_no_choices() {
    let file = |name: &str| {
        let mut text = format!("id,q1,q2,q3,{name}\n");
        (0..90).for_each(|i| {
            writeln!(
                text,
                "{i},{},{},{},{}",
                draw(i, 4),
                draw(i + 7, 4),
                draw(i + 13, 4),
                1 + draw(i + 99, 3)
            )
            .unwrap()
        });
        text
    };
    for name in ["n_bought", "items", "visits_last_week", "num_choices"] {
        refused(&file(name), &["no column looks like a choice", name]);
    }
    let (schema, checked, _) = read(&file("choice"));
    assert_eq!((schema.chosen, checked.rounds, checked.candidates.len()), (some("choice"), 90, 3));
}

/// Ratings of 30 films in the order of their times are a log. Where the ratings of a user stand together,
/// they may be rounds too, and the refusal names both, with what speaks against each.
#[test]
fn ratings_are_a_log_or_a_question() {
    let file = |films: usize, sorted: bool| {
        let mut text = String::from("userId,movieId,rating,timestamp\n");
        // Users have 18 or 19 ratings.
        for i in (0..1200).filter(|i| i % 11 != 2) {
            let (user, at) = if sorted { (i / 20, i % 20) } else { (i % 60, i / 60) };
            // Steps of 7 films, so that nobody rates one twice.
            let film = (draw(user, films) + 7 * at) % films;
            writeln!(text, "{user},{film},{},{}", 0.5 * (1 + draw(i, 10)) as f64, 900_000_000 + 97 * i)
                .unwrap();
        }
        text
    };
    let (schema, checked, _) = read(&file(30, false));
    assert_eq!(
        (schema.chosen, schema.reward, schema.reward_range),
        (some("movieId"), some("rating"), Some([0.5, 5.0]))
    );
    assert_eq!((checked.rounds, checked.logged, schema.user), (1091, true, some("userId")));
    let both = ["two readings", "chosen = \"movieId\"", "round = [\"userId\"]"];
    refused(&file(30, true), &both);
    refused(&file(400, true), &[&both[..], &["64 arms"]].concat());
}

/// Odd rounds are named and dropped, and change nothing of the reading.
#[test]
fn odd_rounds_are_named() {
    let rows = |twice: bool| {
        let mut text = String::from("round,item,price,chosen\n");
        for i in 0..40 {
            for item in 0..3 {
                let odd = i == 20 && item == 0;
                let name = if odd && twice { 1 } else { item };
                if !odd || twice {
                    writeln!(
                        text,
                        "{i},i{name},{},{}",
                        draw(3 * i + item, 9),
                        u8::from(1 + draw(i, 2) == item)
                    )
                    .unwrap();
                }
            }
        }
        text
    };
    for (twice, said) in [(true, "line 62 has \"i1\" twice"), (false, "line 62 lacks \"i0\"")] {
        let (schema, checked, toml) = read(&rows(twice));
        assert_eq!((schema.candidates, schema.chosen), (list(&["i0", "i1", "i2"]), some("chosen")));
        assert_eq!((checked.rounds, checked.dropped.len()), (39, 1));
        assert_eq!(checked.dropped[0].first_line, 62);
        assert!(toml.contains(said), "{toml}");
    }
}

/// A log with one more column, whose cells are given.
fn with_column(name: &str, cell: impl Fn(usize) -> String) -> String {
    let mut text = format!("user;item;prob;click;{name}\n");
    for i in 0..200 {
        let click = ["N", "Y"][usize::from(draw(i, 3) == 0)];
        writeln!(text, "u{};{};0.5;{click};{}", i % 20, ["007", "7"][draw(i + 5, 2)], cell(i)).unwrap();
    }
    text
}

/// Numbers as people write them are numbers if the whole column agrees; few texts are categories, and dates,
/// ids and texts that do not come again are no features.
#[test]
fn columns_are_what_they_look_like() {
    let price = |i: usize| 1000 + draw(i, 9000);
    type Cells = Box<dyn Fn(usize) -> String>;
    let of: [(&str, Cells, Option<Encoding>); 14] = [
        (
            "price",
            Box::new(move |i| format!("{}.{:03},50 €", price(i) / 1000, price(i) % 1000)),
            Some(Encoding::MinMax),
        ),
        (
            "price",
            Box::new(move |i| format!("${},{:03}.25", price(i) / 1000, price(i) % 1000)),
            Some(Encoding::MinMax),
        ),
        ("share", Box::new(move |i| format!("{} %", draw(i, 100))), Some(Encoding::MinMax)),
        ("member", Box::new(|i| ["yes", "No"][draw(i, 2)].into()), Some(Encoding::Plain)),
        ("member", Box::new(|i| ["TRUE", "FALSE"][draw(i, 2)].into()), Some(Encoding::Plain)),
        ("city", Box::new(|i| format!("city {}", draw(i, 16))), Some(Encoding::OneHot)),
        ("city", Box::new(|i| format!("city {}", draw(i, 40))), Some(Encoding::Hash(8))),
        ("zip", Box::new(|i| format!("0{}", 8000 + draw(i, 9))), Some(Encoding::OneHot)),
        ("note", Box::new(|i| format!("text {i}")), None),
        ("seen", Box::new(|i| format!("2026-01-{:02}", 1 + draw(i, 28))), None),
        ("seen", Box::new(|i| format!("{}/14/2026 9:30", 1 + draw(i, 12))), None),
        ("signup", Box::new(|i| (1_700_000_000 + 1000 * draw(i, 5000)).to_string()), None),
        ("order_id", Box::new(|i| (5000 + 3 * i).to_string()), None),
        ("size", Box::new(|i| ["1", "2", "3+"][draw(i + 9, 3)].into()), Some(Encoding::OneHot)),
    ];
    for (name, cell, want) in of {
        let (schema, checked, toml) = read(&with_column(name, &cell));
        assert_eq!(schema.context.get(name).copied(), want, "{name} {}: {toml}", cell(0));
        assert_eq!(checked.rounds, 200, "{name}");
        // Ids are texts, and words are rewards.
        assert_eq!((schema.candidates, schema.reward), (list(&["007", "7"]), some("click")));
        let clicks = (0..200).filter(|i| draw(*i, 3) == 0).count() as f64;
        assert!((checked.mean_rewards[0] - clicks / 200.0).abs() < 1e-12);
        if want.is_none() && schema.time.is_none() {
            assert!(toml.contains(&format!("{name} is left out")), "{toml}");
        }
    }
}

/// A proposed schema says which rounds the default of `missing` drops.
#[test]
fn what_is_dropped_stands_in_the_proposal() {
    let cell = |i: usize| if i % 50 == 7 { String::new() } else { draw(i, 900).to_string() };
    let (schema, checked, toml) = read(&with_column("price", cell));
    assert_eq!((schema.missing, checked.rounds), (schema::Missing::Drop, 196));
    let said = "# missing = \"drop\", the default, drops 4 of 200 rounds (2.0 %): price has no value in 4 (first in line 9). \
                With missing = \"mean\" they stay";
    assert!(toml.contains(said), "{toml}");
    let (_, _, toml) = read(&with_column("price", |i| draw(i, 900).to_string()));
    assert!(!toml.contains("missing ="), "{toml}");
}

/// One text among numbers is no value, and named with its line; many make no numbers, which is said.
#[test]
fn stray_texts_are_named() {
    for stray in ["-", "n.v.", "call us"] {
        let (schema, checked, toml) =
            read(&with_column(
                "price",
                |i| if i == 30 { stray.into() } else { format!("{}.5", draw(i, 900)) },
            ));
        assert_eq!((schema.context.get("price"), schema.no_value), (Some(&Encoding::MinMax), list(&[stray])));
        assert!(toml.contains(&format!("{stray:?} in line 32")), "{toml}");
        assert_eq!((checked.rounds, checked.dropped[0].first_line), (199, 32));
    }
    // Two decimal signs in one column.
    let (schema, _, toml) =
        read(&with_column("price", |i| format!("{}{}5", draw(i, 900), [".", ","][i % 2])));
    assert_ne!(schema.context.get("price"), Some(&Encoding::MinMax));
    assert!(toml.contains("decimal sign") || toml.contains("price is left out"), "{toml}");
    let (_, _, toml) =
        read(&with_column("price", |i| if i % 3 == 0 { format!("x{i}") } else { i.to_string() }));
    assert!(toml.contains("of 200 values are no numbers") && toml.contains("line 2"), "{toml}");
}

/// Ids of 19 and of 25 digits stay apart in tables and in JSON.
#[test]
fn long_ids_stay_apart() {
    for id in ["6221888200042590281", "6221888200042590281000000"] {
        let other = format!("{}9", &id[..id.len() - 1]);
        let mut text = String::new();
        for i in 0..60 {
            let multi = format!(
                "{{\"sku\": {id}, \"len\": {}}}, {{\"sku\": {other}, \"len\": {}}}",
                draw(i, 9),
                draw(i + 1, 9)
            );
            let label = format!(
                "\"_label_cost\": -{}, \"_label_probability\": 0.5, \"_label_Action\": {}",
                draw(i + 4, 2),
                1 + draw(i, 2)
            );
            writeln!(text, "{{{label}, \"c\": {{\"_multi\": [{multi}]}}}}").unwrap();
        }
        let (schema, checked, _) = proposed("f.json", &text).unwrap();
        assert_eq!(schema.candidate["sku"], Encoding::OneHot);
        assert_eq!(checked.names, ["bias".into(), "len".into(), format!("sku={id}"), format!("sku={other}")]);
    }
}

/// Tags that are there or not, by name and in lists, are features that are 1 or 0.
#[test]
fn tags_by_presence_are_features() {
    let tags = ["music", "politics", "sport"];
    for lists in [false, true] {
        let mut text = String::new();
        for i in 0..60 {
            let tag = |j: usize| {
                let tag = tags[(draw(i, 3) + j) % 3];
                if lists {
                    format!("{{\"tag\": [\"{tag}\", \"new\"]}}")
                } else {
                    format!("{{\"tag\": {{\"{tag}\": 1, \"new\": 1}}}}")
                }
            };
            let label = format!(
                "\"_label_cost\": -{}, \"_label_probability\": 0.3, \"_label_Action\": {}",
                draw(i + 4, 2),
                1 + draw(i, 3)
            );
            writeln!(text, "{{{label}, \"c\": {{\"_multi\": [{}, {}, {}]}}}}", tag(0), tag(1), tag(2))
                .unwrap();
        }
        let (schema, checked, toml) = proposed("f.json", &text).unwrap();
        assert_eq!(
            schema.candidate.keys().collect::<Vec<_>>(),
            ["tag.music", "tag.politics", "tag.sport"],
            "{toml}"
        );
        assert_eq!((checked.rounds, checked.constant.len()), (60, 0));
        assert!(toml.contains("tag.new is left out: it is constant"), "{toml}");
    }
}

/// Choices that count from 0, that are spelled otherwise, or that name a candidate without columns; and a log
/// whose shown item has columns.
#[test]
fn choices_are_matched_to_their_columns() {
    let file = |last: &str, cell: &dyn Fn(usize) -> String| {
        let mut text = format!("id,TRAIN_TT,SM_TT,CAR_TT,TRAIN_CO,SM_CO,CAR_CO,{last}\n");
        for i in 0..90 {
            write!(text, "{i}").unwrap();
            (0..6).for_each(|f| write!(text, ",{}", draw(6 * i + f, 90)).unwrap());
            writeln!(text, ",{}", cell(i)).unwrap();
        }
        text
    };
    let names = ["TRAIN", "SM", "CAR"];
    let (schema, checked, _) = read(&file("mode", &|i| names[draw(i, 3)].to_lowercase()));
    assert_eq!((schema.candidates, schema.codes), (list(&names), list(&["train", "sm", "car"])));
    assert_eq!(checked.rounds, 90);
    refused(
        &file("mode", &|i| if i == 50 { "WALK".into() } else { names[draw(i, 3)].into() }),
        &["WALK", "line 52", "TRAIN, SM, CAR only"],
    );
    let (schema, ..) = read(&file("choice,reward", &|i| format!("{},{}", names[draw(i, 3)], draw(i + 7, 2))));
    assert_eq!((schema.chosen, schema.reward), (some("choice"), some("reward")));
    // Columns count from 1, and choices from 0.
    let text = file("choice", &|i| draw(i, 3).to_string());
    let text = [
        ("TRAIN_TT", "t1"),
        ("SM_TT", "t2"),
        ("CAR_TT", "t3"),
        ("TRAIN_CO", "c1"),
        ("SM_CO", "c2"),
        ("CAR_CO", "c3"),
    ]
    .iter()
    .fold(text, |text, (from, to)| text.replace(from, to));
    let (schema, checked, _) = read(&text);
    assert_eq!((schema.candidates, schema.codes), (list(&["1", "2", "3"]), list(&["0", "1", "2"])));
    assert_eq!(checked.rounds, 90);
}

/// The reason is the cause: rows that stand apart, a reward without an item, rewards that are words, and
/// units that differ.
#[test]
fn reasons_are_causes() {
    let mut apart = String::from("round,item,price,chosen\n");
    for item in 0..3 {
        (0..40).for_each(|i| {
            writeln!(apart, "{i},i{item},{},{}", draw(i, 9), u8::from(draw(i, 3) == item)).unwrap()
        });
    }
    refused(&apart, &["stand apart", "sort the file by round"]);
    let mut alone = String::from("item,price,chosen\n");
    (0..90).for_each(|i| writeln!(alone, "i{i},{},{}", draw(i, 9), draw(i + 5, 2)).unwrap());
    refused(&alone, &["chosen marks rows", "`round`"]);
    let mut bare = String::from("age,clicked\n");
    (0..90).for_each(|i| writeln!(bare, "{},{}", 20 + draw(i, 60), draw(i + 5, 2)).unwrap());
    refused(&bare, &["clicked looks like a reward", "no column looks like the item"]);
    let words = with_column("x", |i| draw(i, 9).to_string()).replace(";N;", ";bad;").replace(";Y;", ";good;");
    refused(&words, &["click", "no words such as yes and no", "line 2"]);
    let money = with_column("price", |i| format!("{}{}", ["$", "€"][i % 2], 1 + draw(i, 900)));
    let (schema, _, toml) = read(&money);
    assert!(!schema.context.contains_key("price"));
    assert!(toml.contains("the unit $ (line 2) and the unit € (line 3)"), "{toml}");
    let share = with_column("share", |i| {
        if i % 2 == 0 { format!("{}%", draw(i, 90)) } else { format!("0.{}", draw(i, 90)) }
    });
    assert!(read(&share).2.contains("share is left out"));
}

/// A comma and three digits are thousands, unless other columns of the file have decimal commas.
#[test]
fn commas_are_read_as_the_file_does() {
    let price = |i: usize| format!("{},{:03}", 1 + draw(i, 90), draw(i + 3, 1000));
    let (schema, _, toml) = read(&with_column("price", price));
    assert!(schema.decimal_comma.is_empty() && toml.contains("are read with a decimal point"), "{toml}");
    let (schema, ..) =
        read(&with_column("price;km", |i| format!("{};{},{}", price(i), draw(i, 90), draw(i, 9))));
    assert_eq!(schema.decimal_comma, list(&["km", "price"]));
}

/// Seconds beside milliseconds are times of one column, which is said, and compared all the same.
#[test]
fn units_of_times_are_said() {
    for name in ["timestamp", "seen_at"] {
        let text =
            with_column(name, |i| (1_774_745_100 + i).to_string() + if i % 2 == 0 { "" } else { "000" });
        let (schema, checked, _) = read(&text);
        assert_eq!((schema.time.as_deref(), checked.out_of_order), (Some(name), 0));
        let said = checked.times.unwrap();
        assert!(said.contains("seconds (line 2)") && said.contains("milliseconds (line 3)"), "{said}");
    }
}

/// A long table in which the reward and the probability of the chosen row are known is a log.
#[test]
fn long_logs_are_logs() {
    let mut text = String::from("round,item,price,chosen,click,propensity\n");
    for i in 0..60 {
        for item in 0..3 {
            let chosen = draw(i, 3) == item;
            let click = if chosen { draw(i + 9, 2).to_string() } else { String::new() };
            writeln!(text, "{i},i{item},{},{},{click},0.33", draw(3 * i + item, 9), u8::from(chosen))
                .unwrap();
        }
    }
    let (schema, checked, _) = read(&text);
    assert_eq!(
        (schema.chosen, schema.reward, schema.propensity),
        (some("chosen"), some("click"), some("propensity"))
    );
    assert_eq!((checked.rounds, checked.logged, checked.least_propensity), (60, true, Some(0.33)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// What is proposed is never refused by the reader, and what is refused says why, whatever the layout,
    /// the names and the values are.
    #[test]
    fn what_is_proposed_is_read(
        layout in 0usize..4,
        names in proptest::sample::subsequence(vec!["choice", "click", "rating", "prob", "item", "user", "time", "avail", "code", "mode_id"], 2..8),
        arms in 1usize..7,
        rounds in 1usize..40,
        kinds in proptest::collection::vec(0usize..12, 10),
        odd in proptest::collection::vec(any::<prop::sample::Index>(), 0..3),
        seed in 0usize..1000,
    ) {
        let cell = |kind: usize, i: usize| -> String {
            let n = draw(i * 31 + kind + seed, 1000);
            match kind {
                0 => (n % 2).to_string(),
                1 => format!("{}.{}", n / 10, n % 10),
                2 => format!("{},{}", n / 10, n % 10),
                3 => ["yes", "no"][n % 2].into(),
                4 => (1 + n % arms).to_string(),
                5 => format!("a{}", n % arms),
                6 => format!("{n} %"),
                7 => ["", "n/a", "-", "7"][n % 4].into(),
                8 => format!("2026-03-{:02}T{:02}:00:00+0{}:00", 1 + n % 28, n % 24, n % 3),
                9 => format!("0{n}"),
                10 => (i / arms).to_string(),
                _ => format!("62218882000425{n:05}"),
            }
        };
        let mut lines: Vec<String> = Vec::new();
        let mut header: Vec<String> = Vec::new();
        if layout < 2 {
            header.extend(names.iter().map(|name| name.to_string()));
            if layout == 1 {
                (0..arms).for_each(|arm| header.extend([format!("price_a{arm}"), format!("av_a{arm}")]));
            }
        } else {
            header.extend(["round", "alt"].map(String::from));
            header.extend(names.iter().map(|name| name.to_string()));
        }
        let height = if layout < 2 { rounds } else { rounds * arms };
        for i in 0..height {
            let mut cells: Vec<String> = Vec::new();
            if layout >= 2 {
                cells.extend([(i / arms).to_string(), format!("a{}", i % arms)]);
            }
            cells.extend(names.iter().enumerate().map(|(at, name)| match (*name, layout) {
                ("choice", 2) => u8::from(draw(i / arms + seed, arms) == i % arms).to_string(),
                ("choice", 3) => format!("a{}", draw(i / arms + seed, arms)),
                _ => cell(kinds[at], i),
            }));
            if layout == 1 {
                (0..arms).for_each(|arm| cells.extend([draw(i + arm, 50).to_string(), u8::from(draw(i + 3 * arm, 9) > 0).to_string()]));
            }
            lines.push(cells.join(";"));
        }
        for at in &odd {
            let at = at.index(lines.len());
            let copy = lines[at].clone();
            if seed % 2 == 0 { lines.insert(at, copy) } else { lines[at] = lines[(at + 1) % lines.len()].clone() }
        }
        let text = format!("{}\n{}\n", header.join(";"), lines.join("\n"));
        match proposed("f.csv", &text) {
            Ok((_, checked, _)) => prop_assert!(checked.rounds > 0),
            Err(error) => prop_assert!(error.to_string().contains("f.csv"), "{}", error),
        }
    }
}

/// A reward that is 1 once in every round of three shown items is a choice among them, and not the log of
/// one. In the control one round has two of them.
#[test]
fn a_click_in_every_round_is_a_choice() {
    let shown = |twice: usize| {
        let mut text = String::from("visit,item,price,clicked\n");
        for i in 0..240 {
            let clicked = draw(i / 3, 3) == i % 3 || i / 3 == twice;
            let item = (draw(i / 3 + 50, 5) + i % 3) % 5;
            writeln!(text, "v{},i{item},{},{}", i / 3, draw(i, 9), u8::from(clicked)).unwrap();
        }
        text
    };
    let (schema, checked, toml) = read(&shown(99));
    assert_eq!((schema.chosen, schema.round, schema.arms), (some("clicked"), list(&["visit"]), Some(3)));
    assert_eq!((checked.rounds, checked.logged), (80, false));
    assert!(toml.contains("Next would be a log of one action (item)"), "{toml}");
    let control = read(&shown(7)).0;
    assert_eq!((control.chosen, control.reward), (some("item"), some("clicked")));
}

/// Rewards of all candidates that have no features of their own: the context chooses, in products.
#[test]
fn a_context_is_multiplied_with_bare_candidates() {
    let mut text = String::from("age,device,reward_a,reward_b\n");
    (0..90).for_each(|i| {
        let device = ["phone", "desk", "pad"][draw(i, 3)];
        writeln!(text, "{},{device},{},{}", 20 + draw(i, 60), draw(i + 5, 2), draw(i + 9, 2)).unwrap();
    });
    let (schema, ..) = read(&text);
    let pairs = [["age", "candidate"], ["device", "candidate"]].map(|pair| pair.map(String::from));
    assert_eq!(
        (schema.interactions, schema.interactions_only, schema.identity),
        (pairs.to_vec(), true, false)
    );
}

/// Refusals list what may be the choice.
#[test]
fn refusals_list_texts_with_few_values() {
    let mut text = String::from("Kunde,Variante,Umsatz\n");
    (0..90).for_each(|i| writeln!(text, "k{i},{},{}.5", ["A", "B", "C"][draw(i, 3)], draw(i, 70)).unwrap());
    refused(&text, &["Texts with few values are in Variante", "`chosen`", "`reward`"]);
    let read = text.replace("Variante", "offer").replace("Umsatz", "revenue");
    let (schema, ..) = self::read(&read);
    assert_eq!((schema.chosen, schema.reward), (some("offer"), some("revenue")));
}
