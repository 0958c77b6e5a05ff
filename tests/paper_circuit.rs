//! The paper's circuit on ciphertexts: eq. 5 for the square root, Algorithms 8 and 9 with NewComp for the
//! argmax. It makes the same decisions as ours with five times the levels, for which no ring of up to 2¹⁶ is
//! secure.

use circuits::argmax::Argmax;
use circuits::paper::{PaperArgmax, PaperComparison, SquareRootIteration, Unraised};
use circuits::{Comparison, Encrypted, SlotAlgebra};
use ckks::{Ciphertext, EvaluationKeys, Evaluator, GaloisElement, ParamsSpec, Plaintext, Security};
use ckks_secret::SecretKey;
use num_complex::Complex64;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::sync::Arc;
use testkit::square_root;

const ARMS: usize = 2;
/// Slots of an arm.
const BLOCK: usize = 16;

/// Computes β√z + u in [−½, ½] for each arm on ciphertexts, where `root` gives β√z, then `argmax`. Returns
/// the decrypted entry of each arm.
fn decide(
    alg: &Encrypted,
    root: Ciphertext,
    u: &Ciphertext,
    argmax: impl Fn(&Ciphertext) -> Ciphertext,
    open: impl Fn(&Ciphertext) -> Vec<f64>,
) -> Vec<f64> {
    let index = alg.add(&root, &alg.drop_to(u, alg.level(&root)).unwrap()).unwrap();
    open(&argmax(&index))
}

/// Two rounds by the paper's method and by the default one, each against a server in a process of its own,
/// with toy keys: the report has its figures, and the paper's method plays the arms of exact arithmetic.
#[test]
fn both_methods_play_the_same_rounds() {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples/paper_figure1");
    assert!(example.exists(), "{} is missing: cargo build --example paper_figure1", example.display());
    let arguments = ["--method", "paper", "--toy", "--rounds", "2", "--json"];
    let run = std::process::Command::new(example).args(arguments).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert_eq!(number(&report["rounds"]), 2.0);
    assert_eq!(number(&report["agreement_with_exact"]["paper"]), 1.0, "{report}");
    // A difference is one of the rounds that are listed.
    let differences = report["differences"].as_array().unwrap().len();
    assert_eq!(number(&report["agreement"]), 1.0 - differences as f64 / 2.0, "{report}");
    let seconds = &report["seconds_per_round_median"];
    let (paper, default) = (number(&seconds["paper"]), number(&seconds["default"]));
    assert!(paper > 0.0 && (number(&report["ratio"]) * default / paper - 1.0).abs() < 1e-9, "{report}");
    assert!(number(&report["raises_per_round"]) >= 2.0, "{report}");
}

#[test]
fn the_papers_circuit_decides_alike() {
    // Depth 30 each, as section 4.3 needs for 2^-8.
    let compare = || PaperComparison::new(1, 15).unwrap();
    let papers = PaperArgmax::new(ARMS, BLOCK, compare(), compare()).unwrap();
    let ours = Argmax::new(ARMS, BLOCK, Comparison::minimax(8).unwrap()).unwrap();
    let (paper_root, our_root) =
        (SquareRootIteration::new(8, 1.0, 0.5).unwrap(), square_root(15).scaled(0.5, 0.0).unwrap());
    let (paper_depth, our_depth) = (paper_root.depth() + papers.depth(), our_root.depth() + ours.depth());
    assert_eq!((paper_depth, our_depth), (78, 16));

    let spec = ParamsSpec {
        name: "the paper's circuit, without security",
        log_n: 12,
        log_q0: 48,
        depth: paper_depth,
        log_scale: 40,
        log_p: &[50; 8],
        products: ckks::Products::Rescaled,
        security: Security::None,
    };
    // It is not secure in the largest ring.
    let secure = ParamsSpec { log_n: 16, security: Security::Classical128, ..spec };
    assert!(matches!(secure.validate(), Err(ckks::Error::Insecure { .. })));
    let params = spec.validate().unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let secret = SecretKey::generate(&params, &mut rng);
    let relin = Some(Arc::new(ckks_secret::relin_key(&secret, paper_depth, &mut rng)));
    let mut keys = EvaluationKeys { relin, ..EvaluationKeys::default() };
    for k in papers.rotations().union(&ours.rotations()) {
        let g = GaloisElement::rotation(&params, k.rem_euclid((ARMS * BLOCK) as i64));
        keys.galois.insert(g, Arc::new(ckks_secret::galois_key(&secret, g, paper_depth, &mut rng)));
    }
    let alg = Encrypted::new(Evaluator::new(params.clone(), keys), ARMS * BLOCK).unwrap();
    let open = |ct: &Ciphertext| {
        ckks_secret::decrypt(&secret, ct, ARMS * BLOCK)
            .with(|slots| (0..ARMS).map(|a| slots[a * BLOCK].re).collect::<Vec<f64>>())
    };

    let mut decided = [0; ARMS];
    while decided.contains(&0) {
        // The paper's iteration converges in eight steps above 1/64.
        let z: Vec<f64> = (0..ARMS).map(|_| rng.random_range(1.0 / 64.0..1.0)).collect();
        let u: Vec<f64> = (0..ARMS).map(|_| rng.random_range(-0.5..0.0)).collect();
        let index: Vec<f64> = z.iter().zip(&u).map(|(z, u)| 0.5 * z.sqrt() + u).collect();
        let best = usize::from(index[1] > index[0]);
        if (index[1] - index[0]).abs() < 1.0 / 32.0 {
            continue;
        }
        let mut encrypt = |values: &[f64], level: usize, first: usize| {
            let mut slots = vec![Complex64::ZERO; ARMS * BLOCK];
            slots.iter_mut().skip(first).step_by(BLOCK).zip(values).for_each(|(s, v)| s.re = *v);
            let m = Plaintext::encode(&params, &slots, level).unwrap();
            ckks_secret::encrypt(&secret, &m, &mut rng).expand(&secret)
        };
        let argument: Vec<f64> = z.iter().map(|z| 2.0 * z - 1.0).collect();
        let (x, y) = (encrypt(&argument, paper_depth, 0), encrypt(&u, paper_depth, 0));
        // Its comparisons take numbers in [0, 1].
        let shifted = |index: &Ciphertext| {
            let index = alg.add_const(index, Complex64::new(0.5, 0.0)).unwrap();
            papers.evaluate(&alg, &mut Unraised, &index).unwrap()
        };
        let theirs = decide(&alg, paper_root.evaluate(&alg, &mut Unraised, &x).unwrap(), &y, shifted, open);
        // Ours has scores at the ends of rows.
        let (x, y) = (encrypt(&argument, our_depth, ARMS - 1), encrypt(&u, our_depth, ARMS - 1));
        let all_pairs = |index: &Ciphertext| {
            // Slots without an arm hold the square root of 1/2 and are cleared.
            let mut clear = vec![Complex64::new(-our_root.eval(0.0), 0.0); ARMS * BLOCK];
            clear.iter_mut().skip(ARMS - 1).step_by(BLOCK).for_each(|v| v.re = 0.0);
            let products = ours.products(&alg, &alg.add_plain(index, &clear).unwrap()).unwrap();
            ours.one_hot(&alg, &products).unwrap()
        };
        let mine = decide(&alg, our_root.evaluate(&alg, &x).unwrap(), &y, all_pairs, open);
        for (name, entries) in [("paper", &theirs), ("ours", &mine)] {
            assert!(entries[best] > entries[1 - best] + 0.25, "{name}: {entries:?} of {index:?}");
        }
        decided[best] += 1;
    }
}
