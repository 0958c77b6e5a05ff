//! Staged evaluations: the server multiplies, in small rings and without rotations, and a holder of the key
//! moves numbers and adds them up between the products ([`protocol::staged`]).
//!
//! Every ciphertext that is sent is under a mask that is uniform modulo q in all coefficients, and
//! re-randomised: what the holder decrypts is uniform, and independent of what the server holds. A holder
//! that lies shifts numbers of its choice at every step, which changes the arms of the users of the
//! evaluation, and by what they then do tells it something about their scores. Only holders that the owner
//! of the bandit trusts may answer.
//!
//! The winner is found by rounds of maxima of two, by one comparison of all pairs, which takes K(K − 1) slots
//! a user instead of K − 1, or by both: the pairs of what some rounds leave.

use crate::{Error, Scalars};
use bandit::Bonus;
use circuits::argmax::tie_bonus;
use circuits::maximum::{Maximum, RESOLUTION};
use circuits::ranks::{Ranks, SHIFT};
use circuits::{Complex64, Encrypted, SlotAlgebra};
use ckks::{
    Ciphertext, Evaluator, Exchange, KeyId, MaskSeed, Packer, Params, Plaintext, PublicKey, RingKeys,
    SeededCoefficients, Side,
};
use protocol::exchange::ENTRY_FLOOD_BITS;
use protocol::staged::{LOG_LIFT, STAGED_FACTORS, StagedExchanges, StagedLayout, doublings};
use protocol::{LOG_CONTEXT, LOG_SCORE};
use rand::{CryptoRng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use std::borrow::Borrow;

/// Computes staged evaluations on ciphertexts.
#[derive(Debug, Clone)]
pub struct StagedEngine {
    exchanges: StagedExchanges,
    maximum: Maximum,
    /// The rounds of maxima.
    rounds: usize,
    /// For evaluations that compare all pairs of what the rounds leave.
    ranks: Option<Ranks>,
    /// The ring of stages.
    slots: Encrypted,
    public_key: PublicKey,
    key_id: KeyId,
    scores: RingKeys,
}

/// What a holder of the key made of a step.
#[derive(Debug, Clone)]
pub enum StageReply {
    /// Ciphertexts for each exchange of the step.
    Ciphertexts(Vec<Vec<Ciphertext>>),
    /// Those of the last step, which are answers.
    Answers(SeededCoefficients),
}

/// An evaluation between two exchanges.
#[derive(Debug, Clone)]
pub struct StagedEvaluation {
    factors: [f64; STAGED_FACTORS],
    /// The number of the step that is asked for.
    step: usize,
    /// The seeds of the masks of its groups.
    seeds: Vec<MaskSeed>,
    /// The indices of all arms, from the first round of maxima on; then the entries within groups.
    of_arms: Option<Ciphertext>,
}

impl StagedEvaluation {
    /// The number of the step that is asked for, and the factors of its exchanges.
    pub fn asks(&self) -> (usize, [f64; STAGED_FACTORS]) {
        (self.step, self.factors)
    }
}

/// c₁ and c₀ of an index c₁·z + c₀·u over its range, for scores that are z/r and u/r with r = 2^`log_range`,
/// and 1.
///
/// # Errors
/// [`Error::Broken`] for a width with a root, which stages do not compute.
pub fn staged_factors(scalars: &Scalars, log_range: i32) -> Result<[f64; STAGED_FACTORS], Error> {
    let Bonus::Linear { slope } = scalars.bonus else {
        return Err(Error::Broken("a staged evaluation with a root"));
    };
    // The range has room for the bonus of one raise. Ranks take a larger one, and maxima are off by 0.12
    // resolutions a round at most, of which four come before a comparison of pairs: by one resolution two of
    // them.
    let room = (1.0 - SHIFT - RESOLUTION) / (1.0 - tie_bonus(RESOLUTION));
    let unit = f64::from(log_range).exp2() / scalars.range * room;
    Ok([slope * unit, unit, 1.0])
}

impl StagedEngine {
    /// The engine of the keys of `stages` and `scores`, which have a relinearisation key each, and `scores`
    /// those of a pack with the gap of the layout.
    ///
    /// # Errors
    /// [`Error::Circuit`] never, with the slots of the ring of stages.
    pub fn new(exchanges: StagedExchanges, stages: RingKeys, scores: RingKeys) -> Result<Self, Error> {
        let RingKeys { evaluator, public_key, key_id } = stages;
        let slots = evaluator.params().max_slots();
        let (layout, after) = (&exchanges.layout, exchanges.layout.pairs_after(slots));
        let of_left = |rounds: usize| Ranks::new(layout.left(rounds), doublings(layout.left(rounds)));
        let ranks = after.map(of_left).transpose()?;
        let rounds = after.unwrap_or(layout.rounds());
        let (slots, maximum) = (Encrypted::new(evaluator, slots)?, Maximum::new()?);
        Ok(StagedEngine { exchanges, maximum, rounds, ranks, slots, public_key, key_id, scores })
    }

    /// The places of numbers.
    pub fn layout(&self) -> &StagedLayout {
        &self.exchanges.layout
    }

    /// The exchanges of a step, by groups that share what is masked.
    ///
    /// # Errors
    /// [`Error::Broken`] after the last step.
    pub fn step(&self, step: usize) -> Result<&[Vec<Exchange>], Error> {
        Ok(self.exchanges.steps.get(step).ok_or(Error::Broken("a step after the last"))?)
    }

    /// The frames of the masked ciphertexts of a step, and what the holder of the key is to find of its
    /// exchanges ([`StagedExchanges::hash`]).
    ///
    /// # Errors
    /// [`Error::Broken`] after the last step.
    pub fn frames(
        &self,
        evaluation: &StagedEvaluation,
        sent: &[Vec<Ciphertext>],
    ) -> Result<(Vec<Vec<u8>>, [u8; 32]), Error> {
        let (step, factors) = evaluation.asks();
        let over = Error::Broken("a step after the last");
        let hash = self.exchanges.hash(step, &factors).ok_or(over)?;
        let mut frames = Vec::new();
        for (group, masked) in self.step(step)?.iter().zip(sent) {
            let Some(exchange) = group.first() else { continue };
            let (params, level) = (&exchange.from().params, exchange.from().level);
            let id = if step == 0 { self.scores.key_id } else { self.key_id };
            // Frames hold the canonical scale.
            let frame = |ct: &Ciphertext| {
                ckks::write_ciphertext(params, id, &ct.clone().with_scale(params.scale(level)))
            };
            frames.extend(masked.iter().map(frame));
        }
        Ok((frames, hash))
    }

    /// Reads the frames of the holder of the key in a step: those of each exchange, one after the other.
    ///
    /// # Errors
    /// [`Error::Ckks`] for another number of frames, and as [`ckks::read_ciphertext`].
    pub fn read(&self, step: usize, frames: &[Vec<u8>]) -> Result<StageReply, Error> {
        let exchanges: Vec<&Exchange> = self.step(step)?.iter().flatten().collect();
        let (got, want) = (frames.len(), exchanges.iter().map(|e| e.to().ciphertexts).sum());
        if got != want {
            return Err(ckks::Error::CiphertextCount { got, want }.into());
        }
        if let ([exchange], [frame]) = (&exchanges[..], frames)
            && self.is_last(step)
        {
            let to = exchange.to();
            let answers =
                SeededCoefficients::read(&to.params, self.scores.key_id, to.level, to.scale, frame)?;
            return Ok(StageReply::Answers(answers));
        }
        let mut rest = frames;
        let mut sides = Vec::new();
        for exchange in exchanges {
            let (frames, after) = rest.split_at(exchange.to().ciphertexts);
            sides.push((exchange.to(), frames));
            rest = after;
        }
        let read = |(to, frames): (&Side, &[Vec<u8>])| {
            let frames = frames.par_iter();
            frames.map(|f| ckks::read_ciphertext(&to.params, self.key_id, to.level, f)).collect()
        };
        Ok(StageReply::Ciphertexts(sides.into_par_iter().map(read).collect::<Result<_, _>>()?))
    }

    /// Whether the step gives answers.
    pub fn is_last(&self, step: usize) -> bool {
        step + 1 == self.exchanges.steps.len()
    }

    /// The ciphertexts of a model as products take them, from encryptions of [`StagedLayout::model`].
    pub fn model(&self, mut model: Vec<Ciphertext>) -> Vec<Ciphertext> {
        let log_gap = self.layout().gap().ilog2();
        model.iter_mut().for_each(|part| self.evaluator().divide_exactly_assign(part, log_gap));
        model
    }

    fn evaluator(&self) -> &Evaluator {
        &self.scores.evaluator
    }

    /// The masked contexts and packs of step 0, from the contexts of the users, which are
    /// [`StagedLayout::context_parts`] ciphertexts each, and the [`Self::model`].
    ///
    /// # Errors
    /// [`Error::Broken`] for another number of ciphertexts; [`Error::Ckks`] for ciphertexts of another level
    /// or scale, and if a key is missing.
    pub fn begin<M: Borrow<Ciphertext> + Sync, R: CryptoRng>(
        &self,
        factors: [f64; STAGED_FACTORS],
        users: &[Vec<Ciphertext>],
        model: &[M],
        rng: &mut R,
    ) -> Result<(StagedEvaluation, Vec<Vec<Ciphertext>>), Error> {
        let (layout, evaluator) = (self.layout(), self.evaluator());
        let params = evaluator.params();
        let parts = layout.context_parts();
        let whole = !layout.is_lifted()
            && model.len() == layout.model_parts()
            && users.iter().all(|user| user.len() == parts);
        if users.is_empty() || users.len() > layout.users() || !whole {
            return Err(Error::Broken("another number of ciphertexts in a staged evaluation"));
        }
        let (level, scale) = (params.max_level(), f64::from(LOG_SCORE).exp2());
        let products: Vec<_> =
            users.iter().flatten().flat_map(|c| model.iter().map(move |m| (c, m.borrow()))).collect();
        // Packs side by side, and the products of each: inside of one, threads would wait for each other.
        let pack = |pairs: &[(&Ciphertext, &Ciphertext)]| {
            let mut packer = Packer::new(evaluator, layout.gap(), level, scale)?;
            let products: Vec<_> = pairs.par_iter().map(|(c, m)| evaluator.mul_undivided(c, m)).collect();
            products.into_iter().try_for_each(|product| packer.push(product?).map(drop))?;
            packer.finish()
        };
        let mut packs: Vec<_> = products.par_chunks(layout.gap()).map(pack).collect::<Result<_, _>>()?;
        // Users who are not there.
        let empty = |log_scale: u32| Ciphertext::zero(params, level).with_scale(f64::from(log_scale).exp2());
        packs.resize_with(layout.packs(), || empty(LOG_SCORE));
        let lifted = |contexts: &Ciphertext| {
            let mut lifted = contexts.clone();
            evaluator.mul_integer_assign(&mut lifted, 1 << LOG_LIFT);
            lifted.with_scale(f64::from(LOG_CONTEXT + LOG_LIFT).exp2())
        };
        let mut contexts: Vec<Ciphertext> = users.par_iter().flatten().map(lifted).collect();
        contexts.resize_with(layout.users() * parts, || empty(LOG_CONTEXT + LOG_LIFT));
        self.first(factors, vec![contexts, packs], rng)
    }

    /// The masked pack of step 0, from the scores of all users of lifted contexts.
    ///
    /// # Errors
    /// [`Error::Broken`] unless contexts are lifted; [`Error::Ckks`] for a pack of another level or scale.
    pub fn begin_scores<R: CryptoRng>(
        &self,
        factors: [f64; STAGED_FACTORS],
        pack: Ciphertext,
        rng: &mut R,
    ) -> Result<(StagedEvaluation, Vec<Vec<Ciphertext>>), Error> {
        if !self.layout().is_lifted() {
            return Err(Error::Broken("a pack of scores for contexts that are not lifted"));
        }
        self.first(factors, vec![vec![pack]], rng)
    }

    fn first<R: CryptoRng>(
        &self,
        factors: [f64; STAGED_FACTORS],
        groups: Vec<Vec<Ciphertext>>,
        rng: &mut R,
    ) -> Result<(StagedEvaluation, Vec<Vec<Ciphertext>>), Error> {
        let mut evaluation = StagedEvaluation { factors, step: 0, seeds: Vec::new(), of_arms: None };
        let sent = self.ask(&mut evaluation, groups, &self.scores.public_key, rng)?;
        Ok((evaluation, sent))
    }

    /// Masks the ciphertexts of the groups of a step, which are encryptions under `public_key`.
    fn ask<R: CryptoRng>(
        &self,
        evaluation: &mut StagedEvaluation,
        mut groups: Vec<Vec<Ciphertext>>,
        public_key: &PublicKey,
        rng: &mut R,
    ) -> Result<Vec<Vec<Ciphertext>>, Error> {
        evaluation.seeds.clear();
        for (exchanges, group) in self.step(evaluation.step)?.iter().zip(&mut groups) {
            let exchange = exchanges.first().ok_or(Error::Broken("a group without an exchange"))?;
            let seed = ckks::mask_seed_of(group, &ckks::mask_seed(rng));
            exchange.mask_assign(group, &seed)?;
            let params = &exchange.from().params;
            let drawn: Vec<_> = group.iter_mut().map(|ct| (ct, ChaCha20Rng::from_rng(rng))).collect();
            drawn.into_par_iter().for_each(|(ct, mut rng)| {
                ckks::rerandomise_assign(params, public_key, ct, &mut rng);
            });
            evaluation.seeds.push(seed);
        }
        Ok(groups)
    }

    /// The images of the masks of a step, exchange by exchange. They can be computed while the holder of the
    /// key works.
    ///
    /// # Errors
    /// [`Error::Ckks`] for factors that are too large ([`Exchange::check_factors`]).
    pub fn encode_masks(&self, evaluation: &StagedEvaluation) -> Result<Vec<Vec<Plaintext>>, Error> {
        let groups = self.step(evaluation.step)?.iter().zip(&evaluation.seeds);
        let images = groups.map(|(group, seed)| Exchange::encode_masks(group, seed, &evaluation.factors));
        Ok(images.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// What the holder of the key is asked for next, from its ciphertexts for each exchange of this step and
    /// the images of the masks.
    ///
    /// # Errors
    /// [`Error::Broken`] for another number of exchanges, and after the last step, which has
    /// [`Self::answers`]; [`Error::Ckks`] for ciphertexts of another level or scale.
    pub fn next<R: CryptoRng>(
        &self,
        evaluation: &mut StagedEvaluation,
        mut fresh: Vec<Vec<Ciphertext>>,
        masks: &[Vec<Plaintext>],
        rng: &mut R,
    ) -> Result<Vec<Vec<Ciphertext>>, Error> {
        let exchanges: Vec<&Exchange> = self.step(evaluation.step)?.iter().flatten().collect();
        if fresh.len() != exchanges.len() || masks.len() != exchanges.len() {
            return Err(Error::Broken("another number of exchanges in a staged evaluation"));
        }
        for ((exchange, fresh), mask) in exchanges.iter().zip(&mut fresh).zip(masks) {
            exchange.unmask_assign(fresh, mask)?;
        }
        // Lifted contexts have no step of features and products.
        let step = evaluation.step + usize::from(self.layout().is_lifted());
        let group = match (step, fresh.as_mut_slice(), &self.ranks) {
            (0, [x, v], _) => self.squares(x, v)?,
            (step, [differences, means, rest @ ..], _) if step <= self.rounds => {
                if let [indices] = rest {
                    evaluation.of_arms = indices.pop();
                }
                vec![self.maximum.of_two(&self.slots, only(differences)?, only(means)?)?]
            }
            (step, [pairs, rest @ ..], Some(ranks)) if step == self.rounds + 1 => {
                let indices = evaluation.of_arms.take();
                let within = || match rest {
                    [maxima] => self.behind(indices, maxima).map(Some),
                    _ => Ok(None),
                };
                let indicators = |pairs| ranks.indicators(&self.slots, pairs);
                let all = || pairs.par_iter().map(indicators).collect::<Result<_, _>>();
                let (within, indicators) = rayon::join(within, all);
                evaluation.of_arms = within?;
                indicators?
            }
            (step, [won], Some(ranks)) if step == self.rounds + 2 => {
                let entries = ranks.entries(&self.slots, only(won)?)?;
                match evaluation.of_arms.take() {
                    Some(within) => vec![self.slots.mul(&within, &entries)?],
                    None => vec![entries],
                }
            }
            (step, [maxima], None) if step == self.rounds + 1 => {
                vec![self.behind(evaluation.of_arms.take(), maxima)?]
            }
            _ => return Err(Error::Broken("a step of a staged evaluation that has no successor")),
        };
        evaluation.step += 1;
        self.ask(evaluation, vec![group], &self.public_key, rng)
    }

    /// The entries of arms beside the maxima that their indices are compared with.
    fn behind(&self, indices: Option<Ciphertext>, maxima: &[Ciphertext]) -> Result<Ciphertext, Error> {
        let indices = indices.ok_or(Error::Broken("a step without indices"))?;
        Ok(self.maximum.entries(&self.slots, &self.slots.sub(&indices, only(maxima)?)?)?)
    }

    /// The products of each feature and its row of A·x, and each prediction.
    fn squares(&self, x: &[Ciphertext], v: &[Ciphertext]) -> Result<Vec<Ciphertext>, Error> {
        let mut ones = vec![Complex64::ZERO; x.len() * self.slots.slots()];
        self.layout().predictions().for_each(|slot| ones[slot] = Complex64::ONE);
        let parts = x.par_iter().zip(v).zip(ones.par_chunks(self.slots.slots()));
        parts.map(|((x, v), ones)| Ok(self.slots.mul(&self.slots.add_plain(x, ones)?, v)?)).collect()
    }

    /// The entries of all users, from the [`StageReply::Answers`] of the last step.
    ///
    /// # Errors
    /// [`Error::Broken`] at an earlier step.
    pub fn answers(
        &self,
        evaluation: &StagedEvaluation,
        mut answers: SeededCoefficients,
        masks: &[Vec<Plaintext>],
    ) -> Result<SeededCoefficients, Error> {
        let (true, [mask]) = (self.is_last(evaluation.step), masks) else {
            return Err(Error::Broken("answers before the last step"));
        };
        let [mask] = mask.as_slice() else {
            return Err(Error::Broken("answers of several exchanges"));
        };
        answers.sub_assign(self.answer_params()?, mask)?;
        Ok(answers)
    }

    fn answer_params(&self) -> Result<&Params, Error> {
        let last = self.exchanges.steps.last().and_then(|step| step.iter().flatten().next());
        Ok(&last.ok_or(Error::Broken("a staged evaluation without steps"))?.to().params)
    }

    /// The frame of the answer to `users`: the coefficients with their entries, each with the noise of
    /// [`ENTRY_FLOOD_BITS`].
    ///
    /// # Errors
    /// [`Error::Ckks`] for a user that the evaluation does not have.
    pub fn answer<R: CryptoRng>(
        &self,
        answers: &SeededCoefficients,
        users: &[usize],
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let places: Vec<usize> =
            users.iter().flat_map(|user| self.layout().answer_coefficients(*user)).collect();
        let (params, id) = (self.answer_params()?, self.scores.key_id);
        Ok(answers.flooded_frame(params, id, &places, ENTRY_FLOOD_BITS, rng)?)
    }
}

fn only(ciphertexts: &[Ciphertext]) -> Result<&Ciphertext, Error> {
    ciphertexts.first().ok_or(Error::Broken("an exchange without a ciphertext"))
}
