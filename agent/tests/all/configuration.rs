//! The options of the program in `docs/configuration.md`, from its help.

use testkit::reference::{check_ranges, check_section, options, table};

#[test]
fn configuration_of_the_agent() {
    let program = env!("CARGO_BIN_EXE_helba-agent");
    let options = options(program);
    assert!(options.len() > 15, "{options:?}");
    let needed = ["--server", "http://127.0.0.1:1", "--secret", "/nowhere", "--state", "/nowhere"];
    check_ranges(program, &options, &needed);
    check_section("agent", &table(&options));
}
