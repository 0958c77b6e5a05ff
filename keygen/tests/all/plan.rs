//! `helba-keygen plan`: the planner's report as text and as JSON.

use planner::{Problem, plan};
use protocol::Exchanging;
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
    let text =
        serde_json::to_string(&plan(Problem::new(7, 4, 10_000, keygen::Security::Classical128)).unwrap())
            .unwrap();
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
    assert!(wanted.iter().all(|w| text.contains(w)) && text.lines().count() == 10, "{text}");
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

/// A problem that one raise does not carry is planned with stages, and `auto` says what it takes and why: the
/// other one on a longer line, and the one that serves where one of both is refused.
#[test]
fn stages_are_planned_and_chosen() {
    let large = ["--d", "64", "--k", "256"];
    let out = tool(&[&large[..], &["--exchanges", "staged", "--explain"]].concat());
    let text = String::from_utf8(out.stdout).unwrap();
    let wanted = ["without a rotation", "64 by 64 matrices", "5 of a decision", "of an update, kB"];
    assert!(wanted.iter().all(|w| text.contains(w)), "{text}");
    for (arguments, wanted) in [
        (&["--d", "16", "--k", "16"][..], "stages, because a user alone waits"),
        (&["--d", "16", "--k", "16", "--round-trip", "200"], "one raise, because a user alone waits"),
        (&["--d", "16", "--k", "16", "--updates", "slots"], "one raise, because there are no stages"),
        (&large, "stages, because one raise does not carry it"),
    ] {
        let out = tool(&[arguments, &["--exchanges", "auto"]].concat());
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success() && text.contains(wanted), "{arguments:?}: {text}");
    }
    for (arguments, wanted) in [
        (&["--d", "65", "--k", "2", "--exchanges", "auto"][..], "with one raise: "),
        (&["--d", "2", "--k", "2", "--round-trip", "20"], "--round-trip is for --exchanges auto"),
        (&["--d", "2", "--k", "2", "--exchanges", "auto", "--up", "0"], "a number above 0"),
        (&["--d", "2", "--k", "2", "--exchanges", "two"], "one, staged or auto"),
    ] {
        let out = tool(arguments);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && said.contains(wanted), "{arguments:?}: {said}");
    }
}

/// Keys of `--exchanges auto` are of the kind that is chosen, and the bundle says which.
#[test]
fn keys_are_of_the_kind_that_is_chosen() {
    let dir = tempfile::tempdir().unwrap();
    for (features, exchanges, said) in
        [("20", Exchanging::Staged, "stages, because"), ("2", Exchanging::One, "one raise, because")]
    {
        let [public, secret] = ["public", "secret"].map(|name| dir.path().join(name.to_owned() + features));
        let mut create = Command::new(env!("CARGO_BIN_EXE_helba-keygen"));
        create.args(["create", "--toy", "--arms", "3", "--exchanges", "auto", "--round-trip", "500"]);
        create.args(["--features", features, "--public"]).arg(&public).arg("--secret").arg(secret);
        let out = create.output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success() && text.contains(said), "{text}");
        assert_eq!(wire::PublicBundle::open(&public).unwrap().manifest.exchanges, exchanges);
    }
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
