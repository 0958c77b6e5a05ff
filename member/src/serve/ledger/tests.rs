//! What a ledger counts, and refuses.

use super::*;

fn question(task: u64, attempt: u32) -> Question {
    let wanted = Wanted::Transfer(TaskKind::Scores { factor: 0.5, alone: false });
    Question { bandit: "b".into(), task: EVALUATIONS | task, attempt, wanted }
}

/// A question about the answers to one user, who waits for `decisions` of them.
fn answers(task: u64, attempt: u32, decisions: u32) -> Question {
    let users = (0..decisions).collect();
    let users = vec![wire::AnswerUser { round: 1, users, answer_key: Vec::new() }];
    let wanted = Wanted::Answers { model_feedbacks: 0, users };
    Question { bandit: "b".into(), task: EVALUATIONS | task, attempt, wanted }
}

/// A question about a task of the bandit's own.
fn own(kind: TaskKind, task: u64, attempt: u32) -> Question {
    Question { bandit: "b".into(), task, attempt, wanted: Wanted::Transfer(kind) }
}

fn note(ledger: &Ledger, question: &Question, set: u16, c1: &[u8]) -> Result<(), Error> {
    let decisions = match &question.wanted {
        Wanted::Answers { users, .. } => users.iter().map(|user| user.users.len() as u64).sum(),
        _ => 0,
    };
    ledger.note(question, (set, decisions), &question.to_bytes(), c1)
}

fn decisions(decisions: u64) -> Budget {
    Budget { decisions, models: 0 }
}

/// What the ledger grows by is stated in docs/committee.md: a decision that one set raises and opens, in
/// an evaluation of its own, takes less than 500 bytes. A decision of long ago is still refused.
#[test]
fn the_ledger_grows_by_some_hundred_bytes_a_decision() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let of = |question: Question| Question { bandit: "0123456789abcdef".repeat(2), ..question };
    // Evaluations have random numbers.
    let task = |i: u64| EVALUATIONS | i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let size = || std::fs::metadata(&path).unwrap().len();
    drop(Ledger::create(&path).unwrap());
    let empty = size();
    for (from, to) in [(0u64, 200u64), (200, 500)] {
        let mut ledger = Ledger::open(&path).unwrap();
        for i in from..to {
            let c1 = i.to_le_bytes();
            note(&ledger, &of(question(task(i), 0)), 0b011, &c1).unwrap();
            note(&ledger, &of(answers(task(i), 0, 1)), 0b011, &c1).unwrap();
            ledger.note_uploads(task(i), &[*blake3::hash(&c1).as_bytes()]).unwrap();
        }
        println!("{to} decisions: {} bytes, and an empty ledger has {empty}", size());
        ledger.database.compact().unwrap();
        println!("compacted: {} bytes", size());
    }
    assert!(size() < empty + 500 * 500, "{} bytes", size());
    let ledger = Ledger::open(&path).unwrap();
    let first = of(answers(task(0), 0, 1));
    assert!(matches!(note(&ledger, &first, 0b011, b"another"), Err(Error::Refused(_))));
    note(&ledger, &first, 0b011, &0u64.to_le_bytes()).unwrap();
}

/// Each set that opens a decision spends of the budget, also one that is asked after another has failed.
/// What is spent is on disk; what was answered is answered again.
#[test]
fn the_budget_refuses_the_next_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = Ledger::create(&path).unwrap().with_budget(decisions(5));
    note(&ledger, &answers(1, 0, 2), 0b011, b"c1").unwrap();
    note(&ledger, &answers(1, 1, 2), 0b101, b"c1").unwrap();
    drop(ledger);
    let ledger = Ledger::open(&path).unwrap().with_budget(decisions(5));
    assert!(matches!(note(&ledger, &answers(2, 0, 2), 0b011, b"c2"), Err(Error::Refused(_))));
    note(&ledger, &answers(1, 0, 2), 0b011, b"c1").unwrap();
    note(&ledger, &question(3, 0), 0b011, b"c3").unwrap();
    // What was refused has spent nothing, and what was answered is spent, whatever became of it.
    note(&ledger, &answers(4, 0, 1), 0b011, b"c4").unwrap();
    assert!(note(&ledger, &answers(5, 0, 1), 0b011, b"c5").is_err());
    note(&ledger.with_budget(decisions(7)), &answers(2, 0, 2), 0b011, b"c2").unwrap();
}

/// A server raises scores and never has them opened: each raise counts as its decisions, once for each
/// set. The control is one that has them opened, whose openings count no more.
#[test]
fn attack_raises_without_answers_spend_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = |name: &str| Ledger::create(&folder.path().join(name)).unwrap().with_budget(decisions(6));
    let raise = |ledger: &Ledger, task: u64, attempt: u32, set: u16| {
        let question = question(task, attempt);
        ledger.note(&question, (set, 2), &question.to_bytes(), b"c1")
    };
    let open = |ledger: &Ledger, task: u64, attempt: u32, set: u16| {
        note(ledger, &answers(task, attempt, 2), set, b"c2")
    };
    let hostile = ledger("hostile");
    (1..=3).for_each(|task| raise(&hostile, task, 0, 0b011).unwrap());
    assert!(matches!(raise(&hostile, 4, 0, 0b011), Err(Error::Refused(_))));
    raise(&hostile, 3, 0, 0b011).unwrap();
    assert!(raise(&hostile, 3, 1, 0b101).is_err(), "another set sees another sum");
    let honest = ledger("honest");
    for task in 1..=2 {
        raise(&honest, task, 0, 0b011).unwrap();
        open(&honest, task, 0, 0b011).unwrap();
    }
    // A second set for the answers counts, and one more for the raise then does not.
    open(&honest, 2, 1, 0b101).unwrap();
    raise(&honest, 2, 1, 0b101).unwrap();
    assert!(raise(&honest, 3, 0, 0b011).is_err() && open(&honest, 3, 0, 0b011).is_err());
    assert_eq!(honest.tell().unwrap().spent, decisions(6));
}

/// An evaluation under the number of a model that is to come, or has come, would count for it: neither is
/// answered under a number of the other. The controls have their own.
#[test]
fn attack_no_evaluation_has_the_number_of_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(&folder.path().join("ledger")).unwrap();
    let refused = |question: &Question| {
        assert!(matches!(note(&ledger, question, 0b011, b"c1"), Err(Error::Refused(_))), "{question:?}");
    };
    for task in [3, EVALUATIONS - 1] {
        refused(&Question { task, ..answers(0, 0, 1) });
        refused(&Question { task, ..question(0, 0) });
    }
    for kind in [TaskKind::Model, TaskKind::Sum] {
        refused(&own(kind, EVALUATIONS | 3, 0));
    }
    note(&ledger, &own(TaskKind::Model, 3, 0), 0b011, b"c1").unwrap();
    note(&ledger, &answers(3, 0, 1), 0b011, b"c2").unwrap();
    assert_eq!(ledger.tell().unwrap().spent, Budget { decisions: 1, models: 1 });
}

/// A user has a bandit whose models overflow, and reads their errors: members refresh so many models with
/// a key. The control is the same model again, asked of other sets, after one of them has failed.
#[test]
fn attack_models_beyond_the_budget_are_not_refreshed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let budget = Budget { decisions: 0, models: 2 };
    let ledger = Ledger::create(&path).unwrap().with_budget(budget);
    let model = |bandit: &str, task, attempt| Question {
        bandit: bandit.into(),
        ..own(TaskKind::Model, task, attempt)
    };
    note(&ledger, &model("b", 3, 0), 0b011, b"c1").unwrap();
    note(&ledger, &model("b", 6, 0), 0b011, b"c2").unwrap();
    drop(ledger);
    let ledger = Ledger::open(&path).unwrap().with_budget(budget);
    assert!(matches!(note(&ledger, &model("b", 9, 0), 0b011, b"c3"), Err(Error::Refused(_))));
    assert!(note(&ledger, &model("another", 3, 0), 0b011, b"c1").is_err(), "one key for all bandits");
    for (attempt, set) in [(1, 0b101), (2, 0b110), (3, 0b1001)] {
        note(&ledger, &model("b", 6, attempt), set, b"c2").unwrap();
    }
    note(&ledger, &own(TaskKind::Sum, 7, 0), 0b011, b"sum").unwrap();
    assert_eq!(ledger.tell().unwrap().spent, budget);
}

/// The server and members 1 and 2 of five complete a set with each of the three others, and have each
/// open other decisions. What all of them open together is within the budget of the key. The control
/// gives each member the decisions of the key, as if it were asked alone.
#[test]
fn attack_sets_without_a_common_honest_member_stay_within_the_budget_of_a_key() {
    use protocol::budget::{OPENED_NATS, budget_of_a_member, opened_nats};
    let (shape, folder) = (protocol::Shape::for_problem(16, 32), tempfile::tempdir().unwrap());
    let each = opened_nats(shape, 3, 5);
    let of_key = (OPENED_NATS / each) as u64;
    let opened = |name: &str, most: u64| -> u64 {
        let honest = [(3, 0b00111), (4, 0b01011), (5, 0b10011)].map(|(member, set)| {
            let path = folder.path().join(format!("{name}-{member}"));
            (Ledger::create(&path).unwrap().with_budget(decisions(most)), set)
        });
        let ask = |(at, (ledger, set)): (u64, &(Ledger, u16))| {
            let fresh = (1..=of_key + 1).map(|i| EVALUATIONS + at * (of_key + 1) + i);
            fresh.take_while(|task| note(ledger, &answers(*task, 0, 1), *set, b"c1").is_ok()).count()
        };
        (0..).zip(&honest).map(ask).sum::<usize>() as u64
    };
    let most = budget_of_a_member(OPENED_NATS, shape, (3, 5), 5).decisions;
    let together = opened("divided", most);
    assert_eq!(together, 3 * most);
    assert!(together as f64 * each <= OPENED_NATS, "{together} decisions of {of_key}");
    let together = opened("control", of_key);
    assert!(together as f64 * each > 2.0 * OPENED_NATS, "{together} decisions of {of_key}");
}

/// A member that checks a share of the tasks and has caught the server answers nothing any more, over
/// restarts too. The control answers before.
#[test]
fn attack_a_server_that_was_caught_is_not_answered_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = Ledger::create(&path).unwrap();
    note(&ledger, &question(1, 0), 0b011, b"c1").unwrap();
    ledger.note_caught().unwrap();
    drop(ledger);
    let ledger = Ledger::open(&path).unwrap();
    assert!(matches!(ledger.check_in_use(), Err(Error::Caught)));
    for task in [1, 2] {
        assert!(matches!(note(&ledger, &question(task, 0), 0b011, b"c1"), Err(Error::Caught)));
    }
}

/// A task that more sets were answered for, by two ledgers of the epoch before, gets no further set. The
/// control has one set less than the most.
#[test]
fn attack_records_of_two_ledgers_leave_no_further_set() {
    let told = |sets: usize| {
        let about = meaning(&own(TaskKind::Sum, 5, 0), b"c1");
        let record = Record { about, sets: (0..sets).map(|i| [i as u8; 32]).collect() };
        let own = Some((5, [(0, postcard::to_stdvec(&record).unwrap())].into()));
        let bandit = ToldBandit { id: "b".into(), pinned: None, head: None, own, evaluations: Vec::new() };
        Told { bandits: vec![bandit], ..Told::default() }
    };
    for (sets, answers) in [(7, true), (8, false), (11, false)] {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::create(&folder.path().join("ledger")).unwrap();
        ledger.take(&told(sets), 0).unwrap();
        let sum = own(TaskKind::Sum, 5, 0);
        assert_eq!(note(&ledger, &sum, 0b011, b"c1").is_ok(), answers, "{sets} sets");
    }
}

/// A dealer tells another task than the other ones for the request of a user, so that it would be opened
/// once more there. It is opened in neither. The control is what only one has told.
#[test]
fn attack_a_dealer_moves_no_request_to_another_task() {
    let told = |uploads: &[([u8; 32], u64)]| Told { uploads: uploads.to_vec(), ..Told::default() };
    let (task, other) = (EVALUATIONS | 1, EVALUATIONS | 2);
    let honest = told(&[([1; 32], task), ([2; 32], task)]);
    for liar in [told(&[([1; 32], other)]), told(&[([1; 32], NO_TASK)])] {
        for all in [[honest.clone(), liar.clone()], [liar.clone(), honest.clone()]] {
            let folder = tempfile::tempdir().unwrap();
            let ledger = Ledger::create(&folder.path().join("ledger")).unwrap();
            ledger.take(&Told::merged(all), 0).unwrap();
            for task in [task, other, NO_TASK] {
                assert!(matches!(ledger.note_uploads(task, &[[1; 32]]), Err(Error::Refused(_))));
            }
            ledger.note_uploads(task, &[[2; 32]]).unwrap();
            assert!(ledger.note_uploads(other, &[[2; 32]]).is_err());
        }
    }
}

/// A task keeps its ciphertext and its meaning over restarts, and three sets are answered for it.
#[test]
fn attack_a_task_is_answered_for_one_ciphertext_and_three_sets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = Ledger::create(&path).unwrap();
    note(&ledger, &question(1, 0), 0b011, b"c1").unwrap();
    note(&ledger, &question(1, 0), 0b011, b"c1").unwrap();
    assert!(matches!(Ledger::open(&path), Err(Error::Ledger(_))), "one process at a time");
    drop(ledger);
    let ledger = Ledger::open(&path).unwrap();
    let refused = |done: Result<(), Error>| assert!(matches!(done, Err(Error::Refused(_))));
    refused(note(&ledger, &question(1, 0), 0b011, b"c2"));
    let other = Wanted::Transfer(TaskKind::Scores { factor: 0.25, alone: false });
    refused(note(&ledger, &Question { wanted: other, ..question(1, 0) }, 0b011, b"c1"));
    note(&ledger, &question(1, 1), 0b101, b"c1").unwrap();
    note(&ledger, &question(1, 2), 0b110, b"c1").unwrap();
    refused(note(&ledger, &question(1, 3), 0b011, b"c1"));
    // What was answered is answered again, and another task is another.
    note(&ledger, &question(1, 1), 0b101, b"c1").unwrap();
    note(&ledger, &question(2, 0), 0b011, b"c2").unwrap();
    // Nor is what users sent opened in a second evaluation.
    ledger.note_uploads(1, &[[1; 32], [2; 32]]).unwrap();
    ledger.note_uploads(1, &[[1; 32]]).unwrap();
    let again = ledger.note_uploads(2, &[[3; 32], [2; 32]]);
    assert!(matches!(again, Err(Error::Refused(_))));
    ledger.note_uploads(2, &[[3; 32]]).unwrap();
    for other in [&b"no ledger"[..], b""] {
        std::fs::write(folder.path().join("other"), other).unwrap();
        assert!(matches!(Ledger::open(&folder.path().join("other")), Err(Error::Ledger(_))));
    }
}

/// A member whose ledger is lost does not answer with an empty one, which forgets what was answered. The
/// control makes one, and answers for another ciphertext.
#[test]
fn attack_a_lost_ledger_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    note(&Ledger::create(&path).unwrap(), &question(1, 0), 0b011, b"c1").unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Ledger::open(&path), Err(Error::NoLedger { .. })));
    assert!(!path.exists());
    note(&Ledger::create(&path).unwrap(), &question(1, 0), 0b011, b"c2").unwrap();
}

/// A page of zeros, on some of which the database panics: the ledger is opened, or an error names its file.
#[test]
fn a_damaged_ledger_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    note(&Ledger::create(&path).unwrap(), &question(1, 0), 0b011, b"c1").unwrap();
    let whole = std::fs::read(&path).unwrap();
    let written = |at: &usize| whole[*at..].iter().take(4096).any(|byte| *byte != 0);
    for at in (0..whole.len()).step_by(4096).filter(written) {
        let mut damaged = whole.clone();
        damaged[at..].iter_mut().take(4096).for_each(|byte| *byte = 0);
        std::fs::write(&path, damaged).unwrap();
        assert!(matches!(Ledger::open(&path), Ok(_) | Err(Error::Ledger(_))));
    }
}
