//! Messages between devices, servers and the parties of a sum.

use bandit::Schedule;
use protocol::{BanditConfig, Counters, KeyPlan, ScoreLayout, Shape, WidthShape};
use secure_sum::{Report, encrypted};
use serde::de::DeserializeOwned;
use serde::{Serialize, de::DeserializeSeed};
use std::sync::OnceLock;
use wire::{
    AskAgain, BanditView, ClearFeedback, Counted, Created, DecideReply, DecideRequest, Decided,
    EnrollerSecret, Enrolment, EnrolmentRequest, Freeze, Labelled, LabelsPatch, LearnRequest, Limits,
    PolicyCard, PolicyCreated, PolicyView, Problem, Raises, RemovedUsers, SenderTag, ShownCounters,
    ShownModel, ShuffledBatch, SummedBatch, TracedFeedback, UserBundle, UserSecret,
};

/// The limits of a bandit with the trace condition, whose messages have all parts.
fn limits() -> &'static Limits {
    static LIMITS: OnceLock<Limits> = OnceLock::new();
    LIMITS.get_or_init(|| {
        let mut config = BanditConfig::new(2, 2);
        config.linear.schedule = Schedule::TraceOrGrowth;
        config.counters = Some(Counters::default());
        let shape = Shape::for_problem(2, 2);
        let keys = KeyPlan::new(shape, true, WidthShape::default()).expect("toy keys");
        let (ring, rings) = (keys.scores, keys.rings().expect("toy sets"));
        let small = ring.params.validate().expect("a toy set");
        let plan = config.plan(&rings, shape, ring).expect("they carry this");
        let answers = keys.answers.params.validate().expect("a prefix of the set");
        let layout = ScoreLayout::new(&config, &plan, ring);
        let limits = Limits::new(&rings, &small, &answers, &config, &plan, &layout);
        limits.expect("levels of these parameters")
    })
}

/// A binary message of an encrypted bandit, in either direction, or the tag of a sender. A message that is
/// read is written with bytes that are read and written the same.
pub(crate) fn device(input: &[u8]) {
    fn check(input: &[u8], read: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        if let Some(written) = read(input) {
            assert!(read(&written).as_ref() == Some(&written), "written messages are read as another");
        }
    }
    check(input, |bytes| Some(DecideReply::read(bytes, limits()).ok()?.to_bytes()));
    check(input, |bytes| Some(Raises::read(bytes, limits()).ok()?.to_bytes()));
    check(input, |bytes| Some(TracedFeedback::read(bytes, limits()).ok()?.to_bytes()));
    check(input, |bytes| Some(AskAgain::read(bytes).ok()?.to_bytes()));
    check(input, |bytes| Some(ShownCounters::read(bytes, limits()).ok()?.to_bytes()));
    check(input, |bytes| Some(ShownModel::read(bytes, limits()).ok()?.to_bytes()));
    check(input, |bytes| Some(LearnRequest::read(bytes, limits()).ok()?.to_bytes()));
    check(input, |bytes| Some(UserSecret::read(bytes).ok()?.to_bytes().to_vec()));
    // Signed by the owner of no secret.
    let owner = EnrollerSecret::of_secret_key(b"").public();
    check(input, |bytes| Some(Enrolment::read(bytes, &owner, ckks::KeyId([0; 16])).ok()?.to_bytes()));
    check(input, |bytes| UserBundle::read(bytes).ok()?.to_bytes().ok());
    check(input, |bytes| Some(RemovedUsers::read(bytes).ok()?.to_json()));
    if let Some(tag) = std::str::from_utf8(input).ok().and_then(|text| text.parse::<SenderTag>().ok()) {
        assert!(tag.to_string().as_bytes() == input);
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
    check::<EnrolmentRequest>(input);
    check::<ShuffledBatch>(input);
    check::<Decided>(input);
    check::<Counted>(input);
    check::<PolicyCreated>(input);
    check::<PolicyView>(input);
    check::<Vec<PolicyCard>>(input);
    check::<Created>(input);
    check::<BanditView>(input);
    check::<Problem>(input);
    check::<LabelsPatch>(input);
    check::<Freeze>(input);
    check::<Labelled<PolicyView>>(input);
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
