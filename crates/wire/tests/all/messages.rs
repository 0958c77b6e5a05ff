//! Messages come back as they went, and nothing else is taken for one.

use ckks::{Params, TOY_LOGN12_DEPTH21};
use protocol::{BanditConfig, DecisionId, Plan, RefreshId, Shape};
use wire::{BanditView, Created, DecideReply, Error, FeedbackRequest, Limits, Problem};

fn plan() -> (Params, BanditConfig, Plan) {
    let params = TOY_LOGN12_DEPTH21.validate().unwrap();
    let config = BanditConfig::new(2, 2);
    let plan = config.plan(&params, Shape::for_problem(2, 2)).unwrap();
    (params, config, plan)
}

fn limits() -> Limits {
    let (params, _, plan) = plan();
    Limits::new(&params, &plan).unwrap()
}

fn reply() -> DecideReply {
    DecideReply {
        decision: DecisionId([7; 16]),
        round: 3,
        model_feedbacks: 2,
        seconds: vec![("parse".into(), 0.001), ("score".into(), 0.2)],
        action: vec![1, 2, 3],
        trace: Some(vec![4]),
        refresh: Some((RefreshId(9), vec![5, 6])),
    }
}

fn request() -> FeedbackRequest {
    FeedbackRequest {
        statistics: vec![1; 10],
        trace: vec![2; 20],
        trace_answer: Some(true),
        refreshed: Some((RefreshId(1), vec![3; 30])),
    }
}

#[test]
fn every_message_round_trips() {
    let limits = limits();
    for trace in [None, Some(vec![4])] {
        for refresh in [None, Some((RefreshId(u64::MAX), vec![5, 6])), Some((RefreshId(0), vec![]))] {
            let message = DecideReply { trace: trace.clone(), refresh: refresh.clone(), ..reply() };
            assert_eq!(DecideReply::read(&message.to_bytes(), &limits).unwrap(), message);
            let message = FeedbackRequest { refreshed: refresh, ..request() };
            assert_eq!(FeedbackRequest::read(&message.to_bytes(), &limits).unwrap(), message);
        }
    }
    let message = FeedbackRequest { trace_answer: None, ..request() };
    assert_eq!(FeedbackRequest::read(&message.to_bytes(), &limits).unwrap(), message);
}

#[test]
fn one_message_is_not_taken_for_another() {
    let limits = limits();
    let other = |r: Result<(), Error>| matches!(r, Err(Error::Malformed("a message of another kind")));
    assert!(other(DecideReply::read(&request().to_bytes(), &limits).map(drop)));
    assert!(other(FeedbackRequest::read(&reply().to_bytes(), &limits).map(drop)));

    let mut bytes = request().to_bytes();
    bytes[3] = b'1';
    assert!(matches!(FeedbackRequest::read(&bytes, &limits), Err(Error::Version { .. })));
    bytes[0] = b'X';
    assert!(matches!(FeedbackRequest::read(&bytes, &limits), Err(Error::Malformed(_))));
}

#[test]
fn every_part_has_its_limit() {
    let limits = limits();
    let too_long = |r: Result<FeedbackRequest, Error>, part: &str| match r {
        Err(Error::TooLong { what, got, limit }) => {
            assert!(what.contains(part) && got == limit + 1, "{what}")
        }
        other => panic!("{part}: {other:?}"),
    };
    let read = |m: FeedbackRequest| FeedbackRequest::read(&m.to_bytes(), &limits);
    let most = FeedbackRequest {
        statistics: vec![0; limits.statistics],
        trace: vec![0; limits.trace],
        refreshed: Some((RefreshId(0), vec![0; limits.refreshed])),
        ..request()
    };
    assert_eq!(read(most.clone()).unwrap(), most);
    too_long(read(FeedbackRequest { statistics: vec![0; limits.statistics + 1], ..request() }), "statistics");
    too_long(read(FeedbackRequest { trace: vec![0; limits.trace + 1], ..request() }), "trace");
    too_long(
        read(FeedbackRequest { refreshed: Some((RefreshId(0), vec![0; limits.refreshed + 1])), ..request() }),
        "refreshed",
    );
    too_long(FeedbackRequest::read(&vec![0; limits.feedback_request() + 1], &limits), "message");

    let most = DecideReply {
        action: vec![0; limits.action],
        trace: Some(vec![0; limits.trace_question]),
        refresh: Some((RefreshId(0), vec![0; limits.refresh])),
        ..reply()
    };
    assert_eq!(DecideReply::read(&most.to_bytes(), &limits).unwrap(), most);
    let long = DecideReply { seconds: vec![("x".repeat(5000), 0.0)], ..reply() };
    assert!(matches!(
        DecideReply::read(&long.to_bytes(), &limits),
        Err(Error::TooLong { what: "the header", .. })
    ));
}

#[test]
fn a_plan_above_the_parameters_has_no_limits() {
    let (params, _, plan) = plan();
    let wrong = Plan { refresh_level: params.max_level() + 1, ..plan };
    assert!(matches!(Limits::new(&params, &wrong), Err(Error::Level { level: 22, max: 21, .. })));
}

#[test]
fn json_round_trips() {
    let (_, config, plan) = plan();
    let status = protocol::Status {
        round: 1,
        feedbacks: 2,
        model_feedbacks: 3,
        batches: 4,
        refreshes: 5,
        updating: true,
        refresh_due: false,
        pending_decisions: 6,
    };
    let created = Created { id: "a".into(), config, plan, key_id: "b".into(), fingerprint: "c".into() };
    let view = BanditView { created, status };
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
