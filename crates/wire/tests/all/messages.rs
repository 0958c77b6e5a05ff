//! Messages come back as they went, and nothing else is taken for one.

use protocol::{DecisionId, MOST_DECISIONS};
use testkit::samples::{self, feedback, learn, limits, raises, reply};
use wire::{
    AskAgain, BanditView, DecideReply, Decision, Error, LearnRequest, MAGIC, Problem, RaiseTask, Raised,
    Raises, ShownCounters, ShownModel, Ticket, TraceQuestion, TracedFeedback,
};

#[test]
fn every_message_round_trips() {
    let limits = limits();
    let sample = reply();
    let decision = sample.decision.clone();
    let silent = decision.clone().map(|decision| Decision { question: None, ..decision });
    let one = decision.clone().map(|decision| Decision { others: vec![], ..decision });
    for decision in [None, silent, one, decision] {
        for ticket in [None, sample.ticket] {
            for tasks in 0..=sample.tasks.len() {
                let (decision, tasks) = (decision.clone(), sample.tasks[..tasks].to_vec());
                let message = DecideReply { decision, ticket, tasks };
                assert_eq!(DecideReply::read(&message.to_bytes(), &limits).unwrap(), message);
            }
        }
    }
    let scores = (u64::MAX, Raised::Scores(vec![]));
    for message in [raises(), Raises::default(), Raises { ticket: None, raised: vec![scores] }] {
        assert_eq!(Raises::read(&message.to_bytes(), &limits).unwrap(), message);
    }
    for message in [feedback(), TracedFeedback { answer: None, ..feedback() }] {
        assert_eq!(TracedFeedback::read(&message.to_bytes(), &limits).unwrap(), message);
    }
    for answers in [0, 3, u32::MAX] {
        let message = AskAgain { answers };
        assert_eq!(AskAgain::read(&message.to_bytes()).unwrap(), message);
    }
    let shown = ShownCounters { feedbacks: 200, sum: vec![7; limits.counters] };
    assert_eq!(ShownCounters::read(&shown.to_bytes(), &limits).unwrap(), shown);
    let model = ShownModel { feedbacks: 200, parts: vec![vec![7; limits.scores]; limits.model_parts] };
    assert_eq!(ShownModel::read(&model.to_bytes(), &limits).unwrap(), model);
    let parts = vec![vec![7; 8]; limits.model_parts + 1];
    assert!(ShownModel::read(&ShownModel { parts, ..model }.to_bytes(), &limits).is_err());
    for rounds in [0, 1, 1000, 1001] {
        let message = LearnRequest { rounds, ..learn() };
        let read = LearnRequest::read(&message.to_bytes(), &limits);
        match (1..=1000).contains(&rounds) {
            true => assert_eq!(read.unwrap(), message),
            false => assert!(matches!(read, Err(Error::Malformed(_))), "{rounds}"),
        }
    }
}

#[test]
fn one_message_is_not_taken_for_another() {
    let limits = limits();
    let bytes = [
        reply().to_bytes(),
        raises().to_bytes(),
        feedback().to_bytes(),
        AskAgain { answers: 1 }.to_bytes(),
        ShownCounters { feedbacks: 100, sum: vec![1] }.to_bytes(),
        ShownModel { feedbacks: 100, parts: vec![vec![1]] }.to_bytes(),
        learn().to_bytes(),
    ];
    let read = |bytes: &[u8]| {
        [
            DecideReply::read(bytes, &limits).map(drop),
            Raises::read(bytes, &limits).map(drop),
            TracedFeedback::read(bytes, &limits).map(drop),
            AskAgain::read(bytes).map(drop),
            ShownCounters::read(bytes, &limits).map(drop),
            ShownModel::read(bytes, &limits).map(drop),
            LearnRequest::read(bytes, &limits).map(drop),
        ]
    };
    for (sent, bytes) in bytes.iter().enumerate() {
        for (reader, read) in read(bytes).into_iter().enumerate() {
            match read {
                Ok(()) => assert_eq!(reader, sent),
                Err(Error::Malformed("a message of another kind")) => assert_ne!(reader, sent),
                Err(other) => panic!("{sent} as {reader}: {other:?}"),
            }
        }
        // The number of the kind is part of the format.
        assert_eq!(bytes[8], [2, 3, 4, 5, 11, 20, 13][sent]);
        let mut bytes = bytes.clone();
        bytes[3] = b'1';
        assert!(matches!(read(&bytes)[sent], Err(Error::Version { .. })));
        bytes[0] = b'X';
        assert!(matches!(read(&bytes)[sent], Err(Error::Malformed(_))));
    }
}

/// The bytes of fixed messages, by BLAKE3. A message whose form changes must not be taken for one of before,
/// nor the other way round: raise the digit of [`MAGIC`], and write down the digests that this test prints.
#[test]
fn a_form_that_changes_takes_another_version() {
    let forms = [
        ("reply", reply().to_bytes(), "2706bc39b1c5d7ba"),
        ("raises", raises().to_bytes(), "bc6892d41e817bdd"),
        ("feedback", feedback().to_bytes(), "2b891a79772b33c9"),
        ("ask again", AskAgain { answers: 3 }.to_bytes(), "c1cb65582ef804b4"),
        ("learn", learn().to_bytes(), "50916c15159d5141"),
        ("counters", ShownCounters { feedbacks: 100, sum: vec![1; 8] }.to_bytes(), "00d55c2b8dee9f99"),
        ("model", ShownModel { feedbacks: 100, parts: vec![vec![1; 8]] }.to_bytes(), "c74c3751499a2c84"),
    ];
    assert_eq!(MAGIC, *b"HLB8");
    let digest = |bytes: &[u8]| blake3::hash(bytes).to_hex()[..16].to_string();
    let changed: Vec<_> = forms
        .iter()
        .map(|(name, bytes, want)| (*name, digest(bytes), *want))
        .filter(|(_, got, want)| got != want)
        .collect();
    assert!(changed.is_empty(), "{changed:#?}");
}

/// A message of another version is refused by it.
#[test]
fn a_message_of_another_version_is_refused_by_it() {
    let mut message = AskAgain { answers: 3 }.to_bytes();
    assert!(AskAgain::read(&message).is_ok(), "the control");
    message[3] = b'5';
    let error = AskAgain::read(&message).unwrap_err();
    assert!(matches!(error, Error::Version { got: 5, want: 8, .. }), "{error:?}");
    assert_eq!(error.to_string(), "the message has format version 5, this program reads version 8");
}

#[test]
fn every_part_has_its_limit() {
    let limits = limits();
    fn too_long<T: std::fmt::Debug>(read: Result<T, Error>, part: &str) {
        match read {
            Err(Error::TooLong { what, got, limit }) => {
                assert!(what.contains(part) && got == limit + 1, "{what}")
            }
            other => panic!("{part}: {other:?}"),
        }
    }
    let read = |message: TracedFeedback| TracedFeedback::read(&message.to_bytes(), &limits);
    let most =
        TracedFeedback { statistics: vec![0; limits.statistics], trace: vec![0; limits.trace], ..feedback() };
    assert_eq!(read(most.clone()).unwrap(), most);
    let long = vec![0; limits.statistics + 1];
    too_long(read(TracedFeedback { statistics: long, ..feedback() }), "the statistics");
    too_long(read(TracedFeedback { trace: vec![0; limits.trace + 1], ..feedback() }), "the trace statistics");
    too_long(TracedFeedback::read(&vec![0; limits.feedback() + 1], &limits), "a message");

    let read = |message: DecideReply| DecideReply::read(&message.to_bytes(), &limits);
    let with = |answer: usize, question: usize, task: usize| {
        let mut message = reply();
        let decision = message.decision.as_mut().unwrap();
        decision.answer = vec![0; answer];
        decision.question = Some(TraceQuestion { id: samples::QUESTION, frame: vec![0; question] });
        message.tasks.iter_mut().for_each(|sent| sent.masked = vec![vec![0; task]]);
        message
    };
    let most = with(limits.answer, limits.question, limits.task);
    assert_eq!(read(most.clone()).unwrap(), most);
    too_long(read(with(limits.answer + 1, 1, 1)), "the answer");
    too_long(read(with(1, limits.question + 1, 1)), "the trace question");
    too_long(read(with(1, 1, limits.task + 1)), "a task");
    too_long(DecideReply::read(&vec![0; limits.reply() + 1], &limits), "a message");

    let read = |message: Raises| Raises::read(&message.to_bytes(), &limits);
    let model = |deep, scores| Raised::Model { deep: vec![0; deep], scores: vec![0; scores] };
    let raised = |raised: Vec<Raised>| Raises { ticket: None, raised: (1..).zip(raised).collect() };
    let most = raised(vec![model(limits.raised, limits.scores), model(limits.raised, limits.scores)]);
    assert_eq!(read(most.clone()).unwrap(), most);
    for long in [Raised::Scores, Raised::Sum, Raised::Answers] {
        too_long(read(raised(vec![long(vec![0; limits.raised + 1])])), "a raised ciphertext");
    }
    too_long(read(raised(vec![model(limits.raised + 1, 1)])), "a raised ciphertext");
    too_long(read(raised(vec![model(1, limits.scores + 1)])), "a model in the ring of scores");
    let limits = wire::Limits { task_frames: 2, raised_frames: 3, exchanged: 3 * limits.raised, ..limits };
    let read = |message: Raises| Raises::read(&message.to_bytes(), &limits);
    let frame = vec![0; limits.raised.max(limits.scores)];
    let exchanged = |frames: usize| raised(vec![Raised::Exchanged(vec![frame.clone(); frames]); 2]);
    assert_eq!(read(exchanged(3)).unwrap(), exchanged(3));
    assert!(matches!(read(exchanged(4)), Err(Error::Malformed(_) | Error::TooLong { .. })));
    let longer = Raised::Exchanged(vec![vec![0; frame.len() + 1]]);
    too_long(read(raised(vec![longer])), "an exchanged ciphertext");
    let task = |frames: usize| {
        let task = RaiseTask { masked: vec![vec![0; limits.task]; frames], ..reply().tasks[0].clone() };
        DecideReply { tasks: vec![task], ..DecideReply::default() }
    };
    let read = |message: DecideReply| DecideReply::read(&message.to_bytes(), &limits);
    assert_eq!(read(task(2)).unwrap(), task(2));
    for frames in [0, 3] {
        assert!(matches!(read(task(frames)), Err(Error::Malformed(_))));
    }
    too_long(Raises::read(&vec![0; limits.raises() + 1], &limits), "a message");
    let long = ShownCounters { feedbacks: 100, sum: vec![0; limits.counters + 1] };
    too_long(ShownCounters::read(&long.to_bytes(), &limits), "the counters");
    too_long(AskAgain::read(&[0; AskAgain::MOST_BYTES + 1]), "a message");
}

/// No message has more than two tasks, and no reply more decisions than a request.
#[test]
fn the_numbers_of_tasks_and_decisions_are_bounded() {
    let limits = limits();
    let decide = |decisions: usize| {
        let others = vec![DecisionId([8; 16]); decisions - 1];
        let decision = reply().decision.map(|decision| Decision { others, ..decision });
        DecideReply::read(&DecideReply { decision, ..DecideReply::default() }.to_bytes(), &limits)
    };
    assert!(decide(MOST_DECISIONS).is_ok());
    assert!(matches!(decide(MOST_DECISIONS + 1), Err(Error::Malformed(_))));
    let raised = vec![(1, Raised::Sum(vec![])); 3];
    let many = Raises { ticket: Some(Ticket([1; 16])), raised }.to_bytes();
    assert!(matches!(Raises::read(&many, &limits), Err(Error::Malformed(_))));
    let task = RaiseTask { masked: vec![vec![]], ..reply().tasks[0].clone() };
    let many = DecideReply { tasks: vec![task; 3], ..DecideReply::default() }.to_bytes();
    assert!(matches!(DecideReply::read(&many, &limits), Err(Error::Malformed(_))));
}

#[test]
fn a_plan_above_the_parameters_has_no_limits() {
    let plan = samples::created().plan;
    assert!(samples::limits_of(&plan).is_ok());
    type Change = fn(&mut protocol::Plan);
    let changes: [(Change, usize); 3] = [
        (|plan| plan.refresh_level = 22, 21),
        // The ring of evaluations has fewer.
        (|plan| plan.scores_level = 22, 11),
        (|plan| plan.model_level = 22, 21),
    ];
    for (change, most) in changes {
        let mut wrong = plan.clone();
        change(&mut wrong);
        let refused = samples::limits_of(&wrong);
        assert!(matches!(refused, Err(Error::Level { level: 22, max, .. }) if max == most), "{refused:?}");
    }
}

#[test]
fn json_round_trips() {
    let status = protocol::Status {
        round: 1,
        feedbacks: 2,
        model_feedbacks: 3,
        batches: 4,
        refreshes: 5,
        updating: true,
        refresh_due: false,
        pending_decisions: 6,
        frozen: false,
    };
    let view = BanditView { created: samples::created(), status };
    let json = serde_json::to_string(&view).unwrap();
    assert_eq!(serde_json::from_str::<BanditView>(&json).unwrap(), view);

    let problem = Problem::new(400, "Bad Request", "why").with_reason("wrong_level");
    let json = serde_json::to_string(&problem).unwrap();
    assert!(json.contains(r#""type":"about:blank""#));
    assert_eq!(serde_json::from_str::<Problem>(&json).unwrap(), problem);
    // Another server's, with the least that the RFC asks for and more than we know.
    let problem: Problem = serde_json::from_str(r#"{"title":"t","status":404,"instance":"/x"}"#).unwrap();
    assert_eq!(problem, Problem::new(404, "t", ""));
}
