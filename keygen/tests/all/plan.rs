//! `helba-keygen plan`: the planner's report as text and as JSON.

use planner::plan;
use std::process::{Command, Output, Stdio};

fn tool(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_helba-keygen")).arg("plan").args(arguments).output().unwrap()
}

/// A plan for more bits of security is of another set, and a number of bits that no set claims is refused.
#[test]
fn security_is_chosen() {
    for (bits, log_n) in [("128", 15), ("192", 16), ("256", 16)] {
        let out = tool(&["--d", "2", "--k", "16", "--security", bits, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!((json["security_bits"].to_string(), json["log_n"].as_u64()), (bits.into(), Some(log_n)));
    }
    for wrong in ["0", "100", "a"] {
        let out = tool(&["--d", "2", "--k", "2", "--security", wrong]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && said.contains("128, 192 or 256 bits"), "{said}");
    }
}

#[test]
fn json_has_every_field_and_text_the_same_numbers() {
    let arguments = ["--d", "7", "--k", "4", "--rounds", "10000"];
    let out = tool(&[&arguments[..], &["--json"]].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    // Through text on both sides: reading a float may cost its last bit.
    let text = serde_json::to_string(&plan(7, 4, 10_000, keygen::Security::Classical128).unwrap()).unwrap();
    assert_eq!(json, serde_json::from_str::<serde_json::Value>(&text).unwrap());
    let fields = json.as_object().unwrap();
    for name in [
        "params",
        "why",
        "decision_depth",
        "slots",
        "security_bits",
        "keys",
        "messages",
        "memory",
        "kernel",
        "kernels",
    ] {
        assert!(!fields[name].is_null(), "{name}");
    }
    assert_eq!(json["rounds"], 10_000);
    for seconds in json["seconds"].as_array().unwrap() {
        assert!(seconds["round"].as_f64().unwrap() > 0.0 && seconds["update"].as_f64().unwrap() > 0.0);
    }

    let text = String::from_utf8(tool(&[&arguments[..], &["--explain"]].concat()).stdout).unwrap();
    let kernels = format!("s on 2 threads with {} kernels", fields["kernel"].as_str().unwrap());
    let wanted =
        [fields["params"].as_str().unwrap(), "10000 rounds", "128 bits", "relinearisation (1)", &kernels];
    assert!(wanted.iter().all(|w| text.contains(w)), "{text}");
    let text = String::from_utf8(tool(&arguments).stdout).unwrap();
    let wanted = ["a decision  0.", "up to 512 users", "MB of public keys", "--explain"];
    assert!(wanted.iter().all(|w| text.contains(w)) && text.lines().count() == 9, "{text}");
}

#[test]
fn refusals_of_the_program_show_a_way_out() {
    let out = tool(&["--d", "16", "--k", "65"]);
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("what would work"));
    let out = tool(&["--d", "16", "--k", "65", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(!out.status.success() && json["refused"].as_str().unwrap().contains("arms is 65"), "{json}");
    assert!(json["instead"].as_str().unwrap().contains("16 features with up to 64 arms"), "{json}");
    assert!(!tool(&["--d", "2", "--k", "2", "--rounds", "0"]).status.success());
}

/// As with `| head -1`.
#[test]
fn whoever_stops_reading_gets_no_panic() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_helba-keygen"))
        .args(["plan", "--d", "2", "--k", "2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
}
