//! Transitions of bandits in the clear: late feedback, restarts, damaged states, bounds.

use super::super::terms::KEPT_VALUES;
use super::step::standing_for;
use super::*;
use crate::policy::cards;
use bandit::stochastic::AnytimeLazyUcb;
use privacy::laplace::GridLaplace;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use wire::PolicyCard;

/// Contexts without a closed arm.
fn all_open(context: Option<Features>) -> Option<(Features, Vec<bool>)> {
    context.map(|features| (features.clone(), vec![true; features.k()]))
}

/// A bandit as a store holds it.
fn stored(bandit: &ClearState) -> Stored {
    fn rows<K: Copy + Ord + Serialize, V: Numbered + Serialize>(
        rows: &Recent<K, V>,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let bytes = |(key, value)| (postcard::to_stdvec(key).unwrap(), postcard::to_stdvec(value).unwrap());
        rows.iter().map(bytes).collect()
    }
    Stored {
        id: String::new(),
        state: bandit.core.to_bytes().unwrap(),
        decisions: rows(&bandit.open),
        receipts: rows(&bandit.receipts),
        exchanges: rows(&bandit.exchanges),
        keyed: rows(&bandit.keyed),
    }
}

/// Seconds since 1970.
const NOW: u64 = 1_800_000_000;
/// The wait time of bandits here, in seconds.
const WAIT: u64 = 60;

fn make(value: Value) -> Result<ClearState, Error> {
    let Value::Object(mut request) = value else { unreachable!() };
    let asked = AskedTerms::take(&mut request)?;
    ClearState::new(PolicyConfig::from_request(request)?, asked, WAIT)
}

fn reward(value: f64) -> ClearFeedback {
    ClearFeedback { reward: Some(value), ..ClearFeedback::default() }
}

/// A decision of a policy without contexts, or for the same contexts each time.
fn decide_at(bandit: &mut ClearState, now: u64, rng: &mut ChaCha20Rng) -> Result<Decision, Error> {
    decide_of(bandit, now, 0, rng)
}

/// A decision of the sender with this number.
fn decide_of(
    bandit: &mut ClearState,
    now: u64,
    sender: u8,
    rng: &mut ChaCha20Rng,
) -> Result<Decision, Error> {
    let context = bandit.core.profile().shape().map(|(d, k)| Features::new(vec![0.1; d * k], d).unwrap());
    let statement = bandit.statement()?;
    bandit.decide(all_open(context), (now, [sender; 16]), None, &statement, rng).map(ClearChange::apply)
}

fn answer_at(
    bandit: &mut ClearState,
    id: DecisionId,
    feedback: &ClearFeedback,
    now: u64,
    rng: &mut ChaCha20Rng,
) -> Result<Answer, Error> {
    let statement = bandit.statement()?;
    bandit.feedback(id, feedback, (now, [0; 16]), &statement, rng).map(ClearChange::apply)
}

/// A round, ten seconds after the one before.
fn round(bandit: &mut ClearState, rng: &mut ChaCha20Rng) -> Result<Option<usize>, Error> {
    let now = NOW + 10 * bandit.core.round;
    let statement = bandit.core.policy.privacy()?;
    let shape = bandit.core.profile().shape();
    let context = shape.map(|(d, k)| {
        let values = (0..d * k).map(|_| rng.random::<f64>() / (d as f64).sqrt()).collect();
        Features::new(values, d).unwrap()
    });
    let Decision { id, arm, awaited, .. } =
        bandit.decide(all_open(context), (now, [0; 16]), None, &statement, rng)?.apply();
    let value = rng.random::<f64>();
    let none = ClearFeedback::default();
    let feedback = match bandit.core.profile().feedback {
        FeedbackKind::Reward => ClearFeedback { reward: Some(value), ..none },
        FeedbackKind::Rewards => ClearFeedback { rewards: Some(vec![value; 5]), ..none },
        FeedbackKind::Sum => ClearFeedback { sum: Some(value), ..none },
        FeedbackKind::Share if awaited.is_some() => ClearFeedback { share: Some(1), ..none },
        _ => return Ok(arm),
    };
    // A decision without an answer now and then, which expires.
    if rng.random_range(0..4) > 0 {
        bandit.feedback(id, &feedback, (now, [0; 16]), &statement, rng)?.apply();
    }
    Ok(arm)
}

fn play(bandit: &mut ClearState, rounds: u32, rng: &mut ChaCha20Rng) -> Vec<Option<usize>> {
    (0..rounds).map(|_| round(bandit, rng).unwrap()).collect()
}

fn example(card: PolicyCard) -> ClearState {
    make(card.example).unwrap()
}

/// Of every policy offered: whatever byte of its stored state is damaged, it is refused, or plays on
/// without a panic; so is what has been cut off, goes on too long, or is put together from two bandits.
#[test]
fn damaged_states_do_no_harm() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let (mut refused, mut read) = (0, 0);
    for card in cards().unwrap().into_iter().skip(1) {
        let name = card.policy.clone();
        let mut bandit = example(card);
        play(&mut bandit, 30, &mut rng);
        let whole = stored(&bandit);
        assert!(ClearState::read(&whole).is_ok(), "{name}");
        let with = |state: Vec<u8>| ClearState::read(&Stored { state, ..whole.clone() });
        assert!(with(whole.state[..whole.state.len() - 1].to_vec()).is_err(), "{name}");
        assert!(with([whole.state.as_slice(), &[0]].concat()).is_err(), "{name}");
        for _ in 0..40 {
            let mut damaged = whole.clone();
            let rows = [&mut damaged.decisions, &mut damaged.receipts, &mut damaged.exchanges];
            let rows = rows.into_iter().flatten().flat_map(|(key, value)| [key, value]);
            let mut parts: Vec<_> = std::iter::once(&mut damaged.state).chain(rows).collect();
            let at = rng.random_range(0..parts.iter().map(|part| part.len()).sum());
            let mut bytes = parts.iter_mut().flat_map(|part| part.iter_mut());
            *bytes.nth(at).unwrap() ^= 1 << rng.random_range(0..8);
            let Ok(mut bandit) = ClearState::read(&damaged) else {
                refused += 1;
                continue;
            };
            read += 1;
            for _ in 0..3 {
                let _ = round(&mut bandit, &mut rng);
            }
        }
        let ledger = bandit.core.ledger.take();
        let other = (name == "ucb1")
            .then(|| Accountant::new(Cost::pure(privacy::budget::Epsilon::new(1.0).unwrap())));
        if ledger.is_some() || other.is_some() {
            bandit.core.ledger = other;
            assert!(ClearState::read(&stored(&bandit)).is_err(), "{name}");
            bandit.core.ledger = ledger;
        }
        let other = if name == "ucb1" { "ars-ucb" } else { "ucb1" };
        let mixed = (other, r#"{"arms":5}"#.to_string(), bandit.core.policy.state().unwrap());
        let mixed = postcard::to_stdvec(&mixed).unwrap();
        assert!(postcard::from_bytes::<PolicyState>(&mixed).is_err(), "{name}");
    }
    assert!(refused > 30 && read > 30, "{refused} refused, {read} read");
}

/// The state of an elimination under one model is refused under another: their users sent other numbers.
#[test]
fn another_model_is_refused() {
    let policy = |model: &str| {
        let request = serde_json::json!({"policy": "elimination", "model": model, "arms": 5,
            "horizon": 999, "epsilon": 1});
        let Value::Object(request) = request else { unreachable!() };
        PolicyState::new(PolicyConfig::from_request(request).unwrap()).unwrap()
    };
    let (pure, local) = (policy("pure"), policy("local"));
    let read = |config: &PolicyState, state: &PolicyState| {
        let parameters = serde_json::to_string(&config.config().parameters().unwrap()).unwrap();
        let stored = postcard::to_stdvec(&("elimination", parameters, state.state().unwrap())).unwrap();
        postcard::from_bytes::<PolicyState>(&stored)
    };
    assert!(read(&pure, &pure).is_ok());
    assert!(read(&pure, &local).is_err() && read(&local, &pure).is_err());
}

/// Noise that calibration found is stored. Reading a bandit back searches for no noise, so the cost of a
/// creation is not paid again at each start.
#[test]
fn attack_stored_noise_is_not_sized_again() {
    let request = serde_json::json!({"policy": "shuffle-glm", "arms": 2, "features": 2, "batches": [125_000],
        "epsilon": 4, "delta": 1e-6, "gamma": 1, "steps": 1000});
    let Value::Object(request) = request else { unreachable!() };
    let bandit = make(request.into()).unwrap();
    let begun = std::time::Instant::now();
    let stored = stored(&bandit);
    for _ in 0..10 {
        ClearState::read(&stored).unwrap();
    }
    // A search takes some sixty times as long as a check.
    let (checks, begun) = (begun.elapsed(), std::time::Instant::now());
    PolicyState::new(bandit.config().clone()).unwrap();
    assert!(checks < begun.elapsed() * 3, "{checks:?}");
}

/// Whoever asks for many decisions voids none of those of others: each is open for the wait time, whatever
/// is asked meanwhile, and is a decision of its own. The control: after the wait time it has expired.
#[test]
fn attack_many_requests_void_no_decision() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    for request in [
        serde_json::json!({"policy": "dp-se", "arms": 2, "epsilon": 1, "beta": 0.1}),
        serde_json::json!({"policy": "rs-glinucb", "arms": 2, "features": 2, "horizon": 999, "delta": 0.1}),
    ] {
        let mut bandit = make(request).unwrap();
        let first = decide_at(&mut bandit, NOW, &mut rng).unwrap();
        for _ in 0..200 {
            let other = decide_at(&mut bandit, NOW + WAIT - 1, &mut rng).unwrap();
            assert_ne!(other.id, first.id);
        }
        let mut late = bandit.clone();
        let answer = answer_at(&mut bandit, first.id, &reward(1.0), NOW + WAIT - 1, &mut rng).unwrap();
        assert_eq!((answer.feedbacks, bandit.core.learnt), (1, 1));
        for asked in [false, true] {
            let answer = answer_at(&mut late, first.id, &reward(1.0), NOW + WAIT, &mut rng);
            assert!(matches!(answer, Err(Error::Expired { wait: WAIT, .. })), "control");
            if !asked {
                decide_at(&mut late, NOW + WAIT, &mut rng).unwrap();
            }
        }
    }
}

/// When as many decisions are open as are kept, further ones are refused until the next one expires, and
/// replace none of those that others hold.
#[test]
fn attack_floods_push_out_no_open_decision() {
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    for request in [
        serde_json::json!({"policy": "oful", "arms": 2, "features": 1}),
        serde_json::json!({"policy": "oful", "arms": 2, "features": 1, "max_open": 7}),
        serde_json::json!({"policy": "ucb1", "arms": 2}),
    ] {
        let mut bandit = make(request).unwrap();
        let most = bandit.core.terms.max_open;
        let first = decide_at(&mut bandit, NOW, &mut rng).unwrap().id;
        let refused = loop {
            assert!(bandit.core.round <= most as u64, "never refused");
            match decide_at(&mut bandit, NOW + 9, &mut rng) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        let Error::TooManyOpen { limit, wait, .. } = refused else { panic!("{refused}") };
        assert_eq!((limit, wait), (most, WAIT - 9));
        let mut later = bandit.clone();
        decide_at(&mut later, NOW + WAIT, &mut rng).expect("the oldest has expired");
        assert_eq!(later.core.left_out, 1);
        answer_at(&mut bandit, first, &reward(1.0), NOW + 9, &mut rng).unwrap();
        decide_at(&mut bandit, NOW + 9, &mut rng).expect("an answer makes room");
    }
}

fn sum(value: f64) -> ClearFeedback {
    ClearFeedback { sum: Some(value), ..ClearFeedback::default() }
}

/// Huge sums are refused when they come, and nothing that waits ends a bandit. The control: stored as
/// feedback, which no request can do, they are left out when they overflow the sum of their arm, and the
/// feedback that is answered then is counted.
#[test]
fn attack_huge_sums_end_no_bandit() {
    let mut rng = ChaCha20Rng::seed_from_u64(31);
    for stored_huge in [false, true] {
        let mut bandit = make(serde_json::json!({"policy": "ars-ucb", "arms": 2})).unwrap();
        let first: Vec<_> = (0..3).map(|_| decide_at(&mut bandit, NOW, &mut rng).unwrap()).collect();
        assert!(first.iter().all(|made| made.arm == Some(0)));
        answer_at(&mut bandit, first[0].id, &sum(0.0), NOW, &mut rng).unwrap();
        let fourth = decide_at(&mut bandit, NOW, &mut rng).unwrap();
        assert_eq!(fourth.arm, Some(1));
        for made in &first[1..] {
            if stored_huge {
                let given = Some(sum(1.7e308).into());
                let row = Open { given, ..bandit.open.get(&made.id).unwrap().clone() };
                bandit.open.apply(vec![Edit { key: made.id, value: Some(row) }]);
                continue;
            }
            let refused = answer_at(&mut bandit, made.id, &sum(1.7e308), NOW, &mut rng);
            assert!(matches!(&refused, Err(error) if error.to_string().contains("1000000")), "{refused:?}");
            answer_at(&mut bandit, made.id, &sum(1e6), NOW, &mut rng).unwrap();
        }
        let counted = answer_at(&mut bandit, fourth.id, &sum(0.0), NOW, &mut rng).unwrap();
        assert_eq!(counted.feedbacks, if stored_huge { 2 } else { 4 });
        assert_eq!((bandit.core.learnt, bandit.core.left_out), if stored_huge { (3, 1) } else { (4, 0) });
        assert!(ClearState::read(&stored(&bandit)).is_ok());
        round(&mut bandit, &mut rng).unwrap();
    }
}

/// A reward of `oful` beyond its limit is refused, so that no single feedback takes the estimate out of the
/// range of numbers.
#[test]
fn attack_huge_rewards_destroy_no_estimate() {
    let mut rng = ChaCha20Rng::seed_from_u64(32);
    let mut bandit = make(serde_json::json!({"policy": "oful", "arms": 2, "features": 2})).unwrap();
    for (value, counted) in [(1.7e308, false), (-1.7e308, false), (1e6, true), (-1e6, true), (1.0, true)] {
        let made = decide_at(&mut bandit, NOW, &mut rng).unwrap();
        assert_eq!(
            answer_at(&mut bandit, made.id, &reward(value), NOW, &mut rng).is_ok(),
            counted,
            "{value}"
        );
    }
    assert_eq!(bandit.core.learnt, 3);
}

/// When the reward of one person comes, among those of the decisions made with it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Comes {
    First,
    Last,
    Never,
}

/// Plays waves of twelve decisions, whose rewards come after the last decision of the wave, all but one in
/// their order: that of the first decision of `wave` is `value`, and comes when `comes` says. Returns what
/// the policy knows at the end of each wave, and all arms.
fn transcript(
    bandit: &mut ClearState,
    (wave, comes, value): (u64, Comes, f64),
) -> (Vec<Vec<u8>>, Vec<Option<usize>>) {
    let (mut rng, mut arms, mut known) = (ChaCha20Rng::seed_from_u64(3), Vec::new(), Vec::new());
    let (kind, k) = (bandit.core.profile().feedback, bandit.core.profile().arms);
    for at in 0..=6 {
        let now = NOW + at * 2 * WAIT;
        let made: Vec<_> = (0..12).map(|_| decide_at(bandit, now, &mut rng).unwrap()).collect();
        arms.extend(made.iter().map(|made| made.arm));
        // What expired in the wave before has been learnt.
        known.push(bandit.core.policy.state().unwrap());
        let mut order: Vec<u64> = (0..12).collect();
        if wave == at && comes != Comes::First {
            order.rotate_left(1);
        }
        for index in order {
            let own = wave == at && index == 0;
            if own && comes == Comes::Never {
                continue;
            }
            let value = if own { value } else { ((at * 12 + index) * 5 % 7) as f64 / 7.0 };
            let feedback = match kind {
                FeedbackKind::Rewards => {
                    let rewards = (0..k).map(|arm| value * (arm + 1) as f64 / k as f64).collect();
                    ClearFeedback { rewards: Some(rewards), ..ClearFeedback::default() }
                }
                _ => reward(value),
            };
            let feedback =
                if own && value == 0.0 { standing_for(0.0, &bandit.core.profile()) } else { feedback };
            answer_at(bandit, made[index as usize].id, &feedback, now + 1, &mut rng).unwrap();
        }
    }
    (known, arms)
}

/// Of every policy that learns in the order of decisions and has a guarantee: whether a person's reward
/// comes first, last or never, everything that the policy knows and does is the same to the last bit, so
/// that its guarantee is that of turns. A reward that never comes is one of 0. The control: if rewards are
/// learnt as they arrive, the one that comes late moves others to other sums.
#[test]
fn attack_when_a_reward_comes_moves_no_other_reward() {
    let (mut policies, mut moved) = (0, 0);
    for card in cards().unwrap().into_iter().skip(1) {
        let name = card.policy.clone();
        let fresh = example(card);
        if !fresh.core.profile().keeps_places() {
            continue;
        }
        policies += 1;
        let mut differs = false;
        for wave in 0..4 {
            let run = |comes, value| transcript(&mut fresh.clone(), (wave, comes, value));
            let in_turn = run(Comes::First, 1.0);
            assert_eq!(run(Comes::Last, 1.0), in_turn, "{name}, wave {wave}");
            let zero = run(Comes::First, 0.0);
            assert_eq!(run(Comes::Last, 0.0), zero, "{name}, wave {wave}");
            assert_eq!(run(Comes::Never, 0.0), zero, "{name}, wave {wave}");
            let mut broken = fresh.clone();
            broken.core.broken = Some(LateRule::AnyOrder);
            differs |= transcript(&mut broken, (wave, Comes::Last, 1.0)) != in_turn;
        }
        moved += usize::from(differs);
        // An epoch of DP-SE is longer than this run, and has one sum.
        assert!(differs || name == "dp-se", "{name}: control");
    }
    assert!(policies >= 7 && moved >= 6, "{policies}, {moved}");
}

/// A default reward is the one contribution of a person: the reward that comes after it is refused, and
/// what was charged and learnt stays as it is.
#[test]
fn attack_a_replaced_reward_is_not_learnt_twice() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    for card in cards().unwrap().into_iter().skip(1) {
        let name = card.policy.clone();
        let mut bandit = example(card);
        if matches!(bandit.core.profile().feedback, FeedbackKind::Batch | FeedbackKind::Share) {
            continue;
        }
        let id = decide_at(&mut bandit, NOW, &mut rng).unwrap().id;
        decide_at(&mut bandit, NOW + WAIT, &mut rng).unwrap();
        let kept = bandit.core.profile().keeps_places();
        let counts = (bandit.core.learnt, bandit.core.defaulted, bandit.core.left_out);
        assert_eq!(counts, if kept { (1, 1, 0) } else { (0, 0, 1) }, "{name}");
        let before = postcard::to_stdvec(&bandit.core).unwrap();
        for restarted in [false, true] {
            if restarted {
                bandit = ClearState::read(&stored(&bandit)).unwrap();
            }
            let feedback = standing_for(1.0, &bandit.core.profile());
            let late = answer_at(&mut bandit, id, &feedback, NOW + WAIT, &mut rng);
            assert!(matches!(late, Err(Error::Expired { .. })), "{name}");
            assert_eq!(postcard::to_stdvec(&bandit.core).unwrap(), before, "{name}");
        }
    }
}

/// The default reward of a bandit is learnt by every policy that learns from rewards, and decisions expire
/// by what is stored: a state that is read back goes on from the same bytes.
#[test]
fn expired_decisions_count_as_the_default_reward() {
    for card in cards().unwrap().into_iter().skip(1) {
        let name = card.policy.clone();
        let mut request = card.example;
        request["default_reward"] = 0.5.into();
        let Ok(mut bandit) = make(request) else { continue };
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        (0..3).for_each(|_| _ = decide_at(&mut bandit, NOW, &mut rng).unwrap());
        decide_at(&mut bandit, NOW + WAIT, &mut rng).unwrap();
        assert_eq!((bandit.core.defaulted, bandit.core.left_out), (3, 0), "{name}");
        let mut again = ClearState::read(&stored(&bandit)).unwrap();
        for bandit in [&mut bandit, &mut again] {
            let mut rng = ChaCha20Rng::seed_from_u64(2);
            decide_at(bandit, NOW + WAIT + 1, &mut rng).unwrap();
        }
        assert_eq!(stored(&bandit), stored(&again), "{name}");
    }
}

/// A batch of users who add noise takes the shares of exactly as many as their noise is sized for: others are
/// not asked, and a place is given again only after it has expired. The control: without places, the
/// policy takes the share of a third user into the next batch, whose noise is another.
#[test]
fn attack_batches_have_exactly_their_users() {
    let request = serde_json::json!({"policy": "elimination", "model": "local", "arms": 2, "horizon": 999,
        "epsilon": 1});
    let mut bandit = make(request).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let made: Vec<_> = (0..3).map(|_| decide_at(&mut bandit, NOW, &mut rng).unwrap()).collect();
    assert_eq!(made.iter().map(|made| made.awaited.is_some()).collect::<Vec<_>>(), [true, true, false]);
    let share = ClearFeedback { share: Some(1), ..ClearFeedback::default() };
    let unasked = answer_at(&mut bandit, made[2].id, &share, NOW, &mut rng);
    assert!(matches!(unasked, Err(Error::Settled { .. })));
    answer_at(&mut bandit, made[0].id, &share, NOW, &mut rng).unwrap();
    let next = decide_at(&mut bandit, NOW + WAIT, &mut rng).unwrap();
    assert!(next.awaited.is_some());
    let late = answer_at(&mut bandit, made[1].id, &share, NOW + WAIT, &mut rng);
    assert!(matches!(late, Err(Error::Expired { .. })));
    let exchange = bandit.awaited().unwrap().unwrap().exchange;
    answer_at(&mut bandit, next.id, &share, NOW + WAIT, &mut rng).unwrap();
    assert_eq!(bandit.awaited().unwrap().unwrap().exchange, exchange + 1);
    assert_eq!((bandit.core.feedbacks, bandit.core.left_out, bandit.open.len()), (2, 1, 0));
    let missing = bandit.core.policy.missing();
    bandit.core.policy.learn(None, 0, &share, &mut rng).unwrap();
    assert_eq!(bandit.core.policy.missing(), missing - 1, "control");
}

/// A decision that is asked for again under its key is the same one, also after a restart, and nothing
/// changes. Without the key it is another one.
#[test]
fn decisions_are_repeated_under_their_key() {
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let request = serde_json::json!({"policy": "hybrid-ucb", "arms": 2, "epsilon": 1});
    let mut bandit = make(request).unwrap();
    let statement = bandit.statement().unwrap();
    let mut ask = |bandit: &mut ClearState, once: Option<OnceKey>| {
        bandit.decide(None, (NOW, [0; 16]), once, &statement, &mut rng).map(ClearChange::apply)
    };
    let first = ask(&mut bandit, Some(([1; 16], [2; 16]))).unwrap();
    let mut later = ClearState::read(&stored(&bandit)).unwrap();
    for bandit in [&mut bandit, &mut later] {
        let again = ask(bandit, Some(([1; 16], [2; 16]))).unwrap();
        assert_eq!((again.id, again.round, again.arm), (first.id, 1, first.arm));
        assert_eq!((bandit.core.round, bandit.open.len()), (1, 1));
        assert!(matches!(ask(bandit, Some(([1; 16], [3; 16]))), Err(Error::KeyReused)));
        for (round, once) in [(2, Some(([4; 16], [2; 16]))), (3, None), (4, None)] {
            let other = ask(bandit, once).unwrap();
            assert!(other.id != first.id && other.round == round);
        }
    }
    bandit.begin_anew().unwrap().unwrap().apply();
    assert_ne!(ask(&mut bandit, Some(([1; 16], [2; 16]))).unwrap().id, first.id, "its folder was restored");
}

/// Whoever else knows the id of a decision learns nothing of its reward: the same reward and another one get
/// the same answer. The sender itself may repeat it.
#[test]
fn attack_others_do_not_test_a_reward() {
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let mut bandit = make(serde_json::json!({"policy": "ucb1", "arms": 2})).unwrap();
    let id = decide_at(&mut bandit, NOW, &mut rng).unwrap().id;
    let first = answer_at(&mut bandit, id, &reward(1.0), NOW, &mut rng).unwrap();
    let statement = bandit.statement().unwrap();
    let mut said = |value: f64, sender: u8| {
        let answer = bandit.feedback(id, &reward(value), (NOW, [sender; 16]), &statement, &mut rng);
        answer.map(ClearChange::apply).map(|answer| answer.feedbacks).map_err(|error| error.to_string())
    };
    assert_eq!(said(1.0, 0), Ok(first.feedbacks));
    let [same, other, own] = [said(1.0, 1), said(0.0, 1), said(0.0, 0)];
    assert!(same.is_err() && same == other && same == own, "{same:?} {other:?} {own:?}");
}

/// A sender that answers nothing holds up a bandit for its wait time once: while others ask, they have
/// places, and a batch ends.
#[test]
fn attack_a_sender_holds_no_bandit() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let request = serde_json::json!({"policy": "elimination", "model": "local", "arms": 2, "horizon": 99_999,
        "epsilon": 0.1});
    let mut bandit = make(request).unwrap();
    let share = ClearFeedback { share: Some(1), ..ClearFeedback::default() };
    // Batches grow.
    while bandit.core.policy.missing() < 8 {
        let made = decide_of(&mut bandit, NOW - 1, 1, &mut rng).unwrap();
        answer_at(&mut bandit, made.id, &share, NOW - 1, &mut rng).unwrap();
    }
    let (exchange, users) = (bandit.awaited().unwrap().unwrap().exchange, bandit.core.policy.missing());
    // The first sender takes every place, since nobody else asks.
    for _ in 0..2 * users {
        decide_of(&mut bandit, NOW, 1, &mut rng).unwrap();
    }
    assert_eq!(bandit.open.len() as u64, users);
    // Each second both ask, and the other one answers.
    let mut at = NOW;
    while bandit.awaited().unwrap().unwrap().exchange == exchange {
        at += 1;
        assert!(at < NOW + 3 * WAIT, "the batch does not end: {} are missing", bandit.core.policy.missing());
        for _ in 0..users {
            decide_of(&mut bandit, at, 1, &mut rng).unwrap();
        }
        for _ in 0..users {
            let honest = decide_of(&mut bandit, at, 2, &mut rng).unwrap();
            if honest.awaited.is_some() {
                answer_at(&mut bandit, honest.id, &share, at, &mut rng).unwrap();
            }
        }
    }

    // Places of other policies: half is left, and a sender alone has all of them.
    let request = serde_json::json!({"policy": "ucb1", "arms": 2, "max_open": 8});
    let mut bandit = make(request).unwrap();
    decide_of(&mut bandit, NOW, 2, &mut rng).unwrap();
    let taken = (0..8).filter(|_| decide_of(&mut bandit, NOW, 1, &mut rng).is_ok()).count();
    assert_eq!(taken, 4);
    let others = (2..6).filter(|sender| decide_of(&mut bandit, NOW + 1, *sender, &mut rng).is_ok()).count();
    assert_eq!(others, 3, "one place is left for each");
    let mut alone = make(serde_json::json!({"policy": "ucb1", "arms": 2, "max_open": 8})).unwrap();
    decide_of(&mut alone, NOW, 2, &mut rng).unwrap();
    for _ in 0..8 {
        decide_of(&mut alone, NOW + WAIT, 1, &mut rng).unwrap();
    }
}

/// A flood of decisions voids no feedback that waits for its turn: decisions without feedback have a bound of
/// their own. Where too much feedback waits, the newest is left out.
#[test]
fn attack_floods_void_no_feedback() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let request = serde_json::json!({"policy": "dp-se", "arms": 2, "epsilon": 1, "beta": 0.1, "max_open": 4});
    let mut bandit = make(request.clone()).unwrap();
    let mut answered = |bandit: &mut ClearState, count: usize| {
        let made: Vec<_> = (0..count).map(|_| decide_at(bandit, NOW, &mut rng).unwrap()).collect();
        for made in made {
            answer_at(bandit, made.id, &reward(1.0), NOW, &mut rng).unwrap();
        }
    };
    answered(&mut bandit, 4);
    // The policy has learnt from one, and waits for arm 1.
    assert_eq!((bandit.core.learnt, bandit.pending(NOW)), (1, (0, 3)));
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    for open in 1..=4 {
        assert_eq!(decide_at(&mut bandit, NOW, &mut rng).unwrap().arm, Some(1));
        assert_eq!((bandit.pending(NOW), bandit.core.left_out), ((open, 3), 0));
    }
    let full = decide_at(&mut bandit, NOW, &mut rng).err().unwrap();
    assert!(
        matches!(full, Error::TooManyOpen { limit: 4, wait: WAIT, expires: WAIT, most: REMEMBERED }),
        "{full}"
    );
    assert!(
        full.to_string().contains("0.07 decisions a second")
            && full.to_string().contains("`max_open` (at most 1024)")
    );
    assert_eq!((bandit.pending(NOW), bandit.core.left_out), ((4, 3), 0));

    // Feedback that waits for an older one takes no place of another arm, and has its bound.
    let mut bandit = make(request).unwrap();
    let mut made: Vec<_> = (0..4).map(|_| decide_at(&mut bandit, NOW, &mut rng).unwrap().id).collect();
    for newer in 1..=4 {
        answer_at(&mut bandit, made[newer], &reward(1.0), NOW, &mut rng).unwrap();
        if newer < 4 {
            made.push(decide_at(&mut bandit, NOW, &mut rng).unwrap().id);
        }
    }
    assert_eq!(bandit.pending(NOW), (3, 4));
    assert!(matches!(decide_at(&mut bandit, NOW, &mut rng), Err(Error::TooManyOpen { limit: 4, .. })));
    // When the oldest is answered, arm 1 is played. The newest feedback on arm 0 makes room, once no decision
    // after it is open, whose place would move.
    answer_at(&mut bandit, made[0], &reward(1.0), NOW, &mut rng).unwrap();
    assert_eq!((bandit.pending(NOW), bandit.core.learnt), ((2, 4), 1));
    assert!(matches!(decide_at(&mut bandit, NOW, &mut rng), Err(Error::TooManyOpen { limit: 4, .. })));
    for id in &made[5..] {
        answer_at(&mut bandit, *id, &reward(1.0), NOW, &mut rng).unwrap();
    }
    for left_out in 1..=4 {
        assert_eq!(decide_at(&mut bandit, NOW, &mut rng).unwrap().arm, Some(1));
        let waiting = 6 - left_out.min(3);
        assert_eq!(bandit.pending(NOW), (left_out as usize, waiting));
        assert_eq!(bandit.core.left_out, left_out.min(3));
    }
    assert!(bandit.open.get(&made[4]).is_none() && bandit.open.get(&made[3]).is_some());
}

/// Of every policy that learns from rewards, with eight users at once whose rewards come up to a minute late.
/// Without contexts, the regret of the turns is that of turns with one user, within two standard errors of
/// the difference over seeds; what is lost beside it are decisions on arms that the policy has no more use
/// for (docs/late-feedback.md, which has the results). With contexts or full information the regret may
/// exceed it by that of seven decisions that are made before their time on each arm.
#[test]
#[ignore = "takes minutes: see CONTRIBUTING"]
fn late_rewards_cost_no_regret() {
    const SEEDS: u64 = 24;
    let mut worse = Vec::new();
    for (index, card) in cards().unwrap().into_iter().skip(1).enumerate() {
        let name = card.policy.clone();
        let fresh = example(card);
        let profile = fresh.core.profile();
        if profile.feedback == FeedbackKind::Batch {
            continue;
        }
        let rounds = if profile.features.is_some() { 800 } else { 6000 };
        // Mean regret, without and with that of unused decisions, and the square of its standard error.
        let runs = |users| -> (f64, f64, f64) {
            let of = |seed| regret(&mut fresh.clone(), users, rounds, 1000 * index as u64 + seed);
            let all: Vec<(f64, f64)> = (0..SEEDS).map(of).collect();
            let mean = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / SEEDS as f64;
            let (turns, unused) = (mean(|run| run.0), mean(|run| run.1));
            let square = all.iter().map(|x| (x.0 - turns).powi(2)).sum::<f64>() / (SEEDS - 1) as f64;
            (turns, turns + unused, square / SEEDS as f64)
        };
        let (turns, late) = (runs(1), runs(8));
        let error = (turns.2 + late.2).sqrt();
        println!(
            "{name}: in turn {:.1}, late {:.1}, of which turns {:.1}, standard error {error:.1}",
            turns.1, late.1, late.0
        );
        let early = match profile.feedback {
            FeedbackKind::Rewards => 7.0 * (0.5 + 0.6 + 0.4 + 0.8),
            _ if profile.features.is_some() => 7.0,
            _ => 0.0,
        };
        if late.0 > turns.0 + 2.0 * error + early {
            worse.push(name);
        }
    }
    assert!(worse.is_empty(), "{worse:?}");
}

/// The regret of so many decisions: of the turns, and of decisions that no turn has used in the end. One user
/// gets the reward at once; several get it one to sixty seconds later, and then ask again.
fn regret(bandit: &mut ClearState, users: u64, rounds: u64, seed: u64) -> (f64, f64) {
    const MEANS: [f64; 5] = [0.4, 0.9, 0.3, 0.5, 0.1];
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let profile = bandit.core.profile();
    let statement = bandit.statement().unwrap();
    // For each user, the time of the next event, and the decision that then gets its feedback.
    let mut next: Vec<(u64, Option<(DecisionId, ClearFeedback)>)> = vec![(NOW, None); users as usize];
    let (mut lost, mut made) = (0.0, 0);
    while made < rounds {
        let (now, waits) = next.iter_mut().min_by_key(|(at, _)| *at).unwrap();
        let at = *now;
        if let Some((id, feedback)) = waits.take() {
            bandit.feedback(id, &feedback, (at, [0; 16]), &statement, &mut rng).unwrap().apply();
        }
        let mut context = None;
        let mut means = MEANS.to_vec();
        if let Some((d, k)) = profile.shape() {
            let values: Vec<f64> =
                (0..d * k).map(|_| (2.0 * rng.random::<f64>() - 1.0) / (d as f64).sqrt()).collect();
            let features = Features::new(values, d).unwrap();
            let logit = |x: &[f64]| {
                x.iter().enumerate().map(|(i, x)| x * if i % 2 == 0 { 3.0 } else { -2.0 }).sum::<f64>()
            };
            means = features.rows().map(|x| 1.0 / (1.0 + (-logit(x)).exp())).collect();
            context = Some(features);
        }
        let decision =
            bandit.decide(all_open(context), (at, [0; 16]), None, &statement, &mut rng).unwrap().apply();
        made += 1;
        let arm = decision.arm.unwrap();
        lost += means.iter().copied().fold(f64::MIN, f64::max) - means[arm];
        let rewards: Vec<f64> = means.iter().map(|mean| f64::from(rng.random::<f64>() < *mean)).collect();
        let none = ClearFeedback::default();
        let feedback = match profile.feedback {
            FeedbackKind::Reward => reward(rewards[arm]),
            FeedbackKind::Rewards => ClearFeedback { rewards: Some(rewards), ..none },
            FeedbackKind::Sum => ClearFeedback { sum: Some(rewards[arm]), ..none },
            _ => {
                let share = decision.awaited.map(|task| privacy_share(&task, rewards[arm], &mut rng));
                ClearFeedback { share, ..none }
            }
        };
        *now = at + if users == 1 { 0 } else { rng.random_range(1..WAIT) };
        let asked = profile.feedback != FeedbackKind::Share || feedback.share.is_some();
        *waits = asked.then_some((decision.id, feedback));
    }
    let best = MEANS.iter().copied().fold(f64::MIN, f64::max);
    let turns = profile.features.is_none() && profile.feedback != FeedbackKind::Rewards;
    let unused = bandit.open.iter().filter(|_| turns).map(|(_, row)| best - MEANS[row.arm]).sum::<f64>();
    (lost - unused, unused)
}

/// The share of a user in the first batches of the elimination that is offered as the example.
fn privacy_share(task: &Task, reward: f64, rng: &mut ChaCha20Rng) -> u64 {
    use bandit::distributed::{EliminationConfig, Model};
    let epsilon = privacy::Ratio::integer(1);
    let config =
        EliminationConfig { confidence: 0.1, ..EliminationConfig::new(5, 100_000, Model::Local, epsilon) };
    config.mechanism(task.batch).unwrap().randomise(reward, rng).unwrap()
}

/// The control: two states that continue from one backup release its rewards twice, each with its own
/// noise. A restored state releases none of them: with noise of scale 10⁻⁶ its mean is that of the
/// rewards that came since.
#[test]
fn attack_backups_release_no_reward_again() {
    let request = serde_json::json!({"policy": "anytime-lazy-ucb", "arms": 1, "epsilon": 1e6});
    let Value::Object(request) = request else { unreachable!() };
    let mut backup = make(request.into()).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let mut give = |bandit: &mut ClearState, value: f64, times: u32| {
        for _ in 0..times {
            let id = decide_at(bandit, NOW, &mut rng).unwrap().id;
            answer_at(bandit, id, &reward(value), NOW, &mut rng).unwrap();
        }
        let state = bandit.core.policy.state().unwrap();
        let (_, policy): (String, AnytimeLazyUcb<GridLaplace>) = postcard::from_bytes(&state).unwrap();
        policy.means().next().unwrap()
    };
    // Releases come at the pulls 1, 3 and 7: three of these six rewards wait for the next.
    assert!((give(&mut backup, 1.0, 6) - 1.0).abs() < 1e-3);
    let mut lost = [backup.clone(), backup.clone()];
    let means = lost.each_mut().map(|bandit| give(bandit, 0.0, 1));
    assert!(means.iter().all(|mean| (mean - 0.75).abs() < 1e-3) && means[0] != means[1], "{means:?}");
    let mut restored = backup;
    restored.begin_anew().unwrap().unwrap().apply();
    for _ in 0..15 {
        assert!(give(&mut restored, 0.0, 1).abs() < 1e-3);
    }
    assert_eq!(restored.core.feedbacks, 21);
}

/// Every offered policy plays on after a restore, with what it had spent. Where the server adds the
/// noise, none of its answers is left and its open decisions are closed.
#[test]
fn restored_bandits_begin_anew() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    for card in cards().unwrap().into_iter().skip(1) {
        let (name, mut bandit) = (card.policy.clone(), example(card));
        play(&mut bandit, 30, &mut rng);
        let _ = decide_at(&mut bandit, NOW, &mut rng);
        let central = bandit.core.ledger.is_some() && !bandit.core.profile().users_add_noise;
        let mut restored = bandit.clone();
        let begun = restored.begin_anew().unwrap().map(ClearChange::apply);
        assert_eq!(begun.is_some(), central, "{name}");
        if begun.is_none() {
            continue;
        }
        let fresh = PolicyState::new(bandit.config().clone()).unwrap();
        assert_eq!(postcard::to_stdvec(&restored.core.policy), postcard::to_stdvec(&fresh), "{name}");
        assert_eq!((restored.open.len(), restored.core.restored), (0, 1), "{name}");
        assert_eq!(
            (restored.core.round, restored.core.feedbacks),
            (bandit.core.round, bandit.core.feedbacks)
        );
        let spent = |bandit: &ClearState| bandit.spent().map(|spent| spent.epsilon);
        assert_eq!(spent(&restored), spent(&bandit), "{name}");
        play(&mut restored, 10, &mut rng);
        assert!(ClearState::read(&stored(&restored)).is_ok(), "{name}");
        restored.begin_anew().unwrap().unwrap().apply();
        assert_eq!(restored.core.restored, 2);
    }
}

/// Of every policy offered: stored and read back at any point it makes the same decisions from the same
/// randomness, and is stored again to the same bytes.
#[test]
fn stored_states_go_on_exactly() {
    for card in cards().unwrap().into_iter().skip(1) {
        let policy = card.policy.clone();
        let mut bandit = example(card);
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for part in 0..4 {
            play(&mut bandit, 25 * part, &mut rng);
            let mut again = ClearState::read(&stored(&bandit)).unwrap();
            let (mut first, mut second) =
                ([0, 1].map(|_| ChaCha20Rng::seed_from_u64(2 + u64::from(part)))).into();
            let arms = play(&mut bandit, 40, &mut first);
            assert_eq!(arms, play(&mut again, 40, &mut second), "{policy}");
            assert_eq!(stored(&bandit), stored(&again));
            assert_eq!(first, second);
        }
    }
}

/// Of every policy offered, with any number of its example at an extreme: it is refused, or it plays, and
/// after every round it can be read back. One bandit that cannot keeps the server from starting again.
#[test]
fn extremes_are_refused_or_last() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let reals = [5e-324, 1e-300, 1e-30, 1e-9, 1e-6, 0.999_999, 1e6, 1e9, 1e30, 1.7e308].map(Value::from);
    let wholes = [0, 1, 2, 4096, 1 << 32, u64::MAX].map(Value::from);
    let (mut refused, mut made) = (0, 0);
    for PolicyCard { policy, example, .. } in cards().unwrap().into_iter().skip(1) {
        let Value::Object(example) = example else { panic!("{policy}") };
        // The noise of every batch of ShuffleGLM takes a while; what it is made of, it has in common with
        // JointGLM.
        let numbers = example.iter().filter(|(_, v)| v.is_number() && policy != "shuffle-glm");
        for (name, value) in numbers.flat_map(|(name, _)| reals.iter().chain(&wholes).map(move |v| (name, v)))
        {
            let mut request = example.clone();
            request.insert(name.clone(), value.clone());
            let Ok(mut bandit) = make(request.into()) else {
                refused += 1;
                continue;
            };
            made += 1;
            for _ in 0..5 {
                let mut next = bandit.clone();
                if round(&mut next, &mut rng).is_ok() {
                    bandit = next;
                }
                assert!(ClearState::read(&stored(&bandit)).is_ok(), "{policy}, {name} = {value}");
            }
        }
    }
    assert!(refused > 300 && made > 300, "{refused} refused, {made} made");
}

/// A feedback that a policy refuses at its turn is left out if nothing is guaranteed. A private policy leaves
/// none out, which would move the entries of others: nothing changes, and nothing is released.
#[test]
fn attack_a_private_policy_leaves_no_entry_out() {
    let refused = |request: Value| {
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let mut bandit = make(request).unwrap();
        let made: Vec<_> = (0..2).map(|_| decide_at(&mut bandit, NOW, &mut rng).unwrap()).collect();
        // No request puts such a row here: its range was checked when it came.
        let row = Open { given: Some(reward(2.0).into()), ..bandit.open.get(&made[0].id).unwrap().clone() };
        let edits = bandit.open.set(made[0].id, row);
        bandit.open.apply(edits);
        let before = stored(&bandit);
        let answer = answer_at(&mut bandit, made[1].id, &reward(1.0), NOW, &mut rng);
        (answer.map(|_| bandit.core.left_out), stored(&bandit) == before)
    };
    let open = refused(serde_json::json!({"policy": "ucb1", "arms": 1}));
    assert!(matches!(open, (Ok(1), false)), "{open:?}");
    for private in ["dp-se", "hybrid-ucb", "anytime-lazy-ucb"] {
        let card = cards().unwrap().into_iter().find(|card| card.policy == private).unwrap();
        let mut request = card.example;
        request["arms"] = 2.into();
        let (answer, unchanged) = refused(request);
        assert!(matches!(answer, Err(Error::Broken(_))) && unchanged, "{private}: {answer:?}");
    }
}

/// What is remembered is bounded, and what is forgotten is not counted again.
#[test]
fn memory_is_bounded() {
    let config = serde_json::json!({"policy": "oful", "arms": 4, "features": 64});
    let Value::Object(config) = config else { unreachable!() };
    let mut bandit = make(config.into()).unwrap();
    let most = remembered(&bandit.core.profile());
    assert_eq!(most, KEPT_VALUES / 256);
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let mut decide = |bandit: &mut ClearState, now| decide_at(bandit, now, &mut rng).map(|made| made.id);
    let ids: Vec<_> = (0..most).map(|_| decide(&mut bandit, NOW).unwrap()).collect();
    assert!(decide(&mut bandit, NOW).is_err());
    assert_eq!(bandit.open.len(), most);
    // All expire at once, and nothing of them is left but their receipts.
    decide(&mut bandit, NOW + WAIT).unwrap();
    assert_eq!((bandit.open.len(), bandit.core.left_out), (1, most as u64));
    for _ in 0..3 {
        (0..most - 1).for_each(|_| _ = decide(&mut bandit, NOW + WAIT).unwrap());
        decide(&mut bandit, NOW + 9 * WAIT).unwrap();
    }
    assert!(bandit.receipts.len() <= REMEMBERED);
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    assert!(answer_at(&mut bandit, ids[0], &reward(1.0), NOW, &mut rng).is_err());
    assert_eq!((bandit.core.feedbacks, bandit.core.learnt), (0, 0));
}

/// The rows that a feedback writes are as many bytes with every decision open that is remembered as with
/// ten, and the policy's state is the same.
#[test]
fn a_feedback_does_not_grow_with_open_decisions() {
    let config = serde_json::json!({"policy": "oful", "arms": 2, "features": 1});
    let Value::Object(config) = config else { unreachable!() };
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let mut bytes = |open: usize| {
        let mut bandit = make(config.clone().into()).unwrap();
        let mut decide = || decide_at(&mut bandit, NOW, &mut rng).unwrap().id;
        let first = decide();
        (1..open).for_each(|_| _ = decide());
        assert_eq!(bandit.pending(NOW), (open, 0));
        let statement = bandit.statement().unwrap();
        let change = bandit.feedback(first, &reward(1.0), (NOW, [0; 16]), &statement, &mut rng).unwrap();
        let edits = change.edits().unwrap().unwrap();
        let rows = [edits.decisions, edits.receipts, edits.exchanges, edits.keyed].concat();
        let bytes = |row: &crate::store::StoredEdit| row.key.len() + row.value.as_ref().map_or(0, Vec::len);
        (rows.iter().map(bytes).sum::<usize>(), edits.state.len())
    };
    let ((few, state), (many, after)) = (bytes(10), bytes(REMEMBERED));
    // Counters are longer by some bytes.
    assert!(many <= few + 2, "{few}, {many}");
    assert!(after <= state + 8, "{state}, {after}");
}
