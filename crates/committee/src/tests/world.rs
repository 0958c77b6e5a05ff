//! Committees whose members compute beside each other. What they send passes through hooks, in which tests
//! lie.

use crate::decide::{Inputs, decide};
use crate::learn::{Feedback, State, initial, learn};
use crate::prepare::{Batch, Identity, Stock, prepare, prepare_unchecked};
use crate::scalars::{Decide, Learn};
use crate::{Ask, CircuitId, Conversation, Error, Lane, MemberKeys, Next, Part, Plan, Reply, Run, Slot};
use bandit::LinearConfig;
use envelope::SigningSecret;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use shares::preparation::{PREPARED, Statement};
use shares::{Field, Key, Kind, Label, Pads, Record, Row, Sharing, Threshold};
use std::sync::Arc;

/// What a member sends in a step, which a test may change: the step from 0 on, the member, and the message.
pub(crate) type Sends<'a> = &'a mut dyn FnMut(usize, u8, &mut Ask);
/// What a member is given: the step, the member, and the reply.
pub(crate) type Gets<'a> = &'a mut dyn FnMut(usize, u8, &mut Reply);
/// What a member shows online: the round from 0 on, the member, and its numbers.
pub(crate) type Shows<'a> = &'a mut dyn FnMut(usize, u8, &mut Vec<Field>);

pub(crate) struct World {
    pub(crate) sharing: Arc<Sharing>,
    pub(crate) members: Vec<Arc<MemberKeys>>,
    identities: Vec<Arc<Identity>>,
    /// Whether slots are checked: a control switches it off.
    pub(crate) checks: std::cell::Cell<bool>,
    pub(crate) subset_keys: Vec<[u8; 32]>,
    batches: std::cell::Cell<u64>,
    /// How many numbers a member has sent, and in how many rounds: prepared and online.
    pub(crate) sent: std::cell::Cell<[usize; 4]>,
}

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn key(rng: &mut ChaCha20Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// The keys of all members, from those of subsets and of pairs, whose lower number comes first.
pub(crate) fn keys_of(
    sharing: &Arc<Sharing>,
    subsets: &[[u8; 32]],
    pair: impl Fn(u8, u8) -> [u8; 32],
) -> Vec<Arc<MemberKeys>> {
    let members = 1..=sharing.threshold().members();
    let own = |member: u8| {
        let of = sharing.subsets().iter().enumerate().filter(|(_, subset)| subset.has(member));
        let subsets = of.map(|(at, _)| (at, Key::new(subsets[at]))).collect();
        let others = members.clone().filter(|other| *other != member);
        let pairs = others.map(|other| (other, Key::new(pair(member.min(other), member.max(other)))));
        Arc::new(MemberKeys::new(member, sharing.clone(), subsets, pairs.collect()).unwrap())
    };
    members.clone().map(own).collect()
}

impl World {
    pub(crate) fn new(t: u8, n: u8) -> Self {
        let mut rng = rng(u64::from(t) * 100 + u64::from(n));
        let sharing = Arc::new(Sharing::new(Threshold::new(t, n).unwrap()));
        let subsets: Vec<[u8; 32]> = sharing.subsets().iter().map(|_| key(&mut rng)).collect();
        let pairs: Vec<Vec<[u8; 32]>> = (0..=n).map(|_| (0..=n).map(|_| key(&mut rng)).collect()).collect();
        let signing: Vec<SigningSecret> = (0..n).map(|_| SigningSecret::generate(&mut rng)).collect();
        let publics: Vec<Vec<u8>> = signing.iter().map(SigningSecret::public).collect();
        let identity = |signing| Arc::new(Identity { signing, members: publics.clone() });
        World {
            members: keys_of(&sharing, &subsets, |a, b| pairs[usize::from(a)][usize::from(b)]),
            identities: signing.into_iter().map(identity).collect(),
            sharing: sharing.clone(),
            checks: std::cell::Cell::new(true),
            subset_keys: subsets.clone(),
            batches: Default::default(),
            sent: Default::default(),
        }
    }

    pub(crate) fn all(&self) -> Vec<u8> {
        (1..=self.sharing.threshold().members()).collect()
    }

    /// 2t − 1 of the members.
    pub(crate) fn few(&self) -> Vec<u8> {
        self.all().into_iter().take(self.sharing.threshold().needed()).collect()
    }

    pub(crate) fn member(&self, member: u8) -> &Arc<MemberKeys> {
        &self.members[usize::from(member) - 1]
    }

    /// The label of the next batch of slots.
    pub(crate) fn batch(&self, circuit: CircuitId, set: &[u8], slots: u32) -> Batch {
        self.batches.set(self.batches.get() + 1);
        let stock = |member: &u8| Stock::new(self.member(*member), [1; 32], &mut rng(u64::from(*member)));
        let mut stocks: Vec<Stock> = set.iter().map(stock).collect();
        let nonces: Vec<[u8; 32]> = stocks.iter().map(Stock::nonce).collect();
        stocks[0].batch(circuit, set, &nonces, self.batches.get(), slots).unwrap()
    }

    /// Prepares a batch of slots.
    pub(crate) fn prepare(
        &self,
        batch: Batch,
        set: &[u8],
        circuit: impl Fn(&mut Plan) -> Result<(), Error> + Send + Sync + 'static,
        sends: Sends,
        gets: Gets,
    ) -> Vec<Result<Vec<Slot>, Error>> {
        let circuit = Arc::new(circuit);
        let begin = |member: &u8| {
            let (keys, identity) =
                (self.member(*member).clone(), self.identities[usize::from(*member) - 1].clone());
            let (batch, circuit) = (batch.clone(), circuit.clone());
            let walk = move |plan: &mut Plan| circuit(plan);
            match self.checks.get() {
                true => Conversation::new(move |port| prepare(keys, identity, batch, walk, port)),
                false => Conversation::new(move |port| prepare_unchecked(keys, batch, walk, port)),
            }
        };
        let mut talks: Vec<_> = set.iter().map(begin).collect();
        let mut results: Vec<Option<Result<Vec<Slot>, Error>>> = set.iter().map(|_| None).collect();
        let mut replies: Vec<Option<Reply>> = vec![None; set.len()];
        for step in 0.. {
            let mut asked: Vec<Option<Ask>> = vec![];
            for (at, talk) in talks.iter_mut().enumerate() {
                asked.push(match results[at] {
                    Some(_) => None,
                    None => match talk.next(replies[at].take()) {
                        Next::Done(result) => {
                            results[at] = Some(result.map(|prepared| prepared.slots));
                            None
                        }
                        Next::Ask(mut ask) => {
                            sends(step, set[at], &mut ask);
                            Some(ask)
                        }
                    },
                });
            }
            if asked.iter().all(Option::is_none) {
                break;
            }
            let mut sent = self.sent.get();
            sent[1] += 1;
            if let Some(Some(Ask::Sum(Some(numbers)) | Ask::Show(numbers))) = asked.first() {
                sent[0] += numbers.len();
            }
            self.sent.set(sent);
            for (at, reply) in replies.iter_mut().enumerate() {
                let Some(ask) = &asked[at] else { continue };
                let mut given = self.answer(&batch, set, ask, &asked);
                gets(step, set[at], &mut given);
                *reply = Some(given);
            }
        }
        results.into_iter().map(Option::unwrap).collect()
    }

    /// What the server hands on.
    fn answer(&self, batch: &Batch, set: &[u8], ask: &Ask, asked: &[Option<Ask>]) -> Reply {
        match ask {
            Ask::Sum(_) => {
                let numbers: Vec<&Vec<Field>> = asked
                    .iter()
                    .filter_map(|ask| match ask {
                        Some(Ask::Sum(Some(numbers))) => Some(numbers),
                        _ => None,
                    })
                    .collect();
                let count = numbers.iter().map(|numbers| numbers.len()).max().unwrap();
                let sum = |i| numbers.iter().filter_map(|numbers| numbers.get(i).copied()).sum();
                Reply::Numbers((0..count).map(sum).collect())
            }
            Ask::Show(_) => {
                let shown = |(member, ask): (&u8, &Option<Ask>)| match ask {
                    Some(Ask::Show(numbers)) => Some((*member, numbers.clone())),
                    _ => None,
                };
                Reply::Shown(set.iter().zip(asked).filter_map(shown).collect())
            }
            Ask::Sign(_) => {
                let signs = |(member, ask): (&u8, &Option<Ask>)| match ask {
                    Some(Ask::Sign(statement)) => {
                        let signature = self.sign(*member, batch.label(), statement);
                        Some((*member, statement.clone(), signature))
                    }
                    _ => None,
                };
                Reply::Signed(set.iter().zip(asked).filter_map(signs).collect())
            }
            Ask::Open(_) => {
                let opens = asked.iter().filter_map(|ask| match ask {
                    Some(Ask::Open(seeds)) => Some(seeds.clone()),
                    _ => None,
                });
                Reply::Opened(opens.flatten().collect())
            }
        }
    }

    pub(crate) fn sign(&self, member: u8, batch: &Label, statement: &Statement) -> Vec<u8> {
        let identity = &self.identities[usize::from(member) - 1];
        identity.signing.sign(PREPARED, &statement.signed(batch)).to_vec()
    }

    /// Runs lanes among the members `here`; each gives its own.
    pub(crate) fn run<T>(
        &self,
        here: &[u8],
        lanes: impl Fn(u8) -> Vec<Conversation<T>>,
        shows: Shows,
    ) -> Result<Vec<Ran<T>>, Error> {
        let mut runs: Vec<Run<T>> = here
            .iter()
            .map(|member| {
                let part = |computation| Part { computation, members: here.to_vec() };
                Run::new(self.member(*member), here, &[], lanes(*member).into_iter().map(part).collect())
            })
            .collect::<Result<_, _>>()?;
        let mut shown: Vec<Vec<Field>> = runs.iter_mut().map(Run::start).collect();
        for round in 0.. {
            if shown.iter().all(Vec::is_empty) {
                break;
            }
            let mut sent = self.sent.get();
            (sent[2], sent[3]) = (sent[2] + shown[0].len(), sent[3] + 1);
            self.sent.set(sent);
            shown.iter_mut().zip(here).for_each(|(numbers, member)| shows(round, *member, numbers));
            let all: Vec<(u8, &[Field])> =
                here.iter().copied().zip(shown.iter().map(Vec::as_slice)).collect();
            let next: Result<Vec<_>, Error> = runs.iter_mut().map(|run| run.go_on(&all)).collect();
            shown = next?;
        }
        let ran = |run: Run<T>| Ran {
            liars: run.liars().to_vec(),
            results: run.into_results().into_iter().map(Option::unwrap).collect(),
        };
        Ok(runs.into_iter().map(ran).collect())
    }

    /// The number of which each member has a share.
    pub(crate) fn open(&self, here: &[u8], shares: &[Field]) -> Field {
        let shares: Vec<(u8, Field)> = here.iter().copied().zip(shares.iter().copied()).collect();
        self.sharing.open(&shares).unwrap().value
    }
}

/// What a run has left with a member.
pub(crate) struct Ran<T> {
    pub(crate) liars: Vec<u8>,
    pub(crate) results: Vec<Result<T, Error>>,
}

/// A device with a session: a key for each subset.
pub(crate) struct Device {
    pub(crate) keys: Vec<[u8; 32]>,
    pub(crate) pads: Pads,
    nonce: u64,
}

/// What a device has sent: numbers under a label.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) label: Label,
    pub(crate) sent: Vec<Vec<u64>>,
}

impl Device {
    pub(crate) fn new(world: &World, features: usize, seed: u64) -> Self {
        let mut rng = rng(seed);
        Device {
            keys: world.sharing.subsets().iter().map(|_| key(&mut rng)).collect(),
            pads: Pads::new(&world.sharing, features).unwrap(),
            nonce: seed << 32,
        }
    }

    /// Sends rows of numbers under pads.
    pub(crate) fn send(&mut self, kind: Kind, rows: &[Vec<i64>]) -> Request {
        self.nonce += 1;
        let keys: Vec<Key> = self.keys.iter().map(|key| Key::new(*key)).collect();
        let label = Label::new(kind, &[&self.nonce.to_le_bytes()]);
        let flat: Vec<i64> = rows.concat();
        let hidden = self.pads.hide(&keys, &label, &flat).unwrap();
        let mut hidden = hidden.into_iter();
        let sent = rows.iter().map(|row| hidden.by_ref().take(row.len()).collect()).collect();
        Request { label, sent }
    }

    /// What a member makes of it.
    pub(crate) fn read(
        &self,
        world: &World,
        member: u8,
        request: &Request,
    ) -> Result<Vec<Vec<Field>>, shares::Error> {
        let own = world.sharing.subsets().iter().enumerate().filter(|(_, subset)| subset.has(member));
        let keys: Vec<(usize, Key)> = own.map(|(at, _)| (at, Key::new(self.keys[at]))).collect();
        let flat: Vec<u64> = request.sent.concat();
        let shares = self.pads.shares(&world.sharing, member, &keys, &request.label, &flat)?;
        let mut shares = shares.into_iter();
        Ok(request.sent.iter().map(|row| shares.by_ref().take(row.len()).collect()).collect())
    }
}

/// A bandit of a committee: what is public of it.
pub(crate) struct Bandit<'a> {
    pub(crate) world: &'a World,
    pub(crate) config: LinearConfig,
    pub(crate) state: StateRecord,
    pub(crate) feedbacks: u64,
    pub(crate) residual: u64,
}

#[derive(Clone)]
pub(crate) enum StateRecord {
    Initial,
    Record(Record),
}

/// What a decision gives: the arm, the record of the row, and the indices.
pub(crate) struct Played {
    pub(crate) arm: usize,
    pub(crate) row: Record,
    pub(crate) indices: Vec<f64>,
    pub(crate) liars: Vec<u8>,
}

/// The shares that a member has after a decision, and the record.
pub(crate) type Shared = (Vec<Field>, Record);

impl<'a> Bandit<'a> {
    pub(crate) fn new(world: &'a World, config: LinearConfig) -> Self {
        Bandit { world, config, state: StateRecord::Initial, feedbacks: 0, residual: 0 }
    }

    pub(crate) fn scalars(&self, tie: u64) -> Decide {
        Decide::new(&self.config, &self.world.sharing, self.feedbacks + 1, self.feedbacks, tie).unwrap()
    }

    /// A member's shares of the state.
    pub(crate) fn shares(&self, member: u8) -> State<Field> {
        match &self.state {
            StateRecord::Initial => {
                initial(&Learn::new(&self.config, &self.world.sharing, (0, 0), (0, 0)).unwrap())
            }
            StateRecord::Record(record) => {
                let shares = self.world.member(member).record(record);
                State::from_numbers(self.config.d, 0, &shares).unwrap()
            }
        }
    }

    /// The state itself.
    pub(crate) fn opened(&self) -> State<Field> {
        let here = self.world.all();
        let of: Vec<Vec<Field>> = here
            .iter()
            .map(|member| {
                let s = self.shares(*member);
                [s.design, s.moment, s.inverse, s.scaled, s.estimate].concat()
            })
            .collect();
        let number = |i: usize| {
            let shares: Vec<Field> = of.iter().map(|shares| shares[i]).collect();
            self.world.open(&here, &shares)
        };
        let numbers: Vec<Field> = (0..of[0].len()).map(number).collect();
        State::from_numbers(self.config.d, 0, &numbers).unwrap()
    }

    /// Prepares slots for decisions; each member's, or why there are none.
    pub(crate) fn slots(&self, set: &[u8], scalars: &Decide, slots: u32) -> Vec<Vec<Slot>> {
        let batch = self.world.batch(scalars.circuit(), set, slots);
        let circuit = decide_circuit(scalars.clone());
        let prepared = self.world.prepare(batch, set, circuit, &mut |_, _, _| {}, &mut |_, _, _| {});
        prepared.into_iter().map(Result::unwrap).collect()
    }

    /// Decides for requests in one pack, with slots of the members `here`.
    pub(crate) fn decide_with(
        &self,
        here: &[u8],
        scalars: &Decide,
        slots: Vec<Vec<Slot>>,
        requests: &[Vec<Vec<Vec<Field>>>],
        shows: Shows,
    ) -> Result<Vec<Result<Played, Error>>, Error> {
        let count = slots[0].len();
        let slots = std::cell::RefCell::new(slots);
        let lanes = |member: u8| {
            let at = here.iter().position(|other| *other == member).unwrap();
            let state = self.shares(member);
            let own = std::mem::take(&mut slots.borrow_mut()[at]);
            let lane = |(slot, rows): (Slot, &Vec<Vec<Field>>)| {
                let (keys, scalars) = (self.world.member(member).clone(), scalars.clone());
                let inputs = Inputs {
                    inverse: state.scaled.clone(),
                    estimate: state.estimate.clone(),
                    rows: rows.clone(),
                };
                Conversation::new(move |port| async move {
                    let mut lane = Lane::new(&keys, slot, scalars.circuit(), port)?;
                    let decided = decide(&mut lane, &scalars, inputs).await?;
                    Ok::<Shared, Error>(([vec![decided.arm], decided.indices].concat(), lane.into_record()))
                })
            };
            own.into_iter().zip(&requests[at]).map(lane).collect()
        };
        let ran = self.world.run(here, lanes, shows)?;
        let unit = (1u64 << scalars.index_bits) as f64;
        let result = |at: usize| {
            let mut shares = vec![];
            let mut row = None;
            for member in &ran {
                let (own, record) = member.results[at].as_ref().map_err(Clone::clone)?;
                shares.push(own.clone());
                assert!(row.as_ref().is_none_or(|row| row == record), "members have one record");
                row = Some(record.clone());
            }
            let open = |i: usize| {
                let of: Vec<Field> = shares.iter().map(|own| own[i]).collect();
                self.world.open(here, &of)
            };
            Ok(Played {
                arm: open(0).get() as usize,
                row: row.unwrap(),
                indices: (1..shares[0].len()).map(|i| open(i).signed() as f64 / unit).collect(),
                liars: ran[0].liars.clone(),
            })
        };
        Ok((0..count).map(result).collect())
    }

    /// Decides for rows of one device.
    pub(crate) fn decide(&self, device: &mut Device, rows: &[Vec<Vec<f64>>], tie: u64) -> Vec<Played> {
        let here = self.world.all();
        let scalars = self.scalars(tie);
        let slots = self.slots(&here, &scalars, rows.len() as u32);
        let mut rng = rng(tie + 7);
        let requests: Vec<Request> = rows
            .iter()
            .map(|rows| {
                let row = |row: &Vec<f64>| Row::new(row, &mut rng).unwrap().numbers().to_vec();
                let rows: Vec<Vec<i64>> = rows.iter().map(row).collect();
                device.send(Kind::Request, &rows)
            })
            .collect();
        let read = |member: &u8| {
            let one = |request: &Request| device.read(self.world, *member, request).unwrap();
            requests.iter().map(one).collect()
        };
        let requests: Vec<Vec<Vec<Vec<Field>>>> = here.iter().map(read).collect();
        let played = self.decide_with(&here, &scalars, slots, &requests, &mut |_, _, _| {}).unwrap();
        played.into_iter().map(Result::unwrap).collect()
    }

    /// Learns rewards of rows; the numbers of each reward as a device sends them.
    pub(crate) fn learn(
        &mut self,
        device: &mut Device,
        batch: &[(&Record, Vec<i64>, bool)],
    ) -> Result<(), Error> {
        let here = self.world.all();
        let erased = batch.iter().filter(|(.., erased)| *erased).count() as u64;
        let added = batch.len() as u64 - erased;
        let before = (self.feedbacks, self.residual);
        let scalars = Learn::new(&self.config, &self.world.sharing, before, (added, erased))?;
        let erases: Vec<bool> = batch.iter().map(|(.., erased)| *erased).collect();
        let circuit = scalars.circuit(&erases);
        let (of_plan, of_plan_erases) = (scalars.clone(), erases.clone());
        let walked = move |plan: &mut Plan| crate::learn::plan(plan, &of_plan, &of_plan_erases);
        let slots = self.world.prepare(
            self.world.batch(circuit, &here, 1),
            &here,
            walked,
            &mut |_, _, _| {},
            &mut |_, _, _| {},
        );
        let slots: Vec<Vec<Slot>> = slots.into_iter().map(Result::unwrap).collect();
        let slots = std::cell::RefCell::new(slots);
        let rewards: Vec<Request> = batch
            .iter()
            .map(|(_, reward, _)| device.send(Kind::Feedback, std::slice::from_ref(reward)))
            .collect();
        let lanes = |member: u8| {
            let at = here.iter().position(|other| *other == member).unwrap();
            let slot = slots.borrow_mut()[at].pop().unwrap();
            let (keys, scalars, state) =
                (self.world.member(member).clone(), scalars.clone(), self.shares(member));
            let read = |i: usize| device.read(self.world, member, &rewards[i]).unwrap().remove(0);
            let feedback = |(i, (row, ..)): (usize, &(&Record, Vec<i64>, bool))| Feedback {
                row: keys.record(row),
                reward: read(i)[0],
                squares: (!erases[i]).then(|| [1, 2, 3].map(|at| read(i)[at])),
            };
            let batch: Vec<Feedback<Field>> = batch.iter().enumerate().map(feedback).collect();
            vec![Conversation::new(move |port| async move {
                let mut lane = Lane::new(&keys, slot, circuit, port)?;
                learn(&mut lane, &scalars, state, batch).await?;
                Ok(lane.into_record())
            })]
        };
        let mut ran = self.world.run(&here, lanes, &mut |_, _, _| {})?;
        let record = ran.remove(0).results.remove(0)?;
        self.state = StateRecord::Record(record);
        (self.feedbacks, self.residual) = (scalars.feedbacks, scalars.residual);
        Ok(())
    }
}

/// The circuit of a decision, for a walk without inputs.
pub(crate) fn decide_circuit(scalars: Decide) -> impl Fn(&mut Plan) -> Result<(), Error> + Send + Sync {
    move |plan| crate::decide::plan(plan, &scalars)
}

/// A configuration with rows of at most 1 and λ = 1.
pub(crate) fn config(d: usize, k: usize) -> LinearConfig {
    LinearConfig {
        d,
        k,
        l: 1.0,
        lambda: 1.0,
        width: bandit::WidthShape::Tangent.width(0.5),
        schedule: bandit::Schedule::Every { rounds: 16 },
        ..LinearConfig::figure_1()
    }
}

/// Rows of norms between ½ and 1, and the best arm under a hidden parameter.
pub(crate) fn made_up(rounds: usize, d: usize, k: usize, seed: u64) -> Vec<(Vec<Vec<f64>>, usize)> {
    let mut rng = rng(seed);
    let mut draw = move || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let mut unit = move |length: f64| {
        let x: Vec<f64> = (0..d).map(|_| (0..12).map(|_| draw()).sum::<f64>() - 6.0).collect();
        let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        x.into_iter().map(|x| x / norm * length).collect::<Vec<f64>>()
    };
    let theta = unit(1.0);
    let best = |rows: &Vec<Vec<f64>>| {
        let value = |row: &Vec<f64>| row.iter().zip(&theta).map(|(x, y)| x * y).sum::<f64>();
        (0..k).max_by(|a, b| value(&rows[*a]).total_cmp(&value(&rows[*b]))).unwrap()
    };
    (0..rounds)
        .map(|i| {
            let rows: Vec<Vec<f64>> = (0..k).map(|a| unit(0.5 + 0.49 * ((i + a) % 7) as f64 / 6.0)).collect();
            let best = best(&rows);
            (rows, best)
        })
        .collect()
}

/// A reward as a device sends it.
pub(crate) fn reward(value: f64, seed: u64) -> Vec<i64> {
    Row::new(&[value], &mut rng(seed)).unwrap().numbers().to_vec()
}
