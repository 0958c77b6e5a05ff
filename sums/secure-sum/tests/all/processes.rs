//! Real processes on loopback ports: what they compute, what each of them sees, what they refuse.

use crate::common::{PROGRAM, bodies, party, refused};
use bandit::distributed::Model;
use prio::field::Field64;
use privacy::Ratio;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use secure_sum::local::{Passed, Process, Relay};
use secure_sum::{Batch, BatchId, Collector, Error, Party, Plan, Report, reports};
use std::path::Path;
use tempfile::TempDir;
use wire::AccessToken;

const PLAN: Plan = Plan {
    model: Model::Pure,
    epsilon: Ratio::ONE,
    invited: 300,
    missing: Ratio::ZERO,
    colluding: Ratio::ZERO,
    confidence: 0.1,
    horizon: 1000,
};

fn aggregator() -> Process {
    Process::start(Path::new(PROGRAM), &["aggregator", "--listen", "127.0.0.1:0"]).unwrap()
}

fn batch(tenths_missing: u128) -> Batch {
    Batch::new(&Plan { missing: Ratio::new(tenths_missing, 10).unwrap(), ..PLAN }).unwrap()
}

/// Users of whom every tenth is cut off after its first report. The sum is that of the others, and every byte
/// that reached a party is what that party may see.
#[test]
fn views_hold_shares_ids_and_one_noised_sum() {
    let (first, second) = (aggregator(), aggregator());
    let (users, collector) = ([&first, &second], [&first, &second]);
    let users = users.map(|p| Relay::start(p.address()).unwrap());
    let relays = collector.map(|p| Relay::start(p.address()).unwrap());
    let collector = Collector::new(relays.each_ref().map(|r| party(r.address())));
    let parties = users.each_ref().map(|r| party(r.address()));

    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let batch = batch(1);
    let id = batch.id(0x5eed_1234_abcd_9876);
    [&first, &second].iter().for_each(|process| party(process.address()).announce(id).unwrap());
    let (mut steps, mut values, mut total) = (0, Vec::new(), 0);
    for user in 0..PLAN.invited {
        // As `randomise`, with the parts in hand.
        let step = i128::from(batch.mechanism().encode(f64::from(user % 3 == 0), &mut rng).unwrap());
        let value = step + batch.mechanism().noise(&mut rng).unwrap();
        values.push(value);
        let cut = user % 10 == 9;
        for (party, report) in parties.iter().zip(&reports(id, value, &mut rng)).take(if cut { 1 } else { 2 })
        {
            party.report(report).unwrap();
            // A retry changes nothing.
            party.report(report).unwrap();
        }
        if !cut {
            (steps, total) = (steps + step, total + value);
        }
    }
    let sum = collector.collect(id).unwrap();
    assert_eq!((sum.total, sum.users), (total, 270));
    assert_ne!(total, steps, "another seed: with this one all noise cancels");

    // An aggregator sees reports of uniform shares: 16 cells of the highest bits, 15 degrees of freedom, 50
    // has probability 1e-5.
    let views: Vec<Passed> = users.iter().map(Relay::passed).collect();
    for (view, count) in views.iter().zip([300, 270]) {
        let mut seen: Vec<Report> =
            bodies(&view.sent).iter().flat_map(|b| Report::read_all(b).unwrap()).collect();
        seen.dedup();
        assert_eq!(seen.len(), count);
        let mut cells = [0f64; 16];
        seen.iter().for_each(|r| cells[(u64::from(r.share) >> 60) as usize] += 1.0);
        let want = count as f64 / 16.0;
        let chi: f64 = cells.iter().map(|n| (n - want).powi(2) / want).sum();
        assert!(chi < 50.0, "{chi}");
    }
    // The collector gets ids and two totals, and asks with ids; nobody meets a value, nor the sum without its
    // noise.
    let element =
        |v: i128| u64::from(if v < 0 { -Field64::from(-v as u64) } else { Field64::from(v as u64) });
    for (relay, count) in relays.iter().zip([300, 270]) {
        let view = relay.passed();
        assert_eq!(bodies(&view.answered).iter().map(Vec::len).collect::<Vec<_>>(), [count * 16, 8]);
        assert_eq!(bodies(&view.sent).iter().map(Vec::len).collect::<Vec<_>>(), [0, 270 * 16]);
    }
    let answers = relays.iter().map(|r| bodies(&r.passed().answered));
    let secret: Vec<u64> = values.iter().copied().chain([steps, total]).map(element).collect();
    for body in views.iter().flat_map(|v| bodies(&v.sent)).chain(answers.flatten()) {
        for window in body.windows(8) {
            let word = u64::from_le_bytes(window.try_into().unwrap());
            assert!(!secret.contains(&word), "a value in the clear");
        }
    }
}

/// A collector that strays: too few users, another set, single users, no closing, ids nobody sent.
#[test]
fn a_batch_opens_once_for_enough_users() {
    let (first, second) = (aggregator(), aggregator());
    let parties = [&first, &second].map(|p| party(p.address()));
    let collector = Collector::new(parties.clone());
    let mut rng = ChaCha20Rng::seed_from_u64(12);
    let id = BatchId { number: 1, at_least: 3 };
    collector.announce(id).unwrap();
    let mut ids = Vec::new();
    for value in [5, -7, 11, 100] {
        let both = reports(id, value, &mut rng);
        ids.push(both[0].id);
        // The last user's second report is lost.
        both.iter()
            .zip(&parties)
            .take(if value == 100 { 1 } else { 2 })
            .for_each(|(r, p)| p.report(r).unwrap());
    }
    let lost = ids.pop().unwrap();
    ids.sort();
    let open = |set: &[[u8; 16]]| parties[0].post("batches/1/3/open", set.as_flattened(), 8);
    refused(open(&ids), "not_closed");
    refused(parties[0].post("batches/1/4/close", &[], 99), "not_announced");
    refused(parties[0].report(&reports(BatchId { at_least: 2, ..id }, 1, &mut rng)[0]), "not_announced");
    parties[0].post("batches/1/3/close", &[], 99).unwrap();
    refused(open(&ids[..2]), "too_few");
    refused(open(&[ids[0]; 3]), "unknown_report");
    refused(open(&[ids[2], ids[1], ids[0]]), "unknown_report");
    refused(open(&[ids[0], ids[1], [0xff; 16]]), "unknown_report");
    refused(parties[0].report(&reports(id, 1, &mut rng)[0]), "closed");

    let sum = collector.collect(id).unwrap();
    assert_eq!((sum.total, sum.users), (9, 3));
    // Repeated: the same answer. One user more: none.
    assert_eq!(open(&ids).unwrap(), open(&ids).unwrap());
    let mut more = [ids.clone(), vec![lost]].concat();
    more.sort();
    refused(open(&more), "opened");
    // The collector may begin again, for the same set.
    assert_eq!(parties[0].post("batches/1/3/close", &[], 99).unwrap(), ids.as_flattened());
    assert_eq!(collector.collect(id).unwrap(), sum);
    refused(parties[0].announce(BatchId { at_least: 4, ..id }), "announced");
    parties[0].announce(id).unwrap();
    refused(parties[0].report(&reports(id, 1, &mut rng)[0]), "closed");

    // Dropped out below the threshold: refused before anything is opened, and at the aggregator too.
    let few = BatchId { number: 2, at_least: 3 };
    collector.announce(few).unwrap();
    for _ in 0..2 {
        reports(few, 1, &mut rng).iter().zip(&parties).for_each(|(r, p)| p.report(r).unwrap());
    }
    assert!(matches!(collector.collect(few), Err(Error::TooFew { got: 2, need: 3 })));
    drop(second);
    assert!(matches!(collector.collect(few), Err(Error::Unreachable { .. })));
}

/// Random bytes, cut-off and overlong bodies, wrong paths: refused as the caller's fault, and service goes
/// on.
#[test]
fn hostile_bytes_are_refused() {
    let process = aggregator();
    let party = party(process.address());
    let mut rng = ChaCha20Rng::seed_from_u64(13);
    for path in
        ["reports", "batches/0/1/open", "batches/0/1/close", "batches/x/-1/open", "nothing", "../reports"]
    {
        for length in [0, 1, 15, 16, 35, 36, 37, 4096, 200_000] {
            let mut body = vec![0; length];
            rng.fill_bytes(&mut body);
            match party.post(path, &body, 0) {
                Ok(_) => panic!("{path} {length}"),
                Err(Error::Refused { problem, .. }) => {
                    assert!((400..500).contains(&problem.status), "{problem:?}")
                }
                Err(Error::Unreachable { .. }) => assert!(length == 200_000, "{path} {length}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
    let id = BatchId { number: 9, at_least: 1 };
    party.announce(id).unwrap();
    let report = &reports(id, 3, &mut rng)[0];
    party.report(report).unwrap();
    let other = Report { share: report.share + Field64::from(1), ..*report };
    refused(party.report(&other), "duplicate");
}

/// The collector crashes after one aggregator has opened and before the other has. It begins again and gets
/// the sum, since the first aggregator still names the set.
#[test]
fn a_collector_may_fall_over_between_the_two_openings() {
    let (first, second) = (aggregator(), aggregator());
    let parties = [&first, &second].map(|p| party(p.address()));
    let collector = Collector::new(parties.clone());
    let mut rng = ChaCha20Rng::seed_from_u64(14);
    let id = BatchId { number: 1, at_least: 2 };
    collector.announce(id).unwrap();
    let mut sent: Vec<_> = [3, -5, 90].map(|value| (value, reports(id, value, &mut rng))).into();
    sent.sort_by_key(|(_, both)| both[0].id);
    for (k, (_, both)) in sent.iter().enumerate() {
        // The last user's report reaches the second aggregator alone.
        both.iter().zip(&parties).skip(usize::from(k == 2)).for_each(|(r, p)| p.report(r).unwrap());
    }
    let set: Vec<_> = sent[..2].iter().map(|(_, both)| both[0].id).collect();
    for party in &parties {
        party.post("batches/1/2/close", &[], 99).unwrap();
    }
    parties[0].post("batches/1/2/open", set.as_flattened(), 8).unwrap();
    for _ in 0..2 {
        let sum = collector.collect(id).unwrap();
        assert_eq!((sum.total, sum.users), (sent[0].0 + sent[1].0, 2));
    }
}

/// A stranger closes a batch under way, so that it lacks users, and announces batches that take room. Where a
/// token was given it is refused, and so is one who shows another token; where none was, the same requests go
/// through.
#[test]
fn attack_a_stranger_closes_a_batch() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("token");
    host::write_private(&file, ("0123456789abcdef".repeat(4) + "\n").as_bytes()).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(15);
    for guarded in [true, false] {
        let mut arguments = vec!["aggregator", "--listen", "127.0.0.1:0"];
        if guarded {
            arguments.extend(["--token-file", file.to_str().unwrap()]);
        }
        let process = Process::start(Path::new(PROGRAM), &arguments).unwrap();
        let stranger = party(process.address());
        let guess = stranger.clone().with_token(Some(AccessToken::from_hex(&"0123".repeat(16)).unwrap()));
        let collector = stranger.clone().with_token(Some(AccessToken::open(&file).unwrap()));
        let id = BatchId { number: 1, at_least: 1 };
        collector.announce(id).unwrap();
        let first = reports(id, 1, &mut rng)[0];
        // Users show nothing.
        stranger.report(&first).unwrap();
        for bad in [&stranger, &guess] {
            let asked = [
                bad.announce(BatchId { number: 2, at_least: 1 }).map(|()| Vec::new()),
                bad.post("batches/1/1/close", &[], 99),
                bad.post("batches/1/1/open", &first.id, 8),
            ];
            for asked in asked {
                match asked {
                    Ok(_) => assert!(!guarded),
                    refusal => {
                        assert!(guarded, "{refusal:?}");
                        refused(refusal, "no_token");
                    }
                }
            }
        }
        let second = stranger.report(&reports(id, 1, &mut rng)[0]);
        if guarded {
            second.unwrap();
            assert_eq!(collector.post("batches/1/1/close", &[], 99).unwrap().len(), 32);
        } else {
            refused(second, "closed");
        }
    }
    let other_machines = ["aggregator", "--listen", "0.0.0.0:0"];
    let out = std::process::Command::new(PROGRAM).args(other_machines).output().unwrap();
    assert!(
        !out.status.success() && String::from_utf8_lossy(&out.stderr).contains("--token-file"),
        "{out:?}"
    );
    std::fs::write(&file, "short").unwrap();
    let arguments = ["aggregator", "--listen", "127.0.0.1:0", "--token-file", file.to_str().unwrap()];
    let out = std::process::Command::new(PROGRAM).args(arguments).output().unwrap();
    assert!(
        !out.status.success() && String::from_utf8_lossy(&out.stderr).contains("64 hexadecimal digits"),
        "{out:?}"
    );
}

/// Without a token, a service where other machines reach it would let anybody close and open batches.
#[test]
fn attack_no_service_listens_for_others_without_a_token() {
    let arguments = ["aggregator", "--listen", "0.0.0.0:0", "--plain-http"];
    let refused = Process::start(Path::new(PROGRAM), &arguments).err();
    assert!(refused.is_some(), "it listens");
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    host::write_private(&token, "1".repeat(64).as_bytes()).unwrap();
    let with_token = [&arguments[..], &["--token-file", token.to_str().unwrap()]].concat();
    assert!(Process::start(Path::new(PROGRAM), &with_token).is_ok(), "the control");
}

/// Services over HTTPS, each with a certificate of its own, and a collector that trusts both. Without `--ca`
/// they are not reached; with a token and without HTTPS none listens where other machines reach it.
#[test]
fn aggregators_speak_https() {
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    host::write_private(&token, "1".repeat(64).as_bytes()).unwrap();
    let token = ["--token-file", token.to_str().unwrap()];
    let own = ["first", "second"].map(|name| folder.path().join(name));
    let start = |folder: &Path| {
        let same = ["aggregator", "--listen", "127.0.0.1:0", "--tls-self-signed", folder.to_str().unwrap()];
        Process::start(Path::new(PROGRAM), &[&same[..], &token].concat()).unwrap()
    };
    let aggregators = own.each_ref().map(|folder| start(folder));
    let ca = folder.path().join("ca.pem");
    let both = own.each_ref().map(|folder| std::fs::read_to_string(folder.join("ca.pem")).unwrap());
    std::fs::write(&ca, both.concat()).unwrap();
    let of =
        |process: &Process| Party::new(format!("https://localhost:{}", process.address().port())).unwrap();
    let parties = |ca: Option<&Path>| {
        let token = Some(AccessToken::from_hex(&"1".repeat(64)).unwrap());
        aggregators.each_ref().map(|a| of(a).trusting(ca).unwrap().with_token(token.clone()))
    };
    let batch = batch(0);
    let id = batch.id(1);
    assert!(matches!(Collector::new(parties(None)).announce(id), Err(Error::Unreachable { .. })));
    let collector = Collector::new(parties(Some(&ca)));
    collector.announce(id).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(12);
    for _ in 0..PLAN.invited {
        for (party, report) in parties(Some(&ca)).iter().zip(&reports(id, 1, &mut rng)) {
            party.report(report).unwrap();
        }
    }
    assert_eq!(collector.collect(id).unwrap().users, PLAN.invited);

    std::fs::write(&ca, "no certificate").unwrap();
    assert!(matches!(of(&aggregators[0]).trusting(Some(&ca)), Err(Error::BadCertificates { .. })));
    let out = std::process::Command::new(PROGRAM)
        .args(["aggregator", "--listen", "0.0.0.0:0"])
        .args(token)
        .output();
    let said = String::from_utf8(out.unwrap().stderr).unwrap();
    assert!(said.contains("--tls-self-signed") && said.contains("--plain-http"), "{said}");
}

/// All roles, as the documentation says to start them.
#[test]
fn the_demonstration_runs() {
    let arguments = ["demo", "--users", "600", "--arms", "3", "--dropout", "0.05", "--first", "40"];
    let out = std::process::Command::new(PROGRAM).args(arguments).output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    let value = |what: &str| -> f64 {
        let row = said.lines().find_map(|l| l.strip_prefix(what)?.strip_prefix(',')).unwrap();
        row.split(',').next().unwrap().parse().unwrap()
    };
    assert!(value("aggregators: rounds complete") >= 1.0, "{said}");
    assert!(value("aggregators: users answered") <= value("aggregators: users asked"));
    // Each user sends two reports of 36 bytes, less what dropped out, and two heads.
    assert!((72.0..1000.0).contains(&value("aggregators: user sends with HTTP")));
    // 200 users, 5 % of them missing: noise of a few tenths at epsilon 1, and 1.2 is half of all there can
    // be.
    let error = value("shuffler: estimated mean") - value("shuffler: true mean");
    assert!(error.abs() < 1.2, "{said}");
}

/// Arguments that cannot work are refused by name, before anything is sent.
#[test]
fn arguments_are_named() {
    let nobody = "http://127.0.0.1:1";
    for (arguments, says) in [
        (
            vec![
                "collect",
                "--aggregators",
                "127.0.0.1:1",
                nobody,
                "--server",
                nobody,
                "--bandit",
                "b",
                "--batch",
                "1",
            ],
            "such as http://",
        ),
        (vec!["collect", "--server", nobody, "--bandit", "b", "--batch", "1"], "--aggregators"),
        (
            vec!["collect", "--adder", nobody, "--server", nobody, "--bandit", "b", "--batch", "1"],
            "cannot be reached",
        ),
        (vec!["announce", "--server", nobody, "--bandit", "b", "--batch", "1"], "--aggregators"),
        (vec!["shuffler", "--server", nobody, "--bandit", "b"], "cannot be reached"),
        (vec!["users", "--server", nobody, "--batch", "1", "--mean", "1"], "--bandit"),
        (vec!["users", "--batch", "1", "--mean", "1"], "--invited"),
        (vec!["forward", "--shuffler", "here", "--exchange", "1"], "such as http://"),
        (vec!["users", "--shuffler", nobody, "--mean", "1"], "--server"),
        (vec!["users", "--server", nobody, "--bandit", "b", "--shuffler", nobody], "--mean"),
        (vec!["users", "--server", nobody, "--bandit", "b", "--mean", "1"], "--batch"),
        (vec!["shuffler", "--server", nobody], "--bandit"),
        (vec!["demo", "--users", "0"], "--users is 0"),
    ] {
        let out = std::process::Command::new(PROGRAM).args(&arguments).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && text.contains(says), "{arguments:?}: {text}");
    }
}

/// An interrupt of the demo ends the services that it started, which nobody would stop otherwise.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_demo_leaves_no_process() {
    use std::os::unix::process::ExitStatusExt;
    let mut demo = std::process::Command::new(PROGRAM);
    demo.args(["demo", "--users", "1000000"]).stdout(std::process::Stdio::null());
    let mut demo = demo.stderr(std::process::Stdio::null()).spawn().unwrap();
    let parent = demo.id().to_string();
    let children = || -> Vec<String> {
        let of = |stat: String| {
            let (name, rest) = stat.rsplit_once(')')?;
            let id = name.split(' ').next()?.to_string();
            (rest.split(' ').nth(2)? == parent).then_some(id)
        };
        let processes = std::fs::read_dir("/proc").unwrap().map_while(Result::ok);
        processes.filter_map(|entry| of(std::fs::read_to_string(entry.path().join("stat")).ok()?)).collect()
    };
    // Two aggregators and the users of a batch.
    let started = loop {
        let started = children();
        if started.len() == 3 {
            break started;
        }
        assert!(demo.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(std::process::Command::new("kill").args(["-INT", &parent]).status().unwrap().success());
    assert_eq!(demo.wait().unwrap().signal(), Some(2));
    for id in started {
        let left = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&left).contains("secure-sum"), "{id} runs on");
    }
}
