//! Messages between devices, servers and the parties of a sum.

use ckks::TOY_LOGN12_DEPTH21;
use protocol::{BanditConfig, Shape};
use secure_sum::{Report, encrypted};
use serde::de::DeserializeOwned;
use serde::{Serialize, de::DeserializeSeed};
use std::sync::OnceLock;
use wire::{
    BanditView, ClearFeedback, Counted, Created, DecideReply, DecideRequest, Decided, FeedbackRequest,
    Limits, PolicyCard, PolicyCreated, PolicyView, Problem, ShuffledBatch, SummedBatch,
};

fn limits() -> &'static Limits {
    static LIMITS: OnceLock<Limits> = OnceLock::new();
    LIMITS.get_or_init(|| {
        let params = TOY_LOGN12_DEPTH21.validate().expect("a toy set");
        let plan = BanditConfig::new(2, 2).plan(&params, Shape::for_problem(2, 2)).expect("it carries this");
        Limits::new(&params, &plan).expect("levels of these parameters")
    })
}

/// A binary message of an encrypted bandit, in either direction. One that is read is written again with the
/// same bytes.
pub(crate) fn device(input: &[u8]) {
    if let Ok(request) = FeedbackRequest::read(input, limits()) {
        assert!(FeedbackRequest::read(&request.to_bytes(), limits()).is_ok());
    }
    if let Ok(reply) = DecideReply::read(input, limits()) {
        assert!(DecideReply::read(&reply.to_bytes(), limits()).is_ok());
    }
}

/// A JSON message, in either direction. One that is read is read the same when it is written again.
pub(crate) fn json(input: &[u8]) {
    fn check<T: Serialize + DeserializeOwned + PartialEq>(input: &[u8]) {
        let Ok(read) = serde_json::from_slice::<T>(input) else { return };
        let written = serde_json::to_vec(&read).expect("it was read from JSON");
        let again: T = serde_json::from_slice(&written).expect("it was written");
        assert!(again == read, "a message is read differently when it is written again");
    }
    check::<DecideRequest>(input);
    check::<ClearFeedback>(input);
    check::<ShuffledBatch>(input);
    check::<Decided>(input);
    check::<Counted>(input);
    check::<PolicyCreated>(input);
    check::<PolicyView>(input);
    check::<Vec<PolicyCard>>(input);
    check::<Created>(input);
    check::<BanditView>(input);
    check::<Problem>(input);
    check::<BanditConfig>(input);
    for most in [0, 1, 10] {
        _ = SummedBatch::of(most).deserialize(&mut serde_json::Deserializer::from_slice(input));
    }
}

/// A request for a bandit in the clear, with the parameters of its policy.
pub(crate) fn policy(input: &[u8]) {
    let Ok(body) = serde_json::from_slice::<serde_json::Map<_, _>>(input) else { return };
    if let Ok(config) = policies::PolicyConfig::from_request(body) {
        _ = config.profile();
    }
}

/// A report of shares to an aggregator, and an opened sum.
pub(crate) fn share(input: &[u8]) {
    if let Ok(reports) = Report::read_all(input) {
        assert!(reports.iter().flat_map(Report::to_bytes).eq(input.iter().copied()));
    }
    if let Ok(sum) = encrypted::read_opened(input) {
        assert!(encrypted::write_opened(&sum) == input);
    }
}
