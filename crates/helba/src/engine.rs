use super::circuit::DecisionCircuit;
use crate::{DeepEngine, Error, Scalars, refresh};
use circuits::{Encrypted, SlotAlgebra};
use ckks::{
    Ciphertext, EvaluationKeys, Evaluator, Fold, KeyId, MaskSeed, Packer, Params, Plaintext, PublicKey,
    Raise, RingSwitch, Rotations,
};
use protocol::exchange::{ANSWER_FLOOD_BITS, SCORES_FLOOD_BITS, TRACE_FLOOD_BITS};
use protocol::levels::{ANSWER_LEVEL, products_level};
use protocol::{AnswerLayout, BanditConfig, LOG_CONTEXT, LOG_SCORE, ScoreRing};
use rand::CryptoRng;

/// Computes encrypted decisions and their updates on ciphertexts of both rings. All encrypted bandits of a
/// key pair share one engine.
#[derive(Debug, Clone)]
pub struct Engine {
    deep: DeepEngine,
    /// Vectors with as many slots as the ring of the deep circuit has.
    slots: Encrypted,
    ring: ScoreRing,
    scores: Evaluator,
    public_key: PublicKey,
    key_id: KeyId,
    answers: AnswerTables,
}

/// What takes the entries of all users into the ring of answers, and each user's own out of them.
#[derive(Debug, Clone)]
struct AnswerTables {
    layout: AnswerLayout,
    switch: RingSwitch,
    /// The fold of the entries of a user alone.
    alone: Fold,
    /// The fold of the entries of all users.
    shared: Fold,
    /// The mask of every user.
    masks: Rotations,
}

impl AnswerTables {
    fn new(layout: AnswerLayout, switch: RingSwitch) -> Result<Self, Error> {
        let fold = |users| Fold::new(&switch, products_level(users), &layout.moves(users));
        let (alone, shared) = (fold(1)?, fold(layout.users().max(2))?);
        let small = switch.small();
        let mask = small.encode_factor(&layout.mask(), ANSWER_LEVEL + 1)?;
        let masks = Rotations::new(small.params(), &mask)?;
        Ok(AnswerTables { layout, switch, alone, shared, masks })
    }
}

/// Ciphertexts of the ring of scores under a mask, for a holder of the key, and the seed of the mask.
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
    /// The entries of the users and nothing else, in the ring of answers: one level above answers, or of a
    /// user alone its answer but for noise.
    folded: Ciphertext,
    /// The products, in the ring of the deep circuit, of which the trace question is taken.
    products: Ciphertext,
}

impl Engine {
    /// The engine of the keys of `deep`, of those of the ring of scores, and of `switch`, which has the keys
    /// of [`protocol::AnswerKeys`].
    ///
    /// # Errors
    /// [`Error::Ckks`] if `switch` is of other rings.
    pub fn new(
        deep: DeepEngine,
        ring: ScoreRing,
        params: Params,
        public_key: PublicKey,
        key_id: KeyId,
        keys: EvaluationKeys,
        switch: RingSwitch,
    ) -> Result<Self, Error> {
        let slots = Encrypted::new(deep.evaluator().clone(), deep.params().max_slots())?;
        let answers = AnswerTables::new(AnswerLayout::new(ring, deep.shape(), slots.slots()), switch)?;
        let scores = Evaluator::new(params, keys);
        Ok(Engine { deep, slots, ring, scores, public_key, key_id, answers })
    }

    /// The engine of the deep circuit.
    pub fn deep(&self) -> &DeepEngine {
        &self.deep
    }

    /// The ring of scores.
    pub fn ring(&self) -> ScoreRing {
        self.ring
    }

    /// The parameters of the ring of scores.
    pub fn params(&self) -> &Params {
        self.scores.params()
    }

    /// The parameters of answers, which are encrypted under the secret of the ring of scores.
    pub fn answer_params(&self) -> &Params {
        self.answers.switch.small().params()
    }

    /// The id of the key pair of the ring of scores.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    pub(super) fn scores_evaluator(&self) -> &Evaluator {
        &self.scores
    }

    /// An empty pack of scores.
    ///
    /// # Errors
    /// [`Error::Ckks`] if a key is missing.
    pub fn packer(&self) -> Result<Packer, Error> {
        let level = self.params().max_level();
        Ok(Packer::new(&self.scores, self.ring.gap, level, f64::from(LOG_SCORE).exp2())?)
    }

    /// A pack of a bandit with the trace condition, where the trace has place 0. `tested` is that of the
    /// trace statistics and the model, as [`Self::score`] computes it, or `None` if the trace is not asked
    /// for.
    ///
    /// # Errors
    /// As [`Self::packer`].
    pub fn packer_with_trace(&self, tested: Option<Ciphertext>) -> Result<Packer, Error> {
        let mut packer = self.packer()?;
        let small = self.params();
        let none = || Ciphertext::zero(small, small.max_level()).with_scale(f64::from(LOG_SCORE).exp2());
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
        ckks::read_scaled_ciphertext(params, self.key_id, params.max_level(), scale, frame)
    }

    /// The scores of one user, divided by the gap as a [`Packer`] takes them. `model` is the model divided by
    /// the gap.
    ///
    /// # Errors
    /// [`Error::Ckks`] for ciphertexts of another level or scale.
    pub fn score(&self, contexts: &Ciphertext, model: &Ciphertext) -> Result<Ciphertext, Error> {
        Ok(self.scores.mul_unrescaled(contexts, model)?)
    }

    /// The scores of one user that are not packed: times the gap, by which [`Self::score`] divides modulo Q.
    pub fn unpacked(&self, mut scores: Ciphertext) -> Ciphertext {
        self.scores.mul_integer_assign(&mut scores, self.ring.gap as i64);
        scores
    }

    /// The scores of one user as an answer of the open tier, with the noise of [`SCORES_FLOOD_BITS`]. It is
    /// not re-randomised: its user holds the key and can compute the model from one answer, so that there is
    /// no more to hide.
    pub fn open_answer<R: CryptoRng>(&self, scores: Ciphertext, rng: &mut R) -> Ciphertext {
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
        raise: &Raise,
        ciphertext: Ciphertext,
        rng: &mut R,
    ) -> Result<Masked, Error> {
        let seed = ckks::mask_seed(rng);
        self.mask_with(raise, ciphertext, seed, rng)
    }

    /// As [`Self::mask`], with the mask of `seed`.
    pub(super) fn mask_with<R: CryptoRng>(
        &self,
        raise: &Raise,
        mut ciphertext: Ciphertext,
        seed: MaskSeed,
        rng: &mut R,
    ) -> Result<Masked, Error> {
        raise.mask_assign(&mut ciphertext, &seed)?;
        ckks::rerandomise_assign(self.params(), &self.public_key, &mut ciphertext, rng);
        Ok(Masked { ciphertext, seed })
    }

    /// Square root, comparison and argmax of the `users` users of a pack, from raised scores whose mask is
    /// `mask` ([`Raise::encode_mask`]), and the fold of their entries. A user who left its pack before the
    /// answers counts.
    ///
    /// # Errors
    /// [`Error::Ckks`] for a ciphertext that is not one of this raise, or if a key is missing; as
    /// [`Self::fold`].
    pub fn evaluate<R: CryptoRng>(
        &self,
        circuit: &DecisionCircuit,
        users: usize,
        raise: &Raise,
        mut raised: Ciphertext,
        mask: &Plaintext,
        rng: &mut R,
    ) -> Result<Evaluated, Error> {
        raise.unmask_assign(&mut raised, mask)?;
        self.fold(users, circuit.products(&self.slots, &raised)?, rng)
    }

    /// The entries of the `users` users of a pack, from the products of their evaluation
    /// ([`DecisionCircuit::products`]), re-randomised.
    ///
    /// # Errors
    /// [`Error::WrongLevel`] for products at another level than [`products_level`]: the answer of a user
    /// alone is not masked.
    pub fn fold<R: CryptoRng>(
        &self,
        users: usize,
        mut products: Ciphertext,
        rng: &mut R,
    ) -> Result<Evaluated, Error> {
        let (got, want) = (products.level(), products_level(users));
        if got != want {
            return Err(Error::WrongLevel { what: "products of an evaluation", got, want });
        }
        // One encryption of zero serves all answers: each is under a mask and noise of its own.
        ckks::rerandomise_assign(self.deep.params(), self.deep.public_key(), &mut products, rng);
        let AnswerTables { switch, alone, shared, .. } = &self.answers;
        let fold = if users > 1 { shared } else { alone };
        let folded = fold.apply(switch, &switch.split(&products)?)?;
        Ok(Evaluated { folded, products })
    }

    /// The answer to one request, in the ring of answers at level 0: the entries of its `users`, by their
    /// numbers in the evaluation, with the noise of [`ANSWER_FLOOD_BITS`].
    ///
    /// # Errors
    /// [`Error::Broken`] if `users` is empty or the evaluation has no such user.
    pub fn answer<R: CryptoRng>(
        &self,
        evaluated: &Evaluated,
        users: &[usize],
        rng: &mut R,
    ) -> Result<Ciphertext, Error> {
        let AnswerTables { layout, switch, masks, .. } = &self.answers;
        let alone = evaluated.folded.level() == ANSWER_LEVEL;
        let most = if alone { 1 } else { layout.users() };
        if users.is_empty() || users.iter().any(|user| *user >= most) {
            return Err(Error::Broken("an answer to a user that the evaluation does not have"));
        }
        let mut out = match alone {
            true => evaluated.folded.clone(),
            false => {
                let rotations = users.iter().map(|user| layout.rotation_to(*user));
                let mask = masks.sum(switch.small().params(), rotations);
                switch.small().mul_plain(&evaluated.folded, &mask)?
            }
        };
        ckks::flood_assign(switch.small().params(), &mut out, ANSWER_FLOOD_BITS, rng);
        Ok(out)
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
        let params = self.deep.params();
        let products = self.slots.drop_to(&evaluated.products, ANSWER_LEVEL + 1)?;
        let mut out = DecisionCircuit::trace(&self.slots, &products)?;
        ckks::mask_all_but_constant_assign(params, &mut out, rng);
        Ok(refresh::flood(params, self.deep.public_key(), out, TRACE_FLOOD_BITS, rng))
    }

    /// The circuit of an evaluation with these scalars.
    ///
    /// # Errors
    /// As [`DecisionCircuit::new`].
    pub fn circuit(&self, config: &BanditConfig, scalars: Scalars) -> Result<DecisionCircuit, Error> {
        DecisionCircuit::new(config, scalars, self.deep.shape(), self.slots.slots())
    }
}
