//! Slots are prepared with others.

use super::learning::erases;
use super::{MOST_LEARNT, MOST_RUNS, Member, Memory, Running, Stocked, refused};
use crate::prepare::{MOST_SEEDS, Prepared, prepare};
use crate::scalars::{Decide, Learn};
use crate::{Ask, CircuitId, Conversation, Error, MemberKeys, Next, Plan, Reply, learn};
use shares::preparation::{PREPARED, Statement, Word};
use shares::talk::{
    FromMember, MOST_PRODUCTS, Prepare, Purpose, RunId, from_bytes, products_of_a_decision, to_bytes,
};
use shares::{Field, Label, Message};

/// Walks through a circuit without inputs.
type Circuit = Box<dyn Fn(&mut Plan) -> Result<(), Error> + Send + Sync>;

pub(super) struct Preparing {
    batch: Label,
    set: Vec<u8>,
    circuit: CircuitId,
    step: u32,
    asked: Asked,
    conversation: Conversation<Prepared>,
}

/// What a preparation waits for.
pub(super) enum Asked {
    Sum,
    Show(Vec<Field>),
    Sign(Statement, Vec<u8>),
    Open(Vec<[u8; 32]>),
}

impl<M: Memory> Member<M> {
    pub(super) fn prepare(&mut self, asked: Prepare) -> Result<Vec<FromMember>, Error> {
        if matches!(asked.purpose, Purpose::Decide { .. }) {
            self.stays()?;
        }
        let bandit = self.bandits.get(&asked.bandit).ok_or(Error::Refused("the bandit is not known"))?;
        if self.runs.len() >= MOST_RUNS || self.batches.len() >= MOST_RUNS {
            return refused("the member has as many runs or slots as it can");
        }
        let sharing = self.secrets.keys.sharing();
        let (d, arms, counted) = (bandit.config.d, bandit.config.k, bandit.definition.counted());
        // Each product that is prepared takes 32 bytes in the member's memory, and its sum 16.
        let fits = |products: u64, most: u64| match u64::from(asked.slots).saturating_mul(products) {
            products if products <= most => Ok(()),
            _ => refused("the batch of slots has more products than the member prepares together"),
        };
        let (circuit, plan): (CircuitId, Circuit) = match asked.purpose {
            Purpose::Decide { feedbacks } => {
                let next = feedbacks.saturating_add(1);
                let scalars = Decide::new(&bandit.config, sharing, next, feedbacks, 0)?.counting(counted);
                fits(products_of_a_decision(d, arms), MOST_PRODUCTS)?;
                (scalars.circuit(), Box::new(move |plan| crate::decide::plan(plan, &scalars)))
            }
            Purpose::Learn { feedbacks, residual, added, erased, opens } => {
                let counts = (u64::from(added), u64::from(erased));
                let scalars = Learn::new(&bandit.config, sharing, (feedbacks, residual), counts)?;
                let scalars = scalars.counting(counted, opens && counted > 0);
                fits(scalars.products(counts.0 + counts.1), MOST_LEARNT)?;
                let erases = erases(added as usize, erased as usize);
                let circuit = scalars.circuit(&erases);
                (circuit, Box::new(move |plan| learn::plan(plan, &scalars, &erases)))
            }
        };
        let set: Vec<u8> = asked.set.iter().map(|(member, _)| *member).collect();
        sharing.reader(&set)?;
        let nonces: Vec<[u8; 32]> = asked.set.iter().map(|(_, nonce)| *nonce).collect();
        let batch = self.stock.batch(circuit, &set, &nonces, asked.number, asked.slots)?;
        let label = *batch.label();
        let run = *label.bytes();
        let (keys, identity) = (self.secrets.keys.clone(), self.secrets.identity.clone());
        let walk = move |to: &mut Plan| plan(to);
        let conversation = Conversation::new(move |port| prepare(keys, identity, batch, walk, port));
        let preparing = Preparing { batch: label, set, circuit, step: 0, asked: Asked::Sum, conversation };
        self.runs.insert(run, Running::Preparing(Box::new(preparing)));
        let mut said = self.go_on_preparing(run, None)?;
        said.insert(0, FromMember::Began { number: asked.number, run });
        Ok(said)
    }

    pub(super) fn go_on_preparing(
        &mut self,
        run: RunId,
        reply: Option<Reply>,
    ) -> Result<Vec<FromMember>, Error> {
        let keys = self.secrets.keys.clone();
        let Some(Running::Preparing(preparing)) = self.runs.get_mut(&run) else {
            return refused("the run is not known");
        };
        if reply.is_some() {
            preparing.step += 1;
        }
        let step = preparing.step;
        let ask = match preparing.conversation.next(reply) {
            Next::Ask(ask) => ask,
            Next::Done(done) => {
                let Some(Running::Preparing(preparing)) = self.runs.remove(&run) else {
                    return refused("the run is not known");
                };
                let Preparing { batch, set, circuit, .. } = *preparing;
                let (good, liars, disputed) = match done {
                    Ok(Prepared { slots, liars }) => {
                        let slots = slots.into_iter().map(Some).collect();
                        self.batches.insert(batch, Stocked { set, circuit, slots });
                        (true, liars, vec![])
                    }
                    Err(Error::Burnt { liars, disputed }) => (false, liars, disputed),
                    Err(error) => return Err(error),
                };
                return Ok(vec![FromMember::Prepared { batch, good, liars, disputed }]);
            }
        };
        let (word, asked) = match ask {
            Ask::Sum(numbers) => {
                preparing.asked = Asked::Sum;
                return Ok(vec![FromMember::Add { run, step, numbers }]);
            }
            Ask::Show(numbers) => {
                let message = keys.message(run, step, [0; 32], numbers.clone());
                (Word::Shown(message.to_bytes()), Asked::Show(numbers))
            }
            Ask::Sign(statement) => {
                let signed = statement.signed(&preparing.batch);
                let signature = self.secrets.identity.signing.sign(PREPARED, &signed).to_vec();
                (Word::Signed(statement.clone(), signature.clone()), Asked::Sign(statement, signature))
            }
            Ask::Open(seeds) => (Word::Opened(seeds.clone()), Asked::Open(seeds)),
        };
        preparing.asked = asked;
        Ok(vec![FromMember::Say { run, step, body: to_bytes(&word)? }])
    }

    pub(super) fn sums(&mut self, run: RunId, step: u32, sums: Vec<Field>) -> Result<Vec<FromMember>, Error> {
        match self.runs.get(&run) {
            Some(Running::Preparing(preparing)) if preparing.step == step => match preparing.asked {
                Asked::Sum => self.go_on_preparing(run, Some(Reply::Numbers(sums))),
                _ => refused("the run waits for what others say"),
            },
            _ => refused("the run is not at this step"),
        }
    }
}

impl Preparing {
    /// What others have said, with the member's own.
    pub(super) fn reply(
        &self,
        keys: &MemberKeys,
        run: RunId,
        step: u32,
        said: &[(u8, Vec<u8>)],
    ) -> Result<Reply, Error> {
        if step != self.step {
            return refused("the run is not at this step");
        }
        let others = said.iter().filter(|(member, _)| *member != keys.member());
        let words = others.filter_map(|(member, body)| Some((*member, from_bytes::<Word>(body).ok()?)));
        match &self.asked {
            Asked::Sum => refused("the run waits for sums"),
            Asked::Show(own) => {
                let read = |(member, word)| {
                    let Word::Shown(bytes) = word else { return None };
                    let message = Message::from_bytes(&bytes).ok()?;
                    let right = message.run == run && message.round == step;
                    (right && keys.check(member, &message).is_ok()).then_some((member, message.numbers))
                };
                let own = (keys.member(), own.clone());
                Ok(Reply::Shown(words.filter_map(read).chain([own]).collect()))
            }
            Asked::Sign(statement, signature) => {
                let read = |(member, word)| match word {
                    Word::Signed(statement, signature) => Some((member, statement, signature)),
                    _ => None,
                };
                let own = (keys.member(), statement.clone(), signature.clone());
                Ok(Reply::Signed(words.filter_map(read).chain([own]).collect()))
            }
            Asked::Open(own) => {
                let read = |(_, word)| match word {
                    Word::Opened(seeds) => Some(seeds.into_iter().take(MOST_SEEDS)),
                    _ => None,
                };
                Ok(Reply::Opened(words.filter_map(read).flatten().chain(own.clone()).collect()))
            }
        }
    }
}
