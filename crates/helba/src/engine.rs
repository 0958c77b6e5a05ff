use super::circuit::DecisionCircuit;
use crate::{DeepEngine, Error, Scalars, StagedEngine, refresh};
use circuits::{Encrypted, SlotAlgebra};
use ckks::{
    Ciphertext, EvaluationKeys, Evaluator, Exchange, Fold, KeyId, MaskSeed, Packer, Params, Plaintext,
    PublicKey, RingKeys, RingSwitch, SeededCoefficients, SlotsToCoefficients, Undivided,
};
use protocol::exchange::{ANSWER_FLOOD_BITS, ENTRY_FLOOD_BITS, SCORES_FLOOD_BITS, TRACE_FLOOD_BITS};
use protocol::levels::{ANSWER_LEVEL, PRODUCTS_LEVEL};
use protocol::staged::StagedExchanges;
use protocol::{AnswerLayout, BanditConfig, LOG_CONTEXT, LOG_SCORE, ScoreLayout, ScoreRing};
use rand::CryptoRng;

/// Computes encrypted decisions and their updates on ciphertexts of all rings. All encrypted bandits of a
/// key pair share one engine.
#[derive(Debug, Clone)]
pub struct Engine {
    deep: DeepEngine,
    /// The keys of the ring of evaluations.
    decisions: RingKeys,
    /// Vectors with as many slots as that ring has.
    slots: Encrypted,
    ring: ScoreRing,
    /// The keys of the ring of scores.
    scores: RingKeys,
    answer_params: Params,
    /// `None` with keys of stages and with users' own keys, whose requests are never answered alone.
    alone: Option<AnswerTables>,
}

/// What takes the entries of a request alone into the ring of answers.
#[derive(Debug, Clone)]
struct AnswerTables {
    layout: AnswerLayout,
    switch: RingSwitch,
    /// The fold of the entries of user 0.
    first: Fold,
}

impl AnswerTables {
    fn new(layout: AnswerLayout, switch: RingSwitch) -> Result<Self, Error> {
        let first = Fold::new(&switch, PRODUCTS_LEVEL, &layout.moves(&[0]))?;
        Ok(AnswerTables { layout, switch, first })
    }

    /// The entries of these users and nothing else, in the ring of answers.
    fn fold(&self, users: &[usize], products: &Ciphertext) -> Result<Ciphertext, Error> {
        let parts = self.switch.split(products)?;
        if *users == [0] {
            return Ok(self.first.apply(&self.switch, &parts)?);
        }
        let fold = Fold::new(&self.switch, PRODUCTS_LEVEL, &self.layout.moves(users))?;
        Ok(fold.apply(&self.switch, &parts)?)
    }
}

/// A ciphertext under a mask, for a holder of the key, and the seed of the mask.
#[derive(Debug, Clone)]
pub struct Masked {
    /// What the holder of the key decrypts.
    pub ciphertext: Ciphertext,
    /// The seed, which never leaves the server.
    pub seed: MaskSeed,
}

/// The result of an evaluation, from which every user's answer is taken.
#[derive(Debug, Clone)]
pub struct Evaluated {
    /// The products, in the ring of evaluations, re-randomised.
    products: Ciphertext,
}

impl Engine {
    /// The engine of the keys of `deep`, of those of the ring of scores, and of `switch`, which has the keys
    /// of [`protocol::AnswerKeys`]; keys of stages and those beside users' own have none.
    ///
    /// # Errors
    /// [`Error::Ckks`] if `switch` is of other rings, and without it for rings that have none of answers.
    pub fn new(
        deep: DeepEngine,
        ring: ScoreRing,
        params: Params,
        public_key: PublicKey,
        key_id: KeyId,
        keys: EvaluationKeys,
        switch: impl Into<Option<RingSwitch>>,
    ) -> Result<Self, Error> {
        let decisions = deep.decisions();
        let slots = decisions.evaluator.params().max_slots();
        let slots = Encrypted::new(decisions.evaluator.clone(), slots)?;
        let (answer_params, alone) = match switch.into() {
            Some(switch) => {
                let answer_params = switch.small().params().clone();
                let layout = AnswerLayout::new(ring, deep.shape(), slots.slots());
                (answer_params, Some(AnswerTables::new(layout, switch)?))
            }
            None => (ring.answers(decisions.evaluator.params().spec()).validate()?, None),
        };
        let scores = RingKeys { evaluator: Evaluator::new(params, keys), public_key, key_id };
        Ok(Engine { deep, decisions, slots, ring, scores, answer_params, alone })
    }

    /// The engine of staged evaluations by these exchanges, with the same keys.
    ///
    /// # Errors
    /// As [`StagedEngine::new`].
    pub fn staged(&self, exchanges: StagedExchanges) -> Result<StagedEngine, Error> {
        StagedEngine::new(exchanges, self.decisions.clone(), self.scores.clone())
    }

    /// The engine of updates.
    pub fn deep(&self) -> &DeepEngine {
        &self.deep
    }

    /// The parameters of the ring of evaluations.
    pub fn decision_params(&self) -> &Params {
        self.decisions.evaluator.params()
    }

    /// The id of the key pair of the ring of evaluations.
    pub fn decision_key_id(&self) -> KeyId {
        self.decisions.key_id
    }

    /// The ring of scores.
    pub fn ring(&self) -> ScoreRing {
        self.ring
    }

    /// The parameters of the ring of scores.
    pub fn params(&self) -> &Params {
        self.scores.evaluator.params()
    }

    /// The parameters of answers, which are encrypted under the secret of the ring of scores.
    pub fn answer_params(&self) -> &Params {
        &self.answer_params
    }

    /// The id of the key pair of the ring of scores.
    pub fn key_id(&self) -> KeyId {
        self.scores.key_id
    }

    pub(super) fn scores_evaluator(&self) -> &Evaluator {
        &self.scores.evaluator
    }

    /// The keys of the ring of scores.
    pub(super) fn scores_keys(&self) -> &RingKeys {
        &self.scores
    }

    /// An empty pack of scores.
    ///
    /// # Errors
    /// [`Error::Ckks`] if a key is missing.
    pub fn packer(&self) -> Result<Packer, Error> {
        let level = self.params().max_level();
        Ok(Packer::new(&self.scores.evaluator, self.ring.gap, level, f64::from(LOG_SCORE).exp2())?)
    }

    /// A pack of a bandit with the trace condition, where the trace has place 0. `tested` is that of the
    /// trace statistics and the model, as [`Self::score`] computes it, or `None` if the trace is not asked
    /// for.
    ///
    /// # Errors
    /// As [`Self::packer`].
    pub fn packer_with_trace(&self, tested: Option<Undivided>) -> Result<Packer, Error> {
        let mut packer = self.packer()?;
        let small = self.params();
        let none = || {
            let zero = Ciphertext::zero(small, small.max_level()).with_scale(f64::from(LOG_SCORE).exp2());
            self.scores.evaluator.undivided(&zero)
        };
        packer.push(tested.unwrap_or_else(none))?;
        Ok(packer)
    }

    /// Reads the frame of contexts or of trace statistics, which is at the top level of the ring of scores
    /// and the scale 2^[`LOG_CONTEXT`].
    ///
    /// # Errors
    /// As [`ckks::read_ciphertext`].
    pub fn read_contexts(&self, frame: &[u8]) -> Result<Ciphertext, ckks::Error> {
        let (params, scale) = (self.params(), f64::from(LOG_CONTEXT).exp2());
        ckks::read_scaled_ciphertext(params, self.scores.key_id, params.max_level(), scale, frame)
    }

    /// The scores of one user, divided by the gap as a [`Packer`] takes them. `model` is the model divided by
    /// the gap.
    ///
    /// # Errors
    /// [`Error::Ckks`] for ciphertexts of another level or scale.
    pub fn score(&self, contexts: &Ciphertext, model: &Ciphertext) -> Result<Undivided, Error> {
        Ok(self.scores.evaluator.mul_undivided(contexts, model)?)
    }

    /// The scores of one user that are not packed: times the gap, by which [`Self::score`] divides modulo Q.
    pub fn unpacked(&self, scores: Undivided) -> Ciphertext {
        let mut scores = self.scores.evaluator.divided(scores);
        self.scores.evaluator.mul_integer_assign(&mut scores, self.ring.gap as i64);
        scores
    }

    /// The scores of one user as an answer of the open tier, with the noise of [`SCORES_FLOOD_BITS`]. It is
    /// not re-randomised: its user holds the key and can compute the model from one answer, so that there is
    /// no more to hide.
    pub fn open_answer<R: CryptoRng>(&self, scores: Undivided, rng: &mut R) -> Ciphertext {
        let mut scores = self.unpacked(scores);
        ckks::flood_assign(self.params(), &mut scores, SCORES_FLOOD_BITS, rng);
        scores
    }

    /// Ciphertexts of the ring of scores at the scale of `raise` under a fresh mask, re-randomised.
    ///
    /// # Errors
    /// [`Error::Ckks`] for a ciphertext of another level or scale.
    pub fn mask<R: CryptoRng>(
        &self,
        raise: &Exchange,
        ciphertext: Ciphertext,
        rng: &mut R,
    ) -> Result<Masked, Error> {
        let seed = ckks::mask_seed(rng);
        self.mask_with(raise, ciphertext, seed, rng)
    }

    /// As [`Self::mask`], with the mask of `seed`.
    pub(super) fn mask_with<R: CryptoRng>(
        &self,
        raise: &Exchange,
        mut ciphertext: Ciphertext,
        seed: MaskSeed,
        rng: &mut R,
    ) -> Result<Masked, Error> {
        raise.mask_assign(std::slice::from_mut(&mut ciphertext), &seed)?;
        ckks::rerandomise_assign(self.params(), &self.scores.public_key, &mut ciphertext, rng);
        Ok(Masked { ciphertext, seed })
    }

    /// Square root, comparison and argmax of the users of a pack, from raised scores whose mask is `mask`
    /// ([`Exchange::encode_mask`]).
    ///
    /// # Errors
    /// [`Error::Ckks`] for a ciphertext that is not one of this raise, or if a key is missing; as
    /// [`Self::evaluated`].
    pub fn evaluate<R: CryptoRng>(
        &self,
        circuit: &DecisionCircuit,
        raise: &Exchange,
        mut raised: Ciphertext,
        mask: &[Plaintext],
        rng: &mut R,
    ) -> Result<Evaluated, Error> {
        raise.unmask_assign(std::slice::from_mut(&mut raised), mask)?;
        self.evaluated(circuit.products(&self.slots, &raised)?, rng)
    }

    /// The result of an evaluation with these products ([`DecisionCircuit::products`]), re-randomised.
    ///
    /// # Errors
    /// [`Error::WrongLevel`] for products at another level than [`PRODUCTS_LEVEL`].
    pub fn evaluated<R: CryptoRng>(&self, mut products: Ciphertext, rng: &mut R) -> Result<Evaluated, Error> {
        let (got, want) = (products.level(), PRODUCTS_LEVEL);
        if got != want {
            return Err(Error::WrongLevel { what: "products of an evaluation", got, want });
        }
        ckks::rerandomise_assign(self.decision_params(), &self.decisions.public_key, &mut products, rng);
        Ok(Evaluated { products })
    }

    /// The answer to the only request of an evaluation, in the ring of answers at level 0: the entries of its
    /// `users`, by their numbers in the evaluation, with the noise of [`ANSWER_FLOOD_BITS`]. The fold leaves
    /// 2⁻²⁷ of what other slots hold, so that no other request may be in the evaluation.
    ///
    /// # Errors
    /// [`Error::Broken`] if `users` is empty or the evaluation has no such user.
    pub fn answer_alone<R: CryptoRng>(
        &self,
        evaluated: &Evaluated,
        users: &[usize],
        rng: &mut R,
    ) -> Result<Ciphertext, Error> {
        let tables = self.alone.as_ref().ok_or(Error::Broken("an answer alone without keys for it"))?;
        check_users(users, tables.layout.users())?;
        let mut out = tables.fold(users, &evaluated.products)?;
        ckks::flood_assign(&self.answer_params, &mut out, ANSWER_FLOOD_BITS, rng);
        Ok(out)
    }

    /// The products of an evaluation of several requests under a fresh mask, for the exchange of answers.
    ///
    /// # Errors
    /// [`Error::Ckks`] for an exchange of other parameters.
    pub fn mask_answers<R: CryptoRng>(
        &self,
        exchange: &SlotsToCoefficients,
        evaluated: &Evaluated,
        rng: &mut R,
    ) -> Result<Masked, Error> {
        let mut ciphertext = evaluated.products.clone();
        let seed = ckks::mask_seed_for(&ciphertext, rng);
        exchange.mask_assign(&mut ciphertext, &seed)?;
        Ok(Masked { ciphertext, seed })
    }

    /// Reads the frame of the holder of the key in an exchange of answers.
    ///
    /// # Errors
    /// As [`SeededCoefficients::read`].
    pub fn read_answers(
        &self,
        exchange: &SlotsToCoefficients,
        frame: &[u8],
    ) -> Result<SeededCoefficients, ckks::Error> {
        let (level, scale) = exchange.to();
        SeededCoefficients::read(exchange.small(), self.scores.key_id, level, scale, frame)
    }

    /// The frame of the answer to a request for `users`, by their numbers in the evaluation, among several:
    /// their coefficients of the `answers` of an exchange whose mask was taken off, with the noise of
    /// [`ENTRY_FLOOD_BITS`].
    ///
    /// # Errors
    /// [`Error::Broken`] if `users` is empty or the evaluation has no such user.
    pub fn answer<R: CryptoRng>(
        &self,
        layout: &ScoreLayout,
        answers: &SeededCoefficients,
        users: &[usize],
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        check_users(users, self.ring.users(self.deep.shape(), self.slots.slots()))?;
        let places = layout.answer_coefficients(users, self.slots.slots());
        Ok(answers.flooded_frame(self.answer_params(), self.scores.key_id, &places, ENTRY_FLOOD_BITS, rng)?)
    }

    /// The trace comparison of an evaluation as a question to a holder of the key: the constant coefficient,
    /// flooded and re-randomised, with all other coefficients under a mask that is uniform modulo q.
    ///
    /// # Errors
    /// [`Error::Ckks`] never, since products are above the level of a question.
    pub fn trace_question<R: CryptoRng>(
        &self,
        evaluated: &Evaluated,
        rng: &mut R,
    ) -> Result<Ciphertext, Error> {
        let params = self.decision_params();
        let products = self.slots.drop_to(&evaluated.products, ANSWER_LEVEL + 1)?;
        let mut out = DecisionCircuit::trace(&self.slots, &products)?;
        ckks::mask_all_but_constant_assign(params, &mut out, rng);
        Ok(refresh::flood(params, &self.decisions.public_key, out, TRACE_FLOOD_BITS, rng))
    }

    /// The circuit of an evaluation with these scalars.
    ///
    /// # Errors
    /// As [`DecisionCircuit::new`].
    pub fn circuit(&self, config: &BanditConfig, scalars: Scalars) -> Result<DecisionCircuit, Error> {
        DecisionCircuit::new(config, scalars, self.deep.shape(), self.slots.slots())
    }
}

/// Checks the numbers of users of an evaluation of at most `most`.
fn check_users(users: &[usize], most: usize) -> Result<(), Error> {
    if users.is_empty() || users.iter().any(|user| *user >= most) {
        return Err(Error::Broken("an answer to a user that the evaluation does not have"));
    }
    Ok(())
}
