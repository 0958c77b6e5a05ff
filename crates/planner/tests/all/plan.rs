//! A plan says of keys, messages and levels what is then made, and refuses with a way out.

use circuits::{Clear, Complex64};
use ckks::{KeyStorage, Security};
use helba::Scalars;
use helba::circuit::DecisionCircuit;
use keygen::{Request, generate};
use planner::{Error, KernelSeconds, Line, Problem, choose, plan};
use protocol::{Automorphism, BanditConfig, Exchanging, KeyPlan, Shape, Updates, WidthShape};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

fn toy() -> Problem {
    Problem::new(2, 2, 1000, Security::None)
}

/// To the byte: the bundle's file and its keys in memory, of keys for each kind of updates and evaluations.
#[test]
fn planned_bytes_are_those_made() {
    let keyed =
        |d, k, updates, exchanges| Problem { features: d, arms: k, ..toy() }.with_keys(updates, exchanges);
    for problem in [
        toy(),
        keyed(2, 2, Updates::Products, Exchanging::One),
        keyed(2, 8, Updates::Products, Exchanging::One),
        keyed(2, 4, Updates::Products, Exchanging::Staged),
        keyed(20, 3, Updates::Products, Exchanging::Staged),
    ] {
        let Problem { features, arms, security, width, updates, exchanges, .. } = problem;
        let shape = Shape::for_problem(features, arms);
        let request =
            Request { shape, security, width, exchanges, updates, keys: Default::default(), created: 0 };
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut file = Vec::new();
        let summary = generate(request, &mut file, Vec::new(), &mut rng, |_, _| {}).unwrap();
        let manifest = serde_json::to_vec(&summary.manifest).unwrap().len();
        let report = plan(problem).unwrap();
        let frames: usize = report.keys.iter().map(|k| k.count).sum();
        let bytes: u64 = report.keys.iter().map(|k| k.bytes).sum();
        assert_eq!(frames, summary.manifest.frames as usize, "{problem:?}");
        assert_eq!(file.len() as u64, bytes + (14 + manifest + 8 * frames) as u64, "{problem:?}");

        let bundle = wire::PublicBundle::read(&file[..]).unwrap();
        let of_public_keys = |kind: &str| kind.starts_with("public key");
        let memory = |ring: &str| -> u64 {
            let ring_of = |kind: &str| {
                ["of scores", "of answers", "of evaluations"]
                    .into_iter()
                    .find(|ring| kind.ends_with(ring))
                    .unwrap_or("")
            };
            let kinds = report.keys.iter().filter(|k| !of_public_keys(k.kind));
            kinds.filter(|k| ring_of(k.kind) == ring).map(|k| k.memory).sum()
        };
        let (scores, decisions) = (bundle.scores, bundle.decisions);
        assert_eq!(memory("of evaluations"), decisions.map_or(0, |d| d.evaluator.keys().bytes() as u64));
        assert_eq!(memory(""), bundle.keys.bytes() as u64);
        assert_eq!(memory("of scores"), scores.keys.bytes() as u64);
        assert_eq!(memory("of answers"), scores.switch.map_or(0, |switch| switch.bytes() as u64));
    }
}

/// Evaluation keys in a server's memory against the same keys as polynomials at the top of the chain, with a
/// word of 64 bits a residue: keys stop at the level of their use, a residue takes the bytes of its prime,
/// and keys that only batch updates use are kept with their seed in place of one half.
#[test]
fn evaluation_keys_take_half_their_unpacked_memory() {
    // To the thousandth.
    let shares = [
        (2, 2, 0.3712),
        (7, 4, 0.3696),
        (8, 8, 0.3611),
        (16, 16, 0.4301),
        (8, 32, 0.4232),
        (16, 32, 0.4232),
        (16, 64, 0.3507),
    ];
    let mut wrong = Vec::new();
    for (d, k, want) in shares {
        let keys = KeyPlan::new(Shape::for_problem(d, k), false, WidthShape::Root).unwrap();
        let params = keys.params.validate().unwrap();
        let bytes = |gadget, level, storage| ckks::KeySwitchKey::bytes_at(&params, gadget, level, storage);
        let relin = bytes(params.relin_gadget(), keys.relin_level, KeyStorage::Expanded);
        let rotations = keys.galois.iter().map(|key| bytes(params.galois_gadget(), key.level, key.storage));
        let memory = relin + rotations.sum::<usize>();
        let top = params.max_level();
        let digits =
            params.galois_gadget().digits(top) * keys.galois.len() + params.relin_gadget().digits(top);
        let unpacked = 2 * digits * params.qp_basis(top).len() * params.n() * size_of::<u64>();
        let share = memory as f64 / unpacked as f64;
        if (share - want).abs() >= 0.0005 {
            wrong.push(format!("d = {d}, K = {k}: {memory} bytes are {share:.4} of the unpacked"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What every decision uses is kept as it is multiplied.
#[test]
fn rotations_of_updates_alone_are_seeded() {
    for (d, k) in [(2, 2), (7, 4), (8, 8), (16, 16), (16, 32), (16, 64)] {
        let shape = Shape::for_problem(d, k);
        let keys = KeyPlan::new(shape, false, WidthShape::Root).unwrap();
        let config = BanditConfig::new(d, k).exploring(Some(WidthShape::Root), None, None).unwrap();
        let params = keys.params.validate().unwrap();
        let alg = Clear::new(params.max_slots()).unwrap();
        let scalars = Scalars::new(&config, 1, 0);
        let circuit = DecisionCircuit::new(&config, scalars, shape, params.max_slots()).unwrap();
        let level = config.plan(&params, shape, keys.scores).unwrap().scores_level;
        circuit.products(&alg, &alg.fresh(&[Complex64::ZERO], level).unwrap()).unwrap();
        let decision = alg.rotation_levels();
        for key in &keys.galois {
            let of_decisions = match key.automorphism {
                Automorphism::Rotation(k) => decision.contains_key(&k),
                Automorphism::Conjugation => true,
            };
            let want = if of_decisions { KeyStorage::Expanded } else { KeyStorage::Seeded };
            assert_eq!(key.storage, want, "{} of {d}, {k}", key.automorphism);
        }
        assert!(keys.galois.iter().any(|key| key.storage == KeyStorage::Seeded));
    }
}

/// Steps add up to the levels that a bandit is given.
#[test]
fn depth_by_step_is_the_bandits_plan() {
    for (d, k) in [(1, 1), (2, 2), (7, 4), (8, 8), (3, 16), (16, 16), (8, 32), (16, 32), (16, 64)] {
        let report = plan(Problem::new(d, k, 1000, Security::Classical128)).unwrap();
        let shape = Shape::for_problem(d, k);
        let keys = KeyPlan::new(shape, false, WidthShape::default()).unwrap();
        let config = BanditConfig::new(d, k);
        let levels = config.plan(keys.rings().unwrap(), shape, keys.scores).unwrap();
        let sum = |list: &[planner::Depth]| list.iter().map(|d| d.levels).sum::<usize>();
        assert_eq!(sum(&report.decision_depth), levels.scores_level);
        assert_eq!(sum(&report.update_depth), levels.statistics_level);
        assert_eq!((report.params, report.users), (keys.params.name, levels.users));
        assert_eq!(report.log_n_of_scores, keys.scores.params.log_n);
        assert!(report.log2_qp <= f64::from(report.log2_qp_allowed.unwrap()) && report.security_bits == 128);
        assert!(report.slots.iter().all(|&s| s <= report.slots_available));
    }
    let toy = plan(toy()).unwrap();
    assert_eq!((toy.security_bits, toy.log2_qp_allowed), (0, None));
}

/// More bits of security take a larger ring, and more time and bytes.
#[test]
fn more_security_costs_more() {
    for (d, k) in [(2, 2), (16, 64)] {
        let [less, middle, more] = [Security::Classical128, Security::Classical192, Security::Classical256]
            .map(|security| plan(Problem::new(d, k, 1000, security)).unwrap());
        assert_eq!((less.log_n, middle.log_n, more.log_n), (15, 16, 16));
        assert!(middle.security_bits >= 192 && more.security_bits == 256);
        for report in [middle, more] {
            assert!(report.log2_qp <= f64::from(report.log2_qp_allowed.unwrap()));
            assert!(report.seconds[0].round > 1.5 * less.seconds[0].round);
        }
    }
}

/// Under the paper's schedule the trace has the place of a user and its question a price, and an update takes
/// what it takes otherwise.
#[test]
fn the_papers_schedule_has_rows_of_its_own() {
    for (d, k) in [(2, 2), (7, 4), (16, 16), (16, 64)] {
        let report = plan(Problem::new(d, k, 1000, Security::Classical128)).unwrap();
        let traced = report.traced.clone().unwrap();
        assert_eq!(traced.users, report.users - 1);
        for (with, without) in traced.seconds.iter().zip(&report.seconds) {
            assert_eq!(with.threads, without.threads);
            let more = with.evaluation - without.evaluation;
            assert!(more > without.user && more < 0.2 * without.evaluation, "{d}, {k}: {more}");
            assert_eq!((with.feedback, with.update), (2.0 * without.feedback, without.update));
        }
        let text = report.to_string();
        assert!(text.contains(&format!("at most {} updates", traced.updates_at_most)), "{text}");
    }
}

/// A plan has predictions for the kernels that run, which are those of its list (of slower ones where these
/// have no prices), and faster ones for faster kernels.
#[test]
fn plans_compare_kernels() {
    let report = plan(Problem::new(8, 8, 1000, Security::Classical128)).unwrap();
    assert_eq!(report.kernel, rns::kernels());
    assert!(report.kernels.iter().any(|k| k.available && k.seconds == report.seconds));
    for pair in report.kernels.windows(2) {
        let times = pair[0].seconds.iter().zip(&pair[1].seconds);
        assert!(times.clone().count() == 2 && times.clone().all(|(s, f)| s.round > f.round), "{times:?}");
    }
    let outlook = report.kernel_outlook(2);
    assert!(outlook.starts_with("a decision takes about ") && outlook.contains("on 2 threads"), "{outlook}");
    for KernelSeconds { kernel, available, .. } in &report.kernels {
        let seconds = format!("{kernel} would take ");
        let wanted = *kernel == report.kernel || !available || outlook.contains(&seconds);
        assert!(wanted && outlook.contains(&kernel.to_string()), "{outlook}");
    }
    let choice = planner::kernel_choice();
    assert!(choice.starts_with(&format!("{} kernels run", report.kernel)), "{choice}");
}

/// Of one raise and stages, what is chosen for a line is what was measured to be faster on it.
#[test]
fn auto_takes_the_faster_of_both() {
    let record = std::fs::read_to_string("../../benches/record/2026-11-29-delays.csv").unwrap();
    let rows: Vec<Vec<&str>> = record.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let alike = |a: &[&str], b: &[&str]| [0, 1, 3, 4].iter().all(|&at| a[at] == b[at]);
    let mut compared = 0;
    for one in rows.iter().filter(|row| row[2] == "one") {
        let Some(staged) = rows.iter().find(|row| row[2] == "staged" && alike(row, one)) else { continue };
        let number = |at: usize| one[at].parse::<usize>().unwrap();
        let problem = Problem::new(number(0), number(1), 1000, Security::Classical128);
        let round_trip = 2e-3 * number(3) as f64;
        let line = Line { round_trip, up: f64::INFINITY, down: f64::INFINITY };
        let choice = choose(problem, Some(Updates::Products), &line).unwrap();
        let seconds = |row: &[&str]| row[6].parse::<f64>().unwrap();
        let faster = if seconds(staged) < seconds(one) { Exchanging::Staged } else { Exchanging::One };
        assert_eq!(choice.exchanges, faster, "{one:?} and {staged:?}: {}", choice.why);
        compared += 1;
    }
    // Of three delays, two sizes and two turns the last pair is missing.
    assert_eq!(compared, 11);
}

#[test]
fn what_cannot_work_is_refused_with_a_way_out() {
    // Too many arms for any set, too many slots, and nonsense.
    let refused = |d: usize, k: usize| match plan(Problem::new(d, k, 1000, Security::Classical128)) {
        Err(e @ Error::NoPlan { .. }) => e.to_string(),
        other => panic!("{d}, {k}: {other:?}"),
    };
    let arms = refused(16, 65);
    assert!(arms.contains("from 1 to 64") && arms.contains("16 features with up to 64 arms"), "{arms}");
    let slots = refused(64, 4);
    assert!(
        slots.contains("do not fit into a ciphertext") && slots.contains("4 arms with up to 16 features"),
        "{slots}"
    );
    let large = refused(256, 256);
    assert!(large.contains("no ring has slots for more than 16 features with 64 arms"), "{large}");
    assert!(refused(0, 2).contains("features is 0") && refused(2, 999).contains("arms is 999"));
    assert!(refused(2, 2_usize.pow(40)).contains("2 features with up to 64 arms"));
    assert!(refused(1, 65).contains("1 feature with up to 64 arms"));
    // What a refusal proposes does work.
    for (d, k) in [(16, 64), (1, 64), (16, 4)] {
        plan(Problem::new(d, k, 1000, Security::Classical128)).unwrap();
    }
}
