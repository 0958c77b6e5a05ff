//! Secrets, encryptions and frames that another program made (`tests/vectors/generate.py`), and extreme
//! parameters.

use crate::common::{rng, values};
use ckks::{Error, FrameHeader, FrameKind, KeyId, ParamsSpec, Plaintext, Security};
use ckks_secret::{SecretKey, measure};
use num_complex::Complex64;
use serde_json::Value;

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

fn hex(v: &Value) -> Vec<u8> {
    let digits = v.as_str().unwrap().as_bytes();
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    digits.chunks_exact(2).map(|c| digit(c[0]) << 4 | digit(c[1])).collect()
}

/// An encryption of another program decrypts. This pins the roots of unity, the masks, the order of the
/// transform, the packing and the encoding.
#[test]
fn an_encryption_made_elsewhere_decrypts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/v1/frame_good.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let params = SMALL.validate().unwrap();
    let (secret, id) = SecretKey::from_bytes(&params, &hex(&all["secret"])).unwrap();
    assert_eq!(id.0[..], hex(&all["key"]));
    assert_eq!(secret.to_bytes(id)[..], hex(&all["secret"]));
    let level = all["level"].as_u64().unwrap() as usize;
    let ct = ckks::read_ciphertext(&params, id, level, &hex(&all["seeded"])).unwrap();
    let want: Vec<Complex64> = (all["slots"].as_array().unwrap().iter())
        .map(|z| Complex64::new(z[0].as_f64().unwrap(), z[1].as_f64().unwrap()))
        .collect();
    // A slot sums sixteen coefficients with errors of standard deviation 3.2; the bound is six times
    // √16·3.2/2²⁵.
    let p = measure(&secret, &ct, &want);
    assert!(p.worst_bits > 18.7, "{p}");
}

#[test]
fn secret_frames_with_a_foreign_header_or_content_are_refused() {
    let params = SMALL.validate().unwrap();
    let (id, n) = (KeyId([1; 16]), params.n());
    let good = FrameHeader { kind: FrameKind::SecretKey, level: 0, parts: 1, element: 0, scale: 0.0 };
    let read = |header, payload: &[u8]| {
        let frame = ckks::write_frame(&params, id, header, payload.len(), |out| out.extend(payload));
        SecretKey::from_bytes(&params, &frame).map(|_| ())
    };
    let ones = vec![0b10_01_00_01u8; n / 4];
    assert!(read(good, &ones).is_ok());
    for bad in [
        FrameHeader { level: 1, ..good },
        FrameHeader { parts: 2, ..good },
        FrameHeader { element: 1, ..good },
        FrameHeader { scale: 1.0, ..good },
        FrameHeader { scale: -0.0, ..good },
    ] {
        assert!(matches!(read(bad, &ones), Err(ckks_secret::Error::BadSecretKey(_))), "{bad:?}");
    }
    let kind = FrameHeader { kind: FrameKind::PublicKey, ..good };
    assert!(matches!(read(kind, &ones), Err(ckks_secret::Error::Ckks(Error::BadFrame(_)))));
    let mut three = ones.clone();
    three[17] = 0b11_01_00_01;
    for bad in [&ones[1..], &[], &[&ones[..], &[1]].concat(), &three] {
        assert!(matches!(read(good, bad), Err(ckks_secret::Error::BadSecretKey(_))));
    }
}

/// Three limbs of 50 bits exceed 127 bits, so decryption must read fewer.
#[test]
fn the_widest_primes_decrypt_at_every_level() {
    let spec = ParamsSpec { log_q0: 50, log_scale: 48, depth: 4, log_p: &[50, 50], ..SMALL };
    let params = spec.validate().unwrap();
    let mut rng = rng(60);
    let secret = SecretKey::generate(&params, &mut rng);
    let v: Vec<Complex64> = values(64, true, &mut rng).iter().map(|z| z * 0.5).collect();
    for level in 0..=params.max_level() {
        let m = Plaintext::encode(&params, &v, level).unwrap();
        let ct = ckks_secret::encrypt(&secret, &m, &mut rng).expand(&secret);
        let p = measure(&secret, &ct, &v);
        assert!(p.worst_bits > 38.0, "level {level}: {p}");
    }
}
