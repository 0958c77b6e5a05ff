//! Users with keys of their own: decisions over HTTP, what others see of them, and who is removed.

use crate::device::{Bundles, rng};
use crate::server::{Server, keys};
use crate::staged::{Stopping, context, raiser};
use helba_server::RemovedUsersList;
use keygen::{Owner, Request, generate};
use protocol::{BanditConfig, Exchanging, Shape, TaskKind, Updates, UserKeys};
use rand_chacha::ChaCha20Rng;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use testkit::ClearTwin;
use user_client::{BanditDevice, Client, Device, Error, Stop};
use wire::{
    CLOCKS, DecideReply, Enrolment, EnrolmentRequest, Nonce, Padded, PadsOf, PublicBundle, RaiseTask, Raised,
    Raises, RemovedUsers, RemovedUsersFile, SecretBundle, UserBundle, UserPads, UserSecret,
};

const DAY: u64 = 24 * 3600;

/// Keys for 4 features and 2 arms, whose users have their own.
fn own_keys(exchanges: Exchanging) -> &'static Bundles {
    static KEYS: [OnceLock<Bundles>; 2] = [const { OnceLock::new() }; 2];
    let of = usize::from(exchanges == Exchanging::Staged);
    KEYS[of].get_or_init(|| generated(Shape::for_problem(4, 2), exchanges, 21 + of as u64))
}

fn generated(shape: Shape, exchanges: Exchanging, seed: u64) -> Bundles {
    let request = Request {
        shape,
        security: keygen::Security::None,
        width: Default::default(),
        updates: Updates::Products,
        exchanges,
        keys: UserKeys::Own,
        created: 0,
    };
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    generate(request, &mut public, &mut secret, &mut rng(seed), |_, _| ()).unwrap();
    (public, secret)
}

fn owner(keys: &Bundles) -> Owner {
    let secret = SecretBundle::read(&keys.1[..]).unwrap();
    Owner::new(&secret, PublicBundle::read(&keys.0[..]).unwrap()).unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// The device of a user who was enrolled now.
fn user(owner: &Owner, name: &str, seed: u64) -> Device {
    enrolled(owner, name, seed, [now(), now() + DAY])
}

fn enrolled(owner: &Owner, name: &str, seed: u64, times: [u64; 2]) -> Device {
    let secret = UserSecret::generate(&mut rng(seed));
    let bundle = owner.enrol(&secret.request(), name, times, &mut rng(1)).unwrap().to_bytes().unwrap();
    Device::of_user(secret, UserBundle::read(&bundle).unwrap()).unwrap()
}

fn client(server: &Server, device: &Device) -> Client {
    Client::new(&server.url()).unwrap().with_device(device)
}

fn start(exchanges: Exchanging) -> (Server, Owner) {
    let keys = own_keys(exchanges);
    (Server::start_with(keys, "127.0.0.1:0", Duration::from_secs(3600)), owner(keys))
}

fn refused(error: Error, status: u16, says: &str) {
    let fits = matches!(&error, Error::Refused(problem) if problem.status == status);
    assert!(fits && error.to_string().contains(says), "{error}");
}

fn rows(seed: u64) -> Vec<Vec<f64>> {
    (0..2).map(|arm| context(100 * seed + 31 * arm)).collect()
}

/// Several users at once decide as the twin does, with the first model and with those that their feedback
/// gives, by one raise and in stages.
#[test]
fn users_with_keys_of_their_own_play() {
    for exchanges in [Exchanging::One, Exchanging::Staged] {
        let (server, owner) = start(exchanges);
        let created = server.client().create_encrypted(&BanditConfig::new(4, 2)).unwrap();
        assert_eq!((created.plan.keys, created.plan.exchanges), (UserKeys::Own, exchanges));
        let stop = Stop::default();
        let raiser = raiser(&server, &stop);
        let users: Vec<Device> = (0..3).map(|n| user(&owner, &format!("user-{n}"), 30 + n)).collect();
        std::thread::scope(|scope| {
            let stopping = Stopping(&stop);
            let thread = scope.spawn(move || raiser.run());
            let mut twin = ClearTwin::new(created.config.clone());
            let (mut learnt, mut together) = (0, 0);
            for round in 0..12u64 {
                // Each third round all decide at once, else one decides alone.
                let playing = if round % 3 == 0 { &users[..] } else { &users[(round % 3) as usize..][..1] };
                let played: Vec<_> = playing
                    .iter()
                    .enumerate()
                    .map(|(n, device)| {
                        let (server, created) = (&server, &created);
                        scope.spawn(move || {
                            let bandit = device.join(created).unwrap();
                            let rows = rows(10 * round + n as u64);
                            let played =
                                bandit.decide(&client(server, device), &rows, &mut rng(90 + n as u64));
                            (rows, played.unwrap())
                        })
                    })
                    .collect();
                let played: Vec<_> = played.into_iter().map(|thread| thread.join().unwrap()).collect();
                for (rows, played) in &played {
                    let choice = &played.choice;
                    assert!(choice.reliable && played.tasks.is_empty(), "{:?}", choice.values);
                    let indices = twin.indices(rows, choice.round, choice.model_feedbacks);
                    let best = indices.iter().copied().fold(f64::MIN, f64::max);
                    let range = created.config.linear.index_range(choice.round, choice.model_feedbacks);
                    assert!(best - indices[choice.arm] <= range / 64.0, "{indices:?} {:?}", choice.values);
                    learnt = learnt.max(choice.model_feedbacks);
                    together = together.max(choice.users);
                }
                for ((rows, played), device) in played.iter().zip(playing) {
                    let (bandit, choice) = (device.join(&created).unwrap(), &played.choice);
                    let x = &rows[choice.arm];
                    let feedback = bandit.feedback(choice.arm, x, x[0], None, &mut rng(round)).unwrap();
                    client(&server, device).feedback_encrypted(&created.id, choice.id, &feedback).unwrap();
                    twin.learn(x, x[0]);
                }
            }
            assert!(learnt > 0 && together > 1, "{learnt} feedbacks in a model, {together} users at once");
            drop(stopping);
            thread.join().unwrap().unwrap();
        });
    }
}

/// Contexts of more features than one raise takes are several ciphertexts of uploads, also of users who ask
/// at the same time and for several decisions, and lead to the arms of the twin.
#[test]
fn users_of_a_large_bandit_play() {
    static KEYS: OnceLock<Bundles> = OnceLock::new();
    let (d, k) = (20, 3);
    let keys = KEYS.get_or_init(|| generated(Shape::for_problem(d, k), Exchanging::Staged, 23));
    let server = Server::start_with(keys, "127.0.0.1:0", Duration::from_secs(3600));
    let owner = owner(keys);
    let created = server.client().create_encrypted(&BanditConfig::new(d, k)).unwrap();
    let (users, stop) = ([86, 87].map(|seed| user(&owner, &format!("user-{seed}"), seed)), Stop::default());
    let (raiser, created) = (raiser(&server, &stop), &created);
    let rows = |seed: u64| -> Vec<Vec<f64>> {
        let value = |i: u64| ((7 * seed + 3 * i * i + 1) as f64).sin() / 5.0;
        (0..k as u64).map(|arm| (0..d as u64).map(|i| value(i + 40 * arm)).collect()).collect()
    };
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        let thread = scope.spawn(move || raiser.run());
        let mut twin = ClearTwin::new(created.config.clone());
        let mut check = |rows: &[Vec<f64>], choice: &user_client::Choice| {
            assert!(choice.reliable, "{:?}", choice.values);
            let indices = twin.indices(rows, choice.round, choice.model_feedbacks);
            let best = indices.iter().copied().fold(f64::MIN, f64::max);
            let range = created.config.linear.index_range(choice.round, choice.model_feedbacks);
            assert!(best - indices[choice.arm] <= range / 64.0, "{indices:?} {:?}", choice.values);
        };
        for round in 0..3 {
            let played: Vec<_> = (0..2u64)
                .map(|n| {
                    let (server, device, rows) = (&server, &users[n as usize], rows(10 * round + n));
                    scope.spawn(move || {
                        let bandit = device.join(created).unwrap();
                        (bandit.decide(&client(server, device), &rows, &mut rng(n)).unwrap().choice, rows)
                    })
                })
                .collect();
            for played in played {
                let (choice, rows) = played.join().unwrap();
                check(&rows, &choice);
            }
        }
        let (bandit, rows) = (users[0].join(created).unwrap(), [rows(70), rows(71), rows(72)]);
        let several: Vec<&[Vec<f64>]> = rows.iter().map(Vec::as_slice).collect();
        let played = bandit.decide_several(&client(&server, &users[0]), &several, &mut rng(5)).unwrap();
        assert_eq!(played.choice.len(), 3);
        rows.iter().zip(&played.choice).for_each(|(rows, choice)| check(rows, choice));
        drop(stopping);
        thread.join().unwrap().unwrap();
    });
}

/// The bytes of a decision's reply, and its arm, as its own device reads them.
fn tapped(bandit: &BanditDevice, client: &Client, rng: &mut ChaCha20Rng) -> (Vec<u8>, usize) {
    let mut asking = bandit.ask(&[&rows(1)], rng).unwrap();
    loop {
        let request = asking.request().unwrap();
        let reply = match request.to {
            user_client::Target::Decisions { decisions } => {
                client.decide_several(&bandit.created().id, bandit.limits(), decisions, request.body)
            }
            _ => client.post_raises(&bandit.created().id, bandit.limits(), request.body),
        };
        let bytes = reply.unwrap();
        bandit.answered(&mut asking, Ok(bytes.clone()), rng).unwrap();
        if asking.request().is_none() {
            return (bytes, asking.finish().unwrap().choice[0].arm);
        }
    }
}

/// Under a shared key whoever taps a line reads the arm of another user. A user with a key of its own reads
/// nothing, though it has all that its neighbour sent and got, and its own secrets.
#[test]
fn attack_a_neighbour_on_the_line_reads_nothing() {
    let server = Server::start("127.0.0.1:0");
    let (shared, created) = (server.client(), server.create(Default::default()));
    let [one, other] = [(); 2].map(|()| server.device());
    let (reply, arm) = tapped(&one.join(&created).unwrap(), &shared, &mut rng(1));
    let read = other.join(&created).unwrap().read(&reply).unwrap().choice.unwrap();
    assert_eq!(read.arm, arm, "the control reads");

    for exchanges in [Exchanging::One, Exchanging::Staged] {
        let (server, owner) = start(exchanges);
        let created = server.client().create_encrypted(&BanditConfig::new(4, 2)).unwrap();
        let [one, other] = [40, 41].map(|seed| user(&owner, &format!("user-{seed}"), seed));
        let stop = Stop::default();
        let raiser = raiser(&server, &stop);
        std::thread::scope(|scope| {
            let stopping = Stopping(&stop);
            let thread = scope.spawn(move || raiser.run());
            let bandit = one.join(&created).unwrap();
            let (reply, arm) = tapped(&bandit, &client(&server, &one), &mut rng(2));
            assert_eq!(bandit.read(&reply).unwrap().choice.unwrap().arm, arm);
            // What it opens are numbers that are uniform modulo q.
            let read = other.join(&created).unwrap().read(&reply).unwrap().choice.unwrap();
            assert!(!read.reliable, "{:?}", read.values);
            drop(stopping);
            thread.join().unwrap().unwrap();
        });
    }
}

/// An upload is bound to its user: whoever taps one, past HTTPS, and sends it as its own gets an answer about
/// numbers that are nobody's, which no device takes as reliable. Its user may send it again.
#[test]
fn attack_tapped_contexts_are_nothing_under_the_pads_of_others() {
    let (server, owner) = start(Exchanging::One);
    let created = server.client().create_encrypted(&BanditConfig::new(4, 2)).unwrap();
    let [alice, mallory] = [45, 46].map(|seed| user(&owner, &format!("user-{seed}"), seed));
    let stop = Stop::default();
    let raiser = raiser(&server, &stop);
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        let thread = scope.spawn(move || raiser.run());
        let [of_alice, of_mallory] = [&alice, &mallory].map(|device| device.join(&created).unwrap());
        for round in 0..5 {
            let rows = [context(7 + round), vec![0.0; 4]];
            let upload = of_alice.contexts(&rows, &mut rng(3 + round)).unwrap();
            let decide = |device: &Device, bandit: &BanditDevice| {
                let client = client(&server, device);
                let reply = client.decide_several(&created.id, bandit.limits(), 1, &upload).unwrap();
                bandit.read(&reply).unwrap().choice.unwrap()
            };
            let [first, again] = [(); 2].map(|()| decide(&alice, &of_alice));
            assert!(first.reliable && again.reliable && first.arm == again.arm, "the control");
            let tapped = decide(&mallory, &of_mallory);
            assert!(!tapped.reliable, "{:?}", tapped.values);
        }
        drop(stopping);
        thread.join().unwrap().unwrap();
    });
}

/// Users whose evaluation somebody has spoilt ask again, if they may, and get answers that they can rely on:
/// their uploads are decrypted anew, in other company.
#[test]
fn attack_users_with_keys_of_their_own_are_answered_again() {
    let (server, owner) = start(Exchanging::One);
    let created = server.client().create_encrypted(&BanditConfig::new(4, 2)).unwrap();
    let users = [52, 53].map(|seed| user(&owner, &format!("user-{seed}"), seed).with_most_repeats(20));
    let mallory = user(&owner, "mallory", 54);
    let (stop, mut twin) = (Stop::default(), ClearTwin::new(created.config.clone()));
    let (raiser, created) = (raiser(&server, &stop), &created);
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        let thread = scope.spawn(move || raiser.run());
        let mut repeated = 0;
        for turn in 0..30 {
            let (other, client_of_mallory) = (&users[0], client(&server, &mallory));
            let spoilt = scope.spawn(move || {
                // The upload of another, whose numbers are none under this user's pads.
                let other = other.join(created).unwrap();
                let upload = other.contexts(&rows(1), &mut rng(turn)).unwrap();
                client_of_mallory.decide_several(&created.id, other.limits(), 1, &upload).map(drop)
            });
            let deciding: Vec<_> = users
                .iter()
                .enumerate()
                .map(|(n, device)| {
                    let server = &server;
                    scope.spawn(move || {
                        let mut rows = rows(10 * turn + n as u64);
                        rows[n].iter_mut().for_each(|x| *x *= 0.3);
                        let bandit = device.join(created).unwrap();
                        (bandit.decide(&client(server, device), &rows, &mut rng(turn)).unwrap(), rows)
                    })
                })
                .collect();
            for deciding in deciding {
                let (played, rows) = deciding.join().unwrap();
                if played.repeats > 0 && played.unrepeated.is_none() {
                    let choice = &played.choice;
                    let indices = twin.indices(&rows, choice.round, choice.model_feedbacks);
                    let best = indices.iter().copied().fold(f64::MIN, f64::max);
                    assert!(choice.reliable && indices[choice.arm] == best, "{:?}", choice.values);
                    repeated += 1;
                }
            }
            // It may have been refused, since its sender is evaluated alone by now.
            let _ = spoilt.join().unwrap();
            if repeated > 0 {
                break;
            }
        }
        assert!(repeated > 0, "no evaluation of several users was spoilt");
        drop(stopping);
        thread.join().unwrap().unwrap();
    });
}

/// A holder of the key encrypts minus the pads of several users in one ciphertext, as if their contexts were
/// of one request, and those of feedback each by itself. A user who was removed gets nothing: in the sum with
/// its upload its numbers stay under its pads.
#[test]
fn attack_uploads_of_several_users_share_a_ciphertext() {
    let (server, owner) = start(Exchanging::One);
    let created = server.client().create_encrypted(&BanditConfig::new(4, 2)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("removed.json");
    let mut list = RemovedUsers::default();
    list.remove("user-1", now()).unwrap();
    std::fs::write(&path, list.to_json()).unwrap();
    let device = server.device().without_users(RemovedUsersFile::open(&path).unwrap());
    let raiser = device.join(&created).unwrap();
    let users: Vec<Device> = (0..3).map(|n| user(&owner, &format!("user-{n}"), 82 + n)).collect();

    let bundle = SecretBundle::read(&own_keys(Exchanging::One).1[..]).unwrap();
    let (secret, key) =
        ckks_secret::SecretKey::from_bytes(&bundle.scores.params, &bundle.scores.frame).unwrap();
    let (small, level) = (secret.params().clone(), secret.params().max_level());
    let ring = PublicBundle::read(&own_keys(Exchanging::One).0[..]).unwrap().scores.ring;
    let layout = protocol::ScoreLayout::new(&created.config, &created.plan, ring);
    let scale = f64::from(protocol::LOG_CONTEXT).exp2();
    let (mut pads, mut uploads) = (Vec::new(), Vec::new());
    for (n, device) in users.iter().enumerate() {
        let body = device.join(&created).unwrap().contexts(&rows(n as u64), &mut rng(n as u64)).unwrap();
        let (_, places) = layout.context_places(3, n..n + 1).unwrap().remove(0);
        let upload = ckks::PaddedUpload::read(&small, key, (level, scale), &places, &body).unwrap();
        let of = PadsOf::Contexts { decisions: 1, nonce: *upload.nonce() };
        pads.push(UserPads { enrolment: device.enrolment().unwrap().to_bytes(), of });
        uploads.push(upload);
    }
    let feedback = users[2].join(&created).unwrap().feedback(1, &rows(5)[1], 0.5, None, &mut rng(9)).unwrap();
    let (count, of_feedback) = (layout.feedback_numbers(), f64::from(protocol::LOG_STATISTICS).exp2());
    let places: Vec<usize> = (0..count).collect();
    let feedback = ckks::PaddedUpload::read(&small, key, (level, of_feedback), &places, &feedback).unwrap();
    let of = PadsOf::Feedback { nonce: *feedback.nonce() };
    pads.push(UserPads { enrolment: users[2].enrolment().unwrap().to_bytes(), of });

    let tasks = vec![RaiseTask { id: 1, kind: TaskKind::Pads, masked: Vec::new(), pads }];
    let read = raiser.read(&DecideReply { tasks, ..DecideReply::default() }.to_bytes()).unwrap();
    let body = raiser.raise(&read.tasks, None, &mut rng(4)).unwrap();
    let mut raised = Raises::read(&body, raiser.limits()).unwrap().raised;
    let Some((1, Raised::Pads { frames, refused })) = raised.pop() else { panic!("no pads") };
    assert_eq!((frames.len(), &refused[..]), (2, &[1][..]));

    let all: Vec<Vec<Vec<f64>>> = (0..3).map(rows).collect();
    let all: Vec<&[Vec<f64>]> = all.iter().map(Vec::as_slice).collect();
    let wanted = layout.contexts(&all).unwrap();
    let sum = ckks::PaddedUpload::sum(&small, key, &uploads, &frames[0]).unwrap();
    let off =
        |place: &usize, got: &ckks_secret::Coefficients| (got[*place] - i128::from(wanted[*place])).abs();
    ckks_secret::decrypt_coefficients(&secret, &sum).with(|got| {
        for n in 0..3 {
            let (_, places) = layout.context_places(3, n..n + 1).unwrap().remove(0);
            // Noise of deviation 3.2; pads have 97 bits.
            let near = places.iter().filter(|place| off(place, got) < 32).count();
            assert_eq!(near, if n == 1 { 0 } else { places.len() }, "user {n}");
        }
    });
    let statistics = feedback.added_to_first(&small, key, 0..count, &frames[1]).unwrap();
    let statistics =
        ckks::read_partial_ciphertext(&small, key, level, of_feedback, 0..count, &statistics).unwrap();
    let exact = layout.feedback(1, &rows(5)[1], 0.5).unwrap();
    ckks_secret::decrypt_coefficients(&secret, &statistics).with(|got| {
        assert!((0..count).all(|at| (got[at] - i128::from(exact[at])).abs() < 32));
    });
}

/// A request whose sealing key somebody has replaced on its way is enrolled, and its user does not take it;
/// the fingerprints differ.
#[test]
fn attack_a_sealing_key_that_was_replaced_is_noticed() {
    let owner = owner(own_keys(Exchanging::One));
    let [alice, mallory] = [47, 48].map(|seed| UserSecret::generate(&mut rng(seed)));
    let [mut mixed, of_mallory] =
        [&alice, &mallory].map(|user| serde_json::to_value(user.request()).unwrap());
    mixed["sealing_key"] = of_mallory["sealing_key"].clone();
    let mixed: EnrolmentRequest = serde_json::from_value(mixed).unwrap();
    assert_ne!(mixed.fingerprint(), alice.request().fingerprint());
    let bundle = owner.enrol(&mixed, "alice", [now(), now() + DAY], &mut rng(1)).unwrap();
    assert!(matches!(Device::of_user(alice, bundle), Err(Error::OtherUser)));
}

/// What an owner's raiser makes of a ciphertext of entries that a server of its own choice sends for the user
/// `of`: the coefficients under pads, and the nonce.
fn padded_for(
    raiser: &BanditDevice,
    public: &PublicBundle,
    of: &Enrolment,
    entries: &[f64],
) -> (Vec<u8>, Option<Nonce>) {
    let engine =
        public.decisions.as_ref().map(|ring| (ring.evaluator.params(), &ring.public_key, ring.key_id));
    let (params, public_key, id) = engine.unwrap_or((&public.params, &public.public_key, public.key_id));
    let layout =
        protocol::ScoreLayout::new(&raiser.created().config, &raiser.created().plan, public.scores.ring)
            .answers(params.max_slots());
    let mut slots = vec![Default::default(); params.max_slots()];
    entries.iter().enumerate().for_each(|(arm, entry)| slots[layout.product_slot(arm, 0)] = (*entry).into());
    let message = ckks::Plaintext::encode(params, &slots, protocol::levels::PRODUCTS_LEVEL).unwrap();
    let ciphertext = ckks::encrypt(params, public_key, &message, &mut rng(3));
    let masked = vec![ckks::write_ciphertext(params, id, &ciphertext)];
    let pads = vec![UserPads { enrolment: of.to_bytes(), of: PadsOf::Answer(vec![0]) }];
    let tasks = vec![RaiseTask { id: 1, kind: TaskKind::Answers, masked, pads }];
    let read = raiser.read(&DecideReply { tasks, ..DecideReply::default() }.to_bytes()).unwrap();
    let body = raiser.raise(&read.tasks, None, &mut rng(4)).unwrap();
    let mut raised = Raises::read(&body, raiser.limits()).unwrap().raised;
    let Some((1, Raised::Padded { padded, nonces })) = raised.pop() else { panic!("no answers under pads") };
    (padded, nonces[0])
}

/// A server and a user together have whatever ciphertext they like decrypted, as long as the owner's raiser
/// makes answers for that user; once the owner has removed it, they get nothing. A server alone has nothing
/// but residues under pads.
#[test]
fn attack_server_and_user_together_decrypt_until_the_user_is_removed() {
    let (server, owner) = start(Exchanging::One);
    let created = server.client().create_encrypted(&BanditConfig::new(4, 2)).unwrap();
    let public = PublicBundle::read(&own_keys(Exchanging::One).0[..]).unwrap();
    let secret = UserSecret::generate(&mut rng(50));
    let enrol = |secret: &UserSecret, name: &str| {
        let bundle = owner.enrol(&secret.request(), name, [now(), now() + DAY], &mut rng(1)).unwrap();
        let pads = secret.open_pad_key(&bundle.enrolment, &bundle.sealed).unwrap();
        (bundle.enrolment, pads)
    };
    let (enrolment, pads) = enrol(&secret, "mallory");
    let entries = [0.75, -0.375];

    let device = server.device();
    let raiser = device.join(&created).unwrap();
    let (padded, nonce) = padded_for(&raiser, &public, &enrolment, &entries);
    let seed = pads.seed(Padded::Answer, &created.id, &nonce.unwrap());
    let answers = public.scores.ring.answers(device.rings().decisions.spec()).validate().unwrap();
    let scale = device.rings().decisions.scale(protocol::levels::PRODUCTS_LEVEL);
    let read = ckks::SeededCoefficients::read(&answers, public.scores.key_id, 0, scale, &padded).unwrap();
    let opened = |seed: &[u8; 32]| {
        let mut rng = rng(5);
        let frame = read.flooded_frame(&answers, public.scores.key_id, &[0, 1], 20, &mut rng).unwrap();
        let open = ckks::read_padded(&answers, public.scores.key_id, scale, (seed, &[0, 1]), &frame);
        open.unwrap().into_iter().map(|c| c as f64 / scale).collect::<Vec<_>>()
    };
    for (got, want) in opened(&seed).iter().zip(&entries) {
        assert!((got - want).abs() < 1e-3, "together they read {got} for {want}");
    }
    let (_, of_other) = enrol(&UserSecret::generate(&mut rng(51)), "mallory");
    let others = [
        of_other.seed(Padded::Answer, &created.id, &nonce.unwrap()),
        pads.seed(Padded::Answer, &"0".repeat(32), &nonce.unwrap()),
        pads.seed(Padded::Feedback, &created.id, &nonce.unwrap()),
    ];
    for other in &others {
        assert!(opened(other).iter().zip(&entries).any(|(got, want)| (got - want).abs() > 0.5), "another's");
    }

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("removed.json");
    let mut list = RemovedUsers::default();
    list.remove("mallory", now()).unwrap();
    std::fs::write(&path, list.to_json()).unwrap();
    let device = server.device().without_users(RemovedUsersFile::open(&path).unwrap());
    let raiser = device.join(&created).unwrap();
    let (padded, nonce) = padded_for(&raiser, &public, &enrolment, &entries);
    let read = ckks::SeededCoefficients::read(&answers, public.scores.key_id, 0, scale, &padded).unwrap();
    let frame = read.flooded_frame(&answers, public.scores.key_id, &[0, 1], 20, &mut rng(5)).unwrap();
    let left = ckks::read_padded(&answers, public.scores.key_id, scale, (&seed, &[0, 1]), &frame).unwrap();
    assert!(nonce.is_none() && left.iter().all(|c| (*c as f64 / scale).abs() > 1e-3), "nothing is left");
    // A list that can no longer be read removes everybody.
    std::fs::write(&path, b"{").unwrap();
    let (_, nonce) = padded_for(&raiser, &public, &enrol(&secret, "eve").0, &entries);
    assert!(nonce.is_none());
}

/// Only those decide whom the owner has enrolled, as long as the enrolment holds and until they are removed;
/// who is enrolled again decides again. They do nothing else.
#[test]
fn attack_only_enrolled_users_are_answered() {
    let (server, owner) = start(Exchanging::One);
    let created = server.client().create_encrypted(&BanditConfig::new(4, 2)).unwrap();
    let stop = Stop::default();
    let thread = raiser(&server, &stop);
    let decide = |device: &Device| {
        let bandit = device.join(&created).unwrap();
        bandit.decide(&client(&server, device), &rows(1), &mut rng(6)).map(|played| played.choice.arm)
    };
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        let thread = scope.spawn(move || thread.run());
        let alice = user(&owner, "alice", 60);
        assert!(decide(&alice).is_ok());

        // Another owner's signature, a changed statement, another's token, the past.
        let strange = user(&self::owner(own_keys(Exchanging::Staged)), "alice", 60);
        assert!(strange.join(&created).is_err(), "other keys");
        let send = |header: String, token: &Device| {
            let request = ureq::post(format!("{}/v1/bandits/{}/decisions", server.url(), created.id))
                .config()
                .http_status_as_error(false)
                .build()
                .header("authorization", token.token().authorization().as_str())
                .header("content-type", wire::OCTET_STREAM)
                .header(wire::ENROLMENT_HEADER, header);
            request.send(&[0u8; 9][..]).unwrap().status().as_u16()
        };
        let header = alice.enrolment().unwrap().to_header();
        assert_eq!(send(header.clone(), &alice), 400, "a body that is none");
        assert_eq!(send(strange.enrolment().unwrap().to_header(), &alice), 401);
        let bob = user(&owner, "bob", 61);
        assert_eq!(send(header.clone(), &bob), 401, "another's token");
        for at in [20, header.len() / 2, header.len() - 1] {
            let mut changed = header.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(send(String::from_utf8(changed).unwrap(), &alice), 401, "digit {at}");
        }
        for bad in ["", "0", "zz", &"0".repeat(9000)] {
            assert_eq!(send(bad.into(), &alice), 401, "{bad}");
        }
        let past = enrolled(&owner, "carol", 62, [now() - 2 * DAY, now() - DAY]);
        refused(decide(&past).unwrap_err(), 401, "expired");

        // Who shares the owner's keys gets no answer, and users do nothing but decide and return feedback.
        let of_owner = server.device();
        let own = of_owner.join(&created).unwrap();
        let none = own.decide(&server.client(), &rows(1), &mut rng(7)).map(|played| played.choice.arm);
        refused(none.unwrap_err(), 403, "each with a key of its own");
        let mine = client(&server, &alice);
        refused(mine.create_encrypted(&BanditConfig::new(4, 2)).map(drop).unwrap_err(), 403, "scope");
        refused(mine.raises(&created.id, own.limits(), 0).map(drop).unwrap_err(), 403, "scope");
        refused(mine.post_raises(&created.id, own.limits(), &[]).map(drop).unwrap_err(), 403, "scope");
        let none = alice.join(&created).unwrap().open_counters(&[]).map(drop);
        assert!(none.is_err(), "{none:?}");

        let list = RemovedUsersList::of(&server.file("state"));
        list.remove(["alice"]).unwrap();
        refused(decide(&alice).unwrap_err(), 403, "removed");
        assert!(decide(&bob).is_ok(), "others notice nothing");
        let again = enrolled(&owner, "alice", 63, [now(), now() + DAY]);
        refused(decide(&again).unwrap_err(), 403, "removed");
        let future = enrolled(&owner, "alice", 63, [now() + 2 * CLOCKS, now() + DAY]);
        refused(decide(&future).unwrap_err(), 401, "expired");
        let mut past = RemovedUsers::default();
        past.remove("alice", 1).unwrap();
        host::write_private(&server.file("state").join("removed-users.json"), &past.to_json()).unwrap();
        assert!(decide(&again).is_ok(), "enrolled again");
        std::fs::write(server.file("state").join("removed-users.json"), b"[").unwrap();
        refused(decide(&bob).unwrap_err(), 403, "removed");
        drop(stopping);
        thread.join().unwrap().unwrap();
    });
    // Nobody else answers tasks.
    let (server, owner) = start(Exchanging::One);
    let created = server.client().create_encrypted(&BanditConfig::new(4, 2)).unwrap();
    let dora = user(&owner, "dora", 64);
    let refusal =
        dora.join(&created).unwrap().decide(&client(&server, &dora), &rows(1), &mut rng(6)).map(drop);
    refused(refusal.unwrap_err(), 503, "helba-raiser");
}

/// Tasks that name nobody, a stranger, or a user twice are refused before anything is decrypted, and so are
/// bandits with answers that no user can open.
#[test]
fn attack_tasks_for_strangers_are_refused() {
    let (server, owner) = start(Exchanging::One);
    let created = server.client().create_encrypted(&BanditConfig::new(4, 2)).unwrap();
    let device = server.device();
    let raiser = device.join(&created).unwrap();
    let rings = device.rings();
    let level = protocol::levels::PRODUCTS_LEVEL;
    let zero = ckks::Ciphertext::zero(&rings.decisions, level);
    let frame = ckks::write_ciphertext(&rings.decisions, device.key_id(), &zero);
    let enrolment = user(&owner, "alice", 70).enrolment().unwrap().to_bytes();
    let read = |pads: Vec<UserPads>| {
        let tasks = vec![RaiseTask { id: 1, kind: TaskKind::Answers, masked: vec![frame.clone()], pads }];
        raiser.read(&DecideReply { tasks, ..DecideReply::default() }.to_bytes()).map(drop)
    };
    let of = |users: Vec<u32>, enrolment: &[u8]| UserPads {
        enrolment: enrolment.to_vec(),
        of: PadsOf::Answer(users),
    };
    assert!(read(vec![of(vec![0], &enrolment)]).is_ok());
    assert!(matches!(read(vec![]), Err(Error::BadTask(_))), "nobody");
    let stranger = user(&self::owner(own_keys(Exchanging::Staged)), "alice", 70);
    assert!(read(vec![of(vec![0], &stranger.enrolment().unwrap().to_bytes())]).is_err(), "a stranger");
    assert!(read(vec![of(vec![0], &enrolment[1..])]).is_err(), "no enrolment");
    let twice = vec![of(vec![0], &enrolment), of(vec![0], &enrolment)];
    assert!(matches!(read(twice), Err(Error::BadTask(_))), "twice");
    assert!(matches!(read(vec![of(vec![1 << 20], &enrolment)]), Err(Error::BadTask(_))), "no such user");
    let upload = UserPads { enrolment: enrolment.clone(), of: PadsOf::Feedback { nonce: [1; 32] } };
    assert!(matches!(read(vec![upload.clone()]), Err(Error::BadTask(_))), "the pads of an upload");
    let pads = |pads: Vec<UserPads>| {
        let tasks = vec![RaiseTask { id: 1, kind: TaskKind::Pads, masked: Vec::new(), pads }];
        raiser.read(&DecideReply { tasks, ..DecideReply::default() }.to_bytes()).map(drop)
    };
    assert!(pads(vec![upload]).is_ok());
    assert!(matches!(pads(vec![of(vec![0], &enrolment)]), Err(Error::BadTask(_))), "the pads of an answer");
    assert!(matches!(pads(vec![]), Err(Error::BadTask(_))), "nobody's pads");
    let many = PadsOf::Contexts { decisions: protocol::MOST_DECISIONS as u32, nonce: [1; 32] };
    assert!(pads(vec![UserPads { enrolment: enrolment.clone(), of: many }]).is_err(), "too many decisions");

    let open =
        BanditConfig { answers: protocol::Answers::Scores, open_model: true, ..BanditConfig::new(4, 2) };
    refused(server.client().create_encrypted(&open).unwrap_err(), 400, "users' own");
    // With shared keys no task has a recipient.
    let shared = Server::start_with(keys(), "127.0.0.1:0", Duration::from_secs(3600));
    assert_eq!(shared.create(Default::default()).plan.keys, UserKeys::Shared);
}

/// A user makes its key, is enrolled, decides and returns feedback by the programs, beside the owner's
/// raiser, which makes no answers for it once it is on its list.
#[test]
fn the_programs_play_with_a_key_of_a_users_own() {
    let (server, owner) = start(Exchanging::One);
    let run = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).current_dir(server.file("")).output().unwrap()
    };
    let client = |arguments: &[&str]| {
        let out = run(env!("CARGO_BIN_EXE_helba-client"), arguments);
        let text = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        if out.status.success() { Ok(text) } else { Err(text) }
    };
    client(&["user", "--secret", "alice.secret", "--request", "alice.request"]).unwrap();
    let taken = client(&["user", "--secret", "alice.secret", "--request", "other"]).unwrap_err();
    assert!(taken.contains("alice.secret") && !server.file("other").exists(), "{taken}");
    let request = std::fs::read(server.file("alice.request")).unwrap();
    let request = serde_json::from_slice(&request).unwrap();
    let bundle = owner.enrol(&request, "alice", [now(), now() + DAY], &mut rng(1)).unwrap();
    keygen::create_user_bundle(&server.file("alice.user"), &bundle).unwrap();
    std::fs::write(server.file("c.csv"), "0.5,0.1,0,0.2\n-0.3,0.4,0.2,0\n").unwrap();
    std::fs::write(server.file("removed.json"), "{}").unwrap();
    let created = server.client().create_encrypted(&BanditConfig::new(4, 2)).unwrap();

    let url = server.url();
    let of_raiser = ["--server", &url, "--keys", "secret.bundle", "--toy", "--removed", "removed.json"];
    let mut raiser = Command::new(env!("CARGO_BIN_EXE_helba-raiser"));
    raiser.args(of_raiser).current_dir(server.file("")).stderr(std::process::Stdio::null());
    let raiser = Ended(raiser.spawn().unwrap());
    crate::raiser::eventually("the raiser waits", || server.raisers_waiting(&created.id) > 0);
    let user = ["--secret", "alice.secret", "--user", "alice.user", "--toy"];
    let decide =
        [&["decide", "--server", &url, "--bandit", &created.id, "--contexts", "c.csv"][..], &user].concat();
    let decided = client(&decide).unwrap();
    assert!(decided.starts_with("0\n") || decided.starts_with("1\n"), "{decided}");
    let feedback = [&["feedback", "--pending", "c.pending", "--reward", "1"][..], &user].concat();
    client(&feedback).unwrap();
    assert_eq!(server.client().encrypted(&created.id).unwrap().status.feedbacks, 1);
    let strange = ["--secret", "alice.secret", "--user", "secret.bundle", "--toy"];
    let strange = client(&[&decide[..7], &strange].concat()).unwrap_err();
    assert!(strange.contains("secret.bundle"), "{strange}");

    let mut list = RemovedUsers::default();
    list.remove("alice", now()).unwrap();
    host::write_private(&server.file("removed.json"), &list.to_json()).unwrap();
    let refused = client(&decide).unwrap_err();
    assert!(refused.contains("removed"), "{refused}");
    drop(raiser);
}

/// A process that ends with its test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The owner teaches logged rounds and opens the counters that users' feedback enters; a feedback is erased.
#[test]
fn the_owner_teaches_and_opens_counters() {
    let (server, owner) = start(Exchanging::One);
    let counters = Some(protocol::Counters { every: 10, rho: None });
    let config = BanditConfig { counters, ..BanditConfig::new(4, 2) };
    let created = server.client().create_encrypted(&config).unwrap();
    let of_owner = server.device();
    let owned = of_owner.join(&created).unwrap();
    let alice = user(&owner, "alice", 80);
    let (bandit, mine) = (alice.join(&created).unwrap(), client(&server, &alice));
    let rounds: Vec<(usize, Vec<f64>, f64)> = (0..4).map(|n| (n % 2, context(n as u64), 0.5)).collect();
    let logged: Vec<_> = rounds.iter().map(|(arm, x, reward)| (*arm, &x[..], *reward)).collect();
    let logged = owned.logged(protocol::LearnId([1; 16]), &logged, &mut rng(1)).unwrap();
    assert_eq!(server.client().learn(&created.id, &logged).unwrap().feedbacks, 4);
    let stop = Stop::default();
    let raiser = raiser(&server, &stop);
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        let thread = scope.spawn(move || raiser.run());
        let mut pulls = [2.0, 2.0];
        let mut last = None;
        for round in 0..6 {
            let rows = rows(round);
            let choice = bandit.decide(&mine, &rows, &mut rng(round)).unwrap().choice;
            let feedback = bandit.feedback(choice.arm, &rows[choice.arm], 0.5, None, &mut rng(9)).unwrap();
            mine.feedback_encrypted(&created.id, choice.id, &feedback).unwrap();
            pulls[choice.arm] += 1.0;
            last = Some(choice.id);
        }
        let shown = server.client().counters(&created.id, owned.limits()).unwrap();
        let opened = owned.open_counters(&shown).unwrap();
        let got: Vec<f64> = opened.arms.iter().map(|arm| arm.pulls).collect();
        assert_eq!((opened.feedbacks, &got[..]), (10, &pulls[..]));
        assert!((opened.total().reward - 5.0).abs() < 0.1, "{}", opened.total().reward);
        assert!(matches!(bandit.open_counters(&shown), Err(Error::NoSecretKeys)), "a user opens none");
        mine.erase_feedback(&created.id, last.unwrap()).unwrap();
        drop(stopping);
        thread.join().unwrap().unwrap();
    });
}
