//! What a member of a committee computes: products of the field, pads of a device, slots of decisions with
//! their part of the check, and decisions on them. All members are in one process, and the time of one is
//! that of all by their number.

use bandit::{LinearConfig, WidthShape};
use committee::decide::{self, Inputs};
use committee::learn::{State, initial};
use committee::prepare::{Identity, Stock, prepare};
use committee::scalars::{Decide, Learn};
use committee::{Ask, Conversation, Lane, MemberKeys, Next, Part, Plan, Reply, Run, Slot};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use envelope::SigningSecret;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use shares::preparation::PREPARED;
use shares::{Field, Key, Kind, Label, Pads, Row, Sharing, Threshold};
use std::hint::black_box;
use std::sync::Arc;

/// The members of a committee, with keys from a seed.
struct World {
    sharing: Arc<Sharing>,
    members: Vec<Arc<MemberKeys>>,
    identities: Vec<Arc<Identity>>,
    stocks: Vec<Stock>,
    batches: u64,
}

impl World {
    fn new(t: u8, n: u8) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let sharing = Arc::new(Sharing::new(Threshold::new(t, n).expect("a committee")));
        let key = |bytes: [u8; 4]| Key::new([bytes; 8].concat().try_into().expect("32 bytes"));
        let signing: Vec<SigningSecret> = (0..n).map(|_| SigningSecret::generate(&mut rng)).collect();
        let public: Vec<Vec<u8>> = signing.iter().map(SigningSecret::public).collect();
        let own = |member: u8| {
            let subsets = sharing.subsets().iter().enumerate().filter(|(_, subset)| subset.has(member));
            let subsets = subsets.map(|(at, _)| (at, key([1, at as u8, 0, 0]))).collect();
            let pair = |other: u8| (other, key([2, member.min(other), member.max(other), 0]));
            let pairs = (1..=n).filter(|other| *other != member).map(pair).collect();
            Arc::new(MemberKeys::new(member, sharing.clone(), subsets, pairs).expect("whole keys"))
        };
        let members: Vec<Arc<MemberKeys>> = (1..=n).map(own).collect();
        World {
            stocks: members.iter().map(|keys| Stock::new(keys, [0; 32], &mut rng)).collect(),
            members,
            identities: signing
                .into_iter()
                .map(|signing| Arc::new(Identity { signing, members: public.clone() }))
                .collect(),
            sharing: sharing.clone(),
            batches: 0,
        }
    }

    fn slots(&mut self, scalars: &Decide, count: u32) -> Vec<Vec<Slot>> {
        self.batches += 1;
        let set: Vec<u8> = (1..=self.members.len() as u8).collect();
        let nonces: Vec<[u8; 32]> = self.stocks.iter().map(Stock::nonce).collect();
        let mut talks = vec![];
        let mut label = None;
        for ((keys, identity), stock) in self.members.iter().zip(&self.identities).zip(&mut self.stocks) {
            let (keys, identity, scalars) = (keys.clone(), identity.clone(), scalars.clone());
            let batch = stock.batch(scalars.circuit(), &set, &nonces, self.batches, count).expect("a batch");
            label = Some(*batch.label());
            let circuit = move |plan: &mut Plan| decide::plan(plan, &scalars);
            talks.push(Conversation::new(move |port| prepare(keys, identity, batch, circuit, port)));
        }
        let label = label.expect("members");
        let mut replies: Vec<Option<Reply>> = talks.iter().map(|_| None).collect();
        loop {
            let next = talks.iter_mut().zip(&mut replies).map(|(talk, reply)| talk.next(reply.take()));
            let mut asked = vec![];
            let mut done = vec![];
            for next in next {
                match next {
                    Next::Ask(ask) => asked.push(ask),
                    Next::Done(made) => done.push(made.expect("slots").slots),
                }
            }
            if !done.is_empty() {
                return done;
            }
            for (at, reply) in replies.iter_mut().enumerate() {
                *reply = Some(self.answer(&label, at, &asked));
            }
        }
    }

    fn answer(&self, batch: &Label, at: usize, asked: &[Ask]) -> Reply {
        match &asked[at] {
            Ask::Sum(_) => {
                let mut numbers = asked.iter().filter_map(|ask| match ask {
                    Ask::Sum(Some(numbers)) => Some(numbers.clone()),
                    _ => None,
                });
                let mut sum = numbers.next().expect("numbers");
                numbers.for_each(|of| sum.iter_mut().zip(of).for_each(|(sum, number)| *sum += number));
                Reply::Numbers(sum)
            }
            Ask::Show(_) => Reply::Shown(
                (1..)
                    .zip(asked)
                    .filter_map(|(member, ask)| match ask {
                        Ask::Show(numbers) => Some((member, numbers.clone())),
                        _ => None,
                    })
                    .collect(),
            ),
            Ask::Sign(_) => Reply::Signed(
                (1..)
                    .zip(asked)
                    .zip(&self.identities)
                    .filter_map(|((member, ask), identity)| match ask {
                        Ask::Sign(statement) => {
                            let signature = identity.signing.sign(PREPARED, &statement.signed(batch));
                            Some((member, statement.clone(), signature.to_vec()))
                        }
                        _ => None,
                    })
                    .collect(),
            ),
            Ask::Open(_) => Reply::Opened(vec![]),
        }
    }

    /// Decides for as many requests as there are slots.
    fn decide(
        &self,
        scalars: &Decide,
        state: &State<Field>,
        rows: &[Vec<Vec<Field>>],
        slots: Vec<Vec<Slot>>,
    ) {
        let here: Vec<u8> = (1..=self.members.len() as u8).collect();
        let mut runs: Vec<Run<Field>> = self
            .members
            .iter()
            .zip(slots)
            .zip(rows)
            .map(|((keys, slots), rows)| {
                let lane = |slot: Slot| {
                    let (keys, scalars) = (keys.clone(), scalars.clone());
                    let inputs = Inputs {
                        inverse: state.scaled.clone(),
                        estimate: state.estimate.clone(),
                        rows: rows.clone(),
                    };
                    Conversation::new(move |port| async move {
                        let mut lane = Lane::new(&keys, slot, scalars.circuit(), port)?;
                        decide::decide(&mut lane, &scalars, inputs).await.map(|decided| decided.arm)
                    })
                };
                let part = |slot| Part { computation: lane(slot), members: here.clone() };
                Run::new(keys, &here, &[], slots.into_iter().map(part).collect()).expect("members")
            })
            .collect();
        let mut shown: Vec<Vec<Field>> = runs.iter_mut().map(Run::start).collect();
        while !shown[0].is_empty() {
            let all: Vec<(u8, &[Field])> =
                here.iter().copied().zip(shown.iter().map(Vec::as_slice)).collect();
            shown = runs.iter_mut().map(|run| run.go_on(&all).expect("honest shares")).collect();
        }
        for run in runs {
            assert!(run.into_results().iter().all(|result| matches!(result, Some(Ok(_)))));
        }
    }
}

fn config(d: usize, k: usize) -> LinearConfig {
    let width = WidthShape::Tangent.width(0.5);
    LinearConfig { d, k, l: 1.0, lambda: 1.0, width, ..LinearConfig::figure_1() }
}

fn field(c: &mut Criterion) {
    let mut group = c.benchmark_group("committee/field");
    let key = Key::new([7; 32]);
    let mut numbers = key.stream(&Label::new(Kind::Mask, &[]));
    let (mut x, y) = (numbers.field(), numbers.field());
    group.throughput(Throughput::Elements(1));
    group.bench_function("product", |b| {
        b.iter(|| {
            x = x * black_box(y);
            x
        });
    });
    group.bench_function("mask", |b| b.iter(|| numbers.field()));
    group.finish();
}

fn pads(c: &mut Criterion) {
    let mut group = c.benchmark_group("committee/pads");
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    for (t, n) in [(2, 3), (3, 7)] {
        let sharing = Sharing::new(Threshold::new(t, n).expect("a committee"));
        let pads = Pads::new(&sharing, 7).expect("features");
        let keys: Vec<Key> = (0..sharing.subsets().len() as u8).map(|i| Key::new([i; 32])).collect();
        let label = Label::new(Kind::Request, &[]);
        group.bench_function(BenchmarkId::new("device", format!("{t}-of-{n}")), |b| {
            b.iter(|| {
                let rows = (0..4).map(|_| Row::new(&[0.3; 7], &mut rng).expect("a row"));
                let numbers: Vec<i64> = rows.flat_map(|row| row.numbers().to_vec()).collect();
                pads.hide(&keys, &label, &numbers)
            });
        });
    }
    group.finish();
}

fn decisions(c: &mut Criterion) {
    for (d, k) in [(2, 2), (7, 4), (16, 16)] {
        for (t, n) in [(2, 3), (2, 4), (3, 7)] {
            let mut world = World::new(t, n);
            let config = config(d, k);
            let scalars = Decide::new(&config, &world.sharing, 1, 0, 0).expect("numbers");
            let start = Learn::new(&config, &world.sharing, (0, 0), (0, 0)).expect("numbers");
            let state = initial(&start);
            let mut rng = ChaCha20Rng::seed_from_u64(3);
            let row = |_| {
                let row = Row::new(&vec![0.2; d], &mut rng).expect("a row");
                row.numbers().iter().map(|x| Field::from_signed((*x).into())).collect()
            };
            // The same shares for all: numbers that everybody knows.
            let rows: Vec<Vec<Field>> = (0..k).map(row).collect();
            let rows = vec![rows; usize::from(n)];
            let mut group = c.benchmark_group(format!("committee/{t}-of-{n}/d={d},k={k}"));
            group.sample_size(10).throughput(Throughput::Elements(32 * u64::from(n)));
            group.bench_function("prepare/32", |b| b.iter(|| world.slots(&scalars, 32)));
            let of_decisions = World::new(t, n);
            group.bench_function("decide/32", |b| {
                b.iter_batched(
                    || world.slots(&scalars, 32),
                    |slots| of_decisions.decide(&scalars, &state, &rows, slots),
                    BatchSize::PerIteration,
                );
            });
            group.finish();
        }
    }
}

criterion_group!(benches, field, pads, decisions);
criterion_main!(benches);
