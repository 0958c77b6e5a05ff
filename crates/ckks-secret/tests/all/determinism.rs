//! Results have the same bytes for every number of threads, on every kernel, and for every form of the keys
//! in memory.

use crate::common::{TOY_ONE_SPECIAL_PRIME, rng, values};
use ckks::{
    DiagonalTransform, EvaluationKeys, Evaluator, GaloisElement, KeyStorage, ParamsSpec, Plaintext,
    TOY_LOGN12_DEPTH21,
};
use ckks_secret::SecretKey;
use num_complex::Complex64;
use std::process::Command;
use std::sync::Arc;

/// The digests of frames of keys, encryptions and results, which together use every operation.
fn digests() -> Vec<String> {
    let forms = [KeyStorage::Expanded, KeyStorage::Seeded];
    let specs = [TOY_LOGN12_DEPTH21, TOY_ONE_SPECIAL_PRIME];
    specs
        .into_iter()
        .flat_map(|spec| forms.into_iter().flat_map(move |storage| digests_of(spec, storage)))
        .collect()
}

fn digests_of(spec: ParamsSpec, storage: KeyStorage) -> Vec<String> {
    let params = spec.validate().unwrap();
    let (mut rng, top) = (rng(7), params.max_level());
    let secret = SecretKey::generate(&params, &mut rng);
    let public = ckks_secret::public_key(&secret, &mut rng);
    let id = public.id(&params);
    let relin = Arc::new(ckks_secret::relin_key(&secret, top, &mut rng).stored_as(storage));
    let mut keys = EvaluationKeys { relin: Some(relin.clone()), ..EvaluationKeys::default() };
    for k in [1, 2, 16] {
        let g = GaloisElement::rotation(&params, k);
        keys.galois
            .insert(g, Arc::new(ckks_secret::galois_key(&secret, g, top, &mut rng).stored_as(storage)));
    }
    let eval = Evaluator::new(params.clone(), keys);
    let mut frames =
        vec![ckks::write_public_key(&params, &public), ckks::write_key_switch_key(&params, id, None, &relin)];
    let (a, d) = (values(256, true, &mut rng), values(256, true, &mut rng));
    let m = Plaintext::encode(&params, &a, top).unwrap();
    let x = ckks_secret::encrypt(&secret, &m, &mut rng).expand(&secret);
    let y = ckks::encrypt(&params, &public, &m, &mut rng);
    let product = eval.mul(&x, &y).unwrap();
    let factor = eval.encode_factor(&d, top - 1).unwrap();
    let scaled = eval.mul_plain(&product, &factor).unwrap();
    let mut sum = eval.sum_of_rotations(&scaled, &[(0, false), (1, true), (2, false)]).unwrap();
    eval.neg_assign(&mut sum);
    eval.mul_i_assign(&mut sum);
    eval.sub_assign(&mut sum, &scaled).unwrap();
    let terms = vec![(0, 1, d.clone()), (1, 2, a), (1, 0, d)];
    let t = eval.encode_transform(&DiagonalTransform { giant: 16, terms }, top - 2).unwrap();
    let linear = eval.linear(&sum, &t).unwrap();
    let low = eval.adjust(&linear, 4).unwrap();
    let combined = eval.linear_combination(&[(0.5, &low), (-1.5, &linear)], 0.25).unwrap();
    let high = ckks_secret::recrypt(&secret, &combined, top, 256, &mut rng).unwrap();
    frames.push(high.to_bytes(&secret, id));
    let mut last = combined.clone();
    eval.add_constant_assign(&mut last, Complex64::new(0.5, -1.0)).unwrap();
    frames.extend(
        [x, y, product, scaled, sum, linear, low, combined, last]
            .iter()
            .map(|c| ckks::write_ciphertext(&params, id, c)),
    );
    let hex = |frame: &Vec<u8>| frame[frame.len() - 32..].iter().map(|b| format!("{b:02x}")).collect();
    frames.iter().map(hex).collect()
}

#[test]
fn results_do_not_depend_on_the_number_of_threads_or_how_keys_are_kept() {
    let in_pool =
        |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(digests);
    let one = in_pool(1);
    assert_eq!(one.len(), 4 * 12);
    for whole_and_seeded in one.chunks(24) {
        assert_eq!(whole_and_seeded[..12], whole_and_seeded[12..]);
    }
    for threads in [2, 4] {
        assert_eq!(in_pool(threads), one, "{threads} threads");
    }
}

/// Runs this test program again under every other version of the kernels that the CPU can run, and compares
/// the output. On a CPU with the portable version alone the test proves nothing.
#[test]
fn results_do_not_depend_on_the_kernel() {
    let others = rns::Kernel::ALL.into_iter().filter(|k| k.is_available() && *k != rns::kernels());
    let ours = digests();
    for kernel in others {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "determinism::print_digests", "--ignored", "--nocapture"]);
        let out = child.env("RNS_KERNEL", kernel.to_string()).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let theirs: Vec<&str> = text.lines().filter_map(|l| l.split("digest ").nth(1)).collect();
        let switched = text.contains(&format!("kernel {kernel}\n"));
        assert!(out.status.success() && switched, "the child did not switch kernels: {text}");
        assert_eq!(theirs, ours, "{kernel}");
    }
}

#[test]
#[ignore = "run by results_do_not_depend_on_the_kernel, in a process of its own"]
fn print_digests() {
    println!("\nkernel {}", rns::kernels());
    digests().iter().for_each(|d| println!("digest {d}"));
}
