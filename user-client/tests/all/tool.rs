//! `helba-client` against a server of encrypted bandits.

use crate::device::rng;
use crate::server::{Server, keys, other_keys};
use helba_server::{NewToken, Scope, TokensFile};
use std::fs::File;
use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Output};

struct Tool<'a>(&'a Server);

impl Tool<'_> {
    fn command(&self, command: &str) -> Command {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_helba-client"));
        tool.arg(command).current_dir(self.0.file(""));
        if command != "policies" {
            tool.args(["--secret", "secret.bundle", "--toy"]);
        }
        if command != "feedback" {
            tool.args(["--server", &self.0.url()]);
        }
        tool
    }

    fn output(&self, command: &str, arguments: &[&str]) -> Output {
        self.command(command).args(arguments).output().unwrap()
    }

    /// Stdout and stderr of a command that succeeds.
    #[track_caller]
    fn run(&self, command: &str, arguments: &[&str]) -> (String, String) {
        let out = self.output(command, arguments);
        let [stdout, stderr] = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(out.status.success(), "{command}: {stderr}");
        (stdout, stderr)
    }

    /// What a command without a server prints.
    fn data(&self, arguments: &[&str]) -> (String, String) {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_helba-client"));
        let out = tool.arg("data").args(arguments).current_dir(self.0.file("")).output().unwrap();
        let [stdout, stderr] = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(out.status.success(), "{stderr}");
        (stdout, stderr)
    }

    fn create(&self, more: &[&str]) -> (String, String) {
        let arguments = [&["--features", "4", "--arms", "2"], more].concat();
        let (id, stderr) = self.run("create", &arguments);
        (id.trim_end().to_string(), stderr)
    }
}

/// Creation, decision, feedback, status and list of an encrypted bandit, in both tiers.
#[test]
fn the_tool_plays_encrypted_bandits() {
    let server = Server::start("127.0.0.1:0");
    let tool = Tool(&server);
    std::fs::write(server.file("c.csv"), "0.5,0.1,0,0.2\n-0.3,0.4,0.2,0\n").unwrap();
    for (answers, kind) in [
        (&[][..], "encrypted"),
        (&["--answers", "scores", "--open-model"], "encrypted, holders of the key see the model"),
    ] {
        let (id, warning) = tool.create(answers);
        assert_eq!(warning.contains("compute the model"), !answers.is_empty(), "{warning}");
        let line = format!("{id}  helba, {kind}, 4 features, 2 arms");
        assert!(tool.run("list", &[]).0.lines().any(|listed| listed == line));
        // Enough feedback for a batch, so that tasks of the bandit's own are answered too.
        for t in 1..=4 {
            let (arm, stderr) = tool.run("decide", &["--bandit", &id, "--contexts", "c.csv"]);
            assert!(
                ["0\n", "1\n"].contains(&arm.as_str()) && stderr.contains("kept in c.pending"),
                "{stderr}"
            );
            let again = tool.output("decide", &["--bandit", &id, "--contexts", "c.csv"]);
            assert!(String::from_utf8_lossy(&again.stderr).contains("c.pending exists"));
            let wrong = tool.output("feedback", &["--pending", "c.pending", "--reward", "1", "--arm", "2"]);
            assert!(String::from_utf8_lossy(&wrong.stderr).contains("there is no arm 2"));
            let arm = if t == 2 { &["--arm", "1"][..] } else { &[] };
            let arguments = [&["--pending", "c.pending", "--reward", "1"], arm].concat();
            let (receipt, _) = tool.run("feedback", &arguments);
            let receipt: protocol::Receipt = serde_json::from_str(&receipt).unwrap();
            assert_eq!(receipt.feedbacks, t);
            assert!(!server.file("c.pending").exists());
        }
        let refreshed = tool.run("refresh", &["--bandit", &id, "--json"]).0;
        let refreshed: serde_json::Value = serde_json::from_str(&refreshed).unwrap();
        assert_eq!(
            (&refreshed["status"]["updating"], &refreshed["status"]["refresh_due"]),
            (&false.into(), &false.into())
        );
        assert!(tool.run("refresh", &["--bandit", &id]).0.starts_with("nothing to answer"));
        let (status, _) = tool.run("status", &["--bandit", &id]);
        let wire::BanditView { created, status, .. } = serde_json::from_str(&status).unwrap();
        assert_eq!((created.config.linear.d, created.config.linear.k), (4, 2));
        // Failed decisions were not asked for: the file comes first.
        assert_eq!((status.round, status.feedbacks), (4, 4));
        assert!(status.batches > 0);
        // As JSON: what programs read.
        let json = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
        let decided = json(tool.run("decide", &["--bandit", &id, "--contexts", "c.csv", "--json"]).0);
        assert!(decided["arm"].as_u64() < Some(2) && decided["reliable"] == true, "{decided}");
        assert_eq!((&decided["pending"], &decided["repeats"]), (&"c.pending".into(), &0.into()));
        assert!(decided["decision"].as_str().is_some_and(|decision| !decision.is_empty()));
        tool.run("feedback", &["--pending", "c.pending", "--reward", "0", "--json"]);
        let listed = json(tool.run("list", &["--json"]).0);
        assert!(listed.as_array().unwrap().iter().any(|bandit| bandit["id"] == id.as_str()), "{listed}");
        // Contexts from stdin have no name that the file of the decision could take.
        let piped = |arguments: &[&str]| {
            let mut decide = tool.command("decide");
            decide.args(["--bandit", &id, "--contexts", "-"]).args(arguments);
            decide.stdin(File::open(server.file("c.csv")).unwrap()).output().unwrap()
        };
        assert!(String::from_utf8_lossy(&piped(&[]).stderr).contains("--pending FILE with --contexts -"));
        assert!(piped(&["--pending", "in.pending"]).status.success());
        tool.run("feedback", &["--pending", "in.pending", "--reward", "-1"]);
        // Contexts that the bandit does not have leave no file behind.
        std::fs::write(server.file("bad.csv"), "0.5,0.1,0,0.2\n").unwrap();
        let bad = tool.output("decide", &["--bandit", &id, "--contexts", "bad.csv"]);
        assert!(
            String::from_utf8_lossy(&bad.stderr).contains("2 arms") && !server.file("bad.pending").exists()
        );
        tool.run("delete", &["--bandit", &id]);
    }
}

/// A file of purchases on a new bandit, and on the same one again.
#[test]
fn the_tool_replays_on_encrypted_bandits() {
    let server = Server::start("127.0.0.1:0");
    let tool = Tool(&server);
    let rows: String = (0..8).map(|t| format!("{},{}.5,2,{}\n", t % 3, t % 2, ["a", "b"][t % 2])).collect();
    std::fs::write(server.file("p.csv"), format!("id,price.a,price.b,choice\n{rows}")).unwrap();
    let (out, _) = tool.run("replay", &["--data", "p.csv"]);
    let id = out.lines().next().unwrap().strip_prefix("bandit ").unwrap();
    assert!(out.contains("8 feedbacks counted") && out.contains("round     8  mean reward"), "{out}");
    // The best brand of the rounds that were played, not of the file: a, then b.
    assert!(out.contains("rounds 1 to 8:") && out.contains("always a 0.500, uniform choice 0.500"), "{out}");
    let (out, _) = tool.run("replay", &["--data", "p.csv", "--bandit", id, "--rounds", "2"]);
    assert!(out.contains("10 feedbacks counted"), "{out}");
    // The same file under a schema, and as JSON.
    let schema = "layout = \"wide\"\nchosen = \"choice\"\nidentity = true\nbias = true\n[candidate]\nprice = \"max\"\n";
    std::fs::write(server.file("s.toml"), schema).unwrap();
    let (out, _) = tool.run("replay", &["--data", "p.csv", "--schema", "s.toml", "--rounds", "3", "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&out["rounds"], &out["status"]["feedbacks"]), (&3.into(), &3.into()));
    assert_eq!(out["best_fixed"]["candidate"], "a");
    assert!((out["best_fixed"]["mean_reward"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-12);
    // Options that a bandit has already.
    let refused = |arguments: &[&str], says: &str| {
        let out = tool.output("replay", &[&["--data", "p.csv"], arguments].concat());
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && text.contains(says), "{text}");
    };
    refused(&["--bandit", id, "--answers", "arm"], "--bandit");
    // A bandit that was left after three rounds goes on with the fourth, and is compared in the rounds that
    // it plays.
    let first = ["--data", "p.csv", "--rounds", "3", "--json"];
    let started: serde_json::Value = serde_json::from_str(&tool.run("replay", &first).0).unwrap();
    let id = started["bandit"].as_str().unwrap();
    let rest = ["--data", "p.csv", "--bandit", id, "--resume", "--json", "--plot", "rest.svg"];
    let rest_played: serde_json::Value = serde_json::from_str(&tool.run("replay", &rest).0).unwrap();
    assert_eq!((&rest_played["first_round"], &rest_played["rounds"]), (&4.into(), &5.into()));
    assert_eq!(rest_played["status"]["feedbacks"], 8);
    assert_eq!(
        (&started["best_fixed"]["candidate"], &rest_played["best_fixed"]["candidate"]),
        (&"a".into(), &"b".into())
    );
    assert_eq!(rest_played["uniform_mean_reward"], 0.5);
    assert!(rest_played["exact_mean_reward"].as_f64().is_some_and(|mean| (0.0..=1.0).contains(&mean)));
    let svg = std::fs::read_to_string(server.file("rest.svg")).unwrap();
    for curve in ["encrypted", "exact arithmetic", "always b", "uniform choice"] {
        assert!(svg.contains(curve), "{curve}");
    }
    refused(&["--bandit", id, "--resume"], "no round is left");
    refused(&["--resume"], "--bandit");
    // Who creates a bandit that shows its model says so.
    refused(&["--answers", "scores"], "compute the whole model");
    refused(&["--answers", "arm", "--open-model"], "open_model");
}

/// What was logged is learnt in bulk from a file, once by its name: the arm that was played of logged
/// decisions, and every candidate of choices.
#[test]
fn the_tool_learns_what_was_logged() {
    let server = Server::start("127.0.0.1:0");
    let tool = Tool(&server);
    let row = |t: usize| {
        format!("{},{}.5,{},{},0.5\n", t % 3, t % 2, ["a", "b"][t / 2 % 2], usize::from(t % 3 == 1))
    };
    let log: String = (0..40).map(row).collect();
    std::fs::write(server.file("log.csv"), format!("price.a,price.b,shown,clicked,probability\n{log}"))
        .unwrap();
    let schema = "layout = \"wide\"\nchosen = \"shown\"\nreward = \"clicked\"\npropensity = \"probability\"\nidentity = true\nbias = true\n[candidate]\nprice = \"max\"\n";
    std::fs::write(server.file("log.toml"), schema).unwrap();
    let (id, _) = tool.create(&[]);
    let learn = |id: &str, more: &[&str]| {
        let arguments = [&["--bandit", id, "--data", "log.csv", "--schema", "log.toml"], more].concat();
        let out: serde_json::Value = serde_json::from_str(&tool.run("learn", &arguments).0).unwrap();
        out
    };
    let learnt = learn(&id, &["--name", "spring", "--json"]);
    assert_eq!((&learnt["rounds"], &learnt["erasable"]), (&40.into(), &false.into()));
    let numbers =
        ["round", "feedbacks", "model_feedbacks"].map(|name| learnt["status"][name].as_u64().unwrap());
    assert_eq!(numbers, [40, 40, 40]);
    assert_eq!(learn(&id, &["--name", "spring", "--json"]), learnt);
    let (said, _) = tool
        .run("learn", &["--bandit", &id, "--data", "log.csv", "--schema", "log.toml", "--name", "spring"]);
    assert!(said.contains("cannot be erased"), "{said}");

    // More rounds than the numbers of a bandit are scaled for are learnt with a warning.
    for (horizon, warned) in [("39", true), ("40", false)] {
        let (id, _) = tool.create(&["--horizon", horizon]);
        let (_, said) = tool.run("learn", &["--bandit", &id, "--data", "log.csv", "--schema", "log.toml"]);
        let warning = format!("a horizon of {horizon} rounds, and with these 40 it has up to 40 feedbacks");
        assert_eq!(said.contains(&warning) && said.contains("--horizon 40"), warned, "{said}");
        assert_eq!(said.contains("warning"), warned, "{said}");
    }

    // By the transformation of other rounds; a score is learnt by no other.
    let (transform, _) = tool.data(&["transform", "log.csv", "--schema", "log.toml"]);
    std::fs::write(server.file("transform.json"), transform).unwrap();
    let (id, _) = tool.create(&[]);
    let with = learn(&id, &["--transform", "transform.json", "--json"]);
    assert_eq!(with["status"]["feedbacks"], 40);
    std::fs::write(server.file("scored.toml"), format!("score = {{}}\n{schema}")).unwrap();
    let scored = ["--bandit", &id, "--data", "log.csv", "--schema", "scored.toml"];
    let refused = tool.output("learn", &scored);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("--transform"), "{said}");

    let rows: String = (0..8).map(|t| format!("{},{}.5,2,{}\n", t % 3, t % 2, ["a", "b"][t % 2])).collect();
    std::fs::write(server.file("p.csv"), format!("id,price.a,price.b,choice\n{rows}")).unwrap();
    let (id, _) = tool.create(&[]);
    let (learnt, _) = tool.run("learn", &["--bandit", &id, "--data", "p.csv", "--json"]);
    let learnt: serde_json::Value = serde_json::from_str(&learnt).unwrap();
    assert_eq!((&learnt["rounds"], &learnt["status"]["feedbacks"]), (&16.into(), &16.into()));
}

/// Counters of two devices are the sums of their own logs, in whole groups, for people and as JSON.
#[test]
fn the_tool_opens_counters() {
    let server = Server::start("127.0.0.1:0");
    let tool = Tool(&server);
    let (id, _) = tool.create(&["--answers", "scores", "--open-model", "--counters", "10"]);
    let (client, devices, mut rng) = (server.client(), [server.device(), server.device()], rng(6));
    let created = client.encrypted(&id).unwrap().created;
    let devices = devices.each_ref().map(|device| device.join(&created).unwrap());
    let mut log = [[0.0; 2]; 2];
    let opened = || -> serde_json::Value {
        let (out, _) = tool.run("counters", &["--bandit", &id, "--baseline", "0", "--json"]);
        serde_json::from_str(&out).unwrap()
    };
    for round in 0..21 {
        if [9, 10, 19].contains(&round) {
            assert_eq!(opened()["feedbacks"], round / 10 * 10);
        }
        let rows = vec![vec![0.5, 0.1, 0.0, 0.2], vec![-0.3, 0.4, 0.2, 0.0]];
        let device = &devices[round % 2];
        let choice = device.play(&client, &rows, &mut rng).unwrap().choice;
        // Another arm than the proposed one may be played.
        let (arm, reward) = (round * round % 3 % 2, [0.25, -1.0, 0.5][round % 3]);
        let body = device.feedback(arm, &rows[arm], reward, None, &mut rng).unwrap();
        client.feedback_encrypted(&id, choice.id, &body).unwrap();
        if round < 20 {
            log[arm] = [log[arm][0] + 1.0, log[arm][1] + reward];
        }
        if round == 8 {
            assert!(tool.run("counters", &["--bandit", &id]).0.contains("no counters yet: 9 feedbacks"));
        }
    }
    let (json, [first, second]) = (opened(), log);
    for (arm, [pulls, reward]) in log.into_iter().enumerate() {
        let got = &json["arms"][arm];
        assert_eq!([&got["pulls"], &got["reward"], &got["mean"]], [pulls, reward, reward / pulls]);
    }
    let (all, baseline) = ((first[1] + second[1]) / 20.0, first[1] / first[0]);
    assert_eq!((json["mean"].as_f64(), json["gain"].as_f64()), (Some(all), Some(all - baseline)));
    let (text, _) = tool.run("counters", &["--bandit", &id, "--baseline", "0"]);
    assert!(text.contains("the first 20 of 21 feedbacks") && text.contains("from that of arm 0"), "{text}");
    let bytes = |client: &user_client::Client| client.counters(&id, devices[0].limits()).unwrap();
    assert_eq!(bytes(&client), bytes(&client));

    let refused = |command: &str, arguments: &[&str], says: &str| {
        let out = tool.output(command, arguments);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && text.contains(says), "{text}");
    };
    refused("counters", &["--bandit", &id, "--baseline", "2"], "numbered from 0 to 1");
    let (other, _) = tool.create(&[]);
    refused("counters", &["--bandit", &other], "--counters");
    refused("create", &["--features", "4", "--arms", "2", "--counters", "9"], "counters.every");
    let rho = ["--features", "4", "--arms", "2", "--counters", "--counters-rho", "0"];
    refused("create", &rho, "counters.rho");
}

/// Names and tags are given at the creation, listed, filtered by, changed and removed.
#[test]
fn the_tool_labels_bandits() {
    let server = Server::start("127.0.0.1:0");
    let tool = Tool(&server);
    let (id, _) = tool.create(&["--name", "Käse \"1\"", "--tag", "live", "--tag", "b"]);
    let (other, _) = tool.create(&[]);
    let list = |arguments: &[&str]| tool.run("list", arguments).0;
    let labelled = format!("{id}  \"Käse \\\"1\\\"\" #live #b  helba, ");
    assert!(list(&[]).contains(&labelled) && list(&[]).contains(&format!("{other}  helba, ")));
    assert!(list(&["--tag", "live", "--name", "Käse \"1\""]).starts_with(&labelled));
    let (none, said) = tool.run("list", &["--tag", "none"]);
    assert!(none.is_empty() && said.contains("no bandit that is listed to this token has this name and tag"));
    let (shown, _) = tool.run("label", &["--bandit", &id, "--no-name", "--tag", "c"]);
    assert_eq!(shown.trim_end(), format!("{id} #c"));
    let (status, _) = tool.run("status", &["--bandit", &id]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert!(status["tags"] == serde_json::json!(["c"]) && status.get("name").is_none());
    tool.run("label", &["--bandit", &id, "--no-tags"]);
    assert!(list(&["--tag", "c"]).is_empty());
    assert!(!tool.output("label", &["--bandit", &id]).status.success(), "nothing changes");
}

/// A bandit is frozen and thawed, and its counters say so.
#[test]
fn the_tool_freezes_bandits() {
    let server = Server::start("127.0.0.1:0");
    let tool = Tool(&server);
    let (id, _) = tool.create(&[]);
    for (command, frozen) in [("freeze", true), ("freeze", true), ("thaw", false)] {
        let (status, _) = tool.run(command, &["--bandit", &id]);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&status).unwrap()["frozen"], frozen);
    }
}

/// An API token in a file takes the place of that of the bundle, for encrypted bandits too. Each fault of a
/// token has a sentence of its own, and an empty list says why it is empty.
#[test]
fn the_tool_sends_api_tokens() {
    let server = Server::start("127.0.0.1:0");
    let tool = Tool(&server);
    let (_, stderr) = tool.run("list", &[]);
    assert!(stderr.contains("no encrypted bandit") && stderr.contains("--token-file"), "{stderr}");
    let (id, _) = tool.create(&[]);
    std::fs::write(server.file("c.csv"), "0.5,0.1,0,0.2\n-0.3,0.4,0.2,0\n").unwrap();
    let make = |name: &str, scopes: &[Scope]| {
        let new = NewToken { name: name.into(), scopes: scopes.to_vec(), bandit: None, expires: None };
        let token = TokensFile::of(&server.file("state")).create(new, &mut rng(name.len() as u64)).unwrap();
        host::write_private(&server.file(name), token.to_hex().as_bytes()).unwrap();
    };
    make("phone", &[Scope::Decide, Scope::Feedback]);
    make("asks", &[Scope::Decide]);
    let fails = |command: &str, arguments: &[&str]| {
        let out = tool.output(command, arguments);
        assert!(!out.status.success());
        String::from_utf8(out.stderr).unwrap()
    };
    let decide = ["--bandit", &id, "--contexts", "c.csv", "--token-file"];
    let feedback = ["--pending", "c.pending", "--reward", "1", "--token-file"];
    // Several rounds, so that tasks come with some of the decisions.
    for _ in 0..3 {
        tool.run("decide", &[&decide[..], &["phone"]].concat());
        let said = fails("feedback", &[&feedback[..], &["asks"]].concat());
        assert!(said.contains("403") && said.contains("the scope of the token is decide"), "{said}");
        tool.run("feedback", &[&feedback[..], &["phone"]].concat());
    }
    assert!(
        fails("create", &["--features", "4", "--arms", "2", "--token-file", "phone"]).contains("`admin`")
    );
    assert!(fails("delete", &["--bandit", &id, "--token-file", "phone"]).contains("403"));
    let (list, _) = tool.run("list", &["--token-file", "phone"]);
    assert!(list.starts_with(&id), "{list}");
    host::write_private(&server.file("lost"), "1".repeat(64).as_bytes()).unwrap();
    assert!(fails("list", &["--token-file", "lost"]).contains("does not know the token"));
    let mut bare = Command::new(env!("CARGO_BIN_EXE_helba-client"));
    let bare = bare.args(["list", "--server", &server.url()]).output().unwrap();
    assert!(String::from_utf8_lossy(&bare.stderr).contains("the request has no token"));
}

/// A secret bundle that could not play the bandit is refused before there is one, whatever token comes with
/// it.
#[test]
fn a_bundle_of_other_keys_creates_nothing() {
    let server = Server::start("127.0.0.1:0");
    let new = NewToken { name: "admin".into(), scopes: vec![Scope::Admin], bandit: None, expires: None };
    let token = TokensFile::of(&server.file("state")).create(new, &mut rng(1)).unwrap();
    host::write_private(&server.file("admin"), token.to_hex().as_bytes()).unwrap();
    let half = &keys().1[..keys().1.len() / 2];
    for (name, bytes, why) in [
        ("other", &other_keys().1[..], "use the secret bundle that was generated with the public bundle"),
        ("half", half, "half.bundle"),
        ("none", &b"what is this?"[..], "none.bundle"),
        ("public", &keys().0[..], "public"),
    ] {
        let path = server.file(&format!("{name}.bundle"));
        std::fs::write(&path, bytes).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let mut tool = Command::new(env!("CARGO_BIN_EXE_helba-client"));
        tool.args(["create", "--toy", "--features", "4", "--arms", "2", "--server", &server.url()]);
        let out =
            tool.arg("--secret").arg(path).arg("--token-file").arg(server.file("admin")).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && said.contains(why), "{name}: {said}");
    }
    assert_eq!(Tool(&server).run("list", &["--json"]).0.trim(), "[]");
    // The control.
    Tool(&server).create(&["--token-file", server.file("admin").to_str().unwrap()]);
}

/// Requests that break off are sent again, and every feedback is counted once. Without patience, the round
/// fails and the message says how to go on.
#[test]
fn replay_is_patient_with_a_line_that_breaks() {
    let server = Server::start("127.0.0.1:0");
    let rows: String = (0..8).map(|t| format!("{},{}.5,2,{}\n", t % 3, t % 2, ["a", "b"][t % 2])).collect();
    std::fs::write(server.file("p.csv"), format!("id,price.a,price.b,choice\n{rows}")).unwrap();
    let play = |line: &Line, arguments: &[&str]| {
        let mut replay = Command::new(env!("CARGO_BIN_EXE_helba-client"));
        replay.args([
            "replay",
            "--secret",
            "secret.bundle",
            "--toy",
            "--data",
            "p.csv",
            "--json",
            "--server",
            &line.url(),
        ]);
        replay.current_dir(server.file("")).args(arguments).output().unwrap()
    };
    let line = Line::start(&server, 100_000, false);
    let out = play(&line, &[]);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && stderr.contains("asking again for up to 60 s"), "{stderr}");
    let out: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&out["rounds"], &out["status"]["feedbacks"]), (&8.into(), &8.into()));
    let out = play(&Line::start(&server, 20_000, false), &["--patience", "0"]);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && stderr.contains("to go on") && stderr.contains("--resume"), "{stderr}");
}

/// While a decision is asked for, its file is empty.
#[cfg(unix)]
#[test]
fn an_interrupted_decision_leaves_no_file() {
    use std::os::unix::process::ExitStatusExt;
    let server = Server::start("127.0.0.1:0");
    let (id, _) = Tool(&server).create(&[]);
    std::fs::write(server.file("c.csv"), "0.5,0.1,0,0.2\n-0.3,0.4,0.2,0\n").unwrap();
    let line = Line::start(&server, 5_000, true);
    let mut decide = Command::new(env!("CARGO_BIN_EXE_helba-client"));
    decide.args(["decide", "--secret", "secret.bundle", "--toy", "--contexts", "c.csv", "--bandit", &id]);
    let mut decide = decide.args(["--server", &line.url()]).current_dir(server.file("")).spawn().unwrap();
    while !server.file("c.pending").exists() {
        assert!(decide.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &decide.id().to_string()]).status().unwrap().success());
    assert_eq!(decide.wait().unwrap().signal(), Some(2));
    assert!(!server.file("c.pending").exists());
}

/// A line to a server that carries so many bytes of requests on its first connection, and twice as many on
/// each further one, and then breaks or hangs.
struct Line(std::net::SocketAddr);

impl Line {
    fn start(server: &Server, bytes: u64, hangs: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, to) = (listener.local_addr().unwrap(), server.url()["http://".len()..].to_string());
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
                let bytes = bytes << number.min(20);
                let server = TcpStream::connect(&to).unwrap();
                let (from_client, mut to_client) = (client.try_clone().unwrap(), client);
                let (mut from_server, mut to_server) = (server.try_clone().unwrap(), server);
                std::thread::spawn(move || std::io::copy(&mut from_server, &mut to_client));
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut (&from_client).take(bytes), &mut to_server);
                    if !hangs {
                        let _ = from_client.shutdown(Shutdown::Both);
                        let _ = to_server.shutdown(Shutdown::Both);
                    } else {
                        std::thread::sleep(std::time::Duration::from_secs(3600));
                    }
                });
            }
        });
        Line(address)
    }

    fn url(&self) -> String {
        format!("http://{}", self.0)
    }
}

/// Before anything is sent, `committee create` refuses by its name each option that a committee has not. As
/// many sessions a batch are asked for as members accept.
#[test]
fn a_committee_refuses_options_of_keys_by_name() {
    let create = |options: &[&str]| {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_helba-client"));
        tool.args([
            "committee",
            "create",
            "--server",
            "http://127.0.0.1:9",
            "--features",
            "2",
            "--arms",
            "2",
        ]);
        let out = tool.args(options).output().unwrap();
        assert!(!out.status.success());
        String::from_utf8(out.stderr).unwrap()
    };
    for (options, name) in [
        (&["--horizon", "5"][..], "--horizon"),
        (&["--unanswered", "1"], "--unanswered"),
        (&["--answers", "arm"], "--answers"),
        (&["--schedule", "trace_or_growth"], "--schedule trace_or_growth"),
        (&["--counters", "10", "--counters-rho", "0.5"], "--counters-rho"),
        (&["--answers", "scores", "--open-model"], "--answers, --open-model"),
    ] {
        let refused = create(options);
        assert!(refused.contains(&format!("leave out {name}")), "{refused}");
    }
    for (sessions, sent) in [("4096", true), ("4097", false)] {
        let refused = create(&["--sessions", sessions]);
        assert_eq!(refused.contains("no answer from"), sent, "{refused}");
    }
}
