//! Encodings and frames that other programs made. `tests/vectors/generate.py` made them; these tests read
//! only its JSON files.

use ckks::{Encoder, Error, KeyId, KeySwitchKey, Params, ParamsSpec, Security};
use num_complex::Complex64;
use serde_json::Value;

/// The parameters of the frames, in the smallest ring.
const SMALL: ParamsSpec = ParamsSpec {
    name: "toy-known-answers",
    log_n: 10,
    log_q0: 35,
    depth: 2,
    log_scale: 25,
    log_p: &[42],
    products: ckks::Products::Rescaled,
    security: Security::None,
};

fn vectors(name: &str) -> Value {
    let path = format!("{}/../../tests/vectors/v1/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let value: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(value["maker"].as_str().is_some_and(|m| m.contains(char::is_numeric)), "who made {name}?");
    value
}

fn list(v: &Value) -> &[Value] {
    v.as_array().unwrap()
}

fn slots(v: &Value) -> Vec<Complex64> {
    list(v).iter().map(|z| Complex64::new(z[0].as_f64().unwrap(), z[1].as_f64().unwrap())).collect()
}

fn hex(v: &Value) -> Vec<u8> {
    let digits = v.as_str().unwrap().as_bytes();
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    digits.chunks_exact(2).map(|c| digit(c[0]) << 4 | digit(c[1])).collect()
}

fn key(v: &Value) -> KeyId {
    KeyId(hex(v).try_into().unwrap())
}

fn variant(e: &Error) -> String {
    format!("{e:?}").split([' ', '(', '{']).next().unwrap().to_string()
}

/// Every integer coefficient equals that of the other encoder, and decoding returns the slots.
fn assert_encodes(name: &str) {
    let all = vectors(name);
    assert!(!list(&all["cases"]).is_empty());
    for case in list(&all["cases"]) {
        let (log_n, slots) = (case["log_n"].as_u64().unwrap() as u32, slots(&case["slots"]));
        let scale = f64::from(case["log_scale"].as_u64().unwrap() as u32).exp2();
        // The coefficients of 1, X^gap, X^2gap, …; all others are zero.
        let want: Vec<i64> = list(&case["integers"]).iter().map(|x| x.as_i64().unwrap()).collect();
        let (n, encoder) = (1usize << log_n, Encoder::new(log_n));
        assert_eq!(encoder.integers(&slots, scale).unwrap(), want, "{name}, N = 2^{log_n}");
        let mut coefficients = vec![0.0; n];
        want.iter().enumerate().for_each(|(k, &x)| coefficients[k * n / want.len()] = x as f64 / scale);
        let back = encoder.slots(&coefficients, slots.len());
        let worst = back.iter().zip(&slots).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
        // Each coefficient has an error of at most 1/2, and these errors add up in a slot.
        assert!(worst <= want.len() as f64 / 2.0 / scale, "{name}: {worst}");
    }
}

/// SEAL orders slots by powers of 3. The generator has reordered them by powers of 5.
#[test]
fn encodings_equal_seals() {
    assert_encodes("encode_seal");
}

#[test]
fn encodings_equal_the_definition_in_sixty_digits() {
    assert_encodes("encode_mpmath");
}

/// Primes, scales and fingerprint equal those that another program derived from the description.
#[test]
fn parameters_equal_those_derived_elsewhere() {
    let all = vectors("frame_good");
    let params = SMALL.validate().unwrap();
    let primes: Vec<u64> = list(&all["primes"]).iter().map(|q| q.as_u64().unwrap()).collect();
    let scales: Vec<f64> = list(&all["scales"]).iter().map(|s| s.as_f64().unwrap()).collect();
    assert_eq!(params.qp_basis(params.max_level()).primes().collect::<Vec<_>>(), primes);
    assert_eq!((0..=params.max_level()).map(|l| params.scale(l)).collect::<Vec<_>>(), scales);
    assert_eq!(params.fingerprint().to_string(), all["fingerprint"].as_str().unwrap());
}

/// The sets of sums, for which frames are truncated, have the primes and fingerprints that were derived
/// elsewhere.
#[test]
fn sets_of_sums_equal_those_derived_elsewhere() {
    let all = vectors("frame_truncated");
    assert_eq!(list(&all["sums"]).len(), ParamsSpec::sums().len());
    for (spec, want) in ParamsSpec::sums().iter().zip(list(&all["sums"])) {
        let params = spec.validate().unwrap();
        let got = (spec.name, params.prime(0), params.fingerprint().to_string());
        let [name, fingerprint] = ["name", "fingerprint"].map(|field| want[field].as_str().unwrap());
        assert_eq!(got, (name, want["prime"].as_u64().unwrap(), fingerprint.to_string()));
    }
}

/// A frame of another program is read, is written again with the same bytes, and its c₁ is expanded from the
/// seed as there.
#[test]
fn ciphertext_frames_equal_those_written_elsewhere() {
    let (all, params) = (vectors("frame_good"), SMALL.validate().unwrap());
    let (id, level) = (key(&all["key"]), all["level"].as_u64().unwrap() as usize);
    let bytes = hex(&all["seeded"]);
    let ct = ckks::read_ciphertext(&params, id, level, &bytes).unwrap();
    let seed: [u8; 32] = bytes[56..88].try_into().unwrap();
    assert!(*ct.c1() == ckks::uniform_c1(&params, level, &seed));
    let again = ckks::write_seeded_ciphertext(&params, id, ct.c0(), &seed, level, ct.scale());
    assert!(again == bytes);
    // The digest covers all of c₀ and c₁.
    let full = ckks::write_ciphertext(&params, id, &ct);
    assert_eq!(full[full.len() - 32..], hex(&all["full_digest"]));
    assert!(ckks::read_ciphertext(&params, id, level, &full).unwrap() == ct);
}

/// Some coefficients of c₀ and all of c₁ are those that another program wrote, and give the same bytes when
/// they are written. Frames with one fault are refused.
#[test]
fn truncated_frames_equal_those_written_elsewhere() {
    let (all, params) = (vectors("frame_truncated"), SMALL.validate().unwrap());
    let (id, level, good) = (key(&all["key"]), all["level"].as_u64().unwrap() as usize, hex(&all["good"]));
    let c0: Vec<Vec<u64>> = serde_json::from_value(all["c0"].clone()).unwrap();
    let count = c0[0].len();
    assert_eq!(good.len(), ckks::truncated_ciphertext_bytes(&params, level, count));
    let read =
        |bytes: &[u8]| ckks::read_truncated_ciphertext(&params, id, level, params.scale(level), count, bytes);
    let ct = read(&good).unwrap();
    assert!(*ct.c1() == ckks::uniform_c1(&params, level, &hex(&all["seed"]).try_into().unwrap()));
    let coefficients = ct.c0().truncated(level + 1).into_coeff(params.q_basis(level));
    for (i, want) in c0.iter().enumerate() {
        let (first, rest) = coefficients.limb(i).split_at(count);
        assert!(first == want && rest.iter().all(|x| *x == 0));
    }
    assert!(ckks::write_truncated_ciphertext(&params, id, &ct, count) == good);
    let behind = good.len() - hex(&list(&all["cases"])[0]["rest"]).len();
    for case in list(&all["cases"]) {
        let [header, first, rest] = ["header", "first", "rest"].map(|part| hex(&case[part]));
        let bad = [header.as_slice(), &first, &good[64..behind], &rest];
        let name = case["name"].as_str().unwrap();
        assert_eq!(variant(&read(&bad.concat()).expect_err(name)), case["error"].as_str().unwrap(), "{name}");
    }
    for (count, level) in [(count - 1, level), (count + 1, level), (count, 0), (count, 2)] {
        assert!(
            ckks::read_truncated_ciphertext(&params, id, level, params.scale(level), count, &good).is_err()
        );
    }
    let beyond =
        ckks::read_truncated_ciphertext(&params, id, level, params.scale(level), params.n() + 1, &good);
    assert!(matches!(beyond, Err(Error::CoefficientCount { .. })));
}

/// Masks for primes of three to seven bytes, and for every digit and limb of a key. No two share a stream.
#[test]
fn seeds_stand_for_the_same_residues_elsewhere() {
    let (all, params) = (vectors("uniform"), SMALL.validate().unwrap());
    let seed: [u8; 32] = hex(&all["seed"]).try_into().unwrap();
    let digest = |limb: &[u64]| {
        let bytes: Vec<u8> = limb.iter().flat_map(|x| x.to_le_bytes()).collect();
        blake3::hash(&bytes).to_hex().to_string()
    };
    assert_eq!(list(&all["limbs"]).len(), 7);
    for case in list(&all["limbs"]) {
        let number = |name: &str| case[name].as_u64().unwrap();
        let mut limb = vec![0; params.n()];
        let m = rns::Modulus::new(number("prime")).unwrap();
        rns::sample::uniform_limb(&m, number("stream") as usize, &seed, &mut limb);
        let first: Vec<u64> = list(&case["first"]).iter().map(|x| x.as_u64().unwrap()).collect();
        assert_eq!(limb[..4], first, "modulo {}", m.value());
        assert_eq!(digest(&limb), case["digest"].as_str().unwrap(), "modulo {}", m.value());
    }
    let top = params.max_level();
    for (digit, want) in list(&all["masks"]).iter().enumerate() {
        let mask = KeySwitchKey::mask(&params, top, digit, &seed);
        let got: Vec<String> = (0..mask.limbs()).map(|i| digest(mask.limb(i))).collect();
        let want: Vec<&str> = list(want).iter().map(|d| d.as_str().unwrap()).collect();
        assert_eq!(got, want, "digit {digit}");
    }
}

#[test]
fn public_key_frames_equal_those_written_elsewhere() {
    let (all, params) = (vectors("frame_good_public_key"), SMALL.validate().unwrap());
    let bytes = hex(&all["frame"]);
    let (public, id) = ckks::read_public_key(&params, &bytes).unwrap();
    assert_eq!(id, key(&all["key"]));
    assert!(ckks::write_public_key(&params, &public) == bytes);
}

#[test]
fn bad_ciphertext_frames_are_refused() {
    let (all, params) = (vectors("frame_bad_ciphertexts"), SMALL.validate().unwrap());
    let (id, level, good) = (key(&all["key"]), all["level"].as_u64().unwrap() as usize, hex(&all["good"]));
    assert!(ckks::read_ciphertext(&params, id, level, &good).is_ok());
    assert!(list(&all["cases"]).len() >= 20);
    for case in list(&all["cases"]) {
        let mut bad = good.clone();
        bad.resize(case["length"].as_u64().unwrap() as usize, 0);
        for patch in list(&case["patches"]) {
            let (at, bytes) = (patch[0].as_u64().unwrap() as usize, hex(&patch[1]));
            bad[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let name = &case["name"];
        assert!(bad != good, "{name}");
        let error = ckks::read_ciphertext(&params, id, level, &bad).expect_err(name.as_str().unwrap());
        assert_eq!(variant(&error), case["error"].as_str().unwrap(), "{name}");
    }
}

#[test]
fn bad_public_key_frames_are_refused() {
    let params: Params = SMALL.validate().unwrap();
    let good = hex(&vectors("frame_good_public_key")["frame"]);
    let all = vectors("frame_bad_public_keys");
    assert!(!list(&all["cases"]).is_empty());
    for case in list(&all["cases"]) {
        let mut bad = good.clone();
        let end = bad.len() - 32;
        bad[..56].copy_from_slice(&hex(&case["header"]));
        bad[end..].copy_from_slice(&hex(&case["digest"]));
        let name = case["name"].as_str().unwrap();
        let error = ckks::read_public_key(&params, &bad).map(|_| ()).expect_err(name);
        assert_eq!(variant(&error), case["error"].as_str().unwrap(), "{name}");
    }
}
