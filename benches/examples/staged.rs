//! Staged decisions in full rings: what server and holder of the key take step by step, the bytes of each
//! step, and whether every user plays an arm that is best within a resolution.
//!
//! ```text
//! cargo run --release -p benches --example staged -- 32,32,8 64,64,2 16,256,2 64,256,1
//! ```
//! with features, arms and users of each evaluation.

use anyhow::{Context, Result, ensure};
use bandit::Width;
use ckks::{Ciphertext, Evaluator, Packer, RingKeys, Term};
use helba::{Scalars, StageReply, StagedEngine, staged_factors};
use protocol::staged::StagedExchanges;
use protocol::{
    BanditConfig, Exchanging, LOG_CONTEXT, LOG_MODEL, LOG_SCORE, Rings, ScoreLayout, ScoreRing, Shape,
    Updates,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::time::Instant;
use testkit::{ClearTwin, Party, ScoresParty};

fn main() -> Result<()> {
    println!("features,arms,users,step,server_ms,holder_ms,bytes_to_holder,bytes_to_server");
    for shape in std::env::args().skip(1) {
        let sizes: Vec<usize> = shape.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [d, k, users] = sizes[..] else { anyhow::bail!("{shape}: give features,arms,users") };
        decide(d, k, users)?;
    }
    Ok(())
}

/// A context of norm 1, more or less along the first feature, which is its reward.
fn context(d: usize, seed: usize) -> Vec<f64> {
    let mut x: Vec<f64> = (0..d).map(|i| ((7 * seed + 3 * i * i + 1) as f64).sin()).collect();
    x[0] += (d as f64).sqrt() * ((11 * seed + 3) as f64).sin();
    let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
    x.iter().map(|v| v / norm).collect()
}

fn largest(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, arm| if values[arm] > values[best] { arm } else { best })
}

fn decide(d: usize, k: usize, users: usize) -> Result<()> {
    let mut config = BanditConfig::new(d, k);
    config.linear.width = Width::Tangent { alpha: 0.5, floor: 1.0 / 64.0 };
    let spec = ckks::LOGN14_LOGQP409_DEPTH11;
    let (small, stages) = (ckks::LOGN13_LOGQP147_SCORES.validate()?, spec.validate()?);
    config.exchanges = Some(Exchanging::Staged);
    let ring = ScoreRing::with_stages(ckks::LOGN13_LOGQP147_SCORES, Shape::for_problem(d, k));
    let [updates, decisions] = [(); 2].map(|()| stages.clone());
    let (by, exchanges) = (Updates::Products, Exchanging::Staged);
    let rings = Rings { updates, decisions, by, exchanges, keys: Default::default() };
    let of_scores = ScoreLayout::new(&config, &config.plan(rings, Shape::for_problem(d, k), ring)?, ring);
    let layout = of_scores.staged().context("stages")?.for_users(users);
    let answers = ring.answers(&spec).validate()?;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let scores = ScoresParty::generate(ring, &mut rng)?;
    let party = Party::generate(&stages, stages.max_level(), [], 2);
    let (id, public_key) = (scores.key_id(), scores.public.clone());
    let evaluator = Evaluator::new(small.clone(), scores.keys.clone());
    let exchanges = StagedExchanges::new(layout.clone(), &small, &stages, &answers)?;
    let last = exchanges.steps.len() - 1;
    let keys = RingKeys { evaluator, public_key, key_id: id };
    let evaluator = keys.evaluator.clone();
    let engine = StagedEngine::new(exchanges, party.ring_keys(), keys)?;
    let secret = scores.secret.under(&answers);

    let rounds = 3 * d;
    let mut twin = ClearTwin::new(config.clone());
    (0..rounds).map(|t| context(d, t)).for_each(|x| twin.learn(&x, x[0]));
    let round = rounds as u64;
    let rows = |user: usize| (0..k).map(|arm| context(d, 1000 * (user + 1) + 31 * arm)).collect::<Vec<_>>();
    let indices: Vec<Vec<f64>> = (0..users).map(|user| twin.indices(&rows(user), round + 1, round)).collect();
    let scalars = Scalars::new(&config, round + 1, round);
    let mut encrypted = |parts: Vec<Vec<i64>>, log_scale: u32| -> Vec<Ciphertext> {
        let one = |part: &Vec<i64>| scores.encrypt(part, log_scale, &mut rng).expand(&scores.secret);
        parts.iter().map(one).collect()
    };
    let (a, omega) = twin.model();
    let (dim, n) = (d.next_power_of_two().max(2), small.n());
    let mut coefficients = vec![0; n * of_scores.model_parts()];
    for Term { slot, coefficient, factor } in of_scores.model() {
        let entry = if slot / dim == dim { omega[slot % dim] } else { a[(slot / dim, slot % dim)] };
        coefficients[coefficient] += (factor * entry * f64::from(LOG_MODEL).exp2()).round() as i64;
    }
    let parts = coefficients.chunks(n).map(<[i64]>::to_vec).collect();
    let model = engine.model(encrypted(parts, LOG_MODEL));
    let contexts = (0..users)
        .map(|user| Ok(encrypted(of_scores.all_contexts(&[&rows(user)])?, LOG_CONTEXT)))
        .collect::<Result<Vec<_>>>()?;

    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let ms = |since: Instant| since.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    let factors = staged_factors(&scalars, layout.log_range())?;
    let mut numbers: Vec<usize> = (0..users).collect();
    let begun = if layout.is_lifted() {
        let (level, scale) = (small.max_level(), f64::from(LOG_SCORE).exp2());
        let mut packer = Packer::new(&evaluator, layout.gap(), level, scale)?;
        for (user, number) in contexts.iter().zip(&mut numbers) {
            let position = packer.push(evaluator.mul_undivided(&user[0], &model[0])?)?;
            *number = of_scores.user_at(position);
        }
        engine.begin_scores(factors, packer.finish()?, &mut rng)
    } else {
        engine.begin(factors, &contexts, &model, &mut rng)
    };
    let (mut evaluation, mut sent) = begun?;
    let mut server = ms(start);
    let entries = loop {
        let (step, factors) = evaluation.asks();
        let start = Instant::now();
        let (from, to) = match step {
            0 => (&scores.secret, &party.secret),
            _ if step == last => (&party.secret, &secret),
            _ => (&party.secret, &party.secret),
        };
        let mut fresh = Vec::new();
        for (group, masked) in engine.step(step)?.iter().zip(&sent) {
            fresh.extend(ckks_secret::exchange_group(group, from, to, masked, &factors, &mut rng)?);
        }
        let holder = ms(start);
        let start = Instant::now();
        let masks = engine.encode_masks(&evaluation)?;
        server += ms(start);
        let down: usize =
            sent.iter().flatten().map(|ct| ckks::ciphertext_bytes(from.params(), ct.level(), false)).sum();
        let up: usize = fresh.iter().flatten().map(|ct| ct.to_bytes(to, id).len()).sum();
        println!("{d},{k},{users},{step},{server:.1},{holder:.1},{down},{up}");
        let start = Instant::now();
        if step == last {
            let frame = fresh.iter().flatten().next().context("a ciphertext")?.to_bytes(to, id);
            let StageReply::Answers(answers) = engine.read(step, &[frame])? else {
                anyhow::bail!("no answers")
            };
            break engine.answers(&evaluation, answers, &masks)?;
        }
        let fresh = fresh.into_iter().map(|all| all.into_iter().map(|ct| ct.expand(to)).collect()).collect();
        sent = engine.next(&mut evaluation, fresh, &masks, &mut rng)?;
        server = ms(start);
    };
    for (user, indices) in numbers.into_iter().zip(&indices) {
        let frame = engine.answer(&entries, &[user], &mut rng)?;
        let places = layout.answer_coefficients(user);
        let (level, scale) = (protocol::levels::ANSWER_LEVEL, stages.scale(protocol::levels::PRODUCTS_LEVEL));
        let named = places.iter().copied();
        let ct = ckks::read_partial_ciphertext(&answers, id, level, scale, named, &frame)?;
        let entries: Vec<f64> = ckks_secret::decrypt_coefficients(&secret, &ct)
            .with(|all| places.iter().map(|place| all[*place] as f64 / scale).collect());
        let behind = indices[largest(indices)] - indices[largest(&entries)];
        ensure!(behind <= scalars.range / 64.0, "{d} {k}: user {user} plays an arm {behind} behind");
    }
    println!("{d},{k},{users},arms of the twin");
    Ok(())
}
